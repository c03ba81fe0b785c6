/* auto_plan.h - choosing a plan for warp groups: tiles, bands, depths of rings. */
#ifndef TILEC_AUTO_PLAN_H
#define TILEC_AUTO_PLAN_H

#include "compiler/auto_tiles.h"

struct Front;
/* Ways to compile kernel `name` with warp groups that share a block, the best first; none when the
 * target has no such products, when no plan fits (a remark says why) or `px` pins none. */
TileChoices auto_plan_search(const struct Front *front, PassContext *px, Arena *trials,
                             const char *name);

#endif
