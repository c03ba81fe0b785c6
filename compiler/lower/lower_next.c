/* lower_next.c - computes a tile's index and first scalars at `next_tile` of the tile before.
 *
 *     before the first tile:  indices, bounds -> kept
 *     tile:    indices, bounds <- kept
 *              ..
 *              next_tile      indices, bounds of the next tile -> kept
 *              the last product ends; results are stored; stages of other consumers are drained
 *
 * With the dynamic scheduler the next tile index may not have been broadcast yet.  A consumer must
 * not wait for it while it holds stages that the producer needs first; it then reads the index
 * after the end of this tile. (Doing that and the first tile in one place, at the head of the loop,
 * would be less code, but there ptxas can not tell that the warp stays converged.)
 *
 * What is computed is the plan's program `next_tile` (passes/schedule/roles_next.c).
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/lower/lower.h"

#include <string.h>

/* The value of `block`, or of the blocks in it, that is kept under this number. */
static TirVal *
find_kept(const TirBlock *block, uint32_t kept)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (walk.op->kept == kept)
            return walk.op->results[0];
    }
    return NULL;
}

TileHead *
lower_find_head(Lowering *lo)
{
    TirBlock *block = lo->fn->plan == NULL ? NULL : tir_program(lo->fn->plan, ROLE_NEXT_TILE);
    uint32_t n = 0;

    if (block == NULL)
        return NULL;
    TileHead *head = arena_new(lo->arena, TileHead);
    head->block = block;
    for (uint32_t i = 0; i < block->ops.n; i++)
        n += block->ops.at[i]->kept != 0;
    for (uint32_t k = 1; k <= n; k++) {
        HeadValue kept = {.value = find_kept(lo->fn->body, k), .again = find_kept(block, k)};
        vec_push(lo->arena, &head->values, kept);
    }
    return head;
}

static void
keep(Lowering *lo, LirReg *home, LirOperand value)
{
    if (*home == 0)
        *home = lir_new_home(&lo->b, LIR_B32);
    lir_emit(&lo->b, LIR_MOV_B32, 1, 2, (LirOperand[]){lir_reg(*home), value});
}

/* Computes what a tile begins with from the role's indices, and keeps both. */
static void
keep_head(Lowering *lo, LirReg none)
{
    TileHead *head = lo->head;

    for (uint32_t i = 0; i < head->block->ops.n; i++)
        lower_clear(lo, head->block->ops.at[i]->results[0]);
    for (uint32_t k = 0; k < head->values.n; k++) {
        HeadValue *kept = &head->values.at[k];
        keep(lo, &kept->home, lower_scalar(lo, kept->again));
    }
    for (uint32_t k = 0; k < lo->fn->grid.n; k++)
        keep(lo, &head->grid[k], lower_operand(lo, lo->role->grid[k]));
    if (lo->fn->plan->tiles.alternating)
        keep(lo, &head->reversed, lir_reg(lo->role->reversed));
    keep(lo, &head->none, lir_reg(none));
}

/* Of the first tile, or the one behind that at hand. */
static void
find_tile(Lowering *lo, bool first)
{
    Role now = *lo->role; /* whose indices stay those of the tile at hand */

    lir_open(&lo->b, false);
    lo->role->reversed = lo->head->reversing;
    if (lo->fn->plan->tiles.alternating && !first)
        lower_alternate(lo);
    LirReg none = tir_is_dynamic(lo->fn->plan) ? lower_read_tile(lo) : lower_count_on(lo, first);
    keep_head(lo, none);
    lir_close(&lo->b);
    memcpy(lo->role->grid, now.grid, sizeof now.grid);
    memcpy(lo->role->lane_grid, now.lane_grid, sizeof now.lane_grid);
    lo->role->reversed = now.reversed;
}

static void
set_known(Lowering *lo, int32_t known)
{
    LirOperand set[] = {lir_reg(lo->head->known), lir_int(known)};

    lir_emit(&lo->b, LIR_MOV_B32, 1, 2, set);
}

void
lower_find_first(Lowering *lo)
{
    lo->head->known = lir_new_home(&lo->b, LIR_B32);
    lo->head->reversing = lo->role->reversed;
    if (tir_is_dynamic(lo->fn->plan))
        lower_await_tile(lo);
    find_tile(lo, true);
}

void
lower_next_tile(Lowering *lo)
{
    uint32_t later = lir_new_label(&lo->b);

    if (tir_is_dynamic(lo->fn->plan))
        lir_branch(&lo->b, later, lower_is_told(lo), true);
    find_tile(lo, false);
    set_known(lo, 1);
    lir_label(&lo->b, later);
}

void
lower_find_late(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    uint32_t known = lir_new_label(b);
    LirReg agreed = lir_new_reg(b, LIR_PRED);
    LirReg is_known = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(lo->head->known), lir_int(0));

    lir_emit(b, LIR_VOTE_ANY, 1, 2, (LirOperand[]){lir_reg(agreed), lir_reg(is_known)});
    lir_branch(b, known, agreed, false);
    if (tir_is_dynamic(lo->fn->plan))
        lower_await_tile(lo);
    find_tile(lo, false);
    lir_label(b, known);
}

LirReg
lower_take_head(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    const TileHead *head = lo->head;
    LirReg agreed = lir_new_reg(b, LIR_PRED);
    LirReg none = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(head->none), lir_int(0));

    for (uint32_t k = 0; k < lo->fn->grid.n; k++)
        lower_set_program(lo, k, lower_copy_of(lo, head->grid[k]));
    if (lo->fn->plan->tiles.alternating)
        lo->role->reversed = lower_copy_of(lo, head->reversed);
    for (uint32_t k = 0; k < head->values.n; k++) {
        const HeadValue *kept = &head->values.at[k];
        lower_clear(lo, kept->value);
        lower_set_elem(lo, kept->value, 0, elem_reg(lower_copy_of(lo, kept->home)));
    }
    lir_emit(b, LIR_VOTE_ANY, 1, 2, (LirOperand[]){lir_reg(agreed), lir_reg(none)});
    set_known(lo, 0);
    return agreed;
}
