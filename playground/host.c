/* host.c - what the command asks of a system with processes, where there are none: in place of
 * toolkit.c, measure.c and watch.c. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/command/files.h"
#include "compiler/command/measure.h"
#include "compiler/command/toolkit.h"
#include "compiler/command/watch.h"

char *
toolkit_find(const char *program, const char *beside)
{
    (void)program;
    (void)beside;
    return NULL;
}

int
toolkit_run(const char *program, const char *const *arguments, char **out, char **errors)
{
    (void)program;
    (void)arguments;
    *out = NULL;
    if (errors != NULL)
        *errors = NULL;
    return TOOLKIT_NOT_RUN;
}

int
measure_plans(const Measuring *m)
{
    (void)m;
    return complain("E-OPTION: --measure and --simulate run programs, which a browser does not");
}

void
watch_saw(WatchRound *round, const char *path)
{
    (void)round;
    (void)path;
}

int
watch_files(void (*compile)(void *user, WatchRound *round), void *user, const char *input)
{
    (void)compile;
    (void)user;
    (void)input;
    return complain("a watch is about files that others change, which a browser has not");
}

#ifdef __wasm__
/* By the names of include/host.h.  Each instance has its files to itself, so that one name is
 * enough. */
int
mkstemp(char *path)
{
    memset(path + strlen(path) - 6, '0', 6);
    return open(path, O_RDWR | O_CREAT | O_TRUNC);
}

mode_t
umask(mode_t mask)
{
    return mask;
}

int
fchmod(int handle, mode_t mode)
{
    (void)handle;
    (void)mode;
    return 0;
}

/* Debian's runtime library for wasm32 was built with a stack protector, whose parts wasi-libc does
 * not have. */
extern uintptr_t __stack_chk_guard;
_Noreturn void __stack_chk_fail(void);
__attribute__((weak)) uintptr_t __stack_chk_guard = 0x5bd1e995;

__attribute__((weak)) void
__stack_chk_fail(void)
{
    __builtin_trap();
}
#endif
