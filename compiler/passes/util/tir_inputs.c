/* tir_inputs.c - goes through what a value is computed from. */
#include "compiler/passes/util/tir_inputs.h"

TirInputs
tir_inputs(Arena *arena, const TirVal *value)
{
    return (TirInputs){.arena = arena, .first = value};
}

/* Notes that the walk came by; false: it has before. */
static bool
is_new(TirInputs *in, const TirVal *value)
{
    uint32_t word = value->id / 32, bit = 1u << value->id % 32;

    if (word >= in->words) {
        uint32_t words = word < 2 * in->words ? 2 * in->words : word + 1;
        uint32_t *seen = arena_array(in->arena, uint32_t, words);
        for (uint32_t k = 0; k < in->words; k++)
            seen[k] = in->seen[k];
        in->seen = seen;
        in->words = words;
    }
    bool seen = (in->seen[word] & bit) != 0;
    in->seen[word] |= bit;
    return !seen;
}

bool
tir_inputs_next(TirInputs *in)
{
    if (in->first != NULL) {
        in->value = (TirVal *)in->first;
        in->first = NULL;
        return true;
    }
    while (in->left.n > 0) {
        in->value = in->left.at[--in->left.n];
        if (is_new(in, in->value))
            return true;
    }
    return false;
}

void
tir_inputs_add(TirInputs *in, const TirVal *value)
{
    vec_push(in->arena, &in->left, (TirVal *)value);
}

void
tir_inputs_follow(TirInputs *in)
{
    const TirOp *def = in->value->def;

    for (uint32_t k = def == NULL ? 0 : def->n_args; k-- > 0;)
        tir_inputs_add(in, def->args[k]);
}
