/* plan.h - the plan for warp groups: passes `plan` and `roles`. */
#ifndef TILEC_PASSES_PLAN_H
#define TILEC_PASSES_PLAN_H

#include "compiler/ir/layout.h"
#include "compiler/passrun.h"

/* What depends on an axis, by value: of the grid; or, NO_AXIS, of the bands that divide a tile. */
typedef struct Spread {
    uint32_t axis;
    bool *tainted;  /* on the index */
    uint8_t *along; /* bit d: dimension d runs along the axis */
} Spread;

/* One pass over a block; whether something new was found. */
bool plan_spread(Spread *p, const TirBlock *block);

/* plan_divide.c: has `bands` warp groups divide the tiles along which the main loop goes, and the
 * columns of what it adds up; `registers` a thread.  NULL, or why that can not be, and where; the
 * kernel is half done then. */
const char *plan_divide(TirFn *fn, TirOp *loop, uint32_t bands, int32_t registers, Span *where);

/* plan_order.c: the order of tiles, for a plan whose rings are made; `body` is the main loop's. */
void plan_tile_order(const Target *target, TirFn *fn, const TirBlock *body);

#endif
