/* kept_kernels.h - kernels with values for their `auto` parameters, for searches that try many.
 *
 * What the front end and the passes in front of `plan` make of a kernel follows from these values,
 * and from whether there is a plan: nothing there asks for warps, stages or what is in it, and one
 * search has plans or none.  So it is made once, kept, and copied for each of the warps, stages and
 * plans that are tried with the same values.  All lies in the arena of trials, the kept kernels
 * below; what a trial leaves there is forgotten when the next one asks for a kernel.
 */
#ifndef TILEC_KEPT_KERNELS_H
#define TILEC_KEPT_KERNELS_H

#include "compiler/choose/auto_tiles.h"
#include "compiler/passes/pass.h"

enum { MOST_KEPT = 32 };

typedef struct KeptKernel {
    int32_t values[MAX_AUTO];
    const char *replaced, *replacement;
    TirFn *fn;      /* NULL: it has errors */
    bool formed;    /* the passes as far as `form-products` have run .. */
    bool unplanned; /* .. those in front of `plan` .. */
    bool failed;    /* .. and one of them failed */
} KeptKernel;

typedef struct KeptKernels {
    Front front; /* into the arena of trials */
    PassContext *px;
    const char *kernel;
    KeptKernel at[MOST_KEPT];
    uint32_t n;
    AutoTiles open; /* which parameters are `auto`, once a kernel was made */
    ArenaMark top;  /* above what is kept */
} KeptKernels;

/* Empties the arena of trials. */
void kept_begin(KeptKernels *kept, const Front *front, PassContext *px, Arena *trials,
                const char *kernel);
/* The kernel with the values of `choice` as the front end makes it, to look at until the next call;
 * NULL after errors, which are not said. */
const TirFn *kept_source(KeptKernels *kept, const TileChoice *choice);
/* The same with middling values. */
const TirFn *kept_sample(KeptKernels *kept);
/* Whether the front end makes it without errors. */
bool kept_is_right(KeptKernels *kept, const TileChoice *choice);
/* It behind the pass `form-products`, to look at until the next call; NULL as below. */
TirFn *kept_formed(KeptKernels *kept, const TileChoice *choice);
/* It as the pass `plan` finds it, to look at until the next call; NULL after errors, or if a pass
 * failed. */
const TirFn *kept_unplanned(KeptKernels *kept, const TileChoice *choice);
/* A copy of that, for passes. */
TirFn *kept_copy(KeptKernels *kept, const TileChoice *choice);

#endif
