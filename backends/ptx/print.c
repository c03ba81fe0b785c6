/* print.c - lane IR to PTX text: directives, declarations, one line an instruction. */
#include "backends/ptx/print.h"

#include <stdlib.h>
#include <string.h>

/* Of a product's instruction; NULL: the target's own. */
static const char *
version_of_mma(const Target *target, const LirInsn *insn)
{
    const MmaForm *form = insn->text != NULL ? target_mma_named(target, insn->text) : NULL;

    return form == NULL ? NULL : form->ptx_version;
}

bool
ptx_is_exact(const Target *target, const LirFn *fn)
{
    uint32_t n = lir_may_have(fn, LIR_MMA_SCALED) ? fn->insns.n : 0;

    for (uint32_t i = 0; i < n; i++) {
        if (fn->insns.at[i]->op != LIR_MMA_SCALED)
            continue;
        const MmaForm *form = target_mma_named(target, fn->insns.at[i]->text);
        if (form != NULL && form->exact)
            return true;
    }
    return false;
}

/* Instructions that a target may have from a later version on only; NULL: that of the product's
 * form. */
static const struct {
    LirOpcode op;
    const char *version;
} later[] = {{LIR_MMA, NULL},
             {LIR_MMA_S32, NULL},
             {LIR_MMA_SCALED, NULL},
             {LIR_TMEM_MMA_SCALED, NULL},
             {LIR_WGMMA_SS, NULL},
             {LIR_WGMMA_RS, NULL},
             {LIR_CVT_E4M3X2_F32, "8.1"},
             {LIR_CVT_F16X2_E4M3X2, "8.1"},
             {LIR_CVT_E5M2X2_F32, "8.1"}};

/* The later one of `version` and what such instructions of a kernel want. */
static const char *
version_with(const Target *target, const LirFn *fn, uint32_t which, const char *version)
{
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->op != later[which].op)
            continue;
        const char *own = later[which].version,
                   *wants = own != NULL ? own : version_of_mma(target, insn);
        if (wants != NULL && strtod(wants, NULL) > strtod(version, NULL))
            version = wants;
    }
    return version;
}

const char *
ptx_version(const Target *target, LirFn *const *fns, uint32_t n)
{
    const char *version = target->ptx_version;

    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < sizeof later / sizeof later[0]; i++)
            if (lir_may_have(fns[k], later[i].op))
                version = version_with(target, fns[k], i, version);
    return version;
}

void
ptx_print_head(const char *version, const char *arch, Buf *out)
{
    buf_printf(out, ".version %s\n.target %s\n.address_size 64\n\n", version, arch);
}

void
ptx_print_files(const Diag *diag, Buf *out)
{
    for (uint32_t i = 0; i < diag->files.n; i++)
        if (diag_file_number(diag, diag->files.at[i]) > 0)
            buf_printf(out, ".file %u \"%s\"\n", diag_file_number(diag, diag->files.at[i]),
                       diag->files.at[i]->path);
}

/* Declares the registers that a body, which begins at `body`, has: in front of it. */
static void
declare_registers(const LirFn *fn, const LirText *text, uint32_t body, Buf *out)
{
    static const char *const types[LIR_CLASSES] = {"pred", "b16", "b32", "f32", "b64", "b128"};
    static const char *const prefixes[LIR_CLASSES] = {"%p", "%h", "%r", "%f", "%d", "%q"};
    Buf said;

    buf_init(&said, fn->scratch);
    for (uint32_t c = 0; c < LIR_CLASSES; c++)
        if (text->used[c])
            buf_printf(&said, "    .reg .%s %s<%u>;\n", types[c], prefixes[c], fn->regs.n);
    buf_reserve(out, said.n);
    memmove(out->at + body + said.n, out->at + body, out->n + 1 - body);
    memcpy(out->at + body, buf_text(&said), said.n);
    out->n += said.n;
}

void
ptx_print_kernel(const LirFn *fn, const Diag *diag, Buf *out)
{
    static const char *const param_types[LIR_CLASSES] = {"pred", "u16", "u32",
                                                         "f32",  "u64", "b128"};
    ArenaMark begin = arena_mark(fn->scratch);
    uint32_t line = 0, file = 0,
             at = 0; /* the place said last, or that there is none; where it is */
    LirText text;

    if (fn->shared_bytes > 0)
        buf_printf(out, ".extern .shared .align 1024 .b8 %s_shared[];\n\n", fn->name);
    buf_printf(out, ".visible .entry %s(", fn->name);
    for (uint32_t i = 0; i < fn->params.n; i++) {
        const LirParam *param = &fn->params.at[i];
        if (param->kind == LIR_PARAM_MAP)
            buf_printf(out, "%s\n    .param .align %d .b8 %s[%d]", i > 0 ? "," : "", LIR_MAP_BYTES,
                       param->name, LIR_MAP_BYTES);
        else
            buf_printf(out, "%s\n    .param .%s %s", i > 0 ? "," : "", param_types[param->class],
                       param->name);
    }
    buf_printf(out, "\n)\n.reqntid %u\n", fn->threads);
    if (fn->cluster[0] != 0)
        buf_printf(out, ".reqnctapercluster %u, %u, %u\n", fn->cluster[0], fn->cluster[1],
                   fn->cluster[2]);
    if (fn->min_blocks > 0)
        buf_printf(out, ".minnctapersm %u\n", fn->min_blocks);
    buf_add(out, "{\n");
    uint32_t body = out->n;
    lir_text_begin(&text, fn, fn->scratch, out);
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->span.lo != at && diag != NULL && insn->span.lo != 0 && insn->op != LIR_LABEL) {
            at = insn->span.lo;
            SourcePlace place = diag_origin(diag, insn->span.lo);
            uint32_t number = place.file == NULL ? 0 : diag_file_number(diag, place.file);
            if (number > 0 && (place.line != line || number != file)) {
                line = place.line;
                file = number;
                buf_printf(out, "    .loc %u %u %u\n", file, line, place.column);
            }
        }
        lir_print_insn(&text, insn, LIR_INDENT);
    }
    declare_registers(fn, &text, body, out);
    lir_end_work(fn, begin);
    buf_add(out, "}\n");
}
