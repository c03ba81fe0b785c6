/* clock_stretch.h - ways through machine code from one place to the next token. */
#ifndef TILEC_CLOCK_STRETCH_H
#define TILEC_CLOCK_STRETCH_H

#include "backends/clock/clock_anchor.h"
#include "backends/clock/clock_match.h"

typedef struct StretchGoal {
    CodeToken token;
    uint32_t line; /* of PTX; 0: none */
    bool off;      /* its guard let no lane through */
} StretchGoal;

typedef struct StretchEnd {
    uint32_t place; /* of the token */
    float score;    /* what does not fit: the less the better */
    CodeStretch code;
} StretchEnd;

enum { MOST_ENDS = 8 };

typedef struct StretchEnds {
    StretchEnd at[MOST_ENDS];
    uint32_t n;
} StretchEnds;

typedef struct StretchFinder StretchFinder;

StretchFinder *stretch_finder(Arena *arena, const CodeKernel *kernel, const SimModule *module);
/* Of an instruction of PTX: its line. */
uint32_t stretch_line(const StretchFinder *finder, uint32_t insn);
/* What happened: the stretch's events [from, to), the last of them the goal's, and some on either
 * side, since instructions move across tokens. */
typedef struct StretchEvents {
    const SimEvent *events;
    uint32_t begin, from, to, end;
} StretchEvents;

/* The ways from behind `place` (UINT32_MAX: from the first instruction on). */
const StretchEnds *stretch_find(StretchFinder *finder, uint32_t place, StretchEvents events,
                                StretchGoal goal);

#endif
