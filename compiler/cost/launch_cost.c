/* launch_cost.c - grid, trips and clocks put together to an expression (launch_cost.h). */
#include "compiler/cost/launch_cost.h"

#include <math.h>

#include "compiler/cost/launch_terms.h"
#include "compiler/cost/stream_time.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

/* Of tiles that differ the last ones end late, beside all work shared out evenly: by this part of
 * what the longest takes, where they are drawn the longest first of some heads, then of others;
 * and, by itself on an SM, where they go in the order of the grid. */
enum { LATE_DRAWN = 10, LATE = 3 };

/* Of a form, numbers by now. */
typedef struct TileClocks {
    double start;     /* to begin and end a tile, with its masks */
    double iteration; /* of all consumers */
    double one,
        /* an iteration of one consumer alone, and what each other adds; 0: all have all
         * iterations */
        more;
    double late;    /* that a tile begins later whose loop begins with masks */
    double cold;    /* of a launch: SMs fetch the loop's code for the first time */
    bool in_rounds; /* rounds of tiles that differ count, beside all work shared out evenly */
    Places places;
    bool beside_memory; /* of products alone: what the L2 cache and memory give counts, too */
} TileClocks;

/* Whether no mask lives in the first of a loop's segments, but in others.  When that is empty, a
 * pipelined loop has its iterations in order, if all consumers go the same way
 * (passes/schedule/roles.c). */
static bool
may_begin_masked(const KernelTime *time, const TripLoop *loop)
{
    bool later = false;

    for (uint32_t k = 1; k < TRIP_SEGMENTS; k++)
        later = later || loop->masks[k] > 0;
    return later && loop->op->n_segments > 1 && loop->masks[0] <= 0 && time->pipelined &&
           time->plan.stages > 1;
}

/* Of loops at a place of the grid, how many begin with masks. */
static const HostExpr *
masked_at(const KernelTime *time, const Place *at)
{
    const HostExpr *one = host_int(at->arena, 1), *sum = host_int(at->arena, 0);

    for (uint32_t k = 0; k < time->work.n_loops; k++) {
        const TripLoop *loop = &time->work.loops[k];
        if (!may_begin_masked(time, loop))
            continue;
        const HostExpr *clean = term_make(at->arena, HOST_SUB, term_scalar(loop->op->args[2], at),
                                          term_scalar(loop->op->args[0], at));
        clean = term_make(at->arena, HOST_MAX, clean, host_int(at->arena, 0));
        const HostExpr *has = term_make(at->arena, HOST_MIN, term_trips(loop->op, at), one),
                       *begins = term_make(at->arena, HOST_SUB, one,
                                           term_make(at->arena, HOST_MIN, clean, one));
        sum = term_make(at->arena, HOST_ADD, sum, term_make(at->arena, HOST_MUL, has, begins));
    }
    return sum;
}

/* What is not the same for all tiles.
 *
 * Consumers whose bounds differ have iterations each of its own: one without a program asks the
 * units for nothing.  Elsewhere it computes what is not stored.
 *
 * Of two stages of a tile that is loaded once, one comes back under the next tile's first product;
 * but where that tile's iterations are in order, at its end, and the tile behind it waits for what
 * is asked for only then. */
static void
add_exceptions(const Target *target, const KernelTime *time, TileClocks *clocks)
{
    const ConsumerWork *work = &time->work;
    const PlanHints *plan = &time->plan;
    bool differ = plan->consumers > 1 && (work->variable_trips || work->sliding);

    if (!differ && plan->persistent && plan->q_stages > 1)
        clocks->late = consumer_fill(target, work, plan);
    if (!differ || work->coop_k || work->cooperative)
        return;
    double factor = clocks->iteration / time->clocks.iteration;
    clocks->one = factor * consumer_iteration_of_one(target, work, plan, &time->clocks);
    clocks->more = (clocks->iteration - clocks->one) / (plan->consumers - 1.0);
}

/* As predicted for usual sizes, with masks, and what consumers of a block wait for one another. */
static TileClocks
predicted_clocks(const KernelTime *time)
{
    return (TileClocks){.start = time->clocks.tile - time->trips.each * time->clocks.iteration,
                        .iteration = time->clocks.iteration};
}

/* With the figures of launches; loops of nothing but products were not among those that they are
 * fitted to. */
static TileClocks
tile_clocks(const Target *target, const KernelTime *time)
{
    const LaunchTimes *times = &target->launch_times;
    const ConsumerWork *work = &time->work;
    const ConsumerClocks *clocks = &time->clocks;
    double start = consumer_start(target, work, &time->plan, clocks, times->tile,
                                  times->store_bytes),
           masks = consumer_masks(target, work, &time->trips, &time->plan, times->mask);

    if (consumer_only_mmas(work))
        return predicted_clocks(time);
    bool in_order = time->plan.consumers > 2 && consumer_waits_for_all(target, work, &time->plan);
    TileClocks made = {.start = start + masks,
                       .iteration = times->iteration * (in_order ? times->in_order : 1) *
                                    clocks->iteration,
                       .cold = times->cold * work->issue,
                       .in_rounds = true,
                       .places = PLACES_EVEN};
    add_exceptions(target, time, &made);
    return made;
}

/* Of tiles that differ evenly from the longest to the shortest, drawn in this order, as many as
 * fill R - 1 rounds and one more: some SM has R of them, none shorter than the last. */
static const HostExpr *
in_rounds(Arena *arena, const HostExpr *tiles, const HostExpr *sms, const HostExpr *longest,
          const HostExpr *shortest)
{
    const HostExpr *rounds = term_make(arena, HOST_CDIV, tiles, sms),
                   *before = term_make(arena, HOST_MUL,
                                       term_make(arena, HOST_SUB, rounds, host_int(arena, 1)), sms);
    const HostExpr *sum = term_make(
        arena, HOST_ADD,
        term_make(arena, HOST_MUL, longest, term_make(arena, HOST_SUB, tiles, before)),
        term_make(arena, HOST_MUL, shortest, before));

    return term_make(
        arena, HOST_MUL, rounds,
        term_make(arena, HOST_DIV, sum, term_make(arena, HOST_MAX, tiles, host_int(arena, 1))));
}

/* 1 where `a` is more than `b`, else 0. */
static const HostExpr *
is_more(Arena *arena, const HostExpr *a, const HostExpr *b)
{
    const HostExpr *more = term_make(arena, HOST_MAX, term_make(arena, HOST_SUB, a, b),
                                     host_int(arena, 0));

    return term_make(arena, HOST_MIN, more, host_int(arena, 1));
}

/* 1 where what programs share along `axis` is more than the cache holds, so that the longest do not
 * all go first; else 0. */
static const HostExpr *
has_sections(Arena *arena, const Target *target, const TirFn *fn, uint32_t axis)
{
    const HostExpr *bytes = fn->plan->tiles.shared_bytes_each;

    if (bytes == NULL || target->chip.cache_share == 0)
        return host_int(arena, 0);
    bytes = term_copy(arena, bytes);
    for (uint32_t k = 0; k < fn->grid.n; k++)
        if (k != axis)
            bytes = term_make(arena, HOST_MUL, bytes, term_copy(arena, fn->grid.at[k].extent));
    return term_make(arena, HOST_MIN,
                     term_make(arena, HOST_DIV, bytes, host_int(arena, target->chip.cache_share)),
                     host_int(arena, 1));
}

/* Iterations of a program, on average. */
static const HostExpr *
stream_trips(Arena *arena, const HostExpr *const *trips, bool differ)
{
    return differ ? term_make(arena, HOST_DIV, term_make(arena, HOST_ADD, trips[1], trips[3]),
                              host_int(arena, 2))
                  : trips[0];
}

/* Tiles that differ are drawn, the longest first: all work shared out evenly, the longest, or
 * rounds of them.  `masked`: 1 at places whose tile begins with masks; if any are, the shortest. */
static const HostExpr *
uneven_tiles(Arena *arena, const Target *target, const TirFn *fn, const KernelTime *time,
             const TileClocks *clocks, const HostExpr *tiles, const HostExpr *sms,
             const HostExpr *const *trips, const HostExpr *const *masked)
{
    const HostExpr *late = host_int(arena, llround(clocks->late)),
                   *two = term_make(arena, HOST_ADD, masked[1], masked[3]),
                   *one = term_make(arena, HOST_MAX, masked[0], masked[4]),
                   *all = term_make(arena, HOST_MIN, masked[0], masked[4]);
    const HostExpr *mean = term_clocks(arena, clocks->start, clocks->iteration / 2,
                                       term_make(arena, HOST_ADD, trips[1], trips[3]));
    const HostExpr *longest = term_clocks(arena, clocks->start, clocks->iteration,
                                          term_make(arena, HOST_MAX, trips[0], trips[4]));
    const HostExpr *shortest = term_clocks(arena, clocks->start, clocks->iteration,
                                           term_make(arena, HOST_MIN, trips[0], trips[4]));
    mean = term_make(arena, HOST_ADD, mean,
                     term_make(arena, HOST_MUL, two, host_int(arena, llround(clocks->late / 2))));
    longest = term_make(arena, HOST_ADD, longest, term_make(arena, HOST_MUL, all, late));
    shortest = term_make(arena, HOST_ADD, shortest, term_make(arena, HOST_MUL, one, late));
    const HostExpr *shared = term_make(arena, HOST_DIV, term_make(arena, HOST_MUL, tiles, mean),
                                       sms);

    if (!clocks->in_rounds)
        return term_make(arena, HOST_MAX, shared, longest);
    const HostExpr *end = term_make(arena, HOST_DIV, longest, host_int(arena, LATE_DRAWN));
    shared = term_make(
        arena, HOST_ADD, shared,
        term_make(arena, HOST_MUL, has_sections(arena, target, fn, time->work.axis), end));
    return term_make(arena, HOST_MAX, term_make(arena, HOST_MAX, shared, longest),
                     in_rounds(arena, tiles, sms, longest, shortest));
}

/* `uneven`; but where the consumers have all programs of the axis at once, tiles are alike, and
 * each takes as long as the longest of its programs alone and what the others add to that. */
static const HostExpr *
or_alike(Arena *arena, const TirFn *fn, const KernelTime *time, const TileClocks *clocks,
         const HostExpr *rounds, const HostExpr *const *trips, const HostExpr *uneven)
{
    const HostExpr *programs = term_copy(arena, fn->grid.at[time->work.axis].extent),
                   *several = is_more(arena, programs, host_int(arena, tir_consumers(fn->plan)));
    const HostExpr *sum = term_make(arena, HOST_MUL, programs,
                                    term_make(arena, HOST_ADD, trips[1], trips[3]));
    const HostExpr *alike = term_clocks(arena, clocks->start, clocks->one - clocks->more,
                                        term_make(arena, HOST_MAX, trips[0], trips[4]));

    alike = term_make(arena, HOST_ADD, alike,
                      term_make(arena, HOST_MUL, host_int(arena, llround(clocks->more / 2)), sum));
    return term_make(arena, HOST_ADD, term_make(arena, HOST_MUL, several, uneven),
                     term_make(arena, HOST_MUL,
                               term_make(arena, HOST_SUB, host_int(arena, 1), several),
                               term_make(arena, HOST_MUL, rounds, alike)));
}

/* Of tiles in a loop of nothing but products that take `own`: no less than what the L2 cache gives
 * of what they ask for takes, or what memory gives and takes of all tensors, and of what else the
 * cache has; with parts of the first two besides, since SMs do not go in step.  Which parts: the
 * forms taken of products of 191 shapes on an H200 were nearest to the fastest ones with these
 * (docs/lab/gemm.md). */
static const HostExpr *
beside_memory(Arena *arena, const Target *target, const TirFn *fn, const KernelTime *time,
              const HostExpr *own, const HostExpr *iterations)
{
    enum { OF_MOST = 8, OF_OWN = 10, OF_CACHE = 16 };
    const ConsumerWork *work = &time->work;
    double each = (double)(work->pipeline_bytes_shared +
                           time->plan.consumers * work->pipeline_bytes_own) /
                  target->consumer_times.mmas_cache;
    const HostExpr *all = term_make(arena, HOST_MUL, iterations, host_int(arena, llround(each))),
                   *bytes = host_int(arena, 0);

    for (uint32_t k = 0; k < fn->tensors.n; k++)
        bytes = term_make(arena, HOST_ADD, bytes,
                          term_make(arena, HOST_MUL, term_elements(arena, fn->tensors.at[k]),
                                    host_int(arena, dtype_bits(fn->tensors.at[k]->dtype) / 8)));
    bytes = term_make(arena, HOST_ADD, bytes,
                      term_make(arena, HOST_MIN, bytes, host_int(arena, target->chip.cache_share)));
    double rate = target->chip.memory_bytes * target->chip.sm_count;
    const HostExpr *memory = term_make(arena, HOST_DIV, bytes, host_int(arena, llround(rate)));
    all = term_make(arena, HOST_DIV, all, host_device(arena, DEVICE_SM_COUNT));
    const HostExpr *most = term_make(arena, HOST_MAX, term_make(arena, HOST_MAX, own, all), memory);
    most = term_make(arena, HOST_SUB, most,
                     term_make(arena, HOST_DIV, most, host_int(arena, OF_MOST)));
    return term_make(arena, HOST_ADD, most,
                     term_make(arena, HOST_ADD,
                               term_make(arena, HOST_DIV, own, host_int(arena, OF_OWN)),
                               term_make(arena, HOST_DIV, all, host_int(arena, OF_CACHE))));
}

/* Clocks of its tiles; NULL: no expression. */
static const HostExpr *
tiles_cost(Arena *arena, const Target *target, const TirFn *fn, const KernelTime *time,
           const TileClocks *clocks)
{
    const ConsumerWork *work = &time->work;
    uint32_t axis = work->axis;
    bool streams = consumer_streams(target, work, &time->trips);
    bool together = axis >= fn->grid.n; /* all consumers work on one program */
    bool differ = work->variable_trips || work->sliding;
    const HostExpr *trips[5], *masked[5], *sms = host_device(arena, DEVICE_SM_COUNT);

    if (time->plan.two_blocks)
        sms = term_make(arena, HOST_MUL, sms, host_int(arena, 2));
    for (uint32_t part = 0; part < 5; part++) {
        Place at = term_place(arena, fn, together ? 0 : axis, part, clocks->places);
        at.mean = streams; /* what is left of memory's time, others take */
        trips[part] = differ || part == 0 ? term_all_trips(work->loops, work->n_loops, &at)
                                          : trips[0];
        if (trips[part] == NULL)
            return NULL;
        masked[part] = clocks->late > 0 ? masked_at(time, &at) : host_int(arena, 0);
    }
    const HostExpr *tiles = term_tiles(arena, fn, axis, together ? 1 : tir_consumers(fn->plan)),
                   *rounds = term_make(arena, HOST_CDIV, tiles, sms), *cost;
    if (streams) {
        StreamRates rates = stream_rates(target, work, &time->plan, time->clocks.iteration);
        return stream_cost(arena, &rates, tiles, stream_trips(arena, trips, differ), clocks->start);
    }
    if (differ)
        cost = uneven_tiles(arena, target, fn, time, clocks, tiles, sms, trips, masked);
    else {
        cost = term_clocks(arena, clocks->start, clocks->iteration, trips[0]);
        cost = term_make(
            arena, HOST_ADD, cost,
            term_make(arena, HOST_MUL, masked[0], host_int(arena, llround(clocks->late))));
        cost = term_make(arena, HOST_MUL, rounds, cost);
    }
    if (clocks->beside_memory && !differ)
        cost = beside_memory(arena, target, fn, time, cost,
                             term_make(arena, HOST_MUL, tiles, trips[0]));
    if (clocks->one > 0 && !together)
        cost = or_alike(arena, fn, time, clocks, rounds, trips, cost);
    return cost;
}

const HostExpr *
launch_estimate(Arena *arena, const Target *target, const TirFn *fn, const KernelTime *time)
{
    TileClocks clocks = predicted_clocks(time);

    return term_make(arena, HOST_ADD, host_int(arena, llround(target->consumer_times.launch)),
                     tiles_cost(arena, target, fn, time, &clocks));
}

const HostExpr *
launch_cost(Arena *arena, const Target *target, const TirFn *fn, const KernelTime *time)
{
    TileClocks clocks = tile_clocks(target, time);
    double once = target->consumer_times.launch + clocks.cold;
    clocks.beside_memory = consumer_only_mmas(&time->work) &&
                           target->consumer_times.mmas_cache > 0 && target->chip.memory_bytes > 0;

    return term_make(arena, HOST_ADD, host_int(arena, llround(once)),
                     tiles_cost(arena, target, fn, time, &clocks));
}

/* ---- kernels without roles ---- */

/* Of an SM of any GPU that runs the text: this much shared memory it has at least (compute
 * capability 8.6). */
enum { LEAST_SM_SHARED = 100 * 1024 };

/* Blocks of a kernel without roles. */
typedef struct BlockClocks {
    double begin;            /* to begin and end one */
    double alone;            /* of an iteration, with an SM to itself */
    const HostExpr *more;    /* that it takes more with all places of the SM taken */
    const HostExpr *crowded; /* both together */
    const HostExpr *places;  /* blocks on an SM at once */
} BlockClocks;

typedef struct Loops {
    TripLoop at[CONSUMER_LOOPS];
    uint32_t n;
} Loops;

static Loops
loops_with_products(const TirFn *fn)
{
    Loops loops = {.n = 0};

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);)
        if (walk.op->op == TIR_FOR && has_own_mma(walk.op->blocks[0]) && loops.n < CONSUMER_LOOPS)
            loops.at[loops.n++].op = walk.op;
    return loops;
}

/* The axis along which programs differ in how often their loops run; the number of axes: they do
 * not, or it is not known. */
static uint32_t
axis_of_trips(Arena *arena, const TirFn *fn, const Loops *loops)
{
    uint32_t axis = 0;

    for (; axis < fn->grid.n && axis < MOST_AXES; axis++) {
        Place early = term_place(arena, fn, axis, 1, PLACES_QUARTERS),
              late = term_place(arena, fn, axis, 3, PLACES_QUARTERS);
        if (!term_equal(term_all_trips(loops->at, loops->n, &early),
                        term_all_trips(loops->at, loops->n, &late)))
            break;
    }
    return axis;
}

/* Clocks of an iteration where so many blocks are there at once. */
static const HostExpr *
iteration_beside(Arena *arena, const BlockClocks *clocks, const HostExpr *blocks,
                 const HostExpr *sms)
{
    const HostExpr *more = term_make(arena, HOST_MUL, is_more(arena, blocks, sms), clocks->more);

    return term_make(arena, HOST_ADD, host_int(arena, llround(clocks->alone)), more);
}

/* Rounds in which all places have a block, and the blocks that are left. */
static const HostExpr *
even_blocks(Arena *arena, const BlockClocks *clocks, const HostExpr *blocks, const HostExpr *sms,
            const HostExpr *trips)
{
    const HostExpr *places = term_make(arena, HOST_MUL, sms, clocks->places),
                   *begin = host_int(arena, llround(clocks->begin)),
                   *rounds = term_make(arena, HOST_DIV, blocks, places),
                   *left = term_make(arena, HOST_REM, blocks, places);
    const HostExpr *round = term_make(arena, HOST_ADD, begin,
                                      term_make(arena, HOST_MUL, clocks->crowded, trips)),
                   *each = iteration_beside(arena, clocks, left, sms),
                   *last = term_make(arena, HOST_ADD, begin,
                                     term_make(arena, HOST_MUL, each, trips));

    return term_make(
        arena, HOST_ADD, term_make(arena, HOST_MUL, rounds, round),
        term_make(arena, HOST_MUL, term_make(arena, HOST_MIN, left, host_int(arena, 1)), last));
}

/* Of blocks that differ, which are handed out as places become free: all work over all places, one
 * part in `late` of the longest (0: nothing), and no less than the longest. */
static const HostExpr *
uneven_blocks(Arena *arena, const BlockClocks *clocks, const HostExpr *blocks, const HostExpr *sms,
              const HostExpr *const *trips, int64_t late)
{
    const HostExpr *places = term_make(arena, HOST_MUL, sms, clocks->places);
    const HostExpr *both = term_make(arena, HOST_ADD, trips[1], trips[3]),
                   *most = term_make(arena, HOST_MAX, trips[0], trips[4]);
    const HostExpr *half = term_make(
        arena, HOST_DIV, term_make(arena, HOST_MUL, clocks->crowded, both), host_int(arena, 2));
    const HostExpr *mean = term_make(arena, HOST_ADD, host_int(arena, llround(clocks->begin)), half),
                   *work = term_make(arena, HOST_DIV, term_make(arena, HOST_MUL, blocks, mean),
                                     places),
                   *each = iteration_beside(arena, clocks, blocks, sms),
                   *longest = term_make(arena, HOST_ADD, host_int(arena, llround(clocks->begin)),
                                        term_make(arena, HOST_MUL, each, most));

    if (late > 0)
        work = term_make(arena, HOST_ADD, work,
                         term_make(arena, HOST_DIV,
                                   term_clocks(arena, clocks->begin, clocks->alone, most),
                                   host_int(arena, late)));
    return term_make(arena, HOST_MAX, work, longest);
}

/* How many blocks an SM has, by its shared memory, and what an iteration takes beside as many. */
static BlockClocks
block_clocks(Arena *arena, const Target *target, const Cost *cost)
{
    const LoopTimes *times = &target->chip.loop_times;
    int32_t bytes = cost->shared_bytes + target->chip.shared_reserved, most = cost->most_blocks,
            least = LEAST_SM_SHARED / bytes;
    double each[COST_CROWDS];

    for (int32_t k = 0; k < COST_CROWDS; k++) /* with k + 1 blocks, the last one with the most */
        each[k] = (k + 1 < COST_CROWDS ? k + 1 : most) * cost->beside[k] / cost->units.rounds;
    BlockClocks clocks = {.begin = times->begin + times->fill * each[0], .alone = each[0]};
    least = least < 1 ? 1 : least > most ? most : least;
    const HostExpr *places = term_make(arena, HOST_DIV, host_device(arena, DEVICE_SM_SHARED),
                                       host_int(arena, bytes));
    places = term_make(arena, HOST_MIN, host_int(arena, most), places);
    if (bytes > LEAST_SM_SHARED)
        places = term_make(arena, HOST_MAX, host_int(arena, 1), places);
    clocks.places = least == most ? host_int(arena, most) : places;
    int32_t from = least < COST_CROWDS - 1 ? least : COST_CROWDS - 1;
    clocks.more = host_int(arena, llround(each[from - 1] - each[0]));
    for (int32_t k = from; k < most && k < COST_CROWDS; k++) {
        bool last = k == COST_CROWDS - 1;
        double step = (each[k] - each[k - 1]) / (last ? most - k : 1);
        const HostExpr *beyond = term_make(arena, HOST_SUB, clocks.places, host_int(arena, k));
        if (k > least)
            beyond = term_make(arena, HOST_MAX, beyond, host_int(arena, 0));
        if (!last && k + 1 < most)
            beyond = term_make(arena, HOST_MIN, beyond, host_int(arena, 1));
        clocks.more = term_make(arena, HOST_ADD, clocks.more,
                                term_make(arena, HOST_MUL, host_int(arena, llround(step)), beyond));
    }
    clocks.crowded = term_make(arena, HOST_ADD, host_int(arena, llround(each[0])), clocks.more);
    return clocks;
}

/* More than this of what a loop loads comes from memory, which is not what its time is made of:
 * round, as for plans. */
static const double most_own = 0.5;

const HostExpr *
launch_cost_of_blocks(Arena *arena, const Target *target, const TirFn *fn, const Cost *cost,
                      const HostExpr **estimate)
{
    const LoopTimes *times = &target->chip.loop_times;
    Loops loops = loops_with_products(fn);

    if (loops.n == 0 || cost->units.rounds <= 0 ||
        trips_own(fn, loops.at[0].op, trips_usual_sizes(arena, fn)) > most_own)
        return NULL;
    BlockClocks clocks = block_clocks(arena, target, cost);
    const HostExpr *sms = host_device(arena, DEVICE_SM_COUNT);
    uint32_t axis = axis_of_trips(arena, fn, &loops);
    const HostExpr *trips[5], *blocks = term_tiles(arena, fn, axis, 1);
    for (uint32_t part = 0; part < 5; part++) {
        Place at = term_place(arena, fn, axis, part, PLACES_QUARTERS);
        trips[part] = term_all_trips(loops.at, loops.n, &at);
        if (trips[part] == NULL)
            return NULL;
    }
    const HostExpr *launch = host_int(arena, llround(times->launch));
    bool even = axis >= fn->grid.n;
    const HostExpr *made = even ? even_blocks(arena, &clocks, blocks, sms, trips[0])
                                : uneven_blocks(arena, &clocks, blocks, sms, trips, 0);
    *estimate = term_make(arena, HOST_ADD, launch, made);
    return even ? *estimate
                : term_make(arena, HOST_ADD, launch,
                            uneven_blocks(arena, &clocks, blocks, sms, trips, LATE));
}
