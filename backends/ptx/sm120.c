/* sm120.c - NVIDIA GeForce RTX 50, RTX PRO Blackwell (compute capability 12.0).
 *
 * Sources: CUDA C++ Programming Guide, "Compute Capabilities" (limits) and "Arithmetic
 * Instructions" (128 f32 operations, 16 special ones a clock); RTX Blackwell PRO whitepaper: RTX
 * PRO 6000, 188 SMs at 2.6 GHz, 504 TFLOPS dense 16-bit with f32 sums, which is 1024 flops a clock
 * and SM.  GeForce does half of that.  PTX ISA: stmatrix, griddepcontrol, vector red, mbarrier,
 * tensor copies from sm_90 on; setmaxnreg: sm_120a.  There is no wgmma and no tcgen05.  Blocks of a
 * cluster have no copies in common (CUTLASS, "Blackwell SM120 GEMMs": clusters are 1 x 1 x 1), and
 * for a copy to .shared::cluster ptxas 13.0 calls a function, so that it ignores setmaxnreg: the
 * record has no clusters.  What loads, additions and copies take is taken to be as on sm_90: not
 * measured.
 *
 * Roles: a warp group that copies, and others that compute with mma.sync, each warp 16 of 64 rows;
 * their registers are those of sm_90, which has as many.  How long such kernels take is not known,
 * so that `auto` does not choose them: --plan does.
 */
#include "backends/ptx/targets.h"

static const MmaForm mma_forms[] = {WARP_MMAS, WARP_FLOAT_MMAS_8, WARP_SCALED_MMAS};
static const CopyForm copy_forms[] = {LANE_COPIES, TENSOR_COPIES};

const Target target_sm120 = {
    .name = "sm_120",
    .ptx_target = "sm_120",
    .ptx_version = "8.7",
    .capability = 120,
    .description = "GeForce RTX 50, RTX PRO Blackwell: as sm_86, with vector atomics",
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
            .copy_bytes = 40,
            .copy_clocks = 800,
            .sm_count = 188,
            .clock_mhz = 2600,
            .burst_mhz = 2600,
            .cache_share = 32 << 20, /* of 128 MB (96 in GeForce RTX 5090) */
            .loop_times = H200_LOOPS,
        },
    .abilities = CAN_STORE_MATRIX | CAN_START_EARLY | CAN_COUNT_BYTES | CAN_MOVE_REGISTERS |
                 CAN_CONVERT_8 | CAN_ADD_BF16 | CAN_ROUND_TF32,
    .ptx_target_exact = "sm_120a",
    .role_registers = ROLE_REGISTERS,
    .dynamic_registers = DYNAMIC_REGISTERS,
    .addition_bytes = 16,
    .addition_piece = 64,
    .addition_clocks = 0.155,
    .mma = mma_forms,
    .n_mma = ROWS(mma_forms),
    .copies = copy_forms,
    .n_copies = ROWS(copy_forms),
};
