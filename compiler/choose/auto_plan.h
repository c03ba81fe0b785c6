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
    /* clocks by the sizes, of one that was made (launch_cost.h): for launchers, and to compare
     * plans; NULL: not known */
    const HostExpr *cost, *estimate;
} PlanCandidate;

typedef struct PlanCandidates {
    PlanCandidate *at; /* the best first */
    uint32_t n;
    AutoTiles open;
    bool sizes_known; /* of the tensors; else usual ones stand for them */
    bool taken;       /* the first is what a compilation takes: of a search */
} PlanCandidates;

/* All plans of kernel `name` for tensors of these sizes, the best first.  With `asked`, which has
 * the values to try for `auto` parameters and the numbers of consumers, each plan is built and the
 * list is ordered by their times.  Without it (NULL) the usual values are tried and the list is
 * ordered by quicker estimates: the work of one consumer stands for that of each, and if sizes are
 * not known the last wave counts as full. */
PlanCandidates auto_plan_candidates(const Front *front, PassContext *px, Arena *trials,
                                    const char *name, const struct TilecSearch *asked,
                                    const int64_t *sizes);
/* Ways to compile a kernel with roles, the best first: measured ones (tuning.h) before predicted
 * ones. None if the target predicts no roles, if no plan fits (a remark says why), if something
 * else was measured to be better, or if `px` pins no plan. */
TileChoices auto_plan_search(const Front *front, PassContext *px, Arena *trials, const TirFn *fn);

#endif
