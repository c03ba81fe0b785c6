/* lower_sort.c - a tile sorted along an axis: lines of a warp, as layout_sorted has them.
 *
 * A bitonic network in which all exchanges go the same way: runs of k elements become runs of 2k by
 * exchanges of place i with i ^ (2k - 1), then with i ^ k/2, i ^ k/4 and so on; the lower place
 * keeps the less.  The lower bits of a place are a register's, the upper ones a lane's.  Floats are
 * compared as integers, whose order is theirs.
 */
#include "compiler/lower/lower.h"

/* One line of the tile, of each lane the registers from `key` on. */
typedef struct Line {
    Lowering *lo;
    LirReg *key;
    int32_t registers; /* a power of two */
} Line;

static LirReg
less_or_greater(Line *line, LirReg a, LirReg b, bool less)
{
    return lir_op2(&line->lo->b, less ? LIR_MIN_S32 : LIR_MAX_S32, LIR_B32, lir_reg(a), lir_reg(b));
}

/* Exchanges each place with the one whose number differs in the bits of `mask`. */
static void
exchange(Line *line, int32_t mask)
{
    Lowering *lo = line->lo;
    LirBuilder *b = &lo->b;
    int32_t within = mask & (line->registers - 1), lanes = mask / line->registers, top = 1;

    if (lanes == 0) {
        for (int32_t i = 0; i < line->registers; i++) {
            int32_t other = i ^ within;
            if (other < i)
                continue;
            LirReg least = less_or_greater(line, line->key[i], line->key[other], true);
            line->key[other] = less_or_greater(line, line->key[i], line->key[other], false);
            line->key[i] = least;
        }
        return;
    }
    while (top * 2 <= lanes)
        top *= 2;
    LirReg *theirs = arena_array(lo->arena, LirReg, line->registers);
    LirReg side = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lower_lane(lo)), lir_int(top));
    LirReg lower = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(side), lir_int(0));
    for (int32_t i = 0; i < line->registers; i++) {
        theirs[i] = lir_new_reg(b, LIR_B32);
        LirOperand operands[] = {lir_reg(theirs[i]), lir_reg(line->key[i ^ within]), lir_int(lanes)};
        lir_emit(b, LIR_SHFL_BFLY, 1, 3, operands);
    }
    for (int32_t i = 0; i < line->registers; i++) {
        LirReg least = less_or_greater(line, line->key[i], theirs[i], true);
        LirReg most = less_or_greater(line, line->key[i], theirs[i], false);
        line->key[i] = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(least), lir_reg(most),
                               lir_reg(lower));
    }
}

/* The bits of a float with a sign are in reverse order; doing it twice gives them back. */
static LirReg
turn_negative(LirBuilder *b, LirReg bits)
{
    LirReg sign = lir_op2(b, LIR_SHR_S32, LIR_B32, lir_reg(bits), lir_int(31));
    LirReg turned = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(sign), lir_int(INT32_MAX));

    return lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(bits), lir_reg(turned));
}

/* The integer that an element is compared as; of a NaN the least. */
static LirReg
key_of(Lowering *lo, DType dtype, Elem elem)
{
    LirBuilder *b = &lo->b;
    LirReg bits = lower_bits(lo, dtype, elem);

    if (lower_wraps(dtype)) /* in the order of i32 */
        return lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(bits), lir_int(INT32_MIN));
    if (dtype == DT_I32)
        return bits;
    LirReg number = lower_elem_reg(lo, elem, LIR_F32), key = turn_negative(b, bits);
    LirReg same = lir_op2(b, LIR_SETP_EQ_F32, LIR_PRED, lir_reg(number), lir_reg(number));
    return lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(key), lir_int(INT32_MIN), lir_reg(same));
}

void
lower_sort(Lowering *lo, TirOp *op)
{
    TirVal *result = op->results[0];
    const Layout *layout = op->args[0]->layout;
    DType dtype = result->type.dtype;
    int32_t n = layout_registers(layout), places = layout->shape[op->axis];
    int32_t lanes = places < WARP_LANES ? places : WARP_LANES;
    Line line = {.lo = lo, .registers = places / lanes};
    LirReg *keys = arena_array(lo->arena, LirReg, n);

    for (int32_t r = 0; r < n; r++)
        keys[r] = key_of(lo, dtype, lower_combined_elem(lo, op, r));
    for (int32_t first = 0; first < n; first += line.registers) {
        line.key = keys + first;
        for (int32_t run = 1; run < places; run *= 2) {
            exchange(&line, 2 * run - 1);
            for (int32_t apart = run / 2; apart > 0; apart /= 2)
                exchange(&line, apart);
        }
    }
    for (int32_t r = 0; r < n; r++) {
        LirReg bits = dtype == DT_I32      ? keys[r]
                      : lower_wraps(dtype) ? lir_op2(&lo->b, LIR_XOR_B32, LIR_B32, lir_reg(keys[r]),
                                                     lir_int(INT32_MIN))
                                           : turn_negative(&lo->b, keys[r]);
        lower_set_elem(lo, result, r, lower_elem_of_bits(lo, dtype, bits));
    }
}
