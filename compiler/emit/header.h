/* header.h - what the writers of --emit=header share (header.c says what they write).
 *
 *   header.c          the module, arguments, checks, grids
 *   header_code.c     the code inside, and which of it a GPU takes
 *   header_launch.c   the launch of a kernel
 *   header_expression.c  host expressions as C
 *   header_forms.c    a kernel of several forms: which one a launch takes
 *   header_names.c    names, and the sizes of a kernel as locals
 */
#ifndef TILEC_HEADER_H
#define TILEC_HEADER_H

#include "compiler/emit/metadata.h"

typedef struct HeaderWriter {
    Buf *out;
    const TirModule *module;
    const ModuleFacts *facts;
    const char *stem;
    const HeaderCode *code;
    const TirFn *kernel; /* while a form of it is written; NULL: it has one */
    uint32_t form;       /* .. and which */
} HeaderWriter;

/* A user's name as a C and C++ identifier. */
const char *header_identifier(Arena *arena, const char *name);
const char *header_upper(Arena *arena, const char *name);
/* What the names of a kernel begin with, or of the form that is written: NAME_v1. */
const char *header_prefix(const HeaderWriter *w, const TirFn *fn);
/* What those begin with that its forms have in common: arguments and their check. */
const char *header_shared_prefix(const HeaderWriter *w, const TirFn *fn);
/* The forms of kernel number `k`; n 0: it has one. */
KernelForms header_forms(const HeaderWriter *w, uint32_t k);
/* The number of its first form among the functions of the module. */
uint32_t header_function(const HeaderWriter *w, uint32_t k);
/* A host expression; sizes are the locals of header_sizes.  `compact`: of integers, with the functions of
 * header_forms_part. */
void header_expression(Buf *out, const TirFn *fn, const HostExpr *e, bool compact);
/* A memory as a member of the arguments. */
const char *header_memory(Arena *arena, const TirMemory *memory);
/* `int64_t size_X = args->Q.shape[1];` for each size of a kernel. */
void header_sizes(const HeaderWriter *w, const TirFn *fn);
/* The condition on `have` (major * 10 + minor) under which code for `arch` runs. */
const char *header_arch_condition(Arena *arena, const char *arch);
/* STEM_ptx and STEM_cubin_86: what there is. */
void header_code(const HeaderWriter *w);
/* Of STEM_load: which of it is loaded where the caller gives none. */
void header_choose_code(const HeaderWriter *w);
/* KERNEL_pack, _node and _launch; the kernel is number `index` of the module's. */
void header_launch(const HeaderWriter *w, const TirFn *fn, const LirFn *code, uint32_t index);
/* The launch without a message, for the prefixes of a kernel or a form and of its arguments. */
void header_plain_launch(const HeaderWriter *w, const char *prefix, const char *args);
/* KERNEL_grid. */
void header_grid(const HeaderWriter *w, const TirFn *fn);
/* What headers with forms share. */
void header_forms_part(const HeaderWriter *w);
/* Behind what each form has: KERNEL_form, and _grid, _pack, _node and _launch by it. */
void header_choice(const HeaderWriter *w, const TirFn *fn, KernelForms forms);

#endif
