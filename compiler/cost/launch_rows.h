/* launch_rows.h - the time of a launch of a kernel without products, as an expression of the sizes.
 *
 * What a launch costs at least follows from its terms, which are known before anyone knows what
 * threads do: tiles of the grid, iterations of loops, and accesses, by how many elements are
 * neighbours in memory.
 */
#ifndef TILEC_LAUNCH_ROWS_H
#define TILEC_LAUNCH_ROWS_H

#include "compiler/cost/cost.h"

/* Each element of a tensor once. */
typedef struct RowAccess {
    const HostExpr *elements; /* of the tensor */
    uint32_t bits;            /* of each */
    const HostExpr *run;      /* neighbours that a tile has */
} RowAccess;

typedef struct RowTerms {
    const HostExpr *tiles, *trips;
    VEC(RowAccess) accesses;
} RowTerms;

/* The same as numbers, for some sizes. */
typedef struct RowCounts {
    int64_t tiles, trips;
    int64_t access; /* elements by their clocks (launch_access_clocks) */
} RowCounts;

/* `cost`: of a kernel on which all passes have run, at usual sizes of what it can't know; NULL: of
 * one on which the first passes have run, no more iterations than any pass leaves. */
RowTerms launch_terms_of_rows(Arena *arena, const TirFn *fn, const Cost *cost);
/* Clocks for 1024 elements of an access with runs of this length. */
int64_t launch_access_clocks(const Target *target, const RowAccess *access, int64_t run);
/* Clocks of a lane's work in an iteration, and of additions to memory in one. */
double launch_lanes_of_rows(const CostUnits *units);
double launch_additions_of_rows(const Target *target, const CostUnits *units);
/* Blocks that an SM has of so many warps, if nothing else limits them. */
int32_t launch_most_blocks(const Target *target, uint32_t warps);

/* Clocks of a launch with so many blocks on an SM; and the same for numbers (tests/check/rows.c
 * compares them). */
const HostExpr *launch_cost_of_rows(Arena *arena, const Target *target, const RowTerms *terms,
                                    double lanes, int32_t blocks);
enum {
    BUSY_WARPS = 16,  /* that keep an SM busy, .. */
    COUNTED_WARPS = 4 /* .. and as many as launch_cost_of_rows counts */
};

/* The same where an SM has one program: its own warps alone do all its work, and nothing else runs
 * while iterations but the first of a loop wait for what they load, unless it is loaded ahead.
 * `counted`: warps that keep it busy. */
const HostExpr *launch_cost_alone(Arena *arena, const Target *target, const TirFn *fn,
                                  const RowTerms *terms, const CostUnits *units, uint32_t warps,
                                  uint32_t counted);
int64_t launch_clocks_of_rows(const Target *target, const RowCounts *counts, double lanes,
                              int32_t blocks);

#endif
