/* unseen_limits.c - vectors, and tiles of types that share bytes, are loaded whole where masks hide
 * what lies behind their ends.
 *
 *   level    tile IR, padding masks implied
 *   does     a range that ends where a number says reads zeros behind, and a guard for each element
 *            sees to that.  Where every way on from a vector's padding ends at a mask that hides
 *            it, what stands there need not be zero:
 *
 *                %p = exp2 %s - L2[%m +: 80] limit(0, %n)      %p = exp2 %s - L2[%m +: 80]
 *                mma (bounds_mask %p, iota < %n), ..      ->   mma (bounds_mask %p, iota < %n), ..
 *
 *            Where the launcher has checked that ranges divide a size there is no padding.
 *
 *            What is read then are elements behind the range's end, of a tensor that nobody writes,
 *            and nothing behind the tensor's
 *   leaves   loads without limits, which TMA can bring
 */
#include "compiler/passes/masks/padding.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/read_once.h"
#include "compiler/passes/util/tir_util.h"

enum { MOST_STEPS = 256 };

/* The padding of a vector: elements from `count` on. */
typedef struct Unseen {
    const TirFn *fn;
    const Linear *count;
    uint32_t steps; /* values looked at */
} Unseen;

/* A comparison behind what gives it the shape of a tile, with an axis along which it runs. */
static const TirOp *
comparison_along(const TirVal *value, uint32_t axis)
{
    const TirOp *op = value->def;

    while (op != NULL && (op->op == TIR_BROADCAST || op->op == TIR_EXPAND)) {
        if (op->op == TIR_EXPAND && op->axis == axis) /* which it is the same along */
            return NULL;
        if (op->op == TIR_EXPAND)
            axis = 0;
        op = op->args[0]->def;
    }
    return op != NULL && op->op == TIR_LT && op->results[0]->type.rank == 1 && axis == 0 ? op
                                                                                         : NULL;
}

/* Whether a mask keeps none of the padding: it keeps start + i < bound, and bound - start is
 * `count`. */
static bool
hides(const Unseen *u, const TirOp *mask, uint32_t axis)
{
    const TirOp *less = mask->op == TIR_BOUNDS_MASK ? comparison_along(mask->args[1], axis) : NULL;
    const TirOp *range = less != NULL ? less->args[0]->def : NULL;
    Linear kept = {.ok = true};

    if (range == NULL || range->op != TIR_IOTA || range->index[0].rows != 0)
        return false;
    linear_add(&kept, less->args[1], 1);
    linear_add(&kept, range->args[0], -1);
    return linear_equal(&kept, u->count);
}

static bool is_unseen(Unseen *u, const TirBlock *block, const TirVal *value, uint32_t axis);

/* Whether an operation that reads `value` shows nothing of its padding. */
static bool
shows_nothing(Unseen *u, const TirOp *op, const TirVal *value, uint32_t axis)
{
    bool elementwise = (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0;

    if (op->op == TIR_BOUNDS_MASK && op->args[0] == value && hides(u, op, axis))
        return true;
    if (op->op == TIR_EXPAND)
        axis += op->axis <= axis;
    else if (op->op == TIR_TRANSPOSE)
        axis = 1 - axis;
    else if (op->op != TIR_BROADCAST && !elementwise)
        return false;
    return u->steps++ < MOST_STEPS && is_unseen(u, u->fn->body, op->results[0], axis);
}

/* Whether no operation of `block` shows anything of the value's padding along `axis`. */
static bool
is_unseen(Unseen *u, const TirBlock *block, const TirVal *value, uint32_t axis)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool reads = false;
        for (uint32_t k = 0; k < op->n_args; k++)
            reads = reads || op->args[k] == value;
        if (reads && !shows_nothing(u, op, value, axis))
            return false;
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (!is_unseen(u, op->blocks[k], value, axis))
                return false;
        }
    }
    return true;
}

static bool
drop_limits(const TirFn *fn, TirBlock *block)
{
    bool changed = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            changed |= drop_limits(fn, op->blocks[k]);
        /* elements of other programs lie behind: what these write must not be read */
        if (op->op != TIR_LOAD || op->n_limits != 1 || op->limits[0].part.rows != 0 ||
            op->tensor->mode != TENSOR_IN ||
            (op->results[0]->type.rank != 1 && !repeats_elements(op)))
            continue;
        Linear count = {.ok = true};
        linear_add(&count, tir_limit_count(op, 0), 1);
        uint32_t axis = op->limits[0].axis;
        if (count.ok && (padding_is_none(fn, &count, tir_index_type(op).dim[axis]) ||
                         is_unseen(&(Unseen){fn, &count, 0}, fn->body, op->results[0], axis))) {
            op->n_args -= op->n_limits;
            op->n_limits = 0;
            changed = true;
        }
    }
    return changed;
}

bool
pass_unseen_limits(PassContext *px, TirFn *fn)
{
    bool changed = drop_limits(fn, fn->body);

    if (changed)
        pass_simplify(px, fn);
    return changed;
}
