/* roles_accumulate.c - the steps of a main loop that does nothing but add products up.
 *
 * Nobody looks at a sum before the loop has ended, so a product need not have ended when the next one
 * starts: each iteration waits for the one before, and gives back what that one has read.
 *
 *     first iteration: wait for its stages, start products
 *     for ..  { wait for stages, start products; wait for the products before, release their stages }
 *     wait for products, release the last stages
 *
 * A consumer holds two stages of each pipeline then.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

static bool
is_loaded(const TirVal *value)
{
    while (value->def != NULL && value->def->op == TIR_TRANSPOSE)
        value = value->def->args[0];
    return value->def != NULL && value->def->op == TIR_LOAD && value->def->shared != NULL;
}

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

bool
roles_accumulates_only(const Roles *r)
{
    const TirOp *yield = block_yield(r->body);
    uint32_t mmas = 0;

    if (r->has_effects || tir_has_coop_k(r->fn) || r->stage1_pipelines.n > 0)
        return false;
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL && op->shared->stages < 2)
            return false;
        if (op->op != TIR_MMA)
            continue;
        mmas++;
        if (!is_loaded(op->args[0]) || !is_loaded(op->args[1]) ||
            !begins_with_sum(r->body, op->args[2]) ||
            !is_only_added_to(r->body, r->body, op->results[0]))
            return false;
    }
    for (uint32_t k = 0; k < yield->n_args; k++) { /* sums stay where they are */
        const TirVal *param = r->body->params.at[k + 1], *next = yield->args[k];
        while (next->def != NULL && next->def->op == TIR_MMA && next->def->parent == r->body)
            next = next->def->args[2];
        if (yield->args[k] != next && (next != param || !is_only_added_to(r->body, r->body, param)))
            return false;
    }
    return mmas > 0;
}

/* The steps of an iteration: its products are waited for, and their stages given back, in the next one. */
static Staged
accumulate_steps(Roles *r)
{
    Staged staged = {.later = arena_array(r->fn->arena, bool, r->fn->next_id + 1)};
    TirOp *last = NULL;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (op->op != TIR_YIELD)
            roles_add_step(r, &staged.steps, STEP_OP, op, 0);
        last = op->op == TIR_MMA ? op : last;
    }
    roles_add_step(r, &staged.steps, STEP_WAIT, last, 1);
    roles_add_releases(r, &staged.steps, &r->stage0_pipelines, NULL, 1);
    return staged;
}

void
roles_accumulate(Roles *r, CloneMap *map, Range range)
{
    TirVal **values = roles_initial(r, map, 0);

    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++)
        r->stage0_pipelines.at[k]->shared->release = RELEASE_BEHIND;
    Staged staged = accumulate_steps(r);
    roles_emit_if_any(r, map, range, &staged, values);
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        clone_set(map, r->loop->results[k], values[k]);
}
