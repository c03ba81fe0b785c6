/* oom.c - makes the n-th allocation of a program fail, for one n after the other.
 *
 * Linked into tilec, tilerun and simrun with --wrap=malloc and the like (CMakeLists.txt).  The
 * environment says what to do; without it everything is as ever.
 *
 *     OOM_LIST=FROM:TO:STEP   each of these n in a process of its own, forked before main(), in a
 *                             folder of its own, ./N, with its output in ./N/stdout and ./N/stderr
 *     OOM_FROM_THEN_ON=1      all allocations behind the n-th fail, too
 *
 * ./status gets a line for each: n, the exit status (128 + the number of a signal), and how many
 * allocations there were.  The walk ends at the first n that there was no n-th of.
 * What mkstemp() or mkdtemp() made and is still there at the end is named on standard error: "left
 * behind: ..".
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANG = 20, MOST_FILES = 16 }; /* seconds */

static long fail_at; /* 0: never */
static bool then_on;
static atomic_long *counted; /* shared with the parent */
static char files[MOST_FILES][64];
static int n_files;

static bool
fails(void)
{
    long n = fail_at == 0 ? 0 : atomic_fetch_add(counted, 1) + 1;

    if (fail_at == 0 || n < fail_at || (n > fail_at && !then_on))
        return false;
    errno = ENOMEM;
    return true;
}

#define WRAP(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return fails() ? NULL : __real_##name arguments;                                           \
    }

WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t m), (n, m))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(void *, aligned_alloc, (size_t a, size_t n), (a, n))
WRAP(char *, strdup, (const char *s), (s))
WRAP(char *, strndup, (const char *s, size_t n), (s, n))
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, fdopen, (int file, const char *mode), (file, mode))
WRAP(FILE *, tmpfile, (void), ())

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *),
                          void *argument);
int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *),
                      void *argument)
{
    return fails() ? EAGAIN : __real_pthread_create(thread, how, start, argument);
}

static void
remember(const char *path)
{
    if (n_files < MOST_FILES && strlen(path) < sizeof files[0])
        strcpy(files[n_files++], path);
}

int __real_mkstemp(char *path);
int __wrap_mkstemp(char *path);
int
__wrap_mkstemp(char *path)
{
    int file = __real_mkstemp(path);

    if (file >= 0)
        remember(path);
    return file;
}

char *__real_mkdtemp(char *path);
char *__wrap_mkdtemp(char *path);
char *
__wrap_mkdtemp(char *path)
{
    char *made = __real_mkdtemp(path);

    if (made != NULL)
        remember(made);
    return made;
}

static void
look_for_files(void)
{
    for (int k = 0; k < n_files; k++)
        if (access(files[k], F_OK) == 0)
            fprintf(stderr, "left behind: %s\n", files[k]);
}

/* The child goes on to main(). */
static bool
become(long n)
{
    char folder[32];
    FILE *status;
    int code = 0;

    atomic_store(counted, 0);
    snprintf(folder, sizeof folder, "%ld", n);
    mkdir(folder, 0777);
    pid_t child = fork();
    if (child == 0) {
        if (chdir(folder) != 0 || freopen("stdout", "w", stdout) == NULL ||
            freopen("stderr", "w", stderr) == NULL)
            _exit(111);
        alarm(HANG);
        atexit(look_for_files);
        then_on = getenv("OOM_FROM_THEN_ON") != NULL;
        fail_at = n;
        return true;
    }
    waitpid(child, &code, 0);
    status = __real_fopen("status", "a");
    if (status == NULL)
        _exit(111);
    fprintf(status, "%ld %d %ld\n", n, WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code),
            atomic_load(counted));
    fclose(status);
    return false;
}

__attribute__((constructor)) static void
walk(void)
{
    const char *list = getenv("OOM_LIST");
    long from, to, step;

    if (list == NULL || sscanf(list, "%ld:%ld:%ld", &from, &to, &step) != 3)
        return;
    counted = mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsetenv("OOM_LIST");
    if (counted == MAP_FAILED)
        _exit(111);
    for (long n = from; n <= to; n += step) {
        if (become(n))
            return;
        if (atomic_load(counted) < n)
            break;
    }
    _exit(0);
}
