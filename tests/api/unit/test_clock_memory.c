/* test_clock_memory.c - which accesses the clock takes for misses of the L2 cache, and what the
 * simulator notes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/clock/clock.h"
#include "with_arena.h"

enum { SMS = 132, MOST = 1 << 16 };

/* One warp of one SM, an event a line. */
typedef struct Launch {
    SimTouch touches[MOST];
    SimArea areas[2];
    SimTracedWarp warp;
    SimTracedCluster cluster;
    SimTrace trace;
} Launch;

/* `from`: its first line; it goes through `bytes` of an area. */
static void
walk(Launch *l, uint32_t area, uint64_t from, size_t bytes, uint8_t sectors, bool writes)
{
    for (size_t k = 0; k < bytes / SIM_LINE_BYTES; k++) {
        size_t n = l->cluster.touch_count++;
        assert_true(n < MOST);
        l->touches[n] = (SimTouch){
            .line = l->areas[area].address / SIM_LINE_BYTES + from + k,
            .event = (uint32_t)n,
            .area = area,
            .sectors = sectors,
            .bytes = (uint8_t)(SIM_SECTOR_BYTES * __builtin_popcount(sectors)),
            .writes = writes};
    }
}

/* Two tensors of so many bytes. */
static Launch *
launch(Arena *arena, uint64_t first, uint64_t second)
{
    Launch *l = arena_new(arena, Launch);

    memset(l, 0, sizeof *l);
    l->areas[0] = (SimArea){1 << 20, first};
    l->areas[1] = (SimArea){UINT64_C(1) << 40, second};
    l->cluster = (SimTracedCluster){.warps = &l->warp,
                                    .warp_count = 1,
                                    .touches = l->touches,
                                    .areas = l->areas,
                                    .area_count = 2};
    l->trace = (SimTrace){&l->cluster, 1};
    return l;
}

/* As a replay does: every event is issued, in order. */
static ClockMemory *
find_in(Arena *arena, Launch *l, bool cold)
{
    ClockFact rows[CLOCK_ROWS] = {[CLOCK_L2_HELD] = {.value = 40e6},
                                  [CLOCK_L2_LOST] = {.value = 40e6},
                                  [CLOCK_STORE_MERGE] = {.value = 7}};
    ClockMemory *memory = clock_memory(arena, &l->trace, SMS);

    assert_non_null(memory);
    memory->cold = cold;
    for (uint32_t k = 0; k < memory->warps[0][0].n; k++)
        memory->warps[0][0].at[k].at = k;
    if (clock_memory_wants_order(memory, rows))
        clock_memory_find(memory, rows);
    return memory;
}

static ClockMemory *
find(Arena *arena, Launch *l)
{
    return find_in(arena, l, false);
}

/* What the cache holds is there when the launch comes again; what it does not is not, though each
 * line is touched once. */
static void
test_held(void **state)
{
    Arena *arena = *state;

    for (uint32_t megabytes = 20; megabytes <= 60; megabytes += 20) {
        Launch *l = launch(arena, megabytes * UINT64_C(1000000), 0);
        size_t own = megabytes * 1000000 / SMS / SIM_LINE_BYTES * SIM_LINE_BYTES;
        walk(l, 0, 0, own, 15, false);
        ClockMemory *m = find(arena, l);
        assert_true(m->launch > 0.99e6 * megabytes && m->launch < 1.01e6 * megabytes);
        assert_true(m->bytes == (double)own);
        assert_true(m->read == (megabytes > 40 ? (double)own : 0));
        assert_true(m->written == 0);
        assert_true(clock_missed(m, 0, 0, 7)->read == (megabytes > 40 ? 128 : 0));
        assert_null(clock_missed(m, 0, 0, (uint32_t)l->cluster.touch_count));
    }
}

/* Again: soon after, it is there; when all SMs have touched more than the cache holds since, it is
 * not. */
static void
test_distance(void **state)
{
    Arena *arena = *state;
    size_t piece = 128 << 10; /* of each SM, 17.3 MB of all */

    Launch *l = launch(arena, 4 * SMS * piece, 0);
    for (uint32_t k = 0; k < 4; k++) {
        walk(l, 0, k * piece / SIM_LINE_BYTES, piece, 15, false);
        walk(l, 0, k * piece / SIM_LINE_BYTES, piece, 15, false);
    }
    assert_true(find(arena, l)->read == 4.0 * (double)piece);
    l = launch(arena, 4 * SMS * piece, 0);
    for (uint32_t k = 0; k < 2; k++)
        walk(l, 0, 0, 4 * piece, 15, false);
    assert_true(find(arena, l)->read == 8.0 * (double)piece);
}

/* A tensor that all SMs read whole: each misses its share. */
static void
test_shared(void **state)
{
    Arena *arena = *state;
    size_t piece = 1 << 20;
    Launch *l = launch(arena, piece, 66 * piece);

    walk(l, 0, 0, piece, 15, false);
    walk(l, 1, 0, piece / 2, 15, false);
    ClockMemory *m = find(arena, l);
    assert_true(m->launch > 66.9 * (double)piece && m->launch < 67.1 * (double)piece);
    double share = (double)piece / SMS + (double)piece / 2;
    assert_true(m->read > share - SIM_LINE_BYTES && m->read < share + SIM_LINE_BYTES);
    assert_true(clock_missed(m, 0, 0, 0)->own < 1);
    assert_true(clock_missed(m, 0, 0, (uint32_t)(piece / SIM_LINE_BYTES))->own == 128);
}

/* Rows of 192 bytes, of which every other one is this SM's: its neighbours want the other half of a
 * line, and none of its sectors. */
static void
test_halves(void **state)
{
    Arena *arena = *state;
    const size_t rows = 2048;
    Launch *l = launch(arena, SMS * 192 * rows, 0);

    for (size_t row = 0; row < rows; row++) {
        walk(l, 0, 3 * row, SIM_LINE_BYTES, row % 2 ? 12 : 15, false);
        walk(l, 0, 3 * row + 1, SIM_LINE_BYTES, row % 2 ? 15 : 3, false);
    }
    ClockMemory *m = find(arena, l);
    assert_true(m->launch > 0.99 * SMS * 192 * (double)rows);
    assert_true(m->read == 192.0 * (double)rows);
    assert_true(clock_missed(m, 0, 0, 0)->own == 128);
}

/* A cold cache: what is touched first comes from memory, what all SMs touch of one of them, and
 * nothing twice. */
static void
test_cold(void **state)
{
    Arena *arena = *state;
    size_t piece = 64 << 10;
    Launch *l = launch(arena, 128 * piece, SMS * piece);

    walk(l, 0, 0, 128 * piece / 32, 15, false); /* as each other SM does */
    walk(l, 0, 0, 128 * piece / 32, 15, false);
    walk(l, 1, 0, piece, 15, true);
    walk(l, 1, 0, piece, 15, false);
    assert_true(find(arena, l)->read == 0);
    ClockMemory *m = find_in(arena, l, true);
    double own = 128.0 * (double)piece / SMS;
    assert_true(m->read > own - SIM_LINE_BYTES && m->read < own + SIM_LINE_BYTES);
    double came = own +
                  (double)piece; /* for which others' lines go; what the launch writes stays */
    assert_true(m->written > came - SIM_LINE_BYTES && m->written < came + SIM_LINE_BYTES);
}

/* .. but for what the cache does not hold until the end. */
static void
test_cold_written(void **state)
{
    Arena *arena = *state;
    size_t piece = 512 << 10; /* 69 MB of all SMs, of which 40 stay */
    Launch *l = launch(arena, SMS * piece, 0);

    walk(l, 0, 0, piece, 15, true);
    ClockMemory *m = find_in(arena, l, true);
    assert_true(m->read == 0);
    assert_true(m->written > 0.99 * (double)piece && m->written < 1.01 * (double)piece);
    assert_true(clock_missed(m, 0, 0, 0)->written ==
                2 * SIM_LINE_BYTES); /* another's, and its own */
    assert_true(clock_missed(m, 0, 0, (uint32_t)(piece / SIM_LINE_BYTES) - 1)->written == 0);
}

/* Half lines; what is written is written back once, however often it was written, where it was
 * last. */
static void
test_written(void **state)
{
    Arena *arena = *state;
    size_t piece = 256 << 10;
    uint32_t lines = (uint32_t)(piece / SIM_LINE_BYTES);
    Launch *l = launch(arena, SMS * piece, SMS * piece);

    walk(l, 0, 0, piece, 3, false);
    walk(l, 0, 0, piece, 12, false); /* the other half: the line is there, its sectors are not */
    walk(l, 1, 0, piece, 15, true);
    walk(l, 1, 0, piece, 15, true);
    ClockMemory *m = find(arena, l);
    assert_true(m->read == (double)piece);
    assert_true(m->written == (double)piece);
    assert_true(clock_missed(m, 0, 0, lines)->read == 64);
    assert_true(clock_missed(m, 0, 0, 2 * lines)->written == 0);
    assert_true(clock_missed(m, 0, 0, 3 * lines)->written == 128);
}

/* Stores of parts of a sector: four of a scheduler that follow on one another are one, eight are
 * not, nor are four that others of its stores come between. */
static void
test_parts(void **state)
{
    static const struct {
        uint32_t stores, between;
        double whole, parts;
    } cases[] = {{4, 0, 32, 0}, {8, 0, 0, 8 * 32}, {4, 2, 0, 4 * 32}, {1, 0, 0, 32}};

    for (uint32_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        Launch *l = launch(*state, 1 << 20, 1 << 20);
        double whole = 0, parts = 0;
        for (uint32_t s = 0; s < cases[k].stores; s++) {
            walk(l, 0, 0, SIM_LINE_BYTES, 1, true);
            l->touches[l->cluster.touch_count - 1].bytes =
                (uint8_t)(SIM_SECTOR_BYTES / (cases[k].stores > 1 ? cases[k].stores : 4));
            walk(l, 1, 2 * s, cases[k].between * SIM_LINE_BYTES, 15, true);
        }
        ClockMemory *m = find(*state, l);
        assert_true(m->in_parts);
        for (uint32_t e = 0; e < m->warps[0][0].n; e++) {
            whole += (double)m->warps[0][0].at[e].whole;
            parts += (double)m->warps[0][0].at[e].parts;
        }
        assert_true(whole == cases[k].whole + 128.0 * cases[k].between * cases[k].stores);
        assert_true(parts == cases[k].parts);
    }
}

/* ---- what the simulator notes ---- */

static const char kernel[] =
    ".version 8.6\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .u64 p)\n{\n"
    "    .reg .b64 %d<4>; .reg .b32 %r<8>; .reg .pred %q; .shared .align 128 .b8 s[256];\n"
    "    ld.param.u64 %d0, [p];\n"
    "    mov.u32 %r0, %tid.x;\n"
    "    mul.wide.u32 %d1, %r0, 16;\n"
    "    add.u64 %d1, %d0, %d1;\n"
    "    ld.global.u32 %r1, [%d1+4];\n"   /* 16 sectors, of four lines */
    "    st.global.u32 [%d0+640], %r1;\n" /* one */
    "    mov.u32 %r2, s;\n"
    "    setp.eq.u32 %q, %r0, 0;\n"
    "    @%q cp.async.bulk.global.shared::cta.bulk_group [%d0+64], [%r2], 256;\n"
    "    @%q cp.async.bulk.commit_group;\n"
    "    @%q cp.async.bulk.wait_group 0;\n"
    "    ret;\n}\n";

static void
test_noted(void **state)
{
    SimDevice *device = sim_device_new();
    SimError error;
    SimModule *module = sim_module_load(device, kernel, strlen(kernel), "k.ptx", &error);
    uint64_t data = sim_alloc(device, 1000, "p");
    void *args[] = {&data};
    SimLaunch launch = sim_launch_defaults();

    (void)state;
    assert_non_null(module);
    assert_true(sim_fill(device, data, 0, 1000));
    launch.block[0] = 32;
    launch.block[1] = launch.block[2] = 1;
    launch.args = args;
    launch.arg_count = 1;
    launch.trace_every = 1;
    launch.checks = false;
    SimReport *report = sim_launch(module, &launch);
    const SimTracedCluster *c = &report->trace->clusters[0];
    static const struct {
        uint64_t line;
        uint8_t sectors;
        bool writes;
    } want[] = {{0, 15, false}, {1, 15, false}, {2, 15, false}, {3, 15, false},
                {5, 1, true},   {0, 12, true},  {1, 15, true},  {2, 3, true}};
    assert_int_equal(c->touch_count, sizeof want / sizeof want[0]);
    assert_int_equal(c->area_count, 1);
    assert_int_equal(c->areas[0].bytes, 1000);
    for (size_t k = 0; k < c->touch_count; k++) {
        const SimTouch *t = &c->touches[k];
        SimInsnView v;
        assert_int_equal(t->line, data / SIM_LINE_BYTES + want[k].line);
        assert_int_equal(t->sectors, want[k].sectors);
        assert_int_equal(t->writes, want[k].writes);
        if (k < 4) /* 8 lanes of 4 bytes */
            assert_int_equal(t->bytes, 32);
        assert_true(sim_insn_at(module, c->warps[0].events[t->event].insn, &v));
        assert_int_equal(strncmp(v.mnemonic,
                                 k < 4    ? "ld.global"
                                 : k == 4 ? "st.global"
                                          : "cp.async.bulk",
                                 9),
                         0);
    }
    sim_report_free(report);
    sim_module_free(module);
    sim_device_free(device);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_distance, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_halves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cold_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parts, set_up, tear_down),
        cmocka_unit_test(test_noted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
