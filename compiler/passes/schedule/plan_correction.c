/* plan_correction.c - sums in tensor memory that a role of their own may change between products,
 * and take to memory.
 *
 * An iteration that multiplies the rows of a sum, each by a factor of its own, in front of the
 * product that adds to it (a softmax whose maximum has risen does) needs the factors for that and
 * nothing of the sum.  So a warp group beside the consumers can have the sums: a consumer hands it
 * a vector of factors in each iteration, and behind the loop the vectors of which, with the sum,
 * results are made.  Then a consumer goes on to its next tile while results go to memory.
 */
#include "compiler/passes/schedule/plan.h"

#include "compiler/passes/util/tir_util.h"

TirVal *
plan_row_factor(const TirVal *product, const TirVal *sum)
{
    const TirOp *mul = product->def;

    for (uint32_t k = 0; mul != NULL && mul->op == TIR_MUL && k < 2; k++) {
        const TirOp *wide = mul->args[1 - k]->def;
        if (mul->args[k] != sum || wide == NULL || wide->op != TIR_BROADCAST)
            continue;
        const TirOp *column = wide->args[0]->def;
        if (column != NULL && column->op == TIR_EXPAND && column->axis == 1 &&
            column->args[0]->type.rank == 1)
            return column->args[0];
    }
    return NULL;
}

/* Whether `change`, result `k` of which is to be added to, does nothing to `sum` but multiply rows:
 * as it is, or, of a branch, on one way or both. */
static bool
scales_rows(const TirOp *change, uint32_t k, const TirVal *sum)
{
    bool scales = change->op == TIR_IF || plan_row_factor(change->results[0], sum) != NULL;

    for (uint32_t side = 0; change->op == TIR_IF && side < 2 && scales; side++) {
        const TirVal *value = block_yield(change->blocks[side])->args[k];
        scales = count_uses_in(change->blocks[side], sum) == 1 &&
                 (value == sum || plan_row_factor(value, sum) != NULL);
    }
    return scales;
}

/* The product, whose left operand is computed, in front of which an iteration multiplies the rows
 * of the sum that it carries;
 * NULL: there is none, or there are several. */
static const Product *
scaled_product(const TirBlock *body, const Products *products)
{
    const Product *found = NULL;

    for (uint32_t k = 0; k < products->n; k++) {
        const Product *p = &products->at[k];
        if (p->change == NULL)
            continue;
        if (found != NULL || !p->second ||
            !scales_rows(p->change, p->mma->args[2]->index, body->params.at[p->sum]))
            return NULL;
        found = p;
    }
    return found;
}

/* ---- behind the loop ---- */

static void
mark_results(const TirOp *op, bool *marks)
{
    for (uint32_t k = 0; k < op->n_results; k++)
        marks[op->results[k]->id] = true;
}

/* Marks what follows from marked values in the operations behind `loop`. */
static void
mark_behind(const TirOp *loop, bool *marks)
{
    const TirBlock *block = loop->parent;
    bool behind = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool from = false;
        for (uint32_t k = 0; k < op->n_args && behind; k++)
            from = from || marks[op->args[k]->id];
        behind = behind || op == loop;
        if (from)
            mark_results(op, marks);
    }
}

CorrectionParts
plan_correction_parts(Arena *arena, const TirFn *fn, const TirOp *loop, uint32_t k)
{
    CorrectionParts parts = {.of_loop = arena_array(arena, bool, fn->next_id + 1),
                             .of_sum = arena_array(arena, bool, fn->next_id + 1)};

    mark_results(loop, parts.of_loop);
    mark_behind(loop, parts.of_loop);
    parts.of_sum[loop->results[k]->id] = true;
    mark_behind(loop, parts.of_sum);
    return parts;
}

bool
plan_is_corrected(const CorrectionParts *parts, const TirOp *op)
{
    bool of_sum = false;

    for (uint32_t k = 0; k < op->n_args; k++)
        of_sum = of_sum || parts->of_sum[op->args[k]->id];
    return of_sum;
}

bool
plan_is_handed_over(const CorrectionParts *parts, const TirVal *value)
{
    return parts->of_loop[value->id] && !parts->of_sum[value->id] && value->type.rank == 1 &&
           value->type.dtype == DT_F32 && value->type.dim[0] == TMEM_LANES;
}

/* Whether the correction role can have a value: a consumer hands it over, or it computes it. */
static bool
can_have(const CorrectionParts *parts, const TirOp *loop, const TirVal *value)
{
    const TirOp *def = value->def;

    if (parts->of_sum[value->id] || plan_is_handed_over(parts, value))
        return true;
    if (def == NULL)
        return false;
    if (def->op == TIR_LOAD ? def->tensor->mode != TENSOR_IN || def->shared != NULL
                            : !tir_can_be_again(def))
        return false;
    bool can = true;
    for (uint32_t k = 0; k < def->n_args && can; k++)
        can = can_have(parts, loop, def->args[k]);
    return can;
}

static const char *
cannot_leave(Arena *arena, const TirFn *fn, const TirOp *loop, uint32_t k)
{
    CorrectionParts parts = plan_correction_parts(arena, fn, loop, k);
    bool behind = false;

    for (uint32_t i = 0; i < loop->parent->ops.n; i++) {
        const TirOp *op = loop->parent->ops.at[i];
        if (behind && plan_is_corrected(&parts, op)) {
            bool can = op->n_blocks == 0 && op->op != TIR_MMA &&
                       (op->op == TIR_STORE || (tir_op_info(op->op)->flags & TF_PURE) != 0);
            for (uint32_t j = 0; j < op->n_args && can; j++)
                can = can_have(&parts, loop, op->args[j]);
            if (!can)
                return "what is made of a sum behind the loop takes more than vectors of rows";
        }
        behind = behind || op == loop;
    }
    return can_have(&parts, loop, loop->args[loop_first_initial(loop) + k])
               ? NULL
               : "a sum does not begin with what another role could compute";
}

const char *
plan_cannot_correct(const PassContext *px, const TirFn *fn, const TirOp *loop)
{
    const PlanHints *hints = &px->plan;

    if (!hints->correction)
        return NULL;
    if (px->target->correction_registers == 0)
        return "correction=1 is for targets on which sums of products lie in tensor memory";
    Graph graph = plan_issue(px->target, fn, loop, hints->consumers);
    if (hints->cooperative || hints->paired || hints->two_blocks || graph.as != AS_CHAIN)
        return "correction=1 is for a chain of products, without pairs of blocks";
    const Product *scaled = scaled_product(loop->blocks[0], &graph.products);
    if (scaled == NULL)
        return "no sum, or more than one, has its rows multiplied in front of a product with a "
               "computed operand";
    return cannot_leave(fn->arena, fn, loop, scaled->sum - 1);
}

void
plan_add_correction(const PassContext *px, TirFn *fn, const TirOp *loop)
{
    enum { WORD_COLUMNS = 2, BESIDE = 32 }; /* of a row that is stored at once as 16-bit elements */
    const Target *target = px->target;
    uint32_t n = tir_consumers(fn->plan);
    /* what warp groups begin with, and give to one another */
    uint32_t all = (uint32_t)target_entry_registers(target, n + 1) * (n + 2);

    if (!px->plan.correction)
        return;
    Products products = plan_products(fn, loop);
    const TirOp *product = scaled_product(loop->blocks[0], &products)->mma;
    uint32_t row = (uint32_t)product->results[0]->type.dim[1] / WORD_COLUMNS + BESIDE;
    uint32_t own = row > target->correction_registers
                       ? (row + REGISTER_STEP - 1) / REGISTER_STEP * REGISTER_STEP
                       : target->correction_registers;
    TirRole *consumer = tir_role(fn->plan, ROLE_CONSUMER);
    uint32_t each = (all - target->producer_beside_correction - own) / n / REGISTER_STEP *
                    REGISTER_STEP;
    consumer->registers = each < consumer->registers ? each : consumer->registers;
    tir_role(fn->plan, ROLE_PRODUCER)->registers = target->producer_beside_correction;
    tir_role_add(fn, ROLE_CORRECTION, GROUP_WARPS, 1, own);
}
