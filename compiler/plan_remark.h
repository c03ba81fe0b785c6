/* plan_remark.h - why a kernel has no plan for warp groups, for --remarks. */
#ifndef TILEC_PLAN_REMARK_H
#define TILEC_PLAN_REMARK_H

#include "compiler/front.h"
#include "compiler/passrun.h"

/* A remark about kernel `name`, for which no plan was found; none where nobody looked for one. */
void plan_remark(const Front *front, const PassContext *px, Arena *trials, const char *name);

#endif
