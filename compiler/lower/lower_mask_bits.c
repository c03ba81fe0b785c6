/* lower_mask_bits.c - masks of a row in one thread: conditions are bits of a word.
 *
 * Where a thread holds neighbours of a row and a condition compares their place with a number of
 * the row (causal, a window, the end of a tensor), it holds from some column on, or up to one.  The
 * hidden ones of 32 columns are a word, all ones shifted by that column; words of several
 * conditions are combined, and an element is chosen by its bit: ptxas makes predicates of seven
 * bits with one instruction (R2P).
 *
 * Where all of a warp's rows keep all of the 32 columns, which holds for most of a causal tile, a
 * branch goes past that.  Where all hide all of them, exponentials are zero, and a branch goes past
 * those (lower_tensor_memory.c).
 */
#include <math.h>

#include "compiler/lower/lower.h"

enum {
    WORD = MASK_COLUMNS,
    FEWEST = 8, /* .. from so many on */
    MOST_MASKS = 8
};

/* Neighbours of a row: registers of some value, by column. */
typedef struct Run {
    int32_t n;
    int32_t regs[WORD];
} Run;

/* A word of bits, by column: a constant, or a register. */
static Elem
constant_word(bool ones)
{
    return elem_int(ones ? -1 : 0);
}

static Elem
combine_words(Lowering *lo, bool both, Elem a, Elem b)
{
    for (uint32_t k = 0; k < 2; k++) {
        const Elem *one = k == 0 ? &a : &b, *other = k == 0 ? &b : &a;
        if (one->kind == ELEM_INT) /* of `and`, ones leave the other; of `or`, zeros do */
            return (one->integer != 0) == both ? *other : *one;
    }
    return elem_reg(
        lir_op2(&lo->b, both ? LIR_AND_B32 : LIR_OR_B32, LIR_B32, lir_reg(a.reg), lir_reg(b.reg)));
}

static Elem
inverted(Lowering *lo, Elem word)
{
    if (word.kind == ELEM_INT)
        return elem_int(~word.integer);
    return elem_reg(lir_op1(&lo->b, LIR_NOT_B32, LIR_B32, lir_reg(word.reg)));
}

/* Ones from column `first` on. */
static Elem
ones_from(Lowering *lo, Elem first)
{
    LirBuilder *b = &lo->b;

    if (first.kind == ELEM_INT)
        return elem_int(first.integer >= WORD ? 0
                        : first.integer <= 0  ? -1
                                              : (int32_t)(UINT32_MAX << first.integer));
    LirReg at = lower_elem_reg(lo, first, LIR_B32);
    at = lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(at), lir_int(0));
    LirReg ones = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(-1));
    return elem_reg(lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(ones), lir_reg(at)));
}

/* Whether two elements differ by nothing but their constants. */
static bool
same_base(Elem a, Elem b)
{
    return a.kind == b.kind && (a.kind == ELEM_INT || (a.kind == ELEM_REG && a.reg == b.reg));
}

/* Both sides of a comparison at the run's first column; the difference of their constants grows by
 * *slope from column to column.  False: it is no such comparison. */
static bool
find_sides(Lowering *lo, const TirOp *op, const Run *run, Elem sides[2], int64_t *slope)
{
    for (int32_t k = 0; k < run->n; k++) {
        Elem now[2];
        for (uint32_t s = 0; s < 2; s++) {
            bool scalar = op->args[s]->type.rank == 0;
            now[s] = lower_elem(lo, op->args[s], scalar ? 0 : run->regs[k]);
            if (k == 0)
                sides[s] = now[s];
            if (!same_base(now[s], sides[s]))
                return false;
        }
        int64_t grown = now[0].integer - now[1].integer - (sides[0].integer - sides[1].integer);
        if (k == 1)
            *slope = grown;
        if (k > 0 && grown != *slope * k)
            return false;
    }
    return *slope >= -1 && *slope <= 1;
}

/* A condition that is the same for all columns. */
static Elem
all_or_none(Lowering *lo, Elem condition)
{
    if (condition.kind == ELEM_BOOL)
        return constant_word(condition.integer != 0);
    return elem_reg(
        lir_op3(&lo->b, LIR_SEL_B32, LIR_B32, lir_int(-1), lir_int(0), lir_reg(condition.reg)));
}

/* The columns that a comparison keeps.  left + slope * column (op) right. */
static bool
kept_by_comparison(Lowering *lo, const TirOp *op, const Run *run, Elem *kept)
{
    int64_t slope = 0;
    Elem sides[2];

    if (op->args[0]->type.dtype != DT_I32 || !find_sides(lo, op, run, sides, &slope))
        return false;
    if (slope == 0) {
        *kept = all_or_none(lo, lower_comparison(lo, op, sides[0], sides[1]));
        return true;
    }
    /* column (op) right - left, or, where the sum falls, left - right (op) column */
    Elem big = sides[slope > 0], small = sides[slope < 0];
    Elem limit = lower_limited_difference(lo, op, slope > 0, big, small);
    if (op->op == TIR_EQ || op->op == TIR_NE) {
        Elem behind = ones_from(lo, lower_add(lo, limit, elem_int(1)));
        *kept = combine_words(lo, true, ones_from(lo, limit), inverted(lo, behind));
        *kept = op->op == TIR_NE ? inverted(lo, *kept) : *kept;
        return true;
    }
    bool up_to = (op->op == TIR_LT || op->op == TIR_LE) == (slope > 0);
    bool strict = op->op == TIR_LT || op->op == TIR_GT;
    /* kept up to the limit, or before it; from it on, or behind it */
    Elem first = lower_add(lo, limit, elem_int(up_to != strict));
    Elem ones = ones_from(lo, first);
    *kept = up_to ? inverted(lo, ones) : ones;
    return true;
}

static bool
is_shape(TirOpcode op)
{
    return op == TIR_EXPAND || op == TIR_SQUEEZE || op == TIR_BROADCAST || op == TIR_CONVERT;
}

/* The columns of a run for which a condition holds. */
static bool
kept_columns(Lowering *lo, TirVal *condition, const Run *run, Elem *kept)
{
    const TirOp *op = condition->def;
    Elem words[2];

    if (op == NULL)
        return false;
    if (op->op == TIR_CONST) {
        *kept = constant_word(op->integer != 0);
        return true;
    }
    if (is_shape(op->op) && op->args[0]->type.rank > 0) {
        Run inner = *run;
        for (int32_t k = 0; k < run->n; k++)
            inner.regs[k] = lower_operand_register(lo, op, run->regs[k]);
        return op->shared == NULL && kept_columns(lo, op->args[0], &inner, kept);
    }
    if (op->n_args > 0 && op->args[0]->type.dtype != DT_BOOL)
        return op->n_args == 2 && (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0 &&
               kept_by_comparison(lo, op, run, kept);
    if (op->op != TIR_AND && op->op != TIR_OR && op->op != TIR_NOT)
        return false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (!kept_columns(lo, op->args[k], run, &words[k]))
            return false;
    }
    *kept = op->op == TIR_NOT ? inverted(lo, words[0])
                              : combine_words(lo, op->op == TIR_AND, words[0], words[1]);
    return true;
}

static double
fill_of(const TirOp *mask)
{
    return mask->op == TIR_MASK ? -INFINITY : mask->number;
}

static bool
is_mask(const TirOp *op)
{
    return op != NULL && tir_is_mask(op);
}

/* The columns that masks on top of each other, with the same fill, hide.  The value below them;
 * NULL: the condition of `mask` is no bits. */
static TirVal *
hidden_columns(Lowering *lo, TirOp *mask, const Run *run, Elem *hidden)
{
    double fill = fill_of(mask);
    TirVal *below = mask->results[0];
    Elem all = constant_word(true);

    while (is_mask(below->def) && fill_of(below->def) == fill) {
        Elem kept;
        if (lower_mask_is_live(lo, below->def)) {
            if (!kept_columns(lo, below->def->args[1], run, &kept))
                break;
            all = combine_words(lo, true, all, kept);
        }
        below = below->def->args[0];
    }
    *hidden = inverted(lo, all);
    return below == mask->results[0] ? NULL : below;
}

/* Replaces elements whose bits are set, unless no thread of the warp has one. */
static void
replace_hidden(Lowering *lo, LirReg hidden, int32_t n, const LirReg *homes, float fill)
{
    LirBuilder *b = &lo->b;
    uint32_t past = lir_new_label(b);
    LirReg some = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(hidden), lir_int(0));
    LirOperand vote[] = {lir_reg(lir_new_reg(b, LIR_PRED)), lir_reg(some)};

    lir_emit(b, LIR_VOTE_ANY, 1, 2, vote);
    lir_branch(b, past, vote[0].reg, true);
    lir_open(b, false);
    for (int32_t k = 0; k < n; k++) {
        LirReg bit = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(hidden), lir_int((int32_t)(1u << k)));
        LirReg is = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(bit), lir_int(0));
        LirOperand move[] = {lir_reg(homes[k]), lir_float(fill)};
        lir_emit(b, LIR_MOV_F32, 1, 2, move)->guard = is;
    }
    lir_close(b);
    lir_label(b, past);
}

/* The value under masks whose hidden elements `exp2` makes zeros; NULL: there is none. */
static const TirVal *
hidden_by(const TirOp *exp2)
{
    const TirOp *op = exp2->op == TIR_EXP2 && exp2->hides ? exp2->args[0]->def : NULL;

    if (op != NULL && op->op == TIR_SUB)
        op = op->args[0]->def;
    for (uint32_t k = 0; op != NULL && (op->op == TIR_FMA || op->op == TIR_MUL) && k < 2; k++) {
        const TirVal *factor = op->args[k];
        if (is_mask(factor->def) && fill_of(factor->def) == -INFINITY &&
            factor->layout == exp2->results[0]->layout)
            return factor;
    }
    return NULL;
}

/* Notes whether a run is hidden in all of the warp, where something in the block asks. */
static void
note_hidden(Lowering *lo, const TirVal *value, int32_t first, LirReg hidden)
{
    LirBuilder *b = &lo->b;
    const TirBlock *block = value->block;
    bool asked = false;

    if (lo->block != block) /* it is made again behind */
        return;
    for (uint32_t i = 0; i < block->ops.n && !asked; i++)
        asked = hidden_by(block->ops.at[i]) == value;
    if (!asked || first / WORD >= MOST_HIDDEN)
        return;
    if (lo->hidden.value != value)
        lo->hidden = (HiddenRuns){.value = value};
    LirReg every = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(hidden), lir_int(-1));
    LirOperand vote[] = {lir_reg(lir_new_reg(b, LIR_PRED)), lir_reg(every)};
    lir_emit(b, LIR_VOTE_ALL, 1, 2, vote);
    lo->hidden.all[first / WORD] = vote[0].reg;
}

bool
lower_is_masked_part(const Lowering *lo, const TirOp *exp2)
{
    const TirBlock *block = exp2->results[0]->block;
    uint32_t every = (1u << MAX_SEGMENTS) - 1;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (is_mask(op) && op->results[0]->type.rank == 2 && lower_mask_is_live(lo, op) &&
            (op->segments & every) != every)
            return true;
    }
    return false;
}

LirReg
lower_hidden_run(const Lowering *lo, const TirVal *value, int32_t reg, int32_t n)
{
    while (value->def != NULL && value->def->op == TIR_CAST)
        value = value->def->args[0];
    const TirVal *masked = value->def == NULL ? NULL : hidden_by(value->def);
    if (masked == NULL || lo->hidden.value != masked || n != WORD || reg % WORD != 0 ||
        reg / WORD >= MOST_HIDDEN)
        return 0;
    return lo->hidden.all[reg / WORD];
}

bool
lower_mask_run(Lowering *lo, TirOp *op, int32_t reg)
{
    TirVal *value = op != NULL && op->n_results == 1 ? op->results[0] : NULL;
    LirReg homes[WORD];
    Run run = {0};
    Elem hidden;

    if (lo->role == NULL || !is_mask(op) || value->type.dtype != DT_F32 || value->type.rank != 2 ||
        !lower_mask_is_live(lo, op) || value->layout->reg.n != 1 ||
        value->layout->reg.at[0].step[0] != 0 || value->layout->reg.at[0].step[1] != 1)
        return false;
    int32_t first = reg / WORD * WORD, n = lower_registers(value);
    for (; run.n < WORD && first + run.n < n; run.n++)
        run.regs[run.n] = first + run.n;
    TirVal *below = run.n < FEWEST ? NULL : hidden_columns(lo, op, &run, &hidden);
    if (below == NULL)
        return false;
    for (int32_t k = 0; k < run.n; k++) {
        LirReg now = lower_elem_reg(lo, lower_elem(lo, below, first + k), LIR_F32);
        LirOperand move[] = {lir_reg(lir_new_mutable(&lo->b, LIR_F32)), lir_reg(now)};
        homes[k] = move[0].reg;
        lir_emit(&lo->b, LIR_MOV_F32, 1, 2, move);
    }
    LirReg bits = lower_elem_reg(lo, hidden, LIR_B32);
    if (run.n == WORD)
        note_hidden(lo, value, first, bits);
    replace_hidden(lo, bits, run.n, homes, (float)fill_of(op));
    for (int32_t k = 0; k < run.n; k++)
        lower_keep_elem(lo, value, first + k, elem_reg(homes[k]));
    return true;
}
