/* watch.h - `tilec watch`: compiles a program as its files are saved, and keeps its output up to
 * date. */
#ifndef TILEC_COMMAND_WATCH_H
#define TILEC_COMMAND_WATCH_H

#include <stdbool.h>
#include <stddef.h>

/* One compilation, as it is told of by what compiles. */
typedef struct WatchRound {
    /* that were read, or looked for in vain: a change of any of them is the next round */
    struct WatchedFile *files;
    size_t n;
    char *page;     /* the HTML file that it writes; NULL: none */
    char *messages; /* errors and warnings; NULL: none were kept */
    int status;     /* the exit status that the command would have */
} WatchRound;

/* Notes a file before it is read; `round` may be NULL, and nothing is noted. */
void watch_saw(WatchRound *round, const char *path);

/* Compiles by `compile`, and again whenever a file that was seen is another one, until SIGINT or
 * SIGTERM comes while nothing is compiled.  A page gets a script that shows errors, and loads it
 * anew when it has changed.  Returns the exit status. */
int watch_files(void (*compile)(void *user, WatchRound *round), void *user, const char *input);

#endif
