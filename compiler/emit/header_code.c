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

/* As words: they are aligned, and a compiler reads eight bytes as one number.  A GPU's host has the lowest byte first. */
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

void
header_code(const HeaderWriter *w)
{
    Arena *arena = w->out->arena;

    for (size_t i = 0; i < w->code->n_cubins; i++) {
        const HeaderCubin *cubin = &w->code->cubins[i];
        const char *number = cubin->arch + strcspn(cubin->arch, "0123456789");
        write_words(w->out, arena_printf(arena, "%s_cubin_%s", w->stem, number), cubin->bytes,
                    cubin->n);
    }
    if (w->code->ptx != NULL)
        write_words(w->out, arena_printf(arena, "%s_ptx", w->stem),
                    (const unsigned char *)w->code->ptx, strlen(w->code->ptx) + 1);
}

void
header_choose_code(const HeaderWriter *w)
{
    Buf *out = w->out;
    const HeaderCode *code = w->code;

    if (code->n_cubins > 0)
        buf_add(out, "    int nearest = 0; /* the machine code for what is nearest to the GPU */\n");
    for (size_t i = 0; i < code->n_cubins; i++) {
        const char *arch = code->cubins[i].arch;
        int number = arch_number(arch);
        buf_printf(out,
                   "    if ((!ptx || nearest) && %s && %d > nearest) {\n"
                   "        ptx = (const char *)%s_cubin_%s;\n        nearest = %d;\n    }\n",
                   cubin_condition(out->arena, arch), number, w->stem,
                   arch + strcspn(arch, "0123456789"), number);
    }
    if (code->ptx != NULL)
        buf_printf(out, "    if (!ptx)\n        ptx = (const char *)%s_ptx;\n", w->stem);
    else if (code->n_cubins > 0)
        buf_add(out, "    if (!ptx) {\n"
                     "        tilec_refuse(message, bytes, \"there is no code inside for "
                     "sm_%d\", have);\n"
                     "        return CUDA_ERROR_NO_BINARY_FOR_GPU;\n    }\n");
}
