/* plan_reason.c - runs the passes up to `plan` once more, with the plan that was given (else two
 * consumers) and middling sizes for `auto` parameters, and keeps the reason that `plan` gives for
 * refusing.  The search for plans drops the messages of its trials. */
#include "compiler/choose/plan_reason.h"

#include <string.h>

#include "compiler/choose/trial.h"
#include "compiler/cost/consumer_time.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Reason {
    const char *text; /* NULL: nobody looked for a plan */
    Span where;
} Reason;

/* Of which resource one consumer with one stage of its tiles wants more than there is. */
static const char *
over_limit(Arena *arena, const Target *target, const TirFn *fn)
{
    ConsumerWork w = consumer_work(target, fn, 1);
    PlanHints one = {.consumers = 1, .stages = 1, .q_stages = 1};
    int64_t kib = (consumer_shared_bytes(&w, &one) + 1023) / 1024,
            needed = consumer_registers_needed(&w), most = target_tile_limit(target, 1) / 1024,
            held = target->role_registers[1].consumer;

    return arena_printf(
        arena,
        "one stage of its tiles takes %d KiB of shared memory of %d, its sums and results %d registers of a "
        "thread of %d: make its tiles smaller",
        (int)kib, (int)most, (int)needed, (int)held);
}

static Reason
ask(const Front *front, const PassContext *context, Arena *trials, const char *name,
    const TileChoice *values)
{
    Front sample = *front;
    Trial trial;
    PassContext *px = &trial.px;

    if (!target_predicts_roles(context->target) || !pass_enabled(context, "plan"))
        return (Reason){0};
    if (context->warps > 0)
        return (Reason){.text = "--warps fixes the warps of a block"};
    arena_reset(trials);
    trial_begin(&trial, context, trials);
    sample.arena = trials;
    px->plan_span = (Span){0};
    if (context->plan.consumers == 0)
        px->plan = (PlanHints){.consumers = target_issuer(px->target) == BY_THREAD ? 1 : 2,
                               .stages = 2,
                               .q_stages = 1,
                               .persistent = true,
                               .pipelined = true};
    TirFn *fn = values != NULL ? tile_choice_kernel(&sample, name, values)
                               : front_kernel(&sample, name, NULL, NULL);
    bool ran = fn != NULL && passes_run_until(px, fn, &trial.run, "plan");
    trial_end(&trial);
    if (!ran)
        return (Reason){0};
    if (fn->plan != NULL)
        return (Reason){over_limit(context->arena, px->target, fn), fn->span};
    return (Reason){px->no_plan, px->no_plan_at};
}

const char *
plan_reason(const Front *front, const PassContext *px, Arena *trials, const char *name)
{
    Reason reason = ask(front, px, trials, name, NULL);
    SourcePlace place = diag_place(px->diag, reason.where.lo);

    if (reason.text == NULL || reason.where.lo == 0 || place.file == NULL)
        return reason.text;
    const char *slash = strrchr(place.file->path, '/');
    return arena_printf(px->arena, "%s (%s:%u)", reason.text,
                        slash == NULL ? place.file->path : slash + 1, place.line);
}

/* Whether some loop has products: elsewhere nobody expects a plan. */
static bool
has_loop(const TirBlock *block)
{
    bool found = false;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);)
        found = found || (walk.op->op == TIR_FOR && count_mmas(walk.op->blocks[0]) > 0);
    return found;
}

/* What an error says, without the kernel's name in front, and the warning that it might have
 * been. */
static const char *
error_alone(Arena *arena, const TirFn *fn, const char *error)
{
    const char *name = arena_printf(arena, "kernel '%s'", fn->name);
    size_t named = strlen(name);

    if (strncmp(error, name, named) == 0)
        error += named + strspn(error + named, ": ");
    const char *end = strstr(error, " [-W");
    return arena_printf(arena, "%.*s",
                        (int)(end != NULL ? (size_t)(end - error) : strcspn(error, "\n")), error);
}

uint32_t
plan_warning(const Front *front, const PassContext *px, Arena *trials, const TirFn *fn,
             const char *error)
{
    Diag *diag = px->diag;
    TilecAction action = front->options->no_plan;
    bool kept_out = px->warps > 0 || fn->hint_warps > 0;
    bool quiet = action == TILEC_IGNORE || kept_out || !has_loop(fn->body);

    if (quiet && !diag->show_remarks)
        return 0;
    Reason reason = error != NULL ? (Reason){error_alone(px->arena, fn, error), fn->span}
                                  : ask(front, px, trials, fn->name, NULL);
    if (reason.text == NULL)
        return 0;
    if (quiet || (diag->show_remarks && action != TILEC_FAIL)) {
        diag_remark(diag, reason.where, "no plan for warp groups in kernel '%s': %s", fn->name,
                    reason.text);
        return 0;
    }
    Span where = reason.where.lo != 0 ? reason.where : fn->span;
    if (action == TILEC_FAIL)
        diag_error(diag, where,
                   "E-NO-PLAN: kernel '%s' has no plan for warp groups on %s: %s [-Werror=plan]",
                   fn->name, px->target->name, reason.text);
    else
        diag_warning(diag, where, "kernel '%s' has no plan for warp groups on %s: %s [-Wplan]",
                     fn->name, px->target->name, reason.text);
    return action != TILEC_FAIL;
}

void
plan_search_error(const Front *front, const PassContext *px, Arena *trials, const TirFn *fn,
                  const TileChoice *values)
{
    Reason reason = ask(front, px, trials, fn->name, values);

    diag_error(px->diag, reason.where.lo != 0 ? reason.where : fn->span,
               "E-SEARCH: no plan for warp groups can be built for kernel '%s'%s%s", fn->name,
               reason.text == NULL ? "" : ": ", reason.text == NULL ? "" : reason.text);
}

uint32_t
plan_unused_warning(const Front *front, const TirModule *module)
{
    const TilecOptions *options = front->options;
    bool roles = target_has_roles(front->target), some = false;

    for (uint32_t k = 0; k < module->fns.n; k++)
        some = some || has_loop(module->fns.at[k]->body);
    if (options->plan == NULL || strcmp(options->plan, "none") == 0 || (roles && some) ||
        options->no_plan == TILEC_IGNORE)
        return 0;
    diag_warning(front->diag, (Span){0}, "--plan=%s is not used: %s%s [-Wplan]", options->plan,
                 roles ? "no loop has products" : front->target->name,
                 roles ? "" : " has no products of warp groups");
    return 1;
}
