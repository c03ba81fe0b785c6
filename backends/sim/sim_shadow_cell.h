/* sim_shadow_cell.h - what the shadow of shared memory keeps (sim_shadow.c). */
#ifndef TILEC_SIM_SHADOW_CELL_H
#define TILEC_SIM_SHADOW_CELL_H

#include <stddef.h>

#include "sim_shadow.h"

/* A cell's last writer: an op (top bit set), or a warp above its clock at that time. */
#define WRITER_OP UINT32_C(0x80000000)

/* A read mark holds the clock, which bytes of the cell were read, and whether by strong reads
 * only. */
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
    uint32_t who;   /* READ_WHO(agent, lane + 1) */
} LastRead;
#define READ_WHO(agent, lane) ((agent) << 8 | (lane))
#define READ_AGENT(who) ((who) >> 8)
#define READ_LANE(who) ((who)&255)
enum { SEVERAL_LANES = 100 };

/* Cells of a line, and what is known of them: nothing, that they are alike by their writes, or that
 * they are not. */
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

static inline bool
alike(const Cell *a, const Cell *b)
{
    uint64_t x[2], y[2];
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}
_Static_assert(sizeof(Cell) == 16, "alike() compares all of it");

/* ---- what a warp has written together differs in the lane alone, and mostly that does not matter:
 * such cells are judged together. */

static inline bool
alike_by_write(const Cell *a, const Cell *b) /* but for the lane and the line */
{
    static const Cell compared = {{UINT32_MAX, 0}, UINT32_MAX, 255, 255, 255, 0};
    uint64_t x[2], y[2], mask[2];
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    memcpy(mask, &compared, sizeof mask);
    return (((x[0] ^ y[0]) & mask[0]) | ((x[1] ^ y[1]) & mask[1])) == 0;
}

static inline uint32_t
flags_of(const Cell *c) /* which bytes, without the lane */
{
    static const Cell compared = {{0, 0}, 0, 255, 255, 255, 0};
    uint32_t flags, mask;
    memcpy(&flags, &c->initialised, sizeof flags);
    memcpy(&mask, &compared.initialised, sizeof mask);
    return flags & mask;
}
_Static_assert(sizeof(Cell) == offsetof(Cell, initialised) + 4, "flags_of() takes all of them");

/* Scans in loops that compilers vectorise (sim_shadow_scan.c): whether all ops are the same;
 * whether some read is later than `clock`; whether all of at least one cell are alike by their
 * writes. */
bool sim_shadow_same_ops(const uint32_t *ops, uint32_t count);
bool sim_shadow_read_behind(const uint32_t *marks, uint32_t count, uint32_t clock);
bool sim_shadow_same_writes(const Cell *c, uint32_t count);

#endif
