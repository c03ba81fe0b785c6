/* fuzz_npy.c - bytes as a .npy file: read; what can be read is written and read again. */
#define _GNU_SOURCE /* memfd_create */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/base/npy.h"
#include "tests/fuzz/fuzz.h"

const size_t fuzz_choices = 0;

void
fuzz_choose(const char *path, uint64_t draw, uint8_t *choice)
{
    (void)path;
    (void)draw;
    (void)choice;
}

/* What was read comes back when it is written. */
static void
write_again(Arena *arena, const char *path, const NpyArray *array)
{
    NpyArray again;
    Fault fault;

    if (!npy_write(path, array, &fault) || !npy_read(arena, path, &again, &fault)) {
        fprintf(stderr, "%s\n", fault.text);
        abort();
    }
    if (again.kind != array->kind || again.bytes != array->bytes || again.rank != array->rank ||
        again.total != array->total || memcmp(again.data, array->data, array->total) != 0 ||
        memcmp(again.shape, array->shape, array->rank * sizeof *array->shape) != 0)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    jmp_buf no_memory;
    Meter meter = {0, 64u << 20};
    Arena *arena = malloc(sizeof *arena);
    int file = memfd_create("npy", 0);
    char path[64];

    if (arena == NULL || file < 0 || write(file, data, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    arena_init(arena, (Allocator){meter_allocate, meter_release, &meter}, &no_memory);
    if (setjmp(no_memory) == 0) {
        NpyArray array;
        Fault fault;
        if (npy_read(arena, path, &array, &fault))
            write_again(arena, path, &array);
    }
    arena_free(arena);
    free(arena);
    close(file);
    return 0;
}
