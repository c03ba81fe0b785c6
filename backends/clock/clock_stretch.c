/* clock_stretch.c - the search for ways: best first, over blocks.
 *
 * A way's score is the number of its instructions of lines that did not run, then or shortly before
 * or after, and of tallied instructions that ran more or less often than in PTX.  Going round a
 * loop is progress as long as it brings tallied instructions that are still missing.
 */
#include "backends/clock/clock_stretch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 20000 };

static const float SKIPS_GUARDED = 12, SKIPS_OPTIONAL = 1.5F, SKIPS = 40; /* a token */
static const float MISSING = 0.5F;     /* a tallied instruction: it may have moved */
static const float SLACK = 80;         /* above the best end, a way is given up */
static const float EACH_INSN = 0.001F; /* of two that fit, the shorter */

typedef struct Slot {    /* a tallied kind on a line */
    uint32_t line, next; /* 1 + another of the line */
    uint32_t ran;
    uint8_t tally;
} Slot;

typedef struct Step { /* so far along a block */
    uint32_t block, first, end;
    uint32_t before; /* 1 + step */
    float extra;     /* instructions that do not fit */
    uint32_t taken;  /* tallied ones that do */
    uint32_t insns;
    uint32_t counts; /* of slots, in `counts` */
    uint32_t same;   /* 1 + an earlier step into the block */
} Step;

struct StretchFinder {
    Arena *arena;
    const CodeKernel *kernel;
    uint8_t *ptx_tally, *code_tally;
    uint32_t *ptx_line, n_lines;
    /* of the stretch that is looked for */
    uint32_t *line_stamp, *line_slots, stamp; /* by line: it ran; 1 + its first slot */
    VEC(Slot) slots;
    VEC(Step) steps;
    VEC(uint16_t) counts;
    VEC(uint32_t) heap;
    uint32_t *into; /* by block: 1 + the last step into it */
    uint32_t all;   /* tallied instructions */
    StretchGoal goal;
    StretchEnds *ends;
    struct {
        uint32_t step, end;
    } of_end[MOST_ENDS];
    float best;
};

StretchFinder *
stretch_finder(Arena *arena, const CodeKernel *kernel, const SimModule *module)
{
    StretchFinder *f = arena_new(arena, StretchFinder);
    SimInsnView v;
    uint32_t n = 0;

    *f = (StretchFinder){.arena = arena, .kernel = kernel};
    while (sim_insn_at(module, n, &v))
        n++;
    f->ptx_tally = arena_array(arena, uint8_t, n + 1);
    f->ptx_line = arena_array(arena, uint32_t, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        sim_insn_at(module, k, &v);
        f->ptx_tally[k] = tally_of_ptx(v.mnemonic);
        f->ptx_line[k] = v.line;
        f->n_lines = v.line >= f->n_lines ? v.line + 1 : f->n_lines;
    }
    f->code_tally = arena_array(arena, uint8_t, kernel->insns.n + 1);
    for (uint32_t i = 0; i < kernel->insns.n; i++) {
        f->code_tally[i] = tally_of_code(&kernel->insns.at[i]);
        if (kernel->insns.at[i].ptx_line >= f->n_lines)
            f->n_lines = kernel->insns.at[i].ptx_line + 1;
    }
    f->line_stamp = arena_array(arena, uint32_t, f->n_lines);
    f->line_slots = arena_array(arena, uint32_t, f->n_lines);
    f->into = arena_array(arena, uint32_t, kernel->blocks.n + 1);
    return f;
}

uint32_t
stretch_line(const StretchFinder *finder, uint32_t insn)
{
    return finder->ptx_line[insn];
}

/* ---- what ran ---- */

static uint32_t
slot_of(const StretchFinder *f, uint32_t line, uint8_t tally)
{
    uint32_t s = f->line_stamp[line] == f->stamp ? f->line_slots[line] : 0;

    while (s && f->slots.at[s - 1].tally != tally)
        s = f->slots.at[s - 1].next;
    return s;
}

static void
count_events(StretchFinder *f, StretchEvents what)
{
    f->stamp++;
    f->slots.n = 0;
    f->all = 0;
    for (uint32_t e = what.begin; e < what.end; e++) {
        uint32_t insn = what.events[e].insn, line = f->ptx_line[insn];
        uint8_t tally = f->ptx_tally[insn];
        if (f->line_stamp[line] != f->stamp) {
            f->line_stamp[line] = f->stamp;
            f->line_slots[line] = 0;
        }
        if (tally == 0 || what.events[e].kind == SIM_EVENT_OFF || e < what.from || e >= what.to)
            continue;
        uint32_t s = slot_of(f, line, tally);
        if (!s) {
            vec_push(f->arena, &f->slots,
                     ((Slot){.line = line, .next = f->line_slots[line], .tally = tally}));
            s = f->line_slots[line] = f->slots.n;
        }
        f->slots.at[s - 1].ran++;
        f->all++;
    }
}

/* ---- steps ---- */

static float
promise(const StretchFinder *f, const Step *step)
{
    return step->extra + MISSING * (float)(f->all - step->taken) + EACH_INSN * (float)step->insns;
}

static bool
is_worse(const StretchFinder *f, uint32_t a, uint32_t b)
{
    return promise(f, &f->steps.at[a]) > promise(f, &f->steps.at[b]);
}

static void
push_heap(StretchFinder *f, uint32_t step)
{
    vec_push(f->arena, &f->heap, step);
    for (uint32_t k = f->heap.n - 1; k > 0; k = (k - 1) / 2) {
        uint32_t *at = f->heap.at, up = (k - 1) / 2;
        if (!is_worse(f, at[up], at[k]))
            return;
        uint32_t swap = at[up];
        at[up] = at[k];
        at[k] = swap;
    }
}

static uint32_t
pop_heap(StretchFinder *f)
{
    uint32_t *at = f->heap.at, top = at[0], n = --f->heap.n;

    at[0] = at[n];
    for (uint32_t k = 0; 2 * k + 1 < n;) {
        uint32_t down = 2 * k + 1;
        if (down + 1 < n && is_worse(f, at[down], at[down + 1]))
            down++;
        if (!is_worse(f, at[k], at[down]))
            break;
        uint32_t swap = at[down];
        at[down] = at[k];
        at[k] = swap;
        k = down;
    }
    return top;
}

/* Was the block entered with as much done, and as little too much? */
static bool
is_dominated(const StretchFinder *f, const Step *step)
{
    for (uint32_t s = f->into[step->block]; s; s = f->steps.at[s - 1].same) {
        const Step *other = &f->steps.at[s - 1];
        if (other->taken >= step->taken && other->extra <= step->extra)
            return true;
    }
    return false;
}

static void
enter(StretchFinder *f, Step step)
{
    uint32_t from = step.counts;

    if (step.extra > f->best + SLACK || is_dominated(f, &step))
        return;
    step.counts = f->counts.n;
    for (uint32_t k = 0; k < f->slots.n; k++)
        vec_push(f->arena, &f->counts, from == UINT32_MAX ? 0 : f->counts.at[from + k]);
    step.same = f->into[step.block];
    vec_push(f->arena, &f->steps, step);
    if (step.first == f->kernel->blocks.at[step.block].first)
        f->into[step.block] = f->steps.n;
    push_heap(f, f->steps.n - 1);
}

/* ---- along a block ---- */

static float
distance(uint32_t a, uint32_t b)
{
    uint32_t d = a > b ? a - b : b - a;

    return a == 0 || b == 0 ? 0 : d <= 3 ? 0 : d <= 30 ? 0.5F : d <= 120 ? 1.5F : 3;
}

static void
note_end(StretchFinder *f, const Step *step, uint32_t index, uint32_t place)
{
    const CodeInsn *insn = &f->kernel->insns.at[place];
    float score = promise(f, step) + distance(insn->ptx_line, f->goal.line) +
                  (f->goal.off && !insn->guarded ? SKIPS_GUARDED : 0);
    uint32_t k = 0;

    while (k < f->ends->n && f->ends->at[k].place != place)
        k++;
    if (k == MOST_ENDS || (k < f->ends->n && f->ends->at[k].score <= score))
        return;
    f->ends->n = k == f->ends->n ? k + 1 : f->ends->n;
    f->ends->at[k] = (StretchEnd){.place = place, .score = score};
    f->ends->at[k].code.insns = step->insns;
    f->ends->at[k].code.doubt = step->extra;
    f->of_end[k].step = index;
    f->of_end[k].end = place + 1;
    f->best = score < f->best ? score : f->best;
}

static void
take_insn(StretchFinder *f, Step *step, uint32_t i)
{
    uint32_t line = f->kernel->insns.at[i].ptx_line;
    uint32_t s = f->code_tally[i] ? slot_of(f, line, f->code_tally[i]) : 0;
    uint16_t *count = s ? &f->counts.at[step->counts + s - 1] : NULL;

    if (count != NULL && *count < f->slots.at[s - 1].ran && *count < UINT16_MAX) {
        ++*count;
        step->taken++;
    } else if (count != NULL ? !f->kernel->insns.at[i].guarded : f->line_stamp[line] != f->stamp) {
        step->extra += 1; /* where it has a guard, that may have been off */
    }
}

static float
cost_of_skipping(const CodeInsn *insn)
{
    return token_is_optional(insn->token) ? SKIPS_OPTIONAL : insn->guarded ? SKIPS_GUARDED : SKIPS;
}

static void
follow(StretchFinder *f, uint32_t index)
{
    Step step = f->steps.at[index];
    const CodeBlock *block = &f->kernel->blocks.at[step.block];
    uint32_t i = step.first;

    for (; i < block->end; i++) {
        const CodeInsn *insn = &f->kernel->insns.at[i];
        step.insns++;
        if (insn->token && insn->token == f->goal.token)
            note_end(f, &step, index, i);
        if (insn->token == TOKEN_END && !insn->guarded)
            return;
        if (insn->token == 0)
            take_insn(f, &step, i);
        else if (insn->token != TOKEN_END)
            step.extra += cost_of_skipping(insn);
        if (step.extra > f->best + SLACK)
            return;
    }
    step.before = index + 1;
    for (uint32_t k = 0; k < block->n_next; k++) {
        step.block = block->next[k];
        step.first = f->kernel->blocks.at[step.block].first;
        enter(f, step);
    }
}

/* The runs of a way, from its end back. */
static void
take_runs(StretchFinder *f, uint32_t k)
{
    CodeStretch *code = &f->ends->at[k].code;
    uint32_t end = f->of_end[k].end, n = 1;

    for (uint32_t s = f->steps.at[f->of_end[k].step].before; s; s = f->steps.at[s - 1].before)
        n++;
    code->runs = arena_array(f->arena, CodeRun, n);
    code->n = n;
    for (uint32_t s = f->of_end[k].step + 1; n-- > 0; s = f->steps.at[s - 1].before) {
        const Step *step = &f->steps.at[s - 1];
        code->runs[n] = (CodeRun){step->first, end ? end : f->kernel->blocks.at[step->block].end};
        end = 0;
    }
}

const StretchEnds *
stretch_find(StretchFinder *f, uint32_t place, StretchEvents events, StretchGoal goal)
{
    uint32_t first = place == UINT32_MAX ? 0 : place + 1;
    uint32_t most = MOST_STEPS + events.to - events.from;

    f->ends = arena_new(f->arena, StretchEnds);
    f->goal = goal;
    f->best = INFINITY;
    f->steps.n = f->counts.n = f->heap.n = 0;
    memset(f->into, 0, f->kernel->blocks.n * sizeof *f->into);
    count_events(f, events);
    if (first >= f->kernel->insns.n)
        return f->ends;
    Step start = {.first = first, .counts = UINT32_MAX, .extra = 0};
    if (place != UINT32_MAX && first == f->kernel->blocks.at[f->kernel->insns.at[place].block].end) {
        /* the token ended its block */
        const CodeBlock *block = &f->kernel->blocks.at[f->kernel->insns.at[place].block];
        for (uint32_t k = 0; k < block->n_next; k++) {
            start.block = block->next[k];
            start.first = f->kernel->blocks.at[start.block].first;
            enter(f, start);
        }
    } else {
        start.block = f->kernel->insns.at[first].block;
        enter(f, start);
    }
    for (uint32_t k = 0; f->heap.n > 0 && k < most; k++)
        follow(f, pop_heap(f));
    for (uint32_t k = 0; k < f->ends->n; k++)
        take_runs(f, k);
    return f->ends;
}
