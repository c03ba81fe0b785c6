/* assemble.h - PTX through ptxas: the cubin, what ptxas said about it, and the machine code. */
#ifndef TILEC_COMMAND_ASSEMBLE_H
#define TILEC_COMMAND_ASSEMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "compiler/report/after_ptxas.h"

typedef struct Assembly {
    const char *ptxas; /* NULL: the one that is found */
    const char *arch;  /* NULL: what the PTX says */
    const char *path;  /* of the source, for messages */
    const char *ptx;   /* NUL-terminated */
    size_t n;
    bool given; /* the PTX is the user's: what is wrong with it is not our fault */
    bool line_info;
    AfterActions actions;
    FILE *report; /* NULL: not wanted */
    /* of --emit=html: it is written in place of the cubin, with the machine code; NULL: not
     * wanted */
    const char *page;
} Assembly;

/* EXIT_USER of a ptxas that is too old for the PTX, which is right and may be written. */
enum { EXIT_OLD_PTXAS = 100 };

/* Makes the cubin `output` (NULL: only to hear what ptxas says, "-": standard output).  Warnings go
 * to standard error; when one of them counts as an error nothing is written.  Returns the exit
 * status, or EXIT_OLD_PTXAS.  A page is made without ptxas, too, and by one that is too old: it
 * says what is missing. */
int assemble(const Assembly *assembly, const char *output);

#endif
