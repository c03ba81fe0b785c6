/* range.c - between which integers the values of a program lie (see range.h).
 *
 * Comparisons of i32 must be right for all values.  `a + 1 > b` is `a - b > -1` only where a - b is
 * an i32; what moves something from one side of a comparison to the other, or adds up what the
 * program does not, asks here first.
 *
 * Facts:
 *   1. What the program computes does not overflow (docs/language.md): each result is an i32.
 *   2. Sizes are at least 0, and at most LARGEST_SIZE: what counts tiles of larger ones would
 *      overflow.
 *   3. Indices of a range that are no padding are less than its bound; those that are padding, and
 *      those of programs behind the end of the grid, by no more than BEHIND.
 *   4. A range with a bound that begins at a number times its length is tile of that number of
 *      `tiles(S, N)`, from 0 on.
 *   5. Scalar parameters and loaded numbers are any i32.
 *
 *   6. What a program subtracts at its top level is an i32, too, where it is part of something
 *      else.
 *
 * A difference is looked at in two ways, and the narrower one counts: as an interval less an
 * interval, and as a linear sum in which indices have the place of their bounds, so that sizes
 * cancel: n - (m + (Sk - Sq)) is at most Sk - 1 - 0 - Sk + Sq.
 */
#include "compiler/passes/util/range.h"

#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/tir_util.h"

enum {
    BEHIND = 1 << 17,
    LARGEST_SIZE = INT32_MAX - (1 << 20),
    UNBOUNDED = INT32_MAX / 2, /* ranges whose bound is that constant have none */
    MOST_STEPS = 64            /* definitions followed: a bound on work */
};

static const Range any = {INT32_MIN, INT32_MAX};

bool
range_fits(Range range, int64_t by)
{
    return range.least + by >= INT32_MIN && range.most + by <= INT32_MAX;
}

static Range
within_i32(Range r)
{
    if (r.least < INT32_MIN)
        r.least = INT32_MIN;
    if (r.most > INT32_MAX)
        r.most = INT32_MAX;
    return r.least <= r.most ? r : any; /* a mistake of the program */
}

static Range
hull(Range a, Range b)
{
    return (Range){a.least < b.least ? a.least : b.least, a.most > b.most ? a.most : b.most};
}

static Range
product(Range a, Range b)
{
    Range low = hull((Range){a.least * b.least, a.least * b.least},
                     (Range){a.least * b.most, a.least * b.most});
    Range high = hull((Range){a.most * b.least, a.most * b.least},
                      (Range){a.most * b.most, a.most * b.most});

    return hull((Range){low.least < low.most ? low.least : low.most, low.most},
                (Range){high.least < high.most ? high.least : high.most, high.most});
}

static Range
quotient(Range a, Range b)
{
    if (b.least <= 0)
        return any;
    Range least = {a.least / b.least, a.least / b.least},
          most = {a.most / b.least, a.most / b.least};
    return hull(hull(least, most), (Range){a.least / b.most, a.most / b.most});
}

/* Whether a range ends at a bound that the program gives. */
static bool
is_bounded(const TirOp *range)
{
    const TirOp *bound = range->args[1]->def;

    return bound == NULL || bound->op != TIR_CONST || bound->integer < UNBOUNDED;
}

/* ---- launch expressions ---- */

static Range
range_of_host(const HostExpr *e)
{
    Range a, b;

    switch (e->kind) {
    case HOST_INT: return within_i32((Range){e->integer, e->integer});
    case HOST_SIZE: return (Range){0, LARGEST_SIZE};
    case HOST_ADD:
        a = range_of_host(e->a);
        b = range_of_host(e->b);
        return within_i32((Range){a.least + b.least, a.most + b.most});
    case HOST_MUL: return within_i32(product(range_of_host(e->a), range_of_host(e->b)));
    case HOST_DIV: return within_i32(quotient(range_of_host(e->a), range_of_host(e->b)));
    case HOST_CDIV:
        a = range_of_host(e->a);
        b = range_of_host(e->b);
        if (b.least <= 0)
            return any;
        a.most += b.most - 1;
        return within_i32(quotient(a, b));
    default: return any;
    }
}

/* ---- values ---- */

static Range follow(const TirFn *fn, const TirVal *value, uint32_t *steps);

static Range
of_parameter(const TirFn *fn, const TirVal *value, uint32_t *steps)
{
    const TirOp *loop = value->block == NULL ? NULL : value->block->owner;

    if (loop == NULL || loop->op != TIR_FOR || value->index != 0)
        return any;
    Range lo = follow(fn, loop->args[0], steps), hi = follow(fn, loop->args[1], steps);
    return (Range){lo.least, hi.most > lo.least ? hi.most - 1 : lo.least};
}

static Range
of_operation(const TirFn *fn, const TirOp *op, uint32_t *steps)
{
    Range a = op->n_args > 0 ? follow(fn, op->args[0], steps) : any;
    Range b = op->n_args > 1 ? follow(fn, op->args[1], steps) : any;

    switch (op->op) {
    case TIR_ADD: return (Range){a.least + b.least, a.most + b.most};
    case TIR_SUB: return (Range){a.least - b.most, a.most - b.least};
    case TIR_MUL: return product(a, b);
    case TIR_NEG: return (Range){-a.most, -a.least};
    case TIR_MIN:
        return (Range){a.least < b.least ? a.least : b.least, a.most < b.most ? a.most : b.most};
    case TIR_MAX:
        return (Range){a.least > b.least ? a.least : b.least, a.most > b.most ? a.most : b.most};
    case TIR_DIV: return quotient(a, b);
    case TIR_REM:
        if (b.least <= 0)
            return any;
        return (Range){a.least < 0 ? -(b.most - 1) : 0, a.most < 0 ? 0 : b.most - 1};
    case TIR_AND:
        if (a.least < 0 && b.least < 0)
            return any;
        return (Range){0, a.least < 0 || (b.least >= 0 && b.most < a.most) ? b.most : a.most};
    case TIR_SELECT: return hull(b, follow(fn, op->args[2], steps));
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_BROADCAST:
    case TIR_TRANSPOSE:
    case TIR_CONVERT: return a;
    default: return any;
    }
}

/* Where a range of so many elements with a bound begins: at a number times its length, 0 at least,
 * and perhaps further on. */
static Range
of_start(const TirFn *fn, const TirVal *start, int32_t length, uint32_t *steps)
{
    const TirOp *op = start->def;
    Range range = follow(fn, start, steps);

    for (uint32_t k = 0; op != NULL && op->op == TIR_MUL && k < 2; k++) {
        const TirOp *factor = op->args[k]->def;
        if (factor != NULL && factor->op == TIR_CONST && factor->integer == length &&
            range.least < 0)
            range.least = 0;
    }
    if (op != NULL && op->op == TIR_ADD) {
        Range a = of_start(fn, op->args[0], length, steps),
              b = of_start(fn, op->args[1], length, steps);
        if (a.least + b.least > range.least)
            range.least = a.least + b.least;
    }
    return range;
}

static Range
follow(const TirFn *fn, const TirVal *value, uint32_t *steps)
{
    const TirOp *op = value->def;

    if (++*steps > MOST_STEPS || value->type.dtype != DT_I32)
        return any;
    if (op == NULL)
        return of_parameter(fn, value, steps);
    switch (op->op) {
    case TIR_CONST: return (Range){op->integer, op->integer};
    case TIR_SIZE: return (Range){0, LARGEST_SIZE};
    case TIR_GRID:
    case TIR_GRID_FIRST: {
        Range extent = range_of_host(fn->grid.at[op->integer].extent);
        return (Range){0, extent.most > 0 ? extent.most : 0};
    }
    case TIR_IOTA: {
        int32_t length = op->index[0].rows > 0 ? op->index[0].length : value->type.dim[0];
        Range start = is_bounded(op) ? of_start(fn, op->args[0], length, steps)
                                     : follow(fn, op->args[0], steps);
        return within_i32((Range){start.least, start.most + value->type.dim[0] - 1});
    }
    default: break;
    }
    return op->n_blocks > 0 ? any : within_i32(of_operation(fn, op, steps));
}

Range
range_of(const TirFn *fn, const TirVal *value)
{
    uint32_t steps = 0;

    return follow(fn, value, &steps);
}

/* ---- differences ---- */

/* Puts the bound of each index that counts upward in its place; those that count downward are at
 * least where they begin. */
static void
put_bounds(Linear *sum)
{
    uint32_t n = sum->n;

    for (uint32_t k = 0; k < n && sum->ok; k++) {
        const TirOp *range = sum->terms[k].value->def;
        int64_t coefficient = sum->terms[k].coefficient;
        if (range == NULL || range->op != TIR_IOTA || coefficient <= 0 || !is_bounded(range))
            continue;
        sum->terms[k].coefficient = 0;
        linear_add(sum, range->args[1], coefficient);
        sum->constant += coefficient * (BEHIND - 1);
    }
}

/* Puts where it begins in the place of each index that counts downward and of which no more is
 * known. */
static void
put_starts(const TirFn *fn, Linear *sum)
{
    uint32_t n = sum->n;

    for (uint32_t k = 0; k < n && sum->ok; k++) {
        const TirVal *index = sum->terms[k].value;
        int64_t coefficient = sum->terms[k].coefficient;
        if (coefficient >= 0 || index->def == NULL || index->def->op != TIR_IOTA ||
            range_of(fn, index).least > INT32_MIN)
            continue;
        sum->terms[k].coefficient = 0;
        linear_add(sum, index->def->args[0], coefficient);
    }
}

/* Whether the program computes x - y, whatever else it does. */
static bool
is_computed(const TirFn *fn, const TirVal *x, const TirVal *y)
{
    for (uint32_t k = 0; k < fn->body->ops.n; k++) {
        const TirOp *op = fn->body->ops.at[k];
        if (op->op == TIR_SUB && op->args[0] == x && op->args[1] == y)
            return true;
    }
    return false;
}

/* Takes x - y out of a sum where any number is left of each, but their difference is an i32; its
 * greatest value. */
static int64_t
take_difference(const TirFn *fn, Linear *sum)
{
    uint32_t at[2] = {sum->n, sum->n}, n = 0;

    for (uint32_t k = 0; k < sum->n; k++) {
        int64_t c = sum->terms[k].coefficient;
        Range term = range_of(fn, sum->terms[k].value);
        if (c == 0 || (term.least > INT32_MIN && term.most < INT32_MAX))
            continue;
        if (n++ < 2 && (c == 1 || c == -1))
            at[c < 0] = k;
    }
    if (n != 2 || at[0] == sum->n || at[1] == sum->n ||
        !is_computed(fn, sum->terms[at[0]].value, sum->terms[at[1]].value))
        return 0;
    sum->terms[at[0]].coefficient = sum->terms[at[1]].coefficient = 0;
    return INT32_MAX;
}

/* The greatest of a sum by its terms; false: it has no such form. */
static bool
greatest_of_terms(const TirFn *fn, Linear sum, int64_t *out)
{
    *out = take_difference(fn, &sum) + sum.constant;
    for (uint32_t k = 0; k < sum.n && sum.ok; k++) {
        Range term = range_of(fn, sum.terms[k].value);
        int64_t coefficient = sum.terms[k].coefficient, more;
        if (__builtin_mul_overflow(coefficient, coefficient > 0 ? term.most : term.least, &more) ||
            __builtin_add_overflow(*out, more, out))
            return false;
    }
    return sum.ok;
}

/* The greatest of a sum, the least that is known of it. */
static bool
greatest(const TirFn *fn, Linear sum, int64_t *out)
{
    int64_t other;

    put_bounds(&sum);
    bool known = greatest_of_terms(fn, sum, out);
    put_starts(fn, &sum);
    if (greatest_of_terms(fn, sum, &other) && (!known || other < *out)) {
        *out = other;
        known = true;
    }
    return known;
}

Range
range_of_difference(const TirFn *fn, const TirVal *a, const TirVal *b)
{
    Range x = range_of(fn, a), y = range_of(fn, b);
    Range range = {x.least - y.most, x.most - y.least};
    Linear up = {.ok = true}, down = {.ok = true};
    int64_t most, least;

    linear_add(&up, a, 1);
    linear_add(&up, b, -1);
    linear_add(&down, b, 1);
    linear_add(&down, a, -1);
    if (greatest(fn, up, &most) && most < range.most)
        range.most = most;
    if (greatest(fn, down, &least) && -least > range.least)
        range.least = -least;
    return range;
}
