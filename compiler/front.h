/* front.h - source text to checked tile IR, with the compiler's own library behind `use`. */
#ifndef TILEC_FRONT_H
#define TILEC_FRONT_H

#include "compiler/ir/tir.h"
#include "compiler/target.h"
#include "compiler/tilec.h"

typedef struct FrontInput {
    const TilecOptions *options; /* defines, kernel, import */
    const Target *target;
    const SourceFile *file;
} FrontInput;

/* NULL after errors.  When `tree` is given, the program is printed into it as the parser
 * understood it, and NULL is returned. */
TirModule *front_end(Arena *arena, Diag *diag, const FrontInput *input, Buf *tree);

#endif
