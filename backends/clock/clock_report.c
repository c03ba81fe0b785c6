/* clock_report.c - what a replay came to, in words. */
#include "backends/clock/clock.h"
#include "backends/clock/clock_whatif.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 5, MOST_SEEDS = 32, MOST_LINES = 12 };

typedef struct ClockTarget {
    const char *name;
    const ClockFact *rows;
    const ClockChange *changes;   /* NULL: none */
    const ClockProduct *products; /* NULL: none */
} ClockTarget;

static const ClockTarget *
target_named(const char *name)
{
    static const ClockTarget targets[] = {{"sm_80", sm80_clock, NULL, NULL},
                                          {"sm_86", sm80_clock, sm86_clock, NULL},
                                          {"sm_89", sm80_clock, sm89_clock, NULL},
                                          {"sm_120", sm80_clock, sm120_clock, NULL},
                                          {"sm_90", sm90_clock, NULL, NULL},
                                          {"sm_100", sm100_clock, NULL, sm100_products},
                                          {"sm_103", sm100_clock, sm103_clock, sm100_products}};

    for (uint32_t k = 0; k < sizeof targets / sizeof targets[0]; k++) {
        if (strcmp(targets[k].name, name) == 0)
            return &targets[k];
    }
    return NULL;
}

ClockFact *
clock_table(Arena *arena, const char *name)
{
    const ClockTarget *target = target_named(name);

    if (target == NULL)
        return NULL;
    ClockFact *rows = arena_array(arena, ClockFact, CLOCK_ROWS);
    memcpy(rows, target->rows, CLOCK_ROWS * sizeof *rows);
    for (const ClockChange *c = target->changes; c != NULL && c->row != CLOCK_ROWS; c++)
        rows[c->row] = c->fact;
    return rows;
}

const ClockProduct *
clock_products(const char *name)
{
    const ClockTarget *target = target_named(name);

    return target != NULL ? target->products : NULL;
}

uint32_t
clock_resident(const ClockFact *rows, uint32_t threads, uint32_t registers, uint32_t shared)
{
    double most = rows[CLOCK_BLOCKS].value;
    double limits[3] = {
        rows[CLOCK_THREADS].value / threads,
        registers ? rows[CLOCK_REGISTERS].value / ((double)registers * threads) : most,
        rows[CLOCK_SHARED].value / (shared + rows[CLOCK_SHARED_BLOCK].value),
    };

    for (uint32_t k = 0; k < 3; k++)
        most = limits[k] < most ? limits[k] : most;
    return most < 1 ? 1 : (uint32_t)most;
}

/* ---- lines ---- */

static void
print_units(const ClockResult *result, const ClockFact *rows, Buf *out)
{
    buf_add(out, "  busy:");
    for (uint32_t unit = 0; unit < CLOCK_UNITS; unit++) {
        double part = 100 * clock_busy_part(result, rows, (ClockUnit)unit);
        if (part >= 0.5)
            buf_printf(out, " %s %.0f %%,", clock_unit_name((ClockUnit)unit), part);
    }
    if (out->at[out->n - 1] == ',')
        out->at[out->n - 1] = '\n';
    else
        buf_add(out, " nothing\n");
}

/* What the L2 cache does not hold. */
static void
print_memory(const ClockMemory *memory, const ClockResult *result, const ClockFact *rows, Buf *out)
{
    double all = memory != NULL ? memory->read + memory->written : 0;

    if (memory == NULL)
        return;
    buf_printf(out, "  all SMs touch %.1f MB, ", memory->launch / 1e6);
    if (all <= 0) {
        buf_add(out, "which are in the L2 cache when the launch comes again\n");
        return;
    }
    buf_add(out, memory->cold ? "none of which the L2 cache has at first: "
                              : "more than the L2 cache holds: ");
    buf_printf(out,
               "%.1f MB come from HBM, %.1f MB go there, "
               "%.0f %% of the bytes of accesses; HBM is busy %.0f %%\n",
               memory->share * memory->read / 1e6, memory->share * memory->written / 1e6,
               100 * all / memory->bytes, 100 * clock_busy_part(result, rows, UNIT_HBM));
}

static void
print_groups(const ClockResult *result, Buf *out)
{
    for (uint32_t g = 0; g < result->groups.n && g < MOST_LINES; g++) {
        const ClockGroup *group = &result->groups.at[g];
        double all = clock_group_cycles(group);
        if (all <= 0)
            continue;
        buf_printf(out, "  warps %u to %u:", (unsigned)group->first, (unsigned)group->last);
        for (uint32_t s = 0; s < CLOCK_STALLS; s++) {
            if (100 * group->cycles[s] >= 0.5 * all)
                buf_printf(out, " %s %.0f %%,", clock_stall_name((ClockStall)s),
                           100 * group->cycles[s] / all);
        }
        out->at[out->n - 1] = '\n';
    }
}

static int
by_cycles(const void *a, const void *b)
{
    double x = ((const ClockWait *)a)->cycles, y = ((const ClockWait *)b)->cycles;

    return (x < y) - (x > y);
}

static void
add_barrier(const ClockJob *job, const ClockWait *w, Buf *out)
{
    char name[120];

    if (w->kind == SIM_PHASE_MBARRIER &&
        sim_barrier_name(job->module, job->name, w->object, name, sizeof name))
        buf_printf(out, "%s (the mbarrier at byte %u of shared memory)", name, (unsigned)w->object);
    else if (w->kind == SIM_PHASE_MBARRIER)
        buf_printf(out, "the mbarrier at byte %u of shared memory", (unsigned)w->object);
    else if (w->kind == SIM_PHASE_BARRIER)
        buf_printf(out, "barrier %u", (unsigned)w->object);
    else
        buf_add(out, "the cluster's barrier");
}

static void
print_waits(const ClockJob *job, const ClockResult *result, Buf *out)
{
    if (result->waits.n)
        qsort(result->waits.at, result->waits.n, sizeof *result->waits.at, by_cycles);
    for (uint32_t k = 0; k < result->waits.n && k < MOST_LINES; k++) {
        const ClockWait *w = &result->waits.at[k];
        if (w->cycles <= 0)
            break;
        buf_printf(out, "  warps %u to %u waited %.0f cycles at ", (unsigned)w->first,
                   (unsigned)w->last, w->cycles);
        add_barrier(job, w, out);
        buf_char(out, '\n');
    }
}

/* What is ready long before anyone comes is not on the critical path. */
static void
print_slack(const ClockResult *result, Buf *out)
{
    for (uint32_t g = 0; g < result->groups.n; g++) {
        double early = 0, came = 0;
        for (uint32_t k = 0; k < result->waits.n; k++) {
            const ClockWait *w = &result->waits.at[k];
            if (w->first != 4 * g || w->kind != SIM_PHASE_MBARRIER)
                continue;
            early += w->early;
            came += w->came;
        }
        if (came > 0)
            buf_printf(out,
                       "  slack: warps %u to %u come to mbarriers %.0f clocks after they are "
                       "ready, in the mean of %.0f times\n",
                       (unsigned)(4 * g), (unsigned)(4 * g + 3), early / came, came);
    }
}

/* 100.0 only of all. */
static double
part_in_percent(uint64_t part, uint64_t of)
{
    double percent = of ? 100.0 * (double)part / (double)of : 0;

    return part < of && percent > 99.9 ? 99.9 : percent;
}

/* Of the SM's warps: how much of what they did was found in machine code. */
static void
print_code(const ClockJob *job, const ClockResult *result, Buf *out)
{
    uint64_t insns = 0, doubtful = 0, tokens = 0, lost = 0;

    if (job->code == NULL) {
        buf_printf(
            out,
            "  from PTX, in an order such as an assembler chooses; machine code was not read: %s\n",
            job->no_code ? job->no_code : "not asked for");
        return;
    }
    for (size_t c = 0; c < job->trace->cluster_count; c++) {
        for (size_t w = 0; w < job->trace->clusters[c].warp_count; w++) {
            const CodePath *path = &job->paths[c][w];
            insns += path->insns;
            doubtful += path->doubtful;
            tokens += path->tokens;
            lost += path->lost;
        }
    }
    buf_printf(out, "  from machine code: %.1f %% of the warp instructions",
               part_in_percent(result->from_code, result->issued));
    buf_printf(
        out,
        "; %.1f %% of them at lines of PTX that did not run then, %llu of %llu stretches not found\n",
        insns ? 100.0 * (double)doubtful / (double)insns : 0, (unsigned long long)lost,
        (unsigned long long)tokens);
    if (result->misfit >= 0.01 * result->warp_clocks && result->misfit > 0)
        buf_printf(
            out,
            "  in doubt: %.1f %% of the warps' time is in stretches of machine code that were not "
            "found or do not fit, %.1f %% in those up to line %u of PTX\n",
            100 * result->misfit / result->warp_clocks,
            100 * result->misfit_most / result->warp_clocks, (unsigned)result->misfit_line);
}

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Kernels that measure themselves. */
static void
print_clocks(const ClockResult *result, Buf *out)
{
    uint32_t n = result->clocks_read.n;

    if (n == 0)
        return;
    qsort(result->clocks_read.at, n, sizeof *result->clocks_read.at, compare_doubles);
    buf_printf(
        out,
        "  clocks that %u warps would read, last less first: %.1f in the median, %.0f at most\n",
        (unsigned)n, (result->clocks_read.at[(n - 1) / 2] + result->clocks_read.at[n / 2]) / 2,
        result->clocks_read.at[n - 1]);
}

static void
print_doubts(const ClockJob *job, const ClockResult *result, Buf *out)
{
    uint32_t assumed = 0;

    for (uint32_t k = 0; k < CLOCK_ROWS; k++)
        assumed += job->rows[k].assumed;
    if (result->unknown)
        buf_printf(out, "  %llu instructions have no figure (%s): taken for arithmetic\n",
                   (unsigned long long)result->unknown, result->unknown_name);
    print_code(job, result, out);
    buf_printf(out, "  figures %08x, of which %u are assumed (docs/timing.md)\n",
               (unsigned)clock_table_hash(job->rows, job->products), (unsigned)assumed);
}

/* ---- seeds ---- */

static int
compare_cycles(const void *a, const void *b)
{
    uint64_t x = ((const ClockResult *)a)->cycles, y = ((const ClockResult *)b)->cycles;

    return (x > y) - (x < y);
}

/* A chip at its power limit is the slower the more its tensor units do. */
static double
mhz_at_limit(const ClockJob *job, const ClockResult *result)
{
    const ClockFact *rows = job->rows;
    double most = rows[CLOCK_MHZ].value, idle = 100;

    if (result->cycles)
        idle -= 100 * (clock_busy_part(result, rows, UNIT_TENSOR) +
                       clock_busy_part(result, rows, UNIT_WARP_MMA));
    double mhz = rows[CLOCK_MHZ_BUSY].value + idle * rows[CLOCK_MHZ_POINT].value;
    return mhz < most ? mhz : most;
}

/* `results`: by their cycles. */
static void
print_cycles(const ClockJob *job, const ClockResult *results, uint32_t seeds, uint64_t steady,
             Buf *out)
{
    const ClockResult *result = &results[seeds / 2];
    double mhz = job->rows[CLOCK_MHZ].value, limit = mhz_at_limit(job, result);

    buf_printf(out,
               "  %llu cycles (%llu to %llu in %u seeds, %llu without jitter): %.2f us at %.0f MHz",
               (unsigned long long)result->cycles, (unsigned long long)results[0].cycles,
               (unsigned long long)results[seeds - 1].cycles, (unsigned)seeds,
               (unsigned long long)steady, (double)result->cycles / mhz, mhz);
    if (limit < mhz)
        buf_printf(out, ", %.2f at the %.0f MHz of a chip at its power limit",
                   (double)result->cycles / limit, limit);
    buf_char(out, '\n');
}

/* What follows then is of the part that was replayed: where warps wait shows what is missing. */
static void
print_broken(Buf *out)
{
    buf_add(out, "  no cycles: warps wait for what never comes in the replay, which ends there\n");
}

/* Finds every warp's way through the machine code. */
static const CodePath *const *
find_paths(Arena *arena, const ClockJob *job)
{
    Matcher *matcher = clock_matcher(arena, job->code, job->module);
    const CodePath **paths = arena_array(arena, const CodePath *, job->trace->cluster_count + 1);

    for (size_t c = 0; c < job->trace->cluster_count; c++) {
        const SimTracedCluster *cluster = &job->trace->clusters[c];
        CodePath *of = arena_array(arena, CodePath, cluster->warp_count + 1);
        for (size_t w = 0; w < cluster->warp_count; w++)
            clock_match(matcher, &cluster->warps[w], &of[w]);
        paths[c] = of;
    }
    return paths;
}

/* Some turns of the loop, or the middle of the launch; replayed once more, now that it is known
 * when that is. */
static void
draw(Arena *arena, const ClockJob *job, const ClockPath *path)
{
    enum { TURNS = 3, MOST_CLOCKS = 8192 };
    ClockLog log = {.arena = arena, .from = path->one_from, .to = path->one_to};
    ClockJob again = *job;
    ClockResult same;
    ClockPicture *picture = job->picture;

    if (path->loop) {
        log.from -= (TURNS - 1) / 2 * path->clocks;
        log.to += (TURNS - 1) / 2 * path->clocks;
    } else if (log.to - log.from > MOST_CLOCKS) {
        log.from = (log.from + log.to - MOST_CLOCKS) / 2;
        log.to = log.from + MOST_CLOCKS;
    }
    again.log = &log;
    clock_replay(arena, &again, &same);
    picture->y = clock_svg_add(&log, path, job->name, (uint32_t)job->rows[CLOCK_SCHEDULERS].value,
                               picture->y, &picture->body);
}

/* The beginning of the launch as trace events. */
static void
trace(Arena *arena, const ClockJob *job, const ClockResult *result)
{
    enum { MOST_CLOCKS = 1 << 17 }; /* some 10 MB of text */
    ClockLog log = {.arena = arena, .from = 0, .to = (double)result->cycles};
    ClockJob again = *job;
    ClockResult same;

    log.to = log.to < MOST_CLOCKS ? log.to : MOST_CLOCKS;
    again.log = &log;
    clock_replay(arena, &again, &same);
    clock_trace_add(&log, job->name, ++job->picture->launches, job->rows[CLOCK_MHZ].value,
                    &job->picture->events);
}

/* The median replay once more, with its log. */
static void
print_path(Arena *arena, const ClockJob *job, const ClockResult *result, uint32_t seeds, Buf *out,
           ClockSummary *summary)
{
    ClockLog log = {.arena = arena};
    ClockJob again = *job;
    ClockResult same;
    ClockPath *path = arena_new(arena, ClockPath);

    if (seeds == 1 && !job->path && job->picture == NULL)
        return;
    again.log = &log;
    again.seed = result->seed;
    clock_replay(arena, &again, &same);
    if (!summary->whole || !clock_path(arena, &log, result, path))
        return;
    WhatIfs *what_ifs = arena_new(arena, WhatIfs);
    clock_whatif(arena, job, result, path, job->path, what_ifs);
    clock_path_print(path, job->path, out);
    clock_whatif_print(what_ifs, out);
    if (job->path)
        print_slack(result, out);
    if (job->picture != NULL && job->picture->body.arena != NULL)
        draw(arena, &again, path);
    if (job->picture != NULL && job->picture->events.arena != NULL)
        trace(arena, &again, result);
    summary->path = path;
    summary->what_ifs = what_ifs;
}

bool
clock_report(Arena *arena, const ClockJob *job, uint64_t all_blocks, Buf *out, Buf *json)
{
    ClockResult results[MOST_SEEDS];
    ClockJob one = *job;
    uint32_t seeds = job->seeds == 0 ? SEEDS : job->seeds < MOST_SEEDS ? job->seeds : MOST_SEEDS;

    if (one.code != NULL)
        one.paths = find_paths(arena, job);
    one.memory = clock_memory(arena, job->trace, job->clusters);
    if (one.memory != NULL)
        one.memory->cold = job->cold;
    one.seed = 0;
    clock_replay(arena, &one, &results[0]);
    if (clock_memory_wants_order(one.memory, job->rows)) {
        clock_memory_find(one.memory, job->rows);
        clock_replay(arena, &one, &results[0]);
    }
    uint64_t steady = results[0].cycles;
    bool whole = !results[0].stuck;
    for (uint32_t k = 0; k < seeds; k++) {
        one.seed = k + 1;
        clock_replay(arena, &one, &results[k]);
        whole &= !results[k].stuck;
    }
    qsort(results, seeds, sizeof results[0], compare_cycles);
    const ClockResult *result = &results[seeds / 2];
    ClockSummary summary = {.median = result,
                            .least = results[0].cycles,
                            .most = results[seeds - 1].cycles,
                            .steady = steady,
                            .whole = whole,
                            .mhz_at_limit = mhz_at_limit(job, result)};
    if (whole)
        print_cycles(job, results, seeds, steady, out);
    else
        print_broken(out);
    buf_printf(out, "  of one SM: %u of %llu blocks, %u at a time, %llu warp instructions\n",
               (unsigned)result->blocks, (unsigned long long)all_blocks, (unsigned)result->resident,
               (unsigned long long)result->issued);
    if (job->dealt != NULL)
        buf_printf(out, "  %s\n", job->dealt);
    print_units(result, job->rows, out);
    print_memory(one.memory, result, job->rows, out);
    print_groups(result, out);
    print_waits(job, result, out);
    print_path(arena, &one, result, seeds, out, &summary);
    print_clocks(result, out);
    print_doubts(&one, result, out);
    if (json != NULL)
        clock_json(&one, &summary, json);
    return whole;
}
