/* mma_use.c - products on the units of an SM: the rates are the target's, the shapes those of its MMA forms. */
#include "compiler/cost/mma_use.h"

MmaUse
mma_use(const Target *target, double rows, double cols, double depth, bool left_in_shared)
{
    const MmaForm *form = target_role_mma(target, DT_BF16);
    double rate = target->chip.mma_flops[form->issuer];
    double instruction = form->issuer == BY_THREAD ? form->m : GROUP_ROWS; /* rows */
    double each = cols + (left_in_shared ? instruction : 0);

    return (MmaUse){.clocks = 2 * rows * cols * depth / rate,
                    .bytes = rows / instruction * each * depth * OPERAND_BYTES};
}

const MmaForm *
mma_of_warp(const Target *target)
{
    return target_mma(target, BY_WARP, DT_BF16);
}
