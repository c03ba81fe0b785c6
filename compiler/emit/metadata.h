/* metadata.h - what a PTX file says of itself, for people and for programs.
 *
 * Three texts come from one set of facts: a comment at the head of the file, the JSON object that
 * launchers read (docs/metadata.md has its fields), and the PTX declaration of the constant array
 * that carries those JSON bytes into a loaded module.  The facts are the TirModule, for everything
 * the author of the kernel named, and the kernels' lane IR, for everything the compiler chose: the
 * parameters in their order, tensor maps, block, shared memory, cluster.
 */
#ifndef TILEC_EMIT_METADATA_H
#define TILEC_EMIT_METADATA_H

#include "compiler/base/arena.h"
#include "compiler/ir/lir.h"
#include "compiler/ir/tir.h"

/* Launchers refuse metadata with another number. */
enum { METADATA_ABI = 1 };

/* The symbol of the constant array in the PTX module. */
#define METADATA_SYMBOL "tilec_metadata"

/* A form of a kernel that has several: the same interface, other tiles or another plan.  Launchers
 * take the one whose cost, the clocks that a launch with the sizes at hand is estimated to take, is
 * the least; the first of equals. */
typedef struct KernelForm {
    const TirFn *fn;
    LirFn *code;
    const HostExpr *cost;
} KernelForm;

/* The first is the kernel itself; n 1: there is no other, but its cost is known; 0: nor that. */
typedef struct KernelForms {
    const KernelForm *at;
    uint32_t n;
} KernelForms;

/* The module; `kernel` has the lane IR of each of TirModule.fns. */
typedef struct ModuleFacts {
    const char *version; /* of tilec, "0.1.0" */
    const char *source;  /* base name of the source file */
    const char *arch;    /* "sm_90" */
    const char *ptx;     /* "8.0" */
    LirFn *const *kernel;
    const KernelForms *forms; /* of each kernel; NULL: all have one */
    bool barriers;            /* the comment names them */
} ModuleFacts;

/* Where each parameter lies in the parameter block: fn->params.n numbers. */
const uint32_t *param_offsets(Arena *arena, const LirFn *fn);
/* Extent `dimension` of what is launched: fn->blocks, or the axes of the grid, of which those from
 * the third on share the last dimension, the third varying fastest. */
const HostExpr *launch_extent(Arena *arena, const TirFn *fn, uint32_t dimension);
/* The extents of a cluster, 1 where there is none. */
uint32_t cluster_extent(const LirFn *fn, uint32_t dimension);
bool has_cluster(const LirFn *fn);
/* The tensor that a tensor map is made of; NULL: there is none of this name. */
const TirTensor *map_tensor(const TirFn *fn, const LirTensorMap *map);
/* The type of what a copy by a map of `tensor` brings. */
DType map_dtype(const TirTensor *tensor, const LirTensorMap *map);
/* Whether what the lane IR says of the launch is there in tile IR; what is not is a bug of ours,
 * written to `out`. */
bool launch_verify(const TirFn *fn, const LirFn *code, Buf *out);

/* The JSON object, one line without a newline at its end. */
void metadata_json(const TirModule *module, const ModuleFacts *facts, Buf *out);
/* The same as text for people: `//` lines, to stand at the head of the PTX file. */
void metadata_comment(const TirModule *module, const ModuleFacts *facts, Buf *out);
/* `.visible .const .align 8 .b8 tilec_metadata[N] = {...};`: the JSON and a NUL; in global memory
 * where a module has not as many constants. */
void metadata_declare(const TirModule *module, const ModuleFacts *facts, Buf *out);

typedef struct HeaderCubin {
    const char *arch; /* "sm_86", "sm_90a" */
    const unsigned char *bytes;
    size_t n;
} HeaderCubin;

/* The code inside of a header: none, PTX (when it is not NULL), cubins, or both. */
typedef struct HeaderCode {
    const char *ptx;
    const HeaderCubin *cubins;
    size_t n_cubins;
} HeaderCode;

/* What one of the targets of a header gives. */
typedef struct HeaderBuild {
    const char *target; /* "sm_90" */
    int rank;           /* code of the highest one that a GPU runs is taken */
    const TirModule *module;
    const ModuleFacts *facts;
    HeaderCode code;
} HeaderBuild;

/* header.c: a dependency-free C99 header that checks and launches the kernels of a program, which
 * was compiled for one target or several.  `name` prefixes everything and names the include guard;
 * NULL: made from the source's name. */
void header_print(const HeaderBuild *builds, uint32_t n, const char *name, Buf *out);

#endif
