/* roles_behind.c - what stands behind a pipelined loop and follows from its results of stage 0
 * alone.
 *
 *   does     the last product of a pipelined loop comes behind it, with nothing to run under it.
 *            The arithmetic on vectors that the program has behind the loop, and that does not need
 *            that product, moves there:
 *
 *                acc = mma .. async                        acc = mma .. async
 *                mma_wait 0                           ->   inv = rcp sum
 *                inv = rcp sum                             mma_wait 0, inv
 *                store acc * inv                           store acc * inv
 *
 *   leaves   `behind`, operations that are not to be copied once more
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

static bool
is_simple(const TirOp *op)
{
    return tir_can_be_again(op) && op->n_results == 1 && op->results[0]->type.rank <= 1;
}

static bool
is_behind(const Roles *r, const TirOp *op)
{
    bool behind = false;

    for (uint32_t i = 0; i < r->old->ops.n; i++) {
        if (r->old->ops.at[i] == op)
            return behind;
        behind = behind || r->old->ops.at[i] == r->loop;
    }
    return false;
}

/* Whether `value` can be computed before the last product has ended; `needs`: whether it needs the
 * loop at all. */
static bool
is_early(const Roles *r, const TirVal *value, bool *needs)
{
    for (TirInputs in = tir_inputs(r->fn->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        if (def == r->loop) {
            *needs = true;
            if (r->stage1[r->body->params.at[in.value->index + 1]->id] || in.value->type.rank > 1)
                return false;
        } else if (def != NULL && def->parent == r->old && is_behind(r, def)) {
            if (!is_simple(def))
                return false;
            tir_inputs_follow(&in);
        }
    }
    return true;
}

/* Lists these operations, and which of their results others read. */
void
roles_find_behind(Roles *r)
{
    Arena *arena = r->fn->arena;

    r->behind.n = r->left.n = 0;
    if (r->loop->parent != r->old)
        return;
    for (uint32_t i = 0; i < r->old->ops.n; i++) {
        TirOp *op = r->old->ops.at[i];
        bool needs = false;
        if (is_behind(r, op) && is_simple(op) && op->results[0]->type.rank == 1 &&
            is_early(r, op->results[0], &needs) && needs)
            vec_push(arena, &r->behind, op);
    }
    for (uint32_t k = 0; k < r->behind.n; k++) {
        TirVal *value = r->behind.at[k]->results[0];
        bool wanted = false;
        for (uint32_t i = 0; i < r->old->ops.n && !wanted; i++) {
            const TirOp *op = r->old->ops.at[i];
            wanted = !roles_lists(&r->behind, op) && op_uses_deep(op, value);
        }
        if (wanted)
            vec_push(arena, &r->left, value);
    }
}

bool
roles_is_moved(const Roles *r, const TirOp *op)
{
    return roles_lists(&r->behind, op);
}

static void
copy_with_inputs(Roles *r, CloneMap *map, const TirOp *op)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirOp *def = op->args[k]->def;
        if (def != NULL && def->parent == r->old && def != r->loop && is_behind(r, def) &&
            map->to[op->args[k]->id] == NULL)
            copy_with_inputs(r, map, def);
    }
    if (map->to[op->results[0]->id] == NULL)
        clone_op(&r->b, map, op);
}

/* Computes them, `map` saying what the loop's results are, and adds those that others read to
 * `values`; how many. */
uint32_t
roles_emit_behind(Roles *r, const CloneMap *map, TirVal **values)
{
    CloneMap own = clone_map_copy(r->fn, map);

    for (uint32_t k = 0; k < r->behind.n; k++)
        copy_with_inputs(r, &own, r->behind.at[k]);
    for (uint32_t k = 0; k < r->left.n; k++)
        values[k] = clone_of(&own, r->left.at[k]);
    return r->left.n;
}
