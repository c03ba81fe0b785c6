/* noop_proof.h - proves that an iteration does nothing when one of its masks hides everything. */
#ifndef TILEC_PASSES_NOOP_PROOF_H
#define TILEC_PASSES_NOOP_PROOF_H

#include "compiler/ir/tir.h"

/* True when the body of `loop`, run with every element of `mask` (a mask operation in it) hidden,
 * yields every carried value unchanged and adds nothing but zeros to memory.  Data is taken to be
 * finite: a hidden NaN or infinity may go unnoticed, as it should.  The signs of scalar parameters
 * come from the kernel's `require` lines. */
bool iteration_is_noop(Arena *arena, const TirFn *fn, const TirOp *loop, const TirOp *mask);

/* True when `branch`, in the body of `loop`, gives the same whether it is taken or not in the first
 * iteration, when carried values are what they begin with. */
bool branch_is_noop_at_first(Arena *arena, const TirFn *fn, const TirOp *loop, const TirOp *branch);

/* Whether every element of `value` is the same known number. */
bool value_is_constant(Arena *arena, const TirFn *fn, const TirVal *value, double *number);

/* Whether `value` is finite and above zero, by the kernel's `require` lines. */
bool value_is_positive(Arena *arena, const TirFn *fn, const TirVal *value);

/* Whether every element of `value` that `mask` hides is `number`, whatever the other elements are.
 * The mask's tile has the shape of `value`. */
bool hidden_elements_are(Arena *arena, const TirFn *fn, const TirOp *mask, const TirVal *value,
                         double number);

#endif
