/* roles_issue.c - the role that issues the products of a main loop, for all consumers, and what
 * lies between it and them.
 *
 * Products whose operands are both loaded wait for no consumer; the others have a left operand that
 * is computed.  Those of the first kind that results are read of may be issued an iteration ahead,
 * so that they run while a consumer is still computing:
 *
 *     mma         products ahead of the first iteration
 *                 for ..  { products ahead; the other ones of the iteration before }
 *                 the others of the last iteration
 *     consumer    (roles_issued.c)  for ..  { wait for a product, read it; compute; write an
 *                 operand }
 *     reduce      for ..  { wait for what is to be added to memory, add it }, in place of the
 *                 consumer where the plan has it
 *
 * In a chain (plan_graph.c) all first ones are ahead: in front of the others or, where operands lie
 * over results, behind them.  In a graph each is issued behind the first operand that is made of
 * its result, where loads have the stages for that.  Several consumers are served one after the
 * other, in one stream: the products of one run under the arithmetic of the others.  They may
 * differ in their iterations; a tile that is loaded for all of them is given back when the last
 * one's product has been issued.  Loops may be around the main one, of one consumer.
 *
 * Channels lie between the roles, each consumer's own: of results in tensor memory, of operands
 * there or in shared memory. A token that another one implies is left out (find_implied,
 * lay_over).  Products run in the order in which they are issued: where an operand lies over the
 * result of a product ahead, the next one is issued behind the product that reads what it
 * overwrites, and to hand the operand on is to give the result back.
 *
 * A sum stays in tensor memory over all loops.  How often the mma role takes and gives it in front
 * of them (sum_turns):
 *
 *     once         nobody changes it, and the first product overwrites what is there
 *     three times  nobody changes it, but the consumer writes what it begins with
 *     never        the consumer changes it in front of a product with a computed operand.  It waits
 *                  for a product that was issued behind that of the iteration before, or until the
 *                  operand of that one has been read; changes the sum; writes the next operand and
 *                  hands that on.  (Pass check-roles proves that nobody else has the sum.)
 *     four times   it changes the sum in front of another product: in each iteration the sum goes
 *                  to it and back
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* ---- what there is ---- */

GraphOperand *
issue_operand(Graph *graph, const Product *p)
{
    return p->operand == 0 ? NULL : &graph->operands.at[p->operand - 1];
}

TirShared *
issue_last_piece(const GraphOperand *operand)
{
    return operand->pieces[operand->n_pieces - 1];
}

/* Whether the consumer changes the sum until it hands the product's operand on. */
static bool
goes_with_operand(const Product *p)
{
    return p->change != NULL && p->second;
}

uint32_t
issue_sum_turns(const Product *p)
{
    if (p->kind != PRODUCT_SUM || goes_with_operand(p))
        return 0;
    return p->change != NULL ? 4 : p->written ? 3 : 1;
}

/* Whether it adds to what lies in one stage in all iterations. */
static bool
is_held(const Product *p)
{
    return p->kind == PRODUCT_SUM && (p->change == NULL || p->second);
}

static bool
is_made_of(const Graph *graph, const GraphOperand *operand, const Product *p)
{
    return operand != NULL && operand->made_of[p - graph->products.at];
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

static void
add_piece(Roles *r, GraphOperand *operand, int32_t from)
{
    TirShared *piece = new_operand(r, operand->base, operand->transposed,
                                   operand->shared ? SHARED_PIPELINE : SHARED_TMEM);

    piece->cols -= from;
    piece->column = (uint32_t)from;
    operand->pieces[operand->n_pieces++] = piece;
}

static void
make_buffers(Roles *r, Graph *graph)
{
    bool apart = tir_adding_warps(r->fn->plan) > 0;
    RoleKind adder = apart ? ROLE_REDUCE : ROLE_CONSUMER;

    for (uint32_t k = 0; k < graph->products.n; k++) {
        Product *p = &graph->products.at[k];
        GraphOperand *operand = issue_operand(graph, p);
        if (p->turn == 0) {
            p->result = new_result(r, p, p->kind == PRODUCT_ADDED ? adder : ROLE_CONSUMER);
            p->result->carried = p->written;
        }
        if (issue_sum_turns(p) > 0)
            vec_push(r->fn->arena, &r->sums, p->result);
        if (operand != NULL && operand->n_pieces == 0)
            add_piece(r, operand, 0);
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
    for (uint32_t k = 0; k < graph->kept.n; k++) {
        GraphKept *kept = &graph->kept.at[k];
        kept->buffer = new_operand(r, kept->load->results[0], kept->transposed, SHARED_TMEM);
        kept->buffer->carried = true;
    }
}

/* The last quarter of an operand becomes a piece of its own: products of the others run while it is
 * computed.  That pays where an operand lies over a result, since the next product ahead waits for
 * all of them. */
static void
divide_operand(Roles *r, const Product *p, GraphOperand *operand)
{
    int32_t columns = operand->pieces[0]->cols;
    int32_t last = (columns / 4 + PIECE_COLUMNS - 1) / PIECE_COLUMNS * PIECE_COLUMNS;

    if (r->fn->warps > GROUP_WARPS || columns % PIECE_COLUMNS != 0 || columns < 4 * PIECE_COLUMNS ||
        p->sum == 0 || !switch_is_on(r->px, "operand-pieces"))
        return;
    operand->pieces[0]->cols = columns - last;
    add_piece(r, operand, columns - last);
}

/* Each operand of a chain over the result of a first product. */
static void
lay_over(Roles *r, Graph *graph)
{
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *p = &graph->products.at[k];
        if (p->over == 0)
            continue;
        issue_operand(graph, p)->over = p->over;
        divide_operand(r, p, issue_operand(graph, p));
    }
}

/* Columns of scales: of a stage of each pipeline, or of all stages. */
static uint32_t
scale_columns(const Roles *r, bool all)
{
    uint32_t columns = 0;

    for (uint32_t k = 0; k < r->fn->shared.n; k++) {
        const TirShared *scales = r->fn->shared.at[k];
        if (scales->scales > 0)
            columns += (all ? scales->stages : 1) * tir_tmem_columns(scales);
    }
    return columns;
}

/* Each stage of scales has a place of its own, and there are as many as so many columns have room
 * for: a copy to a place of which the last copy has not ended would not be ordered behind that. */
static void
place_scales(Roles *r, uint32_t columns)
{
    uint32_t each = scale_columns(r, false), most = each > 0 ? columns / each : 0;

    for (uint32_t k = 0; k < r->fn->shared.n; k++) {
        TirShared *scales = r->fn->shared.at[k];
        if (scales->scales == 0)
            continue;
        scales->stages = scales->stages < most ? scales->stages : most;
        scales->places = (uint8_t)scales->stages;
    }
}

/* Where results and operands of a chain lie. */
static void
place_chain(Roles *r, Graph *graph)
{
    uint32_t most = (uint32_t)r->px->target->chip.tmem_columns / tir_consumers(r->fn->plan);
    uint32_t columns = tir_tmem_part(r->fn);

    uint32_t each = scale_columns(r, false), scales = scale_columns(r, true);

    graph->over = columns > most; /* there are not the columns for all */
    if (graph->over)
        lay_over(r, graph);
    if (plan_only_adds(r->fn, r->loop)) {
        /* the next tile's products run while a consumer reads the sums of this one's */
        for (uint32_t k = 0; k < graph->products.n; k++)
            graph->products.at[k].result->stages += 2 * (columns - each) + scales <= most;
        place_scales(r, most - tir_tmem_part(r->fn) + each);
        return;
    }
    /* the next first products run while the consumer has the results of these */
    for (uint32_t k = 0; k < graph->products.n && !graph->over; k++) {
        const Product *p = &graph->products.at[k];
        columns += tir_tmem_columns(p->result);
        if (p->sum > 0 || p->second || columns > most)
            columns -= tir_tmem_columns(p->result);
        else
            p->result->stages = 2;
    }
}

void
issue_read_result(Roles *r, CloneMap *map, const Product *p)
{
    TirBuilder *b = &r->b;
    TirVal *result = p->mma->results[0], *value;

    roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
    value = roles_read_tmem(b, p->result, 0);
    value->name = result->name;
    clone_set(map, result, p->mma->swap_ab ? tir_transpose(b, value) : value);
}

/* ---- the order in which products are issued ---- */

static bool
reads_load(const Product *p, const TirOp *load)
{
    return p->load[0] == load || p->load[1] == load || p->scales[0] == load || p->scales[1] == load;
}

/* Products of an iteration in order: first those that wait for no operand of a consumer's. */
static void
list_order(Roles *r, Graph *graph)
{
    for (uint32_t late = 0; late < 2; late++) {
        for (uint32_t k = 0; k < graph->products.n; k++) {
            Product *p = &graph->products.at[k];
            if ((r->mmas == AS_GRAPH ? p->kind != PRODUCT_READ : p->second) == (late == 1))
                vec_push(r->fn->arena, &graph->order, p);
        }
    }
}

/* The place in the order of the last product that reads the operand, wherever written; 0: none. */
static uint32_t
last_reader(Graph *graph, const GraphOperand *operand)
{
    uint32_t last = 0;

    for (uint32_t j = 1; j < graph->order.n; j++) {
        const GraphOperand *read = issue_operand(graph, graph->order.at[j]);
        if (operand != NULL && read != NULL && read->base == operand->base)
            last = j;
    }
    return last;
}

/* The place of the product behind which one that is read may be issued in the iteration before,
 * while others wait for their operands: that of the first operand that is made of it, which nobody
 * reads later; 0: none. */
static uint32_t
place_ahead(Graph *graph, uint32_t at)
{
    Product *const *order = graph->order.at;
    const Product *p = order[at];
    uint32_t k = at + 1, last = 0, n = graph->order.n;

    while (k < n && !is_made_of(graph, issue_operand(graph, order[k]), p))
        k++;
    for (uint32_t j = 1; j < n; j++)
        last = order[j]->operand != 0 ? j : last;
    if (p->kind != PRODUCT_READ || k >= last ||
        last_reader(graph, issue_operand(graph, order[k])) > k)
        return 0;
    for (uint32_t j = 0; j < n; j++) {
        if (order[j]->turn > 0 && &graph->products.at[order[j]->turn - 1] == p)
            return 0; /* what is added to memory has the same columns */
    }
    for (uint32_t j = 0; j < 2; j++) {
        const TirOp *load = p->load[j];
        if (load == NULL || (load->parent == p->mma->parent && load->shared->stages < 2))
            return 0;
    }
    return k;
}

/* Finds the products of a graph's iteration, from the first on, that may be issued in the one
 * before.  Stages that what follows reads are held longer. */
static void
find_ahead(Graph *graph)
{
    Product *const *order = graph->order.at;

    for (uint32_t at = 0; at < graph->order.n; at++) {
        Product *p = order[at];
        uint32_t k = place_ahead(graph, at);
        if (k == 0)
            break;
        p->ahead = graph->two = graph->tested = true;
        p->behind = k;
        for (uint32_t j = 0; j < 2; j++) {
            const TirOp *load = p->load[j];
            bool later = false;
            for (uint32_t i = at + 1; i < graph->order.n && load->parent == p->mma->parent; i++)
                later = later || reads_load(order[i], load);
            if (later)
                load->shared->lag = 1;
        }
    }
}

/* Whether an operand is written, and what it is made of has been read, without tokens of their
 * own. */
static bool
needs_no_tokens(const Graph *graph, const GraphOperand *operand)
{
    bool none = operand->implied;

    for (uint32_t k = 0; k < graph->products.n && none; k++)
        none = graph->products.at[k].implied || !operand->made_of[k];
    return none;
}

/* Finds operands that are handed on with another one: the same, written elsewhere, where the
 * product that reads it there is issued right behind those that read it here.  To be told once
 * takes the consumer less time than products would begin earlier. */
static void
find_together(Graph *graph)
{
    Product *const *order = graph->order.at;

    for (uint32_t at = graph->order.n - 1; at-- > 0;) {
        GraphOperand *operand = issue_operand(graph, order[at]),
                     *next = issue_operand(graph, order[at + 1]);
        bool together = operand != NULL && next != NULL && operand != next && next->with == 0 &&
                        operand->base == next->base && needs_no_tokens(graph, operand) &&
                        needs_no_tokens(graph, next);
        for (uint32_t k = 0; k < graph->order.n && together; k++) {
            const GraphOperand *read = issue_operand(graph, order[k]);
            together = !(k > at && read == operand) && !(k <= at && read == next) &&
                       !(order[k]->ahead && order[k]->behind == at);
        }
        if (together)
            operand->with = order[at + 1]->operand;
    }
}

/* First products of a chain are ahead of its second ones. */
static void
find_ahead_of_second(Graph *graph)
{
    for (uint32_t k = 0; k < graph->products.n; k++)
        graph->two = graph->two || graph->products.at[k].second;
    for (uint32_t k = 0; k < graph->products.n; k++) {
        Product *p = &graph->products.at[k];
        p->ahead = graph->two && !p->second;
        p->behind = graph->over ? graph->order.n - 1 : 0;
    }
}

/* Lists the places in the order as an iteration of the mma role has them. */
static void
list_issued(Roles *r, Graph *graph)
{
    for (uint32_t at = 0; at < graph->order.n; at++) {
        if (!graph->order.at[at]->ahead)
            vec_push(r->fn->arena, &graph->issued, at);
        for (uint32_t k = 0; k < graph->order.n; k++) {
            if (graph->order.at[k]->ahead && graph->order.at[k]->behind == at)
                vec_push(r->fn->arena, &graph->issued, k);
        }
    }
}

/* Finds what needs no tokens of its own.  A result of which an operand is made, or over which one
 * lies, has been read when that is handed on, for which the mma role waits before it issues the
 * next one.  Of such an operand the products have ended when the result is there, if they were
 * issued before. */
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
            bool before = (operand->made_of[k] || operand->over == k + 1) &&
                          (!p->ahead || p->behind > 0);
            p->implied = p->implied || (before && !in_turn);
            operand->implied = operand->implied ||
                               (before && (!p->ahead || last_reader(graph, operand) <= p->behind));
        }
    }
}

void
issue_make_buffers(Roles *r, Graph *graph)
{
    make_buffers(r, graph);
    list_order(r, graph);
    if (r->mmas == AS_GRAPH) {
        find_ahead(graph);
    } else {
        place_chain(r, graph);
        find_ahead_of_second(graph);
    }
    list_issued(r, graph);
    find_implied(graph, tir_adding_warps(r->fn->plan) > 0);
    if (r->mmas == AS_GRAPH)
        find_together(graph);
    for (uint32_t k = 0; k < graph->operands.n; k++) {
        const GraphOperand *operand = &graph->operands.at[k];
        for (uint32_t i = 0; i < operand->n_pieces && operand->over > 0; i++)
            operand->pieces[i]->over = graph->products.at[operand->over - 1].result;
    }
}

/* ---- the mma role ---- */

/* Where products are issued: in front of the loop, in it, behind it. */
typedef enum Part { IN_FRONT, INSIDE, BEHIND } Part;

/* What a load brings, for each consumer or all: the stage that comes next or, where a product ahead
 * has waited for it (`oldest`), the one that is given back next. */
static void
read_load(Roles *r, CloneMap *maps, const TirOp *load, bool oldest)
{
    TirVal *read = NULL;

    r->b.span = load->span;
    for (uint32_t w = 0; w < tir_consumers(r->fn->plan); w++) {
        if (read == NULL || load->shared->each) {
            if (!oldest)
                roles_plain(&r->b, TIR_CONSUMER_WAIT, load->shared, w);
            TirOp *op = roles_read_for(r, &maps[w], load);
            op->integer = w;
            op->oldest = oldest;
            read = op->results[0];
        }
        clone_set(&maps[w], load->results[0], read);
    }
}

/* Whether a product ahead has waited for the stage of a load. */
static bool
is_met_ahead(const Graph *graph, const TirOp *load)
{
    bool met = false;

    for (uint32_t k = 0; k < graph->products.n; k++)
        met = met || (graph->products.at[k].ahead && reads_load(&graph->products.at[k], load));
    return met;
}

/* Waits for what the product's operands are loaded to, unless one before it has. */
static void
read_loads(Roles *r, CloneMap *maps, const Product *p)
{
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *load = r->body->ops.at[i];
        if (load->op == TIR_LOAD && reads_load(p, load) && maps[0].to[load->results[0]->id] == NULL)
            read_load(r, maps, load, !p->ahead && is_met_ahead(r->graph, load));
    }
}

/* Gives back what no product behind place `at` reads, in the order in which it is filled. */
static void
give_back_loads(Roles *r, uint32_t at)
{
    Product *const *order = r->graph->order.at;

    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++) {
        const TirOp *load = r->stage0_pipelines.at[k];
        bool later = !reads_load(order[at], load);
        for (uint32_t j = at + 1; j < r->graph->order.n && !later; j++)
            later = reads_load(order[j], load);
        for (uint32_t w = 0; !later && w < tir_parts(r->fn->plan, load->shared); w++)
            roles_plain(&r->b, TIR_CONSUMER_RELEASE, load->shared, w);
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

/* What a consumer has written. */
static TirVal *
read_written(Roles *r, TirShared *buffer, const char *name, uint32_t w)
{
    TirOp *read = roles_read(&r->b, buffer, tir_tile2(buffer->dtype, buffer->rows, buffer->cols),
                             name);

    read->integer = w;
    return read->results[0];
}

static TirVal *
meet_piece(Roles *r, const GraphOperand *operand, uint32_t k, uint32_t w)
{
    if (operand->with == 0)
        roles_plain(&r->b, TIR_CONSUMER_WAIT, operand->pieces[k], w);
    return read_written(r, operand->pieces[k], operand->base->name, w);
}

/* Lets the map have the operand that a consumer has written: of pieces, the first. */
static void
meet_operand(Roles *r, CloneMap *map, GraphOperand *operand, uint32_t w)
{
    if (operand->with > 0)
        meet_operand(r, map, &r->graph->operands.at[operand->with - 1], w);
    if (operand->read == NULL)
        operand->read = meet_piece(r, operand, 0, w);
    clone_set(map, operand->base, operand->read);
}

/* Acquires the place of a result: of one over which another lies that the reduce role reads, when
 * that has been read, too, for the product that the iteration has of it. */
static void
acquire_result(Roles *r, const Product *p, uint32_t w)
{
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        TirShared *above = r->graph->products.at[k].result;
        if (above->to == ROLE_REDUCE && above->over == p->result)
            roles_plain(&r->b, TIR_PRODUCER_ACQUIRE, above, 0);
    }
    if (p->result->over == NULL && !p->implied)
        roles_plain(&r->b, TIR_PRODUCER_ACQUIRE, p->result, w);
}

/* Whether consumer `w` has the iteration whose product is issued there, where it may not: the first
 * one, that of this number or, `late`, of the number before, the last one.  NULL: it has. */
static TirVal *
has_iteration(Roles *r, Part part, bool late, TirVal *number, uint32_t w)
{
    const Graph *graph = r->graph;
    TirBuilder *b = &r->b;
    const Range *own = &graph->own[w];

    if (!r->bounds_differ || r->span_all)
        return NULL;
    number = part == IN_FRONT ? graph->all.lo : part == BEHIND ? graph->all.hi : number;
    TirVal *begun = tir_binary(b, late ? TIR_LT : TIR_LE, own->lo, number);
    return tir_binary(b, TIR_AND, begun, tir_binary(b, late ? TIR_LE : TIR_LT, number, own->hi));
}

/* Whether there was an iteration before that one. */
static TirVal *
had_iteration(Roles *r, Part part, bool late, TirVal *number, uint32_t w)
{
    TirBuilder *b = &r->b;
    TirVal *lo = r->graph->own[w].lo;

    if (part == IN_FRONT)
        return tir_const_bool(b, false);
    if (!late && r->graph->two && !r->bounds_differ)
        return tir_const_bool(b, true);
    if (!late)
        return tir_binary(b, TIR_NE, number, lo);
    TirVal *next = tir_binary(b, TIR_ADD, lo, tir_const_int(b, 1));
    return tir_binary(b, TIR_NE, part == BEHIND ? r->graph->all.hi : number, next);
}

static void
issue_piece(Roles *r, const Product *p, TirVal *left, TirVal *right, TirVal *add, uint32_t w)
{
    TirVal *args[] = {left, right, add, p->read[0], p->read[1]};
    TirOp *issued = tir_op_new(&r->b, TIR_TMEM_MMA, p->mma->n_args, args, 0, NULL);

    issued->shared = p->result;
    issued->integer = w;
}

/* `had`: says whether it adds to a sum that was begun, where a product begins it; or NULL. */
static void
issue_product(Roles *r, CloneMap *map, uint32_t at, TirVal *had, uint32_t w)
{
    TirBuilder *b = &r->b;
    Graph *graph = r->graph;
    Product *p = graph->order.at[at];
    GraphOperand *operand = issue_operand(graph, p);
    bool swap = p->mma->swap_ab, later = operand == NULL || operand->implied;

    b->span = p->mma->span;
    if (p->corrected) /* it is there before the operand */
        roles_plain(b, TIR_CONSUMER_WAIT, roles_ready_sum(r), w);
    if (operand != NULL)
        meet_operand(r, map, operand, w);
    TirVal *left = p->kept > 0 ? graph->kept.at[p->kept - 1].read
                               : view_of(r, map, p->mma->args[swap],
                                         operand != NULL ? operand->transposed : swap);
    TirVal *right = view_of(r, map, p->mma->args[!swap], swap);
    for (uint32_t k = 0; k < 2 && p->scales[0] != NULL; k++)
        p->read[k] = view_of(r, map, p->mma->args[TIR_MMA_PLAIN + (swap ? 1 - k : k)], swap);
    if (had == NULL)
        had = tir_const_bool(b, p->kind == PRODUCT_SUM);
    if (!is_held(p))
        acquire_result(r, p, w);
    issue_piece(r, p, left, right, had, w);
    for (uint32_t k = 1; operand != NULL && k < operand->n_pieces; k++)
        issue_piece(r, p, meet_piece(r, operand, k, w), right, tir_const_bool(b, true), w);
    if (!is_held(p))
        roles_plain(b, TIR_PRODUCER_COMMIT, p->result, w);
    for (uint32_t j = at + 1; j < graph->order.n && !later; j++)
        later = graph->order.at[j]->operand == p->operand;
    if (!later)
        roles_plain(b, TIR_CONSUMER_RELEASE, issue_last_piece(operand), w);
}

/* Sums that go with operands are done, where the consumer has had an iteration; there is one in the
 * block. */
static void
commit_sums(Roles *r, uint32_t w)
{
    const Range *own = &r->graph->own[w];
    TirVal *some = r->bounds_differ ? tir_binary(&r->b, TIR_LT, own->lo, own->hi) : NULL;
    TirOp *branch = roles_begin_if(&r->b, some);

    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        if (goes_with_operand(&r->graph->products.at[k]))
            roles_plain(&r->b, TIR_PRODUCER_COMMIT, r->graph->products.at[k].result, w);
    }
    roles_end(&r->b, branch);
}

/* Where there is an iteration behind that of this number. */
static TirOp *
begin_next(Roles *r, TirVal *number)
{
    TirBuilder *b = &r->b;
    TirVal *next = tir_binary(b, TIR_ADD, number, tir_const_int(b, 1));

    return roles_begin_if(b, tir_binary(b, TIR_LT, next, r->graph->all.hi));
}

/* The products that are issued at a place, for one consumer after the other. */
static void
issue_products(Roles *r, const CloneMap *outer, Part part, TirVal *number)
{
    Graph *graph = r->graph;
    const uint32_t n = tir_consumers(r->fn->plan);
    CloneMap maps[2][MOST_CONSUMERS]; /* of the iteration ahead, and of the other */

    for (uint32_t k = 0; k < 2 * n; k++)
        maps[k / n][k % n] = clone_map_copy(r->fn, &outer[k % n]);
    for (uint32_t w = 0; w < n; w++) {
        for (uint32_t k = 0; k < graph->operands.n; k++)
            graph->operands.at[k].read = NULL;
        for (uint32_t i = 0; i < graph->issued.n; i++) {
            uint32_t at = graph->issued.at[i];
            const Product *p = graph->order.at[at];
            bool late = graph->two && !graph->tested && !p->ahead;
            if ((part == IN_FRONT && !p->ahead) || (part == BEHIND && p->ahead))
                continue;
            TirOp *next = part == INSIDE && graph->tested && p->ahead ? begin_next(r, number)
                                                                      : NULL;
            if (w == 0)
                read_loads(r, maps[!p->ahead], p);
            TirOp *branch = roles_begin_if(&r->b, has_iteration(r, part, late, number, w));
            bool begins = p->kind == PRODUCT_SUM && !p->written;
            issue_product(r, &maps[!p->ahead][w], at,
                          begins ? had_iteration(r, part, late, number, w) : NULL, w);
            roles_end(&r->b, branch);
            if (w + 1 == n)
                give_back_loads(r, at);
            roles_end(&r->b, next);
        }
        if (part == BEHIND)
            commit_sums(r, w);
    }
}

/* In a branch, for where there is an iteration. */
static void
issue_if_any(Roles *r, const CloneMap *maps, Part part)
{
    TirVal *some = tir_binary(&r->b, TIR_LT, r->graph->all.lo, r->graph->all.hi);
    TirOp *branch = roles_begin_if(&r->b, some);

    issue_products(r, maps, part, NULL);
    roles_end(&r->b, branch);
}

/* Gives back tiles loaded once: those that products behind the loop read, or the others. */
static void
give_back_once(Roles *r, bool late)
{
    for (uint32_t k = 0; k < r->once.n; k++) {
        TirShared *pipeline = r->once.at[k]->shared;
        bool read = false;
        for (uint32_t j = 0; j < r->graph->products.n && r->graph->two; j++) {
            const Product *p = &r->graph->products.at[j];
            read = read || (!p->ahead && reads_load(p, r->once.at[k]));
        }
        for (uint32_t w = 0; read == late && w < tir_parts(r->fn->plan, pipeline); w++)
            roles_plain(&r->b, TIR_CONSUMER_RELEASE, pipeline, w);
    }
}

/* The iterations of each consumer, and of the block. */
static void
find_ranges(Roles *r, TirVal *index)
{
    Graph *graph = r->graph;
    TirVal *first_lo = NULL;
    uint32_t n = tir_consumers(r->fn->plan);

    if (r->bounds_differ) {
        r->extent = clone_host(&r->b, r->fn->grid.at[r->fn->plan->tiles.axis].extent);
        graph->all = roles_block_range(r, r->loop, index, &first_lo);
    }
    for (uint32_t w = 0; w < n && (w == 0 || r->bounds_differ); w++)
        graph->own[w] = roles_consumer_range(r, r->loop, roles_consumer_index(r, index, w),
                                             first_lo);
    for (uint32_t w = 0; w < n && !r->bounds_differ; w++)
        graph->all = graph->own[w] = graph->own[0];
}

/* Finds where a role's program is, and the iterations, unless they are another matter in each one
 * of the loops around. */
static TirVal *
begin_role(Roles *r)
{
    TirVal *index = roles_block_index(r, roles_grid(r));

    if (r->around.n == 0) /* bounds may be loaded: not behind a wait */
        find_ranges(r, index);
    return index;
}

static void
issue_loop(Roles *r, TirVal *index)
{
    TirBuilder *b = &r->b;
    const CloneMap *maps = r->graph->maps;
    bool two = r->graph->two, behind = two && !r->graph->tested, nested = r->around.n > 0;

    if (nested)
        find_ranges(r, index);
    Range all = r->graph->all;
    if (two)
        issue_if_any(r, maps, IN_FRONT);
    TirVal *from = behind ? tir_binary(b, TIR_ADD, all.lo, tir_const_int(b, 1)) : all.lo;
    TirOp *loop = roles_begin_for(b, from, all.hi, r->loop->span);
    issue_products(r, maps, INSIDE, b->block->params.at[0]);
    b->span = r->loop->span;
    roles_end(b, loop);
    if (!nested)
        give_back_once(r, false);
    if (behind)
        issue_if_any(r, maps, BEHIND);
    if (!nested)
        give_back_once(r, true);
}

/* Takes, or gives, the sums of all consumers for the turn of this number. */
static void
turn_sums(Roles *r, uint32_t turn)
{
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const Product *p = &r->graph->products.at[k];
        for (uint32_t w = 0; issue_sum_turns(p) > turn && w < tir_consumers(r->fn->plan); w++)
            roles_plain(&r->b, turn % 2 == 0 ? TIR_PRODUCER_ACQUIRE : TIR_PRODUCER_COMMIT,
                        p->result, w);
    }
}

void
issue_write_program(Roles *r)
{
    TirBuilder *b = &r->b;
    Graph *graph = r->graph;
    CloneMap maps[MOST_CONSUMERS];
    TirVal *index = begin_role(r);

    graph->maps = maps;
    for (uint32_t w = 0; w < tir_consumers(r->fn->plan); w++)
        maps[w] = clone_map(r->fn);
    for (uint32_t k = 0; k < r->once.n; k++)
        read_load(r, maps, r->once.at[k], false);
    b->span = r->loop->span;
    for (uint32_t turn = 0; turn < 4; turn++)
        turn_sums(r, turn);
    for (uint32_t k = 0; k < graph->kept.n; k++) {
        roles_plain(b, TIR_CONSUMER_WAIT, graph->kept.at[k].buffer, 0);
        graph->kept.at[k].read = read_written(r, graph->kept.at[k].buffer, NULL, 0);
    }
    roles_write_nest(r, index, issue_loop);
    b->span = r->loop->span;
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *p = &graph->products.at[k];
        for (uint32_t w = 0; issue_sum_turns(p) % 2 == 1 && w < tir_consumers(r->fn->plan); w++)
            roles_plain(b, TIR_PRODUCER_COMMIT, p->result, w);
    }
    if (r->around.n > 0)
        roles_release(b, &r->once);
    r->once_given_back = true;
}

/* The correction role's, which has the sum that iterations change. */
void
issue_write_corrector(Roles *r)
{
    begin_role(r);
    for (uint32_t k = 0; k < r->graph->products.n; k++) {
        const Product *p = &r->graph->products.at[k];
        if (p->corrected)
            roles_write_correction(r, p->result, r->graph->own, r->graph->all);
    }
}

/* ---- the reduce role ---- */

/* Adds a result to memory.  It goes as soon as it is in registers, where a row has room there. */
static void
add_result(Roles *r, CloneMap *map, const Product *p)
{
    TirBuilder *b = &r->b;
    const TirOp *add = p->addition;
    bool early = p->result->cols <= ADDED_AT_ONCE;

    for (uint32_t k = 0; k + 1 < add->n_args; k++) {
        TirVal *same = clone_scalar_tree(b, map, add->args[k]);
        if (same == NULL)
            buf_add(r->px->bugs,
                    "where a tile is added to memory does not follow from the launch\n");
        clone_set(map, add->args[k], same);
    }
    b->span = p->mma->span;
    issue_read_result(r, map, p);
    if (early)
        roles_plain(b, TIR_CONSUMER_RELEASE, p->result, 0);
    b->span = add->span;
    clone_op(b, map, add);
    if (!early)
        roles_plain(b, TIR_CONSUMER_RELEASE, p->result, 0);
}

static void
add_loop(Roles *r, TirVal *index)
{
    TirBuilder *b = &r->b;
    CloneMap map = roles_consumer_map(r, roles_consumer_index(r, index, 0));

    if (r->around.n > 0)
        find_ranges(r, index);
    TirOp *loop = roles_begin_for(b, r->graph->all.lo, r->graph->all.hi, r->loop->span);
    clone_set(&map, r->body->params.at[0], loop->blocks[0]->params.at[0]);
    for (uint32_t i = 0; i < r->graph->products.n; i++) {
        if (r->graph->products.at[i].kind == PRODUCT_ADDED)
            add_result(r, &map, &r->graph->products.at[i]);
    }
    b->span = r->loop->span;
    roles_end(b, loop);
}

void
issue_write_adder(Roles *r)
{
    roles_write_nest(r, begin_role(r), add_loop);
    if (tir_adds_in_pairs(r->fn->plan))
        roles_share_additions(r, tir_role(r->fn->plan, ROLE_REDUCE)->program);
}
