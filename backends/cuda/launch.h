/* launch.h - what a PTX file says of itself, read back, and launches checked against it.
 *
 * The metadata (docs/metadata.md) comes from PTX text or from the bytes of the constant in a loaded
 * module.  A launch is given as views of tensors and values of scalars; launch_prepare() refuses
 * what the kernel cannot run, with a sentence, and packs the parameters.
 */
#ifndef TILEC_CUDA_LAUNCH_H
#define TILEC_CUDA_LAUNCH_H

#include <stddef.h>

#include "backends/cuda/expression.h"
#include "compiler/base/dtype.h"
#include "compiler/base/fault.h"
#include "compiler/base/arena.h"

enum { LAUNCH_ABI = 1, LAUNCH_MAX_RANK = 6, LAUNCH_MAP_RANK = 5, LAUNCH_MAP_BYTES = 128 };

typedef enum MetaMode { META_IN, META_OUT, META_INOUT } MetaMode;

typedef struct MetaTensor {
    const char *name, *dtype;
    uint32_t element_bytes;
    MetaMode mode;
    uint32_t rank;
    int64_t extent[LAUNCH_MAX_RANK]; /* when fixed, else -1 */
    uint32_t size[LAUNCH_MAX_RANK];  /* else: which of the kernel's sizes */
    uint32_t align;                  /* of the address and all strides, in bytes */
    bool atomic;
} MetaTensor;

typedef struct MetaScalar {
    const char *name;
    DType dtype;
} MetaScalar;

typedef enum MetaParamKind {
    META_POINTER,
    META_STRIDE,
    META_SIZE,
    META_SCALAR,
    META_TENSOR_MAP,
    META_MEMORY,
    META_ZERO
} MetaParamKind;

typedef struct MetaParam {
    MetaParamKind kind;
    uint32_t index; /* of the tensor, size, scalar, map or memory */
    uint32_t dim;   /* META_STRIDE */
    uint32_t offset, bytes;
} MetaParam;

typedef struct MetaTensorMap {
    uint32_t tensor, rank;
    const char *dtype; /* to which its copies round */
    uint32_t dim[LAUNCH_MAP_RANK], box[LAUNCH_MAP_RANK];
    uint32_t swizzle, l2_promotion; /* bytes */
} MetaTensorMap;

typedef struct MetaMemory {
    const char *name, *size; /* an expression: bytes */
    bool is_scratch;         /* zero before and after a launch; else a workspace */
} MetaMemory;

typedef struct MetaRequire {
    const char *condition, *message;
} MetaRequire;

/* A kernel; one of its variants has the same tensors, sizes, scalars and requirements. */
typedef struct MetaKernel {
    const char *name, *entry;
    const char *cost; /* an expression: clocks, of a kernel with variants and of these; else NULL */
    VEC(struct MetaKernel *) variants;
    VEC(const char *) sizes;
    VEC(const char *) follows; /* by size: the expression that it follows from, or NULL */
    VEC(MetaScalar) scalars;
    VEC(MetaTensor) tensors;
    VEC(MetaParam) params;
    VEC(MetaTensorMap) maps;
    VEC(MetaMemory) memories;
    VEC(MetaRequire) requires;
    const char *grid[3];
    uint32_t block, shared, cluster[3];
    bool early_start; /* it waits by itself for the kernels before it in the stream */
    uint32_t param_bytes;
} MetaKernel;

typedef struct Metadata {
    const char *version, *arch, *source;
    VEC(MetaKernel) kernels;
} Metadata;

/* The JSON text in PTX text, on the arena; NULL (and a fault) when there is none. */
const char *metadata_find(Arena *arena, const char *ptx, size_t n, Fault *fault);
/* Reads the JSON text; NULL and a fault when it is not what this reader knows. */
Metadata *metadata_parse(Arena *arena, const char *json, Fault *fault);

/* Whether code for `arch` ("sm_90a") runs on a GPU of compute capability major.minor. */
bool launch_check_arch(const char *arch, int major, int minor, Fault *fault);

/* A tensor in device memory; strides in elements. */
typedef struct TensorView {
    uint64_t address;
    uint32_t rank;
    int64_t shape[LAUNCH_MAX_RANK], stride[LAUNCH_MAX_RANK];
    const char *dtype;
} TensorView;

/* The values of one kernel's names; `known` says which are given. */
typedef struct LaunchValues {
    const MetaKernel *kernel;
    int64_t *size;
    bool *size_known;
    Number *scalar;
    bool *scalar_known;
    uint32_t sm_count, sm_shared; /* of the device */
} LaunchValues;

LaunchValues launch_values_new(Arena *arena, const MetaKernel *kernel, uint32_t sm_count,
                               uint32_t sm_shared);
/* Takes named sizes from a tensor's shape; false when it does not fit the kernel or the sizes. */
bool launch_bind_shape(LaunchValues *values, uint32_t tensor, uint32_t rank, const int64_t *shape,
                       Fault *fault);
/* Computes sizes that follow from what is known; false where one is no size. */
bool launch_follow(LaunchValues *values, Fault *fault);
/* The shape of a tensor by the sizes known. */
bool launch_shape(const LaunchValues *values, uint32_t tensor, int64_t *shape, Fault *fault);

/* The kernel, or the variant of it that these sizes take: the one with the least cost. */
const MetaKernel *launch_variant(const LaunchValues *values);

/* The bytes of a memory by the sizes known. */
bool launch_memory_size(const LaunchValues *values, uint32_t memory, size_t *bytes, Fault *fault);

/* What cuTensorMapEncodeTiled is given; the numbers of type, swizzle and promotion are the
 * driver's. There is no interleaving. */
typedef struct TensorMapValues {
    uint32_t type, rank;
    uint64_t address, size[LAUNCH_MAP_RANK];
    uint64_t stride[LAUNCH_MAP_RANK]; /* in bytes, of dimensions 1 and up; the last is not used */
    uint32_t box[LAUNCH_MAP_RANK];
    uint32_t step[LAUNCH_MAP_RANK]; /* element strides; 0 stands for 1 */
    uint32_t swizzle, l2_promotion;
    uint32_t fill;   /* what is out of bounds: 0 zeros, 1 NaN */
    uint32_t offset; /* of its parameter */
} TensorMapValues;

/* Everything a driver needs. */
typedef struct LaunchReady {
    const char *entry;
    uint32_t grid[3], block[3], cluster[3], shared;
    bool early_start;
    unsigned char *params; /* packed */
    uint32_t param_bytes;
    void **args; /* pointers into `params`, as cuLaunchKernel wants them */
    uint32_t n_args;
    uint32_t *arg_bytes; /* of each, when by_hand: where they lie in `params` nobody knows then */
    const TensorMapValues *maps; /* still to be made, in `params` */
    uint32_t n_maps;
    bool by_hand; /* nobody described the kernel: whether it takes more parameters is asked too */
} LaunchReady;

/* Checks everything (sizes, strides, alignment, `require`, the grid) and packs the parameters;
 * `view` has one entry for each of the kernel's tensors, and `memory` an address for each of its
 * memories; `zeros` are 16 bytes of zeros for the maps of empty tensors.  The caller makes the
 * tensor maps. */
bool launch_prepare(Arena *arena, const LaunchValues *values, const TensorView *view,
                    const uint64_t *memory, uint64_t zeros, LaunchReady *out, Fault *fault);

#endif
