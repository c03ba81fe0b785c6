/* plan.h - the plan for warp groups: passes `plan` and `roles`. */
#ifndef TILEC_PASSES_PLAN_H
#define TILEC_PASSES_PLAN_H

#include "compiler/ir/layout.h"
#include "compiler/passes/pass.h"

/* Named barriers of a block that has roles: one for each purpose and warp group. */
enum {
    /* For a product of all consumers two each, where one and the warp that adds its tile to memory
     * meet: so many consumers at most, as the block's barriers are for. */
    MOST_SHARING = (NAMED_BARRIERS - 2 - 2 * MOST_CONSUMERS) / 2,
    BARRIER_BLOCK = 0,
    BARRIER_GROUP = 1, /* a warp group's own: it is counted from 1, too */
    BARRIER_FREE = BARRIER_GROUP + MOST_CONSUMERS,     /* the staging buffer was read .. */
    BARRIER_TURN = BARRIER_FREE + MOST_SHARING,        /* a consumer has its turn */
    BARRIER_CONSUMERS = BARRIER_TURN + MOST_CONSUMERS, /* all that compute */
    BARRIER_FULL = BARRIER_CONSUMERS + 1,              /* .. and was written */
    BARRIERS_USED = BARRIER_FULL + MOST_SHARING
};
_Static_assert((int)BARRIERS_USED <= (int)NAMED_BARRIERS, "a block has no more barriers");
_Static_assert(BARRIER_GROUP == 1, "a warp group's number is that of its barrier");

/* Registers of a result with what it becomes while later products run, operands of so many bits (of
 * 8, also numbers of lanes and selectors, lower_moves.c); whether a role's thread has so many in
 * all. */
int64_t plan_overlapped(int64_t result, int64_t bits);
const char *plan_lacks_registers(const Target *target, const TirFn *fn, const TirOp *loop);
bool plan_overlap_fits(const Target *target, uint32_t consumers, int64_t registers);

/* What depends on an axis, by value: of the grid; or, NO_AXIS, of the consumers that divide a
 * tile. */
typedef struct AxisDependence {
    uint32_t axis;
    bool *depends;      /* on the index */
    uint8_t *along;     /* bit d: dimension d runs along the axis */
    uint32_t consumers; /* programs of a block */
} AxisDependence;

/* Whether an operation divides an index of the axis so that all programs of a block have the
 * same. */
bool plan_is_block_index(const TirOp *op, uint32_t axis, uint32_t consumers);

/* Over a block; over a loop as often as something new goes around it. */
void plan_axis_dependence(AxisDependence *p, const TirBlock *block);

/* plan_cooperative.c: has `consumers` warp groups divide the tiles along which the main loop goes,
 * and the columns of what it adds up; `registers` a thread.  NULL, or why that can not be, and
 * where; the kernel is half done then. */
const char *plan_cooperative(TirFn *fn, TirOp *loop, uint32_t consumers, int32_t registers,
                             Span *where);

/* plan_pairs.c: the dimension of its tensor along which the tile of a load, or the copy of it, into
 * a halved pipeline is halved. */
uint32_t pair_halved_dim(const TirOp *access, const TirShared *pipeline);
/* Of a plan whose pipelines are made: NULL, or why neighbouring blocks can not multiply or add up
 * together, and where. */
const char *plan_can_pair(const Target *target, const TirFn *fn, const TirOp *loop, Span *where);
/* Lets them. */
void plan_pairs(const Target *target, TirFn *fn, const TirOp *loop);
/* roles_pair_sums.c: columns that a block sends to the other one, of a tile of so many that both
 * add up. */
int32_t plan_sent_columns(const Target *target, int32_t columns);

/* plan_order.c: the order of tiles, for a plan whose pipelines are made; `body` is the main
 * loop's. */
void plan_tile_order(const Target *target, TirFn *fn, const TirBlock *body);

/* plan_coop_k.c: what each consumer computes of a product of all consumers; no rows: it can not be
 * divided. */
typedef struct CoopKShare {
    int32_t rows, cols;
    bool by_rows; /* its rows are a part of the result's; else its columns are */
    bool padded;  /* the last consumer's reaches over the result's end */
    bool swap_ab; /* computed with swap_ab */
} CoopKShare;

CoopKShare coop_k_share(TirType result, uint32_t consumers);
/* Whether the tensor ends where the result does, if shares reach over that. */
bool coop_k_may_be_added(CoopKShare share, const TirOp *add);

typedef VEC(TirOp *) OpList;

/* The first iteration and the one behind the last: as the loop was written, or, when it goes
 * backwards, by the numbers that they have from the end of the block's: iteration i is number
 * base - 1 - i. */
typedef struct Range {
    TirVal *lo, *hi;
    TirVal *base; /* NULL: as written */
} Range;

/* The first product of an iteration, when it begins in the one before. */
typedef VEC(TirVal *) ValueList;

typedef struct Lookahead {
    /* of the body; the load of its operand that comes in each iteration, or this consumer's part of
     * that */
    TirOp *mma, *load;
    OpList needs; /* what makes it, in order, itself the last */
    /* where consumers divide tiles: arithmetic on its result that needs nothing else of the
     * iteration but loads, and the results of that which others ask for */
    OpList front;
    ValueList made;
    bool *of;              /* by id: itself, what it loads, what is made of them when asked for */
    struct CloneMap *next; /* roles: in which the next iteration's begins; NULL: there is none */
} Lookahead;

/* ---- plan_facts.c: what the products of a loop are like ---- */

typedef enum ProductKind {
    PRODUCT_READ, /* arithmetic reads its result */
    PRODUCT_SUM,  /* it adds to a sum that loops carry */
    PRODUCT_ADDED /* its result is added to memory */
} ProductKind;

typedef struct Product {
    TirOp *mma;
    /* that bring its operands, or what these are transposes of; NULL: it is computed */
    TirOp *load[2];
    TirOp *scales[2]; /* likewise; NULL: it has none */
    bool second;      /* the left one is */
    TirOp *viewed[2]; /* what makes them, behind transposes and parts; NULL: the loop carries it */
    bool early;       /* they are loaded, or made before the loop */
    uint32_t carried; /* 1 + the carried value that its result becomes; 0: none */
    uint32_t sum;     /* .. if nobody else reads it */
    /* what makes of such a sum that to which it adds; NULL: it adds to the sum itself */
    TirOp *change;
    /* the sum that the iteration begins with is what it adds to, or becomes that in one operation,
     * and has no other use */
    bool in_place;
    TirOp *addition;   /* what adds its result to memory, and nothing else reads it; else NULL */
    uint32_t over;     /* 1 + the product over whose result its computed operand may lie; 0: none */
    bool covered;      /* such an operand may lie over its result */
    TirShared *result; /* pass `roles`: where its result lies */

    /* of a graph: */
    ProductKind kind;
    uint32_t operand; /* 1 + the computed left operand; 0: that is loaded */
    /* 1 + the loaded left operand that stays in tensor memory; 0: it is read in shared memory */
    uint32_t kept;
    bool transposed; /* it reads the transpose of that operand's base */
    /* 1 + the product with whose result it takes turns in tensor memory; 0: it has its own place */
    uint32_t turn;

    /* pass `roles`: */
    bool implied; /* that an operand is written says that the result has been read */
    bool ahead;   /* it is issued in the iteration before, behind .. */
    uint32_t
        /* .. the product at this place of the order (0: in front), and those ahead before it */
        behind;
    bool written;    /* a consumer writes what the sum begins with */
    bool corrected;  /* the correction role changes the sum */
    TirVal *read[2]; /* its scales, as the mma role has them in this iteration */
} Product;

typedef VEC(Product) Products;

/* Those of a loop's body, in the program's order. */
Products plan_products(const TirFn *fn, const TirOp *loop);
/* What makes a value, behind transposes and parts; may be NULL. */
TirOp *plan_viewed(const TirVal *value);

/* ---- plan_graph.c ---- */

/* Whether a loop does nothing with its products of loaded tiles but add each to a sum of its
 * own. */
bool plan_only_adds(const TirFn *fn, const TirOp *loop);
/* Clocks that a warp takes to ask for what fills a stage of the pipeline behind `load`. */
double plan_asking_clocks(const Target *target, const TirOp *load, uint32_t consumers);
/* plan_facts.c: the operation of a body that adds the result of its product to memory, if nothing
 * else uses it; NULL. */
TirOp *plan_only_addition(const TirBlock *body, const TirVal *result);
/* The load of which an operand is, itself or a transpose; NULL: it is computed. */
TirOp *plan_operand_load(const TirVal *operand);
/* The load of a pipeline that an operation is, or a transpose of; NULL: neither. */
TirOp *plan_piped(const TirOp *op);
/* By whom the products of a main loop are issued, and as what: by a role of their own that has
 * nothing but sums of them, a chain (arithmetic between them changes sums in place) or a graph. */
typedef enum Issued { BY_CONSUMERS, AS_SUMS, AS_CHAIN, AS_GRAPH } Issued;
enum { ADDED_AT_ONCE = 128 }; /* columns of a row that a role which adds to memory holds, at most */
/* Bytes of shared memory that computed operands of such a graph take; -1: it is none. */
int64_t plan_operand_bytes(const Target *target, const TirFn *fn, const TirOp *loop,
                           uint32_t consumers);

typedef struct Graph Graph;
enum { MOST_PIECES = 2 };

/* A left operand that the consumer computes. */
typedef struct GraphOperand {
    TirVal *base;    /* of which products read this, or its transpose */
    bool transposed; /* the transpose of the base is written, whose rows are the consumer's */
    bool shared;     /* to shared memory */
    TirOp *first;    /* the first product that reads it */
    bool *made_of;   /* by product: of its result, which arithmetic reads */
    /* in tensor memory: 1 + the product over whose result it lies; 0: it has its own place */
    uint32_t over;
    /* pass `roles`: where it lies, in pieces that are handed on one by one */
    TirShared *pieces[MOST_PIECES];
    uint32_t n_pieces;
    bool implied;  /* that a result is there says that products have read the operand before */
    bool acquired; /* the consumer's program has waited for room for it */
    uint32_t with; /* 1 + the operand with which it is handed on; 0: it is by itself */
    TirVal *read;  /* as the mma role has it in this iteration */
} GraphOperand;

/* A left operand that is the same in all iterations, which the consumer writes to tensor memory
 * before them. */
typedef struct GraphKept {
    TirOp *load;
    bool transposed;   /* its transpose is written */
    TirShared *buffer; /* pass `roles` */
    TirVal *read;
} GraphKept;

struct Graph {
    /* BY_CONSUMERS with `why`, if it can not be, or with NULL, if the target has no such
     * products */
    Issued as;
    const char *why;
    Products products; /* in the program's order */
    /* some are sums: consumers wait for the mma role in every tile, also where loops have no
     * iteration */
    bool sums;
    VEC(GraphOperand) operands;
    VEC(GraphKept) kept;
    /* pass `roles`: products of an iteration in order, and the places in it as the mma role goes
     * through them */
    VEC(Product *) order;
    VEC(uint32_t) issued;
    bool over; /* operands of a chain lie over results */
    bool two;  /* some products are issued an iteration ahead of others: .. */
    /* .. where there is one more, so that nothing is left to be issued behind the loop */
    bool tested;
    /* of the role that is being written: iterations of each consumer, and of some of them; what is
     * known before all loops, for each consumer */
    Range own[MOST_CONSUMERS], all;
    const struct CloneMap *maps;
    Range there; /* the consumer's: those in which there are products for it */
};

/* As what a role of their own can issue the products of the main loop for so many consumers. */
Graph plan_issue(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers);
/* Bytes of shared memory that computed operands take. */
int64_t graph_operand_bytes(const Graph *graph);
/* The warps of a consumer: twice those of a warp group where arithmetic reads more of a graph's
 * results than the registers of one hold. */
uint32_t plan_consumer_warps(const Graph *graph);
/* Whether a role of its own adds results of a graph to memory; if so its registers and those of the
 * others. */
bool plan_adds_apart(const Target *target, const TirFn *fn, const Graph *graph, uint32_t consumers,
                     uint32_t *adder, RoleRegisters *others);
/* Of a graph, where products are known to be transposed (swap_ab): who takes turns with whom in
 * tensor memory, or lies over whom; NULL, or why there is too little of it.  Of others: NULL, or
 * why a role of their own can not issue the products. */
const char *graph_place(const Target *target, const TirFn *fn, Graph *graph);
/* What an operand is, or the transpose of. */
TirVal *graph_base(TirVal *operand, bool *transposed);
/* Elements of a thread that arithmetic in front of a product leaves to that behind it, and those of
 * the product itself. */
int64_t plan_kept_elements(const TirOp *mma, uint32_t warps);

/* ---- plan_correction.c ---- */

/* The vector by whose elements `product` has the rows of `sum` multiplied; NULL: it is something
 * else. */
TirVal *plan_row_factor(const TirVal *product, const TirVal *sum);
/* By value: whether it follows from what the loop leaves, and from the sum. */
typedef struct CorrectionParts {
    bool *of_loop, *of_sum;
} CorrectionParts;
CorrectionParts plan_correction_parts(Arena *arena, const TirFn *fn, const TirOp *loop, uint32_t k);
/* Whether an operation behind the loop is the correction role's. */
bool plan_is_corrected(const CorrectionParts *parts, const TirOp *op);
/* Whether a consumer makes a value that this role needs. */
bool plan_is_handed_over(const CorrectionParts *parts, const TirVal *value);
/* NULL, or why no role of its own can change the sums of the main loop, as was asked for. */
const char *plan_cannot_correct(const PassContext *px, const TirFn *fn, const TirOp *loop);
/* Adds the role, if it was asked for, and gives it registers of the others. */
void plan_add_correction(const PassContext *px, TirFn *fn, const TirOp *loop);

/* ---- plan_grid.c ---- */

/* What hands out its tiles. */
TileScheduler plan_scheduler(const PassContext *px);
/* Lets blocks draw such programs from a counter; the pipelines of `loop`, the main one, are
 * made. */
void plan_drawing(const PassContext *px, TirFn *fn, const TirOp *loop);
/* What --report says of that. */
void plan_report_tiles(const PassContext *px, const TirFn *fn);
/* Sets how many blocks are launched. */
void plan_count_blocks(const Target *target, TirFn *fn);
/* Whether programs of the consumer axis are counted from its end. */
bool plan_has_reversed_raster(const TirFn *fn);
/* Settles in `block` and the blocks inside of it which program is a block's first. */
void plan_settle_first_programs(TirFn *fn, TirBlock *block);

/* ---- plan_inner.c ---- */

/* Whether a tile is followed, along dimension `dim`, by zeros enough for a whole step of an
 * instruction. */
bool plan_ends_in_zeros(const TirVal *value, uint32_t dim);
/* Whether a product can add up over whole steps of `step` elements, where need be with zeros behind
 * its operands. */
bool plan_inner_fits(const TirFn *fn, const TirOp *mma, int32_t step);
/* Has the loads of a body's products bring these zeros; whether any had to be changed. */
bool plan_lengthen_inner(const Target *target, TirFn *fn, const TirBlock *body);

/* ---- plan_preload.c ---- */

/* Lets products of `body`, a block of the kernel, begin with what is subtracted from them. */
void plan_preload(TirFn *fn, TirBlock *body);

/* ---- plan_mmas.c ---- */

/* The right operand of a product of the body, where it is computed there, as it lies in registers;
 * NULL: it is loaded, or the product is not one of a consumer alone. */
TirVal *plan_computed_right(const TirBlock *body, const TirOp *op);
bool plan_has_computed_right(const TirBlock *body);

/* ---- plan_spare.c ---- */

/* Bytes of a tile in shared memory, with whole swizzle atoms. */
int64_t plan_padded_bytes(int64_t rows, int64_t cols, uint32_t bits);
/* How many stages of another pipeline shared memory has room for, where tiles of the body's
 * products have two or more. */
uint32_t plan_stages_beside(const Target *target, const TirFn *fn, const TirBlock *body,
                            const TirShared *beside);
/* Gives a second stage to the tile that consumers who divide tiles read last, where shared memory
 * has room. */
void plan_spare_stage(const Target *target, TirFn *fn, const TirBlock *body);
/* Bytes that such a stage takes where consumers do not divide tiles but have computed right
 * operands; 0: they have none. */
int64_t plan_spare_bytes(const TirBlock *body);

/* ---- plan_lookahead.c ---- */

/* Finds the product that could begin ahead. */
bool lookahead_find(const TirFn *fn, const TirBlock *body, Lookahead *lookahead);
/* Whether `op` of the body asks for the product's result or for what it loads: the next one begins
 * behind it. */
bool lookahead_is_asked(const Lookahead *lookahead, const TirOp *op);
/* Segments of a loop in which no mask lives, as bits; none if it has but one. */
uint32_t plan_clean_segments(const TirOp *loop);
/* Whether it does, in a loop with that many stages; the consumers' axis is chosen, or the tiles are
 * divided and have pipelines. */
bool plan_has_lookahead(const PassContext *px, const TirFn *fn, const TirOp *loop, uint32_t stages);

#endif
