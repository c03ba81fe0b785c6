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
#include "compiler/base/near.h"
#include "compiler/choose/plan_reason.h"
#include "compiler/choose/search.h"
#include "compiler/emit/metadata.h"
#include "compiler/front/front.h"
#include "compiler/ir/lir.h"
#include "compiler/ir/tir.h"
#include "compiler/passes/passrun.h"
#include "compiler/driver/arguments.h"
#include "compiler/driver/compilation.h"
#include "compiler/driver/page_options.h"
#include "compiler/driver/tables.h"
#include "compiler/driver/several_targets.h"
#include "compiler/report/page.h"
#include "compiler/report/report.h"
#include "compiler/target.h"
#include "compiler/timeline/timeline.h"

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
        diag_error(&c->diag, (Span){0}, "E-TARGET: there is no target '%s'; %s", name,
                   target_hint(&c->arena, name));
    return target;
}

/* Variants are chosen among plans, for programs. */
static void
check_variants(Compilation *c)
{
    const TilecOptions *options = c->options;

    if (options->variants == NULL)
        return;
    if (strcmp(options->variants, "auto") != 0)
        diag_error(&c->diag, (Span){0}, "E-OPTION: --variants=%s: expected auto", options->variants);
    if (options->plan != NULL || options->run_pass != NULL || options->emit == TILEC_EMIT_TIR ||
        options->emit == TILEC_EMIT_LIR || ends_with(c->path, ".tir") || ends_with(c->path, ".lir"))
        diag_error(
            &c->diag, (Span){0},
            "E-OPTION: --variants chooses plans of a program, for PTX, headers and metadata: it does "
            "not go with --plan, --run-pass, --emit=tir, --emit=lir and text of tile IR or lane IR");
}

/* What a word of a plan that is none may be meant for; NULL: nothing is near. */
static const char *
meant_in_plan(Arena *arena, const char *plan)
{
    for (size_t n; *plan != '\0'; plan += n + (plan[n] != '\0')) {
        n = strcspn(plan, ",");
        const char *word = arena_strndup(arena, plan, strcspn(plan, "=,")), *near = NULL;
        bool known = false;
        for (uint32_t k = 0; plan_key_name(k) != NULL; k++) {
            known |= strcmp(word, plan_key_name(k)) == 0;
            if (word_is_near(word, word_distance(word, plan_key_name(k))))
                near = plan_key_name(k);
        }
        if (!known && near != NULL)
            return arena_printf(arena, "did you mean '%s'?", near);
    }
    return NULL;
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
    if (!warps_divide(options->warps) || options->stages > LOOP_MAX_STAGES)
        diag_error(&c->diag, (Span){0},
                   "E-OPTION: %u warps, %u stages: expected 1, 2, 4, 8, 16 or 32, up to %d",
                   options->warps, options->stages, LOOP_MAX_STAGES);
    for (size_t k = 0; k < options->n_switches; k++)
        switched_read(&c->switched, &c->diag, options->switches[k]);
    check_variants(c);
    const char *fault;
    if (options->plan != NULL && !plan_hints_read(options->plan, &c->plan, &fault)) {
        const char *meant = meant_in_plan(&c->arena, options->plan);
        diag_error(&c->diag, (Span){0}, "E-PLAN: --plan=%s: %s", options->plan,
                   meant == NULL ? fault : meant);
    }
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
        return !compilation_failed(c);
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
    c->front.made = c->module;
    if (c->module == NULL || compilation_failed(c))
        return false;
    return !wants_checks(c) || verify_module(c, "after the front end");
}

/* ---- tile IR to text ---- */

/* What a header has of the target at hand. */
static void
add_build(Compilation *c, const ModuleFacts *facts, const char *ptx)
{
    const TilecCubin *given = c->options->header_cubins;
    HeaderCubin *cubins = arena_array(&c->arena, HeaderCubin, c->options->n_header_cubins);
    ModuleFacts *kept = arena_new(&c->arena, ModuleFacts);
    size_t n = 0;

    for (size_t k = 0; k < c->options->n_header_cubins; k++)
        if (given[k].target == NULL || target_find(given[k].target) == c->target)
            cubins[n++] = (HeaderCubin){given[k].arch, given[k].bytes, given[k].n};
    *kept = *facts;
    HeaderBuild build = {.target = c->target->name,
                         .rank = (int)c->target->capability,
                         .module = c->module,
                         .facts = kept,
                         .code = {c->options->header_with_ptx ? ptx : NULL, cubins, n}};
    vec_push(&c->arena, &c->builds, build);
}

enum { LINE_BYTES = 72 /* of PTX, a generous average */ };

static void
emit(Compilation *c, LirFn *const *lowered)
{
    const TilecOptions *options = c->options;
    const Diag *lines = options->line_info ? &c->diag : NULL;
    Buf ptx, *out = &c->output;
    size_t lines_of_ptx = 0;

    const char *arch = c->target->ptx_target;
    for (uint32_t k = 0; k < c->module->fns.n; k++) {
        if (c->module->fns.at[k]->plan != NULL || ptx_is_exact(c->target, lowered[k]))
            arch = c->target->ptx_target_exact;
    }
    SourcePlace from = c->module->fns.n == 0 ? (SourcePlace){0}
                                             : diag_origin(&c->diag, c->module->fns.at[0]->span.lo);
    const char *source = file_base_name(from.file == NULL ? c->path : from.file->path);
    const char *version = ptx_version(c->target, lowered, c->module->fns.n);
    ModuleFacts facts = {TILEC_VERSION,     source, arch, version, lowered, c->forms,
                         options->line_info};
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
    ptx_print_head(version, arch, &ptx);
    if (lines != NULL)
        ptx_print_files(lines, &ptx);
    metadata_declare(c->module, &facts, &ptx);
    for (uint32_t k = 0; k < c->module->fns.n; k++) {
        buf_char(&ptx, '\n');
        ptx_print_kernel(lowered[k], lines, &ptx);
        for (uint32_t j = 1; c->forms != NULL && j < c->forms[k].n; j++) {
            buf_char(&ptx, '\n');
            ptx_print_kernel(c->forms[k].at[j].code, lines, &ptx);
        }
    }
    if (options->emit == TILEC_EMIT_HEADER)
        add_build(c, &facts, ptx.at);
    else
        *out = ptx;
}

static void
run_named_passes(Compilation *c)
{
    PassRun run = kernel_passes(c);

    for (uint32_t k = 0; k < c->module->fns.n; k++) {
        TirFn *fn = c->module->fns.at[k];
        PassContext px = kernel_context(c, fn);
        note_choice(fn, &px);
        if (compilation_failed(c) || !passes_run_list(&px, fn, &run, c->options->run_pass))
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
    if (compilation_failed(c) || !lir_read(&c->arena, &c->diag, file, &fns))
        return;
    buf_init(&text, &c->arena);
    for (uint32_t k = 0; k < fns.n; k++) {
        if (!lir_verify(fns.at[k], &text))
            diag_error(&c->diag, (Span){0}, "E-LANE-IR: %s is not valid lane IR:\n%s", c->path,
                       text.at);
    }
    if (compilation_failed(c))
        return;
    const char *arch = c->target->ptx_target;
    for (uint32_t k = 0; k < fns.n; k++) {
        if (lir_has_roles(fns.at[k]) && arch != NULL)
            arch = target_has_roles(c->target) ? c->target->ptx_target_exact : NULL;
        if (ptx_is_exact(c->target, fns.at[k]))
            arch = c->target->ptx_target_exact;
        if (lir_has_group_mma(fns.at[k]) && !target_has_mma(c->target, BY_WARP_GROUP))
            arch = NULL;
    }
    if (arch == NULL) {
        diag_error(&c->diag, (Span){0}, "E-LANE-IR: %s has instructions that %s does not have",
                   c->path, c->target->name);
        return;
    }
    if (c->options->emit == TILEC_EMIT_PTX)
        ptx_print_head(ptx_version(c->target, fns.at, fns.n), arch, &c->output);
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
    Buf roofs;

    buf_init(&roofs, &c->arena);
    for (uint32_t k = 0; k < c->module->fns.n; k++) {
        const TirFn *fn = c->module->fns.at[k];
        const Roofline *roof = kernel_roof_of(&c->times, fn);
        const KernelTime *time = kernel_times_of(&c->times, fn);
        if (roof != NULL)
            roofline_html(fn, roof, time == NULL ? 0 : time->microseconds, &roofs);
    }
    Page page = {&c->diag,
                 c->path,
                 options,
                 c->module,
                 c->target,
                 buf_text(&c->output),
                 buf_text(&c->picture),
                 buf_text(&roofs),
                 buf_text(&c->report)};

    page_print(&page, &c->page);
}

static void
compile_for_target(Compilation *c)
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
    if (compilation_failed(c))
        return;
    if (c->options->emit == TILEC_EMIT_TIR) {
        tir_print(c->module, &c->output);
        return;
    }
    LirFn **lowered = arena_array(&c->arena, LirFn *, c->module->fns.n + 1);
    c->taken = arena_array(&c->arena, const TileChoice *, c->module->fns.n + 1);
    c->forms = arena_array(&c->arena, KernelForms, c->module->fns.n + 1);
    if (c->front.ast != NULL)
        c->hints += plan_unused_warning(&c->front, c->module);
    /* the errors of all kernels are worth seeing */
    for (uint32_t k = 0; k < c->module->fns.n && c->bugs.n == 0; k++)
        lowered[k] = named ? lower_one(c, c->module->fns.at[k], NULL) : lower_with_choices(c, k);
    if (compilation_failed(c))
        return;
    for (uint32_t k = 0; c->options->variants != NULL && k < c->module->fns.n; k++)
        lower_variants(c, k, lowered[k]);
    if (compilation_failed(c))
        return;
    show_schedules(c);
    arena_free(&c->trials); /* the text has its room */
    begin = pass_clock();
    emit(c, lowered);
    if (c->options->page && !compilation_failed(c))
        make_page(c);
    c->print_seconds = pass_clock() - begin;
}

/* For each target; a header has the code of all of them. */
static void
compile(Compilation *c)
{
    if (targets_are_several(c->options))
        targets_compile(c, compile_for_target);
    else
        compile_for_target(c);
    if (c->builds.n > 0 && !compilation_failed(c))
        header_print(c->builds.at, c->builds.n, c->options->header_name, &c->output);
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
    PassContext px = compilation_context(c);
    search_run(&c->front, &px, &c->trials, c->search, &c->output, &c->picture);
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
    if (c->asked != NULL && !c->asked->remarks)
        diag_drop_remarks(&c->diag);
    if (c->said.n > 0) {
        result->warnings = targets_print(c, &messages);
    } else {
        result->warnings = diag_warnings(&c->diag);
        diag_print(&c->diag, &messages);
    }
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
        c->times.roofs = true;
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

/* A result without texts of its own. */
static TilecResult
plain_result(TilecStatus status, const char *messages)
{
    return (TilecResult){.status = status,
                         .messages = messages,
                         .dump = "",
                         .report = "",
                         .schedule = "",
                         .schedule_picture = "",
                         .page = "",
                         .time_report = "",
                         .errors = status == TILEC_ERROR};
}

static TilecStatus
refuse(TilecResult *result, const char *messages)
{
    if (result != NULL)
        *result = plain_result(TILEC_ERROR, messages);
    return TILEC_ERROR;
}

static TilecStatus
run(const TilecAllocator *given, const Compilation *task, TilecResult *result)
{
    Allocator allocator = allocator_libc();

    if (given != NULL)
        allocator = (Allocator){given->allocate, given->release, given->user};
    *result = plain_result(TILEC_OUT_OF_MEMORY, "tilec: error: out of memory [E-MEMORY]\n");
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
    const char *missing = arguments_missing(options, path, text, n);
    if (missing != NULL || result == NULL)
        return refuse(result, missing);
    Compilation task = {.options = options, .path = path, .text = text == NULL ? "" : text, .n = n};
    return run(options->allocator, &task, result);
}

TilecStatus
tilec_search(const TilecOptions *options, const TilecSearch *asked, const char *path,
             const char *text, size_t n, TilecResult *result)
{
    const char *missing = arguments_missing(options, path, text, n);
    if (missing == NULL)
        missing = arguments_missing_search(asked);
    if (missing != NULL || result == NULL)
        return refuse(result, missing);
    Compilation task = {
        .options = options, .search = asked, .path = path, .text = text == NULL ? "" : text, .n = n};
    return run(options->allocator, &task, result);
}

TilecStatus
tilec_list(const TilecAllocator *allocator, const char *which, TilecResult *result)
{
    const char *missing = arguments_missing_allocator(allocator);
    if (missing != NULL || result == NULL)
        return refuse(result, missing);
    Compilation task = {.list = which == NULL ? "" : which};
    return run(allocator, &task, result);
}

void
tilec_result_free(TilecResult *result)
{
    Compilation *c = result != NULL ? result->storage : NULL;

    if (c != NULL) {
        Allocator allocator = c->arena.allocator;
        arena_free(&c->arena);
        allocator.release(allocator.user, c);
    }
    if (result != NULL)
        *result = plain_result(TILEC_OK, "");
}
