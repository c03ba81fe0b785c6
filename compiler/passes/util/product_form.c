/* product_form.c - the instruction of a product. */
#include "compiler/passes/util/product_form.h"

const MmaForm *
product_form(const Target *target, const TirOp *op)
{
    if (op->op != TIR_MMA)
        return NULL;
    return target_role_mma(target, op->args[0]->type.dtype, op->args[1]->type.dtype);
}
