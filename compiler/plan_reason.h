/* plan_reason.h - why a kernel has no plan for warp groups, for those who look at its schedule. */
#ifndef TILEC_PLAN_REASON_H
#define TILEC_PLAN_REASON_H

#include "compiler/front.h"
#include "compiler/passrun.h"

/* What stands against a plan for kernel `name`, and where: "no loop has products (a.tile:12)".  NULL
 * when nobody looked for one. */
const char *plan_reason(const Front *front, const PassContext *px, Arena *trials, const char *name);

#endif
