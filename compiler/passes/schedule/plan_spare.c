/* plan_spare.c - what shared memory is left over for, where consumers divide the tiles of a
 * program.
 *
 * Tiles come in parts there, which all consumers read, and a stage of all of them is most of shared
 * memory.  What is left may have room for a second stage of the tile that an iteration reads to its
 * end: else its next one is asked for when nothing is left to compute.  The producer then fills it
 * first, and products that read it begin an iteration (roles_order.c, stages_order.c), so that
 * there is arithmetic to do while the others run.  (H200, attention's backward at head dimension
 * 192: 0.3 to 4.7 % less time, both of its kernels counted.)
 *
 * Likewise where consumers share out a product and have right operands in shared memory, with one
 * stage of tiles else.
 */
#include "compiler/passes/schedule/plan.h"

#include "compiler/passes/util/tir_util.h"

enum {
    BESIDE_TILES = 2048, /* vectors, barriers */
    LEAST_STAGES = 2     /* of products' tiles, before others have any */
};

int64_t
plan_padded_bytes(int64_t rows, int64_t cols, uint32_t bits)
{
    int64_t width = SWIZZLE_BYTES * 8 / bits;

    return (rows + SWIZZLE_ROWS - 1) / SWIZZLE_ROWS * ((cols + width - 1) / width) * SWIZZLE_SPAN;
}

static int64_t
stage_bytes(TirType type)
{
    return plan_padded_bytes(type.dim[0], type.dim[1], dtype_bits(type.dtype));
}

/* The tile that the last product over all consumers reads, as this consumer's part of it; NULL:
 * none. */
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

/* The load that the last product with a computed right operand reads; NULL: there is none. */
static TirOp *
last_beside_right(const TirBlock *body)
{
    TirOp *last = NULL;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (plan_computed_right(body, op) == NULL)
            continue;
        TirOp *load = tir_untransposed(op->args[op->swap_ab ? 1 : 0])->def;
        if (load != NULL && load->op == TIR_LOAD && load->parent == body)
            last = load;
    }
    return last;
}

/* Bytes of what consumers that share out a product have beside tiles: its operand, right operands,
 * results. */
static int64_t
shared_out_bytes(const TirBlock *body, uint32_t consumers)
{
    int64_t bytes = 0;
    const TirVal *exchanged = NULL;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA || !op->coop_k)
            continue;
        CoopKShare share = coop_k_share(op->results[0]->type, consumers);
        exchanged = tir_untransposed(op->args[0]);
        bytes += (stage_bytes(exchanged->type) + (int64_t)share.rows * share.cols * 4) * consumers;
    }
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirVal *right = plan_computed_right(body, body->ops.at[i]);
        if (right != NULL && right != exchanged)
            bytes += stage_bytes(right->type) * consumers;
    }
    return bytes;
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

int64_t
plan_spare_bytes(const TirBlock *body)
{
    const TirOp *load = last_beside_right(body);

    return load != NULL ? stage_bytes(load->results[0]->type) : 0;
}

/* Bytes of a stage, of all consumers. */
static int64_t
bytes_of_stage(const TirFn *fn, const TirShared *pipeline)
{
    int64_t bytes = plan_padded_bytes(pipeline->rows, pipeline->cols, dtype_bits(pipeline->dtype));
    int32_t row = pipeline->cols * (int32_t)dtype_bits(pipeline->dtype) / 8;

    if (pipeline->in_registers && row < SWIZZLE_BYTES)
        bytes = bytes * tir_atom_column_in_registers(row) / SWIZZLE_BYTES;
    return bytes * (pipeline->each ? tir_consumers(fn->plan) : 1);
}

/* What pipelines leave of `limit` bytes. */
static int64_t
bytes_left(const TirFn *fn, const TirBlock *body, int64_t limit)
{
    uint32_t consumers = tir_consumers(fn->plan);
    int64_t left = limit - BESIDE_TILES -
                   (tir_is_cooperative(fn->plan) ? exchanged_bytes(body, consumers)
                                                 : shared_out_bytes(body, consumers));

    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *pipeline = fn->shared.at[k];
        left -= bytes_of_stage(fn, pipeline) * pipeline->stages;
    }
    return left;
}

uint32_t
plan_stages_beside(const Target *target, const TirFn *fn, const TirBlock *body,
                   const TirShared *beside)
{
    uint32_t blocks = target_blocks(target, tir_role_registers(fn->plan));
    int64_t left = bytes_left(fn, body, target_tile_limit(target, blocks));

    if (!tir_is_cooperative(fn->plan))
        left -= shared_out_bytes(body, tir_consumers(fn->plan)); /* parts have two stages */

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL && op->shared->stages < LEAST_STAGES)
            left -= bytes_of_stage(fn, op->shared) * (LEAST_STAGES - op->shared->stages);
    }
    return left < 0 ? 0 : (uint32_t)(left / bytes_of_stage(fn, beside));
}

void
plan_spare_stage(const Target *target, TirFn *fn, const TirBlock *body)
{
    bool divided = tir_is_cooperative(fn->plan);
    int64_t left = bytes_left(fn, body, target_shared_limit(target, 1));
    const TirOp *own = divided ? last_in_parts(body) : NULL;
    TirOp *load = divided ? NULL : last_beside_right(body);

    for (uint32_t k = 0; own != NULL && k < own->n_args; k++)
        left -= stage_bytes(own->args[k]->type);
    if (load != NULL && load->shared->stages == 1 && left >= stage_bytes(load->results[0]->type))
        load->shared->stages = 2;
    for (uint32_t k = 0; own != NULL && left >= 0 && k < own->n_args; k++)
        own->args[k]->def->shared->stages += own->args[k]->def->shared->stages == 1;
}
