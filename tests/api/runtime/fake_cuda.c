/* fake_cuda.c - a libcuda.so.1 for tests of the launcher on machines without a GPU.
 *
 * Device memory is host memory; each allocation has guard bytes on both sides, checked when it is
 * freed or when the context goes.  Each thread has contexts of its own; without one calls fail as
 * the real ones do.  Every call is written to the file $FAKE_CUDA_LOG.  A "kernel" is a C function
 * found by the name of its entry; it checks its launch as a real one would need it. A test in the
 * same process may run kernels of any name itself: fake_cuda_on_launch.
 * FAKE_CUDA_CAPABILITY=MAJOR.MINOR (9.0), FAKE_CUDA_DEVICES=N (1), FAKE_CUDA_FAIL=FUNCTION,
 * FAKE_CUDA_DIRTY=1: a kernel leaves its scratch not zero.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/driver/launch_config.h"

typedef int Result;

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    NOT_FOUND = 500
};

static void
note(const char *format, ...)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    va_list args;

    if (!file)
        return;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fputc('\n', file);
    fclose(file);
}

static int
fails(const char *function)
{
    const char *name = getenv("FAKE_CUDA_FAIL");

    return name && strcmp(name, function) == 0;
}

/* ---- the kernels ---- */

/* What a kernel's parameters look like: their sizes, and what runs. */
typedef struct Kernel {
    const char *name;
    size_t bytes[16]; /* ends with 0 */
    void (*run)(void **args);
} Kernel;

/* Y[r, c] = factor * X[r, c]: X, X's stride, Y, Y's stride, R, C, factor. */
static void
run_scale(void **args)
{
    const float *x = *(float **)args[0];
    float *y = *(float **)args[2], factor = *(float *)args[6];
    int64_t x_stride = *(int64_t *)args[1], y_stride = *(int64_t *)args[3];
    int32_t rows = *(int32_t *)args[4], columns = *(int32_t *)args[5];

    for (int32_t r = 0; r < rows; r++)
        for (int32_t c = 0; c < columns; c++)
            y[r * y_stride + c] = factor * x[r * x_stride + c];
}

/* S[r] += sum of Y[r, :]: Y, Y's stride, S, R, C. */
static void
run_sum(void **args)
{
    const float *y = *(float **)args[0];
    float *s = *(float **)args[2];
    int64_t y_stride = *(int64_t *)args[1];
    int32_t rows = *(int32_t *)args[3], columns = *(int32_t *)args[4];

    for (int32_t r = 0; r < rows; r++)
        for (int32_t c = 0; c < columns; c++)
            s[r] += y[r * y_stride + c];
}

/* out[i] = in[i] + add for n elements: in, out, add (f32), n (i32), scratch. */
static void
run_by_hand(void **args)
{
    const float *in = *(float **)args[0];
    float *out = *(float **)args[1], add = *(float *)args[2];
    int32_t n = *(int32_t *)args[3];

    memset(*(void **)args[4], 1, 64);
    for (int32_t i = 0; i < n; i++)
        out[i] = in[i] + add;
}

/* examples/copy.tile: X, Y, S. */
static void
run_copy(void **args)
{
    memcpy(*(void **)args[1], *(void **)args[0], 4 * (size_t) * (int32_t *)args[2]);
}

/* A tensor map in this driver's own form; what a real one refuses, cuTensorMapEncodeTiled
 * refuses. */
typedef struct Map {
    uint32_t type, rank;
    uint64_t address, size[5], stride[4];
    uint32_t box[5];
} Map;
_Static_assert(sizeof(Map) <= 128, "a tensor map has 128 bytes");

/* The 16 bits at c[] of a tensor of rank 4, innermost first; 0 out of bounds. */
static uint16_t
map_element(const Map *map, const uint64_t c[4])
{
    const unsigned char *at = (const unsigned char *)(uintptr_t)map->address + c[0] * 2;
    uint16_t value;

    for (int d = 0; d < 4; d++)
        if (c[d] >= map->size[d])
            return 0;
    for (int d = 1; d < 4; d++)
        at += c[d] * map->stride[d - 1];
    memcpy(&value, at, sizeof value);
    return value;
}

/* The kernels of tests/run/parameters.ptx, with the bits added as integers: maps of X and K, Y and
 * its strides, B, S, H, counter, rows, zero. */
static void
run_add_boxes(void **args)
{
    Map x, k;
    uint16_t *y = *(uint16_t **)args[2];
    int32_t n_b = *(int32_t *)args[6], n_s = *(int32_t *)args[7], n_h = *(int32_t *)args[8];
    uint32_t *counter = *(uint32_t **)args[9];
    int32_t *rows = *(int32_t **)args[10], zero = *(int32_t *)args[11];

    memcpy(&x, args[0], sizeof x);
    memcpy(&k, args[1], sizeof k);
    note("scratch %p workspace %p", (void *)counter, (void *)rows);
    if (counter[0] || counter[1] || zero || (uintptr_t)counter % 64 || (uintptr_t)rows % 64)
        note("WRONG scratch or zero");
    for (int32_t b = 0; b < n_b; b++)
        for (int32_t s = 0; s < n_s; s++)
            for (int32_t h = 0; h < n_h; h++) {
                uint16_t *to = y + b * *(int64_t *)args[3] + s * *(int64_t *)args[4] +
                               h * *(int64_t *)args[5];
                for (uint64_t d = 0; d < 128; d++) {
                    uint64_t at[4] = {d, (uint64_t)s, (uint64_t)h, (uint64_t)b};
                    to[d] = (uint16_t)(map_element(&x, at) + map_element(&k, at));
                }
                rows[(b * n_s + s) * n_h + h] = b * 1000000 + s * 1000 + h;
            }
    counter[0] = getenv("FAKE_CUDA_DIRTY") != NULL;
}

/* T and its strides, rows, S, H; the grid is S x B. */
static unsigned grid_y;

static void
run_copy_rows(void **args)
{
    int32_t *t = *(int32_t **)args[0], *rows = *(int32_t **)args[3];
    int32_t n_s = *(int32_t *)args[4], n_h = *(int32_t *)args[5];

    for (int32_t b = 0; b < (int32_t)grid_y; b++)
        for (int32_t s = 0; s < n_s; s++)
            for (int32_t h = 0; h < n_h; h++)
                t[b * *(int64_t *)args[1] + s * *(int64_t *)args[2] + h] =
                    rows[(b * n_s + s) * n_h + h];
}

/* out[i] = the i-th element of a map's tensor + add + more[i], row by row: the map (f32, rank 2), a
 * structure {out, add, rows} by value, the address of a structure {0, more}, columns. */
static void
run_forms(void **args)
{
    const Map *map = args[0];
    const unsigned char *by_value = args[1];
    float *out, add, *more;
    int32_t rows, columns = *(int32_t *)args[3];

    memcpy(&out, by_value, sizeof out);
    memcpy(&add, by_value + 8, sizeof add);
    memcpy(&rows, by_value + 12, sizeof rows);
    memcpy(&more, *(unsigned char **)args[2] + 8, sizeof more);
    for (int32_t r = 0; r < rows; r++)
        for (int32_t c = 0; c < columns; c++) {
            const float *row = (const float *)(uintptr_t)(map->address +
                                                          (uint64_t)r * map->stride[0]);
            *out++ = row[c] + add + *more++;
        }
}

static const Kernel kernels[] = {
    {"forms", {128, 24, 8, 4}, run_forms},
    {"add_boxes", {128, 128, 8, 8, 8, 8, 4, 4, 4, 8, 8, 4}, run_add_boxes},
    {"copy_rows", {8, 8, 8, 8, 4, 4}, run_copy_rows},
    {"copy", {8, 8, 4}, run_copy},
    {"scale_entry", {8, 8, 8, 8, 4, 4, 4}, run_scale},
    {"sum_entry", {8, 8, 8, 4, 4}, run_sum},
    {"by_hand", {8, 8, 4, 4, 8}, run_by_hand}};

/* What runs kernels that are not in the table; they are given their name. */
typedef void Runner(const char *name, void **args, const unsigned *grid);
static Runner *runner;
enum { MAX_NAMED = 64 };
static Kernel named[MAX_NAMED];

#define EXPORT __attribute__((visibility("default")))

EXPORT void
fake_cuda_on_launch(Runner *run)
{
    runner = run;
}

/* A kernel for the runner; NULL without one. */
static Kernel *
name_kernel(const char *name)
{
    for (int i = 0; runner != NULL && i < MAX_NAMED; i++) {
        if (named[i].name == NULL)
            named[i].name = strdup(name);
        if (strcmp(named[i].name, name) == 0)
            return &named[i];
    }
    return NULL;
}

/* ---- the API ---- */

enum { MAX_BLOCKS = 64, GUARD = 64 };

static struct {
    unsigned char *at;
    size_t bytes;
} blocks[MAX_BLOCKS];
static int n_blocks;
static char *loaded; /* the PTX text */

static void
check_guards(void)
{
    for (int i = 0; i < n_blocks; i++)
        for (int k = 0; k < GUARD; k++)
            if (blocks[i].at[-GUARD + k] != 0xA5 ||
                blocks[i].at[blocks[i].bytes + (size_t)k] != 0xA5) {
                note("GUARD of allocation %d overwritten", i);
                return;
            }
}

/* The stack of this thread's contexts; nothing lies below the bottom. */
enum { MAX_CONTEXTS = 8 };
static __thread void *contexts[MAX_CONTEXTS];
static __thread int top;

#define ENTER(name)                                                                                \
    if (fails(name))                                                                               \
    return OUT_OF_MEMORY
#define NEED_CONTEXT(name)                                                                         \
    ENTER(name);                                                                                   \
    if (contexts[top] == NULL)                                                                     \
    return INVALID_CONTEXT

EXPORT Result
cuInit(unsigned flags)
{
    (void)flags;
    ENTER("cuInit");
    return OK;
}

EXPORT Result
cuDriverGetVersion(int *version)
{
    *version = 13000;
    return OK;
}

EXPORT Result
cuGetErrorName(Result result, const char **name)
{
    *name = result == INVALID_VALUE     ? "CUDA_ERROR_INVALID_VALUE"
            : result == OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
            : result == INVALID_PTX     ? "CUDA_ERROR_INVALID_PTX"
            : result == NOT_FOUND       ? "CUDA_ERROR_NOT_FOUND"
                                        : "CUDA_ERROR_UNKNOWN";
    return OK;
}

EXPORT Result
cuGetErrorString(Result result, const char **text)
{
    *text = result == OUT_OF_MEMORY ? "out of memory" : "made up by the test";
    return OK;
}

EXPORT Result
cuDeviceGetCount(int *count)
{
    const char *text = getenv("FAKE_CUDA_DEVICES");

    *count = text ? atoi(text) : 1;
    return OK;
}

EXPORT Result
cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return OK;
}

EXPORT Result
cuDeviceGetName(char *name, int bytes, int device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "Fake GPU");
    return OK;
}

EXPORT Result
cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const char *capability = getenv("FAKE_CUDA_CAPABILITY");

    (void)device;
    if (!capability)
        capability = "9.0";
    *value = attribute == 75   ? atoi(capability)
             : attribute == 76 ? atoi(strchr(capability, '.') + 1)
             : attribute == 16 ? 7
             : attribute == 81 ? 233472
             : attribute == 97 ? 232448
                               : 0;
    return OK;
}

EXPORT Result
cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = &n_blocks;
    return OK;
}

EXPORT Result
cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    check_guards();
    for (int i = 0; i < n_blocks; i++)
        free(blocks[i].at - GUARD);
    n_blocks = 0;
    return OK;
}

EXPORT Result
cuCtxSetCurrent(void *context)
{
    contexts[top] = context;
    return OK;
}

EXPORT Result
cuCtxGetCurrent(void **context)
{
    *context = contexts[top];
    return OK;
}

EXPORT Result
cuCtxPushCurrent_v2(void *context)
{
    if (context == NULL || top + 1 == MAX_CONTEXTS)
        return INVALID_CONTEXT;
    contexts[++top] = context;
    return OK;
}

EXPORT Result
cuCtxPopCurrent_v2(void **context)
{
    if (top == 0)
        return INVALID_CONTEXT;
    *context = contexts[top--];
    return OK;
}

EXPORT Result
cuCtxGetDevice(int *device)
{
    NEED_CONTEXT("cuCtxGetDevice");
    *device = 0;
    return OK;
}

/* Capture of graphs is PyTorch's, which these tests do without. */
EXPORT Result
cuThreadExchangeStreamCaptureMode(int *mode)
{
    static __thread int now;
    int before = now;

    now = *mode;
    *mode = before;
    return OK;
}

EXPORT Result
cuStreamCreate(void **stream, unsigned flags)
{
    NEED_CONTEXT("cuStreamCreate");
    if (flags != 1)
        return INVALID_VALUE;
    *stream = &n_blocks;
    return OK;
}

EXPORT Result
cuStreamSynchronize(void *stream)
{
    return stream == &n_blocks ? OK : INVALID_VALUE;
}

EXPORT Result
cuStreamDestroy_v2(void *stream)
{
    return stream == &n_blocks ? OK : INVALID_VALUE;
}

EXPORT Result
cuCtxSynchronize(void)
{
    NEED_CONTEXT("cuCtxSynchronize");
    return OK;
}

EXPORT Result
cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values)
{
    NEED_CONTEXT("cuModuleLoadDataEx");
    if (strstr(image, "BROKEN")) {
        for (unsigned i = 0; i < n; i++)
            if (options[i] == 5)
                strcpy(values[i], "ptxas fatal : it says BROKEN");
        return INVALID_PTX;
    }
    loaded = strdup(image);
    *module = &loaded;
    note("load %zu bytes", strlen(image));
    if (strncmp(image, "CUBIN", 5) == 0)
        note("cubin %s", (const char *)image + 5);
    return OK;
}

EXPORT Result
cuModuleUnload(void *module)
{
    (void)module;
    free(loaded);
    return OK;
}

EXPORT Result
cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0) {
            *function = (void *)(uintptr_t)&kernels[i];
            return OK;
        }
    *function = name_kernel(name);
    return *function != NULL ? OK : NOT_FOUND;
}

EXPORT Result
cuModuleGetGlobal_v2(unsigned long long *address, size_t *bytes, void *module, const char *name)
{
    static unsigned char data[1 << 16]; /* of the PTX that was loaded last */
    const char *at = loaded == NULL ? NULL : strstr(loaded, name);
    size_t n = 0;

    (void)module;
    while (at != NULL && at[strlen(name)] != '[') /* a comment */
        at = strstr(at + 1, name);
    if (at == NULL)
        return NOT_FOUND;
    for (at = strchr(at, '{') + 1; n < sizeof data; n++) {
        char *end;
        data[n] = (unsigned char)strtoul(at, &end, 10);
        if (end == at)
            break;
        at = end + (*end == ',');
    }
    *address = (uintptr_t)data;
    *bytes = n;
    return OK;
}

EXPORT Result
cuFuncSetAttribute(void *function, int attribute, int value)
{
    note("attribute %s %d %d", ((Kernel *)function)->name, attribute, value);
    return OK;
}

EXPORT Result
cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *bytes)
{
    const Kernel *kernel = function;
    size_t at = 0;

    for (size_t i = 0; kernel->bytes[i]; i++) {
        at = (at + kernel->bytes[i] - 1) / kernel->bytes[i] * kernel->bytes[i];
        if (i == index) {
            *offset = at;
            *bytes = kernel->bytes[i];
            return OK;
        }
        at += kernel->bytes[i];
    }
    return INVALID_VALUE;
}

EXPORT Result
cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
    NEED_CONTEXT("cuMemAlloc_v2");
    unsigned char *at = n_blocks < MAX_BLOCKS ? aligned_alloc(256, (bytes + 1024) / 256 * 256)
                                              : NULL;
    if (!at)
        return OUT_OF_MEMORY;
    memset(at, 0xA5, bytes + 2 * GUARD);
    blocks[n_blocks].at = at + GUARD;
    blocks[n_blocks++].bytes = bytes;
    *address = (uintptr_t)at + GUARD;
    return OK;
}

EXPORT Result
cuMemFree_v2(unsigned long long address)
{
    (void)address;
    return OK;
}

EXPORT Result
cuMemsetD8Async(unsigned long long address, unsigned char byte, size_t bytes, void *stream)
{
    NEED_CONTEXT("cuMemsetD8Async");
    if (stream != &n_blocks && stream != NULL)
        return INVALID_VALUE;
    memset((void *)(uintptr_t)address, byte, bytes);
    return OK;
}

EXPORT Result
cuMemsetD8_v2(unsigned long long address, unsigned char byte, size_t bytes)
{
    NEED_CONTEXT("cuMemsetD8_v2");
    memset((void *)(uintptr_t)address, byte, bytes);
    return OK;
}

EXPORT Result
cuTensorMapEncodeTiled(void *out, int type, uint32_t rank, void *address, const uint64_t *size,
                       const uint64_t *stride, const uint32_t *box, const uint32_t *step,
                       int interleave, int swizzle, int promotion, int fill)
{
    Map map = {.type = (uint32_t)type, .rank = rank, .address = (uintptr_t)address};
    char text[256] = "";

    NEED_CONTEXT("cuTensorMapEncodeTiled");
    if ((uintptr_t)out % 64 || !address || (uintptr_t)address % 16 || rank < 1 || rank > 5)
        return INVALID_VALUE;
    for (uint32_t d = 0; d < rank; d++) {
        if (size[d] < 1 || size[d] > (uint64_t)1 << 32 || box[d] < 1 || box[d] > 256 || step[d] != 1)
            return INVALID_VALUE;
        if (d > 0 && (stride[d - 1] % 16 || stride[d - 1] >= (uint64_t)1 << 40))
            return INVALID_VALUE;
        map.size[d] = size[d];
        map.box[d] = box[d];
        if (d > 0)
            map.stride[d - 1] = stride[d - 1];
        snprintf(text + strlen(text), sizeof text - strlen(text), " %llu:%llu:%u",
                 (unsigned long long)size[d], (unsigned long long)(d > 0 ? stride[d - 1] : 0),
                 box[d]);
    }
    note("map type %d%s swizzle %d promotion %d interleave %d fill %d", type, text, swizzle,
         promotion, interleave, fill);
    memset(out, 0, 128);
    memcpy(out, &map, sizeof map);
    return OK;
}

EXPORT Result
cuTensorMapReplaceAddress(void *out, void *address)
{
    Map map;

    if ((uintptr_t)out % 64 || !address || (uintptr_t)address % 16)
        return INVALID_VALUE;
    memcpy(&map, out, sizeof map);
    map.address = (uintptr_t)address;
    memcpy(out, &map, sizeof map);
    return OK;
}

/* $FAKE_CUDA_CAPTURE: the number of the graph that is being captured in every stream; none: none
 * is. */
EXPORT Result
cuStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = getenv("FAKE_CUDA_CAPTURE") != NULL;
    return OK;
}

EXPORT Result
cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void *graph, void *nodes, void *n)
{
    const char *capture = getenv("FAKE_CUDA_CAPTURE");

    (void)stream, (void)graph, (void)nodes, (void)n;
    *status = capture != NULL;
    *id = capture != NULL ? strtoull(capture, NULL, 10) : 0;
    return OK;
}

EXPORT Result
cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
    NEED_CONTEXT("cuMemcpyHtoD_v2");
    memcpy((void *)(uintptr_t)to, from, bytes);
    return OK;
}

EXPORT Result
cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    NEED_CONTEXT("cuMemcpyDtoH_v2");
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return OK;
}

EXPORT Result
cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
               unsigned bz, unsigned shared, void *stream, void **args, void **extra)
{
    const Kernel *kernel = function;

    (void)stream;
    (void)extra;
    NEED_CONTEXT("cuLaunchKernel");
    note("launch %s grid %u %u %u block %u %u %u shared %u", kernel->name, gx, gy, gz, bx, by, bz,
         shared);
    if (!gx || !gy || !gz)
        return INVALID_VALUE;
    grid_y = gy;
    if (kernel->run != NULL)
        kernel->run(args);
    else
        runner(kernel->name, args, (unsigned[]){gx, gy, gz});
    return OK;
}

EXPORT Result
cuLaunchKernelEx(const Config *config, void *function, void **args, void **extra)
{
    for (unsigned i = 0; i < config->n; i++)
        note("attribute %u: %u %u %u", config->attributes[i].id, config->attributes[i].value[0],
             config->attributes[i].value[1], config->attributes[i].value[2]);
    return cuLaunchKernel(function, config->grid[0], config->grid[1], config->grid[2],
                          config->block[0], config->block[1], config->block[2], config->shared,
                          config->stream, args, extra);
}

EXPORT Result
cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(int));
    return OK;
}

EXPORT Result
cuEventDestroy_v2(void *event)
{
    free(event);
    return OK;
}

static int ticks;

EXPORT Result
cuEventRecord(void *event, void *stream)
{
    (void)stream;
    *(int *)event = ++ticks;
    return OK;
}

EXPORT Result
cuEventSynchronize(void *event)
{
    (void)event;
    return OK;
}

EXPORT Result
cuEventElapsedTime(float *milliseconds, void *start, void *stop)
{
    *milliseconds = 0.25F * (float)(*(int *)stop - *(int *)start);
    return OK;
}
