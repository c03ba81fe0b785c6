/* lower_two.c - two f32 elements in one instruction, where the target has such instructions.
 *
 * Registers 2p and 2p + 1 of a tile go together.  ptxas finds few such pairs itself.  Packing takes
 * no instruction: ptxas has elements that go together in neighbouring registers.  Each half is
 * computed and rounded as by the instruction for one.
 */
#include "compiler/lower/lower.h"

typedef struct TwoOp {
    TirOpcode op;
    LirOpcode lir;
} TwoOp;

static const TwoOp two_ops[] = {{TIR_ADD, LIR_ADD_F32X2},
                                {TIR_SUB, LIR_SUB_F32X2},
                                {TIR_MUL, LIR_MUL_F32X2},
                                {TIR_FMA, LIR_FMA_F32X2}};

static bool
has_two(const Lowering *lo)
{
    return lo->role != NULL && target_can(lo->px->target, CAN_COMPUTE_TWO);
}

static LirReg
pack(Lowering *lo, const Elem *two)
{
    LirReg first = lower_elem_reg(lo, two[0], LIR_F32),
           second = lower_elem_reg(lo, two[1], LIR_F32);

    return lir_op2(&lo->b, LIR_PACK_B64, LIR_B64, lir_reg(first), lir_reg(second));
}

static void
unpack(Lowering *lo, LirReg packed, Elem *two)
{
    LirBuilder *b = &lo->b;
    LirOperand operands[] = {lir_reg(lir_new_reg(b, LIR_F32)), lir_reg(lir_new_reg(b, LIR_F32)),
                             lir_reg(packed)};

    lir_emit(b, LIR_UNPACK_B64, 2, 3, operands);
    two[0] = elem_reg(operands[0].reg);
    two[1] = elem_reg(operands[1].reg);
}

/* Whether operand `k` is a constant that takes an instruction away: 0, or a factor of 1 or -1. */
static bool
folds(TirOpcode op, uint32_t k, Elem elem)
{
    bool factor = op == TIR_MUL || (op == TIR_FMA && k < 2);

    return elem.kind == ELEM_FLOAT &&
           (elem.number == 0 || (factor && (elem.number == 1 || elem.number == -1)));
}

/* The two exponentials of a pair, if it is one that a polynomial computes. */
static bool
exp2_two(Lowering *lo, const TirOp *op, int32_t first, Elem two[2])
{
    LirReg x[2];

    /* (in iterations with masks, which are few, selections take the time that f32 units would
     * have) */
    if (!lo->fast || !lower_is_polynomial(op, first / 2) || lower_is_masked_part(lo, op))
        return false;
    for (int32_t side = 0; side < 2; side++)
        x[side] = lower_elem_reg(lo, lower_elem(lo, op->args[0], first + side), LIR_F32);
    lower_exp2_two(lo, op, x, two);
    return true;
}

bool
lower_two(Lowering *lo, const TirOp *op, int32_t reg, Elem two[2])
{
    const TirVal *value = op->results[0];
    LirOpcode lir = LIR_OPCODE_COUNT;
    LirOperand operands[3];
    int32_t first = reg & ~1;
    bool some = false;

    if (!has_two(lo))
        return false;
    if (op->op == TIR_EXP2 && op->polynomial > 0)
        return exp2_two(lo, op, first, two);
    for (uint32_t k = 0; k < sizeof two_ops / sizeof two_ops[0]; k++)
        lir = two_ops[k].op == op->op ? two_ops[k].lir : lir;
    /* ptxas 12.9 and 13.0 fuse mul.rn.f32x2 and sub.rn.f32x2 */
    if (lir == LIR_OPCODE_COUNT || op->rounded || value->type.dtype != DT_F32 ||
        value->type.rank != 2 || lower_registers(value) % 2 != 0)
        return false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        for (int32_t side = 0; side < 2; side++) {
            Elem elem = lower_elem(lo, op->args[k], op->args[k]->type.rank == 0 ? 0 : first + side);
            if (folds(op->op, k, elem) || (elem.kind != ELEM_FLOAT && elem.kind != ELEM_REG))
                return false;
            some = some || elem.kind == ELEM_REG;
        }
    }
    if (!some)
        return false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        bool scalar = op->args[k]->type.rank == 0;
        Elem args[] = {lower_elem(lo, op->args[k], scalar ? 0 : first),
                       lower_elem(lo, op->args[k], scalar ? 0 : first + 1)};
        operands[k] = lir_reg(pack(lo, args));
    }
    LirReg result = op->n_args == 2
                        ? lir_op2(&lo->b, lir, LIR_B64, operands[0], operands[1])
                        : lir_op3(&lo->b, lir, LIR_B64, operands[0], operands[1], operands[2]);
    unpack(lo, result, two);
    return true;
}

bool
lower_add_two(Lowering *lo, Elem *first, Elem *second, const Elem two[2])
{
    Elem sums[] = {*first, *second};

    if (!has_two(lo))
        return false;
    LirReg before = pack(lo, sums), more = pack(lo, two);
    unpack(lo, lir_op2(&lo->b, LIR_ADD_F32X2, LIR_B64, lir_reg(before), lir_reg(more)), sums);
    *first = sums[0];
    *second = sums[1];
    return true;
}
