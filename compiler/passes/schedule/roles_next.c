/* roles_next.c - what a tile begins with, found before the one before has ended.
 *
 * At the start of a work tile a consumer waits for one thing after the other: the tile's number,
 * its indices, the bounds of its loops, the first operands.  `next_tile` in the body stands where
 * it has time to find them: under the last product of the tile before.  What it computes then is a
 * program of its own:
 *
 *     body       { ..  %n = ..  kept(0)  ..  for .. %n { .. }  ..  next_tile  .. }
 *     next_tile  { ..  %m = ..  kept(0) }
 *
 * The indices of the grid are those of the next tile there; %n of that tile is what %m was.
 *
 * Kept are the scalars that decide loops and branches up to `next_tile`, where they follow from the
 * launch; what takes one instruction from others that are kept is computed again.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* A number, or, of a truth value, the numbers that it is made of. */
static void
list_numbers(Arena *arena, ValueList *list, const TirVal *value)
{
    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        DType dtype = in.value->type.dtype;
        if (in.value->def == NULL || in.value->type.rank != 0 || roles_listed(list, in.value))
            continue;
        if (dtype == DT_I32)
            vec_push(arena, list, in.value);
        else if (dtype == DT_BOOL)
            tir_inputs_follow(&in);
    }
}

/* What decides loops and branches of `block` up to `next_tile`; true when that was met. */
static bool
list_deciding(Arena *arena, ValueList *list, const TirBlock *block)
{
    bool met = false;

    for (uint32_t i = 0; i < block->ops.n && !met; i++) {
        const TirOp *op = block->ops.at[i];
        uint32_t n = op->op == TIR_FOR ? loop_first_initial(op) : op->op == TIR_IF;
        met = op->op == TIR_NEXT_TILE;
        for (uint32_t k = 0; k < n; k++)
            list_numbers(arena, list, op->args[k]);
        for (uint32_t k = 0; op->op == TIR_IF && k < op->n_blocks; k++)
            met = list_deciding(arena, list, op->blocks[k]) || met;
    }
    return met;
}

/* Whether a scalar is as good as there: of the launch, or one step from what is kept. */
static bool
is_near(const ValueList *list, const TirVal *value)
{
    const TirOp *def = value->def;
    bool near = true;

    for (uint32_t k = 0; k < def->n_args; k++) {
        const TirVal *arg = def->args[k];
        near = near && (roles_listed(list, arg) || (arg->def != NULL && arg->def->n_args == 0));
    }
    return near;
}

void
roles_make_next(TirFn *fn)
{
    ValueList list = {0}, again = {0};
    uint32_t n = 0;

    if (!has_operation(fn->body, TIR_NEXT_TILE))
        return;
    TirRole *role = tir_role_add(fn, ROLE_NEXT_TILE, 0, tir_consumers(fn->plan), 0);
    role->program = tir_block_new(fn);
    TirBuilder b = {.fn = fn, .block = role->program, .at = -1, .span = fn->span};
    CloneMap map = clone_map(fn);
    list_deciding(fn->arena, &list, fn->body);
    for (uint32_t k = 0; k < list.n; k++) {
        /* behind the last tile there is nothing to load */
        bool kept = !is_near(&list, list.at[k]) && !tir_is_loaded(fn->arena, list.at[k]);
        TirVal *clone = kept ? clone_scalar_tree(&b, &map, list.at[k]) : NULL;
        vec_push(fn->arena, &again, clone);
    }
    for (uint32_t k = 0; k < list.n; k++) {
        if (again.at[k] != NULL)
            list.at[k]->def->kept = again.at[k]->def->kept = ++n;
    }
}
