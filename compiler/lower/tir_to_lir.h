/* tir_to_lir.h - the lowering. */
#ifndef TILEC_TIR_TO_LIR_H
#define TILEC_TIR_TO_LIR_H

#include "compiler/ir/lir.h"
#include "compiler/passes/pass.h"

/* Tile IR, all fields filled in, to lane IR; NULL after a diagnostic.  `counted`: with the
 * registers that it needs. */
LirFn *lower_kernel(PassContext *px, TirFn *fn, bool counted);

#endif
