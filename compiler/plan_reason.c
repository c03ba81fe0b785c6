/* plan_reason.c - asks the pass `plan` for two bands, with middling sizes for what is open, and keeps
 * what it says. */
#include "compiler/plan_reason.h"

#include <string.h>

const char *
plan_reason(const Front *front, const PassContext *context, Arena *trials, const char *name)
{
    Diag *diag = context->diag;
    uint32_t messages = diag->messages.n, errors = diag->errors;
    PassContext px = *context;
    Front sample = *front;
    Buf bugs;
    PassRun run = {.dump_after = -1, .bugs = &bugs};

    if (px.target->group_mma == NULL || !pass_enabled(&px, "plan"))
        return NULL;
    arena_reset(trials);
    buf_init(&bugs, trials);
    sample.arena = px.arena = trials;
    px.report = NULL;
    px.plan_span = (Span){0};
    px.plan = (PlanHints){.bands = 2, .stages = 2, .slots = 1, .persistent = true, .overlap = true};
    TirFn *fn = front_kernel(&sample, name, NULL, NULL);
    bool ran = fn != NULL && passes_run_until(&px, fn, &run, "plan");
    diag->messages.n = messages;
    diag->errors = errors;
    if (!ran)
        return NULL;
    if (fn->plan != NULL)
        return "none fits its registers and shared memory";
    SourcePlace place = diag_place(diag, px.no_plan_at.lo);
    if (px.no_plan == NULL || px.no_plan_at.lo == 0 || place.file == NULL)
        return px.no_plan;
    const char *slash = strrchr(place.file->path, '/');
    return arena_printf(context->arena, "%s (%s:%u)", px.no_plan,
                        slash == NULL ? place.file->path : slash + 1, place.line);
}
