/* arguments.h - what a caller of the library must give. */
#ifndef TILEC_DRIVER_ARGUMENTS_H
#define TILEC_DRIVER_ARGUMENTS_H

#include "compiler/tilec.h"

/* An error message about the first argument that is missing (NULL), or no value of its kind; NULL:
 * all are there. */
const char *arguments_missing(const TilecOptions *options, const char *path, const char *text,
                              size_t n);
const char *arguments_missing_search(const TilecSearch *search);
const char *arguments_missing_run(const TilecRun *run);
/* Of an allocator, which may be NULL. */
const char *arguments_missing_allocator(const TilecAllocator *allocator);

#endif
