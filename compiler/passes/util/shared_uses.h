/* shared_uses.h - how operations touch shared buffers. */
#ifndef TILEC_PASSES_SHARED_USES_H
#define TILEC_PASSES_SHARED_USES_H

#include "compiler/ir/layout.h"
#include "compiler/ir/tir.h"

/* The shared_read behind a view (a read, or transposes or a part of one), and whether it is
 * transposed; NULL when the value lies in registers. */
const TirOp *view_source(const TirVal *value, bool *transposed);
/* The part that a view is of its tile; NULL: all of it. */
const TirOp *view_part(const TirVal *value);

typedef struct SharedUse {
    TirShared *shared;
    bool reads, writes;
    bool is_pipeline; /* the schedule keeps the stages apart */
} SharedUse;

enum { MAX_SHARED_USES = 4 };

/* The buffers `op` itself touches (not the blocks it owns); returns how many. */
uint32_t shared_uses(const TirOp *op, SharedUse out[MAX_SHARED_USES]);

#endif
