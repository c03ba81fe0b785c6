/* clock_issue.c - what each instruction does to units (clock_units.c), registers, operations and
 * barriers (clock_wake.c). */
#include "backends/clock/clock_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double
later(double a, double b)
{
    return a > b ? a : b;
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

/* wgmma: its last warp issues it. */
static void
group_mma(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    const ClockCost *cost = &r->costs[event->insn];
    ReplayOp *op = &w->cluster->ops[event->object];
    SimInsnView v;

    sim_insn_at(r->job->module, event->insn, &v);
    w->groups[GROUPS_MMA].open_op = event->object + 1;
    replay_product_issued(r, w, event->object);
    if (--op->parts > 0)
        return;
    /* 32 bytes of each row of B, and of A where it is not in registers */
    bool a_shared = v.slot_count - v.destination_count < 5;
    double bytes = 32.0 * (2.0 * v.destination_count + (a_shared ? 64 : 0));
    double port = bytes / r->rows[CLOCK_SHARED_BYTES].value;
    double clocks = later(later(cost->clocks, port), r->rows[CLOCK_GROUP_MMA_LEAST].value);
    double latency = !code_is_next(w) ? cost->latency
                     : a_shared       ? r->rows[CLOCK_CODE_GROUP_MMA].value
                                      : r->rows[CLOCK_CODE_GROUP_MMA_RS].value;
    replay_queue_product(r, w,
                         (ReplayQueued){.op = event->object,
                                        .insn = event->insn,
                                        .clocks = clocks,
                                        .done = cost->clocks + latency - clocks,
                                        .port = port});
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

/* The copy engine takes what it is told in order: a copy to shared memory begins when what it was
 * to add before has gone. */
static double
behind_adds(const Replay *r, const ReplayWarp *w)
{
    double until = r->sms[w->sm].engine_adds_until;

    return r->rows[CLOCK_TMA_IN_ORDER].value > 0 ? later(r->now, until) : r->now;
}

/* Bytes a clock of a copy.  A multicast goes to its blocks as fast as each of their SMs takes it,
 * and is read once for all of them: what all SMs get from the L2 cache is less by that. */
static double
bulk_rate(const Replay *r, const SimTracedOp *traced, double alone, ClockRow all)
{
    return fmin(alone, traced->copies * replay_share(r, alone, all));
}

/* The copy keeps the engine of the SM that it fills. */
static void
bulk(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    const ClockCost *cost = &r->costs[event->insn];
    const SimTracedOp *traced = &w->cluster->traced->ops[event->object];
    bool store = cost->unit == UNIT_TMA_STORE, code = code_is_next(w);
    ReplayWarp there = *w; /* on the SM that the copy goes to */
    SimInsnView v;

    there.sm = traced->to;
    sim_insn_at(r->job->module, event->insn, &v);
    ClockRow latency, issue = code ? CLOCK_CODE_TMA_ISSUE : CLOCK_TMA_ISSUE;
    ClockRow alone = bulk_rows(cost, code, strstr(v.mnemonic, ".tensor") != NULL, &latency);
    ClockRow all = cost->adds ? CLOCK_CHIP_ADD : store ? CLOCK_CHIP_WRITE : CLOCK_CHIP_READ_BOXES;
    double rate = r->rows[alone].value, beside = r->rows[CLOCK_TMA_STORE_PRODUCTS].value;
    if (store && beside > 0 && *replay_unit(r, w, UNIT_TENSOR) > r->now)
        rate *= beside;
    ClockMissed *missed = replay_missed(r, w, event);
    double clocks = traced->bytes / (cost->adds ? replay_add_share(r, rate, missed)
                                                : bulk_rate(r, traced, rate, all));
    if (all == CLOCK_CHIP_READ_BOXES && missed != NULL) /* tiles of its own come more slowly */
        clocks += missed->own * (1 / bulk_rate(r, traced, rate, CLOCK_CHIP_READ) -
                                 1 / bulk_rate(r, traced, rate, all));
    uint32_t node = r->node;
    double from = store ? r->now : behind_adds(r, w);
    double begin = later(*replay_unit(r, &there, cost->unit), from), end = begin + clocks;
    double memory = traced->follows ? w->multicast_memory : replay_memory(r, w, missed);
    w->multicast_memory = memory;
    end = later(end, memory);
    replay_begin_op(r, &there, memory > begin + clocks ? UNIT_HBM : cost->unit, begin, end,
                    event->insn);
    replay_keep(r, &there, cost->unit, from, clocks);
    double done = end + r->rows[latency].value + (store ? 0 : replay_wait_for_adds(r, w));
    if (cost->adds) {
        replay_added(r, w, traced->bytes, missed);
        r->sms[w->sm].engine_adds_until = begin + clocks;
    }

    if (!traced->follows)
        w->ready = later(w->ready, r->now + r->rows[issue].value);
    replay_finish_op(r, w, event->object, done);
    if (store) {
        ReplayGroups *g = &w->groups[GROUPS_BULK];
        g->open_by = done > g->open ? r->node : g->open_by;
        g->open = later(g->open, done);
    }
    r->node = node;
}

/* What waits for the way to other SMs is as much as waits for a port; then issue stops. */
void
replay_cluster_queue(Replay *r, const ReplayWarp *w, double *at)
{
    double queue = r->rows[CLOCK_MEMORY_QUEUE].value * r->rows[CLOCK_SHARED_BYTES].value /
                   r->rows[CLOCK_CLUSTER_BYTES].value;

    replay_bound(r, at, *replay_unit(r, w, UNIT_CLUSTER) - queue,
                 *replay_unit_by(r, w, UNIT_CLUSTER), PATH_UNIT + UNIT_CLUSTER);
}

/* st.async: lanes one after the other, each a part of what the instruction sends. */
static void
async_store(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    uint32_t bytes = w->cluster->traced->ops[event->object].bytes;
    double clocks = bytes / r->rows[CLOCK_CLUSTER_BYTES].value;
    double start = replay_keep(r, w, UNIT_CLUSTER, r->now, clocks);

    replay_finish_op(r, w, event->object, start + clocks + r->rows[CLOCK_CLUSTER_LATENCY].value);
}

/* The `drawn`th number of its cluster, counted from 1; 0: none. */
static void
note_draw(Replay *r, const ReplayWarp *w, uint32_t drawn)
{
    ClockDraw draw = {(uint32_t)w->cluster->index, drawn - 1, r->now};

    if (drawn > 0)
        vec_push(r->arena, &r->out->draws, draw);
}

static void
start_op(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    switch (r->costs[event->insn].kind) {
    case CLASS_GROUP_MMA: group_mma(r, w, event); break;
    case CLASS_BULK: bulk(r, w, event); break;
    case CLASS_MMA: replay_mma(r, w, event); break;
    case CLASS_MMA_COPY: replay_mma_copy(r, w, event); break;
    case CLASS_MMA_COMMIT: replay_mma_commit(r, w, event); break;
    case CLASS_ASYNC_STORE: async_store(r, w, event); break;
    case CLASS_NEXT_WORK:
        note_draw(r, w, w->cluster->traced->ops[event->object].drew);
        replay_finish_op(r, w, event->object, r->now + r->rows[CLOCK_NEXT_WORK].value);
        break;
    default: /* cp.async.mbarrier.arrive: when the copies of the warp are done */
        replay_finish_op(r, w, event->object,
                         later(r->now, w->groups[GROUPS_COPY].open) + r->rows[CLOCK_ARRIVE].value);
    }
}

/* Loads and stores of global memory by `bytes`, as lanes name them, or as lines and sectors are. */
static double
global_clocks(const Replay *r, const ClockMissed *missed, bool writes, double bytes)
{
    const ClockFact *rows = r->rows;
    double alone = rows[CLOCK_GLOBAL_STORE_BYTES].value;

    if (!writes) {
        double clocks = bytes / replay_share(r, rows[CLOCK_GLOBAL_BYTES].value, CLOCK_CHIP_READ);
        double lines = missed != NULL ? missed->lines * rows[CLOCK_GLOBAL_LINE].value : 0;
        return later(clocks, later(lines, rows[CLOCK_GLOBAL_LEAST].value));
    }
    if (missed == NULL)
        return bytes / replay_share(r, alone, CLOCK_CHIP_WRITE);
    double parts = rows[CLOCK_CHIP_WRITE_PARTS].value / rows[CLOCK_CHIP_WRITE].value;
    return missed->whole / replay_share(r, alone, CLOCK_CHIP_WRITE) +
           missed->parts / replay_share(r, alone * parts, CLOCK_CHIP_WRITE_PARTS);
}

/* When a load is on its way to the L2 cache: behind what the SM stored before; stores keep that
 * way. */
static double
behind_stores(Replay *r, const ReplayWarp *w, const ClockCost *cost, const ClockMissed *missed)
{
    ReplaySm *sm = &r->sms[w->sm];

    if (cost->unit != UNIT_GLOBAL || missed == NULL || cost->adds)
        return r->now;
    if (missed->lines)
        return later(r->now, sm->store_port);
    sm->store_port = later(r->now, sm->store_port) +
                     (missed->whole + missed->parts) / r->rows[CLOCK_GLOBAL_STORE_BYTES].value;
    return r->now;
}

/* Accesses go into a queue; issue stops when it is full. */
bool
replay_access(Replay *r, ReplayWarp *w, const SimEvent *event, double *free_at)
{
    const ClockCost *cost = &r->costs[event->insn];
    bool shared = cost->kind == CLASS_SHARED || cost->kind == CLASS_MATRIX;
    bool writes = cost->stores && cost->kind != CLASS_COPY;
    bool apart = shared && writes && r->rows[CLOCK_STORES_APART].value > 0;
    ClockUnit unit = apart                                                 ? UNIT_STORES
                     : cost->unit == UNIT_GLOBAL && (writes || cost->adds) ? UNIT_GLOBAL_STORE
                                                                           : cost->unit;
    double queue = r->rows[CLOCK_MEMORY_QUEUE].value, *free = replay_unit(r, w, unit);
    double bytes = cost->clocks * event->lanes, clocks, end;

    double *way = replay_unit(r, w, UNIT_LOADS);

    if (*free > r->now + queue || (shared && *way > r->now)) {
        *free_at = 0;
        replay_bound(r, free_at, *free - queue, *replay_unit_by(r, w, unit), PATH_UNIT + unit);
        if (shared)
            replay_bound(r, free_at, *way, *replay_unit_by(r, w, UNIT_LOADS),
                         PATH_UNIT + UNIT_LOADS);
        return false;
    }
    ClockMissed *missed = cost->unit == UNIT_GLOBAL ? replay_missed(r, w, event) : NULL;
    if (shared && event->passes)
        clocks = PASS_BYTES * event->passes / r->rows[CLOCK_SHARED_BYTES].value;
    else if (cost->kind == CLASS_MATRIX)
        clocks = cost->clocks;
    else if (cost->kind == CLASS_SHARED)
        clocks = bytes / r->rows[CLOCK_SHARED_BYTES].value;
    else if (cost->adds)
        clocks = bytes / replay_add_share(r, r->rows[CLOCK_ADD_BYTES].value, missed);
    else
        clocks = global_clocks(r, missed, writes, bytes);
    if (cost->adds)
        replay_added(r, w, bytes, missed);
    if (shared) /* parts of a clock add up */
        replay_keep(r, w, UNIT_LOADS, *way > r->now - 1 ? *way : r->now,
                    clocks * r->rows[CLOCK_SHARED_BYTES].value /
                        r->rows[writes ? CLOCK_STORE_BYTES : CLOCK_LOAD_BYTES].value);
    if (apart && *replay_unit(r, w, UNIT_TENSOR) > r->now)
        clocks /= r->rows[CLOCK_STORE_PRODUCTS].value;
    if (unit == UNIT_SHARED && (r->sms[w->sm].n_products || r->sms[w->sm].products_queued)) {
        w->started = replay_keep_port(r, w, clocks, &end);
    } else {
        w->started = replay_keep(r, w, unit, behind_stores(r, w, cost, missed), clocks);
        end = w->started + clocks;
    }
    if (shared && writes && r->rows[CLOCK_MUFU_STORE_BYTES].value > 0)
        replay_keep(r, w, UNIT_MUFU, r->now, bytes / r->rows[CLOCK_MUFU_STORE_BYTES].value);
    double memory = replay_memory(r, w, missed);
    end = later(end, memory);
    double done = w->done = end + cost->latency - 1;
    if (event->kind == SIM_EVENT_RAN)
        note_draw(r, w, event->object);
    set_results(r, w, event->insn, done);
    if (cost->kind == CLASS_COPY) {
        ReplayGroups *g = &w->groups[GROUPS_COPY];
        g->open_by = done > g->open ? r->node : g->open_by;
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
        replay_arrive(r, w->cluster, event->object, event->passes,
                      phase->kind == SIM_PHASE_MBARRIER
                          ? r->now + rows[code ? CLOCK_CODE_ARRIVE : CLOCK_ARRIVE].value
                      : phase->kind == SIM_PHASE_CLUSTER
                          ? r->now + rows[CLOCK_CLUSTER_BARRIER].value
                          : arrive_at_barrier(r, w));
        break;
    case SIM_EVENT_WAITED: replay_wait_for_phase(r, w, event->object, try_clocks); break;
    case SIM_EVENT_TRIED:
        if (w->holds >= 0)
            w->board[w->holds] = later(w->board[w->holds], r->now + try_clocks);
        else
            w->ready = r->now + try_clocks;
        break;
    case SIM_EVENT_MET:
        replay_arrive(r, w->cluster, event->object, 1, arrive_at_barrier(r, w));
        replay_wait_for_phase(r, w, event->object, 1);
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
    double from = *replay_unit(r, w, cost->unit);
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
            strstr(v.mnemonic, ".read") ? r->rows[CLOCK_TMA_STORE_READ].value : 0, STALL_COPY);
        break;
    case CLASS_TMEM_LOAD:
    case CLASS_TMEM_STORE:
        replay_keep(r, w, cost->unit, r->now, cost->clocks);
        replay_tmem(r, w, cost->clocks, cost->kind == CLASS_TMEM_STORE);
        set_results(r, w, event->insn, r->now + cost->latency);
        break;
    case CLASS_TMEM_LOADED:
        replay_ready(w, w->tmem_loaded, w->tmem_by, PATH_LATENCY + UNIT_TMEM);
        break;
    case CLASS_TMEM_STORED:
        replay_ready(w, replay_tmem_stored(r, w), w->tmem_by, PATH_LATENCY + UNIT_TMEM);
        break;
    case CLASS_COPY_WAIT:
        if (strstr(v.mnemonic, "wait_all"))
            replay_commit(r, &w->groups[GROUPS_COPY]);
        replay_wait_for_groups(r, w, &w->groups[GROUPS_COPY],
                               strstr(v.mnemonic, "wait_all") ? 0 : (uint32_t)v.imm, 0, STALL_COPY);
        break;
    default: /* parts of a clock add up */
        replay_keep(r, w, cost->unit, from > r->now - 1 ? from : r->now, cost->clocks);
        if (cost->unit == UNIT_FMA)
            replay_put_off_product(r, w);
        w->fma_run = cost->unit == UNIT_FMA && r->now - w->issued <= 1 ? w->fma_run + 1 : 0;
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
    w->by = 0;
    w->holds = -1;
    if (event->kind == SIM_EVENT_OFF)
        return true;
    if (cost->kind == CLASS_MMA && replay_mma_queue(r, w, free_at) > r->now)
        return false;
    if (cost->kind == CLASS_ASYNC_STORE && event->kind == SIM_EVENT_STARTED)
        replay_cluster_queue(r, w, free_at);
    if (cost->kind == CLASS_GROUP_MMA)
        replay_product_room(r, w, event, free_at);
    if (*free_at > r->now)
        return false;
    if (event->kind != SIM_EVENT_RAN) {
        replay_event(r, w, event);
        return true;
    }
    if (cost->kind == CLASS_SHARED || cost->kind == CLASS_GLOBAL || cost->kind == CLASS_MATRIX ||
        cost->kind == CLASS_COPY)
        return replay_access(r, w, event, free_at);
    double free = replay_pipe_free(r, w, cost->unit, 0);
    if (cost->unit == UNIT_TMEM)
        replay_bound(r, &free, w->tmem_free, w->tmem_by, PATH_UNIT + UNIT_TMEM);
    if (free > r->now) {
        *free_at = free;
        return false;
    }
    run_plain(r, w, event);
    return true;
}
