/* simrun.c - checks one kernel of a file of PTX in the simulator (docs/simulator.md).
 *
 *     simrun FILE.ptx [--entry NAME] [--grid X,Y,Z] [--block X,Y,Z] [--cluster X,Y,Z]
 *            [--shared BYTES] [--seed N] [--seeds N] [--threads N] [--no-check] [--banks] [--lines]
 *            [--steps N] [--expect KIND] [--strict] [--late] [--sarif FILE] [--suppress FILE]
 *            [--seconds] ARG...
 *
 * Arguments, in the order of the kernel's parameters; launch_args.h lists their forms.  A tensor
 * map, 128 bytes, is map:TYPE:SWIZZLE:SIZES:BOX:BUFFER.  TYPE: bf16, f32, .., +nan fills with NaN
 * (bf16+nan);
 * SWIZZLE: 0, 32, 64, 128; SIZES: 64x128, innermost first, dense, or 64x128@256 with the strides in
 * bytes of all dimensions but the first; BOX: 64x16, or 64x16/1x2 with element strides; BUFFER: one
 * of the others.  The fields of a structure are words that follow, @OFFSET=ARG, ARG any of the
 * forms; what no field covers is 0.
 *
 * Exit status: that of SimStatus: 3 when there is a fault, 0 also when there are notes; --strict
 * makes faults of notes.  --expect KIND: 0 if a fault of that kind was found under some seed, else
 * 2.  --seconds: how long the simulator takes, and instructions (how long a chip would: tilerun
 * --time). --sarif FILE: the findings as SARIF 2.1.0; --suppress FILE: lines KIND FILE:LINE of
 * findings that are known. --late: some warps run as late as they can, which finds hangs and phases
 * that a warp misses. --banks: passes of shared memory by line; --lines: of all lines that ran.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "launch_args.h"
#include "sim.h"

enum { MAX_WORDS = 1024 };

typedef struct Options {
    SimLaunch launch;
    const char *file, *expect;
    SimSuppressions *known;
    FILE *sarif;
    size_t reported; /* findings in it */
    uint64_t seeds;
    bool seconds, banks, lines;
    bool notes_shown;            /* by a seed before: a clean one does not repeat them */
    const char *word[MAX_WORDS]; /* the arguments */
    size_t count;
} Options;

static _Noreturn void
die(const char *what, const char *name)
{
    fprintf(stderr, "simrun: %s: %s\n", what, name);
    exit(1);
}

static char *
read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    size_t capacity = 1 << 16, used = 0, n;
    char *text = malloc(capacity);
    if (!f || !text)
        die("cannot read", path);
    while ((n = fread(text + used, 1, capacity - used, f)) > 0) {
        used += n;
        if (used == capacity && !(text = realloc(text, capacity *= 2)))
            die("out of memory", path);
    }
    fclose(f);
    *size = used;
    return text;
}

static SimSuppressions *
read_known(const char *path)
{
    size_t size;
    char *text = read_whole(path, &size);
    SimError error = {.message = "out of memory"};

    text[size] = '\0';
    SimSuppressions *known = sim_suppressions_read(text, &error);
    free(text);
    if (!known) {
        fprintf(stderr, "simrun: %s:%u: %s\n", path, error.line, error.message);
        exit(1);
    }
    return known;
}

static void
begin_sarif(Options *o, const char *path)
{
    o->sarif = fopen(path, "wb");
    if (!o->sarif)
        die("cannot write", path);
    sim_sarif_begin(o->sarif);
}

static void
triple(const char *text, uint32_t out[3])
{
    unsigned v[3] = {1, 1, 1};
    sscanf(text, "%u,%u,%u", &v[0], &v[1], &v[2]);
    for (int i = 0; i < 3; i++)
        out[i] = v[i];
}

static void
parse(Options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(a, "--no-check") == 0)
            o->launch.checks = false;
        else if (strcmp(a, "--strict") == 0)
            o->launch.strict = true;
        else if (strcmp(a, "--late") == 0)
            o->launch.late = true;
        else if (strcmp(a, "--seconds") == 0)
            o->seconds = true;
        else if (strcmp(a, "--time") == 0)
            die("a chip's time is tilerun's (tilerun --time sm_90); the simulator's own: --seconds",
                a);
        else if (strcmp(a, "--banks") == 0)
            o->banks = o->launch.count_banks = true;
        else if (strcmp(a, "--lines") == 0)
            o->lines = o->launch.count_banks = true;
        else if (strncmp(a, "--", 2) == 0) {
            i++;
            if (strcmp(a, "--entry") == 0)
                o->launch.entry = next;
            else if (strcmp(a, "--grid") == 0)
                triple(next, o->launch.grid);
            else if (strcmp(a, "--block") == 0)
                triple(next, o->launch.block);
            else if (strcmp(a, "--cluster") == 0)
                triple(next, o->launch.cluster);
            else if (strcmp(a, "--shared") == 0)
                o->launch.dynamic_shared = (uint32_t)strtoul(next, NULL, 0);
            else if (strcmp(a, "--seed") == 0)
                o->launch.seed = strtoull(next, NULL, 0);
            else if (strcmp(a, "--seeds") == 0)
                o->seeds = strtoull(next, NULL, 0);
            else if (strcmp(a, "--threads") == 0)
                o->launch.threads = (uint32_t)strtoul(next, NULL, 0);
            else if (strcmp(a, "--steps") == 0)
                o->launch.step_limit = strtoull(next, NULL, 0);
            else if (strcmp(a, "--expect") == 0)
                o->expect = next;
            else if (strcmp(a, "--suppress") == 0)
                o->known = read_known(next);
            else if (strcmp(a, "--sarif") == 0)
                begin_sarif(o, next);
            else
                die("unknown option", a);
        } else if (!o->file) {
            o->file = a;
        } else if (o->count < MAX_WORDS) {
            o->word[o->count++] = a;
        } else {
            die("too many arguments", a);
        }
    }
    if (!o->file)
        die("no file is given", "usage: simrun FILE.ptx [options] ARG...");
}

static void
print_banks(const SimReport *report, bool all)
{
    for (size_t i = 0; i < report->line_count; i++) {
        const SimLine *l = &report->lines[i];
        if (l->wavefronts || all)
            printf("line %u %s: %llu executed, %llu wavefronts, %llu ideal\n", l->ptx_line,
                   l->mnemonic, (unsigned long long)l->executed, (unsigned long long)l->wavefronts,
                   (unsigned long long)l->ideal);
    }
}

/* ------------------------------------------------------------------------ arguments */

static void
make_map(LaunchArgs *args, const LaunchMap *m)
{
    SimTensorMap map = {.type = m->type,
                        .rank = m->rank,
                        .swizzle = m->swizzle,
                        .fill = m->fill,
                        .address = (m->in_buffer ? args->buffer[m->buffer].address : 0) + m->plus};
    SimError error;
    map.im2col = m->im2col;
    memcpy(map.lower, m->lower, sizeof map.lower);
    memcpy(map.upper, m->upper, sizeof map.upper);
    for (uint32_t i = 0; i < m->rank; i++) {
        map.size[i] = m->size[i];
        map.box[i] = m->box[i];
        map.element_stride[i] = m->step[i];
        if (i + 1 < m->rank)
            map.stride[i] = m->stride[i];
    }
    if (!sim_tensor_map_encode(&map, launch_args_at(args, m->at), &error))
        die(error.message, "map");
}

/* Buffers in the device's memory, their addresses and maps in the values. */
static void
make_args(LaunchArgs *args, SimDevice *dev, const SimEntry *entry, const Options *o)
{
    if (!launch_args_read(args, o->word, o->count)) {
        fprintf(stderr, "simrun: %s\n", args->error);
        exit(1);
    }
    for (size_t i = 0; i < args->buffer_count; i++) {
        LaunchBuffer *b = &args->buffer[i];
        b->address = sim_alloc(dev, b->bytes, b->name);
        if (!b->address)
            die("no room for a buffer", b->name);
    }
    for (size_t i = 0; i < args->address_count; i++) {
        const LaunchAddress *a = &args->address[i];
        uint64_t address = args->buffer[a->buffer].address + a->plus;
        memcpy(launch_args_at(args, a->at), &address, sizeof address);
    }
    for (size_t i = 0; i < args->map_count; i++)
        make_map(args, &args->map[i]);
    for (size_t i = 0; i < args->buffer_count; i++)
        if (args->buffer[i].content)
            sim_write(dev, args->buffer[i].address, args->buffer[i].content, args->buffer[i].bytes);
    for (size_t i = 0; entry && i < args->value_count && i < entry->param_count; i++)
        if (!launch_args_fits(args, i, entry->params[i].size, entry->params[i].name)) {
            fprintf(stderr, "simrun: %s\n", args->error);
            exit(1);
        }
}

static void
save_buffers(const LaunchArgs *args, SimDevice *dev)
{
    for (size_t i = 0; i < args->buffer_count; i++) {
        const LaunchBuffer *b = &args->buffer[i];
        if (!b->output)
            continue;
        char *content = malloc(b->bytes ? b->bytes : 1);
        if (!content || !sim_read(dev, b->address, content, b->bytes))
            die("out of memory", b->output);
        FILE *f = fopen(b->output, "wb"); /* now that there is something to write */
        if (!f || fwrite(content, 1, b->bytes, f) != b->bytes || fclose(f) != 0)
            die("cannot write", b->output);
        free(content);
    }
}

/* What all seeds have in common. */
typedef struct Job {
    SimDevice *dev;
    SimModule *mod;
    LaunchArgs args;
    void *value[LAUNCH_ARGS_MOST];
    SimSaved *before; /* what lies in memory before a launch */
} Job;

static bool
prepare(Options *o, const char *text, size_t size, Job *job)
{
    SimError error = {.message = "out of memory"};
    job->dev = sim_device_new();
    job->mod = job->dev ? sim_module_load(job->dev, text, size, o->file, &error) : NULL;
    if (!job->mod) {
        fprintf(stderr, "%s:%u: error: %s\n", o->file, error.line, error.message);
        return false;
    }
    make_args(&job->args, job->dev, sim_entry_find(job->mod, o->launch.entry), o);
    for (size_t i = 0; i < job->args.value_count; i++)
        job->value[i] = job->args.value[i].bytes;
    o->launch.args = job->value;
    o->launch.arg_count = job->args.value_count;
    if (o->seeds > 1 && !(job->before = sim_device_save(job->dev)))
        die("out of memory", o->file);
    return true;
}

/* One seed, from buffers and variables as they were at first.  Only the last one writes files. */
static int
run_once(Options *o, const Job *job, bool is_last, bool *expected)
{
    struct timespec from, to;
    if (job->before)
        sim_device_restore(job->dev, job->before);
    clock_gettime(CLOCK_MONOTONIC, &from);
    SimReport *report = sim_launch(job->mod, &o->launch);
    clock_gettime(CLOCK_MONOTONIC, &to);
    if (!report)
        die("out of memory", o->file);
    size_t known = o->known ? sim_report_suppress(report, o->known, o->file) : 0;
    if (known)
        printf("%zu finding%s suppressed\n", known, known == 1 ? "" : "s");
    if (o->sarif && (report->status || !o->notes_shown))
        o->reported = sim_sarif_add(o->sarif, report, o->file, o->reported);
    for (size_t i = 0; i < report->finding_count; i++)
        if (o->expect && report->findings[i].level == SIM_FAULT &&
            strcmp(sim_finding_name(report->findings[i].kind), o->expect) == 0)
            *expected = true;
    bool printed = !o->expect || report->status == SIM_STATUS_ERROR;
    if (printed && (report->status || !o->notes_shown))
        sim_report_print(report, stdout);
    if (printed && report->status == SIM_STATUS_FINDINGS && report->finding_count) {
        char rule[SIM_RULE_LENGTH];
        sim_finding_rule(report->findings[0].kind, rule); /* faults come first */
        printf("tilec explain %s: what it means, and what mends it\n", rule);
    }
    o->notes_shown |= report->finding_count > 0;
    if (o->seconds)
        printf("%.3f s, %llu warp instructions\n",
               (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec),
               (unsigned long long)report->instructions);
    if (o->banks || o->lines)
        print_banks(report, o->lines);
    int status = (int)report->status;
    if (status != SIM_STATUS_ERROR && (is_last || (o->expect ? *expected : status != 0)))
        save_buffers(&job->args, job->dev);
    sim_report_free(report);
    return status;
}

/* What was suppressed in vain may hide a mistake of its line. */
static void
end_outputs(Options *o)
{
    size_t from = 0;

    for (uint32_t line; o->known && (line = sim_suppression_unused(o->known, &from));)
        fprintf(stderr, "simrun: note: line %u of the suppressions matched nothing\n", line);
    sim_suppressions_free(o->known);
    if (o->sarif) {
        sim_sarif_end(o->sarif);
        if (fclose(o->sarif) != 0)
            die("cannot write", "the SARIF file");
    }
}

int
main(int argc, char **argv)
{
    Options o = {.launch = sim_launch_defaults(), .seeds = 1};
    size_t size;
    bool expected = false;
    Job job = {NULL};
    int status = 0;
    sim_keep_memory();
    parse(&o, argc, argv);
    char *text = read_whole(o.file, &size);
    if (!prepare(&o, text, size, &job))
        status = SIM_STATUS_ERROR;
    for (uint64_t i = 0;
         i < o.seeds && status != SIM_STATUS_ERROR && (status == 0 || (o.expect && !expected));
         i++) {
        status = run_once(&o, &job, i + 1 == o.seeds, &expected);
        if (status && status != SIM_STATUS_ERROR && !o.expect)
            printf("(seed %llu)\n", (unsigned long long)o.launch.seed);
        o.launch.seed++;
        o.launch.seeds_before++;
    }
    end_outputs(&o);
    sim_saved_free(job.before);
    launch_args_free(&job.args);
    sim_device_free(job.dev);
    free(text);
    return o.expect && status != SIM_STATUS_ERROR ? (expected ? 0 : 2) : status;
}
