/* sim_schedule.h - which warp of a cluster goes next, and how far. */
#ifndef TILEC_SIM_SCHEDULE_H
#define TILEC_SIM_SCHEDULE_H

#include "sim_core.h"

SimWarp *sim_schedule_pick(SimCluster *cluster); /* NULL: none can */

/* How many instructions in its turn.  Turns are short most of the time, and sometimes long, so that
 * warps both interleave finely and run far ahead of each other. */
uint32_t sim_schedule_budget(SimCluster *cluster);

#endif
