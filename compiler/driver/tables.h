/* tables.h - what can be listed: passes and targets. */
#ifndef TILEC_DRIVER_TABLES_H
#define TILEC_DRIVER_TABLES_H

#include "compiler/base/diag.h"

/* "passes" or "targets", one line each; an error for anything else. */
void tables_print(Diag *diag, const char *which, Buf *out);

#endif
