/* sim_trace.h - recording what warps do, for a clock (sim.h: SimTrace).
 *
 * The families call these where an instruction means more than itself: an arrival, a wait that
 * ends, an operation that completes later.  Each does nothing when the cluster is not traced.
 */
#ifndef TILEC_SIM_TRACE_H
#define TILEC_SIM_TRACE_H

#include "sim_async.h"

/* One cluster's part of the trace; it goes to the run's at the end. */
SimTracer *sim_trace_start(SimCluster *cluster);
void sim_trace_end(SimCluster *cluster);
void sim_trace_free(SimTrace *trace);

/* After each instruction that was executed (not stalled); `lanes` that its guard let through. */
void sim_trace_step(SimWarp *warp, const SimInsn *insn, uint32_t lanes);

/* A phase of a barrier: of an mbarrier by its offset, of a named barrier, of the cluster's. */
typedef struct SimPhaseName {
    SimPhaseKind kind;
    uint32_t block, object, index;
} SimPhaseName;

/* The executing instruction arrives at a phase; several lanes may at different ones. */
void sim_trace_arrive(SimWarp *warp, SimPhaseName phase);
/* The wait of an instruction ended, now: it saw the phase complete, or gave up. */
void sim_trace_waited(SimWarp *warp, const SimInsn *insn, SimPhaseName phase, bool complete);
/* bar.sync: arrives and waits. */
void sim_trace_met(SimWarp *warp, SimPhaseName phase);
/* The executing instruction sleeps; what it comes to is told by sim_trace_waited. */
void sim_trace_sleeps(SimWarp *warp);
/* The executing instruction started an op, or has a part in one; bytes that it copies. */
void sim_trace_started(SimWarp *warp, SimOp *op, uint32_t bytes);
/* The executing instruction reads or writes `size` bytes of global memory, now or as a bulk
 * copy. */
void sim_trace_touch(SimWarp *warp, const SimAllocation *in, const uint8_t *data, uint32_t size,
                     bool writes);
/* The executing instruction gives a number of a counter. */
void sim_trace_drew(SimWarp *warp, uint64_t counter, uint64_t value, uint64_t step);
/* How many the cluster has been given. */
size_t sim_trace_drawn(const SimCluster *cluster);
/* The op fills shared memory of a block, one of `copies` that get the same; `follows`: not the
 * first. */
void sim_trace_fills(const SimCta *cta, const SimOp *op, uint32_t copies, bool follows);
/* The op is a product of tcgen05. */
void sim_trace_product(SimCluster *cluster, const SimOp *op, SimTracedProduct product);
/* The op that lands signals a phase. */
void sim_trace_signal(SimCluster *cluster, const SimOp *op, SimPhaseName phase);

#endif
