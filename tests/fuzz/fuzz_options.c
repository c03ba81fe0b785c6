/* fuzz_options.c - the texts beside the program: --plan, -D, --size, -f, and the tuning database.
 *
 * One byte chooses the target and the level.  The first line of the text is the plan, the second
 * values NAME=VALUE (names of one letter are sizes, others parameters), the third the switches; the
 * rest is the tuning database.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tilec.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_WORDS = 64 };

const size_t fuzz_choices = 1;

static const char program[] =
    "kernel gemm<T: type = f16, TM: int = auto, TN: int = 64, BIAS: bool = false>\n"
    "(   A: in  T[M, K] align(16), B: in  T[K, N] align(16), bias: in f32[N],\n"
    "    C: out T[M, N] align(16))\n"
    "{\n"
    "    grid n in tiles(N, TN), m in tiles(M, TM);\n"
    "    var acc = zeros<f32>[TM, TN];\n"
    "    for k in tiles(K, 64) {\n"
    "        acc = mma(load A[m, k], load B[k, n], acc);\n"
    "    }\n"
    "    if BIAS { let b = load bias[n]; acc = acc + b[None, :]; }\n"
    "    store C[m, n] = acc as T;\n"
    "}\n";

void
fuzz_choose(const char *path, uint64_t draw, uint8_t *choice)
{
    (void)path;
    choice[0] = (uint8_t)draw;
}

/* Cuts the line at *rest off, and ends it. */
static char *
next_line(char **rest)
{
    char *line = *rest;
    size_t n = strcspn(line, "\n");

    *rest = line + n + (line[n] == '\n');
    line[n] = '\0';
    return line;
}

static void
read_values(char *line, TilecOptions *options, TilecDefine *defines, TilecDefine *sizes)
{
    options->defines = defines;
    options->sizes = sizes;
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        if (equals == NULL || options->n_defines == MOST_WORDS || options->n_sizes == MOST_WORDS)
            continue;
        *equals = '\0';
        if (strlen(word) == 1)
            sizes[options->n_sizes++] = (TilecDefine){word, equals + 1};
        else
            defines[options->n_defines++] = (TilecDefine){word, equals + 1};
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const archs[] = {"sm_90", "sm_80", "sm_90", "sm_100"};
    TilecDefine defines[MOST_WORDS], sizes[MOST_WORDS];
    const char *switches[MOST_WORDS];
    Meter meter = {0, 64u << 20};
    TilecAllocator allocator = {meter_allocate, meter_release, &meter};
    TilecOptions options = tilec_default_options();
    TilecResult result;
    char *text = n < fuzz_choices ? NULL : calloc(n, 1), *rest = text;

    if (text == NULL)
        return 0;
    memcpy(text, data + fuzz_choices, n - fuzz_choices);
    options.arch = archs[data[0] & 3];
    options.level = (data[0] & 12) == 12 ? 0 : 3;
    options.verify = true;
    options.remarks = (data[0] & 16) != 0;
    options.allocator = &allocator;
    char *plan = next_line(&rest), *values = next_line(&rest), *listed = next_line(&rest);
    options.plan = *plan == '\0' ? NULL : plan;
    read_values(values, &options, defines, sizes);
    options.switches = switches;
    for (char *word = strtok(listed, " "); word != NULL; word = strtok(NULL, " ")) {
        if (options.n_switches < MOST_WORDS)
            switches[options.n_switches++] = word;
    }
    options.tuning = rest;
    options.tuning_path = "fuzz.tuning";
    if (options.n_defines < MOST_WORDS && (data[0] & 224) != 0) /* a search takes long */
        defines[options.n_defines++] = (TilecDefine){"TM", "64"};
    if (tilec_compile(&options, "fuzz.tile", program, sizeof program - 1, &result) == TILEC_BUG) {
        fprintf(stderr, "%s", result.messages);
        abort();
    }
    tilec_result_free(&result);
    free(text);
    return 0;
}
