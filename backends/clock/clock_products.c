/* clock_products.c - wgmma: the queue of an SM's products, which go in the order of their issue,
 * one at a time.
 *
 * A group issues no further product while so many are under way or wait (CLOCK_GROUP_MMA_QUEUE): so
 * the batches of two groups take turns, however long either is.  Instructions of the FMA pipe that
 * a warp issues in a row go before the product that runs from the CLOCK_FMA_RUNth on, and it ends
 * so much later (CLOCK_FMA_PRODUCTS) when they are further ahead than CLOCK_FMA_ROOM; others wait,
 * as those of other pipes do.
 */
#include "backends/clock/clock_state.h"

#include <math.h>

static ReplayQueued *
queued(ReplaySm *sm, uint32_t number)
{
    return &sm->queue[number % MOST_PRODUCTS];
}

static void
start(Replay *r, uint32_t sm_index, double at)
{
    ReplaySm *sm = &r->sms[sm_index];
    ReplayQueued *q = queued(sm, sm->products_ended);

    q->start = fmax(at, q->issued);
    q->by = q->start > q->issued ? sm->unit_by[UNIT_TENSOR][0] : q->node;
    sm->unit[UNIT_TENSOR][0] = q->start + q->clocks;
    sm->products_until = q->start + q->clocks + q->done;
    for (uint32_t s = 0; s < MOST_SCHEDULERS; s++)
        sm->put_off[s] = 0;
    sm->put_off_most = 0;
}

static void
end(Replay *r, uint32_t sm_index)
{
    ReplaySm *sm = &r->sms[sm_index];
    ReplayQueued *q = queued(sm, sm->products_ended++);
    double at = sm->unit[UNIT_TENSOR][0];

    r->node = 0;
    if (r->log != NULL) {
        r->node = clock_log_op(r->log, q->warp, UNIT_TENSOR, at, q->by, q->insn);
        clock_log_unit(r->log, q->warp, UNIT_TENSOR, q->start, at);
        clock_log_unit(r->log, q->warp, UNIT_SHARED, q->start, fmin(at, q->start + q->port));
    }
    sm->unit_by[UNIT_TENSOR][0] = r->node;
    if (sm_index == 0) {
        r->out->busy[UNIT_TENSOR] += q->clocks;
        r->out->busy[UNIT_SHARED] += q->port;
    }
    replay_finish_op(r, q->warp, q->op, at + q->done);
    if (sm->products_ended < sm->products_queued)
        start(r, sm_index, at);
}

/* Products that are over by now end, and those behind them begin. */
void
replay_products_on(Replay *r)
{
    for (uint32_t k = 0; k < r->n_sms; k++) {
        while (r->sms[k].products_ended < r->sms[k].products_queued &&
               r->sms[k].unit[UNIT_TENSOR][0] <= r->now)
            end(r, k);
    }
}

/* When the next one ends; CLOCK_NEVER: none runs. */
double
replay_products_next(const Replay *r)
{
    double next = CLOCK_NEVER;

    for (uint32_t k = 0; k < r->n_sms; k++) {
        if (r->sms[k].products_ended < r->sms[k].products_queued)
            next = fmin(next, r->sms[k].unit[UNIT_TENSOR][0]);
    }
    return next;
}

/* All of its warps have issued it. */
void
replay_queue_product(Replay *r, ReplayWarp *w, ReplayQueued product)
{
    ReplaySm *sm = &r->sms[w->sm];

    product.warp = w;
    product.node = r->node;
    product.issued = r->now;
    if (sm->products_queued - sm->products_ended >= MOST_PRODUCTS) { /* more than any machine has */
        replay_finish_op(r, w, product.op, r->now + product.clocks + product.done);
        return;
    }
    *queued(sm, sm->products_queued++) = product;
    if (sm->products_queued - sm->products_ended == 1)
        start(r, w->sm, fmax(r->now, sm->unit[UNIT_TENSOR][0]));
}

static bool
admitted(const ReplayWarp *w, uint32_t op)
{
    return w->cluster->ops[op].parts < w->cluster->traced->ops[op].parts;
}

/* A warp issues its part of one. */
void
replay_product_issued(Replay *r, const ReplayWarp *w, uint32_t op)
{
    r->sms[w->sm].products_admitted += !admitted(w, op);
}

/* When the queue has room; the first of a group's warps takes it for all. */
void
replay_product_room(Replay *r, const ReplayWarp *w, const SimEvent *event, double *at)
{
    const ReplaySm *sm = &r->sms[w->sm];
    double most = r->rows[CLOCK_GROUP_MMA_QUEUE].value;

    if (event == NULL || event->kind == SIM_EVENT_OFF ||
        event->object >= w->cluster->traced->op_count || admitted(w, event->object) ||
        sm->products_ended == sm->products_queued)
        return;
    if (most > 0 && sm->products_admitted - sm->products_ended >= most)
        replay_bound(r, at, fmax(sm->unit[UNIT_TENSOR][0], r->now + 1), sm->unit_by[UNIT_TENSOR][0],
                     PATH_UNIT + UNIT_TENSOR);
}

/* Is the instruction of the FMA pipe that it issues one of a run, which goes before products?
 * Another warp may go on with it. */
bool
replay_in_run(const Replay *r, const ReplayWarp *w)
{
    return w->fma_run + 1 >= r->rows[CLOCK_FMA_RUN].value ||
           r->now - r->sms[w->sm].fma_at[w->scheduler] <= 2;
}

/* Such an instruction issues beside a product. */
void
replay_put_off_product(Replay *r, const ReplayWarp *w)
{
    ReplaySm *sm = &r->sms[w->sm];
    double *off = &sm->put_off[w->scheduler], *ahead = &sm->ahead[w->scheduler];
    double room = r->rows[CLOCK_FMA_ROOM].value;
    double idle = r->now - sm->fma_at[w->scheduler] - 1;

    if (!replay_in_run(r, w))
        return;
    sm->fma_at[w->scheduler] = r->now;
    *ahead = fmax(0, *ahead - fmax(0, idle) * r->rows[CLOCK_FMA_RECOVERS].value);
    if (sm->products_ended == sm->products_queued)
        return;
    *ahead += r->rows[CLOCK_FMA_PRODUCTS].value;
    if (*ahead <= room)
        return;
    *off += *ahead - room;
    *ahead = room;
    if (*off <= sm->put_off_most)
        return;
    sm->unit[UNIT_TENSOR][0] += *off - sm->put_off_most;
    sm->products_until += *off - sm->put_off_most;
    sm->put_off_most = *off;
}
