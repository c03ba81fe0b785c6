/* form_products.c - products of floats of 8 bits in the form that the target has them.
 *
 *   level    tile IR, before masks and the plan
 *   does     without instructions for such operands: casts both to f16, in which they are exact.  Where the warp groups'
 *            instructions keep fewer bits of sums than f32 has: the product begins at zero, and its sum is added in f32,
 *            unless the program says that it may be fast
 *   leaves   a plan may refuse what is longer along the inner dimension than may be added up so (MmaForm.sums)
 *
 *     %acc2 = mma %a, %b, %acc          %p = mma %a, %b, 0
 *                                       %acc2 = add %acc, %p
 */
#include "compiler/passes/pass.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Former {
    const Target *target;
    bool cast; /* an operand was */
} Former;

static TirVal *
form_product(void *user, TirBuilder *b, TirOp *mma)
{
    Former *f = user;

    if (mma->op != TIR_MMA || !dtype_is_float(mma->args[0]->type.dtype) ||
        dtype_bits(mma->args[0]->type.dtype) != 8)
        return NULL;
    DType left = mma->args[0]->type.dtype, right = mma->args[1]->type.dtype;
    const MmaForm *role = target_role_mma(f->target, left, right);
    if (target_mma(f->target, BY_WARP, left, right) == NULL) {
        for (uint32_t k = 0; k < 2; k++)
            mma->args[k] = tir_cast(b, mma->args[k], DT_F16);
        f->cast = true;
        return NULL;
    }
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
