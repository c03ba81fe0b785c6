/* roles_pair_sums.c - part of pass `roles`: the reduce roles of a pair's blocks, which add to the same places.
 *
 * What each block would add to memory by itself both add up before, and each adds its half of the columns: half as many bytes go
 * to memory.
 *
 *     reduce      { consumer_wait;  tmem_read sliced;  consumer_release;  pair_sum;  atomic_add of half the columns }
 *
 * A thread holds the same rows in both blocks, and the same columns, its block's half first: it sends the other half to
 * the thread of its number in the other block, and waits for what that one sends.  A block past the end of the grid's axis adds
 * zeros, as plan_pairs.c has made sure.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* The column at which this block's half begins. */
static TirVal *
first_column(Roles *r, int32_t half)
{
    TirBuilder *b = &r->b;
    TirVal *rank = tir_binary(b, TIR_REM, roles_grid(r), tir_const_int(b, 2));

    return tir_binary(b, TIR_MUL, rank, tir_const_int(b, half));
}

/* Adds `sum`, columns of the whole from `first` on, in place of the whole. */
static void
add_half(Roles *r, TirOp *add, TirVal *first, TirVal *sum)
{
    TirIndex *last = &add->index[add->tensor->rank - 1];
    uint32_t n = add->n_args, at = tir_index_operands(add);
    TirVal **args = arena_array(r->fn->arena, TirVal *, n + 1);

    for (uint32_t k = 0; k < n + 1; k++)
        args[k] = k < at ? add->args[k] : k == at ? first : add->args[k - 1];
    args[n] = sum;
    add->args = args;
    add->n_args = n + 1;
    *last = (TirIndex){.kind = INDEX_RANGE, .length = sum->type.dim[1]};
}

static void
share_addition(Roles *r, TirBlock *block, uint32_t *i)
{
    TirOp *add = block->ops.at[*i];
    TirVal *value = add->args[add->n_args - 1];
    TirType half = tir_tile2(value->type.dtype, value->type.dim[0], value->type.dim[1] / 2);
    uint32_t before = block->ops.n;

    r->b = (TirBuilder){.fn = r->fn, .block = block, .at = (int32_t)*i, .span = add->span};
    TirVal *first = first_column(r, half.dim[1]);
    TirOp *sum = tir_op_new(&r->b, TIR_PAIR_SUM, 1, &value, 1, &half);
    sum->shared = roles_new_buffer(r, add->tensor->name, half.dtype, half.dim[0], half.dim[1], 1);
    sum->shared->kind = SHARED_SENT;
    value->def->sliced = true;
    add_half(r, add, first, sum->results[0]);
    *i += block->ops.n - before;
}

void
roles_share_additions(Roles *r, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            roles_share_additions(r, op->blocks[k]);
        if (op->op == TIR_ATOMIC_ADD)
            share_addition(r, block, &i);
    }
}
