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
 *   leaves   the same operations in another order; place_sync puts the barriers
 */
#include "compiler/passes/shared_uses.h"
#include "compiler/passes/tir_util.h"
#include "compiler/passrun.h"

typedef struct Orderer {
    PassContext *px;
    TirFn *fn;
    uint32_t *level;  /* by TirVal id */
    uint32_t *stored; /* by TirShared id: one more than the level of the last write */
    bool changed;
} Orderer;

/* Operations that keep their place: what is before stays before, what is after stays after. */
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
    case TIR_ATOMIC_ADD:
    case TIR_LOAD:
        return true;
    case TIR_CONVERT:
    case TIR_REDUCE:
        return op->shared != NULL; /* synchronises by itself */
    default:
        return false;
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

bool
pass_order_products(PassContext *px, TirFn *fn)
{
    Orderer o = {.px = px, .fn = fn};

    o.level = arena_array(px->arena, uint32_t, fn->next_id + 1);
    o.stored = arena_array(px->arena, uint32_t, fn->shared.n + 1);
    order_block(&o, fn->body);
    return o.changed;
}
