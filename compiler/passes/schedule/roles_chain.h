/* roles_chain.h - products of a main loop that a role of their own issues, and where they are, while its program is written. */
#ifndef TILEC_PASSES_ROLES_CHAIN_H
#define TILEC_PASSES_ROLES_CHAIN_H

#include "compiler/passes/schedule/roles.h"

enum { MOST_PIECES = 2 };

typedef struct Product {
    TirOp *mma;
    bool second;
    bool covered;     /* an operand lies over its result */
    uint32_t carried; /* 1 + the loop's result that it adds to; 0: its sum begins with zero */
    TirOp *change; /* what makes of the sum, in the loop's body, that to which it adds; NULL: nothing does */
    TirShared *sum; /* where its result lies */
    /* .. and its left operand, if that is computed: in pieces that are handed on one by one */
    TirShared *pieces[MOST_PIECES];
    uint32_t n_pieces;
    bool over;      /* the operand lies over a result */
    bool acquired;  /* the consumer's program has waited for room for the operand */
    bool corrected; /* the correction role changes the sum */
} Product;

struct Chain {
    VEC(Product) products;
    OpList loads[2]; /* in the loop: for first products, for second ones */
    bool over; /* operands lie over results: second products are issued in front of first ones */
    /* the mma role's: iterations of each consumer, and of some of them */
    Range own[MOST_CONSUMERS], all;
};

/* roles_idle.c: the iterations of the main loop in which there are products for the consumer, and within them those that are
 * its own. */
Range chain_issued(Roles *r, Range *own);
/* The consumer takes part in iterations in which it has nothing to compute. */
void chain_let_pass(Roles *r, TirVal *from, TirVal *to);

#endif
