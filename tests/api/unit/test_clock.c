/* test_clock.c - the clock's reader of machine code.
 *
 * usage: test_clock FOLDER     the folder of the examples; a recorded listing lies in
 *                              ../tests/after/recorded beside it
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/clock/clock.h"
#include "backends/clock/clock_anchor.h"

typedef struct World {
    Arena arena;
    jmp_buf on_failure;
    const char *folder;
} World;

/* `%s` is the kernel's target; straight on, so that tokens are as many as here. */
static const char kernel[] =
    ".version 8.6\n.target %s\n.address_size 64\n"
    ".visible .entry small(.param .u64 p)\n{\n"
    "    .reg .b64 %%d<4>, %%state; .reg .b32 %%r<8>; .reg .f32 %%f<8>; .reg .pred %%q;\n"
    "    .shared .align 8 .b64 bar;\n"
    "    ld.param.u64 %%d0, [p];\n"
    "    mov.u32 %%r0, %%tid.x;\n"
    "    mul.wide.u32 %%d1, %%r0, 4;\n"
    "    add.u64 %%d1, %%d0, %%d1;\n"
    "    ld.global.f32 %%f0, [%%d1];\n"
    "    bar.sync 0;\n"
    "    ex2.approx.ftz.f32 %%f1, %%f0;\n"
    "    fma.rn.f32 %%f2, %%f1, %%f1, %%f0;\n"
    "    bar.sync 1, 64;\n"
    "    mbarrier.arrive.shared::cta.b64 %%state, [bar];\n"
    "    st.global.f32 [%%d1], %%f2;\n"
    "    ret;\n}\n";

static char *
read_file(World *w, const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = arena_alloc(&w->arena, 1 << 18);

    assert_non_null(file);
    size_t n = fread(text, 1, (1 << 18) - 1, file);
    assert_true(n < (1 << 18) - 1);
    text[n] = '\0';
    fclose(file);
    return text;
}

static const CodeInsn *
insn_named(const CodeKernel *k, const char *name)
{
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (strncmp(k->insns.at[i].name, name, strlen(name)) == 0)
            return &k->insns.at[i];
    }
    return NULL;
}

static void
test_control_bits(void **state)
{
    CodeControl c = code_control(UINT64_C(0x001fd80000000007));

    (void)state;
    assert_int_equal(c.stall, 12);
    assert_int_equal(c.wait, 1);
    assert_int_equal(c.write, NO_SCOREBOARD);
    assert_int_equal(c.read, NO_SCOREBOARD);
    assert_int_equal(c.reuse, 0);
    assert_true(c.yield);
    c = code_control(UINT64_C(0x000e220000002100));
    assert_int_equal(c.stall, 1);
    assert_int_equal(c.write, 0);
    assert_false(c.yield);
    c = code_control(UINT64_C(0x102fe40000011600)); /* R0.reuse */
    assert_int_equal(c.reuse, 4);
    assert_int_equal(c.wait, 2);
}

static void
test_recorded(void **state)
{
    World *w = *state;
    CodeKernels kernels = {0};
    const char *why;
    char path[4096];

    snprintf(path, sizeof path, "%s/../tests/after/recorded/code-nvdisasm.txt", w->folder);
    assert_true(code_read(&w->arena, read_file(w, path), &kernels, &why));
    assert_int_equal(kernels.n, 1);
    const CodeKernel *k = &kernels.at[0];
    assert_string_equal(k->name, "small");
    assert_int_equal(k->insns.n, 14);
    const CodeInsn *mufu = insn_named(k, "MUFU");
    assert_string_equal(mufu->name, "MUFU.EX2");
    assert_int_equal(mufu->ptx_line, 12);
    assert_int_equal(mufu->address, 0x70);
    assert_int_equal(mufu->control.stall, 2);
    assert_int_equal(mufu->control.wait, 4); /* for what LDG holds */
    assert_int_equal(insn_named(k, "LDG")->control.write, 2);
    assert_int_equal(insn_named(k, "FSETP")->control.wait, 1 << mufu->control.write);
    assert_int_equal(insn_named(k, "FSETP")->control.stall, 13);
    assert_int_equal(insn_named(k, "BAR")->token, TOKEN_BARRIER);
    assert_int_equal(mufu->token, TOKEN_NONE);
    /* up to the guarded EXIT; to the last EXIT; the loop behind it */
    assert_int_equal(k->blocks.n, 3);
    assert_int_equal(k->blocks.at[0].end, 10);
    assert_int_equal(k->blocks.at[0].n_next, 1);
    assert_int_equal(k->blocks.at[0].next[0], 1);
    assert_int_equal(k->blocks.at[1].n_next, 0);
    assert_int_equal(k->blocks.at[2].n_next, 1);
    assert_int_equal(k->blocks.at[2].next[0], 2);
}

static void
test_without_encodings(void **state)
{
    World *w = *state;
    CodeKernels kernels = {0};
    const char *why;

    assert_false(
        code_read(&w->arena, ".section\t.text.k,\"ax\"\n    /*0000*/  EXIT ;\n", &kernels, &why));
    assert_non_null(strstr(why, "-hex"));
    kernels.n = 0;
    assert_false(code_read(&w->arena,
                           "Function : k\n    /*0000*/  EXIT ;   /* 0x000000000000794d */\n",
                           &kernels, &why));
    assert_non_null(strstr(why, "half"));
}

/* A loop that is left by a call of what is behind it, as ptxas does for sm_80, and a call of a
 * function, which comes back. */
static void
test_calls(void **state)
{
    static const char *const lines[] = {".L_x_1",
                                        "FADD R0, R0, R1 ;",
                                        "@P0 CALL.REL.NOINC `(.L_x_2) ;",
                                        "BRA `(.L_x_1) ;",
                                        ".L_x_2",
                                        "@P1 CALL.REL.NOINC `($f_2) ;",
                                        "EXIT ;"};
    World *w = *state;
    CodeKernels kernels = {0};
    const char *why;
    Buf text;

    buf_init(&text, &w->arena);
    buf_add(&text, ".section\t.text.k,\"ax\"\n");
    for (uint32_t k = 0, n = 0; k < sizeof lines / sizeof lines[0]; k++) {
        if (lines[k][0] == '.')
            buf_printf(&text, "%s:\n", lines[k]);
        else
            buf_printf(&text, "    /*%04x*/  %s  /* 0x0 */\n    /* 0x0 */\n", 16 * n++, lines[k]);
    }
    assert_true(code_read(&w->arena, text.at, &kernels, &why));
    const CodeKernel *k = &kernels.at[0];
    assert_int_equal(k->blocks.n, 3); /* the loop, its way back, what is behind */
    assert_int_equal(k->blocks.at[0].n_next, 2);
    assert_int_equal(k->blocks.at[0].next[0], 1);
    assert_int_equal(k->blocks.at[0].next[1], 2);
    assert_int_equal(k->blocks.at[1].next[0], 0);
    assert_int_equal(k->blocks.at[2].n_next, 0);
}

/* What scoreboards are waited for, something before holds; tokens are as many as in the PTX. */
static void
check_compiled(World *w, const char *listing)
{
    CodeKernels kernels = {0};
    uint32_t held = 0, tokens[TOKEN_END + 1] = {0};
    const char *why;

    assert_true(code_read(&w->arena, listing, &kernels, &why));
    const CodeKernel *k = &kernels.at[0];
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const CodeInsn *insn = &k->insns.at[i];
        assert_int_equal(insn->control.wait & ~held, 0);
        held |= insn->control.write < 6 ? 1u << insn->control.write : 0;
        held |= insn->control.read < 6 ? 1u << insn->control.read : 0;
        tokens[insn->token & TOKEN_KIND]++;
        assert_int_equal(insn->address, 16 * i);
    }
    assert_int_equal(tokens[TOKEN_BARRIER], 2);
    assert_int_equal(tokens[TOKEN_ARRIVE], 1);
    assert_non_null(insn_named(k, "MUFU.EX2"));
    assert_int_equal(insn_named(k, "MUFU.EX2")->ptx_line, 14);
}

static void
test_compiled(void **state)
{
    static const char *const targets[] = {"sm_90a", "sm_100a"};
    World *w = *state;
    char folder[] = "/tmp/test_clock.XXXXXX", command[512];

    if (system("command -v ptxas >/dev/null && command -v nvdisasm >/dev/null") != 0)
        skip();
    assert_non_null(mkdtemp(folder));
    for (uint32_t t = 0; t < 2; t++) {
        snprintf(command, sizeof command, "%s/k.ptx", folder);
        FILE *file = fopen(command, "w");
        assert_non_null(file);
        fprintf(file, kernel, targets[t]);
        fclose(file);
        snprintf(command, sizeof command,
                 "cd %s && ptxas -lineinfo -arch=%s k.ptx -o k.cubin && "
                 "nvdisasm -c -hex -gp k.cubin >k.txt",
                 folder, targets[t]);
        assert_int_equal(system(command), 0);
        snprintf(command, sizeof command, "%s/k.txt", folder);
        check_compiled(w, read_file(w, command));
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- a path ---- */

/* A launch of one block of 64 threads, recorded. */
typedef struct Recorded {
    SimDevice *device;
    SimModule *module;
    SimReport *report;
    CodeKernels code;
} Recorded;

static Recorded
record(World *w, const char *name, uint32_t n)
{
    Recorded r = {.device = sim_device_new()};
    SimError error;
    char path[4096];
    const char *why;

    snprintf(path, sizeof path, "%s/../tests/after/recorded/%s.ptx", w->folder, name);
    char *ptx = read_file(w, path);
    r.module = sim_module_load(r.device, ptx, strlen(ptx), path, &error);
    assert_non_null(r.module);
    uint64_t data = sim_alloc(r.device, 256, "p");
    assert_true(sim_fill(r.device, data, 0, 256));
    void *args[] = {&data, &n};
    SimLaunch launch = sim_launch_defaults();
    launch.block[0] = 64;
    launch.block[1] = launch.block[2] = 1;
    launch.args = args;
    launch.arg_count = 2;
    launch.trace_every = 1;
    r.report = sim_launch(r.module, &launch);
    assert_non_null(r.report->trace);
    snprintf(path, sizeof path, "%s/../tests/after/recorded/%s-nvdisasm.txt", w->folder, name);
    assert_true(code_read(&w->arena, read_file(w, path), &r.code, &why));
    return r;
}

static uint32_t
count_on(const CodePath *path, const CodeKernel *code, const char *name)
{
    uint32_t count = 0;

    for (uint32_t p = 0; p < path->n; p++) {
        assert_non_null(path->parts[p].code);
        for (uint32_t q = 0; q < path->parts[p].code->n; q++) {
            const CodeRun *run = &path->parts[p].code->runs[q];
            for (uint32_t i = run->first; i < run->end; i++)
                count += mnemonic_is(code->insns.at[i].name, name);
        }
    }
    return count;
}

/* ptxas has unrolled the one loop by 4, with guards around the rest, and made guards of the other's
 * branches. */
static void
test_path(void **state)
{
    World *w = *state;
    const uint32_t turns[] = {1, 2, 5, 11, 16};

    for (uint32_t k = 0; k < sizeof turns / sizeof turns[0]; k++) {
        Recorded r = record(w, "turns", turns[k]);
        const CodeKernel *code = &r.code.at[0];
        const SimTracedCluster *cluster = &r.report->trace->clusters[0];
        Matcher *matcher = clock_matcher(&w->arena, code, r.module);
        for (uint32_t warp = 0; warp < cluster->warp_count; warp++) {
            CodePath path;
            uint32_t rounds = (turns[k] - 1) / 4;
            clock_match(matcher, &cluster->warps[warp], &path);
            assert_int_equal(path.lost, 0);
            assert_true(path.doubtful <= 4 + 4 * turns[k]); /* guards that are off */
            assert_int_equal(path.tokens, turns[k]);
            assert_int_equal(count_on(&path, code, "BAR"), turns[k]);
            assert_int_equal(count_on(&path, code, "MUFU"), turns[k]);
            assert_int_equal(count_on(&path, code, "FFMA"), 4 + 4 * rounds);
        }
        sim_report_free(r.report);
        sim_module_free(r.module);
        sim_device_free(r.device);
    }
}

/* The cycles of that: what a figure or a rule of the replay changes, it changes here. */
static void
test_replay(void **state)
{
    World *w = *state;
    Recorded r = record(w, "turns", 11);
    const CodePath *paths[1];
    CodePath path[2];
    ClockResult result;
    ClockJob job = {.module = r.module,
                    .trace = r.report->trace,
                    .rows = clock_table(&w->arena, "sm_90"),
                    .code = &r.code.at[0],
                    .resident = 1,
                    .active = 1};
    Matcher *matcher = clock_matcher(&w->arena, job.code, r.module);

    for (uint32_t warp = 0; warp < 2; warp++)
        clock_match(matcher, &r.report->trace->clusters[0].warps[warp], &path[warp]);
    paths[0] = path;
    job.paths = paths;
    clock_replay(&w->arena, &job, &result);
    assert_false(result.stuck);
    assert_int_equal(result.issued, path[0].insns + path[1].insns);
    assert_int_equal(result.from_code, result.issued);
    assert_int_equal(result.unknown, 0);
    assert_int_equal(result.cycles, 1568);
    assert_true(result.warp_clocks > 1568 && result.misfit == 0);
    path[0].parts[3].code = NULL; /* not found: its time is in doubt, and where it ends is told */
    clock_replay(&w->arena, &job, &result);
    SimInsnView v;
    uint32_t at = path[0].parts[3].to - 1;
    sim_insn_at(r.module, r.report->trace->clusters[0].warps[0].events[at].insn, &v);
    assert_true(result.misfit > 0 && result.misfit < 0.2 * result.warp_clocks);
    assert_true(result.misfit == result.misfit_most && result.misfit_line == v.line);
    job.paths = NULL;
    job.code = NULL; /* from PTX */
    clock_replay(&w->arena, &job, &result);
    assert_int_equal(result.from_code, 0);
    sim_report_free(r.report);
    sim_module_free(r.module);
    sim_device_free(r.device);
}

/* An arrival that the trace lacks: no cycles are told, in words or for programs. */
static void
test_broken_replay(void **state)
{
    World *w = *state;
    Recorded r = record(w, "turns", 11);
    SimTracedCluster *cluster = &r.report->trace->clusters[0];
    Buf text, json;
    ClockJob job = {.module = r.module,
                    .name = "turns",
                    .trace = r.report->trace,
                    .rows = clock_table(&w->arena, "sm_90"),
                    .no_code = "not asked for",
                    .resident = 1,
                    .clusters = 1,
                    .active = 1};

    for (uint32_t broken = 0; broken < 2; broken++) {
        assert_true(cluster->phase_count > 0);
        cluster->phases[cluster->phase_count - 1].arrivals += broken;
        buf_init(&text, &w->arena);
        buf_init(&json, &w->arena);
        assert_int_equal(clock_report(&w->arena, &job, 1, &text, &json), !broken);
        assert_int_equal(strstr(text.at, " cycles (") != NULL, !broken);
        assert_int_equal(strstr(text.at, "no cycles") != NULL, broken);
        assert_int_equal(strstr(json.at, "\"cycles\": null") != NULL, broken);
    }
    sim_report_free(r.report);
    sim_module_free(r.module);
    sim_device_free(r.device);
}

int
main(int argc, char **argv)
{
    World world = {.folder = argc > 1 ? argv[1] : "examples"};
    World *state = &world;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_control_bits, state),
        cmocka_unit_test_prestate(test_recorded, state),
        cmocka_unit_test_prestate(test_without_encodings, state),
        cmocka_unit_test_prestate(test_calls, state),
        cmocka_unit_test_prestate(test_compiled, state),
        cmocka_unit_test_prestate(test_path, state),
        cmocka_unit_test_prestate(test_replay, state),
        cmocka_unit_test_prestate(test_broken_replay, state),
    };

    if (setjmp(world.on_failure)) {
        fputs("out of memory\n", stderr);
        return 1;
    }
    arena_init(&world.arena, allocator_libc(), &world.on_failure);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&world.arena);
    return failed;
}
