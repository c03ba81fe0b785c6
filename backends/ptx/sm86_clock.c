/* sm86_clock.c - what the timing model takes for compute capability 8.6 (GeForce RTX 3090) in place
 * of an A100's figures.
 *
 * Published, as those of sm80_clock.c (which names the sources) and in NVIDIA's GA102 whitepaper
 * (GW); nothing was measured here.  An A40, A10 or RTX A6000 has twice the products:
 * `warp_mma_flops=1024`.
 */
#include "compiler/clock_rows.h"

/* clang-format off */
const ClockChange sm86_clock[] = {
    {CLOCK_SMS, {82, "SMs", "GW", false}},
    {CLOCK_MHZ, {1695, "MHz, of a chip that is not at its power limit", "GW: boost clock", false}},
    {CLOCK_MHZ_BUSY, {1695, "MHz of a chip at its power limit whose tensor units are busy all the time", "the same; nobody published what it falls to", true}},
    {CLOCK_THREADS, {1536, "threads of an SM", "CG", false}},
    {CLOCK_BLOCKS, {16, "blocks of an SM", "CG", false}},
    {CLOCK_SHARED, {102400, "bytes of shared memory of an SM", "CG: 100 KB", false}},
    {CLOCK_FMA, {1, "clocks of FFMA, FADD, FMUL", "CG: 128 a clock and SM", false}},
    {CLOCK_WARP_MMA_FLOPS, {512, "operations a clock and SM of mma.sync, 16-bit operands, sums of f32", "GW: 71 TFLOPS; DT: 256 products a clock and SM", false}},
    {CLOCK_WARP_MMA_LATENCY, {33, "clocks from mma.sync to its result", "DT: m16n8k16, an RTX 3070 Ti", false}},
    {CLOCK_GLOBAL_LATENCY, {276, "clocks from LDG to a dependent instruction, a hit in the L2 cache", "an L40's (GB)", true}},
    {CLOCK_CHIP_READ, {1400, "bytes a clock that the L2 cache gives all SMs", "GB: 2435 GB/s at 1740 MHz, an A40", false}},
    {CLOCK_CHIP_READ_BOXES, {1400, "the same of tensor copies, which it does not have", "the same", true}},
    {CLOCK_CHIP_WRITE, {700, "bytes a clock that all SMs write", "half of what it reads, as an H200's", true}},
    {CLOCK_CHIP_WRITE_PARTS, {545, "bytes of sectors a clock that all SMs write in parts", "the part that it is of an H200's reads", true}},
    {CLOCK_CHIP_ADD, {545, "bytes a clock of f32 that all SMs add to memory", "the same", true}},
    {CLOCK_L2_HELD, {6.2e6, "bytes touched since, by all SMs, with which the L2 cache still has a line", "GW: it has 6 MB; all of an L40's holds (GB)", true}},
    {CLOCK_L2_LOST, {7.2e6, "bytes after which it has none", "the same", true}},
    {CLOCK_HBM, {508, "bytes a clock that all SMs read from memory and write there", "GW: 936 GB/s, of which 0.92, as an L40 reaches (GB)", true}},
    {CLOCK_HBM_BOTH, {440, "the same where some read while others write", "the part that it is of an H200's", true}},
    {CLOCK_HBM_LATENCY, {632, "clocks from LDG to a dependent instruction, from memory", "an L40's (GB)", true}},
    {CLOCK_ROWS, {0, 0, 0, false}},
};
/* clang-format on */
