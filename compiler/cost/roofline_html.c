/* roofline_html.c - a roofline as a picture: operations a second over operations for each byte of
 * memory, both by powers of ten, with a roof for each unit that a launch uses; and a table of the
 * units. */
#include <inttypes.h>
#include <math.h>

#include "compiler/base/svg.h"
#include "compiler/cost/roofline.h"

enum { WIDE = 460, HIGH = 220, LEFT = 66, TOP = 12, NAMES = 130, BELOW = 40 };
enum { DECADES_X = 5, DECADES_Y = 4, LINE = 13 };

static const struct {
    const char *name, *of;
} units[ROOF_UNITS] = {
    [ROOF_TENSOR] = {"tensor cores", "operations"},
    [ROOF_SPECIAL] = {"special functions", "elements"},
    [ROOF_LANES] = {"other arithmetic", "operations on elements"},
    [ROOF_CACHE] = {"L2 cache", "bytes that programs ask for"},
    [ROOF_MEMORY] = {"memory", "bytes of the tensors, each once"},
};

typedef struct Drawing {
    Buf *out;
    const Roofline *roof;
    double operations; /* products, or what elements take where there are none */
    double hz;
    double x0, y0; /* powers of ten where the axes begin */
} Drawing;

static double
within(double share)
{
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static double
x_of(const Drawing *d, double intensity)
{
    return LEFT + WIDE * within((log10(intensity) - d->x0) / DECADES_X);
}

static double
y_of(const Drawing *d, double rate)
{
    return TOP + HIGH * (1 - within((log10(rate) - d->y0) / DECADES_Y));
}

/* 1.2e12 as "1.20 T" */
static const char *
short_number(Arena *arena, double n)
{
    static const char letters[] = " kMGTPE";
    uint32_t k = 0;

    for (; n >= 999.5 && letters[k + 1] != '\0'; k++)
        n /= 1000;
    return arena_printf(arena, "%.*f%s%c",
                        n >= 99.5   ? 0
                        : n >= 9.95 ? 1
                                    : 2,
                        n, k > 0 ? " " : "", letters[k]);
}

static void
draw_axes(const Drawing *d)
{
    Arena *arena = d->out->arena;

    for (int k = 0; k <= DECADES_X; k++) {
        double x = LEFT + WIDE * k / (double)DECADES_X;
        buf_printf(d->out, "<path class=\"grid\" d=\"M%.1f %dv%d\"/>\n", x, TOP, HIGH);
        svg_text(d->out, "mark", x - 8, TOP + HIGH + 14,
                 arena_printf(arena, "%g", pow(10, d->x0 + k)));
    }
    for (int k = 0; k <= DECADES_Y; k++) {
        double y = TOP + HIGH * (1 - k / (double)DECADES_Y);
        buf_printf(d->out, "<path class=\"grid\" d=\"M%d %.1fh%d\"/>\n", LEFT, y, WIDE);
        svg_text(d->out, "mark", 2, y + 4,
                 arena_printf(arena, "%s/s", short_number(arena, pow(10, d->y0 + k))));
    }
    svg_text(d->out, "mark", LEFT + WIDE / 2.0 - 110, TOP + HIGH + 30,
             "operations for each byte of memory");
}

/* Of memory a slope; of another unit, which takes as long for an operation wherever the kernel
 * stands, a level. */
static void
draw_roofs(const Drawing *d)
{
    double memory = d->roof->rate[ROOF_MEMORY] * d->hz, named = -LINE;
    bool drawn[ROOF_UNITS] = {[ROOF_MEMORY] = true};
    double from = pow(10, d->x0), to = pow(10, d->x0 + DECADES_X), top = pow(10, d->y0 + DECADES_Y);

    from = from * memory < pow(10, d->y0) ? pow(10, d->y0) / memory : from;
    to = to * memory > top ? top / memory : to;
    buf_printf(d->out, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x_of(d, from),
               y_of(d, from * memory), x_of(d, to), y_of(d, to * memory));
    svg_text(d->out, "mark", x_of(d, from) + 18, y_of(d, from * memory) - 4, "memory");
    for (;;) { /* the highest of those that are left */
        uint32_t k = ROOF_UNITS;
        for (uint32_t j = 0; j < ROOF_UNITS; j++)
            if (!drawn[j] && d->roof->clocks[j] > 0 &&
                (k == ROOF_UNITS || d->roof->clocks[j] < d->roof->clocks[k]))
                k = j;
        if (k == ROOF_UNITS)
            return;
        double most = d->operations * d->hz / d->roof->clocks[k], y = y_of(d, most);
        drawn[k] = true;
        if (most > top)
            continue;
        buf_printf(d->out, "<path class=\"roof\" d=\"M%.1f %.1fH%d\"/>\n", x_of(d, most / memory),
                   y, LEFT + WIDE);
        named = y + 4 > named + LINE ? y + 4 : named + LINE;
        svg_text(d->out, "mark", LEFT + WIDE + 6, named, units[k].name);
    }
}

static void
draw_points(const Drawing *d, double microseconds)
{
    double x = x_of(d, d->operations / d->roof->work[ROOF_MEMORY]);
    double best = d->operations * d->hz / d->roof->clocks[d->roof->bound];

    buf_printf(d->out, "<path class=\"here\" d=\"M%.1f %.1fV%d\"/>\n", x, y_of(d, best), TOP + HIGH);
    buf_printf(
        d->out,
        "<circle class=\"best\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>at best: %s/s</title></circle>\n",
        x, y_of(d, best), short_number(d->out->arena, best));
    if (microseconds > 0)
        buf_printf(
            d->out,
            "<circle class=\"predicted\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>predicted: %s/s"
            "</title></circle>\n",
            x, y_of(d, d->operations / microseconds * 1e6),
            short_number(d->out->arena, d->operations / microseconds * 1e6));
}

static void
print_table(const Drawing *d)
{
    Arena *arena = d->out->arena;

    buf_add(d->out,
            "<table><tr><th>unit</th><th>a launch asks for</th><th>the chip gives a second</th>"
            "<th>takes at least</th></tr>\n");
    for (uint32_t k = 0; k < ROOF_UNITS; k++) {
        if (d->roof->clocks[k] > 0)
            buf_printf(d->out, "<tr%s><td>%s</td><td>%s %s</td><td>%s</td><td>%.3g us</td></tr>\n",
                       k == d->roof->bound ? " class=\"bound\"" : "", units[k].name,
                       short_number(arena, d->roof->work[k]), units[k].of,
                       short_number(arena, d->roof->rate[k] * d->hz),
                       d->roof->clocks[k] / d->roof->mhz);
    }
    buf_add(d->out, "</table>\n");
}

void
roofline_html(const TirFn *fn, const Roofline *roof, double microseconds, Buf *out)
{
    double products = roof->work[ROOF_TENSOR];
    Drawing d = {.out = out, .roof = roof, .hz = roof->mhz * 1e6, .x0 = -1};
    double least = roof->clocks[roof->bound] / roof->mhz;

    d.operations = products > 0 ? products : roof->work[ROOF_SPECIAL] + roof->work[ROOF_LANES];
    buf_printf(out, "<p>%s, for", fn->name);
    for (uint32_t k = 0; k < fn->sizes.n; k++)
        buf_printf(out, " %s=%" PRId64, fn->sizes.at[k].name, roof->sizes[k]);
    buf_printf(out, " (--size says others): bound by %s, at least %.3g us", units[roof->bound].name,
               least);
    if (microseconds > 0)
        buf_printf(out, "; predicted %.4g us, %.0f %% of that limit's rate", microseconds,
                   100 * least / microseconds);
    buf_add(out, "</p>\n");
    if (d.operations > 0 && roof->work[ROOF_MEMORY] > 0) {
        double peak = roof->rate[products > 0 ? ROOF_TENSOR : ROOF_LANES] * d.hz;
        d.y0 = ceil(log10(peak)) - DECADES_Y;
        buf_printf(out, "<svg class=\"roofline\" width=\"%d\" height=\"%d\">\n",
                   LEFT + WIDE + NAMES, TOP + HIGH + BELOW);
        draw_axes(&d);
        draw_roofs(&d);
        draw_points(&d, microseconds);
        buf_add(out, "</svg>\n");
    }
    print_table(&d);
}
