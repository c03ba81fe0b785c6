/* lsp_without.c - in place of the language server where no library for JSON was found. */
#include "compiler/command/lsp.h"

#include "compiler/command/files.h"

int
lsp_serve(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return complain("this tilec was built without libjansson, which the language server needs");
}
