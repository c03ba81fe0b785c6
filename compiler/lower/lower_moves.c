/* lower_moves.c - tiles whose elements go to other lanes of their warps, without shared memory.
 *
 * Two words are exchanged at a time: a lane whose bit is 0 keeps the first of them and sends the
 * second; the other lane the reverse.  Where lanes have other numbers then, what is kept is sent,
 * too.
 */
#include "compiler/lower/lower.h"

static LirReg
shuffled(LirBuilder *b, LirOpcode shuffle, LirClass class, LirReg word, LirOperand lane)
{
    LirReg came = lir_new_reg(b, class);
    LirOperand operands[] = {lir_reg(came), lir_reg(word), lane};

    lir_emit(b, shuffle, 1, 3, operands);
    return came;
}

static LirReg
bit_is_zero(LirBuilder *b, LirReg lane, uint32_t bit)
{
    LirReg is = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lane), lir_int(1 << bit));

    return lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(is), lir_int(0));
}

/* Where words stay whole, and lanes have the same numbers. */
static void
exchange_words(Lowering *lo, TirVal *from, TirVal *to, const LaneMoves *moves, int32_t below)
{
    LirBuilder *b = &lo->b;
    int32_t n = layout_registers(from->layout), step = lower_per_word(from);
    LirClass class = step > 1 ? LIR_B32 : lower_class(from->type.dtype);
    LirOpcode select = class == LIR_B32 ? LIR_SEL_B32 : LIR_SEL_F32;
    LirReg *made = arena_array(lo->arena, LirReg, n);
    LirReg low = bit_is_zero(b, lower_lane(lo), moves->lane_bit);

    for (int32_t r = 0; r < n; r += step) {
        if (r / below % 2 != 0)
            continue;
        LirReg first = step > 1 ? lower_word(lo, from, r)
                                : lower_elem_reg(lo, lower_elem(lo, from, r), class);
        LirReg second = step > 1 ? lower_word(lo, from, r + below)
                                 : lower_elem_reg(lo, lower_elem(lo, from, r + below), class);
        LirReg sent = lir_op3(b, select, class, lir_reg(second), lir_reg(first), lir_reg(low));
        LirReg came = shuffled(b, LIR_SHFL_BFLY, class, sent, lir_int(1 << moves->lane_bit));
        made[r] = lir_op3(b, select, class, lir_reg(first), lir_reg(came), lir_reg(low));
        made[r + below] = lir_op3(b, select, class, lir_reg(came), lir_reg(second), lir_reg(low));
    }
    for (int32_t r = 0; r < n; r += step) {
        if (step > 1)
            lower_set_word(lo, to, r, made[moves->map[r]]);
        else
            lower_set_elem(lo, to, r, elem_reg(made[moves->map[r]]));
    }
}

/* The number under which this lane's elements were exchanged. */
static LirReg
number_before(Lowering *lo, const LaneMoves *moves)
{
    LirBuilder *b = &lo->b;
    LirReg lane = lower_lane(lo), number = 0;
    int32_t same = 0;

    for (uint32_t k = 0; k < 5; k++)
        same |= moves->lanes[k] == k ? 1 << k : 0;
    number = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lane), lir_int(same));
    for (uint32_t k = 0; k < 5; k++) {
        int32_t up = moves->lanes[k] - (int32_t)k;
        if (up == 0)
            continue;
        LirReg bit = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lane), lir_int(1 << k));
        bit = lir_op2(b, up > 0 ? LIR_SHL_B32 : LIR_SHR_U32, LIR_B32, lir_reg(bit),
                      lir_int(up > 0 ? up : -up));
        number = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(number), lir_reg(bit));
    }
    return number;
}

/* The selector of prmt for the word whose first element is register `r`: of what was kept, bytes 0
 * to 3, and what came, 4 to 7, for lanes to which the second of two words came; `other`: for those
 * to which the first one did. */
static int64_t
selector(const LaneMoves *moves, int32_t r, int32_t step, int32_t below, bool other)
{
    int32_t bytes = 4 / step;
    int64_t selector = 0;

    for (int32_t k = 0; k < 4; k++) {
        int32_t at = moves->map[r + k / bytes], second = at / below % 2;
        int32_t byte = at % step * bytes + k % bytes + (second != other ? 4 : 0);
        selector |= (int64_t)byte << 4 * k;
    }
    return selector;
}

/* Each word that a lane gets is made of bytes of the two that it keeps and receives. */
static void
move_bytes(Lowering *lo, TirVal *from, TirVal *to, const LaneMoves *moves, int32_t below)
{
    LirBuilder *b = &lo->b;
    int32_t n = layout_registers(from->layout), step = lower_per_word(from);
    LirReg lane = lower_lane(lo), before = moves->renumbered ? number_before(lo, moves) : lane;
    LirReg low = bit_is_zero(b, lane, moves->lane_bit);
    LirReg low_then = bit_is_zero(b, before, moves->lane_bit);
    LirReg beside = moves->renumbered ? lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(before),
                                                lir_int(1 << moves->lane_bit))
                                      : 0;
    LirReg *kept = arena_array(lo->arena, LirReg, n), *came = arena_array(lo->arena, LirReg, n);

    for (int32_t r = 0; r < n; r += step) {
        if (r / below % 2 != 0)
            continue;
        LirOperand first = lir_reg(lower_word(lo, from, r));
        LirOperand second = lir_reg(lower_word(lo, from, r + below));
        kept[r] = lir_op3(b, LIR_SEL_B32, LIR_B32, first, second, lir_reg(low));
        came[r] = lir_op3(b, LIR_SEL_B32, LIR_B32, second, first, lir_reg(low));
        if (moves->renumbered) {
            kept[r] = shuffled(b, LIR_SHFL_IDX, LIR_B32, kept[r], lir_reg(before));
            came[r] = shuffled(b, LIR_SHFL_IDX, LIR_B32, came[r], lir_reg(beside));
        } else {
            came[r] = shuffled(b, LIR_SHFL_BFLY, LIR_B32, came[r], lir_int(1 << moves->lane_bit));
        }
    }
    for (int32_t r = 0; r < layout_registers(to->layout); r += step) {
        int32_t first = moves->map[r] - moves->map[r] % step;
        first -= first / below % 2 * below;
        LirReg bytes = lir_op3(b, LIR_SEL_B32, LIR_B32,
                               lir_int(selector(moves, r, step, below, false)),
                               lir_int(selector(moves, r, step, below, true)), lir_reg(low_then));
        lower_set_word(lo, to, r,
                       lir_op3(b, LIR_PRMT, LIR_B32, lir_reg(kept[first]), lir_reg(came[first]),
                               lir_reg(bytes)));
    }
}

void
lower_moves(Lowering *lo, TirVal *from, TirVal *to, const LaneMoves *moves)
{
    int32_t below = 1, step = lower_per_word(from);
    bool whole = !moves->renumbered;

    if (from->type.dtype == DT_BOOL)
        lower_fault(lo, "exchange between lanes", from->type.dtype);
    for (uint32_t d = 0; d < moves->digit; d++)
        below *= from->layout->reg.at[d].extent;
    for (int32_t r = 0; r < layout_registers(to->layout); r++)
        whole = whole && moves->map[r] % step == r % step;
    if (whole)
        exchange_words(lo, from, to, moves, below);
    else
        move_bytes(lo, from, to, moves, below);
}
