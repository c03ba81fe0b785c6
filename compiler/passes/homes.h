/* homes.h - sums of products that live in one set of registers, their home. */
#ifndef TILEC_PASSES_HOMES_H
#define TILEC_PASSES_HOMES_H

#include "compiler/ir/tir.h"

typedef struct ProductHomes {
    uint32_t *of;  /* by value's id: the number of its home, from 1 on; 0: it has none */
    bool *at_once; /* by value's id: is made where it stands, and not when it is asked for: something that it
                      is made of is at home, and another value is by then */
} ProductHomes;

/* Whether a value with a home is in its registers from the start, and not moved there. */
bool is_made_at_home(const TirVal *value);

ProductHomes product_homes(Arena *arena, const TirFn *fn);

#endif
