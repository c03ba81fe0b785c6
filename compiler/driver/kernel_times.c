/* kernel_times.c - the list of kernels and their times; --report quotes each as it comes. */
#include "compiler/driver/kernel_times.h"

#include <string.h>

void
kernel_times_see(void *times, PassContext *px, const TirFn *fn, const char *pass)
{
    KernelTimes *list = times;

    if (fn->plan == NULL || strcmp(pass, "plan") != 0)
        return;
    KernelTime *time = kernel_time(px->arena, px->target, fn, &px->plan, NULL);
    vec_push(px->arena, &list->of, ((TimedKernel){fn, time}));
    if (time == NULL || px->report == NULL)
        return;
    buf_add(px->report, "time: ");
    kernel_time_text(fn, time, px->report);
    buf_char(px->report, '\n');
}

const KernelTime *
kernel_times_of(const KernelTimes *times, const TirFn *fn)
{
    for (uint32_t k = times->of.n; k-- > 0;) {
        if (times->of.at[k].fn == fn)
            return times->of.at[k].time;
    }
    return NULL;
}
