/* sim_shadow_cell.h - what the shadow of shared memory keeps (sim_shadow.c). */
#ifndef TILEC_SIM_SHADOW_CELL_H
#define TILEC_SIM_SHADOW_CELL_H

#include "sim_shadow.h"

/* A cell's last writer: an op (top bit set), or a warp above its clock at that time. */
#define WRITER_OP UINT32_C(0x80000000)

/* A read mark holds the clock, which bytes of the cell were read, and whether by strong reads only. */
#define READ_MARK(clock, bytes) ((clock) << 4 | (bytes))
#define READ_STRONG UINT32_C(0x80000000)
#define READ_CLOCK(mark) (((mark) & ~READ_STRONG) >> 4)

typedef struct Writer {
    uint32_t who, insn;
} Writer;

/* The last write.  Neighbours are mostly alike: an access looks at the first of them (run_of). */
typedef struct Cell {
    Writer writer;
    uint32_t write_epoch; /* period of the warp, to tell its lanes apart */
    uint8_t initialised;  /* bytes, a bit each */
    uint8_t written;
    uint8_t strong;     /* bytes whose last write was a strong one, and SPLIT */
    uint8_t write_lane; /* + 1 */
} Cell;
enum { SPLIT = 16 }; /* bytes have different writers: see SimShadow.bytes */

typedef struct LastRead {
    uint32_t insn;
    uint32_t epoch; /* between the lanes of one warp: who, in which period of the warp */
    uint16_t agent;
    uint8_t lane; /* + 1 */
} LastRead;
enum { SEVERAL_LANES = 100 };

/* Cells of a line, and what is known of them: nothing, that they are alike by their writes, or that they are not. */
enum { LINE = 32 };
enum { UNKNOWN, UNIFORM, MIXED };

struct SimShadow {
    uint32_t cells, agents;
    Cell *cell;
    uint8_t *line; /* of each line: UNKNOWN.. */
    LastRead *last_read;
    Writer *bytes;      /* 4 a cell; NULL until first used */
    uint32_t **read;    /* by agent, then cell: READ_MARK; NULL until first used */
    uint32_t **read_op; /* by agent: the op that reads the cell asynchronously, id + 1 */
    uint32_t *readers;  /* agents with planes, of either kind */
    uint32_t *newest;   /* by agent: its clock at its last read, of any cell */
    uint32_t reader_count;
};

#endif
