/* built_plans.h - the plans that a search lists, and the options for one of them. */
#ifndef TILEC_BUILT_PLANS_H
#define TILEC_BUILT_PLANS_H

#include "compiler/choose/auto_plan.h"

/* The plans for these sizes, which are made smaller until the quickest takes no longer than is
 * asked. */
PlanCandidates built_plans(const Front *front, PassContext *px, Arena *trials, const TirFn *sample,
                           const TilecSearch *search, int64_t *sizes);
/* Puts what a compilation with these sizes takes, without a tuning database, first. */
void built_taken_first(const Front *front, PassContext *px, Arena *trials, const char *name,
                       const TilecSearch *search, PlanCandidates *plans);
/* "consumers=2,stages=2,..". */
void built_print_plan(const PlanHints *plan, Buf *out);
/* What compiles this very plan: "-D M=64 --plan=consumers=2,..". */
void built_print_options(const AutoTiles *open, const TileChoice *choice, Buf *out);

#endif
