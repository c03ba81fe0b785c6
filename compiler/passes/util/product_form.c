/* product_form.c - the instruction of a product. */
#include "compiler/passes/util/product_form.h"

const MmaForm *
product_form(const Target *target, const TirOp *op)
{
    if (op->op != TIR_MMA && op->op != TIR_TMEM_MMA)
        return NULL;
    if (op->n_args == TIR_MMA_SCALED)
        return target_role_scaled_mma(target, op->args[op->swap_ab]->type.dtype,
                                      op->args[!op->swap_ab]->type.dtype,
                                      op->args[TIR_MMA_PLAIN]->type.dtype);
    return target_role_mma(target, op->args[0]->type.dtype, op->args[1]->type.dtype);
}

const MmaForm *
product_form_by_warp(const Target *target, const TirOp *mma)
{
    DType a = mma->args[mma->swap_ab ? 1 : 0]->type.dtype,
          b = mma->args[mma->swap_ab ? 0 : 1]->type.dtype;

    return mma->n_args == TIR_MMA_SCALED
               ? target_scaled_mma(target, BY_WARP, a, b, mma->args[TIR_MMA_PLAIN]->type.dtype)
               : target_mma(target, BY_WARP, a, b);
}

const MmaForm *
product_form_alone(const Target *target, const TirOp *mma)
{
    return mma->n_args == TIR_MMA_SCALED
               ? product_form_by_warp(target, mma)
               : target_warp_mma(target, mma->args[0]->type.dtype, mma->args[1]->type.dtype);
}
