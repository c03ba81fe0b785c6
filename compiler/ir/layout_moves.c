/* layout_moves.c - layouts whose elements lanes of a warp have exchanged, and how one leads to
 * another. */
#include "compiler/ir/layout.h"

/* The lane digits one bit each, so that one of them can be replaced. */
static bool
lane_bits(const Layout *layout, LayoutDigit bits[5])
{
    uint32_t n = 0;

    for (uint32_t d = 0; d < layout->lane.n; d++) {
        LayoutDigit digit = layout->lane.at[d];
        for (int32_t e = 1; e < digit.extent; e *= 2) {
            if (n == 5)
                return false;
            bits[n].extent = 2;
            bits[n].step[0] = digit.step[0] * e;
            bits[n++].step[1] = digit.step[1] * e;
        }
    }
    return n == 5;
}

const Layout *
layout_exchange(Arena *arena, const Layout *layout, uint32_t lane_bit, uint32_t digit, uint32_t at)
{
    Layout *result = arena_copy(arena, layout, sizeof *layout);
    LayoutDigit bits[5], moved = layout->reg.at[digit];

    if (moved.extent % 2 != 0 || layout->reg.n + 2 > LAYOUT_DIGITS || !lane_bits(layout, bits))
        return NULL;
    LayoutDigit came = bits[lane_bit];
    if (came.step[0] == 0 && came.step[1] == 0)
        return NULL; /* lanes with copies: the new register bit would count nothing */
    bits[lane_bit] = (LayoutDigit){2, {moved.step[0], moved.step[1]}};
    result->lane.n = result->reg.n = 0;
    for (uint32_t k = 0; k < 5; k++)
        layout_add_digit(&result->lane, 2, bits[k].step[0], bits[k].step[1]);
    for (uint32_t k = 0; k <= layout->reg.n; k++) {
        if (k == at)
            layout_add_digit(&result->reg, 2, came.step[0], came.step[1]);
        if (k == layout->reg.n)
            break;
        LayoutDigit rest = layout->reg.at[k];
        if (k == digit)
            rest = (LayoutDigit){rest.extent / 2, {rest.step[0] * 2, rest.step[1] * 2}};
        layout_add_digit(&result->reg, rest.extent, rest.step[0], rest.step[1]);
    }
    return result;
}

const Layout *
layout_widen(Arena *arena, const Layout *layout, uint32_t axis)
{
    LayoutDigit bits[5];

    if (layout->rank != 2 || layout->reg.n < 2 || layout->reg.at[0].step[axis] != 1 ||
        !lane_bits(layout, bits))
        return NULL;
    for (uint32_t b = 0; b < 5; b++) {
        if (bits[b].step[axis] != layout->reg.at[0].extent || bits[b].step[1 - axis] != 0)
            continue;
        for (uint32_t d = 1; d < layout->reg.n; d++) {
            const Layout *wide = NULL;
            if (layout->reg.at[d].step[1 - axis] == 0 && layout->reg.at[d].step[axis] != 0)
                wide = layout_exchange(arena, layout, b, d, 1);
            if (wide != NULL)
                return wide;
        }
    }
    return NULL;
}

int32_t
layout_own_run(const Layout *layout, uint32_t axis, int32_t most)
{
    if (layout->reg.n == 0 || layout->reg.at[0].step[axis] != 1)
        return 1;
    return layout->reg.at[0].extent < most ? layout->reg.at[0].extent : most;
}

int32_t
layout_run(const Layout *layout, uint32_t axis, int32_t most)
{
    LayoutDigit bits[5];
    int32_t run = layout_own_run(layout, axis, most);

    if (layout->rank != 2 || !lane_bits(layout, bits))
        return run;
    for (uint32_t b = 0; b < 5; b++) {
        if (bits[b].step[axis] != run || bits[b].step[1 - axis] != 0)
            continue;
        run *= 2;
        b = UINT32_MAX; /* the next one may be any of them */
    }
    return run;
}

const Layout *
layout_lengthen(Arena *arena, const Layout *layout, uint32_t axis, int32_t most)
{
    LayoutDigit bits[5];
    int32_t run = layout_run(layout, axis, most);

    if (layout->rank != 2 || !lane_bits(layout, bits))
        return NULL;
    for (uint32_t d = 0; d < layout->reg.n; d++) {
        const LayoutDigit *digit = &layout->reg.at[d];
        if (digit->step[axis] != run || digit->step[1 - axis] != 0)
            continue;
        for (uint32_t b = 5; b-- > 0;) { /* any would do; from above ptxas 13.0 spills less */
            const Layout *longer = NULL;
            if (bits[b].step[axis] == 0)
                longer = layout_exchange(arena, layout, b, d, d);
            if (longer != NULL)
                return longer;
        }
    }
    return NULL;
}

/* Whether each `word` registers come from two words that `below` registers lie between, as `map`
 * has them. */
static bool
from_one_pair(const int32_t *map, int32_t n, int32_t word, int32_t below)
{
    for (int32_t r = 0; r < n; r++) {
        int32_t first = map[r - r % word];
        if (map[r] / below / 2 != first / below / 2 || map[r] % below / word != first % below / word)
            return false;
    }
    return n % word == 0;
}

/* Which bit of a lane counts in `there` what bit k does in `to`. */
static bool
renumber_lanes(const Layout *there, const Layout *to, uint8_t lanes[5])
{
    LayoutDigit have[5], want[5];
    uint32_t taken = 0;

    if (!lane_bits(there, have) || !lane_bits(to, want))
        return false;
    for (uint32_t k = 0; k < 5; k++) {
        uint8_t j = 0;
        while (j < 5 && ((taken >> j & 1) != 0 || have[j].step[0] != want[k].step[0] ||
                         have[j].step[1] != want[k].step[1]))
            j++;
        if (j == 5)
            return false;
        taken |= 1U << j;
        lanes[k] = j;
    }
    return true;
}

bool
layout_find_moves(Arena *arena, const Layout *from, const Layout *to, int32_t word, LaneMoves *out)
{
    if (!layout_warps_agree(from, to)) /* lanes exchange within a warp */
        return false;
    /* at first without other numbers, which take two shuffles: as much as shared memory does, but
     * for bytes, which go there one by one */
    for (uint32_t k = 0; k < (word > 2 ? 10 : 5); k++) {
        int32_t below = 1;
        *out = (LaneMoves){.lane_bit = k % 5, .lanes = {0, 1, 2, 3, 4}, .renumbered = k >= 5};
        for (uint32_t d = 0; d < from->reg.n; below *= from->reg.at[d++].extent) {
            const Layout *there = below % word == 0 ? layout_exchange(arena, from, k % 5, d, d)
                                                    : NULL;
            if (there == NULL || (k >= 5 && !renumber_lanes(there, to, out->lanes)))
                continue;
            if (k >= 5) {
                Layout *again = arena_copy(arena, there, sizeof *there);
                again->lane = to->lane;
                there = again;
            }
            out->digit = d;
            out->map = layout_register_map(arena, there, to);
            if (out->map != NULL && from_one_pair(out->map, layout_registers(to), word, below))
                return true;
        }
    }
    return false;
}
