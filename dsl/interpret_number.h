/* interpret_number.h - arithmetic on single elements, with a bound of what rounding may change.
 *
 * Sums, differences and products are rounded as the type says, reductions and functions of f32 are
 * left in double precision; i32 is exact.  With Rounding.bounds every element also says how far a
 * kernel that is compiled, in f32, may be from it.
 */
#ifndef TILEC_DSL_INTERPRET_NUMBER_H
#define TILEC_DSL_INTERPRET_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/base/dtype.h"
#include "dsl/ast.h"

/* An element.  `error`: how far the compiled value may be from `value`; INFINITY: no bound is
 * known; of a bool, 1: it may be the other one; of a NaN, 0: it is one for sure.  `size`: of a sum,
 * the sum of its terms' sizes, since the terms may be added in another order; else the size of the
 * value.  `grain`: of a sum that is exact in every order, a power of two that all of its terms are
 * multiples of (the sum may be one of a larger power, but not what the terms make in another
 * order); 0: the value is no sum. `fused`: of a product, how far `value` is from it, since a sum
 * may be made of what is not rounded, and of an infinite one how far it is beyond the largest;
 * infinite: a sum in another order may be finite; `product`: the value is such a rounded product,
 * or was chosen among such: a sum of two is no multiply-add.  `summed`: a reduction is a part of
 * the sum, and the whole may be added in any order; `deferred`: what the additions of an exact sum
 * are off by where its terms are added to what is not exact.  In a function that combines elements:
 * `earlier`: what came before is a part of it, as a term or a factor, `later`: the element that is
 * new is. */
typedef struct Num {
    double value, error, size, grain, fused, deferred;
    bool product, summed, earlier, later;
} Num;

typedef struct Rounding {
    bool bounds;    /* errors and sizes are wanted; else they are 0 */
    bool loose;     /* 16-bit values may be rounded from other ones than here */
    bool any_order; /* sums may be made in another order */
    /* how often what is new to a sum may have been rounded, with terms before it */
    uint32_t before;
} Rounding;

/* What went wrong in an operation; the first that is found. */
typedef enum NumFault {
    NUM_FINE,
    NUM_NAN,      /* made from numbers */
    NUM_OVERFLOW, /* of i32 */
    NUM_ZERO,     /* i32 division by zero */
    NUM_SHIFT,    /* i32 shift by less than 0 or more than 31 */
    NUM_CAST      /* a float that no i32 is near */
} NumFault;

typedef enum Math {
    MATH_EXP,
    MATH_EXP2,
    MATH_LOG,
    MATH_LOG2,
    MATH_SQRT,
    MATH_RSQRT,
    MATH_RCP,
    MATH_TANH,
    MATH_SIN,
    MATH_COS,
    MATH_FLOOR,
    MATH_ROUND,
    MATH_ABS,
    MATH_NEG,
    MATH_NOT
} Math;

typedef enum Reduction {
    REDUCTION_SUM,
    REDUCTION_MAX,
    REDUCTION_MIN,
    REDUCTION_ANY,
    REDUCTION_ALL
} Reduction;

/* A type of the language by its name. */
bool element_parse(const char *name, DType *type);

/* Exactly this value. */
static inline Num
num_of(double value)
{
    return (Num){.value = value, .size = value < 0 ? -value : value};
}

/* The nearest value of a float type, ties to even; f32 too. */
double round_to(DType type, double value);
/* A value computed in f32, as the type holds it. */
Num num_rounded(Rounding rounding, DType type, Num x);
/* x as type `from` converted to `to`. */
Num num_cast(Rounding rounding, DType from, DType to, Num x, NumFault *fault);
/* + - * / % & | ^ << >> and comparisons, on two elements of one type; OP_OR and OP_AND as | and
 *   &. */
Num num_binary(Rounding rounding, DType type, Op op, Num a, Num b, NumFault *fault);
/* The same element on both sides: what it is compared with is itself, whatever it was rounded
 * to. */
Num num_twice(Rounding rounding, DType type, Op op, Num x, NumFault *fault);
/* a * b + c, rounded once. */
Num num_fma(Rounding rounding, DType type, Num a, Num b, Num c, NumFault *fault);
/* The upper half of a product of u32. */
Num num_mulhi(Num a, Num b);
/* A number of a type that is known, or is not. */
Num num_exactly(Rounding rounding, DType type, double value, bool known);
Num num_minmax(Rounding rounding, DType type, bool most, Num a, Num b);
Num num_math(Rounding rounding, DType type, Math math, Num a, NumFault *fault);
/* What stands for both of two values, one of which is right; the value is a's. */
Num num_either(Num a, Num b);
/* The math of constants. */
double math_value(Math math, double x);
/* The largest power of two that x, or all terms of the sum x, are multiples of; infinite for
 * zero. */
double num_grain(Num x);
/* Whether it is no less than the last place of an f32 of this size: sums of such are exact. */
bool num_is_exact(double grain, double size);

#endif
