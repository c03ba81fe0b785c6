/* coarse_grid.h - the powers of two that a search for tiles begins with, and guesses at them.
 *
 * A guess takes the kernel with these values.  Of tiles of few rows (or columns) it is no better
 * than of those of twice as many, so that most small tiles need none.
 */
#ifndef TILEC_CHOOSE_COARSE_GRID_H
#define TILEC_CHOOSE_COARSE_GRID_H

#include "compiler/choose/auto_tiles.h"

enum {
    COARSE_TRIED = 8, /* the best guesses, which are compiled as far as the estimate needs */
    GUESSES = 8,      /* room for those of one set of values: they are fewer */
    LARGEST = 256
};

typedef struct Coarse {
    uint32_t autos, sizes, digits, total; /* .. of each parameter, which are this many, the others
                                             are as the last of them; sets of values */
    TileChoice *at;                       /* GUESSES for each set, those that might fit in front */
    double *best;                         /* by set: its best guess, or less; 0: it has none */
    bool *looked_at, *skipped;            /* .. that is known; it needs no guess */
    double least[COARSE_TRIED];           /* the best guesses so far, in order */
} Coarse;

Coarse coarse_begin(Arena *arena, uint32_t autos);
TileChoice coarse_values(const Coarse *coarse, uint32_t index);
/* The set with parameter `k` twice as large, if guesses at small tiles are no better than those. */
bool coarse_twice(const Coarse *coarse, uint32_t index, uint32_t k, uint32_t *twice);
/* Takes note of a guess; whether the choice might fit. */
bool coarse_take(Coarse *coarse, const TileChoice *choice);
/* The best guess that might fit, the first of several; NULL: there is none. */
TileChoice *coarse_best(const Coarse *coarse);

#endif
