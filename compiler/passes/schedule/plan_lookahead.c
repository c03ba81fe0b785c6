/* plan_lookahead.c - whether the first product of an iteration can begin in the one before
 * (roles_list.c).
 *
 * It reads a tile that stays and one that is loaded in each iteration, and begins at zero.  What it
 * costs is registers: its result is there while the last products of the iteration before run.
 * Masks and elements' places as numbers would take the same registers: with them ptxas spills
 * (H200, causal attention, 128 x 64: 380 bytes), and in orders in which it does not nothing was
 * gained. So a loop with masks begins ahead in those of its segments where none lives; the others
 * stay as they are.
 *
 * Consumers that divide tiles meet twice in an iteration, each time before products that all of
 * them wait for.  With its first product ahead, each of them has something to do for the tensor
 * cores while they do.  That takes a second stage of the tile whose own part the product reads.
 * Where the loop has no masks, the next product goes in front of the iteration's last ones, which
 * then run under the first arithmetic of the next one: its *front*.  (H200, attention's dK and dV
 * at head dimension 192, 1988 keys: 1.639 million cycles for 1.703; one that begins behind them: 0
 * to 2 % less. With a causal mask, whose arithmetic has to wait, it is 2 % more.)
 *
 * The next result lies in the registers of this one, and stages are read before the next one is
 * waited for.  What is pure is made when it is asked for (check_consumer.c): so the next product
 * stands behind all that asks for something made of this one or of what it loads, and what an
 * iteration gives the next one is none of that.
 */
#include "compiler/passes/schedule/plan.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

/* Lists what makes an operand in the body, in order: one load, or this consumer's part of one, and
 * transposes. */
static bool
list_operand(Arena *arena, const TirBlock *body, const TirVal *value, Lookahead *lookahead)
{
    TirOp *def = value->def;

    if (value->block != body)
        return true;
    if (def == NULL)
        return false;
    if (def->op == TIR_TRANSPOSE) {
        if (!list_operand(arena, body, def->args[0], lookahead))
            return false;
    } else if ((def->op != TIR_LOAD && def->op != TIR_OWN) || lookahead->load != NULL) {
        return false;
    } else {
        lookahead->load = def;
    }
    vec_push(arena, &lookahead->needs, def);
    return true;
}

/* Whether result `k` of an operation is made of what `of` marks, or in its registers, when it is
 * asked for; other results are made where the operation stands. */
static bool
is_made_of(const bool *of, const TirOp *op, uint32_t k)
{
    bool any = false;

    switch (op->op) {
    case TIR_LOAD:
    case TIR_OWN:
    case TIR_FROM: /* from shared memory */ return false;
    case TIR_MMA: /* added to its third operand, where that is */ return of[op->args[2]->id];
    case TIR_FOR:
    case TIR_IF:
        for (uint32_t i = 0; i < op->n_blocks; i++)
            any = any || of[block_yield(op->blocks[i])->args[k]->id];
        return any || (op->op == TIR_FOR && of[op->args[loop_first_initial(op) + k]->id]);
    default:
        if (tir_combines(op)) /* rows to truths: with the vote over them */
            return op->results[k]->type.dtype == DT_BOOL && op->results[k]->type.rank > 0 &&
                   of[op->args[0]->id];
        for (uint32_t i = 0; i < op->n_args; i++)
            any = any || of[op->args[i]->id];
        return any;
    }
}

static void
mark_made(const TirBlock *block, bool *of)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; op->op == TIR_FOR && k < op->n_results; k++)
            of[op->blocks[0]->params.at[k + 1]->id] = of[op->args[loop_first_initial(op) + k]->id];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            mark_made(op->blocks[k], of);
        for (uint32_t k = 0; k < op->n_results; k++)
            of[op->results[k]->id] = of[op->results[k]->id] || is_made_of(of, op, k);
    }
}

/* Whether an operation could be done ahead, behind the product: arithmetic in f32 on what is there
 * then, or the load of a vector. */
static bool
may_be_ahead(const TirBlock *body, const TirOp *op, const bool *there)
{
    bool may = op->op == TIR_LOAD
                   ? op->results[0]->type.rank == 1
                   : (tir_op_info(op->op)->flags & TF_PURE) != 0 && op->n_blocks == 0 &&
                         op->n_results == 1 && op->results[0]->type.dtype == DT_F32;

    for (uint32_t k = 0; k < op->n_args && op->op != TIR_LOAD; k++)
        may = may && (op->args[k]->block != body || there[op->args[k]->id]);
    return may;
}

/* Whether nothing but the product reads this consumer's part. */
static bool
is_alone(const TirFn *fn, const Lookahead *lookahead)
{
    bool alone = true;

    for (uint32_t k = 0; k < lookahead->needs.n; k++) {
        const TirOp *op = lookahead->needs.at[k];
        if (op->op == TIR_OWN || op->op == TIR_TRANSPOSE)
            alone = alone && count_uses(fn, op->results[0]) == 1;
    }
    return alone;
}

/* Whether the segments of a loop differ in masks: what they are made of is the iteration's
 * number. */
static bool
has_masks(const TirBlock *body)
{
    bool any = false;

    for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);)
        any = any || walk.op->op == TIR_MASK;
    return any;
}

/* Lists the front: what could be done ahead and is made of the product's result, with what it needs
 * for that. */
static void
list_front(const TirFn *fn, const TirBlock *body, Lookahead *lookahead)
{
    bool *there = arena_array(fn->arena, bool, fn->next_id + 1);
    bool *wanted = arena_array(fn->arena, bool, fn->next_id + 1);
    const TirVal *result = lookahead->mma->results[0];

    for (uint32_t k = 0; k < lookahead->needs.n; k++)
        there[lookahead->needs.at[k]->results[0]->id] = true;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA && op->op != TIR_YIELD && may_be_ahead(body, op, there))
            there[op->results[0]->id] = true;
    }
    for (uint32_t i = body->ops.n; i-- > 0;) {
        const TirOp *op = body->ops.at[i];
        uint32_t id = op->n_results == 1 ? op->results[0]->id : 0;
        if (op->n_results != 1 || !there[id] || op == lookahead->mma ||
            !(wanted[id] || lookahead->of[id]))
            continue;
        wanted[id] = true;
        for (uint32_t k = 0; k < op->n_args && op->op != TIR_LOAD; k++)
            wanted[op->args[k]->id] = true;
    }
    for (uint32_t k = 0; k < lookahead->needs.n; k++)
        wanted[lookahead->needs.at[k]->results[0]->id] = false;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (op->n_results == 1 && there[op->results[0]->id] && wanted[op->results[0]->id])
            vec_push(fn->arena, &lookahead->front, op);
    }
    /* of the product and the front: what anything behind asks for */
    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        TirVal *value = op->n_results == 1 ? op->results[0] : NULL;
        bool asked = false;
        if (value == NULL || (value != result && (!wanted[value->id] || !lookahead->of[value->id])))
            continue;
        for (uint32_t k = 0; k < body->ops.n; k++) {
            const TirOp *other = body->ops.at[k];
            bool ahead = other->n_results == 1 && wanted[other->results[0]->id];
            asked = asked || (!ahead && op_uses_deep(other, value));
        }
        if (asked)
            vec_push(fn->arena, &lookahead->made, value);
    }
}

bool
lookahead_is_asked(const Lookahead *lookahead, const TirOp *op)
{
    bool asked = false;

    if (op->op == TIR_FROM && op->integer > 0) /* with the first one it has been written for all */
        return false;
    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);)
        asked = asked || lookahead->of[reads.value->id];
    return asked;
}

bool
lookahead_find(const TirFn *fn, const TirBlock *body, Lookahead *lookahead)
{
    Arena *arena = fn->arena;

    *lookahead = (Lookahead){0};
    for (uint32_t i = 0; i < body->ops.n && lookahead->mma == NULL; i++) {
        if (body->ops.at[i]->op == TIR_MMA)
            lookahead->mma = body->ops.at[i];
    }
    TirOp *mma = lookahead->mma;
    if (mma == NULL || mma->coop_k || !tir_is_zero(mma->args[2]) ||
        !list_operand(arena, body, mma->args[0], lookahead) ||
        !list_operand(arena, body, mma->args[1], lookahead) || lookahead->load == NULL)
        return false;
    if (mma->args[2]->block == body)
        vec_push(arena, &lookahead->needs, mma->args[2]->def);
    vec_push(arena, &lookahead->needs, mma);
    lookahead->of = arena_array(arena, bool, fn->next_id + 1);
    lookahead->of[mma->results[0]->id] = lookahead->of[lookahead->load->results[0]->id] = true;
    mark_made(body, lookahead->of);
    if (lookahead->load->op == TIR_OWN && !is_alone(fn, lookahead))
        return false;
    if (lookahead->load->op == TIR_OWN && !has_masks(body))
        list_front(fn, body, lookahead);
    if (lookahead->front.n == 0)
        vec_push(arena, &lookahead->made, mma->results[0]);
    return !lookahead_is_asked(lookahead, block_yield(body));
}

/* Elements of what is there beside the sums when the product of the next iteration runs: the share
 * of a cooperative-K product, and what was exchanged for that, which others still read; of
 * consumers that divide tiles, a result that is added to memory. */
static int64_t
elements_behind(const TirBlock *body, const TirOp *op, uint32_t consumers, bool divided)
{
    if (op->op != TIR_MMA)
        return 0;
    if (divided)
        return plan_only_addition(body, op->results[0]) != NULL
                   ? tir_type_elements(op->results[0]->type)
                   : 0;
    if (!op->coop_k)
        return 0;
    CoopKShare share = coop_k_share(op->results[0]->type, consumers);
    return share.rows * share.cols + tir_type_elements(op->args[0]->type) / 2;
}

/* Registers of a thread, at least, while the product runs or its result is used: sums that live
 * over iterations, its own result or, if that is more, tiles computed of results that several
 * operations use (the first of them takes its place), and what else is there. */
static int64_t
registers_with_lookahead(const TirFn *fn, const TirOp *loop, const TirOp *mma, uint32_t consumers,
                         bool divided)
{
    int64_t own = tir_type_elements(mma->results[0]->type), kept = 0, others = 0;

    for (uint32_t k = 0; k < loop->n_results; k++) {
        if (loop->results[k]->type.rank == 2)
            others += tir_type_elements(loop->results[k]->type);
    }
    for (uint32_t i = 0; i < loop->blocks[0]->ops.n; i++) {
        const TirOp *op = loop->blocks[0]->ops.at[i];
        others += elements_behind(loop->blocks[0], op, consumers, divided);
        if (op->n_results == 1 && (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0 &&
            op->op != TIR_BOUNDS_MASK && op->results[0]->type.rank == 2 &&
            op->results[0]->type.dtype == DT_F32 && count_uses(fn, op->results[0]) > 1)
            kept += tir_type_elements(op->results[0]->type);
    }
    return ((kept > own ? kept : own) + others) / GROUP_LANES + BESIDE_SUMS;
}

/* Takes away from `clean` the segments in which some mask of `block` lives. */
static uint32_t
without_masks(const TirBlock *block, uint32_t clean)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (tir_is_mask(walk.op))
            clean &= ~walk.op->segments;
    }
    return clean;
}

uint32_t
plan_clean_segments(const TirOp *loop)
{
    if (loop->n_segments < 2)
        return 0;
    return without_masks(loop->blocks[0], ((uint32_t)1 << loop->n_segments) - 1);
}

/* How many stages the tile that the product reads has: `stages`, as the others, or more where
 * consumers divide tiles. */
static uint32_t
stages_of_load(const TirOp *load, uint32_t stages)
{
    for (uint32_t k = 0; load->op == TIR_OWN && k < load->n_args; k++) {
        uint32_t of_part = load->args[k]->def->shared->stages;
        stages = k == 0 || of_part < stages ? of_part : stages;
    }
    return stages;
}

bool
plan_has_lookahead(const PassContext *px, const TirFn *fn, const TirOp *loop, uint32_t stages)
{
    const PlanHints *hints = &px->plan;
    const TirBlock *body = loop->blocks[0];
    bool coop_k = false, parts = plan_clean_segments(loop) != 0;
    Lookahead lookahead;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        coop_k = coop_k || (body->ops.at[i]->op == TIR_MMA && body->ops.at[i]->coop_k);
        const TirOp *op = body->ops.at[i];
        if ((op->op == TIR_MASK && !parts) ||
            (op->op == TIR_CAST && op->results[0]->type.rank == 2 &&
             op->args[0]->type.dtype == DT_I32))
            return false;
        /* what the consumers copy themselves begins behind the first product */
        if (op->op == TIR_LOAD && op->results[0]->type.rank == 1 && !fits_vector_box(op))
            return false;
    }
    if (!coop_k || !hints->pipelined || !switch_is_on(px, "pipeline") ||
        !lookahead_find(fn, body, &lookahead) || stages_of_load(lookahead.load, stages) < 2)
        return false;
    return registers_with_lookahead(fn, loop, lookahead.mma, hints->consumers, hints->cooperative) <
           (int64_t)px->target->role_registers[hints->consumers].consumer;
}
