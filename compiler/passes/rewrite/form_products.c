/* form_products.c - products in the form that the target has them.
 *
 *   level    tile IR, before masks and the plan
 *   does     without an instruction for the operands' types: casts both to a type that has one and in which they are exact.
 *            Where the warp groups' instruction keeps fewer bits of sums than f32 has (MmaForm.sums): the product begins at
 *            zero, and its sum is added in f32, unless the program says that it may be fast.  (mma.sync's parts are added
 *            up when it is lowered.)
 *   leaves   a plan may refuse what is longer along the inner dimension than may be added up so
 *
 *     %acc2 = mma %a, %b, %acc          %p = mma %a, %b, 0
 *                                       %acc2 = add %acc, %p
 */
#include "compiler/passes/pass.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Former {
    const Target *target;
    bool cast; /* an operand was */
} Former;

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
    widen(f, b, mma);
    const MmaForm *role = product_form(f->target, mma);
    if (mma->fast || role == NULL || role->sums == 0 || role->issuer != BY_WARP_GROUP ||
        tir_is_zero(mma->args[2]))
        return NULL;
    TirVal *sum = tir_mma(b, mma->args[0], mma->args[1], NULL);
    return tir_binary(b, TIR_ADD, mma->args[2], sum);
}

bool
pass_form_products(PassContext *px, TirFn *fn)
{
    Former f = {.target = px->target};
    bool apart = tir_rewrite(px->arena, fn, fn->body, form_product, &f);

    if (apart) /* the product that was replaced goes */
        pass_simplify(px, fn);
    return apart || f.cast;
}
