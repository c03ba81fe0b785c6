/* interpret_value.c - values: constants, conversions, elementwise arithmetic. */
#include <math.h>
#include <string.h>

#include "dsl/interpret_internal.h"

static const RunValue error_value = {.kind = RUN_ERROR};

RunValue
run_int(int64_t integer)
{
    return (RunValue){.kind = RUN_INT, .integer = integer};
}

RunValue
run_number(double number)
{
    return (RunValue){.kind = RUN_NUMBER, .number = number};
}

RunValue
run_bool(bool truth)
{
    return (RunValue){.kind = RUN_BOOL, .integer = truth};
}

bool
run_is_constant(const RunValue *value)
{
    return value->kind == RUN_INT || value->kind == RUN_NUMBER || value->kind == RUN_BOOL;
}

static double
constant_number(const RunValue *value)
{
    return value->kind == RUN_NUMBER ? value->number : (double)value->integer;
}

/* ---- faults ---- */

bool
run_faulty(Run *run, Span span, NumFault fault, const char *what, Num a, Num b)
{
    switch (fault) {
    case NUM_FINE: return false;
    case NUM_NAN: run_nan(run, span, what); return false;
    case NUM_OVERFLOW:
        run_fail(run, span, "E-ARITHMETIC: %s of %.0f and %.0f does not fit in i32", what, a.value,
                 b.value);
        return true;
    case NUM_ZERO:
        run_fail(run, span, "E-ARITHMETIC: %s: %.0f is divided by zero", what, a.value);
        return true;
    case NUM_SHIFT:
        run_fail(run, span, "E-ARITHMETIC: %s: %.0f is shifted by %.0f; 0 to 31 is possible", what,
                 a.value, b.value);
        return true;
    default: run_fail(run, span, "E-ARITHMETIC: %g does not fit in i32", a.value); return true;
    }
}

/* ---- conversions ---- */

RunTile *
constant_tile(Run *run, const RunValue *value, DType type, const Shape *shape)
{
    RunTile *tile = tile_new(run, type, shape);
    Num number = num_of(round_to(type, constant_number(value)));

    for (uint32_t i = 0; i < tile->n; i++)
        tile->at[i] = number;
    return tile;
}

RunValue
range_tile(Run *run, RunValue value)
{
    if (value.kind != RUN_RANGE)
        return value;
    const RunRange *range = value.range;
    Shape shape = {1, {range->pack != NULL ? range->pack->rows : range->length}};
    RunTile *tile = tile_new(run, DT_I32, &shape);
    for (uint32_t i = 0; i < tile->n; i++) {
        int64_t step = range->pack != NULL ? (int64_t)i / range->inner % range->length : (int64_t)i;
        tile->at[i] = num_of(range->start.value + (double)(step * range->step));
        tile->at[i].error = range->start.error;
    }
    tile->pads[0] = range->pads;
    tile_skips(run, tile);
    return tile_value(tile);
}

RunValue
run_typed(Run *run, RunValue value)
{
    DType type = value.kind == RUN_INT ? DT_I32 : value.kind == RUN_BOOL ? DT_BOOL : DT_F32;

    if (run_is_constant(&value))
        return tile_value(constant_tile(run, &value, type, &(Shape){0}));
    return range_tile(run, value);
}

static RunValue
unexpected(Run *run, Span span)
{
    return run_fail(
        run, span, "E-INTERNAL: the interpreter does not know what to do here (a fault of its own)");
}

RunTile *
run_fit(Run *run, Span span, RunValue value, DType type, const Shape *shape)
{
    value = range_tile(run, value);
    if (run_is_constant(&value))
        return constant_tile(run, &value, type, shape);
    if (value.kind != RUN_TILE || value.tile->type != type) {
        if (value.kind != RUN_ERROR)
            unexpected(run, span);
        return NULL;
    }
    return tile_broadcast(run, value.tile, shape);
}

bool
run_unify(Run *run, Span span, RunValue *x, RunValue *y)
{
    Shape shape;

    *x = range_tile(run, *x);
    *y = range_tile(run, *y);
    if (run_is_constant(x) && run_is_constant(y)) {
        DType type = x->kind == RUN_NUMBER || y->kind == RUN_NUMBER ? DT_F32
                     : x->kind == RUN_INT                           ? DT_I32
                                                                    : DT_BOOL;
        *x = tile_value(constant_tile(run, x, type, &(Shape){0}));
        *y = tile_value(constant_tile(run, y, type, &(Shape){0}));
        return true;
    }
    if (run_is_constant(x) && y->kind == RUN_TILE)
        *x = tile_value(constant_tile(run, x, y->tile->type, &(Shape){0}));
    if (run_is_constant(y) && x->kind == RUN_TILE)
        *y = tile_value(constant_tile(run, y, x->tile->type, &(Shape){0}));
    if (x->kind == RUN_TILE && y->kind == RUN_TILE && x->tile->type == y->tile->type &&
        shape_join(&x->tile->shape, &y->tile->shape, &shape))
        return true;
    if (x->kind != RUN_ERROR && y->kind != RUN_ERROR)
        unexpected(run, span);
    return false;
}

/* ---- arithmetic on constants ---- */

static RunValue
fold_integers(Run *run, Span span, Op op, int64_t a, int64_t b)
{
    NumFault fault = NUM_FINE;
    Num out;

    switch (op) {
    case OP_EQ: return run_bool(a == b);
    case OP_NE: return run_bool(a != b);
    case OP_LT: return run_bool(a < b);
    case OP_LE: return run_bool(a <= b);
    case OP_GT: return run_bool(a > b);
    case OP_GE: return run_bool(a >= b);
    default: break;
    }
    out = num_binary(run->rounding, DT_I32, op, num_of((double)a), num_of((double)b), &fault);
    if (run_faulty(run, span, fault, op_text(op), num_of((double)a), num_of((double)b)))
        return error_value;
    return run_int((int64_t)out.value);
}

static RunValue
fold_numbers(Op op, double a, double b)
{
    switch (op) {
    case OP_SUB: return run_number(a - b);
    case OP_MUL: return run_number(a * b);
    case OP_DIV: return run_number(a / b);
    case OP_EQ: return run_bool(a == b);
    case OP_NE: return run_bool(a != b);
    case OP_LT: return run_bool(a < b);
    case OP_LE: return run_bool(a <= b);
    case OP_GT: return run_bool(a > b);
    case OP_GE: return run_bool(a >= b);
    default: return run_number(a + b);
    }
}

static RunValue
fold(Run *run, Span span, Op op, const RunValue *x, const RunValue *y)
{
    bool a = x->integer != 0, b = y->integer != 0;

    if (x->kind == RUN_INT && y->kind == RUN_INT)
        return fold_integers(run, span, op, x->integer, y->integer);
    if (x->kind != RUN_BOOL)
        return fold_numbers(op, constant_number(x), constant_number(y));
    switch (op) {
    case OP_OR:
    case OP_BIT_OR: return run_bool(a || b);
    case OP_AND:
    case OP_BIT_AND: return run_bool(a && b);
    case OP_EQ: return run_bool(a == b);
    default: return run_bool(a != b);
    }
}

/* ---- elementwise ---- */

/* A tile for the results of operations on x and y (which may be NULL), with their padding. */
static RunTile *
result_tile(Run *run, DType type, RunTile *x, RunTile *y)
{
    Shape shape = x->shape;

    if (y != NULL)
        shape_join(&x->shape, &y->shape, &shape);
    RunTile *out = tile_new(run, type, &shape);
    tile_take_pads(run, out, x);
    if (y != NULL)
        tile_take_pads(run, out, y);
    tile_skips(run, out);
    return out;
}

static bool
is_comparison(Op op)
{
    return op >= OP_EQ && op <= OP_GE;
}

static RunValue
elementwise(Run *run, Span span, Op op, RunTile *x, RunTile *y)
{
    RunTile *out = result_tile(run, is_comparison(op) ? DT_BOOL : x->type, x, y);
    Walk a = walk_over(&out->shape, &x->shape), b = walk_over(&out->shape, &y->shape);

    if (!run_works(run, span, out->n))
        return error_value;
    for (uint32_t i = 0; i < out->n; i++, walk_next(&a), walk_next(&b)) {
        NumFault fault = NUM_FINE;
        if (out->skip != NULL && out->skip[i]) {
            out->at[i] = num_of(0);
            continue;
        }
        out->at[i] = x == y
                         ? num_twice(run->rounding, x->type, op, x->at[a.at], &fault)
                         : num_binary(run->rounding, x->type, op, x->at[a.at], y->at[b.at], &fault);
        if (fault != NUM_FINE && run_faulty(run, span, fault, op_text(op), x->at[a.at], y->at[b.at]))
            return error_value;
    }
    return tile_value(out);
}

static bool
is_index(const RunValue *value)
{
    return value->kind == RUN_INT ||
           (value->kind == RUN_TILE && value->tile->shape.rank == 0 && value->tile->type == DT_I32);
}

/* Whether a range times it is one of indices that lie apart. */
static bool
is_step(const RunRange *range, const RunValue *by)
{
    return by->kind == RUN_INT && by->integer > 0 && by->integer <= INT32_MAX / range->step;
}

Num
run_integer(Run *run, const RunValue *value)
{
    if (value->kind == RUN_INT)
        return num_of((double)value->integer);
    if (is_index(value))
        return value->tile->at[0];
    if (value->kind != RUN_ERROR)
        unexpected(run, (Span){0});
    return num_of(0);
}

/* range + scalar, range - scalar, range * int: the indices move, or come to lie apart; the padding
 * stays. */
static RunValue
move_range(Run *run, Span span, Op op, const RunRange *range, const RunValue *by)
{
    RunRange *moved = heap_new(run, OBJECT_RANGE, sizeof *moved);
    Object object = moved->object;
    NumFault fault = NUM_FINE;
    Num step = run_integer(run, by);

    *moved = *range;
    moved->object = object;
    moved->start = num_binary(run->rounding, DT_I32, op, range->start, step, &fault);
    if (run_faulty(run, span, fault, op_text(op), range->start, step))
        return error_value;
    if (op == OP_MUL)
        moved->step *= (int64_t)step.value;
    return (RunValue){.kind = RUN_RANGE, .range = moved};
}

RunValue
run_binary(Run *run, Span span, Op op, RunValue x, RunValue y)
{
    if (x.kind == RUN_ERROR || y.kind == RUN_ERROR)
        return error_value;
    if (x.kind == RUN_TYPE && y.kind == RUN_TYPE)
        return run_bool((x.type == y.type) == (op == OP_EQ));
    if (run_is_constant(&x) && run_is_constant(&y))
        return fold(run, span, op, &x, &y);
    if (x.kind == RUN_RANGE && is_index(&y) && (op == OP_ADD || op == OP_SUB))
        return move_range(run, span, op, x.range, &y);
    if (y.kind == RUN_RANGE && is_index(&x) && op == OP_ADD)
        return move_range(run, span, op, y.range, &x);
    if (x.kind == RUN_RANGE && is_step(x.range, &y) && op == OP_MUL)
        return move_range(run, span, op, x.range, &y);
    if (y.kind == RUN_RANGE && is_step(y.range, &x) && op == OP_MUL)
        return move_range(run, span, op, y.range, &x);
    /* true && x is x; false && x is false */
    if ((op == OP_AND || op == OP_OR) && (x.kind == RUN_BOOL || y.kind == RUN_BOOL)) {
        const RunValue *known = x.kind == RUN_BOOL ? &x : &y, *other = known == &x ? &y : &x;
        return (known->integer != 0) == (op == OP_AND) ? *other : *known;
    }
    if (!run_unify(run, span, &x, &y))
        return error_value;
    return elementwise(run, span, op, x.tile, y.tile);
}

RunValue
run_minmax(Run *run, Span span, bool most, RunValue x, RunValue y)
{
    if (x.kind == RUN_ERROR || y.kind == RUN_ERROR)
        return error_value;
    if (run_is_constant(&x) && run_is_constant(&y)) {
        RunValue less = fold(run, span, OP_LT, &x, &y);
        return (less.integer != 0) == !most ? x : y;
    }
    if (!run_unify(run, span, &x, &y) || !run_works(run, span, x.tile->n))
        return error_value;
    RunTile *out = result_tile(run, x.tile->type, x.tile, y.tile);
    Walk a = walk_over(&out->shape, &x.tile->shape), b = walk_over(&out->shape, &y.tile->shape);
    for (uint32_t i = 0; i < out->n; i++, walk_next(&a), walk_next(&b))
        out->at[i] = num_minmax(run->rounding, out->type, most, x.tile->at[a.at], y.tile->at[b.at]);
    return tile_value(out);
}

RunValue
run_mulhi(Run *run, Span span, RunValue x, RunValue y)
{
    if (run_is_constant(&x) && run_is_constant(&y))
        x = tile_value(constant_tile(run, &x, DT_U32, &(Shape){0}));
    if (!run_unify(run, span, &x, &y) || !run_works(run, span, x.tile->n))
        return error_value;
    RunTile *out = result_tile(run, x.tile->type, x.tile, y.tile);
    Walk a = walk_over(&out->shape, &x.tile->shape), b = walk_over(&out->shape, &y.tile->shape);
    for (uint32_t i = 0; i < out->n; i++, walk_next(&a), walk_next(&b))
        out->at[i] = num_mulhi(x.tile->at[a.at], y.tile->at[b.at]);
    return tile_value(out);
}

/* What a NaN's bits are is not said. */
static Num
bits_of(Run *run, DType from, DType to, Num x)
{
    unsigned char room[8] = {0};
    double value;

    elements_write(from, &x.value, 1, room);
    elements_read(to, room, 1, &value);
    bool unknown = x.error > 0 || (isnan(x.value) && run->rounding.bounds);
    return num_exactly(run->rounding, to, value, !unknown);
}

RunValue
run_bits(Run *run, Span span, RunValue x, const DType *to)
{
    DType has = DT_U32;

    if (to != NULL)
        dtype_of_bits(*to, &has);
    x = range_tile(run, x);
    if (run_is_constant(&x))
        x = tile_value(constant_tile(run, &x, to != NULL ? has : DT_F32, &(Shape){0}));
    if (x.kind != RUN_TILE)
        return x.kind == RUN_ERROR ? x : unexpected(run, span);
    if (to == NULL)
        dtype_of_bits(x.tile->type, &has);
    if (!run_works(run, span, x.tile->n))
        return error_value;
    RunTile *out = result_tile(run, to != NULL ? *to : has, x.tile, NULL);
    for (uint32_t i = 0; i < out->n; i++)
        out->at[i] = bits_of(run, x.tile->type, out->type, x.tile->at[i]);
    return tile_value(out);
}

RunValue
run_fma(Run *run, Span span, const RunValue *args)
{
    RunValue v[3];
    uint32_t typed = 0, constants = 0;

    for (uint32_t i = 0; i < 3; i++) {
        v[i] = args[i].kind == RUN_INT ? run_number((double)args[i].integer) : args[i];
        constants += v[i].kind == RUN_NUMBER;
        typed = v[i].kind == RUN_NUMBER ? typed : i;
    }
    if (constants == 3)
        return run_number(fma(v[0].number, v[1].number, v[2].number));
    for (uint32_t i = 0; i < 3; i++)
        if (i != typed && !run_unify(run, span, &v[i], &v[typed]))
            return error_value;
    RunTile *product = result_tile(run, v[0].tile->type, v[0].tile, v[1].tile);
    RunTile *out = result_tile(run, product->type, product, v[2].tile);
    Walk w[3];
    if (!run_works(run, span, out->n))
        return error_value;
    for (uint32_t k = 0; k < 3; k++)
        w[k] = walk_over(&out->shape, &v[k].tile->shape);
    for (uint32_t i = 0; i < out->n; i++) {
        Num x[3];
        NumFault fault = NUM_FINE;
        for (uint32_t k = 0; k < 3; k++) {
            x[k] = v[k].tile->at[w[k].at];
            walk_next(&w[k]);
        }
        if (out->skip != NULL && out->skip[i]) {
            out->at[i] = num_of(0);
            continue;
        }
        out->at[i] = num_fma(run->rounding, out->type, x[0], x[1], x[2], &fault);
        if (fault != NUM_FINE && run_faulty(run, span, fault, "fma", x[0], x[2]))
            return error_value;
    }
    return tile_value(out);
}

RunValue
run_cdiv(Run *run, Span span, RunValue x, RunValue y)
{
    if (x.kind == RUN_INT && y.kind == RUN_INT)
        return run_int(x.integer / y.integer + (x.integer % y.integer > 0));
    RunValue less = run_binary(run, span, OP_SUB, y, run_int(1));
    return run_binary(run, span, OP_DIV, run_binary(run, span, OP_ADD, x, less), y);
}

static RunValue
map(Run *run, Span span, Math math, const char *what, RunTile *x)
{
    RunTile *out = result_tile(run, x->type, x, NULL);

    if (!run_works(run, span, out->n))
        return error_value;
    for (uint32_t i = 0; i < out->n; i++) {
        NumFault fault = NUM_FINE;
        if (out->skip != NULL && out->skip[i]) {
            out->at[i] = num_of(0);
            continue;
        }
        out->at[i] = num_math(run->rounding, x->type, math, x->at[i], &fault);
        if (fault == NUM_OVERFLOW)
            return run_fail(run, span, "E-ARITHMETIC: %s of %.0f does not fit in i32", what,
                            x->at[i].value);
        if (fault == NUM_NAN)
            run_nan(run, span, what);
    }
    return tile_value(out);
}

RunValue
run_unary(Run *run, Span span, Op op, RunValue x)
{
    if (op == OP_NOT && x.kind == RUN_BOOL)
        return run_bool(!x.integer);
    if (x.kind == RUN_INT)
        return fold_integers(run, span, OP_SUB, 0, x.integer);
    if (x.kind == RUN_NUMBER)
        return run_number(-x.number);
    x = range_tile(run, x);
    if (x.kind != RUN_TILE)
        return x.kind == RUN_ERROR ? x : unexpected(run, span);
    return map(run, span, op == OP_NOT ? MATH_NOT : MATH_NEG, op_text(op), x.tile);
}

RunValue
run_math(Run *run, Span span, Math math, RunValue x)
{
    static const char *const names[] = {"exp",   "exp2",  "log",  "log2", "sqrt",
                                        "rsqrt", "rcp",   "tanh", "sin",  "cos",
                                        "floor", "round", "abs",  "-",    "!"};

    if (x.kind == RUN_INT && math == MATH_ABS)
        return run_int(x.integer < 0 ? -x.integer : x.integer);
    if (x.kind == RUN_INT || x.kind == RUN_NUMBER)
        return run_number(math_value(math, constant_number(&x)));
    x = range_tile(run, x);
    if (x.kind != RUN_TILE)
        return x.kind == RUN_ERROR ? x : unexpected(run, span);
    return map(run, span, math, names[math], x.tile);
}

/* A NaN that becomes a number of a type that has none. */
static RunValue
no_nan(Run *run, Span span, DType to)
{
    return run_fail(run, span, "E-ARITHMETIC: %s has no NaN, and one is cast to it", dtype_name(to));
}

RunValue
run_cast(Run *run, Span span, RunValue x, DType to)
{
    bool numbers = dtype_is_float(to) && dtype_has(to, USE_PACKED);

    x = range_tile(run, x);
    if (numbers && run_is_constant(&x) && isnan(constant_number(&x)))
        return no_nan(run, span, to);
    if (run_is_constant(&x)) {
        if (x.kind != RUN_BOOL && !dtype_is_float(to)) /* (the front end refuses casts to bool) */
            x = run_number(x.kind == RUN_INT ? dtype_of_integer(to, (double)x.integer)
                                             : dtype_whole(to, x.number));
        return tile_value(constant_tile(run, &x, to, &(Shape){0}));
    }
    if (x.kind != RUN_TILE)
        return x.kind == RUN_ERROR ? x : unexpected(run, span);
    if (x.tile->type == to)
        return x;
    if (!run_works(run, span, x.tile->n))
        return error_value;
    RunTile *out = result_tile(run, to, x.tile, NULL);
    for (uint32_t i = 0; i < out->n; i++) {
        NumFault fault = NUM_FINE;
        if (out->skip != NULL && out->skip[i]) {
            out->at[i] = num_of(0);
            continue;
        }
        if (numbers && isnan(x.tile->at[i].value))
            return no_nan(run, span, to);
        out->at[i] = num_cast(run->rounding, x.tile->type, to, x.tile->at[i], &fault);
        if (run_faulty(run, span, fault, "as", x.tile->at[i], num_of(0)))
            return error_value;
    }
    return tile_value(out);
}

RunValue
run_where(Run *run, Span span, RunValue condition, RunValue yes, RunValue no)
{
    Shape shape;

    if (condition.kind == RUN_BOOL && run_is_constant(&yes) && run_is_constant(&no))
        return condition.integer ? yes : no;
    if (!run_unify(run, span, &yes, &no))
        return error_value;
    if (condition.kind == RUN_BOOL) { /* the side it says, in the shape of both */
        shape_join(&yes.tile->shape, &no.tile->shape, &shape);
        return tile_value(tile_broadcast(run, condition.integer ? yes.tile : no.tile, &shape));
    }
    if (condition.kind != RUN_TILE)
        return condition.kind == RUN_ERROR ? error_value : unexpected(run, span);
    RunTile *both = result_tile(run, yes.tile->type, yes.tile, no.tile), *c = condition.tile;
    if (!shape_join(&c->shape, &both->shape, &shape) || !run_works(run, span, both->n))
        return error_value;
    RunTile *out = tile_new(run, yes.tile->type, &shape);
    tile_take_pads(run, out, c);
    tile_take_pads(run, out, both);
    tile_skips(run, out);
    Walk w = walk_over(&shape, &c->shape);
    Walk a = walk_over(&shape, &yes.tile->shape), b = walk_over(&shape, &no.tile->shape);
    for (uint32_t i = 0; i < out->n; i++, walk_next(&w), walk_next(&a), walk_next(&b)) {
        bool holds = c->at[w.at].value != 0;
        Num x = yes.tile->at[a.at], y = no.tile->at[b.at];
        out->at[i] = c->at[w.at].error == 0 ? (holds ? x : y)
                     : holds                ? num_either(x, y)
                                            : num_either(y, x);
    }
    return tile_value(out);
}
