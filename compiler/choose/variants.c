/* variants.c - chooses the set: the plan that brings the most over sample sizes, one after the other. */
#include "compiler/choose/variants.h"

#include <math.h>
#include <string.h>

#include "compiler/cost/trips.h"

/* A form more must bring this much on average over the samples, or save this much at one of them. */
static const double worth = 0.01, spared = 0.08;

/* Samples: sizes that are divided into tiles, from small to large, with all others from one to many. */
static const int64_t tiled[] = {256, 512, 1024, 1536, 2048, 4096, 8192, 16384};
static const int64_t others[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 32};
enum {
    TILED = sizeof tiled / sizeof tiled[0],
    OTHERS = sizeof others / sizeof others[0],
    SAMPLES = TILED * OTHERS
};

typedef struct Choosing {
    PassContext *px;
    const TirFn *sample; /* the kernel with middling sizes */
    const PlanCandidates *plans;
    const int64_t *sizes[SAMPLES];
    uint32_t n;
    double *clocks; /* of plan p for sample i at p * n + i */
} Choosing;

static bool
allowed(const TirFn *fn, const int64_t *sizes)
{
    for (uint32_t k = 0; k < fn->requires.n; k++)
        if (trips_evaluate(fn->requires.at[k].condition, sizes, 1) == 0)
            return false;
    return true;
}

/* What the source or the command line says of a size stays. */
static void
draw_samples(Choosing *c)
{
    const TirFn *fn = c->sample;

    for (uint32_t i = 0; i < SAMPLES; i++) {
        int64_t *sizes = arena_array(c->px->arena, int64_t, fn->sizes.n + 1);
        bool again = false;
        for (uint32_t k = 0; k < fn->sizes.n; k++)
            sizes[k] = fn->sizes.at[k].usual != 0 ? fn->sizes.at[k].usual
                       : trips_in_tiles(fn, k)    ? tiled[i / OTHERS]
                                                  : others[i % OTHERS];
        for (uint32_t j = 0; j < c->n; j++)
            again |= memcmp(sizes, c->sizes[j], fn->sizes.n * sizeof *sizes) == 0;
        if (!again && allowed(fn, sizes))
            c->sizes[c->n++] = sizes;
    }
}

static void
estimate_all(Choosing *c)
{
    int64_t sm_count = c->px->target->chip.sm_count;

    c->clocks = arena_array(c->px->arena, double, (size_t)c->plans->n * c->n + 1);
    for (uint32_t p = 0; p < c->plans->n; p++) {
        const HostExpr *cost = c->plans->at[p].cost;
        for (uint32_t i = 0; i < c->n; i++) {
            int64_t clocks = cost == NULL ? INT64_MAX : trips_evaluate(cost, c->sizes[i], sm_count);
            c->clocks[p * c->n + i] = clocks < 1 ? 1 : (double)clocks;
        }
    }
}

static bool
same_plan(const PlanCandidate *candidate, const TileChoice *choice, uint32_t autos)
{
    const PlanHints *a = &candidate->choice.plan, *b = &choice->plan;

    return memcmp(candidate->choice.values, choice->values, autos * sizeof *choice->values) == 0 &&
           a->consumers == b->consumers && a->stages == b->stages && a->q_stages == b->q_stages &&
           a->persistent == b->persistent && a->dynamic == b->dynamic &&
           a->cooperative == b->cooperative && a->paired == b->paired &&
           a->two_blocks == b->two_blocks;
}

/* Whether plan `p` is worth being one more beside `least`, the clocks so far; *gain: by how much, on average. */
static bool
brings(const Choosing *c, const double *least, uint32_t p, double *gain)
{
    double most = 0;

    *gain = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        double saved = log(least[i] / c->clocks[p * c->n + i]);
        most = saved > most ? saved : most;
        *gain += saved > 0 ? saved / c->n : 0;
    }
    return *gain > worth || most > spared;
}

static void
take(const Choosing *c, double *least, uint32_t p, PlanVariants *out)
{
    out->at[out->n++] = (PlanVariant){c->plans->at[p].choice, c->plans->at[p].cost};
    for (uint32_t i = 0; i < c->n; i++)
        least[i] = out->n == 1 ? c->clocks[p * c->n + i] : fmin(least[i], c->clocks[p * c->n + i]);
}

PlanVariants
plan_variants(const Front *front, PassContext *px, Arena *trials, const char *name,
              const TileChoice *own)
{
    PlanVariants out = {0};
    const TilecSearch all = {0};
    PassContext quiet = *px;
    AutoTiles open = {0};

    quiet.report = NULL;
    PlanCandidates plans = auto_plan_candidates(front, &quiet, trials, name, &all, NULL);
    Front sample = *front; /* which stays, for the names of its sizes */
    Choosing c = {.px = px, .plans = &plans, .sample = front_kernel(&sample, name, NULL, &open)};
    uint32_t first = 0, autos = open.asked < MAX_AUTO ? open.asked : MAX_AUTO;
    while (first < plans.n && !same_plan(&plans.at[first], own, autos))
        first++;
    if (c.sample == NULL || plans.n == 0 || own->plan.consumers == 0)
        out.why = "there are no plans for warp groups to choose from";
    else if (first == plans.n || plans.at[first].cost == NULL)
        out.why = "how long its form takes is no expression of the sizes";
    if (out.why != NULL)
        return out;
    draw_samples(&c);
    estimate_all(&c);
    double *least = arena_array(px->arena, double, c.n + 1);
    take(&c, least, first, &out);
    while (out.n < MOST_VARIANTS) {
        double best = 0, gain;
        uint32_t index = plans.n;
        for (uint32_t p = 0; p < plans.n; p++) {
            if (plans.at[p].cost != NULL && brings(&c, least, p, &gain) && gain > best) {
                best = gain;
                index = p;
            }
        }
        if (index == plans.n)
            break;
        take(&c, least, index, &out);
    }
    return out;
}
