/* launch_cost.h - the time of a launch as an expression of the sizes, for launchers to compare
 * forms of a kernel by.
 *
 * It is that of consumer_time.h with the sizes left open: clocks of an iteration and of a tile's
 * beginning and end are numbers by now, tiles of the grid and trips of the loop are expressions.
 * Where programs differ in length, four of them stand for all: a quarter and three quarters along
 * the axis for the mean, the ends for the longest.
 */
#ifndef TILEC_LAUNCH_COST_H
#define TILEC_LAUNCH_COST_H

#include "compiler/cost/cost.h"
#include "compiler/cost/kernel_time.h"

/* Clocks of a launch, of the kernel on which the passes up to `plan` have run; NULL: its trips are
 * no expression of the sizes.  What is around the loop has figures of its own (LaunchTimes):
 * launchers compare few forms, at small sizes, too. */
const HostExpr *launch_cost(Arena *arena, const Target *target, const TirFn *fn,
                            const KernelTime *time);
/* The same with the figures that time plans (ConsumerTimes): to compare all plans, most of which no
 * launch was ever timed with. */
const HostExpr *launch_estimate(Arena *arena, const Target *target, const TirFn *fn,
                                const KernelTime *time);
/* The same of a kernel without roles, on which all passes have run; NULL also where memory has to
 * give most of what it loads.  *estimate: to compare all tiles, as if the last blocks ended
 * together. */
const HostExpr *launch_cost_of_blocks(Arena *arena, const Target *target, const TirFn *fn,
                                      const Cost *cost, const HostExpr **estimate);

#endif
