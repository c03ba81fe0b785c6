/* clock_memory.h - which bytes of a launch come from memory, and are written back there, because
 * the L2 cache does not hold them.
 *
 * Needs the lines that the clusters of one SM touched (SimTouch); the others are taken to do the
 * same with other lines, or with the same where a tensor has no more.  The launch is one of many:
 * what the one before left in the cache is there.  Or else the cache is cold: others have written
 * more than it holds since, as benchmarks do between two launches.
 */
#ifndef TILEC_CLOCK_MEMORY_H
#define TILEC_CLOCK_MEMORY_H

#include "backends/sim/sim.h"
#include "compiler/base/arena.h"
#include "compiler/clock_rows.h"

/* Of an event: bytes.  `own`: that no other SM wants, too. */
typedef struct ClockMissed {
    uint32_t event;
    float bytes, own, read, written;
    float whole, parts; /* of sectors that are stored whole, with others if need be; and in parts */
    float common;       /* of sectors that all SMs touch where it writes */
    uint32_t lines;     /* that it loads */
    double at;          /* when it was issued in the last replay; below 0: in none */
} ClockMissed;

typedef struct ClockMissedWarp {
    ClockMissed *at; /* by event */
    uint32_t n;
} ClockMissedWarp;

typedef struct ClockMemory {
    double launch, share; /* bytes that all SMs touch, each once; so many SMs do as the one */
    double bytes, read, written; /* of the one SM: of all its accesses; from memory; to it */
    ClockMissedWarp **warps;     /* by cluster of the trace, and by warp */
    bool in_parts;               /* something is stored by parts of sectors */
    bool cold;                   /* told by who asks */
    struct ClockCache *cache;
} ClockMemory;

/* What is touched, as if the L2 cache held all of it; `clusters`: in the grid.  NULL: nothing. */
ClockMemory *clock_memory(Arena *arena, const SimTrace *trace, uint64_t clusters);
/* Whether the launch touches more than the cache holds, or stores by parts of sectors. */
bool clock_memory_wants_order(const ClockMemory *memory, const ClockFact *rows);
/* What is not held, in the order in which a replay issued it. */
void clock_memory_find(ClockMemory *memory, const ClockFact *rows);
/* NULL: it touches nothing. */
ClockMissed *clock_missed(const ClockMemory *memory, size_t cluster, uint32_t warp, uint32_t event);

#endif
