/* sim_matrix.h - plain matrix products for the tensor-core families.
 *
 * Operands are widened to float (exact for every 16-, 8-, 6- and 4-bit format, and tf32) and laid
 * out for vectorisation; results are accumulated in float, in order of k, fused.  The ISA promises
 * at least that precision in an unspecified order (9.7.14.5.14, 9.7.15.5.2).
 */
#ifndef TILEC_SIM_MATRIX_H
#define TILEC_SIM_MATRIX_H

#include "sim_number.h"

/* d[m][n] += a[m][k] * b[k][n], rows of d and b have n elements, rows of a k elements. */
void sim_matrix_f32(float *d, const float *a, const float *b, uint32_t m, uint32_t n, uint32_t k);
void sim_matrix_f64(double *d, const double *a, const double *b, uint32_t m, uint32_t n, uint32_t k);
void sim_matrix_s32(int64_t *d, const int32_t *a, const int32_t *b, uint32_t m, uint32_t n,
                    uint32_t k);

/* The same as sm_90 adds up (sim_sums.c): n is a multiple of 8 up to 256, k one of 4 up to 64. */
typedef struct SimSums {
    SimType a, b; /* formats of the operands */
    uint8_t bits; /* 25, of 8-bit types 13 */
} SimSums;
void sim_matrix_sm90(float *d, const float *a, const float *b, uint32_t m, uint32_t n, uint32_t k,
                     const SimSums *sums);

/* `count` packed elements of a format (f16, bf16, tf32, e4m3, e5m2) to floats. */
void sim_matrix_widen(float *out, const void *bits, SimType format, uint32_t count);

#endif
