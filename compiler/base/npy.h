/* npy.h - arrays in numpy's .npy files (version 1 to 3, little endian, C order). */
#ifndef TILEC_BASE_NPY_H
#define TILEC_BASE_NPY_H

#include <stdint.h>

#include "compiler/base/fault.h"
#include "compiler/base/arena.h"

enum { NPY_MAX_RANK = 8 };

typedef struct NpyArray {
    char kind;      /* numpy's letter: f, i, u, b (bool), V (raw bytes) */
    uint32_t bytes; /* of an element */
    uint32_t rank;
    int64_t shape[NPY_MAX_RANK];
    size_t total; /* bytes of all elements */
    void *data;   /* C order, on the arena */
} NpyArray;

bool npy_read(Arena *arena, const char *path, NpyArray *out, Fault *fault);
/* The file appears whole or not at all. */
bool npy_write(const char *path, const NpyArray *array, Fault *fault);

/* "float32", "uint16", ..: for messages. */
const char *npy_type_name(Arena *arena, const NpyArray *array);

/* How a tilec element type travels (dtype.def): f16 as float16, bf16 as uint16, its bits.  False
 * when there is no such type. */
bool npy_type_of(const char *dtype, char *kind, uint32_t *bytes);
/* "bool, i32, ..": the element types, for messages. */
const char *npy_types(Arena *arena);

#endif
