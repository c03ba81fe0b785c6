/* lower_early.c - what is made of a branch's results begins before the branch.
 *
 * A branch that rows decide by a vote is taken seldom, and the vote waits for all elements of a
 * tile.  Where the other side leaves everything as it was, what a thread makes of the results for
 * another role is begun with what they would be there:
 *
 *     before the branch    the first elements, of the results as the other side leaves them
 *     the side taken       .. again, of its own results
 *     behind               the elements that are left
 *
 * So arithmetic runs under the vote, which nothing waits for but what the branch itself does.
 */
#include "compiler/lower/lower.h"

#include "compiler/passes/util/tir_util.h"

enum { MOST_EARLY = 20, DEEPEST = 12 };

/* Whether `value` is made when asked for of the branch's results (*of_results), and of what stands
 * before it. */
static bool
is_made_of(const TirOp *branch, const TirVal *value, uint32_t depth, bool *of_results)
{
    const TirOp *def = value->def;
    bool behind = false;

    if (def == NULL || def->parent != branch->parent)
        return true;
    if (def == branch) {
        *of_results = true;
        return true;
    }
    for (uint32_t i = 0; i < branch->parent->ops.n && branch->parent->ops.at[i] != def; i++)
        behind = behind || branch->parent->ops.at[i] == branch;
    if (!behind)
        return true;
    if (!tir_can_be_again(def) || def->shared != NULL || depth == DEEPEST)
        return false;
    for (uint32_t k = 0; k < def->n_args; k++) {
        if (!is_made_of(branch, def->args[k], depth + 1, of_results))
            return false;
    }
    return true;
}

/* What is written for another role first behind the branch, before it is rounded; NULL: it is not
 * made of the results, or nobody waits for it: what lies over a result is in the way of the next
 * product. */
static TirVal *
written_behind(const Lowering *lo, const TirOp *branch)
{
    const TirBlock *block = branch->parent;
    bool behind = false, of_results = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        behind = behind || op == branch;
        if (!behind || op->op != TIR_TMEM_WRITE || op->shared->from != ROLE_CONSUMER)
            continue;
        TirVal *value = op->args[0];
        while (value->def != NULL && value->def->op == TIR_CAST)
            value = value->def->args[0];
        bool can = op->shared->over != NULL && value->block == block && value->type.rank == 2 &&
                   value->type.dtype == DT_F32 &&
                   (lo->at_once == NULL || !lo->at_once[value->id]) && !lower_has_home(lo, value) &&
                   is_made_of(branch, value, 0, &of_results) && of_results;
        return can ? value : NULL;
    }
    return NULL;
}

/* Whether the second side leaves everything as it was. */
static bool
leaves_all(const TirOp *branch)
{
    bool all = branch->blocks[1]->ops.n == 1;

    for (uint32_t k = 0; k < branch->n_results; k++)
        all = all && lower_per_word(branch->results[k]) == 1;
    return all;
}

/* Has the elements of the results stand for other values, or for what they were before; these are
 * left in `before`. */
static void
exchange_results(Lowering *lo, TirOp *branch, Elem **before, bool back)
{
    TirOp *yield = block_yield(branch->blocks[1]);

    for (uint32_t k = 0; k < branch->n_results; k++) {
        int32_t n = lower_registers(branch->results[k]);
        if (!back)
            before[k] = arena_array(lo->arena, Elem, n);
        for (int32_t r = 0; r < n; r++) {
            Elem now = back ? before[k][r] : lower_elem(lo, yield->args[k], r);
            if (!back)
                before[k][r] = lower_elem(lo, branch->results[k], r);
            lower_set_elem(lo, branch->results[k], r, now);
        }
    }
}

/* Makes the elements, which are forgotten again: those of other values that they are made of,
 * too. */
static void
make_elements(Lowering *lo, const Early *early, const TirBlock *inside)
{
    const TirBlock *around = lo->block;
    uint32_t borrowed = lo->borrowed.n;

    lo->block = inside;
    for (int32_t r = 0; r < early->n; r++) {
        LirReg made = lower_elem_reg(lo, lower_elem(lo, early->value, r), LIR_F32);
        LirOperand move[] = {lir_reg(early->regs[r]), lir_reg(made)};
        lir_emit(&lo->b, LIR_MOV_F32, 1, 2, move);
    }
    lower_forget(lo, borrowed);
    lo->block = around;
}

Early
lower_begin_early(Lowering *lo, TirOp *branch)
{
    Early early = {0};

    if (lo->role == NULL || !branch->by_rows || !leaves_all(branch) ||
        !switch_is_on(lo->px, "begin-early"))
        return early;
    early.value = written_behind(lo, branch);
    if (early.value == NULL)
        return early;
    int32_t some = lower_registers(early.value) / 4;
    early.n = some < MOST_EARLY ? some & ~1 : MOST_EARLY;
    early.regs = arena_array(lo->arena, LirReg, early.n + 1);
    for (int32_t r = 0; r < early.n; r++)
        early.regs[r] = lir_new_mutable(&lo->b, LIR_F32);
    Elem **before = arena_array(lo->arena, Elem *, branch->n_results + 1);
    exchange_results(lo, branch, before, false);
    make_elements(lo, &early, branch->blocks[1]);
    exchange_results(lo, branch, before, true);
    return early;
}

void
lower_early_again(Lowering *lo, const Early *early, const TirBlock *inside)
{
    if (early->value != NULL)
        make_elements(lo, early, inside);
}

void
lower_end_early(Lowering *lo, const Early *early)
{
    for (int32_t r = 0; r < early->n; r++)
        lower_keep_elem(lo, early->value, r, elem_reg(early->regs[r]));
}
