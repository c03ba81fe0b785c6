/* lir_merge.c - registers that always hold the same value become one.
 *
 * Phases of barriers and numbers of stages are registers that several places set to a constant or
 * change by one; where two begin alike and change in the same iterations they differ only between
 * the change of one and that of the other. If nobody reads there the one that changes first, the
 * later change serves both.  ptxas does not see that.  And where two begin as opposites, as the
 * phases of "there is something" and "there is room" do, and the second one is read only between
 * the change of the first and its own, it holds there what the first one holds.  A stage's number
 * that goes around and the phase that turns with it change together, and become others together.
 * Nothing is needed of the program but that its registers are those of the lowering; the first of
 * the changes are removed.
 */
#include <string.h>

#include "compiler/ir/lir.h"

/* Positions that are not executed as often as those around them: what a branch jumps over, or a
 * loop. */
typedef struct Stretch {
    uint32_t first, last;
} Stretch;

typedef struct Places {
    uint32_t *at;
    uint32_t n, cap;
} Places;

/* Instructions that move a stage's number on, by 1 around, and turn its phase where it comes to one
 * of them. */
typedef struct Step {
    uint32_t first, last;
    LirReg stage, phase;
    bool is_read; /* what it computes for itself is read elsewhere, too */
} Step;

enum { MOST_STEP = 6 };

/* A register with more than one definition, each of which is made of constants and of itself. */
typedef struct Value {
    LirReg reg;
    Places defs, reads; /* by position; what its own definitions read is not among the reads */
    bool is_other;      /* it has other definitions, too */
    LirReg partner;  /* of a stage's number the phase, and the other way round; 0: it is neither */
    VEC(Step) steps; /* of both */
    LirReg same_as;  /* 0: itself */
} Value;

typedef struct Merge {
    LirFn *fn;
    VEC(Stretch) stretches;
    VEC(Value) values;
    uint32_t *slot; /* by register: 1 + index into `values`; 0: none of them */
    bool *drop;     /* by position */
    bool looked;    /* for stretches and reads: two values may be the same */
    VEC(Step) steps;
    uint32_t *step_of; /* by position: 1 + index into `steps`; 0: none; NULL: there are no steps */
    uint32_t *made_in; /* likewise, by register */
} Merge;

static bool
is_branch(const LirInsn *insn)
{
    return insn->op == LIR_BRA || insn->op == LIR_BRA_UNI;
}

/* ---- control flow ---- */

static void
find_stretches(Merge *m)
{
    const LirFn *fn = m->fn;
    uint32_t *labels = arena_array(fn->scratch, uint32_t, fn->labels + 1);

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        if (fn->insns.at[i]->op == LIR_LABEL)
            labels[fn->insns.at[i]->operands[0].integer] = i;
    }
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        Stretch stretch = {i + 1, fn->insns.n - 1};
        if (is_branch(insn)) {
            uint32_t to = labels[insn->operands[0].integer];
            stretch = to > i ? (Stretch){i + 1, to - 1} : (Stretch){to, i};
        }
        if (is_branch(insn) || insn->op == LIR_RET)
            vec_push(fn->scratch, &m->stretches, stretch);
    }
}

/* Whether each time that one of two positions is executed the other one is, too, in the order of
 * the text. */
static bool
go_together(const Merge *m, uint32_t p, uint32_t q)
{
    for (uint32_t k = 0; k < m->stretches.n; k++) {
        const Stretch *s = &m->stretches.at[k];
        if ((p >= s->first && p <= s->last) != (q >= s->first && q <= s->last))
            return false;
    }
    return true;
}

/* ---- who sets and reads what ---- */

/* `mov r, constant` or an operation on r and constants. */
static bool
sets_itself(const LirInsn *insn)
{
    bool pure = (lir_op_info(insn->op)->flags & LF_PURE) != 0 && insn->n_dst == 1;

    for (uint32_t k = 1; pure && k < insn->n; k++)
        pure = insn->operands[k].kind == LIR_INT ||
               (insn->operands[k].kind == LIR_REG && insn->operands[k].reg == insn->operands[0].reg);
    return pure && insn->guard == 0;
}

/* Whether a step begins at `i`: nothing but constants, the two registers, and what itself computes
 * for itself. */
static bool
match_step(const LirFn *fn, uint32_t i, Step *step)
{
    LirReg made[MOST_STEP];
    uint32_t n = 0;

    *step = (Step){.first = i,
                   .stage = fn->insns.at[i]->n > 0 ? fn->insns.at[i]->operands[0].reg : 0};
    if (fn->insns.at[i]->op != LIR_ADD_S32 || !fn->regs.at[step->stage].is_mutable)
        return false;
    for (; i < fn->insns.n && i < step->first + MOST_STEP; i++) {
        const LirInsn *insn = fn->insns.at[i];
        bool pure = (lir_op_info(insn->op)->flags & LF_PURE) != 0 && insn->n_dst == 1;
        LirReg to = insn->n > 0 ? insn->operands[0].reg : 0;
        bool phase = pure && insn->op == LIR_XOR_B32 && to != step->stage &&
                     fn->regs.at[to].is_mutable;
        if (!pure || insn->guard != 0)
            return false;
        for (uint32_t k = 1; k < insn->n; k++) {
            bool known = insn->operands[k].kind == LIR_INT ||
                         (insn->operands[k].kind == LIR_REG &&
                          (insn->operands[k].reg == step->stage ||
                           (phase && insn->operands[k].reg == to)));
            for (uint32_t j = 0; j < n; j++)
                known |= insn->operands[k].kind == LIR_REG && insn->operands[k].reg == made[j];
            if (!known)
                return false;
        }
        if (phase) {
            step->phase = to;
            step->last = i;
            return true;
        }
        if (to != step->stage && fn->regs.at[to].is_mutable)
            return false;
        if (to != step->stage)
            made[n++] = to;
    }
    return false;
}

static void
find_steps(Merge *m)
{
    const LirFn *fn = m->fn;
    Step step;

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        if (!match_step(fn, i, &step))
            continue;
        if (m->step_of == NULL) {
            m->step_of = arena_array(fn->scratch, uint32_t, fn->insns.n);
            m->made_in = arena_array(fn->scratch, uint32_t, fn->regs.n);
        }
        vec_push(fn->scratch, &m->steps, step);
        for (; i <= step.last; i++) {
            LirReg to = fn->insns.at[i]->operands[0].reg;
            m->step_of[i] = m->steps.n;
            if (!fn->regs.at[to].is_mutable)
                m->made_in[to] = m->steps.n;
        }
        i = step.last;
    }
}

static bool
is_in_step(const Merge *m, uint32_t at)
{
    return m->step_of != NULL && m->step_of[at] > 0;
}

/* Of a register that may have several definitions, one of which was seen. */
static Value *
value_of(Merge *m, LirReg reg)
{
    if (m->slot[reg] == 0) {
        vec_push(m->fn->scratch, &m->values, ((Value){.reg = reg}));
        m->slot[reg] = m->values.n;
    }
    return &m->values.at[m->slot[reg] - 1];
}

static void
find_values(Merge *m)
{
    const LirFn *fn = m->fn;

    m->slot = arena_array(fn->scratch, uint32_t, fn->regs.n);
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->n_dst == 1 && !fn->regs.at[insn->operands[0].reg].is_mutable)
            continue;
        for (uint32_t k = 0; k < insn->n_dst; k++) {
            if (!fn->regs.at[insn->operands[k].reg].is_mutable || is_in_step(m, i))
                continue;
            Value *value = value_of(m, insn->operands[k].reg);
            value->is_other = value->is_other || !sets_itself(insn);
            if (!value->is_other)
                vec_push(fn->scratch, &value->defs, i);
        }
    }
    for (uint32_t i = 0; i < m->steps.n; i++) {
        Step step = m->steps.at[i];
        for (uint32_t k = 0; k < 2; k++) {
            Value *value = value_of(m, k == 0 ? step.stage : step.phase);
            LirReg partner = k == 0 ? step.phase : step.stage;
            value->is_other |= value->steps.n > 0 && value->partner != partner;
            value->partner = partner;
            vec_push(fn->scratch, &value->steps, step);
        }
    }
}

static void
note_step_read(Merge *m, LirReg reg)
{
    if (m->made_in != NULL && m->made_in[reg] > 0)
        m->steps.at[m->made_in[reg] - 1].is_read = true;
}

/* Of the values that have no other definitions. */
static void
find_reads(Merge *m)
{
    const LirFn *fn = m->fn;

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        bool in_out = (lir_op_info(insn->op)->flags & LF_IN_OUT) != 0;
        if (is_in_step(m, i))
            continue;
        note_step_read(m, insn->guard);
        LirReg own = insn->n_dst > 0 && m->slot[insn->operands[0].reg] != 0 && sets_itself(insn)
                         ? insn->operands[0].reg
                         : 0;
        if (m->slot[insn->guard] != 0)
            vec_push(fn->scratch, &value_of(m, insn->guard)->reads, i);
        for (uint32_t k = in_out ? 0 : insn->n_dst; k < insn->n; k++) {
            LirReg reg = insn->operands[k].reg;
            note_step_read(m, reg);
            if (m->slot[reg] != 0 && reg != own)
                vec_push(fn->scratch, &value_of(m, reg)->reads, i);
        }
    }
    for (uint32_t i = 0; i < m->steps.n; i++) {
        if (m->steps.at[i].is_read)
            value_of(m, m->steps.at[i].stage)->is_other = true;
    }
}

/* ---- which are the same ---- */

/* Whether two instructions set a register in the same way. */
static bool
is_alike(const LirInsn *x, const LirInsn *y)
{
    bool alike = x->op == y->op && x->n == y->n;

    for (uint32_t k = 1; alike && k < x->n; k++)
        alike = x->operands[k].kind == y->operands[k].kind &&
                x->operands[k].integer == y->operands[k].integer;
    return alike;
}

static bool
is_read_between(const Value *value, uint32_t first, uint32_t last)
{
    for (uint32_t k = 0; k < value->reads.n; k++) {
        if (value->reads.at[k] > first && value->reads.at[k] < last)
            return true;
    }
    return false;
}

/* Whether both are set in the same ways. */
static bool
are_alike(const LirFn *fn, const Value *x, const Value *y)
{
    bool alike = x->defs.n == y->defs.n && fn->regs.at[x->reg].class == fn->regs.at[y->reg].class;

    for (uint32_t k = 0; alike && k < x->defs.n; k++)
        alike = is_alike(fn->insns.at[x->defs.at[k]], fn->insns.at[y->defs.at[k]]);
    return alike;
}

/* Whether `x` and `y` differ only where nobody reads the one that is ahead. */
static bool
are_same(const Merge *m, const Value *x, const Value *y)
{
    for (uint32_t k = 0; k < x->defs.n; k++) {
        uint32_t p = x->defs.at[k], q = y->defs.at[k];
        const Value *ahead = p < q ? x : y;
        if (is_read_between(ahead, p < q ? p : q, p < q ? q : p) || !go_together(m, p, q))
            return false;
    }
    return true;
}

/* Whether two steps do the same, each to its own. */
static bool
are_alike_steps(const LirFn *fn, const Step *x, const Step *y)
{
    bool alike = x->last - x->first == y->last - y->first;

    for (uint32_t k = 0; alike && k <= x->last - x->first; k++) {
        const LirInsn *p = fn->insns.at[x->first + k], *q = fn->insns.at[y->first + k];
        alike = is_alike(p, q);
        for (uint32_t j = 0; alike && j < p->n;
             j++) /* what they compute for themselves is as far away */
            alike = (p->operands[j].reg == x->stage) == (q->operands[j].reg == y->stage) &&
                    (p->operands[j].reg == x->phase) == (q->operands[j].reg == y->phase);
    }
    return alike;
}

/* The same of two stages' numbers with their phases. */
static bool
are_same_cursors(const Merge *m, const Value *x, const Value *y)
{
    const Value *x2 = &m->values.at[m->slot[x->partner] - 1],
                *y2 = &m->values.at[m->slot[y->partner] - 1];

    if (x->is_other || y->is_other || x2->is_other || y2->is_other || x2->steps.n != x->steps.n ||
        y2->steps.n != y->steps.n || x->steps.n != y->steps.n || !are_alike(m->fn, x, y) ||
        !are_alike(m->fn, x2, y2) || !are_same(m, x, y) || !are_same(m, x2, y2))
        return false;
    for (uint32_t k = 0; k < x->steps.n; k++) {
        const Step *p = &x->steps.at[k], *q = &y->steps.at[k];
        bool first = p->first < q->first;
        uint32_t from = first ? p->last : q->last, to = first ? q->first : p->first;
        if (!are_alike_steps(m->fn, p, q) || !go_together(m, p->first, q->first) ||
            is_read_between(first ? x : y, from, to) || is_read_between(first ? x2 : y2, from, to))
            return false;
    }
    return true;
}

/* `mov r, c`; c. */
static bool
is_constant(const LirInsn *insn, int64_t *c)
{
    *c = insn->operands[1].integer;
    return insn->op == LIR_MOV_B32 && insn->operands[1].kind == LIR_INT;
}

/* `xor r, r, 1` */
static bool
is_turn(const LirInsn *insn)
{
    return insn->op == LIR_XOR_B32 && insn->operands[2].kind == LIR_INT &&
           insn->operands[2].integer == 1;
}

/* Whether products are issued there: of an mma role's phases, which lie in uniform registers, ptxas
 * makes more instructions where two are one (attention backward, head dimension 128: 286 an
 * iteration in place of 282). */
static bool
issues_between(const LirFn *fn, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++) {
        LirOpcode op = fn->insns.at[i]->op;
        if (op == LIR_TMEM_MMA_SS || op == LIR_TMEM_MMA_TS || op == LIR_TMEM_MMA_SCALED)
            return true;
    }
    return false;
}

/* Whether each reading of `value` lies between one of the changes of `x` and its own that
 * follows. */
static bool
is_read_behind(const Value *value, const Value *x)
{
    for (uint32_t k = 0; k < value->reads.n; k++) {
        uint32_t at = value->reads.at[k];
        bool is_behind = false;
        for (uint32_t d = 1; d < x->defs.n; d++)
            is_behind |= at > x->defs.at[d] && at < value->defs.at[d];
        if (!is_behind)
            return false;
    }
    return true;
}

/* Whether both are set as often, first to constants that are opposites. */
static bool
begin_opposite(const LirFn *fn, const Value *x, const Value *y)
{
    int64_t a, b;

    return x->defs.n == y->defs.n && x->defs.n >= 2 &&
           is_constant(fn->insns.at[x->defs.at[0]], &a) &&
           is_constant(fn->insns.at[y->defs.at[0]], &b) && (a ^ b) == 1;
}

/* Whether `y`, which begins as the opposite of `x`, turns in the same iterations, and is read only
 * where x has turned already and y not yet: there they hold the same. */
static bool
are_opposite(const Merge *m, const Value *x, const Value *y)
{
    const LirFn *fn = m->fn;

    if (!go_together(m, x->defs.at[0], y->defs.at[0]))
        return false;
    for (uint32_t k = 1; k < x->defs.n; k++) {
        uint32_t p = x->defs.at[k], q = y->defs.at[k];
        if (!is_turn(fn->insns.at[p]) || !is_turn(fn->insns.at[q]) || p > q || p < y->defs.at[0] ||
            !go_together(m, p, q) || issues_between(fn, p, q))
            return false;
    }
    return is_read_behind(y, x);
}

/* `y` becomes `x`, whose changes stay. */
static void
merge_opposite(Merge *m, Value *x, Value *y)
{
    for (uint32_t k = 0; k < y->defs.n; k++)
        m->drop[y->defs.at[k]] = true;
    for (uint32_t k = 0; k < y->reads.n; k++)
        vec_push(m->fn->scratch, &x->reads, y->reads.at[k]);
    y->same_as = x->reg;
}

/* `y` becomes `x`: of two definitions the later one stays. */
static void
merge(Merge *m, Value *x, Value *y)
{
    for (uint32_t k = 0; k < x->defs.n; k++) {
        uint32_t p = x->defs.at[k], q = y->defs.at[k];
        m->drop[p < q ? p : q] = true;
        x->defs.at[k] = p < q ? q : p;
    }
    for (uint32_t k = 0; k < y->reads.n; k++)
        vec_push(m->fn->scratch, &x->reads, y->reads.at[k]);
    y->same_as = x->reg;
}

static void
merge_cursors(Merge *m, Value *x, Value *y)
{
    Value *x2 = &m->values.at[m->slot[x->partner] - 1],
          *y2 = &m->values.at[m->slot[y->partner] - 1];

    for (uint32_t k = 0; k < x->steps.n; k++) {
        Step p = x->steps.at[k], q = y->steps.at[k];
        for (uint32_t i = (p.first < q.first ? p : q).first; i <= (p.first < q.first ? p : q).last;
             i++)
            m->drop[i] = true;
        x->steps.at[k] = x2->steps.at[k] = p.first < q.first ? q : p;
    }
    merge(m, x, y);
    merge(m, x2, y2);
}

/* (What a register became may have become another one since.) */
static void
rename_reader(const Merge *m, LirReg *reg)
{
    while (*reg != 0 && m->slot[*reg] != 0 && m->values.at[m->slot[*reg] - 1].same_as != 0)
        *reg = m->values.at[m->slot[*reg] - 1].same_as;
}

static void
rewrite(const Merge *m)
{
    LirFn *fn = m->fn;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        LirInsn *insn = fn->insns.at[i];
        if (m->drop[i])
            continue;
        rename_reader(m, &insn->guard);
        for (uint32_t k = 0; k < insn->n; k++)
            rename_reader(m, &insn->operands[k].reg);
        fn->insns.at[kept++] = insn;
    }
    fn->insns.n = kept;
}

/* What is to be tried on two registers. */
static void
merge_two(Merge *m, Value *x, Value *y, bool opposite)
{
    if (!(opposite ? begin_opposite : are_alike)(m->fn, x, y))
        return;
    if (!m->looked) {
        m->looked = true;
        find_stretches(m);
        find_reads(m);
    }
    if (x->partner != 0 || y->partner != 0) { /* by the stages' numbers */
        if (!opposite && x->partner != 0 && y->partner != 0 && x->reg == x->steps.at[0].stage &&
            y->reg == y->steps.at[0].stage && are_same_cursors(m, x, y))
            merge_cursors(m, x, y);
    } else if (opposite && are_opposite(m, x, y))
        merge_opposite(m, x, y);
    else if (!opposite && are_same(m, x, y))
        merge(m, x, y);
}

void
lir_merge(LirFn *fn, bool opposites, bool cursors)
{
    ArenaMark begin = arena_mark(fn->scratch);
    Merge m = {.fn = fn, .drop = arena_array(fn->scratch, bool, fn->insns.n)};

    if (cursors)
        find_steps(&m);
    find_values(&m);
    for (uint32_t pass = 0; pass < (opposites ? 2 : 1); pass++) {
        for (uint32_t j = 0; j < m.values.n; j++) {
            Value *y = &m.values.at[j];
            uint32_t end = pass == 0 ? j : m.values.n;
            for (uint32_t k = 0; k < end && !y->is_other && y->same_as == 0; k++) {
                Value *x = &m.values.at[k];
                if (k != j && !x->is_other && x->same_as == 0)
                    merge_two(&m, x, y, pass == 1);
            }
        }
    }
    if (m.stretches.n > 0)
        rewrite(&m);
    lir_end_work(fn, begin);
}
