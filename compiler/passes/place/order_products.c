/* order_products.c - let several exchanges through shared memory share one barrier.
 *
 *   level    tile IR with register layouts, before places in shared memory
 *   does     where an operand goes through a shared buffer, threads wait for one another between
 *            the write and the product that reads it.  Operations between two waits of the schedule
 *            are sorted by how many such exchanges they are behind: first everything that needs
 *            none, all writes among it, then what needs one, and so on.
 *
 *                s = mma; p = ..; write p | dv = mma(p); t = mma; ds = ..; write ds | dk = mma(ds)
 *            becomes
 *                s = mma; t = mma; p = ..; ds = ..; write p; write ds | dv = mma(p); dk = mma(ds)
 *
 *            Then copies for later iterations move from the head of the loop's body behind the
 *            first products, so that their addresses are computed while those run.
 *
 *   leaves   the same operations in another order; place_sync puts the barriers
 */
#include "compiler/passes/pass.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"

enum {
    MANY = 3,  /* products of a loop, see may_delay */
    ALONE = 8, /* warps of a block that rarely leaves room for a second one on its SM */
};

typedef struct Orderer {
    PassContext *px;
    TirFn *fn;
    uint32_t *level;  /* by TirVal id */
    uint32_t *stored; /* by TirShared id: one more than the level of the last write */
    bool changed;
} Orderer;

/* Operations that no other operation may cross. */
static bool
is_fence(const TirOp *op)
{
    switch (op->op) {
    case TIR_ASYNC_WAIT:
    case TIR_ASYNC_COMMIT:
    case TIR_COPY_ASYNC:
    case TIR_BARRIER:
    case TIR_FOR:
    case TIR_IF:
    case TIR_YIELD:
    case TIR_STORE:
    case TIR_TMA_STORE:
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD:
    case TIR_LOAD: return true;
    default: /* or it synchronises by itself */ return tir_exchanges(op) && op->shared != NULL;
    }
}

static uint32_t
level_of(Orderer *o, const TirOp *op)
{
    uint32_t level = 0;

    for (uint32_t k = 0; k < op->n_args; k++) {
        uint32_t of = o->level[op->args[k]->id];
        level = of > level ? of : level;
    }
    if (op->op == TIR_SHARED_READ && o->stored[op->shared->id] > level)
        level = o->stored[op->shared->id];
    return level;
}

/* Sorts ops[first, end) by level, keeping the order inside a level. */
static void
order_run(Orderer *o, TirBlock *block, uint32_t first, uint32_t end)
{
    uint32_t n = end - first, most = 0, at = first;

    if (n == 0)
        return;
    uint32_t *levels = arena_array(o->px->arena, uint32_t, n + 1);
    TirOp **before = arena_copy(o->px->arena, block->ops.at + first, n * sizeof *before);

    for (uint32_t k = 0; k < o->fn->shared.n; k++)
        o->stored[k] = 0;
    for (uint32_t i = 0; i < n; i++) {
        const TirOp *op = before[i];
        levels[i] = level_of(o, op);
        most = levels[i] > most ? levels[i] : most;
        for (uint32_t k = 0; k < op->n_results; k++)
            o->level[op->results[k]->id] = levels[i];
        if (op->op == TIR_SHARED_WRITE)
            o->stored[op->shared->id] = levels[i] + 1;
    }
    /* Inside a level the writes come last: reads of other operands do not pass them. */
    for (uint32_t key = 0; key <= 2 * most + 1; key++) {
        for (uint32_t i = 0; i < n; i++) {
            if (2 * levels[i] + (before[i]->op == TIR_SHARED_WRITE) != key)
                continue;
            o->changed = o->changed || block->ops.at[at] != before[i];
            block->ops.at[at++] = before[i];
        }
    }
    /* What comes later in the block is behind a fence: it starts again from level 0. */
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < before[i]->n_results; k++)
            o->level[before[i]->results[k]->id] = 0;
    }
}

static void
order_block(Orderer *o, TirBlock *block)
{
    uint32_t first = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            order_block(o, op->blocks[k]);
        if (is_fence(op)) {
            order_run(o, block, first, i);
            first = i + 1;
        }
    }
    order_run(o, block, first, block->ops.n);
}

/* ---- copies behind the first products ---- */

static bool
is_copy_branch(const TirOp *op)
{
    if (op->op != TIR_IF || op->n_results > 0)
        return false;
    bool copies = false;
    for (uint32_t i = 0; i < op->blocks[0]->ops.n; i++) {
        const TirOp *inner = op->blocks[0]->ops.at[i];
        if (inner->op == TIR_COPY_ASYNC)
            copies = inner->shared->stages > 1; /* else there is little time for them */
        else if ((tir_op_info(inner->op)->flags & TF_PURE) == 0 && inner->op != TIR_YIELD)
            return false;
    }
    return copies && op->blocks[1]->ops.n == 1;
}

/* Whether copies may move past the operation. */
static bool
lets_copies_pass(const TirOp *op)
{
    if (op->op == TIR_SHARED_READ || op->op == TIR_SHARED_WRITE || op->op == TIR_MMA ||
        op->op == TIR_CONVERT)
        return op->op != TIR_CONVERT || op->shared == NULL;
    return tir_can_be_again(op);
}

/* Whether copies for later iterations are worth moving behind the first products.  In a loop with
 * many products the first ones are a small part of an iteration, and addresses computed among them
 * only take registers; it still pays if the block is so large that it is alone on its SM and its
 * warps wait for each other in an exchange. */
static bool
may_delay(const Orderer *o, const TirBlock *block)
{
    uint32_t mmas = 0, writes = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        mmas += block->ops.at[i]->op == TIR_MMA;
        writes += block->ops.at[i]->op == TIR_SHARED_WRITE;
    }
    return mmas < MANY || (writes > 0 && o->fn->warps >= ALONE);
}

static void
delay_copies(Orderer *o, TirBlock *block)
{
    if (!may_delay(o, block))
        return;
    for (uint32_t i = 0; i + 1 < block->ops.n; i++) {
        TirOp *branch = block->ops.at[i], *commit = block->ops.at[i + 1];
        uint32_t after = 0;
        if (!is_copy_branch(branch) || commit->op != TIR_ASYNC_COMMIT)
            continue;
        /* Behind the first product that follows an exchange, where nothing else overlaps with it;
         * without exchanges, behind the last product that they can pass. */
        bool exchanged = false;
        for (uint32_t k = i + 2; k < block->ops.n && lets_copies_pass(block->ops.at[k]); k++) {
            if (block->ops.at[k]->op == TIR_SHARED_WRITE)
                exchanged = true;
            if (block->ops.at[k]->op != TIR_MMA)
                continue;
            after = k;
            if (exchanged)
                break;
        }
        if (after == 0)
            continue;
        for (uint32_t k = i; k + 2 <= after; k++)
            block->ops.at[k] = block->ops.at[k + 2];
        block->ops.at[after - 1] = branch;
        block->ops.at[after] = commit;
        o->changed = true;
        i = after;
    }
}

static void
delay_in_loops(Orderer *o, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            delay_in_loops(o, op->blocks[k]);
        if (op->op == TIR_FOR)
            delay_copies(o, op->blocks[0]);
    }
}

bool
pass_order_products(PassContext *px, TirFn *fn)
{
    if (fn->plan != NULL) /* the roles have their order */
        return false;
    Orderer o = {.px = px, .fn = fn};

    o.level = arena_array(px->arena, uint32_t, fn->next_id + 1);
    o.stored = arena_array(px->arena, uint32_t, fn->shared.n + 1);
    order_block(&o, fn->body);
    if (switch_is_on(px, "delay-copies"))
        delay_in_loops(&o, fn->body);
    return o.changed;
}
