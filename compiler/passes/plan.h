/* plan.h - the plan for warp groups: passes `plan` and `roles`. */
#ifndef TILEC_PASSES_PLAN_H
#define TILEC_PASSES_PLAN_H

#include "compiler/ir/layout.h"
#include "compiler/passrun.h"

/* plan_order.c: the order of tiles, for a plan whose rings are made; `body` is the main loop's. */
void plan_tile_order(const Target *target, TirFn *fn, const TirBlock *body);

#endif
