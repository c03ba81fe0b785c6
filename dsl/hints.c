/* hints.c - what to write in place of words of other languages. */
#include "dsl/hints.h"

#include <stddef.h>
#include <string.h>

#define LOOP "a loop is `for i in lo..hi { .. }`, with bounds that may be known at run time only"
#define LEFT "a loop runs to its end: put the rest of its body into an `if`"
#define FUNCTION "a function is `fn name(a, b) { .. }`"
#define MODULE "the functions of a module come with `use name;`"
#define VALUE "`let x = ..` names a value, `var x = ..` one that changes"
#define SHAPE "the elements of a tile keep their places: x[:, None] adds a dimension, a sum takes one away, and " \
              "pack(a, b) makes one of two ranges"
#define PRODUCT "a product of matrices is mma(a, b) or mma(a, b, acc)"
#define WIDER "tiles grow to the shape of what they meet; x[:, None] adds a dimension"
#define INDICES "the indices 0..N are iota(N)"
#define PROGRAMS "`grid m in tiles(S, 64), h in H;` names the programs"

static const struct {
    const char *word, *hint;
} hints[] = {
    {"while", LOOP},
    {"do", LOOP},
    {"break", LEFT},
    {"continue", LEFT},
    {"elif", "write `else if`"},
    {"def", FUNCTION},
    {"function", FUNCTION},
    {"import", MODULE},
    {"include", MODULE},
    {"const", VALUE},
    {"int", VALUE},
    {"float", VALUE},
    {"and", "write `&&`"},
    {"or", "write `||`"},
    {"not", "write `!`"},
    {"reshape", SHAPE},
    {"view", SHAPE},
    {"flatten", SHAPE},
    {"transpose", "the transpose of x is x.T"},
    {"trans", "the transpose of x is x.T"},
    {"permute", "the transpose of x is x.T"},
    {"dot", PRODUCT},
    {"matmul", PRODUCT},
    {"gemm", PRODUCT},
    {"broadcast_to", WIDER},
    {"expand_dims", WIDER},
    {"arange", INDICES},
    {"program_id", PROGRAMS},
    {"maximum", "the larger one is max(a, b)"},
    {"minimum", "the smaller one is min(a, b)"},
    {"select", "a choice is where(c, a, b)"},
    {"to", "a range is `lo..hi`, a conversion `x as f16`"},
};

const char *
word_hint(const char *word)
{
    for (size_t k = 0; k < sizeof hints / sizeof hints[0]; k++)
        if (strcmp(hints[k].word, word) == 0)
            return hints[k].hint;
    return NULL;
}
