/* barriers.h - what the barriers of a kernel's shared memory are called. */
#ifndef TILEC_EMIT_BARRIERS_H
#define TILEC_EMIT_BARRIERS_H

#include "compiler/ir/tir.h"

/* `//` lines for the head of a PTX file, "//   barriers  229376 4 $A_0 full": where the first lies, how many stand behind one
 * another, and the name that --dump-schedule has.  Of a kernel with a plan for warp groups. */
void barriers_comment(const TirFn *fn, Buf *out);

#endif
