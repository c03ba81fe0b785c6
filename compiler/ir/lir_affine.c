/* lir_affine.c - loops of lane IR, and what grows evenly in them. */
#include "compiler/ir/lir_affine.h"

/* ---- the loop ---- */

/* Whether it is entered from above only, and left and repeated by one branch at its end. */
static bool
is_plain(const LirFn *fn, LirExtent loop)
{
    bool *inside = arena_array(fn->scratch, bool, fn->labels + 1);

    for (uint32_t i = loop.first; i <= loop.last; i++) {
        if (fn->insns.at[i]->op == LIR_LABEL)
            inside[fn->insns.at[i]->operands[0].integer] = true;
    }
    int64_t head = fn->insns.at[loop.first]->operands[0].integer;
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->op > LIR_BRA_UNI || insn->op < LIR_BRA || !inside[insn->operands[0].integer])
            continue;
        bool is_in = i >= loop.first && i <= loop.last;
        if (!is_in || (insn->operands[0].integer == head && i != loop.last))
            return false;
    }
    return true;
}

/* Marks what a branch jumps over, or what lies between a label and a branch back to it. */
static void
find_skipped(AffineLoop *c)
{
    const LirFn *fn = c->fn;
    uint32_t *from = arena_array(fn->scratch, uint32_t, fn->labels + 1), n = fn->insns.n;
    int32_t *change = arena_array(fn->scratch, int32_t, n + 2), depth = 0;

    c->skipped = arena_array(fn->scratch, bool, n + 1);
    for (uint32_t i = c->extent.first + 1; i < c->extent.last; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->op > LIR_BRA_UNI || insn->op == LIR_COMMENT)
            continue;
        uint32_t *first = &from[insn->operands[0].integer];
        if (*first == 0) {
            *first = i + 1;
        } else {
            change[*first]++;
            change[i + 1]--;
        }
    }
    for (uint32_t i = c->extent.first; i <= c->extent.last; i++) {
        depth += change[i];
        c->skipped[i] = depth > 0;
    }
}

static void
count_definitions(AffineLoop *c)
{
    const LirFn *fn = c->fn;

    c->regs = fn->regs.n;
    c->defs = arena_array(fn->scratch, uint32_t, c->regs);
    for (uint32_t i = c->extent.first; i <= c->extent.last; i++) {
        const LirInsn *insn = fn->insns.at[i];
        for (uint32_t k = 0; k < insn->n_dst; k++)
            c->defs[insn->operands[k].reg]++;
    }
}

/* `add r, r, constant` */
static bool
adds_constant(const LirInsn *insn)
{
    return insn->op == LIR_ADD_S32 && insn->guard == 0 && insn->operands[1].kind == LIR_REG &&
           insn->operands[1].reg == insn->operands[0].reg && insn->operands[2].kind == LIR_INT;
}

/* ---- affine values ---- */

bool
affine_take_counter(AffineLoop *c, uint32_t at)
{
    const LirInsn *insn = c->fn->insns.at[at];

    if (!adds_constant(insn) || c->skipped[at] || c->defs[insn->operands[0].reg] != 1)
        return false;
    c->step_at = at;
    c->step = insn->operands[2].integer;
    c->counter = insn->operands[0].reg;
    return true;
}

Affine *
affine_of(const AffineLoop *c, LirReg reg)
{
    return reg != 0 && c->slot[reg] != 0 ? &c->values.at[c->slot[reg] - 1] : NULL;
}

static bool
grows(const AffineLoop *c, const LirOperand *operand)
{
    return operand->kind == LIR_REG &&
           (operand->reg == c->counter || affine_of(c, operand->reg) != NULL);
}

bool
affine_is_invariant(const AffineLoop *c, const LirOperand *operand)
{
    return operand->kind == LIR_INT || (operand->kind == LIR_REG && c->defs[operand->reg] == 0);
}

/* What the operand that grows is multiplied by; false: by something that is no constant. */
static bool
multiplier(const LirInsn *insn, uint32_t which, int64_t *by)
{
    const LirOperand *other = &insn->operands[which == 1 ? 2 : 1];

    *by = 1;
    switch (insn->op) {
    case LIR_SUB_S32:
    case LIR_SUB_S64: *by = which == 2 ? -1 : 1; return true;
    case LIR_SHL_B32:
    case LIR_SHL_B64: *by = (int64_t)1 << other->integer; return true;
    case LIR_MUL_S32:
    case LIR_MUL_S64: *by = other->integer; return other->kind == LIR_INT;
    case LIR_MAD_S32:
    case LIR_MAD_S64:
        *by = which == 3 ? 1 : other->integer;
        return which == 3 || other->kind == LIR_INT;
    default: return true;
    }
}

/* The operand of `insn` that makes its result affine: the one that grows, where all others are
 * invariant; 0: it is not. */
static uint32_t
growing_operand(const AffineLoop *c, const LirInsn *insn)
{
    uint32_t which = 0;

    switch (insn->op) {
    case LIR_ADD_S32:
    case LIR_SUB_S32:
    case LIR_MUL_S32:
    case LIR_MAD_S32:
    case LIR_SHL_B32:
    case LIR_ADD_S64:
    case LIR_SUB_S64:
    case LIR_MUL_S64:
    case LIR_MAD_S64:
    case LIR_SHL_B64:
    case LIR_CVT_S64_S32: break;
    default: return 0;
    }
    if (insn->guard != 0 || c->fn->regs.at[insn->operands[0].reg].is_mutable)
        return 0;
    for (uint32_t k = 1; k < insn->n; k++) {
        if (grows(c, &insn->operands[k]) && which == 0)
            which = k;
        else if (!affine_is_invariant(c, &insn->operands[k]))
            return 0;
    }
    bool is_shift = insn->op == LIR_SHL_B32 || insn->op == LIR_SHL_B64;
    return is_shift && (which == 2 || insn->operands[2].kind != LIR_INT) ? 0 : which;
}

/* Machine instructions, about. */
uint32_t
affine_cost(const LirInsn *insn)
{
    switch (insn->op) {
    case LIR_MUL_S64: return 3;
    case LIR_MAD_S64: return 4;
    case LIR_ADD_S64:
    case LIR_SUB_S64:
    case LIR_SHL_B64: return 2;
    default: return 1;
    }
}

uint32_t
affine_find(AffineLoop *c)
{
    uint32_t cost = 0;

    c->slot = arena_array(c->fn->scratch, uint32_t, c->fn->regs.n);
    c->values.n = 0;
    for (uint32_t i = c->extent.first; i < c->step_at; i++) {
        LirInsn *insn = c->fn->insns.at[i];
        uint32_t which = growing_operand(c, insn);
        if (which == 0)
            continue;
        Affine value = {.reg = insn->operands[0].reg, .insn = insn, .factor = 1, .is_known = true};
        const Affine *from = affine_of(c, insn->operands[which].reg);
        if (from != NULL) {
            value.factor = from->factor;
            value.is_known = from->is_known;
        }
        int64_t by;
        value.is_known &= multiplier(insn, which, &by);
        value.factor *= by;
        vec_push(c->fn->scratch, &c->values, value);
        c->slot[value.reg] = c->values.n;
        cost += affine_cost(insn);
    }
    return cost;
}

/* ---- in front of the loop ---- */

LirReg
affine_new_reg(AffineLoop *c, LirClass class, bool is_mutable)
{
    LirRegInfo info = {.class = class, .is_mutable = is_mutable};

    vec_push(c->fn->arena, &c->fn->regs, info);
    return c->fn->regs.n - 1;
}

LirInsn *
affine_new_insn(AffineLoop *c, LirOpcode op, LirReg to, LirOperand x, LirOperand y)
{
    LirInsn *insn = arena_new(c->fn->arena, LirInsn);
    LirOperand operands[] = {lir_reg(to), x, y};

    insn->op = op;
    lir_note_op(c->fn, op);
    insn->n_dst = 1;
    insn->n = lir_op_info(op)->groups[3] == '\0' ? 2 : 3;
    insn->operands = arena_copy(c->fn->arena, operands, insn->n * sizeof *operands);
    insn->span = c->fn->insns.at[c->step_at]->span;
    return insn;
}

LirReg
affine_in_front(AffineLoop *c, LirReg reg, LirReg last)
{
    Affine *value = affine_of(c, reg);

    if (reg == c->counter)
        return last != 0 ? last : reg;
    if (value == NULL)
        return reg;
    LirReg *made = last != 0 ? &value->last : &value->first;
    if (*made != 0)
        return *made;
    LirInsn *insn = arena_copy(c->fn->arena, value->insn, sizeof *insn);
    insn->operands = arena_copy(c->fn->arena, insn->operands, insn->n * sizeof *insn->operands);
    for (uint32_t k = 1; k < insn->n; k++) {
        if (insn->operands[k].kind == LIR_REG)
            insn->operands[k].reg = affine_in_front(c, insn->operands[k].reg, last);
    }
    *made = affine_new_reg(c, c->fn->regs.at[reg].class, false);
    insn->operands[0].reg = *made;
    vec_push(c->fn->scratch, &c->before, insn);
    return *made;
}

/* ---- taking up a loop ---- */

bool
affine_begin(AffineLoop *c)
{
    bool has_counter = false;

    for (uint32_t i = c->extent.first; i <= c->extent.last && !has_counter; i++)
        has_counter = adds_constant(c->fn->insns.at[i]);
    if (!has_counter || !is_plain(c->fn, c->extent))
        return false;
    find_skipped(c);
    count_definitions(c);
    return true;
}
