/* whole_file.c - writes files that appear whole or not at all. */
#define _POSIX_C_SOURCE 200809L /* mkstemp, fdopen */
#include "compiler/base/whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Closes the file, too; errno is that of what failed first. */
static bool
write_parts(FILE *file, const FilePart *parts, size_t n_parts)
{
    bool good = true;

    for (size_t k = 0; good && k < n_parts; k++)
        good = fwrite(parts[k].bytes, 1, parts[k].n, file) == parts[k].n;
    good = good && fflush(file) == 0;
    int error = errno;
    if (fclose(file) != 0 && good)
        return false;
    errno = error;
    return good;
}

static bool
write_in_place(const char *path, const FilePart *parts, size_t n_parts)
{
    FILE *file = fopen(path, "wb");
    return file != NULL && write_parts(file, parts, n_parts);
}

/* As fopen would have made it. */
static bool
set_mode(int handle)
{
    mode_t mask = umask(0);

    umask(mask);
    return fchmod(handle, (mode_t)(0666 & ~mask)) == 0;
}

/* `beside` is a template of mkstemp. */
static bool
write_and_rename(const char *path, char *beside, const FilePart *parts, size_t n_parts)
{
    int handle = mkstemp(beside);

    if (handle < 0)
        return false;
    FILE *file = set_mode(handle) ? fdopen(handle, "wb") : NULL;
    bool good = file != NULL && write_parts(file, parts, n_parts) && rename(beside, path) == 0;
    int error = errno;
    if (file == NULL)
        close(handle);
    if (!good)
        unlink(beside);
    errno = error;
    return good;
}

bool
whole_file_write(const char *path, const FilePart *parts, size_t n_parts)
{
    static const char ending[] = ".XXXXXX";
    struct stat about;

    if (lstat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return write_in_place(path, parts, n_parts);
    char *beside = malloc(strlen(path) + sizeof ending);
    if (beside == NULL)
        return false;
    strcpy(beside, path);
    strcat(beside, ending);
    bool good = write_and_rename(path, beside, parts, n_parts);
    int error = errno;
    free(beside);
    errno = error;
    return good;
}

bool
whole_file_can_write(const char *path)
{
    const char *name = strrchr(path, '/');
    struct stat about;

    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        errno = EISDIR;
        return !S_ISDIR(about.st_mode) && access(path, W_OK) == 0;
    }
    char *folder = malloc(strlen(path) + 2); /* it appears beside what is there */
    if (folder == NULL)
        return false;
    strcpy(folder, name == NULL ? "." : path);
    if (name != NULL)
        folder[name == path ? 1 : name - path] = '\0';
    bool there = stat(folder, &about) == 0;
    if (there && !S_ISDIR(about.st_mode))
        errno = ENOTDIR;
    bool good = there && S_ISDIR(about.st_mode) && access(folder, W_OK | X_OK) == 0;
    int error = errno;
    free(folder);
    errno = error;
    return good;
}
