/* depend.h - what an output is made of, as a rule of make. */
#ifndef TILEC_COMMAND_DEPEND_H
#define TILEC_COMMAND_DEPEND_H

#include <stddef.h>

/* Writes "TARGET: FILE FILE .." to `path`, or to TARGET with its ending replaced by .d where `path`
 * is NULL.  Complains; returns the exit status. */
int write_dependencies(const char *path, const char *target, const char *const *files, size_t n);

#endif
