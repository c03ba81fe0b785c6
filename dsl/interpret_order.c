/* interpret_order.c - elements of a tile in the order of their values along an axis: top and
 * sort. */
#include <math.h>

#include "dsl/interpret_internal.h"

/* Of elements of one line: those before `a` in the order.  NaN is less than all numbers; equals
 * stay as they were. */
static bool
comes_before(const Num *at, uint32_t a, uint32_t b)
{
    double x = at[a].value, y = at[b].value;

    if (isnan(x) || isnan(y))
        return !isnan(x);
    return x > y;
}

/* Sorts `where` from the greatest on; `spare` has room for as many. */
static void
order_line(const Num *at, uint32_t *where, uint32_t *spare, uint32_t n)
{
    for (uint32_t half = 1; half < n; half *= 2) {
        for (uint32_t first = 0; first + half < n; first += 2 * half) {
            uint32_t end = first + 2 * half < n ? first + 2 * half : n;
            uint32_t a = first, b = first + half, k = 0;
            while (a < first + half || b < end) {
                bool second = a == first + half ||
                              (b < end && comes_before(at, where[b], where[a]));
                spare[k++] = where[second ? b++ : a++];
            }
            for (uint32_t i = 0; i < k; i++)
                where[first + i] = spare[i];
        }
    }
}

/* Whether a compiled program has the same order, and how far its numbers may be from these. */
static bool
is_sure(const Run *run, const RunTile *x, const uint32_t *where, uint32_t n, double *most)
{
    bool sure = true;
    NumFault fault;

    *most = 0;
    for (uint32_t i = 0; i < n; i++) {
        Num a = x->at[where[i]];
        *most = a.error > *most ? a.error : *most;
        if (isnan(a.value))
            sure = sure && a.error == 0;
        else if (i + 1 < n && !isnan(x->at[where[i + 1]].value))
            sure = sure &&
                   num_binary(run->rounding, x->type, where[i] < where[i + 1] ? OP_GE : OP_GT, a,
                              x->at[where[i + 1]], &fault)
                           .error == 0;
        else
            sure = sure && isfinite(a.error);
    }
    return sure;
}

/* One line of a tile: its elements in order, from the greatest on. */
typedef struct Ordered {
    uint32_t *where, n; /* the elements that are there */
    uint32_t first, step;
    bool sure;
    double most; /* where it is not: how far each number may be off */
} Ordered;

static Ordered
ordered_line(const Run *run, const RunTile *x, int32_t axis, uint32_t line, RunTile *room)
{
    uint32_t inner = 1, extent = (uint32_t)x->shape.dim[axis];
    uint32_t *where = (uint32_t *)(void *)room->at;

    for (uint32_t d = (uint32_t)axis + 1; d < x->shape.rank; d++)
        inner *= (uint32_t)x->shape.dim[d];
    Ordered out = {
        .where = where, .first = line / inner * inner * extent + line % inner, .step = inner};
    for (uint32_t k = 0; k < extent; k++) {
        if (x->skip == NULL || !x->skip[out.first + k * inner])
            where[out.n++] = out.first + k * inner;
    }
    order_line(x->at, where, where + extent, out.n);
    out.sure = !run->rounding.bounds || is_sure(run, x, where, out.n, &out.most);
    return out;
}

/* A result of another extent along the axis, without padding there. */
static RunTile *
result_along(Run *run, const RunTile *x, int32_t axis, int32_t extent, DType type)
{
    Shape shape = x->shape;

    shape.dim[axis] = extent;
    RunTile *out = tile_new(run, type, &shape);
    for (uint32_t d = 0; d < shape.rank; d++)
        out->pads[d] = (int32_t)d == axis ? NULL : x->pads[d];
    tile_skips(run, out);
    return out;
}

static Num
ordered_value(const Ordered *line, const RunTile *x, uint32_t k)
{
    Num out = x->at[line->where[k]];

    out.error = line->sure ? out.error : line->most;
    return out;
}

RunValue
tile_top(Run *run, Span span, RunTile *x, int32_t axis, int32_t count)
{
    RunValue out = tuple_new(run, 2);
    double least = dtype_is_float(x->type) ? -(double)INFINITY : dtype_lowest(x->type);
    uint32_t extent = (uint32_t)x->shape.dim[axis];

    if (!run_works(run, span, (uint64_t)x->n * 16))
        return (RunValue){.kind = RUN_ERROR};
    RunTile *values = result_along(run, x, axis, count, x->type);
    RunTile *places = result_along(run, x, axis, count, DT_I32);
    RunTile *room = tile_new(run, DT_I32, &(Shape){1, {(int32_t)extent}});
    out.fields->at[0] = tile_value(values);
    out.fields->at[1] = tile_value(places);
    for (uint32_t i = 0; i < x->n / extent; i++) {
        Ordered line = ordered_line(run, x, axis, i, room);
        uint32_t to = i / line.step * line.step * (uint32_t)count + i % line.step;
        for (uint32_t k = 0; k < (uint32_t)count; k++, to += line.step) {
            bool there = k < line.n;
            values->at[to] = there ? ordered_value(&line, x, k) : num_of(least);
            places->at[to] = num_of(there ? (line.where[k] - line.first) / line.step : -1.0);
            places->at[to].error = there && !line.sure ? x->n : 0;
        }
    }
    return run->stopped ? (RunValue){.kind = RUN_ERROR} : out;
}

RunValue
tile_sort(Run *run, Span span, RunTile *x, int32_t axis)
{
    double most = dtype_is_float(x->type) ? (double)INFINITY : dtype_highest(x->type);
    uint32_t extent = (uint32_t)x->shape.dim[axis];

    if (!run_works(run, span, (uint64_t)x->n * 16))
        return (RunValue){.kind = RUN_ERROR};
    RunTile *out = result_along(run, x, axis, (int32_t)extent, x->type);
    RunTile *room = tile_new(run, DT_I32, &(Shape){1, {(int32_t)extent}});
    for (uint32_t i = 0; i < x->n / extent; i++) {
        Ordered line = ordered_line(run, x, axis, i, room);
        for (uint32_t k = 0; k < extent; k++)
            out->at[line.first + k * line.step] = k < line.n
                                                      ? ordered_value(&line, x, line.n - 1 - k)
                                                      : num_of(most);
    }
    return run->stopped ? (RunValue){.kind = RUN_ERROR} : tile_value(out);
}
