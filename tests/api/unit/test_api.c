/* test_api.c - libtilec as a caller sees it: results, callbacks, and memory that runs out at every
 * possible moment of a whole compilation.
 *
 * usage: test_api FOLDER     the folder of the examples
 */
#define _POSIX_C_SOURCE 200809L /* fork */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "compiler/tilec.h"

static const char tir_text[] = "kernel copy {\n"
                               "    size S\n"
                               "    tensor X: in f32[S, 64] align 16\n"
                               "    tensor Y: out f32[S, 64] align 16\n"
                               "    grid m = cdiv(S, 32)\n"
                               "    body {\n"
                               "        %m_0: i32 = grid m\n"
                               "        %1: i32 = const 32\n"
                               "        %2: i32 = mul %m_0, %1\n"
                               "        %x_3: f32[32,64] = load X[%2 +: 32, :]\n"
                               "        store Y[%2 +: 32, :], %x_3\n"
                               "    }\n"
                               "}\n";

/* ---- an allocator that counts and fails ---- */

typedef struct Meter {
    long calls, live; /* allocations asked for; blocks not released */
    long fail_at;     /* this one and all later ones give NULL; -1: none */
    bool forks;       /* each fails in a process of its own .. */
    long wrong;       /* .. so many of which do not end as they should */
} Meter;

/* Has a child go on with this allocation failing, and waits for it.  Whether this is the parent. */
static bool
fails_elsewhere(Meter *meter)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        meter->forks = false;
        return false;
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        meter->wrong++;
    return true;
}

static void *
meter_allocate(void *user, size_t bytes)
{
    Meter *meter = user;
    void *block = NULL;

    if (meter->forks && !fails_elsewhere(meter))
        meter->fail_at = meter->calls; /* the child: this one fails, and all behind it */
    if (meter->calls++ < meter->fail_at || meter->fail_at < 0)
        block = malloc(bytes);
    meter->live += block != NULL;
    return block;
}

static void
meter_release(void *user, void *block)
{
    Meter *meter = user;

    meter->live -= block != NULL;
    free(block);
}

/* Compiles, or searches when there is a search, with allocation number 0, 1, 2, .. failing, each in
 * a process that goes on from there. */
static void
survive_search(TilecOptions options, const TilecSearch *search, const char *path, const char *text,
               size_t n)
{
    Meter meter = {.fail_at = -1, .forks = true};
    TilecAllocator allocator = {meter_allocate, meter_release, &meter};
    TilecResult result;
    options.allocator = &allocator;
    TilecStatus status = search != NULL ? tilec_search(&options, search, path, text, n, &result)
                                        : tilec_compile(&options, path, text, n, &result);
    if (meter.fail_at >= 0) { /* a child */
        bool right = status == TILEC_OUT_OF_MEMORY && result.output == NULL &&
                     strcmp(result.messages, "tilec: error: out of memory [E-MEMORY]\n") == 0;
        if (!right)
            fprintf(stderr, "allocation %ld: status %d: %s", meter.fail_at, (int)status,
                    result.messages);
        tilec_result_free(&result);
        if (meter.live != 0)
            fprintf(stderr, "allocation %ld: %ld blocks are left\n", meter.fail_at, meter.live);
        _exit(right && meter.live == 0 ? 0 : 1);
    }
    if (status != TILEC_OK)
        print_error("%s", result.messages);
    assert_int_equal(status, TILEC_OK);
    assert_true(meter.calls > 0);
    assert_int_equal(meter.wrong, 0);
    tilec_result_free(&result);
    assert_int_equal(meter.live, 0);
}

static void
survive(TilecOptions options, const char *path, const char *text, size_t n)
{
    survive_search(options, NULL, path, text, n);
}

static void
every_allocation_may_fail_tir(void **state)
{
    TilecOptions options = tilec_default_options();

    (void)state;
    options.time_report = true;
    options.dump_ir = "";
    options.emit = TILEC_EMIT_TIR;
    survive(options, "copy.tir", tir_text, sizeof tir_text - 1);
    options.emit = TILEC_EMIT_PTX;
    options.report = true;
    survive(options, "copy.tir", tir_text, sizeof tir_text - 1);
}

static const char tuning[] =
    "{\"tuning\":1,\"target\":\"sm_90\",\"kernel\":\"gemm\",\"constants\":{\"T\":\"bf16\","
    "\"BIAS\":\"true\",\"ACTIVATION\":\"0\"},\"sizes\":{\"M\":512},\"tiles\":{\"TM\":64,\"TN\":64,"
    "\"TK\":32},\"warps\":4,\"stages\":2,\"microseconds\":5}\nnot a line\n";

static void
survive_example(const char *folder, const char *name)
{
    static const int32_t tiles[] = {64, 128};
    char path[1000];
    char *text = malloc(1 << 20);
    TilecOptions options = tilec_default_options();
    TilecSearch search = {.tiles = {tiles, tiles}, .n_tiles = {2, 2}, .rows = 5};

    snprintf(path, sizeof path, "%s/%s.tile", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 20) - 1, file);
    text[n] = '\0';
    fclose(file);
    options.emit = TILEC_EMIT_AST;
    survive(options, path, text, n);
    options.emit = TILEC_EMIT_HEADER;
    options.header_with_ptx = true;
    options.line_info = true;
    options.report = true;
    survive(options, path, text, n);
    options.arch = "sm_90";
    options.schedule = options.schedule_picture = true;
    options.tuning = tuning;
    options.tuning_path = "tuning";
    survive(options, path, text, n);
    options.emit = TILEC_EMIT_PTX;
    options.page = strcmp(name, "copy") == 0;
    if (options.page)
        survive(options, path, text, n);
    if (strstr(text, "mma") != NULL && strstr(text, "auto") != NULL)
        survive_search(options, &search, path, text, n);
    free(text);
}

static void
every_allocation_may_fail_source(void **state)
{
    static const char *const names[] = {"copy", "add",       "row_softmax",
                                        "gemm", "attention", "attention_bwd"};

    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        survive_example(*state, names[k]);
}

static const char run_text[] =
    "use softmax;\n"
    "fn twice(var x) { x = x + x; }\n"
    "kernel k<N: int = auto>(X: in f16[S, 4], Y: out f32[S], Z: inout f32[1]) {\n"
    "    grid i in tiles(S, N);\n"
    "    var t = (a = 0.0, b = load X[i, :] as f32);\n"
    "    for n in tiles(4, 3) { let (r, c) = pack(i, n); twice(t.b); }\n"
    "    let p = mma(load X[i, :], (load X[i, :]).T);\n"
    "    print(\"p\", t, sum(p), i);\n"
    "    assert(p >= 0.0, \"positive\");\n"
    "    store Y[i] = max(t.b, axis=1) - inf;\n"
    "    let none = load Z[0] - inf;\n"
    "    atomic_add Z[0] += none - none;\n"
    "}\n";

static void
every_allocation_may_fail_run(void **state)
{
    static const uint16_t halves[8];
    static const char *const names[] = {"Y"};
    TilecArray input = {.name = "X",
                        .kind = 'f',
                        .bytes = 2,
                        .rank = 2,
                        .shape = {2, 4},
                        .total = 16,
                        .data = halves};
    TilecRun run = {
        .inputs = &input, .n_inputs = 1, .outputs = names, .n_outputs = 1, .tolerance = true};
    TilecOptions options = tilec_default_options();
    TilecStatus status = TILEC_OUT_OF_MEMORY;

    (void)state;
    for (long k = 0; status == TILEC_OUT_OF_MEMORY; k++) {
        Meter meter = {.fail_at = k};
        TilecAllocator allocator = {meter_allocate, meter_release, &meter};
        TilecRunResult result;
        options.allocator = &allocator;
        status = tilec_run(&options, &run, "run.tile", run_text, sizeof run_text - 1, &result);
        if (status == TILEC_OUT_OF_MEMORY) {
            assert_null(result.outputs);
            assert_string_equal(result.messages, "tilec: error: out of memory [E-MEMORY]\n");
        } else {
            assert_non_null(strstr(result.messages, "makes a NaN"));
            assert_int_equal(result.outputs[0].total, 8);
        }
        tilec_run_free(&result);
        assert_int_equal(meter.live, 0);
    }
    assert_int_equal(status, TILEC_OK);
}

/* ---- results ---- */

static void
tile_ir_reads_back(void **state)
{
    TilecOptions options = tilec_default_options();
    TilecResult result;

    (void)state;
    options.emit = TILEC_EMIT_TIR;
    assert_int_equal(tilec_compile(&options, "copy.tir", tir_text, sizeof tir_text - 1, &result),
                     TILEC_OK);
    assert_string_equal(result.output, tir_text);
    assert_int_equal(result.output_bytes, sizeof tir_text - 1);
    assert_string_equal(result.messages, "");
    assert_string_equal(result.dump, "");
    assert_true(result.memory_bytes > 0);
    tilec_result_free(&result);
    tilec_result_free(&result); /* twice is harmless */
}

static void
compiling_twice_gives_the_same(void **state)
{
    TilecOptions options = tilec_default_options();
    TilecResult one, two;

    (void)state;
    assert_int_equal(tilec_compile(&options, "copy.tir", tir_text, sizeof tir_text - 1, &one),
                     TILEC_OK);
    assert_int_equal(tilec_compile(&options, "copy.tir", tir_text, sizeof tir_text - 1, &two),
                     TILEC_OK);
    assert_non_null(strstr(one.output, ".visible .entry copy("));
    assert_string_equal(one.output, two.output);
    tilec_result_free(&one);
    tilec_result_free(&two);
}

static void
errors_are_texts(void **state)
{
    TilecOptions options = tilec_default_options();
    TilecResult result;

    (void)state;
    options.arch = "sm_1";
    assert_int_equal(tilec_compile(&options, "x.tir", "", 0, &result), TILEC_ERROR);
    assert_int_equal(result.errors, 1);
    assert_null(result.output);
    assert_string_equal(result.messages, "tilec: error: there is no target 'sm_1'; "
                                         "--list-targets shows them [E-TARGET]\n");
    tilec_result_free(&result);
    options = tilec_default_options();
    options.level = 7;
    assert_int_equal(tilec_compile(&options, "x.tir", "", 0, &result), TILEC_ERROR);
    assert_string_equal(result.messages,
                        "tilec: error: the level is 7, expected 0 .. 3 [E-OPTION]\n");
    tilec_result_free(&result);
}

static bool
import_one(void *user, const char *name, const char **path, const char **text, size_t *n)
{
    int *calls = user;
    static const char module[] = "fn twice(x) { return x + x; }\n";

    ++*calls;
    if (strcmp(name, "mine") != 0)
        return false;
    *path = "mine.tile";
    *text = module;
    *n = sizeof module - 1;
    return true;
}

static void
modules_come_from_the_callback(void **state)
{
    static const char text[] = "use mine;\n"
                               "kernel k(X: in f32[S, 64], Y: out f32[S, 64]) {\n"
                               "    grid m in tiles(S, 32);\n"
                               "    store Y[m, :] = twice(load X[m, :]);\n"
                               "}\n";
    TilecOptions options = tilec_default_options();
    TilecResult result;
    int calls = 0;

    (void)state;
    options.import = import_one;
    options.import_user = &calls;
    TilecStatus status = tilec_compile(&options, "k.tile", text, sizeof text - 1, &result);
    if (status != TILEC_OK)
        print_error("%s", result.messages);
    assert_int_equal(status, TILEC_OK);
    assert_int_equal(calls, 1);
    tilec_result_free(&result);
    options.import = NULL;
    assert_int_equal(tilec_compile(&options, "k.tile", text, sizeof text - 1, &result), TILEC_ERROR);
    assert_non_null(strstr(result.messages, "k.tile:1:5: error: there is no module 'mine'"));
    tilec_result_free(&result);
}

static void
tables_are_listed(void **state)
{
    TilecResult result;

    (void)state;
    assert_int_equal(tilec_list(NULL, "passes", &result), TILEC_OK);
    assert_non_null(strstr(result.output, "swizzle"));
    tilec_result_free(&result);
    assert_int_equal(tilec_list(NULL, "targets", &result), TILEC_OK);
    assert_non_null(strstr(result.output, "sm_100"));
    tilec_result_free(&result);
    assert_int_equal(tilec_list(NULL, "chairs", &result), TILEC_ERROR);
    tilec_result_free(&result);
}

static void
refused(TilecStatus status, TilecResult *result, const char *name)
{
    assert_int_equal(status, TILEC_ERROR);
    assert_non_null(strstr(result->messages, name));
    assert_non_null(strstr(result->messages, "[E-OPTION]"));
    assert_null(result->output);
    assert_int_equal(result->errors, 1);
    tilec_result_free(result);
}

static void
missing_arguments_are_errors(void **state)
{
    const TilecOptions good = tilec_default_options();
    const TilecDefine half = {"N", NULL};
    const char *const none[] = {NULL};
    const TilecCubin cubin = {"sm_90", NULL, 4, NULL};
    const TilecAllocator empty = {NULL, NULL, NULL};
    const TilecOptions wrong[] = {
        {.arch = "sm_80", .level = 3, .defines = &half, .n_defines = 1},
        {.arch = "sm_80", .level = 3, .sizes = NULL, .n_sizes = 1},
        {.arch = "sm_80", .level = 3, .switches = none, .n_switches = 1},
        {.arch = "sm_80", .level = 3, .header_cubins = &cubin, .n_header_cubins = 1},
        {.arch = "sm_80", .level = 3, .allocator = &empty},
        {.arch = "sm_80", .level = 3, .emit = (TilecEmit)77},
        {.arch = "sm_80", .level = 3, .no_plan = (TilecAction)77},
        {.arch = "sm_80", .level = 3, .dimension = (TilecAction)77},
        {.arch = "sm_80", .level = 3, .warps = 28},
        {.arch = "sm_80", .level = 3, .warps = 64},
        {.arch = "sm_80", .level = 3, .stages = 17},
    };
    const char *const names[] = {"defines",   "sizes",    "switches", "header_cubins",
                                 "allocator", "emit",     "no_plan",  "dimension",
                                 "28 warps",  "64 warps", "17 stages"};
    TilecResult result;
    TilecStatus status;

    (void)state;
    refused(tilec_compile(NULL, "k.tir", "", 0, &result), &result, "`options` is NULL");
    refused(tilec_compile(&good, NULL, tir_text, sizeof tir_text - 1, &result), &result,
            "`path` is NULL");
    refused(tilec_compile(&good, "k.tir", NULL, 3, &result), &result, "`text` is NULL");
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++)
        refused(tilec_compile(&wrong[k], "k.tir", tir_text, sizeof tir_text - 1, &result), &result,
                names[k]);
    refused(tilec_search(&good, NULL, "k.tile", "", 0, &result), &result, "`search` is NULL");
    refused(tilec_search(&good, &(TilecSearch){.n_groups = 1}, "k.tile", "", 0, &result), &result,
            "groups");
    refused(tilec_search(&good, &(TilecSearch){.n_tiles = {0, 1}}, "k.tile", "", 0, &result),
            &result, "tiles");
    refused(tilec_list(NULL, NULL, &result), &result, "no table");
    refused(tilec_list(&empty, "passes", &result), &result, "allocator");
    assert_int_equal(tilec_compile(&good, "k.tir", tir_text, sizeof tir_text - 1, NULL),
                     TILEC_ERROR);
    assert_int_equal(tilec_list(NULL, "passes", NULL), TILEC_ERROR);
    tilec_result_free(NULL);
    tilec_run_free(NULL);
    /* an empty text is one */
    status = tilec_compile(&good, "k.tile", NULL, 0, &result);
    tilec_result_free(&result);
    assert_int_equal(tilec_compile(&good, "k.tile", "", 0, &result), status);
    tilec_result_free(&result);
}

static void
missing_arguments_of_a_run_are_errors(void **state)
{
    static const char text[] = "kernel k(X: in f32[S], Y: out f32[S]) { grid s in tiles(S, 8); "
                               "store Y[s] = load X[s]; }\n";
    static const float three[3] = {1, 2, 3};
    const TilecOptions options = tilec_default_options();
    const TilecArray nameless = {
        .kind = 'f', .bytes = 4, .rank = 1, .shape = {3}, .total = 12, .data = three};
    const TilecArray empty = {
        .name = "X", .kind = 'f', .bytes = 4, .rank = 1, .shape = {3}, .total = 12};
    const TilecArray deep = {
        .name = "X", .kind = 'f', .bytes = 4, .rank = 9, .total = 12, .data = three};
    const char *const none[] = {NULL};
    const TilecDefine half = {NULL, "3"};
    const TilecRun wrong[] = {{.n_inputs = 1},
                              {.inputs = &nameless, .n_inputs = 1},
                              {.inputs = &empty, .n_inputs = 1},
                              {.inputs = &deep, .n_inputs = 1},
                              {.outputs = none, .n_outputs = 1},
                              {.sets = &half, .n_sets = 1},
                              {.nan = (TilecNan)9}};
    TilecRunResult result;

    (void)state;
    assert_int_equal(tilec_run(&options, NULL, "k.tile", text, sizeof text - 1, &result),
                     TILEC_ERROR);
    assert_non_null(strstr(result.messages, "`run` is NULL"));
    tilec_run_free(&result);
    assert_int_equal(tilec_run(NULL, &wrong[0], "k.tile", text, sizeof text - 1, &result),
                     TILEC_ERROR);
    tilec_run_free(&result);
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        assert_int_equal(tilec_run(&options, &wrong[k], "k.tile", text, sizeof text - 1, &result),
                         TILEC_ERROR);
        assert_non_null(strstr(result.messages, "[E-OPTION]"));
        assert_int_equal(tilec_run(&options, &wrong[k], "k.tile", text, sizeof text - 1, NULL),
                         TILEC_ERROR);
        tilec_run_free(&result);
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile_ir_reads_back),
        cmocka_unit_test(compiling_twice_gives_the_same),
        cmocka_unit_test(errors_are_texts),
        cmocka_unit_test(modules_come_from_the_callback),
        cmocka_unit_test(tables_are_listed),
        cmocka_unit_test(missing_arguments_are_errors),
        cmocka_unit_test(missing_arguments_of_a_run_are_errors),
        cmocka_unit_test(every_allocation_may_fail_tir),
        cmocka_unit_test(every_allocation_may_fail_run),
        cmocka_unit_test_prestate(every_allocation_may_fail_source, argc > 1 ? argv[1] : "examples"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
