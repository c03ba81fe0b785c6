/* roles_main.c - the main loop of a consumer that starts its products itself: pipelined by one
 * stage, with a first product that looks ahead, of nothing but sums, or as it is.  roles_list.c
 * says what an iteration does, roles_steps.c writes the loop.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

/* The operations of the body in the order in which they stand. */
static OpList
text_order(const Roles *r)
{
    OpList order = {0};

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        if (r->body->ops.at[i]->op != TIR_YIELD)
            vec_push(r->fn->arena, &order, r->body->ops.at[i]);
    }
    return order;
}

/* A pipelined loop stands in another order, and so do cooperative consumers, who read their parts
 * of a tile before they take its stage. */
static OpList
order_of(const Roles *r, const Lookahead *lookahead)
{
    bool other = (r->pipelined && lookahead == NULL) || tir_is_cooperative(r->fn->plan);

    return other ? stages_order_in_order(r, r->body, lookahead) : text_order(r);
}

/* The loop, or one of its segments; `values` are what it begins with, then what it leaves. */
static void
emit_loop(Roles *r, const OpList *order, const CloneMap *map, Range range, TirVal **values)
{
    Staged staged = roles_list_in_order(r, order, NULL, 0);

    roles_emit_staged(r, map, range, &staged, values);
}

/* The loop with its first product in stage -1.
 *
 * Where consumers share a product, an iteration ends with work that overlaps no product: the share
 * is written to shared memory and handed to TMA.  The first product of the next iteration reads one
 * tile that was loaded long before and one that does not change, so it can start before that:
 *
 *     first product
 *     for all but the last  { iteration, as far as its products;  first product of the next;
 *                             what is added to memory }
 *     the last iteration
 *
 * Of a loop with segments those without masks can be like that, and the others as they were: masks
 * and the result of the next product together take more registers than there are.
 *
 * A consumer then holds two stages of that pipeline.  The loop ends with a wait for the lookahead
 * product: if the first instructions of the next loop waited for it, ptxas would wait for all
 * products. */
static void
emit_lookahead(Roles *r, const CloneMap *map, Range range, const Lookahead *lookahead,
               TirVal **values)
{
    OpList order = order_of(r, lookahead);
    Staged staged = roles_list_in_order(r, &order, lookahead, 0);
    bool *later = arena_array(r->fn->arena, bool, r->fn->next_id + 1);

    for (uint32_t k = 0; k < r->fn->next_id; k++)
        later[k] = true;
    later[lookahead->mma->results[0]->id] = later[lookahead->load->results[0]->id] = false;
    for (uint32_t k = 0; k < lookahead->front.n; k++)
        later[lookahead->front.at[k]->results[0]->id] = false;
    staged.first = -1;
    staged.later = later;
    staged.crossing = lookahead->made;
    roles_emit_if_any(r, map, range, &staged, values);
}

/* A loop of nothing but sums: waits and releases are an iteration late. */
static void
emit_sums(Roles *r, const CloneMap *map, Range range, TirVal **values)
{
    OpList order = text_order(r);

    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++)
        r->stage0_pipelines.at[k]->shared->lag = 1;
    Staged staged = roles_list_in_order(r, &order, NULL, 1);
    staged.later = arena_array(r->fn->arena, bool, r->fn->next_id + 1);
    roles_emit_if_any(r, map, range, &staged, values);
}

/* Lets what is emitted from now on come from `body`, a copy of the loop's. */
static void
use_body(Roles *r, TirBlock *body, OpList pipelines)
{
    r->body = r->loop->blocks[0] = body;
    r->stage0_pipelines = pipelines;
    roles_mark(r);
}

/* A copy of the body whose products begin with what is subtracted from them; its pipelines to
 * `pipelines`.  (A loop that is not pipelined has no late ones.) */
static TirBlock *
preloaded_body(Roles *r, OpList *pipelines)
{
    Arena *arena = r->fn->arena;
    TirBlock *body = r->body, *copy = tir_block_new(r->fn);
    TirBuilder b = {.fn = r->fn, .block = copy, .at = -1};
    CloneMap map = clone_map(r->fn);

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (roles_adds_share(r, op)) /* they share it */
            (void)roles_staging(r, op);
        clone_op(&b, &map, op);
    }
    for (uint32_t k = 0; k < body->params.n; k++)
        vec_push(arena, &copy->params, body->params.at[k]);
    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++)
        vec_push(arena, pipelines, clone_of(&map, r->stage0_pipelines.at[k]->results[0])->def);
    r->loop->blocks[0] = copy;
    plan_preload(r->fn, copy);
    r->loop->blocks[0] = body;
    return copy;
}

/* The segments one after the other: those without masks begin ahead. */
static void
emit_segments(Roles *r, const CloneMap *map, Range range, uint32_t clean,
              const Lookahead *lookahead, TirVal **values)
{
    TirVal *from = range.lo;
    TirBlock *body = r->body;
    OpList pipelines = r->stage0_pipelines, others = pipelines;
    TirBlock *preloaded = body; /* of consumers that divide tiles it is already */
    if (!tir_is_cooperative(r->fn->plan)) {
        others = (OpList){0};
        preloaded = preloaded_body(r, &others);
    }

    for (uint32_t k = 0; k < r->loop->n_segments; k++) {
        Range part = roles_segment(r, map, range, k, from);
        CloneMap own = clone_map_copy(r->fn, map);
        r->masks = MASKS_OF_ONE;
        r->segment = k;
        if ((clean >> k & 1) != 0) {
            emit_lookahead(r, &own, part, lookahead, values);
        } else {
            use_body(r, preloaded, others);
            OpList order = stages_order_in_order(r, preloaded,
                                                 NULL); /* another body, and no lookahead */
            emit_loop(r, &order, &own, part, values);
            use_body(r, body, pipelines);
        }
        from = part.hi;
    }
    r->masks = MASKS_BY_SEGMENT;
}

/* Of what the lookahead product reads a consumer holds this iteration's stage and the next
 * one's. */
static void
hold_two_stages(TirOp *load)
{
    if (load->op == TIR_LOAD)
        load->shared->lag = load->shared->reread = 1;
    for (uint32_t k = 0; load->op == TIR_OWN && k < load->n_args; k++)
        load->args[k]->def->shared->lag = 1;
}

void
roles_in_order(Roles *r, CloneMap *map, Range range)
{
    uint32_t clean;
    TirVal **values = roles_initial(r, map, 0);
    Lookahead lookahead;

    bool wanted = r->lookahead,
         sums = !tir_is_cooperative(r->fn->plan) && roles_accumulates_only(r);
    r->lookahead = roles_begins_ahead(r, &lookahead);
    roles_find_vectors(r);
    if (wanted && !r->lookahead) /* only text can ask for that */
        diag_remark(
            r->px->diag, r->loop->span,
            "no product of the loop of kernel '%s' begins in the iteration before: none has a "
            "tile that stays and one that is loaded, and begins at zero",
            r->fn->name);
    if (r->lookahead) {
        hold_two_stages(lookahead.load);
        clean = plan_clean_segments(r->loop);
        if (clean != 0)
            emit_segments(r, map, range, clean, &lookahead, values);
        else
            emit_lookahead(r, map, range, &lookahead, values);
    } else if (sums) {
        emit_sums(r, map, range, values);
    } else {
        if (r->vectors.n > 0) {
            roles_copy_vectors(r, range.lo);
            if (tir_shares_out(r->fn))
                roles_copy_vectors(r, tir_binary(&r->b, TIR_ADD, range.lo, tir_const_int(&r->b, 1)));
            roles_vectors_there(r);
            tir_op_new(&r->b, TIR_BARRIER, 0, NULL, 0, NULL);
        }
        OpList order = order_of(r, NULL);
        emit_loop(r, &order, map, range, values);
        /* those that are not needed, too: the next ones go to the same place */
        roles_vectors_there(r);
    }
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        clone_set(map, r->loop->results[k], values[k]);
}

/* ---- pipelined by one stage ---- */

static void
add_crossing(Roles *r, const TirOp *op, ValueList *crossing)
{
    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);) {
        if (reads.value->block == r->body && !r->stage1[reads.value->id] &&
            !roles_is_remade(r, reads.value) && !roles_listed(crossing, reads.value))
            vec_push(r->fn->arena, crossing, reads.value);
    }
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
    uint32_t n = r->loop->n_results;

    roles_find_behind(r);
    r->once_given_back = roles_reads_once_in_stage0(r);
    Staged staged = roles_list_pipelined(r);
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        if (roles_in_stage1(r, r->body->ops.at[i]))
            add_crossing(r, r->body->ops.at[i], &staged.crossing);
    }
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
    r->n_drained = staged.more.n > r->left.n ? values[n + r->left.n] : NULL;
}
