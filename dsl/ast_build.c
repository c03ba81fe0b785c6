/* ast_build.c - makes the nodes of the tree, for the parser. */
#include <string.h>

#include "dsl/hints.h"
#include "dsl/parser.h"

/* Blanks at the beginning of a place's line; -1: something else stands before it there. */
static int
indentation(const Parser *parser, Span place, bool alone)
{
    const char *text = parser->file->text;
    uint32_t at = place.lo - parser->file->base, begin = at;

    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    int blanks = (int)strspn(text + begin, " \t");
    return alone && begin + (uint32_t)blanks != at ? -1 : blanks;
}

/* `place` closes the last one that `sign` opened; those in it were left open by a mistake. */
static void
parser_close(Parser *parser, char sign, Span place)
{
    uint32_t n = parser->open.n;

    while (n > 0 && parser->file->text[parser->open.at[n - 1].lo - parser->file->base] != sign)
        n--;
    parser->is_stray = sign == '{' && n == 0;
    if (n == 0 || (sign != '{' && n < parser->open.n))
        return;
    parser->open.n = n - 1;
    Span open = parser->open.at[n - 1];
    if (sign != '{' || parser->late.lo != 0)
        return;
    int outer = indentation(parser, place, true), inner = indentation(parser, open, false);
    if (0 <= outer && outer < inner) {
        parser->closed_late = open;
        parser->late = place;
    }
}

void
parser_take(Parser *parser, int token, Span place)
{
    parser->before = parser->token;
    parser->token = place;
    parser->is_stray = false;
    if (token == '{' || token == '(' || token == '[')
        vec_push(parser->arena, &parser->open, place);
    else if (token == '}' || token == ')' || token == ']')
        parser_close(parser, token == '}' ? '{' : token == ')' ? '(' : '[', place);
}

Expr *
expr_new(Parser *parser, ExprKind kind, Span span)
{
    Expr *expr = arena_new(parser->arena, Expr);

    expr->kind = kind;
    expr->span = span;
    return expr;
}

Expr *
expr_over(Parser *parser, ExprKind kind, Span span, Expr *a)
{
    Expr *expr = expr_new(parser, kind, span);

    expr->a = a;
    expr->depth = a->depth + 1;
    if (expr->depth > EXPR_MAX_DEPTH) {
        if (parser->last_error != a->span.lo)
            diag_error(parser->diag, a->span,
                       "E-NESTING: this expression is too long: at most %d operators in "
                       "a chain are possible",
                       EXPR_MAX_DEPTH);
        parser->last_error = a->span.lo;
        expr->a = expr_new(parser, EXPR_INT, a->span);
        expr->depth = 1;
    }
    return expr;
}

Expr *
expr_binary(Parser *parser, Op op, Expr *a, Expr *b)
{
    Expr *expr = expr_over(parser, EXPR_BINARY, span_join(a->span, b->span), a);

    expr->op = op;
    expr->b = b;
    if (b->depth >= expr->depth)
        expr->depth = b->depth + 1;
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

Expr *
expr_integer(Parser *parser, Span span, int64_t integer)
{
    Expr *expr = expr_new(parser, EXPR_INT, span);
    const char *text = parser->file->text + (span.lo - parser->file->base);

    expr->integer = integer;
    expr->hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
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

Stmt *
stmt_write(Parser *parser, StmtKind kind, Span span, Word tensor, SubscriptList index, Expr *value)
{
    Stmt *stmt = stmt_new(parser, kind, span);

    stmt->text = tensor.text;
    stmt->text_span = tensor.span;
    stmt->index = index;
    stmt->a = value;
    return stmt;
}

Stmt *
stmt_atomic(Parser *parser, Atomic atomic, Span span, Word tensor, SubscriptList index, Expr *value)
{
    Stmt *stmt = stmt_write(parser, STMT_ATOMIC, span, tensor, index, value);

    stmt->atomic = atomic;
    return stmt;
}

Stmt *
stmt_named(Stmt *stmt, const Stmt *pattern, Span span)
{
    stmt->span = span;
    if (pattern != NULL) {
        stmt->names = pattern->names;
        stmt->tuple = pattern->tuple;
    }
    return stmt;
}

const char *
atomic_text(Atomic atomic)
{
    static const char *const texts[ATOMIC_COUNT] = {"atomic_add", "atomic_max", "atomic_min"};

    return texts[atomic];
}

Expr *
while_condition(Parser *parser, Word word, Expr *condition)
{
    const char *hint = word_hint(word.text);

    if (strcmp(word.text, "while") == 0)
        return condition;
    diag_error(parser->diag, word.span, "E-SYNTAX: expected '{' or 'while', found '%s'", word.text);
    if (hint != NULL)
        diag_note(parser->diag, word.span, "%s", hint);
    return condition;
}

Stmt *
stmt_print(Parser *parser, Span span, const char *text, ArgList args)
{
    Stmt *stmt = stmt_new(parser, STMT_PRINT, span);

    stmt->text = text;
    stmt->args = args;
    return stmt;
}

Stmt *
stmt_assert(Parser *parser, Span span, Expr *condition, const char *text)
{
    Stmt *stmt = stmt_new(parser, STMT_ASSERT, span);

    stmt->a = condition;
    stmt->text = text;
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
                   "E-PARAMETER: a compile-time parameter is an int, a bool or a type, not '%s'",
                   name.text);
    return CONST_KIND_INT;
}
