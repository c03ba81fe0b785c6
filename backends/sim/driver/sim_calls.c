/* sim_calls.c - calls of the CUDA driver API that programs make around their kernels, for
 * sim_cuda.c: contexts, streams, events, copies.  All is done at once, in the order in which it is
 * called, whatever the stream.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/sim/driver/sim_cuda.h"

typedef unsigned long long Address;

/* of sim_cuda.c */
Result cuCtxSetCurrent(void *context);
Result cuModuleLoadData(void **module, const void *image);
Result cuMemAlloc_v2(Address *address, size_t bytes);
Result cuMemFree_v2(Address address);

/* ---- the driver and the device ---- */

EXPORT Result
cuDriverGetVersion(int *version)
{
    *version = 13000;
    return OK;
}

EXPORT Result
cuDeviceGetCount(int *count)
{
    *count = 1;
    return sim_cuda_device() == NULL ? NOT_INITIALIZED : OK;
}

EXPORT Result
cuDeviceGetName(char *name, int n, int ordinal)
{
    snprintf(name, (size_t)n, "simulated GPU");
    return ordinal == 0 ? OK : INVALID_VALUE;
}

EXPORT Result
cuDeviceTotalMem_v2(size_t *bytes, int ordinal)
{
    *bytes = (size_t)16 << 30;
    return ordinal == 0 ? OK : INVALID_VALUE;
}

EXPORT Result
cuMemGetInfo_v2(size_t *left, size_t *total)
{
    *left = *total = (size_t)16 << 30;
    return sim_cuda_has_context() ? OK : INVALID_CONTEXT;
}

Result
sim_cuda_attribute(int *value, int attribute)
{
    static const struct {
        int attribute, value;
    } known[] = {{1, 1024},       {2, 1024},   {3, 1024},     {4, 64},
                 {5, 0x7fffffff}, {6, 65535},  {7, 65535},    {8, 49152},
                 {10, 32},        {12, 65536}, {13, 1980000}, {39, 2048},
                 {41, 1},         {82, 65536}, {95, 1},       {115, 1 /* pools */},
                 {38, 60 << 20}};

    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        if (known[k].attribute == attribute) {
            *value = known[k].value;
            return OK;
        }
    }
    return INVALID_VALUE;
}

EXPORT Result
cuGetErrorName(Result result, const char **text)
{
    *text = result == OK              ? "CUDA_SUCCESS"
            : result == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
                                      : "CUDA_ERROR";
    return OK;
}

/* ---- contexts ---- */

EXPORT Result
cuCtxCreate_v2(void **context, unsigned flags, int ordinal)
{
    (void)flags;
    *context = sim_cuda_device();
    return ordinal != 0       ? INVALID_VALUE
           : *context == NULL ? NOT_INITIALIZED
                              : cuCtxSetCurrent(*context);
}

/* Since CUDA 13: with parameters, of which none is known. */
EXPORT Result
cuCtxCreate_v4(void **context, void *parameters, unsigned flags, int ordinal)
{
    return parameters != NULL ? INVALID_VALUE : cuCtxCreate_v2(context, flags, ordinal);
}

EXPORT Result
cuCtxDestroy_v2(void *context)
{
    return context == sim_cuda_device() ? OK : INVALID_CONTEXT;
}

/* ---- modules ---- */

EXPORT Result
cuModuleLoad(void **module, const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t n = 0, most = 1 << 16;
    char *text = malloc(most + 1);

    if (file == NULL || text == NULL) {
        free(text);
        return 301; /* CUDA_ERROR_FILE_NOT_FOUND */
    }
    for (size_t got; (got = fread(text + n, 1, most - n, file)) > 0;) {
        n += got;
        char *bigger = n == most ? realloc(text, (most *= 2) + 1) : text;
        if (bigger == NULL)
            break;
        text = bigger;
    }
    text[n] = '\0';
    fclose(file);
    Result result = cuModuleLoadData(module, text);
    free(text);
    return result;
}

/* ---- memory ---- */

EXPORT Result
cuMemAllocAsync(Address *address, size_t bytes, void *stream)
{
    (void)stream;
    return cuMemAlloc_v2(address, bytes);
}

EXPORT Result
cuMemFreeAsync(Address address, void *stream)
{
    (void)stream;
    return cuMemFree_v2(address);
}

EXPORT Result
cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    return sim_write(sim_cuda_device(), to, from, bytes) ? OK : INVALID_VALUE;
}

EXPORT Result
cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *stream)
{
    (void)stream;
    return sim_read(sim_cuda_device(), from, to, bytes) ? OK : INVALID_VALUE;
}

EXPORT Result
cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void *stream)
{
    void *between = malloc(bytes + 1);
    Result result = between == NULL ? OUT_OF_MEMORY
                                    : cuMemcpyDtoHAsync_v2(between, from, bytes, stream);

    if (result == OK)
        result = cuMemcpyHtoDAsync_v2(to, between, bytes, stream);
    free(between);
    return result;
}

EXPORT Result
cuMemcpyDtoD_v2(Address to, Address from, size_t bytes)
{
    return cuMemcpyDtoDAsync_v2(to, from, bytes, NULL);
}

EXPORT Result
cuMemsetD32_v2(Address to, unsigned value, size_t count)
{
    for (size_t k = 0; k < count; k++)
        if (!sim_write(sim_cuda_device(), to + 4 * k, &value, 4))
            return INVALID_VALUE;
    return OK;
}

EXPORT Result
cuMemsetD32Async(Address to, unsigned value, size_t count, void *stream)
{
    (void)stream;
    return cuMemsetD32_v2(to, value, count);
}

EXPORT Result
cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    *out = malloc(bytes ? bytes : 1);
    return *out == NULL ? OUT_OF_MEMORY : OK;
}

EXPORT Result
cuMemAllocHost_v2(void **out, size_t bytes)
{
    return cuMemHostAlloc(out, bytes, 0);
}

EXPORT Result
cuMemFreeHost(void *memory)
{
    free(memory);
    return OK;
}

/* ---- streams and events ---- */

typedef struct Event {
    struct timespec at;
} Event;

EXPORT Result
cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    *stream = malloc(1);
    return *stream == NULL ? OUT_OF_MEMORY : OK;
}

EXPORT Result
cuStreamDestroy_v2(void *stream)
{
    free(stream);
    return OK;
}

EXPORT Result
cuStreamSynchronize(void *stream)
{
    (void)stream;
    return OK;
}

EXPORT Result
cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return OK;
}

EXPORT Result
cuEventCreate(Event **event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    return *event == NULL ? OUT_OF_MEMORY : OK;
}

EXPORT Result
cuEventRecord(Event *event, void *stream)
{
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return OK;
}

EXPORT Result
cuEventSynchronize(const Event *event)
{
    (void)event;
    return OK;
}

/* The simulator's own time, which says nothing of a chip's. */
EXPORT Result
cuEventElapsedTime(float *milliseconds, const Event *from, const Event *to)
{
    *milliseconds = (float)(1e3 * (double)(to->at.tv_sec - from->at.tv_sec) +
                            1e-6 * (double)(to->at.tv_nsec - from->at.tv_nsec));
    return OK;
}

EXPORT Result
cuEventDestroy_v2(Event *event)
{
    free(event);
    return OK;
}
