/* sm90.c - NVIDIA H100 and H200 (compute capability 9.0).
 *
 * Sources: CUDA C++ Programming Guide, "Compute Capabilities" (limits).  mma.sync reaches about
 * 0.62 of the rate of wgmma (4096 flops a clock and SM), as public kernels measure it.  Vector
 * red: PTX ISA 9.7.13.14 "red" (.v2/.v4 f32, f16x2, bf16x2; .bf16: sm_90, PTX 8.1, 7.8); stmatrix:
 * 9.7.15.5.17 (sm_90, PTX 7.8).
 *
 * Plans for warp groups.  The registers of roles are in targets.h; 24 of a computing thread (32 of
 * the smaller budgets) stay for addresses, statistics and fragments; 3 KiB of shared memory stay
 * for barriers and row statistics: the division that public kernels for this chip have settled on
 * (flash-attention, hopper/ and flash_attn/cute/).
 *
 * The exchange of a value between warp groups was fitted to elapsed clocks of attention kernels
 * measured on an H200 (ptxas 13.0).
 *
 * Times of planned kernels (consumer_times): bench/model.py --fit --keep idle, to 1213 launches
 * measured on an H200 (tests/search/measured_h200.csv), the whole time of each at 1980 MHz, which
 * nvidia-smi shows for a chip below its power limit.  What they stand for: a gap is the latency of
 * barriers and of the first wgmma of a chain, and an in-order loop has two such chains; 53 clocks
 * an iteration are for operations on rows, whatever the number of columns; 511 are the exchange
 * between two consumers and its barrier; an element added from registers takes 0.2 clocks; a tile
 * begins and ends with a third of an iteration that nothing overlaps, and its output goes to memory
 * at 11 bytes a clock (2.9 TB/s of the chip); 3200 (1.6 us) begin a block: launch, barriers, maps;
 * a copy that is not started ahead takes 1480; masking an element takes 5 instructions (12.2 times
 * 0.436): two indices, comparison, selection. Not fitted, but round figures: the 3 us of a launch,
 * and the 10 clocks of a pair (0.3 % of an iteration at head dim 128, 0.8 % at 64).
 *
 * Those of loops of nothing but products (mmas_..): fitted to 136 launches of gemm.tile, 12 tiles
 * with 3 to 8 stages and M from 16 to 8192 (docs/lab/gemm.md, "How long it takes"), 3 % off on
 * average.  A chip all of whose tensor cores work runs at three quarters of its clock; 2168 clocks
 * pass until a stage has come from memory; 3345 to begin and end a tile; 64 bytes a clock leave
 * from registers, 7.5 where each is an element of two (docs/lab/gemm.md, "Rows that fill no
 * tile").  Where all SMs ask their L2 cache for as much as it has (mmas_cache), each gets 42 to 60
 * bytes a clock, by the 191 products of docs/lab/gemm.md, "Two hundred shapes".
 *
 * Those of launches (launch_times): fitted to attention forward and the two kernels of the backward
 * in 387 cases of all sizes, each with each form of its file, 1252 launches on an H200
 * (docs/lab/plans.md, "The rule, fitted to launches").  What consumer_times has is fitted to 16,384
 * tokens and all plans.  In these launches a tile takes 2,050 clocks longer to begin, and results,
 * which leave under the next tile, hardly any time; 12 clocks for an instruction are what SMs wait
 * for code that they run for the first time.  Three or four consumers that wait for each of their
 * products hide 7 % less than the queues of the model say: at head dimension 192 13 %, at 80 and 96
 * 6 %; those with products under arithmetic, nothing.
 *
 * Where programs read what no other one reads (cost/stream_time.c): 16.5 bytes a clock, 1400 clocks
 * and 96 KiB are what attention_decode shows in 40 shapes with 9 plans and 1 to 132 parts of the
 * keys (docs/lab/few-queries-and-mlp.md, "Two blocks").  Two stages of 32 KiB read at (1400 + 1132)
 * / 2 clocks an iteration when alone; an SM with two blocks of 96 KiB under way gets no more than
 * one with one.
 */
#include "backends/ptx/targets.h"

static const MmaForm mma_forms[] = {WARP_MMAS, WARP_FLOAT_MMAS_8, GROUP_MMAS};
static const CopyForm copy_forms[] = {LANE_COPIES, TENSOR_COPIES};

const Target target_sm90 = {
    .name = "sm_90",
    .ptx_target = "sm_90",
    .ptx_version = "8.1",
    .capability = 90,
    .description = "H100, H200: tensor copies and wgmma in kernels of warp groups, vector atomics",
    .registers_per_thread = 255,
    .chip =
        {
            .shared_per_block = 227 * 1024,
            .shared_per_sm = 228 * 1024,
            .shared_reserved = 1024,
            .registers_per_sm = 65536,
            .threads_per_sm = 2048,
            .blocks_per_sm = 32,
            .mma_flops = {[BY_WARP] = 2540, [BY_WARP_GROUP] = 4096},
            .special_ops = 16,
            .float_ops = 128,
            .shared_bytes = 128,
            .memory_bytes = 16.5, /* H200: 4.3 TB/s, 132 SMs at 1.98 GHz */
            .memory_clocks = 1400,
            .copy_flight = 98304,
            .global_bytes = 32,
            .copy_bytes = 40, /* this and the next one are estimates, not fitted */
            .copy_clocks = 800,
            .box_clocks = 60, /* H200: decoding, and pages of 16 keys */
            .ended_box_clocks = 150,
            .sm_count = 132,
            .clock_mhz = 1700,
            .burst_mhz = 1980,
            .cache_share = 32 << 20, /* of 50 MB; less is slower: docs/lab/attention-sm90.md */
            .loop_times = H200_LOOPS,
        },
    .product_sums = {.bytes = 32, .bits = 25, .narrow_bits = 13}, /* H200: docs/simulator-isa.md */
    .abilities = CAN_STORE_MATRIX | CAN_START_EARLY | CAN_COUNT_BYTES | CAN_CLUSTER |
                 CAN_MOVE_REGISTERS | CAN_CONVERT_8 | CAN_ADD_BF16 | CAN_ROUND_TF32,
    .mma = mma_forms,
    .n_mma = ROWS(mma_forms),
    .copies = copy_forms,
    .n_copies = ROWS(copy_forms),
    .ptx_target_exact = "sm_90a",
    .clock = sm90_clock,
    .role_registers = ROLE_REGISTERS,
    .dynamic_registers = DYNAMIC_REGISTERS,
    .half_registers = HALF_REGISTERS,
    .drops_hidden_padding = true,
    .pairs_operands = true,
    .group_other_registers = {0, 24, 24, 32, 32},
    .group_tile_bytes = 224 * 1024,
    .exchange = 254,
    .streams_even_rows = true,
    .consumer_times = {.port_power = 2.99,
                       .issue = 0.436,
                       .round = 53.4,
                       .gap = 206,
                       .gap_in_order = 318,
                       .under = 0.827,
                       .coop_k = 511,
                       .vector = 0.574,
                       .added = 0.203,
                       .stage = 0.361,
                       .idle = 0.385,
                       .mask = 12.2,
                       .mask_coop_k = 0.924,
                       .copy_latency = 1480,
                       .copy_part = 0.214,
                       .pair = 10,
                       .mmas = 10,
                       .mmas_busy = 1.266,
                       .mmas_latency = 2168,
                       .mmas_copy = 70,
                       .mmas_tile = 3345,
                       .mmas_direct = 64,
                       .mmas_direct_each = 7.5,
                       .mmas_sum = 72,
                       .mmas_way_power = 24,
                       .mmas_memory_power = 3.15,
                       .mmas_cache = 50,
                       H200_TILES},
    .launch_times = H200_LAUNCHES(8),
    .addition_bytes = 16,
    .addition_piece = 64,
    .addition_clocks = 0.155,
};
