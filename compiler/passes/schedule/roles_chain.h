/* roles_chain.h - products of a main loop that a role of their own issues, and where they are, while its program is written. */
#ifndef TILEC_PASSES_ROLES_CHAIN_H
#define TILEC_PASSES_ROLES_CHAIN_H

#include "compiler/passes/schedule/plan_graph.h"
#include "compiler/passes/schedule/roles.h"

struct Chain {
    Products products;
    bool second;     /* some are second ones */
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
