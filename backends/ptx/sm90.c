/* sm90.c - NVIDIA H100 and H200 (compute capability 9.0).
 *
 * Sources: CUDA C++ Programming Guide, "Compute Capabilities" (limits).  mma.sync reaches about
 * 0.62 of the rate of wgmma (4096 flops a clock and SM), as public kernels measure it.  Vector
 * red: PTX ISA 9.7.13.14 "red" (.v2/.v4 f32: sm_90, PTX 8.1); stmatrix: 9.7.15.5.17
 * (sm_90, PTX 7.8).
 */
#include "backends/ptx/targets.h"

const Target target_sm90 = {
    .name = "sm_90",
    .ptx_target = "sm_90",
    .ptx_version = "8.1",
    .capability = 90,
    .description = "H100, H200: as sm_80, with vector atomics",
    .shared_per_block = 227 * 1024,
    .shared_per_sm = 228 * 1024,
    .shared_reserved = 1024,
    .registers_per_sm = 65536,
    .registers_per_thread = 255,
    .threads_per_sm = 2048,
    .mma_flops = 2540,
    .special_ops = 16,
    .float_ops = 128,
    .shared_bytes = 128,
    .store_matrix = true,
    .vector_atomics = true,
    .mma = warp_mma_atoms,
    .n_mma = WARP_MMA_ATOMS,
};
