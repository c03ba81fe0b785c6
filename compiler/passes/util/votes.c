/* votes.c - votes over a whole tile, and the reductions along rows that are made together with
 * them. */
#include "compiler/passes/util/votes.h"

#include "compiler/passes/util/tir_util.h"

bool
vote_is_whole(const TirOp *op)
{
    return tir_is_vote(op) && op->shared == NULL;
}

const TirOp *
vote_source(const TirFn *fn, const TirOp *vote, const TirOp *masks[MAX_VOTE_MASKS],
            uint32_t *n_masks)
{
    const TirVal *value = vote->args[0];

    *n_masks = 0;
    while (value->def != NULL && value->def->op == TIR_BOUNDS_MASK && *n_masks < MAX_VOTE_MASKS &&
           count_uses(fn, value) == 1) {
        masks[(*n_masks)++] = value->def;
        value = value->def->args[0];
    }
    const TirOp *op = value->def;
    if (!tir_reduces(op, vote->reduce) || op->parent != vote->parent || count_uses(fn, value) != 1)
        return NULL;
    return op;
}

bool
vote_makes_rows(const TirFn *fn, const TirOp *op)
{
    const TirOp *masks[MAX_VOTE_MASKS];
    uint32_t n_masks;

    if (op->results[0]->type.dtype != DT_BOOL || op->results[0]->type.rank == 0)
        return false;
    for (uint32_t i = 0; i < op->parent->ops.n; i++) {
        const TirOp *user = op->parent->ops.at[i];
        if (vote_is_whole(user) && vote_source(fn, user, masks, &n_masks) == op)
            return true;
    }
    return false;
}
