/* lower_staging.c - tiles that consumers leave to the reduce role (passes/schedule/roles_reduce.c)
 * in staging buffers.
 *
 * A consumer and its reduce warp meet at two named barriers, where the one waits and the other goes
 * on:
 *
 *     staging_write    { free: wait;  the tile;  full: arrive }
 *     staging_empty    { free: arrive }
 *     tma_reduce_add   { full: wait;  the addition;  until it is read }
 *
 * Where a warp group of the reduce role reads results in tensor memory itself, it is one more group
 * behind the consumers'.
 *
 * PTX ISA, "cp.reduce.async.bulk.tensor", "bar{.cta}.sync/arrive".
 */
#include "compiler/lower/lower.h"
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/tir_util.h"

/* ---- consumers ---- */

/* Consumer and reduce warp meet at a barrier of theirs: the one waits there, the other goes on. */
static void
meet(Lowering *lo, uint32_t first, bool waits)
{
    LirBuilder *b = &lo->b;
    LirReg number = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(lo->role->group), lir_int(first - 1));
    LirOperand some[] = {lir_reg(number), lir_int((int32_t)(lo->fn->warps + 1) * WARP_LANES)};

    lir_emit(b, waits ? LIR_BAR_SYNC_SOME : LIR_BAR_ARRIVE_SOME, 0, 2, some);
}

/* Where in the staging buffer an element lies: atom columns of 128 bytes, swizzled as for TMA. */
static LirReg
place_of(Lowering *lo, const TirShared *staging, Elem row, Elem col)
{
    LirBuilder *b = &lo->b;
    int32_t width = SWIZZLE_BYTES / 4, atom_column = staging->layout->rows * SWIZZLE_BYTES;
    LirReg r = lower_elem_reg(lo, row, LIR_B32), c = lower_elem_reg(lo, col, LIR_B32);
    LirReg which = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(c), lir_int(5));
    LirReg in = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(c), lir_int(width - 1));
    LirReg bytes = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(in), lir_int(2));
    LirReg turn = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(r), lir_int(7));
    turn = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(turn), lir_int(4));
    bytes = lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(bytes), lir_reg(turn));
    LirReg at = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(r), lir_int(SWIZZLE_BYTES), lir_reg(bytes));
    return lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(which), lir_int(atom_column), lir_reg(at));
}

/* Where a thread's part begins, if it is kept; else 0. */
static LirReg
kept_place(const Role *role, const TirOp *op)
{
    const Layout *layout = op->args[0]->layout;

    for (uint32_t k = 0; k < role->n_places; k++) {
        if (role->places[k].staging == op->shared && layout_eq(role->places[k].layout, layout))
            return role->places[k].at;
    }
    return 0;
}

/* ptxas would recompute this cheap address (some 25 instructions) in each iteration.  That it
 * depends on a parameter, which is always zero, keeps ptxas from doing so. */
static void
keep_place(Lowering *lo, const TirOp *op)
{
    Role *role = lo->role;

    if (role->n_places == MAX_KEPT_PLACES || kept_place(role, op) != 0)
        return;
    const Layout *layout = op->args[0]->layout;
    Elem row = lower_lane_part(lo, layout, 0), col = lower_lane_part(lo, layout, 1);
    LirReg at = place_of(lo, op->shared, row, col);
    LirReg none = lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(at), lir_reg(lower_zero(lo)));
    role->places[role->n_places++] = (KeptPlace){
        .staging = op->shared,
        .layout = layout,
        .at = lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(at), lir_reg(none))};
}

void
lower_keep_places(Lowering *lo, const TirBlock *block, bool in_loop)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == TIR_STAGING_WRITE && in_loop)
            keep_place(lo, op);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            lower_keep_places(lo, op->blocks[k], in_loop || op->op == TIR_FOR);
    }
}

/* The address of the element `row` rows and `col` columns behind a thread's first, which is at
 * `first` (0: not known), but for the constant part of the buffer's place. */
static LirOperand
address_behind(Lowering *lo, const TirOp *op, LirReg first, Elem base, int32_t row, int32_t col)
{
    const Layout *layout = op->args[0]->layout;
    bool split = (lower_lane_mask(layout, 0) & 7 & (uint32_t)row) == 0 &&
                 (lower_lane_mask(layout, 1) & (uint32_t)col) == 0;

    if (first != 0 && split) {
        int64_t offset;
        int32_t turn = lower_split_swizzle(op->shared->layout, row, col * 4, &offset);
        if (turn != 0)
            first = lir_op2(&lo->b, LIR_XOR_B32, LIR_B32, lir_reg(first), lir_int(turn));
        return lir_address(first, base.integer + offset);
    }
    int32_t whole = row / 8 * 8; /* rows 8 apart are swizzled alike: their distance is a constant */
    Elem own = lower_add(lo, lower_lane_part(lo, layout, 0), elem_int(row - whole));
    Elem there = lower_add(lo, lower_lane_part(lo, layout, 1), elem_int(col));
    Elem sum = lower_add(lo, elem_reg(place_of(lo, op->shared, own, there)), base);
    return lir_address(sum.reg, sum.integer + whole * SWIZZLE_BYTES);
}

void
lower_staging_write(Lowering *lo, TirOp *op)
{
    TirVal *value = op->args[0];
    int32_t n = lower_registers(value), at[LAYOUT_RANK];

    meet(lo, BARRIER_FREE, true);
    Elem base = lower_stage_base(lo, op->shared, NULL);
    LirReg first = kept_place(lo->role, op);
    if (first != 0 && base.kind == ELEM_REG) /* a multiple of what the swizzle spans */
        first = lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(first), lir_reg(base.reg));
    for (int32_t r = 0; r < n; r++) {
        layout_coordinates(value->layout, r, 0, 0, at);
        LirOperand operands[] = {address_behind(lo, op, first, base, at[0], at[1]),
                                 lir_reg(lower_elem_reg(lo, lower_elem(lo, value, r), LIR_F32))};
        lir_emit(&lo->b, LIR_ST_SHARED_B32, 0, 2, operands);
    }
    lir_emit(&lo->b, LIR_FENCE_PROXY_ASYNC, 0, 0, NULL);
    meet(lo, BARRIER_FULL, false);
}

/* ---- the reduce role ---- */

void
lower_staging_empty(Lowering *lo)
{
    meet(lo, BARRIER_FREE, false);
}

/* Whether a box that begins `column` columns behind a share's first lies in the tensor: where
 * shares reach over its end (plan_coop_k.c) there are some that do not, and TMA would read them all
 * the same.  0: all do. */
static LirReg
begins_inside(Lowering *lo, const TirOp *op, const LowerBox *box, int32_t column)
{
    TirDims last = tir_last_dim(op);
    int32_t all = last.length * (int32_t)tir_consumers(lo->fn->plan);
    Elem size = lower_dim_size(lo, op->tensor, last.dim);

    if (!last.range || size.kind != ELEM_INT || all <= size.integer)
        return 0;
    Elem at = lower_add(lo, box->at[0], elem_int(column));
    return lir_op2(&lo->b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(lower_elem_reg(lo, at, LIR_B32)),
                   lir_int(size.integer));
}

void
lower_tma_reduce_add(Lowering *lo, TirOp *op)
{
    const TirShared *staging = op->shared;
    LirBuilder *b = &lo->b;
    int32_t width = SWIZZLE_BYTES / 4, atom_column = staging->layout->rows * SWIZZLE_BYTES;
    LirReg asks = lir_new_reg(b, LIR_PRED);
    LirOperand elected = lir_reg(asks), none = lir_int(0), all = lir_int(-1);
    LowerBox box;

    lower_find_box(lo, op, &box);
    lower_end_box(lo, op, &box);
    Elem base = lower_stage_base(lo, staging, NULL);
    lower_map_address(lo, lo->maps[staging->id].name); /* before it waits */
    meet(lo, BARRIER_FULL, true);
    lir_emit(b, LIR_ELECT, 1, 1, &elected);
    for (int32_t p = 0; p < staging->layout->cols / width; p++) {
        LirReg inside = begins_inside(lo, op, &box, p * width), guard = asks;
        if (inside != 0)
            guard = lir_op2(b, LIR_AND_PRED, LIR_PRED, lir_reg(guard), lir_reg(inside));
        Elem from = lower_add(lo, base, elem_int(p * atom_column));
        lower_ask_for_column(lo, op, LIR_TMA_REDUCE_ADD_1, &box, guard, p * width, from);
    }
    lir_emit(b, LIR_BULK_COMMIT, 0, 0, NULL)->guard = asks;
    lir_emit(b, LIR_BULK_WAIT_READ, 0, 1, &none); /* of what this lane asked for */
    lir_emit(b, LIR_BAR_WARP_SYNC, 0, 1, &all);
}

void
lower_further_group(Lowering *lo, RoleKind kind, LirReg warp, uint32_t end)
{
    LirBuilder *b = &lo->b;
    const TirPlan *plan = lo->fn->plan;
    const TirRole *role = tir_role(plan, kind);
    uint32_t others = lir_new_label(b), first = tir_first_warp(plan, kind);
    int32_t entry = target_entry_registers(lo->px->target, first / GROUP_WARPS);
    LirOperand registers = lir_int(role->registers);
    Role before = *lo->role;

    LirReg computes = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(warp), lir_int(first));
    lir_branch(b, others, computes, false);
    lir_open(b, false);
    lower_section(lo, role->name, tir_role_span(lo->fn, role->program));
    lo->role->kind = kind;
    lo->role->group = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(1)); /* for the first consumer */
    lo->role->warp = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(warp), lir_int(GROUP_WARPS - 1));
    lir_emit(b, (int32_t)role->registers < entry ? LIR_SETMAXNREG_DEC : LIR_SETMAXNREG_INC, 0, 1,
             &registers);
    lo->role->first_lane = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lower_lane(lo)),
                                   lir_int(0));
    lower_tiles(lo, role->program);
    lower_end_tmem(lo);
    lir_branch(b, end, 0, false);
    lir_close(b);
    lir_label(b, others);
    *lo->role = before;
}
