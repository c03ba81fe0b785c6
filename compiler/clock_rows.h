/* clock_rows.h - what a timing model asks about a chip: one row a figure, with where it comes from.
 *
 * Each target that has a model fills in a table, beside its record (backends/ptx); docs/timing.md
 * shows it.  Clocks are those of an SM.  A row is measured by a microbenchmark of its own
 * (bench/micro) or published; none is fitted to a kernel.
 */
#ifndef TILEC_CLOCK_ROWS_H
#define TILEC_CLOCK_ROWS_H

#include <stdbool.h>

/* The tables say in words what each is, and in what unit. */
typedef enum ClockRow {
    /* limits of an SM */
    CLOCK_SMS,
    CLOCK_MHZ,
    CLOCK_MHZ_BUSY,
    CLOCK_MHZ_POINT,
    CLOCK_SCHEDULERS,
    CLOCK_REGISTERS,
    CLOCK_THREADS,
    CLOCK_BLOCKS,
    CLOCK_SHARED,
    CLOCK_SHARED_BLOCK,
    /* pipes: clocks that a warp instruction keeps one of a scheduler, and until its result is
     * there */
    CLOCK_FMA,
    CLOCK_ALU,
    CLOCK_IMAD,
    CLOCK_MUFU,
    CLOCK_PACK,
    CLOCK_PACKED,
    CLOCK_FIXED_LATENCY,
    CLOCK_MUFU_LATENCY,
    CLOCK_BRANCH,
    /* units of an SM: clocks of a warp instruction, or bytes a clock */
    CLOCK_SHUFFLE,
    CLOCK_SHUFFLE_LATENCY,
    CLOCK_SHARED_BYTES,
    CLOCK_LOAD_BYTES,
    CLOCK_STORE_BYTES,
    CLOCK_SHARED_LATENCY,
    CLOCK_MATRIX_LATENCY,
    CLOCK_GLOBAL_BYTES,
    CLOCK_GLOBAL_STORE_BYTES,
    CLOCK_GLOBAL_LEAST,
    CLOCK_GLOBAL_LINE,
    CLOCK_STORE_MERGE,
    CLOCK_GLOBAL_LATENCY,
    CLOCK_MEMORY_QUEUE,
    CLOCK_ADD_BYTES,
    CLOCK_WARP_MMA_FLOPS,
    CLOCK_WARP_MMA_LATENCY,
    CLOCK_GROUP_MMA_FLOPS,
    CLOCK_GROUP_MMA_LATENCY,
    CLOCK_GROUP_MMA_LEAST,
    CLOCK_GROUP_MMA_QUEUE,
    CLOCK_TMA_ISSUE,
    CLOCK_TMA_BYTES,
    CLOCK_TMA_LATENCY,
    CLOCK_TMA_STORE_BYTES,
    CLOCK_TMA_STORE_LATENCY,
    CLOCK_TMA_STORE_READ,
    CLOCK_TMA_ADD_BYTES,
    CLOCK_TMA_IN_ORDER,
    /* products that one thread starts (tcgen05), tensor memory: bytes a clock of a scheduler */
    CLOCK_MMA_QUEUE,
    CLOCK_MMA_ISSUE,
    CLOCK_MMA_COPY_BYTES,
    CLOCK_TMEM_BYTES,
    CLOCK_TMEM_ISSUE,
    CLOCK_TMEM_LEAST,
    CLOCK_TMEM_LATENCY,
    CLOCK_TMEM_STORED,
    CLOCK_TMEM_ALLOC,
    /* beside products: what stores to shared memory keep of their rate, and the copy engine's
     * stores */
    CLOCK_STORES_APART,
    CLOCK_STORE_PRODUCTS,
    CLOCK_TMA_STORE_PRODUCTS,
    /* barriers */
    CLOCK_BARRIER,
    CLOCK_BARRIER_WARP,
    CLOCK_ARRIVE,
    CLOCK_TRY,
    CLOCK_CLUSTER_BARRIER,
    CLOCK_CLUSTER_BYTES,
    CLOCK_CLUSTER_LATENCY,
    CLOCK_FENCE,
    CLOCK_FENCE_PROXY,
    CLOCK_NEXT_WORK,
    CLOCK_START,
    /* bytes a clock of the L2 cache, that all SMs share; BOXES: by tensor copies */
    CLOCK_CHIP_READ,
    CLOCK_CHIP_READ_BOXES,
    CLOCK_CHIP_WRITE,
    CLOCK_CHIP_WRITE_PARTS,
    CLOCK_CHIP_ADD,
    CLOCK_ADD_QUEUE,
    CLOCK_ADD_SECTOR,
    /* memory: bytes that the L2 cache holds for sure, and from which on it holds nothing; bytes a
     * clock, read and written, that all SMs share, and so where both go on; clocks of a load; what
     * it waits for others */
    CLOCK_L2_HELD,
    CLOCK_L2_LOST,
    CLOCK_HBM,
    CLOCK_HBM_BOTH,
    CLOCK_HBM_LATENCY,
    CLOCK_HBM_QUEUE,
    /* machine code: what an instruction itself takes, where those above are of PTX with what stands
     * around it */
    CLOCK_CODE_MUFU,
    CLOCK_CODE_BRANCH,
    CLOCK_CODE_TRY,
    CLOCK_CODE_ARRIVE,
    CLOCK_CODE_GROUP_MMA,
    CLOCK_CODE_GROUP_MMA_RS,
    CLOCK_CODE_TMA_ISSUE,
    CLOCK_CODE_TMA,
    CLOCK_CODE_TMA_BYTES,
    CLOCK_CODE_TMA_BOXES,
    CLOCK_CODE_FENCE,
    CLOCK_CODE_FENCE_PROXY,
    CLOCK_FETCH,
    CLOCK_FETCH_BYTES,
    CLOCK_BANK,
    CLOCK_BANK_SLACK,
    /* what pipes share: clocks of it; beside products, which take a part of it */
    CLOCK_PORT_FMA,
    CLOCK_PORT_ALU,
    CLOCK_PORT_IMAD,
    CLOCK_PORT_MUFU,
    CLOCK_PORT_PRODUCTS,
    CLOCK_ALU_PRODUCTS,
    CLOCK_MUFU_PRODUCTS,
    CLOCK_FMA_PRODUCTS,
    CLOCK_FMA_RUN,
    CLOCK_FMA_ROOM,
    CLOCK_FMA_RECOVERS,
    CLOCK_MUFU_STORE_BYTES,
    CLOCK_ROWS
} ClockRow;

typedef struct ClockFact {
    double value;
    const char *what;   /* in words, with its unit */
    const char *source; /* a microbenchmark, or who published it */
    bool assumed;       /* neither measured nor published for this chip */
} ClockFact;

/* tcgen05.mma of one shape, K of 32 bytes: clocks for which it keeps the tensor unit, and from its
 * end to who waits for its commit; with A in shared memory and with A in tensor memory.  A table
 * ends with a row of no blocks. */
typedef struct ClockProduct {
    unsigned short blocks, m, n; /* blocks: 2 of a pair */
    double shared, memory, shared_done, memory_done;
    const char *source;
    bool assumed;
} ClockProduct;

/* What another chip's table has in place of a row; the last one: CLOCK_ROWS. */
typedef struct ClockChange {
    ClockRow row;
    ClockFact fact;
} ClockChange;

extern const ClockChange sm103_clock[];                             /* beside sm100_clock */
extern const ClockChange sm86_clock[], sm89_clock[], sm120_clock[]; /* beside sm80_clock */

/* By ClockRow. */
extern const ClockFact sm80_clock[CLOCK_ROWS], sm90_clock[CLOCK_ROWS], sm100_clock[CLOCK_ROWS];
extern const ClockProduct sm100_products[];

#endif
