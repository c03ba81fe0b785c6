/* op_units.h - which unit of an SM an operation uses, and how many of its instructions an element
 * takes.
 *
 * The one table that every model of time reads: the estimate for loops without roles (cost/cost.c),
 * the time of planned kernels (cost/consumer_work.c), and the picture of a schedule (timeline/).
 * The rates of the units are in the target's record.
 */
#ifndef TILEC_IR_OP_UNITS_H
#define TILEC_IR_OP_UNITS_H

#include "compiler/ir/tir.h"

typedef enum OpUnit {
    UNIT_NONE,
    UNIT_TENSOR,
    UNIT_MUFU,   /* exp2, rcp, .. */
    UNIT_ALU,    /* f32 and integer arithmetic, predicates */
    UNIT_SHARED, /* the port of shared memory */
    UNIT_COPY,   /* from and to global memory */
    UNIT_COUNT
} OpUnit;

typedef struct OpUse {
    OpUnit unit;
    double mufu, alu; /* instructions for each element .. */
    const TirVal *of; /* .. of this value; NULL: it does no arithmetic on elements */
    bool at_edges;    /* a mask: only the few iterations at the edges keep it */
} OpUse;

/* An exponential of which `polynomial` of so many elements are computed by f32 operations, so many
 * each, in place of a special function (passes/schedule/split_exp2.c). */
enum { POLYNOMIAL_OF = 16, PER_POLYNOMIAL = 12 };

OpUse op_use(const TirOp *op);
/* Whether it takes time for each element of a tile in every iteration of a loop. */
bool op_use_is_steady(const OpUse *use);

#endif
