/* clock_memory.c - which accesses of one SM the L2 cache does not hold (clock_memory.h).
 *
 * A line that was touched before is there when all SMs together have touched less since than the
 * cache holds: the reuse distance, in bytes of lines that differ.  The SM's own lines are counted,
 * each for as many as all SMs touch meanwhile: one of their own each, or fewer where they share a
 * tensor.  The launch goes round, so that what it touches first was touched by the launch before;
 * of a cold cache it does not, what it touches first comes from memory, and for each line of it one
 * goes there that others have written, until these are gone.  A line that was written and is not
 * there any more has been written back.  Who pays for a line is counted by sectors: two SMs may
 * want one line and no sector of it in common.
 */
#include "backends/clock/clock_memory.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, NOBODY = -1 };

typedef struct Line {
    uint64_t line;
    uint32_t area;
    int64_t touched; /* when last; -1: not yet */
    /* sectors that this SM has read or written since it came into the cache; all: another SM has */
    uint8_t there;
    uint8_t dirty;
    uint8_t wanted; /* sectors that this SM touches */
    size_t writer;  /* touch of the launch */
    /* stores of parts of it: 1 + the last one, the number of the first one's store, what they fill,
     * and of what */
    size_t stored;
    uint64_t first_store;
    uint32_t stored_bytes;
    uint8_t stored_sectors;
} Line;

typedef struct Area {
    uint64_t address, bytes;
    uint64_t lines, sectors; /* that the SM touches */
    double own;              /* of the sectors that SMs touch, the part that is no other's, too */
    double weight;           /* bytes that all SMs touch while this one touches a line */
    double common;           /* bytes of sectors that all SMs touch */
    double owed;             /* of a miss: lines that are shared are missed by one SM of many */
} Area;

/* One touch of the launch, and what came of it. */
typedef struct Touch {
    const SimTouch *of;
    uint32_t line;
    ClockMissed *missed;
    size_t before; /* 1 + the store of another part of the line */
} Touch;

typedef struct ClockCache {
    Arena *arena;
    const ClockFact *rows;
    ClockMemory *out;
    VEC(Area) areas;
    VEC(Line) lines;
    uint32_t *slot; /* 1 + index of a line, a hash table */
    size_t slots;
    Touch *touches;
    size_t n;
    double *tree; /* of weights of lines, by when they were last touched (Fenwick) */
    size_t times;
} ClockCache;

/* ---- lines and areas ---- */

static uint32_t
area_at(ClockCache *c, const SimArea *area)
{
    for (uint32_t k = 0; k < c->areas.n; k++) {
        if (c->areas.at[k].address == area->address)
            return k;
    }
    vec_push(c->arena, &c->areas,
             ((Area){.address = area->address, .bytes = area->bytes, .owed = 0.5}));
    return c->areas.n - 1;
}

static uint32_t
line_at(ClockCache *c, uint64_t line, uint32_t area)
{
    size_t at = (size_t)(line * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (c->slots - 1);

    for (; c->slot[at]; at = (at + 1) & (c->slots - 1)) {
        if (c->lines.at[c->slot[at] - 1].line == line)
            return c->slot[at] - 1;
    }
    vec_push(c->arena, &c->lines, ((Line){.line = line, .area = area, .touched = NOBODY}));
    c->slot[at] = c->lines.n;
    c->areas.at[area].lines++;
    return c->lines.n - 1;
}

static void
take_cluster(ClockCache *c, const SimTracedCluster *t)
{
    uint32_t *area = arena_array(c->arena, uint32_t, t->area_count + 1);

    for (size_t k = 0; k < t->area_count; k++)
        area[k] = area_at(c, &t->areas[k]);
    for (size_t k = 0; k < t->touch_count; k++) {
        const SimTouch *of = &t->touches[k];
        c->touches[c->n++] = (Touch){.of = of, .line = line_at(c, of->line, area[of->area])};
        Line *line = &c->lines.at[c->touches[c->n - 1].line];
        uint32_t more = (uint32_t)__builtin_popcount(of->sectors & ~line->wanted);
        c->areas.at[line->area].sectors += more;
        line->wanted |= of->sectors;
    }
}

/* `share`: as many clusters of the grid as this SM's have one. */
static void
weigh(ClockCache *c, double share)
{
    c->out->share = share;
    for (uint32_t k = 0; k < c->areas.n; k++) {
        Area *a = &c->areas.at[k];
        double all = (double)a->lines * SIM_LINE_BYTES * share;
        uint64_t end = (a->address + a->bytes + SIM_LINE_BYTES - 1) / SIM_LINE_BYTES;
        double bytes = (double)((end - a->address / SIM_LINE_BYTES) * SIM_LINE_BYTES);
        double sectors = (double)a->sectors * SIM_SECTOR_BYTES * share;
        a->own = sectors > bytes ? bytes / sectors : 1;
        a->common = sectors > bytes ? bytes : sectors;
        a->weight = SIM_LINE_BYTES * share * (all > bytes ? bytes / all : 1);
        c->out->launch += a->weight * (double)a->lines;
    }
}

/* ---- by event ---- */

/* Touches of an instruction lie side by side, those of a warp in order but for bulk copies: room
 * for one a touch. */
static void
count_events(ClockCache *c, const SimTracedCluster *t, size_t first, ClockMissedWarp *warps)
{
    size_t *room = arena_array(c->arena, size_t, t->warp_count + 1);

    memset(room, 0, (t->warp_count + 1) * sizeof *room);
    for (size_t k = 0; k < t->touch_count; k++)
        room[t->touches[k].warp]++;
    for (size_t w = 0; w < t->warp_count; w++)
        warps[w] = (ClockMissedWarp){.at = arena_array(c->arena, ClockMissed, room[w] + 1)};
    for (size_t k = 0; k < t->touch_count; k++) {
        const SimTouch *of = &t->touches[k];
        ClockMissedWarp *w = &warps[of->warp];
        if (w->n == 0 || w->at[w->n - 1].event != of->event)
            w->at[w->n++] = (ClockMissed){.event = of->event, .at = -1};
        ClockMissed *m = c->touches[first + k].missed = &w->at[w->n - 1];
        const Area *area = &c->areas.at[c->lines.at[c->touches[first + k].line].area];
        float bytes = (float)(SIM_SECTOR_BYTES * __builtin_popcount(of->sectors));
        m->common = of->writes ? (float)area->common : m->common;
        m->bytes += bytes;
        m->lines += !of->writes;
        m->whole += of->writes ? bytes : 0;
        c->out->in_parts |= of->writes && of->bytes < bytes;
        m->own += bytes * (float)area->own;
        c->out->bytes += bytes;
    }
}

ClockMissed *
clock_missed(const ClockMemory *memory, size_t cluster, uint32_t warp, uint32_t event)
{
    if (memory == NULL)
        return NULL;
    const ClockMissedWarp *w = &memory->warps[cluster][warp];
    uint32_t low = 0, high = w->n;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (w->at[middle].event < event)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->n && w->at[low].event == event ? &w->at[low] : NULL;
}

/* ---- distances ---- */

static void
add(ClockCache *c, size_t at, double weight)
{
    for (size_t k = at + 1; k <= c->times; k += k & -k)
        c->tree[k] += weight;
}

/* Of the times before `at`. */
static double
sum(const ClockCache *c, size_t at)
{
    double all = 0;

    for (size_t k = at; k > 0; k -= k & -k)
        all += c->tree[k];
    return all;
}

/* What part of the lines of this distance the cache does not hold. */
static double
part_lost(const ClockCache *c, double distance)
{
    double held = c->rows[CLOCK_L2_HELD].value, lost = c->rows[CLOCK_L2_LOST].value;

    return distance <= held ? 0 : distance >= lost ? 1 : (distance - held) / (lost - held);
}

/* The line was not there, by so much of 1: whether it is this SM that pays for that. */
static bool
pays(Area *area, double lost)
{
    area->owed += lost * area->own;
    bool ours = area->owed >= 1;
    area->owed -= ours;
    return ours;
}

static void
writes_back(ClockCache *c, ClockMissed *missed, double bytes)
{
    missed->written += (float)bytes;
    c->out->written += bytes;
}

/* The line leaves the cache before it is touched again: by this SM's access, or by that of another
 * one. */
static void
leave(ClockCache *c, Line *line, bool ours, bool counts)
{
    ClockMissed *writer = line->dirty ? c->touches[line->writer].missed : NULL;
    double bytes = SIM_SECTOR_BYTES * __builtin_popcount(line->dirty);

    line->there = ours ? 0 : UINT8_MAX;
    if (!ours)
        return;
    if (writer != NULL && counts)
        writes_back(c, writer, bytes);
    line->dirty = 0;
}

/* A line comes into a cold cache, by this SM's access or by that of another one. */
static void
come(ClockCache *c, const Touch *t, Line *line, size_t now)
{
    double bytes = SIM_SECTOR_BYTES * __builtin_popcount(line->wanted);

    if (pays(&c->areas.at[line->area], 1))
        writes_back(c, t->missed, (1 - part_lost(c, sum(c, now))) * bytes);
    else
        line->there = UINT8_MAX;
}

/* At the end of a launch that does not come again: what has left the cache by then. */
static void
leave_at_end(ClockCache *c)
{
    for (uint32_t k = 0; k < c->lines.n; k++) {
        const Line *line = &c->lines.at[k];
        double bytes = SIM_SECTOR_BYTES * __builtin_popcount(line->dirty) *
                       c->areas.at[line->area].own;
        if (line->dirty)
            writes_back(c, c->touches[line->writer].missed,
                        bytes * part_lost(c, sum(c, c->n) - sum(c, (size_t)line->touched + 1)));
    }
}

static void
touch(ClockCache *c, size_t k, uint32_t round, bool counts)
{
    Touch *t = &c->touches[k];
    Line *line = &c->lines.at[t->line];
    Area *area = &c->areas.at[line->area];
    size_t now = round * c->n + k;

    if (line->touched != NOBODY) {
        double weight = area->weight, distance = sum(c, now) - sum(c, (size_t)line->touched + 1);
        double lost = part_lost(c, distance);
        add(c, (size_t)line->touched, -weight);
        if (lost > 0)
            leave(c, line, pays(area, lost), counts);
    } else if (counts) {
        come(c, t, line, now);
    }
    uint8_t missing = t->of->sectors & (uint8_t)~line->there;
    if (!t->of->writes && counts && missing) {
        double bytes = SIM_SECTOR_BYTES * __builtin_popcount(missing);
        t->missed->read += (float)bytes;
        c->out->read += bytes;
    }
    line->there |= t->of->sectors;
    if (t->of->writes) {
        line->dirty |= t->of->sectors;
        line->writer = k;
    }
    line->touched = (int64_t)now;
    add(c, now, area->weight);
}

ClockMemory *
clock_memory(Arena *arena, const SimTrace *trace, uint64_t clusters)
{
    ClockCache *c = arena_new(arena, ClockCache);
    size_t all = 0, first = 0;

    *c = (ClockCache){.arena = arena, .out = arena_new(arena, ClockMemory)};
    *c->out = (ClockMemory){.cache = c};
    for (size_t k = 0; k < trace->cluster_count; k++)
        all += trace->clusters[k].touch_count;
    if (all == 0)
        return NULL;
    for (c->slots = 1024; c->slots < 2 * all;)
        c->slots *= 2;
    c->slot = arena_array(arena, uint32_t, c->slots);
    memset(c->slot, 0, c->slots * sizeof *c->slot);
    c->touches = arena_array(arena, Touch, all);
    for (size_t k = 0; k < trace->cluster_count; k++)
        take_cluster(c, &trace->clusters[k]);
    weigh(c, (double)clusters / (double)trace->cluster_count);
    c->out->warps = arena_array(arena, ClockMissedWarp *, trace->cluster_count);
    for (size_t k = 0; k < trace->cluster_count; k++) {
        const SimTracedCluster *t = &trace->clusters[k];
        c->out->warps[k] = arena_array(arena, ClockMissedWarp, t->warp_count + 1);
        count_events(c, t, first, c->out->warps[k]);
        first += t->touch_count;
    }
    return c->out;
}

bool
clock_memory_wants_order(const ClockMemory *memory, const ClockFact *rows)
{
    return memory != NULL &&
           (memory->cold || memory->launch > rows[CLOCK_L2_HELD].value || memory->in_parts);
}

/* ---- stores ---- */

/* Stores of parts of sectors that follow soon on one another go to the L2 cache as one. */
static void
merge_store(ClockCache *c, size_t k, uint64_t number)
{
    const SimTouch *of = c->touches[k].of;
    ClockMissed *m = c->touches[k].missed;
    Line *line = &c->lines.at[c->touches[k].line];
    uint32_t sectors = (uint32_t)__builtin_popcount(of->sectors) * SIM_SECTOR_BYTES;

    if (of->bytes >= sectors) { /* whole */
        line->stored = 0;
        return;
    }
    if (line->stored == 0 ||
        number - line->first_store >= (uint64_t)c->rows[CLOCK_STORE_MERGE].value) {
        line->first_store = number;
        line->stored = line->stored_bytes = line->stored_sectors = 0;
    }
    c->touches[k].before = line->stored;
    line->stored = k + 1;
    line->stored_bytes += of->bytes;
    line->stored_sectors |= of->sectors;
    m->whole -= (float)sectors;
    m->parts += (float)sectors;
    if (line->stored_bytes < SIM_SECTOR_BYTES * (uint32_t)__builtin_popcount(line->stored_sectors))
        return;
    m->whole += (float)(SIM_SECTOR_BYTES * __builtin_popcount(line->stored_sectors));
    for (size_t at = line->stored; at > 0; at = c->touches[at - 1].before)
        c->touches[at - 1].missed->parts -= (float)(SIM_SECTOR_BYTES *
                                                    __builtin_popcount(
                                                        c->touches[at - 1].of->sectors));
    line->stored = 0;
}

static void
merge_stores(ClockCache *c)
{
    const ClockMissed *last = NULL;
    uint64_t number = 0;

    for (size_t k = 0; k < c->n; k++) {
        if (!c->touches[k].of->writes)
            continue;
        number += c->touches[k].missed != last;
        last = c->touches[k].missed;
        merge_store(c, k, number);
    }
}

static int
by_time(const void *a, const void *b)
{
    const Touch *x = a, *y = b;

    if (x->missed->at != y->missed->at)
        return x->missed->at < y->missed->at ? -1 : 1;
    return x->of < y->of ? -1 : x->of > y->of;
}

void
clock_memory_find(ClockMemory *memory, const ClockFact *rows)
{
    ClockCache *c = memory->cache;
    uint32_t rounds = memory->cold ? 1 : ROUNDS;

    c->rows = rows;
    for (size_t k = 1; k < c->n; k++) { /* what a replay did not issue: with what was before */
        if (c->touches[k].missed->at < 0)
            c->touches[k].missed->at = c->touches[k - 1].missed->at;
    }
    qsort(c->touches, c->n, sizeof *c->touches, by_time);
    if (c->out->in_parts)
        merge_stores(c);
    if (!memory->cold && memory->launch <= rows[CLOCK_L2_HELD].value)
        return;
    c->times = rounds * c->n;
    c->tree = arena_array(c->arena, double, c->times + 1);
    memset(c->tree, 0, (c->times + 1) * sizeof *c->tree);
    for (uint32_t round = 0; round < rounds; round++) {
        for (size_t k = 0; k < c->n; k++)
            touch(c, k, round, round + 1 == rounds);
    }
    if (memory->cold)
        leave_at_end(c);
}
