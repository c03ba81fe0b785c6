/* lower_next.c - what a tile begins with, found before the one before has ended.
 *
 * At the start of a work tile a consumer waits for one thing after the other: the tile's number, its indices, the
 * bounds of its loops, the first operands.  `next_tile` stands where it has time to find them: under the last
 * product of the tile before.
 *
 *     before the first tile:  indices, bounds -> kept
 *     tile:    indices, bounds <- kept
 *              ..
 *              next_tile      indices, bounds of the next tile -> kept
 *              the last product ends; results leave; other iterations pass by
 *
 * With the dynamic scheduler the next tile index may not have been broadcast yet.  A consumer must not wait for it
 * while it holds stages that the producer needs first; it then reads the index after the end of this tile.
 * (Doing that and the first tile in one place, at the head of the loop, would be less code, but there ptxas can not
 * tell that the warp stays converged.)
 *
 * Kept are the scalars that decide loops and branches up to `next_tile`, where they follow from the launch;
 * what takes one instruction from others that are kept is computed again.
 */
#include "compiler/lower/lower.h"

#include <string.h>

#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_util.h"

typedef VEC(TirVal *) Values;

static bool
is_listed(const Values *list, const TirVal *value)
{
    for (uint32_t k = 0; k < list->n; k++) {
        if (list->at[k] == value)
            return true;
    }
    return false;
}

/* A number, or, of a truth value, the numbers that it is made of. */
static void
list_numbers(Lowering *lo, Values *list, TirVal *value)
{
    TirOp *def = value->def;

    if (def == NULL || value->type.rank != 0 || is_listed(list, value))
        return;
    if (value->type.dtype == DT_I32)
        vec_push(lo->arena, list, value);
    for (uint32_t k = 0; value->type.dtype == DT_BOOL && k < def->n_args; k++)
        list_numbers(lo, list, def->args[k]);
}

/* What decides loops and branches of `block` up to `next_tile`; true when that was met. */
static bool
list_deciding(Lowering *lo, Values *list, const TirBlock *block)
{
    bool met = false;

    for (uint32_t i = 0; i < block->ops.n && !met; i++) {
        const TirOp *op = block->ops.at[i];
        uint32_t n = op->op == TIR_FOR ? loop_first_initial(op) : op->op == TIR_IF;
        met = op->op == TIR_NEXT_TILE;
        for (uint32_t k = 0; k < n; k++)
            list_numbers(lo, list, op->args[k]);
        for (uint32_t k = 0; op->op == TIR_IF && k < op->n_blocks; k++)
            met = list_deciding(lo, list, op->blocks[k]) || met;
    }
    return met;
}

/* Whether a scalar is as good as there: of the launch, or one step from what is kept. */
static bool
is_near(const Values *list, const TirVal *value)
{
    const TirOp *def = value->def;
    bool near = true;

    for (uint32_t k = 0; k < def->n_args; k++) {
        const TirVal *arg = def->args[k];
        near = near && (is_listed(list, arg) || (arg->def != NULL && arg->def->n_args == 0));
    }
    return near;
}

TileHead *
lower_find_head(Lowering *lo)
{
    TirFn *fn = lo->fn;
    Values list = {0};

    if (fn->plan == NULL || !fn->plan->persistent || !has_operation(fn->body, TIR_NEXT_TILE))
        return NULL;
    TileHead *head = arena_new(lo->arena, TileHead);
    head->block = tir_block_new(fn);
    TirBuilder b = {.fn = fn, .block = head->block, .at = -1, .span = fn->span};
    CloneMap map = clone_map(fn);
    list_deciding(lo, &list, fn->body);
    for (uint32_t k = 0; k < list.n; k++) {
        HeadValue kept = {.value = list.at[k]};
        if (!is_near(&list, kept.value))
            kept.again = clone_scalar_tree(&b, &map, kept.value);
        if (kept.again != NULL)
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
    if (lo->fn->plan->balance_swap)
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
    if (lo->fn->plan->balance_swap && !first)
        lower_alternate(lo);
    LirReg none = lo->fn->plan->dynamic ? lower_read_tile(lo) : lower_count_on(lo, first);
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
    if (lo->fn->plan->dynamic)
        lower_await_tile(lo);
    find_tile(lo, true);
}

void
lower_next_tile(Lowering *lo)
{
    uint32_t later = lir_new_label(&lo->b);

    if (lo->fn->plan->dynamic)
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
    if (lo->fn->plan->dynamic)
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
    if (lo->fn->plan->balance_swap)
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
