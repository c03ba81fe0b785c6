/* timeline_svg.c - the schedule of some kernels as a picture: facts, and for each window a lane for
 * every unit and every role.  Lines lead from what ended a wait to where it ended.  Plain SVG,
 * without scripts: everything else stands in the titles that browsers show over a shape. */
#include "compiler/base/svg.h"
#include "compiler/timeline/timeline.h"

#include <string.h>

enum {
    WIDTH = 1240,
    LEFT = 130, /* of the lanes */
    LANES = 1080,
    LANE = 20,
    GAP = 5,
    LINE = 15, /* of text */
    MARGIN = 20,
    LETTER = 6 /* width of one, in labels */
};

typedef struct Picture {
    Buf *out;
    const Timeline *line;
    const TimeWindow *window;
    SvgLanes at;
    int32_t lane[UNIT_COUNT]; /* of a unit; -1: idle in this window */
    uint32_t lanes, first_role;
} Picture;

/* ---- places ---- */

static uint32_t
role_lane(const Picture *p, uint32_t role)
{
    return p->first_role + role;
}

static bool
is_inside(const Picture *p, double clock)
{
    return clock >= p->window->begin && clock <= p->window->end;
}

/* ---- shapes ---- */

/* A group of shapes; a page about the program links it to the line of its operation. */
static void
open_group(const Picture *p, const TimeSpan *span)
{
    const Diag *diag = p->line->fn->diag;
    SourcePlace place = {0};

    if (diag->all_places && span->op != NULL)
        place = diag_origin(diag, span->op->span.lo);
    if (place.file != NULL)
        buf_printf(p->out, "<g data-s=\"%u:%u\">", place.file->index, place.line);
    else
        buf_add(p->out, "<g>");
    buf_add(p->out, "<title>");
}

static void
add_box(const Picture *p, const char *class, uint32_t lane, const TimeSpan *span, const char *what)
{
    double from = svg_x(&p->at, span->begin), to = svg_x(&p->at, span->end);
    const char *label = span->text;
    const char *role = timeline_role_name(p->out->arena, &p->line->trace, span->role);

    if (span->end <= p->window->begin || span->begin >= p->window->end)
        return;
    open_group(p, span);
    svg_escaped(p->out,
                arena_printf(p->out->arena, "%s: %s%s, clocks %.0f to %.0f", role, what, span->text,
                             span->begin - p->window->begin, span->end - p->window->begin));
    buf_printf(p->out,
               "</title><rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
               "height=\"%d\"/>",
               class, from, svg_y(&p->at, lane), to - from, LANE);
    if (*label != '\0' && (double)(strlen(label) + 1) * LETTER < to - from) {
        buf_printf(p->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">",
                   span->kind == SPAN_WAIT ? "for" : "label", from + 3,
                   svg_y(&p->at, lane) + LANE - 6);
        svg_escaped(p->out, label);
        buf_add(p->out, "</text>");
    }
    buf_add(p->out, "</g>\n");
}

static void
add_span(const Picture *p, const TimeSpan *span)
{
    static const char *const work[] = {"", "tensor", "special", "lanes", "shared", "copy"};
    static const char *const who[] = {"producer", "consumer0", "consumer1", "consumer2",
                                      "consumer3"};
    uint32_t lane = role_lane(p, span->role);

    switch (span->kind) {
    case SPAN_WAIT: add_box(p, "wait", lane, span, "waits for "); break;
    case SPAN_WORK:
        add_box(p, work[span->unit], lane, span, ""); /* and on its unit */
    /* fallthrough */
    case SPAN_ASYNC:
        if (p->lane[span->unit] >= 0)
            add_box(p, who[1 + timeline_consumer(&p->line->trace, span->role, span->op)],
                    (uint32_t)p->lane[span->unit], span, "");
        break;
    case SPAN_SIGNAL:
        if (!is_inside(p, span->begin))
            break;
        open_group(p, span);
        svg_escaped(p->out,
                    arena_printf(p->out->arena, "%s: %s, clock %.0f",
                                 timeline_role_name(p->out->arena, &p->line->trace, span->role),
                                 span->text, span->begin - p->window->begin));
        buf_printf(p->out,
                   "</title><circle class=\"signal\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/></g>\n",
                   svg_x(&p->at, span->begin), svg_y(&p->at, lane) + LANE / 2.0);
        break;
    }
}

/* From what ended a wait to where it ended. */
static void
add_cause(const Picture *p, const TimeSpan *wait)
{
    if (wait->kind != SPAN_WAIT || wait->cause < 0 || !is_inside(p, wait->end))
        return;
    const TimeSpan *cause = &p->line->spans.at[wait->cause];
    bool on_unit = cause->kind == SPAN_ASYNC;
    if (!is_inside(p, cause->end) || (on_unit && p->lane[cause->unit] < 0))
        return;
    uint32_t from = on_unit ? (uint32_t)p->lane[cause->unit] : role_lane(p, cause->role);
    uint32_t to = role_lane(p, wait->role);
    double begin = svg_y(&p->at, from) + (from < to ? LANE : 0),
           end = svg_y(&p->at, to) + (from < to ? 0 : LANE);
    buf_printf(p->out, "<path class=\"why\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n",
               svg_x(&p->at, cause->end), begin, svg_x(&p->at, wait->end), end);
}

/* Which units do something in the window; they come first. */
static void
place_lanes(Picture *p)
{
    p->lanes = 0;
    for (OpUnit unit = UNIT_TENSOR; unit < UNIT_COUNT; unit++) {
        bool some = false;
        for (uint32_t i = 0; i < p->line->spans.n && !some; i++) {
            const TimeSpan *span = &p->line->spans.at[i];
            some = (span->kind == SPAN_WORK || span->kind == SPAN_ASYNC) && span->unit == unit &&
                   span->end > p->window->begin && span->begin < p->window->end;
        }
        p->lane[unit] = some ? (int32_t)p->lanes++ : -1;
    }
    p->first_role = p->lanes;
    p->lanes += p->line->trace.roles;
}

static double
add_window(Picture *p, double y)
{
    const Timeline *line = p->line;

    place_lanes(p);
    svg_text(p->out, "head", MARGIN, y + LINE,
             arena_printf(p->out->arena, "%s: clocks %.0f to %.0f", p->window->name,
                          p->window->begin, p->window->end));
    p->at = (SvgLanes){.out = p->out,
                       .begin = p->window->begin,
                       .end = p->window->end,
                       .name = MARGIN,
                       .left = LEFT,
                       .width = LANES,
                       .top = y + 3 * LINE,
                       .height = LANE,
                       .gap = GAP};
    for (OpUnit unit = UNIT_TENSOR; unit < UNIT_COUNT; unit++) {
        if (p->lane[unit] >= 0)
            svg_lane(&p->at, (uint32_t)p->lane[unit], timeline_unit_name(unit));
    }
    for (uint32_t role = 0; role < line->trace.roles; role++)
        svg_lane(&p->at, role_lane(p, role), timeline_role_name(p->out->arena, &line->trace, role));
    svg_axis(&p->at, p->lanes);
    for (uint32_t i = 0; i < line->spans.n; i++)
        add_span(p, &line->spans.at[i]);
    for (uint32_t i = 0; i < line->spans.n; i++)
        add_cause(p, &line->spans.at[i]);
    return svg_y(&p->at, p->lanes) + LINE;
}

/* Each line of `text`; returns where the next one would stand. */
static double
add_lines(Buf *out, const char *text, double y)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        y += LINE;
        svg_text(out, "fact", MARGIN, y, arena_strndup(out->arena, text, n));
        text += n + (text[n] == '\n');
    }
    return y;
}

static double
add_legend(Buf *out, uint32_t consumers, double y)
{
    static const struct {
        const char *class, *text;
    } rows[] = {
        {"consumer0", "consumer 0"}, {"consumer1", "consumer 1"}, {"consumer2", "consumer 2"},
        {"consumer3", "consumer 3"}, {"producer", "producer"},    {"lanes", "arithmetic"},
        {"special", "MUFU"},         {"shared", "shared memory"}, {"wait", "waits"}};
    double x = MARGIN;

    for (uint32_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        if (k >= consumers && k < MOST_CONSUMERS)
            continue;
        buf_printf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"12\"/>\n",
                   rows[k].class, x, y);
        svg_text(out, "name", x + 18, y + 10, rows[k].text);
        x += 40 + LETTER * (double)strlen(rows[k].text);
    }
    return y + 2 * LINE;
}

static double
add_kernel(const Target *target, const TimelineOf *of, Buf *out, double y)
{
    const TirFn *fn = of->fn;
    Buf facts;
    Timeline *line = timeline_run(out->arena, target, fn);

    buf_init(&facts, out->arena);
    timeline_facts(target, of, &facts);
    if (line != NULL)
        timeline_times(line, &facts);
    y = add_lines(out, facts.at, y) + LINE;
    if (line == NULL || line->n_windows == 0)
        return y;
    y = add_legend(out, tir_consumers(fn->plan), y);
    for (uint32_t k = 0; k < line->n_windows; k++) {
        Picture p = {.out = out, .line = line, .window = &line->windows[k]};
        y = add_window(&p, y);
    }
    return y;
}

void
timeline_svg(const Target *target, const TimelineOf *of, uint32_t n, Buf *out)
{
    static const char style[] =
        "text{font-family:monospace;font-size:11px;fill:#222}"
        ".head{font-weight:bold;font-size:13px}.clock{fill:#666;text-anchor:middle;font-size:10px}"
        ".label{font-size:10px;fill:#fff}.for{font-size:10px;fill:#666}rect{stroke:#fff;stroke-width:.6}.lane{fill:#f3f3f3}.tick{stroke:#ddd}"
        ".why{stroke:#c22;stroke-width:.8;fill:none;opacity:.6}.signal{fill:#222}"
        ".wait{fill:#dcdcdc}.producer{fill:#777}.lanes{fill:#5a8f3c}.special{fill:#b3702a}"
        ".shared{fill:#6a5a9c}.copy{fill:#777}.tensor{fill:#3b6ea5}"
        ".consumer0{fill:#2f6db3}.consumer1{fill:#c0503c}.consumer2{fill:#2e8b62}.consumer3{fill:#8a5fb0}";
    Buf body;
    double y = MARGIN;

    buf_init(&body, out->arena);
    for (uint32_t k = 0; k < n; k++)
        y = add_kernel(target, &of[k], &body, y) + MARGIN;
    svg_frame(out, WIDTH, y, style, buf_text(&body));
}
