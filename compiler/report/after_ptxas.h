/* after_ptxas.h - what ptxas made of the PTX: registers, spills, and the plans it gave up.
 *
 * ptxas reports only as "info" that it serialises the wgmma of a warp group or ignores setmaxnreg,
 * although either costs half the speed.  This file turns such lines into warnings with advice, and
 * its figures into a report, with counts of the machine code (sass.h).
 */
#ifndef TILEC_AFTER_PTXAS_H
#define TILEC_AFTER_PTXAS_H

#include "compiler/base/arena.h"
#include "compiler/report/sass.h"

/* The warnings that can be switched: -Wno-NAME, -Werror=NAME. */
typedef enum AfterKind {
    AFTER_SPILL,      /* registers in local memory */
    AFTER_SERIALISED, /* wgmma one after another: C7511, C7512, C7514, C7518, .. */
    AFTER_SETMAXNREG, /* setmaxnreg without effect: C7507, C7508, .. */
    AFTER_INJECTED,   /* waits and fences that ptxas put in: C7517, C7519 */
    AFTER_OTHER,      /* all else that ptxas warns of */
    AFTER_KINDS,
    WARN_UNPROVED = AFTER_KINDS, /* of tilec itself */
    WARN_PLAN,
    WARN_UNUSED,
    WARN_DIMENSION,
    WARN_BROADCAST,
    WARN_REPEATED,
    WARN_ORDER,
    WARN_NARROW,
    WARN_KINDS
} AfterKind;

typedef struct AfterRule {
    const char *name, *help;
} AfterRule;
extern const AfterRule after_rules[WARN_KINDS];

/* What is done about each kind. */
typedef enum AfterAction { AFTER_WARN, AFTER_IGNORE, AFTER_FAIL } AfterAction;

typedef struct AfterActions {
    AfterAction of[AFTER_KINDS];
} AfterActions;

typedef struct PtxasKernel {
    const char *name;
    bool entry; /* not a function that kernels call */
    uint32_t registers, barriers, stack, spill_stores, spill_loads; /* bytes, of one thread */
} PtxasKernel;

typedef struct PtxasMessage {
    AfterKind kind;
    const char *code;   /* "C7512"; "" when ptxas gives none */
    const char *kernel; /* NULL: it does not say */
    uint32_t line;      /* of the PTX; 0: it does not say */
    const char *text;   /* in our words */
    const char *cure;   /* NULL: none */
} PtxasMessage;

typedef struct PtxasSaid {
    VEC(PtxasKernel) kernels; /* in the order of the PTX */
    VEC(PtxasMessage) messages;
} PtxasSaid;

/* Reads what `ptxas -v` printed about the text `ptx`. */
void ptxas_read(Arena *arena, const char *said, const char *ptx, PtxasSaid *out);

/* The figures of each kernel, with those of its machine code; `no_code` says why there are
 * none (`code` is not looked at then), or is NULL. */
void after_report(const PtxasSaid *said, const SassKernels *code, const char *no_code, Buf *out);

/* Warnings and errors, as a compiler prints them, about `path`.  Returns the number of errors. */
uint32_t after_warnings(const PtxasSaid *said, const char *ptx, const char *path,
                        const AfterActions *actions, Buf *out);

#endif
