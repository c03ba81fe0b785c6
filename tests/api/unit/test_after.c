/* test_after.c - what is read from texts that ptxas, nvdisasm and cuobjdump printed.
 *
 * usage: test_after FOLDER     the folder of the examples; the recorded texts lie in
 *                              ../tests/after/recorded beside it
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/report/after_ptxas.h"

typedef struct Recorded {
    Arena arena;
    jmp_buf on_failure;
    const char *folder;
} Recorded;

static char *
recorded(Recorded *r, const char *name)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/../tests/after/recorded/%s", r->folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = arena_alloc(&r->arena, 1 << 16);
    size_t n = fread(text, 1, (1 << 16) - 1, file);
    assert_true(n > 0 && n < (1 << 16) - 1);
    text[n] = '\0';
    fclose(file);
    return text;
}

static const char three[] =
    ".visible .entry first(.param .u64 a)\n{ setmaxnreg.dec.sync.aligned.u32 24; }\n"
    ".visible .entry second()\n{}\n.entry third()\n{}\n";

static void
test_kernels(void **state)
{
    Recorded *r = *state;
    PtxasSaid said = {0};

    ptxas_read(&r->arena, recorded(r, "three-kernels.txt"), three, &said);
    assert_int_equal(3, said.kernels.n); /* in the order of the PTX, which is not that of ptxas */
    assert_string_equal("first", said.kernels.at[0].name);
    assert_string_equal("second", said.kernels.at[1].name);
    assert_string_equal("third", said.kernels.at[2].name);
    assert_int_equal(58, said.kernels.at[0].registers);
    assert_int_equal(0, said.kernels.at[0].spill_stores);
    assert_int_equal(255, said.kernels.at[1].registers);
    assert_int_equal(1760, said.kernels.at[1].stack);
    assert_int_equal(5736, said.kernels.at[1].spill_stores);
    assert_int_equal(5244, said.kernels.at[1].spill_loads);
    assert_int_equal(3, said.messages.n);
    assert_int_equal(AFTER_SETMAXNREG, said.messages.at[0].kind);
    assert_string_equal("C7508", said.messages.at[0].code);
    assert_string_equal("first", said.messages.at[0].kernel); /* the one that has setmaxnreg */
    assert_int_equal(AFTER_SERIALISED, said.messages.at[1].kind);
    assert_string_equal("second", said.messages.at[1].kernel);
}

static void
test_lines(void **state)
{
    static const char text[] =
        "ptxas info    : (C7517) warpgroup.wait is injected in around line 4 by compiler to allow "
        "use of registers defined by GMMA in function 'k'\r\n"
        "ptxas warning : Unresolved something\n"
        "ptxas info    : (C9999) News of another kind in function 'k'\n"
        "ptxas info    : Function properties for helper\n"
        "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
        "ptxas info    : Function properties for k\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 3 barriers, 16 bytes smem, 400 bytes cmem[0]";
    static const char ptx[] = ".file 1 \"a folder/k.tile\"\n.entry k()\n.loc 1 17 4\nwgmma\n";
    Recorded *r = *state;
    PtxasSaid said = {0};
    AfterActions actions = {.of = {[AFTER_SPILL] = AFTER_FAIL, [AFTER_OTHER] = AFTER_IGNORE}};
    Buf out;

    ptxas_read(&r->arena, text, ptx, &said);
    assert_int_equal(2, said.kernels.n);
    assert_true(said.kernels.at[0].entry);
    assert_int_equal(3, said.kernels.at[0].barriers);
    assert_false(said.kernels.at[1].entry);
    assert_int_equal(3, said.messages.n);
    assert_int_equal(4, said.messages.at[0].line);
    assert_int_equal(AFTER_OTHER, said.messages.at[1].kind);
    assert_string_equal("Unresolved something", said.messages.at[1].text);
    assert_string_equal("C9999", said.messages.at[2].code); /* unknown, and not dropped */
    buf_init(&out, &r->arena);
    assert_int_equal(1, after_warnings(&said, ptx, "k.tile", &actions, &out));
    assert_string_equal(
        "k.tile: error: function 'helper' spills registers to local memory: each thread stores 4 "
        "bytes and loads 12 [-Werror=spill] [E-PTXAS]\n"
        "k.tile: note: take smaller tiles, or divide them among more warps\n"
        "a folder/k.tile:17: warning: kernel 'k': ptxas waits for products here of its own accord, "
        "near line 4 of the PTX (C7517) [-Winjected]\n"
        "a folder/k.tile:17: note: wait (wgmma.wait_group) on every path before what a product "
        "wrote is used; a way out of a loop is such a path, too\n",
        out.at);
    buf_init(&out, &r->arena);
    after_report(&said, NULL, "there is no tool", &out);
    assert_string_equal("after ptxas:\n"
                        "  k: 40 registers, no spills, 3 barriers\n"
                        "  function helper: SPILLS: 4 bytes stored, 12 loaded, of each thread, "
                        "8 bytes of stack\n"
                        "  machine code not looked at: there is no tool\n",
                        out.at);
}

static void
check_listing(Recorded *r, const char *name)
{
    SassKernels kernels = {0};

    assert_true(sass_read(&r->arena, recorded(r, name), &kernels));
    assert_int_equal(1, kernels.n);
    const SassKernel *k = &kernels.at[0];
    assert_string_equal("k", k->name);
    assert_string_equal("HGMMA", k->tensor);
    assert_int_equal(56, k->instructions);
    /* The waiting loop stands behind the end and jumps back into the middle: no loop of its own. */
    assert_int_equal(1, k->loops.n);
    const SassLoop *hot = sass_hot_loop(k);
    assert_int_equal(0x140, hot->first);
    assert_int_equal(0x2c0, hot->last);
    assert_int_equal(28, hot->instructions);
    assert_int_equal(4, hot->count[SASS_TENSOR]);
    assert_int_equal(0, hot->count[SASS_TO_UNIFORM]);
    assert_int_equal(1, hot->count[SASS_SPECIAL]);
    assert_true(sass_takes_uniform(hot->tensor));
}

static void
test_nvdisasm(void **state)
{
    check_listing(*state, "loop-nvdisasm.txt");
}

static void
test_cuobjdump(void **state)
{
    check_listing(*state, "loop-cuobjdump.txt");
}

/* Two loops of equally many products: the shorter one, without the mask, is the hot one.  One that
 * is entered in two places is no natural loop. */
static void
test_loops(void **state)
{
    static const char listing[] = "\t.section\t.text.two,\"ax\",@progbits\n"
                                  "two:\n"
                                  ".L_1:\n"
                                  "        /*0000*/   HMMA.16816.F32 R0, R1, R2, R0 ;\n"
                                  "        /*0010*/   FSEL R3, R3, R4, P0 ;\n"
                                  "        /*0020*/   @P0 BRA `(.L_1) ;\n"
                                  ".L_2:\n"
                                  "        /*0030*/   HMMA.16816.F32 R0, R1, R2, R0 ;\n"
                                  "        /*0040*/   BRA.U UP0, `(.L_2) ;\n"
                                  "        /*0050*/   BSSY B0, `(.L_4) ;\n"
                                  "        /*0060*/   @P1 BRA `(.L_3) ;\n"
                                  "        /*0070*/   BSYNC B0 ;\n"
                                  ".L_3:\n"
                                  "        /*0080*/   HMMA.16816.F32 R0, R1, R2, R0 ;\n"
                                  "        /*0090*/   HMMA.16816.F32 R0, R1, R2, R0 ;\n"
                                  ".L_4:\n"
                                  "        /*00a0*/   IADD3 R9, R9, 0x1, RZ ;\n"
                                  "        /*00b0*/   @!P1 BRA `(.L_3) ;\n"
                                  "        /*00c0*/   EXIT ;\n"
                                  ".L_5:\n"
                                  "        /*00d0*/   BRA `(.L_5) ;\n";
    Recorded *r = *state;
    SassKernels kernels = {0};

    assert_true(sass_read(&r->arena, listing, &kernels));
    assert_int_equal(2, kernels.at[0].loops.n);
    assert_int_equal(0x30, sass_hot_loop(&kernels.at[0])->first);
    assert_int_equal(4, kernels.at[0].count[SASS_TENSOR]);
    assert_false(sass_takes_uniform("HMMA"));
    assert_false(sass_read(&r->arena, "nothing here\n/*0000*/ MOV R1, R2 ;\n", &(SassKernels){0}));
}

/* Any cut of a text is read without a fault. */
static void
test_cuts(void **state)
{
    static const char *const names[] = {"loop-nvdisasm.txt", "loop-cuobjdump.txt",
                                        "three-kernels.txt"};
    Recorded *r = *state;

    for (size_t k = 0; k < 3; k++) {
        const char *text = recorded(r, names[k]);
        for (size_t n = strlen(text); n > 0; n -= n < 5 ? n : 5) {
            char *cut = malloc(n + 1); /* of just this size: a read behind it is found out */
            assert_non_null(cut);
            memcpy(cut, text, n);
            cut[n] = '\0';
            Arena arena;
            arena_init(&arena, allocator_libc(), &r->on_failure);
            sass_read(&arena, cut, &(SassKernels){0});
            ptxas_read(&arena, cut, cut, &(PtxasSaid){0});
            arena_free(&arena);
            free(cut);
        }
    }
}

int
main(int argc, char **argv)
{
    static Recorded r;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_kernels, &r),  cmocka_unit_test_prestate(test_lines, &r),
        cmocka_unit_test_prestate(test_nvdisasm, &r), cmocka_unit_test_prestate(test_cuobjdump, &r),
        cmocka_unit_test_prestate(test_loops, &r),    cmocka_unit_test_prestate(test_cuts, &r),
    };

    r.folder = argc > 1 ? argv[1] : "examples";
    if (setjmp(r.on_failure) != 0)
        return 1;
    arena_init(&r.arena, allocator_libc(), &r.on_failure);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&r.arena);
    return failed;
}
