/* tir_verify_tuples.c - the functions that combine elements of tuples, and the operations that name
 * them. */
#include "compiler/ir/tir_verifier.h"

#include <inttypes.h>

void
tir_check_combine(Verifier *v)
{
    const TirBlock *body = v->fn->body;
    const TirOp *last = body->ops.n > 0 ? body->ops.at[body->ops.n - 1] : NULL;
    uint32_t parts = body->params.n / 2;

    if (last == NULL || last->op != TIR_YIELD || last->n_args != parts || parts == 0 ||
        body->params.n != 2 * parts) {
        tir_fault(v, NULL, "does not make one tuple of two");
        return;
    }
    for (uint32_t k = 0; k + 1 < body->ops.n; k++) {
        const TirOp *op = body->ops.at[k];
        if (op->op != TIR_CONST && tir_axis_use(op) != AXIS_ELEMENTWISE)
            tir_fault(v, op, "stands in a function that combines elements");
    }
    for (uint32_t k = 0; k < parts; k++) {
        TirType type = tir_scalar(body->params.at[k]->type.dtype);
        if (!tir_type_eq(body->params.at[k]->type, type) ||
            !tir_type_eq(body->params.at[parts + k]->type, type) || last->args[k] == NULL ||
            !tir_type_eq(last->args[k]->type, type))
            tir_fault(v, NULL, "takes and makes part %" PRIu32 " of several types, or no scalars",
                      k);
    }
}

void
tir_check_tuples(Verifier *v, const TirOp *op)
{
    const TirFn *combine = op->combine;
    TirType type = op->args[0]->type;
    uint32_t parts = op->n_args - 1;
    bool known = false;

    for (uint32_t k = 0; k < v->fn->combines.n; k++)
        known = known || v->fn->combines.at[k] == combine;
    if (!known || combine->body->params.n != 2 * parts || op->integer < 0 || op->integer >= parts) {
        tir_fault(v, op, "has no function that combines so many tiles, or no such part");
        return;
    }
    if (op->reduce != REDUCE_ANY || type.dtype != DT_BOOL)
        tir_fault(v, op, "combines what is there by any only");
    if (op->axis >= type.rank)
        tir_fault(v, op, "axis %" PRIu32 " does not exist", op->axis);
    for (uint32_t k = 0; k < parts; k++) {
        type.dtype = combine->body->params.at[k]->type.dtype;
        if (!tir_type_eq(op->args[1 + k]->type, type) ||
            (k == op->integer && !tir_type_eq(op->results[0]->type, type)))
            tir_fault(v, op, "part %" PRIu32 " has another type than its function takes", k);
        if (type.dtype != DT_BOOL && !dtype_has(type.dtype, USE_REDUCTION))
            tir_fault(v, op, "does not combine %s", dtype_name(type.dtype));
    }
}
