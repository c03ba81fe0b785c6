/* lower_exp2.c - exponentials by a polynomial, two elements in an instruction (passes/schedule/split_exp2.c).
 *
 *     n = round(x);  2^x = 2^n p(x - n),  p a polynomial of degree 5 for 2^f, -1/2 <= f <= 1/2
 *
 * Adding 3 * 2^22 rounds to an integer, which is in the low bits of the sum then; shifted to the place of the exponent it is
 * added to the bits of p(f).  The relative error is at most 1.83e-7, over all f in f32 multiply-adds; that of the hardware's
 * ex2 is 2^-22 or 2.38e-7.  x is at least -127, which gives 0, and at most 128, which gives infinity, unless it is
 * known to be small (passes/rewrite/bound_exp2.c).  Of a NaN comes a number
 * near the largest.
 *
 * The last quarter of a thread's elements is computed by the hardware: what they go to waits for them.
 */
#include "compiler/lower/lower.h"

static const float coefficients[] = {0x1.5c0e4ap-10F, 0x1.3d1036p-7F, 0x1.c6b594p-5F,
                                     0x1.ebf938p-3F,  0x1.62e42ap-1F, 1.0F};

enum { MANTISSA = 23, SHARES = 16, FEWEST_PAIRS = 8 };

static const float round_off = 0x1.8p23F, least = -127, most = 128;

bool
lower_is_polynomial(const TirOp *op, int32_t pair)
{
    int32_t pairs = lower_registers(op->results[0]) / 2, early = pairs - pairs / 4;
    int32_t n = pairs * (int32_t)op->polynomial / SHARES;

    if (pairs < FEWEST_PAIRS || pair >= early)
        return false;
    return (pair + 1) * n / early > pair * n / early; /* evenly among the early ones */
}

static LirOperand
both(Lowering *lo, float number)
{
    LirReg one = lir_op1(&lo->b, LIR_MOV_F32, LIR_F32, lir_float(number));

    return lir_reg(lir_op2(&lo->b, LIR_PACK_B64, LIR_B64, lir_reg(one), lir_reg(one)));
}

static LirReg
within(Lowering *lo, LirReg x, bool small)
{
    x = lir_op2(&lo->b, LIR_MAX_NAN_F32, LIR_F32, lir_reg(x), lir_float(least));
    return small ? x : lir_op2(&lo->b, LIR_MIN_NAN_F32, LIR_F32, lir_reg(x), lir_float(most));
}

void
lower_exp2_two(Lowering *lo, const LirReg x[2], bool small, Elem results[2])
{
    LirBuilder *b = &lo->b;
    LirReg clamped[] = {within(lo, x[0], small), within(lo, x[1], small)};
    LirOperand two = lir_reg(
        lir_op2(b, LIR_PACK_B64, LIR_B64, lir_reg(clamped[0]), lir_reg(clamped[1])));
    LirOperand sum = lir_reg(lir_op2(b, LIR_ADD_F32X2, LIR_B64, two, both(lo, round_off)));
    LirOperand whole = lir_reg(lir_op2(b, LIR_ADD_F32X2, LIR_B64, sum, both(lo, -round_off)));
    LirOperand rest = lir_reg(
        lir_op3(b, LIR_FMA_F32X2, LIR_B64, whole, both(lo, -1), two)); /* exact */
    LirOperand p = both(lo, coefficients[0]);

    for (uint32_t k = 1; k < sizeof coefficients / sizeof coefficients[0]; k++)
        p = lir_reg(lir_op3(b, LIR_FMA_F32X2, LIR_B64, p, rest, both(lo, coefficients[k])));
    LirOperand halves[2][3] = {{{0}}};
    for (uint32_t k = 0; k < 2; k++) {
        halves[k][0] = lir_reg(lir_new_reg(b, LIR_F32));
        halves[k][1] = lir_reg(lir_new_reg(b, LIR_F32));
        halves[k][2] = k == 0 ? p : sum;
        lir_emit(b, LIR_UNPACK_B64, 2, 3, halves[k]);
    }
    for (uint32_t k = 0; k < 2; k++) {
        LirReg bits = lir_op1(b, LIR_MOV_B32, LIR_B32, halves[0][k]);
        LirReg exponent = lir_op1(b, LIR_MOV_B32, LIR_B32, halves[1][k]);
        exponent = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(exponent), lir_int(MANTISSA));
        bits = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(bits), lir_reg(exponent));
        results[k] = elem_reg(lir_op1(b, LIR_MOV_F32, LIR_F32, lir_reg(bits)));
    }
}
