/* depend.c - what an output is made of, as a rule of make: -MD and -MF.
 *
 * Build systems read it to know when to compile again: a module that a program uses, or a tuning
 * database beside it, is an input that their rules do not name.
 */
#include "compiler/command/depend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/command/files.h"

/* Adds a name as make wants it: a space, a # and a \ before them are marked, a $ is doubled. */
static char *
add_name(char *to, const char *name)
{
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == ' ' || *c == '#') {
            for (const char *back = c; back > name && back[-1] == '\\'; back--)
                *to++ = '\\';
            *to++ = '\\';
        } else if (*c == '$') {
            *to++ = '$';
        }
        *to++ = *c;
    }
    return to;
}

static char *
default_path(const char *target)
{
    char *base = text_printf("%s%s", target, "");
    char *slash = strrchr(base, '/'), *name = slash == NULL ? base : slash + 1;
    char *dot = strrchr(name, '.');

    if (dot != NULL && dot != name)
        *dot = '\0';
    char *path = text_printf("%s%s", base, ".d");
    free(base);
    return path;
}

int
write_dependencies(const char *path, const char *target, const char *const *files, size_t n)
{
    size_t bytes = 2 * strlen(target) + 8;

    for (size_t k = 0; k < n; k++)
        bytes += 2 * strlen(files[k]) + 8;
    char *text = allocate(bytes), *to = add_name(text, target);
    *to++ = ':';
    for (size_t k = 0; k < n; k++) {
        memcpy(to, " \\\n  ", 5);
        to = add_name(to + 5, files[k]);
    }
    *to++ = '\n';
    char *own = path == NULL ? default_path(target) : NULL;
    int status = write_file(path == NULL ? own : path, text, (size_t)(to - text));
    free(own);
    free(text);
    return status;
}
