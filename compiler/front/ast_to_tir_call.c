/* ast_to_tir_call.c - calls of built-in functions. */
#include <math.h>
#include <string.h>

#include "compiler/front/ast_to_tir_internal.h"
#include "dsl/dsl.h"

static const Value error_value = {.kind = VALUE_ERROR};

/* A call of one: arguments evaluated, those with a name apart. */
typedef struct Call {
    Lower *low;
    const Expr *expr;
    const char *name;
    int code; /* from the table */
    uint32_t n;
    Value *args;
    const Value *named[BUILTIN_NAMED]; /* NULL: it is not there */
} Call;

/* What one means. */
typedef struct Meaning {
    int code; /* an opcode or a reduction, as `build` takes it */
    Value (*build)(const Call *call);
} Meaning;

static Span
arg_span(const Call *call, uint32_t at)
{
    return dsl_argument(call->expr, at)->span;
}

static Span
named_span(const Call *call, const char *name)
{
    const ArgList *args = &call->expr->args;

    for (uint32_t i = 0; i < args->n; i++)
        if (args->at[i].name != NULL && strcmp(args->at[i].name, name) == 0)
            return args->at[i].value->span;
    return call->expr->span;
}

static bool
want_index(const Call *call, uint32_t at, const Value *value)
{
    if (value->kind == VALUE_INT)
        return int_fits(call->low, arg_span(call, at), value, DT_I32);
    if (is_scalar_of(value, DT_I32))
        return true;
    fail(call->low, arg_span(call, at), "E-TYPE: %s takes integers here, not %s%s", call->name,
         value_text(call->low, value), integer_hint(call->low, value, DT_I32));
    return false;
}

/* tiles(S, N) and tiles(lo..hi, N): the first argument is looked at as written. */
static Value
build_tiles(const Call *call)
{
    Lower *low = call->low;
    const Expr *over = call->expr->args.at[0].value;
    Steps *steps = arena_new(low->arena, Steps);
    int64_t tile;

    steps->lo = value_int(0);
    if (over->kind == EXPR_SPAN) {
        steps->lo = eval(low, over->a);
        steps->hi = eval(low, over->b);
    } else {
        steps->hi = eval(low, over);
    }
    if (steps->lo.kind == VALUE_ERROR || steps->hi.kind == VALUE_ERROR ||
        !want_index(call, 0, &steps->lo) || !want_index(call, 0, &steps->hi) ||
        !eval_int(low, call->expr->args.at[1].value, "the extent of a tile", 1, TILE_MAX_EXTENT,
                  &tile))
        return error_value;
    steps->lo = size_of_value(low, &steps->lo);
    steps->hi = size_of_value(low, &steps->hi);
    steps->tile = (int32_t)tile;
    steps->step = value_int(tile);
    return (Value){.kind = VALUE_STEPS, .steps = steps};
}

static Value
build_range(const Call *call)
{
    Steps *steps = arena_new(call->low->arena, Steps);

    steps->lo = call->n > 1 ? call->args[0] : value_int(0);
    steps->hi = call->n > 1 ? call->args[1] : call->args[0];
    steps->step = call->n > 2 ? call->args[2] : value_int(1);
    for (uint32_t i = 0; i < call->n; i++)
        if (!want_index(call, i, &call->args[i]))
            return error_value;
    if (steps->step.kind != VALUE_INT || steps->step.integer <= 0)
        return fail(call->low, arg_span(call, 2),
                    "E-RANGE: the step of a range is a positive integer "
                    "known at compile time, not %s",
                    value_text(call->low, &steps->step));
    return (Value){.kind = VALUE_STEPS, .steps = steps};
}

static Value
build_iota(const Call *call)
{
    Range *range = arena_new(call->low->arena, Range);
    int64_t length;

    if (!eval_int(call->low, call->expr->args.at[0].value, "the extent of a tile", 1,
                  TILE_MAX_EXTENT, &length))
        return error_value;
    *range = (Range){.start = value_int(0),
                     .bound = value_int(INT32_MAX),
                     .number = value_int(0),
                     .length = (int32_t)length,
                     .exact = true};
    return (Value){.kind = VALUE_RANGE, .range = range};
}

/* Ranges whose indices one dimension of a tile runs over, the last the fastest. */
static Value
build_pack(const Call *call)
{
    Lower *low = call->low;
    Pack *pack = arena_new(low->arena, Pack);
    Range *ranges = arena_array(low->arena, Range, call->n);
    Value *fields = arena_array(low->arena, Value, call->n);
    int64_t rows = 1;

    for (uint32_t i = call->n; i-- > 0;) {
        if (call->args[i].kind != VALUE_RANGE || call->args[i].range->pack != NULL)
            return fail(low, arg_span(call, i), "E-PACK: pack takes ranges, not %s",
                        value_text(low, &call->args[i]));
        ranges[i] = *call->args[i].range;
        ranges[i].pack = pack;
        ranges[i].inner = (int32_t)rows;
        ranges[i].part = i;
        rows *= ranges[i].length;
        if (rows > TILE_MAX_EXTENT)
            return fail(low, call->expr->span,
                        "E-PACK: a tile has at most %d elements in a dimension, "
                        "this pack has more",
                        TILE_MAX_EXTENT);
        fields[i] = (Value){.kind = VALUE_RANGE, .range = &ranges[i]};
    }
    *pack = (Pack){.n = call->n, .parts = ranges, .rows = (int32_t)rows, .span = call->expr->span};
    return (Value){.kind = VALUE_TUPLE, .n_fields = call->n, .fields = fields};
}

static Value
build_cdiv(const Call *call)
{
    return value_cdiv(call->low, call->expr->span, &call->args[0], &call->args[1]);
}

static double
fold_math(int code, double x)
{
    switch (code) {
    case TIR_EXP: return exp(x);
    case TIR_EXP2: return exp2(x);
    case TIR_LOG: return log(x);
    case TIR_LOG2: return log2(x);
    case TIR_SQRT: return sqrt(x);
    case TIR_RSQRT: return 1.0 / sqrt(x);
    case TIR_RCP: return 1.0 / x;
    case TIR_TANH: return tanh(x);
    case TIR_SIN: return sin(x);
    case TIR_COS: return cos(x);
    case TIR_ROUND: return nearbyint(x);
    default: return floor(x);
    }
}

/* exp, log, .. of floats. */
static Value
build_math(const Call *call)
{
    Lower *low = call->low;
    const Value *x = &call->args[0];

    if (x->kind == VALUE_INT)
        return value_float(fold_math(call->code, (double)x->integer));
    if (x->kind == VALUE_FLOAT)
        return value_float(fold_math(call->code, x->number));
    if (x->kind == VALUE_RANGE ||
        (x->kind == VALUE_TILE && !dtype_has(x->type.dtype, USE_FUNCTIONS)))
        return fail(low, arg_span(call, 0),
                    "E-TYPE: %s takes floats, not %s: cast it with `as f32`", call->name,
                    value_text(low, x));
    if (x->kind != VALUE_TILE)
        return fail(low, arg_span(call, 0), "E-TYPE: %s takes floats, not %s", call->name,
                    value_text(low, x));
    if (low->host_only)
        return fail(low, call->expr->span, "E-LAUNCHER: %s cannot be computed by the launcher",
                    call->name);
    return value_tile(float_unary(low, (TirOpcode)call->code, x->tir), NULL);
}

static Value
build_abs(const Call *call)
{
    Lower *low = call->low;
    Value x = range_to_tile(low, &call->args[0]);

    if (x.kind == VALUE_INT)
        return x.integer == INT32_MIN ? fail(low, call->expr->span,
                                             "E-ARITHMETIC: abs(%lld) does not fit in "
                                             "32 bits",
                                             (long long)x.integer)
                                      : value_int(x.integer < 0 ? -x.integer : x.integer);
    if (x.kind == VALUE_FLOAT)
        return value_float(fabs(x.number));
    if (x.kind != VALUE_TILE || !dtype_has(x.type.dtype, USE_ARITHMETIC))
        return fail(low, arg_span(call, 0), "E-TYPE: abs takes numbers, not %s%s",
                    value_text(low, &x),
                    x.kind == VALUE_TILE ? cast_hint(low, x.type.dtype, USE_ARITHMETIC) : "");
    if (low->host_only)
        return fail(low, call->expr->span, "E-LAUNCHER: abs cannot be computed by the launcher");
    return value_tile(float_unary(low, TIR_ABS, x.tir), NULL);
}

/* The axis that a call names, of a tile. */
static bool
find_axis(const Call *call, const Value *x, uint32_t *axis)
{
    const Value *named = call->named[0];

    if (named->kind != VALUE_INT) {
        fail(call->low, call->expr->span,
             "E-AXIS: the axis is an int known at compile time, not %s",
             value_text(call->low, named));
        return false;
    }
    int64_t at = named->integer < 0 ? named->integer + x->type.rank : named->integer;
    if (at < 0 || at >= x->type.rank) {
        fail(call->low, call->expr->span, "E-AXIS: there is no axis %lld in %s: the last one is %u",
             (long long)named->integer, value_text(call->low, x), x->type.rank - 1);
        return false;
    }
    *axis = (uint32_t)at;
    return true;
}

/* What a named argument says that is a bool known at compile time, false if it is not there; false:
 * it is something else. */
static bool
known_bool(const Call *call, uint32_t at, const char *name, bool *out)
{
    const Value *named = call->named[at];

    *out = named != NULL && named->integer != 0;
    if (named == NULL || named->kind == VALUE_BOOL)
        return true;
    fail(call->low, named_span(call, name),
         "E-ARGUMENTS: %s is a bool known at compile time, not %s", name,
         value_text(call->low, named));
    return false;
}

/* .. where it has to name one. */
static bool
need_axis(const Call *call, const Value *x, uint32_t *axis)
{
    if (call->named[0] != NULL)
        return find_axis(call, x, axis);
    fail(call->low, call->expr->span, "E-ARGUMENTS: %s is used as %s, not without an axis",
         call->name, builtin_info(builtin_find(call->name))->usage);
    return false;
}

/* Whether it is a tile whose elements `code` combines. */
static bool
can_combine(const Call *call, const char *does, const Value *x)
{
    Lower *low = call->low;
    bool logical = tir_reduction_info((ReduceKind)call->code)->logical;

    if (x->kind == VALUE_ERROR)
        return false;
    if (x->kind != VALUE_TILE || x->type.rank == 0)
        fail(low, arg_span(call, 0), "E-TYPE: %s %s a tile, not %s", call->name, does,
             value_text(low, x));
    else if (!dtype_has(x->type.dtype, logical ? USE_VOTE : USE_ARITHMETIC))
        fail(low, arg_span(call, 0), "E-TYPE: %s %s %s, not %s%s", call->name, does,
             logical ? "bools" : "numbers", value_text(low, x),
             logical ? "" : cast_hint(low, x->type.dtype, USE_ARITHMETIC));
    else if (low->host_only)
        not_for_launchers(low, call->expr->span);
    else
        return true;
    return false;
}

/* Reduces along one axis; 16-bit floats are summed in f32 and rounded once. */
static Value
build_reduction(const Call *call)
{
    Lower *low = call->low;
    Value x = range_to_tile(low, &call->args[0]);
    bool has_axis = call->named[0] != NULL;
    uint32_t axis = 0;

    if (!can_combine(call, "reduces", &x) || (has_axis && !find_axis(call, &x, &axis)))
        return error_value;
    DType dtype = x.type.dtype;
    TirVal *tile = is_16bit_float(dtype) ? tir_cast(&low->b, x.tir, DT_F32) : x.tir;
    if (has_axis) {
        tile = tir_reduce(&low->b, (ReduceKind)call->code, tile, axis);
    } else {
        while (tile->type.rank > 0)
            tile = tir_reduce(&low->b, (ReduceKind)call->code, tile, tile->type.rank - 1);
    }
    return value_tile(tir_cast(&low->b, tile, dtype), NULL);
}

/* The first argument where a function goes along an axis that has to be named, NULL: it is none;
 * 16-bit floats in f32, so that results are rounded once to `dtype`. */
static TirVal *
tile_along(const Call *call, const char *does, DType *dtype, uint32_t *axis)
{
    Value x = range_to_tile(call->low, &call->args[0]);

    if (!can_combine(call, does, &x) || !need_axis(call, &x, axis))
        return NULL;
    *dtype = x.type.dtype;
    return is_16bit_float(*dtype) ? tir_cast(&call->low->b, x.tir, DT_F32) : x.tir;
}

/* Scans along one axis. */
static Value
build_scan(const Call *call)
{
    Lower *low = call->low;
    uint32_t axis;
    DType dtype;
    bool back;

    TirVal *tile = tile_along(call, "scans", &dtype, &axis);
    if (tile == NULL || !known_bool(call, 1, "reverse", &back))
        return error_value;
    TirOp *scan = tir_op_new(&low->b, back ? TIR_SCAN_BACK : TIR_SCAN, 1, &tile, 1, &tile->type);
    scan->reduce = (ReduceKind)call->code;
    scan->axis = axis;
    return value_tile(tir_cast(&low->b, scan->results[0], dtype), NULL);
}

/* scan(f, x, axis=n) and reduce(f, x, axis=n): the first argument is looked at as written. */
static Value
build_by_function(const Call *call)
{
    Lower *low = call->low;
    const Expr *function = dsl_argument(call->expr, 0), *tiles = dsl_argument(call->expr, 1);
    Tuples tuples;
    uint32_t axis;
    bool back;

    Value x = eval(low, tiles);
    if (x.kind == VALUE_ERROR || !tuples_of(low, call->name, function, tiles->span, &x, &tuples))
        return error_value;
    Value shape = {.kind = VALUE_TILE, .type = tuples.type};
    shape.type.dtype = tuples.tile[0].type.dtype;
    if (!need_axis(call, &shape, &axis) || !known_bool(call, 1, "reverse", &back))
        return error_value;
    low->b.span = call->expr->span;
    return call->code == TIR_TOTAL_BY ? reduce_tuples(low, &tuples, axis)
                                      : scan_tuples(low, &tuples, axis, back);
}

/* Where the greatest is, or the least. */
static Value
build_arg(const Call *call)
{
    uint32_t axis;
    DType dtype;

    TirVal *tile = tile_along(call, "reduces", &dtype, &axis);
    return tile == NULL
               ? error_value
               : value_tile(extreme_place(call->low, (ReduceKind)call->code, tile, axis), NULL);
}

/* The greatest along an axis, with their places. */
static Value
build_top(const Call *call)
{
    Lower *low = call->low;
    const Value *count = &call->args[1];
    Value *fields = arena_array(low->arena, Value, 2);
    TirVal *best[2];
    uint32_t axis;
    DType dtype;

    TirVal *tile = tile_along(call, "takes", &dtype, &axis);
    if (tile == NULL)
        return error_value;
    if (count->kind != VALUE_INT || count->integer < 1 || count->integer > TOP_MOST)
        return fail(low, arg_span(call, 1),
                    "E-ARGUMENTS: top gives 1 to %d elements, an int known at compile time, not %s",
                    TOP_MOST, value_text(low, count));
    greatest_places(low, tile, axis, (int32_t)count->integer, best);
    fields[0] = value_tile(tir_cast(&low->b, best[0], dtype), NULL);
    fields[1] = value_tile(best[1], NULL);
    return (Value){.kind = VALUE_TUPLE, .n_fields = 2, .fields = fields};
}

/* In order along an axis. */
static Value
build_sort(const Call *call)
{
    Lower *low = call->low;
    uint32_t axis;
    DType dtype;

    TirVal *tile = tile_along(call, "sorts", &dtype, &axis);
    if (tile == NULL)
        return error_value;
    TirOp *sort = tir_op_new(&low->b, TIR_SORT, 1, &tile, 1, &tile->type);
    sort->reduce = REDUCE_MIN;
    sort->axis = axis;
    return value_tile(tir_cast(&low->b, sort->results[0], dtype), NULL);
}

/* max(a, b) is elementwise, max(x, axis=1) and max(x) reduce. */
static Value
build_minmax(const Call *call)
{
    if (call->n == 1)
        return build_reduction(call);
    if (call->named[0] != NULL)
        return fail(call->low, call->expr->span,
                    "E-ARGUMENTS: %s takes two values, or one and an axis", call->name);
    return value_minmax(call->low, call->expr->span, call->code == REDUCE_MAX ? TIR_MAX : TIR_MIN,
                        &call->args[0], &call->args[1]);
}

/* A tile in the shape in which it meets another one. */
static TirVal *
widened(const Call *call, TirVal *tile, const TirVal *other, const TirType *shape)
{
    TirVal *wide = tir_broadcast_to(&call->low->b, tile, shape);

    if (tile->type.rank < shape->rank && tile->type.rank > 0)
        note_meeting(call->low, call->expr->span, tile, other, wide);
    return wide;
}

static Value
build_where(const Call *call)
{
    Lower *low = call->low;
    Value condition = call->args[0], yes = call->args[1], no = call->args[2];
    TirType shape;

    if (condition.kind == VALUE_BOOL && is_constant(&yes) && is_constant(&no))
        return condition.integer ? yes : no;
    if (low->host_only)
        return fail(low, call->expr->span, "E-LAUNCHER: where cannot be computed by the launcher");
    if (!unify(low, call->expr->span, "where", &yes, &no))
        return error_value;
    if (condition.kind == VALUE_BOOL)
        return condition.integer ? yes : no;
    if (condition.kind != VALUE_TILE || condition.type.dtype != DT_BOOL)
        return fail(low, arg_span(call, 0), "E-TYPE: the condition of where is a bool, not %s",
                    value_text(low, &condition));
    if (!broadcast_shape(condition.type, yes.type, &shape))
        return fail(low, call->expr->span,
                    "E-SHAPE: the shapes %s and %s of where do not fit together",
                    value_text(low, &condition), value_text(low, &yes));
    TirVal *chosen = widened(call, condition.tir, yes.tir, &shape);
    yes.tir = widened(call, yes.tir, condition.tir, &shape);
    no.tir = widened(call, no.tir, condition.tir, &shape);
    return value_tile(tir_select(&low->b, chosen, yes.tir, no.tir), NULL);
}

/* x * y + z, rounded once. */
static Value
build_fma(const Call *call)
{
    Lower *low = call->low;
    Value v[3];
    double number[3];
    uint32_t constants = 0, typed = 0;
    TirVal *args[3];

    for (uint32_t i = 0; i < 3; i++) {
        v[i] = call->args[i];
        if (v[i].kind == VALUE_INT)
            v[i] = value_float((double)v[i].integer);
        number[i] = v[i].number;
        constants += v[i].kind == VALUE_FLOAT;
        typed = v[i].kind == VALUE_FLOAT ? typed : i;
    }
    if (constants == 3)
        return value_float(fma(number[0], number[1], number[2]));
    /* each takes the type of what is no constant, and the shape of all */
    for (uint32_t i = 0; i < 6; i++) {
        if (i % 3 != typed && !unify(low, call->expr->span, "fma", &v[i % 3], &v[typed]))
            return error_value;
    }
    if (!dtype_has(v[0].type.dtype, USE_FUNCTIONS))
        return fail(low, call->expr->span, "E-TYPE: fma takes floats, not %s%s",
                    value_text(low, &v[0]), cast_hint(low, v[0].type.dtype, USE_FUNCTIONS));
    if (low->host_only)
        return fail(low, call->expr->span, "E-LAUNCHER: fma cannot be computed by the launcher");
    for (uint32_t i = 0; i < 3; i++)
        args[i] = tir_cast(&low->b, v[i].tir, DT_F32);
    TirType wide = v[0].type;
    wide.dtype = DT_F32;
    TirVal *sum = tir_op_new(&low->b, TIR_FMA, 3, args, 1, &wide)->results[0];
    return value_tile(tir_cast(&low->b, sum, v[0].type.dtype), NULL);
}

static Value
build_mulhi(const Call *call)
{
    Lower *low = call->low;
    Value a = call->args[0], b = call->args[1];

    if (is_constant(&a) && is_constant(&b) &&
        !adapt_constant(low, arg_span(call, 0), &a, tir_scalar(DT_U32), &a))
        return error_value;
    if (!unify(low, call->expr->span, call->name, &a, &b))
        return error_value;
    if (!dtype_has(a.type.dtype, USE_HIGH))
        return fail(low, call->expr->span, "E-TYPE: mulhi takes %s, not %s%s",
                    types_with(low, USE_HIGH, " or "), value_text(low, &a),
                    integer_hint(low, &a, DT_U32));
    if (low->host_only)
        return fail(low, call->expr->span, "E-LAUNCHER: mulhi cannot be computed by the launcher");
    return value_tile(tir_binary(&low->b, TIR_MULHI, a.tir, b.tir), NULL);
}

/* bits(x), or back: bits(x, T). */
static Value
build_bits(const Call *call)
{
    Lower *low = call->low;
    Value x = range_to_tile(low, &call->args[0]);
    bool back = call->n > 1;
    DType has = DT_U32;

    if (back && (call->args[1].kind != VALUE_TYPE || !dtype_of_bits(call->args[1].dtype, &has)))
        return fail(low, arg_span(call, 1), "E-TYPE: bits gives a float or i8, not %s",
                    value_text(low, &call->args[1]));
    if (is_constant(&x) &&
        !adapt_constant(low, arg_span(call, 0), &x, tir_scalar(back ? has : DT_F32), &x))
        return error_value;
    if (x.kind != VALUE_TILE || (back ? x.type.dtype != has : !dtype_of_bits(x.type.dtype, &has)))
        return back ? fail(low, arg_span(call, 0), "E-TYPE: the bits of %s are of %s, not of %s%s",
                           dtype_name(call->args[1].dtype), dtype_name(has), value_text(low, &x),
                           integer_hint(low, &x, has))
                    : fail(low, arg_span(call, 0),
                           "E-TYPE: bits takes a float or i8, not %s; back by bits(x, T)",
                           value_text(low, &x));
    if (low->host_only)
        return fail(low, call->expr->span, "E-LAUNCHER: bits cannot be computed by the launcher");
    x.type.dtype = back ? call->args[1].dtype : has;
    return value_tile(tir_op_new(&low->b, TIR_BITS, 1, &x.tir, 1, &x.type)->results[0], NULL);
}

static Value
build_mask(const Call *call)
{
    Lower *low = call->low;
    Value x = call->args[0], condition = call->args[1];
    TirType shape;

    if (x.kind != VALUE_TILE || !dtype_has(x.type.dtype, USE_FUNCTIONS))
        return fail(low, arg_span(call, 0), "E-TYPE: mask takes a tile of floats, not %s%s",
                    value_text(low, &x),
                    x.kind == VALUE_TILE ? cast_hint(low, x.type.dtype, USE_FUNCTIONS) : "");
    if (low->host_only)
        return fail(low, call->expr->span, "E-LAUNCHER: mask cannot be computed by the launcher");
    if (condition.kind == VALUE_BOOL)
        return condition.integer ? x
                                 : value_tile(tir_splat_const(&low->b, x.type, -INFINITY), NULL);
    if (condition.kind != VALUE_TILE || condition.type.dtype != DT_BOOL)
        return fail(low, arg_span(call, 1), "E-TYPE: the condition of mask is a bool, not %s",
                    value_text(low, &condition));
    if (!broadcast_shape(condition.type, x.type, &shape) || !tir_same_shape(shape, x.type))
        return fail(low, call->expr->span, "E-SHAPE: the condition %s does not fit the tile %s",
                    value_text(low, &condition), value_text(low, &x));
    condition.tir = widened(call, condition.tir, x.tir, &x.type);
    return value_tile(tir_mask(&low->b, x.tir, condition.tir), NULL);
}

/* Whether a side of a product is one that multiplies, with scales or without; else an error. */
static bool
is_factor(const Call *call, uint32_t side, bool scaled)
{
    Lower *low = call->low;
    const Value *x = &call->args[side];
    Span span = arg_span(call, side);
    bool packed = x->kind == VALUE_PACKED;

    if (packed && !scaled)
        fail(low, span, "E-PRODUCT: mma multiplies %s, not %s: cast it with `as bf16`",
             types_with(low, USE_PRODUCT, " or "), type_text(low, x->type));
    else if ((!packed && x->kind != VALUE_TILE) || x->type.rank < 2 || x->type.rank > 3)
        fail(low, span, "E-PRODUCT: mma multiplies tiles of two dimensions, or of three, not %s",
             value_text(low, x));
    else if (scaled && !is_scaled_type(x->type.dtype))
        fail(low, span, "E-PRODUCT: mma with scales multiplies %s, not %s",
             types_with(low, USE_SCALED, " or "), type_text(low, x->type));
    else if (!scaled && x->type.dtype == DT_F32)
        fail(low, span, "E-PRODUCT: mma multiplies %s, not %s: cast it with `as tf32` or `as bf16`",
             types_with(low, USE_PRODUCT, " or "), value_text(low, x));
    else if (!scaled && !dtype_has(x->type.dtype, USE_PRODUCT))
        fail(low, span, "E-PRODUCT: mma multiplies %s, not %s",
             types_with(low, USE_PRODUCT, " or "), value_text(low, x));
    else
        return true;
    return false;
}

/* Whether the extents of both sides fit; else an error. */
static bool
sides_fit(const Call *call)
{
    Lower *low = call->low;
    const Value *a = &call->args[0], *b = &call->args[1];
    uint32_t rows = a->type.rank - 2; /* the dimension of the rows */

    if (a->type.rank != b->type.rank || (rows > 0 && a->type.dim[0] != b->type.dim[0]))
        fail(low, call->expr->span,
             "E-PRODUCT: mma goes over a first dimension that both sides have alike, not %s and %s",
             type_text(low, a->type), type_text(low, b->type));
    else if (a->type.dim[rows + 1] != b->type.dim[rows])
        fail(low, call->expr->span,
             "E-PRODUCT: the inner sizes of mma differ: the left side %s has %d columns, the right "
             "side %s has %d rows",
             type_text(low, a->type), a->type.dim[rows + 1], type_text(low, b->type),
             b->type.dim[rows]);
    else
        return true;
    return false;
}

static Value
build_mma(const Call *call)
{
    static const char *const names[] = {"scale_a", "scale_b"};
    Lower *low = call->low;
    const Value *a = &call->args[0], *b = &call->args[1];
    Value acc = {.tir = NULL};
    bool fast, scaled = call->named[1] != NULL || call->named[2] != NULL;

    if (!is_factor(call, 0, scaled) || !is_factor(call, 1, scaled))
        return error_value;
    if (!scaled && !dtype_multiplies(a->type.dtype, b->type.dtype))
        return fail(low, call->expr->span,
                    "E-PRODUCT: mma mixes %s and %s: cast one of them with `as`",
                    value_text(low, a), value_text(low, b));
    if (!sides_fit(call))
        return error_value;
    TirVal *sides[] = {a->tir, b->tir};
    ScaledOperand with[2];
    TirType type = a->type;
    type.dtype = dtype_wide(a->type.dtype);
    type.dim[type.rank - 1] = b->type.dim[type.rank - 1];
    for (uint32_t k = 0; k < 2 && scaled; k++) {
        with[k] = (ScaledOperand){.name = names[k],
                                  .span = arg_span(call, k),
                                  .scale_span = named_span(call, names[k]),
                                  .value = &call->args[k],
                                  .scale = call->named[1 + k],
                                  .axis = type.rank - 1 - k};
        sides[k] = scaled_operand(low, &with[k]);
        if (sides[k] == NULL)
            return error_value;
    }
    if (!known_bool(call, 0, "fast", &fast) ||
        (call->n > 2 &&
         !fit_to(low, arg_span(call, 2), "the third argument of mma", &call->args[2], type, &acc)))
        return error_value;
    low->b.span = call->expr->span;
    TirVal *own[4];
    bool has_own = scaled && own_operands(low, with, own);
    TirVal *product = tir_mma(&low->b, sides[0], sides[1], acc.tir);
    product->def->fast = fast;
    if (has_own)
        tir_mma_own(low->fn, product->def, own);
    return value_tile(product, NULL);
}

static Value
build_shape(const Call *call)
{
    Lower *low = call->low;
    Value x = range_to_tile(low, &call->args[0]);
    const Value *axis = &call->args[1];

    if (x.kind != VALUE_TILE && x.kind != VALUE_PACKED)
        return fail(low, arg_span(call, 0), "E-TYPE: shape takes a tile, not %s",
                    value_text(low, &x));
    if (axis->kind != VALUE_INT || axis->integer < 0 || axis->integer >= x.type.rank)
        return fail(low, arg_span(call, 1), "E-AXIS: %s has no axis %s", value_text(low, &x),
                    value_text(low, axis));
    return value_int(x.type.dim[axis->integer]);
}

/* fold(x, axis, n) and unfold(x, axis). */
static Value
build_fold(const Call *call)
{
    Lower *low = call->low;
    Value x = range_to_tile(low, &call->args[0]);
    const Value *axis = &call->args[1], *inner = &call->args[2];
    bool folds = call->code == TIR_FOLD;

    if (x.kind != VALUE_TILE || x.type.rank == 0)
        return fail(low, arg_span(call, 0), "E-TYPE: %s takes a tile, not %s", call->name,
                    value_text(low, &x));
    if (axis->kind != VALUE_INT || axis->integer < 0 || axis->integer >= x.type.rank)
        return fail(low, arg_span(call, 1), "E-AXIS: %s has no axis %s", value_text(low, &x),
                    value_text(low, axis));
    int32_t extent = x.type.dim[axis->integer];
    if (!folds && axis->integer + 1 == x.type.rank)
        return fail(low, arg_span(call, 1),
                    "E-AXIS: axis %d of %s is the last, and has none after it to be one with",
                    (int)axis->integer, value_text(low, &x));
    if (folds && x.type.rank == TIR_MAX_RANK)
        return fail(low, call->expr->span, "E-LARGE: a tile has at most %d dimensions",
                    TIR_MAX_RANK);
    if (folds && (inner->kind != VALUE_INT || inner->integer < 1 || extent % inner->integer != 0))
        return fail(low, arg_span(call, 2),
                    "E-FOLD: the inner extent is an int that divides the %d elements of the axis, "
                    "not %s",
                    extent, value_text(low, inner));
    if (!folds && (int64_t)extent * x.type.dim[axis->integer + 1] > TILE_MAX_EXTENT)
        return fail(low, call->expr->span, "E-LARGE: a tile has at most %d elements in a dimension",
                    TILE_MAX_EXTENT);
    if (low->host_only)
        return fail(low, call->expr->span,
                    "E-LAUNCHER: the launcher computes this: no tiles can be used");
    return value_tile(tir_fold(&low->b, (TirOpcode)call->code, x.tir, (uint32_t)axis->integer,
                               folds ? (int32_t)inner->integer : 1),
                      NULL);
}

static Value
build_dtype(const Call *call)
{
    Value x = range_to_tile(call->low, &call->args[0]);

    if (x.kind != VALUE_TILE && x.kind != VALUE_PACKED)
        return fail(call->low, arg_span(call, 0), "E-TYPE: dtype takes a scalar or a tile, not %s",
                    value_text(call->low, &x));
    return value_type(x.type.dtype);
}

static const Meaning meanings[BUILTIN_COUNT] = {
    [BUILTIN_TILES] = {0, build_tiles},
    [BUILTIN_RANGE] = {0, build_range},
    [BUILTIN_IOTA] = {0, build_iota},
    [BUILTIN_PACK] = {0, build_pack},
    [BUILTIN_CDIV] = {0, build_cdiv},
    [BUILTIN_MAX] = {REDUCE_MAX, build_minmax},
    [BUILTIN_MIN] = {REDUCE_MIN, build_minmax},
    [BUILTIN_SUM] = {REDUCE_SUM, build_reduction},
    [BUILTIN_ANY] = {REDUCE_ANY, build_reduction},
    [BUILTIN_ALL] = {REDUCE_ALL, build_reduction},
    [BUILTIN_CUMSUM] = {REDUCE_SUM, build_scan},
    [BUILTIN_CUMMAX] = {REDUCE_MAX, build_scan},
    [BUILTIN_SCAN] = {TIR_SCAN_BY, build_by_function},
    [BUILTIN_REDUCE] = {TIR_TOTAL_BY, build_by_function},
    [BUILTIN_ARGMAX] = {REDUCE_MAX, build_arg},
    [BUILTIN_ARGMIN] = {REDUCE_MIN, build_arg},
    [BUILTIN_TOP] = {REDUCE_MAX, build_top},
    [BUILTIN_SORT] = {REDUCE_MIN, build_sort},
    [BUILTIN_WHERE] = {0, build_where},
    [BUILTIN_FMA] = {0, build_fma},
    [BUILTIN_MASK] = {0, build_mask},
    [BUILTIN_MMA] = {0, build_mma},
    [BUILTIN_EXP] = {TIR_EXP, build_math},
    [BUILTIN_EXP2] = {TIR_EXP2, build_math},
    [BUILTIN_LOG] = {TIR_LOG, build_math},
    [BUILTIN_LOG2] = {TIR_LOG2, build_math},
    [BUILTIN_SQRT] = {TIR_SQRT, build_math},
    [BUILTIN_RSQRT] = {TIR_RSQRT, build_math},
    [BUILTIN_RCP] = {TIR_RCP, build_math},
    [BUILTIN_TANH] = {TIR_TANH, build_math},
    [BUILTIN_SIN] = {TIR_SIN, build_math},
    [BUILTIN_COS] = {TIR_COS, build_math},
    [BUILTIN_FLOOR] = {TIR_FLOOR, build_math},
    [BUILTIN_ROUND] = {TIR_ROUND, build_math},
    [BUILTIN_ABS] = {0, build_abs},
    [BUILTIN_FOLD] = {TIR_FOLD, build_fold},
    [BUILTIN_UNFOLD] = {TIR_UNFOLD, build_fold},
    [BUILTIN_MULHI] = {0, build_mulhi},
    [BUILTIN_BITS] = {0, build_bits},
    [BUILTIN_SHAPE] = {0, build_shape},
    [BUILTIN_DTYPE] = {0, build_dtype},
};

Value
call_builtin(Lower *low, Builtin builtin, const Expr *expr)
{
    const BuiltinInfo *info = builtin_info(builtin);
    Call call = {.low = low, .expr = expr, .name = info->name, .code = meanings[builtin].code};
    Value named[BUILTIN_NAMED];

    call.args = arena_array(low->arena, Value, expr->args.n);
    for (uint32_t i = 0; i < expr->args.n; i++) {
        const Arg *arg = &expr->args.at[i];
        uint32_t at = arg->name == NULL ? BUILTIN_NAMED : builtin_argument(builtin, arg->name);
        if (arg->name != NULL && at == BUILTIN_NAMED)
            return fail(low, arg->name_span,
                        "E-ARGUMENTS: %s has no argument '%s': it is used as %s", info->name,
                        arg->name, info->usage);
        if (arg->name != NULL) {
            named[at] = eval(low, arg->value);
            if (named[at].kind == VALUE_ERROR)
                return error_value;
            call.named[at] = &named[at];
            continue;
        }
        call.args[call.n] = info->as_written ? (Value){.kind = VALUE_NOTHING}
                                             : eval(low, arg->value);
        if (call.args[call.n++].kind == VALUE_ERROR)
            return error_value;
    }
    if (call.n < info->least || call.n > info->most)
        return fail(low, expr->span, "E-ARGUMENTS: %s is used as %s, not with %u argument%s",
                    info->name, info->usage, call.n, call.n == 1 ? "" : "s");
    low->b.span = expr->span;
    return meanings[builtin].build(&call);
}
