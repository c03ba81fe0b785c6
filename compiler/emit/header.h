/* header.h - what the writers of --emit=header share (header.c says what they write).
 *
 *   header.c          the module, arguments, checks, grids
 *   header_load.c     loading a module
 *   header_code.c     the code inside, and which of it a GPU takes
 *   header_launch.c   the launch of a kernel
 *   header_expression.c  host expressions as C
 *   header_forms.c    a kernel of several forms: which one a launch takes
 *   header_targets.c  code of several targets: that of the one which is loaded
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
    /* the targets of the program, the highest first; the module and the facts are of one of them */
    const HeaderBuild *builds;
    uint32_t n_builds;
    const char *target; /* while the code of one of several is written: "sm_90"; else NULL */
} HeaderWriter;

/* One of the functions that KERNEL_launch and its like go by: what its names begin with, and its
 * part of a call. */
typedef struct HeaderCase {
    const char *prefix, *part;
} HeaderCase;

typedef struct HeaderChoice {
    const char *prefix;     /* of the functions that choose */
    const char *word;       /* of what: "form", "target" */
    const char *expression; /* .. which one, of `module` and `args` */
    bool checks; /* the functions that choose check the arguments, not those that are chosen */
    const HeaderCase *cases; /* the last one is taken for any other number */
    uint32_t n;
} HeaderChoice;

/* A user's name as a C and C++ identifier. */
const char *header_identifier(Arena *arena, const char *name);
const char *header_upper(Arena *arena, const char *name);
/* What the names of a kernel begin with, or of the form that is written: NAME_v1. */
const char *header_prefix(const HeaderWriter *w, const TirFn *fn);
/* What that begins with which its forms have in common: their check. */
const char *header_shared_prefix(const HeaderWriter *w, const TirFn *fn);
/* .. which all targets have in common: the arguments. */
const char *header_args_prefix(const HeaderWriter *w, const TirFn *fn);
/* To write the code of one target. */
HeaderWriter header_of_build(const HeaderWriter *w, uint32_t build);
/* The forms of kernel number `k`; n 0: it has one. */
KernelForms header_forms(const HeaderWriter *w, uint32_t k);
/* The number of its first form among the functions of the module. */
uint32_t header_function(const HeaderWriter *w, uint32_t k);
/* A host expression; sizes are the locals of header_sizes.  `compact`: of integers, with the
 * functions of header_forms_part. */
void header_expression(Buf *out, const TirFn *fn, const HostExpr *e, bool compact);
/* A memory as a member of the arguments. */
const char *header_memory(Arena *arena, const TirMemory *memory);
/* `int64_t size_X = args->Q.shape[1];` for each size of a kernel. */
void header_sizes(const HeaderWriter *w, const TirFn *fn);
/* The condition on `have` (major * 10 + minor) under which code for `arch` runs. */
const char *header_arch_condition(Arena *arena, const char *arch);
/* STEM_ptx and STEM_cubin_86: what there is. */
void header_code(const HeaderWriter *w);
/* Of STEM_load: which of it is loaded where the caller gives none, and of several targets for
 * which. */
void header_choose_code(const HeaderWriter *w);
/* Whether code of any target is inside, or has tensor maps. */
bool header_has_code(const HeaderWriter *w);
bool header_has_maps(const HeaderWriter *w);
/* "sm_100a, sm_90a and sm_80" */
const char *header_arch_list(const HeaderWriter *w);
/* STEM_load and STEM_unload. */
void header_load(const HeaderWriter *w);
/* KERNEL_pack, _node and _launch; the kernel is number `index` of the module's. */
void header_launch(const HeaderWriter *w, const TirFn *fn, const LirFn *code, uint32_t index);
/* The launch without a message, for the prefixes of a kernel or a form and of its arguments. */
void header_plain_launch(const HeaderWriter *w, const char *prefix, const char *args);
/* KERNEL_grid. */
void header_grid(const HeaderWriter *w, const TirFn *fn);
/* What headers with forms share. */
void header_forms_part(const HeaderWriter *w);
/* Behind what each form has: KERNEL_form, and _grid, _pack, _node and _launch by it. */
void header_form_choice(const HeaderWriter *w, const TirFn *fn, KernelForms forms);
/* `switch (EXPRESSION)` with `line` for each case, to the end of a function: % is the prefix, # the
 * part. */
void header_cases(const HeaderWriter *w, const HeaderChoice *choice, const char *expression,
                  const char *line);
/* KERNEL_grid, _call, _pack, _node and _launch by a choice. */
void header_choice(const HeaderWriter *w, const TirFn *fn, const HeaderChoice *choice);
/* A memory that a kernel takes, whatever form or target. */
typedef VEC(TirMemory) HeaderMemories;
/* Behind what the code of each target has: KERNEL_check, _form, _bytes_NAME and the functions of a
 * choice, by the target that is loaded.  The kernel is number `k` of the module's. */
void header_target_choice(const HeaderWriter *w, uint32_t k, const HeaderMemories *memories);

#endif
