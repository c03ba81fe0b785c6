/* layout.c - the algebra of register layouts, and addresses in shared memory. */
#include "compiler/ir/layout.h"

#include <inttypes.h>
#include <string.h>

static void
add_digit(DigitList *list, int32_t extent, int32_t step0, int32_t step1)
{
    if (extent <= 1)
        return;
    if (list->n > 0) { /* two digits that continue each other are one */
        LayoutDigit *last = &list->at[list->n - 1];
        if (step0 == last->step[0] * last->extent && step1 == last->step[1] * last->extent) {
            last->extent *= extent;
            return;
        }
    }
    list->at[list->n++] = (LayoutDigit){extent, {step0, step1}};
}

void
layout_add_digit(DigitList *list, int32_t extent, int32_t step0, int32_t step1)
{
    add_digit(list, extent, step0, step1);
}

static int32_t
digits_size(const DigitList *list)
{
    int32_t size = 1;
    for (uint32_t i = 0; i < list->n; i++)
        size *= list->at[i].extent;
    return size;
}

_Static_assert(LAYOUT_RANK == 2, "a place has two coordinates");

static void
digits_add(const DigitList *list, int32_t index, int32_t out[LAYOUT_RANK])
{
    for (uint32_t i = 0; i < list->n && index != 0; i++) {
        const LayoutDigit *digit = &list->at[i];
        int32_t value = index % digit->extent;
        index /= digit->extent;
        out[0] += value * digit->step[0];
        out[1] += value * digit->step[1];
    }
}

typedef struct Place {
    int32_t at[LAYOUT_RANK];
} Place;

/* The places of all numbers that digits have, in order. */
static const Place *
list_places(Arena *arena, const DigitList *list)
{
    int32_t size = 1;
    Place *places = arena_array(arena, Place, digits_size(list));

    for (uint32_t i = 0; i < list->n; i++) {
        const LayoutDigit *digit = &list->at[i];
        int32_t end = size * digit->extent;
        for (int32_t k = size; k < end; k++) { /* one step behind the same with a smaller digit */
            places[k].at[0] = places[k - size].at[0] + digit->step[0];
            places[k].at[1] = places[k - size].at[1] + digit->step[1];
        }
        size = end;
    }
    return places;
}

int32_t
layout_registers(const Layout *layout)
{
    return digits_size(&layout->reg);
}

int32_t
layout_warps(const Layout *layout)
{
    return digits_size(&layout->warp);
}

void
layout_coordinates(const Layout *layout, int32_t reg, int32_t lane, int32_t warp,
                   int32_t out[LAYOUT_RANK])
{
    out[0] = out[1] = 0;
    if (reg != 0)
        digits_add(&layout->reg, reg, out);
    if (lane != 0)
        digits_add(&layout->lane, lane, out);
    if (warp != 0)
        digits_add(&layout->warp, warp, out);
}

/* The digits that move a place: those without a step only say who holds copies. */
typedef struct MovingDigits {
    uint32_t n;
    LayoutDigit at[3 * LAYOUT_DIGITS];
} MovingDigits;

/* Marks what is held at `place`, and digit by digit behind it; false where that is outside of the
 * shape. */
static bool
mark_held(const Layout *layout, const MovingDigits *digits, uint32_t digit,
          const int64_t place[LAYOUT_RANK], uint8_t *held)
{
    const int64_t cols = layout->rank == 2 ? layout->shape[1] : 1;

    if (place[0] >= layout->shape[0] || place[1] >= cols)
        return false;
    if (digit == digits->n) {
        held[place[0] * cols + place[1]] = 1;
        return true;
    }
    const LayoutDigit *d = &digits->at[digit];
    for (int32_t k = 0; k < d->extent; k++) {
        int64_t at[LAYOUT_RANK] = {place[0] + (int64_t)k * d->step[0],
                                   place[1] + (int64_t)k * d->step[1]};
        if (!mark_held(layout, digits, digit + 1, at, held))
            return false;
    }
    return true;
}

const char *
layout_fault(Arena *arena, const Layout *layout)
{
    enum { MOST = 1 << 22 }; /* elements, and places: tiles have 2^16 at most */
    const DigitList *parts[] = {&layout->reg, &layout->lane, &layout->warp};
    const int64_t none[LAYOUT_RANK] = {0};
    int64_t lanes = 1, places = 1, elements = layout->rank == 0 ? 1 : layout->shape[0];
    MovingDigits digits = {0};

    for (uint32_t i = 0; i < layout->lane.n && lanes <= WARP_LANES; i++)
        lanes *= layout->lane.at[i].extent;
    if (lanes != WARP_LANES)
        return arena_printf(arena, "a layout has %d lanes, those of a warp", WARP_LANES);
    if (layout->rank == 2)
        elements *= layout->shape[1];
    for (uint32_t p = 0; p < 3; p++) {
        int64_t all = 1;
        for (uint32_t i = 0; i < parts[p]->n; i++) {
            const LayoutDigit *d = &parts[p]->at[i];
            all *= d->extent;
            if (all > MOST)
                return "a layout this large is of no tile";
            if (d->extent > 1 && (d->step[0] != 0 || d->step[1] != 0)) {
                digits.at[digits.n++] = *d;
                places = places > MOST ? places : places * d->extent;
            }
        }
    }
    if (elements > MOST || places > MOST)
        return "a layout this large is of no tile";
    uint8_t *held = arena_array(arena, uint8_t, (size_t)elements);
    if (layout->rank > 0 && !mark_held(layout, &digits, 0, none, held))
        return "the layout holds elements outside of its shape";
    for (int64_t i = 0; i < elements && layout->rank > 0; i++) {
        if (held[i] == 0)
            return arena_printf(arena, "nobody holds element %" PRId64 " of the layout", i);
    }
    return NULL;
}

static bool
digits_eq(const DigitList *a, const DigitList *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->at[i].extent != b->at[i].extent || a->at[i].step[0] != b->at[i].step[0] ||
            a->at[i].step[1] != b->at[i].step[1])
            return false;
    }
    return true;
}

bool
layout_eq(const Layout *a, const Layout *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL || a->rank != b->rank)
        return false;
    for (uint32_t axis = 0; axis < a->rank; axis++) {
        if (a->shape[axis] != b->shape[axis])
            return false;
    }
    return digits_eq(&a->reg, &b->reg) && digits_eq(&a->lane, &b->lane) &&
           digits_eq(&a->warp, &b->warp);
}

static void
print_digits(const DigitList *list, uint32_t rank, Buf *out)
{
    for (uint32_t i = 0; i < list->n; i++) {
        if (rank == 2)
            buf_printf(out, "%s%d:%d,%d", i > 0 ? " " : "", list->at[i].extent, list->at[i].step[0],
                       list->at[i].step[1]);
        else
            buf_printf(out, "%s%d:%d", i > 0 ? " " : "", list->at[i].extent, list->at[i].step[0]);
    }
}

void
layout_print(const Layout *layout, Buf *out)
{
    buf_add(out, "{");
    for (uint32_t axis = 0; axis < layout->rank; axis++)
        buf_printf(out, "%s%d", axis > 0 ? "x" : "", layout->shape[axis]);
    buf_add(out, " reg ");
    print_digits(&layout->reg, layout->rank, out);
    buf_add(out, " | lane ");
    print_digits(&layout->lane, layout->rank, out);
    buf_add(out, " | warp ");
    print_digits(&layout->warp, layout->rank, out);
    buf_add(out, "}");
}

static int32_t
round_up(int32_t n, int32_t to)
{
    return (n + to - 1) / to * to;
}

/* Lanes of a warp that have a row of an operand or a result, each a word of it. */
enum { FOUR_LANES = 4 };

const Layout *
layout_mma_c(Arena *arena, int32_t rows, int32_t cols, uint32_t warps_m, uint32_t warps_n,
             uint32_t warps)
{
    Layout *layout = arena_new(arena, Layout);
    int32_t wm = (int32_t)warps_m, wn = (int32_t)warps_n;
    int32_t all_rows = round_up(rows, MMA_ROWS * wm), all_cols = round_up(cols, MMA_COLS * wn);

    layout->rank = 2;
    layout->shape[0] = all_rows;
    layout->shape[1] = all_cols;
    add_digit(&layout->reg, 2, 0, 1);
    add_digit(&layout->reg, 2, 8, 0);
    add_digit(&layout->reg, all_cols / wn / 8, 0, 8);
    add_digit(&layout->reg, all_rows / wm / 16, 16, 0);
    add_digit(&layout->lane, 4, 0, 2);
    add_digit(&layout->lane, 8, 1, 0);
    add_digit(&layout->warp, wm, all_rows / wm, 0);
    add_digit(&layout->warp, wn, 0, all_cols / wn);
    add_digit(&layout->warp, (int32_t)(warps / (warps_m * warps_n)), 0, 0);
    return layout;
}

const Layout *
layout_rows(Arena *arena, int32_t cols, uint32_t warps)
{
    Layout *layout = arena_new(arena, Layout);

    layout->rank = 2;
    layout->shape[0] = (int32_t)warps * WARP_LANES;
    layout->shape[1] = cols;
    add_digit(&layout->reg, cols, 0, 1);
    add_digit(&layout->lane, WARP_LANES, 1, 0);
    add_digit(&layout->warp, (int32_t)warps, WARP_LANES, 0);
    return layout;
}

const Layout *
layout_mma_a(Arena *arena, int32_t rows, int32_t k, int32_t word, uint32_t warps_m, uint32_t warps)
{
    Layout *layout = arena_new(arena, Layout);
    int32_t wm = (int32_t)warps_m, half = FOUR_LANES * word; /* of an instruction's k */
    int32_t all_rows = round_up(rows, 16 * wm), all_k = round_up(k, 2 * half);

    layout->rank = 2;
    layout->shape[0] = all_rows;
    layout->shape[1] = all_k;
    add_digit(&layout->reg, word, 0, 1);
    add_digit(&layout->reg, 2, 8, 0);
    add_digit(&layout->reg, all_k / half, 0, half);
    add_digit(&layout->reg, all_rows / wm / 16, 16, 0);
    add_digit(&layout->lane, FOUR_LANES, 0, word);
    add_digit(&layout->lane, 8, 1, 0);
    add_digit(&layout->warp, wm, all_rows / wm, 0);
    add_digit(&layout->warp, (int32_t)(warps / warps_m), 0, 0);
    return layout;
}

/* Result and left operand of wgmma hold their 64 rows alike; `word`: neighbours in a row that a
 * lane has. */
static const Layout *
group_rows(Arena *arena, int32_t rows, int32_t all_cols, int32_t word)
{
    Layout *layout = arena_new(arena, Layout);

    layout->rank = 2;
    layout->shape[0] = round_up(rows, GROUP_ROWS);
    layout->shape[1] = all_cols;
    add_digit(&layout->reg, word, 0, 1);
    add_digit(&layout->reg, 2, 8, 0);
    add_digit(&layout->reg, all_cols / (FOUR_LANES * word), 0, FOUR_LANES * word);
    add_digit(&layout->reg, layout->shape[0] / GROUP_ROWS, GROUP_ROWS, 0);
    add_digit(&layout->lane, FOUR_LANES, 0, word);
    add_digit(&layout->lane, 8, 1, 0);
    add_digit(&layout->warp, GROUP_WARPS, GROUP_ROWS / GROUP_WARPS, 0);
    return layout;
}

const Layout *
layout_group_c(Arena *arena, int32_t rows, int32_t cols)
{
    return group_rows(arena, rows, round_up(cols, 8), 2);
}

const Layout *
layout_group_a(Arena *arena, int32_t rows, int32_t k, int32_t word)
{
    return group_rows(arena, rows, round_up(k, 2 * FOUR_LANES * word), word);
}

const Layout *
layout_mma_b(Arena *arena, int32_t k, int32_t cols, int32_t word, uint32_t warps_m,
             uint32_t warps_n, uint32_t warps)
{
    Layout *layout = arena_new(arena, Layout);
    int32_t wn = (int32_t)warps_n, half = FOUR_LANES * word;
    int32_t all_k = round_up(k, 2 * half), all_cols = round_up(cols, MMA_COLS * wn);

    layout->rank = 2;
    layout->shape[0] = all_k;
    layout->shape[1] = all_cols;
    add_digit(&layout->reg, word, 1, 0);
    add_digit(&layout->reg, all_k / half, half, 0);
    add_digit(&layout->reg, all_cols / wn / 8, 0, 8);
    add_digit(&layout->lane, FOUR_LANES, word, 0);
    add_digit(&layout->lane, 8, 0, 1);
    add_digit(&layout->warp, (int32_t)warps_m, 0, 0);
    add_digit(&layout->warp, wn, 0, all_cols / wn);
    add_digit(&layout->warp, (int32_t)(warps / (warps_m * warps_n)), 0, 0);
    return layout;
}

/* Of A, the first two of four lanes have the scales of rows 8 apart; of B, all four have those of a
 * column. */
const Layout *
layout_mma_scales(Arena *arena, int32_t lines, int32_t scales, bool left, uint32_t warps_m,
                  uint32_t warps_n, uint32_t warps)
{
    Layout *layout = arena_new(arena, Layout);
    int32_t wm = (int32_t)warps_m, wn = (int32_t)warps_n, parts = left ? wm : wn;
    int32_t atom = left ? MMA_ROWS : MMA_COLS, all = round_up(lines, atom * parts);
    int32_t words = round_up(scales, FOUR_LANES) / FOUR_LANES;

    layout->rank = 2;
    layout->shape[0] = all;
    layout->shape[1] = FOUR_LANES * words;
    add_digit(&layout->reg, FOUR_LANES, 0, 1);
    add_digit(&layout->reg, words, 0, FOUR_LANES);
    add_digit(&layout->reg, all / parts / atom, atom, 0);
    add_digit(&layout->lane, left ? 2 : 1, MMA_COLS, 0);
    add_digit(&layout->lane, left ? 2 : 4, 0, 0);
    add_digit(&layout->lane, 8, 1, 0);
    add_digit(&layout->warp, wm, left ? all / wm : 0, 0);
    add_digit(&layout->warp, wn, left ? 0 : all / wn, 0);
    add_digit(&layout->warp, (int32_t)(warps / (warps_m * warps_n)), 0, 0);
    return layout;
}

/* The largest power of two that is at most n (n >= 1). */
static int32_t
floor_power(int32_t n)
{
    int32_t power = 1;
    while (power * 2 <= n)
        power *= 2;
    return power;
}

/* A digit along one axis only. */
static void
add_along(DigitList *list, uint32_t axis, int32_t extent, int32_t step)
{
    add_digit(list, extent, axis == 0 ? step : 0, axis == 0 ? 0 : step);
}

const Layout *
layout_sorted(Arena *arena, TirType type, uint32_t axis, uint32_t warps)
{
    Layout *layout = arena_new(arena, Layout);
    int32_t places = floor_power(2 * type.dim[axis] - 1), used = (int32_t)warps;
    int32_t lines = type.rank > 1 ? type.dim[1 - axis] : 1;
    int32_t lanes = places < WARP_LANES ? places : WARP_LANES, beside = WARP_LANES / lanes;

    while (beside > 1 && beside / 2 >= lines)
        beside /= 2;
    int32_t groups = (lines + beside - 1) / beside;
    while (used > groups || (int32_t)warps % used != 0)
        used--;
    int32_t rest = (groups + used - 1) / used;
    layout->rank = type.rank;
    layout->shape[axis] = places;
    if (type.rank > 1)
        layout->shape[1 - axis] = beside * used * rest;
    add_along(&layout->reg, axis, places / lanes, 1);
    add_along(&layout->reg, 1 - axis, rest, beside * used);
    add_along(&layout->lane, axis, lanes, places / lanes);
    add_along(&layout->lane, 1 - axis, beside, 1);
    add_digit(&layout->lane, WARP_LANES / lanes / beside, 0, 0);
    add_along(&layout->warp, 1 - axis, used, beside);
    add_digit(&layout->warp, (int32_t)warps / used, 0, 0);
    return layout;
}

/* How the rows of a tile, of so many chunks each, go to lanes and warps, and what a thread has of
 * them. */
typedef struct Spread {
    int32_t lanes_c, lanes_r, warps_c, warps_r, col_regs, row_regs;
} Spread;

/* With `lanes` lanes along a row: warps that no rows are left for divide the columns. */
static Spread
spread_by(int32_t rows, int32_t chunks, int32_t lanes, int32_t warps)
{
    Spread to = {.lanes_c = lanes, .lanes_r = WARP_LANES / lanes};
    int32_t row_warps = floor_power((rows + to.lanes_r - 1) / to.lanes_r),
            col_warps = floor_power((chunks + lanes - 1) / lanes);

    to.warps_r = row_warps < warps ? row_warps : warps;
    to.warps_c = floor_power(warps / to.warps_r);
    to.warps_c = to.warps_c < col_warps ? to.warps_c : col_warps;
    to.col_regs = (chunks + lanes * to.warps_c - 1) / (lanes * to.warps_c);
    to.row_regs = (rows + to.lanes_r * to.warps_r - 1) / (to.lanes_r * to.warps_r);
    return to;
}

/* As many lanes along a row as it has chunks, if they divide it; else as many as leave a thread the
 * fewest of them: a row is rounded up then. */
static Spread
spread_chunks(int32_t rows, int32_t chunks, int32_t warps)
{
    int32_t most = floor_power(chunks < WARP_LANES ? chunks : WARP_LANES), divides = most;

    while (divides > 1 && chunks % divides != 0)
        divides /= 2;
    Spread best = spread_by(rows, chunks, divides, warps);
    for (int32_t lanes = most; lanes > divides; lanes /= 2) {
        Spread other = spread_by(rows, chunks, lanes, warps);
        if (other.col_regs * other.row_regs < best.col_regs * best.row_regs)
            best = other;
    }
    return best;
}

const Layout *
layout_blocked(Arena *arena, TirType type, int32_t vec, uint32_t warps)
{
    Layout *layout = arena_new(arena, Layout);
    int32_t w = (int32_t)warps;

    layout->rank = type.rank;
    if (type.rank == 0)
        return layout;
    if (type.rank == 1) {
        int32_t n = type.dim[0];
        while (vec > 1 && vec * WARP_LANES * w > n * 2 - 1 && vec * WARP_LANES > n)
            vec /= 2; /* short vectors: use more lanes before wider accesses */
        int32_t per_warp = vec * WARP_LANES;
        int32_t active = (n + per_warp - 1) / per_warp; /* warps that have something to hold */
        int32_t used = floor_power(active < w ? active : w);
        int32_t all = round_up(n, per_warp * used);
        layout->shape[0] = all;
        add_digit(&layout->reg, vec, 1, 0);
        add_digit(&layout->reg, all / (per_warp * used), per_warp * used, 0);
        add_digit(&layout->lane, WARP_LANES, vec, 0);
        add_digit(&layout->warp, used, per_warp, 0);
        add_digit(&layout->warp, w / used, 0, 0);
        return layout;
    }
    int32_t rows = type.dim[0], cols = type.dim[1];
    while (vec > 1 && cols % vec != 0)
        vec /= 2;
    Spread to = spread_chunks(rows, cols / vec, w);
    int32_t used = to.warps_r * to.warps_c, all_rows = to.lanes_r * to.warps_r * to.row_regs;
    layout->shape[0] = all_rows;
    layout->shape[1] = vec * to.lanes_c * to.warps_c * to.col_regs;
    add_digit(&layout->reg, vec, 0, 1);
    add_digit(&layout->reg, to.col_regs, 0, vec * to.lanes_c * to.warps_c);
    add_digit(&layout->reg, to.row_regs, to.lanes_r, 0);
    add_digit(&layout->lane, to.lanes_c, 0, vec);
    add_digit(&layout->lane, to.lanes_r, 1, 0);
    add_digit(&layout->warp, to.warps_c, 0, vec * to.lanes_c);
    add_digit(&layout->warp, to.warps_r, all_rows / to.warps_r, 0);
    add_digit(&layout->warp, w / used, 0, 0);
    return layout;
}

const Layout *
layout_replicated(Arena *arena, TirType type, uint32_t warps)
{
    Layout *layout = arena_new(arena, Layout);
    layout->rank = type.rank;
    for (uint32_t axis = 0; axis < type.rank; axis++)
        layout->shape[axis] = type.dim[axis];
    if (type.rank == 2)
        add_digit(&layout->reg, type.dim[1], 0, 1);
    if (type.rank >= 1)
        add_digit(&layout->reg, type.dim[0], 1, 0);
    add_digit(&layout->lane, WARP_LANES, 0, 0);
    add_digit(&layout->warp, (int32_t)warps, 0, 0);
    return layout;
}

static void
transpose_digits(DigitList *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        int32_t step = list->at[i].step[0];
        list->at[i].step[0] = list->at[i].step[1];
        list->at[i].step[1] = step;
    }
}

const Layout *
layout_transpose(Arena *arena, const Layout *layout)
{
    Layout *result = arena_copy(arena, layout, sizeof *layout);
    result->shape[0] = layout->shape[1];
    result->shape[1] = layout->shape[0];
    transpose_digits(&result->reg);
    transpose_digits(&result->lane);
    transpose_digits(&result->warp);
    return result;
}

const Layout *
layout_slice(Arena *arena, const Layout *layout, uint32_t axis)
{
    Layout *result = arena_new(arena, Layout);
    uint32_t keep = 1 - axis;

    result->rank = layout->rank - 1;
    if (layout->rank == 2)
        result->shape[0] = layout->shape[keep];
    else
        keep = 1; /* rank 1: nothing is left */
    for (uint32_t i = 0; i < layout->reg.n; i++) {
        if (layout->rank == 2 && layout->reg.at[i].step[keep] != 0)
            add_digit(&result->reg, layout->reg.at[i].extent, layout->reg.at[i].step[keep], 0);
    }
    for (uint32_t i = 0; i < layout->lane.n; i++)
        add_digit(&result->lane, layout->lane.at[i].extent,
                  layout->rank == 2 ? layout->lane.at[i].step[keep] : 0, 0);
    for (uint32_t i = 0; i < layout->warp.n; i++)
        add_digit(&result->warp, layout->warp.at[i].extent,
                  layout->rank == 2 ? layout->warp.at[i].step[keep] : 0, 0);
    return result;
}

const Layout *
layout_expand(Arena *arena, const Layout *layout, uint32_t axis)
{
    Layout *result = arena_copy(arena, layout, sizeof *layout);
    result->rank = layout->rank + 1;
    if (axis == 0) {
        result->shape[1] = layout->shape[0];
        result->shape[0] = 1;
        transpose_digits(&result->reg);
        transpose_digits(&result->lane);
        transpose_digits(&result->warp);
    } else {
        result->shape[1] = 1;
    }
    return result;
}

const Layout *
layout_collapse(Arena *arena, const Layout *layout, TirType shape)
{
    Layout *result = arena_new(arena, Layout);
    const DigitList *from[] = {&layout->reg, &layout->lane, &layout->warp};
    DigitList *to[] = {&result->reg, &result->lane, &result->warp};
    bool live[LAYOUT_RANK] = {false, false};

    result->rank = layout->rank;
    for (uint32_t axis = 0; axis < layout->rank; axis++) {
        live[axis] = shape.dim[axis] != 1;
        result->shape[axis] = live[axis] ? layout->shape[axis] : 1;
    }
    for (uint32_t part = 0; part < 3; part++) {
        for (uint32_t i = 0; i < from[part]->n; i++) {
            const LayoutDigit *digit = &from[part]->at[i];
            int32_t step0 = live[0] ? digit->step[0] : 0, step1 = live[1] ? digit->step[1] : 0;
            if (step0 != 0 || step1 != 0 || part > 0)
                add_digit(to[part], digit->extent, step0, step1);
        }
    }
    return result;
}

/* Whether a thread's first register is at the same place of the live axes in both. */
static bool
agree_on(const bool live[LAYOUT_RANK], const Layout *from, const Layout *to, int32_t lane,
         int32_t warp)
{
    int32_t a[LAYOUT_RANK], b[LAYOUT_RANK];
    bool agree = true;

    layout_coordinates(from, 0, lane, warp, a);
    layout_coordinates(to, 0, lane, warp, b);
    for (uint32_t axis = 0; axis < LAYOUT_RANK; axis++)
        agree = agree && (!live[axis] || a[axis] == b[axis]);
    return agree;
}

/* Axes along which two layouts may differ. */
static void
find_live(const Layout *from, const Layout *to, bool live[LAYOUT_RANK])
{
    for (uint32_t axis = 0; axis < LAYOUT_RANK; axis++)
        live[axis] = axis < to->rank && axis < from->rank && from->shape[axis] > 1;
}

bool
layout_warps_agree(const Layout *from, const Layout *to)
{
    int32_t warps = layout_warps(to);
    bool live[LAYOUT_RANK];

    find_live(from, to, live);
    for (int32_t warp = 1; warp < warps; warp++)
        if (!agree_on(live, from, to, 0, warp))
            return false;
    return true;
}

const int32_t *
layout_register_map(Arena *arena, const Layout *from, const Layout *to)
{
    int32_t n = layout_registers(to), m = layout_registers(from), warps = layout_warps(to);
    int32_t *map = arena_array(arena, int32_t, n > 0 ? n : 1);
    bool live[LAYOUT_RANK];

    if (layout_warps(from) != warps && from->rank > 0)
        return NULL;
    find_live(from, to, live);
    /* The lane and warp parts must agree on every live axis: layouts are linear in the digits, so
     * it is enough to compare powers of two of the lane, and each warp. */
    for (int32_t lane = 1; lane < WARP_LANES; lane *= 2) {
        if (!agree_on(live, from, to, lane, 0))
            return NULL;
    }
    if (!layout_warps_agree(from, to))
        return NULL;
    ArenaMark begin = arena_mark(arena);
    const Place *wants = list_places(arena, &to->reg), *has = list_places(arena, &from->reg);
    int32_t guess = 0, r = 0, k = 0;
    for (; r < n && k < m; r++) {
        for (k = 0; k < m; k++) {
            const Place *have = &has[(guess + k) % m], *want = &wants[r];
            if ((!live[0] | (have->at[0] == want->at[0])) &
                (!live[1] | (have->at[1] == want->at[1])))
                break;
        }
        map[r] = (guess + k) % m;
        guess = map[r] + 1;
    }
    arena_rewind(arena, begin);
    return k < m || n == 0 ? map : NULL;
}

/* The least and the largest coordinate of a thread's registers along an axis, when its first one is
 * at 0. */
static void
register_span(const Layout *layout, uint32_t axis, int32_t *lo, int32_t *hi)
{
    *lo = *hi = 0;
    for (uint32_t i = 0; i < layout->reg.n; i++) {
        int32_t most = (layout->reg.at[i].extent - 1) * layout->reg.at[i].step[axis];
        *lo += most < 0 ? most : 0;
        *hi += most > 0 ? most : 0;
    }
}

/* The extent along `axis` of what one warp holds, and its origin, when it is a box. */
bool
layout_warp_local(const Layout *from, const Layout *to)
{
    int32_t warps = layout_warps(to);

    if (from->rank != to->rank || layout_warps(from) != warps)
        return false;
    const Layout *sides[] = {from, to};
    int32_t lo[2][LAYOUT_RANK], hi[2][LAYOUT_RANK];
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t axis = 0; axis < LAYOUT_RANK; axis++)
            register_span(sides[side], axis, &lo[side][axis], &hi[side][axis]);
    for (int32_t warp = 0; warp < warps; warp++) {
        int32_t first[2][LAYOUT_RANK], last[2][LAYOUT_RANK]; /* of the first and the last lane */
        for (uint32_t side = 0; side < 2; side++) {
            layout_coordinates(sides[side], 0, 0, warp, first[side]);
            layout_coordinates(sides[side], 0, WARP_LANES - 1, warp, last[side]);
        }
        for (uint32_t axis = 0; axis < from->rank; axis++) {
            int32_t least[2], most[2];
            for (uint32_t side = 0; side < 2; side++) {
                int32_t a = first[side][axis], b = last[side][axis];
                least[side] = lo[side][axis] + (a < b ? a : b);
                most[side] = hi[side][axis] + (a < b ? b : a);
            }
            if ((least[0] != least[1]) | (most[0] != most[1]))
                return false;
        }
    }
    return true;
}

uint32_t
layout_copy_lanes(const Layout *layout)
{
    uint32_t mask = 0, bit = 0;
    for (uint32_t i = 0; i < layout->lane.n; i++) {
        const LayoutDigit *digit = &layout->lane.at[i];
        for (int32_t e = 1; e < digit->extent; e *= 2, bit++) {
            if (digit->step[0] == 0 && digit->step[1] == 0)
                mask |= 1u << bit;
        }
    }
    for (; bit < 5; bit++)
        mask |= 1u << bit; /* lanes that no digit names hold copies */
    return mask;
}

bool
layout_copies_warps(const Layout *layout)
{
    for (uint32_t i = 0; i < layout->warp.n; i++) {
        if (layout->warp.at[i].step[0] == 0 && layout->warp.at[i].step[1] == 0)
            return true;
    }
    return false;
}

int32_t
shared_offset(const SharedLayout *layout, int32_t row, int32_t byte)
{
    int32_t atom_column = 0;

    if (layout->atom_columns) {
        atom_column = byte / layout->pitch * layout->rows * layout->pitch;
        byte %= layout->pitch;
    }
    int32_t chunk = byte / 16;
    chunk ^= (row >> layout->shift) & ((1 << layout->bits) - 1);
    return atom_column + row * layout->pitch + chunk * 16 + byte % 16;
}

void
shared_layout_print(const SharedLayout *layout, Buf *out)
{
    buf_printf(out, "{%dx%d pitch %d swizzle %d>>%d%s}", layout->rows, layout->cols, layout->pitch,
               layout->bits, layout->shift, layout->atom_columns ? " atom_columns" : "");
}

/* Whether accesses of a unit each all begin in other banks. */
static bool
banks_differ(const int32_t *at, uint32_t n, int32_t bytes, int32_t unit)
{
    uint32_t banks = 128 / (uint32_t)unit, taken = 0, differ = bytes <= unit;

    for (uint32_t lane = 0; lane < n; lane++) {
        uint32_t bank = (uint32_t)(at[lane] >= 0) << (uint32_t)at[lane] / (uint32_t)unit % banks;
        differ &= (taken & bank) == 0;
        taken |= bank;
    }
    return differ != 0;
}

int32_t
shared_conflicts(const int32_t *at, uint32_t n, int32_t bytes)
{
    /* Lanes are served in groups whose accesses add up to 128 bytes; inside a group, each pass
     * serves one 4-byte word of each of the 32 banks, and lanes on one word share it.  Accesses
     * that begin at multiples of their size meet in all of their banks or in none: then `unit`
     * is an access, else a word. */
    uint32_t group = bytes >= 16 ? 8 : bytes >= 8 ? 16 : 32;
    int32_t unit = bytes == 8 || bytes == 16 ? bytes : 4, extra = 0, bits = 0;

    for (uint32_t lane = 0; lane < n && unit > 4; lane++)
        bits |= at[lane] * (at[lane] >= 0); /* of all places; less than 0: nothing there */
    unit = bits % unit != 0 ? 4 : unit;
    int32_t banks = 128 / unit;
    for (uint32_t first = 0; first < n; first += group) {
        if (banks_differ(at + first, n - first < group ? n - first : group, bytes, unit))
            continue;
        int32_t units[32][32], depth[32] = {0}, passes = 1;
        for (uint32_t lane = first; lane < n && lane < first + group; lane++) {
            if (at[lane] < 0)
                continue;
            for (int32_t byte = 0; byte < bytes; byte += unit) {
                int32_t place = (at[lane] + byte) / unit, bank = place % banks, k = 0;
                while (k < depth[bank] && units[bank][k] != place)
                    k++;
                if (k == depth[bank] && k < 32)
                    units[bank][depth[bank]++] = place;
                if (depth[bank] > passes)
                    passes = depth[bank];
            }
        }
        extra += passes - 1;
    }
    return extra;
}
