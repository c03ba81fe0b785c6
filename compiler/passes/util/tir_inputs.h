/* tir_inputs.h - goes through what a value is computed from: each value once, however often it is
 * read, so that `p = p * p + p`, forty times over, is forty values and not 2^40 ways.
 *
 *     for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
 *         .. in.value ..                    the value itself first
 *         tir_inputs_follow(&in);           goes on to the operands of its operation, the first one next
 *     }
 *
 * Where nothing is followed the walk ends.  Memory is taken from the arena once something is.
 */
#ifndef TILEC_PASSES_TIR_INPUTS_H
#define TILEC_PASSES_TIR_INPUTS_H

#include "compiler/ir/tir.h"

typedef struct TirInputs {
    TirVal *value; /* at hand */
    Arena *arena;
    VEC(TirVal *) left;    /* to go through, the next one last */
    uint32_t *seen, words; /* a bit for each value, by its id */
    const TirVal *first;   /* that the walk begins with, until it is taken */
} TirInputs;

TirInputs tir_inputs(Arena *arena, const TirVal *value);
bool tir_inputs_next(TirInputs *in);
void tir_inputs_follow(TirInputs *in);
/* Goes on to this value, before all others that are left. */
void tir_inputs_add(TirInputs *in, const TirVal *value);

#endif
