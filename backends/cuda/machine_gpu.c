/* machine_gpu.c - a Machine over the CUDA Driver API, on the first GPU. */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/driver.h"
#include "backends/cuda/machine.h"

typedef struct Gpu {
    CudaDriver cuda;
    CudaDevice device;
    CudaModule module;
    int major, minor, shared_limit;
} Gpu;

enum { WARM_UPS = 10 };

static bool
gpu_load(Machine *machine, const char *image, size_t n, const char *path, Fault *fault)
{
    Gpu *gpu = machine->state;
    char *text = malloc(n + 1), log[1024] = "";
    int keys[2] = {CUDA_JIT_ERROR_LOG_BUFFER, CUDA_JIT_ERROR_LOG_BUFFER_BYTES};
    void *values[2] = {log, (void *)(uintptr_t)sizeof log};

    if (!text)
        return fault_set(fault, "out of memory");
    memcpy(text, image, n);
    text[n] = '\0'; /* the driver wants PTX NUL-terminated */
    CudaResult result = gpu->cuda.module_load(&gpu->module, text, 2, keys, values);
    free(text);
    if (cuda_ok(&gpu->cuda, result, path, fault))
        return true;
    size_t used = strlen(fault->text);
    snprintf(fault->text + used, sizeof fault->text - used, "%s%.1000s", *log ? "\n" : "", log);
    return false;
}

static char *
gpu_global(Machine *machine, Arena *arena, const char *name, size_t *bytes, Fault *fault)
{
    Gpu *gpu = machine->state;
    CudaAddress address;

    if (!cuda_ok(&gpu->cuda, gpu->cuda.module_global(&address, bytes, gpu->module, name), name,
                 fault))
        return NULL;
    char *data = arena_alloc(arena, *bytes + 1);
    return cuda_ok(&gpu->cuda, gpu->cuda.read(data, address, *bytes), name, fault) ? data : NULL;
}

static bool
gpu_check_arch(Machine *machine, const char *arch, Fault *fault)
{
    const Gpu *gpu = machine->state;

    return launch_check_arch(arch, gpu->major, gpu->minor, fault);
}

static bool
gpu_allocate(Machine *machine, size_t bytes, const char *name, uint64_t *address, Fault *fault)
{
    Gpu *gpu = machine->state;
    CudaAddress at = 0;

    if (!cuda_ok(&gpu->cuda, gpu->cuda.allocate(&at, bytes ? bytes : 1), name, fault))
        return false;
    *address = at;
    return true;
}

static bool
gpu_write(Machine *machine, uint64_t address, const void *from, size_t bytes, Fault *fault)
{
    Gpu *gpu = machine->state;

    return bytes == 0 ||
           cuda_ok(&gpu->cuda, gpu->cuda.write(address, from, bytes), "copying to the GPU", fault);
}

static bool
gpu_read(Machine *machine, uint64_t address, void *to, size_t bytes, Fault *fault)
{
    Gpu *gpu = machine->state;

    return bytes == 0 ||
           cuda_ok(&gpu->cuda, gpu->cuda.read(to, address, bytes), "copying from the GPU", fault);
}

static bool
gpu_clear(Machine *machine, uint64_t address, size_t bytes, bool undefined, Fault *fault)
{
    Gpu *gpu = machine->state;

    (void)undefined;
    return bytes == 0 ||
           cuda_ok(&gpu->cuda, gpu->cuda.fill(address, 0, bytes), "clearing memory", fault);
}

static size_t
gpu_count_written(Machine *machine, uint64_t address, size_t bytes)
{
    (void)machine;
    (void)address;
    return bytes;
}

static bool
gpu_make_map(Machine *machine, const TensorMapValues *map, void *out, Fault *fault)
{
    Gpu *gpu = machine->state;
    uint32_t steps[LAUNCH_MAP_RANK];
    _Alignas(64) unsigned char bytes[LAUNCH_MAP_BYTES]; /* the driver wants this alignment */

    for (int d = 0; d < LAUNCH_MAP_RANK; d++)
        steps[d] = map->step[d] ? map->step[d] : 1;
    if (!gpu->cuda.encode_map)
        return fault_set(fault, "this CUDA driver makes no tensor maps: version 12.0 and newer do");
    if (!cuda_ok(&gpu->cuda,
                 gpu->cuda.encode_map(bytes, (int)map->type, map->rank,
                                      (void *)(uintptr_t)map->address, map->size, map->stride,
                                      map->box, steps, 0, (int)map->swizzle, (int)map->l2_promotion,
                                      (int)map->fill),
                 "cuTensorMapEncodeTiled", fault))
        return false;
    memcpy(out, bytes, sizeof bytes);
    return true;
}

/* Of a kernel that nobody described, its parameters' sizes say whether the arguments are right.
 * Asking for one parameter too many is an error of the driver, which checkers report: for these
 * only. */
static bool
check_by_hand(Gpu *gpu, const LaunchReady *ready, CudaFunction function, Fault *fault)
{
    size_t offset, bytes, count = 0;

    while (count <= ready->n_args &&
           gpu->cuda.function_param(function, count, &offset, &bytes) == 0) {
        if (count < ready->n_args && bytes != ready->arg_bytes[count])
            return fault_set(fault,
                             "%s: parameter %zu has %zu bytes, its argument %u: a type is wrong",
                             ready->entry, count, bytes, (unsigned)ready->arg_bytes[count]);
        count++;
    }
    if (count == ready->n_args)
        return true;
    return fault_set(fault, "%s takes %s%zu parameters, but %u were given", ready->entry,
                     count > ready->n_args ? "at least " : "", count, (unsigned)ready->n_args);
}

/* The function of a launch, with its shared memory allowed and its parameters counted. */
static bool
find_function(Gpu *gpu, const LaunchReady *ready, CudaFunction *function, Fault *fault)
{
    CudaResult result = gpu->cuda.module_function(function, gpu->module, ready->entry);

    if (result == CUDA_ERROR_NOT_FOUND)
        return fault_set(fault, "the PTX has no .visible .entry '%s'", ready->entry);
    if (!cuda_ok(&gpu->cuda, result, ready->entry, fault))
        return false;
    if ((int64_t)ready->shared > gpu->shared_limit)
        return fault_set(fault, "%s needs %u bytes of shared memory; this GPU has %d for a block",
                         ready->entry, (unsigned)ready->shared, gpu->shared_limit);
    if (ready->shared > 48 * 1024 &&
        !cuda_ok(
            &gpu->cuda,
            gpu->cuda.function_set(*function, CUDA_FUNCTION_MAX_DYNAMIC_SHARED, (int)ready->shared),
            "setting the shared memory", fault))
        return false;
    if (!gpu->cuda.function_param)
        return true;
    if (ready->by_hand)
        return check_by_hand(gpu, ready, *function, fault);
    size_t offset, bytes, count = 0, shift = 0;
    while (count < ready->n_args &&
           gpu->cuda.function_param(*function, count, &offset, &bytes) == 0) {
        size_t given = count < ready->n_args
                           ? (size_t)((unsigned char *)ready->args[count] - ready->params)
                           : offset + shift;
        /* Tensor maps are aligned where the machine keeps parameters, which need not begin at a
         * multiple of that: a map, and what stands behind it, may lie elsewhere than we count,
         * before or behind.  The driver copies each by itself. */
        if (bytes == LAUNCH_MAP_BYTES && given % LAUNCH_MAP_BYTES == 0)
            shift = given - offset;
        if (given != offset + shift)
            return fault_set(fault,
                             "%s: parameter %zu lies at offset %zu of the kernel, but %zu of "
                             "the arguments: a type is wrong",
                             ready->entry, count, offset, given);
        count++;
    }
    if (count == ready->n_args)
        return true;
    return fault_set(fault, "%s takes %zu parameters, but %u were given", ready->entry, count,
                     (unsigned)ready->n_args);
}

static bool
issue(Gpu *gpu, CudaFunction function, const LaunchReady *ready, Fault *fault)
{
    const uint32_t *g = ready->grid, *b = ready->block, *c = ready->cluster;
    CudaResult result;

    if (g[0] == 0 || g[1] == 0 || g[2] == 0)
        return true; /* nothing to do; the driver would refuse it */
    bool clusters = c[0] * c[1] * c[2] > 1;
    if (clusters && !gpu->cuda.launch_ex)
        return fault_set(fault, "%s runs in clusters, which this CUDA driver does not know",
                         ready->entry);
    CudaLaunchAttribute attributes[2];
    CudaLaunchConfig config = {.grid = {g[0], g[1], g[2]},
                               .block = {b[0], b[1], b[2]},
                               .shared_bytes = ready->shared,
                               .attributes = attributes};
    if (clusters)
        attributes[config.n_attributes++] = (CudaLaunchAttribute){
            .id = CUDA_LAUNCH_CLUSTER_DIMENSION, .value.cluster = {c[0], c[1], c[2]}};
    if (ready->early_start && gpu->cuda.launch_ex) /* an old driver starts it behind the others */
        attributes[config.n_attributes++] = (CudaLaunchAttribute){
            .id = CUDA_LAUNCH_PROGRAMMATIC_SERIALIZATION, .value.serialization = 1};
    if (config.n_attributes == 0)
        result = gpu->cuda.launch(function, g[0], g[1], g[2], b[0], b[1], b[2], ready->shared, NULL,
                                  ready->args, NULL);
    else
        result = gpu->cuda.launch_ex(&config, function, ready->args, NULL);
    return cuda_ok(&gpu->cuda, result, ready->entry, fault);
}

static RunStatus
gpu_launch(Machine *machine, const LaunchReady *ready, Fault *fault)
{
    Gpu *gpu = machine->state;
    CudaFunction function;

    if (!find_function(gpu, ready, &function, fault) || !issue(gpu, function, ready, fault) ||
        !cuda_ok(&gpu->cuda, gpu->cuda.synchronize(), ready->entry, fault))
        return RUN_FAULT;
    return RUN_OK;
}

static bool
time_runs(Gpu *gpu, const LaunchReady *launches, const CudaFunction *functions, uint32_t n_launches,
          uint32_t n, CudaEvent start, CudaEvent stop, float *out, Fault *fault)
{
    for (uint32_t i = 0; i < WARM_UPS + n; i++) {
        float milliseconds = 0;
        bool ok = cuda_ok(&gpu->cuda, gpu->cuda.event_record(start, NULL), "cuEventRecord", fault);
        for (uint32_t k = 0; ok && k < n_launches; k++)
            ok = issue(gpu, functions[k], &launches[k], fault);
        if (!ok ||
            !cuda_ok(&gpu->cuda, gpu->cuda.event_record(stop, NULL), "cuEventRecord", fault) ||
            !cuda_ok(&gpu->cuda, gpu->cuda.event_wait(stop), "running", fault) ||
            !cuda_ok(&gpu->cuda, gpu->cuda.event_elapsed(&milliseconds, start, stop), "timing",
                     fault))
            return false;
        if (i >= WARM_UPS)
            out[i - WARM_UPS] = milliseconds;
    }
    return true;
}

static bool
gpu_time(Machine *machine, const LaunchReady *launches, uint32_t n_launches, uint32_t n, float *out,
         Fault *fault)
{
    Gpu *gpu = machine->state;
    CudaEvent start = NULL, stop = NULL;
    CudaFunction *functions = calloc(n_launches ? n_launches : 1, sizeof *functions);
    bool ok = functions || fault_set(fault, "out of memory");

    for (uint32_t k = 0; ok && k < n_launches; k++)
        ok = find_function(gpu, &launches[k], &functions[k], fault);
    ok = ok && cuda_ok(&gpu->cuda, gpu->cuda.event_new(&start, 0), "cuEventCreate", fault) &&
         cuda_ok(&gpu->cuda, gpu->cuda.event_new(&stop, 0), "cuEventCreate", fault) &&
         time_runs(gpu, launches, functions, n_launches, n, start, stop, out, fault);
    if (start)
        gpu->cuda.event_free(start);
    if (stop)
        gpu->cuda.event_free(stop);
    free(functions);
    return ok;
}

static void
gpu_close(Machine *machine)
{
    Gpu *gpu = machine->state;

    if (gpu->module)
        gpu->cuda.module_unload(gpu->module);
    gpu->cuda.context_release(gpu->device); /* frees all memory with the context */
    cuda_close(&gpu->cuda);
}

bool
machine_open_gpu(Machine *machine, Arena *arena, Fault *fault)
{
    Gpu *gpu = arena_new(arena, Gpu);
    CudaContext context;
    char name[128] = "GPU";
    int sm_count = 0, sm_shared = 0;

    if (!cuda_open(&gpu->cuda, fault))
        return false;
    const CudaDriver *cuda = &gpu->cuda;
    if (!cuda_ok(cuda, cuda->device_get(&gpu->device, 0), "cuDeviceGet", fault) ||
        !cuda_ok(cuda, cuda->device_name(name, sizeof name, gpu->device), "cuDeviceGetName",
                 fault) ||
        !cuda_ok(cuda,
                 cuda->device_attribute(&gpu->major, CUDA_DEVICE_CAPABILITY_MAJOR, gpu->device),
                 "cuDeviceGetAttribute", fault) ||
        !cuda_ok(cuda,
                 cuda->device_attribute(&gpu->minor, CUDA_DEVICE_CAPABILITY_MINOR, gpu->device),
                 "cuDeviceGetAttribute", fault) ||
        !cuda_ok(
            cuda,
            cuda->device_attribute(&gpu->shared_limit, CUDA_DEVICE_MAX_SHARED_OPTIN, gpu->device),
            "cuDeviceGetAttribute", fault) ||
        !cuda_ok(cuda, cuda->device_attribute(&sm_count, CUDA_DEVICE_SM_COUNT, gpu->device),
                 "cuDeviceGetAttribute", fault) ||
        !cuda_ok(cuda, cuda->device_attribute(&sm_shared, CUDA_DEVICE_SM_SHARED, gpu->device),
                 "cuDeviceGetAttribute", fault) ||
        !cuda_ok(cuda, cuda->context_retain(&context, gpu->device), "cuDevicePrimaryCtxRetain",
                 fault)) {
        cuda_close(&gpu->cuda);
        return false;
    }
    *machine = (Machine){.name = arena_printf(arena, "%s (sm_%d%d)", name, gpu->major, gpu->minor),
                         .state = gpu,
                         .sm_count = (uint32_t)sm_count,
                         .sm_shared = (uint32_t)sm_shared,
                         .load = gpu_load,
                         .global = gpu_global,
                         .check_arch = gpu_check_arch,
                         .allocate = gpu_allocate,
                         .write = gpu_write,
                         .read = gpu_read,
                         .clear = gpu_clear,
                         .count_written = gpu_count_written,
                         .make_map = gpu_make_map,
                         .launch = gpu_launch,
                         .time = gpu_time,
                         .close = gpu_close};
    if (!cuda_ok(cuda, cuda->context_set(context), "cuCtxSetCurrent", fault)) {
        gpu_close(machine);
        return false;
    }
    return true;
}
