/* group_plans.h - the ways in which warp groups can share the products of a loop, and the registers, shared
 * memory, shared memory traffic and time of each.
 *
 * One warp group copies tiles into shared memory, `consumers` others compute.  A product of a warp
 * group has 64 rows, its left operand in shared memory or in registers, its right one in shared
 * memory.  For every product there is a choice: to compute it or its transpose, and along which
 * side of the result the warp groups divide it.
 */
#ifndef TILEC_GROUP_PLANS_H
#define TILEC_GROUP_PLANS_H

#include "compiler/cost/flow.h"
#include "compiler/target.h"

/* An estimate of an SM's clocks for one iteration of the loop, by the unit that does it. */
typedef struct GroupClocks {
    double tensor;   /* products */
    double port;     /* bytes to and from shared memory */
    double special;  /* exp2, .. */
    double lanes;    /* other arithmetic */
    double chain;    /* of one warp group, what must follow one another */
    double exchange; /* of values between warp groups */
    double total;
} GroupClocks;

typedef struct GroupPlan {
    uint32_t consumers;
    /* by division: whether products are computed transposed; how many warp groups lie along the
     * rows of the result as the program has it (the others lie along its columns) */
    bool swapped[FLOW_MMAS];
    uint8_t row_groups[FLOW_MMAS];
    bool registers_wanted; /* computed left operands stay in registers where they can */
    /* the next iteration's first product before this one's arithmetic */
    bool pipelined;
    bool exchanges;                    /* some value goes from warp group to warp group */
    uint8_t stages[FLOW_TILES];        /* of each tile */
    uint32_t from_registers;           /* bits: the left operand of this product is in registers */
    uint32_t staged;                   /* bits: this value goes through shared memory */
    int32_t registers, register_limit; /* of accumulators, a thread */
    int64_t shared_bytes;              /* of tiles */
    /* bytes through the port of shared memory in an iteration, but for .. */
    int64_t traffic;
    int64_t copied; /* .. those that copies bring */
    /* traffic for each element of the first product; where the loop goes along its depth, for 64 of
       that */
    double per_element;
    GroupClocks clocks;
} GroupPlan;

typedef VEC(GroupPlan) GroupPlans;

/* Why there is no plan: what the nearest ones would need. */
typedef struct GroupNeeds {
    uint32_t divisions; /* how many the instructions can do */
    /* of the plan that exceeds its limit the least; both 0: some plan has enough registers */
    int32_t registers, register_limit;
    int64_t shared_bytes; /* of the smallest plan that has enough registers */
    bool cut;             /* there were too many divisions to try them all */
    const TirOp *missing; /* a product that warp groups have no instruction for */
} GroupNeeds;

/* Adds all plans for `consumers` warp groups within the limits of the target; `stages`: of the loop's tiles, 0:
 * chosen here.  `needs` accumulates over calls; set it to zeros before the first. */
void group_plans(Arena *arena, const Target *target, const Flow *flow, uint32_t consumers,
                 uint32_t stages, GroupPlans *out, GroupNeeds *needs);
/* Fills in the clocks but for those of the tensor cores, which the plan has. */
void group_clocks(const Target *target, const Flow *flow, GroupPlan *plan);

#endif
