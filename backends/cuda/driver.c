/* driver.c - opens libcuda and finds its functions (see driver.h). */
#include "backends/cuda/driver.h"

#include <dlfcn.h>
#include <string.h>

bool
cuda_ok(const CudaDriver *driver, CudaResult result, const char *what, Fault *fault)
{
    const char *name = NULL, *text = NULL;

    if (result == 0)
        return true;
    driver->error_name(result, &name);
    driver->error_text(result, &text);
    return fault_set(fault, "%s: %s (%d): %s", what, name ? name : "unknown error", result,
                     text ? text : "");
}

bool
cuda_open(CudaDriver *driver, Fault *fault)
{
    int count = 0;

    *driver = (CudaDriver){.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!driver->library)
        return fault_set(fault, "no CUDA driver: %s", dlerror());
#define CUDA_FN(required, member, symbol, parameters)                                              \
    {                                                                                              \
        void *found = dlsym(driver->library, #symbol);                                             \
        if (!found && required) {                                                                  \
            cuda_close(driver);                                                                    \
            return fault_set(fault, "the CUDA driver is too old: it has no " #symbol);             \
        }                                                                                          \
        memcpy(&driver->member, &found, sizeof found); /* C has no cast from data to function */   \
    }
    CUDA_FUNCTIONS(CUDA_FN)
#undef CUDA_FN
    if (cuda_ok(driver, driver->init(0), "cuInit", fault) &&
        cuda_ok(driver, driver->device_count(&count), "cuDeviceGetCount", fault)) {
        if (count > 0)
            return true;
        fault_set(fault, "the CUDA driver sees no GPU");
    }
    cuda_close(driver);
    return false;
}

void
cuda_close(CudaDriver *driver)
{
    if (driver->library)
        dlclose(driver->library);
    driver->library = NULL;
}
