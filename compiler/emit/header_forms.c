/* header_forms.c - in a generated header, a kernel of several forms: KERNEL_form says which one these arguments take, and
 * the functions of the kernel go by it. */
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
        prefix, w->stem, prefix);
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

/* The functions of the language that C does not have: as macros they would be written out again and again. */
void
header_forms_part(const HeaderWriter *w)
{
    bool some = false;

    for (uint32_t k = 0; k < w->module->fns.n; k++)
        some |= header_forms(w, k).n > 0;
    if (some)
        buf_add(
            w->out,
            "#ifndef TILEC_GENERATED_FORMS\n#define TILEC_GENERATED_FORMS\n"
            "static inline int64_t\ntilec_min(int64_t a, int64_t b)\n{\n    return a < b ? a : b;\n}\n"
            "static inline int64_t\ntilec_max(int64_t a, int64_t b)\n{\n    return a > b ? a : b;\n}\n"
            "#endif /* TILEC_GENERATED_FORMS */\n\n");
}

/* `line` for each form: % is the name of its functions, # of its part of a call. */
static void
write_cases(const HeaderWriter *w, const TirFn *fn, KernelForms forms, const char *choice,
            const char *line)
{
    buf_printf(w->out, "    switch (%s) {\n", choice);
    for (uint32_t k = 0; k < forms.n; k++) {
        HeaderWriter form = *w;
        form.kernel = fn;
        form.form = k;
        buf_printf(w->out, k + 1 < forms.n ? "    case %u: " : "    default: ", k);
        for (const char *c = line; *c != '\0'; c++) {
            if (*c == '%')
                buf_add(w->out, header_prefix(&form, fn));
            else if (*c == '#')
                buf_printf(w->out, "v%u", k);
            else
                buf_char(w->out, *c);
        }
        buf_add(w->out, "\n");
    }
    buf_add(w->out, "    }\n}\n\n");
}

void
header_choice(const HeaderWriter *w, const TirFn *fn, KernelForms forms)
{
    Buf *out = w->out;
    const char *prefix = header_prefix(w, fn);

    write_form(w, fn, forms);
    buf_printf(
        out,
        "static inline void\n%s_grid(const %s_module *module, const %s_args *args, int64_t grid[3])\n{\n"
        "    grid[0] = grid[1] = grid[2] = 0;\n    if (!module || !args)\n        return;\n",
        prefix, w->stem, prefix);
    write_cases(w, fn, forms, arena_printf(out->arena, "%s_form(module, args)", prefix),
                "%_grid(module, args, grid); return;");
    buf_add(out,
            "/* A launch, put together, of one of the forms.  It stays where it was packed. */\n"
            "typedef struct {\n    int form;\n    union {\n");
    for (uint32_t k = 0; k < forms.n; k++)
        buf_printf(out, "        %s_v%u_call v%u;\n", prefix, k, k);
    buf_printf(out, "    } as;\n} %s_call;\n\n", prefix);
    buf_printf(
        out,
        "static inline CUresult\n%s_pack(const %s_module *module, const %s_args *args, %s_call *call, "
        "char *message,\n    size_t bytes)\n{\n    CUresult result = %s_check(args, message, bytes);\n\n"
        "    if (result != CUDA_SUCCESS)\n        return result;\n"
        "    if (!module || !call)\n"
        "        return tilec_refuse(message, bytes, \"`%%s` is NULL\", call ? \"module\" : \"call\");\n"
        "    call->form = %s_form(module, args);\n",
        prefix, w->stem, prefix, prefix, prefix, prefix);
    write_cases(w, fn, forms, "call->form",
                "return %_pack(module, args, &call->as.#, message, bytes);");
    buf_printf(out,
               "static inline void\n%s_node(const %s_call *call, CUDA_KERNEL_NODE_PARAMS *node)\n{\n"
               "    if (node && !call)\n        memset(node, 0, sizeof *node);\n"
               "    if (!node || !call)\n        return;\n",
               prefix, prefix);
    write_cases(w, fn, forms, "call->form", "%_node(&call->as.#, node); return;");
    buf_printf(
        out,
        "static inline CUresult\n%s_launch_message(const %s_module *module, const %s_args *args, "
        "CUstream stream,\n    char *message, size_t bytes)\n{\n"
        "    CUresult result = %s_check(args, message, bytes);\n\n"
        "    if (result != CUDA_SUCCESS)\n        return result;\n"
        "    if (!module)\n        return tilec_refuse(message, bytes, \"`module` is NULL\");\n",
        prefix, w->stem, prefix, prefix);
    write_cases(w, fn, forms, arena_printf(out->arena, "%s_form(module, args)", prefix),
                "return %_launch_message(module, args, stream, message, bytes);");
    header_plain_launch(w, prefix, prefix);
}
