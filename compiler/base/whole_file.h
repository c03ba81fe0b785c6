/* whole_file.h - writes files that appear whole or not at all. */
#ifndef TILEC_BASE_WHOLE_FILE_H
#define TILEC_BASE_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* A piece of what a file has. */
typedef struct FilePart {
    const void *bytes;
    size_t n;
} FilePart;

/* Writes the parts beside the place of the file and renames that: on a full disk, say, a file of that name
 * stays what it was.  A device, a pipe or a link (/dev/stdout) is written to in place.  False with errno. */
bool whole_file_write(const char *path, const FilePart *parts, size_t n_parts);

#endif
