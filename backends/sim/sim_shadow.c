/* sim_shadow.c - happens-before checks on shared memory (PTX ISA 8: memory consistency model). */
#include "sim_shadow.h"

#include <stdlib.h>

#include "sim_async.h"
#include "sim_sync.h"

/* A cell's last writer: an op (top bit set), or a warp above its clock at that time. */
#define WRITER_OP UINT32_C(0x80000000)

/* A read mark holds the clock, which bytes of the cell were read, and whether by strong reads only. */
#define READ_MARK(clock, bytes) ((clock) << 4 | (bytes))
#define READ_STRONG UINT32_C(0x80000000)
#define READ_CLOCK(mark) (((mark) & ~READ_STRONG) >> 4)

typedef struct Writer {
    uint32_t who, insn;
} Writer;

typedef struct Cell {
    Writer writer; /* the last */
    uint32_t reader_insn;
    uint8_t initialised; /* bytes, a bit each */
    uint8_t written;
    uint8_t strong; /* bytes whose last write was a strong one */
    uint8_t split;  /* bytes have different writers: see SimShadow.bytes */
    /* Between the lanes of one warp: who wrote and who read last, in which period of the warp. */
    uint8_t write_lane, read_lane; /* + 1 */
    uint16_t read_agent;
    uint32_t write_epoch, read_epoch;
} Cell;
enum { SEVERAL_LANES = 100 };

struct SimShadow {
    uint32_t cells, agents;
    Cell *cell;
    Writer *bytes;      /* 4 a cell; NULL until first used */
    uint32_t **read;    /* by agent, then cell: READ_MARK; NULL until first used */
    uint32_t **read_op; /* by agent: the op that reads the cell asynchronously, id + 1 */
    uint32_t *readers;  /* agents with planes, of either kind */
    uint32_t reader_count;
};

SimShadow *
sim_shadow_new(uint32_t bytes, uint32_t agents)
{
    SimShadow *s = sim_calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->cells = (bytes + 3) / 4;
    s->agents = agents;
    s->cell = sim_calloc(s->cells ? s->cells : 1, sizeof *s->cell);
    s->read = sim_calloc(agents, sizeof *s->read);
    s->read_op = sim_calloc(agents, sizeof *s->read_op);
    s->readers = sim_calloc(agents, sizeof *s->readers);
    if (!s->cell || !s->read || !s->read_op || !s->readers) {
        sim_shadow_free(s);
        return NULL;
    }
    return s;
}

void
sim_shadow_free(SimShadow *s)
{
    if (!s)
        return;
    for (uint32_t a = 0; a < s->agents; a++) {
        if (s->read)
            free(s->read[a]);
        if (s->read_op)
            free(s->read_op[a]);
    }
    free(s->cell);
    free(s->bytes);
    free(s->read);
    free(s->read_op);
    free(s->readers);
    free(s);
}

static uint32_t *
plane(SimShadow *s, uint32_t **planes, uint32_t agent)
{
    if (!planes[agent]) {
        bool first = !s->read[agent] && !s->read_op[agent];
        planes[agent] = sim_calloc(s->cells ? s->cells : 1, sizeof **planes);
        if (first && planes[agent])
            s->readers[s->reader_count++] = agent;
    }
    return planes[agent]; /* NULL only without memory: then reads go unrecorded */
}

static uint8_t
byte_mask(uint32_t cell, uint32_t offset, uint32_t size)
{
    if (offset <= cell * 4 && offset + size >= cell * 4 + 4)
        return 15;
    uint32_t low = offset > cell * 4 ? offset - cell * 4 : 0;
    uint32_t high = offset + size < cell * 4 + 4 ? offset + size - cell * 4 : 4;
    return (uint8_t)((1u << high) - (1u << low));
}

static SimPlace
place_of(const SimWarp *warp, uint32_t insn_plus_one, uint32_t agent)
{
    const SimRun *run = warp->run;
    SimPlace place = {NULL, (int32_t)(agent % run->warps_per_cta), agent / run->warps_per_cta};
    if (insn_plus_one)
        place.insn = run->module->insns[insn_plus_one - 1];
    return place;
}

/* ------------------------------------------------------------------------ checks */

/* What an access does to a cell that another has written: it may write what is there already. */
typedef enum Doing { READS, WRITES, REPEATS } Doing;

static void
report_race(SimWarp *warp, Doing doing, int32_t lane, uint64_t address, const SimPlace *place)
{
    if (doing == REPEATS)
        sim_note(warp, SIM_FIND_RACE, lane, address, place,
                 "write of the value that another warp wrote to the same shared memory, with no "
                 "barrier between");
    else
        sim_find(warp, SIM_FIND_RACE, lane, address, place,
                 "%s of shared memory that another warp wrote, with no barrier between",
                 doing == READS ? "read" : "write");
}

/* The access against a write.  Whether there is nothing to say of it. */
static bool
check_writer(SimWarp *warp, const Writer *w, uint32_t write_lane, uint32_t offset, int32_t lane,
             Doing doing, bool async_proxy)
{
    SimCluster *cluster = warp->cta->cluster;
    uint64_t address = offset + SIM_SHARED_BASE;
    if (w->who & WRITER_OP) {
        const SimOp *op = cluster->ops[w->who & ~WRITER_OP];
        SimPlace place = place_of(warp, w->insn, op->agent);
        if (sim_op_known(warp, op)) {
            if (async_proxy && op->generic_proxy && !sim_op_known_to_proxy(warp, op))
                sim_note(warp, SIM_FIND_PROXY_FENCE, lane, address, &place,
                         "the async proxy accesses shared memory that an op of the generic proxy "
                         "wrote with no fence.proxy.async between");
            else
                return true;
            return false;
        }
        if (doing != READS)
            sim_find(warp, SIM_FIND_ASYNC_OVERWRITE, lane, address, &place,
                     "shared memory is written while an asynchronous op may still be filling it");
        else
            sim_find(warp, SIM_FIND_ASYNC_EARLY, lane, address, &place,
                     "shared memory is read before the asynchronous op that fills it was waited "
                     "for");
        return false;
    }
    uint32_t agent = w->who >> SIM_CLOCK_BITS, clock = w->who & SIM_CLOCK_MAX;
    if (clock > warp->clock[agent] && agent != warp->agent) {
        SimPlace place = place_of(warp, w->insn, agent);
        report_race(warp, doing, lane, address, &place);
    } else if (agent != warp->agent && write_lane && doing != REPEATS &&
               !sim_sync_covers_lane(warp, agent, clock, write_lane - 1)) {
        SimPlace place = place_of(warp, w->insn, agent);
        sim_find(warp, SIM_FIND_RACE, lane, address, &place,
                 "%s of shared memory that lane %u of another warp wrote; another lane arrived for "
                 "it, with no bar.warp.sync between",
                 doing == READS ? "read" : "write", write_lane - 1);
    } else if (async_proxy && clock > warp->proxy_clock[agent]) {
        SimPlace place = place_of(warp, w->insn, agent);
        sim_find(warp, SIM_FIND_PROXY_FENCE, lane, address, &place,
                 "the async proxy accesses shared memory written through the generic proxy with "
                 "no fence.proxy.async between");
    } else {
        return true;
    }
    return false;
}

/* The writer of which there was nothing to say last.  An access has many cells of one. */
typedef struct Passed {
    uint32_t who, write_lane;
    bool any;
} Passed;

/* The access to some bytes of a cell against their last writes; `own` is the party itself. */
static inline void
check_writers(SimWarp *warp, const SimShadow *s, uint32_t cell, uint8_t bytes, uint32_t own,
              int32_t lane, Doing doing, bool strong, bool async_proxy, Passed *passed)
{
    const Cell *c = &s->cell[cell];
    uint8_t clash = bytes & c->written & (uint8_t) ~(strong ? c->strong : 0);
    if (!clash)
        return;
    if (doing == REPEATS && c->strong & clash)
        doing = WRITES;
    if (!c->split) {
        if (c->writer.who == own ||
            (passed->any && passed->who == c->writer.who && passed->write_lane == c->write_lane))
            return;
        if (check_writer(warp, &c->writer, c->write_lane, cell * 4, lane, doing, async_proxy))
            *passed = (Passed){c->writer.who, c->write_lane, true};
        return;
    }
    uint32_t last = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const Writer *w = &s->bytes[4 * cell + i];
        if (!(clash >> i & 1) || w->who == own || w->who == last)
            continue;
        last = w->who;
        check_writer(warp, w, 0, cell * 4 + i, lane, doing, async_proxy);
    }
}

/* Bytes of a cell now belong to a writer.  What others wrote in the cell stays theirs. */
static void
record_write(SimShadow *s, uint32_t cell, uint8_t bytes, Writer own, bool strong)
{
    Cell *c = &s->cell[cell];
    uint8_t keep = c->written & (uint8_t)~bytes;
    bool mixed = keep && (c->split || c->writer.who != own.who);
    if (mixed && !s->bytes)
        s->bytes = sim_calloc((size_t)s->cells * 4, sizeof *s->bytes);
    if (mixed && s->bytes)
        for (uint32_t i = 0; i < 4; i++) {
            if (bytes >> i & 1)
                s->bytes[4 * cell + i] = own;
            else if (!c->split)
                s->bytes[4 * cell + i] = c->written >> i & 1 ? c->writer : (Writer){0, 0};
        }
    c->split = mixed && s->bytes;
    c->writer = own;
    c->written = keep | bytes;
    c->initialised |= bytes;
    c->strong = (uint8_t)((c->strong & ~bytes) | (strong ? bytes : 0));
}

/* Whether the warp knows of all reads of the cells from `first` to `last`, whatever their bytes: then a write
 * races with none of them. */
static bool
knows_readers(const SimWarp *warp, const SimShadow *s, uint32_t first, uint32_t last)
{
    uint32_t known = 0;
    if (first >= s->cells)
        return true;
    if (last >= s->cells)
        last = s->cells - 1;
    for (uint32_t i = 0; i < s->reader_count; i++) {
        uint32_t a = s->readers[i], unknown = 0;
        const uint32_t *marks = a != warp->agent ? s->read[a] : NULL, *ops = s->read_op[a];
        for (uint32_t cell = first; marks && cell <= last; cell++)
            unknown |= READ_CLOCK(marks[cell]) > warp->clock[a];
        if (unknown)
            return false;
        for (uint32_t cell = first; ops && cell <= last; cell++) {
            if (!ops[cell] || ops[cell] == known)
                continue;
            known = ops[cell];
            if (!sim_op_known(warp, warp->cta->cluster->ops[known - 1]))
                return false;
        }
    }
    return true;
}

/* A write against the reads since. */
static void
check_readers(SimWarp *warp, SimShadow *s, uint32_t cell, uint8_t bytes, uint32_t offset,
              int32_t lane, bool strong)
{
    uint64_t address = offset + SIM_SHARED_BASE;
    for (uint32_t a = 0; a < s->agents; a++) {
        if (s->read[a] && a != warp->agent) {
            uint32_t mark = s->read[a][cell];
            if (mark & bytes && READ_CLOCK(mark) > warp->clock[a] &&
                !(strong && mark & READ_STRONG)) {
                SimPlace place = place_of(warp, s->cell[cell].reader_insn, a);
                sim_find(warp, SIM_FIND_RACE, lane, address, &place,
                         "write of shared memory that another warp reads, with no barrier "
                         "between");
            }
        }
        if (s->read_op[a] && s->read_op[a][cell]) {
            const SimOp *op = warp->cta->cluster->ops[s->read_op[a][cell] - 1];
            if (!sim_op_known(warp, op)) {
                SimPlace place = {op->insn, (int32_t)(op->agent % warp->run->warps_per_cta), 0};
                sim_find(warp, SIM_FIND_ASYNC_OVERWRITE, lane, address, &place,
                         "shared memory is written while an asynchronous op may still be reading "
                         "it");
            }
        }
    }
}

/* ---- lanes of one warp.  They run in no order, but for bar.warp.sync, barriers and the like
 * (9.7.13.2); instructions that all lanes execute together order nothing.  Lanes that one
 * instruction lets write one address are left alone: the values are mostly the same. */

static void
report_lanes(SimWarp *warp, uint32_t insn, uint32_t cell, int32_t lane, const char *what)
{
    SimPlace place = place_of(warp, insn, warp->agent);
    sim_find(warp, SIM_FIND_RACE, lane, cell * 4 + SIM_SHARED_BASE, &place,
             "%s, with no bar.warp.sync between", what);
}

static void
check_lane_write(SimWarp *warp, const Cell *c, uint32_t cell, uint8_t bytes, uint8_t lane,
                 Doing doing)
{
    if (!(c->written & bytes) || c->split || !c->write_lane || c->write_lane == lane + 1 ||
        c->writer.insn == warp->insn->index + 1 || (c->strong & bytes) == bytes)
        return;
    if (c->writer.who & WRITER_OP) {
        const SimOp *op = warp->cta->cluster->ops[c->writer.who & ~WRITER_OP];
        if (op->agent == warp->agent && op->lane_epoch == warp->lane_epoch && sim_op_known(warp, op))
            report_lanes(warp, c->writer.insn, cell, lane,
                         "shared memory that another lane of the warp copied and waited for");
    } else if (c->writer.who >> SIM_CLOCK_BITS == warp->agent &&
               c->write_epoch == warp->lane_epoch) {
        if (doing == REPEATS) {
            SimPlace place = place_of(warp, c->writer.insn, warp->agent);
            sim_note(warp, SIM_FIND_RACE, lane, cell * 4 + SIM_SHARED_BASE, &place,
                     "write of the value that another lane of the warp wrote to the same shared "
                     "memory, with no bar.warp.sync between");
            return;
        }
        report_lanes(warp, c->writer.insn, cell, lane,
                     doing == WRITES ? "write of shared memory that another lane of the warp wrote"
                                     : "read of shared memory that another lane of the warp wrote");
    }
}

static void
check_lane_read(SimWarp *warp, const Cell *c, uint32_t cell, uint8_t bytes, uint8_t lane)
{
    if (c->read_lane && c->read_lane != lane + 1 && c->read_agent == warp->agent &&
        c->read_epoch == warp->lane_epoch && bytes == 15 && c->reader_insn != warp->insn->index + 1)
        report_lanes(warp, c->reader_insn, cell, lane,
                     "write of shared memory that another lane of the warp reads");
}

static void
record_lane_read(const SimWarp *warp, Cell *c, uint8_t lane)
{
    bool same = c->read_lane && c->read_agent == warp->agent && c->read_epoch == warp->lane_epoch;
    c->read_lane = (uint8_t)(same && c->read_lane != lane + 1 ? SEVERAL_LANES : lane + 1);
    c->read_agent = (uint16_t)warp->agent;
    c->read_epoch = warp->lane_epoch;
}

#define EACH_CELL(shadow, offset, size, cell)                                                      \
    for (uint32_t cell = (offset) / 4, last_ = ((offset) + (size)-1) / 4;                          \
         cell <= last_ && cell < (shadow)->cells; cell++)

static uint32_t
event_of(const SimWarp *warp)
{
    return warp->agent << SIM_CLOCK_BITS | warp->clock[warp->agent];
}

void
sim_shadow_read(SimWarp *warp, SimCta *cta, uint32_t offset, uint32_t size, uint32_t lane,
                SimAccess access)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    uint32_t *marks = plane(s, s->read, warp->agent);
    uint32_t clock = warp->clock[warp->agent], own = event_of(warp);
    uint32_t strong = access == SIM_STRONG ? READ_STRONG : 0;
    Passed passed = {0, 0, false};
    EACH_CELL(s, offset, size, cell)
    {
        Cell *c = &s->cell[cell];
        uint8_t bytes = byte_mask(cell, offset, size);
        if ((c->initialised & bytes) != bytes)
            sim_find(warp, SIM_FIND_UNINITIALISED, (int32_t)lane, cell * 4 + SIM_SHARED_BASE, NULL,
                     "read of shared memory that nobody wrote");
        check_writers(warp, s, cell, bytes, own, (int32_t)lane, READS, strong, false, &passed);
        if (!strong) {
            check_lane_write(warp, c, cell, bytes, (uint8_t)lane, READS);
            record_lane_read(warp, c, (uint8_t)lane);
        }
        if (!marks)
            continue;
        c->reader_insn = warp->insn->index + 1;
        uint32_t before = marks[cell];
        if (before && READ_CLOCK(before) == clock)
            marks[cell] = (before | bytes) & (strong | ~READ_STRONG);
        else
            marks[cell] = READ_MARK(clock, bytes) | strong;
    }
}

void
sim_shadow_write(SimWarp *warp, SimCta *cta, uint32_t offset, uint32_t size, uint32_t lane,
                 SimAccess access)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    Writer own = {event_of(warp), warp->insn->index + 1};
    bool strong = access == SIM_STRONG;
    Doing doing = access == SIM_REPEATED ? REPEATS : WRITES;
    Passed passed = {0, 0, false};
    bool known = knows_readers(warp, s, offset / 4, (offset + size - 1) / 4);
    warp->written_clock = warp->clock[warp->agent];
    EACH_CELL(s, offset, size, cell)
    {
        uint8_t bytes = byte_mask(cell, offset, size);
        check_writers(warp, s, cell, bytes, own.who, (int32_t)lane, doing, strong, false, &passed);
        if (!known)
            check_readers(warp, s, cell, bytes, cell * 4, (int32_t)lane, strong);
        if (!strong) {
            check_lane_write(warp, &s->cell[cell], cell, bytes, (uint8_t)lane, doing);
            check_lane_read(warp, &s->cell[cell], cell, bytes, (uint8_t)lane);
        }
        record_write(s, cell, bytes, own, strong);
        s->cell[cell].write_lane = (uint8_t)(lane + 1);
        s->cell[cell].write_epoch = warp->lane_epoch;
    }
}

void
sim_shadow_async_read(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t offset, uint32_t size,
                      bool async_proxy)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    uint32_t *ops = plane(s, s->read_op, warp->agent);
    Passed passed = {0, 0, false};
    EACH_CELL(s, offset, size, cell)
    {
        const Cell *c = &s->cell[cell];
        uint8_t bytes = byte_mask(cell, offset, size);
        if ((c->initialised & bytes) != bytes)
            sim_find(warp, SIM_FIND_UNINITIALISED, -1, cell * 4 + SIM_SHARED_BASE, NULL,
                     "an asynchronous op reads shared memory that nobody wrote");
        check_writers(warp, s, cell, bytes, 0, -1, READS, false, async_proxy, &passed);
        if (op->lane) /* what one lane issues is ordered after that lane's stores, no more */
            check_lane_write(warp, c, cell, bytes, (uint8_t)(op->lane - 1), READS);
        if (ops)
            ops[cell] = op->id + 1;
    }
}

void
sim_shadow_async_write(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t offset, uint32_t size,
                       bool async_proxy)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    Writer own = {WRITER_OP | op->id, op->insn->index + 1};
    Passed passed = {0, 0, false};
    bool known = knows_readers(warp, s, offset / 4, (offset + size - 1) / 4);
    EACH_CELL(s, offset, size, cell)
    {
        uint8_t bytes = byte_mask(cell, offset, size);
        check_writers(warp, s, cell, bytes, own.who, -1, WRITES, op->atomic, async_proxy, &passed);
        if (!known)
            check_readers(warp, s, cell, bytes, cell * 4, -1, op->atomic);
        if (op->lane) /* a copy of one lane is ordered after what that lane did, no more */
            check_lane_read(warp, &s->cell[cell], cell, bytes, (uint8_t)(op->lane - 1));
        record_write(s, cell, bytes, own, op->atomic);
        s->cell[cell].write_lane = op->lane;
    }
}

void
sim_shadow_set(SimCta *cta, uint32_t offset, uint32_t size, bool initialised)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    EACH_CELL(s, offset, size, cell)
    {
        Cell *c = &s->cell[cell];
        uint8_t bytes = byte_mask(cell, offset, size);
        c->initialised = (uint8_t)(initialised ? c->initialised | bytes : c->initialised & ~bytes);
        c->writer = (Writer){0, 0};
        c->written = c->split = c->write_lane = c->read_lane = 0;
        for (uint32_t a = 0; a < s->agents; a++) {
            if (s->read[a])
                s->read[a][cell] = 0;
            if (s->read_op[a])
                s->read_op[a][cell] = 0;
        }
    }
}
