/* sim_sums.c - how the tensor cores of sm_90 add up a product, found on an H200 bit for bit.
 *
 * All K products of an instruction and C are one sum.  A product's exponent is the sum of its operands', a
 * subnormal having the least one of its format; each term is cut toward zero to `bits` bits below the largest
 * exponent, the sum is exact, and the result is cut toward zero.  Of 8-bit types that are 13 bits, and the
 * result, too, keeps 13 bits of fraction: C is cut in each instruction, whatever it adds.  Products that are
 * zero do not count here; nothing was measured of them beside a smaller C.
 */
#include "sim_matrix.h"

enum { COLUMNS = 8, MOST_ROWS = 64, MOST_K = 64, NONE = -100000 };

typedef struct Operand { /* x = mantissa * 2^exponent, with 1 <= |mantissa| < 2 but for subnormals */
    float mantissa;
    int32_t exponent;
} Operand;

static int32_t
least_exponent(SimType type)
{
    return type == SIM_E4M3 ? -6 : type == SIM_F16 || type == SIM_E5M2 ? -14 : -126;
}

static double
power_of_two(int32_t exponent) /* of a double's normal range */
{
    return sim_f64((uint64_t)(1023 + exponent) << 52);
}

static Operand
split(float x, int32_t least)
{
    uint32_t bits = sim_f32_bits(x);
    int32_t exponent = (int32_t)(bits >> 23 & 0xff) - 127;
    if ((bits & 0x7fffffffu) == 0)
        return (Operand){0, NONE};
    if (exponent >= least && exponent > -127)
        return (Operand){sim_f32((bits & 0x807fffffu) | 0x3f800000u), exponent};
    return (Operand){(float)((double)x * power_of_two(-least)), least};
}

static bool
is_finite(float x)
{
    return (sim_f32_bits(x) & 0x7f800000u) != 0x7f800000u;
}

typedef struct Block { /* eight columns of B */
    float mantissa[MOST_K][COLUMNS];
    int32_t exponent[MOST_K][COLUMNS];
    bool finite[COLUMNS], all_finite;
} Block;

static void
read_block(Block *block, const float *b, uint32_t n, uint32_t k, int32_t least)
{
    for (uint32_t c = 0; c < COLUMNS; c++)
        block->finite[c] = true;
    for (uint32_t p = 0; p < k; p++)
        for (uint32_t c = 0; c < COLUMNS; c++) {
            Operand x = split(b[p * n + c], least);
            block->mantissa[p][c] = x.mantissa;
            block->exponent[p][c] = x.exponent;
            block->finite[c] &= is_finite(b[p * n + c]);
        }
    block->all_finite = true;
    for (uint32_t c = 0; c < COLUMNS; c++)
        block->all_finite &= block->finite[c];
}

/* The exponents of C, NONE of zeros. */
SIM_HOT static void
exponents_of(const float *c, int32_t top[COLUMNS])
{
    uint32_t bits[COLUMNS];
    memcpy(bits, c, sizeof bits);
    for (uint32_t i = 0; i < COLUMNS; i++) {
        int32_t e = (int32_t)(bits[i] >> 23 & 0xff) - 127;
        e = e < -126 ? -126 : e;
        top[i] = bits[i] << 1 ? e : NONE;
    }
}

/* top: at first C's exponents, then the largest.  The cut products are below 2^(bits + 2), and 16 of 25 bits
 * with mantissas of 11 bits are below 2^31. */
SIM_HOT static void
add_products(const float *mantissa, const int32_t *exponent, const Block *b, uint32_t k,
             int32_t bits, int32_t top[COLUMNS], int32_t sum[COLUMNS])
{
    int32_t most[COLUMNS], total[COLUMNS] = {0};
    memcpy(most, top, sizeof most);
    for (uint32_t p = 0; p < k; p++)
        for (uint32_t c = 0; c < COLUMNS; c++) {
            int32_t e = exponent[p] + b->exponent[p][c];
            most[c] = e > most[c] ? e : most[c];
        }
    for (uint32_t p = 0; p < k; p++) {
        uint32_t scale[COLUMNS];
        float by[COLUMNS];
        for (uint32_t c = 0; c < COLUMNS;
             c++) { /* as a float: 2^(bits - how far below the largest) */
            int32_t e = exponent[p] + b->exponent[p][c] - most[c] + bits + 127;
            scale[c] = (uint32_t)(e < 0 ? 0 : e) << 23;
        }
        memcpy(by, scale, sizeof by);
        for (uint32_t c = 0; c < COLUMNS; c++)
            total[c] += (int32_t)(mantissa[p] * b->mantissa[p][c] * by[c]);
    }
    memcpy(top, most, sizeof most);
    memcpy(sum, total, sizeof total);
}

/* 2^exponent of each column. */
static inline void
powers(double out[COLUMNS], const int32_t exponent[COLUMNS])
{
    uint64_t bits[COLUMNS];
    for (uint32_t c = 0; c < COLUMNS; c++)
        bits[c] = (uint64_t)(1023 + (int64_t)exponent[c]) << 52;
    memcpy(out, bits, sizeof bits);
}

/* D: what is cut of C, and the products' sum in units of 2^(top - bits), as an f32 with so many bits of
 * fraction, toward zero; never -0.  All of it is exact in double. */
SIM_HOT static void
finish(float *d, const int32_t top[COLUMNS], const int32_t sum[COLUMNS], int32_t bits,
       uint32_t fraction)
{
    uint32_t out[COLUMNS], keep = ~((UINT32_C(1) << (23 - fraction)) - 1);
    int32_t up[COLUMNS], down[COLUMNS];
    double scale[COLUMNS], unit[COLUMNS], value[COLUMNS];
    float near[COLUMNS];
    for (uint32_t c = 0; c < COLUMNS; c++) {
        int32_t e = top[c] < NONE / 2 ? 0 : top[c]; /* then everything is zero */
        up[c] = bits - e;
        down[c] = e - bits;
    }
    powers(scale, up);
    powers(unit, down);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        double of_c = (double)d[c] * scale[c];
        of_c = fabs(of_c) < 0x1p30 ? of_c : 0; /* of what is not finite nothing is taken */
        value[c] = ((double)sum[c] + (double)(int32_t)of_c) * unit[c];
    }
    for (uint32_t c = 0; c < COLUMNS; c++)
        near[c] = (float)fabs(value[c]);
    memcpy(out, near, sizeof out);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        double size = fabs(value[c]);
        uint32_t word = (out[c] - ((double)near[c] > size)) & keep;
        word = size >= 0x1p128 ? 0x7f800000u : word;
        out[c] = word | (value[c] < 0 && word ? 0x80000000u : 0);
    }
    memcpy(d, out, sizeof out);
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

void
sim_matrix_sm90(float *d, const float *a, const float *b, uint32_t m, uint32_t n, uint32_t k,
                const SimSums *sums)
{
    float mantissa[MOST_ROWS * MOST_K];
    int32_t exponent[MOST_ROWS * MOST_K], least_a = least_exponent(sums->a);
    int32_t bits = sums->bits;
    uint32_t fraction = bits < 23 ? (uint32_t)bits : 23;
    bool finite[MOST_ROWS];
    Block block;
    for (uint32_t i = 0; i < m; i++) {
        finite[i] = true;
        for (uint32_t p = 0; p < k; p++) {
            Operand x = split(a[i * k + p], least_a);
            mantissa[i * k + p] = x.mantissa;
            exponent[i * k + p] = x.exponent;
            finite[i] &= is_finite(a[i * k + p]);
        }
    }
    for (uint32_t j = 0; j < n; j += COLUMNS) {
        read_block(&block, b + j, n, k, least_exponent(sums->b));
        for (uint32_t i = 0; i < m; i++) {
            float *to = d + i * n + j, c[COLUMNS];
            int32_t top[COLUMNS], sum[COLUMNS];
            memcpy(c, to, sizeof c);
            exponents_of(c, top);
            bool all = finite[i] && block.all_finite;
            for (uint32_t x = 0; x < COLUMNS; x++)
                all &= top[x] < 128;
            add_products(mantissa + i * k, exponent + i * k, &block, k, bits, top, sum);
            finish(to, top, sum, bits, fraction);
            for (uint32_t x = 0; !all && x < COLUMNS; x++)
                if (!finite[i] || !block.finite[x] || !is_finite(c[x]))
                    to[x] = special(c[x], a + i * k, b + j + x, n, k);
        }
    }
}
