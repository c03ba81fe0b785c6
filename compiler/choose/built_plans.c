/* built_plans.c - the plans that a search lists, of short launches where those are asked for, what
 * `auto` takes first. */
#include "compiler/choose/built_plans.h"

#include <inttypes.h>
#include <string.h>

void
built_print_plan(const PlanHints *plan, Buf *out)
{
    buf_printf(out,
               "consumers=%" PRIu32 ",stages=%" PRIu32 ",q_stages=%" PRIu32 ",persistent=%" PRIu32
               ",dynamic=%" PRIu32 "%s,pipelined=%" PRIu32 ",pingpong=%" PRIu32 "%s%s%s%s",
               plan->consumers, plan->stages, plan->q_stages, plan->persistent, plan->dynamic,
               plan->clc ? ",clc=1" : "", plan->pipelined, plan->pingpong,
               plan->cooperative ? ",cooperative=1" : "", plan->paired ? ",cluster=2" : "",
               plan->two_blocks ? ",blocks=2" : "", plan->correction ? ",correction=1" : "");
}

/* What compiles this very plan. */
void
built_print_options(const AutoTiles *open, const TileChoice *choice, Buf *out)
{
    for (uint32_t k = 0; k < open->asked && k < MAX_AUTO; k++)
        buf_printf(out, "-D %s=%" PRId32 " ", open->names[k], choice->values[k]);
    buf_add(out, "--plan=");
    built_print_plan(&choice->plan, out);
}

/* What a compilation with these sizes takes, without a tuning database, comes first. */
void
built_taken_first(const Front *front, PassContext *px, Arena *trials, const char *name,
                  const TilecSearch *search, PlanCandidates *plans)
{
    TilecOptions options = *front->options;
    Front as_compiled = *front;
    Buf wanted, text;

    options.sizes = search->sizes;
    options.n_sizes = search->n_sizes;
    as_compiled.options = &options;
    PlanCandidates usual = auto_plan_candidates(&as_compiled, px, trials, name, NULL, NULL);
    plans->sizes_known = usual.sizes_known;
    if (usual.n == 0)
        return;
    buf_init(&wanted, px->arena);
    built_print_options(&usual.open, &usual.at[0].choice, &wanted);
    for (uint32_t k = 0; k < plans->n && !plans->taken; k++) {
        buf_init(&text, px->arena);
        built_print_options(&plans->open, &plans->at[k].choice, &text);
        plans->taken = strcmp(text.at, wanted.at) == 0;
        PlanCandidate taken = plans->at[k];
        for (uint32_t i = k; plans->taken && i > 0; i--)
            plans->at[i] = plans->at[i - 1];
        if (plans->taken)
            plans->at[0] = taken;
    }
}

/* Halves the largest of the sizes that nobody said; false: there is none to halve. */
static bool
halve_size(const TirFn *sample, const TilecSearch *search, int64_t *sizes)
{
    enum { SMALL = 256 }; /* some tiles of the largest kinds */
    uint32_t largest = sample->sizes.n;

    for (uint32_t k = 0; k < sample->sizes.n; k++) {
        bool said = sample->sizes.at[k].usual != 0;
        for (size_t i = 0; i < search->n_sizes; i++)
            said = said || strcmp(search->sizes[i].name, sample->sizes.at[k].name) == 0;
        if (!said && sizes[k] > SMALL && (largest == sample->sizes.n || sizes[k] > sizes[largest]))
            largest = k;
    }
    if (largest < sample->sizes.n)
        sizes[largest] /= 2;
    return largest < sample->sizes.n;
}

/* The plans for these sizes, which are made smaller until the quickest takes no longer than is
 * asked. */
PlanCandidates
built_plans(const Front *front, PassContext *px, Arena *trials, const TirFn *sample,
            const TilecSearch *search, int64_t *sizes)
{
    PlanCandidates plans = auto_plan_candidates(front, px, trials, sample->name, search, sizes);
    bool halved = search->most_microseconds > 0;

    while (halved && plans.n > 0 && plans.at[0].microseconds > search->most_microseconds) {
        double times = plans.at[0].microseconds;
        for (halved = false; times > search->most_microseconds; times /= 2) {
            if (!halve_size(sample, search, sizes))
                break;
            halved = true;
        }
        if (halved)
            plans = auto_plan_candidates(front, px, trials, sample->name, search, sizes);
    }
    return plans;
}
