/* dsl.c - parses a program: the main file and every module it uses. */
#include "dsl/dsl.h"

#include <string.h>

#include "dsl/parser.h"
#include "tile.tab.h"

/* made by flex (tile.l) */
typedef struct yy_buffer_state *LexBuffer;
int tile_lex_lex_init_extra(Parser *parser, void **scanner);
int tile_lex_lex_destroy(void *scanner);
LexBuffer tile_lex__scan_bytes(const char *bytes, int n, void *scanner);

Module *
dsl_parse_module(Arena *arena, Diag *diag, const SourceFile *file)
{
    Parser parser = {.arena = arena, .diag = diag, .file = file};
    void *scanner;

    parser.module = arena_new(arena, Module);
    parser.module->file = file;
    tile_lex_lex_init_extra(&parser, &scanner);
    parser.offset = file_mark(file);
    tile_lex__scan_bytes(file->text + parser.offset, (int)(file->n - parser.offset), scanner);
    tile_parse_parse(&parser, scanner);
    tile_lex_lex_destroy(scanner);
    return parser.module;
}

bool
dsl_is_library(const SourceFile *file)
{
    static const char prefix[] = "<stdlib>/";

    return strncmp(file->path, prefix, sizeof prefix - 1) == 0;
}

/* The file of a place. */
static const SourceFile *
file_of(const Ast *ast, Span span)
{
    for (uint32_t i = 0; i < ast->modules.n; i++) {
        const SourceFile *file = ast->modules.at[i]->file;
        if (span.lo >= file->base && span.lo <= file->base + file->n)
            return file;
    }
    return ast->main->file;
}

/* Names with different bits differ. */
static uint64_t
letters_bit(const char *name)
{
    uint32_t hash = (unsigned char)name[0];

    hash = 5 * hash + (hash != 0 ? (unsigned char)name[1] : 0);
    return (uint64_t)1 << hash % 64;
}

const Function *
dsl_called(const Ast *ast, const Expr *call, bool builtin)
{
    if ((ast->letters & letters_bit(call->text)) == 0)
        return NULL;
    for (uint32_t i = 0; i < ast->functions.n; i++) {
        const Function *function = ast->functions.at[i];
        if (!same_text(function->name.text, call->text))
            continue;
        bool hidden = builtin && dsl_is_library(file_of(ast, call->span)) &&
                      !dsl_is_library(file_of(ast, function->name.span));
        return hidden ? NULL : function;
    }
    return NULL;
}

const Expr *
dsl_argument(const Expr *call, uint32_t at)
{
    uint32_t i = 0;

    while (call->args.at[i].name != NULL || at-- > 0)
        i++;
    return call->args.at[i].value;
}

const char *
dsl_returned_name(const Function *function, uint32_t k, uint32_t n)
{
    const Block *body = function->body;
    const Stmt *last = body->stmts.n > 0 ? body->stmts.at[body->stmts.n - 1] : NULL;
    bool tuple = last != NULL && last->kind == STMT_RETURN && last->a != NULL &&
                 last->a->kind == EXPR_TUPLE && last->a->args.n == n;

    return tuple ? last->a->args.at[k].name : NULL;
}

/* What is being loaded: the modules so far, to load each once. */
typedef struct Loading {
    Arena *arena;
    Diag *diag;
    const DslLoader *loader;
    Ast *ast;
    VEC(const char *) names; /* of modules used so far */
} Loading;

static void add_module(Loading *loading, Module *module, bool is_main);

static void
use_module(Loading *loading, const Name *name)
{
    const char *path = NULL, *text = NULL;
    size_t n = 0;

    for (uint32_t i = 0; i < loading->names.n; i++)
        if (strcmp(loading->names.at[i], name->text) == 0)
            return;
    vec_push(loading->arena, &loading->names, name->text);
    if (loading->loader == NULL || loading->loader->load == NULL ||
        !loading->loader->load(loading->loader->user, name->text, &path, &text, &n)) {
        const char *near = loading->loader == NULL || loading->loader->near == NULL
                               ? NULL
                               : loading->loader->near(name->text);
        diag_error(
            loading->diag, name->span,
            "E-MODULE: there is no module '%s': no file %s.tile beside this one, in a folder given "
            "with -I, or in the standard library%s%s%s",
            name->text, name->text, near == NULL ? "" : "; did you mean '",
            near == NULL ? "" : near, near == NULL ? "" : "'?");
        return;
    }
    const SourceFile *file = diag_add_file(loading->diag, path, text, n);
    add_module(loading, dsl_parse_module(loading->arena, loading->diag, file), false);
}

static void
add_function(Loading *loading, Function *function)
{
    Ast *ast = loading->ast;

    for (uint32_t i = 0; i < ast->functions.n; i++) {
        const Function *other = ast->functions.at[i];
        if (strcmp(other->name.text, function->name.text) == 0) {
            diag_error(loading->diag, function->name.span, "E-TWICE: there are two functions '%s'",
                       function->name.text);
            diag_note(loading->diag, other->name.span, "the other one is here");
            return;
        }
    }
    vec_push(loading->arena, &ast->functions, function);
    ast->letters |= letters_bit(function->name.text);
}

static void
add_kernel(Loading *loading, Kernel *kernel)
{
    Ast *ast = loading->ast;

    for (uint32_t i = 0; i < ast->kernels.n; i++) {
        const Kernel *other = ast->kernels.at[i];
        if (strcmp(other->name.text, kernel->name.text) == 0) {
            diag_error(loading->diag, kernel->name.span, "E-TWICE: there are two kernels '%s'",
                       kernel->name.text);
            diag_note(loading->diag, other->name.span, "the other one is here");
            return;
        }
    }
    vec_push(loading->arena, &ast->kernels, kernel);
}

static void
add_module(Loading *loading, Module *module, bool is_main)
{
    vec_push(loading->arena, &loading->ast->modules, module);
    for (uint32_t i = 0; i < module->items.n; i++) {
        Item *item = &module->items.at[i];
        if (item->kind == ITEM_USE) {
            for (uint32_t k = 0; k < item->uses.n; k++)
                use_module(loading, &item->uses.at[k]);
        } else if (item->kind == ITEM_FUNCTION) {
            item->function->imported = !is_main;
            add_function(loading, item->function);
        } else if (is_main) {
            add_kernel(loading, item->kernel);
        }
    }
}

Ast *
dsl_parse(Arena *arena, Diag *diag, const SourceFile *file, const DslLoader *loader)
{
    Loading loading = {.arena = arena, .diag = diag, .loader = loader};

    loading.ast = arena_new(arena, Ast);
    loading.ast->main = dsl_parse_module(arena, diag, file);
    add_module(&loading, loading.ast->main, true);
    return loading.ast;
}
