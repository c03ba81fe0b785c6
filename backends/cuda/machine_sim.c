/* machine_sim.c - a Machine over the simulator (backends/sim/sim.h). */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "backends/cuda/machine.h"

#ifdef TILERUN_HAS_SIM

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/clock/clock.h"
#include "backends/clock/clock_code.h"
#include "backends/clock/clock_deal.h"
#include "backends/clock/clock_path.h"
#include "backends/sim/sim.h"
#include "compiler/base/bar.h"
#include "compiler/base/whole_file.h"

typedef struct Simulator {
    SimDevice *device;
    SimModule *module;
    Arena *arena;     /* of the command line */
    CodeKernels code; /* machine code, for the clock */
    const char *no_code;
    ClockFact *rows; /* of the clock's table, changed by the command line */
    ClockPicture picture;
} Simulator;

static bool
from_error(const SimError *error, const char *path, Fault *fault)
{
    if (error->line)
        return fault_set(fault, "%s:%u: %s", path, (unsigned)error->line, error->message);
    return fault_set(fault, "%s: %s", path, error->message);
}

/* The chip whose time is asked for runs code of this `.target`. */
static bool
has_time(const Machine *machine, const char *target, const char *path, Fault *fault)
{
    Fault why = {0};
    long chip = machine->clock != NULL ? strtol(machine->clock + strlen("sm_"), NULL, 10) : 0;

    if (machine->clock == NULL ||
        launch_check_arch(target, (int)(chip / 10), (int)(chip % 10), &why))
        return true;
    return fault_set(fault, "%s: --time %s: %s", path, machine->clock, why.text);
}

static bool
sim_load(Machine *machine, const char *image, size_t n, const char *path, Fault *fault)
{
    Simulator *sim = machine->state;
    SimError error = {0};

    if (n >= 4 && image[0] == '\x7f' && image[1] == 'E')
        return fault_set(fault, "%s is a cubin: the simulator runs PTX text", path);
    sim->module = sim_module_load(sim->device, image, n, path, &error);
    return sim->module ? has_time(machine, sim_module_target(sim->module), path, fault)
                       : from_error(&error, path, fault);
}

static char *
sim_global(Machine *machine, Arena *arena, const char *name, size_t *bytes, Fault *fault)
{
    Simulator *sim = machine->state;
    uint64_t address = sim_global_find(sim->module, name, bytes);

    if (!address) {
        fault_set(fault, "the module has no variable '%s'", name);
        return NULL;
    }
    char *data = arena_alloc(arena, *bytes + 1);
    if (sim_read(sim->device, address, data, *bytes))
        return data;
    fault_set(fault, "the variable '%s' cannot be read", name);
    return NULL;
}

static bool
sim_check_arch(Machine *machine, const char *arch, Fault *fault)
{
    (void)machine;
    (void)arch;
    (void)fault;
    return true; /* the simulator is every GPU */
}

static bool
sim_allocate(Machine *machine, size_t bytes, const char *name, uint64_t *address, Fault *fault)
{
    Simulator *sim = machine->state;

    *address = sim_alloc(sim->device, bytes ? bytes : 1, name);
    return *address || fault_set(fault, "%s: the simulator is out of memory", name);
}

static bool
sim_copy_in(Machine *machine, uint64_t address, const void *from, size_t bytes, Fault *fault)
{
    Simulator *sim = machine->state;

    return bytes == 0 || sim_write(sim->device, address, from, bytes) ||
           fault_set(fault, "the simulator's memory cannot be written");
}

static bool
sim_copy_out(Machine *machine, uint64_t address, void *to, size_t bytes, Fault *fault)
{
    Simulator *sim = machine->state;

    return bytes == 0 || sim_read(sim->device, address, to, bytes) ||
           fault_set(fault, "the simulator's memory cannot be read");
}

static bool
sim_clear(Machine *machine, uint64_t address, size_t bytes, bool undefined, Fault *fault)
{
    Simulator *sim = machine->state;

    return bytes == 0 ||
           (sim_fill(sim->device, address, 0, bytes) &&
            sim_mark(sim->device, address, bytes, !undefined)) ||
           fault_set(fault, "the simulator's memory cannot be written");
}

static size_t
sim_count_written(Machine *machine, uint64_t address, size_t bytes)
{
    Simulator *sim = machine->state;

    return bytes ? sim_count_initialised(sim->device, address, bytes) : 0;
}

static bool
sim_make_map(Machine *machine, const TensorMapValues *map, void *out, Fault *fault)
{
    SimTensorMap values = {.type = map->type,
                           .rank = map->rank,
                           .address = map->address,
                           .swizzle = map->swizzle,
                           .l2_promotion = map->l2_promotion,
                           .fill = map->fill};
    SimError error;

    (void)machine;
    for (uint32_t d = 0; d < map->rank; d++) {
        values.size[d] = map->size[d];
        values.box[d] = map->box[d];
        values.element_stride[d] = map->step[d] ? map->step[d] : 1;
        if (d + 1 < map->rank)
            values.stride[d] = map->stride[d];
    }
    return sim_tensor_map_encode(&values, out, &error) || fault_set(fault, "%s", error.message);
}

/* Too few parameters, or too many, the launch itself refuses. */
static bool
check_sizes(const Simulator *sim, const LaunchReady *ready, Fault *fault)
{
    const SimEntry *entry = sim_entry_find(sim->module, ready->entry);

    for (uint32_t i = 0; entry && i < ready->n_args && i < entry->param_count; i++)
        if (entry->params[i].size != ready->arg_bytes[i])
            return fault_set(fault,
                             "%s: parameter %u has %u bytes, its argument %u: a type is wrong",
                             ready->entry, (unsigned)i, (unsigned)entry->params[i].size,
                             (unsigned)ready->arg_bytes[i]);
    return true;
}

/* ---- the clock ---- */

static uint32_t
product(const uint32_t of[3])
{
    return (of[0] ? of[0] : 1) * (of[1] ? of[1] : 1) * (of[2] ? of[2] : 1);
}

/* ",mufu=4": another figure than the table's. */
static bool
change_row(Simulator *sim, const char *at, size_t n)
{
    const char *value = memchr(at, '=', n);
    char *end = NULL;
    ClockRow row;

    if (value == NULL || !clock_row_named(at + 1, (size_t)(value - at - 1), &row))
        return false;
    sim->rows[row].value = strtod(value + 1, &end);
    return end == at + n && end > value + 1;
}

/* "sm_90,sample,ptx" */
bool
machine_sim_clock(Machine *machine, const char *target, Fault *fault)
{
    Simulator *sim = machine->state;
    size_t n = strcspn(target, ",");

    machine->clock = arena_strndup(sim->arena, target, n);
    sim->rows = clock_table(sim->arena, machine->clock);
    if (!sim->rows)
        return fault_set(fault,
                         "--time %s: there is no timing model of this target; of sm_90, sm_100 and "
                         "sm_103 there is",
                         machine->clock);
    for (const char *at = target + n; *at == ','; at += n) {
        n = 1 + strcspn(at + 1, ",");
        if (n == 7 && strncmp(at, ",sample", 7) == 0)
            machine->sample = true;
        else if (n == 5 && strncmp(at, ",path", 5) == 0)
            machine->clock_path = true;
        else if (n == 5 && strncmp(at, ",cold", 5) == 0)
            machine->clock_cold = true;
        else if (n == 4 && strncmp(at, ",ptx", 4) == 0)
            machine->from_ptx = true;
        else if (n > 6 && strncmp(at, ",json=", 6) == 0)
            machine->clock_json = arena_strndup(sim->arena, at + 6, n - 6);
        else if (n > 5 && strncmp(at, ",svg=", 5) == 0)
            machine->clock_svg = arena_strndup(sim->arena, at + 5, n - 5);
        else if (n > 7 && strncmp(at, ",trace=", 7) == 0)
            machine->clock_trace = arena_strndup(sim->arena, at + 7, n - 7);
        else if (n > 7 && strncmp(at, ",seeds=", 7) == 0 && at[7] >= '1' && at[7] <= '9')
            machine->clock_seeds = (uint32_t)strtoul(at + 7, NULL, 10);
        else if (!change_row(sim, at, n))
            return fault_set(
                fault,
                "--time %s: after the target there may be ,sample ,cold ,ptx ,path ,seeds=N ,json=FILE ,svg=FILE "
                ",trace=FILE and ,FIGURE=VALUE for a figure of the table (docs/timing.md)",
                target);
    }
    machine->sm_count = (uint32_t)sim->rows[CLOCK_SMS].value; /* of the table, or as told */
    return machine->sm_count > 0 ||
           fault_set(fault, "--time %s: sms is how many SMs the chip has, 1 at least", target);
}

void
machine_sim_code(Machine *machine, const char *listing, const char *why)
{
    Simulator *sim = machine->state;

    sim->no_code = why;
    if (listing != NULL)
        code_read(sim->arena, listing, &sim->code, &sim->no_code);
}

/* Of the clusters that the SMs get in turn, those of the first SM are kept. */
static uint64_t
trace_every(const Machine *machine, const LaunchReady *ready)
{
    uint32_t sms = machine->sm_count / product(ready->cluster);

    return !machine->clock ? 0 : sms ? sms : 1;
}

static void
add_json(const Machine *machine, const char *entry, const char *fields)
{
    FILE *file = fopen(machine->clock_json, "ab");

    if (!file) {
        fprintf(stderr, "tilerun: note: cannot write %s\n", machine->clock_json);
        return;
    }
    fprintf(file, "{\"kernel\": \"%s\", \"target\": \"%s\", %s}\n", entry, machine->clock, fields);
    fclose(file);
}

/* The launches so far; the file is there whole, or as it was. */
static void
write_picture(const Machine *machine, const Simulator *sim)
{
    Buf text;

    buf_init(&text, sim->arena);
    clock_svg_frame(buf_text(&sim->picture.body), sim->picture.y, &text);
    FilePart whole = {text.at, text.n};
    if (!whole_file_write(machine->clock_svg, &whole, 1))
        fprintf(stderr, "tilerun: note: cannot write %s\n", machine->clock_svg);
}

static void
write_trace(const Machine *machine, const Simulator *sim)
{
    Buf text;

    buf_init(&text, sim->arena);
    clock_trace_frame(buf_text(&sim->picture.events), &text);
    FilePart whole = {text.at, text.n};
    if (!whole_file_write(machine->clock_trace, &whole, 1))
        fprintf(stderr, "tilerun: note: cannot write %s\n", machine->clock_trace);
}

/* Of a sample that ran in turn: the SM that ends last, where that is another. */
static SimReport *
deal(const Machine *machine, const LaunchReady *ready, const SimLaunch *launch, ClockJob *job)
{
    const Simulator *sim = machine->state;
    DealJob dealt = {.arena = sim->arena,
                     .module = sim->module,
                     .launch = launch,
                     .trace = job->trace,
                     .clock = *job,
                     .clusters = product(ready->grid) / product(ready->cluster),
                     .sms = launch->trace_every};
    SimReport *report = clock_deal(&dealt, &job->dealt);

    if (report != NULL)
        job->trace = report->trace;
    return report;
}

/* The same where all blocks ran.  Memory is as it was before the launch for as long as the sample
 * runs; what the launch wrote comes back then. */
static SimReport *
deal_behind(const Machine *machine, const LaunchReady *ready, const SimLaunch *launch,
            const SimReport *whole, const SimSaved *before, ClockJob *job)
{
    const Simulator *sim = machine->state;
    uint64_t clusters = product(ready->grid) / product(ready->cluster);

    if (before == NULL || whole->trace->cluster_count == 0 ||
        (clusters <= launch->trace_every * job->resident &&
         whole->trace->clusters[0].drawn_count == 0))
        return NULL;
    SimLaunch sample = *launch;
    SimSaved *after = sim_device_save(sim->device);
    SimReport *report = NULL;

    if (after == NULL)
        return NULL;
    sim_device_restore(sim->device, before);
    sample.trace_only = true;
    sample.checks = false;
    sample.step_limit = whole->instructions; /* a block may wait for others, that do not run */
    sample.progress = NULL;
    SimReport *in_turn = sim_launch(sim->module, &sample);
    if (in_turn != NULL && in_turn->status == SIM_STATUS_OK && in_turn->trace != NULL) {
        ClockJob of = *job;
        of.trace = in_turn->trace;
        report = deal(machine, ready, &sample, &of);
        if (report != NULL)
            *job = of;
    }
    if (in_turn != NULL)
        sim_report_free(in_turn);
    sim_device_restore(sim->device, after);
    sim_saved_free(after);
    return report;
}

/* False: the replay broke. */
static bool
print_time(const Machine *machine, const LaunchReady *ready, const SimLaunch *launch,
           const SimReport *report, const SimSaved *before)
{
    Simulator *sim = machine->state;
    const SimEntry *entry = sim_entry_find(sim->module, ready->entry);
    ClockJob job = {.module = sim->module,
                    .name = ready->entry,
                    .trace = report->trace,
                    .rows = sim->rows,
                    .clusters = product(ready->grid) / product(ready->cluster),
                    .products = clock_products(machine->clock)};
    Buf text, json;

    if (!job.rows || !job.trace || !entry)
        return true;
    for (uint32_t k = 0; k < sim->code.n; k++) {
        if (strcmp(sim->code.at[k].name, ready->entry) == 0)
            job.code = &sim->code.at[k];
    }
    job.no_code = sim->no_code;
    job.seeds = machine->clock_seeds;
    job.path = machine->clock_path;
    job.cold = machine->clock_cold;
    if (machine->clock_svg != NULL && sim->picture.body.arena == NULL)
        buf_init(&sim->picture.body, sim->arena);
    if (machine->clock_trace != NULL && sim->picture.events.arena == NULL)
        buf_init(&sim->picture.events, sim->arena);
    if (machine->clock_svg != NULL || machine->clock_trace != NULL)
        job.picture = &sim->picture;
    uint64_t blocks = product(ready->grid);
    job.active = blocks < machine->sm_count ? (uint32_t)blocks : machine->sm_count;
    uint32_t registers = entry->max_registers == 0 && job.code != NULL ? job.code->registers
                                                                       : entry->max_registers;
    job.resident = clock_resident(job.rows, product(ready->block), registers,
                                  ready->shared + entry->static_shared);
    SimReport *dealt = machine->sample ? deal(machine, ready, launch, &job)
                                       : deal_behind(machine, ready, launch, report, before, &job);
    buf_init(&text, sim->arena);
    buf_printf(&text, "%s, modelled on %s:\n", ready->entry, machine->clock);
    const ClockFact *usual = clock_table(sim->arena, machine->clock);
    for (uint32_t k = 0; k < CLOCK_ROWS; k++) {
        if (sim->rows[k].value != usual[k].value)
            buf_printf(&text, "  with %s=%g in place of %g\n", clock_row_name((ClockRow)k),
                       sim->rows[k].value, usual[k].value);
    }
    buf_init(&json, sim->arena);
    bool whole = clock_report(sim->arena, &job, blocks, &text, machine->clock_json ? &json : NULL);
    fputs(text.at, stdout);
    if (machine->clock_json)
        add_json(machine, ready->entry, json.at);
    if (machine->clock_svg)
        write_picture(machine, sim);
    if (machine->clock_trace)
        write_trace(machine, sim);
    if (dealt != NULL)
        sim_report_free(dealt);
    return whole;
}

static void
show_progress(void *data, uint64_t done, uint64_t of)
{
    bar_show(data, done, of, " clusters, %.0f s", bar_seconds(data));
}

static RunStatus
sim_run(Machine *machine, const LaunchReady *ready, Fault *fault)
{
    Bar bar = bar_begin(!machine->progress);
    Simulator *sim = machine->state;
    SimLaunch launch = sim_launch_defaults();
    RunStatus status = RUN_OK;

    if (ready->grid[0] == 0 || ready->grid[1] == 0 || ready->grid[2] == 0)
        return RUN_OK;
    if (ready->by_hand && !check_sizes(sim, ready, fault))
        return RUN_FAULT;
    launch.entry = ready->entry;
    for (int d = 0; d < 3; d++) {
        launch.grid[d] = ready->grid[d];
        launch.block[d] = ready->block[d];
        launch.cluster[d] = ready->cluster[d];
    }
    launch.dynamic_shared = ready->shared;
    launch.args = ready->args;
    launch.arg_count = ready->n_args;
    launch.seed = machine->seed;
    launch.seeds_before = machine->seeds_before;
    launch.checks = !machine->no_checks;
    launch.strict = machine->strict;
    launch.late = machine->late;
    launch.trace_every = trace_every(machine, ready);
    launch.trace_only = machine->sample;
    launch.progress = bar.on ? show_progress : NULL;
    launch.progress_data = &bar;
    SimSaved *before = machine->clock && !machine->sample ? sim_device_save(sim->device) : NULL;
    SimReport *report = sim_launch(sim->module, &launch);
    bar_end(&bar);
    if (!report) {
        sim_saved_free(before);
        fault_set(fault, "out of memory");
        return RUN_FAULT;
    }
    if (report->status == SIM_STATUS_ERROR) {
        from_error(&report->error, ready->entry, fault);
        status = RUN_FAULT;
    } else if (report->finding_count) { /* faults, or notes only */
        fprintf(stderr, "%s, seed %llu:\n", ready->entry, (unsigned long long)machine->seed);
        sim_report_print(report, stderr);
        status = report->status == SIM_STATUS_FINDINGS ? RUN_FINDINGS : RUN_OK;
    }
    if (machine->clock && status != RUN_FAULT &&
        !print_time(machine, ready, &launch, report, before) && status == RUN_OK)
        status = RUN_UNTIMED;
    sim_saved_free(before);
    sim_report_free(report);
    return status;
}

static void
sim_close(Machine *machine)
{
    Simulator *sim = machine->state;

    sim_device_free(sim->device);
}

/* Few, and odd, so that persistent kernels go round and share their tiles unevenly. */
enum { SIM_SM_COUNT = 3, SIM_SM_SHARED = 228 * 1024 };

bool
machine_open_sim(Machine *machine, Arena *arena, Fault *fault)
{
    Simulator *sim = arena_new(arena, Simulator);

    sim->arena = arena;
    sim->device = sim_device_new();
    if (!sim->device)
        return fault_set(fault, "out of memory");
    *machine = (Machine){.name = "the simulator",
                         .state = sim,
                         .sm_count = SIM_SM_COUNT,
                         .sm_shared = SIM_SM_SHARED,
                         .load = sim_load,
                         .global = sim_global,
                         .check_arch = sim_check_arch,
                         .allocate = sim_allocate,
                         .write = sim_copy_in,
                         .read = sim_copy_out,
                         .clear = sim_clear,
                         .count_written = sim_count_written,
                         .make_map = sim_make_map,
                         .launch = sim_run,
                         .close = sim_close};
    return true;
}

#else

bool
machine_open_sim(Machine *machine, Arena *arena, Fault *fault)
{
    (void)machine;
    (void)arena;
    return fault_set(fault, "this tilerun was built without the simulator");
}

void
machine_sim_code(Machine *machine, const char *listing, const char *why)
{
    (void)machine;
    (void)listing;
    (void)why;
}

bool
machine_sim_clock(Machine *machine, const char *target, Fault *fault)
{
    (void)machine;
    (void)target;
    return fault_set(fault, "this tilerun was built without the simulator");
}

#endif
