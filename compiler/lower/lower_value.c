/* lower_value.c - the elements of values: constants, index vectors, elementwise operations. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "compiler/lower/lower.h"
#include "compiler/ir/tir_compute.h"
#include "compiler/passes/util/tir_util.h"

Elem
elem_reg(LirReg reg)
{
    return (Elem){.kind = ELEM_REG, .reg = reg};
}

Elem
elem_int(int64_t value)
{
    return (Elem){.kind = ELEM_INT, .integer = value};
}

Elem
elem_float(float value)
{
    return (Elem){.kind = ELEM_FLOAT, .number = value};
}

static Elem
elem_bool(bool value)
{
    return (Elem){.kind = ELEM_BOOL, .integer = value};
}

int32_t
lower_registers(const TirVal *value)
{
    return value->type.rank == 0 || value->layout == NULL ? 1 : layout_registers(value->layout);
}

int32_t
lower_words(const TirVal *value)
{
    int32_t each = lower_per_word(value);

    return (lower_registers(value) + each - 1) / each;
}

TileState *
lower_state(Lowering *lo, const TirVal *value)
{
    TileState *state = &lo->states[value->id];

    if (state->elems == NULL) {
        size_t n = (size_t)lower_registers(value);
        state->elems = arena_array(lo->arena, Elem, n);
        state->have = arena_array(lo->arena, bool, n);
        if (lower_per_word(value) > 1)
            state->words = arena_array(lo->arena, LirReg, lower_words(value));
    }
    return state;
}

void
lower_clear(Lowering *lo, const TirVal *value)
{
    TileState *state = &lo->states[value->id];
    size_t n = (size_t)lower_registers(value);

    state->fragments = NULL;
    if (state->have != NULL)
        memset(state->have, 0, n * sizeof *state->have);
    if (state->words != NULL)
        memset(state->words, 0, (size_t)lower_words(value) * sizeof *state->words);
}

bool
lower_has_elem(Lowering *lo, TirVal *value, int32_t reg)
{
    return lower_state(lo, value)->have[reg];
}

void
lower_set_elem(Lowering *lo, TirVal *value, int32_t reg, Elem elem)
{
    TileState *state = lower_state(lo, value);
    state->elems[reg] = elem;
    state->have[reg] = true;
}

/* ---- operands ---- */

LirOperand
lower_operand(Lowering *lo, Elem elem)
{
    switch (elem.kind) {
    case ELEM_INT: return lir_int(elem.integer);
    case ELEM_FLOAT: return lir_float(elem.number);
    case ELEM_BOOL: {
        /* A constant predicate: compare a register with itself. */
        LirReg zero = lir_op1(&lo->b, LIR_MOV_B32, LIR_B32, lir_int(0));
        return lir_reg(lir_op2(&lo->b, elem.integer ? LIR_SETP_EQ_S32 : LIR_SETP_NE_S32, LIR_PRED,
                               lir_reg(zero), lir_int(0)));
    }
    case ELEM_REG: break;
    }
    if (elem.integer != 0)
        return lir_reg(
            lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(elem.reg), lir_int(elem.integer)));
    return lir_reg(elem.reg);
}

LirReg
lower_elem_reg(Lowering *lo, Elem elem, LirClass class)
{
    LirOperand operand = lower_operand(lo, elem);

    if (operand.kind == LIR_REG)
        return operand.reg;
    return lir_op1(&lo->b, class == LIR_F32 ? LIR_MOV_F32 : LIR_MOV_B32, class, operand);
}

LirOperand
lower_scalar(Lowering *lo, TirVal *value)
{
    return lower_operand(lo, lower_elem(lo, value, 0));
}

LirReg
lower_scalar_reg(Lowering *lo, TirVal *value)
{
    return lower_elem_reg(lo, lower_elem(lo, value, 0), lower_class(value->type.dtype));
}

/* ---- the thread's place ---- */

LirReg
lower_thread(Lowering *lo)
{
    LirReg thread = lir_op1(&lo->b, LIR_MOV_U32, LIR_B32, lir_symbol("%tid.x"));

    if (lo->role == NULL)
        return thread;
    return lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(thread),
                   lir_int((int32_t)lower_warps(lo) * WARP_LANES - 1));
}

LirReg
lower_lane(Lowering *lo)
{
    return lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(lower_thread(lo)), lir_int(31));
}

LirReg
lower_warp(Lowering *lo)
{
    return lir_op2(&lo->b, LIR_SHR_U32, LIR_B32, lir_reg(lower_thread(lo)), lir_int(5));
}

static int32_t
log2_exact(int64_t n)
{
    for (int32_t k = 0; k < 31; k++) {
        if (((int64_t)1 << k) == n)
            return k;
    }
    return -1;
}

Elem
lower_add(Lowering *lo, Elem a, Elem b)
{
    if (a.kind == ELEM_INT && b.kind == ELEM_INT)
        return elem_int(a.integer + b.integer);
    if (a.kind == ELEM_INT) {
        b.integer += a.integer;
        return b;
    }
    if (b.kind == ELEM_INT) {
        a.integer += b.integer;
        return a;
    }
    Elem sum = elem_reg(lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(a.reg), lir_reg(b.reg)));
    sum.integer = a.integer + b.integer;
    return sum;
}

Elem
lower_mul_const(Lowering *lo, Elem a, int64_t by)
{
    if (a.kind == ELEM_INT)
        return elem_int(a.integer * by);
    if (by == 0)
        return elem_int(0);
    if (by == 1)
        return a;
    int32_t shift = log2_exact(by);
    LirReg reg = shift >= 0 ? lir_op2(&lo->b, LIR_SHL_B32, LIR_B32, lir_reg(a.reg), lir_int(shift))
                            : lir_op2(&lo->b, LIR_MUL_S32, LIR_B32, lir_reg(a.reg), lir_int(by));
    Elem mma = elem_reg(reg);
    mma.integer = a.integer * by;
    return mma;
}

LirReg
lower_quotient(Lowering *lo, LirReg reg, int64_t by)
{
    int32_t shift = log2_exact(by);

    if (by == 1)
        return reg;
    if (shift >= 0)
        return lir_op2(&lo->b, LIR_SHR_U32, LIR_B32, lir_reg(reg), lir_int(shift));
    return lir_op2(&lo->b, LIR_DIV_U32, LIR_B32, lir_reg(reg), lir_int(by));
}

LirReg
lower_remainder(Lowering *lo, LirReg reg, int64_t by)
{
    if (log2_exact(by) >= 0)
        return lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(reg), lir_int(by - 1));
    return lir_op2(&lo->b, LIR_REM_S32, LIR_B32, lir_reg(reg), lir_int(by));
}

Elem
lower_part(Lowering *lo, Elem row, const TirIndex *part)
{
    if (row.kind == ELEM_INT)
        return elem_int(row.integer / part->inner % part->length);
    LirReg index = lower_quotient(lo, lower_elem_reg(lo, row, LIR_B32), part->inner);
    return elem_reg(lower_remainder(lo, index, part->length));
}

/* Digit `k` of `index`, as a register; the digits below it have `below` values together. */
static Elem
digit_value(Lowering *lo, LirReg index, const DigitList *list, uint32_t k, int64_t total)
{
    int64_t below = 1;
    for (uint32_t i = 0; i < k; i++)
        below *= list->at[i].extent;
    int64_t extent = list->at[k].extent;
    LirReg reg = lower_quotient(lo, index, below);
    return elem_reg(below * extent < total ? lower_remainder(lo, reg, extent) : reg);
}

static Elem
digits_part(Lowering *lo, LirReg index, const DigitList *list, uint32_t axis, int64_t total)
{
    Elem sum = elem_int(0);

    for (uint32_t k = 0; k < list->n; k++) {
        if (list->at[k].step[axis] != 0)
            sum = lower_add(lo, sum,
                            lower_mul_const(lo, digit_value(lo, index, list, k, total),
                                            list->at[k].step[axis]));
    }
    return sum;
}

Elem
lower_lane_part(Lowering *lo, const Layout *layout, uint32_t axis)
{
    Elem lane = digits_part(lo, lower_lane(lo), &layout->lane, axis, WARP_LANES);
    Elem warp = digits_part(lo, lower_warp(lo), &layout->warp, axis, lower_warps(lo));
    return lower_add(lo, lane, warp);
}

static uint32_t
digits_mask(const DigitList *list, uint32_t axis)
{
    uint32_t mask = 0;
    for (uint32_t k = 0; k < list->n; k++) {
        uint32_t step = (uint32_t)list->at[k].step[axis];
        uint32_t most = step * (uint32_t)(list->at[k].extent - 1);
        if (step == 0)
            continue;
        if (log2_exact(step) >= 0 && log2_exact(list->at[k].extent) >= 0)
            mask |= most;
        else
            mask |= ~((step & (0u - step)) - 1); /* from the lowest bit of the step up */
    }
    return mask;
}

uint32_t
lower_lane_mask(const Layout *layout, uint32_t axis)
{
    return digits_mask(&layout->lane, axis) | digits_mask(&layout->warp, axis);
}

/* ---- elementwise operations ---- */

/* What the verifier should have refused. */
static Elem
missing(Lowering *lo, const TirOp *op)
{
    lower_fault(lo, tir_op_info(op->op)->text, op->args[0]->type.dtype);
    return elem_int(0);
}

static Elem
emit_op(Lowering *lo, LirOpcode op, LirClass class, uint32_t n, const Elem *args)
{
    /* The first operand must be a register; ptxas takes constants elsewhere. */
    LirOperand x = lir_reg(lower_elem_reg(lo, args[0], class == LIR_PRED ? LIR_PRED : class));
    if (n == 1)
        return elem_reg(lir_op1(&lo->b, op, class, x));
    LirOperand y = lower_operand(lo, args[1]);
    if (n == 2)
        return elem_reg(lir_op2(&lo->b, op, class, x, y));
    return elem_reg(lir_op3(&lo->b, op, class, x, y, lower_operand(lo, args[2])));
}

static bool
is_size(const TirVal *value)
{
    return value->def != NULL && value->def->op == TIR_SIZE;
}

/* Where the registers of a warp are few, ptxas 13.0 reads the dividend of a signed division of two
 * parameters after it has written their exclusive or over it (docs/ptxas.md).  An unsigned one has
 * none, and sizes are at least 0.  Consumers have registers and keep the signed one: attention_bwd
 * at head dimension 64 spills otherwise. */
static bool
divides_unsigned(const Lowering *lo, const TirOp *op)
{
    return op->op == TIR_DIV && lo->role != NULL && lo->role->kind == ROLE_PRODUCER &&
           is_size(op->args[0]) && is_size(op->args[1]);
}

static Elem
int_op(Lowering *lo, const TirOp *op, uint32_t n, Elem *args)
{
    int64_t folded;

    if (n == 2 && args[0].kind == ELEM_INT && args[1].kind == ELEM_INT &&
        tir_compute(op->op, args[0].integer, args[1].integer, &folded))
        return elem_int((int32_t)folded);
    if (op->op == TIR_ADD)
        return lower_add(lo, args[0], args[1]);
    if (op->op == TIR_SUB && args[1].kind == ELEM_INT)
        return lower_add(lo, args[0], elem_int(-args[1].integer));
    if (op->op == TIR_SUB && args[0].kind == ELEM_REG) {
        Elem difference = elem_reg(
            lir_op2(&lo->b, LIR_SUB_S32, LIR_B32, lir_reg(args[0].reg), lir_reg(args[1].reg)));
        difference.integer = args[0].integer - args[1].integer;
        return difference;
    }
    if (op->op == TIR_MUL && args[1].kind == ELEM_INT)
        return lower_mul_const(lo, args[0], args[1].integer);
    if (op->op == TIR_MUL && args[0].kind == ELEM_INT)
        return lower_mul_const(lo, args[1], args[0].integer);
    LirOpcode lir = lower_opcode(op->op, DT_I32);
    if (lir == LIR_OPCODE_COUNT)
        return missing(lo, op);
    return emit_op(lo, divides_unsigned(lo, op) ? LIR_DIV_U32 : lir, LIR_B32, n, args);
}

/* On integers that wrap.  lir_fold.c takes what is shifted to the left for an index, which does not
 * overflow, and the upper half of a product for a quotient: a move hides that. */
static Elem
wrapping_op(Lowering *lo, const TirOp *op, uint32_t n, Elem *args)
{
    LirOpcode lir = lower_opcode(op->op, op->results[0]->type.dtype);

    if (lir == LIR_OPCODE_COUNT)
        return missing(lo, op);
    if (op->op == TIR_ADD && args[0].kind == ELEM_INT && args[1].kind == ELEM_INT)
        return elem_int(dtype_wrap(op->results[0]->type.dtype, args[0].integer + args[1].integer));
    Elem result = emit_op(lo, lir, LIR_B32, n, args);
    if (op->op == TIR_SHL || op->op == TIR_MULHI)
        result = elem_reg(lir_op1(&lo->b, LIR_MOV_U32, LIR_B32, lir_reg(result.reg)));
    return result;
}

static Elem
bool_op(Lowering *lo, const TirOp *op, uint32_t n, Elem *args)
{
    if (op->op == TIR_NOT) {
        if (args[0].kind == ELEM_BOOL)
            return elem_bool(!args[0].integer);
        return elem_reg(lir_op1(&lo->b, LIR_NOT_PRED, LIR_PRED, lir_reg(args[0].reg)));
    }
    for (uint32_t k = 0; k < n; k++) {
        const Elem *other = &args[1 - k];
        if (args[k].kind != ELEM_BOOL)
            continue;
        if (op->op == TIR_AND || (op->op == TIR_EQ && args[k].integer) ||
            (op->op == TIR_NE && !args[k].integer))
            return args[k].integer || op->op != TIR_AND ? *other : elem_bool(false);
        if (op->op == TIR_OR)
            return args[k].integer ? elem_bool(true) : *other;
    }
    bool differ = op->op == TIR_EQ || op->op == TIR_NE;
    LirOpcode lir = lower_opcode(differ ? TIR_XOR : op->op, DT_BOOL);
    if (lir == LIR_OPCODE_COUNT)
        return missing(lo, op);
    LirReg a = lower_operand(lo, args[0]).reg, b = lower_operand(lo, args[1]).reg;
    LirReg result = lir_op2(&lo->b, lir, LIR_PRED, lir_reg(a), lir_reg(b));
    if (op->op == TIR_EQ)
        result = lir_op1(&lo->b, LIR_NOT_PRED, LIR_PRED, lir_reg(result));
    return elem_reg(result);
}

Elem
lower_select(Lowering *lo, DType dtype, Elem condition, Elem yes, Elem no)
{
    if (condition.kind == ELEM_BOOL)
        return condition.integer ? yes : no;
    LirReg p = condition.reg;
    if (dtype == DT_BOOL && no.kind == ELEM_BOOL && no.integer == 0)
        return elem_reg(lir_op2(&lo->b, LIR_AND_PRED, LIR_PRED, lir_reg(p), lower_operand(lo, yes)));
    if (dtype == DT_BOOL) {
        LirReg a = lir_op2(&lo->b, LIR_AND_PRED, LIR_PRED, lir_reg(p), lower_operand(lo, yes));
        LirReg not_p = lir_op1(&lo->b, LIR_NOT_PRED, LIR_PRED, lir_reg(p));
        LirReg b = lir_op2(&lo->b, LIR_AND_PRED, LIR_PRED, lir_reg(not_p), lower_operand(lo, no));
        return elem_reg(lir_op2(&lo->b, LIR_OR_PRED, LIR_PRED, lir_reg(a), lir_reg(b)));
    }
    LirOperand a = lower_operand(lo, yes);
    return elem_reg(lir_op3(&lo->b, lower_choice(dtype), lower_class(dtype), a,
                            lower_operand(lo, no), lir_reg(p)));
}

/* Whether x / c is x * (1 / c), to the bit. */
static bool
has_exact_inverse(const Elem *c)
{
    int exponent;

    return c->kind == ELEM_FLOAT && fabs(frexp(c->number, &exponent)) == 0.5 && exponent >= -125 &&
           exponent <= 127;
}

static const TirOp *
spread_from(const TirVal *value)
{
    const TirOp *op = value->def;

    while (op != NULL && (op->op == TIR_BROADCAST || op->op == TIR_EXPAND))
        op = op->args[0]->def;
    return op;
}

/* Whether a value is a number from 1 on, an infinity or a NaN: 1 and a power, or a size, as of
 * sigmoids. */
static bool
is_from_one_on(const TirVal *value)
{
    const TirOp *op = value->def;

    for (uint32_t k = 0; op != NULL && op->op == TIR_ADD && k < 2; k++) {
        const TirOp *one = spread_from(op->args[k]), *more = spread_from(op->args[1 - k]);
        if (one != NULL && one->op == TIR_CONST && one->number >= 1 && more != NULL &&
            (more->op == TIR_EXP || more->op == TIR_EXP2 || more->op == TIR_ABS))
            return true;
    }
    return false;
}

/* 1 / x of an x from 1 on, as below; what makes a zero of infinities without a test is that its
 * reciprocal is flushed. */
static Elem
reciprocal_from_one_on(Lowering *lo, LirReg x)
{
    LirBuilder *b = &lo->b;
    LirReg small = lir_op2(b, LIR_MUL_F32, LIR_F32, lir_reg(x), lir_float(0x1p-24)),
           of = lir_op2(b, LIR_MIN_NAN_F32, LIR_F32, lir_reg(small), lir_float(FLT_MAX)),
           near = lir_op1(b, LIR_RCP_FTZ_F32, LIR_F32, lir_reg(of)),
           minus = lir_op1(b, LIR_NEG_F32, LIR_F32, lir_reg(near)),
           rest = lir_op3(b, LIR_FMA_F32, LIR_F32, lir_reg(of), lir_reg(minus), lir_float(1)),
           better = lir_op3(b, LIR_FMA_F32, LIR_F32, lir_reg(rest), lir_reg(near), lir_reg(near));

    return elem_reg(lir_op2(b, LIR_MUL_F32, LIR_F32, lir_reg(better), lir_float(0x1p-24)));
}

/* 1 / x without the branch of rcp.rn: one step from the hardware's, which is what it is where that
 * gives no number (of zeros, infinities and NaNs).  Rounded correctly; below 2^-126 rounded twice.
 * SwiGLU on an H200 has eight a thread. */
static Elem
reciprocal(Lowering *lo, LirReg x)
{
    LirBuilder *b = &lo->b;
    /* so that neither operand nor result is below 2^-126 */
    LirReg size = lir_op1(b, LIR_ABS_F32, LIR_F32, lir_reg(x)),
           large = lir_op2(b, LIR_SETP_GT_F32, LIR_PRED, lir_reg(size), lir_float(1)),
           scale = lir_op3(b, LIR_SEL_F32, LIR_F32, lir_float(0x1p-24), lir_float(0x1p24),
                           lir_reg(large)),
           of = lir_op2(b, LIR_MUL_F32, LIR_F32, lir_reg(x), lir_reg(scale)),
           near = lir_op1(b, LIR_RCP_FTZ_F32, LIR_F32, lir_reg(of)),
           minus = lir_op1(b, LIR_NEG_F32, LIR_F32, lir_reg(near)),
           rest = lir_op3(b, LIR_FMA_F32, LIR_F32, lir_reg(of), lir_reg(minus), lir_float(1)),
           better = lir_op3(b, LIR_FMA_F32, LIR_F32, lir_reg(rest), lir_reg(near), lir_reg(near)),
           number = lir_op2(b, LIR_SETP_EQ_F32, LIR_PRED, lir_reg(better), lir_reg(better)),
           right = lir_op3(b, LIR_SEL_F32, LIR_F32, lir_reg(better), lir_reg(near), lir_reg(number));

    return elem_reg(lir_op2(b, LIR_MUL_F32, LIR_F32, lir_reg(right), lir_reg(scale)));
}

static Elem
float_op(Lowering *lo, const TirOp *op, uint32_t n, Elem *args)
{
    const float log2_e = 1.44269504088896340736f, ln_2 = 0.69314718055994530942f;
    LirBuilder *b = &lo->b;

    switch (op->op) {
    case TIR_EXP:
    case TIR_EXP2: {
        LirReg x = lower_elem_reg(lo, args[0], LIR_F32);
        if (op->op == TIR_EXP)
            x = lir_op2(b, LIR_MUL_F32, LIR_F32, lir_reg(x), lir_float(log2_e));
        return elem_reg(lir_op1(b, lo->fast ? LIR_EX2_FTZ_F32 : LIR_EX2_F32, LIR_F32, lir_reg(x)));
    }
    case TIR_LOG: {
        LirReg x = lower_elem_reg(lo, args[0], LIR_F32);
        x = lir_op1(b, LIR_LG2_F32, LIR_F32, lir_reg(x));
        return elem_reg(lir_op2(b, LIR_MUL_F32, LIR_F32, lir_reg(x), lir_float(ln_2)));
    }
    default: {
        LirOpcode usual = lower_opcode(op->op, DT_F32);
        bool scalar = op->results[0]->type.rank == 0;
        if (usual == LIR_OPCODE_COUNT)
            return missing(lo, op);
        if (op->op == TIR_DIV && has_exact_inverse(&args[1]))
            return emit_op(lo, LIR_MUL_F32, LIR_F32, 2,
                           (Elem[]){args[0], elem_float(1 / args[1].number)});
        bool straight = lo->fast && (lo->role != NULL || scalar);
        if (op->op == TIR_RCP && lo->fast && !straight && !lo->products)
            return is_from_one_on(op->args[0])
                       ? reciprocal_from_one_on(lo, lower_elem_reg(lo, args[0], LIR_F32))
                       : reciprocal(lo, lower_elem_reg(lo, args[0], LIR_F32));
        LirOpcode lir = straight && op->op == TIR_DIV   ? LIR_DIV_FULL_F32
                        : straight && op->op == TIR_RCP ? LIR_RCP_APPROX_F32
                        : !op->rounded                  ? usual
                        : op->op == TIR_MUL             ? LIR_MUL_RN_F32
                        : op->op == TIR_ADD             ? LIR_ADD_RN_F32
                                                        : LIR_SUB_RN_F32;
        return emit_op(lo, lir, LIR_F32, n, args);
    }
    }
}

bool
lower_mask_is_live(const Lowering *lo, const TirOp *op)
{
    return (op->segments >> lo->segment & 1) != 0;
}

/* Element `reg` of an elementwise operation, before rounding to the result's type. */
static Elem
elementwise(Lowering *lo, const TirOp *op, int32_t reg)
{
    DType dtype = op->results[0]->type.dtype;
    Elem args[3];

    if (tir_is_mask(op)) {
        args[0] = lower_elem(lo, op->args[0], reg);
        if (!lower_mask_is_live(lo, op))
            return args[0];
        args[1] = lower_elem(lo, op->args[1], reg);
        Elem fill = elem_float(op->op == TIR_MASK ? -INFINITY : (float)op->number);
        if (lower_class(dtype) == LIR_B32)
            fill = elem_int((int64_t)op->number);
        if (lower_class(dtype) == LIR_PRED)
            fill = elem_bool(op->number != 0);
        return lower_select(lo, dtype, args[1], args[0], fill);
    }
    if (op->op == TIR_BITS)
        return lower_elem_of_bits(lo, dtype, lower_alone(lo, op->args[0], reg));
    if (lower_last_bits(op, reg, &args[0]))
        return args[0];
    for (uint32_t k = 0; k < op->n_args; k++)
        args[k] = lower_elem(lo, op->args[k], op->args[k]->type.rank == 0 ? 0 : reg);
    if (op->op == TIR_CAST)
        return lower_cast(lo, op->args[0]->type.dtype, dtype, args[0]);
    if (op->op == TIR_SELECT)
        return lower_select(lo, dtype, args[0], args[1], args[2]);
    if (dtype == DT_BOOL && op->args[0]->type.dtype != DT_BOOL)
        return lower_comparison(lo, op, args[0], args[1]);
    switch (dtype_wide(dtype)) {
    case DT_BOOL: return bool_op(lo, op, op->n_args, args);
    case DT_I32: return int_op(lo, op, op->n_args, args);
    case DT_F32: return float_op(lo, op, op->n_args, args);
    default: return wrapping_op(lo, op, op->n_args, args);
    }
}

/* For each register of what is spread, the operand's in the same thread. */
static const int32_t *
spread_map(Lowering *lo, const TirOp *op)
{
    const Layout *from = op->args[0]->layout, *to = op->results[0]->layout;
    int32_t n = layout_registers(to), m = layout_registers(from);
    int32_t *map = arena_array(lo->arena, int32_t, n);
    LayoutPart part = op_part(op);

    for (int32_t reg = 0; reg < n; reg++) {
        int32_t want[LAYOUT_RANK], have[LAYOUT_RANK];
        layout_coordinates(to, reg, 0, 0, want);
        int32_t along = want[part.axis];
        want[part.axis] = along % part.inner + along / part.inner / part.length * part.inner;
        for (int32_t k = 0; k < m; k++) {
            layout_coordinates(from, k, 0, 0, have);
            if (have[0] == want[0] && have[1] == want[1])
                map[reg] = k;
        }
    }
    return map;
}

int32_t
lower_operand_register(Lowering *lo, const TirOp *op, int32_t reg)
{
    const TirVal *arg = op->args[0], *result = op->results[0];
    TileState *state = lower_state(lo, result);

    if (arg->type.rank == 0)
        return 0;
    if (op->op == TIR_TRANSPOSE)
        return reg;
    if (state->map == NULL) {
        const Layout *from = arg->layout;
        if (op->op == TIR_EXPAND)
            from = layout_expand(lo->arena, arg->layout, op->axis);
        if (op->op == TIR_SQUEEZE) {
            const Layout *to = layout_expand(lo->arena, result->layout, op->axis);
            state->map = layout_register_map(lo->arena, from, to);
        } else if (op->op == TIR_SPREAD) {
            state->map = spread_map(lo, op);
        } else {
            state->map = layout_register_map(lo->arena, from, result->layout);
        }
    }
    return state->map == NULL ? 0 : state->map[reg];
}

static Elem
const_elem(const TirOp *op)
{
    DType dtype = op->results[0]->type.dtype;
    switch (lower_class(dtype)) {
    case LIR_B32: return elem_int(op->integer);
    case LIR_PRED: return elem_bool(op->integer != 0);
    default: return elem_float(dtype_nearest(dtype, op->number)); /* in its wide type, f32 */
    }
}

static Elem
leaf_or_shape(Lowering *lo, TirOp *op, int32_t reg)
{
    LirBuilder *b = &lo->b;

    switch (op->op) {
    case TIR_CONST: return const_elem(op);
    case TIR_PARAM: {
        const TirScalar *scalar = &lo->fn->scalars.at[op->integer];
        LirOperand at = {
            .kind = LIR_ADDRESS,
            .symbol = arena_printf(lo->out->arena, "%s_p_%s", lo->fn->name, scalar->name)};
        LirClass class = lower_class(scalar->dtype);
        LirOpcode lir = class == LIR_B32 ? LIR_LD_PARAM_B32 : LIR_LD_PARAM_F32;
        return elem_reg(lir_op1(b, lir, class, at));
    }
    case TIR_SIZE: {
        LirOperand at = {.kind = LIR_ADDRESS,
                         .symbol = arena_printf(lo->out->arena, "%s_n_%s", lo->fn->name,
                                                lo->fn->sizes.at[op->integer].name)};
        return elem_reg(lir_op1(b, LIR_LD_PARAM_B32, LIR_B32, at));
    }
    case TIR_GRID_FIRST: /* without a plan a block has one program */
    case TIR_GRID: {
        if (lo->role != NULL && op->op == TIR_GRID_FIRST)
            return lower_first_program(lo, op);
        if (lo->role != NULL)
            return op->uniform ? lo->role->grid[op->integer]
                               : lower_lane_grid(lo, (uint32_t)op->integer);
        static const char *const names[] = {"%ctaid.x", "%ctaid.y", "%ctaid.z"};
        static const char *const counts[] = {"%nctaid.x", "%nctaid.y", "%nctaid.z"};
        LirReg index = lir_op1(b, LIR_MOV_U32, LIR_B32, lir_symbol(names[op->integer]));
        if (!lo->fn->grid.at[op->integer].reversed)
            return elem_reg(index);
        LirReg count = lir_op1(b, LIR_MOV_U32, LIR_B32, lir_symbol(counts[op->integer]));
        Elem last = elem_reg(lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(count), lir_reg(index)));
        last.integer = -1;
        return last;
    }
    case TIR_CONSUMER: {
        Elem consumer = elem_reg(lo->role->group);
        consumer.integer = -1;
        return consumer;
    }
    case TIR_IOTA: {
        const Layout *layout = op->results[0]->layout;
        int32_t at[LAYOUT_RANK];
        layout_coordinates(layout, reg, 0, 0, at);
        Elem start = lower_elem(lo, op->args[0], 0);
        Elem lane = lower_lane_part(lo, layout, 0);
        if (op->index[0].rows > 0) {
            Elem row = lower_add(lo, lane, elem_int(at[0]));
            return lower_add(lo, start, lower_part(lo, row, &op->index[0]));
        }
        return lower_add(lo, lower_add(lo, start, lane), elem_int(at[0]));
    }
    case TIR_TMEM_READ: return lower_tmem_elem(lo, op, reg);
    default: { /* a shape operation, or a conversion inside the thread */
        TirVal *arg = op->args[0];
        return lower_elem(lo, arg, lower_operand_register(lo, op, reg));
    }
    }
}

static bool
is_shape_op(const TirOp *op)
{
    return op->op == TIR_EXPAND || op->op == TIR_SQUEEZE || op->op == TIR_BROADCAST ||
           op->op == TIR_SPREAD || op->op == TIR_TRANSPOSE || op->op == TIR_CONVERT;
}

/* Element `reg` as it is computed, before it is rounded to what a word has. */
static Elem
made_elem(Lowering *lo, TirOp *op, int32_t reg)
{
    bool flat = (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0;

    return flat ? elementwise(lo, op, reg) : leaf_or_shape(lo, op, reg);
}

/* Whether the operand of a shape operation has `n` registers of the result, from `first` on, in one
 * of its words, too: from register *from on. */
static bool
find_operand_word(Lowering *lo, const TirOp *op, int32_t first, int32_t n, int32_t *from)
{
    *from = lower_operand_register(lo, op, first);
    for (int32_t k = 1; k < n; k++) {
        if (lower_operand_register(lo, op, first + k) != *from + k)
            return false;
    }
    return *from % lower_per_word(op->results[0]) == 0;
}

/* The same of a type whose codes are moved, of what is no cast. */
static Elem
made_code(Lowering *lo, TirOp *op, int32_t reg)
{
    DType dtype = op->results[0]->type.dtype;
    Elem args[3];

    if (op->op == TIR_CONST)
        return lower_code(lo, op->results[0], reg);
    if (is_shape_op(op))
        return lower_code(lo, op->args[0], lower_operand_register(lo, op, reg));
    for (uint32_t k = 0; k < op->n_args && k < 3; k++) {
        int32_t at = op->args[k]->type.rank == 0 ? 0 : reg;
        args[k] = op->args[k]->type.dtype == dtype ? lower_code(lo, op->args[k], at)
                                                   : lower_elem(lo, op->args[k], at);
    }
    if (op->op == TIR_SELECT)
        return lower_select(lo, DT_I32, args[0], args[1], args[2]);
    if (op->op != TIR_BOUNDS_MASK)
        return missing(lo, op);
    return lower_mask_is_live(lo, op)
               ? lower_select(lo, DT_I32, args[1], args[0], elem_int(dtype_code(dtype, op->number)))
               : args[0];
}

static LirReg
make_word(Lowering *lo, TirVal *value, int32_t word)
{
    TirOp *op = value->def;
    DType dtype = value->type.dtype;
    int32_t each = lower_per_word(value), first = each * word, at;
    int32_t n = lower_registers(value) - first < each ? lower_registers(value) - first : each;
    Elem elems[MOST_OF_WORD];

    if (op->op == TIR_CONVERT && lower_has_elem(lo, value, first)) { /* made one by one */
        for (int32_t k = 0; k < each; k++)
            elems[k] = lower_elem(lo, value, first + (k < n ? k : 0));
        return lower_make_word(lo, dtype, elems);
    }
    if (is_shape_op(op) && op->args[0]->type.rank > 0 && find_operand_word(lo, op, first, n, &at))
        return lower_word(lo, op->args[0], at);
    if (op->op == TIR_BITS && lower_per_word(op->args[0]) == each)
        return lower_word(lo, op->args[0], first);
    if (tir_is_mask(op) && !lower_mask_is_live(lo, op)) /* the same words */
        return lower_word(lo, op->args[0], first);
    LirReg narrow = op->op == TIR_BITS ? lower_narrow_bits(lo, op, first)
                                       : lower_narrow(lo, op, first);
    if (op->op == TIR_BITS && narrow == 0)
        return lower_join_lower(lo, op->args[0], first, n);
    if (narrow != 0)
        return narrow;
    bool coded = dtype_is_coded(dtype) && op->op != TIR_CAST;
    for (int32_t k = 0; k < n; k++)
        elems[k] = coded ? made_code(lo, op, first + k) : made_elem(lo, op, first + k);
    for (int32_t k = n; k < each; k++)
        elems[k] = dtype_is_float(dtype) && !coded ? elem_float(0) : elem_int(0);
    return coded ? lower_join_codes(lo, elems) : lower_make_word(lo, dtype, elems);
}

static void
borrow(Lowering *lo, const TirVal *value, TileState *state, int32_t at, bool word)
{
    Borrowed borrowed = {state, at, word};
    if (value->block != lo->block)
        vec_push(lo->arena, &lo->borrowed, borrowed);
}

void
lower_keep_elem(Lowering *lo, TirVal *value, int32_t reg, Elem elem)
{
    lower_set_elem(lo, value, reg, elem);
    borrow(lo, value, lower_state(lo, value), reg, false);
}

void
lower_forget(Lowering *lo, uint32_t n)
{
    for (uint32_t k = n; k < lo->borrowed.n; k++) {
        const Borrowed *borrowed = &lo->borrowed.at[k];
        if (borrowed->word)
            borrowed->state->words[borrowed->at] = 0;
        else
            borrowed->state->have[borrowed->at] = false;
    }
    lo->borrowed.n = n;
}

LirReg
lower_shared_word(Lowering *lo, TirVal *value, int32_t word)
{
    TileState *state = lower_state(lo, value);

    if (state->words[word] == 0) {
        LirReg made = make_word(lo, value, word);
        state->words[word] = made;
        borrow(lo, value, state, word, true);
    }
    return state->words[word];
}

Elem
lower_elem(Lowering *lo, TirVal *value, int32_t reg)
{
    TileState *state = lower_state(lo, value);

    if (state->have[reg])
        return state->elems[reg];
    Elem elem, two[2];
    TirOp *op = value->def;
    int32_t each = lower_per_word(value);
    Span asked = lo->b.span; /* by whom: what makes the value is another line's */
    lo->b.span = op != NULL && op->span.lo != 0 ? op->span : asked;
    if (each > 1 && op != NULL && op->op == TIR_SPREAD) { /* neighbours are one element */
        elem = made_elem(lo, op, reg);
    } else if (each > 1 && (op == NULL || op->op != TIR_CONST)) {
        elem = lower_elem_of_word(lo, value->type.dtype, lower_word(lo, value, reg), reg % each);
    } else if (lower_mask_run(lo, op, reg)) {
        lo->b.span = asked;
        return state->elems[reg];
    } else if (lower_two(lo, op, reg, two)) {
        elem = two[reg & 1];
        lower_keep_elem(lo, value, reg ^ 1, two[~reg & 1]);
    } else {
        elem = made_elem(lo, op, reg);
    }
    lo->b.span = asked;
    state->elems[reg] = elem;
    state->have[reg] = true;
    borrow(lo, value, state, reg, false);
    return elem;
}

void
lower_force(Lowering *lo, TirVal *value)
{
    int32_t n = lower_registers(value), each = lower_per_word(value);

    for (int32_t reg = 0; reg < n; reg += each) {
        if (each > 1)
            lower_word(lo, value, reg);
        else
            lower_elem(lo, value, reg);
    }
}
