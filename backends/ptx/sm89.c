/* sm89.c - NVIDIA GeForce RTX 40, RTX Ada, L4, L40, L40S (compute capability 8.9).
 *
 * Sources: CUDA C++ Programming Guide, "Compute Capabilities" (limits) and "Arithmetic
 * Instructions" (128 f32 operations, 16 special ones a clock); L40S datasheet: 362 TFLOPS dense
 * 16-bit with f32 sums, 142 SMs at 2.52 GHz, which is 1024 flops a clock and SM.  GeForce does half
 * of that with f32 sums.  What loads and additions take is taken to be as on sm_80: not measured.
 */
#include "backends/ptx/targets.h"

static const MmaForm mma_forms[] = {WARP_MMAS, WARP_FLOAT_MMAS_8};
static const CopyForm copy_forms[] = {LANE_COPIES};

const Target target_sm89 = {
    .name = "sm_89",
    .ptx_target = "sm_89",
    .ptx_version = "7.8",
    .capability = 89,
    .description = "GeForce RTX 40, RTX Ada, L4, L40S: as sm_86",
    .registers_per_thread = 255,
    .chip =
        {
            .shared_per_block = 99 * 1024,
            .shared_per_sm = 100 * 1024,
            .shared_reserved = 1024,
            .registers_per_sm = 65536,
            .threads_per_sm = 1536,
            .blocks_per_sm = 24,
            .mma_flops = {[BY_WARP] = 1024},
            .special_ops = 16,
            .float_ops = 128,
            .shared_bytes = 128,
            .global_bytes = 32,
            .sm_count = 142,
            .clock_mhz = 2520,
            .burst_mhz = 2520,
            .loop_times = H200_LOOPS,
        },
    .abilities = CAN_CONVERT_8,
    .addition_bytes = 4,
    .addition_piece = 128,
    .addition_clocks = 0.2,
    .mma = mma_forms,
    .n_mma = ROWS(mma_forms),
    .copies = copy_forms,
    .n_copies = ROWS(copy_forms),
};
