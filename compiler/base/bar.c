/* bar.c - the progress bar of the programs; libtilec itself shows none. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, fileno */
#include "compiler/base/bar.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 30 };

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

Bar
bar_begin(bool quiet)
{
    return (Bar){.on = !quiet && isatty(fileno(stderr)) == 1, .begun = now()};
}

double
bar_seconds(const Bar *bar)
{
    return now() - bar->begun;
}

void
bar_show(Bar *bar, uint64_t done, uint64_t of, const char *rest, ...)
{
    double t = now();
    char marks[WIDTH + 1];
    va_list list;

    if (!bar->on || t - bar->begun < 1 || t - bar->shown < 0.1)
        return;
    bar->shown = t;
    for (uint64_t k = 0; k < WIDTH; k++)
        marks[k] = k * of < done * WIDTH ? '#' : '.';
    marks[WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %" PRIu64 " of %" PRIu64, marks, done, of);
    va_start(list, rest);
    vfprintf(stderr, rest, list);
    va_end(list);
    fputs("\033[K", stderr); /* clears the rest of the line */
    fflush(stderr);
}

void
bar_end(Bar *bar)
{
    if (bar->shown > 0)
        fputs("\r\033[K", stderr);
    bar->shown = 0;
}
