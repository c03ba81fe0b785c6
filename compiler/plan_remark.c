/* plan_remark.c - why a kernel has no plan for warp groups.
 *
 * The search for plans tries many sizes, and what each trial says is dropped.  So the pass is asked
 * once more, for two bands and middling sizes, and its own remark is kept.
 */
#include "compiler/plan_remark.h"

#include <string.h>

void
plan_remark(const Front *front, const PassContext *context, Arena *trials, const char *name)
{
    static const char about[] = "no plan for warp groups";
    Diag *diag = context->diag;
    uint32_t messages = diag->messages.n, errors = diag->errors, kept = messages;
    PassContext px = *context;
    Front sample = *front;
    Buf bugs;
    PassRun run = {.dump_after = -1, .bugs = &bugs};

    if (!diag->show_remarks || px.target->group_mma == NULL || !pass_enabled(&px, "plan"))
        return;
    if (px.warps > 0) {
        diag_remark(diag, (Span){0}, "%s in kernel '%s': --warps fixes the warps of a block", about,
                    name);
        return;
    }
    arena_reset(trials);
    buf_init(&bugs, trials);
    sample.arena = px.arena = trials;
    px.report = NULL;
    px.plan = (PlanHints){.bands = 2, .stages = 2, .slots = 1, .persistent = true, .overlap = true};
    TirFn *fn = front_kernel(&sample, name, NULL, NULL);
    bool planned = fn != NULL && passes_run_until(&px, fn, &run, "plan") && fn->plan != NULL;
    diag->errors = errors;
    if (planned) {
        diag->messages.n = messages;
        diag_remark(diag, fn->span, "%s in kernel '%s': none fits registers and shared memory", about,
                    name);
        return;
    }
    for (uint32_t k = messages; k < diag->messages.n; k++) {
        DiagMessage message = diag->messages.at[k];
        if (message.kind == DIAG_REMARK && strncmp(message.text, about, strlen(about)) == 0)
            diag->messages.at[kept++] = message;
    }
    diag->messages.n = kept;
}
