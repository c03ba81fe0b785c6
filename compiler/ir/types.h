/* types.h - element types and tile types, shared by tile IR and its makers. */
#ifndef TILEC_IR_TYPES_H
#define TILEC_IR_TYPES_H

#include <stdbool.h>
#include <stdint.h>

/* What the elements of a type are. */
typedef enum DKind { KIND_BOOL, KIND_SIGNED, KIND_UNSIGNED, KIND_FLOAT } DKind;

/* What the lowering may have for a type: a set of them in types.def, one in tir.def. */
typedef enum TypeUse {
    USE_NONE = 0,
    USE_VALUES = 1 << 0, /* constants, shapes, what loops and branches give, exchanges of threads */
    USE_MEMORY = 1 << 1, /* in global, shared and tensor memory */
    USE_CAST_FROM = 1 << 2,
    USE_CAST_TO = 1 << 3,
    USE_CHOICE = 1 << 4, /* between two values, by a bool */
    USE_EQUALITY = 1 << 5,
    USE_ORDER = 1 << 6,      /* which of two is less */
    USE_ARITHMETIC = 1 << 7, /* + - * / min max */
    USE_FUNCTIONS = 1 << 8,  /* of real numbers, and what knows infinities */
    USE_INTEGERS = 1 << 9,   /* remainder, shifts */
    USE_BITS = 1 << 10,
    USE_REDUCTION = 1 << 11, /* to a sum, or the greatest or least element */
    USE_VOTE = 1 << 12,      /* any, all */
    USE_ADDITION = 1 << 13,  /* to memory */
    USE_PRODUCT = 1 << 14,   /* as an operand of products */
    USE_HELD = USE_VALUES | USE_MEMORY | USE_CAST_FROM | USE_CAST_TO | USE_CHOICE,
    USE_NUMBER = USE_EQUALITY | USE_ORDER | USE_ARITHMETIC,
    USE_SUMS = USE_REDUCTION | USE_ADDITION
} TypeUse;

/* Element types (types.def). */
typedef enum DType {
#define DTYPE(name, text, bits, kind, digits, least, greatest, uses) DT_##name,
#include "compiler/ir/types.def"
#undef DTYPE
    DT_COUNT
} DType;

const char *dtype_name(DType dtype); /* "bool", "i32", .. */
uint32_t dtype_bits(DType dtype);    /* in memory; bool counts 8 */
DKind dtype_kind(DType dtype);
bool dtype_is_float(DType dtype);
bool dtype_has(DType dtype, TypeUse use);
/* Elements that share a word of 32 bits in registers; 1: each has a register of its own. */
uint32_t dtype_per_word(DType dtype);
/* The type that elements have when they are taken out of such a word; else the type itself. */
DType dtype_wide(DType dtype);
/* The nearest value of a float type to a number, through f32; ties go to the even one. */
float dtype_nearest(DType dtype, double number);
/* Finds a dtype by name; false when there is none. */
bool dtype_parse(const char *text, DType *out);

enum { TIR_MAX_RANK = 4, TENSOR_MAX_RANK = 6 };

/* Passes count elements, registers and bytes in 32 bits; within these limits, which the verifier keeps, they
 * have room to.  TILE: of each value; SHARED: of a stage, whose rows are rounded up, and far more bytes than any
 * chip has, so that a kernel that needs too much is refused with the chip's own number. */
enum {
    TILE_MAX_EXTENT = 8192,
    TILE_MAX_ELEMENTS = 1 << 17,
    SHARED_MAX_ELEMENTS = 8 * TILE_MAX_ELEMENTS,
    SHARED_MAX_STAGES = 64,
    SHARED_MAX_BYTES = 4 * SHARED_MAX_ELEMENTS * SHARED_MAX_STAGES,
    LOOP_MAX_STAGES = 16,
    LOOP_MAX_DEPTH = 12, /* some passes go through a body twice, and each time through what is inside */
    BLOCK_MAX_WARPS = 32 /* 1024 threads */
};

/* A scalar (rank 0) or a tile with compile-time extents. */
typedef struct TirType {
    DType dtype;
    uint32_t rank;
    int32_t dim[TIR_MAX_RANK];
} TirType;

#endif
