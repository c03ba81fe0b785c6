/* tir_token.c - the words of tile IR text: tokens, numbers, types, layouts. */
#include "compiler/ir/tir_reader.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors and tokens ---- */

void
reader_fail_at(Reader *r, Span span, const char *message)
{
    if (!r->failed)
        diag_error(r->diag, span, "E-TILE-IR: %s", message);
    r->failed = true;
}

void
reader_fail(Reader *r, const char *message)
{
    reader_fail_at(r, r->token.span, message);
}

static bool
is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void
skip_blanks(Reader *r)
{
    const char *text = r->file->text;

    for (;;) {
        while (r->at < r->file->n && isspace((unsigned char)text[r->at]))
            r->at++;
        if (r->at + 1 >= r->file->n || text[r->at] != '/' || text[r->at + 1] != '/')
            return;
        while (r->at < r->file->n && text[r->at] != '\n')
            r->at++;
    }
}

static const char *
unescape(Reader *r, uint32_t lo, uint32_t hi)
{
    Buf out;

    buf_init(&out, r->arena);
    buf_add(&out, "");
    for (uint32_t k = lo; k < hi; k++) {
        char c = r->file->text[k];
        if (c == '\\' && k + 1 < hi) {
            c = r->file->text[++k];
            if (c == 'n')
                c = '\n';
        }
        buf_char(&out, c);
    }
    return out.at;
}

static uint32_t
scan_number(const char *text, uint32_t at)
{
    while (isdigit((unsigned char)text[at]))
        at++;
    if (text[at] == '.' && isdigit((unsigned char)text[at + 1])) {
        at++;
        while (isdigit((unsigned char)text[at]))
            at++;
    }
    if (text[at] == 'e' || text[at] == 'E') {
        uint32_t sign = text[at + 1] == '-' || text[at + 1] == '+';
        if (isdigit((unsigned char)text[at + 1 + sign])) {
            at += 1 + sign;
            while (isdigit((unsigned char)text[at]))
                at++;
        }
    }
    return at;
}

static uint32_t
scan_sign(const char *text, uint32_t at)
{
    static const char *const pairs[] = {"..", "+:", "==", "!=", "<=", ">=", "&&", "||", ">>"};

    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++)
        if (text[at] == pairs[k][0] && text[at + 1] == pairs[k][1])
            return at + 2;
    return at + 1;
}

static void
set_token(Reader *r, TokenKind kind, uint32_t lo, uint32_t text_lo, uint32_t hi)
{
    r->token.kind = kind;
    r->token.span = (Span){r->file->base + lo, r->file->base + hi};
    r->token.text = arena_strndup(r->arena, r->file->text + text_lo, hi - text_lo);
    r->at = hi;
}

void
reader_next(Reader *r)
{
    const char *text = r->file->text; /* ends with a NUL, which stops every scan */

    uint32_t before = r->at;
    skip_blanks(r);
    uint32_t lo = r->at, hi = lo;
    char c = text[lo];
    r->token.new_line = memchr(text + before, '\n', lo - before) != NULL;
    if (lo >= r->file->n || r->failed) {
        r->token = (Token){TOK_END, "", {r->file->base + lo, r->file->base + lo}, true};
    } else if (isalpha((unsigned char)c) || c == '_') {
        while (is_word(text[hi]))
            hi++;
        set_token(r, TOK_NAME, lo, lo, hi);
    } else if ((c == '%' || c == '$') && is_word(text[lo + 1])) {
        hi++;
        while (is_word(text[hi]))
            hi++;
        set_token(r, c == '%' ? TOK_VALUE : TOK_SHARED, lo, lo + 1, hi);
    } else if (isdigit((unsigned char)c)) {
        set_token(r, TOK_NUMBER, lo, lo, scan_number(text, lo));
    } else if (c == '"') {
        for (hi++; hi < r->file->n && text[hi] != '"' && text[hi] != '\n'; hi++)
            hi += text[hi] == '\\' && hi + 1 < r->file->n;
        if (hi >= r->file->n || text[hi] != '"') {
            reader_fail_at(r, (Span){r->file->base + lo, r->file->base + lo + 1},
                           "this string does not end on its line");
            return;
        }
        set_token(r, TOK_STRING, lo, lo, hi + 1);
        r->token.text = unescape(r, lo + 1, hi);
    } else {
        set_token(r, TOK_SIGN, lo, lo, scan_sign(text, lo));
    }
}

bool
reader_sees(const Reader *r, const char *text)
{
    return (r->token.kind == TOK_NAME || r->token.kind == TOK_SIGN) &&
           strcmp(r->token.text, text) == 0;
}

bool
reader_accept(Reader *r, const char *text)
{
    if (r->failed || !reader_sees(r, text))
        return false;
    reader_next(r);
    return true;
}

void
reader_expect(Reader *r, const char *text)
{
    if (!reader_accept(r, text))
        reader_fail(r, arena_printf(r->arena, "expected '%s', found %s%s%s", text,
                                    r->token.kind == TOK_END ? "the end of the file" : "'",
                                    r->token.kind == TOK_END ? "" : r->token.text,
                                    r->token.kind == TOK_END ? "" : "'"));
}

const char *
reader_take(Reader *r, TokenKind kind, const char *what)
{
    const char *text = r->token.text;

    if (r->token.kind != kind) {
        reader_fail(r, arena_printf(r->arena, "expected %s", what));
        return "";
    }
    reader_next(r);
    return text;
}

int64_t
reader_integer(Reader *r, int64_t lowest, int64_t highest)
{
    Span span = r->token.span;
    bool negative = reader_accept(r, "-");
    const char *text = reader_take(r, TOK_NUMBER, "an integer");
    char *end = NULL;

    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    if (*text != '\0' && (*end != '\0' || errno != 0))
        reader_fail_at(r, span, "this is not an integer of 64 bits");
    if (negative)
        value = -value;
    if (value < lowest || value > highest)
        reader_fail_at(r, span,
                       arena_printf(r->arena, "this number must lie in %lld .. %lld",
                                    (long long)lowest, (long long)highest));
    return r->failed ? lowest : value;
}

uint32_t
reader_u32(Reader *r)
{
    return (uint32_t)reader_integer(r, 0, UINT32_MAX);
}

int32_t
reader_extent(Reader *r)
{
    return (int32_t)reader_integer(r, 1, INT32_MAX);
}

/* strtod wants the radix character of the locale; the text always has a point. */
static double
decimal(Reader *r, const char *text)
{
    char sample[8];
    char *copy = arena_strndup(r->arena, text, strlen(text));

    snprintf(sample, sizeof sample, "%.1f", 1.5);
    for (char *c = copy; *c != '\0'; c++)
        if (*c == '.')
            *c = sample[1];
    return strtod(copy, NULL);
}

double
reader_number(Reader *r)
{
    bool negative = reader_accept(r, "-");
    double value;

    if (reader_accept(r, "inf"))
        value = INFINITY;
    else if (reader_accept(r, "nan"))
        value = NAN;
    else
        value = decimal(r, reader_take(r, TOK_NUMBER, "a number"));
    return negative ? -value : value;
}

DType
reader_dtype(Reader *r)
{
    Span span = r->token.span;
    const char *text = reader_take(r, TOK_NAME, "an element type");
    DType dtype = DT_F32;

    if (!r->failed && !dtype_parse(text, &dtype))
        reader_fail_at(r, span, arena_printf(r->arena, "there is no element type '%s'", text));
    return dtype;
}

TirType
reader_type(Reader *r)
{
    TirType type = tir_scalar(reader_dtype(r));

    if (!reader_accept(r, "["))
        return type;
    do {
        if (type.rank == TIR_MAX_RANK) {
            reader_fail(r, "a tile has at most 4 dimensions");
            break;
        }
        type.dim[type.rank++] = reader_extent(r);
    } while (reader_accept(r, ","));
    reader_expect(r, "]");
    return type;
}

/* ---- layouts ---- */

static int32_t
take_step(Reader *r)
{
    return (int32_t)reader_integer(r, 0, INT32_MAX);
}

static DigitList
take_digits(Reader *r, uint32_t rank)
{
    DigitList list = {0};

    while (!r->failed && r->token.kind == TOK_NUMBER) {
        LayoutDigit digit = {.extent = reader_extent(r)};
        reader_expect(r, ":");
        for (uint32_t axis = 0; axis < (rank == 2 ? 2 : 1); axis++) {
            if (axis > 0)
                reader_expect(r, ",");
            digit.step[axis] = take_step(r);
        }
        if (list.n == LAYOUT_DIGITS)
            reader_fail(r, "a layout has at most 8 digits in each part");
        else
            list.at[list.n++] = digit;
    }
    return list;
}

/* "64x32": the number, and the name "x32" behind it. */
static uint32_t
take_shape(Reader *r, int32_t shape[LAYOUT_RANK])
{
    if (r->token.kind != TOK_NUMBER)
        return 0;
    shape[0] = reader_extent(r);
    if (r->failed || r->token.kind != TOK_NAME || r->token.text[0] != 'x')
        return 1;
    char *end = NULL;
    long columns = strtol(r->token.text + 1, &end, 10);
    if (*end != '\0' || columns <= 0 || columns > INT32_MAX)
        reader_fail(r, "expected the extents of a layout, like 64x32");
    shape[1] = (int32_t)columns;
    reader_next(r);
    return 2;
}

const Layout *
reader_layout(Reader *r)
{
    Layout *layout = arena_new(r->arena, Layout);

    reader_expect(r, "{");
    layout->rank = take_shape(r, layout->shape);
    reader_expect(r, "reg");
    layout->reg = take_digits(r, layout->rank);
    reader_expect(r, "|");
    reader_expect(r, "lane");
    layout->lane = take_digits(r, layout->rank);
    reader_expect(r, "|");
    reader_expect(r, "warp");
    layout->warp = take_digits(r, layout->rank);
    reader_expect(r, "}");
    return layout;
}

const SharedLayout *
reader_shared_layout(Reader *r)
{
    enum { MOST_SWIZZLE = 8 }; /* bits: more than any row of a tile or atom needs */
    SharedLayout *layout = arena_new(r->arena, SharedLayout);
    int32_t shape[LAYOUT_RANK] = {0};

    reader_expect(r, "{");
    if (take_shape(r, shape) != 2)
        reader_fail(r, "expected the extents of a layout, like 64x32");
    layout->rows = shape[0];
    layout->cols = shape[1];
    reader_expect(r, "pitch");
    layout->pitch = take_step(r);
    reader_expect(r, "swizzle");
    layout->bits = take_step(r);
    reader_expect(r, ">>");
    layout->shift = take_step(r);
    if (layout->bits < 0 || layout->bits > MOST_SWIZZLE || layout->shift < 0 ||
        layout->shift > MOST_SWIZZLE)
        reader_fail(r, "expected a swizzle of a row's lowest bits, like 3>>0");
    layout->atom_columns = reader_accept(r, "atom_columns");
    reader_expect(r, "}");
    return layout;
}
