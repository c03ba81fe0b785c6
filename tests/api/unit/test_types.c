/* test_types.c - operations of every element type, written as tile IR, past the front end.
 *
 * The verifier must refuse an operation of a type exactly where dtype.def lacks it, and name the
 * operation.  What the table has must come out of the lowering, on targets of different kinds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/ir/tir.h"
#include "compiler/tilec.h"

static const char *const archs[] = {"sm_80", "sm_90", "sm_100"};

/* One operation: the text behind its result, of operands %0 and %1 of the type and %2 of bool. */
typedef struct Case {
    TirOpcode op;
    const char *text, *result; /* NULL: the type itself */
    DType to;                  /* of a cast, and bits */
} Case;

static bool
is_expected(const Case *c, DType type)
{
    TypeUse use = tir_op_info(c->op)->use;
    bool vote = strstr(c->text, "any") != NULL || strstr(c->text, "all") != NULL;
    DType bits;

    if (c->op == TIR_CAST && !dtype_has(c->to, USE_CAST_TO))
        return false;
    if (c->op == TIR_BITS && !(dtype_of_bits(type, &bits) && bits == c->to) &&
        !(dtype_of_bits(c->to, &bits) && bits == type))
        return false;
    if (c->op == TIR_REDUCE && vote)
        use = USE_VOTE;
    if (!dtype_has(type, USE_TENSOR) && (c->op == TIR_STORE || c->op == TIR_ATOMIC_ADD))
        return false;
    return dtype_has(type, USE_VALUES) && dtype_has(type, USE_MEMORY) &&
           (use == 0 || dtype_has(type, use));
}

/* What elements are in tensors: of types of tiles alone, what they are cast from and to. */
static const char *
in_tensors(const char *name)
{
    DType dtype = DT_F32;

    return dtype_parse(name, &dtype) && dtype_has(dtype, USE_VALUES) &&
                   !dtype_has(dtype, USE_TENSOR)
               ? dtype_name(dtype_wide(dtype))
               : name;
}

/* A kernel that loads two tiles, and stores what the operation makes of them. */
static int
write_kernel(char *text, size_t n, const Case *c, DType type)
{
    bool product = c->op == TIR_MMA, reduced = c->op == TIR_REDUCE;
    const char *name = dtype_name(type), *held = in_tensors(name),
               *result = product             ? dtype_name(dtype_wide(type))
                         : c->result == NULL ? name
                                             : c->result;
    int at = snprintf(text, n,
                      "kernel k {\n    tensor A: in %s[64, 64] align 16\n"
                      "    tensor B: in %s[64, 64] align 16\n"
                      "    tensor C: in bool[64, 64] align 16\n"
                      "    tensor R: inout %s[64, 64] align 16%s\n    warps 4\n    body {\n"
                      "        %%10: %s[64,64] = load A[:, :]\n"
                      "        %%0: %s[64,64] = cast %%10\n"
                      "        %%11: %s[64,64] = load B[:, :]\n"
                      "        %%1: %s[64,64] = cast %%11\n"
                      "        %%2: bool[64,64] = load C[:, :]\n",
                      held, held, in_tensors(result), c->op == TIR_ATOMIC_ADD ? " atomic" : "",
                      held, name, held, name);
    if (c->op == TIR_STORE || c->op == TIR_ATOMIC_ADD)
        return at + snprintf(text + at, n - (size_t)at, "        %s\n    }\n}\n", c->text);
    if (product)
        at += snprintf(text + at, n - (size_t)at, "        %%3: %s[64,64] = const 0\n", result);
    return at + snprintf(text + at, n - (size_t)at,
                         "        %%4: %s[64%s] = %s\n%s        %%6: %s[64%s] = cast %%4\n"
                         "        store R[%s:], %%6\n    }\n}\n",
                         result, reduced ? "" : ",64", c->text,
                         reduced ? "        %5: i32 = const 0\n" : "", in_tensors(result),
                         reduced ? "" : ",64", reduced ? "%5, " : ":, ");
}

static void
try_case(const Case *c, DType type)
{
    TilecOptions options = tilec_default_options();
    char text[2048], fault[128];
    int n = write_kernel(text, sizeof text, c, type);
    bool expected = is_expected(c, type);

    snprintf(fault, sizeof fault, "'%s'", tir_op_info(c->op)->text);
    for (size_t k = 0; k < (expected ? sizeof archs / sizeof archs[0] : 1); k++) {
        TilecResult result;
        options.arch = archs[k];
        TilecStatus status = tilec_compile(&options, "k.tir", text, (size_t)n, &result);
        const char *said = result.messages == NULL ? "" : result.messages;
        if (status != (expected ? TILEC_OK : TILEC_ERROR))
            fail_msg("%s: %s of %s, %s:\n%s%s", archs[k], c->text, dtype_name(type),
                     expected ? "which is there" : "which is not", said, text);
        if (!expected && (strstr(said, "not valid tile IR") == NULL ||
                          (dtype_has(type, USE_VALUES) && strstr(said, fault) == NULL)))
            fail_msg("%s of %s is refused for another reason: %s", c->text, dtype_name(type), said);
        tilec_result_free(&result);
    }
}

static void
test_elementwise(void **state)
{
    (void)state;
    for (int op = 0; op < TIR_OPCODE_COUNT; op++) {
        const TirOpInfo *info = tir_op_info((TirOpcode)op);
        bool compares = info->use == USE_EQUALITY || info->use == USE_ORDER;
        char text[64];
        if ((info->flags & TF_ELEMENTWISE) == 0 || op == TIR_CAST || op == TIR_BITS ||
            op == TIR_KEEP)
            continue;
        if (op == TIR_SELECT)
            snprintf(text, sizeof text, "select %%2, %%0, %%1");
        else if (op == TIR_MASK || op == TIR_BOUNDS_MASK)
            snprintf(text, sizeof text, "%s %%0, %%2%s", info->text,
                     op == TIR_MASK ? "" : " value(0)");
        else
            snprintf(text, sizeof text, "%s %%0%s%s", info->text, info->args > 1 ? ", %1" : "",
                     info->args > 2 ? ", %0" : "");
        for (int type = 0; type < DT_COUNT; type++)
            try_case(&(Case){(TirOpcode)op, text, compares ? "bool" : NULL, DT_BOOL}, (DType)type);
    }
}

static void
test_casts(void **state)
{
    (void)state;
    for (int to = 0; to < DT_COUNT; to++) {
        for (int from = 0; from < DT_COUNT; from++)
            try_case(&(Case){TIR_CAST, "cast %0", dtype_name((DType)to), (DType)to}, (DType)from);
        for (int from = 0; from < DT_COUNT; from++)
            try_case(&(Case){TIR_BITS, "bits %0", dtype_name((DType)to), (DType)to}, (DType)from);
    }
}

static void
test_others(void **state)
{
    static const Case cases[] = {
        {TIR_TRANSPOSE, "transpose %0", NULL, DT_BOOL},
        {TIR_CONST, "const 1", NULL, DT_BOOL},
        {TIR_REDUCE, "reduce sum %0 axis(1)", NULL, DT_BOOL},
        {TIR_REDUCE, "reduce sum %0 axis(0)", NULL, DT_BOOL},
        {TIR_REDUCE, "reduce max %0 axis(1)", NULL, DT_BOOL},
        {TIR_REDUCE, "reduce min %0 axis(0)", NULL, DT_BOOL},
        {TIR_REDUCE, "reduce any %0 axis(1)", NULL, DT_BOOL},
        {TIR_REDUCE, "reduce all %0 axis(0)", NULL, DT_BOOL},
        {TIR_SCAN, "scan sum %0 axis(1)", NULL, DT_BOOL},
        {TIR_SCAN_BACK, "scan_back max %0 axis(0)", NULL, DT_BOOL},
        {TIR_MMA, "mma %0, %1, %3", "f32", DT_BOOL},
        {TIR_STORE, "store R[:, :], %0", NULL, DT_BOOL},
        {TIR_ATOMIC_ADD, "atomic_add R[:, :], %0", NULL, DT_BOOL},
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        for (int type = 0; type < DT_COUNT; type++)
            try_case(&cases[k], (DType)type);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
