/* interpret_sums.c - products as a chip's tensor cores sum them up, where that is known to the bit
 * (InterpretSums).
 *
 * All products of an instruction and what was summed before are one sum: each term is cut toward
 * zero some bits below the largest exponent, the sum of these is exact, and the result is cut
 * toward zero.  The exponent of a product is the sum of its operands', which for subnormals is the
 * least one of their type; products that are zero do not count.
 */
#include <math.h>

#include "dsl/interpret_internal.h"

typedef struct Terms {
    const Num *a, *b; /* the first operands */
    size_t step;      /* from one of b to the next */
    const uint8_t *skip;
    uint32_t n;
    int least_a, least_b; /* exponents of the least normal numbers */
} Terms;

static int
exponent_of(double x, int least)
{
    int exponent;

    frexp(x, &exponent);
    return exponent - 1 < least ? least : exponent - 1;
}

/* Of a sum that is no number or infinite: no rounding matters. */
static double
plain_sum(double before, const Terms *t)
{
    for (uint32_t k = 0; k < t->n; k++)
        before += t->skip[k] ? 0 : t->a[k].value * t->b[k * t->step].value;
    return before;
}

/* An instruction. */
static double
cut_sum(double before, const Terms *t, int bits)
{
    int most = before != 0 ? exponent_of(before, -126) : INT32_MIN;

    if (!isfinite(plain_sum(before, t)))
        return plain_sum(before, t);
    for (uint32_t k = 0; k < t->n; k++) {
        double a = t->a[k].value, b = t->b[k * t->step].value;
        int exponent = exponent_of(a, t->least_a) + exponent_of(b, t->least_b);
        if (!t->skip[k] && a * b != 0 && exponent > most)
            most = exponent;
    }
    if (most == INT32_MIN)
        return 0;
    double sum = trunc(ldexp(before, bits - most)); /* whole numbers, below 2^35 */
    for (uint32_t k = 0; k < t->n; k++)
        if (!t->skip[k])
            sum += trunc(ldexp(t->a[k].value * t->b[k * t->step].value, bits - most));
    sum = ldexp(sum, most - bits);
    if (sum == 0)
        return 0;
    int exponent = exponent_of(sum, -126), last = exponent - (bits < 23 ? bits : 23);
    sum = ldexp(trunc(ldexp(sum, -last)), last);
    return exponent > 127 ? copysign(INFINITY, sum) : sum + 0.0;
}

double
sums_element(const Run *run, const RunTile *a, const RunTile *b, uint32_t i, uint32_t j,
             const uint8_t *skip, double before)
{
    const InterpretSums *sums = run->options->sums;
    uint32_t inner = (uint32_t)a->shape.dim[1], columns = (uint32_t)b->shape.dim[1];
    bool narrow = dtype_bits(a->type) == 8;
    uint32_t step = sums->bytes * 8 / dtype_bits(a->type);
    bool apart = narrow && !run->fast;
    double sum = apart ? 0 : before;

    for (uint32_t k = 0; k < inner; k += step) {
        Terms t = {.a = a->at + (size_t)i * inner + k,
                   .b = b->at + (size_t)k * columns + j,
                   .step = columns,
                   .skip = skip + k,
                   .n = inner - k < step ? inner - k : step,
                   .least_a = dtype_least(a->type) + dtype_digits(a->type) - 1,
                   .least_b = dtype_least(b->type) + dtype_digits(b->type) - 1};
        if (apart && k > 0 && k % sums->part == 0) {
            before = round_to(DT_F32, before + sum);
            sum = 0;
        }
        sum = cut_sum(sum, &t, narrow ? sums->narrow_bits : sums->bits);
    }
    return apart ? round_to(DT_F32, before + sum) : sum;
}
