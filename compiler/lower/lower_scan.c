/* lower_scan.c - scans along an axis: of one tile by a reduction's operation, of tuples of tiles by
 * a function.
 *
 * A scan goes over the digits of the layout that count along the axis, from the one with the
 * smallest step on: registers of a thread one after the other, lanes by shuffles, warps through a
 * buffer.  Elements that differ only in digits done so far are a run: each knows what the part of
 * its run up to it makes, and what the run makes in all, which one register of the run has.
 *
 * What is left out of a scan of one tile is the neutral element.  A function has none: there a run
 * may be nothing, and a predicate says so.
 */
#include "compiler/lower/lower.h"

/* A digit of a register's, lane's or warp's number that counts along the axis. */
typedef struct ScanDigit {
    enum { ALONG_REGISTERS, ALONG_LANES, ALONG_WARPS } where;
    int32_t below; /* the digit's weight in the number */
    int32_t extent, step;
} ScanDigit;

/* A function, and what is known of its values while it is lowered. */
typedef struct Body {
    TirFn *fn;
    TileState *states;
    struct Sides *sides;
} Body;

typedef struct Scan {
    Lowering *lo;
    const TirOp *op;
    Body body; /* no fn: there is none */
    bool back;
    int32_t n; /* registers */
    uint32_t parts;
    const DType *dtype; /* of the parts */
    Elem **part, **run; /* by register, the parts of each */
    Elem *there;        /* whether its run is anything */
    int32_t *first;     /* the register that has what its run makes */
    bool single;        /* all runs are single elements so far */
} Scan;

static uint32_t
scan_digits(const Layout *layout, uint32_t axis, ScanDigit *out)
{
    const DigitList *lists[] = {&layout->reg, &layout->lane, &layout->warp};
    uint32_t n = 0;

    for (uint32_t where = ALONG_REGISTERS; where <= ALONG_WARPS; where++) {
        int32_t below = 1;
        for (uint32_t d = 0; d < lists[where]->n; d++) {
            const LayoutDigit *digit = &lists[where]->at[d];
            ScanDigit found = {where, below, digit->extent, digit->step[axis]};
            below *= digit->extent;
            if (found.step == 0 || found.extent == 1)
                continue;
            uint32_t at = n++;
            for (; at > 0 && out[at - 1].step > found.step; at--)
                out[at] = out[at - 1];
            out[at] = found;
        }
    }
    return n;
}

/* ---- two elements ---- */

static Elem
truth(bool value)
{
    return (Elem){.kind = ELEM_BOOL, .integer = value};
}

static bool
is_sure(Elem condition)
{
    return condition.kind == ELEM_BOOL && condition.integer != 0;
}

static Elem
both(Lowering *lo, Elem a, Elem b)
{
    if (a.kind == ELEM_BOOL)
        return a.integer != 0 ? b : a;
    return is_sure(b) ? a : lower_combined(lo, REDUCE_ALL, DT_BOOL, a, b);
}

static Elem
either(Lowering *lo, Elem a, Elem b)
{
    if (a.kind == ELEM_BOOL)
        return a.integer != 0 ? a : b;
    return is_sure(b) ? b : lower_combined(lo, REDUCE_ANY, DT_BOOL, a, b);
}

static Elem *
new_parts(const Scan *s)
{
    return arena_array(s->lo->arena, Elem, s->parts);
}

/* `yes` where the condition holds, else `no`. */
static Elem *
chosen(Scan *s, Elem condition, const Elem *yes, const Elem *no)
{
    Elem *out = new_parts(s);

    for (uint32_t p = 0; p < s->parts; p++)
        out[p] = lower_select(s->lo, s->dtype[p], condition, yes[p], no[p]);
    return out;
}

static void
clear_body(Lowering *lo, const TirBlock *block)
{
    for (uint32_t k = 0; k < block->params.n; k++)
        lower_clear(lo, block->params.at[k]);
    for (uint32_t k = 0; k < block->ops.n; k++) {
        if (block->ops.at[k]->n_results > 0)
            lower_clear(lo, block->ops.at[k]->results[0]);
    }
}

static void
enter(Lowering *lo, const Body *body, const TirBlock *block)
{
    lo->fn = body->fn;
    lo->states = body->states;
    lo->sides = body->sides;
    lo->block = block;
}

/* What the function makes of two elements: its operations are lowered again for each two. */
static Elem *
called(Scan *s, const Elem *x, const Elem *y)
{
    Lowering *lo = s->lo;
    Body outer = {lo->fn, lo->states, lo->sides};
    const TirBlock *around = lo->block;
    TirBlock *block = s->body.fn->body;
    const TirOp *yield = block->ops.at[block->ops.n - 1];
    Elem *out = new_parts(s);

    enter(lo, &s->body, block);
    clear_body(lo, block);
    for (uint32_t p = 0; p < s->parts; p++) {
        lower_set_elem(lo, block->params.at[p], 0, x[p]);
        lower_set_elem(lo, block->params.at[s->parts + p], 0, y[p]);
    }
    for (uint32_t p = 0; p < s->parts; p++)
        out[p] = lower_elem(lo, yield->args[p], 0);
    enter(lo, &outer, around);
    return out;
}

/* `x` comes first, in the order of the scan; both are there. */
static Elem *
combined(Scan *s, const Elem *x, const Elem *y)
{
    if (s->body.fn != NULL)
        return called(s, x, y);
    Elem *out = new_parts(s);
    out[0] = lower_combined(s->lo, s->op->reduce, s->dtype[0], x[0], y[0]);
    return out;
}

/* The same of what may be nothing. */
static Elem *
merged(Scan *s, const Elem *x, Elem has_x, const Elem *y, Elem has_y, Elem *has)
{
    *has = either(s->lo, has_x, has_y);
    return chosen(s, has_y, chosen(s, has_x, combined(s, x, y), y), x);
}

/* ---- runs ---- */

/* `gain` comes before the run of register `first`, where the condition holds. */
static void
add_to_run(Scan *s, int32_t first, const Elem *gain, Elem condition)
{
    if (s->body.fn == NULL && !is_sure(condition)) {
        Elem none = lower_identity(s->op->reduce, s->dtype[0]);
        gain = chosen(s, condition, gain, &none);
        condition = truth(true);
    }
    for (int32_t r = 0; r < s->n; r++) {
        if (s->first[r] == first)
            s->part[r] = chosen(s, condition, combined(s, gain, s->part[r]), s->part[r]);
    }
}

/* Runs of neighbouring registers become one. */
static void
scan_registers(Scan *s, const ScanDigit *digit)
{
    for (int32_t r = 0; r < s->n; r++) {
        if (s->first[r] != r || r / digit->below % digit->extent != 0)
            continue;
        Elem *so_far = NULL, there = truth(false);
        for (int32_t k = 0; k < digit->extent; k++) {
            int32_t at = r + (s->back ? digit->extent - 1 - k : k) * digit->below;
            if (k == 0) {
                so_far = s->run[at];
                there = s->there[at];
                continue;
            }
            add_to_run(s, at, so_far, there);
            if (s->single && is_sure(there) && is_sure(s->there[at])) /* a run of one element */
                so_far = s->part[at];
            else
                so_far = merged(s, so_far, there, s->run[at], s->there[at], &there);
        }
        s->run[r] = so_far;
        s->there[r] = there;
    }
    for (int32_t r = 0; r < s->n; r++)
        s->first[r] -= s->first[r] / digit->below % digit->extent * digit->below;
}

/* What a run makes, as another lane has it. */
static Elem *
run_of_lane(Scan *s, int32_t r, int32_t bit, Elem *there)
{
    Elem *out = new_parts(s);

    for (uint32_t p = 0; p < s->parts; p++)
        out[p] = lower_from_lane(s->lo, s->dtype[p], s->run[r][p], bit);
    *there = s->there[r];
    if (there->kind != ELEM_BOOL)
        *there = lower_from_lane(s->lo, DT_BOOL, *there, bit);
    return out;
}

static void
scan_lanes(Scan *s, const ScanDigit *digit)
{
    LirBuilder *b = &s->lo->b;

    for (int32_t bit = digit->below; bit < digit->below * digit->extent; bit *= 2) {
        LirReg side = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lower_lane(s->lo)), lir_int(bit));
        Elem gains = elem_reg(lir_op2(b, s->back ? LIR_SETP_EQ_S32 : LIR_SETP_NE_S32, LIR_PRED,
                                      lir_reg(side), lir_int(0)));
        for (int32_t r = 0; r < s->n; r++) {
            if (s->first[r] != r)
                continue;
            Elem there, mine = s->there[r], *run = s->run[r];
            const Elem *theirs = run_of_lane(s, r, bit, &there);
            if (s->body.fn == NULL) { /* in either order */
                add_to_run(s, r, theirs, gains);
                s->run[r] = combined(s, run, theirs);
                continue;
            }
            const Elem *x = chosen(s, gains, theirs, run), *y = chosen(s, gains, run, theirs);
            Elem has_x = lower_select(s->lo, DT_BOOL, gains, there, mine);
            Elem has_y = lower_select(s->lo, DT_BOOL, gains, mine, there);
            if (is_sure(there) && is_sure(mine))
                has_x = has_y = there;
            s->run[r] = merged(s, x, has_x, y, has_y, &s->there[r]);
            if (s->single && is_sure(has_x)) /* it is what the only element becomes */
                s->part[r] = chosen(s, gains, s->run[r], run);
            else
                add_to_run(s, r, theirs, both(s->lo, gains, there));
        }
        s->single = false;
    }
}

/* ---- warps ---- */

/* Words of a run in the buffer: its parts, and whether it is anything. */
static uint32_t
run_words(const Scan *s)
{
    return s->body.fn == NULL ? 1 : s->parts + 1;
}

static Elem *
run_word(Scan *s, int32_t r, uint32_t at, DType *dtype)
{
    *dtype = at < s->parts ? s->dtype[at] : DT_BOOL;
    return at < s->parts ? &s->run[r][at] : &s->there[r];
}

static void
write_run(Scan *s, int32_t r, Elem to)
{
    for (uint32_t k = 0; k < run_words(s); k++) {
        DType dtype;
        Elem elem = *run_word(s, r, k, &dtype);
        LirReg word = dtype == DT_BOOL ? lower_bits(s->lo, dtype, elem)
                                       : lower_elem_reg(s->lo, elem, lower_class(dtype));
        LirOperand operands[] = {lir_address(to.reg, to.integer + (int64_t)k * 4 * WARP_LANES),
                                 lir_reg(word)};
        lir_emit(&s->lo->b, LIR_ST_SHARED_B32, 0, 2, operands);
    }
}

static Elem *
read_run(Scan *s, Elem from, Elem *there)
{
    Elem *out = new_parts(s);

    *there = truth(true);
    for (uint32_t k = 0; k < run_words(s); k++) {
        LirReg word = lir_new_reg(&s->lo->b, LIR_B32);
        LirOperand operands[] = {lir_reg(word),
                                 lir_address(from.reg, from.integer + (int64_t)k * 4 * WARP_LANES)};
        lir_emit(&s->lo->b, LIR_LD_SHARED_B32, 1, 2, operands);
        DType dtype = k < s->parts ? s->dtype[k] : DT_BOOL;
        *(k < s->parts ? &out[k] : there) = lower_elem_of_bits(s->lo, dtype, word);
    }
    return out;
}

/* Every warp writes what its runs make, and reads what those of the others on its line make, in the
 * order of the scan. */
static void
scan_warps(Scan *s, const ScanDigit *digit)
{
    Lowering *lo = s->lo;
    LirBuilder *b = &lo->b;
    int32_t runs = 0, k = 0, bytes = 4 * WARP_LANES * (int32_t)run_words(s);

    for (int32_t r = 0; r < s->n; r++)
        runs += s->first[r] == r;
    int32_t stride = bytes * runs; /* from one warp's words to the next one's */
    LirReg warp = lower_warp(lo);
    LirReg own = lower_remainder(lo, lower_quotient(lo, warp, digit->below), digit->extent);
    Elem lane = lower_mul_const(lo, elem_reg(lower_lane(lo)), 4);
    Elem base = lower_add(lo, lower_stage_base(lo, s->op->shared, NULL), lane);
    Elem mine = lower_add(lo, base, lower_mul_const(lo, elem_reg(warp), stride));
    Elem before = lower_mul_const(lo, elem_reg(own), (int64_t)-stride * digit->below);
    Elem line = lower_add(lo, mine, before);
    for (int32_t r = 0; r < s->n; r++) {
        if (s->first[r] == r)
            write_run(s, r, lower_add(lo, mine, elem_int((int64_t)k++ * bytes)));
    }
    lower_barrier(lo);
    k = 0;
    for (int32_t r = 0; r < s->n; r++) {
        if (s->first[r] != r)
            continue;
        Elem *all = NULL, *gain = NULL, there = truth(false), gains = truth(false);
        for (int32_t i = 0; i < digit->extent; i++) {
            int32_t w = s->back ? digit->extent - 1 - i : i;
            Elem at = elem_int((int64_t)w * stride * digit->below + (int64_t)k * bytes), has;
            Elem *theirs = read_run(s, lower_add(lo, line, at), &has);
            if (i == 0) {
                all = gain = theirs;
                there = has;
                continue;
            }
            Elem is_own = elem_reg(lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(own), lir_int(w)));
            gain = i == 1 ? all : chosen(s, is_own, all, gain);
            gains = is_sure(there) ? either(lo, is_own, gains)
                                   : lower_select(lo, DT_BOOL, is_own, there, gains);
            all = merged(s, all, there, theirs, has, &there);
        }
        add_to_run(s, r, gain, gains);
        s->run[r] = all;
        s->there[r] = there;
        k++;
    }
}

/* ---- the operation ---- */

/* Sets up the elements: one tile's, or those of tuples. */
static Scan
begin_scan(Lowering *lo, const TirOp *op, bool back)
{
    const TirVal *arg = op->args[0];
    bool tuples = tir_combines_tuples(op);
    int32_t n = layout_registers(arg->layout);
    Scan s = {.lo = lo,
              .op = op,
              .back = back,
              .n = n,
              .parts = tuples ? op->n_args - 1 : 1,
              .part = arena_array(lo->arena, Elem *, n),
              .run = arena_array(lo->arena, Elem *, n),
              .there = arena_array(lo->arena, Elem, n),
              .first = arena_array(lo->arena, int32_t, n),
              .single = true};
    DType *dtype = arena_array(lo->arena, DType, s.parts);

    for (uint32_t p = 0; p < s.parts; p++)
        dtype[p] = op->args[tuples ? 1 + p : 0]->type.dtype;
    s.dtype = dtype;
    if (tuples)
        s.body = (Body){.fn = op->combine,
                        .states = arena_array(lo->arena, TileState, op->combine->next_id + 1),
                        .sides = lower_new_sides(lo->arena, op->combine)};
    for (int32_t r = 0; r < n; r++) {
        s.part[r] = s.run[r] = new_parts(&s);
        s.there[r] = tuples ? lower_combined_elem(lo, op, r) : truth(true);
        s.first[r] = r;
        for (uint32_t p = 0; p < s.parts; p++)
            s.part[r][p] = tuples ? lower_elem(lo, op->args[1 + p], r)
                                  : lower_combined_elem(lo, op, r);
    }
    return s;
}

/* The result of one of the operations that combine these tuples, or of the only one. */
static void
give_result(Scan *s, const TirOp *op)
{
    uint32_t part = s->body.fn == NULL ? 0 : (uint32_t)op->integer;
    DType dtype = s->dtype[part];
    Elem nothing = dtype == DT_F32 ? elem_float(0) : dtype == DT_BOOL ? truth(false) : elem_int(0);

    for (int32_t r = 0; r < s->n; r++) {
        int32_t first = s->first[r];
        Elem elem = s->part[r][part];
        if (op->op == TIR_TOTAL_BY)
            elem = lower_select(s->lo, dtype, s->there[first], s->run[first][part], nothing);
        lower_set_elem(s->lo, op->results[0], r, elem);
    }
}

void
lower_scan(Lowering *lo, const TirOp *op)
{
    ScanDigit digits[3 * LAYOUT_DIGITS];
    uint32_t n_digits = scan_digits(op->args[0]->layout, op->axis, digits);
    bool tuples = tir_combines_tuples(op), exchanged = false;

    if (tuples && tir_first_of_tuples(op) != op) /* it has been made with that one */
        return;
    Scan s = begin_scan(lo, op, op->op == TIR_SCAN_BACK || op->op == TIR_SCAN_BY_BACK);
    for (uint32_t k = 0; k < n_digits; k++) {
        if (digits[k].where == ALONG_REGISTERS)
            scan_registers(&s, &digits[k]);
        if (digits[k].where == ALONG_LANES)
            scan_lanes(&s, &digits[k]);
        if (digits[k].where == ALONG_WARPS && exchanged)
            lower_barrier(lo);
        if (digits[k].where == ALONG_WARPS)
            scan_warps(&s, &digits[k]);
        exchanged = exchanged || digits[k].where == ALONG_WARPS;
        s.single = false;
    }
    if (!tuples)
        give_result(&s, op);
    for (uint32_t i = 0; tuples && i < op->parent->ops.n; i++) {
        const TirOp *other = op->parent->ops.at[i];
        if (tir_combines_tuples(other) && tir_first_of_tuples(other) == op)
            give_result(&s, other);
    }
}
