/* sim_sync.c - vector clocks, fences and strong accesses (PTX ISA 8: memory consistency model). */
#include "sim_sync.h"

#include <stdlib.h>

#include "sim_memory.h"

enum { NARROW, WIDE, SCOPES }; /* the block; more than the block */

/* What a warp keeps beside its clocks. */
struct SimWarpSync {
    uint32_t *fence[SCOPES];   /* clocks at the last fence of at least the scope */
    uint32_t *pending[SCOPES]; /* read by relaxed accesses, taken by the next fence */
    uint32_t *init_fence;      /* clock at the last fence.mbarrier_init */
    bool fenced[SCOPES], has_pending[SCOPES];
    SimSnapshot *snapshot; /* of fence[WIDE], made when first needed */
    SimSnapshot **waiting; /* of other clusters, to be taken by the next fence */
    size_t waiting_count, waiting_capacity;
};

/* A snapshot that a warp of the cluster acquired; ordered after it, others know of it too. */
typedef struct Foreign {
    SimSnapshot *snapshot;
    uint32_t agent, clock;
} Foreign;

struct SimForeignList {
    Foreign *at;
    size_t count, capacity;
};

static void
join(uint32_t *into, const uint32_t *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        into[i] = into[i] > from[i] ? into[i] : from[i];
}

/* All that the warp knows in general it also knows of tensor memory and of initialisations. */
static void
tick(SimWarp *warp)
{
    uint32_t a = warp->agent;
    if (warp->clock[a] < SIM_CLOCK_MAX)
        warp->clock[a]++;
    warp->tensor_clock[a] = warp->init_clock[a] = warp->clock[a];
}

static uint32_t
words_of(const SimWarp *warp) /* of all planes */
{
    return SIM_PLANES * warp->cta->cluster->agents;
}

void
sim_sync_tick(SimWarp *warp)
{
    if (warp->clock)
        tick(warp);
}

/* The array with room for one more, or NULL. */
static void *
grow(void *array, size_t count, size_t *capacity, size_t element)
{
    if (count < *capacity)
        return array;
    size_t wanted = *capacity ? 2 * *capacity : 8;
    void *bigger = sim_realloc(array, wanted * element);
    if (bigger)
        *capacity = wanted;
    return bigger;
}

/* ------------------------------------------------------------------------ clocks of barriers */

void
sim_clock_release(SimWarp *warp, uint32_t *clock)
{
    if (!warp->clock || !clock)
        return;
    join(clock, warp->clock, words_of(warp));
    tick(warp);
}

void
sim_clock_acquire(SimWarp *warp, const uint32_t *clock)
{
    if (!warp->clock || !clock)
        return;
    join(warp->clock, clock, words_of(warp));
    sim_order_lanes(warp);
}

void
sim_clock_release_relaxed(SimWarp *warp, uint32_t *clock, bool beyond, bool tensor)
{
    if (!warp->clock || !clock)
        return;
    const struct SimWarpSync *sync = warp->sync;
    uint32_t agents = warp->cta->cluster->agents;
    size_t to_tensor = (size_t)(warp->tensor_clock - warp->clock);
    size_t to_init = (size_t)(warp->init_clock - warp->clock);
    int scope = beyond ? WIDE : NARROW;
    if (sync->fenced[scope])
        join(clock, sync->fence[scope], words_of(warp));
    if (tensor)
        join(clock + to_tensor, warp->tensor_clock, agents);
    join(clock + to_init, sync->init_fence, agents);
    tick(warp);
}

void
sim_clock_acquire_relaxed(SimWarp *warp, const uint32_t *clock, bool beyond, bool tensor)
{
    if (!warp->clock || !clock)
        return;
    struct SimWarpSync *sync = warp->sync;
    int scope = beyond ? WIDE : NARROW;
    join(sync->pending[scope], clock, words_of(warp));
    sync->has_pending[scope] = true;
    if (tensor)
        join(warp->tensor_clock, clock + (warp->tensor_clock - warp->clock),
             warp->cta->cluster->agents);
}

void
sim_sync_init_fence(SimWarp *warp)
{
    if (!warp->clock)
        return;
    memcpy(warp->sync->init_fence, warp->init_clock,
           warp->cta->cluster->agents * sizeof *warp->init_clock);
    tick(warp);
}

/* ------------------------------------------------------------------------ lanes of a warp */

void
sim_order_lanes(SimWarp *warp)
{
    warp->lane_whole = ++warp->lane_epoch;
}

void
sim_order_some_lanes(SimWarp *warp, uint32_t lanes)
{
    uint32_t all[SIM_LANES] = {0};

    if (!warp->lane_known && (lanes & warp->live) != warp->live)
        warp->lane_known = sim_calloc(SIM_LANES, sizeof *warp->lane_known);
    if (!warp->lane_known || (lanes & warp->live) == warp->live) {
        sim_order_lanes(warp);
        return;
    }
    warp->lane_epoch++;
    sim_each_lane (l, lanes)
        for (uint32_t m = 0; m < SIM_LANES; m++)
            all[m] = all[m] > warp->lane_known[l][m] ? all[m] : warp->lane_known[l][m];
    sim_each_lane (l, lanes)
        all[l] = warp->lane_epoch;
    sim_each_lane (l, lanes)
        memcpy(warp->lane_known[l], all, sizeof all);
}

bool
sim_lanes_in_order(const SimWarp *warp, uint32_t lane, uint32_t other, uint32_t epoch)
{
    return epoch < warp->lane_whole || (warp->lane_known && epoch < warp->lane_known[lane][other]);
}

void
sim_sync_lanes(SimWarp *warp)
{
    if (!warp->clock)
        return;
    warp->lanes_clock = warp->clock[warp->agent];
    tick(warp);
}

void
sim_sync_lanes_release(SimWarp *warp, uint32_t lanes)
{
    if (!warp->clock)
        return;
    uint32_t clock = warp->clock[warp->agent];
    if ((lanes & warp->live) == warp->live) {
        warp->lanes_clock = clock;
        return;
    }
    if (warp->written_clock <= warp->lanes_clock)
        return; /* no lane has stored since: nothing to tell apart */
    if (warp->partial_count == warp->partial_capacity) {
        uint32_t capacity = warp->partial_capacity ? 2 * warp->partial_capacity : 32;
        struct SimPartial *bigger = sim_realloc(warp->partial, capacity * sizeof *bigger);
        if (!bigger)
            return;
        warp->partial = bigger;
        warp->partial_capacity = capacity;
    }
    warp->partial[warp->partial_count++] = (struct SimPartial){clock, warp->lanes_clock, lanes};
}

static const SimWarp *
warp_of(const SimWarp *warp, uint32_t agent)
{
    const SimCluster *cluster = warp->cta->cluster;
    uint32_t per_cta = warp->run->warps_per_cta;
    return cluster->cta_count == 1 ? &cluster->ctas[0].warps[agent]
                                   : &cluster->ctas[agent / per_cta].warps[agent % per_cta];
}

/* Behind which of its releases by some lanes only is what `known` tells; 0: it is of a release by
 * all. */
static uint32_t
partial_of(const SimWarp *from, uint32_t known)
{
    uint32_t low = 0, high = from->partial_count;
    while (low < high) { /* the first one that is later than what the warp knows */
        uint32_t middle = (low + high) / 2;
        if (from->partial[middle].clock <= known)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 || from->partial[low - 1].clock != known ? 0 : low;
}

bool
sim_sync_covers_lanes(const SimWarp *warp, uint32_t agent)
{
    return !partial_of(warp_of(warp, agent), warp->clock[agent]);
}

bool
sim_sync_covers_lane(const SimWarp *warp, uint32_t agent, uint32_t clock, uint32_t lane)
{
    const SimWarp *from = warp_of(warp, agent);
    uint32_t low = partial_of(from, warp->clock[agent]);
    if (low == 0)
        return true;
    for (; low > 0 && from->partial[low - 1].clock >= clock; low--)
        if (from->partial[low - 1].before >= clock || from->partial[low - 1].lanes >> lane & 1)
            return true;
    return false;
}

void
sim_clock_proxy_fence(SimWarp *warp)
{
    if (!warp->clock)
        return;
    memcpy(warp->proxy_clock, warp->clock, warp->cta->cluster->agents * sizeof *warp->proxy_clock);
    tick(warp);
}

/* ------------------------------------------------------------------------ places of a cluster */

/* Sync objects by address: an open hash table of the cluster. */
typedef struct SyncPoint {
    uint64_t address;
    uint32_t *clock; /* SIM_PLANES */
} SyncPoint;

struct SimSyncTable {
    SyncPoint *point;
    size_t count, capacity;
};

/* What is released at block scope lies under the address with the block's rank on top. */
static uint64_t
narrow_key(const SimWarp *warp, uint64_t address)
{
    return address | (uint64_t)(warp->cta->rank + 1) << 56;
}

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
    bigger.point = sim_calloc(bigger.capacity, sizeof *bigger.point);
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

static SyncPoint *
existing_point(const SimCluster *cluster, uint64_t key)
{
    if (!cluster->sync || !cluster->sync->capacity)
        return NULL;
    SyncPoint *point = find_point(cluster->sync, key);
    return point->clock ? point : NULL;
}

static SyncPoint *
make_point(SimCluster *cluster, uint64_t key)
{
    if (!cluster->sync)
        cluster->sync = sim_calloc(1, sizeof *cluster->sync);
    SimSyncTable *table = cluster->sync;
    if (!table || (2 * table->count >= table->capacity && !grow_table(table)))
        return NULL;
    SyncPoint *point = find_point(table, key);
    if (!point->clock) {
        point->clock = sim_calloc(SIM_PLANES * (size_t)cluster->agents, sizeof *point->clock);
        if (!point->clock)
            return NULL;
        point->address = key;
        table->count++;
    }
    return point;
}

/* A write: what it releases takes the place of what was there; an atomic one adds to it (8.7.2:
 * what reads from a read-modify-write has also observed the write that it read). */
static void
leave(SimCluster *cluster, uint64_t key, const uint32_t *clocks, bool adds)
{
    SyncPoint *point = clocks ? make_point(cluster, key) : existing_point(cluster, key);
    size_t count = SIM_PLANES * (size_t)cluster->agents;
    if (!point)
        return;
    if (!adds)
        memset(point->clock, 0, count * sizeof *point->clock);
    if (clocks)
        join(point->clock, clocks, (uint32_t)count);
}

/* ------------------------------------------------------------------------ between clusters */

/* Snapshots by global address, of the whole run; under the run's own lock. */
typedef struct GlobalPoint {
    uint64_t address; /* 0: free */
    SimSnapshot **at;
    size_t count, capacity;
} GlobalPoint;

struct SimGlobalSync {
    pthread_mutex_t lock;
    GlobalPoint *point;
    size_t capacity;
    _Atomic size_t count;
    SimSnapshot *all;
};

static bool
dominated(const SimSnapshot *a, const SimSnapshot *b, uint32_t agents) /* b tells no less than a */
{
    if (a->cluster != b->cluster)
        return false;
    for (uint32_t i = 0; i < agents; i++)
        if (a->clock[i] > b->clock[i])
            return false;
    return true;
}

static bool
knows_foreign(const SimWarp *warp, const Foreign *f)
{
    return warp->clock[f->agent] >= f->clock;
}

bool
sim_sync_knows(const SimWarp *warp, uint64_t cluster, uint32_t agent, uint32_t clock)
{
    const SimCluster *own = warp->cta->cluster;
    if (cluster == own->linear)
        return warp->clock[agent] >= clock;
    const SimForeignList *list = own->foreign;
    for (size_t i = 0; list && i < list->count; i++) {
        const Foreign *f = &list->at[i];
        if (f->snapshot->cluster == cluster && f->snapshot->clock[agent] >= clock &&
            knows_foreign(warp, f))
            return true;
    }
    return false;
}

static void
note_foreign(SimWarp *warp, SimSnapshot *s)
{
    SimCluster *cluster = warp->cta->cluster;
    if (s->cluster == cluster->linear) {
        join(warp->clock, s->clock, cluster->agents);
        join(warp->tensor_clock, s->clock, cluster->agents);
        join(warp->init_clock, s->clock, cluster->agents);
        return;
    }
    if (!cluster->foreign && !(cluster->foreign = sim_calloc(1, sizeof *cluster->foreign)))
        return;
    SimForeignList *list = cluster->foreign;
    for (size_t i = 0; i < list->count; i++) {
        Foreign *f = &list->at[i];
        if (!knows_foreign(warp, f))
            continue;
        if (dominated(s, f->snapshot, cluster->agents))
            return;
        if (f->agent == warp->agent && f->clock == warp->clock[warp->agent] &&
            dominated(f->snapshot, s, cluster->agents)) {
            f->snapshot = s;
            return;
        }
    }
    Foreign *bigger = grow(list->at, list->count, &list->capacity, sizeof *list->at);
    if (!bigger)
        return;
    list->at = bigger;
    list->at[list->count++] = (Foreign){s, warp->agent, warp->clock[warp->agent]};
}

static void
take_snapshot(SimWarp *warp, SimSnapshot *s)
{
    note_foreign(warp, s);
    for (size_t i = 0; i < s->known_count; i++)
        note_foreign(warp, s->known[i]);
}

/* Under the lock. */
static SimSnapshot *
new_snapshot(SimWarp *warp, const uint32_t *clock)
{
    const SimCluster *cluster = warp->cta->cluster;
    const SimForeignList *list = cluster->foreign;
    SimGlobalSync *global = warp->run->global_sync;
    size_t most = list ? list->count : 0;
    SimSnapshot *s = sim_calloc(1, sizeof *s);
    uint32_t *copy = sim_malloc(cluster->agents * sizeof *copy);
    SimSnapshot **known = most ? sim_malloc(most * sizeof *known) : NULL;
    if (!s || !copy || (most && !known)) {
        free(s);
        free(copy);
        free(known);
        return NULL;
    }
    memcpy(copy, clock, cluster->agents * sizeof *copy);
    s->cluster = cluster->linear;
    s->clock = copy;
    s->known = known;
    for (size_t i = 0; i < most; i++)
        if (knows_foreign(warp, &list->at[i]))
            known[s->known_count++] = list->at[i].snapshot;
    s->next = global->all;
    global->all = s;
    return s;
}

static GlobalPoint *
find_global(const SimGlobalSync *global, uint64_t address)
{
    size_t at = (size_t)((address >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 20) % global->capacity;
    while (global->point[at].address && global->point[at].address != address)
        at = (at + 1) % global->capacity;
    return &global->point[at];
}

static bool
grow_global(SimGlobalSync *global)
{
    size_t old_capacity = global->capacity;
    GlobalPoint *old = global->point;
    size_t capacity = old_capacity ? 2 * old_capacity : 64;
    GlobalPoint *bigger = sim_calloc(capacity, sizeof *bigger);
    if (!bigger)
        return false;
    global->point = bigger;
    global->capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].address)
            *find_global(global, old[i].address) = old[i];
    free(old);
    return true;
}

/* `clock`: what the write releases to other clusters, or NULL.  Of what one cluster left before,
 * only what the new one does not tell is kept. */
static void
leave_global(SimWarp *warp, uint64_t address, const uint32_t *clock, bool from_fence, bool adds)
{
    SimGlobalSync *global = warp->run->global_sync;
    uint32_t agents = warp->cta->cluster->agents;
    if (!clock && (adds || !global->count))
        return;
    pthread_mutex_lock(&global->lock);
    if (clock && 2 * global->count >= global->capacity && !grow_global(global)) {
        pthread_mutex_unlock(&global->lock);
        return;
    }
    GlobalPoint *point = find_global(global, address);
    if (!point->address && clock) {
        point->address = address;
        global->count++;
    }
    if (!adds)
        point->count = 0;
    if (clock) {
        SimSnapshot *s = from_fence ? warp->sync->snapshot : NULL;
        if (!s)
            s = new_snapshot(warp, clock);
        if (from_fence)
            warp->sync->snapshot = s;
        size_t left = 0;
        for (size_t i = 0; s && i < point->count; i++)
            if (!dominated(point->at[i], s, agents))
                point->at[left++] = point->at[i];
        point->count = s ? left : point->count;
        SimSnapshot **bigger = grow(point->at, point->count, &point->capacity, sizeof *bigger);
        if (bigger) {
            point->at = bigger;
            if (s)
                point->at[point->count++] = s;
        }
    }
    pthread_mutex_unlock(&global->lock);
}

static void
take_global(SimWarp *warp, uint64_t address, bool acquires)
{
    SimGlobalSync *global = warp->run->global_sync;
    struct SimWarpSync *sync = warp->sync;
    if (!global->count)
        return;
    pthread_mutex_lock(&global->lock);
    const GlobalPoint *point = find_global(global, address);
    for (size_t i = 0; point->address && i < point->count; i++) {
        SimSnapshot *s = point->at[i];
        if (acquires) {
            take_snapshot(warp, s);
            continue;
        }
        size_t k = 0;
        while (k < sync->waiting_count && sync->waiting[k] != s)
            k++;
        if (k < sync->waiting_count)
            continue;
        SimSnapshot **bigger = grow(sync->waiting, sync->waiting_count, &sync->waiting_capacity,
                                    sizeof *bigger);
        if (!bigger)
            break;
        sync->waiting = bigger;
        sync->waiting[sync->waiting_count++] = s;
    }
    pthread_mutex_unlock(&global->lock);
}

/* ------------------------------------------------------------------------ strong accesses */

void
sim_sync_write(SimWarp *warp, uint64_t address, bool is_global, uint8_t order, bool adds)
{
    SimCluster *cluster = warp->cta->cluster;
    if (!warp->clock)
        return;
    bool releases = order & SIM_ORDER_RELEASE, wide = !(order & SIM_ORDER_CTA);
    struct SimWarpSync *sync = warp->sync;
    const uint32_t *now = releases ? warp->clock : NULL;
    leave(cluster, narrow_key(warp, address),
          now                    ? now
          : sync->fenced[NARROW] ? sync->fence[NARROW]
                                 : NULL,
          adds);
    const uint32_t *beyond = !wide                ? NULL
                             : now                ? now
                             : sync->fenced[WIDE] ? sync->fence[WIDE]
                                                  : NULL;
    if (cluster->cta_count > 1)
        leave(cluster, address, beyond, adds);
    if (is_global)
        leave_global(warp, address, beyond, !releases, adds);
    if (releases)
        tick(warp);
}

static void
take(SimWarp *warp, uint64_t key, int scope, bool acquires)
{
    const SimCluster *cluster = warp->cta->cluster;
    const SyncPoint *point = existing_point(cluster, key);
    struct SimWarpSync *sync = warp->sync;
    if (!point)
        return;
    join(acquires ? warp->clock : sync->pending[scope], point->clock, words_of(warp));
    sync->has_pending[scope] |= !acquires;
}

void
sim_sync_read(SimWarp *warp, uint64_t address, bool is_global, uint8_t order)
{
    if (!warp->clock)
        return;
    bool acquires = order & SIM_ORDER_ACQUIRE, wide = !(order & SIM_ORDER_CTA);
    sim_order_lanes(warp); /* lanes may spin for each other; what they then do is not told apart */
    warp->lanes_clock = warp->clock[warp->agent];
    take(warp, narrow_key(warp, address), NARROW, acquires);
    if (wide && warp->cta->cluster->cta_count > 1)
        take(warp, address, WIDE, acquires);
    if (wide && is_global)
        take_global(warp, address, acquires);
}

/* 8.8: a relaxed read and a fence after it acquire; a fence and a relaxed write after it
 * release. */
void
sim_sync_fence(SimWarp *warp, bool beyond)
{
    struct SimWarpSync *sync = warp->sync;
    if (!warp->clock)
        return;
    uint32_t count = words_of(warp);
    sim_order_lanes(warp);
    for (int scope = NARROW; scope <= (beyond ? WIDE : NARROW); scope++)
        if (sync->has_pending[scope]) {
            join(warp->clock, sync->pending[scope], count);
            memset(sync->pending[scope], 0, count * sizeof *sync->pending[scope]);
            sync->has_pending[scope] = false;
        }
    if (beyond) {
        for (size_t i = 0; i < sync->waiting_count; i++)
            take_snapshot(warp, sync->waiting[i]);
        sync->waiting_count = 0;
        sync->snapshot = NULL;
    }
    for (int scope = NARROW; scope <= (beyond ? WIDE : NARROW); scope++) {
        memcpy(sync->fence[scope], warp->clock, count * sizeof *warp->clock);
        sync->fenced[scope] = true;
    }
    tick(warp);
}

void
sim_clock_release_at(SimWarp *warp, uint64_t address)
{
    bool is_global = address - SIM_WINDOW_SHARED >= SIM_WINDOW_SIZE;
    sim_sync_write(warp, address, is_global, SIM_ORDER_STRONG | SIM_ORDER_RELEASE, true);
}

void
sim_clock_acquire_at(SimWarp *warp, uint64_t address)
{
    bool is_global = address - SIM_WINDOW_SHARED >= SIM_WINDOW_SIZE;
    sim_sync_read(warp, address, is_global, SIM_ORDER_STRONG | SIM_ORDER_ACQUIRE);
}

/* ------------------------------------------------------------------------ life */

bool
sim_sync_warp_start(SimWarp *warp)
{
    size_t agents = warp->cta->cluster->agents;
    size_t words = SIM_PLANES * agents;
    warp->clock = sim_calloc((1 + 2 * SCOPES) * words + agents + 2 * SIM_KNOWN_OPS,
                             sizeof *warp->clock);
    warp->sync = sim_calloc(1, sizeof *warp->sync);
    if (!warp->clock || !warp->sync)
        return false;
    warp->proxy_clock = warp->clock + agents;
    warp->tensor_clock = warp->clock + 2 * agents;
    warp->init_clock = warp->clock + 3 * agents;
    for (size_t i = 0; i < SCOPES; i++) {
        warp->sync->fence[i] = warp->clock + (1 + 2 * i) * words;
        warp->sync->pending[i] = warp->clock + (2 + 2 * i) * words;
    }
    warp->sync->init_fence = warp->clock + (1 + 2 * SCOPES) * words;
    warp->known_ops = warp->sync->init_fence + agents;
    tick(warp);
    return true;
}

void
sim_sync_warp_end(SimWarp *warp)
{
    if (warp->sync)
        free(warp->sync->waiting);
    free(warp->sync);
    free(warp->clock);
    free(warp->partial);
    free(warp->lane_known);
}

void
sim_sync_cluster_end(SimCluster *cluster)
{
    SimSyncTable *table = cluster->sync;
    for (size_t i = 0; table && i < table->capacity; i++)
        free(table->point[i].clock);
    if (table)
        free(table->point);
    free(table);
    if (cluster->foreign)
        free(cluster->foreign->at);
    free(cluster->foreign);
}

bool
sim_sync_run_start(SimRun *run)
{
    run->global_sync = sim_calloc(1, sizeof *run->global_sync);
    if (!run->global_sync)
        return false;
    pthread_mutex_init(&run->global_sync->lock, NULL);
    return true;
}

void
sim_sync_run_end(SimRun *run)
{
    SimGlobalSync *global = run->global_sync;
    if (!global)
        return;
    for (size_t i = 0; i < global->capacity; i++)
        free(global->point[i].at);
    free(global->point);
    while (global->all) {
        SimSnapshot *s = global->all;
        global->all = s->next;
        free(s->clock);
        free(s->known);
        free(s);
    }
    pthread_mutex_destroy(&global->lock);
    free(global);
}
