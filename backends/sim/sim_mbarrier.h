/* sim_mbarrier.h - what asynchronous ops need of mbarriers (PTX ISA 9.7.13.15).
 *
 * An op that completes signals an mbarrier; the phase it signals remembers the op.  A warp whose
 * wait for that phase succeeds calls sim_op_observe(warp, op) for each op so remembered, which also
 * passes on what the op itself tracks (SimOp.observe).  Both functions are called from an op's
 * `land`, so no instruction is executing: reports about them name op->insn and op->warp.
 */
#ifndef TILEC_SIM_MBARRIER_H
#define TILEC_SIM_MBARRIER_H

#include "sim_async.h"

/* One arrive (count 1, .release at cluster scope) at the mbarrier at `offset` (from the start of
 * shared memory) of the block: tcgen05.commit, cp.async.mbarrier.arrive. */
void sim_mbarrier_arrive_op(SimCluster *cluster, SimOp *op, SimCta *cta, uint32_t offset);

/* complete_tx of so many bytes: bulk copies, clusterlaunchcontrol.try_cancel. */
void sim_mbarrier_complete_tx_op(SimCluster *cluster, SimOp *op, SimCta *cta, uint32_t offset,
                                 uint32_t bytes);

/* tcgen05.fence composes with relaxed arrives and waits, too (9.7.16.6.3).  Has the warp a
 * ::before_thread_sync after its last tcgen05 op; is tensor memory in use in its block? */
bool sim_tensor_fenced(const SimWarp *warp);
bool sim_tensor_in_use(const SimWarp *warp);

#endif
