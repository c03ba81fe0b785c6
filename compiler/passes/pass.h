/* pass.h - what a pass is given. */
#ifndef TILEC_PASS_H
#define TILEC_PASS_H

#include "compiler/ir/tir.h"
#include "compiler/target.h"

/* What a plan for warp groups is to look like; passes/schedule/plan.c finds the rest. */
typedef struct PlanHints {
    uint32_t consumers; /* warp groups that compute; 0: no plan */
    uint32_t stages;    /* stages of pipelines that the main loop goes around */
    uint32_t q_stages;  /* of pipelines that are filled once for a tile of the grid */
    bool persistent;    /* blocks go through several tiles of the grid */
    bool dynamic;       /* .. drawn from a counter where they differ in length */
    /* consumers that have equally many iterations start products one after the other */
    bool pingpong;
    bool paired; /* blocks run in clusters of two, which share what they load */
    /* consumers divide the tiles of one program, not the programs among them */
    bool cooperative;
    bool pipelined; /* products under the arithmetic of the next iteration, if registers allow */
    uint32_t given; /* bits: what was asked for by name, see plan_is_given */
} PlanHints;

/* Reads the text of --plan; false, and why, when it is wrong.  "none" gives no consumers. */
bool plan_hints_read(const char *text, PlanHints *out, const char **fault);
/* The same as text; defaults are left out. */
const char *plan_hints_text(Arena *arena, const PlanHints *hints);
/* What a key of that text may be, and its name; NULL: there is no such key. */
const char *plan_key_range(const char *name, uint32_t *least, uint32_t *most);
/* The names of the keys; NULL behind the last one. */
const char *plan_key_name(uint32_t k);
bool plan_is_given(const PlanHints *hints, const char *name);

/* What is said of roles that nothing could be proved of. */
typedef enum Unproved { UNPROVED_ERROR, UNPROVED_WARNING, UNPROVED_UNSAID } Unproved;

/* What -f and -fno- say, whatever the level: bit i is row i of passes.def or of switches.def. */
typedef struct Switched {
    uint64_t passes_on, passes_off;
    uint64_t on, off;
} Switched;

/* Everything a pass may look at beside the function it changes. */
typedef struct PassContext {
    Arena *arena;
    Diag *diag;
    const Target *target;
    int32_t level; /* -O0 .. -O3 */
    Switched switched;
    uint32_t warps, stages; /* pinned on the command line; 0: not */
    PlanHints plan;
    /* where the source pins the plan: what can not be had of it is an error; {0, 0}: the source
       does not */
    Span plan_span;
    const char *no_plan; /* set by pass `plan`: why there is none, and where */
    Span no_plan_at;
    Unproved unproved;
    bool in_sequence; /* the module has other kernels, which run before this one or behind it */
    bool trial;       /* only the cost is wanted: what cost.c does not look at may be left out */
    Buf *report;      /* facts for --report; NULL: not wanted */
    Buf *bugs;        /* where a pass writes what it finds to be wrong with another one's work */
} PassContext;

/* Says that `what` of a plan that the source pins can not be had: an error at the plan with a note
 * at `where`.  Does nothing for a plan that came from elsewhere. */
void plan_not_kept(const PassContext *px, const TirFn *fn, Span where, const char *what);

/* The passes, each in a file of its name; each returns whether it changed something. */
#define PASS(name, function, first, needed, help) bool function(PassContext *px, TirFn *fn);
#include "compiler/passes/passes.def"
#undef PASS

/* ---- the table of switches (switches.def) ---- */

typedef struct SwitchInfo {
    const char *name;
    int32_t level; /* the first -O level it is on at; above 3: only by -f */
    const char *help;
} SwitchInfo;

extern const SwitchInfo switch_table[];
extern const uint32_t switch_count;

/* The row of a name; `-` and `_` are the same.  -1 when there is none. */
int32_t switch_find(const char *name, size_t n);
/* Whether the switch of this name is on: switches.def's default at this level, changed by -f and -fno-. */
bool switch_is_on(const PassContext *px, const char *name);

/* Whether `name`, of n bytes, is `have` where `-` and `_` are the same. */
bool option_is(const char *have, const char *name, size_t n);

#endif
