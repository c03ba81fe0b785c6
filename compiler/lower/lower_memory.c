/* lower_memory.c - tiles between global memory and registers or shared memory. */
#include "compiler/lower/lower_access.h"
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/tir_util.h"

/* From so many rows of a thread on, each row's address is computed from the one before, since addresses kept for
 * all rows take too many registers. */
enum { MANY_ROWS = 16 };

/* ---- registers ---- */

typedef struct RegisterAccess {
    Access access;
    const Layout *layout;
    uint32_t row_axis, col_axis; /* of the tile */
    Elem lane_row, lane_col;
    LirReg thread_base; /* address of the thread's first element */
    int32_t vector;     /* elements an instruction moves .. */
    LirReg aligned;     /* .. where the tile's rows begin at as many; 0: they do */
    /* the address of its element in row `row`, for the next ones; 0: each row's .. */
    LirReg row_base;
    int32_t row; /* .. is found from the first one's */
} RegisterAccess;

/* Of rows that begin at multiples of `align` bytes. */
static int32_t
vector_length(const Access *access, const Layout *layout, uint32_t col_axis, uint32_t align)
{
    int32_t vector = 1;

    /* bools live in predicates: nothing packs four of them into a word */
    if (access->tensor->dtype == DT_BOOL || layout->reg.n == 0 ||
        layout->reg.at[0].step[col_axis] != 1 || access->col.dim + 1 != access->tensor->rank ||
        access_is_cut_by_parts(&access->col))
        return 1;
    int64_t start = access->col.start == NULL ? 16 : tir_factor(access->col.start);
    for (int32_t v = 2; v * access->bytes <= ACCESS_BYTES; v *= 2) {
        bool fits = layout->reg.at[0].extent % v == 0 &&
                    align % (uint32_t)(v * access->bytes) == 0 && start % v == 0;
        const DigitList *lists[] = {&layout->lane, &layout->warp};
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t i = 0; i < lists[k]->n; i++)
                fits = fits && lists[k]->at[i].step[col_axis] % v == 0;
        }
        for (uint32_t i = 1; i < layout->reg.n; i++)
            fits = fits && layout->reg.at[i].step[col_axis] % v == 0;
        if (!fits)
            break;
        vector = v;
    }
    return vector;
}

/* Nothing promises where a tensor's rows begin, but mostly they begin at 16 bytes: one test decides, and the code has both
 * ways.  Not for small tiles, of which a thread has less than that; and roles have few registers. */
static void
test_alignment(RegisterAccess *ra, const TirOp *op)
{
    Access *access = &ra->access;
    Lowering *lo = access->lo;
    LirBuilder *b = &lo->b;
    int32_t most = vector_length(access, ra->layout, ra->col_axis, ACCESS_BYTES);

    if ((op->op != TIR_LOAD && op->op != TIR_STORE) || lo->role != NULL || access->n_lists > 0 ||
        access->row.n_parts > 0 || access->col.n_parts > 0 || most <= ra->vector ||
        most * access->bytes < ACCESS_BYTES)
        return;
    LirReg bits = lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(access->base));
    if (ra->layout->rank == 2 && access->row.stride != 0) {
        LirReg stride = lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(access->row.stride));
        bits = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(bits), lir_reg(stride));
    }
    bits = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(bits), lir_int(most * access->bytes - 1));
    ra->vector = most;
    ra->aligned = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(bits), lir_int(0));
}

static RegisterAccess
begin_registers(Lowering *lo, TirOp *op, const Layout *layout)
{
    RegisterAccess ra = {.access = access_begin(lo, op), .layout = layout};
    Access *access = &ra.access;
    LirBuilder *b = &lo->b;

    ra.col_axis = layout->rank == 2 ? 1 : 0;
    ra.lane_row = ra.lane_col = elem_int(0);
    ra.thread_base = access->base;
    ra.vector = 1;
    if (layout->rank == 0)
        return ra;
    ra.lane_col = lower_lane_part(lo, layout, ra.col_axis);
    LirReg part = 0;
    if (ra.lane_col.kind == ELEM_REG && access->col.n_parts == 0)
        part = access_plus(lo, 0, access_term(lo, ra.lane_col, access->col.stride, access->bytes));
    if (layout->rank == 2) {
        ra.lane_row = lower_lane_part(lo, layout, 0);
        if (ra.lane_row.kind == ELEM_REG && access->row.n_parts == 0)
            part = access_plus(lo, part,
                               access_term(lo, ra.lane_row, access->row.stride, access->bytes));
    }
    if (part != 0)
        ra.thread_base = lir_op2(b, LIR_ADD_S64, LIR_B64, lir_reg(access->base), lir_reg(part));
    ra.vector = vector_length(access, layout, ra.col_axis, access->tensor->align);
    test_alignment(&ra, op);
    return ra;
}

/* The address of the thread's first element in a row: the last one's, and the rows between. */
static LirReg
next_row(RegisterAccess *ra, int32_t row)
{
    LirBuilder *b = &ra->access.lo->b;
    LirReg stride = ra->access.row.stride;

    if (row != ra->row) {
        LirReg step = lir_op2(b, LIR_MUL_S64, LIR_B64, lir_reg(stride), lir_int(row - ra->row));
        ra->row_base = lir_op2(b, LIR_ADD_S64, LIR_B64, lir_reg(ra->row_base), lir_reg(step));
        ra->row = row;
    }
    return ra->row_base;
}

static LirOperand
register_address(RegisterAccess *ra, int32_t reg)
{
    Lowering *lo = ra->access.lo;
    LirBuilder *b = &lo->b;
    int32_t at[LAYOUT_RANK] = {0, 0};
    LirReg base = access_place(&ra->access, ra->layout, reg, ra->thread_base);
    int64_t offset = 0;

    layout_coordinates(ra->layout, reg, 0, 0, at);
    const struct {
        const Axis *axis;
        Elem lane;
        int32_t constant;
    } parts[] = {{&ra->access.row, ra->lane_row, ra->layout->rank == 2 ? at[0] : 0},
                 {&ra->access.col, ra->lane_col, ra->layout->rank > 0 ? at[ra->col_axis] : 0}};
    for (uint32_t k = 0; k < 2; k++) {
        if (k == 0 && ra->row_base != 0) {
            base = next_row(ra, parts[k].constant);
            continue;
        }
        if (parts[k].axis->n_parts > 0) {
            Elem row = lower_add(lo, parts[k].lane, elem_int(parts[k].constant));
            LirReg far = access_pack_offset(lo, parts[k].axis, row, ra->access.bytes);
            if (far != 0)
                base = lir_op2(b, LIR_ADD_S64, LIR_B64, lir_reg(base), lir_reg(far));
            continue;
        }
        if (parts[k].constant == 0)
            continue;
        if (parts[k].axis->stride == 0) {
            offset += (int64_t)parts[k].constant * ra->access.bytes;
        } else {
            LirReg step = lir_op2(b, LIR_MUL_S64, LIR_B64, lir_reg(parts[k].axis->stride),
                                  lir_int(parts[k].constant));
            base = lir_op2(b, LIR_ADD_S64, LIR_B64, lir_reg(base), lir_reg(step));
        }
    }
    return lir_address(base, offset);
}

/* A predicate for registers reg .. reg + count - 1 (neighbours in a row); 0: always. */
static LirReg
register_guard(RegisterAccess *ra, int32_t reg, int32_t count)
{
    Lowering *lo = ra->access.lo;
    const Layout *layout = ra->layout;
    LirReg guard = ra->access.inside;
    int32_t at[LAYOUT_RANK] = {0, 0};

    layout_coordinates(layout, reg, 0, 0, at);
    guard = access_both(lo, guard, access_place_guard(&ra->access, layout, reg));
    if (layout->rank == 2)
        guard = access_both(
            lo, guard,
            access_axis_guard(lo, &ra->access.row, ra->lane_row, at[0], 1, layout->shape[0]));
    if (layout->rank > 0)
        guard = access_both(lo, guard,
                            access_axis_guard(lo, &ra->access.col, ra->lane_col, at[ra->col_axis],
                                              count, layout->shape[ra->col_axis]));
    return guard;
}

static const LirOpcode load_words[] = {0, LIR_LD_GLOBAL_B32, LIR_LD_GLOBAL_V2, 0, LIR_LD_GLOBAL_V4};
static const LirOpcode store_words[] = {0, LIR_ST_GLOBAL_B32, LIR_ST_GLOBAL_V2, 0, LIR_ST_GLOBAL_V4};

LirReg
lower_zeroed(Lowering *lo, LirClass class)
{
    LirReg reg = lir_new_mutable(&lo->b, class);
    LirOperand operands[] = {lir_reg(reg), lir_int(0)};
    if (class == LIR_B16) { /* there is no move of an immediate narrower than 16 bits: fine */
        LirReg zero = lir_op1(&lo->b, LIR_MOV_B32, LIR_B32, lir_int(0));
        LirOperand halves[] = {lir_reg(reg), lir_reg(lir_new_reg(&lo->b, LIR_B16)), lir_reg(zero)};
        lir_emit(&lo->b, LIR_UNPACK_B32, 2, 3, halves);
    } else {
        lir_emit(&lo->b, LIR_MOV_B32, 1, 2, operands);
    }
    return reg;
}

static LirOpcode
single_load(const RegisterAccess *ra)
{
    return ra->access.bytes == 1   ? LIR_LD_GLOBAL_U8
           : ra->access.bytes == 2 ? LIR_LD_GLOBAL_U16
                                   : LIR_LD_GLOBAL_B32;
}

/* One element by itself: 8, 16 or 32 bits. */
static LirReg
load_single(RegisterAccess *ra, int32_t reg)
{
    Lowering *lo = ra->access.lo;
    LirReg guard = register_guard(ra, reg, 1);
    LirReg to = lower_zeroed(lo, ra->access.bytes == 4 ? LIR_B32 : LIR_B16);
    LirOperand operands[] = {lir_reg(to), register_address(ra, reg)};
    lir_emit(&lo->b, single_load(ra), 1, 2, operands)->guard = guard;
    return to;
}

static void
load_singles(RegisterAccess *ra, TirVal *value)
{
    Lowering *lo = ra->access.lo;
    int32_t n = lower_registers(value), each = lower_per_word(value);
    LirReg singles[MOST_OF_WORD];

    for (int32_t r = 0; r < n; r += each) {
        for (int32_t k = 0; k < each; k++)
            singles[k] = r + k < n ? load_single(ra, r + k) : lower_zeroed(lo, LIR_B16);
        LirReg word = singles[0];
        if (each > 1)
            word = lower_join_singles(lo, value->type.dtype, singles);
        else if (ra->access.bytes < 4)
            word = lir_op2(&lo->b, LIR_PACK_B32, LIR_B32, lir_reg(word),
                           lir_reg(lower_zeroed(lo, LIR_B16)));
        lower_set_word(lo, value, r, word);
    }
}

/* Whether a vector may lie across the end of its row: the tensor's, or the tile's where the layout has more. */
static bool
may_straddle(const RegisterAccess *ra)
{
    const Axis *col = &ra->access.col;
    if (access_is_cut(col) || ra->aligned != 0)
        return true;
    if (ra->layout->shape[ra->col_axis] > col->length && col->length % ra->vector != 0)
        return true;
    return !col->full && (col->size.kind != ELEM_INT || col->size.integer % ra->vector != 0);
}

void
lower_load(Lowering *lo, TirOp *op)
{
    TirVal *value = op->results[0];
    Layout scalar = {.rank = 0};
    RegisterAccess ra = begin_registers(lo, op, value->type.rank == 0 ? &scalar : value->layout);
    int32_t n = lower_registers(value), words = ra.vector * ra.access.bytes / 4;

    if (words == 0) {
        load_singles(&ra, value);
        return;
    }
    /* What no program of the launch writes is loaded once where several copies depend on it. */
    bool asks = lo->role != NULL && (lo->role->producer || lo->role->reduces);
    if (asks && value->type.rank == 0 && words == 1 && op->tensor->mode == TENSOR_IN) {
        LirReg guard = register_guard(&ra, 0, 1);
        lower_set_word(
            lo, value, 0,
            lir_load_or_zero(&lo->b, LIR_LD_GLOBAL_B32, LIR_B32, register_address(&ra, 0), guard));
        return;
    }
    for (int32_t r = 0; r < n; r += ra.vector) {
        LirReg guard = access_both(lo, register_guard(&ra, r, ra.vector), ra.aligned);
        LirOperand operands[5];
        for (int32_t w = 0; w < words; w++)
            operands[w] = lir_reg(guard == 0 ? lir_new_reg(&lo->b, LIR_B32)
                                             : lower_zeroed(lo, LIR_B32));
        operands[words] = register_address(&ra, r);
        LirInsn *load = lir_emit(&lo->b, load_words[words], (uint32_t)words, (uint32_t)words + 1,
                                 operands);
        load->guard = guard;
        int32_t per_word = 4 / ra.access.bytes;
        if (ra.vector > 1 && may_straddle(&ra)) {
            /* The end of a row may cut its last vector: then load its elements one by one, and merge those
             * that share a word into it. */
            for (int32_t k = 0; k < ra.vector; k++) {
                LirReg one = register_guard(&ra, r + k, 1);
                LirReg not_whole = lir_op1(&lo->b, LIR_NOT_PRED, LIR_PRED, lir_reg(guard));
                LirReg alone = access_both(lo, one, not_whole);
                LirOperand address = register_address(&ra, r + k);
                if (per_word == 1) {
                    LirOperand single[] = {operands[k], address};
                    lir_emit(&lo->b, LIR_LD_GLOBAL_B32, 1, 2, single)->guard = alone;
                    continue;
                }
                LirReg part = lower_zeroed(lo, LIR_B16), zero = lower_zeroed(lo, LIR_B16);
                LirOperand single[] = {lir_reg(part), address};
                lir_emit(&lo->b, single_load(&ra), 1, 2, single)->guard = alone;
                LirReg word = lower_word_of_single(lo, part, zero, 8 * ra.access.bytes,
                                                   k % per_word);
                LirOperand merge[] = {operands[k / per_word], operands[k / per_word], lir_reg(word)};
                lir_emit(&lo->b, LIR_OR_B32, 1, 3, merge);
            }
        }
        for (int32_t w = 0; w < words; w++)
            lower_set_word(lo, value, r + w * per_word, operands[w].reg);
    }
}

LirReg
lower_first_copy(Lowering *lo, const Layout *layout)
{
    LirBuilder *b = &lo->b;
    uint32_t lanes = layout->rank == 0 ? 31 : layout_copy_lanes(layout);
    LirReg guard = 0;

    if (lanes != 0) {
        LirReg bits = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lower_lane(lo)), lir_int(lanes));
        guard = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(bits), lir_int(0));
    }
    int32_t below = 1;
    for (uint32_t k = 0; k < layout->warp.n; k++) {
        const LayoutDigit *digit = &layout->warp.at[k];
        if (digit->step[0] == 0 && digit->step[1] == 0) {
            LirReg value = lower_remainder(lo, lower_quotient(lo, lower_warp(lo), below),
                                           digit->extent);
            guard = access_both(lo, guard,
                                lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(value), lir_int(0)));
        }
        below *= digit->extent;
    }
    if (below == 1 && lower_warps(lo) > 1) /* no digit at all: every warp holds the same */
        guard = access_both(
            lo, guard, lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lower_warp(lo)), lir_int(0)));
    return guard;
}

static void
store_single(RegisterAccess *ra, TirVal *value, int32_t reg, LirReg guard)
{
    Lowering *lo = ra->access.lo;
    LirReg word = lower_word(lo, value, reg);
    LirOperand operands[] = {register_address(ra, reg), lir_reg(word)};

    if (ra->access.bytes == 4) {
        lir_emit(&lo->b, LIR_ST_GLOBAL_B32, 0, 2, operands)->guard = guard;
        return;
    }
    operands[1] = lir_reg(lower_single(lo, word, 8 * ra->access.bytes, reg % lower_per_word(value)));
    lir_emit(&lo->b, ra->access.bytes == 2 ? LIR_ST_GLOBAL_U16 : LIR_ST_GLOBAL_U8, 0, 2, operands)
        ->guard = guard;
}

static void
store_vectors(RegisterAccess *ra, TirVal *value, LirReg owner)
{
    Lowering *lo = ra->access.lo;
    int32_t n = lower_registers(value), words = ra->vector * ra->access.bytes / 4;
    int32_t per_word = words > 0 ? 4 / ra->access.bytes : 1;

    for (int32_t r = 0; r < n; r += ra->vector) {
        LirReg whole = access_both(lo, register_guard(ra, r, ra->vector), ra->aligned);
        LirOperand operands[5];
        if (words == 0) {
            for (int32_t k = 0; k < ra->vector; k++)
                store_single(ra, value, r + k, access_both(lo, owner, register_guard(ra, r + k, 1)));
            continue;
        }
        operands[0] = register_address(ra, r);
        for (int32_t w = 0; w < words; w++)
            operands[w + 1] = lir_reg(lower_word(lo, value, r + w * per_word));
        LirReg guard = access_both(lo, owner,
                                   whole); /* before the store: it may make an instruction */
        lir_emit(&lo->b, store_words[words], 0, (uint32_t)words + 1, operands)->guard = guard;
        if (ra->vector == 1 || !may_straddle(ra))
            continue;
        LirReg not_whole = lir_op1(&lo->b, LIR_NOT_PRED, LIR_PRED, lir_reg(whole));
        for (int32_t k = 0; k < ra->vector; k++) {
            LirReg alone = access_both(lo, owner, not_whole);
            LirReg inside = register_guard(ra, r + k, 1);
            store_single(ra, value, r + k, access_both(lo, alone, inside));
        }
    }
}

/* The first registers of all vectors, row by row, and how many rows there are. */
static int32_t *
by_rows(const RegisterAccess *ra, int32_t n, int32_t *rows)
{
    int32_t *order = arena_array(ra->access.lo->arena, int32_t, n), count = 0, last = -1;
    int32_t at[LAYOUT_RANK] = {0, 0};

    *rows = 0;
    for (int32_t row = 0; count < n / ra->vector; row = last) {
        last = INT32_MAX;
        for (int32_t r = 0; r < n; r += ra->vector) {
            layout_coordinates(ra->layout, r, 0, 0, at);
            int32_t of = ra->layout->rank == 2 ? at[0] : 0;
            if (of == row)
                order[count++] = r;
            else if (of > row && of < last)
                last = of;
        }
        ++*rows;
    }
    return order;
}

/* The word from element r on that is added, or of an element that is less than one the word that it is the lower end of. */
static LirReg
added_word(Lowering *lo, TirVal *value, int32_t r, bool whole)
{
    if (lower_per_word(value) == 1)
        return lower_elem_reg(lo, lower_elem(lo, value, r), lower_class(value->type.dtype));
    return whole ? lower_word(lo, value, r) : lower_alone(lo, value, r);
}

/* The addition of neighbours in a row; `guarded`: where the thread owns them and they are inside. */
static void
add_vector(RegisterAccess *ra, TirVal *value, int32_t r, LirReg owner, bool guarded)
{
    Lowering *lo = ra->access.lo;
    DType dtype = value->type.dtype;
    const Addition *addition = lower_addition(lo, dtype);
    int32_t each = lower_per_word(value), words = ra->vector / each;
    LirOperand operands[5] = {register_address(ra, r)};

    for (int32_t k = 0; k < words || k == 0; k++)
        operands[k + 1] = lir_reg(added_word(lo, value, r + k * each, words > 0));
    LirReg guard = guarded ? access_both(lo, owner, register_guard(ra, r, ra->vector)) : 0;
    if (addition->dtype != dtype) {
        lower_add_by_exchange(lo, dtype, operands[0], operands[1].reg, ra->vector, guard);
        return;
    }
    if (words == 0)
        operands[1] = lir_reg(lower_half(lo, operands[1].reg, false));
    uint32_t n = words > 0 ? (uint32_t)words : 1;
    lir_emit(&lo->b, addition->of_words[words / 2 + (words > 0)], 0, n + 1, operands)->guard = guard;
}

/* How many elements an addition has at most. */
static void
limit_vector(RegisterAccess *ra, const TirVal *value)
{
    int32_t most = lower_most_added(ra->access.lo, value->type.dtype);

    if (may_straddle(ra))
        ra->vector = 1;
    else if (ra->vector > most)
        ra->vector = most;
}

static void
atomic_vectors(RegisterAccess *ra, TirVal *value, LirReg owner)
{
    int32_t n = lower_registers(value);

    limit_vector(ra, value);
    int32_t rows, *order = by_rows(ra, n, &rows);
    if (rows >= MANY_ROWS && ra->access.n_lists == 0 && ra->access.row.full &&
        ra->access.row.n_parts == 0 && ra->access.row.stride != 0)
        ra->row_base = ra->thread_base;
    lower_send_between(ra->access.lo, 0, n / ra->vector);
    for (int32_t i = 0; i < n / ra->vector; i++) {
        add_vector(ra, value, ra->row_base != 0 ? order[i] : i * ra->vector, owner, true);
        lower_send_between(ra->access.lo, i + 1, n / ra->vector);
    }
}

/* Memory becomes the greater of it and one element, or the less.  Floats are compared as integers: those with a sign are in
 * reverse order, and behind all others where they are taken without one. */
static void
raise_single(RegisterAccess *ra, TirVal *value, int32_t r, LirReg owner, bool most)
{
    Lowering *lo = ra->access.lo;
    LirBuilder *b = &lo->b;
    Elem elem = lower_elem(lo, value, r);
    LirReg word = lower_bits(lo, value->type.dtype, elem);
    LirOperand operands[] = {register_address(ra, r), lir_reg(word)};
    LirReg guard = access_both(lo, owner, register_guard(ra, r, 1));
    TirOpcode op = most ? TIR_ATOMIC_MAX : TIR_ATOMIC_MIN;
    LirOpcode of_integers = lower_opcode(op, DT_I32);

    if (!dtype_is_float(value->type.dtype)) {
        lir_emit(b, lower_opcode(op, value->type.dtype), 0, 2, operands)->guard = guard;
        return;
    }
    LirReg same = lower_elem_reg(lo, elem, LIR_F32);
    LirReg number = lir_op2(b, LIR_SETP_EQ_F32, LIR_PRED, lir_reg(same), lir_reg(same));
    LirReg plus = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, operands[1], lir_int(0));
    LirReg minus = lir_op1(b, LIR_NOT_PRED, LIR_PRED, lir_reg(plus));
    guard = access_both(lo, guard, number);
    /* both before the first: they may make instructions */
    LirReg of_plus = access_both(lo, guard, plus), of_minus = access_both(lo, guard, minus);
    lir_emit(b, of_integers, 0, 2, operands)->guard = of_plus;
    lir_emit(b, most ? LIR_RED_MIN_U32 : LIR_RED_MAX_U32, 0, 2, operands)->guard = of_minus;
}

/* Whether all that a thread has of the tile is inside the tensor, or nothing is. */
static bool
is_in_one_row(const RegisterAccess *ra)
{
    const Layout *layout = ra->layout;
    bool one = layout->rank == 2 && ra->access.n_lists == 0 && ra->access.col.full &&
               ra->access.col.n_limits == 0 && ra->access.row.n_parts == 0;

    for (uint32_t k = 0; k < layout->reg.n; k++)
        one = one && layout->reg.at[k].step[0] == 0;
    return one;
}

/* Additions of the reduce role, which has few registers: some elements are read, then threads whose row is there add them. */
static void
add_rows(Lowering *lo, RegisterAccess *ra, TirVal *value, LirReg owner)
{
    LirBuilder *b = &lo->b;
    LirOperand all = lir_int(-1);
    int32_t n = lower_registers(value);

    limit_vector(ra, value);
    access_count_no_rows(&ra->access);
    LirReg there = access_both(lo, owner, register_guard(ra, 0, ra->vector));

    for (int32_t first = 0; first < n; first += ADDED_AT_ONCE) {
        int32_t end = first + ADDED_AT_ONCE < n ? first + ADDED_AT_ONCE : n;
        uint32_t others = lir_new_label(b);
        for (int32_t r = first; r < end; r++)
            lower_elem(lo, value, r);
        if (there != 0)
            lir_branch(b, others, there, true);
        lir_open(b, false);
        for (int32_t r = first; r < end; r += ra->vector)
            add_vector(ra, value, r, 0, false);
        lir_close(b);
        lir_label(b, others);
        if (there != 0)
            lir_emit(b, LIR_BAR_WARP_SYNC, 0, 1, &all);
    }
}

/* The tile as if it lay wholly inside the tensor. */
static RegisterAccess
without_bounds(const RegisterAccess *ra)
{
    RegisterAccess whole = *ra;
    whole.access.inside = 0;
    whole.access.row.full = whole.access.col.full = true;
    whole.access.row.n_limits = whole.access.col.n_limits = 0;
    return whole;
}

static void
write_tile(Lowering *lo, const TirOp *op, RegisterAccess *ra, TirVal *value, LirReg owner)
{
    (void)lo;
    int32_t n = lower_registers(value);

    if (op->op == TIR_STORE)
        store_vectors(ra, value, owner);
    else if (op->op == TIR_ATOMIC_ADD)
        atomic_vectors(ra, value, owner);
    else
        for (int32_t r = 0; r < n; r++)
            raise_single(ra, value, r, owner, op->op == TIR_ATOMIC_MAX);
}

void
lower_store(Lowering *lo, TirOp *op)
{
    TirVal *value = op->args[op->n_args - 1];
    Layout scalar = {.rank = 0};
    const Layout *layout = value->type.rank == 0 ? &scalar : value->layout;
    RegisterAccess ra = begin_registers(lo, op, layout);
    LirReg owner = lower_first_copy(lo, layout);
    LirBuilder *b = &lo->b;
    bool testable;

    if (op->op == TIR_ATOMIC_ADD && !dtype_has(value->type.dtype, USE_ADDITION)) {
        lower_fault(lo, "addition to memory", value->type.dtype);
        return;
    }
    if (op->op == TIR_ATOMIC_ADD && lo->role != NULL && lo->role->reduces && is_in_one_row(&ra)) {
        add_rows(lo, &ra, value, owner);
        return;
    }
    /* One uniform test whether the whole tile is inside replaces a guard on every instruction. */
    LirReg whole = access_tile_guard(lo, &ra.access, &testable);
    if (layout->rank < 2 || whole == 0 || !testable || !lo->b.share) {
        write_tile(lo, op, &ra, value, owner);
        return;
    }
    lower_force(lo, value); /* both branches use it, and the places */
    for (uint32_t k = 0; k < ra.access.n_lists; k++)
        lower_force(lo, ra.access.list[k].places);
    uint32_t slow = lir_new_label(b), end = lir_new_label(b);
    RegisterAccess inside = without_bounds(&ra);
    lir_branch(b, slow, whole, true);
    lir_open(b, false);
    write_tile(lo, op, &inside, value, owner);
    lir_branch(b, end, 0, false);
    lir_close(b);
    lir_label(b, slow);
    lir_open(b, false);
    write_tile(lo, op, &ra, value, owner);
    lir_close(b);
    lir_label(b, end);
}

/* ---- asynchronous copies to shared memory ---- */

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

/* Bytes of chunk `first + chunk` inside the tile.  A copy must not read more, since there may be no memory behind
 * a tensor's last row; the rest of the chunk is filled with zeros. */
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
    /* at most a chunk before it is counted in bytes: a loop that hides all begins near 2^31, and sizes end there */
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
