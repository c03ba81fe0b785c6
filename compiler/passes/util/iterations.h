/* iterations.h - what programs that run side by side do of each other's iterations, and one that
 * the grid does not have.
 *
 * Consumers that share out a product go through the iterations of all (docs/warp-groups.md), so
 * what a program does in an iteration that it does not have must be nothing.
 */
#ifndef TILEC_PASSES_ITERATIONS_H
#define TILEC_PASSES_ITERATIONS_H

#include "compiler/ir/tir.h"

/* Bit k: programs along grid axis k of kernel `body` may differ in the iterations of a loop as its
 * bounds stand, and not only in that some have none because they have no rows: these leave
 * nothing.  (That a mask would hide what bounds leave out is not enough: zeros times what is not
 * finite are no zeros, and the program does not look at that.) */
uint32_t iterations_apart(Arena *arena, const TirBlock *body, const TirOp *loop);

/* Whether consumers that share out a product have nothing to do in iterations of the main loop of
 * kernel `body`, as planned, that are not their own. */
bool iterations_are_shared(const TirFn *fn, const TirBlock *body);

/* Whether the rows of the tile that `load` loads all lie behind its tensor's end or a limit in
 * programs past the end of grid axis `axis`, or there are none: so many `programs` share a
 * block. */
bool rows_end_with_axis(const TirFn *fn, uint32_t axis, uint32_t programs, const TirOp *load);

#endif
