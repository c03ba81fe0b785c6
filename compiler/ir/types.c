/* types.c - names and sizes of element types. */
#include "compiler/ir/types.h"

#include <math.h>
#include <string.h>

typedef struct DTypeInfo {
    const char *name;
    uint32_t bits;
    bool is_float;
} DTypeInfo;

static const DTypeInfo dtype_table[DT_COUNT] = {
    [DT_BOOL] = {"bool", 8, false}, [DT_I32] = {"i32", 32, false}, [DT_F16] = {"f16", 16, true},
    [DT_BF16] = {"bf16", 16, true}, [DT_F32] = {"f32", 32, true},  [DT_TF32] = {"tf32", 32, true},
    [DT_E4M3] = {"e4m3", 8, true},
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

bool
dtype_is_float(DType dtype)
{
    return dtype_table[dtype].is_float;
}

float
dtype_nearest(DType dtype, double number)
{
    float wide = (float)number;
    int exponent, bits = dtype == DT_F16 ? 11 : 8, least = dtype == DT_F16 ? -24 : -133;

    if ((dtype != DT_F16 && dtype != DT_BF16) || wide == 0 || !isfinite(wide))
        return wide;
    frexpf(wide, &exponent);
    int unit = exponent - bits < least ? least : exponent - bits;
    double rounded = ldexp(nearbyint(ldexp(wide, -unit)), unit);
    return dtype == DT_F16 && fabs(rounded) > 65504 ? copysignf(INFINITY, wide) : (float)rounded;
}

bool
dtype_parse(const char *text, DType *out)
{
    for (int k = 0; k < DT_COUNT; k++) {
        if (strcmp(text, dtype_table[k].name) == 0) {
            *out = (DType)k;
            return true;
        }
    }
    return false;
}
