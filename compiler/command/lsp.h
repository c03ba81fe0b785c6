/* lsp.h - `tilec lsp`: a language server on standard input and output (docs/editors.md). */
#ifndef TILEC_COMMAND_LSP_H
#define TILEC_COMMAND_LSP_H

/* Until `exit` or the end of the input; the exit status. */
int lsp_serve(void);

#endif
