/* simplify.c - fold constants, share equal operations, drop what nobody uses.
 *
 *   level    tile IR, any time
 *   does     computes scalar arithmetic on constants, x * 1 and x + 0; merges pure operations of
 *            the same or enclosing blocks that are equal, layouts too; removes unused pure
 *            operations and loads, and what loops and branches hand on and nobody reads.  Branches
 *            on constants are left to the lowering
 */
#include <string.h>

#include "compiler/ir/layout.h"
#include "compiler/ir/tir_compute.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/unread.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Seen {
    TirOp *op;
    uint32_t bucket;
    uint32_t before; /* of the same bucket: index in `seen` plus 1; 0: none */
} Seen;

typedef struct Simplifier {
    PassContext *px;
    VEC(Seen) seen;     /* pure operations of the blocks around, in order */
    uint32_t *bucket;   /* the last one in `seen` with such a hash: its index plus 1; 0: none */
    uint32_t n_buckets; /* a power of two */
    TirVal **instead;   /* by the id of a value: what stands for it, NULL: itself */
    bool changed;
} Simplifier;

static bool
same_op(const TirOp *a, const TirOp *b)
{
    bool same = (a->op == b->op) & (a->n_args == b->n_args) & (a->integer == b->integer) &
                (a->axis == b->axis) & (a->reduce == b->reduce) & (a->combine == b->combine) &
                (a->segments == b->segments) & (a->partial == b->partial) &
                (a->swap_ab == b->swap_ab) & (a->coop_k == b->coop_k) & (a->fast == b->fast) &
                (a->rounded == b->rounded) & (a->shared == b->shared);

    if (!same || memcmp(&a->number, &b->number, sizeof a->number) != 0 ||
        ((a->op == TIR_IOTA || tir_has_part(a)) && !tir_same_index(&a->index[0], &b->index[0])) ||
        a->index[0].within != b->index[0].within ||
        !tir_type_eq(a->results[0]->type, b->results[0]->type) ||
        !layout_eq(a->results[0]->layout, b->results[0]->layout))
        return false;
    for (uint32_t k = 0; k < a->n_args; k++) {
        if (a->args[k] != b->args[k])
            return false;
    }
    return true;
}

static uint32_t
bucket_of(const Simplifier *s, const TirOp *op)
{
    uint64_t hash = (uint64_t)op->op + (uint64_t)op->integer * UINT64_C(31), bits;

    memcpy(&bits, &op->number, sizeof bits);
    hash = (hash + bits) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t k = 0; k < op->n_args; k++)
        hash = (hash + (hash >> 29) + op->args[k]->id + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32) & (s->n_buckets - 1);
}

/* The last operation of the blocks around that is the same, in its bucket; NULL: none. */
static TirVal *
find_same(const Simplifier *s, const TirOp *op, uint32_t bucket)
{
    for (uint32_t k = s->bucket[bucket]; k != 0; k = s->seen.at[k - 1].before) {
        if (same_op(s->seen.at[k - 1].op, op))
            return s->seen.at[k - 1].op->results[0];
    }
    return NULL;
}

static void
remember(Simplifier *s, TirOp *op, uint32_t bucket)
{
    Seen seen = {op, bucket, s->bucket[bucket]};

    vec_push(s->px->arena, &s->seen, seen);
    s->bucket[bucket] = s->seen.n;
}

/* At the end of a block: its operations are the last ones of their buckets. */
static void
forget(Simplifier *s, uint32_t mark)
{
    while (s->seen.n > mark) {
        const Seen *last = &s->seen.at[--s->seen.n];
        s->bucket[last->bucket] = last->before;
    }
}

static bool
const_int(const TirVal *value, int64_t *out)
{
    if (value->def == NULL || value->def->op != TIR_CONST || value->type.rank != 0 ||
        value->type.dtype != DT_I32)
        return false;
    *out = value->def->integer;
    return true;
}

/* A float that is one, or a tile of ones. */
static bool
is_one(const TirVal *value)
{
    const TirOp *def = value->def;

    while (def != NULL && def->op == TIR_BROADCAST)
        def = def->args[0]->def;
    return def != NULL && def->op == TIR_CONST && dtype_is_float(def->results[0]->type.dtype) &&
           def->number == 1;
}

/* What the operation is equal to without computing; NULL: nothing simpler is known. */
static TirVal *
simpler(Simplifier *s, TirOp *op)
{
    int64_t a, b, result;

    (void)s;
    if (op->n_args == 2 && op->n_results == 1 && op->results[0]->type.rank == 0 &&
        op->results[0]->type.dtype == DT_I32) {
        bool has_a = const_int(op->args[0], &a), has_b = const_int(op->args[1], &b);
        if (has_a && has_b && tir_compute(op->op, a, b, &result) && result >= INT32_MIN &&
            result <= INT32_MAX) {
            op->op = TIR_CONST;
            op->n_args = 0;
            op->integer = result;
            s->changed = true;
            return NULL;
        }
        if (has_b && ((op->op == TIR_MUL && b == 1) || (op->op == TIR_DIV && b == 1) ||
                      (op->op == TIR_ADD && b == 0) || (op->op == TIR_SUB && b == 0)))
            return op->args[0];
        if (has_a && ((op->op == TIR_MUL && a == 1) || (op->op == TIR_ADD && a == 0)))
            return op->args[1];
    }
    /* exact, whatever x is */
    if (op->op == TIR_MUL && dtype_is_float(op->results[0]->type.dtype)) {
        if (is_one(op->args[1]))
            return op->args[0];
        if (is_one(op->args[0]))
            return op->args[1];
    }
    if (op->op == TIR_CAST && op->args[0]->type.dtype == op->results[0]->type.dtype)
        return op->args[0];
    if (op->op == TIR_TRANSPOSE && op->args[0]->def != NULL && op->args[0]->def->op == TIR_TRANSPOSE)
        return op->args[0]->def->args[0];
    if (op->op == TIR_BROADCAST && tir_same_shape(op->args[0]->type, op->results[0]->type))
        return op->args[0];
    return NULL;
}

/* What an operation with one result is equal to; NULL: nothing yet, and it is remembered for later
 * ones. */
static TirVal *
shared(Simplifier *s, TirOp *op)
{
    TirVal *same = simpler(s, op);

    if (same != NULL && layout_eq(same->layout, op->results[0]->layout))
        return same;
    if ((tir_op_info(op->op)->flags & TF_PURE) == 0 || op->async)
        return NULL;
    uint32_t bucket = bucket_of(s, op);
    same = find_same(s, op, bucket);
    if (same == NULL)
        remember(s, op, bucket);
    return same;
}

static void
share_block(Simplifier *s, TirBlock *block)
{
    uint32_t mark = s->seen.n, kept = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) { /* values are defined before their uses */
            if (s->instead[op->args[k]->id] != NULL)
                op->args[k] = s->instead[op->args[k]->id];
        }
        TirVal *same = op->n_results == 1 ? shared(s, op) : NULL;
        if (same != NULL) {
            s->instead[op->results[0]->id] = same;
            s->changed = true;
            continue;
        }
        block->ops.at[kept++] = op;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            share_block(s, op->blocks[k]);
    }
    block->ops.n = kept;
    forget(s, mark);
}

static void
count_block(const TirBlock *block, uint32_t *uses)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        for (uint32_t k = 0; k < walk.op->n_args; k++)
            uses[walk.op->args[k]->id]++;
    }
}

static bool
has_effect(const TirOp *op)
{
    if ((tir_op_info(op->op)->flags & TF_EFFECT) != 0 && op->op != TIR_YIELD)
        return true;
    if (op->async) /* waits count it */
        return true;
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++) {
            if (has_effect(op->blocks[k]->ops.at[i]))
                return true;
        }
    }
    return false;
}

/* An operation goes, with the blocks that it owns: what they use, too, is used less. */
static void
forget_uses(const TirOp *op, uint32_t *uses)
{
    for (uint32_t k = 0; k < op->n_args; k++)
        uses[op->args[k]->id]--;
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++)
            forget_uses(op->blocks[k]->ops.at[i], uses);
    }
}

static void
drop_block(Simplifier *s, TirBlock *block, uint32_t *uses)
{
    uint32_t kept = block->ops.n;

    for (uint32_t i = block->ops.n; i-- > 0;) {
        TirOp *op = block->ops.at[i];
        uint32_t read = op->op == TIR_YIELD;
        for (uint32_t k = 0; k < op->n_results; k++)
            read |= uses[op->results[k]->id];
        if (read != 0 || has_effect(op)) {
            for (uint32_t k = 0; k < op->n_blocks; k++)
                drop_block(s, op->blocks[k], uses);
            block->ops.at[--kept] = op;
            continue;
        }
        s->changed = true;
        forget_uses(op, uses);
    }
    if (kept > 0) /* an empty block has no array */
        memmove(block->ops.at, block->ops.at + kept, (block->ops.n - kept) * sizeof *block->ops.at);
    block->ops.n -= kept;
}

bool
pass_simplify(PassContext *px, TirFn *fn)
{
    Simplifier s = {.px = px, .n_buckets = 64};

    while (s.n_buckets < fn->next_id)
        s.n_buckets *= 2;
    s.bucket = arena_array(px->arena, uint32_t, s.n_buckets);
    s.instead = arena_array(px->arena, TirVal *, fn->next_id + 1);
    share_block(&s, fn->body);
    if (fn->plan == NULL) /* the roles of a plan say what they hand on */
        s.changed |= drop_unread(px->arena, fn, fn->body);
    uint32_t *uses = arena_array(px->arena, uint32_t, fn->next_id + 1);
    count_block(fn->body, uses);
    drop_block(&s, fn->body, uses);
    return s.changed;
}
