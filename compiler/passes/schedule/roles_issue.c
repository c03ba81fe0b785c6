/* roles_issue.c - products that a role of their own issues, and what consumers find of their results.
 *
 * Of a loop that does nothing but add products up:
 *
 *     mma         acquire a stage of each sum; for .. { wait for operands, issue products, give operands back };
 *                 commit the stages
 *     consumer    wait for the stages; what stands behind the loop reads them; give them back
 *
 * A sum has two stages where tensor memory has room: the next tile's products run while a consumer reads this one's.  Where
 * the loop has no iteration, the consumer writes zeros itself.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* Which of the loop's results a product adds to. */
static uint32_t
sum_of(const TirOp *mma)
{
    return mma->args[2]->index - 1;
}

/* The pipelines of the loop's sums, by result of the loop. */
static TirShared **
make_sums(Roles *r)
{
    TirShared **sums = arena_array(r->fn->arena, TirShared *, r->loop->n_results + 1);
    int32_t columns = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->op != TIR_MMA)
            continue;
        const TirVal *result = r->loop->results[sum_of(op)];
        TirShared *sum = roles_new_buffer(r, result->name, DT_F32, result->type.dim[0],
                                          result->type.dim[1], 1);
        sum->kind = SHARED_TMEM;
        sums[sum_of(op)] = sum;
        vec_push(r->fn->arena, &r->sums, sum);
        columns += sum->cols;
    }
    for (uint32_t k = 0; k < r->sums.n && 2 * columns <= r->px->target->chip.tmem_columns; k++)
        r->sums.at[k]->stages = 2;
    return sums;
}

static void
on_each_sum(Roles *r, TirBuilder *b, TirOpcode opcode)
{
    for (uint32_t k = 0; k < r->sums.n; k++)
        roles_plain(b, opcode, r->sums.at[k], 0);
}

/* Operands that stay for all iterations. */
static CloneMap
read_once(Roles *r)
{
    CloneMap map = clone_map(r->fn);

    for (uint32_t i = 0; r->old->ops.at[i] != r->loop; i++) {
        const TirOp *op = r->old->ops.at[i];
        const TirOp *load = op->n_results == 1 ? plan_operand_load(op->results[0]) : NULL;
        if (load != NULL && load->shared != NULL)
            roles_copy(r, &map, op, false);
    }
    return map;
}

/* One iteration: `add`, whether there was one before. */
static void
issue_iteration(Roles *r, const CloneMap *once, TirShared *const *sums, TirVal *add)
{
    CloneMap map = clone_map_copy(r->fn, once);

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        r->b.span = op->span;
        if ((op->op == TIR_LOAD && op->shared != NULL) || op->op == TIR_TRANSPOSE)
            roles_copy(r, &map, op, false);
        if (op->op != TIR_MMA)
            continue;
        TirVal *args[] = {clone_of(&map, op->args[0]), clone_of(&map, op->args[1]), add};
        tir_op_new(&r->b, TIR_TMEM_MMA, 3, args, 0, NULL)->shared = sums[sum_of(op)];
    }
    roles_release(&r->b, &r->stage0_pipelines, NULL);
}

static void
make_issuer(Roles *r, TirShared *const *sums)
{
    TirBuilder consumer = r->b;
    TirBlock *root = tir_block_new(r->fn);

    r->b = (TirBuilder){.fn = r->fn, .block = root, .at = -1, .span = r->loop->span};
    TirVal *index = roles_block_index(r, roles_grid(r));
    Range range = roles_consumer_range(r, roles_consumer_index(r, index, 0), NULL);
    CloneMap once = read_once(r);
    on_each_sum(r, &r->b, TIR_PRODUCER_ACQUIRE);
    TirOp *loop = tir_for(&r->b, range.lo, range.hi, 0, NULL);
    loop->span = r->loop->span;
    r->b.block = loop->blocks[0];
    TirVal *add = tir_binary(&r->b, TIR_NE, loop->blocks[0]->params.at[0], range.lo);
    issue_iteration(r, &once, sums, add);
    tir_yield(&r->b, 0, NULL);
    r->b.block = root;
    on_each_sum(r, &r->b, TIR_PRODUCER_COMMIT);
    roles_release(&r->b, &r->once, NULL);
    r->once_given_back = true;
    r->b = consumer;
    tir_role(r->fn->plan, ROLE_MMA)->program = root;
}

void
roles_zero_sums(Roles *r, TirVal *none, TirShared *const *sums, uint32_t n)
{
    TirBuilder *b = &r->b;
    TirOp *branch = tir_if(b, none, 0, NULL);
    TirBlock *around = b->block;

    for (uint32_t side = 0; side < 2; side++) {
        b->block = branch->blocks[side];
        for (uint32_t k = 0; k < n && side == 0; k++) {
            TirVal *zero = tir_splat_const(b, tir_tile2(DT_F32, sums[k]->rows, sums[k]->cols), 0);
            tir_op_new(b, TIR_TMEM_WRITE, 1, &zero, 0, NULL)->shared = sums[k];
        }
        tir_yield(b, 0, NULL);
    }
    b->block = around;
}

void
roles_issue(Roles *r, CloneMap *map, Range range)
{
    TirBuilder *b = &r->b;
    TirVal **initial = roles_initial(r, map, 0);
    TirShared **sums = make_sums(r);

    make_issuer(r, sums);
    on_each_sum(r, b, TIR_CONSUMER_WAIT);
    roles_zero_sums(r, tir_binary(b, TIR_GE, range.lo, range.hi), r->sums.at, r->sums.n);
    for (uint32_t k = 0; k < r->loop->n_results; k++) {
        TirVal *value = initial[k];
        if (sums[k] != NULL) {
            TirOp *read = tir_op_new(b, TIR_TMEM_READ, 0, NULL, 1, &r->loop->results[k]->type);
            const TirOp *begin = initial[k]->def;
            bool zero = begin != NULL && begin->op == TIR_CONST && begin->number == 0;
            read->shared = sums[k];
            value = zero ? read->results[0] : tir_binary(b, TIR_ADD, initial[k], read->results[0]);
        }
        clone_set(map, r->loop->results[k], value);
    }
}

void
roles_release_sums(Roles *r)
{
    on_each_sum(r, &r->b, TIR_CONSUMER_RELEASE);
}
