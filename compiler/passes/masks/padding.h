/* padding.h - which elements of a tile are padding, of which ranges and along which axis.
 *
 * Element r along an axis is padding of a range when start + r >= bound; of a part of a pack it is
 * r / inner % length that counts (TirIndex).  A tile has the padding of all ranges that it was
 * computed from, so along each axis it has a set of Pads.  Where branches or loops merge tiles with
 * different sets, a pad may depend on the way taken: it is not `sure`, and padding_count makes the
 * program count the elements before it.
 */
#ifndef TILEC_PASSES_PADDING_H
#define TILEC_PASSES_PADDING_H

#include "compiler/passes/pass.h"
#include "compiler/passes/util/linear.h"

enum { PADDING_AXES = TIR_MAX_RANK }; /* behind pass flatten there are two at most */

typedef struct Pad {
    /* i32 scalars; what is in no block is a size or a constant, see padding_value */
    TirVal *start, *bound;
    TirIndex part;          /* whole ranges: `length` alone */
    const Linear *distance; /* bound - start, which tells pads apart */
    uint32_t loops;         /* around the range; 0: it is one of the grid, or of no loop */
    bool sure;              /* whatever way the program takes */
} Pad;

typedef struct Pads {
    uint32_t n, cap;
    Pad *at;
} Pads;

/* How many elements a tile has in front of its padding. */
typedef struct PadCount {
    const TirVal *tile;
    uint32_t axis, least, most; /* of ranges with so many loops around them */
    TirIndex part;
    TirVal *count; /* NULL: it has no padding */
} PadCount;

/* A value that follows from what a loop carries; `around`: it goes around a loop, whose body stands
 * before it in a list of such values. */
typedef struct PadsAround {
    const TirVal *value;
    bool around;
} PadsAround;

typedef struct Padding {
    PassContext *px;
    TirFn *fn;
    Pads **known; /* by id and axis, of the first `n_known` values; NULL: none */
    uint32_t n_known;
    /* by id: it follows from what a loop carries, whose pads it takes several rounds to find */
    bool *in_circle;
    VEC(PadsAround) circle; /* all those, in the order of the text */
    bool *padded;           /* by id: something of it is in `known` */
    bool first;             /* this is the first of these rounds */
    bool no_products; /* whose warp groups may have rows past a grid that launches require to end with its tensors */
    bool settled; /* it is known which pads there are, and now which of them are sure */
    VEC(PadCount) counts;
} Padding;

/* Finds the pads of all tiles of `fn`. */
Padding padding_find(PassContext *px, TirFn *fn);
/* Those of a tile along an axis. */
Pads padding_of(const Padding *p, const TirVal *tile, uint32_t axis);
/* Whether a dimension of one element may be padding. */
bool padding_of_one(const Padding *p, const TirVal *tile, uint32_t axis);
/* What a load or store has of the tensor's dimensions and its own limits. */
/* Whether the ranges of a loop divide a size, as the launcher has checked: `distance`, from the
 * beginning of a range to the end, is the size without as many ranges as the loop's number. */
bool padding_is_none(const TirFn *fn, const Linear *distance, int32_t length);
Pads padding_of_access(const Padding *p, const TirOp *op, uint32_t axis);

/* What is wrong with the padding of a tile that an operation spreads, as a message; NULL:
 * nothing. */
const char *padding_spread_fault(const Padding *p, const TirOp *op);

bool padding_same(const Pad *a, const Pad *b);
/* The same pad in a set; NULL: there is none. */
Pad *padding_in(const Pads *pads, const Pad *pad);
void padding_add(const Padding *p, Pads *pads, Pad pad);
bool padding_same_part(const TirIndex *a, const TirIndex *b);
/* Whether start and bound are there where `tile` is defined. */
bool padding_is_there(const Pad *pad, const TirVal *tile);
/* A start of 0. */
TirVal *padding_zero(const Padding *p);
/* A start or bound as a value that the kernel can use: at the builder, or at the kernel's head. */
TirVal *padding_value(const Padding *p, TirBuilder *b, TirVal *value);

/* A scalar, computed by the program right behind the tile: how many elements `tile` has before its
 * padding of this `part`, of ranges inside `least` to `most` loops.  NULL: it has no such
 * padding. */
TirVal *padding_count(Padding *p, TirVal *tile, uint32_t axis, const TirIndex *part, uint32_t least,
                      uint32_t most);

/* A builder right behind the definition of a value. */
TirBuilder padding_behind(const Padding *p, const TirVal *value);
/* Moves a builder behind the definition of a value, if that stands further on in its block. */
void padding_move_behind(TirBuilder *b, const TirVal *value);

#endif
