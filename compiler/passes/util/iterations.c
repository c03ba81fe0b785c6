/* iterations.c - iterations that a program does not have (see iterations.h).
 *
 * A product over rows that are all padding adds zeros: imply_masks puts zeros to the padding of
 * what it sums up.
 */
#include "compiler/passes/util/iterations.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/tir_util.h"

enum { DEEPEST_MIN = 4 }; /* minima in a count that are looked into: a bound on work */

/* ---- programs without rows ---- */

/* Whether an access ends after `slack` elements along dimension `dim` of its tile; of any
 * dimension: 2. */
static bool
ends_after(const TirOp *op, uint32_t dim, const Linear *slack)
{
    for (uint32_t k = 0; k < op->n_limits; k++) {
        Linear count = {.ok = op->limits[k].part.rows == 0};
        linear_add(&count, tir_limit_count(op, k), 1);
        if ((dim == 2 || op->limits[k].axis == dim) && linear_equal(&count, slack))
            return true;
    }
    return false;
}

/* Whether a write leaves nothing in a program whose `slack` is at most 0: it has no elements then,
 * or is the addition of a product over none. */
static bool
leaves_nothing(const TirOp *write, const Linear *slack)
{
    const TirOp *value = write->args[write->n_args - 1]->def;

    if (ends_after(write, 2, slack))
        return true;
    if (write->op != TIR_ATOMIC_ADD || value == NULL || value->op != TIR_MMA ||
        !tir_is_zero(value->args[2]))
        return false;
    const TirOp *right = value->args[1]->def;
    return right != NULL && right->op == TIR_LOAD && ends_after(right, 0, slack);
}

/* Whether a program in which `condition` does not hold leaves nothing, whatever iterations it
 * has. */
static bool
is_without_rows(const TirBlock *body, const TirOp *condition)
{
    Linear slack = linear_slack(condition);

    if (!slack.ok)
        return false;
    for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);) {
        bool writes = tir_writes(walk.op);
        if (writes && !leaves_nothing(walk.op, &slack))
            return false;
    }
    return true;
}

/* The axes that the end of a loop, which begins at 0 or later, is made of. */
static uint32_t
axes_of_end(Arena *arena, const TirBlock *body, const TirVal *end)
{
    const TirOp *def = end->def;

    if (def != NULL && def->op == TIR_MIN)
        return axes_of_end(arena, body, def->args[0]) | axes_of_end(arena, body, def->args[1]);
    const TirOp *none = def != NULL && def->op == TIR_SELECT ? def->args[2]->def : NULL;
    if (none != NULL && none->op == TIR_CONST && none->integer <= 0 &&
        is_without_rows(body, def->args[0]->def))
        return axes_of_end(arena, body, def->args[1]);
    return tir_axes_of(arena, end);
}

uint32_t
iterations_apart(Arena *arena, const TirBlock *body, const TirOp *loop)
{
    bool counts = is_not_negative(loop->args[0]);

    return tir_axes_of(arena, loop->args[0]) |
           (counts ? axes_of_end(arena, body, loop->args[1]) : tir_axes_of(arena, loop->args[1]));
}

bool
iterations_are_shared(const TirFn *fn, const TirBlock *body)
{
    for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);) {
        const TirOp *loop = walk.op->parent->owner;
        bool shares = walk.op->coop_k || tir_adds_in_pairs(fn->plan);
        if (walk.op->op != TIR_MMA || !shares || loop == NULL)
            continue;
        uint32_t apart = loop->masked ? loop->apart : iterations_apart(fn->arena, body, loop);
        return fn->plan->tiles.axis == NO_AXIS || (apart >> fn->plan->tiles.axis & 1) == 0;
    }
    return false;
}

/* ---- programs past the end of an axis ---- */

/* Whether a scalar of the kernel is what the host computes. */
static bool
is_host(const TirVal *value, const HostExpr *expr)
{
    static const struct {
        HostKind kind;
        TirOpcode op;
    } binary[] = {{HOST_ADD, TIR_ADD}, {HOST_SUB, TIR_SUB}, {HOST_MUL, TIR_MUL},
                  {HOST_DIV, TIR_DIV}, {HOST_MIN, TIR_MIN}, {HOST_MAX, TIR_MAX}};
    const TirOp *def = value->def;

    if (def == NULL)
        return false;
    switch (expr->kind) {
    case HOST_INT: return def->op == TIR_CONST && def->integer == expr->integer;
    case HOST_SIZE: return def->op == TIR_SIZE && def->integer == (int64_t)expr->index;
    case HOST_SCALAR: return def->op == TIR_PARAM && def->integer == (int64_t)expr->index;
    default: break;
    }
    for (uint32_t k = 0; k < sizeof binary / sizeof binary[0]; k++) {
        if (binary[k].kind == expr->kind)
            return def->op == binary[k].op && is_host(def->args[0], expr->a) &&
                   is_host(def->args[1], expr->b);
    }
    return false;
}

/* Subtracts `scale` times what the host computes from a sum that has it. */
static void
subtract_host(Linear *sum, const HostExpr *expr, int64_t scale)
{
    if (expr->kind == HOST_INT) {
        sum->constant -= scale * expr->integer;
        return;
    }
    if (expr->kind == HOST_ADD || expr->kind == HOST_SUB) {
        subtract_host(sum, expr->a, scale);
        subtract_host(sum, expr->b, expr->kind == HOST_ADD ? scale : -scale);
        return;
    }
    for (uint32_t k = 0; k < sum->n; k++) {
        if (!is_host(sum->terms[k].value, expr))
            continue;
        sum->terms[k].coefficient -= scale;
        return;
    }
    sum->ok = false;
}

/* Whether a sum is at most 0, where it falls by `by` with each index of an axis, from the axis'
 * extent on; `sum` is what it is at index 0. */
static bool
is_spent(const Linear *sum, const HostExpr *extent, int64_t by)
{
    Linear left = *sum;
    bool rounds = extent->kind == HOST_CDIV && extent->b->kind == HOST_INT &&
                  extent->b->integer > 0;

    if (rounds && by % extent->b->integer == 0)
        subtract_host(&left, extent->a, by / extent->b->integer);
    else
        subtract_host(&left, extent, by);
    for (uint32_t k = 0; k < left.n; k++)
        left.ok = left.ok && left.terms[k].coefficient == 0;
    return left.ok && left.constant <= 0;
}

/* Whether a count is at most 0 past the end of an axis. */
static bool
is_none_past(const TirFn *fn, uint32_t axis, Linear count, uint32_t depth)
{
    Linear at_zero = count;
    int64_t by = 0;

    for (uint32_t k = 0; k < count.n && count.ok; k++) {
        const TirOp *def = count.terms[k].value->def;
        if (def == NULL || def->op != TIR_GRID || def->integer != (int64_t)axis)
            continue;
        by = -count.terms[k].coefficient;
        at_zero.terms[k].coefficient = 0;
    }
    if (count.ok && by > 0 && is_spent(&at_zero, fn->grid.at[axis].extent, by))
        return true;
    for (uint32_t k = 0; k < count.n && count.ok && depth < DEEPEST_MIN; k++) {
        const TirOp *def = count.terms[k].value->def;
        int64_t times = count.terms[k].coefficient;
        for (uint32_t j = 0; def != NULL && def->op == TIR_MIN && times > 0 && j < 2; j++) {
            Linear more = count; /* a minimum is at most each of its operands */
            more.terms[k].coefficient = 0;
            linear_add(&more, def->args[j], times);
            if (is_none_past(fn, axis, more, depth + 1))
                return true;
        }
    }
    return false;
}

/* Whether all of the tile's range in dimension `d` of the tensor, which begins at `start`, lies
 * behind the tensor's end past the end of an axis. */
static bool
is_behind_tensor(const TirFn *fn, uint32_t axis, const TensorDim *dim, const TirVal *start)
{
    TirOp size = {.op = TIR_SIZE, .integer = dim->size};
    TirVal length = {.type = tir_scalar(DT_I32), .def = &size};
    Linear count = {.ok = true, .constant = dim->constant};

    if (dim->constant == 0)
        linear_add(&count, &length, 1);
    linear_add(&count, start, -1);
    return is_none_past(fn, axis, count, 0);
}

bool
rows_end_with_axis(const TirFn *fn, uint32_t axis, uint32_t programs, const TirOp *load)
{
    const HostExpr *extent = fn->grid.at[axis].extent;

    if (extent->kind == HOST_INT && extent->integer % programs == 0)
        return true;
    for (TirDims d = tir_dims(load); tir_dims_next(&d);) {
        if (d.range && d.axis == 0 && is_behind_tensor(fn, axis, &load->tensor->dim[d.dim], d.at))
            return true;
    }
    for (uint32_t k = 0; k < load->n_limits; k++) {
        Linear count = {.ok = load->limits[k].axis == 0};
        linear_add(&count, tir_limit_count(load, k), 1);
        if (is_none_past(fn, axis, count, 0))
            return true;
    }
    return false;
}
