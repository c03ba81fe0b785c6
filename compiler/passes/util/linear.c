/* linear.c - integers as sums of sizes, scalars and ranges (see linear.h). */
#include "compiler/passes/util/linear.h"

enum {
    MOST_STEPS = 256
}; /* definitions followed: a bound on work; behind it, the sum is not known */

bool
linear_same_value(const TirVal *a, const TirVal *b)
{
    const TirOp *x = a->def, *y = b->def;

    if (a == b)
        return true;
    if (x == NULL || y == NULL || x->op != y->op || x->integer != y->integer)
        return false;
    return x->op == TIR_SIZE || x->op == TIR_GRID || x->op == TIR_GRID_FIRST ||
           (x->op == TIR_CONST && a->type.rank == 0);
}

/* The axes of what a sum is made of that those of a value in it are; TIR_MAX_RANK: none. */
typedef struct Axes {
    uint32_t at[TIR_MAX_RANK];
} Axes;

/* Whether two ranges of as many elements are one. */
static bool
same_range(const TirOp *a, const TirOp *b)
{
    return a->results[0]->type.dim[0] == b->results[0]->type.dim[0] &&
           linear_same_value(a->args[0], b->args[0]) && linear_same_value(a->args[1], b->args[1]) &&
           tir_same_index(&a->index[0], &b->index[0]);
}

static void
add_term(Linear *sum, const TirVal *value, uint32_t axis, int64_t coefficient)
{
    bool is_range = value->def != NULL && value->def->op == TIR_IOTA;

    for (uint32_t k = 0; k < sum->n; k++) {
        const TirVal *other = sum->terms[k].value;
        bool other_range = other->def != NULL && other->def->op == TIR_IOTA;
        if (is_range && other_range
                ? sum->terms[k].axis == axis && same_range(value->def, other->def)
                : linear_same_value(value, other)) {
            sum->terms[k].coefficient += coefficient;
            return;
        }
    }
    if (sum->n == LINEAR_TERMS) {
        sum->ok = false;
        return;
    }
    sum->terms[sum->n].coefficient = coefficient;
    sum->terms[sum->n].axis = axis;
    sum->terms[sum->n++].value = value;
}

/* Which operand of a multiplication is a constant; 2: neither, or it is none. */
static uint32_t
constant_factor(const TirOp *op)
{
    uint32_t k = 0;

    if (op == NULL || op->op != TIR_MUL)
        return 2;
    while (k < 2 && (op->args[k]->def == NULL || op->args[k]->def->op != TIR_CONST))
        k++;
    return k;
}

/* Those of the operand whose shape an operation changes. */
static Axes
under(const TirOp *op, Axes axes)
{
    Axes out = axes;

    for (uint32_t k = op->axis; op->op == TIR_EXPAND && k + 1 < TIR_MAX_RANK; k++)
        out.at[k] = axes.at[k + 1];
    for (uint32_t k = op->axis + 1; op->op == TIR_SQUEEZE && k < TIR_MAX_RANK; k++)
        out.at[k] = axes.at[k - 1];
    if (op->op == TIR_SQUEEZE)
        out.at[op->axis] = TIR_MAX_RANK;
    return out;
}

static void
add_value(Linear *sum, const TirVal *value, Axes axes, int64_t scale)
{
    const TirOp *op = value->def;

    if (!sum->ok || sum->steps++ == MOST_STEPS) {
        sum->ok = false;
        return;
    }
    uint32_t factor = constant_factor(op);
    if (factor < 2) {
        if (__builtin_mul_overflow(scale, op->args[factor]->def->integer, &scale))
            sum->ok = false;
        add_value(sum, op->args[1 - factor], axes, scale);
        return;
    }
    switch (op == NULL ? TIR_SIZE : op->op) {
    case TIR_CONST: sum->constant += scale * op->integer; return;
    case TIR_ADD:
    case TIR_SUB:
        add_value(sum, op->args[0], axes, scale);
        add_value(sum, op->args[1], axes, op->op == TIR_ADD ? scale : -scale);
        return;
    case TIR_NEG: add_value(sum, op->args[0], axes, -scale); return;
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_BROADCAST: add_value(sum, op->args[0], under(op, axes), scale); return;
    default:
        if (value->type.rank > 0 && (op == NULL || op->op != TIR_IOTA))
            sum->ok = false;
        else
            add_term(sum, value, axes.at[0], scale);
    }
}

void
linear_add(Linear *sum, const TirVal *value, int64_t scale)
{
    Axes axes;

    for (uint32_t k = 0; k < TIR_MAX_RANK; k++)
        axes.at[k] = k;
    add_value(sum, value, axes, scale);
}

Linear
linear_slack(const TirOp *condition)
{
    Linear slack = {.ok = condition != NULL && condition->op == TIR_LT &&
                          condition->args[0]->type.rank == 0 &&
                          condition->args[0]->type.dtype == DT_I32};

    if (slack.ok) {
        linear_add(&slack, condition->args[1], 1);
        linear_add(&slack, condition->args[0], -1);
    }
    return slack;
}

bool
linear_equal(const Linear *a, const Linear *b)
{
    Linear rest = *a;

    rest.constant -= b->constant;
    for (uint32_t k = 0; k < b->n; k++)
        add_term(&rest, b->terms[k].value, b->terms[k].axis, -b->terms[k].coefficient);
    for (uint32_t k = 0; k < rest.n; k++) {
        if (rest.terms[k].coefficient != 0)
            return false;
    }
    return a->ok && b->ok && rest.ok && rest.constant == 0;
}
