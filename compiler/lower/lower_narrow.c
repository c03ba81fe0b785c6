/* lower_narrow.c - two elements of 16 bits at once, where that is exact: small integers, and their
 * products.
 *
 * A cast to a type of 16 bits rounds what was computed in f32.  Where what it is of is an integer
 * that the type has exactly, or the product of one and of a number of the type, it has one rounding
 * in either type, so both elements of a word are computed by one instruction each.  Weights that
 * are unpacked for a product are such.
 *
 * An integer of few bits becomes a float without a conversion: below the code of 2^d, whose last
 * digit is 1, it stands for 2^d more than itself.  What it is too much by is subtracted last, with
 * constants that the program subtracts.
 */
#include <math.h>

#include "compiler/ir/tir_compute.h"
#include "compiler/lower/lower.h"

enum {
    LOWER_HALVES = 0x5410,
    WHOLE_WORD = 0x7610,
    MOST_STEPS = 24,
    BOTH = 0x10001,
    BYTE = 255,
    HALF = 16,
    /* Selectors of prmt: byte 0 above zeros; byte 0 of either word in a half of its own.  What
     * makes byte b of either. */
    BYTE_ALONE = 0x4440,
    BYTE_OF_SECOND = 0x4400,
    EACH_BYTE = 0x1111
};

/* Integers between which all elements of a value lie. */
typedef struct Small {
    bool known;
    double least, most;
} Small;

/* Two registers of a value, which become the lower and the upper half of a word. */
typedef struct Two {
    int32_t reg[2];
} Two;

/* A word whose halves are too large by `above`. */
typedef struct Biased {
    bool known;
    LirReg word;
    double above;
} Biased;

/* The number whose code has room for integers below it. */
static double
unit_of(DType dtype)
{
    return ldexp(1, (int)dtype_digits(dtype) - 1);
}

static LirReg
constant_word(Lowering *lo, DType dtype, double number)
{
    int64_t code = (int64_t)dtype_code(dtype, number) & 0xffff;

    return lir_op1(&lo->b, LIR_MOV_B32, LIR_B32, lir_int(code << HALF | code));
}

static LirReg
multiply_add(Lowering *lo, DType type, LirReg x, LirReg y, LirReg z)
{
    return lir_op3(&lo->b, lower_opcode(TIR_FMA, type), LIR_B32, lir_reg(x), lir_reg(y), lir_reg(z));
}

static bool
is_moved(const TirOp *op)
{
    return op->op == TIR_EXPAND || op->op == TIR_SQUEEZE || op->op == TIR_BROADCAST ||
           op->op == TIR_SPREAD || op->op == TIR_TRANSPOSE;
}

/* The value of which `op` has the elements as they are, where no mask changes them; NULL: it has
 * others. */
static TirVal *
unchanged(Lowering *lo, const TirOp *op)
{
    bool same = is_moved(op) || (op->op == TIR_BOUNDS_MASK && !lower_mask_is_live(lo, op));

    return same ? op->args[0] : NULL;
}

static Two
moved(Lowering *lo, const TirOp *op, Two at)
{
    for (uint32_t side = 0; side < 2 && is_moved(op); side++)
        at.reg[side] = lower_operand_register(lo, op, at.reg[side]);
    return at;
}

static Small
small_of_constant(const TirOp *op)
{
    double number = dtype_is_float(op->results[0]->type.dtype) ? op->number : (double)op->integer;

    return (Small){number == floor(number), number, number};
}

/* The same where the type does not wrap or round. */
static Small
small_of_type(DType dtype, Small s)
{
    s.known = s.known && (dtype == DT_F32 || dtype == DT_I32 || (dtype == DT_U32 && s.least >= 0));
    return s;
}

/* Integers of 8 bits and fewer, which are stored as bytes. */
static bool
is_byte(DType dtype)
{
    return dtype_bits(dtype) == 8 &&
           (dtype_kind(dtype) == KIND_SIGNED || dtype_kind(dtype) == KIND_UNSIGNED);
}

static Small small_in(Lowering *lo, const TirVal *value, int *steps);

static Small
small_of_result(Lowering *lo, const TirOp *op, int *steps)
{
    Small none = {0}, a, b;

    switch (op->op) {
    case TIR_CONST: return small_of_constant(op);
    case TIR_CAST:
        if (dtype_bits(op->results[0]->type.dtype) < 32)
            return none;
        a = small_in(lo, op->args[0], steps);
        if (!a.known && is_byte(op->args[0]->type.dtype))
            a = (Small){true, dtype_lowest(op->args[0]->type.dtype),
                        dtype_highest(op->args[0]->type.dtype)};
        return a;
    case TIR_SELECT:
        a = small_in(lo, op->args[1], steps);
        b = small_in(lo, op->args[2], steps);
        return (Small){a.known && b.known, fmin(a.least, b.least), fmax(a.most, b.most)};
    case TIR_AND:
        b = small_in(lo, op->args[1], steps);
        return b.known && b.least >= 0 ? (Small){true, 0, b.most} : none;
    case TIR_MUL:
        a = small_in(lo, op->args[0], steps);
        b = small_in(lo, op->args[1], steps);
        return (Small){a.known && b.known && a.least >= 0 && b.least >= 0, a.least * b.least,
                       a.most * b.most};
    case TIR_ADD:
    case TIR_SUB:
        a = small_in(lo, op->args[0], steps);
        b = small_in(lo, op->args[1], steps);
        return (Small){a.known && b.known, a.least + (op->op == TIR_ADD ? b.least : -b.most),
                       a.most + (op->op == TIR_ADD ? b.most : -b.least)};
    case TIR_IOTA:
        a = small_in(lo, op->args[0], steps);
        return (Small){a.known && op->index[0].rows == 0 && a.least == a.most, a.least,
                       a.most + op->results[0]->type.dim[0] - 1};
    default: return none;
    }
}

static Small
small_in(Lowering *lo, const TirVal *value, int *steps)
{
    const TirOp *op = value->def;

    if (op == NULL || (*steps)-- <= 0)
        return (Small){0};
    TirVal *same = unchanged(lo, op);
    return same != NULL ? small_in(lo, same, steps)
                        : small_of_type(value->type.dtype, small_of_result(lo, op, steps));
}

static Small
small(Lowering *lo, const TirVal *value)
{
    int steps = MOST_STEPS;

    return small_in(lo, value, &steps);
}

/* Whether a type of `digits` digits has all of them. */
static bool
has_exactly(DType dtype, Small s)
{
    return s.known && s.least >= -2 * unit_of(dtype) && s.most <= 2 * unit_of(dtype);
}

static Elem
element(Lowering *lo, TirVal *value, int32_t reg)
{
    return lower_elem(lo, value, value->type.rank == 0 ? 0 : reg);
}

static bool
same_elem(Elem a, Elem b)
{
    return a.kind == b.kind && a.integer == b.integer && (a.kind != ELEM_REG || a.reg == b.reg);
}

static LirReg
join(Lowering *lo, LirReg lower, LirReg upper)
{
    return lir_op3(&lo->b, LIR_PRMT, LIR_B32, lir_reg(lower), lir_reg(upper), lir_int(LOWER_HALVES));
}

static LirReg
shifted(Lowering *lo, LirReg word, Elem by)
{
    return by.kind == ELEM_INT && by.integer == 0
               ? word
               : lir_op2(&lo->b, LIR_SHR_U32, LIR_B32, lir_reg(word), lower_operand(lo, by));
}

/* (x >> s) & mask | code of two elements in the halves of a word; x: bytes. */
static LirReg
two_fields(Lowering *lo, const TirOp *shift, Two at, int64_t mask, LirReg code)
{
    Elem x[2], s[2];
    LirReg byte[2], word;

    for (uint32_t side = 0; side < 2; side++) {
        x[side] = element(lo, shift->args[0], at.reg[side]);
        s[side] = element(lo, shift->args[1], at.reg[side]);
        byte[side] = lower_elem_reg(lo, x[side], LIR_B32);
    }
    if (same_elem(s[0], s[1]))
        word = shifted(lo, join(lo, byte[0], byte[1]), s[0]);
    else if (same_elem(x[0], x[1]) && s[0].kind == ELEM_INT && s[0].integer == 0 &&
             s[1].kind == ELEM_INT && s[1].integer <= HALF / 2) /* both are in one product */
        word = lir_op2(&lo->b, LIR_MUL_S32, LIR_B32, lir_reg(byte[0]),
                       lir_int(1 + ((int64_t)1 << (HALF - s[1].integer))));
    else {
        byte[1] = shifted(lo, byte[1], s[1]);
        word = join(lo, shifted(lo, byte[0], s[0]), byte[1]);
    }
    return lir_op3(&lo->b, LIR_AND_OR_B32, LIR_B32, lir_reg(word), lir_int(mask * BOTH),
                   lir_reg(code));
}

/* A power of two that divides the element of a value in each lane. */
static int64_t
divisor_in(Lowering *lo, TirVal *value, int32_t reg, int *steps)
{
    const TirOp *op = value->def;
    int32_t at[LAYOUT_RANK];
    int64_t bits;

    if (op == NULL || (*steps)-- <= 0)
        return 1;
    TirVal *same = value->type.rank == 0 ? NULL : unchanged(lo, op);
    if (same != NULL)
        return divisor_in(lo, same, moved(lo, op, (Two){{reg, reg}}).reg[0], steps);
    switch (op->op) {
    case TIR_CONST: bits = op->integer; break;
    case TIR_MUL:
        return divisor_in(lo, op->args[0], reg, steps) * divisor_in(lo, op->args[1], reg, steps);
    case TIR_ADD: /* or less: what no one of them has */
    case TIR_AND: {
        int64_t a = divisor_in(lo, op->args[0], reg, steps);
        int64_t b = divisor_in(lo, op->args[1], reg, steps);
        return (a < b) == (op->op == TIR_ADD) ? a : b;
    }
    case TIR_IOTA:
        if (op->index[0].rows > 0 || op->results[0]->layout == NULL)
            return 1;
        layout_coordinates(op->results[0]->layout, reg, 0, 0, at);
        bits = at[0] | (int64_t)lower_lane_mask(op->results[0]->layout, 0) |
               divisor_in(lo, op->args[0], 0, steps);
        break;
    default: return 1;
    }
    return bits == 0 || bits % HALF == 0 ? HALF : bits & -bits;
}

static int64_t
divisor(Lowering *lo, TirVal *value, int32_t reg)
{
    int steps = MOST_STEPS;

    return divisor_in(lo, value, reg, &steps);
}

/* (x >> s) & mask | code of two elements in the halves of a word, where each is within a byte of a
 * word, or both are in one; 0: they are not. */
static LirReg
two_fields_of_words(Lowering *lo, const TirOp *shift, Two at, int64_t mask, LirReg code)
{
    Elem x[2], s[2];
    int64_t bits = 0, from = divisor(lo, shift->args[1], at.reg[0]);

    while (mask >> bits != 0)
        bits++;
    for (uint32_t side = 0; side < 2; side++) {
        x[side] = element(lo, shift->args[0], at.reg[side]);
        s[side] = element(lo, shift->args[1], at.reg[side]);
    }
    bool one = same_elem(x[0], x[1]), alike = same_elem(s[0], s[1]);
    int64_t apart = s[1].integer - s[0].integer;
    s[1].integer = s[0].integer;
    if (one ? from % 8 != 0 || apart < bits || apart + bits > 8 : from < bits || bits > 4 || !alike)
        return 0;
    if (mask != (1 << bits) - 1 || !same_elem(s[0], s[1]))
        return 0;
    LirOperand by = lower_operand(lo, s[0]);
    LirOperand byte = lir_int(s[0].integer / 8), rest = lir_int(s[0].integer % 8);
    if (s[0].kind != ELEM_INT) {
        byte = lir_reg(lir_op2(&lo->b, LIR_SHR_U32, LIR_B32, by, lir_int(3)));
        rest = lir_reg(lir_op2(&lo->b, LIR_AND_B32, LIR_B32, by, lir_int(7)));
    }
    LirReg first = lower_elem_reg(lo, x[0], LIR_B32),
           second = one ? 0 : lower_elem_reg(lo, x[1], LIR_B32);
    LirReg chosen = lir_op3(&lo->b, LIR_MAD_S32, LIR_B32, byte, lir_int(one ? 1 : EACH_BYTE),
                            lir_int(one ? BYTE_ALONE : BYTE_OF_SECOND));
    LirReg word = lir_op3(&lo->b, LIR_PRMT, LIR_B32, lir_reg(first),
                          one ? lir_int(0) : lir_reg(second), lir_reg(chosen));
    if (one)
        word = lir_op2(&lo->b, LIR_MUL_S32, LIR_B32, lir_reg(word),
                       lir_int(1 + ((int64_t)1 << (HALF - apart))));
    else
        word = lir_op2(&lo->b, LIR_SHR_U32, LIR_B32, lir_reg(word), rest);
    return lir_op3(&lo->b, LIR_AND_OR_B32, LIR_B32, lir_reg(word), lir_int(mask * BOTH),
                   lir_reg(code));
}

/* Integers that are not negative and less than the unit, in the halves of a word, below a code. */
static LirReg
two_integers(Lowering *lo, TirVal *value, Two at, LirReg code)
{
    const TirOp *op = value->def; /* NULL: bytes that a loop carries */
    bool masked = op != NULL && op->op == TIR_AND;
    const TirOp *shift = masked ? op->args[0]->def : NULL;
    Small mask = masked ? small(lo, op->args[1]) : (Small){0};

    if (shift != NULL && shift->op == TIR_SHR && mask.least == mask.most && mask.least >= 0 &&
        value->type.dtype == DT_I32) {
        Small x = small(lo, shift->args[0]), s = small(lo, shift->args[1]);
        if (x.known && x.least >= 0 && x.most <= BYTE && s.known && s.least >= 0 &&
            s.most <= HALF / 2 && mask.most <= BYTE) /* nothing of the upper half comes below it */
            return two_fields(lo, shift, at, (int64_t)mask.most, code);
        LirReg word = s.known && s.least >= 0 && s.most < 32
                          ? two_fields_of_words(lo, shift, at, (int64_t)mask.most, code)
                          : 0;
        if (word != 0)
            return word;
    }
    LirReg upper = lower_elem_reg(lo, element(lo, value, at.reg[1]), LIR_B32);
    LirReg both = join(lo, lower_elem_reg(lo, element(lo, value, at.reg[0]), LIR_B32), upper);
    return lir_op2(&lo->b, LIR_OR_B32, LIR_B32, lir_reg(both), lir_reg(code));
}

static bool
is_signed_byte(DType type, DType from)
{
    return is_byte(from) && dtype_lowest(from) < 0 && unit_of(type) >= -dtype_lowest(from);
}

/* Signed bytes as they are.  Below the code of 2^d, d 7 or more, seven digits stand for themselves,
 * and the eighth for 128, whose negative it is. */
static LirReg
two_signed_bytes(Lowering *lo, DType type, TirVal *value, Two at)
{
    LirReg unit = constant_word(lo, type, unit_of(type)), word[2];
    int64_t selector = 0;

    for (int32_t side = 0; side < 2; side++) {
        int32_t byte = at.reg[side] % 4;
        word[side] = lower_word(lo, value, at.reg[side] - byte);
        selector |= (int64_t)(byte + 4 * side) * 0x11 << 8 * side;
    }
    LirReg both = lir_op3(&lo->b, LIR_PRMT, LIR_B32, lir_reg(word[0]), lir_reg(word[1]),
                          lir_int(selector));
    LirReg digits = lir_op3(&lo->b, LIR_AND_OR_B32, LIR_B32, lir_reg(both), lir_int(0x7f * BOTH),
                            lir_reg(unit));
    LirReg sign = lir_op3(&lo->b, LIR_AND_OR_B32, LIR_B32, lir_reg(both), lir_int(0x80 * BOTH),
                          lir_reg(unit));
    return multiply_add(lo, type, sign, constant_word(lo, type, -1), digits);
}

static Biased biased(Lowering *lo, DType type, TirVal *value, Two at);

static Biased
biased_difference(Lowering *lo, DType type, const TirOp *op, Two at)
{
    Small by = small(lo, op->args[1]);
    Biased a = biased(lo, type, op->args[0], at), b;

    if (!a.known)
        return a;
    if (by.least == by.most) {
        a.above += op->op == TIR_SUB ? by.least : -by.least;
        return a;
    }
    b = op->op == TIR_SUB ? biased(lo, type, op->args[1], at) : (Biased){0};
    if (!b.known || a.above != b.above)
        return (Biased){0};
    return (Biased){true, multiply_add(lo, type, b.word, constant_word(lo, type, -1), a.word), 0};
}

static Biased
biased(Lowering *lo, DType type, TirVal *value, Two at)
{
    const TirOp *op = value->def;
    Small s = small(lo, value);
    double unit = unit_of(type);

    if (op == NULL || !has_exactly(type, s))
        return (Biased){0};
    TirVal *same = unchanged(lo, op);
    if (same != NULL)
        return biased(lo, type, same, moved(lo, op, at));
    if (op->op == TIR_CAST && dtype_bits(op->args[0]->type.dtype) == 32)
        return biased(lo, type, op->args[0], at);
    if (op->op == TIR_CAST) /* of bytes, which are integers when they are taken out of their word */
        value = op->args[0];
    if (op->op == TIR_SUB || op->op == TIR_ADD)
        return biased_difference(lo, type, op, at);
    if (is_signed_byte(type, value->type.dtype))
        return (Biased){true, two_signed_bytes(lo, type, value, at), 0};
    if (dtype_is_float(value->type.dtype) || s.least < 0 || s.most >= unit)
        return (Biased){0};
    return (Biased){true, two_integers(lo, value, at, constant_word(lo, type, unit)), unit};
}

/* A small integer as it is; 0: it is none. */
static LirReg
whole(Lowering *lo, DType type, TirVal *value, Two at)
{
    Biased b = biased(lo, type, value, at);
    double unit = unit_of(type);

    if (!b.known || fabs(b.above) > 2 * unit || b.above != floor(b.above))
        return 0;
    if (b.above == 0)
        return b.word;
    LirReg less = constant_word(lo, type, -b.above);
    return multiply_add(lo, type, b.word, constant_word(lo, type, 1), less);
}

/* Numbers of the type, which were cast to f32; 0: they are others. */
static LirReg
number(Lowering *lo, DType type, TirVal *value, Two at)
{
    const TirOp *op = value->def;
    TirVal *same = op == NULL ? NULL : unchanged(lo, op);

    if (same != NULL)
        return same->type.rank == 0 && is_moved(op) ? 0 : number(lo, type, same, moved(lo, op, at));
    if (op == NULL || op->op != TIR_CAST || op->args[0]->type.dtype != type || value->type.rank == 0)
        return 0;
    LirReg word[2];
    int64_t selector = 0;
    for (int32_t side = 0; side < 2; side++) {
        int32_t half = at.reg[side] % 2;
        word[side] = lower_word(lo, op->args[0], at.reg[side] - half);
        selector |= (int64_t)(0x10 + 0x22 * half + 0x44 * side) << 8 * side;
    }
    return selector == WHOLE_WORD && word[0] == word[1]
               ? word[0]
               : lir_op3(&lo->b, LIR_PRMT, LIR_B32, lir_reg(word[0]), lir_reg(word[1]),
                         lir_int(selector));
}

/* .. or that is a constant of the type. */
static LirReg
factor(Lowering *lo, DType type, TirVal *value, Two at)
{
    const TirOp *op = value->def;

    while (op != NULL && (op->op == TIR_CAST || op->op == TIR_BROADCAST || op->op == TIR_SPREAD))
        op = op->args[0]->def;
    if (op == NULL || op->op != TIR_CONST)
        return number(lo, type, value, at);
    return dtype_nearest(type, op->number) == op->number ? constant_word(lo, type, op->number) : 0;
}

/* Numbers that were cast to f32 from a type of 16 bits with more digits, as the sum of two numbers
 * of this type: what is left where digits are cut off, and the rest, which has the same sign.  The
 * rest has so few digits that its products with integers of `s` are exact, so that fma(i, cut, i *
 * rest) is rounded once.  False: they are others. */
static bool
cut_numbers(Lowering *lo, DType type, TirVal *value, Two at, Small s, LirReg word[2])
{
    Elem cut[2], rest[2];
    int more = 0;

    for (TirVal *same = value; same != NULL;) {
        value = same;
        if (value->def == NULL || value->type.rank == 0)
            return false;
        same = unchanged(lo, value->def);
        at = same == NULL ? at : moved(lo, value->def, at);
    }
    const TirOp *op = value->def;
    DType from = op->op == TIR_CAST ? op->args[0]->type.dtype : DT_F32;
    if (!dtype_is_float(from) || dtype_bits(from) != HALF || value->type.dtype != DT_F32)
        return false;
    frexp(fmax(-s.least, s.most), &more);
    more += (int)dtype_digits(from) - (int)dtype_digits(type);
    if (more > (int)dtype_digits(type) || dtype_highest(from) > dtype_highest(type))
        return false;
    for (uint32_t side = 0; side < 2; side++) {
        LirReg x = lower_elem_reg(lo, lower_elem(lo, value, at.reg[side]), LIR_F32);
        LirReg bits = lir_op1(&lo->b, LIR_MOV_B32, LIR_B32, lir_reg(x));
        LirReg kept = lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(bits),
                              lir_int(0xffffffffLL << (24 - dtype_digits(type)) & 0xffffffffLL));
        kept = lir_op1(&lo->b, LIR_MOV_F32, LIR_F32, lir_reg(kept));
        LirReg less = lir_op2(&lo->b, LIR_SUB_F32, LIR_F32, lir_reg(x), lir_reg(kept));
        LirReg finite = lir_op2(&lo->b, LIR_SETP_EQ_F32, LIR_PRED, lir_reg(less), lir_reg(less));
        less = lir_op3(&lo->b, LIR_SEL_F32, LIR_F32, lir_reg(less), lir_float(0), lir_reg(finite));
        less = lir_op1(&lo->b, LIR_MOV_B32, LIR_B32, lir_reg(less));
        LirReg sign = lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(bits), lir_int(0x80000000LL));
        less = lir_op2(&lo->b, LIR_OR_B32, LIR_B32, lir_reg(less), lir_reg(sign));
        cut[side] = elem_reg(kept);
        rest[side] = elem_reg(lir_op1(&lo->b, LIR_MOV_F32, LIR_F32, lir_reg(less)));
    }
    word[0] = lower_make_word(lo, type, cut);
    word[1] = lower_make_word(lo, type, rest);
    return true;
}

/* A power of two, or what stands for none at all: a constant, or the exponent of a type that has
 * nothing else. */
static bool
is_power(Lowering *lo, const TirVal *value)
{
    int more;

    for (const TirOp *op = value->def; op != NULL; op = value->def) {
        const TirVal *same = unchanged(lo, op);
        if (op->op == TIR_CONST)
            return dtype_is_float(value->type.dtype) && frexp(op->number, &more) == 0.5;
        if (same == NULL && op->op != TIR_CAST)
            return false;
        value = same != NULL ? same : op->args[0];
        if (value->type.dtype == DT_E8M0)
            return true;
        if (!dtype_is_float(value->type.dtype))
            return false;
    }
    return false;
}

/* The product of two numbers of the type, of which one is a power of two: what f32 has of it is
 * exact, or so small that it is zero in either.  0: it is another. */
static LirReg
scaled_number(Lowering *lo, DType type, const TirOp *mul, Two at)
{
    if (!is_power(lo, mul->args[0]) && !is_power(lo, mul->args[1]))
        return 0;
    LirReg x = factor(lo, type, mul->args[0], at),
           y = x == 0 ? 0 : factor(lo, type, mul->args[1], at);
    return y == 0 ? 0 : multiply_add(lo, type, x, y, constant_word(lo, type, -0.0));
}

/* Two integers of 16 bits that are made of such by bits alone, in the halves of a word; 0: they are
 * not. */
static LirReg
two_of_bits(Lowering *lo, TirVal *value, Two at, int *steps)
{
    const TirOp *op = value->def;
    LirReg a, b;

    if (op == NULL || (*steps)-- <= 0 || value->type.rank == 0)
        return 0;
    TirVal *same = unchanged(lo, op);
    if (same != NULL)
        return two_of_bits(lo, same, moved(lo, op, at), steps);
    Small s = small(lo, value), by = op->n_args > 1 ? small(lo, op->args[1]) : (Small){0};
    if (s.known && s.least >= 0 && s.most <= BYTE && op->op == TIR_AND &&
        op->args[0]->def != NULL && op->args[0]->def->op == TIR_SHR)
        return two_integers(lo, value, at, constant_word(lo, DT_F16, 0));
    if (op->op == TIR_OR) {
        a = two_of_bits(lo, op->args[0], at, steps);
        b = a == 0 ? 0 : two_of_bits(lo, op->args[1], at, steps);
        return b == 0 ? 0 : lir_op2(&lo->b, LIR_OR_B32, LIR_B32, lir_reg(a), lir_reg(b));
    }
    if (!by.known || by.least != by.most || by.least < 0)
        return 0;
    if (op->op == TIR_AND && by.most < 1 << HALF) {
        a = two_of_bits(lo, op->args[0], at, steps);
        return a == 0 ? 0
                      : lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(a),
                                lir_int((int64_t)by.most * BOTH));
    }
    s = small(lo, op->args[0]);
    if (op->op != TIR_SHL || !s.known || s.least < 0 || ldexp(s.most, (int)by.most) >= 1 << HALF)
        return 0;
    a = two_of_bits(lo, op->args[0], at, steps);
    return a == 0 ? 0
                  : lir_op2(&lo->b, LIR_SHL_B32, LIR_B32, lir_reg(a), lir_int((int64_t)by.most));
}

LirReg
lower_narrow_bits(Lowering *lo, const TirOp *op, int32_t first)
{
    int steps = MOST_STEPS;

    if (dtype_bits(op->results[0]->type.dtype) != HALF || op->args[0]->type.dtype != DT_I32 ||
        op->args[0]->type.rank == 0 || first + 1 >= lower_registers(op->args[0]))
        return 0;
    return two_of_bits(lo, op->args[0], (Two){{first, first + 1}}, &steps);
}

LirReg
lower_narrow(Lowering *lo, const TirOp *cast, int32_t first)
{
    DType type = cast->results[0]->type.dtype;
    TirVal *value = cast->op == TIR_CAST ? cast->args[0] : NULL;
    Two at = {{first, first + 1}};

    if (dtype_bits(type) != 16 || lower_opcode(TIR_FMA, type) == LIR_OPCODE_COUNT ||
        value == NULL || value->type.rank == 0 || first + 1 >= lower_registers(value))
        return 0;
    if (is_signed_byte(type, value->type.dtype))
        return two_signed_bytes(lo, type, value, at);
    if (dtype_wide(value->type.dtype) != value->type.dtype)
        return 0;
    for (int steps = 0; steps < MOST_STEPS && value->def != NULL; steps++) {
        TirVal *next = unchanged(lo, value->def);
        if (next == NULL || next->type.rank == 0)
            break;
        at = moved(lo, value->def, at);
        value = next;
    }
    const TirOp *op = value->def;
    if (op == NULL || op->op != TIR_MUL || value->type.dtype != DT_F32)
        return whole(lo, type, value, at);
    for (uint32_t k = 0; k < 2; k++) {
        if (!has_exactly(type, small(lo, op->args[k])))
            continue;
        LirReg other = number(lo, type, op->args[1 - k], at), two[2] = {0};
        bool cut = other == 0 &&
                   cut_numbers(lo, type, op->args[1 - k], at, small(lo, op->args[k]), two);
        LirReg integer = other != 0 || cut ? whole(lo, type, op->args[k], at) : 0;
        LirReg less = integer != 0 && !cut ? constant_word(lo, type, -0.0) : 0;
        if (integer != 0 && cut)
            less = multiply_add(lo, type, integer, two[1], constant_word(lo, type, -0.0));
        if (integer != 0)
            return multiply_add(lo, type, integer, cut ? two[0] : other, less);
    }
    return scaled_number(lo, type, op, at);
}

bool
lower_last_bits(const TirOp *op, int32_t reg, Elem *bits)
{
    const TirOp *range = op->op == TIR_AND ? op->args[0]->def : NULL;
    const TirOp *mask = op->op == TIR_AND ? op->args[1]->def : NULL;
    int32_t at[LAYOUT_RANK];

    if (range == NULL || range->op != TIR_IOTA || range->index[0].rows > 0 || mask == NULL ||
        mask->op != TIR_CONST || mask->integer < 0 || (mask->integer & (mask->integer + 1)) != 0)
        return false;
    const TirOp *start = range->args[0]->def;
    const Layout *layout = range->results[0]->layout;
    if (start == NULL || start->op != TIR_CONST || layout == NULL ||
        (lower_lane_mask(layout, 0) & (uint64_t)mask->integer) != 0)
        return false;
    layout_coordinates(layout, reg, 0, 0, at);
    *bits = elem_int((start->integer + at[0]) & mask->integer);
    return true;
}
