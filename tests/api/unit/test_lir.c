/* test_lir.c - lane IR: what is made again around loops, which registers are one, how many a loop
 * needs, and which operands of products in flight are copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/base/diag.h"
#include "compiler/ir/lir.h"
#include "tests/api/unit/with_arena.h"

static LirFn *
read_function(Arena *arena, const char *text)
{
    Diag diag;
    LirFnList fns = {0};

    diag_init(&diag, arena);
    const SourceFile *file = diag_add_file(&diag, "test.lir", text, strlen(text));
    assert_true(lir_read(arena, &diag, file, &fns));
    assert_int_equal(1, fns.n);
    return fns.at[0];
}

/* The body after `pass` and the removal of what nobody reads. */
static void
becomes(Arena *arena, void (*pass)(LirFn *fn), const char *before, const char *after)
{
    LirFn *fn = read_function(arena, before);
    Buf text;

    pass(fn);
    lir_remove_dead(fn);
    buf_init(&text, arena);
    assert_true(lir_verify(fn, &text));
    buf_init(&text, arena);
    LirText lines;
    lir_text_begin(&lines, fn, arena, &text);
    for (uint32_t i = 0; i < fn->insns.n; i++)
        lir_print_insn(&lines, fn->insns.at[i], 0);
    assert_string_equal(text.at, after);
}

static void
remade(Arena *arena, const char *before, const char *after)
{
    becomes(arena, lir_remake, before, after);
}

#define HEAD                                                                                       \
    "lane k threads 32 shared 0 blocks 0 registers 20\n"                                           \
    "    param k_n_S b32 size 0\n"                                                                 \
    "    mutable %r1 %r11\n"                                                                       \
    "{\n"
/* r1 counts to the size, r3 is the thread, r4 and r5 follow from it */
#define BEGIN                                                                                      \
    "    ld.param.u32 %r2, [k_n_S];\n"                                                             \
    "    mov.u32 %r3, %tid.x;\n"                                                                   \
    "    shl.b32 %r4, %r3, 2;\n"                                                                   \
    "    add.s32 %r5, %r4, 64;\n"                                                                  \
    "    mov.b32 %r1, 0;\n"
#define STEP                                                                                       \
    "    add.s32 %r1, %r1, 1;\n"                                                                   \
    "    setp.lt.s32 %p6, %r1, %r2;\n"

static void
addresses_behind_a_loop_are_made_there(void **state)
{
    remade(*state,
           HEAD BEGIN "    st.shared.b32 [%r5], %r3;\n"
                      "$L1:\n"
                      "    st.shared.b32 [%r3], %r1;\n" STEP "    @%p6 bra $L1;\n"
                      "    st.shared.b32 [%r5], %r1;\n"
                      "    st.shared.b32 [%r4], %r1;\n"
                      "    ret;\n}\n",
           "ld.param.u32 %r2, [k_n_S];\n"
           "mov.u32 %r3, %tid.x;\n"
           "shl.b32 %r4, %r3, 2;\n"
           "add.s32 %r5, %r4, 64;\n"
           "mov.b32 %r1, 0;\n"
           "st.shared.b32 [%r5], %r3;\n"
           "$L1:\n"
           "st.shared.b32 [%r3], %r1;\n"
           "add.s32 %r1, %r1, 1;\n"
           "setp.lt.s32 %p6, %r1, %r2;\n"
           "@%p6 bra $L1;\n"
           "shl.b32 %r20, %r3, 2;\n"
           "add.s32 %r21, %r20, 64;\n"
           "st.shared.b32 [%r21], %r1;\n"
           "st.shared.b32 [%r20], %r1;\n"
           "ret;\n");
}

static void
what_the_loop_reads_stays(void **state)
{
    remade(*state,
           HEAD BEGIN "$L1:\n"
                      "    st.shared.b32 [%r5], %r1;\n" STEP "    @%p6 bra $L1;\n"
                      "    st.shared.b32 [%r5], %r1;\n"
                      "    ret;\n}\n",
           "ld.param.u32 %r2, [k_n_S];\n"
           "mov.u32 %r3, %tid.x;\n"
           "shl.b32 %r4, %r3, 2;\n"
           "add.s32 %r5, %r4, 64;\n"
           "mov.b32 %r1, 0;\n"
           "$L1:\n"
           "st.shared.b32 [%r5], %r1;\n"
           "add.s32 %r1, %r1, 1;\n"
           "setp.lt.s32 %p6, %r1, %r2;\n"
           "@%p6 bra $L1;\n"
           "st.shared.b32 [%r5], %r1;\n"
           "ret;\n");
}

/* Neither what is loaded nor what follows from a register that changes can be made again. */
static void
loads_and_changing_registers_stay(void **state)
{
    remade(*state,
           HEAD BEGIN "    ld.shared.b32 %r7, [%r4];\n"
                      "    add.s32 %r8, %r1, 5;\n"
                      "$L1:\n"
                      "    st.shared.b32 [%r3], %r1;\n" STEP "    @%p6 bra $L1;\n"
                      "    st.shared.b32 [%r7], %r8;\n"
                      "    ret;\n}\n",
           "ld.param.u32 %r2, [k_n_S];\n"
           "mov.u32 %r3, %tid.x;\n"
           "shl.b32 %r4, %r3, 2;\n"
           "mov.b32 %r1, 0;\n"
           "ld.shared.b32 %r7, [%r4];\n"
           "add.s32 %r8, %r1, 5;\n"
           "$L1:\n"
           "st.shared.b32 [%r3], %r1;\n"
           "add.s32 %r1, %r1, 1;\n"
           "setp.lt.s32 %p6, %r1, %r2;\n"
           "@%p6 bra $L1;\n"
           "st.shared.b32 [%r7], %r8;\n"
           "ret;\n");
}

/* Read in only one of two branches and behind them: made before both. */
static void
a_copy_serves_all_its_readers(void **state)
{
    remade(*state,
           HEAD BEGIN "$L1:\n"
                      "    st.shared.b32 [%r3], %r1;\n" STEP "    @%p6 bra $L1;\n"
                      "    setp.eq.s32 %p7, %r3, 0;\n"
                      "    @%p7 bra $L2;\n"
                      "    st.shared.b32 [%r4], %r1;\n"
                      "$L2:\n"
                      "    st.shared.b32 [%r4], %r3;\n"
                      "    ret;\n}\n",
           "ld.param.u32 %r2, [k_n_S];\n"
           "mov.u32 %r3, %tid.x;\n"
           "mov.b32 %r1, 0;\n"
           "$L1:\n"
           "st.shared.b32 [%r3], %r1;\n"
           "add.s32 %r1, %r1, 1;\n"
           "setp.lt.s32 %p6, %r1, %r2;\n"
           "@%p6 bra $L1;\n"
           "setp.eq.s32 %p7, %r3, 0;\n"
           "shl.b32 %r20, %r3, 2;\n"
           "@%p7 bra $L2;\n"
           "st.shared.b32 [%r20], %r1;\n"
           "$L2:\n"
           "st.shared.b32 [%r20], %r3;\n"
           "ret;\n");
}

/* What an outer loop reads, but not the inner one, is made in each of its rounds. */
static void
an_outer_loop_makes_its_own(void **state)
{
    remade(*state,
           HEAD BEGIN "    mov.b32 %r11, 0;\n"
                      "$L1:\n"
                      "$L2:\n"
                      "    st.shared.b32 [%r3], %r1;\n" STEP "    @%p6 bra $L2;\n"
                      "    st.shared.b32 [%r5], %r11;\n"
                      "    add.s32 %r11, %r11, 1;\n"
                      "    setp.lt.s32 %p7, %r11, %r2;\n"
                      "    @%p7 bra $L1;\n"
                      "    ret;\n}\n",
           "ld.param.u32 %r2, [k_n_S];\n"
           "mov.u32 %r3, %tid.x;\n"
           "mov.b32 %r1, 0;\n"
           "mov.b32 %r11, 0;\n"
           "$L1:\n"
           "$L2:\n"
           "st.shared.b32 [%r3], %r1;\n"
           "add.s32 %r1, %r1, 1;\n"
           "setp.lt.s32 %p6, %r1, %r2;\n"
           "@%p6 bra $L2;\n"
           "shl.b32 %r20, %r3, 2;\n"
           "add.s32 %r21, %r20, 64;\n"
           "st.shared.b32 [%r21], %r11;\n"
           "add.s32 %r11, %r11, 1;\n"
           "setp.lt.s32 %p7, %r11, %r2;\n"
           "@%p7 bra $L1;\n"
           "ret;\n");
}

static void
merge(LirFn *fn)
{
    lir_merge(fn, true, true);
}

/* Two phases, r1 and r2: `between` stands in the loop in front of the second one's change, `behind`
 * behind it. */
static void
phases(Arena *arena, const char *begin, const char *between, const char *behind, bool are_one)
{
    static const char head[] = "lane k threads 32 shared 0 blocks 0 registers 20\n"
                               "    mutable %r1 %r2\n"
                               "{\n"
                               "    mov.u32 %r3, %tid.x;\n"
                               "    setp.eq.s32 %p4, %r3, 0;\n";
    Buf before, after;

    buf_init(&before, arena);
    buf_printf(&before,
               "%s%s$L1:\n    st.shared.b32 [%%r3], %%r1;\n    xor.b32 %%r1, %%r1, 1;\n%s"
               "    st.shared.b32 [%%r3+4], %%r2;\n    xor.b32 %%r2, %%r2, 1;\n%s"
               "    @%%p4 bra $L1;\n    ret;\n}\n",
               head, begin, between, behind);
    buf_init(&after, arena);
    LirFn *fn = read_function(arena, before.at);
    uint32_t n = fn->insns.n;
    merge(fn);
    assert_true(lir_verify(fn, &after));
    assert_int_equal(fn->insns.n, are_one ? n - 2 : n);
}

#define ALIKE "    mov.b32 %r1, 0;\n    mov.b32 %r2, 0;\n"
#define OPPOSITE "    mov.b32 %r1, 0;\n    mov.b32 %r2, 1;\n"

/* Two cursors, r1 with phase r2 and r5 with r6, that go around in `stages` and `stages2` steps:
 * `between` stands between what they do. */
static void
cursors(Arena *arena, const char *stages2, const char *phase2, const char *between, bool are_one)
{
    Buf before, after;

    buf_init(&before, arena);
    buf_printf(&before,
               "lane k threads 32 shared 0 blocks 0 registers 20\n"
               "    mutable %%r1 %%r2 %%r5 %%r6\n"
               "{\n"
               "    mov.u32 %%r3, %%tid.x;\n"
               "    setp.eq.s32 %%p4, %%r3, 0;\n"
               "    mov.b32 %%r1, 0;\n    mov.b32 %%r2, 0;\n"
               "    mov.b32 %%r5, 0;\n    mov.b32 %%r6, 0;\n"
               "$L1:\n    st.shared.b32 [%%r3], %%r1;\n    st.shared.b32 [%%r3], %%r2;\n"
               "    add.s32 %%r1, %%r1, 1;\n    setp.eq.s32 %%p7, %%r1, 3;\n"
               "    selp.b32 %%r8, 1, 0, %%p7;\n    selp.b32 %%r1, 0, %%r1, %%p7;\n"
               "    xor.b32 %%r2, %%r2, %%r8;\n%s"
               "    st.shared.b32 [%%r3+4], %%r5;\n    st.shared.b32 [%%r3+4], %%r6;\n"
               "    add.s32 %%r5, %%r5, 1;\n    setp.eq.s32 %%p9, %%r5, %s;\n"
               "    selp.b32 %%r10, 1, 0, %%p9;\n    selp.b32 %%r5, 0, %%r5, %%p9;\n"
               "    xor.b32 %%r6, %%r6, %s;\n"
               "    @%%p4 bra $L1;\n    ret;\n}\n",
               between, stages2, phase2);
    buf_init(&after, arena);
    LirFn *fn = read_function(arena, before.at);
    uint32_t n = fn->insns.n;
    merge(fn);
    assert_true(lir_verify(fn, &after));
    assert_int_equal(fn->insns.n, are_one ? n - 7 : n);
}

/* The number of a stage goes around, and its phase with it: both become others', or neither. */
static void
cursors_that_go_together_are_one(void **state)
{
    Arena *arena = *state;

    cursors(arena, "3", "%r10", "", true);
    cursors(arena, "3", "%r10", "    st.shared.b32 [%r3+8], %r3;\n", true);
    cursors(arena, "4", "%r10", "", false); /* around elsewhere */
    cursors(arena, "3", "%r3", "", false);  /* turned by another number */
    cursors(arena, "3", "%r10", "    st.shared.b32 [%r3], %r1;\n",
            false); /* the one ahead is read */
    cursors(arena, "3", "%r10", "    st.shared.b32 [%r3], %r2;\n", false);
    cursors(arena, "3", "%r10", "    @%p4 bra $L1;\n", false); /* not in the same iterations */
    cursors(arena, "3", "%r10", "    xor.b32 %r2, %r2, 1;\n", false); /* set elsewhere, too */
    cursors(arena, "3", "%r10", "    mov.b32 %r5, 1;\n", false);
    cursors(arena, "3", "%r10", "    st.shared.b32 [%r3], %r8;\n",
            false); /* what a step has made is read elsewhere */
}

static void
phases_that_turn_together_are_one(void **state)
{
    becomes(*state, merge,
            "lane k threads 32 shared 0 blocks 0 registers 20\n"
            "    mutable %r1 %r2\n"
            "{\n"
            "    mov.u32 %r3, %tid.x;\n"
            "    mov.b32 %r1, 1;\n"
            "    mov.b32 %r2, 1;\n"
            "$L1:\n"
            "    st.shared.b32 [%r3], %r1;\n"
            "    xor.b32 %r1, %r1, 1;\n"
            "$L2:\n"
            "    setp.eq.s32 %p5, %r2, %r3;\n"
            "    @%p5 bra $L2;\n"
            "    xor.b32 %r2, %r2, 1;\n"
            "    setp.eq.s32 %p4, %r3, 0;\n"
            "    @%p4 bra $L1;\n"
            "    st.shared.b32 [%r3], %r1;\n"
            "    ret;\n}\n",
            "mov.u32 %r3, %tid.x;\n"
            "mov.b32 %r1, 1;\n"
            "$L1:\n"
            "st.shared.b32 [%r3], %r1;\n"
            "$L2:\n"
            "setp.eq.s32 %p5, %r1, %r3;\n"
            "@%p5 bra $L2;\n"
            "xor.b32 %r1, %r1, 1;\n"
            "setp.eq.s32 %p4, %r3, 0;\n"
            "@%p4 bra $L1;\n"
            "st.shared.b32 [%r3], %r1;\n"
            "ret;\n");
}

static void
phases_that_differ_stay(void **state)
{
    phases(*state, ALIKE, "", "", true);
    /* they begin as opposites, and the second one is read where the first one has turned, or
     * elsewhere, too */
    phases(*state, OPPOSITE, "", "", true);
    phases(*state, OPPOSITE, "", "    st.shared.b32 [%r3+8], %r1;\n", true);
    phases(*state, OPPOSITE, "", "    st.shared.b32 [%r3+8], %r2;\n", false);
    phases(*state, "    mov.b32 %r1, 0;\n    mov.b32 %r2, 2;\n", "", "", false);
    phases(*state, OPPOSITE, "    @%p4 bra $L2;\n", "$L2:\n", false);
    /* the first one is read when it has turned and the second one has not */
    phases(*state, ALIKE, "    st.shared.b32 [%r3+8], %r1;\n", "", false);
    phases(*state, ALIKE, "    st.shared.b32 [%r3+8], %r2;\n", "", true);
    phases(*state, ALIKE, "", "    st.shared.b32 [%r3+8], %r1;\n", true);
    /* one of them is skipped, or repeated */
    phases(*state, ALIKE, "    @%p4 bra $L2;\n", "$L2:\n", false);
    phases(*state, ALIKE, "    @%p4 bra $L2;\n", "    bra $L3;\n$L2:\n$L3:\n", false);
    phases(*state, ALIKE, "$L2:\n", "    @%p4 bra $L2;\n", false);
    phases(*state, ALIKE, "    @%p4 ret;\n", "", false);
    /* one of them changes once more, or to something else */
    phases(*state, ALIKE, "", "    xor.b32 %r1, %r1, 1;\n", false);
    phases(*state, ALIKE, "", "    mov.b32 %r2, %r3;\n", false);
    phases(*state, ALIKE, "", "    @%p4 mov.b32 %r2, 0;\n    @%p4 mov.b32 %r1, 0;\n", false);
}

static void
carry(LirFn *fn)
{
    assert_true(lir_carry(fn));
}

#define TENSOR                                                                                     \
    "lane k threads 32 shared 0 blocks 0 registers 30\n"                                           \
    "    param k_t_X b64 pointer 0\n"                                                              \
    "    param k_s_X_0 b64 stride 0 0\n"                                                           \
    "    param k_n_S b32 size 0\n"                                                                 \
    "    mutable %r1\n"                                                                            \
    "{\n"                                                                                          \
    "    ld.param.u64 %d2, [k_t_X];\n"                                                             \
    "    ld.param.u64 %d3, [k_s_X_0];\n"                                                           \
    "    ld.param.u32 %r4, [k_n_S];\n"                                                             \
    "    mov.b32 %r1, 0;\n"
#define ADDRESS                                                                                    \
    "    shl.b32 %r5, %r1, 7;\n"                                                                   \
    "    cvt.s64.s32 %d6, %r5;\n"                                                                  \
    "    mad.lo.s64 %d7, %d6, %d3, %d2;\n"
#define ROUND                                                                                      \
    "    add.s32 %r1, %r1, 1;\n"                                                                   \
    "    setp.lt.s32 %p10, %r1, %r4;\n"                                                            \
    "    @%p10 bra $L1;\n"

/* An address grows by an amount that only parameters tell, how many rows are left by a constant. */
static void
what_grows_evenly_is_carried(void **state)
{
    becomes(*state, carry,
            TENSOR "$L1:\n" ADDRESS "    sub.s32 %r8, %r4, %r5;\n"
                   "    setp.ge.s32 %p9, %r8, 1;\n"
                   "    @%p9 st.global.b32 [%d7+4], %r4;\n" ROUND "    ret;\n}\n",
            "ld.param.u64 %d2, [k_t_X];\n"
            "ld.param.u64 %d3, [k_s_X_0];\n"
            "ld.param.u32 %r4, [k_n_S];\n"
            "mov.b32 %r1, 0;\n"
            "sub.s32 %r30, %r1, 1;\n"
            "shl.b32 %r32, %r30, 7;\n"
            "cvt.s64.s32 %d33, %r32;\n"
            "mad.lo.s64 %d34, %d33, %d3, %d2;\n"
            "shl.b32 %r36, %r1, 7;\n"
            "cvt.s64.s32 %d37, %r36;\n"
            "mad.lo.s64 %d38, %d37, %d3, %d2;\n"
            "sub.s64 %d35, %d38, %d34;\n"
            "mov.b64 %d31, %d34;\n"
            "sub.s32 %r40, %r4, %r32;\n"
            "mov.b32 %r39, %r40;\n"
            "$L1:\n"
            "add.s64 %d31, %d31, %d35;\n"
            "add.s32 %r39, %r39, -128;\n"
            "setp.ge.s32 %p9, %r39, 1;\n"
            "@%p9 st.global.b32 [%d31+4], %r4;\n"
            "add.s32 %r1, %r1, 1;\n"
            "setp.lt.s32 %p10, %r1, %r4;\n"
            "@%p10 bra $L1;\n"
            "ret;\n");
}

/* Whether something is carried through the loop with this body. */
static void
carries(Arena *arena, const char *body, bool expected)
{
    Buf text;

    buf_init(&text, arena);
    buf_printf(&text, "%s%s%s", TENSOR, body, "    ret;\n}\n");
    LirFn *fn = read_function(arena, text.at);
    uint32_t n = fn->insns.n;
    assert_int_equal(lir_carry(fn), expected);
    buf_init(&text, arena);
    assert_true(lir_verify(fn, &text));
    assert_int_equal(fn->insns.n > n, expected);
}

static void
what_does_not_grow_evenly_is_computed(void **state)
{
    carries(*state, "$L1:\n" ADDRESS "    st.global.b32 [%d7], %r4;\n" ROUND, true);
    /* read behind the counter's step, or behind the loop */
    carries(*state,
            "$L1:\n" ADDRESS "    add.s32 %r1, %r1, 1;\n    st.global.b32 [%d7], %r4;\n"
            "    setp.lt.s32 %p10, %r1, %r4;\n    @%p10 bra $L1;\n",
            false);
    carries(*state, "$L1:\n" ADDRESS ROUND "    st.global.b32 [%d7], %r4;\n", false);
    /* the counter does not always step, or by what is no constant */
    carries(*state,
            "$L1:\n" ADDRESS "    st.global.b32 [%d7], %r4;\n    setp.eq.s32 %p11, %r4, 5;\n"
            "    @%p11 bra $L2;\n    add.s32 %r1, %r1, 1;\n$L2:\n"
            "    setp.lt.s32 %p10, %r1, %r4;\n    @%p10 bra $L1;\n",
            false);
    carries(*state,
            "$L1:\n" ADDRESS "    st.global.b32 [%d7], %r4;\n    add.s32 %r1, %r1, %r4;\n"
            "    setp.lt.s32 %p10, %r1, %r4;\n    @%p10 bra $L1;\n",
            false);
    /* what it is multiplied by comes from memory in each iteration */
    carries(*state,
            "$L1:\n    cvt.s64.s32 %d6, %r1;\n    ld.global.b32 %r12, [%d2];\n"
            "    cvt.s64.s32 %d13, %r12;\n    mad.lo.s64 %d7, %d6, %d13, %d2;\n"
            "    st.global.b32 [%d7], %r4;\n" ROUND,
            false);
    /* too little is gained; or the loop is entered elsewhere */
    carries(*state, "$L1:\n    shl.b32 %r5, %r1, 7;\n    st.shared.b32 [%r5], %r4;\n" ROUND, false);
    carries(*state,
            "    setp.eq.s32 %p11, %r4, 5;\n    @%p11 bra $L3;\n$L1:\n" ADDRESS
            "    st.global.b32 [%d7], %r4;\n$L3:\n" ROUND,
            false);
}

/* Rows are left out behind the end only: the iterations in front of that have no branch. */
static void
split(LirFn *fn)
{
    assert_true(lir_split(fn));
}

#define FOUR(...) __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__
#define MANY(...)                                                                                  \
    FOUR(__VA_ARGS__)                                                                              \
    FOUR(__VA_ARGS__) FOUR(__VA_ARGS__) FOUR(__VA_ARGS__) FOUR(__VA_ARGS__) FOUR(__VA_ARGS__)
#define STORES MANY("    st.shared.b32 [%r5], %r5;\n")
#define GUARDED                                                                                    \
    "$L1:\n"                                                                                       \
    "    bar.warp.sync -1;\n"                                                                      \
    "    shl.b32 %r5, %r1, 7;\n"                                                                   \
    "    sub.s32 %r8, %r4, %r5;\n"                                                                 \
    "    setp.ge.s32 %p9, %r8, 1;\n"                                                               \
    "    @!%p9 bra $L2;\n" STORES "$L2:\n"
#define TOGETHER                                                                                   \
    "    add.s32 %r1, %r1, 1;\n"                                                                   \
    "    setp.lt.s32 %p10, %r1, %r4;\n"                                                            \
    "    @%p10 bra.uni $L1;\n"

static void
a_branch_of_the_end_leaves_the_loop(void **state)
{
    /* clang-format off */
    becomes(*state, split, TENSOR GUARDED TOGETHER "    ret;\n}\n",
            "ld.param.u32 %r4, [k_n_S];\n"
            "mov.b32 %r1, 0;\n"
            "shl.b32 %r30, %r1, 7;\n"
            "sub.s32 %r31, %r4, %r30;\n"
            "sub.s32 %r32, %r31, 1;\n"
            "shr.s32 %r33, %r32, 7;\n"
            "add.s32 %r34, %r33, 1;\n"
            "redux.sync.min.s32 %r35, %r34, -1;\n"
            "add.s32 %r36, %r35, %r1;\n"
            "min.s32 %r37, %r36, %r4;\n"
            "setp.ge.s32 %p38, %r1, %r37;\n"
            "@%p38 bra.uni $L3;\n"
            "$L5:\n"
            "bar.warp.sync -1;\n"
            "shl.b32 %r39, %r1, 7;\n"
            MANY("st.shared.b32 [%r39], %r39;\n")
            "$L6:\n"
            "add.s32 %r1, %r1, 1;\n"
            "setp.lt.s32 %p42, %r1, %r37;\n"
            "@%p42 bra.uni $L5;\n"
            "$L3:\n"
            "setp.ge.s32 %p43, %r1, %r4;\n"
            "@%p43 bra.uni $L4;\n"
            "$L1:\n"
            "bar.warp.sync -1;\n"
            "shl.b32 %r5, %r1, 7;\n"
            "sub.s32 %r8, %r4, %r5;\n"
            "setp.ge.s32 %p9, %r8, 1;\n"
            "@!%p9 bra $L2;\n"
            MANY("st.shared.b32 [%r5], %r5;\n")
            "$L2:\n"
            "add.s32 %r1, %r1, 1;\n"
            "setp.lt.s32 %p10, %r1, %r4;\n"
            "@%p10 bra.uni $L1;\n"
            "$L4:\n"
            "ret;\n");
    /* clang-format on */
}

/* Whether the loop with this body becomes two. */
static void
splits(Arena *arena, const char *body, bool expected)
{
    Buf text;

    buf_init(&text, arena);
    buf_printf(&text, "%s%s    ret;\n}\n", TENSOR, body);
    LirFn *fn = read_function(arena, text.at);
    assert_int_equal(lir_split(fn), expected);
    buf_init(&text, arena);
    assert_true(lir_verify(fn, &text));
}

static void
other_branches_stay(void **state)
{
    splits(*state, GUARDED TOGETHER, true);
    /* lanes may go round on their own, or alone */
    splits(*state, GUARDED ROUND, false);
    splits(*state,
           "$L1:\n    shl.b32 %r5, %r1, 7;\n    sub.s32 %r8, %r4, %r5;\n"
           "    setp.ge.s32 %p9, %r8, 1;\n    @!%p9 bra $L2;\n" STORES "$L2:\n" TOGETHER,
           false);
    /* what is tested grows, or does not follow from the counter */
    splits(*state,
           "$L1:\n    bar.warp.sync -1;\n    shl.b32 %r5, %r1, 7;\n"
           "    setp.ge.s32 %p9, %r5, 1;\n    @!%p9 bra $L2;\n" STORES "$L2:\n" TOGETHER,
           false);
    splits(*state,
           "$L1:\n    bar.warp.sync -1;\n    ld.global.b32 %r5, [%d2];\n"
           "    setp.ge.s32 %p9, %r5, 1;\n    @!%p9 bra $L2;\n" STORES "$L2:\n" TOGETHER,
           false);
    /* it falls by what is no power of two */
    splits(*state,
           "$L1:\n    bar.warp.sync -1;\n    mul.lo.s32 %r5, %r1, 96;\n"
           "    sub.s32 %r8, %r4, %r5;\n    setp.ge.s32 %p9, %r8, 1;\n"
           "    @!%p9 bra $L2;\n" STORES "$L2:\n" TOGETHER,
           false);
    /* the branch goes over next to nothing */
    splits(*state,
           "$L1:\n    bar.warp.sync -1;\n    shl.b32 %r5, %r1, 7;\n"
           "    sub.s32 %r8, %r4, %r5;\n    setp.ge.s32 %p9, %r8, 1;\n"
           "    @!%p9 bra $L2;\n    st.shared.b32 [%r5], %r5;\n$L2:\n" TOGETHER,
           false);
    /* a value of the loop is read behind it */
    splits(*state, GUARDED TOGETHER "    st.shared.b32 [%r5], %r5;\n", false);
}

/* r1, r2, r5 and r7 .. r8 at once; no element is masked. */
static void
needs_are_counted(void **state)
{
    LirFn *fn = read_function(*state, HEAD BEGIN "$L1:\n"
                                                 "    ld.shared.b32 %r7, [%r5];\n"
                                                 "    ld.shared.b32 %r8, [%r5+4];\n"
                                                 "    add.s32 %r9, %r7, %r8;\n"
                                                 "    st.shared.b32 [%r5], %r9;\n" STEP
                                                 "    @%p6 bra $L1;\n"
                                                 "    ret;\n}\n");
    LirNeed need = lir_need(fn, UINT32_MAX);

    assert_int_equal(need.alive, 5);
    assert_int_equal(need.with_masks, 5);
    assert_false(lir_exceeds(fn, 5));
    assert_true(lir_exceeds(fn, 4));
    assert_true(lir_need(fn, 4).alive > 4);
}

/* What is carried from round to round is alive in all of the loop, and twice as wide with 64 bits;
 * predicates are not counted. */
static void
carried_values_are_alive(void **state)
{
    LirFn *fn = read_function(*state, "lane k threads 32 shared 0 blocks 0 registers 20\n"
                                      "    param k_t_X b64 pointer 0\n"
                                      "    mutable %r1 %d2\n"
                                      "{\n"
                                      "    mov.b32 %r1, 0;\n"
                                      "    ld.param.u64 %d2, [k_t_X];\n"
                                      "$L1:\n"
                                      "    ld.global.b32 %r3, [%d2];\n"
                                      "    st.global.b32 [%d2+4], %r3;\n"
                                      "    add.s64 %d2, %d2, 8;\n"
                                      "    add.s32 %r1, %r1, 1;\n"
                                      "    setp.lt.s32 %p4, %r1, 10;\n"
                                      "    @%p4 bra $L1;\n"
                                      "    ret;\n}\n");
    LirNeed need = lir_need(fn, UINT32_MAX);

    assert_int_equal(need.alive, 4);
    assert_int_equal(need.with_masks, 4);
}

#define PRODUCT(a, b, c, d)                                                                        \
    "    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f20, %f21, %f22, %f23}, {" a ", " b \
    ", " c ", " d "}, %d10, 0, 1, 1, 1;\n"
#define FLIGHT                                                                                     \
    "lane k threads 128 shared 0 blocks 0 registers 24\n"                                          \
    "    mutable %f20 %f21 %f22 %f23\n"                                                            \
    "{\n"                                                                                          \
    "    mov.u32 %r1, %tid.x;\n"                                                                   \
    "    shl.b32 %r2, %r1, 2;\n"                                                                   \
    "    add.s32 %r3, %r1, 64;\n"                                                                  \
    "    mov.b64 %d10, {%r1, %r1};\n"                                                              \
    "    wgmma.fence.sync.aligned;\n"
#define COMMIT "    wgmma.commit_group.sync.aligned;\n"
#define WAIT(n) "    wgmma.wait_group.sync.aligned " #n ";\n"

/* The operands of the products once those that are touched in flight are copied, and how many
 * copies there are. */
static void
operands_become(Arena *arena, const char *before, const char *operands, uint32_t copies)
{
    LirFn *fn = read_function(arena, before);
    uint32_t moves = 0;
    Buf text, bugs;

    lir_copy_fragments(fn);
    buf_init(&text, arena);
    buf_init(&bugs, arena);
    assert_true(lir_verify(fn, &bugs));
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        bool moved = insn->op == LIR_MOV_B32;
        moves += moved;
        assert_true(!moved || fn->insns.at[i + 1]->op == LIR_WGMMA_FENCE ||
                    fn->insns.at[i + 1]->op == LIR_MOV_B32);
        for (uint32_t k = 0; insn->op == LIR_WGMMA_RS && k < 4; k++)
            buf_printf(&text, "%u ", insn->operands[insn->n_dst + k].reg);
    }
    assert_string_equal(text.at, operands);
    assert_int_equal(moves, copies);
}

static void
what_is_touched_in_flight_is_copied(void **state)
{
    /* read, before the wait that covers it: one copy for both products of a fence */
    operands_become(*state,
                    FLIGHT PRODUCT("%r2", "%r3", "%r2", "%r3") PRODUCT("%r3", "%r3", "%r3", "%r3")
                        COMMIT "    st.shared.b32 [%r1], %r2;\n" WAIT(0) "    ret;\n}\n",
                    "24 3 24 3 3 3 3 3 ", 1);
    /* as an address, with a younger group that the wait leaves */
    operands_become(
        *state,
        FLIGHT PRODUCT("%r2", "%r2", "%r2", "%r2") COMMIT PRODUCT("%r3", "%r3", "%r3", "%r3")
            COMMIT WAIT(1) "    st.shared.b32 [%r2], %r1;\n    st.shared.b32 [%r3], %r1;\n" WAIT(
                0) "    ret;\n}\n",
        "2 2 2 2 24 24 24 24 ", 1);
    /* on one of two ways, and only there without a wait */
    operands_become(
        *state,
        FLIGHT PRODUCT("%r2", "%r3", "%r2", "%r3") COMMIT
        "    setp.lt.s32 %p4, %r1, 10;\n    @%p4 bra $L1;\n" WAIT(
            0) "    st.shared.b32 [%r1], %r3;\n$L1:\n    st.shared.b32 [%r1], %r2;\n" WAIT(0) "    ret;\n}\n",
        "24 3 24 3 ", 1);
    /* in the next iteration, in front of the product */
    operands_become(*state,
                    "lane k threads 128 shared 0 blocks 0 registers 24\n"
                    "    mutable %f20 %f21 %f22 %f23\n{\n"
                    "    mov.u32 %r1, %tid.x;\n    shl.b32 %r2, %r1, 2;\n"
                    "    mov.b64 %d10, {%r1, %r1};\n    setp.lt.s32 %p4, %r1, 10;\n$L1:\n"
                    "    st.shared.b32 [%r1], %r2;\n" WAIT(
                        0) "    wgmma.fence.sync.aligned;\n" PRODUCT("%r2", "%r1", "%r2", "%r1")
                        COMMIT "    @%p4 bra $L1;\n" WAIT(0) "    ret;\n}\n",
                    "24 25 24 25 ", 2);
}

static void
what_is_touched_at_rest_stays(void **state)
{
    operands_become(*state,
                    FLIGHT PRODUCT("%r2", "%r3", "%r2", "%r3")
                        COMMIT WAIT(0) "    st.shared.b32 [%r1], %r2;\n    ret;\n}\n",
                    "2 3 2 3 ", 0);
    /* other products may read it */
    operands_become(*state,
                    FLIGHT PRODUCT("%r2", "%r3", "%r2", "%r3")
                        COMMIT PRODUCT("%r3", "%r2", "%r2", "%r2") COMMIT WAIT(0) "    ret;\n}\n",
                    "2 3 2 3 3 2 2 2 ", 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(addresses_behind_a_loop_are_made_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_loop_reads_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(loads_and_changing_registers_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_copy_serves_all_its_readers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_outer_loop_makes_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cursors_that_go_together_are_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(phases_that_turn_together_are_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(phases_that_differ_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_grows_evenly_is_carried, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_does_not_grow_evenly_is_computed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_branch_of_the_end_leaves_the_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_branches_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(needs_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(carried_values_are_alive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_touched_in_flight_is_copied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_touched_at_rest_stays, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
