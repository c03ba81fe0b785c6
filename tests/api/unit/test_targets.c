/* test_targets.c - the records of targets: what must hold in each, and what is asked of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/target.h"
#include "tests/api/unit/with_arena.h"

/* Figures that some pass divides by, or that limit each other. */
static void
test_facts(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < tilec_target_count; t++) {
        const Target *target = tilec_targets[t];
        const Chip *chip = &target->chip;
        assert_ptr_equal(target, target_find(target->name));
        assert_true(t == 0 || tilec_targets[t - 1]->capability < target->capability);
        assert_true(chip->shared_per_block + chip->shared_reserved <= chip->shared_per_sm);
        assert_true(chip->registers_per_sm >= 65536 && chip->threads_per_sm % 32 == 0 &&
                    chip->blocks_per_sm > 0);
        assert_true(chip->mma_flops[BY_WARP] > 0 && chip->special_ops > 0 && chip->float_ops > 0);
        assert_true(chip->shared_bytes > 0 && chip->global_bytes > 0 &&
                    chip->loop_times.few_warps >= 1);
        assert_true(target->addition_bytes >= 4 && target->addition_piece >= target->addition_bytes);
        assert_non_null(target_copy(target, COPY_ASYNC));
        assert_non_null(target_mma(target, BY_WARP, DT_BF16, DT_BF16));
        assert_non_null(target_mma(target, BY_WARP, DT_F16, DT_F16));
        for (uint32_t k = 0; k < target->n_mma; k++) {
            const MmaForm *form = &target->mma[k];
            assert_true(form->m > 0 && form->k > 0 && form->n_step > 0 &&
                        form->n % form->n_step == 0);
            assert_true(form->a != 0 && form->b != 0 && form->d != 0 && form->mnemonic != NULL);
            assert_true(chip->mma_flops[form->issuer] > 0);
        }
        /* what multiplies has code everywhere */
        for (uint32_t k = 0; k < DT_COUNT * DT_COUNT; k++) {
            DType a = k / DT_COUNT, b = k % DT_COUNT;
            const MmaForm *form = target_warp_mma(target, a, b);
            assert_true(form != NULL || !dtype_multiplies(a, b));
            assert_true(form == NULL || target_mma(target, BY_WARP, a, b) == form ||
                        (dtype_holds(form->a_type, a) && dtype_holds(form->b_type, b)));
        }
    }
}

/* Copies by TMA complete at barriers that count bytes: who has the one has the other. */
static void
test_copies(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < tilec_target_count; t++) {
        const Target *target = tilec_targets[t];
        const CopyForm *load = target_copy(target, COPY_TENSOR_LOAD);
        assert_true(load == NULL ||
                    (load->done == DONE_BY_BARRIER && target_can(target, CAN_COUNT_BYTES)));
        assert_true((load == NULL) == (target_copy(target, COPY_TENSOR_STORE) == NULL));
    }
    assert_null(target_copy(target_find("sm_89"), COPY_TENSOR_LOAD));
    assert_non_null(target_copy(target_find("sm_120"), COPY_TENSOR_LOAD));
}

/* Four targets can have roles, one of them products of warp groups, two those that a thread issues;
 * on the chip of another there are none. */
static void
test_roles(void **state)
{
    Arena *arena = *state;

    for (uint32_t t = 0; t < tilec_target_count; t++) {
        bool first = strcmp(tilec_targets[t]->name, "sm_90") == 0;
        bool second = strcmp(tilec_targets[t]->name, "sm_100") == 0 ||
                      strcmp(tilec_targets[t]->name, "sm_103") == 0;
        bool third = strcmp(tilec_targets[t]->name, "sm_120") == 0;
        assert_int_equal(target_has_roles(tilec_targets[t]), first || second || third);
        assert_int_equal(target_predicts_roles(tilec_targets[t]), first || second);
    }
    const Target *hopper = target_find("sm_90a"), *small = target_find("sm_120");
    assert_int_equal(BY_WARP_GROUP, target_issuer(hopper));
    assert_int_equal(BY_WARP_GROUP, target_role_mma(hopper, DT_F16, DT_F16)->issuer);
    assert_null(target_role_mma(hopper, DT_I32, DT_I32)); /* no other issuer's either */
    assert_int_equal(DT_F16, target_warp_mma(target_find("sm_80"), DT_E4M3, DT_E5M2)->b_type);
    assert_null(target_warp_mma(target_find("sm_80"), DT_F32, DT_F32));
    assert_int_equal(BY_WARP, target_issuer(small));
    assert_int_equal(BY_WARP, target_role_mma(small, DT_F16, DT_F16)->issuer);
    assert_false(target_can(small, CAN_CLUSTER));
    assert_int_equal(168, target_entry_registers(hopper, 2));
    assert_int_equal(255, target_entry_registers(hopper, 1));
    const MmaForm *issued = target_role_mma(target_find("sm_100"), DT_BF16, DT_BF16);
    assert_int_equal(BY_THREAD, issued->issuer);
    assert_int_equal(DONE_BY_BARRIER, issued->done);
    assert_int_equal(IN_TENSOR_MEMORY, issued->d);
    assert_true(target_find("sm_103a")->chip.special_ops ==
                2 * target_find("sm_100")->chip.special_ops);
    assert_true(target_find("sm_100")->chip.tmem_columns >= issued->n);
    const Target *tuned = target_tuned(arena, hopper, target_find("sm_100"));
    assert_false(target_has_roles(tuned));
    assert_false(target_has_mma(tuned, BY_WARP_GROUP));
    assert_int_equal(BY_WARP, target_issuer(tuned));
    assert_null(target_mma(tuned, BY_WARP_GROUP, DT_BF16, DT_BF16));
    assert_non_null(target_mma(tuned, BY_WARP, DT_BF16, DT_BF16));
    assert_null(target_tuned(arena, hopper, target_find("sm_89")));
    assert_null(target_find("sm_89a"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_copies),
        cmocka_unit_test_setup_teardown(test_roles, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
