/* plan_order.c - part of pass `plan`: in which order the tiles of the grid are gone through.
 *
 * The blocks that run at once read from the L2 cache what they have in common.  The grid's first
 * axis runs fastest, so programs that follow each other share the tiles that do not depend on it.
 * Where other tiles depend on it, but not on a second axis, a stripe of both axes shares more than
 * a row of the first: of P blocks, w along the second axis and P / w along the first read w tiles
 * of one kind and P / w of the other.  That is least where both are equally many bytes.
 *
 *     A[m, k] B[k, n], n runs fastest, 132 blocks of 128 x 256:
 *         by rows       32 n: all of B, and 5 tiles of A, for each 132 tiles of C
 *         swizzle       16 m x 8 n: 16 tiles of A and 9 of B
 *
 * Nothing is gained where all tiles that a loop loads depend on the second axis, as the heads and
 * batches of attention.
 */
#include "compiler/passes/schedule/plan.h"

#include <math.h>

#include "compiler/passes/util/tir_util.h"

/* Of the place of a tile.  A single index that was loaded, as the number of a group that rows are
 * of, is taken for the same in programs that follow each other (`numbers`: only of such
 * indices). */
static uint32_t
axes_of_tile(Arena *arena, const TirOp *load, bool numbers)
{
    uint32_t axes = 0;

    for (TirDims d = tir_dims(load); tir_dims_next(&d);) {
        bool number = d.single && tir_is_loaded(arena, d.at);
        axes |= d.at == NULL || number != numbers ? 0 : tir_axes_of(arena, d.at);
    }
    return axes;
}

/* Whether a number that is loaded by the index of an axis says which tile it is. */
static bool
is_numbered(Arena *arena, const TirBlock *body, uint32_t axis)
{
    bool is = false;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        is = is || (op->op == TIR_LOAD && op->shared != NULL &&
                    (axes_of_tile(arena, op, true) >> axis & 1) != 0);
    }
    return is;
}

/* Bytes that a block loads in an iteration and that depend on axis `on`, but not on `off`. */
static int64_t
bytes_along(const TirFn *fn, const TirBlock *body, uint32_t on, uint32_t off)
{
    int64_t bytes = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op != TIR_LOAD || op->shared == NULL)
            continue;
        uint32_t axes = axes_of_tile(fn->arena, op, false);
        if ((axes >> on & 1) == 0 || (axes >> off & 1) != 0)
            continue;
        int64_t consumers = tir_parts(fn->plan, op->shared);
        bytes += consumers * op->shared->rows * op->shared->cols * dtype_bits(op->shared->dtype) /
                 8;
    }
    return bytes;
}

void
plan_tile_order(const Target *target, TirFn *fn, const TirBlock *body)
{
    TirPlan *plan = fn->plan;

    if (tir_is_dynamic(plan) && plan->tiles.shared_bytes_each != NULL) /* by length, in sections */
        return;
    for (uint32_t axis = 1; axis < fn->grid.n; axis++) {
        int64_t first = bytes_along(fn, body, 0, axis), second = bytes_along(fn, body, axis, 0);
        if (first == 0 || second == 0)
            continue;
        /* a power of two: sizes that are multiples of large ones leave no narrow stripe at the
         * end */
        double width = sqrt((double)target->chip.sm_count * (double)first / (double)second);
        uint32_t tile_swizzle = 1;
        while (tile_swizzle * sqrt(2) < width)
            tile_swizzle *= 2;
        if (tile_swizzle == 1)
            return;
        /* A stripe goes over the end of groups, and has tiles of each then (H200, 64 groups of two
         * tiles: 0.931 of one dense product for 0.910 with the whole width, 8 groups 0.983 for
         * 0.974). */
        if (is_numbered(fn->arena, body, axis))
            tile_swizzle = (tile_swizzle + 1) / 2;
        if (tir_is_clustered(plan) && axis == plan->tiles.axis) /* counts pairs of blocks */
            tile_swizzle = (tile_swizzle + 1) / 2;
        plan->tiles.swizzle_axis = axis;
        plan->tiles.swizzle = tile_swizzle;
        return;
    }
}
