/* product_tiles.c - tiles of a product, by side (product_tiles.h).
 *
 * A block has as many rows as its consumers have together, so a consumer needs no more than one or
 * two instructions' rows: two where the columns are as many as registers hold, so that the block's
 * tile is larger.  More columns than rows read fewer operands.  Sizes between the powers of two
 * fill the last round of a launch better (192: H200, docs/lab/gemm.md). Rows may also be any
 * multiple of 16 where the product is computed transposed, with its columns as the instruction's
 * rows: 137 rows are one tile of 144, or three of 64. Less than 128 bytes of the depth are not
 * worth an iteration's barriers; more is as good as more stages.
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
product_tiles(const ProductSide sides[PRODUCT_SIDES], int32_t least, int32_t bits, bool any_rows,
              int32_t out[MOST_PRODUCT_TILES][PRODUCT_SIDES])
{
    /* with columns that are powers of two; neighbours of these are 5 to 8 % larger or smaller */
    static const int32_t transposed[] = {16, 32, 48, 80, 96, 112, 144, 160, 176};
    static const int32_t cols[] = {64, 128, 192, 256}, bytes[] = {128, 256};
    enum {
        USUAL = 2,
        ROWS = USUAL + sizeof transposed / sizeof *transposed,
        COLS = sizeof cols / sizeof *cols,
        DEPTHS = sizeof bytes / sizeof *bytes
    };
    uint32_t n = 0;

    for (uint32_t index = 0; index < ROWS * COLS * DEPTHS; index++) {
        uint32_t row = index / DEPTHS / COLS;
        int32_t tile[PRODUCT_SIDES] = {[SIDE_ROWS] = row < USUAL ? least << row
                                                                 : transposed[row - USUAL],
                                       [SIDE_COLS] = cols[index / DEPTHS % COLS],
                                       [SIDE_DEPTH] = bytes[index % DEPTHS] * 8 / bits};
        bool power = (tile[SIDE_COLS] & (tile[SIDE_COLS] - 1)) == 0;
        if (row >= USUAL && (!any_rows || !power))
            continue;
        for (uint32_t k = 0; k < PRODUCT_SIDES; k++)
            out[n][k] = tile[sides[k]];
        n++;
    }
    return n;
}
