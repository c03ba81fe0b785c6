/* roles_drain.c - drains the stages of iterations that other consumers of the block need and this
 * one does not.
 *
 *   does     the producer copies for all consumers; a consumer waits for the tiles that it does not
 *            need and releases them unread, before and after its own iterations:
 *
 *                for .. { consumer_wait K; consumer_release K; consumer_wait V; consumer_release V
 *                }
 *
 *            After a pipelined loop that is a chain of waits with no product to overlap it.  So the
 *            work that does not depend on the last product is done while it runs: counting the
 *            iterations, and draining pipelines that no product reads any more.  The other
 *            pipelines are drained after the stores:
 *
 *                acc = mma .., v async
 *                n = ..;  for n { consumer_wait K; consumer_release K }
 *                mma_wait 0;  consumer_release V;  store ..
 *                for n { consumer_wait V; consumer_release V }
 *
 *            The producer brings tiles of K and V in turn.  While this consumer holds a stage of V,
 *            there are no more of K behind it than there are stages: where consumers may be further
 *            apart, only the number is found there.
 *
 *            In loops around the main one consumers may have iterations of their own, too:
 *
 *                for h in all.lo .. own.lo { for n .. { consumer_wait K; consumer_release K } }
 *                for h in own.lo .. own.hi { for n .. { products } }
 *                for h in own.hi .. all.hi { for n .. { consumer_wait K; consumer_release K } }
 *
 *            The bounds of a loop inside may be loaded, from a place of h.  What they are for a
 *            program that does not have this h is nobody's business: so the block has the
 *            iterations of those consumers that have the ones around.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

static void
drain_stages(Roles *r, const OpList *pipelines)
{
    for (uint32_t k = 0; pipelines != NULL && k < pipelines->n; k++) {
        roles_plain(&r->b, TIR_CONSUMER_WAIT, pipelines->at[k]->shared, 0);
        roles_plain(&r->b, TIR_CONSUMER_RELEASE, pipelines->at[k]->shared, 0);
    }
}

/* NULL: not of those pipelines. */
static void
drain(Roles *r, TirVal *from, TirVal *to, const OpList *early, const OpList *late)
{
    if (roles_is_same(from, to))
        return;
    TirOp *loop = roles_begin_for(&r->b, from, to, r->loop->span);
    drain_stages(r, early);
    drain_stages(r, late);
    roles_end(&r->b, loop);
}

void
roles_drain_range(Roles *r, TirVal *from, TirVal *to)
{
    drain(r, from, to, &r->stage0_pipelines, &r->stage1_pipelines);
}

bool
roles_has_rest(const Roles *r)
{
    if (!r->bounds_differ || r->span_all || r->mmas != BY_CONSUMERS)
        return false;
    return !r->backwards || roles_depends_on_consumer(r, r->loop->args[0]);
}

/* The iterations that the block has behind `end`; NULL: behind this consumer's own, whose bounds
 * are computed once more: they would have to be kept over the main loop. */
static Range
find_rest(Roles *r, TirVal *end)
{
    TirVal *again = roles_grid(r), *first_lo;

    again->def->uniform = false;
    Range all = roles_block_range(r, r->loop, roles_block_index(r, again), &first_lo);
    if (end == NULL)
        end = roles_numbers(r, roles_consumer_range(r, r->loop, again, first_lo), all).hi;
    return (Range){end, r->backwards ? tir_binary(&r->b, TIR_SUB, all.hi, all.lo) : all.hi, NULL};
}

/* By how much a scalar may differ from consumer to consumer; -1: that is not known. */
static int64_t
most_apart(const Roles *r, const TirVal *value)
{
    const TirOp *def = value->def;
    int64_t apart[2] = {0, 0};

    if (!roles_depends_on_consumer(r, value))
        return 0;
    if (def->op == TIR_GRID)
        return tir_consumers(r->fn->plan) - 1;
    for (uint32_t k = 0; k < 2; k++) {
        apart[k] = def->n_args == 2 ? most_apart(r, def->args[k]) : -1;
        if (apart[k] < 0)
            return -1;
    }
    const TirOp *by = def->args[1]->def;
    bool constant = by != NULL && by->op == TIR_CONST && by->integer > 0;
    switch (def->op) {
    case TIR_ADD:
    case TIR_SUB: return apart[0] + apart[1];
    case TIR_MIN:
    case TIR_MAX: return apart[0] > apart[1] ? apart[0] : apart[1];
    case TIR_MUL: return constant ? apart[0] * by->integer : -1;
    case TIR_DIV: return constant ? (apart[0] + by->integer - 1) / by->integer : -1;
    default: return -1;
    }
}

/* Whether all that a consumer with iterations of its own has behind it fits in the stages of each
 * pipeline. */
static bool
fits_stages(const Roles *r)
{
    int64_t lo = most_apart(r, r->loop->args[0]), hi = most_apart(r, r->loop->args[1]);
    int64_t most = lo > hi ? lo : hi;
    bool fits = lo >= 0 && hi >= 0;

    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++)
        fits = fits && most <= r->stage0_pipelines.at[k]->shared->stages;
    for (uint32_t k = 0; k < r->stage1_pipelines.n; k++)
        fits = fits && most <= r->stage1_pipelines.at[k]->shared->stages;
    return fits;
}

TirVal *
roles_begin_rest(Roles *r, TirVal *end, bool under)
{
    Range rest = find_rest(r, end);
    TirVal *none = tir_const_int(&r->b, 0), *n = tir_binary(&r->b, TIR_SUB, rest.hi, rest.lo);

    if (!fits_stages(r))
        return n;
    if (!under) {
        roles_drain_range(r, none, n);
        return none;
    }
    drain(r, none, n, &r->stage0_pipelines, NULL);
    return n;
}

void
roles_drain_rest(Roles *r)
{
    if (r->n_drained == NULL) {
        Range rest = r->rest.hi != NULL ? r->rest : find_rest(r, NULL);
        roles_drain_range(r, rest.lo, rest.hi);
        return;
    }
    const OpList *early = fits_stages(r) ? NULL : &r->stage0_pipelines; /* they have been drained */
    drain(r, tir_const_int(&r->b, 0), r->n_drained, early, &r->stage1_pipelines);
}

/* ---- loops around ---- */

static void
drain_main(Roles *r, TirVal *block_index)
{
    Range all = roles_range_of_all(r, r->loop, block_index);

    roles_drain_range(r, all.lo, all.hi);
}

/* Drains all that comes in iterations `from` .. `to` of the loop around that comes next. */
static void
drain_around(Roles *r, TirVal *own, TirVal *from, TirVal *to)
{
    if (roles_is_same(from, to))
        return;
    TirOp *loop = roles_begin_around(r, from, to);
    roles_write_nest(r, roles_block_index(r, own), drain_main);
    roles_end_around(r, loop);
}

Nest
roles_begin_nest(Roles *r, TirVal *own, TirVal *there)
{
    const TirOp *loop = r->around.at[r->counters.n];
    CloneMap uniform = roles_uniform_map(r, NULL);
    TirVal *lo = clone_scalar_tree(&r->b, &uniform, loop->args[0]);
    Nest nest = {.own = {lo, clone_scalar_tree(&r->b, &uniform, loop->args[1]), NULL}};
    TirVal *none;

    if (!roles_loop_differs(r, loop))
        return nest;
    nest.all = roles_block_range(r, loop, roles_block_index(r, own), &none);
    nest.own = roles_own_range(r, nest.own, there, none);
    drain_around(r, own, nest.all.lo, nest.own.lo);
    return nest;
}

void
roles_end_nest(Roles *r, TirVal *own, const Nest *nest)
{
    if (nest->all.hi != NULL)
        drain_around(r, own, nest->own.hi, nest->all.hi);
}
