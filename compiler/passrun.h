/* passrun.h - what a pass is given, and the runner of the pass table (passes.def). */
#ifndef TILEC_PASSRUN_H
#define TILEC_PASSRUN_H

#include "compiler/ir/lir.h"
#include "compiler/ir/tir.h"
#include "compiler/target.h"

/* What a plan for warp groups is to look like; passes/plan.c finds the rest. */
typedef struct PlanHints {
    uint32_t consumers;   /* warp groups that compute; 0: no plan */
    uint32_t stages;  /* stages of pipelines that the main loop goes around */
    uint32_t q_stages; /* of pipelines that are filled once for a tile of the grid */
    bool persistent;  /* blocks go through several tiles of the grid */
    bool dynamic;     /* .. drawn from a counter where they differ in length */
    bool pingpong;       /* consumers that have equally many iterations start products one after the other */
    bool paired;      /* blocks run in clusters of two, which share what they load */
    bool cooperative;     /* consumers divide the tiles of one program, not the programs among them */
    bool pipelined;   /* products under the arithmetic of the next iteration, if registers allow */
    uint32_t given;   /* bits: what was asked for by name, see plan_is_given */
} PlanHints;

/* Reads the text of --plan; false, and why, when it is wrong.  "none" gives no consumers. */
bool plan_hints_read(const char *text, PlanHints *out, const char **fault);
/* What a key of that text may be, and its name; NULL: there is no such key. */
const char *plan_key_range(const char *name, uint32_t *least, uint32_t *most);
/* The names of the keys; NULL behind the last one. */
const char *plan_key_name(uint32_t k);
bool plan_is_given(const PlanHints *hints, const char *name);

/* What is said of roles that nothing could be proved of. */
typedef enum Unproved { UNPROVED_ERROR, UNPROVED_WARNING, UNPROVED_UNSAID } Unproved;

/* Everything a pass may look at beside the function it changes. */
typedef struct PassContext {
    Arena *arena;
    Diag *diag;
    const Target *target;
    int32_t level;      /* -O0 .. -O3 */
    uint64_t enabled;   /* bit i: row i of passes.def is on whatever the level (-f..) */
    uint64_t disabled;  /* bit i: row i of passes.def is off (-fno-..) */
    uint32_t warps, stages; /* pinned on the command line; 0: not */
    PlanHints plan;
    Span plan_span;     /* where the source pins the plan: what can not be had of it is an error;
                           {0, 0}: the source does not */
    const char *no_plan; /* set by pass `plan`: why there is none, and where */
    Span no_plan_at;
    Unproved unproved;
    bool in_sequence;   /* the module has other kernels, which run before this one or behind it */
    bool trial;         /* only the cost is wanted: what cost.c does not look at may be left out */
    Buf *report;        /* facts for --report; NULL: not wanted */
    Buf *bugs;          /* where a pass writes what it finds to be wrong with another one's work */
} PassContext;

/* Says that `what` of a plan that the source pins can not be had: an error at the plan with a note
 * at `where`.  Does nothing for a plan that came from elsewhere. */
void plan_not_kept(const PassContext *px, const TirFn *fn, Span where, const char *what);

/* Whether the pass (or named choice) of this name is on: passes.def's default at this level,
 * changed by -f and -fno-. */
bool pass_enabled(const PassContext *px, const char *name);

/* The passes, in compiler/passes/NAME.c; each returns whether it changed something. */
bool pass_align_tiles(PassContext *px, TirFn *fn);
bool pass_split_loops(PassContext *px, TirFn *fn);
bool pass_imply_masks(PassContext *px, TirFn *fn);
bool pass_simplify(PassContext *px, TirFn *fn);
bool pass_fuse(PassContext *px, TirFn *fn);
bool pass_carry_choices(PassContext *px, TirFn *fn);
bool pass_plan(PassContext *px, TirFn *fn);
bool pass_roles(PassContext *px, TirFn *fn);
bool pass_schedule(PassContext *px, TirFn *fn);
bool pass_sink(PassContext *px, TirFn *fn);
bool pass_assign_layout(PassContext *px, TirFn *fn);
bool pass_defer_reductions(PassContext *px, TirFn *fn);
bool pass_order_products(PassContext *px, TirFn *fn);
bool pass_plan_shared(PassContext *px, TirFn *fn);
bool pass_place_sync(PassContext *px, TirFn *fn);
bool pass_order_accesses(PassContext *px, TirFn *fn);
bool pass_check_roles(PassContext *px, TirFn *fn);

/* Tile IR, all fields filled in, to lane IR; NULL after a diagnostic. */
LirFn *lower_kernel(PassContext *px, TirFn *fn);

/* ---- the table and its runner ---- */

typedef struct PassInfo {
    const char *name;
    bool (*run)(PassContext *px, TirFn *fn); /* NULL: a choice that the lowering asks about */
    int32_t level;  /* the first -O level it is on at */
    bool needed;    /* -fno- is refused */
    bool lowering;  /* belongs to the lowering: listed as such */
    const char *help;
} PassInfo;

extern const PassInfo pass_table[];
extern const uint32_t pass_count;

/* The row of a name; `-` and `_` are the same.  -1 when there is none. */
int32_t pass_find(const char *name, size_t n);
/* The name nearest to a misspelt one; NULL when none is near. */
const char *pass_nearest(const char *name);
void pass_list(Buf *out);

/* What the runner does beside running. */
typedef struct PassRun {
    bool verify;        /* check the function after each pass */
    bool dump;          /* print the function after each pass .. */
    int32_t dump_after; /* .. or after this row only; -1: after each */
    Buf *dump_out;
    Buf *bugs;          /* broken invariants, with the pass that broke them */
    bool roles_may_fail; /* what pass roles leaves is verified always; if it is not valid, that is an error: the kernel
                            can have another plan, or none */
    double *seconds;    /* by row, summed up; NULL: not measured.  The last one, [pass_count], is
                           the checks and dumps */
} PassRun;

/* Runs all passes of the table that are on, in order.  False after errors or bugs. */
bool passes_run(PassContext *px, TirFn *fn, const PassRun *run);
/* The same as far as the pass `last`. */
bool passes_run_until(PassContext *px, TirFn *fn, const PassRun *run, const char *last);
/* Runs the passes named in `list` ("a,b"), on or not.  Unknown names are errors. */
bool passes_run_list(PassContext *px, TirFn *fn, const PassRun *run, const char *list);
/* Seconds since some fixed moment. */
double pass_clock(void);

#endif
