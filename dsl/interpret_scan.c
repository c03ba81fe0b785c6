/* interpret_scan.c - scans and reductions by a function of the program, element by element in their
 * order. */
#include "dsl/dsl.h"
#include "dsl/interpret_internal.h"

enum { TUPLE_MOST = 8 };

/* What goes along one axis of tiles of one shape. */
typedef struct Tuples {
    Run *run;
    Span span;
    const Function *function;
    bool single;
    uint32_t n;
    const char *name[TUPLE_MOST];
    RunTile *part[TUPLE_MOST];
    RunTile *all; /* has the padding of all of them */
    /* what the elements' own additions are off by goes on with the results */
    bool deferred[TUPLE_MOST];
} Tuples;

static bool
find_tuples(Tuples *t, RunValue value)
{
    Run *run = t->run;
    Shape shape = {0};

    t->single = value.kind != RUN_TUPLE;
    t->n = t->single ? 1 : value.fields->n;
    for (uint32_t k = 0; k < t->n; k++) {
        RunValue part = run_typed(run, t->single ? value : value.fields->at[k]);
        if (part.kind != RUN_TILE)
            return false;
        temp_push(run, part);
        t->part[k] = part.tile;
        t->name[k] = t->single ? NULL : value.fields->names[k];
        if (!t->single && t->name[k] == NULL)
            t->name[k] = dsl_returned_name(t->function, k, t->n);
        shape_join(&shape, &part.tile->shape, &shape);
    }
    t->all = tile_new(run, DT_BOOL, &shape);
    temp_push(run, tile_value(t->all));
    for (uint32_t k = 0; k < t->n; k++) {
        for (uint32_t i = 0; i < t->part[k]->n; i++)
            t->deferred[k] = t->deferred[k] || t->part[k]->at[i].deferred != 0;
        t->part[k] = tile_broadcast(run, t->part[k], &shape);
        temp_push(run, tile_value(t->part[k]));
        tile_take_pads(run, t->all, t->part[k]);
    }
    tile_skips(run, t->all);
    return true;
}

/* A tuple of scalars, or one. */
static RunValue
scalars(const Tuples *t, const Num *at)
{
    RunValue out;

    if (t->single)
        return scalar_value(t->run, t->part[0]->type, at[0]);
    out = tuple_new(t->run, t->n);
    for (uint32_t k = 0; k < t->n; k++) {
        out.fields->names[k] = t->name[k];
        out.fields->at[k] = scalar_value(t->run, t->part[k]->type, at[k]);
    }
    return out;
}

/* How often, compiled, element `n` of a line may be rounded before it meets what came before it.
 * There elements are combined with their neighbours, and runs of them with the next ones, by the
 * digits of their places (lower_scan.c).  An element in place p of N, whose digits are d of e
 * values each, is combined e - max(d, 1) times for each digit.  That is at most N - 1 - p times,
 * and once more for each digit that is not 0, of which there are no more than elements before it,
 * or than digits of N - 1 in binary.  Here it is combined N - p times, as it comes and with each
 * one that follows. */
static uint32_t
rounds_before(uint32_t n, uint32_t extent)
{
    uint32_t digits = 0;

    while ((extent - 1) >> digits > 0)
        digits++;
    return (n < digits ? n : digits) - 1;
}

/* Combines what came before, `at`, of `n` elements, with the next element. */
static bool
combine(const Tuples *t, Num *at, uint32_t n, const Num *next, uint32_t extent)
{
    Run *run = t->run;
    uint32_t mark = run->temps.n;
    Num term[TUPLE_MOST];

    for (uint32_t k = 0; k < t->n; k++) {
        term[k] = next[k];
        at[k].earlier = term[k].later = dtype_is_float(t->part[k]->type);
    }
    RunValue args[2] = {scalars(t, at), scalars(t, term)};
    run_change_order(run, 1);
    run->rounding.before = rounds_before(n, extent);
    RunValue result = run_call_with(run, t->function, t->span, args);
    run->rounding.before = 0;
    run_change_order(run, -1);
    for (uint32_t k = 0; k < t->n && result.kind != RUN_ERROR; k++) {
        RunTile *part = run_fit(run, t->span, t->single ? result : result.fields->at[k],
                                t->part[k]->type, &(Shape){0});
        if (part == NULL)
            return false;
        at[k] = part->at[0];
        at[k].product = at[k].earlier = at[k].later = false;
        at[k].summed = dtype_is_float(part->type);
    }
    run->temps.n = mark;
    return result.kind != RUN_ERROR && !run->stopped;
}

/* A result: how its own terms were added up is settled. */
static void
put(const Tuples *t, RunTile *const *out, uint32_t at, const Num *from)
{
    for (uint32_t k = 0; k < t->n; k++) {
        out[k]->at[at] = from == NULL ? num_of(0) : from[k];
        if (!t->deferred[k])
            out[k]->at[at].deferred = 0;
    }
}

/* Goes along a line: each element's result, or with `total` the one of all at place `to`. */
static bool
go_along(const Tuples *t, RunTile *const *out, uint32_t first, uint32_t step, uint32_t extent,
         bool back, bool total, uint32_t to)
{
    Num state[TUPLE_MOST], next[TUPLE_MOST];
    uint32_t n = 0;

    for (uint32_t i = 0; i < extent; i++) {
        uint32_t at = first + (back ? extent - 1 - i : i) * step;
        bool there = t->all->skip == NULL || !t->all->skip[at];
        for (uint32_t k = 0; k < t->n; k++)
            next[k] = t->part[k]->at[at];
        if (there && n > 0 && !combine(t, state, n, next, extent))
            return false;
        for (uint32_t k = 0; k < t->n && there && n == 0; k++)
            state[k] = next[k];
        n += there;
        if (!total)
            put(t, out, at, there ? state : NULL);
    }
    if (total)
        put(t, out, to, n > 0 ? state : NULL);
    return true;
}

static RunValue
as_taken(const Tuples *t, RunTile *const *out)
{
    if (t->single)
        return tile_value(out[0]);
    RunValue tuple = tuple_new(t->run, t->n);
    for (uint32_t k = 0; k < t->n; k++) {
        tuple.fields->names[k] = t->name[k];
        tuple.fields->at[k] = tile_value(out[k]);
    }
    return tuple;
}

/* The shape and the padding of the results. */
static RunTile *
new_result(const Tuples *t, DType type, int32_t axis, bool total)
{
    const Shape *have = &t->all->shape;
    int32_t to[RUN_TILE_RANK];
    Shape shape = {0};

    for (int32_t d = 0; d < (int32_t)have->rank; d++) {
        bool drops = total && d == axis;
        to[d] = drops ? -1 : d - (total && d > axis);
        if (!drops)
            shape.dim[shape.rank++] = have->dim[d];
    }
    RunTile *out = tile_new(t->run, type, &shape);
    temp_push(t->run, tile_value(out));
    tile_move_pads(t->run, out, t->all, to);
    tile_skips(t->run, out);
    return out;
}

RunValue
run_by_function(Run *run, Span span, const Function *function, RunValue value,
                const RunValue *named_axis, bool back, bool total)
{
    Tuples t = {.run = run, .span = span, .function = function};
    RunTile *out[TUPLE_MOST];
    uint32_t step = 1, mark = run->temps.n;

    temp_push(run, value);
    if (!find_tuples(&t, value))
        return (RunValue){.kind = RUN_ERROR};
    int32_t rank = (int32_t)t.all->shape.rank, axis = (int32_t)named_axis->integer;
    axis = axis < 0 ? axis + rank : axis;
    uint32_t extent = (uint32_t)t.all->shape.dim[axis];
    for (int32_t d = axis + 1; d < rank; d++)
        step *= (uint32_t)t.all->shape.dim[d];
    for (uint32_t k = 0; k < t.n; k++)
        out[k] = new_result(&t, t.part[k]->type, axis, total);
    bool ok = run_works(run, span, t.all->n);
    for (uint32_t line = 0; ok && line < t.all->n / extent; line++) {
        bool drops = total && out[0]->skip != NULL && out[0]->skip[line];
        if (drops)
            put(&t, out, line, NULL);
        else
            ok = go_along(&t, out, line / step * step * extent + line % step, step, extent, back,
                          total, line);
    }
    run->temps.n = mark;
    return ok && !run->stopped ? as_taken(&t, out) : (RunValue){.kind = RUN_ERROR};
}
