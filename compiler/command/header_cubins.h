/* header_cubins.h - --header-cubin: the machine code that goes into a header. */
#ifndef TILEC_COMMAND_HEADER_CUBINS_H
#define TILEC_COMMAND_HEADER_CUBINS_H

#include <stddef.h>

#include "compiler/tilec.h"

enum { MAX_HEADER_CUBINS = 16 };

/* The PTX for one of the targets of the header. */
typedef struct CubinSource {
    char *arch;       /* "sm_90" */
    char *ptx_target; /* "sm_90a" */
    TilecResult ptx;
} CubinSource;

typedef struct HeaderCubins {
    const char *archs; /* "sm_80,sm_86"; NULL: none */
    const char *ptxas; /* NULL: the one that is found */
    CubinSource *sources;
    size_t n_sources;
    TilecCubin at[MAX_HEADER_CUBINS];
    size_t n;
} HeaderCubins;

/* Compiles the program to PTX for each target of the header, and that to machine code for each that
 * is asked for; sets the options for the header.  Complains; returns the exit status. */
int header_cubins(HeaderCubins *cubins, TilecOptions *options, const char *path, const char *text,
                  size_t n);
void header_cubins_free(HeaderCubins *cubins);

#endif
