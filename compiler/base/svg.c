/* svg.c - pieces of SVG (svg.h). */
#include "compiler/base/svg.h"

enum { TICKS = 8 };

void
svg_escaped(Buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&': buf_add(out, "&amp;"); break;
        case '<': buf_add(out, "&lt;"); break;
        case '>': buf_add(out, "&gt;"); break;
        case '"': buf_add(out, "&quot;"); break;
        default: buf_char(out, *text); break;
        }
    }
}

void
svg_text(Buf *out, const char *class, double x, double y, const char *text)
{
    buf_printf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" xml:space=\"preserve\">", class, x, y);
    svg_escaped(out, text);
    buf_add(out, "</text>\n");
}

void
svg_frame(Buf *out, double width, double height, const char *style, const char *body)
{
    buf_printf(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
               "viewBox=\"0 0 %.0f %.0f\">\n<style>%s</style>\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
               width, height, width, height, style);
    buf_add(out, body);
    buf_add(out, "</svg>\n");
}

double
svg_x(const SvgLanes *lanes, double clock)
{
    double share = (clock - lanes->begin) / (lanes->end - lanes->begin);

    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return lanes->left + lanes->width * share;
}

double
svg_y(const SvgLanes *lanes, uint32_t lane)
{
    return lanes->top + (double)lane * (lanes->height + lanes->gap);
}

void
svg_lane(const SvgLanes *lanes, uint32_t lane, const char *name)
{
    svg_text(lanes->out, "name", lanes->name, svg_y(lanes, lane) + lanes->height - 6, name);
    buf_printf(lanes->out,
               "<rect class=\"lane\" x=\"%.0f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\"/>\n",
               lanes->left, svg_y(lanes, lane), lanes->width, lanes->height);
}

void
svg_axis(const SvgLanes *lanes, uint32_t count)
{
    for (uint32_t k = 0; k <= TICKS; k++) {
        double x = lanes->left + lanes->width * k / TICKS;
        buf_printf(lanes->out, "<path class=\"tick\" d=\"M%.1f %.1fV%.1f\"/>\n", x, lanes->top - 3,
                   svg_y(lanes, count));
        svg_text(lanes->out, "clock", x, lanes->top - 6,
                 arena_printf(lanes->out->arena, "%.0f", (lanes->end - lanes->begin) * k / TICKS));
    }
}
