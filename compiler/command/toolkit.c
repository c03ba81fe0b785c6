/* toolkit.c - finds ptxas and the disassemblers, and runs them with their output caught. */
#define _POSIX_C_SOURCE 200809L /* fork, fileno */
#include "compiler/command/toolkit.h"

#include <stdbool.h>
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

/* All of a file that a child has written to, NUL-terminated; NULL when out of memory. */
static char *
read_back(FILE *file)
{
    long n;

    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (n = ftell(file)) < 0 ||
        fseek(file, 0, SEEK_SET) != 0)
        n = 0;
    char *text = malloc((size_t)n + 1);
    if (text != NULL)
        text[file == NULL ? 0 : fread(text, 1, (size_t)n, file)] = '\0';
    return text;
}

enum { MOST_WORDS = 16 };

int
toolkit_run(const char *program, const char *const *arguments, char **out, char **errors)
{
    FILE *said = tmpfile(), *wrong = errors == NULL ? said : tmpfile();
    int code = 0, status = TOOLKIT_NOT_RUN;
    const char *words[MOST_WORDS + 2] = {program};

    for (size_t n = 0; n < MOST_WORDS && arguments[n] != NULL; n++)
        words[n + 1] = arguments[n];
    fflush(stdout);
    pid_t child = said == NULL || wrong == NULL ? -1 : fork();
    if (child == 0) {
        dup2(fileno(said), 1);
        dup2(fileno(wrong), 2);
        execvp(program, (char *const *)words); /* which does not change them */
        _exit(TOOLKIT_NOT_RUN);
    }
    if (child > 0 && waitpid(child, &code, 0) == child)
        status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
    bool full = child >= 0;
    *out = read_back(said);
    full &= *out != NULL;
    if (errors != NULL) {
        *errors = read_back(wrong);
        full &= *errors != NULL;
    }
    if (errors != NULL && wrong != NULL)
        fclose(wrong);
    if (said != NULL)
        fclose(said);
    return full ? status : TOOLKIT_NO_ROOM;
}
