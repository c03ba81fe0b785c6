/* run.h - `tilec run`: the reference interpreter on .npy files. */
#ifndef TILEC_COMMAND_RUN_H
#define TILEC_COMMAND_RUN_H

#include "compiler/command/flags.h"

/* NAME=TEXT, as given; the names are copies. */
typedef struct RunList {
    TilecDefine *at;
    size_t n;
} RunList;

typedef struct RunFlags {
    RunList inputs, outputs, sets, tolerances;
    uint64_t seed;
    TilecNan nan;
    const char *sums; /* NULL: not given */
} RunFlags;

extern const FlagRow run_rows[];
extern const size_t run_row_count;

/* For a command line of `argc` words. */
void run_flags_init(RunFlags *flags, size_t argc);
void run_flags_free(RunFlags *flags);
int run_flag_set(RunFlags *flags, const FlagRow *row, const char *value);
/* Runs the program `text`; the exit status. */
int run_program(const TilecOptions *options, const RunFlags *flags, const char *path,
                const char *text, size_t n);

#endif
