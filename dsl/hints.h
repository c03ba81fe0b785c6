/* hints.h - what to write in place of words of other languages. */
#ifndef TILEC_DSL_HINTS_H
#define TILEC_DSL_HINTS_H

/* A sentence for a word that is no statement, name or function here; NULL: there is none. */
const char *word_hint(const char *word);

#endif
