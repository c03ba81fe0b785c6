/* builtins.c - the table of built-in functions. */
#include "dsl/builtins.h"

#include "compiler/base/arena.h"

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

Builtin
builtin_find(const char *name)
{
    for (uint32_t k = 0; k < BUILTIN_COUNT; k++)
        if (same_text(table[k].name, name))
            return (Builtin)k;
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
