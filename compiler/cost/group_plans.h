/* group_plans.h - the accounting of `tilec search`: the ways in which warp groups can share the
 * products of a loop, whether or not there is code for them, and the registers, shared memory and
 * shared memory traffic of each.
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

typedef struct GroupPlan {
    uint32_t consumers;
    /* by division: whether products are computed transposed; how many warp groups lie along the
     * rows of the result as the program has it (the others lie along its columns) */
    bool swapped[FLOW_MMAS];
    uint8_t row_groups[FLOW_MMAS];
    bool registers_wanted; /* computed left operands stay in registers where they can */
    /* the next iteration's first product before this one's arithmetic */
    bool pipelined;
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
} GroupPlan;

typedef VEC(GroupPlan) GroupPlans;

/* Adds all plans for `consumers` warp groups within the limits of the target; `stages`: of the
 * loop's tiles, 0: chosen here.  False if there are more divisions than are tried. */
bool group_plans(Arena *arena, const Target *target, const Flow *flow, uint32_t consumers,
                 uint32_t stages, GroupPlans *out);

#endif
