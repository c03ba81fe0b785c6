/* clock_deal.c - deals the tiles of a launch to SMs in the order in which they become free
 * (clock_deal.h). */
#include "backends/clock/clock_deal.h"

#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES = 24,       /* of tiles */
    FIRST_SAMPLES = 12, /* of the blocks that begin */
    LEAST_SAMPLES = 4,  /* that tell whether they are all alike */
    MOST_ITEMS = 1 << 16
};

/* Times of some of a row of tiles; those between lie between. */
typedef struct Sampled {
    uint64_t at[2 * SAMPLES];
    double first[2 * SAMPLES]; /* until it draws; of tiles: until the next draw */
    double end[2 * SAMPLES];   /* until it ends */
    uint32_t n;
} Sampled;

typedef struct Deal {
    const DealJob *job;
    uint64_t counter, base, step; /* as in SimLaunch; before the launch; of a draw; 0: none */
    uint64_t slots;               /* clusters that begin at once */
    uint64_t served, ended;       /* a draw of this number gave a tile, of that none */
    uint64_t period;              /* blocks that repeat: those of a row of the grid; 0: none */
    Sampled begin, items;
} Deal;

/* ---- running some clusters ---- */

static SimReport *
run(const Deal *deal, const SimDealt *dealt, size_t n)
{
    SimLaunch launch = *deal->job->launch;

    launch.dealt = dealt;
    launch.dealt_count = n;
    launch.counter = deal->counter;
    launch.drawn_last = deal->base + deal->ended * deal->step;
    launch.progress = NULL;
    SimReport *report = sim_launch(deal->job->module, &launch);
    if (report != NULL && report->status != SIM_STATUS_ERROR && report->trace != NULL &&
        report->trace->cluster_count == n)
        return report;
    if (report != NULL)
        sim_report_free(report);
    return NULL;
}

/* One cluster by itself. */
static void
replay_one(const Deal *deal, const SimReport *report, size_t k, ClockResult *out)
{
    SimTrace one = {&report->trace->clusters[k], 1};
    ClockJob job = deal->job->clock;

    job.trace = &one;
    job.resident = 1;
    job.code = NULL;
    job.paths = NULL;
    clock_replay(deal->job->arena, &job, out);
}

/* Whether blocks take about as long as one another: then there is nothing to deal. */
static bool
are_alike(const Sampled *of)
{
    double least = of->end[0], most = of->end[0];

    for (uint32_t k = 1; k < of->n; k++) {
        least = of->end[k] < least ? of->end[k] : least;
        most = of->end[k] > most ? of->end[k] : most;
    }
    return most <= 1.02 * least;
}

static void
note(Sampled *of, uint64_t at, double first, double end)
{
    if (of->n < 2 * SAMPLES) {
        of->at[of->n] = at;
        of->first[of->n] = first;
        of->end[of->n++] = end;
    }
}

static double
between(const Sampled *of, const double *times, uint64_t at)
{
    uint32_t above = 0;

    while (above < of->n && of->at[above] < at)
        above++;
    if (above == of->n)
        return of->n ? times[of->n - 1] : 0;
    if (above == 0 || of->at[above] == at)
        return times[above];
    double part = (double)(at - of->at[above - 1]) / (double)(of->at[above] - of->at[above - 1]);
    return times[above - 1] + part * (times[above] - times[above - 1]);
}

/* ---- what the launch draws ---- */

/* Of the sample in turn.  False: it draws nothing, or in a way that is not understood. */
static bool
find_counter(Deal *deal)
{
    const SimTrace *trace = deal->job->trace;

    deal->base = UINT64_MAX;
    for (size_t c = 0; c < trace->cluster_count; c++) {
        const SimTracedCluster *t = &trace->clusters[c];
        if (t->drawn_count == 0 || t->counters || t->step == 0 ||
            t->counter != trace->clusters[0].counter || t->step != trace->clusters[0].step)
            return false;
        for (size_t k = 0; k < t->drawn_count; k++)
            deal->base = t->drawn[k] < deal->base ? t->drawn[k] : deal->base;
    }
    deal->counter = trace->clusters[0].counter;
    deal->step = trace->clusters[0].step;
    deal->ended = UINT64_MAX;
    for (size_t c = 0; c < trace->cluster_count; c++) { /* the last draw of each gave no tile */
        const SimTracedCluster *t = &trace->clusters[c];
        uint64_t none = (t->drawn[t->drawn_count - 1] - deal->base) / deal->step;
        deal->ended = none < deal->ended ? none : deal->ended;
    }
    return true;
}

/* ---- what tiles take ---- */

/* Some blocks without any further tile, of the first ones. */
static bool
sample_first(Deal *deal, uint64_t of, uint32_t most)
{
    uint32_t n = of < most ? (uint32_t)of : most;
    SimDealt dealt[SAMPLES] = {{0}};

    deal->begin.n = 0;
    for (uint32_t k = 0; k < n; k++)
        dealt[k] = (SimDealt){.cluster = n > 1 ? k * (of - 1) / (n - 1) : 0};
    SimReport *report = run(deal, dealt, n);
    if (report == NULL)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        ClockResult result;
        replay_one(deal, report, k, &result);
        double end = (double)result.cycles;
        note(&deal->begin, dealt[k].cluster, result.draws.n ? result.draws.at[0].at : end, end);
    }
    sim_report_free(report);
    return true;
}

/* Of a grid of rows that are all alike, whose blocks are not: the first row tells what all take. */
static bool
rows_repeat(Deal *deal, uint64_t of)
{
    const SimLaunch *launch = deal->job->launch;
    uint64_t row = launch->grid[0] / (launch->cluster[0] ? launch->cluster[0] : 1);
    SimDealt dealt[4] = {{0}};
    double took[4];

    if (row < 2 || of < 2 * row)
        return false;
    uint64_t last = (of / row - 1) * row;
    dealt[1].cluster = row - 1;
    dealt[2].cluster = last;
    dealt[3].cluster = last + row - 1;
    SimReport *report = run(deal, dealt, 4);
    if (report == NULL)
        return false;
    for (uint32_t k = 0; k < 4; k++) {
        ClockResult result;
        replay_one(deal, report, k, &result);
        took[k] = (double)result.cycles;
    }
    sim_report_free(report);
    for (uint32_t k = 0; k < 2; k++) {
        if (took[k + 2] > 1.02 * took[k] || took[k] > 1.02 * took[k + 2])
            return false;
    }
    deal->period = row;
    return true;
}

/* The blocks that begin, some of them. */
static bool
sample_blocks(Deal *deal, uint64_t of, uint32_t most)
{
    return sample_first(deal, deal->period ? deal->period : of, most);
}

/* What block `at` takes. */
static double
block_time(const Deal *deal, const double *times, uint64_t at)
{
    return between(&deal->begin, times, deal->period ? at % deal->period : at);
}

/* False: nothing can be said, or they are all alike. */
static bool
sample_uneven_blocks(Deal *deal, uint64_t of, uint32_t most)
{
    rows_repeat(deal, of);
    return sample_blocks(deal, of, LEAST_SAMPLES) && !are_alike(&deal->begin) &&
           sample_blocks(deal, of, most);
}

/* One block draws tiles `from`, and every `by`th from there, until there is none: which these are,
 * and how long each took. */
static bool
sample_tiles(Deal *deal, uint64_t from, uint64_t by)
{
    uint64_t drawn[SAMPLES];
    SimDealt one = {.cluster = deal->begin.at[deal->begin.n - 1], .drawn = drawn};
    ClockResult result;

    for (uint64_t at = from; at < deal->ended && one.drawn_count < SAMPLES; at += by)
        drawn[one.drawn_count++] = deal->base + at * deal->step;
    SimReport *report = run(deal, &one, 1);
    if (report == NULL)
        return false;
    size_t asked = report->trace->clusters[0].drawn_count;
    replay_one(deal, report, 0, &result);
    sim_report_free(report);
    if (asked == 0 || result.draws.n != asked)
        return false;
    for (size_t k = 0; k + 1 < asked; k++) { /* each but the last gave a tile */
        uint64_t at = from + k * by;
        double took = result.draws.at[k + 1].at - result.draws.at[k].at;
        if (deal->items.n == 0 || at > deal->items.at[deal->items.n - 1])
            note(&deal->items, at, took, took);
        deal->served = at + 1 > deal->served ? at + 1 : deal->served;
    }
    if (asked <= one.drawn_count)
        deal->ended = from + (asked - 1) * by;
    return true;
}

/* How many tiles there are, and what they take. */
static bool
sample_all_tiles(Deal *deal)
{
    while (deal->served < deal->ended) {
        uint64_t by = (deal->ended - deal->served + SAMPLES - 1) / SAMPLES;
        uint64_t served = deal->served, ended = deal->ended;
        if (!sample_tiles(deal, deal->served, by))
            return false;
        if (deal->served == served && deal->ended == ended)
            return false;
    }
    return true;
}

/* ---- dealing ---- */

typedef struct Slot {
    double free, end;
    VEC(uint64_t) items; /* draws; or clusters */
} Slot;

/* Each item goes to the slot that is free first. */
static Slot *
deal_out(const Deal *deal, uint64_t items)
{
    Arena *arena = deal->job->arena;
    Slot *slots = arena_array(arena, Slot, deal->slots);

    for (uint64_t s = 0; s < deal->slots; s++) {
        slots[s].free = block_time(deal, deal->begin.first, s);
        slots[s].end = block_time(deal, deal->begin.end, s);
    }
    for (uint64_t i = 0; i < items; i++) {
        uint64_t first = 0;
        for (uint64_t s = 1; s < deal->slots; s++)
            first = slots[s].free < slots[first].free ? s : first;
        uint64_t item = deal->counter ? deal->base + i * deal->step : deal->slots + i;
        double took = deal->counter ? between(&deal->items, deal->items.first, i)
                                    : block_time(deal, deal->begin.end, item);
        slots[first].free += took;
        slots[first].end += took;
        vec_push(arena, &slots[first].items, item);
    }
    return slots;
}

/* The SM whose blocks have most to do, which share it; the mean of all, too. */
static uint64_t
last_sm(const Deal *deal, const Slot *slots, double *end, double *mean)
{
    uint64_t sms = deal->job->sms < deal->slots ? deal->job->sms : deal->slots, last = 0;

    *end = *mean = 0;
    for (uint64_t m = 0; m < sms; m++) {
        double of = 0;
        for (uint64_t s = m; s < deal->slots; s += sms)
            of += slots[s].end;
        *mean += of / (double)sms;
        if (of > *end) {
            *end = of;
            last = m;
        }
    }
    return last;
}

/* Cluster launch control: the clusters beyond those that begin at once are drawn. */
static bool
count_launches(Deal *deal)
{
    deal->counter = SIM_LAUNCHES;
    deal->base = deal->slots;
    deal->step = 1;
    deal->ended = deal->job->clusters - deal->slots;
    return deal->ended > 0;
}

/* What the clusters of an SM do, in the order in which they begin. */
static SimReport *
run_sm(const Deal *deal, const Slot *slots, uint64_t m, uint64_t *tiles)
{
    Arena *arena = deal->job->arena;
    VEC(SimDealt) dealt = {0};
    uint64_t rounds = 0;

    for (uint64_t s = m; s < deal->slots; s += deal->job->sms) {
        SimDealt one = {.cluster = s};
        if (deal->counter) {
            one.drawn = slots[s].items.at;
            one.drawn_count = slots[s].items.n;
        }
        *tiles += slots[s].items.n;
        vec_push(arena, &dealt, one);
        rounds = slots[s].items.n > rounds ? slots[s].items.n : rounds;
    }
    for (uint64_t k = 0; !deal->counter && k < rounds; k++) {
        for (uint64_t s = m; s < deal->slots; s += deal->job->sms) {
            if (k < slots[s].items.n)
                vec_push(arena, &dealt, ((SimDealt){.cluster = slots[s].items.at[k]}));
        }
    }
    return run(deal, dealt.at, dealt.n);
}

/* Does a cluster ask the hardware for the next one? */
static bool
asks_for_clusters(const DealJob *job)
{
    SimInsnView v;

    for (uint32_t k = 0; sim_insn_at(job->module, k, &v); k++) {
        if (strncmp(v.mnemonic, "clusterlaunchcontrol", 20) == 0)
            return true;
    }
    return false;
}

/* Dealing goes through all slots for each item. */
static SimReport *
too_many(const char **told)
{
    *told = "blocks and tiles go to SMs in turn: there are too many to deal them";
    return NULL;
}

SimReport *
clock_deal(const DealJob *job, const char **told)
{
    Deal deal = {.job = job, .slots = job->sms * job->clock.resident};
    uint64_t items = 0, tiles = 0;
    double end, mean;

    deal.slots = job->clusters < deal.slots ? job->clusters : deal.slots;
    bool asks = asks_for_clusters(job);
    if (job->trace->cluster_count == 0)
        return NULL;
    if (!asks && job->clusters > deal.slots) { /* blocks as SMs become free */
        items = job->clusters - deal.slots;
        if (job->trace->clusters[0].drawn_count)
            return NULL;
        if (items > MOST_ITEMS)
            return too_many(told);
        if (!sample_uneven_blocks(&deal, job->clusters, SAMPLES))
            return NULL;
    } else if (!asks && job->trace->clusters[0].drawn_count == 0) { /* all at once */
        if (!sample_uneven_blocks(&deal, deal.slots, SAMPLES))
            return NULL;
    } else { /* tiles from a counter */
        if (!(asks ? count_launches(&deal) : find_counter(&deal)))
            return NULL;
        if (deal.ended > MOST_ITEMS)
            return too_many(told);
        if (!sample_uneven_blocks(&deal, deal.slots, FIRST_SAMPLES) || !sample_all_tiles(&deal))
            return NULL;
        items = deal.ended;
    }
    Slot *slots = deal_out(&deal, items);
    uint64_t m = last_sm(&deal, slots, &end, &mean);
    SimReport *report = run_sm(&deal, slots, m, &tiles);
    *told = arena_printf(
        job->arena,
        "%llu %s dealt to SMs as they become free: this one, of block %llu, has %llu "
        "of them and ends last; the mean one at %.0f %% of that",
        (unsigned long long)items, deal.counter ? "tiles" : "blocks", (unsigned long long)m,
        (unsigned long long)tiles, 100 * mean / end);
    return report;
}
