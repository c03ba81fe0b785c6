/* tir_compute.h - what operations on two integers give, of any length. */
#ifndef TILEC_IR_TIR_COMPUTE_H
#define TILEC_IR_TIR_COMPUTE_H

#include "compiler/ir/tir.h"

/* False: it is no such operation, or gives no number. */
bool tir_compute(TirOpcode op, int64_t x, int64_t y, int64_t *out);
bool host_compute(HostKind kind, int64_t x, int64_t y, int64_t *out);

#endif
