/* read_once.h - tiles that have each element of a range several times. */
#ifndef TILEC_PASSES_READ_ONCE_H
#define TILEC_PASSES_READ_ONCE_H

#include "compiler/ir/tir.h"

/* Whether the last dimension of a tile is a range, each of whose elements comes several times in a
 * row. */
bool repeats_elements(const TirOp *load);
/* If operation `at` of a block loads such a tile, as one of a packed type is, the elements are
 * loaded once, and spread. */
void read_bytes_once(TirFn *fn, TirBlock *block, uint32_t at);

#endif
