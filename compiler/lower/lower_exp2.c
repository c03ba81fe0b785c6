/* lower_exp2.c - exponentials by a polynomial, two elements in an instruction
 * (passes/schedule/split_exp2.c).
 *
 *     n = floor(x);  2^x = 2^n p(x - n),  p a polynomial of degree 5 for 2^f, 0 <= f <= 1
 *
 * Adding 3 * 2^22, rounded down, makes an integer, which is in the low bits of the sum then; with
 * the bias of exponents added too, and shifted to their place, they are the bits of 2^n.  The
 * relative error is at most 1.6e-7; that of the hardware's ex2 is 2^-22 or 2.38e-7.  2^0 is 1.
 *
 * Right for any x: below -126 it is 0, as ex2.approx.ftz has it, since -127 <= x is seen to, for
 * which the bits are 0.  From 128 on it is infinity, since x <= 128 is, whose bits are those of
 * infinity, and p(0) is 1; where that is known (passes/rewrite/bound_exp2.c) it is not asked for.
 * A NaN stays one: 2^n is a factor, since bits that are added to a NaN's would make a number.
 *
 * The last quarter of a thread's elements is computed by the hardware: what they go to waits for
 * them.
 */
#include "compiler/lower/lower.h"

static const float coefficients[] = {0x1.e974fcp-10F, 0x1.277856p-7F, 0x1.c91cd6p-5F,
                                     0x1.ebdb5ep-3F,  0x1.62e4bap-1F, 1.0F};

enum { MANTISSA = 23, SHARES = 16, FEWEST_PAIRS = 8 };

static const float round_off = 0x1.8p23F + 127; /* 127: the bias of exponents */
static const float least = -127, infinite = 128;

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

/* 2^n of the low half of `sum`, or of its high one. */
static LirReg
power(Lowering *lo, LirReg sum)
{
    LirReg bits = lir_op1(&lo->b, LIR_MOV_B32, LIR_B32, lir_reg(sum));

    bits = lir_op2(&lo->b, LIR_SHL_B32, LIR_B32, lir_reg(bits), lir_int(MANTISSA));
    return lir_op1(&lo->b, LIR_MOV_F32, LIR_F32, lir_reg(bits));
}

static void
unpack(Lowering *lo, LirOperand two, LirReg halves[2])
{
    LirOperand operands[3] = {lir_reg(lir_new_reg(&lo->b, LIR_F32)),
                              lir_reg(lir_new_reg(&lo->b, LIR_F32)), two};

    lir_emit(&lo->b, LIR_UNPACK_B64, 2, 3, operands);
    halves[0] = operands[0].reg;
    halves[1] = operands[1].reg;
}

void
lower_exp2_two(Lowering *lo, const TirOp *op, const LirReg x[2], Elem results[2])
{
    LirBuilder *b = &lo->b;
    LirReg halves[2];

    for (uint32_t k = 0; k < 2; k++) {
        halves[k] = lir_op2(b, LIR_MAX_NAN_F32, LIR_F32, lir_reg(x[k]), lir_float(least));
        if (!op->small)
            halves[k] = lir_op2(b, LIR_MIN_NAN_F32, LIR_F32, lir_reg(halves[k]),
                                lir_float(infinite));
    }
    LirOperand two = lir_reg(
        lir_op2(b, LIR_PACK_B64, LIR_B64, lir_reg(halves[0]), lir_reg(halves[1])));
    LirOperand sum = lir_reg(lir_op2(b, LIR_ADD_DOWN_F32X2, LIR_B64, two, both(lo, round_off)));
    LirOperand whole = lir_reg(lir_op2(b, LIR_ADD_F32X2, LIR_B64, sum, both(lo, -round_off)));
    LirOperand rest = lir_reg(lir_op3(b, LIR_FMA_F32X2, LIR_B64, whole, both(lo, -1), two));
    LirOperand p = both(lo, coefficients[0]);

    for (uint32_t k = 1; k < sizeof coefficients / sizeof coefficients[0]; k++)
        p = lir_reg(lir_op3(b, LIR_FMA_F32X2, LIR_B64, p, rest, both(lo, coefficients[k])));
    unpack(lo, sum, halves);
    LirReg low = power(lo, halves[0]), high = power(lo, halves[1]);
    LirOperand factors = lir_reg(lir_op2(b, LIR_PACK_B64, LIR_B64, lir_reg(low), lir_reg(high)));
    unpack(lo, lir_reg(lir_op2(b, LIR_MUL_F32X2, LIR_B64, p, factors)), halves);
    results[0] = elem_reg(halves[0]);
    results[1] = elem_reg(halves[1]);
}
