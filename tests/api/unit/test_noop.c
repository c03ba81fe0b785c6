/* test_noop.c - which loop bodies do nothing when a mask hides an iteration, and which do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/ir/tir.h"
#include "compiler/passes/util/noop_proof.h"

static jmp_buf no_memory;

static const TirOp *
find(const TirBlock *block, TirOpcode opcode)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == opcode)
            return op;
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            const TirOp *inner = find(op->blocks[k], opcode);
            if (inner != NULL)
                return inner;
        }
    }
    return NULL;
}

/* A loop that carries %top (from `first`), where %s is what a mask leaves; the body of the loop
 * computes %next from them. */
static bool
does_nothing(const char *require, const char *first, const char *body)
{
    static const char form[] = "kernel k {\n"
                               "    size S\n"
                               "    tensor X: in f32[S, 32] align 16\n"
                               "    tensor Y: inout f32[32] align 16\n"
                               "    tensor V: in bf16[32, 32] align 16\n"
                               "    scalar scale: f32\n"
                               "    %s\n"
                               "    grid m = 1\n"
                               "    body {\n"
                               "        %%S: i32 = size S\n"
                               "        %%scale: f32 = param scale\n"
                               "        %%zero: i32 = const 0\n"
                               "        %%many: i32 = const 100\n"
                               "        %%first: f32[32] = const %s\n"
                               "        %%none: f32[32] = const 0.0\n"
                               "        %%low: f32[32] = const -inf\n"
                               "        %%acc: f32[32,32] = const 0.0\n"
                               "        %%out: f32[32], %%sum: f32[32,32] = for %%n: i32 in %%zero .."
                               " %%many carry(%%top = %%first, %%a = %%acc) {\n"
                               "            %%x: f32[32,32] = load X[%%n +: 32, :]\n"
                               "            %%i: i32[32] = iota %%n, %%S\n"
                               "            %%c: i32[32,1] = expand %%i axis(1)\n"
                               "            %%d: i32[32,32] = broadcast %%c\n"
                               "            %%e: i32[32,32] = const 7\n"
                               "            %%keep: bool[32,32] = ge %%d, %%e\n"
                               "            %%s: f32[32,32] = mask %%x, %%keep\n"
                               "%s"
                               "            yield %%next, %%more\n"
                               "        }\n"
                               "        store Y[:], %%out\n"
                               "    }\n"
                               "}\n";
    char text[8000];
    Arena arena;
    Diag diag;

    snprintf(text, sizeof text, form, require, first, body);
    arena_init(&arena, allocator_libc(), &no_memory);
    diag_init(&diag, &arena);
    TirModule *module = tir_read(&arena, &diag, diag_add_file(&diag, "k.tir", text, strlen(text)));
    if (module == NULL) {
        Buf messages;
        buf_init(&messages, &arena);
        diag_print(&diag, &messages);
        print_error("%s", messages.at);
    }
    assert_non_null(module);
    const TirFn *fn = module->fns.at[0];
    const TirOp *loop = find(fn->body, TIR_FOR), *mask = find(fn->body, TIR_MASK);
    assert_non_null(loop);
    assert_non_null(mask);
    bool found = iteration_is_noop(&arena, fn, loop, mask);
    arena_free(&arena);
    return found;
}

#define SAME "            %more: f32[32,32] = add %a, %acc\n"
#define ROW_MAX "            %r: f32[32] = reduce max %s axis(1)\n"
#define ROW_SUM "            %r: f32[32] = reduce sum %p axis(1)\n"

static void
maxima_stay(void **state)
{
    (void)state;
    assert_true(
        does_nothing("", "-inf", ROW_MAX "            %next: f32[32] = max %top, %r\n" SAME));
    assert_false(
        does_nothing("", "-inf", ROW_MAX "            %next: f32[32] = min %top, %r\n" SAME));
    assert_false(
        does_nothing("", "-inf", ROW_MAX "            %next: f32[32] = add %r, %none\n" SAME));
    assert_true(does_nothing("", "0.0", "            %next: f32[32] = add %top, %none\n" SAME));
}

static void
exponentials_add_nothing(void **state)
{
    (void)state;
    assert_true(does_nothing("", "0.0",
                             "            %p: f32[32,32] = exp %s\n" ROW_SUM
                             "            %next: f32[32] = add %top, %r\n" SAME));
    assert_true(does_nothing("", "0.0",
                             "            %p: f32[32,32] = exp2 %s\n" ROW_SUM
                             "            %next: f32[32] = add %top, %r\n" SAME));
    /* tanh(-inf) is -1; the sum of -inf is no zero */
    assert_false(does_nothing("", "0.0",
                              "            %p: f32[32,32] = tanh %s\n" ROW_SUM
                              "            %next: f32[32] = add %top, %r\n" SAME));
    assert_false(does_nothing("", "0.0",
                              "            %p: f32[32,32] = abs %s\n" ROW_SUM
                              "            %next: f32[32] = add %top, %r\n" SAME));
}

/* exp(s * scale): the sign of the scale decides. */
static void
signs_come_from_requires(void **state)
{
    static const char body[] = "            %w: f32[32,32] = broadcast %scale\n"
                               "            %q: f32[32,32] = mul %s, %w\n"
                               "            %p: f32[32,32] = exp %q\n" ROW_SUM
                               "            %next: f32[32] = add %top, %r\n" SAME;

    (void)state;
    assert_false(does_nothing("", "0.0", body));
    assert_true(does_nothing("require scale > 0.0, \"positive\"", "0.0", body));
    assert_false(does_nothing("require scale >= 0.0, \"not negative\"", "0.0", body));
    assert_false(does_nothing("require scale > -1.0, \"large\"", "0.0", body));
}

static void
products_of_zeros_add_nothing(void **state)
{
    static const char add[] = "            %p: f32[32,32] = exp %s\n"
                              "            %b: bf16[32,32] = cast %p\n"
                              "            %v: bf16[32,32] = load V[:, :]\n"
                              "            %more: f32[32,32] = mma %b, %v, %a\n"
                              "            %next: f32[32] = add %top, %none\n";
    static const char replace[] = "            %p: f32[32,32] = exp %s\n"
                                  "            %b: bf16[32,32] = cast %p\n"
                                  "            %v: bf16[32,32] = load V[:, :]\n"
                                  "            %more: f32[32,32] = mma %b, %v, %acc\n"
                                  "            %next: f32[32] = add %top, %none\n";

    (void)state;
    assert_true(does_nothing("", "0.0", add));
    assert_false(does_nothing("", "0.0", replace));
}

static void
memory_is_an_effect(void **state)
{
    (void)state;
    assert_false(does_nothing("", "0.0",
                              "            %next: f32[32] = add %top, %none\n"
                              "            store Y[:], %none\n" SAME));
    assert_true(does_nothing("", "0.0",
                             "            %next: f32[32] = add %top, %none\n"
                             "            atomic_add Y[:], %none\n" SAME));
    assert_false(does_nothing("", "0.0",
                              ROW_MAX "            %next: f32[32] = add %top, %none\n"
                                      "            atomic_add Y[:], %r\n" SAME));
    assert_true(does_nothing("", "0.0",
                             "            %p: f32[32,32] = exp %s\n" ROW_SUM
                             "            %next: f32[32] = add %top, %none\n"
                             "            atomic_add Y[:], %r\n" SAME));
}

static void
counting_is_an_effect(void **state)
{
    (void)state;
    assert_false(does_nothing("", "0.0",
                              ROW_MAX "            %h: bool[32] = eq %r, %low\n"
                                      "            %one: f32[32] = const 1.0\n"
                                      "            %k: f32[32] = select %h, %one, %none\n"
                                      "            %next: f32[32] = add %top, %k\n" SAME));
    assert_true(does_nothing("", "0.0",
                             ROW_MAX "            %h: bool[32] = eq %r, %low\n"
                                     "            %one: f32[32] = const 1.0\n"
                                     "            %k: f32[32] = select %h, %none, %one\n"
                                     "            %next: f32[32] = add %top, %k\n" SAME));
}

/* A variable that may begin at +inf: +inf + -inf is no -inf. */
static void
infinite_starts_are_seen(void **state)
{
    static const char body[] = ROW_MAX "            %u: f32[32] = add %top, %r\n"
                                       "            %h: bool[32] = eq %u, %low\n"
                                       "            %next: f32[32] = select %h, %top, %none\n" SAME;

    (void)state;
    assert_true(does_nothing("", "0.0", body));
    assert_false(does_nothing("", "inf", body));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maxima_stay),
        cmocka_unit_test(exponentials_add_nothing),
        cmocka_unit_test(signs_come_from_requires),
        cmocka_unit_test(products_of_zeros_add_nothing),
        cmocka_unit_test(memory_is_an_effect),
        cmocka_unit_test(counting_is_an_effect),
        cmocka_unit_test(infinite_starts_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
