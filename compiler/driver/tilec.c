/* tilec.c - one compilation from text to text: the C API over front end, passes and printers.
 *
 * Everything lives in one arena.  When the allocator fails, the arena jumps to the setjmp in
 * guarded(), the only one there is.
 */
#include "compiler/tilec.h"

#include <setjmp.h>
#include <string.h>

#include "backends/ptx/print.h"
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/choose/auto_plan.h"
#include "compiler/choose/plan_reason.h"
#include "compiler/choose/search.h"
#include "compiler/emit/metadata.h"
#include "compiler/front/front.h"
#include "compiler/ir/lir.h"
#include "compiler/ir/tir.h"
#include "compiler/lower/tir_to_lir.h"
#include "compiler/passes/passrun.h"
#include "compiler/driver/kernel_times.h"
#include "compiler/driver/page_options.h"
#include "compiler/driver/tables.h"
#include "compiler/report/page.h"
#include "compiler/report/report.h"
#include "compiler/target.h"
#include "compiler/timeline/timeline.h"

typedef struct Compilation {
    Arena arena;
    Arena trials; /* what candidates for tile sizes leave behind, emptied after each */
    jmp_buf on_failure;
    Diag diag;
    const TilecOptions *options;
    const char *path, *text;
    size_t n;
    const char *list;          /* tilec_list */
    const TilecSearch *search; /* tilec_search */
    const Target *target;
    Front front;
    TirModule *module;
    Switched switched;
    const TilecOptions *asked; /* the user's, where `options` are those for a page; else NULL */
    TilecOptions for_page;
    PassDump shown;
    PlanHints plan; /* pinned on the command line */
    uint32_t hints; /* warnings that -Werror leaves alone */
    Buf bugs, dump, report, output, schedule, picture, page;
    KernelTimes times;
    double *seconds; /* by row of the pass table, one more for checks */
    double front_seconds, search_seconds, lower_seconds, print_seconds;
} Compilation;

TilecOptions
tilec_default_options(void)
{
    return (TilecOptions){.arch = "sm_80", .level = 3};
}

/* ---- options ---- */

static bool
ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static const Target *
find_target(Compilation *c, const char *name)
{
    const Target *target = target_find(name);

    if (target == NULL)
        diag_error(&c->diag, (Span){0},
                   "E-TARGET: there is no target '%s'; --list-targets shows them", name);
    return target;
}

static bool
read_options(Compilation *c)
{
    const TilecOptions *options = c->options;

    c->target = find_target(c, options->arch == NULL ? "" : options->arch);
    const Target *chip = options->tune == NULL ? c->target : find_target(c, options->tune);
    if (c->target != NULL && chip != NULL && chip != c->target) {
        c->target = target_tuned(&c->arena, c->target, chip);
        if (c->target == NULL)
            diag_error(&c->diag, (Span){0}, "E-TARGET: -mtune=%s: %s does not run code for %s",
                       options->tune, chip->name, options->arch);
    }
    if (options->level < 0 || options->level > 3)
        diag_error(&c->diag, (Span){0}, "E-OPTION: the level is %d, expected 0 .. 3",
                   options->level);
    for (size_t k = 0; k < options->n_switches; k++)
        switched_read(&c->switched, &c->diag, options->switches[k]);
    const char *fault;
    if (options->plan != NULL && !plan_hints_read(options->plan, &c->plan, &fault))
        diag_error(&c->diag, (Span){0}, "E-PLAN: --plan=%s: %s", options->plan, fault);
    if (options->page && (options->emit != TILEC_EMIT_PTX || ends_with(c->path, ".lir")))
        diag_error(&c->diag, (Span){0},
                   "E-OPTION: a page shows how a program becomes PTX, and nothing else");
    bool stops = options->emit == TILEC_EMIT_AST || options->emit == TILEC_EMIT_TIR ||
                 ends_with(c->path, ".lir");
    if (stops && !options->page && (options->schedule || options->schedule_picture))
        diag_error(
            &c->diag, (Span){0},
            "E-OPTION: --dump-schedule shows what all passes have made: it does not go with lane IR, "
            "--emit=ast, --emit=tir and --run-pass without --emit=ptx");
    c->diag.all_places = options->line_info;
    c->shown = (PassDump){.out = &c->dump};
    if (options->dump_ir != NULL)
        c->shown.rows = pass_rows(&c->diag, options->dump_ir);
    return c->diag.errors == 0;
}

static bool
failed(const Compilation *c)
{
    return c->diag.errors > 0 || c->bugs.n > 0;
}

/* ---- text to tile IR ---- */

static void
keep_kernel(Compilation *c, const char *name)
{
    for (uint32_t k = 0; k < c->module->fns.n; k++) {
        if (strcmp(c->module->fns.at[k]->name, name) == 0) {
            c->module->fns.at[0] = c->module->fns.at[k];
            c->module->fns.n = 1;
            return;
        }
    }
    diag_error(&c->diag, (Span){0}, "E-KERNEL: there is no kernel '%s' in %s", name, c->path);
}

static bool
verify_module(Compilation *c, const char *when)
{
    Buf text;

    buf_init(&text, &c->arena);
    if (tir_verify(c->module, &text))
        return true;
    buf_printf(&c->bugs, "%s:\n%s", when, text.at);
    return false;
}

/* Fills in c->module; false when there is nothing more to do (errors, or the tree was the aim). */
static bool
read_program(Compilation *c)
{
    const SourceFile *file = diag_add_file(&c->diag, c->path, c->text, c->n);

    if (c->n >= UINT32_MAX / 4) {
        diag_error(&c->diag, (Span){0}, "E-FILE: %s is too large", c->path);
        return false;
    }
    if (ends_with(c->path, ".tir")) {
        if (c->options->n_defines > 0)
            diag_error(&c->diag, (Span){0},
                       "E-DEFINE: -D %s: tile IR has no parameters left to set",
                       c->options->defines[0].name);
        c->module = tir_read(&c->arena, &c->diag, file);
        if (c->module == NULL)
            return false;
        if (c->options->kernel != NULL)
            keep_kernel(c, c->options->kernel);
        Buf text;
        buf_init(&text, &c->arena);
        if (!tir_verify(c->module, &text)) /* written by hand: the user's mistake */
            diag_error(&c->diag, (Span){0}, "E-TILE-IR: %s is not valid tile IR:\n%s", c->path,
                       text.at);
        return !failed(c);
    }
    c->front = (Front){
        .arena = &c->arena, .diag = &c->diag, .options = c->options, .target = c->target};
    if (!front_parse(&c->front, file))
        return false;
    if (c->options->emit == TILEC_EMIT_AST || c->options->emit == TILEC_EMIT_FORMATTED) {
        front_print(&c->front, file, &c->output, &c->bugs);
        return false;
    }
    c->module = front_module(&c->front);
    if (c->module == NULL || failed(c))
        return false;
    return verify_module(c, "after the front end");
}

/* ---- tile IR to text ---- */

static PassContext
pass_context(Compilation *c)
{
    return (PassContext){
        .arena = &c->arena,
        .diag = &c->diag,
        .target = c->target,
        .level = c->options->level,
        .switched = c->switched,
        .warps = c->options->warps,
        .stages = c->options->stages,
        .plan = c->plan,
        .unproved = c->options->unproved == TILEC_WARN     ? UNPROVED_WARNING
                    : c->options->unproved == TILEC_IGNORE ? UNPROVED_UNSAID
                                                           : UNPROVED_ERROR,
        .in_sequence = c->module != NULL && c->module->fns.n > 1,
        .report = c->options->report ? &c->report : NULL,
        .bugs = &c->bugs,
    };
}

/* The same for one kernel, whose source may pin a plan, or whose text tell what was chosen before; the command line's
 * word counts more. */
static PassContext
kernel_context(Compilation *c, const TirFn *fn)
{
    PassContext px = pass_context(c);
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

/* So that the text of tile IR goes on as the program does: what the passes are told beside it. */
static void
note_choice(TirFn *fn, const PassContext *px)
{
    bool pinned = px->plan_span.lo != 0;

    fn->chosen_warps = px->warps;
    fn->chosen_stages = px->stages;
    if (!pinned && (px->plan.consumers > 0 || fn->hint_plan != NULL))
        fn->chosen_plan = plan_hints_text(px->arena, &px->plan);
}

static bool
wants_checks(const Compilation *c)
{
#ifdef NDEBUG
    return c->options->verify;
#else
    (void)c;
    return true;
#endif
}

/* For one kernel, from its beginning. */
static PassRun
pass_run(Compilation *c)
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

static void
emit_header(Compilation *c, const ModuleFacts *facts, const char *ptx)
{
    const TilecCubin *given = c->options->header_cubins;
    size_t n = c->options->n_header_cubins;
    HeaderCubin *cubins = arena_array(&c->arena, HeaderCubin, n);

    for (size_t k = 0; k < n; k++)
        cubins[k] = (HeaderCubin){given[k].arch, given[k].bytes, given[k].n};
    HeaderCode inside = {c->options->header_with_ptx ? ptx : NULL, cubins, n};
    header_print(c->module, facts, c->options->header_name, &inside, &c->output);
}

enum { LINE_BYTES = 72 }; /* of PTX, a generous average */

static void
emit(Compilation *c, LirFn *const *lowered)
{
    const TilecOptions *options = c->options;
    const Diag *lines = options->line_info ? &c->diag : NULL;
    Buf ptx, *out = &c->output;
    size_t lines_of_ptx = 0;

    const char *arch = c->target->ptx_target;
    for (uint32_t k = 0; k < c->module->fns.n; k++) {
        if (c->module->fns.at[k]->plan != NULL)
            arch = c->target->ptx_target_exact;
    }
    SourcePlace from = c->module->fns.n == 0 ? (SourcePlace){0}
                                             : diag_origin(&c->diag, c->module->fns.at[0]->span.lo);
    const char *source = file_base_name(from.file == NULL ? c->path : from.file->path);
    ModuleFacts facts = {TILEC_VERSION, source, arch, c->target->ptx_version, lowered};
    if (options->emit == TILEC_EMIT_JSON) {
        metadata_json(c->module, &facts, out);
        buf_char(out, '\n');
        return;
    }
    if (options->emit == TILEC_EMIT_LIR) {
        for (uint32_t k = 0; k < c->module->fns.n; k++)
            lir_print(lowered[k], out);
        return;
    }
    buf_init(&ptx, &c->arena);
    for (uint32_t k = 0; k < c->module->fns.n; k++)
        lines_of_ptx += lowered[k]->insns.n;
    buf_reserve(&ptx, LINE_BYTES * lines_of_ptx);
    metadata_comment(c->module, &facts, &ptx);
    ptx_print_head(c->target, arch, &ptx);
    if (lines != NULL)
        ptx_print_files(lines, &ptx);
    metadata_declare(c->module, &facts, &ptx);
    for (uint32_t k = 0; k < c->module->fns.n; k++) {
        buf_char(&ptx, '\n');
        ptx_print_kernel(lowered[k], lines, &ptx);
    }
    if (options->emit == TILEC_EMIT_HEADER)
        emit_header(c, &facts, ptx.at);
    else
        *out = ptx;
}

/* Launch expressions have the sizes and scalars by their names, and `sm_count` beside them. */
static bool
names_are_free(Compilation *c, const TirFn *fn)
{
    static const char *const taken = "sm_count";
    Span span = {0};
    bool found = false;

    for (uint32_t k = 0; k < fn->sizes.n; k++)
        if (strcmp(fn->sizes.at[k].name, taken) == 0) {
            span = fn->span;
            found = true;
        }
    for (uint32_t k = 0; k < fn->scalars.n; k++)
        if (strcmp(fn->scalars.at[k].name, taken) == 0) {
            span = fn->scalars.at[k].span;
            found = true;
        }
    if (found)
        diag_error(&c->diag, span,
                   "E-RESERVED: '%s' cannot name a size or a scalar of '%s': it is the number of "
                   "multiprocessors of the GPU, for launchers",
                   taken, fn->name);
    return !found;
}

/* Whether the search has already made what would be made of a choice now. */
static bool
is_made(const Compilation *c, const TileChoice *choice)
{
    return choice != NULL && choice->code != NULL && !wants_checks(c) &&
           c->options->dump_ir == NULL && !c->options->report;
}

/* Passes and lowering of one kernel.  NULL after errors. */
static LirFn *
lower_one(Compilation *c, TirFn *fn, const TileChoice *choice)
{
    PassContext px = kernel_context(c, fn);
    PassRun run = pass_run(c);

    if (choice != NULL && choice->plan.consumers > 0)
        px.plan = choice->plan;
    else if (choice != NULL && choice->warps > 0)
        px.warps = choice->warps;
    if (choice != NULL && choice->stages > 0)
        px.stages = choice->stages;
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
    LirFn *lowered = made ? choice->code : lower_kernel(&px, fn);
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

/* What an attempt that failed leaves behind, and goes back to. */
typedef struct Mark {
    uint32_t messages, errors, dump, report;
} Mark;

static Mark
set_mark(const Compilation *c)
{
    return (Mark){c->diag.messages.n, c->diag.errors, c->dump.n, c->report.n};
}

static void
go_back(Compilation *c, Mark mark)
{
    c->diag.messages.n = mark.messages;
    c->diag.errors = mark.errors;
    buf_cut(&c->dump, mark.dump);
    buf_cut(&c->report, mark.report);
}

/* Kernel `k` by the best plan for warp groups that can be compiled; NULL: there is none, and what was
 * said is unsaid, but for what the first of them failed with (`*why`). */
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
            tile_choice_mark(&plans->at[n], &c->report);
            return lowered;
        }
        for (uint32_t i = mark.messages; i < c->diag.messages.n && *why == NULL; i++)
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
    TileChoices plans = auto_plan_search(&c->front, &px, &c->trials, fn->name);
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

/* Kernel `k` by the cheapest choice for what it leaves open that can be compiled. */
static LirFn *
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
        choices = auto_tiles_search(&c->front, &px, &c->trials, fn->name);
        c->search_seconds += pass_clock() - begin;
    }
    Mark before = set_mark(c), after = before;
    DiagMessage *messages = NULL;
    for (uint32_t n = 0; n < choices.n; n++) {
        go_back(c, before);
        const TileChoice *choice = &choices.at[n];
        fn = is_made(c, choice) ? choice->fn : tile_choice_kernel(&c->front, fn->name, choice);
        LirFn *lowered = fn == NULL ? NULL : lower_one(c, fn, choice);
        if (lowered != NULL || c->bugs.n > 0) {
            c->module->fns.at[k] = fn != NULL ? fn : c->module->fns.at[k];
            return lowered;
        }
        fn = c->module->fns.at[k];
        if (n == 0) { /* the messages of the first attempt are the ones to show */
            after = set_mark(c);
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
    c->diag.messages.n = before.messages;
    for (uint32_t j = before.messages; j < after.messages; j++)
        vec_push(&c->arena, &c->diag.messages, messages[j]);
    c->diag.errors = after.errors;
    return NULL;
}

static void
run_named_passes(Compilation *c)
{
    PassRun run = pass_run(c);

    for (uint32_t k = 0; k < c->module->fns.n; k++) {
        TirFn *fn = c->module->fns.at[k];
        PassContext px = kernel_context(c, fn);
        note_choice(fn, &px);
        if (failed(c) || !passes_run_list(&px, fn, &run, c->options->run_pass))
            return;
    }
}

/* Lane IR from a file to PTX, or to lane IR again.  It says nothing of tensors and grids, so there
 * is no metadata. */
static void
compile_lane_ir(Compilation *c)
{
    const SourceFile *file = diag_add_file(&c->diag, c->path, c->text, c->n);
    LirFnList fns = {0};
    Buf text;

    if (c->options->emit != TILEC_EMIT_PTX && c->options->emit != TILEC_EMIT_LIR)
        diag_error(&c->diag, (Span){0}, "E-LANE-IR: lane IR becomes PTX or lane IR, nothing else");
    if (c->options->n_defines > 0 || c->options->run_pass != NULL || c->options->kernel != NULL ||
        c->options->dump_ir != NULL)
        diag_error(&c->diag, (Span){0},
                   "E-OPTION: -D, --kernel, --run-pass and --dump-ir do not go with "
                   "lane IR: no pass runs on it");
    if (failed(c) || !lir_read(&c->arena, &c->diag, file, &fns))
        return;
    buf_init(&text, &c->arena);
    for (uint32_t k = 0; k < fns.n; k++) {
        if (!lir_verify(fns.at[k], &text))
            diag_error(&c->diag, (Span){0}, "E-LANE-IR: %s is not valid lane IR:\n%s", c->path,
                       text.at);
    }
    if (failed(c))
        return;
    const char *arch = c->target->ptx_target;
    for (uint32_t k = 0; k < fns.n; k++) {
        if (lir_has_roles(fns.at[k]) && arch != NULL)
            arch = target_has_roles(c->target) ? c->target->ptx_target_exact : NULL;
        if (lir_has_group_mma(fns.at[k]) && target_mma(c->target, BY_WARP_GROUP, DT_BF16) == NULL)
            arch = NULL;
    }
    if (arch == NULL) {
        diag_error(&c->diag, (Span){0}, "E-LANE-IR: %s has instructions that %s does not have",
                   c->path, c->target->name);
        return;
    }
    if (c->options->emit == TILEC_EMIT_PTX)
        ptx_print_head(c->target, arch, &c->output);
    for (uint32_t k = 0; k < fns.n; k++) {
        if (c->options->emit == TILEC_EMIT_LIR) {
            lir_print(fns.at[k], &c->output);
            continue;
        }
        buf_add(&c->output, k > 0 ? "\n" : "");
        ptx_print_kernel(fns.at[k], NULL, &c->output);
    }
}

/* Fills in the schedules that were asked for. */
static void
show_schedules(Compilation *c)
{
    uint32_t n = c->module->fns.n;
    TimelineOf *of = arena_array(&c->arena, TimelineOf, n + 1);

    if (!c->options->schedule && !c->options->schedule_picture)
        return;
    for (uint32_t k = 0; k < n; k++) {
        const TirFn *fn = c->module->fns.at[k];
        PassContext px = kernel_context(c, fn);
        of[k] = (TimelineOf){.fn = fn, .time = kernel_times_of(&c->times, fn)};
        bool kept_out = px.plan.consumers == 0 &&
                        (c->options->plan != NULL || px.plan_span.lo != 0);
        if (kept_out)
            of[k].why = "none is wanted";
        else if (fn->plan == NULL && c->front.ast != NULL)
            of[k].why = plan_reason(&c->front, &px, &c->trials, fn->name);
        if (c->options->schedule)
            timeline_text(c->target, &of[k], &c->schedule);
    }
    if (c->options->schedule_picture)
        timeline_svg(c->target, of, n, &c->picture);
}

static void
make_page(Compilation *c)
{
    const char *options = arena_printf(&c->arena, "%s, -O%d", c->target->name, c->options->level);
    Page page = {&c->diag,
                 c->path,
                 options,
                 c->module,
                 c->target,
                 buf_text(&c->output),
                 buf_text(&c->picture),
                 buf_text(&c->report)};

    page_print(&page, &c->page);
}

static void
compile(Compilation *c)
{
    if (!read_options(c))
        return;
    if (ends_with(c->path, ".lir")) {
        compile_lane_ir(c);
        return;
    }
    double begin = pass_clock();
    bool go_on = read_program(c);
    c->front_seconds = pass_clock() - begin;
    if (!go_on)
        return;
    bool named = c->options->run_pass != NULL;
    if (named)
        run_named_passes(c);
    if (failed(c))
        return;
    if (c->options->emit == TILEC_EMIT_TIR) {
        tir_print(c->module, &c->output);
        return;
    }
    LirFn **lowered = arena_array(&c->arena, LirFn *, c->module->fns.n + 1);
    /* the errors of all kernels are worth seeing */
    for (uint32_t k = 0; k < c->module->fns.n && c->bugs.n == 0; k++)
        lowered[k] = named ? lower_one(c, c->module->fns.at[k], NULL) : lower_with_choices(c, k);
    if (failed(c))
        return;
    show_schedules(c);
    begin = pass_clock();
    emit(c, lowered);
    if (c->options->page && !failed(c))
        make_page(c);
    c->print_seconds = pass_clock() - begin;
}

static void
search(Compilation *c)
{
    if (!read_options(c))
        return;
    if (ends_with(c->path, ".tir") || ends_with(c->path, ".lir")) {
        diag_error(&c->diag, (Span){0},
                   "E-SEARCH: a search is for programs: %s has no sizes left to choose", c->path);
        return;
    }
    const SourceFile *file = diag_add_file(&c->diag, c->path, c->text, c->n);
    if (c->n >= UINT32_MAX / 4) {
        diag_error(&c->diag, (Span){0}, "E-FILE: %s is too large", c->path);
        return;
    }
    c->front = (Front){
        .arena = &c->arena, .diag = &c->diag, .options = c->options, .target = c->target};
    if (!front_parse(&c->front, file))
        return;
    PassContext px = pass_context(c);
    search_run(&c->front, &px, &c->trials, c->search, &c->output);
}

/* ---- the API edge ---- */

static void
time_report(Compilation *c, Buf *out)
{
    double total = c->front_seconds + c->search_seconds + c->lower_seconds + c->print_seconds;

    for (uint32_t row = 0; row <= pass_count; row++)
        total += c->seconds[row];
    buf_printf(out, "%9.3f ms  front end\n", 1e3 * c->front_seconds);
    buf_printf(out, "%9.3f ms  choosing tiles\n", 1e3 * c->search_seconds);
    for (uint32_t row = 0; row < pass_count; row++)
        buf_printf(out, "%9.3f ms  %s\n", 1e3 * c->seconds[row], pass_table[row].name);
    buf_printf(out, "%9.3f ms  checks and dumps\n", 1e3 * c->seconds[pass_count]);
    buf_printf(out, "%9.3f ms  lowering\n", 1e3 * c->lower_seconds);
    buf_printf(out, "%9.3f ms  printing\n", 1e3 * c->print_seconds);
    buf_printf(out, "%9.3f ms  in all, %zu KiB\n", 1e3 * total,
               (c->arena.total_bytes + c->trials.total_bytes) / 1024);
}

static void
fill_result(Compilation *c, TilecResult *result)
{
    Buf messages, times;

    buf_init(&messages, &c->arena);
    buf_init(&times, &c->arena);
    for (uint32_t k = 0; k < c->diag.messages.n; k++)
        result->warnings += c->diag.messages.at[k].kind == DIAG_WARNING;
    if (c->asked != NULL && !c->asked->remarks)
        diag_drop_remarks(&c->diag);
    diag_print(&c->diag, &messages);
    if (c->diag.errors == 0 && result->warnings > c->hints && c->options != NULL &&
        c->options->warnings_are_errors) {
        buf_add(&messages, "tilec: error: warnings count as errors (-Werror) [E-WARNINGS]\n");
        c->diag.errors = 1;
    }
    if (c->bugs.n > 0)
        buf_printf(&messages,
                   "tilec: internal error: please report this with the program that "
                   "caused it\n%s",
                   c->bugs.at);
    result->errors = c->diag.errors;
    result->status = c->bugs.n > 0 ? TILEC_BUG : c->diag.errors > 0 ? TILEC_ERROR : TILEC_OK;
    result->messages = buf_text(&messages);
    result->dump = buf_text(&c->dump);
    result->report = c->asked != NULL && !c->asked->report ? "" : buf_text(&c->report);
    result->schedule = buf_text(&c->schedule);
    result->schedule_picture = c->asked != NULL && !c->asked->schedule_picture
                                   ? ""
                                   : buf_text(&c->picture);
    result->page = buf_text(&c->page);
    if (c->seconds != NULL)
        time_report(c, &times);
    result->time_report = buf_text(&times);
    if (result->status == TILEC_OK) {
        result->output = buf_text(&c->output);
        result->output_bytes = c->output.n;
    }
    result->memory_bytes = c->arena.total_bytes + c->trials.total_bytes;
}

/* Nothing here changes a local variable after setjmp. */
static void
guarded(Compilation *c, TilecResult *result)
{
    if (setjmp(c->on_failure) != 0) {
        size_t bytes = c->arena.total_bytes + c->trials.total_bytes;
        arena_free(&c->arena);
        arena_free(&c->trials);
        *result = (TilecResult){.status = TILEC_OUT_OF_MEMORY,
                                .messages = "tilec: error: out of memory [E-MEMORY]\n",
                                .dump = "",
                                .report = "",
                                .schedule = "",
                                .schedule_picture = "",
                                .page = "",
                                .time_report = "",
                                .memory_bytes = bytes,
                                .storage = c};
        return;
    }
    if (c->options != NULL && c->options->page) {
        c->asked = c->options;
        c->for_page = page_options(c->options);
        c->options = &c->for_page;
    }
    diag_init(&c->diag, &c->arena);
    buf_init(&c->bugs, &c->arena);
    buf_init(&c->dump, &c->arena);
    buf_init(&c->schedule, &c->arena);
    buf_init(&c->picture, &c->arena);
    buf_init(&c->page, &c->arena);
    buf_init(&c->report, &c->arena);
    buf_init(&c->output, &c->arena);
    if (c->list != NULL) {
        tables_print(&c->diag, c->list, &c->output);
    } else {
        c->diag.show_remarks = c->options->remarks;
        if (c->options->time_report)
            c->seconds = arena_array(&c->arena, double, pass_count + 1);
        if (c->search != NULL)
            search(c);
        else
            compile(c);
    }
    arena_free(&c->trials);
    fill_result(c, result);
}

static TilecStatus
run(const TilecAllocator *given, const Compilation *task, TilecResult *result)
{
    Allocator allocator = allocator_libc();

    if (given != NULL)
        allocator = (Allocator){given->allocate, given->release, given->user};
    *result = (TilecResult){.status = TILEC_OUT_OF_MEMORY,
                            .messages = "tilec: error: out of memory [E-MEMORY]\n",
                            .dump = "",
                            .report = "",
                            .schedule = "",
                            .schedule_picture = "",
                            .page = "",
                            .time_report = ""};
    Compilation *c = allocator.allocate(allocator.user, sizeof *c);
    if (c == NULL)
        return result->status;
    *c = *task;
    arena_init(&c->arena, allocator, &c->on_failure);
    arena_init(&c->trials, allocator, &c->on_failure);
    result->storage = c;
    guarded(c, result);
    return result->status;
}

TilecStatus
tilec_compile(const TilecOptions *options, const char *path, const char *text, size_t n,
              TilecResult *result)
{
    Compilation task = {.options = options, .path = path, .text = text, .n = n};
    return run(options->allocator, &task, result);
}

TilecStatus
tilec_search(const TilecOptions *options, const TilecSearch *asked, const char *path,
             const char *text, size_t n, TilecResult *result)
{
    Compilation task = {.options = options, .search = asked, .path = path, .text = text, .n = n};
    return run(options->allocator, &task, result);
}

TilecStatus
tilec_list(const TilecAllocator *allocator, const char *which, TilecResult *result)
{
    Compilation task = {.list = which};
    return run(allocator, &task, result);
}

void
tilec_result_free(TilecResult *result)
{
    Compilation *c = result->storage;

    if (c != NULL) {
        Allocator allocator = c->arena.allocator;
        arena_free(&c->arena);
        allocator.release(allocator.user, c);
    }
    *result = (TilecResult){.messages = "",
                            .dump = "",
                            .report = "",
                            .schedule = "",
                            .schedule_picture = "",
                            .page = "",
                            .time_report = ""};
}
