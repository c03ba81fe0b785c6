/* interpret.c - runs kernels: parameters, tensors and their sizes, the programs of the grid. */
#include "dsl/interpret.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/npy.h"
#include "dsl/interpret_internal.h"
#include "dsl/interpret_sizes.h"

/* a few minutes of work, in elements; what an operation costs beside them; elements of a tensor */
static const uint64_t WORK_MAX = (uint64_t)1 << 35, WORK_EACH = 64, TENSOR_MAX = (uint64_t)1 << 27;

/* ---- what is said ---- */

void
program_text(const Run *run, Buf *out)
{
    buf_printf(out, "%s", run->kernel->name.text);
    for (uint32_t i = 0; i < run->n_axes; i++)
        buf_printf(out, "%s%s = %lld", i == 0 ? ", program " : ", ", run->axis[i],
                   (long long)run->index[i]);
}

static const char *
text_of(Run *run, const char *format, va_list args)
{
    va_list again;

    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = arena_alloc(run->arena, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, args);
    return text;
}

static void
say_where(Run *run)
{
    int notes = 0;
    Buf text;

    for (const RunFrame *frame = run->frame; frame != NULL && frame->function != NULL && notes < 6;
         frame = frame->caller, notes++)
        diag_note(run->diag, frame->call, "in this call of '%s'", frame->function->name.text);
    if (run->setup || run->n_axes == 0)
        return;
    buf_init(&text, run->arena);
    program_text(run, &text);
    diag_note(run->diag, (Span){0}, "in %s", text.at);
}

RunValue
run_fail(Run *run, Span span, const char *format, ...)
{
    static const RunValue error_value = {.kind = RUN_ERROR};
    va_list args;

    run->stopped = true;
    if (run->muted || run->failed)
        return error_value;
    run->failed = true;
    va_start(args, format);
    const char *text = text_of(run, format, args);
    va_end(args);
    diag_error(run->diag, span, "%s", text);
    say_where(run);
    return error_value;
}

void
run_note(Run *run, Span span, const char *format, ...)
{
    va_list args;

    if (run->setup)
        return;
    for (uint32_t i = 0; i < run->n_noted; i++)
        if (run->noted[i].lo == span.lo && run->noted[i].hi == span.hi)
            return;
    if (run->n_noted == NOTED_MAX)
        return;
    run->noted[run->n_noted++] = span;
    va_start(args, format);
    const char *text = text_of(run, format, args);
    va_end(args);
    diag_warning(run->diag, span, "%s", text);
    say_where(run);
}

void
run_nan(Run *run, Span span, const char *what)
{
    if (run->options->nan == INTERPRET_NAN_IGNORE)
        return;
    if (run->options->nan == INTERPRET_NAN_ERROR)
        run_fail(run, span, "E-NAN: %s makes a NaN of operands that are none", what);
    else
        run_note(run, span, "%s makes a NaN of operands that are none", what);
}

bool
run_works(Run *run, Span span, uint64_t elements)
{
    run->work += elements + WORK_EACH;
    if (run->work > (run->options->work_limit > 0 ? run->options->work_limit : WORK_MAX))
        run_fail(
            run, span,
            "E-RUN-LIMIT: this is more work than the interpreter does: smaller tensors show as much");
    return !run->stopped;
}

void
run_decides(Run *run, Span span, const Num *x)
{
    if (x->error == 0 || run->setup || run->wild)
        return;
    run->wild = true;
    run_note(run, span,
             "rounding may change what is decided here: there are no tolerances for what follows");
    for (uint32_t i = 0; i < run->used.n; i++)
        if (run->used.at[i]->mode != PARAM_IN)
            run->used.at[i]->wild = true;
}

/* ---- compile-time parameters ---- */

static bool
define_matches(const InterpretSetting *define, const Kernel *kernel, const char *param)
{
    const char *dot = strchr(define->name, '.');
    size_t n = dot == NULL ? 0 : (size_t)(dot - define->name);

    if (dot == NULL)
        return strcmp(define->name, param) == 0;
    return strlen(kernel->name.text) == n && strncmp(kernel->name.text, define->name, n) == 0 &&
           strcmp(dot + 1, param) == 0;
}

/* The last one counts, one for this kernel before one for all. */
static const char *
find_define(const Run *run, const char *param)
{
    const InterpretSetting *found = NULL;

    for (size_t i = 0; i < run->options->n_defines; i++) {
        const InterpretSetting *define = &run->options->defines[i];
        if (define_matches(define, run->kernel, param) &&
            (found == NULL || strchr(found->name, '.') == NULL || strchr(define->name, '.') != NULL))
            found = define;
    }
    return found != NULL ? found->value : NULL;
}

static RunValue
defined_value(const ConstParam *param, const char *text)
{
    RunValue type = {.kind = RUN_TYPE};

    switch (param->kind) {
    case CONST_KIND_INT: return run_int(strtoll(text, NULL, 0));
    case CONST_KIND_BOOL: return run_bool(strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
    default: return element_parse(text, &type.type) ? type : (RunValue){.kind = RUN_ERROR};
    }
}

static void
bind_constants(Run *run)
{
    for (uint32_t i = 0; i < run->kernel->constants.n && !run->stopped; i++) {
        const ConstParam *param = &run->kernel->constants.at[i];
        const char *define = find_define(run, param->name.text);
        RunValue value = {.kind = RUN_ERROR};
        int32_t chosen;
        if (define != NULL)
            value = defined_value(param, define);
        else if (param->is_auto &&
                 run->options->choose(run->options->choose_user, run->kernel->name.text,
                                      param->name.text, &chosen))
            value = run_int(chosen);
        else if (param->value != NULL)
            value = run_eval(run, param->value);
        if (value.kind == RUN_ERROR)
            run_fail(run, param->name.span, "E-INTERNAL: '%s' has no value", param->name.text);
        run_declare(run, param->name.text, value);
    }
}

/* ---- tensors ---- */

static RunTensor *
find_slot(Run *run, const char *name)
{
    for (uint32_t i = 0; i < run->tensors.n; i++)
        if (strcmp(run->tensors.at[i]->name, name) == 0)
            return run->tensors.at[i];
    return NULL;
}

static const InterpretArray *
find_input(const Run *run, const char *name)
{
    for (size_t i = 0; i < run->options->n_inputs; i++)
        if (strcmp(run->options->inputs[i].name, name) == 0)
            return &run->options->inputs[i];
    return NULL;
}

/* "float32", or for the bits of bf16 "uint16 (the bits)". */
static const char *
array_type_name(const Run *run, DType type)
{
    type = dtype_stored(type);
    NpyArray array = {.kind = dtype_npy(type), .bytes = (uint32_t)element_bytes(type)};
    const char *name = npy_type_name(run->arena, &array);

    return dtype_is_float(type) && array.kind == 'u'
               ? arena_printf(run->arena, "%s (the bits)", name)
               : name;
}

static const char *
shape_text(const Run *run, const InterpretArray *array)
{
    Buf out;

    buf_init(&out, run->arena);
    buf_add(&out, "[");
    for (uint32_t d = 0; d < array->rank; d++)
        buf_printf(&out, "%s%lld", d > 0 ? ", " : "", (long long)array->shape[d]);
    buf_add(&out, "]");
    return out.at;
}

/* Where the tensor's type is a parameter of the kernel: how to say that it is what the array
 * holds. */
static const char *
type_hint(const Run *run, const RunTensor *tensor, const Param *param)
{
    const InterpretArray *input = tensor->input;

    if (strcmp(param->type->base.text, dtype_name(tensor->type)) == 0)
        return "";
    for (int k = 0; k < DT_COUNT; k++) {
        const char *name = dtype_name((DType)k);
        if (dtype_has((DType)k, USE_TENSOR) && dtype_takes((DType)k, input->kind, input->bytes))
            return arena_printf(run->arena, "; -D %s=%s makes it %s", param->type->base.text, name,
                                name);
    }
    return "";
}

static bool
check_input(Run *run, const RunTensor *tensor, const Param *param)
{
    const InterpretArray *input = tensor->input;

    if (!dtype_takes(dtype_stored(tensor->type), input->kind, input->bytes)) {
        NpyArray given = {.kind = input->kind, .bytes = input->bytes};
        run_fail(run, param->name.span, "E-RUN-INPUT: %s is %s; its array must hold %s, not %s%s",
                 tensor->name, dtype_name(tensor->type), array_type_name(run, tensor->type),
                 npy_type_name(run->arena, &given), type_hint(run, tensor, param));
        return false;
    }
    if (input->rank != tensor->rank) {
        run_fail(run, param->name.span,
                 "E-RUN-INPUT: %s has %u dimension%s, but its array has %u: %s", tensor->name,
                 tensor->rank, tensor->rank == 1 ? "" : "s", input->rank, shape_text(run, input));
        return false;
    }
    return true;
}

/* What --set says of sizes that arrays have told must agree with them. */
static void
check_settings(Session *s)
{
    for (uint32_t i = 0; i < s->sizes.n && !s->run->stopped; i++) {
        const Size *size = &s->sizes.at[i];
        const char *given = run_setting(s->run, size->name);
        int64_t value;
        if (given != NULL && sizes_read(s->run, size->name, given, &value))
            sizes_set(s, (Span){0}, size->name, value, "--set");
    }
}

static bool
set_shape(Run *run, RunTensor *tensor, Span span, const int64_t *shape)
{
    uint64_t n = 1;

    for (uint32_t d = tensor->rank; d-- > 0;) {
        bool packed = dtype_has(tensor->type, USE_PACKED) && d + 1 == tensor->rank;
        uint64_t room = (uint64_t)shape[d] + (packed ? (uint64_t)shape[d] % 2 : 0);
        tensor->shape[d] = shape[d];
        tensor->stride[d] = (int64_t)n;
        if (room > 0 && n > TENSOR_MAX / room) {
            run_fail(run, span,
                     "E-RUN-LIMIT: %s is too large for the interpreter: at most %llu elements",
                     tensor->name, (unsigned long long)TENSOR_MAX);
            return false;
        }
        n *= room;
    }
    tensor->n = (size_t)n;
    tensor->shaped = true;
    return true;
}

/* Shapes of the tensors of the kernel that runs; those that nothing tells wait for the last
 * round. */
static bool
shape_tensors(Session *s, int round)
{
    bool must = round == SIZES_ROUNDS - 1;
    Run *run = s->run;

    for (uint32_t i = 0; i < run->kernel->params.n; i++) {
        const Param *param = &run->kernel->params.at[i];
        int64_t shape[RUN_TENSOR_RANK] = {0};
        bool known = true;
        if (param->mode == PARAM_VALUE)
            continue;
        RunTensor *tensor = find_slot(run, param->name.text);
        if (tensor->shaped) {
            if (!sizes_of_shape(s, tensor, param, round))
                return false;
            continue;
        }
        for (uint32_t d = 0; d < tensor->rank && known; d++)
            known = sizes_extent(s, param->type->dims.at[d].value, &shape[d]);
        if (run->stopped)
            return false;
        if (known && !set_shape(run, tensor, param->name.span, shape))
            return false;
        if (!known && must) {
            run_fail(
                run, param->name.span,
                "E-RUN-INPUT: the size of %s is not known: give an array with --in, or the size "
                "with --set NAME=N",
                tensor->name);
            return false;
        }
    }
    return true;
}

/* One slot for each name; kernels that share one must agree about it. */
static bool
add_tensor(Run *run, const Param *param)
{
    RunTensor *tensor = find_slot(run, param->name.text);
    uint32_t rank = param->type->dims.n;
    DType type;

    if (!run_find_type(run, param->type->base.text, &type))
        return run_fail(run, param->type->span, "E-INTERNAL: unknown type").kind != RUN_ERROR;
    if (tensor != NULL && (tensor->type != type || tensor->rank != rank)) {
        run_fail(run, param->name.span,
                 "E-RUN-INPUT: kernels of the file disagree about %s: run them one at a time with "
                 "--kernel",
                 tensor->name);
        return false;
    }
    if (tensor == NULL) {
        tensor = arena_new(run->arena, RunTensor);
        *tensor = (RunTensor){.name = param->name.text,
                              .span = param->name.span,
                              .mode = param->mode,
                              .type = type,
                              .rank = rank,
                              .input = find_input(run, param->name.text)};
        vec_push(run->arena, &run->tensors, tensor);
        if (tensor->input == NULL)
            return true;
        if (param->mode == PARAM_OUT && !run->options->keeps) {
            run_fail(run, param->name.span,
                     "E-RUN-INPUT: %s is only written: --in does not go with it", tensor->name);
            return false;
        }
        if (!check_input(run, tensor, param))
            return false;
        int64_t shape[RUN_TENSOR_RANK] = {0};
        memcpy(shape, tensor->input->shape, sizeof *shape * rank);
        if (dtype_has(type, USE_PACKED) && rank > 0)
            shape[rank - 1] *= 2; /* or one less (sizes_of_shape) */
        return set_shape(run, tensor, param->name.span, shape);
    }
    return true;
}

/* Memory for a tensor that its first kernel sees as `mode`. */
static bool
fill_tensor(Run *run, RunTensor *tensor, Span span)
{
    if (tensor->value != NULL)
        return true;
    if (tensor->mode == PARAM_IN && tensor->input == NULL) {
        run_fail(run, span, "E-RUN-INPUT: %s is read: give it with --in %s=FILE.npy", tensor->name,
                 tensor->name);
        return false;
    }
    tensor->value = arena_array(run->arena, double, tensor->n + 1);
    if (run->rounding.bounds) {
        tensor->error = arena_array(run->arena, double, tensor->n + 1);
        tensor->size = arena_array(run->arena, double, tensor->n + 1);
        tensor->grain = arena_array(run->arena, double, tensor->n + 1);
        tensor->additions = arena_array(run->arena, double, tensor->n + 1);
    }
    if (tensor->input != NULL)
        elements_read(tensor->type, tensor->input->data, tensor->n, tensor->value);
    if (tensor->mode == PARAM_OUT) /* also what its array has */
        tensor->undefined = memset(arena_alloc(run->arena, tensor->n + 1), 1, tensor->n);
    if (dtype_has(tensor->type, USE_PACKED))
        tensor->covered = arena_array(run->arena, uint8_t, tensor->n + 1);
    int64_t last = tensor->shape[tensor->rank - 1];
    for (size_t i = 0; i < tensor->n && tensor->covered != NULL && tensor->undefined != NULL; i++)
        tensor->undefined[i] = (int64_t)(i % (uint64_t)(last + last % 2)) < last;
    return true;
}

/* ---- one kernel ---- */

static void
declare_tensors(Session *s)
{
    Run *run = s->run;

    for (uint32_t i = 0; i < run->kernel->params.n; i++) {
        const Param *param = &run->kernel->params.at[i];
        if (param->mode == PARAM_VALUE)
            continue;
        RunTensor *tensor = find_slot(run, param->name.text);
        for (uint32_t d = 0; d < tensor->rank; d++)
            sizes_declare(s, param->type->dims.at[d].value);
        run_declare(run, param->name.text, (RunValue){.kind = RUN_TENSOR, .tensor = tensor});
    }
}

static bool
declare_scalar(Run *run, const Param *param)
{
    const char *text = run_setting(run, param->name.text), *word;
    DType type;
    double value;
    char *end;

    if (text == NULL) {
        run_fail(run, param->name.span, "E-RUN-INPUT: %s has no value: give it with --set %s=VALUE",
                 param->name.text, param->name.text);
        return false;
    }
    errno = 0;
    run_find_type(run, param->type->base.text, &type);
    value = dtype_is_float(type) ? strtod(text, &end) : (double)strtoll(text, &end, 0);
    word = dtype_is_float(type) ? "a number" : "an integer of 32 bits";
    if (end == text || *end != '\0' ||
        (!dtype_is_float(type) &&
         (errno != 0 || value < dtype_lowest(type) || value > dtype_highest(type)))) {
        run_fail(run, (Span){0}, "E-RUN-INPUT: --set %s=%s: expected %s", param->name.text, text,
                 word);
        return false;
    }
    run_declare(run, param->name.text, scalar_value(run, type, num_of(round_to(type, value))));
    return true;
}

/* Program number `at` of the order that the seed gives: every number once. */
static uint64_t
program_at(uint64_t seed, uint64_t total, uint64_t at)
{
    uint64_t state = seed * 6364136223846793005U + 1442695040888963407U;
    uint64_t step = (state >> 33) % total, start = (state >> 11) % total;

    if (seed == 0 || total < 2)
        return at;
    for (;; step = (step + 1) % total) { /* a step that has no divisor with the total */
        uint64_t a = total, b = step;
        while (b != 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return (start + (uint64_t)((__uint128_t)at * step % total)) % total;
    }
}

static void
run_program(Run *run, uint64_t program)
{
    RunBinding *scope = run->frame->bindings;

    run->program = program;
    for (uint32_t i = 0; i < run->n_axes; i++) {
        run->index[i] = (int64_t)(program % (uint64_t)run->extent[i]);
        program /= (uint64_t)run->extent[i];
    }
    run->temps.n = 0;
    run->loose = run->in_rows = 0;
    run->behind_rows = run->sees_rows = false;
    run->any_order = 0;
    run->frame->returned = false; /* by the program before */
    run->rounding.loose = run->rounding.any_order = false;
    if (!run_works(run, run->kernel->name.span, 1))
        return;
    heap_collect(run);
    run_block(run, run->kernel->body);
    run_leave(run, scope);
}

static void
run_grid_programs(Run *run)
{
    uint64_t total = 1;

    run->setup = true;
    run->frame->returned = false; /* by the last program of the kernel before */
    run->n_axes = 0;
    run->has_grid = false;
    memset(run->index, 0, sizeof run->index);
    run_block(run, run->kernel->body);
    run->setup = run->muted = false;
    run->stopped = run->failed;
    for (uint32_t i = 0; i < run->n_axes && total < (uint64_t)1 << 40; i++)
        total *= (uint64_t)run->extent[i];
    if (!run->stopped && total >= TOUCHED_MANY)
        run_fail(run, run->kernel->name.span, "E-RUN-LIMIT: kernel '%s' has too many programs",
                 run->kernel->name.text);
    for (uint64_t i = 0; i < total && !run->stopped; i++)
        run_program(run, program_at(run->options->seed, total, i));
}

static void
forget_touches(Run *run)
{
    run->used.n = 0;
    for (uint32_t i = 0; i < run->kernel->params.n; i++) {
        const Param *param = &run->kernel->params.at[i];
        if (param->mode == PARAM_VALUE)
            continue;
        RunTensor *tensor = find_slot(run, param->name.text);
        vec_push(run->arena, &run->used, tensor);
        tensor->mode = param->mode;
        if (tensor->touched == NULL && param->mode != PARAM_IN)
            tensor->touched = arena_array(run->arena, Touched, tensor->n + 1);
        else if (tensor->touched != NULL)
            memset(tensor->touched, 0, tensor->n * sizeof *tensor->touched);
    }
}

static void
run_kernel(Session *s)
{
    Run *run = s->run;

    for (uint32_t i = 0; i < run->kernel->params.n && !run->stopped; i++)
        if (run->kernel->params.at[i].mode != PARAM_VALUE)
            fill_tensor(run, find_slot(run, run->kernel->params.at[i].name.text),
                        run->kernel->params.at[i].name.span);
    if (run->stopped)
        return;
    forget_touches(run);
    declare_tensors(s);
    for (uint32_t i = 0; i < run->kernel->params.n && !run->stopped; i++)
        if (run->kernel->params.at[i].mode == PARAM_VALUE)
            declare_scalar(run, &run->kernel->params.at[i]);
    if (!run->stopped)
        run_grid_programs(run);
}

/* ---- all kernels ---- */

/* The compile-time parameters of kernel `k` become names, and nothing else is. */
static void
enter_kernel(Session *s, uint32_t k)
{
    run_leave(s->run, NULL);
    s->run->kernel = s->kernels.at[k];
    s->run->depth = 0;
    bind_constants(s->run);
}

typedef VEC(const char *) KnownNames;

static bool
is_listed(const KnownNames *names, const char *name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (strcmp(names->at[i], name) == 0)
            return true;
    return false;
}

static void
list_name(Run *run, KnownNames *names, const char *name)
{
    if (!is_listed(names, name))
        vec_push(run->arena, names, name);
}

static bool
is_constant(const Kernel *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->constants.n; i++)
        if (strcmp(kernel->constants.at[i].name.text, name) == 0)
            return true;
    return false;
}

/* The sizes that a dimension names. */
static void
list_names(Run *run, KnownNames *names, const Kernel *kernel, const Expr *dim)
{
    if (dim == NULL)
        return;
    if (dim->kind == EXPR_NAME && !is_constant(kernel, dim->text))
        list_name(run, names, dim->text);
    list_names(run, names, kernel, dim->a);
    list_names(run, names, kernel, dim->b);
    for (uint32_t i = 0; i < dim->args.n; i++)
        list_names(run, names, kernel, dim->args.at[i].value);
}

/* The tensors of all kernels; or what --set may name, their sizes and the scalars. */
static KnownNames
known_names(const Session *s, bool tensors)
{
    KnownNames names = {0};

    for (uint32_t k = 0; k < s->kernels.n; k++) {
        const Kernel *kernel = s->kernels.at[k];
        for (uint32_t i = 0; i < kernel->params.n; i++) {
            const Param *param = &kernel->params.at[i];
            if ((param->mode != PARAM_VALUE) == tensors)
                list_name(s->run, &names, param->name.text);
            for (uint32_t d = 0; !tensors && param->mode != PARAM_VALUE && d < param->type->dims.n;
                 d++) {
                list_names(s->run, &names, kernel, param->type->dims.at[d].value);
            }
        }
    }
    return names;
}

static void
check_name(const Session *s, const KnownNames *names, const char *flag, const char *name,
           const char *what)
{
    Buf list;

    if (is_listed(names, name))
        return;
    buf_init(&list, s->run->arena);
    for (uint32_t i = 0; i < names->n; i++)
        buf_printf(&list, "%s%s", i > 0 ? ", " : "", names->at[i]);
    diag_error(s->run->diag, (Span){0}, "E-RUN-INPUT: %s %s: there is no such %s; the file has %s",
               flag, name, what, names->n == 0 ? "none" : list.at);
}

static bool
check_names(const Session *s)
{
    const Interpret *options = s->run->options;
    KnownNames tensors = known_names(s, true), values = known_names(s, false);

    for (size_t i = 0; i < options->n_inputs; i++) {
        check_name(s, &tensors, "--in", options->inputs[i].name, "tensor");
        for (size_t k = 0; k < i; k++)
            if (strcmp(options->inputs[i].name, options->inputs[k].name) == 0)
                diag_error(s->run->diag, (Span){0}, "E-RUN-INPUT: --in %s is given twice",
                           options->inputs[i].name);
    }
    for (size_t i = 0; i < options->n_outputs; i++)
        check_name(s, &tensors, "--out", options->outputs[i], "tensor");
    for (size_t i = 0; i < options->n_sets; i++)
        check_name(s, &values, "--set", options->sets[i].name, "size or scalar");
    return s->run->diag->errors == 0;
}

static void
take_output(Run *run, const RunTensor *tensor, InterpretArray *out)
{
    DType held = dtype_stored(tensor->type);
    bool packed = held != tensor->type;
    size_t total = elements_bytes(tensor->type, tensor->n);
    void *data = arena_alloc(run->arena, total + 1);
    size_t missing = 0;

    *out = (InterpretArray){.name = tensor->name,
                            .kind = dtype_npy(held),
                            .bytes = (uint32_t)element_bytes(held),
                            .rank = tensor->rank,
                            .total = total,
                            .data = data};
    for (uint32_t d = 0; d < tensor->rank; d++)
        out->shape[d] = packed && d + 1 == tensor->rank ? (tensor->shape[d] + 1) / 2
                                                        : tensor->shape[d];
    elements_write(tensor->type, tensor->value, tensor->n, data);
    for (size_t i = 0; i < tensor->n && tensor->undefined != NULL; i++)
        missing += tensor->undefined[i];
    if (missing > 0 && tensor->input == NULL)
        diag_warning(run->diag, tensor->span, "%zu of %zu elements of %s were not written", missing,
                     tensor->n, tensor->name);
    if (!run->rounding.bounds)
        return;
    double *tolerance = arena_array(run->arena, double, tensor->n + 1);
    size_t unknown = 0;
    for (size_t i = 0; i < tensor->n; i++) {
        double value = tensor->value[i], stored = round_to(tensor->type, value);
        tolerance[i] = tensor->wild ? INFINITY : tensor->error[i];
        if (stored != value && isfinite(stored)) /* the result is rounded in a file */
            tolerance[i] += fabs(stored - value);
        unknown += isinf(tolerance[i]) != 0;
    }
    if (unknown > 0)
        diag_warning(
            run->diag, tensor->span,
            "%zu of %zu elements of %s have no tolerance: nothing is known of what rounding makes of them",
            unknown, tensor->n, tensor->name);
    for (size_t i = 0; i + 1 < tensor->n && packed; i += 2) /* of bytes: none, or any */
        tolerance[i / 2] = tolerance[i] + tolerance[i + 1] > 0 ? INFINITY : 0;
    out->tolerance = tolerance;
}

static void
run_all(Session *s)
{
    Run *run = s->run;

    for (uint32_t k = 0; k < s->kernels.n && !run->stopped; k++) {
        enter_kernel(s, k);
        for (uint32_t i = 0; i < run->kernel->params.n && !run->stopped; i++)
            if (run->kernel->params.at[i].mode != PARAM_VALUE)
                add_tensor(run, &run->kernel->params.at[i]);
    }
    /* sizes that one kernel's tensors tell may be those of another's */
    for (int round = 0; round < SIZES_ROUNDS; round++)
        for (uint32_t k = 0; k < s->kernels.n && !run->stopped; k++) {
            enter_kernel(s, k);
            if (!run->stopped)
                shape_tensors(s, round);
        }
    if (!run->stopped)
        check_settings(s);
    for (uint32_t k = 0; k < s->kernels.n && !run->stopped; k++) {
        enter_kernel(s, k);
        if (!run->stopped)
            run_kernel(s);
    }
}

bool
interpret(const Interpret *options, InterpretArray *results)
{
    Run *run = arena_new(options->arena, Run);
    RunFrame *frame = arena_new(options->arena, RunFrame);
    Session s = {.run = run};

    *run = (Run){.options = options,
                 .arena = options->arena,
                 .diag = options->diag,
                 .ast = options->ast,
                 .frame = frame,
                 .heap = options->heap,
                 .rounding = {.bounds = options->tolerance}};
    for (uint32_t k = 0; k < run->ast->kernels.n; k++)
        if (options->kernel == NULL ||
            strcmp(options->kernel, run->ast->kernels.at[k]->name.text) == 0)
            vec_push(run->arena, &s.kernels, run->ast->kernels.at[k]);
    if (s.kernels.n > 0 && check_names(&s))
        run_all(&s);
    bool ok = !run->stopped && run->diag->errors == 0;
    for (size_t i = 0; i < options->n_outputs && ok; i++)
        take_output(run, find_slot(run, options->outputs[i]), &results[i]);
    interpret_free(options);
    return ok;
}
