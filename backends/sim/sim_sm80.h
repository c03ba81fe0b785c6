/* sim_sm80.h - what other families need of cp.async. */
#ifndef TILEC_SIM_SM80_H
#define TILEC_SIM_SM80_H

#include "sim_async.h"

/* The copies that a lane has issued and not waited for: fills up to `room`, returns how many. */
size_t sim_cp_async_outstanding(SimWarp *warp, uint32_t lane, SimOp **ops, size_t room);

#endif
