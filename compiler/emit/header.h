/* header.h - what the writers of --emit=header share (header.c says what they write).
 *
 *   header.c          the module, arguments, checks, grids
 *   header_code.c     the code inside, and which of it a GPU takes
 *   header_launch.c   the launch of a kernel
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
} HeaderWriter;

/* A user's name as a C and C++ identifier. */
const char *header_identifier(Arena *arena, const char *name);
const char *header_upper(Arena *arena, const char *name);
/* What the names of a kernel begin with. */
const char *header_prefix(const HeaderWriter *w, const TirFn *fn);
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

#endif
