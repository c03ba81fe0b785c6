/* implied_padding.h - padding that a mask of the program hides already. */
#ifndef TILEC_PASSES_IMPLIED_PADDING_H
#define TILEC_PASSES_IMPLIED_PADDING_H

#include "compiler/ir/tir.h"

/* A range that an axis of a tile runs along: it begins at `start`, and what lies at or past `bound`
 * is padding. */
typedef struct PaddedRange {
    const TirVal *start, *bound; /* NULL: no padding */
} PaddedRange;

/* Whether elements of `value` that are padding along `axis` are all `fill`, as far as they are not
 * padding along the other axis as well. */
bool padding_is_masked(Arena *arena, const TirFn *fn, const TirVal *value, uint32_t axis,
                       PaddedRange along, PaddedRange across, double fill);

#endif
