/* sim_shadow.c - happens-before checks on shared memory (PTX ISA 8: memory consistency model). */
#include "sim_shadow_cell.h"

#include <stdlib.h>

#include "sim_async.h"
#include "sim_sync.h"

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

typedef enum Verdict {
    FINE,
    NOT_WAITED,
    OP_NOT_FENCED,
    NO_BARRIER,
    OTHER_LANE,
    NOT_FENCED
} Verdict;

/* Whether the warp knows that an op is done.  What it knows it knows from then on. */
static bool
knows_op(const SimWarp *warp, uint32_t id)
{
    uint32_t *known = &warp->known_ops[id % SIM_KNOWN_OPS];
    if (*known == id + 1)
        return true;
    if (!sim_op_known(warp, warp->cta->cluster->ops[id]))
        return false;
    *known = id + 1;
    return true;
}

/* And that the async proxy sees what the op wrote. */
static bool
proxy_knows_op(const SimWarp *warp, uint32_t id)
{
    uint32_t *known = &warp->known_ops[SIM_KNOWN_OPS + id % SIM_KNOWN_OPS];
    if (*known == id + 1)
        return true;
    const SimOp *op = warp->cta->cluster->ops[id];
    if (op->generic_proxy && !sim_op_known_to_proxy(warp, op))
        return false;
    *known = id + 1;
    return true;
}

/* An access against a write; write_lane of the cell, 0: any. */
static Verdict
judge(const SimWarp *warp, uint32_t who, uint32_t write_lane, Doing doing, bool async_proxy)
{
    if (who & WRITER_OP) {
        if (!knows_op(warp, who & ~WRITER_OP))
            return NOT_WAITED;
        return async_proxy && !proxy_knows_op(warp, who & ~WRITER_OP) ? OP_NOT_FENCED : FINE;
    }
    uint32_t agent = who >> SIM_CLOCK_BITS, clock = who & SIM_CLOCK_MAX;
    if (agent != warp->agent && clock > warp->clock[agent])
        return NO_BARRIER;
    if (agent != warp->agent && write_lane && doing != REPEATS &&
        !sim_sync_covers_lane(warp, agent, clock, write_lane - 1))
        return OTHER_LANE;
    return async_proxy && clock > warp->proxy_clock[agent] ? NOT_FENCED : FINE;
}

static void
check_writer(SimWarp *warp, const Writer *w, uint32_t write_lane, uint32_t offset, int32_t lane,
             Doing doing, bool async_proxy)
{
    uint64_t address = offset + SIM_SHARED_BASE;
    Verdict verdict = judge(warp, w->who, write_lane, doing, async_proxy);
    if (verdict == FINE)
        return;
    bool is_op = w->who & WRITER_OP;
    SimPlace place = place_of(warp, w->insn,
                              is_op ? warp->cta->cluster->ops[w->who & ~WRITER_OP]->agent
                                    : w->who >> SIM_CLOCK_BITS);
    switch (verdict) {
    case OP_NOT_FENCED:
        sim_note(warp, SIM_FIND_PROXY_FENCE, lane, address, &place,
                 "the async proxy accesses shared memory that an op of the generic proxy "
                 "wrote with no fence.proxy.async between");
        break;
    case NOT_WAITED:
        if (doing != READS)
            sim_find(warp, SIM_FIND_ASYNC_OVERWRITE, lane, address, &place,
                     "shared memory is written while an asynchronous op may still be filling it");
        else
            sim_find(warp, SIM_FIND_ASYNC_EARLY, lane, address, &place,
                     "shared memory is read before the asynchronous op that fills it was waited "
                     "for");
        break;
    case NO_BARRIER: report_race(warp, doing, lane, address, &place); break;
    case OTHER_LANE:
        sim_find(warp, SIM_FIND_RACE, lane, address, &place,
                 "%s of shared memory that lane %u of another warp wrote; another lane arrived for "
                 "it, with no bar.warp.sync between",
                 doing == READS ? "read" : "write", write_lane - 1);
        break;
    default:
        sim_find(warp, SIM_FIND_PROXY_FENCE, lane, address, &place,
                 "the async proxy accesses shared memory written through the generic proxy with "
                 "no fence.proxy.async between");
        break;
    }
}

/* The access to some bytes of a cell against their last writes; `own` is the party itself. */
static void
check_writers(SimWarp *warp, const SimShadow *s, uint32_t cell, uint8_t bytes, uint32_t own,
              int32_t lane, Doing doing, bool strong, bool async_proxy)
{
    const Cell *c = &s->cell[cell];
    uint8_t clash = bytes & c->written & (uint8_t) ~(strong ? c->strong : 0);
    if (!clash)
        return;
    if (doing == REPEATS && c->strong & clash)
        doing = WRITES;
    if (!(c->strong & SPLIT)) {
        if (c->writer.who != own)
            check_writer(warp, &c->writer, c->write_lane, cell * 4, lane, doing, async_proxy);
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
    bool split = c->strong & SPLIT, mixed = keep && (split || c->writer.who != own.who);
    s->line[cell / LINE] = UNKNOWN;
    if (mixed && !s->bytes)
        s->bytes = sim_calloc((size_t)s->cells * 4, sizeof *s->bytes);
    if (mixed && s->bytes)
        for (uint32_t i = 0; i < 4; i++) {
            if (bytes >> i & 1)
                s->bytes[4 * cell + i] = own;
            else if (!split)
                s->bytes[4 * cell + i] = c->written >> i & 1 ? c->writer : (Writer){0, 0};
        }
    c->writer = own;
    c->written = keep | bytes;
    c->initialised |= bytes;
    c->strong = (uint8_t)((c->strong & ~(bytes | SPLIT)) | (strong ? bytes : 0) |
                          (mixed && s->bytes ? SPLIT : 0));
}

/* Whether the warp knows of the ops that read these cells.  They are looked at in pairs: of a
 * tile's row one op reads many cells. */
static bool
knows_ops(const SimWarp *warp, const uint32_t *ops, uint32_t count)
{
    uint64_t last = 0;
    if (count > 4 && sim_shadow_same_ops(ops, count))
        return !ops[0] || knows_op(warp, ops[0] - 1);
    for (uint32_t i = 0; i < count; i += 2) {
        uint32_t pair[2] = {ops[i], i + 1 < count ? ops[i + 1] : 0};
        uint64_t both = pair[0] | (uint64_t)pair[1] << 32;
        if (both != last && both)
            for (uint32_t j = 0; j < 2; j++)
                if (pair[j] && !knows_op(warp, pair[j] - 1))
                    return false;
        last = both;
    }
    return true;
}

/* Whether the warp knows of all reads of the cells from `first` to `last`, whatever their bytes:
 * then a write races with none of them. */
static bool
knows_readers(const SimWarp *warp, const SimShadow *s, uint32_t first, uint32_t last)
{
    if (first >= s->cells)
        return true;
    uint32_t count = (last < s->cells ? last + 1 : s->cells) - first;
    for (uint32_t i = 0; i < s->reader_count; i++) {
        uint32_t a = s->readers[i];
        const uint32_t *marks = s->read[a], *ops = s->read_op[a];
        if (marks && a != warp->agent && s->newest[a] > warp->clock[a] &&
            sim_shadow_read_behind(marks + first, count, warp->clock[a]))
            return false;
        if (ops && !knows_ops(warp, ops + first, count))
            return false;
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
                SimPlace place = place_of(warp, s->last_read[cell].insn, a);
                sim_find(warp, SIM_FIND_RACE, lane, address, &place,
                         "write of shared memory that another warp reads, with no barrier "
                         "between");
            }
        }
        if (s->read_op[a] && s->read_op[a][cell]) {
            const SimOp *op = warp->cta->cluster->ops[s->read_op[a][cell] - 1];
            if (!knows_op(warp, op->id)) {
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

/* Whether a lane's access meets a write of another lane of the warp since the lanes were in
 * order. */
static bool
meets_lane_write(const SimWarp *warp, const Cell *c, uint8_t bytes, uint8_t lane)
{
    if (!(c->written & bytes) || c->strong & SPLIT || !c->write_lane || c->write_lane == lane + 1 ||
        c->writer.insn == warp->insn->index + 1 || (c->strong & bytes) == bytes)
        return false;
    if (!(c->writer.who & WRITER_OP))
        return c->writer.who >> SIM_CLOCK_BITS == warp->agent &&
               !sim_lanes_in_order(warp, lane, c->write_lane - 1u, c->write_epoch);
    const SimOp *op = warp->cta->cluster->ops[c->writer.who & ~WRITER_OP];
    return op->agent == warp->agent && knows_op(warp, op->id) &&
           !sim_lanes_in_order(warp, lane, c->write_lane - 1u, op->lane_epoch);
}

static void
check_lane_write(SimWarp *warp, const Cell *c, uint32_t cell, uint8_t bytes, uint8_t lane,
                 Doing doing)
{
    if (!meets_lane_write(warp, c, bytes, lane))
        return;
    if (c->writer.who & WRITER_OP) {
        report_lanes(warp, c->writer.insn, cell, lane,
                     "shared memory that another lane of the warp copied and waited for");
    } else if (doing == REPEATS) {
        SimPlace place = place_of(warp, c->writer.insn, warp->agent);
        sim_note(warp, SIM_FIND_RACE, lane, cell * 4 + SIM_SHARED_BASE, &place,
                 "write of the value that another lane of the warp wrote to the same shared "
                 "memory, with no bar.warp.sync between");
    } else {
        report_lanes(warp, c->writer.insn, cell, lane,
                     doing == WRITES ? "write of shared memory that another lane of the warp wrote"
                                     : "read of shared memory that another lane of the warp wrote");
    }
}

static bool
meets_lane_read(const SimWarp *warp, const LastRead *r, uint8_t lane)
{
    uint32_t by = READ_LANE(r->who);
    uint32_t reader = by - 1u < SIM_LANES ? by - 1u : lane; /* several: as of the last one */
    return by && by != lane + 1u && READ_AGENT(r->who) == warp->agent &&
           r->insn != warp->insn->index + 1 && !sim_lanes_in_order(warp, lane, reader, r->epoch);
}

static void
check_lane_read(SimWarp *warp, const LastRead *r, uint32_t cell, uint8_t bytes, uint8_t lane)
{
    if (bytes == 15 && meets_lane_read(warp, r, lane))
        report_lanes(warp, r->insn, cell, lane,
                     "write of shared memory that another lane of the warp reads");
}

/* Whose the last read is after one of this lane. */
static inline uint32_t
read_by(const LastRead *r, uint32_t epoch, uint32_t own)
{
    uint32_t differ = r->who ^ own;
    bool same = r->epoch == epoch && READ_LANE(r->who) && READ_AGENT(differ) == 0;
    return same && differ ? READ_WHO(READ_AGENT(own), SEVERAL_LANES) : own;
}

static void
record_lane_read(const SimWarp *warp, LastRead *r, uint32_t lane)
{
    r->who = read_by(r, warp->lane_epoch, READ_WHO(warp->agent, lane + 1));
    r->epoch = warp->lane_epoch;
}

/* ---- accesses, as runs of cells that are alike */

/* What an access is, for all its cells. */
typedef struct Access {
    uint32_t offset, size;
    uint32_t own;  /* the party itself */
    uint32_t lane; /* + 1 whose it is, 0: nobody's */
    Doing doing;
    bool strong, async_proxy, asynchronous;
} Access;

static uint32_t
event_of(const SimWarp *warp)
{
    return warp->agent << SIM_CLOCK_BITS | warp->clock[warp->agent];
}

static bool
is_uniform(const SimShadow *s, uint32_t line)
{
    if (s->line[line] == UNKNOWN)
        s->line[line] = s->cells >= (line + 1) * LINE &&
                                sim_shadow_same_writes(s->cell + line * LINE, LINE)
                            ? UNIFORM
                            : MIXED;
    return s->line[line] == UNIFORM;
}

/* Whether nothing is wrong with such an access to a cell, whichever lane wrote it and whichever has
 * the access. */
static bool
fine_for_lanes(const SimWarp *warp, const Cell *c, const Access *a)
{
    if (c->strong || (a->doing == READS && c->initialised != 15))
        return false;
    if (!c->written)
        return true;
    if (c->writer.who & WRITER_OP) {
        uint32_t id = c->writer.who & ~WRITER_OP;
        const SimOp *op = warp->cta->cluster->ops[id];
        return knows_op(warp, id) && (!a->async_proxy || proxy_knows_op(warp, id)) &&
               (!a->lane || op->agent != warp->agent || op->lane_epoch < warp->lane_whole);
    }
    uint32_t agent = c->writer.who >> SIM_CLOCK_BITS, clock = c->writer.who & SIM_CLOCK_MAX;
    if (a->async_proxy && clock > warp->proxy_clock[agent])
        return false;
    if (agent == warp->agent)
        return !a->lane || c->write_epoch < warp->lane_whole;
    return clock <= warp->clock[agent] && sim_sync_covers_lanes(warp, agent);
}

/* What is known to be fine, by a writer's last bits, since lanes read what several warps wrote: a
 * warp's writes up to some clock and period, or an op's. */
enum { KINDS = 8 };
typedef struct Fine {
    uint32_t who[KINDS], clocks[KINDS], epoch[KINDS], flags[KINDS];
} Fine;

static inline uint32_t
kind_of(uint32_t who)
{
    return (who >> SIM_CLOCK_BITS) % KINDS;
}

/* The same of a cell that is none of that.  What the same lane or instruction wrote is fine,
 * too. */
static bool
new_kind_fine(const SimWarp *warp, const Cell *c, const Access *a, Fine *fine)
{
    uint32_t who = c->writer.who, kind = kind_of(who), agent = who >> SIM_CLOCK_BITS;
    if (agent == warp->agent && c->write_lane == a->lane && a->lane && c->initialised == 15 &&
        !c->strong && !a->async_proxy)
        return true;
    if (!fine_for_lanes(warp, c, a))
        return a->doing != READS && !c->strong && c->writer.insn == warp->insn->index + 1 &&
               who == event_of(warp);
    bool of_warp = c->written && !(who & WRITER_OP) && !a->async_proxy;
    fine->who[kind] = of_warp ? agent << SIM_CLOCK_BITS : who;
    fine->clocks[kind] = !of_warp ? 0 : agent == warp->agent ? SIM_CLOCK_MAX : warp->clock[agent];
    fine->epoch[kind] = of_warp && agent == warp->agent && a->lane ? warp->lane_whole - 1
                                                                   : UINT32_MAX;
    fine->flags[kind] = flags_of(c);
    return true;
}

/* The same of `count` cells. */
static inline bool
cells_fine_for_lanes(const SimWarp *warp, const Cell *c, uint32_t count, const Access *a, Fine *fine)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t kind = kind_of(c[i].writer.who);
        bool other = c[i].writer.who - fine->who[kind] > fine->clocks[kind];
        other |= flags_of(c + i) != fine->flags[kind];
        other |= c[i].write_epoch > fine->epoch[kind];
        if (other && !new_kind_fine(warp, c + i, a, fine))
            return false;
    }
    return true;
}

/* How many cells an access takes whole, or 1 of which it takes a part; 0: others, or there are
 * fewer. */
static inline uint32_t
cells_of(const SimShadow *s, uint32_t offset, uint32_t size)
{
    uint32_t count = size < 4 ? 1 : size / 4;
    bool fits = size < 4 ? offset % 4 + size <= 4 : (offset | size) % 4 == 0;
    return fits && offset / 4 + count <= s->cells ? count : 0;
}

/* How many cells from this one on, below `end`, the access takes whole, and are alike with nothing
 * wrong in them.  0: the first one needs a closer look. */
static uint32_t
run_of(const SimWarp *warp, const SimShadow *s, const Access *a, uint32_t cell, uint32_t end)
{
    const Cell *c = &s->cell[cell];
    uint8_t clash = c->written & (uint8_t) ~(a->strong ? c->strong : 0);
    uint32_t count = 1;
    if (c->strong & SPLIT || (a->doing == READS && c->initialised != 15) || cell * 4 < a->offset ||
        cell * 4 + 4 > a->offset + a->size)
        return 0;
    end = end < (a->offset + a->size) / 4 ? end : (a->offset + a->size) / 4;
    if (fine_for_lanes(warp, c, a)) {
        uint32_t line_end = (cell / LINE + 1) * LINE;
        if (end - cell > 1 && is_uniform(s, cell / LINE))
            return (end < line_end ? end : line_end) - cell;
        while (cell + count < end && alike_by_write(c, c + count))
            count++;
        return count;
    }
    Doing doing = a->doing == REPEATS && c->strong & clash ? WRITES : a->doing;
    if (clash && c->writer.who != a->own &&
        judge(warp, c->writer.who, c->write_lane, doing, a->async_proxy) != FINE)
        return 0;
    if (a->lane && !a->strong && meets_lane_write(warp, c, 15, (uint8_t)(a->lane - 1)))
        return 0;
    while (cell + count < end && alike(c, c + count))
        count++;
    return count;
}

#define EACH_CELL(shadow, offset, size, cell)                                                      \
    for (uint32_t cell = (offset) / 4, last_ = ((offset) + (size)-1) / 4;                          \
         cell <= last_ && cell < (shadow)->cells; cell++)

static uint32_t
end_of(const SimShadow *s, uint32_t offset, uint32_t size) /* behind the last cell */
{
    uint32_t end = (offset + size - 1) / 4 + 1;
    return end < s->cells ? end : s->cells;
}

static void
check_read(SimWarp *warp, const SimShadow *s, const Access *a, uint32_t cell)
{
    const Cell *c = &s->cell[cell];
    uint8_t bytes = byte_mask(cell, a->offset, a->size);
    int32_t lane = a->asynchronous ? -1 : (int32_t)a->lane - 1;
    if ((c->initialised & bytes) != bytes)
        sim_find(warp, SIM_FIND_UNINITIALISED, lane, cell * 4 + SIM_SHARED_BASE, NULL, "%s",
                 a->asynchronous ? "an asynchronous op reads shared memory that nobody wrote"
                                 : "read of shared memory that nobody wrote");
    check_writers(warp, s, cell, bytes, a->own, lane, READS, a->strong, a->async_proxy);
    if (a->lane && !a->strong)
        check_lane_write(warp, c, cell, bytes, (uint8_t)(a->lane - 1), READS);
}

static void
read_cells(SimWarp *warp, SimShadow *s, uint32_t *marks, const Access *a)
{
    uint32_t clock = warp->clock[warp->agent], insn = warp->insn->index + 1;
    uint32_t strong = a->strong ? READ_STRONG : 0;
    uint32_t end = end_of(s, a->offset, a->size), fine = 0;
    s->newest[warp->agent] = clock;
    for (uint32_t cell = a->offset / 4; cell < end; cell++) {
        if (!fine && !(fine = run_of(warp, s, a, cell, end)))
            check_read(warp, s, a, cell);
        else
            fine--;
        if (!strong)
            record_lane_read(warp, &s->last_read[cell], a->lane - 1);
        if (!marks)
            continue;
        s->last_read[cell].insn = insn;
        uint8_t bytes = byte_mask(cell, a->offset, a->size);
        uint32_t before = marks[cell];
        if (before && READ_CLOCK(before) == clock)
            marks[cell] = (before | bytes) & (strong | ~READ_STRONG);
        else
            marks[cell] = READ_MARK(clock, bytes) | strong;
    }
}

void
sim_shadow_read(SimWarp *warp, SimCta *cta, uint32_t offset, uint32_t size, uint32_t lane,
                SimAccess access)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    Access a = {offset, size, event_of(warp), lane + 1, READS, access == SIM_STRONG, false, false};
    read_cells(warp, s, plane(s, s->read, warp->agent), &a);
}

/* Weak reads of all lanes of a mask, of `count` whole cells each, or of parts of one. */
static inline void
read_lanes(SimWarp *warp, SimShadow *s, uint32_t *marks, const uint32_t *offset, uint32_t mask,
           const uint32_t count, Access a)
{
    uint32_t clock = warp->clock[warp->agent], insn = warp->insn->index + 1, cells = s->cells;
    uint32_t epoch = warp->lane_epoch, who = READ_WHO(warp->agent, 1);
    Fine fine;
    memset(&fine, 255, sizeof fine); /* no cell has such flags */
    sim_each_lane (l, mask) {
        uint32_t first = offset[l] / 4;
        uint32_t looked_at = count; /* one stands for its line, if not for being the lane's own */
        if (count > 2 && first < cells && s->cell[first].write_lane != l + 1 &&
            is_uniform(s, first / LINE))
            looked_at = 1;
        a.lane = l + 1;
        if (first + count > cells ||
            !cells_fine_for_lanes(warp, s->cell + first, looked_at, &a, &fine)) {
            a.offset = offset[l];
            read_cells(warp, s, marks, &a);
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            LastRead *r = &s->last_read[first + i];
            *r = (LastRead){insn, epoch, read_by(r, epoch, who + l)};
        }
        uint32_t bytes = a.size < 4 ? ((1u << a.size) - 1) << offset[l] % 4 : 15;
        if (bytes != 15 && marks[first] && READ_CLOCK(marks[first]) == clock)
            marks[first] = (marks[first] | bytes) & ~READ_STRONG;
        else
            for (uint32_t i = 0; i < count; i++)
                marks[first + i] = READ_MARK(clock, bytes);
    }
}

void
sim_shadow_read_lanes(SimWarp *warp, SimCta *cta, const uint32_t *offset, uint32_t size,
                      uint32_t mask)
{
    SimShadow *s = cta->shadow;
    if (!s)
        return;
    uint32_t *marks = plane(s, s->read, warp->agent);
    s->newest[warp->agent] = warp->clock[warp->agent];
    Access a = {0, size, event_of(warp), 0, READS, false, false, false};
    if (marks && size <= 4)
        read_lanes(warp, s, marks, offset, mask, 1, a);
    else if (marks && size == 8)
        read_lanes(warp, s, marks, offset, mask, 2, a);
    else if (marks && size == 16)
        read_lanes(warp, s, marks, offset, mask, 4, a);
    else
        sim_each_lane (l, mask) {
            a.offset = offset[l];
            a.lane = l + 1;
            read_cells(warp, s, marks, &a);
        }
}

static void
write_cells(SimWarp *warp, SimShadow *s, const Access *a, bool known)
{
    Writer own = {a->own, warp->insn->index + 1};
    uint32_t end = end_of(s, a->offset, a->size), fine = 0;
    int32_t lane = (int32_t)a->lane - 1;
    for (uint32_t cell = a->offset / 4; cell < end; cell++) {
        Cell *c = &s->cell[cell];
        uint8_t bytes = byte_mask(cell, a->offset, a->size);
        if (known && !fine)
            fine = run_of(warp, s, a, cell, end);
        if (!fine)
            check_writers(warp, s, cell, bytes, own.who, lane, a->doing, a->strong, false);
        if (!known)
            check_readers(warp, s, cell, bytes, cell * 4, lane, a->strong);
        if (!fine && !a->strong)
            check_lane_write(warp, c, cell, bytes, (uint8_t)lane, a->doing);
        if (!a->strong)
            check_lane_read(warp, &s->last_read[cell], cell, bytes, (uint8_t)lane);
        record_write(s, cell, bytes, own, a->strong);
        c->write_lane = (uint8_t)a->lane;
        c->write_epoch = warp->lane_epoch;
        fine -= fine != 0;
    }
}

void
sim_shadow_write(SimWarp *warp, SimCta *cta, uint32_t offset, uint32_t size, uint32_t lane,
                 SimAccess access)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    Doing doing = access == SIM_REPEATED ? REPEATS : WRITES;
    Access a = {offset, size, event_of(warp), lane + 1, doing, access == SIM_STRONG, false, false};
    warp->written_clock = warp->clock[warp->agent];
    write_cells(warp, s, &a, knows_readers(warp, s, offset / 4, (offset + size - 1) / 4));
}

/* Whether no other lane of the warp has read the cells since all of them were in order. */
static inline bool
no_lane_reads(const SimWarp *warp, const LastRead *r, uint32_t count, uint32_t lane)
{
    for (uint32_t i = 0; i < count; i++)
        if (READ_AGENT(r[i].who) == warp->agent && r[i].epoch >= warp->lane_whole &&
            READ_LANE(r[i].who) && READ_LANE(r[i].who) != lane + 1)
            return false;
    return true;
}

/* Whether the warp knows of all reads there have been of any cell. */
static bool
knows_all_readers(const SimWarp *warp, const SimShadow *s)
{
    for (uint32_t i = 0; i < s->reader_count; i++) {
        uint32_t a = s->readers[i];
        if (s->read_op[a] || (a != warp->agent && s->newest[a] > warp->clock[a]))
            return false;
    }
    return true;
}

/* The same of the cells between those that the lanes write, where they are near one another. */
static bool
knows_readers_of_lanes(const SimWarp *warp, const SimShadow *s, const uint32_t *offset,
                       uint32_t size, uint32_t mask)
{
    enum { NEAR = 2048 }; /* bytes */
    uint32_t low = UINT32_MAX, high = 0;
    sim_each_lane (l, mask) {
        low = offset[l] < low ? offset[l] : low;
        high = offset[l] > high ? offset[l] : high;
    }
    return high - low < NEAR && knows_readers(warp, s, low / 4, (high + size - 1) / 4);
}

/* Weak writes of all lanes of a mask, of `count` whole cells each, or of parts of one. */
static inline void
write_lanes(SimWarp *warp, SimShadow *s, const uint32_t *offset, uint32_t mask, uint32_t repeated,
            const uint32_t count, Access a)
{
    Cell whole = {{a.own, warp->insn->index + 1}, warp->lane_epoch, 15, 15, 0, 0};
    bool all_known = knows_all_readers(warp, s) ||
                     knows_readers_of_lanes(warp, s, offset, a.size, mask);
    bool row_known = false;
    /* behind the lanes that write side by side: it is asked once for all of them */
    uint32_t row = 0;
    uint32_t cells = s->cells, size = a.size;
    Fine fine;
    memset(&fine, 255, sizeof fine); /* no cell has such flags */
    sim_each_lane (l, mask) {
        if (!all_known && l >= row) {
            row = sim_lanes_side_by_side(offset, size, mask, l) + 1;
            row_known = knows_readers(warp, s, offset[l] / 4, (offset[row - 1] + size - 1) / 4);
        }
        bool known = all_known || row_known ||
                     knows_readers(warp, s, offset[l] / 4, (offset[l] + size - 1) / 4);
        uint32_t first = offset[l] / 4;
        whole.write_lane = (uint8_t)(l + 1);
        a.lane = l + 1;
        if (!known || first + count > cells ||
            !cells_fine_for_lanes(warp, s->cell + first, count, &a, &fine) ||
            (size >= 4 && !no_lane_reads(warp, s->last_read + first, count, l))) {
            a.offset = offset[l];
            a.doing = repeated >> l & 1 ? REPEATS : WRITES;
            write_cells(warp, s, &a, known);
            continue;
        }
        if (size < 4) {
            record_write(s, first, byte_mask(first, offset[l], size), whole.writer, false);
            s->cell[first].write_lane = whole.write_lane;
            s->cell[first].write_epoch = whole.write_epoch;
            continue;
        }
        for (uint32_t i = 0; i < count; i++)
            s->cell[first + i] = whole;
        s->line[first / LINE] = UNKNOWN; /* they are aligned: in one line */
    }
}

void
sim_shadow_write_lanes(SimWarp *warp, SimCta *cta, const uint32_t *offset, uint32_t size,
                       uint32_t mask, uint32_t repeated)
{
    SimShadow *s = cta->shadow;
    if (!s)
        return;
    Access a = {0, size, event_of(warp), 0, WRITES, false, false, false};
    warp->written_clock = warp->clock[warp->agent];
    if (size <= 4)
        write_lanes(warp, s, offset, mask, repeated, 1, a);
    else
        write_lanes(warp, s, offset, mask, repeated, size / 4, a);
}

void
sim_shadow_async_read(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t offset, uint32_t size,
                      bool async_proxy)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    uint32_t *ops = plane(s, s->read_op, warp->agent);
    /* what one lane issues is ordered after that lane's stores, no more */
    Access a = {offset, size, 0, op->lane, READS, false, async_proxy, true};
    uint32_t end = end_of(s, offset, size);
    for (uint32_t cell = offset / 4; cell < end;) {
        uint32_t fine = run_of(warp, s, &a, cell, end), next = cell + (fine ? fine : 1);
        if (!fine)
            check_read(warp, s, &a, cell);
        for (; cell < next; cell++)
            if (ops)
                ops[cell] = op->id + 1;
    }
}

bool
sim_shadow_async_read_quietly(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t offset, uint32_t size,
                              bool async_proxy)
{
    SimShadow *s = cta->shadow;
    uint32_t *ops = s->read_op[warp->agent], cell = offset / 4, count = size / 4;
    Access a = {offset, size, 0, op->lane, READS, false, async_proxy, true};
    if (!ops || cell + count > s->cells)
        return false;
    for (uint32_t done = 0, run; done < count; done += run)
        if (!(run = run_of(warp, s, &a, cell + done, cell + count)))
            return false;
    for (uint32_t i = 0; i < count; i++)
        ops[cell + i] = op->id + 1;
    return true;
}

/* `known`: the warp knows of all reads of these cells. */
static inline void
async_write_cells(SimWarp *warp, const SimOp *op, SimShadow *s, uint32_t offset, uint32_t size,
                  bool async_proxy, bool known)
{
    Writer own = {WRITER_OP | op->id, op->insn->index + 1};
    Access a = {offset, size, own.who, 0, WRITES, op->atomic, async_proxy, true};
    Cell whole = {own, 0, 15, 15, op->atomic ? 15 : 0, op->lane};
    uint32_t end = end_of(s, offset, size), fine = 0;
    for (uint32_t cell = offset / 4; cell < end; cell++) {
        uint8_t bytes = byte_mask(cell, offset, size);
        if (known && !fine)
            fine = run_of(warp, s, &a, cell, end);
        if (!fine)
            check_writers(warp, s, cell, bytes, own.who, -1, WRITES, op->atomic, async_proxy);
        if (!known)
            check_readers(warp, s, cell, bytes, cell * 4, -1, op->atomic);
        if (op->lane) /* a copy of one lane is ordered after what that lane did, no more */
            check_lane_read(warp, &s->last_read[cell], cell, bytes, (uint8_t)(op->lane - 1));
        s->line[cell / LINE] = UNKNOWN;
        if (fine)
            s->cell[cell] = whole;
        else
            record_write(s, cell, bytes, own, op->atomic);
        s->cell[cell].write_lane = op->lane;
        s->cell[cell].write_epoch = 0; /* the op has one; so neighbours are alike */
        fine -= fine != 0;
    }
}

void
sim_shadow_async_write(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t offset, uint32_t size,
                       bool async_proxy)
{
    SimShadow *s = cta->shadow;
    if (!s || !size)
        return;
    bool known = knows_readers(warp, s, offset / 4, (offset + size - 1) / 4);
    async_write_cells(warp, op, s, offset, size, async_proxy, known);
}

void
sim_shadow_async_write_lanes(SimWarp *warp, SimOp *op, SimCta *cta, const uint32_t *offset,
                             uint32_t size, uint32_t mask)
{
    enum {
        NEAR = 4 * LINE
    }; /* lanes whose bytes lie in one such part are asked about together, whatever their order */
    SimShadow *s = cta->shadow;
    if (!s)
        return;
    Access a = {0, size, WRITER_OP | op->id, 0, WRITES, false, false, true};
    Fine fine;
    memset(&fine, 255, sizeof fine); /* no cell has such flags */
    Cell whole = {{a.own, op->insn->index + 1}, 0, 15, 15, 0, 0};
    for (uint32_t l = 0, end; l < SIM_LANES; l = end) {
        end = l + 1;
        if (!(mask >> l & 1))
            continue;
        uint32_t low = offset[l], high = offset[l];
        for (; end < SIM_LANES && mask >> end & 1 && offset[end] / NEAR == low / NEAR; end++) {
            low = offset[end] < low ? offset[end] : low;
            high = offset[end] > high ? offset[end] : high;
        }
        bool known = knows_readers(warp, s, low / 4, (high + size - 1) / 4);
        for (uint32_t i = l; i < end; i++) {
            uint32_t first = offset[i] / 4, count = cells_of(s, offset[i], size);
            op->lane = whole.write_lane = (uint8_t)(i + 1);
            if (known && count && cells_fine_for_lanes(warp, s->cell + first, count, &a, &fine) &&
                no_lane_reads(warp, s->last_read + first, count, i)) {
                for (uint32_t j = 0; j < count; j++)
                    s->cell[first + j] = whole;
                s->line[first / LINE] = UNKNOWN;
                continue;
            }
            async_write_cells(
                warp, op, s, offset[i], size, false,
                known || knows_readers(warp, s, offset[i] / 4, (offset[i] + size - 1) / 4));
        }
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
        s->line[cell / LINE] = UNKNOWN;
        c->initialised = (uint8_t)(initialised ? c->initialised | bytes : c->initialised & ~bytes);
        c->writer = (Writer){0, 0};
        c->written = c->write_lane = 0;
        s->last_read[cell].who = 0;
        c->strong &= (uint8_t)~SPLIT;
        for (uint32_t a = 0; a < s->agents; a++) {
            if (s->read[a])
                s->read[a][cell] = 0;
            if (s->read_op[a])
                s->read_op[a][cell] = 0;
        }
    }
}
