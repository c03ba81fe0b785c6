/* plan.h - the plan for warp groups: passes `plan` and `roles`. */
#ifndef TILEC_PASSES_PLAN_H
#define TILEC_PASSES_PLAN_H

#include "compiler/ir/layout.h"
#include "compiler/passrun.h"

#endif
