/* role_cases.h - small launches that cover the ways through a kernel's roles. */
#ifndef TILEC_PASSES_ROLE_CASES_H
#define TILEC_PASSES_ROLE_CASES_H

#include "compiler/passes/check/role_walk.h"

typedef struct RoleCases RoleCases;

/* Launches in which main loops have 0 to `trips` iterations and more, for each consumer whose count
 * can differ from the others'.  `programs` say which sizes and axes matter.  Constants have smaller
 * values in their place where these do, if not `as_written`. */
RoleCases *role_cases(Arena *arena, const TirFn *fn, const WalkProgram *const *programs,
                      uint32_t n_programs, uint32_t trips, bool as_written);
/* On to the next launch, or the first; false after the last.  `setting` gets sizes and scalars.
 * `other_rests`: sizes are less than usual by part of a tile. */
bool role_cases_next(RoleCases *cases, WalkSetting *setting, bool other_rests);

#endif
