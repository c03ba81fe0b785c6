/* roles_nest.c - loops around the main loop in which consumers have iterations of their own.
 *
 *     for h in 0 .. load lengths[b] { for n .. { products } }      b: the consumer axis
 *
 * The producer goes through the iterations that some consumer of the block has.  A consumer drains all that comes in those
 * that it does not have, before its own and behind them:
 *
 *     for h in all.lo .. own.lo { for n .. { consumer_wait K; consumer_release K } }
 *     for h in own.lo .. own.hi { for n .. { products } }
 *     for h in own.hi .. all.hi { for n .. { consumer_wait K; consumer_release K } }
 *
 * The bounds of a loop inside may be loaded, from a place of h.  What they are for a program that does not have this h is
 * nobody's business: there may be any number.  So the block has the iterations of those consumers that have the
 * ones around.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* Drains all that comes in iterations `from` .. `to` of the loop at depth `depth`. */
static void
drain_nest(Roles *r, uint32_t depth, TirVal *own, TirVal *from, TirVal *to)
{
    if (roles_is_same(from, to))
        return;
    if (depth == r->around.n) {
        roles_drain_range(r, from, to);
        return;
    }
    TirOp *loop = roles_begin_for(&r->b, from, to, r->around.at[depth]->span);
    vec_push(r->fn->arena, &r->counters, loop->blocks[0]->params.at[0]);
    const TirOp *inner = depth + 1 < r->around.n ? r->around.at[depth + 1] : r->loop;
    Range all = roles_range_of_all(r, inner, roles_block_index(r, own));
    drain_nest(r, depth + 1, own, all.lo, all.hi);
    r->counters.n--;
    roles_end(&r->b, loop);
}

Nest
roles_begin_nest(Roles *r, uint32_t depth, TirVal *own, TirVal *there)
{
    const TirOp *loop = r->around.at[depth];
    CloneMap uniform = roles_uniform_map(r, NULL);
    TirVal *lo = clone_scalar_tree(&r->b, &uniform, loop->args[0]);
    Nest nest = {.own = {lo, clone_scalar_tree(&r->b, &uniform, loop->args[1]), NULL}};
    TirVal *none;

    if (!roles_loop_differs(r, loop))
        return nest;
    nest.all = roles_block_range(r, loop, roles_block_index(r, own), &none);
    nest.own = roles_own_range(r, nest.own, there, none);
    drain_nest(r, depth, own, nest.all.lo, nest.own.lo);
    return nest;
}

void
roles_end_nest(Roles *r, uint32_t depth, TirVal *own, const Nest *nest)
{
    if (nest->all.hi != NULL)
        drain_nest(r, depth, own, nest->own.hi, nest->all.hi);
}
