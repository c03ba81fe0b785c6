/* passrun.h - what a pass is given, and the runner of the pass table (passes.def). */
#ifndef TILEC_PASSRUN_H
#define TILEC_PASSRUN_H

#include "compiler/ir/lir.h"
#include "compiler/ir/tir.h"
#include "compiler/target.h"

/* Everything a pass may look at beside the function it changes. */
typedef struct PassContext {
    Arena *arena;
    Diag *diag;
    const Target *target;
    int32_t level;      /* -O0 .. -O3 */
    uint64_t disabled;  /* bit i: row i of passes.def is off (-fno-..) */
    Buf *report;        /* facts for --report; NULL: not wanted */
} PassContext;

/* Whether the pass (or named choice) of this name is on: passes.def's default at this level,
 * changed by -f and -fno-. */
bool pass_enabled(const PassContext *px, const char *name);

/* The passes, in compiler/passes/NAME.c; each returns whether it changed something. */
bool pass_split_loops(PassContext *px, TirFn *fn);
bool pass_imply_masks(PassContext *px, TirFn *fn);
bool pass_simplify(PassContext *px, TirFn *fn);
bool pass_fuse(PassContext *px, TirFn *fn);
bool pass_schedule(PassContext *px, TirFn *fn);
bool pass_assign_layout(PassContext *px, TirFn *fn);
bool pass_plan_shared(PassContext *px, TirFn *fn);
bool pass_place_sync(PassContext *px, TirFn *fn);

/* Tile IR, all fields filled in, to lane IR; NULL after a diagnostic. */
LirFn *lower_kernel(PassContext *px, TirFn *fn);

#endif
