/* auto_plan.c - choosing a plan for warp groups.
 *
 * A candidate is a value for each `auto` parameter and a number of consumers.  A consumer has 64
 * rows, or more where nothing is computed between products.  Blocks are persistent.  Where work
 * tiles differ in length, or consumers share a product, one work tile a block is a candidate, too;
 * it is the only one where they share a product without lookahead.  The candidate's kernel is built
 * up to the pass `plan`; consumer_time.c estimates the time of a launch from what one iteration
 * asks of the units.  What does not fit shared memory or registers is not a candidate.
 */
#include "compiler/choose/auto_plan.h"

#include <string.h>

#include "compiler/choose/kept_kernels.h"
#include "compiler/choose/plan_words.h"
#include "compiler/choose/product_tiles.h"
#include "compiler/choose/trial.h"
#include "compiler/choose/tuning.h"
#include "compiler/choose/unseen_rows.h"
#include "compiler/cost/launch_cost.h"
#include "compiler/front/front.h"
#include "compiler/ir/layout.h"
#include "compiler/passes/util/tir_util.h"

enum {
    MOST_STAGES = 4,    /* with arithmetic between products; more were not tried there */
    ENOUGH_STAGES = 3,  /* a fourth stage gains less than a staging buffer for the result */
    MOST_CHOICES = 512, /* candidates, a bound on work; the examples have at most 252 */
    MOST_FEW = 32, /* blocks of the least rows, beside which other rows are tried (known sizes) */
    COOP_K_SHARED = 512 /* beside tiles, where all large buffers are counted (shared products) */
};

/* For sizes that are not known, how much longer a launch counts if a tile size does not divide
 * USUAL_TILE: the last tile of a dimension is mostly padding then.  A round figure. */
static const double ragged = 1.015;

typedef struct PlanSearch {
    Front front; /* into the arena of trials */
    KeptKernels kept;
    PassContext *px;
    const char *kernel;
    const TilecSearch *asked; /* NULL: nothing */
    PlanCandidate *found;
    uint32_t n, room, autos;
    AutoTiles open;
    const int64_t *sizes; /* of the tensors, by index */
    bool sizes_known;     /* else these are as good as any */
    bool one_block;       /* only consumers of 64 rows */
    bool any_rows;        /* consumers of more, whatever is computed between products */
    bool more_rows;       /* some that were passed over have more */
    bool corrects;        /* plans with a correction role, too */
    bool issued;          /* products are, by a role of their own */
    bool refused;         /* the last kernel can not have its plan, nor one for more consumers */
    TileChoice compared;  /* the values last asked about in may_be_replaced .. */
    bool unseen;          /* .. and the answer */
} PlanSearch;

/* ---- one kernel ---- */

static bool
same_values(const TileChoice *a, const TileChoice *b)
{
    return memcmp(a->values, b->values, sizeof a->values) == 0 && a->replaced == b->replaced &&
           a->replacement == b->replacement;
}

/* Whether a parameter that has another value than the user's says nothing but how many rows a
 * consumer has. */
static bool
may_be_replaced(PlanSearch *s, const TileChoice *choice)
{
    TileChoice given = *choice;

    if (choice->replaced == NULL || same_values(&s->compared, choice))
        return choice->replaced == NULL || s->unseen;
    given.replaced = given.replacement = NULL;
    arena_rewind(s->front.arena, s->kept.top);
    const TirFn *narrow = tile_choice_kernel(&s->front, s->kernel, choice),
                *wide = tile_choice_kernel(&s->front, s->kernel, &given);
    s->compared = *choice;
    s->unseen = narrow != NULL && wide != NULL && rows_are_unseen(s->front.arena, wide, narrow);
    return s->unseen;
}

/* The kernel with the values of `choice` after the pass `plan`, quietly; NULL: no plan. */
static TirFn *
planned_kernel(PlanSearch *s, const TileChoice *choice)
{
    Trial trial;

    trial_begin(&trial, s->px, s->front.arena);
    trial.px.plan = choice->plan;
    TirFn *formed = may_be_replaced(s, choice) ? kept_formed(&s->kept, choice) : NULL;
    bool may = formed != NULL &&
               (choice->plan.consumers > 1 || !plan_is_hopeless(&trial.px, formed));
    TirFn *fn = may ? kept_copy(&s->kept, choice) : NULL;
    trial.px.refused = true;
    bool done = fn != NULL && passes_run_list(&trial.px, fn, &trial.run, "plan");
    s->refused = trial.px.refused;
    trial_end(&trial);
    return done && fn->plan != NULL ? fn : NULL;
}

/* ---- candidates ---- */

/* Adds a candidate; false if it takes more registers than a thread has. */
static bool
add_plan(PlanSearch *s, const TileChoice *values, const ConsumerWork *w, const ConsumerTrips *trips,
         PlanHints plan)
{
    static const double clearly_ahead = 1.1;
    const Target *target = s->px->target;
    bool dynamic = plan.persistent && plan.dynamic &&
                   (w->variable_trips || w->sliding || w->ended) && !w->lookahead &&
                   (!plan.paired || target_can(target, CAN_TAKE_LAUNCHES));
    uint32_t registers = dynamic ? target->dynamic_registers[plan.consumers].consumer
                                 : target->role_registers[plan.consumers].consumer;

    if (!consumer_fits_registers(w, plan.consumers, registers))
        return false;
    if (s->n == MOST_CHOICES)
        return true;
    plan.clc = dynamic &&
               target_can(target, CAN_TAKE_LAUNCHES); /* as fast, and no counter to clear */
    if (s->n == s->room)
        s->found = arena_grow(s->px->arena, s->found, sizeof *s->found, s->n, &s->room);
    PlanCandidate *found = &s->found[s->n++];
    *found = (PlanCandidate){.choice = *values,
                             .work = *w,
                             .trips = *trips,
                             .clocks = consumer_time(target, w, trips, &plan, true),
                             .pipelined = consumer_pipelines(target, w, &plan)};
    found->work.n_loops = 0;
    found->choice.warps = GROUP_WARPS;
    found->choice.plan = plan;
    found->shared_bytes = consumer_shared_bytes(w, &plan);
    found->microseconds = kernel_microseconds(target, &found->clocks);
    found->choice.cost = (Cost){
        .fits = true, .clocks = found->clocks.total, .per_work = found->microseconds};
    if (!s->sizes_known) { /* do not count the idle SMs of the last wave */
        ConsumerClocks near = consumer_time(target, w, trips, &plan, false);
        found->choice.cost.per_work = kernel_microseconds(target, &near);
    }
    /* Three shapes of such plans were measured, none is among those that the constants are fitted
     * to: ahead, if clearly. */
    found->choice.cost.per_work *= w->spare_bytes > 0 ? clearly_ahead : 1;
    /* (With a shared product all consumers go through the whole loop, whose trips count the padding
     * already.) */
    for (uint32_t k = 0; k < s->autos && !s->sizes_known && !w->coop_k; k++)
        if (values->values[k] % USUAL_TILE != 0)
            found->choice.cost.per_work *= ragged;
    return true;
}

/* Whether products of two blocks, which read half of the right operands from shared memory, let the
 * tensor cores run faster by more than a chain of them is held up by the other block's ends.  A
 * consumer that is alone is held up by its chain, not by the tensor cores.  (The port binds where
 * products have few columns.  By the simulator's clock attention takes 3 to 11 % less at head
 * dimensions 160 and 192, and no less at 64, 96 and 128, and 224 and 256 with one consumer.) */
static bool
pairs_pay(const Target *target, const ConsumerWork *w, const PlanHints *plan)
{
    double spared = plan->consumers * (w->stream - w->stream_paired);

    return plan->consumers > 1 && !consumer_only_mmas(w) &&
           spared > target->consumer_times.pair_chain;
}

/* The same plan with the static scheduler for programs of a sliding axis, and, where the user asks
 * for plans, with a role that changes sums in tensor memory (which is no quicker by this account:
 * the simulator's clock may say so), and with pairs of blocks, if asked for.  `auto` takes these
 * only where they pay: copies alone did not make the best plans faster (docs/lab/gemm.md).  It
 * takes the static scheduler only if the counter takes registers that the consumers need: the
 * dynamic one was 3 to 9 % faster. */
static void
add_plans(PlanSearch *s, const TileChoice *values, const ConsumerWork *w,
          const ConsumerTrips *trips, PlanHints plan, uint32_t paired_stages)
{
    bool fits = add_plan(s, values, w, trips, plan);

    if (w->sliding && (s->asked != NULL || !fits)) {
        PlanHints fixed = plan;
        fixed.dynamic = false;
        add_plan(s, values, w, trips, fixed);
    }
    PlanHints apart = plan;
    apart.correction = true;
    if (s->corrects)
        add_plan(s, values, w, trips, apart);
    plan.paired = true;
    plan.stages = paired_stages > plan.stages ? paired_stages : plan.stages;
    bool pairs = s->asked != NULL ? s->asked->clusters
                                  : paired_stages > 0 && pairs_pay(s->px->target, w, &plan);
    if (pairs && w->pairs)
        add_plan(s, values, w, trips, plan);
}

/* Whether an SM has the registers and the shared memory for two blocks with this plan. */
static bool
two_blocks_fit(const Target *target, const ConsumerWork *w, const PlanHints *plan)
{
    int64_t registers = target->half_registers.consumer;

    return plan->consumers == 1 && !w->coop_k &&
           w->accumulators + 2 * w->fresh + BESIDE_SUMS <= registers &&
           target_holds_result(target, 1, 2, w->widest) &&
           consumer_shared_bytes(w, plan) <= target_tile_limit(target, 2);
}

/* Where each program reads what no other does, plans with two blocks on an SM: from each of them
 * programs are left at the end, so that more SMs have one then.  With as many stages as there is
 * room for, and with two: what blocks have under way says how they share memory. */
static void
add_streams(PlanSearch *s, const TileChoice *values, const ConsumerWork *w,
            const ConsumerTrips *trips, PlanHints plan)
{
    uint32_t most = s->px->stages > 0 ? s->px->stages : ENOUGH_STAGES,
             least = s->px->stages > 0 ? s->px->stages : 2;

    plan.two_blocks = true;
    plan.q_stages = 1;
    for (uint32_t stages = most; stages >= least; stages--) {
        plan.stages = stages;
        if (two_blocks_fit(s->px->target, w, &plan))
            add_plan(s, values, w, trips, plan);
    }
}

/* One consumer with small tiles takes longer for an iteration than memory for what it loads, or the
 * producer does with its many boxes: each waits for the other's barriers, and little is under way.
 * Two such blocks on an SM overlap (H200, pages of 16 keys: 0.91 to 0.99 of unpaged decoding; of 32
 * keys, where memory takes longer, nothing).  What that takes of registers and shared memory is
 * there? */
static bool
two_blocks_pay(const Target *target, const ConsumerWork *w, const ConsumerTrips *trips,
               const PlanHints *plan)
{
    double loads = consumer_load_clocks(target, w);

    return loads > 0 && two_blocks_fit(target, w, plan) &&
           (loads < w->asking || loads < consumer_time(target, w, trips, plan, false).iteration);
}

/* The same plan with fewer stages, so that there is room for results to leave through shared memory
 * (roles_store.c). */
static void
add_with_room(PlanSearch *s, const TileChoice *values, const ConsumerWork *w,
              const ConsumerTrips *trips, PlanHints plan, int64_t stages)
{
    if (s->px->stages > 0 || stages < 2 || stages >= plan.stages)
        return;
    plan.stages = (uint32_t)stages;
    add_plans(s, values, w, trips, plan, 0);
}

static void
add_choice(PlanSearch *s, const TileChoice *values, const TirFn *fn, const ConsumerWork *work,
           uint32_t consumers)
{
    const Target *target = s->px->target;
    ConsumerWork own = *work;
    const ConsumerWork *w = &own;
    int64_t limit = (w->coop_k ? target->chip.shared_per_block - COOP_K_SHARED
                               : target_tile_limit(target, 1)) -
                    consumers * w->exchange_bytes;
    uint32_t q_stages = 2, stages = 0;
    int64_t loop = w->pipeline_bytes_shared + consumers * w->pipeline_bytes_own;
    int64_t once = w->once_bytes_shared + consumers * w->once_bytes_own;

    if (loop == 0 || limit <= 0)
        return;
    /* A warp group without a program keeps registers that the others could use. */
    bool asked = s->px->plan.consumers != 0 || (s->asked != NULL && s->asked->n_groups > 0);
    if (!asked && consumers > 1 && !w->cooperative &&
        consumers > trips_extent(fn, w->axis, s->sizes))
        return;
    for (; q_stages >= 1 && stages < 2; q_stages--) {
        stages = (uint32_t)((limit - q_stages * once) / loop);
        if (q_stages * once > limit)
            stages = 0;
        if (stages >= 2 || q_stages == 1)
            break;
    }
    if (s->px->stages > 0) /* pinned */
        stages = stages >= s->px->stages ? s->px->stages : 0;
    /* of loops of products alone as many as fit: the way of a stage binds small tiles */
    uint32_t most = consumer_only_mmas(w) ? MOST_PLAN_STAGES : MOST_STAGES;
    stages = stages > most ? most : stages;
    if (stages == 0)
        return;
    ConsumerTrips trips = trips_of_consumers(fn, w->loops, w->n_loops, w->axis, consumers, s->sizes);
    PlanHints plan = {.consumers = consumers,
                      .cooperative = w->cooperative,
                      .stages = stages,
                      .q_stages = q_stages,
                      .persistent = true,
                      .dynamic = true,
                      .pipelined = true,
                      .pingpong = consumers > 1 && !w->cooperative};
    int64_t left = limit - q_stages * once - stages * loop,
            atom_columns = consumers * w->atom_column_bytes;
    own.spare = stages == 1 && w->spare_bytes > 0 && left >= w->spare_bytes;
    if (q_stages > 1 && w->leaves_over)
        atom_columns = 0;
    if (s->px->stages == 0 && stages > ENOUGH_STAGES && left < atom_columns &&
        left + loop >= atom_columns && consumer_pipelines(target, w, &plan))
        plan.stages--; /* room for results to leave through shared memory (roles_store.c) */
    stages = plan.stages;
    /* where blocks of a pair have half of some tiles */
    uint32_t paired = s->px->stages > 0
                          ? stages
                          : (uint32_t)((limit - q_stages * once) / (loop - w->spared_bytes));
    paired = paired > most ? most : paired;
    paired = w->spared_bytes > 0 ? paired : stages;
    if (s->asked == NULL && w->pairs && 2 * consumers > trips_extent(fn, w->axis, s->sizes))
        paired = 0; /* the second block has no program */
    bool streams = consumer_streams(target, w, &trips);
    if (streams && !asked)
        add_streams(s, values, w, &trips, plan);
    plan.two_blocks = !asked && !streams && two_blocks_pay(target, w, &trips, &plan);
    /* Two blocks have as much under way with fewer (H200, pages of 16 keys: 2 % less with 3). */
    if (plan.two_blocks && s->px->stages == 0 && stages > ENOUGH_STAGES)
        plan.stages = ENOUGH_STAGES;
    /* With a shared product registers are short, and a persistent block's index takes some.  It
     * pays where the next tile is fetched while one ends (H200, d 64: 9 % at 512 keys). */
    bool room = plan.cooperative &&
                w->added == 0; /* for the index: nothing passes registers on its way to memory */
    if (!w->coop_k || (q_stages > 1 && w->lookahead) || room)
        add_plans(s, values, w, &trips, plan, paired);
    if (consumer_only_mmas(w) && left < atom_columns)
        add_with_room(s, values, w, &trips, plan, (left + stages * loop - atom_columns) / loop);
    plan.two_blocks = false;
    plan.stages = stages;
    plan.persistent = false; /* `dynamic` then is about the order of blocks: the longest first */
    /* A block has one tile; what a cooperative-K product leaves of shared memory is as good for a
     * second stage as for nothing, and so it was measured. */
    plan.q_stages = w->coop_k ? q_stages : 1;
    if (w->variable_trips || w->coop_k)
        add_plans(s, values, w, &trips, plan, paired);
}

static bool
consumers_wanted(const PlanSearch *s, uint32_t consumers)
{
    if (s->px->plan.consumers != 0)
        return s->px->plan.consumers == consumers;
    for (size_t k = 0; s->asked != NULL && k < s->asked->n_groups; k++)
        if (s->asked->groups[k] == consumers)
            return true;
    return s->asked == NULL || s->asked->n_groups == 0;
}

/* Rows of a product that a consumer can not do with less of. */
static int32_t
least_rows(const PlanSearch *s)
{
    return s->issued ? TMEM_LANES : GROUP_ROWS;
}

/* Whether more than so many consumers are tried, whose products a role of its own issues.  Of loops
 * that do nothing but multiply `auto` takes one: its sums have two stages, so that the next tile's
 * products run while it has this one's.  With arithmetic between products two, each of which
 * computes under the other's products; nothing is known of more. */
static bool
may_be_more(const PlanSearch *s, const ConsumerWork *w, uint32_t consumers)
{
    return s->px->plan.consumers > consumers || (s->asked != NULL && s->asked->n_groups > 0) ||
           consumers < (consumer_only_mmas(w) ? 1 : 2);
}

/* What was found with these values, for the fewest consumers; NULL: nothing. */
static const PlanCandidate *
found_with(const PlanSearch *s, const TileChoice *values)
{
    for (uint32_t k = 0; k < s->n; k++)
        if (same_values(&s->found[k].choice, values))
            return &s->found[k];
    return NULL;
}

/* Plans for some values, by what the pass finds for few consumers; a product that consumers share
 * out needs two at least, and looks different for each number. */
static bool
try_values(PlanSearch *s, TileChoice *values)
{
    bool some = false;

    if (found_with(s, values) != NULL) /* usual values may be those that were tried first */
        return true;
    values->plan = (PlanHints){.stages = 2, .q_stages = 1, .pipelined = true};
    for (uint32_t consumers = 1; consumers <= MOST_CONSUMERS; consumers++) {
        if (!consumers_wanted(s, consumers))
            continue;
        values->plan.consumers = consumers;
        values->plan.correction = s->asked != NULL && s->issued;
        s->corrects = values->plan.correction && planned_kernel(s, values) != NULL;
        values->plan.correction = false;
        TirFn *fn = planned_kernel(s, values);
        if (s->refused)
            break;
        if (fn == NULL)
            continue;
        some = true;
        if (tir_has_coop_k(fn)) {
            ConsumerWork w = consumer_work(s->px->target, fn, consumers);
            if (target_holds_result(s->px->target, consumers, 1, w.widest))
                add_choice(s, values, fn, &w, consumers);
            continue;
        }
        ConsumerWork w = consumer_work(s->px->target, fn, 1);
        /* Several blocks of rows in one warp group spare it operands, but leave fewer others whose
         * products could run under its arithmetic. */
        if (w.rows > least_rows(s) && !s->any_rows && (!consumer_only_mmas(&w) || s->one_block)) {
            s->more_rows = true;
            return false;
        }
        if (s->issued) { /* each number has to fit tensor memory */
            add_choice(s, values, fn, &w, consumers);
            if (!may_be_more(s, &w, consumers))
                break;
            continue;
        }
        for (; consumers <= MOST_CONSUMERS; consumers++) {
            if (target_holds_result(s->px->target, consumers, 1, w.widest) &&
                consumers_wanted(s, consumers))
                add_choice(s, values, fn, &w, consumers);
        }
    }
    return some;
}

/* Plans in which consumers divide the tiles of the main loop: 64 rows for each consumer.  A
 * program's sums are then spread over all consumers, but so are the tiles that it loads: each is
 * used for fewer products.  So this is for kernels that have no other plan, or the least tiles
 * alone. */
static void
try_divided(PlanSearch *s, const TileChoice *values)
{
    for (uint32_t consumers = 2; consumers <= MOST_CONSUMERS; consumers++) {
        for (uint32_t k = 0; k <= s->autos && consumers_wanted(s, consumers); k++) {
            TileChoice tiles = *values;
            /* it may be this one that the loop goes along, or one that is pinned */
            if (k < s->autos)
                tiles.values[k] = GROUP_ROWS * (int32_t)consumers;
            tiles.plan = (PlanHints){
                .consumers = consumers, .stages = 1, .q_stages = 1, .cooperative = true};
            TirFn *fn = planned_kernel(s, &tiles);
            if (fn == NULL)
                continue;
            ConsumerWork w = consumer_work(s->px->target, fn, consumers);
            if (target_holds_result(s->px->target, consumers, 1, w.widest))
                add_choice(s, &tiles, fn, &w, consumers);
        }
    }
}

/* Whether all plans that were found write right operands to shared memory, which costs them its
 * bandwidth. */
static bool
all_compute_rights(const PlanSearch *s)
{
    bool all = s->n > 0;

    for (uint32_t k = 0; k < s->n; k++)
        all = all && s->found[k].work.spare_bytes > 0;
    return all;
}

/* A parameter that the user pinned to several consumers' rows: 64 rows, and that many consumers, if
 * nothing of the program shows it.  Where the source says how many consumers there are, it is the
 * rows of each, as with --plan. */
static bool
try_pinned_rows(PlanSearch *s, TileChoice *values)
{
    const TilecOptions *options = s->front.options;

    for (size_t k = 0; s->px->plan.consumers == 0 && k < options->n_defines; k++) {
        for (uint32_t consumers = 2; consumers <= MOST_CONSUMERS; consumers++) {
            static const char *const rows[] = {"", "64", "128", "192", "256"};
            if (strcmp(options->defines[k].value, rows[consumers]) != 0)
                continue;
            values->replaced = options->defines[k].name;
            values->replacement = rows[1];
            PlanHints before = s->px->plan;
            s->px->plan.consumers = consumers;
            bool ok = try_values(s, values);
            s->px->plan = before;
            if (ok)
                return true;
            values->replaced = values->replacement = NULL;
        }
    }
    return false;
}

/* As small as a product's sides can be, where registers have no room for more beside the sums: one
 * at a time. */
static void
try_least_values(PlanSearch *s, const TileChoice *values)
{
    for (uint32_t k = 0; k < s->autos && s->autos < 3; k++) {
        TileChoice other = *values;
        other.values[k] = MMA_ROWS;
        try_values(s, &other);
    }
}

/* Tiles of a loop of nothing but products whose three sides are open; false: `values` are not the
 * least of such a loop. */
static bool
try_product_tiles(PlanSearch *s, const TileChoice *values)
{
    int32_t tiles[MOST_PRODUCT_TILES][PRODUCT_SIDES], least_side = least_rows(s);
    int32_t larger[PRODUCT_SIDES][PRODUCT_SIDES];
    ProductSide sides[PRODUCT_SIDES];
    const PlanCandidate *first = found_with(s, values);
    TileChoice other = *values;

    if (s->autos != PRODUCT_SIDES || first == NULL || !consumer_only_mmas(&first->work))
        return false;
    bool any_rows = !s->issued &&
                    (s->asked != NULL || first->trips.along <= (s->sizes_known ? MOST_FEW : 1));
    for (uint32_t k = 0; k < PRODUCT_SIDES; k++) {
        other = *values;
        other.values[k] *= 2;
        try_values(s, &other);
        const PlanCandidate *found = found_with(s, &other);
        if (found == NULL)
            return false;
        memcpy(larger[k], found->work.sides, sizeof larger[k]);
    }
    if (!product_sides(first->work.sides, larger, sides))
        return false;
    uint32_t n = product_tiles(sides, least_side, first->work.operand_bits, any_rows, tiles);
    for (uint32_t k = 0; k < n; k++) {
        other = *values;
        memcpy(other.values, tiles[k], sizeof tiles[k]);
        try_values(s, &other);
    }
    return true;
}

/* Whether its loop's sums are what arithmetic adds results of products to. */
static bool
adds_results(const PlanCandidate *found)
{
    return found != NULL && found->work.sums > 0 && found->work.accumulators == 0;
}

/* Those that may be other than the first ones: one at a time, and of three the large ones together;
 * of two as well where results are added up, whose halves may fit (halve_products.c). */
static void
try_usual_values(PlanSearch *s, const TileChoice *values)
{
    static const int32_t sizes[] = {64, 128, 96, 80, 112, 160, 192, 256, 48, 32};
    enum { SMALL = 8 }; /* the place of the first size below 64 */
    uint32_t n_sizes = sizeof sizes / sizeof sizes[0];

    if (try_product_tiles(s, values))
        return;
    for (uint32_t index = 1; s->autos == 3 && index < 27; index++) {
        TileChoice other = *values;
        for (uint32_t k = 0, rest = index; k < 3; k++, rest /= 3)
            other.values[k] = GROUP_ROWS << rest % 3;
        try_values(s, &other);
    }
    if (s->autos == 2 && adds_results(found_with(s, values))) {
        TileChoice other = *values;
        other.values[0] = other.values[1] = 2 * GROUP_ROWS;
        try_values(s, &other);
    }
    for (uint32_t k = 0; k < s->autos; k++) {
        for (uint32_t j = 0; j < n_sizes && s->autos < 3; j++) {
            TileChoice other = *values;
            other.values[k] = sizes[j];
            if (!try_values(s, &other) && j == 1)
                j = SMALL - 1;
        }
    }
}

/* Tiles that have more rows than a consumer's least, as the program or the user wants them. */
static void
try_any_rows(PlanSearch *s, TileChoice *values)
{
    s->any_rows = true;
    if (try_values(s, values))
        try_usual_values(s, values);
    s->any_rows = false;
}

/* The values that the user wants to see, in all combinations; 64 where there is no list. */
static void
try_listed_values(PlanSearch *s)
{
    size_t total = 1, n[MAX_AUTO];
    enum { MOST = 256 };

    for (uint32_t k = 0; k < s->autos; k++) {
        uint32_t list = k < TILEC_OPEN ? k : TILEC_OPEN - 1;
        n[k] = s->asked->n_tiles[list] > 0 ? s->asked->n_tiles[list] : 1;
        total *= n[k];
    }
    for (size_t index = 0; index < total && index < MOST; index++) {
        TileChoice values = {0};
        size_t rest = index;
        for (uint32_t k = 0; k < MAX_AUTO; k++)
            values.values[k] = GROUP_ROWS;
        for (uint32_t k = 0; k < s->autos; k++) {
            uint32_t list = k < TILEC_OPEN ? k : TILEC_OPEN - 1;
            if (s->asked->n_tiles[list] > 0)
                values.values[k] = s->asked->tiles[list][rest % n[k]];
            rest /= n[k];
        }
        try_values(s, &values);
    }
}

static bool
has_lists(const TilecSearch *asked)
{
    for (uint32_t k = 0; asked != NULL && k < TILEC_OPEN; k++)
        if (asked->n_tiles[k] > 0)
            return true;
    return false;
}

static void
sort_found(PlanSearch *s)
{
    for (uint32_t i = 1; i < s->n; i++) {
        PlanCandidate found = s->found[i];
        uint32_t k = i;
        while (k > 0 && found.choice.cost.per_work < s->found[k - 1].choice.cost.per_work) {
            s->found[k] = s->found[k - 1];
            k--;
        }
        s->found[k] = found;
    }
}

/* Of those that are as good for usual sizes, one whose loop is clearly quicker comes first: where
 * sizes are not known, it gains more in large launches than it may lose in small ones. */
static void
prefer_quick_loop(PlanSearch *s)
{
    static const double as_good = 1.009; /* two runs of one plan differ by as much */
    static const double clearly = 0.97;  /* the model's mean error */
    double limit = as_good * s->found[0].choice.cost.per_work;
    double quick = clearly * plan_loop_clocks(&s->found[0]);
    uint32_t best = 0;

    for (uint32_t k = 1; k < s->n && s->found[k].choice.cost.per_work < limit; k++) {
        if (plan_loop_clocks(&s->found[k]) < quick) {
            quick = plan_loop_clocks(&s->found[k]);
            best = k;
        }
    }
    PlanCandidate found = s->found[best];
    memmove(&s->found[1], &s->found[0], best * sizeof found);
    s->found[0] = found;
}

/* Makes the plan, and has its time in place of the estimate; false: it can not be made. */
static bool
make_plan(PlanSearch *s, PlanCandidate *found)
{
    TirFn *fn = planned_kernel(s, &found->choice);
    const KernelTime *time = fn == NULL ? NULL
                                        : kernel_time(s->front.arena, s->px->target, fn,
                                                      &found->choice.plan, s->sizes);

    if (time == NULL)
        return false;
    found->built = true;
    found->work = time->work;
    found->work.n_loops = 0;
    found->trips = time->trips;
    found->clocks = time->clocks;
    found->pipelined = time->pipelined;
    found->microseconds = time->microseconds;
    found->cost = launch_cost(s->px->arena, s->px->target, fn, time);
    found->estimate = launch_estimate(s->px->arena, s->px->target, fn, time);
    return true;
}

/* Makes all plans; those that can not be made fall out. */
static void
make_plans(PlanSearch *s)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < s->n; k++) {
        if (!make_plan(s, &s->found[k]))
            continue;
        s->found[k].choice.cost.per_work = s->found[k].microseconds;
        s->found[n++] = s->found[k];
    }
    s->n = n;
}

/* Whether the source or the command line says of all sizes what they are most often. */
static bool
all_sizes_said(const TirFn *fn)
{
    bool all = true;

    for (uint32_t k = 0; k < fn->sizes.n; k++)
        all = all && fn->sizes.at[k].usual != 0;
    return all;
}

PlanCandidates
auto_plan_candidates(const Front *front, PassContext *px, Arena *trials, const char *name,
                     const TilecSearch *asked, const int64_t *sizes)
{
    PlanSearch s = {.front = *front, .px = px, .kernel = name, .asked = asked, .sizes = sizes};
    TileChoice values = {0};

    if (!target_predicts_roles(px->target) || !pass_enabled(px, "plan") || px->warps > 0)
        return (PlanCandidates){0};
    s.issued = target_issuer(px->target) == BY_THREAD;
    s.front.arena = trials;
    kept_begin(&s.kept, front, px, trials, name);
    const TirFn *fn = kept_sample(&s.kept);
    s.open = s.kept.open;
    if (fn == NULL)
        return (PlanCandidates){0};
    if (count_mmas(fn->body) == 0) /* what there are plans for */
        return (PlanCandidates){s.found, 0, s.open, s.sizes_known, false};
    if (sizes == NULL)
        s.sizes = trips_usual_sizes(px->arena, fn);
    s.sizes_known = sizes != NULL || all_sizes_said(fn);
    s.autos = s.open.asked < MAX_AUTO ? s.open.asked : MAX_AUTO;
    for (uint32_t k = 0; k < MAX_AUTO; k++)
        values.values[k] = least_rows(&s);
    s.one_block = true; /* what is pinned to more says how many rows a block has, if it can */
    bool some = !has_lists(asked) && try_values(&s, &values);
    s.one_block = false;
    if (has_lists(asked))
        try_listed_values(&s);
    else if (some)
        try_usual_values(&s, &values);
    else if (!try_pinned_rows(&s, &values) && s.more_rows && !try_values(&s, &values))
        try_any_rows(&s, &values);
    bool least = !has_lists(asked) && (s.n == 0 || all_compute_rights(&s));
    if (least) {
        try_least_values(&s, &values);
        try_divided(&s, &values);
    }
    if (asked != NULL)
        make_plans(&s);
    sort_found(&s);
    if (!s.sizes_known && s.n > 0 &&
        !consumer_streams(px->target, &s.found[0].work, &s.found[0].trips))
        prefer_quick_loop(&s);
    for (uint32_t k = 0; asked == NULL && px->report != NULL && k < PLANS_SHOWN && k < s.n; k++)
        make_plan(&s, &s.found[k]);
    return (PlanCandidates){s.found, s.n, s.open, s.sizes_known, false};
}

/* ---- choosing ---- */

/* What the tuning database says.  True with no plan in `choice`: something else is better. */
static bool
take_measured(const Front *front, PassContext *px, const TirFn *sample, const AutoTiles *open,
              TileChoice *choice)
{
    const TilecOptions *options = front->options;
    TuningChoice measured;
    Buf text;

    uint32_t messages = px->diag->messages.n;
    if (options->tuning == NULL)
        return false;
    bool found = tuning_find(px->arena, px->diag, options->tuning_path, options->tuning, px->target,
                             sample, open, true, 0, px->stages, &measured);
    if (!found || measured.plan.consumers == 0) /* auto_tiles.c reads the file, too, and says it */
        px->diag->messages.n = messages;
    if (!found)
        return false;
    *choice = (TileChoice){.warps = 4, .plan = measured.plan, .cost = {.fits = true}};
    memcpy(choice->values, measured.values, sizeof choice->values);
    if (measured.plan.consumers == 0)
        return true;
    buf_init(&text, px->arena);
    plan_print_choice(open, choice, &text);
    buf_printf(&text, ": the best of %u %s, %.1f us", measured.others + 1, tuning_origin(&measured),
               measured.microseconds);
    diag_remark(px->diag, sample->span, "kernel '%s': %s", sample->name, text.at);
    if (px->report != NULL)
        buf_printf(px->report, "tuning database for %s: %s\n", sample->name, text.at);
    return true;
}

TileChoices
auto_plan_search(const Front *front, PassContext *px, Arena *trials, const TirFn *kernel)
{
    enum { TRIED = 3 }; /* plans to build, if the ones before them can not be built */
    DiagMark before = diag_mark(px->diag);
    TileChoice *choices = arena_array(px->arena, TileChoice, TRIED + 1);
    AutoTiles open = {0};
    Front sample = *front;
    uint32_t n = 0;

    if (!target_predicts_roles(px->target) || !pass_enabled(px, "plan") || px->warps > 0 ||
        count_mmas(kernel->body) == 0) /* what there are plans for */
        return (TileChoices){0};
    sample.arena = trials;
    arena_reset(trials);
    TirFn *fn = front->options->tuning == NULL ? NULL
                                               : front_kernel(&sample, kernel->name, NULL, &open);
    diag_rewind(px->diag, before);
    if (fn != NULL && take_measured(front, px, fn, &open, &choices[0])) {
        if (choices[0].plan.consumers == 0)
            return (TileChoices){0};
        n = 1;
    }
    const uint32_t measured = n;
    PlanCandidates found = auto_plan_candidates(front, px, trials, kernel->name, NULL, NULL);
    for (uint32_t k = 0; k < found.n && k < TRIED; k++)
        choices[n++] = found.at[k].choice;
    for (uint32_t k = 0; k < found.n && k < TRIED; k++)
        choices[measured + k].about = plan_about(px, &found, k);
    if (px->report != NULL)
        plan_report_rows(&found, &choices[measured], n - measured, px->report);
    return (TileChoices){choices, n};
}
