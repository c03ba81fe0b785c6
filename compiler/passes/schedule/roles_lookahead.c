/* roles_lookahead.c - lookahead: an in-order loop whose first MMA starts one iteration early.
 *
 * Where consumers share a product, an iteration ends with work that overlaps no product: the share is written to
 * shared memory and handed to TMA.  The first product of the next iteration reads one tile that was loaded
 * long before and one that does not change, so it can start before that:
 *
 *     first product
 *     for all but the last  { iteration, as far as its products;  first product of the next;
 *                             what is added to memory }
 *     the last iteration
 *
 * Of a loop with segments those without masks can be like that, and the others as they were: masks
 * and the result of the next product together take more registers than there are.
 *
 * A consumer then holds two stages of that pipeline.  The loop ends with a wait for the lookahead product: if the
 * first instructions of the next loop waited for it, ptxas would wait for all products.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

TirVal *
roles_begin_lookahead(Roles *r, CloneMap *map, const Lookahead *lookahead)
{
    for (uint32_t k = 0; k < lookahead->needs.n; k++)
        roles_copy(r, map, lookahead->needs.at[k], false);
    return clone_of(map, lookahead->mma->results[0]);
}

/* The stage that was waited for when the product began. */
static void
read_again(Roles *r, CloneMap *map, const Lookahead *lookahead)
{
    const TirVal *loaded = lookahead->load->results[0];
    TirVal *stage = tir_const_int(&r->b, 0);

    r->b.span = lookahead->load->span;
    TirOp *read = tir_op_new(&r->b, TIR_SHARED_READ, 1, &stage, 1, &loaded->type);
    read->shared = lookahead->load->shared;
    read->results[0]->name = loaded->name;
    clone_set(map, loaded, read->results[0]);
}

/* An iteration whose first product is `begun`; the next one's, or NULL in the last. */
static TirVal *
emit_iteration(Roles *r, CloneMap *map, const CloneMap *outer, Lookahead *lookahead, TirVal *begun,
               bool last)
{
    CloneMap next = clone_map_copy(r->fn, outer);

    clone_set(map, lookahead->mma->results[0], begun);
    read_again(r, map, lookahead);
    lookahead->next = last ? NULL : &next;
    return roles_in_order_iteration(r, map, lookahead);
}

void
roles_lookahead(Roles *r, const CloneMap *map, Range range, Lookahead *lookahead, TirVal **initial)
{
    uint32_t n = r->loop->n_results;
    TirBlock *around = r->b.block;
    TirVal **values = arena_array(r->fn->arena, TirVal *, n + 2);

    for (uint32_t k = 0; k < n; k++)
        values[k] = initial[k];
    TirOp *branch = roles_if_any(r, range, initial);

    CloneMap head = clone_map_copy(r->fn, map);
    values[n] = roles_begin_lookahead(r, &head, lookahead);
    roles_plain(&r->b, TIR_MMA_WAIT, NULL, 0);

    TirVal *last = tir_binary(&r->b, TIR_SUB, range.hi, tir_const_int(&r->b, 1));
    Range others = {range.lo, last, range.base};
    CloneMap now = clone_map_copy(r->fn, map);
    TirOp *loop = roles_enter_loop(r, others, n + 1, values, &now, NULL);
    values[n] = emit_iteration(r, &now, map, lookahead, loop->blocks[0]->params.at[n + 1], false);
    roles_yielded(r, &now, values);
    tir_yield(&r->b, n + 1, values);

    r->b.block = branch->blocks[0];
    CloneMap tail = clone_map_copy(r->fn, map);
    LiveMasks masks = r->masks;
    clone_set(&tail, r->body->params.at[0], roles_iteration(r, &r->b, range.base, last));
    for (uint32_t k = 0; k < n; k++)
        clone_set(&tail, r->body->params.at[k + 1], loop->results[k]);
    if (masks == MASKS_BY_SEGMENT)
        r->masks = MASKS_ALL;
    (void)emit_iteration(r, &tail, map, lookahead, loop->results[n], true);
    r->masks = masks;
    roles_yielded(r, &tail, values);
    tir_yield(&r->b, n, values);
    r->b.block = around;
    for (uint32_t k = 0; k < n; k++)
        initial[k] = branch->results[k];
}
