/* product_form.h - the instruction of a product. */
#ifndef TILEC_PASSES_PRODUCT_FORM_H
#define TILEC_PASSES_PRODUCT_FORM_H

#include "compiler/passes/pass.h"

/* The one by which a role computes a product; NULL: there is none, or `op` is no product. */
const MmaForm *product_form(const Target *target, const TirOp *op);
/* The one by which warps compute a product; NULL: there is none. */
const MmaForm *product_form_by_warp(const Target *target, const TirOp *mma);
/* That one; where there is none for its operands, the one of a type in which they are exact. */
const MmaForm *product_form_alone(const Target *target, const TirOp *mma);

#endif
