/* sim_sm90.h - the sm_90 families: what their files share.
 *
 *   sim_sm90_mbarrier.c  mbarrier objects and waits on them (PTX ISA 9.7.13.15)
 *   sim_sm90_bulk.c      cp.async.bulk and its groups, st.async, red.async (9.7.9.25.4, .6)
 *   sim_sm90_state.c     what they keep on warps, blocks and clusters
 *   sim_sm90_global.c    the global side of bulk copies: notes, reductions
 *   sim_sm90_tensor.c    cp.async.bulk.tensor: boxes, swizzles (9.7.9.25.5, 5.5)
 *   sim_sm90_map.c       tensormap.replace and the tensormap proxy (9.7.9.26, 9.7.13.16)
 *   sim_sm90_wgmma.c     wgmma: descriptors, products, groups (9.7.15)
 *   sim_sm90_watch.c     which registers a wgmma has in flight, and who touches them
 *   sim_sm90_cluster.c   barrier.cluster, mapa, setmaxnreg, griddepcontrol, stmatrix
 */
#ifndef TILEC_SIM_SM90_H
#define TILEC_SIM_SM90_H

#include "sim_decode.h"
#include "sim_mbarrier.h"
#include "sim_memory.h"

/* ------------------------------------------------------------------------ addresses in operands */

typedef struct Sm90Address {
    SimSlot slot;
    int64_t offset;
    bool wide;
} Sm90Address;

bool sim_sm90_take_address(SimDecode *dx, const PtxOperand *operand, Sm90Address *address);

static inline uint64_t
sim_sm90_address(const SimWarp *warp, const Sm90Address *a, uint32_t lane)
{
    if (a->wide)
        return sim_r64(warp, a->slot)[lane] + (uint64_t)a->offset;
    return (uint32_t)(sim_r32(warp, a->slot)[lane] + (uint32_t)a->offset);
}

/* ------------------------------------------------------------------------ state */

typedef struct Sm90Bulk { /* a bulk copy that a bulk group tracks */
    SimOp *op, *reader;   /* the reader is what .read waits for */
    uint32_t lane, group;
} Sm90Bulk;

/* Of a warp. */
typedef struct Sm90Warp {
    Sm90Bulk *bulk; /* not waited for yet */
    size_t bulk_count, bulk_capacity;
    uint32_t bulk_group[SIM_LANES]; /* that a thread's next copy joins */
    uint64_t timeout_progress;      /* cluster->progress + 1 when a try_wait last timed out */
    uint64_t poll_progress;         /* the same when a test_wait last failed */
    uint32_t registers;             /* a thread's share, see setmaxnreg; 0: not computed */
    uint32_t setmaxnreg_count;
    const SimInsn *setmaxnreg_insn; /* the last one */
    uint32_t cluster_arrived;    /* lanes that arrived at the cluster barrier and have not waited */
    uint32_t cluster_generation; /* of that arrival */
} Sm90Warp;

typedef struct Sm90Barrier Sm90Barrier;
typedef struct Sm90Warpgroup Sm90Warpgroup;

/* Of a block. */
typedef struct Sm90Cta {
    Sm90Barrier **barrier; /* by offset / 8 in shared memory */
    uint32_t barrier_room;
    Sm90Warpgroup *warpgroup[SIM_MAX_WARPS / 4];
    void (*free_barrier)(Sm90Barrier *); /* set by who makes one */
    void (*free_warpgroup)(Sm90Warpgroup *);
    int64_t register_pool; /* registers given back and not taken, in units of a warp's 32 threads */
} Sm90Cta;

typedef struct Sm90Map { /* a tensor map that the kernel itself wrote to global memory */
    uint64_t address;
    const SimInsn *insn;
    bool released;      /* by cp_fenceproxy or fence.proxy.tensormap.release */
    uint32_t *acquired; /* by agent: its clock at the acquiring fence, 0 none */
} Sm90Map;

/* Of a cluster. */
typedef struct Sm90Cluster {
    uint32_t agents;
    uint32_t generation;  /* of the cluster barrier */
    uint32_t *arrived;    /* by agent: lanes */
    uint32_t *clock;      /* SIM_PLANES; of the generation in progress */
    uint32_t *done_clock; /* of the last complete one */
    Sm90Map *map;
    size_t map_count, map_capacity;
} Sm90Cluster;

Sm90Warp *sim_sm90_warp(SimWarp *warp);
Sm90Cta *sim_sm90_cta(SimCta *cta);
Sm90Cluster *sim_sm90_cluster(SimCluster *cluster);

/* ------------------------------------------------------------------------ mbarrier */

/* For an op that will signal the mbarrier at the address: finds it, checks that it is initialised
 * and that the warp is ordered after that.  False after a report. */
bool sim_sm90_barrier_for_op(SimWarp *warp, uint32_t lane, SimSpace space, uint64_t address,
                             SimMemory *memory);
/* Adds to the pending count (cp.async.mbarrier.arrive without .noinc). */
void sim_sm90_barrier_add_pending(SimWarp *warp, SimCta *cta, uint32_t offset, uint32_t count);
/* The op is known to those who wait for the phase in progress. */
void sim_sm90_barrier_credit(SimCta *cta, uint32_t offset, SimOp *op);

/* ------------------------------------------------------------------------ tensor maps */

/* Reads the map at a generic address for a bulk copy.  False after a report; *unsupported is set
 * when it is not the kernel's fault. */
bool sim_sm90_map_load(SimWarp *warp, uint32_t lane, uint64_t address, SimTensorMap *map);

/* ------------------------------------------------------------------------ hooks of the engine */

/* When nothing else can run: lets waits that may time out do so, once until something happens. */
bool sim_sm90_break(SimCluster *cluster);
/* Appends the state of every mbarrier to the report of a hang, and reports wrong byte counts. */
void sim_sm90_describe(SimCluster *cluster, char *text, size_t size);
/* At the end of a cluster: what was never waited for, transaction counts left over. */
void sim_sm90_finish(SimCluster *cluster);
void sim_sm90_finish_barriers(SimCluster *cluster);
/* Before an instruction of a warp that has used wgmma (SimWarp.watch).  Does it read an accumulator
 * that nobody has waited for?  Then sim_sm90_wait_for_all (sim_sm90_wgmma.h) comes first. */
bool sim_sm90_reads_early(SimWarp *warp, const SimInsn *insn);
void sim_sm90_watch(SimWarp *warp, const SimInsn *insn);

/* ------------------------------------------------------------------------ decoders */

bool sim_sm90_decode_mbarrier_init(SimDecode *dx);
bool sim_sm90_decode_mbarrier_inval(SimDecode *dx);
bool sim_sm90_decode_expect_tx(SimDecode *dx);
bool sim_sm90_decode_complete_tx(SimDecode *dx);
bool sim_sm90_decode_arrive(SimDecode *dx);
bool sim_sm90_decode_arrive_drop(SimDecode *dx);
bool sim_sm90_decode_test_wait(SimDecode *dx);
bool sim_sm90_decode_try_wait(SimDecode *dx);
bool sim_sm90_decode_pending_count(SimDecode *dx);
bool sim_sm90_decode_cp_async_arrive(SimDecode *dx);

bool sim_sm90_decode_bulk(SimDecode *dx);
bool sim_sm90_decode_bulk_reduce(SimDecode *dx);
bool sim_sm90_decode_bulk_prefetch(SimDecode *dx);
bool sim_sm90_decode_bulk_commit(SimDecode *dx);
bool sim_sm90_decode_bulk_wait(SimDecode *dx);
bool sim_sm90_decode_st_async(SimDecode *dx);
bool sim_sm90_decode_red_async(SimDecode *dx);
bool sim_sm90_decode_tensor(SimDecode *dx);
bool sim_sm90_decode_tensor_reduce(SimDecode *dx);

bool sim_sm90_decode_map_replace(SimDecode *dx);
bool sim_sm90_decode_map_copy(SimDecode *dx);
bool sim_sm90_decode_map_fence(SimDecode *dx);

bool sim_sm90_decode_wgmma(SimDecode *dx);
bool sim_sm90_decode_wgmma_fence(SimDecode *dx);
bool sim_sm90_decode_wgmma_commit(SimDecode *dx);
bool sim_sm90_decode_wgmma_wait(SimDecode *dx);

bool sim_sm90_decode_cluster_barrier(SimDecode *dx);
bool sim_sm90_decode_mapa(SimDecode *dx);
bool sim_sm90_decode_getctarank(SimDecode *dx);
bool sim_sm90_decode_setmaxnreg(SimDecode *dx);
bool sim_sm90_decode_griddepcontrol(SimDecode *dx);
bool sim_sm90_decode_stmatrix(SimDecode *dx);

#endif
