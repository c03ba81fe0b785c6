/* votes.h - votes over a whole tile, and the reductions along rows that are made together with
 * them. */
#ifndef TILEC_PASSES_VOTES_H
#define TILEC_PASSES_VOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/ir/tir.h"

enum { MAX_VOTE_MASKS = 4 };

/* any() or all() of a whole tile, as a branch condition, without its row results: one vote. */
bool vote_is_whole(const TirOp *op);

/* The reduction along rows whose results only `vote` reads, maybe through padding masks (listed in
 * `masks`): its lanes need not agree before the vote.  NULL: there is none. */
const TirOp *vote_source(const TirFn *fn, const TirOp *vote, const TirOp *masks[MAX_VOTE_MASKS],
                         uint32_t *n_masks);

/* Whether the results of a reduction along rows only feed a vote over the whole tile: they are made
 * with it. */
bool vote_makes_rows(const TirFn *fn, const TirOp *op);

#endif
