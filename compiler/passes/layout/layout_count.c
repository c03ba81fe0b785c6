/* layout_count.c - how many instructions of a thread layouts cost.
 *
 * For tiles that a warp group reads from tensor memory either by rows or as products of warps lie,
 * where neither moves more bytes through shared memory.  By rows, a reduction of a row needs no
 * exchange between lanes, and a vector with an element for each row takes one register; but a
 * vector with an element for each column is whole in every thread.
 */
#include "compiler/passes/layout/layout_infer.h"
#include "compiler/passes/util/tir_util.h"

enum {
    ROUNDS = 16,       /* iterations that a loop counts as; a round figure */
    MOST_VECTOR = 128, /* registers that a vector may take; one with more would be spilled */
    SPILLED = 16,      /* instructions that each register of such a vector counts */
    EXCHANGE = 2,      /* instructions of a butterfly over one lane bit, for an element */
    WIDEN = 2,         /* .. to bring neighbours' elements together, for a word */
    STORED_BYTES = 16, /* that an instruction stores at most */
    MASK_RUN = 32      /* neighbours in a row whose conditions are bits of a word */
};

static uint32_t
lane_bits(const Layout *layout, uint32_t axis)
{
    uint32_t bits = 0;

    for (uint32_t d = 0; d < layout->lane.n; d++) {
        for (int32_t e = 1; e < layout->lane.at[d].extent; e *= 2)
            bits += layout->lane.at[d].step[axis] != 0;
    }
    return bits;
}

static int64_t
exchange_instructions(const TirOp *op)
{
    const Layout *from = op->args[0]->layout, *to = op->results[0]->layout;
    int64_t results = to == NULL ? 1 : layout_registers(to), n = 0;

    if (from == NULL)
        return 0;
    for (uint32_t axis = 0; axis < from->rank; axis++)
        n += to == NULL || axis == op->axis ? results * EXCHANGE * lane_bits(from, axis) : 0;
    return n;
}

static int64_t
store_instructions(LayoutPass *lp, const TirOp *op)
{
    const TirVal *value = op->args[op->n_args - 1];
    const Layout *layout = value->layout;
    int32_t bytes = (int32_t)dtype_bits(value->type.dtype) / 8;
    int64_t n = 0;

    if (layout == NULL || bytes == 0)
        return 0;
    uint32_t last = layout->rank - 1;
    int64_t words = layout_registers(layout) * (int64_t)bytes / 4;
    int32_t run = layout_own_run(layout, last, STORED_BYTES / bytes);
    if (op->op == TIR_TMA_STORE && bytes == 2 && run == 2) /* as matrices of 8 x 8 */
        run = STORED_BYTES / bytes;
    while (op->op == TIR_STORE && layout->rank == 2 && run * bytes < STORED_BYTES &&
           (layout = stored_widen(&lp->store, layout, last)) != NULL) {
        n += words * WIDEN;
        run *= 2;
    }
    return n + (words * 4 + run * bytes - 1) / (run * bytes);
}

/* Whether conditions on neighbours in a row are bits of a word. */
static bool
has_runs(const Layout *layout)
{
    return layout->rank == 2 && layout_own_run(layout, 1, MASK_RUN) == MASK_RUN;
}

static int64_t
op_instructions(LayoutPass *lp, const TirOp *op)
{
    const TirVal *result = op->n_results > 0 ? op->results[0] : NULL;

    if (tir_combines(op))
        return exchange_instructions(op);
    if (op->op == TIR_STORE || op->op == TIR_TMA_STORE)
        return store_instructions(lp, op);
    if (result == NULL || result->type.rank == 0 || result->layout == NULL || layout_is_view(result))
        return 0;
    int64_t registers = layout_registers(result->layout);
    bool flat = (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0 && !layout_is_cheap(lp, result);
    if (result->type.rank == 2 && tir_is_mask(op))
        return has_runs(result->layout) ? registers : 2 * registers;
    if (result->type.rank == 1 && registers > MOST_VECTOR && (flat || op->op == TIR_LOAD))
        return registers * SPILLED;
    return flat || op->op == TIR_LOAD ? registers : 0;
}

static int64_t
block_instructions(LayoutPass *lp, const TirBlock *block)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        n += op_instructions(lp, op);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            n += block_instructions(lp, op->blocks[k]) * (op->op == TIR_FOR ? ROUNDS : 1);
    }
    return n;
}

int64_t
layout_instructions(LayoutPass *lp)
{
    return block_instructions(lp, lp->fn->body);
}
