/* tuning.h - the tuning database: what was measured, for `auto` to read.
 *
 * A text file, one JSON object a line, one measurement an object; lines are only ever added, so
 * that a search that was broken off goes on where it stopped.  What it means is in docs/search.md.
 */
#ifndef TILEC_TUNING_H
#define TILEC_TUNING_H

#include "compiler/front/front.h"
#include "compiler/ir/tir.h"
#include "compiler/passes/pass.h"
#include "compiler/target.h"

/* What the measurements say is best. */
typedef struct TuningChoice {
    int32_t values[MAX_AUTO]; /* of the open parameters, in their order */
    uint32_t warps, stages;   /* 0: not said */
    PlanHints plan;           /* no consumers: no warp groups */
    bool simulated;           /* by a timing model; nothing was measured */
    double microseconds;      /* of the measurement with the first sizes */
    uint32_t measurements;    /* of this choice */
    uint32_t others;          /* other choices it was better than */
} TuningChoice;

/* The best measured choice for kernel `sample`, whose parameters `open` are to be chosen; `warps`
 * and `stages` are pinned unless 0.  If several sizes were measured, the choices measured for the
 * most of them are compared, and the one that is nearest to the best on average is taken.  Lines
 * with a plan for warp groups count only if `plans`.  Lines that cannot be read give warnings with
 * `path`.  False when nothing was measured. */
bool tuning_find(Arena *arena, Diag *diag, const char *path, const char *text, const Target *target,
                 const TirFn *sample, const AutoTiles *open, bool plans, uint32_t warps,
                 uint32_t stages, TuningChoice *choice);

/* "measured" or "simulated". */
const char *tuning_origin(const TuningChoice *choice);

/* A plan for warp groups that was timed with all sizes. */
typedef struct TuningTime {
    int32_t values[MAX_AUTO];
    PlanHints plan;
    const int64_t *sizes; /* by the kernel's index */
    double microseconds;
} TuningTime;

typedef struct TuningTimes {
    TuningTime *at;
    uint32_t n;
} TuningTimes;

/* All of these. */
TuningTimes tuning_times(Arena *arena, Diag *diag, const char *path, const char *text,
                         const Target *target, const TirFn *sample, const AutoTiles *open);

#endif
