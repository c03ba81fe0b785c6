/* passrun.c - the table of passes and what runs it: order, switches, checks, dumps, times. */
#include "compiler/passrun.h"
#include "compiler/old_names.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "compiler/base/near.h"

#define IS_LOWERING_tir false
#define IS_LOWERING_lir true

const PassInfo pass_table[] = {
#define PASS(name, level, function, first, needed, help)                                           \
    {#name, function, first, needed, IS_LOWERING_##level, help},
#include "compiler/passes.def"
#undef PASS
};
const uint32_t pass_count = sizeof pass_table / sizeof pass_table[0];

_Static_assert(sizeof pass_table / sizeof pass_table[0] <= 64,
               "PassContext.enabled and .disabled have one bit a row");

static char
plain(char c)
{
    return c == '_' ? '-' : c;
}

int32_t
pass_find(const char *name, size_t n)
{
    const char *now = current_name(name, n);

    if (now != NULL) {
        name = now;
        n = strlen(now);
    }
    for (uint32_t k = 0; k < pass_count; k++) {
        const char *have = pass_table[k].name;
        size_t i = 0;
        while (i < n && have[i] != '\0' && plain(have[i]) == plain(name[i]))
            i++;
        if (i == n && have[i] == '\0')
            return (int32_t)k;
    }
    return -1;
}

const char *
pass_nearest(const char *name)
{
    const char *best = NULL;
    uint32_t least = UINT32_MAX;

    for (uint32_t k = 0; k < pass_count; k++) {
        uint32_t distance = word_distance(name, pass_table[k].name);
        if (distance < least) {
            least = distance;
            best = pass_table[k].name;
        }
    }
    return word_is_near(name, least) ? best : NULL;
}

void
pass_list(Buf *out)
{
    for (uint32_t k = 0; k < pass_count; k++) {
        const PassInfo *pass = &pass_table[k];
        const char *when = pass->needed ? "always" : "-O ";
        buf_printf(out, "%-16s %-9s %s", pass->name, pass->lowering ? "lowering" : "tile IR", when);
        if (!pass->needed)
            buf_printf(out, "%d+ ", (int)pass->level);
        buf_printf(out, "  %s\n", pass->help);
    }
}

static bool
row_enabled(const PassContext *px, uint32_t row)
{
    uint64_t bit = (uint64_t)1 << row;

    if (pass_table[row].needed || (px->enabled & bit) != 0)
        return true;
    return (px->disabled & bit) == 0 && px->level >= pass_table[row].level;
}

bool
pass_enabled(const PassContext *px, const char *name)
{
    int32_t row = pass_find(name, strlen(name));
    return row >= 0 && row_enabled(px, (uint32_t)row);
}

double
pass_clock(void)
{
    struct timespec now = {0};

    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Runs one row; then looks at what it left. */
static bool
run_row(PassContext *px, TirFn *fn, const PassRun *run, uint32_t row)
{
    const PassInfo *pass = &pass_table[row];
    uint32_t errors = px->diag->errors, bugs = px->bugs == NULL ? 0 : px->bugs->n;
    double begin = run->seconds != NULL ? pass_clock() : 0.0;

    pass->run(px, fn);
    double end = run->seconds != NULL ? pass_clock() : 0.0;
    if (run->seconds != NULL)
        run->seconds[row] += end - begin;
    if (run->dump && (run->dump_after < 0 || run->dump_after == (int32_t)row)) {
        if (run->dump_after < 0)
            buf_printf(run->dump_out, "// after %s\n", pass->name);
        tir_print_fn(fn, run->dump_out);
    }
    bool ok = px->diag->errors == errors && (px->bugs == NULL || px->bugs->n == bugs);
    bool roles = run->roles_may_fail && fn->plan != NULL && pass->run == pass_roles;
    if (ok && (run->verify || roles)) {
        Buf text;
        buf_init(&text, px->arena);
        if (!tir_verify_fn(fn, &text)) {
            if (roles)
                diag_error(px->diag, fn->span, "kernel '%s' cannot have this plan: its roles cannot be built; please "
                           "report this with the program\n%s", fn->name, text.at);
            else
                buf_printf(run->bugs, "after the pass '%s':\n%s", pass->name, text.at);
            ok = false;
        }
    }
    if (run->seconds != NULL)
        run->seconds[pass_count] += pass_clock() - end;
    return ok;
}

bool
passes_run(PassContext *px, TirFn *fn, const PassRun *run)
{
    for (uint32_t row = 0; row < pass_count; row++)
        if (pass_table[row].run != NULL && row_enabled(px, row) && !run_row(px, fn, run, row))
            return false;
    return true;
}

bool
passes_run_until(PassContext *px, TirFn *fn, const PassRun *run, const char *last)
{
    int32_t end = pass_find(last, strlen(last));

    for (int32_t row = 0; row <= end; row++)
        if (pass_table[row].run != NULL && row_enabled(px, (uint32_t)row) &&
            !run_row(px, fn, run, (uint32_t)row))
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
            const char *name = arena_strndup(px->arena, list, n);
            const char *nearest = pass_nearest(name);
            diag_error(px->diag, (Span){0}, "there is no pass '%s'%s%s%s", name,
                       nearest == NULL ? "; --list-passes shows them" : "; did you mean '",
                       nearest == NULL ? "" : nearest, nearest == NULL ? "" : "'?");
            return false;
        }
        if (pass_table[row].run == NULL) {
            diag_error(px->diag, (Span){0},
                       "'%s' is a choice inside the lowering and does not run alone",
                       pass_table[row].name);
            return false;
        }
        if (!run_row(px, fn, run, (uint32_t)row))
            return false;
        list += n;
        list += *list == ',';
    }
    return true;
}
