/* expression.h - the launch expressions of the metadata: grid extents and conditions.
 *
 * C's operators and precedence over named sizes and scalars, and min, max, cdiv.  A value is an
 * integer unless a float takes part.
 */
#ifndef TILEC_CUDA_EXPRESSION_H
#define TILEC_CUDA_EXPRESSION_H

#include <stdint.h>

#include "compiler/base/fault.h"

typedef struct Number {
    bool is_float;
    int64_t integer;
    double real; /* when is_float */
} Number;

/* Finds a name's value; false when there is none. */
typedef bool (*NameLookup)(const void *user, const char *name, size_t n, Number *out);

bool expression_evaluate(const char *text, NameLookup lookup, const void *user, Number *out,
                         Fault *fault);

static inline double
number_real(Number n)
{
    return n.is_float ? n.real : (double)n.integer;
}

static inline bool
number_true(Number n)
{
    return n.is_float ? n.real != 0 : n.integer != 0;
}

#endif
