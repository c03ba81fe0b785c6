/* sm120_clock.c - what the timing model takes for compute capability 12.0 (GeForce RTX 5090) in
 * place of an A100's figures.
 *
 * Published, as those of sm80_clock.c (which names the sources), in NVIDIA's RTX Blackwell
 * whitepaper (BW), by Chips and Cheese of an RTX PRO 6000 (CC) and by QuickRunCUDA of a B300 (QR);
 * nothing was measured here.  The copy engine, mbarriers and clusters are an H200's.  An RTX PRO
 * 6000 has `sms=188,mhz=2600,warp_mma_flops=1024`.
 */
#include "compiler/clock_rows.h"

/* clang-format off */
const ClockChange sm120_clock[] = {
    {CLOCK_SMS, {170, "SMs", "BW", false}},
    {CLOCK_MHZ, {2407, "MHz, of a chip that is not at its power limit", "BW: boost clock", false}},
    {CLOCK_MHZ_BUSY, {2407, "MHz of a chip at its power limit whose tensor units are busy all the time", "the same; nobody published what it falls to", true}},
    {CLOCK_THREADS, {1536, "threads of an SM", "CG", false}},
    {CLOCK_BLOCKS, {24, "blocks of an SM", "CG", false}},
    {CLOCK_SHARED, {102400, "bytes of shared memory of an SM", "CG: 100 KB", false}},
    {CLOCK_FMA, {1, "clocks of FFMA, FADD, FMUL", "CG: 128 a clock and SM", false}},
    {CLOCK_PACKED, {2, "clocks of FFMA2, FADD2, FMUL2", "a B300's (QR)", true}},
    {CLOCK_WARP_MMA_FLOPS, {512, "operations a clock and SM of mma.sync, 16-bit operands, sums of f32", "BW: 209.5 TFLOPS", false}},
    {CLOCK_WARP_MMA_LATENCY, {33, "clocks from mma.sync to its result", "an RTX 4090's, of the same rate (LU)", true}},
    {CLOCK_BARRIER, {22, "clocks from the last arrival at bar.sync until its warps go on", "a B300's (QR)", true}},
    {CLOCK_GLOBAL_LATENCY, {360, "clocks from LDG to a dependent instruction, a hit in the L2 cache", "MD; CC: 130 ns", false}},
    {CLOCK_CHIP_READ, {3030, "bytes a clock that the L2 cache gives all SMs", "CC: 8.7 TB/s of 188 SMs at 2600 MHz, by SMs", true}},
    {CLOCK_CHIP_READ_BOXES, {3030, "the same of tensor copies", "the same", true}},
    {CLOCK_CHIP_WRITE, {1515, "bytes a clock that all SMs write", "half of what it reads, as an H200's", true}},
    {CLOCK_CHIP_WRITE_PARTS, {1185, "bytes of sectors a clock that all SMs write in parts", "the part that it is of an H200's reads", true}},
    {CLOCK_CHIP_ADD, {1185, "bytes a clock of f32 that all SMs add to memory", "the same", true}},
    {CLOCK_L2_HELD, {98e6, "bytes touched since, by all SMs, with which the L2 cache still has a line", "BW: it has 96 MB, as an L40, all of whose holds (GB)", true}},
    {CLOCK_L2_LOST, {115e6, "bytes after which it has none", "the same", true}},
    {CLOCK_HBM, {685, "bytes a clock that all SMs read from memory and write there", "BW: 1792 GB/s, of which 0.92, as an L40 reaches (GB)", true}},
    {CLOCK_HBM_BOTH, {594, "the same where some read while others write", "the part that it is of an H200's", true}},
    {CLOCK_HBM_LATENCY, {936, "clocks from LDG to a dependent instruction, from memory", "MD", false}},
    {CLOCK_TMA_ISSUE, {48, "clocks of a thread that starts a copy, costs of PTX", "H200", true}},
    {CLOCK_TMA_BYTES, {107, "bytes a clock to shared memory, boxes of a tensor", "H200", true}},
    {CLOCK_TMA_LATENCY, {397, "clocks from the issue of a copy to who waits for it, beside its bytes; costs of PTX", "H200, and the L2 cache's 79 clocks more", true}},
    {CLOCK_TMA_STORE_BYTES, {31.8, "bytes a clock from shared memory, one SM alone", "H200", true}},
    {CLOCK_TMA_STORE_LATENCY, {52, "clocks from the end of a store's bytes to who waits for it", "H200", true}},
    {CLOCK_TMA_STORE_READ, {1, "clocks by which wait_group.read is earlier", "H200", true}},
    {CLOCK_TMA_ADD_BYTES, {25.5, "bytes a clock of f32 added to memory by the copy engine, one SM alone", "H200", true}},
    {CLOCK_CLUSTER_BARRIER, {340, "clocks of barrier.cluster", "H200", true}},
    {CLOCK_CLUSTER_BYTES, {10.5, "bytes a clock that an SM stores to another one of its cluster", "a B200's", true}},
    {CLOCK_CLUSTER_LATENCY, {360, "clocks from st.async to who waits for it, beside its bytes", "the L2 cache's", true}},
    {CLOCK_NEXT_WORK, {400, "clocks from clusterlaunchcontrol.try_cancel to who waits for it", "a B200's, which is assumed, too", true}},
    {CLOCK_FENCE_PROXY, {23, "clocks of fence.proxy.async, costs of PTX", "H200", true}},
    {CLOCK_CODE_TMA_ISSUE, {37, "clocks of a thread that starts a copy", "H200", true}},
    {CLOCK_CODE_TMA, {366, "clocks from the issue of a copy to the end of the scoreboard of who waits for it, beside its bytes", "H200, and the L2 cache's 79 clocks more", true}},
    {CLOCK_CODE_TMA_BYTES, {107, "bytes a clock to shared memory, copies that are no boxes of a tensor", "H200", true}},
    {CLOCK_CODE_TMA_BOXES, {377, "the same of boxes of a tensor", "H200, and the L2 cache's 79 clocks more", true}},
    {CLOCK_CODE_FENCE_PROXY, {9, "clocks for which FENCE.VIEW.ASYNC keeps its warp", "H200", true}},
    {CLOCK_ROWS, {0, 0, 0, false}},
};
/* clang-format on */
