/* timeline_text.c - the schedule of a kernel as text: facts, a chart of each window, and who does
 * what when. */
#include "compiler/timeline/timeline.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS = 72, LABEL = 14, MOST_WORDS = 5 };

typedef struct Printer {
    const Timeline *line;
    const TimeWindow *window;
    Buf *out;
} Printer;

/* ---- the chart ---- */

/* Marks the columns that a span covers by at least half; a short one gets the column it is in. */
static void
mark(const Printer *p, char *row, double begin, double end, char c)
{
    double each = (p->window->end - p->window->begin) / COLUMNS;
    double first = (begin - p->window->begin) / each, last = (end - p->window->begin) / each;
    int from = (int)(first + 0.5), to = (int)(last + 0.5);

    if (last <= 0 || first >= COLUMNS)
        return;
    if (first < 0)
        from = 0;
    if (to == from)
        to++;
    for (int k = from; k < to && k < COLUMNS; k++) {
        if (row[k] == ' ' || to - from > 1)
            row[k] = c;
    }
}

static void
print_row(const Printer *p, const char *label, const char *row)
{
    buf_printf(p->out, "    %-*s|%s|\n", LABEL, label, row);
}

static void
print_chart(const Printer *p)
{
    const Timeline *line = p->line;
    char row[COLUMNS + 1], scale[COLUMNS + 1];

    row[COLUMNS] = scale[COLUMNS] = '\0';
    memset(scale, ' ', COLUMNS);
    for (int k = 0; k < COLUMNS; k += COLUMNS / 4) {
        char number[24];
        int n = snprintf(number, sizeof number, "%.0f",
                         (p->window->end - p->window->begin) * k / COLUMNS);
        memcpy(scale + k, number, (size_t)n);
    }
    for (int k = COLUMNS; k > 0 && scale[k - 1] == ' '; k--)
        scale[k - 1] = '\0';
    buf_printf(p->out, "    %-*s %s\n", LABEL, "clock", scale);
    for (OpUnit unit = UNIT_TENSOR; unit < UNIT_COUNT; unit++) {
        bool some = false;
        memset(row, ' ', COLUMNS);
        for (uint32_t i = 0; i < line->spans.n; i++) {
            const TimeSpan *span = &line->spans.at[i];
            if (span->unit != unit || (span->kind != SPAN_WORK && span->kind != SPAN_ASYNC))
                continue;
            int32_t who = timeline_consumer(&line->trace, span->role, span->op);
            some = some || (span->end > p->window->begin && span->begin < p->window->end);
            mark(p, row, span->begin, span->end, who < 0 ? '#' : (char)('0' + who));
        }
        if (some)
            print_row(p, timeline_unit_name(unit), row);
    }
    for (uint32_t role = 0; role < line->trace.roles; role++) {
        static const char letters[] = {' ', 't', 'x', 'a', 's', 'c'};
        memset(row, ' ', COLUMNS);
        for (uint32_t i = 0; i < line->spans.n; i++) {
            const TimeSpan *span = &line->spans.at[i];
            if (span->role != role)
                continue;
            if (span->kind == SPAN_WAIT)
                mark(p, row, span->begin, span->end, '.');
            if (span->kind == SPAN_WORK)
                mark(p, row, span->begin, span->end, letters[span->unit]);
        }
        print_row(p, timeline_role_name(p->out->arena, &line->trace, role), row);
    }
}

/* ---- the list ---- */

/* "file.tile:34" */
static const char *
place_text(const Printer *p, const TirOp *op)
{
    if (op == NULL || op->span.lo == 0)
        return "";
    SourcePlace place = diag_place(p->line->fn->diag, op->span.lo);
    if (place.file == NULL)
        return "";
    const char *slash = strrchr(place.file->path, '/');
    return arena_printf(p->out->arena, "  [%s:%u]", slash == NULL ? place.file->path : slash + 1,
                        place.line);
}

/* Work on one unit without a gap is one line. */
typedef struct Merged {
    double begin, end;
    OpUnit unit;
    const char *words[MOST_WORDS];
    uint32_t n, ops;
} Merged;

static void
flush(const Printer *p, Merged *merged)
{
    if (merged->ops == 0)
        return;
    buf_printf(p->out, "      %8.0f %7.0f  %s:", merged->begin - p->window->begin,
               merged->end - merged->begin, timeline_unit_name(merged->unit));
    for (uint32_t k = 0; k < merged->n && k < MOST_WORDS; k++)
        buf_printf(p->out, "%s%s", k == 0 ? " " : ", ", merged->words[k]);
    buf_add(p->out, merged->n > MOST_WORDS ? ", ..\n" : "\n");
    merged->ops = merged->n = 0;
}

static void
merge(const Printer *p, Merged *merged, const TimeSpan *span)
{
    if (merged->ops > 0 && (merged->unit != span->unit || span->begin - merged->end > 0.5))
        flush(p, merged);
    if (merged->ops++ == 0) {
        merged->begin = span->begin;
        merged->unit = span->unit;
    }
    merged->end = span->end;
    for (uint32_t k = 0; k < merged->n && k < MOST_WORDS; k++) {
        if (strcmp(merged->words[k], span->text) == 0)
            return;
    }
    if (merged->n < MOST_WORDS)
        merged->words[merged->n] = span->text;
    merged->n++;
}

static void
print_span(const Printer *p, const TimeSpan *span)
{
    double zero = p->window->begin;
    Buf *out = p->out;

    if (span->kind == SPAN_WAIT) {
        buf_printf(out, "      %8.0f %7.0f  waits for %s", span->begin - zero,
                   span->end - span->begin, span->text);
        if (span->cause >= 0) {
            const TimeSpan *cause = &p->line->spans.at[span->cause];
            if (cause->role != span->role)
                buf_printf(out, ": %s, at %.0f",
                           timeline_role_name(out->arena, &p->line->trace, cause->role),
                           cause->asked - zero);
        }
        buf_char(out, '\n');
    } else if (span->kind == SPAN_ASYNC) {
        buf_printf(out, "      %8.0f          starts %s: %s %.0f .. %.0f%s\n", span->asked - zero,
                   span->text, timeline_unit_name(span->unit), span->begin - zero, span->end - zero,
                   place_text(p, span->op));
    } else {
        buf_printf(out, "      %8.0f          %s\n", span->asked - zero, span->text);
    }
}

static void
print_role(const Printer *p, uint32_t role)
{
    const Timeline *line = p->line;
    Merged merged = {0};
    bool some = false;

    buf_printf(p->out, "    %s\n", timeline_role_name(p->out->arena, &line->trace, role));
    for (uint32_t i = 0; i < line->spans.n; i++) {
        const TimeSpan *span = &line->spans.at[i];
        double end = span->kind == SPAN_ASYNC ? span->asked : span->end;
        bool instant = span->kind == SPAN_ASYNC || span->kind == SPAN_SIGNAL;
        if (span->role != role || span->asked >= p->window->end || end < p->window->begin ||
            (!instant && end <= p->window->begin))
            continue;
        some = true;
        if (span->kind == SPAN_WORK) {
            if (span->end - span->begin >= 0.5)
                merge(p, &merged, span);
            continue;
        }
        flush(p, &merged);
        print_span(p, span);
    }
    flush(p, &merged);
    if (!some)
        buf_add(p->out, "                        nothing\n");
}

/* ---- the whole ---- */

void
timeline_times(const Timeline *line, Buf *out)
{
    bool some = false;

    buf_add(out, "  units are busy in an iteration, at their full rates:");
    for (OpUnit unit = UNIT_TENSOR; unit < UNIT_COUNT; unit++) {
        if (line->busy[unit] > 0)
            buf_printf(out, "%s %s %.0f", some ? "," : "", timeline_unit_name(unit),
                       line->busy[unit]);
        some = some || line->busy[unit] > 0;
    }
    buf_printf(out, "\n  drawn at these rates, for %s", line->trace.launch);
    if (line->period > 0)
        buf_printf(out, ": an iteration each %.0f", line->period);
    buf_char(out, '\n');
}

void
timeline_text(const Target *target, const TimelineOf *of, Buf *out)
{
    const TirFn *fn = of->fn;

    timeline_facts(target, of, out);
    if (fn->plan == NULL)
        return;
    Timeline *line = timeline_run(out->arena, target, fn);
    if (line == NULL || line->n_windows == 0) {
        buf_add(out, "  no launch is small enough to show a timeline\n");
        return;
    }
    timeline_times(line, out);
    buf_add(
        out,
        "    in the rows of units who keeps them busy: the digit of a consumer, # the producer;\n"
        "    in those of roles . waits, a arithmetic, x MUFU, s shared memory\n");
    for (uint32_t k = 0; k < line->n_windows; k++) {
        Printer p = {line, &line->windows[k], out};
        buf_printf(out, "  %s: clocks %.0f .. %.0f\n", p.window->name, p.window->begin,
                   p.window->end);
        print_chart(&p);
        for (uint32_t role = 0; role < line->trace.roles; role++)
            print_role(&p, role);
    }
}
