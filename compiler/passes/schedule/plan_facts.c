/* plan_facts.c - what the products of a loop are like, found once: for whom issues them, where they
 * lie and what they cost. */
#include "compiler/passes/schedule/plan.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

TirOp *
plan_operand_load(const TirVal *operand)
{
    TirOp *def = tir_untransposed(operand)->def;

    return def != NULL && def->op == TIR_LOAD ? def : NULL;
}

TirOp *
plan_piped(const TirOp *op)
{
    TirOp *load = op->n_results == 1 ? plan_operand_load(op->results[0]) : NULL;

    return load != NULL && load->shared != NULL ? load : NULL;
}

TirOp *
plan_viewed(const TirVal *value)
{
    TirOp *def = value->def;

    while (def != NULL && (def->op == TIR_TRANSPOSE || def->op == TIR_PART || def->op == TIR_OWN))
        def = def->args[0]->def;
    return def;
}

TirOp *
plan_only_addition(const TirBlock *body, const TirVal *result)
{
    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (op->op == TIR_ATOMIC_ADD && op->args[op->n_args - 1] == result)
            return count_uses_in(body, result) == 1 ? op : NULL;
    }
    return NULL;
}

/* Whether the sum with which the iteration begins is what the product adds to, or becomes that in
 * one operation, and has no other use. */
static bool
is_in_place(const TirBlock *body, const Product *p)
{
    const TirVal *begin = body->params.at[p->sum];
    uint32_t inside = 0;

    if (p->mma->args[2] == begin)
        return count_uses_in(body, begin) == 1;
    if (p->change == NULL || p->change->parent != body || count_uses_in(body, p->mma->args[2]) != 1)
        return false;
    for (TirReads reads = tir_reads(p->change); tir_reads_next(&reads);)
        inside += reads.value == begin;
    return inside > 0 && inside == count_uses_in(body, begin) && /* else it begins anew */
           (p->change->op == TIR_IF || (tir_op_info(p->change->op)->flags & TF_ELEMENTWISE) != 0);
}

/* The first of the products in front, none of which adds up, over whose result no other operand
 * lies and that has the columns. */
static uint32_t
place_over(const Products *products, const TirVal *operand)
{
    for (uint32_t k = 0; k < products->n; k++) {
        Product *p = &products->at[k];
        if (p->covered || p->second || p->sum > 0 ||
            operand->type.dim[1] / 2 > p->mma->results[0]->type.dim[1])
            continue;
        p->covered = true;
        return k + 1;
    }
    return 0;
}

Products
plan_products(const TirFn *fn, const TirOp *loop)
{
    const TirBlock *body = loop->blocks[0];
    const TirOp *yield = block_yield(body);
    Products products = {0};

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *mma = body->ops.at[i];
        if (mma->op != TIR_MMA)
            continue;
        Product p = {
            .mma = mma, .addition = plan_only_addition(body, mma->results[0]), .early = true};
        for (uint32_t k = 0; k < 2; k++) {
            const TirOp *def = p.viewed[k] = plan_viewed(mma->args[k]);
            p.load[k] = plan_operand_load(mma->args[k]);
            if (mma->n_args == TIR_MMA_SCALED)
                p.scales[k] = plan_operand_load(mma->args[TIR_MMA_PLAIN + k]);
            p.early = p.early && def != NULL && (def->op == TIR_LOAD || def->parent != body);
        }
        for (uint32_t k = 0; k < yield->n_args && p.carried == 0; k++)
            p.carried = yield->args[k] == mma->results[0] ? k + 1 : 0;
        p.sum = count_uses_in(body, mma->results[0]) == 1 ? p.carried : 0;
        if (p.sum > 0 && mma->args[2] != body->params.at[p.sum])
            p.change = mma->args[2]->def;
        p.in_place = p.sum > 0 && is_in_place(body, &p);
        p.second = p.load[0] == NULL;
        p.over = p.second ? place_over(&products, mma->args[0]) : 0;
        vec_push(fn->arena, &products, p);
    }
    return products;
}
