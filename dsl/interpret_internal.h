/* interpret_internal.h - what the files of the interpreter share.
 *
 * Values.  A constant (int, number, bool, type) stays what it is until it meets a typed value.  A
 * scalar is a tile of rank 0.  Elements of every type are doubles, each with a bound of its error
 * (interpret_number.h).
 *
 * Padding.  Along each of its dimensions a tile has a list of Pads: the ranges that went into it,
 * by the depth of their loops (0: the grid), each with the positions that are padding.  The
 * dimensions of a folded axis have one together.
 *
 * Memory.  What programs compute are objects of a heap; at the begin of a statement, when enough is
 * allocated, those that no name and no expression under way holds are freed.  So C code that holds
 * a value while it evaluates another pushes it on `temps`.
 */
#ifndef TILEC_DSL_INTERPRET_INTERNAL_H
#define TILEC_DSL_INTERPRET_INTERNAL_H

#include <math.h>

#include "dsl/interpret.h"
#include "dsl/interpret_number.h"

enum { RUN_TILE_RANK = 4, RUN_TENSOR_RANK = 6, RUN_GRID_AXES = 3, RUN_INDEX_PATH = 8 };

typedef struct Run Run;
typedef struct RunValue RunValue;
typedef struct RunTile RunTile;
typedef struct RunRange RunRange;
typedef struct RunSteps RunSteps;
typedef struct RunFields RunFields;
typedef struct RunPack RunPack;
typedef struct RunTensor RunTensor;
typedef struct RunBinding RunBinding;

/* ---- the heap ---- */

typedef enum ObjectKind {
    OBJECT_TILE,
    OBJECT_PAD,
    OBJECT_RANGE,
    OBJECT_STEPS,
    OBJECT_FIELDS,
    OBJECT_PACK
} ObjectKind;

typedef struct Object {
    struct Object *next;
    size_t bytes;
    ObjectKind kind;
    bool marked;
} Object;

/* ---- values ---- */

typedef enum RunKind {
    RUN_ERROR, /* said already */
    RUN_NOTHING,
    RUN_INT,
    RUN_NUMBER,
    RUN_BOOL,
    RUN_TYPE,
    RUN_TILE,
    RUN_RANGE,
    RUN_STEPS,
    RUN_TUPLE,
    RUN_TENSOR
} RunKind;

struct RunValue {
    RunKind kind;
    DType type;      /* TYPE */
    int64_t integer; /* INT, BOOL */
    double number;   /* NUMBER */
    RunTile *tile;
    RunRange *range;
    RunSteps *steps;
    RunFields *fields;
    RunTensor *tensor;
};

/* Positions along one dimension that are padding because of ranges of loops of one depth. */
typedef struct Pad {
    Object object;
    struct Pad *next; /* of another depth */
    uint32_t depth;
    int32_t n;
    bool some; /* any is */
    /* of a folded axis: further dimensions of the tile that positions are counted over, the last
     * the fastest, from the one on that has the pad; dimensions of one element are left out */
    uint32_t more;
    int8_t at[RUN_TILE_RANK - 1];
    uint8_t mask[]; /* n */
} Pad;

typedef struct Shape {
    uint32_t rank;
    int32_t dim[RUN_TILE_RANK];
} Shape;

struct RunTile {
    Object object;
    DType type;
    Shape shape;
    uint32_t n; /* elements */
    Pad *pads[RUN_TILE_RANK];
    uint8_t *skip; /* which elements are padding; NULL: none is */
    uint8_t *room; /* for `skip` */
    bool by_rows;  /* made of what a branch by rows has changed: it may be another multiple */
    Num *at;
};

/* `start`, `start` + 1, ..: `length` indices, some of which are padding. */
struct RunRange {
    Object object;
    Num start, number; /* which of its sequence; not moved with it */
    int32_t length;
    int64_t step; /* from one index to the next */
    Pad *pads;    /* of `length` positions, or of the pack's rows */
    /* element r of the pack has index start + r / inner % length * step; NULL: none */
    RunPack *pack;
    int32_t inner;
    uint32_t part;
};

struct RunPack {
    Object object;
    uint32_t n;
    int32_t rows;
};

/* lo, lo + step, .. below hi; with `tile`, ranges of so many indices. */
struct RunSteps {
    Object object;
    Num lo, hi;
    int64_t step;
    int32_t tile;
};

struct RunFields {
    Object object;
    uint32_t n;
    const char **names; /* behind the values; entries may be NULL */
    RunValue at[];
};

/* ---- names ---- */

typedef struct RunPlace {
    RunBinding *root;
    uint32_t n;
    uint32_t path[RUN_INDEX_PATH];
} RunPlace;

struct RunBinding {
    RunBinding *next; /* older */
    const char *name;
    RunValue value;
    uint32_t depth; /* loops around the declaration */
    bool is_alias;  /* a `var` parameter */
    RunPlace place;
};

typedef struct RunFrame {
    struct RunFrame *caller;
    const Function *function; /* NULL: the kernel */
    Span call;
    RunBinding *bindings;
    bool returned;
    RunValue result;
} RunFrame;

/* ---- tensors ---- */

/* Who touched an element in this launch: programs count from 1. */
typedef struct Touched {
    uint32_t writer, reader, adder;
    uint32_t kinds; /* of atomic statements, as bits */
    uint32_t store; /* the last one to places: its number in the run */
} Touched;

enum { TOUCHED_MANY = UINT32_MAX };

struct RunTensor {
    const char *name;
    Span span;      /* of its declaration in the kernel that runs */
    ParamMode mode; /* there */
    DType type;
    uint32_t rank;
    int64_t shape[RUN_TENSOR_RANK], stride[RUN_TENSOR_RANK];
    size_t n;
    double *value;
    double *error, *size, *grain; /* with tolerances; see Num */
    double *additions;            /* how many there were since a store */
    Touched *touched;             /* NULL for `in` */
    uint8_t *undefined;           /* not written yet; NULL: all elements are defined */
    uint8_t *covered;             /* of a packed type: by the store that is being looked at */
    bool shaped;
    bool wild; /* nothing is known of how far it may be off */
    const InterpretArray *input;
};

/* ---- a run ---- */

enum { NOTED_MAX = 64 };

struct Run {
    const Interpret *options;
    Arena *arena;
    Diag *diag;
    const Ast *ast;
    const Kernel *kernel;
    RunFrame *frame;
    uint32_t n_frames;
    VEC(RunTensor *) tensors; /* of all kernels, by name */
    VEC(RunTensor *) used;    /* of this kernel */
    Rounding rounding;        /* how much of error bounds is wanted */
    uint32_t depth;           /* loops around */
    uint32_t nesting;
    uint32_t loose;     /* regions whose order is free: 16-bit roundings may differ */
    uint32_t in_rows;   /* branches by rows that are taken, now */
    bool behind_rows;   /* there was such a branch */
    bool sees_rows;     /* what is computed now has an operand that one has changed */
    uint32_t any_order; /* of those, loops: sums may differ */
    bool fast;          /* of the product that is computed: its sum, too, may keep 13 bits */
    bool stopped;       /* nothing more is computed */
    bool failed;        /* an error was said */
    bool setup;         /* looking for the grid: nothing is read or written, .. */
    bool muted;         /* .. and what is wrong is not said */
    /* something unsure was decided: what is stored from now on is unbounded */
    bool wild;
    uint64_t program; /* the one that runs, from 0 */
    uint32_t stores;  /* to places, so far */
    uint32_t n_axes;
    int64_t extent[RUN_GRID_AXES], index[RUN_GRID_AXES];
    const char *axis[RUN_GRID_AXES];
    bool has_grid;
    uint64_t work;
    InterpretHeap *heap;
    VEC(RunValue) temps;
    RunBinding *spare; /* bindings to use again */
    Span noted[NOTED_MAX];
    uint32_t n_noted;
};

/* ---- interpret.c ---- */

/* Says what went wrong, with the calls around and the program; the run stops. */
RunValue run_fail(Run *run, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Says it once a place; the run goes on. */
void run_note(Run *run, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A NaN that was made of numbers. */
void run_nan(Run *run, Span span, const char *what);
/* Counts work; stops the run when there is too much of it. */
bool run_works(Run *run, Span span, uint64_t elements);
/* A decision on `x`, which rounding might change. */
void run_decides(Run *run, Span span, const Num *x);
/* "attention, program m = 1, h = 0". */
void program_text(const Run *run, Buf *out);

/* ---- interpret_heap.c ---- */

void *heap_new(Run *run, ObjectKind kind, size_t bytes);
/* Frees what nothing holds, if there is much of it. */
void heap_collect(Run *run);
void temp_push(Run *run, RunValue value);

/* ---- interpret_tile.c ---- */

RunTile *tile_new(Run *run, DType type, const Shape *shape);
RunValue tile_value(RunTile *tile);
RunValue scalar_value(Run *run, DType type, Num number);
/* A tile of `shape` and `type` with what `from` has, which grows along dimensions of 1. */
RunTile *tile_broadcast(Run *run, RunTile *from, const Shape *shape);
bool shape_join(const Shape *x, const Shape *y, Shape *out);
bool shape_equal(const Shape *x, const Shape *y);
/* Adds the padding of `more` to that of `pads`, both of n positions. */
Pad *pads_join(Run *run, Pad *pads, const Pad *more);
Pad *pad_new(Run *run, uint32_t depth, int32_t n);
/* The dimensions of a tile that a pad counts over, which is one of dimension d; how many. */
uint32_t pad_dims(uint32_t d, const Pad *pad, int32_t dims[RUN_TILE_RANK]);
/* Gives a tile a pad that counts over `n` other dimensions of it. */
void put_pad(Run *run, RunTile *out, const Pad *pad, const int32_t *dims, uint32_t n);
/* Sets `skip` from the pads. */
void tile_skips(Run *run, RunTile *tile);
/* Gives `out` the pads of `x`, whose last dimensions are those of `out` or 1. */
void tile_take_pads(Run *run, RunTile *out, const RunTile *x);
/* Element numbers of `x` as one walks over `shape` in order: steps for each dimension. */
typedef struct Walk {
    uint32_t rank, at;
    int32_t dim[RUN_TILE_RANK], index[RUN_TILE_RANK];
    uint32_t step[RUN_TILE_RANK];
} Walk;
Walk walk_over(const Shape *shape, const Shape *x);
void walk_next(Walk *walk);

/* What is surely among the terms of a sum, in whatever order they are added. */
typedef struct Special {
    bool nan, plus, minus;
} Special;

static inline void
note_special(Special *have, double value, double error)
{
    have->nan |= isnan(value) && error == 0;
    have->plus |= isinf(value) && error == 0 && value > 0;
    have->minus |= isinf(value) && error == 0 && value < 0;
}

static inline bool
makes_nan(const Special *have)
{
    return have->nan || (have->plus && have->minus);
}

RunValue tile_reduce(Run *run, Span span, Reduction how, RunTile *x, int32_t axis);
/* The place of the greatest along an axis, or of the least. */
RunValue tile_arg(Run *run, Span span, bool most, RunTile *x, int32_t axis);
RunValue tile_scan(Run *run, Span span, Reduction how, RunTile *x, int32_t axis, bool reverse);
/* (interpret_products.c) */
RunValue tile_product(Run *run, Span span, RunTile *a, RunTile *b, RunTile *acc);
/* .. for each element of a first dimension. */
RunValue tile_products(Run *run, Span span, RunTile *a, RunTile *b, RunTile *acc);
RunTile *tile_transpose(Run *run, RunTile *x);
/* (interpret_fold.c)  An axis as two, of which the inner one has `inner` elements; an axis and the
 * one behind it as one. */
RunValue tile_fold(Run *run, Span span, RunTile *x, uint32_t axis, int32_t inner);
RunValue tile_unfold(Run *run, Span span, RunTile *x, uint32_t axis);
/* Gives `out` the pads of `x`, whose dimension d it has as to[d]; -1: not at all, and no padding
 * along it. */
void tile_move_pads(Run *run, RunTile *out, const RunTile *x, const int32_t *to);
/* What a variable becomes that held `old` and was declared under `depth` loops. */
RunTile *tile_assign(Run *run, RunTile *old, RunTile *now, uint32_t depth);

/* ---- interpret_value.c ---- */

RunValue run_int(int64_t integer);
RunValue run_number(double number);
RunValue run_bool(bool truth);
bool run_is_constant(const RunValue *value);
/* A constant as a tile of `type` and `shape`. */
RunTile *constant_tile(Run *run, const RunValue *value, DType type, const Shape *shape);
/* A range as the tile of its indices; anything else stays. */
RunValue range_tile(Run *run, RunValue value);
/* Constants become i32, f32 or bool scalars, ranges tiles. */
RunValue run_typed(Run *run, RunValue value);
/* A tile of that type and shape; the front end has seen that it fits. */
RunTile *run_fit(Run *run, Span span, RunValue value, DType type, const Shape *shape);
/* Brings both to one type and shape. */
bool run_unify(Run *run, Span span, RunValue *x, RunValue *y);
RunValue run_binary(Run *run, Span span, Op op, RunValue x, RunValue y);
RunValue run_fma(Run *run, Span span, const RunValue *args);
RunValue run_mulhi(Run *run, Span span, RunValue x, RunValue y);
/* The bits of x, or those of integers as a type. */
RunValue run_bits(Run *run, Span span, RunValue x, const DType *to);
RunValue run_minmax(Run *run, Span span, bool most, RunValue x, RunValue y);
RunValue run_cdiv(Run *run, Span span, RunValue x, RunValue y);
RunValue run_unary(Run *run, Span span, Op op, RunValue x);
RunValue run_math(Run *run, Span span, Math math, RunValue x);
RunValue run_cast(Run *run, Span span, RunValue x, DType to);
RunValue run_where(Run *run, Span span, RunValue condition, RunValue yes, RunValue no);
/* The element of an i32 scalar, or an int. */
Num run_integer(Run *run, const RunValue *value);
/* What is wrong with a result, if anything is. */
bool run_faulty(Run *run, Span span, NumFault fault, const char *what, Num a, Num b);

/* ---- interpret_order.c ---- */

/* The elements in order along an axis. */
RunValue tile_sort(Run *run, Span span, RunTile *x, int32_t axis);
/* The `count` greatest along an axis, and their places: a tuple of two tiles. */
RunValue tile_top(Run *run, Span span, RunTile *x, int32_t axis, int32_t count);

/* ---- interpret_expr.c ---- */

RunValue run_eval(Run *run, const Expr *expr);
/* Says whether an operand of what is computed now is such that a branch by rows has changed: what
 * is rounded to 16 bits then may differ. */
void run_see_rows(Run *run, bool sees);
bool run_eval_int(Run *run, const Expr *expr, int64_t *out);
RunBinding *run_find(Run *run, const char *name);
RunBinding *run_declare(Run *run, const char *name, RunValue value);
/* Takes back the names declared since. */
void run_leave(Run *run, RunBinding *until);
bool run_find_type(Run *run, const char *name, DType *type);
RunPlace run_place(Run *run, const Expr *expr);
RunValue run_read(const RunPlace *place);
void run_write(Run *run, const RunPlace *place, RunValue value);
RunValue tuple_new(Run *run, uint32_t n);

/* ---- interpret_call.c ---- */

RunValue run_call(Run *run, const Expr *call);

/* What a function gives for these values. */
RunValue run_call_with(Run *run, const Function *function, Span call, const RunValue *args);

/* ---- interpret_sums.c ---- */

/* Element (i, j) of a product of floats, without the elements to skip, on what was `before`. */
double sums_element(const Run *run, const RunTile *a, const RunTile *b, uint32_t i, uint32_t j,
                    const uint8_t *skip, double before);

/* ---- interpret_scan.c ---- */

/* Tuples of elements along an axis, combined by a function: each with those before it, or behind
 * it; all of them to one. */
RunValue run_by_function(Run *run, Span span, const Function *function, RunValue value,
                         const RunValue *named_axis, bool back, bool total);

/* ---- interpret_memory.c ---- */

RunValue run_load(Run *run, const Expr *expr);
void run_store(Run *run, const Stmt *stmt);
size_t element_bytes(DType type);
size_t elements_bytes(DType type, size_t n);
/* Elements from bytes and back. */
void elements_read(DType type, const void *from, size_t n, double *to);
void elements_write(DType type, const double *from, size_t n, void *to);

/* ---- interpret_stmt.c ---- */

void run_block(Run *run, const Block *block);
/* One more region, or one less, in which sums may be made in another order. */
void run_change_order(Run *run, int by);
/* Step number `at` of a sequence: an integer, or a range of a loop of this depth. */
RunValue run_step(Run *run, const RunSteps *steps, int64_t at, uint32_t depth);

/* ---- interpret_print.c ---- */

void run_print(Run *run, const Stmt *stmt);
void run_assert(Run *run, const Stmt *stmt);

#endif
