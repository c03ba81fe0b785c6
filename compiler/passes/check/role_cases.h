/* role_cases.h - small launches that take the roles of a kernel through all they can do. */
#ifndef TILEC_PASSES_ROLE_CASES_H
#define TILEC_PASSES_ROLE_CASES_H

#include "compiler/passes/check/role_walk.h"

typedef struct RoleCases RoleCases;

/* Launches whose main loops have from none to `trips` iterations and more, for each consumer that can
 * have its own number.  `programs` decide what matters. */
RoleCases *role_cases(Arena *arena, const TirFn *fn, const WalkProgram *const *programs,
                      uint32_t n_programs, uint32_t trips);
/* On to the next launch, or the first; false after the last.  `setting` gets sizes and scalars. */
bool role_cases_next(RoleCases *cases, WalkSetting *setting);

#endif
