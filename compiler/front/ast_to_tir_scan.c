/* ast_to_tir_scan.c - scans and reductions by a function of the program: scan(f, (a, b), axis=n)
 * and reduce.
 *
 * The function is expanded once, for the scalars of two tuples, into a body of its own
 * (TirFn.combines); operations on tiles name it.  What is there is an operand, too: it has the
 * padding of all tiles of the tuple.
 */
#include <string.h>

#include "compiler/front/ast_to_tir_internal.h"
#include "dsl/dsl.h"

static const Value error_value = {.kind = VALUE_ERROR};

/* ---- what is combined ---- */

/* The tiles of the tuple, and the shape that they have together. */
static bool
take_tiles(Lower *low, const char *caller, Span span, const Value *value, Tuples *out)
{
    uint32_t n = value->kind == VALUE_TUPLE ? value->n_fields : 1;

    out->single = value->kind != VALUE_TUPLE;
    out->n = n;
    out->type = (TirType){.dtype = DT_BOOL};
    if (n > TUPLE_MOST) {
        fail(low, span, "E-SCAN: %s combines tuples of at most %d tiles, this one has %u", caller,
             TUPLE_MOST, n);
        return false;
    }
    for (uint32_t k = 0; k < n; k++) {
        const Value *field = out->single ? value : &value->fields[k];
        if (field->kind != VALUE_TILE && field->kind != VALUE_RANGE && !is_constant(field)) {
            fail(low, span, "E-SCAN: %s combines tiles, not %s", caller, value_text(low, field));
            return false;
        }
        out->tile[k] = to_runtime(low, span, field);
        TirType type = out->tile[k].type;
        if (!dtype_has(type.dtype, USE_ARITHMETIC) && type.dtype != DT_BOOL) {
            fail(low, span, "E-TYPE: %s combines numbers and bools, not %s%s", caller,
                 value_text(low, &out->tile[k]), cast_hint(low, type.dtype, USE_ARITHMETIC));
            return false;
        }
        if (!broadcast_shape(out->type, type, &out->type)) {
            fail(low, span, "E-SHAPE: the shapes of %s do not fit together", value_text(low, value));
            return false;
        }
    }
    out->type.dtype = DT_BOOL;
    if (out->type.rank > 0)
        return true;
    fail(low, span, "E-TYPE: %s goes along an axis of a tile, not of %s", caller,
         value_text(low, value));
    return false;
}

/* Parts that have no name here have that which the function gives them. */
static void
name_parts(Lower *low, const Value *value, Tuples *out)
{
    out->part = arena_array(low->arena, const char *, out->n);
    for (uint32_t k = 0; k < out->n && !out->single; k++) {
        out->part[k] = value->names != NULL ? value->names[k] : NULL;
        if (out->part[k] == NULL)
            out->part[k] = dsl_returned_name(out->function, k, out->n);
    }
}

bool
tuples_of(Lower *low, const char *caller, const Expr *name, Span span, const Value *value,
          Tuples *out)
{
    *out = (Tuples){.name = name};
    if (name->kind != EXPR_NAME) {
        fail(low, name->span,
             "E-FUNCTION: the first argument of %s is the name of a function that combines two "
             "elements",
             caller);
        return false;
    }
    if (!take_tiles(low, caller, span, value, out))
        return false;
    if (low->host_only) {
        not_for_launchers(low, span);
        return false;
    }
    out->function = find_function(low, name);
    if (out->function == NULL)
        return false;
    for (uint32_t k = 0; k < out->function->params.n; k++) {
        if (out->function->params.at[k].mode != PARAM_VAR)
            continue;
        fail(low, name->span,
             "E-SCAN: '%s' assigns to its parameter '%s': it cannot combine elements", name->text,
             out->function->params.at[k].name.text);
        return false;
    }
    if (out->function->params.n != 2) {
        fail(low, name->span, "E-SCAN: '%s' has %u parameter%s: what combines two elements has two",
             name->text, out->function->params.n, out->function->params.n == 1 ? "" : "s");
        return false;
    }
    name_parts(low, value, out);
    return true;
}

/* ---- the function ---- */

/* "(a: f32, b: i32)", "f32": what it takes. */
static const char *
taken_text(Lower *low, const Tuples *tuples)
{
    Buf text;

    buf_init(&text, low->arena);
    for (uint32_t k = 0; k < tuples->n; k++) {
        buf_add(&text, tuples->single ? "" : k == 0 ? "(" : ", ");
        if (tuples->part[k] != NULL)
            buf_printf(&text, "%s = ", tuples->part[k]);
        buf_add(&text, dtype_name(tuples->tile[k].type.dtype));
    }
    buf_add(&text, tuples->single ? "" : ")");
    return text.at;
}

/* Whether it returns as many parts as it takes, of their types and with their names; constants take
 * the type. */
static bool
take_result(Lower *low, const Tuples *tuples, const Value *result, TirVal **parts)
{
    bool fits = result->kind == VALUE_TUPLE ? !tuples->single && result->n_fields == tuples->n
                                            : tuples->single;

    for (uint32_t k = 0; fits && k < tuples->n; k++) {
        const Value *field = tuples->single ? result : &result->fields[k];
        const char *name = tuples->single || result->names == NULL ? NULL : result->names[k];
        TirType type = tir_scalar(tuples->tile[k].type.dtype);
        Value part = *field;
        fits = (field->kind == VALUE_TILE && tir_type_eq(field->type, type)) || is_constant(field);
        fits = fits &&
               (name == NULL || tuples->part[k] == NULL || strcmp(name, tuples->part[k]) == 0);
        if (fits && is_constant(field) &&
            !adapt_constant(low, tuples->function->span, field, type, &part))
            return false;
        parts[k] = part.tir;
    }
    if (!fits) {
        fail(low, tuples->name->span,
             "E-SCAN: '%s' is not associative by its shape: of two %s it makes %s",
             tuples->name->text, taken_text(low, tuples), value_text(low, result));
        diag_note(low->diag, tuples->function->span, "'%s' is defined here",
                  tuples->function->name.text);
    }
    return fits;
}

/* Only arithmetic on elements may stand in it. */
static bool
check_body(Lower *low, const Tuples *tuples, const TirFn *body)
{
    for (uint32_t i = 0; i < body->body->ops.n; i++) {
        const TirOp *op = body->body->ops.at[i];
        bool plain = op->n_results == 1 && op->results[0]->type.rank == 0 &&
                     (op->op == TIR_CONST || tir_axis_use(op) == AXIS_ELEMENTWISE);
        if (plain)
            continue;
        fail(low, op->span,
             "E-SCAN: '%s' combines two elements, by arithmetic on them alone: no loops, no tiles, and "
             "`where` in place of a branch at run time",
             tuples->name->text);
        return false;
    }
    return true;
}

/* The type in which elements travel: 16-bit floats in f32, which has all of their values. */
static DType
travelling(DType dtype)
{
    return is_16bit_float(dtype) ? DT_F32 : dtype;
}

/* Expands the function for two tuples of scalars; NULL after an error. */
static TirFn *
make_combine(Lower *low, const Tuples *tuples)
{
    TirFn *fn = tir_combine_new(low->fn, tuples->name->text, tuples->function->span);
    TirBuilder outer = low->b;
    Value args[2], fields[2][TUPLE_MOST];
    TirVal *parts[TUPLE_MOST];

    low->b = (TirBuilder){.fn = fn, .block = fn->body, .at = -1, .span = tuples->name->span};
    for (uint32_t k = 0; k < 2 * tuples->n; k++) {
        DType dtype = tuples->tile[k % tuples->n].type.dtype;
        TirVal *param = tir_block_param(fn, fn->body, tir_scalar(travelling(dtype)),
                                        tuples->part[k % tuples->n]);
        fields[k / tuples->n][k % tuples->n] = (Value){.tir = param};
    }
    for (uint32_t side = 0; side < 2; side++) {
        for (uint32_t k = 0; k < tuples->n; k++) {
            DType dtype = tuples->tile[k].type.dtype;
            fields[side][k] = value_tile(tir_cast(&low->b, fields[side][k].tir, dtype), NULL);
        }
        args[side] = tuples->single ? fields[side][0]
                                    : (Value){.kind = VALUE_TUPLE,
                                              .n_fields = tuples->n,
                                              .fields = fields[side],
                                              .names = tuples->part};
    }
    Value result = call_with(low, tuples->function, tuples->name, args);
    bool ok = result.kind != VALUE_ERROR && take_result(low, tuples, &result, parts) &&
              check_body(low, tuples, fn);
    for (uint32_t k = 0; ok && k < tuples->n; k++)
        parts[k] = tir_cast(&low->b, parts[k], travelling(parts[k]->type.dtype));
    if (ok)
        tir_yield(&low->b, tuples->n, parts);
    low->b = outer;
    return ok ? fn : NULL;
}

/* The same function for the same types is one. */
static TirFn *
find_combine(Lower *low, const Tuples *tuples)
{
    for (uint32_t i = 0; i < low->combines.n; i++) {
        const Combine *known = &low->combines.at[i];
        bool same = known->function == tuples->function && known->n == tuples->n &&
                    known->single == tuples->single;
        for (uint32_t k = 0; same && k < tuples->n; k++) {
            const char *a = known->part[k], *b = tuples->part[k];
            same = known->dtype[k] == tuples->tile[k].type.dtype &&
                   (a == NULL || b == NULL ? a == b : strcmp(a, b) == 0);
        }
        if (same)
            return known->fn;
    }
    Combine made = {.function = tuples->function,
                    .single = tuples->single,
                    .n = tuples->n,
                    .part = tuples->part,
                    .fn = make_combine(low, tuples)};
    for (uint32_t k = 0; k < tuples->n; k++)
        made.dtype[k] = tuples->tile[k].type.dtype;
    if (made.fn != NULL)
        vec_push(low->arena, &low->combines, made);
    return made.fn;
}

/* ---- the operations ---- */

/* Of all tiles of the shape that they have together: which elements are there. */
static TirVal *
there_of(Lower *low, const Tuples *tuples, TirVal *const *tiles)
{
    TirVal *there = tir_splat_const(&low->b, tuples->type, 1);

    for (uint32_t k = 0; k < tuples->n; k++)
        there = pad_like(low, there, tir_binary(&low->b, TIR_EQ, tiles[k], tiles[k]));
    return there;
}

/* An operation for each part; false after an error. */
static bool
make_parts(Lower *low, const Tuples *tuples, TirOpcode op, uint32_t axis, TirVal **parts)
{
    TirVal *args[1 + TUPLE_MOST];
    TirFn *combine = find_combine(low, tuples);

    if (combine == NULL)
        return false;
    for (uint32_t k = 0; k < tuples->n; k++) {
        TirVal *tile = tuples->tile[k].tir;
        args[1 + k] = tir_broadcast_to(
            &low->b, tir_cast(&low->b, tile, travelling(tile->type.dtype)), &tuples->type);
    }
    args[0] = there_of(low, tuples, args + 1);
    for (uint32_t k = 0; k < tuples->n; k++) {
        TirOp *made = tir_op_new(&low->b, op, 1 + tuples->n, args, 1, &args[1 + k]->type);
        made->reduce = REDUCE_ANY;
        made->combine = combine;
        made->axis = axis;
        made->integer = k;
        parts[k] = made->results[0];
    }
    return true;
}

/* A tuple as that which was combined, or a tile. */
static Value
as_taken(Lower *low, const Tuples *tuples, TirVal *const *parts)
{
    Value *fields = arena_array(low->arena, Value, tuples->n);

    for (uint32_t k = 0; k < tuples->n; k++)
        fields[k] = value_tile(tir_cast(&low->b, parts[k], tuples->tile[k].type.dtype), NULL);
    if (tuples->single)
        return fields[0];
    return (Value){
        .kind = VALUE_TUPLE, .n_fields = tuples->n, .fields = fields, .names = tuples->part};
}

Value
scan_tuples(Lower *low, const Tuples *tuples, uint32_t axis, bool back)
{
    TirVal *parts[TUPLE_MOST];

    if (!make_parts(low, tuples, back ? TIR_SCAN_BY_BACK : TIR_SCAN_BY, axis, parts))
        return error_value;
    return as_taken(low, tuples, parts);
}

Value
reduce_tuples(Lower *low, const Tuples *tuples, uint32_t axis)
{
    TirVal *parts[TUPLE_MOST];

    if (!make_parts(low, tuples, TIR_TOTAL_BY, axis, parts))
        return error_value;
    /* all along the axis are the same */
    for (uint32_t k = 0; k < tuples->n; k++)
        parts[k] = tir_reduce(&low->b, parts[k]->type.dtype == DT_BOOL ? REDUCE_ANY : REDUCE_MAX,
                              parts[k], axis);
    return as_taken(low, tuples, parts);
}
