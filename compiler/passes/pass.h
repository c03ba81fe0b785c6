/* pass.h - what a pass is given. */
#ifndef TILEC_PASS_H
#define TILEC_PASS_H

#include "compiler/ir/tir.h"
#include "compiler/target.h"

enum { MOST_PLAN_STAGES = 8 }; /* of a plan's pipelines */

enum { PLAN_KEYS = 12 };

/* The plan for warp groups that was asked for; passes/schedule/plan.c decides the rest. */
typedef struct PlanHints {
    union {
        struct {                 /* in the order of the keys (plan_hints.c) */
            uint32_t consumers;  /* warp groups that compute; 0: no plan */
            uint32_t stages;     /* stages of pipelines filled in the main loop */
            uint32_t q_stages;   /* stages of pipelines filled once for a work tile */
            uint32_t persistent; /* a block goes through several work tiles */
            /* products run under the arithmetic of the next iteration, if registers allow */
            uint32_t pipelined;
            uint32_t dynamic; /* tiles that differ in length come from the dynamic scheduler */
            uint32_t clc;     /* .. by cluster launch control */
            /* consumers with the same number of iterations take turns to start their products */
            uint32_t pingpong;
            /* the consumers divide the tiles of one program; else each has a program of its own */
            uint32_t cooperative;
            uint32_t paired;     /* blocks run in clusters of two and multiply together */
            uint32_t two_blocks; /* an SM has two blocks, of one consumer each */
            /* a role of its own changes sums in tensor memory between products */
            uint32_t correction;
        };
        uint32_t key[PLAN_KEYS];
    };
    uint32_t given; /* bits: which of these were asked for by name, see plan_is_given */
} PlanHints;

/* Reads the text of --plan; false, and why, when it is wrong.  "none" gives no consumers. */
bool plan_hints_read(const char *text, PlanHints *out, const char **fault);
/* The same as text; defaults are left out. */
const char *plan_hints_text(Arena *arena, const PlanHints *hints);
/* The range of a key's values, and its name; NULL: there is no such key. */
const char *plan_key_range(const char *name, uint32_t *least, uint32_t *most);
/* The names of the keys; NULL behind the last one. */
const char *plan_key_name(uint32_t k);
bool plan_is_given(const PlanHints *hints, const char *name);

/* What to do when check-roles can prove nothing of a kernel's roles. */
typedef enum Unproved { UNPROVED_ERROR, UNPROVED_WARNING, UNPROVED_UNSAID } Unproved;

/* What -f and -fno- say, whatever the level: bit i is row i of passes.def or of switches.def. */
typedef struct Switched {
    uint64_t passes_on, passes_off;
    uint64_t on, off;
} Switched;

/* Everything a pass may look at beside the function it changes. */
typedef struct PassContext {
    Arena *arena;
    Arena *scratch; /* for what a pass forgets when it ends; NULL: there is none but `arena` */
    Diag *diag;
    const Target *target;
    int32_t level; /* -O0 .. -O3 */
    Switched switched;
    uint32_t warps, stages; /* pinned on the command line; 0: not */
    PlanHints plan;
    /* where the source pins the plan (@plan): wishes that cannot be met are errors there; {0, 0}:
       it does not */
    Span plan_span;
    bool plan_said;      /* the command line does: wishes that cannot be met are warnings */
    const char *no_plan; /* set by pass `plan`: why there is no plan, and where */
    Span no_plan_at;
    bool refused; /* .. because of the kernel as it was (plan_is_refused) */
    Unproved unproved;
    enum {
        NARROW_UNSAID,
        NARROW_WARNING,
        NARROW_ERROR
    } narrow;         /* of accesses of fewer than 4 bytes */
    bool in_sequence; /* the module has other kernels, which run before or after this one */
    bool once;  /* a form for launches that have an SM for each program: its code runs once there */
    bool trial; /* only the cost is wanted: passes may skip what cost.c does not read */
    Buf *report; /* facts for --report; NULL: not wanted */
    Buf *bugs;   /* faults that a pass finds in the work of another pass */
} PassContext;

/* form_products.c: behind pass `plan`: whether products had a form that only a plan has, and there
 * is none: the kernel is as it was before they were formed, and no plan is wanted any more. */
bool form_products_anew(PassContext *px, TirFn *fn);

/* Reports that `what` of a plan pinned in the source cannot be met: an error at the plan with a
 * note at `where`; of one of the command line a warning.  Does nothing for other plans. */
void plan_not_kept(const PassContext *px, const TirFn *fn, Span where, const char *what);

/* The passes, each in a file of its name; each returns whether it changed something. */
#define PASS(name, function, first, needed, help) bool function(PassContext *px, TirFn *fn);
#include "compiler/passes/passes.def"
#undef PASS

/* Whether the pass `plan` would refuse a kernel as it is, before it changes anything. */
bool plan_is_refused(PassContext *px, const TirFn *fn);
/* Whether it refuses any number of consumers with programs of their own, by the shapes of products
 * alone, which no pass behind `form-products` changes. */
bool plan_is_hopeless(PassContext *px, TirFn *fn);

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
/* Whether the switch of this name is on: switches.def's default at this level, changed by -f and
 * -fno-. */
bool switch_is_on(const PassContext *px, const char *name);

/* Whether `name`, of n bytes, is `have` where `-` and `_` are the same. */
bool option_is(const char *have, const char *name, size_t n);

#endif
