/* sim_matrix.c - matrix products as loops that compilers vectorise. */
#include "sim_matrix.h"

/* mma.sync has eight columns: four rows at a time keep their sums in registers. */
enum { NARROW = 8 };

static inline void
add_narrow(float *restrict sum, float a, const float *restrict b)
{
    for (uint32_t j = 0; j < NARROW; j++)
        sum[j] = __builtin_fmaf(a, b[j], sum[j]);
}

SIM_HOT static void
matrix_narrow(float *restrict d, const float *restrict a, const float *restrict b, uint32_t m,
              uint32_t k)
{
    for (uint32_t i = 0; i < m; i += 4, d += 4 * NARROW, a += 4 * k) {
        float s0[NARROW], s1[NARROW], s2[NARROW], s3[NARROW];
        memcpy(s0, d, sizeof s0);
        memcpy(s1, d + NARROW, sizeof s1);
        memcpy(s2, d + 2 * NARROW, sizeof s2);
        memcpy(s3, d + 3 * NARROW, sizeof s3);
        for (uint32_t p = 0; p < k; p++) {
            add_narrow(s0, a[p], b + p * NARROW);
            add_narrow(s1, a[k + p], b + p * NARROW);
            add_narrow(s2, a[2 * k + p], b + p * NARROW);
            add_narrow(s3, a[3 * k + p], b + p * NARROW);
        }
        memcpy(d, s0, sizeof s0);
        memcpy(d + NARROW, s1, sizeof s1);
        memcpy(d + 2 * NARROW, s2, sizeof s2);
        memcpy(d + 3 * NARROW, s3, sizeof s3);
    }
}

/* Of wider ones, four rows of 16 columns. */
enum { TILE = 16 };

static inline void
add_tile(float *restrict sum, float a, const float *restrict b)
{
    for (uint32_t j = 0; j < TILE; j++)
        sum[j] = __builtin_fmaf(a, b[j], sum[j]);
}

SIM_HOT static void
matrix_tile(float *restrict d, const float *restrict a, const float *restrict b, size_t n,
            uint32_t k)
{
    float s0[TILE], s1[TILE], s2[TILE], s3[TILE];
    memcpy(s0, d, sizeof s0);
    memcpy(s1, d + n, sizeof s1);
    memcpy(s2, d + 2 * n, sizeof s2);
    memcpy(s3, d + 3 * n, sizeof s3);
    for (uint32_t p = 0; p < k; p++, b += n) {
        add_tile(s0, a[p], b);
        add_tile(s1, a[k + p], b);
        add_tile(s2, a[2 * k + p], b);
        add_tile(s3, a[3 * k + p], b);
    }
    memcpy(d, s0, sizeof s0);
    memcpy(d + n, s1, sizeof s1);
    memcpy(d + 2 * n, s2, sizeof s2);
    memcpy(d + 3 * n, s3, sizeof s3);
}

/* Four of k at a time over `columns` of n columns, which need not stay in a register: both are
 * multiples of 8. */
SIM_HOT static void
matrix_wide(float *restrict d, const float *restrict a, const float *restrict b, uint32_t m,
            uint32_t columns, size_t n, uint32_t k)
{
    columns &= ~7u;
    for (uint32_t i = 0; i < m; i++, d += n) {
        const float *restrict row = b;
        uint32_t left = k;
        for (; left >= 4; left -= 4, a += 4, row += 4 * n)
            for (size_t j = 0; j < columns; j++) {
                float sum = __builtin_fmaf(a[0], row[j], d[j]);
                sum = __builtin_fmaf(a[1], row[n + j], sum);
                sum = __builtin_fmaf(a[2], row[2 * n + j], sum);
                d[j] = __builtin_fmaf(a[3], row[3 * n + j], sum);
            }
        for (; left; left--, a++, row += n)
            for (size_t j = 0; j < columns; j++)
                d[j] = __builtin_fmaf(*a, row[j], d[j]);
    }
}

void
sim_matrix_f32(float *restrict d, const float *restrict a, const float *restrict b, uint32_t m,
               uint32_t columns, uint32_t k)
{
    if (columns == NARROW && m % 4 == 0) {
        matrix_narrow(d, a, b, m, k);
        return;
    }
    uint32_t tiles = m % 4 ? 0 : columns / TILE * TILE;
    for (uint32_t j = 0; j < tiles; j += TILE)
        for (uint32_t i = 0; i < m; i += 4)
            matrix_tile(d + i * columns + j, a + i * k, b + j, columns, k);
    if (tiles < columns)
        matrix_wide(d + tiles, a, b + tiles, m, columns - tiles, columns, k);
}

SIM_HOT void
sim_matrix_f64(double *d, const double *a, const double *b, uint32_t m, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t p = 0; p < k; p++)
            for (uint32_t j = 0; j < n; j++)
                d[i * n + j] = __builtin_fma(a[i * k + p], b[p * n + j], d[i * n + j]);
}

SIM_HOT void
sim_matrix_s32(int64_t *d, const int32_t *a, const int32_t *b, uint32_t m, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t p = 0; p < k; p++)
            for (uint32_t j = 0; j < n; j++)
                d[i * n + j] += (int64_t)a[i * k + p] * b[p * n + j];
}

/* e5m2 is the upper byte of f16; e4m3 is f16 with a bias smaller by 8, and NaN in place of its
 * largest value. */
static float
widen_e4m3(uint32_t bits)
{
    float value = sim_f16((bits & 0x80) << 8 | (bits & 0x7f) << 7) * 256.0f;
    return (bits & 0x7f) == 0x7f ? NAN : value;
}

SIM_HOT void
sim_matrix_widen(float *out, const void *bits, SimType format, uint32_t count)
{
    const uint8_t *b8 = bits;
    const uint16_t *b16 = bits;
    const uint32_t *b32 = bits;
    switch (format) {
    case SIM_BF16:
        for (uint32_t i = 0; i < count; i++)
            out[i] = sim_bf16(b16[i]);
        break;
    case SIM_F16:
        for (uint32_t i = 0; i < count; i++)
            out[i] = sim_f16(b16[i]);
        break;
    case SIM_TF32:
        for (uint32_t i = 0; i < count; i++)
            out[i] = sim_tf32(b32[i]);
        break;
    case SIM_E5M2:
        for (uint32_t i = 0; i < count; i++)
            out[i] = sim_f16((uint32_t)b8[i] << 8);
        break;
    case SIM_E4M3:
        for (uint32_t i = 0; i < count; i++)
            out[i] = widen_e4m3(b8[i]);
        break;
    default: /* the narrow formats of sm_100 */
        for (uint32_t i = 0; i < count; i++)
            out[i] = (float)sim_value(b8[i], format);
        break;
    }
}
