/* sm80.c - NVIDIA A100 (compute capability 8.0).
 *
 * Sources: CUDA C++ Programming Guide, "Compute Capabilities" (limits); the A100 whitepaper
 * (312 TFLOPS dense 16-bit at 1.41 GHz over 108 SMs = 2048 flops a clock and SM).  How long pieces
 * of additions are best was measured on an H200 (docs/lab/attention-sm80.md).
 */
#include "backends/ptx/targets.h"

static const MmaForm mma_forms[] = {WARP_MMAS};
static const CopyForm copy_forms[] = {LANE_COPIES};

const Target target_sm80 = {
    .name = "sm_80",
    .ptx_target = "sm_80",
    .ptx_version = "7.4",
    .capability = 80,
    .description = "A100: cp.async, ldmatrix, mma.sync",
    .registers_per_thread = 255,
    .chip =
        {
            .shared_per_block = 163 * 1024,
            .shared_per_sm = 164 * 1024,
            .shared_reserved = 1024,
            .registers_per_sm = 65536,
            .threads_per_sm = 2048,
            .blocks_per_sm = 32,
            .mma_flops = {[BY_WARP] = 2048},
            .special_ops = 16,
            .float_ops = 64,
            .shared_bytes = 128,
            .global_bytes = 32,
            .sm_count = 108,
            .clock_mhz = 1410,
            .burst_mhz = 1410,
            .loop_times = H200_LOOPS,
        },
    .addition_bytes = 4,
    .addition_piece = 128,
    .addition_clocks = 0.2,
    .mma = mma_forms,
    .n_mma = ROWS(mma_forms),
    .copies = copy_forms,
    .n_copies = ROWS(copy_forms),
};
