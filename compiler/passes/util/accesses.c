/* accesses.c - which accesses to tensors must keep their order.
 *
 * Two accesses of a program conflict when both touch a tensor, at least one of them writes, not
 * both are additions, and their boxes of indices may overlap.  Boxes are compared dimension by
 * dimension: starts are sums of scalars and constants, and where the difference is a constant, or a
 * constant for each iteration that lies in between, it may exceed the length.
 *
 * Tensors of a launch do not overlap in memory, unless nothing is written to them.
 */
#include "compiler/passes/util/accesses.h"

#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/tir_util.h"

/* ---- where accesses lie ---- */

/* How far the start of the later access lies behind that of the earlier one: `constant`, and as
 * much as `each` for each iteration in between. */
typedef struct Distance {
    bool ok;
    int64_t constant, each;
} Distance;

static Distance
distance(const TirVal *earlier, const TirVal *later, const TirOp *around)
{
    const TirBlock *body = around == NULL ? NULL : around->blocks[0];
    Linear from = {.ok = true}, to = {.ok = true};
    int64_t each[2] = {0, 0};

    if (earlier != NULL)
        linear_add(&from, earlier, 1);
    if (later != NULL)
        linear_add(&to, later, 1);
    Distance result = {.ok = from.ok && to.ok, .constant = to.constant - from.constant};
    const Linear *both[2] = {&from, &to};
    for (uint32_t side = 0; side < 2; side++) {
        for (uint32_t k = 0; k < both[side]->n; k++) {
            const TirVal *value = both[side]->terms[k].value;
            int64_t coefficient = both[side]->terms[k].coefficient, other = 0;
            if (body != NULL && value == body->params.at[0]) {
                each[side] = coefficient;
                continue;
            }
            for (uint32_t j = 0; j < both[1 - side]->n; j++) {
                if (linear_same_value(both[1 - side]->terms[j].value, value))
                    other = both[1 - side]->terms[j].coefficient;
            }
            bool varies = body != NULL && tir_is_inside(value->block, body);
            result.ok = result.ok && (varies ? coefficient == 0 : coefficient == other);
        }
    }
    result.ok = result.ok && each[0] == each[1];
    result.each = each[1];
    return result;
}

static bool
is_apart(const Distance *between, int64_t earlier_length, int64_t later_length)
{
    int64_t least = between->constant + between->each; /* one iteration lies in between, or more */

    if (!between->ok)
        return false;
    return (between->each >= 0 && least >= earlier_length) ||
           (between->each <= 0 && -least >= later_length);
}

/* From the first index to behind the last one. */
static int64_t
reach(const TirDims *d)
{
    return d->strided ? (int64_t)(d->length - 1) * d->index->step + 1 : d->length;
}

static bool
are_apart(const AccessPair *pair)
{
    TirDims earlier = tir_dims(pair->earlier), later = tir_dims(pair->later);

    while (tir_dims_next(&earlier) && tir_dims_next(&later)) {
        if (earlier.places || later.places)
            continue; /* anywhere */
        Distance between = distance(earlier.at, later.at, pair->around);
        if (is_apart(&between, reach(&earlier), reach(&later)))
            return true;
    }
    return false;
}

bool
access_same_place(const AccessPair *pair)
{
    TirDims earlier = tir_dims(pair->earlier), later = tir_dims(pair->later);

    while (tir_dims_next(&earlier) && tir_dims_next(&later)) {
        Distance between = distance(earlier.at, later.at, pair->around);
        if (!between.ok || between.constant != 0 || between.each != 0 ||
            !tir_same_index(earlier.index, later.index))
            return false;
    }
    return true;
}

/* ---- the walk ---- */

typedef struct Touch {
    const TirOp *op, *around; /* as in AccessPair */
} Touch;

typedef VEC(Touch) Open;
typedef VEC(TirOp *) OpList;

typedef enum Kind { TOUCHES_NOTHING, READS, WRITES, ADDS, RAISES, LOWERS } Kind;

static Kind
kind_of(const TirOp *op)
{
    /* one that fetches reads, too: no other of its kind passes it */
    switch (op->op) {
    case TIR_LOAD:
    case TIR_COPY_ASYNC: return READS;
    case TIR_STORE:
    case TIR_TMA_STORE: return WRITES;
    case TIR_ATOMIC_ADD: return tir_fetches(op) ? WRITES : ADDS;
    case TIR_ATOMIC_MAX: return tir_fetches(op) ? WRITES : RAISES;
    case TIR_ATOMIC_MIN: return tir_fetches(op) ? WRITES : LOWERS;
    default: return TOUCHES_NOTHING;
    }
}

static bool
conflicts(const AccessWalk *walk, const AccessPair *pair)
{
    Kind earlier = kind_of(pair->earlier), later = kind_of(pair->later);

    if (pair->earlier->tensor != pair->later->tensor || (earlier == later && earlier != WRITES))
        return false;
    return !are_apart(pair) && !walk->settled(walk->fn, pair);
}

/* Whether `op`, or an operation in it, conflicts with an open access; leaves the pair. */
static bool
meets(const AccessWalk *walk, const Open *open, const TirOp *op, AccessPair *pair)
{
    for (uint32_t k = 0; kind_of(op) != TOUCHES_NOTHING && k < open->n; k++) {
        *pair = (AccessPair){open->at[k].op, op, open->at[k].around};
        if (conflicts(walk, pair))
            return true;
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++) {
            if (meets(walk, open, op->blocks[k]->ops.at[i], pair))
                return true;
        }
    }
    return false;
}

static void
add_touch(const AccessWalk *walk, Open *open, Touch touch)
{
    for (uint32_t k = 0; k < open->n; k++) {
        if (open->at[k].op == touch.op && open->at[k].around == touch.around)
            return;
    }
    vec_push(walk->fn->arena, open, touch);
}

static Open
copy_open(const AccessWalk *walk, const Open *open)
{
    Open copy = {0};

    for (uint32_t k = 0; k < open->n; k++)
        vec_push(walk->fn->arena, &copy, open->at[k]);
    return copy;
}

static void
unite(const AccessWalk *walk, Open *open, const Open *other)
{
    for (uint32_t k = 0; k < other->n; k++)
        add_touch(walk, open, other->at[k]);
}

/* The loop goes on to another iteration. */
static void
go_on(const AccessWalk *walk, Open *open, const TirOp *loop)
{
    Open before = copy_open(walk, open);

    open->n = 0;
    for (uint32_t k = 0; k < before.n; k++) {
        Touch touch = before.at[k];
        if (tir_is_inside(touch.op->parent, loop->blocks[0]))
            touch.around = loop;
        add_touch(walk, open, touch);
    }
}

static void
walk_block(AccessWalk *walk, TirBlock *block, Open *open)
{
    OpList out = {0}, before = {0};

    before.at = arena_copy(walk->fn->arena, block->ops.at, block->ops.n * sizeof *before.at);
    before.n = block->ops.n;
    for (uint32_t i = 0; i < before.n; i++) {
        TirOp *op = before.at[i];
        AccessPair pair;
        if (op->op == TIR_BARRIER)
            open->n = 0;
        /* Of a branch or loop: before all of it, where the threads are together and it is done
         * once. */
        if (meets(walk, open, op, &pair)) {
            if (walk->found.earlier == NULL)
                walk->found = pair;
            if (walk->insert) {
                vec_push(walk->fn->arena, &out, barrier_before(walk->fn, op));
                open->n = 0;
                walk->changed = true;
            }
        }
        if (op->op == TIR_FOR) {
            Open entry = copy_open(walk, open);
            walk_block(walk, op->blocks[0], open);
            go_on(walk, open, op);
            walk_block(walk, op->blocks[0], open);
            unite(walk, open, &entry); /* the loop may run no iteration */
        } else if (op->op == TIR_IF) {
            Open other = copy_open(walk, open);
            walk_block(walk, op->blocks[0], open);
            walk_block(walk, op->blocks[1], &other);
            unite(walk, open, &other);
        } else if (kind_of(op) != TOUCHES_NOTHING) {
            add_touch(walk, open, (Touch){op, NULL});
        }
        vec_push(walk->fn->arena, &out, op);
    }
    block->ops.at = out.at;
    block->ops.n = out.n;
    block->ops.cap = out.cap;
}

void
access_walk(AccessWalk *walk, TirBlock *block)
{
    Open open = {0};

    walk_block(walk, block, &open);
}
