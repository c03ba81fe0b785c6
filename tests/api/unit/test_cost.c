/* test_cost.c - the cost model against kernels measured on an H200, and its choices everywhere.
 *
 * The table lists what was fastest on the machine (-arch sm_90, bf16, 4 x 4096, not causal), or
 * within 3 % of the fastest, of what does not spill.  A change of the model that chooses otherwise
 * needs a measurement.
 *
 * usage: test_cost FOLDER     the folder of the examples
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/tilec.h"

typedef struct Chosen {
    int m, n, warps, stages;
} Chosen;

typedef struct Measured {
    const char *file, *kernel, *d;
    Chosen chosen;
} Measured;

static const Measured measured[] = {
    {"attention.tile", "attention", "64", {128, 128, 4, 2}}, /* 360; 128x112 339, 128x96 337 */
    {"attention.tile", "attention", "128", {128, 64, 4, 2}}, /* 400; 128x48 394 */
    /* 342; 128x64w8 322, 64x32w4 307 */
    {"attention.tile", "attention", "256", {64, 64, 4, 1}},
    {"attention_bwd.tile", "attention_bwd", "64", {32, 128, 4, 2}},  /* 316; 64x128w4 271 */
    {"attention_bwd.tile", "attention_bwd", "128", {64, 128, 8, 2}}, /* 307; 64x96w8 268 */
    /* 228; 64x96w8, one stage, 232 */
    {"attention_bwd.tile", "attention_bwd", "256", {64, 64, 8, 2}},
    {"attention_bwd.tile", "attention_bwd_dkdv", "128", {64, 128, 8, 2}}, /* 244; 64x64w4 250 */
};

static char *
read_example(const char *folder, const char *name, size_t *n)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = malloc(1 << 16);
    assert_non_null(text);
    *n = fread(text, 1, 1 << 16, file);
    assert_true(*n < 1 << 16);
    fclose(file);
    return text;
}

/* Compiles one kernel for head dimension `d`; what was chosen stands behind the star. */
static Chosen
compile(const char *folder, const char *file, const char *kernel, const char *d, const char *arch,
        uint32_t warps)
{
    TilecDefine defines[] = {{"D", d}};
    TilecOptions options = tilec_default_options();
    TilecResult result;
    Chosen chosen = {0, 0, 0, 0};
    size_t n;
    char *text = read_example(folder, file, &n);

    options.arch = arch;
    options.kernel = kernel;
    options.defines = defines;
    options.n_defines = 1;
    options.report = true;
    options.plan = "none"; /* the model of kernels whose threads all do the same */
    options.warps = warps;
    TilecStatus status = tilec_compile(&options, file, text, n, &result);
    if (status != TILEC_OK)
        fail_msg("%s, D=%s, %s: %s", kernel, d, arch, result.messages);
    const char *star = strstr(result.report, "\n  * ");
    assert_non_null(star);
    assert_int_equal(4, sscanf(star, " * M=%d N=%d warps %d stages %d", &chosen.m, &chosen.n,
                               &chosen.warps, &chosen.stages));
    tilec_result_free(&result);
    free(text);
    return chosen;
}

static void
test_measured(void **state)
{
    for (size_t k = 0; k < sizeof measured / sizeof measured[0]; k++) {
        const Measured *row = &measured[k];
        Chosen chosen = compile(*state, row->file, row->kernel, row->d, "sm_90", 0);
        if (memcmp(&chosen, &row->chosen, sizeof chosen) != 0)
            fail_msg("%s, D=%s: chosen %dx%d, %d warps, %d stages, but %dx%d, %d warps, %d stages "
                     "was measured to be fastest",
                     row->kernel, row->d, chosen.m, chosen.n, chosen.warps, chosen.stages,
                     row->chosen.m, row->chosen.n, row->chosen.warps, row->chosen.stages);
    }
}

/* Every head dimension for every target finds tiles that fit, sizes being multiples of 16. */
static void
test_all_dimensions(void **state)
{
    static const char *const archs[] = {"sm_80", "sm_90", "sm_100", "sm_86"};
    static const char *const kernels[] = {"attention", "attention_bwd", "attention_bwd_dkdv",
                                          "attention_bwd_dq"};
    char d[16];

    for (int dim = 8; dim <= 256; dim += 8) {
        /* the fourth has less shared memory */
        for (size_t a = 0; a < (dim % 64 == 0 ? 4 : 3); a++) {
            for (size_t k = 0; k < 4; k++) {
                snprintf(d, sizeof d, "%d", dim);
                Chosen chosen = compile(*state, k == 0 ? "attention.tile" : "attention_bwd.tile",
                                        kernels[k], d, archs[a], 0);
                assert_true(chosen.m % 16 == 0 && chosen.m >= 16 && chosen.m <= 256);
                assert_true(chosen.n % 16 == 0 && chosen.n >= 16 && chosen.n <= 256);
                /* a step of a few rows would waste most of every product's operands */
                if (chosen.m * chosen.n < (a == 3 ? 16 * 32 : 16 * 48))
                    fail_msg("%s, D=%s, %s: %dx%d", kernels[k], d, archs[a], chosen.m, chosen.n);
            }
        }
    }
}

static void
test_pinned_warps(void **state)
{
    assert_int_equal(8, compile(*state, "attention.tile", "attention", "128", "sm_90", 8).warps);
    assert_int_equal(4, compile(*state, "attention.tile", "attention", "256", "sm_90", 4).warps);
}

static char *
ptx_of(const char *folder, const char *n_keys, const char *const *switches, size_t n_switches)
{
    TilecDefine defines[] = {{"D", "64"}, {"M", "32"}, {"N", n_keys}};
    TilecOptions options = tilec_default_options();
    TilecResult result;
    size_t n;
    char *text = read_example(folder, "attention_bwd.tile", &n);

    options.kernel = "attention_bwd";
    options.warps = 4;
    options.defines = defines;
    options.n_defines = 3;
    options.switches = switches;
    options.n_switches = n_switches;
    assert_int_equal(tilec_compile(&options, "attention_bwd.tile", text, n, &result), TILEC_OK);
    char *ptx = malloc(result.output_bytes + 1);
    assert_non_null(ptx);
    memcpy(ptx, result.output, result.output_bytes + 1);
    tilec_result_free(&result);
    free(text);
    return ptx;
}

/* Where a loop needs nearly all registers, less is kept over it; elsewhere all that can be. */
static void
test_spare_registers(void **state)
{
    static const char *const no_spare[] = {"no-spare-registers"};

    char *spared = ptx_of(*state, "128", NULL, 0), *kept = ptx_of(*state, "128", no_spare, 1);
    char *small = ptx_of(*state, "64", NULL, 0), *small_kept = ptx_of(*state, "64", no_spare, 1);

    assert_string_not_equal(spared, kept);
    assert_string_equal(small, small_kept);
    free(spared);
    free(kept);
    free(small);
    free(small_kept);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_measured, argc > 1 ? argv[1] : "examples"),
        cmocka_unit_test_prestate(test_all_dimensions, argc > 1 ? argv[1] : "examples"),
        cmocka_unit_test_prestate(test_pinned_warps, argc > 1 ? argv[1] : "examples"),
        cmocka_unit_test_prestate(test_spare_registers, argc > 1 ? argv[1] : "examples"),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
