/* sim_async.h - operations that complete later (PTX ISA 9.7.9.25, 9.7.14 to 9.7.16: asynchronous).
 *
 * Issuing creates a SimOp with two callbacks: `fetch` reads the sources, `land` writes the results
 * and signals.  The engine calls each once, at times drawn from the seed: at once, some time later,
 * or as late as possible, that is when something waits for it or nothing else can run.
 */
#ifndef TILEC_SIM_ASYNC_H
#define TILEC_SIM_ASYNC_H

#include "sim_core.h"

struct SimOp {
    uint32_t id;         /* index in cluster->ops */
    uint32_t traced;     /* 1 + its number in the trace */
    uint32_t agent;      /* warp that issued it */
    uint8_t lane;        /* + 1, whose part is being noted in the shadow; 0: the whole warp */
    uint32_t lane_epoch; /* of its warp, when the warp last waited for it */
    uint32_t lanes_left; /* lanes that have not waited for it yet, for per-thread waits */
    const SimInsn *insn;
    SimWarp *warp;
    SimCta *cta;
    uint64_t due; /* UINT64_MAX: only when forced */
    bool fetched, landed;
    bool atomic;        /* a reduction: two of them do not conflict */
    bool generic_proxy; /* writes through the generic proxy, as cp.async does */
    void (*fetch)(SimCluster *cluster, SimOp *op); /* may be NULL */
    void (*land)(SimCluster *cluster, SimOp *op);
    SimOp *after;   /* lands only after this one has, or NULL */
    void *payload;  /* released by free() once landed */
    uint32_t *seen; /* by agent: the clock at which it waited for the op, 0 if never */
    /* the same for other clusters, of an op that writes global memory */
    struct SimGlobalOp *global;
    void (*observe)(SimWarp *warp, SimOp *op); /* or NULL: who waited for it knows more, too */
    void *tracked;                             /* for `observe`; freed with the op */
};

/* A new op of the executing warp, with a zeroed payload.  NULL when out of memory. */
SimOp *sim_op_new(SimWarp *warp, size_t payload_bytes);

/* Hands it to the engine, which may complete it right here.  When `can_be_late` is false the op
 * gets a finite time even in the latest schedule (for what a test_wait loop polls). */
void sim_op_start(SimCluster *cluster, SimOp *op, bool can_be_late);

void sim_op_finish(SimCluster *cluster, SimOp *op); /* completes it now, predecessors first */
void sim_async_advance(SimCluster *cluster);        /* completes what is due at cluster->now */
bool sim_async_force_one(SimCluster *cluster);      /* one at random; false if none is pending */
void sim_async_free(SimCluster *cluster);           /* at the end of a cluster */

/* The warp has waited for the op: from now on those ordered after the warp know of it. */
void sim_op_observe(SimWarp *warp, SimOp *op);
bool sim_op_known(const SimWarp *warp, const SimOp *op);
bool sim_op_known_to_proxy(const SimWarp *warp, const SimOp *op); /* and a proxy fence since */

#endif
