/* lint.h - what of a program is right and yet most likely a mistake, by the tree alone. */
#ifndef TILEC_DSL_LINT_H
#define TILEC_DSL_LINT_H

#include "dsl/ast.h"

typedef enum LintKind {
    LINT_UNUSED, /* a tensor, parameter or name that nothing uses, an output that nothing writes */
    LINT_DIMENSION, /* a subscript that counts another size than its dimension */
    LINT_KINDS
} LintKind;

typedef struct Lint {
    LintKind kind;
    Span span;
    const char *text;
} Lint;
typedef VEC(Lint) LintList;

/* Of all files of the program but the library's; in the order of the text. */
LintList dsl_lint(Arena *arena, const Ast *ast);

#endif
