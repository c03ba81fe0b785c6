/* clock_trace.c - a stretch of a replay as trace events, which Perfetto and chrome://tracing show:
 * a process for each launch, in it a thread for each unit and each group of four warps.
 */
#include "backends/clock/clock_path.h"

#include <stdlib.h>

enum { MOST_TRACKS = 128, UNIT_TRACKS = 1000 /* their numbers stand above those of warps */ };

typedef struct Trace {
    Buf *out;
    const ClockLog *log;
    uint32_t launch;
    double mhz;
    uint32_t tracks[MOST_TRACKS]; /* those that have a name */
    uint32_t n_tracks;
} Trace;

static void
add_comma(Trace *t)
{
    buf_add(t->out, t->out->n > 0 ? ",\n" : "");
}

static void
name_track(Trace *t, uint32_t track, const char *name)
{
    for (uint32_t k = 0; k < t->n_tracks; k++)
        if (t->tracks[k] == track)
            return;
    if (t->n_tracks == MOST_TRACKS)
        return;
    t->tracks[t->n_tracks++] = track;
    add_comma(t);
    buf_printf(t->out,
               "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %u, \"tid\": %u, "
               "\"args\": {\"name\": \"%s\"}}",
               t->launch, track, name);
}

static void
add_event(Trace *t, uint32_t track, double from, double to, const char *name)
{
    from = from > t->log->from ? from : t->log->from;
    to = to < t->log->to ? to : t->log->to;
    if (to <= from)
        return;
    add_comma(t);
    buf_printf(
        t->out,
        "{\"ph\": \"X\", \"name\": \"%s\", \"pid\": %u, \"tid\": %u, \"ts\": %.4f, \"dur\": %.4f, "
        "\"args\": {\"clock\": %.0f, \"clocks\": %.0f}}",
        name, t->launch, track, from / t->mhz, (to - from) / t->mhz, from, to - from);
}

/* Other units and warps have one track, whichever scheduler asks. */
static uint32_t
scheduler_of(const PathSpan *span)
{
    return span->unit < UNITS_OF_SCHEDULER ? span->scheduler : 0;
}

static int
by_track_and_time(const void *a, const void *b)
{
    const PathSpan *x = a, *y = b;

    if (x->unit != y->unit)
        return (x->unit > y->unit) - (x->unit < y->unit);
    if (scheduler_of(x) != scheduler_of(y))
        return scheduler_of(x) > scheduler_of(y) ? 1 : -1;
    if (x->unit == CLOCK_UNITS && x->block != y->block)
        return (x->block > y->block) - (x->block < y->block);
    if (x->unit == CLOCK_UNITS && x->group != y->group)
        return (x->group > y->group) - (x->group < y->group);
    return (x->from > y->from) - (x->from < y->from);
}

static bool
same_track(const PathSpan *a, const PathSpan *b)
{
    bool warps = a->unit == CLOCK_UNITS;

    return a->unit == b->unit && scheduler_of(a) == scheduler_of(b) &&
           (!warps || (a->block == b->block && a->group == b->group));
}

static bool
same_event(const PathSpan *a, const PathSpan *b)
{
    return same_track(a, b) && a->group == b->group && a->why == b->why;
}

static void
add_span(Trace *t, const PathSpan *span)
{
    Arena *arena = t->out->arena;
    uint32_t first = 4 * span->group, track = span->block * 16 + span->group;
    const char *whose = arena_printf(arena, "warps %u to %u", first, first + 3);

    if (span->unit == CLOCK_UNITS) {
        name_track(t, track, arena_printf(arena, "block %u, %s", span->block, whose));
        add_event(t, track, span->from, span->to,
                  arena_printf(arena, "waits: %s", clock_stall_name((ClockStall)span->why)));
        return;
    }
    const char *unit = clock_unit_name((ClockUnit)span->unit);
    bool split = span->unit < UNITS_OF_SCHEDULER;
    track = UNIT_TRACKS + 8 * (uint32_t)span->unit + scheduler_of(span);
    name_track(t, track,
               split ? arena_printf(arena, "%s %u", unit, span->scheduler)
                     : arena_printf(arena, "%s", unit));
    add_event(t, track, span->from, span->to, whose);
}

void
clock_trace_add(const ClockLog *log, const char *name, uint32_t launch, double mhz, Buf *out)
{
    Trace t = {.out = out, .log = log, .launch = launch, .mhz = mhz > 0 ? mhz : 1};
    uint32_t n = log->spans.n;
    double before = 0;
    PathSpan *sorted = arena_copy(out->arena, log->spans.at, n * sizeof *sorted);

    qsort(sorted, n, sizeof *sorted, by_track_and_time);
    add_comma(&t);
    buf_printf(out,
               "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %u, \"args\": {\"name\": \"%s, "
               "one SM\"}}",
               launch, name);
    for (uint32_t k = 0, end; k < n; k = end) { /* what follows on the same is one event */
        PathSpan span = sorted[k];
        bool follows = k > 0 && same_track(&span, &sorted[k - 1]);
        before = follows ? before : 0;
        if (span.from < before)
            span.from = before; /* they do not overlap: it could not be shown */
        for (end = k + 1; end < n && same_event(&span, &sorted[end]); end++) {
            if (sorted[end].from > span.to + 0.5)
                break;
            span.to = sorted[end].to > span.to ? sorted[end].to : span.to;
        }
        before = span.to > before ? span.to : before;
        add_span(&t, &span);
    }
}

void
clock_trace_frame(const char *events, Buf *out)
{
    buf_printf(out, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n%s\n]}\n", events);
}
