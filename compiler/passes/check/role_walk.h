/* role_walk.h - runs the scalars of a tile IR program for given sizes: trip counts, branches taken,
 * the places of tiles.  Tiles have no values here. */
#ifndef TILEC_PASSES_ROLE_WALK_H
#define TILEC_PASSES_ROLE_WALK_H

#include "compiler/ir/tir.h"

typedef struct Scalar {
    int64_t value;
    bool known;
} Scalar;

enum { WALK_AXES = 3 };

/* A constant of the program that runs with another value (role_cases.c). */
typedef struct WalkConstant {
    int64_t of, value;
} WalkConstant;

/* A launch, and the place of one program in its grid. */
typedef struct WalkSetting {
    const int64_t *sizes;  /* by index */
    const Scalar *scalars; /* by index; those that are no integers are unknown */
    int64_t grid[WALK_AXES];
    int64_t first; /* the tile's first program on the consumer axis; may be less than 0 */
    int64_t consumer;
    int64_t data, most_data; /* which set of numbers integer tensors hold, and their largest one */
    const WalkConstant *constants;
    uint32_t n_constants;
    uint64_t
        /* its number: what is the same for all tiles is computed when it changes; 0: each time */
        launch;
} WalkSetting;

/* The way through a program: each trip count, and -1 or -2 for each branch, where channels are. */
typedef VEC(int32_t) WalkWay;

/* Which operations a run visits, besides those that decide the way through the program. */
typedef enum WalkKeep {
    WALK_CHANNELS = 1, /* operations at which roles meet, products, loads that became pipelines */
    WALK_PLACES = 2,   /* copies and such loads only, and their places */
    WALK_TILES = 4     /* everything */
} WalkKeep;

typedef struct WalkProgram WalkProgram;
WalkProgram *walk_program(Arena *arena, const TirFn *fn, const TirBlock *body, uint32_t keep);
/* Whether runs have entered each block in which roles meet; programs may be NULL. */
bool walk_enter_all(WalkProgram *const *programs, uint32_t n);
/* Whether the way through the program depends on the value, a scalar. */
bool walk_is_decided_by(const WalkProgram *program, const TirVal *value);
/* Marks in `decides` the axes of the grid that a way through `block`, of the program, depends
 * on. */
void walk_deciding_axes(const WalkProgram *program, const TirBlock *block, bool *decides);
/* Whether an operation is one of those that roles meet at: copies, waits, releases, products. */
bool walk_is_channel(const TirOp *op);
/* Whether a role reads or writes tensor memory there, or a vector that a consumer hands over. */
bool walk_is_tmem(const TirOp *op);
/* The reading of such a vector that an operation takes to registers; NULL: it does something
 * else. */
const TirOp *walk_handed_read(const TirOp *op);

typedef enum WalkMoment {
    WALK_AT,    /* an operation; of a loop or a branch, before its blocks */
    WALK_ENTER, /* one run of block `block` of a loop or branch begins */
    WALK_LEAVE, /* .. has come to its yield */
    WALK_AFTER  /* a loop or branch is done */
} WalkMoment;

/* A run.  Where loops or branches depend on data: those with channels follow `choices`; other
 * branches run both sides, one after the other, and other loops run once. */
typedef struct Walk {
    const WalkSetting *setting;
    Scalar *values;   /* by id; at least `next_id` + 1 */
    uint32_t choices; /* bits, the lowest for the first unknown condition; reused after 32 */
    uint32_t unknown; /* how many unknown conditions were met */
    uint32_t blocks;  /* how many more blocks may run: a run that is too long is given up */
    WalkWay *way;     /* may be NULL */
    Arena *arena;     /* of `way` */
    bool (*visit)(void *user, const TirOp *op, WalkMoment moment, uint32_t block); /* may be NULL */
    bool (*at)(void *user, const TirOp *op); /* likewise, at operations alone */
    void *user;
    void **kept; /* for what is visited to keep something for the operation, over all runs */
} Walk;

/* False when the run was too long or the visitor returned false. */
bool walk_run(Walk *walk, WalkProgram *program);
bool walk_run_at(Walk *walk, WalkProgram *program, bool (*at)(void *user, const TirOp *op),
                 void *user);
bool walk_same_way(const WalkWay *a, const WalkWay *b);
Scalar walk_value(const Walk *walk, const TirVal *value);
/* The value of a launcher's expression; unknown if a part of it is not an integer. */
Scalar walk_host(const HostExpr *expr, const int64_t *sizes, const Scalar *scalars);
/* Prints the numbers of a launch that are known; the place of a tile, a blank before each index. */
void walk_print_launch(const TirFn *fn, const int64_t *sizes, const Scalar *scalars, Buf *out);
void walk_print_tile(const TirFn *fn, const int64_t *tile, Buf *out);
/* Sets the place in the grid of a block with this tile, where the consumer axis has so many
 * programs: that of its first program there, which may be less than 0, stands in `first`.  The
 * index of that axis; NULL: consumers divide tiles. */
int64_t *walk_set_tile(WalkSetting *setting, const TirFn *fn, const int64_t *tile, int64_t programs);

#endif
