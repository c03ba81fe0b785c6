/* dsl.h - source text to tree: what the driver calls. */
#ifndef TILEC_DSL_DSL_H
#define TILEC_DSL_DSL_H

#include "dsl/ast.h"

/* Finds the module `name` of `use name;`: its text and the path to show in messages.  False when
 * there is none.  The text must live until dsl_parse returns. */
typedef struct DslLoader {
    bool (*load)(void *user, const char *name, const char **path, const char **text, size_t *n);
    const char *(*near)(const char *name); /* the one that was meant, or NULL; may be NULL */
    void *user;
} DslLoader;

/* Parses `file`, a file of `diag`, and the modules it uses.  Always returns a tree, of what could
 * be parsed; diag->errors tells whether it is whole. */
Ast *dsl_parse(Arena *arena, Diag *diag, const SourceFile *file, const DslLoader *loader);

/* The function of the program that a call names; NULL: none.  `builtin`: there is a built-in
 * function of that name.  A program's own function counts more, but in the library that is part of
 * the compiler. */
const Function *dsl_called(const Ast *ast, const Expr *call, bool builtin);

/* Argument `at` of those of a call that have no name: there are as many. */
const Expr *dsl_argument(const Expr *call, uint32_t at);

/* The name that a function gives to part `k` of the tuple of `n` that it returns, as its last
 * statement says; NULL: none. */
const char *dsl_returned_name(const Function *function, uint32_t k, uint32_t n);

/* Whether a file is of that library. */
bool dsl_is_library(const SourceFile *file);

/* Parses one file and follows no `use`. */
Module *dsl_parse_module(Arena *arena, Diag *diag, const SourceFile *file);

#endif
