/* kernel_time.h - the time of a planned kernel: the figure that `search --built`, `auto`, --report
 * and --dump-schedule quote.
 *
 * It is that of consumer_time.h for the plan as the pass `plan` has built it, and for tensors of
 * given sizes.
 */
#ifndef TILEC_KERNEL_TIME_H
#define TILEC_KERNEL_TIME_H

#include "compiler/cost/consumer_time.h"

typedef struct KernelTime {
    const int64_t *sizes; /* of the tensors, by index */
    PlanHints plan;       /* as it was built */
    ConsumerWork work;
    ConsumerTrips trips;
    ConsumerClocks clocks;
    bool pipelined;
    double microseconds; /* of a launch, on a chip at its full clock */
} KernelTime;

/* Microseconds of a launch that takes so many clocks. */
double kernel_microseconds(const Target *target, const ConsumerClocks *clocks);
/* The time of a kernel on which the passes up to `plan` have run with `hints`, for these sizes
 * (NULL: its usual ones).  NULL: it has no plan, or the target has no times for such kernels. */
KernelTime *kernel_time(Arena *arena, const Target *target, const TirFn *fn, const PlanHints *hints,
                        const int64_t *sizes);
/* "an iteration takes 1988 clocks, a launch for B=8 S=4096 384.3 us" */
void kernel_time_text(const TirFn *fn, const KernelTime *time, Buf *out);

#endif
