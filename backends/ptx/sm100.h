/* sm100.h - what NVIDIA B200 and B300 (compute capabilities 10.0 and 10.3) have alike.
 *
 * Sources: CUDA C++ Programming Guide, "Compute Capabilities" (limits); PTX ISA, "TensorCore 5th
 * Generation Family Instructions" (tcgen05).  tcgen05 does 8192 flops a clock and SM (16-bit
 * elements, f32 sums; XLA's cuda_core_info_table).  The rate of mma.sync on this chip is not
 * published; taken as that of sm_90 (not measured here).
 *
 * Roles: a warp group whose warps copy and issue products, and one or more that compute.  No such
 * chip was at hand.  The times of kernels with roles are those of sm_90; rates of copies are
 * estimates, and so are those of loops with arithmetic between products: a consumer that is alone
 * takes some 450 clocks longer for 128 x 128 scores than their exponentials do, by the stalls that
 * ptxas counts on from scores to scores and what handing over takes.  Of pairs of blocks
 * (sm100_clock.c has the sources): the end of products is told 34 clocks later, twice in a chain; a
 * product of 64 columns takes 43 clocks, of 80 45.3, where its operands take the port 40 and 42.
 */
#ifndef TILEC_SM100_H
#define TILEC_SM100_H

#include "backends/ptx/targets.h"

/* Registers of a thread in roles {load and mma, consumer}.  With two consumers ptxas 13.0 has
 * descriptors of the mma role in vector registers at 24 (4 R2UR in its loop), none at 40; with 224
 * for a consumer it spills where each iteration rescales.  READING_REGISTERS: a producer that reads
 * the bounds of packed rows keeps an address in memory at 40, by ptxas 13.3 and 13.5, and 13.0's
 * spills under a causal mask; at 48 none does, nor do consumers, whose iterations there have other
 * masks (docs/ptxas.md). */
/* clang-format off */
#define ISSUER_REGISTERS {{0, 0}, {56, 240}, {40, 232}, {56, 152}, {32, 112}}
#define READING_REGISTERS {48, 224}

/* A target of this kind: its name as text, its number, what it is, the least PTX version, how many
 * exponentials an SM makes in a clock, SMs, MHz, MHz when it is cold, and the figures of its
 * clock. */
#define SM100_KIND(NAME, CAPABILITY, DESCRIPTION, VERSION, EX2, SMS, MHZ, BURST, CLOCK)            \
    { .name = NAME,                                                                                \
    .ptx_target = NAME,                                                                            \
    .ptx_version = VERSION,                                                                        \
    .capability = CAPABILITY,                                                                      \
    .description = DESCRIPTION,                                                                    \
    .registers_per_thread = 255,                                                                   \
    .chip =                                                                                        \
        {                                                                                          \
            .shared_per_block = 227 * 1024,                                                        \
            .shared_per_sm = 228 * 1024,                                                           \
            .shared_reserved = 1024,                                                               \
            .registers_per_sm = 65536,                                                             \
            .threads_per_sm = 2048,                                                                \
            .blocks_per_sm = 32,                                                                   \
            .mma_flops = {[BY_WARP] = 2540, [BY_THREAD] = 8192},                                   \
            .special_ops = EX2,                                                                    \
            .float_ops = 128,                                                                      \
            .shared_bytes = 128,                                                                   \
            .global_bytes = 32,                                                                    \
            .copy_bytes = 64, /* this and the next one are estimates */                            \
            .copy_clocks = 800,                                                                    \
            .sm_count = SMS,                                                                       \
            .clock_mhz = MHZ,                                                                      \
            .burst_mhz = BURST,                                                                    \
            .cache_share = 64 << 20, /* of 126 MB */                                               \
            .tmem_columns = 512,                                                                   \
            .loop_times = H200_LOOPS,                                                              \
        },                                                                                         \
    .drops_hidden_padding = true,                                                                  \
    .masks_once = true,                                                                            \
    .carries_addresses = true,                                                                     \
    .merges_opposites = true,                                                                      \
    .splits_at_ends = true,                                                                        \
    .abilities = CAN_STORE_MATRIX | CAN_START_EARLY | CAN_COUNT_BYTES | CAN_CLUSTER |              \
                 CAN_MOVE_REGISTERS | CAN_COMPUTE_TWO | CAN_TAKE_LAUNCHES | CAN_CONVERT_8 |        \
                 CAN_ADD_BF16 | CAN_ROUND_TF32,                                                    \
    .ptx_target_exact = NAME "a",                                                                  \
    .clock = CLOCK,                                                                                \
    .role_registers = ISSUER_REGISTERS,                                                            \
    .dynamic_registers = ISSUER_REGISTERS,                                                         \
    .reading_registers = READING_REGISTERS,                                                        \
    .addition_bytes = 16,                                                                          \
    .addition_piece = 64,                                                                          \
    .addition_clocks = 0.155,                                                                      \
    .producer_beside_adder = 32,                                                                   \
    .adder_beside_columns = 24,                                                                    \
    .producer_with_scales = 152,                                                                   \
    .producer_beside_correction = 32,                                                              \
    .correction_registers = 96,                                                                    \
    .group_other_registers = {0, 24, 24, 32, 32},                                                  \
    .group_tile_bytes = 224 * 1024,                                                                \
    .consumer_times = {.port_power = 8, .gap = 450, .copy_latency = 800, .copy_part = 1,  \
                       .pair_chain = 68, .pair_product = 3, .mmas = 60, .mmas_busy = 1,            \
                       .mmas_latency = 2168, H200_TILES},                                          \
    .launch_times = H200_LAUNCHES(0),                                                              \
    .mma = mma_forms,                                                                              \
    .n_mma = ROWS(mma_forms),                                                                      \
    .copies = copy_forms,                                                                          \
    .n_copies = ROWS(copy_forms),                                                                  \
    }
/* clang-format on */

#endif
