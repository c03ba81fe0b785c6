/* ast_to_tir_internal.h - what the files of ast_to_tir share.
 *
 * Values.  An expression evaluates to a Value: a constant known now (int, float, bool, type), a
 * scalar or tile computed at run time (a TirVal), a range of indices, a tuple of values.  A scalar
 * that follows from sizes and scalar parameters alone also has a host expression, which is what
 * `grid` and `require` need.
 *
 * Variables.  A `var` is a binding whose value is replaced at each assignment, so the operations
 * made are in SSA form at once.  A loop first gives every variable a block argument, walks its
 * body, and then drops the arguments whose variable the body left alone.
 */
#ifndef TILEC_LOWER_AST_TO_TIR_INTERNAL_H
#define TILEC_LOWER_AST_TO_TIR_INTERNAL_H

#include "compiler/front/ast_to_tir.h"
#include "dsl/builtins.h"

enum {
    GRID_MAX_AXES = 3,
    CALL_MAX_DEPTH = 64,
    CALL_MAX_COUNT = 20000,    /* calls expanded in one kernel */
    HOST_MAX_COUNT = 1000,     /* operations of a size of the grid, or of a `require` */
    VALUE_MAX_COUNT = 1 << 20, /* values made in one kernel */
    NESTING_MAX = 400          /* expressions and blocks, calls expanded: bounds the C stack */
};

typedef struct Value Value;

typedef enum ValueKind {
    VALUE_ERROR,   /* an error was reported; its users report nothing more */
    VALUE_NOTHING, /* the result of a function without `return` */
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_BOOL,
    VALUE_TYPE,
    VALUE_TILE,  /* a scalar (rank 0) or a tile, at run time */
    VALUE_RANGE, /* consecutive indices */
    VALUE_STEPS, /* what `for` and `grid` go over */
    VALUE_TUPLE,
    VALUE_TENSOR,
    VALUE_PACKED /* a scalar or tile of a packed type (ast_to_tir_packed.c) */
} ValueKind;

typedef struct Range Range;
typedef struct Steps Steps;

struct Value {
    ValueKind kind;
    DType dtype;     /* TYPE */
    int64_t integer; /* INT, BOOL */
    double number;   /* FLOAT */
    TirType type;    /* TILE, PACKED */
    TirVal *tir;     /* PACKED: i32, the codes; TILE; NULL while only host expressions are wanted */
    const TirOp *
        /* PACKED: the load that has a byte for each two of the last dimension, of all of their row;
         * or NULL */
        pairs;
    bool turned;          /* .. which is the first by now */
    const HostExpr *host; /* TILE of rank 0: the same for the launcher, if it can know; or NULL */
    const Range *range;
    const Steps *steps;
    TirTensor *tensor;
    uint32_t n_fields; /* TUPLE */
    const Value *fields;
    const char *const *names; /* of the fields; an entry, or all, may be NULL */
};

/* A pack of ranges: together they count `rows` elements.  An element that is padding of one of them
 * is padding of the pack. */
typedef struct Pack {
    uint32_t n;
    const Range *parts;
    int32_t rows;
    Span span;
} Pack;

/* start, start + 1, .. (or start + step, ..) of `length` indices; those at or after `bound` are
 * padding.  `range + scalar` moves both, so that the same elements are padding as of the range it
 * is made from. */
struct Range {
    Value start, bound;       /* i32 scalars or ints */
    Value number;             /* of its sequence, the same; not moved with it */
    const struct Range *from; /* before it was moved or its indices set apart, NULL: it was not */
    Value offset;             /* then: start is that of `from` times the step and this */
    int32_t length;
    int32_t step;     /* from one index to the next; 0: neighbours */
    bool exact;       /* no index is padding */
    uint32_t loops;   /* around its indices; 0: of the grid, or of no loop */
    bool numbered;    /* made by its number, which need not differ from one iteration to the next */
    const Pack *pack; /* element r of the pack has index start + r / inner % length; NULL: none */
    int32_t inner;
    uint32_t part; /* which of its ranges */
};

/* lo, lo + step, .. below hi; with `tile` each step is a range of `tile` indices. */
struct Steps {
    Value lo, hi, step;
    int32_t tile; /* 0: integers */
};

typedef struct Binding Binding;

/* A variable, or a part of one: what may stand left of `=`. */
typedef struct Place {
    Binding *root; /* never an alias itself; NULL: an error, said already */
    uint32_t n;
    uint32_t path[8]; /* fields, outermost first */
} Place;

struct Binding {
    Binding *next;  /* older */
    Binding *below; /* older, of the same list of the frame */
    const char *name;
    Span span;
    Value value;
    bool is_var;
    uint32_t loops; /* around the declaration */
    bool is_alias;  /* a `var` parameter: stands for `place` */
    Place place;
    const char *what; /* "parameter", "size", ..: for messages; NULL: let or var */
};

/* One call being expanded; the outermost is the kernel itself. */
enum { NAME_LISTS = 32 };

typedef struct Frame {
    struct Frame *caller;
    const Function *function; /* NULL for the kernel */
    Span call;
    Binding *bindings;
    Binding *lists[NAME_LISTS]; /* the same by their names (name_list) */
    uint32_t depth;             /* calls around this one */
    uint32_t runtime_depth;     /* run-time loops and branches around, in this frame */
    bool returned;
    Value result;
} Frame;

/* For each axis of a tile, the innermost loop from whose ranges it may have padding, as the depth
 * of that loop's body; 0: none. */
enum { PAD_AXES = TIR_MAX_RANK, PAD_UNKNOWN = UINT16_MAX };
typedef struct PadLoops {
    uint16_t axis[PAD_AXES];
} PadLoops;

/* A dimension of a tensor that is an expression of names (ast_to_tir_dims.c). */
typedef struct LateDim {
    const Expr *expr;
    const char *text;
    TirTensor *tensor;
    uint32_t dim;
    bool done;
    const HostExpr *value; /* what it is, of other sizes */
    Binding *binding;      /* of its own size, which no name finds */
} LateDim;

/* A function that was expanded for scans (ast_to_tir_scan.c). */
enum { TUPLE_MOST = 8 }; /* tiles whose elements it combines */
typedef struct Combine {
    const Function *function;
    bool single; /* of one tile, that is no tuple */
    uint32_t n;
    DType dtype[TUPLE_MOST];
    const char *const *part; /* names; may be NULL */
    TirFn *fn;
} Combine;

/* A tensor of a packed type (ast_to_tir_packed.c). */
typedef struct PackedTensor {
    const TirTensor *tensor;
    const Expr *last, *bytes; /* the last dimension as the program has it, and in bytes */
    Value extent;             /* of it, in elements */
} PackedTensor;

/* A vector that met a square tile, and so is a row of it. */
typedef struct Meeting {
    const TirVal *vector, *tile, *row;
    Span span;
} Meeting;

typedef struct Lower {
    const AstToTir *options;
    Arena *arena;
    Diag *diag;
    VEC(const char *) told; /* names of which an error has been said */
    const Ast *ast;
    const Kernel *kernel;
    TirFn *fn;
    TirBuilder b;
    Frame *frame;
    bool host_only; /* build nothing: only constants and host expressions are wanted */
    bool has_grid;
    const Block *outermost; /* of the kernel, or what is left of it behind `if c { return; }` */
    VEC(LateDim) late;
    VEC(PackedTensor) packed;
    uint32_t n_calls;   /* expanded so far */
    uint32_t nesting;   /* expressions and blocks being walked */
    uint32_t loops;     /* around what is being walked */
    VEC(PadLoops) pads; /* by value id: what is known so far */
    bool keeps;         /* some assignment keeps padding */
    VEC(Combine) combines;
    VEC(Meeting) meetings; /* for lints */
    uint32_t n_leaves;     /* size and param operations at the head of the body */
} Lower;

/* ---- ast_to_tir_lints.c ---- */

/* `wide` is what a vector becomes beside a tile. */
void note_meeting(Lower *low, Span span, const TirVal *vector, const TirVal *tile,
                  const TirVal *wide);
/* What is most likely a mistake in the kernel that was made, to the list of `options`. */
void lint_kernel(Lower *low);

/* ---- ast_to_tir.c: messages and names ---- */

/* Reports an error, with a note for each call around; one error at one place is said once. */
Value fail(Lower *low, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* ", did you mean 'x'?" for a name that is close to a visible one (a tensor's), else "". */
const char *suggest_name(Lower *low, const char *name, bool tensor);
bool close_name(const char *wanted, const char *have, uint32_t *best);

/* Makes a name known in the frame at hand; forgets all that are younger than `scope`. */
void push_binding(Lower *low, Binding *binding);
void pop_bindings(Lower *low, Binding *scope);
Binding *find_binding(Lower *low, const char *name);
/* Adds a name to the current scope; an error when it is taken. */
Binding *declare(Lower *low, const char *name, Span span, Value value);
/* Says what is wrong with a `grid`; its names are known then, and mean nothing further. */
void refuse_grid(Lower *low, const Stmt *stmt, const char *wrong);
/* The value of a name, with operations for sizes and parameters made when first needed. */
Value read_binding(Lower *low, Binding *binding);
bool find_type(Lower *low, const char *name, DType *dtype);

/* ---- ast_to_tir_dims.c: dimensions that follow from names ---- */

/* Notes a dimension that is an expression of names that are not known when compiled; false: it is
 * none. */
bool add_late_dim(Lower *low, const Expr *expr, TirTensor *tensor, uint32_t dim);
/* Quotients in a dimension that is known when compiled leave no rest, either. */
void require_whole_dim(Lower *low, const Expr *expr, TirTensor *tensor, uint32_t dim);
/* Behind all parameters: gives each of them its size, and what is required of it. */
void settle_late_dims(Lower *low);
bool expr_has_name(const Expr *expr, const char *name);
/* What sizes that follow are most often. */
void settle_usual_dims(Lower *low);
/* A dimension's size in place of a value that is computed as it is. */
Value size_of_value(Lower *low, const Value *value);

/* ---- ast_to_tir_value.c: values and arithmetic ---- */

Value value_int(int64_t integer);
Value value_float(double number);
Value value_bool(bool truth);
Value value_type(DType dtype);
Value value_tile(TirVal *tir, const HostExpr *host);
bool is_constant(const Value *value);
bool is_scalar_of(const Value *value, DType dtype);
/* "f32[64, 128]", "the int 5", ..: for messages. */
const char *value_text(Lower *low, const Value *value);
const char *type_text(Lower *low, TirType type);
/* The names of the types that have a use, the last one behind `last`. */
const char *types_with(Lower *low, TypeUse use, const char *last);
/* What to do where a type lacks an operation that the type of its elements alone has: ": cast it
 * with .."; else "". */
const char *cast_hint(Lower *low, DType dtype, TypeUse use);

/* A constant as a run-time value of `type`; false when it does not fit (and it says so). */
bool adapt_constant(Lower *low, Span span, const Value *value, TirType type, Value *out);
/* Constants become i32, f32 or bool scalars, ranges become tiles; others stay. */
Value to_runtime(Lower *low, Span span, const Value *value);
/* How many elements a range has in a tile, and how they are counted. */
TirIndex range_index(const Range *range);
/* A range as its tile of indices; anything else stays. */
Value range_to_tile(Lower *low, const Value *value);
/* An i32 scalar or an int as an operand; NULL after an error. */
TirVal *index_operand(Lower *low, Span span, const Value *value);
/* What to do with an integer of another type than the one that is wanted, i32 of indices; "":
 * nothing helps. */
const char *integer_hint(Lower *low, const Value *value, DType wanted);
/* Whether a constant is an integer of the type; else an error. */
bool int_fits(Lower *low, Span span, const Value *value, DType dtype);
const HostExpr *host_of(Lower *low, const Value *value);
/* An error: it has none. */
void not_for_launchers(Lower *low, Span span);

/* Brings values to one dtype and shape (constants adapt, shapes broadcast). */
bool unify(Lower *low, Span span, const char *what, Value *x, Value *y);
/* NumPy's rule; false when the shapes do not fit. */
bool broadcast_shape(TirType x, TirType y, TirType *out);
/* `value` with the shape and dtype of `type`: constants adapt, dimensions of 1 grow. */
bool fit_to(Lower *low, Span span, const char *what, const Value *value, TirType type, Value *out);

Value value_binary(Lower *low, Span span, Op op, const Value *x, const Value *y);
Value value_minmax(Lower *low, Span span, TirOpcode op, const Value *x, const Value *y);
Value value_cdiv(Lower *low, Span span, const Value *x, const Value *y);
Value value_unary(Lower *low, Span span, Op op, const Value *x);
Value value_cast(Lower *low, Span span, const Value *x, DType to);
/* A tile operation on floats, computed in f32 for 16-bit types. */
TirVal *float_unary(Lower *low, TirOpcode op, TirVal *x);
bool is_16bit_float(DType dtype);

/* ---- ast_to_tir_pads.c: what may be padding, by the ranges of which loops ---- */

/* What a load or an index tile has along `axis`. */
void note_pad(Lower *low, const TirVal *tile, uint32_t axis, uint32_t loops);
/* What is padding of the tiles of places that a tile is loaded by is its padding. */
void note_places(Lower *low, const TirVal *tile);
/* What the body of a loop finds in a variable that is declared outside of it, and within so many
 * loops. */
void note_carried(Lower *low, const TirVal *param, uint32_t loops);
/* A tile that is padding where `like` is, too. */
TirVal *pad_like(Lower *low, TirVal *tile, TirVal *like);
/* The new value of a variable, declared inside `loops` loops, that is assigned `value`: elements
 * that are padding from ranges of loops further in keep their old value. */
Value keep_padding(Lower *low, uint32_t loops, const Value *old, const Value *value);
/* Call after the kernel's last statement, when it is known what loops carry: removes `keep`
 * operations of tiles that have no padding from inner loops after all. */
void drop_keeps(Lower *low);

/* ---- ast_to_tir_expr.c ---- */

Value eval(Lower *low, const Expr *expr);
/* A compile-time int in [least, most]; false after an error. */
bool eval_int(Lower *low, const Expr *expr, const char *what, int64_t least, int64_t most,
              int64_t *out);
/* The indices of load, store and atomic_add; false after an error. */
typedef struct Access {
    TirTensor *tensor;
    TirIndex index[TENSOR_MAX_RANK];
    TirVal *operands[TENSOR_MAX_RANK];
    TirType type; /* of the tile addressed */
    /* for each dimension of the tensor that has one, else NULL */
    const Range *range[TENSOR_MAX_RANK];
    TirVal *count[TENSOR_MAX_RANK]; /* of its elements, where the dimension goes on; or NULL */
    /* the same for parts of the pack that a load goes without */
    TirVal *unused[TENSOR_MAX_RANK];
    const Pack *pack;           /* whose parts are among the subscripts, or NULL */
    uint32_t n_parts, parts;    /* how many, and which, as bits */
    uint32_t pack_axis;         /* the dimension of the tile that they make */
    bool alone;                 /* a tile of places makes both dimensions of the tile */
    const PackedTensor *packed; /* of a packed type; NULL: of another */
    TirVal *elements;           /* then: i32, where in a row its elements lie, along .. */
    uint32_t packed_axis; /* .. this dimension of the tile, unless it is a scalar or `alone` */
    bool pairs;           /* bytes are those of ranges of pairs */
    bool cut;             /* .. and nothing of them lies behind the end of the row */
} Access;
/* What of an access a subscript with a tile of places makes; false after an error. */
bool add_places(Lower *low, Span span, Access *access, uint32_t at, const Value *places);
/* A range that is a part of a pack: all of them make one dimension of the tile; false after an
 * error. */
bool add_part(Lower *low, Span span, Access *access, const Range *range);
/* What a subscript that is not `:` is; false after an error. */
bool subscript_value(Lower *low, const Subscript *subscript, Value *value);
/* Whether `:` may take a dimension, which messages call `text`; 0: its extent is not known when
 * compiled.  Else an error. */
bool is_whole(Lower *low, Span span, int64_t extent, const char *text);
/* Whether an index that is known lies in it; else an error. */
bool is_inside(Lower *low, Span span, const Value *value, int64_t extent, const char *text);
/* How many elements a range has in front of its padding. */
TirVal *count_range(Lower *low, const Range *range);
/* Adds to a load or store the ends of ranges that do not end with the tensor's dimension. */
void limit_access(Lower *low, const Access *access, TirOp *op);
bool eval_access(Lower *low, const char *name, Span name_span, Span span,
                 const SubscriptList *index, bool writes, Access *out);
Place eval_place(Lower *low, const Expr *expr);
Value read_place(Lower *low, const Place *place);
void write_place(Lower *low, const Place *place, Value value);

/* ---- ast_to_tir_packed.c: types of which two elements share a byte ---- */

/* Notes that a tensor is of such a type, and makes it one of bytes. */
void bind_packed(Lower *low, TirTensor *tensor, const Expr *last);
/* The dimension in bytes in place of one that is the last of such a tensor; else the dimension. */
const Expr *packed_dim(const Lower *low, const TirTensor *tensor, const Expr *dim);
/* Whether `dim` is such a dimension in bytes. */
bool is_packed_dim(const Lower *low, const Expr *dim);
/* Behind all dimensions: finds the extents in elements. */
void settle_packed(Lower *low);
const PackedTensor *find_packed(const Lower *low, const TirTensor *tensor);
bool eval_packed_index(Lower *low, const Subscript *subscript, Access *access, uint32_t at,
                       uint32_t *n, bool writes);
/* What was loaded, from the bytes; and the bytes of what is stored, NULL after an error. */
Value unpack_load(Lower *low, const Access *access, TirVal *bytes);
TirVal *pack_store(Lower *low, Span span, const Access *access, const Value *value);
/* A cast from or to such a type. */
Value cast_packed(Lower *low, Span span, const Value *x, DType to);
Value transpose_packed(Lower *low, const Value *x);
/* The bytes of a tile, which have two elements of dimension `axis`, as they are in memory; NULL:
 * they are not so there. */
TirVal *packed_bytes(Lower *low, const Value *x, uint32_t axis);

/* ---- ast_to_tir_scales.c: operands of products that have scales ---- */

typedef struct ScaledOperand {
    const char *name; /* the scale's */
    Span span, scale_span;
    const Value *value, *scale; /* NULL: it has none */
    uint32_t axis;              /* the inner dimension */
} ScaledOperand;
bool is_scaled_type(DType dtype);
/* What is multiplied: a tile of bf16; NULL after an error. */
TirVal *scaled_operand(Lower *low, const ScaledOperand *operand);
/* Both operands as they are, and their scales, of types that an instruction may take; false: of
 * others. */
bool own_operands(Lower *low, const ScaledOperand sides[2], TirVal *own[4]);

/* ---- ast_to_tir_call.c ---- */

Value call_builtin(Lower *low, Builtin builtin, const Expr *expr);

/* ---- ast_to_tir_function.c ---- */

Value eval_call(Lower *low, const Expr *call);
/* The function of the program that an expression, a name, means; NULL after an error. */
const Function *find_function(Lower *low, const Expr *name);
/* What it gives for these values, called where its name stands; it has no `var` parameters. */
Value call_with(Lower *low, const Function *function, const Expr *name, const Value *values);
Value tuple_field(Lower *low, const Expr *expr, const Value *tuple, uint32_t *index);

/* ---- ast_to_tir_scan.c ---- */

/* A tuple of tiles, or one tile, whose elements a function of the program combines. */
typedef struct Tuples {
    const Function *function;
    const Expr *name; /* of it, where it is given */
    bool single;      /* no tuple */
    uint32_t n;
    TirType type;      /* bool, of the shape that all of them have */
    const char **part; /* names, which may be NULL */
    Value tile[TUPLE_MOST];
} Tuples;
bool tuples_of(Lower *low, const char *caller, const Expr *name, Span span, const Value *value,
               Tuples *out);
/* Of each element those up to it, or behind it; of all of them, without the axis. */
Value scan_tuples(Lower *low, const Tuples *tuples, uint32_t axis, bool back);
Value reduce_tuples(Lower *low, const Tuples *tuples, uint32_t axis);

/* ---- ast_to_tir_order.c ---- */

enum { TOP_MOST = 64 }; /* elements that top gives */
/* The place of the greatest along an axis (REDUCE_MAX), or of the least (REDUCE_MIN); -1: there is
 * no number. */
TirVal *extreme_place(Lower *low, ReduceKind kind, TirVal *tile, uint32_t axis);
/* The `count` greatest along an axis, in order, and their places: of f32 or i32. */
void greatest_places(Lower *low, TirVal *tile, uint32_t axis, int32_t count, TirVal *best[2]);

/* ---- ast_to_tir_ends.c ---- */

/* Declares the variable that says whether a loop with this `while` goes on. */
void declare_while(Lower *low, const Expr *condition);
const Block *while_body(Lower *low, const Stmt *loop);
/* Of `if c { return; }` in the kernel's outermost block: an `if` whose `else` is what stands behind
 * it; else NULL. */
const Stmt *rest_of_program(Lower *low, const Block *block, uint32_t at);

/* ---- ast_to_tir_stmt.c ---- */

void lower_block(Lower *low, const Block *block);
/* Step number `at` of a sequence, a range or an integer; `there`: the sequence has so many. */
Value step_value(Lower *low, Span span, const Steps *steps, Value at, bool there);

#endif
