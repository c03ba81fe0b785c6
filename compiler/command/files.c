/* files.c - complaints, memory and whole files for the command line. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "compiler/command/files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/base/diag.h"
#include "compiler/base/whole_file.h"

int
complain(const char *format, ...)
{
    size_t named = diag_name_length(format);
    va_list args;

    fputs("tilec: error: ", stderr);
    va_start(args, format);
    vfprintf(stderr, named > 0 ? format + named + strlen(": ") : format, args);
    va_end(args);
    fprintf(stderr, " [%.*s]\n", named > 0 ? (int)named : (int)strlen("E-OPTION"),
            named > 0 ? format : "E-OPTION");
    return EXIT_USER;
}

void
out_of_memory(void)
{
    fputs("tilec: error: out of memory [E-MEMORY]\n", stderr);
    exit(EXIT_BUG);
}

void *
allocate(size_t bytes)
{
    void *block = calloc(1, bytes);

    if (block == NULL)
        out_of_memory();
    return block;
}

char *
text_printf(const char *format, const char *a, const char *b)
{
    int n = snprintf(NULL, 0, format, a, b);
    char *text = allocate((size_t)n + 1);

    snprintf(text, (size_t)n + 1, format, a, b);
    return text;
}

bool
ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

char *
read_file(const char *path, size_t *n)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t cap = 1 << 16;
    char *text = NULL;
    bool full = true; /* there was memory for all of it */

    *n = 0;
    if (file == NULL)
        return NULL;
    for (;;) {
        char *grown = realloc(text, cap);
        full = grown != NULL;
        if (!full)
            break;
        text = grown;
        *n += fread(text + *n, 1, cap - 1 - *n, file);
        if (*n < cap - 1)
            break;
        cap *= 2;
    }
    bool bad = ferror(file) != 0 || !full;
    int error = full ? errno : ENOMEM;
    if (file != stdin)
        fclose(file);
    if (bad) {
        free(text);
        errno = error == 0 ? EIO : error;
        return NULL;
    }
    text[*n] = '\0';
    return text;
}

int
write_file(const char *path, const char *text, size_t n)
{
    FilePart whole = {text, n};

    if (strcmp(path, "-") == 0) {
        if (fwrite(text, 1, n, stdout) != n || fflush(stdout) != 0)
            return complain("E-FILE: cannot write to standard output: %s", strerror(errno));
        return 0;
    }
    if (!whole_file_write(path, &whole, 1))
        return complain("E-FILE: cannot write %s: %s", path, strerror(errno));
    return 0;
}

int
check_writable(const char *path)
{
    if (path == NULL || strcmp(path, "-") == 0 || whole_file_can_write(path))
        return 0;
    return complain("E-FILE: cannot write %s: %s", path, strerror(errno));
}

bool
file_is_there(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

bool
same_file(const char *a, const char *b)
{
    struct stat one, two;

    return stat(a, &one) == 0 && stat(b, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

char *
folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return text_printf("%s%s", ".", "");
    char *folder = text_printf("%s%s", path, "");
    folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}

bool
temporary_file(char *path, const char *text, size_t n)
{
    int handle = mkstemp(path);

    for (size_t done = 0; handle >= 0 && done < n;) {
        ssize_t written = write(handle, text + done, n - done);
        if (written < 0 && errno != EINTR) {
            int error = errno;
            close(handle);
            unlink(path);
            errno = error;
            handle = -1;
        } else if (written > 0) {
            done += (size_t)written;
        }
    }
    if (handle < 0)
        return false;
    close(handle);
    return true;
}
