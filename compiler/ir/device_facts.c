/* device_facts.c - the table (device_facts.h). */
#include "compiler/ir/device_facts.h"

#include <string.h>

const DeviceFactRow device_facts[DEVICE_FACTS] = {
    [DEVICE_SM_COUNT] = {"sm_count", "MULTIPROCESSOR_COUNT",
                         "the number of multiprocessors of the GPU"},
    [DEVICE_SM_SHARED] = {"sm_shared", "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
                          "the bytes of shared memory of a multiprocessor of the GPU"},
};

DeviceFact
device_fact(const char *name)
{
    uint32_t k = 0;

    while (k < DEVICE_FACTS && strcmp(device_facts[k].name, name) != 0)
        k++;
    return (DeviceFact)k;
}
