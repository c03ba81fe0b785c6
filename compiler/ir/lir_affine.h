/* lir_affine.h - loops of lane IR, and what grows evenly in them: for lir_carry.c and lir_split.c.
 *
 * Loops as the lowering makes them are meant: entered at their label from above, with one branch
 * back, and a counter that one instruction raises by a constant.  The counter times a tile's extent
 * is taken not to exceed 32 bits: it is a place in a tensor or less than a tile behind its end.
 */
#ifndef TILEC_LIR_AFFINE_H
#define TILEC_LIR_AFFINE_H

#include "compiler/ir/lir.h"

/* A register that is affine in the counter. */
typedef struct Affine {
    LirReg reg;
    LirInsn *insn; /* that makes it */
    bool is_known; /* what it grows by, times the counter's step, is `factor` */
    int64_t factor;
    LirReg first, last; /* in front of the loop: of its first iteration, and of one before that */
    /* whether the loop carries it (lir_carry.c) */
    bool is_read; /* by something else than insns of affine values */
    /* read where it can't be carried to: behind the counter's step, or behind the loop */
    bool is_fixed;
    bool is_carried;
    bool is_needed; /* must be computed in each iteration */
} Affine;

typedef struct AffineLoop {
    LirFn *fn;
    LirExtent extent;
    uint32_t *defs; /* by register: definitions in the loop, .. */
    uint32_t regs;  /* .. of so many registers: those that were there when it was taken up */
    bool *skipped;  /* by position in the loop: not executed exactly once in each iteration */
    LirReg counter;
    uint32_t step_at; /* where it is raised */
    int64_t step;
    uint32_t *slot; /* by register: 1 + index into `values` */
    VEC(Affine) values;
    VEC(LirInsn *) before; /* to go in front of the loop */
} AffineLoop;

/* Takes up loop `extent` of `fn`; false: it is none of those, or has no counter. */
bool affine_begin(AffineLoop *c);
/* Takes the counter that is raised at position `at`; false: none is, exactly once in each
 * iteration. */
bool affine_take_counter(AffineLoop *c, uint32_t at);
/* Finds what is affine in it; what computing that takes, in machine instructions. */
uint32_t affine_find(AffineLoop *c);
Affine *affine_of(const AffineLoop *c, LirReg reg); /* NULL: is not */
bool affine_is_invariant(const AffineLoop *c, const LirOperand *operand);
uint32_t affine_cost(const LirInsn *insn); /* machine instructions, about */
/* The value of `reg` in front of the loop: of the first iteration, or, with the counter of the one
 * before in `last`, of that. */
LirReg affine_in_front(AffineLoop *c, LirReg reg, LirReg last);
LirReg affine_new_reg(AffineLoop *c, LirClass class, bool is_mutable);
/* An instruction with two operands or, where its form has but one, the first. */
LirInsn *affine_new_insn(AffineLoop *c, LirOpcode op, LirReg to, LirOperand x, LirOperand y);

#endif
