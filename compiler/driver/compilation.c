/* compilation.c - what the passes of a kernel are told: options, the source's pins, choices. */
#include "compiler/driver/compilation.h"

#include "compiler/passes/pass.h"

bool
compilation_failed(const Compilation *c)
{
    return c->diag.errors > 0 || c->bugs.n > 0;
}

PassContext
compilation_context(Compilation *c)
{
    return (PassContext){
        .arena = &c->arena,
        .scratch = &c->trials,
        .diag = &c->diag,
        .target = c->target,
        .level = c->options->level,
        .switched = c->switched,
        .warps = c->options->warps,
        .stages = c->options->stages,
        .plan = c->plan,
        .plan_said = c->options->plan != NULL && c->options->no_plan != TILEC_IGNORE,
        .unproved = c->options->unproved == TILEC_WARN     ? UNPROVED_WARNING
                    : c->options->unproved == TILEC_IGNORE ? UNPROVED_UNSAID
                                                           : UNPROVED_ERROR,
        .narrow = c->options->narrow == TILEC_FAIL   ? NARROW_ERROR
                  : c->options->narrow == TILEC_WARN ? NARROW_WARNING
                                                     : NARROW_UNSAID,
        .in_sequence = c->module != NULL && c->module->fns.n > 1,
        .report = c->options->report ? &c->report : NULL,
        .bugs = &c->bugs,
    };
}

PassContext
kernel_context(Compilation *c, const TirFn *fn)
{
    PassContext px = compilation_context(c);
    bool chosen = fn->chosen_plan != NULL;
    const char *plan = chosen ? fn->chosen_plan : fn->hint_plan, *fault;

    px.warps = px.warps == 0 ? fn->chosen_warps : px.warps;
    px.stages = px.stages == 0 ? fn->chosen_stages : px.stages;
    if (c->options->plan != NULL || plan == NULL || !target_has_roles(c->target) ||
        !pass_enabled(&px, "plan"))
        return px;
    if (!plan_hints_read(plan, &px.plan, &fault)) /* only tile IR from text can be like that */
        diag_error(&c->diag, chosen ? fn->span : fn->hint_plan_span, "E-PLAN: %s \"%s\": %s",
                   chosen ? "chosen plan" : "hint_plan", plan, fault);
    else if (!chosen)
        px.plan_span = fn->hint_plan_span;
    return px;
}

void
note_choice(TirFn *fn, const PassContext *px)
{
    bool pinned = px->plan_span.lo != 0;

    fn->chosen_warps = px->warps;
    fn->chosen_stages = px->stages;
    if (!pinned && (px->plan.consumers > 0 || fn->hint_plan != NULL))
        fn->chosen_plan = plan_hints_text(px->arena, &px->plan);
}

bool
wants_checks(const Compilation *c)
{
#ifdef NDEBUG
    return c->options->verify;
#else
    (void)c;
    return true;
#endif
}

PassRun
kernel_passes(Compilation *c)
{
    bool timed = c->options->report || c->options->schedule || c->options->schedule_picture;

    c->shown.shown = NULL;
    return (PassRun){
        .seen = timed ? kernel_times_see : NULL,
        .seen_by = &c->times,
        .verify = wants_checks(c),
        .dump = c->options->dump_ir != NULL ? &c->shown : NULL,
        .bugs = &c->bugs,
        .roles_may_fail = true,
        .seconds = c->seconds,
    };
}
