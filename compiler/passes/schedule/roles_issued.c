/* roles_issued.c - a consumer's main loop, whose products a role of their own issues
 * (roles_issue.c).
 *
 * The consumer goes through an iteration as it was written, without products: in place of one it
 * waits for the result and reads it, or writes the operand that it has computed and hands that on.
 * Sums it may change, and has when the loops are done; it writes what they begin with, unless the
 * first product overwrites what is there.
 *
 *     for ..  { read vectors; wait for a product, read it; compute; write an operand; ..; wait for
 *     what is to be added to memory,
 *               add it }
 *
 * Of a loop that does nothing but add products up a consumer has no iterations: it waits for the
 * sums, of which there are two stages where tensor memory has room, so that the next tile's
 * products run while it reads this one's.
 *
 * Where two blocks multiply together, a product has rows of two programs, and is issued in the
 * iterations of both.  A consumer that lacks some of them lets their results pass unread, and hands
 * on operands of zeros, which leave its sums as they are:
 *
 *     for ..  { consumer_wait S; tmem_write P, 0; producer_commit P }
 *
 * (So no sum is made of loaded tiles alone: plan_pairs.c.)
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* ---- an iteration ---- */

static void
write_tmem(TirBuilder *b, TirShared *to, TirVal *value)
{
    tir_op_new(b, TIR_TMEM_WRITE, 1, &value, 0, NULL)->shared = to;
}

/* A sum as the loop has it, and not as the instruction, which may be given the transposed
 * product. */
static TirVal *
read_sum(TirBuilder *b, const Product *p)
{
    TirVal *sum = roles_read_tmem(b, p->result, 0);

    return p->mma->swap_ab ? tir_transpose(b, sum) : sum;
}

static void
write_sum(TirBuilder *b, const Product *p, TirVal *value)
{
    write_tmem(b, p->result, p->mma->swap_ab ? tir_transpose(b, value) : value);
}

/* A branch, as it was copied, one result of which is what becomes of a sum: `sum`, or what it
 * writes there.  Nobody reads that result (`none`) any more. */
static void
change_in_branch(Roles *r, TirOp *branch, const Product *p, TirVal *sum, TirVal *none)
{
    for (uint32_t side = 0; side < 2; side++) {
        TirBlock *block = branch->blocks[side];
        TirVal **yielded = &block_yield(block)->args[p->mma->args[2]->index], *value = *yielded;
        TirBuilder b = {.fn = r->fn, .block = block, .at = 0, .span = branch->span};
        *yielded = none;
        if (value == sum)
            continue;
        if (count_uses_in(block, sum) > 0)
            tir_replace_in_block(block, sum, read_sum(&b, p));
        b.at = (int32_t)block->ops.n - 1;
        write_sum(&b, p, value);
    }
}

/* Waits for room for an operand, unless it has: when the products of the last piece have ended,
 * those of the others have. */
static void
acquire_operand(Roles *r, GraphOperand *operand)
{
    if (!operand->implied && !operand->acquired)
        roles_plain(&r->b, TIR_PRODUCER_ACQUIRE, issue_last_piece(operand), 0);
    operand->acquired = true;
}

static void
change_sum(Roles *r, CloneMap *map, const Product *p)
{
    TirBuilder *b = &r->b;

    if (!p->second)
        roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
    else /* the product that read it has ended, and so has added to the sum */
        acquire_operand(r, issue_operand(r->graph, p));
    if (p->corrected) {
        roles_hand_factors(r, map, p->change, p->mma->args[2]->index);
        return;
    }
    uint32_t at = b->block->ops.n;
    TirVal *sum = read_sum(b, p), *param = r->body->params.at[p->sum];
    TirVal *carried = clone_of(map, param);
    clone_set(map, param, sum);
    roles_copy(r, map, p->change, false);
    clone_set(map, param, carried);
    if (p->change->op == TIR_IF) {
        TirOp *branch = b->block->ops.at[b->block->ops.n - 1];
        change_in_branch(r, branch, p, sum, carried);
        b->block->ops.n = at; /* it reads the sum itself */
        vec_push(r->fn->arena, &b->block->ops, branch);
    } else {
        write_sum(b, p, clone_of(map, p->mma->args[2]));
    }
    if (!p->second)
        roles_plain(b, TIR_CONSUMER_RELEASE, p->result, 0);
}

/* Writes an operand, piece by piece; what is handed on with another one is only written. */
static void
write_pieces(Roles *r, TirVal *value, GraphOperand *operand)
{
    TirBuilder *b = &r->b;

    acquire_operand(r, operand);
    operand->acquired = false;
    for (uint32_t k = 0; k < operand->n_pieces; k++) {
        if (operand->shared)
            roles_write(b, operand->pieces[k], value);
        else
            write_tmem(b, operand->pieces[k], value);
        if (operand->with == 0)
            roles_plain(b, TIR_PRODUCER_COMMIT, operand->pieces[k], 0);
    }
}

static void
write_operand(Roles *r, const CloneMap *map, GraphOperand *operand)
{
    TirVal *value = clone_of(map, operand->base);

    write_pieces(r, operand->transposed ? tir_transpose(&r->b, value) : value, operand);
}

/* In place of the product: what it reads of the consumer's, behind what is handed on with that, and
 * what it gives. */
static void
meet_product(Roles *r, CloneMap *map, const Product *p)
{
    Graph *graph = r->graph;
    GraphOperand *operand = issue_operand(graph, p);

    if (operand != NULL && operand->first == p->mma && operand->with == 0) {
        for (uint32_t k = 0; k < graph->operands.n; k++) {
            if (graph->operands.at[k].with == p->operand)
                write_operand(r, map, &graph->operands.at[k]);
        }
        write_operand(r, map, operand);
    }
    if (p->kind == PRODUCT_SUM) /* what the loop carries for it nobody reads: pass_roles drops it */
        clone_set(map, p->mma->results[0], clone_of(map, r->body->params.at[p->sum]));
    else if (p->result->to == ROLE_CONSUMER)
        issue_read_result(r, map, p);
}

static Product *
product_of(const Graph *graph, const TirOp *mma)
{
    for (uint32_t k = 0; k < graph->products.n; k++) {
        if (graph->products.at[k].mma == mma)
            return &graph->products.at[k];
    }
    return NULL;
}

bool
roles_issued_op(Roles *r, CloneMap *map, const TirOp *op)
{
    const TirOp *load = plan_piped(op);

    if (r->graph == NULL)
        return false;
    if (load != NULL && load->shared->kind != SHARED_VECTORS)
        return true; /* for the mma role */
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const Product *p = &r->graph->products.at[k];
        bool added = p->addition == op && p->result->to == ROLE_REDUCE;
        if (p->mma != op && p->change != op && !added)
            continue;
        if (p->change == op)
            change_sum(r, map, p);
        else if (!added)
            meet_product(r, map, p);
        return true;
    }
    return false;
}

/* ---- the steps of an iteration ---- */

/* The product over whose result the operand lies that goes with a sum which `op` changes; NULL: no
 * such one. */
static const TirOp *
product_below(Graph *graph, const TirOp *op)
{
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *p = &graph->products.at[k];
        if (p->change == op && p->second && issue_operand(graph, p)->over > 0)
            return graph->products.at[issue_operand(graph, p)->over - 1].mma;
    }
    return NULL;
}

/* The consumer's operations in their order, but in a chain nothing in front of an operand that it
 * does not need.  Where the result of a first product says that a sum may be changed, the change
 * comes behind it. */
static OpList
order_operations(Roles *r)
{
    const TirBlock *body = r->body;
    OpList order = {0};

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        const TirOp *below = product_below(r->graph, op);
        bool late = false;
        for (uint32_t j = i; j < body->ops.n && below != NULL; j++)
            late = late || body->ops.at[j] == below;
        if (op->op != TIR_YIELD && !late)
            vec_push(r->fn->arena, &order, op);
        for (uint32_t j = 0; j < i && op->op == TIR_MMA; j++) {
            if (product_below(r->graph, body->ops.at[j]) == op)
                vec_push(r->fn->arena, &order, body->ops.at[j]);
        }
    }
    for (uint32_t k = 0; k < r->graph->products.n && r->mmas == AS_CHAIN; k++) {
        if (r->graph->products.at[k].second)
            stages_put_off(r, &order, r->graph->products.at[k].mma);
    }
    return order;
}

static bool
is_vector(const TirOp *op)
{
    return op->op == TIR_LOAD && op->shared != NULL && op->shared->kind == SHARED_VECTORS;
}

/* Whether a consumer has registers for a vector, too, while it waits for the product: each of two
 * warp groups has half of it, of which each of the four lanes that share a row has a quarter. */
static bool
has_room_for(const Roles *r, const TirOp *vector, const TirOp *mma)
{
    const TirRole *consumer = tir_role(r->fn->plan, ROLE_CONSUMER);
    int64_t registers = vector->results[0]->type.dim[0] / (int32_t)consumer->warps;

    return plan_kept_elements(mma, consumer->warps) + registers + BESIDE_SUMS <=
           (int64_t)consumer->registers;
}

/* Vectors that stand behind the product at place `at`, up to the next one that is read: they are
 * read in front of the wait for it.  Behind that they would have to wait for the operands of
 * products, which the port of shared memory lets pass first. */
static void
list_vectors(Roles *r, const OpList *order, uint32_t at, bool *listed, StepList *steps)
{
    for (uint32_t i = at + 1; i < order->n; i++) {
        TirOp *op = order->at[i];
        const Product *p = product_of(r->graph, op);
        if (p != NULL && p->kind == PRODUCT_READ)
            break;
        if (!is_vector(op) || !has_room_for(r, op, order->at[at]))
            continue;
        roles_add_step(r, steps, STEP_OP, op, 0);
        listed[i] = true;
    }
}

/* The steps of an iteration: a result is given back when what is made of it is written for a
 * product, or it has been added to memory, or else behind all. */
static void
list_steps(Roles *r, Graph *graph, StepList *steps)
{
    OpList order = order_operations(r);
    bool *given = arena_array(r->fn->arena, bool, graph->products.n + 1);
    bool *listed = arena_array(r->fn->arena, bool, order.n + 1);

    for (uint32_t i = 0; i < order.n; i++) {
        TirOp *op = order.at[i];
        const Product *p = product_of(graph, op);
        const GraphOperand *operand = p == NULL ? NULL : issue_operand(graph, p);
        if (p != NULL && p->kind == PRODUCT_READ)
            list_vectors(r, &order, i, listed, steps);
        if (!listed[i])
            roles_add_step(r, steps, STEP_OP, op, 0);
        for (uint32_t k = 0; k < graph->products.n; k++) {
            const Product *result = &graph->products.at[k];
            bool done = result->addition == op ||
                        (operand != NULL && operand->first == op && operand->made_of[k]);
            if (!done || given[k])
                continue;
            if (!result->implied && result->result->to == ROLE_CONSUMER)
                roles_add_step(r, steps, STEP_RELEASE, result->mma, 0);
            given[k] = true;
        }
    }
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *result = &graph->products.at[k];
        if (result->kind == PRODUCT_READ && !given[k] && !result->implied)
            roles_add_step(r, steps, STEP_RELEASE, result->mma, 0);
    }
    /* the last one first, so that it may have the barriers of one before it (plan_shared.c) */
    for (uint32_t k = r->stage0_pipelines.n; k-- > 0;) {
        if (is_vector(r->stage0_pipelines.at[k]))
            roles_add_step(r, steps, STEP_RELEASE, r->stage0_pipelines.at[k], 0);
    }
}

static void
compute_loop(Roles *r, CloneMap *map, Range range)
{
    TirVal **values = roles_initial(r, map, 0);
    Staged staged = {0};

    list_steps(r, r->graph, &staged.steps);
    roles_emit_staged(r, map, range, &staged, values);
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        clone_set(map, r->loop->results[k], values[k]);
}

/* ---- iterations of the other block of a pair ---- */

/* Within the iterations in which there are products for the consumer: its own. */
static Range
own_of(Roles *r, Range own, Range issued)
{
    TirBuilder *b = &r->b;

    if (roles_is_same(own.lo, issued.lo))
        return own;
    /* one that has none may have its place anywhere */
    own.lo = tir_binary(b, TIR_MIN, tir_binary(b, TIR_MAX, own.lo, issued.lo), issued.hi);
    own.hi = tir_binary(b, TIR_MAX, own.lo, tir_binary(b, TIR_MIN, own.hi, issued.hi));
    return own;
}

/* Waits for results over which operands lie, or for others, which are given back. */
static void
pass_results(Roles *r, bool implied)
{
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const Product *p = &r->graph->products.at[k];
        if (p->sum > 0 || p->implied != implied)
            continue;
        roles_plain(&r->b, TIR_CONSUMER_WAIT, p->result, 0);
        if (!implied)
            roles_plain(&r->b, TIR_CONSUMER_RELEASE, p->result, 0);
    }
}

/* The consumer takes part in iterations in which it has nothing to compute. */
static void
let_pass(Roles *r, TirVal *from, TirVal *to)
{
    if (roles_is_same(from, to))
        return;
    r->b.span = r->loop->span;
    TirOp *loop = roles_begin_for(&r->b, from, to, r->loop->span);
    pass_results(r, true);
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const Product *p = &r->graph->products.at[k];
        r->b.span = p->mma->span;
        if (p->second)
            write_pieces(r, tir_splat_const(&r->b, p->mma->args[0]->type, 0.0),
                         issue_operand(r->graph, p));
    }
    pass_results(r, false);
    r->b.span = r->loop->span;
    roles_end(&r->b, loop);
}

/* ---- the loop ---- */

/* The loop that is around all others. */
static TirOp *
outermost(const Roles *r)
{
    return r->around.n > 0 ? r->around.at[0] : r->loop;
}

/* The result of the outermost loop that a sum is. */
static TirVal *
whole_sum(const Roles *r, const Product *p)
{
    uint32_t k = p->sum - 1;

    for (uint32_t depth = r->around.n; depth-- > 0;) {
        const TirOp *inner = depth + 1 < r->around.n ? r->around.at[depth + 1] : r->loop;
        k = inner->args[loop_first_initial(inner) + k]->index - 1;
    }
    return outermost(r)->results[k];
}

/* What it begins with. */
static TirVal *
begin_of(const Roles *r, const CloneMap *map, const Product *p)
{
    const TirOp *loop = outermost(r);

    return clone_of(map, loop->args[loop_first_initial(loop) + whole_sum(r, p)->index]);
}

static void
write_initial(Roles *r, const CloneMap *map)
{
    TirBuilder *b = &r->b;

    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const Product *p = &r->graph->products.at[k];
        bool turns = issue_sum_turns(p) > 0;
        if (!p->written || p->corrected)
            continue;
        if (turns)
            roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
        write_sum(b, p, begin_of(r, map, p));
        if (turns)
            roles_plain(b, TIR_CONSUMER_RELEASE, p->result, 0);
    }
}

void
roles_issued(Roles *r, CloneMap *map, Range range)
{
    TirVal *const *initial = roles_initial(r, map, 0);
    Graph *graph = r->graph;

    graph->there = r->issued.lo != NULL ? r->issued : range;
    if (r->issued.lo != NULL)
        range = own_of(r, range, r->issued);
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        clone_set(map, r->loop->results[k], initial[k]);
    if (r->around.n == 0) /* bounds may be loaded: behind that */
        write_initial(r, map);
    let_pass(r, graph->there.lo, range.lo);
    if (r->mmas != AS_SUMS)
        compute_loop(r, map, range);
    let_pass(r, range.hi, graph->there.hi);
}

/* ---- before the loops, and behind them ---- */

/* Writes to tensor memory what products read there in all iterations. */
static void
write_kept(Roles *r, const CloneMap *map, const GraphKept *kept)
{
    TirBuilder *b = &r->b;
    const TirOp *load = kept->load;
    TirVal *args[TENSOR_MAX_RANK];

    b->span = load->span;
    for (uint32_t k = 0; k < load->n_args; k++)
        args[k] = clone_of(map, load->args[k]);
    TirVal *value = tir_load(b, load->tensor, load->index, args);
    write_tmem(b, kept->buffer, kept->transposed ? tir_transpose(b, value) : value);
    roles_plain(b, TIR_PRODUCER_COMMIT, kept->buffer, 0);
}

/* The products of the main loop, as the roles have them. */
static void
read_graph(Roles *r)
{
    const char *why = graph_place(r->px->target, r->fn, r->graph);

    if (why != NULL)
        buf_printf(r->px->bugs, "a graph of products was planned that is none: %s\n", why);
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        Product *p = &r->graph->products.at[k];
        p->written = p->kind == PRODUCT_SUM && (p->change != NULL || r->mmas == AS_GRAPH);
        p->corrected = p->change != NULL && tir_role(r->fn->plan, ROLE_CORRECTION) != NULL;
    }
}

void
roles_begin_issue(Roles *r, const CloneMap *map)
{
    read_graph(r);
    issue_make_buffers(r, r->graph);
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const Product *p = &r->graph->products.at[k];
        if (p->corrected)
            roles_begin_correction(r, p->result, p->sum - 1);
    }
    roles_write_program(r, ROLE_MMA, issue_write_program);
    if (r->correction != NULL)
        roles_write_program(r, ROLE_CORRECTION, issue_write_corrector);
    if (tir_adding_warps(r->fn->plan) > 0)
        roles_write_program(r, ROLE_REDUCE, issue_write_adder);
    for (uint32_t k = 0; k < r->graph->kept.n; k++)
        write_kept(r, map, &r->graph->kept.at[k]);
    if (r->around.n > 0)
        write_initial(r, map);
}

/* Waits for a sum; where there was no iteration nobody hands one on that goes with an operand. */
static void
wait_for_sum(Roles *r, const Product *p)
{
    Range there = r->graph->there;
    TirOp *branch = NULL;

    if (issue_sum_turns(p) == 0)
        branch = roles_begin_if(&r->b, tir_binary(&r->b, TIR_LT, there.lo, there.hi));
    roles_plain(&r->b, TIR_CONSUMER_WAIT, p->result, 0);
    roles_end(&r->b, branch);
}

/* Writes zeros to a stage that the consumer holds, where no product has written it. */
static void
write_zeros(Roles *r, TirShared *sum)
{
    TirBuilder *b = &r->b;
    Range there = r->graph->there;
    TirOp *branch = roles_begin_if(b, tir_binary(b, TIR_GE, there.lo, there.hi));

    write_tmem(b, sum, tir_splat_const(b, tir_tile2(sum->dtype, sum->rows, sum->cols), 0));
    roles_end(b, branch);
}

/* What the loops leave: sums, which stages hold until the tile is done.  One to which products were
 * issued is there, also where none of them was for an iteration of this consumer's own program. */
void
roles_end_issue(Roles *r, CloneMap *map)
{
    TirBuilder *b = &r->b;

    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const Product *p = &r->graph->products.at[k];
        if (p->kind != PRODUCT_SUM || p->corrected)
            continue;
        wait_for_sum(r, p);
        if (!p->written)
            write_zeros(r, p->result);
        TirVal *value = read_sum(b, p), *begin = begin_of(r, map, p);
        clone_set(map, whole_sum(r, p),
                  tir_is_zero(begin) || p->written ? value : tir_binary(b, TIR_ADD, begin, value));
    }
    r->graph = NULL;
}

void
roles_release_sums(Roles *r)
{
    for (uint32_t k = 0; k < r->sums.n; k++)
        roles_plain(&r->b, TIR_CONSUMER_RELEASE, r->sums.at[k], 0);
}
