/* test_units.c - the table of operations and units (op_units.c) against the instructions of the
 * PTX.
 *
 * A kernel applies one operation to each element of a tile.  Beside the kernel that only copies, it
 * has as many instructions an element as the table says, and as many of these are MUFU's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/ir/op_units.h"
#include "compiler/tilec.h"

enum { ELEMENTS = 1024, WARPS = 4, EACH = ELEMENTS / 32 / WARPS };
/* Instructions of a reciprocal that kernels without products have in place of a branch. */
enum { STEP = 10 };

typedef struct Counts {
    int mufu, all;
} Counts;

/* Of the PTX of a kernel that stores `expression` of the elements `x`. */
static Counts
count(const char *expression, const char *type)
{
    static const char *const mufu[] = {"ex2.",  "lg2.", "sqrt.", "rsqrt.", "rcp.",
                                       "tanh.", "sin.", "cos.",  "div."};
    TilecOptions options = tilec_default_options();
    TilecResult result;
    Counts counts = {0, 0};
    char text[512];
    int n = snprintf(
        text, sizeof text,
        "kernel k(X: in f32[4096] align(16), Y: out %s[4096] align(16)) { grid i in tiles(4096, 1024); "
        "let x = load X[i]; store Y[i] = %s; }",
        type, expression);

    options.arch = "sm_90";
    options.warps = WARPS;
    if (tilec_compile(&options, "x.tile", text, (size_t)n, &result) != TILEC_OK)
        fail_msg("%s: %s", expression, result.messages);
    for (const char *line = result.output; line != NULL; line = strchr(line, '\n')) {
        line += strspn(line, "\n\t ");
        bool moves = strncmp(line, "ld.", 3) == 0 || strncmp(line, "st.", 3) == 0 ||
                     strncmp(line, "mov.", 4) == 0;
        if (*line < 'a' || *line > 'z' || moves)
            continue;
        counts.all++;
        for (size_t k = 0; k < sizeof mufu / sizeof mufu[0]; k++)
            counts.mufu += strncmp(line, mufu[k], strlen(mufu[k])) == 0;
    }
    tilec_result_free(&result);
    return counts;
}

static void
test_instructions(void **state)
{
    static const struct {
        TirOpcode op;
        const char *expression, *type;
    } rows[] = {
        {TIR_EXP, "exp(x)", "f32"},      {TIR_EXP2, "exp2(x)", "f32"},
        {TIR_LOG, "log(x)", "f32"},      {TIR_LOG2, "log2(x)", "f32"},
        {TIR_SQRT, "sqrt(x)", "f32"},    {TIR_RSQRT, "rsqrt(x)", "f32"},
        {TIR_RCP, "rcp(x)", "f32"},      {TIR_TANH, "tanh(x)", "f32"},
        {TIR_SIN, "sin(x)", "f32"},      {TIR_COS, "cos(x)", "f32"},
        {TIR_DIV, "3.0 / x", "f32"},     {TIR_FLOOR, "floor(x)", "f32"},
        {TIR_ADD, "x + 3.0", "f32"},     {TIR_MUL, "x * x", "f32"},
        {TIR_MAX, "max(x, 3.0)", "f32"}, {TIR_NEG, "-x", "f32"},
        {TIR_CAST, "x as bf16", "bf16"},
    };
    Counts copy = count("x", "f32");
    TirVal value = {.type = {.dtype = DT_F32, .rank = 1, .dim = {ELEMENTS}}};
    TirVal *results[] = {&value};

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        TirOp op = {.op = rows[k].op, .n_results = 1, .results = results};
        OpUse use = op_use(&op);
        Counts counts = count(rows[k].expression, rows[k].type);
        int more = counts.all - copy.all - (int)((use.mufu + use.alu) * EACH) -
                   (rows[k].op == TIR_RCP ? STEP * EACH : 0);
        assert_ptr_equal(use.of, &value);
        /* one for an address of two bytes */
        if (counts.mufu != (int)(use.mufu * EACH) || more < 0 || more > 1)
            fail_msg(
                "%s: %d instructions, %d of them MUFU's; the table says %g and %g for each of %d elements",
                rows[k].expression, counts.all - copy.all, counts.mufu, use.mufu + use.alu,
                use.mufu, EACH);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_instructions)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
