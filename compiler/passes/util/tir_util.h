/* tir_util.h - small operations on tile IR that several passes need. */
#ifndef TILEC_PASSES_TIR_UTIL_H
#define TILEC_PASSES_TIR_UTIL_H

#include "compiler/ir/layout.h"
#include "compiler/ir/tir.h"

/* Scalars of one block and what stands for them elsewhere. */
typedef struct ScalarMap {
    VEC(TirVal *) from;
    VEC(TirVal *) to;
} ScalarMap;

void scalar_map_add(ScalarMap *map, Arena *arena, TirVal *from, TirVal *to);
/* The value of `value` under `map`: what `body` computes is computed again by `b`; what is
 * defined outside `body` stands for itself. */
TirVal *clone_scalar(TirBuilder *b, ScalarMap *map, TirVal *value, const TirBlock *body);

/* Appends `op` to `out` as an operation of `parent`. */
#define move_op(arena, op, new_parent, out)                                                        \
    do {                                                                                           \
        TirOp *moved = (op);                                                                       \
        op_set_parent(moved, (new_parent));                                                        \
        vec_push((arena), (out), moved);                                                           \
    } while (0)
void op_set_parent(TirOp *op, TirBlock *parent);
void op_add_arg(Arena *arena, TirOp *op, TirVal *value);
/* Whether `op`, or an operation in a block it owns, reads `value`. */
bool op_uses_deep(const TirOp *op, const TirVal *value);
/* What an operation reduces or spreads along its axis: a part of it, or all. */
LayoutPart op_part(const TirOp *op);
/* The first operand of a loop that is an initial value. */
uint32_t loop_first_initial(const TirOp *loop);
/* Whether a scalar is made of numbers that are loaded. */
bool tir_is_loaded(Arena *arena, const TirVal *value);
/* Bit k: it is made of the index of grid axis k; .. */
uint32_t tir_axes_of(Arena *arena, const TirVal *value);
/* .. of numbers that are loaded by it. */
uint32_t tir_axes_of_loads(Arena *arena, const TirVal *value);
/* Adds a carried value to a loop; the caller adds the operand of its yield. */
TirVal *loop_add_carried(TirFn *fn, TirOp *loop, TirVal *initial, const char *name);
/* `op` accesses what `from` does of a tensor: its dimensions and limits, of which the operands are
 * the caller's. */
void tir_copy_place(TirOp *op, const TirOp *from);
/* Writes at the end of a block what becomes of one of its operations; false: the rest need not be
 * written. */
typedef bool TirWriteOp(void *user, TirBlock *block, TirOp *op);
/* A block anew, which is empty at first. */
void tir_write_anew(TirBlock *block, TirWriteOp *write, void *user);
/* What stands from then on for the one result of `op`, which has its operands by now; NULL: it
 * stands for itself.  What it makes goes in front of `op`. */
typedef TirVal *TirRewrite(void *user, TirBuilder *b, TirOp *op);
/* Writes a block, and those in it, anew: work in proportion to its length, however much is
 * replaced.  What was replaced stays, unused.  True: something was. */
bool tir_rewrite(Arena *arena, TirFn *fn, TirBlock *block, TirRewrite *rewrite, void *user);
/* The yield that ends a block. */
TirOp *block_yield(const TirBlock *block);
/* Moves loads (and transposes of them) down to just before their first use in the same block. */
void sink_loads(TirFn *fn, TirBlock *block);
/* The products in a block and the blocks in it. */
uint32_t count_mmas(const TirBlock *block);
/* A barrier of all threads for the place of `op`; the caller puts it into the block. */
TirOp *barrier_before(const TirFn *fn, const TirOp *op);
/* The first branch of a block that has products; NULL: none has. */
const TirOp *branch_with_mmas(const TirBlock *block);
/* Whether nothing but another product of the block reads the result of one, to add to it: both have
 * the same registers. */
bool tir_is_added_to(const TirBlock *block, const TirVal *result);
/* Whether there is a product in the block itself, and an operation in it or the blocks in it. */
bool has_own_mma(const TirBlock *block);
bool has_operation(const TirBlock *block, TirOpcode op);
/* Whether an operation, or one in its blocks, writes to a tensor. */
bool op_writes_deep(const TirOp *op);
/* Whether `value`, or a transpose of it, is operand `first` of a product in `block` or the blocks
 * in it, or the next one. */
bool feeds_mmas(const TirBlock *block, const TirVal *value, uint32_t first);
/* Whether a block is another one or lies in it, however deep. */
bool tir_is_inside(const TirBlock *block, const TirBlock *around);
/* The number of uses of a value in the whole function, and in a block and the blocks in it. */
uint32_t count_uses(const TirFn *fn, const TirVal *value);
uint32_t count_uses_in(const TirBlock *block, const TirVal *value);
/* Whether a loop loads what its next iteration takes, and nothing else does (load-ahead). */
bool tir_is_loaded_ahead(const TirOp *load);
/* Whether a load is of the first tile of a loop that loads the others itself (load-ahead). */
bool tir_is_first_of_loop(const TirOp *load);
/* Whether `op` or `block`, or a block in it, stores or adds to `tensor`. */
bool op_writes_tensor(const TirOp *op, const TirTensor *tensor);
bool writes_tensor(const TirBlock *block, const TirTensor *tensor);
/* Whether a store or an addition writes nothing when it runs for an index outside of grid axis
 * `axis`: its place then begins outside of the tensor or past a limit. */
bool writes_nothing_past(const TirFn *fn, uint32_t axis, const TirOp *write);
/* Whether parts of a pack are among the indices of an access. */
bool has_pack(const TirOp *access);
/* Whether the part of a row that is accessed begins at a multiple of BOX_UNIT bytes, as a TMA box
 * must. */
bool box_begins_aligned(const TirOp *access);
/* The same for a write; besides, only boxes of loads may begin before their tensor (PTX ISA). */
bool box_may_be_written(const TirOp *write);
/* Whether a TMA box can end where the access does if that is before the end of the tensor.  That
 * works for one dimension other than the last, and takes one more of the box's `most_rank`
 * dimensions. */
bool box_may_end(const TirOp *access, uint32_t most_rank);
/* Whether a box that ends so may begin before its tensor along that dimension: it may then be one
 * that goes row by row (lower_begin_rows). */
bool box_may_begin_before(const TirOp *access);
/* That dimension of the tensor; its rank: there is none. */
uint32_t box_ended_dimension(const TirOp *access);
/* Whether TMA can bring the vector of a load. */
bool fits_vector_box(const TirOp *load);
/* An upper bound of the accumulator elements that are alive together: all carried ones, and the
 * largest of the others. */
int64_t accumulator_elements(const TirBlock *block);
/* Whether an i32 index is known to be at least 0: grid indices, sizes, loop counters from such, and
 * sums, products, quotients of them. */
bool is_not_negative(const TirVal *value);

/* Whether launches require that a size is a multiple of a number. */
bool tir_requires_multiple(const TirFn *fn, const HostExpr *size, int64_t of);
/* Whether a grid's extent is a size, also one that launches require to be C / n, where the extent
 * is cdiv(C, n) and C a multiple of n. */
bool tir_extent_is(const TirFn *fn, const HostExpr *extent, uint32_t size);
/* Whether a range is one of those that a grid axis counts, of which the last one ends where the size
 * does that they are cut from: launches require that it is a multiple of their length. */
bool tir_range_is_whole(const TirFn *fn, uint32_t size, const TirVal *start, int32_t length);

/* The largest power of two (up to 64) known to divide an index. */
int64_t tir_factor(const TirVal *value);

#endif
