/* op_units.c - the units that operations use, by the columns of tir.def.
 *
 * The counts follow the lowering (lower/lower_value.c): exp is a multiplication and ex2, log is lg2
 * and a multiplication; one instruction rounds two neighbouring floats to 16 bits.
 */
#include "compiler/ir/op_units.h"

typedef struct UnitRow {
    OpUnit unit;
    double mufu, alu;
} UnitRow;

static const UnitRow rows[] = {
#define TIR_OP(name, text, args, results, flags, axis, unit, mufu, alu, use)                       \
    {UNIT_##unit, mufu, alu},
#include "compiler/ir/tir.def"
};

OpUse
op_use(const TirOp *op)
{
    AxisUse axis = tir_axis_use(op);
    bool along = tir_combines(op); /* for each element that goes in */
    bool integers = op->op == TIR_DIV && !dtype_is_float(op->results[0]->type.dtype);
    UnitRow row = integers ? (UnitRow){UNIT_ALU, 0, 1} : rows[op->op];

    if (along && op->args[0]->type.dtype == DT_BOOL)
        row.alu /= 2; /* a predicate for two elements */
    return (OpUse){.unit = row.unit,
                   .mufu = row.mufu,
                   .alu = row.alu,
                   .of = axis == AXIS_ELEMENTWISE ? op->results[0]
                         : along                  ? op->args[0]
                                                  : NULL,
                   .at_edges = tir_is_mask(op)};
}

bool
op_use_is_steady(const OpUse *use)
{
    return use->of != NULL && use->of->type.rank == 2 && !use->at_edges;
}
