/* launch_cost.c - grid, trips and clocks put together to an expression (launch_cost.h). */
#include "compiler/cost/launch_cost.h"

#include <math.h>

#include "compiler/cost/stream_time.h"
#include "compiler/cost/trips.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

enum {
    MOST_AXES = 3,
    MOST_STEPS = 512 /* definitions followed: a bound on work, and on the expression */
};

/* Of tiles that differ the last ones end late, beside all work shared out evenly: by this part of what the longest takes,
 * where they are drawn the longest first of some heads, then of others; and, by itself on an SM, where they go in the order of the grid. */
enum { LATE_DRAWN = 10, LATE = 3 };

/* A place of the grid; NULL: an axis that is not there. */
typedef struct Place {
    Arena *arena;
    const HostExpr *grid[MOST_AXES];
    bool mean; /* of parts of a range that differ by one, the average in place of the longest */
} Place;

/* Where along an axis: quarters of its last index, or such that the first and the third are as far from the ends, which stands for
 * few programs, too. */
typedef enum Places { PLACES_QUARTERS, PLACES_EVEN } Places;

/* Of a form, numbers by now. */
typedef struct TileClocks {
    double start;     /* to begin and end a tile, with its masks */
    double iteration; /* of all consumers */
    double one,
        more; /* an iteration of one consumer alone, and what each other adds; 0: all have all iterations */
    double late;    /* that a tile begins later whose loop begins with masks */
    double cold;    /* of a launch: SMs fetch the loop's code for the first time */
    bool in_rounds; /* rounds of tiles that differ count, beside all work shared out evenly */
    Places places;
    bool beside_memory; /* of products alone: what the L2 cache and memory give counts, too */
} TileClocks;

/* Of a kernel that is gone before the expression is. */
static const HostExpr *
copy(Arena *arena, const HostExpr *e)
{
    HostExpr *made = arena_new(arena, HostExpr);

    *made = *e;
    made->a = e->a == NULL ? NULL : copy(arena, e->a);
    made->b = e->b == NULL ? NULL : copy(arena, e->b);
    return made;
}

static bool
is_int(const HostExpr *e, int64_t value)
{
    return e->kind == HOST_INT && e->integer == value;
}

static bool
equal(const HostExpr *a, const HostExpr *b)
{
    if (a == NULL || b == NULL || a == b)
        return a == b;
    return a->kind == b->kind && a->integer == b->integer && a->index == b->index &&
           equal(a->a, b->a) && equal(a->b, b->b);
}

/* (x + 1) * n - x * n, as bounds of a part of a range are, is n; NULL: it is something else. */
static const HostExpr *
part_of(const HostExpr *to, const HostExpr *from)
{
    bool parts = to->kind == HOST_MUL && from->kind == HOST_MUL && to->a->kind == HOST_ADD &&
                 is_int(to->a->b, 1) && equal(to->a->a, from->a) && equal(to->b, from->b);

    return parts ? to->b : NULL;
}

/* n * (x + 1) / d - n * x / d, of which there are d that differ by one, are n / d on average. */
static const HostExpr *
even_part_of(const Place *at, const HostExpr *to, const HostExpr *from)
{
    if (to->kind != HOST_DIV || from->kind != HOST_DIV || !equal(to->b, from->b) ||
        to->a->kind != HOST_MUL || from->a->kind != HOST_MUL || !equal(to->a->a, from->a->a) ||
        to->a->b->kind != HOST_ADD || !is_int(to->a->b->b, 1) || !equal(to->a->b->a, from->a->b))
        return NULL;
    return host_binary(at->arena, at->mean ? HOST_DIV : HOST_CDIV, to->a->a, to->b);
}

/* With what is known folded; NULL when an operand is. */
static const HostExpr *
make(Arena *arena, HostKind kind, const HostExpr *a, const HostExpr *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    bool divides = kind == HOST_DIV || kind == HOST_REM || kind == HOST_CDIV;
    if (a->kind == HOST_INT && b->kind == HOST_INT && !(divides && b->integer == 0))
        return host_int(arena, trips_evaluate(host_binary(arena, kind, a, b), NULL, NULL));
    if (is_int(b, 0) && (kind == HOST_ADD || kind == HOST_SUB))
        return a;
    if (is_int(a, 0) && kind == HOST_ADD)
        return b;
    if (is_int(b, 1) && (kind == HOST_MUL || kind == HOST_DIV || kind == HOST_CDIV))
        return a;
    if (is_int(a, 1) && kind == HOST_MUL)
        return b;
    if ((is_int(a, 0) || is_int(b, 0)) && kind == HOST_MUL)
        return host_int(arena, 0);
    if ((kind == HOST_MIN || kind == HOST_MAX) && equal(a, b))
        return a;
    if (kind == HOST_SUB && b->kind == HOST_INT && b->integer < 0)
        return make(arena, HOST_ADD, a, host_int(arena, -b->integer));
    return host_binary(arena, kind, a, b);
}

/* (a + (n - 1)) / n, as ranges are divided in tile IR; else NULL. */
static const HostExpr *
as_cdiv(Arena *arena, const HostExpr *a, const HostExpr *b)
{
    bool rounds = a != NULL && b != NULL && a->kind == HOST_ADD && b->kind == HOST_INT &&
                  is_int(a->b, b->integer - 1);

    return rounds ? make(arena, HOST_CDIV, a->a, b) : NULL;
}

static bool
host_kind_of(TirOpcode op, HostKind *kind)
{
    switch (op) {
    case TIR_ADD: *kind = HOST_ADD; return true;
    case TIR_SUB: *kind = HOST_SUB; return true;
    case TIR_MUL: *kind = HOST_MUL; return true;
    case TIR_DIV: *kind = HOST_DIV; return true;
    case TIR_REM: *kind = HOST_REM; return true;
    case TIR_MIN: *kind = HOST_MIN; return true;
    case TIR_MAX: *kind = HOST_MAX; return true;
    default: return false;
    }
}

static const HostExpr *follow(const TirVal *value, const Place *at, uint32_t *steps);

/* x & -n, of what is not negative; NULL: something else. */
static const HostExpr *
rounded_down(const TirOp *op, const Place *at, uint32_t *steps)
{
    const TirOp *mask = op->args[1]->def;
    int64_t n = mask != NULL && mask->op == TIR_CONST ? -mask->integer : 0;

    if (n <= 0 || (n & (n - 1)) != 0)
        return NULL;
    const HostExpr *pieces = make(at->arena, HOST_DIV, follow(op->args[0], at, steps),
                                  host_int(at->arena, n));
    return make(at->arena, HOST_MUL, pieces, host_int(at->arena, n));
}

static const HostExpr *
follow(const TirVal *value, const Place *at, uint32_t *steps)
{
    const TirOp *def = value->def;
    HostKind kind;

    if (def == NULL || ++*steps > MOST_STEPS)
        return NULL;
    switch (def->op) {
    case TIR_CONST: return host_int(at->arena, def->integer);
    case TIR_SIZE: {
        HostExpr *size = arena_new(at->arena, HostExpr);
        *size = (HostExpr){.kind = HOST_SIZE, .index = (uint32_t)def->integer};
        return size;
    }
    case TIR_GRID_FIRST:
    case TIR_GRID: return def->integer < MOST_AXES ? at->grid[def->integer] : NULL;
    default: break;
    }
    if (!host_kind_of(def->op, &kind)) {
        return def->op == TIR_AND ? rounded_down(def, at, steps) : NULL;
    }
    const HostExpr *a = follow(def->args[0], at, steps), *b = follow(def->args[1], at, steps),
                   *rounded = kind == HOST_DIV ? as_cdiv(at->arena, a, b) : NULL;
    return rounded != NULL ? rounded : make(at->arena, kind, a, b);
}

/* A scalar of tile IR as an expression, at a place of the grid; NULL: it is none. */
static const HostExpr *
scalar(const TirVal *value, const Place *at)
{
    uint32_t steps = 0;

    return follow(value, at, &steps);
}

/* Iterations of all loops around `loop` and its own together. */
static const HostExpr *
trips_at(const TirOp *loop, const Place *at)
{
    const HostExpr *product = host_int(at->arena, 1);

    for (; loop != NULL; loop = loop->parent->owner) {
        if (loop->op != TIR_FOR)
            continue;
        const HostExpr *from = scalar(loop->args[0], at), *to = scalar(loop->args[1], at);
        const HostExpr *part = to == NULL || from == NULL ? NULL : part_of(to, from);
        if (part == NULL && to != NULL && from != NULL)
            part = even_part_of(at, to, from);
        const HostExpr *trips = part != NULL ? part : make(at->arena, HOST_SUB, to, from);
        if (part == NULL && trips != NULL && trips->kind == HOST_SUB)
            trips = make(at->arena, HOST_MAX, trips, host_int(at->arena, 0));
        product = make(at->arena, HOST_MUL, product, trips);
    }
    return product;
}

static const HostExpr *
all_trips_at(const TripLoop *loops, uint32_t n_loops, const Place *at)
{
    const HostExpr *sum = host_int(at->arena, 0);

    for (uint32_t k = 0; k < n_loops; k++)
        sum = make(at->arena, HOST_ADD, sum, trips_at(loops[k].op, at));
    return sum;
}

static const HostExpr *
quarter_of(Arena *arena, const HostExpr *last, int64_t part)
{
    return make(arena, HOST_DIV, make(arena, HOST_MUL, last, host_int(arena, part)),
                host_int(arena, 4));
}

/* The middle of each axis but `axis`, and the `part`-th quarter of that. */
static Place
place_in(Arena *arena, const TirFn *fn, uint32_t axis, int64_t part, Places places)
{
    Place at = {.arena = arena};

    for (uint32_t k = 0; k < fn->grid.n && k < MOST_AXES; k++) {
        const HostExpr *extent = copy(arena, fn->grid.at[k].extent),
                       *last = make(arena, HOST_SUB, extent, host_int(arena, 1));
        if (k != axis)
            at.grid[k] = make(arena, HOST_DIV, extent, host_int(arena, 2));
        else if (part == 0 || part == 4)
            at.grid[k] = part == 0 ? host_int(arena, 0) : last;
        else if (part == 3 && places == PLACES_EVEN)
            at.grid[k] = make(arena, HOST_SUB, last, quarter_of(arena, last, 1));
        else
            at.grid[k] = quarter_of(arena, last, part);
    }
    return at;
}

/* Whether no mask lives in the first of a loop's segments, but in others.  When that is empty, a pipelined loop has its iterations
 * in order, if all consumers go the same way (passes/schedule/roles.c). */
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
        const HostExpr *clean = make(at->arena, HOST_SUB, scalar(loop->op->args[2], at),
                                     scalar(loop->op->args[0], at));
        clean = make(at->arena, HOST_MAX, clean, host_int(at->arena, 0));
        const HostExpr *has = make(at->arena, HOST_MIN, trips_at(loop->op, at), one),
                       *begins = make(at->arena, HOST_SUB, one,
                                      make(at->arena, HOST_MIN, clean, one));
        sum = make(at->arena, HOST_ADD, sum, make(at->arena, HOST_MUL, has, begins));
    }
    return sum;
}

/* Tiles that blocks go through: points of the grid, neighbours along the consumer axis together. */
static const HostExpr *
tiles_of(Arena *arena, const TirFn *fn, uint32_t axis, uint32_t consumers)
{
    const HostExpr *tiles = host_int(arena, 1);

    for (uint32_t k = 0; k < fn->grid.n; k++) {
        const HostExpr *extent = copy(arena, fn->grid.at[k].extent);
        if (k == axis)
            extent = make(arena, HOST_CDIV, extent, host_int(arena, consumers));
        tiles = make(arena, HOST_MUL, tiles, extent);
    }
    return tiles;
}

/* Clocks of a tile with so many iterations. */
static const HostExpr *
clocks_of(Arena *arena, double start, double each, const HostExpr *trips)
{
    return make(arena, HOST_ADD, host_int(arena, llround(start)),
                make(arena, HOST_MUL, host_int(arena, llround(each)), trips));
}

/* What is not the same for all tiles.
 *
 * Consumers whose bounds differ have iterations each of its own: one without a program asks the units for nothing.  Elsewhere
 * it computes what is not stored.
 *
 * Of two stages of a tile that is loaded once, one comes back under the next tile's first product; but where that tile's
 * iterations are in order, at its end, and the tile behind it waits for what is asked for only then. */
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

/* With the figures of launches; loops of nothing but products were not among those that they are fitted to. */
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

/* Of tiles that differ evenly from the longest to the shortest, drawn in this order, as many as fill R - 1 rounds and one
 * more: some SM has R of them, none shorter than the last. */
static const HostExpr *
in_rounds(Arena *arena, const HostExpr *tiles, const HostExpr *sms, const HostExpr *longest,
          const HostExpr *shortest)
{
    const HostExpr *rounds = make(arena, HOST_CDIV, tiles, sms),
                   *before = make(arena, HOST_MUL,
                                  make(arena, HOST_SUB, rounds, host_int(arena, 1)), sms);
    const HostExpr *sum = make(arena, HOST_ADD,
                               make(arena, HOST_MUL, longest, make(arena, HOST_SUB, tiles, before)),
                               make(arena, HOST_MUL, shortest, before));

    return make(arena, HOST_MUL, rounds,
                make(arena, HOST_DIV, sum, make(arena, HOST_MAX, tiles, host_int(arena, 1))));
}

/* 1 where `a` is more than `b`, else 0. */
static const HostExpr *
is_more(Arena *arena, const HostExpr *a, const HostExpr *b)
{
    const HostExpr *more = make(arena, HOST_MAX, make(arena, HOST_SUB, a, b), host_int(arena, 0));

    return make(arena, HOST_MIN, more, host_int(arena, 1));
}

/* 1 where what programs share along `axis` is more than the cache holds, so that the longest do not all go first; else 0. */
static const HostExpr *
has_sections(Arena *arena, const Target *target, const TirFn *fn, uint32_t axis)
{
    const HostExpr *bytes = fn->plan->tiles.shared_bytes_each;

    if (bytes == NULL || target->chip.cache_share == 0)
        return host_int(arena, 0);
    bytes = copy(arena, bytes);
    for (uint32_t k = 0; k < fn->grid.n; k++)
        if (k != axis)
            bytes = make(arena, HOST_MUL, bytes, copy(arena, fn->grid.at[k].extent));
    return make(arena, HOST_MIN,
                make(arena, HOST_DIV, bytes, host_int(arena, target->chip.cache_share)),
                host_int(arena, 1));
}

/* Iterations of a program, on average. */
static const HostExpr *
stream_trips(Arena *arena, const HostExpr *const *trips, bool differ)
{
    return differ ? make(arena, HOST_DIV, make(arena, HOST_ADD, trips[1], trips[3]),
                         host_int(arena, 2))
                  : trips[0];
}

/* Tiles that differ are drawn, the longest first: all work shared out evenly, the longest, or rounds of them.  `masked`: 1
 * at places whose tile begins with masks; if any are, the shortest. */
static const HostExpr *
uneven_tiles(Arena *arena, const Target *target, const TirFn *fn, const KernelTime *time,
             const TileClocks *clocks, const HostExpr *tiles, const HostExpr *sms,
             const HostExpr *const *trips, const HostExpr *const *masked)
{
    const HostExpr *late = host_int(arena, llround(clocks->late)),
                   *two = make(arena, HOST_ADD, masked[1], masked[3]),
                   *one = make(arena, HOST_MAX, masked[0], masked[4]),
                   *all = make(arena, HOST_MIN, masked[0], masked[4]);
    const HostExpr *mean = clocks_of(arena, clocks->start, clocks->iteration / 2,
                                     make(arena, HOST_ADD, trips[1], trips[3]));
    const HostExpr *longest = clocks_of(arena, clocks->start, clocks->iteration,
                                        make(arena, HOST_MAX, trips[0], trips[4]));
    const HostExpr *shortest = clocks_of(arena, clocks->start, clocks->iteration,
                                         make(arena, HOST_MIN, trips[0], trips[4]));
    mean = make(arena, HOST_ADD, mean,
                make(arena, HOST_MUL, two, host_int(arena, llround(clocks->late / 2))));
    longest = make(arena, HOST_ADD, longest, make(arena, HOST_MUL, all, late));
    shortest = make(arena, HOST_ADD, shortest, make(arena, HOST_MUL, one, late));
    const HostExpr *shared = make(arena, HOST_DIV, make(arena, HOST_MUL, tiles, mean), sms);

    if (!clocks->in_rounds)
        return make(arena, HOST_MAX, shared, longest);
    const HostExpr *end = make(arena, HOST_DIV, longest, host_int(arena, LATE_DRAWN));
    shared = make(arena, HOST_ADD, shared,
                  make(arena, HOST_MUL, has_sections(arena, target, fn, time->work.axis), end));
    return make(arena, HOST_MAX, make(arena, HOST_MAX, shared, longest),
                in_rounds(arena, tiles, sms, longest, shortest));
}

/* `uneven`; but where the consumers have all programs of the axis at once, tiles are alike, and each takes as long as the longest
 * of its programs alone and what the others add to that. */
static const HostExpr *
or_alike(Arena *arena, const TirFn *fn, const KernelTime *time, const TileClocks *clocks,
         const HostExpr *rounds, const HostExpr *const *trips, const HostExpr *uneven)
{
    const HostExpr *programs = copy(arena, fn->grid.at[time->work.axis].extent),
                   *several = is_more(arena, programs, host_int(arena, tir_consumers(fn->plan)));
    const HostExpr *sum = make(arena, HOST_MUL, programs, make(arena, HOST_ADD, trips[1], trips[3]));
    const HostExpr *alike = clocks_of(arena, clocks->start, clocks->one - clocks->more,
                                      make(arena, HOST_MAX, trips[0], trips[4]));

    alike = make(arena, HOST_ADD, alike,
                 make(arena, HOST_MUL, host_int(arena, llround(clocks->more / 2)), sum));
    return make(arena, HOST_ADD, make(arena, HOST_MUL, several, uneven),
                make(arena, HOST_MUL, make(arena, HOST_SUB, host_int(arena, 1), several),
                     make(arena, HOST_MUL, rounds, alike)));
}

/* Elements of a tensor. */
static const HostExpr *
elements_of(Arena *arena, const TirTensor *tensor)
{
    const HostExpr *all = host_int(arena, 1);

    for (uint32_t k = 0; k < tensor->rank; k++) {
        HostExpr *extent = arena_new(arena, HostExpr);
        *extent = tensor->dim[k].constant > 0
                      ? (HostExpr){.kind = HOST_INT, .integer = tensor->dim[k].constant}
                      : (HostExpr){.kind = HOST_SIZE, .index = tensor->dim[k].size};
        all = make(arena, HOST_MUL, all, extent);
    }
    return all;
}

/* Of tiles in a loop of nothing but products that take `own`: no less than what the L2 cache gives of
 * what they ask for takes, or what memory gives and takes of all tensors, and of what else the cache has;
 * with parts of the first two besides, since SMs do not go in step.  Which parts: the forms taken of
 * products of 191 shapes on an H200 were nearest to the fastest ones with these (docs/lab/gemm.md). */
static const HostExpr *
beside_memory(Arena *arena, const Target *target, const TirFn *fn, const KernelTime *time,
              const HostExpr *own, const HostExpr *iterations)
{
    enum { OF_MOST = 8, OF_OWN = 10, OF_CACHE = 16 };
    const ConsumerWork *work = &time->work;
    double each = (double)(work->pipeline_bytes_shared +
                           time->plan.consumers * work->pipeline_bytes_own) /
                  target->consumer_times.mmas_cache;
    const HostExpr *all = make(arena, HOST_MUL, iterations, host_int(arena, llround(each))),
                   *bytes = host_int(arena, 0);

    for (uint32_t k = 0; k < fn->tensors.n; k++)
        bytes = make(arena, HOST_ADD, bytes,
                     make(arena, HOST_MUL, elements_of(arena, fn->tensors.at[k]),
                          host_int(arena, dtype_bits(fn->tensors.at[k]->dtype) / 8)));
    bytes = make(arena, HOST_ADD, bytes,
                 make(arena, HOST_MIN, bytes, host_int(arena, target->chip.cache_share)));
    double rate = target->chip.memory_bytes * target->chip.sm_count;
    const HostExpr *memory = make(arena, HOST_DIV, bytes, host_int(arena, llround(rate)));
    all = make(arena, HOST_DIV, all, host_device(arena, DEVICE_SM_COUNT));
    const HostExpr *most = make(arena, HOST_MAX, make(arena, HOST_MAX, own, all), memory);
    most = make(arena, HOST_SUB, most, make(arena, HOST_DIV, most, host_int(arena, OF_MOST)));
    return make(arena, HOST_ADD, most,
                make(arena, HOST_ADD, make(arena, HOST_DIV, own, host_int(arena, OF_OWN)),
                     make(arena, HOST_DIV, all, host_int(arena, OF_CACHE))));
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
        sms = make(arena, HOST_MUL, sms, host_int(arena, 2));
    for (uint32_t part = 0; part < 5; part++) {
        Place at = place_in(arena, fn, together ? 0 : axis, part, clocks->places);
        at.mean = streams; /* what is left of memory's time, others take */
        trips[part] = differ || part == 0 ? all_trips_at(work->loops, work->n_loops, &at)
                                          : trips[0];
        if (trips[part] == NULL)
            return NULL;
        masked[part] = clocks->late > 0 ? masked_at(time, &at) : host_int(arena, 0);
    }
    const HostExpr *tiles = tiles_of(arena, fn, axis, together ? 1 : tir_consumers(fn->plan)),
                   *rounds = make(arena, HOST_CDIV, tiles, sms), *cost;
    if (streams) {
        StreamRates rates = stream_rates(target, work, &time->plan, time->clocks.iteration);
        return stream_cost(arena, &rates, tiles, stream_trips(arena, trips, differ), clocks->start);
    }
    if (differ)
        cost = uneven_tiles(arena, target, fn, time, clocks, tiles, sms, trips, masked);
    else {
        cost = clocks_of(arena, clocks->start, clocks->iteration, trips[0]);
        cost = make(arena, HOST_ADD, cost,
                    make(arena, HOST_MUL, masked[0], host_int(arena, llround(clocks->late))));
        cost = make(arena, HOST_MUL, rounds, cost);
    }
    if (clocks->beside_memory && !differ)
        cost = beside_memory(arena, target, fn, time, cost, make(arena, HOST_MUL, tiles, trips[0]));
    if (clocks->one > 0 && !together)
        cost = or_alike(arena, fn, time, clocks, rounds, trips, cost);
    return cost;
}

const HostExpr *
launch_estimate(Arena *arena, const Target *target, const TirFn *fn, const KernelTime *time)
{
    TileClocks clocks = predicted_clocks(time);

    return make(arena, HOST_ADD, host_int(arena, llround(target->consumer_times.launch)),
                tiles_cost(arena, target, fn, time, &clocks));
}

const HostExpr *
launch_cost(Arena *arena, const Target *target, const TirFn *fn, const KernelTime *time)
{
    TileClocks clocks = tile_clocks(target, time);
    double once = target->consumer_times.launch + clocks.cold;
    clocks.beside_memory = consumer_only_mmas(&time->work) &&
                           target->consumer_times.mmas_cache > 0 && target->chip.memory_bytes > 0;

    return make(arena, HOST_ADD, host_int(arena, llround(once)),
                tiles_cost(arena, target, fn, time, &clocks));
}

/* ---- kernels without roles ---- */

/* Of an SM of any GPU that runs the text: this much shared memory it has at least (compute capability 8.6). */
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

/* The axis along which programs differ in how often their loops run; the number of axes: they do not, or it is not known. */
static uint32_t
axis_of_trips(Arena *arena, const TirFn *fn, const Loops *loops)
{
    uint32_t axis = 0;

    for (; axis < fn->grid.n && axis < MOST_AXES; axis++) {
        Place early = place_in(arena, fn, axis, 1, PLACES_QUARTERS),
              late = place_in(arena, fn, axis, 3, PLACES_QUARTERS);
        if (!equal(all_trips_at(loops->at, loops->n, &early),
                   all_trips_at(loops->at, loops->n, &late)))
            break;
    }
    return axis;
}

/* Clocks of an iteration where so many blocks are there at once. */
static const HostExpr *
iteration_beside(Arena *arena, const BlockClocks *clocks, const HostExpr *blocks,
                 const HostExpr *sms)
{
    const HostExpr *more = make(arena, HOST_MUL, is_more(arena, blocks, sms), clocks->more);

    return make(arena, HOST_ADD, host_int(arena, llround(clocks->alone)), more);
}

/* Rounds in which all places have a block, and the blocks that are left. */
static const HostExpr *
even_blocks(Arena *arena, const BlockClocks *clocks, const HostExpr *blocks, const HostExpr *sms,
            const HostExpr *trips)
{
    const HostExpr *places = make(arena, HOST_MUL, sms, clocks->places),
                   *begin = host_int(arena, llround(clocks->begin)),
                   *rounds = make(arena, HOST_DIV, blocks, places),
                   *left = make(arena, HOST_REM, blocks, places);
    const HostExpr *round = make(arena, HOST_ADD, begin,
                                 make(arena, HOST_MUL, clocks->crowded, trips)),
                   *each = iteration_beside(arena, clocks, left, sms),
                   *last = make(arena, HOST_ADD, begin, make(arena, HOST_MUL, each, trips));

    return make(arena, HOST_ADD, make(arena, HOST_MUL, rounds, round),
                make(arena, HOST_MUL, make(arena, HOST_MIN, left, host_int(arena, 1)), last));
}

/* Of blocks that differ, which are handed out as places become free: all work over all places, one part in `late` of the longest (0: nothing),
 * and no less than the longest. */
static const HostExpr *
uneven_blocks(Arena *arena, const BlockClocks *clocks, const HostExpr *blocks, const HostExpr *sms,
              const HostExpr *const *trips, int64_t late)
{
    const HostExpr *places = make(arena, HOST_MUL, sms, clocks->places);
    const HostExpr *both = make(arena, HOST_ADD, trips[1], trips[3]),
                   *most = make(arena, HOST_MAX, trips[0], trips[4]);
    const HostExpr *half = make(arena, HOST_DIV, make(arena, HOST_MUL, clocks->crowded, both),
                                host_int(arena, 2));
    const HostExpr *mean = make(arena, HOST_ADD, host_int(arena, llround(clocks->begin)), half),
                   *work = make(arena, HOST_DIV, make(arena, HOST_MUL, blocks, mean), places),
                   *each = iteration_beside(arena, clocks, blocks, sms),
                   *longest = make(arena, HOST_ADD, host_int(arena, llround(clocks->begin)),
                                   make(arena, HOST_MUL, each, most));

    if (late > 0)
        work = make(arena, HOST_ADD, work,
                    make(arena, HOST_DIV, clocks_of(arena, clocks->begin, clocks->alone, most),
                         host_int(arena, late)));
    return make(arena, HOST_MAX, work, longest);
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
    const HostExpr *places = make(arena, HOST_DIV, host_device(arena, DEVICE_SM_SHARED),
                                  host_int(arena, bytes));
    places = make(arena, HOST_MIN, host_int(arena, most), places);
    if (bytes > LEAST_SM_SHARED)
        places = make(arena, HOST_MAX, host_int(arena, 1), places);
    clocks.places = least == most ? host_int(arena, most) : places;
    int32_t from = least < COST_CROWDS - 1 ? least : COST_CROWDS - 1;
    clocks.more = host_int(arena, llround(each[from - 1] - each[0]));
    for (int32_t k = from; k < most && k < COST_CROWDS; k++) {
        bool last = k == COST_CROWDS - 1;
        double step = (each[k] - each[k - 1]) / (last ? most - k : 1);
        const HostExpr *beyond = make(arena, HOST_SUB, clocks.places, host_int(arena, k));
        if (k > least)
            beyond = make(arena, HOST_MAX, beyond, host_int(arena, 0));
        if (!last && k + 1 < most)
            beyond = make(arena, HOST_MIN, beyond, host_int(arena, 1));
        clocks.more = make(arena, HOST_ADD, clocks.more,
                           make(arena, HOST_MUL, host_int(arena, llround(step)), beyond));
    }
    clocks.crowded = make(arena, HOST_ADD, host_int(arena, llround(each[0])), clocks.more);
    return clocks;
}

/* More than this of what a loop loads comes from memory, which is not what its time is made of: round, as for plans. */
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
    const HostExpr *trips[5], *blocks = tiles_of(arena, fn, axis, 1);
    for (uint32_t part = 0; part < 5; part++) {
        Place at = place_in(arena, fn, axis, part, PLACES_QUARTERS);
        trips[part] = all_trips_at(loops.at, loops.n, &at);
        if (trips[part] == NULL)
            return NULL;
    }
    const HostExpr *launch = host_int(arena, llround(times->launch));
    bool even = axis >= fn->grid.n;
    const HostExpr *made = even ? even_blocks(arena, &clocks, blocks, sms, trips[0])
                                : uneven_blocks(arena, &clocks, blocks, sms, trips, 0);
    *estimate = make(arena, HOST_ADD, launch, made);
    return even ? *estimate
                : make(arena, HOST_ADD, launch,
                       uneven_blocks(arena, &clocks, blocks, sms, trips, LATE));
}

/* ---- kernels without products ---- */

static Loops
all_loops(const TirFn *fn)
{
    Loops loops = {.n = 0};

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);)
        if (walk.op->op == TIR_FOR && loops.n < CONSUMER_LOOPS)
            loops.at[loops.n++].op = walk.op;
    return loops;
}

/* Bytes that are moved for an element: neighbours that begin anywhere are in one sector more than they fill. */
static double
bytes_of_element(const TirOp *access)
{
    enum { SECTOR = 32 };
    double bytes = (double)dtype_bits(access->tensor->dtype) / 8, run = bytes;

    for (TirDims d = tir_dims(access); tir_dims_next(&d);)
        run = bytes * (d.range ? d.length : 1);
    return bytes * (run + SECTOR) / run;
}

/* Accesses to tensors of as many elements. */
typedef struct Accesses {
    const HostExpr *elements;
    int64_t clocks; /* of an element */
} Accesses;

/* Whether a load is of the first tile of a loop that loads the others itself (load-ahead). */
static bool
is_first_of_loop(const TirOp *load)
{
    const TirBlock *block = load->parent;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *loop = block->ops.at[i];
        for (uint32_t k = 0; loop->op == TIR_FOR && k < loop->n_args; k++)
            if (loop->args[k] == load->results[0])
                return true;
    }
    return false;
}

/* Clocks in which the L2 cache gives or takes all of the tensors, once for each access. */
static const HostExpr *
access_clocks(Arena *arena, const Target *target, const TirFn *fn)
{
    enum { UNIT = 1024 }; /* a byte's clocks are no whole number */
    const HostExpr *sum = host_int(arena, 0);
    VEC(Accesses) all = {0};

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);) {
        if ((walk.op->op != TIR_LOAD && walk.op->op != TIR_STORE) ||
            (walk.op->op == TIR_LOAD && is_first_of_loop(walk.op)))
            continue;
        const HostExpr *elements = elements_of(arena, walk.op->tensor);
        uint32_t k = 0;
        while (k < all.n && !equal(all.at[k].elements, elements))
            k++;
        if (k == all.n)
            vec_push(arena, &all, ((Accesses){elements, 0}));
        all.at[k].clocks += llround(UNIT * bytes_of_element(walk.op) / target->chip.global_bytes);
    }
    for (uint32_t k = 0; k < all.n; k++)
        sum = make(arena, HOST_ADD, sum,
                   make(arena, HOST_MUL, all.at[k].elements, host_int(arena, all.at[k].clocks)));
    return make(arena, HOST_DIV, sum,
                make(arena, HOST_MUL, host_device(arena, DEVICE_SM_COUNT), host_int(arena, UNIT)));
}

/* Iterations of all loops at the middle of the grid. */
static const HostExpr *
middle_trips(Arena *arena, const TirFn *fn, const Loops *loops)
{
    Place middle = place_in(arena, fn, fn->grid.n, 0, PLACES_QUARTERS);

    return loops->n > 0 ? all_trips_at(loops->at, loops->n, &middle) : host_int(arena, 1);
}

/* Every iteration waits for what it loads, where the SM has nothing else to do; else the lanes bind, or the cache.  A program's
 * beginning and end take a third of that wait, a round figure.  A part of what is moved nothing hides. */
static const HostExpr *
rows_cost(Arena *arena, const Target *target, const TirFn *fn, const HostExpr *trips, double lanes,
          int32_t blocks)
{
    enum { BARE = 8 };
    const LoopTimes *times = &target->chip.loop_times;
    const HostExpr *sms = host_device(arena, DEVICE_SM_COUNT),
                   *tiles = tiles_of(arena, fn, fn->grid.n, 1);
    const HostExpr *latency = clocks_of(arena, times->copy_wait / 3, times->copy_wait + lanes,
                                        trips),
                   *busy = clocks_of(arena, 0, lanes, trips);
    const HostExpr *places = make(arena, HOST_MUL, sms, host_int(arena, blocks));

    latency = make(arena, HOST_MUL, make(arena, HOST_CDIV, tiles, places), latency);
    busy = make(arena, HOST_MUL, make(arena, HOST_CDIV, tiles, sms), busy);
    const HostExpr *access = access_clocks(arena, target, fn),
                   *most = make(arena, HOST_MAX, make(arena, HOST_MAX, latency, busy), access),
                   *bare = make(arena, HOST_DIV, access, host_int(arena, BARE));
    return make(arena, HOST_ADD, host_int(arena, llround(times->launch)),
                make(arena, HOST_ADD, most, bare));
}

const HostExpr *
launch_cost_of_rows(Arena *arena, const Target *target, const TirFn *fn, const Cost *cost)
{
    /* clocks of an SM for an addition of a lane to memory: column sums of 32 and 128 rows on an H200 */
    enum { ADDED = 4 };
    Loops loops = all_loops(fn);
    double additions = cost->units.atomic / target->addition_clocks;
    double lanes = (cost->units.special + cost->units.lanes + ADDED * additions) /
                   (loops.n > 0 ? cost->units.iterations : 1);
    const HostExpr *trips = middle_trips(arena, fn, &loops);

    if (trips == NULL) /* a bound is loaded: as long as it counts in `lanes` */
        trips = host_int(arena, llround(cost->units.iterations));
    return rows_cost(arena, target, fn, trips, lanes, cost->blocks);
}

/* Whether a mask may yet leave out iterations of a loop. */
static bool
has_mask(const TirFn *fn)
{
    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);)
        if (walk.op->op == TIR_MASK)
            return true;
    return false;
}

const HostExpr *
launch_least_of_rows(Arena *arena, const Target *target, const TirFn *fn, uint32_t warps)
{
    Loops loops = all_loops(fn);
    int32_t blocks = target->chip.threads_per_sm / (WARP_LANES * (int32_t)warps);
    const HostExpr *trips = loops.n > 0 && has_mask(fn) ? NULL : middle_trips(arena, fn, &loops);

    if (blocks > target->chip.blocks_per_sm)
        blocks = target->chip.blocks_per_sm;
    return rows_cost(arena, target, fn, trips != NULL ? trips : host_int(arena, 0), 0, blocks);
}
