/* row_ranks.h - what launches of shapes of tiles cost at least, of a kernel without products, from
 * two of these shapes.
 *
 * Tiles of the grid, iterations and accesses (launch_rows.h) of both have numbers in the same
 * places.  A number that is the same in both, or a product of values of `auto` parameters, or one
 * less, is taken to be that in all shapes: which, the two tell, since no two products change
 * alike.  So shapes are compared without making them.
 */
#ifndef TILEC_ROW_RANKS_H
#define TILEC_ROW_RANKS_H

#include "compiler/cost/launch_rows.h"
#include "compiler/front/front.h"

enum { RANKED_AUTOS = 3 }; /* parameters whose values are not those of another */

/* Values of the two shapes: FIRST is of front_middling. */
enum { RANKS_FIRST = 64 };
extern const int32_t ranks_second[RANKED_AUTOS];

/* Sizes that a kernel is looked at with. */
typedef struct RowSamples {
    int64_t *
        /* of each sample `stride` numbers: the kernel's sizes, then room for MAX_AUTO values */
        sizes;
    uint32_t n, own; /* samples; sizes of the kernel */
} RowSamples;

static inline int64_t *
row_sample(const RowSamples *samples, uint32_t k)
{
    return &samples->sizes[k * (samples->own + MAX_AUTO)];
}

/* Terms of a shape, or of all of them, with what of them no shape changes. */
typedef struct RowRanks {
    const Target *target;
    const RowSamples *samples;
    RowTerms terms; /* values of parameters are sizes behind the kernel's own */
    /* accesses to tensors of as many elements are a group: that of an access; clocks of a group;
     * elements of a group at a sample */
    uint32_t *group, n_groups;
    int64_t *clocks, *elements;
} RowRanks;

/* A shape's threads, as far as they are known. */
typedef struct RowThreads {
    double lanes;   /* clocks of a lane's work in an iteration */
    int32_t blocks; /* on an SM */
} RowThreads;

/* Terms of all shapes from two; false: numbers of the two are not what is said above.  `own`: sizes
 * of the kernel. */
bool row_ranks_fit(Arena *arena, uint32_t own, uint32_t autos, const RowTerms *first,
                   const RowTerms *second, RowTerms *out);
RowRanks row_ranks_of(Arena *arena, const Target *target, const RowSamples *samples,
                      const RowTerms *terms);
/* Clocks of launches, on average over samples, by accesses alone (threads NULL), or with such
 * threads. */
double row_ranks_clocks(const RowRanks *ranks, const int32_t *values, const RowThreads *threads);

#endif
