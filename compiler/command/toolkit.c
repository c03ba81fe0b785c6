/* toolkit.c - finds ptxas and the disassemblers, and runs them with their output caught. */
#define _POSIX_C_SOURCE 200809L /* fork, fileno */
#include "compiler/command/toolkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/command/files.h"

static char *
executable_in(const char *folder, const char *program)
{
    char *path = text_printf("%s/%s", folder, program);

    if (access(path, X_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static char *
find_in_path(const char *program)
{
    const char *path = getenv("PATH");
    char *found = NULL;

    while (path != NULL && *path != '\0' && found == NULL) {
        size_t n = strcspn(path, ":");
        char *folder = allocate(n + 2);
        memcpy(folder, n == 0 ? "." : path, n == 0 ? 1 : n);
        found = executable_in(folder, program);
        free(folder);
        path += n;
        path += *path == ':';
    }
    return found;
}

static char *
find_in_home(const char *home, const char *program)
{
    if (home == NULL || home[0] == '\0')
        return NULL;
    char *folder = text_printf("%s/%s", home, "bin");
    char *found = executable_in(folder, program);
    free(folder);
    return found;
}

char *
toolkit_find(const char *program, const char *beside)
{
    char *found = NULL;

    if (beside != NULL && strchr(beside, '/') != NULL) {
        char *folder = folder_of(beside);
        found = executable_in(folder, program);
        free(folder);
    }
    if (found == NULL)
        found = find_in_path(program);
    if (found == NULL)
        found = find_in_home(getenv("CUDA_HOME"), program);
    if (found == NULL)
        found = find_in_home(getenv("CUDA_PATH"), program);
    if (found == NULL)
        found = find_in_home("/usr/local/cuda", program);
    return found;
}

/* All of a file that a child has written to; NUL-terminated. */
static char *
read_back(FILE *file)
{
    long n;

    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (n = ftell(file)) < 0 ||
        fseek(file, 0, SEEK_SET) != 0)
        n = 0;
    char *text = allocate((size_t)n + 1);
    if (file != NULL)
        text[fread(text, 1, (size_t)n, file)] = '\0';
    return text;
}

int
toolkit_run(const char *program, const char *const *arguments, char **out, char **errors)
{
    FILE *said = tmpfile(), *wrong = errors == NULL ? said : tmpfile();
    int code = 0, status = TOOLKIT_NOT_RUN;
    size_t n = 0;

    while (arguments[n] != NULL)
        n++;
    char **copy = allocate((n + 2) * sizeof *copy);
    copy[0] = text_printf("%s%s", program, "");
    for (size_t k = 0; k < n; k++)
        copy[k + 1] = text_printf("%s%s", arguments[k], "");
    fflush(stdout);
    pid_t child = said == NULL || wrong == NULL ? -1 : fork();
    if (child == 0) {
        dup2(fileno(said), 1);
        dup2(fileno(wrong), 2);
        execvp(program, copy);
        _exit(TOOLKIT_NOT_RUN);
    }
    if (child > 0 && waitpid(child, &code, 0) == child)
        status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
    *out = read_back(said);
    if (errors != NULL)
        *errors = read_back(wrong);
    for (size_t k = 0; k <= n; k++)
        free(copy[k]);
    free(copy);
    if (errors != NULL && wrong != NULL)
        fclose(wrong);
    if (said != NULL)
        fclose(said);
    return status;
}
