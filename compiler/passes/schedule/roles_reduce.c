/* roles_reduce.c - the reduce role: warps that add the consumers' tiles to memory, and do nothing
 * else.
 *
 * A TMA reduction reads shared memory long after it was issued, and a consumer that waited for it
 * would hold up the products of all.  So a consumer leaves its tile in its staging buffer and goes
 * on; a reduce warp, one for each consumer, in the producer's warp group, issues the reduction and
 * signals when the buffer has been read:
 *
 *     consumer     { ..  staging_write .. }
 *     reduce warp  { staging_empty;  tma_reduce_add }
 *
 * A reduce warp runs its consumer's program, reduced to the loops and branches around the additions
 * and the coordinates these need: nothing but the tile has to be handed over.
 */
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/schedule/roles.h"

#include <string.h>

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

/* The scalar computed again; false: it does not follow from the launch and the loops. */
static bool
again(TirBuilder *b, CloneMap *map, TirVal *value, TirVal **out)
{
    *out = clone_scalar_tree(b, map, value);
    return *out != NULL;
}

/* The addition without the tile, which lies in the staging buffer. */
static bool
take_reduction(TirBuilder *b, CloneMap *map, const TirOp *op)
{
    TirVal *args[TENSOR_MAX_RANK + 1];
    uint32_t n = op->n_args - 1;

    roles_plain(b, TIR_STAGING_EMPTY, op->shared, 0);
    for (uint32_t k = 0; k < n; k++) {
        if (!again(b, map, op->args[k], &args[k]))
            return false;
    }
    b->span = op->span;
    TirOp *add = tir_op_new(b, TIR_TMA_REDUCE_ADD, n, args, 0, NULL);
    tir_copy_place(add, op);
    add->shared = op->shared;
    return true;
}

static bool take_reductions(TirBuilder *b, const CloneMap *outer, const TirBlock *block);

/* Appends the loop or the branch with no more than its additions. */
static bool
take_around(TirBuilder *b, CloneMap *map, const TirOp *op)
{
    TirBlock *around = b->block;
    TirVal *from[2] = {NULL, NULL};
    uint32_t n = op->op == TIR_FOR ? 2 : 1; /* a range or a condition */
    TirOp *taken;

    for (uint32_t k = 0; k < n; k++) {
        if ((op->op != TIR_FOR && op->op != TIR_IF) || !again(b, map, op->args[k], &from[k]))
            return false;
    }
    taken = op->op == TIR_FOR ? tir_for(b, from[0], from[1], 0, NULL) : tir_if(b, from[0], 0, NULL);
    taken->span = op->span;
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        b->block = taken->blocks[k];
        CloneMap inner = clone_map_copy(b->fn, map);
        if (op->op == TIR_FOR)
            clone_set(&inner, op->blocks[k]->params.at[0], taken->blocks[k]->params.at[0]);
        if (!take_reductions(b, &inner, op->blocks[k]))
            return false;
        tir_yield(b, 0, NULL);
    }
    b->block = around;
    return true;
}

/* Appends to the builder's block what `block` adds. */
static bool
take_reductions(TirBuilder *b, const CloneMap *outer, const TirBlock *block)
{
    CloneMap map = clone_map_copy(b->fn, outer); /* what is made here is not known outside */

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool around = false;
        b->span = op->span;
        if (op->op == TIR_TMA_REDUCE_ADD && !take_reduction(b, &map, op))
            return false;
        for (uint32_t k = 0; k < op->n_blocks && !around; k++)
            around = has_operation(op->blocks[k], TIR_TMA_REDUCE_ADD);
        if (around && !take_around(b, &map, op))
            return false;
    }
    return true;
}

/* Whether an operation only makes a scalar that nobody in the program reads. */
static bool
is_dead_scalar(const TirFn *fn, const TirOp *op)
{
    return (tir_op_info(op->op)->flags & TF_PURE) != 0 && op->n_results == 1 &&
           op->results[0]->type.rank == 0 && count_uses(fn, op->results[0]) == 0;
}

/* Lets the consumers leave their tiles in the staging buffers, and drops the coordinates in front
 * of that. */
static void
leave_tiles(TirFn *fn, TirBlock *block)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            leave_tiles(fn, op->blocks[k]);
        if (op->op == TIR_TMA_REDUCE_ADD) {
            op->op = TIR_STAGING_WRITE;
            op->args[0] = op->args[op->n_args - 1];
            op->n_args = 1;
            op->tensor = NULL;
            memset(op->index, 0, sizeof op->index);
            while (n > 0 && is_dead_scalar(fn, block->ops.at[n - 1]))
                block->ops.at[--n]->n_args = 0;
        }
        block->ops.at[n++] = op;
    }
    block->ops.n = n;
}

void
roles_make_reduce(Roles *r)
{
    TirFn *fn = r->fn;

    if (!has_operation(fn->body, TIR_TMA_REDUCE_ADD))
        return;
    TirBlock *program = tir_block_new(fn);
    TirBuilder b = {.fn = fn, .block = program, .at = -1, .span = fn->span};
    CloneMap map = clone_map(fn);
    if (!take_reductions(&b, &map, fn->body))
        buf_add(r->px->bugs, "where a tile is added to memory does not follow from the launch\n");
    leave_tiles(fn, fn->body);
    tir_role_add(fn, ROLE_REDUCE, 1, tir_consumers(fn->plan), 0)->program = program;
}
