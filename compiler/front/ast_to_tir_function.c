/* ast_to_tir_function.c - calls: functions of the program, expanded in place. */
#include <string.h>

#include "compiler/front/ast_to_tir_internal.h"
#include "dsl/dsl.h"
#include "dsl/hints.h"

static const Value error_value = {.kind = VALUE_ERROR};

static const char *
suggest_function(Lower *low, const char *name)
{
    const char *found = NULL;
    uint32_t best = 3;

    for (uint32_t i = 0; i < low->ast->functions.n; i++)
        if (close_name(name, low->ast->functions.at[i]->name.text, &best))
            found = low->ast->functions.at[i]->name.text;
    for (uint32_t i = 0; i < BUILTIN_COUNT; i++)
        if (close_name(name, builtin_info((Builtin)i)->name, &best))
            found = builtin_info((Builtin)i)->name;
    return found != NULL ? arena_printf(low->arena, ", did you mean '%s'?", found) : "";
}

/* Checks an argument against `name: type[dims]`, in the frame of the function; names not seen
 * before stand for the extents found. */
static bool
match_tile(Lower *low, const Param *param, DType dtype, Span span, Value *value)
{
    const TypeRef *type = param->type;

    *value = range_to_tile(low, value);
    if (value->kind != VALUE_TILE || value->type.dtype != dtype ||
        value->type.rank != type->dims.n) {
        fail(low, span, "E-SHAPE: parameter '%s' is a tile of %s with %u dimension%s, not %s",
             param->name.text, dtype_name(dtype), type->dims.n, type->dims.n == 1 ? "" : "s",
             value_text(low, value));
        return false;
    }
    for (uint32_t i = 0; i < type->dims.n; i++) {
        const Expr *dim = type->dims.at[i].value;
        int64_t extent;
        if (dim->kind == EXPR_NAME && find_binding(low, dim->text) == NULL) {
            declare(low, dim->text, dim->span, value_int(value->type.dim[i]))->what = "parameter";
            continue;
        }
        if (!eval_int(low, dim, "the extent of a tile", 1, TILE_MAX_EXTENT, &extent))
            return false;
        if (extent != value->type.dim[i]) {
            fail(low, span, "E-SHAPE: dimension %u of parameter '%s' is %lld, this argument is %s",
                 i, param->name.text, (long long)extent, value_text(low, value));
            return false;
        }
    }
    return true;
}

static bool
match_type(Lower *low, const Param *param, Span span, Value *value)
{
    const TypeRef *type = param->type;
    static const struct {
        const char *name;
        ValueKind kind;
    } kinds[] = {{"int", VALUE_INT}, {"type", VALUE_TYPE}};
    DType dtype;

    if (type == NULL)
        return true;
    for (size_t i = 0; i < 2 && !type->has_dims; i++) {
        if (strcmp(type->base.text, kinds[i].name) != 0)
            continue;
        if (value->kind == kinds[i].kind)
            return true;
        fail(low, span, "E-PARAMETER: parameter '%s' is %s known at compile time, not %s",
             param->name.text, i == 0 ? "an int" : "a type", value_text(low, value));
        return false;
    }
    if (!find_type(low, type->base.text, &dtype)) {
        const char *hint = type_hint(low->arena, type->base.text);
        fail(low, type->base.span, "E-TYPE-NAME: unknown type '%s': %s", type->base.text,
             hint != NULL ? hint
                          : arena_printf(low->arena, "int, type, %s, or a parameter that is a type",
                                         types_with(low, USE_VALUES, ", ")));
        return false;
    }
    if (type->has_dims)
        return match_tile(low, param, dtype, span, value);
    if (dtype == DT_BOOL && value->kind == VALUE_BOOL)
        return true;
    if (is_constant(value) && (value->kind == VALUE_BOOL) == (dtype == DT_BOOL) &&
        !(value->kind == VALUE_FLOAT && !dtype_is_float(dtype))) {
        if (value->kind == VALUE_INT && dtype == DT_F32)
            *value = value_float((double)value->integer);
        return true; /* stays a constant */
    }
    if (is_scalar_of(value, dtype))
        return true;
    fail(low, span, "E-TYPE: parameter '%s' is a scalar %s, not %s", param->name.text,
         dtype_name(dtype), value_text(low, value));
    return false;
}

/* Which argument goes to each parameter; false after an error. */
static bool
order_arguments(Lower *low, const Function *function, const Expr *call, const Arg **order)
{
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Arg *arg = &call->args.at[i];
        uint32_t at = i;
        if (arg->name != NULL)
            for (at = 0; at < function->params.n; at++)
                if (strcmp(function->params.at[at].name.text, arg->name) == 0)
                    break;
        if (at >= function->params.n) {
            if (arg->name != NULL)
                fail(low, arg->name_span, "E-ARGUMENTS: '%s' has no parameter '%s'",
                     function->name.text, arg->name);
            else
                fail(low, call->span, "E-ARGUMENTS: '%s' takes %u arguments, not %u",
                     function->name.text, function->params.n, call->args.n);
            diag_note(low->diag, function->span, "'%s' is defined here", function->name.text);
            return false;
        }
        if (order[at] != NULL) {
            fail(low, arg->value->span, "E-ARGUMENTS: two arguments for parameter '%s'",
                 function->params.at[at].name.text);
            return false;
        }
        order[at] = arg;
    }
    for (uint32_t i = 0; i < function->params.n; i++) {
        if (order[i] != NULL)
            continue;
        fail(low, call->span, "E-ARGUMENTS: '%s' needs an argument for '%s'", function->name.text,
             function->params.at[i].name.text);
        diag_note(low->diag, function->span, "'%s' is defined here", function->name.text);
        return false;
    }
    return true;
}

/* A parameter in the new frame, bound to what was evaluated in the caller's. */
static bool
bind_parameter(Lower *low, const Param *param, Span span, Value value, const Place *place)
{
    Value checked = value;

    if (!match_type(low, param, span, &checked))
        return false;
    Binding *binding = declare(low, param->name.text, param->name.span, checked);
    binding->what = "parameter";
    if (param->mode == PARAM_VAR) {
        binding->is_alias = true;
        binding->place = *place;
    }
    return true;
}

static bool
check_recursion(Lower *low, const Function *function, const Expr *call)
{
    for (const Frame *frame = low->frame; frame != NULL; frame = frame->caller) {
        if (frame->function == function) {
            fail(low, call->span,
                 "E-RECURSION: '%s' calls itself: functions are expanded where they are "
                 "called, so this would never end",
                 function->name.text);
            return false;
        }
    }
    if (low->frame->depth >= CALL_MAX_DEPTH) {
        fail(low, call->span, "E-NESTING: calls are nested too deeply here");
        return false;
    }
    if (++low->n_calls <= CALL_MAX_COUNT && low->fn->next_id <= VALUE_MAX_COUNT)
        return true;
    fail(low, low->kernel->name.span,
         "E-NESTING: kernel '%s' is too large when all calls are expanded", low->kernel->name.text);
    return false;
}

/* What a function gives for arguments: their values, where they stand, and of `var` ones what they
 * are. */
static Value
expand(Lower *low, const Function *function, const Expr *call, const Value *values,
       const Span *spans, const Place *places)
{
    Frame frame = {.caller = low->frame,
                   .function = function,
                   .call = call->span,
                   .depth = low->frame->depth + 1};
    bool ok = true;

    low->frame = &frame;
    for (uint32_t i = 0; ok && i < function->params.n; i++)
        ok = bind_parameter(low, &function->params.at[i], spans[i], values[i], &places[i]);
    if (ok)
        lower_block(low, function->body);
    low->frame = frame.caller;
    if (!ok)
        return error_value;
    return frame.returned ? frame.result : (Value){.kind = VALUE_NOTHING};
}

Value
call_with(Lower *low, const Function *function, const Expr *name, const Value *values)
{
    uint32_t n = function->params.n;
    Span *spans = arena_array(low->arena, Span, n);
    Place *places = arena_array(low->arena, Place, n);

    for (uint32_t i = 0; i < n; i++)
        spans[i] = name->span;
    if (!check_recursion(low, function, name))
        return error_value;
    return expand(low, function, name, values, spans, places);
}

static Value
call_function(Lower *low, const Function *function, const Expr *call)
{
    uint32_t n = function->params.n;
    const Arg **order = arena_array(low->arena, const Arg *, n);
    Value *values = arena_array(low->arena, Value, n);
    Span *spans = arena_array(low->arena, Span, n);
    Place *places = arena_array(low->arena, Place, n);

    if (!check_recursion(low, function, call) || !order_arguments(low, function, call, order))
        return error_value;
    for (uint32_t i = 0; i < n; i++) {
        if (function->params.at[i].mode == PARAM_VAR) {
            places[i] = eval_place(low, order[i]->value);
            if (places[i].root == NULL)
                return error_value;
            values[i] = read_place(low, &places[i]);
        } else {
            values[i] = eval(low, order[i]->value);
        }
        spans[i] = order[i]->value->span;
        if (values[i].kind == VALUE_ERROR)
            return error_value;
        if (values[i].kind == VALUE_STEPS || values[i].kind == VALUE_NOTHING)
            return fail(low, order[i]->value->span, "E-ARGUMENTS: %s cannot be an argument",
                        value_text(low, &values[i]));
    }
    return expand(low, function, call, values, spans, places);
}

static Value
unknown_function(Lower *low, const Expr *call)
{
    const AstToTir *options = low->options;
    const char *module = options->module_of != NULL ? options->module_of(options->user, call->text)
                                                    : NULL;
    const char *hint = conversion_hint(low->arena, call->text);

    if (module != NULL)
        return fail(low, call->text_span,
                    "E-FUNCTION: unknown function '%s': `use %s;` at the head of the file brings it",
                    call->text, module);
    if (hint != NULL)
        return fail(low, call->text_span, "E-FUNCTION: unknown function '%s': %s", call->text, hint);
    return fail(low, call->text_span, "E-FUNCTION: unknown function '%s'%s", call->text,
                suggest_function(low, call->text));
}

const Function *
find_function(Lower *low, const Expr *name)
{
    Builtin builtin = builtin_find(name->text);
    const Function *function = dsl_called(low->ast, name, builtin != BUILTIN_COUNT);

    if (function == NULL && builtin != BUILTIN_COUNT)
        fail(low, name->span,
             "E-FUNCTION: '%s' is built in, and a function of the program is needed here: write one "
             "that calls it",
             name->text);
    Expr call = *name;
    call.text_span = name->span;
    if (function == NULL && builtin == BUILTIN_COUNT)
        unknown_function(low, &call);
    return function;
}

Value
eval_call(Lower *low, const Expr *call)
{
    Builtin builtin = builtin_find(call->text);
    const Function *function = dsl_called(low->ast, call, builtin != BUILTIN_COUNT);

    if (function != NULL)
        return call_function(low, function, call);
    if (builtin != BUILTIN_COUNT)
        return call_builtin(low, builtin, call);
    if (find_binding(low, call->text) != NULL)
        return fail(low, call->text_span, "E-FUNCTION: '%s' is not a function", call->text);
    return unknown_function(low, call);
}
