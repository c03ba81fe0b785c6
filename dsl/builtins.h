/* builtins.h - the built-in functions: their names and arguments (builtins.def), not what they
 * mean. */
#ifndef TILEC_DSL_BUILTINS_H
#define TILEC_DSL_BUILTINS_H

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
typedef enum Builtin {
#define BUILTIN(name, text, least, most, named, as_written, usage, help) BUILTIN_##name,
#include "dsl/builtins.def"
#undef BUILTIN
    BUILTIN_COUNT
} Builtin;
/* clang-format on */

typedef struct BuiltinInfo {
    const char *name;
    uint32_t least, most; /* arguments without a name */
    const char *named;    /* those with one, blanks between them */
    bool as_written;      /* it looks at them itself, before they are evaluated */
    const char *usage, *help;
} BuiltinInfo;

enum { BUILTIN_NAMED = 3, BUILTIN_ARGS = 6 }; /* the most that one has */

const BuiltinInfo *builtin_info(Builtin builtin);
/* BUILTIN_COUNT: there is none of that name. */
Builtin builtin_find(const char *name);
/* Which of its arguments with a name that is; BUILTIN_NAMED: it has none of that name. */
uint32_t builtin_argument(Builtin builtin, const char *name);

#endif
