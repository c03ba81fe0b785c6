/* band_time.c - from clocks of units to the time of a launch.
 *
 * Bands are customers of a closed network with two stations, products and tile arithmetic, and a
 * gap between them (barriers, the fill and drain of the pipes) in which they need neither.  Mean
 * value analysis says how long a round takes when others stand in the queues: with n customers a
 * station takes its time times one more than the customers that n - 1 leave in it on average.  That
 * is how imperfectly arithmetic hides behind products: one band hides nothing, more bands more.
 * Where a band's products run under its own arithmetic it is two customers with half of the work
 * each, who need not wait for one another.
 *
 * In a loop of nothing but products there is nobody to wait for: products, the port of shared memory and
 * copies work at the same time, each well enough to hide behind the busiest but not perfectly (a norm);
 * a slot is filled while others are read, the more evenly the more there are.  A product that is computed
 * turned leaves its result turned, which costs more to store.  Of the last tiles of a launch there may be
 * fewer than the chip has room for.
 *
 * The constants are in the target's record, with their source.
 */
#include "compiler/band_time.h"

#include "compiler/unit_norm.h"

#include <math.h>

/* Clocks in which each of `n` customers goes round once. */
static double
round_of(uint32_t n, double first, double second, double gap)
{
    double at_first = 0, at_second = 0, all = 0;

    for (uint32_t k = 1; k <= n; k++) {
        double a = first * (1 + at_first), b = second * (1 + at_second);
        all = a + b + gap;
        at_first = k * a / all;
        at_second = k * b / all;
    }
    return all;
}

bool
band_overlaps(const Target *target, const BandWork *work, const PlanHints *plan)
{
    enum { OTHER_REGISTERS = 32, ROUNDING = 4 };
    int64_t fresh = work->fresh;

    return plan->overlap && !work->joint && work->accumulators > 0 && fresh > 0 &&
           work->accumulators + fresh + fresh / 2 + fresh / 8 + OTHER_REGISTERS <=
               (int64_t)target->role_registers[plan->bands].consumer + ROUNDING;
}

bool
band_is_products(const BandWork *work)
{
    return work->issue <= 0 && work->special <= 0 && !work->joint;
}

static double
iteration_of_products(const Target *target, const BandWork *work, const PlanHints *plan)
{
    const BandTimes *times = &target->band_times;
    double n = plan->bands;
    double bytes = (double)(work->ring_bytes_shared + plan->bands * work->ring_bytes_own);
    double copies = bytes / target->chip.copy_bytes, port = n * work->shared + bytes / target->chip.shared_bytes;
    double slots = plan->stages * plan->stages;
    double busy = unit_norm(unit_norm(n * work->tensor, port, times->products_power), copies,
                       times->products_power);

    return (busy + times->products + copies / slots) * (work->turned ? times->turned : 1);
}

static double
iteration_of(const Target *target, const BandWork *work, const PlanHints *plan, BandClocks *c)
{
    const BandTimes *times = &target->band_times;
    uint32_t n = plan->bands;
    double bytes = (double)(work->ring_bytes_shared + n * work->ring_bytes_own), clocks;

    if (band_is_products(work))
        return iteration_of_products(target, work, plan);
    if (work->joint) /* they wait for one another in each iteration */
        clocks = n * (c->products + c->arithmetic) + times->joint;
    else if (band_overlaps(target, work, plan))
        clocks = round_of(2 * n, c->products / 2, c->arithmetic / 2, times->gap);
    else
        clocks = round_of(n, c->products, c->arithmetic, times->gap);
    clocks = unit_larger(clocks + n * times->band, bytes / target->chip.copy_bytes);
    if (plan->stages == 1) /* a copy begins when the slot has been read */
        clocks += times->copy_latency + bytes / target->chip.copy_bytes / 2;
    return clocks;
}

/* Iterations of the SM that has the most, when SM i goes through tiles i, i + SMs, .. */
static double
most_by_stride(const Target *target, const BandTrips *trips)
{
    double most = 0;
    int64_t blocks = (int64_t)trips->blocks, along = (int64_t)trips->along;

    for (int64_t sm = 0; sm < target->chip.sm_count && sm < blocks; sm++) {
        double sum = 0;
        for (int64_t tile = sm; tile < blocks; tile += target->chip.sm_count)
            sum += trips->block[tile % along * trips->n / along];
        most = unit_larger(most, sum);
    }
    return most;
}

BandClocks
band_time(const Target *target, const BandWork *work, const BandTrips *trips, const PlanHints *plan,
          bool whole_waves)
{
    const BandTimes *times = &target->band_times;
    BandClocks c = {.products = unit_norm(work->tensor, work->shared, times->port_power),
                    .arithmetic = work->special + times->issue * work->issue};
    double waves = trips->blocks / target->chip.sm_count;
    bool drawn = work->uneven && (plan->dynamic || !plan->persistent);

    c.iteration = iteration_of(target, work, plan, &c);
    c.start = times->tile + plan->bands * work->stored / target->chip.copy_bytes;
    if (!plan->persistent)
        c.start += times->block;
    if (work->joint && drawn && plan->persistent && !work->ahead) /* measured to cost nothing there */
        c.start += times->draw;
    if (band_is_products(work)) { /* the next tile's copies run under what ends a tile */
        c.start = plan->persistent ? 0 : times->block;
        whole_waves = true; /* nothing else tells large tiles from small ones */
    }
    /* Bands that share a product make masks while they wait for one another. */
    double masks = work->joint ? 0 : times->issue * trips->masks * plan->bands * times->mask;
    c.tile = trips->each * c.iteration + c.start + masks;
    if (drawn) /* the longest come first, the shortest fill the end */
        c.total = waves * c.tile + times->tail * c.tile;
    else if (work->uneven && whole_waves)
        c.total = ceil(waves) * c.start + c.iteration * most_by_stride(target, trips);
    else
        c.total = (whole_waves ? ceil(waves) : waves) * c.tile;
    c.total += times->launch;
    return c;
}
