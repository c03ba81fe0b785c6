/* lir_carry.c - values that grow by the same amount in each iteration are carried through a loop, not computed anew.
 *
 * Needs loops as the lowering makes them: entered at their label from above, with one branch back, and a counter that
 * one instruction raises by a constant.  A value that is affine in the counter (an address of a row, how many rows are
 * left) becomes a register that is set in front of the loop and raised beside the counter, where that takes fewer machine
 * instructions.  What the amount is follows from the value itself, computed in front of the loop for two
 * counts; one that is made of parameters, ptxas would make again in each iteration.  What computed the value is
 * left to lir_remove_dead.
 *
 * The counter times a tile's extent is taken not to exceed 32 bits: it is a place in a tensor or less than a tile behind
 * its end.
 */
#include <string.h>

#include "compiler/ir/lir.h"

enum {
    MOST_ROOTS = 32, /* of a counter: beyond, nothing is carried */
    GAIN = 4,        /* machine instructions that a loop must save .. */
    PART = 16        /* .. and this part of its instructions: what is carried takes registers */
};

static const uint32_t nowhere = UINT32_MAX;

/* A register that is affine in the counter. */
typedef struct Affine {
    LirReg reg;
    LirInsn *insn; /* that makes it */
    bool is_known; /* what it grows by, times the counter's step, is `factor` */
    int64_t factor;
    bool is_read; /* by something else than insns of affine values */
    bool is_fixed; /* read where it can't be carried to: behind the counter's step, or behind the loop */
    bool is_carried;
    bool is_needed; /* must be computed in each iteration */
    LirReg first,
        next; /* in front of the loop: of its first iteration, and of the one behind that */
} Affine;

typedef struct Carry {
    LirFn *fn;
    LirExtent loop;
    uint32_t *defs; /* by register: definitions in the loop */
    bool *skipped;  /* by position in the loop: not executed exactly once in each iteration */
    LirReg counter;
    uint32_t step_at; /* where it is raised */
    int64_t step;
    uint32_t *slot; /* by register: 1 + index into `values` */
    VEC(Affine) values;
    VEC(LirInsn *) before; /* to go in front of the loop */
    VEC(LirInsn *) beside; /* to go where the counter is raised */
} Carry;

static bool
is_branch(const LirInsn *insn)
{
    return insn->op == LIR_BRA || insn->op == LIR_BRA_UNI;
}

/* ---- the loop ---- */

/* Whether it is entered from above only, and left and repeated by one branch at its end. */
static bool
is_plain(const LirFn *fn, LirExtent loop)
{
    bool *inside = arena_array(fn->arena, bool, fn->labels + 1);

    for (uint32_t i = loop.first; i <= loop.last; i++) {
        if (fn->insns.at[i]->op == LIR_LABEL)
            inside[fn->insns.at[i]->operands[0].integer] = true;
    }
    int64_t head = fn->insns.at[loop.first]->operands[0].integer;
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        bool is_in = i >= loop.first && i <= loop.last;
        if (is_branch(insn) && inside[insn->operands[0].integer] &&
            (!is_in || (insn->operands[0].integer == head && i != loop.last)))
            return false;
    }
    return true;
}

/* Marks what a branch jumps over, or what lies between a label and a branch back to it. */
static void
find_skipped(Carry *c)
{
    const LirFn *fn = c->fn;
    uint32_t *from = arena_array(fn->arena, uint32_t, fn->labels + 1), n = fn->insns.n;
    int32_t *change = arena_array(fn->arena, int32_t, n + 2), depth = 0;

    c->skipped = arena_array(fn->arena, bool, n + 1);
    for (uint32_t i = c->loop.first + 1; i < c->loop.last; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (!is_branch(insn) && insn->op != LIR_LABEL)
            continue;
        uint32_t *first = &from[insn->operands[0].integer];
        if (*first == 0) {
            *first = i + 1;
        } else {
            change[*first]++;
            change[i + 1]--;
        }
    }
    for (uint32_t i = c->loop.first; i <= c->loop.last; i++) {
        depth += change[i];
        c->skipped[i] = depth > 0;
    }
}

static void
count_definitions(Carry *c)
{
    const LirFn *fn = c->fn;

    c->defs = arena_array(fn->arena, uint32_t, fn->regs.n);
    for (uint32_t i = c->loop.first; i <= c->loop.last; i++) {
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

/* Whether that is done once in each iteration, and nothing else changes r. */
static bool
is_step(const Carry *c, uint32_t at)
{
    const LirInsn *insn = c->fn->insns.at[at];

    return adds_constant(insn) && !c->skipped[at] && c->defs[insn->operands[0].reg] == 1;
}

/* ---- affine values ---- */

static Affine *
affine_of(const Carry *c, LirReg reg)
{
    return reg != 0 && c->slot[reg] != 0 ? &c->values.at[c->slot[reg] - 1] : NULL;
}

static bool
grows(const Carry *c, const LirOperand *operand)
{
    return operand->kind == LIR_REG &&
           (operand->reg == c->counter || affine_of(c, operand->reg) != NULL);
}

static bool
is_invariant(const Carry *c, const LirOperand *operand)
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

/* The operand of `insn` that makes its result affine: the one that grows, where all others are invariant; 0: it is not. */
static uint32_t
growing_operand(const Carry *c, const LirInsn *insn)
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
        else if (!is_invariant(c, &insn->operands[k]))
            return 0;
    }
    bool is_shift = insn->op == LIR_SHL_B32 || insn->op == LIR_SHL_B64;
    return is_shift && (which == 2 || insn->operands[2].kind != LIR_INT) ? 0 : which;
}

/* Machine instructions, about. */
static uint32_t
cost_of(const LirInsn *insn)
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

/* False: there are too few to gain anything. */
static bool
find_affine(Carry *c)
{
    uint32_t cost = 0;

    c->slot = arena_array(c->fn->arena, uint32_t, c->fn->regs.n);
    c->values.n = 0;
    for (uint32_t i = c->loop.first; i < c->step_at; i++) {
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
        vec_push(c->fn->arena, &c->values, value);
        c->slot[value.reg] = c->values.n;
        cost += cost_of(insn);
    }
    return cost > GAIN;
}

static void
note_reader(const Carry *c, LirReg reg, uint32_t at)
{
    Affine *value = affine_of(c, reg);

    if (value == NULL)
        return;
    value->is_read = true;
    value->is_fixed |= at < c->loop.first || at > c->step_at;
}

static void
find_readers(Carry *c)
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
cost_of_loop(Carry *c)
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
        cost += cost_of(value->insn);
        for (uint32_t j = 1; j < value->insn->n; j++) {
            Affine *from = affine_of(c, value->insn->operands[j].reg);
            if (from != NULL)
                from->is_needed = true;
        }
    }
    return cost;
}

/* Carries what others read, but for values that are cheaper to compute from what is computed anyway.  False: nothing. */
static bool
choose(Carry *c)
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
    return cost + GAIN <= without && (without - cost) * PART > c->loop.last - c->loop.first;
}

/* ---- carrying ---- */

static LirReg
new_reg(Carry *c, LirReg like, bool is_mutable)
{
    LirRegInfo info = {.class = c->fn->regs.at[like].class, .is_mutable = is_mutable};

    vec_push(c->fn->arena, &c->fn->regs, info);
    return c->fn->regs.n - 1;
}

static LirInsn *
new_insn(Carry *c, LirOpcode op, LirReg to, LirOperand x, LirOperand y)
{
    LirInsn *insn = arena_new(c->fn->arena, LirInsn);
    LirOperand operands[] = {lir_reg(to), x, y};

    insn->op = op;
    insn->n_dst = 1;
    insn->n = lir_op_info(op)->groups[3] == '\0' ? 2 : 3;
    insn->operands = arena_copy(c->fn->arena, operands, insn->n * sizeof *operands);
    insn->span = c->fn->insns.at[c->step_at]->span;
    return insn;
}

/* The value in front of the loop, of the first iteration or, with the counter in `next`, of the one behind it. */
static LirReg
value_before(Carry *c, LirReg reg, LirReg next)
{
    Affine *value = affine_of(c, reg);

    if (reg == c->counter)
        return next != 0 ? next : reg;
    if (value == NULL)
        return reg;
    LirReg *made = next != 0 ? &value->next : &value->first;
    if (*made != 0)
        return *made;
    LirInsn *insn = arena_copy(c->fn->arena, value->insn, sizeof *insn);
    insn->operands = arena_copy(c->fn->arena, insn->operands, insn->n * sizeof *insn->operands);
    for (uint32_t k = 1; k < insn->n; k++) {
        if (insn->operands[k].kind == LIR_REG)
            insn->operands[k].reg = value_before(c, insn->operands[k].reg, next);
    }
    *made = new_reg(c, reg, false);
    insn->operands[0].reg = *made;
    vec_push(c->fn->arena, &c->before, insn);
    return *made;
}

/* How much it grows in an iteration. */
static LirOperand
growth(Carry *c, Affine *value, LirReg next)
{
    bool wide = c->fn->regs.at[value->reg].class == LIR_B64;
    int64_t by = value->factor * c->step;

    if (value->is_known && by == (int32_t)by)
        return lir_int(by);
    LirReg to = new_reg(c, value->reg, false), first = value_before(c, value->reg, 0);
    LirReg second = value_before(c, value->reg, next);
    vec_push(c->fn->arena, &c->before,
             new_insn(c, wide ? LIR_SUB_S64 : LIR_SUB_S32, to, lir_reg(second), lir_reg(first)));
    return lir_reg(to);
}

/* Gives `carried[reg]` for each register that is carried. */
static void
carry_all(Carry *c, LirReg *carried)
{
    LirReg next = new_reg(c, c->counter, false);

    c->before.n = c->beside.n = 0;
    vec_push(c->fn->arena, &c->before,
             new_insn(c, LIR_ADD_S32, next, lir_reg(c->counter), lir_int(c->step)));
    for (uint32_t k = 0; k < c->values.n; k++) {
        Affine *value = &c->values.at[k];
        if (!value->is_carried)
            continue;
        bool wide = c->fn->regs.at[value->reg].class == LIR_B64;
        LirReg to = new_reg(c, value->reg, true), first = value_before(c, value->reg, 0);
        LirOperand by = growth(c, value, next);
        vec_push(c->fn->arena, &c->before,
                 new_insn(c, wide ? LIR_MOV_B64 : LIR_MOV_B32, to, lir_reg(first), lir_int(0)));
        vec_push(c->fn->arena, &c->beside,
                 new_insn(c, wide ? LIR_ADD_S64 : LIR_ADD_S32, to, lir_reg(to), by));
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
insert_all(Carry *c, const LirReg *carried, uint32_t n_regs)
{
    LirFn *fn = c->fn;
    LirInsn **old = fn->insns.at;
    uint32_t n = fn->insns.n, more = c->before.n + c->beside.n;

    fn->insns.at = arena_array(fn->arena, LirInsn *, n + more);
    fn->insns.n = 0;
    fn->insns.cap = n + more;
    for (uint32_t i = 0; i < n; i++) {
        LirInsn *insn = old[i];
        for (uint32_t k = 0; i == c->loop.first && k < c->before.n; k++)
            fn->insns.at[fn->insns.n++] = c->before.at[k];
        for (uint32_t k = 0; i == c->step_at && k < c->beside.n; k++)
            fn->insns.at[fn->insns.n++] = c->beside.at[k];
        rename_reader(carried, n_regs, &insn->guard);
        for (uint32_t k = insn->n_dst; k < insn->n; k++)
            rename_reader(carried, n_regs, &insn->operands[k].reg);
        fn->insns.at[fn->insns.n++] = insn;
    }
}

/* The first counter of the loop, from position `from` on, that something is carried for; nowhere: there is none. */
static uint32_t
carry_one(Carry *c, uint32_t from)
{
    for (uint32_t at = from; at < c->loop.last; at++) {
        if (!is_step(c, at))
            continue;
        c->step_at = at;
        c->step = c->fn->insns.at[at]->operands[2].integer;
        c->counter = c->fn->insns.at[at]->operands[0].reg;
        if (!find_affine(c))
            continue;
        find_readers(c);
        if (!choose(c))
            continue;
        uint32_t n_regs = c->fn->regs.n;
        LirReg *carried = arena_array(c->fn->arena, LirReg, n_regs);
        carry_all(c, carried);
        insert_all(c, carried, n_regs);
        return at + c->before.n + c->beside.n + 1;
    }
    return nowhere;
}

/* Takes up a loop; false when nothing can be carried through it. */
static bool
begin(Carry *c)
{
    bool has_counter = false;

    for (uint32_t i = c->loop.first; i <= c->loop.last && !has_counter; i++)
        has_counter = adds_constant(c->fn->insns.at[i]);
    if (!has_counter || !is_plain(c->fn, c->loop))
        return false;
    find_skipped(c);
    count_definitions(c);
    return true;
}

bool
lir_carry(LirFn *fn)
{
    LirLoops loops = lir_loops(fn);
    bool carried = false;

    for (uint32_t which = 0; which < loops.n; which++) {
        /* they are sorted by their ends: what lies in one stands in front of it */
        if (which > 0 && loops.at[which - 1].first > loops.at[which].first)
            continue;
        for (uint32_t from = 0; from != nowhere;) {
            Carry c = {.fn = fn, .loop = loops.at[which]};
            if (!begin(&c))
                break;
            from = carry_one(&c, from > c.loop.first ? from : c.loop.first);
            if (from == nowhere)
                continue;
            loops = lir_loops(fn);
            carried = true;
        }
    }
    return carried;
}
