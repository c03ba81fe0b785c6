/* plan_graph.h - products of a loop that a role of their own issues, by what becomes of their results (plan_graph.c). */
#ifndef TILEC_PASSES_PLAN_GRAPH_H
#define TILEC_PASSES_PLAN_GRAPH_H

#include "compiler/passes/schedule/plan.h"

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

/* A left operand that is the same in all iterations, which the consumer writes to tensor memory before them. */
typedef struct GraphKept {
    TirOp *load;
    bool transposed;   /* its transpose is written */
    TirShared *buffer; /* pass `roles` */
    TirVal *read;
} GraphKept;

struct Graph {
    Issued as; /* BY_CONSUMERS with `why`, if it can not be, or with NULL, if the target has no such products */
    const char *why;
    Products products; /* in the program's order */
    bool sums; /* some are sums: consumers wait for the mma role in every tile, also where loops have no iteration */
    VEC(GraphOperand) operands;
    VEC(GraphKept) kept;
    /* pass `roles`: products of an iteration in order, and the places in it as the mma role goes through them */
    VEC(Product *) order;
    VEC(uint32_t) issued;
    bool over; /* operands of a chain lie over results */
    bool two;  /* some products are issued an iteration ahead of others: .. */
    bool tested; /* .. where there is one more, so that nothing is left to be issued behind the loop */
    /* of the role that is being written: iterations of each consumer, and of some of them; what is known before all loops, for
     * each consumer */
    Range own[MOST_CONSUMERS], all;
    const struct CloneMap *maps;
    Range there; /* the consumer's: those in which there are products for it */
};

/* As what a role of their own can issue the products of the main loop for so many consumers. */
Graph plan_issue(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers);
/* Bytes of shared memory that computed operands take. */
int64_t graph_operand_bytes(const Graph *graph);
/* The warps of a consumer: twice those of a warp group where arithmetic reads more of a graph's results than the registers
 * of one hold. */
uint32_t plan_consumer_warps(const Graph *graph);
/* Whether a role of its own adds results of a graph to memory; if so its registers and those of the others. */
bool plan_adds_apart(const Target *target, const TirFn *fn, const Graph *graph, uint32_t consumers,
                     uint32_t *adder, RoleRegisters *others);
/* Of a graph, where products are known to be transposed (swap_ab): who takes turns with whom in tensor memory, or lies over whom;
 * NULL, or why there is too little of it.  Of others: NULL, or why a role of their own can not issue the products. */
const char *graph_place(const Target *target, const TirFn *fn, Graph *graph);
/* What an operand is, or the transpose of. */
TirVal *graph_base(TirVal *operand, bool *transposed);
/* Elements of a thread that arithmetic in front of a product leaves to that behind it, and those of the product itself. */
int64_t plan_kept_elements(const TirOp *mma, uint32_t warps);
#endif
