/* copy_casts.h - casts that copies make on their way. */
#ifndef TILEC_PASSES_COPY_CASTS_H
#define TILEC_PASSES_COPY_CASTS_H

#include "compiler/passes/pass.h"

/* Whether there are loads of which nothing but operands of products is made, by casts that tensor copies can make; has these bring
 * what the casts would.  They have to become copies then. */
bool has_copy_casts(const Target *target, const TirFn *fn);
void fold_copy_casts(PassContext *px, TirFn *fn);

#endif
