/* lir_fold.h - integer arithmetic on constants, done while lane IR is built. */
#ifndef TILEC_IR_LIR_FOLD_H
#define TILEC_IR_LIR_FOLD_H

#include "compiler/ir/lir.h"

/* Whether a pure instruction (LF_FOLDS) need not be made: `result` is then a register with its
 * value.  If it must, `sources` may have been replaced by constants, or changed places. */
bool lir_fold(LirBuilder *b, LirOpcode op, uint32_t n, LirOperand *sources, LirReg *result);

#endif
