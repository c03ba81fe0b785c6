/* lower_pairs.c - the two blocks of a pair: what each copies, and what they say to each other.
 *
 * Products of both (tir_multiplies_in_pairs): the mma role is that of the first block, and so are
 * the barriers at which it waits:
 *
 *     tiles are full           the first block's producer arrives, and expects the bytes of both;
 *                              copies of the second one complete there, too.  (They may do so
 *                              before the arrival: a phase does not end without it.)
 *     a result has been read   a lane of each warp of the consumers of both arrives
 *
 * What says that products have ended, tiles are empty or a result is there, goes to both blocks at
 * once.
 *
 * A block may not end while the other one, or the tensor core, has something to say to its
 * barriers.  Each producer waits at the end for all stages that it has filled, and the consumers,
 * who have got all results by then, for everybody in the pair who has not ended.
 */
#include "compiler/lower/lower.h"
#include "compiler/passes/schedule/plan.h"

/* Clusters are two blocks along x. */
LirReg
lower_pair_rank(Lowering *lo)
{
    LirReg block = lir_op1(&lo->b, LIR_MOV_U32, LIR_B32, lir_symbol("%ctaid.x"));

    return lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(block), lir_int(1));
}

bool
lower_multiplies_in_pairs(const Lowering *lo)
{
    return tir_multiplies_in_pairs(lo->fn->plan);
}

LirReg
lower_pair_block(Lowering *lo, LirReg pair)
{
    uint32_t apart = lower_multiplies_in_pairs(lo) ? tir_programs(lo->fn->plan) : 2;

    return lir_op3(&lo->b, LIR_MAD_S32, LIR_B32, lir_reg(pair), lir_int(apart),
                   lir_reg(lower_pair_rank(lo)));
}

LirReg
lower_pair_program(Lowering *lo, LirReg first, LirReg own)
{
    return lir_op3(&lo->b, LIR_MAD_S32, LIR_B32, lir_reg(own),
                   lir_int(tir_program_step(lo->fn->plan)), lir_reg(first));
}

/* Of a role: where shared memory begins in the block to which it says something, the first one. */
void
lower_begin_pairs(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    LirReg rank = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(0));
    LirReg start = lir_op2(b, LIR_MAPA, LIR_B32, lir_reg(lower_shared_start(lo)), lir_reg(rank));
    LirOperand kept[] = {lir_reg(lir_new_home(b, LIR_B32)), lir_reg(start)};

    lir_emit(b, LIR_MOV_B32, 1, 2, kept);
    lo->role->pair_start = kept[0].reg;
}

/* The producer waits until every stage that it filled for both blocks is empty again. */
void
lower_end_pairs(Lowering *lo)
{
    for (uint32_t k = 0; k < lo->fn->shared.n && lower_multiplies_in_pairs(lo); k++) {
        const TirShared *pipeline = lo->fn->shared.at[k];
        PipelineCursor *cursor = &lo->role->pipelines[k];
        for (uint32_t i = 0; pipeline->kind == SHARED_PIPELINE && i < pipeline->stages; i++) {
            for (uint32_t part = 0; part < tir_parts(lo->fn->plan, pipeline); part++)
                lower_wait_barrier(lo, lower_stage_barrier(lo, pipeline, part, true), cursor->phase);
            lower_advance(lo, cursor, pipeline->stages);
        }
    }
}

/* Moves a copy to this block's half: rows or columns in `box`.  It lies where a whole tile
 * would. */
void
lower_own_share(Lowering *lo, const TirOp *op, LowerBox *box)
{
    uint32_t order[TENSOR_MAX_RANK], d = 0, dim = pair_halved_dim(op, op->shared);

    tir_box_order(op, order);
    while (order[d] != dim)
        d++;
    int32_t along = d == 0 ? op->shared->cols : op->index[dim].length / 2;
    Elem rank = elem_reg(lower_pair_rank(lo));
    box->at[d] = lower_add(lo, box->at[d], lower_mul_const(lo, rank, along));
}
