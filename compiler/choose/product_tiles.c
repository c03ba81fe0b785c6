/* product_tiles.c - tiles of a product, by side (product_tiles.h).
 *
 * A block has as many rows as its consumers have together, so a consumer needs no more than one or two instructions' rows: two
 * where the columns are as many as registers hold, so that the block's tile is larger.  More columns than rows
 * read fewer operands.  Sizes between the powers of two fill the last round of a launch better (192: H200, docs/lab/gemm.md).
 * Less than 128 bytes of the depth are not worth an iteration's barriers; more is as good as more stages.
 */
#include "compiler/choose/product_tiles.h"

bool
product_sides(const int32_t least[PRODUCT_SIDES],
              const int32_t larger[PRODUCT_SIDES][PRODUCT_SIDES], ProductSide sides[PRODUCT_SIDES])
{
    uint32_t seen = 0;

    for (uint32_t k = 0; k < PRODUCT_SIDES; k++) {
        uint32_t grown = 0;
        for (uint32_t side = 0; side < PRODUCT_SIDES; side++) {
            if (larger[k][side] == least[side])
                continue;
            grown++;
            sides[k] = (ProductSide)side;
        }
        if (grown != 1)
            return false;
        seen |= 1u << sides[k];
    }
    return seen == (1u << PRODUCT_SIDES) - 1;
}

uint32_t
product_tiles(const ProductSide sides[PRODUCT_SIDES], int32_t least, int32_t bits, bool few,
              int32_t out[MOST_PRODUCT_TILES][PRODUCT_SIDES])
{
    static const int32_t fewer[] = {16, 32}, cols[] = {64, 128, 192, 256}, bytes[] = {128, 256};
    enum { ROWS = 4, COLS = sizeof cols / sizeof *cols, DEPTHS = sizeof bytes / sizeof *bytes };
    const int32_t rows[ROWS] = {least, 2 * least, fewer[0], fewer[1]};
    uint32_t n = 0;

    for (uint32_t index = 0; index < ROWS * COLS * DEPTHS; index++) {
        int32_t tile[PRODUCT_SIDES] = {[SIDE_ROWS] = rows[index / DEPTHS / COLS],
                                       [SIDE_COLS] = cols[index / DEPTHS % COLS],
                                       [SIDE_DEPTH] = bytes[index % DEPTHS] * 8 / bits};
        bool power = (tile[SIDE_COLS] & (tile[SIDE_COLS] - 1)) == 0;
        if (tile[SIDE_ROWS] < least &&
            (!few || !power)) /* memory gives the pace, whatever the tile */
            continue;
        for (uint32_t k = 0; k < PRODUCT_SIDES; k++)
            out[n][k] = tile[sides[k]];
        n++;
    }
    return n;
}
