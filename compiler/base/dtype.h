/* dtype.h - element types. */
#ifndef TILEC_BASE_DTYPE_H
#define TILEC_BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

/* What the elements of a type are. */
typedef enum DKind { KIND_BOOL, KIND_SIGNED, KIND_UNSIGNED, KIND_FLOAT } DKind;

/* What the lowering may have for a type: a set of them in dtype.def, one in tir.def. */
typedef enum TypeUse {
    USE_NONE = 0,
    USE_VALUES = 1 << 0, /* constants, shapes, what loops and branches give, exchanges of threads */
    USE_MEMORY = 1 << 1, /* in shared and tensor memory */
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
    USE_RAISING = 1 << 15,   /* to the greater of it and what memory has, or the less */
    USE_PRODUCT = 1 << 14,   /* as an operand of products */
    USE_PARAMETER = 1 << 16, /* of a kernel, a scalar */
    USE_HIGH = 1 << 17,      /* the upper half of a product */
    USE_PACKED = 1 << 18,    /* in tensors, two to a byte; casts from it and to it */
    USE_TENSOR = 1 << 19,    /* in tensors: global memory, arrays */
    USE_SCALED = 1 << 20,    /* as an operand of products, with scales of its blocks */
    USE_SCALES = 1 << 21,    /* as these scales */
    USE_TILES = USE_VALUES | USE_MEMORY | USE_CAST_FROM | USE_CAST_TO | USE_CHOICE,
    USE_HELD = USE_TILES | USE_TENSOR,
    USE_NAMED = USE_VALUES | USE_PACKED, /* a program may say its name */
    USE_NUMBER = USE_EQUALITY | USE_ORDER | USE_ARITHMETIC,
    USE_SUMS = USE_REDUCTION | USE_ADDITION | USE_RAISING
} TypeUse;

/* Element types (dtype.def). */
typedef enum DType {
#define DTYPE(name, ...) DT_##name,
#include "compiler/base/dtype.def"
#undef DTYPE
    DT_COUNT
} DType;

/* CUtensorMapDataType, of the driver. */
typedef enum MapType {
    MAP_UINT8 = 0,
    MAP_UINT32 = 2,
    MAP_INT32 = 3,
    MAP_FLOAT16 = 6,
    MAP_FLOAT32 = 7,
    MAP_BFLOAT16 = 9,
    MAP_TFLOAT32 = 11
} MapType;

const char *dtype_name(DType dtype); /* "bool", "i32", .. */
uint32_t dtype_bits(DType dtype);    /* in memory; bool counts 8 */
DKind dtype_kind(DType dtype);
bool dtype_is_float(DType dtype);
char dtype_npy(DType dtype); /* the kind of arrays of it: 'f', 'i', 'u' or 'b' */
/* Whether an array of such a kind and such elements can be of the type: the bits of a float in any
 * integers. */
bool dtype_takes(DType dtype, char kind, uint32_t bytes);
MapType dtype_map(DType dtype);
const char *dtype_map_name(DType dtype); /* "FLOAT16", .. */
/* Of scalar parameters: the type in C, "int32_t", and in the metadata, "s32"; NULL: there are none
 * of it. */
const char *dtype_c(DType dtype);
const char *dtype_scalar(DType dtype);
bool dtype_has(DType dtype, TypeUse use);
/* The type of an array's elements: u8 of types that are packed, whose first element is the lower
 * half of the byte. */
DType dtype_stored(DType dtype);
/* Elements that share a word of 32 bits in registers; 1: each has a register of its own. */
uint32_t dtype_per_word(DType dtype);
/* The type in which there is arithmetic of it, which elements have when they are taken out of such
 * a word; else the type itself. */
DType dtype_wide(DType dtype);
/* Whether there are products of matrices of both types, whose sums are of the wide type: those of 8
 * bits mix. */
bool dtype_multiplies(DType a, DType b);
/* Whether a float type has every number of another one. */
bool dtype_holds(DType dtype, DType other);
/* Whether elements of a type are another one's, of as many bits, when they are rounded. */
bool dtype_rounds(DType dtype, DType to);
/* The least and the greatest number of an integer type. */
double dtype_lowest(DType dtype);
double dtype_highest(DType dtype);
/* What a number becomes in a cast to an integer type: cut toward zero and saturated; a NaN is 0. */
double dtype_whole(DType dtype, double number);
/* The same of an integer: those of 32 bits keep the bits. */
double dtype_of_integer(DType dtype, double number);
/* The integer of the type with the same lowest bits. */
int64_t dtype_wrap(DType dtype, int64_t integer);
/* The nearest value of a float type to a number, through f32; ties go to the even one. */
float dtype_nearest(DType dtype, double number);
/* Whether it has powers of two only, of which a cast takes the one not below: what is negative or
 * infinite is a NaN. */
bool dtype_is_scale(DType dtype);
/* Of float types: the digits of the significand, and the exponent of the least number. */
int dtype_digits(DType dtype);
int dtype_least(DType dtype);
/* Whether it is one of the floats of 8 bits: without arithmetic, what is no cast moves their codes,
 * and sums of their products may keep fewer bits than f32 has. */
bool dtype_is_coded(DType dtype);
/* Of such: the number that a code is, and the code of the nearest number; a NaN's is 7f. */
double dtype_number(DType dtype, uint32_t code);
uint32_t dtype_code(DType dtype, double number);
/* The type of integers that has the bits of a type's elements, above them zeros; false: there is
 * none. */
bool dtype_of_bits(DType dtype, DType *out);
/* Finds a dtype by name; false when there is none. */
bool dtype_parse(const char *text, DType *out);

#endif
