/* hints.h - what to write in place of what other languages have. */
#ifndef TILEC_DSL_HINTS_H
#define TILEC_DSL_HINTS_H

#include "dsl/parser.h"

/* A sentence for a word that is no statement, name or function here; NULL: there is none.  `used`: it was called, or
 * stood for a type. */
const char *word_hint(const char *word, bool used);
/* What the parser knows where it is stuck. */
typedef struct SyntaxContext {
    bool is_name, is_end;      /* the token found is a name, the end of the file */
    bool statement, subscript; /* one might end there */
} SyntaxContext;

/* Reports a syntax error: `text`, what was expected, and what was found; with a note on words of other languages, slices and methods.  What is missing at the end of a
 * line is missing there, and not where the next one begins. */
void report_syntax(const Parser *parser, Span place, Buf *text, const SyntaxContext *context);

#endif
