/* lsp_views.h - what a document is made of, for editors: symbols, places of a name, calls, colours,
 * mends of what is wrong. */
#ifndef TILEC_LSP_VIEWS_H
#define TILEC_LSP_VIEWS_H

#include <jansson.h>

#include "compiler/front/editor.h"

/* Kernels and functions, each with what is declared in it. */
json_t *lsp_symbols(const Editor *editor);
/* The places in the file itself of what stands at `use`. */
json_t *lsp_highlights(const Editor *editor, const NameUse *use);
/* How the call around `offset` is written, and which of its arguments that is; NULL: it is in
 * none. */
json_t *lsp_signature(Editor *editor, uint32_t offset);
/* The words for what names are, and those of the file in the protocol's numbers. */
json_t *lsp_token_legend(void);
json_t *lsp_tokens(const Editor *editor);
/* Changes of document `uri` that mend what messages between two places say. */
json_t *lsp_mends(Editor *editor, const char *uri, Span between);

#endif
