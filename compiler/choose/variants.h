/* variants.h - a small set of plans that together are near the best for most sizes of the tensors.
 *
 * Launchers take the form of a kernel whose estimated clocks for their sizes are the least
 * (docs/metadata.md).
 */
#ifndef TILEC_VARIANTS_H
#define TILEC_VARIANTS_H

#include "compiler/choose/auto_plan.h"

enum { MOST_VARIANTS = 32 }; /* forms of a kernel in all */

typedef struct PlanVariant {
    TileChoice choice;
    const HostExpr *cost; /* clocks of a launch */
} PlanVariant;

typedef struct PlanVariants {
    PlanVariant at[MOST_VARIANTS]; /* the kernel's own form first */
    uint32_t n;
    const char *why; /* there is but one: the reason; NULL: it is near the best everywhere */
} PlanVariants;

/* The forms of kernel `name` beside `own`, which `auto` has taken.  The report gets the table of
 * sizes. */
PlanVariants plan_variants(const Front *front, PassContext *px, Arena *trials, const char *name,
                           const TileChoice *own);
/* Clocks of a launch of a kernel without products whose sizes are not open, on which all passes
 * have run; NULL: not known. */
const HostExpr *variant_clocks(PassContext *px, TirFn *fn);

#endif
