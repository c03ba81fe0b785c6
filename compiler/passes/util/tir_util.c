/* tir_util.c - small operations on tile IR that several passes need. */
#include "compiler/passes/util/tir_util.h"
#include "compiler/passes/util/tir_inputs.h"

enum { MOST_STEPS = 256 }; /* definitions followed: a bound on work; behind it, nothing is known */

#include "compiler/ir/isa.h"
#include "compiler/ir/tir_walk.h"

void
scalar_map_add(ScalarMap *map, Arena *arena, TirVal *from, TirVal *to)
{
    vec_push(arena, &map->from, from);
    vec_push(arena, &map->to, to);
}

TirVal *
clone_scalar(TirBuilder *b, ScalarMap *map, TirVal *value, const TirBlock *body)
{
    for (uint32_t i = 0; i < map->from.n; i++) {
        if (map->from.at[i] == value)
            return map->to.at[i];
    }
    if (value->block != body || value->def == NULL)
        return value;
    TirOp *def = value->def;
    TirVal **args = arena_array(b->fn->arena, TirVal *, def->n_args + 1);
    for (uint32_t k = 0; k < def->n_args; k++)
        args[k] = clone_scalar(b, map, def->args[k], body);
    TirOp *copy = tir_op_new(b, def->op, def->n_args, args, 1, &value->type);
    copy->integer = def->integer;
    copy->number = def->number;
    copy->span = def->span;
    copy->results[0]->name = value->name;
    scalar_map_add(map, b->fn->arena, value, copy->results[0]);
    return copy->results[0];
}

void
op_set_parent(TirOp *op, TirBlock *parent)
{
    op->parent = parent;
    for (uint32_t k = 0; k < op->n_results; k++)
        op->results[k]->block = parent;
}

void
op_add_arg(Arena *arena, TirOp *op, TirVal *value)
{
    TirVal **args = arena_array(arena, TirVal *, op->n_args + 1);
    for (uint32_t k = 0; k < op->n_args; k++)
        args[k] = op->args[k];
    args[op->n_args++] = value;
    op->args = args;
}

bool
op_uses_deep(const TirOp *op, const TirVal *value)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (op->args[k] == value)
            return true;
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++) {
            if (op_uses_deep(op->blocks[k]->ops.at[i], value))
                return true;
        }
    }
    return false;
}

LayoutPart
op_part(const TirOp *op)
{
    const TirIndex *part = &op->index[0];

    if (!tir_has_part(op))
        return (LayoutPart){op->axis, 1, WHOLE_AXIS};
    return (LayoutPart){op->axis, part->inner, part->length};
}

uint32_t
loop_first_initial(const TirOp *loop)
{
    return loop->n_segments > 1 ? 1 + loop->n_segments : 2;
}

bool
tir_is_loaded(Arena *arena, const TirVal *value)
{
    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        if (in.value->def != NULL && in.value->def->op == TIR_LOAD)
            return true;
        tir_inputs_follow(&in);
    }
    return false;
}

uint32_t
tir_axes_of(Arena *arena, const TirVal *value)
{
    uint32_t axes = 0;

    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        if (in.value->def != NULL && in.value->def->op == TIR_GRID)
            axes |= 1u << in.value->def->integer;
        tir_inputs_follow(&in);
    }
    return axes;
}

uint32_t
tir_axes_of_loads(Arena *arena, const TirVal *value)
{
    uint32_t axes = 0;

    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        if (in.value->def != NULL && in.value->def->op == TIR_LOAD)
            axes |= tir_axes_of(arena, in.value);
        else
            tir_inputs_follow(&in);
    }
    return axes;
}

TirVal *
loop_add_carried(TirFn *fn, TirOp *loop, TirVal *initial, const char *name)
{
    TirVal *param = tir_block_param(fn, loop->blocks[0], initial->type, name);
    TirVal *result = arena_new(fn->arena, TirVal);
    TirVal **results = arena_array(fn->arena, TirVal *, loop->n_results + 1);

    for (uint32_t k = 0; k < loop->n_results; k++)
        results[k] = loop->results[k];
    *result = (TirVal){.id = fn->next_id++,
                       .name = name,
                       .type = initial->type,
                       .def = loop,
                       .block = loop->parent,
                       .index = loop->n_results};
    results[loop->n_results++] = result;
    loop->results = results;
    op_add_arg(fn->arena, loop, initial);
    return param;
}

void
tir_copy_place(TirOp *op, const TirOp *from)
{
    op->tensor = from->tensor;
    op->limits = from->limits;
    op->n_limits = from->n_limits;
    for (uint32_t d = 0; d < TENSOR_MAX_RANK; d++)
        op->index[d] = from->index[d];
}

void
tir_write_anew(TirBlock *block, TirWriteOp *write, void *user)
{
    TirOp **ops = block->ops.at;
    uint32_t n = block->ops.n;
    bool goes_on = true;

    block->ops.at = NULL;
    block->ops.n = block->ops.cap = 0;
    for (uint32_t i = 0; i < n && goes_on; i++)
        goes_on = write(user, block, ops[i]);
}

typedef struct Rewriter {
    TirFn *fn;
    TirRewrite *rewrite;
    void *user;
    uint32_t n;       /* values before */
    TirVal **instead; /* of those, by id: what stands for it, NULL: itself */
    bool changed;
} Rewriter;

static bool
rewrite_op(void *user, TirBlock *block, TirOp *op)
{
    Rewriter *r = user;
    TirBuilder b = {.fn = r->fn, .block = block, .at = -1, .span = op->span};

    for (uint32_t k = 0; k < op->n_args; k++) { /* values are defined before their uses */
        if (op->args[k]->id < r->n && r->instead[op->args[k]->id] != NULL)
            op->args[k] = r->instead[op->args[k]->id];
    }
    for (uint32_t k = 0; k < op->n_blocks; k++)
        tir_write_anew(op->blocks[k], rewrite_op, r);
    TirVal *result = op->n_results == 1 ? r->rewrite(r->user, &b, op) : NULL;
    if (result != NULL) {
        result->name = op->results[0]->name;
        r->instead[op->results[0]->id] = result;
        r->changed = true;
    }
    vec_push(r->fn->arena, &block->ops, op);
    return true;
}

bool
tir_rewrite(Arena *arena, TirFn *fn, TirBlock *block, TirRewrite *rewrite, void *user)
{
    Rewriter r = {.fn = fn, .rewrite = rewrite, .user = user, .n = fn->next_id};

    r.instead = arena_array(arena, TirVal *, r.n + 1);
    tir_write_anew(block, rewrite_op, &r);
    return r.changed;
}

TirOp *
block_yield(const TirBlock *block)
{
    return block->ops.at[block->ops.n - 1];
}

static void
sink_one(TirFn *fn, TirBlock *block, uint32_t at)
{
    TirOp *op = block->ops.at[at];
    uint32_t to = at;

    (void)fn;
    while (to + 1 < block->ops.n && !op_uses_deep(block->ops.at[to + 1], op->results[0]) &&
           block->ops.at[to + 1]->op != TIR_YIELD) {
        if (op->op == TIR_LOAD && op_writes_tensor(block->ops.at[to + 1], op->tensor))
            break;
        to++;
    }
    for (uint32_t i = at; i < to; i++)
        block->ops.at[i] = block->ops.at[i + 1];
    block->ops.at[to] = op;
}

void
sink_loads(TirFn *fn, TirBlock *block)
{
    /* Backwards, so that a transpose has moved before the load it reads. */
    for (uint32_t i = block->ops.n; i-- > 0;) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            sink_loads(fn, op->blocks[k]);
        if (op->op == TIR_TRANSPOSE || (op->op == TIR_LOAD && block->owner != NULL))
            sink_one(fn, block, i);
    }
}

uint32_t
count_uses_in(const TirBlock *block, const TirVal *value)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++)
            n += op->args[k] == value;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            n += count_uses_in(op->blocks[k], value);
    }
    return n;
}

bool
tir_is_added_to(const TirBlock *body, const TirVal *result)
{
    uint32_t readers = 0, products = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            readers += op->args[k] == result;
            products += op->args[k] == result && op->op == TIR_MMA && k == 2;
        }
    }
    return readers == 1 && products == 1;
}

bool
has_own_mma(const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        if (block->ops.at[i]->op == TIR_MMA)
            return true;
    }
    return false;
}

bool
has_operation(const TirBlock *block, TirOpcode sought)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (walk.op->op == sought)
            return true;
    }
    return false;
}

bool
op_writes_deep(const TirOp *op)
{
    for (TirWalk walk = tir_walk_op(op); tir_walk_next(&walk);) {
        if (tir_writes(walk.op))
            return true;
    }
    return false;
}

bool
feeds_mmas(const TirBlock *block, const TirVal *value, uint32_t first)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (op->args[k] != value)
                continue;
            if (op->op == TIR_MMA && k - first < 2)
                return true;
            /* read in that block, or in one in it */
            if (op->op == TIR_TRANSPOSE && feeds_mmas(op->parent, op->results[0], first))
                return true;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (feeds_mmas(op->blocks[k], value, first))
                return true;
        }
    }
    return false;
}

bool
tir_is_inside(const TirBlock *block, const TirBlock *around)
{
    while (block != NULL && block != around)
        block = block->owner == NULL ? NULL : block->owner->parent;
    return block != NULL;
}

uint32_t
count_uses(const TirFn *fn, const TirVal *value)
{
    return count_uses_in(fn->body, value);
}

/* The factor by which grid axis `axis` is multiplied, 1: itself; 0: the value is something else. */
static int64_t
times_axis(const TirVal *value, uint32_t axis)
{
    const TirOp *op = value->def;

    if (op != NULL && op->op == TIR_GRID && op->integer == (int64_t)axis)
        return 1;
    for (uint32_t k = 0; op != NULL && op->op == TIR_MUL && k < 2; k++) {
        const TirOp *x = op->args[k]->def, *by = op->args[1 - k]->def;
        if (x != NULL && by != NULL && x->op == TIR_GRID && x->integer == (int64_t)axis &&
            by->op == TIR_CONST)
            return by->integer;
    }
    return 0;
}

/* Whether an axis counts the elements of size `size`, `by` at a time: past its end, index * by is
 * at least the size. */
static bool
counts_size(const HostExpr *extent, uint32_t size, int64_t by)
{
    if (by == 1)
        return extent->kind == HOST_SIZE && extent->index == size;
    return by > 1 && extent->kind == HOST_CDIV && extent->a->kind == HOST_SIZE &&
           extent->a->index == size && extent->b->kind == HOST_INT && extent->b->integer == by;
}

/* Whether along dimension `dim` of its tile, which goes `by` at a time, a write ends where the axis
 * does. */
static bool
is_limited_by(const TirOp *write, const HostExpr *extent, uint32_t dim, int64_t by)
{
    for (uint32_t k = 0; k < write->n_limits; k++) {
        const TirOp *count = tir_limit_count(write, k)->def;
        const TirOp *size = count != NULL && count->op == TIR_SUB ? count->args[0]->def : NULL;
        if (size != NULL && size->op == TIR_SIZE && write->limits[k].axis == dim &&
            write->limits[k].part.rows == 0 && counts_size(extent, (uint32_t)size->integer, by))
            return true;
    }
    return false;
}

bool
writes_nothing_past(const TirFn *fn, uint32_t axis, const TirOp *write)
{
    const HostExpr *extent = fn->grid.at[axis].extent;

    for (TirDims d = tir_dims(write); tir_dims_next(&d);) {
        const TensorDim *dim = &write->tensor->dim[d.dim];
        int64_t by = d.at == NULL ? 0 : times_axis(d.at, axis);
        if (by == 0 || (d.range && (d.index->rows > 0 || d.length > by)))
            continue;
        if (dim->constant == 0 && counts_size(extent, dim->size, by))
            return true;
        if (d.range && is_limited_by(write, extent, d.axis, by))
            return true;
    }
    return false;
}

bool
has_pack(const TirOp *access)
{
    bool has = false;

    for (TirDims d = tir_dims(access); tir_dims_next(&d);)
        has = has || d.index->rows > 0 || d.places;
    return has;
}

bool
box_begins_aligned(const TirOp *access)
{
    TirDims last = tir_last_dim(access);

    return last.at == NULL ||
           tir_factor(last.at) * dtype_bits(access->tensor->dtype) / 8 % BOX_UNIT == 0;
}

uint32_t
box_ended_dimension(const TirOp *access)
{
    TirDims d = tir_dims(access);

    while (access->n_limits > 0 && tir_dims_next(&d) && d.axis != access->limits[0].axis)
        continue;
    return access->n_limits > 0 ? d.dim : access->tensor->rank;
}

static bool
is_one(const TirVal *value)
{
    return value->def != NULL && value->def->op == TIR_CONST && value->def->integer == 1;
}

/* `parts`: x % 1 is known to be 0, too, as the number of a tile in a page that is one tile is. */
static bool
not_negative(const TirVal *value, bool parts, uint32_t *steps)
{
    const TirOp *def = value->def;

    if (++*steps > MOST_STEPS)
        return false;
    if (def == NULL) { /* the induction variable of a loop */
        const TirOp *loop = value->block->owner;
        return loop != NULL && value == value->block->params.at[0] &&
               not_negative(loop->args[0], parts, steps);
    }
    switch (def->op) {
    case TIR_CONST: return def->integer >= 0;
    case TIR_GRID:
    case TIR_GRID_FIRST:
    case TIR_CONSUMER:
    case TIR_SIZE: return true;
    case TIR_ADD:
    case TIR_MUL:
    case TIR_DIV:
    case TIR_MIN:
        return not_negative(def->args[0], parts, steps) && not_negative(def->args[1], parts, steps);
    case TIR_REM: /* the sign of what is divided, or 0 */
        return not_negative(def->args[0], parts, steps) || (parts && is_one(def->args[1]));
    case TIR_MAX:
    case TIR_AND:
        return not_negative(def->args[0], parts, steps) || not_negative(def->args[1], parts, steps);
    default: return false;
    }
}

bool
is_not_negative(const TirVal *value)
{
    uint32_t steps = 0;

    return not_negative(value, false, &steps);
}

bool
box_may_begin_before(const TirOp *access)
{
    uint32_t ended = box_ended_dimension(access), steps = 0;
    const TirVal *start = access->n_limits > 0 ? tir_dim(access, ended).at : NULL;

    return start != NULL && !not_negative(start, true, &steps);
}

bool
box_may_end(const TirOp *access, uint32_t most_rank)
{
    uint32_t d = box_ended_dimension(access), last = access->tensor->rank - 1;

    return access->n_limits == 0 ||
           (access->n_limits == 1 && access->limits[0].part.rows == 0 &&
            access->index[d].rows == 0 && d < last && access->tensor->rank < most_rank);
}

bool
box_may_be_written(const TirOp *write)
{
    uint32_t ended = box_ended_dimension(write);

    if (tir_has_places(write))
        return false;
    for (TirDims d = tir_dims(write); tir_dims_next(&d);) {
        /* there nothing is written in front of the tensor */
        if (d.at != NULL && !is_not_negative(d.at) && d.dim != ended)
            return false;
    }
    return box_begins_aligned(write);
}

bool
fits_vector_box(const TirOp *load)
{
    const TirTensor *tensor = load->tensor;
    TirDims last = tir_last_dim(load);
    int32_t bytes = last.length * (int32_t)dtype_bits(tensor->dtype) / 8;

    return load->results[0]->type.rank == 1 && load->n_limits == 0 && tensor->rank <= BOX_RANK &&
           tensor->align % BOX_UNIT == 0 && tir_is_contiguous(load) && last.range &&
           last.length <= BOX_MOST && bytes % BOX_UNIT == 0 && box_begins_aligned(load);
}

int64_t
accumulator_elements(const TirBlock *block)
{
    int64_t carried = 0, largest = 0, nested = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == TIR_FOR) {
            int64_t inside = accumulator_elements(op->blocks[0]);
            for (uint32_t k = 0; k < op->n_results; k++) {
                if (op->results[k]->type.rank == 2)
                    inside += tir_type_elements(op->results[k]->type);
            }
            nested = inside > nested ? inside : nested;
        }
        if (op->op == TIR_MMA) {
            /* An accumulator that comes from outside the block is a carried one. */
            int64_t n = tir_type_elements(op->results[0]->type);
            bool is_zero = op->args[2]->def != NULL && op->args[2]->def->op == TIR_CONST;
            if (is_zero && n > largest)
                largest = n;
        }
    }
    carried = largest > nested ? largest : nested;
    return carried + (nested > 0 && largest > 0 ? largest : 0);
}

bool
tir_is_loaded_ahead(const TirOp *load)
{
    const TirBlock *body = load->parent;

    return body->owner != NULL && body->owner->op == TIR_FOR && load->results[0]->type.rank > 0 &&
           op_uses_deep(block_yield(body), load->results[0]) &&
           count_uses_in(body, load->results[0]) == 1;
}

bool
tir_is_first_of_loop(const TirOp *load)
{
    const TirBlock *block = load->parent;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *loop = block->ops.at[i];
        for (uint32_t k = 0; loop->op == TIR_FOR && k < loop->n_args; k++)
            if (loop->args[k] == load->results[0])
                return true;
    }
    return false;
}

bool
op_writes_tensor(const TirOp *op, const TirTensor *tensor)
{
    bool writes = tir_writes(op) && op->tensor == tensor;

    for (uint32_t k = 0; k < op->n_blocks && !writes; k++)
        writes = writes_tensor(op->blocks[k], tensor);
    return writes;
}

bool
writes_tensor(const TirBlock *block, const TirTensor *tensor)
{
    for (uint32_t i = 0; i < block->ops.n && tensor->mode != TENSOR_IN; i++) {
        if (op_writes_tensor(block->ops.at[i], tensor))
            return true;
    }
    return false;
}

uint32_t
count_mmas(const TirBlock *block)
{
    uint32_t n = 0;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);)
        n += walk.op->op == TIR_MMA;
    return n;
}

TirOp *
barrier_before(const TirFn *fn, const TirOp *op)
{
    TirOp *barrier = arena_new(fn->arena, TirOp);

    barrier->op = TIR_BARRIER;
    barrier->parent = op->parent;
    barrier->span = op->span;
    return barrier;
}

const TirOp *
branch_with_mmas(const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; op->op == TIR_IF && k < op->n_blocks; k++) {
            if (count_mmas(op->blocks[k]) > 0)
                return op;
        }
    }
    return NULL;
}

static int64_t
factor_of(const TirVal *value, uint32_t *steps)
{
    const TirOp *def = value->def;
    int64_t a, b, factor = 1;

    if (def == NULL || ++*steps > MOST_STEPS)
        return 1;
    switch (def->op) {
    case TIR_CONST:
        while (factor < 64 && def->integer % (factor * 2) == 0)
            factor *= 2;
        return factor;
    case TIR_ADD:
    case TIR_SUB:
        a = factor_of(def->args[0], steps);
        b = factor_of(def->args[1], steps);
        return a < b ? a : b;
    case TIR_AND: /* the bits that either has cleared are clear */
        a = factor_of(def->args[0], steps);
        b = factor_of(def->args[1], steps);
        return a > b ? a : b;
    case TIR_MUL:
        factor = factor_of(def->args[0], steps) * factor_of(def->args[1], steps);
        return factor < 64 ? factor : 64;
    case TIR_DIV: { /* of what it divides, nothing is left */
        const TirOp *by = def->args[1]->def;
        a = factor_of(def->args[0], steps);
        return by != NULL && by->op == TIR_CONST && by->integer > 0 && a % by->integer == 0
                   ? a / by->integer
                   : 1;
    }
    default: return 1;
    }
}

int64_t
tir_factor(const TirVal *value)
{
    uint32_t steps = 0;

    return factor_of(value, &steps);
}

/* ---- what launches require ---- */

bool
tir_requires_multiple(const TirFn *fn, const HostExpr *size, int64_t of)
{
    for (uint32_t k = 0; k < fn->requires.n; k++) {
        const HostExpr *c = fn->requires.at[k].condition, *rest = c->a;
        if (c->kind == HOST_EQ && c->b->kind == HOST_INT && c->b->integer == 0 &&
            rest->kind == HOST_REM && rest->b->kind == HOST_INT && rest->b->integer > 0 &&
            rest->b->integer % of == 0 && host_equal(rest->a, size))
            return true;
    }
    return false;
}

/* Whether an extent is cdiv(C, n), of a C that is a multiple of n. */
static bool
is_whole(const TirFn *fn, const HostExpr *extent)
{
    return extent->kind == HOST_CDIV && extent->a->kind == HOST_SIZE &&
           extent->b->kind == HOST_INT && extent->b->integer > 0 &&
           tir_requires_multiple(fn, extent->a, extent->b->integer);
}

bool
tir_extent_is(const TirFn *fn, const HostExpr *extent, uint32_t size)
{
    if (extent->kind == HOST_SIZE)
        return extent->index == size;
    for (uint32_t k = 0; k < fn->requires.n && is_whole(fn, extent); k++) {
        const HostExpr *c = fn->requires.at[k].condition, *is = c->b;
        if (c->kind == HOST_EQ && c->a->kind == HOST_SIZE && c->a->index == size &&
            (is->kind == HOST_DIV || is->kind == HOST_CDIV) && host_equal(is->a, extent->a) &&
            host_equal(is->b, extent->b))
            return true;
    }
    return false;
}

bool
tir_range_is_whole(const TirFn *fn, uint32_t size, const TirVal *start, int32_t length)
{
    const TirOp *at = start == NULL ? NULL : start->def;
    const TirOp *grid = at == NULL || at->op != TIR_MUL ? NULL : at->args[0]->def;
    const TirOp *step = grid == NULL || grid->op != TIR_GRID ? NULL : at->args[1]->def;

    if (step == NULL || step->op != TIR_CONST || step->integer != length)
        return false;
    const HostExpr *extent = fn->grid.at[grid->integer].extent;
    return is_whole(fn, extent) && extent->a->index == size && extent->b->integer == length;
}
