/* test_layout.c - register layouts: who holds what, maps between layouts, slices; bank
 * conflicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/ir/layout.h"
#include "compiler/passes/layout/layout_store.h"
#include "tests/api/unit/with_arena.h"

static TirType
tile(DType dtype, int32_t rows, int32_t cols)
{
    return (TirType){dtype, cols == 0 ? 1 : 2, {rows, cols}};
}

/* Every element of the physical tile is held, each by the same number of threads' registers. */
static void
covers(Arena *arena, const Layout *layout, int32_t rows, int32_t cols, uint32_t warps)
{
    int32_t height = layout->shape[0], width = layout->rank == 2 ? layout->shape[1] : 1;
    int32_t *count = arena_array(arena, int32_t, height * width);

    assert_int_equal(layout_warps(layout), warps);
    assert_true(height >= rows);
    assert_true(layout->rank < 2 || width >= cols);
    for (int32_t warp = 0; warp < (int32_t)warps; warp++) {
        for (int32_t lane = 0; lane < WARP_LANES; lane++) {
            for (int32_t r = 0; r < layout_registers(layout); r++) {
                int32_t at[LAYOUT_RANK];
                layout_coordinates(layout, r, lane, warp, at);
                assert_in_range(at[0], 0, height - 1);
                assert_in_range(at[1], 0, width - 1);
                count[at[0] * width + at[1]]++;
            }
        }
    }
    for (int32_t k = 1; k < height * width; k++)
        assert_int_equal(count[k], count[0]);
    assert_true(count[0] > 0);
}

static void
blocked_layouts_cover_tiles(void **state)
{
    static const int32_t sizes[] = {1, 3, 8, 16, 24, 32, 48, 64, 80, 96, 128, 192, 256};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };

    for (uint32_t warps = 1; warps <= 8; warps *= 2) {
        for (uint32_t i = 0; i < SIZES; i++) {
            covers(*state, layout_blocked(*state, tile(DT_F32, sizes[i], 0), 4, warps), sizes[i], 0,
                   warps);
            for (uint32_t k = 0; k < SIZES; k++) {
                TirType type = tile(DT_BF16, sizes[i], sizes[k]);
                covers(*state, layout_blocked(*state, type, 8, warps), sizes[i], sizes[k], warps);
            }
        }
    }
}

static void
product_layouts_cover_tiles(void **state)
{
    for (uint32_t m = 1; m <= 4; m *= 2) {
        for (uint32_t n = 1; m * n <= 8; n *= 2) {
            for (int32_t size = 8; size <= 136; size += 8) {
                covers(*state, layout_mma_c(*state, size, 72, m, n, 8), size, 72, 8);
                covers(*state, layout_mma_c(*state, 48, size, m, n, 8), 48, size, 8);
                for (int32_t word = 1; word <= 4; word *= 2) {
                    covers(*state, layout_mma_a(*state, size, 40, word, m, 8), size, 40, 8);
                    covers(*state, layout_mma_b(*state, 40, size, word, m, n, 8), 40, size, 8);
                }
            }
        }
    }
}

static void
group_layouts_cover_tiles(void **state)
{
    for (int32_t rows = 64; rows <= 256; rows += 64) {
        covers(*state, layout_group_c(*state, rows, 72), rows, 72, 4);
        for (int32_t word = 1; word <= 4; word *= 2)
            covers(*state, layout_group_a(*state, rows, 40, word), rows, 40, 4);
        /* a result is a left operand as it lies, whatever the number of blocks */
        assert_non_null(layout_register_map(*state, layout_group_c(*state, rows, 64),
                                            layout_group_a(*state, rows, 64, 2)));
    }
    assert_true(layout_eq(layout_group_c(*state, 64, 72), layout_mma_c(*state, 64, 72, 4, 1, 4)));
    assert_true(layout_eq(layout_group_a(*state, 64, 48, 2), layout_mma_a(*state, 64, 48, 2, 4, 4)));
    /* the second block begins behind the first one's registers, 64 rows further down */
    int32_t at[LAYOUT_RANK];
    layout_coordinates(layout_group_c(*state, 128, 32), 16, 5, 2, at);
    assert_int_equal(at[0], 64 + 2 * 16 + 1);
    assert_int_equal(at[1], 2);
}

/* PTX ISA, tcgen05.ld.32x32b: lane i of warp w has lane 32 w + i of tensor memory. */
static void
rows_lie_in_threads(void **state)
{
    int32_t at[LAYOUT_RANK];

    for (int32_t cols = 8; cols <= 256; cols += 8)
        covers(*state, layout_rows(*state, cols, 4), 128, cols, 4);
    const Layout *rows = layout_rows(*state, 96, 4);
    assert_int_equal(layout_registers(rows), 96);
    layout_coordinates(rows, 37, 5, 2, at);
    assert_int_equal(at[0], 64 + 5);
    assert_int_equal(at[1], 37);
    assert_int_equal(layout_registers(layout_slice(*state, rows, 1)), 1);
}

/* PTX ISA, mma.m16n8k8 of tf32, mma.m16n8k32 of 8-bit types: groupID = lane / 4, threadID = lane %
 * 4. */
static void
operands_of_other_widths(void **state)
{
    for (int32_t word = 1; word <= 4; word *= 4) {
        const Layout *a = layout_mma_a(*state, 16, 8 * word, word, 1, 1);
        const Layout *b = layout_mma_b(*state, 8 * word, 8, word, 1, 1, 1);
        assert_int_equal(layout_registers(a), 4 * word);
        assert_int_equal(layout_registers(b), 2 * word);
        for (int32_t lane = 0; lane < WARP_LANES; lane++) {
            int32_t group = lane / 4, thread = lane % 4, at[LAYOUT_RANK];
            for (int32_t i = 0; i < 4 * word; i++) {
                layout_coordinates(a, i, lane, 0, at);
                assert_int_equal(at[0], i / word % 2 == 0 ? group : group + 8);
                assert_int_equal(at[1], thread * word + i % word + (i < 2 * word ? 0 : 4 * word));
            }
            for (int32_t i = 0; i < 2 * word; i++) {
                layout_coordinates(b, i, lane, 0, at);
                assert_int_equal(at[0], thread * word + i % word + (i < word ? 0 : 4 * word));
                assert_int_equal(at[1], group);
            }
        }
    }
}

/* PTX ISA, mma.m16n8k16: groupID = lane / 4, threadID = lane % 4. */
static void
product_layouts_are_the_instructions(void **state)
{
    const Layout *c = layout_mma_c(*state, 16, 8, 1, 1, 1);
    const Layout *a = layout_mma_a(*state, 16, 16, 2, 1, 1);
    const Layout *b = layout_mma_b(*state, 16, 8, 2, 1, 1, 1);

    assert_int_equal(layout_registers(c), 4);
    assert_int_equal(layout_registers(a), 8);
    assert_int_equal(layout_registers(b), 4);
    for (int32_t lane = 0; lane < WARP_LANES; lane++) {
        int32_t group = lane / 4, thread = lane % 4, at[LAYOUT_RANK];
        for (int32_t i = 0; i < 4; i++) {
            layout_coordinates(c, i, lane, 0, at);
            assert_int_equal(at[0], i < 2 ? group : group + 8);
            assert_int_equal(at[1], thread * 2 + (i & 1));
            layout_coordinates(b, i, lane, 0, at);
            assert_int_equal(at[0], thread * 2 + (i & 1) + (i >= 2 ? 8 : 0));
            assert_int_equal(at[1], group);
        }
        for (int32_t i = 0; i < 8; i++) {
            layout_coordinates(a, i, lane, 0, at);
            assert_int_equal(at[0], (i >= 2 && i < 4) || i >= 6 ? group + 8 : group);
            assert_int_equal(at[1], thread * 2 + (i & 1) + (i >= 4 ? 8 : 0));
        }
    }
}

/* What the map says is true for every thread: the registers hold the same element. */
static void
map_holds(const Layout *from, const Layout *to, const int32_t *map, bool row, bool col)
{
    for (int32_t warp = 0; warp < layout_warps(to); warp++) {
        for (int32_t lane = 0; lane < WARP_LANES; lane++) {
            for (int32_t r = 0; r < layout_registers(to); r++) {
                int32_t here[LAYOUT_RANK], there[LAYOUT_RANK];
                layout_coordinates(to, r, lane, warp, here);
                layout_coordinates(from, map[r], lane, warp, there);
                assert_true(!row || here[0] == there[0]);
                assert_true(!col || here[1] == there[1]);
            }
        }
    }
}

static void
an_accumulator_is_an_operand(void **state)
{
    /* P of attention: the result of one product, the left operand of the next */
    const Layout *c = layout_mma_c(*state, 64, 64, 4, 1, 4);
    const Layout *a = layout_mma_a(*state, 64, 64, 2, 4, 4);
    const int32_t *map = layout_register_map(*state, c, a);

    assert_non_null(map);
    map_holds(c, a, map, true, true);
    /* not when warps divide the columns */
    assert_null(layout_register_map(*state, layout_mma_c(*state, 64, 64, 2, 2, 4),
                                    layout_mma_a(*state, 64, 64, 2, 2, 4)));
    /* not as the right operand of the same product; turned it is */
    assert_null(layout_register_map(*state, c, layout_mma_b(*state, 64, 64, 2, 1, 4, 4)));
    const Layout *turned = layout_transpose(*state, c);
    const Layout *b = layout_mma_b(*state, 64, 64, 2, 1, 4, 4);
    assert_int_equal(layout_eq(turned, b), false);
    assert_null(layout_register_map(*state, layout_blocked(*state, tile(DT_F32, 64, 64), 4, 4), c));
}

static void
a_row_spreads_over_its_tile(void **state)
{
    const Layout *c = layout_mma_c(*state, 64, 32, 4, 1, 4);

    for (uint32_t axis = 0; axis < 2; axis++) {
        const Layout *slice = layout_slice(*state, c, axis);
        const Layout *column = layout_expand(*state, slice, axis);
        assert_int_equal(slice->rank, 1);
        assert_int_equal(slice->shape[0], c->shape[1 - axis]);
        assert_int_equal(layout_registers(slice), axis == 1 ? 2 : 8);
        const int32_t *map = layout_register_map(*state, column, c);
        assert_non_null(map);
        map_holds(column, c, map, axis == 1, axis == 0);
        TirType flat = axis == 1 ? tile(DT_F32, 64, 1) : tile(DT_F32, 1, 32);
        assert_true(layout_eq(layout_collapse(*state, c, flat), column));
    }
    assert_int_equal(layout_slice(*state, layout_slice(*state, c, 0), 0)->rank, 0);
}

static void
copies_are_found(void **state)
{
    const Layout *c = layout_mma_c(*state, 64, 32, 4, 1, 4);

    assert_int_equal(layout_copy_lanes(c), 0);
    assert_false(layout_copies_warps(c));
    assert_int_equal(layout_copy_lanes(layout_slice(*state, c, 1)), 3);  /* rows: lane / 4 */
    assert_int_equal(layout_copy_lanes(layout_slice(*state, c, 0)), 28); /* columns: lane % 4 */
    assert_true(layout_copies_warps(layout_slice(*state, c, 0)));
    assert_false(layout_copies_warps(layout_slice(*state, c, 1)));
    assert_int_equal(layout_copy_lanes(layout_replicated(*state, tile(DT_F32, 4, 4), 4)), 31);
}

static void
transposes_turn_back(void **state)
{
    const Layout *blocked = layout_blocked(*state, tile(DT_F32, 48, 80), 4, 4);

    assert_true(layout_eq(layout_transpose(*state, layout_transpose(*state, blocked)), blocked));
    covers(*state, layout_transpose(*state, blocked), 80, 48, 4);
}

static void
an_exchange_moves_elements_of_no_copies(void **state)
{
    const Layout *a = layout_blocked(*state, tile(DT_F32, 64, 64), 4, 4);
    LaneMoves moves;

    for (uint32_t b = 0; b < 5; b++) {
        const Layout *there = layout_exchange(*state, a, b, 0, 0);
        if (there == NULL)
            continue;
        covers(*state, there, 64, 64, 4);
        assert_int_equal(layout_registers(there), layout_registers(a));
        assert_true(layout_find_moves(*state, a, there, 1, &moves) ||
                    layout_register_map(*state, a, there) != NULL);
    }
    const Layout *rows = layout_slice(*state, layout_mma_c(*state, 64, 32, 4, 1, 4), 1);
    assert_null(layout_exchange(*state, rows, 0, 0, 0)); /* lanes 0 and 1 hold the same row */
}

/* A sum of a warp group's as the left operand of its next product, of 8 bits: two shuffles and
 * other numbers of lanes. */
static void
words_of_bytes_change_lanes(void **state)
{
    const Layout *from = layout_group_c(*state, 64, 96), *to = layout_group_a(*state, 64, 96, 4);
    LaneMoves moves;

    assert_true(layout_find_moves(*state, from, to, 4, &moves));
    assert_true(moves.renumbered);
    const Layout *there = layout_exchange(*state, from, moves.lane_bit, moves.digit, moves.digit);
    for (int32_t lane = 0; lane < WARP_LANES; lane++) {
        int32_t before = 0;
        for (uint32_t k = 0; k < 5; k++)
            before |= (lane >> k & 1) << moves.lanes[k];
        for (int32_t r = 0; r < layout_registers(to); r++) {
            int32_t want[LAYOUT_RANK], have[LAYOUT_RANK];
            layout_coordinates(to, r, lane, 3, want);
            layout_coordinates(there, moves.map[r], before, 3, have);
            assert_memory_equal(want, have, sizeof want);
        }
    }
    /* through shared memory instead */
    assert_false(layout_find_moves(*state, from, to, 1, &moves));
    assert_false(layout_find_moves(*state, from, layout_transpose(*state, to), 4, &moves));
}

/* Exchanges until one instruction of a warp covers 32 neighbours of a row. */
static void
runs_get_longer(void **state)
{
    const Layout *c = layout_mma_c(*state, 64, 64, 4, 1, 4);
    const Layout *turned = layout_transpose(*state, c);
    const struct {
        const Layout *from;
        int32_t most, runs[6]; /* at first and after each exchange; 0: there is none */
    } cases[] = {
        {c, 1, {1, 8, 16, 32}},
        {c, 2, {8, 16, 32, 64}},
        {layout_widen(*state, c, 1), 4, {16, 32, 64}},
        {turned, 1, {8, 16, 0}},
        {turned, 4, {8, 16, 0}},
    };

    assert_int_equal(layout_own_run(c, 1, 4), 2);
    assert_int_equal(layout_own_run(c, 1, 1), 1);
    assert_int_equal(layout_own_run(turned, 1, 4), 1);
    for (uint32_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const Layout *layout = cases[k].from;
        for (const int32_t *run = cases[k].runs; *run > 0; run++) {
            assert_int_equal(layout_run(layout, 1, cases[k].most), *run);
            covers(*state, layout, 64, 64, 4);
            const Layout *next = layout_lengthen(*state, layout, 1, cases[k].most);
            LaneMoves moves;
            assert_true(next == NULL || layout_find_moves(*state, layout, next, 1, &moves));
            layout = next;
            if (layout == NULL)
                break;
        }
    }
}

static void
warps_keep_to_themselves(void **state)
{
    const Layout *c = layout_mma_c(*state, 64, 64, 4, 1, 4);

    assert_true(layout_warp_local(c, layout_blocked(*state, tile(DT_F32, 64, 64), 4, 4)));
    assert_false(layout_warp_local(c, layout_mma_c(*state, 64, 64, 2, 2, 4)));
    assert_false(layout_warp_local(c, layout_blocked(*state, tile(DT_F32, 64, 64), 4, 8)));
}

static void
conflicts_are_counted(void **state)
{
    int32_t at[WARP_LANES];

    (void)state;
    for (int32_t lane = 0; lane < WARP_LANES; lane++)
        at[lane] = lane * 4;
    assert_int_equal(shared_conflicts(at, WARP_LANES, 4), 0); /* 32 banks */
    for (int32_t lane = 0; lane < WARP_LANES; lane++)
        at[lane] = 64;
    assert_int_equal(shared_conflicts(at, WARP_LANES, 4), 0); /* one word for all */
    for (int32_t lane = 0; lane < WARP_LANES; lane++)
        at[lane] = lane * 128;
    assert_int_equal(shared_conflicts(at, WARP_LANES, 4), 31); /* one bank for all */
    for (int32_t lane = 0; lane < WARP_LANES; lane++)
        at[lane] = lane * 8;
    assert_int_equal(shared_conflicts(at, WARP_LANES, 4), 1); /* every other bank */
    for (int32_t lane = 0; lane < WARP_LANES; lane++)
        at[lane] = lane % 2 == 0 ? -1 : lane * 4;
    assert_int_equal(shared_conflicts(at, WARP_LANES, 4), 0); /* idle lanes do not count */
    for (int32_t lane = 0; lane < WARP_LANES; lane++)
        at[lane] = lane * 16;
    assert_int_equal(shared_conflicts(at, WARP_LANES, 16), 0); /* four groups of eight */
    for (int32_t row = 0; row < 8; row++)
        at[row] = row * 128;
    assert_int_equal(shared_conflicts(at, 8, 16), 7); /* ldmatrix down a column of 128-byte rows */
}

/* By words alone, whatever the size and place of an access. */
static int32_t
conflicts_by_words(const int32_t *at, int32_t lanes, int32_t bytes)
{
    int32_t group = bytes >= 16 ? 8 : bytes >= 8 ? 16 : 32, extra = 0;

    for (int32_t first = 0; first < lanes; first += group) {
        int32_t most = 1;
        for (int32_t bank = 0; bank < 32; bank++) {
            int32_t words[128], n = 0;
            for (int32_t k = 0; k < group * bytes; k += 4) {
                int32_t word = (at[first + k / bytes] + k % bytes) / 4, j = 0;
                while (j < n && words[j] != word)
                    j++;
                if (word % 32 == bank && j == n)
                    words[n++] = word;
            }
            most = n > most ? n : most;
        }
        extra += most - 1;
    }
    return extra;
}

static void
conflicts_of_wide_accesses(void **state)
{
    uint32_t random = 1;

    (void)state;
    for (int32_t round = 0; round < 3000; round++) {
        int32_t bytes = 4 << round % 3, at[WARP_LANES];
        int32_t align = round % 2 == 0 ? bytes : 4;
        for (int32_t lane = 0; lane < WARP_LANES; lane++) {
            random = random * 1664525 + 1013904223;
            at[lane] = (int32_t)(random >> 8) % 512 * align;
        }
        assert_int_equal(shared_conflicts(at, WARP_LANES, bytes),
                         conflicts_by_words(at, WARP_LANES, bytes));
    }
}

static void
the_store_makes_each_once(void **state)
{
    LayoutStore store = {.arena = *state, .warps = 4};
    const Layout *c = stored_mma_c(&store, 64, 32, 4, 1);
    const Layout *a = stored_mma_a(&store, 64, 32, 2, 4);
    const Layout *wide = stored_widen(&store, c, 1);

    assert_true(layout_eq(c, layout_mma_c(*state, 64, 32, 4, 1, 4)));
    assert_ptr_equal(c, stored_mma_c(&store, 64, 32, 4, 1));
    assert_ptr_not_equal(c, stored_mma_c(&store, 64, 32, 2, 2));
    assert_ptr_equal(c, a); /* made in another way, but the same */
    assert_ptr_equal(c, stored_transpose(&store, stored_transpose(&store, c)));
    assert_ptr_equal(stored_slice(&store, stored_expand(&store, stored_slice(&store, c, 1), 1), 1),
                     stored_slice(&store, c, 1));
    assert_true(stored_in_place(&store, c, a));
    assert_non_null(wide);
    assert_false(stored_in_place(&store, c, wide));
    assert_true(stored_one_exchange(&store, c, wide, DT_F32));
    assert_ptr_equal(wide, stored_widen(&store, a, 1));
    assert_false(stored_one_exchange(&store, c, stored_transpose(&store, c), DT_F32));
}

static void
the_swizzle_frees_a_column(void **state)
{
    SharedLayout plain = {64, 64, 128, 0, 0, false}, swizzled = {64, 64, 128, 3, 0, false};
    bool seen[64 * 128 / 16] = {false};

    (void)state;
    for (int32_t chunk = 0; chunk < 8; chunk++) {
        int32_t a[8], b[8];
        for (int32_t row = 0; row < 8; row++) {
            a[row] = shared_offset(&plain, row, chunk * 16);
            b[row] = shared_offset(&swizzled, row, chunk * 16);
        }
        assert_int_equal(shared_conflicts(a, 8, 16), 7);
        assert_int_equal(shared_conflicts(b, 8, 16), 0);
    }
    for (int32_t row = 0; row < 64; row++) { /* one to one, and bytes of a chunk stay together */
        for (int32_t chunk = 0; chunk < 8; chunk++) {
            int32_t place = shared_offset(&swizzled, row, chunk * 16);
            assert_int_equal(place % 16, 0);
            assert_int_equal(place / 128, row);
            assert_false(seen[place / 16]);
            seen[place / 16] = true;
            assert_int_equal(shared_offset(&swizzled, row, chunk * 16 + 5), place + 5);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocked_layouts_cover_tiles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(product_layouts_cover_tiles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(group_layouts_cover_tiles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_lie_in_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(product_layouts_are_the_instructions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(operands_of_other_widths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_accumulator_is_an_operand, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_row_spreads_over_its_tile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(transposes_turn_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_exchange_moves_elements_of_no_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(words_of_bytes_change_lanes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_get_longer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(warps_keep_to_themselves, set_up, tear_down),
        cmocka_unit_test(conflicts_are_counted),
        cmocka_unit_test(conflicts_of_wide_accesses),
        cmocka_unit_test_setup_teardown(the_store_makes_each_once, set_up, tear_down),
        cmocka_unit_test(the_swizzle_frees_a_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
