/* roles_straight.c - the main loop as it is, its operations in an order that lets products run.
 *
 * A product over all bands is shared out here: each band writes its part of the operand for the
 * others, and adds a share of the result to memory.
 */
#include "compiler/passes/roles.h"

#include "compiler/passes/tir_util.h"

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

static void
wait_until(Roles *r, InFlight *flying, uint32_t left)
{
    if (flying->results.n <= left)
        return;
    roles_plain(&r->b, TIR_MMA_WAIT, NULL, left);
    for (uint32_t k = 0; k < left; k++)
        flying->results.at[k] = flying->results.at[flying->results.n - left + k];
    flying->results.n = left;
}

/* A buffer that is no ring. */
static TirShared *
new_buffer(Roles *r, const char *name, DType dtype, int32_t rows, int32_t cols, uint32_t slots)
{
    TirShared *buffer = arena_new(r->fn->arena, TirShared);

    buffer->id = r->fn->shared.n;
    buffer->name = name;
    buffer->dtype = dtype;
    buffer->rows = rows;
    buffer->cols = cols;
    buffer->slots = slots;
    vec_push(r->fn->arena, &r->fn->shared, buffer);
    return buffer;
}

/* A product that the bands share out: each writes its part of the left operand for all to read.
 * Two slots, so that one barrier an iteration is enough: who has passed it has read the other
 * slot before. */
static void
emit_joint(Roles *r, CloneMap *map, const TirOp *op)
{
    TirBuilder *b = &r->b;
    int32_t bands = (int32_t)r->fn->plan->bands;
    TirType part = op->args[0]->type, right = op->args[1]->type;
    TirType all = tir_tile2(part.dtype, part.dim[0], part.dim[1] * bands);
    TirType share = tir_tile2(right.dtype, right.dim[0] * bands, right.dim[1] / bands);

    b->span = op->span;
    if (r->exchange == NULL) {
        r->exchange = new_buffer(r, "exchange", part.dtype, part.dim[0], part.dim[1], 2);
        r->exchange->is_joint = true;
    }
    TirVal *slot = tir_const_int(b, 0); /* the next one at each write */
    TirVal *written[] = {slot, clone_of(map, op->args[0])};
    tir_op_new(b, TIR_SHARED_WRITE, 2, written, 0, NULL)->shared = r->exchange;
    tir_op_new(b, TIR_BAND_BARRIER, 0, NULL, 0, NULL);
    TirOp *x = tir_op_new(b, TIR_SHARED_READ, 1, &slot, 1, &all);
    x->shared = r->exchange;
    x->joint = true;
    TirVal *zero = tir_const_int(b, 0);
    TirOp *y = tir_op_new(b, TIR_SHARED_READ, 1, &zero, 1, &share);
    y->shared = op->args[1]->def->shared;
    y->joint = y->sliced = true;
    TirVal *none = tir_splat_const(b, tir_tile2(DT_F32, part.dim[0], share.dim[1]), 0);
    TirVal *args[] = {x->results[0], y->results[0], none};
    TirOp *mma = tir_op_new(b, TIR_MMA, 3, args, 1, &none->type);
    mma->async = mma->joint = true;
    mma->swapped = op->swapped;
    clone_set(map, op->results[0], mma->results[0]);
}

/* The addition of this band's share of a joint product. */
static void
emit_addition(Roles *r, CloneMap *map, const TirOp *op)
{
    TirBuilder *b = &r->b;
    TirVal *value = clone_of(map, op->args[op->n_args - 1]);
    TirType i32 = tir_scalar(DT_I32);
    uint32_t last = op->tensor->rank - 1, n = 0;
    TirVal *args[TENSOR_MAX_RANK + 1];

    b->span = op->span;
    for (uint32_t k = 0; k + 1 < op->n_args; k++)
        args[n++] = clone_of(map, op->args[k]);
    TirVal *start = tir_op_new(b, TIR_BAND, 0, NULL, 1, &i32)->results[0];
    start = tir_binary(b, TIR_MUL, start, tir_const_int(b, value->type.dim[1]));
    if (op->index[last].kind == INDEX_RANGE)
        start = tir_binary(b, TIR_ADD, start, args[--n]);
    args[n++] = start;
    args[n++] = value;
    TirOp *add = tir_op_new(b, TIR_TENSOR_ADD, n, args, 0, NULL);
    for (uint32_t d = 0; d < TENSOR_MAX_RANK; d++)
        add->index[d] = op->index[d];
    add->index[last] = (TirIndex){INDEX_RANGE, value->type.dim[1]};
    add->tensor = op->tensor;
    add->shared =
        new_buffer(r, op->tensor->name, DT_F32, value->type.dim[0], value->type.dim[1], 1);
    add->shared->is_staging = true;
}

/* The source of an operand, through casts of the layout and type that cost nothing to follow. */
static const TirVal *
source_of(const TirVal *value)
{
    while (value->def != NULL && value->def->op == TIR_TRANSPOSE)
        value = value->def->args[0];
    return value;
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
    for (uint32_t k = 0; k < op->n_args; k++) {
        TirOp *def = op->args[k]->def;
        if (def != NULL && def->parent == r->body)
            order_with_needs(r, out, done, def);
    }
    vec_push(r->fn->arena, out, op);
}

/* The order of a straight iteration: vectors are loaded while everything else waits; then products
 * of loaded tiles; then as it is written, but a product that the bands share out goes before others
 * of the same operand, and what is added to memory behind all products. */
static void
order_iteration(Roles *r, OpList *out)
{
    Arena *arena = r->fn->arena;
    bool *done = arena_array(arena, bool, r->body->ops.n + 1);
    uint32_t n = r->body->ops.n;

    for (uint32_t i = 0; i < n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared == NULL && op->results[0]->type.rank < 2)
            order_with_needs(r, out, done, op);
    }
    /* What sums begin with is put there while no product runs. */
    for (uint32_t i = 0; i < n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_MMA && r->level[op->results[0]->id] == 1 && op->args[2]->def != NULL &&
            op->args[2]->def->parent == r->body)
            order_with_needs(r, out, done, op->args[2]->def);
    }
    for (uint32_t i = 0; i < n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_MMA && r->level[op->results[0]->id] == 1)
            order_with_needs(r, out, done, op);
    }
    for (uint32_t i = 0; i < n; i++) {
        TirOp *op = r->body->ops.at[i];
        for (uint32_t k = i + 1; k < n && op->op == TIR_MMA && !done[i]; k++) {
            TirOp *joint = r->body->ops.at[k];
            if (joint->op == TIR_MMA && joint->joint && !done[k] &&
                source_of(joint->args[0]) == source_of(op->args[0]))
                order_with_needs(r, out, done, joint);
        }
        if (done[i] || op->op == TIR_YIELD || op->op == TIR_ATOMIC_ADD)
            continue;
        done[i] = true;
        vec_push(arena, out, op);
    }
    for (uint32_t i = 0; i < n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_ATOMIC_ADD)
            vec_push(arena, out, op);
    }
}

static bool
adds_joint(const TirOp *op)
{
    const TirOp *def = op->op == TIR_ATOMIC_ADD ? op->args[op->n_args - 1]->def : NULL;

    return def != NULL && def->op == TIR_MMA && def->joint;
}

static void
emit_straight_iteration(Roles *r, CloneMap *map)
{
    InFlight flying = {0};
    OpList order = {0};

    order_iteration(r, &order);
    for (uint32_t i = 0; i < order.n; i++) {
        const TirOp *op = order.at[i];
        for (uint32_t k = flying.results.n; k-- > 0;) {
            if (looks_at(op, flying.results.at[k])) {
                wait_until(r, &flying, flying.results.n - 1 - k);
                break;
            }
        }
        if (op->op == TIR_MMA && op->joint)
            emit_joint(r, map, op);
        else if (adds_joint(op))
            emit_addition(r, map, op);
        else
            roles_copy(r, map, op, false);
        if (op->op == TIR_MMA)
            vec_push(r->fn->arena, &flying.results, op->results[0]);
    }
    wait_until(r, &flying, 0);
    roles_release(&r->b, &r->early_rings, NULL);
    roles_release(&r->b, &r->late_rings, NULL);
}

void
roles_straight(Roles *r, CloneMap *map, Range range)
{
    uint32_t first = loop_first_initial(r->loop), n = r->loop->n_results;
    TirVal **initial = arena_array(r->fn->arena, TirVal *, n + 1);
    TirBlock *around = r->b.block;

    for (uint32_t k = 0; k < n; k++)
        initial[k] = clone_of(map, r->loop->args[first + k]);
    TirOp *loop = roles_begin_loop(r, range, n, initial, map, NULL);
    r->b.block = loop->blocks[0];
    for (uint32_t k = 0; k < r->body->params.n; k++)
        clone_set(map, r->body->params.at[k], loop->blocks[0]->params.at[k]);
    clone_set(map, r->body->params.at[0],
              roles_iteration(r, &r->b, range.base, loop->blocks[0]->params.at[0]));
    emit_straight_iteration(r, map);
    const TirOp *yield = block_yield(r->body);
    TirVal **next = arena_array(r->fn->arena, TirVal *, n + 1);
    for (uint32_t k = 0; k < n; k++)
        next[k] = clone_of(map, yield->args[k]);
    tir_yield(&r->b, n, next);
    r->b.block = around;
    for (uint32_t k = 0; k < n; k++)
        clone_set(map, r->loop->results[k], loop->results[k]);
}
