/* trips.c - evaluates grid extents and loop bounds. */
#include "compiler/cost/trips.h"

#include "compiler/ir/tir_compute.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

enum {
    MOST_AXES = 3,
    SAMPLES = 512,    /* blocks, evenly spaced, whose trips are averaged: a bound on work */
    MOST_STEPS = 512, /* definitions followed: a bound on work */
    KNOWN = 64        /* values whose numbers are kept */
};
/* Usual values where none are given: of sizes that are divided into tiles, and of others.  TILED is
 * also the assumed distance of loaded numbers that stand one behind the other, like the starts of
 * sequences. */
enum { TILED = 4096, OTHER = 8 };

int64_t
trips_evaluate(const HostExpr *e, const int64_t *sizes, const Device *device)
{
    int64_t n = 0; /* also what is divided by 0 */

    switch (e->kind) {
    case HOST_INT: return e->integer;
    case HOST_FLOAT: return (int64_t)e->number;
    case HOST_SIZE: return sizes[e->index];
    case HOST_SCALAR: return 1;
    case HOST_DEVICE: return device == NULL ? 1 : device->at[e->index];
    case HOST_NOT: return trips_evaluate(e->a, sizes, device) == 0;
    case HOST_NEG: return -trips_evaluate(e->a, sizes, device);
    default: break;
    }
    bool tiles = e->kind == HOST_CDIV && e->a->kind == HOST_SCALAR;
    host_compute(e->kind, tiles ? TILED : trips_evaluate(e->a, sizes, device),
                 trips_evaluate(e->b, sizes, device), &n);
    return n;
}

/* Of a grid, whose extents ask no device. */
static int64_t
eval_host(const HostExpr *e, const int64_t *sizes)
{
    return trips_evaluate(e, sizes, NULL);
}

/* A number, and whether numbers that are loaded decide it. */
typedef struct Number {
    int64_t n;
    bool loaded;
} Number;

/* What has been found of a value, in so many steps; of none yet: NULL. */
typedef struct KnownNumber {
    const TirVal *value;
    Number number;
    uint32_t steps;
} KnownNumber;

/* A program of the grid, and values there, by id modulo KNOWN: bounds of loops and of their parts
 * have much in common. */
typedef struct Point {
    const int64_t *sizes;
    int64_t grid[MOST_AXES];
    uint32_t
        /* of the axes, a bit each: whether some number follows from the index along it */
        axes_read;
    KnownNumber known[KNOWN];
} Point;

static Number number_of(const TirVal *value, Point *at, uint32_t *steps);

static int64_t
number_of_op(const TirOp *def, Point *at, const Number *args)
{
    int64_t a[3] = {args[0].n, args[1].n, args[2].n}, n = 0;

    if ((def->op == TIR_GRID || def->op == TIR_GRID_FIRST) && def->integer < MOST_AXES)
        at->axes_read |= 1u << def->integer;
    switch (def->op) {
    case TIR_CONST: return def->integer;
    case TIR_SIZE: return at->sizes[def->integer];
    case TIR_GRID_FIRST: /* without a plan, a block has one program */
    case TIR_GRID: return def->integer < MOST_AXES ? at->grid[def->integer] : 0;
    case TIR_PARAM: return 1;
    case TIR_LOAD:
        return def->n_args == 0 || def->n_args > 3 ? TILED : (a[def->n_args - 1] + 1) * TILED;
    case TIR_NEG: return -a[0];
    case TIR_NOT: return def->results[0]->type.dtype == DT_BOOL ? a[0] == 0 : ~a[0];
    case TIR_SELECT: /* that loaded numbers decide: the programs that count have iterations */
        return a[0] != 0 || args[0].loaded ? a[1] : a[2];
    default: tir_compute(def->op, a[0], a[1], &n); return n;
    }
}

static Number
number_of(const TirVal *value, Point *at, uint32_t *steps)
{
    const TirOp *def = value->def, *loop = value->block->owner;
    Number args[3] = {{0}}, result = {0};
    KnownNumber *known = &at->known[value->id % KNOWN];
    uint32_t before = *steps;

    if (known->value == value && before + known->steps <= MOST_STEPS) {
        *steps += known->steps;
        return known->number;
    }
    if (++*steps > MOST_STEPS)
        return result;
    if (def == NULL) {
        bool first = loop != NULL && loop->op == TIR_FOR && value->index == 0;
        return first ? number_of(loop->args[0], at, steps) : result;
    }
    result.loaded = def->op == TIR_LOAD;
    for (uint32_t k = 0; k < def->n_args && k < 3 && def->n_blocks == 0; k++) {
        args[k] = number_of(def->args[k], at, steps);
        result.loaded = result.loaded || args[k].loaded;
    }
    result.n = number_of_op(def, at, args);
    if (*steps <= MOST_STEPS)
        *known = (KnownNumber){value, result, *steps - before};
    return result;
}

/* A scalar of tile IR at one point of the grid, in the first iteration of the loops around. */
static int64_t
eval_scalar(const TirVal *value, Point *at)
{
    uint32_t steps = 0;

    return number_of(value, at, &steps).n;
}

/* Iterations of `loop` at one point: of all loops around it together. */
static double
iterations(const TirOp *loop, Point *at)
{
    double n = 1;

    while (loop != NULL) {
        if (loop->op == TIR_FOR) {
            int64_t trips = eval_scalar(loop->args[1], at) - eval_scalar(loop->args[0], at);
            n *= trips > 0 ? (double)trips : 0;
        }
        loop = loop->parent->owner;
    }
    return n;
}

Trips
trips_of(const TirFn *fn, const TirOp *loop, const int64_t *sizes)
{
    int64_t extent[MOST_AXES] = {1, 1, 1};
    Trips trips = {.blocks = 1};

    for (uint32_t k = 0; k < fn->grid.n && k < MOST_AXES; k++) {
        extent[k] = eval_host(fn->grid.at[k].extent, sizes);
        trips.blocks *= (double)(extent[k] > 0 ? extent[k] : 0);
    }
    if (trips.blocks <= 0)
        return (Trips){0};
    /* Points spread evenly over all axes at once: each axis is gone through many times. */
    double points = trips.blocks < SAMPLES ? trips.blocks : SAMPLES;
    for (double k = 0; k < points; k++) {
        Point at = {.sizes = sizes};
        double rest = (k + 0.5) * trips.blocks / points;
        int64_t index = (int64_t)rest;
        for (uint32_t j = 0; j < MOST_AXES; j++) {
            at.grid[j] = index % extent[j];
            index /= extent[j];
        }
        trips.each += iterations(loop, &at) / points;
    }
    return trips;
}

/* What the masks of a loop cost at one point. */
static double
masks_at(const TripLoop *loop, Point *at)
{
    const TirOp *op = loop->op;
    uint32_t n = op->n_segments > 1 ? op->n_segments : 1;
    int64_t from = eval_scalar(op->args[0], at);
    double sum = 0;

    for (uint32_t k = 0; k < n; k++) {
        int64_t to = eval_scalar(op->args[k + 1 < n ? 2 + k : 1], at);
        uint32_t segment = k < TRIP_SEGMENTS ? k : TRIP_SEGMENTS - 1;
        sum += to > from ? (double)(to - from) * loop->masks[segment] : 0;
        from = to;
    }
    return sum == 0 ? 0 : sum * iterations(op->parent->owner, at);
}

/* Of some loops at one point: iterations of all, and what the masks of each cost. */
typedef struct PointTrips {
    double all, masks[TRIP_LOOPS];
} PointTrips;

static PointTrips
trips_at(const TripLoop *loops, uint32_t n_loops, Point *at)
{
    PointTrips trips = {0};

    for (uint32_t k = 0; k < n_loops; k++) {
        trips.all += iterations(loops[k].op, at);
        trips.masks[k] = masks_at(&loops[k], at);
    }
    return trips;
}

static double
tensor_bytes(const TirTensor *tensor, const int64_t *sizes)
{
    double bytes = dtype_bits(tensor->dtype) / 8.0;

    for (uint32_t d = 0; d < tensor->rank; d++) {
        const TensorDim *dim = &tensor->dim[d];
        bytes *= (double)(dim->constant != 0 ? dim->constant : sizes[dim->size]);
    }
    return bytes;
}

/* Bytes of tensors whose tiles a loop loads; *share: over those that all programs load. */
static double
own_bytes(const TirFn *fn, const TirOp *loop, double iterations, const int64_t *sizes, double *share)
{
    double there = 0, loaded = 0;
    bool seen[64] = {false};

    for (TirWalk walk = tir_walk(loop->blocks[0]); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        bool loads = op->op == TIR_LOAD || op->op == TIR_COPY_ASYNC;
        TirType type = loads ? tir_index_type(op) : (TirType){0};
        if (type.rank != 2)
            continue;
        loaded += iterations * (double)tir_type_elements(type) * dtype_bits(op->tensor->dtype) / 8;
        for (uint32_t t = 0; t < fn->tensors.n && t < sizeof seen / sizeof seen[0]; t++) {
            if (fn->tensors.at[t] == op->tensor && !seen[t]) {
                there += tensor_bytes(op->tensor, sizes);
                seen[t] = true;
            }
        }
    }
    *share = loaded > 0 && there < loaded ? there / loaded : 1;
    return there;
}

double
trips_own(const TirFn *fn, const TirOp *loop, const int64_t *sizes)
{
    Trips trips = trips_of(fn, loop, sizes);
    double share;

    own_bytes(fn, loop, trips.blocks * trips.each, sizes, &share);
    return share;
}

ConsumerTrips
trips_of_consumers(const TirFn *fn, const TripLoop *loops, uint32_t n_loops, uint32_t axis,
                   uint32_t consumers, const int64_t *sizes)
{
    int64_t extent[MOST_AXES] = {1, 1, 1};
    ConsumerTrips trips = {.blocks = 1};
    Point at = {.sizes = sizes};

    for (uint32_t k = 0; k < fn->grid.n && k < MOST_AXES; k++) {
        int64_t n = eval_host(fn->grid.at[k].extent, sizes);
        extent[k] = n > 1 ? n : 1;
        at.grid[k] = extent[k] / 2;
        trips.blocks *= k == axis ? 1 : (double)extent[k];
    }
    if (axis >= fn->grid.n) { /* all consumers work on one program: spread over the first axis */
        axis = 0;
        consumers = 1;
        trips.blocks /= (double)extent[0];
    }
    int64_t along = (extent[axis] + consumers - 1) / consumers;
    int64_t samples = along < TRIP_SAMPLES ? along : TRIP_SAMPLES;
    int64_t none = fn->plan != NULL && fn->plan->tiles.reversed ? along * consumers - extent[axis]
                                                                : 0;
    trips.blocks *= (double)along;
    trips.along = (double)along;
    PointTrips there = {0};
    bool same = false; /* all along the axis */
    for (int64_t s = 0; s < samples; s++) {
        int64_t block = (2 * s + 1) * along / (2 * samples);
        double sum = 0, masks = 0, most = 0;
        for (int64_t consumer = 0; consumer < consumers; consumer++) {
            int64_t index = block * consumers + consumer - none;
            if (index < 0 || index >= extent[axis])
                continue;
            if (!same) {
                at = (Point){.sizes = sizes, .grid = {at.grid[0], at.grid[1], at.grid[2]}};
                at.grid[axis] = index;
                there = trips_at(loops, n_loops, &at);
                same = axis < MOST_AXES && (at.axes_read >> axis & 1) == 0;
            }
            for (uint32_t k = 0; k < n_loops; k++)
                masks += there.masks[k];
            sum += there.all;
            most = there.all > most ? there.all : most;
        }
        trips.most += most / (double)samples;
        trips.block[trips.n++] = sum / consumers;
        trips.each += sum / consumers / (double)samples;
        trips.masks += masks / consumers / (double)samples;
    }
    if (n_loops > 0)
        trips.bytes = own_bytes(fn, loops[0].op, trips.blocks * trips.each, sizes, &trips.own);
    return trips;
}

static bool
host_divides(const HostExpr *e, uint32_t size)
{
    if (e == NULL)
        return false;
    if (e->kind == HOST_CDIV && e->a != NULL && e->a->kind == HOST_SIZE && e->a->index == size)
        return true;
    return host_divides(e->a, size) || host_divides(e->b, size);
}

/* Whether a loop's bound holds the size, divided by a length. */
static bool
holds_divided(const TirVal *value, uint32_t size, bool divided, uint32_t *steps)
{
    const TirOp *def = value->def;

    if (def == NULL || ++*steps > MOST_STEPS || def->n_blocks > 0)
        return false;
    if (def->op == TIR_SIZE)
        return divided && def->integer == (int64_t)size;
    if (def->op == TIR_DIV)
        divided = def->args[1]->def != NULL && def->args[1]->def->op == TIR_CONST;
    for (uint32_t k = 0; k < def->n_args; k++) {
        if (holds_divided(def->args[k], size, divided, steps))
            return true;
    }
    return false;
}

static bool
block_divides(const TirBlock *block, uint32_t size)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        uint32_t steps = 0;
        if (op->op == TIR_FOR && (holds_divided(op->args[0], size, false, &steps) ||
                                  holds_divided(op->args[1], size, false, &steps)))
            return true;
    }
    return false;
}

int64_t
trips_extent(const TirFn *fn, uint32_t axis, const int64_t *sizes)
{
    return eval_host(fn->grid.at[axis].extent, sizes);
}

bool
trips_in_tiles(const TirFn *fn, uint32_t size)
{
    for (uint32_t k = 0; k < fn->grid.n; k++) {
        if (host_divides(fn->grid.at[k].extent, size))
            return true;
    }
    return block_divides(fn->body, size);
}

int64_t *
trips_usual_sizes(Arena *arena, const TirFn *fn)
{
    int64_t *sizes = arena_array(arena, int64_t, fn->sizes.n + 1);

    for (uint32_t k = 0; k < fn->sizes.n; k++)
        sizes[k] = fn->sizes.at[k].usual != 0 ? fn->sizes.at[k].usual
                   : trips_in_tiles(fn, k)    ? TILED
                                              : OTHER;
    return sizes;
}
