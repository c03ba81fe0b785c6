/* ast_to_tir.h - the tree of a program to tile IR.
 *
 * A kernel is instantiated: its compile-time parameters get values, its body is walked once with
 * every function call expanded in place, names, types and shapes are checked on the way, and tile
 * IR comes out.  A function is checked at each call, with the types of that call.  These files are
 * the only ones that see both the tree and tile IR.
 */
#ifndef TILEC_LOWER_AST_TO_TIR_H
#define TILEC_LOWER_AST_TO_TIR_H

#include "compiler/ir/tir.h"
#include "dsl/ast.h"
#include "dsl/lint.h"

/* -D NAME=VALUE; NAME may also be KERNEL.NAME, for one kernel of several. */
typedef struct Define {
    const char *name, *value;
} Define;

typedef struct AstToTir {
    Arena *arena;
    Diag *diag;
    const Ast *ast;
    const Define *defines;
    uint32_t n_defines;
    const Define *sizes; /* usual sizes of tensors; they take precedence over the source's */
    uint32_t n_sizes;
    /* Only this kernel; NULL: all of the main file, in order. */
    const char *kernel;
    /* Chooses a value for a parameter whose default is `auto`.  False, or no function at all, is
     * an error that asks for -D. */
    bool (*choose)(void *user, const char *kernel, const char *param, int32_t *value);
    void *user;
    /* The module of the library that has such a function; NULL: none has. */
    const char *(*module_of)(void *user, const char *function);
    /* Called for each declared name, with its value in words; or NULL.  If set, compile-time
     * parameters without a value get one: the caller is an editor, and nothing is compiled. */
    void (*declared)(void *user, Span span, const char *text);
    void *declared_user;
    uint32_t warps;    /* of every kernel; 0: the source or the compiler decides */
    LintList *lints;   /* gets what is most likely a mistake; NULL: nobody asks */
    bool ignore_debug; /* `print` and `assert` are checked and left out; else they are errors */
} AstToTir;

/* Adds one TirFn for each kernel to `module`.  False after an error; diag has said why. */
bool ast_to_tir(const AstToTir *options, TirModule *module);

#endif
