/* ast_to_tir_order.c - which elements along an axis are the greatest, and where: argmax, argmin and
 * top.
 *
 * They are written as comparisons, selections and reductions, so that padding, layouts and targets
 * are those of these.  A place is an element's number along the axis.
 */
#include <math.h>

#include "compiler/front/ast_to_tir_internal.h"

enum {
    NOWHERE = INT32_MAX,  /* the place of what is not there */
    NAN_PLACES = 1 << 20, /* where the places of NaN begin: behind all others */
};

static TirVal *
splat_like(Lower *low, const TirVal *like, double value)
{
    return tir_splat_const(&low->b, like->type, value);
}

/* Each element's place along an axis. */
static TirVal *
places_along(Lower *low, const TirType *shape, uint32_t axis)
{
    TirVal *places = tir_iota(&low->b, tir_const_int(&low->b, 0), tir_const_int(&low->b, INT32_MAX),
                              shape->dim[axis]);

    for (uint32_t k = 0; k + 1 < shape->rank; k++)
        places = tir_expand(&low->b, places, k < axis ? 0 : places->type.rank);
    return tir_broadcast_to(&low->b, places, shape);
}

/* What was reduced along an axis, for each element of a tile that has one. */
static TirVal *
spread_along(Lower *low, TirVal *reduced, const TirType *shape, uint32_t axis)
{
    if (shape->rank > 1)
        reduced = tir_expand(&low->b, reduced, axis);
    return tir_broadcast_to(&low->b, reduced, shape);
}

/* The lowest of the places of elements for which `has` holds. */
static TirVal *
lowest_place(Lower *low, TirVal *has, TirVal *places, uint32_t axis)
{
    TirVal *found = tir_select(&low->b, has, places, splat_like(low, places, NOWHERE));

    return tir_reduce(&low->b, REDUCE_MIN, found, axis);
}

/* A NaN equals nothing, so it has no place. */
TirVal *
extreme_place(Lower *low, ReduceKind kind, TirVal *tile, uint32_t axis)
{
    TirBuilder *b = &low->b;
    TirVal *best = tir_reduce(b, kind, tile, axis);
    TirVal *has = tir_binary(b, TIR_EQ, tile, spread_along(low, best, &tile->type, axis));
    TirVal *first = lowest_place(low, has, places_along(low, &tile->type, axis), axis);
    TirVal *none = tir_binary(b, TIR_EQ, first, splat_like(low, first, NOWHERE));

    return tir_select(b, none, splat_like(low, first, -1), first);
}

/* What is carried from one of the greatest to the next: the results so far, and the values and
 * places that are left; a place that was taken is NOWHERE. */
enum { TOP_VALUES, TOP_PLACES, LEFT_VALUES, LEFT_PLACES, TOP_CARRIED };

/* NaN is less than all numbers: the least of them, at a place behind theirs. */
static void
put_nan_behind(Lower *low, TirVal **tile, TirVal **places)
{
    TirBuilder *b = &low->b;
    TirVal *nan = tir_binary(b, TIR_NE, *tile, *tile);
    TirVal *behind = tir_binary(b, TIR_ADD, *places, splat_like(low, *places, NAN_PLACES));

    *places = tir_select(b, nan, behind, *places);
    *tile = tir_select(b, nan, splat_like(low, *tile, -INFINITY), *tile);
}

/* The value and place as results have them. */
static void
as_results(Lower *low, TirVal **value, TirVal **place)
{
    TirBuilder *b = &low->b;
    TirVal *none = tir_binary(b, TIR_EQ, *place, splat_like(low, *place, NOWHERE));
    TirVal *within = *place;

    if (dtype_is_float((*value)->type.dtype)) {
        TirVal *nan = tir_binary(b, TIR_GE, *place, splat_like(low, *place, NAN_PLACES));
        within = tir_binary(b, TIR_AND, *place, splat_like(low, *place, NAN_PLACES - 1));
        *value = tir_select(b, nan, splat_like(low, *value, (double)NAN), *value);
        *value = tir_select(b, none, splat_like(low, *value, -INFINITY), *value);
    }
    *place = tir_select(b, none, splat_like(low, *place, -1), within);
}

/* Takes the greatest of those that are left, the lowest place of equals, as number `index`. */
static void
take_next(Lower *low, uint32_t axis, TirVal *index, TirVal *const *now, TirVal **next)
{
    TirBuilder *b = &low->b;
    TirVal *left = now[LEFT_VALUES], *places = now[LEFT_PLACES];
    const TirType *shape = &left->type, *results = &now[TOP_VALUES]->type;
    TirVal *most = tir_reduce(b, REDUCE_MAX, left, axis);
    TirVal *has = tir_binary(b, TIR_EQ, left, spread_along(low, most, shape, axis));
    TirVal *place = lowest_place(low, has, places, axis);
    TirVal *taken = tir_binary(b, TIR_EQ, places, spread_along(low, place, shape, axis));
    double least = tir_neutral(REDUCE_MAX, shape->dtype);

    next[LEFT_VALUES] = tir_select(b, taken, splat_like(low, left, least), left);
    next[LEFT_PLACES] = tir_select(b, taken, splat_like(low, places, NOWHERE), places);
    as_results(low, &most, &place);
    TirVal *here = tir_binary(b, TIR_EQ, places_along(low, results, axis),
                              tir_broadcast_to(b, index, results));
    next[TOP_VALUES] = tir_select(b, here, spread_along(low, most, results, axis), now[TOP_VALUES]);
    next[TOP_PLACES] = tir_select(b, here, spread_along(low, place, results, axis), now[TOP_PLACES]);
}

/* A value everywhere, but padding where `like` is. */
static TirVal *
begin_with(Lower *low, TirVal *like, DType dtype, double value)
{
    TirVal *of_type = tir_cast(&low->b, like, dtype);

    return pad_like(low, splat_like(low, of_type, value), of_type);
}

void
greatest_places(Lower *low, TirVal *tile, uint32_t axis, int32_t count, TirVal *best[2])
{
    TirBuilder *b = &low->b;
    TirVal *first[TOP_CARRIED], *next[TOP_CARRIED];
    TirVal *places = pad_like(low, places_along(low, &tile->type, axis), tir_cast(b, tile, DT_I32));
    TirType results = tile->type;

    results.dim[axis] = count;
    /* for what is padding of it */
    TirVal *like = spread_along(low, tir_reduce(b, REDUCE_MAX, tile, axis), &results, axis);
    first[TOP_VALUES] = begin_with(low, like, results.dtype, tir_neutral(REDUCE_MAX, results.dtype));
    first[TOP_PLACES] = begin_with(low, like, DT_I32, -1);
    if (dtype_is_float(tile->type.dtype))
        put_nan_behind(low, &tile, &places);
    first[LEFT_VALUES] = tile;
    first[LEFT_PLACES] = places;
    TirOp *loop = tir_for(b, tir_const_int(b, 0), tir_const_int(b, count), TOP_CARRIED, first);
    TirBlock *body = loop->blocks[0];
    for (uint32_t k = 0; k < TOP_CARRIED; k++)
        note_carried(low, body->params.at[k + 1], low->loops);
    TirBuilder outer = *b;
    b->block = body;
    b->at = -1;
    take_next(low, axis, body->params.at[0], body->params.at + 1, next);
    tir_op_new(b, TIR_YIELD, TOP_CARRIED, next, 0, NULL);
    *b = outer;
    best[0] = loop->results[TOP_VALUES];
    best[1] = loop->results[TOP_PLACES];
}
