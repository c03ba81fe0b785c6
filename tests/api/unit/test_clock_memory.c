/* test_clock_memory.c - what the simulator notes of accesses to global memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/sim/sim.h"

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
        cmocka_unit_test(test_noted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
