/* bound_exp2.c - exponents that a running maximum keeps small.
 *
 *   level    tile IR, before multiply-adds are made
 *   needs    nothing
 *   does     proves of exp2(s c - m c), c > 0, that s <= m + k / c for a small k: m is a maximum over s, or was left as it
 *            is by a branch that is taken where some s exceeds m + k / c.  That is exact but for rounding, which
 *            reaches 128 only where |m c| is beyond 2^30
 *   leaves   EXP2.small: who computes it need not look for overflow.  EXP2.hides: m is 0 where it would be -inf, so where s is
 *            -inf the result is 0.  Only where the target computes two f32 elements in an
 *            instruction, since nobody else asks
 */
#include <math.h>

#include "compiler/passes/pass.h"
#include "compiler/passes/util/noop_proof.h"
#include "compiler/passes/util/tir_util.h"

enum {
    DEEPEST = 8,    /* definitions followed: a bound on work */
    MOST_SMALL = 64 /* what still leaves room for rounding */
};

typedef struct Bound {
    Arena *arena;
    const TirFn *fn;
    const TirVal *factor; /* c */
} Bound;

/* The value that is spread over a tile. */
static const TirVal *
spread(const TirVal *value)
{
    while (value->def != NULL && (value->def->op == TIR_EXPAND || value->def->op == TIR_BROADCAST ||
                                  value->def->op == TIR_SQUEEZE))
        value = value->def->args[0];
    return value;
}

static bool
is_number(const TirVal *value, double number)
{
    const TirOp *op = spread(value)->def;

    return op != NULL && op->op == TIR_CONST && op->number == number;
}

/* Whether `s` is `r`, or some of its elements, and -inf in place of the others. */
static bool
is_part_of(const TirVal *s, const TirVal *r)
{
    while (
        s != r && s->def != NULL &&
        (s->def->op == TIR_MASK || (s->def->op == TIR_BOUNDS_MASK && s->def->number == -INFINITY)))
        s = s->def->args[0];
    return s == r;
}

/* By how much, times c, `value` exceeds `base` at most: base + k / c; INFINITY: it is no such sum. */
static double
step_above(const Bound *bound, const TirVal *value, const TirVal *base)
{
    const TirOp *op = spread(value)->def;

    if (spread(value) == base)
        return 0;
    if (op == NULL || op->op != TIR_ADD)
        return INFINITY;
    for (uint32_t k = 0; k < 2; k++) {
        const TirOp *slack = spread(op->args[1 - k])->def;
        if (spread(op->args[k]) != base || slack == NULL || slack->op != TIR_DIV ||
            spread(slack->args[1]) != bound->factor)
            continue;
        const TirOp *number = spread(slack->args[0])->def;
        return number != NULL && number->op == TIR_CONST ? number->number : INFINITY;
    }
    return INFINITY;
}

/* The same of `s` and `m` where `condition` does not hold. */
static double
excess_unless(const Bound *bound, const TirVal *condition, const TirVal *s, const TirVal *m)
{
    const TirOp *op = condition->def;

    while (op != NULL && op->op == TIR_REDUCE && op->reduce == REDUCE_ANY)
        op = op->args[0]->def;
    if (op == NULL || (op->op != TIR_GT && op->op != TIR_GE) || !is_part_of(s, op->args[0]))
        return INFINITY;
    return step_above(bound, op->args[1], m);
}

/* By how much elements of `s` exceed their row's of `m` at most, times c. */
static double
excess(const Bound *bound, const TirVal *s, const TirVal *m, uint32_t depth)
{
    const TirOp *op = m->def;

    if (op == NULL || depth == DEEPEST)
        return INFINITY;
    if (op->op == TIR_REDUCE)
        return op->reduce == REDUCE_MAX && op->axis == 1 && is_part_of(s, op->args[0]) ? 0
                                                                                       : INFINITY;
    if (op->op == TIR_MAX)
        return fmin(excess(bound, s, op->args[0], depth + 1),
                    excess(bound, s, op->args[1], depth + 1));
    if (op->op != TIR_IF)
        return INFINITY;
    const TirVal *taken = block_yield(op->blocks[0])->args[m->index],
                 *left = block_yield(op->blocks[1])->args[m->index];
    double without = fmin(excess_unless(bound, op->args[0], s, left),
                          excess(bound, s, left, depth + 1));
    return fmax(excess(bound, s, taken, depth + 1), without);
}

/* The factor of a product with `factor`, or with anything (NULL), which it is set to then. */
static const TirVal *
other_factor(const TirVal *value, const TirVal **factor)
{
    const TirOp *op = spread(value)->def;

    if (op == NULL || op->op != TIR_MUL)
        return NULL;
    for (uint32_t k = 2; k-- > 0;) {
        const TirVal *one = spread(op->args[k]);
        if (*factor == NULL && one->type.rank == 0)
            *factor = one;
        if (one == *factor)
            return op->args[1 - k];
    }
    return NULL;
}

/* Sets `hides`, too. */
static bool
is_small(Arena *arena, const TirFn *fn, TirOp *exp2)
{
    const TirOp *op = exp2->op == TIR_EXP2 ? exp2->args[0]->def : NULL;
    Bound bound = {.arena = arena, .fn = fn};

    if (op == NULL || op->op != TIR_SUB || exp2->results[0]->type.rank != 2)
        return false;
    const TirVal *s = other_factor(op->args[0], &bound.factor);
    const TirVal *m = s == NULL ? NULL : other_factor(op->args[1], &bound.factor);
    if (m == NULL || !value_is_positive(arena, fn, bound.factor))
        return false;
    m = spread(m);
    const TirOp *safe = m->def; /* where(m == -inf, 0, m): s is -inf there, too */
    if (safe != NULL && safe->op == TIR_SELECT && is_number(safe->args[1], 0) &&
        safe->args[0]->def != NULL && safe->args[0]->def->op == TIR_EQ &&
        safe->args[0]->def->args[0] == safe->args[2] &&
        is_number(safe->args[0]->def->args[1], -INFINITY))
        m = safe->args[2];
    exp2->hides = safe != NULL && m != safe->results[0] && excess(&bound, s, m, 0) <= MOST_SMALL;
    return excess(&bound, s, m, 0) <= MOST_SMALL;
}

static bool
mark(Arena *arena, const TirFn *fn, TirBlock *block)
{
    bool changed = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            changed |= mark(arena, fn, op->blocks[k]);
        if (is_small(arena, fn, op)) {
            op->small = true;
            changed = true;
        }
    }
    return changed;
}

bool
pass_bound_exp2(PassContext *px, TirFn *fn)
{
    return target_can(px->target, CAN_COMPUTE_TWO) && mark(px->arena, fn, fn->body);
}
