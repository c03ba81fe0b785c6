/* header_names.c - the names of a generated header. */
#include <ctype.h>
#include <string.h>

#include "compiler/emit/header.h"

/* A user's name as a C and C++ identifier: keywords, and macros of the headers that are included, get a
 * trailing underscore. */
const char *
header_identifier(Arena *arena, const char *name)
{
    /* clang-format off */
    static const char *const keywords[] = {
        "EOF", "INT32_MAX", "INT32_MIN", "INT64_C", "INT64_MAX", "INT64_MIN", "NULL", "SIZE_MAX",
        "UINT32_MAX", "UINT64_C", "UINT64_MAX", "alignas", "alignof", "and", "and_eq", "asm",
        "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "char16_t",
        "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept",
        "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype",
        "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "errno", "explicit",
        "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int",
        "linux", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
        "operator", "or", "or_eq", "private", "protected", "public", "register",
        "reinterpret_cast", "requires", "restrict", "return", "short", "signed", "sizeof",
        "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
        "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof",
        "typeof_unqual", "union", "unix", "unsigned", "using", "virtual", "void", "volatile",
        "wchar_t", "while", "xor", "xor_eq"};
    /* clang-format on */

    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i], name) == 0)
            return arena_printf(arena, "%s_", name);
    return name;
}

const char *
header_args_prefix(const HeaderWriter *w, const TirFn *fn)
{
    const char *name = w->kernel != NULL ? w->kernel->name : fn->name;

    if (strncmp(name, w->stem, strlen(w->stem)) == 0)
        return name;
    return arena_printf(w->out->arena, "%s_%s", w->stem, name);
}

const char *
header_shared_prefix(const HeaderWriter *w, const TirFn *fn)
{
    const char *name = header_args_prefix(w, fn);

    return w->target == NULL ? name : arena_printf(w->out->arena, "%s_%s", name, w->target);
}

HeaderWriter
header_of_build(const HeaderWriter *w, uint32_t build)
{
    const HeaderBuild *of = &w->builds[build];
    HeaderWriter own = *w;

    own.module = of->module;
    own.facts = of->facts;
    own.code = &of->code;
    own.target = w->n_builds > 1 ? of->target : NULL;
    return own;
}

const char *
header_prefix(const HeaderWriter *w, const TirFn *fn)
{
    const char *shared = header_shared_prefix(w, fn);

    return w->kernel == NULL ? shared : arena_printf(w->out->arena, "%s_v%u", shared, w->form);
}

KernelForms
header_forms(const HeaderWriter *w, uint32_t k)
{
    bool several = w->facts->forms != NULL && w->facts->forms[k].n > 1;

    return several ? w->facts->forms[k] : (KernelForms){0};
}

uint32_t
header_function(const HeaderWriter *w, uint32_t k)
{
    uint32_t n = 0;

    for (uint32_t j = 0; j < k; j++)
        n += header_forms(w, j).n > 0 ? header_forms(w, j).n : 1;
    return n;
}

const char *
header_upper(Arena *arena, const char *name)
{
    char *copy = arena_strndup(arena, name, strlen(name));

    for (char *c = copy; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return copy;
}

/* A memory as a member of the arguments. */
const char *
header_memory(Arena *arena, const TirMemory *memory)
{
    return arena_printf(arena, "%s_%s", memory->kind == MEMORY_SCRATCH ? "scratch" : "workspace",
                        memory->name);
}
