/* mma_use.h - what a product asks of the tensor cores and of shared memory. */
#ifndef TILEC_COST_MMA_USE_H
#define TILEC_COST_MMA_USE_H

#include "compiler/target.h"

typedef struct MmaUse {
    double clocks; /* of the tensor cores of an SM */
    double bytes;  /* of operands, through the port of shared memory */
} MmaUse;

/* The use of a product a[rows, depth] b[depth, cols] by warp groups (or by the four warps of a
 * role).  b is in shared memory and is read once for every 64 rows; a is in registers or in shared
 * memory. */
MmaUse mma_use(const Target *target, const MmaForm *form, double rows, double cols, double depth,
               bool left_in_shared);
/* Bytes of so many elements of an operand. */
double mma_bytes(const MmaForm *form, double elements);

#endif
