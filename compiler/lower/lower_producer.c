/* lower_producer.c - the producer: one thread that fills all pipelines, or one of each warp of its
 * group for its own; where products have scales, these are those of whole warps behind the one that
 * issues products.
 *
 * Where asking for copies takes longer than the copies (roles_producer.c), warps run the producer's
 * program side by side, and each leaves out what the others fill.  A pipeline is waited for by its
 * own barriers, so pipelines need not be filled in one order; those that share barriers are filled
 * by one warp.
 */
#include <string.h>

#include "compiler/lower/lower.h"

/* From so many pipelines on, hoisted addresses and the tile scheduler's values together exceed the
 * producer's registers (Target.dynamic_registers). */
enum { MANY_PIPELINES = 4 };

/* The pipelines that the producer fills, as bits by id. */
static uint64_t
pipelines_filled(const TirBlock *block)
{
    uint64_t pipelines = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == TIR_TMA_LOAD)
            pipelines |= (uint64_t)1 << op->shared->id % 64;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            pipelines |= pipelines_filled(op->blocks[k]);
    }
    return pipelines;
}

bool
lower_fills(const Lowering *lo, const TirShared *pipeline)
{
    uint32_t warps = tir_role(lo->fn->plan, ROLE_PRODUCER)->instances, rank = 0;
    const TirShared *owner = pipeline->with != NULL ? pipeline->with
                                                    : pipeline; /* of its barriers */

    if (lower_scale_warps(lo) > 0)
        return (pipeline->scales > 0) == (lo->role->instance > 0);
    for (uint32_t k = 0; k < owner->id; k++)
        rank += tir_is_pipeline(lo->fn->shared.at[k]) && lo->fn->shared.at[k]->with == NULL;
    return warps < 2 || rank % warps == lo->role->instance;
}

/* One instance of the producer's program. */
static void
lower_instance(Lowering *lo, uint32_t instance)
{
    const TirPlan *plan = lo->fn->plan;
    TirBlock *program = tir_program(plan, ROLE_PRODUCER);
    bool hoist = lo->b.hoist;

    /* many pipelines, and tiles to draw: more than its few registers hold */
    lo->b.hoist = hoist && !(tir_is_dynamic(plan) &&
                             __builtin_popcountll(pipelines_filled(program)) >= MANY_PIPELINES);
    lo->role->instance = instance;
    if (lower_multiplies_in_pairs(lo)) /* others copy to both */
        lower_begin_pairs(lo);
    if (lower_scale_warps(lo) > 0 && instance > 0)
        lower_begin_scales(lo);
    lower_tiles(lo, program);
    if (lower_scale_warps(lo) > 0 && instance > 0)
        lower_end_scales(lo);
    lo->role->instance = 0;
    lo->b.hoist = hoist;
}

void
lower_producer(Lowering *lo, LirReg thread, LirReg warp, uint32_t end)
{
    LirBuilder *b = &lo->b;
    uint32_t scales = lower_scale_warps(lo), others_first = scales > 0 ? 2 : 1;
    uint32_t instances = tir_role(lo->fn->plan, ROLE_PRODUCER)->instances + scales;

    if (instances < 2) {
        LirReg others = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(thread), lir_int(0));
        lir_branch(b, end, others, false);
        lower_instance(lo, 0);
        lir_branch(b, end, 0, false);
        return;
    }
    LirReg others = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(lower_lane(lo)), lir_int(0));
    if (scales == 0)
        lir_branch(b, end, others, false);
    TileState *fresh = arena_array(lo->arena, TileState, lo->fn->next_id);
    memcpy(fresh, lo->states, lo->fn->next_id * sizeof *fresh);
    for (uint32_t k = 0; k < instances; k++) {
        uint32_t next = k + 1 < instances ? lir_new_label(b) : end;
        LirReg other = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(warp),
                               lir_int(k == 0 ? 0 : k - 1 + others_first));
        lir_branch(b, next, other, false);
        lir_open(b, false);
        if (scales > 0 && k == 0)
            lir_branch(b, end, others, false);
        lo->role->first_lane = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lower_lane(lo)),
                                       lir_int(0));
        memcpy(lo->states, fresh,
               lo->fn->next_id * sizeof *fresh); /* no instance has another's values */
        lower_instance(lo, k);
        lir_branch(b, end, 0, false);
        lir_close(b);
        if (next != end)
            lir_label(b, next);
    }
}
