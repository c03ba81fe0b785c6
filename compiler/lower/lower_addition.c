/* lower_addition.c - what adds elements to memory, in one instruction or by exchanging a word until nobody came between. */
#include "compiler/lower/lower.h"
#include "compiler/target.h"

const Addition *
lower_addition(const Lowering *lo, DType dtype)
{
    static const Addition rows[] = {
#define ADDITION(type, ability, ...) {DT_##type, ability, {__VA_ARGS__}},
#include "compiler/lower/opcodes.def"
    };
    static const Addition by_exchange = {.dtype = DT_COUNT};

    for (uint32_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        if (rows[k].dtype == dtype && target_can(lo->px->target, rows[k].ability))
            return &rows[k];
    }
    return &by_exchange;
}

int32_t
lower_most_added(const Lowering *lo, DType dtype)
{
    const Addition *addition = lower_addition(lo, dtype);
    int32_t words = lo->px->target->addition_bytes / 4;

    while (words > 1 && addition->of_words[words / 2 + 1] == 0)
        words /= 2;
    return words * (int32_t)dtype_per_word(dtype);
}

/* What a word becomes by `word` being added to the first `n` elements of it. */
static LirReg
sums_of(Lowering *lo, DType dtype, LirReg old, LirReg word, int32_t n)
{
    Elem sums[MOST_OF_WORD];
    LirOpcode add = lower_opcode(TIR_ADD, dtype_wide(dtype));
    LirClass class = lower_class(dtype_wide(dtype));

    for (int32_t k = 0; k < (int32_t)dtype_per_word(dtype); k++) {
        sums[k] = elem_float(0);
        if (k >= n)
            continue;
        LirReg a = lower_elem_reg(lo, lower_elem_of_word(lo, dtype, old, k), class);
        LirReg x = lower_elem_reg(lo, lower_elem_of_word(lo, dtype, word, k), class);
        sums[k] = elem_reg(lir_op2(&lo->b, add, class, lir_reg(a), lir_reg(x)));
    }
    return lower_make_word(lo, dtype, sums);
}

/* The word, or the b16 that its lower half is, as an operand. */
static LirOperand
exchanged(Lowering *lo, LirReg word, bool half)
{
    return lir_reg(half ? lower_half(lo, word, false) : word);
}

static LirReg
as_word(Lowering *lo, LirReg reg, bool half)
{
    if (!half)
        return reg;
    return lir_op2(&lo->b, LIR_PACK_B32, LIR_B32, lir_reg(reg), lir_reg(lower_zeroed(lo, LIR_B16)));
}

void
lower_add_by_exchange(Lowering *lo, DType dtype, LirOperand address, LirReg word, int32_t n,
                      LirReg guard)
{
    LirBuilder *b = &lo->b;
    bool half = n < (int32_t)dtype_per_word(dtype);
    uint32_t again = lir_new_label(b), others = lir_new_label(b);
    LirOperand all = lir_int(-1);
    LirClass class = half ? LIR_B16 : LIR_B32;

    if (guard != 0)
        lir_branch(b, others, guard, true);
    lir_open(b, false);
    LirReg old = lir_new_mutable(b, LIR_B32), there = lir_new_reg(b, class);
    LirOperand load[] = {lir_reg(there), address};
    lir_emit(b, half ? LIR_LD_RELAXED_U16 : LIR_LD_RELAXED_B32, 1, 2, load);
    LirOperand begin[] = {lir_reg(old), lir_reg(as_word(lo, there, half))};
    lir_emit(b, LIR_MOV_B32, 1, 2, begin);
    lir_label(b, again);
    LirReg sum = sums_of(lo, dtype, old, word, n);
    LirReg found = lir_new_reg(b, class);
    LirOperand swap[] = {lir_reg(found), address, exchanged(lo, old, half),
                         exchanged(lo, sum, half)};
    lir_emit(b, half ? LIR_ATOM_CAS_B16 : LIR_ATOM_CAS_B32, 1, 4, swap);
    LirReg now = as_word(lo, found, half);
    LirReg same = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(now), lir_reg(old));
    LirOperand next[] = {lir_reg(old), lir_reg(now)};
    lir_emit(b, LIR_MOV_B32, 1, 2, next);
    lir_branch(b, again, same, true);
    lir_close(b);
    lir_label(b, others);
    lir_emit(b, LIR_BAR_WARP_SYNC, 0, 1, &all);
}
