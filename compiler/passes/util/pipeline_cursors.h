/* pipeline_cursors.h - pipelines that a role goes around together: one cursor is enough for
 * them. */
#ifndef TILEC_PASSES_PIPELINE_CURSORS_H
#define TILEC_PASSES_PIPELINE_CURSORS_H

#include "compiler/ir/tir.h"

/* Whose cursor, stage and phase, a role uses for a pipeline. */
typedef struct CursorLeader {
    const TirShared *pipeline; /* NULL: no other pipeline's */
    bool tiles;                /* that of the tile indices which the producer broadcasts */
} CursorLeader;

/* By id of buffers, in the producer, or in a role that waits. */
CursorLeader *pipeline_cursors(const TirFn *fn, bool producer);

#endif
