/* lir_fold.c - integer arithmetic on constants, done while lane IR is built.
 *
 * Operations on constants are computed; operations with one constant operand are simplified.  A
 * division by a constant becomes shifts and a multiplication: ptxas makes some 20 instructions of a
 * division, one of them on the special function unit.
 *
 * The quotient of 0 <= x <= 2^31 by d, 2^(s - 1) < d <= 2^s, is x * m >> (31 + s) with
 * m = 2^(31 + s) / d, rounded up: m d exceeds 2^(31 + s) by less than d, so that x times the excess
 * stays below 2^(31 + s), and the product does not reach the next multiple of d.  (Granlund and
 * Montgomery, "Division by invariant integers using multiplication", 1994.)
 */
#include "compiler/ir/lir.h"

#include "compiler/ir/lir_fold.h"

#include <string.h>

enum {
    /* how far definitions are followed: a bound on work, deeper chains stay as they are */
    DEEPEST = 8,
    INT_BITS = 32
};

static bool
constant(const LirBuilder *b, const LirOperand *operand, int64_t *value)
{
    const LirOperand *at = operand;

    if (at->kind == LIR_REG) {
        const LirInsn *def = b->fn->regs.at[at->reg].def;
        if (def == NULL || def->op != LIR_MOV_B32)
            return false;
        at = &def->operands[1];
    }
    *value = at->integer;
    return at->kind == LIR_INT;
}

static bool
is_size(const LirBuilder *b, const char *symbol)
{
    for (uint32_t k = 0; k < b->fn->params.n; k++) {
        const LirParam *param = &b->fn->params.at[k];
        if (strcmp(param->name, symbol) == 0)
            return param->kind == LIR_PARAM_SIZE || param->kind == LIR_PARAM_ZERO;
    }
    return false;
}

/* Whether one of two integers is a constant, and the other one no less than its negative: a maximum
 * with a constant. */
static bool
makes_up_for(const LirBuilder *b, const LirOperand *sum)
{
    int64_t least, more;

    for (uint32_t k = 0; k < 2; k++) {
        const LirOperand *other = &sum[1 - k];
        const LirInsn *def = other->kind == LIR_REG ? b->fn->regs.at[other->reg].def : NULL;
        if (def == NULL || def->op != LIR_MAX_S32 || !constant(b, &sum[k], &more))
            continue;
        if ((constant(b, &def->operands[1], &least) && least + more >= 0) ||
            (constant(b, &def->operands[2], &least) && least + more >= 0))
            return true;
    }
    return false;
}

/* Whether an integer is known to be at least 0; what computes sizes and indices does not
 * overflow. */
static bool
is_positive(const LirBuilder *b, const LirOperand *operand, uint32_t depth)
{
    int64_t value;

    if (constant(b, operand, &value)) /* of 32 bits: with a sign or without one */
        return value >= 0 && value <= INT32_MAX;
    if (operand->kind != LIR_REG || depth == DEEPEST)
        return false;
    const LirInsn *def = b->fn->regs.at[operand->reg].def;
    if (def == NULL)
        return false;
    const LirOperand *x = def->operands + 1;
    switch (def->op) {
    case LIR_MOV_U32: /* a special register */ return x->kind == LIR_SYMBOL && x->symbol[0] == '%';
    case LIR_LD_PARAM_B32: return x->symbol != NULL && is_size(b, x->symbol);
    case LIR_ADD_S32:
        if (makes_up_for(b, x))
            return true;
        return is_positive(b, x, depth + 1) && is_positive(b, x + 1, depth + 1);
    case LIR_MUL_S32:
    case LIR_DIV_S32:
    case LIR_DIV_U32:
    case LIR_MIN_S32: return is_positive(b, x, depth + 1) && is_positive(b, x + 1, depth + 1);
    case LIR_MAD_S32:
        return is_positive(b, x, depth + 1) && is_positive(b, x + 1, depth + 1) &&
               is_positive(b, x + 2, depth + 1);
    case LIR_SEL_B32: return is_positive(b, x, depth + 1) && is_positive(b, x + 1, depth + 1);
    case LIR_MAX_S32:
    case LIR_AND_B32: return is_positive(b, x, depth + 1) || is_positive(b, x + 1, depth + 1);
    case LIR_SHR_U32:
        return constant(b, x + 1, &value) ? value > 0 || is_positive(b, x, depth + 1) : false;
    case LIR_REM_S32:
    case LIR_SHL_B32:
    case LIR_SHR_S32: return is_positive(b, x, depth + 1);
    case LIR_MUL_HI_U32:
        return constant(b, x, &value) || constant(b, x + 1, &value) ? value >= 0 : false;
    default: return false;
    }
}

static bool
compute(LirOpcode op, int32_t x, int32_t y, int64_t *value)
{
    switch (op) {
    case LIR_ADD_S32: *value = (int32_t)((uint32_t)x + (uint32_t)y); return true;
    case LIR_SUB_S32: *value = (int32_t)((uint32_t)x - (uint32_t)y); return true;
    case LIR_MUL_S32: *value = (int32_t)((uint32_t)x * (uint32_t)y); return true;
    case LIR_MIN_S32: *value = x < y ? x : y; return true;
    case LIR_MAX_S32: *value = x > y ? x : y; return true;
    case LIR_AND_B32: *value = x & y; return true;
    case LIR_SHL_B32: *value = (int32_t)((uint32_t)x << (y & 31)); return y >= 0 && y < INT_BITS;
    case LIR_DIV_S32: *value = y > 0 ? x / y : 0; return y > 0;
    case LIR_REM_S32: *value = y > 0 ? x % y : 0; return y > 0;
    case LIR_DIV_U32: *value = y > 0 ? x / y : 0; return y > 0 && x >= 0;
    default: return false;
    }
}

static int32_t
log2_of(int64_t value)
{
    for (int32_t k = 0; k < INT_BITS - 1; k++) {
        if (value == (int64_t)1 << k)
            return k;
    }
    return -1;
}

static LirReg
quotient(LirBuilder *b, LirOperand x, int64_t by)
{
    int32_t shift = log2_of(by), up = 0;

    if (shift >= 0)
        return lir_op2(b, LIR_SHR_U32, LIR_B32, x, lir_int(shift));
    while ((int64_t)1 << up < by)
        up++;
    uint64_t power = (uint64_t)1 << (INT_BITS - 1 + up);
    int64_t m = (int64_t)((power + (uint64_t)by - 1) / (uint64_t)by);
    LirReg high = lir_op2(b, LIR_MUL_HI_U32, LIR_B32, x, lir_int(m));
    return lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(high), lir_int(up - 1));
}

/* `x` / `by`, rounded toward 0. */
static LirReg
divided(LirBuilder *b, LirOperand x, int64_t by, bool positive)
{
    int32_t shift = log2_of(by);

    if (positive)
        return quotient(b, x, by);
    LirReg sign = lir_op2(b, LIR_SHR_S32, LIR_B32, x, lir_int(INT_BITS - 1));
    if (shift >= 0) { /* by - 1 more when it is negative */
        LirReg more = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(sign), lir_int(INT_BITS - shift));
        LirReg sum = lir_op2(b, LIR_ADD_S32, LIR_B32, x, lir_reg(more));
        return lir_op2(b, LIR_SHR_S32, LIR_B32, lir_reg(sum), lir_int(shift));
    }
    LirReg up = quotient(b, lir_reg(lir_op1(b, LIR_ABS_S32, LIR_B32, x)), by);
    up = lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(up), lir_reg(sign));
    return lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(up), lir_reg(sign));
}

static bool
same_reg(const LirOperand *a, const LirOperand *b)
{
    return a->kind == LIR_REG && b->kind == LIR_REG && a->reg == b->reg;
}

static bool
gives(LirOperand operand, LirReg *result)
{
    *result = operand.reg;
    return operand.kind == LIR_REG;
}

static bool
gives_constant(LirBuilder *b, int64_t value, LirReg *result)
{
    *result = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(value));
    return true;
}

static bool
fold_divisions(LirBuilder *b, LirOpcode op, LirOperand x, int64_t by, LirReg *result)
{
    bool positive = op == LIR_DIV_U32 || is_positive(b, &x, 0);
    int32_t shift = log2_of(by);

    if (by <= 0 || x.kind != LIR_REG || (op == LIR_DIV_U32 && shift < 0 && !is_positive(b, &x, 0)))
        return false;
    if (by == 1 && op == LIR_REM_S32)
        return gives_constant(b, 0, result);
    if (by == 1)
        return gives(x, result);
    if (op == LIR_REM_S32 && positive && shift > 0) {
        *result = lir_op2(b, LIR_AND_B32, LIR_B32, x, lir_int(by - 1));
        return true;
    }
    *result = divided(b, x, by, positive);
    if (op == LIR_REM_S32) {
        LirReg whole = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(*result), lir_int(by));
        *result = lir_op2(b, LIR_SUB_S32, LIR_B32, x, lir_reg(whole));
    }
    return true;
}

bool
lir_fold(LirBuilder *b, LirOpcode op, uint32_t n, LirOperand *sources, LirReg *result)
{
    int64_t x = 0, y = 0;

    if (n != 2)
        return op == LIR_SEL_B32 && same_reg(&sources[0], &sources[1]) && gives(sources[0], result);
    bool left = constant(b, &sources[0], &x), right = constant(b, &sources[1], &y);
    if (!left & !right & (op != LIR_MIN_S32) & (op != LIR_MAX_S32))
        return false;
    if (left && right && compute(op, (int32_t)x, (int32_t)y, &x))
        return gives_constant(b, x, result);
    if (left && !right && (lir_op_info(op)->flags & LF_COMMUTES) != 0) {
        LirOperand first = sources[0];
        sources[0] = sources[1];
        sources[1] = first;
        right = true;
        y = x;
    }
    if ((op == LIR_MIN_S32 || op == LIR_MAX_S32) && same_reg(&sources[0], &sources[1]))
        return gives(sources[0], result);
    if (op == LIR_MAX_S32 && right && y == 0 && is_positive(b, &sources[0], 0))
        return gives(sources[0], result);
    if (!right)
        return false;
    sources[1] = lir_int(y);
    switch (op) {
    case LIR_ADD_S32:
    case LIR_SUB_S32:
    case LIR_SHL_B32: return y == 0 && gives(sources[0], result);
    case LIR_MUL_S32:
        return y == 0 ? gives_constant(b, 0, result) : y == 1 && gives(sources[0], result);
    case LIR_DIV_S32:
    case LIR_DIV_U32:
    case LIR_REM_S32: return fold_divisions(b, op, sources[0], y, result);
    default: return false;
    }
}
