/* sim_number.h - number formats: bits to values and back, with every rounding of the ISA.
 *
 * Values travel as float or double, which hold every value of the narrow formats exactly; rounding
 * happens once, when bits are made.  Inline helpers serve the hot loops, sim_round() the rest.
 */
#ifndef TILEC_SIM_NUMBER_H
#define TILEC_SIM_NUMBER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "sim_core.h"

/* PTX ISA 9.7.3 and 9.7.9.21: rn to nearest even, rz to zero, rm down, rp up, rna to nearest, ties
 * away from zero. */
typedef enum SimRounding { SIM_RN, SIM_RZ, SIM_RM, SIM_RP, SIM_RNA } SimRounding;

/* The bits of `value` rounded to a format (f16, bf16, tf32, f32, e4m3, e5m2, e2m1, e2m3, e3m2,
 * ue8m0, f64).  saturate: overflow and infinity give the largest finite number. */
uint64_t sim_round(double value, SimType format, SimRounding rounding, bool saturate);
double sim_value(uint64_t bits, SimType format); /* exact */

/* a + b rounded to odd: rounding the result once more to at most 51 bits is then correct. */
double sim_add_odd(double a, double b);

static inline float
sim_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t
sim_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double
sim_f64(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t
sim_f64_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* NaN results are the canonical one (PTX ISA 9.7.3: "NaN payloads are not preserved"). */
static inline uint32_t
sim_f32_result(float value)
{
    uint32_t bits = sim_f32_bits(value);
    return (bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? UINT32_C(0x7fffffff) : bits;
}

/* .ftz: subnormals become zero of the same sign (PTX ISA 9.7.3). */
static inline uint32_t
sim_flush(uint32_t bits)
{
    return (bits & UINT32_C(0x7f800000)) == 0 ? bits & UINT32_C(0x80000000) : bits;
}

static inline float
sim_bf16(uint32_t bits) /* the low 16 bits */
{
    return sim_f32(bits << 16);
}

static inline float
sim_f16(uint32_t bits) /* the low 16 bits; exact: scaling by 2^112 also makes subnormals right */
{
    uint32_t sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
    float scaled = sim_f32(rest) * 0x1p112f;
    uint32_t special = rest >= 0x0f800000u ? rest | 0x7f800000u : sim_f32_bits(scaled);
    return sim_f32(special | sign);
}

static inline uint32_t
sim_to_bf16(float value) /* rn */
{
    uint32_t bits = sim_f32_bits(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded;
}

static inline uint32_t
sim_to_f16(float value) /* rn */
{
    uint32_t bits = sim_f32_bits(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    /* Normal results: round the mantissa in place.  Subnormal ones: let an addition align it. */
    uint32_t normal = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1)) >> 13;
    uint32_t small = sim_f32_bits(sim_f32(rest) + 0.5f) - 0x3f000000u;
    uint32_t out = rest < 0x38800000u ? small : normal;
    out = rest >= 0x477ff000u ? 0x7c00u : out;
    out = rest > 0x7f800000u ? 0x7fffu : out;
    return rest > 0x7f800000u ? out : out | sign;
}

static inline float
sim_tf32(uint32_t bits) /* the tensor core ignores the low 13 bits */
{
    return sim_f32(bits & 0xffffe000u);
}

#endif
