/* roles_exchange.c - operations on what the consumers give each other through shared memory.
 *
 * Consumers that work on one product together each write their part of an operand, meet, and read
 * the parts of all.  There are two kinds:
 *
 *     shared out   the product is over the rows of all consumers; each computes a share of the
 *                  result, from all parts side by side, and adds it to memory.  The buffer has two
 *                  stages, so that one barrier an iteration is enough: who has passed it has read
 *                  the other stage before.  Where right operands go through shared memory as well,
 *                  it has one, and the consumers meet before they write, too.
 *     cooperative  the consumers divide the tiles of the main loop (plan_cooperative.c); products
 *                  read one part after the other.  A buffer of parts has one stage: what is read of
 *                  it is read before the consumers meet for the next time, behind which they write
 *                  again.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* The buffer in which the consumers' parts of a tile lie. */
static TirShared *
buffer_of(const Roles *r, const TirVal *part)
{
    for (uint32_t k = 0; k < r->parts.n; k++) {
        if (r->parts.at[k].part == part)
            return r->parts.at[k].buffer;
    }
    return NULL;
}

/* ---- products that are shared out ---- */

/* This consumer's part of the left operand of `op`, for all. */
static void
write_operand(Roles *r, const CloneMap *map, const TirOp *op)
{
    TirBuilder *b = &r->b;
    TirType part = op->args[0]->type;

    b->span = op->span;
    if (r->exchange == NULL) {
        r->exchange = tir_buffer_new(r->fn, SHARED_PARTS, "exchange", part,
                                     plan_has_computed_right(r->body) ? 1 : 2);
    }
    if (buffer_of(r, tir_untransposed(op->args[0])) == NULL)
        vec_push(r->fn->arena, &r->parts,
                 ((WrittenPart){tir_untransposed(op->args[0]), r->exchange}));
    /* the next stage at each write */
    roles_write(b, r->exchange, clone_of(map, op->args[0]));
}

TirVal *
roles_computed_right(const Roles *r, const TirOp *op)
{
    if (tir_is_cooperative(r->fn->plan) || r->mmas != BY_CONSUMERS)
        return NULL;
    return plan_computed_right(r->body, op);
}

/* Writes this consumer's part of a tile to its buffer, made here unless another segment or
 * iteration has. */
static void
write_to_buffer(Roles *r, const CloneMap *map, TirVal *part, const char *name)
{
    if (buffer_of(r, part) == NULL) {
        name = part->name != NULL ? part->name : name;
        WrittenPart written = {part, tir_buffer_new(r->fn, SHARED_PARTS, name, part->type, 1)};
        vec_push(r->fn->arena, &r->parts, written);
    }
    roles_write(&r->b, buffer_of(r, part), clone_of(map, part));
}

/* A right operand that only this consumer's product reads. */
static void
write_right(Roles *r, const CloneMap *map, const TirOp *op)
{
    r->b.span = op->span;
    write_to_buffer(r, map, roles_computed_right(r, op), "right");
}

/* The product `op` of other operands, the last one of its result's type. */
static TirOp *
multiply(Roles *r, CloneMap *map, const TirOp *op, TirVal *const *args)
{
    TirOp *mma = tir_op_new(&r->b, TIR_MMA, 3, args, 1, &args[2]->type);

    mma->async = true;
    mma->swap_ab = op->swap_ab;
    mma->fast = op->fast;
    clone_set(map, op->results[0], mma->results[0]);
    return mma;
}

/* The product that reads it. */
static void
emit_of_right(Roles *r, CloneMap *map, const TirOp *op)
{
    TirBuilder *b = &r->b;
    TirVal *value = roles_computed_right(r, op), *args[3];
    uint32_t right = op->swap_ab ? 0 : 1;
    bool transposed = false;

    b->span = op->span;
    for (const TirVal *v = op->args[right]; v != value; v = v->def->args[0])
        transposed = !transposed;
    TirOp *read = roles_read(b, buffer_of(r, value), value->type, NULL);
    read->own = true;
    args[right] = transposed ? tir_transpose(b, read->results[0]) : read->results[0];
    args[1 - right] = clone_of(map, op->args[1 - right]);
    args[2] = clone_of(map, op->args[2]);
    multiply(r, map, op, args)->results[0]->name = op->results[0]->name;
}

/* The product, of all parts. */
static void
emit_shared_out(Roles *r, CloneMap *map, const TirOp *op)
{
    TirBuilder *b = &r->b;
    int32_t consumers = (int32_t)tir_consumers(r->fn->plan);
    TirType part = op->args[0]->type, right = op->args[1]->type;
    CoopKShare share = coop_k_share(op->results[0]->type, tir_consumers(r->fn->plan));
    TirType left = tir_tile2(part.dtype, share.rows, part.dim[1] * consumers);
    TirType other = tir_tile2(right.dtype, right.dim[0] * consumers, share.cols);

    b->span = op->span;
    TirOp *x = roles_read(b, r->exchange, left, NULL);
    x->coop_k = true;
    x->sliced = share.by_rows;
    TirOp *y = roles_read(b, op->args[1]->def->shared, other, NULL);
    y->coop_k = true;
    y->sliced = !share.by_rows;
    TirVal *none = tir_splat_const(b, tir_tile2(DT_F32, share.rows, share.cols), 0);
    TirVal *args[] = {x->results[0], y->results[0], none};
    multiply(r, map, op, args)->coop_k = true;
}

/* The dimension of the tensor that the consumers' shares of a cooperative-K product lie along: that
 * of the tile's rows or of its columns. */
static uint32_t
divided_dimension(const TirOp *add, bool by_rows)
{
    TirDims d = tir_dims(add);

    while (tir_dims_next(&d) && d.axis != (by_rows ? 0 : 1))
        continue;
    return d.dim;
}

TirShared *
roles_staging(Roles *r, TirOp *add)
{
    CoopKShare share = coop_k_share(add->args[add->n_args - 1]->type, tir_consumers(r->fn->plan));

    if (add->shared == NULL) {
        TirType type = tir_tile2(DT_F32, share.rows, share.cols);
        add->shared = tir_buffer_new(r->fn, SHARED_STAGING, add->tensor->name, type, 1);
    }
    return add->shared;
}

/* A scalar that is known to be the same for a warp, where it can be. */
static TirVal *
uniform_clone(TirBuilder *b, CloneMap *uniform, const CloneMap *map, TirVal *value)
{
    TirVal *clone = clone_scalar_tree(b, uniform, value);

    return clone != NULL ? clone : clone_of(map, value);
}

/* The addition of this consumer's share of a cooperative-K product, with its value last until
 * roles_reduce.c takes it to the reduce role. */
static void
emit_addition(Roles *r, CloneMap *map, TirOp *op)
{
    TirBuilder *b = &r->b;
    TirVal *whole = op->args[op->n_args - 1];
    TirVal *value = clone_of(map, whole);
    CoopKShare share = coop_k_share(whole->type, tir_consumers(r->fn->plan));
    uint32_t divided = divided_dimension(op, share.by_rows), n = 0;
    int32_t length = share.by_rows ? share.rows : share.cols;
    TirType i32 = tir_scalar(DT_I32);
    TirVal *args[TENSOR_MAX_RANK + 2];

    b->span = op->span;
    /* one thread asks for all: its place must be known to be the same for a warp */
    CloneMap uniform = roles_uniform_map(r, clone_of(map, r->body->params.at[0]));
    TirVal *own = tir_op_new(b, TIR_CONSUMER, 0, NULL, 1, &i32)->results[0];
    own = tir_binary(b, TIR_MUL, own, tir_const_int(b, length));
    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        TirVal *at = d.at == NULL ? NULL : uniform_clone(b, &uniform, map, d.at);
        if (d.dim == divided)
            at = at == NULL ? own : tir_binary(b, TIR_ADD, own, at);
        if (at != NULL)
            args[n++] = at;
    }
    if (op->n_limits > 0) {
        args[n] = uniform_clone(b, &uniform, map, tir_limit_count(op, 0));
        if (divided == box_ended_dimension(op))
            args[n] = tir_binary(b, TIR_SUB, args[n], own);
        n++;
    }
    args[n++] = value;
    TirOp *add = tir_op_new(b, TIR_TMA_REDUCE_ADD, n, args, 0, NULL);
    tir_copy_place(add, op);
    add->index[divided] = tir_range(length);
    add->shared = roles_staging(r, op);
}

bool
roles_adds_share(const Roles *r, const TirOp *op)
{
    const TirOp *def = op->op == TIR_ATOMIC_ADD ? op->args[op->n_args - 1]->def : NULL;

    return def != NULL && def->op == TIR_MMA && def->coop_k && !tir_is_cooperative(r->fn->plan);
}

/* ---- products of consumers that divide tiles ---- */

TirVal *
roles_part(const TirOp *from)
{
    bool transposed;

    return graph_base(from->args[0], &transposed);
}

/* This consumer's part, for all. */
static void
write_part(Roles *r, const CloneMap *map, const TirOp *from)
{
    r->b.span = from->span;
    write_to_buffer(r, map, roles_part(from), "parts");
}

/* One consumer's part, as an operand. */
static void
read_part(Roles *r, CloneMap *map, const TirOp *from)
{
    TirBuilder *b = &r->b;
    bool transposed;
    TirVal *part = graph_base(from->args[0], &transposed);

    b->span = from->span;
    TirOp *read = roles_read(b, buffer_of(r, part), part->type, part->name);
    read->coop_k = true;
    read->integer = 1 + from->integer;
    clone_set(map, from->results[0],
              transposed ? tir_transpose(b, read->results[0]) : read->results[0]);
}

/* This consumer's part of a tile that the producer copies; its stage is taken where all consumers
 * read it. */
static void
read_own(Roles *r, CloneMap *map, const TirOp *own)
{
    TirBuilder *b = &r->b;
    TirShared *pipeline = own->args[0]->def->shared;

    b->span = own->args[0]->def->span;
    roles_plain(b, TIR_CONSUMER_WAIT, pipeline, 0);
    b->block->ops.at[b->block->ops.n - 1]->own = true;
    TirOp *read = roles_read(b, pipeline, own->results[0]->type, own->results[0]->name);
    read->own = true;
    clone_set(map, own->results[0], read->results[0]);
}

/* ---- both ---- */

void
roles_write_part(Roles *r, const CloneMap *map, const TirOp *op)
{
    if (op->op == TIR_FROM)
        write_part(r, map, op);
    else if (op->coop_k)
        write_operand(r, map, op);
    else
        write_right(r, map, op);
}

bool
roles_exchange_op(Roles *r, CloneMap *map, TirOp *op)
{
    bool product = op->op == TIR_MMA && op->coop_k;

    if (product && tir_is_cooperative(r->fn->plan)) {
        read_part(r, map, op->args[0]->def);
        return false; /* a product like others, now */
    }
    if (product)
        emit_shared_out(r, map, op);
    else if (roles_computed_right(r, op) != NULL)
        emit_of_right(r, map, op);
    else if (roles_adds_share(r, op))
        emit_addition(r, map, op);
    else if (op->op == TIR_OWN)
        read_own(r, map, op);
    else
        return false;
    return true;
}
