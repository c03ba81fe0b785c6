/* lower_float8.c - floats of 8 bits: casts, and words of them as they are.
 *
 * They have no arithmetic.  Casts go through f32, by instructions in pairs where the target has
 * them, else by arithmetic that takes digits and range from the table of types.  All else moves
 * codes, the 8 bits of an element, which keeps infinities and NaNs as they are; a cast to such a
 * type never makes an infinity.
 */
#include <math.h>

#include "compiler/lower/lower.h"

/* Selectors of prmt: byte 0 of two words; the lower halves of two words; byte 0 of the first word
 * below bytes of the second; bytes 0 and 1 of the first word, each above one of the second, and
 * from pair to pair. */
enum {
    TWO_BYTES = 0x0040,
    TWO_HALVES = 0x5410,
    ONE_BYTE = 0x4440,
    UPPER_BYTES = 0x1404,
    NEXT_PAIR = 0x2020
};

/* Of e8m0: the bits of 2^-127 as an f32, the code of a NaN. */
enum { LEAST_POWER = 0x00400000, NO_POWER = 255 };

static const int32_t EXPONENT = 0x7f800000, FRACTION_BITS = 23, BIAS = 127;

static LirReg
as_bits(Lowering *lo, LirReg number)
{
    return lir_op1(&lo->b, LIR_MOV_B32, LIR_B32, lir_reg(number));
}

static LirReg
as_float(Lowering *lo, LirReg bits)
{
    return lir_op1(&lo->b, LIR_MOV_F32, LIR_F32, lir_reg(bits));
}

/* The exponent of the least number with all its digits. */
static int
least_normal(DType dtype)
{
    return dtype_least(dtype) + dtype_digits(dtype) - 1;
}

/* ---- to f32 ---- */

Elem
lower_float8_half(Lowering *lo, LirOpcode convert, LirReg word, int32_t at)
{
    LirReg two = lir_op1(&lo->b, convert, LIR_B32, lir_reg(lower_half(lo, word, at >= 2)));

    return elem_reg(
        lir_op1(&lo->b, LIR_CVT_F32_F16, LIR_F32, lir_reg(lower_half(lo, two, at % 2 != 0))));
}

Elem
lower_float8_upper(Lowering *lo, LirReg word, int32_t at)
{
    LirReg two = lir_op3(&lo->b, LIR_PRMT, LIR_B32, lir_reg(word), lir_int(0),
                         lir_int(UPPER_BYTES + at / 2 * NEXT_PAIR));

    return elem_reg(
        lir_op1(&lo->b, LIR_CVT_F32_F16, LIR_F32, lir_reg(lower_half(lo, two, at % 2 != 0))));
}

Elem
lower_float8_exponent(Lowering *lo, DType dtype, LirReg word, int32_t at)
{
    LirBuilder *b = &lo->b;
    int32_t below = FRACTION_BITS - dtype_digits(dtype) + 1, above = 8 * (3 - at);
    float greatest = dtype_nearest(dtype, INFINITY);
    LirReg bits = above == 0 ? word
                             : lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(word), lir_int(above));

    /* the sign fills what an exponent of f32 has more */
    bits = lir_op2(b, LIR_SHR_S32, LIR_B32, lir_reg(bits), lir_int(24 - below));
    bits = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(bits),
                   lir_int((int32_t)(0x80000000U | 0x7fU << below)));
    LirReg number = lir_op2(b, LIR_MUL_F32, LIR_F32, lir_reg(as_float(lo, bits)),
                            lir_float(ldexpf(1, least_normal(dtype) + BIAS - 1)));
    LirReg size = lir_op1(b, LIR_ABS_F32, LIR_F32, lir_reg(number));
    LirReg none = lir_op2(b, LIR_SETP_GT_F32, LIR_PRED, lir_reg(size), lir_float(greatest));
    return elem_reg(
        lir_op3(b, LIR_SEL_F32, LIR_F32, lir_float(NAN), lir_reg(number), lir_reg(none)));
}

/* The code is the exponent; of 0 it is below those with all digits, and of 255 a NaN. */
Elem
lower_float8_power(Lowering *lo, LirOpcode max, LirReg word, int32_t at)
{
    LirBuilder *b = &lo->b;
    LirReg code = lir_op3(b, LIR_PRMT, LIR_B32, lir_reg(word), lir_int(0), lir_int(ONE_BYTE + at));
    LirReg bits = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(code), lir_int(FRACTION_BITS));

    bits = lir_op2(b, max, LIR_B32, lir_reg(bits), lir_int(LEAST_POWER));
    LirReg none = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(code), lir_int(NO_POWER));
    return elem_reg(lir_op3(b, LIR_SEL_F32, LIR_F32, lir_float(NAN), lir_reg(as_float(lo, bits)),
                            lir_reg(none)));
}

/* ---- from f32 ---- */

/* The exponent of the power of two not below: one more where the fraction is not zero. */
static Elem
power_code(Lowering *lo, LirReg number)
{
    LirBuilder *b = &lo->b;
    LirReg bits = as_bits(lo, number);

    LirReg more = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(bits), lir_int((1 << FRACTION_BITS) - 1));
    LirReg code = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(more), lir_int(FRACTION_BITS));
    code = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(code), lir_int(NO_POWER - 1));
    LirReg none = lir_op2(b, LIR_SETP_GE_U32, LIR_PRED, lir_reg(bits), lir_int(EXPONENT));
    code = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_int(NO_POWER), lir_reg(code), lir_reg(none));
    /* what has no sign, for a zero that has one is a zero, too */
    LirReg size = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(bits), lir_reg(bits));
    LirReg zero = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(size), lir_int(0));
    code = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_int(0), lir_reg(code), lir_reg(zero));
    LirReg least = lir_op2(b, LIR_SETP_LE_U32, LIR_PRED, lir_reg(bits), lir_int(LEAST_POWER));
    return elem_reg(lir_op3(b, LIR_SEL_B32, LIR_B32, lir_int(0), lir_reg(code), lir_reg(least)));
}

/* Adding a number whose last digit is the last one that is kept rounds to it, also where digits are
 * lost below the least normal number; what is left has the code's digits at the top of its fraction
 * once its exponent is shifted. */
static Elem
rounded_code(Lowering *lo, DType dtype, LirReg number)
{
    LirBuilder *b = &lo->b;
    int32_t lost = FRACTION_BITS + 1 - dtype_digits(dtype), least = least_normal(dtype);
    LirReg size = lir_op1(b, LIR_ABS_F32, LIR_F32, lir_reg(number));

    size = lir_op2(b, LIR_MIN_NAN_F32, LIR_F32, lir_reg(size),
                   lir_float(dtype_nearest(dtype, INFINITY)));
    LirReg unit = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(as_bits(lo, size)), lir_int(EXPONENT));
    unit = lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(unit), lir_int((least + BIAS) << FRACTION_BITS));
    unit = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(unit), lir_int(lost << FRACTION_BITS));
    LirOperand adds = lir_reg(as_float(lo, unit));
    LirReg sum = lir_op2(b, LIR_ADD_RN_F32, LIR_F32, lir_reg(size), adds);
    sum = lir_op2(b, LIR_SUB_RN_F32, LIR_F32, lir_reg(sum), adds);
    sum = lir_op2(b, LIR_MUL_F32, LIR_F32, lir_reg(sum), lir_float(ldexpf(1, 1 - BIAS - least)));
    LirReg code = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(as_bits(lo, sum)), lir_int(lost));
    code = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(code), lir_int(0x7f)); /* of a NaN */
    LirReg sign = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(as_bits(lo, number)), lir_int(24));
    sign = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(sign), lir_int(0x80));
    return elem_reg(lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(code), lir_reg(sign)));
}

LirReg
lower_round_to_8(Lowering *lo, DType dtype, const Elem *elems)
{
    Elem codes[4];

    for (uint32_t k = 0; k < 4; k++)
        codes[k] = elems[k].kind == ELEM_FLOAT ? elem_int(dtype_code(dtype, elems[k].number))
                   : dtype_is_scale(dtype)
                       ? power_code(lo, lower_elem_reg(lo, elems[k], LIR_F32))
                       : rounded_code(lo, dtype, lower_elem_reg(lo, elems[k], LIR_F32));
    return lower_join_codes(lo, codes);
}

LirReg
lower_pairs_to_8(Lowering *lo, LirOpcode convert, const Elem *elems)
{
    LirReg two[2];

    for (uint32_t k = 0; k < 4; k += 2) {
        LirReg upper = lower_elem_reg(lo, elems[k + 1], LIR_F32);
        LirReg lower = lower_elem_reg(lo, elems[k], LIR_F32);
        two[k / 2] = lir_op2(&lo->b, convert, LIR_B16, lir_reg(upper), lir_reg(lower));
    }
    return lir_op2(&lo->b, LIR_PACK_B32, LIR_B32, lir_reg(two[0]), lir_reg(two[1]));
}

/* ---- codes ---- */

Elem
lower_code(Lowering *lo, TirVal *value, int32_t reg)
{
    if (value->def != NULL && value->def->op == TIR_CONST)
        return elem_int(dtype_code(value->type.dtype, value->def->number));
    return elem_reg(lir_op3(&lo->b, LIR_PRMT, LIR_B32, lir_reg(lower_word(lo, value, reg)),
                            lir_int(0), lir_int(ONE_BYTE + reg % 4)));
}

LirReg
lower_join_codes(Lowering *lo, const Elem *codes)
{
    LirBuilder *b = &lo->b;
    int64_t word = 0;
    LirReg two[2];

    for (uint32_t k = 0; k < 4 && codes[k].kind == ELEM_INT; k++)
        word |= k == 3 ? INT64_C(1) << 32 | codes[k].integer << 24 : codes[k].integer << 8 * k;
    if (word >> 32 != 0)
        return lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int((int32_t)(uint32_t)word));
    for (uint32_t k = 0; k < 4; k += 2)
        two[k / 2] = lir_op3(b, LIR_PRMT, LIR_B32, lir_reg(lower_elem_reg(lo, codes[k], LIR_B32)),
                             lir_reg(lower_elem_reg(lo, codes[k + 1], LIR_B32)),
                             lir_int(TWO_BYTES));
    return lir_op3(b, LIR_PRMT, LIR_B32, lir_reg(two[0]), lir_reg(two[1]), lir_int(TWO_HALVES));
}
