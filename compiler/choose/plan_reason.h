/* plan_reason.h - why a kernel has no plan for warp groups, for those who look at its schedule and
 * for --remarks. */
#ifndef TILEC_PLAN_REASON_H
#define TILEC_PLAN_REASON_H

#include "compiler/choose/auto_tiles.h"
#include "compiler/front/front.h"
#include "compiler/passes/pass.h"

/* Why kernel `name` has no plan, and where: "its loop has no products (a.tile:12)".  NULL when no
 * plan was looked for. */
const char *plan_reason(const Front *front, const PassContext *px, Arena *trials, const char *name);
/* Gives the same as a warning (-Wplan), or as a remark if remarks are shown; returns the number of
 * warnings. None for a kernel whose loops have no products, or that pins no plan.  `error`: why the
 * best plan could not be built; NULL: there was no plan. */
uint32_t plan_warning(const Front *front, const PassContext *px, Arena *trials, const TirFn *fn,
                      const char *error);
/* The same as an error of a search that found none.  `values`: of the `auto` parameters; NULL:
 * middling ones. */
void plan_search_error(const Front *front, const PassContext *px, Arena *trials, const TirFn *fn,
                       const TileChoice *values);
/* Warns of a plan of the command line that is for no kernel of the module; returns how many. */
uint32_t plan_unused_warning(const Front *front, const TirModule *module);

#endif
