/* defer_reductions.c - row sums accumulated by a loop are combined across lanes once, after the
 * loop.
 *
 *   level    tile IR with layouts
 *   does     a sum along an axis that is spread over the lanes of a warp takes a shuffle for each
 *            lane bit, and over warps an exchange through shared memory.  If sums are only used in
 *            further sums, and in products with values that are the same in all these lanes and
 *            warps, each thread can go on with its own part: the reduction becomes `partial`, and a
 *            `combine` after the loop adds up the parts
 *   leaves   partial reductions, combine operations
 *
 * The set of values that may be partial is the greatest fixpoint: it begins with all candidates,
 * and those that some use contradicts are removed until nothing changes.
 */
#include "compiler/ir/layout.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Deferrer {
    PassContext *px;
    TirFn *fn;
    bool *partial; /* by value */
    bool across;   /* warps have parts, too: none has a copy of what is reduced */
    bool changed;
    VEC(TirShared *) free; /* buffers of reductions that have become partial */
} Deferrer;

static bool
is_candidate(const TirVal *value)
{
    return value->type.rank == 1 && value->type.dtype == DT_F32 && value->layout != NULL;
}

static bool
has_copies_in_warps(const TirFn *fn, const Layout *layout)
{
    return layout_copies_warps(layout) || layout_warps(layout) != (int32_t)fn->warps;
}

/* Whether each lane's part of a reduction is a sum of its own, which no other lane has as well;
 * where warps have parts, no other thread. */
static bool
can_be_partial(const Deferrer *d, const TirOp *op)
{
    const Layout *layout = tir_reduces(op, REDUCE_SUM) ? op->args[0]->layout : NULL;

    return layout != NULL && layout->rank == 2 && layout_copy_lanes(layout) == 0 &&
           (d->across ? !has_copies_in_warps(d->fn, layout)
                      : !layout_crosses_warps(layout, op_part(op)));
}

/* Whether a sum can be partial in lanes alone, since warps have copies of what is summed up: then
 * all are. */
static bool
has_copied_sum(const Deferrer *d, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (tir_reduces(op, REDUCE_SUM) && is_candidate(op->results[0]) && can_be_partial(d, op) &&
            has_copies_in_warps(d->fn, op->args[0]->layout))
            return true;
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (has_copied_sum(d, op->blocks[k]))
                return true;
        }
    }
    return false;
}

static bool
part_of(const Deferrer *d, const TirVal *value, const TirVal *like)
{
    if (tir_is_zero(value))
        return true;
    return d->partial[value->id] && layout_eq(value->layout, like->layout);
}

/* Whether result `k` of an operation may be partial, its operands being what they are now. */
static bool
fits(const Deferrer *d, const TirOp *op, uint32_t k)
{
    const TirVal *result = op->results[k];

    switch (op->op) {
    case TIR_ADD: return part_of(d, op->args[0], result) && part_of(d, op->args[1], result);
    case TIR_MUL:
        return (part_of(d, op->args[0], result) && !d->partial[op->args[1]->id]) ||
               (part_of(d, op->args[1], result) && !d->partial[op->args[0]->id]);
    case TIR_FMA:
        return part_of(d, op->args[2], result) &&
               ((part_of(d, op->args[0], result) && !d->partial[op->args[1]->id]) ||
                (part_of(d, op->args[1], result) && !d->partial[op->args[0]->id]));
    case TIR_SELECT: return part_of(d, op->args[1], result) && part_of(d, op->args[2], result);
    case TIR_IF:
        return part_of(d, block_yield(op->blocks[0])->args[k], result) &&
               part_of(d, block_yield(op->blocks[1])->args[k], result);
    case TIR_FOR: return part_of(d, op->blocks[0]->params.at[k + 1], result);
    default: return can_be_partial(d, op);
    }
}

static void
leave(Deferrer *d, const TirVal *value)
{
    d->changed |= d->partial[value->id];
    d->partial[value->id] = false;
}

static void
begin_block(Deferrer *d, const TirBlock *block)
{
    for (uint32_t k = 0; k < block->params.n; k++)
        d->partial[block->params.at[k]->id] = is_candidate(block->params.at[k]);
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_results; k++)
            d->partial[op->results[k]->id] = is_candidate(op->results[k]);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            begin_block(d, op->blocks[k]);
    }
}

/* Whether operand `k` of `op` may be partial: it goes on as part of a partial result. */
static bool
goes_on(const Deferrer *d, const TirBlock *block, const TirOp *op, uint32_t k)
{
    const TirOp *owner = block->owner;

    switch (op->op) {
    case TIR_ADD:
    case TIR_MUL:
    case TIR_FMA:
    case TIR_SELECT: return d->partial[op->results[0]->id] && (op->op != TIR_SELECT || k > 0);
    case TIR_YIELD: return owner != NULL && d->partial[owner->results[k]->id];
    case TIR_FOR:
        return k >= loop_first_initial(op) &&
               d->partial[op->results[k - loop_first_initial(op)]->id];
    default: return false;
    }
}

/* One round over a block: who has to leave. */
static void
settle_block(Deferrer *d, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            settle_block(d, op->blocks[k]);
        for (uint32_t k = 0; k < op->n_results; k++) {
            if (d->partial[op->results[k]->id] && !fits(d, op, k))
                leave(d, op->results[k]);
        }
        for (uint32_t k = 0; op->op == TIR_FOR && k < op->n_results; k++) {
            const TirVal *param = op->blocks[0]->params.at[k + 1];
            if (d->partial[param->id] && (!part_of(d, op->args[loop_first_initial(op) + k], param) ||
                                          !part_of(d, block_yield(op->blocks[0])->args[k], param) ||
                                          !d->partial[op->results[k]->id]))
                leave(d, param);
        }
        for (uint32_t k = 0; k < op->n_args; k++) {
            const TirVal *value = op->args[k];
            if (!d->partial[value->id] || goes_on(d, block, op, k))
                continue;
            /* Needed whole: behind a loop or branch outside of all loops it can be combined. */
            const TirOp *def = value->def;
            bool outside = def != NULL && (def->op == TIR_FOR || def->op == TIR_IF);
            for (const TirBlock *at = value->block; at != NULL && outside;
                 at = at->owner == NULL ? NULL : at->owner->parent)
                outside = at->owner == NULL || at->owner->op != TIR_FOR;
            if (!outside)
                leave(d, value);
        }
    }
}

/* Whether there is anything to gain. */
static bool
has_loop_reduction(const Deferrer *d, const TirBlock *block, bool in_loop)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (tir_axis_use(op) == AXIS_REDUCES && in_loop && d->partial[op->results[0]->id])
            return true;
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (has_loop_reduction(d, op->blocks[k], in_loop || op->op == TIR_FOR))
                return true;
        }
    }
    return false;
}

static void
apply_block(Deferrer *d, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            apply_block(d, op->blocks[k]);
        if (tir_axis_use(op) == AXIS_REDUCES)
            op->partial = d->partial[op->results[0]->id];
        if (op->partial && op->shared != NULL) {
            vec_push(d->px->arena, &d->free, op->shared);
            op->shared = NULL;
        }
    }
}

static void
replace_whole(Deferrer *d, TirBlock *block, const TirVal *value, TirVal *whole)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (op->args[k] == value && op != whole->def && !goes_on(d, block, op, k))
                op->args[k] = whole;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++)
            replace_whole(d, op->blocks[k], value, whole);
    }
}

static bool
needs_whole(const Deferrer *d, const TirBlock *block, const TirVal *value)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (op->args[k] == value && !goes_on(d, block, op, k))
                return true;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (needs_whole(d, op->blocks[k], value))
                return true;
        }
    }
    return false;
}

/* The buffer that warps exchange their parts of a value through; NULL: none has a part. */
static TirShared *
buffer_for(Deferrer *d, const TirVal *value)
{
    TirType words = tir_tile2(DT_F32, (int32_t)d->fn->warps,
                              WARP_LANES * layout_registers(value->layout));

    if (!d->across || !layout_copies_warps(value->layout))
        return NULL;
    for (uint32_t k = 0; k < d->free.n; k++) {
        TirShared *shared = d->free.at[k];
        if (shared->cols != words.dim[1])
            continue;
        d->free.at[k] = d->free.at[--d->free.n];
        return shared;
    }
    return tir_buffer_new(d->fn, SHARED_TILE, "combine", words, 1);
}

static void
combine_block(Deferrer *d, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            combine_block(d, op->blocks[k]);
        for (uint32_t k = 0; k < op->n_results && op->op != TIR_COMBINE; k++) { /* made here: new */
            TirVal *value = op->results[k];
            if (!d->partial[value->id] || !needs_whole(d, d->fn->body, value))
                continue;
            TirBuilder b = {.fn = d->fn, .block = block, .at = (int32_t)i + 1, .span = op->span};
            while (b.at < (int32_t)block->ops.n && !op_uses_deep(block->ops.at[b.at], value))
                b.at++; /* products may start before it */
            if (b.at == (int32_t)block->ops.n)
                b.at = -1;
            TirOp *combine = tir_op_new(&b, TIR_COMBINE, 1, &value, 1, &value->type);
            combine->results[0]->layout = value->layout;
            combine->results[0]->name = value->name;
            combine->shared = buffer_for(d, value);
            replace_whole(d, d->fn->body, value, combine->results[0]);
        }
    }
}

bool
pass_defer_reductions(PassContext *px, TirFn *fn)
{
    Deferrer d = {.px = px, .fn = fn};

    d.partial = arena_array(px->arena, bool, fn->next_id + 1);
    /* not beside products, whose estimate would then take tiles that nobody has measured */
    d.across = fn->plan == NULL && count_mmas(fn->body) == 0 && !has_copied_sum(&d, fn->body);
    begin_block(&d, fn->body);
    if (!has_loop_reduction(&d, fn->body, false))
        return false;
    do {
        d.changed = false;
        settle_block(&d, fn->body);
    } while (d.changed);
    if (!has_loop_reduction(&d, fn->body, false))
        return false;
    apply_block(&d, fn->body);
    combine_block(&d, fn->body);
    return true;
}
