/* plan_pairs.c - part of pass `plan`: pairs of blocks that fetch what both read once.
 *
 * Two blocks that are neighbours on the consumer axis read the same tiles of what does not depend on it.  As
 * a cluster, they run at the same time on two neighbouring multiprocessors, and a tensor copy of one can
 * write into the shared memory of both: each fetches half of every tile, and what comes from the L2 cache
 * is half as much.  The price is that a stage is filled again only when both blocks have read it.
 *
 * Both blocks go through the same tiles of the grid, two at a time, and the same iterations.  One that
 * lies past the end of the axis does all that it has to do for the other: its consumers let pass what comes.
 */
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_walk.h"

PairShare
pair_share(const TirOp *access, const TirShared *pipeline)
{
    PairShare share = {0};
    int32_t width = SWIZZLE_BYTES * 8 / (int32_t)dtype_bits(pipeline->dtype);
    uint32_t ranges = 0;

    share.by_atom_columns = share.possible = (pipeline->cols + width - 1) / width % 2 == 0;
    for (uint32_t d = 0; d + 1 < access->tensor->rank && !share.by_atom_columns; d++) {
        if (access->index[d].kind == INDEX_SCALAR)
            continue;
        ranges++;
        share.dim = d;
        share.possible = ranges == 1 && access->index[d].kind == INDEX_RANGE &&
                         access->index[d].rows == 0 &&
                         access->index[d].length % (2 * SWIZZLE_ROWS) == 0;
    }
    return share;
}

/* Counts the pipelines whose tiles can be halved; with `mark`, they become paired. */
static uint32_t
count_pipelines(const TirBlock *block, bool mark)
{
    uint32_t n = 0;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->op == TIR_LOAD && op->shared != NULL && tir_is_pipeline(op->shared) &&
            op->shared->filled != FILLED_PER_CONSUMER) {
            bool possible = pair_share(op, op->shared).possible;
            if (mark)
                op->shared->filled = possible ? FILLED_BY_PAIR : FILLED_FOR_ALL;
            n += possible;
        }
    }
    return n;
}

/* Whether a bound of a loop may differ from block to block of a pair. */
static bool
differs(const TirFn *fn, const TirVal *value)
{
    for (TirInputs in = tir_inputs(fn->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        /* the number of an iteration; else nobody knows */
        if (def == NULL &&
            (in.value->block->owner == NULL || in.value != in.value->block->params.at[0]))
            return true;
        if (def == NULL)
            continue;
        if (def->op == TIR_GRID || def->op == TIR_GRID_FIRST) {
            if (def->integer == (int64_t)fn->plan->tiles.axis)
                return true;
            continue;
        }
        tir_inputs_follow(&in);
    }
    return false;
}

const char *
plan_can_pair(const TirFn *fn, const TirOp *loop, Span *where)
{
    *where = loop->span;
    if (tir_is_cooperative(fn->plan))
        return "warp groups that divide one program have no axis on which blocks are neighbours";
    for (const TirOp *around = loop; around != NULL; around = around->parent->owner) {
        *where = around->span;
        if (around->op != TIR_FOR || differs(fn, around->args[0]) || differs(fn, around->args[1]))
            return "neighbouring blocks do not have the same iterations";
    }
    *where = loop->span;
    if (count_pipelines(fn->body, false) == 0)
        return "neighbouring blocks have no tile in common that can be halved";
    return NULL;
}

void
plan_pairs(TirFn *fn)
{
    count_pipelines(fn->body, true);
    fn->plan->tiles.cluster = 2;
}
