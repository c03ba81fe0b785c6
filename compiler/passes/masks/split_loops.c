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
 *            Masks that keep elements from some i on are live in the first part, those that keep
 *            them up to some i in the last.  If both kinds may cut the same tile, all masks are
 *            live in the first part, or, for warp groups when only padding is at that end, in the
 *            last, since few tiles of the grid have padding.  Of alternatives (a or b) that keep
 *            elements up to some i, or all from some i on, whichever keeps more says where.  A mask
 *            that provably keeps everything in the first part (a diagonal under a window longer
 *            than the two sides of a tile) is live in the last part alone.
 *
 *   leaves   bounds on the loop (n_segments), and on each mask the segments it is live in; where
 *            iterations are left out, that masks did so (`masked`), and along which axes bounds
 *            differ beside that
 *
 * A condition that does not move with the loop (alpha = 0) holds for the whole tile or not, once
 * for all iterations: when it does not, the middle segment is empty.
 *
 * Iterations in which a mask hides everything are left out only if the body is proved to do nothing
 * then (noop_proof.h).  Masks that are not affine, or do not move with the loop, stay live
 * everywhere.
 */
#include <string.h>

#include "compiler/passes/masks/affine.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/iterations.h"
#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/noop_proof.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Condition {
    TirOp *mask;
    Affine f;      /* kept where f >= 0 */
    bool can_skip; /* an iteration it hides does nothing */
    bool partly;   /* the mask has others, too, that are not known */
} Condition;

typedef struct Splitter {
    PassContext *px;
    TirFn *fn;
    bool changed;
} Splitter;

/* ---- bounds ---- */

/* The first i (alpha > 0) at which f's extreme is >= 0, at least 0. */
static TirVal *
emit_first(TirBuilder *b, const Affine *f, bool greatest)
{
    TirVal *need = affine_rest(b, f, affine_extreme(f, greatest), -1);
    need = tir_binary(b, TIR_MAX, need, tir_const_int(b, 0));
    need = tir_binary(b, TIR_ADD, need, tir_const_int(b, f->alpha - 1));
    return tir_binary(b, TIR_DIV, need, tir_const_int(b, f->alpha));
}

/* One past the last i (alpha < 0) at which f's extreme is >= 0, at least 0. */
static TirVal *
emit_end(TirBuilder *b, const Affine *f, bool greatest)
{
    TirVal *have = affine_rest(b, f, affine_extreme(f, greatest), 1);
    have = tir_binary(b, TIR_MAX, have, tir_const_int(b, f->alpha));
    have = tir_binary(b, TIR_SUB, have, tir_const_int(b, f->alpha));
    return tir_binary(b, TIR_DIV, have, tir_const_int(b, -f->alpha));
}

/* How many alternatives begin with condition `at`. */
static uint32_t
alternatives_at(const Condition *conditions, uint32_t n, uint32_t at)
{
    uint32_t of = 1;

    while (at + of < n && conditions[at + of].f.or_before)
        of++;
    return of;
}

/* Where a condition, or one of `n` alternatives, begins to keep something (`greatest`) or all
 * (alpha > 0); where it ends to. */
static TirVal *
emit_edge(TirBuilder *b, const Condition *of, uint32_t n, bool greatest)
{
    bool above = of->f.alpha < 0;
    TirVal *edge = NULL;

    for (uint32_t k = 0; k < n; k++) {
        TirVal *one = above ? emit_end(b, &of[k].f, greatest) : emit_first(b, &of[k].f, greatest);
        edge = edge == NULL ? one : tir_binary(b, above ? TIR_MAX : TIR_MIN, edge, one);
    }
    return edge;
}

/* `end` when f (alpha = 0) is >= 0 all over the tile, else 0. */
static TirVal *
emit_whole(TirBuilder *b, const Affine *f, TirVal *end)
{
    TirVal *zero = tir_const_int(b, 0);
    TirVal *least = affine_rest(b, f, affine_extreme(f, false), 1);
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

/* The coefficients in f of what is no term of -g, added up; `none`: there is none. */
static int64_t
terms_beside(const Affine *f, const Affine *g, bool *none)
{
    int64_t sum = 0;

    for (uint32_t k = 0; k < f->n; k++) {
        int64_t left = f->terms[k].coefficient;
        for (uint32_t j = 0; j < g->n; j++)
            left += g->terms[j].value == f->terms[k].value ? g->terms[j].coefficient : 0;
        *none = *none && left == 0;
        sum += left;
    }
    return sum;
}

/* Marks an axis along which the range of iterations that two conditions leave, from `first` on and
 * up to `last`, moves on as a whole, up or down:
 *
 *     first   alpha i - x + a >= 0       last   -alpha i + x + b >= 0
 *
 * Its length is a + b.  If the ends of the axis and of the loop coincide (rows and columns of a
 * square, or its lower right corner), `a` is how far the range extends beyond the loop's beginning,
 * and `b` how far beyond its end: there programs are short. */
static void
mark_slide(TirGridAxis *axis, const Affine *first, const Affine *last, bool up)
{
    enum { SIZE = 1 << 20 }; /* a value for sizes that are not known: larger than any constant */
    bool bounded = first->alpha == -last->alpha;
    int64_t at_first = terms_beside(first, last, &bounded) * SIZE + first->constant;
    int64_t at_last = terms_beside(last, first, &bounded) * SIZE + last->constant;
    int64_t length = affine_extreme(first, true) + affine_extreme(last, true) + first->constant +
                     last->constant;
    uint32_t trips = bounded && length >= 0 ? (uint32_t)(length / first->alpha) + 1 : 0;

    if (axis->sliding && trips > 0 && (axis->sliding_trips == 0 || axis->sliding_trips > trips))
        trips = axis->sliding_trips; /* of another loop */
    axis->sliding_trips = trips;
    axis->short_first = up ? at_first > at_last : at_last > at_first;
    axis->sliding = true;
}

/* Blocks start in order of their index: when later ones have more iterations, the axis is
 * reversed.  An axis along which the range only moves, as under a window, is marked `sliding`. */
static void
choose_order(Splitter *s, const Condition *conditions, uint32_t n)
{
    int64_t growth = 0, up = 0;
    uint32_t axis = 0, axes = 0;
    bool alternatives = false;
    const Affine *first = NULL, *last = NULL; /* of the iterations that are not skipped */

    if (!switch_is_on(s->px, "launch-order"))
        return;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = 0;
        int64_t coefficient = grid_coefficient(s->fn, &conditions[k].f, &at);
        if (!conditions[k].can_skip || coefficient == 0)
            continue;
        alternatives = alternatives || conditions[k].f.or_before ||
                       (k + 1 < n && conditions[k + 1].f.or_before);
        growth += coefficient; /* the greater f, the more iterations keep something */
        axis = at;
        axes |= (uint32_t)1 << at;
        if (conditions[k].f.alpha > 0)
            first = &conditions[k].f;
        else
            last = &conditions[k].f;
        up += conditions[k].f.alpha > 0 ? -coefficient : coefficient;
    }
    TirGridAxis *of = &s->fn->grid.at[axis];
    if (growth > 0)
        of->reversed = true;
    if (growth != 0) {
        of->variable_trips = true;
        of->ended = false;
        of->sliding = of->short_first = false;
        of->sliding_trips = 0;
    } else if (first != NULL && last != NULL && !alternatives && axes == (uint32_t)1 << axis &&
               !of->variable_trips) {
        mark_slide(of, first, last, up > 0);
    }
}

/* The condition of a selection that a scalar is made of; NULL: there is none. */
static const TirOp *
selected_by(Arena *arena, const TirVal *value)
{
    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        if (in.value->def != NULL && in.value->def->op == TIR_SELECT)
            return in.value->def->args[0]->def;
        tir_inputs_follow(&in);
    }
    return NULL;
}

/* Whether a scalar is made of a number that is loaded by the index of a grid axis, and of which. */
static TirGridAxis *
axis_of_number(TirFn *fn, const TirVal *value)
{
    uint32_t axes = tir_axes_of_loads(fn->arena, value);

    for (uint32_t k = 0; k < fn->grid.n; k++) {
        if ((axes >> k & 1) != 0)
            return &fn->grid.at[k];
    }
    return NULL;
}

/* Programs behind the end of a sequence have no iterations, and those that find no rows in a list
 * of tiles; blocks better draw their tiles.
 *
 *     for j in 0 .. select(i * 64 < length, steps, 0)
 *     for j in 0 .. select(first[i] < end[i], steps, 0) */
static void
mark_ended(Splitter *s, const TirOp *loop)
{
    const TirOp *condition = selected_by(s->fn->arena, loop->args[1]);
    Linear slack = linear_slack(condition);

    if (!slack.ok || !switch_is_on(s->px, "launch-order") || tir_length_axis(s->fn) < s->fn->grid.n)
        return;
    TirGridAxis *listed = axis_of_number(s->fn, condition->results[0]);
    for (uint32_t k = 0; k < slack.n; k++) {
        const TirOp *def = slack.terms[k].value->def;
        if (def == NULL || def->op != TIR_GRID || slack.terms[k].coefficient >= 0)
            continue;
        s->fn->grid.at[def->integer].ended = true;
        listed = NULL;
    }
    if (listed != NULL)
        listed->ended = true;
}

/* ---- loops ---- */

/* Whether the bounds that are made of a condition are of 32-bit numbers. */
static bool
has_bounds(const TirFn *fn, const Affine *f)
{
    const int64_t most = INT32_MAX / 2;
    int64_t least = f->constant + affine_extreme(f, false);
    int64_t greatest = f->constant + affine_extreme(f, true);
    bool fits = f->alpha > -most && f->alpha < most && least > -most && greatest < most;

    for (uint32_t k = 0; k < f->n; k++)
        fits = fits && f->terms[k].coefficient > -most && f->terms[k].coefficient < most;
    return fits && affine_has_rest(fn, f);
}

static uint32_t
find_conditions(Splitter *s, TirOp *loop, Condition *out)
{
    TirBlock *body = loop->blocks[0];
    uint32_t n = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        Affine forms[AFFINE_CONDITIONS];
        uint32_t count = 0;
        if (!tir_is_mask(op))
            continue;
        bool partly = !affine_conditions(op->args[1], body, forms, &count);
        if (partly) {
            diag_remark(s->px->diag, op->span,
                        "this mask is not a conjunction of affine comparisons: it is applied in "
                        "every iteration");
            count = 0;
            affine_conjuncts(op->args[1], body, forms, &count);
        }
        bool bounded = n + count <= AFFINE_CONDITIONS;
        for (uint32_t k = 0; k < count; k++)
            bounded = bounded && has_bounds(s->fn, &forms[k]);
        if (!bounded)
            continue;
        bool moves = true, stays = true;
        for (uint32_t k = 0; k < count; k++) {
            moves = moves && forms[k].alpha != 0;
            stays = stays && forms[k].alpha == 0;
        }
        if (stays && op->results[0]->type.rank < 2)
            continue; /* a vector's mask, the same in every iteration: cheaper than another loop */
        bool can_skip = op->op == TIR_MASK && moves &&
                        iteration_is_noop(s->px->arena, s->fn, loop, op);
        if (op->op == TIR_MASK && moves && !can_skip)
            diag_remark(s->px->diag, op->span,
                        "iterations that this mask hides are not skipped: the loop's body was "
                        "not proved to do nothing then");
        for (uint32_t k = 0; k < count && (can_skip || !partly); k++)
            out[n++] = (Condition){op, forms[k], can_skip, partly};
    }
    return n;
}

/* Whether a condition keeps all elements wherever `below` (alpha > 0) masks one: the moving terms
 * cancel, so the least values of the two add up to a constant, and the condition's is not negative
 * where the other's is. */
static bool
keeps_what_is_cut(const Affine *above, const Affine *below)
{
    int64_t least = above->constant + affine_extreme(above, false) + below->constant +
                    affine_extreme(below, false);
    bool opposite = above->alpha == -below->alpha;

    terms_beside(above, below, &opposite);
    terms_beside(below, above, &opposite);
    return opposite && least + 1 >= 0;
}

/* Whether a condition may mask something in an iteration that one with alpha > 0 cuts. */
static bool
may_cut_first(const Affine *above, const Condition *conditions, uint32_t n)
{
    bool may = false;

    for (uint32_t k = 0; k < n && !may; k++)
        may = conditions[k].f.alpha > 0 && !keeps_what_is_cut(above, &conditions[k].f);
    return may;
}

static TirVal *
clamp(TirBuilder *b, TirVal *value, TirVal *low, TirVal *high)
{
    return tir_binary(b, TIR_MIN, tir_binary(b, TIR_MAX, value, low), high);
}

/* Notes that masks leave iterations out, and which of the bounds as written differ from one program
 * to the next, before they are changed. */
static void
note_masked(Splitter *s, TirOp *loop, const Condition *at, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        loop->masked = loop->masked || at[k].can_skip;
    if (loop->masked)
        loop->apart = iterations_apart(s->px->arena, s->fn->body, loop);
}

static void
split_loop(Splitter *s, TirOp *loop)
{
    Condition conditions[AFFINE_CONDITIONS];
    uint32_t n = find_conditions(s, loop, conditions);
    bool below = false, above = false;
    /* Without warp groups, ptxas has too few registers for all masks in the last segment. */
    bool only_padding = s->px->plan.consumers > 0;
    TirBuilder b = {.fn = s->fn, .block = loop->parent, .at = 0, .span = loop->span};

    if (n == 0 || loop->hints.no_split || !is_not_negative(loop->args[0]))
        return;
    for (uint32_t i = 0; i < loop->parent->ops.n; i++) {
        if (loop->parent->ops.at[i] == loop)
            b.at = (int32_t)i;
    }
    TirVal *lo = loop->args[0], *hi = loop->args[1], *first_all = NULL, *end_all = NULL;
    for (uint32_t k = 0, of; k < n; k += of) {
        const Affine *f = &conditions[k].f;
        of = alternatives_at(conditions, n, k);
        if (conditions[k].partly) {
            TirVal *some = emit_edge(&b, &conditions[k], of, true);
            lo = f->alpha > 0 ? tir_binary(&b, TIR_MAX, lo, some) : lo;
            hi = f->alpha < 0 ? tir_binary(&b, TIR_MIN, hi, some) : hi;
        } else if (f->alpha > 0) {
            TirVal *all = emit_edge(&b, &conditions[k], of, false);
            first_all = first_all == NULL ? all : tir_binary(&b, TIR_MAX, first_all, all);
            if (conditions[k].can_skip)
                lo = tir_binary(&b, TIR_MAX, lo, emit_edge(&b, &conditions[k], of, true));
            below = true;
        } else {
            TirVal *all = f->alpha == 0 ? emit_whole(&b, f, loop->args[1])
                                        : emit_edge(&b, &conditions[k], of, false);
            end_all = end_all == NULL ? all : tir_binary(&b, TIR_MIN, end_all, all);
            if (conditions[k].can_skip)
                hi = tir_binary(&b, TIR_MIN, hi, emit_edge(&b, &conditions[k], of, true));
            above = true;
            only_padding = only_padding && conditions[k].mask->op == TIR_BOUNDS_MASK;
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
     * tile of the grid has that a mask above cuts; in the last one when only padding is above,
     * which few have. */
    uint32_t last = n_inner, live_below = 1u, live_above = 1u << last;
    if (below && above && only_padding)
        live_below |= live_above;
    for (uint32_t k = 0; k < n; k++)
        conditions[k].mask->segments = conditions[k].partly ? UINT32_MAX : 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t *live = &conditions[k].mask->segments;
        *live |= conditions[k].f.alpha > 0 ? live_below : live_above;
        if (conditions[k].f.alpha <= 0 && !only_padding &&
            may_cut_first(&conditions[k].f, conditions, n))
            *live |= live_below;
    }

    note_masked(s, loop, conditions, n);
    TirVal **args = arena_array(s->px->arena, TirVal *, loop->n_args + n_inner);
    args[0] = lo;
    args[1] = hi;
    for (uint32_t k = 0; k < n_inner; k++)
        args[2 + k] = inner[k];
    for (uint32_t k = 2; k < loop->n_args; k++)
        args[k + n_inner] = loop->args[k];
    loop->args = args;
    loop->n_args += n_inner;
    loop->n_segments = n_inner > 0 ? n_inner + 1 : 0;
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
        if (op->op == TIR_FOR && op->n_segments <= 1) {
            split_loop(s, op);
            mark_ended(s, op);
        }
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
