/* interpret.h - runs a program by walking its tree, as docs/language.md defines it.
 *
 * The reference: it decides what a program means, and shares nothing with tile IR, passes, layouts
 * and targets.  Tiles are whole arrays of doubles, padding is an absent element, and the programs
 * of a grid run one after the other.  The tree must have passed the checks of the front end
 * (ast_to_tir) with the same definitions: what those refuse is not looked for again here.
 */
#ifndef TILEC_DSL_INTERPRET_H
#define TILEC_DSL_INTERPRET_H

#include "dsl/ast.h"

enum { INTERPRET_MAX_RANK = 8 };

/* A tensor that goes in or comes out, by its name in the kernels. */
typedef struct InterpretArray {
    const char *name;
    char kind;      /* NumPy's letter: f, i, u, b, V */
    uint32_t bytes; /* of an element */
    uint32_t rank;
    int64_t shape[INTERPRET_MAX_RANK];
    size_t total;            /* bytes of all elements */
    const void *data;        /* C order */
    const double *tolerance; /* out, where asked for: of each element */
} InterpretArray;

typedef struct InterpretSetting {
    const char *name, *value;
} InterpretSetting;

typedef enum InterpretNan {
    INTERPRET_NAN_NOTE,
    INTERPRET_NAN_IGNORE,
    INTERPRET_NAN_ERROR
} InterpretNan;

/* How a chip's tensor cores sum up products: of `bytes` of each operand's rows at a time, with what
 * was summed before, to `bits` below the largest exponent; of 8-bit floats to `narrow_bits`, as is
 * the result, and sums of `part` elements of the inner dimension are added to others in f32, but
 * for fast=true. */
typedef struct InterpretSums {
    uint32_t bytes, part;
    int bits, narrow_bits;
} InterpretSums;

/* What the programs hold of memory; the caller's, since a jump out of memory ends the run
 * anywhere. */
typedef struct InterpretHeap {
    void *objects;
    size_t live_bytes, collect_at;
} InterpretHeap;

typedef struct Interpret {
    Arena *arena;        /* for tensors, results and messages */
    Allocator allocator; /* for what the programs compute, given back as they go */
    InterpretHeap *heap;
    Diag *diag;
    const Ast *ast;
    const char *kernel;              /* run this one only; NULL: all, in order */
    const InterpretSetting *defines; /* -D */
    size_t n_defines;
    const InterpretSetting *sets; /* sizes and scalars */
    size_t n_sets;
    const InterpretArray *inputs;
    size_t n_inputs;
    const char *const *outputs; /* names of the tensors wanted */
    size_t n_outputs;
    /* NULL: products are summed in double, and bounds are for every chip */
    const InterpretSums *sums;
    bool tolerance; /* bound what rounding may change */
    bool keeps; /* inputs may be of tensors that are only written: what no program writes stays */
    uint64_t seed;       /* the order of programs; 0: that of the grid */
    InterpretNan nan;    /* what a NaN that an operation makes is */
    uint64_t work_limit; /* 0: a large one */
    /* The value of a parameter that is `auto` and not defined. */
    bool (*choose)(void *user, const char *kernel, const char *param, int32_t *value);
    void *choose_user;
    void (*print)(void *user, const char *text, size_t n); /* NULL: nowhere */
    void *print_user;
} Interpret;

/* Runs the kernels.  Fills `results`, as many as outputs are wanted; false after an error, which
 * diag has. */
bool interpret(const Interpret *options, InterpretArray *results);
/* Gives back what a run that ended in a jump still held. */
void interpret_free(const Interpret *options);

#endif
