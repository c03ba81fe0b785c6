/* switches.c - the table of switches: what passes and the lowering ask about. */
#include "compiler/passes/pass.h"

#include <string.h>

const SwitchInfo switch_table[] = {
#define SWITCH(name, first, help) {#name, first, help},
#include "compiler/passes/switches.def"
#undef SWITCH
};
const uint32_t switch_count = sizeof switch_table / sizeof switch_table[0];

_Static_assert(sizeof switch_table / sizeof switch_table[0] <= 64, "Switched.on has one bit a row");

static char
plain(char c)
{
    return c == '_' ? '-' : c;
}

bool
option_is(const char *have, const char *name, size_t n)
{
    size_t i = 0;

    while (i < n && have[i] != '\0' && plain(have[i]) == plain(name[i]))
        i++;
    return i == n && have[i] == '\0';
}

int32_t
switch_find(const char *name, size_t n)
{
    for (uint32_t k = 0; k < switch_count; k++) {
        if (option_is(switch_table[k].name, name, n))
            return (int32_t)k;
    }
    return -1;
}

bool
switch_is_on(const PassContext *px, const char *name)
{
    uint32_t row = 0;

    while (row < switch_count && !same_text(switch_table[row].name, name))
        row++;
    uint64_t bit = row == switch_count ? 0 : (uint64_t)1 << row;
    if ((px->switched.on & bit) != 0)
        return true;
    return bit != 0 && (px->switched.off & bit) == 0 && px->level >= switch_table[row].level;
}
