/* roles.c - a planned kernel becomes a producer and the program of the computing warp groups.
 *
 *   level    tile IR with a plan and the stages of its main loop (passes `plan`, `stages`)
 *   does     replaces loads by waits for pipelines and reads of them, and writes the producer,
 *            which fills the pipelines (roles_order.c: in which order).  One file lists the steps
 *            of an iteration: operations in order, waits and releases (roles_list.c); roles_steps.c
 *            writes the loop from them.  Of a loop with two stages:
 *
 *                first iteration: products of stage 0, arithmetic
 *                for ..  { products of stage 0; products of stage 1 of the iteration before;
 *                arithmetic } products of stage 1 of the last iteration
 *
 *            The first iteration is simpler than the others (roles_first.c), and what only needs
 *            results of stage 0 is computed under the last products (roles_behind.c). What a loop
 *            leaves that only adds products up goes to memory through shared memory (roles_store.c)
 *   leaves   the producer's program; a body without loads of products; the reduce role
 *            (roles_reduce.c); where products have results in tensor memory the mma role
 *            (roles_issue.c), and a body without products (roles_issued.c)
 *
 * Consumers may differ in how many iterations they have.  The producer copies for all of them, and
 * a consumer drains the stages that it does not need: it waits for them and releases them unread
 * (roles_drain.c).  A consumer past the end of its grid axis does nothing; with a reversed raster
 * neither does one before its start.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"
#include "compiler/passes/util/unread.h"

/* The main loop, with what each consumer lets pass before and behind it. */
static void
emit_main_loop(Roles *r, CloneMap *map, TirVal *own, TirVal *there)
{
    TirPlan *plan = r->fn->plan;
    /* The bounds of the main loop again, from readings of the grid that do nothing else. */
    CloneMap uniform = roles_uniform_map(r, NULL);
    for (uint32_t k = 0; k < loop_first_initial(r->loop); k++) {
        TirVal *bound = clone_scalar_tree(&r->b, &uniform, r->loop->args[k]);
        if (bound != NULL)
            clone_set(map, r->loop->args[k], bound);
    }
    if (r->span_all &&
        !tir_adds_in_pairs(plan)) /* else of other blocks no instruction hangs on it */
        roles_share_segments(r, map, own);
    Range range = {clone_of(map, r->loop->args[0]), clone_of(map, r->loop->args[1]), NULL};
    if (r->bounds_differ) {
        TirVal *first_lo;
        Range all = roles_block_range(r, r->loop, roles_block_index(r, own), &first_lo);
        range = r->span_all ? all : roles_own_range(r, range, there, first_lo);
        if (tir_multiplies_in_pairs(plan))
            r->issued = roles_consumer_range(r, r->loop, own, first_lo);
        range = roles_numbers(r, range, all);
        if (r->mmas != BY_CONSUMERS) /* the mma role reads the tiles */
            ;
        else if (r->backwards)
            roles_drain_range(r, tir_const_int(&r->b, 0), range.lo);
        else if (!roles_is_same(all.lo, range.lo) && !r->span_all)
            roles_drain_range(r, all.lo, range.lo);
        /* Loading bounds once more waits for memory, and a loop that only adds products up leaves
         * registers. */
        if (!r->span_all && !r->backwards && tir_is_loaded(r->fn->arena, all.hi) &&
            roles_accumulates_only(r))
            r->rest = (Range){range.hi, all.hi, NULL};
    } else {
        range = roles_numbers(r, range, range);
    }
    if (r->loop->hints.staggered)
        r->staggered = roles_stagger(r, roles_block_index(r, own), range);
    if (r->mmas != BY_CONSUMERS)
        roles_issued(r, map, range);
    else if (own != NULL && r->pipelined) /* else consumers divide tiles */
        roles_pipelined(r, map, range);
    else
        roles_in_order(r, map, range);
}

/* Operations of `block` up to the main loop or the loop around it, that loop itself; returns the
 * place behind it. */
static uint32_t
emit_nest(Roles *r, CloneMap *map, const TirBlock *block, uint32_t depth, TirVal *own, TirVal *there)
{
    TirOp *inner = depth < r->around.n ? r->around.at[depth] : r->loop;
    uint32_t i = 0;

    for (; block->ops.at[i] != inner; i++) {
        const TirOp *op = block->ops.at[i];
        if (r->mmas == BY_CONSUMERS || plan_piped(op) == NULL) /* else it is for the mma role */
            roles_copy(r, map, op, false);
    }
    r->b.span = inner->span;
    if (depth == 0 && r->mmas != BY_CONSUMERS)
        roles_begin_issue(r, map);
    if (inner == r->loop) {
        emit_main_loop(r, map, own, there);
        return i + 1;
    }
    uint32_t first = loop_first_initial(inner), n = inner->n_results;
    uint32_t bounds = loop_first_initial(r->loop);
    TirVal **values = arena_array(r->fn->arena, TirVal *, n + 1);
    TirVal **before = arena_array(r->fn->arena, TirVal *, bounds + 1);
    TirBlock *outside = r->b.block;
    /* scalars are made again where the loop needs them */
    CloneMap inside = clone_map_copy(r->fn, map);
    const TirBlock *body = inner->blocks[0];
    for (uint32_t k = 0; k < bounds; k++)
        before[k] = clone_of(map, r->loop->args[k]);
    Nest nest = roles_begin_nest(r, own, there);
    for (uint32_t k = 0; k < n; k++)
        values[k] = clone_of(map, inner->args[first + k]);
    TirOp *loop = tir_for(&r->b, nest.own.lo, nest.own.hi, n, values);
    loop->span = inner->span;
    r->b.block = loop->blocks[0];
    for (uint32_t k = 0; k < body->params.n; k++)
        clone_set(&inside, body->params.at[k], loop->blocks[0]->params.at[k]);
    vec_push(r->fn->arena, &r->counters, loop->blocks[0]->params.at[0]);
    for (uint32_t k = emit_nest(r, &inside, body, depth + 1, own, there); k + 1 < body->ops.n; k++)
        roles_copy(r, &inside, body->ops.at[k], false);
    if (depth + 1 == r->around.n && roles_has_rest(r))
        roles_drain_rest(r);
    r->counters.n--;
    for (uint32_t k = 0; k < n; k++)
        values[k] = clone_of(&inside, block_yield(body)->args[k]);
    tir_yield(&r->b, n, values);
    r->b.block = outside;
    roles_end_nest(r, own, &nest);
    for (uint32_t k = 0; k < bounds; k++) /* the bounds were computed again, in the loop */
        clone_set(map, r->loop->args[k], before[k]);
    for (uint32_t k = 0; k < n; k++)
        clone_set(map, inner->results[k], loop->results[k]);
    return i + 1;
}

/* Computes the scalars that operations from `from` on use again, where they follow from the
 * launch. */
static void
forget_scalars(Roles *r, CloneMap *map, uint32_t from)
{
    CloneMap fresh = clone_map(r->fn);

    for (uint32_t i = from; i < r->old->ops.n; i++) {
        const TirOp *op = r->old->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            TirVal *scalar = op->args[k];
            bool before = scalar->def != NULL && scalar->def->parent == r->old &&
                          scalar->type.rank == 0;
            for (uint32_t j = from; j < r->old->ops.n && before; j++)
                before = r->old->ops.at[j] != scalar->def;
            TirVal *again = before ? clone_scalar_tree(&r->b, &fresh, scalar) : NULL;
            if (again != NULL)
                clone_set(map, scalar, again);
        }
    }
}

static uint32_t
coop_k_mmas(const Roles *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++)
        n += r->body->ops.at[i]->op == TIR_MMA && r->body->ops.at[i]->coop_k;
    return n;
}

/* Whether every pipeline of the loop has two stages: its roles then need not agree on the order in
 * which they go from pipeline to pipeline. */
static bool
has_stages(const Roles *r)
{
    bool has = true;

    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++)
        has = has && r->stage0_pipelines.at[k]->shared->stages > 1;
    for (uint32_t k = 0; k < r->stage1_pipelines.n; k++)
        has = has && r->stage1_pipelines.at[k]->shared->stages > 1;
    return has;
}

/* The first iteration of a pipelined loop stands before it.  When masks live in the last ones,
 * and consumers differ in which these are, every consumer has some, and the loop goes backwards if
 * it may: the first iteration, with all masks, needs them.  Else masks are there for padding, most
 * often none: the first iteration has none, and a loop that would begin with masks is not
 * pipelined.
 *
 * Masks at both ends, as those of a window that moves along with the rows: the loop goes backwards,
 * too. Where such a window begins, some rows of a tile see nothing of the first tile of keys: a
 * running maximum would be -inf there, and be raised, with all that hangs on it, in the next
 * iteration of every tile. Where it ends, at the diagonal, each row sees itself. */
static void
choose_first_iteration(Roles *r)
{
    bool first = false, last = false;

    if (r->loop->n_segments < 2 || !r->pipelined)
        return;
    roles_visit_masks(r, r->body, false, &first, &last);
    if (first && !last)
        return;
    r->clean_head = !first && !r->bounds_differ && has_stages(r);
    for (uint32_t k = 2; k < loop_first_initial(r->loop); k++) /* all consumers go the same way */
        r->clean_head = r->clean_head && (tir_consumers(r->fn->plan) == 1 ||
                                          !roles_depends_on_consumer(r, r->loop->args[k]));
    r->backwards = r->bounds_differ && last && r->loop->hints.any_order;
    r->loop->hints.backwards = r->backwards;
    if (r->backwards)
        roles_visit_masks(r, r->body, true, &first, &last);
}

/* Programs that go through the same tiles side by side: the axis may end between two of them. */
static bool
are_beside(const TirPlan *plan)
{
    return tir_own_programs(plan) > 1 || tir_multiplies_in_pairs(plan);
}

/* What consumers have in common, and what of the plan follows from that. */
static void
settle_consumers(Roles *r)
{
    TirPlan *plan = r->fn->plan;

    r->bounds_differ = ((tir_programs(plan) > 1 || tir_adds_in_pairs(plan)) &&
                        (roles_depends_on_consumer(r, r->loop->args[0]) ||
                         roles_depends_on_consumer(r, r->loop->args[1]))) ||
                       (are_beside(plan) && r->has_effects);
    choose_first_iteration(r);
    bool nest_differs = false;
    for (uint32_t k = 0; k < r->around.n; k++)
        nest_differs = nest_differs || roles_loop_differs(r, r->around.at[k]);
    /* Consumers that share out a product have the same iterations, and between barriers one product
     * that is shared out. */
    bool coop_k = tir_has_coop_k(r->fn);
    r->pingpong = r->px->plan.pingpong && tir_consumers(plan) > 1 &&
                  (coop_k ? coop_k_mmas(r) == 1
                          : r->pipelined && !r->bounds_differ && !nest_differs);
    /* H200, causal attention: 2 % more of 512 keys with four consumers, nothing with three or two.
     * An issuer makes the products of each consumer's own part. */
    plan->tiles.alternating = r->bounds_differ && tir_is_persistent(plan) &&
                              tir_consumers(plan) > 3 && !r->pingpong && !coop_k &&
                              r->mmas == BY_CONSUMERS;
    r->staggers = plan->tiles.alternating && r->pipelined &&
                  switch_is_on(r->px, "stagger-consumers");
    if (coop_k)
        r->span_all = tir_own_programs(plan) > 1;
    if (tir_adds_in_pairs(plan))
        r->span_all = r->bounds_differ;
}

bool
pass_roles(PassContext *px, TirFn *fn)
{
    Roles r = {.px = px, .fn = fn, .old = fn->body};
    TirPlan *plan = fn->plan;

    if (plan == NULL || tir_program(plan, ROLE_PRODUCER) != NULL)
        return false;
    if (!roles_find_loop(&r)) { /* only tile IR from text can be like that */
        diag_error(px->diag, fn->span, "E-PLAN: kernel '%s' has a plan, but no loop with products",
                   fn->name);
        return false;
    }
    if (!roles_take_stages(&r))
        return false;
    if (tir_role(plan, ROLE_CONSUMER)->pressure > 1 && (r.pipelined || r.loop->n_results < 2))
        tir_role(plan, ROLE_CONSUMER)->pressure = 1;
    roles_list_pipelines(&r);
    roles_find_places(&r);
    roles_share_bounds(&r);
    bool beside = are_beside(plan);
    settle_consumers(&r);
    r.loop->hints.staggered = roles_can_stagger(&r);
    roles_make_producer(&r);

    TirBlock *root = roles_begin_program(&r);
    CloneMap map = clone_map(fn);
    TirVal *own = roles_grid(&r), *there = NULL;
    if (beside || tir_adds_in_pairs(plan))
        r.extent = clone_host(&r.b, fn->grid.at[plan->tiles.axis].extent);
    if (beside) {
        there = roles_is_there(&r, own);
    }
    uint32_t i = emit_nest(&r, &map, r.old, 0, own, there);
    if (r.graph != NULL)
        roles_end_issue(&r, &map);
    /* a consumer reads the others' parts: nobody gives one back before all are done */
    if (tir_has_coop_k(fn))
        roles_plain(&r.b, TIR_CONSUMER_BARRIER, NULL, 0);
    if (!r.once_given_back)
        roles_release(&r.b, &r.once);
    roles_hand_results(&r, &map);
    TirVal *leaves = there != NULL && roles_has_effects(&r, r.old, i) ? there
                     : roles_accumulates_only(&r)                     ? roles_leaves_some(&r, &r.b)
                                                                      : NULL;
    TirOp *guard = roles_begin_if(&r.b, leaves);
    /* scalars are computed again: few registers are left to keep them over the loop */
    if (tir_role(plan, ROLE_CONSUMER)->pressure > 1)
        forget_scalars(&r, &map, i);
    for (; i < r.old->ops.n; i++) {
        if (!roles_is_moved(&r, r.old->ops.at[i]) &&
            !roles_is_corrected(&r, &map, r.old->ops.at[i]) &&
            !roles_tma_store(&r, &map, r.old->ops.at[i]))
            roles_copy(&r, &map, r.old->ops.at[i], false);
    }
    roles_end(&r.b, guard);
    if (r.around.n == 0 && roles_has_rest(&r))
        roles_drain_rest(&r);
    roles_release_sums(&r);
    if (r.correction != NULL)
        drop_unread_operations(fn->arena, fn, root);
    if (r.mmas != BY_CONSUMERS)
        drop_unread(fn->arena, fn, root);
    fn->body = root;
    if (r.pipelined)
        roles_settle_first(fn);
    roles_make_reduce(&r);
    roles_share_producer(&r);
    roles_make_next(fn);
    roles_make_tiles(fn);
    roles_check_wishes(&r);
    roles_keep_wants(&r);
    return true;
}
