/* tir_read_host.c - reads what the launcher evaluates: C's operators and precedence over sizes and
 * scalars of the kernel, with min, max and cdiv.
 */
#include "compiler/ir/tir_reader.h"

#include <string.h>

bool
reader_find_size(const TirFn *fn, const char *text, uint32_t *index)
{
    for (*index = 0; *index < fn->sizes.n; ++*index)
        if (strcmp(fn->sizes.at[*index].name, text) == 0)
            return true;
    return false;
}

bool
reader_find_scalar(const TirFn *fn, const char *text, uint32_t *index)
{
    for (*index = 0; *index < fn->scalars.n; ++*index)
        if (strcmp(fn->scalars.at[*index].name, text) == 0)
            return true;
    return false;
}

bool
reader_find_axis(const TirFn *fn, const char *text, uint32_t *index)
{
    for (*index = 0; *index < fn->grid.n; ++*index)
        if (strcmp(fn->grid.at[*index].name, text) == 0)
            return true;
    return false;
}

int64_t
reader_named(Reader *r, bool (*find)(const TirFn *, const char *, uint32_t *), const char *what)
{
    Span span = r->token.span;
    const char *text = reader_take(r, TOK_NAME, what);
    uint32_t index = 0;

    if (!r->failed && !find(r->fn, text, &index))
        reader_fail_at(r, span, arena_printf(r->arena, "'%s' is not %s of this kernel", text, what));
    return index;
}

typedef struct HostSign {
    const char *text;
    HostKind kind;
    int precedence;
} HostSign;

static const HostSign host_signs[] = {
    {"||", HOST_OR, 1}, {"&&", HOST_AND, 2}, {"==", HOST_EQ, 3}, {"!=", HOST_NE, 3},
    {"<", HOST_LT, 4},  {"<=", HOST_LE, 4},  {">", HOST_GT, 4},  {">=", HOST_GE, 4},
    {"+", HOST_ADD, 5}, {"-", HOST_SUB, 5},  {"*", HOST_MUL, 6}, {"/", HOST_DIV, 6},
    {"%", HOST_REM, 6},
};

enum { HOST_MAX_DEPTH = 200 };

static const HostExpr *take_host(Reader *r, int lowest, int depth);

/* "-5" is a constant, not the negative of one. */
static const HostExpr *
negated(Reader *r, const HostExpr *constant)
{
    HostExpr *expr = arena_copy(r->arena, constant, sizeof *constant);
    expr->integer = -expr->integer;
    expr->number = -expr->number;
    return expr;
}

static const HostExpr *
take_host_leaf(Reader *r, int depth)
{
    HostExpr *expr = arena_new(r->arena, HostExpr);
    uint32_t index;

    if (r->failed || depth > HOST_MAX_DEPTH) {
        reader_fail(r, "this expression is nested too deeply");
        return expr;
    }
    if (reader_accept(r, "(")) {
        const HostExpr *inside = take_host(r, 0, depth + 1);
        reader_expect(r, ")");
        return inside;
    }
    if (reader_accept(r, "-") || reader_sees(r, "!")) {
        expr->kind = reader_accept(r, "!") ? HOST_NOT : HOST_NEG;
        expr->a = take_host_leaf(r, depth + 1);
        if (expr->kind == HOST_NEG && (expr->a->kind == HOST_INT || expr->a->kind == HOST_FLOAT))
            return negated(r, expr->a);
        return expr;
    }
    if (r->token.kind == TOK_NUMBER) {
        if (strpbrk(r->token.text, ".e") != NULL) {
            expr->kind = HOST_FLOAT;
            expr->number = reader_number(r);
            return expr;
        }
        return host_int(r->arena, reader_integer(r, 0, INT64_MAX));
    }
    Token name = r->token;
    reader_take(r, TOK_NAME, "a size, a scalar or a number");
    bool cdiv = strcmp(name.text, "cdiv") == 0, min = strcmp(name.text, "min") == 0;
    if ((cdiv || min || strcmp(name.text, "max") == 0) && reader_accept(r, "(")) {
        const HostExpr *a = take_host(r, 0, depth + 1);
        reader_expect(r, ",");
        const HostExpr *b = take_host(r, 0, depth + 1);
        reader_expect(r, ")");
        return host_binary(r->arena, cdiv ? HOST_CDIV : min ? HOST_MIN : HOST_MAX, a, b);
    }
    if (reader_find_size(r->fn, name.text, &index))
        expr->kind = HOST_SIZE;
    else if (reader_find_scalar(r->fn, name.text, &index))
        expr->kind = HOST_SCALAR;
    else if (device_fact(name.text) < DEVICE_FACTS)
        return host_device(r->arena, device_fact(name.text));
    else
        reader_fail_at(r, name.span,
                       arena_printf(r->arena, "'%s' is neither a size nor a scalar", name.text));
    expr->index = index;
    return expr;
}

static const HostExpr *
take_host(Reader *r, int lowest, int depth)
{
    const HostExpr *left = take_host_leaf(r, depth);

    while (!r->failed) {
        const HostSign *sign = NULL;
        for (size_t k = 0; k < sizeof host_signs / sizeof host_signs[0]; k++)
            if (reader_sees(r, host_signs[k].text) && host_signs[k].precedence > lowest)
                sign = &host_signs[k];
        if (sign == NULL)
            return left;
        reader_next(r);
        left = host_binary(r->arena, sign->kind, left, take_host(r, sign->precedence, depth + 1));
    }
    return left;
}

const HostExpr *
reader_host(Reader *r)
{
    return take_host(r, 0, 0);
}
