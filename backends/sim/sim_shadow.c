/* sim_shadow.c - happens-before checks on shared memory (PTX ISA 8: memory consistency model). */
#include "sim_shadow.h"

#include <stdlib.h>

#include "sim_async.h"

/* A cell's last writer: an op (top bit set), or a warp with its clock at that time. */
enum { CLOCK_BITS = 22 };
#define CLOCK_MAX ((UINT32_C(1) << CLOCK_BITS) - 1)
#define WRITER_OP UINT32_C(0x80000000)

/* A read mark holds the clock and which bytes of the cell were read. */
#define READ_MARK(clock, bytes) ((clock) << 4 | (bytes))

typedef struct Cell {
    uint32_t writer, writer_insn, reader_insn;
    uint8_t initialised; /* bytes, a bit each */
    uint8_t written;     /* bytes of the last write */
    uint8_t strong;      /* the last write was a strong one */
} Cell;

struct SimShadow {
    uint32_t cells, agents;
    Cell *cell;
    uint32_t **read;    /* by agent, then cell: READ_MARK; NULL until first used */
    uint32_t **read_op; /* by agent: the op that reads the cell asynchronously, id + 1 */
};

SimShadow *
sim_shadow_new(uint32_t bytes, uint32_t agents)
{
    SimShadow *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->cells = (bytes + 3) / 4;
    s->agents = agents;
    s->cell = calloc(s->cells ? s->cells : 1, sizeof *s->cell);
    s->read = calloc(agents, sizeof *s->read);
    s->read_op = calloc(agents, sizeof *s->read_op);
    if (!s->cell || !s->read || !s->read_op) {
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
    free(s->read);
    free(s->read_op);
    free(s);
}

static uint32_t *
plane(SimShadow *s, uint32_t **planes, uint32_t agent)
{
    if (!planes[agent])
        planes[agent] = calloc(s->cells ? s->cells : 1, sizeof **planes);
    return planes[agent]; /* NULL only without memory: then reads go unrecorded */
}

static uint8_t
byte_mask(uint32_t cell, uint32_t offset, uint32_t size)
{
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

/* The access against the cell's last write. */
static void
check_writer(SimWarp *warp, SimCta *cta, const Cell *c, uint32_t offset, int32_t lane,
             bool is_write, bool async_proxy)
{
    SimCluster *cluster = warp->cta->cluster;
    uint64_t address = offset + SIM_SHARED_BASE;
    if (c->writer & WRITER_OP) {
        const SimOp *op = cluster->ops[c->writer & ~WRITER_OP];
        if (sim_op_known(warp, op))
            return;
        SimPlace place = place_of(warp, c->writer_insn, op->agent);
        if (is_write)
            sim_find(warp, SIM_FIND_ASYNC_OVERWRITE, lane, address, &place,
                     "shared memory is written while an asynchronous op may still be filling it");
        else
            sim_find(warp, SIM_FIND_ASYNC_EARLY, lane, address, &place,
                     "shared memory is read before the asynchronous op that fills it was waited "
                     "for");
        return;
    }
    uint32_t agent = c->writer >> CLOCK_BITS, clock = c->writer & CLOCK_MAX;
    if (clock > warp->clock[agent] && agent != warp->agent) {
        SimPlace place = place_of(warp, c->writer_insn, agent);
        sim_find(warp, SIM_FIND_RACE, lane, address, &place,
                 "%s of shared memory that another warp wrote, with no barrier between",
                 is_write ? "write" : "read");
    } else if (async_proxy && clock > warp->proxy_clock[agent]) {
        SimPlace place = place_of(warp, c->writer_insn, agent);
        sim_find(warp, SIM_FIND_PROXY_FENCE, lane, address, &place,
                 "the async proxy accesses shared memory written through the generic proxy with "
                 "no fence.proxy.async between");
    }
    (void)cta;
}

/* A write against the reads since. */
static void
check_readers(SimWarp *warp, SimShadow *s, uint32_t cell, uint8_t bytes, uint32_t offset,
              int32_t lane)
{
    uint64_t address = offset + SIM_SHARED_BASE;
    for (uint32_t a = 0; a < s->agents; a++) {
        if (s->read[a] && a != warp->agent) {
            uint32_t mark = s->read[a][cell];
            if (mark & bytes && mark >> 4 > warp->clock[a]) {
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

#define EACH_CELL(shadow, offset, size, cell)                                                      \
    for (uint32_t cell = (offset) / 4, last_ = ((offset) + (size)-1) / 4;                          \
         cell <= last_ && cell < (shadow)->cells; cell++)

static uint32_t
event_of(const SimWarp *warp)
{
    return warp->agent << CLOCK_BITS | warp->clock[warp->agent];
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
    EACH_CELL (s, offset, size, cell) {
        Cell *c = &s->cell[cell];
        uint8_t bytes = byte_mask(cell, offset, size);
        if ((c->initialised & bytes) != bytes)
            sim_find(warp, SIM_FIND_UNINITIALISED, (int32_t)lane, cell * 4 + SIM_SHARED_BASE, NULL,
                     "read of shared memory that nobody wrote");
        if (c->writer && c->writer != own && c->written & bytes &&
            !(access == SIM_STRONG && c->strong))
            check_writer(warp, cta, c, cell * 4, (int32_t)lane, false, false);
        if (access == SIM_STRONG || !marks)
            continue;
        c->reader_insn = warp->insn->index + 1;
        uint32_t before = marks[cell];
        marks[cell] = READ_MARK(clock, bytes) | (before >> 4 == clock ? before & 15 : 0);
    }
}

void
sim_shadow_write(SimWarp *warp, SimCta *cta, uint32_t offset, uint32_t size, uint32_t lane,
                 SimAccess access)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    uint32_t own = event_of(warp);
    EACH_CELL (s, offset, size, cell) {
        Cell *c = &s->cell[cell];
        uint8_t bytes = byte_mask(cell, offset, size);
        if (c->writer && c->writer != own && c->written & bytes &&
            !(access == SIM_STRONG && c->strong))
            check_writer(warp, cta, c, cell * 4, (int32_t)lane, true, false);
        check_readers(warp, s, cell, bytes, cell * 4, (int32_t)lane);
        c->written = (uint8_t)(c->writer == own ? c->written | bytes : bytes);
        c->writer = own;
        c->writer_insn = warp->insn->index + 1;
        c->initialised |= bytes;
        c->strong = access == SIM_STRONG;
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
    EACH_CELL (s, offset, size, cell) {
        Cell *c = &s->cell[cell];
        uint8_t bytes = byte_mask(cell, offset, size);
        if ((c->initialised & bytes) != bytes)
            sim_find(warp, SIM_FIND_UNINITIALISED, -1, cell * 4 + SIM_SHARED_BASE, NULL,
                     "an asynchronous op reads shared memory that nobody wrote");
        if (c->writer && c->written & bytes)
            check_writer(warp, cta, c, cell * 4, -1, false, async_proxy);
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
    uint32_t own = WRITER_OP | op->id;
    EACH_CELL (s, offset, size, cell) {
        Cell *c = &s->cell[cell];
        uint8_t bytes = byte_mask(cell, offset, size);
        if (c->writer && c->writer != own && c->written & bytes)
            check_writer(warp, cta, c, cell * 4, -1, true, async_proxy);
        check_readers(warp, s, cell, bytes, cell * 4, -1);
        c->written = (uint8_t)(c->writer == own ? c->written | bytes : bytes);
        c->writer = own;
        c->writer_insn = op->insn->index + 1;
        c->initialised |= bytes;
        c->strong = 0;
    }
}

void
sim_shadow_set(SimCta *cta, uint32_t offset, uint32_t size, bool initialised)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    EACH_CELL (s, offset, size, cell) {
        Cell *c = &s->cell[cell];
        uint8_t bytes = byte_mask(cell, offset, size);
        c->initialised = (uint8_t)(initialised ? c->initialised | bytes : c->initialised & ~bytes);
        c->writer = 0;
        c->written = 0;
        for (uint32_t a = 0; a < s->agents; a++) {
            if (s->read[a])
                s->read[a][cell] = 0;
            if (s->read_op[a])
                s->read_op[a][cell] = 0;
        }
    }
}

/* ------------------------------------------------------------------------ clocks */

static void
join(uint32_t *into, const uint32_t *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        into[i] = into[i] > from[i] ? into[i] : from[i];
}

static void
tick(SimWarp *warp)
{
    if (warp->clock[warp->agent] < CLOCK_MAX)
        warp->clock[warp->agent]++;
}

void
sim_clock_release(SimWarp *warp, uint32_t *clock, uint32_t *proxy)
{
    if (!warp->clock || !clock)
        return;
    uint32_t agents = warp->cta->cluster->agents;
    join(clock, warp->clock, agents);
    join(proxy, warp->proxy_clock, agents);
    tick(warp);
}

void
sim_clock_acquire(SimWarp *warp, const uint32_t *clock, const uint32_t *proxy)
{
    if (!warp->clock || !clock)
        return;
    uint32_t agents = warp->cta->cluster->agents;
    join(warp->clock, clock, agents);
    join(warp->proxy_clock, proxy, agents);
}

void
sim_clock_proxy_fence(SimWarp *warp)
{
    if (!warp->clock)
        return;
    memcpy(warp->proxy_clock, warp->clock,
           warp->cta->cluster->agents * sizeof *warp->proxy_clock);
    tick(warp);
}

/* Sync objects by address: an open hash table of the cluster. */
typedef struct SyncPoint {
    uint64_t address;
    uint32_t *clock; /* agents of it, then the proxy clock */
} SyncPoint;

struct SimSyncTable {
    SyncPoint *point;
    size_t count, capacity;
};

static SyncPoint *
find_point(const SimSyncTable *table, uint64_t address)
{
    size_t at = (size_t)((address >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 20) % table->capacity;
    while (table->point[at].clock && table->point[at].address != address)
        at = (at + 1) % table->capacity;
    return &table->point[at];
}

static bool
grow_table(SimSyncTable *table)
{
    SimSyncTable bigger = {.capacity = table->capacity ? 2 * table->capacity : 64};
    bigger.point = calloc(bigger.capacity, sizeof *bigger.point);
    if (!bigger.point)
        return false;
    for (size_t i = 0; i < table->capacity; i++)
        if (table->point[i].clock)
            *find_point(&bigger, table->point[i].address) = table->point[i];
    bigger.count = table->count;
    free(table->point);
    *table = bigger;
    return true;
}

void
sim_sync_table_free(SimSyncTable *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->capacity; i++)
        free(table->point[i].clock);
    free(table->point);
    free(table);
}

void
sim_clock_release_at(SimWarp *warp, uint64_t address)
{
    SimCluster *cluster = warp->cta->cluster;
    if (!warp->clock)
        return;
    if (!cluster->sync)
        cluster->sync = calloc(1, sizeof *cluster->sync);
    SimSyncTable *table = cluster->sync;
    if (!table || (2 * table->count >= table->capacity && !grow_table(table)))
        return;
    SyncPoint *point = find_point(table, address);
    if (!point->clock) {
        point->clock = calloc(2 * (size_t)cluster->agents, sizeof *point->clock);
        if (!point->clock)
            return;
        point->address = address;
        table->count++;
    }
    sim_clock_release(warp, point->clock, point->clock + cluster->agents);
}

void
sim_clock_acquire_at(SimWarp *warp, uint64_t address)
{
    SimCluster *cluster = warp->cta->cluster;
    if (!warp->clock || !cluster->sync || !cluster->sync->capacity)
        return;
    const SyncPoint *point = find_point(cluster->sync, address);
    if (point->clock)
        sim_clock_acquire(warp, point->clock, point->clock + cluster->agents);
}
