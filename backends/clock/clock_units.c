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

/* Products of warp groups read and write registers all the time: other pipes take longer then, but FMA, which
 * goes first. */
void
replay_keep_pipe(Replay *r, const ReplayWarp *w, ClockUnit unit, double clocks, double beside,
                 double port)
{
    ReplaySm *sm = &r->sms[w->sm];
    bool products = sm->unit[UNIT_TENSOR][0] > r->now && unit != UNIT_TENSOR;
    double *free = &sm->port[w->scheduler], rest = 1;

    if (unit == UNIT_ISSUE)
        return;
    double from = *replay_unit(r, w, unit); /* parts of a clock add up */
    replay_keep(r, w, unit, from > r->now - 1 ? from : r->now, products ? beside : clocks);
    if (products && w->sm == 0)
        r->out->busy[unit] -= beside - clocks; /* that it is kept up is no use of it */
    if (products && unit != UNIT_FMA)
        rest -= r->rows[CLOCK_PORT_PRODUCTS].value;
    if (port > 0 && (products || unit != UNIT_MUFU)) { /* MUFU takes of it beside products only */
        *free = later(*free, r->now) + port / rest;
        sm->port_by[w->scheduler] = r->node;
    }
}

/* Products go first: a load gets what they leave of the port. */
double
replay_keep_port(Replay *r, const ReplayWarp *w, double clocks, double *end)
{
    ReplaySm *sm = &r->sms[w->sm];
    double start = later(sm->unit[UNIT_SHARED][0], r->now), at = start, rest = clocks;
    uint32_t first = sm->n_products > MOST_PRODUCTS ? sm->n_products - MOST_PRODUCTS : 0;

    for (uint32_t k = first; k < sm->n_products && rest > 0; k++) {
        const ReplayProduct *p = &sm->products[k % MOST_PRODUCTS];
        if (p->end <= at)
            continue;
        double gap = fmin(rest, later(0, p->start - at));
        rest -= gap;
        at += gap;
        if (at < p->start || rest <= 0)
            continue;
        double room = (1 - p->part) * (p->end - at);
        if (room >= rest) {
            at += rest / (1 - p->part);
            rest = 0;
        } else {
            rest -= room;
            at = p->end;
        }
    }
    *end = sm->unit[UNIT_SHARED][0] = at + rest;
    sm->unit_by[UNIT_SHARED][0] = r->node;
    if (r->log != NULL)
        clock_log_unit(r->log, w, UNIT_SHARED, start, *end);
    r->out->busy[UNIT_SHARED] += w->sm == 0 ? clocks : 0;
    return start;
}
