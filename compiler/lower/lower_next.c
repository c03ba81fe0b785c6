/* lower_next.c - what a tile begins with, found before the one before has ended.
 *
 * A band that comes to a tile waits for everything in a row: which tile it is, its indices, the bounds of its
 * loops, the first operands.  Where the program says `next_tile`, it has time: under its last product.
 *
 *     before the first tile:  indices, bounds -> kept
 *     tile:    indices, bounds <- kept
 *              ..
 *              next_tile      indices, bounds of the next tile -> kept
 *              the last product ends; results leave; other iterations pass by
 *
 * Tiles that are drawn may not be told yet.  A band must not wait for that while it holds slots that the
 * producer needs first: then it finds the tile where it begins, as it would without `next_tile`.
 *
 * Kept are the scalars that decide loops and branches up to the first product, where they follow from the
 * launch; what takes one instruction from others that are kept is computed again.  What is asked for later can be
 * computed under that product.
 */
#include "compiler/lower/lower.h"
#include "compiler/passes/tir_clone.h"
#include "compiler/passes/tir_util.h"

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

/* What decides loops and branches of `block` up to its first product; true when that was met. */
static bool
list_deciding(Lowering *lo, Values *list, const TirBlock *block)
{
    bool met = false;

    for (uint32_t i = 0; i < block->ops.n && !met; i++) {
        const TirOp *op = block->ops.at[i];
        uint32_t n = op->op == TIR_FOR ? loop_first_initial(op) : op->op == TIR_IF;
        met = op->op == TIR_MMA;
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

static LirReg
copy_of(Lowering *lo, LirReg home)
{
    LirOperand operands[] = {lir_reg(lir_new_reg(&lo->b, LIR_B32)), lir_reg(home)};

    lir_emit(&lo->b, LIR_MOV_B32, 1, 2, operands);
    return operands[0].reg;
}

static void
keep(Lowering *lo, LirReg *home, LirOperand value)
{
    if (*home == 0)
        *home = lir_new_home(&lo->b, LIR_B32);
    lir_emit(&lo->b, LIR_MOV_B32, 1, 2, (LirOperand[]){lir_reg(*home), value});
}

void
lower_keep_head(Lowering *lo, LirOperand none)
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
    keep(lo, &head->none, none);
}

LirReg
lower_take_head(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    const TileHead *head = lo->head;
    LirReg agreed = lir_new_reg(b, LIR_PRED);
    LirReg none = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(head->none), lir_int(0));

    for (uint32_t k = 0; k < lo->fn->grid.n; k++)
        lower_set_program(lo, k, copy_of(lo, head->grid[k]));
    for (uint32_t k = 0; k < head->values.n; k++) {
        const HeadValue *kept = &head->values.at[k];
        lower_clear(lo, kept->value);
        lower_set_elem(lo, kept->value, 0, elem_reg(copy_of(lo, kept->home)));
    }
    lir_emit(b, LIR_VOTE_ANY, 1, 2, (LirOperand[]){lir_reg(agreed), lir_reg(none)});
    return agreed;
}
