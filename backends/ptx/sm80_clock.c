/* sm80_clock.c - the timing model's figures for compute capability 8.0 (A100 SXM, 80 GB).
 *
 * None of them was measured here: no GPU of this kind has run anything of this project.  The
 * sources:
 *     CG   CUDA C++ Programming Guide, "Compute Capabilities" and "Arithmetic Instructions"
 *     GA   NVIDIA A100 Tensor Core GPU Architecture, whitepaper
 *     GB   te42kyfo/gpu-benches, results of an A100 80 GB, an A40 and an L40
 *     DT   Sun and others, "Dissecting Tensor Cores via Microbenchmarks", arXiv 2206.02874: A100,
 *          RTX 3070 Ti
 *     LU   Luo and others, "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", arXiv
 *          2402.13499: A100, RTX 4090, H100
 *     MD   markdewing/AI_kernels, latency: RTX 4090, RTX 5090; its GH200 has the 281 and 690 clocks
 *          that an H200 has here
 * "H200": the figure that sm90_clock.c measured there, taken over where nothing is published; such
 * rows are assumed.
 */
#include "compiler/clock_rows.h"

/* clang-format off */
const ClockFact sm80_clock[CLOCK_ROWS] = {
    [CLOCK_SMS] = {108, "SMs", "GA", false},
    [CLOCK_MHZ] = {1410, "MHz, of a chip that is not at its power limit", "GA: boost clock", false},
    [CLOCK_MHZ_BUSY] = {1410, "MHz of a chip at its power limit whose tensor units are busy all the time", "the same; nobody published what it falls to", true},
    [CLOCK_MHZ_POINT] = {0, "MHz more for each percent of the time that they are not", "the same", true},
    [CLOCK_SCHEDULERS] = {4, "schedulers of an SM", "CG", false},
    [CLOCK_REGISTERS] = {65536, "registers of an SM", "CG", false},
    [CLOCK_THREADS] = {2048, "threads of an SM", "CG", false},
    [CLOCK_BLOCKS] = {32, "blocks of an SM", "CG", false},
    [CLOCK_SHARED] = {167936, "bytes of shared memory of an SM", "CG: 164 KB", false},
    [CLOCK_SHARED_BLOCK] = {1024, "bytes that a block takes beside its own", "CG", false},
    /* pipes */
    [CLOCK_FMA] = {2, "clocks of FFMA, FADD, FMUL", "CG: 64 a clock and SM", false},
    [CLOCK_ALU] = {2, "clocks of FMNMX, LOP3, PRMT, IADD3, ISETP", "CG: 64 a clock and SM", false},
    [CLOCK_IMAD] = {2, "clocks of IMAD, in the pipe of FFMA", "CG: 64 a clock and SM", false},
    [CLOCK_MUFU] = {8, "clocks of MUFU", "CG: 16 a clock and SM", false},
    [CLOCK_PACK] = {2, "clocks of F2FP, in the pipe of FMNMX", "CG has 16 conversions a clock to other types; F2FP is another instruction: H200", true},
    [CLOCK_FIXED_LATENCY] = {4, "clocks from FFMA, ALU to a dependent instruction, costs of PTX", "H200", true},
    [CLOCK_MUFU_LATENCY] = {17, "clocks from MUFU.EX2 to a dependent instruction", "H200", true},
    [CLOCK_BRANCH] = {8, "clocks from a branch to the next instruction, costs of PTX", "H200", true},
    /* units of an SM */
    [CLOCK_SHUFFLE] = {1, "clocks of SHFL, of an SM", "CG: 32 lanes a clock", false},
    [CLOCK_SHUFFLE_LATENCY] = {26, "clocks from SHFL to a dependent instruction", "H200", true},
    [CLOCK_SHARED_BYTES] = {128, "bytes a clock through the port of shared memory", "CG: 32 banks of 4 bytes", false},
    [CLOCK_LOAD_BYTES] = {64, "bytes a clock that one scheduler loads from shared memory", "H200", true},
    [CLOCK_STORE_BYTES] = {50, "bytes a clock that one scheduler stores to shared memory", "H200", true},
    [CLOCK_SHARED_LATENCY] = {23, "clocks from LDS to a dependent instruction", "LU: as an H100's", false},
    [CLOCK_MATRIX_LATENCY] = {23, "clocks from LDSM to a dependent instruction, of one matrix", "DT", false},
    [CLOCK_GLOBAL_BYTES] = {64, "bytes a clock from the L2 cache to one SM alone", "GA: 64 bytes a clock to an SM", false},
    [CLOCK_GLOBAL_STORE_BYTES] = {32, "bytes a clock that one SM alone stores, before loads that come behind", "H200", true},
    [CLOCK_GLOBAL_LEAST] = {2, "clocks of a load of few bytes a lane", "H200", true},
    [CLOCK_GLOBAL_LINE] = {1, "clocks of each line of 128 bytes that a load touches", "H200", true},
    [CLOCK_STORE_MERGE] = {21, "stores of an SM within which those become one that fill a sector of 32 bytes", "H200", true},
    [CLOCK_GLOBAL_LATENCY] = {211, "clocks from LDG to a dependent instruction, a hit in the L2 cache", "GB: up to 18 MB, its near half; 424 beyond", false},
    [CLOCK_MEMORY_QUEUE] = {160, "clocks of accesses that wait for a port before issue stops", "H200", true},
    [CLOCK_ADD_BYTES] = {25.5, "bytes a clock of f32 that red adds, one SM alone", "H200", true},
    [CLOCK_WARP_MMA_FLOPS] = {2048, "operations a clock and SM of mma.sync, 16-bit operands, sums of f32", "GA: 312 TFLOPS; DT: 0.98 of it", false},
    [CLOCK_WARP_MMA_LATENCY] = {25, "clocks from mma.sync to its result", "DT: 24.7, m16n8k16", false},
    /* barriers */
    [CLOCK_BARRIER] = {12, "clocks from the last arrival at bar.sync until its warps go on", "H200", true},
    [CLOCK_BARRIER_WARP] = {2, "clocks in which an arrival at bar.sync is counted", "H200", true},
    [CLOCK_ARRIVE] = {50, "clocks from mbarrier.arrive to who waits for it, costs of PTX", "H200", true},
    [CLOCK_TRY] = {48, "clocks of a wait at an mbarrier whose phase is over, costs of PTX", "H200", true},
    [CLOCK_FENCE] = {17, "clocks of fence.acq_rel.cta, costs of PTX", "H200", true},
    [CLOCK_START] = {420, "clocks from the start of a block to its first instruction", "H200", true},
    /* the L2 cache */
    [CLOCK_CHIP_READ] = {3850, "bytes a clock that the L2 cache gives all SMs", "GB: 5.43 TB/s at 1410 MHz; GA: 5120 at most", false},
    [CLOCK_CHIP_READ_BOXES] = {3850, "the same of tensor copies, which it does not have", "the same", true},
    [CLOCK_CHIP_WRITE] = {1930, "bytes a clock that all SMs write", "half of what it reads, as an H200's", true},
    [CLOCK_CHIP_WRITE_PARTS] = {1500, "bytes of sectors a clock that all SMs write in parts", "the part that it is of an H200's reads", true},
    [CLOCK_CHIP_ADD] = {1500, "bytes a clock of f32 that all SMs add to memory", "the same", true},
    [CLOCK_ADD_SECTOR] = {24, "clocks in which a sector of 32 bytes takes an addition, of those that all SMs make", "H200", true},
    [CLOCK_L2_HELD] = {29e6, "bytes touched since, by all SMs, with which the L2 cache still has a line", "GB: 28.8 MB at full rate, of 40", false},
    [CLOCK_L2_LOST] = {51e6, "bytes after which it has none", "GB: half is missed at 40 MB", false},
    [CLOCK_HBM] = {1227, "bytes a clock that all SMs read from memory and write there", "GB: 1730 GB/s at 1410 MHz", false},
    [CLOCK_HBM_BOTH] = {1064, "the same where some read while others write", "the part that it is of an H200's", true},
    [CLOCK_HBM_QUEUE] = {140, "clocks for which memory serves one after another, where requests come at random", "H200", true},
    [CLOCK_HBM_LATENCY] = {570, "clocks from LDG to a dependent instruction, from memory", "GB", false},
    /* machine code */
    [CLOCK_CODE_MUFU] = {17, "clocks from MUFU to the end of its scoreboard", "H200", true},
    [CLOCK_CODE_BRANCH] = {6, "clocks that a taken branch takes beyond its stall count", "H200", true},
    [CLOCK_CODE_TRY] = {35, "clocks from a look at an mbarrier to the end of its scoreboard, of a phase that is over", "H200", true},
    [CLOCK_CODE_ARRIVE] = {33, "clocks from an arrival at one to the end of the scoreboard of who waits", "H200", true},
    [CLOCK_CODE_FENCE] = {14, "clocks from MEMBAR.ALL.CTA to the end of its scoreboard", "H200", true},
    [CLOCK_FETCH] = {0, "clocks that a taken branch takes beyond that when it goes far", "H200", true},
    [CLOCK_FETCH_BYTES] = {1536, "bytes of code that are not far", "H200", true},
    [CLOCK_BANK] = {1, "clocks of a read from a bank of registers, where there are two", "H200", true},
    [CLOCK_BANK_SLACK] = {2, "clocks that reads of a bank of registers may be behind issue", "H200", true},
    [CLOCK_PORT_FMA] = {1, "clocks of FFMA in what pipes share", "H200", true},
    [CLOCK_PORT_ALU] = {1.4, "clocks of FMNMX, F2FP in what pipes share", "H200", true},
    [CLOCK_PORT_IMAD] = {2, "clocks of IMAD in what pipes share", "H200", true},
    [CLOCK_MUFU_STORE_BYTES] = {256, "bytes a clock of stores to shared memory on the way that MUFU takes, too", "H200", true},
};
/* clang-format on */
