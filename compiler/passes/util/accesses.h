/* accesses.h - accesses to tensors that must keep their order. */
#ifndef TILEC_PASSES_ACCESSES_H
#define TILEC_PASSES_ACCESSES_H

#include "compiler/ir/tir.h"

/* An access, and another one that comes later in the program. */
typedef struct AccessPair {
    const TirOp *earlier, *later;
    /* the outermost loop that starts another iteration between them; NULL: none */
    const TirOp *around;
} AccessPair;

/* Whether the two touch the same elements in the same order: element i of one tile is element i of
 * the other. */
bool access_same_place(const AccessPair *pair);

/* A walk over a block and its inner blocks that finds conflicting accesses with no barrier between
 * them. */
typedef struct AccessWalk {
    TirFn *fn;
    /* Whether a conflicting pair needs no barrier. */
    bool (*settled)(const TirFn *fn, const AccessPair *pair);
    bool insert;      /* insert a barrier before the later access; else .. */
    AccessPair found; /* .. report the first pair here; `earlier` is NULL: there is none */
    bool changed;
} AccessWalk;
void access_walk(AccessWalk *walk, TirBlock *block);

#endif
