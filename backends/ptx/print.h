/* print.h - lane IR to PTX text; decides nothing. */
#ifndef TILEC_BACKENDS_PTX_PRINT_H
#define TILEC_BACKENDS_PTX_PRINT_H

#include "compiler/ir/lir.h"
#include "compiler/target.h"

/* What some kernels need behind .version: the target's, or that of an instruction in them. */
const char *ptx_version(const Target *target, LirFn *const *fns, uint32_t n);
/* Whether a kernel has instructions of the architecture alone, whatever its plan. */
bool ptx_is_exact(const Target *target, const LirFn *fn);
/* The directives every module begins with. */
void ptx_print_head(const char *version, const char *arch, Buf *out);
/* One kernel.  `diag` supplies the files of line information; NULL: no .loc lines. */
void ptx_print_kernel(const LirFn *fn, const Diag *diag, Buf *out);
/* The .file directives of the files that .loc lines name. */
void ptx_print_files(const Diag *diag, Buf *out);

#endif
