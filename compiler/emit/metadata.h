/* metadata.h - what a PTX file says of itself, for people and for programs.
 *
 * Three texts come from one set of facts: a comment at the head of the file, the JSON object that
 * launchers read (docs/metadata.md has its fields), and the PTX declaration of the constant array
 * that carries those JSON bytes into a loaded module.  The facts are the TirModule, for everything
 * the author of the kernel named, and a ModuleFacts, for everything the compiler chose.
 *
 * kernel_params() is the one place that knows the order and the offsets of a kernel's parameters;
 * the lowering to lane IR uses it as well, so the two cannot disagree.
 */
#ifndef TILEC_EMIT_METADATA_H
#define TILEC_EMIT_METADATA_H

#include "compiler/base/arena.h"
#include "compiler/ir/tir.h"

/* Launchers refuse metadata with another number. */
enum { METADATA_ABI = 1 };

/* The symbol of the constant array in the PTX module. */
#define METADATA_SYMBOL "tilec_metadata"

typedef enum ParamKind {
    PARAM_POINTER,   /* base address of tensor `tensor`: u64 */
    PARAM_STRIDE,    /* stride of its dimension `dim`, in elements: s64 */
    PARAM_SIZE,      /* named size `index`: s32 */
    PARAM_SCALAR,    /* scalar `index`: f32 or s32 */
    PARAM_TENSOR_MAP /* tensor map `index` of LaunchFacts: 128 bytes, aligned to 128 */
} ParamKind;

typedef struct KernelParam {
    ParamKind kind;
    uint32_t tensor, dim, index;
    uint32_t offset, bytes; /* in the parameter block */
} KernelParam;

/* The recipe of one tensor map (cuTensorMapEncodeTiled): which tensor, in which order its
 * dimensions are given to the driver (innermost first), the box, and the modes by the driver's
 * names. */
typedef struct TensorMapFacts {
    uint32_t tensor;
    uint32_t rank;
    uint32_t dim[5]; /* of the tensor; dim[0] is the innermost of the map */
    uint32_t box[5];
    uint32_t swizzle_bytes; /* 0, 32, 64 or 128 */
    uint32_t l2_promotion_bytes; /* 0, 64, 128 or 256 */
} TensorMapFacts;

/* What the compiler chose for one kernel. */
typedef struct LaunchFacts {
    const char *entry;     /* the .entry's name */
    uint32_t block;        /* threads; the kernel runs with no other number */
    uint32_t shared_bytes; /* dynamic shared memory */
    uint32_t cluster[3];   /* zeros count as 1 */
    const TensorMapFacts *maps;
    uint32_t n_maps;
} LaunchFacts;

/* What the compiler chose for the module; `kernel` has one entry for each of TirModule.fns. */
typedef struct ModuleFacts {
    const char *version; /* of tilec, "0.1.0" */
    const char *source;  /* base name of the source file */
    const char *arch;    /* "sm_90" */
    const char *ptx;     /* "8.0" */
    const LaunchFacts *kernel;
} ModuleFacts;

/* How many parameters a kernel has. */
uint32_t kernel_param_count(const TirFn *fn, const LaunchFacts *facts);
/* Writes all of them, in order: for each tensor its pointer, then its strides of dimensions
 * 0 .. rank-2; the sizes; the scalars; the tensor maps.  Returns the bytes of the block. */
uint32_t kernel_params(const TirFn *fn, const LaunchFacts *facts, KernelParam *out);

/* The JSON object, one line without a newline at its end. */
void metadata_json(const TirModule *module, const ModuleFacts *facts, Buf *out);
/* The same as text for people: `//` lines, to stand at the head of the PTX file. */
void metadata_comment(const TirModule *module, const ModuleFacts *facts, Buf *out);
/* `.visible .const .align 8 .b8 tilec_metadata[N] = {...};`: the JSON and a NUL. */
void metadata_declare(const TirModule *module, const ModuleFacts *facts, Buf *out);

/* header.c: a dependency-free C99 header that checks and launches the module's kernels.  `ptx` is
 * embedded as bytes when it is not NULL.  `name` prefixes everything and names the include guard;
 * NULL: made from the source's name. */
void header_print(const TirModule *module, const ModuleFacts *facts, const char *name,
                  const char *ptx, Buf *out);

#endif
