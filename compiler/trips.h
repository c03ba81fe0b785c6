/* trips.h - how often a loop runs in a launch, when the sizes of the tensors are known. */
#ifndef TILEC_TRIPS_H
#define TILEC_TRIPS_H

#include "compiler/ir/tir.h"

typedef struct Trips {
    double blocks; /* points of the grid */
    double each;   /* iterations of the loop in a block, on average */
    double most;   /* in the block with the most */
} Trips;

/* For kernel `fn` with `sizes[i]` for its size i; scalar parameters count as 1. */
Trips trips_of(const TirFn *fn, const TirOp *loop, const int64_t *sizes);
/* Whether some range over this size is cut into tiles: a loop or an axis of the grid goes over it
 * in steps. */
bool trips_in_tiles(const TirFn *fn, uint32_t size);

#endif
