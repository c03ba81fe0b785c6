/* builtins.c - the table of built-in functions. */
#include "dsl/builtins.h"

#include <string.h>

static const BuiltinInfo table[BUILTIN_COUNT] = {
#define BUILTIN(name, text, least, most, named, as_written, usage, help)                           \
    {text, least, most, named, as_written, usage, help},
#include "dsl/builtins.def"
#undef BUILTIN
};

const BuiltinInfo *
builtin_info(Builtin builtin)
{
    return &table[builtin];
}

_Static_assert(BUILTIN_COUNT <= 64, "builtin_find has one bit for each");

Builtin
builtin_find(const char *name)
{
    const uint32_t first = (unsigned char)name[0];
    /* those that begin like it: what differs leaves no 0 to go below */
    uint64_t like = 0
#define BUILTIN(enumerator, text, least, most, named, as_written, usage, help)                     \
    | (uint64_t)((((unsigned char)text[0] ^ first) - 1) >> 31) << BUILTIN_##enumerator
#include "dsl/builtins.def"
#undef BUILTIN
        ;

    for (; like != 0; like &= like - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(like);
        if (strcmp(table[k].name, name) == 0)
            return (Builtin)k;
    }
    return BUILTIN_COUNT;
}

uint32_t
builtin_argument(Builtin builtin, const char *name)
{
    const char *at = builtin_info(builtin)->named;

    for (uint32_t k = 0; *at != '\0'; k++) {
        size_t n = strcspn(at, " ");
        if (strlen(name) == n && memcmp(at, name, n) == 0)
            return k;
        at += n + strspn(at + n, " ");
    }
    return BUILTIN_NAMED;
}
