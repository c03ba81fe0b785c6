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

/* A stretch of the path, of which one thing is the cause. */
typedef struct PathStep {
    double from, to;
    uint32_t actor, group; /* as of a piece; the warps whose instruction it is */
    uint8_t kind;
} PathStep;

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
    uint32_t last;           /* 1 + the node that was walked back from */
} ClockPath;

/* False: the log is empty.  `cycles`: of the launch. */
bool clock_path(Arena *arena, const ClockLog *log, const ClockResult *result, ClockPath *out);
/* One step back from a node, at a time; false: there is none. */
bool clock_path_step(const ClockLog *log, uint32_t *node, double *at, PathStep *out);
const char *clock_path_name(Arena *arena, PathKind kind);
/* A line or so; `all`: and the pieces. */
void clock_path_print(const ClockPath *path, bool all, Buf *out);
void clock_path_json(const ClockPath *path, Buf *out);

/* clock_svg.c: lanes of a log's window at a height of a picture, below which more can follow. */
double clock_svg_add(const ClockLog *log, const ClockPath *path, const char *name,
                     uint32_t schedulers, double y, Buf *out);
void clock_svg_frame(const char *body, double height, Buf *out);

/* clock_trace.c: a log's window as trace events of process `launch`, behind those that are there;
 * what is around them. */
void clock_trace_add(const ClockLog *log, const char *name, uint32_t launch, double mhz, Buf *out);
void clock_trace_frame(const char *events, Buf *out);

#endif
