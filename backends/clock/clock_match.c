/* clock_match.c - tokens of a warp to places in machine code: the cheapest sequence of them. */
#include "backends/clock/clock_match.h"

#include <string.h>

#include "backends/clock/clock_anchor.h"
#include "backends/clock/clock_stretch.h"

enum { MOST_STATES = 12, MOST_SKIPPED = 12, AROUND = 1000 };

static const float FAR = 400, LOST = 1000;

typedef struct State { /* a token of the warp has been found at a place */
    uint32_t place;    /* instruction; UINT32_MAX: before the first */
    float score;
    uint32_t before; /* 1 + state; 0: the begin */
    uint32_t next;   /* 1 + another state of the same token */
    uint32_t from;   /* tokens before the part that led here */
    const CodeStretch *code;
} State;

typedef struct Row {  /* ways from a place by a stretch */
    uint32_t from, n; /* place, events */
    uint64_t hash;
    const StretchEnds *ends;
} Row;

struct Matcher {
    Arena *arena;
    const CodeKernel *kernel;
    StretchFinder *finder;
    CodeToken *tokens; /* by instruction of PTX */
    VEC(Row) rows;
    uint32_t *slots, n_slots; /* hash table: 1 + row */
};

typedef struct Walk { /* one warp */
    Matcher *m;
    const SimTracedWarp *warp;
    uint32_t *token_at, n_tokens; /* events */
    VEC(State) states;
    uint32_t *live; /* by tokens found: 1 + the first state */
} Walk;

Matcher *
clock_matcher(Arena *arena, const CodeKernel *kernel, const SimModule *module)
{
    Matcher *m = arena_new(arena, Matcher);
    SimInsnView v;
    uint32_t n = 0;

    *m = (Matcher){.arena = arena, .kernel = kernel, .n_slots = 1 << 16};
    while (sim_insn_at(module, n, &v))
        n++;
    m->tokens = arena_array(arena, CodeToken, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        sim_insn_at(module, k, &v);
        m->tokens[k] = token_of_ptx(v.mnemonic);
    }
    m->slots = arena_array(arena, uint32_t, m->n_slots);
    m->finder = stretch_finder(arena, kernel, module);
    return m;
}

/* ---- stretches ---- */

/* Events behind the tokens before, up to token number `k`; the end of the warp is the last
 * token. */
static uint32_t
event_behind(const Walk *w, uint32_t k)
{
    return k == 0                ? 0
           : k - 1 < w->n_tokens ? w->token_at[k - 1] + 1
                                 : (uint32_t)w->warp->event_count;
}

static uint64_t
hash_of(const Walk *w, uint32_t from, uint32_t to)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);

    for (uint32_t e = from; e < to; e++) {
        const SimEvent *event = &w->warp->events[e];
        hash = (hash ^ event->insn ^ (uint64_t)(event->kind == SIM_EVENT_OFF) << 40) *
               UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash;
}

static StretchGoal
goal_of(const Walk *w, uint32_t k)
{
    StretchGoal goal = {.token = TOKEN_END};

    if (k < w->n_tokens) {
        const SimEvent *event = &w->warp->events[w->token_at[k]];
        goal.token = w->m->tokens[event->insn];
        goal.line = stretch_line(w->m->finder, event->insn);
        goal.off = event->kind == SIM_EVENT_OFF;
    }
    return goal;
}

static StretchEvents
events_of(const Walk *w, uint32_t behind, uint32_t k)
{
    StretchEvents out = {
        .events = w->warp->events, .from = event_behind(w, behind), .to = event_behind(w, k + 1)};

    out.begin = out.from > AROUND ? out.from - AROUND : 0;
    out.end = out.to + AROUND < w->warp->event_count ? out.to + AROUND
                                                     : (uint32_t)w->warp->event_count;
    return out;
}

static const StretchEnds *
ends_of(Walk *w, uint32_t place, StretchEvents events, uint64_t hash, StretchGoal goal)
{
    Matcher *m = w->m;
    uint32_t n = events.to - events.from, mask = m->n_slots - 1;
    hash += (uint64_t)place * UINT64_C(0xc4ceb9fe1a85ec53);
    uint32_t at = (uint32_t)(hash >> 24) & mask;

    for (; m->slots[at]; at = (at + 1) & mask) {
        const Row *row = &m->rows.at[m->slots[at] - 1];
        if (row->hash == hash && row->from == place && row->n == n)
            return row->ends;
    }
    Row row = {.from = place, .n = n, .hash = hash};
    row.ends = stretch_find(m->finder, place, events, goal);
    if (2 * m->rows.n < m->n_slots) {
        vec_push(m->arena, &m->rows, row);
        m->slots[at] = m->rows.n;
    }
    return row.ends;
}

/* ---- states ---- */

static void
reach(Walk *w, uint32_t found, State state)
{
    for (uint32_t s = w->live[found]; s; s = w->states.at[s - 1].next) {
        State *have = &w->states.at[s - 1];
        if (have->place != state.place)
            continue;
        if (state.score < have->score) {
            state.next = have->next;
            *have = state;
        }
        return;
    }
    state.next = w->live[found];
    vec_push(w->m->arena, &w->states, state);
    w->live[found] = w->states.n;
}

/* From all states that have found so many tokens. */
static void
go_on(Walk *w, const uint32_t *best, uint32_t n, uint32_t found)
{
    float skipped = 0;

    for (uint32_t k = found; k <= w->n_tokens && k < found + MOST_SKIPPED; k++) {
        StretchGoal goal = goal_of(w, k);
        StretchEvents events = events_of(w, found, k);
        uint64_t hash = hash_of(w, events.begin, events.end) + events.from - events.begin;
        for (uint32_t b = 0; b < n; b++) {
            State state = w->states.at[best[b] - 1];
            const StretchEnds *ends = ends_of(w, state.place, events, hash, goal);
            for (uint32_t e = 0; e < ends->n; e++)
                reach(w, k + 1,
                      (State){.place = ends->at[e].place,
                              .score = state.score + skipped + ends->at[e].score,
                              .before = best[b],
                              .from = found,
                              .code = &ends->at[e].code});
        }
        if (!goal.off && !token_is_optional(goal.token))
            return;
        skipped += goal.off ? 0.5F : 1.5F;
    }
}

/* The best states of those that have found so many tokens, at most MOST_STATES of them. */
static uint32_t
best_states(const Walk *w, uint32_t found, uint32_t best[MOST_STATES])
{
    uint32_t n = 0;

    for (uint32_t s = w->live[found]; s; s = w->states.at[s - 1].next) {
        float score = w->states.at[s - 1].score;
        uint32_t k = n < MOST_STATES ? n++ : MOST_STATES;
        for (; k > 0 && w->states.at[best[k - 1] - 1].score > score; k--) {
            if (k < MOST_STATES)
                best[k] = best[k - 1];
        }
        if (k < MOST_STATES)
            best[k] = s;
    }
    while (n > 1 && w->states.at[best[n - 1] - 1].score > w->states.at[best[0] - 1].score + FAR)
        n--;
    return n;
}

/* No way led to the next token: on from wherever it stands. */
static void
start_again(Walk *w, uint32_t last, uint32_t found)
{
    const CodeKernel *kernel = w->m->kernel;
    CodeToken token = goal_of(w, found).token;
    State from = w->states.at[last - 1];

    if (found >= w->n_tokens) {
        reach(w, found + 1, (State){.score = from.score + LOST, .before = last, .from = found});
        return;
    }
    for (uint32_t i = 0; i < kernel->insns.n; i++) {
        if (kernel->insns.at[i].token == token)
            reach(w, found + 1,
                  (State){.place = i, .score = from.score + LOST, .before = last, .from = found});
    }
}

static void
take_back(Walk *w, uint32_t s, CodePath *out)
{
    uint32_t n = 0;

    for (uint32_t k = s; k > 1; k = w->states.at[k - 1].before)
        n++;
    out->parts = arena_array(w->m->arena, CodePart, n + 1);
    out->n = n;
    out->tokens = w->n_tokens;
    uint32_t to = (uint32_t)w->warp->event_count;
    for (; n-- > 0; s = w->states.at[s - 1].before) {
        const State *state = &w->states.at[s - 1];
        out->parts[n] = (CodePart){event_behind(w, state->from), to, state->code};
        to = out->parts[n].from;
        out->lost += state->code == NULL;
        if (state->code != NULL) {
            out->insns += state->code->insns;
            out->doubtful += (uint64_t)state->code->doubt;
        }
    }
}

void
clock_match(Matcher *m, const SimTracedWarp *warp, CodePath *out)
{
    Walk w = {.m = m, .warp = warp};
    uint32_t best[MOST_STATES], last = 1, n;

    *out = (CodePath){0};
    w.token_at = arena_array(m->arena, uint32_t, warp->event_count + 1);
    for (uint32_t e = 0; e < warp->event_count; e++) {
        SimEventKind kind = (SimEventKind)warp->events[e].kind;
        if (m->tokens[warp->events[e].insn] && kind != SIM_EVENT_ARRIVED_TOO &&
            kind != SIM_EVENT_STARTED_TOO)
            w.token_at[w.n_tokens++] = e;
    }
    w.live = arena_array(m->arena, uint32_t, w.n_tokens + 2);
    vec_push(m->arena, &w.states, ((State){.place = UINT32_MAX}));
    w.live[0] = 1;
    for (uint32_t found = 0; found <= w.n_tokens; found++) {
        bool reached = false;
        n = best_states(&w, found, best);
        go_on(&w, best, n, found);
        last = n ? best[0] : last;
        for (uint32_t k = found + 1; k <= w.n_tokens + 1 && k <= found + MOST_SKIPPED; k++)
            reached |= w.live[k] != 0;
        if (!reached)
            start_again(&w, last, found);
    }
    if (best_states(&w, w.n_tokens + 1, best))
        take_back(&w, best[0], out);
}
