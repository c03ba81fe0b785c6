/* check_roles.h - what the files of pass check-roles share: a role's run over one work tile, and
 * the roles together. */
#ifndef TILEC_PASSES_CHECK_ROLES_H
#define TILEC_PASSES_CHECK_ROLES_H

#include "compiler/ir/isa.h"
#include "compiler/passes/check/role_walk.h"

/* A role's operations that concern other roles, in order.  Producer: copies.  Consumer: waits,
 * shared_reads of the stages, releases, ping-pong, writes to staging buffers.  Reduce role:
 * staging_empty and the additions. */
typedef VEC(const TirOp *) RoleEvents;

typedef struct RoleFault {
    const char *text; /* NULL: no fault */
    const TirOp *op,
        *other; /* the operation at which it shows; another one that it involves, or NULL */
} RoleFault;

/* What stays the same over all runs of the consumer's program. */
typedef struct ConsumerFacts ConsumerFacts;
ConsumerFacts *consumer_facts(Arena *arena, const TirFn *fn);

/* Runs a consumer's program (with all operations) over one tile and checks the rules that concern
 * this consumer alone.  On a fault returns false and fills `fault`; `events` then end at the
 * fault.  Returns false without a fault when the run is too long. */
bool check_consumer(const ConsumerFacts *facts, Walk *walk, WalkProgram *program,
                    RoleEvents *events, RoleFault *fault);

/* What a consumer's threads copy to buffers of theirs (role_copies.c): copies, groups, waits and
 * barriers, reads where they stand, and reads where something asks for them.  NULL, or what is
 * wrong, with a place for the buffer's name. */
typedef struct Copies Copies;
Copies *copies_new(Arena *arena, const TirFn *fn);
const char *copies_take(Copies *c, const TirOp *op, const Walk *walk);
const char *copies_read(Copies *c, const TirOp *read);

/* What is the same for all places of a load or a copy. */
typedef struct PlaceOf {
    const TirOp *op;
    const TirOp *like; /* another one that is known to lie in the same ways (tir_same_ways) */
    const TirVal *condition;
    uint32_t slot, n; /* of its list; dimensions that have a number: which, and that */
    uint32_t dim[TENSOR_MAX_RANK];
    const TirVal *at[TENSOR_MAX_RANK];
} PlaceOf;

/* Where a load or a copy lies. */
typedef struct Place {
    PlaceOf *of;
    int64_t at[TENSOR_MAX_RANK]; /* 0 of what is not known */
    uint32_t known;              /* a bit for each dimension */
    bool empty;                  /* nothing is copied, or it is not known */
} Place;

typedef VEC(Place) Places;

/* The places of the copies or loads of a program, by pipeline and part; of loads, by pipeline.
 * False: too long a run. `places` begins as NULL and is filled again and again. */
bool list_places(Arena *arena, const TirFn *fn, Walk *walk, WalkProgram *program, Places **places);
/* Whether two hold the same tile, as far as is known. */
bool same_place(const Place *a, const Place *b);
void print_place(Buf *out, const char *what, const Place *place);
/* What `next_tile` keeps of the next tile and computes in another way than the tile's own program
 * does; NULL: there is nothing. */
const TirOp *changed_kept(Arena *arena, const TirFn *fn);
/* Finds what reads a pipeline in a run of a role: `reader` is then that, or NULL.  False: the run
 * ended before its end. */
bool find_reader(Walk *walk, WalkProgram *program, const TirShared *pipeline, const TirOp **reader);

/* ---- the roles together: check_together.c ---- */

enum {
    MOST_TILES = 4, /* one after the other */
    PAIR = 2,       /* blocks that share pipelines, at most */
    /* of a block in the grid, as far as contents go */
    MOST_PLACES = (1 << WALK_AXES) * PAIR * (MOST_CONSUMERS + 1),
    BLOCK_ROLES = 3 + 2 * MOST_CONSUMERS, /* of a block, at most */
    MOST_ROLES = PAIR * BLOCK_ROLES
};

/* A step of a role, by number and kind, in its tile of that number: `op`, and for whom that is. */
typedef struct RoleStep {
    const TirOp *op;
    RoleKind kind;
    uint32_t role, consumer, tile;
    /* of the mma role's product: whether it adds to what is there; -1: it is not known */
    int8_t adds;
} RoleStep;

/* check_columns.c: who has accessed which columns of tensor memory, and what roles know. */
typedef struct Columns Columns;
Columns *columns_new(Arena *arena, const TirFn *fn, uint32_t roles);
/* Nothing has been accessed yet: a block begins. */
void columns_begin(Columns *c);
/* NULL, or what is wrong with a step; `other`: the access before that it concerns, or NULL. */
const char *columns_take(Columns *c, const RoleStep *step, const TirOp **other);

/* The roles of a block by number: the producer, each consumer, each reduce warp if there are such,
 * the correction role, the mma role. */
uint32_t roles_of_block(const TirFn *fn);
RoleKind role_kind(const TirFn *fn, uint32_t own);
/* The consumer that a role is, or whose tiles it adds to memory; 0 for the producer. */
uint32_t role_consumer(const TirFn *fn, uint32_t own);
/* The number of the role that does what one of this kind does on behalf of consumer `k`. */
uint32_t role_number(const TirFn *fn, RoleKind kind, uint32_t k);
/* Where a run of a role, one that serves all consumers or another, keeps what it does to a pipeline
 * on behalf of consumer `k`: all others do it for one. */
uint32_t role_slot(const TirShared *pipeline, bool serves_all, uint32_t k);

/* One way through a role's program, and its events. */
typedef struct RoleRun {
    WalkWay way;
    WalkWay class;               /* the same with long loops cut short */
    const struct RoleRun *alike; /* the first one of this class */
    RoleEvents events;
    VEC(int8_t) adds; /* of the products among them (RoleStep) */
    /* by pipeline (role_slot): how many stages it fills or waits for; by staging buffer: how many
     * tiles */
    uint32_t *counts;
    /* of a consumer or the mma role, likewise: the shared_read of each stage, or the consumer's
     * product that uses it; NULL: drained unread */
    RoleEvents *stages;
} RoleRun;

/* role_events.c: lists what a role does to others; of the producer and the mma role with the rules
 * that concern it alone.  False: there is a fault, or, without one, the run is too long. */
bool list_role_events(Arena *arena, const TirFn *fn, RoleKind kind, Walk *walk,
                      WalkProgram *program, RoleRun *run, RoleFault *fault);
/* Sorts that by pipelines. */
void sort_role_events(Arena *arena, const TirFn *fn, bool serves_all, RoleRun *run);
/* The class of a run, of whose pipelines the deepest has so many stages.  Iterations of a loop
 * beyond those that take every pipeline around twice show nothing new; nor do loops in it that are
 * alike so often, one after the other. */
void role_run_class(Arena *arena, uint32_t stages, RoleRun *run);

/* Where two blocks multiply together: whether a consumer reads no result of the products of its
 * iteration `number`. */
bool role_lets_pass(const TirFn *fn, const RoleRun *consumer, uint32_t number);

/* A tile of one block: the runs of its roles. */
typedef struct TileRun {
    RoleRun *role[BLOCK_ROLES];
    const struct TileRun
        *alike; /* the first one whose roles go ways of the same classes, each as the others do */
    uint32_t seen[MOST_PLACES]; /* how often it was at such a place */
} TileRun;

/* The tiles of a block, or of the two of a pair. */
typedef struct Sequence {
    const TileRun *tile[PAIR][MOST_TILES];
    uint32_t n;
} Sequence;

/* Stages of a pipeline, or tiles of a staging buffer: handed on, waited for, given back, and
 * acquired to be filled. */
typedef struct Counts {
    uint32_t filled, waited, released, acquired;
} Counts;

/* How far each role is, and what has gone through each pipeline.  In the second block of a pair a
 * role's number is its number in the block plus the number of roles of a block. */
typedef struct Together {
    const TirFn *fn;
    const Sequence *sequence;
    uint32_t consumers, per_block, roles; /* in a block; roles in one, in all */
    uint32_t consumer[BLOCK_ROLES];       /* role_consumer */
    RoleKind kind[BLOCK_ROLES];           /* role_kind */
    bool serves_all[BLOCK_ROLES];         /* tir_serves_all */
    bool pairs;                           /* blocks multiply in pairs */
    bool idle[MOST_ROLES],
        for_both[MOST_ROLES];       /* another block's does its work; its work is for both */
    uint32_t tile[MOST_ROLES];      /* how many tiles it has begun */
    const RoleRun *run[MOST_ROLES]; /* .. the last one; NULL: there is none */
    uint32_t event[MOST_ROLES];     /* .. what comes next in it */
    uint32_t product[MOST_ROLES];   /* .. how many it has issued */
    Counts (*counts)[PAIR][MOST_CONSUMERS]; /* by buffer, block and consumer or part */
    Columns *columns[PAIR];
    const char *wrong; /* an access to tensor memory, that of role `wrong_role`; NULL: none */
    const TirOp *other;
    uint32_t wrong_role;
    uint32_t asked;      /* how often the first block's producer has asked for a tile */
    uint32_t turn[PAIR]; /* the consumer whose turn it is; MOST_CONSUMERS: it is taken */
    /* barriers of all consumers */
    uint32_t arrived[PAIR][MOST_CONSUMERS], passed[PAIR][MOST_CONSUMERS];
} Together;

/* Runs all roles until none can take a step. */
Together *roles_run_together(Arena *arena, const TirFn *fn, const Sequence *sequence,
                             Columns *const columns[PAIR]);
/* What a role does next in its tile, if it is not through with it: of the mma role, for the
 * consumer that it names. */
RoleStep role_step(const Together *t, uint32_t role);
/* The next event of a role in its tile; NULL when it is through with it. */
const TirOp *role_next_event(const Together *t, uint32_t role);
bool role_is_done(const Together *t, uint32_t role);

#endif
