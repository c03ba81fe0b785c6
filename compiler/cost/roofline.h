/* roofline.h - what a launch asks of the units of a chip, and by which of them it is bound at best:
 * the roofline of the page of --emit=html.
 *
 * Work is counted as tiles are computed, those that reach past the end of a tensor whole.  Limits
 * are the chip's (clock_rows.h), with all SMs at their full clock.
 */
#ifndef TILEC_COST_ROOFLINE_H
#define TILEC_COST_ROOFLINE_H

#include "compiler/ir/tir.h"
#include "compiler/target.h"

typedef enum RoofUnit {
    ROOF_TENSOR,  /* operations of products */
    ROOF_SPECIAL, /* exp2, .. */
    ROOF_LANES,   /* other arithmetic of elements */
    ROOF_CACHE,   /* bytes that programs ask of the L2 cache */
    ROOF_MEMORY,  /* bytes of the tensors, each once */
    ROOF_UNITS
} RoofUnit;

typedef struct Roofline {
    const int64_t *sizes;                      /* of the tensors, by index */
    double work[ROOF_UNITS], rate[ROOF_UNITS]; /* rate: of the chip, a clock */
    double clocks[ROOF_UNITS];                 /* work / rate */
    RoofUnit bound;                            /* what takes longest */
    double mhz;
} Roofline;

/* Of a kernel on which the passes up to `split-exp2` have run, for its usual sizes.  NULL: the
 * chip's limits are not known, or there is nothing to do. */
Roofline *roofline_of(Arena *arena, const Target *target, const TirFn *fn);
/* As HTML: a picture, and a row for each unit.  `microseconds`: of a launch, as it is predicted; 0:
 * it is not. */
void roofline_html(const TirFn *fn, const Roofline *roof, double microseconds, Buf *out);

#endif
