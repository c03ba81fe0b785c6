/* consumer_registers.c - whether a consumer's values fit its registers, before there is code
 * (consumer_time.h). */
#include "compiler/cost/consumer_time.h"

/* Whether a consumer's share of a product fits beside its sums and the operand of a product that
 * follows (none is in flight then: roles_list.c), and its own results do.  A quarter of the sums is
 * what ptxas wants beyond them before it runs products side by side: with less it says C7512, at
 * some head dimensions (tests/ptx/head_dims.py). The quarters are round figures, too large by some
 * registers in loops of one or two consumers; in those of three, which begin with 128 registers,
 * one must be left over. */
static bool
share_fits(const ConsumerWork *w, uint32_t consumers, int64_t registers)
{
    enum { BESIDE_RESULTS = 24, ROUNDED = 4, LEFT_OVER = 1 };
    int64_t most = consumers > 2 ? registers - LEFT_OVER : registers + ROUNDED;

    return w->accumulators + w->share + w->fresh / 4 + BESIDE_SUMS <= most &&
           w->accumulators + w->accumulators / 4 + w->fresh + w->vector <=
               registers + BESIDE_RESULTS;
}

/* Registers of a thread, at least.  Where consumers share a product, one tile that is computed
 * takes the place of a result, and masks are made as they are used.
 *
 * The constants, and the quarter of the new results that is added, are round figures that keep
 * plans which ptxas 13.0 spills out of the list: addresses and counters; the same in loops with a
 * shared product; a mask's index vectors; a vector that a consumer loads itself. */
int64_t
consumer_registers_needed(const ConsumerWork *w)
{
    enum { SOME_REGISTERS = 24, FEW_REGISTERS = 5, MASK_REGISTERS = 4, VECTOR_REGISTERS = 10 };
    int64_t needed = w->accumulators + w->fresh + w->sums;

    if (w->sums > 0 &&
        w->swap_ab) /* a vector lies along the columns: a thread has a quarter of it */
        needed += (int64_t)w->vectors / 4;
    if (w->turns || (w->sums > 0 && consumer_only_mmas(w))) /* one product at a time */
        return needed + SOME_REGISTERS + (w->turns && w->vectors > 0 ? VECTOR_REGISTERS : 0);
    if (w->sums > 0 &&
        w->swap_ab) /* a vector lies along the columns: a thread has a quarter of it */
        needed += (int64_t)w->vectors / 4;
    if (!w->coop_k)
        return needed + SOME_REGISTERS + w->fresh / 4 + (w->program_masks ? MASK_REGISTERS : 0) +
               (w->vectors > 0 ? VECTOR_REGISTERS : 0);
    needed += w->vector + FEW_REGISTERS; /* that is added to a tile, or to what it begins with */
    if (w->kept > w->fresh / 2)
        return needed + w->kept - w->fresh / 2;
    if (w->positions)
        return needed + w->fresh / 4 + (w->program_masks ? MASK_REGISTERS : 0);
    return needed;
}

bool
consumer_fits_registers(const ConsumerWork *work, uint32_t consumers, uint32_t registers)
{
    return consumer_registers_needed(work) <= registers &&
           (work->share <= 0 || share_fits(work, consumers, registers));
}
