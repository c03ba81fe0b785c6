/* sm100.c - NVIDIA B200 (compute capability 10.0).
 *
 * Sources: CUDA C++ Programming Guide, "Compute Capabilities" (limits).  The rate of mma.sync on
 * this chip is not published; taken as that of sm_90 (not measured here).
 */
#include "backends/ptx/targets.h"

static const MmaForm mma_forms[] = {WARP_MMAS};
static const CopyForm copy_forms[] = {LANE_COPIES};

const Target target_sm100 = {
    .name = "sm_100",
    .ptx_target = "sm_100",
    .ptx_version = "8.6",
    .capability = 100,
    .description = "B200: as sm_80, with vector atomics",
    .registers_per_thread = 255,
    .chip =
        {
            .shared_per_block = 227 * 1024,
            .shared_per_sm = 228 * 1024,
            .shared_reserved = 1024,
            .registers_per_sm = 65536,
            .threads_per_sm = 2048,
            .blocks_per_sm = 32,
            .mma_flops = {[BY_WARP] = 2540},
            .special_ops = 16,
            .float_ops = 128,
            .shared_bytes = 128,
            .global_bytes = 32,
            .loop_times = H200_LOOPS,
        },
    .abilities = CAN_STORE_MATRIX | CAN_START_EARLY,
    .addition_bytes = 16,
    .addition_piece = 64,
    .addition_clocks = 0.155,
    .mma = mma_forms,
    .n_mma = ROWS(mma_forms),
    .copies = copy_forms,
    .n_copies = ROWS(copy_forms),
};
