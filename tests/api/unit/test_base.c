/* test_base.c - the arena, the text builder, messages with their source lines, word distance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/base/near.h"

static jmp_buf no_memory;

static void
make_arena(Arena *arena)
{
    arena_init(arena, allocator_libc(), &no_memory);
}

static void
arena_gives_zeroed_aligned_memory(void **state)
{
    Arena arena;

    (void)state;
    make_arena(&arena);
    for (size_t n = 0; n < 3000; n += 7) {
        unsigned char *at = arena_alloc(&arena, n);
        assert_int_equal((uintptr_t)at % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(at[k], 0);
        memset(at, 0xff, n);
    }
    unsigned char *large = arena_alloc(&arena, 1 << 20);
    assert_int_equal(large[(1 << 20) - 1], 0);
    assert_true(arena.total_bytes >= 1 << 20);
    arena_free(&arena);
}

static void
vectors_keep_their_elements(void **state)
{
    Arena arena;
    VEC(int) list = {0};

    (void)state;
    make_arena(&arena);
    for (int k = 0; k < 1000; k++)
        vec_push(&arena, &list, k * k);
    assert_int_equal(list.n, 1000);
    for (int k = 0; k < 1000; k++)
        assert_int_equal(list.at[k], k * k);
    arena_free(&arena);
}

static void
buffers_end_with_a_nul(void **state)
{
    Arena arena;
    Buf buf;
    char wide[600];

    (void)state;
    make_arena(&arena);
    buf_init(&buf, &arena);
    memset(wide, 'x', sizeof wide - 1);
    wide[sizeof wide - 1] = '\0';
    buf_add(&buf, "one ");
    buf_printf(&buf, "%d %s", 2, wide);
    buf_char(&buf, '!');
    assert_int_equal(buf.n, 4 + 2 + 599 + 1);
    assert_int_equal(strlen(buf.at), buf.n);
    assert_memory_equal(buf.at, "one 2 xxx", 9);
    assert_string_equal(buf.at + buf.n - 2, "x!");
    arena_free(&arena);
}

static void
integers_are_decimal(void **state)
{
    static const int64_t values[] = {0, 7, -7, 10, 4294967296, INT64_MAX, INT64_MIN};
    Arena arena;
    Buf buf, printed;

    (void)state;
    make_arena(&arena);
    buf_init(&buf, &arena);
    buf_init(&printed, &arena);
    buf_reserve(&buf, 1000);
    const char *reserved = buf.at;
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        buf_int(&buf, values[k]);
        buf_char(&buf, ' ');
        buf_printf(&printed, "%lld ", (long long)values[k]);
    }
    assert_string_equal(buf.at, printed.at);
    assert_ptr_equal(buf.at, reserved);
    arena_free(&arena);
}

typedef struct Scarce {
    int left;
} Scarce;

static void *
scarce_allocate(void *user, size_t bytes)
{
    Scarce *scarce = user;
    return scarce->left-- > 0 ? malloc(bytes) : NULL;
}

static void
scarce_release(void *user, void *block)
{
    (void)user;
    free(block);
}

static void
out_of_memory_jumps(void **state)
{
    Scarce scarce = {2};
    Arena arena;
    volatile int blocks = 0;
    jmp_buf edge;

    (void)state;
    arena_init(&arena, (Allocator){scarce_allocate, scarce_release, &scarce}, &edge);
    if (setjmp(edge) == 0) {
        for (;;) {
            arena_alloc(&arena, 300000);
            blocks++;
        }
    }
    assert_int_equal(blocks, 2);
    arena_free(&arena);
}

static const char *
messages(Diag *diag, Arena *arena)
{
    Buf out;
    buf_init(&out, arena);
    diag_print(diag, &out);
    return out.at;
}

static void
messages_show_the_line(void **state)
{
    Arena arena;
    Diag diag;

    (void)state;
    make_arena(&arena);
    diag_init(&diag, &arena);
    SourceFile *one = diag_add_file(&diag, "one.tile", "first\n\tlet x = y;\nlast", 23);
    SourceFile *two = diag_add_file(&diag, "two.tile", "z", 1);
    diag_error(&diag, (Span){one->base + 7, one->base + 10}, "E-NAME: no '%s'", "x");
    diag_note(&diag, (Span){two->base, two->base + 1}, "here");
    diag_warning(&diag, (Span){0}, "nowhere");
    diag_remark(&diag, (Span){0}, "not shown");
    assert_int_equal(diag.errors, 1);
    assert_string_equal(messages(&diag, &arena), "one.tile:2:2: error: no 'x' [E-NAME]\n"
                                                 "    2 | \tlet x = y;\n"
                                                 "      | \t^~~\n"
                                                 "two.tile:1:1: note: here\n"
                                                 "    1 | z\n"
                                                 "      | ^\n"
                                                 "tilec: warning: nowhere\n");
    arena_free(&arena);
}

static void
places_are_counted_from_one(void **state)
{
    Arena arena;
    Diag diag;

    (void)state;
    make_arena(&arena);
    diag_init(&diag, &arena);
    diag_add_file(&diag, "empty", "", 0);
    SourceFile *file = diag_add_file(&diag, "f", "a\nbc\n", 5);
    SourcePlace place = diag_place(&diag, file->base + 3);
    assert_ptr_equal(place.file, file);
    assert_int_equal(place.line, 2);
    assert_int_equal(place.column, 2);
    place = diag_place(&diag, file->base + 5); /* the end of the file */
    assert_ptr_equal(place.file, file);
    assert_int_equal(place.line, 3);
    assert_int_equal(place.column, 1);
    arena_free(&arena);
}

static void
errors_are_limited(void **state)
{
    Arena arena;
    Diag diag;

    (void)state;
    make_arena(&arena);
    diag_init(&diag, &arena);
    for (int k = 0; k < 30; k++)
        diag_error(&diag, (Span){0}, "error %d", k);
    assert_int_equal(diag.errors, 30);
    assert_non_null(strstr(messages(&diag, &arena), "error 19\n"));
    assert_null(strstr(messages(&diag, &arena), "error 20\n"));
    assert_non_null(strstr(messages(&diag, &arena), "10 more errors not shown"));
    arena_free(&arena);
}

static void
word_distance_counts_edits(void **state)
{
    (void)state;
    assert_int_equal(word_distance("", ""), 0);
    assert_int_equal(word_distance("abc", ""), 3);
    assert_int_equal(word_distance("swizle", "swizzle"), 1);
    assert_int_equal(word_distance("reprot", "report"), 1); /* a swap */
    assert_int_equal(word_distance("kitten", "sitting"), 3);
    assert_true(word_is_near("swizle", 1));
    assert_false(word_is_near("abc", 2));
}

typedef struct Counted {
    uint32_t blocks;
    size_t largest;
} Counted;

static void *
counted_allocate(void *user, size_t bytes)
{
    Counted *counted = user;

    counted->blocks++;
    counted->largest = bytes > counted->largest ? bytes : counted->largest;
    return malloc(bytes);
}

static void
counted_release(void *user, void *block)
{
    (void)user;
    free(block);
}

/* Few blocks, which are as large as a page can be; they are used again. */
static void
large_arenas_have_few_blocks(void **state)
{
    enum { PIECE = 1000, PIECES = 7000 };
    Counted counted = {0};
    Arena arena;
    jmp_buf edge;

    (void)state;
    arena_init(&arena, (Allocator){counted_allocate, counted_release, &counted}, &edge);
    if (setjmp(edge) != 0)
        fail();
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t k = 0; k < PIECES; k++)
            arena_alloc(&arena, PIECE);
        assert_in_range(arena_held(&arena), PIECE * PIECES, PIECE * PIECES * 11 / 10);
        arena_reset(&arena);
    }
    assert_in_range(counted.blocks, 4, 7);
    assert_int_equal(counted.largest, 2 << 20);
    assert_in_range(arena.total_bytes, PIECE * PIECES, PIECE * PIECES * 3 / 2);
    arena_free(&arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(vectors_keep_their_elements),
        cmocka_unit_test(buffers_end_with_a_nul),
        cmocka_unit_test(integers_are_decimal),
        cmocka_unit_test(out_of_memory_jumps),
        cmocka_unit_test(large_arenas_have_few_blocks),
        cmocka_unit_test(messages_show_the_line),
        cmocka_unit_test(places_are_counted_from_one),
        cmocka_unit_test(errors_are_limited),
        cmocka_unit_test(word_distance_counts_edits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
