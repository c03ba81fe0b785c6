/* check_unproved.h - what is said of a kernel of which check-roles proves nothing. */
#ifndef TILEC_PASSES_CHECK_UNPROVED_H
#define TILEC_PASSES_CHECK_UNPROVED_H

#include "compiler/passes/pass.h"

/* An error or a warning, as was asked for. */
void say_unproved(const PassContext *px, const TirFn *fn, const char *why);

#endif
