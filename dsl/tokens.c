/* tokens.c - the lexer's tokens, with the comments that stand in the gaps between them. */
#include "dsl/tokens.h"

#include <string.h>

#include "dsl/parser.h"
#include "tile.tab.h"

/* made by flex (tile.l) */
typedef struct yy_buffer_state *LexBuffer;
int tile_lex_lex_init_extra(Parser *parser, void **scanner);
int tile_lex_lex_destroy(void *scanner);
LexBuffer tile_lex__scan_bytes(const char *bytes, int n, void *scanner);
int tile_lex_lex(TILE_PARSE_STYPE *value, Span *place, void *scanner);

const char *const dsl_keywords[] = {
    "use",   "kernel", "fn",         "let",        "var",        "for",   "in",   "out",
    "inout", "if",     "else",       "return",     "require",    "grid",  "load", "store",
    "print", "assert", "atomic_add", "atomic_max", "atomic_min", "zeros", "full", "as",
    "true",  "false",  "None",       "auto",       "while",      NULL};

bool
token_is(const Token *token, const char *text)
{
    return strlen(text) == token->n && memcmp(token->text, text, token->n) == 0;
}

/* What is being read. */
typedef struct Reading {
    Arena *arena;
    const SourceFile *file;
    TokenList tokens;
    uint32_t lines; /* ends of lines since the last token */
} Reading;

static void
add_token(Reading *reading, TokenKind kind, uint32_t lo, uint32_t hi)
{
    const SourceFile *file = reading->file;
    Token token = {.kind = kind,
                   .span = {file->base + lo, file->base + hi},
                   .text = file->text + lo,
                   .n = hi - lo,
                   .lines = reading->lines};

    vec_push(reading->arena, &reading->tokens, token);
    reading->lines = 0;
}

/* The comments between two tokens, of which none is empty. */
static void
add_comments(Reading *reading, uint32_t at, uint32_t end)
{
    const char *text = reading->file->text;

    while (at < end) {
        uint32_t begin = at;
        if (at + 1 < end && text[at] == '/' && text[at + 1] == '/') {
            while (at < end && text[at] != '\n')
                at++;
            uint32_t last = at;
            while (strchr(" \t\r\f", text[last - 1]) != NULL)
                last--;
            add_token(reading, TOKEN_COMMENT, begin, last);
        } else if (at + 1 < end && text[at] == '/' && text[at + 1] == '*') {
            at += 2;
            while (at < end && !(text[at - 1] == '*' && text[at] == '/' && at - begin >= 3))
                at++;
            at = at < end ? at + 1 : end;
            add_token(reading, TOKEN_COMMENT, begin, at);
        } else {
            reading->lines += text[at] == '\n';
            at++;
        }
    }
}

static TokenKind
kind_of(int code)
{
    switch (code) {
    case TILE_PARSE_NAME: return TOKEN_NAME;
    case TILE_PARSE_STRING: return TOKEN_STRING;
    case TILE_PARSE_INTEGER:
    case TILE_PARSE_FLOATING: return TOKEN_NUMBER;
    default: return code >= TILE_PARSE_USE && code <= TILE_PARSE_AUTO ? TOKEN_KEYWORD : TOKEN_SIGN;
    }
}

TokenList
dsl_tokens(Arena *arena, const SourceFile *file)
{
    Diag unsaid;
    Parser parser = {.arena = arena, .diag = &unsaid, .file = file};
    Reading reading = {.arena = arena, .file = file};
    TILE_PARSE_STYPE value;
    uint32_t end = 0;
    Span place;
    void *scanner;

    diag_init(&unsaid, arena);
    unsaid.muted = true;
    tile_lex_lex_init_extra(&parser, &scanner);
    parser.offset = file_mark(file);
    tile_lex__scan_bytes(file->text + parser.offset, (int)(file->n - parser.offset), scanner);
    for (;;) {
        int code = tile_lex_lex(&value, &place, scanner);
        if (code == TILE_PARSE_EOF)
            break;
        add_comments(&reading, end, place.lo - file->base);
        end = place.hi - file->base;
        add_token(&reading, kind_of(code), place.lo - file->base, end);
    }
    add_comments(&reading, end, file->n);
    tile_lex_lex_destroy(scanner);
    return reading.tokens;
}
