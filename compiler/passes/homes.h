/* homes.h - sums of products that live in one set of registers, their home. */
#ifndef TILEC_PASSES_HOMES_H
#define TILEC_PASSES_HOMES_H

#include "compiler/ir/tir.h"

/* For each value, by id, the number of its home, from 1 on; 0: it has none.  NULL when a sum would
 * be used again after more was added to it, which one set of registers cannot do. */
uint32_t *product_homes(Arena *arena, const TirFn *fn);

#endif
