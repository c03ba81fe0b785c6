/* clock_log.h - what every instruction of a replay waited for last, so that the way back can be
 * walked.
 *
 * A node is an instruction that issued, or what a unit did by itself (a product, a copy).  Its
 * cause is the node without which it would have come earlier: the instruction before in its warp,
 * who kept the unit, who arrived last at the barrier.  From any node on, the way back over causes
 * has no gaps: its pieces add up to the time between.
 */
#ifndef TILEC_CLOCK_LOG_H
#define TILEC_CLOCK_LOG_H

#include "backends/clock/clock.h"

enum { MOST_NODES = 2 << 20 };

/* What the time between a cause and its node is. */
typedef enum PathKind {
    PATH_INSTRUCTIONS, /* of one warp, one after the other: stall counts */
    PATH_SLOTS,        /* the scheduler issued for other warps */
    PATH_SHARE,        /* what pipes share, banks of registers */
    PATH_BRANCH,
    PATH_BARRIER,                           /* from an arrival until the warp goes on */
    PATH_MBARRIER,                          /* the same, or from the end of a product or copy */
    PATH_PRODUCT,                           /* wgmma.wait_group */
    PATH_COPY,                              /* waits for groups of copies */
    PATH_START,                             /* of a block */
    PATH_UNIT,                              /* .. + ClockUnit: it is busy */
    PATH_LATENCY = PATH_UNIT + CLOCK_UNITS, /* .. + ClockUnit: of a result */
    PATH_KINDS = PATH_LATENCY + CLOCK_UNITS
} PathKind;

typedef struct PathNode {
    double at;      /* issued; done */
    uint32_t cause; /* 1 + node; 0: none */
    uint32_t insn;  /* of machine code, else of PTX */
    uint8_t kind;   /* PathKind */
    uint8_t group;  /* of four warps */
    bool op;        /* a unit by itself */
} PathNode;

/* A warp went back to an instruction: a turn of a loop. */
typedef struct PathTurn {
    uint32_t warp, insn, line, node; /* line: of PTX; node: 1 + */
} PathTurn;

/* A stretch of time in which a unit is kept, or a warp waits. */
typedef struct PathSpan {
    double from, to;
    uint32_t block;      /* cluster, in the order in which they start */
    uint8_t unit, group; /* unit: CLOCK_UNITS for a warp that waits */
    uint8_t scheduler;
    uint8_t why; /* ClockStall */
} PathSpan;

struct ClockLog {
    Arena *arena;
    VEC(PathNode) nodes;
    VEC(PathTurn) turns;
    /* spans are kept of this window only */
    double from, to;
    VEC(PathSpan) spans;
};

#endif
