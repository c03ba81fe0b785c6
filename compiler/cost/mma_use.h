/* mma_use.h - what a product with operands of 16 bits asks of the tensor cores and of shared memory. */
#ifndef TILEC_COST_MMA_USE_H
#define TILEC_COST_MMA_USE_H

#include "compiler/target.h"

enum { OPERAND_BYTES = 2 };

typedef struct MmaUse {
    double clocks; /* of the tensor cores of an SM */
    double bytes;  /* of operands, through the port of shared memory */
} MmaUse;

/* Of a product of warp groups (or of the four warps of a role), as its instructions see it: a[rows, depth]
 * b[depth, cols], b in shared memory, which each group of 64 rows reads anew; a in registers or there, too. */
MmaUse mma_use(const Target *target, double rows, double cols, double depth, bool left_in_shared);
/* The form of the products of one warp. */
const MmaForm *mma_of_warp(const Target *target);

#endif
