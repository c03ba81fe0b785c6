/* launch_terms.h - what expressions of launches are put together from: arithmetic that folds what
 * is known, tiles of the grid, iterations of loops, elements of tensors. */
#ifndef TILEC_LAUNCH_TERMS_H
#define TILEC_LAUNCH_TERMS_H

#include "compiler/cost/trips.h"

enum { MOST_AXES = 3 };

/* A place of the grid; NULL: an axis that is not there. */
typedef struct Place {
    Arena *arena;
    const HostExpr *grid[MOST_AXES];
    bool mean; /* of parts of a range that differ by one, the average in place of the longest */
} Place;

/* Where along an axis: quarters of its last index, or such that the first and the third are as far
 * from the ends, which stands for few programs, too. */
typedef enum Places { PLACES_QUARTERS, PLACES_EVEN } Places;

/* Of a kernel that is gone before the expression is. */
const HostExpr *term_copy(Arena *arena, const HostExpr *e);
bool term_equal(const HostExpr *a, const HostExpr *b);
/* With what is known folded; NULL when an operand is. */
const HostExpr *term_make(Arena *arena, HostKind kind, const HostExpr *a, const HostExpr *b);
/* A scalar of tile IR as an expression, at a place of the grid; NULL: it is none. */
const HostExpr *term_scalar(const TirVal *value, const Place *at);
/* Iterations of all loops around `loop` and its own together. */
const HostExpr *term_trips(const TirOp *loop, const Place *at);
const HostExpr *term_all_trips(const TripLoop *loops, uint32_t n_loops, const Place *at);
/* The middle of each axis but `axis`, and the `part`-th quarter of that. */
Place term_place(Arena *arena, const TirFn *fn, uint32_t axis, int64_t part, Places places);
/* Tiles that blocks go through: points of the grid, neighbours along the consumer axis together. */
const HostExpr *term_tiles(Arena *arena, const TirFn *fn, uint32_t axis, uint32_t consumers);
/* Clocks of a tile with so many iterations. */
const HostExpr *term_clocks(Arena *arena, double start, double each, const HostExpr *trips);
/* Elements of a tensor. */
const HostExpr *term_elements(Arena *arena, const TirTensor *tensor);

#endif
