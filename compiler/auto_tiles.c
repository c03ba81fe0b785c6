/* auto_tiles.c - tile sizes by rule of thumb.
 *
 * No cost model yet: the first `auto` parameter of a kernel, by custom the rows that a block owns,
 * is 128, which gives four warps two mma rows each; every other one, by custom the columns of a
 * step, is 64.  Both fit all targets' shared memory up to a head dimension of 128.
 */
#include "compiler/auto_tiles.h"

#include <string.h>

bool
auto_tiles_choose(void *user, const char *kernel, const char *param, int32_t *value)
{
    AutoTiles *tiles = user;

    (void)param;
    if (tiles->kernel == NULL || strcmp(tiles->kernel, kernel) != 0) {
        tiles->kernel = kernel;
        tiles->asked = 0;
    }
    *value = tiles->asked++ == 0 ? 128 : 64;
    return true;
}
