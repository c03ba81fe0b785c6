/* auto_tiles.h - the values of compile-time parameters whose default is `auto`.
 *
 * The driver compiles a kernel with candidate 0 and, when that can not be compiled (it does not
 * fit into the target's shared memory, say), with the next ones, until one can.
 */
#ifndef TILEC_AUTO_TILES_H
#define TILEC_AUTO_TILES_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/target.h"

typedef struct AutoTiles {
    const Target *target;
    uint32_t candidate;
    const char *kernel; /* the last one asked about .. */
    uint32_t asked;     /* .. and how many of its parameters were */
} AutoTiles;

uint32_t auto_tiles_candidates(void);

/* Chooses `param` of `kernel`; `user` is an AutoTiles.  The front end asks in the order in which
 * the parameters are declared. */
bool auto_tiles_choose(void *user, const char *kernel, const char *param, int32_t *value);

#endif
