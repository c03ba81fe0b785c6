/* hints.c - what to write in place of what other languages have. */
#include "dsl/hints.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "compiler/base/near.h"

#define LOOP                                                                                       \
    "a loop is `for i in lo..hi { .. }`, with bounds that may be known at run time only; `for i in lo..hi while c { .. }` may end before"
#define LEFT "a loop runs to its end: put the rest of its body into an `if`"
#define FUNCTION "a function is `fn name(a, b) { .. }`"
#define MODULE "the functions of a module come with `use name;`"
#define VALUE "`let x = ..` names a value, `var x = ..` one that changes"
#define SHAPE                                                                                           \
    "the elements of a tile keep their places: x[:, None] adds a dimension, a sum takes one away, and " \
    "pack(a, b) makes one of two ranges"
#define PRODUCT "a product of matrices is mma(a, b) or mma(a, b, acc)"
#define WIDER "tiles grow to the shape of what they meet; x[:, None] adds a dimension"
#define INDICES "the indices 0..N are iota(N)"
#define POWER "x to the power y is exp2(y * log2(x)), a square x * x"
#define CONVERSION "a conversion is `x as f32`, `x as i32`"
#define PROGRAMS "`grid m in tiles(S, 64), h in H;` names the programs"

static const struct {
    const char *word, *hint;
} hints[] = {
    {"while", LOOP},
    {"do", LOOP},
    {"break", LEFT},
    {"continue", LEFT},
    {"elif", "write `else if`"},
    {"def", FUNCTION},
    {"function", FUNCTION},
    {"import", MODULE},
    {"include", MODULE},
    {"const", VALUE},
    {"int", VALUE},
    {"float", VALUE},
    {"half", VALUE},
    {"double", VALUE},
    {"pow", POWER},
    {"and", "write `&&`"},
    {"or", "write `||`"},
    {"not", "write `!`"},
    {"reshape", SHAPE},
    {"view", SHAPE},
    {"flatten", SHAPE},
    {"transpose", "the transpose of x is x.T"},
    {"trans", "the transpose of x is x.T"},
    {"permute", "the transpose of x is x.T"},
    {"dot", PRODUCT},
    {"matmul", PRODUCT},
    {"gemm", PRODUCT},
    {"broadcast_to", WIDER},
    {"expand_dims", WIDER},
    {"arange", INDICES},
    {"program_id", PROGRAMS},
    {"maximum", "the larger one is max(a, b)"},
    {"minimum", "the smaller one is min(a, b)"},
    {"select", "a choice is where(c, a, b)"},
    {"to", "a range is `lo..hi`, a conversion `x as f16`"},
};

/* Types of other languages, which begin a statement there or are called. */
static bool
is_foreign_type(const char *word)
{
    static const char *const types[] = {"int", "float", "half", "double"};

    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
        if (strcmp(types[k], word) == 0)
            return true;
    return false;
}

const char *
word_hint(const char *word, bool used)
{
    if (used && is_foreign_type(word))
        return CONVERSION;
    for (size_t k = 0; k < sizeof hints / sizeof hints[0]; k++)
        if (strcmp(hints[k].word, word) == 0)
            return hints[k].hint;
    return NULL;
}

/* ---- syntax errors ---- */

/* Whether only blanks lie between the two. */
static bool
is_behind(const Parser *parser, Span place, const Name *name)
{
    if (name->text == NULL || name->span.hi > place.lo)
        return false;
    for (uint32_t at = name->span.hi; at < place.lo; at++)
        if (strchr(" \t\r\n", parser->file->text[at - parser->file->base]) == NULL)
            return false;
    return true;
}

/* The last character before a place that is no blank. */
static char
character_before(const Parser *parser, Span place)
{
    uint32_t at = place.lo - parser->file->base;

    while (at > 0 && strchr(" \t\r\n", parser->file->text[at - 1]) != NULL)
        at--;
    return at > 0 ? parser->file->text[at - 1] : '\0';
}

/* Whether a word, and blanks, lie before a place. */
static bool
is_word_before(const Parser *parser, Span place, const char *word)
{
    const char *text = parser->file->text;
    uint32_t at = place.lo - parser->file->base, n = (uint32_t)strlen(word);

    while (at > 0 && strchr(" \t\r\n", text[at - 1]) != NULL)
        at--;
    return at >= n && strncmp(text + at - n, word, n) == 0 &&
           (at == n || (!isalnum((unsigned char)text[at - n - 1]) && text[at - n - 1] != '_'));
}

/* What is said of the function whose arguments a place is among, as with `reshape(x, [`; NULL: nothing. */
static const char *
call_hint(const Parser *parser, Span place)
{
    const char *text = parser->file->text;
    uint32_t at = place.lo - parser->file->base, depth = 0;

    while (at > 0 && strchr(";{}", text[at - 1]) == NULL && (text[at - 1] != '(' || depth > 0)) {
        depth += text[at - 1] == ')';
        depth -= text[at - 1] == '(';
        at--;
    }
    if (at == 0 || text[at - 1] != '(')
        return NULL;
    uint32_t end = --at;
    while (at > 0 && (isalnum((unsigned char)text[at - 1]) || text[at - 1] == '_'))
        at--;
    return word_hint(arena_strndup(parser->arena, text + at, end - at), true);
}

/* What is said of a name that is nearly the word of a statement or an operator, as in `laod X[i]`; NULL: nothing. */
static const char *
near_word(const Parser *parser, const Name *name)
{
    static const char *const words[] = {"load", "store", "return", "require", "grid", "kernel"};

    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        if (word_is_near(name->text, word_distance(name->text, words[k])))
            return arena_printf(parser->arena, "did you mean `%s`?", words[k]);
    return NULL;
}

/* What is said of `load(X[i])`, and of the type of a value; NULL: nothing. */
static const char *
form_hint(const Parser *parser, Span place)
{
    const char *text = parser->file->text + (place.lo - parser->file->base);

    if (parser->before.lo < parser->file->base) /* it is the first token */
        return NULL;
    if (*text == '(' && is_word_before(parser, place, "load"))
        return "`load` is no function: it stands before a tensor, as in `load X[i]`";
    if (*text == ':' && parser->last_name.span.lo == parser->before.lo &&
        (is_word_before(parser, parser->before, "let") ||
         is_word_before(parser, parser->before, "var")))
        return "a value has the type of its expression: `let x = y as f32;`";
    return NULL;
}

/* What is said of `a @ b`, `i++` and `x ** 2`. */
static const char *
sign_hint(const Parser *parser, Span place)
{
    const char *text = parser->file->text;
    uint32_t at = place.lo - parser->file->base;
    char found = text[at], before = character_before(parser, place);

    if (found == '@' && (isalnum((unsigned char)before) || strchr("_)]", before) != NULL))
        return PRODUCT;
    if (at > 0 && (found == '+' || found == '-') && text[at - 1] == found)
        return found == '+' ? "write `i += 1`" : "write `i -= 1`";
    if (at > 0 && found == '*' && text[at - 1] == '*')
        return POWER;
    return NULL;
}

static const char *
syntax_hint(const Parser *parser, Span place, bool is_name, bool subscript)
{
    bool is_last = is_name && parser->last_name.span.lo == place.lo;
    const Name *before = is_last ? &parser->name_before : &parser->last_name;
    const char *hint = is_last ? word_hint(parser->last_name.text, false) : NULL;
    char found = parser->file->text[place.lo - parser->file->base];

    if (hint == NULL && is_behind(parser, place, before))
        hint = word_hint(before->text, false);
    if (hint == NULL && is_name && is_behind(parser, place, before))
        hint = near_word(parser, before);
    if (hint == NULL)
        hint = form_hint(parser, place);
    if (hint == NULL && found == '[')
        hint = call_hint(parser, place);
    if (hint == NULL)
        hint = sign_hint(parser, place);
    if (hint != NULL)
        return hint;
    if (found == '(' && is_behind(parser, place, before) &&
        character_before(parser, before->span) == '.')
        return arena_printf(parser->arena, "tiles have no methods: functions are called as %s(x)",
                            before->text);
    if (subscript && (found == ':' || character_before(parser, place) == ':'))
        return "`:` is a whole dimension; a part of a tensor is loaded by a range, as in "
               "`load X[iota(16) + start]`, and a tile is not cut";
    return NULL;
}

/* Where what ends the line before is missing: behind that, if the token found stands on a later line. */
static Span
place_missing(const Parser *parser, Span found)
{
    uint32_t base = parser->file->base, end = parser->before.hi;

    if (end <= base || end > found.lo)
        return found;
    const char *rest = parser->file->text + (end - base);
    if (memchr(rest, '\n', found.lo - end) == NULL)
        return found;
    rest += strspn(rest, " \t\r");
    if (*rest != '\n' && *rest != '/') /* something else was wrong there */
        return found;
    return (Span){end, end};
}

void
report_syntax(const Parser *parser, Span place, Buf *text, const SyntaxContext *context)
{
    bool missing = context->is_end || context->statement;
    int length = (int)(place.hi - place.lo);
    const char *hint = syntax_hint(parser, place, context->is_name, context->subscript);

    if (context->is_end)
        buf_add(text, "the end of the file");
    else
        buf_printf(text, "'%.*s%s'", length > 40 ? 40 : length,
                   parser->file->text + (place.lo - parser->file->base), length > 40 ? ".." : "");
    diag_error(parser->diag, missing ? place_missing(parser, place) : place, "E-SYNTAX: %s",
               text->at);
    if (context->is_end && parser->open.n > 0)
        diag_note(parser->diag, parser->open.at[parser->open.n - 1], "this `{` has no `}`");
    if (hint != NULL)
        diag_note(parser->diag, place, "%s", hint);
}
