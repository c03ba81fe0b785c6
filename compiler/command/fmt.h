/* fmt.h - `tilec fmt`: files laid out in the style of the examples. */
#ifndef TILEC_COMMAND_FMT_H
#define TILEC_COMMAND_FMT_H

#include "compiler/command/flags.h"

extern const FlagRow fmt_rows[];
extern const size_t fmt_row_count;

/* What stands behind `tilec fmt`; the exit status. */
int fmt_files(int argc, char **argv);

#endif
