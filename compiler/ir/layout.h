/* layout.h - who holds which element of a tile, and where an element lies in shared memory.
 *
 * A register layout maps (register, lane, warp) to coordinates of the tile.  Each of the three
 * indices is read as a mixed-radix number whose digits are listed least significant first; digit
 * d with value v adds v * step[axis] to each coordinate:
 *
 *     the accumulator of mma.m16n8 over a 64 x 32 tile, 4 warps stacked along the rows
 *     register  (2, {0,1}) (2, {8,0}) (4, {0,8})       lane  (4, {0,2}) (8, {1,0})
 *     warp      (4, {16,0})
 *
 * A digit of a lane or warp whose steps are all zero means that those lanes or warps hold copies.
 * Extents may be any integer (tile sizes like 80 or 192 are normal); lane digits are powers of
 * two.  The physical `shape` may exceed the tile's own: elements past the tile are padding.
 */
#ifndef TILEC_IR_LAYOUT_H
#define TILEC_IR_LAYOUT_H

#include "compiler/base/arena.h"
#include "compiler/ir/isa.h"
#include "compiler/ir/types.h"

enum { LAYOUT_RANK = 2, LAYOUT_DIGITS = 8 };

typedef struct LayoutDigit {
    int32_t extent;
    int32_t step[LAYOUT_RANK];
} LayoutDigit;

typedef struct DigitList {
    uint32_t n;
    LayoutDigit at[LAYOUT_DIGITS];
} DigitList;

typedef struct Layout {
    uint32_t rank;              /* 0: a scalar, the same in every thread */
    int32_t shape[LAYOUT_RANK]; /* physical extents */
    DigitList reg, lane, warp;
} Layout;

/* The number of registers (elements) that a thread holds. */
int32_t layout_registers(const Layout *layout);
int32_t layout_warps(const Layout *layout);
/* The coordinates of element `reg` of thread (`warp`, `lane`). */
void layout_coordinates(const Layout *layout, int32_t reg, int32_t lane, int32_t warp,
                        int32_t out[LAYOUT_RANK]);
bool layout_eq(const Layout *a, const Layout *b);
/* Of a layout that somebody wrote: NULL if its lanes are those of a warp and each element of its
 * shape, and nothing beside it, is held; else what is wrong. */
const char *layout_fault(Arena *arena, const Layout *layout);
void layout_print(const Layout *layout, Buf *out);

/* Constructors.  `warps_m` x `warps_n` warps divide rows and columns, warps_m varying fastest;
 * the rest of `warps` hold copies. */
/* Accumulator of mma.m16n8k*: rows and columns are rounded up to whole warp tiles. */
const Layout *layout_mma_c(Arena *arena, int32_t rows, int32_t cols, uint32_t warps_m,
                           uint32_t warps_n, uint32_t warps);
/* Operand A (rows x k) and B (k x cols) of an mma.m16n8 with MMA_BYTES of k; `word`: elements in a
 * register, which lie along k. */
const Layout *layout_mma_a(Arena *arena, int32_t rows, int32_t k, int32_t word, uint32_t warps_m,
                           uint32_t warps);
const Layout *layout_mma_b(Arena *arena, int32_t k, int32_t cols, int32_t word, uint32_t warps_m,
                           uint32_t warps_n, uint32_t warps);
/* Scales of the rows of A (`left`) or the columns of B, `scales` of each: a word has those of four
 * neighbouring blocks. */
const Layout *layout_mma_scales(Arena *arena, int32_t lines, int32_t scales, bool left,
                                uint32_t warps_m, uint32_t warps_n, uint32_t warps);
/* The same of products of a warp group (4 warps) that have 64 rows: blocks of 64 rows one after the
 * other, the warps next to each other in each. */
const Layout *layout_group_c(Arena *arena, int32_t rows, int32_t cols);
const Layout *layout_group_a(Arena *arena, int32_t rows, int32_t k, int32_t word);
/* A row in each lane, `warps` x 32 of them: a tile of tensor memory as tcgen05.ld.32x32b gives
 * it. */
const Layout *layout_rows(Arena *arena, int32_t cols, uint32_t warps);
/* Neighbouring lanes hold neighbouring chunks of `vec` elements of a row; used by copies.  The
 * `warps` warps are stacked along the rows. */
const Layout *layout_blocked(Arena *arena, TirType type, int32_t vec, uint32_t warps);
/* What is sorted along an axis: a line lies in one warp, and so many places of it as the next power
 * of two, of which neighbours are registers of a lane and then lanes; lines are shared out to the
 * other lanes and the warps. */
const Layout *layout_sorted(Arena *arena, TirType type, uint32_t axis, uint32_t warps);
/* Every thread holds everything. */
const Layout *layout_replicated(Arena *arena, TirType type, uint32_t warps);

/* The elements along a part of an axis: of those with coordinate c the part has number c / inner %
 * length. */
typedef struct LayoutPart {
    uint32_t axis;
    int32_t inner, length; /* WHOLE_AXIS: all of the axis */
} LayoutPart;
enum { WHOLE_AXIS = INT32_MAX };

/* Whether a digit counts along a part, perhaps beside other parts. */
bool layout_is_along(const LayoutDigit *digit, LayoutPart part);
/* The same layout with digits that lie inside of the part, below it or above it; NULL: some can not
 * be cut so, or the layout has more than the `extent` elements of the tile along the axis. */
const Layout *layout_cut(Arena *arena, const Layout *layout, LayoutPart part, int32_t extent);
/* .. what is left of it when the part is reduced away (copies along it). */
const Layout *layout_drop_part(Arena *arena, const Layout *layout, LayoutPart part, int32_t extent);
/* A layout that can be cut so, whatever the extents are; `vec`: neighbours that a thread should
 * hold. */
const Layout *layout_by_parts(Arena *arena, TirType type, LayoutPart part, int32_t vec,
                              uint32_t warps);

/* Derived layouts. */
const Layout *layout_transpose(Arena *arena, const Layout *layout);
/* One more digit of a list; it may become one with the last. */
void layout_add_digit(DigitList *list, int32_t extent, int32_t step0, int32_t step1);
/* What is left of `layout` when `axis` is reduced away (copies along it). */
const Layout *layout_slice(Arena *arena, const Layout *layout, uint32_t axis);
/* `layout` (of rank r) with a dimension of 1 inserted at `axis`. */
const Layout *layout_expand(Arena *arena, const Layout *layout, uint32_t axis);

/* `layout` with the axes collapsed that have extent 1 in `shape` (what is broadcast along them). */
const Layout *layout_collapse(Arena *arena, const Layout *layout, TirType shape);

/* For each register of `to`, the register of `from` that holds the same element in the same
 * thread, ignoring axes where `from` has extent 1 (broadcast).  NULL when some element would have
 * to move between threads. */
const int32_t *layout_register_map(Arena *arena, const Layout *from, const Layout *to);
/* `layout` after an exchange of one lane bit with the lowest bit of register digit `digit`; the new
 * register bit is placed behind the digits below `at`.  NULL when the digit's extent is odd or
 * lanes that differ in this bit hold copies. */
const Layout *layout_exchange(Arena *arena, const Layout *layout, uint32_t lane_bit, uint32_t digit,
                              uint32_t at);
/* `layout` after an exchange that doubles the number of neighbouring elements along `axis` in a
 * thread's first registers; NULL when no exchange does. */
const Layout *layout_widen(Arena *arena, const Layout *layout, uint32_t axis);
/* How many neighbouring elements along `axis` a thread's first registers hold, and how many
 * neighbouring elements all lanes hold together in them; at most `most`. */
int32_t layout_own_run(const Layout *layout, uint32_t axis, int32_t most);
int32_t layout_run(const Layout *layout, uint32_t axis, int32_t most);
/* `layout` after the exchange that doubles this run, with lanes that lie along the other axis; NULL
 * when there is none. */
const Layout *layout_lengthen(Arena *arena, const Layout *layout, uint32_t axis, int32_t most);
/* How elements go from one layout to another within each warp: lanes that differ in one bit
 * exchange halves of a register digit, and bit k of a lane is then what was its bit `lanes[k]`. */
typedef struct LaneMoves {
    uint32_t lane_bit, digit;
    uint8_t lanes[5];
    bool renumbered; /* some lanes[k] is not k */
    const int32_t *
        /* for each register of the other layout, the one of what was exchanged, its new bit at the
         * digit */
        map;
} LaneMoves;

/* The moves that lead from one layout to the other; false when none do.  `word` neighbouring
 * registers of `from` move together, and as many of `to` come from two such words that were
 * exchanged for each other. */
bool layout_find_moves(Arena *arena, const Layout *from, const Layout *to, int32_t word,
                       LaneMoves *out);
/* Whether each warp has its elements at the same place in both. */
bool layout_warps_agree(const Layout *from, const Layout *to);
/* True when going from one layout to the other moves elements only inside a warp. */
bool layout_warp_local(const Layout *from, const Layout *to);
/* The lane bits in which lanes that hold copies of the same elements differ.  Only the lane with
 * zeros in them stores.  layout_copies_warps: whether warps hold copies. */
uint32_t layout_copy_lanes(const Layout *layout);
/* Whether warps hold different elements along a part; no layout: they do not. */
bool layout_crosses_warps(const Layout *layout, LayoutPart part);
bool layout_copies_warps(const Layout *layout);

/* ---- shared memory ---- */

/* A row-major buffer of `rows` x `pitch` bytes whose 16-byte chunks are permuted inside each row:
 * chunk c of row r lies at c ^ ((r >> shift) & (2^bits - 1)).  2^bits must divide the number of
 * chunks in a row. */
typedef struct SharedLayout {
    int32_t rows, cols; /* physical extents, elements */
    int32_t pitch;      /* bytes from row to row, a multiple of 16 */
    int32_t bits, shift;
    /* a row continues in the next swizzle atom column of rows x pitch bytes */
    bool atom_columns;
} SharedLayout;

/* Byte offset of the chunk that holds (row, byte column). */
int32_t shared_offset(const SharedLayout *layout, int32_t row, int32_t byte);
void shared_layout_print(const SharedLayout *layout, Buf *out);

/* Bank conflicts of one warp instruction: extra passes beyond the fewest possible, for `n` lanes
 * that access `bytes` bytes each at the byte offsets `at` (a lane with -1 does nothing). */
int32_t shared_conflicts(const int32_t *at, uint32_t n, int32_t bytes);

#endif
