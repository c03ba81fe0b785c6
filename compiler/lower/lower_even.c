/* lower_even.c - rows that begin and end between vectors: how many elements an access has at once,
 * and a program for launches of which all rows do.
 *
 * Nothing promises where rows begin and end, but mostly it is at 16 bytes.  One test of the
 * parameters, at the beginning of a kernel, leads to a program of vectors alone: what else there is
 * for each access would lie between what runs, and an instruction cache that holds nothing of a
 * kernel waits for memory at each place that it jumps to.
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/lower/lower_access.h"
#include "compiler/passes/util/tir_util.h"

enum { WORD_BYTES = 4, MOST_SHIFT = 4 /* ACCESS_BYTES is 1 << 4 */ };

/* Words of a tile up to which a thread has little code for it.  Then a program of vectors pays only
 * where several tiles are loaded, computed and stored: it issues all loads at once.  (H200:
 * programs for tiles of 16 words with reductions or transposes gained nothing, and lost 5 % of the
 * time of transposes.) */
enum { FEW_WORDS = 16 };

int32_t
access_vector_length(const Access *access, const Layout *layout, uint32_t align, int64_t start)
{
    uint32_t col_axis = layout->rank == 2 ? 1 : 0;
    int32_t vector = 1;

    /* bools live in predicates: nothing packs four of them into a word */
    if (access->tensor->dtype == DT_BOOL || layout->reg.n == 0 ||
        layout->reg.at[0].step[col_axis] != 1 || access->col.dim + 1 != access->tensor->rank ||
        access_is_cut_by_parts(&access->col))
        return 1;
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

/* Whether a tile begins at a multiple of `n` elements where the sizes that it is made of are
 * such. */
static bool
begins_evenly(const TirVal *start, int32_t n)
{
    const TirOp *def = start == NULL ? NULL : start->def;

    if (start == NULL || tir_factor(start) % n == 0 || (def != NULL && def->op == TIR_SIZE))
        return true;
    return def != NULL && (def->op == TIR_ADD || def->op == TIR_SUB) &&
           begins_evenly(def->args[0], n) && begins_evenly(def->args[1], n);
}

static const TirVal *
moved_by(const TirOp *op)
{
    return op->op == TIR_LOAD ? op->results[0] : op->args[op->n_args - 1];
}

/* Limits along rows; those of how many rows there are cut no vector. */
static bool
limits_are_even(const TirOp *op, int32_t n)
{
    for (uint32_t k = 0; k < op->n_limits; k++) {
        bool of_row = op->limits[k].axis + 1 == tir_index_type(op).rank;
        if (op->limits[k].part.rows > 0 || (of_row && !begins_evenly(tir_limit_count(op, k), n)))
            return false;
    }
    return true;
}

int32_t
lower_even_vector(const Lowering *lo, const TirOp *op, uint32_t unit)
{
    bool moves = op->op == TIR_LOAD || op->op == TIR_STORE || op->op == TIR_ATOMIC_ADD;

    if (!moves || lo->role != NULL || unit <= dtype_bits(op->tensor->dtype) / 8 ||
        !tir_is_contiguous(op))
        return 0;
    const TirVal *value = moved_by(op);
    TirDims last = tir_last_dim(op);
    Access access = {.tensor = op->tensor, .bytes = (int32_t)dtype_bits(op->tensor->dtype) / 8};
    int64_t constant = op->tensor->dim[last.dim].constant;

    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        if (d.places || d.strided || !(d.single || (d.begins && d.index->rows == 0)))
            return 0;
    }
    if (value->layout == NULL || layout_registers(value->layout) * access.bytes < ACCESS_BYTES)
        return 0;
    access.col.dim = last.dim;
    int32_t n = access_vector_length(&access, value->layout, unit, ACCESS_BYTES);
    bool even = n * access.bytes >= WORD_BYTES && last.length % n == 0 && constant % n == 0 &&
                begins_evenly(last.at, n) && limits_are_even(op, n) &&
                (last.at == NULL ||
                 (is_not_negative(last.at) && !lower_may_lie_in_front(lo, last.at)));
    return even ? n : 0;
}

/* Bits that are zero where rows are even, by the logarithm of the bytes at whose multiples they
 * begin and end. */
typedef struct EvenBits {
    Lowering *lo;
    uint32_t unit;
    LirReg at[MOST_SHIFT + 1];
} EvenBits;

static void
add_bits(EvenBits *bits, uint32_t shift, LirReg more)
{
    LirReg *at = &bits->at[shift];

    *at = *at == 0 ? more : lir_op2(&bits->lo->b, LIR_OR_B32, LIR_B32, lir_reg(*at), lir_reg(more));
}

/* Where a tile begins, as far as that is made of sizes. */
static void
add_start(EvenBits *bits, uint32_t shift, TirVal *start, int32_t n, uint32_t bytes_shift)
{
    LirBuilder *b = &bits->lo->b;

    if (start == NULL || tir_factor(start) % n == 0)
        return;
    if (start->def->op == TIR_SIZE) {
        LirReg size = lower_elem_reg(bits->lo, lower_elem(bits->lo, start, 0), LIR_B32);
        add_bits(bits, shift, lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(size), lir_int(bytes_shift)));
        return;
    }
    for (uint32_t k = 0; k < 2; k++)
        add_start(bits, shift, start->def->args[k], n, bytes_shift);
}

static void
add_access(EvenBits *bits, const TirOp *op)
{
    Lowering *lo = bits->lo;
    LirBuilder *b = &lo->b;
    int32_t n = lower_even_vector(lo, op, bits->unit),
            bytes = (int32_t)dtype_bits(op->tensor->dtype) / 8;
    uint32_t shift = 0, bytes_shift = 0;

    if (n == 0)
        return;
    while (1 << shift < n * bytes)
        shift++;
    while (1 << bytes_shift < bytes)
        bytes_shift++;
    TirDims last = tir_last_dim(op);
    if (op->tensor->align % (uint32_t)(n * bytes) != 0) {
        LirReg low = lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(access_pointer(lo, op->tensor)));
        add_bits(bits, shift, low);
        for (uint32_t d = 0; d < last.dim; d++)
            add_bits(
                bits, shift,
                lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(access_stride(lo, op->tensor, d))));
    }
    if (op->tensor->dim[last.dim].constant == 0) {
        LirReg size = lower_elem_reg(lo, lower_dim_size(lo, op->tensor, last.dim), LIR_B32);
        add_bits(bits, shift, lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(size), lir_int(bytes_shift)));
    }
    add_start(bits, shift, last.at, n, bytes_shift);
    for (uint32_t k = 0; k < op->n_limits; k++)
        if (op->limits[k].axis + 1 == tir_index_type(op).rank)
            add_start(bits, shift, tir_limit_count(op, k), n, bytes_shift);
}

/* ---- words of a row side by side ---- */

/* `layout` with the words of a lane's run of a row dealt out to the lanes beside it; NULL: there
 * are none of either.  `word`: elements of one. */
static const Layout *
deal_words(Arena *arena, const Layout *layout, int32_t word)
{
    uint32_t col = layout->rank == 2 ? 1 : 0;
    const LayoutDigit *run = &layout->reg.at[0], *lanes = &layout->lane.at[0];

    if (layout->reg.n == 0 || layout->lane.n == 0 || layout->reg.n == LAYOUT_DIGITS ||
        run->step[col] != 1 || run->step[1 - col] != 0 || run->extent <= word ||
        run->extent % word != 0 || lanes->step[col] != run->extent || lanes->step[1 - col] != 0)
        return NULL;
    Layout *dealt = arena_copy(arena, layout, sizeof *layout);
    int32_t row = word * lanes->extent, runs[][2] = {{word, 1}, {run->extent / word, row}};
    dealt->reg.n = 0;
    for (uint32_t k = 0; k < 2; k++)
        layout_add_digit(&dealt->reg, runs[k][0], col == 0 ? runs[k][1] : 0,
                         col == 1 ? runs[k][1] : 0);
    for (uint32_t k = 1; k < layout->reg.n; k++)
        layout_add_digit(&dealt->reg, layout->reg.at[k].extent, layout->reg.at[k].step[0],
                         layout->reg.at[k].step[1]);
    dealt->lane.at[0].step[col] = word;
    return dealt;
}

/* What was made of `from` for a value of this layout and type, made of `to`; NULL: it was made
 * otherwise. */
static const Layout *
made_alike(Arena *arena, const TirVal *value, const Layout *from, const Layout *to)
{
    if (layout_eq(value->layout, from))
        return to;
    for (uint32_t axis = 0; axis < 2 && from->rank == 2; axis++) {
        const Layout *slice = layout_slice(arena, from, axis),
                     *other = layout_slice(arena, to, axis);
        if (layout_eq(value->layout, slice))
            return other;
        if (layout_eq(value->layout, layout_expand(arena, slice, axis)))
            return layout_expand(arena, other, axis);
    }
    if (layout_eq(value->layout, layout_collapse(arena, from, value->type)))
        return layout_collapse(arena, to, value->type);
    return NULL;
}

bool
lower_deal_words(Lowering *lo, const Layout **dealt)
{
    const TirVal *tile = NULL;
    int32_t bytes = WORD_BYTES;

    if (lo->even != WORD_BYTES)
        return false;
    for (TirWalk walk = tir_walk(lo->fn->body); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->n_blocks > 0 || tir_combines(op) || op->op == TIR_CONVERT)
            return false;
        if (!tir_is_access(op->op))
            continue;
        tile = moved_by(op);
        int32_t own = (int32_t)dtype_bits(op->tensor->dtype) / 8;
        bytes = own < bytes ? own : bytes;
    }
    const Layout *from = tile == NULL ? NULL : tile->layout,
                 *to = from == NULL || from->rank == 0 || bytes == 0
                           ? NULL
                           : deal_words(lo->arena, from, WORD_BYTES / bytes);
    if (to == NULL)
        return false;
    for (TirWalk walk = tir_walk(lo->fn->body); tir_walk_next(&walk);)
        for (uint32_t k = 0; k < walk.op->n_results; k++) {
            const TirVal *value = walk.op->results[k];
            bool whole = value->layout == NULL || value->layout->rank == 0;
            dealt[value->id] = whole ? value->layout : made_alike(lo->arena, value, from, to);
            if (!whole && dealt[value->id] == NULL)
                return false;
        }
    lower_change_layouts(lo, dealt);
    return true;
}

void
lower_change_layouts(Lowering *lo, const Layout **others)
{
    for (TirWalk walk = tir_walk(lo->fn->body); tir_walk_next(&walk);)
        for (uint32_t k = 0; k < walk.op->n_results; k++) {
            TirVal *value = walk.op->results[k];
            const Layout *layout = value->layout;
            value->layout = others[value->id];
            others[value->id] = layout;
        }
}

uint32_t
lower_least_even(const Lowering *lo)
{
    int32_t open = 0,
            /* registers of tiles whose rows' ends only the launch says, less those of others; words
             * of one */
        most = 0;
    bool streams = lo->px->target->streams_even_rows && lo->fn->shared_bytes == 0;
    uint32_t loads = 0;

    for (TirWalk walk = tir_walk(lo->fn->body); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        streams = streams && op->n_blocks == 0 && !tir_combines(op) && op->op != TIR_CONVERT;
        if (!tir_is_access(op->op) || lower_even_vector(lo, op, ACCESS_BYTES) == 0)
            continue;
        int32_t n = lower_registers(moved_by(op)),
                words = n * (int32_t)dtype_bits(op->tensor->dtype) / 32;
        loads += op->op == TIR_LOAD;
        open += op->tensor->dim[tir_last_dim(op).dim].constant == 0 ? n : -n;
        most = words > most ? words : most;
    }
    if (open <= 0 || (!lo->px->once && (!streams || loads < 2) && most <= FEW_WORDS))
        return 0;
    return most > FEW_WORDS || streams || lo->px->once ? WORD_BYTES : ACCESS_BYTES;
}

LirReg
lower_even_test(Lowering *lo, uint32_t unit)
{
    EvenBits bits = {.lo = lo, .unit = unit};
    LirReg sum = 0;

    for (TirWalk walk = tir_walk(lo->fn->body); tir_walk_next(&walk);)
        if (tir_is_access(walk.op->op))
            add_access(&bits, walk.op);
    for (uint32_t k = 0; k <= MOST_SHIFT; k++) {
        if (bits.at[k] == 0)
            continue;
        LirReg low = lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(bits.at[k]),
                             lir_int((1 << k) - 1));
        sum = sum == 0 ? low : lir_op2(&lo->b, LIR_OR_B32, LIR_B32, lir_reg(sum), lir_reg(low));
    }
    return sum == 0 ? 0 : lir_op2(&lo->b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(sum), lir_int(0));
}
