/* several_targets.c - a program that is compiled for several targets.
 *
 * Each compilation begins anew, in the same arena, because the header is made of all of them.  Most
 * of what is to be said of a program is the same for each target, and is said once.
 */
#include "compiler/driver/several_targets.h"

#include <string.h>

bool
targets_are_several(const TilecOptions *options)
{
    return options->arch != NULL && strchr(options->arch, ',') != NULL;
}

/* Everything as it is before a compilation, but what the targets so far have left. */
static void
begin(Compilation *c, const TilecOptions *options, const char *name)
{
    TilecOptions *own = arena_new(&c->arena, TilecOptions);

    *own = *options;
    own->arch = name;
    c->options = own;
    diag_init(&c->diag, &c->arena);
    c->diag.show_remarks = options->remarks;
    c->target = NULL;
    c->module = NULL;
    c->front = (Front){0};
    c->switched = (Switched){0};
    c->plan = (PlanHints){0};
    c->times = (KernelTimes){0};
    c->shown = (PassDump){0};
    c->hints = 0;
    c->taken = NULL;
    c->forms = NULL;
    Buf *const texts[] = {options->report ? &c->report : NULL,
                          options->schedule ? &c->schedule : NULL,
                          options->dump_ir != NULL ? &c->dump : NULL};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
        if (texts[k] != NULL)
            buf_printf(texts[k], "%starget %s\n", texts[k]->n > 0 ? "\n" : "", name);
}

static bool
is_new(Compilation *c)
{
    for (uint32_t k = 0; k < c->builds.n; k++)
        if (c->target != NULL && strcmp(c->builds.at[k].target, c->target->name) == 0)
            return false;
    return true;
}

static void
check_options(Compilation *c)
{
    const TilecOptions *options = c->options;

    if (options->emit != TILEC_EMIT_HEADER)
        diag_error(&c->diag, (Span){0},
                   "E-TARGET: -arch %s: code for several targets goes into a header, --emit=header",
                   options->arch);
    if (options->tune != NULL)
        diag_error(&c->diag, (Span){0},
                   "E-TARGET: -mtune=%s is for one target, and there are several: %s",
                   options->tune, options->arch);
    if (options->schedule_picture)
        diag_error(&c->diag, (Span){0},
                   "E-OPTION: a picture of the schedule is of one target, and there are several: %s",
                   options->arch);
}

void
targets_compile(Compilation *c, void (*compile)(Compilation *))
{
    const TilecOptions *options = c->options;

    check_options(c);
    if (compilation_failed(c))
        return;
    for (const char *at = options->arch; c->bugs.n == 0; at++) {
        size_t n = strcspn(at, ",");
        begin(c, options, arena_strndup(&c->arena, at, n));
        c->target = target_find(c->options->arch);
        if (is_new(c))
            compile(c);
        else
            diag_error(&c->diag, (Span){0}, "E-TARGET: -arch %s has a target twice: %s",
                       options->arch, c->options->arch);
        TargetSaid said = {c->options->arch, c->diag, c->hints};
        vec_push(&c->arena, &c->said, said);
        at += n;
        if (*at == '\0')
            break;
    }
    c->options = options;
    c->diag.errors = 0;
    c->hints = UINT32_MAX; /* no target has other warnings */
    for (uint32_t k = 0; k < c->said.n; k++) {
        const TargetSaid *said = &c->said.at[k];
        c->diag.errors += said->diag.errors;
        if (diag_warnings(&said->diag) > said->hints)
            c->hints = 0;
    }
}

/* ---- what was said ---- */

/* How many messages belong together: one and the notes behind it. */
static uint32_t
group_at(const Diag *diag, uint32_t at)
{
    uint32_t n = 1;

    while (at + n < diag->messages.n && diag->messages.at[at + n].kind == DIAG_NOTE)
        n++;
    return n;
}

/* The files of two compilations lie at the same offsets, as they are read in the same order. */
static bool
same_group(const DiagMessage *a, const DiagMessage *b, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (a[k].kind != b[k].kind || a[k].span.lo != b[k].span.lo ||
            strcmp(a[k].text, b[k].text) != 0)
            return false;
    return true;
}

/* Where a target says the same as `group`, or nowhere. */
static uint32_t
find_group(const Diag *diag, const DiagMessage *group, uint32_t n)
{
    for (uint32_t at = 0; at < diag->messages.n; at += group_at(diag, at))
        if (group_at(diag, at) == n && same_group(&diag->messages.at[at], group, n))
            return at;
    return UINT32_MAX;
}

static void
drop_group(Diag *diag, uint32_t at, uint32_t n)
{
    memmove(&diag->messages.at[at], &diag->messages.at[at + n],
            (diag->messages.n - at - n) * sizeof diag->messages.at[0]);
    diag->messages.n -= n;
}

/* Says of one message which targets it is about, if not about all and it does not say so itself,
 * and drops it from the others. */
static void
name_targets(Compilation *c, uint32_t first, uint32_t at)
{
    Diag *diag = &c->said.at[first].diag;
    uint32_t n = group_at(diag, at), others = 0;
    DiagMessage *message = &diag->messages.at[at];
    Buf names;

    buf_init(&names, &c->arena);
    buf_add(&names, c->said.at[first].name);
    for (uint32_t k = first + 1; k < c->said.n; k++) {
        uint32_t there = find_group(&c->said.at[k].diag, message, n);
        if (there == UINT32_MAX)
            continue;
        drop_group(&c->said.at[k].diag, there, n);
        buf_printf(&names, ", %s", c->said.at[k].name);
        others++;
    }
    bool named = strstr(message->text, c->said.at[first].name) != NULL;
    if (!named && (first > 0 || others + 1 < c->said.n))
        message->text = arena_printf(&c->arena, "for %s: %s", buf_text(&names), message->text);
}

uint32_t
targets_print(Compilation *c, Buf *out)
{
    uint32_t warnings = 0;

    for (uint32_t k = 0; k < c->said.n; k++) {
        Diag *diag = &c->said.at[k].diag;
        for (uint32_t at = 0; at < diag->messages.n; at += group_at(diag, at))
            name_targets(c, k, at);
        diag_print(diag, out);
        warnings += diag_warnings(diag);
    }
    return warnings;
}
