/* search_built.c - prints the plans that tilec builds: a table for people, JSON for programs.
 *
 * A line of JSON begins as a line of the tuning database does, up to the plan; then follow the
 * options that compile it, and what the prediction is made of.
 */
#include "compiler/choose/search.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compiler/choose/built_plans.h"
#include "compiler/choose/plan_reason.h"
#include "compiler/choose/plan_words.h"
#include "compiler/choose/plans_picture.h"

enum { KIB = 1024 };

void
search_print_key(const Target *target, const TirFn *sample, const AutoTiles *open,
                 const int64_t *sizes, const int32_t *values, Buf *out)
{
    bool any = false;

    buf_printf(out, "{\"tuning\":1,\"target\":\"%s\",\"kernel\":\"%s\",\"constants\":{",
               target->name, sample->name);
    for (uint32_t k = 0; k < sample->constants.n; k++) {
        if (auto_is_open(open, sample->constants.at[k].name))
            continue;
        buf_printf(out, "%s\"%s\":\"%s\"", any ? "," : "", sample->constants.at[k].name,
                   sample->constants.at[k].value);
        any = true;
    }
    buf_add(out, "},\"sizes\":{");
    for (uint32_t k = 0; k < sample->sizes.n; k++)
        buf_printf(out, "%s\"%s\":%" PRId64, k > 0 ? "," : "", sample->sizes.at[k].name, sizes[k]);
    buf_add(out, "},\"tiles\":{");
    for (uint32_t k = 0; k < open->asked && k < MAX_AUTO; k++)
        buf_printf(out, "%s\"%s\":%" PRId32, k > 0 ? "," : "", open->names[k], values[k]);
    buf_add(out, "}");
}

/* Where tiles of the grid differ in length: iterations of the SM that has the most with a static
 * scheduler, and each length with the number of tiles that are as long or longer. */
static void
print_lengths(const Target *target, const ConsumerTrips *trips, Buf *out)
{
    const char *between = "";

    buf_printf(out, ",\"static\":%.6g,\"lengths\":[", consumer_most_static(target, trips));
    for (uint32_t k = 0; k < trips->n; k++) {
        bool again = false;
        for (uint32_t j = 0; j < k; j++)
            again |= trips->block[j] == trips->block[k];
        if (again)
            continue;
        buf_printf(out, "%s[%.9g,%.9g]", between, trips->block[k], consumer_as_long(trips, k));
        between = ",";
    }
    buf_char(out, ']');
}

static void
print_json(PassContext *px, const TirFn *sample, const PlanCandidates *plans, const int64_t *sizes,
           uint32_t index, Buf *out)
{
    const PlanCandidate *p = &plans->at[index];
    const ConsumerWork *w = &p->work;
    const ConsumerTrips *t = &p->trips;

    search_print_key(px->target, sample, &plans->open, sizes, p->choice.values, out);
    buf_add(out, ",\"plan\":\"");
    built_print_plan(&p->choice.plan, out);
    buf_add(out, "\",\"options\":\"");
    built_print_options(&plans->open, &p->choice, out);
    buf_printf(
        out,
        "\",\"pipelined\":%s,\"coop_k\":%s,\"variable_trips\":%s,\"sliding\":%s,\"shared_bytes\":%" PRId64,
        p->pipelined ? "true" : "false", w->coop_k ? "true" : "false",
        w->variable_trips ? "true" : "false", w->sliding ? "true" : "false", p->shared_bytes);
    buf_printf(out,
               ",\"work\":{\"tensor\":%.6g,\"shared\":%.6g,\"stage0\":%.6g,\"first\":%.6g,"
               "\"after\":%.6g,"
               "\"special\":%.6g,\"issue\":%.6g,\"vectors\":%.6g,\"added\":%.6g,\"cooperative\":%s,"
               "\"lookahead\":%s,\"held\":%s,\"spare\":%s,"
               "\"stored\":%.6g,\"pipeline_bytes\":%" PRId64 ",\"once_bytes\":%" PRId64 "}",
               w->tensor, w->shared, w->stage0, w->first, w->after, w->special, w->issue,
               w->vectors, w->added, w->cooperative ? "true" : "false",
               w->lookahead ? "true" : "false", w->held ? "true" : "false",
               w->spare ? "true" : "false", w->stored,
               w->pipeline_bytes_shared + p->choice.plan.consumers * w->pipeline_bytes_own,
               w->once_bytes_shared + p->choice.plan.consumers * w->once_bytes_own);
    buf_printf(out, ",\"trips\":{\"blocks\":%.6g,\"each\":%.6g,\"most\":%.6g,\"masks\":%.6g",
               t->blocks, t->each, t->most, t->masks);
    if (w->sliding || w->variable_trips)
        print_lengths(px->target, t, out);
    buf_char(out, '}');
    buf_printf(out,
               ",\"clocks\":{\"products\":%.6g,\"arithmetic\":%.6g,\"iteration\":%.6g,"
               "\"start\":%.6g,\"tile\":%.6g},%s\"predicted_ms\":%.6g}\n",
               p->clocks.mmas, p->clocks.arithmetic, p->clocks.iteration, p->clocks.start,
               p->clocks.tile, plans->taken && index == 0 ? "\"auto\":true," : "",
               p->microseconds / 1e3);
}

static void
print_table(PassContext *px, const TirFn *sample, const PlanCandidates *plans, const int64_t *sizes,
            uint32_t shown, Buf *out)
{
    buf_printf(out, "%s, %s:", sample->name, px->target->name);
    for (uint32_t k = 0; k < sample->constants.n; k++) {
        if (!auto_is_open(&plans->open, sample->constants.at[k].name))
            buf_printf(out, " %s=%s", sample->constants.at[k].name, sample->constants.at[k].value);
    }
    buf_printf(
        out, "\n%" PRIu32 " plan%s that tilec builds, the best %" PRIu32 " by time, predicted for",
        plans->n, plans->n == 1 ? "" : "s", shown);
    for (uint32_t k = 0; k < sample->sizes.n; k++)
        buf_printf(out, " %s=%" PRId64, sample->sizes.at[k].name, sizes[k]);
    buf_add(out, "\n\n  ");
    for (uint32_t j = 0; j < plans->open.asked && j < MAX_AUTO; j++)
        buf_printf(out, "%4s ", plans->open.names[j]);
    buf_add(out,
            "consumers stages q_stages  blocks      products   memory   clocks  tensor       ms\n");
    for (uint32_t k = 0; k < shown; k++) {
        const PlanCandidate *p = &plans->at[k];
        const PlanHints *plan = &p->choice.plan;
        char memory[32];
        snprintf(memory, sizeof memory, "%.0f K", (double)p->shared_bytes / KIB);
        buf_add(out, plans->taken && k == 0 ? "* " : "  ");
        for (uint32_t j = 0; j < plans->open.asked && j < MAX_AUTO; j++)
            buf_printf(out, "%4" PRId32 " ", p->choice.values[j]);
        buf_printf(
            out,
            "%9" PRIu32 " %6" PRIu32 " %8" PRIu32 "  %-10s  %-9s %7s  %7.0f  %4.0f %%  %7.3f\n",
            plan->consumers, plan->stages, plan->q_stages,
            plan->correction                   ? "correction"
            : plan->clc                        ? plan->paired ? "pairs, clc" : "clc"
            : plan->paired                     ? plan->persistent ? "pairs" : "tile, pairs"
            : plan->dynamic && p->work.sliding ? plan->persistent ? "dynamic" : "tile, dynamic"
            : plan->persistent                 ? "persistent"
                                               : "of a tile",
            p->work.coop_k ? "coop_k"
            : p->pipelined ? "pipelined"
                           : "in order",
            memory, p->clocks.iteration,
            100 * plan->consumers * p->work.tensor / p->clocks.iteration, p->microseconds / 1e3);
    }
    if (plans->taken) {
        buf_add(out, "\n  * is what 'auto' takes: ");
        plan_why(plans, 0, out);
        buf_char(out, '\n');
    }
}

/* Why there is not one plan: of those that the search is for the first one's reason. */
static void
say_why(const Front *front, PassContext *px, Arena *trials, const TirFn *sample,
        const TilecSearch *search)
{
    TileChoice first = {0};
    bool listed = false;

    for (uint32_t k = 0; k < MAX_AUTO; k++) {
        uint32_t list = k < TILEC_OPEN ? k : TILEC_OPEN - 1;
        listed |= search->n_tiles[list] > 0;
        first.values[k] = search->n_tiles[list] > 0 ? search->tiles[list][0] : GROUP_ROWS;
    }
    plan_search_error(front, px, trials, sample, listed ? &first : NULL);
}

void
search_print_built(const Front *front, PassContext *px, Arena *trials, const TirFn *sample,
                   const TilecSearch *search, int64_t *sizes, Buf *out, Buf *picture)
{
    PlanCandidates plans = built_plans(front, px, trials, sample, search, sizes);

    if (plans.n == 0) {
        say_why(front, px, trials, sample, search);
        return;
    }
    built_taken_first(front, px, trials, sample->name, search, &plans);
    uint32_t shown = search->rows > 0 && search->rows < plans.n ? (uint32_t)search->rows : plans.n;
    for (uint32_t k = 0; search->json && k < shown; k++)
        print_json(px, sample, &plans, sizes, k, out);
    if (!search->json)
        print_table(px, sample, &plans, sizes, shown, out);
    plans_picture(front, px, search, sample, &plans, sizes, shown, picture);
}
