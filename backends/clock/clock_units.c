/* clock_units.c - units, pipes and ports: until when they are busy. */
#include "backends/clock/clock_state.h"

#include <math.h>

static double
later(double a, double b)
{
    return a > b ? a : b;
}

double *
replay_unit(Replay *r, const ReplayWarp *w, ClockUnit unit)
{
    return &r->sms[w->sm].unit[unit][unit < UNITS_OF_SCHEDULER ? w->scheduler : 0];
}

uint32_t *
replay_unit_by(Replay *r, const ReplayWarp *w, ClockUnit unit)
{
    return &r->sms[w->sm].unit_by[unit][unit < UNITS_OF_SCHEDULER ? w->scheduler : 0];
}

double
replay_share(const Replay *r, double alone, ClockRow all)
{
    double part = r->rows[all].value / (r->job->active ? r->job->active : 1);

    return part < alone ? part : alone;
}

double
replay_add_share(const Replay *r, double alone, const ClockMissed *missed)
{
    double sector = r->rows[CLOCK_ADD_SECTOR].value;
    double share = replay_share(r, alone, CLOCK_CHIP_ADD);

    return sector > 0 && missed != NULL && missed->common > 0
               ? fmin(share, missed->common / sector / (r->job->active ? r->job->active : 1))
               : share;
}

ClockMissed *
replay_missed(const Replay *r, const ReplayWarp *w, const SimEvent *event)
{
    const ReplayCluster *c = w->cluster;

    return r->job->memory == NULL
               ? NULL
               : clock_missed(r->job->memory, c->index, (uint32_t)(w->traced - c->traced->warps),
                              (uint32_t)(event - w->traced->events));
}

/* Keeps a unit; gives when that begins. */
double
replay_keep(Replay *r, const ReplayWarp *w, ClockUnit unit, double from, double clocks)
{
    double *free = replay_unit(r, w, unit), start = later(*free, from);

    *free = start + clocks;
    *replay_unit_by(r, w, unit) = r->node;
    r->out->busy[unit] += w->sm == 0 ? clocks : 0;
    if (r->log != NULL)
        clock_log_unit(r->log, w, unit, start, start + clocks);
    return start;
}

/* What a request waits for those of other SMs, which come at random: as one does at a server with a
 * queue (M/D/1). */
static double
queue_of_others(double clocks, double busy)
{
    double most = fmin(0.95, busy);

    return clocks * most / (2 * (1 - most));
}

/* .. by how much of its share of memory this SM has had of late. */
static double
queue_of_memory(Replay *r, ReplaySm *sm, double clocks)
{
    double kept = exp((sm->memory_at - r->now) / MEMORY_LATE), busy = sm->memory_busy * kept;

    sm->memory_busy = busy + clocks / MEMORY_LATE;
    sm->memory_at = r->now;
    return queue_of_others(r->rows[CLOCK_HBM_QUEUE].value, busy);
}

/* How busy additions have kept the SM's share of the L2 cache, up to now: all of it until
 * `added_until`, then nothing. */
static double
added_of_late(Replay *r, ReplaySm *sm)
{
    double busy = fmax(0, fmin(sm->added_until, r->now) - sm->added_at);
    double idle = r->now - fmax(sm->added_at, fmin(sm->added_until, r->now));

    sm->added_busy = (1 - (1 - sm->added_busy) * exp(-busy / ADDED_LATE)) * exp(-idle / ADDED_LATE);
    sm->added_at = r->now;
    return sm->added_busy;
}

void
replay_added(Replay *r, const ReplayWarp *w, double bytes, const ClockMissed *missed)
{
    ReplaySm *sm = &r->sms[w->sm];

    added_of_late(r, sm);
    sm->added_until = later(sm->added_until, r->now) + bytes / replay_add_share(r, 1e300, missed);
}

/* Other SMs are taken to add as much as this one, at times of their own. */
double
replay_wait_for_adds(Replay *r, const ReplayWarp *w)
{
    return queue_of_others(r->rows[CLOCK_ADD_QUEUE].value, added_of_late(r, &r->sms[w->sm]));
}

double
replay_memory(Replay *r, const ReplayWarp *w, ClockMissed *missed)
{
    ReplaySm *sm = &r->sms[w->sm];
    double alone = r->rows[CLOCK_GLOBAL_BYTES].value, *free = replay_unit(r, w, UNIT_HBM);
    double latency = r->rows[CLOCK_HBM_LATENCY].value, kinds[2];

    if (missed == NULL)
        return 0;
    missed->at = r->now;
    kinds[0] = missed->read;
    kinds[1] = missed->written;
    if (kinds[0] + kinds[1] <= 0)
        return 0;
    if (sm->memory_at == 0) /* all SMs begin at once */
        *free = r->now;
    double clocks = 0;
    for (uint32_t k = 0; k < 2; k++) { /* turning from the one to the other costs time */
        if (kinds[k] > 0)
            sm->memory_last[k] = r->now;
        bool both = sm->memory_last[1 - k] > 0 && r->now - sm->memory_last[1 - k] < MEMORY_LATE;
        clocks += kinds[k] / replay_share(r, alone, both ? CLOCK_HBM_BOTH : CLOCK_HBM);
    }
    /* the share of who waits for what it asked for is others', and comes back */
    replay_keep(r, w, UNIT_HBM, r->now - latency, clocks);
    sm->memory_port = later(sm->memory_port, r->now) + (kinds[0] + kinds[1]) / alone;
    double others = queue_of_memory(r, sm, clocks);
    return kinds[0] > 0 ? later(sm->memory_port, *free) + others + latency -
                              r->rows[CLOCK_GLOBAL_LATENCY].value
                        : 0;
}

void
replay_begin_op(Replay *r, const ReplayWarp *w, ClockUnit unit, double start, double end,
                uint32_t insn)
{
    if (r->log == NULL)
        return;
    uint32_t by = start > r->now && *replay_unit_by(r, w, unit) ? *replay_unit_by(r, w, unit)
                                                                : r->node;
    r->node = clock_log_op(r->log, w, unit, end, by, insn);
}

double
replay_pipe_free(Replay *r, const ReplayWarp *w, ClockUnit unit, double port)
{
    const ReplaySm *sm = &r->sms[w->sm];
    double at = 0;

    if (unit != UNIT_ISSUE)
        replay_bound(r, &at, *replay_unit(r, w, unit), *replay_unit_by(r, w, unit),
                     PATH_UNIT + unit);
    if (port > 0)
        replay_bound(r, &at, sm->port[w->scheduler] - r->rows[CLOCK_BANK_SLACK].value,
                     sm->port_by[w->scheduler], PATH_SHARE);
    return at;
}

/* Products of warp groups read and write registers all the time: pipes take longer then, but FMA in
 * a run, which goes first. */
void
replay_keep_pipe(Replay *r, const ReplayWarp *w, ClockUnit unit, double clocks, double beside,
                 double port)
{
    ReplaySm *sm = &r->sms[w->sm];
    bool products = unit != UNIT_TENSOR &&
                    (sm->unit[UNIT_TENSOR][0] > r->now || sm->products_until > r->now);
    bool run = unit == UNIT_FMA && replay_in_run(r, w);
    double *free = &sm->port[w->scheduler], rest = 1;

    if (unit == UNIT_ISSUE)
        return;
    double from = *replay_unit(r, w, unit); /* parts of a clock add up */
    replay_keep(r, w, unit, from > r->now - 1 ? from : r->now, products && !run ? beside : clocks);
    if (products && !run && w->sm == 0)
        r->out->busy[unit] -= beside - clocks; /* that it is kept up is no use of it */
    if (unit == UNIT_FMA)
        replay_put_off_product(r, w);
    if (products && unit != UNIT_FMA)
        rest -= r->rows[CLOCK_PORT_PRODUCTS].value;
    if (port > 0 && (products || unit != UNIT_MUFU)) { /* MUFU takes of it beside products only */
        *free = later(*free, r->now) + port / rest;
        sm->port_by[w->scheduler] = r->node;
    }
}

void
replay_add_product(Replay *r, uint32_t sm_index, double start, double clocks, double port)
{
    ReplaySm *sm = &r->sms[sm_index];

    sm->unit[UNIT_TENSOR][0] = start + clocks;
    sm->unit_by[UNIT_TENSOR][0] = r->node;
    sm->products[sm->n_products++ % MOST_PRODUCTS] = (ReplayProduct){
        start, start + clocks, clocks > 0 ? fmin(1, port / clocks) : 0, r->node};
    if (sm_index == 0) {
        r->out->busy[UNIT_TENSOR] += clocks;
        r->out->busy[UNIT_SHARED] += port;
    }
}

/* What a product leaves of the port from `at` on, to something that wants `rest` clocks of it. */
static void
leave(double start, double end, double part, double *at, double *rest)
{
    if (end <= *at)
        return;
    double gap = fmin(*rest, later(0, start - *at));
    *rest -= gap;
    *at += gap;
    if (*at < start || *rest <= 0)
        return;
    double room = (1 - part) * (end - *at);
    if (room >= *rest) {
        *at += *rest / (1 - part);
        *rest = 0;
    } else {
        *rest -= room;
        *at = end;
    }
}

/* Products go first: a load gets what they leave of the port. */
double
replay_keep_port(Replay *r, const ReplayWarp *w, double clocks, double *end)
{
    ReplaySm *sm = &r->sms[w->sm];
    double start = later(sm->unit[UNIT_SHARED][0], r->now), at = start, rest = clocks;
    uint32_t first = sm->n_products > MOST_PRODUCTS ? sm->n_products - MOST_PRODUCTS : 0;
    double from = sm->unit[UNIT_TENSOR][0];

    for (uint32_t k = first; k < sm->n_products && rest > 0; k++) {
        const ReplayProduct *p = &sm->products[k % MOST_PRODUCTS];
        leave(p->start, p->end, p->part, &at, &rest);
    }
    for (uint32_t k = sm->products_ended; k < sm->products_queued && rest > 0; k++) { /* wgmma */
        const ReplayQueued *q = &sm->queue[k % MOST_PRODUCTS];
        double begins = k == sm->products_ended ? q->start : from;
        from = k == sm->products_ended ? from : from + q->clocks;
        leave(begins, from, fmin(1, q->port / q->clocks), &at, &rest);
    }
    *end = sm->unit[UNIT_SHARED][0] = at + rest;
    sm->unit_by[UNIT_SHARED][0] = r->node;
    if (r->log != NULL)
        clock_log_unit(r->log, w, UNIT_SHARED, start, *end);
    r->out->busy[UNIT_SHARED] += w->sm == 0 ? clocks : 0;
    return start;
}
