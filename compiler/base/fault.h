/* fault.h - why something could not be done: one sentence for the user. */
#ifndef TILEC_BASE_FAULT_H
#define TILEC_BASE_FAULT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct Fault {
    char text[2048];
} Fault;

/* Says why; always false, so that a function can end with `return fault_set(...)`. */
__attribute__((format(printf, 2, 3))) static inline bool
fault_set(Fault *fault, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(fault->text, sizeof fault->text, format, args);
    va_end(args);
    return false;
}

#endif
