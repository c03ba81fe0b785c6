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
        r->stage0_pipelines.at[k]->shared->lag = 1;
    Staged staged = accumulate_steps(r);
    roles_emit_if_any(r, map, range, &staged, values);
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        clone_set(map, r->loop->results[k], values[k]);
}
