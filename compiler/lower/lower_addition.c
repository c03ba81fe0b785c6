/* lower_addition.c - what adds elements to memory, in one instruction or by exchanging a word until
 * nobody came between; atomic statements that give what was there.
 */
#include "compiler/lower/lower_access.h"
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
                      LirReg guard, LirReg was)
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
    if (was != 0) {
        LirOperand keep[] = {lir_reg(was), lir_reg(old)};
        lir_emit(b, LIR_MOV_B32, 1, 2, keep);
    }
    lir_close(b);
    lir_label(b, others);
    lir_emit(b, LIR_BAR_WARP_SYNC, 0, 1, &all);
}

/* ---- what was there ---- */

/* One instruction; what was there goes to `was`, which is of the value's class. */
static void
fetch_by(Lowering *lo, LirOpcode op, LirReg was, LirOperand address, LirOperand value, LirReg guard)
{
    LirOperand operands[] = {lir_reg(was), address, value};

    lir_emit(&lo->b, op, 1, 3, operands)->guard = guard;
}

/* Floats are compared as integers, as raise_single in lower_memory.c does; a NaN becomes what
 * changes nothing. */
static void
fetch_most(Lowering *lo, bool most, LirReg was, LirOperand address, Elem elem, LirReg guard)
{
    LirBuilder *b = &lo->b;
    LirReg same = lower_elem_reg(lo, elem, LIR_F32);
    LirReg number = lir_op2(b, LIR_SETP_EQ_F32, LIR_PRED, lir_reg(same), lir_reg(same));
    LirReg bits = lower_bits(lo, DT_F32, elem);
    LirReg word = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(bits), lir_int(most ? -1 : INT32_MAX),
                          lir_reg(number));
    LirReg plus = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(word), lir_int(0));
    LirReg minus = lir_op1(b, LIR_NOT_PRED, LIR_PRED, lir_reg(plus));
    LirReg of_plus = access_both(lo, guard, plus), of_minus = access_both(lo, guard, minus);

    fetch_by(lo, most ? LIR_ATOM_MAX_S32 : LIR_ATOM_MIN_S32, was, address, lir_reg(word), of_plus);
    fetch_by(lo, most ? LIR_ATOM_MIN_U32 : LIR_ATOM_MAX_U32, was, address, lir_reg(word), of_minus);
}

/* One thread does it; the word of what was there, where `guard` holds. */
static LirReg
fetch_once(Lowering *lo, const TirOp *op, LirOperand address, LirReg guard)
{
    TirVal *value = op->args[op->n_args - 1];
    DType dtype = value->type.dtype;
    LirOpcode lir = lower_fetch_opcode(op->op, dtype);
    bool most = op->op == TIR_ATOMIC_MAX, narrow = lower_per_word(value) > 1;
    LirReg was = lower_zeroed(lo, LIR_B32);

    if (narrow) {
        lower_add_by_exchange(lo, dtype, address, lower_word(lo, value, 0), 1, guard, was);
    } else if (lir == LIR_OPCODE_COUNT) {
        fetch_most(lo, most, was, address, lower_elem(lo, value, 0), guard);
    } else if (lower_class(dtype) == LIR_F32) {
        LirReg wide = lir_new_mutable(&lo->b, LIR_F32);
        LirOperand zero[] = {lir_reg(wide), lir_float(0)};
        lir_emit(&lo->b, LIR_MOV_F32, 1, 2, zero);
        fetch_by(lo, lir, wide, address,
                 lir_reg(lower_elem_reg(lo, lower_elem(lo, value, 0), LIR_F32)), guard);
        LirOperand move[] = {lir_reg(was), lir_reg(wide)};
        lir_emit(&lo->b, LIR_MOV_B32, 1, 2, move);
    } else {
        fetch_by(lo, lir, was, address,
                 lir_reg(lower_elem_reg(lo, lower_elem(lo, value, 0), LIR_B32)), guard);
    }
    return was;
}

/* All lanes learn it from the first one, all warps through the buffer. */
void
lower_fetch(Lowering *lo, TirOp *op)
{
    LirBuilder *b = &lo->b;
    Layout scalar = {.rank = 0};
    Access access = access_begin(lo, op);
    LirReg first = lower_first_copy(lo, &scalar);
    LirReg was = fetch_once(lo, op, lir_address(access.base, 0),
                            access_both(lo, first, access.inside));
    LirReg word = lir_new_reg(b, LIR_B32);

    if (op->shared != NULL) {
        LirReg base = lower_elem_reg(lo, lower_stage_base(lo, op->shared, NULL), LIR_B32);
        LirOperand put[] = {lir_address(base, 0), lir_reg(was)};
        LirOperand get[] = {lir_reg(word), lir_address(base, 0)};
        lir_emit(b, LIR_ST_SHARED_B32, 0, 2, put)->guard = first;
        lower_barrier(lo);
        lir_emit(b, LIR_LD_SHARED_B32, 1, 2, get);
    } else {
        LirOperand from[] = {lir_reg(word), lir_reg(was), lir_int(0)};
        lir_emit(b, LIR_SHFL_IDX, 1, 3, from);
    }
    lower_set_word(lo, op->results[0], 0, word);
}
