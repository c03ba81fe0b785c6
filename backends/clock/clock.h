/* clock.h - how many cycles a launch takes on a chip, replayed from what its warps did.
 *
 * The simulator says what happens (SimTrace: the instructions of each warp, the phases of barriers,
 * the copies and products); a table of the target says what each thing costs (clock_rows.h); the
 * replay issues the instructions of the blocks that one SM gets on four schedulers, with pipes and
 * units that are busy for a while.  docs/timing.md says what is modelled and what is assumed.
 */
#ifndef TILEC_CLOCK_H
#define TILEC_CLOCK_H

#include "backends/clock/clock_match.h"
#include "backends/clock/clock_memory.h"
#include "backends/sim/sim.h"
#include "compiler/base/arena.h"
#include "compiler/clock_rows.h"

/* What is reserved.  The first ones are of each scheduler, the others of the SM. */
typedef enum ClockUnit {
    UNIT_ISSUE,
    UNIT_FMA,
    UNIT_ALU,
    UNIT_MUFU,
    UNIT_LOADS,    /* the way to shared memory */
    UNIT_TMEM,     /* the way to tensor memory */
    UNIT_WARP_MMA, /* mma.sync: each scheduler has a quarter of the tensor unit */
    UNIT_SHUFFLE,
    UNIT_SHARED, /* the port of shared memory: loads, stores, operands of products */
    UNIT_STORES, /* where stores have a port of their own */
    UNIT_TENSOR,
    UNIT_GLOBAL,
    UNIT_GLOBAL_STORE, /* what is written goes another way than what is read */
    UNIT_HBM,          /* its share of what all SMs get from memory, and write there */
    UNIT_TMA_LOAD,
    UNIT_TMA_STORE,
    UNIT_TMEM_COPY,
    UNIT_CLUSTER, /* the way to other SMs of a cluster */
    CLOCK_UNITS,
    UNITS_OF_SCHEDULER = UNIT_SHUFFLE
} ClockUnit;

/* Why a warp does not issue. */
typedef enum ClockStall {
    STALL_ISSUED, /* it does */
    STALL_NOT_PICKED,
    STALL_RESULT, /* of an instruction before */
    STALL_UNIT,   /* busy */
    STALL_BRANCH,
    STALL_BARRIER, /* bar.sync, barrier.cluster */
    STALL_MBARRIER,
    STALL_PRODUCT, /* wgmma.wait_group */
    STALL_COPY,    /* waits for groups of copies */
    CLOCK_STALLS
} ClockStall;

/* Where warps waited for a barrier. */
typedef struct ClockWait {
    SimPhaseKind kind;
    uint32_t object;      /* number of the barrier, or offset of the mbarrier */
    uint32_t first, last; /* warps of the block: a group of four */
    double cycles;        /* of all its warps */
    double early, came;   /* clocks by which it was over when they came; how often they did */
} ClockWait;

typedef struct ClockGroup { /* four warps of a block */
    uint32_t first, last;
    double cycles[CLOCK_STALLS]; /* of all of them, in all blocks */
    double clocks_read;          /* the most that lies between two readings of the clock */
} ClockGroup;

/* A number drawn from a counter. */
typedef struct ClockDraw {
    uint32_t cluster, index; /* of the trace; which of the cluster's */
    double at;
} ClockDraw;

typedef struct ClockResult {
    uint64_t cycles, seed;
    uint32_t blocks, resident; /* that the SM ran; at once */
    uint64_t issued;           /* warp instructions of one SM */
    uint64_t unknown;          /* of them: without a row, taken for arithmetic */
    const char *unknown_name;  /* one of them; NULL: none */
    double busy[CLOCK_UNITS];  /* clocks; of pipes, the sum over schedulers */
    VEC(ClockWait) waits;
    VEC(ClockGroup) groups;
    VEC(ClockDraw) draws;
    uint64_t from_code; /* of the warp instructions: of machine code */
    /* of all warps' clocks: in stretches of machine code that were not found, or of which most does
     * not fit; the line of PTX at whose end most of that is */
    double warp_clocks, misfit, misfit_most;
    uint32_t misfit_line;
    VEC(double) clocks_read; /* between the first and the last reading of the clock, of each warp */
    bool stuck;              /* warps wait for what never comes: the trace is not whole */
} ClockResult;

typedef struct ClockLog ClockLog;

/* A picture that grows by each launch: a body, and where the next one begins. */
typedef struct ClockPicture {
    Buf body;
    double y;
    Buf events; /* the same as trace events, of which there is more */
    uint32_t launches;
} ClockPicture;

typedef struct ClockJob {
    const SimModule *module;
    const char *name;      /* of the kernel */
    const SimTrace *trace; /* the clusters that one SM (or one cluster's SMs) runs, in order */
    const ClockFact *rows; /* by ClockRow */
    const ClockProduct *products; /* NULL: the target has none of these */
    uint32_t resident;            /* clusters at once */
    uint32_t active;              /* SMs that are at work at the same time and share the L2 cache */
    uint64_t clusters;            /* in the grid */
    bool cold;                    /* the L2 cache holds nothing of the launch when that begins */
    /* what the L2 cache does not hold; made by clock_report; NULL: it holds all */
    ClockMemory *memory;
    const CodeKernel *code;       /* NULL: none */
    const char *no_code;          /* why */
    const CodePath *const *paths; /* by cluster and warp; made by clock_report */
    const char *dealt;            /* how the launch's work was dealt to SMs; NULL: as if in turn */
    uint64_t seed;                /* jitter of wakes: 0 to 7 clocks; 0: none */
    uint32_t seeds;               /* how many a report has; 0: five */
    bool path; /* a report has all of the critical path, and of what would change with what */
    struct ClockPicture *picture; /* a report adds to it; NULL: none */
    ClockLog *log;                /* of a replay (clock_log.h); NULL: none */
} ClockJob;

/* The table of a target by its name, "sm_90"; NULL: no model. */
ClockFact *clock_table(Arena *arena, const char *target);
const ClockProduct *clock_products(const char *target);
/* A row by its name, "mufu" of CLOCK_MUFU. */
bool clock_row_named(const char *name, size_t length, ClockRow *out);
const char *clock_row_name(ClockRow row);
/* Of all figures, as they are now: by it a report says which it was made with. */
uint32_t clock_table_hash(const ClockFact *rows, const ClockProduct *products);
/* How many blocks share an SM. */
uint32_t clock_resident(const ClockFact *rows, uint32_t threads, uint32_t registers,
                        uint32_t shared);
void clock_replay(Arena *arena, const ClockJob *job, ClockResult *out);
/* Of several seeds. */
typedef struct ClockSummary {
    const ClockResult *median;
    uint64_t least, most, steady; /* cycles; steady: without jitter */
    bool whole;                   /* each replay came to its end; else the cycles mean nothing */
    double mhz_at_limit;
    const struct ClockPath *path; /* NULL: not asked for */
    const struct WhatIfs *what_ifs;
} ClockSummary;

/* The fields of an object. */
void clock_json(const ClockJob *job, const ClockSummary *of, Buf *out);
/* Several seeds: prints the median, least and most cycles, and where they went; `json`: that as
 * fields, too; or NULL. */
bool clock_report(Arena *arena, const ClockJob *job, uint64_t all_blocks, Buf *out, Buf *json);
/* Of all its warps, whatever they did. */
double clock_group_cycles(const ClockGroup *group);
/* What part of the time a unit is busy, of 1. */
double clock_busy_part(const ClockResult *result, const ClockFact *rows, ClockUnit unit);
const char *clock_unit_name(ClockUnit unit);
const char *clock_stall_name(ClockStall stall);

#endif
