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

/* A relaxed arrive, and a relaxed wait, on a barrier object's clocks: they pass on what a fence of
 * the warp before, or after, makes of them (8.8, release and acquire patterns): a fence of at least
 * the scope (`beyond`: more than the block); the order of tensor memory, for tcgen05.fence
 * (`tensor`); and mbarriers initialised before a fence.mbarrier_init. */
void sim_clock_release_relaxed(SimWarp *warp, uint32_t *clock, bool beyond, bool tensor);
void sim_clock_acquire_relaxed(SimWarp *warp, const uint32_t *clock, bool beyond, bool tensor);
/* fence.mbarrier_init (9.7.13.4): covers initialisations of mbarriers, and nothing else. */
void sim_sync_init_fence(SimWarp *warp);

/* Lanes of a warp are in order among themselves by bar.warp.sync, and when they all release
 * together. What some of them release does not cover what others have done since. */
struct SimPartial {
    uint32_t clock;  /* of the release */
    uint32_t before; /* up to here it covers all lanes */
    uint32_t lanes;
};
void sim_sync_lanes(SimWarp *warp);
/* From here on each lane knows what all of them did, or each of these what these did and knew
 * (9.7.13.2). */
void sim_order_lanes(SimWarp *warp);
void sim_order_some_lanes(SimWarp *warp, uint32_t lanes);
/* Does a lane know what another one did in this epoch? */
bool sim_lanes_in_order(const SimWarp *warp, uint32_t lane, uint32_t other, uint32_t epoch);
void sim_sync_lanes_release(SimWarp *warp, uint32_t lanes);
/* Does what `warp` knows of an agent cover what a lane of it did at a clock that the warp knows? */
bool sim_sync_covers_lanes(const SimWarp *warp, uint32_t agent); /* of each of its lanes */
bool sim_sync_covers_lane(const SimWarp *warp, uint32_t agent, uint32_t clock, uint32_t lane);

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
