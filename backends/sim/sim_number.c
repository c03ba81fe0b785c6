/* sim_number.c - rounding to any number format. */
#include "sim_number.h"

typedef struct Format {
    int exponent_bits, mantissa_bits, bias;
    bool has_infinity;
    uint64_t nan, largest; /* bits: canonical NaN (0: none), largest finite number */
} Format;

/* PTX ISA 5.2.3: alternate formats; e2m1, e2m3 and e3m2 have neither NaN nor infinity. */
static const Format formats[SIM_TYPE_COUNT] = {
    [SIM_F16] = {5, 10, 15, true, 0x7fff, 0x7bff},
    [SIM_BF16] = {8, 7, 127, true, 0x7fff, 0x7f7f},
    [SIM_TF32] = {8, 23, 127, true, 0x7fffffff, 0x7f7fe000}, /* mantissa cut below */
    [SIM_F32] = {8, 23, 127, true, 0x7fffffff, 0x7f7fffff},
    [SIM_E4M3] = {4, 3, 7, false, 0x7f, 0x7e},
    [SIM_E5M2] = {5, 2, 15, true, 0x7f, 0x7b},
    [SIM_E2M1] = {2, 1, 1, false, 0, 0x7},
    [SIM_E2M3] = {2, 3, 1, false, 0, 0x1f},
    [SIM_E3M2] = {3, 2, 3, false, 0, 0x1f},
};

/* An integer multiple of a quantum, rounded; `scaled` has no more than 53 significant bits. */
static double
round_integer(double scaled, SimRounding rounding)
{
    double down = floor(scaled), rest = scaled - down;
    switch (rounding) {
    case SIM_RZ: return trunc(scaled);
    case SIM_RM: return down;
    case SIM_RP: return ceil(scaled);
    case SIM_RNA:
        if (rest == 0.5)
            return scaled < 0 ? down : down + 1;
        return rest < 0.5 ? down : down + 1;
    default:
        if (rest == 0.5)
            return fmod(down, 2.0) == 0 ? down : down + 1;
        return rest < 0.5 ? down : down + 1;
    }
}

/* ue8m0: a power of two, 2^(bits - 127), 255 NaN; rounds rz or rp (PTX ISA 9.7.9.21). */
static uint64_t
round_ue8m0(double value, SimRounding rounding)
{
    int exponent;
    if (isnan(value))
        return 0xff;
    value = fabs(value);
    if (value < 0x1p-127)
        return rounding == SIM_RP && value > 0 ? 0 : 0;
    if (isinf(value))
        return 0xfe;
    double fraction = frexp(value, &exponent); /* value = fraction * 2^exponent, 0.5 <= fraction */
    int power = exponent - 1 + (rounding == SIM_RP && fraction > 0.5);
    return power > 127 ? 0xfe : (uint64_t)(power + 127);
}

uint64_t
sim_round(double value, SimType format, SimRounding rounding, bool saturate)
{
    if (format == SIM_F64)
        return isnan(value) ? UINT64_C(0x7fffffffffffffff) : sim_f64_bits(value);
    if (format == SIM_UE8M0)
        return round_ue8m0(value, rounding);
    const Format *f = &formats[format];
    int stored = f->exponent_bits + f->mantissa_bits;
    int mantissa = format == SIM_TF32 ? 10 : f->mantissa_bits;
    uint64_t sign = signbit(value) ? UINT64_C(1) << stored : 0;
    if (isnan(value))
        return f->nan ? f->nan : f->largest;
    double magnitude = fabs(value);
    if (!isinf(value) && value != 0) {
        int exponent, lowest = 1 - f->bias;
        frexp(magnitude, &exponent);
        exponent -= 1;
        int quantum = (exponent < lowest ? lowest : exponent) - mantissa;
        /* Rounding down or up looks at the sign, so the signed value is what is rounded. */
        magnitude = fabs(ldexp(round_integer(ldexp(value, -quantum), rounding), quantum));
    }
    uint64_t largest = f->largest;
    double limit = sim_value(largest, format == SIM_TF32 ? SIM_F32 : format);
    if (magnitude > limit) {
        /* Beyond the largest number: towards zero stops there, the rest is infinity or NaN. */
        bool towards_zero = rounding == SIM_RZ || (rounding == SIM_RM && !sign) ||
                            (rounding == SIM_RP && sign);
        if (saturate || (towards_zero && !isinf(value)))
            return largest | sign;
        if (f->has_infinity)
            return (((UINT64_C(1) << f->exponent_bits) - 1) << f->mantissa_bits) | sign;
        return f->nan ? f->nan | sign : largest | sign;
    }
    if (magnitude == 0)
        return sign;
    int exponent;
    frexp(magnitude, &exponent);
    exponent -= 1;
    if (exponent < 1 - f->bias) /* subnormal */
        return (uint64_t)ldexp(magnitude, f->bias - 1 + f->mantissa_bits) | sign;
    uint64_t fraction = (uint64_t)ldexp(magnitude, f->mantissa_bits - exponent) -
                        (UINT64_C(1) << f->mantissa_bits);
    return ((uint64_t)(exponent + f->bias) << f->mantissa_bits) | fraction | sign;
}

double
sim_value(uint64_t bits, SimType format)
{
    if (format == SIM_F64)
        return sim_f64(bits);
    if (format == SIM_F32 || format == SIM_TF32)
        return (double)sim_f32((uint32_t)bits);
    if (format == SIM_UE8M0)
        return (bits & 0xff) == 0xff ? (double)NAN : ldexp(1.0, (int)(bits & 0xff) - 127);
    const Format *f = &formats[format];
    uint64_t fraction = bits & ((UINT64_C(1) << f->mantissa_bits) - 1);
    int exponent = (int)(bits >> f->mantissa_bits & ((UINT64_C(1) << f->exponent_bits) - 1));
    bool negative = bits >> (f->exponent_bits + f->mantissa_bits) & 1;
    double value;
    if (f->has_infinity && exponent == (1 << f->exponent_bits) - 1)
        value = fraction ? (double)NAN : (double)INFINITY;
    else if (format == SIM_E4M3 && (bits & 0x7f) == 0x7f)
        value = (double)NAN;
    else if (exponent == 0)
        value = ldexp((double)fraction, 1 - f->bias - f->mantissa_bits);
    else
        value = ldexp((double)(fraction + (UINT64_C(1) << f->mantissa_bits)),
                      exponent - f->bias - f->mantissa_bits);
    return negative ? -value : value;
}

double
sim_add_odd(double a, double b)
{
    double sum = a + b;
    if (isnan(sum) || isinf(sum))
        return sum;
    /* Knuth's two-sum gives the exact error of the addition. */
    double t = sum - a, error = (a - (sum - t)) + (b - t);
    uint64_t bits = sim_f64_bits(sum);
    if (error != 0 && !(bits & 1)) {
        bool away = (error > 0) == (sum > 0);
        bits += away ? 1 : UINT64_MAX;
    }
    return sim_f64(bits);
}
