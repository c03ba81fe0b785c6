/* plan_coop_k.c - how consumers divide a product that adds up over what they have apart.
 *
 * Each consumer computes some columns of the result, or some rows, over the parts of all
 * consumers.  A share's instructions have its rows as their 64, or, with swap_ab, its columns.  Of
 * the divisions that the instructions can do it is the one that reads the least from shared memory;
 * of equal ones, columns before rows, and swap_ab before not: a thread then has pieces of columns,
 * which go to the staging buffer without bank conflicts (its rows are 128 bytes, swizzled; pieces
 * of rows meet two to a bank).
 *
 * Where none divides it (96 columns), shares are whole swizzle atom columns of the operand, and the
 * last one reaches over the tile's end, as its stage does: what is computed there is not added,
 * since the tensor ends, too.
 */
#include "compiler/passes/schedule/plan.h"

enum {
    GROUP_COLS = 8,
    GROUP_MOST_COLS = 256,
    ATOM_COLUMNS = SWIZZLE_BYTES / 4, /* of f32 */
    ATOM_ELEMENTS = SWIZZLE_BYTES / 2 /* of 16 bits */
};

/* Keeps the division, if instructions can do it with fewer elements read for each step of the
 * contracted dimension. */
static void
try_share(CoopKShare *best, int64_t *least, CoopKShare share)
{
    int32_t blocks = (share.swap_ab ? share.cols : share.rows) / GROUP_ROWS;
    int32_t n = share.swap_ab ? share.rows : share.cols;
    int64_t read = (int64_t)blocks * (GROUP_ROWS + n);

    if ((share.swap_ab ? share.cols : share.rows) % GROUP_ROWS != 0 || n % GROUP_COLS != 0 ||
        n > GROUP_MOST_COLS || read >= *least)
        return;
    *best = share;
    *least = read;
}

CoopKShare
coop_k_share(TirType result, uint32_t consumers)
{
    int32_t rows = result.dim[0], cols = result.dim[1], n = (int32_t)consumers;
    CoopKShare best = {0};
    int64_t least = INT64_MAX;

    if (n < 2 || rows % 16 != 0)
        return best;
    /* A share goes to memory in swizzle atom columns of 128 bytes, whole ones, and its operand is
     * read from whole swizzle atom columns, of 128 bytes or 64, or all shares' from one. */
    int32_t part = cols / n;
    if (cols % n == 0 && part % ATOM_COLUMNS == 0 &&
        (part % (ATOM_ELEMENTS / 2) == 0 || cols <= ATOM_ELEMENTS)) {
        try_share(&best, &least, (CoopKShare){.rows = rows, .cols = part, .swap_ab = true});
        try_share(&best, &least, (CoopKShare){.rows = rows, .cols = part});
    }
    /* Rows of the exchanged operand begin where the swizzle does. */
    part = rows / n;
    if (rows % n == 0 && part % GROUP_COLS == 0 && cols % ATOM_COLUMNS == 0) {
        CoopKShare share = {.rows = part, .cols = cols, .by_rows = true, .swap_ab = true};
        try_share(&best, &least, share);
        share.swap_ab = false;
        try_share(&best, &least, share);
    }
    int32_t whole = (cols + ATOM_ELEMENTS - 1) / ATOM_ELEMENTS * ATOM_ELEMENTS;
    if (best.rows == 0 && whole % (n * ATOM_ELEMENTS) == 0) {
        CoopKShare share = {.rows = rows, .cols = whole / n, .padded = true, .swap_ab = true};
        try_share(&best, &least, share);
        share.swap_ab = false;
        try_share(&best, &least, share);
    }
    return best;
}

bool
coop_k_may_be_added(CoopKShare share, const TirOp *add)
{
    return !share.padded || tir_last_dim(add).at == NULL;
}
