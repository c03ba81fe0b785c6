/* roles_first.c - what is known in the first iteration of a pipelined loop, which stands before it.
 *
 *   level    tile IR, roles
 *   does     there carried values are the constants they begin with.  A branch that rows may take
 *            when nothing asks for it (@by_rows), and that is taken when something is greater than
 *            -inf, is taken: with it goes the question, a comparison for each element and a vote.
 *            The late half of such a branch comes in the loop, an iteration later.  Where it does
 *            nothing to the values that the loop begins with, it is not taken at first:
 *
 *                if any(s > -inf) { .. alpha .. }        ..
 *                for .. carry(acc = 0, taken = ..)  ->   for .. carry(acc = 0, taken = false)
 *                    if taken { acc * alpha }                if taken { acc * alpha }
 *
 *   leaves   no branch there, and constants in place of what was multiplied by zero
 */
#include <math.h>

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/schedule/roles.h"
#include "compiler/passes/util/noop_proof.h"
#include "compiler/passes/util/tir_util.h"

typedef struct First {
    TirFn *fn;
    ValueList decided; /* conditions of branches that are taken */
} First;

static bool
is_constant(const First *f, const TirVal *value, double number)
{
    double known;

    return value_is_constant(f->fn->arena, f->fn, value, &known) && known == number;
}

/* Whether the condition is that something exceeds -inf. */
static bool
exceeds_minus_infinity(const First *f, const TirVal *condition)
{
    const TirOp *def = condition->def;

    while (tir_reduces(def, REDUCE_ANY) || (def != NULL && def->op == TIR_BOUNDS_MASK))
        def = def->args[0]->def;
    if (def == NULL || (def->op != TIR_GT && def->op != TIR_LT) ||
        !dtype_is_float(def->args[0]->type.dtype))
        return false;
    return is_constant(f, def->args[def->op == TIR_GT], -INFINITY);
}

/* Puts what the branch does in its place among `kept`. */
static void
take(First *f, TirOp *branch, OpList *kept)
{
    TirBlock *taken = branch->blocks[0];
    const TirOp *yield = block_yield(taken);

    for (uint32_t i = 0; i < taken->ops.n; i++) {
        TirOp *op = taken->ops.at[i];
        if (op != yield)
            move_op(f->fn->arena, op, branch->parent, kept);
    }
    for (uint32_t k = 0; k < branch->n_results; k++)
        tir_replace_uses(f->fn, branch->results[k], yield->args[k]);
    vec_push(f->fn->arena, &f->decided, branch->args[0]);
}

/* Whether carried value `k` is read where `branch` is taken and nowhere else: the branch that gives
 * the condition's next value passes it on, or replaces it. */
static bool
read_when_taken(const TirOp *loop, const TirOp *branch, uint32_t k, uint32_t condition)
{
    const TirBlock *body = loop->blocks[0];
    const TirVal *param = body->params.at[k], *next = block_yield(body)->args[k - 1];
    TirOp *early = next->def;

    if (early == NULL || early->op != TIR_IF ||
        early->args[0] != block_yield(body)->args[condition - 1])
        return false;
    return block_yield(early->blocks[1])->args[next->index] == param &&
           count_uses_in(body, next) == 1 &&
           count_uses_in(body, param) == count_uses_in(branch->blocks[0], param) + 1;
}

/* The branches of a loop whose condition is that of a branch before it. */
static void
settle_loop(First *f, TirOp *loop, TirBuilder *before)
{
    TirBlock *body = loop->blocks[0];
    uint32_t first = loop_first_initial(loop);

    for (uint32_t k = 1; k < body->params.n; k++) {
        TirVal *param = body->params.at[k];
        TirOp *branch = NULL;
        if (!roles_listed(&f->decided, loop->args[first + k - 1]))
            continue;
        for (uint32_t i = 0; i < body->ops.n; i++) {
            TirOp *op = body->ops.at[i];
            if (op->op == TIR_IF && op->args[0] == param)
                branch = branch == NULL && op->by_rows ? op : NULL;
        }
        if (branch == NULL || count_uses_in(body, param) != 1 ||
            !branch_is_noop_at_first(f->fn->arena, f->fn, loop, branch))
            continue;
        loop->args[first + k - 1] = tir_const_bool(before, false);
        for (uint32_t j = 1; j < body->params.n; j++) {
            TirVal **initial = &loop->args[first + j - 1];
            if (dtype_is_float((*initial)->type.dtype) && read_when_taken(loop, branch, j, k))
                *initial = tir_splat_const(before, (*initial)->type, 0);
        }
    }
}

/* Replaces what is known to be constant and drops what nobody reads, from the end.
 * (drop_unread_operations drops more, in other blocks: paged attention has other registers
 * then.) */
static void
clean(First *f, TirBlock *block)
{
    Arena *arena = f->fn->arena;
    uint32_t *uses = arena_array(arena, uint32_t, f->fn->next_id + 1);
    OpList kept = {0};

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        double number;
        bool pure = (tir_op_info(op->op)->flags & TF_PURE) != 0 && op->op != TIR_CONST;
        if (pure && op->n_results == 1 && op->results[0]->type.rank == 1 &&
            op->results[0]->type.dtype == DT_F32 &&
            value_is_constant(arena, f->fn, op->results[0], &number)) {
            op->op = TIR_CONST;
            op->n_args = 0;
            op->number = number;
        } else if (op->op == TIR_SELECT && value_is_constant(arena, f->fn, op->args[0], &number)) {
            tir_replace_uses(f->fn, op->results[0], op->args[number != 0 ? 1 : 2]);
        }
    }
    for (TirWalk walk = tir_walk(f->fn->body); tir_walk_next(&walk);) {
        for (uint32_t k = 0; k < walk.op->n_args; k++)
            uses[walk.op->args[k]->id]++;
    }
    for (uint32_t i = block->ops.n; i-- > 0;) {
        TirOp *op = block->ops.at[i];
        bool dead = (tir_op_info(op->op)->flags & TF_PURE) != 0 && op->n_blocks == 0 &&
                    op->op != TIR_MMA && op->n_results > 0;
        for (uint32_t k = 0; dead && k < op->n_results; k++)
            dead = uses[op->results[k]->id] == 0;
        for (uint32_t k = 0; dead && k < op->n_args; k++)
            uses[op->args[k]->id]--;
        if (!dead)
            vec_push(arena, &kept, op);
    }
    for (uint32_t i = 0; i < kept.n; i++)
        block->ops.at[i] = kept.at[kept.n - 1 - i];
    block->ops.n = kept.n;
}

static void
settle_block(First *f, TirBlock *block)
{
    Arena *arena = f->fn->arena;
    uint32_t earlier = f->decided.n;
    OpList kept = {0};

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        if (op->op == TIR_IF && op->by_rows && op->n_results > 0 &&
            exceeds_minus_infinity(f, op->args[0])) {
            take(f, op, &kept);
            continue;
        }
        if (op->op == TIR_FOR && f->decided.n > earlier) {
            TirBlock constants = *block;
            constants.ops.at = NULL;
            constants.ops.n = constants.ops.cap = 0;
            TirBuilder before = {.fn = f->fn, .block = &constants, .at = -1, .span = op->span};
            settle_loop(f, op, &before);
            for (uint32_t k = 0; k < constants.ops.n; k++)
                move_op(arena, constants.ops.at[k], block, &kept);
        }
        for (uint32_t k = 0; op->op == TIR_IF && k < op->n_blocks; k++)
            settle_block(f, op->blocks[k]);
        vec_push(arena, &kept, op);
    }
    if (f->decided.n == earlier)
        return;
    block->ops.at = kept.at;
    block->ops.n = kept.n;
    block->ops.cap = kept.cap;
    TirBuilder start = {.fn = f->fn, .block = block, .at = 0, .span = f->fn->span};
    for (uint32_t k = earlier; k < f->decided.n; k++) {
        TirVal *condition = f->decided.at[k];
        if (condition->block == block && count_uses(f->fn, condition) > 0)
            tir_replace_uses(f->fn, condition, tir_const_bool(&start, true));
    }
    clean(f, block);
}

void
roles_settle_first(TirFn *fn)
{
    First f = {.fn = fn};

    settle_block(&f, fn->body);
}
