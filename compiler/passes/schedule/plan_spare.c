/* plan_spare.c - what shared memory is left over for, where consumers divide the tiles of a program.
 *
 * Tiles come in parts there, which all consumers read, and a stage of all of them is most of shared memory.  What is left
 * may have room for a second stage of the tile that an iteration reads to its end: else its next one is asked for when
 * nothing is left to compute.  The producer then fills it first, and products that read it begin an iteration
 * (roles_order.c, stages_order.c), so that there is arithmetic to do while the others run.  (H200, attention's backward at head
 * dimension 192: 0.3 to 4.7 % less time, both of its kernels counted.)
 */
#include "compiler/passes/schedule/plan.h"

enum { BESIDE_TILES = 2048 }; /* vectors, barriers */

/* With whole swizzle atoms. */
static int64_t
stage_bytes(TirType type)
{
    int64_t width = SWIZZLE_BYTES * 8 / dtype_bits(type.dtype), rows = type.dim[0],
            cols = type.dim[1];

    return (rows + SWIZZLE_ROWS - 1) / SWIZZLE_ROWS * ((cols + width - 1) / width) * SWIZZLE_SPAN;
}

/* The tile that the last product over all consumers reads, as this consumer's part of it; NULL: none. */
static const TirOp *
last_in_parts(const TirBlock *body)
{
    const TirOp *last = NULL, *found = NULL;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i], *part = op->op == TIR_MMA ? op->args[1]->def : NULL;
        if (part != NULL && part->op == TIR_PART && part->args[0]->def != NULL &&
            part->args[0]->def->parent == body && part->args[0]->def->op == TIR_LOAD)
            last = part->args[0]->def;
    }
    for (uint32_t i = 0; i < body->ops.n && last != NULL; i++) {
        const TirOp *own = body->ops.at[i];
        for (uint32_t k = 0; own->op == TIR_OWN && k < own->n_args; k++)
            found = own->args[k]->def == last ? own : found;
    }
    return found;
}

/* Bytes through which consumers tell each other their parts of computed tiles. */
static int64_t
exchanged_bytes(const TirBlock *body, uint32_t consumers)
{
    int64_t bytes = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op == TIR_FROM && op->integer == 0)
            bytes += stage_bytes(op->results[0]->type) * consumers;
    }
    return bytes;
}

void
plan_spare_stage(const Target *target, TirFn *fn, const TirBlock *body)
{
    uint32_t consumers = tir_consumers(fn->plan);
    int64_t left = target_shared_limit(target, 1) - BESIDE_TILES - exchanged_bytes(body, consumers);
    const TirOp *own = tir_is_cooperative(fn->plan) ? last_in_parts(body) : NULL;

    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *pipeline = fn->shared.at[k];
        TirType tile = tir_tile2(pipeline->dtype, pipeline->rows, pipeline->cols);
        left -= stage_bytes(tile) * pipeline->stages *
                (pipeline->filled == FILLED_PER_CONSUMER ? consumers : 1);
    }
    for (uint32_t k = 0; own != NULL && k < own->n_args; k++)
        left -= stage_bytes(own->args[k]->type);
    for (uint32_t k = 0; own != NULL && left >= 0 && k < own->n_args; k++)
        own->args[k]->def->shared->stages += own->args[k]->def->shared->stages == 1;
}
