/* header_forms.c - in a generated header, a kernel of several forms: KERNEL_form says which one
 * these arguments take, and the functions of the kernel go by it. */
#include "compiler/emit/header.h"

static void
write_form(const HeaderWriter *w, const TirFn *fn, KernelForms forms)
{
    Buf *out = w->out;
    const char *prefix = header_prefix(w, fn);

    buf_printf(
        out,
        "/* The form of the kernel that takes these arguments: the one with the fewest clocks, as estimated. "
        "*/\nstatic inline int\n%s_form(const %s_module *module, const %s_args *args)\n{\n"
        "    if (!module || !args)\n        return 0;\n",
        prefix, w->stem, header_args_prefix(w, fn));
    header_sizes(w, fn);
    buf_printf(
        out, "    int64_t clocks[%u];\n    int least = 0;\n\n    (void)module;\n    (void)args;\n",
        forms.n);
    for (uint32_t k = 0; k < forms.n; k++) {
        buf_printf(out, "    clocks[%u] = ", k);
        header_expression(out, fn, forms.at[k].cost, true);
        buf_add(out, ";\n");
    }
    buf_printf(
        out,
        "    for (int k = 1; k < %u; k++)\n        least = clocks[k] < clocks[least] ? k : least;\n"
        "    return least;\n}\n\n",
        forms.n);
}

/* The functions of the language that C does not have: as macros they would be written out again and
 * again. */
void
header_forms_part(const HeaderWriter *w)
{
    bool some = false;

    for (uint32_t b = 0; b < w->n_builds; b++) {
        HeaderWriter own = header_of_build(w, b);
        for (uint32_t k = 0; k < own.module->fns.n; k++)
            some |= header_forms(&own, k).n > 0;
    }
    if (some)
        buf_add(
            w->out,
            "#ifndef TILEC_GENERATED_FORMS\n#define TILEC_GENERATED_FORMS\n"
            "static inline int64_t\ntilec_min(int64_t a, int64_t b)\n{\n    return a < b ? a : b;\n}\n"
            "static inline int64_t\ntilec_max(int64_t a, int64_t b)\n{\n    return a > b ? a : b;\n}\n"
            "#endif /* TILEC_GENERATED_FORMS */\n\n");
}

void
header_cases(const HeaderWriter *w, const HeaderChoice *choice, const char *expression,
             const char *line)
{
    buf_printf(w->out, "    switch (%s) {\n", expression);
    for (uint32_t k = 0; k < choice->n; k++) {
        buf_printf(w->out, k + 1 < choice->n ? "    case %u: " : "    default: ", k);
        for (const char *c = line; *c != '\0'; c++) {
            if (*c == '%')
                buf_add(w->out, choice->cases[k].prefix);
            else if (*c == '#')
                buf_add(w->out, choice->cases[k].part);
            else
                buf_char(w->out, *c);
        }
        buf_add(w->out, "\n");
    }
    buf_add(w->out, "    }\n}\n\n");
}

/* KERNEL_pack, _node: a launch put together. */
static void
write_call(const HeaderWriter *w, const HeaderChoice *choice, const char *args)
{
    const char *prefix = choice->prefix, *word = choice->word;
    Buf *out = w->out;

    buf_printf(out,
               "/* A launch, put together, of one of the %ss.  It stays where it was packed. */\n"
               "typedef struct {\n    int %s;\n    union {\n",
               word, word);
    for (uint32_t k = 0; k < choice->n; k++)
        buf_printf(out, "        %s_call %s;\n", choice->cases[k].prefix, choice->cases[k].part);
    buf_printf(out, "    } as;\n} %s_call;\n\n", prefix);
    buf_printf(
        out,
        "static inline CUresult\n%s_pack(const %s_module *module, const %s_args *args, %s_call *call, "
        "char *message,\n    size_t bytes)\n{\n",
        prefix, w->stem, args, prefix);
    if (choice->checks)
        buf_printf(out,
                   "    CUresult result = %s_check(args, message, bytes);\n\n"
                   "    if (result != CUDA_SUCCESS)\n        return result;\n",
                   prefix);
    buf_printf(out,
               "    if (!module || !call)\n"
               "        return tilec_refuse(message, bytes, \"`%%s` is NULL\", call ? \"module\" : "
               "\"call\");\n"
               "    call->%s = %s;\n",
               word, choice->expression);
    header_cases(w, choice, arena_printf(out->arena, "call->%s", word),
                 "return %_pack(module, args, &call->as.#, message, bytes);");
    buf_printf(out,
               "static inline void\n%s_node(const %s_call *call, CUDA_KERNEL_NODE_PARAMS *node)\n{\n"
               "    if (node && !call)\n        memset(node, 0, sizeof *node);\n"
               "    if (!node || !call)\n        return;\n",
               prefix, prefix);
    header_cases(w, choice, arena_printf(out->arena, "call->%s", word),
                 "%_node(&call->as.#, node); return;");
}

void
header_choice(const HeaderWriter *w, const TirFn *fn, const HeaderChoice *choice)
{
    const char *prefix = choice->prefix, *args = header_args_prefix(w, fn);
    Buf *out = w->out;

    buf_printf(
        out,
        "static inline void\n%s_grid(const %s_module *module, const %s_args *args, int64_t grid[3])\n{\n"
        "    grid[0] = grid[1] = grid[2] = 0;\n    if (!module || !args)\n        return;\n",
        prefix, w->stem, args);
    header_cases(w, choice, choice->expression, "%_grid(module, args, grid); return;");
    write_call(w, choice, args);
    buf_printf(
        out,
        "static inline CUresult\n%s_launch_message(const %s_module *module, const %s_args *args, "
        "CUstream stream,\n    char *message, size_t bytes)\n{\n",
        prefix, w->stem, args);
    if (choice->checks)
        buf_printf(out,
                   "    CUresult result = %s_check(args, message, bytes);\n\n"
                   "    if (result != CUDA_SUCCESS)\n        return result;\n",
                   prefix);
    buf_add(
        out,
        "    if (!module)\n        return tilec_refuse(message, bytes, \"`module` is NULL\");\n");
    header_cases(w, choice, choice->expression,
                 "return %_launch_message(module, args, stream, message, bytes);");
    header_plain_launch(w, prefix, args);
}

void
header_form_choice(const HeaderWriter *w, const TirFn *fn, KernelForms forms)
{
    Arena *arena = w->out->arena;
    HeaderCase *cases = arena_array(arena, HeaderCase, forms.n);
    const char *prefix = header_prefix(w, fn);

    for (uint32_t k = 0; k < forms.n; k++) {
        HeaderWriter form = *w;
        form.kernel = fn;
        form.form = k;
        cases[k] = (HeaderCase){header_prefix(&form, fn), arena_printf(arena, "v%u", k)};
    }
    write_form(w, fn, forms);
    HeaderChoice choice = {.prefix = prefix,
                           .word = "form",
                           .expression = arena_printf(arena, "%s_form(module, args)", prefix),
                           .checks = true,
                           .cases = cases,
                           .n = forms.n};
    header_choice(w, fn, &choice);
}
