/* clock_wake.c - warps that wait for phases of barriers, operations and groups of them, and what wakes them. */
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

static void
wake(Replay *r, ReplayWaiter **list, double at)
{
    for (ReplayWaiter *waiter = *list; waiter != NULL; waiter = waiter->next) {
        double late = later(at, r->now + 1) + replay_jitter(r);
        ReplayWarp *w = waiter->warp;
        if (waiter->board >= 0) {
            replay_free_board(r, w, waiter->board, late);
            continue;
        }
        w->ready = late;
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

    p->complete = later(p->complete, at);
    p->left -= count < p->left ? count : p->left;
    if (p->left == 0)
        wake(r, &p->waiters, p->complete);
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
    if (p->left > 0)
        sleep_on(r, w, &p->waiters);
    else if (w->holds >= 0)
        w->board[w->holds] = later(w->board[w->holds], later(p->complete, r->now + least));
    else
        w->ready = later(w->ready, later(p->complete, r->now + least));
}

void
replay_finish_op(Replay *r, ReplayWarp *w, uint32_t op, double at)
{
    ReplayCluster *c = w->cluster;
    ReplayOp *o = &c->ops[op];

    o->done = at;
    for (uint32_t s = 0; s < o->signals; s++)
        replay_arrive(r, c, c->signals[o->first_signal + s].phase, 1, at);
    wake(r, &o->waiters, at);
}

void
replay_commit(Replay *r, ReplayGroups *g)
{
    double before = g->done.n ? g->done.at[g->done.n - 1] : 0;
    uint32_t op = g->op.n ? g->op.at[g->op.n - 1] : 0;

    vec_push(r->arena, &g->done, later(before, g->open));
    vec_push(r->arena, &g->op, g->open_op ? g->open_op : op);
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
    if (op)
        at = later(at, w->cluster->ops[op - 1].done);
    w->ready = later(w->ready, at);
}
