/* run.c - `tilec run`: arrays from .npy files, the interpreter, arrays into .npy files. */
#include "compiler/command/run.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/dtype.h"
#include "compiler/base/npy.h"
#include "compiler/command/files.h"

const FlagRow run_rows[] = {
    {"--in", FLAG_RUN_IN, FORM_NEXT, "NAME=FILE",
     "a tensor to read, FILE.npy; bf16 is uint16, the bits"},
    {"--out", FLAG_RUN_OUT, FORM_NEXT, "NAME=FILE", "a tensor to save after the run"},
    {"--set", FLAG_RUN_SET, FORM_NEXT, "NAME=VALUE", "a scalar, or a size that no array has"},
    {"--tolerance", FLAG_RUN_TOLERANCE, FORM_NEXT, "NAME=FILE",
     "save how far rounding alone can move each element of a tensor"},
    {"--seed", FLAG_RUN_SEED, FORM_NEXT, "N",
     "random order of the programs; 0: the order of the grid"},
    {"--sums", FLAG_RUN_SUMS, FORM_EQUALS, "TARGET",
     "sum products as the tensor cores of this chip do, bit by bit: sm_90"},
    {"--nan", FLAG_RUN_NAN, FORM_EQUALS, "WHAT",
     "an operation that makes a NaN: note (the default), error or ignore"},
};
const size_t run_row_count = sizeof run_rows / sizeof run_rows[0];

void
run_flags_init(RunFlags *flags, size_t argc)
{
    RunList *lists[] = {&flags->inputs, &flags->outputs, &flags->sets, &flags->tolerances};

    *flags = (RunFlags){.nan = TILEC_NAN_NOTE};
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++)
        lists[k]->at = allocate(sizeof *lists[k]->at * argc);
}

void
run_flags_free(RunFlags *flags)
{
    RunList *lists[] = {&flags->inputs, &flags->outputs, &flags->sets, &flags->tolerances};

    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        for (size_t i = 0; i < lists[k]->n; i++)
            free((char *)lists[k]->at[i].name);
        free(lists[k]->at);
    }
}

int
run_flag_set(RunFlags *flags, const FlagRow *row, const char *value)
{
    static const char *const nans[] = {
        [TILEC_NAN_NOTE] = "note", [TILEC_NAN_IGNORE] = "ignore", [TILEC_NAN_ERROR] = "error"};
    char *end;

    switch (row->flag) {
    case FLAG_RUN_IN: return add_define(row->text, value, flags->inputs.at, &flags->inputs.n);
    case FLAG_RUN_OUT: return add_define(row->text, value, flags->outputs.at, &flags->outputs.n);
    case FLAG_RUN_SET: return add_define(row->text, value, flags->sets.at, &flags->sets.n);
    case FLAG_RUN_TOLERANCE:
        return add_define(row->text, value, flags->tolerances.at, &flags->tolerances.n);
    case FLAG_RUN_SUMS: flags->sums = value; return 0;
    case FLAG_RUN_SEED:
        flags->seed = strtoull(value, &end, 10);
        if (end == value || *end != '\0' || value[0] == '-')
            return complain("--seed %s: expected a number", value);
        return 0;
    default:
        for (int k = 0; k < 3; k++)
            if (strcmp(nans[k], value) == 0) {
                flags->nan = (TilecNan)k;
                return 0;
            }
        return complain("--nan=%s: expected note, error or ignore", value);
    }
}

/* ---- the run ---- */

typedef struct Files {
    Arena arena;
    jmp_buf on_failure;
    const RunFlags *flags;
    TilecRunResult result;
} Files;

static void
print_text(void *user, const char *text, size_t n)
{
    (void)user;
    fwrite(text, 1, n, stdout);
}

static bool
read_inputs(Files *files, TilecArray *out, Fault *fault)
{
    for (size_t k = 0; k < files->flags->inputs.n; k++) {
        const TilecDefine *given = &files->flags->inputs.at[k];
        NpyArray array;
        if (!npy_read(&files->arena, given->value, &array, fault))
            return false;
        out[k] = (TilecArray){.name = given->name,
                              .kind = array.kind,
                              .bytes = array.bytes,
                              .rank = array.rank,
                              .total = array.total,
                              .data = array.data};
        for (uint32_t d = 0; d < array.rank; d++)
            out[k].shape[d] = array.shape[d];
    }
    return true;
}

static void
print_saved(const TilecArray *array, const char *path)
{
    const char *type = NULL;

    for (int k = 0; k < DT_COUNT && type == NULL; k++) {
        if (dtype_has((DType)k, USE_TENSOR) && array->kind == dtype_npy((DType)k) &&
            array->bytes == dtype_bits((DType)k) / 8)
            type = dtype_name((DType)k);
    }

    printf("%s: %s[", array->name, type);
    for (uint32_t d = 0; d < array->rank; d++)
        printf("%s%lld", d > 0 ? ", " : "", (long long)array->shape[d]);
    printf("] in %s\n", path);
}

/* Saves result `from`, or its tolerances, as doubles. */
static bool
save(Files *files, const TilecArray *from, const char *path, bool tolerance, Fault *fault)
{
    NpyArray array = {.kind = tolerance ? 'f' : from->kind,
                      .bytes = tolerance ? 8 : from->bytes,
                      .rank = from->rank,
                      .total = tolerance ? from->total / from->bytes * 8 : from->total};

    for (uint32_t d = 0; d < from->rank; d++)
        array.shape[d] = from->shape[d];
    array.data = arena_copy(&files->arena, tolerance ? (const void *)from->tolerance : from->data,
                            array.total);
    if (!npy_write(path, &array, fault))
        return false;
    if (!tolerance)
        print_saved(from, path);
    return true;
}

/* Outputs come first, then tolerances. */
static const TilecDefine *
saved_to(const RunFlags *flags, size_t k)
{
    return k < flags->outputs.n ? &flags->outputs.at[k]
                                : &flags->tolerances.at[k - flags->outputs.n];
}

static int
run_guarded(Files *files, const TilecOptions *options, const char *path, const char *text, size_t n)
{
    const RunFlags *flags = files->flags;
    size_t outputs = flags->outputs.n, all = outputs + flags->tolerances.n;
    Fault fault;

    if (setjmp(files->on_failure) != 0) {
        fputs("tilec: error: out of memory [E-MEMORY]\n", stderr);
        return EXIT_BUG;
    }
    TilecArray *inputs = arena_array(&files->arena, TilecArray, flags->inputs.n + 1);
    const char **names = arena_array(&files->arena, const char *, all + 1);
    if (!read_inputs(files, inputs, &fault))
        return complain("E-FILE: %s", fault.text);
    for (size_t k = 0; k < all; k++) {
        const TilecDefine *to = saved_to(flags, k);
        names[k] = to->name;
        if (check_writable(to->value) != 0)
            return EXIT_USER;
    }
    TilecRun run = {
        .inputs = inputs,
        .n_inputs = flags->inputs.n,
        .sets = flags->sets.at,
        .n_sets = flags->sets.n,
        .outputs = names,
        .n_outputs = all,
        .tolerance = flags->tolerances.n > 0,
        .seed = flags->seed,
        .nan = flags->nan,
        .sums = flags->sums,
        .print = print_text,
    };
    TilecStatus status = tilec_run(options, &run, path, text, n, &files->result);
    fflush(stdout);
    fputs(files->result.messages, stderr);
    if (status != TILEC_OK)
        return status == TILEC_ERROR ? EXIT_USER : EXIT_BUG;
    for (size_t k = 0; k < all; k++) {
        if (!save(files, &files->result.outputs[k], saved_to(flags, k)->value, k >= outputs, &fault))
            return complain("E-FILE: %s", fault.text);
    }
    return 0;
}

int
run_program(const TilecOptions *options, const RunFlags *flags, const char *path, const char *text,
            size_t n)
{
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, ".ptx") == 0)
        return complain("E-RUN-INPUT: %s is PTX, which `tilerun %s` runs; `tilec run` takes its "
                        "source",
                        path, path);
    Files *files = allocate(sizeof *files);

    files->flags = flags;
    files->result.messages = "";
    arena_init(&files->arena, allocator_libc(), &files->on_failure);
    int status = run_guarded(files, options, path, text, n);
    tilec_run_free(&files->result);
    arena_free(&files->arena);
    free(files);
    return status;
}
