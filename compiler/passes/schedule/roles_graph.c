/* roles_graph.c - a main loop whose products form a graph, with arithmetic between them; loops may be around it.
 *
 * The mma role issues the products of an iteration, first those that arithmetic reads, then those that have what it
 * computes; the consumer goes through the iteration as it was written:
 *
 *     mma         for ..  { products that are read;  wait for an operand: products that have it;  .. }
 *                 a first product of the next iteration behind the first operand that is made of its result, where loads
 *                 have the stages for that: it runs under the arithmetic that the next operand waits for
 *     consumer    write operands that stay the same to tensor memory
 *                 for ..  { read vectors; wait for a product, read it; compute; write an operand; ..; wait for what is to be added to
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

typedef VEC(Product *) ProductList;

/* ---- what there is ---- */

static Product *
product_of(const Graph *graph, const TirOp *mma)
{
    for (uint32_t k = 0; k < graph->products.n; k++) {
        if (graph->products.at[k].mma == mma)
            return &graph->products.at[k];
    }
    return NULL;
}

static GraphOperand *
operand_of(Graph *graph, const Product *p)
{
    return p->operand == 0 ? NULL : &graph->operands.at[p->operand - 1];
}

static bool
is_made_of(const Graph *graph, const GraphOperand *operand, const Product *p)
{
    return operand != NULL && operand->made_of[p - graph->products.at];
}

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

static TirShared *
new_result(Roles *r, const Product *p, RoleKind to)
{
    const TirVal *value = p->mma->results[0];
    bool swap = p->mma->swap_ab;
    TirType type = tir_tile2(value->type.dtype, value->type.dim[swap], value->type.dim[!swap]);

    return roles_new_channel(r, value->name, type, SHARED_TMEM, ROLE_MMA, to);
}

static TirShared *
new_operand(Roles *r, const TirVal *value, bool transposed, SharedKind kind)
{
    TirType type = tir_tile2(value->type.dtype, value->type.dim[transposed],
                             value->type.dim[!transposed]);

    return roles_new_channel(r, value->name, type, kind, ROLE_CONSUMER, ROLE_MMA);
}

/* Finds what needs no tokens of its own.  A result of which an operand is made has been read when that is handed on, for which the
 * mma role waits in the same iteration.  Of an operand that is made of a result the products have ended when that one is there:
 * they are issued before. */
static void
find_implied(Graph *graph, bool apart)
{
    for (uint32_t k = 0; k < graph->products.n; k++) {
        Product *p = &graph->products.at[k];
        bool in_turn = false;
        for (uint32_t j = 0; j < graph->products.n; j++)
            in_turn = in_turn || (!apart && graph->products.at[j].turn == k + 1);
        for (uint32_t j = 0; j < graph->operands.n; j++) {
            GraphOperand *operand = &graph->operands.at[j];
            p->implied = p->implied || (operand->made_of[k] && !in_turn);
            operand->implied = operand->implied || operand->made_of[k];
        }
    }
}

static void
make_buffers(Roles *r, Graph *graph)
{
    bool apart = tir_adding_warps(r->fn->plan) > 0;
    RoleKind adder = apart ? ROLE_REDUCE : ROLE_CONSUMER;

    find_implied(graph, apart);
    for (uint32_t k = 0; k < graph->products.n; k++) {
        Product *p = &graph->products.at[k];
        if (p->turn == 0)
            p->result = new_result(r, p, p->kind == PRODUCT_ADDED ? adder : ROLE_CONSUMER);
        if (p->kind == PRODUCT_SUM) {
            p->result->carried = true;
            vec_push(r->fn->arena, &r->sums, p->result);
        }
    }
    for (uint32_t k = 0; k < graph->products.n; k++) {
        Product *p = &graph->products.at[k];
        if (p->turn > 0 && apart) { /* the reduce role has tokens of its own */
            p->result = new_result(r, p, adder);
            p->result->over = graph->products.at[p->turn - 1].result;
        } else if (p->turn > 0) {
            p->result = graph->products.at[p->turn - 1].result;
        }
        p->mma->shared = p->result;
    }
    for (uint32_t k = 0; k < graph->operands.n; k++) {
        GraphOperand *operand = &graph->operands.at[k];
        operand->buffer = new_operand(r, operand->base, operand->transposed,
                                      operand->shared ? SHARED_PIPELINE : SHARED_TMEM);
        if (operand->over > 0)
            operand->buffer->over = graph->products.at[operand->over - 1].result;
    }
    for (uint32_t k = 0; k < graph->kept.n; k++) {
        GraphKept *kept = &graph->kept.at[k];
        kept->buffer = new_operand(r, kept->load->results[0], kept->transposed, SHARED_TMEM);
        kept->buffer->carried = true;
    }
}

/* ---- the mma role ---- */

static bool
reads_load(const Product *p, const TirOp *load)
{
    return p->load[0] == load || p->load[1] == load;
}

/* Whether a product ahead has waited for the stage of a load. */
static bool
is_met_ahead(const Roles *r, const TirOp *load)
{
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const Product *p = &r->graph->products.at[k];
        if (p->ahead && reads_load(p, load))
            return true;
    }
    return false;
}

/* Products in the order in which they are issued: those that are read come first. */
static void
list_in_order(Roles *r, Graph *graph, ProductList *order)
{
    for (uint32_t late = 0; late < 2; late++) {
        for (uint32_t k = 0; k < graph->products.n; k++) {
            Product *p = &graph->products.at[k];
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

/* What the consumer has written. */
static TirVal *
read_written(Roles *r, TirShared *buffer)
{
    TirType type = tir_tile2(buffer->dtype, buffer->rows, buffer->cols);

    return roles_read(&r->b, buffer, type, NULL)->results[0];
}

static void
meet_operand(Roles *r, GraphOperand *operand)
{
    if (operand->read != NULL)
        return;
    if (operand->with == 0)
        roles_plain(&r->b, TIR_CONSUMER_WAIT, operand->buffer, 0);
    operand->read = read_written(r, operand->buffer);
}

/* Waits for what the product's operands lie in, unless an earlier one of the iteration has. */
static void
meet_operands(Roles *r, CloneMap *map, const Product *p)
{
    GraphOperand *operand = operand_of(r->graph, p);

    for (uint32_t k = 2; k-- > 0;) {
        const TirOp *load = p->load[k];
        bool first = load != NULL && load->parent == r->body &&
                     map->to[load->results[0]->id] == NULL;
        if (first && !p->ahead && is_met_ahead(r, load))
            roles_read_for(r, map, load)->oldest = true; /* the one that is given back next */
        else if (first)
            roles_copy(r, map, load, false);
    }
    if (operand == NULL)
        return;
    if (operand->with > 0)
        meet_operand(r, &r->graph->operands.at[operand->with - 1]);
    meet_operand(r, operand);
    clone_set(map, operand->base, operand->read);
}

/* Acquires the place of a result: of one over which another lies that the reduce role reads, when that has been read, too,
 * for the product that the iteration has of it. */
static void
acquire_result(Roles *r, const Product *p)
{
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const TirShared *above = r->graph->products.at[k].result;
        if (above->to == ROLE_REDUCE && above->over == p->result)
            roles_plain(&r->b, TIR_PRODUCER_ACQUIRE, r->graph->products.at[k].result, 0);
    }
    if (p->result->over == NULL && !p->implied)
        roles_plain(&r->b, TIR_PRODUCER_ACQUIRE, p->result, 0);
}

static void
issue_product(Roles *r, CloneMap *map, const Product *p)
{
    TirBuilder *b = &r->b;
    const GraphOperand *operand = operand_of(r->graph, p);
    bool swap = p->mma->swap_ab, sum = p->kind == PRODUCT_SUM;
    TirVal *args[3];

    meet_operands(r, map, p);
    args[0] = p->kept > 0 ? r->graph->kept.at[p->kept - 1].read
                          : view_of(r, map, p->mma->args[swap],
                                    operand != NULL ? operand->transposed : swap);
    args[1] = view_of(r, map, p->mma->args[!swap], swap);
    b->span = p->mma->span;
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
    const Product *p = order->at[at];
    TirOp *const *loads = p->load;

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

/* The place in the order of the last product that reads the operand, wherever it is written to; 0: none does. */
static uint32_t
last_reader(const Roles *r, const ProductList *order, const GraphOperand *operand)
{
    uint32_t last = 0;

    for (uint32_t j = 1; j < order->n; j++) {
        const GraphOperand *read = operand_of(r->graph, order->at[j]);
        if (operand != NULL && read != NULL && read->base == operand->base)
            last = j;
    }
    return last;
}

/* The place of the product behind which one that is read may be issued in the iteration before, while others wait for their
 * operands: that of the first operand that is made of it, which nobody reads later; 0: none. */
static uint32_t
place_ahead(Roles *r, const ProductList *order, uint32_t at)
{
    const Product *p = order->at[at];
    uint32_t k = at + 1, last = 0;

    while (k < order->n && !is_made_of(r->graph, operand_of(r->graph, order->at[k]), p))
        k++;
    for (uint32_t j = 1; j < order->n; j++)
        last = order->at[j]->operand != 0 ? j : last;
    if (p->kind != PRODUCT_READ || !p->implied || k >= last ||
        last_reader(r, order, operand_of(r->graph, order->at[k])) > k)
        return 0;
    for (uint32_t j = 0; j < order->n; j++) {
        if (order->at[j]->turn > 0 && &r->graph->products.at[order->at[j]->turn - 1] == p)
            return 0; /* what is added to memory has the same columns */
    }
    for (uint32_t j = 0; j < 2; j++) {
        const TirOp *load = p->load[j];
        if (load == NULL || (load->parent == r->body && load->shared->stages < 2))
            return 0;
    }
    return k;
}

/* Finds the products of an iteration, from the first on, that may be issued in the one before.  Stages that what follows reads are
 * held longer. */
static void
find_ahead(Roles *r, const ProductList *order)
{
    for (uint32_t at = 0; at < order->n; at++) {
        Product *p = order->at[at];
        uint32_t k = place_ahead(r, order, at);
        if (k == 0)
            break;
        p->ahead = true;
        p->behind = k;
        for (uint32_t j = 0; j < 2; j++) {
            const TirOp *load = p->load[j];
            bool later = false;
            for (uint32_t i = at + 1; i < order->n && load->parent == r->body; i++)
                later = later || reads_load(order->at[i], load);
            if (later)
                load->shared->lag = 1;
        }
    }
    for (uint32_t k = 0; k < r->graph->operands.n; k++) {
        GraphOperand *operand = &r->graph->operands.at[k];
        bool implied = false; /* by a product that is issued behind those that read it */
        for (uint32_t i = 0; i < order->n; i++)
            implied = implied || (is_made_of(r->graph, operand, order->at[i]) &&
                                  (!order->at[i]->ahead ||
                                   last_reader(r, order, operand) <= order->at[i]->behind));
        operand->implied = operand->implied && implied;
    }
}

/* Whether an operand is written, and what it is made of has been read, without tokens of their own. */
static bool
needs_no_tokens(const Roles *r, const GraphOperand *operand)
{
    bool none = operand->implied;

    for (uint32_t k = 0; k < r->graph->products.n && none; k++) {
        const Product *p = &r->graph->products.at[k];
        none = p->implied || !operand->made_of[k];
    }
    return none;
}

/* Finds operands that are handed on with another one: the same, written elsewhere, where the product that reads it there is issued
 * right behind those that read it here.  To be told once takes the consumer less time than products would begin earlier. */
static void
find_together(Roles *r, const ProductList *order)
{
    for (uint32_t at = order->n - 1; at-- > 0;) {
        GraphOperand *operand = operand_of(r->graph, order->at[at]),
                     *next = operand_of(r->graph, order->at[at + 1]);
        bool together = operand != NULL && next != NULL && operand != next && next->with == 0 &&
                        operand->base == next->base && needs_no_tokens(r, operand) &&
                        needs_no_tokens(r, next);
        for (uint32_t k = 0; k < order->n && together; k++) {
            const GraphOperand *read = operand_of(r->graph, order->at[k]);
            together = !(k > at && read == operand) && !(k <= at && read == next) &&
                       !(order->at[k]->ahead && order->at[k]->behind == at);
        }
        if (together)
            operand->with = order->at[at + 1]->operand;
    }
}

/* The products ahead that are issued behind the one at place `behind` (0: before the loop, all), if there is an iteration
 * `number` of those up to `hi`. */
static void
issue_ahead(Roles *r, const CloneMap *outer, const ProductList *order, uint32_t behind,
            TirVal *number, TirVal *hi)
{
    CloneMap inside = clone_map_copy(r->fn, outer);
    TirOp *branch = roles_begin_if(&r->b, tir_binary(&r->b, TIR_LT, number, hi));

    branch->span = r->loop->span;
    for (uint32_t k = 0; k < order->n && order->at[k]->ahead; k++) {
        if (behind > 0 && order->at[k]->behind != behind)
            continue;
        issue_product(r, &inside, order->at[k]);
        give_back(r, order, k);
    }
    roles_end(&r->b, branch);
}

static void
issue_iteration(Roles *r, const CloneMap *outer, const ProductList *order, TirVal *number,
                TirVal *hi)
{
    TirBuilder *b = &r->b;
    CloneMap inside = clone_map_copy(r->fn, outer);

    for (uint32_t k = 0; k < r->graph->operands.n; k++)
        r->graph->operands.at[k].read = NULL;
    for (uint32_t k = 0; k < order->n; k++) {
        bool last = false;
        if (order->at[k]->ahead)
            continue;
        issue_product(r, &inside, order->at[k]);
        give_back(r, order, k);
        for (uint32_t j = 0; j < k; j++)
            last = last || (order->at[j]->ahead && order->at[j]->behind == k);
        if (last)
            issue_ahead(r, outer, order, k, tir_binary(b, TIR_ADD, number, tir_const_int(b, 1)), hi);
    }
}

/* The iterations of a loop: of the main one those of both blocks of a pair that adds up. */
static Range
issued_range(Roles *r, const TirOp *loop, TirVal *index)
{
    if (loop == r->loop && r->bounds_differ)
        return roles_consumer_range(r, loop, index, NULL);
    CloneMap map = roles_consumer_map(r, index);
    TirVal *lo = clone_scalar_tree(&r->b, &map, loop->args[0]);
    return (Range){lo, clone_scalar_tree(&r->b, &map, loop->args[1]), NULL};
}

static void
issue_nest(Roles *r, const CloneMap *outer, TirVal *index, uint32_t depth)
{
    TirBuilder *b = &r->b;
    const TirOp *old = depth < r->around.n ? r->around.at[depth] : r->loop;
    Range range = issued_range(r, old, index);
    ProductList order = {0};

    list_in_order(r, r->graph, &order);
    if (old == r->loop && order.at[0]->ahead)
        issue_ahead(r, outer, &order, 0, range.lo, range.hi);
    TirOp *loop = roles_begin_for(b, range.lo, range.hi, old->span);
    if (old != r->loop) {
        vec_push(r->fn->arena, &r->counters, b->block->params.at[0]);
        issue_nest(r, outer, index, depth + 1);
        r->counters.n--;
    } else {
        issue_iteration(r, outer, &order, b->block->params.at[0], range.hi);
    }
    b->span = old->span;
    roles_end(b, loop);
}

static void
on_sums(Roles *r, TirOpcode opcode)
{
    for (uint32_t k = 0; k < r->sums.n; k++)
        roles_plain(&r->b, opcode, r->sums.at[k], 0);
}

static void
write_issuer(Roles *r)
{
    TirBuilder *b = &r->b;
    CloneMap map = clone_map(r->fn);
    TirVal *index = roles_consumer_index(r, roles_block_index(r, roles_grid(r)), 0);

    if (r->bounds_differ)
        r->extent = clone_host(b, r->fn->grid.at[r->fn->plan->tiles.axis].extent);
    for (uint32_t k = 0; k < r->once.n; k++)
        roles_copy(r, &map, r->once.at[k], false);
    b->span = r->loop->span;
    ProductList order = {0};
    list_in_order(r, r->graph, &order);
    find_ahead(r, &order);
    find_together(r, &order);
    on_sums(r, TIR_PRODUCER_ACQUIRE); /* for the consumer, to begin with */
    on_sums(r, TIR_PRODUCER_COMMIT);
    on_sums(r, TIR_PRODUCER_ACQUIRE);
    for (uint32_t k = 0; k < r->graph->kept.n; k++) {
        roles_plain(b, TIR_CONSUMER_WAIT, r->graph->kept.at[k].buffer, 0);
        r->graph->kept.at[k].read = read_written(r, r->graph->kept.at[k].buffer);
    }
    issue_nest(r, &map, index, 0);
    b->span = r->loop->span;
    on_sums(r, TIR_PRODUCER_COMMIT);
    roles_release(b, &r->once, NULL);
    r->once_given_back = true;
}

/* ---- the consumer ---- */

static void
write_operand_there(Roles *r, const CloneMap *map, const GraphOperand *operand)
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
}

/* .. behind those that are handed on with it. */
static void
write_operand(Roles *r, const CloneMap *map, const GraphOperand *operand)
{
    for (uint32_t k = 0; k < r->graph->operands.n; k++) {
        const GraphOperand *other = &r->graph->operands.at[k];
        if (other->with > 0 && &r->graph->operands.at[other->with - 1] == operand)
            write_operand_there(r, map, other);
    }
    write_operand_there(r, map, operand);
    roles_plain(&r->b, TIR_PRODUCER_COMMIT, operand->buffer, 0);
}

bool
roles_graph_op(Roles *r, CloneMap *map, const TirOp *op)
{
    TirBuilder *b = &r->b;
    const TirOp *load = plan_piped(op);
    const Product *p = r->graph == NULL ? NULL : product_of(r->graph, op);

    if (r->graph == NULL)
        return false;
    if (load != NULL && load->shared->kind != SHARED_VECTORS)
        return true; /* for the mma role */
    if (p == NULL)
        return false;
    const GraphOperand *operand = operand_of(r->graph, p);
    if (operand != NULL && operand->first == op && operand->with == 0)
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
    if (kept->transposed)
        value = tir_transpose(b, value);
    tir_op_new(b, TIR_TMEM_WRITE, 1, &value, 0, NULL)->shared = kept->buffer;
    roles_plain(b, TIR_PRODUCER_COMMIT, kept->buffer, 0);
}

static bool
is_vector(const TirOp *op)
{
    return op->op == TIR_LOAD && op->shared != NULL && op->shared->kind == SHARED_VECTORS;
}

/* Whether a consumer has registers for a vector, too, while it waits for the product: each of two warp groups has half of it, of
 * which each of the four lanes that share a row has a quarter. */
static bool
has_room_for(const Roles *r, const TirOp *vector, const TirOp *mma)
{
    const TirRole *consumer = tir_role(r->fn->plan, ROLE_CONSUMER);
    int64_t registers = vector->results[0]->type.dim[0] / (int32_t)consumer->warps;

    return plan_kept_elements(mma, consumer->warps) + registers + BESIDE_SUMS <=
           (int64_t)consumer->registers;
}

/* Vectors that stand behind the product at place `at`, up to the next one that is read: they are read in front of the wait for
 * it.  Behind that they would have to wait for the operands of products, which the port of shared memory lets pass first. */
static void
list_vectors(Roles *r, const Graph *graph, uint32_t at, bool *listed, StepList *steps)
{
    for (uint32_t i = at + 1; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        const Product *p = product_of(graph, op);
        if (p != NULL && p->kind == PRODUCT_READ)
            break;
        if (!is_vector(op) || !has_room_for(r, op, r->body->ops.at[at]))
            continue;
        roles_add_step(r, steps, STEP_OP, op, 0);
        listed[i] = true;
    }
}

/* The steps of an iteration: a result is given back when what is made of it is written for a product, or it has been
 * added to memory. */
static void
list_steps(Roles *r, Graph *graph, StepList *steps)
{
    bool *given = arena_array(r->fn->arena, bool, graph->products.n + 1);
    bool *listed = arena_array(r->fn->arena, bool, r->body->ops.n);

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        const Product *p = product_of(graph, op);
        const GraphOperand *operand = p == NULL ? NULL : operand_of(graph, p);
        if (op->op == TIR_YIELD)
            break;
        if (p != NULL && p->kind == PRODUCT_READ)
            list_vectors(r, graph, i, listed, steps);
        if (!listed[i])
            roles_add_step(r, steps, STEP_OP, op, 0);
        for (uint32_t k = 0; k < graph->products.n; k++) {
            const Product *result = &graph->products.at[k];
            bool done = result->addition == op ||
                        (operand != NULL && operand->first == op && operand->made_of[k]);
            if (!done || given[k])
                continue;
            if (!result->implied)
                roles_add_step(r, steps, STEP_RELEASE, result->mma, 0);
            given[k] = true;
        }
    }
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *result = &graph->products.at[k];
        if (result->kind == PRODUCT_READ && !given[k])
            roles_add_step(r, steps, STEP_RELEASE, result->mma, 0);
    }
    /* the last one first, so that it may have the barriers of one before it (plan_shared.c) */
    for (uint32_t k = r->stage0_pipelines.n; k-- > 0;) {
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
    TirVal **values = roles_initial(r, map, 0);
    Staged staged = {0};

    list_steps(r, r->graph, &staged.steps);
    roles_emit_staged(r, map, range, &staged, values);
    TirOp *loop = r->b.block->ops.at[r->b.block->ops.n - 1];
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
    const char *why = graph_read(r->fn, r->loop, graph);

    why = why != NULL ? why : graph_place(r->px->target, r->fn, graph);
    if (why != NULL)
        buf_printf(r->px->bugs, "a graph of products was planned that is none: %s\n", why);
    r->graph = graph;
    make_buffers(r, graph);
    roles_write_program(r, ROLE_MMA, write_issuer);
    r->chain_none = tir_const_int(b, 0);
    for (uint32_t k = 0; k < graph->kept.n; k++)
        write_kept(r, map, &graph->kept.at[k]);
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *p = &graph->products.at[k];
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
        const Product *p = &r->graph->products.at[k];
        if (p->kind != PRODUCT_SUM)
            continue;
        roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
        clone_set(map, whole_sum(r, p), roles_read_tmem(b, p->result, 0));
    }
    r->graph = NULL;
}
