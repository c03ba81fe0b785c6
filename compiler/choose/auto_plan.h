/* auto_plan.h - choosing a plan for warp groups: tiles, consumers, depths of pipelines. */
#ifndef TILEC_AUTO_PLAN_H
#define TILEC_AUTO_PLAN_H

#include "compiler/choose/auto_tiles.h"
#include "compiler/cost/consumer_time.h"

struct TilecSearch;

/* A plan, and why it is predicted to take what it takes. */
typedef struct PlanCandidate {
    TileChoice choice;
    ConsumerWork work; /* without loops */
    ConsumerTrips trips;
    ConsumerClocks clocks;
    bool pipelined;
    int64_t shared_bytes; /* of tiles */
    double microseconds;  /* predicted, for a chip at its full clock */
} PlanCandidate;

typedef struct PlanCandidates {
    PlanCandidate *at; /* the best first */
    uint32_t n;
    AutoTiles open;
} PlanCandidates;

/* All plans of kernel `name` that can be built, for tensors of these sizes; `asked` (NULL: the usual
 * ones) has the values to try for parameters that are `auto`, and the numbers of consumers. */
PlanCandidates auto_plan_candidates(const Front *front, PassContext *px, Arena *trials,
                                    const char *name, const struct TilecSearch *asked,
                                    const int64_t *sizes);
/* Ways to compile kernel `name` with warp groups that share a block, the best first: what was
 * measured (tuning.h) before what is predicted.  None when the target has no such products, when no
 * plan fits (a remark says why), when something else was measured to be better, or `px` pins none. */
TileChoices auto_plan_search(const Front *front, PassContext *px, Arena *trials,
                             const char *name);

#endif
