/* clock_wake.c - warps that wait for phases of barriers, operations and groups of them, and what
 * wakes them. */
#include "backends/clock/clock_state.h"

static double
later(double a, double b)
{
    return a > b ? a : b;
}

double
replay_jitter(Replay *r)
{
    if (r->job->seed == 0)
        return 0;
    r->random = r->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(r->random >> 61); /* 0 to 7 */
}

void
replay_free_board(Replay *r, ReplayWarp *w, int board, double at)
{
    w->board[board] = later(w->board[board], at);
    if (--w->unknown[board] == 0 && w->ready >= CLOCK_NEVER && !w->asleep && code_is_next(w))
        code_wait(r, w);
}

/* What a wait of a warp counts as on the critical path. */
static PathKind
path_of(ClockStall why)
{
    switch (why) {
    case STALL_BARRIER: return PATH_BARRIER;
    case STALL_MBARRIER: return PATH_MBARRIER;
    case STALL_PRODUCT: return PATH_PRODUCT;
    case STALL_COPY: return PATH_COPY;
    default: return PATH_INSTRUCTIONS;
    }
}

static void
wake(Replay *r, ReplayWaiter **list, double at, uint32_t by, bool late_by_chance)
{
    for (ReplayWaiter *waiter = *list; waiter != NULL; waiter = waiter->next) {
        double late = later(at, r->now + 1) + (late_by_chance ? replay_jitter(r) : 0);
        ReplayWarp *w = waiter->warp;
        if (waiter->board >= 0) {
            w->board_by[waiter->board] = by;
            w->board_kind[waiter->board] = path_of(w->board_why[waiter->board]);
            replay_free_board(r, w, waiter->board, late);
            continue;
        }
        w->ready = late;
        w->by = by;
        w->by_kind = path_of(w->why);
        w->asleep = false;
        if (code_is_next(w))
            code_look(r, w);
    }
    *list = NULL;
}

static void
sleep_on(Replay *r, ReplayWarp *w, ReplayWaiter **list)
{
    ReplayWaiter *waiter = arena_new(r->arena, ReplayWaiter);

    *waiter = (ReplayWaiter){w, w->holds, *list};
    *list = waiter;
    if (w->holds >= 0)
        w->unknown[w->holds]++;
    else
        w->ready = CLOCK_NEVER;
    w->asleep |= w->holds < 0;
}

void
replay_arrive(Replay *r, ReplayCluster *c, uint32_t phase, uint32_t count, double at)
{
    ReplayPhase *p = &c->phases[phase];

    if (at >= p->complete)
        p->by = r->node;
    p->complete = later(p->complete, at);
    p->left -= count < p->left ? count : p->left;
    if (p->left == 0)
        wake(r, &p->waiters, p->complete, p->by, true);
}

static void
set_board(ReplayWarp *w, double at, uint32_t by, PathKind kind)
{
    if (at <= w->board[w->holds])
        return;
    w->board[w->holds] = at;
    w->board_by[w->holds] = by;
    w->board_kind[w->holds] = kind;
}

ClockWait *
replay_waits(Replay *r, const ReplayWarp *w, uint32_t phase)
{
    const SimPhase *p = &w->cluster->traced->phases[phase];

    for (uint32_t k = 0; k < r->out->waits.n; k++) {
        ClockWait *have = &r->out->waits.at[k];
        if (have->kind == p->kind && have->object == p->object && have->first == 4 * w->group)
            return have;
    }
    vec_push(r->arena, &r->out->waits,
             ((ClockWait){p->kind, p->object, 4 * w->group, 4 * w->group + 3, 0, 0, 0}));
    return &r->out->waits.at[r->out->waits.n - 1];
}

/* A warp comes to a phase that has been over for a while, or is not. */
static void
note_came(Replay *r, const ReplayWarp *w, uint32_t phase, double early)
{
    ClockWait *wait = replay_waits(r, w, phase);

    wait->early += early;
    wait->came++;
}

/* An instruction that holds a scoreboard makes the warp wait where that is asked for. */
void
replay_wait_for_phase(Replay *r, ReplayWarp *w, uint32_t phase, double least)
{
    ReplayPhase *p = &w->cluster->phases[phase];
    bool is_mbarrier = w->cluster->traced->phases[phase].kind == SIM_PHASE_MBARRIER;
    ClockStall why = is_mbarrier ? STALL_MBARRIER : STALL_BARRIER;

    if (w->holds >= 0) {
        w->board_why[w->holds] = why;
        w->board_for[w->holds] = phase + 1;
    } else {
        w->why = why;
        w->waits_for = phase + 1;
    }
    note_came(r, w, phase, p->left == 0 && p->complete < r->now ? r->now - p->complete : 0);
    if (p->left > 0)
        sleep_on(r, w, &p->waiters);
    else if (w->holds >= 0)
        set_board(w, later(p->complete, r->now + least),
                  p->complete > r->now + least ? p->by : w->node, path_of(why));
    else
        replay_ready(w, later(p->complete, r->now + least),
                     p->complete > r->now + least ? p->by : 0, path_of(why));
}

void
replay_finish_op(Replay *r, ReplayWarp *w, uint32_t op, double at)
{
    ReplayCluster *c = w->cluster;
    ReplayOp *o = &c->ops[op];

    o->done = at;
    o->by = r->node;
    for (uint32_t s = 0; s < o->signals; s++)
        replay_arrive(r, c, c->signals[o->first_signal + s].phase, 1, at);
    wake(r, &o->waiters, at, o->by, false);
}

void
replay_commit(Replay *r, ReplayGroups *g)
{
    double before = g->done.n ? g->done.at[g->done.n - 1] : 0;
    uint32_t op = g->op.n ? g->op.at[g->op.n - 1] : 0, by = g->by.n ? g->by.at[g->by.n - 1] : 0;

    vec_push(r->arena, &g->done, later(before, g->open));
    vec_push(r->arena, &g->op, g->open_op ? g->open_op : op);
    vec_push(r->arena, &g->by, g->open > before ? g->open_by : by);
    g->open = 0;
    g->open_op = 0;
}

/* All but the `pending` youngest groups; `early`: so long before their end. */
void
replay_wait_for_groups(Replay *r, ReplayWarp *w, ReplayGroups *g, uint32_t pending, double early,
                       ClockStall why)
{
    if (g->done.n <= pending)
        return;
    uint32_t last = g->done.n - pending - 1, op = g->op.at[last];
    double at = g->done.at[last] - early;
    w->why = why;
    if (op && w->cluster->ops[op - 1].done >= CLOCK_NEVER) {
        sleep_on(r, w, &w->cluster->ops[op - 1].waiters);
        return;
    }
    replay_ready(w, at, g->by.at[last], path_of(why));
    if (op)
        replay_ready(w, w->cluster->ops[op - 1].done, w->cluster->ops[op - 1].by, path_of(why));
}
