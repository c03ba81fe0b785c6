/* cost.h - how long a kernel takes on a target, estimated from its tile IR.
 *
 * The estimate counts what the operations ask of each unit of an SM: products, shared memory,
 * special functions, f32 lanes, instruction issue, global memory, additions to memory, barriers.
 * It knows nothing of what a kernel computes.
 */
#ifndef TILEC_COST_H
#define TILEC_COST_H

#include "compiler/ir/tir.h"
#include "compiler/passes/pass.h"

/* What a block asks of its SM, in clocks of the unit that does it. */
typedef struct CostUnits {
    double tensor;   /* products */
    double shared;   /* bytes to and from shared memory */
    double special;  /* exp2, rcp, .. */
    double lanes;    /* f32 arithmetic and all else that goes through the lanes */
    double global;   /* bytes to and from global memory */
    double atomic;   /* additions to memory */
    double barriers; /* how many */
    double rounds;   /* iterations of loops with products */
    double waits;    /* how many, for copies that nothing runs ahead of */
    double turns;    /* how many, for copies that a product ran ahead of */
} CostUnits;

typedef struct Cost {
    bool fits;            /* within the limits of the target */
    const char *misfit;   /* why not */
    int32_t registers;    /* that a thread would like to have */
    int32_t kept;         /* of these: operands of products that stay in registers over a loop */
    int32_t spilled;      /* beyond what a thread can have */
    int32_t alive;        /* at once in the code that was made of it; 0: none was made */
    int32_t shared_bytes; /* of a block */
    int32_t blocks;       /* on an SM at once */
    CostUnits units;      /* of one block */
    /* of one block, with `blocks` of them on each SM: the time of the SM over the blocks it runs in
       that time */
    double clocks;
    double work;     /* multiply-adds that the program asked for; without products elements */
    double per_work; /* clocks for 1024 units of work: what is compared */
} Cost;

/* Of a kernel on which the passes up to place_sync have run. */
void cost_estimate(PassContext *px, TirFn *fn, Cost *cost);
/* Of a kernel as the front end made it, for `warps` warps and `stages` buffers: a guess that needs
 * no pass.  Registers and shared memory are lower bounds: what does not fit here does not fit. */
void cost_guess(PassContext *px, const TirFn *fn, uint32_t warps, uint32_t stages, Cost *cost);

/* Whether a kernel needs so many registers, by the estimate, that its code should be made to see. */
bool cost_is_tight(const Target *target, const Cost *cost);
/* Takes account of the registers that are alive at once in the code that was made. */
void cost_settle(const Target *target, uint32_t alive, Cost *cost);

/* How often a block of an operation is gone through, whenever the operation is: rows seldom take a
 * branch for themselves. */
double cost_share(const TirOp *op, uint32_t block);

#endif
