/* variants.c - chooses the set: the plan that brings the most over sample sizes, one after the
 * other. */
#include "compiler/choose/variants.h"

#include <math.h>
#include <string.h>

#include "compiler/choose/tuning.h"
#include "compiler/cost/launch_rows.h"
#include "compiler/cost/trips.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

/* A form more must bring this much on average over the samples, or save this much at one of
 * them. */
static const double worth = 0.01, spared = 0.08;
/* A form for few rows, on average over samples of these. */
static const double worth_alone = 0.01;
/* Of products, whose sizes differ more than those of all else. */
static const double worth_of_products = 0.0002;
/* Percent that tiles beside those that auto takes cost more than is estimated, without warp
 * groups.  Chosen by the 41 launches of sm_80's forms on an H200 that it was tried on: 3 to 5 let
 * the rule take more of the fastest.  Beside their estimates others took 1.04 times what auto's did
 * at head dimension 64, 0.96 at 96, 1.08 at 128, 0.99 at 192 (long forwards); 0.75 at 256, where an
 * H200 has room for more blocks than the record of sm_80 says. */
enum { TILES_MORE = 5 };

/* A form for few elements counts where some size is this small, twice the largest sample. */
enum { FEW_MOST = 384 };

/* Samples: sizes that are divided into tiles, from small to large, with all others from one to
 * many. */
static const int64_t tiled[] = {256, 512, 1024, 1536, 2048, 4096, 8192, 16384};
/* .. and small ones, less than a tile or little more. */
static const int64_t few[] = {64, 96, 128, 192};
static const int64_t others[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 32};
/* A size beside large ones. */
static const int64_t uneven[] = {1,   8,   16,  32,  64,  80,  128,  144,  192,  224,  256,
                                 272, 320, 384, 512, 544, 768, 1024, 1104, 1536, 2048, 3072};
static const int64_t large[] = {3072, 4096, 8192};
/* Of products, which end in whole rounds of tiles: how many that are is a matter of both others. */
static const int64_t wide[] = {2048, 3072,  4096,  5120,  6144, 7168,
                               8192, 10240, 12288, 14336, 28672};
enum {
    UNEVEN_SIZES = sizeof uneven / sizeof uneven[0],
    WIDE = sizeof wide / sizeof wide[0],
    WIDE_STEP = 3, /* from one uneven size to the next, of what the second one of the others is */
    UNEVEN = UNEVEN_SIZES * WIDE,
    TILED = sizeof tiled / sizeof tiled[0],
    FEW = sizeof few / sizeof few[0],
    OTHERS = sizeof others / sizeof others[0],
    SAMPLES = (TILED + FEW) * OTHERS,
    MOST_USUAL = 4, /* forms for usual sizes; .. */
    FOR_FEW = 2,    /* .. others for few elements; of products, all are for usual ones; .. */
    ALONE = 4,      /* .. and others for launches that have an SM for each program, .. */
    LESS_ALONE = 5 /* .. which are taken there if they are not estimated to take so many percent more */
};

/* Few rows, and what is beside them. */
static const int64_t few_rows[] = {1, 4, 16, 32, 64, 128};
static const int64_t lengths[] = {1024, 4096, 8192, 16384, 65536, 131072};
enum { ROWS = sizeof few_rows / sizeof few_rows[0], LENGTHS = sizeof lengths / sizeof lengths[0] };

typedef struct FewRows {
    const int64_t **at;
    uint32_t n;
} FewRows;

typedef struct Choosing {
    PassContext *px;
    const TirFn *sample; /* the kernel with middling sizes */
    const PlanCandidates *plans;
    uint32_t autos;
    /* the loop has nothing but products: how long it takes is a matter of whole rounds of tiles */
    bool products;
    /* some sizes are small where others are large: of products, and of kernels without any */
    bool uneven;
    const int64_t **sizes; /* samples */
    uint32_t n, usual;     /* the first ones have usual sizes, the others few elements */
    TuningTimes measured;
    double *clocks; /* of plan p for sample i at p * n + i, as estimated, or .. */
    double *costs;  /* .. by the figures that a launch takes its form by */
    uint32_t taken[MOST_VARIANTS], n_taken; /* plans */
} Choosing;

static bool
allowed(const TirFn *fn, const int64_t *sizes)
{
    for (uint32_t k = 0; k < fn->requires.n; k++)
        if (trips_evaluate(fn->requires.at[k].condition, sizes, NULL) == 0)
            return false;
    return true;
}

/* A size that must be equal to an expression of others, as query heads to a multiple of key heads,
 * is drawn with these. */
static void
meet(const TirFn *fn, int64_t *sizes)
{
    for (uint32_t k = 0; k < fn->requires.n; k++) {
        const HostExpr *must = fn->requires.at[k].condition;
        if (must->kind == HOST_EQ && must->a->kind == HOST_SIZE &&
            fn->sizes.at[must->a->index].usual == 0)
            sizes[must->a->index] = trips_evaluate(must->b, sizes, NULL);
    }
}

static void
add_sample(Choosing *c, const int64_t *sizes)
{
    for (uint32_t j = 0; j < c->n; j++)
        if (memcmp(sizes, c->sizes[j], c->sample->sizes.n * sizeof *sizes) == 0)
            return;
    if (allowed(c->sample, sizes))
        c->sizes[c->n++] = sizes;
}

/* What the source or the command line says of a size stays. */
static void
draw_with(Choosing *c, int64_t in_tiles, int64_t other)
{
    const TirFn *fn = c->sample;
    int64_t *sizes = arena_array(c->px->arena, int64_t, fn->sizes.n + 1);

    for (uint32_t k = 0; k < fn->sizes.n; k++)
        sizes[k] = fn->sizes.at[k].usual != 0 ? fn->sizes.at[k].usual
                   : trips_in_tiles(fn, k)    ? in_tiles
                                              : other;
    meet(fn, sizes);
    add_sample(c, sizes);
}

/* The `other`th size beside uneven size `i`, in turn `turn`. */
static int64_t
large_beside(const Choosing *c, uint32_t i, uint32_t turn, uint32_t other)
{
    return c->products ? wide[(turn + other * (1 + WIDE_STEP * i)) % WIDE] : large[turn];
}

/* Matrices of few rows or columns, or little depth: size `k` from small to large, all others in
 * tiles large. */
static void
draw_uneven(Choosing *c, uint32_t k)
{
    const TirFn *fn = c->sample;
    uint32_t turns = c->products ? WIDE : sizeof large / sizeof large[0];

    for (uint32_t i = 0;
         i < turns * UNEVEN_SIZES && fn->sizes.at[k].usual == 0 && trips_in_tiles(fn, k); i++) {
        int64_t *sizes = arena_array(c->px->arena, int64_t, fn->sizes.n + 1);
        uint32_t other = 0;
        for (uint32_t j = 0; j < fn->sizes.n; j++) {
            bool drawn = fn->sizes.at[j].usual == 0 && trips_in_tiles(fn, j);
            sizes[j] = fn->sizes.at[j].usual != 0 ? fn->sizes.at[j].usual
                       : drawn ? large_beside(c, i % UNEVEN_SIZES, i / UNEVEN_SIZES, other)
                               : others[0];
            other += drawn && j != k;
        }
        sizes[k] = uneven[i % UNEVEN_SIZES];
        meet(fn, sizes);
        add_sample(c, sizes);
    }
}

/* Sizes with which something was measured are samples, too. */
static void
draw_samples(Choosing *c)
{
    const TirFn *fn = c->sample;

    c->sizes = arena_array(c->px->arena, const int64_t *,
                           SAMPLES + c->measured.n + UNEVEN * fn->sizes.n);
    for (uint32_t i = 0; i < c->measured.n; i++)
        add_sample(c, c->measured.at[i].sizes);
    for (uint32_t i = 0; i < TILED * OTHERS; i++)
        draw_with(c, tiled[i / OTHERS], others[i % OTHERS]);
    for (uint32_t k = 0; k < fn->sizes.n && c->uneven; k++)
        draw_uneven(c, k);
    c->usual = c->n;
    for (uint32_t i = 0; i < FEW * OTHERS; i++)
        draw_with(c, few[i / OTHERS], others[i % OTHERS]);
}

static bool
same_plan(const Choosing *c, const PlanCandidate *candidate, const int32_t *values,
          const PlanHints *b)
{
    const PlanHints *a = &candidate->choice.plan;

    return memcmp(candidate->choice.values, values, c->autos * sizeof *values) == 0 &&
           a->consumers == b->consumers && a->stages == b->stages && a->q_stages == b->q_stages &&
           a->persistent == b->persistent && a->dynamic == b->dynamic && a->clc == b->clc &&
           a->cooperative == b->cooperative && a->paired == b->paired &&
           a->two_blocks == b->two_blocks && a->correction == b->correction;
}

static const HostExpr **
clocks_of(PlanCandidate *plan, bool cost)
{
    return cost ? &plan->cost : &plan->estimate;
}

/* The logarithm of what plan `p` was measured to take over its cost or what is estimated, on
 * average; *n: of how many. */
static double
measured_over(const Choosing *c, uint32_t p, bool cost, uint32_t *n)
{
    const Chip *chip = &c->px->target->chip;
    PlanCandidate *plan = &c->plans->at[p];
    const HostExpr *expected = *clocks_of(plan, cost);
    const Device device = target_device(c->px->target);
    double sum = 0;

    *n = 0;
    for (uint32_t i = 0; i < c->measured.n && expected != NULL; i++) {
        const TuningTime *time = &c->measured.at[i];
        if (!same_plan(c, plan, time->values, &time->plan))
            continue;
        int64_t clocks = trips_evaluate(expected, time->sizes, &device);
        sum += log(time->microseconds * chip->burst_mhz / (double)(clocks > 0 ? clocks : 1));
        ++*n;
    }
    return *n > 0 ? sum / *n : 0;
}

/* What was measured counts more than what is estimated: a plan that takes longer than its estimate,
 * as compared with the others, costs more by as much. */
static void
correct_by_measured(Choosing *c, bool cost)
{
    enum { UNIT = 1000 };
    Arena *arena = c->px->arena;
    double all = 0;
    uint32_t n, plans = 0;

    for (uint32_t p = 0; p < c->plans->n; p++) {
        all += measured_over(c, p, cost, &n);
        plans += n > 0;
    }
    for (uint32_t p = 0; p < c->plans->n; p++) {
        const HostExpr **clocks = clocks_of(&c->plans->at[p], cost);
        double own = measured_over(c, p, cost, &n);
        int64_t factor = n > 0 ? llround(UNIT * exp(own - all / plans)) : UNIT;
        if (factor != UNIT)
            *clocks = host_binary(arena, HOST_DIV,
                                  host_binary(arena, HOST_MUL, *clocks, host_int(arena, factor)),
                                  host_int(arena, UNIT));
    }
}

static double *
estimate_all(Choosing *c, bool cost)
{
    const Device device = target_device(c->px->target);
    double *all = arena_array(c->px->arena, double, (size_t)c->plans->n * c->n + 1);

    for (uint32_t p = 0; p < c->plans->n; p++) {
        const HostExpr *estimate = *clocks_of(&c->plans->at[p], cost);
        for (uint32_t i = 0; i < c->n; i++) {
            int64_t clocks = estimate == NULL ? INT64_MAX
                                              : trips_evaluate(estimate, c->sizes[i], &device);
            all[p * c->n + i] = clocks < 1 ? 1 : (double)clocks;
        }
    }
    return all;
}

/* By what a set grows: clocks of all plans for all samples, which samples count, and what a form
 * more must bring. */
typedef struct Measure {
    const double *clocks;
    uint32_t from, to;
    double worth, spared; /* on average; at one of them */
    uint32_t most;        /* forms in all */
} Measure;

/* Whether plan `p` is worth being one more beside `least`, the clocks so far; *gain: by how much,
 * on average. */
static bool
brings(const Choosing *c, const Measure *by, const double *least, uint32_t p, double *gain)
{
    double most = 0;

    *gain = 0;
    for (uint32_t i = by->from; i < by->to; i++) {
        double saved = log(least[i] / by->clocks[p * c->n + i]);
        most = saved > most ? saved : most;
        *gain += saved > 0 ? saved / (by->to - by->from) : 0;
    }
    return *gain > by->worth || most > by->spared;
}

/* Takes the plan that brings the most, one after the other. */
static void
take_more(Choosing *c, const Measure *by)
{
    double *least = arena_array(c->px->arena, double, c->n + 1);

    for (uint32_t i = by->from; i < by->to; i++) {
        least[i] = INFINITY;
        for (uint32_t k = 0; k < c->n_taken; k++)
            least[i] = fmin(least[i], by->clocks[c->taken[k] * c->n + i]);
    }
    while (c->n_taken < by->most) {
        double best = 0, gain;
        uint32_t index = c->plans->n;
        for (uint32_t p = 0; p < c->plans->n; p++) {
            if (c->plans->at[p].cost != NULL && brings(c, by, least, p, &gain) && gain > best) {
                best = gain;
                index = p;
            }
        }
        if (index == c->plans->n)
            break;
        c->taken[c->n_taken++] = index;
        for (uint32_t i = by->from; i < by->to; i++)
            least[i] = fmin(least[i], by->clocks[index * c->n + i]);
    }
}

/* Whether a size ends the rows of something that a kernel reads: then it is not how many there
 * are. */
static bool
ends_rows(const TirFn *fn, uint32_t size)
{
    bool ends = false;

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);) {
        const TirTensor *read = walk.op->op == TIR_LOAD ? walk.op->tensor : NULL;
        const TensorDim *last = read == NULL ? NULL : &read->dim[read->rank - 1];
        ends |= read != NULL && read->rank > 1 && last->constant == 0 && last->size == size;
    }
    return ends;
}

/* Few rows of what a kernel reads: each size that may be how many, from one to many, with all
 * others in tiles large. */
static void
draw_few_rows(Choosing *c, FewRows *out)
{
    const TirFn *fn = c->sample;

    *out = (FewRows){arena_array(c->px->arena, const int64_t *, ROWS *LENGTHS * fn->sizes.n + 1), 0};
    for (uint32_t i = 0; i < ROWS * LENGTHS * fn->sizes.n; i++) {
        uint32_t rows = i / (ROWS * LENGTHS);
        if (fn->sizes.at[rows].usual != 0 || !trips_in_tiles(fn, rows) || ends_rows(fn, rows))
            continue;
        int64_t *sizes = arena_array(c->px->arena, int64_t, fn->sizes.n + 1);
        for (uint32_t k = 0; k < fn->sizes.n; k++)
            sizes[k] = fn->sizes.at[k].usual != 0 ? fn->sizes.at[k].usual
                       : k == rows                ? few_rows[i % ROWS]
                       : trips_in_tiles(fn, k)    ? lengths[i / ROWS % LENGTHS]
                                                  : others[0];
        meet(fn, sizes);
        if (allowed(fn, sizes))
            out->at[out->n++] = sizes;
    }
}

/* Clocks of plan `p` where it gives no SM more than one program; INFINITY: it gives some. */
static double
clocks_alone(const Choosing *c, uint32_t p, const int64_t *sizes)
{
    const Device device = target_device(c->px->target);
    const TileChoice *choice = &c->plans->at[p].choice;
    bool alone = choice->alone != NULL &&
                 trips_evaluate(choice->programs, sizes, &device) <= device.at[DEVICE_SM_COUNT];

    return alone ? (double)trips_evaluate(choice->alone, sizes, &device) : INFINITY;
}

/* The plan that saves the most where each program has an SM, on average over samples for which
 * there are `least` clocks so far; how many plans there are: none saves enough. */
static uint32_t
best_alone(const Choosing *c, const FewRows *samples, const double *least)
{
    double best = worth_alone * samples->n;
    uint32_t index = c->plans->n;

    for (uint32_t p = 0; p < c->plans->n; p++) {
        double gain = 0;
        for (uint32_t i = 0; i < samples->n; i++) {
            double clocks = clocks_alone(c, p, samples->at[i]);
            gain += clocks < least[i] && least[i] < INFINITY ? log(least[i] / clocks) : 0;
        }
        if (gain > best) {
            best = gain;
            index = p;
        }
    }
    return index;
}

/* Of kernels without products, takes forms for launches of few rows, where each program has an
 * SM. */
static void
take_alone(Choosing *c)
{
    FewRows samples;
    uint32_t most = c->n_taken + ALONE, more;

    draw_few_rows(c, &samples);
    double *least = arena_array(c->px->arena, double, samples.n + 1);
    for (uint32_t i = 0; i < samples.n; i++) {
        least[i] = INFINITY;
        for (uint32_t k = 0; k < c->n_taken; k++)
            least[i] = fmin(least[i], clocks_alone(c, c->taken[k], samples.at[i]));
    }
    while (c->n_taken < most && (more = best_alone(c, &samples, least)) < c->plans->n) {
        c->taken[c->n_taken++] = more;
        for (uint32_t i = 0; i < samples.n; i++)
            least[i] = fmin(least[i], clocks_alone(c, more, samples.at[i]));
    }
}

/* Plans for warp groups, or tiles where there are none for the kernel's own form. */
static PlanCandidates
candidates_beside(const Front *front, const PassContext *px, Arena *trials, const char *name,
                  const TileChoice *own)
{
    const TilecSearch all = {0};
    PassContext quiet = *px;

    quiet.report = NULL;
    if (own->plan.consumers > 0)
        return auto_plan_candidates(front, &quiet, trials, name, &all, NULL);
    /* beside kernels that have plans, whose times were fitted to launches, those of products
     * without one have no estimate */
    TileChoices tiles = target_predicts_roles(px->target) && own->launch == NULL
                            ? (TileChoices){0}
                            : auto_tiles_forms(front, &quiet, trials, name);
    PlanCandidates found = {.at = arena_array(px->arena, PlanCandidate, tiles.n + 1), .n = tiles.n};
    for (uint32_t k = 0; k < tiles.n; k++)
        found.at[k] = (PlanCandidate){
            .choice = tiles.at[k], .cost = tiles.at[k].launch, .estimate = tiles.at[k].estimate};
    return found;
}

static const HostExpr *
more_than(Arena *arena, const HostExpr *clocks, int64_t more)
{
    const HostExpr *percent = host_int(arena, 100 + more);

    return host_binary(arena, HOST_DIV, host_binary(arena, HOST_MUL, clocks, percent),
                       host_int(arena, 100));
}

/* Clocks by which a launch takes such a form: it does where each program has an SM. */
static const HostExpr *
for_alone(const Choosing *c, const TileChoice *choice)
{
    Arena *arena = c->px->arena;
    const HostExpr *wait = host_binary(arena, HOST_SUB, choice->programs, host_int(arena, 1));

    wait = host_binary(arena, HOST_DIV, wait, host_device(arena, DEVICE_SM_COUNT));
    wait = host_binary(arena, HOST_MIN, wait, host_int(arena, 1));
    return host_binary(arena, HOST_MUL, more_than(arena, choice->alone_beside, -LESS_ALONE),
                       host_binary(arena, HOST_ADD, host_int(arena, 1), wait));
}

/* For few elements: twice as long where none of the sizes that are divided into tiles is small. */
static const HostExpr *
for_few(const Choosing *c, const HostExpr *clocks)
{
    Arena *arena = c->px->arena;
    const HostExpr *least = NULL;

    for (uint32_t k = 0; k < c->sample->sizes.n; k++) {
        if (!trips_in_tiles(c->sample, k))
            continue;
        HostExpr *size = arena_new(arena, HostExpr);
        *size = (HostExpr){.kind = HOST_SIZE, .index = k};
        least = least == NULL ? size : host_binary(arena, HOST_MIN, least, size);
    }
    clocks = more_than(arena, clocks, c->px->target->launch_times.few_more);
    if (least == NULL)
        return clocks;
    const HostExpr *beyond = host_binary(arena, HOST_DIV, least, host_int(arena, FEW_MOST + 1));
    beyond = host_binary(arena, HOST_MIN, beyond, host_int(arena, 1));
    return host_binary(arena, HOST_MUL, clocks,
                       host_binary(arena, HOST_ADD, host_int(arena, 1), beyond));
}

/* One of tiles, if it is not that of the kernel itself.  More warps are for launches that have an
 * SM for each program. */
static void
cost_more(Arena *arena, const TileChoice *own, PlanCandidate *other)
{
    if (other->choice.alone != NULL && other->choice.warps > own->warps)
        other->cost = other->estimate = NULL;
    if (other->cost == NULL)
        return;
    other->cost = more_than(arena, other->cost, TILES_MORE);
    other->estimate = more_than(arena, other->estimate, TILES_MORE);
}

static bool
is_own(const Choosing *c, const PlanCandidate *candidate, const TileChoice *own)
{
    bool same = own->plan.consumers > 0 ||
                (candidate->choice.warps == own->warps && candidate->choice.stages == own->stages);

    return same && same_plan(c, candidate, own->values, &own->plan);
}

PlanVariants
plan_variants(const Front *front, PassContext *px, Arena *trials, const char *name,
              const TileChoice *own)
{
    PlanVariants out = {0};
    AutoTiles open = {0};

    Diag *diag = px->diag;
    uint32_t messages = diag->messages.n;

    PlanCandidates plans = candidates_beside(front, px, trials, name, own);
    Front sample = *front; /* which stays, for the names of its sizes */
    Choosing c = {.px = px, .plans = &plans, .sample = front_kernel(&sample, name, NULL, &open)};
    uint32_t first = 0;
    c.autos = open.asked < MAX_AUTO ? open.asked : MAX_AUTO;
    while (first < plans.n && !is_own(&c, &plans.at[first], own))
        first++;
    if (c.sample == NULL || plans.n == 0)
        out.why = "there are no plans for warp groups to choose from";
    else if (first == plans.n || plans.at[first].cost == NULL)
        out.why = "how long its form takes is no expression of the sizes";
    if (out.why != NULL)
        return out;
    for (uint32_t p = 0; p < plans.n && own->plan.consumers == 0; p++)
        if (p != first)
            cost_more(px->arena, own, &plans.at[p]);
    if (front->options->tuning != NULL && own->plan.consumers > 0)
        c.measured = tuning_times(px->arena, diag, front->options->tuning_path,
                                  front->options->tuning, px->target, c.sample, &open);
    diag->messages.n = messages; /* what can not be read was said when the first form was chosen */
    c.products = own->plan.consumers > 0 && consumer_only_mmas(&plans.at[first].work);
    c.uneven = c.products || own->launch != NULL;
    draw_samples(&c);
    correct_by_measured(&c, false);
    correct_by_measured(&c, true);
    c.clocks = estimate_all(&c, false);
    c.costs = estimate_all(&c, true);
    c.taken[c.n_taken++] = first;
    take_more(&c, &(Measure){.clocks = c.clocks,
                             .to = c.usual,
                             .worth = c.products ? worth_of_products : worth,
                             .spared = spared,
                             .most = c.products ? MOST_VARIANTS : MOST_USUAL});
    uint32_t usual = c.n_taken;
    take_alone(&c);
    uint32_t alone = c.n_taken;
    int32_t few_more = px->target->launch_times.few_more;
    if (own->plan.consumers > 0 && few_more > 0)
        take_more(&c, &(Measure){.clocks = c.costs,
                                 .from = c.usual,
                                 .to = c.n,
                                 .worth = INFINITY,
                                 .spared = spared + few_more / 100.0,
                                 .most = usual + FOR_FEW < MOST_VARIANTS ? usual + FOR_FEW
                                                                         : MOST_VARIANTS});
    while (out.n < c.n_taken) {
        const PlanCandidate *plan = &plans.at[c.taken[out.n]];
        const HostExpr *cost = out.n < usual   ? plan->cost
                               : out.n < alone ? for_alone(&c, &plan->choice)
                                               : for_few(&c, plan->cost);
        out.at[out.n] = (PlanVariant){plan->choice, cost};
        out.at[out.n].choice.once = out.n >= usual && out.n < alone && plan->choice.loops;
        out.n++;
    }
    return out;
}

const HostExpr *
variant_clocks(PassContext *px, TirFn *fn)
{
    Cost cost;

    if (count_mmas(fn->body) > 0)
        return NULL;
    cost_estimate(px, fn, &cost);
    RowTerms terms = launch_terms_of_rows(px->arena, fn, &cost);
    double lanes = launch_lanes_of_rows(&cost.units) +
                   launch_additions_of_rows(px->target, &cost.units);
    return launch_cost_of_rows(px->arena, px->target, &terms, lanes, cost.blocks);
}
