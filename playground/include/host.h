/* host.h - what tilec asks for of POSIX and wasi-libc, by its age, does not have or refuses: host.c
 * has them, under names of their own.  Before all of each file. */
#ifndef TILEC_PLAYGROUND_HOST_H
#define TILEC_PLAYGROUND_HOST_H

#include <stdlib.h>
#include <sys/stat.h>

int playground_mkstemp(char *path);
mode_t playground_umask(mode_t mask);
int playground_fchmod(int handle, mode_t mode);

#define mkstemp playground_mkstemp
#define umask playground_umask
#define fchmod playground_fchmod

#endif
