/* lower_memory.c - tiles between global memory and registers. */
#include "compiler/lower/lower_access.h"

#include <string.h>

#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/tir_util.h"

/* From so many rows of a thread on, each row's address is computed from the one before, since
 * addresses kept for all rows take too many registers. */
enum { MANY_ROWS = 16 };

enum { WORD_BYTES = 4 };

/* ---- registers ---- */

typedef struct RegisterAccess {
    Access access;
    const Layout *layout;
    uint32_t row_axis, col_axis; /* of the tile */
    Elem lane_row, lane_col;
    LirReg thread_base; /* address of the thread's first element */
    int32_t vector;     /* elements an instruction moves .. */
    LirReg aligned;     /* .. where the tile's rows begin at as many; 0: they do */
    LirReg in_words;    /* else whether they begin at 4 bytes; 0: as little is not asked */
    bool ends_well;     /* rows are known to end between two of them */
    bool skips; /* warps branch around the elements of vectors that none of them has apart */
    /* the address of its element in row `row`, for the next ones; 0: each row's .. */
    LirReg row_base;
    int32_t row; /* .. is found from the first one's */
    KnownGuards row_guards, col_guards;
} RegisterAccess;

/* Whether a tile begins a known distance beside a multiple of `n` elements: where rows begin well
 * it does not. */
static bool
begins_beside(const TirVal *start, int64_t n)
{
    const TirOp *def = start == NULL ? NULL : start->def;
    bool moved = def != NULL && (def->op == TIR_ADD || def->op == TIR_SUB) &&
                 tir_factor(start) % n != 0 && tir_factor(def->args[0]) % n == 0;

    return moved && def->args[1]->def != NULL && def->args[1]->def->op == TIR_CONST;
}

/* Nothing promises where a tensor's rows begin, but mostly they begin at 16 bytes: a test decides,
 * and the code has both ways; elements of 16 bits and fewer have a third, by words of 4 bytes.
 * Where a thread has fewer such neighbours in a row, the test is whether rows begin at as many.
 * Not for small tiles, of which a thread has less than 16 bytes; and roles have few registers. */
static void
test_alignment(RegisterAccess *ra, const TirOp *op)
{
    Access *access = &ra->access;
    Lowering *lo = access->lo;
    LirBuilder *b = &lo->b;
    int32_t most = access_vector_length(access, ra->layout, ACCESS_BYTES, ACCESS_BYTES);
    int32_t even = lo->even > 0 ? lower_even_vector(lo, op, lo->even) : 0;

    if (even > 0) {
        ra->vector = even;
        ra->ends_well = true;
        return;
    }
    if ((op->op != TIR_LOAD && op->op != TIR_STORE) || lo->role != NULL || access->n_lists > 0 ||
        access->row.n_parts > 0 || access->col.n_parts > 0 || most <= ra->vector ||
        most * access->bytes < (access->bytes < WORD_BYTES ? WORD_BYTES : ACCESS_BYTES) ||
        layout_registers(ra->layout) * access->bytes < ACCESS_BYTES ||
        begins_beside(access->col.start, most))
        return;
    LirReg bits = lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(access->base));
    if (ra->layout->rank == 2 && access->row.stride != 0) {
        LirReg stride = lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(access->row.stride));
        bits = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(bits), lir_reg(stride));
    }
    LirReg in_vector = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(bits),
                               lir_int(most * access->bytes - 1));
    ra->vector = most;
    ra->aligned = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(in_vector), lir_int(0));
    if (access->bytes < WORD_BYTES && most * access->bytes > WORD_BYTES) {
        LirReg in_word = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(bits), lir_int(WORD_BYTES - 1));
        ra->in_words = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(in_word), lir_int(0));
    }
}

/* Elements one by one where only the tensor's alignment keeps them from being moved 16 bytes at a
 * time. */
static void
say_narrow(const RegisterAccess *ra, const TirOp *op, int64_t start)
{
    const Access *access = &ra->access;
    const PassContext *px = access->lo->px;
    Diag *diag = px->diag;
    bool moves = op->op == TIR_LOAD || op->op == TIR_STORE;

    if (px->narrow == NARROW_UNSAID || !moves || ra->aligned != 0 ||
        ra->vector * access->bytes >= WORD_BYTES ||
        access_vector_length(access, ra->layout, ACCESS_BYTES, start) * access->bytes < ACCESS_BYTES)
        return;
    const char *text = arena_printf(
        access->lo->out->arena,
        "%s '%s' are %d byte%s wide: nothing promises where its rows begin; `align(16)` after its type does",
        op->op == TIR_LOAD ? "loads of" : "stores to", access->tensor->name,
        ra->vector * access->bytes, ra->vector * access->bytes == 1 ? "" : "s");
    for (uint32_t k = 0; k < diag->messages.n; k++) /* an operation may be lowered several times */
        if (diag->messages.at[k].span.lo == op->span.lo && strstr(diag->messages.at[k].text, text))
            return;
    if (px->narrow == NARROW_ERROR)
        diag_error(diag, op->span, "E-NARROW: %s [-Werror=narrow]", text);
    else
        diag_warning(diag, op->span, "%s [-Wnarrow]", text);
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
    int64_t start = access->col.start == NULL ? ACCESS_BYTES : tir_factor(access->col.start);
    ra.vector = access_vector_length(access, layout, access->tensor->align, start);
    test_alignment(&ra, op);
    say_narrow(&ra, op, start);
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
        guard = access_both(lo, guard,
                            access_known_guard(lo, &ra->access.row, &ra->row_guards, ra->lane_row,
                                               at[0], 1, layout->shape[0]));
    if (layout->rank > 0)
        guard = access_both(lo, guard,
                            access_known_guard(lo, &ra->access.col, &ra->col_guards, ra->lane_col,
                                               at[ra->col_axis], count,
                                               layout->shape[ra->col_axis]));
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

/* Whether a vector may lie across the end of its row: the tensor's, or the tile's where the layout
 * has more. */
static bool
may_straddle(const RegisterAccess *ra)
{
    const Axis *col = &ra->access.col;
    if (ra->ends_well)
        return false;
    if (access_is_cut(col) || ra->aligned != 0)
        return true;
    if (ra->layout->shape[ra->col_axis] > col->length && col->length % ra->vector != 0)
        return true;
    return !col->full && (col->size.kind != ELEM_INT || col->size.integer % ra->vector != 0);
}

/* What moves a value; `words`: the mutable registers that a load fills, one for each word. */
typedef struct Move {
    void (*emit)(const struct Move *move, RegisterAccess *ra);
    const TirOp *op;
    TirVal *value;
    const LirReg *words;
    LirReg owner;
} Move;

/* The tile as if it lay wholly inside the tensor, in rows that begin where accesses of `vector`
 * elements may. */
static RegisterAccess
without_bounds(const RegisterAccess *ra, int32_t vector)
{
    RegisterAccess whole = *ra;
    whole.access.inside = 0;
    whole.access.row.full = whole.access.col.full = true;
    whole.access.row.n_limits = whole.access.col.n_limits = 0;
    whole.vector = vector;
    whole.aligned = 0;
    return whole;
}

/* A way to move a tile, and its test, the same for all threads.  Without guards on every
 * instruction the whole tile is inside the tensor; with them its rows end between accesses. */
typedef struct Way {
    LirReg test;
    int32_t vector; /* elements of an access */
    bool guarded;
} Way;

/* Those there are, in the order of their tests, before the one that needs none. */
typedef struct Ways {
    uint32_t n;
    Way at[4];
} Ways;

/* Whether no access to `each` elements lies across the end of a row: a multiple of as many are in
 * front of it.  False: that is not known, nor when the program runs.  *ends: the test; 0: it is
 * so. */
static bool
ends_between(Lowering *lo, const RegisterAccess *ra, int32_t each, LirReg *ends)
{
    const Axis *col = &ra->access.col;
    Elem size = col->size;

    *ends = 0;
    if (access_is_cut(col) || col->full || !col->not_negative || col->length % each != 0)
        return false;
    if (size.kind == ELEM_INT && (col->start == NULL || tir_factor(col->start) % each == 0))
        return size.integer % each == 0;
    LirReg rest = lower_elem_reg(lo, size, LIR_B32);
    if (col->start != NULL && tir_factor(col->start) % each != 0)
        rest = lir_op2(&lo->b, LIR_SUB_S32, LIR_B32, lir_reg(rest),
                       lir_reg(lower_elem_reg(lo, lower_elem(lo, col->start, 0), LIR_B32)));
    rest = lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(rest), lir_int(each - 1));
    *ends = lir_op2(&lo->b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(rest), lir_int(0));
    return true;
}

static void
add_way(Ways *ways, LirReg test, int32_t vector, bool guarded)
{
    if (test != 0)
        ways->at[ways->n++] = (Way){test, vector, guarded};
}

/* By vectors, where rows begin as they must; else by words, where these may begin.  Whole tiles
 * first, of which guards would take registers (quantizing by row on an H200: a tenth of the
 * time). */
static Ways
find_ways(Lowering *lo, const RegisterAccess *ra)
{
    int32_t each = WORD_BYTES / ra->access.bytes;
    Ways ways = {.n = 0};
    LirReg ends;
    bool testable;
    LirReg inside = access_tile_guard(lo, &ra->access, &testable);

    if (!testable || !lo->b.share)
        return ways;
    add_way(&ways, access_both(lo, inside, ra->aligned), ra->vector, false);
    bool seldom = lo->least_even > 0 && lower_even_vector(lo, ra->access.op, ACCESS_BYTES) > 0;
    if (ways.n > 0 && !seldom && ra->aligned != 0 && inside != 0 &&
        ends_between(lo, ra, ra->vector, &ends))
        add_way(&ways, access_both(lo, ra->aligned, ends), ra->vector, true);
    if (ra->in_words == 0 || ways.n == 0 || (seldom && lo->least_even <= WORD_BYTES))
        return ways;
    add_way(&ways, access_both(lo, inside, ra->in_words), each, false);
    if (inside != 0 && ends_between(lo, ra, each, &ends)) {
        LirReg narrow = lir_op1(&lo->b, LIR_NOT_PRED, LIR_PRED, lir_reg(ra->aligned));
        add_way(&ways, access_both(lo, ends, access_both(lo, ra->in_words, narrow)), each, true);
    }
    return ways;
}

/* Whether a test is worth a branch where it is not for whole rows: several vectors, each with
 * elements beside it, or many. */
static bool
has_many_guards(const RegisterAccess *ra, const TirVal *value)
{
    enum { MANY = 4, MANY_CARRIED = 8 };

    if (ra->ends_well) {
        const TirOp *op = ra->access.op;
        /* what a loop carries would be moved at the end of each way, which waits for it */
        bool carried = op->op == TIR_LOAD && (tir_is_loaded_ahead(op) || tir_is_first_of_loop(op));
        return lower_registers(value) > (carried ? MANY_CARRIED : MANY) * ra->vector;
    }
    return ra->access.lo->role == NULL && ra->vector > 1 && may_straddle(ra) &&
           (lower_registers(value) > ra->vector || ra->aligned != 0);
}

static void
move_each_way(Lowering *lo, RegisterAccess *ra, const Ways *ways, const Move *move)
{
    LirBuilder *b = &lo->b;
    uint32_t other = lir_new_label(b), end = lir_new_label(b);

    for (uint32_t k = 0; k < ra->access.n_lists; k++)
        lower_force(lo, ra->access.list[k].places); /* all ways use them */
    for (uint32_t k = 0; k < ways->n; k++) {
        RegisterAccess inside = without_bounds(ra, ways->at[k].vector);
        if (ways->at[k].guarded) {
            inside.access = ra->access;
            inside.ends_well = true;
        }
        if (k > 0)
            other = lir_new_label(b);
        lir_branch(b, other, ways->at[k].test, true);
        lir_open(b, false);
        move->emit(move, &inside);
        lir_branch(b, end, 0, false);
        lir_close(b);
        lir_label(b, other);
    }
    RegisterAccess any = *ra;
    any.skips = has_many_guards(ra, move->value);
    lir_open(b, false);
    move->emit(move, &any);
    lir_close(b);
    lir_label(b, end);
}

/* Where the code for a vector's elements ends: a warp goes there at once if all its vectors are
 * whole, or outside. */
static uint32_t
begin_apart(RegisterAccess *ra, int32_t r, LirReg whole)
{
    Lowering *lo = ra->access.lo;
    LirBuilder *b = &lo->b;
    uint32_t past = lir_new_label(b);
    LirReg not_whole = lir_op1(b, LIR_NOT_PRED, LIR_PRED, lir_reg(whole));
    LirReg apart = access_both(lo, register_guard(ra, r, 1), not_whole);
    LirOperand vote[] = {lir_reg(lir_new_reg(b, LIR_PRED)), lir_reg(apart)};

    lir_emit(b, LIR_VOTE_ANY, 1, 2, vote);
    lir_branch(b, past, vote[0].reg, true);
    lir_open(b, false);
    return past;
}

static void
end_apart(LirBuilder *b, uint32_t past)
{
    lir_close(b);
    lir_label(b, past);
}

/* The elements of a vector that lies across the end of its row, one by one; those that share a word
 * are merged into it. */
static void
load_apart(RegisterAccess *ra, int32_t r, LirReg whole, const LirOperand *words)
{
    Lowering *lo = ra->access.lo;
    int32_t per_word = 4 / ra->access.bytes;
    uint32_t past = ra->skips ? begin_apart(ra, r, whole) : 0;

    for (int32_t k = 0; k < ra->vector; k++) {
        LirReg one = register_guard(ra, r + k, 1);
        LirReg not_whole = lir_op1(&lo->b, LIR_NOT_PRED, LIR_PRED, lir_reg(whole));
        LirReg alone = access_both(lo, one, not_whole);
        LirOperand address = register_address(ra, r + k);
        if (per_word == 1) {
            LirOperand single[] = {words[k], address};
            lir_emit(&lo->b, LIR_LD_GLOBAL_B32, 1, 2, single)->guard = alone;
            continue;
        }
        LirReg part = lower_zeroed(lo, LIR_B16), zero = lower_zeroed(lo, LIR_B16);
        LirOperand single[] = {lir_reg(part), address};
        lir_emit(&lo->b, single_load(ra), 1, 2, single)->guard = alone;
        LirReg word = lower_word_of_single(lo, part, zero, 8 * ra->access.bytes, k % per_word);
        LirOperand merge[] = {words[k / per_word], words[k / per_word], lir_reg(word)};
        lir_emit(&lo->b, LIR_OR_B32, 1, 3, merge);
    }
    if (ra->skips)
        end_apart(&lo->b, past);
}

/* Loads the value by vectors: into the registers of the move, or new ones. */
static void
load_vectors(const Move *move, RegisterAccess *ra)
{
    Lowering *lo = ra->access.lo;
    int32_t n = lower_registers(move->value), words = ra->vector * ra->access.bytes / 4;
    int32_t per_word = 4 / ra->access.bytes;

    for (int32_t r = 0; r < n; r += ra->vector) {
        LirReg guard = access_both(lo, register_guard(ra, r, ra->vector), ra->aligned);
        LirOperand operands[5], zero = lir_int(0);
        for (int32_t w = 0; w < words; w++) {
            if (move->words == NULL) {
                operands[w] = lir_reg(guard == 0 ? lir_new_reg(&lo->b, LIR_B32)
                                                 : lower_zeroed(lo, LIR_B32));
                continue;
            }
            LirOperand clear[] = {lir_reg(move->words[r / per_word + w]), zero};
            if (guard != 0)
                lir_emit(&lo->b, LIR_MOV_B32, 1, 2, clear);
            operands[w] = clear[0];
        }
        operands[words] = register_address(ra, r);
        lir_emit(&lo->b, load_words[words], (uint32_t)words, (uint32_t)words + 1, operands)->guard =
            guard;
        if (ra->vector > 1 && guard != 0 && may_straddle(ra))
            load_apart(ra, r, guard, operands);
        for (int32_t w = 0; move->words == NULL && w < words; w++)
            lower_set_word(lo, move->value, r + w * per_word, operands[w].reg);
    }
}

/* The tile of an iteration that does not come: nothing of it is inside, which one test finds. */
static void
begin_none(Lowering *lo, const RegisterAccess *ra, const LirReg *words, int32_t n, uint32_t end)
{
    LirBuilder *b = &lo->b;
    uint32_t some = lir_new_label(b);
    LirReg start = lower_elem_reg(lo, lower_elem(lo, ra->access.col.start, 0), LIR_B32);
    LirReg inside = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(start),
                            lower_operand(lo, ra->access.col.size));

    lir_branch(b, some, inside, false);
    lir_open(b, false);
    for (int32_t w = 0; w < n; w++) {
        LirOperand clear[] = {lir_reg(words[w]), lir_int(0)};
        lir_emit(b, LIR_MOV_B32, 1, 2, clear);
    }
    lir_branch(b, end, 0, false);
    lir_close(b);
    lir_label(b, some);
}

static void
load_each_way(Lowering *lo, RegisterAccess *ra, const Ways *ways, TirVal *value)
{
    int32_t per_word = 4 / ra->access.bytes, n = lower_registers(value) / per_word;
    LirReg *words = arena_array(lo->arena, LirReg, n);
    const Move move = {.emit = load_vectors, .value = value, .words = words};

    for (int32_t w = 0; w < n; w++)
        words[w] = lir_new_mutable(&lo->b, LIR_B32);
    if (tir_is_loaded_ahead(ra->access.op) && ra->access.col.start != NULL &&
        ra->access.n_lists == 0) {
        uint32_t end = lir_new_label(&lo->b);
        begin_none(lo, ra, words, n, end);
        lir_open(&lo->b, false);
        move_each_way(lo, ra, ways, &move);
        lir_close(&lo->b);
        lir_label(&lo->b, end);
    } else {
        move_each_way(lo, ra, ways, &move);
    }
    for (int32_t w = 0; w < n; w++)
        lower_set_word(lo, value, w * per_word, words[w]);
}

void
lower_load(Lowering *lo, TirOp *op)
{
    TirVal *value = op->results[0];
    Layout scalar = {.rank = 0};
    RegisterAccess ra = begin_registers(lo, op, value->type.rank == 0 ? &scalar : value->layout);
    int32_t words = ra.vector * ra.access.bytes / 4;

    if (words == 0) {
        load_singles(&ra, value);
        return;
    }
    /* What no program of the launch writes is loaded once where several copies depend on it. */
    bool asks = lo->role != NULL &&
                (lo->role->kind == ROLE_PRODUCER || lo->role->kind == ROLE_REDUCE);
    if (asks && value->type.rank == 0 && words == 1 && op->tensor->mode == TENSOR_IN) {
        LirReg guard = register_guard(&ra, 0, 1);
        lower_set_word(
            lo, value, 0,
            lir_load_or_zero(&lo->b, LIR_LD_GLOBAL_B32, LIR_B32, register_address(&ra, 0), guard));
        return;
    }
    Ways ways = {.n = 0};
    if (has_many_guards(&ra, value))
        ways = find_ways(lo, &ra);
    if (ways.n > 0)
        load_each_way(lo, &ra, &ways, value);
    else
        load_vectors(&(Move){.value = value}, &ra);
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
        uint32_t past = ra->skips ? begin_apart(ra, r, whole) : 0;
        LirReg not_whole = lir_op1(&lo->b, LIR_NOT_PRED, LIR_PRED, lir_reg(whole));
        for (int32_t k = 0; k < ra->vector; k++) {
            LirReg alone = access_both(lo, owner, not_whole);
            LirReg inside = register_guard(ra, r + k, 1);
            store_single(ra, value, r + k, access_both(lo, alone, inside));
        }
        if (ra->skips)
            end_apart(&lo->b, past);
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

/* The word from element r on that is added, or of an element that is less than one the word that it
 * is the lower end of. */
static LirReg
added_word(Lowering *lo, TirVal *value, int32_t r, bool whole)
{
    if (lower_per_word(value) == 1)
        return lower_elem_reg(lo, lower_elem(lo, value, r), lower_class(value->type.dtype));
    return whole ? lower_word(lo, value, r) : lower_alone(lo, value, r);
}

/* The addition of neighbours in a row; `guarded`: where the thread owns them and they are
 * inside. */
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
        lower_add_by_exchange(lo, dtype, operands[0], operands[1].reg, ra->vector, guard, 0);
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

/* Memory becomes the greater of it and one element, or the less.  Floats are compared as integers:
 * those with a sign are in reverse order, and behind all others where they are taken without
 * one. */
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

/* Additions of the reduce role, which has few registers: some elements are read, then threads whose
 * row is there add them. */
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

static void
write_tile(const Move *move, RegisterAccess *ra)
{
    int32_t n = lower_registers(move->value);

    if (move->op->op == TIR_STORE)
        store_vectors(ra, move->value, move->owner);
    else if (move->op->op == TIR_ATOMIC_ADD)
        atomic_vectors(ra, move->value, move->owner);
    else
        for (int32_t r = 0; r < n; r++)
            raise_single(ra, move->value, r, move->owner, move->op->op == TIR_ATOMIC_MAX);
}

void
lower_store(Lowering *lo, TirOp *op)
{
    TirVal *value = op->args[op->n_args - 1];
    Layout scalar = {.rank = 0};
    const Layout *layout = value->type.rank == 0 ? &scalar : value->layout;
    RegisterAccess ra = begin_registers(lo, op, layout);
    LirReg owner = lower_first_copy(lo, layout);

    if (op->op == TIR_ATOMIC_ADD && !dtype_has(value->type.dtype, USE_ADDITION)) {
        lower_fault(lo, "addition to memory", value->type.dtype);
        return;
    }
    if (op->op == TIR_ATOMIC_ADD && lo->role != NULL && lo->role->kind == ROLE_REDUCE &&
        is_in_one_row(&ra)) {
        add_rows(lo, &ra, value, owner);
        return;
    }
    Move move = {.emit = write_tile, .op = op, .value = value, .owner = owner};
    Ways ways = find_ways(lo, &ra);
    if (ways.n == 0 || ((layout->rank < 2 || ra.ends_well) && !has_many_guards(&ra, value))) {
        write_tile(&move, &ra);
        return;
    }
    lower_force(lo, value);
    move_each_way(lo, &ra, &ways, &move);
}
