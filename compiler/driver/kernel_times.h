/* kernel_times.h - how long the kernels of a compilation take, noted while passes run. */
#ifndef TILEC_KERNEL_TIMES_H
#define TILEC_KERNEL_TIMES_H

#include "compiler/cost/kernel_time.h"
#include "compiler/cost/roofline.h"

typedef struct TimedKernel {
    const TirFn *fn;
    const KernelTime *time; /* NULL: not known */
    const Roofline *roof;   /* likewise, or not asked for */
} TimedKernel;

typedef struct KernelTimes {
    VEC(TimedKernel) of;
    bool roofs; /* wanted */
} KernelTimes;

/* PassRun.seen, for a KernelTimes: it can be said when a kernel has its plan and is not in roles
 * yet. */
void kernel_times_see(void *times, PassContext *px, const TirFn *fn, const char *pass);
/* NULL: not known. */
const KernelTime *kernel_times_of(const KernelTimes *times, const TirFn *fn);
const Roofline *kernel_roof_of(const KernelTimes *times, const TirFn *fn);

#endif
