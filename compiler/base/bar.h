/* bar.h - a progress bar on standard error, for work that takes longer than a second.
 *
 * It is shown where standard error is a terminal and the user did not ask for quiet, from the
 * second second on, and is taken away at the end.
 */
#ifndef TILEC_BAR_H
#define TILEC_BAR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Bar {
    bool on;
    double begun, shown; /* seconds; shown 0: not yet */
} Bar;

Bar bar_begin(bool quiet);
/* "[####....] done of `of`", then the rest of the line as printf has it. */
void bar_show(Bar *bar, uint64_t done, uint64_t of, const char *rest, ...)
    __attribute__((format(printf, 4, 5)));
/* Seconds since it began. */
double bar_seconds(const Bar *bar);
void bar_end(Bar *bar);

#endif
