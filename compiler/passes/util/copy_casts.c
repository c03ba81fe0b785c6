/* copy_casts.c - casts that copies make on their way.
 *
 * A tensor copy can round what it brings (CopyForm.to), so that products find their operands in
 * shared memory as they read them.  A load of which nothing but operands is made, by such casts,
 * becomes one of the wanted type; its pipeline will have that type, which says the same in the
 * text.  Where there is no plan the kernel is as it was.
 *
 *     %a = load A[..]           f32           %b = load A[..]    tf32
 *     %b = cast %a              tf32
 */
#include "compiler/passes/util/copy_casts.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_util.h"

/* Whether all that uses `value`, through transposes, are products, as an operand, or casts to a
 * type, if it is not of that yet, of which nothing else is made. */
static bool
is_only_cast(const TirFn *fn, const TirVal *value, DType to)
{
    bool cast = value->type.dtype == to;

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (op->args[k] != value || (cast && op->op == TIR_MMA && k < 2))
                continue;
            bool passes = op->op == TIR_TRANSPOSE ||
                          (!cast && op->op == TIR_CAST && op->results[0]->type.dtype == to);
            if (!passes || !is_only_cast(fn, op->results[0], to))
                return false;
        }
    }
    return true;
}

/* The load behind a cast that the copy can make; NULL: there is none. */
static TirOp *
cast_load(const Target *target, const TirFn *fn, const TirOp *cast)
{
    const CopyForm *form = target_copy(target, COPY_TENSOR_LOAD);

    if (cast->op != TIR_CAST)
        return NULL;
    DType to = cast->results[0]->type.dtype;
    TirOp *load = tir_untransposed(cast->args[0])->def;
    if (form == NULL || to != form->to || load == NULL || load->op != TIR_LOAD ||
        form->from == form->to || load->tensor->dtype != form->from ||
        target_role_mma(target, to, to) == NULL)
        return NULL;
    return is_only_cast(fn, load->results[0], to) ? load : NULL;
}

/* Has a load bring what the cast would make of it. */
static void
fold_cast(TirFn *fn, const TirOp *cast)
{
    DType to = cast->results[0]->type.dtype;

    for (TirVal *value = cast->args[0];; value = value->def->args[0]) {
        value->type.dtype = to;
        if (value->def->op == TIR_LOAD)
            break;
    }
    tir_replace_uses(fn, cast->results[0], cast->args[0]);
}

typedef VEC(TirOp *) OpList;

static OpList
casts_of(const Target *target, const TirFn *fn)
{
    OpList casts = {0};

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);) {
        if (cast_load(target, fn, walk.op) != NULL)
            vec_push(fn->arena, &casts, walk.op);
    }
    return casts;
}

TirBlock *
fold_copy_casts(PassContext *px, TirFn *fn)
{
    OpList casts = casts_of(px->target, fn);
    TirBlock *before = casts.n > 0 ? clone_body(fn, fn->body) : NULL;

    for (uint32_t i = 0; i < casts.n; i++)
        fold_cast(fn, casts.at[i]);
    if (before != NULL)
        pass_simplify(px, fn); /* the casts go */
    return before;
}

TirFn *
with_copy_casts(PassContext *px, const TirFn *fn)
{
    TirFn *own = (TirFn *)fn;

    if (casts_of(px->target, fn).n > 0)
        fold_copy_casts(px, own = clone_kernel(fn));
    return own;
}
