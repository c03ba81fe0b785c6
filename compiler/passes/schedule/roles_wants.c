/* roles_wants.c - what consumers have to load, for check-roles: the body before it was parted, but
 * for its arithmetic.
 *
 * Of the loops, branches and scalars that decide which tiles are loaded, and from where, a copy
 * stays in the plan; each load that became a pipeline is a `want` there.  It is part of the text,
 * so that edited text is compared with it, too.
 */
#include "compiler/passes/schedule/roles.h"
#include "compiler/passes/util/iterations.h"
#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_util.h"
#include "compiler/passes/util/unread.h"

/* Leaves out what has an effect, and has a want before each load of a pipeline; what is loaded may
 * decide a branch. */
static void
turn_loads(TirFn *fn, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            turn_loads(fn, op->blocks[k]);
        bool effect = (tir_op_info(op->op)->flags & TF_EFFECT) != 0 && op->op != TIR_YIELD;
        op->async = false; /* nobody waits here */
        if (effect) {
            for (uint32_t j = i; j + 1 < block->ops.n; j++)
                block->ops.at[j] = block->ops.at[j + 1];
            block->ops.n--;
            i--;
        } else if (op->op == TIR_LOAD && op->shared != NULL && tir_is_pipeline(op->shared)) {
            TirBuilder b = {.fn = fn, .block = block, .at = (int32_t)i, .span = op->span};
            TirOp *want = tir_op_new(&b, TIR_WANT, op->n_args, op->args, 0, NULL);
            tir_copy_place(want, op);
            want->shared = op->shared;
            op->shared = NULL;
            i++;
        }
    }
}

void
roles_keep_wants(Roles *r)
{
    TirFn *fn = r->fn;
    TirBlock *wants = tir_block_new(fn);
    CloneMap map = clone_map(fn);
    TirBuilder b = {.fn = fn, .block = wants, .at = -1};

    for (uint32_t i = 0; i < r->old->ops.n; i++)
        clone_op(&b, &map, r->old->ops.at[i]);
    fn->plan->wants_alike = iterations_are_shared(fn, r->old);
    turn_loads(fn, wants);
    drop_unread(fn->arena, fn, wants);
    drop_unread_operations(fn->arena, fn, wants);
    fn->plan->wants = wants;
}
