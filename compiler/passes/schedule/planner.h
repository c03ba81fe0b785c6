/* planner.h - what pass `plan` knows while it looks for a plan; its files plan.c and
 * plan_mmas.c. */
#ifndef TILEC_PASSES_PLANNER_H
#define TILEC_PASSES_PLANNER_H

#include "compiler/passes/schedule/plan.h"

typedef struct Planner {
    PassContext *px;
    TirFn *fn;
    TirOp *loop;     /* the main loop */
    uint32_t axis;   /* the consumer axis being tried */
    bool *depends;   /* by value: depends on the index of the consumer axis */
    uint8_t *along;  /* by value: bit d: dimension d runs along the consumer axis */
    const char *why; /* the reason why there is no plan */
    bool by_shape;   /* the last one: a product's rows and columns */
    Span where;
    bool *brought; /* by value: TMA can bring it for products, whatever the axis */
} Planner;

/* Keeps the first reason why there is no plan. */
static inline bool
refuse(Planner *p, Span where, const char *why)
{
    if (p->why == NULL) {
        p->why = why;
        p->where = where;
    }
    return false;
}

/* The load behind an operand, through transposes and parts; NULL: it lies in registers. */
TirOp *planner_load(const TirVal *value);
/* Whether the consumers may divide the products along the axis; sets swap_ab. */
bool planner_check_mmas(Planner *p);
/* Whether the tile of an operation of the main loop, which no product reads, can be copied ahead as
 * theirs are. */
bool planner_copies(const Planner *p, const TirOp *op);

#endif
