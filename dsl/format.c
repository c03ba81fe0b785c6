/* format.c - lays a file out in the style of the examples.
 *
 * Works on tokens, so that comments have their places and nothing is lost.  The author's ends of
 * lines inside a statement stay; each statement begins a line, but for blocks that are written on
 * one line.  Blanks follow from the tokens, except where neighbouring lines are aligned in columns:
 * that is kept, with as few blanks as it needs.
 *
 * Three steps: mark (what a token is for: a sign before its operand, a bracket of a call, ..),
 * break (which tokens begin a line), place (columns).  Columns of aligned tokens depend on each
 * other, so places are found again until nothing moves; and the whole is done again until nothing
 * changes, so that what comes out stays as it is.
 */
#include "dsl/format.h"

#include <string.h>

#include "dsl/tokens.h"

enum { INDENT = 4, TAB = 8, ROUNDS = 64, LINES = 64, TIMES = 8, NOWHERE = -1 };

/* One token and what is found out about it. */
typedef struct Item {
    const Token *token;
    /* mark */
    bool prefix;   /* - or ! before its operand */
    bool angle;    /* < or > around types and compile-time parameters */
    bool tight;    /* the = of a named argument in a call */
    bool header;   /* the ( of a kernel's parameters, or its body's { */
    bool one_line; /* { or } of a block on one line */
    bool starts;   /* a statement, or what stands where one may begin */
    bool resumes;  /* else */
    int32_t depth; /* blocks around */
    int32_t open;  /* the innermost bracket that is open before this token; NOWHERE: none */
    int32_t block; /* likewise the innermost {; of a }, its own */
    /* break */
    uint32_t breaks; /* ends of lines before it: 0, 1, 2 */
    uint32_t line;   /* of the output */
    /* place */
    int32_t gap;  /* blanks before it, where nothing is aligned */
    int32_t seen; /* its column in the source */
    int32_t seen_gap;
    bool joined;   /* its line was several in the source: its column there says nothing */
    int32_t shift; /* of the beginning of its line, from the source to here */
    int32_t group; /* of aligned tokens: leads to the one that stands for them */
    int32_t pad, column;
} Item;

typedef struct Format {
    Arena *arena;
    Item *items;
    int32_t n;
} Format;

static bool
is(const Item *item, const char *text)
{
    return item->token->kind != TOKEN_STRING && item->token->kind != TOKEN_COMMENT &&
           token_is(item->token, text);
}

static bool
is_one_of(const Item *item, const char *const *texts)
{
    for (; *texts != NULL; texts++)
        if (is(item, *texts))
            return true;
    return false;
}

static bool
is_comment(const Item *item)
{
    return item->token->kind == TOKEN_COMMENT;
}

/* Whether an operand ends here, so that a - behind it has two. */
static bool
ends_operand(const Item *item)
{
    static const char *const words[] = {"true", "false", "None", "auto", ")", "]", NULL};

    return (item->token->kind == TOKEN_NAME && !is(item, "while")) ||
           item->token->kind == TOKEN_NUMBER || item->token->kind == TOKEN_STRING ||
           is_one_of(item, words);
}

/* ---- mark ---- */

/* What was read so far of the file. */
typedef struct Marking {
    Format *f;
    VEC(int32_t) brackets; /* open ones: ( [ < */
    VEC(int32_t) blocks;   /* open { */
    int32_t last, before;  /* tokens that are no comments; NOWHERE: none */
    bool starts;           /* a statement may begin here */
    bool attribute;        /* in one, whose end lets a statement begin */
    bool kernel;           /* between `kernel` and its body */
    bool call[64];         /* by bracket: is it a call's */
} Marking;

static bool
opens_call(const Marking *m, const Item *item)
{
    const Item *items = m->f->items;

    if (!is(item, "(") || m->last == NOWHERE || items[m->last].token->kind != TOKEN_NAME)
        return false;
    return m->before == NOWHERE || (!is(&items[m->before], "@") && !is(&items[m->before], "fn"));
}

static void
mark_bracket(Marking *m, int32_t at)
{
    static const char *const left[] = {"(", "[", NULL}, *const right[] = {")", "]", NULL};
    Item *item = &m->f->items[at];
    uint32_t depth = m->brackets.n;
    bool typed = m->last != NOWHERE && is(item, "<") &&
                 (is(&m->f->items[m->last], "zeros") || is(&m->f->items[m->last], "full") ||
                  (m->before != NOWHERE && is(&m->f->items[m->before], "kernel")));

    item->angle = typed ||
                  (is(item, ">") && depth > 0 && m->f->items[m->brackets.at[depth - 1]].angle);
    if (typed || is_one_of(item, left)) {
        item->header = m->kernel && depth == 0 && is(item, "(");
        if (depth < sizeof m->call)
            m->call[depth] = !m->kernel && opens_call(m, item);
        vec_push(m->f->arena, &m->brackets, at);
    } else if ((item->angle || is_one_of(item, right)) && depth > 0) {
        m->brackets.n--;
    }
    item->tight = is(item, "=") && depth > 0 && depth <= sizeof m->call && m->call[depth - 1];
}

/* The { at `open` and the } at `close` are a pair. */
static void
mark_block(Format *f, int32_t open, int32_t close)
{
    bool one_line = !f->items[open].header;

    for (int32_t k = open + 1; k <= close; k++) {
        const Token *token = f->items[k].token;
        one_line &= token->lines == 0 &&
                    (token->kind != TOKEN_COMMENT || memchr(token->text, '\n', token->n) == NULL);
    }
    f->items[open].one_line = f->items[close].one_line = one_line || close == open + 1;
}

/* A token that is no comment; `starts` and `attribute` afterwards. */
static void
mark_token(Marking *m, int32_t at)
{
    Item *item = &m->f->items[at];
    uint32_t depth = m->brackets.n;

    item->prefix = (is(item, "-") || is(item, "!")) &&
                   (m->last == NOWHERE || !ends_operand(&m->f->items[m->last]));
    item->resumes = is(item, "else");
    if (m->starts && m->attribute && !is(item, "(") && !is(item, "@"))
        m->attribute = false;
    if (m->starts && is(item, "@"))
        m->attribute = true;
    m->kernel |= is(item, "kernel");
    if (is(item, "{")) {
        item->header = m->kernel;
        m->kernel = false;
        vec_push(m->f->arena, &m->blocks, at);
    }
    if (is(item, "}") && m->blocks.n > 0) {
        m->blocks.n--;
        item->depth--;
        mark_block(m->f, m->blocks.at[m->blocks.n], at);
    }
    mark_bracket(m, at);
    /* behind `@name` or `@name(..)` a statement begins, or one more attribute */
    bool named = m->last != NOWHERE && is(&m->f->items[m->last], "@");
    m->starts = m->brackets.n == 0 && (is(item, "{") || is(item, "}") || is(item, ";") ||
                                       (m->attribute && (named || (depth == 1 && is(item, ")")))));
}

static void
mark(Format *f)
{
    Marking m = {.f = f, .last = NOWHERE, .before = NOWHERE, .starts = true};

    for (int32_t k = 0; k < f->n; k++) {
        Item *item = &f->items[k];
        item->depth = (int32_t)m.blocks.n;
        item->open = m.brackets.n > 0 ? m.brackets.at[m.brackets.n - 1] : NOWHERE;
        item->block = m.blocks.n > 0 ? m.blocks.at[m.blocks.n - 1] : NOWHERE;
        item->starts = m.starts && !(m.attribute && is(item, "("));
        if (is_comment(item))
            continue;
        mark_token(&m, k);
        m.before = m.last;
        m.last = k;
    }
}

/* ---- break ---- */

static bool
in_one_line(const Format *f, int32_t at)
{
    int32_t block = f->items[at].block;
    return block != NOWHERE && f->items[block].one_line;
}

static uint32_t
breaks_before(const Format *f, int32_t at)
{
    static const char *const kept[] = {";", ",", "{", NULL};
    const Item *item = &f->items[at], *last = &f->items[at - 1];
    uint32_t seen = item->token->lines > 2 ? 2 : item->token->lines, one = seen > 0;

    if (is_comment(item) || is_comment(last)) {
        bool at_edge = is(last, "{") || is(item, "}");
        if (seen > 1 && (!item->starts || at_edge))
            seen = 1;
        return seen == 0 && is(item, "}") ? !in_one_line(f, at) : seen;
    }
    if (is(item, "{"))
        return item->header;
    if (is(item, "}") || is(last, "{"))
        return !in_one_line(f, at);
    if (item->resumes)
        return last->one_line ? one : 0;
    if (item->starts && (is(last, ";") || is(last, "}")))
        return in_one_line(f, at) ? 0 : seen > 1 ? 2 : 1;
    return is_one_of(item, kept) ? 0 : one;
}

static void
find_breaks(Format *f)
{
    uint32_t line = 0;

    for (int32_t k = 0; k < f->n; k++) {
        f->items[k].breaks = k == 0 ? 0 : breaks_before(f, k);
        line += f->items[k].breaks;
        f->items[k].line = line;
    }
}

/* ---- place ---- */

static int32_t
gap_before(const Item *last, const Item *item)
{
    static const char *const closing[] = {",", ";", ")", "]", NULL};
    static const char *const opening[] = {"(", "[", "@", NULL};
    static const char *const dots[] = {".", "..", NULL};
    static const char *const callers[] = {"print", "assert", "]", ")", NULL};
    bool called = (last->token->kind == TOKEN_NAME && !is(last, "while")) ||
                  is_one_of(last, callers) || (last->angle && is(last, ">"));

    if (is_comment(item) || is_comment(last))
        return is_comment(item) ? 1 : !is_one_of(item, closing);
    if (last->header && is(last, "(") && last->breaks > 0)
        return INDENT - 1;
    if (is_one_of(item, closing) || is_one_of(last, opening) || is_one_of(item, dots) ||
        is_one_of(last, dots))
        return 0;
    if (item->angle || (last->angle && is(last, "<")) || last->prefix || item->tight || last->tight)
        return 0;
    if (is(item, "(") || is(item, "["))
        return !called;
    if (is(item, ":"))
        return last->token->kind != TOKEN_NAME;
    if (is(item, "}") && is(last, "{"))
        return 0;
    return 1;
}

static int32_t
width(const char *text, uint32_t n)
{
    int32_t columns = 0;

    for (uint32_t k = 0; k < n; k++)
        columns += (text[k] & 0xc0) != 0x80;
    return columns;
}

/* Columns in the source: a token's own, and how many blanks stand before it. */
static void
find_seen(const SourceFile *file, Format *f)
{
    uint32_t at = 0;
    int32_t column = 0;

    for (int32_t k = 0; k < f->n; k++) {
        Item *item = &f->items[k];
        uint32_t begin = item->token->span.lo - file->base;
        int32_t blanks = 0;
        for (; at < begin; at++) {
            int32_t more = file->text[at] == '\t' ? TAB - column % TAB : 1;
            if (file->text[at] == '\n')
                column = blanks = 0;
            else if (file->text[at] != '\r')
                column += more, blanks += more;
        }
        item->seen = column;
        item->seen_gap = blanks;
        item->joined = k > 0 && item->breaks == 0 &&
                       (item->token->lines > 0 || f->items[k - 1].joined);
        const char *newline = NULL;
        for (uint32_t i = 0; i < item->token->n; i++)
            if (item->token->text[i] == '\n')
                newline = item->token->text + i + 1;
        uint32_t rest = newline == NULL ? item->token->n
                                        : item->token->n - (uint32_t)(newline - item->token->text);
        item->shift = k > 0 && item->breaks == 0 ? f->items[k - 1].shift
                                                 : item->column - item->seen;
        column = (newline == NULL ? column : 0) +
                 width(item->token->text + item->token->n - rest, rest);
        at = begin + item->token->n;
    }
}

static int32_t
group_of(const Format *f, int32_t at)
{
    while (f->items[at].group != at)
        at = f->items[at].group;
    return at;
}

/* In the nearest line of its paragraph, above or below (`step` -1 or 1), that has one: the token
 * that begins in the column of token `at`.  NOWHERE: none. */
static int32_t
seen_beside(const Format *f, int32_t at, int32_t step)
{
    const Item *item = &f->items[at];
    uint32_t line = item->line, lines = 0;

    for (int32_t k = at + step; k > 0 && k < f->n && lines < LINES; k += step) {
        const Item *other = &f->items[k];
        uint32_t apart = other->line > line ? other->line - line : line - other->line;
        if (apart > 1)
            return NOWHERE; /* an empty line ends the paragraph */
        lines += apart;
        line = other->line;
        if (line != item->line && other->breaks == 0 && !other->joined &&
            other->seen == item->seen && other->gap > 0 && other->shift == item->shift)
            return k;
    }
    return NOWHERE;
}

/* Tokens of one paragraph that the author has put into one column, with blanks. */
static void
find_groups(Format *f)
{
    for (int32_t k = 0; k < f->n; k++)
        f->items[k].group = k;
    for (int32_t k = 1; k < f->n; k++) {
        const Item *item = &f->items[k];
        if (item->breaks > 0 || item->joined || item->gap == 0 || item->seen_gap <= item->gap)
            continue;
        for (int32_t step = -1; step <= 1; step += 2) {
            int32_t other = seen_beside(f, k, step);
            if (other != NOWHERE)
                f->items[group_of(f, other)].group = group_of(f, k);
        }
    }
}

/* Where a line begins. */
static int32_t
indent_of(const Format *f, int32_t at, int32_t statement)
{
    static const char *const right[] = {")", "]", NULL};
    const Item *item = &f->items[at];

    if (item->starts || item->resumes || is(item, "}") || is(item, "{"))
        return INDENT * item->depth;
    if (item->open == NOWHERE)
        return item->header ? statement : statement + INDENT;
    const Item *bracket = &f->items[item->open], *next = bracket + 1;
    int32_t line = item->open; /* first token of the line of the bracket */
    while (line > 0 && f->items[line].breaks == 0)
        line--;
    if (is_one_of(item, right) || item->angle)
        return f->items[line].column;
    if (next != item && next->breaks == 0 && !is_comment(next))
        return next->column;
    return f->items[line].column + INDENT;
}

/* Columns from left to right and line after line. */
static void
place(Format *f)
{
    int32_t column = 0, statement = 0;

    for (int32_t k = 0; k < f->n; k++) {
        Item *item = &f->items[k];
        int32_t begin = k > 0 && item->breaks == 0 ? column + item->gap + item->pad
                                                   : indent_of(f, k, statement);
        if (item->starts)
            statement = INDENT * item->depth;
        item->column = begin;
        const char *newline = memchr(item->token->text, '\n', item->token->n);
        column = newline == NULL ? begin + width(item->token->text, item->token->n) : 0;
    }
}

/* Each group goes as far to the left as its tokens allow; true when that moves one. */
static bool
align(Format *f)
{
    int32_t *least = arena_array(f->arena, int32_t, f->n + 1);
    bool changed = false;

    for (int32_t k = 0; k < f->n; k++) {
        int32_t group = group_of(f, k), free_column = f->items[k].column - f->items[k].pad;
        least[group] = free_column > least[group] ? free_column : least[group];
    }
    for (int32_t k = 0; k < f->n; k++) {
        Item *item = &f->items[k];
        int32_t group = group_of(f, k);
        int32_t pad = item->breaks > 0 || k == 0 ? 0 : least[group] - (item->column - item->pad);
        changed |= pad != item->pad;
        item->pad = pad;
    }
    return changed;
}

/* False when the aligned tokens push each other on without end. */
static bool
find_places(const SourceFile *file, Format *f, bool aligned)
{
    for (int32_t k = 1; k < f->n; k++)
        f->items[k].gap = gap_before(&f->items[k - 1], &f->items[k]);
    place(f);
    if (!aligned)
        return true;
    find_seen(file, f);
    find_groups(f);
    for (int32_t round = 0; round < ROUNDS; round++) {
        if (!align(f))
            return true;
        place(f);
    }
    return false;
}

/* ---- print ---- */

static void
print(const Format *f, Buf *out)
{
    for (int32_t k = 0; k < f->n; k++) {
        const Item *item = &f->items[k];
        for (uint32_t i = 0; i < item->breaks; i++)
            buf_char(out, '\n');
        int32_t blanks = k == 0 ? 0 : item->breaks > 0 ? item->column : item->gap + item->pad;
        for (int32_t i = 0; i < blanks; i++)
            buf_char(out, ' ');
        buf_addn(out, item->token->text, item->token->n);
    }
    if (f->n > 0)
        buf_char(out, '\n');
}

/* The text has the same tokens, comments among them, in the same order. */
static bool
same_tokens(Arena *arena, const TokenList *tokens, const char *text, uint32_t n)
{
    SourceFile file = {.path = "", .text = text, .n = n, .base = 1};
    TokenList again = dsl_tokens(arena, &file);
    bool same = again.n == tokens->n;

    for (uint32_t k = 0; same && k < again.n; k++)
        same = again.at[k].n == tokens->at[k].n &&
               memcmp(again.at[k].text, tokens->at[k].text, again.at[k].n) == 0;
    return same;
}

/* Once; false when that fails. */
static bool
lay_out(Arena *arena, const SourceFile *file, bool aligned, Buf *out)
{
    TokenList tokens = dsl_tokens(arena, file);
    Format f = {
        .arena = arena, .items = arena_array(arena, Item, tokens.n + 1), .n = (int32_t)tokens.n};

    for (uint32_t k = 0; k < tokens.n; k++)
        f.items[k].token = &tokens.at[k];
    mark(&f);
    find_breaks(&f);
    if (!find_places(file, &f, aligned))
        return false;
    buf_init(out, arena);
    buf_add(out, "");
    print(&f, out);
    return true;
}

bool
dsl_format(Arena *arena, const SourceFile *file, Buf *out)
{
    TokenList tokens = dsl_tokens(arena, file);
    SourceFile now = *file;
    bool settled = false;
    Buf text;

    /* what a new layout brings into one column by chance may count as aligned the next time */
    for (uint32_t k = 0; k < TIMES && !settled && lay_out(arena, &now, true, &text); k++) {
        settled = text.n == now.n && memcmp(text.at, now.text, now.n) == 0;
        now.text = text.at;
        now.n = text.n;
    }
    if (!settled) /* without columns: nothing is aligned in what comes out */
        lay_out(arena, file, false, &text);
    buf_addn(out, text.at, text.n);
    return same_tokens(arena, &tokens, text.at, text.n);
}
