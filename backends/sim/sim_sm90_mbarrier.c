/* sim_sm90_mbarrier.c - mbarrier objects (PTX ISA 9.7.13.15).
 *
 * The truth about an mbarrier is kept beside shared memory; the eight bytes hold an image of it, so
 * that an ordinary write over a live mbarrier is noticed by the next operation on it.
 *
 * A phase collects the clocks of its releasing arrives, and the ops that signalled it.  When it
 * completes, both become what a successful wait acquires.  Arrives read-modify-write the object, so
 * an arrive of a later phase carries the earlier ones along: clocks are never reset.
 */
#include "sim_sm90.h"

#include <stdlib.h>

#include "sim_exec.h"
#include "sim_sync.h"
#include "sim_trace.h"

enum { COUNT_MAX = (1 << 20) - 1 }; /* 9.7.13.15.2 */

struct Sm90Barrier {
    SimCta *cta;
    uint32_t offset;
    bool valid;
    bool waited;            /* somebody saw the last complete phase complete */
    bool used;              /* somebody has tested or waited */
    const SimInsn *skipped; /* arrived in a phase before that; NULL if none did */
    bool reported_tx;
    uint32_t phase, pending, expected;
    uint32_t
        phases_before; /* of initialisations before: for the trace, where each phase has one name */
    int64_t tx;
    uint64_t phase_expected, phase_completed; /* bytes, for reports */
    uint64_t image;
    const SimInsn *init_insn, *arrive_insn;
    int32_t arrive_warp;
    /* What arrives released, and what of it a complete phase passes on; SIM_PLANES each, first what
     * came from threads of the barrier's block, then from others.  NULL without checks. */
    uint32_t *clock, *done;
    uint32_t init_agent, init_clock;       /* who initialised it, and when */
    SimOp **op;                            /* that signalled it */
    size_t op_count, op_capacity, op_done; /* the first op_done are of complete phases */
    uint32_t *observed;                    /* by agent: how many of them it knows */
};

static void
barrier_free(Sm90Barrier *b)
{
    free(b->clock);
    free(b->op);
    free(b->observed);
    free(b);
}

/* ------------------------------------------------------------------------ the object */

static void
store_image(Sm90Barrier *b)
{
    b->image = UINT64_C(0x6d62) << 48 | (uint64_t)(b->phase & 0xff) << 40 |
               ((uint64_t)b->tx & 0xfffff) << 20 | (b->pending & 0xfffff);
    memcpy(b->cta->shared + b->offset, &b->image, sizeof b->image);
}

static Sm90Barrier *
barrier_at(SimCta *cta, uint32_t offset)
{
    Sm90Cta *s = sim_sm90_cta(cta);
    return s ? s->barrier[offset / 8] : NULL;
}

static Sm90Barrier *
make_barrier(SimCta *cta, uint32_t offset)
{
    Sm90Cta *s = sim_sm90_cta(cta);
    size_t agents = cta->cluster->agents;
    if (!s)
        return NULL;
    Sm90Barrier **at = &s->barrier[offset / 8];
    s->free_barrier = barrier_free;
    if (!*at && (*at = sim_calloc(1, sizeof **at)) != NULL && cta->cluster->run->checks) {
        size_t words = 2 * SIM_PLANES * agents;
        (*at)->clock = sim_calloc(2 * words, sizeof *(*at)->clock);
        (*at)->done = (*at)->clock ? (*at)->clock + words : NULL;
        (*at)->observed = sim_calloc(agents, sizeof *(*at)->observed);
    }
    if (*at) {
        (*at)->cta = cta;
        (*at)->offset = offset;
    }
    return *at;
}

static size_t
clock_bytes(const Sm90Barrier *b) /* of `clock`, or of `done` */
{
    return 2 * SIM_PLANES * (size_t)b->cta->cluster->agents * sizeof *b->clock;
}

/* The part of them that is for threads of the barrier's own block, or for others. */
static uint32_t *
clock_of(const Sm90Barrier *b, uint32_t *clocks, bool other_block)
{
    return clocks + (other_block ? SIM_PLANES * (size_t)b->cta->cluster->agents : 0);
}

static void
describe_barrier(const Sm90Barrier *b, char *text, size_t size)
{
    const SimRun *run = b->cta->cluster->run;
    char name[80];
    bool named = sim_barrier_name(run->module, run->function->name, b->offset, name, sizeof name);

    snprintf(text, size,
             "mbarrier %s%sat 0x%x (initialised in line %u): phase %u, %u of %u arrivals pending, "
             "tx-count %lld",
             named ? name : "", named ? ", " : "", b->offset + SIM_SHARED_BASE,
             b->init_insn ? b->init_insn->line : 0, b->phase, b->pending, b->expected,
             (long long)b->tx);
}

/* An access to the object.  The warp may know of its initialisation alone, by
 * fence.mbarrier_init. */
static void
note_use(SimWarp *warp, const Sm90Barrier *b, const SimMemory *m, uint32_t lane)
{
    if (!warp->clock)
        return;
    uint32_t a = b->init_agent, *known = &warp->clock[a], before = *known;
    if (*known < b->init_clock && b->init_clock <= warp->init_clock[a])
        *known = b->init_clock;
    sim_memory_note_read(warp, m, 8, lane, SIM_WEAK);
    *known = before;
}

/* Finds the object for an instruction; checks address, life and that nobody wrote over it. */
static Sm90Barrier *
find_barrier(SimWarp *warp, uint32_t lane, SimSpace space, uint64_t address, bool local_only,
             SimMemory *m)
{
    if (!sim_memory_find(warp, lane, space, address, 8, 8, m))
        return NULL;
    if (m->space != SIM_SHARED || (local_only && m->cta != warp->cta)) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, address, NULL,
                 "this operation needs an mbarrier in the block's own shared memory");
        return NULL;
    }
    if (m->cta->live_warps == 0) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, address, NULL,
                 "the block whose mbarrier this is has exited");
        return NULL;
    }
    Sm90Barrier *b = barrier_at(m->cta, m->offset);
    if (!b || !b->valid) {
        sim_find(warp, SIM_FIND_BARRIER, (int32_t)lane, address, NULL,
                 "no mbarrier is initialised here");
        return NULL;
    }
    if (memcmp(m->data, &b->image, sizeof b->image) != 0) {
        SimPlace place = {b->init_insn, -1, 0};
        sim_find(warp, SIM_FIND_BARRIER, (int32_t)lane, address, &place,
                 "this mbarrier was overwritten by something that is no mbarrier operation");
        store_image(b);
    }
    note_use(warp, b, m, lane);
    return b;
}

bool
sim_sm90_barrier_for_op(SimWarp *warp, uint32_t lane, SimSpace space, uint64_t address, SimMemory *m)
{
    return find_barrier(warp, lane, space, address, false, m) != NULL;
}

/* 9.7.13.15.6: a phase completes when no arrival is pending and the tx-count is zero. */
static void
complete_if_done(Sm90Barrier *b)
{
    if (b->pending == 0 && b->tx == 0 && b->valid) {
        b->phase++;
        b->pending = b->expected;
        b->waited = false;
        b->op_done = b->op_count;
        b->phase_expected = b->phase_completed = 0;
        if (b->clock)
            memcpy(b->done, b->clock, clock_bytes(b));
        b->cta->cluster->progress++;
    }
    store_image(b);
}

static SimPhaseName
phase_name(const Sm90Barrier *b, uint32_t phase)
{
    return (SimPhaseName){SIM_PHASE_MBARRIER, b->cta->rank, b->offset, b->phases_before + phase};
}

/* Reports name either the executing instruction of a warp, or an op. */
static void
report(Sm90Barrier *b, SimWarp *warp, const SimOp *op, SimFindingKind kind, int32_t lane,
       const char *what)
{
    char text[300];
    SimPlace place = {b->arrive_insn ? b->arrive_insn : b->init_insn, b->arrive_warp, b->cta->rank};
    describe_barrier(b, text, sizeof text);
    if (op)
        sim_find_at(b->cta->cluster, op->cta, kind, op->insn, (int32_t)op->warp->index, lane,
                    b->offset + SIM_SHARED_BASE, &place, "%s\n    %s", what, text);
    else
        sim_find(warp, kind, lane, b->offset + SIM_SHARED_BASE, &place, "%s\n    %s", what, text);
}

static void
change_tx(Sm90Barrier *b, SimWarp *warp, const SimOp *op, int32_t lane, int64_t change)
{
    b->tx += change;
    if (change > 0)
        b->phase_expected += (uint64_t)change;
    else
        b->phase_completed += (uint64_t)-change;
    if (b->tx > COUNT_MAX || b->tx < -COUNT_MAX)
        report(b, warp, op, SIM_FIND_TRANSACTION, lane,
               "the tx-count leaves its range of 20 bits (9.7.13.15.2)");
}

static void
arrive_on(Sm90Barrier *b, SimWarp *warp, const SimOp *op, int32_t lane, uint32_t count)
{
    /* 9.7.13.15.4: in each phase a wait must return true before an arrive-on of the next phase.
     * Reported only once somebody waits at all: an object that only collects arrives does no
     * harm. */
    if (b->phase > 0 && !b->waited && b->used) {
        report(b, warp, op, SIM_FIND_PHASE, lane,
               "arrival in a phase although nobody has seen the phase before it complete");
        b->waited = true;
    } else if (b->phase > 0 && !b->waited && !b->skipped) {
        b->skipped = op ? op->insn : warp->insn;
    }
    if (count == 0 || count > COUNT_MAX)
        report(b, warp, op, SIM_FIND_BARRIER, lane, "an arrival count must be in 1..2^20-1");
    if (count > b->pending) {
        report(b, warp, op, SIM_FIND_BARRIER, lane, "more arrivals than the phase has pending");
        count = b->pending;
    }
    SimPhaseName name = phase_name(b, b->phase);
    for (uint32_t i = 0; !op && i < count && b->cta->cluster->tracer; i++)
        sim_trace_arrive(warp, name);
    if (op)
        sim_trace_signal(b->cta->cluster, op, name);
    b->pending -= count;
    b->arrive_insn = op ? op->insn : warp->insn;
    b->arrive_warp = (int32_t)(op ? op->warp->index : warp->index);
    complete_if_done(b);
}

static void
credit(Sm90Barrier *b, SimOp *op)
{
    if (!b->clock)
        return;
    if (b->op_count == b->op_capacity) {
        size_t capacity = b->op_capacity ? 2 * b->op_capacity : 16;
        SimOp **bigger = sim_realloc(b->op, capacity * sizeof *bigger);
        if (!bigger)
            return;
        b->op = bigger;
        b->op_capacity = capacity;
    }
    b->op[b->op_count++] = op;
}

void
sim_sm90_barrier_credit(SimCta *cta, uint32_t offset, SimOp *op)
{
    Sm90Barrier *b = barrier_at(cta, offset);
    if (b && b->valid)
        credit(b, op);
}

void
sim_sm90_barrier_add_pending(SimWarp *warp, SimCta *cta, uint32_t offset, uint32_t count)
{
    Sm90Barrier *b = barrier_at(cta, offset);
    if (!b)
        return;
    b->pending += count;
    if (b->pending > COUNT_MAX)
        report(b, warp, NULL, SIM_FIND_BARRIER, -1, "the pending count leaves its range");
    store_image(b);
}

/* Of an op that lands: the object may be gone by then. */
static Sm90Barrier *
signalled(SimCluster *cluster, SimOp *op, SimCta *cta, uint32_t offset)
{
    Sm90Barrier *b = barrier_at(cta, offset);
    if (b && b->valid)
        return b;
    sim_find_at(cluster, op->cta, SIM_FIND_BARRIER, op->insn, (int32_t)op->warp->index, -1,
                offset + SIM_SHARED_BASE, NULL,
                "when this completes, the mbarrier that it signals is not initialised any more");
    return NULL;
}

void
sim_mbarrier_arrive_op(SimCluster *cluster, SimOp *op, SimCta *cta, uint32_t offset)
{
    Sm90Barrier *b = signalled(cluster, op, cta, offset);
    if (!b)
        return;
    credit(b, op);
    arrive_on(b, NULL, op, -1, 1);
}

void
sim_mbarrier_complete_tx_op(SimCluster *cluster, SimOp *op, SimCta *cta, uint32_t offset,
                            uint32_t bytes)
{
    Sm90Barrier *b = signalled(cluster, op, cta, offset);
    if (!b)
        return;
    credit(b, op);
    sim_trace_signal(cluster, op, phase_name(b, b->phase));
    change_tx(b, NULL, op, -1, -(int64_t)bytes);
    complete_if_done(b);
}

/* ------------------------------------------------------------------------ init and inval */

static SimStep
mbarrier_init(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_each_lane (l, mask) {
        SimMemory m;
        uint64_t address = sim_lane_address(warp, insn, 0, l);
        uint32_t count = sim_r32(warp, insn->slot[1])[l];
        if (!sim_memory_find(warp, l, (SimSpace)insn->space, address, 8, 8, &m))
            continue;
        if (m.space != SIM_SHARED || m.cta != warp->cta) {
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, address, NULL,
                     "an mbarrier lies in the block's own shared memory");
            continue;
        }
        if (count < 1 || count > COUNT_MAX) {
            sim_find(warp, SIM_FIND_BARRIER, (int32_t)l, address, NULL,
                     "an arrival count of %u is not in 1..2^20-1", count);
            continue;
        }
        Sm90Barrier *b = barrier_at(m.cta, m.offset);
        if (b && b->valid) {
            SimPlace place = {b->init_insn, -1, 0};
            sim_find(warp, SIM_FIND_BARRIER, (int32_t)l, address, &place,
                     "there is a valid mbarrier here already: mbarrier.inval comes first");
        }
        b = make_barrier(m.cta, m.offset);
        if (!b)
            return sim_fail(warp, "out of memory");
        sim_memory_note_write(warp, &m, 8, l, SIM_WEAK);
        if (b->clock)
            memset(b->clock, 0, 2 * clock_bytes(b));
        b->init_agent = warp->agent;
        b->init_clock = warp->clock ? warp->clock[warp->agent] : 0;
        if (b->observed)
            memset(b->observed, 0, warp->cta->cluster->agents * sizeof *b->observed);
        b->valid = true;
        b->waited = b->used = b->reported_tx = false;
        b->skipped = NULL;
        b->phases_before += b->init_insn ? b->phase + 1 : 0;
        b->phase = 0;
        b->pending = b->expected = count;
        b->tx = 0;
        b->phase_expected = b->phase_completed = 0;
        b->op_count = b->op_done = 0;
        b->init_insn = insn;
        b->arrive_insn = NULL;
        b->arrive_warp = (int32_t)warp->index;
        store_image(b);
    }
    return SIM_NEXT;
}

static void
check_leftover(Sm90Barrier *b, SimWarp *warp)
{
    char text[300];
    describe_barrier(b, text, sizeof text);
    if (b->tx == 0 || b->reported_tx)
        return;
    b->reported_tx = true;
    const char *what = b->tx > 0 ? "more bytes were expected than arrived"
                                 : "more bytes arrived than were expected";
    if (warp)
        sim_find(warp, SIM_FIND_TRANSACTION, -1, b->offset + SIM_SHARED_BASE, NULL, "%s\n    %s",
                 what, text);
    else
        sim_find_at(b->cta->cluster, b->cta, SIM_FIND_TRANSACTION,
                    b->arrive_insn ? b->arrive_insn : b->init_insn, b->arrive_warp, -1,
                    b->offset + SIM_SHARED_BASE, NULL, "at the end of the block %s\n    %s", what,
                    text);
}

/* 9.7.13.15.3: memory of an mbarrier is used for something else only after mbarrier.inval. */
static void
check_overwritten(const Sm90Barrier *b)
{
    if (memcmp(b->cta->shared + b->offset, &b->image, sizeof b->image) != 0)
        sim_find_at(b->cta->cluster, b->cta, SIM_FIND_BARRIER, b->init_insn, -1, -1,
                    b->offset + SIM_SHARED_BASE, NULL,
                    "the memory of this mbarrier was written without mbarrier.inval");
}

static SimStep
mbarrier_inval(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_each_lane (l, mask) {
        SimMemory m;
        Sm90Barrier *b = find_barrier(warp, l, (SimSpace)insn->space,
                                      sim_lane_address(warp, insn, 0, l), true, &m);
        if (!b)
            continue;
        sim_memory_note_write(warp, &m, 8, l, SIM_WEAK);
        check_leftover(b, warp);
        b->valid = false;
        memset(m.data, 0xa5, 8);
    }
    return SIM_NEXT;
}

/* ------------------------------------------------------------------------ arrivals */

/* The scope of an arrive or wait, in SimInsn.type2. */
enum { NO_SCOPE, OF_BLOCK, OF_CLUSTER };

/* What an arrive passes on.  Those who wait on a barrier are of its own block: from another one,
 * the scope must be the cluster.  Without any scope it is .cta by the text, but compilers arrive so
 * at barriers of other blocks (CUTLASS, FlashAttention-4), and that orders all the same. */
static void
release_to(SimWarp *warp, const SimInsn *insn, Sm90Barrier *b, uint32_t mask, uint32_t lane)
{
    bool other_block = b->cta != warp->cta;
    if (other_block && insn->type2 == OF_BLOCK)
        return;
    if (other_block && insn->type2 == NO_SCOPE)
        sim_note(warp, SIM_FIND_RACE, (int32_t)lane, b->offset + SIM_SHARED_BASE, NULL,
                 "an arrive at another block's mbarrier without a scope: the default is .cta, which "
                 "does not reach the threads that wait on it");
    uint32_t *to = clock_of(b, b->clock, other_block);
    sim_sync_lanes_release(warp, mask);
    if (insn->mode[3])
        sim_clock_release_relaxed(warp, to, other_block, sim_tensor_fenced(warp));
    else
        sim_clock_release(warp, to);
}

/* mode[0]: 1 arrive_drop, [1] expect_tx, [2] has a count (or bytes), [3] relaxed, [4] noComplete.
 * type2: the scope.  Slots: state, address, count. */
static SimStep
arrive(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint64_t state[SIM_LANES] = {0};
    Sm90Barrier *last = NULL;
    uint32_t last_phase = 0;
    sim_each_lane (l, mask) {
        SimMemory m;
        uint64_t address = sim_lane_address(warp, insn, 1, l);
        Sm90Barrier *b = find_barrier(warp, l, (SimSpace)insn->space, address,
                                      insn->slot[0] != SIM_NO_SLOT, &m);
        if (!b)
            continue;
        uint32_t value = insn->mode[2] ? sim_r32(warp, insn->slot[2])[l] : 1;
        uint32_t count = insn->mode[1] ? 1 : value;
        state[l] = (uint64_t)b->phase << 32 | b->pending;
        if (b->clock && !(b == last && b->phase == last_phase))
            release_to(warp, insn, b, mask, l);
        last = b;
        last_phase = b->phase;
        if (insn->mode[1])
            change_tx(b, warp, NULL, (int32_t)l, value);
        if (insn->mode[0]) {
            if (count > b->expected)
                report(b, warp, NULL, SIM_FIND_BARRIER, (int32_t)l,
                       "more arrivals are dropped than are expected");
            b->expected -= count < b->expected ? count : b->expected;
        }
        arrive_on(b, warp, NULL, (int32_t)l, count);
        if (insn->mode[4] && b->phase != last_phase)
            report(b, warp, NULL, SIM_FIND_BARRIER, (int32_t)l,
                   "an arrive with .noComplete completes the phase");
    }
    sim_put64(warp, insn->slot[0], state, mask);
    warp->cta->cluster->progress++;
    return SIM_YIELD;
}

static SimStep
expect_tx(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_each_lane (l, mask) {
        SimMemory m;
        Sm90Barrier *b = find_barrier(warp, l, (SimSpace)insn->space,
                                      sim_lane_address(warp, insn, 0, l), false, &m);
        if (!b)
            continue;
        int64_t bytes = sim_r32(warp, insn->slot[1])[l];
        change_tx(b, warp, NULL, (int32_t)l, insn->mode[0] ? -bytes : bytes);
        if (insn->mode[0])
            complete_if_done(b);
        else
            store_image(b);
    }
    warp->cta->cluster->progress++;
    return SIM_YIELD;
}

/* ------------------------------------------------------------------------ waits */

/* The phase whose completion a wait asks for; *complete tells whether it is.  mode[0]: by parity,
 * [1] may suspend, [2] relaxed.  Slots: result, address, state or parity, time limit. */
static uint32_t
asked_phase(SimWarp *warp, const SimInsn *insn, const Sm90Barrier *b, uint32_t lane, bool *complete)
{
    if (insn->mode[0]) {
        uint32_t parity = sim_r32(warp, insn->slot[2])[lane];
        if (parity > 1)
            sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, b->offset + SIM_SHARED_BASE, NULL,
                     "a phase parity is 0 or 1, not %u", parity);
        *complete = (b->phase & 1) != (parity & 1);
        return *complete ? b->phase - 1 : b->phase;
    }
    uint32_t phase = (uint32_t)(sim_r64(warp, insn->slot[2])[lane] >> 32);
    *complete = phase != b->phase;
    return phase;
}

static void
succeed(SimWarp *warp, const SimInsn *insn, Sm90Barrier *b, uint32_t phase)
{
    if (b->phase > 0 && phase + 1 == b->phase)
        b->waited = true;
    bool relaxed = insn->mode[2], tensor = sim_tensor_in_use(warp);
    if (!b->clock)
        return;
    for (int other_block = 0; other_block < 2; other_block++) {
        const uint32_t *from = clock_of(b, b->done, other_block);
        if (other_block && (insn->type2 == OF_BLOCK || b->cta->cluster->cta_count == 1))
            break;
        if (relaxed)
            sim_clock_acquire_relaxed(warp, from, other_block, tensor);
        else
            sim_clock_acquire(warp, from);
    }
    /* A relaxed wait orders tensor memory, with a tcgen05.fence, and no bulk copy. */
    for (size_t i = b->observed ? b->observed[warp->agent] : 0; i < b->op_done; i++)
        if (!relaxed || (tensor && b->op[i]->tracked))
            sim_op_observe(warp, b->op[i]);
    if (b->observed && !relaxed)
        b->observed[warp->agent] = (uint32_t)b->op_done;
}

/* When all lanes of the warp have waited, none needs a bar.warp.sync for what it learned. */
static void
learned_by(SimWarp *warp, uint32_t mask)
{
    if ((mask & warp->live) == warp->live)
        sim_order_lanes(warp);
}

static void
check_phase(SimWarp *warp, Sm90Barrier *b, uint32_t phase, uint32_t lane)
{
    if (phase + 1 != b->phase && phase != b->phase)
        report(b, warp, NULL, SIM_FIND_PHASE, (int32_t)lane,
               "a wait for a phase that is neither the current nor the immediately preceding one");
}

enum { TIMED_OUT = 1, POLL = 2 };

static bool
wait_ready(SimWarp *warp, SimGroup *group)
{
    Sm90Barrier *b = (Sm90Barrier *)(uintptr_t)group->wait.arg[0];
    uint32_t phase = (uint32_t)group->wait.arg[1], mask = (uint32_t)(group->wait.arg[1] >> 32);
    const SimInsn *insn = group->wait_insn;
    uint64_t progress = warp->cta->cluster->progress;
    if (b->phase == phase && b->valid) {
        bool timed_out = group->wait.arg[3] & TIMED_OUT;
        bool again = group->wait.arg[3] & POLL && progress != group->wait.arg[2];
        if (!timed_out && !again)
            return false;
        sim_trace_waited(warp, insn, phase_name(b, phase), false);
        sim_put_pred(warp, insn->slot[0], 0, mask);
        return true;
    }
    if (!b->valid) {
        report(b, warp, NULL, SIM_FIND_BARRIER, (int32_t)sim_first_lane(mask),
               "the mbarrier was invalidated while a thread waits on it");
    } else if (b->phase != phase + 1) {
        report(b, warp, NULL, SIM_FIND_PHASE, (int32_t)sim_first_lane(mask),
               "a phase was overrun: while this thread waits for it, a later one completed");
    }
    succeed(warp, insn, b, b->phase - 1);
    sim_trace_waited(warp, insn, phase_name(b, b->phase - 1), true);
    learned_by(warp, mask);
    sim_put_pred(warp, insn->slot[0], UINT32_MAX, mask);
    return true;
}

static void
describe_wait(const SimWarp *warp, const SimGroup *group, char *text, size_t size)
{
    const Sm90Barrier *b = (const Sm90Barrier *)(uintptr_t)group->wait.arg[0];
    char state[200];
    (void)warp;
    describe_barrier(b, state, sizeof state);
    snprintf(text, size, "waits for the end of phase %u of the %s", (uint32_t)group->wait.arg[1],
             state);
}

static SimStep
wait_on(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    SimCluster *cluster = warp->cta->cluster;
    Sm90Warp *state = sim_sm90_warp(warp);
    Sm90Barrier *waits = NULL, *seen = NULL;
    uint32_t result = 0, phase = 0, waiting = 0, seen_phase = 0;
    bool uniform = true;
    if (!state)
        return sim_fail(warp, "out of memory");
    sim_each_lane (l, mask) {
        SimMemory m;
        bool complete;
        Sm90Barrier *b = find_barrier(warp, l, (SimSpace)insn->space,
                                      sim_lane_address(warp, insn, 1, l), true, &m);
        if (!b) { /* reported: go on as if complete */
            result |= UINT32_C(1) << l;
            continue;
        }
        uint32_t asked = asked_phase(warp, insn, b, l, &complete);
        if (b->skipped)
            report(b, warp, NULL, SIM_FIND_PHASE, (int32_t)l,
                   "first wait on an mbarrier that completed phases which nobody has seen");
        b->skipped = NULL;
        b->used = true;
        if (!insn->mode[0])
            check_phase(warp, b, asked, l);
        if (complete) {
            succeed(warp, insn, b, asked);
            seen = b;
            seen_phase = asked;
            result |= UINT32_C(1) << l;
            continue;
        }
        uniform &= !waiting || (waits == b && phase == asked);
        waits = b;
        phase = asked;
        waiting |= UINT32_C(1) << l;
    }
    learned_by(warp, result);
    sim_put_pred(warp, insn->slot[0], result, mask);
    if (seen)
        sim_trace_waited(warp, insn, phase_name(seen, seen_phase), true);
    if (seen || waiting)
        sim_trace_sleeps(warp);
    if (!waiting)
        return SIM_NEXT;
    uint32_t flags = 0;
    if (!insn->mode[1]) { /* test_wait: sleeps only when polling again cannot find a change */
        if (state->poll_progress != cluster->progress + 1 || !uniform || result) {
            state->poll_progress = cluster->progress + 1;
            sim_trace_waited(warp, insn, phase_name(waits, phase), false);
            return SIM_YIELD;
        }
        flags = POLL;
    } else if (!uniform || result || sim_random_below(&warp->random, 32) == 0) {
        sim_trace_waited(warp, insn, phase_name(waits, phase), false);
        return SIM_YIELD; /* try_wait may give up before its time (9.7.13.15.16) */
    }
    SimWait *wait = sim_warp_sleep(warp, wait_ready, describe_wait);
    wait->arg[0] = (uint64_t)(uintptr_t)waits;
    wait->arg[1] = (uint64_t)mask << 32 | phase;
    wait->arg[2] = cluster->progress;
    wait->arg[3] = flags;
    return SIM_WAIT;
}

bool
sim_sm90_break(SimCluster *cluster)
{
    bool any = false;
    for (uint32_t c = 0; c < cluster->cta_count; c++)
        for (uint32_t w = 0; w < cluster->ctas[c].warp_count; w++) {
            SimWarp *warp = &cluster->ctas[c].warps[w];
            Sm90Warp *state = warp->ext[SIM_EXT_SM90].state;
            if (!warp->live || !state || state->timeout_progress == cluster->progress + 1)
                continue;
            for (uint32_t i = 0; i < warp->group_count; i++) {
                SimGroup *g = warp->group[i];
                if (!g->waiting || g->wait.ready != wait_ready)
                    continue;
                g->wait.arg[3] |= TIMED_OUT;
                state->timeout_progress = cluster->progress + 1;
                any = true;
            }
        }
    return any;
}

/* ------------------------------------------------------------------------ reports */

void
sim_sm90_describe(SimCluster *cluster, char *text, size_t size)
{
    size_t used = 0;
    for (uint32_t c = 0; c < cluster->cta_count; c++) {
        Sm90Cta *s = cluster->ctas[c].ext[SIM_EXT_SM90].state;
        for (uint32_t i = 0; s && s->barrier && i < s->barrier_room; i++) {
            Sm90Barrier *b = s->barrier[i];
            char line[300];
            if (!b || !b->valid)
                continue;
            describe_barrier(b, line, sizeof line);
            if (used < size)
                used += (size_t)snprintf(text + used, size - used, "\n    block %u: %s", c, line);
            if (b->pending == 0 && b->tx != 0 && !b->reported_tx) {
                b->reported_tx = true;
                sim_find_at(cluster, b->cta, SIM_FIND_TRANSACTION,
                            b->arrive_insn ? b->arrive_insn : b->init_insn, b->arrive_warp, -1,
                            b->offset + SIM_SHARED_BASE, NULL,
                            "phase %u expects %llu bytes and got %llu: it never completes\n    %s",
                            b->phase, (unsigned long long)b->phase_expected,
                            (unsigned long long)b->phase_completed, line);
            }
        }
    }
}

void
sim_sm90_finish_barriers(SimCluster *cluster)
{
    for (uint32_t c = 0; c < cluster->cta_count; c++) {
        Sm90Cta *s = cluster->ctas[c].ext[SIM_EXT_SM90].state;
        for (uint32_t i = 0; s && s->barrier && i < s->barrier_room; i++)
            if (s->barrier[i] && s->barrier[i]->valid) {
                check_leftover(s->barrier[i], NULL);
                check_overwritten(s->barrier[i]);
            }
    }
}

static SimStep
pending_count(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[SIM_LANES];
    const uint64_t *state = sim_r64(warp, insn->slot[1]);
    for (int l = 0; l < SIM_LANES; l++)
        out[l] = (uint32_t)state[l];
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

/* ------------------------------------------------------------------------ decoding */

static bool
take_common(SimDecode *dx, bool *relaxed)
{
    static const char *const sems[] = {"release", "acquire", "relaxed", NULL};
    static const char *const scopes[] = {"cta", "cluster", NULL};
    int sem = dec_choice(dx, sems), scope = dec_choice(dx, scopes);
    *relaxed = sem == 2;
    dx->out->type2 = (uint8_t)(scope < 0 ? NO_SCOPE : scope == 0 ? OF_BLOCK : OF_CLUSTER);
    if ((sem < 0) != (scope < 0))
        return dec_fail(dx, "the order and its scope come together");
    dx->out->space = (uint8_t)dec_space(dx);
    return dec_take(dx, "b64") || dec_fail(dx, "needs .b64");
}

bool
sim_sm90_decode_mbarrier_init(SimDecode *dx)
{
    bool relaxed;
    dx->out->exec = mbarrier_init;
    return take_common(dx, &relaxed) && dec_count(dx, 2, 2) &&
           dec_address(dx, dec_operand(dx, 0)) && dec_src(dx, dec_operand(dx, 1), SIM_U32);
}

bool
sim_sm90_decode_mbarrier_inval(SimDecode *dx)
{
    bool relaxed;
    dx->out->exec = mbarrier_inval;
    return take_common(dx, &relaxed) && dec_count(dx, 1, 1) && dec_address(dx, dec_operand(dx, 0));
}

static bool
decode_tx(SimDecode *dx, bool completes)
{
    bool relaxed;
    dx->out->exec = expect_tx;
    dx->out->mode[0] = completes;
    return take_common(dx, &relaxed) && dec_count(dx, 2, 2) &&
           dec_address(dx, dec_operand(dx, 0)) && dec_src(dx, dec_operand(dx, 1), SIM_U32);
}
bool
sim_sm90_decode_expect_tx(SimDecode *dx)
{
    return decode_tx(dx, false);
}
bool
sim_sm90_decode_complete_tx(SimDecode *dx)
{
    return decode_tx(dx, true);
}

static bool
decode_arrival(SimDecode *dx, bool drop)
{
    SimInsn *out = dx->out;
    bool relaxed;
    out->mode[0] = drop;
    out->mode[1] = dec_take(dx, "expect_tx");
    out->mode[4] = dec_take(dx, "noComplete");
    if (!take_common(dx, &relaxed) || !dec_count(dx, 2u + out->mode[1], 3))
        return false;
    out->mode[2] = dx->operand_count == 3;
    out->mode[3] = relaxed;
    out->exec = arrive;
    if (!dec_dst(dx, dec_operand(dx, 0), SIM_B64) || !dec_address(dx, dec_operand(dx, 1)))
        return false;
    if (out->space == SIM_SHARED_CLUSTER && out->slot[0] != SIM_NO_SLOT)
        return dec_fail(dx, "an arrive in shared::cluster gives no state: use _");
    return !out->mode[2] || dec_src(dx, dec_operand(dx, 2), SIM_U32);
}
bool
sim_sm90_decode_arrive(SimDecode *dx)
{
    return decode_arrival(dx, false);
}
bool
sim_sm90_decode_arrive_drop(SimDecode *dx)
{
    return decode_arrival(dx, true);
}

static bool
decode_wait(SimDecode *dx, bool suspends)
{
    SimInsn *out = dx->out;
    bool relaxed;
    out->mode[0] = dec_take(dx, "parity");
    out->mode[1] = suspends;
    if (!take_common(dx, &relaxed) || !dec_count(dx, 3, suspends ? 4 : 3))
        return false;
    out->mode[2] = relaxed;
    out->exec = wait_on;
    return dec_dst(dx, dec_operand(dx, 0), SIM_PRED) && dec_address(dx, dec_operand(dx, 1)) &&
           dec_src(dx, dec_operand(dx, 2), out->mode[0] ? SIM_U32 : SIM_B64) &&
           (dx->operand_count == 3 || dec_src(dx, dec_operand(dx, 3), SIM_U32));
}
bool
sim_sm90_decode_test_wait(SimDecode *dx)
{
    return decode_wait(dx, false);
}
bool
sim_sm90_decode_try_wait(SimDecode *dx)
{
    return decode_wait(dx, true);
}

bool
sim_sm90_decode_pending_count(SimDecode *dx)
{
    if (!dec_take(dx, "b64") || !dec_count(dx, 2, 2))
        return dec_fail(dx, "needs .b64, a count and a state");
    dx->out->exec = pending_count;
    return dec_dst(dx, dec_operand(dx, 0), SIM_U32) && dec_src(dx, dec_operand(dx, 1), SIM_B64);
}
