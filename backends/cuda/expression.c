/* expression.c - see expression.h: recursive descent, evaluated while it is read. */
#include "backends/cuda/expression.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    const char *text, *at;
    NameLookup lookup;
    const void *user;
    Fault *fault;
    int depth;
    int unused; /* inside an operand of && or || whose value does not count */
} Reader;

enum { LEVELS = 6, DEPTH_LIMIT = 200 };

/* Binary operators, loosest first; of one level, the longer spelling stands first. */
static const char *const level_operators[LEVELS][5] = {
    {"||"}, {"&&"}, {"==", "!="}, {"<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}};

static bool read_level(Reader *r, int level, Number *out);

static void
skip_space(Reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool
fail(Reader *r, const char *what)
{
    return fault_set(r->fault, "launch expression '%s': %s at '%s'", r->text, what, r->at);
}

static bool
accept(Reader *r, const char *symbol)
{
    skip_space(r);
    size_t n = strlen(symbol);
    if (strncmp(r->at, symbol, n) != 0)
        return false;
    if (strcmp(symbol, "!") == 0 && r->at[1] == '=')
        return false;
    r->at += n;
    return true;
}

static Number
from_integer(int64_t value)
{
    return (Number){.integer = value};
}

static Number
from_real(double value)
{
    return (Number){.is_float = true, .real = value};
}

/* Wraps as the hardware would: expressions come from files, and must not trap. */
static int64_t
wrap(uint64_t value)
{
    return (int64_t)value;
}

/* Counts of programs and bytes must not come out small because they are too large. */
static bool
product_fits(int64_t a, int64_t b)
{
    double about = (double)a * (double)b;

    return about > -9.2e18 && about < 9.2e18; /* 2^63 is 9.22e18 */
}

static bool
divide(Reader *r, char what, int64_t a, int64_t b, Number *out)
{
    if (b == 0 && r->unused) {
        *out = from_integer(0);
        return true;
    }
    if (b == 0)
        return fail(r, "division by zero");
    if (b == -1)
        *out = from_integer(what == '/' ? wrap(0 - (uint64_t)a) : 0);
    else
        *out = from_integer(what == '/' ? a / b : a % b);
    return true;
}

static bool
apply(Reader *r, const char *op, Number a, Number b, Number *out)
{
    bool real = a.is_float || b.is_float;
    double x = number_real(a), y = number_real(b);
    uint64_t i = (uint64_t)a.integer, j = (uint64_t)b.integer;

    if (strcmp(op, "||") == 0)
        *out = from_integer(number_true(a) || number_true(b));
    else if (strcmp(op, "&&") == 0)
        *out = from_integer(number_true(a) && number_true(b));
    else if (strcmp(op, "==") == 0)
        *out = from_integer(real ? x == y : i == j);
    else if (strcmp(op, "!=") == 0)
        *out = from_integer(real ? x != y : i != j);
    else if (strcmp(op, "<") == 0)
        *out = from_integer(real ? x < y : a.integer < b.integer);
    else if (strcmp(op, "<=") == 0)
        *out = from_integer(real ? x <= y : a.integer <= b.integer);
    else if (strcmp(op, ">") == 0)
        *out = from_integer(real ? x > y : a.integer > b.integer);
    else if (strcmp(op, ">=") == 0)
        *out = from_integer(real ? x >= y : a.integer >= b.integer);
    else if (strcmp(op, "+") == 0)
        *out = real ? from_real(x + y) : from_integer(wrap(i + j));
    else if (strcmp(op, "-") == 0)
        *out = real ? from_real(x - y) : from_integer(wrap(i - j));
    else if (!real && strcmp(op, "*") == 0 && !r->unused && !product_fits(a.integer, b.integer))
        return fail(r, "a product is beyond 64 bits");
    else if (strcmp(op, "*") == 0)
        *out = real ? from_real(x * y) : from_integer(wrap(i * j));
    else if (real && strcmp(op, "/") == 0)
        *out = from_real(x / y);
    else if (real)
        return fail(r, "'%' of floats");
    else
        return divide(r, *op, a.integer, b.integer, out);
    return true;
}

/* min(a, b), max(a, b), cdiv(a, b): after the name and its parenthesis. */
static bool
read_call(Reader *r, const char *name, Number *out)
{
    Number a, b;

    if (!read_level(r, 0, &a))
        return false;
    if (!accept(r, ","))
        return fail(r, "expected ','");
    if (!read_level(r, 0, &b))
        return false;
    if (!accept(r, ")"))
        return fail(r, "expected ')'");
    if (strcmp(name, "min") == 0)
        *out = number_real(a) < number_real(b) ? a : b;
    else if (strcmp(name, "max") == 0)
        *out = number_real(a) > number_real(b) ? a : b;
    else if (a.is_float || b.is_float)
        return fail(r, "cdiv of floats");
    else
        return divide(r, '/', wrap((uint64_t)a.integer + (uint64_t)b.integer - 1), b.integer, out);
    return true;
}

static bool
read_number(Reader *r, Number *out)
{
    char *end;
    size_t digits = strspn(r->at, "0123456789");

    if (r->at[digits] == '.' || r->at[digits] == 'e' || r->at[digits] == 'E')
        *out = from_real(strtod(r->at, &end));
    else
        *out = from_integer(strtoll(r->at, &end, 10));
    r->at = end;
    return true;
}

static bool
read_name(Reader *r, Number *out)
{
    static const char *const calls[] = {"min", "max", "cdiv"};
    const char *name = r->at;
    size_t n = 0;

    while (isalnum((unsigned char)name[n]) || name[n] == '_')
        n++;
    r->at += n;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strlen(calls[i]) == n && strncmp(name, calls[i], n) == 0 && accept(r, "("))
            return read_call(r, calls[i], out);
    if ((n == 4 && strncmp(name, "true", n) == 0) || (n == 5 && strncmp(name, "false", n) == 0)) {
        *out = from_integer(n == 4);
        return true;
    }
    if (!r->lookup(r->user, name, n, out))
        return fault_set(r->fault, "launch expression '%s': no value for '%.*s'", r->text, (int)n,
                         name);
    return true;
}

static bool read_operand(Reader *r, Number *out);

static bool
read_primary(Reader *r, Number *out)
{
    if (accept(r, "(")) {
        if (!read_level(r, 0, out))
            return false;
        return accept(r, ")") || fail(r, "expected ')'");
    }
    if (accept(r, "-")) {
        if (!read_operand(r, out))
            return false;
        *out = out->is_float ? from_real(-out->real)
                             : from_integer(wrap(0 - (uint64_t)out->integer));
        return true;
    }
    if (accept(r, "!")) {
        if (!read_operand(r, out))
            return false;
        *out = from_integer(!number_true(*out));
        return true;
    }
    if (isdigit((unsigned char)*r->at))
        return read_number(r, out);
    if (isalpha((unsigned char)*r->at) || *r->at == '_')
        return read_name(r, out);
    return fail(r, "expected a value");
}

static bool
read_operand(Reader *r, Number *out)
{
    if (++r->depth > DEPTH_LIMIT)
        return fail(r, "too deeply nested");
    bool ok = read_primary(r, out);
    r->depth--;
    return ok;
}

static bool
read_level(Reader *r, int level, Number *out)
{
    if (level == LEVELS)
        return read_operand(r, out);
    if (!read_level(r, level + 1, out))
        return false;
    for (;;) {
        const char *op = NULL;
        for (const char *const *o = level_operators[level]; *o && !op; o++)
            if (accept(r, *o))
                op = *o;
        if (!op)
            return true;
        bool decided = strcmp(op, "||") == 0   ? number_true(*out)
                       : strcmp(op, "&&") == 0 ? !number_true(*out)
                                               : false;
        Number right;
        r->unused += decided;
        bool ok = read_level(r, level + 1, &right);
        r->unused -= decided;
        if (!ok || !apply(r, op, *out, right, out))
            return false;
    }
}

bool
expression_evaluate(const char *text, NameLookup lookup, const void *user, Number *out, Fault *fault)
{
    Reader reader = {text, text, lookup, user, fault, 0, 0};

    if (!read_level(&reader, 0, out))
        return false;
    skip_space(&reader);
    return *reader.at == '\0' || fail(&reader, "text after its end");
}
