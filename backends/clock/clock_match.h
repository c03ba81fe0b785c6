/* clock_match.h - the way of a warp through machine code, found from its way through PTX.
 *
 * The assembler unrolls loops, rotates them, makes copies of blocks and puts conditions into
 * guards.  What stays is the sequence of tokens (clock_anchor.h), and roughly the lines of PTX.  So
 * a stretch of PTX from one token to the next is matched with the ways through blocks of machine
 * code from a place with the one token to a place with the other: the best has fewest instructions
 * of lines that did not run, and each tallied instruction as often as it ran.  Of all places that a
 * token can stand at, those are taken whose stretches fit best together over the whole warp.
 * Stretches that were seen before cost nothing.
 */
#ifndef TILEC_CLOCK_MATCH_H
#define TILEC_CLOCK_MATCH_H

#include "backends/clock/clock_code.h"
#include "backends/sim/sim.h"

typedef struct CodeRun {
    uint32_t first, end; /* instructions */
} CodeRun;

/* From behind one token to the next, that included. */
typedef struct CodeStretch {
    CodeRun *runs;
    uint32_t n;
    uint32_t insns;
    float doubt; /* instructions that do not fit */
} CodeStretch;

typedef struct CodePart {
    uint32_t from, to;       /* events; the token's is the last */
    const CodeStretch *code; /* NULL: not found, PTX it is */
} CodePart;

typedef struct CodePath {
    CodePart *parts;
    uint32_t n;
    uint64_t insns, doubtful;
    uint32_t tokens, lost; /* that a warp came by; without machine code */
} CodePath;

typedef struct Matcher Matcher;

Matcher *clock_matcher(Arena *arena, const CodeKernel *kernel, const SimModule *module);
void clock_match(Matcher *matcher, const SimTracedWarp *warp, CodePath *out);

#endif
