/* clock_tensor.c - tcgen05: products that one thread starts, and the way to tensor memory.
 *
 * A product keeps the tensor unit for as long as the table of the target says for its shape; shapes
 * between two rows take what lies between.  Its operands come through the port of shared memory,
 * before loads.  A commit is done when the products before it are; who waits for it goes on then.
 */
#include "backends/clock/clock_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double
later(double a, double b)
{
    return a > b ? a : b;
}

/* ---- what a product takes ---- */

typedef struct ProductCost {
    double clocks, done; /* that it keeps the unit; from its end to who waits for it */
} ProductCost;

static ProductCost
cost_in(const ClockProduct *row, bool a_shared)
{
    return a_shared ? (ProductCost){row->shared, row->shared_done}
                    : (ProductCost){row->memory, row->memory_done};
}

/* Of the rows with its M: the next below and above its N. */
static ProductCost
product_cost(const ClockProduct *rows, SimTracedProduct p)
{
    const ClockProduct *below = NULL, *above = NULL;

    for (const ClockProduct *row = rows; row != NULL && row->blocks; row++) {
        if (row->blocks != p.blocks || row->m != p.m)
            continue;
        if (row->n <= p.n && (below == NULL || row->n > below->n))
            below = row;
        if (row->n >= p.n && (above == NULL || row->n < above->n))
            above = row;
    }
    if (below == NULL || above == NULL)
        below = above = below != NULL ? below : above;
    if (below == NULL)
        return (ProductCost){p.n / 2.0, 0};
    ProductCost low = cost_in(below, p.a_shared), high = cost_in(above, p.a_shared);
    double part = above->n > below->n ? (double)(p.n - below->n) / (above->n - below->n) : 0;
    return (ProductCost){low.clocks + part * (high.clocks - low.clocks),
                         low.done + part * (high.done - low.done)};
}

/* 32 bytes of each row of A and of B that lies in this SM. */
static double
operand_bytes(SimTracedProduct p)
{
    double rows = (double)p.n / p.blocks + (p.a_shared ? (double)p.m / p.blocks : 0);

    return 32 * rows;
}

/* ---- products ---- */

double
replay_mma_queue(Replay *r, const ReplayWarp *w, double *at)
{
    const ReplaySm *sm = &r->sms[w->sm];
    uint32_t most = (uint32_t)r->rows[CLOCK_MMA_QUEUE].value;

    if (most == 0 || most > MOST_PRODUCTS || sm->n_products < most)
        return *at;
    const ReplayProduct *first = &sm->products[(sm->n_products - most) % MOST_PRODUCTS];
    replay_bound(r, at, first->end, first->by, PATH_UNIT + UNIT_TENSOR);
    return *at;
}

void
replay_mma(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    const SimTracedOp *op = &w->cluster->traced->ops[event->object];
    uint32_t peer = op->product.blocks == 2 && r->n_sms > 1 ? w->sm ^ 1 : w->sm;
    ProductCost cost = product_cost(r->job->products, op->product);
    double port = operand_bytes(op->product) / r->rows[CLOCK_SHARED_BYTES].value;
    double start = later(later(r->now, w->copied), r->sms[w->sm].unit[UNIT_TENSOR][0]);

    start = later(start, r->sms[peer].unit[UNIT_TENSOR][0]);
    uint32_t node = r->node;
    replay_begin_op(r, w, UNIT_TENSOR, start, start + cost.clocks, event->insn);
    if (r->log != NULL)
        clock_log_unit(r->log, w, UNIT_TENSOR, start, start + cost.clocks);
    replay_add_product(r, w->sm, start, cost.clocks, port);
    if (peer != w->sm)
        replay_add_product(r, peer, start, cost.clocks, port);
    w->products_done = later(w->products_done, start + cost.clocks + cost.done);
    w->ready = later(w->ready, r->now + r->rows[CLOCK_MMA_ISSUE].value);
    w->products_by = r->node;
    replay_finish_op(r, w, event->object, start + cost.clocks);
    r->node = node;
}

void
replay_mma_copy(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    double bytes = w->cluster->traced->ops[event->object].bytes;
    double clocks = bytes / r->rows[CLOCK_MMA_COPY_BYTES].value;

    double begin = later(*replay_unit(r, w, UNIT_TMEM_COPY), r->now);
    uint32_t node = r->node;
    replay_begin_op(r, w, UNIT_TMEM_COPY, begin, begin + clocks, event->insn);
    w->copied = replay_keep(r, w, UNIT_TMEM_COPY, r->now, clocks) + clocks;
    w->products_by = r->node;
    w->products_done = later(w->products_done, w->copied + r->rows[CLOCK_TMEM_LATENCY].value);
    replay_finish_op(r, w, event->object, w->copied);
    r->node = node;
}

/* Arrives at once where nothing is under way. */
void
replay_mma_commit(Replay *r, ReplayWarp *w, const SimEvent *event)
{
    double now = r->now + r->rows[code_is_next(w) ? CLOCK_CODE_ARRIVE : CLOCK_ARRIVE].value;
    uint32_t node = r->node;

    if (w->products_done > now)
        r->node = w->products_by;
    replay_finish_op(r, w, event->object, later(w->products_done, now));
    r->node = node;
}

/* ---- tensor memory ---- */

/* Registers of a thread that tcgen05.ld or st, LDTM or STTM moves, by its shape. */
uint32_t
tmem_registers(const char *name)
{
    const char *count = strstr(name, ".x");
    uint32_t n = count != NULL ? (uint32_t)strtoul(count + 2, NULL, 10) : 1;

    return n * (strstr(name, "16x256b") || strstr(name, "16dp256bit")   ? 4
                : strstr(name, "16x128b") || strstr(name, "16dp128bit") ? 2
                                                                        : 1);
}

double
tmem_clocks(const ClockFact *rows, const char *name)
{
    double bytes = rows[CLOCK_TMEM_BYTES].value;

    return bytes > 0 ? 128.0 * tmem_registers(name) / bytes : 0;
}

/* A warp's next one comes later than the way is free.  Parts of a clock add up. */
void
replay_tmem(Replay *r, ReplayWarp *w, double clocks, bool store)
{
    double from = w->tmem_free > r->now - 1 ? w->tmem_free : r->now;

    w->tmem_free = from +
                   later(r->rows[CLOCK_TMEM_LEAST].value, clocks + r->rows[CLOCK_TMEM_ISSUE].value);
    w->tmem_by = r->node;
    if (store)
        w->tmem_stored = later(w->tmem_stored, r->now + clocks);
    else
        w->tmem_loaded = later(w->tmem_loaded, r->now + clocks + r->rows[CLOCK_TMEM_LATENCY].value);
}

double
replay_tmem_stored(const Replay *r, const ReplayWarp *w)
{
    return later(r->now, w->tmem_stored) + r->rows[CLOCK_TMEM_STORED].value;
}
