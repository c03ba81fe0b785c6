/* header_code.c - the code inside of a header, PTX and cubins, and which of it a GPU takes. */
#include <ctype.h>
#include <string.h>

#include "compiler/emit/header.h"

static int
arch_number(const char *arch)
{
    int number = 0;

    for (const char *c = arch + strcspn(arch, "0123456789"); isdigit((unsigned char)*c); c++)
        number = number * 10 + (*c - '0');
    return number;
}

const char *
header_arch_condition(Arena *arena, const char *arch)
{
    size_t n = strlen(arch);
    int number = arch_number(arch);

    if (n && arch[n - 1] == 'a')
        return arena_printf(arena, "have == %d", number);
    if (n && arch[n - 1] == 'f')
        return arena_printf(arena, "have / 10 == %d && have >= %d", number / 10, number);
    return arena_printf(arena, "have >= %d", number);
}

/* Machine code runs on what has the same major number and no lesser minor one. */
static const char *
cubin_condition(Arena *arena, const char *arch)
{
    int number = arch_number(arch);

    if (arch[strlen(arch) - 1] == 'a')
        return arena_printf(arena, "have == %d", number);
    return arena_printf(arena, "have / 10 == %d && have >= %d", number / 10, number);
}

/* As words: they are aligned, and a compiler reads eight bytes as one number.  A GPU's host has the
 * lowest byte first. */
static void
write_words(Buf *out, const char *name, const unsigned char *bytes, size_t n)
{
    size_t words = (n + 7) / 8;

    buf_printf(out, "static const uint64_t %s[%zu] = {", name, words);
    for (size_t i = 0; i < words; i++) {
        unsigned long long word = 0;
        for (size_t k = 0; k < 8 && 8 * i + k < n; k++)
            word |= (unsigned long long)bytes[8 * i + k] << 8 * k;
        buf_printf(out, "%s0x%llxu,", i % 6 == 0 ? "\n    " : "", word);
    }
    buf_add(out, "\n};\n\n");
}

const char *
header_arch_list(const HeaderWriter *w)
{
    Buf list;

    buf_init(&list, w->out->arena);
    for (uint32_t b = w->n_builds; b-- > 0;)
        buf_printf(&list, "%s%s", w->builds[b].facts->arch, b > 1 ? ", " : b == 1 ? " and " : "");
    return buf_text(&list);
}

bool
header_has_code(const HeaderWriter *w)
{
    for (uint32_t b = 0; b < w->n_builds; b++)
        if (w->builds[b].code.ptx != NULL || w->builds[b].code.n_cubins > 0)
            return true;
    return false;
}

static const char *
ptx_name(const HeaderWriter *w)
{
    return w->target == NULL ? arena_printf(w->out->arena, "%s_ptx", w->stem)
                             : arena_printf(w->out->arena, "%s_%s_ptx", w->stem, w->target);
}

static void
write_code(const HeaderWriter *w)
{
    Arena *arena = w->out->arena;

    for (size_t i = 0; i < w->code->n_cubins; i++) {
        const HeaderCubin *cubin = &w->code->cubins[i];
        const char *number = cubin->arch + strcspn(cubin->arch, "0123456789");
        write_words(w->out, arena_printf(arena, "%s_cubin_%s", w->stem, number), cubin->bytes,
                    cubin->n);
    }
    if (w->code->ptx != NULL)
        write_words(w->out, ptx_name(w), (const unsigned char *)w->code->ptx,
                    strlen(w->code->ptx) + 1);
}

void
header_code(const HeaderWriter *w)
{
    for (uint32_t b = 0; b < w->n_builds; b++) {
        HeaderWriter own = header_of_build(w, b);
        write_code(&own);
    }
}

/* The machine code of a target that is nearest to the GPU, else its PTX. */
static void
choose_of_build(const HeaderWriter *w, const char *margin)
{
    Buf *out = w->out;
    const HeaderCode *code = w->code;

    for (size_t i = 0; i < code->n_cubins; i++) {
        const char *arch = code->cubins[i].arch;
        int number = arch_number(arch);
        buf_printf(out,
                   "%sif ((!ptx || nearest) && %s && %d > nearest) {\n"
                   "%s    ptx = (const char *)%s_cubin_%s;\n%s    nearest = %d;\n%s}\n",
                   margin, cubin_condition(out->arena, arch), number, margin, w->stem,
                   arch + strcspn(arch, "0123456789"), margin, number, margin);
    }
    if (code->ptx != NULL)
        buf_printf(out, "%sif (!ptx)\n%s    ptx = (const char *)%s;\n", margin, margin, ptx_name(w));
}

/* The most that a kernel of a target needs. */
static uint32_t
most_shared(const HeaderWriter *w)
{
    uint32_t most = 0;

    for (uint32_t k = 0; k < w->module->fns.n; k++) {
        KernelForms forms = header_forms(w, k);
        for (uint32_t i = 0; i == 0 || i < forms.n; i++) {
            const LirFn *code = i < forms.n ? forms.at[i].code : w->facts->kernel[k];
            most = code->shared_bytes > most ? code->shared_bytes : most;
        }
    }
    return most;
}

/* The highest target whose code the GPU runs and has the shared memory for, and code of it.  The
 * caller's code is looked at where it is loaded. */
static void
choose_target(const HeaderWriter *w)
{
    Buf *out = w->out;
    bool inside = header_has_code(w);

    buf_add(out, "    int target = -1;\n");
    for (uint32_t b = 0; b < w->n_builds; b++) {
        HeaderWriter own = header_of_build(w, b);
        bool given = own.code->n_cubins > 0 || own.code->ptx != NULL;
        buf_printf(out, "    if (target < 0 && %s(%s) && %u <= limit) {\n",
                   given || !inside ? "" : "ptx && ",
                   header_arch_condition(out->arena, own.facts->arch), (unsigned)most_shared(&own));
        choose_of_build(&own, "        ");
        buf_printf(out, "        target = ptx ? %u : target;\n    }\n", b);
    }
    if (inside)
        buf_add(out,
                "    if (!ptx) {\n"
                "        tilec_refuse(message, bytes, \"there is no code inside for sm_%d with %d "
                "bytes of shared memory a block\",\n"
                "                     have, limit);\n"
                "        return CUDA_ERROR_NO_BINARY_FOR_GPU;\n    }\n");
    buf_add(out, "    target = target < 0 ? 0 : target;\n");
}

void
header_choose_code(const HeaderWriter *w)
{
    Buf *out = w->out;
    bool has_ptx = false, has_cubins = false;

    for (uint32_t b = 0; b < w->n_builds; b++) {
        has_ptx |= w->builds[b].code.ptx != NULL;
        has_cubins |= w->builds[b].code.n_cubins > 0;
    }
    if (has_cubins)
        buf_add(out, "    int nearest = 0; /* the machine code for what is nearest to the GPU */\n");
    if (w->n_builds > 1) {
        choose_target(w);
        return;
    }
    choose_of_build(w, "    ");
    if (has_cubins && !has_ptx)
        buf_add(out, "    if (!ptx) {\n"
                     "        tilec_refuse(message, bytes, \"there is no code inside for "
                     "sm_%d\", have);\n"
                     "        return CUDA_ERROR_NO_BINARY_FOR_GPU;\n    }\n");
}
