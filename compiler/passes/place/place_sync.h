/* place_sync.h - whether barriers stand between conflicting uses of shared memory. */
#ifndef TILEC_PASSES_PLACE_SYNC_H
#define TILEC_PASSES_PLACE_SYNC_H

#include "compiler/passes/pass.h"

/* Whether an operation of the consumers' program has no barrier where pass place_sync puts one:
 * then px->bugs says so. */
bool sync_is_missing(PassContext *px, TirFn *fn);

#endif
