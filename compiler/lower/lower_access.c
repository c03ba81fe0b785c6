/* lower_access.c - the addresses of a tile in global memory, and predicates that its elements
 * exist.
 *
 * Elements outside the tensor load as zero and are not stored, and so are elements past a limit
 * (TirLimit), wherever the tensor ends.  A scalar index outside its dimension puts the whole tile
 * outside.
 */
#include "compiler/lower/lower_access.h"

#include "compiler/passes/util/tir_util.h"

/* ---- addresses ---- */

static LirReg
param_b64(Lowering *lo, const char *symbol)
{
    LirOperand at = {.kind = LIR_ADDRESS, .symbol = symbol};
    return lir_op1(&lo->b, LIR_LD_PARAM_B64, LIR_B64, at);
}

LirReg
access_pointer(Lowering *lo, const TirTensor *tensor)
{
    LirReg pointer = param_b64(lo,
                               arena_printf(lo->out->arena, "%s_t_%s", lo->fn->name, tensor->name));
    return lir_op1(&lo->b, LIR_CVTA_GLOBAL, LIR_B64, lir_reg(pointer));
}

LirReg
access_stride(Lowering *lo, const TirTensor *tensor, uint32_t dim)
{
    int32_t bytes = (int32_t)dtype_bits(tensor->dtype) / 8, shift = 0;
    LirReg stride = param_b64(
        lo, arena_printf(lo->out->arena, "%s_s_%s_%u", lo->fn->name, tensor->name, dim));

    while (1 << shift < bytes)
        shift++;
    return shift == 0 ? stride
                      : lir_op2(&lo->b, LIR_SHL_B64, LIR_B64, lir_reg(stride), lir_int(shift));
}

Elem
lower_dim_size(Lowering *lo, const TirTensor *tensor, uint32_t dim)
{
    if (tensor->dim[dim].constant != 0)
        return elem_int(tensor->dim[dim].constant);
    LirOperand at = {.kind = LIR_ADDRESS,
                     .symbol = arena_printf(lo->out->arena, "%s_n_%s", lo->fn->name,
                                            lo->fn->sizes.at[tensor->dim[dim].size].name)};
    return elem_reg(lir_op1(&lo->b, LIR_LD_PARAM_B32, LIR_B32, at));
}

/* A predicate: 0 <= index < size. */
static LirReg
access_in_range(Lowering *lo, Elem index, Elem size)
{
    LirReg at = lower_elem_reg(lo, index, LIR_B32);
    return lir_op2(&lo->b, LIR_SETP_LT_U32, LIR_PRED, lir_reg(at), lower_operand(lo, size));
}

LirReg
access_both(Lowering *lo, LirReg a, LirReg b)
{
    if (a == 0 || b == 0 || a == b)
        return a == 0 ? b : a;
    return lir_op2(&lo->b, LIR_AND_PRED, LIR_PRED, lir_reg(a), lir_reg(b));
}

/* Whether a scalar index is a grid axis whose extent is the size of this dimension, or equal to it
 * by what launches require. */
static bool
known_inside(const Lowering *lo, const TirTensor *tensor, uint32_t dim, const TirVal *index)
{
    if (index->def == NULL)
        return false;
    if (index->def->op == TIR_CONST)
        return tensor->dim[dim].constant > 0 && index->def->integer >= 0 &&
               index->def->integer < tensor->dim[dim].constant;
    if (index->def->op != TIR_GRID)
        return false;
    if (lo->role != NULL && index->def->integer == (int64_t)lo->fn->plan->tiles.axis)
        return false; /* a block may have consumers past the end, or in front of the axis */
    const HostExpr *extent = lo->fn->grid.at[index->def->integer].extent;
    if (tensor->dim[dim].constant > 0)
        return extent->kind == HOST_INT && extent->integer <= tensor->dim[dim].constant;
    return tir_extent_is(lo->fn, extent, tensor->dim[dim].size);
}

/* Loop-invariant terms come first in the sum, so that their sum can be hoisted. */
typedef struct Terms {
    Term at[TENSOR_MAX_RANK];
    uint32_t n;
} Terms;

Term
access_term(Lowering *lo, Elem index, LirReg stride, int32_t bytes)
{
    LirReg reg = lower_elem_reg(lo, index, LIR_B32);

    if (stride != 0)
        reg = lir_op1(&lo->b, LIR_CVT_S64_S32, LIR_B64, lir_reg(reg));
    return (Term){reg, stride, bytes};
}

static uint32_t
depth_of(const Lowering *lo, const Term *term)
{
    uint32_t index = lo->out->regs.at[term->index].depth;
    uint32_t stride = lo->out->regs.at[term->stride].depth;
    return index > stride ? index : stride;
}

static void
add_term(Lowering *lo, Terms *terms, Term term)
{
    uint32_t depth = depth_of(lo, &term), k = terms->n++;
    while (k > 0 && depth_of(lo, &terms->at[k - 1]) > depth) {
        terms->at[k] = terms->at[k - 1];
        k--;
    }
    terms->at[k] = term;
}

bool
lower_keeps_bounds(const Lowering *lo)
{
    return lo->role != NULL && lo->role->kind == ROLE_CONSUMER && lo->fn->plan->tmem_columns > 0 &&
           tir_consumers(lo->fn->plan) > 1 && tir_length_axis(lo->fn) < lo->fn->grid.n;
}

/* ptxas 12.8 makes of an index that is shifted, widened and multiplied one shift of what the index
 * is made of, and keeps that over the loop beside the index: where registers are short, one that
 * has been widened already is used; 0: it has not. */
static LirReg
made_wide(const Lowering *lo, LirReg index)
{
    return lower_keeps_bounds(lo) ? lir_made1(&lo->b, LIR_CVT_S64_S32, lir_reg(index)) : 0;
}

LirReg
access_plus(Lowering *lo, LirReg sum, Term term)
{
    LirOperand by = term.stride != 0 ? lir_reg(term.stride) : lir_int(term.bytes);
    LirReg wide = term.stride == 0 && sum != 0 ? made_wide(lo, term.index) : 0;

    if (wide != 0)
        return lir_op3(&lo->b, LIR_MAD_S64, LIR_B64, lir_reg(wide), by, lir_reg(sum));
    if (sum == 0)
        return lir_op2(&lo->b, term.stride != 0 ? LIR_MUL_S64 : LIR_MUL_WIDE, LIR_B64,
                       lir_reg(term.index), by);
    return lir_op3(&lo->b, term.stride != 0 ? LIR_MAD_S64 : LIR_MAD_WIDE, LIR_B64,
                   lir_reg(term.index), by, lir_reg(sum));
}

/* Makes an axis one of a pack, with a first part or one more. */
static void
add_part(Axis *axis, const Axis *alone, TirIndex index)
{
    if (axis->n_parts == 0) {
        *axis = (Axis){.there = true,
                       .dim = UINT32_MAX - 1,
                       .length = index.rows,
                       .full = true,
                       .counts_up = true,
                       .not_negative = true};
    }
    axis->part[axis->n_parts++] = (Part){.index = index,
                                         .start = alone->start,
                                         .stride = alone->stride,
                                         .size = alone->size,
                                         .full = alone->full,
                                         .not_negative = alone->not_negative};
    axis->full = axis->full && alone->full;
    axis->counts_up = axis->counts_up && alone->counts_up;
    axis->not_negative = axis->not_negative && alone->not_negative;
}

/* How far element `row` of a pack is behind a part's start. */
static Elem
part_place(Lowering *lo, Elem row, const Part *part)
{
    Elem at = lower_part(lo, row, &part->index);

    return part->index.step > 1 ? lower_mul_const(lo, at, part->index.step) : at;
}

LirReg
access_pack_offset(Lowering *lo, const Axis *axis, Elem row, int32_t bytes)
{
    LirReg sum = 0;

    for (uint32_t k = 0; k < axis->n_parts; k++) {
        const Part *part = &axis->part[k];
        if (part->index.length > 1)
            sum = access_plus(lo, sum,
                              access_term(lo, part_place(lo, row, part), part->stride, bytes));
    }
    return sum;
}

/* A predicate that element `row` of a pack lies inside the tensor; 0: it does. */
static LirReg
pack_guard(Lowering *lo, const Axis *axis, Elem row)
{
    LirReg guard = 0;

    for (uint32_t k = 0; k < axis->n_parts; k++) {
        const Part *part = &axis->part[k];
        if (part->full)
            continue;
        Elem start = part->start == NULL ? elem_int(0) : lower_elem(lo, part->start, 0);
        Elem index = lower_add(lo, start, part_place(lo, row, part));
        guard = access_both(lo, guard, access_in_range(lo, index, part->size));
    }
    return guard;
}

/* The limits of an access, each on the axis of the tile that it is along. */
static void
add_limits(Access *access)
{
    const TirOp *op = access->op;
    uint32_t rank = tir_index_type(op).rank;

    for (uint32_t k = 0; k < op->n_limits; k++) {
        Lowering *lo = access->lo;
        Axis *axis = rank == 2 && op->limits[k].axis == 0 ? &access->row : &access->col;
        if (axis->limits == NULL)
            axis->limits = arena_array(lo->arena, Limit, op->n_limits);
        axis->limits[axis->n_limits++] = (Limit){
            .part = op->limits[k].part, .count = lower_elem(lo, tir_limit_count(op, k), 0)};
    }
}

/* A predicate that `count` neighbours from `place` on are before all limits of an axis; 0: they
 * always are. */
static LirReg
limit_guard(Lowering *lo, const Axis *axis, Elem lane, int32_t constant, int32_t count)
{
    LirReg guard = 0;

    for (uint32_t k = 0; k < axis->n_limits; k++) {
        const Limit *limit = &axis->limits[k];
        LirReg end = lower_elem_reg(lo, limit->count, LIR_B32);
        if (limit->part.rows > 0) {
            /* a vector lies along places of one part or of several */
            int32_t inner = limit->part.inner, step = inner % count == 0 ? count : 1;
            for (int32_t e = 0; e < count; e += step) {
                Elem at = lower_part(lo, lower_add(lo, lane, elem_int(constant + e)), &limit->part);
                LirReg part = lower_elem_reg(lo, at, LIR_B32);
                guard = access_both(
                    lo, guard,
                    lir_op2(&lo->b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(part), lir_reg(end)));
            }
            continue;
        }
        /* count > lane + constant: one comparison with a constant an element */
        LirReg rest = end;
        if (lane.kind != ELEM_INT || lane.integer != 0)
            rest = lir_op2(&lo->b, LIR_SUB_S32, LIR_B32, lir_reg(end),
                           lir_reg(lower_elem_reg(lo, lane, LIR_B32)));
        guard = access_both(
            lo, guard,
            lir_op2(&lo->b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(rest), lir_int(constant + count)));
    }
    return guard;
}

bool
access_is_cut(const Axis *axis)
{
    return axis->n_limits > 0;
}

bool
access_is_cut_by_parts(const Axis *axis)
{
    for (uint32_t k = 0; k < axis->n_limits; k++) {
        if (axis->limits[k].part.rows > 0)
            return true;
    }
    return false;
}

/* ---- places ---- */

/* Along its dimensions of the tile there is no stride, as along a pack, and nothing that ends. */
static void
add_places(Access *access, const TirDims *d, LirReg stride)
{
    const Axis whole = {.full = true, .not_negative = true, .counts_up = true};

    access->list[access->n_lists++] = (PlaceList){
        .places = d->at,
        .axis = d->axis,
        .stride = stride,
        .size = lower_dim_size(access->lo, access->tensor, d->dim)};
    for (uint32_t k = 0; k < d->at->type.rank; k++) {
        if (access->col.there)
            access->row = access->col;
        access->col = (Axis){0};
        add_part(&access->col, &whole,
                 (TirIndex){.length = 1, .inner = 1, .rows = d->at->type.dim[k]});
    }
}

static Elem
place_of(Access *access, PlaceList *list, const Layout *layout, int32_t reg)
{
    Lowering *lo = access->lo;
    const Layout *from = list->places->layout;

    if (list->map == NULL) {
        if (from->rank < layout->rank)
            from = layout_expand(lo->arena, from, 1 - list->axis);
        list->map = layout_register_map(lo->arena, from, layout);
    }
    return lower_elem(lo, list->places, list->map[reg]);
}

LirReg
access_place(Access *access, const Layout *layout, int32_t reg, LirReg base)
{
    for (uint32_t k = 0; k < access->n_lists; k++) {
        PlaceList *list = &access->list[k];
        Elem place = place_of(access, list, layout, reg);
        base = access_plus(access->lo, base,
                           access_term(access->lo, place, list->stride, access->bytes));
    }
    return base;
}

LirReg
access_place_guard(Access *access, const Layout *layout, int32_t reg)
{
    LirReg guard = 0;

    for (uint32_t k = 0; k < access->n_lists; k++) {
        PlaceList *list = &access->list[k];
        Elem place = place_of(access, list, layout, reg);
        guard = access_both(access->lo, guard, access_in_range(access->lo, place, list->size));
    }
    return guard;
}

Access
access_begin(Lowering *lo, TirOp *op)
{
    Access access = {.lo = lo, .op = op, .tensor = op->tensor};
    TirTensor *tensor = op->tensor;
    Terms terms = {0};

    access.bytes = (int32_t)dtype_bits(tensor->dtype) / 8;
    access.base = access_pointer(lo, tensor);
    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        LirReg stride = d.dim + 1 == tensor->rank ? 0 : access_stride(lo, tensor, d.dim);
        if (d.single) {
            Elem index = lower_elem(lo, d.at, 0);
            if (!known_inside(lo, tensor, d.dim, d.at))
                access.inside = access_both(
                    lo, access.inside,
                    access_in_range(lo, index, lower_dim_size(lo, tensor, d.dim)));
            if (index.kind != ELEM_INT || index.integer != 0)
                add_term(lo, &terms, access_term(lo, index, stride, access.bytes));
            continue;
        }
        if (d.places) {
            add_places(&access, &d, stride);
            continue;
        }
        Axis axis = {.there = true, .dim = d.dim, .length = d.length, .start = d.at};
        axis.stride = stride;
        axis.size = lower_dim_size(lo, tensor, d.dim);
        axis.full = (d.at == NULL && tensor->dim[d.dim].constant >= axis.length) ||
                    (d.range && lo->role == NULL && tensor->dim[d.dim].constant == 0 &&
                     tir_range_is_whole(lo->fn, tensor->dim[d.dim].size, d.at, d.length));
        axis.counts_up = d.at == NULL || is_not_negative(d.at);
        axis.not_negative = axis.counts_up && (d.at == NULL || !lower_may_lie_in_front(lo, d.at));
        if (d.at != NULL) {
            Elem start = lower_elem(lo, d.at, 0);
            if (start.kind != ELEM_INT || start.integer != 0)
                add_term(lo, &terms, access_term(lo, start, stride, access.bytes));
        }
        if (!d.begins) {
            add_part(access.row.there && d.axis == 0 ? &access.row : &access.col, &axis, *d.index);
            continue;
        }
        if (access.col.there)
            access.row = access.col;
        access.col = axis;
        if (d.index->rows > 0 || d.strided) { /* which is a pack of one */
            TirIndex part = *d.index;
            if (part.rows == 0)
                part = tir_part(d.length, 1, d.length);
            part.step = d.index->step;
            access.col.n_parts = 0;
            add_part(&access.col, &axis, part);
        }
    }
    add_limits(&access);
    for (uint32_t k = 0; k < terms.n; k++)
        access.base = access_plus(lo, access.base, terms.at[k]);
    return access;
}

/* All ones where 0 <= index < size, by the sign of index - size and of not index; else zero. */
static LirReg
range_mask(Lowering *lo, Elem index, Elem size)
{
    LirBuilder *b = &lo->b;
    LirReg at = lower_elem_reg(lo, index, LIR_B32);
    LirReg below = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(at), lower_operand(lo, size));
    LirReg from_zero = lir_op1(b, LIR_NOT_B32, LIR_B32, lir_reg(at));
    LirReg sign = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(below), lir_reg(from_zero));
    return lir_op2(b, LIR_SHR_S32, LIR_B32, lir_reg(sign), lir_int(31));
}

void
access_count_no_rows(Access *access)
{
    Lowering *lo = access->lo;
    Axis *row = &access->row;

    if (access->inside == 0 || !row->there || row->full || !row->not_negative || row->n_parts > 0)
        return;
    for (TirDims d = tir_dims(access->op); tir_dims_next(&d);) {
        if (!d.single || known_inside(lo, access->tensor, d.dim, d.at))
            continue;
        LirReg mask = range_mask(lo, lower_elem(lo, d.at, 0),
                                 lower_dim_size(lo, access->tensor, d.dim));
        LirReg size = lower_elem_reg(lo, row->size, LIR_B32);
        row->size = elem_reg(lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(size), lir_reg(mask)));
    }
    access->inside = 0;
}

static Elem
axis_start(Lowering *lo, const Axis *axis)
{
    return axis->start == NULL ? elem_int(0) : lower_elem(lo, axis->start, 0);
}

/* How many elements there are from the lane's first place on. */
static LirReg
elements_behind(Lowering *lo, const Axis *axis, Elem lane)
{
    LirReg from = lower_elem_reg(lo, lower_add(lo, axis_start(lo, axis), lane), LIR_B32);
    LirReg size = lower_elem_reg(lo, axis->size, LIR_B32);

    return lir_op2(&lo->b, LIR_SUB_S32, LIR_B32, lir_reg(size), lir_reg(from));
}

/* `rest`: elements_behind, where that is known already; where it is asked for it is known then. */
static LirReg
axis_guard(Lowering *lo, const Axis *axis, Elem lane, int32_t constant, int32_t count,
           int32_t extent, LirReg *rest)
{
    LirReg guard = 0;
    Elem place = lower_add(lo, lane, elem_int(constant));

    if (!axis->there)
        return 0;
    if (extent > axis->length) /* the layout has more than the tile */
        guard = lir_op2(&lo->b, LIR_SETP_LE_S32, LIR_PRED,
                        lir_reg(lower_elem_reg(lo, place, LIR_B32)), lir_int(axis->length - count));
    guard = access_both(lo, guard, limit_guard(lo, axis, lane, constant, count));
    if (axis->full)
        return guard;
    if (axis->n_parts > 0) /* vectors do not lie along a pack */
        return access_both(lo, guard, pack_guard(lo, axis, place));
    if (axis->not_negative) {
        /* size - start - lane > constant: one comparison with a constant an element */
        if (*rest == 0)
            *rest = elements_behind(lo, axis, lane);
        return access_both(
            lo, guard,
            lir_op2(&lo->b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(*rest), lir_int(constant + count)));
    }
    Elem index = lower_add(lo, axis_start(lo, axis), place);
    guard = access_both(lo, guard, access_in_range(lo, index, axis->size));
    if (count > 1)
        guard = access_both(
            lo, guard, access_in_range(lo, lower_add(lo, index, elem_int(count - 1)), axis->size));
    return guard;
}

LirReg
access_axis_guard(Lowering *lo, const Axis *axis, Elem lane, int32_t constant, int32_t count,
                  int32_t extent)
{
    LirReg rest = 0;

    return axis_guard(lo, axis, lane, constant, count, extent, &rest);
}

LirReg
access_known_guard(Lowering *lo, const Axis *axis, KnownGuards *known, Elem lane, int32_t constant,
                   int32_t count, int32_t extent)
{
    const LirBuilder *b = &lo->b;
    KnownGuard *at = &known->at[(uint32_t)(constant ^ constant >> 4) % KNOWN_GUARDS];

    if ((at->region == b->region) & (at->constant == constant) & (at->count == count))
        return at->guard;
    LirReg rest = known->rest.region == b->region ? known->rest.guard : 0;
    LirReg guard = axis_guard(lo, axis, lane, constant, count, extent, &rest);
    if (b->share && !b->fn->has_homes) {
        *at = (KnownGuard){b->region, constant, count, guard};
        known->rest = (KnownGuard){.region = b->region, .guard = rest};
    }
    return guard;
}

/* A predicate that no limit of an axis leaves out an element; 0: there are no limits.  The last
 * element of a pack is the last one of each part. */
static LirReg
whole_limits(Lowering *lo, const Axis *axis)
{
    return limit_guard(lo, axis, elem_int(0), axis->length - 1, 1);
}

LirReg
access_tile_guard(Lowering *lo, const Access *access, bool *testable)
{
    LirReg whole = access->inside;
    const Axis *axes[] = {&access->row, &access->col};

    *testable = true;
    for (uint32_t k = 0; k < 2; k++) {
        if (axes[k]->there && axes[k]->full)
            whole = access_both(lo, whole, whole_limits(lo, axes[k]));
        if (!axes[k]->there || axes[k]->full)
            continue;
        *testable = *testable && axes[k]->counts_up;
        if (axes[k]->n_parts > 0) { /* the last element is the last of each part */
            whole = access_both(lo, whole, pack_guard(lo, axes[k], elem_int(axes[k]->length - 1)));
            whole = access_both(lo, whole, whole_limits(lo, axes[k]));
            continue;
        }
        Axis plain = *axes[k];
        if (access_is_cut_by_parts(&plain)) {
            whole = access_both(lo, whole, whole_limits(lo, &plain));
            plain.n_limits = 0;
        }
        whole = access_both(
            lo, whole, access_axis_guard(lo, &plain, elem_int(0), 0, plain.length, plain.length));
    }
    return whole;
}
