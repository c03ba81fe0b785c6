/* clock_report.c - what a replay came to, in words. */
#include "backends/clock/clock.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 5, MOST_LINES = 12 };

const ClockFact *
clock_rows(const char *target)
{
    return strcmp(target, "sm_90") == 0 ? sm90_clock : NULL;
}

const char *
clock_unit_name(ClockUnit unit)
{
    static const char *const names[CLOCK_UNITS] = {
        "issue slots",   "FMA",         "ALU",      "MUFU",      "loads and stores", "shuffles",
        "shared memory", "tensor unit", "L2 cache", "TMA loads", "TMA stores",
    };
    return names[unit];
}

const char *
clock_stall_name(ClockStall stall)
{
    static const char *const names[CLOCK_STALLS] = {
        "issued",   "not picked", "operands", "unit busy", "branches",
        "barriers", "mbarriers",  "wgmma",    "copies",
    };
    return names[stall];
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
        double of = (double)result->cycles;
        if (unit < UNITS_OF_SCHEDULER)
            of *= rows[CLOCK_SCHEDULERS].value;
        double part = of > 0 ? 100 * result->busy[unit] / of : 0;
        if (part >= 0.5)
            buf_printf(out, " %s %.0f %%,", clock_unit_name((ClockUnit)unit), part);
    }
    if (out->at[out->n - 1] == ',')
        out->at[out->n - 1] = '\n';
    else
        buf_add(out, " nothing\n");
}

static void
print_groups(const ClockResult *result, Buf *out)
{
    for (uint32_t g = 0; g < result->groups.n && g < MOST_LINES; g++) {
        const ClockGroup *group = &result->groups.at[g];
        double all = 0;
        for (uint32_t s = 0; s < CLOCK_STALLS; s++)
            all += group->cycles[s];
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
print_waits(const ClockResult *result, Buf *out)
{
    if (result->waits.n)
        qsort(result->waits.at, result->waits.n, sizeof *result->waits.at, by_cycles);
    for (uint32_t k = 0; k < result->waits.n && k < MOST_LINES; k++) {
        const ClockWait *w = &result->waits.at[k];
        buf_printf(out, "  warps %u to %u waited %.0f cycles at ", (unsigned)w->first,
                   (unsigned)w->last, w->cycles);
        if (w->kind == SIM_PHASE_MBARRIER)
            buf_printf(out, "the mbarrier at byte %u of shared memory\n", (unsigned)w->object);
        else if (w->kind == SIM_PHASE_BARRIER)
            buf_printf(out, "barrier %u\n", (unsigned)w->object);
        else
            buf_add(out, "the cluster's barrier\n");
    }
}

static void
print_doubts(const ClockJob *job, const ClockResult *result, Buf *out)
{
    uint32_t assumed = 0;

    for (uint32_t k = 0; k < CLOCK_ROWS; k++)
        assumed += job->rows[k].assumed;
    if (result->stuck)
        buf_add(out, "  warps wait for what never comes: the replay is not whole, the cycles mean "
                     "nothing\n");
    if (result->unknown)
        buf_printf(out, "  %llu instructions have no figure (%s): taken for arithmetic\n",
                   (unsigned long long)result->unknown, result->unknown_name);
    buf_printf(out,
               "  from PTX, in an order such as an assembler chooses; machine code was not read; %u "
               "figures are assumed (docs/timing.md)\n",
               (unsigned)assumed);
}

/* ---- seeds ---- */

static int
compare_cycles(const void *a, const void *b)
{
    uint64_t x = ((const ClockResult *)a)->cycles, y = ((const ClockResult *)b)->cycles;

    return (x > y) - (x < y);
}

void
clock_report(Arena *arena, const ClockJob *job, uint64_t all_blocks, Buf *out)
{
    ClockResult results[SEEDS];
    ClockJob one = *job;

    one.seed = 0;
    clock_replay(arena, &one, &results[0]);
    uint64_t steady = results[0].cycles;
    for (uint32_t k = 0; k < SEEDS; k++) {
        one.seed = k + 1;
        clock_replay(arena, &one, &results[k]);
    }
    qsort(results, SEEDS, sizeof results[0], compare_cycles);
    const ClockResult *result = &results[SEEDS / 2];
    double mhz = job->rows[CLOCK_MHZ].value;
    buf_printf(
        out, "  %llu cycles (%llu to %llu in %d seeds, %llu without jitter): %.2f us at %.0f MHz\n",
        (unsigned long long)result->cycles, (unsigned long long)results[0].cycles,
        (unsigned long long)results[SEEDS - 1].cycles, SEEDS, (unsigned long long)steady,
        (double)result->cycles / mhz, mhz);
    buf_printf(out, "  of one SM: %u of %llu blocks, %u at a time, %llu warp instructions\n",
               (unsigned)result->blocks, (unsigned long long)all_blocks, (unsigned)result->resident,
               (unsigned long long)result->issued);
    print_units(result, job->rows, out);
    print_groups(result, out);
    print_waits(result, out);
    print_doubts(job, result, out);
}
