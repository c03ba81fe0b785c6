/* types.h - types of tiles, shared by tile IR and its makers. */
#ifndef TILEC_IR_TYPES_H
#define TILEC_IR_TYPES_H

#include "compiler/base/dtype.h"

enum { TIR_MAX_RANK = 4, TENSOR_MAX_RANK = 6 };

/* Passes count elements, registers and bytes in 32 bits; within these limits, which the verifier
 * keeps, they have room to.  TILE: of each value; SHARED: of a stage, whose rows are rounded up,
 * and far more bytes than any chip has, so that a kernel that needs too much is refused with the
 * chip's own number. */
enum {
    TILE_MAX_EXTENT = 16384,
    TILE_MAX_ELEMENTS = 1 << 17,
    SHARED_MAX_ELEMENTS = 8 * TILE_MAX_ELEMENTS,
    SHARED_MAX_STAGES = 64,
    SHARED_MAX_BYTES = 4 * SHARED_MAX_ELEMENTS * SHARED_MAX_STAGES,
    LOOP_MAX_STAGES = 16,
    /* some passes go through a body twice, and each time through what is inside */
    LOOP_MAX_DEPTH = 12,
    BLOCK_MAX_WARPS = 32 /* 1024 threads */
};

/* Whether a block may have so many warps, or 0, which says nothing: tiles go to halves of them. */
static inline bool
warps_divide(uint32_t warps)
{
    return warps <= BLOCK_MAX_WARPS && (warps & (warps - 1)) == 0;
}

/* A scalar (rank 0) or a tile with compile-time extents. */
typedef struct TirType {
    DType dtype;
    uint32_t rank;
    int32_t dim[TIR_MAX_RANK];
} TirType;

#endif
