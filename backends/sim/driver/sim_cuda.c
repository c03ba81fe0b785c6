/* sim_cuda.c - a libcuda.so.1 over the simulator: host programs run their kernels without a GPU.
 *
 * Kernels are run to their end at the launch, with all checks of the simulator; what it finds goes
 * to standard error, and the launch fails.  Device memory is the simulator's, so an address means
 * nothing to the host.  tilec-sim sets:
 *     SIM_CUDA_CAPABILITY=MAJOR.MINOR (9.0)    SIM_CUDA_SEED=N (0)    SIM_CUDA_SEEDS=N (1), of each launch
 *     SIM_CUDA_LATE=1: as simrun --late
 *     SIM_CUDA_STRICT=1: notes are faults      SIM_CUDA_STATUS=1: the program ends with status 3 after a fault
 *     SIM_CUDA_SARIF=FILE    SIM_CUDA_SUPPRESS=FILE: as --sarif and --suppress of simrun
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/sim/sim.h"
#include "backends/sim/driver/launch_config.h"
#include "backends/sim/driver/sim_cuda.h"

enum {
    ERROR_LOG = 5, /* CU_JIT_ERROR_LOG_BUFFER */
    SM_COUNT = 3   /* odd, and few: blocks go through several tiles, not all through as many */
};

/* A kernel of a loaded module; the driver's handles are pointers to these. */
typedef struct Function {
    SimModule *module;
    const SimEntry *entry;
    unsigned most_shared; /* dynamic, that a launch may ask for */
    struct Function *next;
} Function;

/* The driver has state of its own: one device, the functions that were asked for, and what context
 * each thread is in. */
static SimDevice *device;
static Function *functions;
static __thread void *current, *below; /* one may be pushed */

SimDevice *
sim_cuda_device(void)
{
    return device;
}

bool
sim_cuda_has_context(void)
{
    return current != NULL;
}

EXPORT Result
cuInit(unsigned flags)
{
    (void)flags;
    if (device == NULL)
        device = sim_device_new();
    return device == NULL ? OUT_OF_MEMORY : OK;
}

EXPORT Result
cuGetErrorString(Result result, const char **text)
{
    *text = result == LAUNCH_FAILED ? "the simulator found a fault" : "see cuda.h";
    return OK;
}

EXPORT Result
cuDeviceGet(int *out, int ordinal)
{
    *out = ordinal;
    return device == NULL ? NOT_INITIALIZED : ordinal == 0 ? OK : INVALID_VALUE;
}

EXPORT Result
cuDeviceGetAttribute(int *value, int attribute, int ordinal)
{
    const char *capability = getenv("SIM_CUDA_CAPABILITY");
    int major = 9, minor = 0;

    (void)ordinal;
    if (capability != NULL && sscanf(capability, "%d.%d", &major, &minor) != 2)
        return INVALID_VALUE;
    switch (attribute) {
    case 75: *value = major; return OK;
    case 76: *value = minor; return OK;
    case 16: *value = SM_COUNT; return OK;
    case 81: *value = 233472; return OK; /* shared memory of a multiprocessor */
    case 97: *value = 232448; return OK; /* shared memory of a block that asks for more */
    default: return sim_cuda_attribute(value, attribute);
    }
}

EXPORT Result
cuDevicePrimaryCtxRetain(void **context, int ordinal)
{
    (void)ordinal;
    *context = device;
    return device == NULL ? NOT_INITIALIZED : OK;
}

EXPORT Result
cuDevicePrimaryCtxRelease_v2(int ordinal)
{
    return device != NULL && ordinal == 0 ? OK : INVALID_VALUE;
}

EXPORT Result
cuCtxSetCurrent(void *context)
{
    current = context;
    return context == device ? OK : INVALID_VALUE;
}

EXPORT Result
cuCtxGetCurrent(void **context)
{
    *context = current;
    return device == NULL ? NOT_INITIALIZED : OK;
}

EXPORT Result
cuCtxPushCurrent_v2(void *context)
{
    below = current;
    return cuCtxSetCurrent(context);
}

EXPORT Result
cuCtxPopCurrent_v2(void **context)
{
    *context = current;
    current = below;
    return OK;
}

EXPORT Result
cuCtxGetDevice(int *out)
{
    *out = 0;
    return device == NULL ? NOT_INITIALIZED : current == NULL ? INVALID_CONTEXT : OK;
}

EXPORT Result
cuCtxSynchronize(void)
{
    return device == NULL ? NOT_INITIALIZED : OK;
}

EXPORT Result
cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values)
{
    SimError error = {0};

    if (current == NULL)
        return INVALID_CONTEXT;
    *module = sim_module_load(device, image, strlen(image), "module", &error);
    for (unsigned i = 0; *module == NULL && i < n; i++) {
        if (options[i] == ERROR_LOG) /* the examples give it 2048 bytes, an error has at most 600 */
            sprintf(values[i], "line %u: %s", (unsigned)error.line, error.message);
    }
    return *module == NULL ? INVALID_PTX : OK;
}

EXPORT Result
cuModuleLoadData(void **module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

EXPORT Result
cuModuleUnload(void *module)
{
    for (Function **at = &functions; *at != NULL;) {
        Function *function = *at;
        if (function->module != module) {
            at = &function->next;
            continue;
        }
        *at = function->next;
        free(function);
    }
    sim_module_free(module);
    return OK;
}

EXPORT Result
cuModuleGetFunction(void **out, void *module, const char *name)
{
    const SimEntry *entry = sim_entry_find(module, name);
    Function *function = entry == NULL ? NULL : calloc(1, sizeof *function);

    if (function == NULL)
        return NOT_FOUND;
    *function = (Function){module, entry, 48 * 1024, functions};
    functions = function;
    *out = function;
    return OK;
}

EXPORT Result
cuModuleGetGlobal_v2(unsigned long long *address, size_t *bytes, void *module, const char *name)
{
    *address = sim_global_find(module, name, bytes);
    return *address != 0 ? OK : NOT_FOUND;
}

const SimEntry *
sim_cuda_entry(const void *function)
{
    return ((const Function *)function)->entry;
}

EXPORT Result
cuFuncSetAttribute(void *function, int attribute, int value)
{
    if (attribute != 8 || value < 0 || value > 232448)
        return INVALID_VALUE;
    ((Function *)function)->most_shared = (unsigned)value;
    return OK;
}

EXPORT Result
cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
    if (current == NULL)
        return INVALID_CONTEXT;
    *address = bytes == 0 ? 0 : sim_alloc(device, bytes, "cuMemAlloc");
    return bytes == 0 ? INVALID_VALUE : *address == 0 ? OUT_OF_MEMORY : OK;
}

EXPORT Result
cuMemFree_v2(unsigned long long address)
{
    return sim_free(device, address) ? OK : INVALID_VALUE;
}

EXPORT Result
cuMemsetD8_v2(unsigned long long address, unsigned char byte, size_t bytes)
{
    return sim_fill(device, address, byte, bytes) && sim_mark(device, address, bytes, true)
               ? OK
               : INVALID_VALUE;
}

EXPORT Result
cuMemsetD8Async(unsigned long long address, unsigned char byte, size_t bytes, void *stream)
{
    (void)stream;
    return current == NULL ? INVALID_CONTEXT : cuMemsetD8_v2(address, byte, bytes);
}

EXPORT Result
cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
    return sim_write(device, to, from, bytes) ? OK : INVALID_VALUE;
}

EXPORT Result
cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    return sim_read(device, from, to, bytes) ? OK : INVALID_VALUE;
}

EXPORT Result
cuTensorMapEncodeTiled(void *out, uint32_t type, uint32_t rank, void *address, const uint64_t *size,
                       const uint64_t *stride, const uint32_t *box, const uint32_t *step,
                       uint32_t interleave, uint32_t swizzle, uint32_t promotion, uint32_t fill)
{
    SimTensorMap map = {.type = type,
                        .rank = rank,
                        .address = (uintptr_t)address,
                        .interleave = interleave,
                        .swizzle = swizzle,
                        .l2_promotion = promotion,
                        .fill = fill};
    SimError error = {0};

    if (current == NULL)
        return INVALID_CONTEXT;
    for (uint32_t d = 0; d < rank && d < 5; d++) {
        map.size[d] = size[d];
        map.box[d] = box[d];
        map.element_stride[d] = step[d];
        if (d > 0)
            map.stride[d - 1] = stride[d - 1];
    }
    if ((uintptr_t)out % 64 == 0 && sim_tensor_map_encode(&map, out, &error))
        return OK;
    fprintf(stderr, "cuTensorMapEncodeTiled: %s\n", error.message);
    return INVALID_VALUE;
}

/* ---- launches ---- */

/* What was found so far. */
static struct {
    uint64_t faults;
    FILE *sarif;
    size_t reported;
    SimSuppressions *known;
    bool begun;
} found;

static void
end_program(void)
{
    if (found.sarif != NULL) {
        sim_sarif_end(found.sarif);
        fclose(found.sarif);
    }
    if (found.faults == 0 || getenv("SIM_CUDA_STATUS") == NULL)
        return;
    fprintf(stderr, "tilec-sim: launches with faults: %llu\n", (unsigned long long)found.faults);
    fflush(NULL);
    _exit(SIM_STATUS_FINDINGS);
}

static SimSuppressions *
read_known(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    SimError error = {.message = "cannot read it, or it has more than 64 KB"};
    size_t n = file == NULL ? sizeof text : fread(text, 1, sizeof text, file);
    SimSuppressions *known = n < sizeof text ? sim_suppressions_read(text, &error)
                                             : NULL; /* ends with zeros */

    if (file != NULL)
        fclose(file);
    if (known == NULL) {
        fprintf(stderr, "tilec-sim: %s:%u: %s\n", path, (unsigned)error.line, error.message);
        exit(SIM_STATUS_ERROR);
    }
    return known;
}

static void
begin_reports(void)
{
    const char *sarif = getenv("SIM_CUDA_SARIF"), *known = getenv("SIM_CUDA_SUPPRESS");

    if (found.begun)
        return;
    found.begun = true;
    if (known != NULL)
        found.known = read_known(known);
    if (sarif != NULL && (found.sarif = fopen(sarif, "wb")) == NULL) {
        fprintf(stderr, "tilec-sim: cannot write %s\n", sarif);
        exit(SIM_STATUS_ERROR);
    }
    if (found.sarif != NULL)
        sim_sarif_begin(found.sarif);
    atexit(end_program);
}

/* Takes the report. */
static SimStatus
tell(SimReport *report, const char *name, uint64_t seed)
{
    if (found.known != NULL)
        sim_report_suppress(report, found.known, "module");
    if (found.sarif != NULL)
        found.reported = sim_sarif_add(found.sarif, report, "module", found.reported);
    SimStatus status = report->status;
    if (status != SIM_STATUS_OK) {
        fprintf(stderr, "%s, seed %llu:\n", name, (unsigned long long)seed);
        sim_report_print(report, stderr);
    }
    found.faults += status == SIM_STATUS_FINDINGS;
    sim_report_free(report);
    return status;
}

static uint64_t
number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

/* Each seed from memory as it was; the last one's results stay. */
static Result
run_seeds(const Function *function, SimLaunch *launch)
{
    uint64_t seeds = number("SIM_CUDA_SEEDS", 1);
    SimSaved *before = seeds > 1 ? sim_device_save(device) : NULL;
    Result result = seeds > 1 && before == NULL ? OUT_OF_MEMORY : OK;

    launch->seed = number("SIM_CUDA_SEED", 0);
    launch->strict = getenv("SIM_CUDA_STRICT") != NULL;
    launch->late = getenv("SIM_CUDA_LATE") != NULL;
    for (uint64_t k = 0; k < seeds && result == OK; k++, launch->seed++, launch->seeds_before++) {
        if (k > 0)
            sim_device_restore(device, before);
        SimReport *report = sim_launch(function->module, launch);
        if (report == NULL)
            result = OUT_OF_MEMORY;
        else if (tell(report, launch->entry, launch->seed) != SIM_STATUS_OK)
            result = LAUNCH_FAILED;
    }
    sim_saved_free(before);
    return result;
}

EXPORT Result
cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
               unsigned bz, unsigned shared, void *stream, void **args, void **extra)
{
    const Function *function = handle;
    SimLaunch launch = sim_launch_defaults();

    (void)stream;
    if (current == NULL)
        return INVALID_CONTEXT;
    if (extra != NULL || shared > function->most_shared)
        return INVALID_VALUE;
    begin_reports();
    launch.entry = function->entry->name;
    launch.grid[0] = gx, launch.grid[1] = gy, launch.grid[2] = gz;
    launch.block[0] = bx, launch.block[1] = by, launch.block[2] = bz;
    launch.dynamic_shared = shared;
    launch.args = args;
    launch.arg_count = function->entry->param_count;
    return run_seeds(function, &launch);
}

/* Of the attributes only the leave to start early is known, which says nothing where launches run
 * one behind the other. */
EXPORT Result
cuLaunchKernelEx(const Config *config, void *handle, void **args, void **extra)
{
    enum { PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

    for (unsigned i = 0; i < config->n; i++)
        if (config->attributes[i].id != PROGRAMMATIC_STREAM_SERIALIZATION ||
            config->attributes[i].value[0] != 1)
            return INVALID_VALUE;
    return cuLaunchKernel(handle, config->grid[0], config->grid[1], config->grid[2],
                          config->block[0], config->block[1], config->block[2], config->shared,
                          config->stream, args, extra);
}
