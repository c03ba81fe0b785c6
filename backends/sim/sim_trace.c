/* sim_trace.c - what warps did, in order (sim.h: SimTrace).
 *
 * A loop that waits, `try_wait; @!p bra`, goes round as often as the seed lets waits give up.  A
 * clock must not see that: when an attempt follows one of the same instruction at the same phase,
 * and nothing but arithmetic and branches lies between, what lies between is taken out again.
 */
#include "sim_trace.h"

#include <stdlib.h>

typedef struct Attempt {
    const SimInsn *insn; /* NULL: none that can be taken out */
    uint32_t phase;
    size_t at; /* index of its event */
} Attempt;

typedef struct WarpTracer {
    size_t capacity;
    Attempt attempt;
    bool told;     /* the executing instruction has its event, or gets it later */
    uint32_t drew; /* 1 + the draw of the executing instruction */
    size_t first;  /* its first event */
} WarpTracer;

struct SimTracer {
    SimTracedCluster out;
    WarpTracer *warp; /* by agent */
    size_t phase_capacity, op_capacity, signal_capacity, drawn_capacity, slots;
    size_t touch_capacity, area_capacity;
    size_t touches;       /* of instructions before the executing one */
    uint32_t *slot;       /* 1 + index of a phase, a hash table */
    uint64_t *wavefronts; /* of each instruction, already in events */
};

static bool
grow(void **array, size_t *capacity, size_t n, size_t size)
{
    if (n < *capacity)
        return true;
    size_t wanted = *capacity ? 2 * *capacity : 256;
    void *bigger = sim_realloc(*array, wanted * size);
    if (!bigger)
        return false;
    *array = bigger;
    *capacity = wanted;
    return true;
}

static void
free_traced(SimTracedCluster *c)
{
    for (size_t w = 0; c->warps && w < c->warp_count; w++)
        free(c->warps[w].events);
    free(c->warps);
    free(c->phases);
    free(c->ops);
    free(c->signals);
    free(c->drawn);
    free(c->touches);
    free(c->areas);
}

SimTracer *
sim_trace_start(SimCluster *cluster)
{
    SimTracer *t = sim_calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->out.linear = t->out.place = cluster->linear;
    if (cluster->dealt)
        t->out.place = (uint64_t)(cluster->dealt - cluster->run->launch->dealt);
    t->out.blocks = cluster->cta_count;
    t->out.warp_count = cluster->agents;
    t->out.warps = sim_calloc(cluster->agents, sizeof *t->out.warps);
    t->warp = sim_calloc(cluster->agents, sizeof *t->warp);
    t->wavefronts = sim_calloc(cluster->run->module->insn_count, sizeof *t->wavefronts);
    cluster->tracer = t;
    if (!t->out.warps || !t->warp || !t->wavefronts)
        return NULL;
    for (uint32_t a = 0; a < cluster->agents; a++) {
        t->out.warps[a].block = a / cluster->run->warps_per_cta;
        t->out.warps[a].warp = a % cluster->run->warps_per_cta;
    }
    return t;
}

void
sim_trace_end(SimCluster *cluster)
{
    SimTracer *t = cluster->tracer;
    SimRun *run = cluster->run;
    if (!t)
        return;
    pthread_mutex_lock(&run->lock);
    SimTrace *trace = run->trace;
    if (grow((void **)&trace->clusters, &run->trace_capacity, trace->cluster_count,
             sizeof *trace->clusters))
        trace->clusters[trace->cluster_count++] = t->out;
    else
        free_traced(&t->out);
    pthread_mutex_unlock(&run->lock);
    free(t->warp);
    free(t->slot);
    free(t->wavefronts);
    free(t);
}

void
sim_trace_free(SimTrace *trace)
{
    for (size_t i = 0; trace && i < trace->cluster_count; i++)
        free_traced(&trace->clusters[i]);
    if (trace)
        free(trace->clusters);
    free(trace);
}

/* ---- events ---- */

static void
add_event(SimWarp *warp, const SimInsn *insn, SimEventKind kind, uint32_t lanes, uint32_t object)
{
    SimTracer *t = warp->cta->cluster->tracer;
    SimTracedWarp *to = &t->out.warps[warp->agent];
    uint64_t passes = 0;
    if (!grow((void **)&to->events, &t->warp[warp->agent].capacity, to->event_count,
              sizeof *to->events))
        return;
    const uint64_t *wavefronts = warp->cta->cluster->wavefronts;
    if (kind == SIM_EVENT_RAN) {
        passes = wavefronts[insn->index] - t->wavefronts[insn->index];
        t->wavefronts[insn->index] = wavefronts[insn->index];
    }
    if (!t->warp[warp->agent].told)
        t->warp[warp->agent].first = to->event_count;
    to->events[to->event_count++] = (SimEvent){.insn = insn->index,
                                               .kind = (uint8_t)kind,
                                               .lanes = (uint8_t)__builtin_popcount(lanes),
                                               .passes = (uint16_t)passes,
                                               .object = object};
}

void
sim_trace_step(SimWarp *warp, const SimInsn *insn, uint32_t lanes)
{
    WarpTracer *w = &warp->cta->cluster->tracer->warp[warp->agent];
    if (!w->told) {
        add_event(warp, insn, lanes ? SIM_EVENT_RAN : SIM_EVENT_OFF, lanes, w->drew);
        if (insn->space && lanes) /* an access to memory: not to be taken out */
            w->attempt.insn = NULL;
    }
    SimTracedCluster *out = &warp->cta->cluster->tracer->out;
    for (size_t *k = &warp->cta->cluster->tracer->touches; *k < out->touch_count; ++*k)
        out->touches[*k].event = (uint32_t)w->first;
    w->told = false;
    w->drew = 0;
}

size_t
sim_trace_drawn(const SimCluster *cluster)
{
    return cluster->tracer->out.drawn_count;
}

void
sim_trace_drew(SimWarp *warp, uint64_t counter, uint64_t value, uint64_t step)
{
    SimTracer *t = warp->cta->cluster->tracer;
    SimTracedCluster *out = &t->out;
    if (out->drawn_count == 0) {
        out->counter = counter;
        out->step = step;
    }
    if (out->counter != counter || out->step != step) {
        out->counters = true;
        return;
    }
    if (!grow((void **)&out->drawn, &t->drawn_capacity, out->drawn_count, sizeof *out->drawn))
        return;
    out->drawn[out->drawn_count++] = value;
    t->warp[warp->agent].drew = (uint32_t)out->drawn_count;
}

/* ---- global memory ---- */

/* Of the allocation; UINT32_MAX: no memory. */
static uint32_t
area_of(SimTracer *t, const SimAllocation *in)
{
    SimTracedCluster *out = &t->out;
    for (size_t k = out->area_count; k-- > 0;)
        if (out->areas[k].address == in->address)
            return (uint32_t)k;
    if (!grow((void **)&out->areas, &t->area_capacity, out->area_count, sizeof *out->areas))
        return UINT32_MAX;
    out->areas[out->area_count] = (SimArea){in->address, in->size};
    return (uint32_t)out->area_count++;
}

static void
touch_line(SimTracer *t, SimTouch touch)
{
    SimTracedCluster *out = &t->out;
    for (size_t k = out->touch_count; k-- > t->touches;) { /* lanes that share a line */
        SimTouch *had = &out->touches[k];
        if (had->line == touch.line && had->writes == touch.writes) {
            had->sectors |= touch.sectors;
            had->bytes = had->bytes + touch.bytes < SIM_LINE_BYTES
                             ? (uint8_t)(had->bytes + touch.bytes)
                             : SIM_LINE_BYTES;
            return;
        }
        if (out->touch_count - k >= SIM_LANES)
            break;
    }
    if (grow((void **)&out->touches, &t->touch_capacity, out->touch_count, sizeof *out->touches))
        out->touches[out->touch_count++] = touch;
}

void
sim_trace_touch(SimWarp *warp, const SimAllocation *in, const uint8_t *data, uint32_t size,
                bool writes)
{
    SimTracer *t = warp->cta->cluster->tracer;
    uint32_t area = t && size ? area_of(t, in) : UINT32_MAX;
    if (area == UINT32_MAX)
        return;
    uint64_t from = in->address + (uint64_t)(data - in->data), end = from + size;
    while (from < end) {
        uint64_t line = from / SIM_LINE_BYTES, next = (line + 1) * SIM_LINE_BYTES;
        uint64_t last = (next < end ? next : end) - 1;
        uint32_t a = (uint32_t)(from % SIM_LINE_BYTES / SIM_SECTOR_BYTES);
        uint32_t b = (uint32_t)(last % SIM_LINE_BYTES / SIM_SECTOR_BYTES);
        touch_line(t, (SimTouch){.line = line,
                                 .warp = warp->agent,
                                 .area = area,
                                 .sectors = (uint8_t)((2u << b) - (1u << a)),
                                 .bytes = (uint8_t)(last + 1 - from),
                                 .writes = writes});
        from = next;
    }
}

/* ---- phases ---- */

static size_t
place_of(const SimTracer *t, const SimPhase *p)
{
    uint64_t key = ((uint64_t)p->kind << 60) ^ ((uint64_t)p->block << 52) ^
                   ((uint64_t)p->object << 28) ^ p->index;
    size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (t->slots - 1);
    for (; t->slot[at]; at = (at + 1) & (t->slots - 1)) {
        const SimPhase *q = &t->out.phases[t->slot[at] - 1];
        if (q->kind == p->kind && q->block == p->block && q->object == p->object &&
            q->index == p->index)
            break;
    }
    return at;
}

static bool
make_slots(SimTracer *t)
{
    if (2 * t->out.phase_count < t->slots)
        return true;
    size_t wanted = t->slots ? 2 * t->slots : 1024;
    uint32_t *bigger = sim_calloc(wanted, sizeof *bigger);
    if (!bigger)
        return false;
    free(t->slot);
    t->slot = bigger;
    t->slots = wanted;
    for (size_t i = 0; i < t->out.phase_count; i++)
        t->slot[place_of(t, &t->out.phases[i])] = (uint32_t)i + 1;
    return true;
}

/* Its index; made on first use.  UINT32_MAX: no memory. */
static uint32_t
phase_of(SimTracer *t, SimPhaseName name)
{
    SimPhase p = {
        .kind = (uint8_t)name.kind, .block = name.block, .object = name.object, .index = name.index};
    if (!make_slots(t))
        return UINT32_MAX;
    size_t at = place_of(t, &p);
    if (t->slot[at])
        return t->slot[at] - 1;
    if (!grow((void **)&t->out.phases, &t->phase_capacity, t->out.phase_count,
              sizeof *t->out.phases))
        return UINT32_MAX;
    t->out.phases[t->out.phase_count] = p;
    t->slot[at] = (uint32_t)++t->out.phase_count;
    return t->slot[at] - 1;
}

void
sim_trace_arrive(SimWarp *warp, SimPhaseName name)
{
    SimTracer *t = warp->cta->cluster->tracer;
    if (!t)
        return;
    uint32_t phase = phase_of(t, name);
    if (phase == UINT32_MAX)
        return;
    SimTracedWarp *to = &t->out.warps[warp->agent];
    WarpTracer *w = &t->warp[warp->agent];
    t->out.phases[phase].arrivals++;
    SimEvent *last = w->told ? &to->events[to->event_count - 1] : NULL;
    w->attempt.insn = NULL;
    if (last && last->kind == SIM_EVENT_ARRIVED && last->object == phase) {
        last->passes++;
        return;
    }
    add_event(warp, warp->insn, w->told ? SIM_EVENT_ARRIVED_TOO : SIM_EVENT_ARRIVED, 1, phase);
    to->events[to->event_count - 1].passes = 1;
    w->told = true;
}

void
sim_trace_met(SimWarp *warp, SimPhaseName name)
{
    SimTracer *t = warp->cta->cluster->tracer;
    uint32_t phase = t ? phase_of(t, name) : UINT32_MAX;
    if (phase == UINT32_MAX)
        return;
    t->out.phases[phase].arrivals++;
    t->warp[warp->agent].attempt.insn = NULL;
    add_event(warp, warp->insn, SIM_EVENT_MET, 1, phase);
    t->warp[warp->agent].told = true;
}

void
sim_trace_sleeps(SimWarp *warp)
{
    if (warp->cta->cluster->tracer)
        warp->cta->cluster->tracer->warp[warp->agent].told = true;
}

void
sim_trace_waited(SimWarp *warp, const SimInsn *insn, SimPhaseName name, bool complete)
{
    SimTracer *t = warp->cta->cluster->tracer;
    uint32_t phase = t ? phase_of(t, name) : UINT32_MAX;
    if (phase == UINT32_MAX)
        return;
    WarpTracer *w = &t->warp[warp->agent];
    SimTracedWarp *to = &t->out.warps[warp->agent];
    if (w->attempt.insn == insn && w->attempt.phase == phase)
        to->event_count = w->attempt.at; /* it went round */
    w->attempt = (Attempt){complete ? NULL : insn, phase, to->event_count};
    add_event(warp, insn, complete ? SIM_EVENT_WAITED : SIM_EVENT_TRIED, 1, phase);
}

/* ---- operations ---- */

void
sim_trace_started(SimWarp *warp, SimOp *op, uint32_t bytes)
{
    SimTracer *t = warp->cta->cluster->tracer;
    if (!t)
        return;
    WarpTracer *w = &t->warp[warp->agent];
    if (!op->traced) {
        if (!grow((void **)&t->out.ops, &t->op_capacity, t->out.op_count, sizeof *t->out.ops))
            return;
        t->out.ops[t->out.op_count] = (SimTracedOp){.insn = warp->insn->index,
                                                    .bytes = bytes,
                                                    .drew = w->drew,
                                                    .to = (uint16_t)warp->cta->rank,
                                                    .copies = 1};
        op->traced = (uint32_t)++t->out.op_count;
    }
    t->out.ops[op->traced - 1].parts++;
    w->attempt.insn = NULL;
    add_event(warp, warp->insn, w->told ? SIM_EVENT_STARTED_TOO : SIM_EVENT_STARTED, 1,
              op->traced - 1);
    w->told = true;
}

void
sim_trace_fills(const SimCta *cta, const SimOp *op, uint32_t copies, bool follows)
{
    SimTracer *t = cta->cluster->tracer;

    if (!t || !op->traced)
        return;
    SimTracedOp *traced = &t->out.ops[op->traced - 1];
    traced->to = (uint16_t)cta->rank;
    traced->copies = (uint8_t)copies;
    traced->follows = follows;
}

void
sim_trace_product(SimCluster *cluster, const SimOp *op, SimTracedProduct product)
{
    if (cluster->tracer && op->traced)
        cluster->tracer->out.ops[op->traced - 1].product = product;
}

void
sim_trace_signal(SimCluster *cluster, const SimOp *op, SimPhaseName name)
{
    SimTracer *t = cluster->tracer;
    if (!t || !op->traced)
        return;
    uint32_t phase = phase_of(t, name);
    if (phase == UINT32_MAX || !grow((void **)&t->out.signals, &t->signal_capacity,
                                     t->out.signal_count, sizeof *t->out.signals))
        return;
    t->out.phases[phase].arrivals++;
    t->out.signals[t->out.signal_count++] = (SimSignal){op->traced - 1, phase};
}

bool
sim_insn_at(const SimModule *mod, uint32_t index, SimInsnView *out)
{
    if (index >= mod->insn_count)
        return false;
    const SimInsn *insn = mod->insns[index];
    *out = (SimInsnView){.mnemonic = insn->mnemonic,
                         .line = insn->line,
                         .imm = insn->imm,
                         .slots = insn->slot,
                         .slot_count = insn->slot_count,
                         .destination_count = insn->destination_count,
                         .guard = insn->guard};
    return true;
}
