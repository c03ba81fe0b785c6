/* roles_pair_sums.c - part of pass `roles`: the reduce roles of a pair's blocks, which add to the
 * same places.
 *
 * What each block would add to memory by itself both add up before, and each adds its half of the
 * columns: half as many bytes go to memory.
 *
 *     reduce      { consumer_wait; tmem_read sliced; consumer_release; pair_send; atomic_add of the
 *                 first columns;
 *                   pair_sum;  atomic_add of half the others }
 *
 * A thread holds the same rows in both blocks, and the same columns, its block's half first: it
 * sends the other half to the thread of its number in the other block, and waits for what that one
 * sends.  It does that with the last columns alone, and each block adds the others itself while
 * they are on their way: who sends waits for the way to the other SM, who adds for that to memory,
 * and a thread that does both in turn keeps both busy (lower_pair_sums.c).  A block past the end of
 * the grid's axis adds zeros, as plan_pairs.c has made sure.
 */
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* Columns of each block's half: as many as have come when the columns that are not added up are in
 * memory, in pieces of two instructions, or of one.  (By the simulator's clock attention's backward
 * takes at head dimension 128 with halves of 28, 32 and 36 columns 3,428, 3,277 and 3,535 clocks a
 * tile; at 64 it makes little difference.) */
int32_t
plan_sent_columns(const Target *target, int32_t columns)
{
    PairRates rates = target_pair_rates(target);
    double column = TMEM_LANES * 4, send = column / rates.sent, add = column / rates.added;
    int32_t most = (int32_t)((columns * add - rates.latency) / (send + 2 * add));
    int32_t step = most < 2 * SENT_AT_ONCE ? SENT_AT_ONCE : 2 * SENT_AT_ONCE;

    most = most < step ? step : most / step * step;
    return 2 * most < columns ? most : columns / 2;
}

/* The column at which this block's half begins, behind `before`. */
static TirVal *
first_column(Roles *r, int32_t half, int32_t before)
{
    TirBuilder *b = &r->b;
    TirVal *rank = tir_binary(b, TIR_REM, roles_grid(r), tir_const_int(b, 2));

    TirVal *first = tir_binary(b, TIR_MUL, rank, tir_const_int(b, half));
    return before == 0 ? first : tir_binary(b, TIR_ADD, first, tir_const_int(b, before));
}

/* Makes an addition one of `part`, columns of the whole from `first` on. */
static void
add_part(Roles *r, TirOp *add, TirVal *first, TirVal *part)
{
    tir_set_range(r->fn, add, add->tensor->rank - 1, first, part->type.dim[1]);
    add->args[add->n_args - 1] = part;
}

/* Adds the columns in front of those that both blocks add up. */
static void
add_before(Roles *r, const TirOp *add, TirVal *before)
{
    TirVal *first = tir_const_int(&r->b, 0);
    TirOp *own = tir_op_new(&r->b, TIR_ATOMIC_ADD, add->n_args, add->args, 0, NULL);

    tir_copy_place(own, add);
    add_part(r, own, first, before);
}

static void
share_addition(Roles *r, TirBlock *block, uint32_t *i)
{
    TirOp *add = block->ops.at[*i];
    TirVal *value = add->args[add->n_args - 1];
    int32_t sent_columns = plan_sent_columns(r->px->target, value->type.dim[1]);
    int32_t before = value->type.dim[1] - 2 * sent_columns;
    TirType half = tir_tile2(value->type.dtype, value->type.dim[0], sent_columns),
            rest = tir_tile2(value->type.dtype, value->type.dim[0], before);
    TirShared *sent = tir_buffer_new(r->fn, SHARED_SENT, add->tensor->name, half, 1);
    uint32_t n = block->ops.n;

    value->def->sliced = true;
    r->b = (TirBuilder){.fn = r->fn, .block = block, .at = (int32_t)*i, .span = add->span};
    TirOp *send = tir_op_new(&r->b, TIR_PAIR_SEND, 1, &value, before > 0, &rest);
    send->shared = sent;
    if (before > 0)
        add_before(r, add, send->results[0]);
    TirVal *first = first_column(r, half.dim[1], before);
    TirOp *sum = tir_op_new(&r->b, TIR_PAIR_SUM, 1, &value, 1, &half);
    sum->shared = sent;
    add_part(r, add, first, sum->results[0]);
    *i += block->ops.n - n;
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
