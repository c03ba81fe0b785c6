/* ast_to_tir_expr.c - expressions: names, fields, subscripts, loads, tiles of one value. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front/ast_to_tir_internal.h"
#include "dsl/builtins.h"
#include "dsl/hints.h"

static const Value error_value = {.kind = VALUE_ERROR};

static Value
too_large(Lower *low, Span span, TirType type)
{
    return fail(low, span, "E-LARGE: %s is too large for a tile: at most %d elements",
                type_text(low, type), TILE_MAX_ELEMENTS);
}

/* ---- names, fields, places ---- */

/* Whether it has been said of a name in this kernel that nothing is called so, or that its value is
 * wrong; else it will have been. */
static bool
was_told(Lower *low, const char *name)
{
    for (uint32_t i = 0; i < low->told.n; i++)
        if (strcmp(low->told.at[i], name) == 0)
            return true;
    vec_push(low->arena, &low->told, name);
    return false;
}

static Value
eval_name(Lower *low, const Expr *expr)
{
    DType dtype;
    Binding *binding = find_binding(low, expr->text);

    if (binding != NULL)
        return read_binding(low, binding);
    if (dtype_parse(expr->text, &dtype))
        return value_type(dtype);
    if (strcmp(expr->text, "inf") == 0)
        return value_float(INFINITY);
    if (strcmp(expr->text, "pi") == 0)
        return value_float(3.14159265358979323846);
    for (uint32_t i = 0; i < low->ast->functions.n; i++)
        if (strcmp(low->ast->functions.at[i]->name.text, expr->text) == 0)
            return fail(low, expr->span, "E-FUNCTION: '%s' is a function: call it", expr->text);
    if (builtin_find(expr->text) != BUILTIN_COUNT)
        return fail(low, expr->span, "E-FUNCTION: '%s' is a function: call it", expr->text);
    if (was_told(low, expr->text))
        return (Value){.kind = VALUE_ERROR};
    const char *hint = conversion_hint(low->arena, expr->text);
    return fail(low, expr->span, "E-NAME: unknown name '%s'%s%s", expr->text,
                hint != NULL ? ": " : "",
                hint != NULL ? hint : suggest_name(low, expr->text, false));
}

Value
tuple_field(Lower *low, const Expr *expr, const Value *tuple, uint32_t *index)
{
    const char *name = expr->text;
    Buf have;

    if (name[0] >= '0' && name[0] <= '9') {
        unsigned long at = strtoul(name, NULL, 10);
        if (at < tuple->n_fields) {
            *index = (uint32_t)at;
            return tuple->fields[at];
        }
        return fail(low, expr->text_span, "E-TUPLE: the tuple has %u fields, the last one is .%u",
                    tuple->n_fields, tuple->n_fields - 1);
    }
    buf_init(&have, low->arena);
    for (uint32_t i = 0; i < tuple->n_fields; i++) {
        const char *field = tuple->names != NULL ? tuple->names[i] : NULL;
        if (field != NULL && same_text(field, name)) {
            *index = i;
            return tuple->fields[i];
        }
        if (have.n > 0 && field != NULL)
            buf_add(&have, ", ");
        if (field != NULL)
            buf_add(&have, field);
    }
    if (have.n == 0)
        return fail(low, expr->text_span,
                    "E-FIELD: the fields of this tuple have no names: take them apart with "
                    "`let (a, b) = ..`, or with .0, .1");
    return fail(low, expr->text_span, "E-FIELD: there is no field '%s' here: the fields are %s",
                name, have.at);
}

/* n.first, n.number: scalars, where a tile of the indices would have to be reduced. */
static Value
range_field(Lower *low, const Expr *expr, const Value *base)
{
    bool first = strcmp(expr->text, "first") == 0;

    if (!first && strcmp(expr->text, "number") != 0)
        return fail(low, expr->text_span, "E-FIELD: %s has .first and .number, no .%s",
                    value_text(low, base), expr->text);
    if (base->range->pack != NULL)
        return fail(low, expr->span,
                    "E-FIELD: %s has no .%s: take that of the range before it is packed",
                    value_text(low, base), expr->text);
    return first ? base->range->start : base->range->number;
}

static Value
eval_field(Lower *low, const Expr *expr)
{
    Value base = eval(low, expr->a);
    uint32_t index;

    if (base.kind == VALUE_ERROR)
        return base;
    if (base.kind == VALUE_TUPLE)
        return tuple_field(low, expr, &base, &index);
    if (base.kind == VALUE_RANGE && strcmp(expr->text, "T") != 0)
        return range_field(low, expr, &base);
    if (strcmp(expr->text, "T") != 0)
        return fail(low, expr->text_span, "E-TRANSPOSE: %s has no fields%s%s",
                    value_text(low, &base),
                    base.kind == VALUE_TILE ? "; .T is its transpose"
                    : word_hint(expr->text) ? "; "
                                            : "",
                    base.kind != VALUE_TILE && word_hint(expr->text) ? word_hint(expr->text) : "");
    if (base.kind == VALUE_TENSOR)
        return fail(low, expr->span,
                    "E-TRANSPOSE: '%s' is a tensor: transpose what is loaded from it, as in "
                    "`(load %s[..]).T`",
                    base.tensor->name, base.tensor->name);
    if ((base.kind != VALUE_TILE && base.kind != VALUE_PACKED) || base.type.rank != 2)
        return fail(low, expr->span, "E-TRANSPOSE: .T transposes a tile of two dimensions, not %s",
                    value_text(low, &base));
    low->b.span = expr->span;
    return base.kind == VALUE_PACKED ? transpose_packed(low, &base)
                                     : value_tile(tir_transpose(&low->b, base.tir), NULL);
}

Place
eval_place(Lower *low, const Expr *expr)
{
    Place none = {0}, place = {0};
    uint32_t index = 0;

    if (expr->kind == EXPR_FIELD) {
        place = eval_place(low, expr->a);
        if (place.root == NULL)
            return none;
        Value base = read_place(low, &place);
        if (base.kind != VALUE_TUPLE) {
            if (base.kind != VALUE_ERROR)
                fail(low, expr->span, "E-FIELD: %s has no fields to assign to",
                     value_text(low, &base));
            return none;
        }
        if (tuple_field(low, expr, &base, &index).kind == VALUE_ERROR)
            return none;
        if (place.n == sizeof place.path / sizeof place.path[0]) {
            fail(low, expr->span, "E-NESTING: tuples are nested too deeply here");
            return none;
        }
        place.path[place.n++] = index;
        return place;
    }
    if (expr->kind != EXPR_NAME) {
        fail(low, expr->span, "E-ASSIGN: only a variable, or a field of one, can be assigned to%s",
             expr->kind == EXPR_SUBSCRIPT || expr->kind == EXPR_LOAD
                 ? "; `store X[i] = ..` writes a tensor"
                 : "");
        return none;
    }
    Binding *binding = find_binding(low, expr->text);
    if (binding == NULL && was_told(low, expr->text))
        return none;
    if (binding == NULL) {
        fail(low, expr->span, "E-NAME: unknown name '%s'%s; a new variable begins with `var`",
             expr->text, suggest_name(low, expr->text, false));
        return none;
    }
    if (binding->is_alias)
        return binding->place;
    if (!binding->is_var) {
        if (binding->value.kind == VALUE_ERROR)
            return none;
        if (binding->what != NULL)
            fail(low, expr->span, "E-ASSIGN: '%s' is a %s and cannot be assigned to", expr->text,
                 binding->what);
        else
            fail(low, expr->span,
                 "E-ASSIGN: '%s' cannot be assigned to: declare it with `var` instead of "
                 "`let`",
                 expr->text);
        diag_note(low->diag, binding->span, "'%s' is declared here", expr->text);
        return none;
    }
    place.root = binding;
    return place;
}

Value
read_place(Lower *low, const Place *place)
{
    Value value = read_binding(low, place->root);

    for (uint32_t i = 0; i < place->n && value.kind == VALUE_TUPLE; i++)
        value = value.fields[place->path[i]];
    return value;
}

static Value
with_field(Lower *low, const Value *tuple, const uint32_t *path, uint32_t n, Value value)
{
    if (n == 0 || tuple->kind != VALUE_TUPLE)
        return value;
    Value *fields = arena_copy(low->arena, tuple->fields, tuple->n_fields * sizeof *fields);
    Value out = *tuple;
    fields[path[0]] = with_field(low, &fields[path[0]], path + 1, n - 1, value);
    out.fields = fields;
    return out;
}

void
write_place(Lower *low, const Place *place, Value value)
{
    place->root->value = with_field(low, &place->root->value, place->path, place->n, value);
}

/* ---- subscripts: tiles(lo..hi, N)[i], and of tiles: x[:, None] ---- */

/* Range number i of those that cover lo..hi.  Behind the last one, all of a range is padding. */
static Value
eval_range_number(Lower *low, const Expr *expr, const Steps *steps)
{
    const Subscript *subscript = &expr->index.at[0];

    if (steps->tile == 0 || expr->index.n != 1 || subscript->kind != SUBSCRIPT_EXPR ||
        subscript->value->kind == EXPR_SPAN)
        return fail(
            low, expr->span,
            "E-RANGE: one of a sequence of ranges is taken with its number, as in tiles(lo..hi, N)[i]");
    Value at = eval(low, subscript->value);
    if (at.kind == VALUE_ERROR)
        return at;
    if (at.kind == VALUE_INT ? at.integer < 0 : !is_scalar_of(&at, DT_I32))
        return fail(low, subscript->span,
                    "E-TYPE: the number of a range is an i32 from 0 on, not %s",
                    value_text(low, &at));
    return step_value(low, expr->span, steps, at, false);
}

static Value
eval_subscript(Lower *low, const Expr *expr)
{
    Value base = eval(low, expr->a);
    uint32_t kept = 0;

    if (base.kind == VALUE_ERROR)
        return base;
    if (base.kind == VALUE_TENSOR)
        return fail(low, expr->span,
                    "E-TENSOR: '%s' is a tensor: read a tile of it with `load %s[..]`",
                    base.tensor->name, base.tensor->name);
    low->b.span = expr->span;
    if (base.kind == VALUE_STEPS)
        return eval_range_number(low, expr, base.steps);
    base = range_to_tile(low, &base);
    if (base.kind != VALUE_TILE)
        return fail(low, expr->span, "E-SUBSCRIPT: %s cannot be subscripted",
                    value_text(low, &base));
    for (uint32_t i = 0; i < expr->index.n; i++) {
        const Subscript *subscript = &expr->index.at[i];
        if (subscript->kind == SUBSCRIPT_EXPR)
            return fail(low, subscript->span,
                        "E-SUBSCRIPT: a tile is subscripted with `:` (keep a dimension) "
                        "and `None` (add one) only; parts of a tensor are chosen by `load`");
        kept += subscript->kind == SUBSCRIPT_ALL;
    }
    if (kept != base.type.rank)
        return fail(low, expr->span,
                    "E-SUBSCRIPT: %s has %u dimensions, but the subscript keeps %u: one `:` "
                    "for each is needed",
                    value_text(low, &base), base.type.rank, kept);
    if (low->host_only)
        return fail(low, expr->span, "E-LAUNCHER: the launcher computes this: no tiles can be used");
    if (expr->index.n > TIR_MAX_RANK)
        return fail(low, expr->span, "E-LARGE: a tile has at most %d dimensions", TIR_MAX_RANK);
    TirVal *tile = base.tir;
    for (uint32_t i = 0; i < expr->index.n; i++)
        if (expr->index.at[i].kind == SUBSCRIPT_NONE)
            tile = tir_expand(&low->b, tile, i);
    return value_tile(tile, NULL);
}

/* ---- loads and stores ---- */

static TirTensor *
find_tensor(Lower *low, const char *name, Span span)
{
    Binding *binding = find_binding(low, name);

    if (binding == NULL) {
        fail(low, span, "E-TENSOR: unknown tensor '%s'%s", name, suggest_name(low, name, true));
        return NULL;
    }
    Value value = read_binding(low, binding);
    if (value.kind != VALUE_TENSOR) {
        if (value.kind != VALUE_ERROR)
            fail(low, span, "E-TENSOR: '%s' is not a tensor but %s", name, value_text(low, &value));
        return NULL;
    }
    return value.tensor;
}

static const char *
dim_text(Lower *low, const TirTensor *tensor, uint32_t at)
{
    const TensorDim *dim = &tensor->dim[at];

    if (dim->constant > 0)
        return arena_printf(low->arena, "%d", dim->constant);
    return tir_size_text(low->fn, dim->size);
}

/* Whether what is padding of a range is what lies past the end of a dimension. */
static bool
ends_with(const Range *range, const TensorDim *dim)
{
    const Value *bound = &range->bound;

    if (range->from != NULL)
        return false;
    if (dim->constant > 0)
        return bound->kind == VALUE_INT && bound->integer == dim->constant;
    return bound->kind == VALUE_TILE && bound->host != NULL && bound->host->kind == HOST_SIZE &&
           bound->host->index == dim->size;
}

/* Whether a range without padding is known to lie in a dimension. */
static bool
lies_within(const Range *range, const TensorDim *dim)
{
    const Value *start = &range->start;

    if (dim->constant == 0)
        return false;
    if (start->kind == VALUE_INT)
        return start->integer >= 0 &&
               start->integer + (int64_t)(range->length - 1) * (range->step > 0 ? range->step : 1) <
                   dim->constant;
    return ends_with(range, dim);
}

bool
add_part(Lower *low, Span span, Access *access, const Range *range)
{
    if (access->pack == range->pack && (access->parts >> range->part & 1) != 0) {
        fail(low, span, "E-PACK: this part of a pack stands in two subscripts of one access");
        return false;
    }
    if (access->pack != NULL && access->pack != range->pack) {
        fail(low, span,
             "E-PACK: parts of two packs cannot stand in one access: pack all of the ranges "
             "together");
        diag_note(low->diag, access->pack->span, "the other pack is made here");
        return false;
    }
    access->n_parts++;
    access->parts |= 1u << range->part;
    if (access->pack != NULL)
        return true;
    access->pack = range->pack;
    access->pack_axis = access->type.rank;
    access->type.dim[access->type.rank++] = range->pack->rows;
    return true;
}

TirVal *
count_range(Lower *low, const Range *range)
{
    const Range *from = range->from != NULL ? range->from : range; /* the same, but simpler */
    Value count = value_binary(low, low->b.span, OP_SUB, &from->bound, &from->start);

    return index_operand(low, low->b.span, &count);
}

/* A tile of places: a list makes a dimension of its own, a tile of two dimensions is the only one
 * that does. */
bool
add_places(Lower *low, Span span, Access *access, uint32_t at, const Value *places)
{
    TirType type = places->type;

    if (type.dtype != DT_I32 || type.rank > 2) {
        fail(low, span, "E-ACCESS: places in a tensor are i32[N] or i32[M, N], not %s%s",
             value_text(low, places), integer_hint(low, places, DT_I32));
        return false;
    }
    if (access->type.rank + type.rank > TIR_MAX_RANK) {
        fail(low, span, "E-LARGE: a tile has at most %d dimensions", TIR_MAX_RANK);
        return false;
    }
    access->index[at] = tir_places(type);
    access->alone = access->alone || type.rank == 2;
    for (uint32_t k = 0; k < type.rank; k++)
        access->type.dim[access->type.rank++] = type.dim[k];
    return true;
}

bool
is_whole(Lower *low, Span span, int64_t extent, const char *text)
{
    if (extent == 0)
        fail(low, span,
             "E-CONSTANT: `:` takes a whole dimension, which must be known at compile time; '%s' is a "
             "run-time size: go over tiles(%s, ..)",
             text, text);
    else if (extent > TILE_MAX_EXTENT)
        fail(low, span,
             "E-LARGE: a tile has at most %d elements in a dimension, `:` means %s here: go over "
             "tiles(%s, ..)",
             TILE_MAX_EXTENT, text, text);
    return extent > 0 && extent <= TILE_MAX_EXTENT;
}

bool
is_inside(Lower *low, Span span, const Value *value, int64_t extent, const char *text)
{
    bool inside = value->kind != VALUE_INT ||
                  (value->integer >= 0 && (extent == 0 || value->integer < extent));

    if (!inside)
        fail(low, span, "E-BOUNDS: index %lld is outside of the dimension of %s",
             (long long)value->integer, text);
    return inside;
}

bool
subscript_value(Lower *low, const Subscript *subscript, Value *value)
{
    bool none = subscript->kind == SUBSCRIPT_NONE;

    if (none || subscript->value->kind == EXPR_SPAN) {
        fail(
            low, subscript->span,
            none
                ? "E-ACCESS: `None` adds no dimension in a load or store: write it after the load, as "
                  "in `(load x[i])[:, None]`"
                : "E-ACCESS: a part of a dimension is taken with a range from tiles(lo..hi, N), or "
                  "with iota(N) + lo");
        return false;
    }
    *value = eval(low, subscript->value);
    low->b.span = subscript->span;
    return true;
}

static bool
eval_index(Lower *low, const Subscript *subscript, Access *access, uint32_t at, uint32_t *n)
{
    TirTensor *tensor = access->tensor;
    const TensorDim *dim = &tensor->dim[at];
    TirIndex *index = &access->index[at];
    Value value;

    if (subscript->kind == SUBSCRIPT_ALL) {
        if (!is_whole(low, subscript->span, dim->constant, dim_text(low, tensor, at)))
            return false;
        *index = (TirIndex){.kind = INDEX_FULL, .length = dim->constant};
        access->type.dim[access->type.rank++] = dim->constant;
        return true;
    }
    if (!subscript_value(low, subscript, &value))
        return false;
    if (value.kind == VALUE_RANGE) {
        const Range *range = value.range;
        *index = range_index(range);
        index->open = range->exact ? !lies_within(range, dim) : !ends_with(range, dim);
        access->range[at] = range;
        access->count[at] = range->exact || !index->open ? NULL : count_range(low, range);
        if (range->pack != NULL) {
            if (!add_part(low, subscript->span, access, range))
                return false;
        } else {
            access->type.dim[access->type.rank++] = range->length;
        }
        value = range->start;
        if (value.kind == VALUE_INT && value.integer == 0 && range->length == dim->constant &&
            range->pack == NULL && range->step == 0) {
            *index = (TirIndex){.kind = INDEX_FULL, .length = dim->constant};
            return true;
        }
    } else if (value.kind == VALUE_TILE && value.type.rank > 0) {
        access->operands[(*n)++] = value.tir;
        return add_places(low, subscript->span, access, at, &value);
    } else {
        *index = (TirIndex){.kind = INDEX_SCALAR};
        if (!is_inside(low, subscript->span, &value, dim->constant, dim_text(low, tensor, at)))
            return false;
    }
    access->operands[*n] = index_operand(low, subscript->span, &value);
    return access->operands[(*n)++] != NULL;
}

bool
eval_access(Lower *low, const char *name, Span name_span, Span span, const SubscriptList *index,
            bool writes, Access *out)
{
    uint32_t n = 0;
    bool ok = true;

    *out = (Access){.tensor = find_tensor(low, name, name_span)};
    TirTensor *tensor = out->tensor;
    if (tensor == NULL)
        return false;
    if (low->host_only) {
        fail(low, span, "E-LAUNCHER: tensors cannot be read here: the launcher computes this");
        return false;
    }
    if (!writes && tensor->mode == TENSOR_OUT) {
        fail(low, name_span,
             "E-DIRECTION: '%s' is an `out` tensor and cannot be read: declare it `inout`", name);
        diag_note(low->diag, tensor->span, "'%s' is declared here", name);
        return false;
    }
    if (writes && tensor->mode == TENSOR_IN) {
        fail(low, name_span,
             "E-DIRECTION: '%s' is an `in` tensor and cannot be written: declare it `out` or "
             "`inout`",
             name);
        diag_note(low->diag, tensor->span, "'%s' is declared here", name);
        return false;
    }
    if (index->n != tensor->rank) {
        fail(low, span, "E-ACCESS: '%s' has %u dimensions, this subscript has %u", name,
             tensor->rank, index->n);
        diag_note(low->diag, tensor->span, "'%s' is declared here", name);
        return false;
    }
    out->type.dtype = tensor->packed;
    out->packed = find_packed(low, tensor);
    for (uint32_t i = 0; i < index->n; i++) {
        if (out->type.rank == TIR_MAX_RANK && index->at[i].kind != SUBSCRIPT_EXPR) {
            fail(low, span, "E-LARGE: a tile has at most %d dimensions", TIR_MAX_RANK);
            return false;
        }
        ok &= out->packed != NULL && i + 1 == index->n
                  ? eval_packed_index(low, &index->at[i], out, i, &n, writes)
                  : eval_index(low, &index->at[i], out, i, &n);
        if (out->type.rank > TIR_MAX_RANK)
            return false;
    }
    if (ok && out->alone && out->type.rank != 2) {
        fail(low, span,
             "E-ACCESS: places i32[M, N] are the only subscript of '%s' that is no scalar, here "
             "the others make a dimension, too",
             name);
        return false;
    }
    if (ok && writes && out->pack != NULL && out->n_parts < out->pack->n) {
        fail(low, span,
             "E-PACK: '%s' is written through %u of the %u ranges of a pack: elements would be "
             "written more than once",
             name, out->n_parts, out->pack->n);
        diag_note(low->diag, out->pack->span, "the pack is made here");
        return false;
    }
    if (ok && tir_type_elements(out->type) > TILE_MAX_ELEMENTS) {
        too_large(low, span, out->type);
        return false;
    }
    low->b.span = span;
    for (uint32_t k = 0; ok && !writes && out->pack != NULL && k < out->pack->n; k++) {
        const Range *part = &out->pack->parts[k];
        if (!part->exact && (out->parts >> k & 1) == 0)
            out->unused[k] = count_range(low, part);
    }
    return ok;
}

void
limit_access(Lower *low, const Access *access, TirOp *op)
{
    for (uint32_t i = 0; i < access->tensor->rank; i++) {
        TirLimit limit = {0};
        if (op->op != TIR_LOAD)
            op->index[i].open = false; /* of a store it says nothing */
        if (access->count[i] == NULL)
            continue;
        limit.axis = tir_dim(op, i).axis;
        if (access->range[i]->pack != NULL)
            limit.part = range_index(access->range[i]);
        limit.part.within = range_index(access->range[i]).within;
        limit.part.step = 0; /* positions end */
        tir_add_limit(low->fn, op, limit, access->count[i]);
    }
    for (uint32_t k = 0; access->pack != NULL && k < access->pack->n; k++) {
        TirLimit limit = {.axis = access->pack_axis, .part = range_index(&access->pack->parts[k])};
        limit.part.step = 0;
        if (access->unused[k] != NULL)
            tir_add_limit(low->fn, op, limit, access->unused[k]);
    }
}

static Value
eval_load(Lower *low, const Expr *expr)
{
    Access access;

    if (!eval_access(low, expr->text, expr->text_span, expr->span, &expr->index, false, &access))
        return error_value;
    TirVal *tile = tir_load(&low->b, access.tensor, access.index, access.operands);
    limit_access(low, &access, tile->def);
    note_places(low, tile);
    for (uint32_t i = 0; i < access.tensor->rank; i++)
        if (access.range[i] != NULL)
            note_pad(low, tile, tir_dim(tile->def, i).axis, access.range[i]->loops);
    for (uint32_t k = 0; access.pack != NULL && k < access.pack->n; k++)
        note_pad(low, tile, access.pack_axis, access.pack->parts[k].loops);
    if (access.packed != NULL)
        return unpack_load(low, &access, tile);
    return value_tile(tile, NULL);
}

/* ---- tiles of one value, tuples ---- */

static Value
eval_fill(Lower *low, const Expr *expr)
{
    Value dtype = eval(low, expr->a), zero = value_int(0), out;
    Value value = expr->kind == EXPR_FULL ? eval(low, expr->b) : zero;
    TirType type = {0};
    int64_t extent;

    if (dtype.kind != VALUE_TYPE)
        return dtype.kind == VALUE_ERROR
                   ? dtype
                   : fail(low, expr->a->span, "E-TYPE-NAME: a type is needed here, not %s",
                          value_text(low, &dtype));
    if (value.kind == VALUE_ERROR)
        return error_value;
    if (dtype_has(dtype.dtype, USE_PACKED))
        return fail(
            low, expr->a->span,
            "E-PACKED: tiles of %s come from loads and casts: make this one of another type, "
            "and cast it with `as %s`",
            dtype_name(dtype.dtype), dtype_name(dtype.dtype));
    if (expr->index.n > TIR_MAX_RANK)
        return fail(low, expr->span, "E-LARGE: a tile has at most %d dimensions", TIR_MAX_RANK);
    type.dtype = dtype.dtype;
    for (uint32_t i = 0; i < expr->index.n; i++) {
        if (!eval_int(low, expr->index.at[i].value, "the extent of a tile", 1, TILE_MAX_EXTENT,
                      &extent))
            return error_value;
        type.dim[type.rank++] = (int32_t)extent;
    }
    if (tir_type_elements(type) > TILE_MAX_ELEMENTS)
        return too_large(low, expr->span, type);
    if (low->host_only)
        return fail(low, expr->span, "E-LAUNCHER: the launcher computes this: no tiles can be used");
    low->b.span = expr->span;
    if (expr->kind == EXPR_ZEROS && dtype.dtype == DT_BOOL)
        value = value_bool(false);
    if (value.kind == VALUE_TILE && value.type.rank > 0)
        return fail(low, expr->b->span, "E-TYPE: full<..>[..](v) takes a scalar, not %s",
                    value_text(low, &value));
    return fit_to(low, expr->span, "full", &value, type, &out) ? out : error_value;
}

static Value
eval_tuple(Lower *low, const Expr *expr)
{
    uint32_t n = expr->args.n;
    Value *fields = arena_array(low->arena, Value, n);
    const char **names = arena_array(low->arena, const char *, n);

    for (uint32_t i = 0; i < n; i++) {
        const Arg *arg = &expr->args.at[i];
        fields[i] = eval(low, arg->value);
        names[i] = arg->name;
        if (fields[i].kind == VALUE_ERROR)
            return error_value;
        if (fields[i].kind == VALUE_STEPS || fields[i].kind == VALUE_TENSOR ||
            fields[i].kind == VALUE_NOTHING)
            return fail(low, arg->value->span, "E-TUPLE: %s cannot be in a tuple",
                        value_text(low, &fields[i]));
        for (uint32_t k = 0; k < i && arg->name != NULL; k++)
            if (names[k] != NULL && strcmp(names[k], arg->name) == 0)
                return fail(low, arg->name_span, "E-TWICE: there are two fields '%s'", arg->name);
    }
    return (Value){.kind = VALUE_TUPLE, .n_fields = n, .fields = fields, .names = names};
}

/* ---- operators ---- */

static Value
eval_binary(Lower *low, const Expr *expr)
{
    Value x = eval(low, expr->a);

    /* a constant on the left decides, and the right is not looked at */
    if (x.kind == VALUE_BOOL && expr->op == OP_AND && !x.integer)
        return x;
    if (x.kind == VALUE_BOOL && expr->op == OP_OR && x.integer)
        return x;
    Value y = eval(low, expr->b);
    return value_binary(low, expr->span, expr->op, &x, &y);
}

static Value
eval_cast(Lower *low, const Expr *expr)
{
    Value x = eval(low, expr->a), to = eval(low, expr->b);

    if (x.kind == VALUE_ERROR || to.kind == VALUE_ERROR)
        return error_value;
    if (to.kind != VALUE_TYPE)
        return fail(low, expr->b->span, "E-TYPE-NAME: `as` needs a type, '%s' is %s", expr->b->text,
                    value_text(low, &to));
    if (x.kind == VALUE_PACKED || dtype_has(to.dtype, USE_PACKED))
        return cast_packed(low, expr->span, &x, to.dtype);
    return value_cast(low, expr->span, &x, to.dtype);
}

static Value
eval_kind(Lower *low, const Expr *expr)
{
    Value x;

    switch (expr->kind) {
    case EXPR_INT:
        if (expr->integer > INT32_MAX && !expr->hexadecimal)
            return fail(low, expr->span, "E-ARITHMETIC: %lld is beyond the largest i32, %ld",
                        (long long)expr->integer, (long)INT32_MAX);
        return value_int(expr->integer);
    case EXPR_FLOAT: return value_float(expr->number);
    case EXPR_BOOL: return value_bool(expr->integer != 0);
    case EXPR_NAME: return eval_name(low, expr);
    case EXPR_TUPLE: return eval_tuple(low, expr);
    case EXPR_UNARY: x = eval(low, expr->a); return value_unary(low, expr->span, expr->op, &x);
    case EXPR_BINARY: return eval_binary(low, expr);
    case EXPR_CAST: return eval_cast(low, expr);
    case EXPR_CALL: return eval_call(low, expr);
    case EXPR_FIELD: return eval_field(low, expr);
    case EXPR_SUBSCRIPT: return eval_subscript(low, expr);
    case EXPR_LOAD: return eval_load(low, expr);
    case EXPR_ZEROS:
    case EXPR_FULL: return eval_fill(low, expr);
    case EXPR_SPAN:
        return fail(low, expr->span,
                    "E-RANGE: `lo..hi` can stand after `in`, and in tiles(lo..hi, N)");
    }
    return error_value;
}

Value
eval(Lower *low, const Expr *expr)
{
    if (low->nesting >= NESTING_MAX)
        return fail(low, expr->span,
                    "E-NESTING: this is nested too deeply: %d levels are possible, calls "
                    "expanded",
                    NESTING_MAX);
    low->nesting++;
    Value value = eval_kind(low, expr);
    low->nesting--;
    if (value.kind == VALUE_TILE && tir_type_elements(value.type) > TILE_MAX_ELEMENTS)
        return too_large(low, expr->span, value.type);
    return value;
}

bool
eval_int(Lower *low, const Expr *expr, const char *what, int64_t least, int64_t most, int64_t *out)
{
    Value value = eval(low, expr);

    if (value.kind == VALUE_ERROR)
        return false;
    if (value.kind != VALUE_INT) {
        fail(low, expr->span, "E-CONSTANT: %s must be known at compile time, this is %s", what,
             value_text(low, &value));
        return false;
    }
    if (value.integer < least || value.integer > most) {
        if (expr->kind == EXPR_NAME && was_told(low, expr->text))
            return false;
        fail(low, expr->span, "E-CONSTANT: %s must be between %lld and %lld, this is %lld", what,
             (long long)least, (long long)most, (long long)value.integer);
        return false;
    }
    *out = value.integer;
    return true;
}
