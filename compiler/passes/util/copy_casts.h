/* copy_casts.h - casts that copies make on their way. */
#ifndef TILEC_PASSES_COPY_CASTS_H
#define TILEC_PASSES_COPY_CASTS_H

#include "compiler/passes/pass.h"

/* Has loads of which nothing but operands of products is made, by casts that tensor copies can
 * make, bring what the casts would; they have to become copies then.  The body as it was; NULL:
 * there are no such loads. */
TirBlock *fold_copy_casts(PassContext *px, TirFn *fn);
/* A copy of a kernel with that done, to look at; the kernel itself, where there are none. */
TirFn *with_copy_casts(PassContext *px, const TirFn *fn);

#endif
