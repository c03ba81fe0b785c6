/* names.h - what the names of a file stand for, by the tree alone: for editors. */
#ifndef TILEC_DSL_NAMES_H
#define TILEC_DSL_NAMES_H

#include "dsl/ast.h"

/* A place where a name stands; a declaration is a use of itself. */
typedef struct NameUse {
    /* declared.lo is 0: not in the program, as of types and built-in functions */
    Span span, declared;
    const char *name, *what;
} NameUse;
typedef VEC(NameUse) NameUseList;

/* The uses in all files of the program, in no order that counts. */
NameUseList dsl_names(Arena *arena, const Ast *ast);

#endif
