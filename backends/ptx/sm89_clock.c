/* sm89_clock.c - what the timing model takes for compute capability 8.9 (GeForce RTX 4090) in place
 * of an A100's figures.
 *
 * Published, as those of sm80_clock.c (which names the sources), in NVIDIA's Ada whitepaper (AW),
 * by smallscientist1's cuda_microbenchmark (SM) and xytpai's nvbench (XY), both of an RTX 4090;
 * nothing was measured here.
 */
#include "compiler/clock_rows.h"

/* clang-format off */
const ClockChange sm89_clock[] = {
    {CLOCK_SMS, {128, "SMs", "AW", false}},
    {CLOCK_MHZ, {2520, "MHz, of a chip that is not at its power limit", "AW: boost clock", false}},
    {CLOCK_MHZ_BUSY, {2520, "MHz of a chip at its power limit whose tensor units are busy all the time", "the same; nobody published what it falls to", true}},
    {CLOCK_THREADS, {1536, "threads of an SM", "CG", false}},
    {CLOCK_BLOCKS, {24, "blocks of an SM", "CG", false}},
    {CLOCK_SHARED, {102400, "bytes of shared memory of an SM", "CG: 100 KB", false}},
    {CLOCK_FMA, {1, "clocks of FFMA, FADD, FMUL", "CG: 128 a clock and SM", false}},
    {CLOCK_WARP_MMA_FLOPS, {512, "operations a clock and SM of mma.sync, 16-bit operands, sums of f32", "AW: 165 TFLOPS", false}},
    {CLOCK_WARP_MMA_LATENCY, {33, "clocks from mma.sync to its result", "LU: m16n8k16", false}},
    {CLOCK_GLOBAL_LATENCY, {296, "clocks from LDG to a dependent instruction, a hit in the L2 cache", "MD; an L40 276 (GB)", false}},
    {CLOCK_CHIP_READ, {1945, "bytes a clock that the L2 cache gives all SMs", "SM: by cp.async; an L40, of 142 SMs, 2100 (GB)", false}},
    {CLOCK_CHIP_READ_BOXES, {1945, "the same of tensor copies, which it does not have", "the same", true}},
    {CLOCK_CHIP_WRITE, {970, "bytes a clock that all SMs write", "half of what it reads, as an H200's", true}},
    {CLOCK_CHIP_WRITE_PARTS, {760, "bytes of sectors a clock that all SMs write in parts", "the part that it is of an H200's reads", true}},
    {CLOCK_CHIP_ADD, {760, "bytes a clock of f32 that all SMs add to memory", "the same", true}},
    {CLOCK_L2_HELD, {74e6, "bytes touched since, by all SMs, with which the L2 cache still has a line", "AW: it has 72 MB; all of an L40's 96 holds (GB)", true}},
    {CLOCK_L2_LOST, {86e6, "bytes after which it has none", "the same", true}},
    {CLOCK_HBM, {365, "bytes a clock that all SMs read from memory and write there", "XY: 920 GB/s", false}},
    {CLOCK_HBM_BOTH, {316, "the same where some read while others write", "the part that it is of an H200's", true}},
    {CLOCK_HBM_LATENCY, {636, "clocks from LDG to a dependent instruction, from memory", "MD; an L40 632 (GB)", false}},
    {CLOCK_ROWS, {0, 0, 0, false}},
};
/* clang-format on */
