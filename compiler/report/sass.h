/* sass.h - machine code as nvdisasm or cuobjdump prints it: its loops, and what runs in them.
 *
 * The text is read for one purpose: to count the tensor instructions of a loop and the instructions
 * beside them.  Operands are parsed only for jump targets.
 */
#ifndef TILEC_SASS_H
#define TILEC_SASS_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/base/arena.h"

typedef enum SassKind {
    SASS_TENSOR,     /* HGMMA, HMMA, UTCHMMA, .. */
    SASS_TO_UNIFORM, /* R2UR: a vector register becomes a uniform one */
    SASS_SPECIAL,    /* MUFU */
    SASS_LOCAL,      /* LDL, STL: spilled registers */
    SASS_SHARED,     /* LDS, STS, LDSM, STSM */
    SASS_GLOBAL,     /* LDG, STG, RED, ATOMG, LDGSTS */
    SASS_SHUFFLE,
    SASS_BARRIER, /* BAR, SYNCS, WARPGROUP.DEPBAR */
    SASS_OTHER,
    SASS_KINDS
} SassKind;

/* A natural loop: what can be reached from its head and leads back to it. */
typedef struct SassLoop {
    uint32_t first, last; /* addresses of its head and of its last jump back */
    uint32_t instructions;
    uint32_t count[SASS_KINDS];
    const char *tensor; /* the name of its tensor instructions; NULL: it has none */
} SassLoop;

typedef struct SassKernel {
    const char *name;
    uint32_t instructions;
    uint32_t count[SASS_KINDS];
    const char *tensor;
    VEC(SassLoop) loops; /* those with tensor instructions, and no such loop inside; by address */
} SassKernel;

typedef VEC(SassKernel) SassKernels;

/* Reads a listing.  False when there is no code in it. */
bool sass_read(Arena *arena, const char *text, SassKernels *out);
/* The loop with the most tensor instructions, of several the shortest; NULL when there is none. */
const SassLoop *sass_hot_loop(const SassKernel *kernel);
/* What a count is called in a report: "R2UR". */
const char *sass_kind_name(SassKind kind);
/* Whether the operands of a tensor instruction stand in uniform registers, where R2UR costs. */
bool sass_takes_uniform(const char *tensor);

#endif
