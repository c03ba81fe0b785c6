/* ast_to_tir.c - instantiates kernels: compile-time parameters, the interface, the body. */
#include "compiler/front/ast_to_tir.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/near.h"
#include "compiler/front/ast_to_tir_internal.h"
#include "compiler/passes/pass.h"
#include "dsl/hints.h"

/* ---- messages ---- */

/* A function is walked at each call: what was said about it once is not said again. */
static bool
was_said(const Diag *diag, Span span, const char *text)
{
    size_t named = diag_name_length(text);

    text += named > 0 ? named + strlen(": ") : 0;
    for (uint32_t i = 0; i < diag->messages.n; i++) {
        const DiagMessage *message = &diag->messages.at[i];
        if (message->kind == DIAG_ERROR && message->span.lo == span.lo &&
            message->span.hi == span.hi && strcmp(message->text, text) == 0)
            return true;
    }
    return false;
}

Value
fail(Lower *low, Span span, const char *format, ...)
{
    Value error = {.kind = VALUE_ERROR};
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = arena_alloc(low->arena, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    if (was_said(low->diag, span, text))
        return error;
    diag_error(low->diag, span, "%s", text);
    int notes = 0;
    for (const Frame *frame = low->frame; frame != NULL && frame->function != NULL && notes < 6;
         frame = frame->caller, notes++)
        diag_note(low->diag, frame->call, "in this call of '%s'", frame->function->name.text);
    return error;
}

/* True when `have` is closer to `wanted` than what `best` says, and at most two changes away. */
bool
close_name(const char *wanted, const char *have, uint32_t *best)
{
    uint32_t limit = strlen(wanted) <= 3 ? 1 : 2;
    uint32_t distance = word_distance(wanted, have);

    if (distance > limit || distance >= *best ||
        (distance >= strlen(wanted) && !word_is_same_but_case(wanted, have)))
        return false;
    *best = distance;
    return true;
}

const char *
suggest_name(Lower *low, const char *name, bool tensor)
{
    const char *found = NULL;
    uint32_t best = 3;
    DType dtype;

    for (const Binding *b = low->frame->bindings; b != NULL; b = b->next)
        if ((!tensor || b->value.kind == VALUE_TENSOR) && close_name(name, b->name, &best))
            found = b->name;
    for (dtype = DT_BOOL; dtype < DT_COUNT && !tensor; dtype++)
        if (close_name(name, dtype_name(dtype), &best))
            found = dtype_name(dtype);
    return found != NULL ? arena_printf(low->arena, ", did you mean '%s'?", found) : "";
}

/* What is said of a name that is no type: the one of other languages that it is, or one that is
 * near. */
static const char *
suggest_type(Lower *low, const char *name)
{
    const char *hint = type_hint(low->arena, name), *found = NULL;
    uint32_t best = 3;

    if (hint != NULL)
        return arena_printf(low->arena, ": %s", hint);
    for (const Binding *b = low->frame->bindings; b != NULL; b = b->next)
        if (b->value.kind == VALUE_TYPE && close_name(name, b->name, &best))
            found = b->name;
    for (DType dtype = DT_BOOL; dtype < DT_COUNT; dtype++)
        if (close_name(name, dtype_name(dtype), &best))
            found = dtype_name(dtype);
    return found != NULL ? arena_printf(low->arena, ", did you mean '%s'?", found) : "";
}

/* ---- names ---- */

static Binding **
name_list(Lower *low, const char *name)
{
    uint32_t hash = (unsigned char)name[0];

    hash = 5 * hash + (hash != 0 ? (unsigned char)name[1] : 0);
    return &low->frame->lists[hash % NAME_LISTS];
}

void
push_binding(Lower *low, Binding *binding)
{
    Binding **list = name_list(low, binding->name);

    binding->next = low->frame->bindings;
    binding->below = *list;
    low->frame->bindings = *list = binding;
}

void
pop_bindings(Lower *low, Binding *scope)
{
    for (Binding *b = low->frame->bindings; b != scope; b = b->next)
        *name_list(low, b->name) = b->below;
    low->frame->bindings = scope;
}

Binding *
find_binding(Lower *low, const char *name)
{
    for (Binding *b = *name_list(low, name); b != NULL; b = b->below)
        if (same_text(b->name, name))
            return b;
    return NULL;
}

/* A value in words for an editor; a tensor as it is declared. */
static const char *
declared_text(Lower *low, const Value *value)
{
    static const char *const modes[] = {
        [TENSOR_IN] = "in", [TENSOR_OUT] = "out", [TENSOR_INOUT] = "inout"};
    Buf text;

    if (value->kind != VALUE_TENSOR)
        return value_text(low, value);
    buf_init(&text, low->arena);
    buf_printf(&text, "%s %s[", modes[value->tensor->mode], dtype_name(value->tensor->packed));
    for (uint32_t k = 0; k < value->tensor->rank; k++) {
        const TensorDim *dim = &value->tensor->dim[k];
        buf_add(&text, k > 0 ? ", " : "");
        if (dim->constant > 0)
            buf_int(&text, dim->constant);
        else
            buf_add(&text, low->fn->sizes.at[dim->size].name);
    }
    buf_char(&text, ']');
    return text.at;
}

void
refuse_grid(Lower *low, const Stmt *stmt, const char *wrong)
{
    fail(low, stmt->span, "E-GRID: %s", wrong);
    for (uint32_t i = 0; i < stmt->axes.n; i++)
        declare(low, stmt->axes.at[i].name.text, stmt->axes.at[i].name.span,
                (Value){.kind = VALUE_ERROR});
}

Binding *
declare(Lower *low, const char *name, Span span, Value value)
{
    Binding *binding = arena_new(low->arena, Binding), *other = find_binding(low, name);
    bool taken = true;
    DType dtype;

    if (other != NULL) {
        fail(low, span, "E-TWICE: there is already a '%s' here", name);
        diag_note(low->diag, other->span, "it is declared here");
    } else if (dtype_parse(name, &dtype) || same_text(name, "inf") || same_text(name, "pi")) {
        fail(low, span, "E-RESERVED: '%s' has a meaning already and cannot be declared", name);
    } else {
        taken = false;
    }
    *binding = (Binding){.name = name, .span = span, .value = value, .loops = low->loops};
    if (low->options->declared != NULL && value.kind != VALUE_ERROR)
        low->options->declared(low->options->declared_user, span, declared_text(low, &value));
    if (!taken) /* else the name keeps its first meaning */
        push_binding(low, binding);
    return binding;
}

/* Sizes and scalar parameters become operations at the head of the body when first used. */
static TirVal *
make_leaf(Lower *low, const HostExpr *host, DType dtype, const char *name)
{
    TirBuilder b = {low->fn, low->fn->body, (int32_t)low->n_leaves, low->b.span};
    TirType type = tir_scalar(dtype);

    if (low->n_leaves == low->fn->body->ops.n)
        b.at = -1;
    TirOp *op = tir_op_new(&b, host->kind == HOST_SIZE ? TIR_SIZE : TIR_PARAM, 0, NULL, 1, &type);
    op->integer = host->index;
    op->results[0]->name = name;
    low->n_leaves++;
    return op->results[0];
}

Value
read_binding(Lower *low, Binding *binding)
{
    if (binding->is_alias)
        return read_place(low, &binding->place);
    Value *value = &binding->value;
    if (value->kind == VALUE_TILE && value->tir == NULL && !low->host_only && value->host != NULL)
        value->tir = make_leaf(low, value->host, value->type.dtype, binding->name);
    return *value;
}

bool
find_type(Lower *low, const char *name, DType *dtype)
{
    Binding *binding = find_binding(low, name);

    if (binding == NULL)
        return dtype_parse(name, dtype);
    *dtype = binding->value.dtype;
    return binding->value.kind == VALUE_TYPE;
}

/* ---- compile-time parameters ---- */

static bool
define_matches(const Define *define, const Kernel *kernel, const char *param)
{
    const char *dot = strchr(define->name, '.');

    if (dot == NULL)
        return strcmp(define->name, param) == 0;
    size_t n = (size_t)(dot - define->name);
    return strlen(kernel->name.text) == n && strncmp(kernel->name.text, define->name, n) == 0 &&
           strcmp(dot + 1, param) == 0;
}

/* The last definition wins, one for this kernel alone before one for all. */
static const Define *
find_define(const Lower *low, const char *param)
{
    const Define *found = NULL;

    for (uint32_t i = 0; i < low->options->n_defines; i++) {
        const Define *define = &low->options->defines[i];
        if (define_matches(define, low->kernel, param) &&
            (found == NULL || strchr(found->name, '.') == NULL || strchr(define->name, '.') != NULL))
            found = define;
    }
    return found;
}

static bool
parse_int(const char *text, int64_t *out)
{
    char *end;

    errno = 0;
    long long value = strtoll(text, &end, 0);
    *out = value;
    return end != text && *end == '\0' && errno == 0 && value >= INT32_MIN && value <= INT32_MAX;
}

static Value
parse_define(Lower *low, const ConstParam *param, const Define *define)
{
    const char *text = define->value;
    Span nowhere = {0, 0};
    int64_t integer;
    DType dtype;

    switch (param->kind) {
    case CONST_KIND_INT:
        if (parse_int(text, &integer))
            return value_int(integer);
        break;
    case CONST_KIND_BOOL:
        if (strcmp(text, "true") == 0 || strcmp(text, "1") == 0)
            return value_bool(true);
        if (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
            return value_bool(false);
        break;
    case CONST_KIND_TYPE:
        if (dtype_parse(text, &dtype))
            return value_type(dtype);
        break;
    }
    const char *hint = type_hint(low->arena, text);
    const char *wanted[] = {"an integer of 32 bits", "true or false",
                            arena_printf(low->arena, "a type: %s",
                                         hint != NULL ? hint : types_with(low, USE_NAMED, " or "))};
    fail(low, nowhere, "E-DEFINE: -D %s=%s: '%s' of kernel '%s' is %s", define->name, text,
         param->name.text, low->kernel->name.text, wanted[param->kind]);
    diag_note(low->diag, param->name.span, "'%s' is declared here", param->name.text);
    return (Value){.kind = VALUE_ERROR};
}

static Value
choose_value(Lower *low, const ConstParam *param)
{
    const AstToTir *options = low->options;
    int32_t chosen;

    if (param->kind != CONST_KIND_INT)
        return fail(low, param->name.span, "E-PARAMETER: only an int can be auto");
    if (options->choose != NULL &&
        options->choose(options->user, low->kernel->name.text, param->name.text, &chosen))
        return value_int(chosen);
    return fail(low, param->name.span,
                "E-NO-VALUE: no value can be chosen for '%s': give one with -D %s=..",
                param->name.text, param->name.text);
}

static Value
default_value(Lower *low, const ConstParam *param)
{
    static const ValueKind wanted[] = {VALUE_INT, VALUE_BOOL, VALUE_TYPE};

    if (param->value == NULL && low->options->declared != NULL)
        return param->kind == CONST_KIND_INT    ? value_int(64)
               : param->kind == CONST_KIND_BOOL ? value_bool(false)
                                                : value_type(DT_BF16);
    if (param->value == NULL)
        return fail(low, param->name.span,
                    "E-NO-VALUE: '%s' of kernel '%s' has no value: give one with "
                    "-D %s=..",
                    param->name.text, low->kernel->name.text, param->name.text);
    Value value = eval(low, param->value);
    if (value.kind == VALUE_ERROR || value.kind == wanted[param->kind])
        return value;
    return fail(low, param->value->span, "E-PARAMETER: the default of '%s' is not %s but %s",
                param->name.text,
                param->kind == CONST_KIND_INT    ? "an int"
                : param->kind == CONST_KIND_BOOL ? "a bool"
                                                 : "a type",
                value_text(low, &value));
}

static void
bind_constants(Lower *low)
{
    low->host_only = true;
    for (uint32_t i = 0; i < low->kernel->constants.n; i++) {
        const ConstParam *param = &low->kernel->constants.at[i];
        const Define *define = find_define(low, param->name.text);
        Value value = define != NULL   ? parse_define(low, param, define)
                      : param->is_auto ? choose_value(low, param)
                                       : default_value(low, param);
        TirConstant constant = {param->name.text, "", define == NULL && param->is_auto};
        if (value.kind == VALUE_INT)
            constant.value = arena_printf(low->arena, "%lld", (long long)value.integer);
        else if (value.kind == VALUE_BOOL)
            constant.value = value.integer ? "true" : "false";
        else if (value.kind == VALUE_TYPE)
            constant.value = dtype_name(value.dtype);
        vec_push(low->fn->arena, &low->fn->constants, constant);
        declare(low, param->name.text, param->name.span, value)->what = "compile-time parameter";
    }
    low->host_only = false;
}

/* ---- the interface ---- */

/* A name that means nothing yet is a run-time size. */
static uint32_t
size_index(Lower *low, const Expr *dim)
{
    TirFn *fn = low->fn;
    HostExpr *host = host_int(low->arena, 0);
    TirSize size = {.name = dim->text};
    Value value = {.kind = VALUE_TILE, .type = tir_scalar(DT_I32), .host = host};

    *host = (HostExpr){.kind = HOST_SIZE, .index = fn->sizes.n};
    vec_push(fn->arena, &fn->sizes, size);
    declare(low, dim->text, dim->span, value)->what = "size";
    return host->index;
}

static bool
bind_dim(Lower *low, const Expr *dim, TensorDim *out)
{
    Binding *binding = dim->kind == EXPR_NAME ? find_binding(low, dim->text) : NULL;
    int64_t extent;

    if (dim->kind == EXPR_NAME && binding == NULL) {
        out->size = size_index(low, dim);
        return true;
    }
    if (binding != NULL && binding->value.kind == VALUE_TILE && binding->value.host != NULL &&
        binding->value.host->kind == HOST_SIZE) {
        out->size = binding->value.host->index;
        return true;
    }
    if (!eval_int(low, dim, "a dimension of a tensor", 1, INT32_MAX, &extent))
        return false;
    out->constant = (int32_t)extent;
    return true;
}

static uint32_t
tensor_align(Lower *low, const Param *param, const TirTensor *tensor)
{
    int64_t bytes = dtype_bits(tensor->dtype) / 8, align;
    int32_t last = tensor->dim[tensor->rank - 1].constant;

    if (param->align == NULL)
        return (uint32_t)(last > 0 && last * bytes % 16 == 0 ? 16 : bytes);
    if (!eval_int(low, param->align, "an alignment", bytes, 256, &align))
        return (uint32_t)bytes;
    if ((align & (align - 1)) != 0)
        fail(low, param->align->span, "E-ALIGN: an alignment is a power of two, not %lld",
             (long long)align);
    return (uint32_t)align;
}

static void
bind_tensor(Lower *low, const Param *param)
{
    static const TensorMode modes[] = {
        [PARAM_IN] = TENSOR_IN, [PARAM_OUT] = TENSOR_OUT, [PARAM_INOUT] = TENSOR_INOUT};
    TirTensor *tensor = arena_new(low->arena, TirTensor);
    Value value = {.kind = VALUE_TENSOR, .tensor = tensor};
    const TypeRef *type = param->type;

    *tensor = (TirTensor){
        .name = param->name.text, .span = param->name.span, .mode = modes[param->mode]};
    if (!find_type(low, type->base.text, &tensor->dtype)) {
        Binding *binding = find_binding(low, type->base.text);
        if (binding == NULL || binding->value.kind != VALUE_ERROR)
            fail(low, type->base.span, "E-TYPE-NAME: unknown type '%s'%s", type->base.text,
                 suggest_type(low, type->base.text));
        value.kind = VALUE_ERROR;
    } else if (!dtype_has(tensor->dtype, USE_TENSOR | USE_PACKED)) {
        fail(low, type->base.span,
             "E-TYPE-NAME: %s is a type of tiles only: make the tensor %s, and cast what is loaded "
             "with `as %s`",
             dtype_name(tensor->dtype), dtype_name(dtype_wide(tensor->dtype)),
             dtype_name(tensor->dtype));
        value.kind = VALUE_ERROR;
    }
    if (type->dims.n > TENSOR_MAX_RANK) {
        fail(low, type->span, "E-LARGE: a tensor has at most %d dimensions", TENSOR_MAX_RANK);
        value.kind = VALUE_ERROR;
    }
    tensor->packed = tensor->dtype;
    if (type->dims.n > 0 && dtype_has(tensor->dtype, USE_PACKED))
        bind_packed(low, tensor, type->dims.at[type->dims.n - 1].value);
    for (uint32_t i = 0; i < type->dims.n && i < TENSOR_MAX_RANK; i++) {
        const Expr *dim = packed_dim(low, tensor, type->dims.at[i].value);
        tensor->rank++;
        if (add_late_dim(low, dim, tensor, i))
            continue;
        if (bind_dim(low, dim, &tensor->dim[i]))
            require_whole_dim(low, dim, tensor, i);
        else
            value.kind = VALUE_ERROR;
    }
    if (value.kind != VALUE_ERROR)
        tensor->align = tensor_align(low, param, tensor);
    declare(low, param->name.text, param->name.span, value)->what = "tensor";
    vec_push(low->fn->arena, &low->fn->tensors, tensor);
}

static void
bind_scalar(Lower *low, const Param *param)
{
    TirFn *fn = low->fn;
    HostExpr *host = host_int(low->arena, 0);
    TirScalar scalar = {param->name.text, param->name.span, DT_F32};
    Value value = {.kind = VALUE_TILE, .host = host};

    if (!find_type(low, param->type->base.text, &scalar.dtype)) {
        const char *name = param->type->base.text, *near = suggest_type(low, name);
        fail(low, param->type->span, "E-TYPE-NAME: unknown type '%s'%s", name,
             *near != '\0' ? near
                           : arena_printf(low->arena, "; a tensor is written as `%s: in f32[N]`",
                                          param->name.text));
        value.kind = VALUE_ERROR;
    } else if (!dtype_has(scalar.dtype, USE_PARAMETER)) {
        fail(low, param->type->span, "E-PARAMETER: a scalar parameter is %s, not %s",
             types_with(low, USE_PARAMETER, " or "), dtype_name(scalar.dtype));
        value.kind = VALUE_ERROR;
    }
    *host = (HostExpr){.kind = HOST_SCALAR, .index = fn->scalars.n};
    value.type = tir_scalar(scalar.dtype);
    vec_push(fn->arena, &fn->scalars, scalar);
    declare(low, param->name.text, param->name.span, value)->what = "parameter";
}

static void
unknown_plan_key(Lower *low, const Arg *setting)
{
    const char *best = NULL;
    uint32_t least = UINT32_MAX;
    Buf names;

    buf_init(&names, low->arena);
    for (uint32_t k = 0; plan_key_name(k) != NULL; k++) {
        uint32_t distance = word_distance(setting->name, plan_key_name(k));
        buf_printf(&names, "%s%s", k == 0 ? "" : ", ", plan_key_name(k));
        if (distance < least) {
            least = distance;
            best = plan_key_name(k);
        }
    }
    if (word_is_near(setting->name, least))
        fail(low, setting->name_span, "E-ATTRIBUTE: @plan has no '%s'; did you mean '%s'?",
             setting->name, best);
    else
        fail(low, setting->name_span, "E-ATTRIBUTE: @plan has no '%s', it knows %s", setting->name,
             names.at);
}

/* @plan(consumers = 2, ..) or @plan(none), as the text that --plan has. */
static void
bind_plan(Lower *low, const Attribute *attribute)
{
    const Expr *value = attribute->value;
    bool none = value != NULL && value->kind == EXPR_NAME && strcmp(value->text, "none") == 0;
    bool good = low->fn->hint_plan == NULL;
    Buf text;

    if (!good)
        fail(low, attribute->span, "E-ATTRIBUTE: a kernel has one @plan");
    if (!none && attribute->settings.n == 0) {
        fail(low, attribute->span,
             "E-ATTRIBUTE: @plan needs a plan, as in @plan(consumers = 2, stages = 3), or "
             "@plan(none)");
        return;
    }
    buf_init(&text, low->arena);
    for (uint32_t k = 0; k < attribute->settings.n; k++) {
        const Arg *setting = &attribute->settings.at[k];
        const char *what = arena_printf(low->arena, "'%s' of a plan", setting->name);
        uint32_t least, most;
        int64_t n;
        bool twice = false;
        const char *key = plan_key_range(setting->name, &least, &most);
        for (uint32_t j = 0; j < k && key != NULL; j++)
            twice |= plan_key_range(attribute->settings.at[j].name, &(uint32_t){0},
                                    &(uint32_t){0}) == key;
        if (key == NULL) {
            unknown_plan_key(low, setting);
            good = false;
        } else if (twice) {
            fail(low, setting->name_span, "E-ATTRIBUTE: %s is given twice", what);
            good = false;
        } else if (!eval_int(low, setting->value, what, least, most, &n)) {
            good = false;
        } else {
            buf_printf(&text, "%s%s=%lld", text.n == 0 ? "" : ",", key, (long long)n);
        }
    }
    if (good) {
        low->fn->hint_plan = none ? "none" : text.at;
        low->fn->hint_plan_span = attribute->span;
    }
}

/* NULL: there is none. */
static TirSize *
find_size(TirFn *fn, const char *name)
{
    for (uint32_t k = 0; k < fn->sizes.n; k++) {
        if (strcmp(fn->sizes.at[k].name, name) == 0)
            return &fn->sizes.at[k];
    }
    return NULL;
}

/* @sizes(Sq = 1, ..): what the sizes of the tensors are most often. */
static void
bind_sizes(Lower *low, const Attribute *attribute)
{
    if (attribute->settings.n == 0)
        fail(low, attribute->span, "E-SIZES: @sizes needs sizes of tensors, as in @sizes(S = 4096)");
    for (uint32_t k = 0; k < attribute->settings.n; k++) {
        const Arg *setting = &attribute->settings.at[k];
        TirSize *size = find_size(low->fn, setting->name);
        if (size == NULL)
            fail(low, setting->name_span, "E-SIZES: no tensor of kernel '%s' has a size '%s'",
                 low->kernel->name.text, setting->name);
        else if (size->usual != 0)
            fail(low, setting->name_span, "E-SIZES: the size '%s' is given twice", setting->name);
        else
            eval_int(low, setting->value, arena_printf(low->arena, "the size '%s'", setting->name),
                     1, INT32_MAX, &size->usual);
    }
}

/* What the source and the command line say of sizes, behind the tensors that have them. */
static void
bind_usual_sizes(Lower *low)
{
    const AttributeList *attributes = &low->kernel->attributes;

    for (uint32_t i = 0; i < attributes->n; i++) {
        if (strcmp(attributes->at[i].name, "sizes") == 0)
            bind_sizes(low, &attributes->at[i]);
    }
    for (uint32_t k = 0; k < low->options->n_sizes; k++) {
        TirSize *size = find_size(low->fn, low->options->sizes[k].name);
        if (size != NULL)
            size->usual = strtoll(low->options->sizes[k].value, NULL, 10);
    }
}

static void
bind_attributes(Lower *low)
{
    const AttributeList *attributes = &low->kernel->attributes;

    for (uint32_t i = 0; i < attributes->n; i++) {
        const Attribute *attribute = &attributes->at[i];
        int64_t warps;
        if (strcmp(attribute->name, "plan") == 0)
            bind_plan(low, attribute);
        else if (strcmp(attribute->name, "sizes") == 0)
            continue; /* behind the tensors */
        else if (strcmp(attribute->name, "warps") != 0)
            fail(low, attribute->span,
                 "E-ATTRIBUTE: unknown attribute of a kernel: @warps(n), @plan(..) and "
                 "@sizes(..) are known");
        else if (attribute->value == NULL)
            fail(low, attribute->span, "E-ATTRIBUTE: @warps needs a number, as in @warps(4)");
        else if (!eval_int(low, attribute->value, "the number of warps", 1, BLOCK_MAX_WARPS, &warps))
            continue;
        else if (!warps_divide((uint32_t)warps))
            fail(low, attribute->value->span,
                 "E-CONSTANT: the number of warps must be 1, 2, 4, 8, 16 or 32, this is %d",
                 (int)warps);
        else
            low->fn->hint_warps = (uint32_t)warps;
    }
}

/* ---- kernels ---- */

/* Whether a `grid` stands in a block, or in one of its own. */
static bool
names_programs(const Block *block)
{
    bool found = false;

    for (uint32_t k = 0; block != NULL && k < block->stmts.n && !found; k++) {
        const Stmt *stmt = block->stmts.at[k];
        found = stmt->kind == STMT_GRID || names_programs(stmt->body) ||
                names_programs(stmt->otherwise);
    }
    return found;
}

static void
instantiate(const AstToTir *options, const Kernel *kernel, TirModule *module)
{
    Frame frame = {0};
    Lower low = {.options = options,
                 .arena = options->arena,
                 .diag = options->diag,
                 .ast = options->ast,
                 .kernel = kernel,
                 .frame = &frame};

    low.fn = tir_fn_new(module, kernel->name.text, kernel->name.span);
    low.b = (TirBuilder){low.fn, low.fn->body, -1, kernel->span};
    bind_constants(&low);
    bind_attributes(&low);
    for (uint32_t i = 0; i < kernel->params.n; i++) {
        const Param *param = &kernel->params.at[i];
        if (param->mode == PARAM_VALUE)
            bind_scalar(&low, param);
        else
            bind_tensor(&low, param);
    }
    settle_late_dims(&low);
    bind_usual_sizes(&low);
    settle_usual_dims(&low);
    settle_packed(&low);
    low.outermost = kernel->body;
    if (names_programs(kernel->body))
        lower_block(&low, kernel->body);
    else /* what it would have named is not known either: one cause, one message */
        fail(&low, kernel->name.span,
             "E-GRID: kernel '%s' has no grid: `grid m in tiles(S, M), ..;` says "
             "how many programs run",
             kernel->name.text);
    if (low.diag->errors == 0)
        drop_keeps(&low);
    if (low.diag->errors == 0)
        lint_kernel(&low);
}

static bool
is_selected(const AstToTir *options, const Kernel *kernel)
{
    return options->kernel == NULL || strcmp(options->kernel, kernel->name.text) == 0;
}

static const char *
kernel_names(const AstToTir *options)
{
    const char *names = "none";

    for (uint32_t k = 0; k < options->ast->kernels.n; k++) {
        const char *name = options->ast->kernels.at[k]->name.text;
        names = k == 0 ? name : arena_printf(options->arena, "%s, %s", names, name);
    }
    return names;
}

/* What is known at the launch only: a size or a scalar of a kernel. */
static bool
is_of_launch(const AstToTir *options, const char *name)
{
    for (uint32_t k = 0; k < options->ast->kernels.n; k++) {
        const ParamList *params = &options->ast->kernels.at[k]->params;
        for (uint32_t i = 0; i < params->n; i++) {
            const Param *param = &params->at[i];
            if (param->mode == PARAM_VALUE && strcmp(param->name.text, name) == 0)
                return true;
            for (uint32_t d = 0; param->mode != PARAM_VALUE && d < param->type->dims.n; d++) {
                if (expr_has_name(param->type->dims.at[d].value, name))
                    return true;
            }
        }
    }
    return false;
}

/* Names for a message, each once. */
static const char *
add_to_list(Arena *arena, const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; at != NULL && *at != '\0'; at += strspn(at, ", ")) {
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return list;
        at += strcspn(at, ",");
    }
    return *list == '\0' ? name : arena_printf(arena, "%s, %s", list, name);
}

/* What is said of a name that is none of those of a list, one of which may be near. */
static const char *
instead_of(const AstToTir *options, const char *near, const char *list)
{
    if (near != NULL)
        return arena_printf(options->arena, ", did you mean '%s'?", near);
    return *list == '\0' ? "" : arena_printf(options->arena, "; known: %s", list);
}

/* Every -D must mean something to some kernel. */
static void
check_defines(const AstToTir *options)
{
    for (uint32_t i = 0; i < options->n_defines; i++) {
        const Define *define = &options->defines[i];
        const char *found = NULL, *dot = strchr(define->name, '.'), *all = "";
        uint32_t best = 3;
        bool known = false;
        for (uint32_t k = 0; k < options->ast->kernels.n && !known; k++) {
            const Kernel *kernel = options->ast->kernels.at[k];
            for (uint32_t j = 0; j < kernel->constants.n; j++) {
                const char *name = kernel->constants.at[j].name.text;
                known |= define_matches(define, kernel, name);
                if (close_name(dot != NULL ? dot + 1 : define->name, name, &best))
                    found = name;
                all = add_to_list(options->arena, all, name);
            }
        }
        if (!known)
            diag_error(options->diag, (Span){0, 0},
                       "E-DEFINE: -D %s=%s: no kernel has a compile-time parameter '%s'%s",
                       define->name, define->value, define->name,
                       is_of_launch(options, define->name) ? "; it is known at the launch only"
                                                           : instead_of(options, found, all));
    }
}

/* Every --size must mean something to some kernel. */
static void
check_sizes(const AstToTir *options, const TirModule *module)
{
    for (uint32_t i = 0; i < options->n_sizes; i++) {
        const Define *size = &options->sizes[i];
        const char *found = NULL, *all = "";
        char *end;
        long long value = strtoll(size->value, &end, 10);
        uint32_t best = 3;
        bool known = options->kernel != NULL; /* one of several: the others may have it */
        for (uint32_t k = 0; k < module->fns.n; k++) {
            TirFn *fn = module->fns.at[k];
            known |= find_size(fn, size->name) != NULL;
            for (uint32_t j = 0; j < fn->sizes.n; j++) {
                if (close_name(size->name, fn->sizes.at[j].name, &best))
                    found = fn->sizes.at[j].name;
                all = add_to_list(options->arena, all, fn->sizes.at[j].name);
            }
        }
        if (end == size->value || *end != '\0' || value < 1 || value > INT32_MAX)
            diag_error(options->diag, (Span){0},
                       "E-SIZES: --size %s=%s: expected a positive number", size->name,
                       size->value);
        else if (!known)
            diag_error(options->diag, (Span){0},
                       "E-SIZES: --size %s=%s: no kernel has a size '%s'%s", size->name,
                       size->value, size->name, instead_of(options, found, all));
    }
}

bool
ast_to_tir(const AstToTir *options, TirModule *module)
{
    uint32_t before = options->diag->errors, n = 0;

    check_defines(options);
    for (uint32_t i = 0; i < options->ast->kernels.n; i++) {
        const Kernel *kernel = options->ast->kernels.at[i];
        if (is_selected(options, kernel)) {
            instantiate(options, kernel, module);
            n++;
        }
    }
    check_sizes(options, module);
    if (n == 0) {
        Span place = {0, 0};
        if (options->kernel != NULL)
            diag_error(options->diag, place,
                       "E-KERNEL: there is no kernel '%s' in this file; it has %s", options->kernel,
                       kernel_names(options));
        else
            diag_error(options->diag, place, "E-KERNEL: there is no kernel in this file");
    }
    return options->diag->errors == before;
}
