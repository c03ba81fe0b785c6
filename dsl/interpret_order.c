/* interpret_order.c - elements of a tile in the order of their values along an axis: top. */
#include <math.h>

#include "dsl/interpret_internal.h"

/* Of elements of one line: those before `a` in the order.  NaN is less than all numbers; equals stay as they were. */
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

RunValue
tile_top(Run *run, Span span, RunTile *x, int32_t axis, int32_t count)
{
    Shape shape = x->shape;
    uint32_t inner = 1, extent = (uint32_t)x->shape.dim[axis];
    RunValue out = tuple_new(run, 2);
    RunTile *result[2];
    double least = dtype_is_float(x->type) ? -(double)INFINITY : INT32_MIN;

    if (!run_works(run, span, (uint64_t)x->n * 16))
        return (RunValue){.kind = RUN_ERROR};
    for (uint32_t d = (uint32_t)axis + 1; d < x->shape.rank; d++)
        inner *= (uint32_t)x->shape.dim[d];
    shape.dim[axis] = count;
    for (uint32_t i = 0; i < 2; i++) {
        result[i] = tile_new(run, i == 0 ? x->type : DT_I32, &shape);
        for (uint32_t d = 0; d < shape.rank; d++)
            result[i]->pads[d] = (int32_t)d == axis ? NULL : x->pads[d];
        tile_skips(run, result[i]);
        out.fields->at[i] = tile_value(result[i]);
    }
    /* room for numbers */
    RunTile *keep = tile_new(run, DT_I32, &(Shape){1, {(int32_t)extent}});
    uint32_t *where = (uint32_t *)(void *)keep->at, *spare = where + extent;
    for (uint32_t line = 0; line < x->n / extent; line++) {
        uint32_t first = line / inner * inner * extent + line % inner, n = 0;
        for (uint32_t k = 0; k < extent; k++) {
            if (x->skip == NULL || !x->skip[first + k * inner])
                where[n++] = first + k * inner;
        }
        double most = 0;
        order_line(x->at, where, spare, n);
        bool sure = !run->rounding.bounds || is_sure(run, x, where, n, &most);
        for (uint32_t k = 0; k < (uint32_t)count; k++) {
            uint32_t to = line / inner * inner * (uint32_t)count + k * inner + line % inner;
            Num *value = &result[0]->at[to], *place = &result[1]->at[to];
            *value = k < n ? x->at[where[k]] : num_of(least);
            *place = num_of(k < n ? (where[k] - first) / inner : -1.0);
            value->error = sure || k >= n ? value->error : most;
            place->error = sure || k >= n ? 0 : x->n;
        }
    }
    return run->stopped ? (RunValue){.kind = RUN_ERROR} : out;
}
