/* tir_verify_access.c - the invariants of accesses to tensors: indices, parts of packs, limits, and
 * copies by threads. */
#include "compiler/ir/tir_verifier.h"

#include <inttypes.h>

#include "compiler/ir/tir_walk.h"

void
tir_check_indices(Verifier *v, const TirOp *op)
{
    const TirTensor *tensor = op->tensor;

    for (uint32_t k = 0; k < tensor->rank; k++) {
        const TirIndex *index = &op->index[k];
        if (index->kind == INDEX_PLACES &&
            (index->length <= 0 || (op->op != TIR_LOAD && !tir_writes(op))))
            tir_fault(v, op, "index %" PRIu32 " is no tile of places that it may have", k);
        if (index->kind == INDEX_FULL &&
            (index->length != tensor->dim[k].constant || index->length == 0))
            tir_fault(v, op, "index %" PRIu32 " is not the whole of a constant extent", k);
        if (index->kind == INDEX_RANGE && index->length <= 0)
            tir_fault(v, op, "index %" PRIu32 " has length %" PRId32, k, index->length);
    }
}

void
tir_check_parts(Verifier *v, const TirOp *op, uint32_t n)
{
    int32_t rows = 0;
    int64_t all = 1;

    for (uint32_t k = 0; k < n; k++) {
        const TirIndex *part = &op->index[k];
        if (part->rows == 0)
            continue;
        if (part->kind != INDEX_RANGE || part->inner <= 0 || part->length <= 0 ||
            part->rows % part->inner != 0 || part->rows / part->inner % part->length != 0)
            tir_fault(v, op, "index %" PRIu32 " is no part of %" PRId32 " elements", k, part->rows);
        if (rows != 0 && part->rows != rows)
            tir_fault(v, op, "index %" PRIu32 " is a part of another pack", k);
        for (uint32_t j = 0; j < k; j++) {
            const TirIndex *other = &op->index[j];
            bool apart = part->length == 1 || other->length == 1 || other->rows == 0 ||
                         part->inner >= (int64_t)other->inner * other->length ||
                         other->inner >= (int64_t)part->inner * part->length;
            if (!apart)
                tir_fault(v, op, "indices %" PRIu32 " and %" PRIu32 " are the same part", j, k);
        }
        rows = part->rows;
        all *= part->length;
    }
    bool writes = tir_writes(op) || op->op == TIR_TMA_REDUCE_ADD;
    if (writes && rows != 0 && all != rows)
        tir_fault(v, op, "addresses some elements more than once");
}

void
tir_check_limits(Verifier *v, const TirOp *op, const TirType *type)
{
    for (uint32_t k = 0; k < op->n_limits; k++) {
        const TirIndex *part = &op->limits[k].part;
        uint32_t axis = op->limits[k].axis;
        if (axis >= type->rank || (part->rows != 0 && part->rows != type->dim[axis]) ||
            (part->rows != 0 && (part->inner <= 0 || part->length <= 0)))
            tir_fault(v, op, "limit %" PRIu32 " is along no axis of its tile", k);
    }
    bool box = op->op == TIR_TMA_LOAD || op->op == TIR_TMA_STORE || op->op == TIR_TMA_REDUCE_ADD;
    bool lanes = box && op->shared != NULL && op->shared->scales > 0; /* load it */
    if (box && !lanes && op->tensor->align % BOX_UNIT != 0)
        tir_fault(v, op, "its tensor is not aligned to %d bytes, as boxes must be", BOX_UNIT);
    if (op->n_limits > 0 && op->op != TIR_LOAD && op->op != TIR_WANT && op->op != TIR_STORE &&
        !tir_is_atomic(op) && op->op != TIR_COPY_ASYNC &&
        (!box || op->n_limits > 1 || op->tensor->rank == BOX_RANK))
        tir_fault(v, op, "has limits, which it can not keep");
}

void
tir_check_copied(Verifier *v)
{
    enum { SOMEWHERE = 1, BEFORE = 2 };
    uint8_t *copied = arena_array(v->out->arena, uint8_t, v->fn->shared.n + 1);

    for (TirWalk walk = tir_walk(v->fn->body); tir_walk_next(&walk);) {
        if (walk.op->op == TIR_COPY_ASYNC)
            copied[walk.op->shared->id] = SOMEWHERE;
    }
    for (TirWalk walk = tir_walk(v->fn->body); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->op == TIR_COPY_ASYNC)
            copied[op->shared->id] |= BEFORE;
        else if (op->op == TIR_SHARED_READ && copied[op->shared->id] == SOMEWHERE)
            tir_fault(v, op, "reads a buffer before anything is copied to it");
    }
}
