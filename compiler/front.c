/* front.c - source text to tile IR: finds the modules of `use`, parses, checks, lowers. */
#include "compiler/front.h"

#include <string.h>

#include "compiler/auto_tiles.h"
#include "compiler/lower/ast_to_tir.h"
#include "dsl/dsl.h"
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

    if (options->import != NULL && options->import(options->import_user, name, path, text, n))
        return true;
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

TirModule *
front_end(Arena *arena, Diag *diag, const FrontInput *input, Buf *tree)
{
    const TilecOptions *options = input->options;
    Modules modules = {arena, options};
    DslLoader loader = {load_module, &modules};
    Ast *ast = dsl_parse(arena, diag, input->file, &loader);

    if (diag->errors > 0)
        return NULL;
    if (tree != NULL) {
        ast_print(ast->main, tree);
        return NULL;
    }
    AutoTiles tiles = {.target = input->target, .options = options};
    Define *defines = arena_array(arena, Define, options->n_defines + 1);
    for (size_t k = 0; k < options->n_defines; k++)
        defines[k] = (Define){options->defines[k].name, options->defines[k].value};
    AstToTir lowering = {
        .arena = arena,
        .diag = diag,
        .ast = ast,
        .defines = defines,
        .n_defines = (uint32_t)options->n_defines,
        .kernel = options->kernel,
        .choose = auto_tiles_choose,
        .user = &tiles,
    };
    TirModule *module = arena_new(arena, TirModule);
    module->arena = arena;
    module->diag = diag;
    return ast_to_tir(&lowering, module) && diag->errors == 0 ? module : NULL;
}
