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

#include "backends/clock/clock_code.h"

typedef struct World {
    Arena arena;
    jmp_buf on_failure;
    const char *folder;
} World;

/* `%s` is the kernel's target; straight on, so that anchors are as many as here. */
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
    assert_int_equal(insn_named(k, "BAR")->anchor, ANCHOR_BARRIER);
    assert_int_equal(mufu->anchor, ANCHOR_NONE);
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

/* What scoreboards are waited for, something before holds; anchors are as many as in the PTX. */
static void
check_compiled(World *w, const char *listing)
{
    CodeKernels kernels = {0};
    uint32_t held = 0, anchors[ANCHOR_TENSOR_MEMORY + 1] = {0};
    const char *why;

    assert_true(code_read(&w->arena, listing, &kernels, &why));
    const CodeKernel *k = &kernels.at[0];
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const CodeInsn *insn = &k->insns.at[i];
        assert_int_equal(insn->control.wait & ~held, 0);
        held |= insn->control.write < 6 ? 1u << insn->control.write : 0;
        held |= insn->control.read < 6 ? 1u << insn->control.read : 0;
        anchors[insn->anchor]++;
        assert_int_equal(insn->address, 16 * i);
    }
    assert_int_equal(anchors[ANCHOR_BARRIER], 2);
    assert_int_equal(anchors[ANCHOR_MBARRIER], 1);
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

int
main(int argc, char **argv)
{
    World world = {.folder = argc > 1 ? argv[1] : "examples"};
    World *state = &world;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_control_bits, state),
        cmocka_unit_test_prestate(test_recorded, state),
        cmocka_unit_test_prestate(test_without_encodings, state),
        cmocka_unit_test_prestate(test_compiled, state),
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
