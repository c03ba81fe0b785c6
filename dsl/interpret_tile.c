/* interpret_tile.c - tiles: shapes, padding, broadcasting, reductions, products. */
#include <math.h>
#include <string.h>

#include "dsl/interpret_internal.h"

/* ---- shapes ---- */

bool
shape_equal(const Shape *x, const Shape *y)
{
    return x->rank == y->rank && memcmp(x->dim, y->dim, x->rank * sizeof *x->dim) == 0;
}

bool
shape_join(const Shape *x, const Shape *y, Shape *out)
{
    const Shape *wide = x->rank >= y->rank ? x : y, *thin = wide == x ? y : x;
    uint32_t skip = wide->rank - thin->rank;
    Shape joined = *wide;

    for (uint32_t d = 0; d < thin->rank; d++) {
        int32_t a = wide->dim[skip + d], b = thin->dim[d];
        if (a != b && a != 1 && b != 1)
            return false;
        joined.dim[skip + d] = a == 1 ? b : a;
    }
    *out = joined;
    return true;
}

static uint32_t
shape_count(const Shape *shape)
{
    uint32_t n = 1;

    for (uint32_t d = 0; d < shape->rank; d++)
        n *= (uint32_t)shape->dim[d];
    return n;
}

Walk
walk_over(const Shape *shape, const Shape *x)
{
    Walk walk = {.rank = shape->rank};
    uint32_t skip = shape->rank - x->rank, step = 1;

    for (uint32_t d = shape->rank; d-- > 0;) {
        walk.dim[d] = shape->dim[d];
        if (d < skip)
            continue;
        walk.step[d] = x->dim[d - skip] == 1 ? 0 : step;
        step *= (uint32_t)x->dim[d - skip];
    }
    return walk;
}

void
walk_next(Walk *walk)
{
    for (uint32_t d = walk->rank; d-- > 0;) {
        walk->at += walk->step[d];
        if (++walk->index[d] < walk->dim[d])
            return;
        walk->at -= walk->step[d] * (uint32_t)walk->dim[d];
        walk->index[d] = 0;
    }
}

/* ---- making ---- */

RunTile *
tile_new(Run *run, DType type, const Shape *shape)
{
    uint32_t n = shape_count(shape);
    RunTile *tile = heap_new(run, OBJECT_TILE, sizeof *tile + n * (sizeof(Num) + 1));

    tile->type = type;
    tile->shape = *shape;
    tile->n = n;
    tile->at = (Num *)(void *)(tile + 1);
    tile->room = (uint8_t *)(tile->at + n);
    tile->by_rows = run->sees_rows;
    return tile;
}

RunValue
tile_value(RunTile *tile)
{
    return (RunValue){.kind = RUN_TILE, .tile = tile};
}

RunValue
scalar_value(Run *run, DType type, Num number)
{
    RunTile *tile = tile_new(run, type, &(Shape){0});

    tile->at[0] = number;
    return tile_value(tile);
}

/* ---- padding ---- */

Pad *
pad_new(Run *run, uint32_t depth, int32_t n)
{
    Pad *pad = heap_new(run, OBJECT_PAD, sizeof *pad + (size_t)n);

    pad->depth = depth;
    pad->n = n;
    return pad;
}

/* Whether two count the same positions, of ranges of one depth. */
static bool
pad_alike(const Pad *a, const Pad *b)
{
    return a->depth == b->depth && a->more == b->more && memcmp(a->at, b->at, a->more) == 0;
}

/* How many positions a pad has where those along one dimension are n. */
static int32_t
pad_extent(const Pad *pad, const Pad *more, int32_t n)
{
    return pad->more > 0 || more->more > 0 ? pad->n : n;
}

/* The positions along the dimensions that a pad counts over. */
typedef struct PadWalk {
    uint32_t n;
    uint32_t behind[RUN_TILE_RANK],
        extent[RUN_TILE_RANK]; /* elements of the tile from one to the next */
} PadWalk;

static PadWalk
pad_walk(const RunTile *tile, uint32_t d, const Pad *pad)
{
    PadWalk walk = {.n = pad->more + 1};

    for (uint32_t k = 0; k < walk.n; k++) {
        uint32_t dim = k == 0 ? d : (uint32_t)((int32_t)d + pad->at[k - 1]);
        walk.extent[k] = (uint32_t)tile->shape.dim[dim];
        walk.behind[k] = 1;
        for (uint32_t j = dim + 1; j < tile->shape.rank; j++)
            walk.behind[k] *= (uint32_t)tile->shape.dim[j];
    }
    return walk;
}

static bool
pad_covers(const PadWalk *walk, const Pad *pad, uint32_t element)
{
    uint32_t at = 0;

    for (uint32_t k = 0; k < walk->n; k++)
        at = at * walk->extent[k] + element / walk->behind[k] % walk->extent[k];
    return pad->mask[at] != 0;
}

/* `from`, one of whose positions stands for all when it has one. */
static Pad *
pad_copy(Run *run, const Pad *from, int32_t n, Pad *next)
{
    Pad *pad = pad_new(run, from->depth, n);

    pad->more = from->more;
    memcpy(pad->at, from->at, sizeof pad->at);

    for (int32_t i = 0; i < n; i++)
        pad->mask[i] = from->mask[from->n == 1 ? 0 : i];
    pad->some = from->some;
    pad->next = next;
    return pad;
}

/* Lists are never changed once made: tiles share them. */
static Pad *
pads_add(Run *run, Pad *pads, const Pad *more, int32_t n)
{
    Pad *out = NULL;
    bool found = false;

    for (Pad *pad = pads; pad != NULL; pad = pad->next) {
        bool same = pad_alike(pad, more);
        found |= same;
        if (same && (more == pad || (more->n == n && memcmp(pad->mask, more->mask, (size_t)n) == 0)))
            return pads;
    }
    if (!found)
        return pad_copy(run, more, n, pads);
    for (const Pad *pad = pads; pad != NULL; pad = pad->next) {
        out = pad_copy(run, pad, pad_extent(pad, more, n), out);
        for (int32_t i = 0; i < out->n && pad_alike(pad, more); i++)
            out->mask[i] |= more->mask[more->n == 1 ? 0 : i];
        out->some |= pad_alike(pad, more) && more->some;
    }
    return out;
}

/* Dimension of `n` positions with the padding of both; that of `more` may have one position. */
static Pad *
pads_grow(Run *run, Pad *pads, Pad *more, int32_t n)
{
    if (pads == NULL && (more == NULL || more->n == n))
        return more;
    for (const Pad *pad = more; pad != NULL; pad = pad->next)
        pads = pads_add(run, pads, pad, pad_extent(pad, pad, n));
    return pads;
}

Pad *
pads_join(Run *run, Pad *pads, const Pad *more)
{
    for (; more != NULL; more = more->next)
        pads = pads_add(run, pads, more, more->n);
    return pads;
}

void
tile_take_pads(Run *run, RunTile *out, const RunTile *x)
{
    uint32_t skip = out->shape.rank - x->shape.rank;

    for (uint32_t d = 0; d < x->shape.rank; d++)
        if (x->pads[d] != NULL)
            out->pads[skip + d] = pads_grow(run, out->pads[skip + d], x->pads[d],
                                            out->shape.dim[skip + d]);
}

void
tile_skips(Run *run, RunTile *tile)
{
    (void)run;
    tile->skip = NULL;
    for (uint32_t d = tile->shape.rank; d-- > 0;) {
        for (const Pad *pad = tile->pads[d]; pad != NULL; pad = pad->next) {
            PadWalk walk = pad_walk(tile, d, pad);
            if (!pad->some)
                continue;
            if (tile->skip == NULL)
                tile->skip = memset(tile->room, 0, tile->n);
            for (uint32_t i = 0; i < tile->n; i++)
                tile->skip[i] |= pad_covers(&walk, pad, i);
        }
    }
}

void
put_pad(Run *run, RunTile *out, const Pad *pad, const int32_t *dims, uint32_t n)
{
    Pad *copy = pad_copy(run, pad, pad->n, NULL);

    copy->more = n - 1;
    memset(copy->at, 0, sizeof copy->at);
    for (uint32_t k = 1; k < n; k++)
        copy->at[k - 1] = (int8_t)(dims[k] - dims[0]);
    out->pads[dims[0]] = pads_add(run, out->pads[dims[0]], copy, copy->n);
}

uint32_t
pad_dims(uint32_t d, const Pad *pad, int32_t dims[RUN_TILE_RANK])
{
    dims[0] = (int32_t)d;
    for (uint32_t k = 0; k < pad->more; k++)
        dims[k + 1] = (int32_t)d + pad->at[k];
    return pad->more + 1;
}

/* Whether all count over one dimension. */
static bool
all_plain(const Pad *pads)
{
    while (pads != NULL && pads->more == 0)
        pads = pads->next;
    return pads == NULL;
}

void
tile_move_pads(Run *run, RunTile *out, const RunTile *x, const int32_t *to)
{
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        if (to[d] >= 0 && out->pads[to[d]] == NULL && all_plain(x->pads[d])) {
            out->pads[to[d]] = x->pads[d];
            continue;
        }
        for (const Pad *pad = x->pads[d]; pad != NULL; pad = pad->next) {
            int32_t dims[RUN_TILE_RANK];
            uint32_t n = pad_dims(d, pad, dims);
            bool kept = true;
            for (uint32_t k = 0; k < n; k++) {
                dims[k] = to[dims[k]];
                kept &= dims[k] >= 0;
            }
            if (kept)
                put_pad(run, out, pad, dims, n);
        }
    }
}

/* ---- moving ---- */

RunTile *
tile_broadcast(Run *run, RunTile *from, const Shape *shape)
{
    if (shape_equal(&from->shape, shape))
        return from;
    RunTile *out = tile_new(run, from->type, shape);
    Walk walk = walk_over(shape, &from->shape);
    for (uint32_t i = 0; i < out->n; i++, walk_next(&walk))
        out->at[i] = from->at[walk.at];
    tile_take_pads(run, out, from);
    tile_skips(run, out);
    return out;
}

RunTile *
tile_transpose(Run *run, RunTile *x)
{
    uint32_t rows = (uint32_t)x->shape.dim[0], columns = (uint32_t)x->shape.dim[1];
    Shape shape = {2, {x->shape.dim[1], x->shape.dim[0]}};
    RunTile *out = tile_new(run, x->type, &shape);

    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t k = 0; k < columns; k++)
            out->at[k * rows + i] = x->at[i * columns + k];
    tile_move_pads(run, out, x, (int32_t[]){1, 0});
    tile_skips(run, out);
    return out;
}

/* ---- assignment ---- */

RunTile *
tile_assign(Run *run, RunTile *old, RunTile *now, uint32_t depth)
{
    bool over = false, some = false;

    for (uint32_t d = 0; d < now->shape.rank; d++) {
        for (const Pad *pad = now->pads[d]; pad != NULL; pad = pad->next) {
            over |= pad->depth > depth;
            some |= pad->depth > depth && pad->some;
        }
    }
    if (!over)
        return now;
    /* as if x = where(inside, e, x) was written */
    RunTile *out = tile_new(run, now->type, &now->shape);
    for (uint32_t d = 0; d < now->shape.rank; d++) {
        for (const Pad *pad = now->pads[d]; pad != NULL; pad = pad->next)
            if (pad->depth <= depth)
                out->pads[d] = pads_add(run, out->pads[d], pad, pad->n);
        if (old->pads[d] != NULL)
            out->pads[d] = pads_grow(run, out->pads[d], old->pads[d], out->shape.dim[d]);
    }
    memcpy(out->at, now->at, now->n * sizeof *now->at);
    for (uint32_t d = now->shape.rank; some && d-- > 0;) {
        for (const Pad *pad = now->pads[d]; pad != NULL; pad = pad->next) {
            PadWalk walk = pad_walk(now, d, pad);
            for (uint32_t i = 0; i < now->n && pad->depth > depth && pad->some; i++)
                if (pad_covers(&walk, pad, i))
                    out->at[i] = old->at[i];
        }
    }
    tile_skips(run, out);
    return out;
}

/* ---- reductions ---- */

static double
neutral(Reduction how, DType type)
{
    switch (how) {
    case REDUCTION_MAX: return dtype_is_float(type) ? -(double)INFINITY : dtype_lowest(type);
    case REDUCTION_MIN: return dtype_is_float(type) ? (double)INFINITY : dtype_highest(type);
    case REDUCTION_ALL: return 1;
    default: return 0;
    }
}

/* What is surely among the terms of a sum, in whatever order they are added. */
typedef struct Special {
    bool nan, plus, minus;
} Special;

static void
note_special(Special *have, double value, double error)
{
    have->nan |= isnan(value) && error == 0;
    have->plus |= isinf(value) && error == 0 && value > 0;
    have->minus |= isinf(value) && error == 0 && value < 0;
}

static bool
makes_nan(const Special *have)
{
    return have->nan || (have->plus && have->minus);
}

/* A sum whose terms come in any order. */
typedef struct Sum {
    double value, error, size;
    double finite; /* the size of the finite terms, and their errors */
    uint32_t n;
    bool had_nan;
    Special special;
} Sum;

/* How many additions a term goes through at most: of a large tile each of 32 threads or more adds up its own first. */
static double
sum_depth(uint32_t n)
{
    return n <= 528 ? fmax(n, 1) : fmax(512, n / 32) + 16;
}

static Num
sum_end(Run *run, const Sum *sum, DType type, const Num *terms, const uint32_t *where)
{
    Num out = {.value = sum->value, .error = sum->error, .size = sum->size, .summed = sum->n > 1};
    double grain = INFINITY;

    if (!dtype_is_float(type) || !run->rounding.bounds)
        return num_rounded(run->rounding, type, out);
    for (uint32_t i = 0; i < sum->n; i++)
        grain = fmin(grain, num_grain(terms[where[i]]));
    bool exact = sum->error == 0 && num_is_exact(grain, sum->size);
    double additions = sum_depth(sum->n) * 0x1p-24 * (sum->size + sum->error);
    if (exact && isfinite(grain)) {
        out.grain = grain;
        out.deferred = sum->n > 1 ? additions : 0;
    }
    if (isnan(sum->value))
        out.error = makes_nan(&sum->special) ? 0 : INFINITY;
    else if (!exact && !isinf(sum->value))
        out.error += additions;
    else if (isinf(sum->value)) /* the finite terms may add up to the other infinity */
        out.error = isfinite(sum->error) && sum->finite < 0x1.ffffffp127 ? 0 : INFINITY;
    if (!(sum->size + sum->error < 0x1.ffffffp127) && isfinite(sum->value))
        out.error = INFINITY;
    return num_rounded(run->rounding, type, out);
}

/* Reduces the elements `where`, n of them. */
static Num
reduce_some(Run *run, Span span, Reduction how, DType type, const Num *at, const uint32_t *where,
            uint32_t n)
{
    Num out = num_of(neutral(how, type));
    Sum sum = {.n = n};
    uint32_t numbers = 0;

    for (uint32_t i = 0; i < n; i++) {
        Num x = at[where[i]];
        switch (how) {
        case REDUCTION_SUM:
            sum.value += x.value;
            sum.error += x.error;
            sum.size += x.size;
            sum.finite += isfinite(x.value) ? x.size + x.error : 0;
            sum.had_nan |= isnan(x.value);
            note_special(&sum.special, x.value, x.error);
            break;
        case REDUCTION_MAX:
        case REDUCTION_MIN:
            out = num_minmax(run->rounding, type, how == REDUCTION_MAX, out, x);
            numbers += isnan(x.value) ? 0 : 1;
            break;
        default: {
            NumFault fault;
            out = num_binary(run->rounding, DT_BOOL, how == REDUCTION_ANY ? OP_OR : OP_AND, out, x,
                             &fault);
            break;
        }
        }
    }
    if ((how == REDUCTION_MAX || how == REDUCTION_MIN) && n > 0 && numbers == 0)
        return (Num){.value = (double)NAN, .error = run->rounding.bounds ? (double)INFINITY : 0};
    if (how != REDUCTION_SUM)
        return out;
    if (isnan(sum.value) && !sum.had_nan)
        run_nan(run, span, "this sum");
    if (dtype_kind(type) == KIND_UNSIGNED) {
        sum.value = (double)dtype_wrap(type, (int64_t)sum.value);
        sum.error = sum.error > 0 ? dtype_highest(type) : 0;
    }
    if (!dtype_is_float(type) &&
        (sum.value < dtype_lowest(type) || sum.value > dtype_highest(type))) {
        run_fail(run, span, "E-ARITHMETIC: this sum is %.0f, which does not fit in %s", sum.value,
                 dtype_name(type));
        sum.value = 0;
    }
    return sum_end(run, &sum, type, at, where);
}

/* The first of the elements `where`, n of them, that is the greatest, or the least: which of them; n: no number is
 * among them.  `sure`: compiled, it is that one, too. */
static uint32_t
extreme_of(const Run *run, bool most, const RunTile *x, const uint32_t *where, uint32_t n,
           bool *sure)
{
    uint32_t best = n;
    NumFault fault;

    for (uint32_t i = 0; i < n; i++) {
        double value = x->at[where[i]].value;
        double so_far = best == n ? 0 : x->at[where[best]].value;
        if (!isnan(value) && (best == n || (most ? value > so_far : value < so_far)))
            best = i;
    }
    *sure = true;
    for (uint32_t i = 0; i < n; i++) {
        Num other = x->at[where[i]];
        Op better = most ? i < best ? OP_GT : OP_GE : i < best ? OP_LT : OP_LE;
        if (isnan(other.value) || i == best)
            *sure = *sure && (isnan(other.value) ? other.error == 0 : isfinite(other.error));
        else if (num_binary(run->rounding, x->type, better, x->at[where[best]], other, &fault)
                     .error != 0)
            *sure = false;
    }
    return best;
}

/* What an operation over one axis, or over all elements with axis -1, does with those of a result. */
typedef Num (*AlongAxis)(Run *run, Span span, int how, const RunTile *x, const uint32_t *where,
                         uint32_t n, uint32_t first, uint32_t step);

static RunValue
tile_along(Run *run, Span span, RunTile *x, int32_t axis, DType type, int how, AlongAxis does)
{
    Shape shape = {0};
    uint32_t inner = 1, extent = axis < 0 ? x->n : (uint32_t)x->shape.dim[axis];

    if (!run_works(run, span, x->n))
        return (RunValue){.kind = RUN_ERROR};
    for (uint32_t d = 0; axis >= 0 && d < x->shape.rank; d++) {
        if ((int32_t)d != axis)
            shape.dim[shape.rank++] = x->shape.dim[d];
        if ((int32_t)d > axis)
            inner *= (uint32_t)x->shape.dim[d];
    }
    RunTile *out = tile_new(run, type, &shape);
    /* room for numbers */
    RunTile *keep = tile_new(run, DT_I32, &(Shape){1, {(int32_t)extent}});
    uint32_t *where = (uint32_t *)(void *)keep->at;
    int32_t to[RUN_TILE_RANK];
    for (int32_t d = 0; d < RUN_TILE_RANK; d++)
        to[d] = axis < 0 || d == axis ? -1 : d - (d > axis);
    tile_move_pads(run, out, x, to);
    tile_skips(run, out);
    for (uint32_t i = 0; i < out->n; i++) {
        uint32_t first = axis < 0 ? 0 : i / inner * inner * extent + i % inner, n = 0;
        if (out->skip != NULL && out->skip[i]) {
            out->at[i] = num_of(0);
            continue;
        }
        for (uint32_t k = 0; k < extent; k++) {
            uint32_t at = first + k * (axis < 0 ? 1 : inner);
            if (x->skip == NULL || !x->skip[at])
                where[n++] = at;
        }
        out->at[i] = does(run, span, how, x, where, n, first, inner);
    }
    return run->stopped ? (RunValue){.kind = RUN_ERROR} : tile_value(out);
}

static Num
reduced(Run *run, Span span, int how, const RunTile *x, const uint32_t *where, uint32_t n,
        uint32_t first, uint32_t step)
{
    (void)first;
    (void)step;
    return reduce_some(run, span, (Reduction)how, x->type, x->at, where, n);
}

RunValue
tile_reduce(Run *run, Span span, Reduction how, RunTile *x, int32_t axis)
{
    return tile_along(run, span, x, axis, x->type, (int)how, reduced);
}

static Num
place_of_extreme(Run *run, Span span, int most, const RunTile *x, const uint32_t *where, uint32_t n,
                 uint32_t first, uint32_t step)
{
    bool sure;
    uint32_t best = extreme_of(run, most != 0, x, where, n, &sure);
    Num out = num_of(best == n ? -1.0 : (double)((where[best] - first) / step));

    (void)span;
    out.error = sure || !run->rounding.bounds ? 0 : x->n;
    return out;
}

RunValue
tile_arg(Run *run, Span span, bool most, RunTile *x, int32_t axis)
{
    return tile_along(run, span, x, axis, DT_I32, most, place_of_extreme);
}

/* Along one axis: of each element and those before it, or behind it.  What is padding is not there, and stays padding. */
RunValue
tile_scan(Run *run, Span span, Reduction how, RunTile *x, int32_t axis, bool reverse)
{
    uint32_t inner = 1, extent = (uint32_t)x->shape.dim[axis];

    if (!run_works(run, span, (uint64_t)x->n * (extent + 1) / 2))
        return (RunValue){.kind = RUN_ERROR};
    for (uint32_t d = (uint32_t)axis + 1; d < x->shape.rank; d++)
        inner *= (uint32_t)x->shape.dim[d];
    RunTile *out = tile_new(run, x->type, &x->shape);
    /* room for numbers */
    RunTile *keep = tile_new(run, DT_I32, &(Shape){1, {(int32_t)extent}});
    uint32_t *where = (uint32_t *)(void *)keep->at;
    for (uint32_t d = 0; d < x->shape.rank; d++)
        out->pads[d] = x->pads[d];
    tile_skips(run, out);
    for (uint32_t line = 0; line < x->n / extent; line++) {
        uint32_t first = line / inner * inner * extent + line % inner, n = 0;
        for (uint32_t k = 0; k < extent; k++) {
            uint32_t at = first + (reverse ? extent - 1 - k : k) * inner;
            bool there = x->skip == NULL || !x->skip[at];
            if (there)
                where[n++] = at;
            out->at[at] = there ? reduce_some(run, span, how, x->type, x->at, where, n) : num_of(0);
        }
    }
    return run->stopped ? (RunValue){.kind = RUN_ERROR} : tile_value(out);
}

/* ---- products ---- */

/* Marks the positions of the inner dimension that neither side has as padding. */
static void
mark_inner(const Pad *pads, uint8_t *skip)
{
    for (; pads != NULL; pads = pads->next)
        for (int32_t i = 0; i < pads->n && pads->some && pads->more == 0; i++)
            skip[i] |= pads->mask[i];
}

/* Of one row of the result.  Of products of 8-bit floats also what partial sums are no more than, up and down, and by its
 * operands' exponents the greatest product: of zeros and subnormals these are that of the least normal number. */
typedef struct Row {
    double *value, *error, *size, *up, *down, *most;
    double least_a, least_b; /* these numbers */
} Row;

static void
add_narrow_row(const Row *row, Num a, const Num *b, uint32_t n)
{
    double most = fmax(fabs(a.value) + a.error, row->least_a);

    for (uint32_t k = 0; k < n; k++) {
        double value = a.value * b[k].value, size = fabs(b[k].value) + b[k].error;
        double error = (fabs(a.value) + a.error) * size - fabs(value);
        if (isnan(value) || isnan(error))
            value = error = INFINITY;
        row->up[k] += error + (value > 0 ? value : 0);
        row->down[k] += error - (value < 0 ? value : 0);
        row->most[k] = fmax(row->most[k], most * fmax(size, row->least_b));
    }
}

static void
add_product_row(Run *run, const Row *row, Num a, const Num *b, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        row->value[k] += a.value * b[k].value;
    if (!run->rounding.bounds)
        return;
    if (row->most != NULL)
        add_narrow_row(row, a, b, n);
    for (uint32_t k = 0; k < n; k++) {
        double size = a.size == 0 || b[k].size == 0 ? 0 : a.size * b[k].size;
        row->size[k] += size;
        if (a.error > 0 || b[k].error > 0) {
            double error = a.error > 0 ? a.error * (fabs(b[k].value) + b[k].error) : 0;
            if (b[k].error > 0)
                error += fabs(a.value) * b[k].error;
            row->error[k] += error;
        }
    }
}

/* A power of two that all elements are multiples of; 0: none is known. */
static double
grain_of(const RunTile *x)
{
    double grain = INFINITY;

    for (uint32_t i = 0; i < x->n && grain > 0; i++)
        grain = x->at[i].error > 0 ? 0 : fmin(grain, num_grain(num_of(x->at[i].value)));
    return grain;
}

static bool
has_nan(const RunTile *x)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (isnan(x->at[i].value) && (x->skip == NULL || !x->skip[i]))
            return true;
    return false;
}

/* Whether element (i, j) is a NaN in every compiled kernel, too. */
static bool
product_is_nan(const RunTile *a, const RunTile *b, uint32_t i, uint32_t j, const uint8_t *skip,
               const Num *acc)
{
    uint32_t inner = (uint32_t)a->shape.dim[1], columns = (uint32_t)b->shape.dim[1];
    Special have = {0};

    if (acc != NULL)
        note_special(&have, acc->value, acc->error);
    for (uint32_t k = 0; k < inner; k++) {
        Num x = a->at[i * inner + k], y = b->at[(size_t)k * columns + j];
        bool nan = (isnan(x.value) && x.error == 0) || (isnan(y.value) && y.error == 0);
        if (!skip[k] && !isfinite(x.value * y.value) && (!isfinite(x.value) || !isfinite(y.value)))
            note_special(&have, x.value * y.value, nan ? 0 : x.error + y.error);
    }
    return makes_nan(&have);
}

/* What tensor cores that keep 13 bits below the largest exponent may cut off a sum of multiples of `grain` to which `before`
 * belongs: in each instruction of 16 or more of the inner dimension of each product, of what was summed, and of the
 * result.  What the language promises is no less. */
static double
narrow_cut(const Row *row, uint32_t k, uint32_t inner, double before, double grain)
{
    enum { BITS = 13, STEP = 16 };
    double promised = 0x1p-6 * (row->size[k] + before);
    double most = fmax(row->most[k], fmax(row->up[k], row->down[k]) + before + promised);
    int exponent;

    if (!isfinite(most))
        return promised;
    frexp(most, &exponent);
    double unit = ldexp(1, exponent - 1 - BITS);
    if (grain >= unit)
        return 0;
    return fmin(promised, (inner + 2 * ((inner + STEP - 1) / STEP)) * (unit - grain));
}

/* `grain`: of the products. */
static Num
product_element(Run *run, const Row *row, uint32_t k, uint32_t inner, double grain, const Num *acc)
{
    Num out = {.value = row->value[k]};

    if (acc != NULL)
        out.value += acc->value;
    if (fabs(out.value) >= 0x1.ffffffp127 && isfinite(out.value))
        out.value = copysign(INFINITY, out.value);
    if (!run->rounding.bounds)
        return out;
    out.error = row->error[k] + (acc != NULL ? acc->error : 0);
    out.size = row->size[k] + (acc != NULL ? acc->size : 0);
    bool goes_on = run->fast && acc != NULL;
    bool known = acc == NULL ||
                 (acc->error == 0 && acc->fused == 0); /* no part of a multiply-add */
    double deferred = acc != NULL && isfinite(acc->deferred) ? acc->deferred : 0;
    double of_all = acc == NULL ? grain : fmin(grain, known ? num_grain(*acc) : 0);
    double cut = row->most == NULL ? 0
                                   : narrow_cut(row, k, inner, goes_on ? acc->size + acc->error : 0,
                                                goes_on ? of_all : grain);
    bool exact = cut == 0 && out.error == 0 && num_is_exact(of_all, out.size);
    out.grain = exact && isfinite(of_all) ? of_all : 0;
    out.deferred = exact ? deferred : 0;
    if (!exact && !isinf(out.value)) /* the unit may cut off what it should round */
        out.error += (inner + 2) * 0x1p-23 * (out.size + out.error) + cut + deferred;
    if (isnan(out.value) || isnan(out.error) ||
        (!(out.size + out.error < 0x1.ffffffp127) && !isinf(row->value[k])))
        out.error = out.size = INFINITY;
    return out;
}

/* Of i8 and u8: exact. */
static Num
product_integer(Run *run, Span span, const Row *row, uint32_t k, const Num *acc)
{
    Num out = num_of(row->value[k] + (acc != NULL ? acc->value : 0));

    if (run->rounding.bounds)
        out.error = row->error[k] + (acc != NULL ? acc->error : 0);
    if (out.value < INT32_MIN || out.value > INT32_MAX) {
        run_fail(run, span,
                 "E-ARITHMETIC: this product has a sum of %.0f, which does not fit in i32",
                 out.value);
        out = num_of(0);
    }
    return out;
}

enum { PER_COLUMN = 6 };
_Static_assert(PER_COLUMN * sizeof(double) <= sizeof(Num), "a row of these is a row of numbers");

/* `room` for a row of the result. */
static Row
row_of(const Run *run, const RunTile *a, const RunTile *b, double *room)
{
    uint32_t n = (uint32_t)b->shape.dim[1];
    Row row = {.value = room, .error = room + n, .size = room + 2 * n};

    if (run->rounding.bounds && dtype_is_coded(a->type)) {
        row.up = room + 3 * n;
        row.down = room + 4 * n;
        row.most = room + 5 * n;
        row.least_a = ldexp(1, dtype_least(a->type) + dtype_digits(a->type) - 1);
        row.least_b = ldexp(1, dtype_least(b->type) + dtype_digits(b->type) - 1);
    }
    return row;
}

RunValue
tile_product(Run *run, Span span, RunTile *a, RunTile *b, RunTile *acc)
{
    uint32_t rows = (uint32_t)a->shape.dim[0], inner = (uint32_t)a->shape.dim[1];
    uint32_t columns = (uint32_t)b->shape.dim[1];
    Shape shape = {2, {a->shape.dim[0], b->shape.dim[1]}}, line = {1, {b->shape.dim[1]}};
    RunTile *out = tile_new(run, dtype_wide(a->type), &shape);
    RunTile *room = tile_new(run, DT_F32, &line);
    RunTile *skips = tile_new(run, DT_BOOL, &(Shape){1, {a->shape.dim[1]}});
    Row row = row_of(run, a, b, (double *)(void *)room->at);
    double grain_a = run->rounding.bounds ? grain_of(a) : 0,
           grain_b = grain_a > 0 ? grain_of(b) : 0;
    double grain = grain_b > 0 ? grain_a * grain_b : 0;
    bool excused = has_nan(a) || has_nan(b);

    if (!run_works(run, span, (uint64_t)rows * inner * columns / 8))
        return (RunValue){.kind = RUN_ERROR};
    uint8_t *skip = memset(skips->room, 0, inner);
    mark_inner(a->pads[1], skip);
    mark_inner(b->pads[0], skip);
    tile_move_pads(run, out, a, (int32_t[]){0, -1});
    tile_move_pads(run, out, b, (int32_t[]){-1, 1});
    if (acc != NULL)
        tile_take_pads(run, out, acc);
    tile_skips(run, out);
    for (uint32_t i = 0; i < rows; i++) {
        Num *to = out->at + (size_t)i * columns;
        memset(row.value, 0, PER_COLUMN * columns * sizeof *row.value);
        for (uint32_t k = 0; k < inner; k++)
            if (!skip[k])
                add_product_row(run, &row, a->at[i * inner + k], b->at + (size_t)k * columns,
                                columns);
        for (uint32_t j = 0; j < columns; j++) {
            const Num *plus = acc != NULL ? &acc->at[(size_t)i * columns + j] : NULL;
            if (!dtype_is_float(out->type)) {
                to[j] = product_integer(run, span, &row, j, plus);
                continue;
            }
            to[j] = product_element(run, &row, j, inner, grain, plus);
            if (run->options->sums != NULL)
                to[j] = num_of(sums_element(run, a, b, i, j, skip, plus == NULL ? 0 : plus->value));
            if (isnan(to[j].value) && run->rounding.bounds && product_is_nan(a, b, i, j, skip, plus))
                to[j].error = 0;
            if (isnan(to[j].value) && !excused && (plus == NULL || !isnan(plus->value)) &&
                (out->skip == NULL || !out->skip[(size_t)i * columns + j]))
                run_nan(run, span, "this product");
        }
    }
    return run->stopped ? (RunValue){.kind = RUN_ERROR} : tile_value(out);
}

/* Element `k` along the first dimension, of a tile of three. */
static RunTile *
slice_of(Run *run, const RunTile *x, uint32_t k)
{
    RunTile *out = tile_new(run, x->type, &(Shape){2, {x->shape.dim[1], x->shape.dim[2]}});

    memcpy(out->at, x->at + (size_t)k * out->n, out->n * sizeof *out->at);
    tile_move_pads(run, out, x, (int32_t[]){-1, 0, 1});
    tile_skips(run, out);
    return out;
}

RunValue
tile_products(Run *run, Span span, RunTile *a, RunTile *b, RunTile *acc)
{
    Shape shape = {3, {a->shape.dim[0], a->shape.dim[1], b->shape.dim[2]}};
    RunTile *out = NULL;

    for (uint32_t k = 0; k < (uint32_t)shape.dim[0]; k++) {
        RunValue one = tile_product(run, span, slice_of(run, a, k), slice_of(run, b, k),
                                    acc == NULL ? NULL : slice_of(run, acc, k));
        if (one.kind != RUN_TILE)
            return one;
        if (out == NULL)
            out = tile_new(run, one.tile->type, &shape);
        memcpy(out->at + (size_t)k * one.tile->n, one.tile->at, one.tile->n * sizeof *out->at);
    }
    tile_move_pads(run, out, a, (int32_t[]){0, 1, -1});
    tile_move_pads(run, out, b, (int32_t[]){0, -1, 2});
    if (acc != NULL)
        tile_take_pads(run, out, acc);
    tile_skips(run, out);
    return tile_value(out);
}
