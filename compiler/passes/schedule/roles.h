/* roles.h - what the files of pass `roles` share (roles*.c). */
#ifndef TILEC_PASSES_ROLES_H
#define TILEC_PASSES_ROLES_H

#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/tir_clone.h"

/* Which masks are live in what is emitted. */
typedef enum LiveMasks {
    MASKS_BY_SEGMENT, /* as the loop's segments say */
    MASKS_ALL,
    MASKS_NONE,
    MASKS_OF_ONE /* as one segment says */
} LiveMasks;
/* A vector that is loaded in each iteration, and where it is copied to. */
typedef struct StagedVector {
    const TirOp *load;
    TirShared *buffer;
} StagedVector;

/* A store behind the loop, and the pipeline in whose stage of this tile its value is written for
 * TMA. */
typedef struct StorePlace {
    const TirOp *store;
    TirShared *pipeline;
} StorePlace;

/* The numbers of iterations that stand for others, in one of the programs: from `lo` on `n`, to
 * `end`, by `start` further, around. */
typedef struct Staggering {
    TirVal *lo, *end, *n, *start; /* NULL: they are what they are */
} Staggering;

/* A tile of which each consumer writes its part for all. */
typedef struct WrittenPart {
    const TirVal *part;
    TirShared *buffer;
} WrittenPart;

typedef struct Roles {
    PassContext *px;
    TirFn *fn;
    TirBlock *old;             /* the program as it was */
    TirOp *loop;               /* the main loop as it was */
    TirBlock *body;            /* its body */
    const char *not_pipelined; /* why the main loop can not be, where that is known */
    bool pipelined, lookahead; /* it has operations of stage 1; of stage -1 */
    bool pingpong;             /* consumers start products one after the other */
    OpList around;             /* the loops around it, the outermost first */
    TirBuilder b;              /* of the role's program that is being written */
    ValueList counters;        /* .. in it, of the loops around */
    bool *stage1;              /* by value: of stage 1 */
    int8_t *level;             /* by value: how many products deep */
    /* by value: of stage 1, behind its products: made of their results */
    bool *closing;
    /* where consumers give each other parts of an operand; NULL: nowhere */
    TirShared *exchange;
    VEC(WrittenPart) parts; /* .. in other buffers */
    /* loads of the loop, in the order in which they are filled */
    OpList stage0_pipelines, stage1_pipelines;
    VEC(StagedVector) vectors; /* of the loop, copied ahead */
    bool bounds_differ;        /* the consumers' iterations are not the same */
    /* .. where two blocks multiply together: those in which there are products for this one */
    Range issued;
    TirVal *extent;      /* of the consumer axis, before everything else in the program */
    TirVal *block_index; /* in the producer's */
    bool span_all;       /* every consumer has the iterations of all */
    bool has_effects;    /* the loop writes memory */
    LiveMasks masks;
    uint32_t segment; /* the one of MASKS_OF_ONE */
    /* the first iteration has no masks; where it would, the loop is not pipelined */
    bool clean_head;
    Staggering staggered; /* in the program that is being written */
    /* where tiles are counted from the end: the index of the block's first program, as it was last
     * read in it */
    TirVal *first;
    /* the main loop goes from its last iteration to its first */
    bool backwards;
    /* loads into pipelines that are filled once for a tile */
    OpList once;
    bool once_given_back;
    bool staggers; /* consumers begin long tiles apart */
    /* of results that leave over a stage of such a pipeline */
    VEC(StorePlace) places;
    /* the first iteration of a pipelined loop, when its masks stand under tests; else NULL */
    TirVal *head;
    TirVal **splits;   /* .. and the places between the loop's segments */
    bool *only_tested; /* by value: nothing but masks under a test need it */
    /* what stands behind the loop, but is computed under its last product */
    OpList behind;
    ValueList left; /* what it leaves */
    VEC(TirShared *)
    sums; /* of products that a role of their own issues: pipelines in tensor memory */
    struct Correction *correction; /* roles_correction.c; NULL: there is no such role */
    Issued mmas;                   /* roles_find_loop: who issues products */
    Graph *graph;                  /* roles_issued.c, while it writes the loops; else NULL */
    /* how many iterations are still to be drained, where that is known; else NULL */
    TirVal *n_drained;
    Range rest; /* what is to be drained, where that was found before the loop; else NULL */
} Roles;

/* ---- roles_loop.c: what the main loop is like ---- */

/* The main loop, and whether it writes memory; false: there is none. */
bool roles_find_loop(Roles *r);
/* Whether a product adds to what something else asks for as well: it begins with a copy, and so
 * with a wait for what computes that. */
bool roles_begins_with_copy(const Roles *r, const TirOp *mma);
/* Fills `stage1` and `level`. */
void roles_mark(Roles *r);
bool roles_in_stage1(const Roles *r, const TirOp *op);
/* The place in the body of the last product of stage 0. */
uint32_t roles_last_first_mma(const Roles *r);
/* .. and made of its products' results, so behind the wait for them. */
bool roles_is_closing(const Roles *r, const TirOp *op);
/* Whether a scalar depends on the index of the consumer axis. */
bool roles_depends_on_consumer(const Roles *r, const TirVal *value);
/* Takes account of the masks in `block`, which live in the first segment of the loop or the last;
 * `turn` makes each segment the one as far from the other end. */
void roles_visit_masks(const Roles *r, const TirBlock *block, bool turn, bool *first, bool *last);
bool roles_listed(const ValueList *list, const TirVal *value);
bool roles_lists(const OpList *list, const TirOp *op);

/* Whether only the main loop reads what is loaded once for a tile, and that may have no iteration:
 * then it need not be loaded. */
bool roles_is_for_loop(const Roles *r, const TirOp *load);

/* ---- roles_stages.c: which part of the main loop is of stage 1 ---- */

/* Fills `stage1` and `level` with the stages that operations have, and takes these away; false:
 * errors. */
bool roles_take_stages(Roles *r);

/* ---- roles_ranges.c: where a role's program is in the grid, and its iterations ---- */

/* Begins a role's program, without operations, to be written by `b`. */
TirBlock *roles_begin_program(Roles *r);
/* Another role's, written by `write`, while that of consumers is. */
void roles_write_program(Roles *r, RoleKind kind, void (*write)(Roles *r));
/* The index of the consumer axis, as the launch gives it; NULL: consumers divide tiles, there is
 * none. */
TirVal *roles_grid(Roles *r);
/* The block's index on that axis, or NULL, as the producer reads it; where tiles are counted from
 * the end, its first program's, which may be less than 0. */
TirVal *roles_read_block(Roles *r);
/* Likewise, from a reading of a consumer's. */
TirVal *roles_block_index(Roles *r, TirVal *own);
/* The index of the consumer axis for consumer `w` of this block. */
TirVal *roles_consumer_index(Roles *r, TirVal *block_index, uint32_t w);
/* A map in which the consumer axis has `index`, for scalars computed from it. */
CloneMap roles_consumer_map(Roles *r, TirVal *index);
/* Lets `index` stand for all readings of grid axis `axis`, and `first`, if not NULL, for those of
 * the block's first program; without an index every axis gets a reading of its own, made by `b`,
 * that uniform. */
void roles_map_grid(TirBuilder *b, CloneMap *map, const TirBlock *block, uint32_t axis,
                    TirVal *index, TirVal *first);
/* Whether a consumer with this index has a program: not in front of the axis, nor past its end. */
TirVal *roles_is_there(Roles *r, TirVal *index);
/* Whether operations of `block` from `from` on would do something in a consumer without one. */
bool roles_has_effects(const Roles *r, const TirBlock *block, uint32_t from);
/* Of one consumer, of the main loop or one around it: nothing, at `none`, when it has no
 * program. */
Range roles_consumer_range(Roles *r, const TirOp *loop, TirVal *index, TirVal *none);
/* Of all consumers of a block; also where the first one begins. */
Range roles_block_range(Roles *r, const TirOp *loop, TirVal *block_index, TirVal **first_lo);
/* Whether the bounds of a loop depend on the index of the consumer axis. */
bool roles_loop_differs(const Roles *r, const TirOp *loop);
/* The iterations of the main loop or one around it that some consumer has; of the bounds of a loop
 * inside others only those count that consumers have who have the iterations around. */
Range roles_range_of_all(Roles *r, const TirOp *loop, TirVal *block_index);
/* A consumer's iterations: none, at `none`, where it has no program. */
Range roles_own_range(Roles *r, Range own, TirVal *there, TirVal *none);
/* Whether two integers are known to be the same. */
bool roles_is_same(const TirVal *a, const TirVal *b);
/* The numbers of `range` in a block whose consumers together have `all`; as written if forwards. */
Range roles_numbers(Roles *r, Range range, Range all);

/* ---- roles_producer.c ---- */

/* Writes the producer. */
void roles_make_producer(Roles *r);
/* Gives it several warps, where one takes too long. */
void roles_share_producer(Roles *r);

/* ---- roles_bounds.c ---- */

/* Gives all consumers the same iterations, where programs that leave nothing are all that have
 * others. */
void roles_share_bounds(Roles *r);
/* Whether a consumer's program leaves anything; NULL: that follows from no condition. */
TirVal *roles_leaves_some(Roles *r, TirBuilder *b);

/* ---- stages_order.c ---- */

/* Has the operations of the loop stand in the order in which a consumer does them: where it is
 * pipelined, in each stage. */
void stages_order(Roles *r);
/* The operations of a loop's body that is not pipelined, without the yield, in the order in which a
 * consumer does them; `lookahead`: the next iteration's product that begins in it, or NULL. */
OpList stages_order_in_order(const Roles *r, const TirBlock *body, const Lookahead *lookahead);
/* Puts arithmetic that stands before `product` in `order`, and that it does not need, behind it. */
void stages_put_off(const Roles *r, OpList *order, const TirOp *product);
/* Whether the next iteration's first product begins in each iteration. */
bool roles_begins_ahead(Roles *r, Lookahead *lookahead);

/* ---- roles_order.c ---- */

/* Lists the loads that stand for pipelines, those of the loop in the order in which the producer
 * fills them. */
void roles_list_pipelines(Roles *r);
/* Whether `op` is a product that reads the pipeline behind `load`, itself or through a part or a
 * transpose. */
bool roles_reads_pipeline(const TirOp *op, const TirOp *load);
/* .. or is that load, or reads what it brings in registers, itself or through a part of it. */
bool roles_reads_load(const TirOp *op, const TirOp *load);

/* ---- roles_stagger.c ---- */

bool roles_can_stagger(const Roles *r);
/* Of the main loop with all iterations of a block. */
Staggering roles_stagger(Roles *r, TirVal *block_index, Range range);
/* The iteration that `number` stands for. */
TirVal *roles_iteration(Roles *r, TirVal *base, TirVal *number);
/* Has a consumer wait until those before it have begun the tile. */
void roles_delay(Roles *r, Range range);

/* ---- roles_pieces.c: operations, one by one ---- */

/* A map for uniform scalars: from readings of the grid that do nothing else, in the given iteration
 * of the main loop. */
CloneMap roles_uniform_map(Roles *r, TirVal *iteration);
void roles_plain(TirBuilder *b, TirOpcode opcode, TirShared *pipeline, int64_t integer);
/* Goes on in a branch that is taken where `condition` holds (NULL: no branch), or in a loop that
 * carries nothing, until its end. */
TirOp *roles_begin_if(TirBuilder *b, TirVal *condition);
TirOp *roles_begin_for(TirBuilder *b, TirVal *lo, TirVal *hi, Span span);
void roles_end(TirBuilder *b, const TirOp *around);
/* Goes on in an iteration of the loop around the main one that comes next, and behind that loop. */
TirOp *roles_begin_around(Roles *r, TirVal *lo, TirVal *hi);
void roles_end_around(Roles *r, const TirOp *around);
/* Writes the loops around that are left, in the iterations that some consumer of the block has, and
 * by `write` what stands in them. */
void roles_write_nest(Roles *r, TirVal *block_index, void (*write)(Roles *r, TirVal *block_index));
/* Reads the stage of a buffer in shared memory that was waited for last; lets `map` have what it
 * holds for `load`; reads a buffer in tensor memory, of a role that serves all that of consumer
 * `w`. */
TirOp *roles_read(TirBuilder *b, TirShared *buffer, TirType type, const char *name);
TirOp *roles_read_for(Roles *r, CloneMap *map, const TirOp *load);
/* Writes to its next stage, in shared memory. */
void roles_write(TirBuilder *b, TirShared *buffer, TirVal *value);
TirVal *roles_read_tmem(TirBuilder *b, TirShared *buffer, uint32_t w);
/* A copy of `op`; a load from a pipeline becomes a wait and a reading. `all_masks`: of every
 * segment.
 */
void roles_copy(Roles *r, CloneMap *map, const TirOp *op, bool all_masks);
/* The copies that fill one stage of the pipeline behind `load`, in the iteration that `map` gives
 * the loop; `condition`, or
 * NULL: whether anybody reads it. */
void roles_fill(Roles *r, const CloneMap *map, const TirOp *load, TirVal *condition);
/* Whether an iteration can compute `value` of the body again: from nothing but its own number and
 * what is known before the loop. */
bool roles_is_remade(const Roles *r, const TirVal *value);
/* .. does so, unless `map` has it. */
void roles_remake(Roles *r, CloneMap *map, TirVal *value);
/* Gives pipelines back. */
void roles_release(TirBuilder *b, const OpList *pipelines);
/* What the loop's carried values begin with, by `map`, with room for `more` behind them. */
TirVal **roles_initial(Roles *r, const CloneMap *map, uint32_t more);
/* A channel of one stage between two roles, of which a consumer is one or each has its own. */
TirShared *roles_new_channel(Roles *r, const char *name, TirType type, SharedKind kind,
                             RoleKind from, RoleKind to);

/* ---- roles_vectors.c: vectors that are copied an iteration ahead ---- */

/* Whether the main loop does nothing but add products up, copies no vectors, and has room for two
 * stages. */
bool roles_accumulates_only(const Roles *r);
/* The load on whose pipeline vectors can share barriers: of the tile that is waited for first and
 * comes for all consumers, as vectors do.  Where a product begins ahead, the first vector: behind
 * the products' start.  NULL: none. */
TirOp *roles_carrier(const Roles *r);
/* Makes pipelines of those that TMA can bring for all consumers. */
void roles_pipeline_vectors(Roles *r);
/* Whether the consumers copy others of the loop themselves. */
bool roles_copies_vectors(const Roles *r);
/* Lists these. */
void roles_find_vectors(Roles *r);
/* How a load of the loop is staged; NULL: it is not. */
const StagedVector *roles_vector(const Roles *r, const TirOp *load);
/* Starts the copies for an iteration. */
void roles_copy_vectors(Roles *r, TirVal *iteration);
/* Waits for the copies that this thread started; a barrier has to follow. */
void roles_vectors_there(Roles *r);
/* The vector of an iteration. */
void roles_read_vector(Roles *r, CloneMap *map, const StagedVector *vector, TirVal *iteration);

/* Vectors that the producer does not copy, of consumers that divide tiles: each loads its part. */
void roles_narrow_vectors(Roles *r);

/* ---- roles_exchange.c: what consumers that work on one product give each other ---- */

/* The tile that a `from` reads a part of. */
TirVal *roles_part(const TirOp *from);
/* The right operand of a product, where it is computed and so goes through shared memory, as it
 * lies in registers; NULL: it is loaded. */
TirVal *roles_computed_right(const Roles *r, const TirOp *op);
/* This consumer's part, for all: of what a `from` reads, or of the left operand of a product that
 * is shared out; or for itself, of a product's right operand. */
void roles_write_part(Roles *r, const CloneMap *map, const TirOp *op);
/* Whether `op` adds a product to memory of which each consumer has a share. */
bool roles_adds_share(const Roles *r, const TirOp *op);
/* Through which buffer a consumer's share goes to the tensor that `add` adds to. */
TirShared *roles_staging(Roles *r, TirOp *add);
/* Emits an operation on parts; false: it is to be copied like others. */
bool roles_exchange_op(Roles *r, CloneMap *map, TirOp *op);

/* ---- roles_steps.c: the main loop of a role, written from its steps ---- */

/* clang-format off */
typedef enum StepKind {
    STEP_OP,            /* the operation */
    STEP_WAIT,          /* until product `op` has ended; `values` are computed before */
    /* the stage that load `op` stands for is given back; not before `values` are computed */
    STEP_RELEASE,
    STEP_WRITE_PART,    /* for `from`, or a product that is shared out */
    STEP_READ_AGAIN,    /* the stage of load `op`, which an earlier stage has waited for */
    STEP_FILL,          /* a stage for load `op`: by the producer */
    STEP_COPY_VECTORS,  /* of the iteration `ahead` of this one */
    STEP_VECTORS_THERE,
    STEP_DELAY,         /* of a consumer that begins its tile behind others */
    STEP_GIVE_BACK, STEP_GIVE_BACK_DEFERRED, /* pipelines that are filled once for a tile */
    /* of no stage: operation `opcode`, which has no operands; what is computed under the last
     * products, and wanted behind the loop; what is left to be drained, likewise */
    STEP_PLAIN, STEP_BEHIND, STEP_REST
} StepKind;
/* clang-format on */

/* Parts of a loop with two stages. */
typedef enum StepParts {
    STEP_HEAD = 1,
    STEP_STEADY = 2,
    STEP_TAIL = 4,
    STEP_EVERYWHERE = 7,
    STEP_NONE = 8 /* where there is no iteration */
} StepParts;

typedef struct Step {
    StepKind kind;
    TirOpcode opcode;
    TirOp *op;
    int8_t stage;
    uint8_t ahead;
    bool of_next;    /* `values` are the first stage's: of the iteration that comes next */
    StepParts parts; /* others leave it out */
    ValueList values;
} Step;

typedef VEC(Step) StepList;

typedef struct Staged {
    StepList steps;
    bool bare;          /* of a role that computes nothing: no values, masks or segments */
    int8_t first;       /* the first of two stages */
    const bool *later;  /* by value: of the second one; NULL: there is but one stage */
    ValueList crossing; /* values of the first stage that the second one reads */
    VEC(TirType) more;  /* of values that are computed under the last products, and wanted behind */
    /* where the first iteration has to stand before, NULL: the end; else the loop is written by
     * this */
    TirVal *least;
    void (*otherwise)(Roles *r, CloneMap *map, Range range);
} Staged;

/* Appends a step of all parts of the loop, for whoever changes it. */
Step *roles_add_step(Roles *r, StepList *steps, StepKind kind, TirOp *op, int8_t stage);
/* The loop; `values` are what it begins with, then what it leaves, and `more`.  Of two stages: the
 * range has an iteration. */
void roles_emit_staged(Roles *r, const CloneMap *map, Range range, const Staged *staged,
                       TirVal **values);
/* .. may have none. */
void roles_emit_if_any(Roles *r, const CloneMap *map, Range range, const Staged *staged,
                       TirVal **values);

/* ---- roles_list.c: what an iteration of a consumer does ---- */

/* As it is written; the next one's first product begins in it if `lookahead` is not NULL, and
 * products are waited for `late` iterations later. */
Staged roles_list_in_order(Roles *r, const OpList *order, const Lookahead *lookahead, int8_t late);
Staged roles_list_pipelined(Roles *r);
/* ---- roles_main.c: the main loop as it is, pipelined by one stage ---- */

void roles_in_order(Roles *r, CloneMap *map, Range range);
void roles_pipelined(Roles *r, CloneMap *map, Range range);
/* roles_behind.c: operations behind the loop that the last product runs under. */
void roles_find_behind(Roles *r);
bool roles_is_moved(const Roles *r, const TirOp *op);
uint32_t roles_emit_behind(Roles *r, const CloneMap *map, TirVal **values);
/* ---- roles_drain.c: iterations that other consumers need and this one lets pass ---- */

void roles_drain_range(Roles *r, TirVal *from, TirVal *to);
/* Whether there may be some behind a consumer's own. */
bool roles_has_rest(const Roles *r);
/* Under the last product of a pipelined loop (`under`), or where a consumer has no iteration: how
 * many are still to be drained behind `end`. */
TirVal *roles_begin_rest(Roles *r, TirVal *end, bool under);
/* Behind everything else that is done for the tile. */
void roles_drain_rest(Roles *r);
/* The iterations of a loop around the main one: a consumer's and, where consumers differ in them,
 * the block's. */
typedef struct Nest {
    Range own, all;
} Nest;
/* Writes what is drained before the loop around that comes next, and finds its iterations; what is
 * drained behind it. */
Nest roles_begin_nest(Roles *r, TirVal *own, TirVal *there);
void roles_end_nest(Roles *r, TirVal *own, const Nest *nest);

/* roles_first.c: decides branches of the iteration that stands before a pipelined loop. */
void roles_settle_first(TirFn *fn);
/* roles_issue.c: makes what lies between the roles, and writes the programs of the mma, the
 * correction and the reduce role. */
void issue_make_buffers(Roles *r, Graph *graph);
void issue_write_program(Roles *r);
void issue_write_corrector(Roles *r);
void issue_write_adder(Roles *r);
/* Waits for the result of a product, and lets the map have it. */
void issue_read_result(Roles *r, CloneMap *map, const Product *p);
/* The computed operand of a product; NULL: that is loaded. */
GraphOperand *issue_operand(Graph *graph, const Product *p);
TirShared *issue_last_piece(const GraphOperand *operand);
/* How often the mma role takes a sum, and gives it, before the loops: 0, 1, 3 or 4. */
uint32_t issue_sum_turns(const Product *p);
/* roles_issued.c: where a role of their own issues the products: before the outermost loop, the
 * main one, behind all; what sums lie in is given back behind everything else. */
void roles_begin_issue(Roles *r, const CloneMap *map);
void roles_issued(Roles *r, CloneMap *map, Range range);
void roles_end_issue(Roles *r, CloneMap *map);
void roles_release_sums(Roles *r);
/* Emits what of such a loop is not copied as it is; false: it is to be copied. */
bool roles_issued_op(Roles *r, CloneMap *map, const TirOp *op);
/* roles_correction.c: finds what of the chain's `sum`, the loop's result `k`, the correction role
 * has to do. */
void roles_begin_correction(Roles *r, TirShared *sum, uint32_t k);
/* What says that a sum may be added to. */
TirShared *roles_ready_sum(const Roles *r);
/* In a consumer's iteration: result `k` of `change`, the sum, becomes the factors that it hands
 * over. */
void roles_hand_factors(Roles *r, CloneMap *map, const TirOp *change, uint32_t k);
/* Behind its loop: the vectors of which, with sums, results are made. */
/* roles_wants.c: what consumers have to load stays in the plan. */
void roles_keep_wants(Roles *r);
void roles_hand_results(Roles *r, CloneMap *map);
/* Whether an operation behind the loop is none of the consumer's, or was made for that. */
bool roles_is_corrected(const Roles *r, const CloneMap *map, const TirOp *op);
/* The role's program, of the iterations that each consumer has, and all. */
void roles_write_correction(Roles *r, TirShared *sum, const Range *own, Range all);
/* Whether stage 1 reads nothing of the pipelines that are filled once for a tile. */
bool roles_reads_once_in_stage0(const Roles *r);
/* roles_store.c: finds results that leave over the stages of pipelines that are filled once for a
 * tile. */
void roles_find_places(Roles *r);
/* Gives back the stages of pipelines that are filled once for a tile: of this tile, or, of those
 * over which results leave, that of the tile before (`deferred`). */
void roles_give_back_once(Roles *r, bool deferred);
/* Emits a store behind the loop through shared memory; false: it stays as it is. */
bool roles_tma_store(Roles *r, CloneMap *map, const TirOp *store);
/* roles_reduce.c: when the body is done: what it adds to memory by TMA becomes the program of the
 * reduce role. */
void roles_make_reduce(Roles *r);
/* roles_pair_sums.c: of the reduce role's program: what the blocks of a pair add to memory they add
 * up before. */
void roles_share_additions(Roles *r, TirBlock *program);
/* roles_next.c: likewise: what `next_tile` finds out. */
void roles_make_next(TirFn *fn);

/* roles_masks.c: before the first iteration of a pipelined loop is emitted: which of its masks it
 * may leave out. */
void roles_find_tests(Roles *r, const CloneMap *map, TirVal *iteration);
/* A mask of that iteration under its test, or nothing for what only such masks ask for; false:
 * neither. */
bool roles_test_mask(Roles *r, CloneMap *map, const TirOp *op);

/* ---- roles_segments.c ---- */

/* Lets all consumers of a block begin the segments of the main loop together, in `map`, where that
 * is possible; `own`: the index of the consumer axis. */
void roles_share_segments(Roles *r, CloneMap *map, TirVal *own);
/* The iterations of segment `k`, when those before it end at `from`. */
Range roles_segment(Roles *r, const CloneMap *map, Range all, uint32_t k, TirVal *from);

/* ---- roles_wishes.c ---- */

/* What the source asked for by name and the plan has not: errors. */
void roles_check_wishes(const Roles *r);

/* ---- roles_tiles.c ---- */

/* Behind everything else: lets programs of roles begin and end with what the tile scheduler
 * does. */
void roles_make_tiles(TirFn *fn);

#endif
