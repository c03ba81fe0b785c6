/* product_tiles.h - which tiles are tried for a loop of nothing but products (and additions of
 * their results) whose three sides are open. */
#ifndef TILEC_PRODUCT_TILES_H
#define TILEC_PRODUCT_TILES_H

#include <stdbool.h>
#include <stdint.h>

enum { PRODUCT_SIDES = 3, MOST_PRODUCT_TILES = 96 };

typedef enum ProductSide { SIDE_ROWS, SIDE_COLS, SIDE_DEPTH } ProductSide;

/* Which side of the product each parameter is: larger[k] has the sides with parameter k twice as
 * large.  False: they are not the three sides of one product. */
bool product_sides(const int32_t least[PRODUCT_SIDES],
                   const int32_t larger[PRODUCT_SIDES][PRODUCT_SIDES],
                   ProductSide sides[PRODUCT_SIDES]);

/* Tiles to try, each parameter's value in its place; how many.  `least` is the rows of an
 * instruction, `bits` those of an element of the operands; `any_rows`: also rows that are no
 * multiple of that, of products computed transposed, whose columns are the instruction's rows
 * (swap_ab). */
uint32_t product_tiles(const ProductSide sides[PRODUCT_SIDES], int32_t least, int32_t bits,
                       bool any_rows, int32_t out[MOST_PRODUCT_TILES][PRODUCT_SIDES]);

#endif
