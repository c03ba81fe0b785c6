/* row_ranks.c - numbers of two shapes put together to expressions of the values (row_ranks.h). */
#include "compiler/choose/row_ranks.h"

#include <math.h>
#include <string.h>

#include "compiler/cost/launch_terms.h"

/* A product of some of these parts of RANKS_FIRST tells which: 2, 4, 16. */
const int32_t ranks_second[RANKED_AUTOS] = {32, 16, 4};

typedef struct Fit {
    Arena *arena;
    uint32_t own, autos;
} Fit;

static const HostExpr *
value_of(const Fit *fit, uint32_t k)
{
    HostExpr *value = arena_new(fit->arena, HostExpr);

    *value = (HostExpr){.kind = HOST_SIZE, .index = fit->own + k};
    return value;
}

/* What is `a` with the first values and `b` with the second: a number times some of the values;
 * NULL: nothing of that kind. */
static const HostExpr *
product(const Fit *fit, int64_t a, int64_t b)
{
    const HostExpr *made = NULL;
    uint32_t halved = 0;

    while (b > 0 && b << halved < a)
        halved++;
    if (b << halved != a || halved >> fit->autos != 0)
        return NULL;
    for (uint32_t k = 0; k < fit->autos; k++) {
        if ((halved >> k & 1) == 0)
            continue;
        if (a % RANKS_FIRST != 0)
            return NULL;
        a /= RANKS_FIRST;
        made = made == NULL ? value_of(fit, k)
                            : host_binary(fit->arena, HOST_MUL, made, value_of(fit, k));
    }
    return a == 1 ? made : host_binary(fit->arena, HOST_MUL, host_int(fit->arena, a), made);
}

static const HostExpr *
number(const Fit *fit, int64_t a, int64_t b)
{
    if (a == b)
        return host_int(fit->arena, a);
    const HostExpr *made = a > 0 ? product(fit, a, b) : NULL, *more;
    if (made != NULL || a < 0)
        return made;
    more = product(fit, a + 1, b + 1); /* what is rounded up has that added */
    return more == NULL ? NULL : host_binary(fit->arena, HOST_SUB, more, host_int(fit->arena, 1));
}

/* NULL: they differ, and not in numbers alone. */
static const HostExpr *
expression(const Fit *fit, const HostExpr *a, const HostExpr *b)
{
    if (a == NULL || b == NULL || a->kind != b->kind || a->index != b->index)
        return NULL;
    if (a->kind == HOST_INT)
        return number(fit, a->integer, b->integer);
    HostExpr *made = arena_new(fit->arena, HostExpr);
    *made = *a;
    if (a->a != NULL)
        made->a = expression(fit, a->a, b->a);
    if (a->b != NULL)
        made->b = expression(fit, a->b, b->b);
    return (a->a != NULL) == (made->a != NULL) && (a->b != NULL) == (made->b != NULL) ? made : NULL;
}

static bool
fit_accesses(const Fit *fit, const RowTerms *first, const RowTerms *second, RowAccess *out)
{
    bool good = first->accesses.n == second->accesses.n;

    for (uint32_t k = 0; good && k < first->accesses.n; k++) {
        const RowAccess *a = &first->accesses.at[k], *b = &second->accesses.at[k];
        out[k] = (RowAccess){a->elements, a->bits, expression(fit, a->run, b->run)};
        good = term_equal(a->elements, b->elements) && a->bits == b->bits && out[k].run != NULL;
    }
    return good;
}

bool
row_ranks_fit(Arena *arena, uint32_t own, uint32_t autos, const RowTerms *first,
              const RowTerms *second, RowTerms *out)
{
    Fit fit = {arena, own, autos < RANKED_AUTOS ? autos : RANKED_AUTOS};
    RowTerms made = {.tiles = expression(&fit, first->tiles, second->tiles),
                     .trips = expression(&fit, first->trips, second->trips),
                     .accesses = first->accesses};

    made.accesses.at = arena_array(arena, RowAccess, first->accesses.n + 1);
    if (made.tiles == NULL || made.trips == NULL ||
        !fit_accesses(&fit, first, second, made.accesses.at))
        return false;
    *out = made;
    return true;
}

RowRanks
row_ranks_of(Arena *arena, const Target *target, const RowSamples *samples, const RowTerms *terms)
{
    uint32_t n = terms->accesses.n;
    RowRanks ranks = {.target = target, .samples = samples, .terms = *terms};

    ranks.group = arena_array(arena, uint32_t, n + 1);
    ranks.clocks = arena_array(arena, int64_t, n + 1);
    ranks.elements = arena_array(arena, int64_t, n * samples->n + 1);
    for (uint32_t k = 0; k < n; k++) {
        const HostExpr *elements = terms->accesses.at[k].elements;
        uint32_t same = 0;
        while (!term_equal(elements, terms->accesses.at[same].elements))
            same++;
        ranks.group[k] = same < k ? ranks.group[same] : ranks.n_groups++;
        int64_t *of = &ranks.elements[ranks.group[k] * samples->n];
        for (uint32_t i = 0; same == k && i < samples->n; i++)
            of[i] = trips_evaluate(elements, row_sample(samples, i), NULL);
    }
    return ranks;
}

double
row_ranks_clocks(const RowRanks *ranks, const int32_t *values, const RowThreads *threads)
{
    const RowTerms *terms = &ranks->terms;
    const RowSamples *samples = ranks->samples;
    RowThreads none = {.blocks = 1};
    double sum = 0;

    memset(ranks->clocks, 0, ranks->n_groups * sizeof *ranks->clocks);
    for (uint32_t i = 0; i < (threads != NULL ? samples->n : 1); i++)
        for (uint32_t k = 0; k < RANKED_AUTOS; k++)
            row_sample(samples, i)[samples->own + k] = values[k];
    for (uint32_t k = 0; k < terms->accesses.n; k++) {
        const RowAccess *access = &terms->accesses.at[k];
        int64_t run = trips_evaluate(access->run, samples->sizes, NULL);
        ranks->clocks[ranks->group[k]] += launch_access_clocks(ranks->target, access, run);
    }
    for (uint32_t i = 0; i < samples->n; i++) {
        const int64_t *sizes = row_sample(samples, i);
        RowCounts counts = {0};
        for (uint32_t g = 0; g < ranks->n_groups; g++)
            counts.access += ranks->clocks[g] * ranks->elements[g * samples->n + i];
        if (threads != NULL) {
            counts.tiles = trips_evaluate(terms->tiles, sizes, NULL);
            counts.trips = trips_evaluate(terms->trips, sizes, NULL);
        }
        const RowThreads *of = threads != NULL ? threads : &none;
        sum += log((double)launch_clocks_of_rows(ranks->target, &counts, of->lanes, of->blocks));
    }
    return exp(sum / samples->n);
}
