/* plan_reason.c - asks the pass `plan` for two bands, with middling sizes for what is open, and keeps
 * what it says.  What the search for plans hears from its trials is dropped. */
#include "compiler/plan_reason.h"

#include <string.h>

typedef struct Reason {
    const char *text; /* NULL: nobody looked for a plan */
    Span where;
} Reason;

static Reason
ask(const Front *front, const PassContext *context, Arena *trials, const char *name)
{
    Diag *diag = context->diag;
    uint32_t messages = diag->messages.n, errors = diag->errors;
    PassContext px = *context;
    Front sample = *front;
    Buf bugs;
    PassRun run = {.dump_after = -1, .bugs = &bugs};

    if (px.target->group_mma == NULL || !pass_enabled(&px, "plan"))
        return (Reason){0};
    if (px.warps > 0)
        return (Reason){.text = "--warps fixes the warps of a block"};
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
        return (Reason){0};
    if (fn->plan != NULL)
        return (Reason){"none fits its registers and shared memory", fn->span};
    return (Reason){px.no_plan, px.no_plan_at};
}

const char *
plan_reason(const Front *front, const PassContext *px, Arena *trials, const char *name)
{
    Reason reason = ask(front, px, trials, name);
    SourcePlace place = diag_place(px->diag, reason.where.lo);

    if (reason.text == NULL || reason.where.lo == 0 || place.file == NULL)
        return reason.text;
    const char *slash = strrchr(place.file->path, '/');
    return arena_printf(px->arena, "%s (%s:%u)", reason.text,
                        slash == NULL ? place.file->path : slash + 1, place.line);
}

void
plan_remark(const Front *front, const PassContext *px, Arena *trials, const char *name)
{
    if (!px->diag->show_remarks)
        return;
    Reason reason = ask(front, px, trials, name);
    if (reason.text != NULL)
        diag_remark(px->diag, reason.where, "no plan for warp groups in kernel '%s': %s", name,
                    reason.text);
}
