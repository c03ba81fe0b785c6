/* plan_preload.c - subtractions that products do.
 *
 *   level    tile IR, the body of a main loop
 *   does     a b - x, with nothing else made of a b: the sum begins at -x, and the subtraction is
 *            done by the product.  What x follows from must be there before the product starts
 *   leaves   a body without what nobody uses any more
 */
#include "compiler/passes/schedule/plan.h"

#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* Whether a value follows from loads and constants of the body, or from outside, without
 * products. */
static bool
before_mmas(Arena *arena, const TirVal *value, const TirBlock *body)
{
    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        if (in.value->block != body || in.value == body->params.at[0])
            continue;
        if (def == NULL || def->op == TIR_MMA || def->n_blocks > 0)
            return false;
        tir_inputs_follow(&in);
    }
    return true;
}

/* -value, negated where it is smallest: before it is spread over a tile. */
static TirVal *
negated(TirBuilder *b, TirVal *value)
{
    const TirOp *def = value->def;

    if (def == NULL || (def->op != TIR_BROADCAST && def->op != TIR_EXPAND) ||
        value->block != b->block)
        return tir_unary(b, TIR_NEG, value);
    TirVal *less = negated(b, def->args[0]);
    TirOp *again = tir_op_new(b, def->op, 1, &less, 1, &value->type);
    again->axis = def->axis;
    return again->results[0];
}

void
plan_preload(TirFn *fn, TirBlock *body)
{
    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        TirOp *mma = op->op == TIR_SUB ? op->args[0]->def : NULL;
        if (mma == NULL || mma->op != TIR_MMA || mma->parent != body || mma->args[2]->def == NULL ||
            mma->args[2]->def->op != TIR_CONST || mma->args[2]->def->number != 0 ||
            count_uses(fn, mma->results[0]) != 1)
            continue;
        if (dtype_is_coded(mma->args[0]->type.dtype) && !mma->fast) /* whose sums may cut off x */
            continue;
        /* Only what does not come from products: it has to be there before this one starts. */
        if (!before_mmas(fn->arena, op->args[1], body))
            continue;
        TirBuilder b = {.fn = fn, .block = body, .at = (int32_t)i, .span = op->span};
        TirVal *args[] = {mma->args[0], mma->args[1], negated(&b, op->args[1])};
        TirOp *sum = tir_op_new(&b, TIR_MMA, 3, args, 1, &op->results[0]->type);
        sum->async = mma->async;
        sum->swap_ab = mma->swap_ab;
        sum->fast = mma->fast;
        tir_replace_uses(fn, op->results[0], sum->results[0]);
        uint32_t kept = 0; /* the old product and the subtraction go */
        for (uint32_t k = 0; k < body->ops.n; k++) {
            if (body->ops.at[k] != op && body->ops.at[k] != mma)
                body->ops.at[kept++] = body->ops.at[k];
        }
        body->ops.n = kept;
        i = 0;
    }
    for (uint32_t i = body->ops.n; i-- > 0;) { /* what nobody uses any more */
        const TirOp *op = body->ops.at[i];
        if ((tir_op_info(op->op)->flags & TF_PURE) == 0 || op->n_results != 1 ||
            count_uses(fn, op->results[0]) > 0)
            continue;
        for (uint32_t k = i; k + 1 < body->ops.n; k++)
            body->ops.at[k] = body->ops.at[k + 1];
        body->ops.n--;
    }
}
