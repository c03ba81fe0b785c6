/* hints.h - what to write in place of what other languages have. */
#ifndef TILEC_DSL_HINTS_H
#define TILEC_DSL_HINTS_H

#include "dsl/parser.h"

/* A sentence for a word that is no statement, name or function here; NULL: there is none. */
const char *word_hint(const char *word);
/* The same as a note behind a syntax error, for words, slices and methods.  `is_name`: its token is one;
 * `subscript`: a subscript might end there. */
void note_syntax(const Parser *parser, Span place, bool is_name, bool subscript);

#endif
