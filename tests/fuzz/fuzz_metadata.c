/* fuzz_metadata.c - what a PTX file says of itself: found, parsed, and a launch checked against it.
 *
 * One byte chooses whether the text is PTX, JSON, a launch expression, or what ptxas and a
 * disassembler print.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/launch.h"
#include "compiler/report/after_ptxas.h"
#include "tests/fuzz/fuzz.h"

const size_t fuzz_choices = 1;

enum { PTX, JSON, EXPRESSION, PTXAS, SASS };

void
fuzz_choose(const char *path, uint64_t draw, uint8_t *choice)
{
    static const char *const ends[] = {".ptx", ".json", ".expr", ".ptxas", ".sass"};
    size_t n = strlen(path);

    choice[0] = (uint8_t)(draw & 0xf8);
    for (uint8_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
        size_t m = strlen(ends[k]);
        if (n >= m && strcmp(path + n - m, ends[k]) == 0)
            choice[0] |= k;
    }
}

static bool
look_up(const void *user, const char *name, size_t n, Number *out)
{
    (void)user;
    *out = (Number){.is_float = n > 4, .integer = (int64_t)n * 100, .real = 0.5};
    return n < 8 && name[0] != 'x';
}

/* A launch of 16 rows of everything. */
static void
prepare(Arena *arena, const MetaKernel *kernel)
{
    LaunchValues values = launch_values_new(arena, kernel, 132, 228 * 1024);
    TensorView *views = arena_array(arena, TensorView, kernel->tensors.n + 1);
    uint64_t *memory = arena_array(arena, uint64_t, kernel->memories.n + 1);
    LaunchReady ready;
    Fault fault;

    for (uint32_t k = 0; k < kernel->sizes.n; k++) {
        values.size[k] = 16;
        values.size_known[k] = k % 5 != 4;
    }
    for (uint32_t k = 0; k < kernel->scalars.n; k++) {
        values.scalar[k] = (Number){.is_float = dtype_is_float(kernel->scalars.at[k].dtype),
                                    .integer = 1};
        values.scalar_known[k] = true;
    }
    for (uint32_t k = 0; k < kernel->tensors.n; k++) {
        const MetaTensor *tensor = &kernel->tensors.at[k];
        TensorView *view = &views[k];
        int64_t stride = 1;
        *view = (TensorView){.address = 4096, .rank = tensor->rank, .dtype = tensor->dtype};
        if (!launch_shape(&values, k, view->shape, &fault))
            return;
        for (uint32_t d = view->rank; d-- > 0;) {
            view->stride[d] = stride;
            if (view->shape[d] > ((int64_t)1 << 40) / (stride == 0 ? 1 : stride))
                return;
            stride *= view->shape[d];
        }
        if (!launch_bind_shape(&values, k, view->rank, view->shape, &fault))
            return;
    }
    kernel = values.kernel = launch_variant(&values);
    memory = arena_array(arena, uint64_t, kernel->memories.n + 1);
    for (uint32_t k = 0; k < kernel->memories.n; k++) {
        size_t bytes;
        if (!launch_memory_size(&values, k, &bytes, &fault))
            return;
    }
    launch_prepare(arena, &values, views, memory, 4096, &ready, &fault);
}

static void
read_text(Arena *arena, int kind, const char *text, size_t n)
{
    const char *json = text;
    Fault fault;
    Number number;

    if (kind == PTXAS) {
        static const AfterActions actions;
        Buf out;
        PtxasSaid said = {0};
        SassKernels none = {0};
        buf_init(&out, arena);
        ptxas_read(arena, text, text, &said);
        after_report(&said, &none, NULL, &out);
        after_warnings(&said, text, "fuzz.ptx", &actions, &out);
        return;
    }
    if (kind == SASS) {
        SassKernels kernels = {0};
        Buf out;
        PtxasSaid said = {0};
        buf_init(&out, arena);
        if (sass_read(arena, text, &kernels))
            after_report(&said, &kernels, NULL, &out);
        return;
    }
    if (kind == EXPRESSION) {
        expression_evaluate(text, look_up, NULL, &number, &fault);
        return;
    }
    if (kind == PTX)
        json = metadata_find(arena, text, n, &fault);
    const Metadata *meta = json == NULL ? NULL : metadata_parse(arena, json, &fault);
    for (uint32_t k = 0; meta != NULL && k < meta->kernels.n; k++)
        prepare(arena, &meta->kernels.at[k]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    jmp_buf no_memory;
    Meter meter = {0, 64u << 20};
    Arena *arena = malloc(sizeof *arena);
    char *text = n < fuzz_choices ? NULL : calloc(n, 1);

    if (arena != NULL && text != NULL) {
        memcpy(text, data + fuzz_choices, n - fuzz_choices);
        arena_init(arena, (Allocator){meter_allocate, meter_release, &meter}, &no_memory);
        if (setjmp(no_memory) == 0)
            read_text(arena, data[0] & 7, text, n - fuzz_choices);
        arena_free(arena);
    }
    free(text);
    free(arena);
    return 0;
}
