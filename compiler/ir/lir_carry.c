/* lir_carry.c - values that grow by the same amount in each iteration are carried through a loop,
 * not computed anew.
 *
 * Needs loops as the lowering makes them (lir_affine.h).  A value that is affine in the counter (an
 * address of a row, how many rows are left) becomes a register that is set in front of the loop and
 * raised at the head of each iteration, where that takes fewer machine instructions.  At its end,
 * beside the counter, ptxas would move the address up among the instructions that use it, and copy
 * it.  What the amount is follows from the value itself, computed in front of the loop for two
 * counts; one that is made of parameters, ptxas would make again in each iteration.  What computed
 * the value is left to lir_remove_dead.
 */
#include "compiler/ir/lir_affine.h"

enum {
    MOST_ROOTS = 32, /* of a counter: beyond, nothing is carried */
    GAIN = 4,        /* machine instructions that a loop must save .. */
    PART = 16        /* .. and this part of its instructions: what is carried takes registers */
};

static const uint32_t nowhere = UINT32_MAX;

static void
note_reader(const AffineLoop *c, LirReg reg, uint32_t at)
{
    Affine *value = affine_of(c, reg);

    if (value == NULL)
        return;
    value->is_read = true;
    value->is_fixed |= at < c->extent.first || at > c->step_at;
}

static void
find_readers(AffineLoop *c)
{
    const LirFn *fn = c->fn;

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        const Affine *made = insn->n_dst == 1 ? affine_of(c, insn->operands[0].reg) : NULL;
        uint32_t first = (lir_op_info(insn->op)->flags & LF_IN_OUT) != 0 ? 0 : insn->n_dst;
        note_reader(c, insn->guard, i);
        for (uint32_t k = first; k < insn->n && (made == NULL || made->insn != insn); k++)
            note_reader(c, insn->operands[k].reg, i);
    }
}

/* ---- which are carried ---- */

static uint32_t
cost_of_loop(AffineLoop *c)
{
    uint32_t cost = 0;

    for (uint32_t k = 0; k < c->values.n; k++)
        c->values.at[k].is_needed = c->values.at[k].is_read;
    for (uint32_t k = c->values.n; k-- > 0;) {
        Affine *value = &c->values.at[k];
        if (value->is_carried)
            cost += c->fn->regs.at[value->reg].class == LIR_B64 ? 2 : 1;
        if (value->is_carried || !value->is_needed)
            continue;
        cost += affine_cost(value->insn);
        for (uint32_t j = 1; j < value->insn->n; j++) {
            Affine *from = affine_of(c, value->insn->operands[j].reg);
            if (from != NULL)
                from->is_needed = true;
        }
    }
    return cost;
}

/* Carries what others read, but for values that are cheaper to compute from what is computed
 * anyway.  False: nothing. */
static bool
choose(AffineLoop *c)
{
    uint32_t roots = 0, without = cost_of_loop(c);

    for (uint32_t k = 0; k < c->values.n; k++) {
        Affine *value = &c->values.at[k];
        value->is_carried = value->is_read && !value->is_fixed;
        roots += value->is_carried;
    }
    if (roots == 0 || roots > MOST_ROOTS)
        return false;
    uint32_t cost = cost_of_loop(c);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t k = 0; k < c->values.n; k++) {
            Affine *value = &c->values.at[k];
            if (!value->is_read || value->is_fixed)
                continue;
            value->is_carried = !value->is_carried;
            uint32_t other = cost_of_loop(c);
            if (other < cost || (other == cost && !value->is_carried)) {
                changed = true;
                cost = other;
            } else {
                value->is_carried = !value->is_carried;
            }
        }
    }
    return cost + GAIN <= without && (without - cost) * PART > c->extent.last - c->extent.first;
}

/* ---- carrying ---- */

typedef struct Insns {
    LirInsn **at;
    uint32_t n, cap;
} Insns;

/* How much it grows in an iteration. */
static LirOperand
growth(AffineLoop *c, Affine *value, LirReg last)
{
    LirClass class = c->fn->regs.at[value->reg].class;
    int64_t by = value->factor * c->step;

    if (value->is_known && by == (int32_t)by)
        return lir_int(by);
    LirReg to = affine_new_reg(c, class, false), first = affine_in_front(c, value->reg, 0);
    LirReg before = affine_in_front(c, value->reg, last);
    LirOpcode sub = class == LIR_B64 ? LIR_SUB_S64 : LIR_SUB_S32;
    vec_push(c->fn->scratch, &c->before,
             affine_new_insn(c, sub, to, lir_reg(first), lir_reg(before)));
    return lir_reg(to);
}

/* Gives `carried[reg]` for each register that is carried, and how each is raised. */
static void
carry_all(AffineLoop *c, LirReg *carried, Insns *raises)
{
    LirReg last = affine_new_reg(c, LIR_B32, false);

    c->before.n = 0;
    vec_push(c->fn->scratch, &c->before,
             affine_new_insn(c, LIR_SUB_S32, last, lir_reg(c->counter), lir_int(c->step)));
    for (uint32_t k = 0; k < c->values.n; k++) {
        Affine *value = &c->values.at[k];
        if (!value->is_carried)
            continue;
        LirClass class = c->fn->regs.at[value->reg].class;
        bool wide = class == LIR_B64;
        LirReg to = affine_new_reg(c, class, true), before = affine_in_front(c, value->reg, last);
        LirOperand by = growth(c, value, last);
        vec_push(
            c->fn->scratch, &c->before,
            affine_new_insn(c, wide ? LIR_MOV_B64 : LIR_MOV_B32, to, lir_reg(before), lir_int(0)));
        vec_push(c->fn->scratch, raises,
                 affine_new_insn(c, wide ? LIR_ADD_S64 : LIR_ADD_S32, to, lir_reg(to), by));
        carried[value->reg] = to;
    }
}

static void
rename_reader(const LirReg *carried, uint32_t n, LirReg *reg)
{
    if (*reg < n && carried[*reg] != 0)
        *reg = carried[*reg];
}

static void
insert_all(AffineLoop *c, const Insns *raises, const LirReg *carried, uint32_t n_regs)
{
    LirFn *fn = c->fn;
    uint32_t n = fn->insns.n;
    LirInsn **old = lir_take_insns(fn, c->before.n + raises->n);

    for (uint32_t i = 0; i < n; i++) {
        LirInsn *insn = old[i];
        for (uint32_t k = 0; i == c->extent.first && k < c->before.n; k++)
            fn->insns.at[fn->insns.n++] = c->before.at[k];
        for (uint32_t k = 0; i == c->extent.first + 1 && k < raises->n; k++)
            fn->insns.at[fn->insns.n++] = raises->at[k];
        rename_reader(carried, n_regs, &insn->guard);
        for (uint32_t k = insn->n_dst; k < insn->n; k++)
            rename_reader(carried, n_regs, &insn->operands[k].reg);
        fn->insns.at[fn->insns.n++] = insn;
    }
}

/* The first counter of the loop, from position `from` on, that something is carried for; nowhere:
 * there is none. */
static uint32_t
carry_one(AffineLoop *c, uint32_t from)
{
    for (uint32_t at = from; at < c->extent.last; at++) {
        if (!affine_take_counter(c, at) || affine_find(c) <= GAIN)
            continue;
        find_readers(c);
        if (!choose(c))
            continue;
        uint32_t n_regs = c->fn->regs.n;
        LirReg *carried = arena_array(c->fn->scratch, LirReg, n_regs);
        Insns raises = {0};
        carry_all(c, carried, &raises);
        insert_all(c, &raises, carried, n_regs);
        return at + c->before.n + raises.n + 1;
    }
    return nowhere;
}

bool
lir_carry(LirFn *fn)
{
    ArenaMark begin = arena_mark(fn->scratch);
    LirLoops loops = lir_loops(fn);
    bool carried = false;

    for (uint32_t which = 0; which < loops.n; which++) {
        /* they are sorted by their ends: what lies in one stands in front of it */
        if (which > 0 && loops.at[which - 1].first > loops.at[which].first)
            continue;
        for (uint32_t from = 0; from != nowhere;) {
            AffineLoop c = {.fn = fn, .extent = loops.at[which]};
            if (!affine_begin(&c))
                break;
            from = carry_one(&c, from > c.extent.first ? from : c.extent.first);
            if (from == nowhere)
                continue;
            loops = lir_loops(fn);
            carried = true;
        }
    }
    lir_end_work(fn, begin);
    return carried;
}
