/* clock_svg.c - a stretch of a replay as a picture: a lane for each unit and each group of warps.
 *
 * Needs the log of a replay that kept the window's spans.  Of units of schedulers the four lie one
 * above the other in their lane.  Red: what the critical path goes through.
 */
#include "backends/clock/clock_path.h"

#include <stdlib.h>

#include "compiler/base/svg.h"

enum {
    WIDTH = 1240,
    LEFT = 170,
    LANES_WIDE = 1040,
    LANE = 24,
    GAP = 5,
    LINE = 15,
    MARGIN = 20,
    MOST_LANES = 64
};

static const char style[] =
    "text{font-family:monospace;font-size:11px;fill:#222}.head{font-weight:bold;font-size:13px}"
    ".clock{fill:#666;text-anchor:middle;font-size:10px}.lane{fill:#f3f3f3}.tick{stroke:#ddd}"
    ".path{fill:#c22}.works{fill:#b9cfb0}.w1,.w2,.w3,.w4{fill:#fff;stroke:#999;stroke-width:.5}"
    ".w1{fill:#dcdcdc}.w2{fill:#efe3c4}.w3{fill:#c9d8ea}.w4{fill:#e0d3ea}.g0{fill:#777}.g1{fill:#2f6db3}"
    ".g2{fill:#c0503c}.g3{fill:#2e8b62}.g4{fill:#8a5fb0}.g5{fill:#b3702a}.g6{fill:#3b9ea5}.g7{fill:#5a5f3c}";

/* Those with a lane, in its order. */
static const ClockUnit drawn[] = {UNIT_TENSOR, UNIT_WARP_MMA, UNIT_MUFU,      UNIT_TMEM,
                                  UNIT_SHARED, UNIT_STORES,   UNIT_GLOBAL,    UNIT_GLOBAL_STORE,
                                  UNIT_HBM,    UNIT_TMA_LOAD, UNIT_TMA_STORE, UNIT_TMEM_COPY};

typedef struct Picture {
    SvgLanes at;
    Buf *out;
    const ClockLog *log;
    int unit_lane[CLOCK_UNITS]; /* -1: none */
    struct {
        uint32_t block, group;
    } warps[MOST_LANES];
    uint32_t units, groups, schedulers;
} Picture;

static int
by_time(const void *a, const void *b)
{
    const PathSpan *x = a, *y = b;

    if (x->unit != y->unit)
        return (x->unit > y->unit) - (x->unit < y->unit);
    if (x->scheduler != y->scheduler)
        return (x->scheduler > y->scheduler) - (x->scheduler < y->scheduler);
    return (x->from > y->from) - (x->from < y->from);
}

/* ---- lanes ---- */

static uint32_t
warp_lane(Picture *p, uint32_t block, uint32_t group)
{
    for (uint32_t k = 0; k < p->groups; k++) {
        if (p->warps[k].block == block && p->warps[k].group == group)
            return p->units + k;
    }
    if (p->groups == MOST_LANES)
        return p->units + MOST_LANES - 1;
    p->warps[p->groups].block = block;
    p->warps[p->groups].group = group;
    return p->units + p->groups++;
}

static int
by_warps(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b; /* block, group */

    if (x[0] != y[0])
        return (x[0] > y[0]) - (x[0] < y[0]);
    return (x[1] > y[1]) - (x[1] < y[1]);
}

static void
place_lanes(Picture *p)
{
    for (uint32_t unit = 0; unit < CLOCK_UNITS; unit++)
        p->unit_lane[unit] = -1;
    for (uint32_t k = 0; k < sizeof drawn / sizeof drawn[0]; k++) {
        for (uint32_t s = 0; s < p->log->spans.n && p->unit_lane[drawn[k]] < 0; s++) {
            if (p->log->spans.at[s].unit == drawn[k])
                p->unit_lane[drawn[k]] = (int)p->units++;
        }
    }
    for (uint32_t s = 0; s < p->log->spans.n; s++) {
        const PathSpan *span = &p->log->spans.at[s];
        if (span->unit == CLOCK_UNITS)
            warp_lane(p, span->block, span->group);
    }
    qsort(p->warps, p->groups, sizeof p->warps[0], by_warps);
}

static void
add_lanes(Picture *p)
{
    bool blocks = p->groups && p->warps[0].block != p->warps[p->groups - 1].block;

    for (uint32_t unit = 0; unit < CLOCK_UNITS; unit++) {
        if (p->unit_lane[unit] >= 0)
            svg_lane(&p->at, (uint32_t)p->unit_lane[unit], clock_unit_name((ClockUnit)unit));
    }
    for (uint32_t k = 0; k < p->groups; k++) {
        uint32_t first = 4 * p->warps[k].group;
        char *name = arena_printf(p->out->arena, "warps %u to %u", first, first + 3);
        if (blocks)
            name = arena_printf(p->out->arena, "%u: %s", p->warps[k].block, name);
        svg_lane(&p->at, p->units + k, name);
    }
    svg_axis(&p->at, p->units + p->groups);
}

/* ---- bars ---- */

static void
add_bar(const Picture *p, const char *class, uint32_t lane, uint32_t part, uint32_t parts,
        double from, double to, const char *what)
{
    from = from > p->at.begin ? from : p->at.begin;
    to = to < p->at.end ? to : p->at.end;
    if (to <= from)
        return;
    double x = svg_x(&p->at, from), high = p->at.height / parts;
    buf_printf(p->out, "<g><title>%s, clocks %.0f to %.0f</title>", what, from - p->at.begin,
               to - p->at.begin);
    buf_printf(p->out,
               "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/></g>\n",
               class, x, svg_y(&p->at, lane) + high * part, svg_x(&p->at, to) - x, high);
}

/* Spans of one unit that follow on one another for the same warps are one bar. */
static void
add_units(Picture *p, const PathSpan *spans, uint32_t n)
{
    for (uint32_t k = 0, end; k < n; k = end) {
        PathSpan span = spans[k];
        int lane = span.unit < CLOCK_UNITS ? p->unit_lane[span.unit] : -1;
        for (end = k + 1; end < n; end++) {
            const PathSpan *next = &spans[end];
            if (next->unit != span.unit || next->scheduler != span.scheduler ||
                next->group != span.group || next->from > span.to + 0.5)
                break;
            span.to = next->to > span.to ? next->to : span.to;
        }
        if (lane < 0)
            continue;
        bool split = span.unit < UNITS_OF_SCHEDULER;
        char *class = arena_printf(p->out->arena, "g%u", (unsigned)(span.group % 8));
        char *what = arena_printf(p->out->arena, "%s, for warps %u to %u",
                                  clock_unit_name((ClockUnit)span.unit), 4 * span.group,
                                  4 * span.group + 3);
        add_bar(p, class, (uint32_t)lane, split ? span.scheduler : 0, split ? p->schedulers : 1,
                span.from, span.to, what);
    }
}

/* What a group of warps does, by one of its warps: it works but where it waits for others. */
static void
add_warps(Picture *p)
{
    static const char *const classes[CLOCK_STALLS] = {
        [STALL_BARRIER] = "w2", [STALL_MBARRIER] = "w1", [STALL_PRODUCT] = "w3", [STALL_COPY] = "w4"};
    static const char *const whats[CLOCK_STALLS] = {[STALL_BARRIER] = "waits at a barrier",
                                                    [STALL_MBARRIER] = "waits at an mbarrier",
                                                    [STALL_PRODUCT] = "waits for products",
                                                    [STALL_COPY] = "waits for copies"};

    for (uint32_t k = 0; k < p->groups; k++)
        add_bar(p, "works", p->units + k, 0, 1, p->at.begin, p->at.end, "works");
    for (uint32_t s = 0; s < p->log->spans.n; s++) {
        const PathSpan *span = &p->log->spans.at[s];
        if (span->unit == CLOCK_UNITS && classes[span->why] != NULL)
            add_bar(p, classes[span->why], warp_lane(p, span->block, span->group), 0, 1, span->from,
                    span->to, whats[span->why]);
    }
}

/* Along the lower edge of the lanes that it goes through. */
static void
add_path(Picture *p, const ClockPath *path)
{
    enum { EDGE = 6 };
    uint32_t block = p->groups ? p->warps[0].block : 0;

    uint32_t node = path->last;
    double at = path->to;
    PathStep step;

    while (at > p->at.begin && clock_path_step(p->log, &node, &at, &step)) {
        bool unit = step.actor >= PATH_ACTOR_UNIT;
        int lane = unit ? p->unit_lane[step.actor - PATH_ACTOR_UNIT] : -1;
        if (lane < 0)
            lane = (int)warp_lane(p, block, step.group);
        if ((uint32_t)lane < p->units + p->groups)
            add_bar(p, "path", (uint32_t)lane, EDGE - 1, EDGE, step.from, step.to,
                    arena_printf(p->out->arena, "critical path: %s",
                                 clock_path_name(p->out->arena, (PathKind)step.kind)));
    }
}

/* ---- */

double
clock_svg_add(const ClockLog *log, const ClockPath *path, const char *name, uint32_t schedulers,
              double y, Buf *out)
{
    Picture p = {.out = out, .log = log, .schedulers = schedulers ? schedulers : 1};
    uint32_t n = log->spans.n;
    PathSpan *sorted = arena_copy(out->arena, log->spans.at, n * sizeof *sorted);

    qsort(sorted, n, sizeof *sorted, by_time);
    place_lanes(&p);
    p.at = (SvgLanes){.out = out,
                      .begin = log->from,
                      .end = log->to,
                      .name = MARGIN,
                      .left = LEFT,
                      .width = LANES_WIDE,
                      .top = y + 4 * LINE,
                      .height = LANE,
                      .gap = GAP};
    svg_text(out, "head", MARGIN, y + LINE,
             arena_printf(out->arena, "%s: clocks %.0f to %.0f", name, log->from, log->to));
    svg_text(
        out, "name", MARGIN, y + 2 * LINE,
        "units: in the colour of the warps they work for; warps: green work; waits: grey mbarriers, "
        "yellow barriers, blue products, violet copies; red: the critical path");
    add_lanes(&p);
    add_units(&p, sorted, n);
    add_warps(&p);
    add_path(&p, path);
    return svg_y(&p.at, p.units + p.groups) + 2 * LINE;
}

void
clock_svg_frame(const char *body, double height, Buf *out)
{
    svg_frame(out, WIDTH, height, style, body);
}
