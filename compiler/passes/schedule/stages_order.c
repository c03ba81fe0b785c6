/* stages_order.c - in which order a consumer does the operations of an iteration.
 *
 * Of a loop that is pipelined: each stage first what its products need, then what is made of their
 * results.  Of one that is not, an order that lets products run:
 *
 *     vectors; what sums begin with
 *     products of what was loaded
 *     arithmetic
 *     products over all consumers, in front of them those that run while the consumers meet; then
 *     those of a consumer's own, additions to memory
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* ---- of a pipelined loop ---- */

/* Where an operation of the body, at place `at`, comes in its stage: in stage 0 first what its
 * products need, then what is made of their results; in stage 1 its products, then what is made of
 * theirs. */
static bool
is_of_second_part(const Roles *r, uint32_t at, uint32_t last)
{
    const TirOp *op = r->body->ops.at[at];

    if (roles_in_stage1(r, op))
        return roles_is_closing(r, op);
    return at > last || op->n_results == 0 ||
           (op->op != TIR_MMA && r->level[op->results[0]->id] > 0);
}

/* Whether all that `op` reads of the body, itself or in a block, stands in `order`. */
static bool
is_ready(const Roles *r, const bool *placed, const TirOp *op)
{
    bool ready = true;

    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);)
        ready = ready && (reads.value->block != r->body || reads.value->def == NULL ||
                          placed[reads.value->id]);
    return ready;
}

/* Has the operations of a pipelined loop stand in the order in which each stage does them. */
static void
order_pipelined(Roles *r)
{
    OpList stage[2] = {{0}, {0}}, order = {0};
    bool *placed = arena_array(r->fn->arena, bool, r->fn->next_id + 1);
    uint32_t last = roles_last_first_mma(r), n = r->body->ops.n, next[2] = {0, 0};

    for (uint32_t part = 0; part < 2; part++) {
        for (uint32_t i = 0; i + 1 < n; i++) { /* without the yield */
            TirOp *op = r->body->ops.at[i];
            if (is_of_second_part(r, i, last) == (part == 1))
                vec_push(r->fn->arena, &stage[roles_in_stage1(r, op)], op);
        }
    }
    for (uint32_t i = 0; i + 1 < n;
         i++) { /* one of the stage that had this place, if it can stand here */
        bool of = roles_in_stage1(r, r->body->ops.at[i]);
        if (next[of] == stage[of].n || (of && !is_ready(r, placed, stage[1].at[next[1]])))
            of = !of;
        TirOp *op = stage[of].at[next[of]++];
        for (uint32_t k = 0; k < op->n_results; k++)
            placed[op->results[k]->id] = true;
        vec_push(r->fn->arena, &order, op);
    }
    for (uint32_t i = 0; i < order.n; i++)
        r->body->ops.at[i] = order.at[i];
}

/* ---- of one that is not ---- */

typedef struct Order {
    const Roles *r;
    const Lookahead *lookahead; /* NULL: no product begins ahead */
    bool divided;               /* consumers divide tiles */
    OpList order, meanwhile;    /* .. and products that run while the consumers meet */
    bool *done;                 /* by place in the body: it is in the order */
} Order;

/* At the end; what runs while consumers meet, directly in front of the product for which they
 * do. */
static void
put(Order *s, TirOp *op)
{
    for (uint32_t k = 0; op->op == TIR_MMA && op->coop_k && k < s->meanwhile.n; k++)
        vec_push(s->r->fn->arena, &s->order, s->meanwhile.at[k]);
    if (op->op == TIR_MMA && op->coop_k)
        s->meanwhile.n = 0;
    vec_push(s->r->fn->arena, &s->order, op);
}

static void order_needs_of(Order *s, const TirOp *op);

/* Puts `op` and what it needs of the body, in order, to the end, unless it is there. */
static void
order_with_needs(Order *s, TirOp *op)
{
    const TirBlock *body = s->r->body;
    uint32_t at = 0;

    while (body->ops.at[at] != op)
        at++;
    if (s->done[at])
        return;
    s->done[at] = true;
    order_needs_of(s, op);
    put(s, op);
}

/* Operations of the body that `op` reads, or an operation in its blocks. */
static void
order_needs_of(Order *s, const TirOp *op)
{
    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);) {
        TirOp *def = reads.value->def;
        if (reads.op->op != TIR_OWN && def != NULL && def->parent == s->r->body)
            order_with_needs(s, def); /* of an `own` the stages are taken later */
    }
}

/* A product, at place `at`, that nothing waits for before the consumers' barrier, which the coop_k
 * one at `coop_k_at` needs: it runs while they meet. */
static bool
can_run_meanwhile(const Roles *r, uint32_t at, uint32_t coop_k_at)
{
    const TirOp *op = r->body->ops.at[at];

    if (op->op != TIR_MMA || op->coop_k || r->level[op->results[0]->id] < 2)
        return false;
    for (uint32_t i = at + 1; i <= coop_k_at; i++) {
        if (op_uses_deep(r->body->ops.at[i], op->results[0]))
            return false;
    }
    return true;
}

static bool
is_vector(const TirOp *op)
{
    return op->op == TIR_LOAD && op->results[0]->type.rank < 2;
}

/* What is made of vectors alone before it is spread over a tile: the first of it reads them. */
static bool
is_of_vectors(const Roles *r, const TirOp *op)
{
    if (op->n_results == 0)
        return false;
    for (TirInputs in = tir_inputs(r->fn->arena, op->results[0]); tir_inputs_next(&in);) {
        const TirOp *made = in.value->def;
        bool some = false;
        if ((tir_op_info(made->op)->flags & TF_ELEMENTWISE) == 0 && made->op != TIR_EXPAND)
            return false;
        for (uint32_t k = 0; k < made->n_args; k++) {
            const TirOp *def = made->args[k]->def;
            if (def == NULL || def->parent != r->body || made->args[k]->type.rank == 0)
                continue;
            if (made->args[k]->type.rank > 1)
                return false;
            if (!is_vector(def))
                tir_inputs_add(&in, made->args[k]);
            some = true;
        }
        if (!some)
            return false;
    }
    return true;
}

static bool
is_first_mma(const Order *s, const TirOp *op)
{
    return op->op == TIR_MMA && s->r->level[op->results[0]->id] == 1;
}

/* Vectors are loaded while everything else waits. */
static void
order_vectors(Order *s)
{
    const TirBlock *body = s->r->body;

    /* vectors share its barriers */
    if (!s->divided && s->lookahead == NULL && roles_carrier(s->r) != NULL)
        order_with_needs(s, roles_carrier(s->r));
    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (is_vector(body->ops.at[i]) && (s->divided || body->ops.at[i]->shared == NULL))
            order_with_needs(s, body->ops.at[i]);
    }
}

/* What sums begin with is put there while no product runs. */
static void
order_sum_starts(Order *s)
{
    const TirBlock *body = s->r->body;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (is_first_mma(s, op) && op->args[2]->def != NULL && op->args[2]->def->parent == body)
            order_with_needs(s, op->args[2]->def);
    }
}

/* Other vectors of pipelines last of all: ptxas moves a load that stands before other work
 * to behind the products' start, which waits for the tensor unit.  Where the first product began
 * an iteration ahead, registers are scarce: there they are read where they are used. */
static void
order_vector_reads(Order *s)
{
    const TirBlock *body = s->r->body;

    for (uint32_t i = 0; i < body->ops.n && s->lookahead == NULL && !s->divided; i++) {
        if (is_vector(body->ops.at[i]) || is_of_vectors(s->r, body->ops.at[i]))
            order_with_needs(s, body->ops.at[i]);
    }
}

/* Registers of a thread for what the loop carries, and for results of products that stand in the
 * order: a sum of the loop's own is one of the former. */
static int64_t
registers_of_sums(const Order *s, const TirOp *next)
{
    const TirOp *loop = s->r->loop;
    int64_t elements = 0;

    for (uint32_t k = 0; k < loop->n_results; k++)
        elements += loop->results[k]->type.rank == 2 ? tir_type_elements(loop->results[k]->type)
                                                     : 0;
    for (uint32_t i = 0; i <= s->order.n; i++) {
        const TirOp *op = i < s->order.n ? s->order.at[i] : next;
        if (op->op == TIR_MMA && op->args[2]->def != NULL)
            elements += tir_type_elements(op->results[0]->type);
    }
    return elements / GROUP_LANES;
}

/* Whether a product may begin while the results of those before it are there: else it stands where
 * it is written, and begins when these have been added to what they are for. */
static bool
has_room(const Order *s, const TirOp *mma)
{
    return s->divided || registers_of_sums(s, mma) + BESIDE_SUMS <=
                             (int64_t)tir_role(s->r->fn->plan, ROLE_CONSUMER)->registers;
}

/* Products of loaded tiles: of consumers that divide tiles in the order in which pipelines are
 * filled. */
static void
order_first_mmas(Order *s)
{
    const Roles *r = s->r;
    uint32_t n = s->divided ? r->stage0_pipelines.n : 0;

    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < r->body->ops.n; i++) {
            TirOp *op = r->body->ops.at[i];
            if (is_first_mma(s, op) && roles_reads_pipeline(op, r->stage0_pipelines.at[k]))
                order_with_needs(s, op);
        }
    }
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        if (is_first_mma(s, r->body->ops.at[i]) && has_room(s, r->body->ops.at[i]))
            order_with_needs(s, r->body->ops.at[i]);
    }
}

/* The others as they are written, but products over all consumers first. */
static void
order_divided(Order *s)
{
    const TirBlock *body = s->r->body;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (body->ops.at[i]->op == TIR_MMA && body->ops.at[i]->coop_k)
            order_with_needs(s, body->ops.at[i]);
    }
    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (body->ops.at[i]->op != TIR_YIELD)
            order_with_needs(s, body->ops.at[i]);
    }
}

/* The place of the last product that the consumers share out; the number of operations: there is
 * none. */
static uint32_t
place_of_share(const TirBlock *body)
{
    uint32_t place = body->ops.n;

    for (uint32_t i = 0; i < body->ops.n; i++)
        place = body->ops.at[i]->op == TIR_MMA && body->ops.at[i]->coop_k ? i : place;
    return place;
}

/* The others as they are written, but a product that the consumers share out goes before others of
 * the same operand, and what is added to memory behind all products. */
static void
order_rest(Order *s)
{
    const TirBlock *body = s->r->body;
    uint32_t n = body->ops.n, coop_k_at = place_of_share(body);

    for (uint32_t i = 0; i < n; i++) {
        TirOp *op = body->ops.at[i];
        for (uint32_t k = i + 1; k < n && op->op == TIR_MMA && !s->done[i]; k++) {
            TirOp *coop_k = body->ops.at[k];
            if (coop_k->op == TIR_MMA && coop_k->coop_k && !s->done[k] &&
                tir_untransposed(coop_k->args[0]) == tir_untransposed(op->args[0]))
                order_with_needs(s, coop_k);
        }
        if (roles_computed_right(s->r, op) != NULL &&
            coop_k_at < n) /* behind what is written before they meet */
            order_needs_of(s, body->ops.at[coop_k_at]);
        if (s->done[i] || op->op == TIR_YIELD || op->op == TIR_ATOMIC_ADD)
            continue;
        s->done[i] = true;
        bool meanwhile = i < coop_k_at && coop_k_at < n && !s->done[coop_k_at] &&
                         can_run_meanwhile(s->r, i, coop_k_at);
        if (meanwhile)
            vec_push(s->r->fn->arena, &s->meanwhile, op);
        else
            put(s, op);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (body->ops.at[i]->op == TIR_ATOMIC_ADD)
            vec_push(s->r->fn->arena, &s->order, body->ops.at[i]);
    }
}

OpList
stages_order_in_order(const Roles *r, const TirBlock *body, const Lookahead *lookahead)
{
    Order s = {.r = r,
               .lookahead = lookahead,
               .divided = tir_is_cooperative(r->fn->plan),
               .done = arena_array(r->fn->arena, bool, body->ops.n + 1)};

    order_vectors(&s);
    order_sum_starts(&s);
    order_vector_reads(&s);
    order_first_mmas(&s);
    if (s.divided)
        order_divided(&s);
    else
        order_rest(&s);
    return s.order;
}

/* Arithmetic alone: products and branches stay where they are, since roles meet there. */
static bool
can_be_put_off(const TirOp *op)
{
    return (tir_op_info(op->op)->flags & TF_PURE) != 0 && op->op != TIR_MMA && op->n_blocks == 0;
}

void
stages_put_off(const Roles *r, OpList *order, const TirOp *product)
{
    bool *needed = arena_array(r->fn->arena, bool, r->fn->next_id + 1);
    OpList kept = {0}, later = {0};
    uint32_t at = 0;

    while (at < order->n && order->at[at] != product)
        at++;
    for (uint32_t i = at + 1; i-- > 0 && at < order->n;) {
        const TirOp *op = order->at[i];
        bool stays = !can_be_put_off(op);
        for (uint32_t k = 0; k < op->n_results; k++)
            stays = stays || needed[op->results[k]->id];
        for (TirReads reads = tir_reads(op); stays && tir_reads_next(&reads);)
            needed[reads.value->id] = true;
    }
    for (uint32_t i = 0; i < order->n; i++) {
        TirOp *op = order->at[i];
        bool stays = i >= at || !can_be_put_off(op) || needed[op->results[0]->id];
        vec_push(r->fn->arena, stays ? &kept : &later, op);
        for (uint32_t k = 0; i == at && k < later.n; k++)
            vec_push(r->fn->arena, &kept, later.at[k]);
    }
    *order = kept;
}

void
stages_order(Roles *r)
{
    Lookahead lookahead;

    if (r->pipelined) {
        order_pipelined(r);
        return;
    }
    if (r->mmas != BY_CONSUMERS || tir_is_cooperative(r->fn->plan) || roles_accumulates_only(r))
        return;
    roles_mark(r);
    bool ahead = roles_begins_ahead(r, &lookahead);
    OpList order = stages_order_in_order(r, r->body, ahead ? &lookahead : NULL);
    for (uint32_t i = 0; i < order.n; i++)
        r->body->ops.at[i] = order.at[i];
}

bool
roles_begins_ahead(Roles *r, Lookahead *lookahead)
{
    return r->lookahead && !roles_copies_vectors(r) && lookahead_find(r->fn, r->body, lookahead);
}
