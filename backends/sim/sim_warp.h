/* sim_warp.h - a warp's groups of lanes, and running them. */
#ifndef TILEC_SIM_WARP_H
#define TILEC_SIM_WARP_H

#include "sim_core.h"

bool sim_warp_start(SimWarp *warp, SimCta *cta, uint32_t index); /* false: out of memory */
void sim_warp_end(SimWarp *warp);

/* Can some group run now?  Asks the sleeping ones whether their wait is over. */
bool sim_warp_runnable(SimWarp *warp);

/* Runs up to `budget` instructions of the groups that can run.  False after a fatal error. */
bool sim_warp_run(SimWarp *warp, uint32_t budget);

/* The lane's part of the stack reaches to `end` bytes; false: too many, which is reported. */
bool sim_warp_reserve(SimWarp *warp, uint64_t end);

/* When nothing else can run: if groups wait for each other to converge, reports it and lets one go
 * on.  False if that is not the warp's trouble. */
bool sim_warp_break_stall(SimWarp *warp);

/* One line for each group, for the report of a hang. */
void sim_warp_describe(const SimWarp *warp, char *text, size_t size);

/* After a lane exits: barriers that count the block's threads may be complete (sim_barrier.c). */
void sim_barrier_recheck(SimCta *cta);
bool sim_barrier_init(SimCta *cta);
void sim_barrier_free(SimCta *cta);

/* After an op with member masks (sim_warp_gather_members): those of `mask` that are not ready wait,
 * the others go on. */
SimStep sim_warp_members_step(SimWarp *warp, uint32_t mask, uint32_t ready);

#endif
