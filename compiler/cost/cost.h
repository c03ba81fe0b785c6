/* cost.h - how long a kernel takes on a target, estimated from its tile IR.
 *
 * The estimate counts what the operations ask of each unit of an SM: products, shared memory,
 * special functions, f32 lanes, instruction issue, global memory, additions to memory, barriers.
 * It knows nothing of what a kernel computes.
 */
#ifndef TILEC_COST_H
#define TILEC_COST_H

#include "compiler/ir/lir.h"
#include "compiler/ir/tir.h"
#include "compiler/passes/pass.h"

/* Warps of an SM below which latency shows: two for each of its four schedulers. */
enum { FULL_WARPS = 8 };

/* Blocks of an SM at once for which times are kept: 1, 2, 3 and the most.  From three on what more
 * of them take is even. */
enum { COST_CROWDS = 4 };

/* The work of a block, in clocks of the unit that does it, or counted. */
typedef struct CostUnits {
    double tensor;     /* products */
    double shared;     /* bytes to and from shared memory */
    double special;    /* exp2, rcp, .. */
    double lanes;      /* f32 arithmetic and all other instructions of the lanes */
    double global;     /* bytes to and from global memory */
    double atomic;     /* additions to memory */
    double barriers;   /* number of barriers */
    double rounds;     /* number of iterations of loops with products */
    double iterations; /* the same of all loops */
    double waits;      /* number of waits for copies that were just started */
    double turns;      /* number of waits for copies that a product ran in front of */
} CostUnits;

typedef struct Cost {
    bool fits;            /* it is within the limits of the target */
    const char *misfit;   /* if not: which limit */
    int32_t registers;    /* of a thread, without a limit */
    int32_t kept;         /* how many of these hold operands over a loop */
    int32_t spilled;      /* how many exceed the limit */
    int32_t alive;        /* alive at once in the lowered code; 0: it was not lowered */
    int32_t shared_bytes; /* of a block */
    int32_t blocks;       /* on an SM at once */
    int32_t most_blocks;  /* the same, had it any amount of shared memory */
    CostUnits units;      /* of one block */
    /* of one block: the time in which an SM runs `blocks` blocks, divided by `blocks` */
    double clocks;
    double beside[COST_CROWDS]; /* the same with 1, 2, 3 and `most_blocks` blocks at once */
    double work;                /* multiply-adds of the program; elements if it has no products */
    double per_work; /* clocks for 1024 units of work: the figure that choices are compared by */
} Cost;

/* Of a kernel on which the passes up to place_sync have run. */
void cost_estimate(PassContext *px, TirFn *fn, Cost *cost);
/* A guess that needs no pass, from the front end's tile IR, for `warps` warps and any stages. */
typedef struct CostGuess {
    Cost cost;
    uint32_t warps;
    int64_t once, staged; /* bytes of shared memory, for all stages and for each */
} CostGuess;
CostGuess cost_guess(PassContext *px, const TirFn *fn, uint32_t warps);
/* The same with `stages` stages.  Registers and shared memory are lower bounds: a kernel that does
 * not fit here does not fit. */
void cost_guess_with(PassContext *px, const CostGuess *guess, uint32_t stages, Cost *cost);

/* Whether the estimated registers are so close to the limit that the kernel should be lowered to
 * count them. */
bool cost_is_tight(const Target *target, const Cost *cost);
/* The figure that choices are compared by, and the least that it may be once the registers were
 * counted in the lowered code. */
double cost_at_best(const Target *target, const Cost *cost);
/* Puts what the lowered code needs in the place of the estimated registers.  False: ptxas is likely
 * to spill some. */
bool cost_settle(const Target *target, const LirNeed *need, Cost *cost);

/* How often a block of an operation runs for each time the operation does: branches that rows take
 * by themselves (@by_rows) are rare. */
double cost_share(const TirOp *op, uint32_t block);

#endif
