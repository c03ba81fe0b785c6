/* affine.h - conditions of masks in a loop as affine functions of the loop's induction variable i
 * and of the coordinates inside the tile:
 *
 *     f(i, r, c) = alpha * i + beta_r * r + beta_c * c + rest  >= 0
 */
#ifndef TILEC_PASSES_AFFINE_H
#define TILEC_PASSES_AFFINE_H

#include "compiler/ir/tir.h"

enum { AFFINE_TERMS = 16, AFFINE_CONDITIONS = 16 };

/* alpha * i + sum of coefficient * value + constant + coordinates. */
typedef struct Affine {
    bool ok;
    int64_t alpha, constant;
    int64_t beta[2];   /* coefficients of the coordinates along each axis of the tile */
    int32_t extent[2]; /* and how far they run */
    int32_t inner[2];  /* the coordinate is that of a part of a pack (TirIndex); 0: of the tile */
    const TirVal *side[2]; /* f = side[0] - side[1] - 0 or 1, of a loop with the body .. */
    const TirBlock *body;
    bool or_before; /* an alternative to the condition in front of it: one of them is enough */
    uint32_t n;
    struct {
        int64_t coefficient;
        TirVal *value; /* i32 scalar from outside the loop */
    } terms[AFFINE_TERMS];
} Affine;

/* Adds to `out`, AFFINE_CONDITIONS at most, the comparisons whose conjunction is `value`, each as
 * f >= 0, or alternatives of them that move with the loop to one side; false: not of that form. */
bool affine_conditions(TirVal *value, const TirBlock *body, Affine *out, uint32_t *n);
/* Likewise those of some conjuncts of `value`: all that are of that form. */
void affine_conjuncts(TirVal *value, const TirBlock *body, Affine *out, uint32_t *n);
/* The extreme of the coordinates' part over the tile: its least (or greatest) value. */
int64_t affine_extreme(const Affine *f, bool greatest);
/* Whether affine_rest can make f's. */
bool affine_has_rest(const TirFn *fn, const Affine *f);
/* The loop-invariant part of f as a scalar that does not overflow, plus `more`, times `sign`. */
TirVal *affine_rest(TirBuilder *b, const Affine *f, int64_t more, int64_t sign);

#endif
