/* roles_loop.c - what the main loop is like, as far as several files ask. */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* The loop that has products in its own body, down from `block`; lists the loops around it. */
static TirOp *
find_main_loop(Roles *r, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        if (op->op != TIR_FOR)
            continue;
        if (has_own_mma(op->blocks[0]))
            return op;
        vec_push(r->fn->arena, &r->around, op);
        TirOp *found = find_main_loop(r, op->blocks[0]);
        if (found != NULL)
            return found;
        r->around.n--;
    }
    return NULL;
}

bool
roles_find_loop(Roles *r)
{
    r->loop = find_main_loop(r, r->fn->body);
    if (r->loop == NULL)
        return false;
    r->body = r->loop->blocks[0];
    for (uint32_t i = 0; i < r->body->ops.n; i++)
        r->has_effects = r->has_effects || op_writes_deep(r->body->ops.at[i]);
    if (!tir_has_issuer(r->fn->plan))
        return true;
    r->graph = arena_new(r->fn->arena, Graph);
    *r->graph = plan_issue(r->px->target, r->fn, r->loop, tir_consumers(r->fn->plan));
    /* one that is none is of text: roles_begin_issue says why */
    r->mmas = r->graph->as == BY_CONSUMERS ? AS_GRAPH : r->graph->as;
    return true;
}

bool
roles_begins_with_copy(const Roles *r, const TirOp *mma)
{
    uint32_t users = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++)
        users += op_uses_deep(r->body->ops.at[i], mma->args[2]);
    return users > 1;
}

/* Whether a scalar depends on the index of the consumer axis. */
bool
roles_depends_on_consumer(const Roles *r, const TirVal *value)
{
    const TirPlan *plan = r->fn->plan;

    for (TirInputs in = tir_inputs(r->fn->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        if (def == NULL || plan_is_block_index(def, plan->tiles.axis, tir_programs(plan)))
            continue;
        if (def->op == TIR_CONSUMER ||
            (def->op == TIR_GRID && def->integer == (int64_t)plan->tiles.axis))
            return true;
        tir_inputs_follow(&in);
    }
    return false;
}

void
roles_visit_masks(const Roles *r, const TirBlock *block, bool turn, bool *first, bool *last)
{
    uint32_t n = r->loop->n_segments;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        TirOp *op = walk.op;
        if (!tir_is_mask(op))
            continue;
        uint32_t turned = 0;
        for (uint32_t k = 0; k < n; k++)
            turned |= (op->segments >> k & 1) << (n - 1 - k);
        *first |= (op->segments & 1) != 0;
        *last |= (op->segments >> (n - 1) & 1) != 0;
        if (turn)
            op->segments = turned;
    }
}

bool
roles_listed(const ValueList *list, const TirVal *value)
{
    for (uint32_t k = 0; k < list->n; k++) {
        if (list->at[k] == value)
            return true;
    }
    return false;
}

bool
roles_lists(const OpList *list, const TirOp *op)
{
    for (uint32_t k = 0; k < list->n; k++) {
        if (list->at[k] == op)
            return true;
    }
    return false;
}

bool
roles_in_stage1(const Roles *r, const TirOp *op)
{
    return op->n_results > 0 && r->stage1[op->results[0]->id];
}

static int8_t
top(int8_t a, int8_t b)
{
    return a > b ? a : b;
}

/* Whether another round may find more. */
static bool
mark_body(Roles *r)
{
    const TirBlock *body = r->body;
    bool news = false;

    for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        int8_t level = 0;
        bool late = false;
        for (uint32_t k = 0; k < op->n_args; k++) {
            late = late || r->stage1[op->args[k]->id];
            if (op->op != TIR_MMA || k < 2)
                level = top(level, r->level[op->args[k]->id]);
        }
        if (op->op == TIR_MMA) {
            late = late || level > 0;
            level++;
        }
        for (uint32_t k = 0; k < op->n_results; k++) {
            int8_t deep = level;
            bool in_stage1 = late;
            for (uint32_t j = 0; j < op->n_blocks; j++) {
                const TirVal *yielded = block_yield(op->blocks[j])->args[k];
                deep = top(deep, r->level[yielded->id]);
                in_stage1 = in_stage1 || r->stage1[yielded->id];
            }
            const TirVal *result = op->results[k];
            news |= deep > r->level[result->id] || (in_stage1 && !r->stage1[result->id]);
            r->level[result->id] = top(r->level[result->id], deep);
            r->stage1[result->id] |= in_stage1;
        }
    }
    for (uint32_t k = 1; k < body->params.n; k++) {
        const TirVal *param = body->params.at[k];
        bool in_stage1 = r->stage1[block_yield(body)->args[k - 1]->id];
        news |= in_stage1 && !r->stage1[param->id];
        r->stage1[param->id] |= in_stage1;
    }
    return news;
}

void
roles_mark(Roles *r)
{
    r->stage1 = arena_array(r->fn->arena, bool, r->fn->next_id + 1);
    r->level = arena_array(r->fn->arena, int8_t, r->fn->next_id + 1);
    while (mark_body(r))
        ;
}

bool
roles_is_closing(const Roles *r, const TirOp *op)
{
    return op->n_results > 0 && r->closing[op->results[0]->id];
}

uint32_t
roles_last_first_mma(const Roles *r)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        if (r->body->ops.at[i]->op == TIR_MMA && !roles_in_stage1(r, r->body->ops.at[i]))
            last = i;
    }
    return last;
}

/* Then they are given back before it, and the next tile's loads run under the last products. */
bool
roles_reads_once_in_stage0(const Roles *r)
{
    if (r->loop->parent != r->old)
        return false;
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        for (uint32_t k = 0; roles_in_stage1(r, op) && k < op->n_args; k++) {
            const TirOp *def = tir_untransposed(op->args[k])->def;
            for (uint32_t j = 0; j < r->once.n; j++) {
                if (r->once.at[j] == def)
                    return false;
            }
        }
    }
    return true;
}

/* Whether nothing but products of the main loop reads the tile, or what it is turned or parted
 * to. */
static bool
is_for_products_in(const Roles *r, const TirVal *tile)
{
    uint32_t others = count_uses(r->fn, tile) - count_uses_in(r->body, tile);

    for (TirWalk walk = tir_walk(r->old); tir_walk_next(&walk) && others > 0;) {
        bool view = walk.op->op == TIR_TRANSPOSE || walk.op->op == TIR_PART;
        if (view && walk.op->args[0] == tile && walk.op->parent != r->body &&
            is_for_products_in(r, walk.op->results[0]))
            others--;
    }
    return others == 0;
}

/* Whether the program's place in the grid decides if the main loop has an iteration.  (Bounds that
 * memory holds would be waited for first, and those of a loop around differ between its
 * iterations.) */
static bool
may_be_empty(const Roles *r)
{
    bool placed = false;

    for (uint32_t k = 0; k < 2; k++) {
        for (TirInputs in = tir_inputs(r->fn->arena, r->loop->args[k]); tir_inputs_next(&in);) {
            const TirOp *def = in.value->def;
            if (def == NULL || def->op == TIR_LOAD)
                return false;
            placed = placed || def->op == TIR_GRID || def->op == TIR_GRID_FIRST;
            tir_inputs_follow(&in);
        }
    }
    return placed;
}

bool
roles_is_for_loop(const Roles *r, const TirOp *load)
{
    /* of a pair the first block waits for the bytes of both: without any it would run ahead of the
     * second one */
    return !tir_multiplies_in_pairs(r->fn->plan) && load->shared->kind == SHARED_PIPELINE &&
           load->n_limits == 0 && may_be_empty(r) && is_for_products_in(r, load->results[0]);
}
