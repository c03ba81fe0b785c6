/* interpret_memory.c - loads, stores and atomic additions, and who touched which element. */
#include <math.h>
#include <string.h>

#include "dsl/interpret_internal.h"

/* ---- elements as bytes ---- */

size_t
element_bytes(DType type)
{
    return dtype_bits(type) / 8;
}

static double
half_to_double(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 0    ? ldexp(fraction, -24)
                  : exponent == 31 ? (fraction != 0 ? (double)NAN : INFINITY)
                                   : ldexp(fraction + 1024, exponent - 25);

    return bits >> 15 ? -size : size;
}

static uint16_t
double_to_half(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;

    x = fabs(round_to(DT_F16, x));
    if (isnan(x))
        return 0x7e00;
    if (isinf(x))
        return (uint16_t)(sign | 0x7c00);
    if (x < 0x1p-14)
        return (uint16_t)(sign | (uint16_t)ldexp(x, 24));
    double part = frexp(x, &exponent); /* in [0.5, 1) */
    return (uint16_t)(sign | (exponent + 14) << 10 | ((int)ldexp(part, 11) - 1024));
}

static uint32_t
float_bits(double x)
{
    float wide = (float)x;
    uint32_t bits;

    memcpy(&bits, &wide, sizeof bits);
    return bits;
}

/* Of as many bytes as the type has, the lowest first. */
static double
read_integer(DType type, const unsigned char *at)
{
    size_t n = element_bytes(type);
    int64_t integer = dtype_kind(type) == KIND_SIGNED && at[n - 1] > 127 ? -1 : 0;

    for (size_t k = n; k-- > 0;)
        integer = integer * 256 + at[k];
    return (double)integer;
}

/* The elements of a packed type that are a byte, the lower half first. */
static double
read_half(DType type, uint32_t code)
{
    return dtype_is_float(type) ? dtype_number(type, code)
                                : (double)code - (code > dtype_highest(type) ? 16 : 0);
}

static uint32_t
code_of_half(DType type, double x)
{
    return dtype_is_float(type) ? dtype_code(type, x) : (uint32_t)(int32_t)x & 15;
}

size_t
elements_bytes(DType type, size_t n)
{
    return n * dtype_bits(type) / 8;
}

void
elements_read(DType type, const void *from, size_t n, double *to)
{
    const unsigned char *at = from;

    for (size_t i = 0; i < n && dtype_has(type, USE_PACKED); i++)
        to[i] = read_half(type, at[i / 2] >> i % 2 * 4 & 15);
    if (dtype_has(type, USE_PACKED))
        return;
    for (size_t i = 0; i < n; i++, at += element_bytes(type)) {
        uint16_t half = 0;
        uint32_t word = 0;
        float wide;
        if (element_bytes(type) == 2)
            memcpy(&half, at, 2);
        if (element_bytes(type) == 4)
            memcpy(&word, at, 4);
        if (type == DT_BF16)
            word = (uint32_t)half << 16;
        memcpy(&wide, &word, 4);
        to[i] = type == DT_BOOL         ? at[0] != 0
                : !dtype_is_float(type) ? read_integer(type, at)
                : dtype_is_coded(type)  ? dtype_number(type, at[0])
                : type == DT_F16        ? half_to_double(half)
                                        : (double)wide;
    }
}

void
elements_write(DType type, const double *from, size_t n, void *to)
{
    unsigned char *at = to;

    for (size_t i = 0; i + 1 < n && dtype_has(type, USE_PACKED); i += 2)
        at[i / 2] = (unsigned char)(code_of_half(type, from[i]) | code_of_half(type, from[i + 1])
                                                                      << 4);
    if (dtype_has(type, USE_PACKED))
        return;
    for (size_t i = 0; i < n; i++, at += element_bytes(type)) {
        uint16_t half = double_to_half(type == DT_F16 ? from[i] : 0);
        uint32_t word = float_bits(from[i]);
        int64_t integer = dtype_is_float(type) ? 0 : (int64_t)from[i];
        for (size_t k = 0; k < element_bytes(type) && !dtype_is_float(type); k++)
            at[k] = (unsigned char)((uint64_t)integer >> 8 * k);
        switch (type) {
        case DT_F32: memcpy(at, &word, 4); break;
        case DT_BF16:
            word = float_bits(round_to(DT_BF16, from[i]));
            half = (uint16_t)(word >> 16);
            memcpy(at, &half, 2);
            break;
        case DT_F16: memcpy(at, &half, 2); break;
        default:
            if (dtype_is_coded(type))
                at[0] = (unsigned char)dtype_code(type, from[i]);
        }
    }
}

/* ---- what an access addresses ---- */

/* Along each dimension of the tile: where in memory its positions lie, and which are inside. */
typedef struct Access {
    RunTensor *tensor;
    Shape shape;
    int64_t base; /* of the scalar subscripts */
    int64_t *offset[RUN_TILE_RANK];
    uint8_t *inside[RUN_TILE_RANK];
    Pad *pads[RUN_TILE_RANK];
    const RunPack *pack;
    uint32_t pack_axis;
    bool places;          /* some subscript is a tile of places */
    bool may_leave, left; /* scalar subscripts may leave the tensor, and some do */
    /* a tile of places that has all dimensions of the tile, of dimension `along` of the tensor;
     * NULL: there is none */
    const RunTile *elements;
    uint32_t along;
} Access;

static RunTensor *
find_tensor(Run *run, const char *name)
{
    RunBinding *binding = run_find(run, name);

    return binding != NULL && binding->value.kind == RUN_TENSOR ? binding->value.tensor : NULL;
}

/* A dimension of the tile with `n` positions; returns which. */
static uint32_t
add_axis(Run *run, Access *access, int32_t n)
{
    uint32_t axis = access->shape.rank++;
    RunTile *room = tile_new(run, DT_I32, &(Shape){1, {n}});

    temp_push(run, tile_value(room)); /* until all subscripts are there */
    access->shape.dim[axis] = n;
    access->offset[axis] = (int64_t *)(void *)room->at;
    access->inside[axis] = room->room;
    for (int32_t i = 0; i < n; i++) {
        access->offset[axis][i] = 0;
        access->inside[axis][i] = 1;
    }
    return axis;
}

/* Positions `axis` of the tile run over dimension d of the tensor. */
static void
run_along(Run *run, Access *access, uint32_t axis, uint32_t d, const RunRange *range, int32_t n)
{
    const RunTensor *tensor = access->tensor;
    int64_t start = range == NULL ? 0 : (int64_t)range->start.value;

    for (int32_t i = 0; i < n; i++) {
        int64_t position = range != NULL && range->pack != NULL ? i / range->inner % range->length
                                                                : i;
        int64_t at = start + position * (range != NULL ? range->step : 1);
        access->offset[axis][i] += at * tensor->stride[d];
        access->inside[axis][i] &= at >= 0 && at < tensor->shape[d];
    }
    if (range != NULL)
        access->pads[axis] = pads_join(run, access->pads[axis], range->pads);
}

/* Positions of the tile have places of their own in dimension d: those of a list make a
 * dimension. */
static void
add_places(Run *run, Access *access, uint32_t d, Span span, RunTile *places)
{
    const RunTensor *tensor = access->tensor;
    uint32_t first = access->shape.rank;

    access->places = true;
    for (uint32_t k = 0; k < places->shape.rank; k++) {
        uint32_t axis = add_axis(run, access, places->shape.dim[k]);
        access->pads[axis] = pads_join(run, access->pads[axis], places->pads[k]);
    }
    for (uint32_t i = 0; i < places->n; i++) {
        Num place = places->at[i];
        if (places->skip == NULL || !places->skip[i])
            run_decides(run, span, &place);
    }
    if (places->shape.rank > 1) {
        access->elements = places;
        access->along = d;
        return;
    }
    for (int32_t i = 0; i < places->shape.dim[0]; i++) {
        int64_t at = (int64_t)places->at[i].value;
        access->offset[first][i] += at * tensor->stride[d];
        access->inside[first][i] &= at >= 0 && at < tensor->shape[d];
    }
}

static bool
add_scalar(Run *run, Access *access, uint32_t d, Span span, const RunValue *value)
{
    Num at = run_integer(run, value);
    int64_t extent = access->tensor->shape[d];

    if (run->stopped)
        return false;
    run_decides(run, span, &at);
    bool left = !run->setup && (at.value < 0 || at.value >= (double)extent);
    access->left |= left;
    if (left && !access->may_leave) {
        run_fail(
            run, span,
            "E-BOUNDS: index %.0f is outside of the dimension, which has %lld element%s: a scalar "
            "subscript must lie in it",
            at.value, (long long)extent, extent == 1 ? "" : "s");
        return false;
    }
    access->base += (int64_t)at.value * access->tensor->stride[d];
    return true;
}

static bool
find_access(Run *run, const char *name, Span span, const SubscriptList *index, bool may_leave,
            Access *out)
{
    *out = (Access){.tensor = find_tensor(run, name), .may_leave = may_leave};
    if (out->tensor == NULL) {
        run_fail(run, span, "E-INTERNAL: unknown tensor '%s'", name);
        return false;
    }
    for (uint32_t d = 0; d < index->n; d++) {
        const Subscript *subscript = &index->at[d];
        if (subscript->kind == SUBSCRIPT_ALL) {
            int32_t n = (int32_t)out->tensor->shape[d];
            run_along(run, out, add_axis(run, out, n), d, NULL, n);
            continue;
        }
        RunValue value = run_eval(run, subscript->value);
        if (value.kind == RUN_ERROR)
            return false;
        if (value.kind == RUN_TILE && value.tile->shape.rank > 0) {
            temp_push(run, value);
            add_places(run, out, d, subscript->span, value.tile);
            continue;
        }
        if (value.kind != RUN_RANGE) {
            if (!add_scalar(run, out, d, subscript->span, &value))
                return false;
            continue;
        }
        const RunRange *range = value.range;
        int32_t n = range->pack != NULL ? range->pack->rows : range->length;
        uint32_t axis = out->pack_axis;
        if (range->pack == NULL || out->pack == NULL)
            axis = add_axis(run, out, n);
        if (range->pack != NULL) {
            out->pack = range->pack;
            out->pack_axis = axis;
        }
        Num start = range->start;
        run_decides(run, subscript->span, &start);
        run_along(run, out, axis, d, range, n);
    }
    return true;
}

/* Where element i of the tile lies; -1: outside of the tensor. */
static int64_t
element_at(const Access *access, uint32_t i)
{
    uint32_t element = i;
    int64_t at = access->base;

    for (uint32_t d = access->shape.rank; d-- > 0;) {
        uint32_t extent = (uint32_t)access->shape.dim[d], position = i % extent;
        if (!access->inside[d][position])
            return -1;
        at += access->offset[d][position];
        i /= extent;
    }
    if (access->left)
        return -1;
    if (access->elements != NULL) {
        int64_t place = (int64_t)access->elements->at[element].value;
        if (place < 0 || place >= access->tensor->shape[access->along])
            return -1;
        at += place * access->tensor->stride[access->along];
    }
    return at;
}

/* ---- who touched what ---- */

typedef enum Touch {
    TOUCH_READ,
    TOUCH_WRITE,
    TOUCH_ATOMIC /* and what follows: of each kind */
} Touch;

static const char *
element_text(Run *run, const RunTensor *tensor, int64_t at)
{
    Buf text;

    buf_init(&text, run->arena);
    buf_printf(&text, "%s[", tensor->name);
    for (uint32_t d = 0; d < tensor->rank; at %= tensor->stride[d], d++)
        buf_printf(&text, "%s%lld", d > 0 ? ", " : "", (long long)(at / tensor->stride[d]));
    buf_char(&text, ']');
    return text.at;
}

static bool
is_other(uint32_t who, uint32_t me)
{
    return who != 0 && who != me;
}

static void
add_toucher(uint32_t *who, uint32_t me)
{
    *who = *who == 0 || *who == me ? me : TOUCHED_MANY;
}

/* False: another program touched it too, and one of the two stores, or they are atomic in different
 * ways. */
static bool
touch(Run *run, Span span, RunTensor *tensor, int64_t at, Touch how)
{
    static const char *const here[] = {"loaded", "stored to", "added to", "raised", "lowered"};
    static const char *const there[] = {"adds to", "raises", "lowers"};
    bool packed = dtype_has(tensor->type, USE_PACKED); /* both elements of a byte are as one */
    Touched *touched = &tensor->touched[packed ? at & ~1LL : at];
    uint32_t me = (uint32_t)run->program + 1;
    uint32_t own = how < TOUCH_ATOMIC ? 0 : 1U << (how - TOUCH_ATOMIC);
    uint32_t kinds = is_other(touched->adder, me) ? touched->kinds & ~own : 0;
    const char *other = is_other(touched->writer, me)                        ? "stores to"
                        : how != TOUCH_READ && is_other(touched->reader, me) ? "loads"
                                                                             : NULL;

    for (uint32_t k = 0; k < ATOMIC_COUNT && other == NULL; k++)
        other = (kinds >> k & 1) != 0 ? there[k] : NULL;
    if (other != NULL) {
        run_fail(
            run, span,
            "E-RUN-ORDER: %s is %s here, and another program %s it: the result depends on which comes "
            "first",
            element_text(run, tensor, at), here[how], other);
        return false;
    }
    add_toucher(how == TOUCH_READ    ? &touched->reader
                : how == TOUCH_WRITE ? &touched->writer
                                     : &touched->adder,
                me);
    touched->kinds |= own;
    return true;
}

/* ---- loads ---- */

static Num
read_element(Run *run, const RunTensor *tensor, int64_t at)
{
    Num out = num_of(tensor->value[at]);

    if (!run->rounding.bounds)
        return out;
    out.error = tensor->wild ? INFINITY : tensor->error[at];
    out.size = fmax(tensor->size[at], fabs(out.value));
    out.grain = tensor->grain[at];
    if (tensor->type == DT_F32 && out.value != 0 && fabs(out.value) < 0x1p-126)
        out.error += fabs(out.value); /* may be flushed */
    return out;
}

RunValue
run_load(Run *run, const Expr *expr)
{
    static const RunValue error_value = {.kind = RUN_ERROR};
    uint32_t mark = run->temps.n;
    Access access;

    bool found = find_access(run, expr->text, expr->text_span, &expr->index, false, &access);
    run->temps.n = mark;
    if (!found)
        return error_value;
    RunTensor *tensor = access.tensor;
    RunTile *out = tile_new(run, tensor->type, &access.shape);
    /* what the program may have stored itself */
    out->by_rows = out->by_rows || (run->behind_rows && tensor->mode != PARAM_IN);
    memcpy(out->pads, access.pads, sizeof out->pads);
    tile_skips(run, out);
    if (!run_works(run, expr->span, out->n))
        return error_value;
    for (uint32_t i = 0; i < out->n; i++) {
        bool padding = out->skip != NULL && out->skip[i];
        int64_t at = padding || run->setup ? -1 : element_at(&access, i);
        /* outside of the tensor codes are 0 */
        out->at[i] = num_of(dtype_is_scale(tensor->type) ? dtype_number(tensor->type, 0) : 0);
        if (at < 0)
            continue;
        if (tensor->undefined != NULL && tensor->undefined[at])
            return run_fail(run, expr->span, "E-UNWRITTEN: %s is loaded, which nothing has written",
                            element_text(run, tensor, at));
        if (tensor->touched != NULL && !touch(run, expr->span, tensor, at, TOUCH_READ))
            return error_value;
        out->at[i] = read_element(run, tensor, at);
    }
    return tile_value(out);
}

/* ---- stores ---- */

static bool
write_element(Run *run, Span span, RunTensor *tensor, int64_t at, Num x)
{
    tensor->value[at] = x.value;
    if (tensor->undefined != NULL)
        tensor->undefined[at] = 0;
    if (run->rounding.bounds) {
        tensor->error[at] = run->wild ? INFINITY : x.error;
        tensor->size[at] = fabs(x.value);
        tensor->grain[at] = tensor->additions[at] = 0;
    }
    return touch(run, span, tensor, at, TOUCH_WRITE);
}

/* Of an addition to memory: those before it, which may come behind it, are as large as the sum is
 * by now. */
static double
additions_error(const RunTensor *tensor, int64_t at, Num old, Num sum)
{
    if (tensor->type != DT_F32 || sum.error == 0 || !isfinite(sum.size))
        return sum.error;
    return sum.error +
           tensor->additions[at] * 0x1p-24 * (old.error == 0 ? sum.size : sum.size - old.size);
}

/* Whether a sum to a narrow type is exact in every order. */
static bool
adds_exactly(const Run *run, DType type, Num old, Num x, Num sum)
{
    int exponent;

    frexp(sum.size, &exponent);
    return old.error == 0 && x.error == 0 && !run->rounding.loose &&
           sum.grain >= ldexp(1, exponent - dtype_digits(type));
}

/* The same of a sum that each addition rounds, here and there in another order: what k of them
 * leave out is at most k halves of a unit of all that is added, and of what they leave out. */
static Num
sum_of_narrow(const Run *run, const RunTensor *tensor, int64_t at, Num old, Num x, Num sum)
{
    double unit = ldexp(1, -dtype_digits(tensor->type)), k = tensor->additions[at];
    double before = 2 * k * unit / (1 - k * unit), now = 2 * (k + 1) * unit / (1 - (k + 1) * unit);

    if (isnan(sum.value))
        return sum;
    sum.size = old.size + x.size;
    sum.grain = fmin(num_grain(old), num_grain(x));
    sum.error = 0;
    if (adds_exactly(run, tensor->type, old, x, sum)) {
        sum.grain = isinf(sum.grain) ? 0 : sum.grain; /* of zeros */
        return sum;
    }
    double brought = fmax(0, (old.error - before * old.size) / (1 + before)) + x.error;
    sum.grain = 0;
    sum.error = brought + now * (sum.size + brought);
    if (now < 0 || isinf(dtype_nearest(tensor->type, sum.size + sum.error)))
        sum.error = INFINITY;
    return sum;
}

static bool
add_element(Run *run, Span span, RunTensor *tensor, int64_t at, Num x)
{
    NumFault fault = NUM_FINE;
    Num old = read_element(run, tensor, at);
    old.summed = true; /* additions come in any order */
    if (run->rounding.bounds && tensor->type == DT_F32 && fabs(x.value) < 0x1p-126)
        x.error += fabs(x.value); /* may be flushed, as what is there */
    Num sum = num_binary(run->rounding, tensor->type, OP_ADD, old, x, &fault);

    if (run_faulty(run, span, fault, "atomic_add", old, x) ||
        !touch(run, span, tensor, at, TOUCH_ATOMIC))
        return false;
    if (run->rounding.bounds && dtype_per_word(tensor->type) > 1)
        sum = sum_of_narrow(run, tensor, at, old, x, sum);
    tensor->value[at] = sum.value;
    if (run->rounding.bounds) {
        bool known = !run->wild && !isinf(sum.fused); /* else finite in another order, perhaps */
        tensor->error[at] = known ? additions_error(tensor, at, old, sum) : INFINITY;
        tensor->additions[at]++;
        tensor->size[at] = sum.size;
        tensor->grain[at] = sum.grain;
    }
    return true;
}

/* The greater of what is there and x, or the less; a NaN changes nothing, and what becomes of one
 * is not said. */
static bool
raise_element(Run *run, Span span, RunTensor *tensor, int64_t at, Atomic how, Num x)
{
    Num old = read_element(run, tensor, at);
    Num best = num_minmax(run->rounding, tensor->type, how == ATOMIC_MAX, old, x);

    if (!touch(run, span, tensor, at, TOUCH_ATOMIC + how))
        return false;
    tensor->value[at] = best.value;
    if (run->rounding.bounds) {
        tensor->error[at] = run->wild || isnan(old.value) ? INFINITY : best.error;
        tensor->size[at] = fabs(best.value);
        tensor->grain[at] = tensor->additions[at] = 0;
    }
    return true;
}

/* Places of a store must differ: which of two values is there behind it is not said. */
static bool
is_once(Run *run, const Stmt *stmt, RunTensor *tensor, int64_t at)
{
    if (tensor->touched[at].store == run->stores) {
        run_fail(run, stmt->span,
                 "E-RUN-PLACES: %s is stored to twice here: the places of a store must differ "
                 "(those of an atomic statement need not)",
                 element_text(run, tensor, at));
        return false;
    }
    tensor->touched[at].store = run->stores;
    return true;
}

/* One element of a store or an atomic statement. */
static bool
put_element(Run *run, const Stmt *stmt, RunTensor *tensor, int64_t at, Num x)
{
    if (stmt->kind == STMT_STORE)
        return write_element(run, stmt->span, tensor, at, x);
    if (stmt->atomic == ATOMIC_ADD)
        return add_element(run, stmt->span, tensor, at, x);
    return raise_element(run, stmt->span, tensor, at, stmt->atomic, x);
}

/* Whether an element has its byte for itself: the last one of an odd row. */
static bool
is_alone(const RunTensor *tensor, int64_t at)
{
    int64_t last = tensor->shape[tensor->rank - 1];

    return dtype_has(tensor->type, USE_PACKED) && last % 2 != 0 && at % (last + 1) == last - 1;
}

/* Stores to a packed type write whole bytes, or end the row. */
static bool
covers_bytes(Run *run, const Stmt *stmt, const Access *access, const RunTile *written)
{
    const RunTensor *tensor = access->tensor;
    int64_t alone = -1;

    for (uint32_t round = 0; round < 3; round++) { /* marks, looks, takes the marks away */
        for (uint32_t i = 0; i < written->n; i++) {
            int64_t at = written->skip != NULL && written->skip[i] ? -1 : element_at(access, i);
            if (at < 0)
                continue;
            if (round == 1 && !tensor->covered[at ^ 1] && !is_alone(tensor, at))
                alone = at;
            tensor->covered[at] = round < 2;
        }
    }
    if (alone < 0)
        return true;
    run_fail(
        run, stmt->span,
        "E-PACKED: %s is stored without the other element of its byte: a store of %s begins at an "
        "even place, and covers whole bytes or ends the row",
        element_text(run, tensor, alone), dtype_name(tensor->type));
    return false;
}

/* What was there before an atomic statement, under the name that asks for it; 0 outside of the
 * tensor. */
static void
declare_old(Run *run, const Stmt *stmt, const Access *access)
{
    RunTile *old = tile_new(run, access->tensor->type, &access->shape);
    int64_t at = run->setup ? -1 : element_at(access, 0);

    tile_skips(run, old);
    old->at[0] = at < 0 ? num_of(0) : read_element(run, access->tensor, at);
    run_declare(run, stmt->names.at[0].text, tile_value(old));
}

void
run_store(Run *run, const Stmt *stmt)
{
    RunValue value = run_eval(run, stmt->a);
    uint32_t mark = run->temps.n;
    Access access;

    if (value.kind == RUN_ERROR)
        return;
    temp_push(run, value);
    bool found = find_access(run, stmt->text, stmt->text_span, &stmt->index, stmt->names.n > 0,
                             &access);
    run->temps.n = mark;
    if (!found)
        return;
    RunTile *fitted = run_fit(run, stmt->a->span, value, access.tensor->type, &access.shape);
    if (fitted == NULL || !run_works(run, stmt->span, fitted->n))
        return;
    if (stmt->names.n > 0)
        declare_old(run, stmt, &access);
    if (run->setup)
        return;
    RunTile *out = tile_new(run, DT_BOOL, &access.shape); /* whose padding counts */
    tile_take_pads(run, out, fitted);
    for (uint32_t d = 0; d < access.shape.rank; d++)
        out->pads[d] = pads_join(run, out->pads[d], access.pads[d]);
    tile_skips(run, out);
    if (dtype_has(access.tensor->type, USE_PACKED) && !covers_bytes(run, stmt, &access, out))
        return;
    bool once = access.places && stmt->kind == STMT_STORE;
    run->stores += once;
    for (uint32_t i = 0; i < fitted->n; i++) {
        int64_t at = out->skip != NULL && out->skip[i] ? -1 : element_at(&access, i);
        if (at < 0)
            continue;
        if (once && !is_once(run, stmt, access.tensor, at))
            return;
        if (!put_element(run, stmt, access.tensor, at, fitted->at[i]) ||
            (is_alone(access.tensor, at) &&
             !put_element(run, stmt, access.tensor, at + 1, num_of(0))))
            return;
    }
}
