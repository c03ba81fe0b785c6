/* ast_to_tir_value.c - values: text, conversions, broadcasting, arithmetic.
 *
 * Arithmetic on constants is done here and now, in 32-bit integers with a check for overflow and
 * in doubles.  Arithmetic on 16-bit floats is done in f32 and rounded after each operation.
 */
#include <math.h>
#include <string.h>

#include "compiler/front/ast_to_tir_internal.h"
#include "dsl/hints.h"

/* ---- making and describing ---- */

Value
value_int(int64_t integer)
{
    return (Value){.kind = VALUE_INT, .integer = integer};
}

Value
value_float(double number)
{
    return (Value){.kind = VALUE_FLOAT, .number = number};
}

Value
value_bool(bool truth)
{
    return (Value){.kind = VALUE_BOOL, .integer = truth};
}

Value
value_type(DType dtype)
{
    return (Value){.kind = VALUE_TYPE, .dtype = dtype};
}

Value
value_tile(TirVal *tir, const HostExpr *host)
{
    return (Value){.kind = VALUE_TILE, .type = tir->type, .tir = tir, .host = host};
}

bool
is_constant(const Value *value)
{
    return value->kind == VALUE_INT || value->kind == VALUE_FLOAT || value->kind == VALUE_BOOL;
}

bool
is_scalar_of(const Value *value, DType dtype)
{
    return value->kind == VALUE_TILE && value->type.rank == 0 && value->type.dtype == dtype;
}

bool
is_16bit_float(DType dtype)
{
    return dtype == DT_F16 || dtype == DT_BF16;
}

const char *
type_text(Lower *low, TirType type)
{
    Buf text;

    buf_init(&text, low->arena);
    buf_add(&text, dtype_name(type.dtype));
    for (uint32_t i = 0; i < type.rank; i++)
        buf_printf(&text, "%s%d", i == 0 ? "[" : ", ", type.dim[i]);
    if (type.rank > 0)
        buf_char(&text, ']');
    return text.at;
}

const char *
value_text(Lower *low, const Value *value)
{
    Buf text;

    switch (value->kind) {
    case VALUE_ERROR: return "an error";
    case VALUE_NOTHING: return "nothing";
    case VALUE_INT: return arena_printf(low->arena, "the int %lld", (long long)value->integer);
    case VALUE_FLOAT: return arena_printf(low->arena, "the number %g", value->number);
    case VALUE_BOOL: return value->integer ? "true" : "false";
    case VALUE_TYPE: return arena_printf(low->arena, "the type %s", dtype_name(value->dtype));
    case VALUE_TILE: return type_text(low, value->type);
    case VALUE_PACKED:
        return arena_printf(low->arena, "%s (cast it first: `as %s`)", type_text(low, value->type),
                            dtype_name(dtype_wide(value->type.dtype)));
    case VALUE_RANGE:
        if (value->range->pack != NULL)
            return arena_printf(low->arena, "a part of a pack of %d elements",
                                value->range->pack->rows);
        return arena_printf(low->arena, "a range of %d indices", value->range->length);
    case VALUE_STEPS: return "a sequence of steps";
    case VALUE_TENSOR: return arena_printf(low->arena, "the tensor '%s'", value->tensor->name);
    case VALUE_TUPLE: break;
    }
    buf_init(&text, low->arena);
    buf_char(&text, '(');
    for (uint32_t i = 0; i < value->n_fields; i++) {
        if (i > 0)
            buf_add(&text, ", ");
        if (value->names != NULL && value->names[i] != NULL)
            buf_printf(&text, "%s = ", value->names[i]);
        buf_add(&text, value_text(low, &value->fields[i]));
    }
    buf_char(&text, ')');
    return text.at;
}

const char *
types_with(Lower *low, TypeUse use, const char *last)
{
    uint32_t left = 0;
    Buf names;

    buf_init(&names, low->arena);
    for (int k = 0; k < DT_COUNT; k++)
        left += dtype_has((DType)k, use);
    for (int k = 0; k < DT_COUNT; k++) {
        if (!dtype_has((DType)k, use))
            continue;
        left--;
        buf_printf(&names, "%s%s", dtype_name((DType)k), left > 1 ? ", " : left == 1 ? last : "");
    }
    return names.at;
}

const char *
cast_hint(Lower *low, DType dtype, TypeUse use)
{
    DType wide = dtype_wide(dtype);

    return !dtype_has(dtype, use) && dtype_has(wide, use)
               ? arena_printf(low->arena, ": cast it with `as %s`", dtype_name(wide))
               : "";
}

/* ---- host expressions ---- */

static const HostExpr *
host_node(Lower *low, HostKind kind, const HostExpr *a, const HostExpr *b)
{
    HostExpr *host = arena_new(low->arena, HostExpr);
    *host = (HostExpr){.kind = kind, .a = a, .b = b};
    return host;
}

void
not_for_launchers(Lower *low, Span span)
{
    fail(low, span,
         "E-LAUNCHER: the launcher must be able to compute this: only sizes, scalar parameters of "
         "f32 or i32, and integers may be used here");
}

const HostExpr *
host_of(Lower *low, const Value *value)
{
    HostExpr *host;

    switch (value->kind) {
    case VALUE_INT:
    case VALUE_BOOL: return host_int(low->arena, value->integer);
    case VALUE_FLOAT:
        host = arena_new(low->arena, HostExpr);
        *host = (HostExpr){.kind = HOST_FLOAT, .number = value->number};
        return host;
    case VALUE_TILE: return value->host;
    default: return NULL;
    }
}

static bool
is_unsigned(const Value *value)
{
    return value->kind == VALUE_TILE && dtype_kind(value->type.dtype) == KIND_UNSIGNED;
}

static const HostExpr *
host_pair(Lower *low, HostKind kind, const Value *x, const Value *y)
{
    const HostExpr *a = host_of(low, x), *b = host_of(low, y);
    bool wraps = is_unsigned(x) || is_unsigned(y); /* launchers' integers do not */
    return a != NULL && b != NULL && !wraps ? host_node(low, kind, a, b) : NULL;
}

/* ---- conversions ---- */

/* An error that says how the same bits are written, where the type has as many. */
bool
int_fits(Lower *low, Span span, const Value *value, DType dtype)
{
    double number = (double)value->integer;
    int64_t same = dtype_wrap(dtype, value->integer);
    const char *hint = "";

    if (number >= dtype_lowest(dtype) && number <= dtype_highest(dtype))
        return true;
    if (dtype_bits(dtype) == 32 && value->integer == (uint32_t)same)
        hint = arena_printf(low->arena, "; the same 32 bits are -0x%llx", (unsigned long long)-same);
    else if (dtype_bits(dtype) == 32 && value->integer == (int32_t)same)
        hint = arena_printf(low->arena, "; the same 32 bits are 0x%llx", (unsigned long long)same);
    fail(low, span, "E-TYPE: %s does not fit in %s, which is from %.0f to %.0f%s",
         value_text(low, value), dtype_name(dtype), dtype_lowest(dtype), dtype_highest(dtype),
         hint);
    return false;
}

bool
adapt_constant(Lower *low, Span span, const Value *value, TirType type, Value *out)
{
    double number = value->kind == VALUE_FLOAT ? value->number : (double)value->integer;
    const HostExpr *host = type.rank == 0 ? host_of(low, value) : NULL;

    if ((value->kind == VALUE_BOOL) != (type.dtype == DT_BOOL)) {
        fail(low, span, "E-TYPE: %s cannot stand where %s is needed", value_text(low, value),
             dtype_name(type.dtype));
        return false;
    }
    if (value->kind == VALUE_FLOAT && !dtype_is_float(type.dtype)) {
        fail(low, span,
             "E-TYPE: %s cannot stand where %s is needed: write a whole number, or cast the "
             "other side with `as f32`",
             value_text(low, value), dtype_name(type.dtype));
        return false;
    }
    if (value->kind == VALUE_INT && !dtype_is_float(type.dtype) &&
        !int_fits(low, span, value, type.dtype))
        return false;
    *out = (Value){.kind = VALUE_TILE, .type = type, .host = host};
    if (!low->host_only)
        out->tir = tir_splat_const(&low->b, type, number);
    return true;
}

TirIndex
range_index(const Range *range)
{
    TirIndex index = tir_range(range->length);

    index.step = range->step;
    index.within = range->numbered ? (int32_t)range->loops : 0;
    if (range->pack != NULL) {
        index.inner = range->inner;
        index.rows = range->pack->rows;
    }
    return index;
}

/* The indices of one range. */
static Value
indices_of(Lower *low, const Range *range)
{
    Span span = low->b.span;
    Value none = value_int(INT32_MAX);
    bool moved = range->exact && range->from != NULL; /* and so perhaps past its bound */
    TirVal *start = index_operand(low, span, &range->start);
    TirVal *bound = index_operand(low, span, moved ? &none : &range->bound);
    if (start == NULL || bound == NULL)
        return (Value){.kind = VALUE_ERROR};
    TirVal *tile = tir_iota_part(&low->b, start, bound, range_index(range));
    note_pad(low, tile, 0, range->loops);
    return value_tile(tile, NULL);
}

/* Of a range or of indices that lie apart, whose padding is that of the range that they are made
 * from. */
static Value
all_indices(Lower *low, const Range *range)
{
    Span span = low->b.span;
    Value by = value_int(range->step);

    if (range->step == 0)
        return indices_of(low, range);
    Range from = *range->from;
    from.pack = range->pack;
    from.inner = range->inner;
    Value neighbours = indices_of(low, &from);
    Value apart = value_binary(low, span, OP_MUL, &neighbours, &by);
    if (range->offset.kind == VALUE_INT && range->offset.integer == 0)
        return apart;
    return value_binary(low, span, OP_ADD, &apart, &range->offset);
}

Value
range_to_tile(Lower *low, const Value *value)
{
    if (value->kind != VALUE_RANGE)
        return *value;
    const Range *range = value->range;
    if (low->host_only)
        return fail(low, low->b.span, "E-RANGE: a range has no value here");
    Value tile = all_indices(low, range);
    for (uint32_t k = 0; range->pack != NULL && tile.kind == VALUE_TILE && k < range->pack->n; k++) {
        const Range *other = &range->pack->parts[k];
        if (k == range->part || (other->exact && other->loops == 0))
            continue;
        Value indices = all_indices(low, other);
        if (indices.kind != VALUE_ERROR)
            tile = value_tile(pad_like(low, tile.tir, indices.tir), NULL);
    }
    return tile;
}

Value
to_runtime(Lower *low, Span span, const Value *value)
{
    Value out;
    DType dtype = value->kind == VALUE_INT ? DT_I32 : value->kind == VALUE_BOOL ? DT_BOOL : DT_F32;

    if (!is_constant(value))
        return range_to_tile(low, value);
    return adapt_constant(low, span, value, tir_scalar(dtype), &out) ? out
                                                                     : (Value){.kind = VALUE_ERROR};
}

const char *
integer_hint(Lower *low, const Value *value, DType wanted)
{
    return value->kind == VALUE_TILE && dtype_has(value->type.dtype, USE_INTEGERS) &&
                   value->type.dtype != wanted
               ? arena_printf(low->arena, ": cast it with `as %s`", dtype_name(wanted))
               : "";
}

TirVal *
index_operand(Lower *low, Span span, const Value *value)
{
    if (value->kind == VALUE_ERROR)
        return NULL;
    if (value->kind == VALUE_INT)
        return int_fits(low, span, value, DT_I32) ? tir_const_int(&low->b, value->integer) : NULL;
    if (is_scalar_of(value, DT_I32))
        return value->tir;
    fail(low, span, "E-TYPE: an integer is needed here, not %s%s", value_text(low, value),
         integer_hint(low, value, DT_I32));
    return NULL;
}

/* ---- shapes ---- */

bool
broadcast_shape(TirType x, TirType y, TirType *out)
{
    TirType wide = x.rank >= y.rank ? x : y, thin = x.rank >= y.rank ? y : x;
    uint32_t skip = wide.rank - thin.rank;

    for (uint32_t i = 0; i < thin.rank; i++) {
        int32_t a = wide.dim[skip + i], b = thin.dim[i];
        if (a != b && a != 1 && b != 1)
            return false;
        wide.dim[skip + i] = a == 1 ? b : a;
    }
    *out = wide;
    return true;
}

/* What is said of a vector that has an element for each row of the other. */
static const char *
column_hint(TirType x, TirType y)
{
    TirType wide = x.rank >= y.rank ? x : y, thin = x.rank >= y.rank ? y : x;

    return wide.rank == 2 && thin.rank == 1 && wide.dim[0] == thin.dim[0]
               ? ": v[:, None] makes a column of a vector v"
               : "";
}

/* To the shape of what it meets; `other` may be NULL. */
static Value
broadcast(Lower *low, Span span, const Value *value, const Value *other, TirType shape)
{
    if (low->host_only || shape.rank == 0)
        return *value;
    TirVal *wide = tir_broadcast_to(&low->b, value->tir, &shape);
    if (other != NULL && value->type.rank < shape.rank && value->type.rank > 0)
        note_meeting(low, span, value->tir, other->tir, wide);
    return value_tile(wide, NULL);
}

/* True when a value can take part in elementwise arithmetic. */
static bool
is_numeric(Lower *low, Span span, const char *what, const Value *value)
{
    if (is_constant(value) || value->kind == VALUE_TILE)
        return true;
    if (value->kind == VALUE_TENSOR)
        fail(low, span, "E-TENSOR: '%s' is a tensor: read a tile of it with `load %s[..]`",
             value->tensor->name, value->tensor->name);
    else if (value->kind != VALUE_ERROR)
        fail(low, span, "E-TYPE: %s works on numbers and tiles, not on %s", what,
             value_text(low, value));
    return false;
}

bool
unify(Lower *low, Span span, const char *what, Value *x, Value *y)
{
    TirType shape;

    *x = range_to_tile(low, x);
    *y = range_to_tile(low, y);
    if (!is_numeric(low, span, what, x) || !is_numeric(low, span, what, y))
        return false;
    if (is_constant(x) && is_constant(y)) {
        bool is_float = x->kind == VALUE_FLOAT || y->kind == VALUE_FLOAT;
        Value typed = to_runtime(low, span, is_float && y->kind == VALUE_FLOAT ? y : x);
        if (typed.kind == VALUE_ERROR)
            return false;
        return adapt_constant(low, span, x, typed.type, x) &&
               adapt_constant(low, span, y, typed.type, y);
    }
    if (is_constant(x))
        return adapt_constant(low, span, x, y->type, x);
    if (is_constant(y))
        return adapt_constant(low, span, y, x->type, y);
    if (x->type.dtype != y->type.dtype) {
        fail(low, span, "E-TYPE: %s mixes %s and %s: cast one of them with `as`", what,
             value_text(low, x), value_text(low, y));
        return false;
    }
    if (!broadcast_shape(x->type, y->type, &shape)) {
        fail(low, span, "E-SHAPE: the shapes %s and %s of %s do not fit together%s",
             value_text(low, x), value_text(low, y), what, column_hint(x->type, y->type));
        return false;
    }
    Value vector = *x;
    *x = broadcast(low, span, x, y, shape);
    *y = broadcast(low, span, y, &vector, shape);
    return true;
}

bool
fit_to(Lower *low, Span span, const char *what, const Value *value, TirType type, Value *out)
{
    TirType shape;
    Value tile = range_to_tile(low, value);

    if (!is_numeric(low, span, what, &tile))
        return false;
    if (is_constant(&tile))
        return adapt_constant(low, span, &tile, type, out);
    if (tile.type.dtype != type.dtype) {
        fail(low, span, "E-TYPE: %s takes %s, not %s: cast it with `as %s`", what,
             type_text(low, type), value_text(low, &tile), dtype_name(type.dtype));
        return false;
    }
    if (!broadcast_shape(tile.type, type, &shape) || !tir_same_shape(shape, type)) {
        fail(low, span, "E-TYPE: %s takes %s, not %s", what, type_text(low, type),
             value_text(low, &tile));
        return false;
    }
    *out = broadcast(low, span, &tile, NULL, type);
    return true;
}

/* ---- arithmetic on constants ---- */

static Value
fold_integers(Lower *low, Span span, Op op, int64_t a, int64_t b)
{
    int64_t result = 0;

    if ((op == OP_DIV || op == OP_REM) && b == 0)
        return fail(low, span, "E-ARITHMETIC: division by zero: %lld %s 0", (long long)a,
                    op_text(op));
    if ((op == OP_SHL || op == OP_SHR) && (b < 0 || b > 31))
        return fail(low, span, "E-ARITHMETIC: a shift by %lld: 0 to 31 is possible", (long long)b);
    switch (op) {
    case OP_ADD: result = a + b; break;
    case OP_SUB: result = a - b; break;
    case OP_MUL: result = fabs((double)a * (double)b) < 0x1p62 ? a * b : INT64_MAX; break;
    case OP_DIV: result = a / b; break;
    case OP_REM: result = a % b; break;
    case OP_BIT_OR: result = a | b; break;
    case OP_BIT_XOR: result = a ^ b; break;
    case OP_BIT_AND: result = a & b; break;
    case OP_SHL: result = a * ((int64_t)1 << b); break;
    case OP_SHR: result = a >> b; break;
    case OP_EQ: return value_bool(a == b);
    case OP_NE: return value_bool(a != b);
    case OP_LT: return value_bool(a < b);
    case OP_LE: return value_bool(a <= b);
    case OP_GT: return value_bool(a > b);
    case OP_GE: return value_bool(a >= b);
    default: return fail(low, span, "E-TYPE: '%s' works on bools, not on ints", op_text(op));
    }
    if (result < INT32_MIN || result > INT32_MAX)
        return fail(low, span, "E-ARITHMETIC: %lld %s %lld = %lld does not fit in 32 bits",
                    (long long)a, op_text(op), (long long)b, (long long)result);
    return value_int(result);
}

static Value
fold_floats(Lower *low, Span span, Op op, double a, double b)
{
    switch (op) {
    case OP_ADD: return value_float(a + b);
    case OP_SUB: return value_float(a - b);
    case OP_MUL: return value_float(a * b);
    case OP_DIV: return value_float(a / b);
    case OP_EQ: return value_bool(a == b);
    case OP_NE: return value_bool(a != b);
    case OP_LT: return value_bool(a < b);
    case OP_LE: return value_bool(a <= b);
    case OP_GT: return value_bool(a > b);
    case OP_GE: return value_bool(a >= b);
    default: return fail(low, span, "E-TYPE: '%s' does not work on floats", op_text(op));
    }
}

static Value
fold_bools(Lower *low, Span span, Op op, bool a, bool b)
{
    switch (op) {
    case OP_OR:
    case OP_BIT_OR: return value_bool(a || b);
    case OP_AND:
    case OP_BIT_AND: return value_bool(a && b);
    case OP_BIT_XOR:
    case OP_NE: return value_bool(a != b);
    case OP_EQ: return value_bool(a == b);
    default: return fail(low, span, "E-TYPE: '%s' does not work on bools", op_text(op));
    }
}

static Value
fold_binary(Lower *low, Span span, Op op, const Value *x, const Value *y)
{
    if (x->kind == VALUE_BOOL && y->kind == VALUE_BOOL)
        return fold_bools(low, span, op, x->integer != 0, y->integer != 0);
    if (x->kind == VALUE_BOOL || y->kind == VALUE_BOOL)
        return fail(low, span, "E-TYPE: '%s' mixes %s and %s", op_text(op), value_text(low, x),
                    value_text(low, y));
    if (x->kind == VALUE_INT && y->kind == VALUE_INT)
        return fold_integers(low, span, op, x->integer, y->integer);
    return fold_floats(low, span, op, x->kind == VALUE_FLOAT ? x->number : (double)x->integer,
                       y->kind == VALUE_FLOAT ? y->number : (double)y->integer);
}

/* ---- arithmetic at run time ---- */

typedef struct OpMeaning {
    TirOpcode tir;
    HostKind host;
    bool has_host;
    bool logical; /* of bools alone; else of the types that the operation is there for */
} OpMeaning;

static OpMeaning
op_meaning(Op op)
{
    switch (op) {
    case OP_OR: return (OpMeaning){TIR_OR, HOST_OR, true, true};
    case OP_AND: return (OpMeaning){TIR_AND, HOST_AND, true, true};
    case OP_EQ: return (OpMeaning){TIR_EQ, HOST_EQ, true, false};
    case OP_NE: return (OpMeaning){TIR_NE, HOST_NE, true, false};
    case OP_LT: return (OpMeaning){TIR_LT, HOST_LT, true, false};
    case OP_LE: return (OpMeaning){TIR_LE, HOST_LE, true, false};
    case OP_GT: return (OpMeaning){TIR_GT, HOST_GT, true, false};
    case OP_GE: return (OpMeaning){TIR_GE, HOST_GE, true, false};
    case OP_BIT_OR: return (OpMeaning){TIR_OR, HOST_OR, false, false};
    case OP_BIT_XOR: return (OpMeaning){TIR_XOR, HOST_OR, false, false};
    case OP_BIT_AND: return (OpMeaning){TIR_AND, HOST_AND, false, false};
    case OP_SHL: return (OpMeaning){TIR_SHL, HOST_MUL, false, false};
    case OP_SHR: return (OpMeaning){TIR_SHR, HOST_DIV, false, false};
    case OP_SUB: return (OpMeaning){TIR_SUB, HOST_SUB, true, false};
    case OP_MUL: return (OpMeaning){TIR_MUL, HOST_MUL, true, false};
    case OP_DIV: return (OpMeaning){TIR_DIV, HOST_DIV, true, false};
    case OP_REM: return (OpMeaning){TIR_REM, HOST_REM, true, false};
    default: return (OpMeaning){TIR_ADD, HOST_ADD, true, false};
    }
}

static bool
is_comparison(TirOpcode op)
{
    return (tir_op_info(op)->use & (USE_EQUALITY | USE_ORDER)) != 0;
}

static bool
takes_dtype(const OpMeaning *meaning, DType dtype)
{
    return meaning->logical ? dtype == DT_BOOL : dtype_has(dtype, tir_op_info(meaning->tir)->use);
}

/* x op y, both of one type. */
static TirVal *
build_binary(Lower *low, TirOpcode op, TirVal *x, TirVal *y)
{
    TirBuilder *b = &low->b;
    DType dtype = x->type.dtype;

    if (is_comparison(op) && dtype == DT_BOOL) {
        TirVal *differ = tir_binary(b, TIR_XOR, x, y);
        return op == TIR_NE ? differ : tir_unary(b, TIR_NOT, differ);
    }
    if (!is_16bit_float(dtype))
        return tir_binary(b, op, x, y);
    x = tir_cast(b, x, DT_F32);
    y = tir_cast(b, y, DT_F32);
    TirVal *wide = tir_binary(b, op, x, y);
    return is_comparison(op) ? wide : tir_cast(b, wide, dtype);
}

TirVal *
float_unary(Lower *low, TirOpcode op, TirVal *x)
{
    DType dtype = x->type.dtype;

    if (!is_16bit_float(dtype))
        return tir_unary(&low->b, op, x);
    return tir_cast(&low->b, tir_unary(&low->b, op, tir_cast(&low->b, x, DT_F32)), dtype);
}

/* range + scalar, range - scalar: the same range elsewhere; range * int: its indices so far
 * apart. */
static Value
move_range(Lower *low, Span span, Op op, const Value *range, const Value *by)
{
    Range *moved = arena_new(low->arena, Range);
    bool first = range->range->from == NULL;
    Value none = value_int(0);

    *moved = *range->range;
    moved->from = first ? range->range : range->range->from;
    moved->start = value_binary(low, span, op, &range->range->start, by);
    if (moved->step == 0) /* only where indices lie apart */
        moved->offset = first || op != OP_MUL
                            ? none
                            : value_binary(low, span, OP_SUB, &range->range->start,
                                           &moved->from->start);
    if (moved->step > 0 || op == OP_MUL)
        moved->offset = value_binary(low, span, op, &moved->offset, by);
    if (op == OP_MUL && by->integer > 1)
        moved->step = (moved->step > 0 ? moved->step : 1) * (int32_t)by->integer;
    else if (!moved->exact && moved->step == 0)
        moved->bound = value_binary(low, span, op, &range->range->bound, by);
    if (moved->start.kind == VALUE_ERROR || moved->bound.kind == VALUE_ERROR ||
        moved->offset.kind == VALUE_ERROR)
        return (Value){.kind = VALUE_ERROR};
    return (Value){.kind = VALUE_RANGE, .range = moved};
}

/* Whether a range times it is one whose indices lie apart. */
static bool
is_step(const Range *range, const Value *by)
{
    int32_t step = range->step > 0 ? range->step : 1;

    return by->kind == VALUE_INT && by->integer > 0 && by->integer <= INT32_MAX / step;
}

static bool
is_index(const Value *value)
{
    return value->kind == VALUE_INT || is_scalar_of(value, DT_I32);
}

/* true && x is x; false && x is false, whatever x is. */
static bool
fold_logic(Op op, const Value *x, const Value *y, Value *out)
{
    if (op != OP_AND && op != OP_OR)
        return false;
    const Value *known = x->kind == VALUE_BOOL ? x : y, *other = known == x ? y : x;
    if (known->kind != VALUE_BOOL || other->kind != VALUE_TILE || other->type.dtype != DT_BOOL)
        return false;
    *out = (known->integer != 0) == (op == OP_AND) ? *other : *known;
    return true;
}

/* The operator in quotes, for messages. */
enum { QUOTED_OP = 5 };

static void
quote_op(Op op, char what[QUOTED_OP])
{
    const char *text = op_text(op);
    size_t n = strlen(text);

    memset(what, 0, QUOTED_OP);
    what[0] = what[n + 1] = '\'';
    memcpy(what + 1, text, n);
}

Value
value_binary(Lower *low, Span span, Op op, const Value *x, const Value *y)
{
    char what[QUOTED_OP];
    OpMeaning meaning = op_meaning(op);
    Value a = *x, b = *y, out;

    if (x->kind == VALUE_ERROR || y->kind == VALUE_ERROR)
        return (Value){.kind = VALUE_ERROR};
    if (x->kind == VALUE_TYPE && y->kind == VALUE_TYPE && (op == OP_EQ || op == OP_NE))
        return value_bool((x->dtype == y->dtype) == (op == OP_EQ));
    if (is_constant(x) && is_constant(y))
        return fold_binary(low, span, op, x, y);
    if (x->kind == VALUE_RANGE && is_index(y) && (op == OP_ADD || op == OP_SUB))
        return move_range(low, span, op, x, y);
    if (y->kind == VALUE_RANGE && is_index(x) && op == OP_ADD)
        return move_range(low, span, op, y, x);
    if (x->kind == VALUE_RANGE && op == OP_MUL && is_step(x->range, y))
        return move_range(low, span, op, x, y);
    if (y->kind == VALUE_RANGE && op == OP_MUL && is_step(y->range, x))
        return move_range(low, span, op, y, x);
    if (fold_logic(op, x, y, &out))
        return out;
    low->b.span = span;
    quote_op(op, what);
    if (!unify(low, span, what, &a, &b))
        return (Value){.kind = VALUE_ERROR};
    if (!takes_dtype(&meaning, a.type.dtype))
        return fail(low, span, "E-TYPE: %s does not work on %s%s", what, value_text(low, &a),
                    meaning.logical ? ""
                    : op == OP_BIT_XOR && dtype_has(a.type.dtype, USE_ARITHMETIC)
                        ? arena_printf(low->arena, ": %s", word_hint("pow"))
                        : cast_hint(low, a.type.dtype, tir_op_info(meaning.tir)->use));
    out = (Value){.kind = VALUE_TILE, .type = a.type};
    if (is_comparison(meaning.tir))
        out.type.dtype = DT_BOOL;
    if (a.type.rank == 0 && meaning.has_host)
        out.host = host_pair(low, meaning.host, &a, &b);
    if (!low->host_only)
        out.tir = build_binary(low, meaning.tir, a.tir, b.tir);
    return out;
}

Value
value_minmax(Lower *low, Span span, TirOpcode op, const Value *x, const Value *y)
{
    const char *what = op == TIR_MAX ? "max" : "min";
    Value a = *x, b = *y;

    if (x->kind == VALUE_ERROR || y->kind == VALUE_ERROR)
        return (Value){.kind = VALUE_ERROR};
    if (is_constant(x) && is_constant(y)) {
        Value less = fold_binary(low, span, OP_LT, x, y);
        if (less.kind == VALUE_ERROR)
            return less;
        return (less.integer != 0) == (op == TIR_MIN) ? *x : *y;
    }
    low->b.span = span;
    if (!unify(low, span, what, &a, &b))
        return (Value){.kind = VALUE_ERROR};
    if (!dtype_has(a.type.dtype, tir_op_info(op)->use))
        return fail(low, span, "E-TYPE: %s does not work on %s%s", what, value_text(low, &a),
                    cast_hint(low, a.type.dtype, tir_op_info(op)->use));
    Value out = {.kind = VALUE_TILE, .type = a.type};
    if (a.type.rank == 0)
        out.host = host_pair(low, op == TIR_MAX ? HOST_MAX : HOST_MIN, &a, &b);
    if (!low->host_only)
        out.tir = build_binary(low, op, a.tir, b.tir);
    return out;
}

static bool
has_integers(const Value *value)
{
    return value->kind == VALUE_INT || value->kind == VALUE_RANGE ||
           (value->kind == VALUE_TILE && dtype_has(value->type.dtype, USE_INTEGERS));
}

Value
value_cdiv(Lower *low, Span span, const Value *x, const Value *y)
{
    Value one = value_int(1);

    if (x->kind == VALUE_ERROR || y->kind == VALUE_ERROR)
        return (Value){.kind = VALUE_ERROR};
    if (!has_integers(x) || !has_integers(y))
        return fail(low, span, "E-TYPE: cdiv divides integers, not %s by %s", value_text(low, x),
                    value_text(low, y));
    if (y->kind == VALUE_INT && y->integer <= 0)
        return fail(low, span, "E-ARITHMETIC: cdiv divides by a positive integer, not by %lld",
                    (long long)y->integer);
    if (x->kind == VALUE_INT && y->kind == VALUE_INT) {
        int64_t quotient = x->integer / y->integer;
        return value_int(quotient + (x->integer % y->integer > 0));
    }
    low->b.span = span;
    /* a range plus a scalar would stay one */
    Value a = range_to_tile(low, x), b = range_to_tile(low, y);
    Value round = value_binary(low, span, OP_SUB, &b, &one);
    Value sum = value_binary(low, span, OP_ADD, &a, &round);
    Value out = value_binary(low, span, OP_DIV, &sum, &b);
    if (out.kind == VALUE_TILE && out.type.rank == 0)
        out.host = host_pair(low, HOST_CDIV, x, y);
    return out;
}

Value
value_unary(Lower *low, Span span, Op op, const Value *x)
{
    Value zero = value_int(0), tile = *x;

    low->b.span = span;
    if (x->kind == VALUE_ERROR)
        return *x;
    if (op == OP_NOT && x->kind == VALUE_BOOL)
        return value_bool(!x->integer);
    if (op == OP_NEG && x->kind == VALUE_INT)
        return fold_integers(low, span, OP_SUB, zero.integer, x->integer);
    if (op == OP_NEG && x->kind == VALUE_FLOAT)
        return value_float(-x->number);
    tile = range_to_tile(low, x);
    if (!is_numeric(low, span, op == OP_NOT ? "'!'" : "'-'", &tile))
        return (Value){.kind = VALUE_ERROR};
    if (is_constant(&tile) ||
        !(op == OP_NOT ? tile.type.dtype == DT_BOOL : dtype_has(tile.type.dtype, USE_ARITHMETIC)))
        return fail(
            low, span, "E-TYPE: '%s' does not work on %s%s", op_text(op), value_text(low, &tile),
            op == OP_NEG && !is_constant(&tile) ? cast_hint(low, tile.type.dtype, USE_ARITHMETIC)
                                                : "");
    Value out = {.kind = VALUE_TILE, .type = tile.type};
    if (tile.host != NULL && !is_unsigned(&tile))
        out.host = host_node(low, op == OP_NOT ? HOST_NOT : HOST_NEG, tile.host, NULL);
    if (!low->host_only)
        out.tir = float_unary(low, op == OP_NOT ? TIR_NOT : TIR_NEG, tile.tir);
    return out;
}

Value
value_cast(Lower *low, Span span, const Value *x, DType to)
{
    Value tile = range_to_tile(low, x), out;

    low->b.span = span;
    if (!is_numeric(low, span, "'as'", &tile))
        return (Value){.kind = VALUE_ERROR};
    if (to == DT_BOOL && (is_constant(&tile) ? tile.kind != VALUE_BOOL : tile.type.dtype != DT_BOOL))
        return fail(low, span,
                    "E-CAST: a number cannot be cast to bool: compare it, as in `x != 0`");
    if (is_constant(&tile)) {
        if (tile.kind == VALUE_BOOL && to != DT_BOOL)
            tile = value_int(tile.integer);
        if (to == DT_I32 && tile.kind == VALUE_FLOAT && !(fabs(tile.number) < 2147483648.0))
            return fail(low, span, "E-ARITHMETIC: %s does not fit in %s", value_text(low, &tile),
                        dtype_name(to));
        if (tile.kind != VALUE_BOOL && !dtype_is_float(to))
            tile = value_int((int64_t)(tile.kind == VALUE_INT
                                           ? dtype_of_integer(to, (double)tile.integer)
                                           : dtype_whole(to, tile.number)));
        return adapt_constant(low, span, &tile, tir_scalar(to), &out)
                   ? out
                   : (Value){.kind = VALUE_ERROR};
    }
    if (low->host_only)
        return tile.type.dtype == to
                   ? tile
                   : fail(low, span, "E-LAUNCHER: a cast cannot be computed by the launcher");
    return tile.type.dtype == to ? tile : value_tile(tir_cast(&low->b, tile.tir, to), NULL);
}
