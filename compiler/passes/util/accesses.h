/* accesses.h - accesses to tensors that must keep their order. */
#ifndef TILEC_PASSES_ACCESSES_H
#define TILEC_PASSES_ACCESSES_H

#include "compiler/ir/tir.h"

/* An access, and another one that comes later in the program. */
typedef struct AccessPair {
    const TirOp *earlier, *later;
    /* the outermost loop that goes on to another iteration in between; NULL: none */
    const TirOp *around;
} AccessPair;

/* Whether the two touch the same elements in the same order: element i of one tile is element i of the
 * other. */
bool access_same_place(const AccessPair *pair);

/* Walks over a block, and those in it, with the accesses that nothing orders yet. */
typedef struct AccessWalk {
    TirFn *fn;
    /* Whether a pair that may touch the same element, one of them to write it, needs no order. */
    bool (*settled)(const TirFn *fn, const AccessPair *pair);
    bool insert;      /* puts a barrier before the later one; else .. */
    AccessPair found; /* .. this is the first pair; `earlier` is NULL: there is none */
    bool changed;
} AccessWalk;
void access_walk(AccessWalk *walk, TirBlock *block);

#endif
