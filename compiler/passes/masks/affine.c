/* affine.c - conditions of masks as affine functions (see affine.h). */
#include "compiler/passes/masks/affine.h"

#include "compiler/passes/util/range.h"
#include "compiler/passes/util/tir_util.h"

enum {
    ROOM = 1 << 19,
    MOST_WEIGHT = 256, /* of a sum that saturates: more bits would be lost than there is room */
    MOST_STEPS = 256
}; /* definitions followed: a bound on work; behind it, the function is not known */

/* to += scale * by; false: beyond 64 bits. */
static bool
add_scaled(int64_t *to, int64_t scale, int64_t by)
{
    int64_t more;

    return !__builtin_mul_overflow(scale, by, &more) && !__builtin_add_overflow(*to, more, to);
}

static void
add_term(Affine *a, TirVal *value, int64_t scale, int64_t coefficient)
{
    for (uint32_t k = 0; k < a->n; k++) {
        if (a->terms[k].value == value) {
            a->ok = add_scaled(&a->terms[k].coefficient, scale, coefficient) && a->ok;
            return;
        }
    }
    if (a->n == AFFINE_TERMS) {
        a->ok = false;
        return;
    }
    a->terms[a->n].value = value;
    a->terms[a->n].coefficient = 0;
    a->ok = add_scaled(&a->terms[a->n++].coefficient, scale, coefficient) && a->ok;
}

/* a + scale * b */
static Affine
combine(Affine a, const Affine *b, int64_t scale)
{
    a.ok = a.ok && b->ok;
    a.ok = add_scaled(&a.alpha, scale, b->alpha) && add_scaled(&a.constant, scale, b->constant) &&
           a.ok;
    for (uint32_t axis = 0; axis < 2; axis++) {
        bool same = a.inner[axis] == b->inner[axis] &&
                    (a.inner[axis] == 0 || a.extent[axis] == b->extent[axis]);
        if (a.beta[axis] != 0 && b->beta[axis] != 0 && !same)
            a.ok = false; /* two coordinates */
        if (b->beta[axis] != 0)
            a.inner[axis] = b->inner[axis];
        a.ok = add_scaled(&a.beta[axis], scale, b->beta[axis]) && a.ok;
        if (b->extent[axis] > a.extent[axis])
            a.extent[axis] = b->extent[axis];
    }
    for (uint32_t k = 0; k < b->n; k++)
        add_term(&a, b->terms[k].value, scale, b->terms[k].coefficient);
    return a;
}

static Affine
follow(TirVal *value, const TirBlock *body, uint32_t *steps)
{
    Affine result = {.ok = true};
    TirOp *op = value->def;

    if (++*steps > MOST_STEPS) {
        result.ok = false;
        return result;
    }
    if (value == body->params.at[0]) {
        result.alpha = 1;
        return result;
    }
    if (op != NULL && op->op == TIR_CONST) {
        result.constant = op->integer;
        return result;
    }
    if (value->type.rank == 0 && !tir_is_inside(value->block, body)) {
        /* Sums and products by constants are taken apart here too, so that equal terms cancel. */
        if (op == NULL || (op->op != TIR_ADD && op->op != TIR_SUB && op->op != TIR_MUL)) {
            add_term(&result, value, 1, 1);
            return result;
        }
    }
    if (op == NULL) {
        result.ok = false;
        return result;
    }
    Affine a, b;
    switch (op->op) {
    case TIR_ADD:
    case TIR_SUB:
        a = follow(op->args[0], body, steps);
        b = follow(op->args[1], body, steps);
        return combine(a, &b, op->op == TIR_ADD ? 1 : -1);
    case TIR_MUL:
        a = follow(op->args[0], body, steps);
        b = follow(op->args[1], body, steps);
        if (a.ok && a.alpha == 0 && a.n == 0 && a.beta[0] == 0 && a.beta[1] == 0)
            return combine(result, &b, a.constant);
        if (b.ok && b.alpha == 0 && b.n == 0 && b.beta[0] == 0 && b.beta[1] == 0)
            return combine(result, &a, b.constant);
        if (value->type.rank == 0 && !tir_is_inside(value->block, body)) {
            add_term(&result, value, 1, 1);
            return result;
        }
        result.ok = false;
        return result;
    case TIR_IOTA:
        result = follow(op->args[0], body, steps);
        result.beta[0] += 1;
        result.extent[0] = value->type.dim[0];
        if (op->index[0].rows > 0) {
            result.extent[0] = op->index[0].length;
            result.inner[0] = op->index[0].inner;
        }
        return result;
    case TIR_EXPAND:
        result = follow(op->args[0], body, steps);
        if (op->axis == 0) { /* what ran along axis 0 runs along axis 1 now */
            result.beta[1] = result.beta[0];
            result.extent[1] = result.extent[0];
            result.inner[1] = result.inner[0];
            result.beta[0] = 0;
            result.extent[0] = 1;
        }
        return result;
    case TIR_BROADCAST: return follow(op->args[0], body, steps);
    default: result.ok = false; return result;
    }
}

static Affine
affine_of(TirVal *value, const TirBlock *body)
{
    uint32_t steps = 0;

    return follow(value, body, &steps);
}

/* Whether those from `first` on are one comparison, or alternatives, that all move to one side. */
static bool
is_one_sided(const Affine *out, uint32_t first, uint32_t n)
{
    bool one = n > first;

    for (uint32_t k = first; k < n; k++)
        one = one && out[k].or_before == (k > first) && out[k].alpha != 0 &&
              (out[k].alpha > 0) == (out[first].alpha > 0);
    return one;
}

/* a or b: of each kind whichever keeps more. */
static bool
alternatives(const TirOp *either, const TirBlock *body, Affine *out, uint32_t *n)
{
    uint32_t first = *n, second;

    if (!affine_conditions(either->args[0], body, out, n))
        return false;
    second = *n;
    if (!affine_conditions(either->args[1], body, out, n) || !is_one_sided(out, first, second) ||
        !is_one_sided(out, second, *n))
        return false;
    out[second].or_before = true;
    return is_one_sided(out, first, *n);
}

bool
affine_conditions(TirVal *value, const TirBlock *body, Affine *out, uint32_t *n)
{
    TirOp *op = value->def;

    if (op == NULL || *n == AFFINE_CONDITIONS)
        return false;
    if (op->op == TIR_AND)
        return affine_conditions(op->args[0], body, out, n) &&
               affine_conditions(op->args[1], body, out, n);
    if (op->op == TIR_OR)
        return alternatives(op, body, out, n);
    if (op->op == TIR_BROADCAST || op->op == TIR_EXPAND) {
        uint32_t first = *n;
        if (!affine_conditions(op->args[0], body, out, n))
            return false;
        for (uint32_t k = first; op->op == TIR_EXPAND && op->axis == 0 && k < *n; k++) {
            out[k].beta[1] = out[k].beta[0];
            out[k].extent[1] = out[k].extent[0];
            out[k].inner[1] = out[k].inner[0];
            out[k].beta[0] = 0;
            out[k].extent[0] = 1;
        }
        return true;
    }
    if (op->n_args != 2 || op->args[0]->type.dtype != DT_I32)
        return false;
    Affine a = affine_of(op->args[0], body), b = affine_of(op->args[1], body), f;
    switch (op->op) {
    case TIR_LE: /* b - a >= 0 */ f = combine(b, &a, -1); break;
    case TIR_LT:
        f = combine(b, &a, -1);
        f.constant -= 1;
        break;
    case TIR_GE: f = combine(a, &b, -1); break;
    case TIR_GT:
        f = combine(a, &b, -1);
        f.constant -= 1;
        break;
    default: return false;
    }
    if (!f.ok)
        return false;
    bool less = op->op == TIR_LE || op->op == TIR_LT;
    f.side[0] = op->args[less];
    f.side[1] = op->args[!less];
    f.body = body;
    out[(*n)++] = f;
    return true;
}

void
affine_conjuncts(TirVal *value, const TirBlock *body, Affine *out, uint32_t *n)
{
    uint32_t before = *n;

    if (value->def != NULL && value->def->op == TIR_AND) {
        affine_conjuncts(value->def->args[0], body, out, n);
        affine_conjuncts(value->def->args[1], body, out, n);
    } else if (!affine_conditions(value, body, out, n)) {
        *n = before;
    }
}

int64_t
affine_extreme(const Affine *f, bool greatest)
{
    int64_t sum = 0;
    for (uint32_t axis = 0; axis < 2; axis++) {
        int64_t far = f->beta[axis] * (f->extent[axis] > 0 ? f->extent[axis] - 1 : 0);
        sum += greatest == (far > 0) ? far : 0;
    }
    return sum;
}

/* ---- the part that does not move with the loop ---- */

/* Whether a term, as a number that is loaded, may be so near to the ends of i32 that what is added
 * to it does not fit. */
static bool
is_any(const TirFn *fn, const Affine *f, uint32_t k)
{
    Range range = range_of(fn, f->terms[k].value);

    return f->terms[k].coefficient != 0 && !(range_fits(range, ROOM) && range_fits(range, -ROOM));
}

static uint32_t
any_terms(const TirFn *fn, const Affine *f)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < f->n; k++)
        n += is_any(fn, f, k);
    return n;
}

/* Whether the sides of the comparison are never farther apart than i32 is long, from iteration 0
 * on. */
static bool
is_near(const TirFn *fn, const Affine *f)
{
    const TirOp *from = f->body->owner->args[0]->def;
    Range apart = range_of_difference(fn, f->side[0], f->side[1]);

    return from != NULL && from->op == TIR_CONST && from->integer == 0 &&
           apart.least >= INT32_MIN - (int64_t)ROOM && apart.most <= INT32_MAX + (int64_t)ROOM;
}

/* How often a number as large as i32 is in the sum: c * x counts c times, and once where that is an
 * i32. */
static int64_t
weight_of(const TirFn *fn, const Affine *f, uint32_t k)
{
    int64_t c = f->terms[k].coefficient, size = c < 0 ? -c : c;
    Range range = range_of(fn, f->terms[k].value);

    return c == 0 || size > INT32_MAX                                          ? size
           : range.least * size >= INT32_MIN && range.most * size <= INT32_MAX ? 1
                                                                               : size;
}

/* By how many bits the numbers of the sum are shifted so that it is an i32. */
static int64_t
shift_of(const TirFn *fn, const Affine *f)
{
    int64_t weight = 1, bits = 0; /* of the constant */

    for (uint32_t k = 0; k < f->n && weight < MOST_WEIGHT; k++)
        weight += weight_of(fn, f, k);
    while (weight >> bits > 0)
        bits++;
    return weight < MOST_WEIGHT ? bits : 0;
}

static bool
saturates(const TirFn *fn, const Affine *f)
{
    return any_terms(fn, f) > 1 && !is_near(fn, f);
}

bool
affine_has_rest(const TirFn *fn, const Affine *f)
{
    return !saturates(fn, f) || shift_of(fn, f) > 0;
}

static TirVal *
times(TirBuilder *b, TirVal *value, int64_t factor)
{
    if (factor == -1)
        return tir_unary(b, TIR_NEG, value);
    return factor == 1 ? value : tir_binary(b, TIR_MUL, value, tir_const_int(b, factor));
}

/* A sum of several numbers that may each be any i32: its upper bits, of the numbers' upper bits,
 * say whether it is beyond i32, but for ROOM at each end. */
static TirVal *
saturated(TirBuilder *b, const Affine *f, int64_t constant, int64_t sign)
{
    int64_t shift = shift_of(b->fn, f), most = (INT32_MAX - ROOM) >> shift;
    TirVal *by = tir_const_int(b, shift), *sum = tir_const_int(b, constant),
           *upper = tir_const_int(b, constant >> shift);

    for (uint32_t k = 0; k < f->n; k++) {
        int64_t coefficient = sign * f->terms[k].coefficient;
        if (coefficient == 0)
            continue;
        TirVal *one = f->terms[k].value, *all = times(b, one, coefficient);
        bool whole = weight_of(b->fn, f, k) == 1;
        TirVal *part = tir_binary(b, TIR_SHR, whole ? all : one, by);
        upper = tir_binary(b, TIR_ADD, upper, whole ? part : times(b, part, coefficient));
        sum = tir_binary(b, TIR_ADD, sum, all);
    }
    TirVal *above = tir_binary(b, TIR_GT, upper, tir_const_int(b, most)),
           *below = tir_binary(b, TIR_LT, upper, tir_const_int(b, -most));
    sum = tir_select(b, above, tir_const_int(b, INT32_MAX - ROOM), sum);
    return tir_select(b, below, tir_const_int(b, ROOM - INT32_MAX), sum);
}

/* A term that leaves room for tiles and constants: no loop has as many iterations as that takes
 * away.  Where two terms are any numbers, each may be large and their sum small: these stay as they
 * are. */
static TirVal *
with_room(TirBuilder *b, const Affine *f, uint32_t k)
{
    if (any_terms(b->fn, f) != 1 || !is_any(b->fn, f, k))
        return f->terms[k].value;
    TirVal *most = tir_const_int(b, INT32_MAX - ROOM), *least = tir_const_int(b, ROOM - INT32_MAX);
    return tir_binary(b, TIR_MAX, tir_binary(b, TIR_MIN, f->terms[k].value, most), least);
}

TirVal *
affine_rest(TirBuilder *b, const Affine *f, int64_t more, int64_t sign)
{
    if (saturates(b->fn, f))
        return saturated(b, f, sign * (f->constant + more), sign);
    TirVal *sum = tir_const_int(b, sign * (f->constant + more));

    for (uint32_t k = 0; k < f->n; k++) {
        int64_t coefficient = sign * f->terms[k].coefficient;
        TirVal *term = with_room(b, f, k);
        if (coefficient == 0)
            continue;
        if (coefficient != 1 && coefficient != -1)
            term = tir_binary(b, TIR_MUL, term,
                              tir_const_int(b, coefficient < 0 ? -coefficient : coefficient));
        sum = tir_binary(b, coefficient < 0 ? TIR_SUB : TIR_ADD, sum, term);
    }
    return sum;
}
