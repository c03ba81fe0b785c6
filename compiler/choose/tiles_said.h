/* tiles_said.h - what is said of the tiles that a search has tried. */
#ifndef TILEC_TILES_SAID_H
#define TILEC_TILES_SAID_H

#include "compiler/choose/auto_tiles.h"
#include "compiler/passes/pass.h"

typedef struct TilesTried {
    const char *kernel;
    const char *const *names; /* of parameters that are `auto` */
    uint32_t autos;
    bool products;        /* else clocks are those of launches */
    const TileChoice *at; /* the cheapest first */
    uint32_t n;
} TilesTried;

/* Values, warps and stages; `width`: of values, in columns. */
void tile_choice_print(const TilesTried *tried, const TileChoice *choice, int width, Buf *out);
/* All that was tried: clocks of an SM for 1024 multiply-adds, in all and of each unit; without
 * products, clocks of launches. */
void tiles_report(const TilesTried *tried, Buf *out);
/* One line about the winner. */
void tiles_remark(const TilesTried *tried, const PassContext *px, Span span);

#endif
