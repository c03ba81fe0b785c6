/* lower_copies.c - tiles from global to shared memory by asynchronous copies. */
#include "compiler/lower/lower_access.h"
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/tir_util.h"

typedef struct CopyPlan {
    Access access;
    const TirShared *shared;
    Elem stage_base;
    int32_t rows, cols;  /* physical extents of the buffer, in rows and chunks */
    int32_t chunk;       /* bytes of one copy */
    int32_t tile_chunks; /* chunks that hold elements of the tile; the rest is padding */
    int32_t threads;
} CopyPlan;

static int32_t
copy_chunk(const Access *access)
{
    int32_t row_bytes = access->col.length * access->bytes;
    int64_t start = access->col.start == NULL ? 16 : tir_factor(access->col.start);

    for (int32_t chunk = 16; chunk > 4; chunk /= 2) {
        if (access->tensor->align % (uint32_t)chunk == 0 && row_bytes % chunk == 0 &&
            start * access->bytes % chunk == 0)
            return chunk;
    }
    return 4;
}

/* How many elements from `column` on there are, `rest` by the tensor's end, and limit `k`. */
static LirReg
limited_rest(Lowering *lo, const Axis *col, uint32_t k, Elem column, LirReg rest)
{
    LirReg end = lower_elem_reg(lo, col->limits[k].count, LIR_B32);
    LirReg at = lower_elem_reg(lo, column, LIR_B32);

    /* it may be huge */
    end = lir_op2(&lo->b, LIR_MIN_S32, LIR_B32, lir_reg(end), lir_int(col->length));
    end = lir_op2(&lo->b, LIR_SUB_S32, LIR_B32, lir_reg(end), lir_reg(at));
    return lir_op2(&lo->b, LIR_MIN_S32, LIR_B32, lir_reg(end), lir_reg(rest));
}

/* Bytes of chunk `first + chunk` inside the tile.  A copy must not read more, since there may be no
 * memory behind a tensor's last row; the rest of the chunk is filled with zeros. */
static LirOperand
tile_bytes(Lowering *lo, const CopyPlan *plan, int32_t first, int32_t width, Elem chunk)
{
    int32_t cut = plan->access.col.length * plan->access.bytes % plan->chunk;
    int32_t last = plan->tile_chunks - 1; /* that has `cut` bytes */

    if (first > last)
        return lir_int(0);
    if (cut == 0 || first + width <= last)
        return lir_int(plan->chunk);
    if (chunk.kind == ELEM_INT) /* the panel is the last chunk */
        return lir_int(cut);
    LirReg is_last = lir_op2(&lo->b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(chunk.reg),
                             lir_int(last - first));
    return lir_reg(lir_op3(&lo->b, LIR_SEL_B32, LIR_B32, lir_int(cut), lir_int(plan->chunk),
                           lir_reg(is_last)));
}

/* Those that lie inside the tensor, too, and in front of all limits. */
static LirOperand
inside_bytes(Lowering *lo, const CopyPlan *plan, int32_t first, Elem chunk, LirOperand in_tile)
{
    LirBuilder *b = &lo->b;
    const Axis *col = &plan->access.col;
    int32_t bytes = plan->access.bytes;
    Elem column = lower_add(lo, lower_mul_const(lo, chunk, plan->chunk / bytes),
                            elem_int(first * plan->chunk / bytes));
    Elem start = col->start == NULL ? elem_int(0) : lower_elem(lo, col->start, 0);
    LirReg from = lower_elem_reg(lo, lower_add(lo, start, column), LIR_B32);
    LirReg size = lower_elem_reg(lo, col->size, LIR_B32);
    LirReg rest = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(size), lir_reg(from));

    for (uint32_t k = 0; k < col->n_limits; k++)
        rest = limited_rest(lo, col, k, column, rest);
    /* at most a chunk before it is counted in bytes: a loop that hides all begins near 2^31, and
     * sizes end there */
    int32_t most = in_tile.kind == LIR_INT ? (int32_t)in_tile.integer : plan->chunk;
    rest = lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(rest), lir_int(0));
    rest = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(rest), lir_int(most / bytes));
    rest = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(rest), lir_int(bytes));
    if (in_tile.kind != LIR_INT)
        rest = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(rest), in_tile);
    if (!col->not_negative) { /* a chunk that begins before the row is all outside */
        LirReg inside = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(from), lir_int(0));
        rest = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(rest), lir_int(0), lir_reg(inside));
    }
    return lir_reg(rest);
}

/* Copies chunks [first, first + width) of each row; width is a power of two. */
static void
copy_panel(Lowering *lo, const CopyPlan *plan, int32_t first, int32_t width, bool bounded)
{
    LirBuilder *b = &lo->b;
    const Access *access = &plan->access;
    LirReg thread = lower_thread(lo);
    int32_t shift = 0, per_pass = plan->threads / width;
    bool padding = first >= plan->tile_chunks;

    while (1 << shift < width)
        shift++;
    Elem row = elem_reg(lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(thread), lir_int(shift)));
    Elem chunk = elem_reg(lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(thread), lir_int(width - 1)));
    if (width == 1)
        chunk = elem_int(0);
    SharedPlace place = {.layout = plan->shared->layout, .base = plan->stage_base};
    place.lane_row = row;
    place.lane_byte = lower_mul_const(lo, chunk, plan->chunk);
    place.row_mask = (uint32_t)per_pass - 1;
    place.byte_mask = (uint32_t)((width - 1) * plan->chunk);

    /* The thread's first address, the step from pass to pass. */
    LirReg address = access->base, step = 0;
    int32_t column_bytes = first * plan->chunk;
    if (!padding) {
        LirReg part = access_plus(lo, 0, access_term(lo, chunk, 0, plan->chunk));
        if (access->row.there && access->row.n_parts == 0) {
            part = access_plus(lo, part, access_term(lo, row, access->row.stride, access->bytes));
            step = access->row.stride == 0
                       ? 0
                       : lir_op2(b, LIR_MUL_S64, LIR_B64, lir_reg(access->row.stride),
                                 lir_int(per_pass));
        }
        address = lir_op2(b, LIR_ADD_S64, LIR_B64, lir_reg(access->base), lir_reg(part));
    }
    LirOperand bytes = tile_bytes(lo, plan, first, width, chunk);
    if (!padding && bounded && (!access->col.full || access_is_cut(&access->col)))
        bytes = inside_bytes(lo, plan, first, chunk, bytes);
    for (int32_t done = 0; done < plan->rows; done += per_pass) {
        LirReg guard = 0;
        if (first + width > plan->cols) /* of one row */
            guard = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(chunk.reg), lir_int(plan->cols));
        else if (done + per_pass > plan->rows)
            guard = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(row.reg),
                            lir_int(plan->rows - done));
        LirOperand size = bytes;
        if (!padding && (bounded || plan->rows > access->row.length)) {
            LirReg valid = bounded ? access->inside : 0;
            if (access->row.there) {
                Axis axis = access->row;
                axis.full = axis.full || !bounded;
                axis.n_limits = bounded ? axis.n_limits : 0;
                valid = access_both(lo, valid,
                                    access_axis_guard(lo, &axis, row, done, 1, plan->rows));
            }
            if (valid != 0)
                size = lir_reg(lir_op3(b, LIR_SEL_B32, LIR_B32, bytes, lir_int(0), lir_reg(valid)));
        }
        LirReg from = address;
        if (!padding && access->row.n_parts > 0) {
            LirReg far = access_pack_offset(lo, &access->row, lower_add(lo, row, elem_int(done)),
                                            access->bytes);
            from = far == 0 ? address /* a pack of one element */
                            : lir_op2(b, LIR_ADD_S64, LIR_B64, lir_reg(address), lir_reg(far));
        }
        LirOperand operands[] = {lower_shared_address(lo, &place, done, first * plan->chunk),
                                 lir_address(from, padding ? 0 : column_bytes), size};
        bool full = size.kind == LIR_INT && size.integer == 16;
        LirOpcode op = full                ? LIR_CP_ASYNC_16_FULL
                       : plan->chunk == 16 ? LIR_CP_ASYNC_16
                       : plan->chunk == 8  ? LIR_CP_ASYNC_8
                                           : LIR_CP_ASYNC_4;
        lir_emit(b, op, 0, full ? 2 : 3, operands)->guard = guard;
        if (step != 0 && done + per_pass < plan->rows)
            address = lir_op2(b, LIR_ADD_S64, LIR_B64, lir_reg(address), lir_reg(step));
    }
}

static void
copy_panels(Lowering *lo, const CopyPlan *plan, bool bounded)
{
    if (plan->rows == 1 && plan->cols <= plan->threads && plan->cols == plan->tile_chunks &&
        (plan->cols & (plan->cols - 1)) != 0) { /* one chunk a thread, as far as there are some */
        copy_panel(lo, plan, 0, plan->threads, bounded);
        return;
    }
    for (int32_t first = 0; first < plan->cols;) {
        int32_t end = first < plan->tile_chunks ? plan->tile_chunks : plan->cols;
        int32_t width = 1;
        while (width * 2 <= end - first && width * 2 <= plan->threads)
            width *= 2;
        copy_panel(lo, plan, first, width, bounded);
        first += width;
    }
}

/* Of a copy by the threads of a role; to a pipeline, by one warp of the producer. */
static CopyPlan
plan_copy(Lowering *lo, TirOp *op)
{
    bool pipeline = tir_is_pipeline(op->shared);
    CopyPlan plan = {.access = access_begin(lo, op), .shared = op->shared};
    const Access *access = &plan.access;
    const SharedLayout *layout = op->shared->layout;

    plan.stage_base = lower_stage_base(lo, op->shared, pipeline ? NULL : op->args[0]);
    plan.threads = pipeline ? WARP_LANES : (int32_t)lo->fn->warps * WARP_LANES;
    plan.chunk = copy_chunk(access);
    plan.rows = layout->rows;
    plan.tile_chunks = (access->col.length * access->bytes + plan.chunk - 1) / plan.chunk;
    plan.cols = layout->cols * access->bytes / plan.chunk;
    if (pipeline && !access->row.there)
        plan.cols = plan.tile_chunks;
    return plan;
}

void
lower_copies(Lowering *lo, uint32_t n, TirOp *const *ops)
{
    LirBuilder *b = &lo->b;
    CopyPlan *plans = arena_array(lo->arena, CopyPlan, n);
    LirReg whole = 0;
    bool testable = lo->b.share && lo->role == NULL; /* warp groups stay together */

    /* When all the tiles lie inside their tensors, one uniform test replaces all others. */
    for (uint32_t k = 0; k < n; k++) {
        bool has_test;
        lo->b.span = ops[k]->span;
        plans[k] = plan_copy(lo, ops[k]);
        whole = access_both(lo, whole, access_tile_guard(lo, &plans[k].access, &has_test));
        testable = testable && has_test;
    }
    if (whole == 0 || !testable) {
        for (uint32_t k = 0; k < n; k++)
            copy_panels(lo, &plans[k], whole != 0);
        return;
    }
    uint32_t slow = lir_new_label(b), end = lir_new_label(b);
    lir_branch(b, slow, whole, true);
    lir_open(b, false);
    for (uint32_t k = 0; k < n; k++)
        copy_panels(lo, &plans[k], false);
    lir_branch(b, end, 0, false);
    lir_close(b);
    lir_label(b, slow);
    lir_open(b, false);
    for (uint32_t k = 0; k < n; k++)
        copy_panels(lo, &plans[k], true);
    lir_close(b);
    lir_label(b, end);
}
