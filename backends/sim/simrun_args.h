/* simrun_args.h - the arguments on simrun's command line, as what a launch takes. */
#ifndef TILEC_SIMRUN_ARGS_H
#define TILEC_SIMRUN_ARGS_H

#include "sim.h"

enum { SIMRUN_MAX_ARGS = 256 };

/* A file to which a buffer is written after the launch. */
typedef struct SimrunSaved {
    char *file;
    uint64_t address;
    size_t bytes;
} SimrunSaved;

typedef struct SimrunArgs {
    SimDevice *dev;
    uint64_t buffer[SIMRUN_MAX_ARGS]; /* addresses, in order of their making */
    size_t buffer_count;
    SimrunSaved saved[SIMRUN_MAX_ARGS];
    size_t saved_count;
    void *value[SIMRUN_MAX_ARGS]; /* one block a parameter, at least 8 bytes */
    size_t count;
} SimrunArgs;

/* Prints the problem and exits with 1. */
_Noreturn void simrun_die(const char *what, const char *name);
char *simrun_read_whole(const char *path, size_t *size);

/* Makes the buffers and values of these words.  The entry says how large each parameter is. */
void simrun_make_args(SimrunArgs *args, SimDevice *dev, const SimEntry *entry,
                      const char *const *word, size_t count);
void simrun_save(const SimrunArgs *args);
void simrun_free_args(SimrunArgs *args);

#endif
