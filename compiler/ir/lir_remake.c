/* lir_remake.c - values used only before and after a loop are recomputed after it, not kept in
 * registers.
 *
 * The builder makes a pure instruction once and hoists it as far as possible.  An address that is
 * used before a loop and after it, or in an outer loop but not in the inner one, then occupies a
 * register during the inner loop.  Such an instruction is repeated where it is read if its operands
 * are constants, parameters and registers that the loop reads anyway.
 */
#include <string.h>

#include "compiler/ir/lir.h"

enum {
    DEEPEST = 6,
    WAIT = 3 /* instructions: label, test, branch back; so short a loop waits for a barrier */
};

static const uint32_t nowhere = UINT32_MAX;

/* The program as the loop sees it. */
typedef enum Part {
    BEFORE, /* in the loop around it */
    INSIDE,
    BEHIND, /* in the loop around it */
    BEYOND, /* outside that one */
    PARTS
} Part;

/* A register that is defined in one part and read in another. */
typedef struct Crossing {
    LirReg reg;
    uint32_t reader[PARTS]; /* the first one; nowhere: none */
    uint32_t place[PARTS];  /* where it is made again; nowhere: it is not */
    LirReg again[PARTS];    /* what it is called there */
} Crossing;

typedef struct Copy {
    LirReg reg, again;
    Part part;
} Copy;

typedef struct Remake {
    LirFn *fn;
    LirLoops loops;         /* of the program as it is */
    LirExtent loop, around; /* `around`: the innermost loop around it, or all there is */
    uint32_t *defined;      /* by register: where; nowhere: not at all, or at several places */
    uint32_t *slot;         /* by register: 1 + index into `crossings`; 0: it crosses nothing */
    uint32_t n_regs;        /* of these two */
    bool *skipped;          /* by position in `around`: see find_skipped; NULL: not asked yet */
    VEC(Crossing) crossings;
    VEC(Copy) copies;
    VEC(LirBefore) before; /* that make them, by position */
} Remake;

/* ---- loops ---- */

LirLoops
lir_loops(const LirFn *fn)
{
    uint32_t *labels = arena_array(fn->scratch, uint32_t, fn->labels + 1);
    LirLoops loops = {0};

    if (fn->labels == 0)
        return loops;
    memset(labels, 0xff, (fn->labels + 1) * sizeof *labels);
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->op - LIR_LABEL > LIR_BRA_UNI - LIR_LABEL)
            continue;
        if (insn->op == LIR_LABEL) {
            labels[insn->operands[0].integer] = i;
            continue;
        }
        if (labels[insn->operands[0].integer] == nowhere)
            continue;
        LirExtent loop = {labels[insn->operands[0].integer], i};
        if (loop.last - loop.first < WAIT)
            continue;
        vec_push(fn->scratch, &loops, loop);
    }
    return loops;
}

/* Takes up the loop with number `which`; false when there are fewer. */
static bool
take_loop(Remake *r, uint32_t which)
{
    if (which == 0 || r->copies.n > 0)
        r->loops = lir_loops(r->fn);
    if (which >= r->loops.n)
        return false;
    r->loop = r->loops.at[which];
    r->around = (LirExtent){0, r->fn->insns.n - 1};
    for (uint32_t k = which + 1; k < r->loops.n; k++) {
        if (r->loops.at[k].first < r->loop.first) {
            r->around = r->loops.at[k];
            break;
        }
    }
    return true;
}

/* Marks the positions in `around` that a branch jumps over, or that lie in a loop in it: not every
 * way to what follows leads through them, or it leads through them often. */
static void
find_skipped(Remake *r)
{
    const LirFn *fn = r->fn;
    uint32_t begin = r->around.first, n = r->around.last - begin + 1;
    uint32_t *from = arena_array(fn->scratch, uint32_t, fn->labels + 1);
    int32_t *change = arena_array(fn->scratch, int32_t, n + 2), depth = 0;

    r->skipped = arena_array(fn->scratch, bool, n + 1);
    for (uint32_t i = begin; i < r->around.last; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->op > LIR_BRA_UNI || insn->op == LIR_COMMENT)
            continue;
        uint32_t *first = &from[insn->operands[0].integer];
        if (*first == 0) {
            *first = i + 1;
        } else { /* from a branch to its label, or from a label to a branch back to it */
            change[*first - begin]++;
            change[i + 1 - begin]--;
        }
    }
    for (uint32_t i = 0; i <= n; i++) {
        depth += change[i];
        r->skipped[i] = depth > 0;
    }
}

/* ---- who reads what ---- */

static Part
part_of(const Remake *r, uint32_t at)
{
    if (at < r->around.first || at > r->around.last)
        return BEYOND;
    return at < r->loop.first ? BEFORE : at > r->loop.last ? BEHIND : INSIDE;
}

static Crossing *
crossing_of(const Remake *r, LirReg reg)
{
    return reg < r->n_regs && r->slot[reg] != 0 ? &r->crossings.at[r->slot[reg] - 1] : NULL;
}

/* A register is read at `at`, in `part`; it may be defined there. */
static void
note_reader(Remake *r, LirReg reg, uint32_t at, Part part)
{
    if (r->slot[reg] == 0) {
        Crossing crossing = {.reg = reg};
        memset(crossing.reader, 0xff, sizeof crossing.reader);
        memset(crossing.place, 0xff, sizeof crossing.place);
        vec_push(r->fn->scratch, &r->crossings, crossing);
        r->slot[reg] = r->crossings.n;
    }
    uint32_t *reader = &crossing_of(r, reg)->reader[part];
    if (*reader == nowhere)
        *reader = at;
}

/* Notes what `part` reads that is defined elsewhere. */
static void
note_part(Remake *r, uint32_t first, uint32_t end, Part part)
{
    for (uint32_t i = first; i < end; i++) {
        const LirInsn *insn = r->fn->insns.at[i];
        if (r->defined[insn->guard] - first >= end - first && r->defined[insn->guard] != nowhere)
            note_reader(r, insn->guard, i, part);
        for (uint32_t k = insn->n_dst; k < insn->n; k++) {
            LirReg reg = insn->operands[k].reg;
            if (r->defined[reg] - first >= end - first && r->defined[reg] != nowhere)
                note_reader(r, reg, i, part);
        }
    }
}

/* Finds where registers are defined. */
static void
note_defined(Remake *r)
{
    const LirFn *fn = r->fn;

    r->n_regs = fn->regs.n;
    r->defined = arena_array(fn->scratch, uint32_t, r->n_regs);
    r->slot = arena_array(fn->scratch, uint32_t, r->n_regs);
    memset(r->defined, 0xff, r->n_regs * sizeof *r->defined);
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        for (uint32_t k = 0; k < insn->n_dst; k++) {
            LirReg reg = insn->operands[k].reg;
            r->defined[reg] = fn->regs.at[reg].is_mutable ? nowhere : i;
        }
    }
    r->defined[0] = nowhere;
}

/* Finds what crosses parts.  Outside of `around` nothing is made again, whatever is read there. */
static void
note_all(Remake *r)
{
    for (uint32_t k = 0; k < r->crossings.n; k++)
        r->slot[r->crossings.at[k].reg] = 0;
    r->crossings.n = 0;
    note_part(r, r->around.first, r->loop.first, BEFORE);
    note_part(r, r->loop.first, r->loop.last + 1, INSIDE);
    note_part(r, r->loop.last + 1, r->around.last + 1, BEHIND);
}

/* ---- making again ---- */

/* Whether the loop reads `reg`, and it is there when `part` begins. */
static bool
is_there(const Remake *r, LirReg reg, Part part)
{
    const Crossing *crossing = crossing_of(r, reg);

    return crossing != NULL && crossing->reader[INSIDE] != nowhere &&
           r->defined[reg] < (part == BEFORE ? r->around.first : r->loop.first);
}

static bool
can_make(const Remake *r, LirReg reg, Part part, uint32_t depth)
{
    if (depth == DEEPEST || r->defined[reg] == nowhere || r->defined[reg] > r->loop.first)
        return false;
    const LirInsn *insn = r->fn->insns.at[r->defined[reg]];
    if ((lir_op_info(insn->op)->flags & (LF_PURE | LF_DEAR)) != LF_PURE || insn->n_dst != 1 ||
        insn->guard != 0)
        return false;
    for (uint32_t k = 1; k < insn->n; k++) {
        LirReg source = insn->operands[k].reg;
        if (source != 0 && !is_there(r, source, part) && !can_make(r, source, part, depth + 1))
            return false;
    }
    return true;
}

static LirReg
make_again(Remake *r, LirReg reg, Part part, uint32_t at)
{
    LirFn *fn = r->fn;

    for (uint32_t k = 0; k < r->copies.n; k++) {
        const Copy *copy = &r->copies.at[k];
        if (copy->reg == reg && copy->part == part)
            return copy->again;
    }
    const LirInsn *from = fn->insns.at[r->defined[reg]];
    LirInsn *insn = arena_copy(fn->arena, from, sizeof *from);
    insn->operands = arena_copy(fn->arena, from->operands, from->n * sizeof *from->operands);
    for (uint32_t k = 1; k < insn->n; k++) {
        LirReg source = insn->operands[k].reg;
        if (source != 0 && !is_there(r, source, part))
            insn->operands[k].reg = make_again(r, source, part, at);
    }
    LirRegInfo info = fn->regs.at[reg];
    vec_push(fn->arena, &fn->regs, info);
    insn->operands[0].reg = fn->regs.n - 1;
    Copy copy = {reg, fn->regs.n - 1, part};
    LirBefore before = {at, insn};
    vec_push(fn->scratch, &r->copies, copy);
    vec_push(fn->scratch, &r->before, before);
    return copy.again;
}

/* The last position in `part` that leads to all readers there; nowhere: there is none. */
static uint32_t
place_in(Remake *r, const Crossing *crossing, Part part)
{
    uint32_t lowest = part == BEFORE ? r->around.first + 1 : r->loop.last + 1;

    if (r->skipped == NULL)
        find_skipped(r);
    for (uint32_t at = crossing->reader[part]; at >= lowest; at--) {
        if (!r->skipped[at - r->around.first])
            return at;
    }
    return nowhere;
}

/* Where `crossing` is to be made again: in every part around the loop that reads it, or nowhere. */
static void
find_places(Remake *r, Crossing *crossing)
{
    if (crossing->reader[INSIDE] != nowhere || r->defined[crossing->reg] > r->loop.first)
        return;
    for (Part part = BEFORE; part <= BEHIND; part++) {
        if (crossing->reader[part] == nowhere)
            continue;
        if (can_make(r, crossing->reg, part, 0))
            crossing->place[part] = place_in(r, crossing, part);
        if (crossing->place[part] == nowhere) {
            memset(crossing->place, 0xff, sizeof crossing->place);
            return;
        }
    }
}

/* In the order of the places: what one needs may then be there already. */
static void
make_all(Remake *r)
{
    for (uint32_t at = 0, next; at != nowhere; at = next) {
        next = nowhere;
        for (uint32_t k = 0; k < r->crossings.n; k++) {
            Crossing *crossing = &r->crossings.at[k];
            for (Part part = BEFORE; part <= BEHIND; part++) {
                uint32_t place = crossing->place[part];
                if (place == at)
                    crossing->again[part] = make_again(r, crossing->reg, part, at);
                else if (place > at && place < next)
                    next = place;
            }
        }
    }
}

static void
rename_reader(const Remake *r, LirReg *reg, uint32_t at)
{
    if (*reg >= r->n_regs || r->slot[*reg] == 0)
        return;
    const Crossing *crossing = &r->crossings.at[r->slot[*reg] - 1];
    if (at >= crossing->place[part_of(r, at)])
        *reg = crossing->again[part_of(r, at)];
}

static void
insert_all(Remake *r)
{
    LirFn *fn = r->fn;

    for (uint32_t i = r->around.first; i <= r->around.last; i++) {
        LirInsn *insn = fn->insns.at[i];
        rename_reader(r, &insn->guard, i);
        for (uint32_t k = insn->n_dst; k < insn->n; k++)
            rename_reader(r, &insn->operands[k].reg, i);
    }
    lir_insert(fn, r->before.at, r->before.n);
}

void
lir_remake(LirFn *fn)
{
    ArenaMark begin = arena_mark(fn->scratch);
    Remake r = {.fn = fn};

    for (uint32_t which = 0; take_loop(&r, which); which++) {
        if (which == 0 || r.copies.n > 0) {
            r.crossings.n = r.copies.n = r.before.n = 0;
            note_defined(&r);
        }
        note_all(&r);
        r.skipped = NULL;
        for (uint32_t k = 0; k < r.crossings.n; k++)
            find_places(&r, &r.crossings.at[k]);
        make_all(&r);
        if (r.copies.n > 0)
            insert_all(&r);
    }
    lir_end_work(fn, begin);
}
