/* isa.h - figures of the PTX ISA that hold wherever an instruction exists; what differs from chip
 * to chip is in compiler/target.h.  Each says where the ISA has it.
 */
#ifndef TILEC_IR_ISA_H
#define TILEC_IR_ISA_H

/* clang-format off */
enum {
    WARP_LANES = 32,
    /* "wgmma.mma_async": four neighbouring warps, of which each has 16 of the 64 rows */
    GROUP_WARPS = 4,
    GROUP_LANES = GROUP_WARPS * WARP_LANES,
    GROUP_ROWS = 64,
    /* "mma.sync.m16n8k*" */
    MMA_ROWS = 16,
    MMA_COLS = 8,
    MMA_NARROW_SUMS = 128, /* of k, which forms of narrow sums may add up */
    MMA_BYTES = 32, /* of k, whatever the type of the operands */
    /* "ldmatrix": a matrix has so many rows of 16 bytes */
    MATRIX_ROWS = 8,
    /* "Shared Memory Matrix Layout", "Tensor Swizzling Modes": the widest swizzle permutes pieces
     * of 16 bytes in rows of 128, anew in each of 8 rows; its pattern begins at multiples of 1024.
     * The others have rows of 64 and of 32 bytes */
    SWIZZLE_PIECE = 16,
    SWIZZLE_BYTES = 128,
    SWIZZLE_LEAST = 32,
    SWIZZLE_ROWS = 8,
    SWIZZLE_BITS = 3, /* of a piece's number in its row */
    SWIZZLE_SPAN = SWIZZLE_BYTES * SWIZZLE_ROWS,
    /* "Tensor Memory": rows, which the instructions call lanes; of these a warp reaches those of
     * its number in its warp group; columns, of 32 bits, are allocated by powers of two from 32
     * on */
    MATRIX_COLUMNS = 8,
    TMEM_LANES = 128,
    TMEM_LEAST = 32,
    TMEM_STEP = 16, /* columns of a product are a multiple of it */
    PIECE_COLUMNS = 16, /* of an operand there: what an instruction multiplies */
    /* "mbarrier": an object; how many arrivals a phase may expect */
    MBARRIER_BYTES = 8,
    MBARRIER_ARRIVALS = (1 << 20) - 1,
    /* "bar, barrier": of a block, numbered from 0 */
    NAMED_BARRIERS = 16,
    /* "setmaxnreg": multiples of 8 from 24 to 256; a thread has 255 */
    REGISTER_STEP = 8,
    REGISTERS_LEAST = 24,
    SM_REGISTERS = 65536, /* CUDA C++ Programming Guide, "Compute Capabilities": of an SM */
    /* CUDA Driver API, cuTensorMapEncodeTiled: indices of a box along a dimension, dimensions, and
     * what addresses, strides and rows of a box are multiples of */
    BOX_MOST = 256,
    BOX_RANK = 5,
    BOX_UNIT = 16,
    BOX_ALIGN = 128 /* "cp.async.bulk.tensor": where it begins in shared memory */
};
/* clang-format on */

/* Warp groups of a block that compute, at most: beside the one that copies they have 112 registers
 * a thread, of the 64 K of an SM; with more, too few for sums of 64 rows. */
enum { MOST_CONSUMERS = 4 };

#endif
