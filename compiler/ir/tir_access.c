/* tir_access.c - accesses to tensors: the dimensions that they touch, limits, loads and stores. */
#include <assert.h>
#include <string.h>

#include "compiler/ir/tir.h"

bool
tir_is_access(TirOpcode op)
{
    switch (op) {
    case TIR_LOAD:
    case TIR_STORE:
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD:
    case TIR_COPY_ASYNC:
    case TIR_WANT:
    case TIR_TMA_LOAD:
    case TIR_TMA_STORE:
    case TIR_TMA_REDUCE_ADD: return true;
    default: return false;
    }
}

/* ---- dimensions ---- */

static TirDims
begin(const TirTensor *tensor, const TirIndex *first, TirVal *const *operands)
{
    return (TirDims){.tensor = tensor, .first = first, .operands = operands, .pack = NO_AXIS};
}

/* The position of the first limit's operand. */
static uint32_t
first_limit(const TirOp *op)
{
    if (op->op == TIR_LOAD || tir_writes(op)) /* nothing comes behind limits but what is written */
        return op->n_args - op->n_limits - tir_writes(op);
    return tir_index_operands(op) + (op->op == TIR_COPY_ASYNC); /* its stage comes first */
}

TirDims
tir_dims(const TirOp *op)
{
    TirDims d = begin(op->tensor, op->index, op->args);

    d.next = op->op == TIR_COPY_ASYNC;
    if (op->n_limits > 0) {
        d.limits = op->limits;
        d.n_limits = op->n_limits;
        d.counts = op->args + first_limit(op);
    }
    return d;
}

/* Whether it is a tile of places, not a list. */
static bool
has_columns(const TirIndex *index)
{
    return index->kind == INDEX_PLACES && index->inner > 0;
}

/* The first limit along a dimension, by itself or as this part of a pack. */
static TirVal *
find_limit(const TirDims *d)
{
    if (d->single)
        return NULL;
    TirIndex index = *d->index;
    index.step = 0; /* positions end, wherever their indices lie */
    for (uint32_t k = 0; k < d->n_limits; k++) {
        const TirIndex *part = &d->limits[k].part;
        if (d->limits[k].axis == d->axis && part->rows == index.rows &&
            (part->rows == 0 || tir_same_index(part, &index)))
            return d->counts[k];
    }
    return NULL;
}

bool
tir_dims_next(TirDims *d)
{
    d->dim = d->seen;
    if (d->tensor == NULL || d->dim == d->tensor->rank)
        return false;
    const TirIndex *index = d->index = &d->first[d->seen++];
    const bool range = index->kind == INDEX_RANGE, full = index->kind == INDEX_FULL;
    d->single = index->kind == INDEX_SCALAR;
    d->strided = range & (index->step > 1);
    d->range = range & (index->step <= 1);
    d->places = index->kind == INDEX_PLACES;
    d->length = d->single ? 1 : index->length;
    d->arg = d->next;
    d->next += !full;
    d->at = (full | (d->operands == NULL)) ? NULL : d->operands[d->arg];
    d->begins = (!d->single) & ((index->rows == 0) | (d->pack == NO_AXIS));
    d->axis = d->begins ? d->axes : d->single ? NO_AXIS : d->pack;
    if (d->begins)
        d->axes += 1u + (d->places & (index->inner > 0)); /* a tile of places has columns */
    if (index->rows > 0)
        d->pack = d->axis;
    d->limit = d->n_limits > 0 ? find_limit(d) : NULL;
    return true;
}

void
tir_dim_operands(const TirOp *op, TirVal **at)
{
    uint32_t next = op->op == TIR_COPY_ASYNC;

    for (uint32_t dim = 0; dim < op->tensor->rank; dim++)
        at[dim] = op->index[dim].kind == INDEX_FULL ? NULL : op->args[next++];
}

bool
tir_same_ways(const TirOp *a, const TirOp *b)
{
    for (uint32_t dim = 0; dim < a->tensor->rank; dim++) {
        const TirIndex *x = &a->index[dim], *y = &b->index[dim];
        bool range = x->kind == INDEX_RANGE && x->step <= 1;
        if (x->kind != y->kind || (range && !tir_same_index(x, y)))
            return false;
    }
    return true;
}

TirDims
tir_dim(const TirOp *op, uint32_t dim)
{
    TirDims d = tir_dims(op);

    while (tir_dims_next(&d) && d.dim != dim)
        continue;
    return d;
}

TirDims
tir_last_dim(const TirOp *op)
{
    return tir_dim(op, op->tensor->rank - 1);
}

TirDims
tir_operand_dim(const TirOp *op, uint32_t k)
{
    TirDims d = tir_dims(op);

    while (tir_dims_next(&d)) {
        if (d.at != NULL && d.arg == k)
            return d;
    }
    return (TirDims){.axis = NO_AXIS}; /* it does not */
}

uint32_t
tir_axis_of_operand(const TirOp *op, uint32_t k, uint32_t axis)
{
    const TirVal *operand = op->args[k];

    switch (op->op) {
    case TIR_MMA: { /* a first dimension is one of all */
        uint32_t first = operand->type.rank - 2;
        return axis < first || k == axis - first || k == 2 ? axis : TIR_MAX_RANK;
    }
    case TIR_TRANSPOSE: return 1 - axis;
    case TIR_EXPAND: return axis == op->axis ? TIR_MAX_RANK : axis - (axis > op->axis);
    case TIR_SQUEEZE: return axis + (axis >= op->axis);
    case TIR_FOLD: return axis - (axis > op->axis); /* what is padding is so of both */
    case TIR_UNFOLD: return axis + (axis > op->axis);
    case TIR_LOAD: { /* of a tile of places */
        TirDims d = tir_operand_dim(op, k);
        return d.places && axis - d.axis < operand->type.rank ? axis - d.axis : TIR_MAX_RANK;
    }
    case TIR_BROADCAST:
        return operand->type.rank == 0 || operand->type.dim[axis] == 1 ? TIR_MAX_RANK : axis;
    default:
        if (tir_axis_use(op) == AXIS_REDUCES)
            return axis + (axis >= op->axis);
        if ((tir_axis_use(op) == AXIS_SORTS || op->op == TIR_TOTAL_BY) && axis == op->axis)
            return TIR_MAX_RANK;
        return operand->type.rank == op->results[0]->type.rank ? axis : TIR_MAX_RANK;
    }
}

void
tir_set_range(TirFn *fn, TirOp *op, uint32_t dim, TirVal *start, int32_t length)
{
    TirDims d = tir_dim(op, dim);
    bool more = d.at == NULL;
    TirVal **args = arena_array(fn->arena, TirVal *, op->n_args + 1);

    for (uint32_t k = 0; k < op->n_args; k++)
        args[k + (more && k >= d.arg)] = op->args[k];
    args[d.arg] = start;
    op->args = args;
    op->n_args += more;
    op->index[dim].kind = INDEX_RANGE;
    op->index[dim].length = length;
    op->index[dim].step = 0;
}

/* The part that a pack of `rows` elements has of one in it, or of a range (`all` elements),
 * `behind` elements apart. */
static TirIndex
part_of_pack(TirIndex index, int32_t behind, int32_t rows, int32_t all)
{
    if (index.rows == 0) {
        index.length = all;
        index.inner = 1;
    }
    index.kind = INDEX_RANGE;
    index.inner *= behind;
    index.rows = rows;
    return index;
}

/* What the dimensions of the tensor have of a pack; false: it can not be. */
static bool
join_indices(TirBuilder *b, TirOp *op, uint32_t first, uint32_t n, const int32_t *behind,
             int32_t rows)
{
    TirIndex joined[TENSOR_MAX_RANK];

    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        bool inside = !d.single && d.axis >= first && d.axis < first + n;
        joined[d.dim] = *d.index;
        if ((inside && d.places) || (!inside && !d.single && !d.places && d.index->rows > 0))
            return false;
        if (inside)
            joined[d.dim] = part_of_pack(*d.index, behind[d.axis - first], rows, d.length);
    }
    for (uint32_t k = 0; k < op->tensor->rank; k++) {
        if (op->index[k].kind == INDEX_FULL && joined[k].kind != INDEX_FULL)
            tir_set_range(b->fn, op, k, tir_const_int(b, 0), op->index[k].length);
        op->index[k] = joined[k];
    }
    return true;
}

bool
tir_join_dims(TirBuilder *b, TirOp *op, uint32_t first, uint32_t n, const int32_t *dim)
{
    TirLimit *limits = arena_array(b->fn->arena, TirLimit, op->n_limits + 1);
    int32_t behind[TIR_MAX_RANK], rows = 1;

    for (uint32_t k = n; k-- > 0; rows *= dim[k])
        behind[k] = rows;
    if (!join_indices(b, op, first, n, behind, rows))
        return false;
    for (uint32_t k = 0; k < op->n_limits; k++) {
        uint32_t axis = op->limits[k].axis;
        bool inside = axis >= first && axis < first + n;
        limits[k] = op->limits[k];
        if (inside)
            limits[k].part = part_of_pack(limits[k].part, behind[axis - first], rows,
                                          dim[axis - first]);
        limits[k].axis = inside ? first : axis < first ? axis : axis - n + 1;
    }
    op->limits = limits;
    return true;
}

TirIndex
tir_part(int32_t length, int32_t inner, int32_t rows)
{
    return (TirIndex){.kind = INDEX_RANGE, .length = length, .inner = inner, .rows = rows};
}

TirIndex
tir_range(int32_t length)
{
    return (TirIndex){.kind = INDEX_RANGE, .length = length};
}

TirIndex
tir_places(TirType type)
{
    return (TirIndex){
        .kind = INDEX_PLACES, .length = type.dim[0], .inner = type.rank == 2 ? type.dim[1] : 0};
}

/* Of an access that may not be there yet. */
static uint32_t
count_index_operands(const TirTensor *tensor, const TirIndex *index)
{
    uint32_t n = 0;

    for (uint32_t dim = 0; dim < tensor->rank; dim++)
        n += index[dim].kind != INDEX_FULL;
    return n;
}

uint32_t
tir_access_rank(const TirOp *op)
{
    TirDims d = begin(op->tensor, op->index, NULL);

    while (tir_dims_next(&d))
        continue;
    return d.axes;
}

TirType
tir_operand_type(const TirDims *d)
{
    bool columns = has_columns(d->index);

    return !d->places ? tir_scalar(DT_I32)
           : columns  ? tir_tile2(DT_I32, d->length, d->index->inner)
                      : tir_tile1(DT_I32, d->length);
}

static TirType
index_type(const TirTensor *tensor, const TirIndex *index)
{
    TirType type = {.dtype = tensor->dtype};

    for (TirDims d = begin(tensor, index, NULL); tir_dims_next(&d);) {
        if (!d.begins)
            continue;
        assert(type.rank < TIR_MAX_RANK);
        type.dim[type.rank++] = d.index->rows > 0 ? d.index->rows : d.length;
        if (has_columns(d.index))
            type.dim[type.rank++] = d.index->inner;
    }
    return type;
}

bool
tir_same_index(const TirIndex *a, const TirIndex *b)
{
    return a->kind == b->kind && a->length == b->length && a->inner == b->inner &&
           a->rows == b->rows && a->step == b->step;
}

bool
tir_is_contiguous(const TirOp *op)
{
    TirDims last = tir_last_dim(op);

    return !last.single && !last.places && !last.strided && last.index->rows == 0;
}

bool
tir_has_places(const TirOp *op)
{
    bool has = false;

    for (uint32_t dim = 0; op->tensor != NULL && dim < op->tensor->rank; dim++)
        has |= op->index[dim].kind == INDEX_PLACES;
    return has;
}

bool
tir_has_steps(const TirOp *op)
{
    bool has = false;

    for (uint32_t dim = 0; op->tensor != NULL && dim < op->tensor->rank; dim++)
        has |= (op->index[dim].kind == INDEX_RANGE) & (op->index[dim].step > 1);
    return has;
}

bool
tir_box_order(const TirOp *op, uint32_t *order)
{
    uint32_t rank = op->tensor->rank, n = 0;
    int32_t below = 1, rows = 0;
    bool found = true;

    order[n++] = rank - 1;
    while (found) { /* the parts of a pack, the fastest first */
        found = false;
        for (uint32_t d = 0; d < rank && !found; d++) {
            const TirIndex *index = &op->index[d];
            found = index->rows > below && index->inner == below && index->length > 1;
            if (found) {
                order[n++] = d;
                below *= index->length;
                rows = index->rows;
            }
        }
    }
    for (uint32_t d = rank; d-- > 0;) {
        bool have = false;
        for (uint32_t k = 0; k < n; k++)
            have = have || order[k] == d;
        if (have)
            continue;
        if (op->index[d].rows > 0) { /* a part of one index, or one that stands in the way */
            rows = op->index[d].rows;
            if (op->index[d].length > 1)
                return false;
        }
        order[n++] = d;
    }
    return tir_is_contiguous(op) && !tir_has_places(op) && !tir_has_steps(op) &&
           (rows == 0 || below == rows);
}

uint32_t
tir_index_operands(const TirOp *op)
{
    return count_index_operands(op->tensor, op->index);
}

bool
tir_rounds(const TirOp *op)
{
    return op->tensor != NULL && op->shared != NULL && op->shared->kind == SHARED_PIPELINE &&
           dtype_rounds(op->tensor->dtype, op->shared->dtype);
}

TirType
tir_index_type(const TirOp *op)
{
    TirType type = index_type(op->tensor, op->index);

    if (tir_rounds(op))
        type.dtype = op->shared->dtype;
    return type;
}

/* ---- limits ---- */

void
tir_add_limit(TirFn *fn, TirOp *op, TirLimit limit, TirVal *count)
{
    uint32_t at = first_limit(op) + op->n_limits;
    TirVal **args = arena_array(fn->arena, TirVal *, op->n_args + 1);
    TirLimit *limits = arena_array(fn->arena, TirLimit, op->n_limits + 1);

    for (uint32_t k = 0; k < op->n_args; k++)
        args[k + (k >= at)] = op->args[k];
    args[at] = count;
    for (uint32_t k = 0; k < op->n_limits; k++)
        limits[k] = op->limits[k];
    limits[op->n_limits++] = limit;
    op->args = args;
    op->n_args++;
    op->limits = limits;
}

TirVal *
tir_limit_count(const TirOp *op, uint32_t k)
{
    return op->args[first_limit(op) + k];
}

TirVal *
tir_copy_condition(const TirOp *op)
{
    if (op->op != TIR_TMA_LOAD)
        return NULL;
    uint32_t last = first_limit(op) + op->n_limits;
    return op->n_args > last ? op->args[last] : NULL;
}

/* ---- loads and stores ---- */

TirVal *
tir_load(TirBuilder *b, TirTensor *tensor, const TirIndex *index, TirVal *const *operands)
{
    TirType type = index_type(tensor, index);
    TirOp *op = tir_op_new(b, TIR_LOAD, count_index_operands(tensor, index), operands, 1, &type);

    op->tensor = tensor;
    memcpy(op->index, index, tensor->rank * sizeof *index);
    return op->results[0];
}

static TirOp *
make_write(TirBuilder *b, TirOpcode opcode, TirTensor *tensor, const TirIndex *index,
           TirVal *const *operands, TirVal *value, uint32_t n_results)
{
    TirVal *args[TENSOR_MAX_RANK + 1];
    uint32_t n = count_index_operands(tensor, index);

    for (uint32_t k = 0; k < n; k++)
        args[k] = operands[k];
    args[n] = value;
    TirOp *op = tir_op_new(b, opcode, n + 1, args, n_results, &value->type);
    op->tensor = tensor;
    memcpy(op->index, index, tensor->rank * sizeof *index);
    return op;
}

TirOp *
tir_store(TirBuilder *b, TirOpcode opcode, TirTensor *tensor, const TirIndex *index,
          TirVal *const *operands, TirVal *value)
{
    return make_write(b, opcode, tensor, index, operands, value, 0);
}

TirOp *
tir_fetch(TirBuilder *b, TirOpcode opcode, TirTensor *tensor, const TirIndex *index,
          TirVal *const *operands, TirVal *value)
{
    return make_write(b, opcode, tensor, index, operands, value, 1);
}
