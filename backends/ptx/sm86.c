/* sm86.c - NVIDIA GeForce RTX 30, RTX A2000 to A6000, A2, A10, A16, A40 (compute capability 8.6).
 *
 * Sources: CUDA C++ Programming Guide, "Compute Capabilities" (limits) and "Arithmetic
 * Instructions" (128 f32 operations, 16 special ones a clock); GA102 whitepaper V2.0: 128 FMA of
 * 16-bit elements a clock in each of an SM's 4 tensor cores, which is 1024 flops (A40: 149.7
 * TFLOPS, 84 SMs at 1.74 GHz).  GeForce does half of that with f32 sums.  What loads and additions
 * take is taken to be as on sm_80: not measured.
 */
#include "backends/ptx/targets.h"

static const MmaForm mma_forms[] = {WARP_MMAS};
static const CopyForm copy_forms[] = {LANE_COPIES};

const Target target_sm86 = {
    .name = "sm_86",
    .ptx_target = "sm_86",
    .ptx_version = "7.4",
    .capability = 86,
    .description = "GeForce RTX 30, RTX A-series, A10, A40: as sm_80, with less shared memory",
    .registers_per_thread = 255,
    .chip =
        {
            .shared_per_block = 99 * 1024,
            .shared_per_sm = 100 * 1024,
            .shared_reserved = 1024,
            .registers_per_sm = 65536,
            .threads_per_sm = 1536,
            .blocks_per_sm = 16,
            .mma_flops = {[BY_WARP] = 1024},
            .special_ops = 16,
            .float_ops = 128,
            .shared_bytes = 128,
            .global_bytes = 32,
            .sm_count = 84,
            .clock_mhz = 1695,
            .burst_mhz = 1695,
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
