/* roles_pipelined.c - the steps of a main loop pipelined by one stage: products of stage 1 of an iteration run while the
 * arithmetic of the next one does (roles.c shows the order).  Operations of a stage go in the order in which they stand
 * in the body, which pass `stages` gives them.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/op_units.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/tir_util.h"

static void
add_crossing(Roles *r, const TirOp *op, ValueList *crossing)
{
    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);) {
        if (reads.value->block == r->body && !r->stage1[reads.value->id] &&
            !roles_is_remade(r, reads.value) && !roles_listed(crossing, reads.value))
            vec_push(r->fn->arena, crossing, reads.value);
    }
}

/* Stage 1 as far as its products, or what is made of their results (`closing`); returns its last product. */
static TirOp *
add_late(Roles *r, StepList *steps, bool closing)
{
    TirOp *last = NULL;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (!roles_in_stage1(r, op) || roles_is_closing(r, op) != closing)
            continue;
        roles_add_step(r, steps, STEP_OP, op, 1);
        last = op->op == TIR_MMA ? op : last;
    }
    return last;
}

/* A step of some parts of the loop alone. */
static void
add_step_in(Roles *r, StepList *steps, StepParts parts, StepKind kind, int8_t stage)
{
    roles_add_step(r, steps, kind, NULL, stage);
    steps->at[steps->n - 1].parts = parts;
}

/* Products of stage 0, under them those of stage 1, and the wait for the former; returns the last of stage 1. */
static TirOp *
add_mmas(Roles *r, StepList *steps, uint32_t last)
{
    bool first = true;

    add_step_in(r, steps, STEP_TAIL, STEP_GIVE_BACK, 1);
    for (uint32_t i = 0; i <= last; i++) {
        TirOp *op = r->body->ops.at[i];
        if (roles_in_stage1(r, op))
            continue;
        if (op->op == TIR_MMA && first) {
            add_step_in(r, steps, STEP_HEAD, STEP_DELAY, 0);
            if (r->pingpong)
                roles_add_plain(r, steps, TIR_PINGPONG_WAIT, STEP_STEADY);
            first = false;
        }
        roles_add_step(r, steps, STEP_OP, op, 0);
    }
    TirOp *late = add_late(r, steps, false);
    if (r->pingpong)
        roles_add_plain(r, steps, TIR_PINGPONG_ARRIVE, STEP_STEADY);
    /* under the first product: it may have to wait */
    add_step_in(r, steps, STEP_HEAD, STEP_GIVE_BACK_DEFERRED, 0);
    roles_add_step(r, steps, STEP_WAIT, r->body->ops.at[last], 0);
    return late;
}

/* A statistic, or a branch that gives some. */
static bool
is_statistic(const TirOp *op)
{
    return tir_axis_use(op) == AXIS_REDUCES ||
           (op->op == TIR_IF && op->n_results > 0 && op->results[0]->type.rank == 1);
}

/* Gives back, behind what makes `pin`, if not NULL, the pipelines of `held` that no arithmetic of the stage reads from place
 * `from` of the body on (of stage 1 behind its products), and takes them out of it. */
static void
release_unread(Roles *r, StepList *steps, OpList *held, uint32_t from, TirVal *pin, int8_t stage)
{
    OpList unread = {0};
    uint32_t left = 0;

    for (uint32_t k = 0; k < held->n; k++) {
        TirOp *load = held->at[k];
        bool read = false;
        for (uint32_t i = from; i < r->body->ops.n && !read; i++) {
            const TirOp *op = r->body->ops.at[i];
            bool comes = stage > 0 ? roles_is_closing(r, op) : !roles_in_stage1(r, op);
            read = comes && op->op != TIR_MMA && roles_reads_load(op, load);
        }
        if (read)
            held->at[left++] = load;
        else
            vec_push(r->fn->arena, &unread, load);
    }
    held->n = left;
    roles_add_releases(r, steps, &unread, pin, stage);
}

/* Pipelines of products of stage 0 are released when the statistics are there that the long arithmetic needs: an
 * operation that the machine keeps in order with the wait for the products of stage 1, which would rise
 * above all arithmetic otherwise. */
static Staged
pipelined_steps(Roles *r)
{
    Staged staged = {.later = r->stage1};
    uint32_t last = roles_last_first_mma(r);
    TirVal *pin = NULL;
    OpList held[2] = {{0}, {0}};
    bool released = false;
    TirOp *late = add_mmas(r, &staged.steps, last);

    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++)
        vec_push(r->fn->arena, &held[0], r->stage0_pipelines.at[k]);
    for (uint32_t k = 0; k < r->stage1_pipelines.n; k++)
        vec_push(r->fn->arena, &held[1], r->stage1_pipelines.at[k]);
    for (uint32_t i = last + 1; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_YIELD || roles_in_stage1(r, op))
            continue;
        released = released || (op_use(op).unit == UNIT_MUFU && op->results[0]->type.rank == 2);
        if (released)
            release_unread(r, &staged.steps, &held[0], i, pin, 0);
        roles_add_step(r, &staged.steps, STEP_OP, op, 0);
        pin = is_statistic(op) ? op->results[0] : pin;
    }
    release_unread(r, &staged.steps, &held[0], r->body->ops.n, pin, 0);
    add_step_in(r, &staged.steps, STEP_TAIL, STEP_UNDER, 1);
    roles_add_step(r, &staged.steps, STEP_WAIT, late, 1);
    release_unread(r, &staged.steps, &held[1], 0, NULL, 1);
    add_late(r, &staged.steps, true);
    release_unread(r, &staged.steps, &held[1], r->body->ops.n, NULL, 1);
    return staged;
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
        r->vectors.n = 0;
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
            clocks += 2 * elements * op->args[0]->type.dim[1] /
                      target_mma_flops(target, product_form(target, op));
        else
            clocks += op_use(op).mufu * elements / target->chip.special_ops;
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
    uint32_t most = plan->tiles.axis < r->fn->grid.n
                        ? r->fn->grid.at[plan->tiles.axis].sliding_trips
                        : 0;

    if (tir_is_persistent(plan) && r->around.n == 0 && most > 0 && most <= SHORT_TILE &&
        switch_is_on(r->px, "next-tile"))
        roles_plain(&r->b, TIR_NEXT_TILE, NULL, 0);
}

/* What is computed under the last products of the loop, which ends at `end`, and is wanted behind it, to `values`;
 * how many. */
static uint32_t
emit_under(Roles *r, const CloneMap *map, TirVal *end, TirVal **values)
{
    roles_emit_behind(r, map, values);
    if (counts_rest(r))
        values[r->left.n] = roles_begin_rest(r, end, true);
    ask_for_next(r);
    return r->left.n + counts_rest(r);
}

/* The branch around the loop: whether it is pipelined. */
static TirOp *
begin_branch(Roles *r, const CloneMap *map, Range range)
{
    Arena *arena = r->fn->arena;
    VEC(TirType) types = {0};

    for (uint32_t k = 0; k < r->loop->n_results; k++)
        vec_push(arena, &types, r->loop->results[k]->type);
    for (uint32_t k = 0; k < r->left.n; k++)
        vec_push(arena, &types, r->left.at[k]->type);
    if (counts_rest(r))
        vec_push(arena, &types, tir_scalar(DT_I32));
    TirVal *least = r->clean_head ? clone_of(map, r->loop->args[2]) : range.hi;
    return tir_if(&r->b, tir_binary(&r->b, TIR_LT, range.lo, least), types.n, types.at);
}

void
roles_pipelined(Roles *r, CloneMap *map, Range range)
{
    uint32_t n = r->loop->n_results;
    TirBlock *around = r->b.block;

    roles_find_behind(r);
    r->once_given_back = roles_reads_once_in_stage0(r);
    TirOp *branch = begin_branch(r, map, range);
    TirVal **values = arena_array(r->fn->arena, TirVal *, branch->n_results + 1);
    emit_others(r, map, range, branch, values);
    r->b.block = branch->blocks[0];
    if (r->staggers)
        stagger(r, range);
    for (uint32_t k = 0; k < n; k++)
        values[k] = clone_of(map, r->loop->args[loop_first_initial(r->loop) + k]);
    Staged staged = pipelined_steps(r);
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        if (roles_in_stage1(r, r->body->ops.at[i]))
            add_crossing(r, r->body->ops.at[i], &staged.crossing);
    }
    staged.under = values + n;
    staged.emit_under = emit_under;
    roles_emit_staged(r, map, range, &staged, values);
    tir_yield(&r->b, branch->n_results, values);
    r->b.block = around;
    for (uint32_t k = 0; k < n; k++)
        clone_set(map, r->loop->results[k], branch->results[k]);
    for (uint32_t k = 0; k < r->left.n; k++)
        clone_set(map, r->left.at[k], branch->results[n + k]);
    r->n_drained = counts_rest(r) ? branch->results[n + r->left.n] : NULL;
}
