/* stdlib.h - the library's .tile files, embedded; the table is made by stdlib/embed.cmake. */
#ifndef TILEC_STDLIB_H
#define TILEC_STDLIB_H

#include <stddef.h>

typedef struct StdlibFile {
    const char *name; /* "softmax", as `use` says it */
    const char *text;
    size_t n;
} StdlibFile;

extern const StdlibFile stdlib_files[];
extern const size_t stdlib_file_count;

#endif
