/* header_targets.c - in a generated header with code for several targets: the functions of a kernel
 * go by the target whose code is loaded.
 *
 * The code of each has functions of its own, KERNEL_sm_90_launch and so on, with the same
 * arguments.
 */
#include <string.h>

#include "compiler/emit/header.h"

/* Before a GPU is chosen: whether there is a target that takes these arguments. */
static void
write_check(const HeaderWriter *w, const HeaderChoice *choice)
{
    Buf *out = w->out;

    buf_printf(
        out,
        "/* CUDA_SUCCESS when the code for one of the targets can run with these arguments, else why the last "
        "cannot;\n * a launch asks what the code that is loaded asks. */\n"
        "static inline CUresult\n%s_check(const %s_args *args, char *message, size_t bytes)\n{\n"
        "    CUresult result = %s_check(args, message, bytes);\n\n",
        choice->prefix, choice->prefix, choice->cases[0].prefix);
    for (uint32_t b = 1; b < w->n_builds; b++)
        buf_printf(
            out,
            "    if (result != CUDA_SUCCESS)\n        result = %s_check(args, message, bytes);\n",
            choice->cases[b].prefix);
    buf_add(out,
            "    if (result == CUDA_SUCCESS && message && bytes)\n        message[0] = '\\0';\n"
            "    return result;\n}\n\n");
}

/* A function of the module and the arguments that not every target has. */
static void
write_number(const HeaderWriter *w, const HeaderChoice *choice, const char *type, const char *name,
             const bool *has)
{
    Buf *out = w->out;

    buf_printf(out,
               "static inline %s\n%s_%s(const %s_module *module, const %s_args *args)\n{\n"
               "    if (!module || !args)\n        return 0;\n    switch (module->target) {\n",
               type, choice->prefix, name, w->stem, choice->prefix);
    for (uint32_t b = 0; b < w->n_builds; b++)
        if (has[b])
            buf_printf(out, "    case %u: return %s_%s(module, args);\n", b,
                       choice->cases[b].prefix, name);
    buf_add(out, "    default: return 0;\n    }\n}\n\n");
}

static bool
takes_memory(const TirFn *fn, KernelForms forms, const char *name)
{
    for (uint32_t k = 0; k == 0 || k < forms.n; k++) {
        const TirFn *form = k < forms.n ? forms.at[k].fn : fn;
        for (uint32_t i = 0; i < form->memories.n; i++)
            if (strcmp(form->memories.at[i].name, name) == 0)
                return true;
    }
    return false;
}

/* KERNEL_bytes_NAME and, where some target has several forms, KERNEL_form. */
static void
write_numbers(const HeaderWriter *w, uint32_t k, const HeaderChoice *choice,
              const HeaderMemories *memories)
{
    Arena *arena = w->out->arena;
    bool *has = arena_array(arena, bool, w->n_builds), some = false;

    for (uint32_t i = 0; i < memories->n; i++) {
        const char *name = memories->at[i].name;
        for (uint32_t b = 0; b < w->n_builds; b++) {
            HeaderWriter own = header_of_build(w, b);
            has[b] = takes_memory(own.module->fns.at[k], header_forms(&own, k), name);
        }
        write_number(w, choice, "size_t", arena_printf(arena, "bytes_%s", name), has);
    }
    for (uint32_t b = 0; b < w->n_builds; b++) {
        HeaderWriter own = header_of_build(w, b);
        has[b] = header_forms(&own, k).n > 0;
        some |= has[b];
    }
    if (some)
        write_number(w, choice, "int", "form", has);
}

void
header_target_choice(const HeaderWriter *w, uint32_t k, const HeaderMemories *memories)
{
    const TirFn *fn = w->module->fns.at[k];
    HeaderCase *cases = arena_array(w->out->arena, HeaderCase, w->n_builds);

    for (uint32_t b = 0; b < w->n_builds; b++) {
        HeaderWriter own = header_of_build(w, b);
        cases[b] = (HeaderCase){header_shared_prefix(&own, fn), own.target};
    }
    HeaderChoice choice = {.prefix = header_args_prefix(w, fn),
                           .word = "target",
                           .expression = "module->target",
                           .cases = cases,
                           .n = w->n_builds};
    write_check(w, &choice);
    write_numbers(w, k, &choice, memories);
    header_choice(w, fn, &choice);
}
