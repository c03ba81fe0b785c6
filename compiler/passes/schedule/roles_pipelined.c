/* roles_pipelined.c - the steps of a main loop pipelined by one stage: products of stage 1 of an iteration run while the
 * arithmetic of the next one does (roles.c shows the order).  Operations of a stage go in the order in which they stand
 * in the body, which pass `stages` gives them.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/op_units.h"
#include "compiler/ir/tir_walk.h"
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
            if (r->staggers)
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

/* Whether what is left to be drained is found under the last product. */
static bool
counts_rest(const Roles *r)
{
    return r->loop->parent == r->old && roles_has_rest(r);
}

/* Under the last product a consumer has time to find out about its next tile.  That is worth something in tiles
 * which are short by what the program is, as under a window; others may be of any length, and registers that are
 * kept from tile to tile change how ptxas colours the loop. */
static bool
asks_for_next(const Roles *r)
{
    enum { SHORT_TILE = 64 }; /* H200, d = 128, window of 1024, 17 iterations: 0.3 to 0.6 % */
    const TirPlan *plan = r->fn->plan;
    uint32_t most = plan->tiles.axis < r->fn->grid.n
                        ? r->fn->grid.at[plan->tiles.axis].sliding_trips
                        : 0;

    return tir_is_persistent(plan) && r->around.n == 0 && most > 0 && most <= SHORT_TILE &&
           switch_is_on(r->px, "next-tile");
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
    add_step_in(r, &staged.steps, STEP_TAIL | STEP_NONE, STEP_BEHIND, 1);
    add_step_in(r, &staged.steps, STEP_NONE, STEP_GIVE_BACK_DEFERRED, 1);
    add_step_in(r, &staged.steps, STEP_NONE, STEP_GIVE_BACK, 1);
    if (counts_rest(r))
        add_step_in(r, &staged.steps, STEP_TAIL | STEP_NONE, STEP_REST, 1);
    if (asks_for_next(r)) {
        add_step_in(r, &staged.steps, STEP_TAIL, STEP_PLAIN, 1);
        staged.steps.at[staged.steps.n - 1].opcode = TIR_NEXT_TILE;
    }
    roles_add_step(r, &staged.steps, STEP_WAIT, late, 1);
    release_unread(r, &staged.steps, &held[1], 0, NULL, 1);
    add_late(r, &staged.steps, true);
    release_unread(r, &staged.steps, &held[1], r->body->ops.n, NULL, 1);
    return staged;
}

/* Where its first iteration has masks: the iterations one after the other. */
static void
masked_loop(Roles *r, CloneMap *map, Range range)
{
    r->masks = MASKS_ALL;
    roles_in_order(r, map, range);
    r->masks = MASKS_BY_SEGMENT;
    r->vectors.n = 0;
}

void
roles_pipelined(Roles *r, CloneMap *map, Range range)
{
    Arena *arena = r->fn->arena;
    uint32_t n = r->loop->n_results;

    roles_find_behind(r);
    r->once_given_back = roles_reads_once_in_stage0(r);
    Staged staged = pipelined_steps(r);
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        if (roles_in_stage1(r, r->body->ops.at[i]))
            add_crossing(r, r->body->ops.at[i], &staged.crossing);
    }
    for (uint32_t k = 0; k < r->left.n; k++)
        vec_push(arena, &staged.more, r->left.at[k]->type);
    if (counts_rest(r))
        vec_push(arena, &staged.more, tir_scalar(DT_I32));
    if (r->clean_head) {
        staged.least = clone_of(map, r->loop->args[2]);
        staged.otherwise = masked_loop;
    }
    TirVal **values = roles_initial(r, map, staged.more.n);
    roles_emit_if_any(r, map, range, &staged, values);
    for (uint32_t k = 0; k < n; k++)
        clone_set(map, r->loop->results[k], values[k]);
    for (uint32_t k = 0; k < r->left.n; k++)
        clone_set(map, r->left.at[k], values[n + k]);
    r->n_drained = counts_rest(r) ? values[n + r->left.n] : NULL;
}
