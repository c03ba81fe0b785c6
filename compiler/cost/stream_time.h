/* stream_time.h - the time of a launch that memory binds: each program reads what no other one
 * reads.
 *
 * Little's law says how fast a block that is alone reads: what it has under way, its stages, over
 * how long a copy takes. While all ask, memory gives each SM the same share, of whatever is not
 * asked for by others more.  Programs are dealt to blocks in turn, so that at the end some SMs have
 * one program left, some two (where an SM has two blocks), and some none: these rates say how long
 * each of these parts of a launch takes.
 */
#ifndef TILEC_STREAM_TIME_H
#define TILEC_STREAM_TIME_H

#include "compiler/cost/consumer_time.h"

/* Clocks of an iteration of a block, and how SMs share memory. */
typedef struct StreamRates {
    double alone;  /* when memory has nothing else to do */
    double shared; /* when every SM has one such block, and all wait for memory */
    /* so much as one with a single block gets an SM with two, when all wait: 1 to 2 */
    double two;
    uint32_t blocks; /* of an SM */
} StreamRates;

/* `iteration`: what its arithmetic takes. */
StreamRates stream_rates(const Target *target, const ConsumerWork *work, const PlanHints *plan,
                         double iteration);
/* Clocks of `programs` programs with `each` iterations, that take `start` to begin and end. */
double stream_clocks(const StreamRates *rates, double sms, double programs, double each,
                     double start);
/* The same as an expression; NULL when an operand is. */
const HostExpr *stream_cost(Arena *arena, const StreamRates *rates, const HostExpr *programs,
                            const HostExpr *each, double start);

#endif
