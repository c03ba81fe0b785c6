/* roles_in_order.c - the steps of a main loop that is not pipelined: waits, releases, parts for other consumers.
 *
 * Operations stand in the order that stages_order.c gives them.  In front of a product over all consumers, parts of operands
 * are written for all, and the consumers meet.  A wait for a product stands before what first needs it to have ended, and a stage is given back when the last
 * product that reads it has.
 *
 * Where a loop does nothing but add products up nobody looks at a sum before it has ended, so a product need not have ended when
 * the next one starts: each iteration waits for the one before, and gives back what that one has read.  A consumer
 * holds two stages of each pipeline then.
 *
 * Consumers that meet go in step, so that all would want the tensor cores at once and then the arithmetic units;
 * with ping-pong, a consumer starts what follows the barrier when the one before it has started all of its products.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* One runs, and the next one is there when it ends; beside the next iteration's first, whose result is worked on
 * under the others. */
enum { MOST_IN_FLIGHT = 2, MOST_WITH_NEXT = 3 };

typedef struct InOrder {
    Roles *r;
    const Lookahead *lookahead; /* NULL: no product begins ahead */
    bool shares_out;            /* products over all consumers, of which each computes a share */
    bool divided;               /* consumers divide tiles */
    int8_t late; /* how many iterations later products are waited for, and their stages given back */
    OpList order;     /* of the operations */
    OpList meanwhile; /* products that run while the consumers meet, before they do */
    StepList steps;
    /* products that may still run, in order of issue; NULL: the next iteration's first */
    OpList in_flight;
    bool *released; /* by pipeline */
    /* behind what reads the buffers of parts, nothing was written since */
    bool met;
    ValueList written;    /* parts */
    bool to_meet;         /* some part was written, and the consumers have not met since */
    bool copied;          /* the next iteration's vectors .. */
    bool there;           /* .. behind a barrier, too */
    bool begun;           /* the next iteration's first product */
    const TirOp *met_for; /* the product for which the consumers have met last */
    bool has_front; /* .. goes before the last ones of this, and arithmetic on it under them */
} InOrder;

/* ---- what may run at once ---- */

/* Whether an operation looks at `value`, itself or in a block it owns; as the accumulator of a
 * product, or passed on by a yield, it does not count. */
static bool
looks_at(const TirOp *op, const TirVal *value)
{
    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);) {
        if (reads.value == value && !(reads.op->op == TIR_MMA && reads.arg == 2))
            return true;
    }
    return false;
}

/* Without rounding and the masks of some iterations: in others both sides of a mask are the same registers. */
static const TirVal *
unmasked(const TirVal *value)
{
    const TirOp *def = value->def;

    while (def != NULL && (def->op == TIR_CAST || tir_is_mask(def))) {
        value = def->args[0];
        def = value->def;
    }
    return value;
}

static bool
may_share_registers(const TirVal *a, const TirVal *b)
{
    return a == b || (a->type.dtype == b->type.dtype && unmasked(a) == unmasked(b));
}

static bool
is_made_of(const Roles *r, const TirVal *value, const TirVal *operand)
{
    for (TirInputs in = tir_inputs(r->fn->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        if (may_share_registers(in.value, operand))
            return true;
        if (def != NULL && def->parent == r->body && def->op != TIR_MMA && def->op != TIR_LOAD)
            tir_inputs_follow(&in);
    }
    return false;
}

/* Whether `op` has something computed from the registers that product `in_flight` has as an operand: these may not be
 * read before it has ended, but by another product itself. */
static bool
reads_operand(const Roles *r, const TirOp *op, const TirVal *in_flight)
{
    for (uint32_t k = 0; k < 2; k++) {
        const TirVal *operand = tir_untransposed(in_flight->def->args[k]);
        if (operand->def == NULL || operand->def->parent != r->body || operand->def->op == TIR_LOAD)
            continue;
        for (uint32_t j = 0; j < op->n_args && op->op != TIR_TRANSPOSE; j++) {
            const TirVal *read = tir_untransposed(op->args[j]);
            if ((op->op != TIR_MMA || !may_share_registers(read, operand)) &&
                is_made_of(r, read, operand))
                return true;
        }
    }
    return false;
}

/* ---- waits and releases ---- */

/* Whether the stage of `load` is still read: by what comes from place `from` on, or by a product in flight. */
static bool
is_busy(const InOrder *s, const TirOp *load, uint32_t from)
{
    bool busy = false;

    for (uint32_t i = from; i < s->order.n && !busy; i++)
        busy = roles_reads_load(s->order.at[i], load);
    for (uint32_t i = 0; i < s->meanwhile.n && !busy; i++)
        busy = roles_reads_pipeline(s->meanwhile.at[i], load);
    for (uint32_t i = 0; i < s->in_flight.n && !busy; i++)
        busy = s->in_flight.at[i] != NULL && roles_reads_pipeline(s->in_flight.at[i], load);
    return busy;
}

/* Gives back the pipelines that nothing reads any more; what comes stands from place `from` on. */
static void
release_ended(InOrder *s, uint32_t from)
{
    const OpList *lists[] = {&s->r->stage0_pipelines, &s->r->stage1_pipelines};
    uint32_t n = 0;

    for (uint32_t j = 0; j < 2; j++) {
        for (uint32_t k = 0; k < lists[j]->n; k++, n++) {
            /* a vector that shares the barriers of another before that one */
            TirOp *load = lists[j]->at[s->r->lookahead ? lists[j]->n - 1 - k : k];
            if (s->released[n] || is_busy(s, load, from))
                continue;
            s->released[n] = true;
            roles_add_step(s->r, &s->steps, STEP_RELEASE, load, s->late);
        }
    }
}

/* Waits until so many products are left, behind what computes `before` (or NULL); what comes stands from place
 * `from` on. */
static void
wait_until(InOrder *s, uint32_t left, uint32_t from, const ValueList *before)
{
    uint32_t n = s->in_flight.n;

    if (n <= left)
        return;
    if (s->in_flight.at[n - 1 - left] == NULL) {
        roles_add_step(s->r, &s->steps, STEP_WAIT, s->lookahead->mma, -1);
    } else {
        roles_add_step(s->r, &s->steps, STEP_WAIT, s->in_flight.at[n - 1 - left], s->late);
    }
    if (before != NULL)
        s->steps.at[s->steps.n - 1].values = *before;
    for (uint32_t k = 0; k < left; k++)
        s->in_flight.at[k] = s->in_flight.at[n - left + k];
    s->in_flight.n = left;
    release_ended(s, from);
}

/* What `op` reads besides a product's result, and the body computes from others that have ended: better
 * done before the wait for it. */
static void
list_computed(const Roles *r, const TirOp *op, ValueList *out)
{
    for (uint32_t k = 0; k < op->n_args && op->op != TIR_MMA; k++) {
        const TirOp *def = op->args[k]->def;
        if (def != NULL && def->parent == r->body && op->args[k]->type.rank == 2 &&
            r->level[op->args[k]->id] > 0 && (tir_op_info(def->op)->flags & TF_ELEMENTWISE) != 0)
            vec_push(r->fn->arena, out, op->args[k]);
    }
}

static void
copy_next_vectors(InOrder *s)
{
    if (!s->copied && !s->shares_out && s->r->vectors.n > 0)
        roles_add_copy(s->r, &s->steps, 1);
    s->copied = true;
}

/* Whether the iteration's vectors may make room for the next one's under the last product in flight: no other begins, and
 * nothing reads them, from place `at` on. */
static bool
waits_under_last(const InOrder *s, uint32_t at)
{
    bool waits = s->r->vectors.n > 0 && s->copied && !s->there && !s->shares_out && !s->divided;

    for (uint32_t i = at; i < s->order.n; i++) {
        waits = waits && s->order.at[i]->op != TIR_MMA;
        for (uint32_t k = 0; k < s->r->vectors.n && waits; k++)
            waits = !roles_reads_load(s->order.at[i], s->r->vectors.at[k].load);
    }
    return waits;
}

static void
end_vectors(InOrder *s)
{
    roles_add_step(s->r, &s->steps, STEP_VECTORS_THERE, NULL, 0);
    roles_add_plain(s->r, &s->steps, TIR_BARRIER, STEP_EVERYWHERE);
    s->there = true;
}

/* Waits for the products that have to end before the operation at place `at`. */
static void
wait_before(InOrder *s, uint32_t at)
{
    const TirOp *op = s->order.at[at];

    for (uint32_t k = s->in_flight.n; k-- > 0;) {
        const TirVal *result = s->in_flight.at[k] != NULL ? s->in_flight.at[k]->results[0] : NULL;
        if (result == NULL ||
            (!looks_at(op, result) && !reads_operand(s->r, op, result) &&
             (op->op != TIR_MMA || op->args[2] != result || !roles_begins_with_copy(s->r, op))))
            continue;
        copy_next_vectors(s); /* under the products that begin the iteration */
        ValueList computed = {0};
        if (!s->divided)
            list_computed(s->r, op, &computed);
        if (k + 1 == s->in_flight.n && waits_under_last(s, at))
            end_vectors(s);
        wait_until(s, s->in_flight.n - 1 - k, at, &computed);
        break;
    }
    if (op->op == TIR_MMA && s->late == 0)
        wait_until(s, (s->begun ? MOST_WITH_NEXT : MOST_IN_FLIGHT) - 1, at, NULL);
}

/* ---- an iteration ---- */

static void
meet(InOrder *s)
{
    if (s->to_meet) {
        roles_add_step(s->r, &s->steps, STEP_VECTORS_THERE, NULL, 0);
        s->there = s->copied;
    }
    roles_add_plain(s->r, &s->steps, TIR_CONSUMER_BARRIER, STEP_EVERYWHERE);
    s->met = true;
    s->to_meet = false;
}

/* This consumer's part of an operand, for all, unless it is there. */
static void
write_part(InOrder *s, TirOp *from)
{
    TirVal *part = roles_part(from);

    if (roles_listed(&s->written, part))
        return;
    if (!s->met)
        meet(s);
    roles_add_step(s->r, &s->steps, STEP_WRITE_PART, from, 0);
    vec_push(s->r->fn->arena, &s->written, part);
    s->to_meet = true;
}

/* Whether the loop carries the result of `op`, which is no product. */
static bool
is_sum(const Roles *r, const TirOp *op)
{
    const TirOp *yield = block_yield(r->body);
    bool is = false;

    for (uint32_t k = 0; k < yield->n_args && op->op != TIR_MMA && op->n_results == 1; k++)
        is = is || yield->args[k] == op->results[0];
    return is && op->results[0]->type.rank == 2;
}

/* Before product `at`, which begins when all before it have ended and their results have been added up: there is no
 * room for both (stages_order.c).  What ptxas sees as the end of the sum is the release of what the last one read. */
static void
make_room(InOrder *s, uint32_t at)
{
    uint32_t sum = at, k, to = s->steps.n;

    while (sum > 0 && !is_sum(s->r, s->order.at[sum - 1]))
        sum--;
    if (s->divided || s->late != 0 || s->in_flight.n > 0 || sum == 0)
        return;
    while (s->steps.at[to - 1].kind != STEP_OP || s->steps.at[to - 1].op != s->order.at[sum - 1])
        to--;
    for (k = to; k > 0 && s->steps.at[k - 1].kind != STEP_RELEASE;)
        k--;
    if (k == 0)
        return;
    Step release = s->steps.at[k - 1];
    for (; k < to; k++)
        s->steps.at[k - 1] = s->steps.at[k];
    vec_push(s->r->fn->arena, &release.values, s->order.at[sum - 1]->results[0]);
    s->steps.at[to - 1] = release;
}

static void
start_mma(InOrder *s, TirOp *mma)
{
    roles_add_step(s->r, &s->steps, STEP_OP, mma, 0);
    vec_push(s->r->fn->arena, &s->in_flight, mma);
}

/* Registers of a thread for the tile `value` that an operand is made of; 0: it was loaded. */
static int64_t
operand_registers(const Roles *r, const TirVal *value)
{
    const TirVal *tile = tir_untransposed(value);

    if (tile->def == NULL || tile->def->parent != r->body || tile->def->op == TIR_LOAD)
        return 0;
    return tir_type_elements(tile->type) * dtype_bits(tile->type.dtype) / 32 / GROUP_LANES;
}

/* Whether a thread has registers for its share of product `mma` beside the operands of products in flight: with
 * the sums that live over iterations, and the operands of products that come later. */
static bool
has_room_beside(const InOrder *s, const TirOp *mma, uint32_t at)
{
    const Roles *r = s->r;
    const TirPlan *plan = r->fn->plan;
    CoopKShare share = coop_k_share(mma->results[0]->type, tir_consumers(plan));
    int64_t registers = share.rows * share.cols / GROUP_LANES;

    for (uint32_t k = 0; k < r->loop->n_results; k++) {
        if (r->loop->results[k]->type.rank == 2)
            registers += tir_type_elements(r->loop->results[k]->type) / GROUP_LANES;
    }
    for (uint32_t k = 0; k < s->in_flight.n; k++) {
        if (s->in_flight.at[k] != NULL && roles_computed_right(r, s->in_flight.at[k]) == NULL)
            registers += operand_registers(r, s->in_flight.at[k]->args[0]);
    }
    for (uint32_t i = at + 1; i < s->order.n; i++) {
        if (s->order.at[i]->op == TIR_MMA && !s->order.at[i]->coop_k &&
            roles_computed_right(r, s->order.at[i]) == NULL)
            registers += operand_registers(r, s->order.at[i]->args[0]);
    }
    return registers + BESIDE_SUMS <= (int64_t)tir_role(plan, ROLE_CONSUMER)->registers;
}

/* Whether the product at place `at` stands in front of one that the consumers share out, with nothing but such products
 * between, and is not for that one: it runs while they meet. */
static bool
runs_meanwhile(const InOrder *s, uint32_t at)
{
    const TirOp *op = s->order.at[at];
    uint32_t next = at;

    while (next < s->order.n && s->order.at[next]->op == TIR_MMA && !s->order.at[next]->coop_k)
        next++;
    return s->shares_out && roles_computed_right(s->r, op) == NULL && next > at &&
           next < s->order.n && s->order.at[next]->op == TIR_MMA &&
           s->r->level[op->results[0]->id] > 1 && !op_uses_deep(s->order.at[next], op->results[0]);
}

/* Computed right operands of the products from place `at` on, but for that of `mma`, which is written for all. */
static void
write_rights(InOrder *s, const TirOp *mma, uint32_t at)
{
    for (uint32_t i = at; i < s->order.n; i++) {
        TirVal *right = roles_computed_right(s->r, s->order.at[i]);
        if (right == NULL || right == tir_untransposed(mma->args[0]) ||
            roles_listed(&s->written, right))
            continue;
        roles_add_step(s->r, &s->steps, STEP_WRITE_PART, s->order.at[i], 0);
        vec_push(s->r->fn->arena, &s->written, right);
    }
}

/* Before the product at place `at` that the consumers share out: each writes its part of the left operand.  Products
 * in `meanwhile` run while they wait for each other, and on under this one where registers suffice: else ptxas would
 * run all products one after another. */
static void
share_out(InOrder *s, TirOp *mma, uint32_t at)
{
    s->met_for = mma;
    /* Another one before it has read its stage when all have met: two in an iteration come back to that one. */
    for (uint32_t k = s->in_flight.n; k-- > 0;)
        if (s->in_flight.at[k] != NULL && s->in_flight.at[k]->coop_k)
            wait_until(s, s->in_flight.n - 1 - k, at, NULL);
    if (plan_has_computed_right(s->r->body)) /* the exchange has one stage */
        roles_add_plain(s->r, &s->steps, TIR_CONSUMER_BARRIER, STEP_EVERYWHERE);
    roles_add_step(s->r, &s->steps, STEP_WRITE_PART, mma, 0);
    write_rights(s, mma, at);
    for (uint32_t k = 0; k < s->meanwhile.n; k++)
        start_mma(s, s->meanwhile.at[k]);
    s->meanwhile.n = 0;
    roles_add_step(s->r, &s->steps, STEP_VECTORS_THERE, NULL, 0);
    roles_add_plain(s->r, &s->steps, TIR_CONSUMER_BARRIER, STEP_EVERYWHERE);
    if (!has_room_beside(s, mma, at))
        wait_until(s, 0, at, NULL);
    if (s->r->pingpong)
        roles_add_plain(s->r, &s->steps, TIR_PINGPONG_WAIT, STEP_EVERYWHERE);
}

/* Whether an operation was done in the iteration before. */
static bool
is_begun(const InOrder *s, const TirOp *op)
{
    const Lookahead *ahead = s->lookahead;

    if (ahead == NULL)
        return false;
    return op == ahead->mma || op == ahead->load || roles_lists(&ahead->front, op) ||
           (ahead->load->op == TIR_OWN && op->op == TIR_TRANSPOSE && roles_lists(&ahead->needs, op));
}

/* The place of the last product of the order, and, where the next iteration's first product begins ahead, the one
 * behind which it does: its last product, or the last operation that asks for what that one overwrites; with a front
 * that operation. */
static uint32_t
last_mma(const InOrder *s, uint32_t *begin)
{
    uint32_t last = s->order.n;

    *begin = s->order.n;
    for (uint32_t i = 0; i < s->order.n; i++) {
        bool mma = s->order.at[i]->op == TIR_MMA;
        last = mma && !is_begun(s, s->order.at[i]) ? i : last;
        if (s->lookahead != NULL &&
            ((mma && !s->has_front) || lookahead_is_asked(s->lookahead, s->order.at[i])))
            *begin = i;
    }
    return last;
}

/* Starts the next iteration's first product. */
static void
begin_next(InOrder *s)
{
    for (uint32_t k = 0; k < s->lookahead->needs.n; k++) {
        roles_add_step(s->r, &s->steps, STEP_OP, s->lookahead->needs.at[k], -1);
    }
    vec_push(s->r->fn->arena, &s->in_flight, NULL);
    s->begun = s->has_front;
}

/* Arithmetic on its result, under the products that still run. */
static void
compute_front(InOrder *s)
{
    const Lookahead *lookahead = s->lookahead;
    uint32_t left = s->in_flight.n;

    while (left > 0 && s->in_flight.at[s->in_flight.n - left] != NULL)
        left--;
    if (left > 0)
        wait_until(s, left - 1, s->order.n, NULL);
    for (uint32_t k = 0; k < lookahead->front.n; k++)
        roles_add_step(s->r, &s->steps, STEP_OP, lookahead->front.at[k], -1);
    if (s->in_flight.n == 0)
        return;
    uint32_t first = s->steps.n;
    wait_until(s, s->in_flight.n - 1, s->order.n, NULL);
    s->steps.at[first].values = lookahead->made;
    s->steps.at[first].of_next = true;
}

/* The product that consumers meet for before the operation at place `at`: itself, or the next one behind a product whose
 * right operand they write before they meet.  NULL: they do not. */
static TirOp *
next_shared_out(const InOrder *s, uint32_t at)
{
    TirOp *found = NULL;

    if (!s->shares_out || (roles_computed_right(s->r, s->order.at[at]) == NULL &&
                           (s->order.at[at]->op != TIR_MMA || !s->order.at[at]->coop_k)))
        return NULL;
    for (uint32_t i = at; i < s->order.n && found == NULL; i++)
        found = s->order.at[i]->op == TIR_MMA && s->order.at[i]->coop_k ? s->order.at[i] : NULL;
    return found;
}

static void
add_operation(InOrder *s, uint32_t at)
{
    TirOp *op = s->order.at[at];

    if (op->op == TIR_FROM) {
        write_part(s, op);
        return;
    }
    TirOp *shared = next_shared_out(s, at);
    if (shared != NULL && shared != s->met_for)
        share_out(s, shared, at);
    else if (op->op == TIR_MMA && op->coop_k && s->to_meet)
        meet(s);
    if (op->op == TIR_MMA) {
        make_room(s, at);
        start_mma(s, op);
    } else {
        roles_add_step(s->r, &s->steps, STEP_OP, op, 0);
    }
}

/* What ends an iteration: vectors of the next one, waits for what still runs. */
static void
end_iteration(InOrder *s)
{
    /* Behind the consumers' barrier the stage of this iteration is free.  Not before the fence of what is
     * added to memory, which would wait for the copies; under the last product. */
    if (s->shares_out && s->r->vectors.n > 0)
        roles_add_copy(s->r, &s->steps, 2);
    copy_next_vectors(s);
    if (s->begun)
        compute_front(s);
    bool begun = s->in_flight.n > 0 && s->in_flight.at[s->in_flight.n - 1] == NULL;
    if (begun) { /* stages are free before it ends */
        wait_until(s, 1, s->order.n, NULL);
        release_ended(s, s->order.n);
    }
    for (uint32_t left = s->in_flight.n; s->divided && left-- > 0;)
        /* a part's place is given back before the next one's */
        wait_until(s, left, s->order.n, NULL);
    wait_until(s, 0, s->order.n, NULL);
    release_ended(s, s->order.n);
    if (s->r->vectors.n > 0 && !s->shares_out && !s->there)
        end_vectors(s);
}

/* Whether a load is one of those whose parts `own` names. */
static bool
is_part_of(const TirOp *own, const TirOp *load)
{
    bool part = false;

    for (uint32_t k = 0; k < own->n_args; k++)
        part = part || own->args[k]->def == load;
    return part;
}

/* The steps of an iteration, the first product of the next one begun in it if `lookahead` is not NULL. */
static Staged
in_order_steps(Roles *r, const OpList *order, const Lookahead *lookahead, int8_t late)
{
    InOrder s = {.r = r,
                 .late = late,
                 .order = *order,
                 .lookahead = lookahead,
                 .shares_out = tir_shares_out(r->fn),
                 .divided = tir_is_cooperative(r->fn->plan),
                 .released = arena_array(r->fn->arena, bool,
                                         r->stage0_pipelines.n + r->stage1_pipelines.n + 1)};
    uint32_t begin;
    bool turn = false;

    s.has_front = lookahead != NULL && lookahead->front.n > 0;
    if (lookahead != NULL && lookahead->load->op == TIR_LOAD)
        roles_add_step(r, &s.steps, STEP_READ_AGAIN, lookahead->load, 0);
    for (uint32_t k = 0; s.has_front && k < lookahead->load->n_args;
         k++) /* its own part was read before */
        roles_add_step(r, &s.steps, STEP_OP, lookahead->load->args[k]->def, 0);
    uint32_t last = last_mma(&s, &begin);
    for (uint32_t i = 0; i < s.order.n; i++) {
        TirOp *op = s.order.at[i];
        if (is_begun(&s, op) || (s.has_front && is_part_of(lookahead->load, op)))
            continue;
        if (runs_meanwhile(&s, i)) {
            vec_push(r->fn->arena, &s.meanwhile, op);
            continue;
        }
        wait_before(&s, i);
        add_operation(&s, i);
        turn = turn || (op->op == TIR_MMA && op->coop_k && s.shares_out && r->pingpong);
        if (i == begin)
            begin_next(&s);
        if (turn && i == last)
            roles_add_plain(r, &s.steps, TIR_PINGPONG_ARRIVE, STEP_EVERYWHERE);
    }
    end_iteration(&s);
    return (Staged){.steps = s.steps};
}

/* The operations of the body in the order in which they stand. */
static OpList
text_order(const Roles *r)
{
    OpList order = {0};

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        if (r->body->ops.at[i]->op != TIR_YIELD)
            vec_push(r->fn->arena, &order, r->body->ops.at[i]);
    }
    return order;
}

/* A pipelined loop stands in another order, and so do cooperative consumers, who read their parts of a tile before they take its
 * stage. */
static OpList
order_of(const Roles *r, const Lookahead *lookahead)
{
    bool other = (r->pipelined && lookahead == NULL) || tir_is_cooperative(r->fn->plan);

    return other ? stages_order_in_order(r, r->body, lookahead) : text_order(r);
}

/* The loop, or one of its segments; `values` are what it begins with, then what it leaves. */
static void
emit_loop(Roles *r, const OpList *order, const CloneMap *map, Range range, TirVal **values)
{
    Staged staged = in_order_steps(r, order, NULL, 0);

    roles_emit_staged(r, map, range, &staged, values);
}

/* The loop with its first product in stage -1.
 *
 * Where consumers share a product, an iteration ends with work that overlaps no product: the share is written to
 * shared memory and handed to TMA.  The first product of the next iteration reads one tile that was loaded
 * long before and one that does not change, so it can start before that:
 *
 *     first product
 *     for all but the last  { iteration, as far as its products;  first product of the next;
 *                             what is added to memory }
 *     the last iteration
 *
 * Of a loop with segments those without masks can be like that, and the others as they were: masks
 * and the result of the next product together take more registers than there are.
 *
 * A consumer then holds two stages of that pipeline.  The loop ends with a wait for the lookahead product: if the
 * first instructions of the next loop waited for it, ptxas would wait for all products. */
static void
emit_lookahead(Roles *r, const CloneMap *map, Range range, const Lookahead *lookahead,
               TirVal **values)
{
    OpList order = order_of(r, lookahead);
    Staged staged = in_order_steps(r, &order, lookahead, 0);
    bool *later = arena_array(r->fn->arena, bool, r->fn->next_id + 1);

    for (uint32_t k = 0; k < r->fn->next_id; k++)
        later[k] = true;
    later[lookahead->mma->results[0]->id] = later[lookahead->load->results[0]->id] = false;
    for (uint32_t k = 0; k < lookahead->front.n; k++)
        later[lookahead->front.at[k]->results[0]->id] = false;
    staged.first = -1;
    staged.later = later;
    staged.crossing = lookahead->made;
    roles_emit_if_any(r, map, range, &staged, values);
}

/* A loop of nothing but sums: waits and releases are an iteration late. */
static void
emit_sums(Roles *r, const CloneMap *map, Range range, TirVal **values)
{
    OpList order = text_order(r);

    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++)
        r->stage0_pipelines.at[k]->shared->lag = 1;
    Staged staged = in_order_steps(r, &order, NULL, 1);
    staged.later = arena_array(r->fn->arena, bool, r->fn->next_id + 1);
    roles_emit_if_any(r, map, range, &staged, values);
}

/* Lets what is emitted from now on come from `body`, a copy of the loop's. */
static void
use_body(Roles *r, TirBlock *body, OpList pipelines)
{
    r->body = r->loop->blocks[0] = body;
    r->stage0_pipelines = pipelines;
    roles_mark(r);
}

/* A copy of the body whose products begin with what is subtracted from them; its pipelines to `pipelines`.  (A loop
 * that is not pipelined has no late ones.) */
static TirBlock *
preloaded_body(Roles *r, OpList *pipelines)
{
    Arena *arena = r->fn->arena;
    TirBlock *body = r->body, *copy = tir_block_new(r->fn);
    TirBuilder b = {.fn = r->fn, .block = copy, .at = -1};
    CloneMap map = clone_map(r->fn);

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (roles_adds_share(r, op)) /* they share it */
            (void)roles_staging(r, op);
        clone_op(&b, &map, op);
    }
    for (uint32_t k = 0; k < body->params.n; k++)
        vec_push(arena, &copy->params, body->params.at[k]);
    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++)
        vec_push(arena, pipelines, clone_of(&map, r->stage0_pipelines.at[k]->results[0])->def);
    r->loop->blocks[0] = copy;
    plan_preload(r->fn, copy);
    r->loop->blocks[0] = body;
    return copy;
}

/* The segments one after the other: those without masks begin ahead. */
static void
emit_segments(Roles *r, const CloneMap *map, Range range, uint32_t clean,
              const Lookahead *lookahead, TirVal **values)
{
    TirVal *from = range.lo;
    TirBlock *body = r->body;
    OpList pipelines = r->stage0_pipelines, others = pipelines;
    TirBlock *preloaded = body; /* of consumers that divide tiles it is already */
    if (!tir_is_cooperative(r->fn->plan)) {
        others = (OpList){0};
        preloaded = preloaded_body(r, &others);
    }

    for (uint32_t k = 0; k < r->loop->n_segments; k++) {
        Range part = roles_segment(r, map, range, k, from);
        CloneMap own = clone_map_copy(r->fn, map);
        r->masks = MASKS_OF_ONE;
        r->segment = k;
        if ((clean >> k & 1) != 0) {
            emit_lookahead(r, &own, part, lookahead, values);
        } else {
            use_body(r, preloaded, others);
            OpList order = stages_order_in_order(r, preloaded,
                                                 NULL); /* another body, and no lookahead */
            emit_loop(r, &order, &own, part, values);
            use_body(r, body, pipelines);
        }
        from = part.hi;
    }
    r->masks = MASKS_BY_SEGMENT;
}

/* Of what the lookahead product reads a consumer holds this iteration's stage and the next one's. */
static void
hold_two_stages(TirOp *load)
{
    if (load->op == TIR_LOAD)
        load->shared->lag = load->shared->reread = 1;
    for (uint32_t k = 0; load->op == TIR_OWN && k < load->n_args; k++)
        load->args[k]->def->shared->lag = 1;
}

void
roles_in_order(Roles *r, CloneMap *map, Range range)
{
    uint32_t clean;
    TirVal **values = roles_initial(r, map, 0);
    Lookahead lookahead;

    bool wanted = r->lookahead,
         sums = !tir_is_cooperative(r->fn->plan) && roles_accumulates_only(r);
    r->lookahead = roles_begins_ahead(r, &lookahead);
    roles_find_vectors(r);
    if (wanted && !r->lookahead) /* only text can ask for that */
        diag_remark(
            r->px->diag, r->loop->span,
            "no product of the loop of kernel '%s' begins in the iteration before: none has a "
            "tile that stays and one that is loaded, and begins at zero",
            r->fn->name);
    if (r->lookahead) {
        hold_two_stages(lookahead.load);
        clean = plan_clean_segments(r->loop);
        if (clean != 0)
            emit_segments(r, map, range, clean, &lookahead, values);
        else
            emit_lookahead(r, map, range, &lookahead, values);
    } else if (sums) {
        emit_sums(r, map, range, values);
    } else {
        if (r->vectors.n > 0) {
            roles_copy_vectors(r, range.lo);
            if (tir_shares_out(r->fn))
                roles_copy_vectors(r, tir_binary(&r->b, TIR_ADD, range.lo, tir_const_int(&r->b, 1)));
            roles_vectors_there(r);
            tir_op_new(&r->b, TIR_BARRIER, 0, NULL, 0, NULL);
        }
        OpList order = order_of(r, NULL);
        emit_loop(r, &order, map, range, values);
        /* those that are not needed, too: the next ones go to the same place */
        roles_vectors_there(r);
    }
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        clone_set(map, r->loop->results[k], values[k]);
}
