/* parser.h - what lexer and parser share; private to dsl/. */
#ifndef TILEC_DSL_PARSER_H
#define TILEC_DSL_PARSER_H

#include <string.h>

#include "dsl/ast.h"

typedef struct Parser {
    Arena *arena;
    Diag *diag;
    const SourceFile *file;
    Module *module;
    uint32_t offset; /* of the next byte the lexer reads, in the file */
    Span comment;    /* where the comment being skipped begins */
    Name last_name;  /* the last name that the lexer has read, and the one before */
    Name name_before;
    Span token, before; /* the token that was read last, and the one before */
    VEC(Span) open;     /* the `{`, `(` and `[` that nothing has closed yet */
    /* the first `{` whose `}`, as lines are indented, is that of a block around it: it may lack its
     * own */
    Span closed_late;
    Span late;           /* that `}` */
    bool is_stray;       /* the last token is a `}` that closes nothing */
    bool lost;           /* a `}` is missing, which was said: the end of the file is none */
    uint32_t last_error; /* Span offset of the last syntax error: one is enough at a place */
} Parser;

/* Bytes before the first token that are none: some editors begin a file with the mark of UTF-8. */
static inline uint32_t
file_mark(const SourceFile *file)
{
    return file->n >= 3 && memcmp(file->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* A word with its place, as a token carries it. */
typedef Name Word;

/* ---- ast_build.c: the parser's constructors ---- */

/* Takes note of a token that was read. */
void parser_take(Parser *parser, int token, Span place);

enum { EXPR_MAX_DEPTH = 1000 };

Expr *expr_new(Parser *parser, ExprKind kind, Span span);
/* With operand `a`; a chain of operators that is too long is an error. */
Expr *expr_over(Parser *parser, ExprKind kind, Span span, Expr *a);
Expr *expr_binary(Parser *parser, Op op, Expr *a, Expr *b);
/* -a; of a literal, the negative literal. */
Expr *expr_negate(Parser *parser, Span span, Expr *a);
Expr *expr_integer(Parser *parser, Span span, int64_t integer);
Stmt *stmt_new(Parser *parser, StmtKind kind, Span span);
/* A store or an atomic statement: `value` to `index` of `tensor`. */
Stmt *stmt_write(Parser *parser, StmtKind kind, Span span, Word tensor, SubscriptList index,
                 Expr *value);
Stmt *stmt_atomic(Parser *parser, Atomic atomic, Span span, Word tensor, SubscriptList index,
                  Expr *value);
/* The same with the names of a pattern (NULL: none). */
Stmt *stmt_named(Stmt *stmt, const Stmt *pattern, Span span);
/* What stands behind `word`, which has to be "while": no keyword, a name of the program may be
 * called so. */
Expr *while_condition(Parser *parser, Word word, Expr *condition);
Stmt *stmt_print(Parser *parser, Span span, const char *text, ArgList args);
Stmt *stmt_assert(Parser *parser, Span span, Expr *condition, const char *text);
/* The kind that a word names; reports one that is none. */
ConstKind parse_const_kind(Parser *parser, Word name);

#endif
