/* lower_shared.c - addresses in shared memory, and tiles that go through it. */
#include "compiler/lower/lower.h"
#include "compiler/lower/lower_access.h"
#include "compiler/passes/util/shared_uses.h"

LirReg
lower_shared_start(Lowering *lo)
{
    return lir_op1(&lo->b, LIR_MOV_U32, LIR_B32,
                   lir_symbol(arena_printf(lo->out->arena, "%s_shared", lo->fn->name)));
}

LirReg
lower_described(Lowering *lo, LirReg address)
{
    LirBuilder *b = &lo->b;
    LirReg start = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(address), lir_int(4));

    /* In a cluster the block's number stands above an address of its own shared memory. */
    return tir_is_clustered(lo->fn->plan)
               ? lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(start), lir_int(0x3fff))
               : start;
}

void
lower_barrier(Lowering *lo)
{
    LirOperand zero = lir_int(0);

    if (lo->role != NULL) { /* the warp group's own barrier */
        LirOperand some[] = {lir_reg(lo->role->group), lir_int((int32_t)lo->fn->warps * WARP_LANES)};
        lir_emit(&lo->b, LIR_BAR_SYNC_SOME, 0, 2, some);
        return;
    }
    lir_emit(&lo->b, LIR_BAR_SYNC, 0, 1, &zero);
}

Elem
lower_stage_base(Lowering *lo, const TirShared *shared, TirVal *stage)
{
    Elem base = elem_reg(lower_shared_start(lo));
    base.integer = shared->offset;
    if (shared->over != NULL) { /* this consumer's part of the current stage of the pipeline */
        const TirShared *pipeline = shared->over;
        int64_t stage_bytes = pipeline->bytes / pipeline->stages,
                part = stage_bytes / tir_consumers(lo->fn->plan);
        LirReg own = lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(lo->role->group), lir_int(-1));
        LirReg at = lir_op3(&lo->b, LIR_MAD_S32, LIR_B32,
                            lir_reg(lo->role->pipelines[pipeline->id].stage), lir_int(stage_bytes),
                            lir_reg(base.reg));
        base.reg = lir_op3(&lo->b, LIR_MAD_S32, LIR_B32, lir_reg(own), lir_int(part), lir_reg(at));
        return base;
    }
    if (lo->role != NULL && lo->role->kind == ROLE_CORRECTION) /* lower_convert knows whose part */
        return base;
    if (shared->kind == SHARED_PARTS || tir_is_handed(shared) ||
        shared->kind == SHARED_STAGING) { /* this consumer's part of a stage */
        int64_t part = shared->bytes / shared->stages / tir_consumers(lo->fn->plan);
        base = lower_add(lo, base, lower_mul_const(lo, elem_reg(lo->role->group), part));
        base.integer -= part;
    } else if (tir_is_pipeline(shared) && shared->stages == 1 && lo->fn->plan->tmem_columns > 0) {
        return base; /* (else the stage is looked up all the same: other code was not measured) */
    } else if (tir_is_pipeline(shared)) { /* the stage that was waited for */
        const PipelineCursor *cursor = &lo->role->pipelines[shared->id];
        LirReg at = lir_op2(&lo->b, LIR_MUL_S32, LIR_B32,
                            lir_reg(cursor->oldest != NULL ? cursor->waited : cursor->stage),
                            lir_int(shared->bytes / shared->stages));
        return lower_add(lo, base, elem_reg(at));
    } else if (lo->role != NULL && tir_consumers(lo->fn->plan) > 1) {
        Elem apart = lower_mul_const(lo, elem_reg(lo->role->group),
                                     tir_role(lo->fn->plan, ROLE_CONSUMER)->private_bytes);
        base = lower_add(lo, base, apart);
        base.integer -= tir_role(lo->fn->plan, ROLE_CONSUMER)
                            ->private_bytes; /* groups are counted from 1 */
    }
    if (stage == NULL)
        return base;
    if ((shared->kind == SHARED_PARTS && shared->stages == 1) || tir_is_handed(shared))
        return base;
    if (shared->kind == SHARED_PARTS) {
        LirReg at = lir_op2(&lo->b, LIR_MUL_S32, LIR_B32,
                            lir_reg(lo->role->pipelines[shared->id].stage),
                            lir_int(shared->bytes / shared->stages));
        return lower_add(lo, base, elem_reg(at));
    }
    Elem index = lower_elem(lo, stage, 0);
    return lower_add(lo, base, lower_mul_const(lo, index, shared->bytes / shared->stages));
}

/* ((row >> shift) & (2^bits - 1)) * 16 of a register. */
static Elem
swizzle_of(Lowering *lo, const SharedLayout *layout, Elem row)
{
    LirBuilder *b = &lo->b;

    if (layout->bits == 0)
        return elem_int(0);
    if (row.kind == ELEM_INT)
        return elem_int(((row.integer >> layout->shift) & ((1 << layout->bits) - 1)) * 16);
    LirReg reg = lower_elem_reg(lo, row, LIR_B32);
    if (layout->shift > 0)
        reg = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(reg), lir_int(layout->shift));
    reg = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(reg), lir_int((1 << layout->bits) - 1));
    return elem_reg(lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(reg), lir_int(4)));
}

static Elem
xor_elems(Lowering *lo, Elem a, Elem b)
{
    if (a.kind == ELEM_INT && b.kind == ELEM_INT)
        return elem_int(a.integer ^ b.integer);
    if (b.kind == ELEM_INT && b.integer == 0)
        return a;
    if (a.kind == ELEM_INT && a.integer == 0)
        return b;
    if (a.kind == ELEM_INT)
        return xor_elems(lo, b, a);
    LirOperand x = lower_operand(lo, a);
    return elem_reg(lir_op2(&lo->b, LIR_XOR_B32, LIR_B32, x, lower_operand(lo, b)));
}

int32_t
lower_split_swizzle(const SharedLayout *layout, int32_t row, int32_t byte, int64_t *offset)
{
    uint32_t chunks = (1u << layout->bits) - 1, turned = (uint32_t)row >> layout->shift & chunks;

    *offset = (int64_t)row * layout->pitch;
    if (layout->atom_columns) {
        *offset += (int64_t)(byte / layout->pitch) * layout->rows * layout->pitch;
        byte %= layout->pitch;
    }
    *offset += (int32_t)((uint32_t)byte & ~(chunks << 4));
    return (int32_t)(((uint32_t)byte & chunks << 4) ^ turned << 4);
}

static LirOperand
address_operand(Lowering *lo, Elem address)
{
    if (address.kind == ELEM_INT)
        return lir_address(lower_elem_reg(lo, address, LIR_B32), 0);
    return lir_address(address.reg, address.integer);
}

/* Lanes that lie in several swizzle atom columns, which begin one behind the other. */
static LirOperand
across_atom_columns(Lowering *lo, const SharedPlace *place, int32_t row, int32_t byte)
{
    const SharedLayout *layout = place->layout;
    LirBuilder *b = &lo->b;
    Elem whole_row = lower_add(lo, place->lane_row, elem_int(row));
    LirReg whole = lower_elem_reg(lo, lower_add(lo, place->lane_byte, elem_int(byte)), LIR_B32);
    LirReg within = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(whole), lir_int(layout->pitch - 1));
    LirReg rest = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(whole), lir_reg(within));
    Elem address = lower_mul_const(lo, whole_row, layout->pitch);

    address = lower_add(lo, address,
                        xor_elems(lo, elem_reg(within), swizzle_of(lo, layout, whole_row)));
    address = lower_add(lo, address, lower_mul_const(lo, elem_reg(rest), layout->rows));
    return address_operand(lo, lower_add(lo, address, place->base));
}

LirOperand
lower_shared_address(Lowering *lo, const SharedPlace *place, int32_t row, int32_t byte)
{
    const SharedLayout *layout = place->layout;
    uint32_t row_low = (1u << (layout->shift + layout->bits)) - 1;
    uint32_t swizzled = ((1u << layout->bits) - 1) << 4, byte_low = swizzled | 15;
    Elem address, start = place->base;

    if (layout->atom_columns &&
        (uint64_t)place->byte_mask + (uint32_t)(byte % layout->pitch) >= (uint64_t)layout->pitch)
        return across_atom_columns(lo, place, row, byte);
    /* what a lane adds stays in its swizzle atom column */
    if (layout->atom_columns && byte >= layout->pitch) {
        start.integer += (int64_t)(byte / layout->pitch) * layout->rows * layout->pitch;
        byte %= layout->pitch;
    }
    if (layout->bits == 0)
        row_low = swizzled = byte_low = 0;
    if ((place->row_mask & row_low & (uint32_t)row) == 0 &&
        (place->byte_mask & byte_low & (uint32_t)byte) == 0) {
        /* The lane parts and the constants set different bits, so the swizzle splits: one base a
         * lane, one XOR by a constant, one constant offset. */
        Elem swizzle = swizzle_of(lo, layout, place->lane_row);
        Elem row_start = lower_mul_const(lo, place->lane_row, layout->pitch);
        Elem lane = lower_add(lo, row_start, xor_elems(lo, place->lane_byte, swizzle));
        Elem base = start;
        int64_t constant;
        int32_t turn = lower_split_swizzle(layout, row, byte, &constant);
        if (base.kind == ELEM_REG) {
            constant += base.integer; /* a multiple of the swizzle's span: not touched by the XOR */
            base.integer = 0;
        }
        if (turn == 0 || lane.kind == ELEM_INT) {
            if (lane.kind == ELEM_INT)
                lane.integer ^= turn;
            address = lower_add(lo, lane, base);
        } else {
            LirReg sum = lower_elem_reg(lo, lower_add(lo, lane, base), LIR_B32);
            address = elem_reg(lir_op2(&lo->b, LIR_XOR_B32, LIR_B32, lir_reg(sum), lir_int(turn)));
        }
        address = lower_add(lo, address, elem_int(constant));
    } else {
        Elem whole_row = lower_add(lo, place->lane_row, elem_int(row));
        Elem whole_byte = lower_add(lo, place->lane_byte, elem_int(byte));
        Elem swizzle = swizzle_of(lo, layout, whole_row);
        Elem row_start = lower_mul_const(lo, whole_row, layout->pitch);
        address = lower_add(lo, row_start, xor_elems(lo, whole_byte, swizzle));
        address = lower_add(lo, address, start);
    }
    return address_operand(lo, address);
}

/* ---- tiles between registers and shared memory ---- */

static int32_t
element_bytes(const TirVal *value)
{
    return value->type.dtype == DT_BOOL ? 4 : (int32_t)dtype_bits(value->type.dtype) / 8;
}

/* Neighbouring registers that lie next to each other in a row: a power of two, 16 bytes at most. */
static int32_t
run_length(const Layout *layout, uint32_t row_axis, int32_t bytes)
{
    int32_t run = 1;
    if (layout->rank == 0 || layout->reg.n == 0 || layout->reg.at[0].step[row_axis] != 1)
        return 1;
    while (layout->reg.at[0].extent % (run * 2) == 0 && run * 2 * bytes <= 16)
        run *= 2;
    return run * bytes < 4 ? 1 : run; /* what fills no word goes one by one */
}

static SharedPlace
place_of_layout(Lowering *lo, const Layout *layout, const TirShared *shared, Elem base,
                uint32_t row_axis, uint32_t col_axis, int32_t bytes)
{
    SharedPlace place = {.layout = shared->layout, .base = base};

    place.lane_row = place.lane_byte = elem_int(0);
    if (layout->rank == 2) {
        place.lane_row = lower_lane_part(lo, layout, row_axis);
        place.row_mask = lower_lane_mask(layout, row_axis);
    }
    place.lane_byte = lower_mul_const(lo, lower_lane_part(lo, layout, col_axis), bytes);
    place.byte_mask = lower_lane_mask(layout, col_axis) * (uint32_t)bytes;
    return place;
}

/* Whether a digit list begins with these steps. */
static bool
begins_with(const DigitList *list, uint32_t k, int32_t extent, int32_t row, int32_t col)
{
    return list->n > k && list->at[k].extent == extent && list->at[k].step[0] == row &&
           list->at[k].step[1] == col;
}

/* Whether packed registers are 8 x 8 matrices as stmatrix has them, four to an instruction: the
 * second and third of each four lie `step[0]` and `step[1]` from the first, the fourth both. */
static bool
stores_matrices(const Lowering *lo, const TirVal *value, bool *transposed,
                int32_t step[2][LAYOUT_RANK])
{
    const Layout *layout = value->layout;
    int32_t n = layout_registers(layout);

    if (!target_can(lo->px->target, CAN_STORE_MATRIX) || lower_per_word(value) != 2 ||
        layout->rank != 2 || n % 8 != 0)
        return false;
    *transposed = begins_with(&layout->reg, 0, 2, 1, 0);
    if (*transposed
            ? !begins_with(&layout->lane, 0, 4, 2, 0) || !begins_with(&layout->lane, 1, 8, 0, 1)
            : !begins_with(&layout->reg, 0, 2, 0, 1) || !begins_with(&layout->lane, 0, 4, 0, 2) ||
                  !begins_with(&layout->lane, 1, 8, 1, 0))
        return false;
    for (int32_t r = 0; r < n; r += 8) {
        int32_t at[4][LAYOUT_RANK];
        for (int32_t k = 0; k < 4; k++)
            layout_coordinates(layout, r + 2 * k, 0, 0, at[k]);
        for (uint32_t axis = 0; axis < LAYOUT_RANK; axis++) {
            int32_t first = at[1][axis] - at[0][axis], second = at[2][axis] - at[0][axis];
            if (r == 0) {
                step[0][axis] = first;
                step[1][axis] = second;
            }
            if (first != step[0][axis] || second != step[1][axis] ||
                at[3][axis] - at[0][axis] != first + second || first % 8 != 0 || second % 8 != 0)
                return false;
        }
    }
    return true;
}

/* Columns of a tile, which lie from the beginning of a buffer's rows on. */
typedef struct Columns {
    int32_t first, n;
} Columns;

static const Columns all_columns = {0, INT32_MAX};

static bool
is_among(const Columns *columns, int32_t column)
{
    return column >= columns->first && column - columns->first < columns->n;
}

/* Lane 8k + i gives the address of row i of matrix k. */
static void
store_matrices(Lowering *lo, TirVal *value, const TirShared *shared, Elem base, bool transposed,
               int32_t step[2][LAYOUT_RANK], const Columns *columns)
{
    const Layout *layout = value->layout;
    LirBuilder *b = &lo->b;
    LirReg lane = lower_lane(lo);
    SharedPlace place = {.layout = shared->layout, .base = base};
    Elem part[LAYOUT_RANK] = {elem_reg(lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lane), lir_int(7))),
                              elem_int(0)};
    uint32_t mask[LAYOUT_RANK] = {7, 0};

    Layout warps = *layout; /* the warp's part alone */
    warps.lane.n = 0;
    for (uint32_t axis = 0; axis < LAYOUT_RANK; axis++) {
        for (uint32_t k = 0; k < 2; k++) {
            LirReg bit = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(lane), lir_int(3 + (int32_t)k));
            bit = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(bit), lir_int(1));
            if (step[k][axis] != 0)
                part[axis] = lower_add(lo, part[axis],
                                       lower_mul_const(lo, elem_reg(bit), step[k][axis]));
            mask[axis] |= (uint32_t)step[k][axis];
        }
        part[axis] = lower_add(lo, part[axis], lower_lane_part(lo, &warps, axis));
        mask[axis] |= lower_lane_mask(&warps, axis);
    }
    place.lane_row = part[0];
    place.row_mask = mask[0];
    place.lane_byte = lower_mul_const(lo, part[1], 2);
    place.byte_mask = mask[1] * 2;
    for (int32_t r = 0; r < layout_registers(layout); r += 8) {
        int32_t at[LAYOUT_RANK];
        LirOperand operands[5];
        layout_coordinates(layout, r, 0, 0, at);
        if (!is_among(columns, at[1]))
            continue;
        for (int32_t k = 0; k < 4; k++)
            operands[k + 1] = lir_reg(lower_word(lo, value, r + 2 * k));
        operands[0] = lower_shared_address(lo, &place, at[0], (at[1] - columns->first) * 2);
        lir_emit(b, transposed ? LIR_STMATRIX_X4_TRANS : LIR_STMATRIX_X4, 0, 5, operands);
    }
}

void
lower_tile_to_shared(Lowering *lo, TirVal *value, const TirShared *shared, Elem base)
{
    static const LirOpcode by_words[] = {0, LIR_ST_SHARED_B32, LIR_ST_SHARED_V2, 0,
                                         LIR_ST_SHARED_V4};
    const Layout *layout = value->layout;
    int32_t bytes = element_bytes(value), per_word = lower_per_word(value);
    uint32_t col_axis = layout->rank == 2 ? 1 : 0;
    int32_t run = run_length(layout, col_axis, bytes), n = layout_registers(layout);
    SharedPlace place = place_of_layout(lo, layout, shared, base, 0, col_axis, bytes);
    LirReg owner = lower_first_copy(lo, layout); /* of threads that hold copies, one writes */
    int32_t step[2][LAYOUT_RANK];
    bool transposed;

    if (owner == 0 && switch_is_on(lo->px, "stmatrix") &&
        stores_matrices(lo, value, &transposed, step)) {
        store_matrices(lo, value, shared, base, transposed, step, &all_columns);
        return;
    }

    for (int32_t r = 0; r < n; r += run) {
        int32_t at[LAYOUT_RANK];
        LirOperand operands[5];
        layout_coordinates(layout, r, 0, 0, at);
        int32_t row = layout->rank == 2 ? at[0] : 0;
        operands[0] = lower_shared_address(lo, &place, row, at[col_axis] * bytes);
        int32_t words = run * bytes / 4;
        if (words == 0) { /* a single element */
            operands[1] = lir_reg(
                lower_single(lo, lower_word(lo, value, r), 8 * bytes, r % per_word));
            lir_emit(&lo->b, bytes == 2 ? LIR_ST_SHARED_U16 : LIR_ST_SHARED_U8, 0, 2, operands)
                ->guard = owner;
            continue;
        }
        for (int32_t w = 0; w < words; w++)
            operands[w + 1] = lir_reg(lower_word(lo, value, r + w * per_word));
        lir_emit(&lo->b, by_words[words], 0, (uint32_t)words + 1, operands)->guard = owner;
    }
}

/* How far the threads of a block reach from the place of a register along an axis. */
static int32_t
reach_along(const Layout *layout, uint32_t axis)
{
    int32_t reach = 0;

    for (uint32_t k = 0; k < layout->lane.n; k++)
        reach += (layout->lane.at[k].extent - 1) * layout->lane.at[k].step[axis];
    for (uint32_t k = 0; k < layout->warp.n; k++)
        reach += (layout->warp.at[k].extent - 1) * layout->warp.at[k].step[axis];
    return reach;
}

int32_t
lower_column_reach(const Layout *layout)
{
    return reach_along(layout, 1);
}

/* Whether matrices that are stored transposed begin and end in the same `n` columns, in every
 * warp. */
static bool
stay_in_columns(const Layout *layout, int32_t n, int32_t step[2][LAYOUT_RANK])
{
    int32_t reach = lower_column_reach(layout) + step[0][1] + step[1][1], at[LAYOUT_RANK];
    bool stay = true;

    for (int32_t r = 0; r < layout_registers(layout); r += 8) {
        layout_coordinates(layout, r, 0, 0, at);
        stay = stay && at[1] % n + reach < n;
    }
    return stay;
}

bool
lower_columns_to_shared(Lowering *lo, TirVal *value, const TirShared *shared, Elem base,
                        int32_t first, int32_t n)
{
    const Layout *layout = value->layout;
    int32_t bytes = element_bytes(value), run = run_length(layout, 1, bytes);
    int32_t step[2][LAYOUT_RANK], at[LAYOUT_RANK];
    Columns columns = {first, n};
    bool transposed;

    if (lower_first_copy(lo, layout) != 0 || value->type.dtype == DT_BOOL)
        return false;
    if (switch_is_on(lo->px, "stmatrix") && stores_matrices(lo, value, &transposed, step) &&
        (transposed ? stay_in_columns(layout, n, step) : n % (8 + step[0][1] + step[1][1]) == 0)) {
        store_matrices(lo, value, shared, base, transposed, step, &columns);
        return true;
    }
    if (run * bytes < 16 || lower_lane_mask(layout, 1) != 0)
        return false;
    SharedPlace place = place_of_layout(lo, layout, shared, base, 0, 1, bytes);
    for (int32_t r = 0; r < layout_registers(layout); r += run) {
        LirOperand operands[5];
        layout_coordinates(layout, r, 0, 0, at);
        if (!is_among(&columns, at[1]))
            continue;
        operands[0] = lower_shared_address(lo, &place, at[0], (at[1] - first) * bytes);
        for (int32_t w = 0; w < 4; w++)
            operands[w + 1] = lir_reg(lower_word(lo, value, r + w * lower_per_word(value)));
        lir_emit(&lo->b, LIR_ST_SHARED_V4, 0, 5, operands);
    }
    return true;
}

/* Of a tile or a vector that a copy fills a stage with: where a thread's elements from `at` on are
 * of it; 0: they all are.  Its layout may have more, which nobody has written. */
static LirReg
is_of_copied(Lowering *lo, const TirVal *value, const TirShared *shared,
             const int32_t at[LAYOUT_RANK])
{
    const Layout *layout = value->layout;
    LirReg guard = 0;

    for (uint32_t k = 0; k < layout->rank && tir_is_pipeline(shared); k++) {
        int32_t left = value->type.dim[k] - at[k];
        if (reach_along(layout, k) < left)
            continue;
        LirReg lane = lower_elem_reg(lo, lower_lane_part(lo, layout, k), LIR_B32);
        guard = access_both(
            lo, guard,
            lir_op2(&lo->b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(lane), lir_int((int64_t)left)));
    }
    return guard;
}

/* Bools as copies bring them, a byte each: neighbours in a row are read together. */
static void
bools_from_bytes(Lowering *lo, TirVal *value, const TirShared *shared, Elem base, bool transposed)
{
    const Layout *layout = value->layout;
    uint32_t col_axis = transposed ? 0 : 1;
    int32_t extent = layout->reg.n > 0 && layout->reg.at[0].step[col_axis] == 1
                         ? layout->reg.at[0].extent
                         : 1,
            run = extent % 4 == 0   ? 4
                  : extent % 2 == 0 ? 2
                                    : 1;
    SharedPlace place = place_of_layout(lo, layout, shared, base, 1 - col_axis, col_axis, 1);

    for (int32_t r = 0; r < layout_registers(layout); r += run) {
        int32_t at[LAYOUT_RANK];
        layout_coordinates(layout, r, 0, 0, at);
        LirClass class = run == 4 ? LIR_B32 : LIR_B16;
        LirReg guard = is_of_copied(lo, value, shared, at);
        LirReg loaded = guard == 0 ? lir_new_reg(&lo->b, class) : lower_zeroed(lo, class),
               word = loaded;
        LirOperand load[] = {lir_reg(loaded),
                             lower_shared_address(lo, &place, at[1 - col_axis], at[col_axis])};
        LirOpcode opcode = run == 4   ? LIR_LD_SHARED_B32
                           : run == 2 ? LIR_LD_SHARED_U16
                                      : LIR_LD_SHARED_U8;
        lir_emit(&lo->b, opcode, 1, 2, load)->guard = guard;
        if (run < 4)
            word = lir_op2(&lo->b, LIR_PACK_B32, LIR_B32, lir_reg(loaded), lir_reg(loaded));
        for (int32_t k = 0; k < run; k++)
            lower_set_word(
                lo, value, r + k,
                lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(word), lir_int(0xffLL << 8 * k)));
    }
}

/* ---- bytes of words ---- */

/* Selectors of prmt: byte 0 of a word above zeros, or above its sign; what makes byte b of
 * either. */
enum {
    BYTE_ALONE = 0x4440,
    BYTE_SIGNED = 0x8880,
    NEXT_SIGNED = 0x1111,
    WORD_BYTES = 4,
    MOST_WORDS = 4
};

/* Which register has the byte at a row and a column of words; -1: none. */
static int32_t
register_at(const int32_t (*at)[LAYOUT_RANK], int32_t n, int32_t row, int32_t col, uint32_t col_axis)
{
    for (int32_t r = 0; r < n; r++)
        if (at[r][1 - col_axis] == row && at[r][col_axis] == col)
            return r;
    return -1;
}

/* Integers of 8 bits, of which neighbours in a word are those of neighbouring lanes, as operands of
 * products have them: these read the word, or several, and each takes its byte. */
static bool
bytes_from_words(Lowering *lo, TirVal *value, const TirShared *shared, Elem base, bool transposed)
{
    static const LirOpcode by_words[] = {0, LIR_LD_SHARED_B32, 0, 0, LIR_LD_SHARED_V4};
    const Layout *layout = value->layout;
    DType dtype = value->type.dtype;
    uint32_t col_axis = transposed ? 0 : 1;
    int32_t n = layout_registers(layout);

    if (layout->rank != 2 || dtype_bits(dtype) != 8 || dtype_is_float(dtype) ||
        (lower_lane_mask(layout, col_axis) & (MOST_WORDS * WORD_BYTES - 1)) != WORD_BYTES - 1 ||
        layout->shape[0] > value->type.dim[0] || layout->shape[1] > value->type.dim[1])
        return false;
    int32_t(*at)[LAYOUT_RANK] = arena_alloc(lo->arena, (size_t)n * sizeof *at);
    bool *done = arena_array(lo->arena, bool, n);
    for (int32_t r = 0; r < n; r++) {
        layout_coordinates(layout, r, 0, 0, at[r]);
        if (at[r][col_axis] % WORD_BYTES != 0)
            return false;
    }
    LirBuilder *b = &lo->b;
    SharedPlace place = place_of_layout(lo, layout, shared, base, 1 - col_axis, col_axis, 1);
    LirReg lane = lower_elem_reg(lo, place.lane_byte, LIR_B32);
    LirReg byte = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lane), lir_int(WORD_BYTES - 1));
    bool is_signed = dtype_kind(dtype) == KIND_SIGNED;
    LirReg selector = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(byte),
                              lir_int(is_signed ? NEXT_SIGNED : 1),
                              lir_int(is_signed ? BYTE_SIGNED : BYTE_ALONE));
    place.lane_byte = elem_reg(
        lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lane), lir_int(-(int64_t)WORD_BYTES)));
    place.byte_mask &= ~(uint32_t)(WORD_BYTES - 1);
    for (int32_t r = 0; r < n; r++) {
        int32_t row = at[r][1 - col_axis], col = at[r][col_axis], reg[MOST_WORDS] = {r}, words = 0;
        if (col % (MOST_WORDS * WORD_BYTES) == 0)
            for (words = 1; words < MOST_WORDS; words++)
                if ((reg[words] = register_at(at, n, row, col + words * WORD_BYTES, col_axis)) < 0)
                    break;
        words = words == MOST_WORDS ? words : 1;
        if (done[r])
            continue;
        LirOperand operands[MOST_WORDS + 1];
        for (int32_t w = 0; w < words; w++)
            operands[w] = lir_reg(lir_new_reg(b, LIR_B32));
        operands[words] = lower_shared_address(lo, &place, row, col);
        lir_emit(b, by_words[words], (uint32_t)words, (uint32_t)words + 1, operands);
        for (int32_t w = 0; w < words; w++) {
            done[reg[w]] = true;
            lower_set_elem(lo, value, reg[w],
                           elem_reg(lir_op3(b, LIR_PRMT, LIR_B32, operands[w], lir_int(0),
                                            lir_reg(selector))));
        }
    }
    return true;
}

/* Bytes of which two are neighbours in a thread, at even places, as operands of products have them:
 * both are read at once. */
static bool
bytes_by_twos(Lowering *lo, TirVal *value, const TirShared *shared, Elem base, bool transposed)
{
    const Layout *layout = value->layout;
    uint32_t col_axis = transposed ? 0 : 1;
    int32_t n = layout_registers(layout), at[LAYOUT_RANK];
    bool twos = layout->rank == 2 && element_bytes(value) == 1 &&
                run_length(layout, col_axis, 1) == 1 && layout->reg.n > 0 &&
                layout->reg.at[0].step[col_axis] == 1 && layout->reg.at[0].extent % 2 == 0 &&
                value->type.dim[col_axis] % 2 == 0 && (lower_lane_mask(layout, col_axis) & 1) == 0;

    for (int32_t r = 0; r < n && twos; r += 2) {
        layout_coordinates(layout, r, 0, 0, at);
        twos = at[col_axis] % 2 == 0;
    }
    if (!twos)
        return false;
    SharedPlace place = place_of_layout(lo, layout, shared, base, 1 - col_axis, col_axis, 1);
    LirReg lower = 0;
    for (int32_t r = 0; r < n; r += 2) {
        layout_coordinates(layout, r, 0, 0, at);
        LirReg guard = is_of_copied(lo, value, shared, at);
        LirReg both = guard == 0 ? lir_new_reg(&lo->b, LIR_B16) : lower_zeroed(lo, LIR_B16);
        LirOperand load[] = {lir_reg(both),
                             lower_shared_address(lo, &place, at[1 - col_axis], at[col_axis])};
        lir_emit(&lo->b, LIR_LD_SHARED_U16, 1, 2, load)->guard = guard;
        if (r % 4 == 0)
            lower = both;
        if (r % 4 == 2 || r + 2 >= n)
            lower_set_word(lo, value, r,
                           lir_op2(&lo->b, LIR_PACK_B32, LIR_B32, lir_reg(lower), lir_reg(both)));
    }
    return true;
}

void
lower_tile_from_shared(Lowering *lo, TirVal *value, const TirShared *shared, Elem base,
                       bool transposed)
{
    static const LirOpcode by_words[] = {0, LIR_LD_SHARED_B32, LIR_LD_SHARED_V2, 0,
                                         LIR_LD_SHARED_V4};
    const Layout *layout = value->layout;
    int32_t bytes = element_bytes(value), per_word = lower_per_word(value);
    uint32_t col_axis = layout->rank == 2 && !transposed ? 1 : 0;
    uint32_t row_axis = 1 - col_axis;
    int32_t run = run_length(layout, col_axis, bytes), n = layout_registers(layout);
    SharedPlace place = place_of_layout(lo, layout, shared, base, row_axis, col_axis, bytes);
    LirReg singles[MOST_OF_WORD];

    if (value->type.dtype == DT_BOOL && tir_is_pipeline(shared)) {
        bools_from_bytes(lo, value, shared, base, transposed);
        return;
    }
    if (tir_is_pipeline(shared) && bytes_from_words(lo, value, shared, base, transposed))
        return;
    if (bytes_by_twos(lo, value, shared, base, transposed))
        return;

    for (int32_t r = 0; r < n; r += run) {
        int32_t at[LAYOUT_RANK];
        LirOperand operands[5];
        layout_coordinates(layout, r, 0, 0, at);
        int32_t row = layout->rank == 2 ? at[row_axis] : 0;
        LirOperand address = lower_shared_address(lo, &place, row, at[col_axis] * bytes);
        LirReg guard = is_of_copied(lo, value, shared, at);
        int32_t words = run * bytes / 4;
        if (words == 0) {
            LirReg single = guard == 0 ? lir_new_reg(&lo->b, LIR_B16) : lower_zeroed(lo, LIR_B16);
            LirOperand load[] = {lir_reg(single), address};
            lir_emit(&lo->b, bytes == 2 ? LIR_LD_SHARED_U16 : LIR_LD_SHARED_U8, 1, 2, load)->guard =
                guard;
            /* (in place of those behind it, too: the last word may have fewer) */
            for (int32_t k = r % per_word; k < per_word; k++)
                singles[k] = single;
            if (r % per_word == per_word - 1 || r + 1 == n)
                lower_set_word(lo, value, r, lower_join_singles(lo, value->type.dtype, singles));
            continue;
        }
        for (int32_t w = 0; w < words; w++)
            operands[w] = lir_reg(guard == 0 ? lir_new_reg(&lo->b, LIR_B32)
                                             : lower_zeroed(lo, LIR_B32));
        operands[words] = address;
        lir_emit(&lo->b, by_words[words], (uint32_t)words, (uint32_t)words + 1, operands)->guard =
            guard;
        for (int32_t w = 0; w < words; w++)
            lower_set_word(lo, value, r + w * per_word, operands[w].reg);
    }
}

/* Zeros in all of a stage, for readers whose tiles reach past what is written. */
static void
clear_stage(Lowering *lo, const TirShared *shared, Elem base)
{
    LirBuilder *b = &lo->b;
    int32_t bytes = shared->layout->pitch * shared->layout->rows;
    int32_t stride = (int32_t)lo->fn->warps * WARP_LANES * 16;
    LirReg mine = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(lower_thread(lo)), lir_int(4));
    Elem place = lower_add(lo, elem_reg(mine), base);
    LirReg zero = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(0));

    for (int32_t at = 0; at < bytes; at += stride) {
        LirReg inside = 0;
        if (at + stride > bytes)
            inside = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(mine), lir_int(bytes - at));
        LirOperand operands[] = {lir_address(place.reg, place.integer + at), lir_reg(zero),
                                 lir_reg(zero), lir_reg(zero), lir_reg(zero)};
        lir_emit(b, LIR_ST_SHARED_V4, 0, 5, operands)->guard = inside;
    }
    lower_barrier(lo);
}

void
lower_shared_write(Lowering *lo, TirOp *op)
{
    const TirVal *value = op->args[1];
    const SharedLayout *layout = op->shared->layout;

    if (op->shared->kind == SHARED_PARTS &&
        op->shared->stages > 1) { /* the stage that was not written last */
        LirReg stage = lo->role->pipelines[op->shared->id].stage;
        LirOperand turn[] = {lir_reg(stage), lir_reg(stage), lir_int(1)};
        lir_emit(&lo->b, LIR_XOR_B32, 1, 3, turn);
    }
    Elem base = lower_stage_base(lo, op->shared, op->args[0]);

    if (value->type.rank == 2 &&
        (layout->rows > value->layout->shape[0] || layout->cols > value->layout->shape[1]))
        clear_stage(lo, op->shared, base);
    lower_tile_to_shared(lo, op->args[1], op->shared, base);
}

/* Where a part of a vector, or of a tile's rows, begins. */
static Elem
base_of_part(Lowering *lo, const TirOp *part, Elem base)
{
    const TirVal *one = part->results[0];
    int64_t bytes = (int64_t)one->type.dim[0] * element_bytes(one);

    if (one->type.rank == 2)
        bytes = (int64_t)one->type.dim[0] * view_source(one, &(bool){0})->shared->layout->pitch;
    if (part->integer >= 0)
        return lower_add(lo, base, elem_int(part->integer * bytes));
    base = lower_add(lo, base, lower_mul_const(lo, elem_reg(lo->role->group), bytes));
    return lower_add(lo, base, elem_int(-bytes));
}

void
lower_convert(Lowering *lo, TirOp *op)
{
    TirVal *from = op->args[0], *to = op->results[0];
    bool transposed;
    const TirOp *read = view_source(from, &transposed);

    if (read != NULL) {
        Elem base = lower_stage_base(lo, read->shared, read->args[0]);
        if (tir_is_pipeline(read->shared) && read->shared->each && lo->role->kind == ROLE_CONSUMER) {
            int64_t own = read->shared->bytes / read->shared->stages / tir_consumers(lo->fn->plan);
            base = lower_add(lo, base, lower_mul_const(lo, elem_reg(lo->role->group), own));
            base.integer -= own; /* groups are counted from 1 */
        }
        if (view_part(from) != NULL)
            base = base_of_part(lo, view_part(from), base);
        if (lo->role != NULL && lo->role->kind == ROLE_CORRECTION)
            base.integer += read->integer * read->shared->bytes / tir_consumers(lo->fn->plan);
        lower_tile_from_shared(lo, to, read->shared, base, transposed);
        return;
    }
    if (op->shared == NULL) {
        LaneMoves moves;
        if (layout_register_map(lo->arena, from->layout, to->layout) == NULL &&
            lower_registers(from) == lower_registers(to) &&
            layout_find_moves(lo->arena, from->layout, to->layout, lower_per_word(from), &moves))
            lower_moves(lo, from, to, &moves);
        return; /* else inside each thread: elements are found when asked for */
    }
    Elem base = lower_stage_base(lo, op->shared, NULL);
    if (to->layout->shape[0] > from->layout->shape[0] ||
        to->layout->shape[1] > from->layout->shape[1])
        clear_stage(lo, op->shared, base);
    lower_tile_to_shared(lo, from, op->shared, base);
    /* Of warps that hold copies one writes, so the others wait for it. */
    if (layout_warp_local(from->layout, to->layout) && !layout_copies_warps(from->layout)) {
        LirOperand all = lir_int(-1);
        lir_emit(&lo->b, LIR_BAR_WARP_SYNC, 0, 1, &all);
    } else {
        lower_barrier(lo);
    }
    lower_tile_from_shared(lo, to, op->shared, base, false);
}
