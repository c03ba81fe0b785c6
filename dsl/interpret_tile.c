/* interpret_tile.c - tiles: shapes, padding, broadcasting, reductions. */
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

/* A sum whose terms come in any order. */
typedef struct Sum {
    double value, error, size;
    double finite; /* the size of the finite terms, and their errors */
    uint32_t n;
    bool had_nan;
    Special special;
} Sum;

/* How many additions a term goes through at most: of a large tile each of 32 threads or more adds
 * up its own first. */
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

/* The first of the elements `where`, n of them, that is the greatest, or the least: which of them;
 * n: no number is among them.  `sure`: compiled, it is that one, too. */
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

/* What an operation over one axis, or over all elements with axis -1, does with those of a
 * result. */
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

/* Along one axis: of each element and those before it, or behind it.  What is padding is not there,
 * and stays padding. */
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
