/* compilation.h - the state of one compilation, and what passes are told of it.
 *
 *   tilec.c           the C API: text to tile IR, tile IR to text
 *   compilation.c     what the passes of a kernel are told
 *   lower_choices.c   a kernel by the best of its choices that can be compiled
 *   lower_variants.c  its other forms
 *   several_targets.c one after the other
 */
#ifndef TILEC_DRIVER_COMPILATION_H
#define TILEC_DRIVER_COMPILATION_H

#include <setjmp.h>

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/choose/auto_tiles.h"
#include "compiler/driver/kernel_times.h"
#include "compiler/emit/metadata.h"
#include "compiler/front/front.h"
#include "compiler/ir/lir.h"
#include "compiler/ir/tir.h"
#include "compiler/passes/passrun.h"
#include "compiler/target.h"
#include "compiler/tilec.h"

/* What was said of one of several targets. */
typedef struct TargetSaid {
    const char *name;
    Diag diag;
    uint32_t hints;
} TargetSaid;

typedef struct Compilation {
    Arena arena;
    Arena trials; /* what candidates for tile sizes leave behind, emptied after each, and passes */
    jmp_buf on_failure;
    Diag diag;
    const TilecOptions *options;
    const char *path, *text;
    size_t n;
    const char *list;          /* tilec_list */
    const TilecSearch *search; /* tilec_search */
    const Target *target;
    Front front;
    TirModule *module;
    Switched switched;
    const TilecOptions *asked; /* the user's, where `options` are those for a page; else NULL */
    TilecOptions for_page;
    PassDump shown;
    PlanHints plan; /* pinned on the command line */
    uint32_t hints; /* warnings that -Werror leaves alone */
    Buf bugs, dump, report, output, schedule, picture, page;
    KernelTimes times;
    const TileChoice **taken; /* of each kernel; NULL: nothing was open */
    KernelForms *forms;       /* of each kernel, for `variants` */
    VEC(HeaderBuild) builds;  /* of each target, for a header */
    VEC(TargetSaid) said;     /* of each of several targets */
    double *seconds;          /* by row of the pass table, one more for checks */
    double front_seconds, search_seconds, lower_seconds, print_seconds;
} Compilation;

bool compilation_failed(const Compilation *c);
PassContext compilation_context(Compilation *c);
/* The same for one kernel, whose source may pin a plan, or whose text tell what was chosen before;
 * the command line's word counts more. */
PassContext kernel_context(Compilation *c, const TirFn *fn);
/* For one kernel, from its beginning. */
PassRun kernel_passes(Compilation *c);
/* So that the text of tile IR goes on as the program does: what the passes are told beside it. */
void note_choice(TirFn *fn, const PassContext *px);
bool wants_checks(const Compilation *c);

/* Passes and lowering of one kernel by a choice; NULL: as it stands.  NULL after errors. */
LirFn *lower_one(Compilation *c, TirFn *fn, const TileChoice *choice);
/* Kernel `k` of the module by the cheapest choice for what it leaves open that can be compiled. */
LirFn *lower_with_choices(Compilation *c, uint32_t k);
/* Its other forms, behind that. */
void lower_variants(Compilation *c, uint32_t k, LirFn *own);
/* Unsays what was said since: messages, dumps, reports. */
typedef struct Mark {
    DiagMark said;
    uint32_t dump, report;
} Mark;
Mark set_mark(const Compilation *c);
void go_back(Compilation *c, Mark mark);

#endif
