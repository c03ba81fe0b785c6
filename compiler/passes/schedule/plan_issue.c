/* plan_issue.c - loops that do nothing but add products up, and which of them a role of their own may issue.
 *
 * A product that a thread issues leaves its result in tensor memory.  Where nobody looks at sums before the loop has ended,
 * one thread issues all products of the loop, and consumers have what comes behind it, while the next tile's products run.
 */
#include "compiler/passes/schedule/plan.h"

#include "compiler/passes/util/tir_util.h"

/* Whether a product adds to what the iteration begins with: one that adds to another product of its iteration
 * would go into the next one beside that, whose result has no name there. */
static bool
begins_with_sum(const TirBlock *body, const TirVal *value)
{
    return value->block == body && value->def == NULL && value->index > 0;
}

/* Whether `value` is used by products as what they add to, and by the end of the iteration, only. */
static bool
is_only_added_to(const TirBlock *block, const TirBlock *body, const TirVal *value)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (op->args[k] == value && !(op->op == TIR_MMA && k == 2) &&
                !(op->op == TIR_YIELD && block == body))
                return false;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (!is_only_added_to(op->blocks[k], body, value))
                return false;
        }
    }
    return true;
}

static bool
is_loaded(const TirVal *value)
{
    while (value->def != NULL && value->def->op == TIR_TRANSPOSE)
        value = value->def->args[0];
    return value->def != NULL && value->def->op == TIR_LOAD;
}

bool
plan_only_adds(const TirBlock *body)
{
    const TirOp *yield = block_yield(body);
    uint32_t mmas = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA)
            continue;
        mmas++;
        if (!is_loaded(op->args[0]) || !is_loaded(op->args[1]) ||
            !begins_with_sum(body, op->args[2]) || !is_only_added_to(body, body, op->results[0]))
            return false;
    }
    for (uint32_t k = 0; k < yield->n_args; k++) { /* sums stay where they are */
        const TirVal *param = body->params.at[k + 1], *next = yield->args[k];
        while (next->def != NULL && next->def->op == TIR_MMA && next->def->parent == body)
            next = next->def->args[2];
        if (yield->args[k] != next && (next != param || !is_only_added_to(body, body, param)))
            return false;
    }
    return mmas > 0;
}

/* Whether an iteration does anything but load, transpose and multiply tiles. */
static bool
has_other_work(const TirBlock *body)
{
    bool other = false;

    for (uint32_t i = 0; i < body->ops.n && !other; i++) {
        const TirOp *op = body->ops.at[i];
        bool tiles = op->n_blocks > 0;
        for (uint32_t k = 0; k < op->n_results; k++)
            tiles = tiles || op->results[k]->type.rank > 0;
        other = op->op == TIR_STORE || op->op == TIR_ATOMIC_ADD ||
                (tiles && op->op != TIR_LOAD && op->op != TIR_TRANSPOSE && op->op != TIR_MMA);
    }
    return other;
}

const char *
plan_cannot_issue(const Target *target, const TirFn *fn, const TirOp *loop)
{
    const TirBlock *body = loop->blocks[0];
    int32_t columns = 0;

    if (loop->parent != fn->body)
        return "results of products in tensor memory take a main loop that stands in no other";
    if (!plan_only_adds(body) || has_other_work(body))
        return "results of products lie in tensor memory, and so far only a loop that does nothing "
               "but add products of loaded tiles up may have them there";
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        columns += op->op == TIR_MMA ? op->results[0]->type.dim[1] : 0;
    }
    if (columns > target->chip.tmem_columns)
        return "the results of products have more columns than tensor memory";
    return NULL;
}
