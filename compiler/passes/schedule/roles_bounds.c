/* roles_bounds.c - one range of iterations for all consumers of a block, where programs that leave
 * nothing differ.
 *
 * The programs of packed sequences are as many for each as the longest one needs; those behind a
 * sequence's end have no iterations, and their stores end before they begin:
 *
 *     for j in 0 .. select(i * 64 < length, steps, 0)     store O[..] limit(length - i * 64)
 *
 * A consumer whose program is such a one may as well go through the iterations of its neighbours.
 * So the block's first program decides for all, whose warp groups then take turns, and need not let
 * tiles of others pass by.  Loops that are not pipelined have no turns; there a warp group that
 * lets tiles pass by leaves the tensor cores to others.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* Whether a sum falls as the index of the consumer axis rises, and depends on it in no other
 * way. */
static bool
falls(const Roles *r, const Linear *sum)
{
    bool falls = false;

    for (uint32_t k = 0; k < sum->n; k++) {
        const TirOp *def = sum->terms[k].value->def;
        bool is_index = def != NULL && def->op == TIR_GRID &&
                        def->integer == (int64_t)r->fn->plan->tiles.axis;
        if (sum->terms[k].coefficient == 0)
            continue;
        if (is_index ? sum->terms[k].coefficient > 0
                     : roles_depends_on_consumer(r, sum->terms[k].value))
            return false;
        falls = falls || is_index;
    }
    return sum->ok && falls;
}

/* Whether all that `block` writes ends after `slack` elements. */
static bool
writes_end(const TirBlock *block, const Linear *slack)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        bool ends = !tir_writes(op);
        for (uint32_t k = 0; k < op->n_limits && !ends; k++) {
            Linear count = {.ok = op->limits[k].part.rows == 0};
            linear_add(&count, tir_limit_count(op, k), 1);
            ends = linear_equal(&count, slack);
        }
        if (!ends)
            return false;
    }
    return true;
}

/* The condition of a selection that `value` is made of, and that the consumers differ in; NULL:
 * there is none. */
static TirOp *
find_condition(const Roles *r, const TirVal *value)
{
    for (TirInputs in = tir_inputs(r->fn->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        if (def == NULL || !roles_depends_on_consumer(r, in.value))
            continue;
        if (def->op == TIR_SELECT && roles_depends_on_consumer(r, def->args[0]))
            return def->args[0]->def;
        tir_inputs_follow(&in);
    }
    return NULL;
}

/* The index of the block's first program. */
static TirVal *
first_program(const Roles *r, TirBuilder *b)
{
    TirType i32 = tir_scalar(DT_I32);
    TirOp *own = tir_op_new(b, TIR_GRID, 0, NULL, 1, &i32);

    own->integer = r->fn->plan->tiles.axis;
    TirVal *programs = tir_const_int(b, tir_programs(r->fn->plan));
    return tir_binary(b, TIR_MUL, tir_binary(b, TIR_DIV, own->results[0], programs), programs);
}

void
roles_share_bounds(Roles *r)
{
    TirPlan *plan = r->fn->plan;
    TirOp *loop = r->loop, *condition = NULL;
    uint32_t n = loop_first_initial(loop), at = 0;

    if (tir_own_programs(plan) < 2 || !r->pipelined || plan->tiles.reversed ||
        loop->parent != r->old || r->has_effects)
        return;
    for (uint32_t k = 0; k < n && condition == NULL; k++)
        condition = find_condition(r, loop->args[k]);
    Linear slack = linear_slack(condition);
    if (!falls(r, &slack) || !writes_end(r->old, &slack))
        return;
    while (r->old->ops.at[at] != loop)
        at++;
    TirBuilder b = {.fn = r->fn, .block = r->old, .at = (int32_t)at, .span = loop->span};
    CloneMap first = clone_map(r->fn), map = clone_map(r->fn);
    roles_map_grid(NULL, &first, r->old, plan->tiles.axis, first_program(r, &b), NULL);
    clone_set(&map, condition->results[0], clone_scalar_tree(&b, &first, condition->results[0]));
    TirVal *bounds[8];
    bool shared = n <= 8;
    for (uint32_t k = 0; k < n && shared; k++) {
        bounds[k] = clone_scalar_tree(&b, &map, loop->args[k]);
        shared = bounds[k] != NULL && !roles_depends_on_consumer(r, bounds[k]);
    }
    for (uint32_t k = 0; k < n && shared; k++)
        loop->args[k] = bounds[k];
}

TirVal *
roles_leaves_some(Roles *r, TirBuilder *b)
{
    TirOp *condition = NULL;

    for (uint32_t k = 0; k < loop_first_initial(r->loop) && condition == NULL; k++)
        condition = find_condition(r, r->loop->args[k]);
    Linear slack = linear_slack(condition);
    if (!slack.ok || !writes_end(r->old, &slack))
        return NULL;
    CloneMap uniform = roles_uniform_map(r, NULL);
    return clone_scalar_tree(b, &uniform, condition->results[0]);
}
