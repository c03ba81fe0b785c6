/* sim_cuda.h - what the files of the simulated libcuda.so.1 share. */
#ifndef TILEC_SIM_CUDA_H
#define TILEC_SIM_CUDA_H

#include <stdbool.h>

#include "backends/sim/sim.h"

typedef int Result;

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719
};

#define EXPORT __attribute__((visibility("default")))

SimDevice *sim_cuda_device(void); /* NULL: cuInit was not called */
bool sim_cuda_has_context(void);
const SimEntry *sim_cuda_entry(const void *function);
/* Attributes of the device that no chip differs in. */
Result sim_cuda_attribute(int *value, int attribute);

#endif
