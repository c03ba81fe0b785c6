/* roles_chain.c - a main loop with arithmetic between products that a role of their own issues.
 *
 * Products whose operands are both loaded are first ones; the others, with a left operand that is computed, are second
 * ones.  The mma role issues the first ones of an iteration in front of the second ones of the iteration before, so that
 * they run while the consumer is still computing:
 *
 *     mma         first products of the first iteration
 *                 for ..  { first products; second products of the iteration before }
 *                 second products of the last iteration
 *     consumer    for ..  { wait for a first product, read it; compute; write the operand of the second one }
 *
 * Pipelines in tensor memory lie between the two: the mma role fills those of results, the consumer those of operands.
 * A sum that the loop carries stays there as well.  Where the consumer changes it (a factor, say), it goes from hand to
 * hand in each iteration: the consumer has it until it has changed it, then the product that adds to it.  It is handed
 * over once before the first iteration, for the consumer to write what the sum begins with.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

typedef struct Product {
    TirOp *mma;
    bool second;
    uint32_t carried; /* 1 + the loop's result that it adds to; 0: its sum begins with zero */
    TirOp *change; /* what makes of the sum, in the loop's body, that to which it adds; NULL: nothing does */
    TirShared *sum, *operand; /* where its result lies; and its left operand, if that is computed */
} Product;

struct Chain {
    VEC(Product) products;
    OpList loads[2]; /* in the loop: for first products, for second ones */
};

/* ---- what there is ---- */

static Product *
product_of(const struct Chain *chain, const TirOp *mma)
{
    for (uint32_t k = 0; k < chain->products.n; k++) {
        if (chain->products.at[k].mma == mma)
            return &chain->products.at[k];
    }
    return NULL;
}

/* A load that stands for a pipeline, or a transpose of one: nothing that a consumer reads. */
static bool
is_operand(const TirOp *op)
{
    while (op != NULL && op->op == TIR_TRANSPOSE)
        op = op->args[0]->def;
    return op != NULL && op->op == TIR_LOAD && op->shared != NULL;
}

static TirShared *
new_tmem(Roles *r, const char *name, TirType type)
{
    TirShared *buffer = roles_new_buffer(r, name, type.dtype, type.dim[0], type.dim[1], 1);

    buffer->kind = SHARED_TMEM;
    return buffer;
}

static void
list_loads(Roles *r, struct Chain *chain)
{
    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++) {
        TirOp *load = r->stage0_pipelines.at[k];
        bool second = false;
        for (uint32_t i = 0; i < chain->products.n; i++) {
            const Product *p = &chain->products.at[i];
            for (uint32_t a = 0; a < 2 && p->second; a++)
                second = second || plan_operand_load(p->mma->args[a]) == load;
        }
        vec_push(r->fn->arena, &chain->loads[second], load);
    }
}

static void
find_products(Roles *r, struct Chain *chain)
{
    const TirOp *yield = block_yield(r->body);
    uint32_t columns = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *mma = r->body->ops.at[i];
        if (mma->op != TIR_MMA)
            continue;
        Product p = {.mma = mma, .second = plan_operand_load(mma->args[0]) == NULL};
        for (uint32_t k = 0; k < yield->n_args; k++)
            p.carried = yield->args[k] == mma->results[0] ? k + 1 : p.carried;
        const TirVal *to = mma->args[2];
        if (p.carried > 0 && to != r->body->params.at[p.carried])
            p.change = to->def;
        p.sum = mma->shared = new_tmem(r, mma->results[0]->name, mma->results[0]->type);
        p.sum->carried = p.change != NULL;
        columns += tir_tmem_columns(p.sum);
        if (p.carried > 0)
            vec_push(r->fn->arena, &r->sums, p.sum);
        if (p.second) {
            p.operand = new_tmem(r, mma->args[0]->name, mma->args[0]->type);
            p.operand->filled = FILLED_BY_CONSUMER;
            columns += tir_tmem_columns(p.operand);
        }
        vec_push(r->fn->arena, &chain->products, p);
    }
    /* the next first products run while the consumer has the results of these */
    for (uint32_t k = 0; k < chain->products.n; k++) {
        const Product *p = &chain->products.at[k];
        columns += tir_tmem_columns(p->sum);
        if (p->carried > 0 || p->second || columns > (uint32_t)r->px->target->chip.tmem_columns)
            columns -= tir_tmem_columns(p->sum);
        else
            p->sum->stages = 2;
    }
}

/* ---- the mma role ---- */

static void
issue_product(Roles *r, const CloneMap *map, const Product *p, TirVal *add)
{
    TirBuilder *b = &r->b;
    TirVal *left = clone_of(map, p->mma->args[0]);
    bool all_in_one = p->carried > 0 && p->change == NULL; /* one stage for all iterations */

    if (p->second) {
        TirVal *stage = tir_const_int(b, 0);
        roles_plain(b, TIR_CONSUMER_WAIT, p->operand, 0);
        TirOp *read = tir_op_new(b, TIR_SHARED_READ, 1, &stage, 1, &p->mma->args[0]->type);
        read->shared = p->operand;
        left = read->results[0];
    }
    if (!all_in_one) {
        add = tir_const_bool(b, p->carried > 0);
        roles_plain(b, TIR_PRODUCER_ACQUIRE, p->sum, 0);
    }
    TirVal *args[] = {left, clone_of(map, p->mma->args[1]), add};
    tir_op_new(b, TIR_TMEM_MMA, 3, args, 0, NULL)->shared = p->sum;
    if (!all_in_one)
        roles_plain(b, TIR_PRODUCER_COMMIT, p->sum, 0);
    if (p->second)
        roles_plain(b, TIR_CONSUMER_RELEASE, p->operand, 0);
}

/* The first or the second products of an iteration; `add`: whether there was one before. */
static void
issue_products(Roles *r, const CloneMap *outer, bool second, TirVal *add)
{
    const struct Chain *chain = r->chain;
    CloneMap map = clone_map_copy(r->fn, outer);

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        r->b.span = op->span;
        if (is_operand(op)) {
            const TirOp *load = plan_operand_load(op->results[0]);
            bool own = false;
            for (uint32_t k = 0; k < chain->loads[second].n; k++)
                own = own || chain->loads[second].at[k] == load;
            if (own || load->parent != r->body)
                roles_copy(r, &map, op, false);
        }
        const Product *p = op->op == TIR_MMA ? product_of(chain, op) : NULL;
        if (p != NULL && p->second == second)
            issue_product(r, &map, p, add);
    }
    roles_release(&r->b, &chain->loads[second], NULL);
}

/* In a branch, for where there is an iteration. */
static void
issue_if_any(Roles *r, const CloneMap *map, Range range, bool second, TirVal *add)
{
    TirBuilder *b = &r->b;
    TirBlock *around = b->block;
    TirOp *some = tir_if(b, tir_binary(b, TIR_LT, range.lo, range.hi), 0, NULL);

    b->block = some->blocks[0];
    issue_products(r, map, second, add);
    tir_yield(b, 0, NULL);
    b->block = some->blocks[1];
    tir_yield(b, 0, NULL);
    b->block = around;
}

static void
on_sums(Roles *r, TirOpcode opcode, bool carried)
{
    for (uint32_t k = 0; k < r->sums.n; k++) {
        if (r->sums.at[k]->carried == carried)
            roles_plain(&r->b, opcode, r->sums.at[k], 0);
    }
}

static void
issue_loop(Roles *r, const CloneMap *map, Range range)
{
    TirBuilder *b = &r->b;
    TirBlock *around = b->block;
    TirVal *one = tir_const_int(b, 1), *next = tir_binary(b, TIR_ADD, range.lo, one);
    bool second = false;

    for (uint32_t k = 0; k < r->chain->products.n; k++)
        second = second || r->chain->products.at[k].second;
    if (second)
        issue_if_any(r, map, range, false, tir_const_bool(b, false));
    TirOp *loop = tir_for(b, second ? next : range.lo, range.hi, 0, NULL);
    loop->span = r->loop->span;
    b->block = loop->blocks[0];
    TirVal *number = b->block->params.at[0];
    issue_products(r, map, false,
                   second ? tir_const_bool(b, true) : tir_binary(b, TIR_NE, number, range.lo));
    if (second)
        issue_products(r, map, true, tir_binary(b, TIR_NE, number, next));
    tir_yield(b, 0, NULL);
    b->block = around;
    if (second)
        issue_if_any(r, map, range, true, tir_binary(b, TIR_NE, range.hi, next));
}

static void
make_issuer(Roles *r)
{
    TirBuilder consumer = r->b, *b = &r->b;
    TirBlock *root = tir_block_new(r->fn);
    CloneMap map = clone_map(r->fn);

    *b = (TirBuilder){.fn = r->fn, .block = root, .at = -1, .span = r->loop->span};
    TirVal *index = roles_block_index(r, roles_grid(r));
    Range range = roles_consumer_range(r, roles_consumer_index(r, index, 0), NULL);
    for (uint32_t i = 0; r->old->ops.at[i] != r->loop; i++) {
        if (is_operand(r->old->ops.at[i]))
            roles_copy(r, &map, r->old->ops.at[i], false);
    }
    b->span = r->loop->span;
    on_sums(r, TIR_PRODUCER_ACQUIRE, false);
    for (uint32_t k = 0; k < 2; k++) { /* to begin with, and for the first iteration */
        on_sums(r, TIR_PRODUCER_ACQUIRE, true);
        on_sums(r, TIR_PRODUCER_COMMIT, true);
    }
    issue_loop(r, &map, range);
    b->span = r->loop->span;
    on_sums(r, TIR_PRODUCER_COMMIT, false);
    roles_release(b, &r->once, NULL);
    r->once_given_back = true;
    r->b = consumer;
    tir_role(r->fn->plan, ROLE_MMA)->program = root;
}

/* ---- the consumer ---- */

static TirVal *
read_sum(TirBuilder *b, TirShared *sum)
{
    TirType type = tir_tile2(sum->dtype, sum->rows, sum->cols);
    TirOp *read = tir_op_new(b, TIR_TMEM_READ, 0, NULL, 1, &type);

    read->shared = sum;
    return read->results[0];
}

static void
write_tmem(TirBuilder *b, TirShared *to, TirVal *value)
{
    tir_op_new(b, TIR_TMEM_WRITE, 1, &value, 0, NULL)->shared = to;
}

/* Takes result `k` from a branch or loop, with what its blocks yield for it. */
static void
drop_result(TirOp *op, uint32_t k)
{
    uint32_t initial = op->op == TIR_FOR ? loop_first_initial(op) : 0;

    for (uint32_t j = 0; j < op->n_blocks; j++) {
        TirBlock *block = op->blocks[j];
        TirOp *yield = block_yield(block);
        yield->n_args--;
        for (uint32_t i = k; i < yield->n_args; i++)
            yield->args[i] = yield->args[i + 1];
        if (op->op != TIR_FOR)
            continue;
        block->params.n--;
        for (uint32_t i = k + 1; i < block->params.n; i++) {
            block->params.at[i] = block->params.at[i + 1];
            block->params.at[i]->index = i;
        }
    }
    if (op->op == TIR_FOR) {
        op->n_args--;
        for (uint32_t i = initial + k; i < op->n_args; i++)
            op->args[i] = op->args[i + 1];
    }
    op->n_results--;
    for (uint32_t i = k; i < op->n_results; i++) {
        op->results[i] = op->results[i + 1];
        op->results[i]->index = i;
    }
}

/* A branch, as it was copied, one result of which is what becomes of a sum: `sum`, or what it writes there. */
static void
change_in_branch(Roles *r, TirOp *branch, const Product *p, TirVal *sum)
{
    uint32_t k = p->mma->args[2]->index;

    for (uint32_t side = 0; side < 2; side++) {
        TirBlock *block = branch->blocks[side];
        TirOp *yield = block_yield(block);
        TirVal *value = yield->args[k];
        TirBuilder b = {.fn = r->fn, .block = block, .at = 0, .span = branch->span};
        if (value == sum)
            continue;
        if (count_uses_in(block, sum) > 0)
            tir_replace_in_block(block, sum, read_sum(&b, p->sum));
        b.at = (int32_t)block->ops.n - 1;
        write_tmem(&b, p->sum, value);
    }
    drop_result(branch, k);
}

static void
change_sum(Roles *r, CloneMap *map, const Product *p)
{
    TirBuilder *b = &r->b;

    roles_plain(b, TIR_CONSUMER_WAIT, p->sum, 0);
    uint32_t at = b->block->ops.n;
    TirVal *sum = read_sum(b, p->sum);
    clone_set(map, r->body->params.at[p->carried], sum);
    roles_copy(r, map, p->change, false);
    if (p->change->op == TIR_IF) {
        TirOp *branch = b->block->ops.at[b->block->ops.n - 1];
        change_in_branch(r, branch, p, sum);
        b->block->ops.n = at; /* it reads the sum itself */
        vec_push(r->fn->arena, &b->block->ops, branch);
    } else {
        write_tmem(b, p->sum, clone_of(map, p->mma->args[2]));
    }
    roles_plain(b, TIR_CONSUMER_RELEASE, p->sum, 0);
}

static void
meet_product(Roles *r, CloneMap *map, const Product *p)
{
    TirBuilder *b = &r->b;

    if (p->second) {
        roles_plain(b, TIR_PRODUCER_ACQUIRE, p->operand, 0);
        write_tmem(b, p->operand, clone_of(map, p->mma->args[0]));
        roles_plain(b, TIR_PRODUCER_COMMIT, p->operand, 0);
    }
    if (p->carried > 0) { /* the loop carries nothing */
        clone_set(map, p->mma->results[0], r->chain_none);
        return;
    }
    roles_plain(b, TIR_CONSUMER_WAIT, p->sum, 0);
    TirVal *read = read_sum(b, p->sum);
    read->name = p->mma->results[0]->name;
    clone_set(map, p->mma->results[0], read);
}

bool
roles_chain_op(Roles *r, CloneMap *map, const TirOp *op)
{
    if (r->chain == NULL)
        return false;
    if (is_operand(op))
        return true;
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        if (p->mma != op && p->change != op)
            continue;
        if (p->change == op)
            change_sum(r, map, p);
        else
            meet_product(r, map, p);
        return true;
    }
    return false;
}

/* What the loop leaves: sums, which stages hold until the tile is done. */
static void
read_sums(Roles *r, CloneMap *map, Range range, TirVal *const *initial)
{
    TirBuilder *b = &r->b;
    TirVal *none = tir_binary(b, TIR_GE, range.lo, range.hi);

    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        if (p->carried == 0)
            continue;
        TirVal *begin = initial[p->carried - 1];
        roles_plain(b, TIR_CONSUMER_WAIT, p->sum, 0);
        if (p->change == NULL)
            roles_zero_sums(r, none, &p->sum, 1);
        TirVal *value = read_sum(b, p->sum);
        clone_set(map, r->loop->results[p->carried - 1],
                  tir_is_zero(begin) || p->change != NULL ? value
                                                          : tir_binary(b, TIR_ADD, begin, value));
    }
}

void
roles_chain(Roles *r, CloneMap *map, Range range)
{
    TirBuilder *b = &r->b;
    TirVal **initial = roles_initial(r, map, 0), **values = roles_initial(r, map, 0);
    Staged staged = {0};

    r->chain = arena_new(r->fn->arena, struct Chain);
    find_products(r, r->chain);
    list_loads(r, r->chain);
    make_issuer(r);
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        if (p->change == NULL)
            continue;
        roles_plain(b, TIR_CONSUMER_WAIT, p->sum, 0);
        write_tmem(b, p->sum, initial[p->carried - 1]);
        roles_plain(b, TIR_CONSUMER_RELEASE, p->sum, 0);
    }
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (op->op != TIR_YIELD)
            roles_add_step(r, &staged.steps, STEP_OP, op, 0);
    }
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        if (r->chain->products.at[k].carried == 0)
            roles_add_step(r, &staged.steps, STEP_RELEASE, r->chain->products.at[k].mma, 0);
    }
    r->chain_none = tir_const_int(b, 0);
    roles_emit_staged(r, map, range, &staged, values);
    TirOp *loop = b->block->ops.at[b->block->ops.n - 1];
    for (uint32_t k = r->loop->n_results; k-- > 0;) {
        if (block_yield(loop->blocks[0])->args[k] == r->chain_none)
            drop_result(loop, k);
        else
            clone_set(map, r->loop->results[k], values[k]);
    }
    read_sums(r, map, range, initial);
    r->chain = NULL;
}
