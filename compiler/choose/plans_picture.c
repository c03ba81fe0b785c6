/* plans_picture.c - draws what a search lists, and what a tuning run has found of it. */
#include "compiler/choose/plans_picture.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compiler/base/svg.h"

enum { LEFT = 430, WIDE = 500, RIGHT = 90, TOP = 84, ROW = 18, TICKS = 5, LETTERS = 62 };

static const char style[] =
    "text{font:11px monospace;fill:#222}.head{font:bold 13px sans-serif}.about,.tick{fill:#777}.taken{font-weight:bold}"
    ".plan{fill:#9dbfe0}.plan.first{fill:#1558a6}.line{stroke:#eee}.time{fill:#c60;stroke:#fff}";

/* The time that the database has of a plan, the last one; 0: it has none. */
static double
time_of(const PlanCandidate *plan, uint32_t n_open, uint32_t n_sizes, const TuningTimes *timed,
        const int64_t *sizes, Arena *arena)
{
    const char *own = plan_hints_text(arena, &plan->choice.plan);
    double found = 0;

    for (uint32_t k = 0; k < timed->n; k++) {
        const TuningTime *time = &timed->at[k];
        bool same = memcmp(time->values, plan->choice.values, n_open * sizeof time->values[0]) ==
                        0 &&
                    memcmp(time->sizes, sizes, n_sizes * sizeof sizes[0]) == 0 &&
                    strcmp(plan_hints_text(arena, &time->plan), own) == 0;
        found = same ? time->microseconds : found;
    }
    return found;
}

/* "M=64 N=64 consumers=3,stages=4,.."; of a long one what fits. */
static const char *
label_of(const PlanCandidates *plans, const PlanCandidate *plan, Arena *arena)
{
    Buf text;

    buf_init(&text, arena);
    for (uint32_t k = 0; k < plans->open.asked && k < MAX_AUTO; k++)
        buf_printf(&text, "%s=%" PRId32 " ", plans->open.names[k], plan->choice.values[k]);
    buf_add(&text, plan_hints_text(arena, &plan->choice.plan));
    if (text.n <= LETTERS)
        return buf_text(&text);
    return arena_printf(arena, "%.*s..", LETTERS - 2, buf_text(&text));
}

/* A round number of milliseconds, of which TICKS are enough for `most`. */
static double
step_of(double most)
{
    double power = pow(10, floor(log10(most / TICKS))), steps[] = {1, 2, 2.5, 5, 10};

    for (uint32_t k = 0; k < sizeof steps / sizeof steps[0]; k++)
        if (steps[k] * power * TICKS >= most)
            return steps[k] * power;
    return most / TICKS;
}

static void
draw_head(const Target *target, const TirFn *sample, const int64_t *sizes, bool timed, double step,
          uint32_t shown, Buf *out)
{
    Arena *arena = out->arena;
    Buf about;

    buf_init(&about, arena);
    buf_add(&about, "for");
    for (uint32_t k = 0; k < sample->sizes.n; k++)
        buf_printf(&about, " %s=%" PRId64, sample->sizes.at[k].name, sizes[k]);
    svg_text(out, "head", 10, 20,
             arena_printf(arena, "%s, %s: %" PRIu32 " plans", sample->name, target->name, shown));
    svg_text(out, "about", 10, 38, buf_text(&about));
    buf_add(out, "<rect class=\"plan first\" x=\"10\" y=\"48\" width=\"12\" height=\"10\"/>\n");
    svg_text(out, "about", 28, 57, "what auto takes, predicted");
    buf_add(out, "<rect class=\"plan\" x=\"220\" y=\"48\" width=\"12\" height=\"10\"/>\n");
    svg_text(out, "about", 238, 57, "others, predicted");
    if (timed) {
        buf_add(out, "<circle class=\"time\" cx=\"376\" cy=\"53\" r=\"5\"/>\n");
        svg_text(out, "about", 388, 57, "timed, by the tuning database");
    }
    for (uint32_t k = 0; k <= TICKS; k++) {
        double x = LEFT + (double)WIDE * k / TICKS;
        buf_printf(out, "<path class=\"line\" d=\"M%.1f %dV%u\"/>\n", x, TOP - 4, TOP + shown * ROW);
        svg_text(out, "tick", x - 8, TOP - 8,
                 arena_printf(arena, k == TICKS ? "%g ms" : "%g", step * k));
    }
}

static void
draw(const Target *target, const TirFn *sample, const PlanCandidates *plans,
     const TuningTimes *timed, const int64_t *sizes, uint32_t shown, Buf *out)
{
    Arena *arena = out->arena;
    double *times = arena_array(arena, double, shown + 1), most = 0;
    uint32_t n_open = plans->open.asked < MAX_AUTO ? plans->open.asked : MAX_AUTO;
    bool any = false;
    Buf body;

    for (uint32_t k = 0; k < shown; k++) {
        const PlanCandidate *plan = &plans->at[k];
        times[k] = time_of(plan, n_open, sample->sizes.n, timed, sizes, arena);
        any |= times[k] > 0;
        most = fmax(most, fmax(times[k], plan->microseconds) / 1e3);
    }
    double step = step_of(most > 0 ? most : 1), scale = WIDE / (step * TICKS * 1e3);
    buf_init(&body, arena);
    draw_head(target, sample, sizes, any, step, shown, &body);
    for (uint32_t k = 0; k < shown; k++) {
        const PlanCandidate *plan = &plans->at[k];
        bool first = plans->taken && k == 0;
        double y = TOP + k * (double)ROW;
        svg_text(&body, first ? "taken" : "row", 10, y + 12, label_of(plans, plan, arena));
        buf_printf(&body,
                   "<rect class=\"plan%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n",
                   first ? " first" : "", LEFT, y + 2, plan->microseconds * scale, ROW - 5);
        if (times[k] > 0)
            buf_printf(
                &body,
                "<circle class=\"time\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>%.4g ms</title></circle>\n",
                LEFT + times[k] * scale, y + ROW / 2.0, times[k] / 1e3);
        svg_text(&body, "tick", LEFT + WIDE + 10, y + 12,
                 arena_printf(arena, "%.4g ms", plan->microseconds / 1e3));
    }
    svg_frame(out, LEFT + WIDE + RIGHT, TOP + shown * (double)ROW + 14, style, buf_text(&body));
}

void
plans_picture(const Front *front, PassContext *px, const TilecSearch *search, const TirFn *sample,
              const PlanCandidates *plans, const int64_t *sizes, uint32_t shown, Buf *out)
{
    const TilecOptions *options = front->options;
    TuningTimes timed = {0};

    if (!search->picture)
        return;
    if (options->tuning != NULL)
        timed = tuning_times(px->arena, px->diag, options->tuning_path, options->tuning, px->target,
                             sample, &plans->open);
    draw(px->target, sample, plans, &timed, sizes, shown, out);
}
