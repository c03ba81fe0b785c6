/* lir_split.c - a loop that leaves out part of its body only at its end becomes two.
 *
 * Rows behind a tensor's end are left out by a branch over what is done with them, which a thread
 * takes once fewer rows are left than it wants: a value that falls by the same amount in each
 * iteration.  ptxas makes four instructions of that in each (the test, the branch, and two with
 * which a warp comes together again), and one for the value.  The iterations in front of the first
 * one where some lane of the warp branches run in a copy of the loop without the branch; how many
 * these are is found out in front of it, by a minimum over the warp:
 *
 *     for (; i < n; i++) { a; if (rest(i) >= c) b; }
 *
 *     m = min(n, i + least((rest(i) - c) / fall + 1))
 *     for (; i < m; i++) { a; b; }
 *     for (; i < n; i++) { a; if (rest(i) >= c) b; }
 *
 * Needs loops as the lowering makes them (lir_affine.h) that a whole warp runs in step: they end
 * with a uniform branch, and a barrier of all lanes stands in them.
 */
#include "compiler/ir/lir_affine.h"

enum {
    MOST_INSNS = 256, /* of a loop that is copied: in a longer one the branch is next to nothing */
    /* that branches go over.  Observed: with a copy of 16 additions beside them (attention
     * backward, head dimension 64) ptxas 13.0 moved the phases of other roles to uniform registers,
     * 11 instructions more of an mma role's iteration */
    LEAST_INSNS = 24,
    ALL_LANES = -1
};

typedef struct Split {
    AffineLoop loop;
    VEC(uint32_t) branches; /* positions of those that the copy goes without */
    const LirInsn *test;    /* counter < end, by which the loop is repeated */
    LirReg iterations;      /* in front of the loop: those in which no lane branches */
} Split;

/* The instruction that defines `reg`, which is set once, in the loop, in each iteration, in front
 * of `before`; NULL: there is none. */
static const LirInsn *
definition(const Split *s, LirReg reg, uint32_t before)
{
    const LirFn *fn = s->loop.fn;

    for (uint32_t i = s->loop.extent.first; i < before; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->n_dst == 1 && insn->operands[0].reg == reg)
            return insn->guard == 0 && !s->loop.skipped[i] && s->loop.defs[reg] == 1 ? insn : NULL;
    }
    return NULL;
}

static uint32_t
count_readers(const LirFn *fn, LirReg reg)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        n += insn->guard == reg;
        for (uint32_t k = insn->n_dst; k < insn->n; k++)
            n += insn->operands[k].reg == reg;
    }
    return n;
}

/* Whether the whole warp runs the loop in step, as long as its counter is below what does not
 * change. */
static bool
takes_test(Split *s)
{
    const LirFn *fn = s->loop.fn;
    const LirInsn *last = fn->insns.at[s->loop.extent.last];
    bool together = false;

    if (last->op != LIR_BRA_UNI || last->guard == 0 || last->guard_not)
        return false;
    for (uint32_t i = s->loop.extent.first; i < s->loop.extent.last; i++) {
        const LirInsn *insn = fn->insns.at[i];
        together |= insn->op == LIR_BAR_WARP_SYNC && insn->guard == 0 && !s->loop.skipped[i] &&
                    insn->operands[0].kind == LIR_INT && insn->operands[0].integer == ALL_LANES;
    }
    s->test = definition(s, last->guard, s->loop.extent.last);
    together = together && count_readers(fn, last->guard) == 1; /* the copy has another end */
    return together && s->test != NULL && s->test->op == LIR_SETP_LT_S32;
}

/* Whether the loop's test is that of the counter, behind its step. */
static bool
tests_counter(const Split *s)
{
    const LirFn *fn = s->loop.fn;
    bool is_behind = false;

    for (uint32_t i = s->loop.step_at; i < s->loop.extent.last; i++)
        is_behind |= fn->insns.at[i] == s->test;
    return is_behind && s->loop.step > 0 && s->test->operands[1].kind == LIR_REG &&
           s->test->operands[1].reg == s->loop.counter &&
           affine_is_invariant(&s->loop, &s->test->operands[2]);
}

/* log2 of by how much the value falls that branch `at` asks to be at least so much; -1: it asks for
 * something else. */
static int32_t
fall_of(const Split *s, uint32_t at, const LirInsn **test)
{
    const LirInsn *branch = s->loop.fn->insns.at[at];
    int32_t shift = 0;

    if (branch->op != LIR_BRA || branch->guard == 0 || !branch->guard_not || s->loop.skipped[at])
        return -1;
    *test = definition(s, branch->guard, at);
    if (*test == NULL || (*test)->op != LIR_SETP_GE_S32 || (*test)->operands[1].kind != LIR_REG ||
        (*test)->operands[2].kind != LIR_INT)
        return -1;
    const Affine *rest = affine_of(&s->loop, (*test)->operands[1].reg);
    int64_t fall = rest == NULL || !rest->is_known ? 0 : -rest->factor * s->loop.step;
    while ((int64_t)1 << shift < fall)
        shift++;
    return fall > 0 && (int64_t)1 << shift == fall ? shift : -1;
}

/* How many instructions the branch goes over, to a place further down in the loop; 0: it goes
 * elsewhere. */
static uint32_t
goes_over(const Split *s, uint32_t at)
{
    const LirFn *fn = s->loop.fn;
    int64_t label = fn->insns.at[at]->operands[0].integer;

    for (uint32_t i = at; i < s->loop.extent.last; i++) {
        if (fn->insns.at[i]->op == LIR_LABEL && fn->insns.at[i]->operands[0].integer == label)
            return i - at - 1;
    }
    return 0;
}

static LirReg
put(Split *s, LirOpcode op, LirReg x, LirOperand y)
{
    LirReg to = affine_new_reg(&s->loop, LIR_B32, false);

    vec_push(s->loop.fn->scratch, &s->loop.before, affine_new_insn(&s->loop, op, to, lir_reg(x), y));
    return to;
}

/* Finds the branches, and in how many iterations from the first one on a thread takes none of
 * them. */
static bool
find_branches(Split *s)
{
    const LirInsn *test;
    uint32_t over = 0;

    s->branches.n = s->loop.before.n = 0;
    s->iterations = 0;
    for (uint32_t i = s->loop.extent.first; i < s->loop.extent.last; i++) {
        int32_t shift = fall_of(s, i, &test);
        if (shift < 0 || goes_over(s, i) == 0)
            continue;
        over += goes_over(s, i);
        vec_push(s->loop.fn->scratch, &s->branches, i);
        LirReg rest = affine_in_front(&s->loop, test->operands[1].reg, 0);
        LirReg more = put(s, LIR_SUB_S32, rest, test->operands[2]);
        LirReg n = put(s, LIR_ADD_S32, put(s, LIR_SHR_S32, more, lir_int(shift)), lir_int(1));
        s->iterations = s->iterations == 0 ? n : put(s, LIR_MIN_S32, n, lir_reg(s->iterations));
    }
    return over >= LEAST_INSNS;
}

/* Whether what the loop defines, but for registers that are set elsewhere, too, is read in it
 * alone. */
static bool
is_closed(const Split *s)
{
    const LirFn *fn = s->loop.fn;

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (i >= s->loop.extent.first && i <= s->loop.extent.last)
            continue;
        for (uint32_t k = 0; k <= insn->n; k++) {
            LirReg reg = k < insn->n ? insn->operands[k].reg : insn->guard;
            if (reg != 0 && s->loop.defs[reg] > 0 && !fn->regs.at[reg].is_mutable)
                return false;
        }
    }
    return true;
}

/* ---- the copy ---- */

/* Adds an instruction in front of the loop. */
static void
add(Split *s, LirInsn *insn)
{
    vec_push(s->loop.fn->scratch, &s->loop.before, insn);
}

static LirInsn *
label_insn(Split *s, LirOpcode op, int64_t label, LirReg guard)
{
    LirFn *fn = s->loop.fn;
    LirInsn *insn = arena_new(fn->arena, LirInsn);
    LirOperand operand = {.kind = LIR_TARGET_LABEL, .integer = label};

    insn->op = op;
    lir_note_op(fn, op);
    insn->n = 1;
    insn->guard = guard;
    insn->operands = arena_copy(fn->arena, &operand, sizeof operand);
    insn->span = fn->insns.at[s->loop.step_at]->span;
    return insn;
}

/* Goes on at a label, all lanes of the warp, where the counter is not below `end`. */
static void
add_way_past(Split *s, LirOperand end, int64_t label)
{
    LirReg done = affine_new_reg(&s->loop, LIR_PRED, false);

    add(s, affine_new_insn(&s->loop, LIR_SETP_GE_S32, done, lir_reg(s->loop.counter), end));
    add(s, label_insn(s, LIR_BRA_UNI, label, done));
}

static bool
is_left_out(const Split *s, uint32_t at)
{
    for (uint32_t k = 0; k < s->branches.n; k++) {
        if (s->branches.at[k] == at)
            return true;
    }
    return false;
}

/* Registers and labels of the copy: those that the loop alone sets and has are others. */
static void
name_anew(Split *s, LirReg *regs, uint32_t n_regs, int64_t *labels)
{
    LirFn *fn = s->loop.fn;

    for (LirReg reg = 0; reg < n_regs; reg++) {
        bool own = reg < s->loop.regs && s->loop.defs[reg] > 0 && !fn->regs.at[reg].is_mutable;
        regs[reg] = own ? affine_new_reg(&s->loop, fn->regs.at[reg].class, false) : reg;
        if (own)
            fn->regs.at[regs[reg]] = fn->regs.at[reg];
    }
    for (uint32_t i = s->loop.extent.first; i <= s->loop.extent.last; i++) {
        if (fn->insns.at[i]->op == LIR_LABEL)
            labels[fn->insns.at[i]->operands[0].integer] = ++fn->labels;
    }
}

static void
add_copy(Split *s, LirReg end)
{
    LirFn *fn = s->loop.fn;
    uint32_t n_regs = fn->regs.n;
    LirReg *regs = arena_array(fn->scratch, LirReg, n_regs);
    int64_t *labels = arena_array(fn->scratch, int64_t, fn->labels + 1);

    name_anew(s, regs, n_regs, labels);
    for (uint32_t i = s->loop.extent.first; i <= s->loop.extent.last; i++) {
        const LirInsn *from = fn->insns.at[i];
        if (is_left_out(s, i))
            continue;
        LirInsn *insn = arena_copy(fn->arena, from, sizeof *from);
        insn->operands = arena_copy(fn->arena, from->operands, from->n * sizeof *from->operands);
        insn->guard = regs[from->guard];
        for (uint32_t k = 0; k < insn->n; k++) {
            LirOperand *operand = &insn->operands[k];
            if (operand->kind == LIR_TARGET_LABEL && labels[operand->integer] != 0)
                operand->integer = labels[operand->integer];
            operand->reg = regs[operand->reg];
        }
        if (from == s->test)
            insn->operands[2] = lir_reg(end);
        add(s, insn);
    }
}

/* Puts what is to stand in front of the loop there, and a label behind it. */
static void
insert(Split *s, int64_t behind)
{
    LirFn *fn = s->loop.fn;
    uint32_t n = fn->insns.n, before = s->loop.before.n;
    LirInsn **old = lir_take_insns(fn, before + 1);

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; i == s->loop.extent.first && k < before; k++)
            fn->insns.at[fn->insns.n++] = s->loop.before.at[k];
        fn->insns.at[fn->insns.n++] = old[i];
        if (i == s->loop.extent.last)
            fn->insns.at[fn->insns.n++] = label_insn(s, LIR_LABEL, behind, 0);
    }
}

static void
split(Split *s)
{
    AffineLoop *loop = &s->loop;
    LirOperand end = s->test->operands[2];
    int64_t second = ++loop->fn->labels, behind = ++loop->fn->labels;
    LirReg least = affine_new_reg(loop, LIR_B32, false);

    LirInsn *least_of = affine_new_insn(loop, LIR_REDUX_MIN_S32, least, lir_reg(s->iterations),
                                        lir_int(0));
    least_of->n = 2;
    add(s, least_of);
    LirReg until = loop->step == 1 ? least : put(s, LIR_MUL_S32, least, lir_int(loop->step));
    until = put(s, LIR_ADD_S32, until, lir_reg(loop->counter));
    until = put(s, LIR_MIN_S32, until, end);
    add_way_past(s, lir_reg(until), second);
    add_copy(s, until);
    add(s, label_insn(s, LIR_LABEL, second, 0));
    add_way_past(s, end, behind);
    insert(s, behind);
}

static bool
split_loop(Split *s)
{
    if (s->loop.extent.last - s->loop.extent.first > MOST_INSNS || !affine_begin(&s->loop) ||
        !takes_test(s) || !is_closed(s))
        return false;
    for (uint32_t at = s->loop.extent.first; at < s->loop.extent.last; at++) {
        if (!affine_take_counter(&s->loop, at) || !tests_counter(s))
            continue;
        affine_find(&s->loop);
        if (!find_branches(s))
            continue;
        split(s);
        return true;
    }
    return false;
}

bool
lir_split(LirFn *fn)
{
    ArenaMark begin = arena_mark(fn->scratch);
    LirLoops loops = lir_loops(fn);
    bool any = false;

    /* from below, since what is put in front of one moves those behind it */
    for (uint32_t which = loops.n; which-- > 0;) {
        if (which > 0 && loops.at[which - 1].first > loops.at[which].first)
            continue; /* one lies in it */
        Split s = {.loop = {.fn = fn, .extent = loops.at[which]}};
        any |= split_loop(&s);
    }
    lir_end_work(fn, begin);
    return any;
}
