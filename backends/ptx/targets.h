/* targets.h - the target records, one file each, and the rows that several of them have.
 *
 * Source: PTX ISA, the sections that are named.
 */
#ifndef TILEC_BACKENDS_PTX_TARGETS_H
#define TILEC_BACKENDS_PTX_TARGETS_H

#include "compiler/target.h"

extern const Target target_sm80, target_sm86, target_sm89, target_sm90, target_sm100, target_sm103,
    target_sm120;

/* "Matrix multiply-accumulate operation using mma instruction": m16n8k16 from sm_80 on.  ldmatrix
 * brings either way of lying. */
#define WARP_MMA(DTYPE, NAME)                                                                      \
    {                                                                                              \
        .a_type = DTYPE, .b_type = DTYPE, .issuer = BY_WARP, .done = DONE_IN_LINE, .m = MMA_ROWS,  \
        .n = MMA_COLS, .n_step = MMA_COLS, .k = 16, .step_bytes = MMA_BYTES, .rate = 1,            \
        .a = IN_REGISTERS, .b = IN_REGISTERS, .d = IN_REGISTERS, .a_major = MAJOR_K | MAJOR_MN,    \
        .b_major = MAJOR_K | MAJOR_MN,                                                             \
        .mnemonic = "mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32"                  \
    }
/* m16n8k32 of 8 bits, K-major only: ldmatrix turns elements of 16 bits. */
#define WARP_MMA_8(A, B, NAMES, SUMS, VERSION)                                                     \
    {                                                                                              \
        .a_type = A, .b_type = B, .issuer = BY_WARP, .done = DONE_IN_LINE, .m = MMA_ROWS,          \
        .n = MMA_COLS, .n_step = MMA_COLS, .k = 32, .step_bytes = MMA_BYTES, .rate = 2,            \
        .a = IN_REGISTERS, .b = IN_REGISTERS, .d = IN_REGISTERS, .a_major = MAJOR_K,               \
        .b_major = MAJOR_K, .sums = SUMS, .ptx_version = VERSION,                                  \
        .mnemonic = "mma.sync.aligned.m16n8k32.row.col." NAMES                                     \
    }
/* m16n8k8 of tf32, whose operands are rounded f32; K-major only, likewise. */
#define WARP_MMA_TF32                                                                              \
    {                                                                                              \
        .a_type = DT_TF32, .b_type = DT_TF32, .issuer = BY_WARP, .done = DONE_IN_LINE,             \
        .m = MMA_ROWS, .n = MMA_COLS, .n_step = MMA_COLS, .k = 8, .step_bytes = MMA_BYTES,         \
        .rate = 0.5, .a = IN_REGISTERS, .b = IN_REGISTERS, .d = IN_REGISTERS, .a_major = MAJOR_K,  \
        .b_major = MAJOR_K, .mnemonic = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"       \
    }
#define WARP_MMA_I8(A, B, NAMES) WARP_MMA_8(A, B, "s32." NAMES ".s32", 0, NULL)
#define WARP_MMAS                                                                                  \
    WARP_MMA(DT_F16, "f16"), WARP_MMA(DT_BF16, "bf16"), WARP_MMA_I8(DT_I8, DT_I8, "s8.s8"),        \
        WARP_MMA_I8(DT_I8, DT_U8, "s8.u8"), WARP_MMA_I8(DT_U8, DT_I8, "u8.s8"),                    \
        WARP_MMA_I8(DT_U8, DT_U8, "u8.u8"), WARP_MMA_TF32
/* Floats of 8 bits, from sm_89 on.  Of their sums Ada keeps 13 bits of fraction (SageAttention2,
 * arXiv 2411.10958), as wgmma does; sm_90 unpacks them for f16.  Of the others nothing is known:
 * they are taken to be as Ada. */
#define WARP_FLOAT_MMA_8(A, B, NAMES) WARP_MMA_8(A, B, "f32." NAMES ".f32", MMA_NARROW_SUMS, "8.4")
#define WARP_FLOAT_MMAS_8                                                                          \
    WARP_FLOAT_MMA_8(DT_E4M3, DT_E4M3, "e4m3.e4m3"),                                               \
        WARP_FLOAT_MMA_8(DT_E4M3, DT_E5M2, "e4m3.e5m2"),                                           \
        WARP_FLOAT_MMA_8(DT_E5M2, DT_E4M3, "e5m2.e4m3"),                                           \
        WARP_FLOAT_MMA_8(DT_E5M2, DT_E5M2, "e5m2.e5m2")

/* With a scale for each 32 of k, or 16 of e2m1, of which two are a byte here: then k is that of
 * bytes.  Beside 8 bits an e2m1 has bits 2 to 5 of a byte.  ("Block scaling"; that sums are narrow
 * is taken from above.) */
#define WARP_SCALED_MMA(A, B, SHAPE, KIND, NAMES, SUMS, SCALES, SCALE, SCALE_NAME)                 \
    {                                                                                              \
        .a_type = A, .b_type = B, .issuer = BY_WARP, .done = DONE_IN_LINE, .m = MMA_ROWS,          \
        .n = MMA_COLS, .n_step = MMA_COLS, .k = 32, .step_bytes = MMA_BYTES, .rate = 2,            \
        .a = IN_REGISTERS, .b = IN_REGISTERS, .d = IN_REGISTERS, .a_major = MAJOR_K,               \
        .b_major = MAJOR_K, .exact = true, .sums = SUMS, .scales = SCALES, .scale = SCALE,         \
        .ptx_version = "8.7",                                                                      \
        .mnemonic = "mma.sync.aligned." SHAPE ".row.col.kind::" KIND                               \
                    ".block_scale.scale_vec::" #SCALES "X.f32." NAMES ".f32." SCALE_NAME           \
    }
#define WARP_SCALED_MMA_8(A, B, NAMES)                                                             \
    WARP_SCALED_MMA(A, B, "m16n8k32", "mxf8f6f4", NAMES, MMA_NARROW_SUMS, 1, DT_E8M0, "ue8m0")
#define WARP_SCALED_MMA_4(KIND, SCALES, SCALE, SCALE_NAME)                                         \
    WARP_SCALED_MMA(DT_U8, DT_U8, "m16n8k64", KIND, "e2m1.e2m1", MMA_NARROW_SUMS / 2, SCALES,      \
                    SCALE, SCALE_NAME)
#define WARP_SCALED_MMAS                                                                           \
    WARP_SCALED_MMA_8(DT_E4M3, DT_E4M3, "e4m3.e4m3"),                                              \
        WARP_SCALED_MMA_8(DT_E4M3, DT_E5M2, "e4m3.e5m2"),                                          \
        WARP_SCALED_MMA_8(DT_E5M2, DT_E4M3, "e5m2.e4m3"),                                          \
        WARP_SCALED_MMA_8(DT_E5M2, DT_E5M2, "e5m2.e5m2"),                                          \
        WARP_SCALED_MMA_8(DT_E4M3, DT_U8, "e4m3.e2m1"),                                            \
        WARP_SCALED_MMA_8(DT_U8, DT_E4M3, "e2m1.e4m3"),                                            \
        WARP_SCALED_MMA_8(DT_E5M2, DT_U8, "e5m2.e2m1"),                                            \
        WARP_SCALED_MMA_8(DT_U8, DT_E5M2, "e2m1.e5m2"),                                            \
        WARP_SCALED_MMA_4("mxf4", 2, DT_E8M0, "ue8m0"),                                            \
        WARP_SCALED_MMA_4("mxf4nvf4", 4, DT_E4M3, "ue4m3")

/* "wgmma.mma_async": m is 64, n a multiple of 8 up to 256, k 16 for 16-bit elements, which may lie
 * either way in shared memory; the first operand may be in registers instead. */
#define GROUP_MMA(DTYPE, NAME)                                                                     \
    {                                                                                              \
        .a_type = DTYPE, .b_type = DTYPE, .issuer = BY_WARP_GROUP, .done = DONE_BY_GROUP,          \
        .m = GROUP_ROWS, .n = 256, .n_step = 8, .k = 16, .step_bytes = MMA_BYTES, .rate = 1,       \
        .a = IN_REGISTERS | IN_SHARED, .b = IN_SHARED, .d = IN_REGISTERS,                          \
        .a_major = MAJOR_K | MAJOR_MN, .b_major = MAJOR_K | MAJOR_MN, .exact = true,               \
        .mnemonic = "wgmma.mma_async.sync.aligned.m64n%dk16.f32." NAME "." NAME                    \
    }
/* k is 32 for 8 bits, which lie along k.  VERSION: of PTX, that mixes of integers need. */
#define GROUP_MMA_8(A, B, NAMES, N_STEP, SUMS, VERSION)                                            \
    {                                                                                              \
        .a_type = A, .b_type = B, .issuer = BY_WARP_GROUP, .done = DONE_BY_GROUP, .m = GROUP_ROWS, \
        .n = 256, .n_step = N_STEP, .k = 32, .step_bytes = MMA_BYTES, .rate = 2,                   \
        .a = IN_REGISTERS | IN_SHARED, .b = IN_SHARED, .d = IN_REGISTERS, .a_major = MAJOR_K,      \
        .b_major = MAJOR_K, .exact = true, .sums = SUMS, .ptx_version = VERSION,                   \
        .mnemonic = "wgmma.mma_async.sync.aligned.m64n%dk32." NAMES                                \
    }
/* n of integers is a multiple of 16 (or 8 or 24). */
#define GROUP_MMA_I8(A, B, NAMES, VERSION) GROUP_MMA_8(A, B, "s32." NAMES, 16, 0, VERSION)
/* Of sums of floats 13 bits of fraction are kept (measured: each instruction cuts products and sum
 * there). */
#define GROUP_FLOAT_MMA_8(A, B, NAMES) GROUP_MMA_8(A, B, "f32." NAMES, 8, MMA_NARROW_SUMS, NULL)
/* k is 8 for tf32, which lies along k; what is not rounded is cut. */
#define GROUP_MMA_TF32                                                                             \
    {                                                                                              \
        .a_type = DT_TF32, .b_type = DT_TF32, .issuer = BY_WARP_GROUP, .done = DONE_BY_GROUP,      \
        .m = GROUP_ROWS, .n = 256, .n_step = 8, .k = 8, .step_bytes = MMA_BYTES, .rate = 0.5,      \
        .a = IN_REGISTERS | IN_SHARED, .b = IN_SHARED, .d = IN_REGISTERS, .a_major = MAJOR_K,      \
        .b_major = MAJOR_K, .exact = true,                                                         \
        .mnemonic = "wgmma.mma_async.sync.aligned.m64n%dk8.f32.tf32.tf32"                          \
    }
#define GROUP_MMAS                                                                                 \
    GROUP_MMA(DT_F16, "f16"), GROUP_MMA(DT_BF16, "bf16"),                                          \
        GROUP_MMA_I8(DT_I8, DT_I8, "s8.s8", NULL), GROUP_MMA_I8(DT_I8, DT_U8, "s8.u8", "8.4"),     \
        GROUP_MMA_I8(DT_U8, DT_I8, "u8.s8", "8.4"), GROUP_MMA_I8(DT_U8, DT_U8, "u8.u8", NULL),     \
        GROUP_FLOAT_MMA_8(DT_E4M3, DT_E4M3, "e4m3.e4m3"),                                          \
        GROUP_FLOAT_MMA_8(DT_E4M3, DT_E5M2, "e4m3.e5m2"),                                          \
        GROUP_FLOAT_MMA_8(DT_E5M2, DT_E4M3, "e5m2.e4m3"),                                          \
        GROUP_FLOAT_MMA_8(DT_E5M2, DT_E5M2, "e5m2.e5m2"), GROUP_MMA_TF32

/* "tcgen05.mma", kind f16, one block: m is 128, n a multiple of 16 up to 256, k 16 for 16-bit
 * elements, which may lie either way in shared memory; the result lies in tensor memory, and the
 * first operand may. */
#define TENSOR_MMA(DTYPE, CODE)                                                                    \
    {                                                                                              \
        .a_type = DTYPE, .b_type = DTYPE, .issuer = BY_THREAD, .done = DONE_BY_BARRIER,            \
        .m = TMEM_LANES, .n = 256, .n_step = TMEM_STEP, .k = 16, .step_bytes = MMA_BYTES,          \
        .rate = 1, .sum_code = 1, .a_code = CODE, .b_code = CODE,                                  \
        .a = IN_SHARED | IN_TENSOR_MEMORY, .b = IN_SHARED, .d = IN_TENSOR_MEMORY,                  \
        .a_major = MAJOR_K | MAJOR_MN, .b_major = MAJOR_K | MAJOR_MN, .exact = true,               \
        .mnemonic = "tcgen05.mma.cta_group::1.kind::f16"                                           \
    }
/* The same of two blocks: m is 256, half of it in each; each has half of the second operand's n.
 * (The ISA has n in steps of 16; in steps of 32 a half is what one block's form takes, and CUTLASS
 * takes no other.) */
#define PAIR_MMA(DTYPE, CODE)                                                                      \
    {                                                                                              \
        .a_type = DTYPE, .b_type = DTYPE, .issuer = BY_THREAD, .done = DONE_BY_BARRIER,            \
        .blocks = 2, .m = 2 * TMEM_LANES, .n = 256, .n_step = 2 * TMEM_STEP, .k = 16,              \
        .step_bytes = MMA_BYTES, .rate = 1, .sum_code = 1, .a_code = CODE, .b_code = CODE,         \
        .a = IN_SHARED | IN_TENSOR_MEMORY, .b = IN_SHARED, .d = IN_TENSOR_MEMORY,                  \
        .a_major = MAJOR_K | MAJOR_MN, .b_major = MAJOR_K | MAJOR_MN, .exact = true,               \
        .mnemonic = "tcgen05.mma.cta_group::2.kind::f16"                                           \
    }
#define TENSOR_MMAS                                                                                \
    TENSOR_MMA(DT_F16, 0), TENSOR_MMA(DT_BF16, 1), PAIR_MMA(DT_F16, 0), PAIR_MMA(DT_BF16, 1)

/* Kind tf32: k is 8, operands are in shared memory along k.  (Across it they lie under a swizzle of
 * their own, 128 bytes in pieces of 32.) */
#define THREAD_MMA_TF32(KIND, ROWS, STEP, BLOCKS)                                                  \
    {                                                                                              \
        .a_type = DT_TF32, .b_type = DT_TF32, .issuer = BY_THREAD, .done = DONE_BY_BARRIER,        \
        .m = ROWS, .n = 256, .n_step = STEP, .k = 8, .step_bytes = MMA_BYTES, .rate = 0.5,         \
        .sum_code = 1, .a_code = 2, .b_code = 2, .a = IN_SHARED, .b = IN_SHARED,                   \
        .d = IN_TENSOR_MEMORY, .a_major = MAJOR_K, .b_major = MAJOR_K, .exact = true,              \
        .blocks = BLOCKS, .mnemonic = KIND                                                         \
    }
#define TENSOR_MMAS_TF32                                                                           \
    THREAD_MMA_TF32("tcgen05.mma.cta_group::1.kind::tf32", TMEM_LANES, TMEM_STEP, 0),              \
        THREAD_MMA_TF32("tcgen05.mma.cta_group::2.kind::tf32", 2 * TMEM_LANES, 2 * TMEM_STEP, 2)

/* Of 8 bits: k is 32, operands are in shared memory.  (Those that consumers write are not in tensor
 * memory yet.)  ROWS: of all BLOCKS together; 0: of one. */
#define THREAD_MMA_8(A, A_CODE, B, B_CODE, KIND, SUM, MAJOR, ROWS, STEP, BLOCKS)                   \
    {                                                                                              \
        .a_type = A, .b_type = B, .issuer = BY_THREAD, .done = DONE_BY_BARRIER, .m = ROWS,         \
        .n = 256, .n_step = STEP, .k = 32, .step_bytes = MMA_BYTES, .rate = 2, .sum_code = SUM,    \
        .a_code = A_CODE, .b_code = B_CODE, .a = IN_SHARED, .b = IN_SHARED, .d = IN_TENSOR_MEMORY, \
        .a_major = MAJOR, .b_major = MAJOR, .exact = true, .blocks = BLOCKS, .mnemonic = KIND      \
    }
/* Kind i8, of sm_100 alone: operands along k. */
#define TENSOR_MMA_I8(A, A_CODE, B, B_CODE)                                                        \
    THREAD_MMA_8(A, A_CODE, B, B_CODE, "tcgen05.mma.cta_group::1.kind::i8", 2, MAJOR_K,            \
                 TMEM_LANES, TMEM_STEP, 0)
#define PAIR_MMA_I8(A, A_CODE, B, B_CODE)                                                          \
    THREAD_MMA_8(A, A_CODE, B, B_CODE, "tcgen05.mma.cta_group::2.kind::i8", 2, MAJOR_K,            \
                 2 * TMEM_LANES, 2 * TMEM_STEP, 2)
#define MMAS_I8(FORM)                                                                              \
    FORM(DT_I8, 1, DT_I8, 1), FORM(DT_I8, 1, DT_U8, 0), FORM(DT_U8, 0, DT_I8, 1),                  \
        FORM(DT_U8, 0, DT_U8, 0)
#define TENSOR_MMAS_I8 MMAS_I8(TENSOR_MMA_I8), MMAS_I8(PAIR_MMA_I8)
#define TENSOR_FLOAT_MMA_8(A, A_CODE, B, B_CODE)                                                   \
    THREAD_MMA_8(A, A_CODE, B, B_CODE, "tcgen05.mma.cta_group::1.kind::f8f6f4", 1,                 \
                 MAJOR_K | MAJOR_MN, TMEM_LANES, TMEM_STEP, 0)
#define PAIR_FLOAT_MMA_8(A, A_CODE, B, B_CODE)                                                     \
    THREAD_MMA_8(A, A_CODE, B, B_CODE, "tcgen05.mma.cta_group::2.kind::f8f6f4", 1,                 \
                 MAJOR_K | MAJOR_MN, 2 * TMEM_LANES, 2 * TMEM_STEP, 2)
#define FLOAT_MMAS_8(FORM)                                                                         \
    FORM(DT_E4M3, 0, DT_E4M3, 0), FORM(DT_E4M3, 0, DT_E5M2, 1), FORM(DT_E5M2, 1, DT_E4M3, 0),      \
        FORM(DT_E5M2, 1, DT_E5M2, 1)
#define TENSOR_FLOAT_MMAS_8 FLOAT_MMAS_8(TENSOR_FLOAT_MMA_8), FLOAT_MMAS_8(PAIR_FLOAT_MMA_8)

/* The same with scales in tensor memory for each 32 of k, or 16 of e2m1, of which two are a byte
 * here: k is that of bytes. ("Block scaling for tcgen05.mma".  Of 4 bits operands lie along k.) */
#define TENSOR_SCALED_MMA(A, A_CODE, B, B_CODE, KIND, MAJOR, SCALES, SCALE, VERSION)               \
    {                                                                                              \
        .a_type = A, .b_type = B, .issuer = BY_THREAD, .done = DONE_BY_BARRIER, .m = TMEM_LANES,   \
        .n = 256, .n_step = TMEM_STEP, .k = 32, .step_bytes = MMA_BYTES, .rate = 2,                \
        .a_code = A_CODE, .b_code = B_CODE, .a = IN_SHARED, .b = IN_SHARED, .d = IN_TENSOR_MEMORY, \
        .a_major = MAJOR, .b_major = MAJOR, .exact = true, .scales = SCALES, .scale = SCALE,       \
        .ptx_version = VERSION,                                                                    \
        .mnemonic = "tcgen05.mma.cta_group::1.kind::" KIND ".block_scale.scale_vec::" #SCALES "X"  \
    }
#define TENSOR_SCALED_MMA_8(A, A_CODE, B, B_CODE)                                                  \
    TENSOR_SCALED_MMA(A, A_CODE, B, B_CODE, "mxf8f6f4", MAJOR_K | MAJOR_MN, 1, DT_E8M0, NULL)
#define TENSOR_SCALED_MMAS                                                                         \
    FLOAT_MMAS_8(TENSOR_SCALED_MMA_8),                                                             \
        TENSOR_SCALED_MMA(DT_U8, 1, DT_U8, 1, "mxf4", MAJOR_K, 2, DT_E8M0, NULL),                  \
        TENSOR_SCALED_MMA(DT_U8, 1, DT_U8, 1, "mxf4nvf4", MAJOR_K, 4, DT_E4M3, "8.7")

/* "cp.async": 4, 8 or 16 bytes of a thread, both addresses aligned to as much. */
#define LANE_COPIES                                                                                \
    {                                                                                              \
        .kind = COPY_ASYNC, .issuer = BY_THREAD, .done = DONE_BY_GROUP, .unit = 4, .most = 16      \
    }

/* "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", from sm_90 on; limits of boxes: CUDA
 * Driver API, cuTensorMapEncodeTiled.  What goes to memory is known to have been read, not to have
 * arrived. */
#define TENSOR_COPY(KIND, ...)                                                                     \
    {                                                                                              \
        .kind = KIND, .issuer = BY_THREAD, .unit = BOX_UNIT, .box = BOX_MOST, .rank = BOX_RANK,    \
        .done = __VA_ARGS__                                                                        \
    }
#define TENSOR_COPIES                                                                              \
    TENSOR_COPY(COPY_TENSOR_LOAD, DONE_BY_BARRIER, .from = DT_F32, .to = DT_TF32),                 \
        TENSOR_COPY(COPY_TENSOR_STORE, DONE_BY_GROUP), TENSOR_COPY(COPY_TENSOR_ADD, DONE_BY_GROUP)

/* The chips' LoopTimes: fitted to 40 kernels measured on an H200; those that do not spill are
 * within 13 %, those that do within 30 %, on the slow side but for one
 * (tests/api/unit/test_cost.c).  Of other chips nothing was measured: they are taken to be the
 * same.  What spilled registers cost is not to be foreseen where nearly all are alive at once; from
 * nothing to a quarter was measured. */
#define H200_LOOPS                                                                                 \
    {                                                                                              \
        .not_hidden = 0.12, .rest_not_hidden = {0.86, 0.53, 0.36}, .barrier_wait = 110,            \
        .copy_wait = 900, .round_wait = 80, .turn_wait = 130, .few_warps = 1.09,                   \
        .masked_more = 0.4, .spill = 0.01, .may_spill = 0.06, .near_spill = 0.006, .launch = 6000, \
        .begin = 3000, .fill = 0.33                                                                \
    }

/* The ConsumerTimes of what is around the arithmetic of a loop: tiles, blocks, stores, a loop of
 * nothing but products; sm90.c says how they were measured on an H200. */
#define H200_TILES                                                                                 \
    .tile = 349, .fill = 0.331, .block = 3200, .store_bytes = 11.1, .launch = 6000,                \
    .mmas_power = 8, .swap_ab = 1.01

/* LaunchTimes; sm90.c says how they were measured on an H200.  FEW: of forms for few elements,
 * where launches were timed. */
#define H200_LAUNCHES(FEW)                                                                         \
    {                                                                                              \
        .tile = 2400, .store_bytes = 100, .mask = 6, .iteration = 1.07, .in_order = 1.07,          \
        .cold = 12, .few_more = FEW                                                                \
    }

/* Registers of a thread in roles {producer, consumer}, by the number of consumers: the 64 K of an
 * SM over one warp group that copies and n that compute, in steps of REGISTER_STEP.
 * DYNAMIC_REGISTERS: with the dynamic tile scheduler the producer computes indices, too.  Measured
 * on an H200: docs/lab/attention-sm90.md. */
/* clang-format off */
#define ROLE_REGISTERS {{0, 0}, {56, 240}, {24, 240}, {32, 160}, {32, 112}}
#define HALF_REGISTERS {40, 208} /* two blocks of 128 registers for each thread at their start */
#define DYNAMIC_REGISTERS {{0, 0}, {56, 240}, {40, 232}, {32, 160}, {32, 112}}
/* clang-format on */

#define ROWS(TABLE) (sizeof(TABLE) / sizeof(TABLE)[0])

#endif
