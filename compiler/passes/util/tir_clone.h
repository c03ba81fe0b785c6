/* tir_clone.h - copies of operations with other operands. */
#ifndef TILEC_PASSES_TIR_CLONE_H
#define TILEC_PASSES_TIR_CLONE_H

#include "compiler/ir/tir.h"

/* Replacements for the values that existed when the map was made; all other values stay. */
typedef struct CloneMap {
    TirVal **to; /* by id; NULL: the value itself */
    uint32_t n;
} CloneMap;

CloneMap clone_map(TirFn *fn);
/* A map that begins as a copy of `from`. */
CloneMap clone_map_copy(TirFn *fn, const CloneMap *from);
void clone_set(CloneMap *map, const TirVal *from, TirVal *to);
TirVal *clone_of(const CloneMap *map, TirVal *value);
/* Appends a copy of `op`, with the blocks it owns, to the builder's block; `map` learns its
 * results. Layouts and places are not copied: they are not known yet. */
TirOp *clone_op(TirBuilder *b, CloneMap *map, const TirOp *op);
/* Appends an operation that differs from `op` in operands and types of results alone; `op` owns no
 * blocks. */
TirOp *clone_with(TirBuilder *b, const TirOp *op, TirVal **args, const TirType *types);
/* A copy of the body of a kernel. */
TirBlock *clone_body(TirFn *fn, const TirBlock *body);
/* A copy of a kernel to which no pass has added anything but operations: what is done to one is not
 * seen in the other, but that they have the same tensors. */
TirFn *clone_kernel(const TirFn *fn);
/* Whether the scalar that `op` computes is the same wherever it is computed again from the same
 * operands. */
bool scalar_can_be_again(const TirOp *op);
/* Whether a scalar can be computed ahead of its iteration, as by a producer: by pure scalar
 * operations on sizes, parameters, the grid, the numbers of iterations, and what is loaded by such
 * an index. */
bool scalar_is_known_ahead(Arena *arena, const TirVal *value);
/* Computes the scalar `value` again at `b`, by copying every operation that it depends on and that
 * `map` does not replace.  NULL when it depends on an operation that cannot be repeated. */
TirVal *clone_scalar_tree(TirBuilder *b, CloneMap *map, TirVal *value);
/* A launcher's expression as a run-time i32 scalar; NULL if a part of it is not an integer. */
TirVal *clone_host(TirBuilder *b, const HostExpr *expr);

#endif
