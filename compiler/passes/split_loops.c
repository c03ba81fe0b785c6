/* split_loops.c - skip iterations that masks hide, and keep masks out of those they leave alone.
 *
 *   level    tile IR, padding masks implied
 *   does     for each loop, reads the conditions of its masks as affine functions of the loop's
 *            induction variable i and of the coordinates inside the tile:
 *
 *                f(i, r, c) = alpha * i + beta_r * r + beta_c * c + rest  >= 0
 *
 *            The least and the greatest f over the tile tell for which i all elements are kept,
 *            and for which at least one is: half-lines in i.  The loop then runs over
 *
 *                [some kept .. all kept)  masks live     [all kept ..)  no masks     [.. end)  live
 *
 *            Masks that keep elements from some i on are live in the first part, those that keep them
 *            up to some i in the last; where both cut a tile, all are, in the first, or for warp groups
 *            in the last if only padding is there, which few tiles of the grid have.
 *
 *   leaves   bounds on the loop (n_segments), and on each mask the segments it is live in
 *
 * A condition that does not move with the loop (alpha = 0) holds for the whole tile or not, once
 * for all iterations: when it does not, the middle segment is empty.
 *
 * Iterations that a mask hides wholly are left out only when the body is proved to do nothing then
 * (noop_proof.h).  Masks that are not affine, or do not move with the loop, stay live everywhere.
 */
#include <string.h>

#include "compiler/passes/noop_proof.h"
#include "compiler/passes/tir_util.h"
#include "compiler/passrun.h"

enum { MAX_TERMS = 16, MAX_CONDITIONS = 16 };

/* alpha * i + sum of coefficient * value + constant + coordinates. */
typedef struct Affine {
    bool ok;
    int64_t alpha, constant;
    int64_t beta[2];  /* coefficients of the coordinates along each axis of the tile */
    int32_t extent[2]; /* and how far they run */
    int32_t inner[2];  /* the coordinate is that of a part of a pack (TirIndex); 0: of the tile */
    uint32_t n;
    struct {
        int64_t coefficient;
        TirVal *value; /* i32 scalar from outside the loop */
    } terms[MAX_TERMS];
} Affine;

typedef struct Condition {
    TirOp *mask;
    Affine f;      /* kept where f >= 0 */
    bool can_skip; /* an iteration it hides does nothing */
} Condition;

typedef struct Splitter {
    PassContext *px;
    TirFn *fn;
    bool changed;
} Splitter;

/* ---- affine forms ---- */

static void
add_term(Affine *a, TirVal *value, int64_t coefficient)
{
    for (uint32_t k = 0; k < a->n; k++) {
        if (a->terms[k].value == value) {
            a->terms[k].coefficient += coefficient;
            return;
        }
    }
    if (a->n == MAX_TERMS) {
        a->ok = false;
        return;
    }
    a->terms[a->n].value = value;
    a->terms[a->n++].coefficient = coefficient;
}

/* a + scale * b */
static Affine
combine(Affine a, const Affine *b, int64_t scale)
{
    a.ok = a.ok && b->ok;
    a.alpha += scale * b->alpha;
    a.constant += scale * b->constant;
    for (uint32_t axis = 0; axis < 2; axis++) {
        bool same = a.inner[axis] == b->inner[axis] &&
                    (a.inner[axis] == 0 || a.extent[axis] == b->extent[axis]);
        if (a.beta[axis] != 0 && b->beta[axis] != 0 && !same)
            a.ok = false; /* two coordinates */
        if (b->beta[axis] != 0)
            a.inner[axis] = b->inner[axis];
        a.beta[axis] += scale * b->beta[axis];
        if (b->extent[axis] > a.extent[axis])
            a.extent[axis] = b->extent[axis];
    }
    for (uint32_t k = 0; k < b->n; k++)
        add_term(&a, b->terms[k].value, scale * b->terms[k].coefficient);
    return a;
}

static bool
is_inside(const TirVal *value, const TirBlock *body)
{
    for (const TirBlock *at = value->block; at != NULL;
         at = at->owner == NULL ? NULL : at->owner->parent) {
        if (at == body)
            return true;
    }
    return false;
}

static Affine
affine_of(TirVal *value, const TirBlock *body)
{
    Affine result = {.ok = true};
    TirOp *op = value->def;

    if (value == body->params.at[0]) {
        result.alpha = 1;
        return result;
    }
    if (op != NULL && op->op == TIR_CONST) {
        result.constant = op->integer;
        return result;
    }
    if (value->type.rank == 0 && !is_inside(value, body)) {
        /* Sums and products by constants are taken apart here too, so that equal terms cancel. */
        if (op == NULL || (op->op != TIR_ADD && op->op != TIR_SUB && op->op != TIR_MUL)) {
            add_term(&result, value, 1);
            return result;
        }
    }
    if (op == NULL) {
        result.ok = false;
        return result;
    }
    Affine a, b;
    switch (op->op) {
    case TIR_ADD:
    case TIR_SUB:
        a = affine_of(op->args[0], body);
        b = affine_of(op->args[1], body);
        return combine(a, &b, op->op == TIR_ADD ? 1 : -1);
    case TIR_MUL:
        a = affine_of(op->args[0], body);
        b = affine_of(op->args[1], body);
        if (a.ok && a.alpha == 0 && a.n == 0 && a.beta[0] == 0 && a.beta[1] == 0)
            return combine(result, &b, a.constant);
        if (b.ok && b.alpha == 0 && b.n == 0 && b.beta[0] == 0 && b.beta[1] == 0)
            return combine(result, &a, b.constant);
        if (value->type.rank == 0 && !is_inside(value, body)) {
            add_term(&result, value, 1);
            return result;
        }
        result.ok = false;
        return result;
    case TIR_IOTA:
        result = affine_of(op->args[0], body);
        result.beta[0] += 1;
        result.extent[0] = value->type.dim[0];
        if (op->index[0].rows > 0) {
            result.extent[0] = op->index[0].length;
            result.inner[0] = op->index[0].inner;
        }
        return result;
    case TIR_EXPAND:
        result = affine_of(op->args[0], body);
        if (op->axis == 0) { /* what ran along axis 0 runs along axis 1 now */
            result.beta[1] = result.beta[0];
            result.extent[1] = result.extent[0];
            result.inner[1] = result.inner[0];
            result.beta[0] = 0;
            result.extent[0] = 1;
        }
        return result;
    case TIR_BROADCAST:
        return affine_of(op->args[0], body);
    default:
        result.ok = false;
        return result;
    }
}

/* The comparisons whose conjunction is `value`, each as f >= 0; false: not of that form. */
static bool
conditions_of(TirVal *value, const TirBlock *body, Affine *out, uint32_t *n)
{
    TirOp *op = value->def;

    if (op == NULL || *n == MAX_CONDITIONS)
        return false;
    if (op->op == TIR_AND)
        return conditions_of(op->args[0], body, out, n) && conditions_of(op->args[1], body, out, n);
    if (op->op == TIR_BROADCAST || op->op == TIR_EXPAND) {
        uint32_t first = *n;
        if (!conditions_of(op->args[0], body, out, n))
            return false;
        for (uint32_t k = first; op->op == TIR_EXPAND && op->axis == 0 && k < *n; k++) {
            out[k].beta[1] = out[k].beta[0];
            out[k].extent[1] = out[k].extent[0];
            out[k].inner[1] = out[k].inner[0];
            out[k].beta[0] = 0;
            out[k].extent[0] = 1;
        }
        return true;
    }
    if (op->n_args != 2 || op->args[0]->type.dtype != DT_I32)
        return false;
    Affine a = affine_of(op->args[0], body), b = affine_of(op->args[1], body), f;
    switch (op->op) {
    case TIR_LE: /* b - a >= 0 */
        f = combine(b, &a, -1);
        break;
    case TIR_LT:
        f = combine(b, &a, -1);
        f.constant -= 1;
        break;
    case TIR_GE:
        f = combine(a, &b, -1);
        break;
    case TIR_GT:
        f = combine(a, &b, -1);
        f.constant -= 1;
        break;
    default:
        return false;
    }
    if (!f.ok)
        return false;
    out[(*n)++] = f;
    return true;
}

/* ---- bounds ---- */

/* The extreme of the coordinates' part over the tile: its least (or greatest) value. */
static int64_t
coordinate_extreme(const Affine *f, bool greatest)
{
    int64_t sum = 0;
    for (uint32_t axis = 0; axis < 2; axis++) {
        int64_t far = f->beta[axis] * (f->extent[axis] > 0 ? f->extent[axis] - 1 : 0);
        sum += greatest == (far > 0) ? far : 0;
    }
    return sum;
}

/* The loop-invariant part of f as a scalar, plus `more`, times `sign`. */
static TirVal *
emit_rest(TirBuilder *b, const Affine *f, int64_t more, int64_t sign)
{
    TirVal *sum = tir_const_int(b, sign * (f->constant + more));

    for (uint32_t k = 0; k < f->n; k++) {
        int64_t coefficient = sign * f->terms[k].coefficient;
        TirVal *term = f->terms[k].value;
        if (coefficient == 0)
            continue;
        if (coefficient != 1 && coefficient != -1)
            term = tir_binary(b, TIR_MUL, term,
                              tir_const_int(b, coefficient < 0 ? -coefficient : coefficient));
        sum = tir_binary(b, coefficient < 0 ? TIR_SUB : TIR_ADD, sum, term);
    }
    return sum;
}

/* The first i (alpha > 0) at which f's extreme is >= 0, at least 0. */
static TirVal *
emit_first(TirBuilder *b, const Affine *f, bool greatest)
{
    TirVal *need = emit_rest(b, f, coordinate_extreme(f, greatest), -1);
    need = tir_binary(b, TIR_MAX, need, tir_const_int(b, 0));
    need = tir_binary(b, TIR_ADD, need, tir_const_int(b, f->alpha - 1));
    return tir_binary(b, TIR_DIV, need, tir_const_int(b, f->alpha));
}

/* One past the last i (alpha < 0) at which f's extreme is >= 0, at least 0. */
static TirVal *
emit_end(TirBuilder *b, const Affine *f, bool greatest)
{
    TirVal *have = emit_rest(b, f, coordinate_extreme(f, greatest), 1);
    have = tir_binary(b, TIR_MAX, have, tir_const_int(b, f->alpha));
    have = tir_binary(b, TIR_SUB, have, tir_const_int(b, f->alpha));
    return tir_binary(b, TIR_DIV, have, tir_const_int(b, -f->alpha));
}

/* `end` when f (alpha = 0) is >= 0 all over the tile, else 0. */
static TirVal *
emit_whole(TirBuilder *b, const Affine *f, TirVal *end)
{
    TirVal *zero = tir_const_int(b, 0);
    TirVal *least = emit_rest(b, f, coordinate_extreme(f, false), 1);
    return tir_select(b, tir_binary(b, TIR_GE, least, zero), end, zero);
}

/* ---- launch order ---- */

/* The sign with which a grid axis enters the affine rest; 0 when it does not. */
static int64_t
grid_coefficient(const TirFn *fn, const Affine *f, uint32_t *axis)
{
    (void)fn;
    for (uint32_t k = 0; k < f->n; k++) {
        const TirOp *def = f->terms[k].value->def;
        if (def != NULL && def->op == TIR_GRID && f->terms[k].coefficient != 0) {
            *axis = (uint32_t)def->integer;
            return f->terms[k].coefficient;
        }
    }
    return 0;
}

/* Blocks start in order of their index: when later ones have more iterations, turn the axis. */
static void
choose_order(Splitter *s, const Condition *conditions, uint32_t n)
{
    int64_t growth = 0;
    uint32_t axis = 0;

    if (!pass_enabled(s->px, "launch-order"))
        return;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = 0;
        int64_t coefficient = grid_coefficient(s->fn, &conditions[k].f, &at);
        if (!conditions[k].can_skip || coefficient == 0)
            continue;
        growth += coefficient; /* the greater f, the more iterations keep something */
        axis = at;
    }
    if (growth > 0)
        s->fn->grid.at[axis].reversed = true;
    if (growth != 0)
        s->fn->grid.at[axis].uneven = true;
}

/* ---- loops ---- */

static uint32_t
find_conditions(Splitter *s, TirOp *loop, Condition *out)
{
    TirBlock *body = loop->blocks[0];
    uint32_t n = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        Affine forms[MAX_CONDITIONS];
        uint32_t count = 0;
        if (op->op != TIR_MASK && op->op != TIR_PADMASK)
            continue;
        if (!conditions_of(op->args[1], body, forms, &count)) {
            diag_remark(s->px->diag, op->span,
                        "this mask is not a conjunction of affine comparisons: it is applied in "
                        "every iteration");
            continue;
        }
        if (n + count > MAX_CONDITIONS)
            continue;
        bool moves = true, stays = true;
        for (uint32_t k = 0; k < count; k++) {
            moves = moves && forms[k].alpha != 0;
            stays = stays && forms[k].alpha == 0;
        }
        if (stays && op->results[0]->type.rank < 2)
            continue; /* a vector's mask, the same in every iteration: cheaper than another loop */
        bool can_skip =
            op->op == TIR_MASK && moves && iteration_is_noop(s->px->arena, s->fn, loop, op);
        if (op->op == TIR_MASK && moves && !can_skip)
            diag_remark(s->px->diag, op->span,
                        "iterations that this mask hides are not skipped: the loop's body was "
                        "not proved to do nothing then");
        for (uint32_t k = 0; k < count; k++)
            out[n++] = (Condition){op, forms[k], can_skip};
    }
    return n;
}

static TirVal *
clamp(TirBuilder *b, TirVal *value, TirVal *low, TirVal *high)
{
    return tir_binary(b, TIR_MIN, tir_binary(b, TIR_MAX, value, low), high);
}

static void
split_loop(Splitter *s, TirOp *loop)
{
    Condition conditions[MAX_CONDITIONS];
    uint32_t n = find_conditions(s, loop, conditions);
    bool below = false, above = false;
    /* Without warp groups, ptxas has too few registers for all masks at once in the last segment. */
    bool only_padding = s->px->plan.bands > 0;
    TirBuilder b = {.fn = s->fn, .block = loop->parent, .at = 0, .span = loop->span};

    if (n == 0 || loop->hints.no_split || !is_not_negative(loop->args[0]))
        return;
    for (uint32_t i = 0; i < loop->parent->ops.n; i++) {
        if (loop->parent->ops.at[i] == loop)
            b.at = (int32_t)i;
    }
    TirVal *lo = loop->args[0], *hi = loop->args[1], *first_all = NULL, *end_all = NULL;
    for (uint32_t k = 0; k < n; k++) {
        const Affine *f = &conditions[k].f;
        if (f->alpha > 0) {
            TirVal *all = emit_first(&b, f, false);
            first_all = first_all == NULL ? all : tir_binary(&b, TIR_MAX, first_all, all);
            if (conditions[k].can_skip)
                lo = tir_binary(&b, TIR_MAX, lo, emit_first(&b, f, true));
            below = true;
        } else {
            TirVal *all = f->alpha == 0 ? emit_whole(&b, f, loop->args[1]) : emit_end(&b, f, false);
            end_all = end_all == NULL ? all : tir_binary(&b, TIR_MIN, end_all, all);
            if (conditions[k].can_skip)
                hi = tir_binary(&b, TIR_MIN, hi, emit_end(&b, f, true));
            above = true;
            only_padding = only_padding && conditions[k].mask->op == TIR_PADMASK;
        }
    }
    TirVal *inner[2];
    uint32_t n_inner = 0;
    TirVal *first = lo;
    if (below) {
        TirVal *low = tir_binary(&b, TIR_MIN, lo, hi);
        if (above && only_padding)
            first_all = tir_binary(&b, TIR_MIN, first_all, end_all);
        first = inner[n_inner++] = clamp(&b, first_all, low, hi);
    }
    if (above) {
        TirVal *low = tir_binary(&b, TIR_MIN, first, hi);
        inner[n_inner++] = clamp(&b, end_all, low, hi);
    }
    /* Segment numbers: masks below are live before the first inner bound; masks above after the
     * last one.  Where a tile may be cut on both sides all are: in the first segment, which every
     * tile of the grid has that a mask above cuts; in the last one when only padding is above, which
     * few have. */
    uint32_t last = n_inner, live_below = 1u, live_above = 1u << last;
    if (below && above && only_padding)
        live_below |= live_above;
    else if (below)
        live_above |= live_below;
    for (uint32_t k = 0; k < n; k++)
        conditions[k].mask->segments = 0;
    for (uint32_t k = 0; k < n; k++)
        conditions[k].mask->segments |= conditions[k].f.alpha > 0 ? live_below : live_above;

    TirVal **args = arena_array(s->px->arena, TirVal *, loop->n_args + n_inner);
    args[0] = lo;
    args[1] = hi;
    for (uint32_t k = 0; k < n_inner; k++)
        args[2 + k] = inner[k];
    for (uint32_t k = 2; k < loop->n_args; k++)
        args[k + n_inner] = loop->args[k];
    loop->args = args;
    loop->n_args += n_inner;
    loop->n_segments = n_inner + 1;
    s->changed = true;
    choose_order(s, conditions, n);
}

static void
split_block(Splitter *s, TirBlock *block)
{
    VEC(TirOp *) loops = {0};

    for (uint32_t i = 0; i < block->ops.n; i++) {
        if (block->ops.at[i]->n_blocks > 0)
            vec_push(s->px->arena, &loops, block->ops.at[i]);
    }
    for (uint32_t i = 0; i < loops.n; i++) {
        TirOp *op = loops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            split_block(s, op->blocks[k]);
        if (op->op == TIR_FOR && op->n_segments <= 1)
            split_loop(s, op);
    }
}

bool
pass_split_loops(PassContext *px, TirFn *fn)
{
    Splitter s = {.px = px, .fn = fn};
    split_block(&s, fn->body);
    if (s.changed)
        pass_simplify(px, fn);
    return s.changed;
}
