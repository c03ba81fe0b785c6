/* tir.h - tile IR: SSA over whole tiles, structured control flow, no threads.
 *
 * A TirModule holds the kernels of one compilation.  A kernel (TirFn) has tensors, named run-time
 * sizes, scalar parameters, a grid and one body block.  A block is a list of operations; `for`
 * and `if` own blocks.  Values are defined once, before their uses, and are visible in the blocks
 * nested in the one that defines them.
 *
 * The fields in the group "filled in by passes" are empty when the front end is done; the head of
 * each pass says which ones it needs and sets.
 */
#ifndef TILEC_IR_TIR_H
#define TILEC_IR_TIR_H

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/ir/device_facts.h"
#include "compiler/ir/isa.h"
#include "compiler/ir/types.h"

typedef struct TirVal TirVal;
typedef struct TirOp TirOp;
typedef struct TirBlock TirBlock;
typedef struct TirFn TirFn;
typedef struct Layout Layout;             /* compiler/ir/layout.h: who holds which element */
typedef struct SharedLayout SharedLayout; /* compiler/ir/layout.h: where an element lies */

/* ---- host expressions: what the launcher evaluates (grid extents, `require`, bytes) ---- */

/* clang-format off */
typedef enum HostKind {
    HOST_INT,    /* `integer` */
    HOST_FLOAT,  /* `number` */
    HOST_SIZE,   /* size `index` of the kernel */
    HOST_SCALAR, /* scalar parameter `index` of the kernel */
    HOST_DEVICE, /* fact `index` of the device (device_facts.h) */
    HOST_ADD, HOST_SUB, HOST_MUL, HOST_DIV, HOST_REM, HOST_CDIV, HOST_MIN, HOST_MAX,
    HOST_EQ, HOST_NE, HOST_LT, HOST_LE, HOST_GT, HOST_GE, HOST_AND, HOST_OR,
    HOST_NOT, HOST_NEG /* one operand: `a` */
} HostKind;
/* clang-format on */

typedef struct HostExpr {
    HostKind kind;
    int64_t integer;
    double number;
    uint32_t index;
    const struct HostExpr *a, *b;
} HostExpr;

/* ---- the interface of a kernel ---- */

typedef enum TensorMode { TENSOR_IN, TENSOR_OUT, TENSOR_INOUT } TensorMode;

typedef struct TensorDim {
    int32_t constant; /* extent when known at compile time, else 0 */
    uint32_t size;    /* index into TirFn.sizes when `constant` is 0 */
} TensorDim;

/* A tensor parameter: strides of all dimensions but the last are run-time values, in elements;
 * the last dimension is contiguous.  `align` is the alignment in bytes that the base address and
 * every stride keep (the launcher refuses others). */
typedef struct TirTensor {
    const char *name;
    Span span;
    DType dtype;
    DType packed; /* the program's type where each element is a byte of two of that type; else `dtype` */
    TensorMode mode;
    uint32_t rank;
    TensorDim dim[TENSOR_MAX_RANK];
    uint32_t align;
    bool atomic; /* some atomic_add goes to it */
} TirTensor;

typedef struct TirSize {
    const char *name;
    int64_t usual;    /* what it is most often, as the source or --size says; 0: they do not */
    const char *text; /* of a dimension that is an expression, as the source has it; else NULL */
    const HostExpr *
        value; /* what it follows from, if it does: a launcher computes it where no tensor says it */
} TirSize;

typedef struct TirScalar {
    const char *name;
    Span span;
    DType dtype;
} TirScalar;

/* One axis of the grid, in source order: the first named varies fastest. */
typedef struct TirGridAxis {
    const char *name;
    const HostExpr *extent;
    Span span;
    bool reversed;       /* set by launch_order: the axis runs from its last index down */
    bool variable_trips; /* likewise: programs along the axis have more or less to do */
    bool ended; /* likewise, of other axes: programs from some index on have no iterations */
    /* Likewise, of axes without variable trips: the range of a program's loop moves with its index (a
     * window), and is shorter at one end of the axis or both. */
    bool sliding;
    /* it is shorter at the beginning: the dynamic scheduler takes the axis in reverse */
    bool short_first;
    uint32_t sliding_trips; /* the most iterations of such a program; 0: not known */
} TirGridAxis;

typedef struct TirRequire {
    const HostExpr *condition;
    const char *message;
    Span span;
} TirRequire;

/* Global memory that a kernel needs besides its tensors; the launcher allocates it (docs/metadata.md). */
typedef enum TirMemoryKind {
    MEMORY_SCRATCH,  /* zero when a launch begins, and again when it ends */
    MEMORY_WORKSPACE /* undefined; kernels of the module that use the same name share it */
} TirMemoryKind;

typedef struct TirMemory {
    const char *name;
    TirMemoryKind kind;
    const HostExpr *bytes;
} TirMemory;

/* A compile-time parameter and the value it was bound to, as text ("128", "true", "bf16"). */
typedef struct TirConstant {
    const char *name;
    const char *value;
    bool is_open; /* the source leaves it to the compiler, and the command line does not say it */
} TirConstant;

/* ---- values and operations ---- */

struct TirVal {
    uint32_t id;      /* unique in the function */
    const char *name; /* from the source; may be NULL */
    TirType type;
    TirOp *def;      /* NULL for arguments of a block */
    TirBlock *block; /* the block that defines it */
    uint32_t index;  /* which result of `def`, or which argument of `block` */
    /* filled in by passes */
    /* assign_layout: registers of which thread hold what; NULL: not in regs */
    const Layout *layout;
};

/* tir.def lists the operations, what happens along the axes of tiles, and what elements are combined with. */
/* clang-format off */
typedef enum TirOpcode {
#define TIR_OP(name, text, args, results, flags, axis, unit, mufu, alu, use) TIR_##name,
#include "compiler/ir/tir.def"
    TIR_OPCODE_COUNT
} TirOpcode;

typedef enum ReduceKind {
#define TIR_REDUCTION(name, text, combine, neutral) REDUCE_##name,
#include "compiler/ir/tir.def"
    REDUCE_COUNT
} ReduceKind;
/* clang-format on */

/* What an operation does along the axes of its tiles. */
typedef enum AxisUse {
    AXIS_NONE,         /* it is none of these; what it does stands in tir.def */
    AXIS_ELEMENTWISE,  /* element i of the result depends on element i of each operand */
    AXIS_MOVES,        /* elements only get other places, as the shapes say */
    AXIS_REDUCES,      /* `axis` is dropped: all elements along it become one */
    AXIS_REDUCES_PART, /* `axis` is a pack: all elements along one of its parts become one */
    AXIS_SPREADS,      /* `axis` becomes a pack: an element is all along one of its parts */
    AXIS_SCANS,        /* the shape stays; an element depends on others along `axis` */
    AXIS_SORTS         /* .. and gets another place along it: no place is padding there any more */
} AxisUse;

typedef enum TirFlags {
    TF_PURE = 1,        /* no effect but its results */
    TF_ELEMENTWISE = 2, /* element i of the result depends on element i of each operand */
    TF_EFFECT = 4,      /* writes memory or orders it */
    TF_REGION = 8,      /* owns blocks */
    TF_COMMUTES = 16,
    TF_SCHEDULED = 32, /* made by the schedule passes, not by the front end */
    /* threads make the result together, where the operation stands; others are made element by element, when asked for */
    TF_TOGETHER = 64,
    TF_WRITES = 256,    /* writes to a tensor, as the program says */
    TF_EXCHANGES = 128, /* elements may go from warp to warp through `shared`, a buffer of its own */
    TF_ROLE = 512       /* likewise made by the schedule passes, of a program of roles alone */
} TirFlags;

typedef struct TirOpInfo {
    const char *text;
    int32_t args, results; /* -1: any number */
    uint32_t flags;
    AxisUse axis;
    TypeUse use; /* what the type that it works on must have; USE_NONE: nothing but values */
} TirOpInfo;
extern const TirOpInfo tir_op_infos[TIR_OPCODE_COUNT];

static inline const TirOpInfo *
tir_op_info(TirOpcode op)
{
    return &tir_op_infos[op];
}

/* What a reduction or scan combines elements with. */
typedef struct ReductionInfo {
    const char *text;
    TirOpcode combine; /* of two elements */
    double neutral;    /* .. which it leaves as they are; of i32: rounded into the type */
    bool logical;      /* it takes bools, else numbers */
} ReductionInfo;
const ReductionInfo *tir_reduction_info(ReduceKind kind);

/* How one dimension of a tensor is addressed by load, store, atomic_add, copy_async. */
typedef enum IndexKind {
    INDEX_SCALAR, /* one index: the dimension is dropped.  Takes one i32 scalar operand */
    INDEX_RANGE,  /* `length` indices from the i32 scalar operand on */
    INDEX_FULL,   /* all of a compile-time extent (`length`).  Takes no operand */
    /* Not of copies: the elements of the i32 tile operand, each an index of its own.  A list of `length` makes a dimension
     * of the tile; a tile of `length` rows and `inner` columns makes both, and nothing else makes one */
    INDEX_PLACES
} IndexKind;

/* Several ranges may form a pack, which is one dimension of the tile with `rows` elements, at the position
 * of the first of them.  Element r of the pack has index start + r / inner % length in the dimension of a
 * part; `inner` is the product of the lengths of the parts that vary faster (1 for the fastest). */
typedef struct TirIndex {
    IndexKind kind;
    int32_t length;
    int32_t inner, rows; /* 0: a dimension of its own */
    int32_t step;        /* of a RANGE: indices that many apart; 0: neighbours */
    /* RANGE of a load: elements past the end of the tensor's dimension are zeros, not padding, like
       those before its beginning */
    bool open;
    /* Until masks are made: loops around where a range was made by its number, which need not differ from one iteration to
       the next.  0: it differs in all of them */
    int32_t within;
} TirIndex;

/* A limit of a load or store along `axis` of its tile, besides the end of the tensor: element r is left out
 * when r / inner % length (plain r if `part` is not part of a pack) is at least the limit's i32 operand.  A
 * load gives zero there, and the element is padding. */
typedef struct TirLimit {
    uint32_t axis;
    TirIndex part;
} TirLimit;

/* Attributes of a loop, from the source or the command line; 0: the compiler chooses. */
typedef struct LoopHints {
    int32_t stages; /* @stages(n): buffers of each pipelined load */
    bool no_split;  /* @no_split */
    bool any_order; /* @any_order */
    bool backwards; /* roles: the loop runs from its last iteration to its first */
    bool staggered; /* roles, of the loop as it was written: programs begin it at different iterations */
} LoopHints;

/* The segments of a split loop (split_loops): iterations [bound[k], bound[k+1]) are segment k,
 * bound[0] = the loop's first operand, bound[count] = its second.  A mask op is live in segment k
 * iff bit k of its `segments` is set. */
enum { MAX_SEGMENTS = 3 };

struct TirOp {
    TirOpcode op;
    Span span;
    TirBlock *parent;
    uint32_t n_args, n_results, n_blocks;
    TirVal **args;
    TirVal **results;
    TirBlock **blocks;

    /* attributes; which ones an operation has stands beside it in tir.def */
    double number; /* CONST of a float */
    /* CONST of i32 or bool: the value; PARAM, SIZE, GRID, PART, FROM: an index; ASYNC_WAIT: n; KEEP:
       the number of loops around the variable's declaration */
    int64_t integer;
    uint32_t axis; /* REDUCE, SQUEEZE, EXPAND, PART, OWN: the axis */
    ReduceKind reduce;
    /* SCAN_BY and its like: of the fn's list; its body has the parts of two tuples as arguments and ends with a yield of one */
    TirFn *combine;
    TirTensor *tensor;               /* LOAD, STORE, ATOMIC_ADD, COPY_ASYNC */
    TirIndex index[TENSOR_MAX_RANK]; /* one for each dimension of `tensor` */
    /* LOAD, STORE, ATOMIC_ADD, COPY_ASYNC: n_limits; the operands stand behind .. */
    const TirLimit *limits;
    uint32_t n_limits; /* .. those of the indices */
    LoopHints hints;   /* FOR */

    /* filled in by passes */
    /* stages, in the main loop: the operation of iteration i runs during iteration i + stage, which may be -1 */
    int8_t stage;
    /* MASK: bit k: needed in segment k of the loop around it (all when new) */
    uint32_t segments;
    /* FOR: how many segments, 0 or 1: not split; the inner bounds are the operands 2 .. n_segments
       (after lo and hi, before the initial values) */
    uint32_t n_segments;
    /* FOR: masks have left out iterations in which a program does nothing.  Bit k of `apart`: programs along grid axis k
       differ in those that it was written with */
    bool masked;
    uint32_t apart;
    struct TirShared *shared;  /* COPY_ASYNC, SHARED_READ, SHARED_WRITE: the buffer */
    uint32_t warps_m, warps_n; /* MMA: how the warps divide the result */
    bool rounded;              /* ADD, SUB, MUL of f32: in machine code no part of others */
    bool vote_warp;            /* REDUCE to a scalar bool: each warp may decide by itself */
    bool partial;              /* REDUCE: each lane keeps its own part, see COMBINE */
    bool small;                /* EXP2: the exponent stays below 128 */
    bool hides;          /* EXP2: .. and it is zero where what the exponent is made of is -inf */
    uint32_t polynomial; /* EXP2: so many of 16 elements are computed by a polynomial */
    bool by_rows;        /* IF: @by_rows in the source: rows may decide by themselves */
    bool swap_ab;        /* MMA: computed as transpose(b.T a.T), warps dividing that */
    bool uniform;        /* GRID: for bounds of loops and branches of a role alone */
    /* MMA: the consumers divide the contraction; SHARED_READ: of the parts of all consumers */
    bool coop_k;
    bool sliced; /* SHARED_READ: this consumer's share of the rows or columns; TMEM_READ: this block's half first */
    /* CONSUMER_WAIT, SHARED_READ: of the pipeline for this consumer's part of a tile */
    bool own;
    /* SHARED_READ of the mma role: the stage that is given back next, not the one waited for last */
    bool oldest;
    bool fast;  /* MMA: as it adds up, also where it keeps fewer bits than f32 has */
    bool async; /* MMA: asynchronous, the result is complete after an MMA_WAIT */
    /* links a scalar of the plan's `next_tile` to one of the body: both have the same number, and
       the body's takes the other's value when the next tile begins.  1 + the number; 0: none */
    uint32_t kept;
};

/* An SSA block: its arguments are the induction variable and the carried values of a loop. */
struct TirBlock {
    TirOp *owner; /* NULL for the body of the kernel */
    VEC(TirVal *) params;
    VEC(TirOp *) ops;
};

/* What some warps of a block do.  The kinds are those of their places in the block: the producer has warp
 * group 0, where one thread runs its program, copies into pipelines; consumers have a warp group each, and
 * the kernel's body; the reduce role has a warp for each consumer in the producer's warp group: it adds what
 * its consumer leaves in staging buffers to memory (or, where results lie in tensor memory, a warp group behind the
 * consumers', and it reads results itself); the mma role is a warp of that group, too, and issues the
 * consumers' products, whose results lie in tensor memory (without it they issue their own); the correction role is a
 * warp group behind the consumers', which changes the sums of all of them there, between products, and takes them to
 * memory in the end.  What a consumer finds out about its next tile at NEXT_TILE is a program of no warps of its own. */
typedef enum RoleKind {
    ROLE_PRODUCER,
    ROLE_CONSUMER,
    ROLE_REDUCE,
    ROLE_MMA,
    ROLE_CORRECTION,
    ROLE_NEXT_TILE,
    ROLE_KINDS
} RoleKind;

typedef enum SharedKind {
    SHARED_TILE, /* a tile of the consumers, or of the block */
    /* between roles (plan): filled by copies of the producer, a full and an empty barrier for each stage */
    SHARED_PIPELINE,
    SHARED_VECTORS, /* a pipeline of vectors: not swizzled */
    SHARED_PARTS,   /* each consumer writes its part, and products of all consumers read it */
    SHARED_STAGING, /* TMA reads it, each consumer has its own */
    /* a pipeline in tensor memory, where each consumer has its own, from column `offset` of its part on: products fill
       it, or a consumer does */
    SHARED_TMEM,
    SHARED_SENT /* the other block of a pair writes it: its part of what both add up */
} SharedKind;

/* What the blocks of a pair have to do with each other's stages. */

/* A buffer in shared memory (schedule, plan_shared). */
typedef struct TirShared {
    uint32_t id;
    const char *name;
    DType dtype;
    int32_t rows, cols;
    uint32_t stages;            /* pipeline depth */
    const SharedLayout *layout; /* layout pass */
    uint32_t offset, bytes;     /* plan_shared: where it lies; bytes of all stages */
    SharedKind kind;
    /* of a channel (tir_is_pipeline): which role fills it and which reads it, each for itself or for all consumers */
    RoleKind from, to;
    bool each;         /* each consumer has its own in every stage, and own barriers */
    bool in_registers; /* no product reads its tiles, and consumers do in registers */
    /* each block of a pair has half of every stage, which products of both read: of a tile of twice as many rows or columns */
    bool halved;
    /* a pipeline of parts of a tile, for consumer of_consumer - 1; 0: of whole tiles */
    uint32_t of_consumer;
    /* in tensor memory, of one stage: products add to it, and a consumer changes it between them.  What is there goes
       from hand to hand, and the consumer, which has it first, writes what it begins with.  Of an operand that a
       consumer fills: it does so once for all iterations */
    bool carried;
    /* stages that its reader has beside the one it waits for: it gives one back behind the wait for the next (`lag`), or during the
     * next work tile, so that it has one when a block begins (`held`); else before that wait.  And whether it reads a stage in the
     * iteration after its wait, too */
    uint8_t lag, held, scales, places; /* (the latter two: tir_scales.h) */
    bool reread;
    /* of a staging buffer: the pipeline with deferred release whose stage it reuses; in tensor memory, of an operand
       or of results that the reduce role reads: the pipeline of results over whose stage it lies; NULL: it has a place
       of its own */
    const struct TirShared *over;
    /* of a piece of an operand in tensor memory, which a consumer hands on piece by piece: the column of the operand at
       which it begins; of scales, the first column of tensor memory */
    uint32_t column;
    /* plan_shared: offset of the first barrier, the full ones first */
    uint32_t barriers;
    /* plan_shared, of a vector: the pipeline whose barriers these are; NULL: its own */
    const struct TirShared *with;
} TirShared;

/* The pipeline of work tile indices: stages (three indices and a word each), then the full barriers, then the
 * empty ones. */
enum {
    TILE_STAGES = 2,
    TILE_INDEX_BYTES = 16,
    TILE_PIPELINE_BYTES = TILE_STAGES * (TILE_INDEX_BYTES + 2 * MBARRIER_BYTES),
    /* behind it, with cluster launch control: an answer, the barrier at which it comes, and one at which the second
     * block of a pair says that it has read it */
    CLC_ANSWER = TILE_PIPELINE_BYTES,
    CLC_ANSWER_BYTES = 16,
    CLC_FULL = CLC_ANSWER + CLC_ANSWER_BYTES,
    CLC_EMPTY = CLC_FULL + MBARRIER_BYTES,
    CLC_BYTES = CLC_ANSWER_BYTES + 2 * MBARRIER_BYTES
};

enum { NO_AXIS = UINT32_MAX >> 1 };

/* Elements that a thread sends to the other block of a pair at once. */
enum { SENT_AT_ONCE = 4 };

typedef struct TirRole {
    RoleKind kind;
    const char *name;
    uint32_t warps, instances; /* that run the program together; how many do so side by side */
    /* of a thread, after the roles part; 0: those of the role whose warp group it is in */
    uint32_t registers;
    /* 1: results of products take most of them; 2: so many live over iterations that nothing else should */
    uint32_t pressure;
    /* plan_shared: from instance to instance, of buffers that are no pipelines */
    uint32_t private_bytes;
    TirBlock *program; /* NULL: pass `roles` has not been, or it is the kernel's body */
} TirRole;

/* Which programs of the grid a block runs, and in which order: what its tile scheduler does.  Consumers run
 * neighbouring programs on one axis, which use the same tiles of what does not depend on it; those of a block are
 * a tile of the grid. */
typedef enum TileScheduler {
    TILES_ONE,     /* a block has one tile */
    TILES_STATIC,  /* it goes through tiles with the stride of the launched blocks */
    TILES_DYNAMIC, /* tiles come from a counter, longest first */
    /* cluster launch control: each tile has a block, and blocks that run take over the tiles of those that have not
       begun */
    TILES_CLC
} TileScheduler;

typedef struct TirTileOrder {
    TileScheduler scheduler;
    /* of the grid, along which consumers are neighbours; NO_AXIS: they work on one program together, each has
       a part of every tile that the main loop goes along, and of what it adds up */
    uint32_t axis;
    /* tiles are counted from the axis' last program on: the one with fewer programs than consumers is the
       first, its first consumers have none */
    bool reversed;
    bool alternating; /* in every other tile warp groups have consumers in reverse order */
    /* blocks run in clusters of so many, neighbours on the axis: what does not depend on it is fetched once
       for all; 0 or 1: there are none */
    uint32_t cluster;
    /* tiles go through stripes of the grid's first axis, all of it, and so many indices of this one, which
       runs fastest; 0: the axes run in their order */
    uint32_t swizzle_axis, swizzle;
    /* global memory that programs share which differ in the axis alone: what the L2 cache should hold while
       they run */
    const HostExpr *shared_bytes_each;
    /* plan_shared: of a dynamic scheduler, offset of the pipeline in which the producer tells the others
       what tile is next; behind it the answer of cluster launch control */
    uint32_t offset;
} TirTileOrder;

/* How the warps of a block share the work (pass `plan`); a kernel without a plan is run by all
 * threads of its block alike. */
typedef struct TirPlan {
    VEC(TirRole) roles;
    TirTileOrder tiles;
    /* plan_shared: offset of a barrier that nobody waits for, see lower_hold; 0: none */
    uint32_t mark;
    /* plan_shared: columns of tensor memory, and offset of the word that says where they begin */
    uint32_t tmem_columns, tmem_start;
    /* what each consumer has to load: the loops, branches and scalars of the body before it was parted, with a `want` for
     * each load; NULL: not known */
    TirBlock *wants;
    bool wants_alike; /* consumers take part in iterations that are nothing to them */
} TirPlan;

struct TirFn {
    Arena *arena;
    Diag *diag;
    const char *name;
    Span span;
    VEC(TirTensor *) tensors;
    VEC(TirSize) sizes;
    VEC(TirScalar) scalars;
    VEC(TirConstant) constants;
    VEC(TirGridAxis) grid;
    VEC(TirRequire) requires;
    TirBlock *body, *unformed; /* (form_products.c) */
    uint32_t next_id;          /* of the next TirVal */
    /* what scans combine elements by: functions of scalars, each with values of its own, which no pass changes but by
       marks on operations */
    VEC(TirFn *) combines;
    /* launch hints from the source or the command line; 0: the compiler chooses */
    uint32_t hint_warps;
    /* a plan for warp groups, as --plan has it; NULL: the compiler chooses */
    const char *hint_plan;
    Span hint_plan_span;
    /* what the command line or the choice of tiles says instead; 0 and NULL: nothing */
    uint32_t chosen_warps, chosen_stages;
    const char *chosen_plan;
    /* the pass that ran last; NULL: none has.  The next ones go on behind it */
    const char *after;
    /* filled in by passes */
    uint32_t warps; /* that run `body` together */
    TirPlan *plan;  /* NULL: none */
    VEC(TirShared *) shared;
    uint32_t shared_bytes;
    VEC(TirMemory) memories;
    /* what is launched, when it is not one block for each point of the grid (a persistent kernel);
       all NULL: the extents of the axes */
    const HostExpr *blocks[3];
};

typedef struct TirModule {
    Arena *arena;
    Diag *diag;
    VEC(TirFn *) fns;
} TirModule;

/* ---- building ---- */

/* Where new operations go: at the end of `block`, or before position `at` when `at` >= 0. */
typedef struct TirBuilder {
    TirFn *fn;
    TirBlock *block;
    int32_t at; /* -1: append */
    Span span;  /* given to each operation made */
} TirBuilder;

TirFn *tir_fn_new(TirModule *module, const char *name, Span span);
/* A buffer in shared memory for `stages` tiles or vectors of a type. */
TirShared *tir_buffer_new(TirFn *fn, SharedKind kind, const char *name, TirType type,
                          uint32_t stages);
/* A function for scans of `fn`, with nothing in it yet. */
TirFn *tir_combine_new(TirFn *fn, const char *name, Span span);
/* The axis of the grid along which programs differ in length, that are sliding only if no other's do; the
 * number of axes: there is none. */
uint32_t tir_length_axis(const TirFn *fn);
/* Whether the grid has an axis along which programs end. */
bool tir_has_ended_axis(const TirFn *fn);
TirBlock *tir_block_new(TirFn *fn);
TirVal *tir_block_param(TirFn *fn, TirBlock *block, TirType type, const char *name);

TirType tir_scalar(DType dtype);
TirType tir_tile1(DType dtype, int32_t n);
TirType tir_tile2(DType dtype, int32_t rows, int32_t cols);
bool tir_type_eq(TirType a, TirType b);
bool tir_same_shape(TirType a, TirType b);
int64_t tir_type_elements(TirType type);

/* What the operation that makes a value does along its axes; AXIS_NONE of arguments of a block (NULL). */
static inline AxisUse
tir_axis_use(const TirOp *op)
{
    return op == NULL ? AXIS_NONE : tir_op_infos[op->op].axis;
}
/* Whether `op`, which may be NULL, reduces by `kind`. */
bool tir_reduces(const TirOp *op, ReduceKind kind);
/* Whether it decides one bool from those of a whole tile. */
bool tir_is_vote(const TirOp *op);
/* Whether its elements are combined by `reduce`. */
static inline bool
tir_combines(const TirOp *op)
{
    enum {
        COMBINE = 1 << AXIS_REDUCES | 1 << AXIS_REDUCES_PART | 1 << AXIS_SCANS | 1 << AXIS_SORTS
    };

    return op != NULL && (COMBINE >> tir_op_infos[op->op].axis & 1) != 0;
}
/* Whether it writes to a tensor, as the program says: what the schedule makes of that does not count. */
static inline bool
tir_writes(const TirOp *op)
{
    return (tir_op_infos[op->op].flags & TF_WRITES) != 0;
}
/* Whether what it writes is made of what was there, in one step: atomic_add, atomic_max, atomic_min. */
static inline bool
tir_is_atomic(const TirOp *op)
{
    return tir_writes(op) && op->op != TIR_STORE;
}
/* Whether it is such a one of which all threads learn what was there. */
static inline bool
tir_fetches(const TirOp *op)
{
    return op->n_results > 0 && tir_is_atomic(op);
}
/* Whether results of it may come from other warps (TF_EXCHANGES). */
static inline bool
tir_exchanges(const TirOp *op)
{
    return op->n_results > 0 && (tir_op_infos[op->op].flags & TF_EXCHANGES) != 0;
}
/* Whether its elements are tuples of several operands, which `combine` makes one of two. */
bool tir_combines_tuples(const TirOp *op);
/* Whether all elements that it reduces to one are the same. */
bool tir_reduces_totals(const TirOp *op);
/* The first operation of the block that combines the same tuples: it makes the results of all of them. */
const TirOp *tir_first_of_tuples(const TirOp *op);
/* Whether index[0] is a part of the pack that its axis is. */
static inline bool
tir_has_part(const TirOp *op)
{
    AxisUse use = tir_axis_use(op);

    return use == AXIS_REDUCES_PART || use == AXIS_SPREADS ||
           (op->op == TIR_IOTA && op->index[0].rows > 0);
}
/* Whether it has the attribute `axis`. */
bool tir_has_axis(const TirOp *op);
/* The element that changes nothing that it is combined with. */
double tir_neutral(ReduceKind kind, DType dtype);
/* Whether threads can make an operation's results again, each its elements, wherever the operands are known. */
bool tir_can_be_again(const TirOp *op);

/* The general maker: `result_types` has `n_results` entries.  The caller sets attributes. */
TirOp *tir_op_new(TirBuilder *b, TirOpcode op, uint32_t n_args, TirVal *const *args,
                  uint32_t n_results, const TirType *result_types);
/* Makers for the common shapes; each returns the first result.  Scalars and tiles alike; operands
 * of elementwise operations must already have one shape (use tir_broadcast_to). */
TirVal *tir_const_int(TirBuilder *b, int64_t value); /* i32 */
TirVal *tir_const_bool(TirBuilder *b, bool value);
TirVal *tir_splat_const(TirBuilder *b, TirType type, double value);
TirVal *tir_unary(TirBuilder *b, TirOpcode op, TirVal *a);
TirVal *tir_binary(TirBuilder *b, TirOpcode op, TirVal *x, TirVal *y); /* comparisons give bool */
TirVal *tir_select(TirBuilder *b, TirVal *condition, TirVal *yes, TirVal *no);
TirVal *tir_cast(TirBuilder *b, TirVal *a, DType to);
TirVal *tir_iota(TirBuilder *b, TirVal *start, TirVal *bound, int32_t length);
/* The indices that the elements of a pack have in one of its parts. */
TirVal *tir_iota_part(TirBuilder *b, TirVal *start, TirVal *bound, TirIndex part);
TirVal *tir_expand(TirBuilder *b, TirVal *a, uint32_t axis);
TirVal *tir_broadcast_to(TirBuilder *b, TirVal *a, const TirType *shape_of);
TirVal *tir_transpose(TirBuilder *b, TirVal *a);
TirVal *tir_reduce(TirBuilder *b, ReduceKind kind, TirVal *a, uint32_t axis);
/* op: TIR_FOLD, or TIR_UNFOLD, of which `inner` does not matter */
TirVal *tir_fold(TirBuilder *b, TirOpcode op, TirVal *a, uint32_t axis, int32_t inner);
TirVal *tir_reduce_part(TirBuilder *b, ReduceKind kind, TirVal *a, uint32_t axis, TirIndex part);
TirVal *tir_spread(TirBuilder *b, TirVal *a, uint32_t axis, TirIndex part);
TirVal *tir_mma(TirBuilder *b, TirVal *a, TirVal *x, TirVal *acc); /* acc may be NULL: zero */
/* Operands of an MMA: without scales, with them, and without them but with the same product behind it (tir.def), whose own
 * operands begin at TIR_MMA_OWN.  With scales these begin at TIR_MMA_PLAIN. */
enum { TIR_MMA_PLAIN = 3, TIR_MMA_SCALED = 5, TIR_MMA_BOTH = 7, TIR_MMA_OWN = 3 };
/* Gives a product without scales its form with them: both operands, then their scales. */
void tir_mma_own(TirFn *fn, TirOp *mma, TirVal *const own[4]);
TirVal *tir_mask(TirBuilder *b, TirVal *a, TirVal *condition);
/* A loop over [lo, hi) with `n` carried values; the body block gets its arguments (induction
 * variable first) named after `initial`.  The body must end with tir_yield. */
TirOp *tir_for(TirBuilder *b, TirVal *lo, TirVal *hi, uint32_t n, TirVal *const *initial);
/* A branch with `n` results of `types`; both blocks must end with tir_yield of `n` values. */
TirOp *tir_if(TirBuilder *b, TirVal *condition, uint32_t n, const TirType *types);
TirOp *tir_yield(TirBuilder *b, uint32_t n, TirVal *const *values);

/* Replaces every use of `from` in the function by `to`. */
void tir_replace_uses(TirFn *fn, TirVal *from, TirVal *to);
/* The same in a block and the blocks in it. */
void tir_replace_in_block(TirBlock *block, const TirVal *from, TirVal *to);
/* Whether a value is the constant 0, in all of a tile. */
bool tir_is_zero(const TirVal *value);
bool tir_is_mask(const TirOp *op);
/* What a value is, however often it is turned: itself, or that of which it is the transpose. */
const TirVal *tir_untransposed(const TirVal *value);
/* A set of dimensions (bit d: dimension d) of the operand of an operation that moves, reduces or scans: the same ones of
 * its result. */
uint8_t tir_moved_dimensions(const TirOp *op, uint8_t dimensions);

/* ---- accesses to tensors (tir_access.c) ---- */

/* The dimensions of the tensor that an operation touches, as it touches them:
 *
 *     for (TirDims d = tir_dims(op); tir_dims_next(&d);)
 *
 * An operation that is no access has none.  What an index is belongs here alone: who needs a place, a length or a
 * dimension of the tile asks for it, and not which kind of index it comes from. */
typedef struct TirDims {
    uint32_t dim;          /* of the tensor */
    const TirIndex *index; /* how it is addressed, with its part of a pack */
    bool single;           /* one index at `at`, which makes no dimension of the tile */
    bool range;            /* neighbours from `at` on */
    bool strided;          /* indices from `at` on that are `index->step` apart */
    bool places;           /* the elements of `at`, a tile */
    TirVal *at;            /* NULL: all of the dimension, from 0 on */
    uint32_t arg;          /* which operand `at` is, or would be */
    int32_t length;        /* how many indices; 1 of a single one */
    uint32_t axis; /* the dimension of the tile that it runs along; NO_AXIS of a single index */
    bool begins;   /* that one begins here: not of the second part of a pack, and further ones */
    TirVal *limit; /* the operand of the first limit along the dimension; NULL: it has none */
    /* of the iterator alone */
    const TirTensor *tensor;
    const TirIndex *first;
    TirVal *const *operands, *const *counts;
    const TirLimit *limits;
    uint32_t n_limits, seen, next, axes, pack;
} TirDims;

bool tir_is_access(TirOpcode op);
TirDims tir_dims(const TirOp *op);
bool tir_dims_next(TirDims *d);
/* Their `at` alone. */
void tir_dim_operands(const TirOp *op, TirVal **at);
/* Whether two accesses go over each dimension of their tensor in the same way, from wherever. */
bool tir_same_ways(const TirOp *a, const TirOp *b);
/* One dimension of its tensor; the last one. */
TirDims tir_dim(const TirOp *op, uint32_t dim);
TirDims tir_last_dim(const TirOp *op);
/* That of which operand `k` says where; of another operand one that is nothing. */
TirDims tir_operand_dim(const TirOp *op, uint32_t k);
/* Of any operation: the axis of operand `k` whose elements go to those along `axis` of the result; TIR_MAX_RANK: there is
 * none. */
uint32_t tir_axis_of_operand(const TirOp *op, uint32_t k, uint32_t axis);
/* Has an access touch `length` neighbours from `start` on along a dimension, in place of what it did. */
void tir_set_range(TirFn *fn, TirOp *op, uint32_t dim, TirVal *start, int32_t length);
/* A part of a pack of `rows` elements. */
TirIndex tir_part(int32_t length, int32_t inner, int32_t rows);
/* Has `n` dimensions of an access's tile, with so many elements each, be one, a pack; false: there is a pack elsewhere, or
 * a list of places in it. */
bool tir_join_dims(TirBuilder *b, TirOp *op, uint32_t first, uint32_t n, const int32_t *dim);
/* An index that is a range by itself. */
TirIndex tir_range(int32_t length);
/* One that is the elements of a tile of this type. */
TirIndex tir_places(TirType type);
bool tir_same_index(const TirIndex *a, const TirIndex *b);
/* The number of operands that are indices (the rest are limits and the value). */
uint32_t tir_index_operands(const TirOp *op);
/* What an operand that says where must be: a scalar, or a tile of places. */
TirType tir_operand_type(const TirDims *d);
/* How many dimensions the tile has that an access touches, even if more than tiles may have; its type. */
uint32_t tir_access_rank(const TirOp *op);
TirType tir_index_type(const TirOp *op);
/* Whether an access has elements of its pipeline's type, to which its tensor's are rounded on the way. */
bool tir_rounds(const TirOp *op);
/* Whether the tile's last dimension is the tensor's last, and by itself. */
bool tir_is_contiguous(const TirOp *op);
/* The tensor's dimensions in the order in which a box of them is the tile, the fastest first; false:
 * there is none. */
bool tir_box_order(const TirOp *op, uint32_t *order);
/* Whether one of the indices is a tile of places. */
bool tir_has_places(const TirOp *op);
/* Whether one of the ranges has indices that lie apart. */
bool tir_has_steps(const TirOp *op);
/* Adds a limit to an access, and the operand of limit `k`. */
void tir_add_limit(TirFn *fn, TirOp *op, TirLimit limit, TirVal *count);
TirVal *tir_limit_count(const TirOp *op, uint32_t k);
/* Of a tma_load: where this does not hold, nobody reads the stage, and nothing is copied to it; NULL: it always is. */
TirVal *tir_copy_condition(const TirOp *op);
/* `operands`: one for each INDEX_SCALAR and INDEX_RANGE, in order of the dimensions. */
TirVal *tir_load(TirBuilder *b, TirTensor *tensor, const TirIndex *index, TirVal *const *operands);
TirOp *tir_store(TirBuilder *b, TirOpcode op, TirTensor *tensor, const TirIndex *index,
                 TirVal *const *operands, TirVal *value); /* op: TIR_STORE or an atomic one */
/* The same of one element; the result is what was there. */
TirOp *tir_fetch(TirBuilder *b, TirOpcode op, TirTensor *tensor, const TirIndex *index,
                 TirVal *const *operands, TirVal *value);

/* ---- host expressions ---- */

HostExpr *host_int(Arena *arena, int64_t value);
/* Whether two are built alike; NULL is like NULL. */
bool host_equal(const HostExpr *a, const HostExpr *b);
HostExpr *host_device(Arena *arena, DeviceFact fact);
HostExpr *host_binary(Arena *arena, HostKind kind, const HostExpr *a, const HostExpr *b);
/* "cdiv(Sq, 128)": C's operators and precedence, plus min, max and cdiv. */
/* As the source has it: a name, or the expression of a dimension. */
const char *tir_size_text(const TirFn *fn, uint32_t size);
void host_print(const TirFn *fn, const HostExpr *expr, Buf *out);

/* ---- plans (tir_plan.c) ---- */

const char *tir_role_kind_name(RoleKind kind);
bool tir_role_kind_find(const char *name, RoleKind *kind);
/* The first role of a kind; NULL: there is none. */
TirRole *tir_role(const TirPlan *plan, RoleKind kind);
TirRole *tir_role_add(TirFn *fn, RoleKind kind, uint32_t warps, uint32_t instances,
                      uint32_t registers);
/* Its program; NULL: there is none yet, or it is the kernel's body. */
TirBlock *tir_program(const TirPlan *plan, RoleKind kind);
uint32_t tir_consumers(const TirPlan *plan);
/* Registers that the roles of a block take: a producer's warp group and the consumers'. */
uint32_t tir_role_registers(const TirPlan *plan);
/* Whether a role of its own issues the consumers' products. */
bool tir_has_issuer(const TirPlan *plan);
/* Whether a role of this kind does what it does for all consumers, one after the other. */
bool tir_serves_all(RoleKind kind);
/* The number in the block of a role's first warp; how many warps a block has; how many hear from the producer which tile is
 * next. */
uint32_t tir_first_warp(const TirPlan *plan, RoleKind kind);
uint32_t tir_block_warps(const TirPlan *plan);
uint32_t tir_tile_readers(const TirPlan *plan);
/* Warps of the warp group in which the reduce role reads results itself; 0: there is none. */
uint32_t tir_adding_warps(const TirPlan *plan);
/* Whether a consumer hands it on as a vector in shared memory, to the correction role. */
bool tir_is_handed(const TirShared *shared);
/* Parts of a pipeline's stages that have barriers of their own: one for each consumer, or one. */
uint32_t tir_parts(const TirPlan *plan, const TirShared *pipeline);
/* What follows for a pipeline's barriers from who fills it and who reads it: nobody writes that down
 * (docs/decisions/derived-channels.md). */
typedef struct TirChannel {
    uint32_t parts; /* tir_parts */
    uint32_t full,
        empty; /* arrivals that end a phase; empty 0: another pipeline's barriers tell, it has none */
    uint32_t barriers; /* of all stages and parts, the full ones first */
} TirChannel;
TirChannel tir_channel(const TirFn *fn, const TirShared *pipeline);
/* Columns of 32 bits that a stage of a pipeline in tensor memory has; that a consumer has in all. */
uint32_t tir_tmem_columns(const TirShared *pipeline);
/* Columns that a product writes in tensor memory whose result has so many; behind those nobody reads. */
uint32_t tir_product_columns(uint32_t columns);
/* Of a piece: how many columns of tensor memory the operand has in front of it. */
uint32_t tir_tmem_first(const TirShared *piece);
uint32_t tir_tmem_part(const TirFn *fn);
/* A pipeline in tensor memory of one stage.  Roles need not hold it between a wait and a release: other tokens may say
 * that it is theirs, and check-roles looks at all of them. */
bool tir_is_one_place(const TirShared *shared);
/* The programs of a kernel, one for each role in the order of the table: the body for the consumers, and of
 * a kernel without roles; NULL: this role's is not there yet. */
uint32_t tir_program_count(const TirFn *fn);
TirBlock *tir_program_at(const TirFn *fn, uint32_t k);
/* Consumers work on one program together. */
bool tir_is_cooperative(const TirPlan *plan);
/* Programs of a block's consumers, which else have one each; the axis along which these are neighbours, or NULL. */
uint32_t tir_own_programs(const TirPlan *plan);
const TirGridAxis *tir_consumer_axis(const TirFn *fn);
/* Consumers with programs of their own share out a product. */
bool tir_shares_out(const TirFn *fn);
/* A block has several tiles; from a counter. */
bool tir_is_persistent(const TirPlan *plan);
/* Whether tiles are handed out while blocks run: the producer finds out, and tells the other roles. */
bool tir_is_dynamic(const TirPlan *plan);
/* .. by cluster launch control. */
bool tir_has_clc(const TirPlan *plan);
bool tir_is_clustered(const TirPlan *plan);
/* The mma role of a pair's first block issues the products of both; the second one's does nothing.  What both fill for it
 * has the first one's full barriers, what it gives back or hands on goes to both, and what it waits for from consumers
 * those of both give. */
bool tir_multiplies_in_pairs(const TirPlan *plan);
/* Whether the reduce roles of a pair's blocks add up, column by column, what both would add to memory. */
bool tir_adds_in_pairs(const TirPlan *plan);
/* What sends a part of the value, in its block, to the other block of a pair; NULL: nothing. */
const TirOp *tir_pair_send(const TirVal *value);
/* How many programs of the consumer axis go side by side: a block's or, where two blocks multiply together, those of both.
 * There consumers with the same number have neighbouring programs, the first block the first one of two. */
uint32_t tir_programs(const TirPlan *plan);
/* From one consumer's program to the next one's. */
uint32_t tir_program_step(const TirPlan *plan);
/* The operations with which a role's program begins and ends a tile. */
TirOpcode tir_tile_head(const TirPlan *plan, RoleKind kind);
TirOpcode tir_tile_tail(const TirPlan *plan, RoleKind kind);
bool tir_is_tile_op(TirOpcode opcode);
bool tir_is_pipeline(const TirShared *shared);
/* "$K_1" */
const char *tir_buffer_name(Arena *arena, const TirShared *shared);
/* What the operations of the consumers' program say.  Their products of one iteration run under arithmetic of the
 * next (some are of stage 1); its first product begins in the one before (is of stage -1). */
bool tir_is_pipelined(const TirFn *fn);
bool tir_has_lookahead(const TirFn *fn);
/* Consumers work on some product together: all have all iterations. */
bool tir_has_coop_k(const TirFn *fn);
/* Whether tiles lie in swizzle atom columns as wide as they fill, not always in the widest: where consumers share a
 * product out, shared memory is what keeps tiles small. */
bool tir_fits_atom_columns(const TirFn *fn);
/* Bytes of a row of the atom columns that a tile's rows of so many bytes fill: 128, or 64. */
int32_t tir_fitting_atom_column(int32_t row);
/* .. of a tile that is read in registers, also where a row is shorter. */
int32_t tir_atom_column_in_registers(int32_t row);
/* The same where blocks of a pair have halves of a loaded tile's columns, which end where the other block's begin: as many
 * as the rows are whole of, so that nothing of the other half is copied.  0: there are no such halves. */
int32_t tir_half_atom_column(const TirOp *load);
/* Whether programs begin some loop of it at different iterations. */
bool tir_is_staggered(const TirBlock *program);
/* Consumers start products one after the other. */
bool tir_has_pingpong(const TirFn *fn);

/* ---- text (tir_text.c, tir_read.c) and invariants (tir_verify.c) ---- */

void tir_print(const TirModule *module, Buf *out);
void tir_print_fn(const TirFn *fn, Buf *out);
/* One operation as it stands in the text of the function; of those with blocks the first line. */
void tir_print_op(const TirFn *fn, const TirOp *op, Buf *out);
/* Where in a program something comes from; no file: it does not come from one, or the text does not say. */
SourcePlace tir_origin(const TirFn *fn, Span span);
/* What stands for a role among the lines of the program: its first loop, or the kernel when it has none. */
Span tir_role_span(const TirFn *fn, const TirBlock *role);
/* Reads what tir_print wrote; errors go to diag, NULL is returned then. */
TirModule *tir_read(Arena *arena, Diag *diag, const SourceFile *file);
/* Checks types, dominance, operand counts, terminators.  A broken invariant is a bug of ours: it
 * is written to `out`; true when all is well. */
bool tir_verify(const TirModule *module, Buf *out);
bool tir_verify_fn(const TirFn *fn, Buf *out);

#endif
