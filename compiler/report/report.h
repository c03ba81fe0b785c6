/* report.h - what --report says about the code of a kernel. */
#ifndef TILEC_REPORT_H
#define TILEC_REPORT_H

#include "compiler/ir/lir.h"
#include "compiler/ir/tir.h"
#include "compiler/target.h"

/* Shared memory, registers of lane IR, and for each innermost loop the instructions and bytes of
 * one iteration by kind. */
void report_kernel(const TirFn *fn, const LirFn *lowered, const Target *target, Buf *out);

#endif
