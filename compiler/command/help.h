/* help.h - what `tilec --help` prints. */
#ifndef TILEC_COMMAND_HELP_H
#define TILEC_COMMAND_HELP_H

#include "compiler/command/flags.h"

/* `rows`: the options of a compilation. */
void print_help(const FlagRow *rows, int n);
/* What stands for an option that other compilers have; NULL: none is known. */
const char *foreign_option(const char *name);

#endif
