/* acc_classes.h - sums of products that live in one set of registers, their register class. */
#ifndef TILEC_PASSES_ACC_CLASSES_H
#define TILEC_PASSES_ACC_CLASSES_H

#include "compiler/ir/tir.h"

typedef struct MmaAccClasses {
    uint32_t *of; /* by value's id: the number of its register class, from 1 on; 0: it has none */
    /* by value's id: evaluated where it stands, not lazily, because by the time it is needed the
       register class of an operand holds another value */
    bool *at_once;
} MmaAccClasses;

/* Whether a value has the type of a product's sum. */
bool mma_may_be_sum(const TirVal *value);
/* Whether a value is computed directly in the registers of its class, without a move. */
bool is_made_at_acc_class(const TirVal *value);

MmaAccClasses mma_acc_classes(Arena *arena, const TirFn *fn);

#endif
