/* tir_walk.c - goes through operations and what they read. */
#include "compiler/ir/tir_walk.h"

TirWalk
tir_walk(const TirBlock *block)
{
    return (TirWalk){.block = (TirBlock *)block, .root = block};
}

TirWalk
tir_walk_op(const TirOp *op)
{
    return (TirWalk){.top = op};
}

/* Goes on behind the operation that owns the block at hand, or to its next block; false: that was
 * all. */
static bool
leave_block(TirWalk *walk)
{
    TirOp *owner = walk->block == walk->root ? NULL : walk->block->owner;
    uint32_t k = 0;

    if (owner == NULL)
        return false;
    while (owner->blocks[k] != walk->block)
        k++;
    walk->next = 0;
    if (k + 1 < owner->n_blocks) {
        walk->block = owner->blocks[k + 1];
        return true;
    }
    if (owner == walk->top)
        return false;
    walk->block = owner->parent;
    while (walk->block->ops.at[walk->next] != owner)
        walk->next++;
    walk->next++;
    return true;
}

bool
tir_walk_on(TirWalk *walk)
{
    if (walk->op == NULL && walk->top != NULL) {
        walk->op = (TirOp *)walk->top;
        return true;
    }
    if (walk->op != NULL && walk->op->n_blocks > 0) {
        walk->block = walk->op->blocks[0];
        walk->next = 0;
    } else if (walk->op != NULL && walk->op == walk->top) {
        return false;
    }
    while (walk->next == walk->block->ops.n) {
        if (!leave_block(walk))
            return false;
    }
    walk->op = walk->block->ops.at[walk->next++];
    walk->left = (walk->block->ops.n - walk->next) * (walk->op->n_blocks == 0);
    return true;
}

TirReads
tir_reads(const TirOp *op)
{
    return (TirReads){.walk = tir_walk_op(op), .arg = UINT32_MAX};
}

bool
tir_reads_next(TirReads *reads)
{
    reads->arg++; /* to 0, at first */
    while (reads->walk.op == NULL || reads->arg == reads->walk.op->n_args) {
        if (!tir_walk_next(&reads->walk))
            return false;
        reads->arg = 0;
    }
    reads->op = reads->walk.op;
    reads->value = reads->op->args[reads->arg];
    return true;
}
