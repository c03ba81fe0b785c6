/* auto_tiles.h - chooses the values of `auto` parameters, the number of warps, and the stages of
 * pipelined loads, for kernels without roles.
 *
 * Candidates are compiled up to the plan of shared memory and compared by the cost model (cost.h);
 * those of kernels without products by the clocks of their launches (launch_cost.h) over small and
 * large sizes.  What the user pinned (-D, --warps, --stages, an attribute) stays.
 */
#ifndef TILEC_AUTO_TILES_H
#define TILEC_AUTO_TILES_H

#include "compiler/cost/cost.h"
#include "compiler/front/front.h"
#include "compiler/ir/lir.h"

/* One way to compile a kernel. */
typedef struct TileChoice {
    /* of the `auto` parameters, in the order in which they are asked for; the last value is used
       for all further ones */
    int32_t values[MAX_AUTO];
    uint32_t warps, stages;             /* 0: as pinned, or the passes' own choice */
    PlanHints plan;                     /* no consumers: no plan for warp groups */
    const char *replaced, *replacement; /* a parameter of -D, and the value to take instead */
    Cost cost;
    /* clocks of a launch (launch_cost.h), where it was asked for, and of kernels without products;
     * NULL: not known */
    const HostExpr *launch;
    const HostExpr *estimate; /* the same, to compare all tiles */
    /* of kernels without products: programs of a launch; its clocks where each has an SM, and as
     * `launch` counts them, as if the SM's schedulers were busy with four warps */
    const HostExpr *programs, *alone, *alone_beside;
    bool loops;          /* it loads something in loops: then .. */
    bool once;           /* .. it is to be compiled for those launches */
    const char *about;   /* a line for remarks; NULL: there is none */
    uint32_t report_row; /* 1 + where the report's row of it begins; 0: none */
    TirFn *fn;           /* the kernel after the passes .. */
    LirFn *code;         /* .. and lowered, if that was done already and gave no messages */
} TileChoice;

typedef struct TileChoices {
    TileChoice *at; /* those that fit, the cheapest first */
    uint32_t n;
} TileChoices;

/* The kernel once more, with the values of `choice`.  NULL after errors. */
TirFn *tile_choice_kernel(const Front *front, const char *name, const TileChoice *choice);

/* Ways to compile a kernel, with whatever values it was made, tried out with `px`; `trials` is
 * emptied again and again. The report gets a table, and there is a remark about the winner.  None
 * for a kernel without products and `auto` sizes, and when nothing fits. */
TileChoices auto_tiles_search(const Front *front, PassContext *px, Arena *trials,
                              const TirFn *kernel);
/* The same of kernel `name` and smaller tiles, which are better where there are few programs, each
 * with the clocks of its launches; no report and no remark. */
TileChoices auto_tiles_forms(const Front *front, const PassContext *px, Arena *trials,
                             const char *name);

/* Sets loops without a stage count to one stage; their default is two. */
void tile_choice_say_one_stage(const TirBlock *block);

/* Puts a star into the report's row of the choice that was taken, if it has one. */
void tile_choice_mark(const TileChoice *choice, Buf *report);

#endif
