/* clock_cost.h - what an instruction of PTX costs, by its name, where no machine code says it. */
#ifndef TILEC_CLOCK_COST_H
#define TILEC_CLOCK_COST_H

#include "backends/clock/clock.h"

/* What the replay does with an instruction, beside keeping a unit. */
typedef enum ClockClass {
    CLASS_PLAIN,
    CLASS_FREE,   /* the assembler makes nothing of it, or renames registers: mov, ret */
    CLASS_BRANCH, /* ends a block */
    CLASS_SHARED, /* by passes of the port */
    CLASS_GLOBAL, /* by bytes */
    CLASS_MATRIX, /* ldmatrix, stmatrix */
    CLASS_EVENT,  /* barriers: what the trace says of it */
    CLASS_FENCE,
    CLASS_GROUP_MMA,
    CLASS_GROUP_COMMIT,
    CLASS_GROUP_WAIT,
    CLASS_BULK, /* a copy or reduction of the copy engine */
    CLASS_BULK_COMMIT,
    CLASS_BULK_WAIT,
    CLASS_COPY, /* cp.async */
    CLASS_COPY_COMMIT,
    CLASS_COPY_WAIT,
    CLASS_MMA, /* tcgen05 */
    CLASS_MMA_COPY,
    CLASS_MMA_COMMIT,
    CLASS_TMEM_LOAD,
    CLASS_TMEM_STORE,
    CLASS_TMEM_LOADED, /* wait::ld */
    CLASS_TMEM_STORED, /* wait::st */
    CLASS_NEXT_WORK,
    CLASS_ASYNC_STORE, /* to another block of the cluster */
    CLASS_UNKNOWN
} ClockClass;

typedef struct ClockCost {
    ClockClass kind;
    ClockUnit unit;
    double clocks;  /* that it keeps the unit; of a lane's access: bytes */
    double latency; /* from issue to result */
    bool stores;    /* memory, or adds to it: stays in order with other accesses */
    bool adds;
    bool ends; /* a block of instructions that an assembler may reorder */
} ClockCost;

void clock_cost(const ClockFact *rows, const char *mnemonic, ClockCost *out);
/* Clocks of mma.sync, of `flops` operations of 16 bits. */
double clock_warp_mma(const ClockFact *rows, double flops);
/* What an instruction of a pipe takes of what pipes share, and what it takes beside products. */
void clock_share(const ClockFact *rows, ClockUnit unit, bool whole_numbers, double clocks,
                 double *beside, double *port);

/* Of tcgen05.ld and st, LDTM and STTM: clocks that they keep the way to tensor memory.
 * (clock_tensor.c) */
double tmem_clocks(const ClockFact *rows, const char *name);
uint32_t tmem_registers(const char *name);

/* An order for `n` instructions of the module from `first` on: the longest chain of latencies
 * first, as an assembler does. */
void clock_order(Arena *arena, const SimModule *module, const ClockCost *costs, uint32_t first,
                 uint32_t n, uint16_t *order);

#endif
