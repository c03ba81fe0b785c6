/* plan_words.c - what is said of the plans that are tried: rows of a report, remarks, why one of
 * them is taken. */
#include "compiler/choose/plan_words.h"

void
plan_print_choice(const AutoTiles *open, const TileChoice *choice, Buf *out)
{
    const PlanHints *plan = &choice->plan;

    for (uint32_t j = 0; j < open->asked && j < MAX_AUTO; j++)
        buf_printf(out, "%s=%d ", open->names[j], choice->values[j]);
    buf_printf(out, "consumers %u stages %u q_stages %u%s%s", plan->consumers, plan->stages,
               plan->q_stages, plan->cooperative ? ", cooperative" : "",
               plan->persistent ? "" : ", a tile a block");
    buf_add(out, plan->clc ? ", clc" : "");
    buf_add(out, plan->correction ? ", a correction role" : "");
    buf_add(out, plan->paired ? ", pairs of blocks" : plan->two_blocks ? ", two blocks an SM" : "");
}

double
plan_loop_clocks(const PlanCandidate *found)
{
    return found->clocks.iteration / (found->choice.plan.consumers * found->work.multiplies);
}

static bool
divides_usual(const PlanCandidates *found, const PlanCandidate *plan)
{
    bool all = true;

    for (uint32_t k = 0; k < found->open.asked && k < MAX_AUTO; k++)
        all = all && plan->choice.values[k] % USUAL_TILE == 0;
    return all;
}

/* Why `taken` is taken although `other` is predicted to be quicker. */
static const char *
why_not(const PlanCandidates *found, const PlanCandidate *taken, const PlanCandidate *other)
{
    if (!found->sizes_known && divides_usual(found, taken) && !divides_usual(found, other))
        return "but its tiles do not divide most sizes, which counts where these are not known";
    if (!found->sizes_known && plan_loop_clocks(other) > plan_loop_clocks(taken))
        return "but its loop is slower, which counts where sizes are not known";
    return "which is seen when plans are built, not by the estimate that chooses";
}

const char *
plan_about(const PassContext *px, const PlanCandidates *found, uint32_t k)
{
    const PlanCandidate *best = &found->at[k];
    Buf text;

    if (!px->diag->show_remarks)
        return NULL;
    buf_init(&text, px->arena);
    plan_print_choice(&found->open, &best->choice, &text);
    buf_printf(&text, ": predicted to take %.1f us", best->microseconds);
    if (k + 1 < found->n) {
        buf_printf(&text, "; the next of %u tried, ", found->n);
        plan_print_choice(&found->open, &best[1].choice, &text);
        double more = 100 * (best[1].microseconds / best->microseconds - 1);
        if (more >= 0)
            buf_printf(&text, ", takes %.1f %% longer", more);
        else
            buf_printf(&text, ", takes %.1f %% less, %s", -more, why_not(found, best, &best[1]));
    }
    return text.at;
}

void
plan_why(const PlanCandidates *found, uint32_t k, Buf *out)
{
    const PlanCandidate *taken = &found->at[k], *quickest = taken;

    for (uint32_t i = 0; i < found->n; i++) {
        if (found->at[i].built && found->at[i].microseconds < quickest->microseconds)
            quickest = &found->at[i];
    }
    double less = 100 * (1 - quickest->microseconds / taken->microseconds);
    if (less < 0.05) { /* as it is printed */
        buf_add(out, "the quickest");
        return;
    }
    plan_print_choice(&found->open, &quickest->choice, out);
    buf_printf(out, " takes %.1f %% less, %s", less, why_not(found, taken, quickest));
}

/* Candidates in the order in which they are shown: those that were built by their times, then the
 * others. */
static uint32_t
order_shown(const PlanCandidates *found, uint32_t *order)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < found->n && k < PLANS_SHOWN; k++) {
        uint32_t at = n++;
        for (; at > 1 && found->at[k].built; at--) { /* the first stays */
            const PlanCandidate *before = &found->at[order[at - 1]];
            if (before->built && before->microseconds <= found->at[k].microseconds)
                break;
            order[at] = order[at - 1];
        }
        order[at] = k;
    }
    return n;
}

void
plan_report_rows(const PlanCandidates *found, TileChoice *choices, uint32_t n, Buf *report)
{
    uint32_t order[PLANS_SHOWN], shown = order_shown(found, order);

    for (uint32_t i = 0; i < shown; i++) {
        const PlanCandidate *plan = &found->at[order[i]];
        if (order[i] < n)
            choices[order[i]].report_row = 1 + report->n;
        buf_add(report, "    ");
        plan_print_choice(&found->open, &plan->choice, report);
        if (!plan->built) {
            buf_add(report, ": can not be built\n");
            continue;
        }
        buf_printf(report, ": an iteration takes %.0f clocks, a launch %.1f us%s",
                   plan->clocks.iteration, plan->microseconds, i == 0 ? ": " : "\n");
        if (i == 0) {
            plan_why(found, 0, report);
            buf_char(report, '\n');
        }
    }
}
