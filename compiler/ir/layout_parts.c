/* layout_parts.c - register layouts of tiles with a pack along an axis, of which parts come and
 * go. */
#include "compiler/ir/layout.h"

bool
layout_is_along(const LayoutDigit *digit, LayoutPart part)
{
    int64_t step = digit->step[part.axis];

    return step > 0 && step * digit->extent > part.inner && step / part.inner < part.length;
}

/* Adds what a digit has below `bound` along the axis, and what it has from there on, as two
 * digits. */
static bool
cut_digit(DigitList *out, const LayoutDigit *digit, uint32_t axis, int64_t bound)
{
    int64_t step = digit->step[axis];
    bool whole = step == 0 || step % bound == 0 || step * digit->extent <= bound;

    if (out->n + 2 > LAYOUT_DIGITS)
        return false;
    if (whole) {
        out->at[out->n++] = *digit;
        return true;
    }
    if (bound % step != 0 || digit->extent % (bound / step) != 0)
        return false;
    int32_t below = (int32_t)(bound / step);
    out->at[out->n++] = (LayoutDigit){below, {digit->step[0], digit->step[1]}};
    out->at[out->n++] = (LayoutDigit){digit->extent / below,
                                      {digit->step[0] * below, digit->step[1] * below}};
    return true;
}

/* Cuts all digits at `bound`; those below it must stay below it together. */
static bool
cut_at(Layout *layout, uint32_t axis, int64_t bound)
{
    DigitList *lists[] = {&layout->reg, &layout->lane, &layout->warp};
    int64_t most = 0;

    for (uint32_t k = 0; k < 3; k++) {
        DigitList cut = {0};
        for (uint32_t d = 0; d < lists[k]->n; d++) {
            if (!cut_digit(&cut, &lists[k]->at[d], axis, bound))
                return false;
        }
        *lists[k] = cut;
        for (uint32_t d = 0; d < cut.n; d++) {
            int64_t step = cut.at[d].step[axis];
            most += step % bound != 0 ? step * (cut.at[d].extent - 1) : 0;
        }
    }
    return most < bound;
}

const Layout *
layout_cut(Arena *arena, const Layout *layout, LayoutPart part, int32_t extent)
{
    Layout *cut = arena_copy(arena, layout, sizeof *layout);

    if (part.axis >= layout->rank || layout->shape[part.axis] != extent)
        return NULL;
    return cut_at(cut, part.axis, part.inner) &&
                   cut_at(cut, part.axis, (int64_t)part.inner * part.length)
               ? cut
               : NULL;
}

const Layout *
layout_drop_part(Arena *arena, const Layout *layout, LayoutPart part, int32_t extent)
{
    const Layout *cut = layout_cut(arena, layout, part, extent);
    Layout *result = arena_new(arena, Layout);

    if (cut == NULL)
        return NULL;
    const DigitList *from[] = {&cut->reg, &cut->lane, &cut->warp};
    DigitList *to[] = {&result->reg, &result->lane, &result->warp};
    result->rank = cut->rank;
    for (uint32_t axis = 0; axis < cut->rank; axis++)
        result->shape[axis] = cut->shape[axis] / (axis == part.axis ? part.length : 1);
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t d = 0; d < from[k]->n; d++) {
            LayoutDigit digit = from[k]->at[d];
            if (layout_is_along(&digit, part))
                digit.step[part.axis] = 0;
            else if (digit.step[part.axis] >= part.inner)
                digit.step[part.axis] /= part.length;
            if (k > 0 || digit.step[0] != 0 || digit.step[1] != 0)
                layout_add_digit(to[k], digit.extent, digit.step[0], digit.step[1]);
        }
    }
    return result;
}

/* A dimension of the tile, or a part of one. */
typedef struct Factor {
    uint32_t axis;
    int32_t extent, step; /* of what is not divided yet */
} Factor;

/* Takes elements of a factor, as a digit: a power of two that divides `most`. */
static int32_t
take_factor(DigitList *list, Factor *factor, int32_t most)
{
    int32_t n = 1, step = factor->step;

    while (most % (2 * n) == 0 && factor->extent % (2 * n) == 0)
        n *= 2;
    factor->extent /= n;
    factor->step *= n;
    layout_add_digit(list, n, factor->axis == 0 ? step : 0, factor->axis == 1 ? step : 0);
    return n;
}

const Layout *
layout_by_parts(Arena *arena, TirType type, LayoutPart part, int32_t vec, uint32_t warps)
{
    Layout *layout = arena_new(arena, Layout);
    int32_t left = WARP_LANES, above = type.dim[part.axis] / part.inner / part.length;
    Factor factors[4];
    uint32_t n = 0;

    layout->rank = type.rank;
    for (uint32_t axis = type.rank; axis-- > 0;) { /* the fastest first */
        layout->shape[axis] = type.dim[axis];
        if (axis != part.axis) {
            factors[n++] = (Factor){axis, type.dim[axis], 1};
            continue;
        }
        factors[n++] = (Factor){axis, part.inner, 1};
        factors[n++] = (Factor){axis, part.length, part.inner};
        factors[n++] = (Factor){axis, above, part.inner * part.length};
    }
    uint32_t first = 0; /* what neighbours are along */
    while (first + 1 < n && factors[first].extent == 1)
        first++;
    take_factor(&layout->reg, &factors[first], vec);
    for (uint32_t k = 0; k < n; k++)
        left /= take_factor(&layout->lane, &factors[k], left);
    layout_add_digit(&layout->lane, left, 0, 0);
    left = (int32_t)warps;
    for (uint32_t k = n; k-- > 0;)
        left /= take_factor(&layout->warp, &factors[k], left);
    layout_add_digit(&layout->warp, left, 0, 0);
    for (uint32_t k = 0; k < n; k++)
        layout_add_digit(&layout->reg, factors[k].extent,
                         factors[k].axis == 0 ? factors[k].step : 0,
                         factors[k].axis == 1 ? factors[k].step : 0);
    return layout;
}

bool
layout_crosses_warps(const Layout *layout, LayoutPart part)
{
    for (uint32_t d = 0; layout != NULL && d < layout->warp.n; d++) {
        if (layout_is_along(&layout->warp.at[d], part))
            return true;
    }
    return false;
}
