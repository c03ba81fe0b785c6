/* tilec_run.c - tilec_run: the front end's checks, then the reference interpreter.
 *
 * The front end makes tile IR, which refuses wrong programs and settles what is `auto`; nothing
 * else of it is used.  When the allocator fails, arenas and the interpreter jump to the setjmp
 * here.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/driver/arguments.h"
#include "compiler/front/front.h"
#include "compiler/target.h"
#include "compiler/tilec.h"
#include "dsl/interpret.h"

typedef struct Execution {
    Arena arena;
    jmp_buf on_failure;
    Diag diag;
    const TilecOptions *options;
    const TilecRun *asked;
    const char *path, *text;
    size_t n;
    TirModule *module;
    InterpretHeap heap;
    Interpret task;
} Execution;

/* What the front end took for a parameter that is `auto`. */
static bool
chosen(void *user, const char *kernel, const char *param, int32_t *value)
{
    const Execution *x = user;

    for (uint32_t k = 0; k < x->module->fns.n; k++) {
        const TirFn *fn = x->module->fns.at[k];
        for (uint32_t i = 0; i < fn->constants.n && strcmp(fn->name, kernel) == 0; i++) {
            if (strcmp(fn->constants.at[i].name, param) != 0)
                continue;
            *value = (int32_t)strtol(fn->constants.at[i].value, NULL, 10);
            return true;
        }
    }
    return false;
}

static InterpretSetting *
settings(Execution *x, const TilecDefine *from, size_t n)
{
    InterpretSetting *out = arena_array(&x->arena, InterpretSetting, n + 1);

    for (size_t k = 0; k < n; k++)
        out[k] = (InterpretSetting){from[k].name, from[k].value};
    return out;
}

static InterpretArray *
inputs(Execution *x)
{
    InterpretArray *out = arena_array(&x->arena, InterpretArray, x->asked->n_inputs + 1);

    for (size_t k = 0; k < x->asked->n_inputs; k++) {
        const TilecArray *from = &x->asked->inputs[k];
        out[k] = (InterpretArray){.name = from->name,
                                  .kind = from->kind,
                                  .bytes = from->bytes,
                                  .rank = from->rank,
                                  .total = from->total,
                                  .data = from->data};
        memcpy(out[k].shape, from->shape, sizeof out[k].shape);
    }
    return out;
}

static TilecArray *
outputs(Execution *x, const InterpretArray *from)
{
    TilecArray *out = arena_array(&x->arena, TilecArray, x->asked->n_outputs + 1);

    for (size_t k = 0; k < x->asked->n_outputs; k++) {
        out[k] = (TilecArray){.name = from[k].name,
                              .kind = from[k].kind,
                              .bytes = from[k].bytes,
                              .rank = from[k].rank,
                              .total = from[k].total,
                              .data = from[k].data,
                              .tolerance = from[k].tolerance};
        memcpy(out[k].shape, from[k].shape, sizeof out[k].shape);
    }
    return out;
}

/* True when the front end takes the program. */
static bool
check(Execution *x, const Ast **ast)
{
    if (x->n >= UINT32_MAX / 4) {
        diag_error(&x->diag, (Span){0}, "E-FILE: %s is too large", x->path);
        return false;
    }
    const SourceFile *file = diag_add_file(&x->diag, x->path, x->text, x->n);
    TilecOptions *options = arena_copy(&x->arena, x->options, sizeof *x->options);
    options->ignore_debug = true;     /* the interpreter runs those statements itself */
    options->repeated = TILEC_IGNORE; /* .. and has no threads */
    Front front = {.arena = &x->arena, .diag = &x->diag, .options = options};
    if (!front_parse(&front, file))
        return false;
    x->module = front_module(&front);
    *ast = front.ast;
    return x->module != NULL && x->diag.errors == 0;
}

/* How products are summed; false after an error. */
static bool
find_sums(Execution *x, const InterpretSums **out)
{
    const char *name = x->asked->sums, *known = "";

    if (name == NULL)
        return true;
    const Target *target = target_find(name);
    for (uint32_t k = 0; k < tilec_target_count; k++)
        if (tilec_targets[k]->product_sums.bits > 0)
            known = arena_printf(&x->arena, "%s%s%s", known, *known ? ", " : "",
                                 tilec_targets[k]->name);
    if (target == NULL || target->product_sums.bits == 0) {
        diag_error(&x->diag, (Span){0},
                   "E-OPTION: --sums=%s: how products are summed is known, bit by bit, for %s",
                   name, known);
        return false;
    }
    if (x->asked->tolerance) {
        diag_error(
            &x->diag, (Span){0},
            "E-OPTION: --sums and --tolerance: tolerances are for the sums of every chip; ask for one of them");
        return false;
    }
    const MmaForm *narrow = target_mma(target, BY_WARP_GROUP, DT_E4M3, DT_E4M3);
    InterpretSums sums = {.bytes = target->product_sums.bytes,
                          .part = narrow != NULL ? (uint32_t)narrow->sums : 0,
                          .bits = target->product_sums.bits,
                          .narrow_bits = target->product_sums.narrow_bits};
    *out = arena_copy(&x->arena, &sums, sizeof sums);
    return true;
}

static void
execute(Execution *x, TilecRunResult *result)
{
    const TilecRun *asked = x->asked;
    static const InterpretNan nans[] = {[TILEC_NAN_NOTE] = INTERPRET_NAN_NOTE,
                                        [TILEC_NAN_IGNORE] = INTERPRET_NAN_IGNORE,
                                        [TILEC_NAN_ERROR] = INTERPRET_NAN_ERROR};
    const Ast *ast;
    const InterpretSums *sums = NULL;

    if (!check(x, &ast) || !find_sums(x, &sums))
        return;
    InterpretArray *results = arena_array(&x->arena, InterpretArray, asked->n_outputs + 1);
    x->task = (Interpret){
        .arena = &x->arena,
        .allocator = x->arena.allocator,
        .heap = &x->heap,
        .diag = &x->diag,
        .ast = ast,
        .kernel = x->options->kernel,
        .defines = settings(x, x->options->defines, x->options->n_defines),
        .n_defines = x->options->n_defines,
        .sets = settings(x, asked->sets, asked->n_sets),
        .n_sets = asked->n_sets,
        .inputs = inputs(x),
        .n_inputs = asked->n_inputs,
        .outputs = asked->outputs,
        .n_outputs = asked->n_outputs,
        .sums = sums,
        .tolerance = asked->tolerance,
        .keeps = asked->keeps,
        .seed = asked->seed,
        .nan = nans[asked->nan],
        .work_limit = asked->work_limit,
        .choose = chosen,
        .choose_user = x,
        .print = asked->print,
        .print_user = asked->print_user,
    };
    if (interpret(&x->task, results))
        result->outputs = outputs(x, results);
}

/* Nothing here changes a local variable after setjmp. */
static void
guarded(Execution *x, TilecRunResult *result)
{
    Buf messages;

    if (setjmp(x->on_failure) != 0) {
        if (x->task.heap != NULL)
            interpret_free(&x->task);
        arena_free(&x->arena);
        *result = (TilecRunResult){.status = TILEC_OUT_OF_MEMORY,
                                   .messages = "tilec: error: out of memory [E-MEMORY]\n",
                                   .storage = x};
        return;
    }
    diag_init(&x->diag, &x->arena);
    execute(x, result);
    buf_init(&messages, &x->arena);
    diag_print(&x->diag, &messages);
    result->messages = messages.at == NULL ? "" : messages.at;
    result->status = x->diag.errors > 0 ? TILEC_ERROR : TILEC_OK;
}

TilecStatus
tilec_run(const TilecOptions *options, const TilecRun *asked, const char *path, const char *text,
          size_t n, TilecRunResult *result)
{
    const char *missing = arguments_missing(options, path, text, n);
    Allocator allocator = allocator_libc();

    if (missing == NULL)
        missing = arguments_missing_run(asked);
    if (missing != NULL && result != NULL)
        *result = (TilecRunResult){.status = TILEC_ERROR, .messages = missing};
    if (missing != NULL || result == NULL)
        return TILEC_ERROR;
    const TilecAllocator *given = options->allocator;
    if (given != NULL)
        allocator = (Allocator){given->allocate, given->release, given->user};
    *result = (TilecRunResult){.status = TILEC_OUT_OF_MEMORY,
                               .messages = "tilec: error: out of memory [E-MEMORY]\n"};
    Execution *x = allocator.allocate(allocator.user, sizeof *x);
    if (x == NULL)
        return result->status;
    *x = (Execution){
        .options = options, .asked = asked, .path = path, .text = text == NULL ? "" : text, .n = n};
    arena_init(&x->arena, allocator, &x->on_failure);
    result->storage = x;
    guarded(x, result);
    return result->status;
}

void
tilec_run_free(TilecRunResult *result)
{
    Execution *x = result != NULL ? result->storage : NULL;

    if (x != NULL) {
        Allocator allocator = x->arena.allocator;
        arena_free(&x->arena);
        allocator.release(allocator.user, x);
    }
    if (result != NULL)
        *result = (TilecRunResult){.messages = ""};
}
