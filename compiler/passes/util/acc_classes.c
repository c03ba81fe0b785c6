/* acc_classes.c - accumulators: values of products that share one set of registers.
 *
 * A wgmma runs on after its instruction, and its accumulator must be neither copied nor moved
 * meanwhile. So all values of a chain that a product adds to - carried by loops, passed through
 * branches, scaled in between - live in one set of registers, their register class.
 *
 * A value that is computed from a result alone, while other products run, takes over the registers
 * of the result: ptxas does not find that by itself when nearly all registers are in use.
 *
 * Two values share a register class only if neither overwrites the other while that may still be
 * read: a sum that is used again after more was added to it is copied first, and products that
 * begin with the copy have a register class of their own.
 *
 * The lowering evaluates pure operations when their result is first read.  An operation on a value
 * in a register class is evaluated where it stands if the class holds another value by then:
 *
 *     x = mul acc, 0.5            at once
 *     acc2 = mma p, v, acc        the registers of acc
 *     y = add acc2, x
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/acc_classes.h"
#include "compiler/passes/util/tir_util.h"

typedef struct AccClasses {
    const TirFn *fn;
    uint32_t *parent;     /* union of values, by id */
    bool *mma;            /* by class: some product's result is in it */
    uint32_t *next;       /* by id: another value of the class, around */
    const TirVal **value; /* by id */
} AccClasses;

static uint32_t
root_of(AccClasses *h, uint32_t id)
{
    while (h->parent[id] != id)
        id = h->parent[id] = h->parent[h->parent[id]];
    return id;
}

static bool
used_behind(const TirBlock *block, const TirOp *op, const TirVal *value)
{
    bool behind = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        if (behind && op_uses_deep(block->ops.at[i], value))
            return true;
        behind = behind || block->ops.at[i] == op;
    }
    return false;
}

static bool
used_inside(const TirOp *region, const TirVal *value)
{
    for (uint32_t k = 0; k < region->n_blocks; k++) {
        for (uint32_t i = 0; i < region->blocks[k]->ops.n; i++) {
            if (op_uses_deep(region->blocks[k]->ops.at[i], value))
                return true;
        }
    }
    return false;
}

/* Whether `value`, whose registers `op` overwrites, may still be read afterwards. */
static bool
outlives(const TirOp *op, const TirVal *value)
{
    for (;;) {
        if (used_behind(op->parent, op, value))
            return true;
        if (op->parent == value->block)
            return false;
        op = op->parent->owner;
        /* the next iteration would find it overwritten */
        if (op->op == TIR_FOR && used_inside(op, value))
            return true;
    }
}

/* Whether `value` is known at `op`: defined before it, in its block or one around it. */
static bool
is_known(const TirVal *value, const TirOp *op)
{
    while (op != NULL && op->parent != value->block)
        op = op->parent->owner;
    if (op == NULL || value->def == NULL)
        return op != NULL;
    for (uint32_t i = 0; op->parent->ops.at[i] != op; i++) {
        if (op->parent->ops.at[i] == value->def)
            return true;
    }
    return false;
}

bool
is_made_at_acc_class(const TirVal *value)
{
    const TirOp *def = value->def;

    if (def == NULL || (def->op == TIR_MMA && def->async))
        return true;
    return def->op != TIR_LOAD && def->op != TIR_CONVERT &&
           (tir_op_info(def->op)->flags & TF_TOGETHER) == 0;
}

/* Whether `by` would be written to the registers of `value` while `value` may still be read. */
static bool
is_overwritten(const TirVal *value, const TirVal *by)
{
    const TirOp *op = by->def != NULL ? by->def : by->block->owner; /* else: what a loop carries */

    if (!is_made_at_acc_class(value) || op == NULL || value == by)
        return false;
    if (value->block == by->block && value->def == NULL && by->def == NULL)
        return true; /* carried side by side */
    if (value->def != NULL && value->def == by->def)
        return true;
    return is_known(value, op) &&
           (outlives(op, value) || (by->def == NULL && used_inside(op, value)));
}

static bool
can_join(const AccClasses *h, uint32_t a, uint32_t b)
{
    uint32_t x = a;

    do {
        uint32_t y = b;
        do {
            if (is_overwritten(h->value[x], h->value[y]) || is_overwritten(h->value[y], h->value[x]))
                return false;
            y = h->next[y];
        } while (y != b);
        x = h->next[x];
    } while (x != a);
    return true;
}

/* Puts two values into one class, unless a value of either class would be overwritten while it is
 * needed; then the lowering copies. */
static void
join(AccClasses *h, const TirVal *a, const TirVal *b)
{
    uint32_t x = root_of(h, a->id), y = root_of(h, b->id), next;

    if (x == y || !can_join(h, x, y))
        return;
    h->parent[x] = y;
    h->mma[y] |= h->mma[x];
    next = h->next[x];
    h->next[x] = h->next[y];
    h->next[y] = next;
}

static bool
is_constant(const TirVal *value)
{
    return value->def != NULL && value->def->op == TIR_CONST;
}

bool
mma_may_be_sum(const TirVal *value)
{
    DType dtype = value->type.dtype;

    return value->type.rank == 2 && dtype != DT_BOOL && dtype_wide(dtype) == dtype;
}

/* What a loop carries and what it leaves. */
static void
join_carried(AccClasses *h, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        for (uint32_t k = 0; op->op == TIR_FOR && k < op->n_results; k++) {
            if (mma_may_be_sum(op->results[k]))
                join(h, op->results[k], op->blocks[0]->params.at[k + 1]);
        }
    }
}

/* Values that are the same tile as it goes around loops and through branches. */
static void
join_flow(AccClasses *h, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            join_flow(h, op->blocks[k]);
        if (op->op == TIR_MMA && op->async) {
            h->mma[root_of(h, op->results[0]->id)] = true;
            if (!tir_is_zero(op->args[2]))
                join(h, op->results[0], op->args[2]);
        }
        for (uint32_t k = 0; k < op->n_results; k++) {
            const TirVal *result = op->results[k];
            if (!mma_may_be_sum(result))
                continue;
            for (uint32_t j = 0; j < op->n_blocks; j++) {
                const TirVal *yielded = block_yield(op->blocks[j])->args[k];
                if (!is_constant(yielded))
                    join(h, result, yielded);
            }
            if (op->op == TIR_FOR) {
                const TirVal *initial = op->args[loop_first_initial(op) + k];
                if (!is_constant(initial))
                    join(h, result, initial);
            }
        }
    }
}

/* What follows from a tile of a chain and is added to it again is computed in place. */
static void
join_in_place(AccClasses *h, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            join_in_place(h, op->blocks[k]);
        if ((tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0 ||
            !h->mma[root_of(h, op->results[0]->id)])
            continue;
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (tir_type_eq(op->args[k]->type, op->results[0]->type) &&
                h->mma[root_of(h, op->args[k]->id)]) {
                join(h, op->results[0], op->args[k]);
                break;
            }
        }
    }
}

/* The operand that an elementwise operation could take the place of: a tile of its type that
 * nothing else uses; NULL. */
static TirVal *
replaced_by(AccClasses *h, const TirVal *value)
{
    const TirOp *op = value->def;
    TirVal *found = NULL;

    if (op == NULL || (tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0)
        return NULL;
    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirOp *def = op->args[k]->def;
        bool begun = def == NULL && h->mma[root_of(h, op->args[k]->id)]; /* by the lookahead MMA */
        if (op->args[k]->block != op->parent || !tir_type_eq(op->args[k]->type, value->type) ||
            (!begun && (def == NULL || (def->op != TIR_MMA &&
                                        (tir_op_info(def->op)->flags & TF_ELEMENTWISE) == 0))))
            continue; /* one and the same for a row, or for all: it has no registers of its own */
        if (found != NULL || count_uses(h->fn, op->args[k]) != 1)
            return NULL;
        found = op->args[k];
    }
    return found;
}

static void
join_held(AccClasses *h, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            join_held(h, op->blocks[k]);
        for (uint32_t k = 0; op->op == TIR_MMA_WAIT && k < op->n_args; k++) {
            TirVal *from = op->args[k];
            while (from != NULL && !h->mma[root_of(h, from->id)])
                from = replaced_by(h, from);
            /* Only the last one, element by element from the result: what lies between is used by
             * nothing else, so nobody asks for it, or for the result, later. */
            if (from != NULL)
                join(h, op->args[k], from);
        }
    }
}

/* Numbers the register classes in the order in which their values are first made. */
static void
number_acc_classes(AccClasses *h, const TirBlock *block, uint32_t *of_class, uint32_t *next,
                   uint32_t *out)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        for (uint32_t k = 0; k < op->n_results + (op->op == TIR_FOR ? op->n_results : 0); k++) {
            const TirVal *value = k < op->n_results
                                      ? op->results[k]
                                      : op->blocks[0]->params.at[k - op->n_results + 1];
            uint32_t class = root_of(h, value->id);
            if (!h->mma[class] || value->type.rank != 2)
                continue;
            if (of_class[class] == 0)
                of_class[class] = ++*next;
            out[value->id] = of_class[class];
        }
    }
}

/* ---- what is made at once ---- */

typedef struct AtOnce {
    const uint32_t *acc_class;
    /* by value: the register classes, as bits, that it is made of when it is asked for */
    uint64_t *reads;
    uint32_t *last_use; /* by value: the last place in its block that uses it */
    bool *at_once;
    uint32_t acc_classes; /* how many; those behind them stand for buffers in tensor memory */
} AtOnce;

/* A bit for each register class; where there are more of them, some share one. */
static uint64_t
acc_class_bit(uint32_t acc_class)
{
    return acc_class == 0 ? 0 : (uint64_t)1 << (acc_class - 1) % 64;
}

/* Of a buffer in tensor memory, or of the one over which it lies. */
static uint64_t
tmem_bit(const AtOnce *a, const TirOp *op)
{
    const TirShared *shared = op->shared;

    if (shared == NULL || shared->kind != SHARED_TMEM)
        return 0;
    return acc_class_bit(a->acc_classes + 1 + (shared->over != NULL ? shared->over : shared)->id);
}

/* What a consumer reads in tensor memory is as good as overwritten when it gives the buffer
 * back. */
static bool
overwrites_tmem(const TirOp *op)
{
    return op->op == TIR_CONSUMER_RELEASE || op->op == TIR_PRODUCER_COMMIT ||
           op->op == TIR_TMEM_WRITE;
}

/* Whether the lowering makes the results where the operation stands. */
static bool
is_made_there(const TirOp *op)
{
    return op->n_results != 1 || !tir_can_be_again(op);
}

/* AccClasses that get another value in `op`. */
static uint64_t
acc_classes_written(const AtOnce *a, const TirOp *op)
{
    uint64_t written = 0;

    for (TirWalk walk = tir_walk_op(op); tir_walk_next(&walk);) {
        const TirOp *at = walk.op;
        written |= overwrites_tmem(at) ? tmem_bit(a, at) : 0;
        for (uint32_t k = 0; k < at->n_results; k++)
            written |= acc_class_bit(a->acc_class[at->results[k]->id]);
        for (uint32_t k = 0; at->op == TIR_FOR && k < at->blocks[0]->params.n; k++)
            written |= acc_class_bit(a->acc_class[at->blocks[0]->params.at[k]->id]);
    }
    return written;
}

/* Marks what stands before operation `at`, is asked for behind it, and is made of a register class
 * to which it gives another value.  (A loop or branch asks for what its blocks use before these
 * run.) */
static void
mark_before(AtOnce *a, const TirBlock *block, uint32_t at)
{
    const TirOp *op = block->ops.at[at];
    uint64_t written = acc_classes_written(a, op);

    /* what lies below an operand has been read when that is written (lower_tmem_write) */
    if (overwrites_tmem(op) && op->shared->kind == SHARED_TMEM && op->shared->over != NULL)
        return;

    for (uint32_t i = 0; i < at && written != 0; i++) {
        const TirOp *earlier = block->ops.at[i];
        if ((is_made_there(earlier) && earlier->op != TIR_TMEM_READ) ||
            a->acc_class[earlier->results[0]->id] != 0)
            continue;
        TirVal *value = earlier->results[0];
        if ((a->reads[value->id] & written) != 0 && a->last_use[value->id] > at)
            a->at_once[value->id] = true;
    }
}

static void
note_reads(AtOnce *a, const TirOp *op)
{
    for (uint32_t k = 0; k < op->n_results; k++) {
        const TirVal *value = op->results[k];
        a->reads[value->id] = acc_class_bit(a->acc_class[value->id]);
        if (op->op == TIR_TMEM_READ)
            a->reads[value->id] |= tmem_bit(a, op);
        for (uint32_t j = 0; j < op->n_args && !is_made_there(op) && a->acc_class[value->id] == 0;
             j++) {
            if (!a->at_once[op->args[j]->id])
                a->reads[value->id] |= a->reads[op->args[j]->id];
        }
    }
}

static void
find_at_once(AtOnce *a, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        for (TirReads reads = tir_reads(block->ops.at[i]); tir_reads_next(&reads);)
            a->last_use[reads.value->id] = reads.value->block == block
                                               ? i
                                               : a->last_use[reads.value->id];
    }
    for (uint32_t i = 0; i < block->params.n; i++)
        a->reads[block->params.at[i]->id] = acc_class_bit(a->acc_class[block->params.at[i]->id]);
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        mark_before(a, block, i);
        note_reads(a, op);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            find_at_once(a, op->blocks[k]);
    }
}

static void
list_values(AccClasses *h, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        for (uint32_t k = 0; k < op->n_results; k++)
            h->value[op->results[k]->id] = op->results[k];
        for (uint32_t k = 0; op->op == TIR_FOR && k < op->blocks[0]->params.n; k++)
            h->value[op->blocks[0]->params.at[k]->id] = op->blocks[0]->params.at[k];
    }
}

MmaAccClasses
mma_acc_classes(Arena *arena, const TirFn *fn)
{
    uint32_t n = fn->next_id + 1, acc_classes = 0;
    AccClasses h = {.fn = fn,
                    .parent = arena_array(arena, uint32_t, n),
                    .mma = arena_array(arena, bool, n),
                    .next = arena_array(arena, uint32_t, n),
                    .value = arena_array(arena, const TirVal *, n)};

    for (uint32_t k = 0; k < n; k++)
        h.parent[k] = h.next[k] = k;
    list_values(&h, fn->body);
    join_carried(&h, fn->body);
    join_flow(&h, fn->body);
    join_in_place(&h, fn->body);
    join_held(&h, fn->body);
    AtOnce at_once = {.reads = arena_array(arena, uint64_t, n),
                      .last_use = arena_array(arena, uint32_t, n),
                      .at_once = arena_array(arena, bool, n)};
    uint32_t *of = arena_array(arena, uint32_t, n);
    number_acc_classes(&h, fn->body, arena_array(arena, uint32_t, n), &acc_classes, of);
    at_once.acc_class = of;
    at_once.acc_classes = acc_classes;
    find_at_once(&at_once, fn->body);
    return (MmaAccClasses){of, at_once.at_once};
}
