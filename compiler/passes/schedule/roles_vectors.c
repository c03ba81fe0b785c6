/* roles_vectors.c - vectors that an iteration loads, copied to shared memory while the one before
 * it is computed.
 *
 * A load from global memory takes longer than anything else that products wait for.  Where its
 * tensor is aligned as TMA wants it, a vector has a pipeline like a tile.  Else each
 * warp group copies its own to one of two stages, while an iteration reads the other.  One barrier
 * an iteration is enough, which stands behind the copies and behind what reads the stage that the
 * next ones go to:
 *
 *     consumers by themselves   { read i; copy i + 1; .. barrier }        copied before the loop: the first
 *     with their barrier    { read i; .. barrier; copy i + 2; .. }    the first two
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_util.h"

enum { STAGES = 2, ELEMENT_BITS = 32, BOX_BITS = 16 };

static bool
can_copy(const Roles *r, const TirOp *op, bool box)
{
    const TirTensor *tensor = op->tensor;

    if (op->op != TIR_LOAD || op->shared != NULL || op->results[0]->type.rank != 1 ||
        op->n_limits > 0 || dtype_bits(tensor->dtype) < (box ? BOX_BITS : ELEMENT_BITS) ||
        tensor->align % (ELEMENT_BITS / 8) != 0 || !tir_is_contiguous(op) ||
        writes_tensor(r->old, tensor))
        return false;
    bool moves = false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (!scalar_is_known_ahead(r->fn->arena, op->args[k]))
            return false;
        moves = moves || op->args[k]->block == r->body;
    }
    return moves;
}

TirOp *
roles_carrier(const Roles *r)
{
    TirOp *tile = NULL, *vector = NULL;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (op->op != TIR_LOAD || op->shared == NULL)
            continue;
        if (op->shared->kind == SHARED_VECTORS &&
            (vector == NULL || op->shared->id < vector->shared->id))
            vector = op;
        if (tile == NULL && op->shared->kind != SHARED_VECTORS && !op->shared->each)
            tile = op;
    }
    return vector == NULL || r->lookahead ? vector : tile;
}

/* The stages of the loop's pipelines: of vectors there are as many, so that the producer runs ahead
 * as far with them. */
static uint32_t
stages_of_loop(const Roles *r)
{
    uint32_t stages = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL && op->shared->stages > stages)
            stages = op->shared->stages;
    }
    return stages;
}

void
roles_pipeline_vectors(Roles *r)
{
    uint32_t stages = stages_of_loop(r);

    if (stages == 0 || r->pipelined || !switch_is_on(r->px, "pipeline"))
        return;
    /* tiles go to the mma role, and it gives their stages back; of a graph, consumers give back
     * vectors */
    if (r->mmas == AS_SUMS || r->mmas == AS_CHAIN)
        return;
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        bool each = false, box = op->op == TIR_LOAD && fits_vector_box(op);
        for (uint32_t k = 0; k < op->n_args; k++) /* there may be no other consumer */
            each |= tir_consumers(r->fn->plan) > 1 && roles_depends_on_consumer(r, op->args[k]);
        if (!can_copy(r, op, box) || (each && (tir_is_cooperative(r->fn->plan) ||
                                               tir_shares_out(r->fn) || r->mmas != BY_CONSUMERS)))
            continue;
        if (!box) {
            if (op->tensor->align % 16 != 0)
                diag_remark(
                    r->px->diag, op->span,
                    "each warp group copies these elements of '%s' itself; `align(16)` at the "
                    "tensor lets one thread fetch them for all",
                    op->tensor->name);
            continue;
        }
        op->shared = tir_buffer_new(r->fn, SHARED_VECTORS, op->tensor->name, op->results[0]->type,
                                    stages);
        op->shared->to = ROLE_CONSUMER;
        op->shared->each = each;
    }
}

bool
roles_copies_vectors(const Roles *r)
{
    bool copies = false;

    for (uint32_t i = 0; i < r->body->ops.n && switch_is_on(r->px, "pipeline"); i++)
        copies = copies || can_copy(r, r->body->ops.at[i], false);
    return copies;
}

bool
roles_accumulates_only(const Roles *r)
{
    if (r->has_effects || tir_has_coop_k(r->fn) || roles_copies_vectors(r))
        return false;
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL && op->shared->stages < 2)
            return false;
    }
    return plan_only_adds(r->fn, r->loop);
}

void
roles_find_vectors(Roles *r)
{
    r->vectors.n = 0;
    for (uint32_t i = 0; i < r->body->ops.n && switch_is_on(r->px, "pipeline"); i++) {
        TirOp *op = r->body->ops.at[i];
        if (!can_copy(r, op, false))
            continue;
        TirShared *buffer = tir_buffer_new(r->fn, SHARED_TILE, op->tensor->name,
                                           op->results[0]->type, STAGES);
        vec_push(r->fn->arena, &r->vectors, ((StagedVector){op, buffer}));
    }
}

const StagedVector *
roles_vector(const Roles *r, const TirOp *load)
{
    for (uint32_t k = 0; k < r->vectors.n; k++) {
        if (r->vectors.at[k].load == load)
            return &r->vectors.at[k];
    }
    return NULL;
}

static TirVal *
stage_of(TirBuilder *b, TirVal *iteration)
{
    return tir_binary(b, TIR_AND, iteration, tir_const_int(b, STAGES - 1));
}

void
roles_copy_vectors(Roles *r, TirVal *iteration)
{
    TirBuilder *b = &r->b;

    for (uint32_t i = 0; i < r->vectors.n; i++) {
        const TirOp *load = r->vectors.at[i].load;
        CloneMap uniform = roles_uniform_map(r, iteration);
        TirVal *args[TENSOR_MAX_RANK + 1];
        b->span = load->span;
        args[0] = stage_of(b, iteration);
        for (uint32_t k = 0; k < load->n_args; k++)
            args[k + 1] = clone_scalar_tree(b, &uniform, load->args[k]);
        TirOp *copy = tir_op_new(b, TIR_COPY_ASYNC, load->n_args + 1, args, 0, NULL);
        copy->tensor = load->tensor;
        copy->shared = r->vectors.at[i].buffer;
        for (uint32_t d = 0; d < TENSOR_MAX_RANK; d++)
            copy->index[d] = load->index[d];
    }
    if (r->vectors.n > 0)
        tir_op_new(b, TIR_ASYNC_COMMIT, 0, NULL, 0, NULL);
}

void
roles_vectors_there(Roles *r)
{
    if (r->vectors.n > 0)
        tir_op_new(&r->b, TIR_ASYNC_WAIT, 0, NULL, 0, NULL);
}

void
roles_read_vector(Roles *r, CloneMap *map, const StagedVector *vector, TirVal *iteration)
{
    TirVal *stage = stage_of(&r->b, iteration);
    const TirVal *loaded = vector->load->results[0];

    r->b.span = vector->load->span;
    TirOp *read = tir_op_new(&r->b, TIR_SHARED_READ, 1, &stage, 1, &loaded->type);
    read->shared = vector->buffer;
    read->results[0]->name = loaded->name;
    clone_set(map, loaded, read->results[0]);
}

void
roles_narrow_vectors(Roles *r)
{
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *part = r->body->ops.at[i];
        TirOp *load = part->op == TIR_PART ? part->args[0]->def : NULL;
        if (load == NULL || load->op != TIR_LOAD || load->shared != NULL)
            continue;
        TirBuilder b = {.fn = r->fn, .block = r->body, .at = (int32_t)i, .span = load->span};
        int32_t length = part->results[0]->type.dim[0];
        TirType i32 = tir_scalar(DT_I32);
        TirVal *consumer = tir_op_new(&b, TIR_CONSUMER, 0, NULL, 1, &i32)->results[0];
        TirVal *shift = tir_binary(&b, TIR_MUL, consumer, tir_const_int(&b, length));
        TirVal *args[TENSOR_MAX_RANK];
        TirIndex index[TENSOR_MAX_RANK];
        for (TirDims d = tir_dims(load); tir_dims_next(&d);) {
            index[d.dim] = *d.index;
            if (d.range)
                index[d.dim].length = length;
            if (d.at != NULL)
                args[d.arg] = d.range ? tir_binary(&b, TIR_ADD, d.at, shift) : d.at;
        }
        tir_replace_uses(r->fn, part->results[0], tir_load(&b, load->tensor, index, args));
        i = (uint32_t)b.at; /* the part, which nobody uses now */
    }
}
