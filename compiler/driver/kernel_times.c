/* kernel_times.c - the list of kernels and their times; --report quotes each as it comes. */
#include "compiler/driver/kernel_times.h"

#include <string.h>

/* What was noted last. */
static TimedKernel
noted(const KernelTimes *times, const TirFn *fn)
{
    for (uint32_t k = times->of.n; k-- > 0;)
        if (times->of.at[k].fn == fn)
            return times->of.at[k];
    return (TimedKernel){0};
}

/* Plans are timed as `plan` leaves them; what a launch is bound by is seen behind `split-exp2`. */
void
kernel_times_see(void *times, PassContext *px, const TirFn *fn, const char *pass)
{
    KernelTimes *list = times;

    if (list->roofs && strcmp(pass, "split-exp2") == 0)
        vec_push(px->arena, &list->of,
                 ((TimedKernel){fn, noted(list, fn).time, roofline_of(px->arena, px->target, fn)}));
    if (fn->plan == NULL || strcmp(pass, "plan") != 0)
        return;
    KernelTime *time = kernel_time(px->arena, px->target, fn, &px->plan, NULL);
    vec_push(px->arena, &list->of, ((TimedKernel){fn, time, NULL}));
    if (time == NULL || px->report == NULL)
        return;
    buf_add(px->report, "time: ");
    kernel_time_text(fn, time, px->report);
    buf_char(px->report, '\n');
}

const KernelTime *
kernel_times_of(const KernelTimes *times, const TirFn *fn)
{
    return noted(times, fn).time;
}

const Roofline *
kernel_roof_of(const KernelTimes *times, const TirFn *fn)
{
    return noted(times, fn).roof;
}
