/* trips.h - how often a loop runs in a launch, when the sizes of the tensors are known. */
#ifndef TILEC_TRIPS_H
#define TILEC_TRIPS_H

#include "compiler/ir/tir.h"

typedef struct Trips {
    double blocks; /* points of the grid */
    double each;   /* iterations of the loop in a block, on average */
} Trips;

/* For kernel `fn` with `sizes[i]` for its size i; scalar parameters count as 1. */
Trips trips_of(const TirFn *fn, const TirOp *loop, const int64_t *sizes);
/* The share of what a loop loads that no other program loads. */
double trips_own(const TirFn *fn, const TirOp *loop, const int64_t *sizes);
enum { TRIP_SAMPLES = 48, TRIP_SEGMENTS = 4, TRIP_LOOPS = 8 };

/* A loop, and the cost of its masks in an iteration of each of its segments (the last entry stands
 * for all further ones). */
typedef struct TripLoop {
    const TirOp *op;
    double masks[TRIP_SEGMENTS];
} TripLoop;

/* The same for kernels with consumers: neighbouring programs along an axis share a block. */
typedef struct ConsumerTrips {
    double blocks; /* of the launch */
    double each;   /* iterations of a consumer, on average over all consumers of all blocks */
    /* the most iterations of any consumer of a block, on average over blocks */
    double most;
    double masks; /* the cost of masks in these iterations */
    double along; /* blocks along the axis, .. */
    /* .. and the iterations of n of them, evenly spaced, averaged over consumers */
    double block[TRIP_SAMPLES];
    uint32_t n;
    /* the share of what its loops load that no other program loads: memory has to give it; and the
     * bytes of the tensors */
    double own, bytes;
} ConsumerTrips;

/* For programs in which each of `loops` may run; consumers stand along `axis` of the grid. */
ConsumerTrips trips_of_consumers(const TirFn *fn, const TripLoop *loops, uint32_t n_loops,
                                 uint32_t axis, uint32_t consumers, const int64_t *sizes);
/* A host expression for these sizes and, where it asks for it, this device; scalars count as 1. */
int64_t trips_evaluate(const HostExpr *e, const int64_t *sizes, const Device *device);
/* Points of one axis of the grid. */
int64_t trips_extent(const TirFn *fn, uint32_t axis, const int64_t *sizes);
/* Sizes for a prediction when none are given, by index: the kernel's usual size, else 4096 for
 * dimensions that are divided into tiles and 8 for others. */
int64_t *trips_usual_sizes(Arena *arena, const TirFn *fn);
/* Whether some range over this size is cut into tiles: a loop or the grid goes over it in steps. */
bool trips_in_tiles(const TirFn *fn, uint32_t size);

#endif
