/* lower_reduce.c - reductions: elements of a thread, lanes of a warp, warps of a block, votes. */
#include "compiler/lower/lower.h"

#include <string.h>

#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"
#include "compiler/passes/util/votes.h"

/* Elements of a thread that one chain takes: it waits for itself, and others for it. */
enum { LONG_CHAIN = 64 };

Elem
lower_combined(Lowering *lo, ReduceKind kind, DType dtype, Elem a, Elem b)
{
    LirClass class = lower_class(dtype);
    TirOpcode with = tir_reduction_info(kind)->combine;

    if (with == TIR_ADD && class == LIR_B32 && !lower_wraps(dtype))
        return lower_add(lo, a, b);
    LirReg left = lower_elem_reg(lo, a, class);
    LirOperand right = lower_operand(lo, b);
    LirOpcode op = lower_opcode(with, dtype_wide(dtype));
    return elem_reg(lir_op2(&lo->b, op, class, lir_reg(left), right));
}

Elem
lower_from_lane(Lowering *lo, DType dtype, Elem mine, int32_t lane_mask)
{
    LirBuilder *b = &lo->b;
    LirReg word = lower_bits(lo, dtype, mine);
    LirReg other = lir_new_reg(b, LIR_B32);
    LirOperand operands[] = {lir_reg(other), lir_reg(word), lir_int(lane_mask)};
    lir_emit(b, LIR_SHFL_BFLY, 1, 3, operands);
    return lower_elem_of_bits(lo, dtype, other);
}

/* .. combined into ours: a butterfly over one lane bit. */
static Elem
combine_lane(Lowering *lo, ReduceKind kind, DType dtype, Elem mine, int32_t lane_mask)
{
    return lower_combined(lo, kind, dtype, mine, lower_from_lane(lo, dtype, mine, lane_mask));
}

static Elem
combine_lanes(Lowering *lo, ReduceKind kind, DType dtype, Elem mine, const Layout *layout,
              LayoutPart part)
{
    int32_t bit = 1;
    for (uint32_t d = 0; d < layout->lane.n; d++) {
        for (int32_t e = 1; e < layout->lane.at[d].extent; e *= 2, bit *= 2) {
            if (layout_is_along(&layout->lane.at[d], part))
                mine = combine_lane(lo, kind, dtype, mine, bit);
        }
    }
    return mine;
}

Elem
lower_identity(ReduceKind kind, DType dtype)
{
    double neutral = tir_neutral(kind, dtype);

    if (lower_class(dtype) == LIR_PRED)
        return (Elem){.kind = ELEM_BOOL, .integer = neutral != 0};
    return lower_class(dtype) == LIR_B32 ? elem_int((int64_t)neutral) : elem_float((float)neutral);
}

/* `elem`, which is element `reg` of the operand, or the identity where the layout has more than the
 * tile. */
static Elem
inside_or_identity(Lowering *lo, const TirOp *op, int32_t reg, Elem elem)
{
    TirVal *arg = op->args[0];
    const Layout *layout = arg->layout;
    uint32_t axis = op->axis;

    if (layout->shape[axis] <= arg->type.dim[axis])
        return elem;
    int32_t at[LAYOUT_RANK];
    layout_coordinates(layout, reg, 0, 0, at);
    Elem place = lower_add(lo, lower_lane_part(lo, layout, axis), elem_int(at[axis]));
    if (place.kind == ELEM_INT)
        return place.integer < arg->type.dim[axis] ? elem
                                                   : lower_identity(op->reduce, arg->type.dtype);
    LirReg inside = lir_op2(&lo->b, LIR_SETP_LT_S32, LIR_PRED,
                            lir_reg(lower_elem_reg(lo, place, LIR_B32)),
                            lir_int(arg->type.dim[axis]));
    Elem none = lower_identity(op->reduce, arg->type.dtype);
    if (arg->type.dtype == DT_BOOL) {
        if (op->reduce == REDUCE_ANY)
            return elem_reg(
                lir_op2(&lo->b, LIR_AND_PRED, LIR_PRED, lower_operand(lo, elem), lir_reg(inside)));
        LirReg outside = lir_op1(&lo->b, LIR_NOT_PRED, LIR_PRED, lir_reg(inside));
        return elem_reg(
            lir_op2(&lo->b, LIR_OR_PRED, LIR_PRED, lower_operand(lo, elem), lir_reg(outside)));
    }
    return lower_select(lo, arg->type.dtype, elem_reg(inside), elem, none);
}

Elem
lower_combined_elem(Lowering *lo, const TirOp *op, int32_t reg)
{
    return inside_or_identity(lo, op, reg, lower_elem(lo, op->args[0], reg));
}

/* The place, in the result, of a place in what is reduced: along the axis, or the part, all are the
 * same. */
static void
drop_part(int32_t at[LAYOUT_RANK], const TirOp *op)
{
    LayoutPart part = op_part(op);
    int32_t *along = &at[part.axis], below = *along % part.inner;

    *along = below +
             (part.length == WHOLE_AXIS ? 0 : *along / part.inner / part.length * part.inner);
    if (part.length == WHOLE_AXIS && part.axis == 0)
        at[0] = at[1];
    if (part.length == WHOLE_AXIS)
        at[1] = 0;
}

/* Whether two elements of it may be added in one instruction: a sum of f32. */
static bool
sums_floats(const TirOp *op)
{
    return op->reduce == REDUCE_SUM && op->args[0]->type.dtype == DT_F32;
}

/* Adds registers `reg` and the next one, which goes to the same result, to two of its chains of a
 * sum, where these have begun and two are added in one instruction. */
static bool
add_two(Lowering *lo, const TirOp *op, int32_t reg, uint32_t count, Elem chains[2])
{
    const TirVal *arg = op->args[0];
    int32_t at[LAYOUT_RANK], next[LAYOUT_RANK];

    if (!sums_floats(op) || arg->type.rank != 2 || reg % 2 != 0 ||
        reg + 1 >= lower_registers(arg) || count % 2 != 0)
        return false;
    layout_coordinates(arg->layout, reg, 0, 0, at);
    layout_coordinates(arg->layout, reg + 1, 0, 0, next);
    drop_part(at, op);
    drop_part(next, op);
    if (at[0] != next[0] || at[1] != next[1])
        return false;
    Elem two[2];
    for (int32_t k = 0; k < 2; k++)
        two[k] = lower_combined_elem(lo, op, reg + k);
    return lower_add_two(lo, &chains[0], &chains[1], two);
}

/* Two chains for each result halve the latency, so that less code waits for a long chain; a sum
 * that is longer still, two chains of two elements each. */
static uint32_t
chains_of(const TirOp *op, int32_t elements)
{
    return op->reduce == REDUCE_SUM && elements > LONG_CHAIN ? MOST_CHAINS : 2;
}

/* The reduction, with what it has taken so far. */
static Reduction *
begin_reduction(Lowering *lo, TirOp *op)
{
    int32_t n = layout_registers(op->args[0]->layout), m = lower_registers(op->results[0]);

    if (lo->begun.op == op)
        return &lo->begun;
    lo->begun = (Reduction){.op = op,
                            .ways = chains_of(op, n / (m > 0 ? m : 1)),
                            .count = arena_array(lo->arena, uint32_t, m),
                            .chains = arena_alloc(lo->arena, (size_t)m * sizeof *lo->begun.chains)};
    return &lo->begun;
}

/* The result of register `reg` of what is reduced. */
static int32_t
result_of(const TirOp *op, int32_t reg)
{
    const TirVal *result = op->results[0];
    int32_t at[LAYOUT_RANK], have[LAYOUT_RANK], m = lower_registers(result);

    layout_coordinates(op->args[0]->layout, reg, 0, 0, at);
    drop_part(at, op);
    for (int32_t k = 0; k < m && result->type.rank > 0; k++) {
        layout_coordinates(result->layout, k, 0, 0, have);
        if (have[0] == at[0] && have[1] == at[1])
            return k;
    }
    return 0;
}

/* Takes registers up to `end`. */
static void
take_elements(Lowering *lo, Reduction *begun, int32_t end)
{
    const TirOp *op = begun->op;
    uint32_t ways = begun->ways;

    for (; begun->next < end; begun->next++) {
        int32_t into = result_of(op, begun->next);
        uint32_t *count = &begun->count[into];
        Elem *chain = &begun->chains[into][*count % ways];
        if (*count >= ways && add_two(lo, op, begun->next, *count, chain)) {
            *count += 2;
            begun->next++;
            continue;
        }
        Elem elem = lower_combined_elem(lo, op, begun->next);
        *chain = *count < ways
                     ? elem
                     : lower_combined(lo, op->reduce, op->results[0]->type.dtype, *chain, elem);
        ++*count;
    }
}

/* The sum behind `before` of `value`, or of what was rounded to it; NULL: there is none. */
static TirOp *
sum_behind(const TirOp *before, const TirVal *value)
{
    const TirBlock *block = before->parent;
    bool behind = false;

    while (value->def != NULL && value->def->op == TIR_CAST)
        value = value->def->args[0];
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        behind = behind || op == before;
        if (behind && tir_reduces(op, REDUCE_SUM) && op->args[0] == value &&
            value->block == block && value->type.dtype == DT_F32)
            return op;
    }
    return NULL;
}

void
lower_take_along(Lowering *lo, const TirOp *before, const TirVal *value, int32_t end)
{
    TirOp *sum = sum_behind(before, value);

    if (sum != NULL)
        take_elements(lo, begin_reduction(lo, sum), end);
}

/* Moves what the chains have come to into their registers. */
static void
move_chains(Lowering *lo, Elem (*to)[MOST_CHAINS])
{
    Reduction *begun = &lo->begun;
    int32_t m = begun->op == NULL ? 0 : lower_registers(begun->op->results[0]);

    for (int32_t k = 0; k < m; k++) {
        for (uint32_t w = 0; w < begun->ways; w++) {
            LirOperand move[] = {lir_reg(to[k][w].reg), lower_operand(lo, begun->chains[k][w])};
            lir_emit(&lo->b, LIR_MOV_F32, 1, 2, move);
        }
    }
    begun->chains = to;
}

void
lower_fix_sums(Lowering *lo, const TirOp *before, const TirVal *value)
{
    TirOp *sum = sum_behind(before, value);
    Reduction *begun = sum == NULL ? NULL : begin_reduction(lo, sum);
    int32_t m = sum == NULL ? 0 : lower_registers(sum->results[0]);

    if (sum == NULL)
        return;
    begun->fixed = arena_alloc(lo->arena, (size_t)m * sizeof *begun->fixed);
    for (int32_t k = 0; k < m; k++) {
        for (uint32_t w = begun->count[k]; w < begun->ways; w++)
            begun->chains[k][w] = elem_float(0);
        begun->count[k] = begun->count[k] < begun->ways ? begun->ways : begun->count[k];
        for (uint32_t w = 0; w < begun->ways; w++)
            begun->fixed[k][w] = elem_reg(lir_new_mutable(&lo->b, LIR_F32));
    }
    move_chains(lo, begun->fixed);
    /* what is added goes to others until it is moved there */
    begun->chains = arena_alloc(lo->arena, (size_t)m * sizeof *begun->chains);
    memcpy(begun->chains, begun->fixed, (size_t)m * sizeof *begun->chains);
}

void
lower_leave_sums(Lowering *lo)
{
    if (lo->begun.fixed != NULL)
        move_chains(lo, lo->begun.fixed);
    lo->begun.fixed = NULL;
}

/* What the chains of a result are together. */
static Elem
join_chains(Lowering *lo, const Reduction *begun, int32_t result)
{
    const TirOp *op = begun->op;
    DType dtype = op->results[0]->type.dtype;
    uint32_t count = begun->count[result], ways = begun->ways;
    Elem *chains = begun->chains[result];

    while (ways > 2 && count >= ways && sums_floats(op) &&
           lower_add_two(lo, &chains[0], &chains[1], &chains[ways - 2]))
        ways -= 2;
    for (uint32_t k = 1; k < ways && k < count; k++)
        chains[0] = lower_combined(lo, op->reduce, dtype, chains[0], chains[k]);
    return chains[0];
}

/* Whether warps whose numbers differ in a digit have parts of one result. */
static bool
parts_differ_in(const TirOp *op, const LayoutDigit *digit)
{
    return op->op == TIR_COMBINE ? digit->step[0] == 0 && digit->step[1] == 0
                                 : layout_is_along(digit, op_part(op));
}

/* Across warps: every warp writes what it has, all read and combine. */
static void
combine_warps(Lowering *lo, TirOp *op, const Layout *layout)
{
    TirVal *result = op->results[0];
    LirBuilder *b = &lo->b;
    DType dtype = result->type.dtype;
    int32_t n = lower_registers(result);

    /* Scratch word of (warp, register, lane): every thread finds its partners' words by the warp
     * digits alone. */
    LirReg lane = lower_lane(lo);
    Elem base = lower_stage_base(lo, op->shared, NULL);
    Elem mine = lower_add(lo, base, lower_mul_const(lo, elem_reg(lane), 4));
    Elem here = lower_add(lo, mine,
                          lower_mul_const(lo, elem_reg(lower_warp(lo)), 4 * WARP_LANES * n));
    for (int32_t r = 0; r < n; r++) {
        Elem elem = lower_elem(lo, result, r);
        LirReg word = dtype == DT_BOOL ? lower_bits(lo, dtype, elem)
                                       : lower_elem_reg(lo, elem, lower_class(dtype));
        LirOperand operands[] = {lir_address(here.reg, here.integer + (int64_t)r * 4 * WARP_LANES),
                                 lir_reg(word)};
        lir_emit(b, LIR_ST_SHARED_B32, 0, 2, operands);
    }
    lower_barrier(lo);
    /* The warps to combine: this warp's number with the digits of the axis replaced. */
    Elem own = elem_reg(lower_warp(lo));
    int32_t strides[LAYOUT_DIGITS], extents[LAYOUT_DIGITS], below = 1;
    uint32_t axes = 0;
    Elem first = own;
    for (uint32_t d = 0; d < layout->warp.n; d++) {
        if (parts_differ_in(op, &layout->warp.at[d])) {
            strides[axes] = below;
            extents[axes++] = layout->warp.at[d].extent;
            LirReg digit = lower_remainder(lo, lower_quotient(lo, own.reg, below),
                                           layout->warp.at[d].extent);
            first = elem_reg(lir_op2(
                b, LIR_SUB_S32, LIR_B32, lir_reg(first.reg),
                lir_reg(lower_elem_reg(lo, lower_mul_const(lo, elem_reg(digit), below), LIR_B32))));
        }
        below *= layout->warp.at[d].extent;
    }
    int32_t partners = 1;
    for (uint32_t k = 0; k < axes; k++)
        partners *= extents[k];
    Elem start = lower_add(lo, mine, lower_mul_const(lo, first, 4 * WARP_LANES * n));
    for (int32_t r = 0; r < n; r++) {
        Elem total = elem_int(0);
        for (int32_t p = 0; p < partners; p++) {
            int32_t rest = p, warp = 0;
            for (uint32_t k = 0; k < axes; k++) {
                warp += rest % extents[k] * strides[k];
                rest /= extents[k];
            }
            LirReg word = lir_new_reg(b, LIR_B32);
            LirOperand operands[] = {
                lir_reg(word),
                lir_address(start.reg, start.integer + ((int64_t)warp * n + r) * 4 * WARP_LANES)};
            lir_emit(b, LIR_LD_SHARED_B32, 1, 2, operands);
            Elem theirs = lower_elem_of_bits(lo, dtype, word);
            total = p == 0 ? theirs : lower_combined(lo, op->reduce, dtype, total, theirs);
        }
        lower_set_elem(lo, result, r, total);
    }
}

/* Numbers of this thread that are compared with one and the same. */
typedef struct Extreme {
    const TirOp *test; /* NULL: there is no such thing */
    ReduceKind kind;   /* the one of them that decides: the largest or the smallest */
    int32_t chains;    /* in how many they are compared */
    Elem elem, bound;
} Extreme;

/* `any(x > bound)` is computed from the largest x: a chain of maxima is faster than one of
 * predicates, whose latency is long. */
static Extreme
extreme_of(const TirOp *rows)
{
    const TirOp *test = rows->args[0]->def;
    Extreme none = {0};

    if (rows->reduce != REDUCE_ANY || test == NULL || test->n_args != 2 ||
        test->args[0]->type.dtype != DT_F32 ||
        rows->args[0]->layout->shape[rows->axis] > rows->args[0]->type.dim[rows->axis])
        return none; /* (the last: the layout has more than the tile) */
    int32_t each = lower_registers(rows->args[0]) / lower_registers(rows->results[0]);
    Extreme found = {.test = test, .chains = each > LONG_CHAIN ? 2 : 1};
    if (test->op == TIR_GT || test->op == TIR_GE)
        found.kind = REDUCE_MAX;
    else if (test->op == TIR_LT || test->op == TIR_LE)
        found.kind = REDUCE_MIN;
    else
        return none;
    return found;
}

/* The value under masks that are not live in this segment of the loop: its elements are the
 * same. */
static const TirVal *
unmasked(const Lowering *lo, const TirVal *value)
{
    while (value->def != NULL && tir_is_mask(value->def) && !lower_mask_is_live(lo, value->def))
        value = value->def->args[0];
    return value;
}

/* Keeps the extreme of a row for the branch that `vote` decides. */
static void
keep_extreme(Lowering *lo, const TirOp *vote, const TirOp *rows, const Extreme *extreme, int32_t row)
{
    Extremes *kept = &lo->extremes;

    if (row == 0)
        *kept = (Extremes){.vote = vote,
                           .of = unmasked(lo, extreme->test->args[0]),
                           .kind = extreme->kind,
                           .axis = rows->axis,
                           .layout = rows->results[0]->layout,
                           .rows = arena_array(lo->arena, Elem, lower_registers(rows->results[0]))};
    if (kept->vote == vote)
        kept->rows[row] = extreme->elem;
}

/* Whether the vote that guards the code being lowered has already reduced this thread's elements:
 * that is half the work of a maximum inside the branch. */
static bool
is_known(const Lowering *lo, const TirOp *op)
{
    const Extremes *known = &lo->extremes;

    return lo->voted != NULL && tir_axis_use(op) == AXIS_REDUCES && known->vote == lo->voted &&
           known->of != NULL && known->kind == op->reduce && known->axis == op->axis &&
           op->results[0]->type.rank == 1 && layout_eq(known->layout, op->results[0]->layout) &&
           known->of == unmasked(lo, op->args[0]);
}

static bool
same_elem(Elem a, Elem b)
{
    return a.kind == ELEM_REG && b.kind == ELEM_REG && a.reg == b.reg;
}

/* Takes element `r` of the tested values into a chain, the next of those that are taken in turn;
 * `taken`: how many have been.  False: it is compared with something else. */
static bool
take_in(Lowering *lo, Extreme *extreme, int32_t r, Elem *chain, int32_t taken)
{
    Elem elem = lower_elem(lo, extreme->test->args[0], r);
    Elem bound = lower_elem(lo, extreme->test->args[1], r);

    if (taken > 0 && !same_elem(bound, extreme->bound))
        return false;
    extreme->bound = bound;
    *chain = taken < extreme->chains ? elem
                                     : lower_combined(lo, extreme->kind, DT_F32, *chain, elem);
    return true;
}

/* This thread's extreme of row `row` of the voted values; elements of the row in other lanes are
 * combined by the vote. */
static Elem
partial_row(Lowering *lo, const TirOp *vote, const TirOp *rows, int32_t row)
{
    const Layout *from = rows->args[0]->layout, *to = rows->results[0]->layout;
    Elem found = lower_identity(rows->reduce, DT_BOOL);
    int32_t want[LAYOUT_RANK], at[LAYOUT_RANK], n = layout_registers(from);
    Extreme extreme = extreme_of(rows);
    Elem chains[2];
    int32_t taken = 0;

    layout_coordinates(to, row, 0, 0, want);
    for (int32_t r = 0; r < n && extreme.test != NULL; r++) {
        layout_coordinates(from, r, 0, 0, at);
        if (at[1 - rows->axis] != want[0])
            continue;
        if (!take_in(lo, &extreme, r, &chains[taken % extreme.chains], taken))
            extreme.test = NULL;
        taken++;
    }
    if (taken > 0 && extreme.test != NULL) {
        extreme.elem = chains[0];
        if (extreme.chains > 1)
            extreme.elem = lower_combined(lo, extreme.kind, DT_F32, chains[0], chains[1]);
        keep_extreme(lo, vote, rows, &extreme, row);
        return lower_comparison(lo, extreme.test, extreme.elem, extreme.bound);
    }
    lo->extremes = (Extremes){0};
    bool begun = false;
    for (int32_t r = 0; r < n; r++) {
        layout_coordinates(from, r, 0, 0, at);
        if (at[1 - rows->axis] != want[0])
            continue;
        Elem elem = lower_combined_elem(lo, rows, r);
        found = begun ? lower_combined(lo, rows->reduce, DT_BOOL, found, elem) : elem;
        begun = true;
    }
    return found;
}

static void
lower_vote(Lowering *lo, TirOp *op)
{
    const TirOp *masks[MAX_VOTE_MASKS];
    uint32_t n_masks;
    const TirOp *rows = vote_source(lo->fn, op, masks, &n_masks);
    LirBuilder *b = &lo->b;
    const TirVal *voted = rows != NULL ? rows->results[0] : op->args[0];
    int32_t n = lower_registers(voted);
    bool any = op->reduce == REDUCE_ANY;
    Elem found = lower_identity(op->reduce, DT_BOOL);

    for (int32_t r = 0; r < n; r++) {
        Elem elem = rows != NULL ? partial_row(lo, op, rows, r) : lower_elem(lo, op->args[0], r);
        for (uint32_t k = n_masks; rows != NULL && k-- > 0;) {
            if ((masks[k]->segments >> lo->segment & 1) == 0)
                continue;
            Elem inside = lower_elem(lo, masks[k]->args[1], r);
            if (any) {
                elem = lower_combined(lo, REDUCE_ALL, DT_BOOL, elem, inside);
            } else {
                LirReg outside = lir_op1(b, LIR_NOT_PRED, LIR_PRED, lower_operand(lo, inside));
                elem = lower_combined(lo, REDUCE_ANY, DT_BOOL, elem, elem_reg(outside));
            }
        }
        elem = inside_or_identity(lo, op, r, elem);
        found = r == 0 ? elem : lower_combined(lo, op->reduce, DT_BOOL, found, elem);
    }
    LirReg result = lir_new_reg(b, LIR_PRED);
    LirOperand operands[] = {lir_reg(result), lower_operand(lo, found)};
    LirOperand some[] = {operands[0], lir_int(0), lir_int((int32_t)lo->fn->warps * WARP_LANES),
                         operands[1]};
    if (op->vote_warp)
        lir_emit(b, any ? LIR_VOTE_ANY : LIR_VOTE_ALL, 1, 2, operands);
    else if (lo->role != NULL) {
        some[1] = lir_reg(lo->role->group);
        lir_emit(b, any ? LIR_BAR_RED_OR_SOME : LIR_BAR_RED_AND_SOME, 1, 4, some);
    } else
        lir_emit(b, any ? LIR_BAR_RED_OR : LIR_BAR_RED_AND, 1, 2, operands);
    lower_set_elem(lo, op->results[0], 0, elem_reg(result));
}

void
lower_reduce(Lowering *lo, TirOp *op)
{
    TirVal *arg = op->args[0], *result = op->results[0];
    const Layout *layout = arg->layout;
    LayoutPart part = op_part(op);
    DType dtype = result->type.dtype;
    int32_t m = lower_registers(result);

    if (tir_axis_use(op) == AXIS_REDUCES_PART)
        layout = layout_cut(lo->arena, layout, part, arg->type.dim[op->axis]);

    if (vote_makes_rows(lo->fn, op)) /* never made */
        return;
    if (tir_reduces_totals(op)) {
        for (int32_t r = layout_registers(layout); r-- > 0;)
            lower_set_elem(lo, result, result_of(op, r), lower_elem(lo, arg, r));
        return;
    }
    if (vote_is_whole(op)) {
        lower_vote(lo, op);
        return;
    }
    bool known = is_known(lo, op);
    Elem *totals = known ? lo->extremes.rows : arena_array(lo->arena, Elem, m);
    if (!known)
        take_elements(lo, begin_reduction(lo, op), layout_registers(layout));
    for (int32_t k = 0; k < m && !known; k++)
        totals[k] = join_chains(lo, &lo->begun, k);
    lo->begun = (Reduction){0};
    for (int32_t k = 0; k < m && (!op->partial || lo->whole_sums); k++)
        totals[k] = combine_lanes(lo, op->reduce, dtype, totals[k], layout, part);
    if (lower_per_word(result) > 1) /* the front end reduces f32 */
        lower_fault(lo, "reduction", dtype);
    for (int32_t k = 0; k < m; k++)
        lower_set_elem(lo, result, k, totals[k]);
    if (layout_crosses_warps(layout, part) && !op->partial)
        combine_warps(lo, op, layout);
}

void
lower_combine(Lowering *lo, TirOp *op)
{
    TirVal *arg = op->args[0];
    uint32_t lanes = lo->whole_sums ? 0 : layout_copy_lanes(arg->layout);

    for (int32_t r = 0; r < lower_registers(arg); r++) {
        Elem total = lower_elem(lo, arg, r);
        for (int32_t bit = 1; bit < WARP_LANES; bit *= 2) {
            if ((lanes & (uint32_t)bit) != 0)
                total = combine_lane(lo, REDUCE_SUM, arg->type.dtype, total, bit);
        }
        lower_set_elem(lo, op->results[0], r, total);
    }
    if (op->shared != NULL)
        combine_warps(lo, op, arg->layout);
}
