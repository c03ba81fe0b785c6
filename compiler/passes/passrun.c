/* passrun.c - the table of passes and what runs it: order, -f, checks, dumps, times. */
#include "compiler/passes/passrun.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "compiler/base/near.h"

const PassInfo pass_table[] = {
#define PASS(name, function, first, needed, help) {#name, function, first, needed, help},
#include "compiler/passes/passes.def"
#undef PASS
};
const uint32_t pass_count = sizeof pass_table / sizeof pass_table[0];

_Static_assert(sizeof pass_table / sizeof pass_table[0] <= 64,
               "Switched.passes_on has one bit a row");

int32_t
pass_find(const char *name, size_t n)
{
    for (uint32_t k = 0; k < pass_count; k++) {
        if (option_is(pass_table[k].name, name, n))
            return (int32_t)k;
    }
    return -1;
}

static void
keep_nearer(const char *have, const char *name, const char **best, uint32_t *least)
{
    uint32_t distance = word_distance(name, have);

    if (distance < *least) {
        *least = distance;
        *best = have;
    }
}

/* There is no such `what`; a misspelt name gets the nearest one of the passes, and of the switches
 * if they count. */
static void
name_is_missing(Diag *diag, const char *what, const char *name, bool switches)
{
    const char *nearest = NULL;
    uint32_t least = UINT32_MAX;

    for (uint32_t k = 0; k < pass_count; k++)
        keep_nearer(pass_table[k].name, name, &nearest, &least);
    for (uint32_t k = 0; switches && k < switch_count; k++)
        keep_nearer(switch_table[k].name, name, &nearest, &least);
    if (word_is_near(name, least))
        diag_error(diag, (Span){0}, "E-PASS: there is no %s '%s'; did you mean '%s'?", what, name,
                   nearest);
    else
        diag_error(diag, (Span){0}, "E-PASS: there is no %s '%s'; --list-passes shows them", what,
                   name);
}

void
pass_is_missing(Diag *diag, const char *name)
{
    if (switch_find(name, strlen(name)) >= 0)
        diag_error(
            diag, (Span){0},
            "E-PASS: '%s' is a switch, not a pass: it does not run alone, and no tile IR comes of it",
            name);
    else
        name_is_missing(diag, "pass", name, false);
}

static void
list_row(Buf *out, const char *name, const char *kind, int32_t level, bool needed, const char *help)
{
    buf_printf(out, "%-18s %-8s", name, kind);
    if (needed)
        buf_printf(out, "always ");
    else if (level > 3)
        buf_printf(out, "only -f");
    else
        buf_printf(out, "-O %d+  ", (int)level);
    buf_printf(out, "  %s\n", help);
}

void
pass_list(Buf *out)
{
    for (uint32_t k = 0; k < pass_count; k++) {
        const PassInfo *pass = &pass_table[k];
        list_row(out, pass->name, "tile IR", pass->level, pass->needed, pass->help);
    }
    for (uint32_t k = 0; k < switch_count; k++) {
        const SwitchInfo *choice = &switch_table[k];
        list_row(out, choice->name, "switch", choice->level, false, choice->help);
    }
}

static void
set_row(uint64_t *on, uint64_t *off, int32_t row, bool to)
{
    uint64_t bit = (uint64_t)1 << row;

    *on = to ? *on | bit : *on & ~bit;
    *off = to ? *off & ~bit : *off | bit;
}

void
switched_read(Switched *switched, Diag *diag, const char *text)
{
    bool off = strncmp(text, "no-", 3) == 0;
    const char *name = off ? text + 3 : text;
    int32_t pass = pass_find(name, strlen(name)), row = switch_find(name, strlen(name));

    if (pass < 0 && row < 0)
        name_is_missing(diag, "pass or switch", name, true);
    else if (row >= 0)
        set_row(&switched->on, &switched->off, row, !off);
    else if (off && pass_table[pass].needed)
        diag_error(
            diag, (Span){0},
            "E-PASS: the pass '%s' can not be switched off: without it the code would be wrong",
            pass_table[pass].name);
    else
        set_row(&switched->passes_on, &switched->passes_off, pass, !off);
}

static bool
row_enabled(const PassContext *px, uint32_t row)
{
    uint64_t bit = (uint64_t)1 << row;

    if (pass_table[row].needed || (px->switched.passes_on & bit) != 0)
        return true;
    return (px->switched.passes_off & bit) == 0 && px->level >= pass_table[row].level;
}

bool
pass_enabled(const PassContext *px, const char *name)
{
    uint32_t row = 0;

    while (row < pass_count && !same_text(pass_table[row].name, name))
        row++;
    return row < pass_count && row_enabled(px, row);
}

double
pass_clock(void)
{
    struct timespec now = {0};

    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t
pass_rows(Diag *diag, const char *list)
{
    uint64_t rows = *list == '\0' ? UINT64_MAX : 0;

    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        int32_t row = pass_find(list, n);
        if (row < 0)
            pass_is_missing(diag, arena_strndup(diag->arena, list, n));
        else
            rows |= (uint64_t)1 << row;
        list += n;
        list += *list == ',';
    }
    return rows;
}

/* Prints the function behind the pass that ran last: all of it, or that it is what was printed
 * before.  A heading says which pass it is when several are shown. */
static void
show(PassContext *px, PassDump *dump, TirFn *fn)
{
    const char *pass = fn->after;
    bool several = (dump->rows & (dump->rows - 1)) != 0;
    Buf text;

    buf_init(&text, px->arena);
    fn->after = NULL;
    tir_print_fn(fn, &text);
    fn->after = pass;
    bool same = dump->shown != NULL && strcmp(dump->shown, text.at) == 0;
    if (same) {
        buf_printf(dump->out, "// after %s: unchanged since %s\n", pass, dump->behind);
    } else {
        if (several)
            buf_printf(dump->out, "// after %s\n", pass);
        tir_print_fn(fn, dump->out);
    }
    dump->shown = text.at;
    dump->behind = pass;
}

/* Runs one row; then looks at what it left. */
static bool
run_row(PassContext *px, TirFn *fn, const PassRun *run, uint32_t row)
{
    const PassInfo *pass = &pass_table[row];
    uint32_t errors = px->diag->errors, bugs = px->bugs == NULL ? 0 : px->bugs->n;
    double begin = run->seconds != NULL ? pass_clock() : 0.0;

    pass->run(px, fn);
    fn->after = pass->name;
    double end = run->seconds != NULL ? pass_clock() : 0.0;
    if (run->seconds != NULL)
        run->seconds[row] += end - begin;
    if (run->dump != NULL && (run->dump->rows >> row & 1) != 0)
        show(px, run->dump, fn);
    if (run->seen != NULL)
        run->seen(run->seen_by, px, fn, pass->name);
    bool ok = px->diag->errors == errors && (px->bugs == NULL || px->bugs->n == bugs);
    bool roles = run->roles_may_fail && fn->plan != NULL && pass->run == pass_roles;
    if (ok && (run->verify || roles)) {
        Buf text;
        buf_init(&text, px->arena);
        if (!tir_verify_fn(fn, &text)) {
            if (roles)
                diag_error(
                    px->diag, fn->span,
                    "E-PLAN: kernel '%s' cannot have this plan: its roles cannot be built; please "
                    "report this with the program\n%s",
                    fn->name, text.at);
            else
                buf_printf(run->bugs, "after the pass '%s':\n%s", pass->name, text.at);
            ok = false;
        }
    }
    if (run->seconds != NULL)
        run->seconds[pass_count] += pass_clock() - end;
    return ok;
}

/* Does the block hold tiles, and does it say of any who holds which element? */
static void
look_for_layouts(const TirBlock *block, bool *tiles, bool *layouts)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_results; k++) {
            *tiles |= op->results[k]->type.rank > 0 && op->op != TIR_SHARED_READ;
            *layouts |= op->results[k]->layout != NULL;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++)
            look_for_layouts(op->blocks[k], tiles, layouts);
    }
}

/* Whether a tile is read in shared memory, in place of registers. */
static bool
is_in_shared(const TirVal *value)
{
    const TirOp *def = tir_untransposed(value)->def;

    return def != NULL && def->op == TIR_SHARED_READ;
}

/* Whether some of an operation's tiles have layouts and others, in registers like them, have
 * none. */
static bool
lacks_layout(const TirOp *op)
{
    bool shape = op->op == TIR_EXPAND || op->op == TIR_SQUEEZE || op->op == TIR_BROADCAST;
    bool flat = (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0, lacks = false;

    for (uint32_t k = 0; (flat || shape) && k < op->n_args; k++) {
        const TirVal *value = op->args[k];
        lacks = lacks || (value->type.rank > 0 && op->results[0]->type.rank > 0 &&
                          (shape || !is_in_shared(value)) &&
                          (value->layout == NULL) != (op->results[0]->layout == NULL));
    }
    return lacks;
}

/* An operation of a block that does; NULL: there is none. */
static const TirOp *
find_without_layout(const TirBlock *block)
{
    const TirOp *found = NULL;

    for (uint32_t i = 0; i < block->ops.n && found == NULL; i++) {
        const TirOp *op = block->ops.at[i];
        found = lacks_layout(op) ? op : NULL;
        for (uint32_t k = 0; k < op->n_blocks && found == NULL; k++)
            found = find_without_layout(op->blocks[k]);
    }
    return found;
}

static const TirOp *
without_layout(const TirFn *fn)
{
    const TirOp *found = NULL;

    for (uint32_t k = 0; k < tir_program_count(fn) && found == NULL; k++)
        found = find_without_layout(tir_program_at(fn, k));
    return found;
}

/* Text may name a pass that it does not come behind: what later passes and the lowering take for
 * granted is asked for. */
static bool
has_what_passes_leave(PassContext *px, const TirFn *fn, int32_t last)
{
    bool tiles = false, layouts = false;
    const TirShared *bare = NULL;

    look_for_layouts(fn->body, &tiles, &layouts);
    for (uint32_t i = 0; i < fn->shared.n && bare == NULL; i++) {
        const TirShared *shared = fn->shared.at[i];
        bool placed = shared->kind == SHARED_TMEM ? fn->plan != NULL && fn->plan->tmem_columns > 0
                                                  : shared->layout != NULL;
        bare = tir_is_pipeline(shared) && !placed ? shared : NULL;
    }
    if (fn->plan != NULL && !target_has_roles(px->target))
        diag_error(
            px->diag, fn->span,
            "E-PASS: kernel '%s' has a plan for warp groups, which %s has not; -arch names the target "
            "that the text was made for",
            fn->name, px->target->name);
    else if (last >= pass_find("assign_layout", 13) && tiles && !layouts)
        diag_error(
            px->diag, fn->span,
            "E-PASS: kernel '%s' says that it comes after '%s', but no tile has a layout: name the "
            "pass that it does come after, one before 'assign_layout'",
            fn->name, fn->after);
    else if (last >= pass_find("assign_layout", 13) && without_layout(fn) != NULL)
        diag_error(
            px->diag, without_layout(fn)->span,
            "E-PASS: kernel '%s' says that it comes after '%s', but a tile here has no layout, where "
            "others have one",
            fn->name, fn->after);
    else if (last >= pass_find("plan_shared", 11) && bare != NULL)
        diag_error(
            px->diag, fn->span,
            "E-PASS: kernel '%s' says that it comes after '%s', but '$%s' has no place in shared "
            "memory: name the pass that it does come after, one before 'plan_shared'",
            fn->name, fn->after, bare->name);
    else
        return true;
    return false;
}

/* The row behind the pass that ran last, which the text of tile IR may name. */
static bool
first_row(PassContext *px, const TirFn *fn, uint32_t *row)
{
    int32_t last = fn->after == NULL ? -1 : pass_find(fn->after, strlen(fn->after));

    *row = (uint32_t)(last + 1);
    if (fn->after != NULL && last < 0)
        diag_error(
            px->diag, fn->span,
            "E-PASS: kernel '%s' comes after a pass '%s', and there is none; --list-passes shows "
            "them",
            fn->name, fn->after);
    else if (fn->after == NULL && fn->plan != NULL)
        diag_error(
            px->diag, fn->span,
            "E-PASS: kernel '%s' has a plan, but does not say which pass it comes after; 'after "
            "plan' in front of the plan says that 'stages' is the next one",
            fn->name);
    else
        return fn->after == NULL || has_what_passes_leave(px, fn, last);
    return false;
}

/* Behind row `row`: where products have a form that only a plan has, and there is none, they are
 * formed again. */
static uint32_t
next_row(PassContext *px, TirFn *fn, uint32_t row)
{
    if (pass_table[row].run == pass_plan && form_products_anew(px, fn))
        row = (uint32_t)pass_find("form-products", strlen("form-products")) - 1;
    return row + 1;
}

bool
passes_run(PassContext *px, TirFn *fn, const PassRun *run)
{
    uint32_t row;

    if (!first_row(px, fn, &row))
        return false;
    for (; row < pass_count; row = next_row(px, fn, row))
        if (row_enabled(px, row) && !run_row(px, fn, run, row))
            return false;
    return true;
}

bool
passes_run_until(PassContext *px, TirFn *fn, const PassRun *run, const char *last)
{
    int32_t end = pass_find(last, strlen(last));
    int32_t row = fn->after == NULL ? 0 : pass_find(fn->after, strlen(fn->after)) + 1;

    for (; row <= end; row++)
        if (row_enabled(px, (uint32_t)row) && !run_row(px, fn, run, (uint32_t)row))
            return false;
    return true;
}

bool
passes_run_list(PassContext *px, TirFn *fn, const PassRun *run, const char *list)
{
    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        int32_t row = pass_find(list, n);
        if (row < 0) {
            pass_is_missing(px->diag, arena_strndup(px->arena, list, n));
            return false;
        }
        if (!run_row(px, fn, run, (uint32_t)row))
            return false;
        list += n;
        list += *list == ',';
    }
    return true;
}
