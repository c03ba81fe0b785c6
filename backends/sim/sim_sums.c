/* sim_sums.c - how the tensor cores of sm_90 add up a product, found on an H200 bit for bit.
 *
 * All K products of an instruction and C are one sum.  A product's exponent is the sum of its
 * operands', a subnormal having the least one of its format; each term is cut toward zero to `bits`
 * bits below the largest exponent, the sum is exact, and the result is cut toward zero.  Of 8-bit
 * types that are 13 bits, and the result, too, keeps 13 bits of fraction: C is cut in each
 * instruction, whatever it adds.  Products that are zero do not count, nor do those that a sparse A
 * leaves out.
 *
 * Nearly every sum has a largest exponent far from both ends of f32's range, and fits a word.  Then
 * floats do: a product that is not exact in them is cut to nothing.  The other sums are done in
 * double.
 */
#include "sim_matrix.h"

enum { MOST_COLUMNS = 256, MOST_K = 64, STEP = 4, NONE = -16000 }; /* twice NONE fits 16 bits */
enum { LEAST_EASY = -98, MOST_EASY = 120 };                        /* exponents */

typedef struct Sum {            /* of `n` columns of a row */
    uint32_t n, k;              /* multiples of 8 and of STEP */
    int32_t bits;               /* of a term below the largest exponent */
    uint32_t keep;              /* mask of a result's bits */
    int16_t most[MOST_COLUMNS]; /* the largest exponents */
} Sum;

static int32_t
least_exponent(SimType type)
{
    return type == SIM_E4M3 ? -6 : type == SIM_F16 || type == SIM_E5M2 ? -14 : -126;
}

/* x = mantissa * 2^exponent, with 1 <= |mantissa| < 2 but for subnormals; NONE of zeros.  Whether
 * all are finite. */
SIM_HOT static bool
exponents_of(int16_t *restrict exponent, const float *restrict x, uint32_t count, int32_t least)
{
    int32_t greatest = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = sim_f32_bits(x[i]);
        int32_t e = (int32_t)(bits >> 23 & 0xff);
        greatest = e > greatest ? e : greatest;
        e = e - 127 < least ? least : e - 127;
        exponent[i] = (int16_t)(bits << 1 ? e : NONE);
    }
    return greatest < 0xff;
}

static inline int16_t
greater(int16_t a, int16_t b)
{
    return a > b ? a : b;
}

/* In loops over columns, which compilers vectorise, with some of k at a time. */
SIM_HOT static void
find_largest(Sum *restrict s, const float *restrict c, const int16_t *restrict a,
             const int16_t *restrict b)
{
    size_t n = s->n & ~7u;
    int16_t *restrict most = s->most;
    exponents_of(most, c, (uint32_t)n, -126);
    for (uint32_t p = 0; p < s->k; p += STEP, a += STEP, b += STEP * n)
        for (size_t j = 0; j < n; j++) {
            int16_t low = greater((int16_t)(a[0] + b[j]), (int16_t)(a[1] + b[n + j]));
            int16_t high = greater((int16_t)(a[2] + b[2 * n + j]), (int16_t)(a[3] + b[3 * n + j]));
            most[j] = greater(most[j], greater(low, high));
        }
    for (size_t j = 0; j < n; j++) /* else everything is zero */
        most[j] = most[j] < NONE / 2 ? 0 : most[j];
}

/* all * unit cut toward zero to a float; |all| is below 2^31 */
static inline uint32_t
cut(int32_t all, float unit, uint32_t keep)
{
    uint32_t sign = (uint32_t)all & 0x80000000u;
    uint32_t size = sign ? 0u - (uint32_t)all : (uint32_t)all;
    size &= size >> 30 ? ~UINT32_C(127)
                       : ~UINT32_C(0); /* 24 bits are left: the float is below 2^31 */
    float value = (float)(int32_t)size;
    uint32_t above = (size - (uint32_t)(int32_t)value) >> 31;
    value = sim_f32((sim_f32_bits(value) - above) & keep) * unit;
    return sim_f32_bits(value) | sign;
}

/* A row of A times B, all finite, added to d.  False: some sum is not easy; d is as it was.  A cut
 * product is below 2^(bits + 2); of 25 bits there are at most 16 that are not zero, so their sum
 * fits a word. */
SIM_HOT static bool
add_easy(const Sum *restrict s, float *restrict d, const float *restrict a, const float *restrict b)
{
    size_t n = s->n & ~7u;
    int32_t sum[MOST_COLUMNS], hard = 0;
    float scale[MOST_COLUMNS];
    uint32_t out[MOST_COLUMNS];
    for (size_t j = 0; j < n; j++) {
        hard |= (s->most[j] - LEAST_EASY) | (MOST_EASY - s->most[j]);
        scale[j] = sim_f32((uint32_t)(s->bits - s->most[j] + 127) << 23);
    }
    if (hard < 0)
        return false;
    for (size_t j = 0; j < n; j++)
        sum[j] = 0;
    for (uint32_t p = 0; p < s->k; p += STEP, a += STEP, b += STEP * n)
        for (size_t j = 0; j < n; j++) {
            int32_t low = (int32_t)(a[0] * b[j] * scale[j]) + (int32_t)(a[1] * b[n + j] * scale[j]);
            int32_t high = (int32_t)(a[2] * b[2 * n + j] * scale[j]) +
                           (int32_t)(a[3] * b[3 * n + j] * scale[j]);
            sum[j] += low + high;
        }
    for (size_t j = 0; j < n; j++) {
        int32_t of_c = (int32_t)(d[j] * scale[j]);
        int32_t all = (int32_t)((uint32_t)sum[j] + (uint32_t)of_c);
        hard |= ((all ^ sum[j]) & (all ^ of_c)) | (all == INT32_MIN ? -1 : 0);
        out[j] = cut(all, sim_f32((uint32_t)(s->most[j] - s->bits + 127) << 23), s->keep);
    }
    if (hard < 0)
        return false;
    memcpy(d, out, n * sizeof *d);
    return true;
}

static double
power_of_two(int32_t exponent) /* of a double's normal range */
{
    return sim_f64((uint64_t)(1023 + exponent) << 52);
}

/* One sum, whatever its size; all finite.  All of it is exact in double. */
static float
add_hard(float c, const float *a, const float *b, uint32_t n, uint32_t k, int32_t most, const Sum *s)
{
    double scale = power_of_two(s->bits - most), sum = trunc((double)c * scale);
    for (uint32_t p = 0; p < k; p++)
        sum += trunc((double)a[p] * (double)b[p * n] * scale);
    sum *= power_of_two(most - s->bits);
    double size = fabs(sum);
    float near = (float)size;
    uint32_t word = (sim_f32_bits(near) - ((double)near > size)) & s->keep;
    word = size >= 0x1p128 ? 0x7f800000u : word;
    return sim_f32(word | (sum < 0 && word ? 0x80000000u : 0));
}

/* Infinities and NaNs: no rounding matters. */
static float
special(float c, const float *a, const float *b, uint32_t n, uint32_t k)
{
    double sum = (double)c;
    for (uint32_t p = 0; p < k; p++)
        sum += (double)a[p] * (double)b[p * n];
    return isnan(sum) ? sim_f32(0x7fffffffu) : (float)sum;
}

static void
add_each(const Sum *s, float *d, const float *a, const float *b)
{
    for (uint32_t j = 0; j < s->n; j++) {
        bool finite = isfinite(d[j]);
        for (uint32_t p = 0; p < s->k; p++)
            finite = finite && isfinite(a[p]) && isfinite(b[p * s->n + j]);
        d[j] = finite ? add_hard(d[j], a, b + j, s->n, s->k, s->most[j], s)
                      : special(d[j], a, b + j, s->n, s->k);
    }
}

void
sim_matrix_sm90(float *d, const float *a, const float *b, uint32_t m, uint32_t n, uint32_t k,
                const SimSums *sums)
{
    uint32_t fraction = sums->bits < 23 ? sums->bits : 23;
    Sum s;
    s.n = n, s.k = k, s.bits = sums->bits, s.keep = ~((UINT32_C(1) << (23 - fraction)) - 1);
    int16_t a_exponent[MOST_K], b_exponent[MOST_K * MOST_COLUMNS];
    bool finite_b = exponents_of(b_exponent, b, k * n, least_exponent(sums->b));
    for (uint32_t i = 0; i < m; i++) {
        bool finite = exponents_of(a_exponent, a + i * k, k, least_exponent(sums->a)) && finite_b;
        find_largest(&s, d + i * n, a_exponent, b_exponent);
        if (!finite || !add_easy(&s, d + i * n, a + i * k, b))
            add_each(&s, d + i * n, a + i * k, b);
    }
}
