/* interpret_number.c - see interpret_number.h.
 *
 * Bounds.  U is half a unit in the last place of an f32, relative: what one rounding may change.
 * What is rounded once is off by what its operands make of it, and by nothing where all they could
 * be is rounded to the same.  Sums that a reduction is a part of, and all of loops in any order,
 * are charged for the size of their terms, not of the result, so that the bound holds for every
 * order.  Functions are charged what docs/language.md says of the hardware's fast forms.  An f32
 * below 2^-126 may be taken as zero at any time.
 */
#include "dsl/interpret_number.h"

#include <math.h>
#include <string.h>

static const double U = 0x1p-24, LARGEST = 0x1.ffffffp127, SMALLEST = 0x1p-126;
/* the i32 that is not known */
static const double ANY_INTEGER = 0x1p32;

bool
element_parse(const char *name, DType *type)
{
    return dtype_parse(name, type) && dtype_has(*type, USE_NAMED);
}

double
round_to(DType type, double x)
{
    return dtype_is_float(type) ? (double)dtype_nearest(type, x) : x;
}

/* A NaN in every compiled kernel, too. */
static bool
is_sure_nan(Num x)
{
    return isnan(x.value) && x.error == 0;
}

static Num
sure_nan(void)
{
    return (Num){.value = (double)NAN, .size = (double)INFINITY};
}

/* An f32: `error` is what the operands bring, `units` what the operation adds, in U of the size. */
static Num
finish(Rounding rounding, double value, double error, double size, double units)
{
    Num out = {.value = value};

    if (fabs(value) >= LARGEST) {
        out.value = copysign(INFINITY, value);
        if (rounding.bounds && !(fabs(value) - error >= LARGEST))
            out.error = INFINITY;
        out.size = INFINITY;
        return out;
    }
    if (!rounding.bounds)
        return out;
    if (isnan(value) && error == 0)
        return sure_nan();
    if (isnan(value) || isnan(error) || error == INFINITY || !(size + error < LARGEST)) {
        out.error = out.size = INFINITY;
        return out;
    }
    out.size = size < fabs(value) ? fabs(value) : size;
    out.error = error;
    if (units > 0)
        out.error += units * U * (out.size + error);
    if (value != 0 && fabs(value) < SMALLEST)
        out.error += fabs(value);
    return out;
}

static double
below(Num x)
{
    return x.error == INFINITY ? -INFINITY : x.value - x.error;
}

static double
above(Num x)
{
    return x.error == INFINITY ? INFINITY : x.value + x.error;
}

/* `value`, where the compiled one lies in lo..hi. */
static double
reach(double value, double lo, double hi)
{
    double down = lo == value ? 0 : value - lo, up = hi == value ? 0 : hi - value;

    if (isnan(down) || isnan(up))
        return INFINITY;
    return down > up ? down : up;
}

/* An f32 that is rounded once from `value`, which `error` is what the operands bring to. */
static Num
once(Rounding rounding, double value, double error, double size)
{
    Num out = {.value = (double)(float)value};

    if (!rounding.bounds)
        return out;
    if (isnan(value) && error == 0)
        return sure_nan();
    out.size = fmax(size, fabs(out.value));
    if (isnan(value) || isnan(error) || error == INFINITY)
        out.error = INFINITY;
    else if (error > 0)
        out.error = reach(out.value, (double)(float)(value - error), (double)(float)(value + error));
    if (out.value != 0 && fabs(out.value) < SMALLEST)
        out.error += fabs(out.value);
    return out;
}

/* What one rounding of values of this size may change. */
static double
half_place(DType type, double size)
{
    return size == 0 ? 0 : fmax(ldexp(size, -dtype_digits(type)), ldexp(1, dtype_least(type) - 1));
}

/* How far a value that is rounded to 16 or 8 bits, `out`, may be from what it is where all values
 * are another multiple of theirs: the rounding here and the one there, which is half a unit of the
 * smaller values in their power of two.  In a scan what is rounded there are sums of other
 * terms. */
static double
rounded_elsewhere(DType type, Num x, double out)
{
    if (x.value == 0 && !x.earlier)
        return 0;
    if (!isfinite(x.value) || !isfinite(out) || !isfinite(x.size))
        return 0;
    return fabs(out - x.value) + half_place(type, x.earlier ? x.size : fabs(x.value));
}

/* A value of a type that is narrower than f32; `before`: what the terms of a sum are off for being
 * rounded earlier. */
static Num
narrowed(Rounding rounding, DType type, Num x, double before)
{
    Num out = num_of(round_to(type, x.value));
    if (!rounding.bounds)
        return out;
    if (is_sure_nan(x))
        return sure_nan();
    out.error = x.error == INFINITY || isnan(x.value)
                    ? INFINITY
                    : reach(out.value, round_to(type, below(x)), round_to(type, above(x)));
    if (rounding.loose)
        out.error += dtype_is_scale(type) ? fabs(out.value)
                                          : rounded_elsewhere(type, x, out.value) + before;
    if (x.earlier) { /* what is infinite in one order may be none in another */
        double off = x.error + before + half_place(type, x.size);
        if (isfinite(
                /* there other sums are rounded to what this one is close to, or are not */
                out.error))
            out.error = fmax(out.error, off + fabs(out.value - x.value));
        if (isinf(round_to(type, x.size + off)) && !isinf(round_to(type, fabs(x.value) - off)))
            out.error = INFINITY;
        if (isinf(out.value) && isfinite(x.value))
            out.fused = INFINITY;
        out.size = fmax(out.size, x.size);
    }
    out.earlier = x.earlier;
    out.later = x.later;
    return out;
}

Num
num_rounded(Rounding rounding, DType type, Num x)
{
    return type == DT_F32 || !dtype_is_float(type) ? x : narrowed(rounding, type, x, 0);
}

/* ---- f32 ---- */

double
num_grain(Num x)
{
    int exponent;

    if (x.grain > 0)
        return x.grain;
    if (x.value == 0)
        return INFINITY;
    if (!isfinite(x.value))
        return 0;
    int64_t digits = (int64_t)ldexp(frexp(x.value, &exponent), 53);
    return ldexp((double)(digits & -digits), exponent - 53);
}

bool
num_is_exact(double grain, double size)
{
    int exponent;

    if (isinf(grain))
        return true;
    if (!(size < LARGEST))
        return false;
    frexp(size, &exponent);
    return grain >= fmax(ldexp(1, exponent - 24), ldexp(1, dtype_least(DT_F32)));
}

static bool
is_power_of_two(double x)
{
    int exponent;
    return fabs(frexp(x, &exponent)) == 0.5;
}

static double
product_error(Num a, Num b)
{
    double error = 0;

    if (a.error > 0)
        error += a.error * (fabs(b.value) + b.error);
    if (b.error > 0)
        error += fabs(a.value) * b.error;
    return error;
}

/* The size of a product, and of a quotient; 0 of anything is 0. */
static double
times(double a, double b)
{
    return a == 0 || b == 0 ? 0 : a * b;
}

static Num
divide(Rounding rounding, Num a, Num b)
{
    double value = a.value / b.value, nearest = fabs(b.value) - b.error;

    if (!rounding.bounds || b.value == 0 || isinf(b.value)) {
        bool sure = b.error == 0 && a.error < INFINITY &&
                    (a.error == 0 || b.value != 0 || fabs(a.value) > a.error);
        return finish(rounding, value, sure ? 0 : INFINITY, fabs(value), 0);
    }
    if (!(nearest > 0) || a.error == INFINITY)
        return finish(rounding, value, INFINITY, 0, 0);
    double error = (a.error + (b.error > 0 ? fabs(value) * b.error : 0)) / nearest;
    if (fabs(b.value) > 0x1p125 || fabs(b.value) < SMALLEST)
        error += fabs(value); /* div.full takes the quotient as zero, and a small divisor too */
    return finish(rounding, value, error, times(a.size, 1 / nearest), 4);
}

/* Of what the additions of exact sums are off by, that of a result: all where it is not exact, else
 * nothing yet. */
static double
due(bool exact, double deferred)
{
    return exact || !isfinite(deferred) ? 0 : deferred;
}

static Num
multiply(Rounding rounding, bool any_order, Num a, Num b)
{
    double value = a.value * b.value, grain = 0;
    double deferred = times(a.deferred, b.size) + times(a.size, b.deferred);
    bool exact = a.error == 0 && b.error == 0 && value == (double)(float)value, sized;

    if (!rounding.bounds)
        return once(rounding, value, 0, 0);
    sized = is_power_of_two(a.value) || is_power_of_two(b.value) ||
            (a.size == fabs(a.value) && b.size == fabs(b.value));
    if (exact && sized)
        grain = a.grain > 0 || b.grain > 0 ? num_grain(a) * num_grain(b) : 0;
    exact = exact && sized;
    Num out = any_order ? finish(rounding, value, product_error(a, b) + due(exact, deferred),
                                 times(a.size, b.size), !exact)
                        : once(rounding, value, product_error(a, b), times(a.size, b.size));
    out.grain = isfinite(grain) ? grain : 0;
    out.deferred = exact ? deferred : 0;
    if (!any_order && isfinite(value)) {
        bool scaled = is_power_of_two(a.value) || is_power_of_two(b.value);
        out.fused = isfinite(out.value) ? fabs(value - out.value) : fabs(value) - LARGEST;
        if (out.error > 0 && isfinite(out.error) &&
            !scaled) /* that of other operands is another one */
            out.fused = fmax(out.fused, U * (fabs(value) + out.error));
        if (a.value == 1 ||
            b.value == 1) /* nothing is multiplied: what was a product still is one */
            out.fused = fmax(out.fused, a.value == 1 ? b.fused : a.fused);
        out.product = out.fused > 0;
    }
    return out;
}

/* What it makes of a sum with `other` that the product is not rounded. */
static double
fused_error(Num product, Num other)
{
    if (isfinite(product.value))
        return product.fused;
    return product.fused > 0 && fabs(other.value) + other.error >= product.fused ? INFINITY : 0;
}

/* Where what came before in a scan meets what is new: how far the new terms are off by then, in
 * another order. */
static double
rounded_before(Rounding rounding, DType type, Num a, Num b)
{
    double size = (a.later && b.earlier ? a.size + a.error : 0) +
                  (b.later && a.earlier ? b.size + b.error : 0);

    return rounding.before == 0 ? 0 : rounding.before * half_place(type, size);
}

/* Of what a result in a scan's function is made: a sum with new terms is what came before from
 * there on. */
static void
keep_origin(Num *out, bool sum, Num a, Num b)
{
    bool met = sum && ((a.later && b.earlier) || (b.later && a.earlier));

    out->earlier = a.earlier || b.earlier;
    out->later = !met && (a.later || b.later);
}

/* What an exact sum would be off by if it were rounded: its terms may meet others first, whose sums
 * with them are. */
static double
elsewhere(Rounding rounding, double size, double before)
{
    return rounding.any_order ? U * size + before : 0;
}

/* `before`: what the operands of a sum are off for being rounded earlier. */
static Num
float_binary(Rounding rounding, Op op, Num a, Num b, double before)
{
    bool any_order = rounding.any_order || a.summed || b.summed, exact;
    double value, size, grain;
    Num out;

    if (rounding.bounds && (is_sure_nan(a) || is_sure_nan(b)))
        return sure_nan();
    if (op == OP_DIV)
        return divide(rounding, a, b);
    if (op == OP_MUL) {
        out = multiply(rounding, any_order, a, b);
        out.summed = a.summed || b.summed;
        return out;
    }
    value = op == OP_ADD ? a.value + b.value : a.value - b.value;
    if (!rounding.bounds)
        return once(rounding, value, 0, 0);
    size = a.size + b.size;
    grain = fmin(num_grain(a), num_grain(b));
    exact = a.error == 0 && b.error == 0 && num_is_exact(grain, size);
    double fused = a.product && b.product ? 0 : fused_error(a, b) + fused_error(b, a);
    /* an infinite sum may be finite in another order, and others that it is a part of */
    if (any_order) {
        bool passed = isinf(a.fused) || isinf(b.fused);
        double deferred = a.deferred + b.deferred;
        double error = a.error + b.error + fused + (exact ? 0 : before) + due(exact, deferred);
        out = finish(rounding, value, passed ? INFINITY : error, size, !exact);
        if (passed || (isfinite(value) && isinf(out.value)))
            out.fused = INFINITY;
        out.deferred = exact ? deferred + elsewhere(rounding, size, before) : 0;
    } else
        out = once(rounding, value, a.error + b.error + fused, size);
    out.grain = exact && isfinite(grain) ? grain : 0;
    out.summed = a.summed || b.summed;
    return out;
}

static Num
truth(bool value, bool sure)
{
    return (Num){.value = value, .error = sure ? 0 : 1, .size = 1};
}

static Num
compare(Op op, Num a, Num b)
{
    double x = a.value, y = b.value;
    bool exact = (a.error == 0 && b.error == 0) || is_sure_nan(a) || is_sure_nan(b);
    bool unordered = isnan(x) || isnan(y);
    bool less = above(a)<below(b), more = below(a)> above(b); /* for sure */
    bool at_most = above(a) <= below(b), at_least = below(a) >= above(b);

    if (unordered)
        return truth(op == OP_NE, exact);
    switch (op) {
    case OP_EQ: return truth(x == y, exact || less || more);
    case OP_NE: return truth(x != y, exact || less || more);
    case OP_LT: return truth(x < y, exact || less || at_least);
    case OP_LE: return truth(x <= y, exact || at_most || more);
    case OP_GT: return truth(x > y, exact || more || at_most);
    default: return truth(x >= y, exact || at_least || less);
    }
}

static bool
is_comparison(Op op)
{
    return op >= OP_EQ && op <= OP_GE;
}

/* ---- i32 and bool ---- */

static Num
any_integer(Num out)
{
    out.error = ANY_INTEGER;
    return out;
}

static Num
integer_binary(DType type, Op op, Num a, Num b, NumFault *fault)
{
    int64_t x = (int64_t)a.value, y = (int64_t)b.value, result = 0;
    double error = a.error + b.error;

    if ((op == OP_DIV || op == OP_REM) && y == 0) {
        *fault = NUM_ZERO;
        return any_integer(num_of(0));
    }
    if ((op == OP_SHL || op == OP_SHR) && (y < 0 || y > 31)) {
        *fault = NUM_SHIFT;
        return any_integer(num_of(0));
    }
    switch (op) {
    case OP_ADD: result = x + y; break;
    case OP_SUB: result = x - y; break;
    case OP_MUL:
        result = (int64_t)((uint64_t)x * (uint64_t)y); /* the lowest bits, of u32 */
        error = product_error(a, b);
        break;
    case OP_DIV: result = x / y; break;
    case OP_REM: result = x % y; break;
    case OP_BIT_OR: result = x | y; break;
    case OP_BIT_XOR: result = x ^ y; break;
    case OP_BIT_AND: result = x & y; break;
    case OP_SHL: result = x * ((int64_t)1 << y); break;
    default: result = x >> y; break;
    }
    Num out = num_of((double)dtype_wrap(type, result));
    if (dtype_kind(type) == KIND_SIGNED && out.value != (double)result) {
        *fault = NUM_OVERFLOW;
        return any_integer(out);
    }
    if (error > 0 &&
        ((op != OP_ADD && op != OP_SUB && op != OP_MUL) || dtype_kind(type) == KIND_UNSIGNED))
        return any_integer(out);
    out.error = error;
    return out;
}

/* Truth of two bools; the result is sure when one side decides. */
static Num
bool_binary(Op op, Num a, Num b)
{
    bool x = a.value != 0, y = b.value != 0, sure = a.error == 0 && b.error == 0;

    switch (op) {
    case OP_OR:
    case OP_BIT_OR: return truth(x || y, sure || (x && a.error == 0) || (y && b.error == 0));
    case OP_AND:
    case OP_BIT_AND: return truth(x && y, sure || (!x && a.error == 0) || (!y && b.error == 0));
    case OP_EQ: return truth(x == y, sure);
    default: return truth(x != y, sure);
    }
}

Num
num_binary(Rounding rounding, DType type, Op op, Num a, Num b, NumFault *fault)
{
    bool sum = op == OP_ADD || op == OP_SUB, narrow = type != DT_F32;
    double before;
    Num out;

    if (type == DT_BOOL)
        return bool_binary(op, a, b);
    if (is_comparison(op))
        return compare(op, a, b);
    if (!dtype_is_float(type))
        return integer_binary(type, op, a, b, fault);
    before = sum ? rounded_before(rounding, type, a, b) : 0;
    out = float_binary(rounding, op, a, b, narrow ? 0 : before);
    keep_origin(&out, sum, a, b);
    if (isnan(out.value) && !isnan(a.value) && !isnan(b.value))
        *fault = NUM_NAN;
    return narrow ? narrowed(rounding, type, out, before) : out;
}

Num
num_twice(Rounding rounding, DType type, Op op, Num x, NumFault *fault)
{
    Num out = num_binary(rounding, type, op, x, x, fault);

    if (x.error == 0 || !isfinite(x.error) || !isfinite(x.value))
        return out;
    if (is_comparison(op))
        return truth(out.value != 0, true);
    if (op == OP_SUB && !rounding.any_order &&
        !x.summed) /* half a multiply-add leaves its rounding */
        out.error = x.product ? 0 : x.fused;
    return out;
}

/* a * b + c as one of the sums that are made in any order. */
static Num
fma_in_any_order(Rounding rounding, DType type, Num a, Num b, Num c)
{
    Num product = {.error = product_error(a, b),
                   .size = times(a.size, b.size),
                   .summed = a.summed || b.summed};
    double size = product.size + c.size, error = product.error + c.error, before;
    double deferred = times(a.deferred, b.size) + times(a.size, b.deferred) + c.deferred;
    double grain = num_grain(a) * num_grain(b);

    keep_origin(&product, false, a, b);
    before = rounded_before(rounding, type, product, c);
    grain = isnan(grain) ? 0 : fmin(grain, num_grain(c));
    bool exact = error == 0 && num_is_exact(grain, size), narrow = type != DT_F32;
    Num out = finish(rounding, fma(a.value, b.value, c.value),
                     error + (exact || narrow ? 0 : before) + due(exact, deferred), size, !exact);
    out.grain = exact && isfinite(grain) ? grain : 0;
    out.deferred = exact ? deferred + elsewhere(rounding, size, before) : 0;
    out.summed = product.summed || c.summed;
    keep_origin(&out, true, product, c);
    return narrow ? narrowed(rounding, type, out, before) : out;
}

Num
num_fma(Rounding rounding, DType type, Num a, Num b, Num c, NumFault *fault)
{
    double value = fma(a.value, b.value, c.value);

    if (isnan(value) && !isnan(a.value) && !isnan(b.value) && !isnan(c.value))
        *fault = NUM_NAN;
    if (rounding.bounds && (is_sure_nan(a) || is_sure_nan(b) || is_sure_nan(c)))
        return sure_nan();
    if (rounding.bounds && (rounding.any_order || a.summed || b.summed || c.summed))
        return fma_in_any_order(rounding, type, a, b, c);
    return num_rounded(rounding, type,
                       once(rounding, value, product_error(a, b) + c.error, fabs(value)));
}

Num
num_mulhi(Num a, Num b)
{
    Num out = num_of((double)((uint64_t)a.value * (uint64_t)b.value >> 32));

    return a.error > 0 || b.error > 0 ? any_integer(out) : out;
}

Num
num_exactly(Rounding rounding, DType type, double value, bool known)
{
    Num out = num_of(value);

    if (!known)
        out.error = dtype_is_float(type) ? INFINITY : ANY_INTEGER;
    else if (dtype_is_float(type) && rounding.bounds)
        out = num_rounded(rounding, type, finish(rounding, value, 0, fabs(value), 0));
    return out;
}

Num
num_minmax(Rounding rounding, DType type, bool most, Num a, Num b)
{
    double value = most ? fmax(a.value, b.value) : fmin(a.value, b.value);
    Num out = num_of(value);

    (void)type;
    if (!rounding.bounds || (a.error == 0 && b.error == 0)) {
        out.product = value == a.value ? a.product : b.product;
        return out;
    }
    out.product = a.product && b.product;
    if (isnan(value) || (isnan(a.value) && a.error > 0) || (isnan(b.value) && b.error > 0)) {
        out.error = INFINITY;
        return out;
    }
    double lo = most ? fmax(below(a), below(b)) : fmin(below(a), below(b));
    double hi = most ? fmax(above(a), above(b)) : fmin(above(a), above(b));
    out.error = reach(value, lo, hi);
    return out;
}

Num
num_either(Num a, Num b)
{
    double lo = fmin(below(a), below(b)), hi = fmax(above(a), above(b));

    if (is_sure_nan(a) && is_sure_nan(b))
        return a;
    if (isnan(a.value) || isnan(b.value))
        a.error = INFINITY;
    else
        a.error = reach(a.value, lo, hi);
    a.size = fmax(a.size, b.size);
    a.fused = fmax(a.fused, b.fused);
    a.deferred = fmax(a.deferred, b.deferred);
    a.product = a.product && b.product;
    a.summed = a.summed || b.summed;
    keep_origin(&a, false, a, b);
    if (num_grain(b) < num_grain(a))
        a.grain = num_grain(b);
    return a;
}

/* ---- functions ---- */

double
math_value(Math math, double x)
{
    switch (math) {
    case MATH_EXP: return exp(x);
    case MATH_EXP2: return exp2(x);
    case MATH_LOG: return log(x);
    case MATH_LOG2: return log2(x);
    case MATH_SQRT: return sqrt(x);
    case MATH_RSQRT: return 1 / sqrt(x);
    case MATH_RCP: return 1 / x;
    case MATH_TANH: return tanh(x);
    case MATH_SIN: return sin(x);
    case MATH_COS: return cos(x);
    case MATH_FLOOR: return floor(x);
    case MATH_ROUND: return nearbyint(x);
    case MATH_ABS: return fabs(x);
    default: return -x;
    }
}

/* What the fast form may be off by itself. */
static double
math_error(Math math, double x, double value)
{
    switch (math) {
    case MATH_EXP: return value * (0x1p-20 + fabs(x) * 0x1p-22); /* exp2(x * log2(e)) */
    case MATH_EXP2: return value * (0x1p-20 + fabs(x) * 0x1p-24);
    case MATH_LOG:
    case MATH_LOG2: return 0x1p-20 * (fabs(value) + 1);
    case MATH_TANH: return 0x1p-10 * fabs(value);
    case MATH_SIN:
    case MATH_COS: return fabs(x) <= 7 ? 0x1p-19 : fabs(x) <= 300 ? 0x1p-13 : 2;
    default: return 0x1p-21 * fabs(value);
    }
}

static Num
math_bounded(Rounding rounding, Math math, Num a)
{
    double value = math_value(math, a.value), lo, hi, error;

    /* a negative below 2^-126 may be taken as zero */
    if (is_sure_nan(a) || (isnan(value) && a.error == 0 && fabs(a.value) >= SMALLEST))
        return sure_nan();
    if (isnan(value) || a.error == INFINITY)
        return finish(rounding, value, INFINITY, 0, 0);
    if (isinf(a.value) || (a.value == 0 && a.error == 0) ||
        (math == MATH_LOG2 && a.value == 1 && a.error == 0))
        return finish(rounding, value, a.error > 0 ? INFINITY : 0, fabs(value), 0);
    bool positive = math == MATH_LOG || math == MATH_LOG2 || math == MATH_SQRT ||
                    math == MATH_RSQRT;
    bool small = fabs(a.value) - a.error < SMALLEST; /* may be taken as zero */
    if ((positive && a.value - a.error < 0) ||
        (small && (math == MATH_RCP || (positive && math != MATH_SQRT))))
        return finish(rounding, value, INFINITY, 0, 0);
    if (math == MATH_SIN || math == MATH_COS) {
        error = a.error > 2 ? 2 : a.error;
    } else {
        lo = math_value(math, a.value - a.error);
        hi = math_value(math, a.value + a.error);
        error = reach(value, fmin(lo, hi), fmax(lo, hi));
    }
    error += math_error(math, a.value, value);
    if (math == MATH_RCP && fabs(a.value) > 0x1p125)
        error += fabs(value);
    return finish(rounding, value, error, fabs(value), 0);
}

static Num
float_math(Rounding rounding, Math math, Num a)
{
    Num out = a;

    bool whole = math == MATH_FLOOR || math == MATH_ROUND;

    out.value = math_value(math, a.value);
    if (whole)
        out.grain = 0;
    if (math == MATH_NEG || (math == MATH_ABS && (a.error == 0 || !rounding.bounds)))
        return out;
    if (math == MATH_ABS || whole) {
        if (rounding.bounds && a.error > 0)
            out.error = math == MATH_ABS ? a.error
                                         : reach(out.value, math_value(math, below(a)),
                                                 math_value(math, above(a)));
        out.size = rounding.bounds ? fabs(out.value) : 0;
        return out;
    }
    if (!rounding.bounds)
        return finish(rounding, out.value, 0, 0, 0);
    return math_bounded(rounding, math, a);
}

Num
num_math(Rounding rounding, DType type, Math math, Num a, NumFault *fault)
{
    if (math == MATH_NOT)
        return truth(a.value == 0, a.error == 0);
    if (!dtype_is_float(type)) {
        Num out = {.value = math_value(math, a.value), .error = a.error, .size = fabs(a.value)};
        if (dtype_kind(type) == KIND_UNSIGNED)
            out.value = math == MATH_NEG ? (double)dtype_wrap(type, (int64_t)out.value) : out.value;
        else if (out.value > INT32_MAX)
            *fault = NUM_OVERFLOW;
        return math == MATH_NEG && a.error > 0 && dtype_kind(type) == KIND_UNSIGNED
                   ? any_integer(out)
                   : out;
    }
    Num out = float_math(rounding, math, a);
    if (isnan(out.value) && !isnan(a.value))
        *fault = NUM_NAN;
    return num_rounded(rounding, type, out);
}

/* ---- conversions ---- */

static Num
to_integer(Num x, NumFault *fault)
{
    double whole = trunc(x.value);

    if (!(whole >= INT32_MIN && whole <= INT32_MAX)) { /* NaN too */
        *fault = NUM_CAST;
        return any_integer(num_of(0));
    }
    Num out = num_of(whole);
    if (x.error > 0)
        out.error = x.error == INFINITY ? ANY_INTEGER
                                        : reach(whole, trunc(below(x)), trunc(above(x)));
    return out;
}

/* To an integer of fewer bits, which saturates. */
static Num
to_narrow(DType type, Num x)
{
    double whole = dtype_whole(type, x.value);
    Num out = num_of(whole);

    if (x.error > 0)
        out.error = x.error == INFINITY
                        ? dtype_highest(type) - dtype_lowest(type)
                        : reach(whole, dtype_whole(type, below(x)), dtype_whole(type, above(x)));
    return out;
}

Num
num_cast(Rounding rounding, DType from, DType to, Num x, NumFault *fault)
{
    if (from == to)
        return x;
    if (to == DT_I32 && dtype_is_float(from))
        return to_integer(x, fault);
    if (!dtype_is_float(to) && (dtype_is_float(from) || dtype_bits(to) < 32))
        return to_narrow(to, x);
    if (!dtype_is_float(to)) { /* the bits */
        Num out = {.value = dtype_of_integer(to, x.value), .error = x.error};
        out.size = fabs(out.value);
        bool wraps = dtype_kind(to) == KIND_UNSIGNED ||
                     (dtype_kind(from) == KIND_UNSIGNED && dtype_bits(from) == 32);
        return x.error > 0 && wraps ? any_integer(out) : out;
    }
    if (!dtype_is_float(from) && rounding.bounds) /* a large i32 is rounded */
        x = finish(rounding, x.value, x.error, fabs(x.value), (double)(float)x.value != x.value);
    return num_rounded(rounding, to, x);
}
