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

/* Adds what a part of a file has to its module. */
static void
parse_part(Arena *arena, Diag *diag, Module *module, uint32_t begin, uint32_t end)
{
    Parser parser = {
        .arena = arena, .diag = diag, .file = module->file, .module = module, .offset = begin};
    void *scanner;

    tile_lex_lex_init_extra(&parser, &scanner);
    tile_lex__scan_bytes(module->file->text + begin, (int)(end - begin), scanner);
    tile_parse_parse(&parser, scanner);
    tile_lex_lex_destroy(scanner);
}

Module *
dsl_parse_module(Arena *arena, Diag *diag, const SourceFile *file)
{
    Module *module = arena_new(arena, Module);

    module->file = file;
    parse_part(arena, diag, module, file_mark(file), file->n);
    return module;
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

/* Names in different lists differ. */
static uint32_t
list_of(const char *name)
{
    uint32_t hash = (unsigned char)name[0];

    hash = 5 * hash + (hash != 0 ? (unsigned char)name[1] : 0);
    return hash % AST_LISTS;
}

const Function *
dsl_called(const Ast *ast, const Expr *call, bool builtin)
{
    for (const Function *function = ast->lists[list_of(call->text)]; function != NULL;
         function = function->next) {
        if (strcmp(function->name.text, call->text) != 0)
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

/* A function of our own library that is not parsed yet, and where it is in its file. */
typedef struct Unread {
    Function *function; /* its name alone */
    Module *module;
    uint32_t begin, end;
} Unread;

/* What is being loaded: the modules so far, to load each once. */
typedef struct Loading {
    Arena *arena;
    Diag *diag;
    const DslLoader *loader;
    Ast *ast;
    VEC(const char *) names; /* of modules used so far */
    VEC(Unread) unread;      /* functions of our own library that nothing has named yet */
} Loading;

static void add_module(Loading *loading, Module *module, bool is_main);
static void add_function(Loading *loading, Function *function);

/* A file of our own library has nothing but functions, which begin and end at the left margin: they
 * are parsed once something names them (read_library). */
static void
list_library(Loading *loading, const SourceFile *file)
{
    static const char begin[] = "\nfn ", end[] = "\n}\n";
    Module *module = arena_new(loading->arena, Module);

    module->file = file;
    vec_push(loading->arena, &loading->ast->modules, module);
    for (const char *at = strstr(file->text, begin); at != NULL; at = strstr(at, begin)) {
        const char *name = at + sizeof begin - 1;
        uint32_t n = (uint32_t)strcspn(name, "("), lo = (uint32_t)(name - file->text);
        Function *function = arena_new(loading->arena, Function);
        function->name = (Name){arena_strndup(loading->arena, name, n),
                                {file->base + lo, file->base + lo + n}};
        function->imported = true;
        add_function(loading, function);
        at = strstr(name, end) + sizeof end - 2;
        Unread unread = {function, module, lo - 3, (uint32_t)(at - file->text)};
        vec_push(loading->arena, &loading->unread, unread);
    }
}

/* Whether a part of a file has the name. */
static bool
names_it(const SourceFile *file, uint32_t begin, uint32_t end, const Name *name)
{
    size_t n = strlen(name->text);

    for (const char *at = strstr(file->text + begin, name->text);
         at != NULL && at < file->text + end; at = strstr(at + n, name->text)) {
        char next = at[n];
        if (next != '_' && !(next >= '0' && next <= '9') && !(next >= 'a' && next <= 'z'))
            return true;
    }
    return false;
}

/* Parses the functions that a part of a file names. */
static void
read_library(Loading *loading, const SourceFile *file, uint32_t begin, uint32_t end)
{
    for (uint32_t i = 0; i < loading->unread.n; i++) {
        Unread *unread = &loading->unread.at[i];
        if (unread->function->body != NULL || !names_it(file, begin, end, &unread->function->name))
            continue;
        parse_part(loading->arena, loading->diag, unread->module, unread->begin, unread->end);
        Item *item = &unread->module->items.at[unread->module->items.n - 1];
        item->function->imported = true;
        item->function->next = unread->function->next;
        *unread->function = *item->function;
        item->function = unread->function;
        read_library(loading, unread->module->file, unread->begin, unread->end);
    }
}

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
    if (dsl_is_library(file))
        list_library(loading, file);
    else
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
    function->next = ast->lists[list_of(function->name.text)];
    ast->lists[list_of(function->name.text)] = function;
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
    for (uint32_t i = 0; i < loading.ast->modules.n; i++) {
        const SourceFile *written = loading.ast->modules.at[i]->file;
        if (!dsl_is_library(written))
            read_library(&loading, written, 0, written->n);
    }
    return loading.ast;
}
