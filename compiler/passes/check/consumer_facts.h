/* consumer_facts.h - what stays the same over all runs of the consumer's program (check_consumer.c). */
#ifndef TILEC_PASSES_CONSUMER_FACTS_H
#define TILEC_PASSES_CONSUMER_FACTS_H

#include "compiler/passes/check/check_roles.h"

typedef VEC(TirVal *) Inputs;

/* A loop or branch, and what its blocks use from outside. */
typedef struct Region {
    const TirOp *op;
    Inputs inputs;
} Region;

struct ConsumerFacts {
    Arena *arena;
    const TirFn *fn;
    const uint32_t *acc_class; /* by id */
    const bool *at_once;       /* by id (acc_classes.h) */
    uint32_t acc_classes;      /* how many there are */
    bool *renames;             /* by id of the result: may be the operand's own registers */
    VEC(Region) regions;
};

#endif
