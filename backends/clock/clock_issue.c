/* clock_issue.c - what each instruction does to units, registers, operations and barriers. */
#include "backends/clock/clock_state.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- registers ---- */

static double
value_at(const ReplayWarp *w, uint32_t slot)
{
    return slot != UINT32_MAX && (slot & 3) == 0 ? w->result[slot >> 3] : 0;
}

double
replay_operands(const Replay *r, const ReplayWarp *w, const SimEvent *event)
{
    SimInsnView v;
    double at = 0;

    if (!sim_insn_at(r->job->module, event->insn, &v))
        return 0;
    at = value_at(w, v.guard);
    if (event->kind == SIM_EVENT_OFF)
        return at;
    for (uint32_t s = v.destination_count; s < v.slot_count; s++)
        at = later(at, value_at(w, v.slots[s]));
    return at;
}

static void
set_results(const Replay *r, ReplayWarp *w, uint32_t insn, double at)
{
    SimInsnView v;

    if (!sim_insn_at(r->job->module, insn, &v))
        return;
    for (uint32_t s = 0; s < v.destination_count; s++) {
        if (v.slots[s] != UINT32_MAX && (v.slots[s] & 3) == 0)
            w->result[v.slots[s] >> 3] = at;
    }
}

/* ---- waiting ---- */

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

static void
arrive(Replay *r, ReplayCluster *c, uint32_t phase, uint32_t count, double at)
{
    ReplayPhase *p = &c->phases[phase];

    p->complete = later(p->complete, at);
    p->left -= count < p->left ? count : p->left;
    if (p->left == 0)
        wake(r, &p->waiters, p->complete);
}

/* An instruction that holds a scoreboard makes the warp wait where that is asked for. */
static void
wait_for_phase(Replay *r, ReplayWarp *w, uint32_t phase, double least)
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

static void
finish_op(Replay *r, ReplayCluster *c, uint32_t op, double at)
{
    ReplayOp *o = &c->ops[op];

    o->done = at;
    for (uint32_t s = 0; s < o->signals; s++)
        arrive(r, c, c->signals[o->first_signal + s].phase, 1, at);
    wake(r, &o->waiters, at);
}

/* ---- units ---- */

double *
replay_unit(Replay *r, const ReplayWarp *w, ClockUnit unit)
{
    return &r->sms[w->sm].unit[unit][unit < UNITS_OF_SCHEDULER ? w->scheduler : 0];
}

/* Keeps a unit; gives when that begins. */
double
replay_keep(Replay *r, const ReplayWarp *w, ClockUnit unit, double from, double clocks)
{
    double *free = replay_unit(r, w, unit), start = later(*free, from);

    *free = start + clocks;
    r->out->busy[unit] += w->sm == 0 ? clocks : 0;
    return start;
}

double
replay_pipe_free(Replay *r, const ReplayWarp *w, ClockUnit unit, double port)
{
    double at = unit == UNIT_ISSUE ? 0 : *replay_unit(r, w, unit);

    if (port > 0)
        at = later(at, r->sms[w->sm].port[w->scheduler] - r->rows[CLOCK_BANK_SLACK].value);
    return at;
}

/* Products of warp groups read and write registers all the time: other pipes take longer then, but FMA, which
 * goes first. */
void
replay_keep_pipe(Replay *r, const ReplayWarp *w, ClockUnit unit, double clocks, double beside,
                 double port)
{
    ReplaySm *sm = &r->sms[w->sm];
    bool products = sm->unit[UNIT_TENSOR][0] > r->now && unit != UNIT_TENSOR;
    double *free = &sm->port[w->scheduler], rest = 1;

    if (unit == UNIT_ISSUE)
        return;
    replay_keep(r, w, unit, r->now, products ? beside : clocks);
    if (products && unit != UNIT_FMA)
        rest -= r->rows[CLOCK_PORT_PRODUCTS].value;
    if (port > 0)
        *free = later(*free, r->now) + port / rest;
}

/* Bytes a clock: what one SM can do, or its share of what the chip can. */
static double
share(const Replay *r, ClockRow alone, ClockRow all)
{
    double part = r->rows[all].value / (r->job->active ? r->job->active : 1);

    return part < r->rows[alone].value ? part : r->rows[alone].value;
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

/* wgmma: begins when its last warp issues it, in the order of the queue. */
static void
group_mma(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    const ClockCost *cost = &r->costs[event->insn];
    ReplayOp *op = &w->cluster->ops[event->object];
    SimInsnView v;

    sim_insn_at(r->job->module, event->insn, &v);
    w->groups[GROUPS_MMA].open_op = event->object + 1;
    if (--op->parts > 0)
        return;
    /* 32 bytes of each row of B, and of A where it is not in registers */
    bool a_shared = v.slot_count - v.destination_count < 5;
    double bytes = 32.0 * (2.0 * v.destination_count + (a_shared ? 64 : 0));
    double port = bytes / r->rows[CLOCK_SHARED_BYTES].value;
    double clocks = later(later(cost->clocks, port), r->rows[CLOCK_GROUP_MMA_LEAST].value);
    double start = replay_keep(r, w, UNIT_TENSOR, r->now, clocks);
    replay_keep(r, w, UNIT_SHARED, start, port);
    finish_op(r, w->cluster, event->object,
              start + cost->clocks +
                  (!code_is_next(w) ? cost->latency
                   : a_shared       ? r->rows[CLOCK_CODE_GROUP_MMA].value
                                    : r->rows[CLOCK_CODE_GROUP_MMA_RS].value));
}

/* Bytes a clock of a copy, what it takes beside them, and what the thread that starts it takes. */
static ClockRow
bulk_rows(const ClockCost *cost, bool code, bool boxes, ClockRow *latency)
{
    if (cost->unit == UNIT_TMA_STORE) {
        *latency = CLOCK_TMA_STORE_LATENCY;
        return cost->adds ? CLOCK_TMA_ADD_BYTES : CLOCK_TMA_STORE_BYTES;
    }
    *latency = !code ? CLOCK_TMA_LATENCY : boxes ? CLOCK_CODE_TMA_BOXES : CLOCK_CODE_TMA;
    return code && !boxes ? CLOCK_CODE_TMA_BYTES : CLOCK_TMA_BYTES;
}

static void
bulk(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    const ClockCost *cost = &r->costs[event->insn];
    const SimTracedOp *traced = &w->cluster->traced->ops[event->object];
    bool store = cost->unit == UNIT_TMA_STORE, code = code_is_next(w);
    SimInsnView v;

    sim_insn_at(r->job->module, event->insn, &v);
    ClockRow latency, issue = code ? CLOCK_CODE_TMA_ISSUE : CLOCK_TMA_ISSUE;
    ClockRow alone = bulk_rows(cost, code, strstr(v.mnemonic, ".tensor") != NULL, &latency);
    ClockRow all = cost->adds ? CLOCK_CHIP_ADD : store ? CLOCK_CHIP_WRITE : CLOCK_CHIP_READ_BOXES;
    double clocks = traced->bytes / share(r, alone, all);
    double start = replay_keep(r, w, cost->unit, r->now, clocks);
    double done = start + clocks + r->rows[latency].value;

    w->ready = later(w->ready, r->now + r->rows[issue].value);
    finish_op(r, w->cluster, event->object, done);
    if (store) {
        ReplayGroups *g = &w->groups[GROUPS_BULK];
        g->open = later(g->open, done);
    }
}

static void
start_op(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    switch (r->costs[event->insn].kind) {
    case CLASS_GROUP_MMA: group_mma(r, w, event); break;
    case CLASS_BULK: bulk(r, w, event); break;
    default: /* cp.async.mbarrier.arrive: when the copies of the warp are done */
        finish_op(r, w->cluster, event->object,
                  later(r->now, w->groups[GROUPS_COPY].open) + r->rows[CLOCK_ARRIVE].value);
    }
}

/* Accesses go into a queue; issue stops when it is full. */
bool
replay_access(Replay *r, ReplayWarp *w, const SimEvent *event, double *free_at)
{
    const ClockCost *cost = &r->costs[event->insn];
    double queue = r->rows[CLOCK_MEMORY_QUEUE].value, *free = replay_unit(r, w, cost->unit);
    double bytes = cost->clocks * event->lanes, clocks;

    bool shared = cost->kind == CLASS_SHARED || cost->kind == CLASS_MATRIX;
    bool writes = cost->stores && cost->kind != CLASS_COPY;
    double *way = replay_unit(r, w, UNIT_LOADS);

    if (*free > r->now + queue || (shared && *way > r->now)) {
        *free_at = later(*free - queue, shared ? *way : 0);
        return false;
    }
    if (cost->kind == CLASS_MATRIX)
        clocks = cost->clocks;
    else if (cost->kind == CLASS_SHARED)
        clocks = event->passes ? event->passes : bytes / r->rows[CLOCK_SHARED_BYTES].value;
    else if (cost->adds)
        clocks = bytes / share(r, CLOCK_ADD_BYTES, CLOCK_CHIP_ADD);
    else
        clocks = bytes / share(r, CLOCK_GLOBAL_BYTES, writes ? CLOCK_CHIP_WRITE : CLOCK_CHIP_READ);
    if (shared)
        replay_keep(r, w, UNIT_LOADS, r->now,
                    clocks * r->rows[CLOCK_SHARED_BYTES].value /
                        r->rows[writes ? CLOCK_STORE_BYTES : CLOCK_LOAD_BYTES].value);
    w->started = replay_keep(r, w, cost->unit, r->now, clocks);
    double done = w->done = w->started + clocks + cost->latency - 1;
    set_results(r, w, event->insn, done);
    if (cost->kind == CLASS_COPY) {
        ReplayGroups *g = &w->groups[GROUPS_COPY];
        g->open = later(g->open, done);
    }
    return true;
}

/* Arrivals are counted one after the other; when all are, those who wait go on after .. */
static double
arrive_at_barrier(Replay *r, const ReplayWarp *w)
{
    double *free = &r->sms[w->sm].barrier;

    *free = later(*free, r->now) + r->rows[CLOCK_BARRIER_WARP].value;
    return *free + r->rows[CLOCK_BARRIER].value;
}

void
replay_event(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    const ClockFact *rows = r->rows;
    bool code = code_is_next(w);
    double try_clocks = rows[code ? CLOCK_CODE_TRY : CLOCK_TRY].value;
    const SimTracedCluster *c = w->cluster->traced;
    const SimPhase *phase = event->object < c->phase_count ? &c->phases[event->object] : NULL;

    switch ((SimEventKind)event->kind) {
    case SIM_EVENT_ARRIVED:
    case SIM_EVENT_ARRIVED_TOO:
        arrive(r, w->cluster, event->object, event->passes,
               phase->kind == SIM_PHASE_MBARRIER
                   ? r->now + rows[code ? CLOCK_CODE_ARRIVE : CLOCK_ARRIVE].value
               : phase->kind == SIM_PHASE_CLUSTER ? r->now + rows[CLOCK_CLUSTER_BARRIER].value
                                                  : arrive_at_barrier(r, w));
        break;
    case SIM_EVENT_WAITED: wait_for_phase(r, w, event->object, try_clocks); break;
    case SIM_EVENT_TRIED:
        if (w->holds >= 0)
            w->board[w->holds] = later(w->board[w->holds], r->now + try_clocks);
        else
            w->ready = r->now + try_clocks;
        break;
    case SIM_EVENT_MET:
        arrive(r, w->cluster, event->object, 1, arrive_at_barrier(r, w));
        wait_for_phase(r, w, event->object, 1);
        break;
    case SIM_EVENT_STARTED:
    case SIM_EVENT_STARTED_TOO: start_op(r, w, event); break;
    default: break;
    }
}

/* What is neither an access nor an event of the trace. */
static void
run_plain(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    const ClockCost *cost = &r->costs[event->insn];
    SimInsnView v;

    sim_insn_at(r->job->module, event->insn, &v);
    switch (cost->kind) {
    case CLASS_BRANCH:
        w->ready = r->now + r->rows[CLOCK_BRANCH].value;
        w->why = STALL_BRANCH;
        break;
    case CLASS_FENCE: w->ready = r->now + cost->latency; break;
    case CLASS_GROUP_COMMIT: replay_commit(r, &w->groups[GROUPS_MMA]); break;
    case CLASS_BULK_COMMIT: replay_commit(r, &w->groups[GROUPS_BULK]); break;
    case CLASS_COPY_COMMIT: replay_commit(r, &w->groups[GROUPS_COPY]); break;
    case CLASS_GROUP_WAIT:
        replay_wait_for_groups(r, w, &w->groups[GROUPS_MMA], (uint32_t)v.imm, 0, STALL_PRODUCT);
        break;
    case CLASS_BULK_WAIT:
        replay_wait_for_groups(
            r, w, &w->groups[GROUPS_BULK], (uint32_t)v.imm,
            strstr(v.mnemonic, ".read") ? r->rows[CLOCK_TMA_STORE_LATENCY].value : 0, STALL_COPY);
        break;
    case CLASS_COPY_WAIT:
        if (strstr(v.mnemonic, "wait_all"))
            replay_commit(r, &w->groups[GROUPS_COPY]);
        replay_wait_for_groups(r, w, &w->groups[GROUPS_COPY],
                               strstr(v.mnemonic, "wait_all") ? 0 : (uint32_t)v.imm, 0, STALL_COPY);
        break;
    default:
        replay_keep(r, w, cost->unit, r->now, cost->clocks);
        set_results(r, w, event->insn, r->now + cost->latency);
        r->out->unknown += cost->kind == CLASS_UNKNOWN;
        if (cost->kind == CLASS_UNKNOWN)
            r->out->unknown_name = v.mnemonic;
    }
}

bool
replay_issue(Replay *r, ReplayWarp *w, const SimEvent *event, double *free_at)
{
    const ClockCost *cost = &r->costs[event->insn];

    w->ready = r->now + 1;
    w->why = STALL_RESULT;
    w->waits_for = 0;
    w->holds = -1;
    if (event->kind == SIM_EVENT_OFF)
        return true;
    if (event->kind != SIM_EVENT_RAN) {
        replay_event(r, w, event);
        return true;
    }
    if (cost->kind == CLASS_SHARED || cost->kind == CLASS_GLOBAL || cost->kind == CLASS_MATRIX ||
        cost->kind == CLASS_COPY)
        return replay_access(r, w, event, free_at);
    double free = replay_pipe_free(r, w, cost->unit, 0);
    if (free > r->now) {
        *free_at = free;
        return false;
    }
    run_plain(r, w, event);
    return true;
}
