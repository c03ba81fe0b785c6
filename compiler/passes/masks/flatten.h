/* flatten.h - a part of pass flatten. */
#ifndef TILEC_PASSES_FLATTEN_H
#define TILEC_PASSES_FLATTEN_H

#include "compiler/passes/pass.h"

/* Products over a first dimension become as many products; false: an error was said. */
bool flatten_products(PassContext *px, TirFn *fn);

#endif
