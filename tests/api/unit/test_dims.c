/* test_dims.c - the dimensions that accesses touch: single indices, ranges, packs, whole
 * dimensions, places, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/base/diag.h"
#include "compiler/ir/tir.h"
#include "tests/api/unit/with_arena.h"

/* Constants 10, 11, 12 and 13 are places, 5 and 6 tiles of them, 3 and 4 where ranges end. */
static const char begin[] = "kernel k {\n"
                            "    size S\n"
                            "    size H\n"
                            "    tensor X: in f16[S, H, 64] align 16\n"
                            "    tensor Y: inout f32[S, H, S, 64] align 16 atomic\n"
                            "    warps 4\n"
                            "    shared $x_0: f16[128,64] stages 2 offset 1024 bytes 32768\n"
                            "    shared_bytes 33792\n"
                            "    body {\n"
                            "        %a: i32 = const 10\n"
                            "        %b: i32 = const 11\n"
                            "        %c: i32 = const 12\n"
                            "        %d: i32 = const 13\n"
                            "        %n: i32 = const 3\n"
                            "        %m: i32 = const 4\n"
                            "        %t: i32[32] = const 5\n"
                            "        %u: i32[8,16] = const 6\n"
                            "        %v: f32[16,64] = const 0.0\n"
                            "        ";

static TirFn *
read(Arena *arena, const char *operation)
{
    Diag *diag = arena_new(arena, Diag);
    char *text = arena_printf(arena, "%s%s\n    }\n}\n", begin, operation);

    diag_init(diag, arena);
    TirModule *module = tir_read(arena, diag, diag_add_file(diag, "k.tir", text, strlen(text)));
    assert_non_null(module);
    return module->fns.at[0];
}

static TirOp *
last_op(const TirFn *fn)
{
    return fn->body->ops.at[fn->body->ops.n - 1];
}

static void
put_number(Buf *out, const char *before, const TirVal *constant)
{
    buf_printf(out, "%s%d", before, (int)constant->def->integer);
}

/* One dimension a line: "1: 2 from 11, axis 0, limit 3". */
static void
put_dimension(Buf *out, const TirDims *d)
{
    buf_printf(out, "%u: %d", d->dim, (int)d->length);
    if (d->at != NULL)
        put_number(out, d->range ? " from " : d->places ? " each of " : " at ", d->at);
    if (d->axis != NO_AXIS)
        buf_printf(out, "%s axis %u", d->begins ? "," : ", still", d->axis);
    if (d->limit != NULL)
        put_number(out, ", limit ", d->limit);
    buf_char(out, '\n');
}

static void
has(Arena *arena, const char *operation, const char *expected)
{
    const TirOp *op = last_op(read(arena, operation));
    uint32_t n = 0;
    Buf out, one;

    buf_init(&out, arena);
    buf_init(&one, arena);
    for (TirDims d = tir_dims(op); tir_dims_next(&d); n++) {
        assert_int_equal(d.dim, n);
        assert_ptr_equal(d.index, &op->index[n]);
        if (d.at != NULL)
            assert_ptr_equal(op->args[d.arg], d.at);
        assert_int_equal(d.single, d.axis == NO_AXIS);
        put_dimension(&out, &d);
        TirDims again = tir_dim(op, n);
        put_dimension(&one, &again);
    }
    assert_int_equal(n, op->tensor == NULL ? 0 : op->tensor->rank);
    assert_string_equal(buf_text(&out), expected);
    assert_string_equal(buf_text(&one), expected);
}

static void
single_indices_make_no_dimension(void **state)
{
    has(*state, "%r: f16 = load X[%a, %b, %c]", "0: 1 at 10\n1: 1 at 11\n2: 1 at 12\n");
    has(*state, "%r: f16[64] = load X[%a, %b, :]", "0: 1 at 10\n1: 1 at 11\n2: 64, axis 0\n");
}

static void
ranges_and_whole_dimensions_make_one(void **state)
{
    has(*state, "%r: f16[32,64] = load X[%a +: 32, %b, :]",
        "0: 32 from 10, axis 0\n1: 1 at 11\n2: 64, axis 1\n");
    has(*state, "%r: f16[8,16] = load X[%a, %b +: 8, %c +: 16]",
        "0: 1 at 10\n1: 8 from 11, axis 0\n2: 16 from 12, axis 1\n");
}

static void
parts_of_a_pack_make_one_together(void **state)
{
    has(*state, "%r: f32[32,64] = load Y[%a, %b +: 8 by 4 of 32, %c +: 4 by 1 of 32, :]",
        "0: 1 at 10\n1: 8 from 11, axis 0\n2: 4 from 12, still axis 0\n3: 64, axis 1\n");
    has(*state, "%r: f32[32,16] = load Y[%a +: 8 by 4 of 32, %b, %c +: 4 by 1 of 32, %d +: 16]",
        "0: 8 from 10, axis 0\n1: 1 at 11\n2: 4 from 12, still axis 0\n3: 16 from 13, axis 1\n");
}

static void
limits_are_along_their_own_dimension(void **state)
{
    has(*state, "%r: f16[32,64] = load X[%a +: 32 open, %b, :] limit(0, %n)",
        "0: 32 from 10, axis 0, limit 3\n1: 1 at 11\n2: 64, axis 1\n");
    has(*state, "%r: f16[32,16] = load X[%a +: 32, %b, %c +: 16] limit(1, %n) limit(1, %m)",
        "0: 32 from 10, axis 0\n1: 1 at 11\n2: 16 from 12, axis 1, limit 3\n");
    has(*state,
        "%r: f32[32,64] = load Y[%a, %b +: 8 by 4 of 32, %c +: 4 by 1 of 32, :] "
        "limit(0, %n +: 4 by 1 of 32) limit(0, %m +: 2 by 16 of 32)",
        "0: 1 at 10\n1: 8 from 11, axis 0\n2: 4 from 12, still axis 0, limit 3\n3: 64, axis 1\n");
}

static void
tiles_of_places_make_one_or_two(void **state)
{
    has(*state, "%r: f16[32,64] = load X[%t each, %b, :]",
        "0: 32 each of 5, axis 0\n1: 1 at 11\n2: 64, axis 1\n");
    has(*state, "%r: f16[16,32] = load X[%a +: 16, %b, %t each]",
        "0: 16 from 10, axis 0\n1: 1 at 11\n2: 32 each of 5, axis 1\n");
    has(*state, "%r: f16[8,16] = load X[%a, %u each, %c]",
        "0: 1 at 10\n1: 8 each of 6, axis 0\n2: 1 at 12\n");
}

static void
operands_before_and_behind_are_no_places(void **state)
{
    has(*state, "copy_async $x_0[%d], X[%a +: 128 open, %b, :] limit(0, %n)",
        "0: 128 from 10, axis 0, limit 3\n1: 1 at 11\n2: 64, axis 1\n");
    has(*state, "store Y[%a +: 16, %b, %c, :] limit(0, %m), %v",
        "0: 16 from 10, axis 0, limit 4\n1: 1 at 11\n2: 1 at 12\n3: 64, axis 1\n");
    has(*state, "atomic_add Y[%a, %b +: 16, %c, :], %v",
        "0: 1 at 10\n1: 16 from 11, axis 0\n2: 1 at 12\n3: 64, axis 1\n");
    has(*state, "%r: i32 = add %a, %b", "");
}

/* What a dimension becomes when it is made a range, and that nothing else does. */
static void
any_dimension_can_be_made_a_range(void **state)
{
    TirFn *fn = read(*state, "store Y[%a +: 16, %b, %c, :] limit(0, %m), %v");
    TirOp *op = last_op(fn);
    TirVal *value = op->args[op->n_args - 1], *start = fn->body->ops.at[3]->results[0];
    Buf out;

    tir_set_range(fn, op, 3, start, 8);
    tir_set_range(fn, op, 0, start, 4);
    buf_init(&out, *state);
    for (TirDims d = tir_dims(op); tir_dims_next(&d);)
        put_dimension(&out, &d);
    assert_string_equal(
        buf_text(&out),
        "0: 4 from 13, axis 0, limit 4\n1: 1 at 11\n2: 1 at 12\n3: 8 from 13, axis 1\n");
    assert_int_equal(op->n_args, 6);
    assert_ptr_equal(op->args[5], value);
    assert_int_equal(tir_last_dim(op).length, 8);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(single_indices_make_no_dimension, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranges_and_whole_dimensions_make_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts_of_a_pack_make_one_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits_are_along_their_own_dimension, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tiles_of_places_make_one_or_two, set_up, tear_down),
        cmocka_unit_test_setup_teardown(operands_before_and_behind_are_no_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_dimension_can_be_made_a_range, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
