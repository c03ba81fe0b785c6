/* unseen_rows.h - whether a kernel shows how many rows its programs have. */
#ifndef TILEC_UNSEEN_ROWS_H
#define TILEC_UNSEEN_ROWS_H

#include "compiler/ir/tir.h"

/* Whether a kernel does, element by element, what it does with programs of fewer rows: `wide` and
 * `narrow` are the same kernel as the front end makes it, with two values of one parameter. */
bool rows_are_unseen(Arena *arena, const TirFn *wide, const TirFn *narrow);

#endif
