/* fuzz_ptx.c - PTX text for the simulator: read, and where it can be read, run for a few steps.
 *
 * Three bytes choose the launch.  Every parameter that can hold an address gets one of a buffer of
 * its own; the others are small numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/sim/sim.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_PARAMS = 64, PARAM_BYTES = 4096, BUFFER = 4096, STEPS = 1000, MOST_BYTES = 16 << 20 };

const size_t fuzz_choices = 3;

void
fuzz_choose(const char *path, uint64_t draw, uint8_t *choice)
{
    (void)path;
    for (size_t k = 0; k < fuzz_choices; k++)
        choice[k] = (uint8_t)(draw >> 8 * k);
}

static void
make_map(SimDevice *device, uint8_t *out)
{
    SimTensorMap map = {.type = 9,
                        .rank = 2,
                        .address = sim_alloc(device, BUFFER, "mapped"),
                        .size = {64, 32},
                        .stride = {128},
                        .box = {64, 8},
                        .element_stride = {1, 1},
                        .swizzle = 3};

    if (!sim_tensor_map_encode(&map, out, NULL))
        memset(out, 0, 128);
}

static void
launch_entry(SimDevice *device, SimModule *module, const SimEntry *entry, const uint8_t *choice)
{
    static uint8_t zeros[BUFFER];
    SimLaunch launch = sim_launch_defaults();
    void *args[MOST_PARAMS];

    if (entry->param_count > MOST_PARAMS)
        return;
    launch.entry = entry->name;
    launch.seed = choice[0] & 15;
    launch.threads = 1;
    launch.step_limit = STEPS;
    launch.checks = (choice[0] & 16) == 0;
    launch.strict = (choice[0] & 32) != 0;
    launch.count_banks = (choice[0] & 64) != 0;
    launch.dynamic_shared = (uint32_t)(choice[2] & 15) * 4096;
    launch.grid[0] = 1 + (choice[1] & 1);
    launch.cluster[0] = entry->required_cluster[0] == 0 && (choice[1] & 2) != 0 ? launch.grid[0]
                                                                                : 0;
    launch.cluster[1] = launch.cluster[2] = launch.cluster[0] != 0;
    if (entry->required_cluster[0] != 0)
        memcpy(launch.grid, entry->required_cluster, sizeof launch.grid);
    if (entry->required_block[0] == 0)
        launch.block[0] = 32u << (choice[1] >> 2 & 3);
    launch.block[1] = launch.block[2] = launch.block[0] != 0;
    for (size_t k = 0; k < entry->param_count; k++) {
        const SimParam *param = &entry->params[k];
        size_t bytes = param->size < 128 ? 128 : param->size;
        uint8_t *value = calloc(bytes, 1);
        args[k] = value;
        if (value == NULL)
            continue;
        if (param->size == 128) {
            make_map(device, value);
        } else if (param->size == 8) {
            uint64_t address = sim_alloc(device, BUFFER, param->name);
            sim_write(device, address, zeros, BUFFER / 2); /* the other half is not initialised */
            memcpy(value, &address, sizeof address);
        } else {
            value[0] = 16;
        }
    }
    launch.args = args;
    launch.arg_count = entry->param_count;
    sim_report_free(sim_launch(module, &launch));
    for (size_t k = 0; k < entry->param_count; k++)
        free(args[k]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    SimDevice *device = sim_device_new();

    if (n >= fuzz_choices && device != NULL) {
        sim_device_limit(device, MOST_BYTES);
        SimModule *module = sim_module_load(device, (const char *)data + fuzz_choices,
                                            n - fuzz_choices, "fuzz.ptx", NULL);
        for (size_t k = 0; module != NULL && k < sim_entry_count(module) && k < 4; k++)
            launch_entry(device, module, sim_entry_at(module, k), data);
    }
    sim_device_free(device);
    return 0;
}
