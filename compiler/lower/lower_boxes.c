/* lower_boxes.c - tensor maps, and where a tile lies in one: its box.
 *
 * PTX ISA, "Tensors: tiled mode"; "cp.async.bulk.tensor".
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/tir_util.h"

/* ---- tensor maps ---- */

int32_t
lower_atom_width(const TirShared *shared)
{
    return shared->kind == SHARED_VECTORS
               ? shared->cols
               : shared->layout->pitch * 8 / (int32_t)dtype_bits(shared->dtype);
}

/* The rows of a tile in 128 bytes of shared memory, to which TMA's addresses there are aligned. */
static int32_t
rows_of_line(const TirShared *shared)
{
    return SWIZZLE_BYTES / shared->layout->pitch;
}

typedef struct MapForm {
    bool ends, line;
} MapForm;

/* The box of a copy: as wide as a swizzle atom column along the last dimension, else all rows. */
static LirTensorMap
map_of(const Lowering *lo, const TirOp *copy, MapForm form)
{
    const TirTensor *tensor = copy->tensor;
    uint32_t order[TENSOR_MAX_RANK];
    LirTensorMap map = {.tensor = tensor->name,
                        .rank = tensor->rank,
                        .swizzle_bytes = copy->shared->kind == SHARED_VECTORS
                                             ? 0
                                             : (uint32_t)copy->shared->layout->pitch,
                        .l2_promotion_bytes = 128,
                        .rounds = tir_rounds(copy) ? dtype_name(copy->shared->dtype) : NULL};

    tir_box_order(copy, order);
    /* each warp asks for its rows */
    bool aliased = copy->op == TIR_TMA_STORE && copy->shared->over != NULL;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        TirDims touched = tir_dim(copy, order[d]);
        uint32_t dim = map.dim[d] = touched.dim;
        map.box[d] = (uint32_t)(d == 0 ? lower_atom_width(copy->shared) : touched.length);
        if (aliased && d > 0 && touched.range)
            map.box[d] /= lo->fn->warps;
        bool halved = copy->shared->halved && d > 0 && dim == pair_halved_dim(copy, copy->shared);
        map.box[d] /= halved ? 2 : 1;
    }
    uint32_t ended = box_ended_dimension(copy);
    for (uint32_t d = 0; d < map.rank && form.line; d++)
        map.box[d] = map.dim[d] == ended ? (uint32_t)rows_of_line(copy->shared) : map.box[d];
    if (form.ends) { /* the dimension once more: lower_end_box */
        map.dim[map.rank] = ended;
        map.box[map.rank++] = 1;
    }
    return map;
}

static bool
same_map(const LirTensorMap *a, const LirTensorMap *b)
{
    bool same = a->tensor == b->tensor && a->rank == b->rank && a->rounds == b->rounds &&
                a->swizzle_bytes == b->swizzle_bytes;

    for (uint32_t d = 0; d < a->rank && same; d++)
        same = a->box[d] == b->box[d] && a->dim[d] == b->dim[d];
    return same;
}

/* The name of a map, which becomes a parameter if none is like it. */
static const char *
name_of_map(Lowering *lo, const LirTensorMap *map)
{
    uint32_t k = 0;

    while (k < lo->out->maps.n && !same_map(&lo->out->maps.at[k], map))
        k++;
    const char *name = arena_printf(lo->out->arena, "%s_m_%s_%u", lo->fn->name, map->tensor, k);
    if (k == lo->out->maps.n)
        lir_add_map(lo->out, name, map);
    return name;
}

static void
add_maps_for(Lowering *lo, const TirOp *op)
{
    BoxMaps *maps = &lo->maps[op->shared->id], *lines = &lo->line_maps[op->shared->id];
    bool ends = op->n_limits > 0, load = op->op == TIR_TMA_LOAD, before = box_may_begin_before(op),
         narrow = before && rows_of_line(op->shared) > 1;
    const struct {
        const char **name;
        MapForm form;
        bool is_used;
    } wanted[] = {
        {&maps->name, {.ends = ends}, true},
        {&maps->whole, {.ends = false}, ends && load},
        {&lines->name, {.ends = narrow, .line = true}, before},
        {&lines->whole, {.line = true}, narrow},
    };

    for (uint32_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        if (!wanted[k].is_used || *wanted[k].name != NULL)
            continue;
        LirTensorMap map = map_of(lo, op, wanted[k].form);
        *wanted[k].name = name_of_map(lo, &map);
    }
}

static void
add_maps_of(Lowering *lo, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        bool boxes = op->op == TIR_TMA_LOAD && op->shared->scales == 0;
        if (boxes || op->op == TIR_TMA_REDUCE_ADD || op->op == TIR_TMA_STORE)
            add_maps_for(lo, op);
    }
}

/* ---- boxes ---- */

/* A box may begin in front of a tensor where it is read, not where it is written: what a consumer
 * without a program writes, which is nothing, lies behind. */
static Elem
past_the_end(Lowering *lo, Elem place, Elem size)
{
    LirBuilder *b = &lo->b;
    LirReg own = lo->role->grid[lo->fn->plan->tiles.axis].reg;
    LirReg there = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(own), lir_int(0));

    return elem_reg(lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(lower_elem_reg(lo, place, LIR_B32)),
                            lower_operand(lo, size), lir_reg(there)));
}

void
lower_find_box(Lowering *lo, const TirOp *op, LowerBox *box)
{
    uint32_t order[TENSOR_MAX_RANK];
    Elem place[TENSOR_MAX_RANK];

    *box = (LowerBox){.rank = op->tensor->rank};
    tir_box_order(op, order);
    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        place[d.dim] = d.at == NULL ? elem_int(0) : lower_elem(lo, d.at, 0);
        if (op->op != TIR_TMA_LOAD && d.at != NULL && lower_may_lie_in_front(lo, d.at))
            place[d.dim] = past_the_end(lo, place[d.dim], lower_dim_size(lo, op->tensor, d.dim));
    }
    for (uint32_t d = 0; d < box->rank; d++)
        box->at[d] = place[order[d]];
    if (op->n_limits > 0) {
        LirTensorMap map = map_of(lo, op, (MapForm){.ends = true});
        while (order[box->ended] != map.dim[box->rank])
            box->ended++;
        box->rows = (int32_t)map.box[box->ended];
        box->end = lower_add(lo, box->at[box->ended], lower_elem(lo, tir_limit_count(op, 0), 0));
        box->size = lower_dim_size(lo, op->tensor, map.dim[box->rank]);
    }
}

/* Whether some of `length` indices from `start` on are those of a dimension. */
static LirReg
some_inside(Lowering *lo, Elem start, int32_t length, Elem size)
{
    Elem last = lower_add(lo, start, elem_int(length - 1));
    LirOperand end = lower_operand(lo, last);
    LirOperand most = lower_operand(lo, lower_add(lo, size, elem_int(length - 1)));

    return lir_op2(&lo->b, LIR_SETP_LT_U32, LIR_PRED, end, most);
}

static LirReg
and_pred(Lowering *lo, LirReg a, LirReg b)
{
    return lir_op2(&lo->b, LIR_AND_PRED, LIR_PRED, lir_reg(a), lir_reg(b));
}

/* The coordinates of a box from `start` to `end` by maps with its dimension twice. */
static void
end_at(Lowering *lo, const TirOp *op, LowerBox *box, LirReg start, LirReg end)
{
    LirBuilder *b = &lo->b;
    uint32_t order[TENSOR_MAX_RANK];
    LirReg count = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(end), lir_reg(start));
    box->inside = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(start), lir_int(0));
    count = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(count), lir_int(box->rows));
    count = lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(count), lir_int(0));
    count = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(count), lir_int(0), lir_reg(box->inside));
    LirReg less = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(count), lir_int(-1), lir_int(box->rows));
    LirReg last = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(start), lir_reg(count));
    bool load = op->op == TIR_TMA_LOAD;
    LirTensorMap map = map_of(lo, op, (MapForm){.ends = true});
    LirReg above = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(count), lir_int(-1));
    box->some = lir_op2(b, LIR_SETP_LT_U32, LIR_PRED, lir_reg(above),
                        lir_int(load ? box->rows - 1 : box->rows));
    tir_box_order(op, order);
    for (uint32_t d = 1; d < op->tensor->rank; d++) {
        if (d != box->ended && tir_dim(op, order[d]).at != NULL)
            box->some = and_pred(lo, box->some,
                                 some_inside(lo, box->at[d], (int32_t)map.box[d],
                                             lower_dim_size(lo, op->tensor, order[d])));
    }
    if (load) {
        LirReg any = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(count), lir_int(1));
        box->whole = elem_reg(lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(start),
                                      lower_operand(lo, box->size), lir_reg(any)));
    }
    box->at[box->ended] = elem_reg(less);
    box->at[box->rank++] = elem_reg(lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(last), lir_int(0)));
}

/* A box ends where its tensor does, and where its program says.  The map has the latter's dimension
 * twice: with no more elements than the box, where c of them lie inside if it begins at box - c,
 * and with those of the tensor, one box further back in memory, where it begins at the end of the c
 * elements: so element i is that of the tensor with index end - c + i.  In front of the tensor
 * nothing is read or written.
 *
 * The memory where such a map begins belongs to others, or is not there, and the GPU asks for it
 * when no element of a box lies inside of the map: CUDA_ERROR_ILLEGAL_ADDRESS, seen on an H200
 * (docs/lab/places.md).  So a load whose box is empty goes by the tensor's own map, and one whose
 * box is whole, too; and nothing is stored from an empty one. */
void
lower_end_box(Lowering *lo, const TirOp *op, LowerBox *box)
{
    if (box->rows == 0)
        return;
    LirReg start = lower_elem_reg(lo, box->at[box->ended], LIR_B32);
    LirReg end = lir_op2(&lo->b, LIR_MIN_S32, LIR_B32,
                         lir_reg(lower_elem_reg(lo, box->end, LIR_B32)),
                         lower_operand(lo, box->size));
    box->start = elem_reg(start);
    box->end = elem_reg(end);
    end_at(lo, op, box, start, end);
}

/* ---- boxes that begin before their tensor ---- */

bool
lower_begin_before(Lowering *lo, const TirOp *op, const LowerBox *box, BoxBefore *before)
{
    LirBuilder *b = &lo->b;

    if (box->rows == 0 || !box_may_begin_before(op))
        return false;
    *before = (BoxBefore){.whole = *box, .within = lir_new_label(b), .end = lir_new_label(b)};
    LirOperand start = lower_operand(lo, box->start), end = lower_operand(lo, box->end);
    lir_branch(b, before->within, box->inside, false);
    lir_open(b, false);
    before->by_lines = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, end, lir_int(1));
    LowerBox *whole = &before->whole;
    whole->at[box->ended] = elem_reg(lir_op3(
        b, LIR_SEL_B32, LIR_B32, start, lower_operand(lo, box->size), lir_reg(before->by_lines)));
    whole->rank--;
    whole->some = 0;
    if (op->op == TIR_TMA_LOAD) {
        LirReg behind = lir_op2(b, LIR_ADD_S32, LIR_B32, start, lir_int(box->rows));
        LirReg cut = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, end, lir_reg(behind));
        before->by_lines = and_pred(lo, before->by_lines, cut);
    }
    return true;
}

void
lower_begin_lines(Lowering *lo, const TirOp *op, const LowerBox *box, BoxBefore *before)
{
    LirBuilder *b = &lo->b;
    LowerBox *line = &before->line;
    int32_t rows = rows_of_line(op->shared);

    lir_branch(b, before->end, before->by_lines, true);
    before->number = lir_new_mutable(b, LIR_B32);
    before->head = lir_new_label(b);
    before->lines = box->rows / rows;
    LirOperand begin[] = {lir_reg(before->number), lir_int(0)};
    lir_emit(b, LIR_MOV_B32, 1, 2, begin);
    lir_open(b, true);
    lo->out->regs.at[before->number].depth = b->region->depth;
    lir_label(b, before->head);
    *line = before->whole;
    line->rows = rows;
    Elem at = lower_add(lo, box->start, lower_mul_const(lo, elem_reg(before->number), rows));
    LirReg start = lower_elem_reg(lo, at, LIR_B32), end = lower_elem_reg(lo, box->end, LIR_B32);
    if (rows > 1) {
        LirReg any = lir_op2(b, LIR_SETP_GT_S32, LIR_PRED, lir_reg(end), lir_reg(start));
        end_at(lo, op, line, start, end);
        line->whole = elem_reg(lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(start),
                                       lower_operand(lo, box->size), lir_reg(any)));
        return;
    }
    before->there = lir_op2(b, LIR_SETP_LT_U32, LIR_PRED, lir_reg(start), lir_reg(end));
    line->at[line->ended] = elem_reg(lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(start),
                                             lower_operand(lo, box->size), lir_reg(before->there)));
}

void
lower_begin_within(Lowering *lo, const BoxBefore *before)
{
    LirBuilder *b = &lo->b;
    LirOperand step[] = {lir_reg(before->number), lir_reg(before->number), lir_int(1)};
    LirOperand test[] = {lir_reg(lir_new_reg(b, LIR_PRED)), step[0], lir_int(before->lines)};

    lir_emit(b, LIR_ADD_S32, 1, 3, step);
    lir_emit(b, LIR_SETP_LT_S32, 1, 3, test);
    lir_branch(b, before->head, test[0].reg, false);
    lir_close(b);
    lir_branch(b, before->end, 0, false);
    lir_close(b);
    lir_label(b, before->within);
    lir_open(b, false);
}

void
lower_end_within(Lowering *lo, const BoxBefore *before)
{
    lir_close(&lo->b);
    lir_label(&lo->b, before->end);
}

LirReg
lower_box_some(Lowering *lo, const TirOp *op, const LowerBox *box, int32_t column)
{
    TirDims last = tir_last_dim(op);

    if (box->some == 0 || last.at == NULL)
        return box->some;
    Elem at = lower_add(lo, box->at[0], elem_int(column));
    return and_pred(lo, box->some,
                    some_inside(lo, at, lower_atom_width(op->shared),
                                lower_dim_size(lo, op->tensor, last.dim)));
}

uint32_t
lower_box_coordinates(Lowering *lo, const LowerBox *box, int32_t column, LirOperand *operands)
{
    for (uint32_t d = 0; d < box->rank; d++) {
        Elem coordinate = box->at[d];
        if (d == 0)
            coordinate = lower_add(lo, coordinate, elem_int(column));
        operands[d] = lir_reg(lower_elem_reg(lo, coordinate, LIR_B32));
    }
    return box->rank;
}

void
lower_add_maps(Lowering *lo)
{
    lo->maps = arena_array(lo->arena, BoxMaps, lo->fn->shared.n + 1);
    lo->line_maps = arena_array(lo->arena, BoxMaps, lo->fn->shared.n + 1);
    add_maps_of(lo, tir_program(lo->fn->plan, ROLE_PRODUCER));
    add_maps_of(lo, lo->fn->body);
    if (tir_program(lo->fn->plan, ROLE_REDUCE) != NULL)
        add_maps_of(lo, tir_program(lo->fn->plan, ROLE_REDUCE));
}

LirReg
lower_map_address(Lowering *lo, const char *name)
{
    LirReg at = lir_op1(&lo->b, LIR_MAP_ADDRESS, LIR_B64, lir_symbol(name));
    return lir_op1(&lo->b, LIR_CVTA_PARAM, LIR_B64, lir_reg(at));
}
