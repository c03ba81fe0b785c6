/* sim_sm100_launch.c - clusterlaunchcontrol (PTX ISA 9.7.13.17, 9.7.13.18).
 *
 * A request takes the next cluster that no host thread has started.  It may also fail while there
 * are some left: hardware could have launched them meanwhile.  (Not where one SM's clusters run
 * only, for the clock: there the first one takes all others of that SM, or what was dealt to it.)
 * The response is the simulator's own form: three words of %ctaid, then a mark of success.
 */
#include "sim_memory.h"
#include "sim_mbarrier.h"
#include "sim_sm100.h"
#include "sim_sm90.h"
#include "sim_trace.h"

#define CANCELED UINT32_C(0x434c4331)
#define REFUSED UINT32_C(0x434c4330)

typedef struct LaunchForm { /* SimInsn.data */
    bool multicast;
    uint8_t query; /* 0 is_canceled, 1 .v4, 2.. one coordinate */
    TensorAddress response, barrier;
} LaunchForm;

typedef struct Request { /* payload */
    SimCta *cta[SIM_MAX_CLUSTER];
    uint32_t count, response, barrier; /* offsets */
    uint32_t word[4];
} Request;

static uint64_t
launch_address(const SimWarp *warp, const SimInsn *insn, const TensorAddress *a, uint32_t lane)
{
    return a->wide ? sim_r64(warp, insn->slot[a->slot])[lane] + (uint64_t)a->offset
                   : tensor_address(warp, insn, a, lane);
}

static void
request_land(SimCluster *cluster, SimOp *op)
{
    const Request *request = op->payload;
    for (uint32_t i = 0; i < request->count; i++) {
        memcpy(request->cta[i]->shared + request->response, request->word, sizeof request->word);
        sim_mbarrier_complete_tx_op(cluster, op, request->cta[i], request->barrier,
                                    sizeof request->word);
    }
}

/* The number of the next cluster; there may be none of that number. */
static uint64_t
next_number(SimWarp *warp)
{
    SimRun *run = warp->run;
    const SimLaunch *launch = run->launch;
    const SimDealt *dealt = warp->cta->cluster->dealt;
    uint64_t linear;

    if (dealt) {
        size_t index = sim_trace_drawn(warp->cta->cluster);
        return launch->counter == SIM_LAUNCHES && index < dealt->drawn_count ? dealt->drawn[index]
                                                                             : run->cluster_count;
    }
    if (!launch->trace_only && sim_random_below(&warp->cta->cluster->random, 8) == 0)
        return run->cluster_count;
    pthread_mutex_lock(&run->lock);
    if (launch->trace_only)
        linear = run->next_taken += launch->trace_every;
    else
        linear = run->next_cluster++;
    pthread_mutex_unlock(&run->lock);
    return linear;
}

static void
take_cluster(SimWarp *warp, Request *request)
{
    SimRun *run = warp->run;
    uint64_t linear = next_number(warp);
    request->word[3] = REFUSED;
    if (warp->cta->cluster->tracer)
        sim_trace_drew(warp, SIM_LAUNCHES, linear, 1);
    if (linear >= run->cluster_count)
        return;
    uint64_t wide = run->grid[0] / run->cluster[0], high = run->grid[1] / run->cluster[1];
    request->word[0] = (uint32_t)(linear % wide) * run->cluster[0];
    request->word[1] = (uint32_t)(linear / wide % high) * run->cluster[1];
    request->word[2] = (uint32_t)(linear / wide / high) * run->cluster[2];
    request->word[3] = CANCELED;
}

static bool
issue_request(SimWarp *warp, const SimInsn *insn, uint32_t lane)
{
    const LaunchForm *form = insn->data;
    SimCluster *cluster = warp->cta->cluster;
    TensorMemory *tm = tensor_memory(warp->cta);
    SimMemory to, barrier;
    SimSpace space = (SimSpace)insn->space;
    uint64_t address = launch_address(warp, insn, &form->response, lane);
    if (!tm)
        return false;
    if (tm->cancel_failed)
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, address, NULL,
                 "another request after the block saw one fail: undefined (9.7.13.17)");
    if (!sim_memory_find(warp, lane, space, address, 16, 16, &to) ||
        !sim_sm90_barrier_for_op(warp, lane, space,
                                 launch_address(warp, insn, &form->barrier, lane), &barrier))
        return true;
    if (to.space != SIM_SHARED || to.cta != warp->cta || barrier.cta != warp->cta) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, address, NULL,
                 "both addresses must be in the block's own shared memory");
        return true;
    }
    SimOp *op = sim_op_new(warp, sizeof(Request));
    if (!op)
        return false;
    Request *request = op->payload;
    request->response = to.offset;
    request->barrier = barrier.offset;
    for (uint32_t r = 0; r < cluster->cta_count; r++)
        if (form->multicast || r == warp->cta->rank)
            request->cta[request->count++] = &cluster->ctas[r];
    for (uint32_t i = 0; i < request->count; i++)
        sim_shadow_async_write(warp, op, request->cta[i], to.offset, 16, true);
    take_cluster(warp, request);
    op->land = request_land;
    sim_trace_started(warp, op, 0);
    sim_op_start(cluster, op, false);
    return true;
}

static SimStep
try_cancel(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_each_lane (l, mask)
        if (!issue_request(warp, insn, l))
            return sim_fail(warp, "out of memory");
    return SIM_NEXT;
}

static bool
take_address(SimDecode *dx, size_t at, TensorAddress *address)
{
    address->slot = dx->out->slot_count;
    if (!dec_address(dx, dec_operand(dx, at)))
        return false;
    address->wide = dx->out->mode[5];
    address->offset = dx->out->imm;
    return true;
}

bool
sim_decode_clc_try_cancel(SimDecode *dx)
{
    LaunchForm *form = sim_arena_alloc(&dx->mod->arena, sizeof *form);
    SimSpace space = dec_space(dx);
    form->multicast = dec_take(dx, "multicast::cluster::all");
    if (!dec_take(dx, "async") || !dec_take(dx, "mbarrier::complete_tx::bytes") ||
        !dec_take(dx, "b128") || !dec_count(dx, 2, 2))
        return dec_fail(dx, "needs .async, .mbarrier::complete_tx::bytes, .b128 and two addresses");
    if (space != SIM_GENERIC && space != SIM_SHARED)
        return dec_fail(dx, "the addresses are in .shared::cta, or generic");
    dx->out->space = (uint8_t)space;
    dx->out->data = form;
    dx->out->exec = try_cancel;
    dx->mod->takes_clusters = true;
    return take_address(dx, 0, &form->response) && take_address(dx, 1, &form->barrier);
}

/* ------------------------------------------------------------------------ query_cancel */

/* Slots: results, then the 128-bit response: a row of low and one of high doublewords. */
static SimStep
query_cancel(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const LaunchForm *form = insn->data;
    TensorMemory *tm = tensor_memory(warp->cta);
    const uint64_t *row = sim_r64(warp, insn->slot[insn->slot_count - 1]);
    uint32_t word[4][SIM_LANES], canceled = 0;
    if (!tm)
        return sim_fail(warp, "out of memory");
    memset(word, 0, sizeof word);
    sim_each_lane (l, mask) {
        uint64_t low = row[l], high = row[SIM_LANES + l];
        word[0][l] = (uint32_t)low;
        word[1][l] = (uint32_t)(low >> 32);
        word[2][l] = (uint32_t)high;
        word[3][l] = (uint32_t)(high >> 32);
        if (word[3][l] == CANCELED)
            canceled |= UINT32_C(1) << l;
        else if (word[3][l] != REFUSED)
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, 0, NULL,
                     "this is no response of clusterlaunchcontrol.try_cancel");
        else if (form->query)
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, 0, NULL,
                     "get_first_ctaid of a request that failed is undefined");
    }
    if (form->query == 0) {
        if (canceled != mask)
            tm->cancel_failed = true;
        sim_put_pred(warp, insn->slot[0], canceled, mask);
    } else if (form->query == 1) {
        for (uint32_t i = 0; i < 4; i++)
            sim_put32(warp, insn->slot[i], word[i], mask);
    } else {
        sim_put32(warp, insn->slot[0], word[form->query - 2], mask);
    }
    return SIM_NEXT;
}

bool
sim_decode_clc_query(SimDecode *dx)
{
    static const char *const what[] = {"is_canceled",        "get_first_ctaid",
                                       "get_first_ctaid::x", "get_first_ctaid::y",
                                       "get_first_ctaid::z", NULL};
    LaunchForm *form = sim_arena_alloc(&dx->mod->arena, sizeof *form);
    int which = dec_choice(dx, what);
    if (which < 0 || !dec_take(dx, which ? "b32" : "pred") || !dec_take(dx, "b128") ||
        (which == 1 && !dec_take(dx, "v4")) || !dec_count(dx, 2, 2))
        return dec_fail(dx, "needs .is_canceled.pred.b128 or .get_first_ctaid...b32.b128");
    form->query = (uint8_t)which;
    dx->out->data = form;
    dx->out->exec = query_cancel;
    bool ok = which == 0   ? dec_dst(dx, dec_operand(dx, 0), SIM_PRED)
              : which == 1 ? dec_dst_vector(dx, dec_operand(dx, 0), SIM_B32, 4)
                           : dec_dst(dx, dec_operand(dx, 0), SIM_B32);
    return ok && dec_src(dx, dec_operand(dx, 1), SIM_B128);
}
