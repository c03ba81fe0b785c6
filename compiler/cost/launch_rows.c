/* launch_rows.c - launches of kernels without products (launch_rows.h). */
#include "compiler/cost/launch_rows.h"

#include <math.h>

#include "compiler/cost/consumer_time.h"
#include "compiler/cost/launch_terms.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

enum {
    UNIT = 1024, /* elements: the clocks of one are no whole number */
    BARE = 8     /* of what is moved, the part that nothing hides */
};

typedef struct Loops {
    TripLoop at[CONSUMER_LOOPS];
    uint32_t n;
} Loops;

static Loops
all_loops(const TirFn *fn)
{
    Loops loops = {.n = 0};

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);)
        if (walk.op->op == TIR_FOR && loops.n < CONSUMER_LOOPS)
            loops.at[loops.n++].op = walk.op;
    return loops;
}

/* ---- accesses ---- */

static RowAccess
access_of(Arena *arena, const TirOp *op)
{
    int64_t run = 1;

    for (TirDims d = tir_dims(op); tir_dims_next(&d);)
        run = d.range ? d.length : 1;
    /* a program that reads one element does not read them all: its place may be loaded */
    bool one = op->op == TIR_LOAD && op->results[0]->type.rank == 0;
    return (RowAccess){one ? host_int(arena, 1) : term_elements(arena, op->tensor),
                       dtype_bits(op->tensor->dtype), host_int(arena, run)};
}

/* Neighbours that begin anywhere are in one sector more than they fill. */
int64_t
launch_access_clocks(const Target *target, const RowAccess *access, int64_t run)
{
    enum { SECTOR = 32 };
    double bytes = (double)access->bits / 8, all = bytes * (double)run;

    return llround(UNIT * (bytes * (all + SECTOR) / all) / target->chip.global_bytes);
}

/* Accesses to tensors of as many elements. */
typedef struct Accesses {
    const HostExpr *elements;
    int64_t clocks; /* of UNIT elements */
} Accesses;

/* Clocks in which the L2 cache gives or takes all of the tensors, once for each access. */
static const HostExpr *
access_clocks(Arena *arena, const Target *target, const RowTerms *terms)
{
    const HostExpr *sum = host_int(arena, 0);
    VEC(Accesses) all = {0};

    for (uint32_t i = 0; i < terms->accesses.n; i++) {
        const RowAccess *access = &terms->accesses.at[i];
        uint32_t k = 0;
        while (k < all.n && !term_equal(all.at[k].elements, access->elements))
            k++;
        if (k == all.n)
            vec_push(arena, &all, ((Accesses){access->elements, 0}));
        all.at[k].clocks += launch_access_clocks(target, access, access->run->integer);
    }
    for (uint32_t k = 0; k < all.n; k++)
        sum = term_make(
            arena, HOST_ADD, sum,
            term_make(arena, HOST_MUL, all.at[k].elements, host_int(arena, all.at[k].clocks)));
    return term_make(
        arena, HOST_DIV, sum,
        term_make(arena, HOST_MUL, host_device(arena, DEVICE_SM_COUNT), host_int(arena, UNIT)));
}

/* ---- the whole ---- */

/* Iterations of all loops at the middle of the grid. */
static const HostExpr *
middle_trips(Arena *arena, const TirFn *fn, const Loops *loops)
{
    Place middle = term_place(arena, fn, fn->grid.n, 0, PLACES_QUARTERS);

    return loops->n > 0 ? term_all_trips(loops->at, loops->n, &middle) : host_int(arena, 1);
}

/* Every iteration waits for what it loads, where the SM has nothing else to do; else the lanes
 * bind, or the cache.  A program's beginning and end take a third of that wait, a round figure.  A
 * part of what is moved nothing hides. */
const HostExpr *
launch_cost_of_rows(Arena *arena, const Target *target, const RowTerms *terms, double lanes,
                    int32_t blocks)
{
    const LoopTimes *times = &target->chip.loop_times;
    const HostExpr *sms = host_device(arena, DEVICE_SM_COUNT), *tiles = terms->tiles;
    const HostExpr *latency = term_clocks(arena, times->copy_wait / 3, times->copy_wait + lanes,
                                          terms->trips),
                   *busy = term_clocks(arena, 0, lanes, terms->trips);
    const HostExpr *places = term_make(arena, HOST_MUL, sms, host_int(arena, blocks));

    latency = term_make(arena, HOST_MUL, term_make(arena, HOST_CDIV, tiles, places), latency);
    busy = term_make(arena, HOST_MUL, term_make(arena, HOST_CDIV, tiles, sms), busy);
    const HostExpr *access = access_clocks(arena, target, terms),
                   *most = term_make(arena, HOST_MAX, term_make(arena, HOST_MAX, latency, busy),
                                     access),
                   *bare = term_make(arena, HOST_DIV, access, host_int(arena, BARE));
    return term_make(arena, HOST_ADD, host_int(arena, llround(times->launch)),
                     term_make(arena, HOST_ADD, most, bare));
}

static int64_t
at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t
launch_clocks_of_rows(const Target *target, const RowCounts *counts, double lanes, int32_t blocks)
{
    const LoopTimes *times = &target->chip.loop_times;
    int64_t sms = target->chip.sm_count, places = sms * blocks,
            access = counts->access / (sms * UNIT);
    int64_t wait = llround(times->copy_wait / 3) +
                   llround(times->copy_wait + lanes) * counts->trips,
            latency = (counts->tiles + places - 1) / places * wait,
            busy = (counts->tiles + sms - 1) / sms * (llround(lanes) * counts->trips);

    return llround(times->launch) + at_least(at_least(latency, busy), access) + access / BARE;
}

static double
iterations(const CostUnits *units)
{
    return units->iterations > 0 ? units->iterations : 1;
}

double
launch_lanes_of_rows(const CostUnits *units)
{
    return (units->special + units->lanes) / iterations(units);
}

double
launch_additions_of_rows(const Target *target, const CostUnits *units)
{
    /* clocks of an SM for an addition of a lane to memory: column sums of 32 and 128 rows on an
     * H200 */
    enum { ADDED = 4 };

    return ADDED * (units->atomic / target->addition_clocks) / iterations(units);
}

static bool
loads_ahead(const TirFn *fn)
{
    bool ahead = false;

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);)
        ahead |= walk.op->op == TIR_LOAD && tir_is_loaded_ahead(walk.op);
    return ahead;
}

const HostExpr *
launch_cost_alone(Arena *arena, const Target *target, const TirFn *fn, const RowTerms *terms,
                  const CostUnits *units, uint32_t warps, uint32_t counted)
{
    double work = (units->special + units->lanes + units->shared + units->global) /
                  iterations(units);
    double lanes = work * counted / warps + launch_additions_of_rows(target, units);
    int64_t wait = loads_ahead(fn) ? 0 : llround(target->chip.loop_times.copy_wait);
    uint32_t loops = all_loops(fn).n;
    const HostExpr *more = term_make(arena, HOST_SUB, terms->trips,
                                     host_int(arena, loops > 0 ? loops : 1));

    return term_make(arena, HOST_ADD, launch_cost_of_rows(arena, target, terms, lanes, 1),
                     term_make(arena, HOST_MUL, more, host_int(arena, wait)));
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

int32_t
launch_most_blocks(const Target *target, uint32_t warps)
{
    int32_t blocks = target->chip.threads_per_sm / (WARP_LANES * (int32_t)warps);

    return blocks < target->chip.blocks_per_sm ? blocks : target->chip.blocks_per_sm;
}

RowTerms
launch_terms_of_rows(Arena *arena, const TirFn *fn, const Cost *cost)
{
    Loops loops = all_loops(fn);
    RowTerms terms = {.tiles = term_tiles(arena, fn, fn->grid.n, 1)};

    if (cost != NULL || loops.n == 0 || !has_mask(fn))
        terms.trips = middle_trips(arena, fn, &loops);
    if (terms.trips == NULL) /* a bound is loaded: as long as it counts in the cost */
        terms.trips = host_int(arena, cost != NULL ? llround(cost->units.iterations) : 0);
    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->op == TIR_STORE || (op->op == TIR_LOAD && !tir_is_first_of_loop(op)))
            vec_push(arena, &terms.accesses, access_of(arena, op));
    }
    return terms;
}
