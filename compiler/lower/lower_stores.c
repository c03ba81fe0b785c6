/* lower_stores.c - results that leave through shared memory, by TMA
 * (passes/schedule/roles_store.c).
 *
 * Through a staging buffer: a lane of the first warp waits until TMA has read the tile before, the
 * warp group writes some swizzle atom columns and synchronises, and the lane issues the stores.
 * Over a stage of a pipeline: each warp writes its own rows and issues their store, without waiting
 * for other warps; it waits until TMA has read them when it releases the stage (lower_pipelines.c).
 *
 * PTX ISA: "cp.async.bulk.tensor", "cp.async.bulk.wait_group"; "Async proxy": a thread's writes are
 * visible to asynchronous operations after a fence.proxy.async; waiting for a wgmma or for a copy
 * to shared memory implies such a fence.
 */
#include "compiler/lower/lower.h"
#include "compiler/lower/lower_access.h"

#include "compiler/ir/layout.h"
#include "compiler/passes/util/tir_util.h"

/* ---- who asks ---- */

LirReg
lower_elect(Lowering *lo)
{
    LirReg elected = lir_new_reg(&lo->b, LIR_PRED);
    LirOperand operand = lir_reg(elected);

    lir_emit(&lo->b, LIR_ELECT, 1, 1, &operand);
    return elected;
}

/* One thread of the warp group issues the stores and waits until they have read: an elected lane of
 * the first warp, always the same.  Between begin and end only its instructions are guarded; a
 * branch around them keeps the other warps out and every warp converged. */
static LirReg
begin_asking(Lowering *lo, uint32_t *end)
{
    LirBuilder *b = &lo->b;

    *end = lir_new_label(b);
    lir_branch(b, *end, lo->role->first_warp, true);
    lir_open(b, false);
    return lower_elect(lo);
}

static void
end_asking(Lowering *lo, uint32_t end)
{
    lir_close(&lo->b);
    lir_label(&lo->b, end);
}

/* ---- tiles ---- */

/* Whether a register's elements are neighbours in a row. */
static bool
has_words(const TirVal *value)
{
    const Layout *layout = value->layout;
    int32_t each = lower_per_word(value);

    return each == 1 || (layout->reg.n > 0 && layout->reg.at[0].step[1] == 1 &&
                         layout->reg.at[0].extent % each == 0);
}

/* The swizzle atom column that begins at column `first` of a tile, to a swizzle atom column's place
 * in shared memory: rows of 128 bytes, swizzled as TMA reads them.  `row`, `col`: of the thread.
 * Neighbouring lanes may lie in several swizzle atom columns, and of threads that hold copies one
 * writes. */
static void
write_atom_column(Lowering *lo, TirVal *value, int32_t first, Elem base, Elem row, Elem col)
{
    LirBuilder *b = &lo->b;
    const Layout *layout = value->layout;
    int32_t element = (int32_t)dtype_bits(value->type.dtype) / 8, n = lower_registers(value);
    int32_t width = SWIZZLE_BYTES / element, at[LAYOUT_RANK];
    int32_t reach = lower_column_reach(layout);
    int32_t each = lower_per_word(value);
    bool words = has_words(value);
    LirReg owner = lower_first_copy(lo, layout);

    for (int32_t r = 0; r < n; r += words ? each : 1) {
        layout_coordinates(layout, r, 0, 0, at);
        if (at[1] + reach < first || at[1] >= first + width)
            continue;
        LirReg own = lower_elem_reg(lo, lower_add(lo, row, elem_int(at[0] % 8)), LIR_B32);
        Elem place = lower_add(lo, col, elem_int(at[1] - first));
        LirReg guard = owner;
        if (at[1] < first || at[1] + reach >= first + width) {
            LirOperand column = lir_reg(lower_elem_reg(lo, place, LIR_B32));
            LirReg begun = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, column, lir_int(0));
            LirReg inside = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, column, lir_int(width));
            guard = access_both(lo, guard, access_both(lo, begun, inside));
        }
        LirReg bytes = lower_elem_reg(lo, lower_mul_const(lo, place, element), LIR_B32);
        LirReg turn = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(own), lir_int(7));
        turn = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(turn), lir_int(4));
        bytes = lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(bytes), lir_reg(turn));
        LirReg to = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(own), lir_int(SWIZZLE_BYTES),
                            lir_reg(bytes));
        Elem sum = lower_add(lo, elem_reg(to), base);
        /* Rows 8 apart are swizzled alike: their distance is a constant. */
        LirOperand operands[] = {lir_address(sum.reg, sum.integer + at[0] / 8 * 8 * SWIZZLE_BYTES),
                                 {0}};
        LirOpcode store = words          ? LIR_ST_SHARED_B32
                          : element == 2 ? LIR_ST_SHARED_U16
                                         : LIR_ST_SHARED_U8;
        if (each == 1)
            operands[1] = lir_reg(
                lower_elem_reg(lo, lower_elem(lo, value, r), lower_class(value->type.dtype)));
        else
            operands[1] = lir_reg(
                words ? lower_word(lo, value, r)
                      : lower_single(lo, lower_word(lo, value, r), 8 * element, r % each));
        lir_emit(b, store, 0, 2, operands)->guard = guard;
    }
}

/* ---- stores ---- */

/* Asks by a map for what is done with a box, where `asks` holds. */
static void
ask_by(Lowering *lo, LirOpcode of_one, LirReg map, const LowerBox *box, LirReg asks, int32_t column,
       Elem from)
{
    LirOperand operands[BOX_RANK + 2] = {lir_reg(map)};
    uint32_t k = 1;

    k += lower_box_coordinates(lo, box, column, operands + k);
    operands[k++] = lir_address(from.reg, from.integer);
    lir_emit(&lo->b, lower_of_rank(of_one, box->rank), 0, k, operands)->guard = asks;
}

static LirReg
where_both(Lowering *lo, LirReg a, LirReg b)
{
    return lir_op2(&lo->b, LIR_AND_PRED, LIR_PRED, lir_reg(a), lir_reg(b));
}

void
lower_ask_for_column(Lowering *lo, const TirOp *op, LirOpcode of_one, const LowerBox *box,
                     LirReg asks, int32_t column, Elem from)
{
    BoxBefore before;
    bool may_begin_before = lower_begin_before(lo, op, box, &before);

    if (may_begin_before) {
        lower_begin_lines(lo, op, box, &before);
        Elem row = lower_mul_const(lo, elem_reg(before.number), SWIZZLE_BYTES);
        LirReg map = lower_map_address(lo, lo->line_maps[op->shared->id].name);
        Elem line = lower_add(lo, row, from);
        LirReg there = where_both(lo, asks, before.there);
        ask_by(lo, of_one, map, &before.line, there, column, line);
        lower_begin_within(lo, &before);
    }
    LirReg map = lower_map_address(lo, lo->maps[op->shared->id].name);
    LirReg some = lower_box_some(lo, op, box, column);
    if (some != 0)
        asks = where_both(lo, asks, some);
    ask_by(lo, of_one, map, box, asks, column, from);
    if (may_begin_before)
        lower_end_within(lo, &before);
}

static void
store_staged(Lowering *lo, TirOp *op)
{
    TirVal *value = op->args[op->n_args - 1];
    const TirShared *staging = op->shared;
    LirBuilder *b = &lo->b;
    int32_t width = SWIZZLE_BYTES * 8 / (int32_t)dtype_bits(value->type.dtype);
    int32_t atom_columns = value->type.dim[1] / width, places = staging->layout->cols / width;
    Elem base = lower_stage_base(lo, staging, NULL);
    Elem row = lower_lane_part(lo, value->layout, 0), col = lower_lane_part(lo, value->layout, 1);
    uint32_t end;
    LowerBox box;

    lower_find_box(lo, op, &box);
    lower_end_box(lo, op, &box);
    for (int32_t p = 0; p < atom_columns; p++) {
        /* what was stored from here before has been read; a tile begins at the first place again */
        LirOperand running = lir_int(p == 0 && atom_columns % places != 0 ? 0 : places - 1);
        Elem here = base;
        here.integer += (int64_t)(p % places) * staging->layout->rows * SWIZZLE_BYTES;
        LirReg asks = begin_asking(lo, &end);
        lir_emit(b, LIR_BULK_WAIT_READ, 0, 1, &running)->guard = asks;
        end_asking(lo, end);
        lower_barrier(lo);
        /* (where consumers issue products themselves, and rows are words: word by word, which was
         * measured) */
        if ((lo->fn->plan->tmem_columns == 0 && has_words(value)) ||
            !lower_columns_to_shared(lo, value, staging, here, p * width, width))
            write_atom_column(lo, value, p * width, here, row, col);
        lir_emit(b, LIR_FENCE_PROXY_ASYNC, 0, 0, NULL);
        lower_barrier(lo);
        asks = begin_asking(lo, &end);
        lower_ask_for_column(lo, op, LIR_TMA_STORE_1, &box, asks, p * width, here);
        lir_emit(b, LIR_BULK_COMMIT, 0, 0, NULL)->guard = asks;
        end_asking(lo, end);
    }
}

/* Whether every warp holds the rows that it asks for: those of its first element and of its last
 * one, and between them. */
static bool
has_own_rows(const Lowering *lo, const TirVal *value)
{
    const Layout *layout = value->layout;
    int32_t rows = value->type.dim[0] / (int32_t)lo->fn->warps, n = layout_registers(layout);
    bool own = true;

    for (int32_t warp = 0; warp < (int32_t)lo->fn->warps && own; warp++) {
        int32_t first[LAYOUT_RANK], last[LAYOUT_RANK];
        layout_coordinates(layout, 0, 0, warp, first);
        layout_coordinates(layout, n - 1, WARP_LANES - 1, warp, last);
        own = first[0] / rows == warp && last[0] / rows == warp;
    }
    return own;
}

/* Over a stage of a pipeline, which has room for the whole result, and from which no store has been
 * issued since it was filled.  A warp that writes rows which other warps' products have read must
 * wait for these warps. */
static void
store_over(Lowering *lo, TirOp *op)
{
    TirVal *value = op->args[op->n_args - 1];
    const TirShared *staging = op->shared;
    LirBuilder *b = &lo->b;
    int32_t width = SWIZZLE_BYTES * 8 / (int32_t)dtype_bits(value->type.dtype);
    int32_t rows = value->type.dim[0] / (int32_t)lo->fn->warps;
    bool own = has_own_rows(lo, value);
    Elem base = lower_stage_base(lo, staging, NULL);
    uint32_t order[TENSOR_MAX_RANK];
    LirOperand all = lir_int(-1);
    LowerBox box;

    lower_find_box(lo, op, &box);
    tir_box_order(op, order);
    Elem first = lower_mul_const(lo, elem_reg(lo->role->warp), rows);
    for (uint32_t d = 1; d < box.rank; d++) {
        if (tir_dim(op, order[d]).range)
            box.at[d] = lower_add(lo, box.at[d], first);
    }
    lower_end_box(lo, op, &box);
    if (!own)
        lower_barrier(lo);
    lower_tile_to_shared(lo, value, staging, base);
    lir_emit(b, LIR_FENCE_PROXY_ASYNC, 0, 0, NULL);
    if (own)
        lir_emit(b, LIR_BAR_WARP_SYNC, 0, 1, &all);
    else
        lower_barrier(lo);
    LirReg asks = lower_elect(lo);
    base = lower_add(lo, base,
                     lower_mul_const(lo, elem_reg(lo->role->warp), (int64_t)rows * SWIZZLE_BYTES));
    for (int32_t p = 0; p < value->type.dim[1] / width; p++) {
        Elem from = lower_add(lo, base,
                              elem_int((int64_t)p * staging->layout->rows * SWIZZLE_BYTES));
        lower_ask_for_column(lo, op, LIR_TMA_STORE_1, &box, asks, p * width, from);
    }
    lir_emit(b, LIR_BULK_COMMIT, 0, 0, NULL)->guard = asks;
}

void
lower_tma_store(Lowering *lo, TirOp *op)
{
    if (op->shared->over != NULL)
        store_over(lo, op);
    else
        store_staged(lo, op);
}

void
lower_end_stores(Lowering *lo)
{
    LirOperand none = lir_int(0);
    bool aliased = false;
    uint32_t end;

    if (!has_operation(lo->fn->body, TIR_TMA_STORE))
        return;
    for (uint32_t k = 0; k < lo->fn->shared.n; k++)
        aliased = aliased || lo->fn->shared.at[k]->over != NULL;
    if (aliased) { /* every warp has asked */
        LirReg asks = lower_elect(lo);
        lir_emit(&lo->b, LIR_BULK_WAIT, 0, 1, &none)->guard = asks;
        return;
    }
    LirReg asks = begin_asking(lo, &end);
    lir_emit(&lo->b, LIR_BULK_WAIT, 0, 1, &none)->guard = asks;
    end_asking(lo, end);
}
