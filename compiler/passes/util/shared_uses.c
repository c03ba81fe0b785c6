/* shared_uses.c - how operations touch shared buffers. */
#include "compiler/passes/util/shared_uses.h"

const TirOp *
view_source(const TirVal *value, bool *transposed)
{
    const TirOp *def = value->def;

    *transposed = false;
    while (def != NULL && (def->op == TIR_TRANSPOSE || def->op == TIR_PART)) {
        *transposed = *transposed != (def->op == TIR_TRANSPOSE);
        def = def->args[0]->def;
    }
    return def != NULL && def->op == TIR_SHARED_READ ? def : NULL;
}

const TirOp *
view_part(const TirVal *value)
{
    const TirOp *def = tir_untransposed(value)->def;

    return def != NULL && def->op == TIR_PART ? def : NULL;
}

uint32_t
shared_uses(const TirOp *op, SharedUse out[MAX_SHARED_USES])
{
    uint32_t n = 0;
    bool transposed;

    switch (op->op) {
    case TIR_COPY_ASYNC:
    case TIR_SHARED_WRITE:
        if (op->shared->kind == SHARED_PARTS || tir_is_pipeline(op->shared))
            break; /* the consumers' barrier, or its own, keep its uses apart */
        out[n++] = (SharedUse){op->shared, false, true, op->shared->stages > 1};
        break;
    case TIR_MMA:
    case TIR_CONVERT:
        for (uint32_t k = 0; k < op->n_args && k < 2; k++) {
            const TirOp *read = view_source(op->args[k], &transposed);
            /* pipelines have their own barriers */
            if (read != NULL && !tir_is_pipeline(read->shared) && read->shared->kind != SHARED_PARTS)
                out[n++] = (SharedUse){read->shared, true, false, read->shared->stages > 1};
        }
        break;
    default: break;
    }
    if (tir_exchanges(op) && op->shared != NULL)
        out[n++] = (SharedUse){op->shared, true, true, false};
    return n;
}
