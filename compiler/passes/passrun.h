/* passrun.h - the table of passes (passes.def), and what runs it. */
#ifndef TILEC_PASSRUN_H
#define TILEC_PASSRUN_H

#include "compiler/passes/pass.h"

/* Whether the pass of this name is on: passes.def's default at this level, changed by -f and
 * -fno-. */
bool pass_enabled(const PassContext *px, const char *name);

/* ---- the table and its runner ---- */

typedef struct PassInfo {
    const char *name;
    bool (*run)(PassContext *px, TirFn *fn);
    int32_t level; /* the first -O level it is on at */
    bool needed;   /* -fno- is refused */
    const char *help;
} PassInfo;

extern const PassInfo pass_table[];
extern const uint32_t pass_count;

/* The row of a name; `-` and `_` are the same.  -1 when there is none. */
int32_t pass_find(const char *name, size_t n);
/* Says that no pass has this name. */
void pass_is_missing(Diag *diag, const char *name);
/* Passes and switches, a line each. */
void pass_list(Buf *out);
/* Takes the text after -f: "swizzle" or "no-swizzle".  The last one for a name wins. */
void switched_read(Switched *switched, Diag *diag, const char *text);

/* Which passes of a function are shown, and what was shown last. */
typedef struct PassDump {
    uint64_t rows; /* bit i: behind row i */
    Buf *out;
    const char *shown, *behind; /* NULL: nothing yet */
} PassDump;

/* Reads "a,b"; "" means all passes.  Unknown names are errors. */
uint64_t pass_rows(Diag *diag, const char *list);

/* What the runner does beside running. */
typedef struct PassRun {
    bool verify;    /* check the function after each pass */
    PassDump *dump; /* NULL: nothing is shown */
    Buf *bugs;      /* broken invariants, with the pass that broke them */
    /* always verify the result of pass `roles`; if it is not valid that is an error, not a bug: the
       caller tries another plan, or none */
    bool roles_may_fail;
    /* called after each; or NULL */
    void (*seen)(void *seen_by, PassContext *px, const TirFn *fn, const char *pass);
    void *seen_by;
    /* by row, summed over kernels; NULL: not measured.  [pass_count]: verifying and dumping */
    double *seconds;
} PassRun;

/* Runs the passes that are on, in order, from the one after fn->after (the pass that ran last).
 * False after errors or bugs. */
bool passes_run(PassContext *px, TirFn *fn, const PassRun *run);
/* The same as far as the pass `last`. */
bool passes_run_until(PassContext *px, TirFn *fn, const PassRun *run, const char *last);
/* Runs the passes named in `list` ("a,b"), on or not.  Unknown names are errors. */
bool passes_run_list(PassContext *px, TirFn *fn, const PassRun *run, const char *list);
/* Seconds since some fixed moment. */
double pass_clock(void);

#endif
