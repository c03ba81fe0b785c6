/* roles_graph.c - a main loop whose products form a graph, with arithmetic between them; loops may be around it.
 *
 * The mma role issues the products of an iteration, first those that arithmetic reads, then those that have what it
 * computes; the consumer goes through the iteration as it was written:
 *
 *     mma         for ..  { products that are read;  wait for an operand: products that have it;  .. }
 *                 the first product of the next iteration behind the first operand that is made of its result, where loads
 *                 have the stages for that: it runs under the arithmetic that the next operand waits for
 *     consumer    for ..  { wait for a product, read it; compute; write an operand; ..; wait for what is to be added to
 *                           memory, add it }
 *     reduce      for ..  { wait for what is to be added to memory, add it }, in place of the consumer where the plan has it
 *
 * Pipelines lie between the two: of results in tensor memory, of operands there or in shared memory (plan_graph.c).  Sums
 * stay in tensor memory over all loops; the consumer writes what they begin with, and reads them behind the loops.
 * Consumers compute a product's transpose where the columns of the product are theirs.
 */
#include "compiler/passes/schedule/plan_graph.h"
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

typedef VEC(GraphProduct *) ProductList;

/* ---- what there is ---- */

static GraphProduct *
product_of(Graph *graph, const TirOp *mma)
{
    for (uint32_t k = 0; k < graph->products.n; k++) {
        if (graph->products.at[k].mma == mma)
            return &graph->products.at[k];
    }
    return NULL;
}

static GraphOperand *
operand_of(Graph *graph, const GraphProduct *p)
{
    return p->operand == 0 ? NULL : &graph->operands.at[p->operand - 1];
}

/* The loop that is around all others. */
static TirOp *
outermost(const Roles *r)
{
    return r->around.n > 0 ? r->around.at[0] : r->loop;
}

/* The result of the outermost loop that a sum is. */
static TirVal *
whole_sum(const Roles *r, const GraphProduct *p)
{
    uint32_t k = p->carried - 1;

    for (uint32_t depth = r->around.n; depth-- > 0;) {
        const TirOp *inner = depth + 1 < r->around.n ? r->around.at[depth + 1] : r->loop;
        k = inner->args[loop_first_initial(inner) + k]->index - 1;
    }
    return outermost(r)->results[k];
}

static TirShared *
new_result(Roles *r, const GraphProduct *p)
{
    const TirVal *value = p->mma->results[0];
    bool swap = p->mma->swap_ab;
    TirShared *result = roles_new_buffer(r, value->name, value->type.dtype, value->type.dim[swap],
                                         value->type.dim[!swap], 1);

    result->kind = SHARED_TMEM;
    return result;
}

static TirShared *
new_operand(Roles *r, const GraphOperand *operand)
{
    TirType type = operand->base->type;
    TirShared *buffer = roles_new_buffer(r, operand->base->name, type.dtype,
                                         type.dim[operand->transposed],
                                         type.dim[!operand->transposed], 1);

    buffer->kind = operand->shared ? SHARED_PIPELINE : SHARED_TMEM;
    buffer->filled = FILLED_BY_CONSUMER;
    return buffer;
}

/* Finds what needs no tokens of its own.  A result of which an operand is made has been read when that is handed on, for which the
 * mma role waits in the same iteration.  Of an operand in tensor memory that is made of a result the products have ended when
 * that one is there: they are issued before. */
static void
find_implied(const Roles *r, Graph *graph, bool apart)
{
    for (uint32_t k = 0; k < graph->products.n; k++) {
        GraphProduct *p = &graph->products.at[k];
        bool in_turn = false;
        for (uint32_t j = 0; j < graph->products.n; j++)
            in_turn = in_turn || (!apart && graph->products.at[j].turn == k + 1);
        for (uint32_t j = 0; j < graph->operands.n; j++) {
            GraphOperand *operand = &graph->operands.at[j];
            bool needs = graph_needs(r->fn->arena, r->body, operand, p);
            p->implied = p->implied || (needs && !in_turn);
            operand->implied = operand->implied || (needs && !operand->shared);
        }
    }
}

static void
make_buffers(Roles *r, Graph *graph)
{
    bool apart = tir_adding_warps(r->fn->plan) > 0;

    find_implied(r, graph, apart);
    for (uint32_t k = 0; k < graph->products.n; k++) {
        GraphProduct *p = &graph->products.at[k];
        if (p->turn == 0)
            p->result = new_result(r, p);
        if (p->turn == 0 && p->kind == PRODUCT_ADDED)
            p->result->reduced = apart;
        if (p->kind == PRODUCT_SUM) {
            p->result->carried = true;
            vec_push(r->fn->arena, &r->sums, p->result);
        }
    }
    for (uint32_t k = 0; k < graph->products.n; k++) {
        GraphProduct *p = &graph->products.at[k];
        if (p->turn > 0 && apart) { /* the reduce role has tokens of its own */
            p->result = new_result(r, p);
            p->result->reduced = true;
            p->result->aliases = graph->products.at[p->turn - 1].result->id + 1;
        } else if (p->turn > 0) {
            p->result = graph->products.at[p->turn - 1].result;
        }
        p->mma->shared = p->result;
    }
    for (uint32_t k = 0; k < graph->operands.n; k++) {
        GraphOperand *operand = &graph->operands.at[k];
        operand->buffer = new_operand(r, operand);
        if (operand->over > 0)
            operand->buffer->aliases = graph->products.at[operand->over - 1].result->id + 1;
    }
}

/* ---- the mma role ---- */

/* Reads the stage of a load that has been waited for with the product ahead. */
static void
read_oldest(Roles *r, CloneMap *map, const TirOp *load)
{
    TirVal *stage = tir_const_int(&r->b, 0);
    TirOp *read = tir_op_new(&r->b, TIR_SHARED_READ, 1, &stage, 1, &load->results[0]->type);

    read->shared = load->shared;
    read->oldest = true;
    read->results[0]->name = load->results[0]->name;
    clone_set(map, load->results[0], read->results[0]);
}

/* Products in the order in which they are issued: those that are read come first. */
static void
list_in_order(Roles *r, Graph *graph, ProductList *order)
{
    for (uint32_t late = 0; late < 2; late++) {
        for (uint32_t k = 0; k < graph->products.n; k++) {
            GraphProduct *p = &graph->products.at[k];
            if ((p->kind != PRODUCT_READ) == (late == 1))
                vec_push(r->fn->arena, order, p);
        }
    }
}

/* The operand as it lies in its pipeline, or its transpose. */
static TirVal *
view_of(Roles *r, const CloneMap *map, TirVal *operand, bool turned)
{
    bool transposed;
    TirVal *read = clone_of(map, graph_base(operand, &transposed));

    return transposed != turned ? tir_transpose(&r->b, read) : read;
}

static bool
reads_load(const GraphProduct *p, const TirOp *load)
{
    return plan_operand_load(p->mma->args[0]) == load || plan_operand_load(p->mma->args[1]) == load;
}

/* Waits for what the product's operands lie in, unless an earlier one of the iteration has. */
static void
meet_operands(Roles *r, CloneMap *map, const GraphProduct *p)
{
    TirBuilder *b = &r->b;
    const GraphOperand *operand = operand_of(r->graph, p);

    for (uint32_t k = 2; k-- > 0;) {
        const TirOp *load = plan_operand_load(p->mma->args[k]);
        bool first = load != NULL && load->parent == r->body &&
                     map->to[load->results[0]->id] == NULL;
        if (first && !p->ahead && load->shared->release == RELEASE_BEHIND)
            read_oldest(r, map, load);
        else if (first)
            roles_copy(r, map, load, false);
    }
    if (operand == NULL || map->to[operand->base->id] != NULL)
        return;
    TirVal *stage = tir_const_int(b, 0);
    const TirShared *buffer = operand->buffer;
    TirType type = tir_tile2(buffer->dtype, buffer->rows, buffer->cols);
    roles_plain(b, TIR_CONSUMER_WAIT, operand->buffer, 0);
    TirOp *read = tir_op_new(b, TIR_SHARED_READ, 1, &stage, 1, &type);
    read->shared = operand->buffer;
    clone_set(map, operand->base, read->results[0]);
}

/* Acquires the place of a result: of one over which another lies that the reduce role reads, when that has been read, too,
 * for the product that the iteration has of it. */
static void
acquire_result(Roles *r, const GraphProduct *p)
{
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const TirShared *above = r->graph->products.at[k].result;
        if (above->reduced && above->aliases == p->result->id + 1)
            roles_plain(&r->b, TIR_PRODUCER_ACQUIRE, r->graph->products.at[k].result, 0);
    }
    if (p->result->aliases == 0 && !p->implied)
        roles_plain(&r->b, TIR_PRODUCER_ACQUIRE, p->result, 0);
}

static void
issue_product(Roles *r, CloneMap *map, const GraphProduct *p)
{
    TirBuilder *b = &r->b;
    const GraphOperand *operand = operand_of(r->graph, p);
    bool swap = p->mma->swap_ab, sum = p->kind == PRODUCT_SUM;
    TirVal *args[3];

    b->span = p->mma->span;
    meet_operands(r, map, p);
    args[0] = view_of(r, map, p->mma->args[swap], operand != NULL ? operand->transposed : swap);
    args[1] = view_of(r, map, p->mma->args[!swap], swap);
    args[2] = tir_const_bool(b, sum);
    if (!sum)
        acquire_result(r, p);
    tir_op_new(b, TIR_TMEM_MMA, 3, args, 0, NULL)->shared = p->result;
    if (!sum)
        roles_plain(b, TIR_PRODUCER_COMMIT, p->result, 0);
}

/* Gives back what no product from place `from` of the order on reads, and that one before it did. */
static void
give_back(Roles *r, const ProductList *order, uint32_t at)
{
    const GraphProduct *p = order->at[at];
    const TirOp *loads[2] = {plan_operand_load(p->mma->args[0]), plan_operand_load(p->mma->args[1])};

    for (uint32_t k = 0; k < 2; k++) {
        bool later = loads[k] == NULL || loads[k]->parent != r->body ||
                     (k == 1 && loads[0] == loads[1]);
        for (uint32_t j = at + 1; j < order->n && !later; j++)
            later = reads_load(order->at[j], loads[k]);
        if (!later)
            roles_plain(&r->b, TIR_CONSUMER_RELEASE, loads[k]->shared, 0);
    }
    bool later = p->operand == 0 || operand_of(r->graph, p)->implied;
    for (uint32_t j = at + 1; j < order->n && !later; j++)
        later = order->at[j]->operand == p->operand;
    if (!later)
        roles_plain(&r->b, TIR_CONSUMER_RELEASE, operand_of(r->graph, p)->buffer, 0);
}

/* Finds the first product of an iteration, if it may be issued in the one before: behind the product of the first operand that
 * is made of it, while others wait for theirs.  Stages that both read are held longer. */
static void
find_ahead(Roles *r, const ProductList *order)
{
    GraphProduct *first = order->at[0];
    uint32_t k = 1, last = 1;

    while (k < order->n &&
           (order->at[k]->operand == 0 ||
            !graph_needs(r->fn->arena, r->body, operand_of(r->graph, order->at[k]), first)))
        k++;
    for (uint32_t j = 1; j < order->n; j++)
        last = order->at[j]->operand != 0 ? j : last;
    if (first->kind != PRODUCT_READ || !first->implied || k >= last)
        return;
    for (uint32_t j = k + 1; j < order->n; j++) {
        if (order->at[j]->operand == order->at[k]->operand)
            return; /* it would overwrite what that reads */
    }
    for (uint32_t j = 0; j < 2; j++) {
        const TirOp *load = plan_operand_load(first->mma->args[j]);
        if (load == NULL || (load->parent == r->body && load->shared->stages < 2))
            return;
    }
    first->ahead = true;
    first->behind = order->at[k]->mma;
    for (uint32_t j = k + 1; j < order->n; j++) {
        GraphOperand *operand = operand_of(r->graph, order->at[j]);
        bool implied = false; /* by a product that is not ahead */
        for (uint32_t i = 1; i < order->n && operand != NULL; i++)
            implied = implied || graph_needs(r->fn->arena, r->body, operand, order->at[i]);
        if (operand != NULL)
            operand->implied = operand->implied && implied;
    }
    for (uint32_t j = 0; j < 2; j++) {
        const TirOp *load = plan_operand_load(first->mma->args[j]);
        bool later = false;
        for (uint32_t i = 1; i < order->n && load->parent == r->body; i++)
            later = later || reads_load(order->at[i], load);
        if (later)
            load->shared->release = RELEASE_BEHIND;
    }
}

/* The product ahead, if there is an iteration `number` of those up to `hi`. */
static void
issue_ahead(Roles *r, const CloneMap *outer, const ProductList *order, TirVal *number, TirVal *hi)
{
    TirBuilder *b = &r->b;
    TirBlock *around = b->block;
    CloneMap inside = clone_map_copy(r->fn, outer);
    TirOp *branch = tir_if(b, tir_binary(b, TIR_LT, number, hi), 0, NULL);

    branch->span = r->loop->span;
    b->block = branch->blocks[0];
    issue_product(r, &inside, order->at[0]);
    give_back(r, order, 0);
    tir_yield(b, 0, NULL);
    b->block = branch->blocks[1];
    tir_yield(b, 0, NULL);
    b->block = around;
}

static void
issue_iteration(Roles *r, const CloneMap *outer, const ProductList *order, TirVal *number,
                TirVal *hi)
{
    TirBuilder *b = &r->b;
    CloneMap inside = clone_map_copy(r->fn, outer);

    for (uint32_t k = order->at[0]->ahead ? 1 : 0; k < order->n; k++) {
        issue_product(r, &inside, order->at[k]);
        give_back(r, order, k);
        if (order->at[k]->mma == order->at[0]->behind)
            issue_ahead(r, outer, order, tir_binary(b, TIR_ADD, number, tir_const_int(b, 1)), hi);
    }
}

static void
issue_nest(Roles *r, const CloneMap *outer, TirVal *index, uint32_t depth)
{
    TirBuilder *b = &r->b;
    TirBlock *around = b->block;
    const TirOp *old = depth < r->around.n ? r->around.at[depth] : r->loop;
    CloneMap map = roles_consumer_map(r, index);
    TirVal *lo = clone_scalar_tree(b, &map, old->args[0]),
           *hi = clone_scalar_tree(b, &map, old->args[1]);
    ProductList order = {0};

    list_in_order(r, r->graph, &order);
    if (old == r->loop && order.at[0]->ahead)
        issue_ahead(r, outer, &order, lo, hi);
    TirOp *loop = tir_for(b, lo, hi, 0, NULL);
    loop->span = old->span;
    b->block = loop->blocks[0];
    if (old != r->loop) {
        vec_push(r->fn->arena, &r->counters, b->block->params.at[0]);
        issue_nest(r, outer, index, depth + 1);
        r->counters.n--;
    } else {
        issue_iteration(r, outer, &order, b->block->params.at[0], hi);
    }
    b->span = old->span;
    tir_yield(b, 0, NULL);
    b->block = around;
}

static void
on_sums(Roles *r, TirOpcode opcode)
{
    for (uint32_t k = 0; k < r->sums.n; k++)
        roles_plain(&r->b, opcode, r->sums.at[k], 0);
}

static void
make_issuer(Roles *r)
{
    TirBuilder consumer = r->b, *b = &r->b;
    TirBlock *root = tir_block_new(r->fn);
    CloneMap map = clone_map(r->fn);

    *b = (TirBuilder){.fn = r->fn, .block = root, .at = -1, .span = r->loop->span};
    TirVal *index = roles_consumer_index(r, roles_block_index(r, roles_grid(r)), 0);
    for (uint32_t k = 0; k < r->once.n; k++)
        roles_copy(r, &map, r->once.at[k], false);
    b->span = r->loop->span;
    ProductList order = {0};
    list_in_order(r, r->graph, &order);
    find_ahead(r, &order);
    on_sums(r, TIR_PRODUCER_ACQUIRE); /* for the consumer, to begin with */
    on_sums(r, TIR_PRODUCER_COMMIT);
    on_sums(r, TIR_PRODUCER_ACQUIRE);
    issue_nest(r, &map, index, 0);
    b->span = r->loop->span;
    on_sums(r, TIR_PRODUCER_COMMIT);
    roles_release(b, &r->once, NULL);
    r->once_given_back = true;
    r->b = consumer;
    tir_role(r->fn->plan, ROLE_MMA)->program = root;
}

/* ---- the consumer ---- */

static void
write_operand(Roles *r, const CloneMap *map, const GraphOperand *operand)
{
    TirBuilder *b = &r->b;
    TirVal *value = clone_of(map, operand->base);

    if (operand->transposed)
        value = tir_transpose(b, value);
    if (!operand->implied)
        roles_plain(b, TIR_PRODUCER_ACQUIRE, operand->buffer, 0);
    if (operand->shared) {
        TirVal *args[] = {tir_const_int(b, 0), value};
        tir_op_new(b, TIR_SHARED_WRITE, 2, args, 0, NULL)->shared = operand->buffer;
    } else {
        tir_op_new(b, TIR_TMEM_WRITE, 1, &value, 0, NULL)->shared = operand->buffer;
    }
    roles_plain(b, TIR_PRODUCER_COMMIT, operand->buffer, 0);
}

bool
roles_graph_op(Roles *r, CloneMap *map, const TirOp *op)
{
    TirBuilder *b = &r->b;
    const TirOp *load = op->n_results == 1 ? plan_operand_load(op->results[0]) : NULL;
    const GraphProduct *p = r->graph == NULL ? NULL : product_of(r->graph, op);

    if (r->graph == NULL)
        return false;
    if (load != NULL && load->shared != NULL && load->shared->kind != SHARED_VECTORS)
        return true; /* for the mma role */
    if (p == NULL)
        return false;
    const GraphOperand *operand = operand_of(r->graph, p);
    if (operand != NULL && operand->first == op)
        write_operand(r, map, operand);
    if (p->kind == PRODUCT_SUM) { /* the loop carries nothing */
        clone_set(map, op->results[0], r->chain_none);
        return true;
    }
    TirType type = op->results[0]->type;
    if (op->swap_ab)
        type = tir_tile2(type.dtype, type.dim[1], type.dim[0]);
    roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
    TirOp *read = tir_op_new(b, TIR_TMEM_READ, 0, NULL, 1, &type);
    read->shared = p->result;
    read->results[0]->name = op->results[0]->name;
    clone_set(map, op->results[0],
              op->swap_ab ? tir_transpose(b, read->results[0]) : read->results[0]);
    return true;
}

/* The steps of an iteration: a result is given back when what is made of it is written for a product, or it has been
 * added to memory. */
static void
list_steps(Roles *r, Graph *graph, StepList *steps)
{
    bool *given = arena_array(r->fn->arena, bool, graph->products.n + 1);

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        const GraphProduct *p = product_of(graph, op);
        const GraphOperand *operand = p == NULL ? NULL : operand_of(graph, p);
        if (op->op == TIR_YIELD)
            break;
        roles_add_step(r, steps, STEP_OP, op, 0);
        for (uint32_t k = 0; k < graph->products.n; k++) {
            const GraphProduct *result = &graph->products.at[k];
            bool done = result->addition == op ||
                        (operand != NULL && operand->first == op &&
                         graph_needs(r->fn->arena, r->body, operand, result));
            if (!done || given[k])
                continue;
            if (!result->implied)
                roles_add_step(r, steps, STEP_RELEASE, result->mma, 0);
            given[k] = true;
        }
    }
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const GraphProduct *result = &graph->products.at[k];
        if (result->kind == PRODUCT_READ && !given[k])
            roles_add_step(r, steps, STEP_RELEASE, result->mma, 0);
    }
    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++) {
        TirOp *load = r->stage0_pipelines.at[k];
        if (load->shared->kind == SHARED_VECTORS)
            roles_add_step(r, steps, STEP_RELEASE, load, 0);
    }
}

/* Takes the results of a loop that stand for sums, and those of loops inside. */
static void
drop_sums(Roles *r, TirOp *loop)
{
    TirBlock *body = loop->blocks[0];

    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (body->ops.at[i]->op == TIR_FOR)
            drop_sums(r, body->ops.at[i]);
    }
    for (uint32_t k = loop->n_results; k-- > 0;) {
        if (block_yield(body)->args[k] == r->chain_none)
            roles_drop_result(loop, k);
    }
}

void
roles_graph(Roles *r, CloneMap *map, Range range)
{
    TirBuilder *b = &r->b;
    TirVal **values = roles_initial(r, map, 0);
    Staged staged = {0};

    list_steps(r, r->graph, &staged.steps);
    roles_emit_staged(r, map, range, &staged, values);
    TirOp *loop = b->block->ops.at[b->block->ops.n - 1];
    for (uint32_t k = r->loop->n_results; k-- > 0;) {
        bool sum = block_yield(loop->blocks[0])->args[k] == r->chain_none;
        if (sum)
            roles_drop_result(loop, k);
        clone_set(map, r->loop->results[k], sum ? r->chain_none : values[k]);
    }
}

void
roles_begin_graph(Roles *r, const CloneMap *map)
{
    TirBuilder *b = &r->b;
    Graph *graph = arena_new(r->fn->arena, Graph);
    const char *why = graph_read(r->fn->arena, r->fn, r->loop, graph);

    why = why != NULL ? why : graph_place(r->fn->arena, r->px->target, r->loop, graph);
    if (why != NULL)
        buf_printf(r->px->bugs, "a graph of products was planned that is none: %s\n", why);
    r->graph = graph;
    make_buffers(r, graph);
    make_issuer(r);
    r->chain_none = tir_const_int(b, 0);
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const GraphProduct *p = &graph->products.at[k];
        const TirOp *loop = outermost(r);
        if (p->kind != PRODUCT_SUM)
            continue;
        TirVal *begin = loop->args[loop_first_initial(loop) + whole_sum(r, p)->index];
        TirVal *value = clone_of(map, begin);
        roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
        tir_op_new(b, TIR_TMEM_WRITE, 1, &value, 0, NULL)->shared = p->result;
        roles_plain(b, TIR_CONSUMER_RELEASE, p->result, 0);
    }
}

void
roles_end_graph(Roles *r, CloneMap *map)
{
    TirBuilder *b = &r->b;

    for (uint32_t i = b->block->ops.n; i-- > 0;) {
        if (b->block->ops.at[i]->op != TIR_FOR)
            continue;
        drop_sums(r, b->block->ops.at[i]);
        break;
    }
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const GraphProduct *p = &r->graph->products.at[k];
        if (p->kind != PRODUCT_SUM)
            continue;
        TirType type = tir_tile2(p->result->dtype, p->result->rows, p->result->cols);
        roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
        TirOp *read = tir_op_new(b, TIR_TMEM_READ, 0, NULL, 1, &type);
        read->shared = p->result;
        clone_set(map, whole_sum(r, p), read->results[0]);
    }
    r->graph = NULL;
}
