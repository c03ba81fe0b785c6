/* target.h - a target is a record of facts about a GPU.
 *
 * Passes read this record and never ask which target it is.  Only backends/ptx/sm*.c fill it in;
 * the source of each fact is noted there.
 */
#ifndef TILEC_TARGET_H
#define TILEC_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/base/arena.h"
#include "compiler/clock_rows.h"
#include "compiler/ir/device_facts.h"
#include "compiler/ir/isa.h"
#include "compiler/ir/types.h"

/* ---- what the instructions are ---- */

/* What a target can do beyond the common base (sm_80: cp.async, ldmatrix, mma.sync) and its forms
 * below. */
typedef enum Ability {
    CAN_STORE_MATRIX = 1 << 0, /* stmatrix */
    /* griddepcontrol: blocks are set up while the kernel before theirs ends */
    CAN_START_EARLY = 1 << 1,
    /* mbarrier.try_wait and expect_tx: barriers in shared memory that copies complete */
    CAN_COUNT_BYTES = 1 << 2,
    /* blocks that see each other's shared memory; one copy for several of them */
    CAN_CLUSTER = 1 << 3,
    CAN_MOVE_REGISTERS = 1 << 4, /* setmaxnreg: warp groups give registers to one another */
    CAN_COMPUTE_TWO = 1 << 5,    /* f32x2: two f32 in an instruction */
    /* clusterlaunchcontrol: a block takes over what another one was launched for, before that
     * begins */
    CAN_TAKE_LAUNCHES = 1 << 6,
    CAN_CONVERT_8 = 1 << 7, /* cvt of floats of 8 bits, in pairs */
    CAN_ADD_BF16 = 1 << 8,  /* red of bf16 and bf16x2; of f16 all have it */
    CAN_ROUND_TF32 = 1 << 9 /* cvt.rn.tf32: ties to even */
} Ability;

/* Who issues an instruction. */
typedef enum Issuer { BY_WARP, BY_WARP_GROUP, BY_THREAD, ISSUERS } Issuer;

/* How its end is known. */
typedef enum Completion {
    DONE_IN_LINE,   /* its result is there for the next instruction */
    DONE_BY_GROUP,  /* wait until at most n groups of this kind are under way */
    DONE_BY_BARRIER /* at a barrier in shared memory, for whoever waits there */
} Completion;

/* Sets of spaces in which an operand may be, and of dimensions that may run along its rows
 * there. */
enum { IN_REGISTERS = 1, IN_SHARED = 2, IN_TENSOR_MEMORY = 4 };
enum { MAJOR_K = 1, MAJOR_MN = 2 };

/* An instruction that computes d = a b + c: m x n x k for elements of two types, and for sums of
 * theirs (dtype_wide). */
typedef struct MmaForm {
    DType a_type, b_type;
    Issuer issuer;
    Completion done;
    int32_t m, n, k; /* n: the most, in steps of .. */
    int32_t n_step;
    int32_t step_bytes; /* of k elements of an operand, where it lies in shared memory */
    double rate;        /* times the chip's mma_flops of its issuer */
    uint8_t a, b, d;    /* spaces */
    uint8_t a_major, b_major;
    bool exact; /* needs the architecture's own .target (sm_90a) */
    /* of neighbouring blocks, whose operands it reads and whose results it writes: m / blocks rows
     * of each; 0: one */
    uint32_t blocks;
    /* of the inner dimension, what it may add up before the sum is added to others in f32, since it
     * keeps fewer bits; 0: any number of elements */
    int32_t sums;
    /* scales of a row of an operand in an instruction, and their type; 0: it takes none.  Of
     * operands of bytes each has two e2m1, where the other one is of bytes, too, else one in its
     * bits 2 to 5 */
    int32_t scales;
    DType scale;
    const char *ptx_version; /* that it needs; NULL: the target's */
    uint8_t sum_code, a_code,
        b_code;           /* BY_THREAD: the types, as instruction descriptors say them */
    const char *mnemonic; /* one that has %d takes n there */
} MmaForm;

typedef enum CopyKind { COPY_ASYNC, COPY_TENSOR_LOAD, COPY_TENSOR_STORE, COPY_TENSOR_ADD } CopyKind;

/* An instruction that copies between global and shared memory while the program goes on. */
typedef struct CopyForm {
    CopyKind kind;
    Issuer issuer;
    Completion done;
    int32_t unit;  /* bytes: addresses and sizes are multiples of it */
    int32_t most;  /* bytes of an instruction; 0: it copies a box of a tensor, with .. */
    int32_t box;   /* .. at most so many indices along a dimension .. */
    uint32_t rank; /* .. and at most so many dimensions */
    /* elements of a type that it can make of another one's on the way, to the nearest, of two the
     * even one; equal: none */
    DType from, to;
} CopyForm;

/* ---- what they take ---- */

/* Registers of a thread that are reserved for values that are not counted one by one.  Observed:
 * with fewer, ptxas 13.0 spilled. */
enum {
    /* besides operands kept in registers over a loop: fragments, addresses, statistics */
    BESIDE_KEPT = 72,
    BESIDE_SUMS = 32,  /* in a role, besides accumulators: the same without fragments */
    BESIDE_RESULT = 30 /* before the roles part, besides the result of one wgmma */
};

enum {
    OTHER_SHARED = 1024
}; /* bytes of shared memory besides tiles: barriers, vectors, alignment */

enum { TARGET_GROUPS = 1 + MOST_CONSUMERS }; /* tables by how many warp groups compute */

/* Constants of the time of planned kernels (cost/consumer_time.c), besides the rates of the units:
 * clocks, and how units overlap.  Fitted, see the target's file. */
typedef struct ConsumerTimes {
    double port_power;   /* exponent: how tensor core time and operand reads combine */
    double issue;        /* share of a clock for one instruction of tile arithmetic */
    double round;        /* arithmetic of an iteration that does not grow with its tiles */
    double gap;          /* latency in an iteration during which a consumer uses no unit .. */
    double gap_in_order; /* .. and what in-order loops have in addition */
    double under;        /* of products that run under arithmetic: the part that is waited for */
    /* clocks of waiting for one other consumer, in an iteration with a shared product */
    double coop_k;
    double vector; /* for an element of a vector that each consumer loads itself */
    double added;  /* for an element that is added to memory from registers */
    double tile;   /* to begin and end a work tile, .. */
    double fill;   /* .. with this share of an iteration that nothing overlaps .. */
    double block;  /* .. and to begin a block */
    /* share of the first copy's time that is waited for when a pipeline has a single stage */
    double stage;
    double idle;        /* share of an iteration that other consumers of the block do not have */
    double store_bytes; /* bytes that one SM of a busy chip writes in a clock */
    double mask;        /* instructions to mask an element .. */
    /* .. and the share of them that counts when consumers wait for one another */
    double mask_coop_k;
    double copy_latency; /* of a copy that is not started ahead .. */
    /* .. and the share that counts when its stage is read in a part of the iteration only */
    double copy_part;
    double pair; /* for an iteration of blocks that run in pairs, .. */
    /* .. what a chain of products of both takes longer to be told of their ends, and the port for
     * each of its products beside the operands */
    double pair_chain, pair_product;
    double launch; /* to launch the kernel */
    /* loops of nothing but products: exponent of how operand reads hide behind products, clocks of
     * overhead for an iteration, and the factor for results that are transposed; .. */
    double mmas_power, mmas, swap_ab;
    /* .. how much longer products take while all SMs multiply and the clock falls; clocks until a
     * stage that was asked for is there, while all SMs ask; bytes that an SM gets in a clock then
     * (0: the chip's); clocks to begin and end a tile; and bytes of its result that leave in a
     * clock where no copy takes them (0: as many as by copies), as words and, where the result is
     * transposed, element by element; .. */
    double mmas_busy, mmas_latency, mmas_copy, mmas_tile, mmas_direct, mmas_direct_each;
    /* .. clocks in which a consumer whose product's result is added uses no unit, for itself and
     * again for each consumer that takes its turn (0: not known); .. */
    double mmas_sum;
    /* .. exponents of how the way of a stage hides behind products, and all of it behind what
     * memory has to give */
    double mmas_way_power, mmas_memory_power;
    /* .. and bytes that an SM gets in a clock where all ask for as much as there is; 0: not
     * known */
    double mmas_cache;
} ConsumerTimes;

/* What the expressions by which launches choose among forms of a kernel (cost/launch_cost.c) have
 * in place of ConsumerTimes: forms are compared at small sizes, too, where there is little but
 * tiles' ends.  Fitted, see the target's file. */
typedef struct LaunchTimes {
    double tile, store_bytes, mask; /* as in ConsumerTimes */
    double iteration;               /* a factor .. */
    /* .. and another where each of more than two consumers waits for all its products */
    double in_order;
    double cold; /* clocks for an instruction of a loop that no SM has run yet */
    /* percent that a form for few elements costs more than is estimated: as much as estimates are
     * off; 0: there are none */
    int32_t few_more;
} LaunchTimes;

/* Constants of the estimate for loops without roles (cost/cost.c), besides the rates of the units:
 * clocks, and shares of other times.  Fitted, see the target's file. */
typedef struct LoopTimes {
    /* share of min(tensor cores, shared memory) that is not overlapped with the larger */
    double not_hidden;
    /* share of special functions and lanes that is not overlapped, with 1, 2 or more blocks on an
     * SM */
    double rest_not_hidden[3];
    double barrier_wait, copy_wait; /* clocks, when a block is alone on its SM */
    /* clocks when it is not: for an iteration, and for a copy that was started within it */
    double round_wait, turn_wait;
    double few_warps;   /* factor when an SM has too few warps to hide latency */
    double masked_more; /* share added to an iteration that has masks */
    double spill;       /* share added for each spilled register */
    /* share added when nearly all registers are alive at once, and when that is close */
    double may_spill, near_spill;
    /* of a launch: clocks to make it, and to begin and end a block, besides this share of an
     * iteration */
    double launch, begin, fill;
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
    int32_t tmem_columns; /* of tensor memory, which one SM has; 0: none */

    /* rates of one SM, a clock: for the cost model */
    int32_t mma_flops[ISSUERS]; /* dense 16-bit, f32 accumulators, by who issues them */
    int32_t special_ops;        /* ex2, rcp, .. */
    int32_t float_ops;          /* f32 lanes */
    int32_t shared_bytes;
    double memory_bytes;   /* that memory gives an SM in a clock while all ask; 0: not known */
    int32_t memory_clocks; /* latency of a copy from memory */
    int32_t copy_flight;   /* bytes of copies that an SM has under way, at most, while all ask */
    int32_t global_bytes;  /* of loads and stores, through the L2 cache */
    int32_t copy_bytes;    /* that one SM of a busy chip gets from the L2 cache */
    int32_t copy_clocks;   /* latency of a copy from the L2 cache */
    /* that a warp takes to ask for a box of a tensor; for one that ends at a loaded number; 0: not
     * known */
    int32_t box_clocks, ended_box_clocks;

    int32_t sm_count, clock_mhz; /* SMs of the chip; clock under heavy load: for predictions */
    int32_t burst_mhz;           /* clock of a chip that is below its power limit */
    /* bytes of the L2 cache that the tiles in use by running programs should fit into */
    int32_t cache_share;
    LoopTimes loop_times;
} Chip;

/* Of a thread, when roles have parted. */
typedef struct RoleRegisters {
    uint32_t producer, consumer;
} RoleRegisters;

typedef struct Target {
    const char *name;        /* as the user says it: "sm_90" */
    const char *ptx_target;  /* behind .target */
    const char *ptx_version; /* behind .version */
    int32_t capability;      /* 80, 90, 100: what the launcher compares with the device */
    const char *description;

    int32_t registers_per_thread;
    Chip chip;

    /* how products are summed, where that is known to the bit (docs/simulator-isa.md): those of so
     * many bytes of an operand's row at a time, cut to so many bits below the largest exponent, of
     * 8-bit floats to others; 0: it is not */
    struct {
        uint32_t bytes;
        int32_t bits, narrow_bits;
    } product_sums;

    uint32_t abilities; /* a set of Ability */
    const MmaForm *mma;
    uint32_t n_mma;
    const CopyForm *copies;
    uint32_t n_copies;
    /* the .target of kernels that use instructions of this architecture alone (no other chip runs
     * them);
     * NULL: such instructions are not used */
    const char *ptx_target_exact;
    /* by ClockRow, for the timing model; NULL: there is none of this target */
    const ClockFact *clock;

    /* ---- kernels that have roles ---- */
    RoleRegisters
        role_registers[TARGET_GROUPS]; /* of a thread, by the number of computing warp groups */
    RoleRegisters dynamic_registers[TARGET_GROUPS]; /* the same, with the dynamic tile scheduler */
    /* the same for two, where the main loop's bounds are numbers in memory, which the producer
     * reads, too; 0: as above */
    RoleRegisters reading_registers;
    RoleRegisters
        half_registers; /* the same for one consumer, where an SM has two blocks; 0: it can not */
    /* where a warp group of its own adds results in tensor memory to memory: the producer's, and
     * its own besides one for each column that it holds; 0: there is no such role */
    uint32_t producer_beside_adder, adder_beside_columns;
    /* where one changes sums in tensor memory between products: the producer's, and its own, at
     * least; 0: there is no such role */
    uint32_t producer_beside_correction, correction_registers;
    uint32_t
        /* the producer's, where warps of its group load scales for one consumer's products */
        producer_with_scales;
    int32_t group_other_registers[TARGET_GROUPS]; /* how many of those are not for accumulators */
    int32_t group_tile_bytes; /* shared memory for tiles; the rest is for barriers and vectors */
    double exchange; /* clocks for a value to go from one warp group to another; 0: not measured */
    ConsumerTimes consumer_times;
    LaunchTimes launch_times;

    /* ---- additions to memory ---- */
    int32_t addition_bytes; /* the most a lane adds at once: red.global.add.v2.f32, .v4.f32 */
    /* bytes of a row that lanes should add together: longer pieces cost the L2 cache less, but take
       exchanges between lanes */
    int32_t addition_piece;
    double addition_clocks; /* of an SM, for 4 bytes: fitted */

    /* Whether imply-masks leaves out a padding mask when a mask of the program hides the same
     * elements.  Off for sm_80: without that mask in the last iterations ptxas 13.0 spills 4 bytes
     * in the others (attention, 112 keys a tile). */
    bool drops_hidden_padding;
    /* Whether it masks a value for all that is computed of it, where what follows is neutral then
     * by itself (exponentials of -inf are zero), in place of a mask for each reduction. */
    bool masks_once;
    /* Whether what grows evenly in a loop is carried through it (lir_carry.c).  It pays where a
     * role's loop is long; what it sets in front of the loop makes kernels of few iterations slower
     * (H200: decoding and attention_split 2 to 6 %). */
    bool carries_addresses;
    /* Whether of two phases that are each other's opposite one register is made (lir_merge.c). */
    bool merges_opposites;
    /* Whether kernels with several small loads have a program for launches of even rows, which
     * issues them together (lower_even.c). Measured on an H200 alone: add of 16 x 1000 in 4.9 us
     * instead of 5.3. */
    bool streams_even_rows;
    /* Whether what multiply-adds read in turns lies in registers beside one another (lir_pair.c).
     * Measured on an H200 alone. */
    bool pairs_operands;
    /* Whether a loop that leaves out part of its body only at its end becomes two (lir_split.c). */
    bool splits_at_ends;
} Target;

/* The targets, in order of --list-targets. */
extern const Target *const tilec_targets[];
extern const uint32_t tilec_target_count;
/* Finds a target by what the user says after -arch: its name, or the name with the letter `a`.
 * NULL when there is none. */
const Target *target_find(const char *name);
/* What to take in place of a name that is no target's. */
const char *target_hint(Arena *arena, const char *name);
/* The instructions of `target` with the chip facts of `chip` (-mtune); NULL: that chip does not run
 * them. */
const Target *target_tuned(Arena *arena, const Target *target, const Target *chip);
/* What launch expressions are told of the chip. */
Device target_device(const Target *target);
/* Whether it has all of a set of abilities. */
bool target_can(const Target *target, uint32_t abilities);
/* Floating-point operations of one SM in a clock, by instructions of a form. */
double target_mma_flops(const Target *target, const MmaForm *form);
/* The product of two element types that `issuer` issues; NULL when the target has none. */
const MmaForm *target_mma(const Target *target, Issuer issuer, DType a, DType b);
/* A warp's form; where there is none for such operands, that of a type in which both are exact. */
const MmaForm *target_warp_mma(const Target *target, DType a, DType b);
/* The same with scales of a type for blocks of the inner dimension. */
const MmaForm *target_scaled_mma(const Target *target, Issuer issuer, DType a, DType b, DType scale);
/* The form with that mnemonic, a number in place of %d; NULL when the target has none. */
const MmaForm *target_mma_named(const Target *target, const char *mnemonic);
/* The one that a thread issues for two blocks; NULL when the target has none. */
const MmaForm *target_pair_mma(const Target *target, DType a, DType b);
/* Bytes a clock that an SM sends to another one of its cluster, and that it adds to memory while
 * all SMs do; clocks until what was sent is there: by the target's clock. */
typedef struct PairRates {
    double sent, added, latency;
} PairRates;
PairRates target_pair_rates(const Target *target);
/* Registers of a thread when a block with `consumers` consumers starts, before setmaxnreg: ptxas
 * allots no more than these to any instruction. */
int32_t target_entry_registers(const Target *target, uint32_t consumers);
/* Whether they hold the result of a product with so many columns, where an SM has so many
 * blocks. */
bool target_holds_result(const Target *target, uint32_t consumers, uint32_t blocks, int32_t columns);
/* Blocks of an SM whose roles take `registers` each: at least one. */
uint32_t target_blocks(const Target *target, uint32_t registers);
/* Shared memory that a block may ask for where an SM has `blocks`. */
int32_t target_shared_limit(const Target *target, uint32_t blocks);
/* .. for tiles: without barriers, vectors and what aligning takes. */
int32_t target_tile_limit(const Target *target, uint32_t blocks);
/* NULL when the target has no copies of that kind. */
const CopyForm *target_copy(const Target *target, CopyKind kind);
/* Whether it has products that `issuer` issues, of any type. */
bool target_has_mma(const Target *target, Issuer issuer);
/* Who issues the products of a consumer: a thread for it, the warp group, or each of its four
 * warps. */
Issuer target_issuer(const Target *target);
/* The MMA form that a consumer uses for operands of two types; NULL when its issuer has none. */
const MmaForm *target_role_mma(const Target *target, DType a, DType b);
/* The same with scales of a type. */
const MmaForm *target_role_scaled_mma(const Target *target, DType a, DType b, DType scale);
/* Whether blocks can have roles: needs tensor copies that complete at barriers, and setmaxnreg. */
bool target_has_roles(const Target *target);
/* Whether the record has the times of kernels with roles, so that `auto` may choose them. */
bool target_predicts_roles(const Target *target);

#endif
