/* toolkit.h - the programs of the CUDA Toolkit: where they are, and running them. */
#ifndef TILEC_COMMAND_TOOLKIT_H
#define TILEC_COMMAND_TOOLKIT_H

/* The path of `program`: in the folder of the program `beside` (NULL: none), so that both are of
 * one release, then in PATH, $CUDA_HOME/bin, $CUDA_PATH/bin and /usr/local/cuda/bin.  NULL when
 * it is nowhere; else the caller frees it. */
char *toolkit_find(const char *program, const char *beside);

enum { TOOLKIT_NOT_RUN = 127, TOOLKIT_NO_ROOM = -1 };

/* Runs a program with the arguments (the last one NULL; the name is put before them) and waits for
 * its end.  What it prints goes to *out and *errors, or all to *out when `errors` is NULL; the
 * caller frees both.  Returns its exit status; TOOLKIT_NOT_RUN when it can not be run, 128 + the
 * number of the signal that ended it; TOOLKIT_NO_ROOM when there is no memory or temporary file for
 * what it prints (either may be NULL then).  It does not end the program, as `allocate` may. */
int toolkit_run(const char *program, const char *const *arguments, char **out, char **errors);

#endif
