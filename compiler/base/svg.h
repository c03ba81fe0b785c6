/* svg.h - pieces of SVG that pictures are made of: texts, lanes, an axis of clocks, the frame. */
#ifndef TILEC_BASE_SVG_H
#define TILEC_BASE_SVG_H

#include "compiler/base/arena.h"

/* Text with what XML needs escaped. */
void svg_escaped(Buf *out, const char *text);
/* A text element of a class of the style. */
void svg_text(Buf *out, const char *class, double x, double y, const char *text);
/* A picture of a size around what was drawn; no scripts, and nothing from elsewhere. */
void svg_frame(Buf *out, double width, double height, const char *style, const char *body);

/* Lanes over a window of clocks, one under the other. */
typedef struct SvgLanes {
    Buf *out;
    double begin, end; /* clocks */
    double name;       /* where names of lanes begin */
    double left, width, top, height, gap;
} SvgLanes;

double svg_x(const SvgLanes *lanes, double clock);
double svg_y(const SvgLanes *lanes, uint32_t lane);
void svg_lane(const SvgLanes *lanes, uint32_t lane, const char *name);
/* Behind `count` lanes; counts from 0 at the window's beginning. */
void svg_axis(const SvgLanes *lanes, uint32_t count);

#endif
