/* front.c - source text to tile IR: finds the modules of `use`, parses, checks, lowers. */
#include "compiler/base/near.h"
#include "compiler/front/front.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/front/ast_to_tir.h"
#include "dsl/builtins.h"
#include "dsl/dsl.h"
#include "dsl/lint.h"
#include "dsl/format.h"
#include "stdlib/stdlib.h"

typedef struct Modules {
    Arena *arena;
    const TilecOptions *options;
} Modules;

/* The caller's files first, so that a user can replace any module; then our own library. */
static bool
load_module(void *user, const char *name, const char **path, const char **text, size_t *n)
{
    const Modules *modules = user;
    const TilecOptions *options = modules->options;

    if (options->import != NULL && options->import(options->import_user, name, path, text, n)) {
        *path = *path == NULL ? name : *path;
        *text = *text == NULL && *n == 0 ? "" : *text;
        return *text != NULL;
    }
    for (size_t k = 0; k < stdlib_file_count; k++) {
        if (strcmp(stdlib_files[k].name, name) == 0) {
            *path = arena_printf(modules->arena, "<stdlib>/%s.tile", name);
            *text = stdlib_files[k].text;
            *n = stdlib_files[k].n;
            return true;
        }
    }
    return false;
}

static const char *
near_module(const char *name)
{
    for (size_t k = 0; k < stdlib_file_count; k++)
        if (word_is_near(name, word_distance(name, stdlib_files[k].name)))
            return stdlib_files[k].name;
    return NULL;
}

/* A function that has the name of a built-in one takes its place: a built-in function that is new
 * in the language changes no program. */
static void
warn_of_names(Diag *diag, const Module *module)
{
    for (uint32_t i = 0; i < module->items.n && !dsl_is_library(module->file); i++) {
        const Item *item = &module->items.at[i];
        if (item->kind == ITEM_FUNCTION && builtin_find(item->function->name.text) != BUILTIN_COUNT)
            diag_warning(diag, item->function->name.span,
                         "'%s' is called in place of the built-in function of that name",
                         item->function->name.text);
    }
}

/* What is done about a kind of lint. */
static TilecAction
action_of(const TilecOptions *options, LintKind kind)
{
    switch (kind) {
    case LINT_UNUSED: return options->unused;
    case LINT_DIMENSION: return options->dimension;
    case LINT_BROADCAST: return options->broadcast;
    case LINT_REPEATED: return options->repeated;
    default: return options->order == TILEC_AS_USUAL ? TILEC_IGNORE : options->order;
    }
}

/* A lint that the options make an error. */
static void
refuse(Diag *diag, const Lint *one)
{
    switch (one->kind) {
    case LINT_UNUSED:
        diag_error(diag, one->span, "E-UNUSED-NAME: %s [-Werror=unused]", one->text);
        return;
    case LINT_DIMENSION:
        diag_error(diag, one->span, "E-DIMENSION: %s [-Werror=dimension]", one->text);
        return;
    case LINT_BROADCAST:
        diag_error(diag, one->span, "E-BROADCAST: %s [-Werror=broadcast]", one->text);
        return;
    case LINT_REPEATED:
        diag_error(diag, one->span, "E-REPEATED: %s [-Werror=repeated]", one->text);
        return;
    default: diag_error(diag, one->span, "E-ORDER: %s [-Werror=order]", one->text);
    }
}

/* What is most likely a mistake, as the options say; `more`: besides what the tree shows. */
static void
lint(const Front *front, const LintList *more)
{
    static const char *const names[LINT_KINDS] = {"unused", "dimension", "broadcast", "repeated",
                                                  "order"};
    LintList found = dsl_lint(front->arena, front->ast);

    for (uint32_t k = 0; more != NULL && k < more->n; k++)
        vec_push(front->arena, &found, more->at[k]);
    dsl_sort_lints(&found);
    for (uint32_t k = 0; k < found.n; k++) {
        const Lint *one = &found.at[k];
        TilecAction action = action_of(front->options, one->kind);
        if (action == TILEC_FAIL)
            refuse(front->diag, one);
        else if (action != TILEC_IGNORE)
            diag_warning(front->diag, one->span, "%s [-W%s]", one->text, names[one->kind]);
    }
}

bool
front_parse(Front *front, const SourceFile *file)
{
    Modules modules = {front->arena, front->options};
    DslLoader loader = {load_module, near_module, &modules};

    if (front->options->emit == TILEC_EMIT_FORMATTED) {
        front->ast = arena_new(front->arena, Ast);
        front->ast->main = dsl_parse_module(front->arena, front->diag, file);
    } else {
        front->ast = dsl_parse(front->arena, front->diag, file, &loader);
    }
    for (uint32_t i = 0; i < front->ast->modules.n; i++)
        warn_of_names(front->diag, front->ast->modules.at[i]);
    if (front->options->emit == TILEC_EMIT_AST && front->diag->errors == 0)
        lint(front, NULL);
    return front->diag->errors == 0;
}

void
front_print(const Front *front, const SourceFile *file, Buf *out, Buf *bugs)
{
    if (front->options->emit != TILEC_EMIT_FORMATTED)
        ast_print(front->ast->main, out);
    else if (!dsl_format(front->arena, file, out))
        buf_printf(bugs, "the layout of %s changes the program\n", file->path);
}

static const char *
module_of(void *user, const char *function)
{
    (void)user;
    for (size_t k = 0; k < stdlib_file_count; k++) {
        const char *at = stdlib_files[k].text;
        while ((at = strstr(at, "\nfn ")) != NULL) {
            size_t n = strlen(function);
            at += strlen("\nfn ");
            if (strncmp(at, function, n) == 0 && at[n] == '(')
                return stdlib_files[k].name;
        }
    }
    return NULL;
}

/* Chooses `param` of `kernel`; `user` is an AutoTiles.  Asked in the order in which parameters are
 * declared. */
static bool
choose_open(void *user, const char *kernel, const char *param, int32_t *value)
{
    AutoTiles *tiles = user;

    if (tiles->kernel == NULL || strcmp(tiles->kernel, kernel) != 0) {
        tiles->kernel = kernel;
        tiles->asked = 0;
    }
    uint32_t k = tiles->asked < MAX_AUTO ? tiles->asked : MAX_AUTO - 1;
    tiles->names[k] = param;
    *value = tiles->open.values != NULL ? tiles->open.values[k] : tiles->middling;
    tiles->asked++;
    return true;
}

static TirModule *
instantiate(const Front *front, const char *kernel, AutoTiles *tiles, LintList *lints)
{
    const TilecOptions *options = front->options;
    Define *defines = arena_array(front->arena, Define, options->n_defines + 1);
    Define *sizes = arena_array(front->arena, Define, options->n_sizes + 1);
    uint32_t errors = front->diag->errors;

    for (size_t k = 0; k < options->n_sizes; k++)
        sizes[k] = (Define){options->sizes[k].name, options->sizes[k].value};
    for (size_t k = 0; k < options->n_defines; k++) {
        const char *name = options->defines[k].name, *value = options->defines[k].value;
        if (name == tiles->open.replaced)
            value = tiles->open.replacement;
        defines[k] = (Define){name, value};
    }
    AstToTir lowering = {
        .arena = front->arena,
        .diag = front->diag,
        .ast = front->ast,
        .defines = defines,
        .n_defines = (uint32_t)options->n_defines,
        .sizes = sizes,
        .n_sizes = (uint32_t)options->n_sizes,
        .kernel = kernel,
        .choose = choose_open,
        .user = tiles,
        .module_of = module_of,
        .warps = options->warps,
        .lints = lints,
        .ignore_debug = options->ignore_debug || front->declared != NULL,
        .declared = front->declared,
        .declared_user = front->user,
    };
    TirModule *module = arena_new(front->arena, TirModule);
    module->arena = front->arena;
    module->diag = front->diag;
    return ast_to_tir(&lowering, module) && front->diag->errors == errors ? module : NULL;
}

const int32_t front_middling[FRONT_MIDDLING] = {64, 16, 1};

/* What is `auto` and has no value is middling: smaller where tiles are too large else.  Messages
 * are those of the first try. */
static TirModule *
instantiate_open(const Front *front, const char *kernel, AutoTiles *tiles, LintList *lints)
{
    DiagMark before = diag_mark(front->diag);
    uint32_t n_lints = lints != NULL ? lints->n : 0;

    for (uint32_t k = 0; k < FRONT_MIDDLING; k++) {
        tiles->middling = front_middling[k];
        TirModule *module = instantiate(front, kernel, tiles, lints);
        if (module != NULL || tiles->asked == 0 || tiles->open.values != NULL)
            return module;
        diag_rewind(front->diag, before);
        if (lints != NULL)
            lints->n = n_lints;
    }
    tiles->middling = front_middling[0];
    return instantiate(front, kernel, tiles, lints);
}

TirModule *
front_module(const Front *front)
{
    AutoTiles tiles = {0};
    LintList lints = {0};
    TirModule *module = instantiate_open(front, front->options->kernel, &tiles, &lints);

    if (module != NULL) /* what is unused in a wrong program may be so by its error */
        lint(front, &lints);
    return module;
}

const TirFn *
front_made(const Front *front, const char *name, AutoTiles *asked)
{
    const TirFn *found = NULL;
    AutoTiles tiles = {.middling = front_middling[0]};

    for (uint32_t k = 0; front->made != NULL && k < front->made->fns.n; k++)
        if (strcmp(front->made->fns.at[k]->name, name) == 0)
            found = front->made->fns.at[k];
    if (found == NULL || found->after != NULL)
        return NULL;
    for (uint32_t k = 0; k < found->constants.n; k++) {
        const TirConstant *constant = &found->constants.at[k];
        int32_t value;
        if (!constant->is_open)
            continue;
        choose_open(&tiles, found->name, constant->name, &value);
        if (strtol(constant->value, NULL, 10) != value)
            return NULL;
    }
    *asked = tiles;
    return found;
}

TirFn *
front_kernel(const Front *front, const char *name, const OpenValues *open, AutoTiles *asked)
{
    AutoTiles tiles = {.open = open != NULL ? *open : (OpenValues){0}};
    TirModule *module = instantiate_open(front, name, &tiles, NULL);

    if (asked != NULL)
        *asked = tiles;
    return module != NULL && module->fns.n == 1 ? module->fns.at[0] : NULL;
}

uint32_t
front_autos(const Front *front, const char *kernel, const char **names, uint32_t most)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < front->ast->kernels.n; k++) {
        const Kernel *declared = front->ast->kernels.at[k];
        if (strcmp(declared->name.text, kernel) != 0)
            continue;
        for (uint32_t j = 0; j < declared->constants.n && n < most; j++) {
            if (declared->constants.at[j].is_auto)
                names[n++] = declared->constants.at[j].name.text;
        }
    }
    return n;
}

bool
auto_is_open(const AutoTiles *open, const char *name)
{
    for (uint32_t k = 0; k < open->asked && k < MAX_AUTO; k++) {
        if (strcmp(open->names[k], name) == 0)
            return true;
    }
    return false;
}
