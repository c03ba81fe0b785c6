/* plan_pairs.c - part of pass `plan`: pairs of blocks that fetch what both read once.
 *
 * Two blocks that are neighbours on the band axis read the same tiles of what does not depend on it.  As
 * a cluster, they run at the same time on two neighbouring multiprocessors, and a tensor copy of one can
 * write into the shared memory of both: each fetches half of every tile, and what comes from the L2 cache
 * is half as much.  The price is that a slot is filled again only when both blocks have read it.
 *
 * Both blocks go through the same tiles of the grid, two at a time, and the same iterations.  One that
 * lies past the end of the axis does all that it has to do for the other: its bands let pass what comes.
 */
#include "compiler/passes/plan.h"

enum {
    PANEL_BITS = 128 * 8,
    SWIZZLED_ROWS = 8 /* what a half begins with must be a multiple of these */
};

PairShare
pair_share(const TirOp *access, const TirShared *ring)
{
    PairShare share = {0};
    int32_t width = PANEL_BITS / (int32_t)dtype_bits(ring->dtype);
    uint32_t ranges = 0;

    share.by_panels = share.possible = (ring->cols + width - 1) / width % 2 == 0;
    for (uint32_t d = 0; d + 1 < access->tensor->rank && !share.by_panels; d++) {
        if (access->index[d].kind == INDEX_SCALAR)
            continue;
        ranges++;
        share.dim = d;
        share.possible = ranges == 1 && access->index[d].kind == INDEX_RANGE && access->index[d].rows == 0 &&
                         access->index[d].length % (2 * SWIZZLED_ROWS) == 0;
    }
    return share;
}

/* Whether every load into a ring in `block` can be shared; counts them. */
static uint32_t
pair_rings(const TirBlock *block)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL && op->shared->is_ring && !op->shared->per_band) {
            op->shared->paired = pair_share(op, op->shared).possible;
            n += op->shared->paired;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++)
            n += pair_rings(op->blocks[k]);
    }
    return n;
}

const char *
plan_pairs(TirFn *fn, const TirOp *loop, const bool *tainted, Span *where)
{
    const char *differ = "neighbouring blocks have not the same iterations";

    if (fn->plan->divided)
        return "the bands divide one program, and blocks have no axis along which they share loads";
    for (const TirOp *around = loop; around != NULL; around = around->parent->owner) {
        *where = around->span;
        if (around->op != TIR_FOR || tainted[around->args[0]->id] || tainted[around->args[1]->id])
            return differ;
    }
    *where = loop->span;
    if (pair_rings(fn->body) == 0)
        return "no tile that neighbouring blocks share can be halved";
    fn->plan->paired = true;
    return NULL;
}
