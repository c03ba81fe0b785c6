/* role_walk.h - runs a program of tile IR for given sizes, as far as its scalars go: which loops turn
 * how often, which branches are taken, where tiles lie.  Tiles themselves have no values. */
#ifndef TILEC_PASSES_ROLE_WALK_H
#define TILEC_PASSES_ROLE_WALK_H

#include "compiler/ir/tir.h"

typedef struct Scalar {
    int64_t value;
    bool known;
} Scalar;

enum { WALK_AXES = 3 };

/* A launch, and the place of one program in its grid. */
typedef struct WalkSetting {
    const int64_t *sizes;  /* by index */
    const Scalar *scalars; /* by index; those that are no integers are unknown */
    int64_t grid[WALK_AXES];
    int64_t first; /* the tile's first program on the consumer axis; may be less than 0 */
    int64_t consumer;
    int64_t data, most_data; /* which numbers tensors hold, and the largest */
} WalkSetting;

/* The way through a program: each trip count, and -1 or -2 for each branch, where channels are. */
typedef VEC(int32_t) WalkWay;

/* What of a program is looked at, beside what decides which way it goes. */
typedef enum WalkKeep {
    WALK_CHANNELS = 1, /* what roles do to each other, products, loads that became pipelines */
    WALK_PLACES = 2,   /* the places of copies and of such loads are computed */
    WALK_TILES = 4     /* everything */
} WalkKeep;

typedef struct WalkProgram WalkProgram;
WalkProgram *walk_program(Arena *arena, const TirFn *fn, const TirBlock *body, uint32_t keep);
/* Whether the way through the program depends on the value, a scalar. */
bool walk_is_decided_by(const WalkProgram *program, const TirVal *value);
/* Marks in `decides` the axes of the grid that a way through `block`, of the program, depends on. */
void walk_deciding_axes(const WalkProgram *program, const TirBlock *block, bool *decides);
/* Whether an operation is one of those that roles meet at: copies, waits, releases, products. */
bool walk_is_channel(const TirOp *op);

typedef enum WalkMoment {
    WALK_AT,    /* an operation; of a loop or a branch, before its blocks */
    WALK_ENTER, /* one run of block `block` of a loop or branch begins */
    WALK_LEAVE, /* .. has come to its yield */
    WALK_AFTER  /* a loop or branch is done */
} WalkMoment;

/* A run.  Loops and branches with channels that depend on data go as `choices` says; other branches
 * that do go both ways, one after the other, and such loops once. */
typedef struct Walk {
    const WalkSetting *setting;
    Scalar *values;   /* by id; at least `next_id` + 1 */
    uint32_t choices; /* bits, the lowest for the first unknown condition; used again after 32 */
    uint32_t unknown; /* how many were met */
    uint32_t blocks;  /* how many runs of blocks are left: too long a run ends early */
    WalkWay *way;     /* may be NULL */
    Arena *arena;     /* of `way` */
    bool (*visit)(void *user, const TirOp *op, WalkMoment moment, uint32_t block); /* may be NULL */
    void *user;
    const WalkProgram *program; /* the one that runs */
} Walk;

/* False when it was too long or the visitor gave false. */
bool walk_run(Walk *walk, const WalkProgram *program);
Scalar walk_value(const Walk *walk, const TirVal *value);
/* An expression of the launcher; unknown when it has parts that are no integers. */
Scalar walk_host(const HostExpr *expr, const int64_t *sizes, const Scalar *scalars);
/* The first program of tile `tile` of the consumer axis, which has so many programs; it may be less than 0. */
int64_t walk_first_program(const TirPlan *plan, int64_t tile, int64_t programs);

#endif
