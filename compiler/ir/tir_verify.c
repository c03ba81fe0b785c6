/* tir_verify.c - the invariants of tile IR.
 *
 * Run after every pass in checked builds: operand counts and types of each operation, definitions
 * before uses and only where they are visible, terminators, loops whose carried values agree with
 * their operands and results, indices in range of what they name.  A violation is a bug of ours.
 */
#include "compiler/ir/tir_verifier.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/ir/isa.h"
#include "compiler/ir/layout.h"

static const char *
type_text(Verifier *v, TirType type)
{
    Buf text;

    buf_init(&text, v->out->arena);
    buf_add(&text, dtype_name(type.dtype));
    for (uint32_t k = 0; k < type.rank; k++)
        buf_printf(&text, "%c%" PRId32 "%s", k == 0 ? '[' : ',', type.dim[k],
                   k + 1 == type.rank ? "]" : "");
    return text.at;
}

/* ---- definitions and uses ---- */

static void
check_definition(Verifier *v, const TirOp *op, const TirVal *value)
{
    if (value->id >= v->fn->next_id) {
        tir_fault(v, op, "value #%" PRIu32 " has an id that was never given out", value->id);
        return;
    }
    if (v->defined[value->id])
        tir_fault(v, op, "value #%" PRIu32 " is defined twice", value->id);
    if (value->type.rank > TIR_MAX_RANK || (unsigned)value->type.dtype >= DT_COUNT)
        tir_fault(v, op, "value #%" PRIu32 " has no proper type", value->id);
    for (uint32_t k = 0; k < value->type.rank && k < TIR_MAX_RANK; k++)
        if (value->type.dim[k] <= 0)
            tir_fault(v, op, "value #%" PRIu32 " has an extent of %" PRId32, value->id,
                      value->type.dim[k]);
    tir_check_tile(v, op, value->type);
    v->visible[value->id] = v->defined[value->id] = true;
    tir_check_layout(v, op, value);
}

static bool
check_uses(Verifier *v, const TirOp *op)
{
    bool ok = true;

    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirVal *value = op->args[k];
        if (value == NULL) {
            tir_fault(v, op, "operand %" PRIu32 " is missing", k);
            ok = false;
        } else if (value->id >= v->fn->next_id || !v->visible[value->id]) {
            tir_fault(v, op, "operand %" PRIu32 " (%s#%" PRIu32 ") is not defined before it", k,
                      value->name == NULL ? "" : value->name, value->id);
            ok = false;
        }
    }
    return ok;
}

/* ---- types of each operation ---- */

static void
want_type(Verifier *v, const TirOp *op, const char *what, TirType have, TirType want)
{
    if (!tir_type_eq(have, want))
        tir_fault(v, op, "%s is %s, expected %s", what, type_text(v, have), type_text(v, want));
}

static void
want_dtype(Verifier *v, const TirOp *op, const char *what, DType have, DType want)
{
    if (have != want)
        tir_fault(v, op, "%s is of %s, expected %s", what, dtype_name(have), dtype_name(want));
}

static void
check_elementwise(Verifier *v, const TirOp *op)
{
    TirType result = op->results[0]->type, first = op->args[0]->type;

    for (uint32_t k = 0; k < op->n_args; k++)
        if (!tir_same_shape(op->args[k]->type, result))
            tir_fault(v, op, "operand %" PRIu32 " is %s, the result %s: shapes differ", k,
                      type_text(v, op->args[k]->type), type_text(v, result));
    switch (op->op) {
    case TIR_CAST:
    case TIR_BITS: return;
    case TIR_SELECT:
        want_dtype(v, op, "the condition", first.dtype, DT_BOOL);
        want_dtype(v, op, "operand 1", op->args[1]->type.dtype, result.dtype);
        want_dtype(v, op, "operand 2", op->args[2]->type.dtype, result.dtype);
        return;
    case TIR_MASK:
    case TIR_BOUNDS_MASK:
        want_dtype(v, op, "operand 0", first.dtype, result.dtype);
        want_dtype(v, op, "the condition", op->args[1]->type.dtype, DT_BOOL);
        return;
    case TIR_EQ:
    case TIR_NE:
    case TIR_LT:
    case TIR_LE:
    case TIR_GT:
    case TIR_GE:
        want_dtype(v, op, "operand 1", op->args[1]->type.dtype, first.dtype);
        want_dtype(v, op, "the result", result.dtype, DT_BOOL);
        return;
    default:
        for (uint32_t k = 0; k < op->n_args; k++)
            want_dtype(v, op, "an operand", op->args[k]->type.dtype, result.dtype);
        break;
    }
    if (op->rounded)
        want_dtype(v, op, "what is rounded as written", result.dtype, DT_F32);
}

static void
check_expand(Verifier *v, const TirOp *op, const TirVal *narrow, const TirVal *wide)
{
    TirType type = narrow->type;

    if (op->axis > type.rank || type.rank >= TIR_MAX_RANK) {
        tir_fault(v, op, "axis %" PRIu32 " does not exist", op->axis);
        return;
    }
    for (uint32_t k = type.rank; k > op->axis; k--)
        type.dim[k] = type.dim[k - 1];
    type.dim[op->axis] = 1;
    type.rank++;
    want_type(v, op, op->op == TIR_EXPAND ? "the result" : "operand 0", wide->type, type);
}

static void
check_broadcast(Verifier *v, const TirOp *op)
{
    TirType from = op->args[0]->type, to = op->results[0]->type;

    want_dtype(v, op, "the result", to.dtype, from.dtype);
    if (from.rank == 0)
        return;
    bool fits = from.rank == to.rank;
    for (uint32_t k = 0; fits && k < from.rank; k++)
        fits = from.dim[k] == to.dim[k] || from.dim[k] == 1;
    if (!fits)
        tir_fault(v, op, "%s does not broadcast to %s", type_text(v, from), type_text(v, to));
}

/* One axis of `narrow` is two of `wide`. */
static void
check_fold(Verifier *v, const TirOp *op, TirType narrow, TirType wide)
{
    if (op->axis >= narrow.rank || wide.rank != narrow.rank + 1) {
        tir_fault(v, op, "axis %" PRIu32 " does not exist", op->axis);
        return;
    }
    wide.dim[op->axis] *= wide.dim[op->axis + 1];
    for (uint32_t k = op->axis + 1; k + 1 < wide.rank; k++)
        wide.dim[k] = wide.dim[k + 1];
    wide.rank--;
    want_type(v, op, "what has more dimensions", wide, narrow);
}

/* An axis of `whole` is a pack, of which `rest` has not got one part. */
static void
check_part_of_axis(Verifier *v, const TirOp *op, TirType whole, TirType rest)
{
    const TirIndex *part = &op->index[0];

    tir_check_parts(v, op, 1);
    if (op->axis >= rest.rank || op->axis >= whole.rank)
        tir_fault(v, op, "axis %" PRIu32 " does not exist", op->axis);
    else if (part->rows != whole.dim[op->axis] || part->length <= 0)
        tir_fault(v, op, "is of a part of another number of elements");
    else {
        whole.dim[op->axis] /= part->length;
        want_type(v, op, "what has not got the part", rest, whole);
    }
}

static void
check_along(Verifier *v, const TirOp *op)
{
    TirType type = op->args[0]->type;

    if (tir_combines_tuples(op)) {
        tir_check_tuples(v, op);
        return;
    }

    if (op->axis >= type.rank) {
        tir_fault(v, op, "axis %" PRIu32 " does not exist", op->axis);
        return;
    }
    if (tir_axis_use(op) == AXIS_SORTS && op->reduce != REDUCE_MIN)
        tir_fault(v, op, "sorts by min only");
    for (uint32_t k = op->axis; k + 1 < type.rank && tir_axis_use(op) == AXIS_REDUCES; k++)
        type.dim[k] = type.dim[k + 1];
    type.rank -= tir_axis_use(op) == AXIS_REDUCES;
    want_type(v, op, "the result", op->results[0]->type, type);
}

/* Whether operand `k`, in registers, lies where a product of warps reads it. */
static bool
lies_for_mma(Verifier *v, const TirOp *op, uint32_t k)
{
    const TirVal *value = op->args[k], *from = tir_untransposed(value);
    Arena *arena = v->out->arena;
    bool left = (k == 0) != op->swap_ab;
    int32_t outer = value->type.dim[k], inner = value->type.dim[1 - k];

    if (value->layout == NULL || (from->def != NULL && from->def->op == TIR_SHARED_READ))
        return true;
    int32_t word = 32 / (int32_t)dtype_bits(value->type.dtype);
    const Layout *want = left ? layout_mma_a(arena, outer, inner, word, op->warps_m, v->fn->warps)
                              : layout_mma_b(arena, inner, outer, word, op->warps_m, op->warps_n,
                                             v->fn->warps);
    if (op->swap_ab)
        want = layout_transpose(arena, want);
    return layout_register_map(arena, value->layout, want) != NULL;
}

/* The sum of a product of a warp group, in registers. */
static void
check_group_sum(Verifier *v, const TirOp *op)
{
    const Layout *sum = op->results[0]->layout;
    TirType type = op->results[0]->type;
    Arena *arena = v->out->arena;

    if (sum == NULL)
        return;
    const Layout *want = op->swap_ab ? layout_transpose(
                                           arena, layout_group_c(arena, type.dim[1], type.dim[0]))
                                     : layout_group_c(arena, type.dim[0], type.dim[1]);
    if (!layout_eq(sum, want))
        tir_fault(v, op, "the result does not lie where the product writes it");
}

static void
check_mma_warps(Verifier *v, const TirOp *op)
{
    uint32_t m = op->warps_m, n = op->warps_n, warps = v->fn->warps;

    bool said = !warps_divide(warps); /* tir_check_interface */
    if (op->async)
        check_group_sum(v, op);
    if ((m == 0 && n == 0 && op->results[0]->layout == NULL) || op->async || said)
        return;
    if (m == 0 || n == 0 || m > warps || n > warps || warps % (m * n) != 0) {
        tir_fault(v, op,
                  "warps(%" PRIu32 ", %" PRIu32 ") are no part of the %" PRIu32 " of a block", m, n,
                  warps);
        return;
    }
    const Layout *sum = op->results[0]->layout;
    if (sum != NULL && !op->swap_ab) {
        TirType type = op->results[0]->type;
        const Layout *want = layout_mma_c(v->out->arena, type.dim[0], type.dim[1], m, n, warps);
        if (layout_register_map(v->out->arena, sum, want) == NULL)
            tir_fault(v, op, "the result does not lie where the product writes it");
    }
    for (uint32_t k = 0; k < 2 && sum != NULL; k++) {
        if (!lies_for_mma(v, op, k))
            tir_fault(v, op, "operand %" PRIu32 " does not lie where the product reads it", k);
    }
}

static void
check_mma(Verifier *v, const TirOp *op)
{
    TirType a = op->args[0]->type, b = op->args[1]->type;
    uint32_t rows = a.rank == 3; /* over a first dimension, until pass flatten */
    if (a.rank != rows + 2 || b.rank != a.rank || a.dim[rows + 1] != b.dim[rows] ||
        (rows > 0 && a.dim[0] != b.dim[0])) {
        tir_fault(v, op, "operands %s and %s do not multiply", type_text(v, a), type_text(v, b));
        return;
    }
    if (op->n_args != TIR_MMA_SCALED && !dtype_multiplies(a.dtype, b.dtype))
        want_dtype(v, op, "operand 1", b.dtype, a.dtype);
    TirType want = a;
    want.dtype = op->n_args == TIR_MMA_SCALED ? DT_F32 : dtype_wide(a.dtype);
    want.dim[rows + 1] = b.dim[rows + 1];
    if (op->n_args != TIR_MMA_PLAIN)
        tir_check_scales(v, op);
    want_type(v, op, "operand 2", op->args[2]->type, want);
    want_type(v, op, "the result", op->results[0]->type, want);
    const Layout *before = op->args[2]->layout, *sum = op->results[0]->layout;
    if (before != NULL && sum != NULL && !layout_eq(before, sum))
        tir_fault(v, op, "operand 2 and the result have different layouts: a product adds in place");
    check_mma_warps(v, op);
}

/* ---- memory ---- */

static bool
is_tensor_of(const TirFn *fn, const TirTensor *tensor)
{
    for (uint32_t k = 0; k < fn->tensors.n; k++)
        if (fn->tensors.at[k] == tensor)
            return true;
    return false;
}

static void
check_access(Verifier *v, const TirOp *op, uint32_t first, uint32_t after)
{
    const TirTensor *tensor = op->tensor;

    if (tensor == NULL || !is_tensor_of(v->fn, tensor)) {
        tir_fault(v, op, "names no tensor of the kernel");
        return;
    }
    tir_check_indices(v, op);
    tir_check_parts(v, op, tensor->rank);
    uint32_t rank = tir_access_rank(op);
    if (rank > TIR_MAX_RANK) {
        tir_fault(v, op, "addresses a tile of rank %" PRIu32, rank);
        return;
    }
    uint32_t n = tir_index_operands(op) + op->n_limits;
    TirVal *condition = tir_copy_condition(op);
    uint32_t all = first + n + after + (condition != NULL);
    if (op->n_args != all) {
        tir_fault(v, op, "has %" PRIu32 " operands, expected %" PRIu32, op->n_args, all);
        return;
    }
    if (condition != NULL)
        want_type(v, op, "the condition", condition->type, tir_scalar(DT_BOOL));
    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        if (d.at != NULL)
            want_type(v, op, "an index", d.at->type, tir_operand_type(&d));
        if (d.places && d.index->inner > 0 && rank != 2)
            tir_fault(v, op, "index %" PRIu32 " is not all of the tile", d.dim);
    }
    for (uint32_t k = 0; k < op->n_limits; k++)
        want_type(v, op, "an index", tir_limit_count(op, k)->type, tir_scalar(DT_I32));
    TirType type = tir_index_type(op);
    tir_check_limits(v, op, &type);
    if (op->op == TIR_LOAD)
        want_type(v, op, "the result", op->results[0]->type, type);
    if (after == 1)
        want_type(v, op, "the value", op->args[op->n_args - 1]->type, type);
    if (tir_fetches(op)) {
        want_type(v, op, "the value", type, tir_scalar(tensor->dtype));
        want_type(v, op, "the result", op->results[0]->type, type);
    }
    if ((tir_is_atomic(op) || op->op == TIR_TMA_REDUCE_ADD) && !tensor->atomic)
        tir_fault(v, op, "'%s' is not marked atomic", tensor->name);
    bool reads = op->op == TIR_LOAD || op->op == TIR_COPY_ASYNC || op->op == TIR_TMA_LOAD ||
                 op->op == TIR_WANT;
    if (tensor->mode == (reads ? TENSOR_OUT : TENSOR_IN))
        tir_fault(v, op, "goes against the mode of '%s'", tensor->name);
}

static void
check_stage(Verifier *v, const TirOp *op)
{
    for (uint32_t k = 0; k < v->fn->shared.n; k++) {
        if (v->fn->shared.at[k] == op->shared) {
            want_type(v, op, "the stage", op->args[0]->type, tir_scalar(DT_I32));
            return;
        }
    }
    tir_fault(v, op, "names no shared buffer of the kernel");
}

static void
check_fits_shared(Verifier *v, const TirOp *op, TirType type)
{
    const TirShared *shared = op->shared;

    if (shared == NULL)
        return;
    want_dtype(v, op, "the buffer", shared->dtype, type.dtype);
    int64_t elements = (int64_t)shared->rows * shared->cols * (shared->halved ? 2 : 1);
    if (tir_type_elements(type) > elements)
        tir_fault(v, op, "%s does not fit into a stage of %" PRId32 " x %" PRId32,
                  type_text(v, type), shared->rows, shared->cols);
}

static bool
check_staging(Verifier *v, const TirOp *op)
{
    bool staging = op->shared != NULL && op->shared->kind == SHARED_STAGING;

    if (!staging)
        tir_fault(v, op, "there is no staging buffer");
    return staging;
}

/* Some whole swizzle atom columns of a tile, with all of its rows. */
static void
check_atom_columns(Verifier *v, const TirOp *op, TirType type)
{
    const TirShared *shared = op->shared;
    int32_t width = SWIZZLE_BYTES * 8 / (int32_t)dtype_bits(type.dtype);

    want_dtype(v, op, "the buffer", shared->dtype, type.dtype);
    if (type.rank != 2 || type.dim[0] != shared->rows || type.dim[1] % width != 0 ||
        shared->cols == 0 || shared->cols % width != 0)
        tir_fault(v, op, "%s does not go through swizzle atom columns of %" PRId32 " x %" PRId32,
                  type_text(v, type), shared->rows, shared->cols);
}

/* ---- control ---- */

static void check_block(Verifier *v, const TirBlock *block, uint32_t n, TirVal *const *wanted);

static void
check_for(Verifier *v, const TirOp *op)
{
    uint32_t bounds = op->n_segments > 1 ? op->n_segments - 1 : 0;
    const TirBlock *body = op->n_blocks == 1 ? op->blocks[0] : NULL;

    if (body == NULL || op->n_args < 2 + bounds || op->n_segments > MAX_SEGMENTS) {
        tir_fault(v, op, "needs bounds and one block");
        return;
    }
    uint32_t carried = op->n_args - 2 - bounds;
    if (body->params.n != carried + 1 || op->n_results != carried) {
        tir_fault(v, op,
                  "has %" PRIu32 " initial values, %" PRIu32 " block arguments after the "
                  "index and %" PRIu32 " results",
                  carried, body->params.n - 1, op->n_results);
        return;
    }
    if (op->hints.stages < 0 || op->hints.stages > LOOP_MAX_STAGES)
        tir_fault(v, op, "has %" PRId32 " stages, expected 0 (chosen by the compiler) .. %d",
                  op->hints.stages, LOOP_MAX_STAGES);
    for (uint32_t k = 0; k < 2 + bounds; k++)
        want_type(v, op, "a bound", op->args[k]->type, tir_scalar(DT_I32));
    want_type(v, op, "the index", body->params.at[0]->type, tir_scalar(DT_I32));
    for (uint32_t k = 0; k < carried; k++) {
        TirType type = op->args[2 + bounds + k]->type;
        want_type(v, op, "a block argument", body->params.at[k + 1]->type, type);
        want_type(v, op, "a result", op->results[k]->type, type);
        tir_want_layout(v, op, "a result", op->results[k], body->params.at[k + 1]);
        tir_want_layout(v, op, "an initial value", op->args[2 + bounds + k], body->params.at[k + 1]);
    }
    check_block(v, body, op->n_results, op->results);
}

static void
check_if(Verifier *v, const TirOp *op)
{
    if (op->n_blocks != 2) {
        tir_fault(v, op, "needs two blocks");
        return;
    }
    want_type(v, op, "the condition", op->args[0]->type, tir_scalar(DT_BOOL));
    for (uint32_t k = 0; k < 2; k++) {
        if (op->blocks[k]->params.n != 0)
            tir_fault(v, op, "its blocks take no arguments");
        check_block(v, op->blocks[k], op->n_results, op->results);
    }
}

/* ---- one operation, one block ---- */

static void
check_leaf(Verifier *v, const TirOp *op)
{
    TirType type = op->results[0]->type;
    uint32_t n = op->op == TIR_PARAM  ? v->fn->scalars.n
                 : op->op == TIR_SIZE ? v->fn->sizes.n
                                      : v->fn->grid.n;

    if (op->op == TIR_CONST) {
        if (type.dtype == DT_BOOL && op->integer != 0 && op->integer != 1)
            tir_fault(v, op, "a bool is 0 or 1");
        if (!dtype_is_float(type.dtype) && dtype_bits(type.dtype) == 32 &&
            (op->integer < INT32_MIN || op->integer > UINT32_MAX))
            tir_fault(v, op, "%" PRId64 " does not fit into 32 bits", op->integer);
        return;
    }
    if (op->integer < 0 || op->integer >= n) {
        tir_fault(v, op, "number %" PRId64 " does not exist", op->integer);
        return;
    }
    DType want = op->op == TIR_PARAM ? v->fn->scalars.at[op->integer].dtype : DT_I32;
    want_type(v, op, "the result", type, tir_scalar(want));
}

/* Whether it can be a piece of an operand of so many columns. */
static bool
is_piece_of(const TirShared *shared, int32_t columns)
{
    return shared != NULL && shared->kind == SHARED_TMEM && shared->from == ROLE_CONSUMER &&
           (int64_t)shared->column + shared->cols <= columns;
}

/* Of products of two blocks the right operand is halved, along the columns of the result, and the
 * left one is not. */
static void
check_halves(Verifier *v, const TirOp *mma)
{
    for (uint32_t k = 0; k < 2; k++) {
        const TirOp *def = mma->args[k]->def;
        bool transposed = false;
        for (; def != NULL && def->op == TIR_TRANSPOSE; def = def->args[0]->def)
            transposed = !transposed;
        if (def == NULL || def->op != TIR_SHARED_READ || def->shared == NULL)
            continue;
        const TirShared *in = def->shared;
        TirType tile = def->results[0]->type;
        bool halved = in->halved, wanted = k == 1 && tir_multiplies_in_pairs(v->fn->plan);
        if (halved != wanted ||
            (halved && (transposed ? tile.dim[0] != 2 * in->rows || tile.dim[1] != in->cols
                                   : tile.dim[0] != in->rows || tile.dim[1] != 2 * in->cols)))
            tir_fault(v, mma, "operand %" PRIu32 " does not lie in the blocks of a pair as it must",
                      k);
    }
}

/* A stage of a pipeline in tensor memory is a tile: what a product gives, or what is read and
 * written. */
static void
check_tmem(Verifier *v, const TirOp *op)
{
    const TirShared *tmem = op->shared;

    bool hands = op->op == TIR_PRODUCER_ACQUIRE || op->op == TIR_PRODUCER_COMMIT;
    if (hands && tmem != NULL && (tmem->kind == SHARED_PIPELINE || tir_is_handed(tmem)))
        return; /* what a consumer writes elsewhere */
    if (tmem == NULL || tmem->kind != SHARED_TMEM) {
        tir_fault(v, op, "there is no pipeline in tensor memory");
        return;
    }
    TirType tile = tir_tile2(tmem->dtype, tmem->rows, tmem->cols);
    if (op->op == TIR_TMEM_READ && op->results[0]->type.rank == 2 &&
        op->results[0]->type.dim[1] < tmem->cols) /* of those that take turns there, a narrow one */
        tile.dim[1] = op->results[0]->type.dim[1];
    if (op->op == TIR_TMEM_READ)
        want_type(v, op, "the result", op->results[0]->type, tile);
    if (op->op == TIR_TMEM_WRITE && is_piece_of(tmem, op->args[0]->type.dim[1]))
        tile.dim[1] = op->args[0]->type.dim[1];
    if (op->op == TIR_TMEM_WRITE)
        want_type(v, op, "the value", op->args[0]->type, tile);
    if (op->op != TIR_TMEM_MMA)
        return;
    bool scaled = op->n_args == TIR_MMA_SCALED;
    if (!scaled && op->n_args != TIR_MMA_PLAIN) {
        tir_fault(v, op, "has neither 3 operands nor, with scales, 5");
        return;
    }
    TirType a = op->args[0]->type, b = op->args[1]->type;
    want_type(v, op, "whether it adds", op->args[2]->type, tir_scalar(DT_BOOL));
    if (scaled)
        tir_check_scales(v, op);
    else if (!dtype_multiplies(a.dtype, b.dtype))
        want_dtype(v, op, "operand 1", b.dtype, a.dtype);
    want_dtype(v, op, "the sum", tmem->dtype, scaled ? DT_F32 : dtype_wide(a.dtype));
    if (a.rank != 2 || b.rank != 2 || a.dim[0] != tmem->rows || b.dim[1] > tmem->cols ||
        (a.dim[1] != b.dim[0] && !is_piece_of(op->args[0]->def->shared, b.dim[0])))
        tir_fault(v, op, "its operands give no tile of %" PRId32 " x %" PRId32, tmem->rows,
                  tmem->cols);
    if (v->fn->plan != NULL)
        check_halves(v, op);
}

/* Several parts make a tile. */
static void
check_part(Verifier *v, const TirOp *op)
{
    TirType all = op->args[0]->type, one = op->results[0]->type;

    if (all.rank != one.rank || op->axis >= all.rank) {
        tir_fault(v, op, "the tile has no such axis");
        return;
    }
    int32_t n = one.dim[op->axis] > 0 ? all.dim[op->axis] / one.dim[op->axis] : 0;
    one.dim[op->axis] *= n;
    want_type(v, op, "the parts together", one, all);
    if (op->integer >= n)
        tir_fault(v, op, "there are only %" PRId32 " parts", n);
}

static void
check_iota(Verifier *v, const TirOp *op)
{
    want_type(v, op, "the start", op->args[0]->type, tir_scalar(DT_I32));
    want_type(v, op, "the bound", op->args[1]->type, tir_scalar(DT_I32));
    want_type(v, op, "the result", op->results[0]->type,
              tir_tile1(DT_I32, op->results[0]->type.dim[0]));
    tir_check_parts(v, op, 1);
    if (op->index[0].rows != 0 && op->index[0].rows != op->results[0]->type.dim[0])
        tir_fault(v, op, "is a part of another number of elements");
}

static void
check_transpose(Verifier *v, const TirOp *op)
{
    if (op->args[0]->type.rank != 2)
        tir_fault(v, op, "operand 0 is %s, not of rank 2", type_text(v, op->args[0]->type));
    else
        want_type(
            v, op, "the result", op->results[0]->type,
            tir_tile2(op->args[0]->type.dtype, op->args[0]->type.dim[1], op->args[0]->type.dim[0]));
}

/* Of the last columns a half goes to the other block, the other one is left; those before go the
 * same way as without a pair. */
static void
check_pair(Verifier *v, const TirOp *op)
{
    const TirShared *sent = op->shared;
    TirType all = op->args[0]->type;

    if (sent == NULL || sent->kind != SHARED_SENT) {
        tir_fault(v, op, "there is no buffer to which the other block sends");
        return;
    }
    int32_t before = all.rank == 2 ? all.dim[1] - 2 * sent->cols : -1;
    if (before < 0 || before % SENT_AT_ONCE != 0) {
        tir_fault(v, op, "is of a value with fewer columns than the blocks add up");
        return;
    }
    want_type(v, op, "the value", all, tir_tile2(DT_F32, sent->rows, all.dim[1]));
    if (op->op == TIR_PAIR_SUM)
        want_type(v, op, "the result", op->results[0]->type,
                  tir_tile2(DT_F32, sent->rows, sent->cols));
    else if (op->n_results != (before > 0))
        tir_fault(v, op, "leaves columns that there are not, or not those that there are");
    else if (before > 0)
        want_type(v, op, "the result", op->results[0]->type, tir_tile2(DT_F32, sent->rows, before));
}

/* Operations on buffers in shared memory. */
static void
check_shared_types(Verifier *v, const TirOp *op)
{
    switch (op->op) {
    case TIR_STAGING_EMPTY: check_staging(v, op); return;
    case TIR_STAGING_WRITE:
        if (check_staging(v, op))
            check_fits_shared(v, op, op->args[0]->type);
        return;
    case TIR_TMA_REDUCE_ADD:
        check_access(v, op, 0, 0);
        if (check_staging(v, op) && op->tensor != NULL)
            check_fits_shared(v, op, tir_index_type(op));
        return;
    case TIR_TMA_STORE:
        check_access(v, op, 0, 1);
        if (check_staging(v, op))
            check_atom_columns(v, op, op->args[op->n_args - 1]->type);
        return;
    case TIR_COPY_ASYNC:
        check_stage(v, op);
        check_access(v, op, 1, 0);
        if (op->tensor != NULL)
            check_fits_shared(v, op, tir_index_type(op));
        return;
    case TIR_TMA_LOAD:
    case TIR_WANT:
        check_access(v, op, 0, 0);
        if (op->tensor != NULL && op->shared != NULL)
            check_fits_shared(v, op, tir_index_type(op));
        /* fall through */
    case TIR_CONSUMER_WAIT:
    case TIR_CONSUMER_RELEASE:
        if (op->shared == NULL || !tir_is_pipeline(op->shared))
            tir_fault(v, op, "there is no pipeline");
        return;
    case TIR_PRODUCER_ACQUIRE:
    case TIR_PRODUCER_COMMIT:
    case TIR_TMEM_MMA:
    case TIR_TMEM_READ:
    case TIR_TMEM_WRITE: check_tmem(v, op); return;
    case TIR_PAIR_SEND:
    case TIR_PAIR_SUM: check_pair(v, op); return;
    case TIR_SHARED_READ:
        check_stage(v, op);
        if (op->coop_k) /* of all consumers: larger than a part */
            return;
        check_fits_shared(v, op, op->results[0]->type);
        return;
    case TIR_SHARED_WRITE:
        check_stage(v, op);
        check_fits_shared(v, op, op->args[1]->type);
        return;
    default: return;
    }
}

static void
check_types(Verifier *v, const TirOp *op)
{
    switch (op->op) {
    case TIR_CONST:
    case TIR_PARAM:
    case TIR_SIZE:
    case TIR_GRID:
    case TIR_GRID_FIRST: check_leaf(v, op); return;
    case TIR_IOTA: check_iota(v, op); return;
    case TIR_EXPAND: check_expand(v, op, op->args[0], op->results[0]); return;
    case TIR_SQUEEZE: check_expand(v, op, op->results[0], op->args[0]); return;
    case TIR_BROADCAST: check_broadcast(v, op); return;
    case TIR_FOLD: check_fold(v, op, op->args[0]->type, op->results[0]->type); return;
    case TIR_UNFOLD: check_fold(v, op, op->results[0]->type, op->args[0]->type); return;
    case TIR_TRANSPOSE: check_transpose(v, op); return;
    case TIR_MMA: check_mma(v, op); return;
    case TIR_LOAD: check_access(v, op, 0, 0); return;
    case TIR_STORE:
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD: check_access(v, op, 0, 1); return;
    case TIR_DELAY: want_type(v, op, "the operand", op->args[0]->type, tir_scalar(DT_I32)); return;
    case TIR_CONSUMER:
        want_type(v, op, "the result", op->results[0]->type, tir_scalar(DT_I32));
        return;
    case TIR_COMBINE:
    case TIR_CONVERT:
    case TIR_FROM: want_type(v, op, "the result", op->results[0]->type, op->args[0]->type); return;
    case TIR_PART: check_part(v, op); return;
    case TIR_OWN:
        for (uint32_t k = 0; k < op->n_args; k++)
            want_type(v, op, "a part", op->args[k]->type, op->results[0]->type);
        return;
    case TIR_FOR: check_for(v, op); return;
    case TIR_IF: check_if(v, op); return;
    default: break;
    }
    switch (tir_axis_use(op)) {
    case AXIS_ELEMENTWISE: check_elementwise(v, op); return;
    case AXIS_REDUCES:
    case AXIS_SCANS:
    case AXIS_SORTS: check_along(v, op); return;
    case AXIS_REDUCES_PART:
        check_part_of_axis(v, op, op->args[0]->type, op->results[0]->type);
        return;
    case AXIS_SPREADS: check_part_of_axis(v, op, op->results[0]->type, op->args[0]->type); return;
    default: check_shared_types(v, op); return;
    }
}

static void
check_op(Verifier *v, const TirBlock *block, const TirOp *op)
{
    const TirOpInfo *info = tir_op_info(op->op);

    if (op->parent != block)
        tir_fault(v, op, "its parent is another block");
    if ((op->op == TIR_MMA && (op->n_args < TIR_MMA_PLAIN || op->n_args % 2 == 0)) ||
        (info->args >= 0 && op->n_args != (uint32_t)info->args) ||
        (tir_combines_tuples(op) && op->n_args < 2) ||
        (info->results >= 0 && op->n_results != (uint32_t)info->results)) {
        tir_fault(v, op, "has %" PRIu32 " operands and %" PRIu32 " results", op->n_args,
                  op->n_results);
        return;
    }
    for (uint32_t k = 0; k < op->n_results; k++)
        if (op->results[k]->def != op || op->results[k]->index != k)
            tir_fault(v, op, "result %" PRIu32 " does not point back at it", k);
    for (uint32_t k = 0; k < op->n_blocks; k++)
        if (op->blocks[k]->owner != op)
            tir_fault(v, op, "block %" PRIu32 " does not point back at it", k);
    if (op->tensor != NULL && !tir_is_access(op->op))
        tir_fault(v, op, "names a tensor, which it does not touch");
    if (check_uses(v, op)) {
        check_types(v, op);
        tir_check_use(v, op);
    }
    for (uint32_t k = 0; k < op->n_results; k++)
        check_definition(v, op, op->results[k]);
    tir_check_layouts_agree(v, op);
}

static void
check_yield(Verifier *v, const TirBlock *block, uint32_t n, TirVal *const *wanted)
{
    const TirOp *last = block->ops.n == 0 ? NULL : block->ops.at[block->ops.n - 1];

    if (last == NULL || last->op != TIR_YIELD) {
        tir_fault(v, block->owner, "a block of it does not end with 'yield'");
        return;
    }
    if (last->n_args != n) {
        tir_fault(v, last, "yields %" PRIu32 " values, expected %" PRIu32, last->n_args, n);
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (last->args[k] != NULL) {
            want_type(v, last, "an operand", last->args[k]->type, wanted[k]->type);
            tir_want_layout(v, last, "an operand", last->args[k], wanted[k]);
        }
    }
}

static void
hide(Verifier *v, const TirVal *value)
{
    if (value->id < v->fn->next_id)
        v->visible[value->id] = false;
}

/* `wanted`: the values whose types the block must yield. */
static void
check_block(Verifier *v, const TirBlock *block, uint32_t n, TirVal *const *wanted)
{
    for (uint32_t k = 0; k < block->params.n; k++) {
        const TirVal *param = block->params.at[k];
        if (param->def != NULL || param->block != block || param->index != k)
            tir_fault(v, block->owner, "argument %" PRIu32 " does not point back at its block", k);
        check_definition(v, block->owner, param);
    }
    for (uint32_t k = 0; k < block->ops.n; k++) {
        check_op(v, block, block->ops.at[k]);
        if (block->ops.at[k]->op == TIR_YIELD && (k + 1 != block->ops.n || block->owner == NULL))
            tir_fault(v, block->ops.at[k], "stands elsewhere than at the end of a block");
    }
    if (block->owner != NULL)
        check_yield(v, block, n, wanted);
    for (uint32_t k = 0; k < block->params.n; k++)
        hide(v, block->params.at[k]);
    for (uint32_t k = 0; k < block->ops.n; k++)
        for (uint32_t j = 0; j < block->ops.at[k]->n_results; j++)
            hide(v, block->ops.at[k]->results[j]);
}

/* ---- kernels ---- */

static Verifier
verifier_of(const TirFn *fn, Buf *out)
{
    return (Verifier){.fn = fn,
                      .out = out,
                      .visible = arena_array(out->arena, bool, fn->next_id + 1),
                      .defined = arena_array(out->arena, bool, fn->next_id + 1),
                      .ok = true};
}

/* What makes one tuple of scalars of two. */
static bool
check_combine(const TirFn *fn, Buf *out)
{
    Verifier v = verifier_of(fn, out);
    const TirBlock *body = fn->body;

    for (uint32_t k = 0; k < body->params.n; k++)
        check_definition(&v, NULL, body->params.at[k]);
    for (uint32_t k = 0; k < body->ops.n; k++)
        check_op(&v, body, body->ops.at[k]);
    tir_check_combine(&v);
    return v.ok;
}

bool
tir_verify_fn(const TirFn *fn, Buf *out)
{
    Verifier v = verifier_of(fn, out);

    for (uint32_t k = 0; k < fn->combines.n; k++)
        v.ok = check_combine(fn->combines.at[k], out) && v.ok;
    tir_check_interface(&v);
    if (fn->body->owner != NULL || fn->body->params.n != 0)
        tir_fault(&v, NULL, "the body has an owner or arguments");
    for (uint32_t k = 0; k < tir_program_count(fn); k++) {
        if (tir_program_at(fn, k) != NULL)
            check_block(&v, tir_program_at(fn, k), 0, NULL);
    }
    if (fn->plan != NULL && fn->plan->wants != NULL)
        check_block(&v, fn->plan->wants, 0, NULL);
    if (v.ok) { /* the rest needs a program of the right form */
        tir_check_copied(&v);
        tir_check_plan(&v);
    }
    if (v.ok) /* .. and this a plan that has consumers */
        tir_check_memory(&v);
    return v.ok;
}

bool
tir_verify(const TirModule *module, Buf *out)
{
    bool ok = true;

    for (uint32_t k = 0; k < module->fns.n; k++) {
        ok = tir_verify_fn(module->fns.at[k], out) && ok;
        for (uint32_t j = 0; j < k; j++) {
            if (strcmp(module->fns.at[j]->name, module->fns.at[k]->name) == 0) {
                buf_printf(out, "two kernels are called '%s'\n", module->fns.at[k]->name);
                ok = false;
            }
        }
    }
    return ok;
}
