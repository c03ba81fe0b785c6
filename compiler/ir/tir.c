/* tir.c - building tile IR: types, operations, blocks, host expressions, replacement of uses. */
#include "compiler/ir/tir.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* clang-format off */
const TirOpInfo tir_op_infos[TIR_OPCODE_COUNT] = {
#define TIR_OP(name, text, args, results, flags, axis, unit, mufu, alu, use)                      \
    {text, args, results, (flags) | (AXIS_##axis == AXIS_ELEMENTWISE ? TF_ELEMENTWISE : 0), AXIS_##axis, \
     USE_##use},
#include "compiler/ir/tir.def"
};
/* clang-format on */

const ReductionInfo *
tir_reduction_info(ReduceKind kind)
{
    static const ReductionInfo table[REDUCE_COUNT] = {
#define TIR_REDUCTION(name, text, combine, neutral)                                                \
    {text, TIR_##combine, neutral, TIR_##combine == TIR_AND || TIR_##combine == TIR_OR},
#include "compiler/ir/tir.def"
    };
    return &table[kind];
}

/* ---- what operations do along the axes of tiles ---- */

bool
tir_reduces(const TirOp *op, ReduceKind kind)
{
    return tir_axis_use(op) == AXIS_REDUCES && op->reduce == kind;
}

bool
tir_is_vote(const TirOp *op)
{
    return tir_axis_use(op) == AXIS_REDUCES && op->results[0]->type.rank == 0 &&
           tir_reduction_info(op->reduce)->logical;
}

bool
tir_combines_tuples(const TirOp *op)
{
    return tir_axis_use(op) == AXIS_SCANS && tir_op_info(op->op)->args < 0;
}

/* Whether two combine the same tuples in the same order. */
static bool
same_tuples(const TirOp *a, const TirOp *b)
{
    bool same = tir_combines_tuples(b) && a->combine == b->combine && a->axis == b->axis &&
                a->n_args == b->n_args &&
                (a->op == TIR_SCAN_BY_BACK) == (b->op == TIR_SCAN_BY_BACK);

    for (uint32_t k = 0; same && k < a->n_args; k++)
        same = a->args[k] == b->args[k];
    return same;
}

const TirOp *
tir_first_of_tuples(const TirOp *op)
{
    for (uint32_t i = 0; i < op->parent->ops.n; i++) {
        if (same_tuples(op, op->parent->ops.at[i]))
            return op->parent->ops.at[i];
    }
    return op;
}

bool
tir_reduces_totals(const TirOp *op)
{
    const TirOp *def = op->n_args > 0 ? op->args[0]->def : NULL;

    return tir_axis_use(op) == AXIS_REDUCES && op->reduce != REDUCE_SUM && def != NULL &&
           def->op == TIR_TOTAL_BY && def->axis == op->axis;
}

bool
tir_has_axis(const TirOp *op)
{
    return op->op == TIR_EXPAND || op->op == TIR_SQUEEZE || op->op == TIR_PART ||
           op->op == TIR_OWN || op->op == TIR_FOLD || op->op == TIR_UNFOLD ||
           op->op == TIR_SPREAD || tir_combines(op);
}

double
tir_neutral(ReduceKind kind, DType dtype)
{
    double neutral = tir_reduction_info(kind)->neutral;

    if (dtype_is_float(dtype) || !isinf(neutral))
        return neutral;
    return neutral < 0 ? dtype_lowest(dtype) : dtype_highest(dtype);
}

bool
tir_can_be_again(const TirOp *op)
{
    uint32_t flags = tir_op_info(op->op)->flags;

    return (flags & TF_PURE) != 0 && (flags & TF_TOGETHER) == 0 && op->n_blocks == 0;
}

/* ---- types ---- */

TirType
tir_scalar(DType dtype)
{
    return (TirType){.dtype = dtype};
}

TirType
tir_tile1(DType dtype, int32_t n)
{
    return (TirType){.dtype = dtype, .rank = 1, .dim = {n}};
}

TirType
tir_tile2(DType dtype, int32_t rows, int32_t cols)
{
    return (TirType){.dtype = dtype, .rank = 2, .dim = {rows, cols}};
}

bool
tir_same_shape(TirType a, TirType b)
{
    if (a.rank != b.rank)
        return false;
    for (uint32_t k = 0; k < a.rank; k++)
        if (a.dim[k] != b.dim[k])
            return false;
    return true;
}

bool
tir_type_eq(TirType a, TirType b)
{
    return a.dtype == b.dtype && tir_same_shape(a, b);
}

int64_t
tir_type_elements(TirType type)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < type.rank; k++)
        n *= type.dim[k];
    return n;
}

/* ---- functions, blocks, operations ---- */

static TirFn *
fn_new(Arena *arena, Diag *diag, const char *name, Span span)
{
    TirFn *fn = arena_new(arena, TirFn);

    fn->arena = arena;
    fn->diag = diag;
    fn->name = name;
    fn->span = span;
    fn->body = tir_block_new(fn);
    return fn;
}

TirFn *
tir_fn_new(TirModule *module, const char *name, Span span)
{
    TirFn *fn = fn_new(module->arena, module->diag, name, span);

    vec_push(module->arena, &module->fns, fn);
    return fn;
}

TirFn *
tir_combine_new(TirFn *fn, const char *name, Span span)
{
    TirFn *combine = fn_new(fn->arena, fn->diag, name, span);

    vec_push(fn->arena, &fn->combines, combine);
    return combine;
}

uint32_t
tir_length_axis(const TirFn *fn)
{
    uint32_t variable = fn->grid.n, sliding = fn->grid.n;

    for (uint32_t k = 0; k < fn->grid.n; k++) {
        variable = fn->grid.at[k].variable_trips ? k : variable;
        sliding = fn->grid.at[k].sliding ? k : sliding;
    }
    return variable < fn->grid.n ? variable : sliding;
}

bool
tir_has_ended_axis(const TirFn *fn)
{
    bool ended = false;

    for (uint32_t k = 0; k < fn->grid.n; k++)
        ended = ended || fn->grid.at[k].ended;
    return ended;
}

TirBlock *
tir_block_new(TirFn *fn)
{
    return arena_new(fn->arena, TirBlock);
}

TirVal *
tir_block_param(TirFn *fn, TirBlock *block, TirType type, const char *name)
{
    TirVal *value = arena_new(fn->arena, TirVal);

    *value = (TirVal){
        .id = fn->next_id++, .name = name, .type = type, .block = block, .index = block->params.n};
    vec_push(fn->arena, &block->params, value);
    return value;
}

static void
insert_op(TirBuilder *b, TirOp *op)
{
    TirBlock *block = b->block;

    vec_push(b->fn->arena, &block->ops, op);
    if (b->at < 0)
        return;
    uint32_t at = (uint32_t)b->at;
    assert(at < block->ops.n);
    memmove(&block->ops.at[at + 1], &block->ops.at[at],
            (block->ops.n - 1 - at) * sizeof block->ops.at[0]);
    block->ops.at[at] = op;
    b->at++; /* the next operation follows this one */
}

TirOp *
tir_op_new(TirBuilder *b, TirOpcode opcode, uint32_t n_args, TirVal *const *args,
           uint32_t n_results, const TirType *result_types)
{
    /* in one piece: the operation, the values that it makes, lists of these and of its operands */
    size_t lists = ((size_t)n_args + n_results) * sizeof(TirVal *);
    TirOp *op = arena_alloc(b->fn->arena, sizeof *op + n_results * sizeof(TirVal) + lists);
    TirVal *values = (TirVal *)(op + 1);

    op->op = opcode;
    op->span = b->span;
    op->parent = b->block;
    op->n_args = n_args;
    op->n_results = n_results;
    op->segments = UINT32_MAX;
    op->results = (TirVal **)(values + n_results);
    op->args = op->results + n_results;
    if (n_args > 0)
        memcpy(op->args, args, n_args * sizeof *args);
    for (uint32_t k = 0; k < n_results; k++) {
        values[k] = (TirVal){.id = b->fn->next_id++,
                             .type = result_types[k],
                             .def = op,
                             .block = b->block,
                             .index = k};
        op->results[k] = &values[k];
    }
    insert_op(b, op);
    return op;
}

static TirVal *
make_value(TirBuilder *b, TirOpcode opcode, uint32_t n_args, TirVal *const *args, TirType type)
{
    return tir_op_new(b, opcode, n_args, args, 1, &type)->results[0];
}

/* ---- constants ---- */

TirVal *
tir_const_int(TirBuilder *b, int64_t value)
{
    TirVal *result = make_value(b, TIR_CONST, 0, NULL, tir_scalar(DT_I32));
    result->def->integer = value;
    return result;
}

TirVal *
tir_const_bool(TirBuilder *b, bool value)
{
    TirVal *result = make_value(b, TIR_CONST, 0, NULL, tir_scalar(DT_BOOL));
    result->def->integer = value;
    return result;
}

TirVal *
tir_splat_const(TirBuilder *b, TirType type, double value)
{
    TirVal *result = make_value(b, TIR_CONST, 0, NULL, type);
    if (dtype_is_float(type.dtype))
        result->def->number = value;
    else
        result->def->integer = (int64_t)value;
    return result;
}

/* ---- elementwise ---- */

TirVal *
tir_unary(TirBuilder *b, TirOpcode op, TirVal *a)
{
    return make_value(b, op, 1, &a, a->type);
}

static bool
is_comparison(TirOpcode op)
{
    return op == TIR_EQ || op == TIR_NE || op == TIR_LT || op == TIR_LE || op == TIR_GT ||
           op == TIR_GE;
}

TirVal *
tir_binary(TirBuilder *b, TirOpcode op, TirVal *x, TirVal *y)
{
    TirVal *args[2] = {x, y};
    TirType type = x->type;

    if (is_comparison(op))
        type.dtype = DT_BOOL;
    return make_value(b, op, 2, args, type);
}

TirVal *
tir_select(TirBuilder *b, TirVal *condition, TirVal *yes, TirVal *no)
{
    TirVal *args[3] = {condition, yes, no};
    return make_value(b, TIR_SELECT, 3, args, yes->type);
}

TirVal *
tir_cast(TirBuilder *b, TirVal *a, DType to)
{
    TirType type = a->type;

    if (type.dtype == to)
        return a;
    type.dtype = to;
    return make_value(b, TIR_CAST, 1, &a, type);
}

TirVal *
tir_mask(TirBuilder *b, TirVal *a, TirVal *condition)
{
    TirVal *args[2] = {a, condition};
    return make_value(b, TIR_MASK, 2, args, a->type);
}

/* ---- shapes, reductions, products ---- */

TirVal *
tir_iota(TirBuilder *b, TirVal *start, TirVal *bound, int32_t length)
{
    TirVal *args[2] = {start, bound};
    return make_value(b, TIR_IOTA, 2, args, tir_tile1(DT_I32, length));
}

TirVal *
tir_iota_part(TirBuilder *b, TirVal *start, TirVal *bound, TirIndex part)
{
    TirVal *indices = tir_iota(b, start, bound, part.rows > 0 ? part.rows : part.length);

    if (part.rows > 0)
        indices->def->index[0] = part;
    indices->def->index[0].within = part.within;
    return indices;
}

TirVal *
tir_expand(TirBuilder *b, TirVal *a, uint32_t axis)
{
    TirType type = a->type;

    assert(type.rank < TIR_MAX_RANK && axis <= type.rank);
    for (uint32_t k = type.rank; k > axis; k--)
        type.dim[k] = type.dim[k - 1];
    type.dim[axis] = 1;
    type.rank++;
    TirVal *result = make_value(b, TIR_EXPAND, 1, &a, type);
    result->def->axis = axis;
    return result;
}

/* As in NumPy, missing dimensions are added in front. */
TirVal *
tir_broadcast_to(TirBuilder *b, TirVal *a, const TirType *shape_of)
{
    TirType type = *shape_of;

    if (tir_same_shape(a->type, type))
        return a;
    if (a->type.rank > 0)
        while (a->type.rank < type.rank)
            a = tir_expand(b, a, 0);
    if (tir_same_shape(a->type, type))
        return a;
    type.dtype = a->type.dtype;
    return make_value(b, TIR_BROADCAST, 1, &a, type);
}

TirVal *
tir_transpose(TirBuilder *b, TirVal *a)
{
    return make_value(b, TIR_TRANSPOSE, 1, &a,
                      tir_tile2(a->type.dtype, a->type.dim[1], a->type.dim[0]));
}

TirVal *
tir_reduce(TirBuilder *b, ReduceKind kind, TirVal *a, uint32_t axis)
{
    TirType type = a->type;

    assert(axis < type.rank);
    for (uint32_t k = axis; k + 1 < type.rank; k++)
        type.dim[k] = type.dim[k + 1];
    type.dim[--type.rank] = 0;
    TirVal *result = make_value(b, TIR_REDUCE, 1, &a, type);
    result->def->reduce = kind;
    result->def->axis = axis;
    return result;
}

TirVal *
tir_fold(TirBuilder *b, TirOpcode op, TirVal *a, uint32_t axis, int32_t inner)
{
    TirType type = a->type;

    if (op == TIR_FOLD) {
        assert(type.rank < TIR_MAX_RANK && type.dim[axis] % inner == 0);
        for (uint32_t k = type.rank++; k > axis; k--)
            type.dim[k] = type.dim[k - 1];
        type.dim[axis] /= inner;
        type.dim[axis + 1] = inner;
    } else {
        type.dim[axis] *= type.dim[axis + 1];
        for (uint32_t k = axis + 1; k + 1 < type.rank; k++)
            type.dim[k] = type.dim[k + 1];
        type.dim[--type.rank] = 0;
    }
    TirVal *result = make_value(b, op, 1, &a, type);
    result->def->axis = axis;
    return result;
}

TirVal *
tir_reduce_part(TirBuilder *b, ReduceKind kind, TirVal *a, uint32_t axis, TirIndex part)
{
    TirType type = a->type;

    type.dim[axis] /= part.length;
    TirVal *result = make_value(b, TIR_REDUCE_PART, 1, &a, type);
    result->def->reduce = kind;
    result->def->axis = axis;
    result->def->index[0] = part;
    return result;
}

TirVal *
tir_spread(TirBuilder *b, TirVal *a, uint32_t axis, TirIndex part)
{
    TirType type = a->type;

    type.dim[axis] *= part.length;
    TirVal *result = make_value(b, TIR_SPREAD, 1, &a, type);
    result->def->axis = axis;
    result->def->index[0] = part;
    return result;
}

TirVal *
tir_mma(TirBuilder *b, TirVal *a, TirVal *x, TirVal *acc)
{
    TirType type = a->type;

    type.dtype = dtype_wide(a->type.dtype);
    type.dim[type.rank - 1] = x->type.dim[type.rank - 1];
    if (acc == NULL)
        acc = tir_splat_const(b, type, 0.0);
    TirVal *args[3] = {a, x, acc};
    return make_value(b, TIR_MMA, 3, args, type);
}

void
tir_mma_own(TirFn *fn, TirOp *mma, TirVal *const own[4])
{
    TirVal **args = arena_array(fn->arena, TirVal *, TIR_MMA_BOTH);

    for (uint32_t k = 0; k < TIR_MMA_BOTH; k++)
        args[k] = k < TIR_MMA_OWN ? mma->args[k] : own[k - TIR_MMA_OWN];
    mma->args = args;
    mma->n_args = TIR_MMA_BOTH;
}

uint8_t
tir_moved_dimensions(const TirOp *op, uint8_t dimensions)
{
    switch (op->op) {
    case TIR_EXPAND: return (uint8_t)(op->axis == 0 ? dimensions << 1 : dimensions);
    case TIR_TRANSPOSE: return (uint8_t)((dimensions & 1) << 1 | dimensions >> 1);
    default: break;
    }
    switch (tir_axis_use(op)) {
    case AXIS_ELEMENTWISE:
    case AXIS_REDUCES_PART:
    case AXIS_SPREADS:
    case AXIS_SCANS:
    case AXIS_SORTS: return dimensions;
    default: return (uint8_t)(op->axis == 0 ? dimensions >> 1 : dimensions & 1);
    }
}

/* ---- control ---- */

static void
add_blocks(TirFn *fn, TirOp *op, uint32_t n)
{
    op->n_blocks = n;
    op->blocks = arena_array(fn->arena, TirBlock *, n);
    for (uint32_t k = 0; k < n; k++) {
        op->blocks[k] = tir_block_new(fn);
        op->blocks[k]->owner = op;
    }
}

bool
tir_is_mask(const TirOp *op)
{
    return op->op == TIR_MASK || op->op == TIR_BOUNDS_MASK;
}

TirShared *
tir_buffer_new(TirFn *fn, SharedKind kind, const char *name, TirType type, uint32_t stages)
{
    TirShared *buffer = arena_new(fn->arena, TirShared);

    buffer->id = fn->shared.n;
    buffer->kind = kind;
    buffer->name = name;
    buffer->dtype = type.dtype;
    buffer->rows = type.rank == 2 ? type.dim[0] : 1;
    buffer->cols = type.dim[type.rank - 1];
    buffer->stages = stages;
    vec_push(fn->arena, &fn->shared, buffer);
    return buffer;
}

TirOp *
tir_for(TirBuilder *b, TirVal *lo, TirVal *hi, uint32_t n, TirVal *const *initial)
{
    Arena *arena = b->fn->arena;
    TirVal **args = arena_array(arena, TirVal *, n + 2);
    TirType *types = arena_array(arena, TirType, n + 1);

    args[0] = lo;
    args[1] = hi;
    for (uint32_t k = 0; k < n; k++) {
        args[k + 2] = initial[k];
        types[k] = initial[k]->type;
    }
    TirOp *op = tir_op_new(b, TIR_FOR, n + 2, args, n, types);
    add_blocks(b->fn, op, 1);
    tir_block_param(b->fn, op->blocks[0], tir_scalar(DT_I32), NULL);
    for (uint32_t k = 0; k < n; k++) {
        tir_block_param(b->fn, op->blocks[0], types[k], initial[k]->name);
        op->results[k]->name = initial[k]->name;
    }
    return op;
}

TirOp *
tir_if(TirBuilder *b, TirVal *condition, uint32_t n, const TirType *types)
{
    TirOp *op = tir_op_new(b, TIR_IF, 1, &condition, n, types);
    add_blocks(b->fn, op, 2);
    return op;
}

TirOp *
tir_yield(TirBuilder *b, uint32_t n, TirVal *const *values)
{
    return tir_op_new(b, TIR_YIELD, n, values, 0, NULL);
}

const TirVal *
tir_untransposed(const TirVal *value)
{
    while (value->def != NULL && value->def->op == TIR_TRANSPOSE)
        value = value->def->args[0];
    return value;
}

bool
tir_is_zero(const TirVal *value)
{
    const TirOp *def = value->def;

    return def != NULL && def->op == TIR_CONST && def->number == 0 && def->integer == 0;
}

void
tir_replace_in_block(TirBlock *block, const TirVal *from, TirVal *to)
{
    for (uint32_t k = 0; k < block->ops.n; k++) {
        TirOp *op = block->ops.at[k];
        for (uint32_t j = 0; j < op->n_args; j++)
            if (op->args[j] == from)
                op->args[j] = to;
        for (uint32_t j = 0; j < op->n_blocks; j++)
            tir_replace_in_block(op->blocks[j], from, to);
    }
}

void
tir_replace_uses(TirFn *fn, TirVal *from, TirVal *to)
{
    if (from != to)
        tir_replace_in_block(fn->body, from, to);
}

/* ---- host expressions ---- */

const char *
tir_size_text(const TirFn *fn, uint32_t size)
{
    return fn->sizes.at[size].text != NULL ? fn->sizes.at[size].text : fn->sizes.at[size].name;
}

bool
host_equal(const HostExpr *a, const HostExpr *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a->kind == b->kind && a->integer == b->integer && a->number == b->number &&
           a->index == b->index && host_equal(a->a, b->a) && host_equal(a->b, b->b);
}

HostExpr *
host_int(Arena *arena, int64_t value)
{
    HostExpr *expr = arena_new(arena, HostExpr);
    expr->kind = HOST_INT;
    expr->integer = value;
    return expr;
}

HostExpr *
host_device(Arena *arena, DeviceFact fact)
{
    HostExpr *expr = arena_new(arena, HostExpr);

    *expr = (HostExpr){.kind = HOST_DEVICE, .index = fact};
    return expr;
}

HostExpr *
host_binary(Arena *arena, HostKind kind, const HostExpr *a, const HostExpr *b)
{
    HostExpr *expr = arena_new(arena, HostExpr);
    expr->kind = kind;
    expr->a = a;
    expr->b = b;
    return expr;
}
