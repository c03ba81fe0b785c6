/* mma_use.c - products on the units of an SM: the rates are the target's, the shapes those of its
 * MMA forms. */
#include "compiler/cost/mma_use.h"

MmaUse
mma_use(const Target *target, const MmaForm *form, double rows, double cols, double depth,
        bool left_in_shared)
{
    double rate = target_mma_flops(target, form);
    double instruction = form->issuer == BY_THREAD ? form->m : GROUP_ROWS; /* rows */
    double each = cols + (left_in_shared ? instruction : 0);

    return (MmaUse){.clocks = 2 * rows * cols * depth / rate,
                    .bytes = mma_bytes(form, rows / instruction * each * depth)};
}

double
mma_bytes(const MmaForm *form, double elements)
{
    return elements * form->step_bytes / form->k;
}
