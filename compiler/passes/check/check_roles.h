/* check_roles.h - one role's run over one tile, as pass check-roles sees it. */
#ifndef TILEC_PASSES_CHECK_ROLES_H
#define TILEC_PASSES_CHECK_ROLES_H

#include "compiler/ir/isa.h"
#include "compiler/passes/check/role_walk.h"

/* How many stages of a pipeline a consumer may hold at once: the lowering has one cursor for each pipeline, which
 * a release moves on; of those that lag, one for waits and one for releases. */
enum { PIPELINE_HELD_MOST = 1, PIPELINE_HELD_WITH_LAG = 2 };

/* What a role does to others, in order: copies; or waits, shared_reads of what
 * they bring, releases, ping-pong, tiles left in staging buffers; or these said to be empty and added from. */
typedef VEC(const TirOp *) RoleEvents;

typedef struct RoleFault {
    const char *text;        /* NULL: all is well */
    const TirOp *op, *other; /* where it shows; what it is about, or NULL */
} RoleFault;

/* What stays the same over all runs of the consumer's program. */
typedef struct ConsumerFacts ConsumerFacts;
ConsumerFacts *consumer_facts(Arena *arena, const TirFn *fn);

/* Runs a consumer's program, everything kept, over one tile and checks what depends on the consumer alone.
 * False, and why, when something is wrong; `events` then end where it shows.  False without a reason
 * when the run is too long. */
bool check_consumer(const ConsumerFacts *facts, Walk *walk, const WalkProgram *program,
                    RoleEvents *events, RoleFault *fault);
/* Only lists what a consumer, or a reduce warp, does to others. */
bool list_role_events(Arena *arena, Walk *walk, const WalkProgram *program, RoleEvents *events);
/* Likewise the producer's: the parts of a stage are filled in order. */
bool check_producer(Arena *arena, const TirFn *fn, Walk *walk, const WalkProgram *program,
                    RoleEvents *events, RoleFault *fault);

/* ---- the roles together: check_together.c ---- */

enum {
    MOST_TILES = 4, /* one after the other */
    PAIR = 2,       /* blocks that share pipelines, at most */
    /* of a block in the grid, as far as contents go */
    MOST_PLACES = 4 * PAIR * (MOST_CONSUMERS + 1),
    BLOCK_ROLES = 1 + 2 * MOST_CONSUMERS, /* of a block, at most */
    MOST_ROLES = PAIR * BLOCK_ROLES
};

/* The roles of a block by number: the producer, each consumer, each reduce warp if there are such. */
uint32_t roles_of_block(const TirFn *fn);
RoleKind role_kind(const TirFn *fn, uint32_t own);
/* The consumer that it is, or whose tiles it adds; 0 of the producer. */
uint32_t role_consumer(const TirFn *fn, uint32_t own);

/* One way through a role's program: what it does to others. */
typedef struct RoleRun {
    WalkWay way;
    WalkWay class; /* the same with long loops cut short */
    RoleEvents events;
    /* by pipeline: stages that it fills, or waits for; by staging buffer: tiles that go through */
    uint32_t *counts;
    /* by pipeline, of a consumer: the shared_read of each stage; NULL: let pass */
    RoleEvents *stages;
} RoleRun;

/* A tile of one block: the runs of its roles. */
typedef struct TileRun {
    RoleRun *role[BLOCK_ROLES];
    bool seen[MOST_PLACES]; /* contents were checked at such a place */
} TileRun;

/* The tiles of a block, or of the two of a pair. */
typedef struct Sequence {
    const TileRun *tile[PAIR][MOST_TILES];
    uint32_t n;
} Sequence;

/* How far each role is, and what has gone through each pipeline; a role's number is that in its block, and
 * as many more as a block has in a pair's second one. */
typedef struct Together {
    const TirFn *fn;
    const Sequence *sequence;
    uint32_t consumers, per_block, roles;     /* in a block; roles in one, in all */
    uint32_t tile[MOST_ROLES];                /* how many tiles it has begun */
    uint32_t event[MOST_ROLES];               /* .. what comes next in the last one */
    uint32_t (*copied)[PAIR][MOST_CONSUMERS]; /* by pipeline, block and part */
    uint32_t (*waited)[PAIR][MOST_CONSUMERS]; /* by pipeline, block and consumer */
    uint32_t (*released)[PAIR][MOST_CONSUMERS];
    uint32_t (*emptied)[PAIR][MOST_CONSUMERS]; /* by staging buffer, block and consumer */
    uint32_t (*written)[PAIR][MOST_CONSUMERS];
    uint32_t (*added)[PAIR][MOST_CONSUMERS];
    uint32_t turn[PAIR]; /* the consumer whose turn it is; MOST_CONSUMERS: it is taken */
    /* barriers of all consumers */
    uint32_t arrived[PAIR][MOST_CONSUMERS], passed[PAIR][MOST_CONSUMERS];
} Together;

/* Runs them until nothing moves. */
Together *roles_run_together(Arena *arena, const TirFn *fn, const Sequence *sequence);
/* The next event of a role in its tile; NULL when it is through with it. */
const TirOp *role_next_event(const Together *t, uint32_t role);
bool role_is_done(const Together *t, uint32_t role);

#endif
