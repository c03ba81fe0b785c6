/* auto_plan.h - choosing a plan for warp groups: tiles, consumers, depths of pipelines. */
#ifndef TILEC_AUTO_PLAN_H
#define TILEC_AUTO_PLAN_H

#include "compiler/choose/auto_tiles.h"
#include "compiler/cost/kernel_time.h"

struct TilecSearch;

/* A plan, and why it is predicted to take what it takes. */
typedef struct PlanCandidate {
    TileChoice choice;
    ConsumerWork work; /* without loops */
    ConsumerTrips trips;
    ConsumerClocks clocks;
    bool pipelined;
    int64_t shared_bytes; /* of tiles */
    double microseconds;  /* of a launch: an estimate until .. */
    /* .. the plan was made: then the time (kernel_time.h), as all others quote it */
    bool built;
} PlanCandidate;

typedef struct PlanCandidates {
    PlanCandidate *at; /* the best first */
    uint32_t n;
    AutoTiles open;
} PlanCandidates;

/* All plans of kernel `name`, for tensors of these sizes; `asked` has the values to try for parameters that are
 * `auto`, and the numbers of consumers: then each plan has been made, and the list is in the order of their times.
 * Where it is NULL the values are the usual ones, and the order is that of estimates: what one consumer does alone
 * stands for each of several, and the last wave of blocks is full where the sizes are not known. */
PlanCandidates auto_plan_candidates(const Front *front, PassContext *px, Arena *trials,
                                    const char *name, const struct TilecSearch *asked,
                                    const int64_t *sizes);
/* Ways to compile kernel `name` with warp groups that share a block, the best first: what was
 * measured (tuning.h) before what is predicted.  None when the target has no such products, when no
 * plan fits (a remark says why), when something else was measured to be better, or `px` pins none. */
TileChoices auto_plan_search(const Front *front, PassContext *px, Arena *trials, const char *name);

#endif
