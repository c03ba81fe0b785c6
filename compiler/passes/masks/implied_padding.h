/* implied_padding.h - padding that a mask of the program hides already. */
#ifndef TILEC_PASSES_IMPLIED_PADDING_H
#define TILEC_PASSES_IMPLIED_PADDING_H

#include "compiler/ir/tir.h"

/* The range of an axis of a tile: it begins at `start`; elements at or after `bound` are
 * padding. */
typedef struct PaddedRange {
    const TirVal *start, *bound; /* NULL: no padding */
} PaddedRange;

/* Whether every element of `value` that is padding along `axis`, and not along the other axis, is
 * `fill`. */
bool padding_is_masked(Arena *arena, const TirFn *fn, const TirVal *value, uint32_t axis,
                       PaddedRange along, PaddedRange across, double fill);

#endif
