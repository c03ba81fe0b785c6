/* roles_stages.c - which operations of the main loop are in stage 0, which in stage 1.
 *
 *   level    tile IR with a plan, pass `stages`
 *   does     with `pipelined`, the main loop is pipelined by one stage: stage 1 of an iteration
 *            runs under stage 0 of the next one.  Stage 1: values that depend on a chain of two
 *            products, plus operations used only by stage 1.  A branch with results of both stages
 *            is split in two.  Stage 1 ends with the operations that read the results of its
 *            products, such as a sum that is scaled once more: they follow the wait for them. Has
 *            the operations stand in the order in which a consumer does them (stages_order.c), and
 *            makes pipelines of vectors that TMA can bring
 *   leaves   the stage of each operation of the main loop, 1 only where it is pipelined, and their
 *            order.  Pass `roles` takes other stages and orders as well, as far as a loop can have
 *            them
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/acc_classes.h"
#include "compiler/passes/util/tir_util.h"

/* An operation that costs nothing, or is better done where it is used. */
static bool
follows_its_users(const TirOp *op)
{
    switch (op->op) {
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_BROADCAST:
    case TIR_TRANSPOSE:
    case TIR_CONST:
    case TIR_IOTA: return true;
    default: return op->op == TIR_LOAD && op->shared != NULL;
    }
}

/* Whether every use of `value` in `block` is by stage 1 (and there is one). */
static bool
used_late_only(const Roles *r, const TirBlock *block, const TirVal *value, bool *used)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (op->args[k] != value)
                continue;
            *used = true;
            if (op->op == TIR_YIELD ? !r->stage1[value->id] : !roles_in_stage1(r, op))
                return false;
        }
    }
    return true;
}

static void
sink_into_late(Roles *r, const TirBlock *block)
{
    for (uint32_t i = block->ops.n; i-- > 0;) {
        const TirOp *op = block->ops.at[i];
        bool used = false;
        if (follows_its_users(op) && used_late_only(r, block, op->results[0], &used) && used)
            r->stage1[op->results[0]->id] = true;
    }
}

/* ---- branches with results of both stages become two ---- */

typedef struct Split {
    TirOp *stage0, *stage1;
    ValueList crossing[2]; /* made by the early part of a branch, used by its late part */
} Split;

static void
add_if_early(Roles *r, TirVal *value, const TirBlock *block, ValueList *crossing)
{
    if (value->block == block && !r->stage1[value->id] && !roles_listed(crossing, value))
        vec_push(r->fn->arena, crossing, value);
}

/* What `op`, or an operation in its blocks, reads of the values of stage 0 of `block`. */
static void
add_early_operands(Roles *r, const TirOp *op, const TirBlock *block, ValueList *crossing)
{
    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);)
        add_if_early(r, reads.value, block, crossing);
}

static void
find_crossing(Roles *r, const TirOp *branch, Split *split)
{
    for (uint32_t j = 0; j < 2; j++) {
        const TirBlock *block = branch->blocks[j];
        const TirOp *yield = block_yield(block);
        sink_into_late(r, block);
        for (uint32_t i = 0; i < block->ops.n; i++) {
            if (roles_in_stage1(r, block->ops.at[i]))
                add_early_operands(r, block->ops.at[i], block, &split->crossing[j]);
        }
        for (uint32_t k = 0; k < branch->n_results; k++) {
            if (r->stage1[branch->results[k]->id])
                add_if_early(r, yield->args[k], block, &split->crossing[j]);
        }
    }
}

/* The early or late half of a branch, before position `at` of its block. */
static TirOp *
make_half(Roles *r, TirBuilder *b, TirOp *branch, Split *split, bool late)
{
    Arena *arena = r->fn->arena;
    VEC(TirType) types = {0};

    for (uint32_t k = 0; k < branch->n_results; k++) {
        if (r->stage1[branch->results[k]->id] == late)
            vec_push(arena, &types, branch->results[k]->type);
    }
    for (uint32_t j = 0; !late && j < 2; j++) {
        for (uint32_t k = 0; k < split->crossing[j].n; k++)
            vec_push(arena, &types, split->crossing[j].at[k]->type);
    }
    b->span = branch->span;
    TirOp *half = tir_if(b, branch->args[0], types.n, types.at);
    half->by_rows = branch->by_rows;
    for (uint32_t j = 0; j < 2; j++) {
        TirBuilder inner = {.fn = r->fn, .block = half->blocks[j], .at = -1, .span = branch->span};
        CloneMap map = clone_map(r->fn);
        ValueList yields = {0};
        uint32_t at = half->n_results; /* of the crossing values among the early half's results */
        if (late) {
            at = 0;
            for (uint32_t k = 0; k < branch->n_results; k++)
                at += !r->stage1[branch->results[k]->id];
            at += j == 1 ? split->crossing[0].n : 0;
            for (uint32_t k = 0; k < split->crossing[j].n; k++)
                clone_set(&map, split->crossing[j].at[k], split->stage0->results[at + k]);
        }
        for (uint32_t i = 0; i < branch->blocks[j]->ops.n; i++) {
            const TirOp *op = branch->blocks[j]->ops.at[i];
            if (op->op != TIR_YIELD && roles_in_stage1(r, op) == late)
                clone_op(&inner, &map, op);
        }
        const TirOp *yield = block_yield(branch->blocks[j]);
        for (uint32_t k = 0; k < branch->n_results; k++) {
            TirVal *value = clone_of(&map, yield->args[k]);
            if (r->stage1[branch->results[k]->id] == late)
                vec_push(arena, &yields, value);
        }
        for (uint32_t way = 0; !late && way < 2; way++) {
            for (uint32_t k = 0; k < split->crossing[way].n; k++) {
                TirVal *value = split->crossing[way].at[k];
                TirVal *given = way == j ? clone_of(&map, value)
                                         : tir_splat_const(&inner, value->type, 0);
                vec_push(arena, &yields, given);
            }
        }
        tir_yield(&inner, yields.n, yields.at);
    }
    return half;
}

/* Splits a branch of the block, or of a branch in it, that has results of both stages: the
 * innermost first, so that an operation of a branch is of one stage.  Whether there was one. */
static bool
split_branches(Roles *r, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        uint32_t n_stage1 = 0;
        for (uint32_t j = 0; op->op == TIR_IF && j < op->n_blocks; j++) {
            if (split_branches(r, op->blocks[j]))
                return true;
        }
        for (uint32_t k = 0; op->op == TIR_IF && k < op->n_results; k++)
            n_stage1 += r->stage1[op->results[k]->id];
        if (n_stage1 == 0 || n_stage1 == op->n_results || r->stage1[op->args[0]->id])
            continue;
        Split split = {0};
        find_crossing(r, op, &split);
        TirBuilder b = {.fn = r->fn, .block = block, .at = (int32_t)i, .span = op->span};
        split.stage0 = make_half(r, &b, op, &split, false);
        b.at = (int32_t)i + 1;
        split.stage1 = make_half(r, &b, op, &split, true);
        uint32_t at[2] = {0, 0};
        for (uint32_t k = 0; k < op->n_results; k++) {
            bool in_stage1 = r->stage1[op->results[k]->id];
            TirOp *half = in_stage1 ? split.stage1 : split.stage0;
            tir_replace_uses(r->fn, op->results[k], half->results[at[in_stage1]++]);
        }
        for (uint32_t k = i + 2; k + 1 < block->ops.n; k++)
            block->ops.at[k] = block->ops.at[k + 1];
        block->ops.n--;
        return true;
    }
    return false;
}

/* Whether some buffer of a pipeline would be read by both stages: it would have to be kept for
 * another iteration. */
static bool
shares_stages(const Roles *r)
{
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (!roles_in_stage1(r, op))
            continue;
        for (TirReads reads = tir_reads(op); tir_reads_next(&reads);) {
            const TirOp *def = tir_untransposed(reads.value)->def;
            if (def != NULL && def->parent == r->body && def->op == TIR_LOAD &&
                def->shared != NULL && !r->stage1[def->results[0]->id])
                return true;
        }
    }
    return false;
}

static bool
is_stage1_mma(const Roles *r, const TirVal *value)
{
    return value->def != NULL && value->def->op == TIR_MMA && value->def->parent == r->body &&
           r->stage1[value->id];
}

/* Whether `op`, or what it has blocks for, looks at a stage 1 product's result or what is made of
 * one. */
static bool
looks_at_late(const Roles *r, const TirOp *op)
{
    bool looks = false;

    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);)
        looks = looks || r->closing[reads.value->id] || is_stage1_mma(r, reads.value);
    return looks;
}

/* Marks what stands behind the products of stage 1; false: one of these needs the result of
 * another, as more than what it adds to, and so a wait amid stage 1. */
static bool
mark_closing(Roles *r)
{
    r->closing = arena_array(r->fn->arena, bool, r->fn->next_id + 1);
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_MMA && (r->closing[op->args[2]->id] || is_stage1_mma(r, op->args[0]) ||
                                  is_stage1_mma(r, op->args[1]) || r->closing[op->args[0]->id] ||
                                  r->closing[op->args[1]->id] ||
                                  (is_stage1_mma(r, op->args[2]) && roles_begins_with_copy(r, op))))
            return false;
        for (uint32_t k = 0; k < op->n_results && op->op != TIR_MMA && looks_at_late(r, op); k++)
            r->closing[op->results[k]->id] = true;
    }
    return true;
}

/* Whether `value` has the registers of a product's result, which are written again by the next
 * iteration's. */
static bool
has_mma_registers(const TirVal *value)
{
    const TirOp *def = value->def;

    if (def == NULL || !mma_may_be_sum(value))
        return false;
    for (uint32_t k = 0; def->op == TIR_IF && k < def->n_blocks; k++) {
        if (has_mma_registers(block_yield(def->blocks[k])->args[value->index]))
            return true;
    }
    return def->op == TIR_MMA;
}

/* Whether `op` of stage 1 reads the result of a stage 0 product itself: that of the next iteration
 * has its registers by then. */
static bool
reads_early_result(const Roles *r, const TirOp *op)
{
    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);) {
        if (reads.value->block == r->body && !r->stage1[reads.value->id] &&
            has_mma_registers(reads.value))
            return true;
    }
    return false;
}

static bool
reads_early_results(const Roles *r)
{
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        if (roles_in_stage1(r, r->body->ops.at[i]) && reads_early_result(r, r->body->ops.at[i]))
            return true;
    }
    return false;
}

/* Whether a stage 0 product adds to something made of the result of another: it cannot start beside
 * that. */
static bool
begins_behind(const Roles *r, const TirOp *mma)
{
    const TirVal *sum = mma->args[2];

    return !r->stage1[mma->results[0]->id] && r->level[sum->id] > 0 &&
           (sum->def->op != TIR_MMA || roles_begins_with_copy(r, mma));
}

/* Whether both stages have products that may stand in them. */
static bool
has_two_stages(const Roles *r)
{
    bool some[2] = {false, false};

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (tir_writes(op) || op->op == TIR_FOR)
            return false;
        if (op->op == TIR_MMA) {
            some[roles_in_stage1(r, op)] = true;
            if (roles_in_stage1(r, op) != (r->level[op->results[0]->id] > 1) || begins_behind(r, op))
                return false;
        }
        const TirOp *condition = op->op == TIR_IF ? op->args[0]->def : NULL;
        if (condition != NULL && r->stage1[op->args[0]->id] && !follows_its_users(condition))
            return false;
    }
    return some[0] && some[1];
}

/* Whether `op`, or an operation in its blocks, reads a value of stage 1 of the body. */
static bool
reads_stage1(const Roles *r, const TirOp *op)
{
    bool any = false;

    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);)
        any = any || (reads.value->block == r->body && r->stage1[reads.value->id]);
    return any;
}

/* The first operation of stage 0 that reads a value of stage 1; NULL: none does. */
static const TirOp *
early_reader(const Roles *r)
{
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->op != TIR_YIELD && !roles_in_stage1(r, op) && reads_stage1(r, op))
            return op;
    }
    return NULL;
}

/* Why a loop with these stages can not be written; NULL: it can. */
static const char *
obstacle(Roles *r)
{
    if (!mark_closing(r))
        return "a product needs the result of one that would run under arithmetic";
    if (reads_early_results(r))
        return "the result of a first product is used behind a second one";
    if (early_reader(r) != NULL) /* it has no results of its own, by which it would be of stage 1 */
        return "a branch writes to memory what is made of a second product";
    return NULL;
}

/* Whether the loop can be pipelined; marks the stages. */
static bool
prepare_pipelined(Roles *r)
{
    do {
        roles_mark(r);
        if (!has_two_stages(r))
            return false;
    } while (split_branches(r, r->body));
    sink_into_late(r, r->body);
    r->not_pipelined = obstacle(r);
    return r->not_pipelined == NULL && !shares_stages(r);
}

/* What the source asks for by name, and can not be had of this loop. */
static void
check_wish(const Roles *r)
{
    const char *lacks = plan_lacks_registers(r->px->target, r->fn, r->loop);

    if (r->pipelined || !r->px->plan.pipelined || !plan_is_given(&r->px->plan, "pipelined"))
        return;
    plan_not_kept(
        r->px, r->fn, r->loop->span,
        lacks != NULL ? lacks
        : tir_has_coop_k(r->fn)
            ? "pipelined=1 does not go with a product that the warp groups share out in each iteration"
        : r->not_pipelined != NULL
            ? arena_printf(r->fn->arena, "pipelined=1 can not be had: %s", r->not_pipelined)
            : "pipelined=1 needs products that can run while the next iteration's arithmetic does, and this "
              "loop has none");
}

bool
pass_stages(PassContext *px, TirFn *fn)
{
    Roles r = {.px = px, .fn = fn, .old = fn->body};
    const TirPlan *plan = fn->plan;

    if (plan == NULL || tir_program(plan, ROLE_PRODUCER) != NULL || !roles_find_loop(&r))
        return false;
    sink_loads(fn, r.body);
    r.pipelined = px->plan.pipelined && r.mmas == BY_CONSUMERS &&
                  plan_lacks_registers(px->target, fn, r.loop) == NULL && !tir_has_coop_k(fn) &&
                  prepare_pipelined(&r);
    if (r.not_pipelined != NULL)
        diag_remark(px->diag, r.loop->span,
                    "iterations of the loop of kernel '%s' are not pipelined: %s", fn->name,
                    r.not_pipelined);
    check_wish(&r);
    for (uint32_t i = 0; i < r.body->ops.n; i++) {
        TirOp *op = r.body->ops.at[i];
        r.lookahead = r.lookahead || op->stage < 0; /* pass `plan` has its product begin ahead */
        if (op->stage >= 0)
            op->stage = r.pipelined && roles_in_stage1(&r, op);
    }
    roles_pipeline_vectors(&r);
    if (tir_is_cooperative(plan))
        roles_narrow_vectors(&r);
    stages_order(&r);
    return true;
}

/* Refuses stages, which may have been edited, that no loop can have. */
static bool
check_stages(Roles *r)
{
    const TirFn *fn = r->fn;
    const TirOp *early = early_reader(r);

    if (early != NULL) {
        diag_error(r->px->diag, early->span,
                   "E-PLAN: an operation of stage 0 of kernel '%s' reads a value of stage 1, which "
                   "comes an iteration later; give it stage(1), too, or its operand none",
                   fn->name);
        return false;
    }
    for (uint32_t i = 0; i < roles_last_first_mma(r); i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->n_results == 0 || roles_in_stage1(r, op) || op->op == TIR_MMA ||
            r->level[op->results[0]->id] == 0 || !has_two_stages(r))
            continue;
        diag_error(r->px->diag, op->span,
                   "E-PLAN: an operation of stage 0 of kernel '%s' needs the result of a product, "
                   "but stands in front of the last product of that stage, behind which results "
                   "are waited for",
                   fn->name);
        return false;
    }
    const char *why =
        !has_two_stages(r)
            ? "the first products of a chain are of stage 0, those that read their results of "
              "stage 1, and nothing is written to memory"
            : obstacle(r);
    if (why == NULL && shares_stages(r))
        why = "both stages read the buffer of one load";
    if (why != NULL)
        diag_error(r->px->diag, r->loop->span,
                   "E-PLAN: the loop of kernel '%s' can not have these stages: %s", fn->name, why);
    return why == NULL;
}

bool
roles_take_stages(Roles *r)
{
    const TirOp *yield = block_yield(r->body);
    bool some = false;

    roles_mark(r);
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        for (uint32_t k = 0; k < op->n_results; k++)
            r->stage1[op->results[k]->id] = op->stage > 0;
        some = some || op->stage > 0;
        r->lookahead = r->lookahead || (op->op == TIR_MMA && op->stage < 0);
        op->stage = 0; /* copies are in no stage */
    }
    /* a parameter may be handed on as another */
    for (uint32_t round = 0; round < yield->n_args; round++) {
        for (uint32_t k = 0; k < yield->n_args; k++)
            r->stage1[r->body->params.at[k + 1]->id] = r->stage1[yield->args[k]->id];
    }
    r->pipelined = some;
    return !some || check_stages(r);
}
