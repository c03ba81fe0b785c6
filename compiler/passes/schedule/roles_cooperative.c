/* roles_cooperative.c - the main loop of consumers that divide its tiles.
 *
 * What a product needs of all consumers (`from`) goes through shared memory: each consumer writes its part,
 * they meet, and products read one part after the other.
 *
 *     vectors; what sums begin with
 *     products of what was loaded
 *     arithmetic, parts written to shared memory
 *     all consumers meet
 *     products over all parts, each consumer's columns
 *     products of a consumer's own rows, additions to memory
 *
 * A buffer of parts has one stage: what is read of it is read before the consumers meet for the next time,
 * behind which they write again.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

enum { MOST_IN_FLIGHT = 2 }; /* one runs, and the next one is there when it ends */

typedef struct WrittenPart {
    const TirVal *part;
    TirShared *buffer;
} WrittenPart;

typedef struct Divided {
    Roles *r;
    CloneMap *map;
    OpList order;
    bool *done;        /* by place in the loop's body: it is in the order */
    VEC(WrittenPart) written_parts;
    ValueList in_flight;  /* results of products that may still run, in order of their issue */
    bool *released;    /* by pipeline */
    bool met;          /* behind what reads the buffers of parts, nothing was written since */
    bool written;      /* some part, and the consumers have not met since */
    bool copied;       /* the next iteration's vectors .. */
    bool there;        /* .. behind a barrier, too */
} Divided;

/* ---- buffers of parts ---- */

/* What a `from` stands for, as it lies in registers: through transposes. */
static TirVal *
part_behind(const TirOp *from, bool *transposed)
{
    TirVal *value = from->args[0];

    *transposed = false;
    while (value->def != NULL && value->def->op == TIR_TRANSPOSE) {
        *transposed = !*transposed;
        value = value->def->args[0];
    }
    return value;
}

/* The buffer of a tile, made when it is first written; NULL: it is not yet. */
static TirShared *
buffer_of(const Divided *d, const TirVal *part)
{
    for (uint32_t k = 0; k < d->written_parts.n; k++) {
        if (d->written_parts.at[k].part == part)
            return d->written_parts.at[k].buffer;
    }
    return NULL;
}

static void
meet(Divided *d)
{
    TirBuilder *b = &d->r->b;

    if (d->written) {
        roles_vectors_there(d->r);
        d->there = d->copied;
    }
    tir_op_new(b, TIR_CONSUMER_BARRIER, 0, NULL, 0, NULL);
    d->met = true;
    d->written = false;
}

/* This consumer's part, for all, unless it is there. */
static void
write_part(Divided *d, const TirOp *from)
{
    TirBuilder *b = &d->r->b;
    bool transposed;
    TirVal *part = part_behind(from, &transposed);

    if (buffer_of(d, part) != NULL)
        return;
    b->span = from->span;
    if (!d->met)
        meet(d);
    WrittenPart written = {part, roles_new_buffer(d->r, part->name != NULL ? part->name : "parts",
                                                  part->type.dtype, part->type.dim[0],
                                                  part->type.dim[1], 1)};
    written.buffer->is_coop_k = true;
    vec_push(d->r->fn->arena, &d->written_parts, written);
    TirVal *args[] = {tir_const_int(b, 0), clone_of(d->map, part)};
    tir_op_new(b, TIR_SHARED_WRITE, 2, args, 0, NULL)->shared = written.buffer;
    d->written = true;
}

/* One consumer's part, as an operand. */
static void
read_part(Divided *d, const TirOp *from)
{
    TirBuilder *b = &d->r->b;
    bool transposed;
    TirVal *part = part_behind(from, &transposed), *stage = tir_const_int(b, 0);

    b->span = from->span;
    TirOp *read = tir_op_new(b, TIR_SHARED_READ, 1, &stage, 1, &part->type);
    read->shared = buffer_of(d, part);
    read->coop_k = true;
    read->integer = 1 + from->integer;
    read->results[0]->name = part->name;
    clone_set(d->map, from->results[0],
              transposed ? tir_transpose(b, read->results[0]) : read->results[0]);
}

/* This consumer's part of a tile that the producer copies; its stage is taken where all consumers read it. */
static void
read_own(Divided *d, const TirOp *own)
{
    TirBuilder *b = &d->r->b;
    TirShared *pipeline = own->args[0]->def->shared;

    b->span = own->args[0]->def->span;
    roles_plain(b, TIR_CONSUMER_WAIT, pipeline, 0);
    b->block->ops.at[b->block->ops.n - 1]->own = true;
    TirVal *stage = tir_const_int(b, 0);
    TirOp *read = tir_op_new(b, TIR_SHARED_READ, 1, &stage, 1, &own->results[0]->type);
    read->shared = pipeline;
    read->own = true;
    read->results[0]->name = own->results[0]->name;
    clone_set(d->map, own->results[0], read->results[0]);
}

/* ---- order ---- */

/* Puts `op` and what it needs of the body, in order, to the end, unless it is there. */
static void
order_with_needs(Divided *d, TirOp *op)
{
    const TirBlock *body = d->r->body;
    uint32_t at = 0;

    while (body->ops.at[at] != op)
        at++;
    if (d->done[at])
        return;
    d->done[at] = true;
    for (uint32_t k = 0; k < op->n_args && op->op != TIR_OWN; k++) { /* stages are taken later */
        TirOp *def = op->args[k]->def;
        if (def != NULL && def->parent == body)
            order_with_needs(d, def);
    }
    vec_push(d->r->fn->arena, &d->order, op);
}

static bool
is_first_mma(const Divided *d, const TirOp *op)
{
    return op->op == TIR_MMA && d->r->level[op->results[0]->id] == 1;
}

static void
order_iteration(Divided *d)
{
    const TirBlock *body = d->r->body;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (op->op == TIR_LOAD && op->results[0]->type.rank < 2)
            order_with_needs(d, op);
    }
    for (uint32_t i = 0; i < body->ops.n; i++) { /* put there while no product runs */
        const TirOp *op = body->ops.at[i];
        if (is_first_mma(d, op) && op->args[2]->def != NULL && op->args[2]->def->parent == body)
            order_with_needs(d, op->args[2]->def);
    }
    for (uint32_t k = 0; k < d->r->stage0_pipelines.n; k++) { /* in the order in which they are filled */
        for (uint32_t i = 0; i < body->ops.n; i++) {
            if (is_first_mma(d, body->ops.at[i]) && roles_reads_pipeline(body->ops.at[i], d->r->stage0_pipelines.at[k]))
                order_with_needs(d, body->ops.at[i]);
        }
    }
    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (is_first_mma(d, body->ops.at[i]))
            order_with_needs(d, body->ops.at[i]);
    }
    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (body->ops.at[i]->op == TIR_MMA && body->ops.at[i]->coop_k)
            order_with_needs(d, body->ops.at[i]);
    }
    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (body->ops.at[i]->op != TIR_YIELD)
            order_with_needs(d, body->ops.at[i]);
    }
}

/* ---- waits and releases ---- */

/* Whether an operation looks at `value`; as the accumulator of a product it does not count. */
static bool
looks_at(const TirOp *op, const TirVal *value)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (op->args[k] == value && !(op->op == TIR_MMA && k == 2))
            return true;
    }
    return false;
}

/* Whether `op` reads the vector that was loaded, itself or a part of it. */
static bool
reads_vector(const TirOp *op, const TirOp *load)
{
    for (uint32_t k = 0; load->results[0]->type.rank == 1 && k < op->n_args; k++) {
        const TirOp *def = op->args[k]->def;
        if (def == load || (def != NULL && def->op == TIR_PART && def->args[0]->def == load))
            return true;
    }
    return false;
}

/* Gives back the pipelines whose last product has ended; what comes stands from place `from` on. */
static void
release_ended(Divided *d, uint32_t from)
{
    const OpList *pipelines = &d->r->stage0_pipelines;

    for (uint32_t k = 0; k < pipelines->n; k++) {
        const TirOp *load = pipelines->at[k];
        bool busy = d->released[k];
        for (uint32_t i = from; i < d->order.n && !busy; i++)
            busy = d->order.at[i] == load || roles_reads_pipeline(d->order.at[i], load) ||
                   reads_vector(d->order.at[i], load);
        for (uint32_t i = 0; i < d->in_flight.n && !busy; i++)
            busy = roles_reads_pipeline(d->in_flight.at[i]->def, load);
        if (busy)
            continue;
        d->released[k] = true;
        roles_plain(&d->r->b, TIR_CONSUMER_RELEASE, load->shared, 0);
    }
}

static void
wait_until(Divided *d, uint32_t left, uint32_t from)
{
    if (d->in_flight.n <= left)
        return;
    roles_plain(&d->r->b, TIR_MMA_WAIT, NULL, left);
    for (uint32_t k = 0; k < left; k++)
        d->in_flight.at[k] = d->in_flight.at[d->in_flight.n - left + k];
    d->in_flight.n = left;
    release_ended(d, from);
}

/* Vectors that the producer does not copy: each consumer loads its part. */
void
roles_narrow_vectors(Roles *r)
{
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *part = r->body->ops.at[i];
        TirOp *load = part->op == TIR_PART ? part->args[0]->def : NULL;
        if (load == NULL || load->op != TIR_LOAD || load->shared != NULL)
            continue;
        TirBuilder b = {.fn = r->fn, .block = r->body, .at = (int32_t)i, .span = load->span};
        int32_t length = part->results[0]->type.dim[0];
        TirType i32 = tir_scalar(DT_I32);
        TirVal *consumer = tir_op_new(&b, TIR_CONSUMER, 0, NULL, 1, &i32)->results[0];
        TirVal *shift = tir_binary(&b, TIR_MUL, consumer, tir_const_int(&b, length));
        TirVal *args[TENSOR_MAX_RANK];
        TirIndex index[TENSOR_MAX_RANK];
        uint32_t next = 0;
        for (uint32_t d = 0; d < load->tensor->rank; d++) {
            index[d] = load->index[d];
            if (index[d].kind == INDEX_FULL)
                continue;
            args[next] = load->args[next];
            if (index[d].kind == INDEX_RANGE) {
                args[next] = tir_binary(&b, TIR_ADD, args[next], shift);
                index[d].length = length;
            }
            next++;
        }
        tir_replace_uses(r->fn, part->results[0], tir_load(&b, load->tensor, index, args));
        i = (uint32_t)b.at; /* the part, which nobody uses now */
    }
}

/* ---- an iteration ---- */

static void
copy_next_vectors(Divided *d)
{
    Roles *r = d->r;

    if (!d->copied)
        roles_copy_vectors(r, tir_binary(&r->b, TIR_ADD, clone_of(d->map, r->body->params.at[0]),
                                         tir_const_int(&r->b, 1)));
    d->copied = true;
}

static void
emit_iteration(Divided *d)
{
    Roles *r = d->r;

    for (uint32_t i = 0; i < d->order.n; i++) {
        TirOp *op = d->order.at[i];
        for (uint32_t k = d->in_flight.n; k-- > 0;) {
            if (!looks_at(op, d->in_flight.at[k]))
                continue;
            copy_next_vectors(d); /* under the products that begin the iteration */
            wait_until(d, d->in_flight.n - 1 - k, i);
            break;
        }
        if (op->op == TIR_MMA)
            wait_until(d, MOST_IN_FLIGHT - 1, i);
        if (op->op == TIR_FROM) {
            write_part(d, op);
            continue;
        }
        if (op->op == TIR_OWN) {
            read_own(d, op);
            continue;
        }
        if (op->op == TIR_MMA && op->coop_k) {
            if (d->written)
                meet(d);
            read_part(d, op->args[0]->def);
        }
        if (roles_vector(r, op) != NULL)
            roles_read_vector(r, d->map, roles_vector(r, op), clone_of(d->map, r->body->params.at[0]));
        else
            roles_copy(r, d->map, op, false);
        if (op->op == TIR_MMA)
            vec_push(r->fn->arena, &d->in_flight, op->results[0]);
    }
    copy_next_vectors(d);
    for (uint32_t left = d->in_flight.n; left-- > 0;) /* a part's place is given back before the next one's */
        wait_until(d, left, d->order.n);
    if (r->vectors.n > 0 && !d->there) {
        roles_vectors_there(r);
        tir_op_new(&r->b, TIR_BARRIER, 0, NULL, 0, NULL);
    }
}

void
roles_cooperative(Roles *r, CloneMap *map, Range range)
{
    uint32_t n = r->loop->n_results;
    TirVal **values = roles_initial(r, map, 0);
    TirBlock *around = r->b.block;
    Divided d = {.r = r,
                 .map = map,
                 .done = arena_array(r->fn->arena, bool, r->body->ops.n + 1),
                 .released = arena_array(r->fn->arena, bool, r->stage0_pipelines.n + 1)};

    roles_find_vectors(r);
    if (r->vectors.n > 0) {
        roles_copy_vectors(r, range.lo);
        roles_vectors_there(r);
        tir_op_new(&r->b, TIR_BARRIER, 0, NULL, 0, NULL);
    }
    TirOp *loop = roles_enter_loop(r, range, n, values, map, NULL);
    order_iteration(&d);
    emit_iteration(&d);
    roles_yielded(r, map, values);
    tir_yield(&r->b, n, values);
    r->b.block = around;
    roles_vectors_there(r); /* those that are not needed, too: the next ones go to the same place */
    roles_set_results(r, map, loop);
}
