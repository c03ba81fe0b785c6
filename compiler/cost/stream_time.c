/* stream_time.c - rounds in which all blocks have a program, and what is left at the end
 * (stream_time.h).
 *
 * With one block to an SM the programs that are left have memory for themselves: an iteration takes
 * as long as the memory needs for all of them, or a block that is alone.
 *
 * With two, if more programs are left than there are SMs, some SMs have one, and end first;
 * meanwhile those with two get `two` times as much.  That is less than twice where what two blocks
 * ask for is more than an SM can have under way.  What is left then has memory for itself again.
 */
#include "compiler/cost/stream_time.h"

#include <math.h>

enum { PARTS = 16 }; /* in which `two` is counted in expressions */

StreamRates
stream_rates(const Target *target, const ConsumerWork *work, const PlanHints *plan, double iteration)
{
    const Chip *chip = &target->chip;
    double bytes = (double)(work->pipeline_bytes_shared +
                            plan->consumers * work->pipeline_bytes_own);
    double under_way = plan->stages * bytes, most = chip->copy_flight;
    double two = fmin(2 * under_way, most) / fmin(under_way, most);

    return (StreamRates){
        .alone = fmax(iteration, (chip->memory_clocks + iteration) / plan->stages),
        .shared = bytes / chip->memory_bytes,
        .two = fmax(two, 1),
        .blocks = plan->two_blocks ? 2 : 1,
    };
}

/* Of an iteration of the programs that are left, where no SM has more than one. */
static double
left_alone(const StreamRates *rates, double sms, double left)
{
    return fmax(rates->alone, rates->shared * left / sms);
}

double
stream_clocks(const StreamRates *rates, double sms, double programs, double each, double start)
{
    double places = rates->blocks * sms, rounds = floor(programs / places),
           left = programs - rounds * places;
    double clocks = rounds * (start + each * fmax(rates->alone, rates->blocks * rates->shared));

    if (left <= 0)
        return clocks;
    if (left <= sms)
        return clocks + start + each * left_alone(rates, sms, left);
    double asking = (2 - rates->two) * sms + (rates->two - 1) * left;
    double first = left_alone(rates, sms, asking),
           second = left_alone(rates, sms, 2 * (left - sms));
    return clocks + start + each * (first + (1 - rates->two / 2) * second);
}

/* ---- expressions ---- */

static const HostExpr *
times(Arena *arena, const HostExpr *a, int64_t n)
{
    return host_binary(arena, HOST_MUL, a, host_int(arena, n));
}

static const HostExpr *
over(Arena *arena, const HostExpr *a, int64_t n)
{
    return n == 1 ? a : host_binary(arena, HOST_DIV, a, host_int(arena, n));
}

/* left_alone() of left / parts programs. */
static const HostExpr *
left_alone_cost(Arena *arena, const StreamRates *rates, const HostExpr *sms, const HostExpr *left,
                int64_t parts)
{
    const HostExpr *shared = host_binary(
        arena, HOST_DIV, times(arena, left, llround(rates->shared)),
        parts == 1 ? sms : host_binary(arena, HOST_MUL, sms, host_int(arena, parts)));

    return host_binary(arena, HOST_MAX, host_int(arena, llround(rates->alone)), shared);
}

/* Clocks of an iteration at the end, with two blocks to an SM. */
static const HostExpr *
end_of_two(Arena *arena, const StreamRates *rates, const HostExpr *sms, const HostExpr *left)
{
    int64_t two = llround(rates->two * PARTS);
    const HostExpr *more = host_binary(arena, HOST_MAX, host_binary(arena, HOST_SUB, left, sms),
                                       host_int(arena, 0));
    /* as many as there are SMs, and of the others a part */
    const HostExpr *asking = host_binary(
        arena, HOST_ADD, times(arena, host_binary(arena, HOST_MIN, left, sms), PARTS),
        times(arena, more, two - PARTS));
    const HostExpr *first = left_alone_cost(arena, rates, sms, asking, PARTS);
    if (two >= 2 * PARTS)
        return first;
    const HostExpr *some = host_binary(arena, HOST_MIN, more, host_int(arena, 1));
    const HostExpr *second = times(
        arena,
        host_binary(arena, HOST_MUL, some,
                    left_alone_cost(arena, rates, sms, times(arena, more, 2), 1)),
        2 * PARTS - two);
    return host_binary(arena, HOST_ADD, first, over(arena, second, 2 * PARTS));
}

const HostExpr *
stream_cost(Arena *arena, const StreamRates *rates, const HostExpr *programs, const HostExpr *each,
            double start)
{
    const HostExpr *sms = host_device(arena, DEVICE_SM_COUNT);

    if (programs == NULL || each == NULL)
        return NULL;
    const HostExpr *places = rates->blocks > 1 ? times(arena, sms, rates->blocks) : sms;
    const HostExpr *rounds = host_binary(arena, HOST_DIV, programs, places),
                   *left = host_binary(arena, HOST_REM, programs, places);
    int64_t full = llround(fmax(rates->alone, rates->blocks * rates->shared));
    const HostExpr *end = rates->blocks > 1 ? end_of_two(arena, rates, sms, left)
                                            : left_alone_cost(arena, rates, sms, left, 1);
    const HostExpr *some = host_binary(arena, HOST_MIN, left, host_int(arena, 1));
    const HostExpr *iterations = host_binary(arena, HOST_ADD, times(arena, rounds, full),
                                             host_binary(arena, HOST_MUL, some, end));
    const HostExpr *starts = times(arena, host_binary(arena, HOST_ADD, rounds, some),
                                   llround(start));
    /* a part of a range has not the same whole number of iterations in each program */
    if (each->kind == HOST_DIV)
        iterations = host_binary(arena, HOST_DIV, host_binary(arena, HOST_MUL, each->a, iterations),
                                 each->b);
    else
        iterations = host_binary(arena, HOST_MUL, each, iterations);
    return host_binary(arena, HOST_ADD, starts, iterations);
}
