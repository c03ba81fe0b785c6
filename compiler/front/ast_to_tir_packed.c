/* ast_to_tir_packed.c - types of which two elements share a byte: i4, u4, e2m1.
 *
 * Only the front end knows them.  A tensor of such a type becomes one of bytes, `u8[K, cdiv(N, 2)]`
 * for `u4[K, N]`, whose strides, alignment and array are those of the bytes; the element at an even
 * place of a row is the lower half of its byte.  What is loaded of it, or cast to it, is
 * VALUE_PACKED: an i32 tile of codes, which can only be cast and stored.
 *
 *     load W[k, n]                        bytes at the pairs of n (elements of a pack of bytes and
 *                                         halves), or, where n may begin at an odd place, at a list
 *                                         of places; shifted, cut, and cut off at N
 *     store W[k, n] = codes               fold(codes << 0 and 4, 2), summed: a byte of each pair
 */
#include "compiler/front/ast_to_tir_internal.h"
#include "dsl/builtins.h"

#include <string.h>

static const Value error_value = {.kind = VALUE_ERROR};

enum {
    CODE_BITS = 4,
    LAST_CODE = 15,
    E2M1_SIZES = 0x3210,               /* twice the numbers of codes 0 to 3 .. */
    E2M1_LARGER = (int32_t)0xc8640000, /* .. and of 4 to 7, four bits of each */
    MOST_STEPS = 256 /* definitions followed: a bound on work; behind it, nothing is known */
};

/* ---- tensors ---- */

void
bind_packed(Lower *low, TirTensor *tensor, const Expr *last)
{
    Expr *bytes = arena_new(low->arena, Expr), *two = arena_new(low->arena, Expr);
    PackedTensor packed = {.tensor = tensor, .last = last, .bytes = bytes};
    Arg args[] = {{.value = arena_copy(low->arena, last, sizeof *last)}, {.value = two}};

    *two = (Expr){.kind = EXPR_INT, .span = last->span, .integer = 2};
    *bytes = (Expr){.kind = EXPR_CALL,
                    .span = last->span,
                    .text = builtin_info(BUILTIN_CDIV)->name,
                    .text_span = last->span};
    for (uint32_t k = 0; k < 2; k++)
        vec_push(low->arena, &bytes->args, args[k]);
    tensor->packed = tensor->dtype;
    tensor->dtype = dtype_stored(tensor->dtype);
    vec_push(low->arena, &low->packed, packed);
}

const Expr *
packed_dim(const Lower *low, const TirTensor *tensor, const Expr *dim)
{
    const PackedTensor *packed = find_packed(low, tensor);

    return packed != NULL && packed->last == dim ? packed->bytes : dim;
}

bool
is_packed_dim(const Lower *low, const Expr *dim)
{
    for (uint32_t k = 0; k < low->packed.n; k++)
        if (low->packed.at[k].bytes == dim)
            return true;
    return false;
}

const PackedTensor *
find_packed(const Lower *low, const TirTensor *tensor)
{
    for (uint32_t k = 0; k < low->packed.n; k++)
        if (low->packed.at[k].tensor == tensor)
            return &low->packed.at[k];
    return NULL;
}

void
settle_packed(Lower *low)
{
    for (uint32_t k = 0; k < low->packed.n; k++)
        low->packed.at[k].extent = eval(low, low->packed.at[k].last);
}

/* ---- what is even ---- */

/* Whether a `require` says that something is a multiple of an even number. */
static bool
is_required_even(const Lower *low, const HostExpr *host)
{
    for (uint32_t k = 0; k < low->fn->requires.n; k++) {
        const HostExpr *c = low->fn->requires.at[k].condition, *rest = c->a;
        if (c->kind == HOST_EQ && c->b->kind == HOST_INT && c->b->integer == 0 &&
            rest->kind == HOST_REM && rest->b->kind == HOST_INT && rest->b->integer % 2 == 0 &&
            host_equal(rest->a, host))
            return true;
    }
    return false;
}

static bool
is_even_host(const Lower *low, const HostExpr *host)
{
    if (host == NULL)
        return false;
    switch (host->kind) {
    case HOST_INT: return host->integer % 2 == 0;
    case HOST_MUL: return is_even_host(low, host->a) || is_even_host(low, host->b);
    case HOST_ADD:
    case HOST_SUB: return is_even_host(low, host->a) && is_even_host(low, host->b);
    default: return is_required_even(low, host);
    }
}

static bool
is_even_in(const Lower *low, const TirVal *value, uint32_t *steps)
{
    const TirOp *def = value->def;
    HostExpr size = {.kind = HOST_SIZE};

    if (def == NULL || *steps == MOST_STEPS)
        return false;
    ++*steps;
    switch (def->op) {
    case TIR_CONST: return def->integer % 2 == 0;
    case TIR_MUL:
        return is_even_in(low, def->args[1], steps) || is_even_in(low, def->args[0], steps);
    case TIR_ADD:
    case TIR_SUB:
        return is_even_in(low, def->args[0], steps) && is_even_in(low, def->args[1], steps);
    case TIR_SIZE: size.index = (uint32_t)def->integer; return is_required_even(low, &size);
    default: return false;
    }
}

static bool
is_even(const Lower *low, const TirVal *value)
{
    uint32_t steps = 0;

    return is_even_in(low, value, &steps);
}

static bool
has_even_extent(Lower *low, const PackedTensor *packed)
{
    return is_even_host(low, host_of(low, &packed->extent));
}

/* Half of an index, rounded down; of an even one as a product of what it is one of, by the steps
 * that found it even. */
static TirVal *
half_of(Lower *low, TirVal *value)
{
    const TirOp *def = value->def;
    TirBuilder *b = &low->b;

    if (is_even(low, value) && def->op == TIR_CONST)
        return tir_splat_const(b, value->type, (double)(def->integer / 2));
    if (is_even(low, value) && def->op == TIR_MUL) {
        uint32_t even = is_even(low, def->args[1]);
        return tir_binary(b, TIR_MUL, def->args[1 - even], half_of(low, def->args[even]));
    }
    if (is_even(low, value) && (def->op == TIR_ADD || def->op == TIR_SUB))
        return tir_binary(b, def->op, half_of(low, def->args[0]), half_of(low, def->args[1]));
    return tir_binary(b, TIR_SHR, value, tir_splat_const(b, value->type, 1));
}

/* ---- subscripts ---- */

static bool
is_extent(Lower *low, const PackedTensor *packed, const Range *range)
{
    const HostExpr *bound = host_of(low, &range->bound), *extent = host_of(low, &packed->extent);

    return range->from == NULL && bound != NULL && extent != NULL && host_equal(bound, extent);
}

/* A range of pairs that begins at an even place. */
static bool
add_pairs(Lower *low, Access *access, uint32_t at, const Range *range, TirVal *start, bool writes)
{
    bool ends = is_extent(low, access->packed, range);
    bool whole = ends && writes;
    TirIndex *index = &access->index[at];

    *index = tir_range(range->length / 2);
    index->open = range->exact || !whole;
    access->range[at] = range;
    access->pairs = !writes;
    access->cut = ends && !writes && !range->exact; /* by the limit */
    access->packed_axis = access->type.rank;
    access->type.dim[access->type.rank++] = range->length;
    access->elements = tir_iota(&low->b, start, tir_const_int(&low->b, INT32_MAX), range->length);
    note_pad(low, access->elements, 0, 0);
    if (!range->exact && !whole)
        access->count[at] = count_range(low, range);
    if (!writes) {
        index->inner = 2;
        index->rows = range->length;
    } else if (access->count[at] != NULL) {
        TirVal *more = tir_binary(&low->b, TIR_ADD, access->count[at], tir_const_int(&low->b, 1));
        access->count[at] = half_of(low, more);
    }
    return true;
}

/* Takes the operand of a subscript. */
static bool
take_operand(Access *access, uint32_t *n, TirVal *operand)
{
    access->operands[(*n)++] = operand;
    return true;
}

/* Elements at places of their own. */
static bool
add_elements(Lower *low, Span span, Access *access, uint32_t at, uint32_t *n, const Value *places)
{
    Value bytes = *places;

    access->elements = places->tir;
    access->packed_axis = access->type.rank;
    if (places->type.dtype == DT_I32) /* else an error */
        bytes = value_tile(half_of(low, places->tir), NULL);
    return add_places(low, span, access, at, &bytes) && take_operand(access, n, bytes.tir);
}

static bool
check_store(Lower *low, Span span, const Access *access, const Range *range)
{
    const char *type = dtype_name(access->packed->tensor->packed);

    if (range->length % 2 == 0 && (range->start.kind != VALUE_INT || range->start.integer % 2 == 0))
        return true;
    fail(low, span,
         "E-PACKED: two elements of %s share a byte: a store begins at an even place and has an even "
         "number of them; what lies past the end of a row is not written",
         type);
    return false;
}

/* A part of a pack along a row: of a pack whose parts are pairs there, and which element of a pair
 * varies `inner` times slower. */
static bool
add_packed_part(Lower *low, Span span, Access *access, uint32_t at, uint32_t *n, const Range *range,
                TirVal *start)
{
    TirIndex *index = &access->index[at], elements = range_index(range);

    if (range->length % 2 != 0 || !is_even(low, start)) {
        fail(low, span,
             "E-PACKED: the elements of %s along a row are two to a byte: a part of a pack begins at an "
             "even place there and has an even length; other elements are taken by a tile of their "
             "places",
             dtype_name(access->packed->tensor->packed));
        return false;
    }
    *index = elements;
    index->length /= 2;
    index->inner *= 2;
    index->open = true;
    access->range[at] = range;
    access->count[at] = range->exact ? NULL : count_range(low, range);
    access->cut = is_extent(low, access->packed, range) && !range->exact;
    access->elements = tir_iota_part(&low->b, start, tir_const_int(&low->b, INT32_MAX), elements);
    note_pad(low, access->elements, 0, 0);
    if (!add_part(low, span, access, range))
        return false;
    access->packed_axis = access->pack_axis;
    return take_operand(access, n, half_of(low, start));
}

static bool
add_range(Lower *low, Span span, Access *access, uint32_t at, uint32_t *n, const Range *range,
          bool writes)
{
    TirVal *start = index_operand(low, span, &range->start);

    if (start == NULL)
        return false;
    if (range->pack != NULL && writes) {
        fail(low, span,
             "E-PACKED: two elements of %s share a byte: a store goes to a range of them, not to a part "
             "of a pack",
             dtype_name(access->packed->tensor->packed));
        return false;
    }
    if (range->pack != NULL)
        return add_packed_part(low, span, access, at, n, range, start);
    if (writes && !check_store(low, span, access, range))
        return false;
    /* dimensions in front become a pack, where they are two and more: then it is none of pairs */
    bool alone = access->pack == NULL && access->type.rank < 2;
    if (!writes && (range->length % 2 != 0 || !is_even(low, start) || !alone)) {
        Value whole = {.kind = VALUE_RANGE, .range = range}, places = range_to_tile(low, &whole);
        return places.kind == VALUE_TILE && add_elements(low, span, access, at, n, &places);
    }
    return add_pairs(low, access, at, range, start, writes) &&
           take_operand(access, n, half_of(low, start));
}

/* The last dimension as it is written, or the number that it is, for messages. */
static const char *
extent_text(Lower *low, const PackedTensor *packed)
{
    Buf text;

    buf_init(&text, low->arena);
    if (packed->extent.kind == VALUE_INT)
        buf_printf(&text, "%lld", (long long)packed->extent.integer);
    else
        ast_print_expr(packed->last, &text);
    return text.at;
}

static bool
eval_element(Lower *low, Span span, Access *access, uint32_t at, uint32_t *n, const Value *value)
{
    access->index[at] = (TirIndex){.kind = INDEX_SCALAR};
    access->elements = index_operand(low, span, value);
    return access->elements != NULL && take_operand(access, n, half_of(low, access->elements));
}

bool
eval_packed_index(Lower *low, const Subscript *subscript, Access *access, uint32_t at, uint32_t *n,
                  bool writes)
{
    const PackedTensor *packed = access->packed;
    int64_t extent = packed->extent.kind == VALUE_INT ? packed->extent.integer : 0;
    const char *text = extent_text(low, packed);
    Span span = subscript->span;
    Range *all = arena_new(low->arena, Range); /* the access keeps it */
    *all = (Range){
        .length = (int32_t)extent, .start = value_int(0), .bound = packed->extent, .exact = true};
    Value value = {.kind = VALUE_RANGE, .range = all};

    if (packed->extent.kind == VALUE_ERROR)
        return false;
    if (subscript->kind == SUBSCRIPT_ALL ? !is_whole(low, span, extent, text)
                                         : !subscript_value(low, subscript, &value))
        return false;
    low->b.span = span;
    if (value.kind == VALUE_RANGE && value.range->step > 0) {
        if (value.range->pack != NULL) {
            fail(low, span,
                 "E-PACKED: two elements of %s share a byte: indices that lie apart are a list here, "
                 "not a part of a pack",
                 dtype_name(packed->tensor->packed));
            return false;
        }
        value = range_to_tile(low, &value);
    }
    if (value.kind == VALUE_RANGE)
        return add_range(low, span, access, at, n, value.range, writes);
    if (writes && value.kind != VALUE_ERROR) {
        fail(low, span,
             "E-PACKED: two elements of %s share a byte: a store goes to a range of them, not to %s",
             dtype_name(packed->tensor->packed), value_text(low, &value));
        return false;
    }
    if (value.kind == VALUE_TILE && value.type.rank > 0)
        return add_elements(low, span, access, at, n, &value);
    return is_inside(low, span, &value, extent, text) &&
           eval_element(low, span, access, at, n, &value);
}

/* ---- padding of what is stored ---- */

/* A tile along an axis; `gone`: a later reduction goes along that one, TIR_MAX_RANK: none does. */
typedef struct Along {
    const TirVal *value;
    uint32_t axis, gone;
} Along;

/* A search for padding of a tile that comes from other ranges than the one that it is stored at. */
typedef struct PadSearch {
    Arena *arena;
    const TirVal *start, *half; /* of that range, in elements and in bytes */
    VEC(Along) seen;
} PadSearch;

static bool
is_same_in(const TirVal *x, const TirVal *y, uint32_t *steps)
{
    const TirOp *a = x->def, *b = y->def;

    if (x == y)
        return true;
    bool same = a != NULL && b != NULL && a->op == b->op && a->integer == b->integer &&
                a->n_args == b->n_args && (tir_op_info(a->op)->flags & TF_PURE) != 0 &&
                (*steps)++ < MOST_STEPS;
    for (uint32_t k = 0; same && k < a->n_args; k++)
        same = is_same_in(a->args[k], b->args[k], steps);
    return same;
}

/* Whether two scalars are computed alike. */
static bool
is_same(const TirVal *x, const TirVal *y)
{
    uint32_t steps = 0;

    return is_same_in(x, y, &steps);
}

static bool pads_elsewhere(PadSearch *s, Along at);

/* Whether all of a range lies in the tensor, as far as that is known when compiled. */
static bool
is_all_inside(const TirOp *load, const TirDims *d)
{
    const TirOp *start = d->at->def;
    int32_t extent = load->tensor->dim[d->dim].constant;

    return start != NULL && start->op == TIR_CONST && start->integer >= 0 &&
           start->integer + load->index[d->dim].length <= extent;
}

/* Whether a limit counts from another start than that of the range that is stored at. */
static bool
counts_elsewhere(const PadSearch *s, const TirVal *count)
{
    const TirOp *op = count->def;

    return op != NULL && op->op == TIR_SUB && !is_same(op->args[1], s->start);
}

/* The same, of what a load has along `axis`. */
static bool
load_pads_elsewhere(PadSearch *s, const TirOp *load, uint32_t axis)
{
    bool limited = false;

    for (uint32_t k = 0; k < load->n_limits; k++)
        limited |= load->limits[k].axis == axis;
    for (TirDims d = tir_dims(load); tir_dims_next(&d);) {
        bool among = d.places && axis >= d.axis && axis < d.axis + d.at->type.rank;
        if (among && pads_elsewhere(s, (Along){d.at, axis - d.axis, TIR_MAX_RANK}))
            return true;
        if (d.strided && d.axis == axis && d.limit != NULL && counts_elsewhere(s, d.limit))
            return true;
        bool packed = load->tensor->packed != load->tensor->dtype &&
                      d.dim + 1 == load->tensor->rank;
        const TirIndex *index = &load->index[d.dim];
        bool pairs = packed && index->rows == 2 * index->length;
        if (!d.range || d.axis != axis || (!limited && (index->open || is_all_inside(load, &d))))
            continue;
        if ((index->rows > 0 && !pairs) || !is_same(d.at, packed ? s->half : s->start))
            return true;
    }
    return false;
}

/* What the blocks of a loop or a branch give for value `index` of their results or parameters. */
static bool
yields_pad_elsewhere(PadSearch *s, const TirOp *op, uint32_t index, Along at)
{
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        const TirBlock *block = op->blocks[k];
        const TirOp *last = block->ops.n > 0 ? block->ops.at[block->ops.n - 1] : NULL;
        if (last != NULL && last->op == TIR_YIELD && index < last->n_args &&
            pads_elsewhere(s, (Along){last->args[index], at.axis, at.gone}))
            return true;
    }
    return op->op == TIR_FOR && pads_elsewhere(s, (Along){op->args[index + 2], at.axis, at.gone});
}

static bool
operand_pads_elsewhere(PadSearch *s, const TirOp *op, uint32_t k, Along at)
{
    Along of = {op->args[k], tir_axis_of_operand(op, k, at.axis), at.gone};

    if (tir_axis_use(op) == AXIS_REDUCES)
        of.gone = op->axis;
    else if (at.gone < TIR_MAX_RANK)
        of.gone = tir_axis_of_operand(op, k, at.gone);
    return of.axis < of.value->type.rank && pads_elsewhere(s, of);
}

static bool
pads_elsewhere(PadSearch *s, Along at)
{
    const TirVal *value = at.value;
    const TirOp *op = value->def;

    for (uint32_t k = 0; k < s->seen.n; k++)
        if (s->seen.at[k].value == value && s->seen.at[k].axis == at.axis &&
            s->seen.at[k].gone == at.gone)
            return false;
    vec_push(s->arena, &s->seen, at);
    if (op == NULL) /* carried by a loop */
        return value->index > 0 && value->block->owner != NULL &&
               yields_pad_elsewhere(s, value->block->owner, value->index - 1, at);
    if (op->n_blocks > 0)
        return yields_pad_elsewhere(s, op, value->index, at);
    if (op->op == TIR_LOAD)
        return load_pads_elsewhere(s, op, at.axis);
    if (op->op == TIR_IOTA) {
        const TirOp *start = op->args[0]->def, *bound = op->args[1]->def;
        bool known = bound != NULL && bound->op == TIR_CONST;
        bool none = known && (bound->integer == INT32_MAX ||
                              (start != NULL && start->op == TIR_CONST && start->integer >= 0 &&
                               start->integer + value->type.dim[0] <= bound->integer));
        return !none && !is_same(op->args[0], s->start);
    }
    /* padding of a folded axis goes with either of its dimensions */
    if (op->op == TIR_FOLD && at.axis != at.gone && at.axis - op->axis < 2 && at.gone - op->axis < 2)
        return false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (operand_pads_elsewhere(s, op, k, at))
            return true;
    }
    return false;
}

/* ---- codes ---- */

/* What is known of each element along the packed dimension, in the shape of a whole tile. */
static TirVal *
along_row(Lower *low, const Access *access, TirVal *row, const TirType *shape)
{
    if (row->type.rank == 1) {
        for (uint32_t k = 0; k < access->packed_axis; k++)
            row = tir_expand(&low->b, row, 0);
        for (uint32_t k = access->packed_axis + 1; k < shape->rank; k++)
            row = tir_expand(&low->b, row, k);
    }
    TirType type = *shape;
    type.dtype = row->type.dtype;
    return tir_broadcast_to(&low->b, row, &type);
}

/* The bit in its byte at which each element begins. */
static TirVal *
bit_of(Lower *low, const Access *access, bool pairs)
{
    TirBuilder *b = &low->b;
    TirVal *place = access->elements;

    if (pairs) { /* from an even place on */
        place = tir_iota(b, tir_const_int(b, 0), tir_const_int(b, INT32_MAX), place->type.dim[0]);
        note_pad(low, place, 0, 0);
    }
    TirVal *odd = tir_binary(b, TIR_AND, place, tir_splat_const(b, place->type, 1));
    return tir_binary(b, TIR_MUL, odd, tir_splat_const(b, place->type, CODE_BITS));
}

/* Codes, 0 behind the end of a row that ends within a byte. */
static TirVal *
cut_off(Lower *low, const Access *access, TirVal *codes)
{
    TirBuilder *b = &low->b;
    TirVal *place = access->elements;

    if (access->cut || has_even_extent(low, access->packed))
        return codes;
    TirVal *end = index_operand(low, b->span, &access->packed->extent);
    TirVal *inside = tir_binary(b, TIR_LT, place, tir_broadcast_to(b, end, &place->type));
    return tir_select(b, along_row(low, access, inside, &codes->type), codes,
                      tir_splat_const(b, codes->type, 0));
}

static Value
packed_value(TirVal *codes, DType dtype)
{
    Value value = value_tile(codes, NULL);

    value.kind = VALUE_PACKED;
    value.type.dtype = dtype;
    return value;
}

Value
transpose_packed(Lower *low, const Value *x)
{
    Value value = packed_value(tir_transpose(&low->b, x->tir), x->type.dtype);

    value.pairs = x->pairs;
    value.turned = !x->turned;
    return value;
}

/* Whether elements behind the end of a row are no part of the bytes of a load, or zeros. */
static bool
has_whole_bytes(Lower *low, const Access *access, const TirOp *load)
{
    bool ends = access->pairs && (access->cut || (load->n_limits == 0 &&
                                                  access->range[load->tensor->rank - 1]->exact));

    return ends && load->n_limits <= 1 && load->tensor->mode == TENSOR_IN &&
           load->results[0]->type.rank == 2 && has_even_extent(low, access->packed);
}

TirVal *
packed_bytes(Lower *low, const Value *x, uint32_t axis)
{
    const TirOp *load = x->pairs;
    TirIndex index[TENSOR_MAX_RANK];

    if (load == NULL || axis != !x->turned)
        return NULL;
    memcpy(index, load->index, sizeof index);
    TirIndex *last = &index[load->tensor->rank - 1];
    *last = tir_range(last->length);
    last->within = load->index[load->tensor->rank - 1].within;
    TirVal *bytes = tir_load(&low->b, load->tensor, index, load->args);
    return x->turned ? tir_transpose(&low->b, bytes) : bytes;
}

Value
unpack_load(Lower *low, const Access *access, TirVal *bytes)
{
    TirBuilder *b = &low->b;
    TirVal *wide = tir_cast(b, bytes, DT_I32);
    TirVal *bit = along_row(low, access, bit_of(low, access, access->pairs), &wide->type);
    TirVal *last = tir_splat_const(b, wide->type, LAST_CODE);
    TirVal *codes = tir_binary(b, TIR_AND, tir_binary(b, TIR_SHR, wide, bit), last);

    Value value = packed_value(cut_off(low, access, codes), access->packed->tensor->packed);
    value.pairs = has_whole_bytes(low, access, bytes->def) ? bytes->def : NULL;
    return value;
}

/* The codes of what is stored, in the shape of the access; NULL after an error. */
static TirVal *
codes_for(Lower *low, Span span, const Access *access, const Value *value)
{
    DType type = access->packed->tensor->packed;
    Value codes = *value, fits;
    TirType shape = access->type;

    if (is_constant(value)) {
        low->host_only = true;
        bool good = adapt_constant(low, span, value, tir_scalar(type), &fits);
        low->host_only = false;
        if (!good)
            return NULL;
        codes = cast_packed(low, span, value, type);
    }
    if (codes.kind == VALUE_ERROR)
        return NULL;
    if (codes.kind == VALUE_PACKED && codes.type.dtype == type &&
        broadcast_shape(codes.type, access->type, &shape) && tir_same_shape(shape, access->type)) {
        shape.dtype = DT_I32;
        return tir_broadcast_to(&low->b, codes.tir, &shape);
    }
    shape = codes.kind == VALUE_TILE || codes.kind == VALUE_PACKED ? codes.type : (TirType){0};
    fail(low, span, "E-TYPE: the store to '%s' takes %s, not %s%s", access->packed->tensor->name,
         type_text(low, access->type),
         value->kind == VALUE_PACKED ? type_text(low, value->type) : value_text(low, value),
         tir_same_shape(shape, access->type)
             ? arena_printf(low->arena, ": cast it with `as %s`", dtype_name(type))
             : "");
    return NULL;
}

TirVal *
pack_store(Lower *low, Span span, const Access *access, const Value *value)
{
    TirVal *codes = codes_for(low, span, access, value);
    uint32_t axis = access->packed_axis;
    TirBuilder *b = &low->b;

    if (codes == NULL)
        return NULL;
    TirVal *start = access->elements->def->args[0];
    PadSearch search = {.arena = low->arena, .start = start, .half = half_of(low, start)};
    if (pads_elsewhere(&search, (Along){codes, axis, TIR_MAX_RANK})) {
        fail(
            low, span,
            "E-PACKED: elements of this tile along a row may be padding of other ranges than the one "
            "that it is stored at, which %s of two elements a byte has no code for: store it at the "
            "range that it was loaded by",
            dtype_name(access->packed->tensor->packed));
        return NULL;
    }
    if (codes->type.rank == TIR_MAX_RANK) {
        fail(low, span, "E-LARGE: a tile of %s that is stored has at most %d dimensions",
             dtype_name(access->packed->tensor->packed), TIR_MAX_RANK - 1);
        return NULL;
    }
    b->span = span;
    codes = cut_off(low, access, codes);
    TirVal *bit = along_row(low, access, bit_of(low, access, true), &codes->type);
    TirVal *pairs = tir_fold(b, TIR_FOLD, tir_binary(b, TIR_SHL, codes, bit), axis, 2);
    return tir_cast(b, tir_reduce(b, REDUCE_SUM, pairs, axis + 1), DT_U8);
}

/* ---- casts ---- */

static TirVal *
splat(Lower *low, const TirVal *like, double number)
{
    return tir_splat_const(&low->b, like->type, number);
}

/* The number of each code: of the integers as i32, of e2m1 as f32. */
static TirVal *
decode(Lower *low, DType type, TirVal *codes)
{
    TirBuilder *b = &low->b;

    if (type == DT_U4)
        return codes;
    if (type == DT_I4) /* bit 3 counts for -8 */
        return tir_binary(b, TIR_SUB, tir_binary(b, TIR_XOR, codes, splat(low, codes, 8)),
                          splat(low, codes, 8));
    TirVal *size = tir_binary(b, TIR_AND, codes, splat(low, codes, 7));
    TirVal *at = tir_binary(b, TIR_MUL, size, splat(low, codes, CODE_BITS));
    TirVal *table = splat(low, codes, E2M1_SIZES | E2M1_LARGER);
    TirVal *twice = tir_binary(b, TIR_AND, tir_binary(b, TIR_SHR, table, at),
                               splat(low, codes, LAST_CODE));
    TirVal *number = tir_cast(b, twice, DT_F32);
    number = tir_binary(b, TIR_MUL, number, splat(low, number, 0.5));
    return tir_select(b, tir_binary(b, TIR_GT, codes, splat(low, codes, 7)),
                      tir_unary(b, TIR_NEG, number), number);
}

static TirVal *
rounded(Lower *low, TirVal *x, double factor, double more)
{
    TirBuilder *b = &low->b;
    TirVal *scaled = tir_binary(b, TIR_MUL, x, splat(low, x, factor));

    return tir_binary(b, TIR_ADD, tir_unary(b, TIR_ROUND, scaled), splat(low, x, more));
}

/* The code of the e2m1 that is nearest to each f32: in each binade codes are the multiples of a
 * step. */
static TirVal *
encode_e2m1(Lower *low, TirVal *x)
{
    TirBuilder *b = &low->b;
    TirVal *size = tir_binary(b, TIR_MIN, tir_unary(b, TIR_ABS, x), splat(low, x, 6));
    TirVal *upper = tir_select(b, tir_binary(b, TIR_LT, size, splat(low, x, 4)),
                               rounded(low, size, 1, 2), rounded(low, size, 0.5, 4));
    TirVal *code = tir_select(b, tir_binary(b, TIR_LT, size, splat(low, x, 2)),
                              rounded(low, size, 2, 0), upper);
    /* 1 / x has the sign of a zero, x that of what is large */
    TirVal *signs = tir_binary(b, TIR_MIN, x, tir_unary(b, TIR_RCP, x));
    TirVal *negative = tir_binary(b, TIR_LT, signs, splat(low, x, 0));
    TirVal *codes = tir_cast(b, code, DT_I32);
    return tir_select(b, negative, tir_binary(b, TIR_ADD, codes, splat(low, codes, 8)), codes);
}

static TirVal *
encode(Lower *low, Span span, DType type, const Value *x)
{
    TirBuilder *b = &low->b;
    DType near = type == DT_E2M1 ? DT_F32 : type == DT_I4 ? DT_I8 : DT_U8; /* saturates, too */
    Value value = value_cast(low, span, x, near);

    if (value.kind == VALUE_ERROR || low->host_only)
        return NULL;
    if (type == DT_E2M1)
        return encode_e2m1(low, value.tir);
    TirVal *wide = tir_cast(b, value.tir, DT_I32);
    wide = tir_binary(b, TIR_MIN, wide, splat(low, wide, dtype_highest(type)));
    if (type == DT_I4)
        wide = tir_binary(b, TIR_MAX, wide, splat(low, wide, dtype_lowest(type)));
    return tir_binary(b, TIR_AND, wide, splat(low, wide, LAST_CODE));
}

Value
cast_packed(Lower *low, Span span, const Value *x, DType to)
{
    Value wide = *x;

    low->b.span = span;
    if (x->kind == VALUE_PACKED && x->type.dtype == to)
        return *x;
    if (x->kind == VALUE_PACKED)
        wide = value_tile(decode(low, x->type.dtype, x->tir), NULL);
    if (!dtype_has(to, USE_PACKED))
        return value_cast(low, span, &wide, to);
    if (low->host_only)
        return fail(low, span, "E-LAUNCHER: a cast cannot be computed by the launcher");
    TirVal *codes = encode(low, span, to, &wide);
    return codes == NULL ? error_value : packed_value(codes, to);
}
