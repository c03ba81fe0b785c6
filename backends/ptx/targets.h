/* targets.h - the target records, one file each. */
#ifndef TILEC_BACKENDS_PTX_TARGETS_H
#define TILEC_BACKENDS_PTX_TARGETS_H

#include "compiler/target.h"

extern const Target target_sm80, target_sm90, target_sm100;

/* PTX ISA 9.7.15.5 (warp-level mma): the shapes every target from sm_80 on has. */
extern const MmaAtom warp_mma_atoms[];
enum { WARP_MMA_ATOMS = 2 };

#endif
