/* dtype.c - the table of element types. */
#include "compiler/base/dtype.h"

#include <math.h>
#include <string.h>

#include "compiler/base/arena.h"

typedef struct DTypeInfo {
    const char *name;
    uint32_t bits, per_word;
    DKind kind;
    int digits, least; /* of floats: of the significand, and the exponent of the least number */
    double greatest;
    char npy;
    MapType map;
    const char *map_name, *c, *scalar;
    uint32_t uses;
} DTypeInfo;

static const DTypeInfo dtype_table[DT_COUNT] = {
#define DTYPE(name, text, bits, kind, digits, least, greatest, npy, map, c, scalar, uses)          \
    {text,        bits,   KIND_##kind == KIND_BOOL ? 1 : 32 / bits,                                \
     KIND_##kind, digits, least,                                                                   \
     greatest,    npy,    MAP_##map,                                                               \
     #map,        c,      scalar,                                                                  \
     uses},
#include "compiler/base/dtype.def"
#undef DTYPE
};

const char *
dtype_name(DType dtype)
{
    return (unsigned)dtype < DT_COUNT ? dtype_table[dtype].name : "?";
}

uint32_t
dtype_bits(DType dtype)
{
    return dtype_table[dtype].bits;
}

DKind
dtype_kind(DType dtype)
{
    return dtype_table[dtype].kind;
}

bool
dtype_is_float(DType dtype)
{
    return dtype_table[dtype].kind == KIND_FLOAT;
}

char
dtype_npy(DType dtype)
{
    return dtype_table[dtype].npy;
}

bool
dtype_takes(DType dtype, char kind, uint32_t bytes)
{
    /* numpy writes ml_dtypes' bfloat16 as raw bytes of its size, and either sign is the same
     * bits */
    bool bits = dtype_is_float(dtype) && dtype_npy(dtype) == 'u' &&
                (kind == 'V' || kind == 'u' || kind == 'i');

    return bytes == dtype_bits(dtype) / 8 && (bits || kind == dtype_npy(dtype));
}

MapType
dtype_map(DType dtype)
{
    return dtype_table[dtype].map;
}

const char *
dtype_map_name(DType dtype)
{
    return dtype_table[dtype].map_name;
}

const char *
dtype_c(DType dtype)
{
    return dtype_table[dtype].c;
}

const char *
dtype_scalar(DType dtype)
{
    return dtype_table[dtype].scalar;
}

bool
dtype_has(DType dtype, TypeUse use)
{
    return (unsigned)dtype < DT_COUNT && (dtype_table[dtype].uses & (uint32_t)use) != 0;
}

DType
dtype_stored(DType dtype)
{
    return dtype_has(dtype, USE_PACKED) ? DT_U8 : dtype;
}

uint32_t
dtype_per_word(DType dtype)
{
    return dtype_table[dtype].per_word;
}

DType
dtype_wide(DType dtype)
{
    return dtype_is_float(dtype) ? DT_F32 : dtype_per_word(dtype) == 1 ? dtype : DT_I32;
}

bool
dtype_multiplies(DType a, DType b)
{
    return dtype_has(a, USE_PRODUCT) && dtype_has(b, USE_PRODUCT) &&
           (a == b || (dtype_bits(a) == 8 && dtype_bits(b) == 8 && dtype_wide(a) == dtype_wide(b)));
}

bool
dtype_holds(DType dtype, DType other)
{
    const DTypeInfo *type = &dtype_table[dtype], *of = &dtype_table[other];

    return type->kind == KIND_FLOAT && of->kind == KIND_FLOAT && type->digits >= of->digits &&
           type->least <= of->least && type->greatest >= of->greatest;
}

bool
dtype_rounds(DType dtype, DType to)
{
    return dtype != to && dtype_bits(dtype) == dtype_bits(to) && dtype_holds(dtype, to);
}

double
dtype_lowest(DType dtype)
{
    return dtype_kind(dtype) == KIND_SIGNED ? -ldexp(1, (int)dtype_bits(dtype) - 1) : 0;
}

double
dtype_highest(DType dtype)
{
    return ldexp(1, (int)dtype_bits(dtype) - (dtype_kind(dtype) == KIND_SIGNED)) - 1;
}

double
dtype_whole(DType dtype, double number)
{
    if (isnan(number))
        return 0;
    return fmin(fmax(trunc(number), dtype_lowest(dtype)), dtype_highest(dtype));
}

int64_t
dtype_wrap(DType dtype, int64_t integer)
{
    uint64_t range = (uint64_t)1 << dtype_bits(dtype), low = (uint64_t)integer & (range - 1);

    return dtype_kind(dtype) == KIND_SIGNED && low >= range / 2 ? (int64_t)low - (int64_t)range
                                                                : (int64_t)low;
}

double
dtype_of_integer(DType dtype, double number)
{
    return dtype_bits(dtype) == 32 ? (double)dtype_wrap(dtype, (int64_t)number)
                                   : dtype_whole(dtype, number);
}

bool
dtype_is_scale(DType dtype)
{
    return dtype_table[dtype].digits == 1;
}

/* The power of two not below; a NaN, where there is none. */
static float
power_above(const DTypeInfo *type, float number)
{
    int exponent;

    if (number < 0 || !isfinite(number))
        return NAN;
    double part = frexp((double)number, &exponent); /* in [0.5, 1) */
    double power = number == 0 ? 0 : ldexp(1, part == 0.5 ? exponent - 1 : exponent);
    return (float)fmin(fmax(power, ldexp(1, type->least)), type->greatest);
}

float
dtype_nearest(DType dtype, double number)
{
    const DTypeInfo *type = &dtype_table[dtype];
    float wide = (float)number;
    int exponent;

    if (dtype_is_scale(dtype))
        return power_above(type, wide);
    if (dtype == DT_F32 || !dtype_is_float(dtype) || wide == 0 || isnan(wide))
        return wide;
    double rounded = wide;
    if (isfinite(wide)) {
        frexpf(wide, &exponent);
        int unit = exponent - type->digits < type->least ? type->least : exponent - type->digits;
        rounded = ldexp(nearbyint(ldexp(wide, -unit)), unit);
    }
    if (fabs(rounded) <= type->greatest)
        return (float)rounded;
    return copysignf(type->bits < 16 ? (float)type->greatest : INFINITY, wide);
}

int
dtype_digits(DType dtype)
{
    return dtype_table[dtype].digits;
}

int
dtype_least(DType dtype)
{
    return dtype_table[dtype].least;
}

bool
dtype_is_coded(DType dtype)
{
    return dtype_table[dtype].kind == KIND_FLOAT && dtype_table[dtype].bits == 8;
}

/* The bit of the sign, and the greatest code without one: a NaN, where the type has any. */
static uint32_t
code_sign(const DTypeInfo *type)
{
    return 1U << (type->bits - 1);
}

static uint32_t
code_last(const DTypeInfo *type)
{
    return code_sign(type) - 1;
}

/* Codes without a sign are in the order of their numbers: the one of a number with the significand
 * `n`, in units of 2^unit. */
static uint32_t
code_of(const DTypeInfo *type, int unit, uint32_t n)
{
    return ((uint32_t)(unit - type->least) << (type->digits - 1)) + n;
}

static uint32_t
code_of_number(const DTypeInfo *type, double number)
{
    int exponent;

    frexp(number, &exponent);
    int unit = exponent - type->digits < type->least ? type->least : exponent - type->digits;
    return number == 0 ? 0 : code_of(type, unit, (uint32_t)ldexp(number, -unit));
}

double
dtype_number(DType dtype, uint32_t code)
{
    const DTypeInfo *type = &dtype_table[dtype];
    if (dtype_is_scale(dtype)) /* the greatest code is a NaN */
        return code == 2 * code_last(type) + 1 ? (double)NAN : ldexp(1, type->least + (int)code);
    int below = type->digits - 1; /* bits of the fraction */
    uint32_t bits = code & code_last(type), exponent = bits >> below;
    uint32_t fraction = bits & ((1U << below) - 1), last = code_of_number(type, type->greatest);
    double number = exponent == 0
                        ? ldexp(fraction, type->least)
                        : ldexp((1U << below) + fraction, type->least + (int)exponent - 1);

    if (bits > last) /* infinity, where there is more than a NaN */
        number = bits == last + 1 && bits != code_last(type) ? (double)INFINITY : (double)NAN;
    return code & code_sign(type) ? -number : number;
}

uint32_t
dtype_code(DType dtype, double number)
{
    const DTypeInfo *type = &dtype_table[dtype];
    uint32_t sign = signbit(number) ? code_sign(type) : 0;

    if (dtype_is_scale(dtype)) {
        float power = dtype_nearest(dtype, number);
        return isnan(power) ? 2 * code_last(type) + 1 : (uint32_t)(ilogbf(power) - type->least);
    }
    if (isnan(number))
        return code_last(type);
    if (isinf(number) && isinf(dtype_number(dtype, code_of_number(type, type->greatest) + 1)))
        return sign + code_of_number(type, type->greatest) + 1; /* was read as such */
    return sign + code_of_number(type, fabs((double)dtype_nearest(dtype, number)));
}

bool
dtype_of_bits(DType dtype, DType *out)
{
    bool narrow = dtype_bits(dtype) == 8 && dtype_kind(dtype) != KIND_BOOL && dtype != DT_U8;

    *out = dtype_bits(dtype) == 8 ? DT_U8 : dtype_bits(dtype) == 16 ? DT_I32 : DT_U32;
    return dtype_has(dtype, USE_TENSOR) && (narrow || dtype_is_float(dtype));
}

bool
dtype_parse(const char *text, DType *out)
{
    const uint64_t first = 0
#define DTYPE(name, text, bits, kind, digits, least, greatest, npy, map, c, scalar, uses)          \
    | (uint64_t)1 << text[0] % 64
#include "compiler/base/dtype.def"
#undef DTYPE
        ; /* the letters that types begin with */
    const uint64_t second = 0
#define DTYPE(name, text, bits, kind, digits, least, greatest, npy, map, c, scalar, uses)          \
    | (uint64_t)1 << text[1] % 64
#include "compiler/base/dtype.def"
#undef DTYPE
        ; /* and those behind them */

    if ((first >> (unsigned char)text[0] % 64 & 1) == 0 ||
        (second >> (unsigned char)text[1] % 64 & 1) == 0)
        return false;
    for (int k = 0; k < DT_COUNT; k++) {
        if (same_text(text, dtype_table[k].name)) {
            *out = (DType)k;
            return true;
        }
    }
    return false;
}
