/* clock_names.c - units and stalls in words, and in parts of the time. */
#include "backends/clock/clock.h"

const char *
clock_unit_name(ClockUnit unit)
{
    static const char *const names[CLOCK_UNITS] = {
        "issue slots",
        "FMA",
        "ALU",
        "MUFU",
        "loads and stores",
        "tensor memory",
        "mma.sync",
        "shuffles",
        "shared memory",
        "stores to shared memory",
        "tensor unit",
        "L2 cache",
        "stores to the L2 cache",
        "HBM",
        "TMA loads",
        "TMA stores",
        "copies to tensor memory",
        "stores to the cluster",
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

double
clock_busy_part(const ClockResult *result, const ClockFact *rows, ClockUnit unit)
{
    double of = (double)result->cycles;

    if (unit < UNITS_OF_SCHEDULER)
        of *= rows[CLOCK_SCHEDULERS].value;
    return of > 0 ? result->busy[unit] / of : 0;
}

double
clock_group_cycles(const ClockGroup *group)
{
    double all = 0;

    for (uint32_t s = 0; s < CLOCK_STALLS; s++)
        all += group->cycles[s];
    return all;
}
