/* measure.h - `tilec search --measure`: times plans on a GPU, and keeps what it finds. */
#ifndef TILEC_COMMAND_MEASURE_H
#define TILEC_COMMAND_MEASURE_H

#include "compiler/command/flags.h"

typedef struct Measuring {
    const TilecOptions *options; /* of the compilations, but for the plan and what is `auto` */
    const SearchFlags *asked;
    const char *path, *text; /* the source */
    size_t n;
    const char *database; /* the file that lines are added to */
    const char *self;     /* argv[0]: tilerun is looked for beside it */
} Measuring;

/* The exit status: 0 when all was timed that can be, or was timed before. */
int measure_plans(const Measuring *m);

#endif
