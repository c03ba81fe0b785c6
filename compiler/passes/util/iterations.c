/* iterations.c - iterations that a program does not have (see iterations.h).
 *
 * A product over rows that are all padding adds zeros: imply_masks puts zeros to the padding of what it sums up.
 */
#include "compiler/passes/util/iterations.h"

#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/tir_util.h"
#include "compiler/passes/util/tir_walk.h"

/* ---- programs without rows ---- */

/* Whether an access ends after `slack` elements along dimension `dim` of its tile; of any dimension: 2. */
static bool
ends_after(const TirOp *op, uint32_t dim, const Linear *slack)
{
    for (uint32_t k = 0; k < op->n_limits; k++) {
        Linear count = {.ok = op->limits[k].part.rows == 0};
        linear_add(&count, tir_limit_count(op, k), 1);
        if ((dim == 2 || op->limits[k].axis == dim) && linear_equal(&count, slack))
            return true;
    }
    return false;
}

/* Whether a write leaves nothing in a program whose `slack` is at most 0: it has no elements then, or is the addition of a
 * product over none. */
static bool
leaves_nothing(const TirOp *write, const Linear *slack)
{
    const TirOp *value = write->args[write->n_args - 1]->def;

    if (ends_after(write, 2, slack))
        return true;
    if (write->op != TIR_ATOMIC_ADD || value == NULL || value->op != TIR_MMA ||
        !tir_is_zero(value->args[2]))
        return false;
    const TirOp *right = value->args[1]->def;
    return right != NULL && right->op == TIR_LOAD && ends_after(right, 0, slack);
}

/* Whether a program in which `condition` does not hold leaves nothing, whatever iterations it has. */
static bool
is_without_rows(const TirBlock *body, const TirOp *condition)
{
    Linear slack = linear_slack(condition);

    if (!slack.ok)
        return false;
    for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);) {
        bool writes = walk.op->op == TIR_STORE || walk.op->op == TIR_ATOMIC_ADD;
        if (writes && !leaves_nothing(walk.op, &slack))
            return false;
    }
    return true;
}

/* The loop whose bounds are looked at. */
typedef struct Bounds {
    Arena *arena;
    const TirBlock *body; /* of the kernel */
    bool not_negative;    /* it begins at 0 or later */
    HidesBeyond *hides;
    const void *masks;
} Bounds;

/* The axes along which programs differ in a bound, of which that of all is the least (`end`: the greatest). */
static uint32_t
axes_of_bound(const Bounds *b, const TirVal *bound, bool end)
{
    const TirOp *def = bound->def;

    if (def == NULL || (b->hides != NULL && b->hides(b->masks, bound, end)))
        return 0;
    if (def->op == (end ? TIR_MIN : TIR_MAX))
        return axes_of_bound(b, def->args[0], end) | axes_of_bound(b, def->args[1], end);
    const TirOp *none = def->op == TIR_SELECT && end && b->not_negative ? def->args[2]->def : NULL;
    if (none != NULL && none->op == TIR_CONST && none->integer <= 0 &&
        is_without_rows(b->body, def->args[0]->def))
        return axes_of_bound(b, def->args[1], end);
    return tir_axes_of(b->arena, bound);
}

uint32_t
iterations_apart(Arena *arena, const TirBlock *body, const TirOp *loop, HidesBeyond *hides,
                 const void *masks)
{
    Bounds b = {arena, body, is_not_negative(loop->args[0]), hides, masks};

    return axes_of_bound(&b, loop->args[0], false) | axes_of_bound(&b, loop->args[1], true);
}

bool
iterations_are_shared(const TirFn *fn, const TirBlock *body)
{
    for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);) {
        const TirOp *loop = walk.op->parent->owner;
        if (walk.op->op != TIR_MMA || !walk.op->coop_k || loop == NULL)
            continue;
        uint32_t apart = loop->masked ? loop->apart
                                      : iterations_apart(fn->arena, body, loop, NULL, NULL);
        return fn->plan->tiles.axis == NO_AXIS || (apart >> fn->plan->tiles.axis & 1) == 0;
    }
    return false;
}
