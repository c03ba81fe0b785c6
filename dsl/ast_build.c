/* ast_build.c - makes the nodes of the tree, for the parser. */
#include <string.h>

#include "dsl/parser.h"

Expr *
expr_new(Parser *parser, ExprKind kind, Span span)
{
    Expr *expr = arena_new(parser->arena, Expr);

    expr->kind = kind;
    expr->span = span;
    return expr;
}

Expr *
expr_binary(Parser *parser, Op op, Expr *a, Expr *b)
{
    Expr *expr = expr_new(parser, EXPR_BINARY, span_join(a->span, b->span));

    expr->op = op;
    expr->a = a;
    expr->b = b;
    return expr;
}

Expr *
expr_negate(Parser *parser, Span span, Expr *a)
{
    if (a->kind == EXPR_INT && a->integer >= 0) { /* so that -2147483648 is a number */
        Expr *number = expr_new(parser, EXPR_INT, span);
        number->integer = -a->integer;
        return number;
    }
    Expr *expr = expr_new(parser, EXPR_UNARY, span);
    expr->op = OP_NEG;
    expr->a = a;
    return expr;
}

Stmt *
stmt_new(Parser *parser, StmtKind kind, Span span)
{
    Stmt *stmt = arena_new(parser->arena, Stmt);

    stmt->kind = kind;
    stmt->span = span;
    stmt->op = OP_NONE;
    return stmt;
}

ConstKind
parse_const_kind(Parser *parser, Word name)
{
    if (strcmp(name.text, "bool") == 0)
        return CONST_KIND_BOOL;
    if (strcmp(name.text, "type") == 0)
        return CONST_KIND_TYPE;
    if (strcmp(name.text, "int") != 0)
        diag_error(parser->diag, name.span,
                   "a compile-time parameter is an int, a bool or a type, not '%s'", name.text);
    return CONST_KIND_INT;
}
