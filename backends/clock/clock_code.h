/* clock_code.h - machine code with what an SM reads off it: stalls, scoreboards, reuse; blocks;
 * anchors.
 *
 * The text is that of `nvdisasm -c -hex -gp` about a cubin made with `ptxas -lineinfo`, or of
 * `cuobjdump -sass`: two lines an instruction, each with 64 of its 128 bits.  For sm_70 to sm_120
 * the top bits are (Jia et al., arXiv 1804.06826; Huerta et al., arXiv 2503.20481):
 *
 *     [108:105] clocks until the next instruction of the warp may issue
 *     [109]     0: the scheduler should go on with another warp
 *     [112:110] scoreboard that is held until the result is written; 7: none
 *     [115:113] scoreboard that is held until the operands have been read; 7: none
 *     [121:116] scoreboards that must be free before it issues, a bit each
 *     [125:122] operands that stay in the reuse cache
 *
 * compiler/report/sass.h reads the same text for its loops and counts; that needs no encodings.
 */
#ifndef TILEC_CLOCK_CODE_H
#define TILEC_CLOCK_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/base/arena.h"

enum { NO_SCOREBOARD = 7 };

typedef struct CodeControl {
    uint8_t stall, write, read, wait, reuse;
    bool yield;
} CodeControl;

typedef struct CodeInsn {
    uint32_t address;
    uint32_t ptx_line; /* that it was made of; 0: not said */
    const char *name;  /* with modifiers: "HGMMA.64x64x16.F32.BF16" */
    const char *operands;
    bool guarded;
    uint64_t low, high; /* the encoding */
    CodeControl control;
    uint32_t token; /* clock_anchor.h; 0: none */
    uint32_t block;
} CodeInsn;

typedef struct CodeBlock {
    uint32_t first, end;      /* instructions */
    uint32_t next[2], n_next; /* blocks that may follow */
} CodeBlock;

typedef struct CodeKernel {
    const char *name;
    uint32_t registers; /* of a thread, by the highest that is named */
    VEC(CodeInsn) insns;
    VEC(CodeBlock) blocks;
} CodeKernel;

typedef VEC(CodeKernel) CodeKernels;

/* Reads a listing.  False when it has no code, or code without encodings; `why` says so. */
bool code_read(Arena *arena, const char *text, CodeKernels *out, const char **why);
CodeControl code_control(uint64_t high);

#endif
