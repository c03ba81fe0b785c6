/* clock_path.h - the critical path of an iteration, found in the log of a replay (clock_log.h). */
#ifndef TILEC_CLOCK_PATH_H
#define TILEC_CLOCK_PATH_H

#include "backends/clock/clock_log.h"

/* Time that goes to one thing, of one group of warps or of a unit that runs by itself. */
typedef struct PathPiece {
    double clocks;
    double kind[PATH_KINDS];
    uint32_t actor; /* group of warps, or MOST_ACTORS + unit */
} PathPiece;

enum { PATH_ACTOR_UNIT = 1 << 16 };

typedef struct ClockPath {   /* of the middle of the launch */
    bool loop;               /* false: none was found, it is the whole launch */
    uint32_t turns;          /* of the loop, that `part` is of */
    uint32_t line;           /* of PTX, where the loop begins */
    uint32_t warp;           /* whose loop it is */
    double clocks;           /* of an iteration */
    double from, to;         /* of these turns */
    double one_from, one_to; /* of the one that `pieces` are of */
    double part[PATH_KINDS]; /* clocks of an iteration that the path goes through each */
    VEC(PathPiece) pieces;   /* of one iteration, in order */
} ClockPath;

/* False: the log is empty.  `cycles`: of the launch. */
bool clock_path(Arena *arena, const ClockLog *log, const ClockResult *result, ClockPath *out);
const char *clock_path_name(Arena *arena, PathKind kind);
/* A line or so; `all`: and the pieces. */
void clock_path_print(const ClockPath *path, bool all, Buf *out);
void clock_path_json(const ClockPath *path, Buf *out);

#endif
