/* format.h - a file in the style of the examples: what `tilec fmt` does. */
#ifndef TILEC_DSL_FORMAT_H
#define TILEC_DSL_FORMAT_H

#include "compiler/base/diag.h"

/* Adds the file, laid out anew, to `out`.  It must have parsed without errors.  Tokens and comments
 * stay what they are and where they are; false when they would not, which is a fault of the
 * formatter. */
bool dsl_format(Arena *arena, const SourceFile *file, Buf *out);

#endif
