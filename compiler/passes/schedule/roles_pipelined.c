/* roles_pipelined.c - the main loop pipelined by one stage: products of stage 1 of an iteration run while the
 * arithmetic of the next one does (roles.c shows the order).
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

bool
roles_is_remade(const Roles *r, const TirVal *value)
{
    const TirOp *def = value->def;

    if (value->block != r->body)
        return true;
    if (def == NULL)
        return value == r->body->params.at[0];
    if ((tir_op_info(def->op)->flags & TF_PURE) == 0 || def->op == TIR_MMA ||
        def->op == TIR_REDUCE || def->n_blocks > 0)
        return false;
    for (uint32_t k = 0; k < def->n_args; k++) {
        if (!roles_is_remade(r, def->args[k]))
            return false;
    }
    return true;
}

void
roles_remake(Roles *r, CloneMap *map, TirVal *value)
{
    if (value->block != r->body || value->def == NULL || map->to[value->id] != NULL)
        return;
    for (uint32_t k = 0; k < value->def->n_args; k++)
        roles_remake(r, map, value->def->args[k]);
    clone_op(&r->b, map, value->def)->segments = UINT32_MAX;
}

static void
add_crossing(Roles *r, const TirOp *op, ValueList *crossing)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        TirVal *value = op->args[k];
        if (value->block == r->body && !r->stage1[value->id] && !roles_is_remade(r, value) &&
            !roles_listed(crossing, value))
            vec_push(r->fn->arena, crossing, value);
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++)
            add_crossing(r, op->blocks[k]->ops.at[i], crossing);
    }
}

static void
remake_inputs(Roles *r, CloneMap *map, const TirOp *op)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (!r->stage1[op->args[k]->id] && roles_is_remade(r, op->args[k]))
            roles_remake(r, map, op->args[k]);
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++)
            remake_inputs(r, map, op->blocks[k]->ops.at[i]);
    }
}

/* Stage 1 as far as its products, or what is made of their results (`closing`); returns how many
 * products it starts. */
static uint32_t
emit_late(Roles *r, CloneMap *map, bool closing)
{
    uint32_t mmas = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (!roles_in_stage1(r, op) || roles_is_closing(r, op) != closing)
            continue;
        remake_inputs(r, map, op);
        roles_copy(r, map, op, true);
        mmas += op->op == TIR_MMA;
    }
    return mmas;
}

static bool
is_exponential(const TirOp *op)
{
    return op->op == TIR_EXP || op->op == TIR_EXP2 || op->op == TIR_TANH || op->op == TIR_LOG ||
           op->op == TIR_LOG2 || op->op == TIR_SIN || op->op == TIR_COS;
}

/* The order of stage 0: what stands before the last product and does not come from one, the
 * products; then the rest.  Returns the place of the last product. */
static uint32_t
order_early(Roles *r, OpList *out)
{
    uint32_t last = 0, at = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        if (r->body->ops.at[i]->op == TIR_MMA && !roles_in_stage1(r, r->body->ops.at[i]))
            last = i;
    }
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < r->body->ops.n; i++) {
            TirOp *op = r->body->ops.at[i];
            bool first = i <= last && op->n_results > 0 &&
                         (op->op == TIR_MMA || r->level[op->results[0]->id] == 0);
            if (op->op == TIR_YIELD || roles_in_stage1(r, op) || first != (round == 0))
                continue;
            if (i == last)
                at = out->n;
            vec_push(r->fn->arena, out, op);
        }
    }
    return at;
}

/* Stage 0, with the late one of `before` (NULL: none) behind its products.  Pipelines of products of stage 0
 * are released when the statistics are there that the long arithmetic needs: an
 * operation that the machine keeps in order with the wait for the products of stage 1, which would rise
 * above all arithmetic otherwise. */
static void
emit_early(Roles *r, CloneMap *map, CloneMap *before, bool all_masks)
{
    OpList order = {0};
    uint32_t last = order_early(r, &order), mmas = 0;
    bool released = false, taken = false;
    TirVal *pin = NULL;

    for (uint32_t i = 0; i < order.n; i++) {
        const TirOp *op = order.at[i];
        if (i > last && !released && is_exponential(op) && op->results[0]->type.rank == 2) {
            roles_release(&r->b, &r->stage0_pipelines, pin);
            released = true;
        }
        if (op->op == TIR_MMA && before == NULL && r->delay != NULL) {
            tir_op_new(&r->b, TIR_DELAY, 1, &r->delay, 0, NULL);
            r->delay = NULL;
        }
        if (op->op == TIR_MMA && before != NULL && !taken && r->fn->plan->pingpong) {
            roles_plain(&r->b, TIR_PINGPONG_WAIT, NULL, 0);
            taken = true;
        }
        if (before != NULL || !roles_test_mask(r, map, op))
            roles_copy(r, map, op, all_masks);
        if (i > last && op->op == TIR_REDUCE)
            pin = clone_of(map, op->results[0]);
        if (i > last && op->op == TIR_IF && op->n_results > 0 && op->results[0]->type.rank == 1)
            pin = clone_of(map, op->results[0]);
        if (i != last)
            continue;
        if (before != NULL)
            mmas = emit_late(r, before, false);
        if (taken)
            roles_plain(&r->b, TIR_PINGPONG_ARRIVE, NULL, 0);
        if (before == NULL) /* under the tile's first product: it may have to wait */
            roles_give_back_once(r, true);
        roles_plain(&r->b, TIR_MMA_WAIT, NULL, mmas);
    }
    if (!released)
        roles_release(&r->b, &r->stage0_pipelines, pin);
    if (before != NULL) {
        roles_plain(&r->b, TIR_MMA_WAIT, NULL, 0);
        roles_release(&r->b, &r->stage1_pipelines, NULL);
        emit_late(r, before, true);
    }
}

/* Whether what is left to be drained is found under the last product. */
static bool
counts_rest(const Roles *r)
{
    return r->loop->parent == r->old && roles_has_rest(r);
}

/* What is done when the loop is not pipelined: nothing, or, where that is because its first iteration
 * has masks, the iterations there are, one after the other. */
static void
emit_others(Roles *r, const CloneMap *map, Range range, const TirOp *branch, TirVal **values)
{
    uint32_t first = loop_first_initial(r->loop), n = r->loop->n_results;
    CloneMap own = clone_map_copy(r->fn, map);

    r->b.block = branch->blocks[1];
    for (uint32_t k = 0; k < n; k++)
        values[k] = clone_of(map, r->loop->args[first + k]);
    if (r->clean_head) {
        r->masks = MASKS_ALL;
        roles_in_order(r, &own, range);
        r->masks = MASKS_BY_SEGMENT;
        for (uint32_t k = 0; k < n; k++)
            values[k] = clone_of(&own, r->loop->results[k]);
    }
    for (uint32_t k = 0; k < n; k++)
        clone_set(&own, r->loop->results[k], values[k]);
    roles_emit_behind(r, &own, values + n);
    roles_give_back_once(r, true);
    roles_give_back_once(r, false);
    if (counts_rest(r))
        values[n + r->left.n] = roles_begin_rest(r, range.hi, false);
    tir_yield(&r->b, branch->n_results, values);
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
            const TirOp *def = op->args[k]->def;
            while (def != NULL && def->op == TIR_TRANSPOSE)
                def = def->args[0]->def;
            for (uint32_t j = 0; j < r->once.n; j++) {
                if (r->once.at[j] == def)
                    return false;
            }
        }
    }
    return true;
}

/* About the share that one of four consumers has of an iteration, in clocks: 7/8 of what it asks of the
 * tensor cores and of MUFU. */
static int32_t
consumer_share(const Roles *r)
{
    const Target *target = r->px->target;
    double clocks = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->n_results == 0 || op->results[0]->type.rank != 2)
            continue;
        double elements = (double)op->results[0]->type.dim[0] * op->results[0]->type.dim[1];
        if (op->op == TIR_MMA)
            clocks += 2 * elements * op->args[0]->type.dim[1] / target->chip.mma_flops[target_role_mma(target, DT_BF16)->issuer];
        else if (is_exponential(op))
            clocks += elements / target->chip.special_ops;
    }
    return (int32_t)(clocks * 7 / 8);
}

/* Consumers that begin a tile together, and have no ping-pong, go through it in step: all want the tensor cores
 * at once, then the arithmetic units.  In a tile with many iterations consumer k begins k shares of an
 * iteration later, which costs what the last consumer waits, once. */
static void
stagger(Roles *r, Range range)
{
    /* H200, causal, d = 64, four consumers 448 clocks apart: 1.2 % more at 16k, about what it costs at 64 */
    enum { LONG_TILE = 64 };
    TirType i32 = tir_scalar(DT_I32);
    TirVal *iterations = tir_binary(&r->b, TIR_SUB, range.hi, range.lo);
    TirVal *is_long = tir_binary(&r->b, TIR_GE, iterations, tir_const_int(&r->b, LONG_TILE));
    TirVal *clocks = tir_const_int(&r->b, consumer_share(r)), *none = tir_const_int(&r->b, 0);
    TirVal *share = tir_select(&r->b, is_long, clocks, none);
    TirVal *consumer = tir_op_new(&r->b, TIR_CONSUMER, 0, NULL, 1, &i32)->results[0];

    r->delay = tir_binary(&r->b, TIR_MUL, consumer, share);
}

/* Under the last product a consumer has time to find out about its next tile.  That is worth something in tiles
 * which are short by what the program is, as under a window; others may be of any length, and registers that are
 * kept from tile to tile change how ptxas colours the loop. */
static void
ask_for_next(Roles *r)
{
    enum { SHORT_TILE = 64 }; /* H200, d = 128, window of 1024, 17 iterations: 0.3 to 0.6 % */
    const TirPlan *plan = r->fn->plan;
    uint32_t most = plan->consumer_axis < r->fn->grid.n ? r->fn->grid.at[plan->consumer_axis].sliding_trips : 0;

    if (plan->persistent && r->around.n == 0 && most > 0 && most <= SHORT_TILE && switch_is_on(r->px, "next-tile"))
        roles_plain(&r->b, TIR_NEXT_TILE, NULL, 0);
}

/* What ends the tile: the products that are left, under them what needs them not. */
static void
emit_end(Roles *r, CloneMap *tail, TirVal *end, TirVal **left)
{
    roles_give_back_once(r, false);
    emit_late(r, tail, false);
    roles_emit_behind(r, tail, left);
    if (counts_rest(r))
        left[r->left.n] = roles_begin_rest(r, end, true);
    ask_for_next(r);
    tir_op_new(&r->b, TIR_MMA_WAIT, r->left.n + counts_rest(r), left, 0, NULL);
    roles_release(&r->b, &r->stage1_pipelines, NULL);
    emit_late(r, tail, true);
}

/* What a branch gives on the side where stage 1 does not read it may be anything: it is what
 * it was in the iteration before, which takes no instruction. */
static void
keep_unread(const Roles *r, const CloneMap *now, const TirVal *crossing, TirVal *before)
{
    const TirOp *branch = crossing->def;

    if (branch == NULL || branch->op != TIR_IF || crossing->type.rank > 1)
        return;
    for (uint32_t side = 0; side < 2; side++) {
        if (roles_listed(&r->fillers, block_yield(branch->blocks[side])->args[crossing->index])) {
            const TirOp *copy = clone_of(now, branch->results[crossing->index])->def;
            block_yield(copy->blocks[side])->args[crossing->index] = before;
        }
    }
}

void
roles_pipelined(Roles *r, CloneMap *map, Range range)
{
    Arena *arena = r->fn->arena;
    uint32_t first = loop_first_initial(r->loop), n = r->loop->n_results;
    const TirOp *yield = block_yield(r->body);
    TirBlock *around = r->b.block;
    ValueList crossing = {0};
    VEC(TirType) types = {0};

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        if (roles_in_stage1(r, r->body->ops.at[i]))
            add_crossing(r, r->body->ops.at[i], &crossing);
    }
    for (uint32_t k = 0; k < n; k++) { /* a result of stage 1 that a value of stage 0 is */
        if (r->stage1[r->body->params.at[k + 1]->id] && !r->stage1[yield->args[k]->id] &&
            !roles_listed(&crossing, yield->args[k]))
            vec_push(arena, &crossing, yield->args[k]);
        vec_push(arena, &types, r->loop->results[k]->type);
    }
    roles_find_behind(r);
    for (uint32_t k = 0; k < r->left.n; k++)
        vec_push(arena, &types, r->left.at[k]->type);
    if (counts_rest(r))
        vec_push(arena, &types, tir_scalar(DT_I32));
    r->once_given_back = roles_reads_once_in_stage0(r);
    TirVal *least = r->clean_head ? clone_of(map, r->loop->args[2]) : range.hi;
    TirVal *some = tir_binary(&r->b, TIR_LT, range.lo, least);
    TirOp *branch = tir_if(&r->b, some, types.n, types.at);
    TirVal **values = arena_array(arena, TirVal *, types.n + crossing.n + 1);
    emit_others(r, map, range, branch, values);
    for (uint32_t k = 0; k < n; k++)
        values[k] = clone_of(map, r->loop->args[first + k]);

    /* the first iteration */
    r->b.block = branch->blocks[0];
    CloneMap head = clone_map_copy(r->fn, map);
    TirVal *iteration = roles_iteration(r, &r->b, range.base, range.lo);
    clone_set(&head, r->body->params.at[0], iteration);
    for (uint32_t k = 0; k < n; k++)
        clone_set(&head, r->body->params.at[k + 1], values[k]);
    r->masks = r->clean_head ? MASKS_NONE : MASKS_ALL;
    roles_find_tests(r, map, iteration);
    if (r->staggers)
        stagger(r, range);
    emit_early(r, &head, NULL, true);
    r->masks = MASKS_BY_SEGMENT;
    for (uint32_t k = 0; k < n; k++) {
        if (!r->stage1[r->body->params.at[k + 1]->id])
            values[k] = clone_of(&head, yield->args[k]);
    }
    for (uint32_t k = 0; k < crossing.n; k++)
        values[n + k] = clone_of(&head, crossing.at[k]);

    /* the others */
    TirVal *second = tir_binary(&r->b, TIR_ADD, range.lo, tir_const_int(&r->b, 1));
    Range others = {second, range.hi, range.base};
    TirOp *loop = roles_begin_loop(r, others, n + crossing.n, values, map, second);
    r->b.block = loop->blocks[0];
    const TirBlock *steady = loop->blocks[0];
    CloneMap now = clone_map_copy(r->fn, map), before = clone_map_copy(r->fn, map);
    TirVal *previous = tir_binary(&r->b, TIR_SUB, steady->params.at[0], tir_const_int(&r->b, 1));
    clone_set(&now, r->body->params.at[0],
              roles_iteration(r, &r->b, range.base, steady->params.at[0]));
    clone_set(&before, r->body->params.at[0], roles_iteration(r, &r->b, range.base, previous));
    for (uint32_t k = 1; k <= n; k++) {
        clone_set(&now, r->body->params.at[k], steady->params.at[k]);
        clone_set(&before, r->body->params.at[k], steady->params.at[k]);
    }
    for (uint32_t k = 0; k < crossing.n; k++)
        clone_set(&before, crossing.at[k], steady->params.at[n + 1 + k]);
    emit_early(r, &now, &before, false);
    for (uint32_t k = 0; k < n; k++) {
        bool late = r->stage1[r->body->params.at[k + 1]->id];
        values[k] = clone_of(late ? &before : &now, yield->args[k]);
    }
    for (uint32_t k = 0; k < crossing.n; k++) {
        keep_unread(r, &now, crossing.at[k], steady->params.at[n + 1 + k]);
        values[n + k] = clone_of(&now, crossing.at[k]);
    }
    tir_yield(&r->b, n + crossing.n, values);

    /* what is left of the last one */
    r->b.block = branch->blocks[0];
    CloneMap tail = clone_map_copy(r->fn, map);
    TirVal *last = tir_binary(&r->b, TIR_SUB, range.hi, tir_const_int(&r->b, 1));
    clone_set(&tail, r->body->params.at[0], roles_iteration(r, &r->b, range.base, last));
    for (uint32_t k = 0; k < n; k++)
        clone_set(&tail, r->body->params.at[k + 1], loop->results[k]);
    for (uint32_t k = 0; k < crossing.n; k++)
        clone_set(&tail, crossing.at[k], loop->results[n + k]);
    for (uint32_t k = 0; k < n; k++)
        clone_set(&tail, r->loop->results[k], loop->results[k]);
    emit_end(r, &tail, range.hi, values + n);
    for (uint32_t k = 0; k < n; k++) {
        bool late = r->stage1[r->body->params.at[k + 1]->id];
        values[k] = late ? clone_of(&tail, yield->args[k]) : loop->results[k];
    }
    tir_yield(&r->b, types.n, values);
    r->b.block = around;
    for (uint32_t k = 0; k < n; k++)
        clone_set(map, r->loop->results[k], branch->results[k]);
    for (uint32_t k = 0; k < r->left.n; k++)
        clone_set(map, r->left.at[k], branch->results[n + k]);
    r->n_drained = counts_rest(r) ? branch->results[types.n - 1] : NULL;
}
