/* clock_replay.c - the blocks of one SM, from their first instruction to their last.
 *
 * Time goes from one clock in which a warp may issue to the next.  In each, every scheduler issues
 * for the warp, of those that can, that has waited longest since it last did: the warps of
 * rate_ffma_16w, rate_fmnmx_16w and the like get on side by side.  Where there is no machine code
 * it issues for the warp that issued last if that can go on, else for the oldest: each then waits
 * where its own PTX says.
 */
#include "backends/clock/clock_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what does not change ---- */

static void
make_costs(Replay *r)
{
    SimInsnView v;

    while (sim_insn_at(r->job->module, r->n_insns, &v))
        r->n_insns++;
    r->costs = arena_array(r->arena, ClockCost, r->n_insns + 1);
    for (uint32_t k = 0; k < r->n_insns; k++) {
        sim_insn_at(r->job->module, k, &v);
        r->n_lines = v.line >= r->n_lines ? v.line + 1 : r->n_lines;
    }
    r->line_insn = arena_array(r->arena, uint32_t, r->n_lines + 1);
    r->misfit = arena_array(r->arena, double, r->n_lines + 1);
    for (uint32_t k = r->n_insns; k-- > 0;) {
        sim_insn_at(r->job->module, k, &v);
        r->line_insn[v.line] = k + 1;
        clock_cost(r->rows, v.mnemonic, &r->costs[k]);
        for (uint32_t s = 0; s <= v.slot_count; s++) {
            uint32_t slot = s < v.slot_count ? v.slots[s] : v.guard;
            if (slot != UINT32_MAX && (slot & 3) == 0 && (slot >> 3) >= r->n_registers)
                r->n_registers = (slot >> 3) + 1;
        }
    }
    if (r->job->code != NULL && r->job->paths != NULL)
        r->code = code_costs(r->arena, r->rows, r->job->code);
}

static const uint16_t *
order_of(Replay *r, uint32_t first, uint32_t n)
{
    uint32_t mask = r->n_order_slots - 1, at = (first * 2654435761u + n * 40503u) & mask;

    for (; r->order_slots[at]; at = (at + 1) & mask) {
        const OrderRow *row = &r->orders.at[r->order_slots[at] - 1];
        if (row->first == first && row->n == n)
            return row->order;
    }
    if (2 * r->orders.n >= r->n_order_slots)
        return NULL; /* as they come */
    uint16_t *order = arena_array(r->arena, uint16_t, n);
    clock_order(r->arena, r->job->module, r->costs, first, n, order);
    vec_push(r->arena, &r->orders, ((OrderRow){first, n, order}));
    r->order_slots[at] = r->orders.n;
    return order;
}

/* ---- clusters come and go ---- */

static void
start_warp(Replay *r, ReplayCluster *c, uint32_t k)
{
    ReplayWarp *w = &c->warps[k];
    const SimTracedWarp *t = &c->traced->warps[k];
    ReplaySm *sm = &r->sms[t->block];

    *w = (ReplayWarp){.cluster = c,
                      .traced = t,
                      .sm = t->block,
                      .scheduler = sm->next_scheduler++ % r->schedulers,
                      .group = t->warp / 4 < MOST_GROUPS ? t->warp / 4 : MOST_GROUPS - 1,
                      .live = true,
                      .limit = t->event_count,
                      .holds = -1,
                      .since = r->now,
                      .by_kind = PATH_START,
                      .began = r->node, /* of who ended and made room */
                      .ready = r->now + r->rows[CLOCK_START].value + replay_jitter(r)};
    w->result = arena_array(r->arena, double, r->n_registers + 1);
    for (uint32_t s = 0; s < r->n_registers; s++)
        w->result[s] = 0;
    if (r->code != NULL)
        code_start(r, w, &r->job->paths[c->index][k]);
    vec_push(r->arena, &r->warps, w);
}

static int
by_op(const void *a, const void *b)
{
    uint32_t x = ((const SimSignal *)a)->op, y = ((const SimSignal *)b)->op;

    return (x > y) - (x < y);
}

static void
start_cluster(Replay *r)
{
    const SimTracedCluster *t = &r->job->trace->clusters[r->next_cluster];
    ReplayCluster *c = arena_new(r->arena, ReplayCluster);

    *c = (ReplayCluster){.traced = t, .index = r->next_cluster++, .live = (uint32_t)t->warp_count};
    c->ops = arena_array(r->arena, ReplayOp, t->op_count + 1);
    c->phases = arena_array(r->arena, ReplayPhase, t->phase_count + 1);
    c->signals = arena_array(r->arena, SimSignal, t->signal_count + 1);
    c->warps = arena_array(r->arena, ReplayWarp, t->warp_count);
    for (size_t k = 0; k < t->op_count; k++)
        c->ops[k] = (ReplayOp){.parts = t->ops[k].parts, .done = CLOCK_NEVER};
    for (size_t k = 0; k < t->phase_count; k++)
        c->phases[k] = (ReplayPhase){.left = t->phases[k].arrivals};
    if (t->signal_count)
        memcpy(c->signals, t->signals, t->signal_count * sizeof *c->signals);
    qsort(c->signals, t->signal_count, sizeof *c->signals, by_op);
    for (size_t s = t->signal_count; s-- > 0;) {
        c->ops[c->signals[s].op].first_signal = (uint32_t)s;
        c->ops[c->signals[s].op].signals++;
    }
    for (uint32_t k = 0; k < t->warp_count; k++)
        start_warp(r, c, k);
    r->running++;
    r->out->blocks += t->blocks;
}

static ClockGroup *
group_of(Replay *r, const ReplayWarp *w)
{
    while (r->out->groups.n <= w->group) {
        uint32_t first = 4 * r->out->groups.n;
        vec_push(r->arena, &r->out->groups, ((ClockGroup){.first = first, .last = first + 3}));
    }
    return &r->out->groups.at[w->group];
}

static void
end_warp(Replay *r, ReplayWarp *w)
{
    double *clocks = &group_of(r, w)->clocks_read;

    w->live = false;
    w->ready = CLOCK_NEVER;
    if (w->path != NULL && w->last_clock > w->first_clock) {
        vec_push(r->arena, &r->out->clocks_read, w->last_clock - w->first_clock);
        *clocks = fmax(*clocks, w->last_clock - w->first_clock);
    }
    for (uint32_t k = 0; k < r->warps.n; k++) {
        if (r->warps.at[k] == w) {
            memmove(r->warps.at + k, r->warps.at + k + 1, (r->warps.n - k - 1) * sizeof w);
            r->warps.n--;
            break;
        }
    }
    if (--w->cluster->live > 0)
        return;
    r->running--;
    if (r->next_cluster < r->job->trace->cluster_count)
        start_cluster(r);
}

/* ---- a warp's events ---- */

static void
open_window(Replay *r, ReplayWarp *w)
{
    const SimTracedWarp *t = w->traced;
    uint32_t first = t->events[w->at].insn, n = 0;

    while (w->at + n < w->limit && n < WINDOW) {
        const SimEvent *e = &t->events[w->at + n];
        if (e->kind > SIM_EVENT_OFF || e->insn != first + n)
            break;
        n++;
        if (r->costs[e->insn].ends)
            break;
    }
    w->window_end = w->at + (n ? n : 1);
    w->order = n > 2 ? order_of(r, first, n) : NULL;
    w->in_window = 0;
}

static const SimEvent *
event_of(const ReplayWarp *w)
{
    return &w->traced->events[w->order ? w->at + w->order[w->in_window] : w->at + w->in_window];
}

static void
step_over(ReplayWarp *w)
{
    if (w->at + ++w->in_window >= w->window_end) {
        w->at = w->window_end;
        w->in_window = 0;
        w->order = NULL;
    }
}

static void
pass_on(Replay *r, ReplayWarp *w, const SimEvent *event, double at)
{
    SimInsnView v;

    if (event->kind == SIM_EVENT_OFF || !sim_insn_at(r->job->module, event->insn, &v))
        return;
    for (uint32_t s = 0; s < v.destination_count; s++) {
        if (v.slots[s] != UINT32_MAX && (v.slots[s] & 3) == 0)
            w->result[v.slots[s] >> 3] = at;
    }
}

/* The same for PTX. */
static bool
look_at_ptx(Replay *r, ReplayWarp *w)
{
    while (w->at < w->limit) {
        if (w->at >= w->window_end)
            open_window(r, w);
        const SimEvent *event = event_of(w);
        double operands = replay_operands(r, w, event);
        if (r->costs[event->insn].kind == CLASS_FREE && event->kind <= SIM_EVENT_OFF) {
            pass_on(r, w, event, operands);
            step_over(w);
            continue;
        }
        if (w->ready < CLOCK_NEVER && operands > w->ready) {
            w->ready = operands;
            w->by = 0;
            w->why = STALL_RESULT;
            w->waits_for = 0;
        }
        return true;
    }
    return false;
}

/* Finds the next instruction that takes an issue slot, and when its operands are there.  False: the
 * warp is at its end. */
static bool
look_ahead(Replay *r, ReplayWarp *w)
{
    if (w->path == NULL)
        return look_at_ptx(r, w);
    while (w->part < w->path->n && !code_is_next(w)) {
        if (look_at_ptx(r, w))
            return true;
        code_next_part(w);
    }
    return code_look(r, w);
}

/* ---- accounts ---- */

static void
account_wait(Replay *r, const ReplayWarp *w)
{
    double waited = w->ready - w->since;

    if (waited <= 0)
        return;
    group_of(r, w)->cycles[w->why] += waited;
    if (w->waits_for)
        replay_waits(r, w, w->waits_for - 1)->cycles += waited;
}

/* What a warp does by a stretch that does not fit is worth as much as one that was not found: it
 * may be other code. */
static bool
fits(const CodePart *part)
{
    enum { LEAST = 8 }; /* instructions: fewer are the ends of a neighbour's */

    return part->code != NULL &&
           (part->code->doubt < LEAST || 2 * part->code->doubt < (float)part->code->insns);
}

static void
account_fit(Replay *r, const ReplayWarp *w)
{
    double clocks = r->now + 1 - w->since;
    SimInsnView v;

    if (w->path == NULL || w->part >= w->path->n || w->sm != 0)
        return;
    const CodePart *part = &w->path->parts[w->part];
    r->out->warp_clocks += clocks;
    if (fits(part) || !sim_insn_at(r->job->module, w->traced->events[part->to - 1].insn, &v))
        return;
    r->out->misfit += clocks;
    r->misfit[v.line] += clocks;
    if (r->misfit[v.line] > r->out->misfit_most) {
        r->out->misfit_most = r->misfit[v.line];
        r->out->misfit_line = v.line;
    }
}

/* Of a warp as it was before it issued. */
static void
account(Replay *r, const ReplayWarp *w)
{
    double *cycles = group_of(r, w)->cycles;
    double late = r->now - (w->ready > w->since ? w->ready : w->since);

    account_wait(r, w);
    account_fit(r, w);
    cycles[STALL_NOT_PICKED] += late > 0 ? late : 0;
    cycles[STALL_ISSUED] += 1;
    r->out->busy[UNIT_ISSUE] += w->sm == 0;
    r->out->issued += w->sm == 0;
}

/* Behind an instruction: what else it does, and the next one. */
static void
go_on(Replay *r, ReplayWarp *w)
{
    const SimTracedWarp *t = w->traced;
    double free_at = 0;

    step_over(w);
    w->since = r->now + 1;
    while (w->at < t->event_count && (t->events[w->at].kind == SIM_EVENT_ARRIVED_TOO ||
                                      t->events[w->at].kind == SIM_EVENT_STARTED_TOO)) {
        replay_issue(r, w, &t->events[w->at], &free_at);
        w->window_end = ++w->at;
    }
}

/* ---- time ---- */

/* Issues for one scheduler, if a warp of its can. */
static void
issue_one(Replay *r, uint32_t sm, uint32_t scheduler)
{
    for (;;) {
        ReplayWarp *best = NULL, *last = r->sms[sm].last[scheduler];
        bool goes_on = last != NULL &&
                       last->issued == r->now - 1; /* a warp goes on for as long as it can */
        for (uint32_t k = 0; k < r->warps.n; k++) {
            ReplayWarp *w = r->warps.at[k];
            if (w->ready > r->now || w->scheduler != scheduler || w->sm != sm)
                continue;
            if (best == NULL || (r->code && !goes_on ? w->issued < best->issued : w == last))
                best = w;
        }
        if (best == NULL)
            return;
        double free_at = 0;
        ReplayWarp before = *best;
        bool code = code_is_next(best);
        r->node = r->log != NULL ? clock_log_issue(r->log) : 0;
        if (code ? code_issue(r, best, &free_at) : replay_issue(r, best, event_of(best), &free_at)) {
            account(r, &before);
            if (r->log != NULL)
                clock_log_issued(r, best, &before);
            best->node = r->sms[sm].last_by[scheduler] = r->node;
            best->issued = r->now;
            r->sms[sm].last[scheduler] = best;
            if (!code)
                go_on(r, best);
            if (!look_ahead(r, best))
                end_warp(r, best);
            return;
        }
        /* until now it waited for what it did; from now on for the unit */
        account_wait(r, &before);
        best->since = before.ready > before.since ? before.ready : before.since;
        best->ready = ceil(free_at);
        best->by = r->bound_by;
        best->by_kind = r->bound_kind;
        if (r->log != NULL) {
            clock_log_undo(r->log, r->node);
            clock_log_waited(r->log, &before);
        }
        best->why = STALL_UNIT;
        best->waits_for = 0;
    }
}

static bool
advance(Replay *r)
{
    double next = CLOCK_NEVER;

    for (uint32_t k = 0; k < r->warps.n; k++)
        next = r->warps.at[k]->ready < next ? r->warps.at[k]->ready : next;
    next = fmin(next, replay_products_next(r));
    if (next >= CLOCK_NEVER)
        return false;
    next = ceil(next);
    r->now = next > r->now ? next : r->now + 1;
    replay_products_on(r);
    return true;
}

void
clock_replay(Arena *arena, const ClockJob *job, ClockResult *out)
{
    Replay r = {.arena = arena,
                .job = job,
                .rows = job->rows,
                .out = out,
                .log = job->log,
                .random = job->seed};

    uint32_t turn = 1;

    *out = (ClockResult){.seed = job->seed, .resident = job->resident};
    r.schedulers = (uint32_t)job->rows[CLOCK_SCHEDULERS].value;
    r.n_order_slots = 1 << 14;
    r.order_slots = arena_array(arena, uint32_t, r.n_order_slots);
    r.n_sms = job->trace->cluster_count ? job->trace->clusters[0].blocks : 1;
    r.sms = arena_array(arena, ReplaySm, r.n_sms);
    make_costs(&r);
    while (r.running < job->resident && r.next_cluster < job->trace->cluster_count)
        start_cluster(&r);
    for (uint32_t k = r.warps.n; k-- > 0;) {
        ReplayWarp *w = r.warps.at[k];
        if (!look_ahead(&r, w))
            end_warp(&r, w);
    }
    while (r.warps.n > 0 && advance(&r)) {
        turn = turn * 1664525u +
               1013904223u; /* whose turn is first: units of the SM are shared fairly */
        for (uint32_t sm = 0; sm < r.n_sms; sm++) {
            for (uint32_t s = 0; s < r.schedulers; s++)
                issue_one(&r, sm, (s + (turn >> 16)) % r.schedulers);
        }
    }
    out->stuck = r.warps.n > 0;
    for (uint32_t unit = 0; unit < CLOCK_UNITS; unit++) { /* what goes on when the last warp ends */
        for (uint32_t s = 0; s < MOST_SCHEDULERS; s++)
            r.now = r.sms[0].unit[unit][s] > r.now ? r.sms[0].unit[unit][s] : r.now;
    }
    out->cycles = (uint64_t)ceil(r.now);
}
