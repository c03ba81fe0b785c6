/* tir_walk.h - goes through operations, and the operations in the blocks that they own, in the
 * order of the text.
 *
 *     for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);)       .. walk.op ..
 *     for (TirReads reads = tir_reads(op); tir_reads_next(&reads);)     .. reads.value ..
 *
 * Meanwhile no operation may come or go in these blocks.
 */
#ifndef TILEC_IR_TIR_WALK_H
#define TILEC_IR_TIR_WALK_H

#include "compiler/ir/tir.h"

typedef struct TirWalk {
    TirOp *op; /* at hand */
    TirBlock *block;
    uint32_t next; /* place in that block */
    const TirBlock *root;
    const TirOp *top;
    uint32_t
        /* operations behind the one at hand in its block; 0 where it owns blocks, to which the walk
         * goes */
        left;
} TirWalk;

TirWalk tir_walk(const TirBlock *block);
/* The operation itself, then those that it owns. */
TirWalk tir_walk_op(const TirOp *op);
bool tir_walk_on(TirWalk *walk); /* from block to block */

static inline bool
tir_walk_next(TirWalk *walk)
{
    if (walk->left == 0)
        return tir_walk_on(walk);
    walk->op = walk->block->ops.at[walk->next++];
    walk->left = (walk->left - 1) * (walk->op->n_blocks == 0);
    return true;
}

/* What an operation, or one that it owns, reads. */
typedef struct TirReads {
    TirVal *value;
    const TirOp *op; /* that reads it */
    uint32_t arg;    /* as which operand */
    TirWalk walk;
} TirReads;

TirReads tir_reads(const TirOp *op);
bool tir_reads_next(TirReads *reads);

#endif
