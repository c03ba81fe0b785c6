/* tir_verify_types.c - which operations there are of which element types (dtype.def). */
#include "compiler/ir/tir_verifier.h"

#include <inttypes.h>

static void
want_use(Verifier *v, const TirOp *op, DType dtype, TypeUse use, const char *what)
{
    if (!dtype_has(dtype, use))
        tir_fault(v, op, "%s %s", what, dtype_name(dtype));
}

/* The type that an operation works on. */
static DType
type_of(const TirOp *op)
{
    if (op->tensor != NULL)
        return op->tensor->dtype;
    return op->args[op->op == TIR_SELECT ? 1 : 0]->type.dtype;
}

static void
check_bits(Verifier *v, const TirOp *op, DType from, DType to)
{
    DType bits;

    if (!(dtype_of_bits(from, &bits) && bits == to) && !(dtype_of_bits(to, &bits) && bits == from))
        tir_fault(v, op, "%s has not the bits of %s", dtype_name(to), dtype_name(from));
}

void
tir_check_use(Verifier *v, const TirOp *op)
{
    TypeUse use = tir_op_info(op->op)->use;

    if (op->op == TIR_BITS)
        check_bits(v, op, op->args[0]->type.dtype, op->results[0]->type.dtype);
    if (tir_combines(op) && tir_reduction_info(op->reduce)->logical)
        use = USE_VOTE;
    if (op->tensor != NULL)
        want_use(v, op, op->tensor->dtype, USE_TENSOR, "does not reach memory of");
    if (op->shared != NULL)
        want_use(v, op, op->shared->dtype, USE_MEMORY, "does not reach memory of");
    if (use != USE_NONE && (op->tensor != NULL || op->n_args > 0))
        want_use(v, op, type_of(op), use, "does not work on");
    for (uint32_t k = 0; k < op->n_results; k++)
        want_use(v, op, op->results[k]->type.dtype, op->op == TIR_CAST ? USE_CAST_TO : USE_VALUES,
                 "does not make");
}

void
tir_check_scales(Verifier *v, const TirOp *op)
{
    for (uint32_t k = 0; k < 2; k++) {
        TirType x = op->args[k + (op->n_args == TIR_MMA_BOTH ? TIR_MMA_OWN : 0)]->type;
        TirType scales = op->args[op->n_args - 2 + k]->type;
        if (x.rank != 2 || scales.rank != 2 || x.dim[k] != scales.dim[k])
            tir_fault(v, op,
                      "operand %" PRIu32
                      " has other scales than one for each of its lines and blocks",
                      k);
    }
}
