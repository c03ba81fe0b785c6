/* roles_store.c - results that leave through shared memory, by TMA.
 *
 * Where a loop does nothing but add products up, all consumers end it at about the same time, and
 * nothing else keeps the tensor cores busy while they store their sums.  The same holds where a
 * loop has arithmetic beside its products and is pipelined by one stage: consumers with the same
 * number of iterations share the tensor cores evenly, so that they end together, too.  So the end
 * is made short: a consumer writes its tile into a staging buffer, a few swizzle atom columns of
 * 128 bytes at a time, and has TMA store it, which clips it at the ends of the tensor.  Threads
 * then need no addresses, and need not exchange elements with their neighbours until each has 16
 * bytes; the next tile's products start meanwhile.
 *
 * A pipelined loop has read what the consumer loads once for a tile when its last product begins,
 * so that stage may be the staging buffer, provided it has room for the whole tile and there is a
 * second stage for the next tile's load.  The consumer releases it when TMA has read it.  Waiting
 * for that at once would stall the consumer, so it waits under the next tile's first product
 * (`deferred_release`).
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

enum { ROWS_OF_WARPS = 32 };

/* Whether `value` is computed from what the main loop leaves, element by element. */
static bool
comes_from_loop(const Roles *r, const TirVal *value)
{
    for (TirInputs in = tir_inputs(r->fn->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        if (def == r->loop)
            return true;
        if (def != NULL && (tir_op_info(def->op)->flags & TF_ELEMENTWISE) != 0)
            tir_inputs_follow(&in);
    }
    return false;
}

static uint32_t
accesses(const TirBlock *block, const TirTensor *tensor)
{
    uint32_t n = 0;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);)
        n += walk.op->tensor == tensor;
    return n;
}

/* How many swizzle atom columns of a tile may be under way at once: all, else two, else one; 0:
 * there is no room. */
static int64_t
atom_columns_that_fit(const Roles *r, int64_t rows, int64_t atom_columns)
{
    uint32_t blocks = target_blocks(r->px->target, tir_role_registers(r->fn->plan));
    int64_t left = target_tile_limit(r->px->target, blocks), consumers = tir_consumers(r->fn->plan);

    for (uint32_t k = 0; k < r->fn->shared.n; k++) {
        const TirShared *shared = r->fn->shared.at[k];
        int64_t each = plan_padded_bytes(shared->rows, shared->cols, dtype_bits(shared->dtype));
        if (shared->over != NULL || shared->kind == SHARED_TMEM)
            continue;
        left -= each * shared->stages *
                (shared->each || shared->kind == SHARED_STAGING ? consumers : 1);
    }
    int64_t fit = left / (consumers * plan_padded_bytes(rows, SWIZZLE_BYTES, 8));
    return fit >= atom_columns ? atom_columns : fit > 2 ? 2 : fit < 0 ? 0 : fit;
}

/* The swizzle atom columns of a store's tile, if it may leave by TMA and should; else 0. */
static int64_t
atom_columns_to_store(const Roles *r, const TirOp *store)
{
    const CopyForm *form = target_copy(r->px->target, COPY_TENSOR_STORE);
    const TirTensor *tensor = store->tensor;

    if (form == NULL || store->op != TIR_STORE || (!r->pipelined && !roles_accumulates_only(r)) ||
        tensor->rank > form->rank || !box_may_end(store, form->rank) || tensor->rank < 2 ||
        tensor->align % (uint32_t)form->unit != 0 || tir_last_dim(store).single ||
        !box_may_be_written(store))
        return 0;
    const TirVal *value = store->args[store->n_args - 1];
    int32_t element = (int32_t)dtype_bits(value->type.dtype) / 8;
    if (value->type.rank != 2 || (element != 2 && element != 4) || value->type.dtype == DT_BOOL ||
        value->type.dim[0] > form->box || value->type.dim[1] % (SWIZZLE_BYTES / element) != 0 ||
        !comes_from_loop(r, value) || accesses(r->old, tensor) != 1)
        return 0;
    return value->type.dim[1] / (SWIZZLE_BYTES / element);
}

/* Whether the tile's rows lie along one dimension of the tensor: each warp stores some of them. */
static bool
has_rows_along_one(const TirOp *store, int32_t rows)
{
    uint32_t ranges = 0, whole = 0;

    for (TirDims d = tir_dims(store); tir_dims_next(&d) && d.dim + 1 < store->tensor->rank;) {
        ranges += !d.single;
        whole += d.range && d.length == rows;
    }
    return ranges == 1 && whole == 1;
}

/* Whether products read the tile as their left operand, as it is: each warp its own rows. */
static bool
is_read_by_rows(const Roles *r, const TirVal *tile)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++)
        left += r->body->ops.at[i]->op == TIR_MMA && r->body->ops.at[i]->args[0] == tile;
    return count_uses(r->fn, tile) == left;
}

/* The rows are the same: what a warp writes no other warp's product has read.  Each stores whole
 * spans of the swizzle, 8 rows. */
static bool
fits_stage(const TirShared *pipeline, const TirVal *value, int64_t atom_columns)
{
    int64_t stage = plan_padded_bytes(pipeline->rows, pipeline->cols, dtype_bits(pipeline->dtype));

    return pipeline->each && pipeline->stages >= 2 && pipeline->held == 0 &&
           pipeline->rows == value->type.dim[0] && pipeline->rows % ROWS_OF_WARPS == 0 &&
           stage >= atom_columns * plan_padded_bytes(pipeline->rows, SWIZZLE_BYTES, 8);
}

void
roles_find_places(Roles *r)
{
    if (!r->pipelined || !roles_reads_once_in_stage0(r))
        return;
    for (uint32_t i = 0; i < r->old->ops.n; i++) {
        const TirOp *store = r->old->ops.at[i];
        int64_t atom_columns = atom_columns_to_store(r, store);
        for (uint32_t k = 0; k < r->once.n && atom_columns > 0; k++) {
            TirShared *pipeline = r->once.at[k]->shared;
            if (!fits_stage(pipeline, store->args[store->n_args - 1], atom_columns) ||
                !has_rows_along_one(store, pipeline->rows) ||
                !is_read_by_rows(r, r->once.at[k]->results[0]))
                continue;
            pipeline->held = 1;
            vec_push(r->fn->arena, &r->places, ((StorePlace){store, pipeline}));
            break;
        }
    }
}

void
roles_give_back_once(Roles *r, bool deferred)
{
    for (uint32_t k = 0; k < r->once.n && r->once_given_back; k++) {
        TirShared *pipeline = r->once.at[k]->shared;
        if ((pipeline->held > 0) == deferred)
            roles_plain(&r->b, TIR_CONSUMER_RELEASE, pipeline, 0);
    }
}

/* Emits a store as a TMA store; false: it is better left as it is, or must be. */
bool
roles_tma_store(Roles *r, CloneMap *map, const TirOp *store)
{
    TirBuilder *b = &r->b;
    int64_t atom_columns = atom_columns_to_store(r, store);
    const TirShared *below = NULL;

    if (atom_columns == 0)
        return false;
    const TirVal *value = store->args[store->n_args - 1];
    for (uint32_t k = 0; k < r->places.n; k++)
        below = r->places.at[k].store == store ? r->places.at[k].pipeline : below;
    if (below == NULL)
        atom_columns = atom_columns_that_fit(r, value->type.dim[0], atom_columns);
    if (atom_columns == 0)
        return false;
    TirVal *args[TENSOR_MAX_RANK + 2];
    for (uint32_t k = 0; k < store->n_args; k++)
        args[k] = clone_of(map, store->args[k]);
    b->span = store->span;
    TirOp *op = tir_op_new(b, TIR_TMA_STORE, store->n_args, args, 0, NULL);
    tir_copy_place(op, store);
    int32_t width = SWIZZLE_BYTES * 8 / (int32_t)dtype_bits(value->type.dtype);
    TirType type = tir_tile2(value->type.dtype, value->type.dim[0], (int32_t)atom_columns * width);
    op->shared = tir_buffer_new(r->fn, SHARED_STAGING, store->tensor->name, type, 1);
    op->shared->over = below;
    return true;
}
