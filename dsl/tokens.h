/* tokens.h - the tokens of a file with its comments, for what works on text as it is written: the
 * formatter and editors. */
#ifndef TILEC_DSL_TOKENS_H
#define TILEC_DSL_TOKENS_H

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"

typedef enum TokenKind {
    TOKEN_NAME,
    TOKEN_KEYWORD,
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_SIGN,
    TOKEN_COMMENT /* of either kind; one of several lines is one token */
} TokenKind;

typedef struct Token {
    TokenKind kind;
    Span span;
    const char *text; /* its bytes, with no NUL behind them */
    uint32_t n;
    uint32_t lines; /* ends of lines between the token before and this one */
} Token;
typedef VEC(Token) TokenList;

/* All tokens of a file, also of one that does not parse; what is no token is left out. */
TokenList dsl_tokens(Arena *arena, const SourceFile *file);
bool token_is(const Token *token, const char *text);

extern const char *const dsl_keywords[]; /* NULL ends it */

#endif
