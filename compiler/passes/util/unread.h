/* unread.h - what loops and branches hand on, and nobody reads. */
#ifndef TILEC_PASSES_UNREAD_H
#define TILEC_PASSES_UNREAD_H

#include "compiler/ir/tir.h"

/* Drops carried values of loops and results of branches in `body` that have no influence on memory,
 * such as a sum that only goes into itself.  Whether there were some. */
bool drop_unread(Arena *arena, TirFn *fn, TirBlock *body);
/* Drops operations whose results are not read, either. */
void drop_unread_operations(Arena *arena, TirFn *fn, TirBlock *body);
/* The first operation of this kind whose result has no influence on memory; NULL: there is none. */
const TirOp *find_unread(Arena *arena, const TirFn *fn, const TirBlock *body, TirOpcode of);

#endif
