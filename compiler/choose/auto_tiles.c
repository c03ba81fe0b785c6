/* auto_tiles.c - the search for tile sizes, warps and stages.
 *
 * A coarse grid of powers of two, of which a guess leaves the most promising to be tried out; then
 * steps from the best one to sizes between; then fewer buffers.  Trying out means front end,
 * passes up to the plan of shared memory, and the estimate of cost.c.  Where the best one needs
 * nearly all registers by that estimate, its code is made and tells how many it needs.  Where
 * nothing fits, the least tiles are tried, and of those that have room in shared memory what spills
 * least is taken.
 *
 * Kernels without products take a shape of tiles for which launches cost least.  What they cost at
 * least is known before a shape is made (row_ranks.h): what is above the best one by that is not
 * tried, unless someone wants to see it.
 */
#include "compiler/choose/auto_tiles.h"

#include <math.h>
#include <string.h>

#include "compiler/choose/coarse_grid.h"
#include "compiler/choose/kept_kernels.h"
#include "compiler/choose/row_ranks.h"
#include "compiler/choose/tiles_said.h"
#include "compiler/choose/trial.h"
#include "compiler/choose/tuning.h"
#include "compiler/cost/launch_cost.h"
#include "compiler/cost/launch_rows.h"
#include "compiler/cost/trips.h"
#include "compiler/front/front.h"
#include "compiler/ir/layout.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/lower/tir_to_lir.h"
#include "compiler/passes/util/tir_util.h"

enum {
    /* bounds on the work of a compilation (tests/work.txt) */
    MAX_TRIED = 64,   /* choices that are compiled as far as the estimate needs */
    LEAST_TRIED = 24, /* .. and the least tiles, where nothing else fits */
    MAX_SETTLED = 4,  /* choices that are lowered to count their registers */
    NOTCH = 16,       /* the step between tile sizes, the rows of an mma.sync */
    MOST_OPEN = 3,    /* sizes that are drawn */
    SMALL_TILE = 1024 /* elements of a product for which one or two warps are enough */
};

TirFn *
tile_choice_kernel(const Front *front, const char *name, const TileChoice *choice)
{
    return front_kernel(front, name,
                        &(OpenValues){choice->values, choice->replaced, choice->replacement}, NULL);
}

typedef struct Search {
    KeptKernels kept;
    Front front;
    PassContext *px;
    const char *kernel;
    TileChoice tried[MAX_TRIED];
    uint32_t n;
    uint32_t autos;
    const char *names[MAX_AUTO];
    uint32_t warps;     /* pinned; 0: not */
    bool stages_pinned; /* on the command line or at some loop */
    bool pipelined;     /* there is a choice of stages */
    bool in_loop;       /* something is loaded in a loop */
    bool products;
    bool launches;      /* clocks of launches are asked for */
    bool thorough;      /* what is not the best is wanted, too */
    RowSamples samples; /* of a kernel without products */
    RowRanks ranks;     /* .. of all its shapes, ..  */
    bool ranked;        /* .. if they can be compared without making each */
    bool measured;      /* the tuning database has said it */
} Search;

/* ---- one candidate ---- */

/* Whether a choice would have room for its tiles, but spills too much to be taken if there is
 * another. */
static bool
lacks_registers(const Target *target, const TileChoice *choice)
{
    return !choice->cost.fits && choice->cost.spilled > 0 && choice->cost.misfit != NULL &&
           strcmp(choice->cost.misfit, "registers") == 0 &&
           choice->cost.shared_bytes <= target->chip.shared_per_block;
}

/* Sizes of few, some and many elements, for what has no usual size; other sizes than those in tiles
 * are as ever. */
static const int64_t sampled[] = {256, 1000, 4096, 16384};
enum { SAMPLED = sizeof sampled / sizeof sampled[0] };

/* Which sizes are drawn, of a kernel with middling tiles: those that are cut into tiles and have no
 * usual size. */
static void
draw_sizes(Search *s, const TirFn *fn)
{
    const int64_t *usual = trips_usual_sizes(s->px->arena, fn);
    uint32_t open[MOST_OPEN], n_open = 0;

    s->samples = (RowSamples){.n = 1, .own = fn->sizes.n};
    for (uint32_t k = 0; k < fn->sizes.n && n_open < MOST_OPEN; k++) {
        if (fn->sizes.at[k].usual != 0 || !trips_in_tiles(fn, k))
            continue;
        open[n_open++] = k;
        s->samples.n *= SAMPLED;
    }
    s->samples.sizes = arena_array(s->px->arena, int64_t, s->samples.n * (fn->sizes.n + MAX_AUTO));
    for (uint32_t i = 0; i < s->samples.n; i++) {
        int64_t *sizes = row_sample(&s->samples, i);
        memcpy(sizes, usual, fn->sizes.n * sizeof *sizes);
        for (uint32_t k = 0, rest = i; k < n_open; k++, rest /= SAMPLED)
            sizes[open[k]] = sampled[rest % SAMPLED];
    }
}

/* Of a kernel without products. */
static void
estimate_launches(const Search *s, const TirFn *fn, TileChoice *choice)
{
    Arena *arena = s->px->arena;
    const Target *target = s->px->target;
    RowTerms terms = launch_terms_of_rows(arena, fn, &choice->cost);
    RowThreads threads = {launch_lanes_of_rows(&choice->cost.units) +
                              launch_additions_of_rows(target, &choice->cost.units),
                          choice->cost.blocks};
    RowRanks ranks = row_ranks_of(arena, target, &s->samples, &terms);

    choice->launch = launch_cost_of_rows(arena, target, &terms, threads.lanes, threads.blocks);
    choice->estimate = choice->launch;
    choice->loops = s->in_loop;
    choice->programs = terms.tiles;
    uint32_t warps = choice->warps;
    const CostUnits *units = &choice->cost.units;
    choice->alone = launch_cost_alone(arena, target, fn, &terms, units, warps, BUSY_WARPS);
    choice->alone_beside = launch_cost_alone(arena, target, fn, &terms, units, warps, COUNTED_WARPS);
    choice->cost.per_work = row_ranks_clocks(&ranks, choice->values, &threads);
}

/* Runs the passes and the estimate of a choice that is right.  `fn`: with its values, in `arena`,
 * which takes what passes make; true: it is what would be compiled. */
static bool
estimate_kernel(Search *s, TileChoice *choice, TirFn *fn, Arena *arena, bool trial_only)
{
    Trial trial;

    trial_begin(&trial, s->px, arena);
    trial.px.trial = trial_only;
    trial.px.warps = choice->warps;
    if (choice->stages != 0)
        trial.px.stages = choice->stages;
    bool done = fn != NULL && passes_run(&trial.px, fn, &trial.run);
    if (fn != NULL && (fn->shared_bytes > 0 || done))
        cost_estimate(&trial.px, fn, &choice->cost);
    if (done && !s->products && choice->cost.fits)
        estimate_launches(s, fn, choice);
    else if (done && s->launches && choice->cost.fits)
        choice->launch = launch_cost_of_blocks(s->px->arena, s->px->target, fn, &choice->cost,
                                               &choice->estimate);
    if (!done && (choice->cost.fits || lacks_registers(s->px->target, choice))) {
        choice->cost.fits = false;
        choice->cost.misfit = "the passes";
    }
    bool quiet = s->px->diag->messages.n == trial.before.messages;
    trial_end(&trial);
    return done && quiet;
}

static void
estimate(Search *s, TileChoice *choice)
{
    TirFn *fn = kept_copy(&s->kept, choice);

    estimate_kernel(s, choice, fn, s->kept.front.arena, true);
}

/* The same choice among those that were listed; NULL: it is none of them. */
static TileChoice *
find_tried(Search *s, const TileChoice *choice)
{
    for (uint32_t k = 0; k < s->n; k++) {
        TileChoice *had = &s->tried[k];
        if (memcmp(had->values, choice->values, sizeof had->values) == 0 &&
            had->warps == choice->warps && had->stages == choice->stages)
            return had;
    }
    return NULL;
}

/* Runs the passes and the estimate; false when that can not be. */
static bool
try_out(Search *s, const TileChoice *candidate)
{
    const TileChoice *had = find_tried(s, candidate);

    if (had != NULL)
        return had->cost.fits;
    if (s->n == MAX_TRIED || !kept_is_right(&s->kept, candidate))
        return false;
    TileChoice *choice = &s->tried[s->n++];
    *choice = *candidate;
    estimate(s, choice);
    return choice->cost.fits;
}

static TileChoice *
best_of(Search *s)
{
    TileChoice *best = NULL;

    for (uint32_t k = 0; k < s->n; k++) {
        TileChoice *choice = &s->tried[k];
        if (choice->cost.fits && (best == NULL || choice->cost.per_work < best->cost.per_work))
            best = choice;
    }
    return best;
}

/* ---- what is open ---- */

static void
look_at(Search *s, const TirBlock *block, uint32_t depth)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        s->products |= op->op == TIR_MMA;
        s->pipelined |= op->op == TIR_LOAD && depth > 0;
        s->stages_pinned |= op->op == TIR_FOR && op->hints.stages > 0;
        for (uint32_t b = 0; b < op->n_blocks; b++)
            look_at(s, op->blocks[b], depth + (op->op == TIR_FOR));
    }
}

/* ---- the rounds ---- */

static int64_t
largest_product(const TirBlock *block)
{
    int64_t most = 0;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        int64_t n = walk.op->op == TIR_MMA ? tir_type_elements(walk.op->results[0]->type) : 0;
        most = n > most ? n : most;
    }
    return most;
}

/* Guesses at all of these values that might fit, to `out`; the best guess. */
static double
guess_at(Search *s, Coarse *coarse, const TileChoice *values, TileChoice *out)
{
    static const uint32_t warps[] = {8, 4, 2, 1};
    const TirFn *fn = kept_source(&s->kept, values);
    const TileChoice *first = out;
    double best = 0;

    if (fn == NULL)
        return 0;
    int64_t largest = largest_product(fn->body);
    for (uint32_t k = 0; k < sizeof warps / sizeof warps[0]; k++) {
        TileChoice *choice = out;
        if (s->warps > 0 ? k > 0 : warps[k] < 4 && largest > SMALL_TILE)
            break;
        *choice = *values;
        choice->warps = s->warps > 0 ? s->warps : warps[k];
        choice->stages = s->stages_pinned || !s->pipelined ? 0 : 2;
        uint32_t stages = choice->stages > 0 ? 2 : s->px->stages > 0 ? s->px->stages : 1;
        CostGuess guess = cost_guess(s->px, fn, choice->warps);
        cost_guess_with(s->px, &guess, stages, &choice->cost);
        if (!choice->cost.fits && choice->stages == 2) {
            choice->stages = 1;
            cost_guess_with(s->px, &guess, 1, &choice->cost);
        }
        out += coarse_take(coarse, choice);
        if (!choice->cost.fits || choice->stages != 2)
            continue;
        if (choice->cost.blocks > 1 || choice->warps >= FULL_WARPS)
            continue;
        /* where two blocks take the place of a small one */
        TileChoice *single = out;
        *single = *choice;
        single->stages = 1;
        cost_guess_with(s->px, &guess, 1, &single->cost);
        single->cost.fits &= single->cost.blocks > choice->cost.blocks;
        out += coarse_take(coarse, single);
    }
    while (out-- > first)
        best = best == 0 || out->cost.per_work < best ? out->cost.per_work : best;
    return best;
}

/* Guesses at values of the grid, if there may be choices to try: small tiles cost no less than
 * those of twice their rows (or columns), which are looked at first. */
static void
look_at_values(Search *s, Coarse *coarse, uint32_t index)
{
    TileChoice values = coarse_values(coarse, index);
    double least = 0;

    if (coarse->looked_at[index])
        return;
    coarse->looked_at[index] = true;
    for (uint32_t k = 0, twice; k < coarse->digits; k++) {
        if (!coarse_twice(coarse, index, k, &twice))
            continue;
        look_at_values(s, coarse, twice);
        least = coarse->best[twice] > least ? coarse->best[twice] : least;
    }
    coarse->skipped[index] = least > coarse->least[COARSE_TRIED - 1];
    coarse->best[index] = coarse->skipped[index]
                              ? least
                              : guess_at(s, coarse, &values, &coarse->at[GUESSES * index]);
}

static void
search_grid(Search *s)
{
    Coarse coarse = coarse_begin(s->px->arena, s->autos);

    for (uint32_t index = 0; index < coarse.total; index++)
        look_at_values(s, &coarse, index);
    /* more of them where none of those fits, though by their guesses they do */
    for (uint32_t round = 0;
         round < COARSE_TRIED || (best_of(s) == NULL && s->n < MAX_TRIED - LEAST_TRIED); round++) {
        for (uint32_t index = 0; index < coarse.total && round == COARSE_TRIED; index++) {
            TileChoice values = coarse_values(&coarse, index);
            if (coarse.skipped[index])
                guess_at(s, &coarse, &values, &coarse.at[GUESSES * index]);
        }
        TileChoice *best = coarse_best(&coarse);
        if (best == NULL)
            break;
        best->cost.fits = false; /* taken */
        if (!try_out(s, best) && best->stages == 2) {
            best->stages = 1;
            try_out(s, best);
        }
    }
}

/* Of tiles: eight for a thread, 32, and 64 in loops, which have fewer iterations to wait in
 * then. */
enum { FEW_ELEMENTS = 1024, MANY_ELEMENTS = 4096, MOST_ELEMENTS = 8192 };

/* Whether no tile that a kernel loads or stores has eight elements for a thread. */
static bool
has_small_tiles(Search *s, const TileChoice *choice)
{
    const TirFn *fn = kept_source(&s->kept, choice);

    if (fn == NULL)
        return false;
    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);)
        if (tir_is_access(walk.op->op) && tir_type_elements(tir_index_type(walk.op)) >= FEW_ELEMENTS)
            return false;
    return true;
}

static double
elements_of(const Search *s, const TileChoice *choice)
{
    double elements = 1;

    for (uint32_t k = 0; k < s->autos && k < RANKED_AUTOS; k++)
        elements *= choice->values[k];
    return elements;
}

/* Estimates a shape as it would be compiled, so that the best one is already made. */
static void
estimate_shape(Search *s, TileChoice *choice)
{
    TirFn *fn = tile_choice_kernel(&s->front, s->kernel, choice);

    if (estimate_kernel(s, choice, fn, s->px->arena, false))
        choice->fn = fn;
}

/* Ranks shapes by two of them, where all is wanted that wins. */
static void
rank_shapes(Search *s)
{
    TileChoice first = {0}, second = {0};

    for (uint32_t k = 0; k < MAX_AUTO; k++) {
        first.values[k] = RANKS_FIRST;
        second.values[k] = ranks_second[k < s->autos && k < RANKED_AUTOS ? k : RANKED_AUTOS - 1];
    }
    for (uint32_t k = s->autos; k < MAX_AUTO; k++)
        second.values[k] = second.values[s->autos - 1];
    const TirFn *fn = kept_formed(&s->kept, &first);
    if (fn == NULL)
        return;
    RowTerms terms = launch_terms_of_rows(s->px->arena, fn, NULL);
    fn = kept_formed(&s->kept, &second);
    if (fn == NULL)
        return;
    RowTerms others = launch_terms_of_rows(s->px->arena, fn, NULL);
    s->ranked = row_ranks_fit(s->px->arena, s->samples.own, s->autos, &terms, &others, &terms);
    if (s->ranked)
        s->ranks = row_ranks_of(s->px->arena, s->px->target, &s->samples, &terms);
}

/* Lists a choice with the least that its launches may cost; it is estimated by estimate_rows. */
static void
list_rows(Search *s, const TileChoice *choice)
{
    if (s->n == MAX_TRIED || find_tried(s, choice) != NULL ||
        (!s->ranked && !kept_is_right(&s->kept, choice)))
        return;
    TileChoice *listed = &s->tried[s->n++];
    *listed = *choice;
    listed->cost.misfit = "it was not tried";
    if (s->ranked) {
        listed->cost.per_work = row_ranks_clocks(&s->ranks, choice->values, NULL);
        return;
    }
    const TirFn *fn = s->thorough ? NULL : kept_formed(&s->kept, choice);
    if (fn == NULL)
        return;
    RowTerms terms = launch_terms_of_rows(s->kept.front.arena, fn, NULL);
    RowThreads threads = {.blocks = launch_most_blocks(s->px->target, choice->warps)};
    RowRanks ranks = row_ranks_of(s->kept.front.arena, s->px->target, &s->samples, &terms);
    listed->cost.per_work = row_ranks_clocks(&ranks, choice->values, &threads);
}

/* How the threads of a shape that was not tried are thought to do at best: there are as many as
 * there is room for; where a shape of no more elements was tried, half as many again as of that,
 * with half as much work for an element.  Additions to memory follow from the shape. */
static RowThreads
threads_at_best(const Search *s, const TileChoice *choice)
{
    RowThreads best = {.blocks = launch_most_blocks(s->px->target, choice->warps)};

    for (uint32_t k = 0; k < s->n; k++) {
        const Cost *tried = &s->tried[k].cost;
        double larger = elements_of(s, choice) / elements_of(s, &s->tried[k]);
        if (!tried->fits || larger < 1)
            continue;
        best.lanes = fmax(best.lanes, larger / 2 * launch_lanes_of_rows(&tried->units));
        int32_t blocks = (3 * tried->blocks + 1) / 2;
        best.blocks = blocks < best.blocks ? blocks : best.blocks;
    }
    return best;
}

/* Estimates what was listed, the most promising first, but for what costs more than the best one
 * anyway. */
static void
estimate_rows(Search *s)
{
    uint32_t ranked[MAX_TRIED] = {0},
             tried = 0; /* 1 + how many had been tried when it was ranked */
    bool done[MAX_TRIED] = {false};

    while (tried < s->n) {
        TileChoice *next = NULL;
        for (uint32_t k = 0; k < s->n; k++)
            if (!done[k] && (next == NULL || s->tried[k].cost.per_work < next->cost.per_work))
                next = &s->tried[k];
        const TileChoice *best = best_of(s);
        if (best != NULL && best->cost.per_work < next->cost.per_work && !s->thorough)
            return;
        if (s->ranked && ranked[next - s->tried] != 1 + tried) {
            RowThreads threads = threads_at_best(s, next);
            next->cost.per_work = row_ranks_clocks(&s->ranks, next->values, &threads);
            ranked[next - s->tried] = 1 + tried;
            continue;
        }
        done[next - s->tried] = true;
        tried++;
        if (s->thorough)
            estimate(s, next);
        else
            estimate_shape(s, next);
    }
}

/* Larger shapes with more warps, for launches that have an SM for each program. */
static void
list_wide(Search *s)
{
    for (uint32_t k = 0, n = s->n; k < n; k++) {
        TileChoice wide = s->tried[k];
        wide.warps = 8;
        if (elements_of(s, &wide) < MANY_ELEMENTS)
            continue;
        list_rows(s, &wide);
        for (uint32_t i = 0; i < MAX_AUTO; i++)
            wide.values[i] *= wide.values[i] == MOST_ELEMENTS ? 2 : 1;
        list_rows(s, &wide);
    }
}

/* Of kernels without products: shapes of tiles that give a thread some elements, or the one size
 * that is open. */
static void
search_rows(Search *s)
{
    static const int32_t sizes[] = {1, 4, 16, 64, 256, 1024, 4096, MOST_ELEMENTS};
    const uint32_t n_sizes = sizeof sizes / sizeof sizes[0] - !s->in_loop;
    uint32_t total = 1, digits = s->autos < 3 ? s->autos : 3;

    for (uint32_t k = 0; k < digits; k++)
        total *= n_sizes;
    if (digits > 1 && !s->thorough)
        rank_shapes(s);
    for (uint32_t index = 0; index < total; index++) {
        TileChoice choice = {.warps = s->warps > 0 ? s->warps : 4};
        int64_t elements = 1;
        for (uint32_t k = 0, rest = index; k < MAX_AUTO && s->autos > 0; k++, rest /= n_sizes) {
            choice.values[k] = k < digits ? sizes[rest % n_sizes] : choice.values[digits - 1];
            elements *= k < digits ? choice.values[k] : 1;
        }
        if (digits > 1
                ? elements == FEW_ELEMENTS || elements == MANY_ELEMENTS || elements == MOST_ELEMENTS
                : index + 1 == total || !has_small_tiles(s, &choice))
            list_rows(s, &choice);
    }
    if (s->thorough && s->warps == 0)
        list_wide(s);
    estimate_rows(s);
}

/* The least tiles with one buffer, where nothing else fits. */
static void
search_least(Search *s)
{
    static const int32_t sizes[] = {NOTCH, 2 * NOTCH, 4 * NOTCH};
    uint32_t n_sizes = s->autos < 3 ? 3 : 2, digits = s->autos < 3 ? s->autos : 3, total = 1;

    for (uint32_t k = 0; k < digits; k++)
        total *= n_sizes;
    for (uint32_t index = 0; index < 2 * total; index++) {
        TileChoice choice = {.warps = s->warps > 0 ? s->warps : index % 2 == 0 ? 4 : 8};
        uint32_t rest = index / 2;
        for (uint32_t k = 0; k < MAX_AUTO && s->autos > 0; k++) {
            choice.values[k] = k < digits ? sizes[rest % n_sizes] : choice.values[digits - 1];
            rest /= n_sizes;
        }
        choice.stages = s->stages_pinned || !s->pipelined ? 0 : 1;
        try_out(s, &choice);
    }
}

/* Sizes between those of the grid, one parameter at a time; smaller ones only where the best one
 * spills or the guess likes them. */
static void
search_between(Search *s)
{
    for (uint32_t k = 0; k < s->autos && k < MAX_AUTO && best_of(s) != NULL; k++) {
        TileChoice from = *best_of(s);
        int32_t step = from.values[k] / 4;
        for (int32_t way = -1; way <= 2; way++) {
            TileChoice choice = from;
            choice.values[k] += way * step;
            if (way == 0 || step < 8 || choice.values[k] % 16 != 0 || choice.values[k] > LARGEST)
                continue;
            const TirFn *fn = kept_source(&s->kept, &choice);
            uint32_t stages = choice.stages > 0 ? choice.stages : 1;
            if (fn == NULL)
                continue;
            CostGuess guess = cost_guess(s->px, fn, choice.warps);
            cost_guess_with(s->px, &guess, stages, &choice.cost);
            if (choice.cost.fits && (way > 0 || from.cost.spilled > 0))
                try_out(s, &choice);
        }
    }
}

/* Twice the size and one buffer in place of two. */
static void
search_double(Search *s)
{
    for (uint32_t k = 0; k < s->autos && k < MAX_AUTO && best_of(s) != NULL; k++) {
        TileChoice choice = *best_of(s);
        if (choice.stages != 2)
            return;
        choice.stages = 1;
        choice.values[k] *= 2;
        try_out(s, &choice);
    }
}

/* Two buffers in place of one with a little smaller tiles; or one in place of two where the shared
 * memory that it frees might let one more block in. */
static void
search_stages(Search *s)
{
    if (s->stages_pinned || !s->pipelined || best_of(s) == NULL)
        return;
    TileChoice choice = *best_of(s);
    const Target *target = s->px->target;
    int32_t threads = WARP_LANES * (int32_t)choice.warps;
    for (uint32_t k = 0; choice.stages == 1 && k < s->autos && k < MAX_AUTO; k++) {
        TileChoice smaller = choice;
        smaller.stages = 2;
        smaller.values[k] -= NOTCH;
        if (smaller.values[k] >= 2 * NOTCH)
            try_out(s, &smaller);
    }
    if (choice.stages == 2 && (choice.cost.blocks + 1) * choice.cost.registers * threads <=
                                  target->chip.registers_per_sm) {
        choice.stages = 1;
        try_out(s, &choice);
    }
}

/* Makes the code of a choice, for good, and takes account of the registers it needs.  Whether there
 * are enough. */
static bool
settle(Search *s, TileChoice *choice)
{
    Trial trial;

    trial_begin(&trial, s->px, s->px->arena);
    PassContext *px = &trial.px;
    px->warps = choice->warps;
    px->stages = choice->stages > 0 ? choice->stages : px->stages;
    TirFn *fn = tile_choice_kernel(&s->front, s->kernel, choice);
    LirFn *code = fn != NULL && passes_run(px, fn, &trial.run) ? lower_kernel(px, fn, true) : NULL;
    bool enough = false;
    if (code == NULL) {
        choice->cost.fits = false;
        choice->cost.misfit = "the lowering";
    } else {
        LirNeed need = code->need.with_masks > 0 ? code->need : lir_need(code, UINT32_MAX);
        enough = cost_settle(px->target, &need, &choice->cost);
    }
    if (code != NULL && s->launches)
        choice->launch = launch_cost_of_blocks(px->arena, px->target, fn, &choice->cost,
                                               &choice->estimate);
    if (px->diag->messages.n == trial.before.messages) {
        choice->fn = fn;
        choice->code = code;
    }
    trial_end(&trial);
    return enough;
}

/* The best choice, or one that may turn out to be clearly better when its code is made. */
static TileChoice *
most_promising(Search *s)
{
    static const double clearly = 0.998; /* less is not worth the making */
    const Target *target = s->px->target;
    TileChoice *best = best_of(s);
    double least = best != NULL ? clearly * best->cost.per_work : 0;

    for (uint32_t k = 0; k < s->n; k++) {
        TileChoice *choice = &s->tried[k];
        double at_best = cost_at_best(target, &choice->cost);
        if (choice->cost.fits && at_best < least) {
            best = choice;
            least = at_best;
        }
    }
    return best;
}

/* The best choice must not need more registers than ptxas can do with: its code shows that.  A
 * little smaller, it may do. */
static void
search_registers(Search *s)
{
    for (uint32_t round = 0; round < MAX_SETTLED; round++) {
        TileChoice *best = most_promising(s);
        if (best == NULL || best->cost.alive > 0 || !cost_is_tight(s->px->target, &best->cost))
            return;
        if (settle(s, best))
            continue;
        TileChoice from = *best;
        for (uint32_t k = 0; k < s->autos && k < MAX_AUTO; k++) {
            TileChoice choice = from;
            choice.values[k] -= NOTCH;
            choice.cost = (Cost){0};
            choice.fn = NULL;
            choice.code = NULL;
            if (choice.values[k] >= 2 * NOTCH)
                try_out(s, &choice);
        }
    }
}

/* Tiles of half and twice the size, for launches that the best one leaves SMs without work in. */
static void
search_small(Search *s)
{
    enum { WAYS = 3 }; /* half, as large, twice */
    const TileChoice *best = best_of(s);
    uint32_t digits = s->autos < 3 ? s->autos : 3, total = 1;

    if (best == NULL)
        return;
    TileChoice from = *best;
    for (uint32_t k = 0; k < digits; k++)
        total *= WAYS;
    for (uint32_t index = 0; index < 2 * total; index++) {
        TileChoice choice = {.warps = s->warps > 0 ? s->warps : index % 2 == 0 ? 4 : 8};
        uint32_t rest = index / 2;
        for (uint32_t k = 0; k < s->autos && k < MAX_AUTO; k++) {
            int32_t value = from.values[k] / 2 * (1 << (rest % WAYS)) / NOTCH * NOTCH;
            choice.values[k] = value < NOTCH ? NOTCH : value;
            rest /= k < digits ? WAYS : 1;
        }
        choice.stages = s->stages_pinned || !s->pipelined ? 0 : 2;
        if (!try_out(s, &choice) && choice.stages == 2) {
            choice.stages = 1;
            try_out(s, &choice);
        }
    }
}

/* Where all that has room spills: what spills least, which is better than tiles that have no
 * room. */
static void
take_spilling(Search *s)
{
    int32_t least = INT32_MAX;

    for (uint32_t k = 0; k < s->n; k++) {
        if (lacks_registers(s->px->target, &s->tried[k]) && s->tried[k].cost.spilled < least)
            least = s->tried[k].cost.spilled;
    }
    for (uint32_t k = 0; k < s->n; k++) {
        TileChoice *choice = &s->tried[k];
        if (lacks_registers(s->px->target, choice) && choice->cost.spilled == least)
            choice->cost.fits = true;
    }
}

/* ---- the whole ---- */

static TilesTried
tried_so_far(const Search *s)
{
    return (TilesTried){s->kernel, s->names, s->autos, s->products, s->tried, s->n};
}

/* What the tuning database says; it goes before all that is only estimated. */
static bool
take_measured(Search *s, const TirFn *sample, const AutoTiles *asked)
{
    const TilecOptions *options = s->front.options;
    TuningChoice measured;
    Span span = sample->span; /* trying things out takes the sample's memory */
    Buf text;

    if (options->tuning == NULL ||
        !tuning_find(s->px->arena, s->px->diag, options->tuning_path, options->tuning,
                     s->px->target, sample, asked, false, s->warps, s->px->stages, &measured))
        return false;
    TileChoice choice = {.warps = measured.warps > 0 ? measured.warps : s->warps,
                         .stages = s->px->stages > 0 ? 0 : measured.stages};
    memcpy(choice.values, measured.values, sizeof choice.values);
    bool fits = try_out(s, &choice);
    TilesTried tried = tried_so_far(s);
    buf_init(&text, s->px->arena);
    tile_choice_print(&tried, &choice, 0, &text);
    if (fits)
        buf_printf(&text, ": the best of %u %s, %.1f us", measured.others + 1,
                   tuning_origin(&measured), measured.microseconds);
    else
        buf_add(&text, ": measured to be the best, but it can not be compiled any more");
    diag_remark(s->px->diag, span, "kernel '%s': %s", s->kernel, text.at);
    if (s->px->report != NULL)
        buf_printf(s->px->report, "tuning database for %s: %s\n", s->kernel, text.at);
    s->n = fits ? s->n : 0;
    return fits;
}

static void
search_products(Search *s)
{
    search_grid(s);
    if (best_of(s) == NULL)
        search_least(s);
    search_between(s);
    if (s->pipelined && !s->stages_pinned)
        search_double(s);
    search_stages(s);
    search_registers(s);
    if (s->launches)
        search_small(s);
    if (best_of(s) == NULL)
        take_spilling(s);
}

/* All that was tried, the cheapest first; none: there is nothing to choose. */
static Search *
search_tiles(const Front *front, PassContext *px, Arena *trials, const char *name, bool launches,
             Span *span)
{
    Search *s = arena_new(px->arena, Search);

    kept_begin(&s->kept, front, px, trials, name);
    s->front = *front;
    s->front.arena = px->arena;
    s->px = px;
    s->kernel = name;
    s->launches = launches;
    s->thorough = launches || px->report != NULL || px->diag->show_remarks;
    const TirFn *fn = kept_sample(&s->kept);
    const AutoTiles *asked = &s->kept.open;
    s->autos = asked->asked;
    memcpy(s->names, asked->names, sizeof asked->names);
    s->warps = px->warps;
    s->stages_pinned = px->stages > 0 || !switch_is_on(px, "pipeline");
    if (fn != NULL) {
        if (s->warps == 0)
            s->warps = fn->hint_warps;
        look_at(s, fn->body, 0);
        s->in_loop = s->pipelined;
        s->pipelined &= s->products;
        if (!s->products)
            draw_sizes(s, fn);
    }
    *span = fn != NULL ? fn->span : (Span){0};
    if (fn == NULL || (!s->products && s->autos == 0))
        return s;
    s->measured = take_measured(s, fn, asked);
    if (s->measured)
        return s;
    if (s->products)
        search_products(s);
    else
        search_rows(s);
    /* The cheapest first; those that do not fit last. */
    for (uint32_t i = 1; i < s->n; i++) {
        TileChoice choice = s->tried[i];
        uint32_t k = i;
        while (
            k > 0 && choice.cost.fits &&
            (!s->tried[k - 1].cost.fits || choice.cost.per_work < s->tried[k - 1].cost.per_work)) {
            s->tried[k] = s->tried[k - 1];
            k--;
        }
        s->tried[k] = choice;
    }
    return s;
}

static TileChoices
those_that_fit(Search *s)
{
    TileChoices choices = {.at = s->tried};

    while (choices.n < s->n && s->tried[choices.n].cost.fits)
        choices.n++;
    return choices;
}

TileChoices
auto_tiles_search(const Front *front, PassContext *px, Arena *trials, const TirFn *kernel)
{
    const char *declared;
    Span span;

    if (count_mmas(kernel->body) == 0 && front_autos(front, kernel->name, &declared, 1) == 0)
        return (TileChoices){0};
    Search *s = search_tiles(front, px, trials, kernel->name, false, &span);

    if (!s->measured && s->n > 0) {
        TilesTried tried = tried_so_far(s);
        if (px->report != NULL)
            tiles_report(&tried, px->report);
        tiles_remark(&tried, px, span);
    }
    return those_that_fit(s);
}

TileChoices
auto_tiles_forms(const Front *front, const PassContext *px, Arena *trials, const char *name)
{
    PassContext quiet = *px;
    Span span;
    uint32_t messages = px->diag->messages.n;

    quiet.report = NULL;
    TileChoices choices = those_that_fit(search_tiles(front, &quiet, trials, name, true, &span));
    px->diag->messages.n = messages;
    for (uint32_t k = 0; k < choices.n; k++) {
        choices.at[k].fn = NULL; /* of another name */
        choices.at[k].code = NULL;
    }
    return choices;
}

void
tile_choice_say_one_stage(const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (walk.op->op == TIR_FOR && walk.op->hints.stages == 0)
            walk.op->hints.stages = 1;
    }
}

void
tile_choice_mark(const TileChoice *choice, Buf *report)
{
    if (choice->report_row > 0) /* a row begins with four spaces */
        report->at[choice->report_row + 1] = '*';
}
