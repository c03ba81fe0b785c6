/* acc_classes.h - sums of products that live in one set of registers, their register class. */
#ifndef TILEC_PASSES_ACC_CLASSES_H
#define TILEC_PASSES_ACC_CLASSES_H

#include "compiler/ir/tir.h"

typedef struct MmaAccClasses {
    uint32_t *of; /* by value's id: the number of its register class, from 1 on; 0: it has none */
    /* by value's id: is made where it stands, and not when it is asked for: something that it is
       made of is in its register class, and another value is by then */
    bool *at_once;
} MmaAccClasses;

/* Whether a value with a register class is in its registers from the start, and not moved there. */
bool is_made_at_acc_class(const TirVal *value);

MmaAccClasses mma_acc_classes(Arena *arena, const TirFn *fn);

#endif
