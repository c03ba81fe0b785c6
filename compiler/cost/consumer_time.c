/* consumer_time.c - from clocks of units to the time of a launch.
 *
 * Consumers are customers of a closed network with two stations, products and tile arithmetic, and
 * a gap between them (barriers, the fill and drain of the pipes) in which they need neither.  Mean
 * value analysis says how long a round takes when others stand in the queues: with n customers a
 * station takes its time times one more than the customers that n - 1 leave in it on average.  That
 * is how imperfectly arithmetic hides behind products: one consumer hides nothing, more consumers
 * more.
 *
 * A consumer waits for some of its products only; the others run under its own arithmetic and just
 * keep the tensor cores busy for the other consumers.  In a pipelined loop (products of stage 1 run
 * into the next iteration) it waits for the products of stage 0; in an in-order loop for the first
 * product of each of two dependent chains, each with a gap; with lookahead for the first product of
 * the second chain.  Consumers that share a product wait for each other instead, longer the more
 * there are, and so for most products of all.
 *
 * In a loop of nothing but products, and at most additions of their results, tensor cores and the
 * port of shared memory work at the same time.  They overlap well but not perfectly: their times
 * are combined by a norm with a high exponent.  An iteration takes that, or what copies take, or
 * its part of the way of a stage: from asking for it until its products and those of the stage
 * before have read it, with as many on the way as there are stages.  swap_ab leaves a result
 * transposed, which costs more to store.  The last wave of a launch may have fewer tiles than the
 * chip has room for.
 *
 * A pair of blocks fetches shared tiles once, but each SM still receives all its bytes, and the way
 * into the SM is the limit.  A stage that both blocks must release is free a little later.
 *
 * The constants are in the target's record, with their source.
 */
#include "compiler/cost/consumer_time.h"

#include "compiler/cost/stream_time.h"
#include "compiler/cost/unit_norm.h"
#include "compiler/passes/schedule/plan.h"

#include <math.h>

/* Clocks in which each of `n` customers goes round once.  Of its work at the first station a
 * customer waits for a part only; the rest just keeps that station busy. */
static double
round_of(uint32_t n, double waited, double under, double second, double gap)
{
    double at_first = 0, at_second = 0, all = 0, first = waited + under;

    for (uint32_t k = 1; k <= n; k++) {
        double a = waited + first * at_first, b = second * (1 + at_second);
        all = unit_larger(a + b + gap, k * unit_larger(first, second));
        at_first = k * (a + under) / all;
        at_second = k * b / all;
    }
    return all;
}

bool
consumer_pipelines(const Target *target, const ConsumerWork *work, const PlanHints *plan)
{
    return plan->pipelined && !work->coop_k && work->accumulators > 0 && work->fresh > 0 &&
           plan_overlap_fits(target, plan->consumers,
                             work->accumulators + plan_overlapped(work->fresh, work->operand_bits));
}

/* Whether none of its products runs under arithmetic of the next iteration, and consumers do not
 * share products. */
static bool
consumer_in_order(const Target *target, const ConsumerWork *work, const PlanHints *plan)
{
    return !consumer_pipelines(target, work, plan) && !work->coop_k;
}

/* Of the products of a round, the share that a consumer waits for with nothing beside it. */
static double
share_waited(const Target *target, const ConsumerWork *work, const PlanHints *plan)
{
    bool lookahead = work->lookahead && plan->pipelined && plan->stages > 1;
    double share = consumer_pipelines(target, work, plan)
                       ? work->stage0
                       : work->after + (lookahead ? 0 : work->first);

    return share > 1 ? 1 : share; /* one product may be waited for with two that follow it */
}

bool
consumer_waits_for_all(const Target *target, const ConsumerWork *work, const PlanHints *plan)
{
    return consumer_in_order(target, work, plan) && share_waited(target, work, plan) >= 1;
}

bool
consumer_only_mmas(const ConsumerWork *work)
{
    return work->issue <= work->adding && work->special <= 0 && !work->coop_k;
}

static double
iteration_of_mmas(const Target *target, const ConsumerWork *work, const PlanHints *plan)
{
    const ConsumerTimes *times = &target->consumer_times;
    double n = plan->consumers;
    double bytes = (double)(work->pipeline_bytes_shared +
                            plan->consumers * work->pipeline_bytes_own);
    double copies = bytes / (times->mmas_copy > 0 ? times->mmas_copy : target->chip.copy_bytes);
    double busy = unit_norm(n * work->tensor, n * work->shared, times->mmas_power);
    /* a stage is free when the products of the next one have begun (release_lag) */
    double way = (times->mmas_latency + 2 * busy) / plan->stages;
    double clocks = unit_norm(unit_larger(busy * times->mmas_busy, copies), way,
                              times->mmas_way_power);
    if (work->adding > 0) { /* a consumer's product waits until the one before has been added */
        double product = unit_norm(work->tensor, work->shared, times->mmas_power);
        double added = times->issue * work->adding + times->round;
        clocks = unit_larger(clocks, round_of(plan->consumers, product * times->mmas_busy, 0, added,
                                              times->mmas_sum * (plan->consumers + 1)));
        clocks += work->turns ? 2 * times->mmas_sum : 0; /* and the second half for the first */
    }
    return (clocks + times->mmas) * (work->swap_ab ? times->swap_ab : 1);
}

int64_t
consumer_shared_bytes(const ConsumerWork *work, const PlanHints *plan)
{
    return plan->stages * (work->pipeline_bytes_shared - (plan->paired ? work->spared_bytes : 0) +
                           plan->consumers * work->pipeline_bytes_own) +
           plan->q_stages * (work->once_bytes_shared + plan->consumers * work->once_bytes_own) +
           plan->consumers * work->exchange_bytes;
}

/* Whether copies take a loop's sums to memory: there is room for a part of them (roles_store.c). */
static bool
leaves_by_copies(const Target *target, const ConsumerWork *work, const PlanHints *plan)
{
    int64_t bytes = consumer_shared_bytes(work, plan) + plan->consumers * work->atom_column_bytes;

    return work->atom_column_bytes > 0 &&
           bytes <= target_tile_limit(target, plan->two_blocks ? 2 : 1);
}

/* To begin and end a tile of such a loop. */
static double
start_of_mmas(const Target *target, const ConsumerWork *work, const PlanHints *plan)
{
    const ConsumerTimes *times = &target->consumer_times;
    bool direct = times->mmas_direct > 0 && !leaves_by_copies(target, work, plan);
    double start = plan->persistent ? times->mmas_tile
                                    : unit_larger(times->block, times->mmas_tile);

    double rate = work->swap_ab ? times->mmas_direct_each : times->mmas_direct;

    return start + (direct ? plan->consumers * work->stored / rate : 0);
}

/* Clocks in which memory gives what a launch loads, and what else the L2 cache has goes back. */
static double
memory_clocks(const Target *target, const ConsumerTrips *trips)
{
    const Chip *chip = &target->chip;
    double bytes = trips->bytes + fmin(trips->bytes, chip->cache_share);

    return chip->memory_bytes > 0 ? bytes / (chip->memory_bytes * chip->sm_count) : 0;
}

/* Clocks in which the L2 cache gives what all tiles of a launch ask for.  Of the 42 to 60 bytes a
 * clock that an SM gets then, launches of given sizes are met best by a tenth more than forms are
 * chosen by (H200, docs/lab/gemm.md). */
static double
cache_clocks(const Target *target, const ConsumerWork *work, const ConsumerTrips *trips,
             const PlanHints *plan)
{
    double each = (double)(work->pipeline_bytes_shared + plan->consumers * work->pipeline_bytes_own);
    double rate = 1.1 * target->consumer_times.mmas_cache * target->chip.sm_count;

    return rate > 0 ? trips->blocks * trips->most * each / rate : 0;
}

/* What a consumer waits for when a copy can begin only after its stage has been read (single-stage
 * pipelines). Consumers that divide tiles have a stage for each part, and release it early. */
static double
copy_wait(const ConsumerTimes *times, const ConsumerWork *work, bool pipelines)
{
    if (work->cooperative)
        return 0;
    if (work->spare) /* the other tile's stage is free when half of the products have been done */
        return times->copy_latency;
    if (work->coop_k) /* and so do all others: nothing runs beside its products */
        return times->copy_latency + work->tensor;
    return times->copy_latency * (pipelines || work->held ? 1 : times->copy_part);
}

static double
iteration_of(const Target *target, const ConsumerWork *work, const PlanHints *plan,
             ConsumerClocks *c)
{
    const ConsumerTimes *times = &target->consumer_times;
    uint32_t n = plan->consumers;
    bool pipelines = consumer_pipelines(target, work, plan),
         in_order = consumer_in_order(target, work, plan);
    double bytes = (double)(work->pipeline_bytes_shared + n * work->pipeline_bytes_own);
    double share = share_waited(target, work, plan);

    if (consumer_only_mmas(work))
        return iteration_of_mmas(target, work, plan);
    if (!in_order)
        share += times->under * (1 - share);
    double clocks = round_of(n, c->mmas * share, c->mmas * (1 - share), c->arithmetic,
                             times->gap + (in_order ? times->gap_in_order : 0));
    clocks += work->coop_k ? (n - 1) * times->coop_k : 0;
    clocks = unit_larger(clocks, bytes / target->chip.copy_bytes);
    /* elsewhere the fitted constants have it: operands in registers leave the port free for
     * copies */
    if (target_issuer(target) == BY_THREAD)
        clocks = unit_larger(clocks, n * work->shared + bytes / target->chip.shared_bytes);
    clocks += times->added * n * work->added;
    c->wait = plan->stages == 1 || work->spare ? copy_wait(times, work, pipelines) : 0;
    return clocks + c->wait;
}

double
consumer_fill(const Target *target, const ConsumerWork *work, const PlanHints *plan)
{
    double bytes = (double)(work->once_bytes_shared + plan->consumers * work->once_bytes_own);

    return target->consumer_times.copy_latency + bytes / target->chip.copy_bytes;
}

/* How long a work tile waits for tiles that it loads once, if their pipeline has a single stage:
 * the products of the tile before read that stage to their end, unless products of stage 1 follow
 * them. */
static double
stage_wait(const Target *target, const ConsumerWork *work, const PlanHints *plan)
{
    double share = consumer_pipelines(target, work, plan) ? target->consumer_times.stage : 1;

    return share * consumer_fill(target, work, plan);
}

double
consumer_iteration_of_one(const Target *target, const ConsumerWork *work, const PlanHints *plan,
                          const ConsumerClocks *clocks)
{
    PlanHints one = *plan;
    ConsumerClocks c = *clocks;

    one.consumers = 1;
    one.pipelined = consumer_pipelines(target, work, plan);
    return iteration_of(target, work, &one, &c);
}

double
consumer_start(const Target *target, const ConsumerWork *work, const PlanHints *plan,
               const ConsumerClocks *clocks, double tile, double store_bytes)
{
    const ConsumerTimes *times = &target->consumer_times;
    double start = tile - clocks->wait + times->fill * (clocks->iteration - clocks->wait) +
                   plan->consumers * work->stored / store_bytes;

    if (consumer_only_mmas(work))
        return start_of_mmas(target, work, plan);
    if (!plan->persistent)
        start += times->block;
    else if (plan->q_stages == 1)
        start += stage_wait(target, work, plan);
    return start;
}

double
consumer_masks(const Target *target, const ConsumerWork *work, const ConsumerTrips *trips,
               const PlanHints *plan, double mask)
{
    const ConsumerTimes *times = &target->consumer_times;

    /* Consumers that wait for one another make masks meanwhile, in part. */
    return times->issue * trips->masks * plan->consumers * mask *
           (work->coop_k ? times->mask_coop_k : 1);
}

double
consumer_most_static(const Target *target, const ConsumerTrips *trips)
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

double
consumer_as_long(const ConsumerTrips *trips, uint32_t k)
{
    double n = 0;

    for (uint32_t j = 0; j < trips->n; j++)
        n += trips->block[j] >= trips->block[k] ? trips->blocks / trips->n : 0;
    return n;
}

/* Clocks of a launch whose programs differ in length, with the longest first: at least the time of
 * all work spread evenly, and at least that of the longest programs alone in whole rounds. */
static double
drawn_in_rounds(double places, const ConsumerTrips *trips, double each, const ConsumerClocks *c)
{
    double most = trips->blocks / places * c->tile;

    for (uint32_t k = 0; k < trips->n; k++) {
        double rounds = ceil(consumer_as_long(trips, k) / places);
        double longer = (trips->block[k] / trips->each - 1) * each;
        most = unit_larger(most, rounds * (c->tile + longer * c->iteration));
    }
    return most;
}

bool
consumer_streams(const Target *target, const ConsumerWork *work, const ConsumerTrips *trips)
{
    static const double most =
        0.5; /* of what is loaded comes from memory: round, prefill has a 32nd, decoding all */

    return target->chip.memory_bytes > 0 && target->chip.copy_flight > 0 && trips->own > most &&
           !work->coop_k && !work->cooperative && !consumer_only_mmas(work) &&
           work->pipeline_bytes_shared + work->pipeline_bytes_own > 0;
}

double
consumer_load_clocks(const Target *target, const ConsumerWork *work)
{
    int64_t bytes = work->pipeline_bytes_shared + work->pipeline_bytes_own;

    return target->chip.memory_bytes > 0 ? (double)bytes / target->chip.memory_bytes : 0;
}

/* Where sizes are not known, launches of half as many programs as there are SMs to four times as
 * many stand for all: with fewer, programs would share the work. */
static double
stream_launch(const Target *target, const ConsumerTrips *trips, const StreamRates *rates,
              double each, double start, bool sizes_known)
{
    enum { STEPS = 4, LEAST = 2, MOST = 16 };
    double sms = target->chip.sm_count, clocks = 0, programs = 0;

    if (sizes_known)
        return stream_clocks(rates, sms, trips->blocks, each, start);
    for (int k = LEAST; k <= MOST; k++) {
        clocks += stream_clocks(rates, sms, sms * k / STEPS, each, start);
        programs += sms * k / STEPS;
    }
    return clocks / programs * trips->blocks;
}

ConsumerClocks
consumer_time(const Target *target, const ConsumerWork *work, const ConsumerTrips *trips,
              const PlanHints *plan, bool whole_waves)
{
    const ConsumerTimes *times = &target->consumer_times;
    ConsumerWork paired = *work;
    if (plan->paired) {
        paired.pipeline_bytes_shared -= paired.spared_bytes;
        paired.shared -= paired.spared_port;
        work = &paired;
    }
    ConsumerClocks c = {.mmas = unit_norm(work->tensor, work->shared, times->port_power),
                        .arithmetic = work->special + times->issue * work->issue +
                                      times->vector * work->vectors +
                                      (work->coop_k ? 0 : times->round)};
    double places = target->chip.sm_count * (plan->two_blocks ? 2.0 : 1.0),
           waves = trips->blocks / places;
    bool in_turn = plan->paired && !plan->clc; /* pairs draw no tiles from a counter */
    bool dynamic = work->variable_trips && (plan->dynamic || !plan->persistent) && !in_turn;
    bool sliding = work->sliding && whole_waves && trips->each > 0;

    c.iteration = iteration_of(target, work, plan, &c);
    if (plan->paired)
        c.iteration += times->pair + (consumer_only_mmas(work) ? 0 : times->pair_chain);
    StreamRates rates = {0};
    bool streams = consumer_streams(target, work, trips);
    if (plan->two_blocks) { /* one computes while the other waits */
        double units = fmax(c.mmas, c.arithmetic);
        c.iteration = fmax(c.iteration,
                           2 * fmax(units, streams ? 0 : consumer_load_clocks(target, work)));
    }
    if (streams)
        rates = stream_rates(target, work, plan, c.iteration);
    c.start = consumer_start(target, work, plan, &c, times->tile, times->store_bytes);
    /* nothing else tells large tiles from small ones */
    whole_waves = whole_waves || consumer_only_mmas(work);
    double masks = consumer_masks(target, work, trips, plan, times->mask);
    /* with nothing but products what consumers without a program load and multiply takes as long */
    double idle = consumer_only_mmas(work) ? 1 : times->idle;
    double each = trips->each + idle * (trips->most - trips->each);
    c.tile = each * c.iteration + c.start + masks;
    if (streams)
        c.total = stream_launch(target, trips, &rates, each, c.start + masks, whole_waves);
    else if (dynamic) /* the longest come first, the shortest fill the end, unless there are too few */
        c.total = whole_waves && trips->each > 0 ? drawn_in_rounds(places, trips, each, &c)
                                                 : waves * c.tile;
    else if (work->variable_trips && whole_waves)
        c.total = ceil(waves) * c.start + c.iteration * consumer_most_static(target, trips);
    else if (sliding && plan->dynamic && !in_turn)
        c.total = drawn_in_rounds(places, trips, each, &c);
    else if (sliding && plan->persistent)
        c.total = ceil(waves) * (c.start + masks) +
                  c.iteration * each / trips->each * consumer_most_static(target, trips);
    else
        c.total = (whole_waves ? ceil(waves) : waves) * c.tile;
    if (consumer_only_mmas(work))
        c.total = fmax(c.total, cache_clocks(target, work, trips, plan));
    if (consumer_only_mmas(work) && times->mmas_memory_power > 0)
        c.total = unit_norm(c.total, memory_clocks(target, trips), times->mmas_memory_power);
    c.total += times->launch;
    return c;
}
