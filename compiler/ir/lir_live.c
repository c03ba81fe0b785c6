/* lir_live.c - how many registers the innermost loops of a program need. */
#include <string.h>

#include "compiler/ir/lir.h"

enum {
    WARP_BITS = 32,
    MASK_USES = 8 /* a predicate with so many uses masks the elements of a diagonal */
};

typedef struct Walk {
    const LirFn *fn;
    uint64_t **labels;  /* by label: the registers alive there, a bit each */
    uint64_t *now;      /* those alive at hand */
    uint32_t words;     /* of such a set */
    uint32_t registers; /* of 32 bits alive at hand */
    uint32_t enough;    /* more of them are not counted .. */
    bool *inner;        /* .. in innermost loops: which instructions are in one */
    bool over;          /* there are more */
    bool *repeats;      /* by label: a branch behind it goes there */
    bool changed;       /* the set at such a label, which the branch has read before */
} Walk;

static inline uint32_t
width_of(const LirFn *fn, LirReg reg)
{
    /* a predicate is not counted */
    static const uint8_t words[LIR_CLASSES] = {
        [LIR_B16] = 1, [LIR_B32] = 1, [LIR_F32] = 1, [LIR_B64] = 2, [LIR_B128] = 4};

    return words[fn->regs.at[reg].class];
}

/* Of these two most have nothing to do: that is not asked. */
static inline void
add(Walk *w, LirReg reg)
{
    uint64_t *set = &w->now[reg / 64], is = *set >> reg % 64 & 1;

    *set |= (uint64_t)1 << reg % 64;
    w->registers += (uint32_t)(1 - is) * width_of(w->fn, reg);
}

static inline void
drop(Walk *w, LirReg reg)
{
    uint64_t *set = &w->now[reg / 64], is = *set >> reg % 64 & 1;

    *set &= ~((uint64_t)1 << reg % 64);
    w->registers -= (uint32_t)is * width_of(w->fn, reg);
}

static void
drop_all(Walk *w)
{
    memset(w->now, 0, w->words * sizeof *w->now);
    w->registers = 0;
}

static void
add_label(Walk *w, int64_t label)
{
    for (uint32_t k = 0; k < w->words; k++) {
        uint64_t rest = w->labels[label][k] & ~w->now[k];
        for (uint32_t bit = 0; rest != 0; bit++, rest >>= 1) {
            if ((rest & 1) != 0)
                add(w, k * 64 + bit);
        }
    }
}

/* From what is alive behind an instruction to that with its results, read or not. */
static void
step_back(Walk *w, const LirInsn *insn)
{
    if (insn->op - LIR_BRA <= LIR_RET - LIR_BRA) {
        if (insn->guard == 0)
            drop_all(w);
        if (insn->op != LIR_RET)
            add_label(w, insn->operands[0].integer);
    } else if (insn->op == LIR_LABEL) {
        int64_t label = insn->operands[0].integer;
        uint64_t *there = w->labels[label];
        w->changed |= w->repeats[label] && memcmp(there, w->now, w->words * sizeof *there) != 0;
        memcpy(there, w->now, w->words * sizeof *there);
    }
    for (uint32_t k = 0; k < insn->n_dst; k++)
        add(w, insn->operands[k].reg);
}

/* And on to what is alive before it. */
static void
step_over(Walk *w, const LirInsn *insn)
{
    if (insn->guard == 0) {
        for (uint32_t k = 0; k < insn->n_dst; k++)
            drop(w, insn->operands[k].reg);
    }
    add(w, insn->guard);
    for (uint32_t k = insn->n_dst; k < insn->n; k++)
        add(w, insn->operands[k].reg);
}

/* Finds the labels that branches behind them go to, and what lies between: the outermost loops, in
 * order. */
static LirLoops
find_repeats(Walk *w, const LirFn *fn)
{
    uint32_t *passed = arena_array(fn->scratch, uint32_t, fn->labels + 1); /* 1 + where */
    LirLoops outer = {0};

    w->repeats = arena_array(fn->scratch, bool, fn->labels + 1);
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->op - LIR_LABEL > LIR_BRA_UNI - LIR_LABEL)
            continue;
        if (insn->op == LIR_LABEL) {
            passed[insn->operands[0].integer] = i + 1;
            continue;
        }
        if (passed[insn->operands[0].integer] == 0)
            continue;
        w->repeats[insn->operands[0].integer] = true;
        LirExtent loop = {passed[insn->operands[0].integer] - 1, i};
        for (; outer.n > 0 && outer.at[outer.n - 1].last >= loop.first; outer.n--) {
            uint32_t first = outer.at[outer.n - 1].first;
            loop.first = first < loop.first ? first : loop.first;
        }
        vec_push(fn->scratch, &outer, loop);
    }
    return outer;
}

/* From behind position `end` - 1 to in front of position `first`. */
static void
walk_back(Walk *w, uint32_t first, uint32_t end, uint32_t *counts)
{
    for (uint32_t i = end; i-- > first;) {
        step_back(w, w->fn->insns.at[i]);
        counts[i] = w->registers;
        w->over |= (w->registers > w->enough) & w->inner[i];
        step_over(w, w->fn->insns.at[i]);
    }
}

/* Through a loop, again and again until what is alive at its labels is known. */
static void
walk_loop(Walk *w, LirExtent loop, uint32_t *counts)
{
    uint64_t *behind = arena_copy(w->fn->scratch, w->now, w->words * sizeof *w->now);
    uint32_t registers = w->registers;

    do {
        memcpy(w->now, behind, w->words * sizeof *w->now);
        w->registers = registers;
        w->changed = false;
        walk_back(w, loop.first, loop.last + 1, counts);
    } while (w->changed && !w->over); /* rounds only add to what is alive */
}

static bool
is_innermost(const LirLoops *loops, uint32_t which)
{
    for (uint32_t k = 0; k < which; k++) {
        if (loops->at[k].first > loops->at[which].first)
            return false;
    }
    return true;
}

/* The registers alive behind each instruction of a loop and behind the last one, its results
 * counted; up to where it is seen that there are more than `enough` in an innermost loop. */
static uint32_t *
count_alive(Walk *w, const LirFn *fn, const LirLoops *loops, uint32_t enough)
{
    uint32_t *counts = arena_array(fn->scratch, uint32_t, fn->insns.n + 1);

    *w = (Walk){.fn = fn,
                .words = fn->regs.n / 64 + 1,
                .enough = enough,
                .inner = arena_array(fn->scratch, bool, fn->insns.n + 1),
                .labels = arena_array(fn->scratch, uint64_t *, fn->labels + 1)};
    w->now = arena_array(fn->scratch, uint64_t, w->words);
    for (uint32_t k = 0; k <= fn->labels; k++)
        w->labels[k] = arena_array(fn->scratch, uint64_t, w->words);
    for (uint32_t k = 0; k < loops->n; k++)
        if (is_innermost(loops, k))
            memset(w->inner + loops->at[k].first, true, loops->at[k].last - loops->at[k].first + 1);
    LirLoops outer = find_repeats(w, fn);
    uint32_t end = fn->insns.n;
    for (uint32_t k = outer.n; k-- > 0 && !w->over; end = outer.at[k].first) {
        walk_back(w, outer.at[k].last + 1, end, counts);
        walk_loop(w, outer.at[k], counts);
    }
    return counts;
}

/* Elements of the loop that are chosen by a mask: ptxas makes many of their predicates ahead
 * and keeps them packed.  Not those of an exchange between lanes: one predicate chooses them
 * all. */
static uint32_t
count_masked(const LirFn *fn, LirExtent loop)
{
    uint8_t *uses = arena_array(fn->scratch, uint8_t, fn->regs.n);
    uint32_t n = 0;

    for (uint32_t i = loop.first; i <= loop.last; i++) {
        const LirInsn *insn = fn->insns.at[i];
        LirReg by = insn->op == LIR_SEL_F32 ? insn->operands[insn->n - 1].reg : 0;
        if (by == 0 || uses[by] == MASK_USES)
            continue;
        uses[by]++;
        n++;
    }
    return n / WARP_BITS;
}

/* Of the registers alive behind instruction `at`, those that the loop only reads. */
static uint32_t
count_held(Walk *w, const LirFn *fn, LirExtent loop, uint32_t at)
{
    uint64_t *written = arena_array(fn->scratch, uint64_t, w->words);

    drop_all(w);
    for (uint32_t i = fn->insns.n; i-- > at + 1;) {
        step_back(w, fn->insns.at[i]);
        step_over(w, fn->insns.at[i]);
    }
    step_back(w, fn->insns.at[at]);
    for (uint32_t i = loop.first; i <= loop.last; i++) {
        const LirInsn *insn = fn->insns.at[i];
        for (uint32_t k = 0; k < insn->n_dst; k++)
            written[insn->operands[k].reg / 64] |= (uint64_t)1 << insn->operands[k].reg % 64;
    }
    for (LirReg reg = 0; reg < fn->regs.n; reg++) {
        if ((written[reg / 64] >> reg % 64 & 1) != 0)
            drop(w, reg);
    }
    return w->registers;
}

bool
lir_exceeds(const LirFn *fn, uint32_t enough)
{
    ArenaMark begin = arena_mark(fn->scratch);
    LirLoops loops = lir_loops(fn);
    Walk w = {0};

    if (loops.n > 0)
        count_alive(&w, fn, &loops, enough);
    lir_end_work(fn, begin);
    return w.over;
}

LirNeed
lir_need(const LirFn *fn, uint32_t enough)
{
    ArenaMark begin = arena_mark(fn->scratch);
    LirLoops loops = lir_loops(fn);
    LirNeed need = {0};
    LirExtent loop = {0};
    uint32_t peak = 0;
    Walk w = {0};
    const uint32_t *alive = loops.n > 0 ? count_alive(&w, fn, &loops, enough) : NULL;

    if (w.over)
        need.alive = enough + 1;
    for (uint32_t k = 0; k < loops.n && !w.over; k++) {
        if (!is_innermost(&loops, k))
            continue;
        uint32_t most = loops.at[k].first, masked = count_masked(fn, loops.at[k]);
        for (uint32_t i = loops.at[k].first; i <= loops.at[k].last; i++)
            most = alive[i] > alive[most] ? i : most;
        need.alive = alive[most] > need.alive ? alive[most] : need.alive;
        if (alive[most] + masked <= need.with_masks)
            continue;
        need.with_masks = alive[most] + masked;
        loop = loops.at[k];
        peak = most;
    }
    if (need.with_masks > 0) {
        need.held = count_held(&w, fn, loop, peak);
        need.instructions = loop.last - loop.first + 1;
    }
    lir_end_work(fn, begin);
    return need;
}
