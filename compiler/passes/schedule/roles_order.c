/* roles_order.c - the order in which the producer fills the pipelines of the main loop.
 *
 * One warp fills them all, and waits for a free stage of one after the other: pipelines that are
 * given back first are filled first.  In the order in which they are read, a tile that is read to
 * the end of an iteration keeps one that was free half an iteration before from being fetched, and
 * then both are fetched at once, each behind the other.
 *
 *     products read  Q dO  dO  dS Q        read first: Q; given back first: dO
 *     filled         dO(i + 2) under the last products of iteration i, Q(i + 2) at its end
 *
 * Who reads may wait for them in another order: the producer fills all of an iteration before it
 * begins the next, so a pipeline's stage is given back by an iteration whose tiles are all there.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"

bool
roles_reads_pipeline(const TirOp *op, const TirOp *load)
{
    for (uint32_t k = 0; op->op == TIR_MMA && k < 2; k++) {
        const TirOp *def = op->args[k]->def;
        while (def != NULL && (def->op == TIR_TRANSPOSE || def->op == TIR_PART))
            def = def->args[0]->def;
        for (uint32_t j = 0; def != NULL && def->op == TIR_OWN && j < def->n_args; j++) {
            if (def->args[j]->def == load)
                return true;
        }
        if (def == load)
            return true;
    }
    return false;
}

bool
roles_reads_load(const TirOp *op, const TirOp *load)
{
    bool reads = op == load || roles_reads_pipeline(op, load);

    for (TirReads of = tir_reads(op); tir_reads_next(&of) && !reads;) {
        const TirOp *def = of.value->def;
        while (def != NULL && (def->op == TIR_TRANSPOSE || def->op == TIR_PART))
            def = def->args[0]->def;
        reads = def == load;
    }
    return reads;
}

/* The tile that is read first and comes for all consumers; NULL: none. */
static const TirOp *
first_tile(const Roles *r)
{
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL && op->shared->kind != SHARED_VECTORS &&
            !op->shared->each)
            return op;
    }
    return NULL;
}

/* The place in the loop's body of the last operation that reads the pipeline behind `load`; vectors
 * stay behind the first tile, whose barriers they may share. */
static uint32_t
last_reader(const Roles *r, const TirOp *load)
{
    uint32_t last = 0;

    if (load->shared->kind == SHARED_VECTORS && !tir_is_cooperative(r->fn->plan) &&
        first_tile(r) != NULL)
        load = first_tile(r);
    for (uint32_t i = 0; i < r->body->ops.n; i++)
        last = roles_reads_load(r->body->ops.at[i], load) ? i : last;
    return last;
}

/* Whether a second product of a chain reads the pipeline: the mma role issues it behind the first
 * ones of the next iteration (roles_issue.c), whose tiles have to be there before a stage of this
 * one is free. */
static bool
is_read_late(const Roles *r, const TirOp *load)
{
    bool late = false;

    if (load->shared->kind == SHARED_VECTORS && first_tile(r) != NULL)
        load = first_tile(r);
    for (uint32_t i = 0; i < r->body->ops.n && r->mmas != BY_CONSUMERS; i++) {
        const TirOp *op = r->body->ops.at[i];
        late = late || (roles_reads_pipeline(op, load) && plan_operand_load(op->args[0]) == NULL);
    }
    return late;
}

/* Whether `a` is given back before `b`, as seen from the iteration that they are filled for. */
static bool
is_free_before(const Roles *r, const TirOp *a, const TirOp *b)
{
    if (is_read_late(r, a) != is_read_late(r, b))
        return is_read_late(r, b);
    if (a->shared->stages != b->shared->stages)
        return a->shared->stages > b->shared->stages;
    if (a->shared->kind == SHARED_VECTORS && b->shared->kind == SHARED_VECTORS)
        return a->shared->id < b->shared->id; /* as the program has them */
    return last_reader(r, a) < last_reader(r, b);
}

static void
order_pipelines(Roles *r)
{
    OpList *pipelines = &r->stage0_pipelines;

    /* A loop whose first product begins an iteration ahead reads the next iteration's tile before
     * it gives back its own: with one stage that would have to be filled first. */
    for (uint32_t i = 0;
         i < pipelines->n && !tir_is_cooperative(r->fn->plan) && r->mmas == BY_CONSUMERS; i++) {
        if (pipelines->at[i]->shared->stages < 2)
            return;
    }
    for (uint32_t i = 1; i < pipelines->n; i++) {
        TirOp *load = pipelines->at[i];
        uint32_t k = i;
        for (; k > 0 && is_free_before(r, load, pipelines->at[k - 1]); k--)
            pipelines->at[k] = pipelines->at[k - 1];
        pipelines->at[k] = load;
    }
}

static void
list_pipeline(Roles *r, TirOp *load)
{
    if (r->pipelined && r->stage1[load->results[0]->id])
        vec_push(r->fn->arena, &r->stage1_pipelines, load);
    else
        vec_push(r->fn->arena, &r->stage0_pipelines, load);
}

void
roles_list_pipelines(Roles *r)
{
    TirOp *carrier = roles_carrier(r);

    for (uint32_t i = 0; i < r->old->ops.n; i++) {
        TirOp *op = r->old->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL)
            vec_push(r->fn->arena, &r->once, op);
    }
    if (carrier != NULL) /* before the vectors that share its barriers */
        list_pipeline(r, carrier);
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL && op != carrier)
            list_pipeline(r, op);
    }
    if (!r->pipelined)
        order_pipelines(r);
}
