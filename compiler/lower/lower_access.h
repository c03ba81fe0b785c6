/* lower_access.h - a tile of a tensor in global memory: its address, and which of its elements
 * exist.
 *
 * An address is a base (the tensor, the scalar indices, the starts of the ranges), a part that
 * depends on the thread, and constants.
 */
#ifndef TILEC_LOWER_ACCESS_H
#define TILEC_LOWER_ACCESS_H

#include "compiler/lower/lower.h"

enum { ACCESS_BYTES = 16 };

/* A dimension of the tensor that is part of a pack: element r of the axis has the index
 * start + r / inner % length in it. */
typedef struct Part {
    TirIndex index;
    TirVal *start;
    LirReg stride; /* as of an axis */
    Elem size;
    bool full, not_negative;
} Part;

/* Element r is left out when r / inner % length (r itself, when `part` has no rows) is at least
 * `count`. */
typedef struct Limit {
    TirIndex part;
    Elem count;
} Limit;

/* One axis of the tile (or the axis a scalar access lacks).  A pack of ranges is an axis with
 * parts: its addresses are computed row by row, never as multiples of one stride. */
typedef struct Axis {
    bool there;
    uint32_t dim;   /* of the tensor */
    int32_t length; /* of the tile */
    TirVal *start;  /* NULL: 0 */
    LirReg stride;  /* bytes, b64; 0: contiguous */
    Elem size;      /* of the dimension */
    /* always inside: the whole of a compile-time extent, or as the launcher has checked */
    bool full;
    bool not_negative; /* the start is known to be >= 0 */
    bool counts_up;    /* .. in all consumers that have a program */
    uint32_t n_parts;  /* 0: a range, or all of a dimension */
    Part part[TENSOR_MAX_RANK];
    uint32_t n_limits; /* of elements along the axis, wherever the tensor ends */
    Limit *limits;
} Axis;

/* A dimension of the tensor in which each element has a place of its own: what it adds to an
 * address, and whether it lies inside, is found register by register. */
typedef struct PlaceList {
    TirVal *places;
    uint32_t axis; /* of the tile; of a tile of places the first */
    LirReg stride; /* as of an axis */
    Elem size;
    const int32_t *map; /* register of `places` by register of the tile; NULL: not known yet */
} PlaceList;

typedef struct Access {
    Lowering *lo;
    TirOp *op;
    TirTensor *tensor;
    int32_t bytes; /* of an element */
    uint32_t n_lists;
    PlaceList list[2];
    Axis row, col; /* col: the last axis of the tile; row: the other one of a rank 2 tile */
    LirReg base;   /* address of the tile's first element */
    LirReg inside; /* predicate: every scalar index is in range; 0: known to be */
} Access;

/* A part of an address in bytes: index * stride, or with no stride index * bytes. */
typedef struct Term {
    LirReg index; /* as wide as it is multiplied */
    LirReg stride;
    int32_t bytes;
} Term;

/* A part of an address. */
Term access_term(Lowering *lo, Elem index, LirReg stride, int32_t bytes);
/* `sum` and a term; without a sum the term. */
LirReg access_plus(Lowering *lo, LirReg sum, Term term);
/* Both predicates; 0 is always true. */
LirReg access_both(Lowering *lo, LirReg a, LirReg b);
/* Elements that an instruction moves of rows that begin at multiples of `align` bytes, where the
 * tile begins at a multiple of `start` elements of one. */
int32_t access_vector_length(const Access *access, const Layout *layout, uint32_t align,
                             int64_t start);
/* The address of a tensor, and the bytes from one index of a dimension to the next. */
LirReg access_pointer(Lowering *lo, const TirTensor *tensor);
LirReg access_stride(Lowering *lo, const TirTensor *tensor, uint32_t dim);
/* Takes an access apart. */
Access access_begin(Lowering *lo, TirOp *op);
/* Where a scalar index is out of range the tensor has no rows: one test of a row takes the place of
 * all, and what it depends on besides the row is computed outside loops. */
void access_count_no_rows(Access *access);
/* The predicate that lane + constant, and the `count` - 1 indices after it, lie inside both the
 * tensor and the tile; 0: they always do. */
LirReg access_axis_guard(Lowering *lo, const Axis *axis, Elem lane, int32_t constant, int32_t count,
                         int32_t extent);
/* What that gave in a region: while it is open, all of it would be found again. */
typedef struct KnownGuard {
    const LirRegion *region; /* NULL: nothing is known */
    int32_t constant, count;
    LirReg guard;
} KnownGuard;

enum { KNOWN_GUARDS = 16 };

typedef struct KnownGuards {
    KnownGuard at[KNOWN_GUARDS];
    KnownGuard
        /* in place of a guard, elements behind the thread's first place, which guards compare
         * with */
        rest;
} KnownGuards;

/* The same, for registers of a tile, of which each row and each column asks the same again;
 * `known`: of this axis and lane. */
LirReg access_known_guard(Lowering *lo, const Axis *axis, KnownGuards *known, Elem lane,
                          int32_t constant, int32_t count, int32_t extent);
/* Whether the axis has limits besides the end of the tensor; whether one of them is of a part of a
 * pack. */
bool access_is_cut(const Axis *axis);
bool access_is_cut_by_parts(const Axis *axis);
/* The uniform predicate that the whole tile lies inside the tensor; 0: it always does.  `testable`
 * is set to whether such a test exists. */
LirReg access_tile_guard(Lowering *lo, const Access *access, bool *testable);
/* The address of a register's element by its places, from that by all else on; and the predicate
 * that they lie inside. `layout`: of the tile. */
LirReg access_place(Access *access, const Layout *layout, int32_t reg, LirReg base);
LirReg access_place_guard(Access *access, const Layout *layout, int32_t reg);
/* Where element `row` of a pack lies, from the address of the first on. */
LirReg access_pack_offset(Lowering *lo, const Axis *axis, Elem row, int32_t bytes);

#endif
