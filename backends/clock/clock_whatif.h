/* clock_whatif.h - how much sooner a launch would end if one thing were faster, by replaying it
 * so. */
#ifndef TILEC_CLOCK_WHATIF_H
#define TILEC_CLOCK_WHATIF_H

#include "backends/clock/clock_path.h"

enum { MOST_WHATIFS = 16, WHATIF_PERCENT = 10 };

/* One thing that is faster, or slower. */
typedef struct WhatIf {
    const char *name;
    double part;           /* of the critical path of an iteration, of 1 */
    double faster, slower; /* cycles then */
} WhatIf;

typedef struct WhatIfs {
    double cycles; /* as it is: the mean of the same seeds */
    uint32_t seeds;
    WhatIf of[MOST_WHATIFS];
    uint32_t n;
    bool slower; /* these were asked for, too */
} WhatIfs;

/* `all`: of everything that the launch uses, and slower, too; else of what most of the path goes
 * through. */
void clock_whatif(Arena *arena, const ClockJob *job, const ClockResult *result,
                  const ClockPath *path, bool all, WhatIfs *out);
void clock_whatif_print(const WhatIfs *of, Buf *out);
void clock_whatif_json(const WhatIfs *of, Buf *out);

#endif
