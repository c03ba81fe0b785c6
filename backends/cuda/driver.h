/* driver.h - the CUDA Driver API, opened at run time: nothing of CUDA is needed to build.
 *
 * Only what a launcher needs is declared, with the driver's own names and values.
 */
#ifndef TILEC_CUDA_DRIVER_H
#define TILEC_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "compiler/base/fault.h"

typedef int CudaResult; /* 0: success */
typedef int CudaDevice;
typedef unsigned long long CudaAddress;
typedef struct CudaContextHandle *CudaContext;
typedef struct CudaModuleHandle *CudaModule;
typedef struct CudaFunctionHandle *CudaFunction;
typedef struct CudaStreamHandle *CudaStream;
typedef struct CudaEventHandle *CudaEvent;

enum {
    CUDA_DEVICE_SM_COUNT = 16,
    CUDA_DEVICE_SM_SHARED = 81,
    CUDA_JIT_ERROR_LOG_BUFFER = 5,
    CUDA_JIT_ERROR_LOG_BUFFER_BYTES = 6,
    CUDA_DEVICE_CAPABILITY_MAJOR = 75,
    CUDA_DEVICE_CAPABILITY_MINOR = 76,
    CUDA_DEVICE_MAX_SHARED_OPTIN = 97,
    CUDA_FUNCTION_MAX_DYNAMIC_SHARED = 8,
    CUDA_LAUNCH_CLUSTER_DIMENSION = 4,
    CUDA_LAUNCH_PROGRAMMATIC_SERIALIZATION = 6,
    CUDA_ERROR_NOT_FOUND = 500,
};

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct CudaLaunchAttribute {
    uint32_t id, pad;
    union {
        char bytes[64];
        struct {
            uint32_t x, y, z;
        } cluster;
        int serialization; /* 1: blocks may begin while the kernel before this one runs */
    } value;
} CudaLaunchAttribute;

typedef struct CudaLaunchConfig {
    uint32_t grid[3], block[3], shared_bytes;
    CudaStream stream;
    CudaLaunchAttribute *attributes;
    uint32_t n_attributes;
} CudaLaunchConfig;

/* CUDA_FN(required, member, symbol, parameters): the functions of CudaDriver. */
#define CUDA_FUNCTIONS(CUDA_FN)                                                                    \
    CUDA_FN(1, init, cuInit, (unsigned flags))                                                     \
    CUDA_FN(1, driver_version, cuDriverGetVersion, (int *version))                                 \
    CUDA_FN(1, error_name, cuGetErrorName, (CudaResult, const char **))                            \
    CUDA_FN(1, error_text, cuGetErrorString, (CudaResult, const char **))                          \
    CUDA_FN(1, device_count, cuDeviceGetCount, (int *count))                                       \
    CUDA_FN(1, device_get, cuDeviceGet, (CudaDevice *, int ordinal))                               \
    CUDA_FN(1, device_name, cuDeviceGetName, (char *name, int bytes, CudaDevice))                  \
    CUDA_FN(1, device_attribute, cuDeviceGetAttribute, (int *value, int attribute, CudaDevice))    \
    CUDA_FN(1, context_retain, cuDevicePrimaryCtxRetain, (CudaContext *, CudaDevice))              \
    CUDA_FN(1, context_release, cuDevicePrimaryCtxRelease_v2, (CudaDevice))                        \
    CUDA_FN(1, context_set, cuCtxSetCurrent, (CudaContext))                                        \
    CUDA_FN(1, synchronize, cuCtxSynchronize, (void))                                              \
    CUDA_FN(1, module_load, cuModuleLoadDataEx,                                                    \
            (CudaModule *, const void *image, unsigned n, int *options, void **values))            \
    CUDA_FN(1, module_unload, cuModuleUnload, (CudaModule))                                        \
    CUDA_FN(1, module_function, cuModuleGetFunction, (CudaFunction *, CudaModule, const char *))   \
    CUDA_FN(1, module_global, cuModuleGetGlobal_v2,                                                \
            (CudaAddress *, size_t * bytes, CudaModule, const char *name))                         \
    CUDA_FN(1, function_set, cuFuncSetAttribute, (CudaFunction, int attribute, int value))         \
    CUDA_FN(0, function_param, cuFuncGetParamInfo,                                                 \
            (CudaFunction, size_t index, size_t * offset, size_t * bytes))                         \
    CUDA_FN(1, allocate, cuMemAlloc_v2, (CudaAddress *, size_t bytes))                             \
    CUDA_FN(1, release, cuMemFree_v2, (CudaAddress))                                               \
    CUDA_FN(1, fill, cuMemsetD8_v2, (CudaAddress, unsigned char byte, size_t bytes))               \
    CUDA_FN(1, write, cuMemcpyHtoD_v2, (CudaAddress, const void *, size_t bytes))                  \
    CUDA_FN(1, read, cuMemcpyDtoH_v2, (void *, CudaAddress, size_t bytes))                         \
    CUDA_FN(1, launch, cuLaunchKernel,                                                             \
            (CudaFunction, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,        \
             unsigned bz, unsigned shared, CudaStream, void **args, void **extra))                 \
    CUDA_FN(0, launch_ex, cuLaunchKernelEx,                                                        \
            (const CudaLaunchConfig *, CudaFunction, void **args, void **extra))                   \
    CUDA_FN(0, encode_map, cuTensorMapEncodeTiled,                                                 \
            (void *map, int type, uint32_t rank, void *address, const uint64_t *size,              \
             const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave,    \
             int swizzle, int promotion, int fill))                                                \
    CUDA_FN(1, event_new, cuEventCreate, (CudaEvent *, unsigned flags))                            \
    CUDA_FN(1, event_free, cuEventDestroy_v2, (CudaEvent))                                         \
    CUDA_FN(1, event_record, cuEventRecord, (CudaEvent, CudaStream))                               \
    CUDA_FN(1, event_wait, cuEventSynchronize, (CudaEvent))                                        \
    CUDA_FN(1, event_elapsed, cuEventElapsedTime, (float *milliseconds, CudaEvent, CudaEvent))

typedef struct CudaDriver {
    void *library;
#define CUDA_FN(required, member, symbol, parameters) CudaResult(*member) parameters;
    CUDA_FUNCTIONS(CUDA_FN)
#undef CUDA_FN
} CudaDriver;

/* Opens libcuda and calls cuInit; false when there is no driver or no device to use. */
bool cuda_open(CudaDriver *driver, Fault *fault);
void cuda_close(CudaDriver *driver);

/* True for success; else says which call failed and why. */
bool cuda_ok(const CudaDriver *driver, CudaResult result, const char *what, Fault *fault);

#endif
