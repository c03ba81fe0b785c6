/* sm100_clock.c - the timing model's figures for compute capability 10.0 (B200).
 *
 * None of them was measured here: no GPU of this kind has run anything of this project.  Published
 * by others, most by one author each; docs/timing.md says where sources differ, and what the
 * model's results owe to each.  The sources:
 *     SA  SemiAnalysisAI/microbench-blackwell, results of a B200, 2026-03-31
 *     CI  cicuvc/nvidia-sass-document, SASS run on a B200, 2026-09
 *     QR  QuickRunCUDA, a B300 SXM locked at 1920 MHz, 2026-04
 *     GM  Antoniomv7/gb300-microbench, a B300, 2026-08
 *     FA4 FlashAttention-4, arXiv 2603.05451
 * "H200": the figure that sm90_clock.c measured there, taken over where nothing is published; such
 * rows are assumed.
 */
#include "compiler/clock_rows.h"

/* clang-format off */
const ClockFact sm100_clock[CLOCK_ROWS] = {
    [CLOCK_SMS] = {148, "SMs", "QR; peak rates that cuDNN's benchmarks divide by", false},
    [CLOCK_MHZ] = {1965, "MHz, of a chip that is not at its power limit", "flashinfer issue 2899", false},
    [CLOCK_MHZ_BUSY] = {1447, "MHz of a chip at its power limit whose tensor unit is busy all the time", "a line through 1580 MHz at 65 percent (flashinfer issue 2899) and 1683 at 38 (a note on FP8 attention backward)", false},
    [CLOCK_MHZ_POINT] = {3.8, "MHz more for each percent of the time that it is not", "the same", false},
    [CLOCK_SCHEDULERS] = {4, "schedulers of an SM", "CUDA C++ Programming Guide", false},
    [CLOCK_REGISTERS] = {65536, "registers of an SM", "CUDA C++ Programming Guide, Compute Capabilities", false},
    [CLOCK_THREADS] = {2048, "threads of an SM", "CUDA C++ Programming Guide, Compute Capabilities", false},
    [CLOCK_BLOCKS] = {32, "blocks of an SM", "CUDA C++ Programming Guide, Compute Capabilities", false},
    [CLOCK_SHARED] = {233472, "bytes of shared memory of an SM", "CUDA C++ Programming Guide, Compute Capabilities", false},
    [CLOCK_SHARED_BLOCK] = {1024, "bytes that a block takes beside its own", "CUDA C++ Programming Guide", false},
    /* pipes */
    [CLOCK_FMA] = {1, "clocks of FFMA, FADD, FMUL", "QR: 128 a clock and SM", false},
    [CLOCK_ALU] = {2, "clocks of FMNMX, FMNMX3, LOP3, SEL, ISETP, PRMT", "QR: 64 a clock and SM", false},
    [CLOCK_IMAD] = {2, "clocks of IMAD, in the pipe of FFMA", "QR: 64 a clock and SM", false},
    [CLOCK_MUFU] = {8, "clocks of MUFU (4 on a B300, of EX2)", "FA4, QR: 16 a clock and SM", false},
    [CLOCK_PACK] = {2, "clocks of F2FP, in the pipe of FMNMX", "QR: 61 to 64 a clock and SM of a B300; a B200 was not measured", true},
    [CLOCK_PACKED] = {2, "clocks of FFMA2, FADD2, FMUL2", "QR, CI: 64 a clock and SM", false},
    [CLOCK_FIXED_LATENCY] = {4, "clocks from FFMA, ALU to a dependent instruction", "QR, CI", false},
    [CLOCK_MUFU_LATENCY] = {17, "clocks from MUFU.EX2 to a dependent instruction", "QR, CI: 14 to 18; as on an H200", false},
    [CLOCK_BRANCH] = {8, "clocks from a branch to the next instruction, costs of PTX", "H200", true},
    /* units of an SM */
    [CLOCK_SHUFFLE] = {1, "clocks of SHFL, of an SM", "QR: 32 lanes a clock", false},
    [CLOCK_SHUFFLE_LATENCY] = {24, "clocks from SHFL to a dependent instruction", "QR", false},
    [CLOCK_SHARED_BYTES] = {128, "bytes a clock that shared memory gives to loads and to operands of products", "CI, SA, FA4", false},
    [CLOCK_LOAD_BYTES] = {68, "bytes a clock that one scheduler loads from shared memory", "CI: 0.53 passes a clock of LDS.128", false},
    [CLOCK_STORE_BYTES] = {50, "bytes a clock that one scheduler stores to shared memory", "H200", true},
    [CLOCK_STORES_APART] = {1, "stores to shared memory have a port of their own", "CI: loads are delayed by products, stores lose 15 percent", false},
    [CLOCK_STORE_PRODUCTS] = {0.85, "of the rate of stores to shared memory while products run", "CI", false},
    [CLOCK_SHARED_LATENCY] = {24, "clocks from LDS to a dependent instruction", "QR, CI: 24 to 33", false},
    [CLOCK_MATRIX_LATENCY] = {24, "clocks from LDSM to a dependent instruction", "as LDS", true},
    [CLOCK_GLOBAL_BYTES] = {111, "bytes a clock from the L2 cache to one SM alone", "H200", true},
    [CLOCK_GLOBAL_STORE_BYTES] = {32, "bytes a clock that one SM alone stores, before loads that come behind", "H200", true},
    [CLOCK_GLOBAL_LEAST] = {2, "clocks of a load of few bytes a lane", "H200", true},
    [CLOCK_GLOBAL_LINE] = {1, "clocks of each line of 128 bytes that a load touches", "H200", true},
    [CLOCK_STORE_MERGE] = {21, "stores of an SM within which those become one that fill a sector of 32 bytes", "H200", true},
    [CLOCK_GLOBAL_LATENCY] = {295, "clocks from LDG to a dependent instruction, a hit in the L2 cache", "QR, GM: 288 to 301, its near half", false},
    [CLOCK_MEMORY_QUEUE] = {16, "clocks of accesses that wait for a port before issue stops", "CI: a queue of 8 a scheduler, 28 to 30 of an SM", false},
    [CLOCK_ADD_BYTES] = {25.5, "bytes a clock of f32 that red adds, one SM alone", "H200", true},
    [CLOCK_WARP_MMA_FLOPS] = {2680, "operations a clock and SM of mma.sync", "H200", true},
    [CLOCK_WARP_MMA_LATENCY] = {24, "clocks from mma.sync to its result", "H200", true},
    [CLOCK_TMA_ISSUE] = {50, "clocks of a thread that starts a copy, costs of PTX", "QR: 48 to 63", false},
    [CLOCK_TMA_BYTES] = {120, "bytes a clock to shared memory, boxes of a tensor", "CI; QR: 125", false},
    [CLOCK_TMA_LATENCY] = {318, "clocks from the issue of a copy to who waits for it, beside its bytes; costs of PTX", "QR: 350 with what stands around a copy", false},
    [CLOCK_TMA_STORE_BYTES] = {31.8, "bytes a clock from shared memory, one SM alone", "CI; QR: 209 clocks for 4 KB, 2129 for 64", false},
    [CLOCK_TMA_STORE_PRODUCTS] = {0.5, "of that rate while products run", "CI", false},
    [CLOCK_TMA_STORE_LATENCY] = {52, "clocks from the end of a store's bytes to who waits for it", "H200", true},
    [CLOCK_TMA_ADD_BYTES] = {25.6, "bytes a clock of f32 added to memory by the copy engine, one SM alone", "QR: 248 clocks for 4 KB, 2648 for 64", false},
    [CLOCK_TMA_STORE_READ] = {1, "clocks by which wait_group.read is earlier", "H200", true},
    /* tcgen05; the products themselves: sm100_products */
    [CLOCK_MMA_QUEUE] = {6, "products that are under way or wait, of an SM", "CI: 6 of a scheduler", false},
    [CLOCK_MMA_ISSUE] = {7, "clocks of a thread that starts a product", "CI: 7 to 17", false},
    [CLOCK_MMA_COPY_BYTES] = {32, "bytes a clock of tcgen05.cp", "CI: 128 clocks for 128x256b", false},
    [CLOCK_TMEM_BYTES] = {256, "bytes a clock of a scheduler to and from tensor memory", "CI; the note on FP8 says 382", false},
    [CLOCK_TMEM_ISSUE] = {3.8, "clocks of tcgen05.ld and st beside their bytes, for the same warp", "CI: x8 7.8, x16 11.8", false},
    [CLOCK_TMEM_LEAST] = {5.1, "clocks of the shortest, for the same warp", "CI: x1 5.1, x2 5.2", false},
    [CLOCK_TMEM_LATENCY] = {25, "clocks from LDTM to a dependent instruction, beside its bytes", "CI: 24 to 25; loaded not measured", false},
    [CLOCK_TMEM_STORED] = {12, "clocks of tcgen05.wait::st when the stores are done", "CI", false},
    [CLOCK_TMEM_ALLOC] = {253, "clocks of tcgen05.alloc", "CI", false},
    /* barriers */
    [CLOCK_BARRIER] = {22, "clocks from the last arrival at bar.sync until its warps go on", "QR's audit of April 2026: 22 and 2 a warp, 24 to 86 clocks for 1 to 32 warps (its catalogue had said 12); 31 for a named one of 4 warps", false},
    [CLOCK_BARRIER_WARP] = {2, "clocks in which an arrival at bar.sync is counted", "QR", false},
    [CLOCK_ARRIVE] = {54, "clocks from mbarrier.arrive to who waits for it, costs of PTX", "QR", false},
    [CLOCK_TRY] = {48, "clocks of a wait at an mbarrier whose phase is over, costs of PTX", "H200", true},
    [CLOCK_CLUSTER_BARRIER] = {390, "clocks of barrier.cluster", "QR: 375 to 400", false},
    [CLOCK_CLUSTER_BYTES] = {10.5, "bytes a clock that an SM stores to another one of its cluster", "QR: about 3 TB/s of all SMs, sources differ", true},
    [CLOCK_CLUSTER_LATENCY] = {295, "clocks from st.async to who waits for it, beside its bytes", "the L2 cache's; nobody published one", true},
    [CLOCK_FENCE] = {17, "clocks of fence.acq_rel.cta, costs of PTX", "H200", true},
    [CLOCK_FENCE_PROXY] = {23, "clocks of fence.proxy.async, costs of PTX", "H200", true},
    [CLOCK_NEXT_WORK] = {400, "clocks from clusterlaunchcontrol.try_cancel to who waits for it", "an mbarrier's round trip and the L2 cache; nobody published one", true},
    [CLOCK_START] = {420, "clocks from the start of a block to its first instruction", "an H200: spin_132_384t_227k", true},
    /* the L2 cache, at the 1920 MHz of QR */
    [CLOCK_CHIP_READ] = {11460, "bytes a clock that the L2 cache gives all SMs", "QR, GM: 22 to 26 TB/s", false},
    [CLOCK_CHIP_READ_BOXES] = {15100, "bytes a clock of tensor copies by all SMs", "QR: 197 GB/s an SM", false},
    [CLOCK_CHIP_WRITE_PARTS] = {2020, "bytes of sectors a clock that all SMs write in parts", "H200, by SMs", true},
    [CLOCK_CHIP_WRITE] = {2590, "bytes a clock that all SMs write", "H200, by SMs", true},
    [CLOCK_CHIP_ADD] = {2020, "bytes a clock of f32 that all SMs add to memory", "H200, by SMs; QR has 234 single additions a clock", true},
    [CLOCK_ADD_SECTOR] = {24, "clocks in which a sector of 32 bytes takes an addition, of those that all SMs make", "H200", true},
    [CLOCK_L2_HELD] = {78e6, "bytes touched since, by all SMs, with which the L2 cache still has a line", "QR, GM: it has 126 MB; the part of an H200's that is 39 MB of 62.9", true},
    [CLOCK_L2_LOST] = {106e6, "bytes after which it has none", "the same, 53 MB", true},
    [CLOCK_HBM] = {3750, "bytes a clock that all SMs read from memory and write there", "QR, GM: 7.2 to 7.3 TB/s; TS, SA: 7.0 to 7.2", false},
    [CLOCK_HBM_BOTH] = {3250, "the same where some read while others write", "the part that it is of an H200", true},
    [CLOCK_HBM_QUEUE] = {140, "clocks for which memory serves one after another, where requests come at random", "H200", true},
    [CLOCK_HBM_LATENCY] = {704, "clocks from LDG to a dependent instruction, from memory", "QR, GM: 704 to 789", false},
    /* machine code */
    [CLOCK_CODE_MUFU] = {17, "clocks from MUFU to the end of its scoreboard", "QR, CI: 14 to 18; as on an H200", false},
    [CLOCK_CODE_BRANCH] = {6, "clocks that a taken branch takes beyond its stall count", "H200", true},
    [CLOCK_CODE_TRY] = {35, "clocks from SYNCS.PHASECHK to the end of its scoreboard, of a phase that is over", "H200", true},
    [CLOCK_CODE_ARRIVE] = {33, "clocks from SYNCS.ARRIVE to the end of the scoreboard of who waits", "H200; QR's round trip of 54 beside 66 there has a part in it that is not known", true},
    [CLOCK_CODE_TMA_ISSUE] = {37, "clocks of a thread that starts a copy", "H200, where it is what 48 is of PTX; QR: 48 to 63", true},
    [CLOCK_CODE_TMA] = {321, "clocks from the issue of a copy to the end of the scoreboard of who waits for it, beside its bytes", "QR: 350 and 8.5 to 8.9 a KB, with the instructions around a copy; those take 29 on an H200", false},
    [CLOCK_CODE_TMA_BYTES] = {117, "bytes a clock to shared memory, copies that are no boxes of a tensor", "QR: 8.5 to 8.9 clocks a KB", false},
    [CLOCK_CODE_TMA_BOXES] = {337, "the same of boxes of a tensor", "the same, and 16 more as on an H200", true},
    [CLOCK_CODE_FENCE] = {14, "clocks from MEMBAR.ALL.CTA to the end of its scoreboard", "H200", true},
    [CLOCK_CODE_FENCE_PROXY] = {9, "clocks for which FENCE.VIEW.ASYNC keeps its warp", "H200", true},
    [CLOCK_FETCH] = {0, "clocks that a taken branch takes beyond that when it goes far", "H200", true},
    [CLOCK_FETCH_BYTES] = {1536, "bytes of code that are not far", "H200", true},
    [CLOCK_BANK] = {0, "clocks of a read from a bank of registers", "not known of a B200; QR: FFMA reaches 0.65 of its rate without reuse on a B300", true},
    [CLOCK_BANK_SLACK] = {2, "clocks that what pipes share may be behind issue", "H200", true},
    /* what pipes share; products keep their sums in tensor memory and take none of it */
    [CLOCK_PORT_FMA] = {1, "clocks of FFMA in what pipes share; of FFMA2 twice that", "H200", true},
    [CLOCK_PORT_ALU] = {1.4, "clocks of FMNMX, F2FP in what pipes share", "H200", true},
    [CLOCK_PORT_IMAD] = {2, "clocks of IMAD in what pipes share", "H200", true},
    [CLOCK_PORT_MUFU] = {0, "clocks of MUFU in what pipes share while products run", "an H200's MUFU takes none of it but beside wgmma, whose sums are in registers", true},
    [CLOCK_PORT_PRODUCTS] = {0, "part of what pipes share that products take", "CI: products and accesses to tensor memory cost each other 3 percent at most", false},
    [CLOCK_ALU_PRODUCTS] = {0, "clocks of FMNMX, LOP3 while products run; 0: as without", "the same", false},
    [CLOCK_MUFU_PRODUCTS] = {0, "clocks of MUFU while products run; 0: as without", "the same", false},
};

/* SA: clocks of an instruction in a long row of them.  From its end to who waits for the commit: SA
 * has 136 clocks (A in shared memory), 120 (M 64), 104 (A in tensor memory), of a pair 170 and 138,
 * 197 and 165 (M 128), from the issue of one, with the instructions around it; those take 30 or 31
 * in the replay of bench/micro/sm100.py (mma_*_d1).  M 64 takes what M 128 takes. Below N 64: QR's
 * least of 44 with A in shared memory, on a B300. */
const ClockProduct sm100_products[] = {
    {1, 128, 32, 44, 32, 106, 73, "QR (B300) for A in shared memory; else as N 64", true},
    {1, 128, 64, 48, 32, 106, 73, "SA", false},
    {1, 128, 80, 52, 40, 106, 73, "SA", false},
    {1, 128, 96, 56, 48, 106, 73, "SA", false},
    {1, 128, 112, 60, 56, 106, 73, "SA", false},
    {1, 128, 128, 64, 64, 106, 73, "SA; CI: 32 and a commit take 2177", false},
    {1, 128, 256, 128, 128, 106, 73, "SA", false},
    {1, 64, 32, 44, 32, 90, 73, "QR (B300); else as N 64", true},
    {1, 64, 64, 48, 32, 90, 73, "SA", false},
    {1, 64, 128, 64, 64, 90, 73, "SA", false},
    {1, 64, 256, 128, 128, 90, 73, "SA", false},
    {2, 256, 32, 43, 32, 140, 107, "as N 64", true},
    {2, 256, 64, 43, 32, 140, 107, "SA", false},
    {2, 256, 80, 45.3, 40, 140, 107, "SA", false},
    {2, 256, 96, 49.4, 48, 140, 107, "SA", false},
    {2, 256, 128, 64, 64, 140, 107, "SA: 234 and 202 for one", false},
    {2, 256, 256, 128, 128, 140, 107, "SA: 298 for one", false},
    {2, 128, 64, 25, 18, 167, 134, "SA", false},
    {2, 128, 128, 32, 32, 167, 134, "SA: 197 to 229 for one", false},
    {2, 128, 256, 64, 64, 167, 134, "SA", false},
    {0, 0, 0, 0, 0, 0, 0, 0, false},
};
/* clang-format on */
