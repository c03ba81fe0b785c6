/* sim_sm90_copy_arrive.c - cp.async.mbarrier.arrive: an mbarrier is told when a thread's copies are
 * done. */
#include "sim_exec.h"
#include "sim_sm80.h"
#include "sim_sm90.h"
#include "sim_trace.h"

/* cp.async.mbarrier.arrive (9.7.13.15.15): an arrive once the thread's earlier cp.async are
 * done. */
typedef struct CopyArrival {
    SimCta *cta;
    uint32_t offset;
    size_t count;
    SimOp *copy[];
} CopyArrival;

static void
land_copy_arrival(SimCluster *cluster, SimOp *op)
{
    CopyArrival *a = op->payload;
    for (size_t i = 0; i < a->count; i++) {
        sim_op_finish(cluster, a->copy[i]);
        sim_sm90_barrier_credit(a->cta, a->offset, a->copy[i]);
    }
    sim_mbarrier_arrive_op(cluster, op, a->cta, a->offset);
}

static SimStep
cp_async_arrive(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_each_lane (l, mask) {
        SimMemory m;
        if (!sim_sm90_barrier_for_op(warp, l, (SimSpace)insn->space,
                                     sim_lane_address(warp, insn, 0, l), &m))
            continue;
        size_t count = sim_cp_async_outstanding(warp, l, NULL, 0);
        SimOp *op = sim_op_new(warp, sizeof(CopyArrival) + count * sizeof(SimOp *));
        if (!op)
            return sim_fail(warp, "out of memory");
        CopyArrival *a = op->payload;
        a->cta = m.cta;
        a->offset = m.offset;
        a->count = sim_cp_async_outstanding(warp, l, a->copy, count);
        op->land = land_copy_arrival;
        sim_trace_started(warp, op, 0);
        if (!insn->mode[0])
            sim_sm90_barrier_add_pending(warp, m.cta, m.offset, 1);
        sim_op_start(warp->cta->cluster, op, true);
    }
    return SIM_NEXT;
}

bool
sim_sm90_decode_cp_async_arrive(SimDecode *dx)
{
    dx->out->mode[0] = dec_take(dx, "noinc");
    dx->out->space = (uint8_t)dec_space(dx);
    dx->out->exec = cp_async_arrive;
    if (!dec_take(dx, "b64") || !dec_count(dx, 1, 1))
        return dec_fail(dx, "needs .b64 and an address");
    return dec_address(dx, dec_operand(dx, 0));
}
