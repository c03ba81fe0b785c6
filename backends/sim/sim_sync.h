/* sim_sync.h - what one warp knows of the others: vector clocks, fences, strong accesses.
 *
 * Order between warps of a cluster is kept by vector clocks, one component a warp.  A release gives
 * what the warp knows to a place, an acquire takes it from there (PTX ISA 8.9, 8.10).  Strong
 * accesses do so as their words say: .release and .acquire by themselves; .relaxed and .volatile
 * only together with a fence of the warp, before a write or after a read (8.8, patterns).  Scopes
 * are told apart as "the block" and "more than the block".
 *
 * Order between clusters is kept by snapshots.  A release at a global address leaves a copy of the
 * warp's clock there; who acquires it knows that much of the cluster that it came from.
 */
#ifndef TILEC_SIM_SYNC_H
#define TILEC_SIM_SYNC_H

#include "sim_core.h"

/* A released clock of a warp, for other clusters; never changed once made. */
struct SimSnapshot {
    SimSnapshot *next; /* of the run, to free them */
    uint64_t cluster;
    uint32_t *clock;
    SimSnapshot **known; /* what the warp knew of clusters by acquiring */
    size_t known_count;
};

/* The order words of an access; SimOrder of sim_memory.h, without its first bit a weak one. */
void sim_sync_read(SimWarp *warp, uint64_t address, bool is_global, uint8_t order);
void sim_sync_write(SimWarp *warp, uint64_t address, bool is_global, uint8_t order,
                    bool read_modify_write);
void sim_sync_fence(SimWarp *warp, bool beyond_the_block);

/* Starts a new period of the warp, so that what it learns from now on can be told apart. */
void sim_sync_tick(SimWarp *warp);

bool sim_sync_warp_start(SimWarp *warp); /* makes the clocks */
void sim_sync_warp_end(SimWarp *warp);
void sim_sync_cluster_end(SimCluster *cluster);
bool sim_sync_run_start(SimRun *run);
void sim_sync_run_end(SimRun *run);

/* Does the warp know of what a warp (agent) of a cluster did at a clock? */
bool sim_sync_knows(const SimWarp *warp, uint64_t cluster, uint32_t agent, uint32_t clock);

#endif
