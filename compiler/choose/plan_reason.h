/* plan_reason.h - why a kernel has no plan for warp groups, for those who look at its schedule and for
 * --remarks. */
#ifndef TILEC_PLAN_REASON_H
#define TILEC_PLAN_REASON_H

#include "compiler/front/front.h"
#include "compiler/passes/pass.h"

/* What stands against a plan for kernel `name`, and where: "no loop has products (a.tile:12)".  NULL
 * when nobody looked for one. */
const char *plan_reason(const Front *front, const PassContext *px, Arena *trials, const char *name);
/* The same as a warning, or what the options make of that, or, where they are shown, a remark at that place; none
 * where nobody looks for one: no loop of the kernel has products, or it keeps warp groups out.  `error`: what the best
 * plan failed with; NULL: there was none.  How many warnings it gave. */
uint32_t plan_warning(const Front *front, const PassContext *px, Arena *trials, const TirFn *fn,
                      const char *error);

#endif
