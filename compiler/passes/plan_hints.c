/* plan_hints.c - the text of --plan and @plan: "consumers=3,stages=3,q_stages=2". */
#include "compiler/passes/pass.h"

#include <stdlib.h>
#include <string.h>

typedef struct HintRow {
    const char *name;
    uint32_t least, most, usual; /* usual: when it is not given */
    uint32_t none;               /* what a plan's 0 is in the text */
} HintRow;

enum { ROWS = PLAN_KEYS };
static const HintRow rows[ROWS] = {
    {"consumers", 1, MOST_CONSUMERS, 2, 0},
    {"stages", 1, MOST_PLAN_STAGES, 2, 0},
    {"q_stages", 1, 4, 1, 0},
    {"persistent", 0, 1, 1, 0},
    {"pipelined", 0, 1, 1, 0},
    {"dynamic", 0, 1, 1, 0},
    {"clc", 0, 1, 0, 0},
    {"pingpong", 0, 1, 0, 0},
    {"cooperative", 0, 1, 0, 0},
    {"cluster", 1, 2, 1, 1},
    {"blocks", 1, 2, 1, 1},
    {"correction", 0, 1, 0, 0},
};

/* ROWS: there is none of this name. */
static uint32_t
find_row(const char *name, size_t n)
{
    uint32_t row = 0;

    while (row < ROWS && (strlen(rows[row].name) != n || strncmp(rows[row].name, name, n) != 0))
        row++;
    return row;
}

bool
plan_hints_read(const char *text, PlanHints *out, const char **fault)
{
    *out = (PlanHints){0};
    if (strcmp(text, "none") == 0)
        return true;
    PlanHints hints = {0};
    for (uint32_t row = 0; row < ROWS; row++)
        hints.key[row] = rows[row].usual - rows[row].none;
    while (*text != '\0') {
        size_t n = strcspn(text, "=");
        uint32_t row = find_row(text, n);
        if (row == ROWS || text[n] != '=') {
            *fault = "expected 'none', or a list like consumers=3,stages=3,q_stages=2,persistent=1";
            return false;
        }
        char *end;
        unsigned long value = strtoul(text + n + 1, &end, 10);
        if (end == text + n + 1 || value < rows[row].least || value > rows[row].most ||
            (*end != '\0' && *end != ',')) {
            *fault =
                "a number is missing or out of range: consumers 1 to 4, stages 1 to 8, q_stages 1 to 4, "
                "cluster and blocks 1 or 2, the others 0 or 1";
            return false;
        }
        hints.key[row] = (uint32_t)value - rows[row].none;
        hints.given |= (uint32_t)1 << row;
        text = end + (*end == ',');
    }
    *out = hints;
    return true;
}

const char *
plan_hints_text(Arena *arena, const PlanHints *hints)
{
    Buf text;

    if (hints->consumers == 0)
        return "none";
    buf_init(&text, arena);
    for (uint32_t row = 0; row < ROWS; row++) {
        uint32_t value = hints->key[row] + rows[row].none;
        if (row < 2 || value != rows[row].usual)
            buf_printf(&text, "%s%s=%u", row == 0 ? "" : ",", rows[row].name, value);
    }
    return text.at;
}

const char *
plan_key_range(const char *name, uint32_t *least, uint32_t *most)
{
    uint32_t row = find_row(name, strlen(name));

    if (row == ROWS)
        return NULL;
    *least = rows[row].least;
    *most = rows[row].most;
    return rows[row].name;
}

const char *
plan_key_name(uint32_t k)
{
    return k < ROWS ? rows[k].name : NULL;
}

void
plan_not_kept(const PassContext *px, const TirFn *fn, Span where, const char *what)
{
    if (px->plan_span.lo == 0 && px->plan_said)
        diag_warning(px->diag, where.lo != 0 ? where : fn->span,
                     "the plan of kernel '%s' is not the one of --plan: %s", fn->name, what);
    if (px->plan_span.lo == 0)
        return;
    diag_error(px->diag, px->plan_span, "E-PLAN: kernel '%s' can not have this plan: %s", fn->name,
               what);
    if (where.lo != 0)
        diag_note(px->diag, where, "this is what stands against it");
}

bool
plan_is_given(const PlanHints *hints, const char *name)
{
    uint32_t row = find_row(name, strlen(name));

    return row < ROWS && (hints->given >> row & 1) != 0;
}
