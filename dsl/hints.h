/* hints.h - what to write in place of what other languages have. */
#ifndef TILEC_DSL_HINTS_H
#define TILEC_DSL_HINTS_H

#include "dsl/parser.h"

/* A sentence for a word that is no statement, name or function here; NULL: there is none. */
const char *word_hint(const char *word);
/* What a type of other languages is called here; NULL: it is none. */
const char *type_hint(Arena *arena, const char *word);
/* The hint for a word that was called, or stands behind `as`. */
const char *conversion_hint(Arena *arena, const char *word);
/* What the parser knows where it is stuck. */
typedef struct SyntaxContext {
    bool is_name, is_end;      /* the token found is a name, the end of the file */
    bool statement, subscript; /* one might end there */
    bool closes;               /* `)` or `]` might stand there */
} SyntaxContext;

/* Whether something was wrong on the line of a place: what follows there may be so by that. */
bool is_same_line(const Parser *parser, Span place);
/* Reports a syntax error: `text`, what was expected, and what was found; with a note on words of
 * other languages, slices and methods.  What is missing at the end of a line is missing there, and
 * not where the next one begins. */
void report_syntax(Parser *parser, Span place, Buf *text, const SyntaxContext *context);

#endif
