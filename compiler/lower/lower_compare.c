/* lower_compare.c - comparisons of i32.
 *
 * An element is a register and a constant, so that neighbours of a tile share the register.  Where
 * no value can overflow (range.h), the registers are subtracted, once for all neighbours, and the
 * constants of both sides are one:
 *
 *     r + 3 < q + 8   ->   r - q < 5
 *
 * Where the difference may be no i32 it saturates: it is compared with a small integer, and beyond
 * i32 it is still less or greater than that.  Where a register alone may have overflowed, as of (x
 * - 10) + y, both sides are made as they are written.
 */
#include "compiler/lower/lower.h"
#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/range.h"

typedef struct Sides {
    bool known;
    Range side[2], difference;
    bool of_bound; /* an index of a range with the range's bound: less than 2^31 apart */
} Sides;

enum { FARTHEST = 1 << 30 }; /* of limited differences */

static const struct {
    TirOpcode op;
    bool if_less, if_greater;
} outside[] = {
    {TIR_EQ, false, false}, {TIR_NE, true, true},  {TIR_LT, true, false},
    {TIR_LE, true, false},  {TIR_GT, false, true}, {TIR_GE, false, true},
};

struct Sides *
lower_new_sides(Arena *arena, const TirFn *fn)
{
    return arena_array(arena, Sides, fn->next_id + 1);
}

/* The value under what gives it the shape of a tile. */
static const TirVal *
shapeless(const TirVal *value)
{
    const TirOp *op = value->def;

    while (op != NULL && (op->op == TIR_EXPAND || op->op == TIR_BROADCAST ||
                          op->op == TIR_SQUEEZE || op->op == TIR_CONVERT)) {
        value = op->args[0];
        op = value->def;
    }
    return value;
}

static bool
is_bound_of(const TirVal *bound, const TirVal *index)
{
    const TirOp *range = shapeless(index)->def;

    return range != NULL && range->op == TIR_IOTA && range->index[0].rows == 0 &&
           linear_same_value(shapeless(bound), range->args[1]);
}

static const Sides *
sides_of(Lowering *lo, const TirOp *op)
{
    Sides *sides = &lo->sides[op->results[0]->id];

    if (!sides->known)
        *sides = (Sides){.known = true,
                         .side = {range_of(lo->fn, op->args[0]), range_of(lo->fn, op->args[1])},
                         .difference = range_of_difference(lo->fn, op->args[0], op->args[1]),
                         .of_bound = is_bound_of(op->args[1], op->args[0]) ||
                                     is_bound_of(op->args[0], op->args[1])};
    return sides;
}

static Elem
decided(bool value)
{
    return (Elem){.kind = ELEM_BOOL, .integer = value};
}

static Elem
compared(Lowering *lo, LirOpcode lir, LirClass class, Elem a, Elem b)
{
    LirReg left = lower_elem_reg(lo, a, class);

    return elem_reg(lir_op2(&lo->b, lir, LIR_PRED, lir_reg(left), lower_operand(lo, b)));
}

/* Whether the registers of both sides are i32 that did not overflow. */
static bool
is_exact(const Sides *sides, Elem a, Elem b)
{
    return (a.kind != ELEM_REG || range_fits(sides->side[0], -a.integer)) &&
           (b.kind != ELEM_REG || range_fits(sides->side[1], -b.integer));
}

static Elem
compare_ints(Lowering *lo, LirOpcode lir, const TirOp *op, Elem a, Elem b)
{
    int64_t constant = b.integer - a.integer;
    uint32_t row = 0;

    while (outside[row].op != op->op)
        row++;

    if (a.kind == ELEM_INT && b.kind == ELEM_INT)
        return decided(a.integer == b.integer
                           ? op->op == TIR_EQ || op->op == TIR_LE || op->op == TIR_GE
                       : a.integer < b.integer ? outside[row].if_less
                                               : outside[row].if_greater);
    if (a.kind == ELEM_INT || (a.integer == 0 && b.integer == 0))
        return compared(lo, lir, LIR_B32, a, b);
    const Sides *sides = sides_of(lo, op);
    if (b.kind == ELEM_REG) {
        bool exact = is_exact(sides, a, b),
             fits = sides->of_bound || range_fits(sides->difference, constant);
        if (!fits && (!exact || constant >= INT32_MAX || constant <= INT32_MIN))
            return compared(lo, lir, LIR_B32, a, b);
        LirOpcode minus = fits ? LIR_SUB_S32 : LIR_SUB_SAT_S32;
        a = elem_reg(lir_op2(&lo->b, minus, LIR_B32, lir_reg(a.reg), lir_reg(b.reg)));
    } else {
        if (!is_exact(sides, a, b))
            return compared(lo, lir, LIR_B32, a, b);
        a.integer = 0;
    }
    if (constant > INT32_MAX || constant < INT32_MIN)
        return decided(constant > 0 ? outside[row].if_less : outside[row].if_greater);
    return compared(lo, lir, LIR_B32, a, elem_int(constant));
}

/* Whether big - small, and that of the registers, are i32, and one more and one less. */
static bool
has_difference(const Sides *sides, uint32_t at, Elem big, Elem small)
{
    Range difference = at == 0 ? sides->difference
                               : (Range){-sides->difference.most, -sides->difference.least};

    if (big.kind == ELEM_REG && small.kind == ELEM_REG && sides->of_bound)
        return true;
    if (!range_fits(difference, 1) || !range_fits(difference, -1))
        return false;
    if (big.kind == ELEM_REG && small.kind == ELEM_REG)
        return range_fits(difference, small.integer - big.integer);
    if (big.kind == ELEM_REG)
        return range_fits(sides->side[at], -big.integer);
    const Range *other = &sides->side[1 - at];
    return range_fits((Range){-other->most, -other->least}, small.integer);
}

Elem
lower_limited_difference(Lowering *lo, const TirOp *op, uint32_t at, Elem big, Elem small)
{
    LirBuilder *b = &lo->b;
    Elem constant = elem_int(big.integer - small.integer);

    if (big.kind == ELEM_INT && small.kind == ELEM_INT)
        return constant;
    if (!has_difference(sides_of(lo, op), at, big, small)) {
        LirReg x = lower_elem_reg(lo, big, LIR_B32);
        LirReg d = lir_op2(b, LIR_SUB_SAT_S32, LIR_B32, lir_reg(x), lower_operand(lo, small));
        d = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(d), lir_int(FARTHEST));
        return elem_reg(lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(d), lir_int(-FARTHEST)));
    }
    if (small.kind == ELEM_INT)
        return lower_add(lo, elem_reg(big.reg), constant);
    LirReg from = big.kind == ELEM_REG ? big.reg : lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(0));
    LirReg between = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(from), lir_reg(small.reg));
    return lower_add(lo, elem_reg(between), constant);
}

Elem
lower_comparison(Lowering *lo, const TirOp *op, Elem a, Elem b)
{
    DType dtype = dtype_wide(op->args[0]->type.dtype);
    LirOpcode lir = lower_opcode(op->op, dtype);

    if (lir == LIR_OPCODE_COUNT) {
        lower_fault(lo, tir_op_info(op->op)->text, dtype);
        return decided(false);
    }
    if (dtype == DT_I32)
        return compare_ints(lo, lir, op, a, b);
    return compared(lo, lir, lower_class(dtype), a, b);
}
