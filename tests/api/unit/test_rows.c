/* test_rows.c - launches of rows: the same clocks as an expression and as numbers; shapes of tiles
 * from two of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compiler/choose/row_ranks.h"
#include "compiler/cost/launch_terms.h"
#include "tests/api/unit/with_arena.h"

static const HostExpr *
size(Arena *arena, uint32_t index)
{
    HostExpr *e = arena_new(arena, HostExpr);

    *e = (HostExpr){.kind = HOST_SIZE, .index = index};
    return e;
}

/* Rows of tiles of m x n of a matrix of two sizes: each row's tiles in a loop, one store. */
static RowTerms
terms_of(Arena *arena, int64_t m, int64_t n)
{
    const HostExpr *rows = size(arena, 0), *columns = size(arena, 1);
    RowTerms terms = {.tiles = host_binary(arena, HOST_CDIV, rows, host_int(arena, m)),
                      .trips = host_binary(arena, HOST_CDIV, columns, host_int(arena, n))};
    const HostExpr *elements = host_binary(arena, HOST_MUL, rows, columns);

    vec_push(arena, &terms.accesses, ((RowAccess){elements, 16, host_int(arena, n)}));
    vec_push(arena, &terms.accesses, ((RowAccess){rows, 32, host_int(arena, m)}));
    vec_push(arena, &terms.accesses, ((RowAccess){elements, 32, host_int(arena, n)}));
    return terms;
}

static RowSamples
samples_of(Arena *arena)
{
    static const int64_t some[][2] = {{1, 1}, {16, 1000}, {300, 128256}, {16384, 4096}};
    RowSamples samples = {.n = sizeof some / sizeof some[0], .own = 2};

    samples.sizes = arena_array(arena, int64_t, samples.n * (samples.own + MAX_AUTO));
    for (uint32_t k = 0; k < samples.n; k++) {
        row_sample(&samples, k)[0] = some[k][0];
        row_sample(&samples, k)[1] = some[k][1];
    }
    return samples;
}

static const RowThreads threads[] = {{0, 16}, {20, 10}, {493.25, 4}, {12000, 1}};
enum { THREADS = sizeof threads / sizeof threads[0] };

static void
numbers_are_the_expression(void **state)
{
    Arena *arena = *state;
    const Target *target = target_find("sm_90");
    const Device device = target_device(target);
    RowSamples samples = samples_of(arena);

    for (int32_t m = 1; m <= 4096; m *= 4) {
        RowTerms terms = terms_of(arena, m, 4096 / m);
        for (uint32_t k = 0; k < THREADS; k++) {
            const HostExpr *launch = launch_cost_of_rows(arena, target, &terms, threads[k].lanes,
                                                         threads[k].blocks);
            for (uint32_t i = 0; i < samples.n; i++) {
                RowSamples one = {row_sample(&samples, i), 1, samples.own};
                RowRanks ranks = row_ranks_of(arena, target, &one, &terms);
                double clocks = row_ranks_clocks(&ranks, (int32_t[RANKED_AUTOS]){0}, &threads[k]);
                double expected = (double)trips_evaluate(launch, one.sizes, &device);
                assert_true(clocks > 0.999999 * expected && clocks < 1.000001 * expected);
            }
        }
    }
}

/* Of two shapes all others follow. */
static void
shapes_follow_from_two(void **state)
{
    Arena *arena = *state;
    const Target *target = target_find("sm_80");
    RowSamples samples = samples_of(arena);
    RowTerms first = terms_of(arena, RANKS_FIRST, RANKS_FIRST),
             second = terms_of(arena, ranks_second[0], ranks_second[1]), all;

    assert_true(row_ranks_fit(arena, samples.own, 2, &first, &second, &all));
    RowRanks of_all = row_ranks_of(arena, target, &samples, &all);
    for (int32_t m = 1; m <= 8192; m *= 4) {
        int32_t values[RANKED_AUTOS] = {m, 8192 / m};
        RowTerms terms = terms_of(arena, values[0], values[1]);
        RowRanks of_one = row_ranks_of(arena, target, &samples, &terms);
        for (uint32_t k = 0; k < THREADS; k++)
            assert_true(row_ranks_clocks(&of_all, values, &threads[k]) ==
                        row_ranks_clocks(&of_one, values, &threads[k]));
        assert_true(row_ranks_clocks(&of_all, values, NULL) <=
                    row_ranks_clocks(&of_all, values, &threads[0]));
    }
}

/* Tiles of a grid that has `a` with the first values and `b` with the second, with m and n; -1:
 * they can't be told. */
static int64_t
fitted(Arena *arena, int64_t a, int64_t b, int64_t m, int64_t n)
{
    RowTerms first = {host_int(arena, a), host_int(arena, 1), {0}},
             second = {host_int(arena, b), host_int(arena, 1), {0}}, all;

    return row_ranks_fit(arena, 0, 2, &first, &second, &all)
               ? trips_evaluate(all.tiles, (int64_t[]){m, n}, NULL)
               : -1;
}

static void
numbers_tell_their_product(void **state)
{
    Arena *arena = *state;

    assert_int_equal(fitted(arena, 96, 96, 8, 2), 96);
    assert_int_equal(fitted(arena, 64, 32, 8, 2), 8);
    assert_int_equal(fitted(arena, 64, 16, 8, 2), 2);
    assert_int_equal(fitted(arena, 3 * 64, 3 * 16, 8, 2), 6);
    assert_int_equal(fitted(arena, 64 * 64, 32 * 16, 8, 2), 16);
    assert_int_equal(fitted(arena, 63, 31, 8, 2), 7);
    assert_int_equal(fitted(arena, 64 * 64 - 1, 32 * 16 - 1, 8, 2), 15);
    assert_int_equal(fitted(arena, 16, 32, 8, 2), -1); /* 1000 in tiles */
    assert_int_equal(fitted(arena, 32, 16, 8, 2), -1); /* half of one */
    assert_int_equal(fitted(arena, 65, 33, 8, 2), -1); /* one more */
    assert_int_equal(fitted(arena, 64, 0, 8, 2), -1);
    assert_int_equal(fitted(arena, -64, -32, 8, 2), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_are_the_expression, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shapes_follow_from_two, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_tell_their_product, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
