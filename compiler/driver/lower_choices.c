/* lower_choices.c - a kernel by the best of its choices for what it leaves open that can be
 * compiled. */
#include <string.h>

#include "compiler/choose/auto_plan.h"
#include "compiler/choose/plan_reason.h"
#include "compiler/driver/compilation.h"
#include "compiler/lower/tir_to_lir.h"
#include "compiler/report/report.h"

/* Launch expressions have the sizes and scalars by their names, and facts of the device beside
 * them. */
static bool
names_are_free(Compilation *c, const TirFn *fn)
{
    DeviceFact taken = DEVICE_FACTS;
    Span span = {0};

    for (uint32_t k = 0; k < fn->sizes.n; k++)
        if (device_fact(fn->sizes.at[k].name) < DEVICE_FACTS) {
            span = fn->span;
            taken = device_fact(fn->sizes.at[k].name);
        }
    for (uint32_t k = 0; k < fn->scalars.n; k++)
        if (device_fact(fn->scalars.at[k].name) < DEVICE_FACTS) {
            span = fn->scalars.at[k].span;
            taken = device_fact(fn->scalars.at[k].name);
        }
    if (taken < DEVICE_FACTS)
        diag_error(&c->diag, span,
                   "E-RESERVED: '%s' cannot name a size or a scalar of '%s': it is %s, for "
                   "launchers",
                   device_facts[taken].name, fn->name, device_facts[taken].what);
    return taken == DEVICE_FACTS;
}

/* Whether the search has already made what would be made of a choice now: the kernel, if not its
 * code. */
static bool
is_made(const Compilation *c, const TileChoice *choice)
{
    return choice != NULL && choice->fn != NULL && !wants_checks(c) &&
           c->options->dump_ir == NULL && !c->options->report;
}

LirFn *
lower_one(Compilation *c, TirFn *fn, const TileChoice *choice)
{
    PassContext px = kernel_context(c, fn);
    PassRun run = kernel_passes(c);

    if (choice != NULL && choice->plan.consumers > 0)
        px.plan = choice->plan;
    else if (choice != NULL && choice->warps > 0)
        px.warps = choice->warps;
    if (choice != NULL && choice->stages > 0)
        px.stages = choice->stages;
    px.once = choice != NULL && choice->once;
    if (choice != NULL && choice->stages == 1 && choice->plan.consumers == 0)
        tile_choice_say_one_stage(fn->body);
    note_choice(fn, &px);

    if (!names_are_free(c, fn))
        return NULL;
    if (c->options->report)
        buf_printf(&c->report, "kernel %s, %s, -O%d\n", fn->name, c->target->name,
                   c->options->level);
    bool made = is_made(c, choice);
    if (!made && !passes_run(&px, fn, &run))
        return NULL;
    double begin = pass_clock();
    uint32_t errors = c->diag.errors;
    size_t bugs = c->bugs.n;
    LirFn *lowered = made && choice->code != NULL ? choice->code : lower_kernel(&px, fn, false);
    c->lower_seconds += pass_clock() - begin;
    if (lowered == NULL && c->diag.errors == errors && c->bugs.n == bugs)
        buf_printf(&c->bugs, "the lowering gave up on '%s' without saying why\n", fn->name);
    if (lowered != NULL && run.verify) {
        Buf text;
        buf_init(&text, &c->arena);
        if (!lir_verify(lowered, &text))
            buf_printf(&c->bugs, "after the lowering:\n%s", text.at);
    }
    if (lowered != NULL) {
        Buf text;
        buf_init(&text, &c->arena);
        if (!launch_verify(fn, lowered, &text))
            buf_printf(&c->bugs, "after the lowering:\n%s", text.at);
    }
    if (lowered != NULL && c->options->report)
        report_kernel(fn, lowered, c->target, &c->report);
    return lowered;
}

Mark
set_mark(const Compilation *c)
{
    return (Mark){diag_mark(&c->diag), c->dump.n, c->report.n};
}

void
go_back(Compilation *c, Mark mark)
{
    diag_rewind(&c->diag, mark.said);
    buf_cut(&c->dump, mark.dump);
    buf_cut(&c->report, mark.report);
}

/* Kernel `k` by the best plan for warp groups that can be compiled; NULL: there is none, and what
 * was said is unsaid, but for what the first of them failed with (`*why`). */
static LirFn *
lower_with_plans(Compilation *c, uint32_t k, const TileChoices *plans, const char **why)
{
    TirFn *before = c->module->fns.at[k];
    Mark mark = set_mark(c);

    for (uint32_t n = 0; n < plans->n; n++) {
        TirFn *fn = tile_choice_kernel(&c->front, before->name, &plans->at[n]);
        LirFn *lowered = fn == NULL ? NULL : lower_one(c, fn, &plans->at[n]);
        if (c->bugs.n > 0 || (lowered != NULL && fn->plan != NULL)) {
            c->module->fns.at[k] = fn != NULL ? fn : before;
            c->taken[k] = &plans->at[n];
            tile_choice_mark(&plans->at[n], &c->report);
            if (plans->at[n].about != NULL)
                diag_remark(&c->diag, fn->span, "kernel '%s': %s", before->name, plans->at[n].about);
            return lowered;
        }
        for (uint32_t i = mark.said.messages; i < c->diag.messages.n && *why == NULL; i++)
            *why = c->diag.messages.at[i].kind == DIAG_ERROR ? c->diag.messages.at[i].text : NULL;
        go_back(c, mark);
    }
    return NULL;
}

/* Choices for what a kernel leaves open: of its sizes only, when its source pins the plan. */
static TileChoices
search_plans(Compilation *c, const PassContext *kernel, const TirFn *fn)
{
    PassContext px = *kernel;
    bool pinned = px.plan_span.lo != 0;

    if (pinned && px.stages == 0)
        px.stages = px.plan.stages;
    TileChoices plans = auto_plan_search(&c->front, &px, &c->trials, fn);
    uint32_t n = 0;
    for (uint32_t k = 0; k < plans.n; k++) {
        TileChoice choice = plans.at[k];
        if (pinned && choice.plan.consumers != kernel->plan.consumers)
            continue;
        if (pinned) {
            choice.plan = kernel->plan;
            choice.stages = 0;
        }
        plans.at[n++] = choice;
    }
    plans.n = n;
    return plans;
}

LirFn *
lower_with_choices(Compilation *c, uint32_t k)
{
    TirFn *fn = c->module->fns.at[k];
    TileChoices choices = {0};
    uint32_t errors = c->diag.errors;
    PassContext px = kernel_context(c, fn);

    if (c->diag.errors > errors)
        return NULL;
    if (c->options->plan == NULL && fn->hint_plan != NULL && strcmp(fn->hint_plan, "none") != 0 &&
        !target_has_roles(c->target))
        diag_warning(&c->diag, fn->hint_plan_span,
                     "the plan of kernel '%s' is not used: %s has no products of warp groups",
                     fn->name, c->target->name);
    if (c->front.ast != NULL && c->options->plan == NULL &&
        (px.plan_span.lo == 0 || px.plan.consumers > 0)) {
        double begin = pass_clock();
        TileChoices plans = search_plans(c, &px, fn);
        c->search_seconds += pass_clock() - begin;
        const char *why = NULL;
        LirFn *lowered = lower_with_plans(c, k, &plans, &why);
        if (lowered != NULL || c->bugs.n > 0)
            return lowered;
        if (px.plan.consumers == 0)
            c->hints += plan_warning(&c->front, &px, &c->trials, fn, why);
    }
    if (c->front.ast != NULL && px.plan.consumers == 0) {
        double begin = pass_clock();
        choices = auto_tiles_search(&c->front, &px, &c->trials, fn);
        c->search_seconds += pass_clock() - begin;
    }
    Mark before = set_mark(c);
    DiagMark after = before.said;
    DiagMessage *messages = NULL;
    for (uint32_t n = 0; n < choices.n; n++) {
        go_back(c, before);
        const TileChoice *choice = &choices.at[n];
        fn = is_made(c, choice) ? choice->fn : tile_choice_kernel(&c->front, fn->name, choice);
        LirFn *lowered = fn == NULL ? NULL : lower_one(c, fn, choice);
        if (lowered != NULL || c->bugs.n > 0) {
            c->module->fns.at[k] = fn != NULL ? fn : c->module->fns.at[k];
            c->taken[k] = choice;
            return lowered;
        }
        fn = c->module->fns.at[k];
        if (n == 0) { /* the messages of the first attempt are the ones to show */
            after = diag_mark(&c->diag);
            messages = arena_copy(&c->arena, c->diag.messages.at, after.messages * sizeof *messages);
        }
    }
    if (choices.n == 0) { /* nothing is open, or nothing fits and the passes say why */
        LirFn *lowered = lower_one(c, fn, NULL);
        bool refused = c->options->plan != NULL && px.plan.consumers > 0 && lowered != NULL &&
                       fn->plan == NULL;
        /* else a remark has said so */
        if (refused && c->front.ast != NULL && !c->diag.show_remarks)
            c->hints += plan_warning(&c->front, &px, &c->trials, fn, NULL);
        return lowered;
    }
    diag_rewind(&c->diag, before.said);
    for (uint32_t j = before.said.messages; j < after.messages; j++)
        vec_push(&c->arena, &c->diag.messages, messages[j]);
    c->diag.errors = after.errors;
    return NULL;
}
