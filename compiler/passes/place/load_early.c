/* load_early.c - loads are issued before threads of a block wait for one another.
 *
 *   level    tile IR with register layouts
 *   does     moves a load of a tensor that the program only reads up behind the load before it,
 *            across operations through which warps exchange elements: no instruction passes their
 *            barrier, so the load would begin when everything before has ended, a whole latency of
 *            memory later
 *   leaves   the same operations in another order.  Not across loops, branches and writes, nor
 *            products, whose sums need the registers, and only as much as a thread has registers
 *            for
 */
#include "compiler/ir/layout.h"
#include "compiler/passes/pass.h"

/* Registers of a thread for what is loaded earlier, in a block. */
enum { MOST_EARLY = 32 };

static bool
is_load(const TirOp *op)
{
    return op->op == TIR_LOAD && op->tensor->mode == TENSOR_IN;
}

static bool
may_cross(const TirOp *op)
{
    return is_load(op) ||
           (op->n_blocks == 0 && op->op != TIR_MMA && (tir_op_info(op->op)->flags & TF_PURE) != 0);
}

static bool
makes_operand(const TirOp *op, const TirOp *of)
{
    for (uint32_t k = 0; k < of->n_args; k++)
        if (of->args[k]->def == op)
            return true;
    return false;
}

/* Where the load at `at` goes: behind the load before it, or what it needs; `at`: nothing would be
 * gained. */
static uint32_t
place_of(const TirBlock *block, uint32_t at)
{
    uint32_t to = at;
    bool waits = false;

    while (to > 0) {
        const TirOp *before = block->ops.at[to - 1];
        if (!may_cross(before) || makes_operand(before, block->ops.at[at]) ||
            (waits && is_load(before)))
            break;
        waits = waits || (tir_exchanges(before) && before->shared != NULL);
        to--;
    }
    return waits ? to : at;
}

static int64_t
words_of(const TirVal *value)
{
    int64_t n = value->layout == NULL ? 1 : layout_registers(value->layout);

    return (n * dtype_bits(value->type.dtype) + 31) / 32;
}

static bool
move_loads(TirBlock *block)
{
    int64_t room = MOST_EARLY;
    bool changed = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            changed |= move_loads(op->blocks[k]);
        uint32_t to = is_load(op) ? place_of(block, i) : i;
        if (to == i || words_of(op->results[0]) > room)
            continue;
        room -= words_of(op->results[0]);
        for (uint32_t k = i; k > to; k--)
            block->ops.at[k] = block->ops.at[k - 1];
        block->ops.at[to] = op;
        changed = true;
    }
    return changed;
}

bool
pass_load_early(PassContext *px, TirFn *fn)
{
    (void)px;
    return fn->plan == NULL && move_loads(fn->body); /* roles have pipelines */
}
