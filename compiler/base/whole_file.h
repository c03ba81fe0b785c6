/* whole_file.h - writes files that appear whole or not at all. */
#ifndef TILEC_BASE_WHOLE_FILE_H
#define TILEC_BASE_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* A part of a file's contents. */
typedef struct FilePart {
    const void *bytes;
    size_t n;
} FilePart;

/* Writes the parts to a temporary file in the same folder and renames it, so that a failure (a full
 * disk) leaves an older file as it was.  Devices, pipes and links (/dev/stdout) are written
 * directly.  On failure returns false with errno set. */
bool whole_file_write(const char *path, const FilePart *parts, size_t n_parts);
/* Whether it most likely can; else errno says why not.  For who works long before there is
 * something to write. */
bool whole_file_can_write(const char *path);

#endif
