/* flow.h - the products of a kernel's main loop, and what flows between them.
 *
 * All that the accounting of divisions (group_plans.h) needs to know of a kernel: the sizes of its
 * products, which operands come from memory and which from other products, what lives from one
 * iteration to the next, which results are alive together, and which products must be divided in
 * the same way.
 */
#ifndef TILEC_FLOW_H
#define TILEC_FLOW_H

#include "compiler/ir/tir.h"

enum { FLOW_MMAS = 16, FLOW_TILES = 24, FLOW_TIES = 16 };

/* A tile of 16-bit elements that is loaded into shared memory to be an operand. */
typedef struct FlowTile {
    const TirVal *value;
    const char *name;
    int32_t rows, cols; /* a whole dimension at the end is rounded up to FLOW_ROUND */
    bool whole;         /* cols are the whole of the tensor's last dimension */
    bool in_loop;       /* a new one in each iteration */
    uint32_t first_use; /* the first product that reads it */
} FlowTile;

enum { FLOW_ROUND = 32 }; /* elements: the least box of a swizzle with 64 bytes */

/* A tile that is computed from products and is an operand of others. */
typedef struct FlowValue {
    const TirVal *value;
    int32_t rows, cols;
    uint32_t mmas;   /* bits: the products that it is computed from */
    uint32_t mma;    /* one of them, with the same rows and columns .. */
    bool transposed; /* .. or with rows and columns exchanged */
} FlowValue;

typedef enum FlowOrigin { FLOW_LOADED, FLOW_COMPUTED } FlowOrigin;

typedef struct FlowOperand {
    FlowOrigin origin;
    uint32_t index;  /* of the tile or the value */
    bool transposed; /* its transpose is the operand */
} FlowOperand;

typedef struct FlowMma {
    const TirOp *op;
    const char *name;
    int32_t m, n, k;
    FlowOperand a, b;
    bool open_depth; /* k is a tile of a longer contraction, which the loop goes along */
    bool carried;    /* accumulates over the loop */
    bool onto;       /* accumulates onto another product of the same iteration */
    /* of an element, if the result goes to memory in each iteration; else 0 */
    int32_t output_bytes;
    bool reduced[2];   /* a reduction runs along this dimension of the result */
    uint32_t division; /* products with the same number are divided among warp groups alike */
    uint32_t alive;    /* new results with the same number are alive together */
} FlowMma;

typedef struct Flow {
    const TirOp *loop;
    FlowMma mmas[FLOW_MMAS];
    uint32_t n_mmas;
    FlowTile tiles[FLOW_TILES];
    uint32_t n_tiles;
    FlowValue values[FLOW_TILES];
    uint32_t n_values;
    uint32_t divisions;
    /* pairs of products: the rows of one meet statistics of the columns of the other, so that they
     * are divided alike if exactly one of them is transposed */
    uint32_t ties[FLOW_TIES][2];
    uint32_t n_ties;
    int64_t final_bytes;  /* tiles of products that are stored after the loop */
    uint32_t outside;     /* products that are not in the main loop */
    const char *obstacle; /* why there is no plan; NULL: nothing stands against one */
    Span where;
} Flow;

/* Fills in `flow` from a kernel on which the passes up to `fuse` have run.  Returns whether there
 * is a loop with products that a plan can be made for. */
bool flow_read(Arena *arena, const TirFn *fn, Flow *flow);

#endif
