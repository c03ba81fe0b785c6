/* several_targets.h - a program that is compiled for several targets, `-arch sm_80,sm_90`, for one
 * header. */
#ifndef TILEC_DRIVER_SEVERAL_TARGETS_H
#define TILEC_DRIVER_SEVERAL_TARGETS_H

#include "compiler/driver/compilation.h"

bool targets_are_several(const TilecOptions *options);
/* One after the other by `compile`, until one of them breaks down. */
void targets_compile(Compilation *c, void (*compile)(Compilation *));
/* What was said: once where it is so for all targets; else with the names of those.  Returns how
 * many warnings there are. */
uint32_t targets_print(Compilation *c, Buf *out);

#endif
