/* coarse_grid.c - the powers of two that a search for tiles begins with (coarse_grid.h). */
#include "compiler/choose/coarse_grid.h"

#include <math.h>

enum { GRID_SIZES = 5, FEW_ROWS = 32 };

static const int32_t grid_sizes[GRID_SIZES] = {32, 64, 128, 16, LARGEST};

Coarse
coarse_begin(Arena *arena, uint32_t autos)
{
    Coarse coarse = {.autos = autos,
                     .sizes = autos <= 2 ? GRID_SIZES : 3,
                     .digits = autos < 4 ? autos : 3,
                     .total = 1};

    for (uint32_t k = 0; k < coarse.digits; k++)
        coarse.total *= coarse.sizes;
    for (uint32_t k = 0; k < COARSE_TRIED; k++)
        coarse.least[k] = INFINITY;
    coarse.at = arena_array(arena, TileChoice, GUESSES * coarse.total);
    coarse.best = arena_array(arena, double, coarse.total);
    coarse.looked_at = arena_array(arena, bool, coarse.total);
    coarse.skipped = arena_array(arena, bool, coarse.total);
    return coarse;
}

TileChoice
coarse_values(const Coarse *coarse, uint32_t index)
{
    TileChoice values = {0};

    for (uint32_t k = 0; k < MAX_AUTO && coarse->autos > 0; k++) {
        values.values[k] = k < coarse->digits ? grid_sizes[index % coarse->sizes]
                                              : values.values[coarse->digits - 1];
        index /= coarse->sizes;
    }
    return values;
}

bool
coarse_twice(const Coarse *coarse, uint32_t index, uint32_t k, uint32_t *twice)
{
    uint32_t step = 1, size, other = 0;

    while (k-- > 0)
        step *= coarse->sizes;
    size = index / step % coarse->sizes;
    while (other < coarse->sizes && grid_sizes[other] != 2 * grid_sizes[size])
        other++;
    *twice = index + step * other - step * size;
    return grid_sizes[size] <= FEW_ROWS && other < coarse->sizes;
}

bool
coarse_take(Coarse *coarse, const TileChoice *choice)
{
    double guess = choice->cost.per_work;

    for (uint32_t k = 0; k < COARSE_TRIED && choice->cost.fits; k++) {
        if (guess >= coarse->least[k])
            continue;
        double next = coarse->least[k];
        coarse->least[k] = guess;
        guess = next;
    }
    return choice->cost.fits;
}

TileChoice *
coarse_best(const Coarse *coarse)
{
    TileChoice *best = NULL;

    for (uint32_t k = 0; k < GUESSES * coarse->total; k++) {
        TileChoice *choice = &coarse->at[k];
        if (choice->cost.fits && (best == NULL || choice->cost.per_work < best->cost.per_work))
            best = choice;
    }
    return best;
}
