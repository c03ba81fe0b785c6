/* target.h - what a target is: the record that passes ask about a GPU.
 *
 * Everything a pass wants to know about a chip is data here; only backends/ptx/sm*.c fills it in,
 * and nothing else in the compiler names a target.  Each fact's source stands beside it there.
 */
#ifndef TILEC_TARGET_H
#define TILEC_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/base/arena.h"
#include "compiler/ir/types.h"

/* A warp-level matrix product m x n x k for one element type. */
typedef struct MmaAtom {
    DType dtype;
    int32_t m, n, k;
    const char *mnemonic; /* D, A, B, C in registers; f32 accumulators */
} MmaAtom;

enum { TARGET_GROUPS = 5 }; /* one more than warp groups that may compute */

/* What products of warp groups take beside the time of the units: fitted, see there. */
typedef struct GroupTimes {
    double power_overlapped, power_plain; /* how well arithmetic hides behind products */
    double power_products; /* how well they and their operands' way hide behind each other, alone */
    double iteration; /* clocks: of a loop that has nothing but products, each time around */
    double chain;    /* clocks: latencies of what one warp group does one after the other */
    double exchange; /* clocks: a value goes from warp group to warp group */
    double start;    /* clocks: to begin and end a tile, beside one more iteration */
} GroupTimes;

/* What planned kernels take beside the time of the units: clocks, and how units share (band_time.c);
 * fitted, see there. */
typedef struct BandTimes {
    double port_power;      /* products that read much wait for the port: a norm of the two */
    double issue;           /* of a clock, for an instruction of tile arithmetic */
    double round;           /* arithmetic of an iteration that does not grow with its tiles */
    double gap;             /* in which a band needs no unit, an iteration .. */
    double gap_straight;    /* .. and that much more in straight loops */
    double under;           /* of products that run under arithmetic: the part that is waited for */
    double joint;           /* where bands wait for one another, an iteration and other band */
    double vector;          /* an element of a vector that each band loads itself */
    double added;           /* an element that is added to memory from registers */
    double tile;            /* to begin and end a tile of the grid, .. */
    double fill;            /* .. iterations in which nothing runs beside it .. */
    double block;           /* .. and to begin a block */
    double slot;            /* of what a tile's first copy takes, where its slot is the only one */
    double idle;            /* of an iteration that other bands of the block do not have */
    double store_bytes;     /* that one SM of a busy chip writes in a clock */
    double mask;            /* instructions for an element that is masked .. */
    double mask_joint;      /* .. of which so much counts where bands wait for one another */
    double copy_latency;    /* of a tile that nothing runs ahead of .. */
    double copy_part;       /* .. of which so much counts where its slot is read in a part of an iteration */
    double pair;            /* an iteration of blocks that run in pairs */
    double launch;
    /* loops that have nothing but products: how well units hide behind the busiest, what an iteration
     * takes beside them, and how much longer it takes where results are turned */
    double products_power, products, turned;
} BandTimes;

/* What a chip has and how fast it is, whatever instructions it is given. */
typedef struct Chip {
    /* limits */
    int32_t shared_per_block; /* bytes of dynamic shared memory a block may ask for */
    int32_t shared_per_sm;    /* bytes all blocks of one SM share */
    int32_t shared_reserved;  /* bytes the driver takes from shared_per_sm for each block */
    int32_t registers_per_sm;
    int32_t threads_per_sm;

    /* rates of one SM, a clock: for the cost model */
    int32_t mma_flops;   /* dense 16-bit, warp-level mma.sync */
    int32_t special_ops; /* ex2, rcp, .. */
    int32_t float_ops;   /* f32 lanes */
    int32_t shared_bytes;
    int32_t copy_bytes;  /* that one SM of a busy chip gets from the L2 cache */
    int32_t copy_clocks; /* from the question for a tile until it is there */

    int32_t sm_count, clock_mhz; /* of the whole chip, under a heavy load: for predictions */
    int32_t burst_mhz;           /* of a chip that is not at its power limit */
} Chip;

typedef struct Target {
    const char *name;        /* as the user says it: "sm_90" */
    const char *ptx_target;  /* behind .target */
    const char *ptx_version; /* behind .version */
    int32_t capability;      /* 80, 90, 100: what the launcher compares with the device */
    const char *description;

    int32_t registers_per_thread;
    Chip chip;

    /* products of warp groups (64 rows, operands in shared memory), tensor copies, barriers in
     * shared memory, registers that go from role to role; NULL: none of these */
    const MmaAtom *group_mma;
    uint32_t n_group_mma;
    const char *ptx_target_roles; /* behind .target when a kernel has roles */
    int32_t group_flops; /* dense 16-bit, products of warp groups */
    struct {
        uint32_t producer, consumer;
    } role_registers[TARGET_GROUPS]; /* of a thread, by the number of computing warp groups */
    struct {
        uint32_t producer, consumer;
    } drawing_registers[TARGET_GROUPS]; /* the same, when the producer also draws tiles */
    int32_t group_other_registers[TARGET_GROUPS]; /* of those, not for accumulators */
    int32_t group_tile_bytes; /* of shared memory, for tiles; the rest is for barriers and such */
    GroupTimes group_times;
    BandTimes band_times;

    /* instructions beyond the common base (sm_80) */
    bool store_matrix;   /* stmatrix */
    bool early_start;    /* griddepcontrol: blocks of a kernel are set up while the one before it ends */
    int32_t addition_bytes; /* that a lane adds to memory at once: red.global.add.v2.f32, .v4.f32 */
    int32_t addition_piece; /* bytes of a row that lanes should add together: longer pieces take less
                               of the L2 cache's time, and exchanges between lanes */
    double addition_clocks; /* of an SM, for 4 bytes, beside everything else: fitted */

    /* A padding mask is left out where a mask of the program hides the same (imply-masks).  With a mask
     * less in the last iterations, ptxas 13.0 spills 4 bytes in the others for sm_80 (attention, 112
     * keys a tile), and for sm_90 nothing. */
    bool drops_hidden_padding;

    const MmaAtom *mma;
    uint32_t n_mma;
} Target;

/* The targets, in order of --list-targets. */
extern const Target *const tilec_targets[];
extern const uint32_t tilec_target_count;
/* Finds a target by what the user says after -arch: its name, or the name with the letter `a`.
 * NULL when there is none. */
const Target *target_find(const char *name);
/* The instructions of `target` on the chip of another; NULL: it does not run them. */
const Target *target_tuned(Arena *arena, const Target *target, const Target *chip);
/* The product of a warp group for an element type; NULL when the target has none. */
const MmaAtom *target_group_mma(const Target *target, DType dtype);
/* The atom for an element type; NULL when the target has none. */
const MmaAtom *target_mma(const Target *target, DType dtype);

#endif
