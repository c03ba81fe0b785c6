/* launch_terms.c - arithmetic on launch expressions, and the terms that tile IR gives
 * (launch_terms.h). */
#include "compiler/cost/launch_terms.h"

#include <math.h>

enum { MOST_STEPS = 512 /* definitions followed: a bound on work, and on the expression */ };

const HostExpr *
term_copy(Arena *arena, const HostExpr *e)
{
    HostExpr *made = arena_new(arena, HostExpr);

    *made = *e;
    made->a = e->a == NULL ? NULL : term_copy(arena, e->a);
    made->b = e->b == NULL ? NULL : term_copy(arena, e->b);
    return made;
}

static bool
is_int(const HostExpr *e, int64_t value)
{
    return e->kind == HOST_INT && e->integer == value;
}

bool
term_equal(const HostExpr *a, const HostExpr *b)
{
    if (a == NULL || b == NULL || a == b)
        return a == b;
    return a->kind == b->kind && a->integer == b->integer && a->index == b->index &&
           term_equal(a->a, b->a) && term_equal(a->b, b->b);
}

/* (x + 1) * n - x * n, as bounds of a part of a range are, is n; NULL: it is something else. */
static const HostExpr *
part_of(const HostExpr *to, const HostExpr *from)
{
    bool parts = to->kind == HOST_MUL && from->kind == HOST_MUL && to->a->kind == HOST_ADD &&
                 is_int(to->a->b, 1) && term_equal(to->a->a, from->a) && term_equal(to->b, from->b);

    return parts ? to->b : NULL;
}

/* n * (x + 1) / d - n * x / d, of which there are d that differ by one, are n / d on average. */
static const HostExpr *
even_part_of(const Place *at, const HostExpr *to, const HostExpr *from)
{
    if (to->kind != HOST_DIV || from->kind != HOST_DIV || !term_equal(to->b, from->b) ||
        to->a->kind != HOST_MUL || from->a->kind != HOST_MUL || !term_equal(to->a->a, from->a->a) ||
        to->a->b->kind != HOST_ADD || !is_int(to->a->b->b, 1) ||
        !term_equal(to->a->b->a, from->a->b))
        return NULL;
    return host_binary(at->arena, at->mean ? HOST_DIV : HOST_CDIV, to->a->a, to->b);
}

const HostExpr *
term_make(Arena *arena, HostKind kind, const HostExpr *a, const HostExpr *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    bool divides = kind == HOST_DIV || kind == HOST_REM || kind == HOST_CDIV;
    if (a->kind == HOST_INT && b->kind == HOST_INT && !(divides && b->integer == 0))
        return host_int(arena, trips_evaluate(host_binary(arena, kind, a, b), NULL, NULL));
    if (is_int(b, 0) && (kind == HOST_ADD || kind == HOST_SUB))
        return a;
    if (is_int(a, 0) && kind == HOST_ADD)
        return b;
    if (is_int(b, 1) && (kind == HOST_MUL || kind == HOST_DIV || kind == HOST_CDIV))
        return a;
    if (is_int(a, 1) && kind == HOST_MUL)
        return b;
    if ((is_int(a, 0) || is_int(b, 0)) && kind == HOST_MUL)
        return host_int(arena, 0);
    if ((kind == HOST_MIN || kind == HOST_MAX) && term_equal(a, b))
        return a;
    if (kind == HOST_SUB && b->kind == HOST_INT && b->integer < 0)
        return term_make(arena, HOST_ADD, a, host_int(arena, -b->integer));
    return host_binary(arena, kind, a, b);
}

/* (a + (n - 1)) / n, as ranges are divided in tile IR; else NULL. */
static const HostExpr *
as_cdiv(Arena *arena, const HostExpr *a, const HostExpr *b)
{
    bool rounds = a != NULL && b != NULL && a->kind == HOST_ADD && b->kind == HOST_INT &&
                  is_int(a->b, b->integer - 1);

    return rounds ? term_make(arena, HOST_CDIV, a->a, b) : NULL;
}

static bool
host_kind_of(TirOpcode op, HostKind *kind)
{
    switch (op) {
    case TIR_ADD: *kind = HOST_ADD; return true;
    case TIR_SUB: *kind = HOST_SUB; return true;
    case TIR_MUL: *kind = HOST_MUL; return true;
    case TIR_DIV: *kind = HOST_DIV; return true;
    case TIR_REM: *kind = HOST_REM; return true;
    case TIR_MIN: *kind = HOST_MIN; return true;
    case TIR_MAX: *kind = HOST_MAX; return true;
    default: return false;
    }
}

static const HostExpr *follow(const TirVal *value, const Place *at, uint32_t *steps);

/* x & -n, of what is not negative; NULL: something else. */
static const HostExpr *
rounded_down(const TirOp *op, const Place *at, uint32_t *steps)
{
    const TirOp *mask = op->args[1]->def;
    int64_t n = mask != NULL && mask->op == TIR_CONST ? -mask->integer : 0;

    if (n <= 0 || (n & (n - 1)) != 0)
        return NULL;
    const HostExpr *pieces = term_make(at->arena, HOST_DIV, follow(op->args[0], at, steps),
                                       host_int(at->arena, n));
    return term_make(at->arena, HOST_MUL, pieces, host_int(at->arena, n));
}

static const HostExpr *
follow(const TirVal *value, const Place *at, uint32_t *steps)
{
    const TirOp *def = value->def;
    HostKind kind;

    if (def == NULL || ++*steps > MOST_STEPS)
        return NULL;
    switch (def->op) {
    case TIR_CONST: return host_int(at->arena, def->integer);
    case TIR_SIZE: {
        HostExpr *size = arena_new(at->arena, HostExpr);
        *size = (HostExpr){.kind = HOST_SIZE, .index = (uint32_t)def->integer};
        return size;
    }
    case TIR_GRID_FIRST:
    case TIR_GRID: return def->integer < MOST_AXES ? at->grid[def->integer] : NULL;
    default: break;
    }
    if (!host_kind_of(def->op, &kind)) {
        return def->op == TIR_AND ? rounded_down(def, at, steps) : NULL;
    }
    const HostExpr *a = follow(def->args[0], at, steps), *b = follow(def->args[1], at, steps),
                   *rounded = kind == HOST_DIV ? as_cdiv(at->arena, a, b) : NULL;
    return rounded != NULL ? rounded : term_make(at->arena, kind, a, b);
}

const HostExpr *
term_scalar(const TirVal *value, const Place *at)
{
    uint32_t steps = 0;

    return follow(value, at, &steps);
}

const HostExpr *
term_trips(const TirOp *loop, const Place *at)
{
    const HostExpr *product = host_int(at->arena, 1);

    for (; loop != NULL; loop = loop->parent->owner) {
        if (loop->op != TIR_FOR)
            continue;
        const HostExpr *from = term_scalar(loop->args[0], at), *to = term_scalar(loop->args[1], at);
        const HostExpr *part = to == NULL || from == NULL ? NULL : part_of(to, from);
        if (part == NULL && to != NULL && from != NULL)
            part = even_part_of(at, to, from);
        const HostExpr *trips = part != NULL ? part : term_make(at->arena, HOST_SUB, to, from);
        if (part == NULL && trips != NULL && trips->kind == HOST_SUB)
            trips = term_make(at->arena, HOST_MAX, trips, host_int(at->arena, 0));
        product = term_make(at->arena, HOST_MUL, product, trips);
    }
    return product;
}

const HostExpr *
term_all_trips(const TripLoop *loops, uint32_t n_loops, const Place *at)
{
    const HostExpr *sum = host_int(at->arena, 0);

    for (uint32_t k = 0; k < n_loops; k++)
        sum = term_make(at->arena, HOST_ADD, sum, term_trips(loops[k].op, at));
    return sum;
}

static const HostExpr *
quarter_of(Arena *arena, const HostExpr *last, int64_t part)
{
    return term_make(arena, HOST_DIV, term_make(arena, HOST_MUL, last, host_int(arena, part)),
                     host_int(arena, 4));
}

Place
term_place(Arena *arena, const TirFn *fn, uint32_t axis, int64_t part, Places places)
{
    Place at = {.arena = arena};

    for (uint32_t k = 0; k < fn->grid.n && k < MOST_AXES; k++) {
        const HostExpr *extent = term_copy(arena, fn->grid.at[k].extent),
                       *last = term_make(arena, HOST_SUB, extent, host_int(arena, 1));
        if (k != axis)
            at.grid[k] = term_make(arena, HOST_DIV, extent, host_int(arena, 2));
        else if (part == 0 || part == 4)
            at.grid[k] = part == 0 ? host_int(arena, 0) : last;
        else if (part == 3 && places == PLACES_EVEN)
            at.grid[k] = term_make(arena, HOST_SUB, last, quarter_of(arena, last, 1));
        else
            at.grid[k] = quarter_of(arena, last, part);
    }
    return at;
}

const HostExpr *
term_tiles(Arena *arena, const TirFn *fn, uint32_t axis, uint32_t consumers)
{
    const HostExpr *tiles = host_int(arena, 1);

    for (uint32_t k = 0; k < fn->grid.n; k++) {
        const HostExpr *extent = term_copy(arena, fn->grid.at[k].extent);
        if (k == axis)
            extent = term_make(arena, HOST_CDIV, extent, host_int(arena, consumers));
        tiles = term_make(arena, HOST_MUL, tiles, extent);
    }
    return tiles;
}

const HostExpr *
term_clocks(Arena *arena, double start, double each, const HostExpr *trips)
{
    return term_make(arena, HOST_ADD, host_int(arena, llround(start)),
                     term_make(arena, HOST_MUL, host_int(arena, llround(each)), trips));
}

const HostExpr *
term_elements(Arena *arena, const TirTensor *tensor)
{
    const HostExpr *all = host_int(arena, 1);

    for (uint32_t k = 0; k < tensor->rank; k++) {
        HostExpr *extent = arena_new(arena, HostExpr);
        *extent = tensor->dim[k].constant > 0
                      ? (HostExpr){.kind = HOST_INT, .integer = tensor->dim[k].constant}
                      : (HostExpr){.kind = HOST_SIZE, .index = tensor->dim[k].size};
        all = term_make(arena, HOST_MUL, all, extent);
    }
    return all;
}
