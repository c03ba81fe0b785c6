/* bound_exp2.c - exponents that a running maximum keeps small.
 *
 *   level    tile IR, before multiply-adds are made
 *   needs    nothing
 *   does     proves of exp2(s c - m c), c > 0, that s <= m + k / c for a small k: m is a maximum
 *            over s, or was left as it is by a branch that is taken where some s exceeds m + k / c.
 *            Proves the same of exp2(fma(s, f, o)) where a loop carries f, o and a limit of each
 *            row: where a score exceeds the limit, or in a branch that is taken then, they are made
 *            of the maximum m as o = -(m f) and m + k / c
 *   leaves   EXP2.small: who computes it need not look for overflow.  EXP2.hides: m is 0 where it
 *            would be -inf, so where s is -inf the result is 0.  Only where the target computes two
 *            f32 elements in an instruction, since nobody else asks
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

/* By how much, times c, `value` exceeds `base` at most: base + k / c; INFINITY: it is no such
 * sum. */
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
        if (spread(op->args[k]) == base && is_number(op->args[1 - k], 0))
            return 0;
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

    while (tir_reduces(op, REDUCE_ANY))
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
    if (tir_reduces(op, REDUCE_MAX) && op->axis == 1 && is_part_of(s, op->args[0]))
        return 0;
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

/* ---- what a loop carries of each row ---- */

/* fma(s, f, o) is small for all s up to `limit`. */
typedef struct RowState {
    const TirVal *limit, *f, *o;
} RowState;

/* Whether two values are the same, by what they are made of. */
static bool
is_same(const TirVal *x, const TirVal *y, uint32_t depth)
{
    const TirOp *a = (x = spread(x))->def, *b = (y = spread(y))->def;

    if (x == y)
        return true;
    if (a == NULL || b == NULL || a->op != b->op || depth == DEEPEST)
        return false;
    if (a->op == TIR_CONST)
        return a->number == b->number && a->integer == b->integer;
    if (a->op != TIR_MUL && a->op != TIR_ABS)
        return false;
    for (uint32_t k = 0; k < a->n_args; k++) {
        if (!is_same(a->args[k], b->args[k], depth + 1))
            return false;
    }
    return true;
}

static bool
is_positive(const Bound *bound, const TirVal *value)
{
    const TirOp *op = (value = spread(value))->def;

    if (op != NULL && op->op == TIR_CONST)
        return op->number > 0;
    if (op != NULL && op->op == TIR_SELECT)
        return is_positive(bound, op->args[1]) && is_positive(bound, op->args[2]);
    return value->type.rank == 0 && value_is_positive(bound->arena, bound->fn, value);
}

/* The greatest score, without a number that it is at least. */
static const TirVal *
without_floor(const TirVal *m)
{
    const TirOp *op = (m = spread(m))->def;

    for (uint32_t k = 0; op != NULL && op->op == TIR_MAX && k < 2; k++) {
        const TirOp *number = spread(op->args[k])->def;
        if (number != NULL && number->op == TIR_CONST)
            return spread(op->args[1 - k]);
    }
    return m;
}

/* m where `product` is m * f, and m is finite, or -inf and at least some number; else NULL. */
static const TirVal *
other_of(const TirVal *product, const TirVal *f)
{
    const TirOp *op = spread(product)->def, *by = spread(f)->def;

    if (is_number(f, 1))
        return without_floor(product);
    /* where(x, m * f1, m * f2) and where(x, f1, f2) */
    if (op != NULL && by != NULL && op->op == TIR_SELECT && by->op == TIR_SELECT &&
        op->args[0] == by->args[0]) {
        const TirVal *m = other_of(op->args[1], by->args[1]);
        return m != NULL && m == other_of(op->args[2], by->args[2]) ? m : NULL;
    }
    for (uint32_t k = 0; op != NULL && op->op == TIR_MUL && k < 2; k++) {
        if (is_same(op->args[k], f, 0))
            return without_floor(op->args[1 - k]);
    }
    return NULL;
}

/* m where `o` is -(m * f), f > 0; else NULL. */
static const TirVal *
reference(const Bound *bound, const TirVal *f, const TirVal *o)
{
    const TirOp *op = spread(o)->def;

    return op != NULL && op->op == TIR_NEG && is_positive(bound, f) ? other_of(op->args[0], f)
                                                                    : NULL;
}

/* x > k: x and k. */
static const TirVal *
exceeds_number(const TirVal *condition, double *number)
{
    const TirOp *op = condition->def;
    const TirOp *most = op != NULL && op->op == TIR_GT ? spread(op->args[1])->def : NULL;

    if (most == NULL || most->op != TIR_CONST)
        return NULL;
    *number = most->number;
    return op->args[0];
}

/* By how much (limit - m) * f is above 0 at most: the limit is m, or m + k / c unless x > y, and f
 * is c unless x > z, z >= y. */
static double
slack_of(RowState made, const TirVal *m)
{
    const TirOp *limit = spread(made.limit)->def, *f = spread(made.f)->def;
    double y, z;

    if (without_floor(made.limit) == m)
        return 0;
    if (limit == NULL || limit->op != TIR_SELECT || f == NULL || f->op != TIR_SELECT ||
        without_floor(limit->args[1]) != m)
        return INFINITY;
    const TirVal *x = exceeds_number(limit->args[0], &y), *far = exceeds_number(f->args[0], &z);
    if (x == NULL || far == NULL || !(z >= y) || !is_same(x, far, 0))
        return INFINITY;
    Bound c = {.factor = spread(f->args[2])};
    double least = step_above(&c, limit->args[2], m);
    const TirOp *sum = spread(limit->args[2])->def;
    /* of m with a floor: that is far below where f is c */
    for (uint32_t k = 0; sum != NULL && sum->op == TIR_ADD && k < 2; k++) {
        if (without_floor(sum->args[k]) == m)
            least = fmin(least, step_above(&c, limit->args[2], spread(sum->args[k])));
    }
    return least;
}

/* The values of a row where `up` holds and where it does not; false: these are no such values. */
static bool
split_state(RowState state, const TirVal **up, RowState *made, RowState *kept)
{
    const TirOp *f = spread(state.f)->def, *o = spread(state.o)->def;
    const TirOp *l = state.limit == NULL ? NULL : spread(state.limit)->def;

    if (f == NULL || o == NULL || f->op != TIR_SELECT || o->op != TIR_SELECT ||
        f->args[0] != o->args[0])
        return false;
    *up = f->args[0];
    *made = (RowState){NULL, f->args[1], o->args[1]};
    *kept = (RowState){NULL, f->args[2], o->args[2]};
    if (state.limit == NULL)
        return true;
    if (l == NULL || l->op != TIR_SELECT || l->args[0] != *up)
        return false;
    made->limit = l->args[1];
    kept->limit = l->args[2];
    return true;
}

/* fma(s, f, o) of what is new, for all s up to its limit; without one: up to m. */
static double
made_excess(const Bound *bound, RowState made, const TirVal **m)
{
    *m = reference(bound, made.f, made.o);
    if (*m == NULL)
        return INFINITY;
    return made.limit == NULL ? 0 : slack_of(made, *m);
}

/* The loop that carries a value, and which of its values it is. */
static const TirOp *
carried(const TirVal *value, uint32_t *which)
{
    const TirVal *at = spread(value);
    const TirOp *loop = at->def != NULL ? at->def : at->block == NULL ? NULL : at->block->owner;

    if (loop == NULL || loop->op != TIR_FOR)
        return NULL;
    if (at->def != NULL) {
        *which = at->index;
        return loop;
    }
    for (uint32_t k = 1; k < loop->blocks[0]->params.n; k++) {
        if (loop->blocks[0]->params.at[k] == at) {
            *which = k - 1;
            return loop;
        }
    }
    return NULL;
}

/* The same of the next values of a loop, made of `before`. */
static double
step_excess(const Bound *bound, RowState next, RowState before)
{
    const TirOp *branch = spread(next.f)->def;
    const TirVal *up, *m;
    RowState made, kept;

    if (branch != NULL && branch->op == TIR_IF) {
        const TirVal *values[] = {spread(next.limit), spread(next.f), spread(next.o)};
        const TirVal *of[2][3];
        for (uint32_t k = 0; k < 3; k++) {
            if (values[k]->def != branch)
                return INFINITY;
            for (uint32_t side = 0; side < 2; side++)
                of[side][k] = block_yield(branch->blocks[side])->args[values[k]->index];
        }
        if (of[1][0] != before.limit || of[1][1] != before.f || of[1][2] != before.o)
            return INFINITY;
        return step_excess(bound, (RowState){of[0][0], of[0][1], of[0][2]}, before);
    }
    if (!split_state(next, &up, &made, &kept) || kept.limit != before.limit || kept.f != before.f ||
        kept.o != before.o)
        return INFINITY;
    return made_excess(bound, made, &m);
}

/* fma(s, f, o) of carried values, for all s up to their limit. */
static double
state_excess(const Bound *bound, RowState state, uint32_t depth)
{
    const TirVal *values[] = {state.limit, state.f, state.o}, *first[3], *next[3], *params[3];
    const TirOp *loop = NULL;
    uint32_t which;

    if (depth == DEEPEST)
        return INFINITY;
    if (is_number(state.limit, -INFINITY)) /* nothing is below it but -inf */
        return is_positive(bound, state.f) && spread(state.o)->def != NULL &&
                       spread(state.o)->def->op == TIR_CONST
                   ? 0
                   : INFINITY;
    for (uint32_t k = 0; k < 3; k++) {
        const TirOp *by = carried(values[k], &which);
        if (by == NULL || (loop != NULL && by != loop))
            return INFINITY;
        loop = by;
        first[k] = loop->args[loop_first_initial(loop) + which];
        next[k] = block_yield(loop->blocks[0])->args[which];
        params[k] = loop->blocks[0]->params.at[which + 1];
    }
    return fmax(state_excess(bound, (RowState){first[0], first[1], first[2]}, depth + 1),
                step_excess(bound, (RowState){next[0], next[1], next[2]},
                            (RowState){params[0], params[1], params[2]}));
}

/* The limit that some `s` exceeds where `condition` holds. */
static const TirVal *
limit_of(const TirVal *condition, const TirVal *s)
{
    const TirOp *op = condition->def;

    while (tir_reduces(op, REDUCE_ANY))
        op = op->args[0]->def;
    if (op == NULL || op->op != TIR_GT)
        return NULL;
    return is_part_of(s, op->args[0]) ? spread(op->args[1]) : NULL;
}

/* exp2(fma(s, f, o)): by how much the exponent is above 0 at most. */
static double
rows_excess(const Bound *bound, const TirVal *s, RowState state)
{
    const TirOp *branch = spread(state.f)->def;
    const TirVal *up, *m, *limit = NULL;
    RowState made, kept;

    if (branch != NULL && branch->op == TIR_IF && spread(state.o)->def == branch) {
        uint32_t f = spread(state.f)->index, o = spread(state.o)->index;
        const TirOp *taken = block_yield(branch->blocks[0]), *left = block_yield(branch->blocks[1]);
        limit = limit_of(branch->args[0], s);
        state = (RowState){NULL, taken->args[f], taken->args[o]};
        if (limit == NULL ||
            state_excess(bound, (RowState){limit, left->args[f], left->args[o]}, 0) > MOST_SMALL)
            return INFINITY;
    }
    if (!split_state(state, &up, &made, &kept))
        return INFINITY;
    double excess_made = made_excess(bound, made, &m);
    const TirOp *rises = up->def; /* m exceeds the limit that was */
    if (m == NULL || excess(bound, s, m, 0) > 0 || rises == NULL ||
        (rises->op != TIR_GT && rises->op != TIR_GE) || without_floor(rises->args[0]) != m ||
        (limit != NULL && spread(rises->args[1]) != limit))
        return INFINITY;
    kept.limit = spread(rises->args[1]);
    return fmax(excess_made, state_excess(bound, kept, 0));
}

/* Sets `hides`, too. */
static bool
is_small(Arena *arena, const TirFn *fn, TirOp *exp2)
{
    const TirOp *op = exp2->op == TIR_EXP2 ? exp2->args[0]->def : NULL;
    Bound bound = {.arena = arena, .fn = fn};

    if (op == NULL || exp2->results[0]->type.rank != 2)
        return false;
    if (op->op == TIR_FMA) {
        exp2->hides = rows_excess(&bound, op->args[0],
                                  (RowState){NULL, spread(op->args[1]), spread(op->args[2])}) <=
                      MOST_SMALL;
        return exp2->hides;
    }
    if (op->op != TIR_SUB)
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
