/* op_units.c - the table of operations and units.
 *
 * The counts follow the lowering (lower/lower_value.c): exp is a multiplication and ex2, log is lg2 and a
 * multiplication; one instruction rounds two neighbouring floats to 16 bits.  Arithmetic without a row of
 * its own counts as one ALU instruction.
 */
#include "compiler/ir/op_units.h"

typedef struct UnitRow {
    OpUnit unit;
    double mufu, alu;
} UnitRow;

/* By operation.  Rows of zeros: arithmetic of the ALU if it is elementwise, else nothing. */
static const UnitRow rows[] = {
    [TIR_MMA] = {UNIT_TENSOR, 0, 0},

    [TIR_EXP] = {UNIT_MUFU, 1, 1},
    [TIR_EXP2] = {UNIT_MUFU, 1, 0},
    [TIR_LOG] = {UNIT_MUFU, 1, 1},
    [TIR_LOG2] = {UNIT_MUFU, 1, 0},
    [TIR_SQRT] = {UNIT_MUFU, 1, 0},
    [TIR_RSQRT] = {UNIT_MUFU, 1, 0},
    [TIR_RCP] = {UNIT_MUFU, 1, 0},
    [TIR_TANH] = {UNIT_MUFU, 1, 0},
    [TIR_SIN] = {UNIT_MUFU, 1, 0},
    [TIR_COS] = {UNIT_MUFU, 1, 0},
    [TIR_DIV] = {UNIT_MUFU, 1, 0}, /* of integers: below */

    [TIR_CAST] = {UNIT_ALU, 0, 0.5},
    [TIR_REDUCE] = {UNIT_ALU, 0, 1}, /* for each element that goes in */

    [TIR_SHARED_WRITE] = {UNIT_SHARED, 0, 0},
    [TIR_STAGING_WRITE] = {UNIT_SHARED, 0, 0},
    [TIR_CONVERT] = {UNIT_SHARED, 0, 0},

    [TIR_LOAD] = {UNIT_COPY, 0, 0},
    [TIR_STORE] = {UNIT_COPY, 0, 0},
    [TIR_ATOMIC_ADD] = {UNIT_COPY, 0, 0},
    [TIR_COPY_ASYNC] = {UNIT_COPY, 0, 0},
    [TIR_TMA_LOAD] = {UNIT_COPY, 0, 0},
    [TIR_WANT] = {UNIT_COPY, 0, 0},
    [TIR_TMA_STORE] = {UNIT_COPY, 0, 0},
    [TIR_TMA_REDUCE_ADD] = {UNIT_COPY, 0, 0},
};

OpUse
op_use(const TirOp *op)
{
    bool elementwise = (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0;
    bool integers = op->op == TIR_DIV && op->results[0]->type.dtype == DT_I32;
    UnitRow row = op->op < sizeof rows / sizeof rows[0] ? rows[op->op] : (UnitRow){0};

    if (elementwise && (row.unit == UNIT_NONE || integers))
        row = (UnitRow){UNIT_ALU, 0, 1};
    if (op->op == TIR_REDUCE && op->args[0]->type.dtype == DT_BOOL)
        row.alu /= 2; /* a predicate for two elements */
    return (OpUse){.unit = row.unit,
                   .mufu = row.mufu,
                   .alu = row.alu,
                   .of = elementwise            ? op->results[0]
                         : op->op == TIR_REDUCE ? op->args[0]
                                                : NULL,
                   .at_edges = op->op == TIR_MASK || op->op == TIR_BOUNDS_MASK};
}

bool
op_use_is_steady(const OpUse *use)
{
    return use->of != NULL && use->of->type.rank == 2 && !use->at_edges;
}
