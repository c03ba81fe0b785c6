/* sim_barrier.c - bar and barrier (PTX ISA 9.7.13.1).
 *
 * A barrier counts threads.  An aligned op brings the whole warp; the op without .aligned brings
 * the lanes that execute it.  Without a count the barrier takes all threads of the block that have
 * not exited.
 */
#include <stdlib.h>

#include "sim_exec.h"
#include "sim_shadow.h"
#include "sim_sync.h"
#include "sim_trace.h"
#include "sim_warp.h"

#define EXPECT_ALL UINT32_MAX

typedef enum BarrierAction { BAR_SYNC, BAR_ARRIVE, BAR_RED } BarrierAction;
typedef enum BarrierRed { RED_POPC, RED_AND, RED_OR } BarrierRed;

/* mode[0] action, [1] reduction, [2] has a count, [3] predicate negated, [4] aligned.
 * Slots: id, then count, then predicate and destination of red. */

bool
sim_barrier_init(SimCta *cta)
{
    uint32_t agents = cta->cluster->agents;
    for (int i = 0; cta->cluster->run->checks && i < SIM_BARRIERS; i++) {
        SimNamedBarrier *b = &cta->barrier[i];
        b->clock = sim_calloc(SIM_PLANES * (size_t)agents, sizeof *b->clock);
        if (!b->clock)
            return false;
    }
    for (int i = 0; i < SIM_BARRIERS; i++)
        cta->barrier[i].reduce_and = true;
    return true;
}

void
sim_barrier_free(SimCta *cta)
{
    for (int i = 0; i < SIM_BARRIERS; i++)
        free(cta->barrier[i].clock);
}

static bool
barrier_ready(SimWarp *warp, SimGroup *group)
{
    (void)warp;
    return group->wait.arg[3]; /* complete() sets it */
}

/* The threads whose arrival completes the barrier.  Without a count: all of the block that have
 * arrived already or have not exited. */
static uint32_t
expected_threads(const SimCta *cta, const SimNamedBarrier *b)
{
    uint32_t count = 0;
    if (b->expected != EXPECT_ALL)
        return b->expected;
    for (uint32_t w = 0; w < cta->warp_count; w++)
        count += (uint32_t)__builtin_popcount(cta->warps[w].live | b->lanes[w]);
    return count;
}

static void
describe_barrier(const SimWarp *warp, const SimGroup *group, char *text, size_t size)
{
    const SimNamedBarrier *b = &warp->cta->barrier[group->wait.arg[0]];
    snprintf(text, size, "waits at barrier %u, where %u of %u threads have arrived (warps %x)",
             (unsigned)group->wait.arg[0], b->arrived, expected_threads(warp->cta, b), b->warps);
}

static void
write_result(SimWarp *warp, const SimInsn *insn, const SimNamedBarrier *b, uint32_t mask)
{
    uint32_t out[SIM_LANES];
    SimSlot d = insn->slot[insn->slot_count - 1];
    if (insn->mode[0] != BAR_RED)
        return;
    if (insn->mode[1] != RED_POPC) {
        bool yes = insn->mode[1] == RED_AND ? b->reduce_and : b->reduce_or != 0;
        sim_put_pred(warp, d, yes ? UINT32_MAX : 0, mask);
        return;
    }
    for (int l = 0; l < SIM_LANES; l++)
        out[l] = b->reduce_popc;
    sim_put32(warp, d, out, mask);
}

/* Wakes the sleepers; they take over the clocks of all that arrived. */
static void
complete(SimCta *cta, uint32_t id)
{
    SimNamedBarrier *b = &cta->barrier[id];
    for (uint32_t w = 0; w < cta->warp_count; w++) {
        SimWarp *warp = &cta->warps[w];
        for (uint32_t i = 0; i < warp->group_count; i++) {
            SimGroup *g = warp->group[i];
            if (!g->waiting || g->wait.ready != barrier_ready || g->wait.arg[0] != id)
                continue;
            uint8_t *bank = warp->bank[SIM_BANK_REGISTERS];
            warp->bank[SIM_BANK_REGISTERS] = g->frame->registers;
            write_result(warp, g->wait_insn, b, g->mask);
            warp->bank[SIM_BANK_REGISTERS] = bank;
            g->wait.arg[3] = 1;
            sim_clock_acquire(warp, b->clock);
        }
    }
    if (b->clock)
        memset(b->clock, 0, SIM_PLANES * (size_t)cta->cluster->agents * sizeof *b->clock);
    b->generation++;
    b->arrived = b->expected = b->warps = 0;
    memset(b->lanes, 0, sizeof b->lanes);
    b->reduce_popc = b->reduce_or = 0;
    b->reduce_and = true;
    b->insn = NULL;
    cta->cluster->progress++;
}

static void
complete_if_full(SimCta *cta, uint32_t id)
{
    const SimNamedBarrier *b = &cta->barrier[id];
    if (b->expected && b->arrived && b->arrived >= expected_threads(cta, b))
        complete(cta, id);
}

void
sim_barrier_recheck(SimCta *cta)
{
    for (uint32_t id = 0; id < SIM_BARRIERS; id++)
        if (cta->barrier[id].expected == EXPECT_ALL)
            complete_if_full(cta, id);
}

/* The threads that one arrival stands for.  Counts are in whole warps (9.7.13.1), so the lanes that
 * a ragged last warp lacks count as arrived. */
static uint32_t
arriving_threads(const SimWarp *warp, const SimInsn *insn, uint32_t mask, uint32_t expected)
{
    if (expected == EXPECT_ALL)
        return (uint32_t)__builtin_popcount(mask);
    if (insn->mode[4] || mask == warp->live)
        return SIM_LANES;
    return (uint32_t)__builtin_popcount(mask);
}

static void
check_arrival(SimWarp *warp, const SimInsn *insn, SimNamedBarrier *b, uint32_t id, uint32_t expected)
{
    SimPlace place = {b->insn, (int32_t)warp->index, warp->cta->rank};
    if (b->arrived && b->expected != expected)
        sim_find(warp, SIM_FIND_BARRIER, -1, 0, &place,
                 "barrier %u is used with different thread counts at the same time", id);
    /* The phase counts threads, whoever they are: an arrive and then a sync of one warp count
     * twice, and only red is not to be mixed with arrive (9.7.13.1).  An aligned warp that was here
     * before has arrived only, since sync and red wait. */
    if (insn->mode[4] && b->warps >> warp->index & 1 && insn->mode[0] != BAR_SYNC)
        sim_find(warp, SIM_FIND_BARRIER, -1, 0, &place,
                 insn->mode[0] == BAR_RED
                     ? "a warp brings bar.red to barrier %u, where it arrived before it completed"
                     : "a warp arrives twice at barrier %u before it completed",
                 id);
}

/* No count, and the whole block as the count, mean the same. */
static bool
same_count(const SimWarp *warp, uint32_t a, uint32_t b)
{
    uint32_t all = warp->run->warps_per_cta * SIM_LANES;
    return (a == EXPECT_ALL ? all : a) == (b == EXPECT_ALL ? all : b);
}

static SimStep
barrier(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    SimCta *cta = warp->cta;
    uint32_t lane = sim_first_lane(mask), id = sim_r32(warp, insn->slot[0])[lane];
    uint32_t count = insn->mode[2] ? sim_r32(warp, insn->slot[1])[lane] : EXPECT_ALL;
    if (id >= SIM_BARRIERS) {
        sim_find(warp, SIM_FIND_BARRIER, (int32_t)lane, 0, NULL, "barrier %u does not exist", id);
        return SIM_NEXT;
    }
    sim_each_lane (l, mask)
        if (sim_r32(warp, insn->slot[0])[l] != id) {
            sim_find(warp, SIM_FIND_NOT_UNIFORM, (int32_t)l, 0, NULL,
                     "lanes of one warp name different barriers");
            break;
        }
    if (insn->mode[2] && (count == 0 || count % SIM_LANES))
        sim_find(warp, SIM_FIND_BARRIER, (int32_t)lane, 0, NULL,
                 "the thread count %u is not a multiple of the warp size", count);
    SimNamedBarrier *b = &cta->barrier[id];
    if (b->arrived && same_count(warp, b->expected, count))
        count = b->expected;
    check_arrival(warp, insn, b, id, count);
    b->expected = count;
    b->arrived += arriving_threads(warp, insn, mask, count);
    b->warps |= UINT32_C(1) << warp->index;
    b->lanes[warp->index] |= mask;
    b->insn = insn;
    sim_sync_lanes_release(warp, mask);
    sim_clock_release(warp, b->clock);
    if (insn->mode[0] == BAR_RED) {
        uint32_t p = *sim_rp(warp, insn->slot[insn->slot_count - 2]);
        p = (insn->mode[3] ? ~p : p) & mask;
        b->reduce_popc += (uint32_t)__builtin_popcount(p);
        b->reduce_or |= p;
        b->reduce_and &= p == mask;
    }
    SimPhaseName phase = {SIM_PHASE_BARRIER, cta->rank, id, b->generation};
    if (insn->mode[0] == BAR_ARRIVE)
        sim_trace_arrive(warp, phase);
    else
        sim_trace_met(warp, phase);
    if (b->expected != EXPECT_ALL && b->arrived > b->expected)
        sim_find(warp, SIM_FIND_BARRIER, (int32_t)lane, 0, NULL,
                 "%u threads arrived at barrier %u, which expects %u", b->arrived, id, b->expected);
    if (insn->mode[0] == BAR_ARRIVE) {
        complete_if_full(cta, id);
        return SIM_YIELD;
    }
    SimWait *wait = sim_warp_sleep(warp, barrier_ready, describe_barrier);
    wait->arg[0] = id;
    complete_if_full(cta, id);
    return SIM_WAIT;
}

static bool
decode_barrier(SimDecode *dx, bool aligned)
{
    static const char *const actions[] = {"sync", "arrive", "red", NULL};
    static const char *const reductions[] = {"popc", "and", "or", NULL};
    SimInsn *out = dx->out;
    bool negated = false;
    dec_take(dx, "cta");
    int action = dec_choice(dx, actions);
    if (action < 0)
        return dec_fail(dx, "needs .sync, .arrive or .red");
    aligned |= dec_take(dx, "aligned");
    out->converge = aligned;
    out->mode[0] = (uint8_t)action;
    out->mode[4] = aligned;
    out->exec = barrier;
    size_t first = action == BAR_RED ? 1 : 0, extra = action == BAR_RED ? 1 : 0;
    if (action == BAR_RED) {
        int reduction = dec_choice(dx, reductions);
        if (reduction < 0 || !dec_take(dx, reduction == RED_POPC ? "u32" : "pred"))
            return dec_fail(dx, "needs .popc.u32, .and.pred or .or.pred");
        out->mode[1] = (uint8_t)reduction;
    }
    if (!dec_count(dx, first + 1 + extra + (action == BAR_ARRIVE), first + 2 + extra))
        return false;
    out->mode[2] = dx->operand_count == first + 2 + extra;
    if (!dec_src(dx, dec_operand(dx, first), SIM_U32))
        return false;
    if (out->mode[2] && !dec_src(dx, dec_operand(dx, first + 1), SIM_U32))
        return false;
    if (action != BAR_RED)
        return true;
    if (!dec_pred(dx, dec_operand(dx, dx->operand_count - 1), &negated))
        return false;
    out->mode[3] = negated;
    return dec_dst(dx, dec_operand(dx, 0), out->mode[1] == RED_POPC ? SIM_U32 : SIM_PRED);
}
static bool
decode_bar(SimDecode *dx)
{
    return decode_barrier(dx, true);
} /* always aligned */
static bool
decode_barrier_cta(SimDecode *dx)
{
    return decode_barrier(dx, false);
}

const SimFamily sim_barrier_families[] = {
    {"bar", decode_bar},
    {"barrier", decode_barrier_cta},
    {NULL, NULL},
};
