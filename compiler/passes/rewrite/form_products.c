/* form_products.c - products in the form that the target has them.
 *
 *   level    tile IR, before masks and the plan
 *   does     without an instruction for the operands' types: casts both to a type that has one and
 *            in which they are exact. Where the warp groups' instruction keeps fewer bits of sums
 *            than f32 has (MmaForm.sums): the product begins at zero, and its sum is added in f32,
 *            unless the program says that it may be fast.  (mma.sync's parts are added up when it
 *            is lowered.) A product with scales of blocks is one of its operands as they are, where
 *            a warp's instruction takes those and all of them are loaded, scales of just what is
 *            inside of the tensors; else it is that in bf16, exact, too.  Where the instruction is
 *            a thread's, which takes a plan, the kernel as it was is kept for when there is none
 *   leaves   a plan may refuse what is longer along the inner dimension than may be added up so
 *
 *     %acc2 = mma %a, %b, %acc          %p = mma %a, %b, 0
 *                                       %acc2 = add %acc, %p
 */
#include <math.h>

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Former {
    const Target *target;
    const TirFn *fn;
    bool takes_scales;
    bool planned; /* there is to be a plan */
    bool cast;    /* an operand was */
    bool scaled;  /* a product had two forms */
} Former;

/* ---- scales ---- */

/* An extent, as `times` / `parts` of a size; NO_SIZE: a number. */
typedef struct Extent {
    uint32_t size;
    int64_t times, parts;
} Extent;

enum { NO_SIZE = UINT32_MAX };

static Extent
extent_of(const TirFn *fn, const TensorDim *dim)
{
    if (dim->constant > 0)
        return (Extent){NO_SIZE, dim->constant, 1};
    const HostExpr *value = fn->sizes.at[dim->size].value;
    if (value != NULL && (value->kind == HOST_DIV || value->kind == HOST_CDIV) &&
        value->a->kind == HOST_SIZE && value->b->kind == HOST_INT && value->b->integer > 0 &&
        tir_requires_multiple(fn, value->a, value->b->integer))
        return (Extent){value->a->index, 1, value->b->integer};
    return (Extent){dim->size, 1, 1};
}

/* The range by which a tile is loaded along an axis. */
typedef struct Loaded {
    bool ok;
    Linear start;
    Extent extent;
} Loaded;

/* What a sum is, if it is one value; else NULL. */
static const TirOp *
only_term(const Linear *sum)
{
    const TirOp *found = NULL;

    for (uint32_t k = 0; k < sum->n; k++) {
        if (sum->terms[k].coefficient == 0)
            continue;
        if (found != NULL || sum->terms[k].coefficient != 1 || sum->terms[k].value->def == NULL)
            return NULL;
        found = sum->terms[k].value->def;
    }
    return found;
}

/* The load that a tile is, or is computed of element by element; NULL: it is of something else. */
static const TirOp *
load_behind(const TirVal *value, uint32_t *axis)
{
    const TirOp *op = value->def;

    while (op != NULL && op->op != TIR_LOAD) {
        bool first = op->n_args > 0 &&
                     (op->op == TIR_TRANSPOSE || tir_axis_use(op) == AXIS_ELEMENTWISE);
        if (op->op == TIR_TRANSPOSE)
            *axis = 1 - *axis;
        op = first ? op->args[0]->def : NULL;
    }
    return op;
}

static Loaded
loaded_along(const TirFn *fn, const TirVal *value, uint32_t axis)
{
    const TirOp *op = load_behind(value, &axis);
    Loaded out = {.start = {.ok = true}};

    if (op == NULL)
        return out;
    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        if (d.axis != axis)
            continue;
        bool alone = d.index->rows == 0,
             each = d.index->inner == 2 && d.index->rows == 2 * d.length;
        int64_t times = each ? 2 : 1; /* a byte for each of its two elements */
        out.ok = !d.places && !d.strided && (alone || each);
        out.extent = extent_of(fn, &op->tensor->dim[d.dim]);
        out.extent.times *= times;
        if (d.at != NULL)
            linear_add(&out.start, d.at, times);
        if (d.limit == NULL)
            continue;
        Linear end = out.start; /* of elements, in the middle of a byte, too */
        linear_add(&end, d.limit, 1);
        const TirOp *size = end.ok && end.constant == 0 ? only_term(&end) : NULL;
        out.ok = out.ok && each && size != NULL && size->op == TIR_SIZE;
        out.extent = (Extent){size != NULL ? (uint32_t)size->integer : 0, 1, 1};
    }
    return out;
}

/* Whether the same is inside of the tensors along both ranges, where an element of the second is
 * `times` of the first. */
static bool
is_along(const Loaded *x, const Loaded *y, int64_t times)
{
    Linear start = {.ok = y->start.ok, .constant = times * y->start.constant, .n = y->start.n};

    for (uint32_t k = 0; k < y->start.n; k++) {
        start.terms[k] = y->start.terms[k];
        start.terms[k].coefficient *= times;
    }
    return x->ok && y->ok && linear_equal(&x->start, &start) && x->extent.size == y->extent.size &&
           x->extent.times * y->extent.parts == times * y->extent.times * x->extent.parts;
}

static bool
is_finite_constant(const TirVal *scales)
{
    return scales->def != NULL && scales->def->op == TIR_CONST && isfinite(scales->def->number);
}

/* Whether elements and scales are padding together. */
static bool
scales_fit(const TirFn *fn, TirVal *const own[4])
{
    Loaded sides[2];

    if (is_finite_constant(own[2]) && is_finite_constant(own[3]))
        return true;
    for (uint32_t k = 0; k < 2; k++) {
        sides[k] = loaded_along(fn, own[k], 1 - k);
        Loaded scales = loaded_along(fn, own[2 + k], 1 - k);
        int32_t each = own[k]->type.dim[1 - k] / own[2 + k]->type.dim[1 - k];
        if (!is_finite_constant(own[2 + k]) && !is_along(&sides[k], &scales, each))
            return false;
    }
    return is_along(&sides[0], &sides[1], 1);
}

/* The instruction for operands and their scales, of a warp or, if there is to be a plan, of who
 * issues products then. */
static const MmaForm *
form_with_scales(const Former *f, TirVal *const own[4])
{
    DType a = own[0]->type.dtype, b = own[1]->type.dtype, scale = own[2]->type.dtype;

    return f->planned ? target_role_scaled_mma(f->target, a, b, scale)
                      : target_scaled_mma(f->target, BY_WARP, a, b, scale);
}

/* Of a product that has two forms, leaves one. */
static void
take_form(Former *f, TirOp *mma)
{
    TirVal **own = mma->args + TIR_MMA_OWN;

    f->scaled = true;
    mma->n_args = TIR_MMA_PLAIN;
    if (!f->takes_scales || form_with_scales(f, own) == NULL || !scales_fit(f->fn, own))
        return;
    mma->args[0] = own[0];
    mma->args[1] = own[1];
    mma->args[TIR_MMA_PLAIN] = own[2];
    mma->args[TIR_MMA_PLAIN + 1] = own[3];
    mma->n_args = TIR_MMA_SCALED;
}

/* ---- operands ---- */

static void
widen(Former *f, TirBuilder *b, TirOp *mma)
{
    const MmaForm *form = target_warp_mma(f->target, mma->args[0]->type.dtype,
                                          mma->args[1]->type.dtype);

    for (uint32_t k = 0; k < 2 && form != NULL; k++) { /* none: an error of the lowering */
        DType wanted = k == 0 ? form->a_type : form->b_type;
        if (mma->args[k]->type.dtype == wanted)
            continue;
        mma->args[k] = tir_cast(b, mma->args[k], wanted);
        f->cast = true;
    }
}

static TirVal *
form_product(void *user, TirBuilder *b, TirOp *mma)
{
    Former *f = user;

    if (mma->op != TIR_MMA)
        return NULL;
    if (mma->n_args == TIR_MMA_BOTH)
        take_form(f, mma);
    if (mma->n_args == TIR_MMA_SCALED)
        return NULL;
    widen(f, b, mma);
    const MmaForm *role = product_form(f->target, mma);
    if (mma->fast || role == NULL || role->sums == 0 || role->issuer != BY_WARP_GROUP ||
        tir_is_zero(mma->args[2]))
        return NULL;
    TirVal *sum = tir_mma(b, mma->args[0], mma->args[1], NULL);
    return tir_binary(b, TIR_ADD, mma->args[2], sum);
}

static bool
has_two_forms(const TirFn *fn)
{
    bool has = false;

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);)
        has = has || (walk.op->op == TIR_MMA && walk.op->n_args == TIR_MMA_BOTH);
    return has;
}

bool
form_products_anew(PassContext *px, TirFn *fn)
{
    const TirBlock *before = fn->unformed;

    fn->unformed = NULL;
    if (before == NULL || fn->plan != NULL)
        return false;
    fn->body = clone_body(fn, before); /* copies of the kernel have it, too */
    px->plan.consumers = 0;
    return true;
}

bool
pass_form_products(PassContext *px, TirFn *fn)
{
    Former f = {.target = px->target,
                .fn = fn,
                .takes_scales = switch_is_on(px, "take-scales"),
                .planned = px->plan.consumers > 0};
    if (f.takes_scales && f.planned && target_has_mma(f.target, BY_THREAD) && has_two_forms(fn))
        fn->unformed = clone_body(fn, fn->body);
    bool apart = tir_rewrite(px->arena, fn, fn->body, form_product, &f);

    if (apart || f.scaled) /* what was replaced goes */
        pass_simplify(px, fn);
    return apart || f.cast || f.scaled;
}
