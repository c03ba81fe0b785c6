/* unread.c - drops what loops and branches hand on and nobody reads (see unread.h).
 *
 * A value is read if an operation with an effect reads it, or one that has a result that is read,
 * or if it decides which operations with effects are done.  A sum that is not read is read by its
 * own addition all the same, so counting uses does not find it.
 */
#include "compiler/passes/util/unread.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Reader {
    Arena *arena;
    bool *read; /* by value */
    VEC(const TirVal *) pending;
} Reader;

static void
read_value(Reader *r, const TirVal *value)
{
    if (!r->read[value->id]) {
        r->read[value->id] = true;
        vec_push(r->arena, &r->pending, value);
    }
}

/* The operands of an operation that has blocks, up to those that it hands on. */
static void
read_control(Reader *r, const TirOp *op)
{
    uint32_t n = op->op == TIR_FOR ? loop_first_initial(op) : op->n_args;

    for (uint32_t k = 0; k < n; k++)
        read_value(r, op->args[k]);
}

static void
read_operands(Reader *r, const TirOp *op)
{
    for (uint32_t k = 0; k < op->n_args; k++)
        read_value(r, op->args[k]);
}

/* What a value is made of. */
static void
follow(Reader *r, const TirVal *value)
{
    const TirOp *op = value->def != NULL ? value->def : value->block->owner;
    uint32_t at = value->index;

    if (op == NULL)
        return;
    if (op->n_blocks == 0) {
        read_operands(r, op);
        return;
    }
    read_control(r, op);
    if (value->def == NULL && at-- == 0) /* the index of a loop */
        return;
    for (uint32_t k = 0; k < op->n_blocks; k++)
        read_value(r, block_yield(op->blocks[k])->args[at]);
    if (op->op == TIR_FOR)
        read_value(r, op->args[loop_first_initial(op) + at]);
}

static bool
is_handed_on(const Reader *r, const TirOp *op, uint32_t k)
{
    return r->read[op->results[k]->id] ||
           (op->op == TIR_FOR && r->read[op->blocks[0]->params.at[k + 1]->id]);
}

/* Leaves out result `k`. */
static void
drop_result(TirOp *op, uint32_t k)
{
    uint32_t initial = op->op == TIR_FOR ? loop_first_initial(op) : 0;

    for (uint32_t i = 0; i < op->n_blocks; i++) {
        TirOp *yield = block_yield(op->blocks[i]);
        for (uint32_t j = k; j + 1 < yield->n_args; j++)
            yield->args[j] = yield->args[j + 1];
        yield->n_args--;
    }
    for (uint32_t j = k; j + 1 < op->n_results; j++) {
        op->results[j] = op->results[j + 1];
        op->results[j]->index = j;
        if (op->op != TIR_FOR)
            continue;
        op->args[initial + j] = op->args[initial + j + 1];
        op->blocks[0]->params.at[j + 1] = op->blocks[0]->params.at[j + 2];
        op->blocks[0]->params.at[j + 1]->index = j + 1;
    }
    op->n_results--;
    if (op->op == TIR_FOR) {
        op->n_args--;
        op->blocks[0]->params.n--;
    }
}

static bool
has_effect(const TirOp *op)
{
    return op->async || ((tir_op_info(op->op)->flags & TF_EFFECT) != 0 && op->op != TIR_YIELD);
}

/* Finds what is read. */
static Reader
read_all(Arena *arena, const TirFn *fn, const TirBlock *body)
{
    Reader r = {.arena = arena, .read = arena_array(arena, bool, fn->next_id + 1)};

    for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (!has_effect(op))
            continue;
        read_operands(&r, op);
        for (; op->parent->owner != NULL; op = op->parent->owner)
            read_control(&r, op->parent->owner);
    }
    while (r.pending.n > 0)
        follow(&r, r.pending.at[--r.pending.n]);
    return r;
}

bool
drop_unread(Arena *arena, TirFn *fn, TirBlock *body)
{
    Reader r = read_all(arena, fn, body);
    bool changed = false;

    for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);) {
        for (uint32_t k = walk.op->n_blocks > 0 ? walk.op->n_results : 0; k-- > 0;) {
            if (is_handed_on(&r, walk.op, k))
                continue;
            drop_result(walk.op, k);
            changed = true;
        }
    }
    return changed;
}

static bool
is_needed(const Reader *r, const TirOp *op)
{
    bool needed = op->op == TIR_YIELD;

    for (uint32_t k = 0; k < op->n_results; k++)
        needed = needed || r->read[op->results[k]->id];
    for (TirWalk walk = tir_walk_op(op); !needed && tir_walk_next(&walk);)
        needed = has_effect(walk.op);
    return needed;
}

static void
drop_operations(const Reader *r, TirBlock *block)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        if (!is_needed(r, op))
            continue;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            drop_operations(r, op->blocks[k]);
        block->ops.at[kept++] = op;
    }
    block->ops.n = kept;
}

void
drop_unread_operations(Arena *arena, TirFn *fn, TirBlock *body)
{
    Reader r = read_all(arena, fn, body);

    drop_operations(&r, body);
}

const TirOp *
find_unread(Arena *arena, const TirFn *fn, const TirBlock *body, TirOpcode of)
{
    Reader r = read_all(arena, fn, body);
    const TirOp *unread = NULL;

    for (TirWalk walk = tir_walk(body); unread == NULL && tir_walk_next(&walk);)
        unread = walk.op->op == of && !r.read[walk.op->results[0]->id] ? walk.op : NULL;
    return unread;
}
