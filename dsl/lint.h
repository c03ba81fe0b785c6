/* lint.h - what of a program is right and yet most likely a mistake. */
#ifndef TILEC_DSL_LINT_H
#define TILEC_DSL_LINT_H

#include "dsl/ast.h"

typedef enum LintKind {
    LINT_UNUSED, /* a tensor, parameter or name that nothing uses, an output that nothing writes */
    LINT_DIMENSION, /* a subscript that counts another size than its dimension */
    LINT_BROADCAST, /* a vector along the rows of a square tile that meets its columns */
    LINT_REPEATED,  /* more threads than elements of any tile */
    LINT_ORDER,     /* an atomic statement whose result depends on the order of the programs */
    LINT_KINDS
} LintKind;

typedef struct Lint {
    LintKind kind;
    Span span;
    const char *text;
} Lint;
typedef VEC(Lint) LintList;

/* By the tree alone; of all files of the program but the library's; in the order of the text. */
void dsl_sort_lints(LintList *lints);
LintList dsl_lint(Arena *arena, const Ast *ast);

#endif
