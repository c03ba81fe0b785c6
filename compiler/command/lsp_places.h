/* lsp_places.h - places of files as the protocol of editors has them: lines, and UTF-16 units in a
 * line. */
#ifndef TILEC_LSP_PLACES_H
#define TILEC_LSP_PLACES_H

#include <jansson.h>

#include "compiler/front/editor.h"

json_t *lsp_position(const SourceFile *file, uint32_t offset);
json_t *lsp_range(const SourceFile *file, Span span);
/* The offset that "line" and "character" of a position mean; false: it is none. */
bool lsp_offset(const SourceFile *file, const json_t *position, uint32_t *offset);

#endif
