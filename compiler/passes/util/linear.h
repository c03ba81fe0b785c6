/* linear.h - integers as linear sums, to prove that two are equal for all sizes. */
#ifndef TILEC_PASSES_LINEAR_H
#define TILEC_PASSES_LINEAR_H

#include "compiler/ir/tir.h"

enum { LINEAR_TERMS = 12 };

/* A sum of named sizes, other scalars and ranges with integer coefficients; `ok` is false if the
 * integer has no such form.  `axis`: along which axis of what was added a range stands: the same
 * range along another one is another index. */
typedef struct Linear {
    bool ok;
    int64_t constant;
    uint32_t n, steps; /* terms; definitions that were followed for them */
    struct {
        int64_t coefficient;
        const TirVal *value;
        uint32_t axis;
    } terms[LINEAR_TERMS];
} Linear;

/* Adds `scale` times an integer to the sum. */
void linear_add(Linear *sum, const TirVal *value, int64_t scale);
/* Whether two sums are the same integer. */
bool linear_equal(const Linear *a, const Linear *b);
/* b - a of a comparison a < b of integers; not `ok`: it is none. */
Linear linear_slack(const TirOp *condition);
/* Whether two scalars are one: the same value, size, index of the grid or constant. */
bool linear_same_value(const TirVal *a, const TirVal *b);

#endif
