/* auto_tiles.c - tile sizes by rule of thumb, from large to small.
 *
 * There is no cost model yet.  By custom the first `auto` parameter of a kernel is the rows that a
 * block owns, and the others are the columns of a step: 128 rows give four warps two mma rows each,
 * and each smaller candidate halves what shared memory or the registers must hold.
 */
#include "compiler/auto_tiles.h"

#include <string.h>

typedef struct Candidate {
    int32_t first, others;
} Candidate;

static const Candidate candidates[] = {
    {128, 64}, {64, 64}, {128, 32}, {64, 32}, {32, 32}, {16, 16},
};

uint32_t
auto_tiles_candidates(void)
{
    return sizeof candidates / sizeof candidates[0];
}

bool
auto_tiles_choose(void *user, const char *kernel, const char *param, int32_t *value)
{
    AutoTiles *tiles = user;

    (void)param;
    if (tiles->kernel == NULL || strcmp(tiles->kernel, kernel) != 0) {
        tiles->kernel = kernel;
        tiles->asked = 0;
    }
    const Candidate *candidate = &candidates[tiles->candidate];
    *value = tiles->asked++ == 0 ? candidate->first : candidate->others;
    return true;
}
