/* roles_in_order.c - the main loop as it is, its operations in an order that lets products run.
 *
 * A product over all consumers is shared out here: each consumer writes its part of the operand for the
 * others, and adds a share of the result to memory.  Their barrier makes the consumers go in step, so
 * that all would want the tensor cores at once and then the arithmetic units; with ping-pong, a consumer
 * starts what follows the barrier when the one before it has started all of its products.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* Products that may still run, in order of their issue. */
typedef struct InFlight {
    ValueList results;
} InFlight;

/* Whether an operation looks at `value`, itself or in a block it owns; as the accumulator of a
 * product, or passed on by a yield, it does not count. */
static bool
looks_at(const TirOp *op, const TirVal *value)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (op->args[k] == value && !(op->op == TIR_MMA && k == 2))
            return true;
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++) {
            if (looks_at(op->blocks[k]->ops.at[i], value))
                return true;
        }
    }
    return false;
}

/* Whether `op` is a product that adds to `value`, which something else asks for as well: it begins with a copy. */
static bool
begins_with_copy(const Roles *r, const TirOp *op, const TirVal *value)
{
    uint32_t users = 0;

    if (op->op != TIR_MMA || op->args[2] != value)
        return false;
    for (uint32_t i = 0; i < r->body->ops.n; i++)
        users += op_uses_deep(r->body->ops.at[i], value);
    return users > 1;
}

/* What `op` reads besides a product's result, and the body computes from others that have ended: better
 * done before the wait for it. */
static void
list_computed(const Roles *r, const TirOp *op, const CloneMap *map, ValueList *out)
{
    for (uint32_t k = 0; k < op->n_args && op->op != TIR_MMA; k++) {
        const TirOp *def = op->args[k]->def;
        if (def != NULL && def->parent == r->body && op->args[k]->type.rank == 2 &&
            r->level[op->args[k]->id] > 0 &&
            (tir_op_info(def->op)->flags & TF_ELEMENTWISE) != 0)
            vec_push(r->fn->arena, out, clone_of(map, op->args[k]));
    }
}

static void
wait_until(Roles *r, InFlight *in_flight, uint32_t left, const ValueList *before)
{
    if (in_flight->results.n <= left)
        return;
    TirOp *wait = tir_op_new(&r->b, TIR_MMA_WAIT, before->n, before->at, 0, NULL);
    wait->integer = left;
    for (uint32_t k = 0; k < left; k++)
        in_flight->results.at[k] = in_flight->results.at[in_flight->results.n - left + k];
    in_flight->results.n = left;
}

/* A product that the consumers share out: each writes its part of the left operand for all to read.
 * Two stages, so that one barrier an iteration is enough: who has passed it has read the other
 * stage before.  Products in `meanwhile` run while the consumers wait for each other. */
static void
emit_coop_k(Roles *r, CloneMap *map, const TirOp *op, const OpList *meanwhile)
{
    TirBuilder *b = &r->b;
    int32_t consumers = (int32_t)r->fn->plan->consumers;
    TirType part = op->args[0]->type, right = op->args[1]->type;
    CoopKShare share = coop_k_share(op->results[0]->type, r->fn->plan->consumers);
    TirType left = tir_tile2(part.dtype, share.rows, part.dim[1] * consumers);
    TirType other = tir_tile2(right.dtype, right.dim[0] * consumers, share.cols);

    b->span = op->span;
    if (r->exchange == NULL) {
        r->exchange = roles_new_buffer(r, "exchange", part.dtype, part.dim[0], part.dim[1], 2);
        r->exchange->is_coop_k = true;
    }
    TirVal *stage = tir_const_int(b, 0); /* the next one at each write */
    TirVal *written[] = {stage, clone_of(map, op->args[0])};
    tir_op_new(b, TIR_SHARED_WRITE, 2, written, 0, NULL)->shared = r->exchange;
    for (uint32_t k = 0; k < meanwhile->n; k++)
        roles_copy(r, map, meanwhile->at[k], false);
    b->span = op->span;
    roles_vectors_there(r);
    tir_op_new(b, TIR_CONSUMER_BARRIER, 0, NULL, 0, NULL);
    if (r->fn->plan->pingpong)
        tir_op_new(b, TIR_PINGPONG_WAIT, 0, NULL, 0, NULL);
    TirOp *x = tir_op_new(b, TIR_SHARED_READ, 1, &stage, 1, &left);
    x->shared = r->exchange;
    x->coop_k = true;
    x->sliced = share.by_rows;
    TirVal *zero = tir_const_int(b, 0);
    TirOp *y = tir_op_new(b, TIR_SHARED_READ, 1, &zero, 1, &other);
    y->shared = op->args[1]->def->shared;
    y->coop_k = true;
    y->sliced = !share.by_rows;
    TirVal *none = tir_splat_const(b, tir_tile2(DT_F32, share.rows, share.cols), 0);
    TirVal *args[] = {x->results[0], y->results[0], none};
    TirOp *mma = tir_op_new(b, TIR_MMA, 3, args, 1, &none->type);
    mma->async = mma->coop_k = true;
    mma->swap_ab = op->swap_ab;
    clone_set(map, op->results[0], mma->results[0]);
}

/* The dimension of the tensor that the consumers' shares of a cooperative-K product lie along: that of the tile's
 * rows or of its columns. */
static uint32_t
divided_dimension(const TirOp *add, bool by_rows)
{
    uint32_t d = 0;

    while (add->index[d].kind == INDEX_SCALAR || tir_tile_dimension(add, d) != (by_rows ? 0 : 1))
        d++;
    return d;
}

/* Through which a consumer's share of a cooperative-K product goes to the tensor that `add` adds to. */
static TirShared *
staging_of(Roles *r, TirOp *add)
{
    CoopKShare share = coop_k_share(add->args[add->n_args - 1]->type, r->fn->plan->consumers);

    if (add->shared == NULL) {
        add->shared = roles_new_buffer(r, add->tensor->name, DT_F32, share.rows, share.cols, 1);
        add->shared->is_staging = true;
    }
    return add->shared;
}

/* The addition of this consumer's share of a cooperative-K product, with its value last until roles_reduce.c takes it
 * to the reduce role. */
static void
emit_addition(Roles *r, CloneMap *map, TirOp *op)
{
    TirBuilder *b = &r->b;
    TirVal *whole = op->args[op->n_args - 1];
    TirVal *value = clone_of(map, whole);
    CoopKShare share = coop_k_share(whole->type, r->fn->plan->consumers);
    uint32_t divided = divided_dimension(op, share.by_rows), n = 0, next = 0;
    int32_t length = share.by_rows ? share.rows : share.cols;
    TirType i32 = tir_scalar(DT_I32);
    TirVal *args[TENSOR_MAX_RANK + 1];

    b->span = op->span;
    /* one thread asks for all: its place must be known to be the same for a warp */
    CloneMap uniform = roles_uniform_map(r, clone_of(map, r->body->params.at[0]));
    TirVal *own = tir_op_new(b, TIR_CONSUMER, 0, NULL, 1, &i32)->results[0];
    own = tir_binary(b, TIR_MUL, own, tir_const_int(b, length));
    for (uint32_t d = 0; d < op->tensor->rank; d++) {
        if (op->index[d].kind != INDEX_FULL) {
            TirVal *index = clone_scalar_tree(b, &uniform, op->args[next]);
            args[n++] = index != NULL ? index : clone_of(map, op->args[next]);
            next++;
        }
        if (d == divided && op->index[d].kind == INDEX_FULL)
            args[n++] = own;
        else if (d == divided)
            args[n - 1] = tir_binary(b, TIR_ADD, own, args[n - 1]);
    }
    args[n++] = value;
    TirOp *add = tir_op_new(b, TIR_TMA_REDUCE_ADD, n, args, 0, NULL);
    for (uint32_t d = 0; d < TENSOR_MAX_RANK; d++)
        add->index[d] = op->index[d];
    add->index[divided] = (TirIndex){.kind = INDEX_RANGE, .length = length};
    add->tensor = op->tensor;
    add->shared = staging_of(r, op);
}

/* The source of an operand, through casts of the layout and type that cost nothing to follow. */
static const TirVal *
source_of(const TirVal *value)
{
    while (value->def != NULL && value->def->op == TIR_TRANSPOSE)
        value = value->def->args[0];
    return value;
}

static void order_needs_of(Roles *r, OpList *out, bool *done, const TirOp *op);

/* Without rounding and the masks of some iterations: in others both sides of a mask are the same registers. */
static const TirVal *
unmasked(const TirVal *value)
{
    const TirOp *def = value->def;

    while (def != NULL && (def->op == TIR_CAST || def->op == TIR_BOUNDS_MASK || def->op == TIR_MASK)) {
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
    const TirOp *def = value->def;

    if (may_share_registers(value, operand))
        return true;
    if (def == NULL || def->parent != r->body || def->op == TIR_MMA || def->op == TIR_LOAD)
        return false;
    for (uint32_t k = 0; k < def->n_args; k++) {
        if (is_made_of(r, def->args[k], operand))
            return true;
    }
    return false;
}

/* Whether `op` has something computed from the registers that product `in_flight` has as an operand: these may not be
 * read before it has ended, but by another product itself. */
static bool
reads_operand(const Roles *r, const TirOp *op, const TirVal *in_flight)
{
    for (uint32_t k = 0; k < 2; k++) {
        const TirVal *operand = source_of(in_flight->def->args[k]);
        if (operand->def == NULL || operand->def->parent != r->body || operand->def->op == TIR_LOAD)
            continue;
        for (uint32_t j = 0; j < op->n_args && op->op != TIR_TRANSPOSE; j++) {
            const TirVal *read = source_of(op->args[j]);
            if ((op->op != TIR_MMA || !may_share_registers(read, operand)) && is_made_of(r, read, operand))
                return true;
        }
    }
    return false;
}

/* Puts `op` and what it needs of the body, in order, to `out`, unless it is there. */
static void
order_with_needs(Roles *r, OpList *out, bool *done, TirOp *op)
{
    uint32_t at = 0;

    while (r->body->ops.at[at] != op)
        at++;
    if (done[at])
        return;
    done[at] = true;
    order_needs_of(r, out, done, op);
    vec_push(r->fn->arena, out, op);
}

/* Operations of the body that `op` reads, or an operation in its blocks. */
static void
order_needs_of(Roles *r, OpList *out, bool *done, const TirOp *op)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        TirOp *def = op->args[k]->def;
        if (def != NULL && def->parent == r->body)
            order_with_needs(r, out, done, def);
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++)
            order_needs_of(r, out, done, op->blocks[k]->ops.at[i]);
    }
}

/* A product, at place `at`, that nothing waits for before the consumers' barrier, which the coop_k one at `coop_k_at`
 * needs: it runs while they meet. */
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
    bool some = false;

    if ((tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0 && op->op != TIR_EXPAND)
        return false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirOp *def = op->args[k]->def;
        if (def == NULL || def->parent != r->body || op->args[k]->type.rank == 0)
            continue;
        if (op->args[k]->type.rank > 1 || (!is_vector(def) && !is_of_vectors(r, def)))
            return false;
        some = true;
    }
    return some;
}

/* The order of an in-order iteration: vectors are loaded while everything else waits; then products
 * of loaded tiles; then as it is written, but a product that the consumers share out goes before others
 * of the same operand, and what is added to memory behind all products.  Products that `meanwhile`
 * lists go with the shared one. */
static void
order_iteration(Roles *r, bool lookahead, OpList *out, OpList *meanwhile)
{
    Arena *arena = r->fn->arena;
    bool *done = arena_array(arena, bool, r->body->ops.n + 1);
    uint32_t n = r->body->ops.n, coop_k_at = n;

    if (roles_carrier(r) != NULL && !lookahead) /* vectors share its barriers */
        order_with_needs(r, out, done, roles_carrier(r));
    for (uint32_t i = 0; i < n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (is_vector(op) && op->shared == NULL)
            order_with_needs(r, out, done, op);
        if (op->op == TIR_MMA && op->coop_k)
            coop_k_at = i;
    }
    /* What sums begin with is put there while no product runs. */
    for (uint32_t i = 0; i < n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_MMA && r->level[op->results[0]->id] == 1 && op->args[2]->def != NULL &&
            op->args[2]->def->parent == r->body)
            order_with_needs(r, out, done, op->args[2]->def);
    }
    /* Other vectors of pipelines last of all: ptxas moves a load that stands before other work
     * to behind the products' start, which waits for the tensor unit.  Where the first product began
     * an iteration ahead, registers are scarce: there they are read where they are used. */
    for (uint32_t i = 0; i < n && !lookahead; i++) {
        if (is_vector(r->body->ops.at[i]) || is_of_vectors(r, r->body->ops.at[i]))
            order_with_needs(r, out, done, r->body->ops.at[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_MMA && r->level[op->results[0]->id] == 1)
            order_with_needs(r, out, done, op);
    }
    for (uint32_t i = 0; i < n; i++) {
        TirOp *op = r->body->ops.at[i];
        for (uint32_t k = i + 1; k < n && op->op == TIR_MMA && !done[i]; k++) {
            TirOp *coop_k = r->body->ops.at[k];
            if (coop_k->op == TIR_MMA && coop_k->coop_k && !done[k] &&
                source_of(coop_k->args[0]) == source_of(op->args[0]))
                order_with_needs(r, out, done, coop_k);
        }
        if (done[i] || op->op == TIR_YIELD || op->op == TIR_ATOMIC_ADD)
            continue;
        done[i] = true;
        if (i < coop_k_at && coop_k_at < n && !done[coop_k_at] && can_run_meanwhile(r, i, coop_k_at))
            vec_push(arena, meanwhile, op);
        else
            vec_push(arena, out, op);
    }
    for (uint32_t i = 0; i < n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_ATOMIC_ADD)
            vec_push(arena, out, op);
    }
}

static bool
adds_coop_k(const TirOp *op)
{
    const TirOp *def = op->op == TIR_ATOMIC_ADD ? op->args[op->n_args - 1]->def : NULL;

    return def != NULL && def->op == TIR_MMA && def->coop_k;
}

/* Gives back the pipelines whose last product has ended: none of those to come, from place `from` on and
 * in `meanwhile`, and none in flight reads them. */
static void
release_ended(Roles *r, const OpList *order, const OpList *meanwhile, uint32_t from,
              const InFlight *in_flight, bool *released)
{
    const OpList *lists[] = {&r->stage0_pipelines, &r->stage1_pipelines};
    uint32_t n = 0;

    for (uint32_t j = 0; j < 2; j++) {
        for (uint32_t k = 0; k < lists[j]->n; k++, n++) {
            /* a vector that shares the barriers of another before that one */
            TirOp *load = lists[j]->at[r->fn->plan->lookahead ? lists[j]->n - 1 - k : k];
            bool busy = released[n];
            for (uint32_t i = from; i < order->n && !busy; i++)
                busy = order->at[i] == load || looks_at(order->at[i], load->results[0]) ||
                       roles_reads_pipeline(order->at[i], load);
            for (uint32_t i = 0; i < meanwhile->n && !busy; i++)
                busy = roles_reads_pipeline(meanwhile->at[i], load);
            for (uint32_t i = 0; i < in_flight->results.n && !busy; i++)
                busy = roles_reads_pipeline(in_flight->results.at[i]->def, load);
            if (busy)
                continue;
            released[n] = true;
            roles_plain(&r->b, TIR_CONSUMER_RELEASE, load->shared, 0);
        }
    }
}

/* Behind which place of the order the next iteration's first product begins: its last product, or the last
 * operation that asks for what that one overwrites. */
static uint32_t
place_to_begin(const Lookahead *lookahead, const OpList *order)
{
    uint32_t place = order->n;

    for (uint32_t i = 0; i < order->n && lookahead != NULL && lookahead->next != NULL; i++) {
        if (order->at[i]->op == TIR_MMA || lookahead_is_asked(lookahead, order->at[i]))
            place = i;
    }
    return place;
}

/* Whether an operation was done in the iteration before. */
static bool
is_begun(const Lookahead *lookahead, const TirOp *op)
{
    return lookahead != NULL && (op == lookahead->mma || op == lookahead->load);
}

static TirVal *
later_iteration(Roles *r, const CloneMap *map, int64_t by)
{
    return tir_binary(&r->b, TIR_ADD, clone_of(map, r->body->params.at[0]),
                      tir_const_int(&r->b, by));
}

TirVal *
roles_in_order_iteration(Roles *r, CloneMap *map, const Lookahead *lookahead)
{
    enum { MOST_IN_FLIGHT = 2 }; /* one runs, and the next one is there when it ends */
    InFlight in_flight = {0};
    const ValueList none = {0};
    OpList order = {0}, meanwhile = {0};
    bool *released = arena_array(r->fn->arena, bool, r->stage0_pipelines.n + r->stage1_pipelines.n + 1);
    bool copied = false, turn = false, coop_k = r->fn->plan->coop_k;
    uint32_t mmas = 0;
    TirVal *begun = NULL;

    order_iteration(r, lookahead != NULL, &order, &meanwhile);
    uint32_t begin = place_to_begin(lookahead, &order);
    for (uint32_t i = 0; i < order.n; i++)
        mmas += order.at[i]->op == TIR_MMA && !is_begun(lookahead, order.at[i]);
    for (uint32_t i = 0; i < order.n; i++) {
        TirOp *op = order.at[i];
        ValueList computed = {0};
        if (is_begun(lookahead, op))
            continue;
        for (uint32_t k = in_flight.results.n; k-- > 0;) {
            if (looks_at(op, in_flight.results.at[k]) || begins_with_copy(r, op, in_flight.results.at[k]) ||
                reads_operand(r, op, in_flight.results.at[k])) {
                if (!copied && !coop_k) /* under the products that begin the iteration */
                    roles_copy_vectors(r, later_iteration(r, map, 1));
                copied = true;
                list_computed(r, op, map, &computed);
                wait_until(r, &in_flight, in_flight.results.n - 1 - k, &computed);
                release_ended(r, &order, &meanwhile, i, &in_flight, released);
                break;
            }
        }
        if (op->op == TIR_MMA && in_flight.results.n >= MOST_IN_FLIGHT) {
            wait_until(r, &in_flight, MOST_IN_FLIGHT - 1, &none);
            release_ended(r, &order, &meanwhile, i, &in_flight, released);
        }
        if (op->op == TIR_MMA && op->coop_k) {
            emit_coop_k(r, map, op, &meanwhile);
            for (uint32_t k = 0; k < meanwhile.n; k++)
                vec_push(r->fn->arena, &in_flight.results, meanwhile.at[k]->results[0]);
            meanwhile.n = 0;
            turn = r->fn->plan->pingpong;
        } else if (adds_coop_k(op)) {
            emit_addition(r, map, op);
        } else if (roles_vector(r, op) != NULL) {
            roles_read_vector(r, map, roles_vector(r, op), clone_of(map, r->body->params.at[0]));
        } else {
            roles_copy(r, map, op, false);
        }
        if (op->op == TIR_MMA) {
            vec_push(r->fn->arena, &in_flight.results, op->results[0]);
            mmas--;
        }
        if (i == begin) {
            begun = roles_begin_lookahead(r, lookahead->next, lookahead);
            vec_push(r->fn->arena, &in_flight.results, begun);
        }
        if (turn && mmas == 0) {
            tir_op_new(&r->b, TIR_PINGPONG_ARRIVE, 0, NULL, 0, NULL);
            turn = false;
        }
    }
    /* Behind the consumers' barrier the stage of this iteration is free.  Not before the fence of what is
     * added to memory, which would wait for the copies; under the last product. */
    if (coop_k)
        roles_copy_vectors(r, later_iteration(r, map, 2));
    if (begun != NULL) { /* stages are free before it ends */
        wait_until(r, &in_flight, 1, &none);
        release_ended(r, &order, &meanwhile, order.n, &in_flight, released);
    }
    wait_until(r, &in_flight, 0, &none);
    release_ended(r, &order, &meanwhile, order.n, &in_flight, released);
    if (!coop_k && r->vectors.n > 0) {
        if (!copied)
            roles_copy_vectors(r, later_iteration(r, map, 1));
        roles_vectors_there(r);
        tir_op_new(&r->b, TIR_BARRIER, 0, NULL, 0, NULL);
    }
    return begun;
}

/* The loop, or one of its segments; `values` are what it begins with, then what it leaves. */
static void
emit_loop(Roles *r, CloneMap *map, Range range, TirVal **values)
{
    uint32_t n = r->loop->n_results;
    TirBlock *around = r->b.block;

    TirOp *loop = roles_enter_loop(r, range, n, values, map, NULL);
    (void)roles_in_order_iteration(r, map, NULL);
    roles_yielded(r, map, values);
    tir_yield(&r->b, n, values);
    r->b.block = around;
    for (uint32_t k = 0; k < n; k++)
        values[k] = loop->results[k];
}

/* Lets what is emitted from now on come from `body`, a copy of the loop's. */
static void
use_body(Roles *r, TirBlock *body, OpList pipelines)
{
    r->body = r->loop->blocks[0] = body;
    r->stage0_pipelines = pipelines;
    roles_mark(r);
}

/* A copy of the body whose products begin with what is subtracted from them; its pipelines to `pipelines`.  (A loop that is not pipelined
 * has no late ones.) */
static TirBlock *
preloaded_body(Roles *r, OpList *pipelines)
{
    Arena *arena = r->fn->arena;
    TirBlock *body = r->body, *copy = tir_block_new(r->fn);
    TirBuilder b = {.fn = r->fn, .block = copy, .at = -1};
    CloneMap map = clone_map(r->fn);

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (adds_coop_k(op)) /* they share it */
            (void)staging_of(r, op);
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
emit_segments(Roles *r, const CloneMap *map, Range range, uint32_t clean, Lookahead *lookahead,
              TirVal **values)
{
    TirVal *from = range.lo;
    TirBlock *body = r->body;
    OpList pipelines = r->stage0_pipelines, others = {0};
    TirBlock *preloaded = preloaded_body(r, &others);

    for (uint32_t k = 0; k < r->loop->n_segments; k++) {
        Range part = roles_segment(r, map, range, k, from);
        CloneMap own = clone_map_copy(r->fn, map);
        r->masks = MASKS_OF_ONE;
        r->segment = k;
        if ((clean >> k & 1) != 0) {
            roles_lookahead(r, &own, part, lookahead, values);
        } else {
            use_body(r, preloaded, others);
            emit_loop(r, &own, part, values);
            use_body(r, body, pipelines);
        }
        from = part.hi;
    }
    r->masks = MASKS_BY_SEGMENT;
}

void
roles_in_order(Roles *r, CloneMap *map, Range range)
{
    uint32_t clean;
    TirVal **values = roles_initial(r, map, 0);
    Lookahead lookahead;
    TirPlan *plan = r->fn->plan;

    roles_find_vectors(r);
    plan->lookahead = plan->lookahead && r->vectors.n == 0 && lookahead_find(r->fn, r->body, &lookahead);
    if (plan->lookahead) {
        lookahead.load->shared->release_lag = lookahead.load->shared->lookahead = true;
        clean = plan_clean_segments(r->loop);
        if (clean != 0)
            emit_segments(r, map, range, clean, &lookahead, values);
        else
            roles_lookahead(r, map, range, &lookahead, values);
    } else {
        if (r->vectors.n > 0) {
            roles_copy_vectors(r, range.lo);
            if (plan->coop_k)
                roles_copy_vectors(r, tir_binary(&r->b, TIR_ADD, range.lo, tir_const_int(&r->b, 1)));
            roles_vectors_there(r);
            tir_op_new(&r->b, TIR_BARRIER, 0, NULL, 0, NULL);
        }
        emit_loop(r, map, range, values);
        roles_vectors_there(r); /* those that are not needed, too: the next ones go to the same place */
    }
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        clone_set(map, r->loop->results[k], values[k]);
}
