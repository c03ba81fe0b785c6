/* sink.c - operations whose results only one side of a branch reads move into that side.
 *
 *   level    tile IR, any time before layouts
 *   does     moves elementwise operations on tiles to the beginning of a block of an `if`, when
 *            nothing else reads their results
 *   leaves   the same program; a branch that is rarely taken costs these operations only when it is
 *            taken, and before it their operands are alive instead of their results
 */
#include "compiler/passes/pass.h"
#include "compiler/passes/util/tir_util.h"

static bool
block_uses(const TirBlock *block, const TirVal *value)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        if (op_uses_deep(block->ops.at[i], value))
            return true;
    }
    return false;
}

/* The side of a later `if` in `block` that alone reads the operation at `at`; NULL: there is
 * none. */
static TirBlock *
only_reader(const TirBlock *block, uint32_t at)
{
    const TirOp *op = block->ops.at[at];
    TirBlock *reader = NULL;

    if ((tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0 || op->results[0]->type.rank == 0)
        return NULL;
    for (uint32_t i = at + 1; i < block->ops.n; i++) {
        const TirOp *user = block->ops.at[i];
        for (uint32_t k = 0; k < user->n_args; k++) {
            if (user->args[k] == op->results[0])
                return NULL;
        }
        for (uint32_t k = 0; k < user->n_blocks; k++) {
            if (!block_uses(user->blocks[k], op->results[0]))
                continue;
            if (user->op != TIR_IF || reader != NULL)
                return NULL;
            reader = user->blocks[k];
        }
    }
    return reader;
}

static void
put_first(TirFn *fn, TirBlock *block, TirOp *op)
{
    vec_push(fn->arena, &block->ops, op);
    for (uint32_t i = block->ops.n - 1; i > 0; i--)
        block->ops.at[i] = block->ops.at[i - 1];
    block->ops.at[0] = op;
    op_set_parent(op, block);
}

static bool
sink_block(TirFn *fn, TirBlock *block)
{
    bool changed = false;

    for (uint32_t i = block->ops.n; i-- > 0;) { /* readers first: whole chains follow them */
        TirBlock *reader = only_reader(block, i);
        if (reader == NULL)
            continue;
        put_first(fn, reader, block->ops.at[i]);
        block->ops.n--;
        for (uint32_t k = i; k < block->ops.n; k++)
            block->ops.at[k] = block->ops.at[k + 1];
        changed = true;
    }
    for (uint32_t i = 0; i < block->ops.n; i++) {
        for (uint32_t k = 0; k < block->ops.at[i]->n_blocks; k++)
            changed |= sink_block(fn, block->ops.at[i]->blocks[k]);
    }
    return changed;
}

bool
pass_sink(PassContext *px, TirFn *fn)
{
    (void)px;
    if (fn->plan != NULL)
        return false; /* its roles are laid out already */
    return sink_block(fn, fn->body);
}
