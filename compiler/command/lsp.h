/* lsp.h - `tilec lsp`: a language server on standard input and output (docs/editors.md). */
#ifndef TILEC_COMMAND_LSP_H
#define TILEC_COMMAND_LSP_H

/* With the words behind `lsp`: -I FOLDER, as for a compilation.  Until `exit` or the end of the
 * input; the exit status. */
int lsp_serve(int argc, char **argv);

#endif
