/* plan_inner.c - products whose inner dimension is no whole number of an instruction's steps.
 *
 * An instruction adds up over 16 elements at a time (more where they are smaller), so that the last
 * step of such a product reads elements that are not there.  They have to be zeros in both
 * operands: in one alone, what meets them might be no number.  TMA fills them in behind the end of
 * a tensor, as far as a box goes.  Along a tensor's last dimension boxes are as wide as a swizzle
 * atom and nothing has to be done.  Along another one the tile must be loaded with rows that the
 * tensor does not have: both operands of the product get them.
 */
#include "compiler/passes/schedule/plan.h"

#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/tir_util.h"

bool
plan_ends_in_zeros(const TirVal *value, uint32_t dim)
{
    const TirOp *def = value->def;

    for (; def != NULL && def->op == TIR_TRANSPOSE; def = def->args[0]->def)
        dim = 1 - dim;
    return def != NULL && def->op == TIR_LOAD && dim == 1 && tir_last_dim(def).at == NULL;
}

enum { NO_DIMENSION = TENSOR_MAX_RANK };

/* Products of a body whose operand `k` is `value`. */
static uint32_t
products_of(const TirBlock *body, const TirVal *value, uint32_t k)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < body->ops.n; i++)
        n += body->ops.at[i]->op == TIR_MMA && body->ops.at[i]->args[k] == value;
    return n;
}

/* The dimension of its tensor along which operand `k` of a product is added up over, where that is
 * all of a tensor's, and the tile is nothing but operand `k` of products, `most` at most: then it
 * may be longer.  Else NO_DIMENSION. */
static uint32_t
inner_dimension(const TirFn *fn, const TirOp *mma, uint32_t k, uint32_t most)
{
    const TirVal *value = mma->args[k];
    uint32_t dim = 1 - k, uses = products_of(mma->parent, value, k);

    if (uses > most || count_uses(fn, value) != uses)
        return NO_DIMENSION;
    for (; value->def != NULL && value->def->op == TIR_TRANSPOSE; dim = 1 - dim) {
        value = value->def->args[0];
        if (count_uses(fn, value) != 1)
            return NO_DIMENSION;
    }
    if (value->def == NULL || value->def->op != TIR_LOAD)
        return NO_DIMENSION;
    for (TirDims d = tir_dims(value->def); tir_dims_next(&d);) {
        if (d.at == NULL && d.axis == dim)
            return d.dim;
    }
    return NO_DIMENSION;
}

/* Whether both operands are followed by zeros as they are. */
static bool
both_end_in_zeros(const TirOp *mma)
{
    return plan_ends_in_zeros(mma->args[0], 1) && plan_ends_in_zeros(mma->args[1], 0);
}

/* Whether operand `k` of a product may be longer, and in each product that reads it the other one,
 * which only that reads. */
static bool
may_be_longer(const TirFn *fn, const TirOp *mma, uint32_t k)
{
    const TirBlock *body = mma->parent;

    if (inner_dimension(fn, mma, k, body->ops.n) == NO_DIMENSION)
        return false;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op == TIR_MMA && op->args[k] == mma->args[k] &&
            inner_dimension(fn, op, 1 - k, 1) == NO_DIMENSION)
            return false;
    }
    return true;
}

bool
plan_inner_fits(const TirFn *fn, const TirOp *mma, int32_t step)
{
    return mma->args[0]->type.dim[1] % step == 0 || both_end_in_zeros(mma) ||
           may_be_longer(fn, mma, 0) || may_be_longer(fn, mma, 1);
}

/* Has a load bring `length` elements along dimension `d` of its tensor, which has fewer: the rest
 * are zeros. */
static void
lengthen(TirFn *fn, TirOp *load, uint32_t d, int32_t length)
{
    TirBuilder b = {.fn = fn, .block = load->parent, .at = 0, .span = load->span};

    tir_set_range(fn, load, d, tir_const_int(&b, 0), length);
}

/* Operand `k` of a product, through transposes. */
static void
lengthen_operand(TirFn *fn, const TirOp *mma, uint32_t k, int32_t length)
{
    uint32_t dim = 1 - k, d = inner_dimension(fn, mma, k, mma->parent->ops.n);
    TirVal *value = mma->args[k];

    for (; value->def->op == TIR_TRANSPOSE; value = value->def->args[0], dim = 1 - dim)
        value->type.dim[dim] = length;
    value->type.dim[dim] = length;
    lengthen(fn, value->def, d, length);
}

bool
plan_lengthen_inner(const Target *target, TirFn *fn, const TirBlock *body)
{
    bool changed = false, more = true;

    while (more) {
        more = false;
        for (uint32_t i = 0; i < body->ops.n; i++) {
            const TirOp *mma = body->ops.at[i];
            if (mma->op != TIR_MMA)
                continue;
            int32_t step = product_form(target, mma)->k, left = mma->args[0]->type.dim[1],
                    right = mma->args[1]->type.dim[0], length = (left + step - 1) / step * step;
            if (left == right && (left % step == 0 || both_end_in_zeros(mma)))
                continue;
            more = true;
            for (uint32_t k = 0; k < 2; k++) {
                if ((k == 0 ? left : right) != length)
                    lengthen_operand(fn, mma, k, length);
            }
        }
        changed = changed || more;
    }
    return changed;
}
