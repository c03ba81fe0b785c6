/* range.h - between which integers the values of a program lie: what may be rewritten since it does
 * not overflow. */
#ifndef TILEC_PASSES_RANGE_H
#define TILEC_PASSES_RANGE_H

#include "compiler/ir/tir.h"

/* All values of an i32 lie in it. */
typedef struct Range {
    int64_t least, most;
} Range;

/* An i32 scalar or tile, wherever it is no padding. */
Range range_of(const TirFn *fn, const TirVal *value);
/* a - b, in integers without end: it may lie outside of i32. */
Range range_of_difference(const TirFn *fn, const TirVal *a, const TirVal *b);
/* Whether all of a range, moved by `by`, are i32. */
bool range_fits(Range range, int64_t by);

#endif
