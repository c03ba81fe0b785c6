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
#include "compiler/ir/isa.h"
#include "compiler/ir/types.h"

/* ---- what the instructions are ---- */

/* What a target has beyond the common base (sm_80: cp.async, ldmatrix, mma.sync), besides its forms. */
typedef enum Ability {
    CAN_STORE_MATRIX = 1 << 0, /* stmatrix */
    /* griddepcontrol: blocks are set up while the kernel before theirs ends */
    CAN_START_EARLY = 1 << 1,
    /* mbarrier.try_wait and expect_tx: barriers in shared memory that copies complete */
    CAN_COUNT_BYTES = 1 << 2,
    /* blocks that see each other's shared memory; one copy for several of them */
    CAN_CLUSTER = 1 << 3,
    CAN_MOVE_REGISTERS = 1 << 4 /* setmaxnreg: warp groups give registers to one another */
} Ability;

/* Who issues an instruction. */
typedef enum Issuer { BY_WARP, BY_WARP_GROUP, BY_THREAD, ISSUERS } Issuer;

/* How its end is known. */
typedef enum Completion {
    DONE_IN_LINE,   /* its result is there for the next instruction */
    DONE_BY_GROUP,  /* wait until at most n groups of this kind are under way */
    DONE_BY_BARRIER /* at a barrier in shared memory, for whoever waits there */
} Completion;

/* Where an operand may be, and which of its dimensions may lie along rows there: sets of these. */
enum { IN_REGISTERS = 1, IN_SHARED = 2, IN_TENSOR_MEMORY = 4 };
enum { MAJOR_K = 1, MAJOR_MN = 2 };

/* An instruction that computes d = a b + c, with f32 results: m x n x k for one type of elements. */
typedef struct MmaForm {
    DType dtype;
    Issuer issuer;
    Completion done;
    int32_t m, n, k; /* n: the most, in steps of .. */
    int32_t n_step;
    uint8_t a, b, d; /* spaces */
    uint8_t a_major, b_major;
    bool exact;           /* it takes the architecture's own .target */
    const char *mnemonic; /* one that has %d takes n there */
} MmaForm;

typedef enum CopyKind { COPY_ASYNC, COPY_TENSOR_LOAD, COPY_TENSOR_STORE, COPY_TENSOR_ADD } CopyKind;

/* An instruction that copies between global and shared memory while the program goes on. */
typedef struct CopyForm {
    CopyKind kind;
    Issuer issuer;
    Completion done;
    int32_t unit;  /* bytes: what it moves begins at a multiple of these, and is one */
    int32_t most;  /* bytes of an instruction; 0: a box of a tensor .. */
    int32_t box;   /* .. with at most so many indices along a dimension .. */
    uint32_t rank; /* .. of so many, at most */
} CopyForm;

/* ---- what they take ---- */

/* Registers of a thread that are left for what is not counted one by one, as ptxas 13.0 was seen to want them. */
enum {
    /* where operands stay in registers over a loop: fragments, addresses, statistics */
    BESIDE_KEPT = 72,
    BESIDE_SUMS = 32,  /* in a role, beside the results of products: the same without fragments */
    BESIDE_RESULT = 30 /* before roles part, beside the result of one product of a warp group */
};

enum { TARGET_GROUPS = 1 + MOST_CONSUMERS }; /* tables by how many warp groups compute */

/* What products of warp groups take beside the time of the units: fitted, see there. */
typedef struct GroupTimes {
    double power_pipelined, power_plain; /* how well arithmetic hides behind products */
    double power_mmas; /* how well they and their operands' way hide behind each other, alone */
    double iteration;  /* clocks: of a loop that has nothing but products, each time around */
    double chain;      /* clocks: latencies of what one warp group does one after the other */
    double exchange;   /* clocks: a value goes from warp group to warp group */
    double start;      /* clocks: to begin and end a tile, beside one more iteration */
} GroupTimes;

/* What planned kernels take beside the time of the units: clocks, and how units share (consumer_time.c);
 * fitted, see there. */
typedef struct ConsumerTimes {
    double port_power;   /* products that read much wait for the port: a norm of the two */
    double issue;        /* of a clock, for an instruction of tile arithmetic */
    double round;        /* arithmetic of an iteration that does not grow with its tiles */
    double gap;          /* in which a consumer needs no unit, an iteration .. */
    double gap_in_order; /* .. and that much more in in-order loops */
    double under;        /* of products that run under arithmetic: the part that is waited for */
    /* where consumers wait for one another, an iteration and other consumer */
    double coop_k;
    double vector; /* an element of a vector that each consumer loads itself */
    double added;  /* an element that is added to memory from registers */
    double tile;   /* to begin and end a tile of the grid, .. */
    double fill;   /* .. iterations in which nothing runs beside it .. */
    double block;  /* .. and to begin a block */
    /* of what a tile's first copy takes, where its stage is the only one */
    double stage;
    double idle;         /* of an iteration that other consumers of the block do not have */
    double store_bytes;  /* that one SM of a busy chip writes in a clock */
    double mask;         /* instructions for an element that is masked .. */
    double mask_coop_k;  /* .. of which so much counts where consumers wait for one another */
    double copy_latency; /* of a tile that nothing runs ahead of .. */
    /* .. of which so much counts where its stage is read in a part of an iteration */
    double copy_part;
    double pair; /* an iteration of blocks that run in pairs */
    double launch;
    /* loops that have nothing but products: how well units hide behind the busiest, what an iteration
     * takes beside them, and how much longer it takes where results are transposed */
    double mmas_power, mmas, swap_ab;
} ConsumerTimes;

/* What loops without roles take beside the time of the units, in clocks and as shares of what else they
 * take: fitted, see there. */
typedef struct LoopTimes {
    double not_hidden; /* of the less busy one of tensor unit and shared memory */
    /* of special functions and lanes, where 1, 2 or more blocks share an SM */
    double rest_not_hidden[3];
    double barrier_wait, copy_wait; /* of a block that is alone on its SM */
    /* of others, an iteration, and for a copy that had a part of one */
    double round_wait, turn_wait;
    double few_warps;   /* factor where they are too few to take turns well */
    double masked_more; /* of an iteration that has masks */
    double spill;       /* a register that is spilled */
    /* where nearly all are alive at once, and where it may come to that */
    double may_spill, near_spill;
} LoopTimes;

/* What a chip has and how fast it is, whatever instructions it is given. */
typedef struct Chip {
    /* limits */
    int32_t shared_per_block; /* bytes of dynamic shared memory a block may ask for */
    int32_t shared_per_sm;    /* bytes all blocks of one SM share */
    int32_t shared_reserved;  /* bytes the driver takes from shared_per_sm for each block */
    int32_t registers_per_sm;
    int32_t threads_per_sm;
    int32_t blocks_per_sm;

    /* rates of one SM, a clock: for the cost model */
    int32_t mma_flops[ISSUERS]; /* dense 16-bit, f32 accumulators, by who issues them */
    int32_t special_ops;        /* ex2, rcp, .. */
    int32_t float_ops;          /* f32 lanes */
    int32_t shared_bytes;
    int32_t global_bytes; /* of loads and stores, through the L2 cache */
    int32_t copy_bytes;   /* that one SM of a busy chip gets from the L2 cache */
    int32_t copy_clocks;  /* from the question for a tile until it is there */

    int32_t sm_count, clock_mhz; /* of the whole chip, under a heavy load: for predictions */
    int32_t burst_mhz;           /* of a chip that is not at its power limit */
    /* bytes of the L2 cache that programs at work should share, at most */
    int32_t cache_share;
    LoopTimes loop_times;
} Chip;

typedef struct Target {
    const char *name;        /* as the user says it: "sm_90" */
    const char *ptx_target;  /* behind .target */
    const char *ptx_version; /* behind .version */
    int32_t capability;      /* 80, 90, 100: what the launcher compares with the device */
    const char *description;

    int32_t registers_per_thread;
    Chip chip;

    uint32_t abilities; /* a set of Ability */
    const MmaForm *mma;
    uint32_t n_mma;
    const CopyForm *copies;
    uint32_t n_copies;
    /* behind .target when a kernel has instructions of this architecture alone (and no other chip runs it);
     * NULL: it gets none of those */
    const char *ptx_target_exact;

    /* ---- kernels that have roles ---- */
    struct {
        uint32_t producer, consumer;
    } role_registers[TARGET_GROUPS]; /* of a thread, by the number of computing warp groups */
    struct {
        uint32_t producer, consumer;
    } dynamic_registers[TARGET_GROUPS];           /* the same, with the dynamic tile scheduler */
    int32_t group_other_registers[TARGET_GROUPS]; /* of those, not for accumulators */
    int32_t group_tile_bytes; /* of shared memory, for tiles; the rest is for barriers and such */
    GroupTimes group_times;
    ConsumerTimes consumer_times;

    /* ---- additions to memory ---- */
    int32_t addition_bytes; /* that a lane adds to memory at once: red.global.add.v2.f32, .v4.f32 */
    /* bytes of a row that lanes should add together: longer pieces take less of the L2 cache's
       time, and exchanges between lanes */
    int32_t addition_piece;
    double addition_clocks; /* of an SM, for 4 bytes, beside everything else: fitted */

    /* A padding mask is left out where a mask of the program hides the same (imply-masks).  With a mask
     * less in the last iterations, ptxas 13.0 spills 4 bytes in the others for sm_80 (attention, 112
     * keys a tile), and for sm_90 nothing. */
    bool drops_hidden_padding;
} Target;

/* The targets, in order of --list-targets. */
extern const Target *const tilec_targets[];
extern const uint32_t tilec_target_count;
/* Finds a target by what the user says after -arch: its name, or the name with the letter `a`.
 * NULL when there is none. */
const Target *target_find(const char *name);
/* The instructions of `target` on the chip of another; NULL: it does not run them. */
const Target *target_tuned(Arena *arena, const Target *target, const Target *chip);
/* Whether it has all of a set of abilities. */
bool target_can(const Target *target, uint32_t abilities);
/* The product of an element type that `issuer` issues; NULL when the target has none. */
const MmaForm *target_mma(const Target *target, Issuer issuer, DType dtype);
/* Registers of a thread when a block with so many computing warp groups starts, before one gives some to
 * the others: ptxas lets no instruction have more. */
int32_t target_entry_registers(const Target *target, uint32_t consumers);
/* NULL when the target has no copies of that kind. */
const CopyForm *target_copy(const Target *target, CopyKind kind);
/* The product of a role that computes: a warp group's, else that of each of its four warps, done in line. */
const MmaForm *target_role_mma(const Target *target, DType dtype);
/* Whether blocks can be divided into roles: one fetches tiles by tensor copies, whose end is known at barriers,
 * the others take its registers and compute. */
bool target_has_roles(const Target *target);
/* Whether it is known how long kernels with roles take, so that `auto` may choose them. */
bool target_predicts_roles(const Target *target);

#endif
