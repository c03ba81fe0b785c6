/* sm80.c - NVIDIA A100 (compute capability 8.0).
 *
 * Sources: CUDA C++ Programming Guide, "Compute Capabilities" (limits); the A100 whitepaper
 * (312 TFLOPS dense 16-bit at 1.41 GHz over 108 SMs = 2048 flops a clock and SM).  How long pieces of
 * additions are best was measured on an H200 (docs/measurements.md).
 */
#include "backends/ptx/targets.h"

const MmaAtom warp_mma_atoms[] = {
    {DT_F16, 16, 8, 16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"},
    {DT_BF16, 16, 8, 16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"},
};

const Target target_sm80 = {
    .name = "sm_80",
    .ptx_target = "sm_80",
    .ptx_version = "7.4",
    .capability = 80,
    .description = "A100: cp.async, ldmatrix, mma.sync",
    .registers_per_thread = 255,
    .chip = {
        .shared_per_block = 163 * 1024,
        .shared_per_sm = 164 * 1024,
        .shared_reserved = 1024,
        .registers_per_sm = 65536,
        .threads_per_sm = 2048,
        .mma_flops = 2048,
        .special_ops = 16,
        .float_ops = 64,
        .shared_bytes = 128,
    },
    .store_matrix = false,
    .early_start = false,
    .addition_bytes = 4,
    .addition_piece = 128,
    .addition_clocks = 0.2,
    .mma = warp_mma_atoms,
    .n_mma = WARP_MMA_ATOMS,
};
