/* roles_list.c - the steps of an iteration of a consumer's main loop: operations, waits, releases,
 * parts for other consumers.
 *
 * Operations stand in the order that stages_order.c gives them.  In front of a product over all
 * consumers, parts of operands are written for all, and the consumers meet.  A wait for a product
 * stands before what first needs it to have ended, and a stage is given back when the last product
 * that reads it has.
 *
 * Where a loop does nothing but add products up nobody looks at a sum before it has ended, so a
 * product need not have ended when the next one starts: each iteration waits for the one before,
 * and gives back what that one has read.  A consumer holds two stages of each pipeline then.
 *
 * Where the loop is pipelined by one stage, products of stage 1 begin behind those of stage 0 of
 * the iteration that comes next, and run while it does its arithmetic.  What is made of their
 * results stands behind that.
 *
 * Consumers that meet go in step, so that all would want the tensor cores at once and then the
 * arithmetic units; with ping-pong, a consumer starts what follows the barrier when the one before
 * it has started all of its products.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/op_units.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* One runs, and the next one is there when it ends; beside the next iteration's first, whose result
 * is worked on under the others. */
enum { MOST_IN_FLIGHT = 2, MOST_WITH_NEXT = 3 };

typedef struct Lister {
    Roles *r;
    const Lookahead *lookahead; /* NULL: no product begins ahead */
    bool shares_out;            /* products over all consumers, of which each computes a share */
    bool divided;               /* consumers divide tiles */
    /* how many iterations later products are waited for, and their stages given back */
    int8_t late;
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
    bool pipelined;
    uint32_t issued,
        closing; /* the places behind all products, and of what is made of results of stage 1 */
    bool pinned; /* stages of stage 0 are kept */
    TirVal *pin; /* the last statistic, behind which they are released, or NULL */
} Lister;

static Step *
add(Lister *s, StepKind kind, TirOp *op, int8_t stage)
{
    return roles_add_step(s->r, &s->steps, kind, op, stage);
}

static Step *
add_plain(Lister *s, TirOpcode opcode)
{
    Step *step = add(s, STEP_PLAIN, NULL, 0);

    step->opcode = opcode;
    return step;
}

/* The stage in which a product is waited for, or the stages of a list of pipelines are given
 * back. */
static int8_t
stage_of(const Lister *s, bool stage1)
{
    return s->pipelined && stage1 ? 1 : s->late;
}

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

/* Without rounding and the masks of some iterations: in others both sides of a mask are the same
 * registers. */
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

/* Whether `op` has something computed from the registers that product `in_flight` has as an
 * operand: these may not be read before it has ended, but by another product itself. */
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

/* Whether the stage of `load` is still read: by what comes from place `from` on, or by a product in
 * flight. */
static bool
is_busy(const Lister *s, const TirOp *load, uint32_t from)
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
release_ended(Lister *s, uint32_t from)
{
    const OpList *lists[] = {&s->r->stage0_pipelines, &s->r->stage1_pipelines};
    uint32_t n = 0;

    for (uint32_t j = 0; j < 2; j++) {
        for (uint32_t k = 0; k < lists[j]->n; k++, n++) {
            /* a vector that shares the barriers of another before that one */
            TirOp *load = lists[j]->at[s->r->lookahead ? lists[j]->n - 1 - k : k];
            if (s->released[n] || (s->pinned && j == 0) || is_busy(s, load, from))
                continue;
            s->released[n] = true;
            Step *release = add(s, STEP_RELEASE, load, stage_of(s, j > 0));
            if (s->pin != NULL && j == 0)
                vec_push(s->r->fn->arena, &release->values, s->pin);
        }
    }
}

/* Waits until so many products are left, behind what computes `before` (or NULL); what comes stands
 * from place `from` on. */
static void
wait_until(Lister *s, uint32_t left, uint32_t from, const ValueList *before)
{
    uint32_t n = s->in_flight.n;

    if (n <= left)
        return;
    TirOp *mma = s->in_flight.at[n - 1 - left];
    Step *wait = add(s, STEP_WAIT, mma, -1);
    if (mma == NULL)
        wait->op = s->lookahead->mma;
    else
        wait->stage = stage_of(s, roles_in_stage1(s->r, mma));
    if (before != NULL)
        wait->values = *before;
    for (uint32_t k = 0; k < left; k++)
        s->in_flight.at[k] = s->in_flight.at[n - left + k];
    s->in_flight.n = left;
    release_ended(s, from);
}

/* What `op` reads besides a product's result, and the body computes from others that have ended:
 * better done before the wait for it. */
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
copy_next_vectors(Lister *s)
{
    if (!s->copied && !s->shares_out && s->r->vectors.n > 0)
        add(s, STEP_COPY_VECTORS, NULL, 0)->ahead = 1;
    s->copied = true;
}

/* Whether the iteration's vectors may make room for the next one's under the last product in
 * flight: no other begins, and nothing reads them, from place `at` on. */
static bool
waits_under_last(const Lister *s, uint32_t at)
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
end_vectors(Lister *s)
{
    add(s, STEP_VECTORS_THERE, NULL, 0);
    add_plain(s, TIR_BARRIER);
    s->there = true;
}

/* Waits for the products that have to end before the operation at place `at`. */
static void
wait_before(Lister *s, uint32_t at)
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
meet(Lister *s)
{
    if (s->to_meet) {
        add(s, STEP_VECTORS_THERE, NULL, 0);
        s->there = s->copied;
    }
    add_plain(s, TIR_CONSUMER_BARRIER);
    s->met = true;
    s->to_meet = false;
}

/* This consumer's part of an operand, for all, unless it is there. */
static void
write_part(Lister *s, TirOp *from)
{
    TirVal *part = roles_part(from);

    if (roles_listed(&s->written, part))
        return;
    if (!s->met)
        meet(s);
    add(s, STEP_WRITE_PART, from, 0);
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

/* Before product `at`, which begins when all before it have ended and their results have been added
 * up: there is no room for both (stages_order.c).  What ptxas sees as the end of the sum is the
 * release of what the last one read. */
static void
make_room(Lister *s, uint32_t at)
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
do_operation(Lister *s, TirOp *op)
{
    add(s, STEP_OP, op, s->pipelined && roles_in_stage1(s->r, op));
    if (op->op == TIR_MMA)
        vec_push(s->r->fn->arena, &s->in_flight, op);
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

/* Whether a thread has registers for its share of product `mma` beside the operands of products in
 * flight: with the sums that live over iterations, and the operands of products that come later. */
static bool
has_room_beside(const Lister *s, const TirOp *mma, uint32_t at)
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

/* Whether the product at place `at` stands in front of one that the consumers share out, with
 * nothing but such products between, and is not for that one: it runs while they meet. */
static bool
runs_meanwhile(const Lister *s, uint32_t at)
{
    const TirOp *op = s->order.at[at];
    uint32_t next = at;

    while (next < s->order.n && s->order.at[next]->op == TIR_MMA && !s->order.at[next]->coop_k)
        next++;
    return s->shares_out && roles_computed_right(s->r, op) == NULL && next > at &&
           next < s->order.n && s->order.at[next]->op == TIR_MMA &&
           s->r->level[op->results[0]->id] > 1 && !op_uses_deep(s->order.at[next], op->results[0]);
}

/* Computed right operands of the products from place `at` on, but for that of `mma`, which is
 * written for all. */
static void
write_rights(Lister *s, const TirOp *mma, uint32_t at)
{
    for (uint32_t i = at; i < s->order.n; i++) {
        TirVal *right = roles_computed_right(s->r, s->order.at[i]);
        if (right == NULL || right == tir_untransposed(mma->args[0]) ||
            roles_listed(&s->written, right))
            continue;
        add(s, STEP_WRITE_PART, s->order.at[i], 0);
        vec_push(s->r->fn->arena, &s->written, right);
    }
}

/* Before the product at place `at` that the consumers share out: each writes its part of the left
 * operand.  Products in `meanwhile` run while they wait for each other, and on under this one where
 * registers suffice: else ptxas would run all products one after another. */
static void
share_out(Lister *s, TirOp *mma, uint32_t at)
{
    s->met_for = mma;
    /* Another one before it has read its stage when all have met: two in an iteration come back to
     * that one. */
    for (uint32_t k = s->in_flight.n; k-- > 0;)
        if (s->in_flight.at[k] != NULL && s->in_flight.at[k]->coop_k)
            wait_until(s, s->in_flight.n - 1 - k, at, NULL);
    if (plan_has_computed_right(s->r->body)) /* the exchange has one stage */
        add_plain(s, TIR_CONSUMER_BARRIER);
    add(s, STEP_WRITE_PART, mma, 0);
    write_rights(s, mma, at);
    for (uint32_t k = 0; k < s->meanwhile.n; k++)
        do_operation(s, s->meanwhile.at[k]);
    s->meanwhile.n = 0;
    add(s, STEP_VECTORS_THERE, NULL, 0);
    add_plain(s, TIR_CONSUMER_BARRIER);
    if (!has_room_beside(s, mma, at))
        wait_until(s, 0, at, NULL);
    if (s->r->pingpong)
        add_plain(s, TIR_PINGPONG_WAIT);
}

/* Whether an operation was done in the iteration before. */
static bool
is_begun(const Lister *s, const TirOp *op)
{
    const Lookahead *ahead = s->lookahead;

    if (ahead == NULL)
        return false;
    return op == ahead->mma || op == ahead->load || roles_lists(&ahead->front, op) ||
           (ahead->load->op == TIR_OWN && op->op == TIR_TRANSPOSE && roles_lists(&ahead->needs, op));
}

/* The place of the last product of the order, and, where the next iteration's first product begins
 * ahead, the one behind which it does: its last product, or the last operation that asks for what
 * that one overwrites; with a front that operation. */
static uint32_t
last_mma(const Lister *s, uint32_t *begin)
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
begin_next(Lister *s)
{
    for (uint32_t k = 0; k < s->lookahead->needs.n; k++) {
        add(s, STEP_OP, s->lookahead->needs.at[k], -1);
    }
    vec_push(s->r->fn->arena, &s->in_flight, NULL);
    s->begun = s->has_front;
}

/* Arithmetic on its result, under the products that still run. */
static void
compute_front(Lister *s)
{
    const Lookahead *lookahead = s->lookahead;
    uint32_t left = s->in_flight.n;

    while (left > 0 && s->in_flight.at[s->in_flight.n - left] != NULL)
        left--;
    if (left > 0)
        wait_until(s, left - 1, s->order.n, NULL);
    for (uint32_t k = 0; k < lookahead->front.n; k++)
        add(s, STEP_OP, lookahead->front.at[k], -1);
    if (s->in_flight.n == 0)
        return;
    uint32_t first = s->steps.n;
    wait_until(s, s->in_flight.n - 1, s->order.n, NULL);
    s->steps.at[first].values = lookahead->made;
    s->steps.at[first].of_next = true;
}

/* The product that consumers meet for before the operation at place `at`: itself, or the next one
 * behind a product whose right operand they write before they meet.  NULL: they do not. */
static TirOp *
next_shared_out(const Lister *s, uint32_t at)
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
add_operation(Lister *s, uint32_t at)
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
    if (op->op == TIR_MMA)
        make_room(s, at);
    do_operation(s, op);
}

/* What ends an iteration: vectors of the next one, waits for what still runs. */
static void
end_iteration(Lister *s)
{
    /* Behind the consumers' barrier the stage of this iteration is free.  Not before the fence of
     * what is added to memory, which would wait for the copies; under the last product. */
    if (s->shares_out && s->r->vectors.n > 0)
        add(s, STEP_COPY_VECTORS, NULL, 0)->ahead = 2;
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

static Lister
new_lister(Roles *r)
{
    return (Lister){.r = r,
                    .shares_out = tir_shares_out(r->fn),
                    .divided = tir_is_cooperative(r->fn->plan),
                    .released = arena_array(r->fn->arena, bool,
                                            r->stage0_pipelines.n + r->stage1_pipelines.n + 1)};
}

/* The steps of an iteration, the first product of the next one begun in it if `lookahead` is not
 * NULL. */
Staged
roles_list_in_order(Roles *r, const OpList *order, const Lookahead *lookahead, int8_t late)
{
    Lister s = new_lister(r);
    uint32_t begin;
    bool turn = false;

    s.late = late;
    s.order = *order;
    s.lookahead = lookahead;
    s.has_front = lookahead != NULL && lookahead->front.n > 0;
    if (lookahead != NULL && lookahead->load->op == TIR_LOAD)
        add(&s, STEP_READ_AGAIN, lookahead->load, 0);
    for (uint32_t k = 0; s.has_front && k < lookahead->load->n_args;
         k++) /* its own part was read before */
        add(&s, STEP_OP, lookahead->load->args[k]->def, 0);
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
            add_plain(&s, TIR_PINGPONG_ARRIVE);
    }
    end_iteration(&s);
    return (Staged){.steps = s.steps};
}

/* ---- a pipelined one ---- */

/* Operations in the order in which an iteration has them: those of stage 0 as far as its products,
 * products of stage 1, arithmetic, what is made of results of stage 1. */
static void
order_stages(Lister *s)
{
    const Roles *r = s->r;
    uint32_t last = roles_last_first_mma(r);

    for (uint32_t part = 0; part < 4; part++) {
        s->issued = part == 2 ? s->order.n : s->issued;
        s->closing = part == 3 ? s->order.n : s->closing;
        for (uint32_t i = 0; i + 1 < r->body->ops.n; i++) {
            TirOp *op = r->body->ops.at[i];
            bool closing = roles_is_closing(r, op);
            uint32_t own = roles_in_stage1(r, op) ? (closing ? 3 : 1) : i > last ? 2 : 0;
            if (own == part)
                vec_push(r->fn->arena, &s->order, op);
        }
    }
}

/* Under the last product a consumer has time to find out about its next tile.  That is worth
 * something in tiles which are short by what the program is, as under a window; others may be of
 * any length, and registers that are kept from tile to tile change how ptxas colours the loop. */
static bool
asks_for_next(const Roles *r)
{
    enum { SHORT_TILE = 64 }; /* H200, d = 128, window of 1024, 17 iterations: 0.3 to 0.6 % */
    const TirPlan *plan = r->fn->plan;
    uint32_t most = plan->tiles.axis < r->fn->grid.n
                        ? r->fn->grid.at[plan->tiles.axis].sliding_trips
                        : 0;

    return tir_is_persistent(plan) && r->around.n == 0 && most > 0 && most <= SHORT_TILE &&
           switch_is_on(r->px, "next-tile");
}

/* In front of the first product. */
static void
begin_products(Lister *s)
{
    if (s->r->staggers)
        add(s, STEP_DELAY, NULL, 0)->parts = STEP_HEAD;
    if (s->r->pingpong)
        add_plain(s, TIR_PINGPONG_WAIT)->parts = STEP_STEADY;
}

/* Behind all products: the wait for those of stage 0. */
static void
end_products(Lister *s)
{
    uint32_t late = 0;

    if (s->r->pingpong)
        add_plain(s, TIR_PINGPONG_ARRIVE)->parts = STEP_STEADY;
    /* under the first product: it may have to wait */
    add(s, STEP_GIVE_BACK_DEFERRED, NULL, 0)->parts = STEP_HEAD;
    for (uint32_t k = 0; k < s->in_flight.n; k++)
        late += roles_in_stage1(s->r, s->in_flight.at[k]);
    wait_until(s, late, s->issued, NULL);
}

/* Behind the arithmetic of stage 0: what is done under the last products, and the wait for those of
 * stage 1. */
static void
end_stage0(Lister *s, Staged *staged)
{
    Roles *r = s->r;

    s->pinned = false;
    release_ended(s, s->closing);
    add(s, STEP_BEHIND, NULL, 1)->parts = STEP_TAIL | STEP_NONE;
    for (uint32_t k = 0; k < r->left.n; k++)
        vec_push(r->fn->arena, &staged->more, r->left.at[k]->type);
    add(s, STEP_GIVE_BACK_DEFERRED, NULL, 1)->parts = STEP_NONE;
    add(s, STEP_GIVE_BACK, NULL, 1)->parts = STEP_NONE;
    if (r->around.n == 0 && roles_has_rest(r)) {
        add(s, STEP_REST, NULL, 1)->parts = STEP_TAIL | STEP_NONE;
        vec_push(r->fn->arena, &staged->more, tir_scalar(DT_I32));
    }
    if (asks_for_next(r)) {
        Step *ask = add_plain(s, TIR_NEXT_TILE);
        ask->stage = 1;
        ask->parts = STEP_TAIL;
    }
    wait_until(s, 0, s->closing, NULL);
}

/* A statistic, or a branch that gives some. */
static bool
is_statistic(const TirOp *op)
{
    return tir_axis_use(op) == AXIS_REDUCES ||
           (op->op == TIR_IF && op->n_results > 0 && op->results[0]->type.rank == 1);
}

Staged
roles_list_pipelined(Roles *r)
{
    Lister s = new_lister(r);
    Staged staged = {.later = r->stage1};
    bool begun = false;

    s.pipelined = s.pinned = true;
    order_stages(&s);
    add(&s, STEP_GIVE_BACK, NULL, 1)->parts = STEP_TAIL;
    for (uint32_t i = 0; i <= s.order.n; i++) {
        const TirOp *op = i < s.order.n ? s.order.at[i] : block_yield(r->body);
        if (op->op == TIR_MMA && !begun)
            begin_products(&s);
        begun = begun || op->op == TIR_MMA;
        if (i == s.issued)
            end_products(&s);
        if (i == s.closing)
            end_stage0(&s, &staged);
        if (i == s.order.n)
            break;
        /* Pipelines of products of stage 0 are released when the statistics are there that the long
         * arithmetic needs: an operation that the machine keeps in order with the wait for the
         * products of stage 1, which would rise above all arithmetic otherwise. */
        if (i >= s.issued && op_use(op).unit == UNIT_MUFU && op->results[0]->type.rank == 2)
            s.pinned = false;
        release_ended(&s, i);
        do_operation(&s, s.order.at[i]);
        if (i >= s.issued && is_statistic(op))
            s.pin = op->results[0];
    }
    release_ended(&s, s.order.n);
    staged.steps = s.steps;
    return staged;
}
