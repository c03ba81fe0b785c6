/* group_time.c - estimates the time of an iteration for a division among warp groups that need not be built.
 * `search` orders its list by it.  Plans that were built have a time of their own (kernel_time.h).
 *
 * An instruction of a product reads its operands from shared memory while it runs, so products take
 * the time of the tensor cores or that of the port, whichever is longer.  Tile arithmetic (its
 * busiest unit) runs under them, but not perfectly: the two add up as a norm with a power p between
 * 1 (one after the other) and infinity (perfectly hidden); p is larger when the next iteration's
 * first product runs during the arithmetic.  An iteration also takes at least as long as one warp group's
 * chain of dependent products and arithmetic.  In a loop of nothing but products, tensor cores and port are
 * combined by such a norm.  A value that goes from one warp group to another costs a barrier of all.
 */
#include "compiler/cost/group_plans.h"

#include "compiler/cost/unit_norm.h"

void
group_clocks(const Target *target, const Flow *flow, GroupPlan *plan)
{
    const GroupTimes *times = &target->group_times;
    GroupClocks *c = &plan->clocks;

    c->port = (double)(plan->traffic + plan->copied) / target->chip.shared_bytes;
    c->special = flow->special / target->chip.special_ops;
    c->lanes = flow->lanes / target->chip.float_ops;
    c->chain = (c->tensor + c->special + c->lanes) / plan->consumers + times->chain;
    if (flow->n_values == 0)
        c->chain = 0;
    double arithmetic = unit_larger(c->special, c->lanes);
    double power = plan->pipelined ? times->power_pipelined : times->power_plain;
    c->exchange = plan->exchanges ? times->exchange : 0;
    if (flow->n_values == 0 && arithmetic <= 0) {
        c->total = unit_norm(c->tensor, c->port, times->power_mmas) + times->iteration;
        return;
    }
    double units = unit_norm(unit_larger(c->tensor, c->port), arithmetic, power);

    c->total = unit_larger(units, c->chain) + c->exchange;
}
