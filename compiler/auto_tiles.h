/* auto_tiles.h - the values of compile-time parameters whose default is `auto`. */
#ifndef TILEC_AUTO_TILES_H
#define TILEC_AUTO_TILES_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/target.h"
#include "compiler/tilec.h"

typedef struct AutoTiles {
    const Target *target;
    const TilecOptions *options; /* what the user has pinned */
    const char *kernel;          /* the last one asked about, and how many of its parameters */
    uint32_t asked;
} AutoTiles;

/* Chooses `param` of `kernel`; `user` is an AutoTiles.  The front end asks in the order in which
 * the parameters are declared. */
bool auto_tiles_choose(void *user, const char *kernel, const char *param, int32_t *value);

#endif
