/* sim_global.c - happens-before checks on global memory, between all warps of a launch.
 *
 * As in sim_shadow.c every 4-byte cell remembers its last writer, byte by byte where several warps
 * share a cell, but of the readers only two: the last ones that are not ordered before each other.
 * A write that races with an older reader can be missed under one seed.  In a page that was only
 * ever accessed by whole groups of 16 bytes a group has one cell, with four readers.  Clusters run
 * on several host threads, so a cell is looked at under a lock.
 */
#include <stdlib.h>

#include "sim_async.h"
#include "sim_shadow.h"
#include "sim_sync.h"

enum { PAGE_CELLS = 256, PAGE_BYTES = 4 * PAGE_CELLS, LOCKS = 256 };
enum { GROUP_CELLS = 4, GROUP_BYTES = 4 * GROUP_CELLS, PAGE_GROUPS = PAGE_CELLS / GROUP_CELLS };
enum { READERS = 2, GROUP_READERS = 4 };
#define EVENT_OP UINT32_C(0x80000000) /* above the index of a SimGlobalOp */

typedef struct Party {
    uint32_t cluster; /* + 1; 0: nobody */
    uint32_t event;   /* agent and clock, or an op */
    uint32_t insn;
} Party;

typedef struct Cell {
    Party writer;
    uint8_t written, strong; /* bytes, a bit each */
    uint8_t split : 1;       /* the writers are told apart in the page's `bytes` */
    uint8_t newest : 2;      /* the reader that came last */
    uint8_t read_strong : 4; /* of the readers, a bit each */
    uint8_t read[GROUP_READERS];
    Party reader[READERS];
} Cell;

typedef struct Group {
    Cell cell;
    Party more[GROUP_READERS - READERS]; /* behind those of the cell */
} Group;

struct SimGlobalPage {
    Group *group; /* NULL: cells are told apart */
    Cell *cell;
    Party *bytes; /* 4 a cell */
};

struct SimGlobalOp {
    uint32_t index;
    uint32_t cluster, agent;
    _Atomic uint32_t *seen; /* by agent of the cluster; see SimOp */
};

struct SimGlobalShadow {
    pthread_mutex_t lock[LOCKS];
    pthread_mutex_t op_lock;
    struct SimGlobalOp **op;
    size_t op_count, op_capacity;
};

/* ------------------------------------------------------------------------ life */

bool
sim_global_start(SimRun *run)
{
    SimDevice *dev = run->device;
    SimGlobalShadow *s = run->global_shadow = sim_calloc(1, sizeof *s);
    if (!s)
        return false;
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&s->lock[i], NULL);
    pthread_mutex_init(&s->op_lock, NULL);
    for (size_t i = 0; i < dev->count; i++) {
        SimAllocation *a = dev->allocations[i];
        if (!a->read_only &&
            !(a->shadow = sim_calloc(a->size / PAGE_BYTES + 1, sizeof(struct SimGlobalPage *))))
            return false;
    }
    return true;
}

void
sim_global_end(SimRun *run)
{
    SimDevice *dev = run->device;
    SimGlobalShadow *s = run->global_shadow;
    for (size_t i = 0; i < dev->count; i++) {
        SimAllocation *a = dev->allocations[i];
        for (size_t p = 0; a->shadow && p <= a->size / PAGE_BYTES; p++)
            if (a->shadow[p]) {
                free(a->shadow[p]->group);
                free(a->shadow[p]->cell);
                free(a->shadow[p]->bytes);
                free(a->shadow[p]);
            }
        free(a->shadow);
        a->shadow = NULL;
    }
    if (!s)
        return;
    for (size_t i = 0; i < s->op_count; i++) {
        free((void *)s->op[i]->seen);
        free(s->op[i]);
    }
    free(s->op);
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&s->lock[i]);
    pthread_mutex_destroy(&s->op_lock);
    free(s);
}

/* ------------------------------------------------------------------------ checks */

static Party
party_of(const SimWarp *warp)
{
    return (Party){(uint32_t)warp->cta->cluster->linear + 1,
                   warp->agent << SIM_CLOCK_BITS | warp->clock[warp->agent], warp->insn->index + 1};
}

static bool
same_party(const Party *a, const Party *b)
{
    return a->cluster == b->cluster && a->event == b->event;
}

static struct SimGlobalOp *
op_of(const SimWarp *warp, uint32_t event)
{
    SimGlobalShadow *s = warp->run->global_shadow;
    pthread_mutex_lock(&s->op_lock);
    struct SimGlobalOp *op = s->op[event & ~EVENT_OP];
    pthread_mutex_unlock(&s->op_lock);
    return op;
}

static bool
known_to(const SimWarp *warp, const Party *p)
{
    if (!(p->event & EVENT_OP))
        return sim_sync_knows(warp, p->cluster - 1, p->event >> SIM_CLOCK_BITS,
                              p->event & SIM_CLOCK_MAX);
    const struct SimGlobalOp *op = op_of(warp, p->event);
    for (uint32_t a = 0; a < warp->cta->cluster->agents; a++)
        if (op->seen[a] && sim_sync_knows(warp, p->cluster - 1, a, op->seen[a]))
            return true;
    return false;
}

static void
report(SimWarp *warp, const Party *p, const SimAllocation *in, size_t offset, int32_t lane,
       const char *doing, const char *done, bool repeats)
{
    const SimRun *run = warp->run;
    bool is_op = p->event & EVENT_OP, foreign = p->cluster != warp->cta->cluster->linear + 1;
    uint32_t agent = is_op ? op_of(warp, p->event)->agent : p->event >> SIM_CLOCK_BITS;
    SimPlace place = {p->insn ? run->module->insns[p->insn - 1] : NULL,
                      (int32_t)(agent % run->warps_per_cta), agent / run->warps_per_cta};
    uint64_t address = in->address + offset;
    if (repeats && !is_op && !foreign)
        sim_note(
            warp, SIM_FIND_RACE, lane, address, &place,
            "write of the value that another warp of the block wrote to the same global memory, "
            "'%s', with no barrier between",
            in->name);
    else if (is_op)
        sim_find(warp, *doing == 'r' ? SIM_FIND_ASYNC_EARLY : SIM_FIND_ASYNC_OVERWRITE, lane,
                 address, &place,
                 "%s of global memory, '%s', that an asynchronous op %s, without having waited "
                 "for it",
                 doing, in->name, done);
    else
        sim_find(warp, SIM_FIND_RACE, lane, address, &place,
                 "%s of global memory, '%s', that another %s %s, with no order between", doing,
                 in->name, foreign ? "block" : "warp", done);
}

typedef struct Access {
    SimWarp *warp;
    const SimAllocation *in;
    Party own;
    int32_t lane;  /* or -1; of the first bytes */
    uint32_t each; /* bytes of a lane, 0: all are of one */
    size_t begin;
    bool said, drew; /* findings, random numbers */
    bool group;      /* the cell at hand is that of a group */
    bool met;        /* the readers of its groups have been looked at */
    bool strong, is_write;
    bool repeats; /* writes what is there already */
    Party known;  /* a party that the warp knows: neighbours have the same */
} Access;

static bool
knows(Access *a, const Party *p)
{
    if (same_party(p, &a->known))
        return true;
    bool known = known_to(a->warp, p);
    if (known)
        a->known = *p;
    return known;
}

/* Whose the bytes at an offset are. */
static int32_t
lane_of(const Access *a, size_t offset)
{
    return a->each ? a->lane + (int32_t)((offset - a->begin) / a->each) : a->lane;
}

static void
check_writer(Access *a, const Party *writer, size_t offset, bool repeats)
{
    if (!writer->cluster || same_party(writer, &a->own) || knows(a, writer))
        return;
    a->said = true;
    report(a->warp, writer, a->in, offset, lane_of(a, offset), a->is_write ? "write" : "read",
           writer->event & EVENT_OP ? "may still be writing" : "wrote", repeats);
}

static void
check_writers(Access *a, const struct SimGlobalPage *page, const Cell *c, uint32_t cell,
              uint8_t bytes, size_t offset)
{
    uint8_t clash = bytes & c->written;
    if (a->strong)
        clash &= (uint8_t)~c->strong;
    if (!clash)
        return;
    bool repeats = a->repeats && !(c->strong & clash);
    if (!c->split) {
        check_writer(a, &c->writer, offset, repeats);
        return;
    }
    const Party *last = NULL;
    for (uint32_t i = 0; i < 4; i++) {
        const Party *writer = &page->bytes[4 * cell + i];
        if (clash >> i & 1 && !(last && same_party(last, writer)))
            check_writer(a, last = writer, offset + i, repeats);
    }
}

static Party *
reader_of(Cell *c, int r)
{
    return r < READERS ? &c->reader[r] : &((Group *)(void *)c)->more[r - READERS];
}

static int
readers_of(const Access *a)
{
    return a->group ? GROUP_READERS : READERS;
}

static void
check_readers(Access *a, Cell *c, uint8_t bytes, size_t offset)
{
    for (int r = 0; r < readers_of(a); r++) {
        const Party *p = reader_of(c, r);
        if (!(c->read[r] & bytes) || (a->strong && c->read_strong >> r & 1))
            continue;
        bool own = p->cluster == a->own.cluster && !(a->own.event & EVENT_OP) &&
                   p->event >> SIM_CLOCK_BITS == a->warp->agent;
        if (own || knows(a, p))
            continue;
        a->said = true;
        report(a->warp, p, a->in, offset, lane_of(a, offset), "write", "reads", false);
    }
}

/* Who reads the cell is its reader at `at` from now on. */
static void
put_reader(const Access *a, Cell *c, int at, uint8_t bytes)
{
    *reader_of(c, at) = a->own;
    c->read[at] = bytes;
    c->read_strong = ((c->read_strong & ~(1u << at)) | (uint32_t)a->strong << at) & 15;
    c->newest = (uint32_t)at & 3;
}

static void
record_read(Access *a, Cell *c, uint8_t bytes)
{
    int at = -1;
    for (int r = 0; r < readers_of(a); r++) { /* what is ordered before this read tells no more */
        const Party *p = reader_of(c, r);
        bool covers = (bytes & c->read[r]) == c->read[r] &&
                      !(a->strong && !(c->read_strong >> r & 1));
        if (same_party(p, &a->own)) {
            c->read[r] |= bytes;
            if (!a->strong)
                c->read_strong = c->read_strong & ~(1u << r) & 15;
            return;
        }
        if (at < 0 && (!c->read[r] || (covers && knows(a, p))))
            at = r;
    }
    if (at < 0) {
        at = (int)sim_random_below(&a->warp->random, (uint32_t)readers_of(a));
        a->drew = true;
    }
    put_reader(a, c, at, bytes);
}

static void
record_write(const Access *a, struct SimGlobalPage *page, Cell *c, uint32_t cell, uint8_t bytes)
{
    uint8_t keep = c->written & (uint8_t)~bytes;
    bool same = same_party(&c->writer, &a->own);
    if (keep && (!same || c->split) && !page->bytes)
        page->bytes = sim_calloc(4 * PAGE_CELLS, sizeof *page->bytes);
    if (keep && (!same || c->split) && page->bytes) {
        for (uint32_t i = 0; i < 4; i++) {
            Party *at = &page->bytes[4 * cell + i];
            if (bytes >> i & 1)
                *at = a->own;
            else if (!c->split)
                *at = c->written >> i & 1 ? c->writer : (Party){0};
        }
        c->split = 1;
    } else {
        c->split = 0;
    }
    c->writer = a->own;
    c->written = keep | bytes;
    c->strong = (uint8_t)((c->strong & ~bytes) | (a->strong ? bytes : 0));
}

static struct SimGlobalPage *
page_at(const SimAllocation *in, size_t offset)
{
    struct SimGlobalPage **page = &in->shadow[offset / PAGE_BYTES];
    if (!*page && (*page = sim_calloc(1, sizeof **page)))
        (*page)->group = sim_calloc(PAGE_GROUPS, sizeof *(*page)->group);
    return *page;
}

static void
access_cell(Access *a, struct SimGlobalPage *page, Cell *c, uint32_t cell, uint8_t bytes,
            size_t offset)
{
    check_writers(a, page, c, cell, bytes, offset);
    if (a->is_write) {
        if (!a->met)
            check_readers(a, c, bytes, offset);
        record_write(a, page, c, cell, bytes);
    } else {
        record_read(a, c, bytes);
    }
}

/* Of the readers of a group a cell gets the last one, and one of the others. */
static void
cell_of_group(Access *a, const Group *g, Cell *c)
{
    int other[GROUP_READERS], others = 0, newest = g->cell.newest;
    Group from = *g;
    for (int r = 0; r < GROUP_READERS; r++)
        if (r != newest && g->cell.read[r])
            other[others++] = r;
    *c = g->cell;
    memset(c->read, 0, sizeof c->read);
    c->read_strong = c->newest = 0;
    for (int at = 0; at < (others ? READERS : 1); at++) {
        int r = newest;
        if (at > 0)
            r = other[others > 1 ? sim_random_below(&a->warp->random, (uint32_t)others) : 0];
        c->reader[at] = *reader_of(&from.cell, r);
        c->read[at] = g->cell.read[r];
        c->read_strong = (c->read_strong | (g->cell.read_strong >> r & 1u) << at) & 15;
    }
}

/* A write that ends the groups of a page, against all readers that its own groups have. */
static void
meet_readers(Access *a, struct SimGlobalPage *page, size_t offset, uint32_t size)
{
    size_t first = offset / GROUP_BYTES, last = (offset + size - 1) / GROUP_BYTES;
    a->group = a->met = true;
    for (size_t g = first; g <= last; g++)
        check_readers(a, &page->group[g % PAGE_GROUPS].cell, 15,
                      g == first ? offset : g * GROUP_BYTES);
    a->group = false;
}

/* The cells of a page are told apart from now on. */
static void
divide(Access *a, struct SimGlobalPage *page)
{
    page->cell = sim_calloc(PAGE_CELLS, sizeof *page->cell);
    for (uint32_t i = 0; page->cell && page->group && i < PAGE_CELLS; i++)
        cell_of_group(a, &page->group[i / GROUP_CELLS], &page->cell[i]);
    free(page->group);
    page->group = NULL;
}

static bool
same_group(const Group *a, const Group *b)
{
    uint32_t differ = 0, x[sizeof *a / 4], y[sizeof *b / 4];
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    for (uint32_t i = 0; i < sizeof x / sizeof *x; i++)
        differ |= x[i] ^ y[i];
    return !differ;
}
_Static_assert(sizeof(Group) == 68, "same_group() compares all of it");

/* Whole groups.  Those that are like the one before become what it became, if that was all; or with
 * another reader in place of the one that was drawn. */
static void
access_groups(Access *a, struct SimGlobalPage *page, uint32_t group, uint32_t count, size_t offset)
{
    Group before, *after = NULL;
    bool drew = false;
    a->group = true;
    for (uint32_t i = 0; i < count; i++) {
        Group *g = &page->group[group + i];
        if (after && same_group(g, &before)) {
            if (drew)
                put_reader(a, &g->cell, (int)sim_random_below(&a->warp->random, GROUP_READERS), 15);
            else
                *g = *after;
            continue;
        }
        before = *g;
        a->said = a->drew = false;
        access_cell(a, page, &g->cell, 0, 15, offset + GROUP_BYTES * (size_t)i);
        after = a->said ? NULL : g;
        drew = a->drew;
    }
    a->group = false;
}

/* The same of whole cells. */
static void
access_cells(Access *a, struct SimGlobalPage *page, uint32_t cell, uint32_t count, size_t offset)
{
    Cell before, *after = NULL;
    for (uint32_t i = 0; i < count; i++) {
        Cell *c = &page->cell[cell + i];
        if (after && memcmp(c, &before, sizeof before) == 0) {
            *c = *after;
            continue;
        }
        memcpy(&before, c, sizeof before);
        a->said = a->drew = false;
        access_cell(a, page, c, cell + i, 15, offset + 4 * (size_t)i);
        after = a->said || a->drew || before.split || c->split ? NULL : c;
    }
}

/* What lies in one page, under its lock. */
static void
access_page(Access *a, struct SimGlobalPage *page, size_t offset, uint32_t size)
{
    if (page->group && offset % GROUP_BYTES == 0 && size % GROUP_BYTES == 0) {
        a->met = false;
        access_groups(a, page, (uint32_t)(offset % PAGE_BYTES) / GROUP_BYTES, size / GROUP_BYTES,
                      offset);
        return;
    }
    a->met = false;
    if (page->group && a->is_write)
        meet_readers(a, page, offset, size);
    if (!page->cell)
        divide(a, page);
    for (uint32_t done = 0; done < size && page->cell;) {
        uint32_t first = (uint32_t)(offset + done) % 4, left = size - done;
        uint32_t cell = (uint32_t)(offset + done) % PAGE_BYTES / 4, n = 4 - first;
        if (!first && left >= 4) {
            access_cells(a, page, cell, left / 4, offset + done);
            done += left / 4 * 4;
            continue;
        }
        n = n < left ? n : left;
        access_cell(a, page, &page->cell[cell], cell,
                    (uint8_t)((1u << (first + n)) - (1u << first)), offset + done);
        done += n;
    }
}

static void
access_bytes(Access *a, const uint8_t *data, uint32_t size)
{
    SimGlobalShadow *s = a->warp->run->global_shadow;
    size_t offset = a->begin = (size_t)(data - a->in->data);
    while (size) {
        uint32_t in_page = (uint32_t)(PAGE_BYTES - offset % PAGE_BYTES);
        uint32_t part = size < in_page ? size : in_page;
        pthread_mutex_t *lock = &s->lock[(a->in->address + offset) / PAGE_BYTES % LOCKS];
        pthread_mutex_lock(lock);
        struct SimGlobalPage *page = page_at(a->in, offset);
        if (page)
            access_page(a, page, offset, part);
        pthread_mutex_unlock(lock);
        offset += part;
        size -= part;
    }
}

void
sim_global_read(SimWarp *warp, const SimAllocation *in, const uint8_t *data, uint32_t size,
                int32_t lane, SimAccess access)
{
    if (!in || !in->shadow || !size)
        return;
    Access a = {.warp = warp, .in = in, .own = party_of(warp), .lane = lane};
    a.strong = access == SIM_STRONG;
    access_bytes(&a, data, size);
}

void
sim_global_read_row(SimWarp *warp, const SimAllocation *in, const uint8_t *data, uint32_t size,
                    uint32_t lane, uint32_t count)
{
    if (!in->shadow)
        return;
    Access a = {.warp = warp, .in = in, .own = party_of(warp), .lane = (int32_t)lane, .each = size};
    access_bytes(&a, data, size * count);
}

static void
write_bytes(Access *a, const uint8_t *data, uint32_t size, SimAccess access)
{
    a->strong = access == SIM_STRONG;
    a->repeats = access == SIM_REPEATED;
    a->is_write = true;
    access_bytes(a, data, size);
}

void
sim_global_write(SimWarp *warp, const SimAllocation *in, const uint8_t *data, uint32_t size,
                 int32_t lane, SimAccess access)
{
    if (!in || !in->shadow || !size)
        return;
    Access a = {.warp = warp, .in = in, .own = party_of(warp), .lane = lane};
    write_bytes(&a, data, size, access);
}

void
sim_global_write_row(SimWarp *warp, const SimAllocation *in, const uint8_t *data, uint32_t size,
                     uint32_t lane, uint32_t count, SimAccess access)
{
    if (!in->shadow)
        return;
    Access a = {.warp = warp, .in = in, .own = party_of(warp), .lane = (int32_t)lane, .each = size};
    write_bytes(&a, data, size * count, access);
}

/* ------------------------------------------------------------------------ asynchronous ops */

static struct SimGlobalOp *
new_global_op(const SimWarp *warp)
{
    SimGlobalShadow *s = warp->run->global_shadow;
    const SimCluster *cluster = warp->cta->cluster;
    struct SimGlobalOp *op = sim_calloc(1, sizeof *op);
    _Atomic uint32_t *seen = sim_calloc(cluster->agents, sizeof *seen);
    pthread_mutex_lock(&s->op_lock);
    if (s->op_count == s->op_capacity) {
        size_t capacity = s->op_capacity ? 2 * s->op_capacity : 64;
        struct SimGlobalOp **bigger = sim_realloc(s->op, capacity * sizeof *bigger);
        if (bigger) {
            s->op = bigger;
            s->op_capacity = capacity;
        }
    }
    bool ok = op && seen && s->op_count < s->op_capacity;
    if (ok) {
        op->index = (uint32_t)s->op_count;
        op->cluster = (uint32_t)cluster->linear;
        op->agent = warp->agent;
        op->seen = seen;
        s->op[s->op_count++] = op;
    }
    pthread_mutex_unlock(&s->op_lock);
    if (ok)
        return op;
    free(op);
    free((void *)seen);
    return NULL;
}

void
sim_global_async_write(SimWarp *warp, SimOp *op, const SimAllocation *in, const uint8_t *data,
                       uint32_t size, SimAccess access)
{
    if (!warp->clock || !in || !in->shadow || !size)
        return;
    if (!op->global && !(op->global = new_global_op(warp)))
        return;
    Party own = {op->global->cluster + 1, EVENT_OP | op->global->index, op->insn->index + 1};
    Access a = {.warp = warp, .in = in, .own = own, .lane = -1};
    write_bytes(&a, data, size, access);
}

void
sim_global_observe(SimWarp *warp, SimOp *op)
{
    if (!op->global->seen[warp->agent])
        op->global->seen[warp->agent] = warp->clock[warp->agent];
}
