/* lower.h - what the files of the lowering share: tile IR to lane IR.
 *
 * A tile in registers becomes the elements that one thread holds.  Elements of elementwise values
 * are computed lazily, one at a time, when an instruction needs them: a chain of operations on a
 * tile becomes chains on its elements, each ending in the instruction that uses the element.
 *
 * A "home" is a register of a fixed role over loops: the registers of an accumulator's register
 * class (passes/util/acc_classes.h), or a cursor or index that a role keeps.
 */
#ifndef TILEC_LOWER_LOWER_H
#define TILEC_LOWER_LOWER_H

#include "compiler/ir/layout.h"
#include "compiler/ir/lir.h"
#include "compiler/passes/pass.h"

/* One element: a register (for i32 plus a constant), or a constant. */
typedef enum ElemKind { ELEM_REG, ELEM_INT, ELEM_FLOAT, ELEM_BOOL } ElemKind;

typedef struct Elem {
    ElemKind kind;
    LirReg reg;
    int64_t integer; /* ELEM_INT: the value; ELEM_REG of an i32: added to reg; ELEM_BOOL: 0, 1 */
    float number;
} Elem;

/* What is known of one TirVal while its block is being lowered. */
typedef struct TileState {
    Elem *elems; /* of narrow types: in their wide type */
    bool *have;
    LirReg *words;      /* of elements that share words; each has lower_per_word() of them */
    const int32_t *map; /* registers of the operand, for shape operations */
    LirReg *fragments;  /* a view kept in registers: fragments of an mma operand */
} TileState;

/* An element (or word) of a value from outside the block that made it. */
typedef struct Borrowed {
    TileState *state;
    int32_t at;
    bool word;
} Borrowed;

/* A role's position in a pipeline. */
typedef struct PipelineCursor {
    LirReg stage, phase; /* homes */
    bool follows;        /* stage and phase are another pipeline's, which advances both */
    /* with release lag: the cursor of the stage to be released next; NULL: the stage waited for
       last is released, and a release advances this cursor */
    struct PipelineCursor *oldest;
    LirReg waited; /* with release lag: the stage last waited for; `stage` is the next one then */
    LirReg base;   /* of the stage last waited for: its address, in units of 16 bytes */
    LirReg own;    /* likewise, of this consumer's part of the stage whose part it waited for */
    LirReg *described[2]; /* its descriptors, along columns and along rows; NULL: not made yet */
} PipelineCursor;

/* A scalar at the beginning of a work tile that is computed during the tile before. */
typedef struct HeadValue {
    TirVal *value, *again; /* in the body; the same in the program `next_tile` */
    LirReg home;
} HeadValue;

/* What a consumer computes about its next work tile before this one ends (lower_next.c). */
typedef struct TileHead {
    TirBlock *block; /* the program that computes it */
    VEC(HeadValue) values;
    LirReg grid[3];   /* homes: the indices of the next program */
    LirReg none;      /* home, 1: there is no further tile */
    LirReg known;     /* home, 1: all of this is known already */
    LirReg reversed;  /* home: consumers are in reverse order in that tile */
    LirReg reversing; /* .. in the tile fetched last */
} TileHead;

/* The address of a thread's part of a tile in a staging buffer, computed once at the beginning of a
 * role. */
typedef struct KeptPlace {
    const TirShared *staging;
    const Layout *layout;
    LirReg at;
} KeptPlace;

enum { MAX_KEPT_PLACES = 2 };

/* The role whose program is being lowered (lower_roles.c). */
/* Of a warp that loads scales: a stage of a pipeline, as tensor memory takes it, 128 lines and then
 * the same words of the next. */
typedef struct ScaleStage {
    uint32_t n;      /* words of a lane; 0: the pipeline has no scales */
    LirReg *word[2]; /* two sets, of two stages: one is on its way while the other is written */
    PipelineCursor cursor; /* the stage of what was asked for last */
} ScaleStage;

typedef struct Role {
    RoleKind kind;
    LirReg group;      /* number of the warp group, warp-uniform; of a reduce warp the consumer's */
    LirReg first_lane; /* predicate */
    LirReg warp;       /* number of the warp in its group, warp-uniform */
    LirReg elected;    /* of the mma role: predicate: this lane issues products */
    LirReg tmem;       /* where tensor memory begins */
    /* of products of a pair: the beginning of shared memory in the first block */
    LirReg pair_start;
    LirReg first_warp;    /* predicate, warp-uniform: this is the group's first warp */
    LirReg reversed;      /* 1: in this tile the consumers are in reverse order; else 0 */
    LirReg next_pingpong; /* the named barrier at which the next consumer waits for its turn */
    Elem grid[3];         /* the indices of this program, in a form that ptxas sees as uniform */
    Elem lane_grid[3];    /* the same in plain registers */
    PipelineCursor *pipelines;   /* by number of the buffer; of the mma role for each consumer */
    PipelineCursor tiles;        /* of the pipeline of tile numbers */
    PipelineCursor answers;      /* of the producer: of cluster launch control */
    struct TileNumbers *numbers; /* how tiles are found (lower_roles.c) */
    bool tiles_stay; /* `tiles` advances at the end of a tile, since pipelines follow it */
    KeptPlace places[MAX_KEPT_PLACES]; /* lower_staging.c */
    uint32_t n_places;
    bool storing; /* stores to tensor memory are under way, which what hands them on waits for */
    uint32_t
        /* of the producer, where its warps share out the pipelines; from 1 on they may be of
         * scales */
        instance;
    ScaleStage
        *scales; /* by number of the buffer, of a warp that loads them; how many stages it holds */
    LirReg holds_scales,
        scale_set; /* .. and the set that was asked for last; 1: the next stage came with it */
    LirReg has_next_scales;
    struct PairSending
        *sending; /* of the reduce role: what it sends between additions; NULL: nothing */
} Role;

/* A by-product of a vote: the largest or smallest element of each row that a thread holds.  The
 * branch that the vote decides can use it. */
typedef struct Extremes {
    const TirOp *vote;
    const TirVal *of; /* whose elements; NULL: nothing is known */
    ReduceKind kind;
    uint32_t axis;
    const Layout *layout; /* of the rows */
    Elem *rows;           /* by register */
} Extremes;

enum { MOST_CHAINS = 8, MASK_COLUMNS = 32, MOST_HIDDEN = 8 };

/* Of a value under masks, in runs of so many columns: predicates that a run is hidden in all of the
 * warp. */
typedef struct HiddenRuns {
    const TirVal *value; /* NULL: of none is known */
    LirReg all[MOST_HIDDEN];
} HiddenRuns;

/* A reduction that has taken some of its elements: registers below `next`, in turn into so many
 * chains of each result. */
typedef struct Reduction {
    const TirOp *op; /* NULL: there is none */
    int32_t next;
    uint32_t ways, *count; /* by result: elements taken */
    Elem (*chains)[MOST_CHAINS];
    Elem (*fixed)[MOST_CHAINS]; /* registers in which they go on behind a branch; NULL: none */
} Reduction;

/* The tensor maps of boxes: `whole`, for loads whose boxes end at a number the program loads: that
 * of boxes which are whole, or empty. */
typedef struct BoxMaps {
    const char *name, *whole;
} BoxMaps;

typedef struct Lowering {
    PassContext *px;
    Arena *arena; /* for what is forgotten when all is lowered: names go to that of `out` */
    TirFn *fn;
    LirFn *out;
    LirBuilder b;
    TileState *states;     /* by TirVal id */
    struct Sides *sides;   /* of comparisons, by TirVal id (lower_compare.c) */
    uint32_t segment;      /* of the innermost split loop */
    const TirBlock *block; /* whose operations are being lowered */
    VEC(TirVal *) kept;    /* operands whose fragments loops keep, the outermost loop's first */
    /* elements computed in `block` or around it: forgotten behind a loop or branch, where they need
       not have been computed */
    VEC(Borrowed) borrowed;
    Role *role; /* NULL: the kernel has no roles */
    /* names of parameters, by number of the pipeline; `lines`: of a few rows of a box that may
     * begin before its tensor */
    BoxMaps *maps, *line_maps;
    TileHead *head; /* NULL: a tile's indices are found when it begins */
    /* by value: evaluated where it stands (passes/util/acc_classes.h); NULL: no value has a home */
    const bool *at_once;
    LirReg **homes;    /* by value: the registers of its register class; NULL: none */
    Extremes extremes; /* of the last vote */
    Reduction begun;
    HiddenRuns hidden;
    const TirOp *voted;  /* the vote that decides the branch being lowered; NULL */
    bool whole_sums;     /* partial sums are combined across lanes at once */
    uint32_t even;       /* bytes at whose multiples rows begin and end; 0: anywhere */
    uint32_t least_even; /* .. for which others have a program; 0: there is none beside this */
    bool products;       /* the kernel has some */
    bool fast;           /* approximate special functions with flushed denormals */
    bool failed;
} Lowering;

/* A comment over what follows: which section of the code it is, and the line of the program. */
void lower_section(Lowering *lo, const char *what, Span span);

/* ---- even rows (lower_even.c) ---- */

/* The least unit, 4 or 16 bytes, for which launches whose rows begin and end at its multiples
 * deserve a program of their own; 0: none. A predicate of the whole launch: rows of all accesses
 * that it matters to do; 0: none asks.  Elements that a load or store has at once if it holds; 0:
 * it says nothing of the access. */
uint32_t lower_least_even(const Lowering *lo);
LirReg lower_even_test(Lowering *lo, uint32_t unit);
int32_t lower_even_vector(const Lowering *lo, const TirOp *op, uint32_t unit);
/* Where rows begin at words alone, and nothing but loads, stores and what is computed of single
 * elements is in a kernel: its tiles' words side by side in lanes.  `dealt`, by value, is what the
 * layouts were; lower_change_layouts changes them back.  False: they stay. */
bool lower_deal_words(Lowering *lo, const Layout **dealt);
void lower_change_layouts(Lowering *lo, const Layout **others);

/* ---- values (lower_value.c) ---- */

/* Element `reg` of a value, in its wide type: an f32, i32 or predicate. */
Elem lower_elem(Lowering *lo, TirVal *value, int32_t reg);
/* Word number `word` of elements that share words. */
LirReg lower_shared_word(Lowering *lo, TirVal *value, int32_t word);
/* The operand form of an element (adds a pending constant first). */
LirOperand lower_operand(Lowering *lo, Elem elem);
/* Which register of the operand of a shape operation holds register `reg` of its result. */
int32_t lower_operand_register(Lowering *lo, const TirOp *op, int32_t reg);
/* lower_mask_bits.c: masked elements from conditions that are bits of a word, register `reg` and
 * its neighbours; false: they are none. */
bool lower_mask_run(Lowering *lo, TirOp *op, int32_t reg);
/* Whether elements are masked in this part of the loop while they are not in others, so that an
 * exponential there is one of few. */
bool lower_is_masked_part(const Lowering *lo, const TirOp *exp2);
/* Whether `n` registers of a value from `reg` on are zero in all of the warp, since masks hide what
 * they are made of: a predicate; 0: that is not known. */
LirReg lower_hidden_run(const Lowering *lo, const TirVal *value, int32_t reg, int32_t n);

/* ---- words of elements, and casts (lower_words.c) ---- */

enum { MOST_OF_WORD = 8 };

/* Elements of a word; 1: each has a register of its own. */
int32_t lower_per_word(const TirVal *value);
/* Words that a thread has of a value; its registers, where elements share none. */
int32_t lower_words(const TirVal *value);
/* The 32 bits that register `reg` of a value is in, with its neighbours there; of a bool 0 or 1. */
LirReg lower_word(Lowering *lo, TirVal *value, int32_t reg);
/* Records such a word. */
void lower_set_word(Lowering *lo, TirVal *value, int32_t reg, LirReg word);
/* The word of elements of a narrow type, and element `at` of it, in the wide type. */
LirReg lower_make_word(Lowering *lo, DType dtype, const Elem *elems);
/* lower_narrow.c: the word of a cast that begins with register `first`, where elements of 16 bits
 * are computed in pairs; 0: it is another operation, or that would not be exact.  Bits of a range's
 * elements that all threads have alike: whether `op` is such. */
LirReg lower_narrow(Lowering *lo, const TirOp *op, int32_t first);
/* .. of the bits of integers. */
LirReg lower_narrow_bits(Lowering *lo, const TirOp *op, int32_t first);
bool lower_last_bits(const TirOp *op, int32_t reg, Elem *bits);
Elem lower_elem_of_word(Lowering *lo, DType dtype, LirReg word, int32_t at);
/* The low or high half of a b32, a b16. */
LirReg lower_half(Lowering *lo, LirReg word, bool high);
/* Element `at` of a word, of `bits` bits, as a b16, where what is above it does not count; such a
 * one in its place in a word of zeros; a word of them. */
LirReg lower_single(Lowering *lo, LirReg word, int32_t bits, int32_t at);
LirReg lower_word_of_single(Lowering *lo, LirReg single, LirReg zero, int32_t bits, int32_t at);
LirReg lower_join_singles(Lowering *lo, DType dtype, const LirReg *singles);
/* The bits of element `reg` below zeros; the word of the lower halves of `n` elements, one or
 * two. */
LirReg lower_alone(Lowering *lo, TirVal *value, int32_t reg);
LirReg lower_join_lower(Lowering *lo, TirVal *value, int32_t first, int32_t n);
/* An element in a word of its own; of a bool 0 or 1. */
LirReg lower_bits(Lowering *lo, DType dtype, Elem elem);
Elem lower_elem_of_bits(Lowering *lo, DType dtype, LirReg bits);
/* The registers of an element by itself. */
LirClass lower_class(DType dtype);
/* Whether its integers wrap, so that nothing of them may be put off (Elem) or concluded
 * (lir_fold.c). */
bool lower_wraps(DType dtype);
/* What copies such a register, which is no predicate, and what chooses one of two. */
LirOpcode lower_move(DType dtype);
LirOpcode lower_choice(DType dtype);
/* What an operation is on elements of a type as it is computed in (opcodes.def); LIR_OPCODE_COUNT:
 * there is none. */
LirOpcode lower_opcode(TirOpcode op, DType dtype);
/* Of an atomic statement that gives what was there. */
LirOpcode lower_fetch_opcode(TirOpcode op, DType dtype);
/* What adds to memory (lower_addition.c, opcodes.def): elements that are less than a word, a word,
 * two, four; 0: nothing. */
typedef struct Addition {
    DType dtype; /* DT_COUNT: none has an instruction, words are exchanged */
    uint32_t ability;
    LirOpcode of_words[4];
} Addition;
const Addition *lower_addition(const Lowering *lo, DType dtype);
/* How many neighbours a lane adds at most at once. */
int32_t lower_most_added(const Lowering *lo, DType dtype);
/* Adds the first `n` elements of a word, each rounded, where `guard` holds (0: everywhere); what
 * was there goes to `was` (0: to nobody). */
void lower_add_by_exchange(Lowering *lo, DType dtype, LirOperand address, LirReg word, int32_t n,
                           LirReg guard, LirReg was);
/* An atomic statement that gives what was there. */
void lower_fetch(Lowering *lo, TirOp *op);
/* An element from the wide type of one type to that of another one. */
Elem lower_cast(Lowering *lo, DType from, DType to, Elem elem);
Elem lower_select(Lowering *lo, DType dtype, Elem condition, Elem yes, Elem no);
/* ---- floats of 8 bits (lower_float8.c) ---- */

/* The code of an element; the word of four codes. */
Elem lower_code(Lowering *lo, TirVal *value, int32_t reg);
LirReg lower_join_codes(Lowering *lo, const Elem *codes);
/* Element `at` of a word as an f32: the word's halves are converted; its bytes are the upper ones
 * of f16; by arithmetic. */
Elem lower_float8_half(Lowering *lo, LirOpcode convert, LirReg word, int32_t at);
Elem lower_float8_upper(Lowering *lo, LirReg word, int32_t at);
Elem lower_float8_power(Lowering *lo, LirOpcode max, LirReg word, int32_t at);
Elem lower_float8_exponent(Lowering *lo, DType dtype, LirReg word, int32_t at);
/* The word of four f32: in pairs; by arithmetic. */
LirReg lower_pairs_to_8(Lowering *lo, LirOpcode convert, const Elem *elems);
LirReg lower_round_to_8(Lowering *lo, DType dtype, const Elem *elems);
/* What the verifier should have refused: a bug of ours. */
void lower_fault(Lowering *lo, const char *what, DType dtype);

/* ---- lower_compare.c: comparisons of i32 that are right for all values ---- */

struct Sides *lower_new_sides(Arena *arena, const TirFn *fn);
/* The comparison `op`, of these elements of its operands. */
Elem lower_comparison(Lowering *lo, const TirOp *op, Elem a, Elem b);
/* big - small, of elements of its operands, of which `big` is that of operand `at`; where it may be
 * no i32, limited to what comparisons with columns can't tell from it. */
Elem lower_limited_difference(Lowering *lo, const TirOp *op, uint32_t at, Elem big, Elem small);

LirReg lower_elem_reg(Lowering *lo, Elem elem, LirClass class);
/* A scalar of the program as an operand. */
LirOperand lower_scalar(Lowering *lo, TirVal *value);
LirReg lower_scalar_reg(Lowering *lo, TirVal *value);
/* Whether an element has been made, and is not forgotten. */
bool lower_has_elem(Lowering *lo, TirVal *value, int32_t reg);
/* Records an element of a value that is computed where it stands. */
void lower_set_elem(Lowering *lo, TirVal *value, int32_t reg, Elem elem);
/* The same of one that was computed together with one that is being computed. */
void lower_keep_elem(Lowering *lo, TirVal *value, int32_t reg, Elem elem);
/* Forgets the elements borrowed after the first `n`. */
void lower_forget(Lowering *lo, uint32_t n);
/* Makes every element of a value now. */
void lower_force(Lowering *lo, TirVal *value);
/* Whether a mask is live in the segment of the loop that is being lowered. */
bool lower_mask_is_live(const Lowering *lo, const TirOp *op);
TileState *lower_state(Lowering *lo, const TirVal *value);
void lower_clear(Lowering *lo, const TirVal *value);
int32_t lower_registers(const TirVal *value);
Elem elem_reg(LirReg reg);
Elem elem_int(int64_t value);
Elem elem_float(float value);
/* Integer arithmetic on elements that keeps constants apart. */
Elem lower_add(Lowering *lo, Elem a, Elem b);
Elem lower_mul_const(Lowering *lo, Elem a, int64_t by);
/* Of a register that is not negative, by a positive constant. */
LirReg lower_quotient(Lowering *lo, LirReg reg, int64_t by);
LirReg lower_remainder(Lowering *lo, LirReg reg, int64_t by);
/* The index, without its start, that element `row` of a pack has in one of its parts. */
Elem lower_part(Lowering *lo, Elem row, const TirIndex *part);

/* A register that is zero unless a guarded load writes it. */
LirReg lower_zeroed(Lowering *lo, LirClass class);
/* The thread's place. */
LirReg lower_lane(Lowering *lo);
LirReg lower_warp(Lowering *lo);
LirReg lower_thread(Lowering *lo);
/* The part of a coordinate that depends on lane and warp. */
Elem lower_lane_part(Lowering *lo, const Layout *layout, uint32_t axis);
/* The bits of a coordinate that lane and warp may set, an upper bound. */
uint32_t lower_lane_mask(const Layout *layout, uint32_t axis);

/* ---- lower_early.c: what is made of a branch's results begins before it ---- */

typedef struct Early {
    TirVal *value; /* whose first elements are made early; NULL: there is none */
    int32_t n;
    LirReg *regs;
} Early;

/* Before the branch, when its results have registers; at the end of the side that is taken seldom;
 * behind both. */
Early lower_begin_early(Lowering *lo, TirOp *branch);
void lower_early_again(Lowering *lo, const Early *early, const TirBlock *inside);
void lower_end_early(Lowering *lo, const Early *early);

/* ---- reductions (lower_reduce.c) ---- */

void lower_reduce(Lowering *lo, TirOp *op);
/* Two elements as one; what changes nothing that it is combined with; the value of the lane whose
 * number differs in one bit. */
Elem lower_combined(Lowering *lo, ReduceKind kind, DType dtype, Elem a, Elem b);
Elem lower_identity(ReduceKind kind, DType dtype);
Elem lower_from_lane(Lowering *lo, DType dtype, Elem mine, int32_t lane_mask);
void lower_scan(Lowering *lo, const TirOp *op); /* lower_scan.c */
/* Element `reg` of what is combined along an axis; the neutral one where the layout has more than
 * the tile. */
Elem lower_combined_elem(Lowering *lo, const TirOp *op, int32_t reg);
void lower_sort(Lowering *lo, TirOp *op); /* lower_sort.c */
/* A sum behind `before` of `value`, or of what was rounded to it, takes registers below `end`
 * already. */
void lower_take_along(Lowering *lo, const TirOp *before, const TirVal *value, int32_t end);
/* Has the sum that is being taken along go on in registers of its own, which both sides of a branch
 * leave; sets them to what it has come to since. */
void lower_fix_sums(Lowering *lo, const TirOp *before, const TirVal *value);
void lower_leave_sums(Lowering *lo);
/* The sum over the lanes that hold parts of the same element. */
void lower_combine(Lowering *lo, TirOp *op);

/* ---- shared memory (lower_shared.c) ---- */

/* The byte address of stage `stage` of a buffer: a register, or nothing but a constant. */
Elem lower_stage_base(Lowering *lo, const TirShared *shared, TirVal *stage);
/* Where an element lies whose row and byte column are lane parts plus constants. */
typedef struct SharedPlace {
    const SharedLayout *layout;
    Elem base;                    /* of the stage */
    Elem lane_row, lane_byte;     /* without constants */
    uint32_t row_mask, byte_mask; /* bits that the lane parts may set */
} SharedPlace;
LirOperand lower_shared_address(Lowering *lo, const SharedPlace *place, int32_t row, int32_t byte);
/* Splits a swizzled address whose lane part and constant part have no bits in common: the address
 * is the lane's part XOR the value returned, plus `*offset` bytes. */
int32_t lower_split_swizzle(const SharedLayout *layout, int32_t row, int32_t byte, int64_t *offset);
void lower_convert(Lowering *lo, TirOp *op);
/* Sends elements between the lanes of a warp. */
void lower_moves(Lowering *lo, TirVal *from, TirVal *to, const LaneMoves *moves);
void lower_shared_write(Lowering *lo, TirOp *op);
/* Moves registers of `value` to or from a buffer. */
void lower_tile_to_shared(Lowering *lo, TirVal *value, const TirShared *shared, Elem base);
/* Moves columns to a buffer's rows, 16 bytes of a row with an instruction; false: they do not lie
 * so. */
bool lower_columns_to_shared(Lowering *lo, TirVal *value, const TirShared *shared, Elem base,
                             int32_t first, int32_t n);
void lower_tile_from_shared(Lowering *lo, TirVal *value, const TirShared *shared, Elem base,
                            bool transposed);
/* How far a thread's columns may lie behind those of the first one. */
int32_t lower_column_reach(const Layout *layout);
/* The address of the kernel's shared memory. */
LirReg lower_shared_start(Lowering *lo);
/* An address in it as descriptors of operands have it: in units of 16 bytes, 14 bits. */
LirReg lower_described(Lowering *lo, LirReg address);
void lower_barrier(Lowering *lo);

/* ---- products (lower_mma.c) ---- */

void lower_mma(Lowering *lo, TirOp *op);
/* Loads the fragments of loop-invariant operands before the loop, if they fit; how many were kept
 * before. */
uint32_t lower_keep_operands(Lowering *lo, TirOp *loop);
/* Drops all but the first `n`: after the loop a product may need the same tile as other fragments
 * (as its other operand, or with another division among the warps). */
void lower_drop_operands(Lowering *lo, uint32_t n);

/* ---- products of warp groups (lower_group.c) ---- */

/* Finds the values that products of warp groups accumulate in. */
void lower_find_homes(Lowering *lo);
/* Whether `value` has a home; then its registers are `lo->homes[value->id]`. */
bool lower_has_home(const Lowering *lo, const TirVal *value);
void lower_at_once(Lowering *lo, TirVal *value);
void lower_group_mma(Lowering *lo, TirOp *op);
/* Makes the descriptors of a stage for the products that read it, ahead of the wait for it. */
void lower_describe_pipeline(Lowering *lo, const TirOp *wait);

/* How far behind its tile's beginning the operand's elements from `inner` on along the contracted
 * dimension lie, which runs along rows in shared memory or across them; from swizzle atom column to
 * swizzle atom column, in 16 bytes. */
int64_t lower_step_offset(const TirShared *pipeline, bool contiguous, int64_t inner,
                          int64_t *leading);

/* ---- tensor memory (lower_tensor_memory.c) ---- */

/* Before a block's roles meet: warp `warp` of the block allocates; of a role: finds out where; of
 * consumers, at the end: gives it back. */
void lower_begin_tmem(Lowering *lo, LirReg warp);
void lower_find_tmem(Lowering *lo);
/* .. of a consumer: where its part is; of the mma role the first consumer's. */
LirReg lower_tmem_part(Lowering *lo);
void lower_end_tmem(Lowering *lo);
/* Whether consumers with scores in tensor memory keep bounds of their own over the main loop:
 * registers are short (lower_access.c). */
bool lower_keeps_bounds(const Lowering *lo);
/* lower_two.c: elements 2p and 2p + 1 of an operation, one of which is `reg`, in one instruction;
 * false: there is none. */
bool lower_two(Lowering *lo, const TirOp *op, int32_t reg, Elem two[2]);
/* lower_exp2.c: whether a polynomial computes elements 2 pair and the next one; two exponentials by
 * it. */
bool lower_is_polynomial(const TirOp *op, int32_t pair);
void lower_exp2_two(Lowering *lo, const TirOp *op, const LirReg x[2], Elem results[2]);
/* Adds to two sums; false: likewise. */
bool lower_add_two(Lowering *lo, Elem *first, Elem *second, const Elem two[2]);
/* Whether this role fills a pipeline there. */
bool lower_tmem_fills(const Lowering *lo, const TirShared *pipeline);
void lower_tmem_mma(Lowering *lo, TirOp *op);
/* Waits until the next stage is full, or empty.  Says that a stage is full, or empty: when all
 * products issued before have ended, of the mma role; of a consumer when it has loaded what it
 * asked for, or written. */
void lower_tmem_wait(Lowering *lo, const TirOp *op, bool empty);
void lower_hand_on(Lowering *lo, const TirOp *op, bool empty);
/* A role's position in a pipeline; of the mma role in what it has of `consumer`. */
PipelineCursor *lower_cursor(const Lowering *lo, const TirShared *pipeline, int64_t consumer);
/* The full or empty barrier of a stage that a cursor of the producer names. */
LirOperand lower_barrier_at(Lowering *lo, const TirShared *pipeline, const PipelineCursor *cursor,
                            bool empty);
/* The full or empty barrier of a pipeline's current stage. */
LirOperand lower_stage_barrier(Lowering *lo, const TirShared *pipeline, uint32_t part, bool empty);
/* The same in the first block of a pair. */
LirOperand lower_pair_barrier(Lowering *lo, const TirShared *pipeline, uint32_t part, bool empty);
Elem lower_tmem_elem(Lowering *lo, TirOp *op, int32_t reg);
void lower_tmem_write(Lowering *lo, TirOp *op);

/* ---- roles and pipelines (lower_roles.c, lower_pipelines.c) ---- */

/* The warps that run the role's program together, with a part of each tile each. */
uint32_t lower_warps(const Lowering *lo);
/* The body of a kernel with a plan: all roles. */
void lower_roles(Lowering *lo);
void lower_early_start(Lowering *lo);
void lower_tile_block(Lowering *lo, TirBlock *block);
/* Waits for this consumer's turn, or passes it to the next consumer. */
void lower_pingpong(Lowering *lo, bool pass);
/* Goes on when so many clocks have gone by. */
void lower_delay(Lowering *lo, const TirOp *op);
/* All consumers are here, and their writes to shared memory are there for products. */
void lower_consumer_barrier(Lowering *lo);
/* lower_next.c: the head of the next tile; NULL when no operation computes it ahead. */
TileHead *lower_find_head(Lowering *lo);
/* Finds the head of the first tile; of the next one, if its index has been broadcast by now; and,
 * at the end of a tile, of the next one if it had not been. */
void lower_find_first(Lowering *lo);
void lower_next_tile(Lowering *lo);
/* lower_roles.c: runs `program` for every tile of this block. */
void lower_tiles(Lowering *lo, TirBlock *program);
/* lower_producer.c: the producer's warps, which go to `end`; whether the one that is lowered fills
 * a pipeline. */
void lower_producer(Lowering *lo, LirReg thread, LirReg warp, uint32_t end);
bool lower_fills(const Lowering *lo, const TirShared *pipeline);
/* lower_scales.c: how many warps of the producer's group load scales; fills a stage of each
 * pipeline of scales that the block of `op` does. */
uint32_t lower_scale_warps(const Lowering *lo);
void lower_load_scales(Lowering *lo, const TirOp *op);
/* Before and behind all tiles of such a warp. */
void lower_begin_scales(Lowering *lo);
void lower_end_scales(Lowering *lo);
/* Of the mma role: copies the current stage of an operand's scales to tensor memory.  Where an
 * instruction finds those of its step, and what its descriptor says of them. */
typedef struct PlacedScales {
    LirReg at;
    int32_t word_columns; /* of the same four scales of all lines */
} PlacedScales;

PlacedScales lower_place_scales(Lowering *lo, const TirVal *operand);
LirOperand lower_scales_at(Lowering *lo, const PlacedScales *placed, const MmaForm *form,
                           uint32_t step);
int64_t lower_scales_described(const MmaForm *form, uint32_t step);
/* lower_roles.c: finds the tile of a role, and ends the role when there is none; ends a role's
 * tile. */
void lower_tile_head(Lowering *lo, TirOpcode opcode);
/* The remainder; *rest becomes the quotient. */
LirReg lower_divide(Lowering *lo, LirReg *rest, LirReg by);
/* The index on axis `axis`, of extent `count`, that has rank `rank` in the order of tiles.  With a
 * reversed raster it is that of the tile's first program: consumers times the number of tiles from
 * this one to the end. */
LirReg lower_index_of_rank(Lowering *lo, uint32_t axis, LirReg rank, LirReg count);

/* Of indices of the other axes whose tiles run together (lower_sections.c). */
typedef struct Sections {
    LirReg size; /* how many have a section */
    LirReg last; /* where the last section begins, which has those that are left, too */
} Sections;

/* `others` indices with so many tiles each; `even`: sizes are powers of two. */
Sections lower_sections(Lowering *lo, LirReg others, LirReg tiles, bool even);
/* Sets the place of a tile by its number. */
void lower_place_in_sections(Lowering *lo, LirReg tile, uint32_t variable, const LirReg counts[3],
                             LirReg others, const Sections *sections);
void lower_tile_tail(Lowering *lo, TirOpcode opcode);
void lower_find_late(Lowering *lo);
/* Begins the tile with the indices and scalars found ahead.  Returns the predicate that there is no
 * tile. */
LirReg lower_take_head(Lowering *lo);
/* lower_roles.c: the indices of the program from those of the block, or themselves. */
void lower_set_place(Lowering *lo, uint32_t axis, LirReg index);
void lower_set_told_place(Lowering *lo, uint32_t axis, LirReg index);
void lower_set_program(Lowering *lo, uint32_t axis, LirReg index);
/* A register of its own for what `home` holds now. */
LirReg lower_copy_of(Lowering *lo, LirReg home);
/* Advances to the next tile, or to the first; returns a word that is 1 when there is none. */
LirReg lower_count_on(Lowering *lo, bool first);
void lower_alternate(Lowering *lo);
/* lower_scheduler.c, of the producer: fetch a tile number from the counter; reset the counter at
 * the end of the launch; broadcast the tile's indices, or (`none`) that there is no further
 * tile. */
void lower_fetch_tile(Lowering *lo, LirReg drawn);
void lower_ask_tile(Lowering *lo);
void lower_take_answer(Lowering *lo, LirReg tile);
void lower_clear_counter(Lowering *lo, LirReg blocks);
void lower_tell_tile(Lowering *lo, LirReg none);
/* Of the others: wait for the broadcast; test whether it is there; read it; wait and read.  The
 * last two return the predicate that there is no further tile. */
void lower_await_tile(Lowering *lo);
LirReg lower_is_told(Lowering *lo);
LirReg lower_read_tile(Lowering *lo);
LirReg lower_hear_tile(Lowering *lo);
/* lower_staging.c.  At the beginning of a consumer: computes the addresses to which its threads
 * write tiles in loops of `block`, and keeps them. */
void lower_keep_places(Lowering *lo, const TirBlock *block, bool in_loop);
void lower_staging_write(Lowering *lo, TirOp *op);
void lower_staging_empty(Lowering *lo);
void lower_tma_reduce_add(Lowering *lo, TirOp *op);
/* The program of the warp group behind the consumers', which adds results in tensor memory to
 * memory, or has their sums; `warp`: of the block. */
void lower_further_group(Lowering *lo, RoleKind kind, LirReg warp, uint32_t end);
/* lower_stores.c: stores a tile by TMA, through its staging buffer or over a stage of a
 * pipeline. */
void lower_tma_store(Lowering *lo, TirOp *op);
/* A predicate that is true in one lane of the warp, always the same one. */
LirReg lower_elect(Lowering *lo);
/* A role goes on to its next tile. */
void lower_end_tile(Lowering *lo);
/* The stores that this thread started have arrived. */
void lower_end_stores(Lowering *lo);
enum { BOTH_BLOCKS = 3 }; /* of a pair, as a set of bits */
/* Pairs of blocks: this block's number in the pair, and the synchronisation with the other block at
 * the beginning and at the end. */
LirReg lower_pair_rank(Lowering *lo);
bool lower_multiplies_in_pairs(const Lowering *lo);
/* lower_pair_sums.c: what the reduce roles of a pair add up; the barriers of it */
void lower_pair_send(Lowering *lo, TirOp *op);
/* Behind `done` of `of` additions of what a pair does not add up: sends what is due by then; `done`
 * 0: a branch begins that has all of them. */
void lower_send_between(Lowering *lo, int32_t done, int32_t of);
void lower_pair_sum(Lowering *lo, TirOp *op);
void lower_init_sent(Lowering *lo);
/* The index of this block of a pair's, where two blocks multiply together that of its first
 * program, from the pair's. */
LirReg lower_pair_block(Lowering *lo, LirReg pair);
/* Where they do: the program of consumer `own`, from the block's first one. */
LirReg lower_pair_program(Lowering *lo, LirReg first, LirReg own);
void lower_begin_pairs(Lowering *lo);
void lower_end_pairs(Lowering *lo);
Elem lower_lane_grid(Lowering *lo, uint32_t axis);
/* The index of the block's first program: what TIR_GRID_FIRST `op` reads where tiles are counted
 * from the end. */
Elem lower_first_program(Lowering *lo, const TirOp *op);
/* The size of a tensor's dimension. */
Elem lower_dim_size(Lowering *lo, const TirTensor *tensor, uint32_t dim);
/* Whether a value may be smaller than in any program because a consumer lies before the beginning
 * of its axis (reversed raster) and the value depends on the index. */
bool lower_may_lie_in_front(const Lowering *lo, const TirVal *value);

/* ---- tensor maps and boxes (lower_boxes.c) ---- */

/* Elements of the last dimension that one copy brings: a swizzle atom column's, or all of a
 * vector. */
int32_t lower_atom_width(const TirShared *shared);
/* The address of a tensor map: lo->maps[shared->id] has the names for copies to a pipeline, or from
 * a staging buffer. */
LirReg lower_map_address(Lowering *lo, const char *name);
/* Where the box of a copy, a store or an addition lies in the tensor; coordinates from the
 * innermost dimension of the tensor map out. */
typedef struct LowerBox {
    uint32_t rank;
    Elem at[BOX_RANK];
    /* if the box ends at `end`, before the end `size` of its tensor, along one dimension: its rows
       there; else 0 */
    int32_t rows;
    uint32_t ended; /* the number of that dimension in the map */
    Elem end, size;
    /* lower_end_box: whether some elements lie in the tensor, and before the end; for a load,
     * whether some do and some do not; else its place along `ended` for a map with each dimension
     * once: where it begins, or behind the tensor */
    LirReg some;
    Elem whole;
    LirReg inside; /* .. whether it begins in its tensor: at `start` */
    Elem start;
} LowerBox;

/* A box that may begin before its tensor.  A map with its dimension twice has no place before it,
 * but the tensor's own has, for a load: `whole`, if the box ends behind the program's end of it.
 * Where `by_lines` holds it goes by lines of shared memory, of 128 bytes, of which each ends at one
 * side at most; and so does what is written: boxes of stores must not begin before their tensor
 * (CUDA C++ Programming Guide, "Tensor Memory Access").  In the loop over lines `line` is the box
 * of line number `number`; `there`: whether its row is to be written, if it is one.
 *
 *     begin_before   a load asks for `whole`, but where by_lines holds
 *     begin_lines    all ask for `line`
 *     begin_within   what is done with a box that begins in its tensor
 *     end_within
 */
typedef struct BoxBefore {
    LowerBox whole, line;
    LirReg by_lines, number, there;
    int32_t lines;
    uint32_t head, within, end;
} BoxBefore;

/* lower_pairs.c: moves the box of a copy to the half that this block of a pair has. */
void lower_own_share(Lowering *lo, const TirOp *op, LowerBox *box);
void lower_find_box(Lowering *lo, const TirOp *op, LowerBox *box);
/* Call when the box has its place, and before its coordinates are used. */
void lower_end_box(Lowering *lo, const TirOp *op, LowerBox *box);
/* False: it never begins there, and nothing is emitted. */
bool lower_begin_before(Lowering *lo, const TirOp *op, const LowerBox *box, BoxBefore *before);
void lower_begin_lines(Lowering *lo, const TirOp *op, const LowerBox *box, BoxBefore *before);
void lower_begin_within(Lowering *lo, const BoxBefore *before);
void lower_end_within(Lowering *lo, const BoxBefore *before);
/* The predicate box->some for the swizzle atom column that begins `column` after the box's
 * beginning; 0: always. */
LirReg lower_box_some(Lowering *lo, const TirOp *op, const LowerBox *box, int32_t column);
/* The coordinates of the swizzle atom column that begins `column` behind the box's beginning; how
 * many. */
uint32_t lower_box_coordinates(Lowering *lo, const LowerBox *box, int32_t column,
                               LirOperand *operands);

/* Of instructions on boxes, which stand by their dimensions: the one of `rank`, of which the first
 * has one. */
static inline LirOpcode
lower_of_rank(LirOpcode of_one, uint32_t rank)
{
    return (LirOpcode)(of_one + rank - 1);
}

/* lower_stores.c: asks, where `asks` holds, for a swizzle atom column of a tile to be stored or
 * added, from `from` on; by instructions of the box's rank. */
void lower_ask_for_column(Lowering *lo, const TirOp *op, LirOpcode of_one, const LowerBox *box,
                          LirReg asks, int32_t column, Elem from);

/* ---- stages (lower_pipelines.c) ---- */

void lower_consumer_wait(Lowering *lo, TirOp *op);
void lower_consumer_release(Lowering *lo, TirOp *op);
/* Makes ptxas compute half of `value` before what comes next; else it would move that arithmetic
 * below. */
void lower_hold(Lowering *lo, TirVal *value);
void lower_tma_load(Lowering *lo, TirOp *op);
/* The cursors of all pipelines for the role being lowered, at the first stages. */
void lower_begin_pipelines(Lowering *lo);
/* One thread sets up the barriers of all pipelines. */
void lower_init_barriers(Lowering *lo);
void lower_init_tile_barriers(Lowering *lo);
/* Waits until the phase of a barrier has ended. */
void lower_wait_barrier(Lowering *lo, LirOperand barrier, LirReg phase);
/* .. of one at which both blocks of a pair arrive, to hand tensor memory over. */
void lower_wait_for_pair(Lowering *lo, LirOperand barrier, LirReg phase);
void lower_wait_for_other(Lowering *lo, LirOperand barrier, LirReg phase);
/* A cursor at the first of several stages, or past it. */
PipelineCursor lower_new_cursor(Lowering *lo, bool fills);
void lower_advance(Lowering *lo, PipelineCursor *cursor, uint32_t stages);
/* Tensor maps as parameters. */
void lower_add_maps(Lowering *lo);
/* A launcher's expression on sizes, computed by the kernel. */
LirReg lower_host(Lowering *lo, const HostExpr *expr);
/* A parameter that is always 0, though ptxas does not know that. */
LirReg lower_zero(Lowering *lo);

/* ---- global memory (lower_memory.c) ---- */

/* Of threads that hold copies of the same elements, the predicate of the one that stores; 0: no
 * copies. */
LirReg lower_first_copy(Lowering *lo, const Layout *layout);
void lower_load(Lowering *lo, TirOp *op);
void lower_store(Lowering *lo, TirOp *op);
/* lower_copies.c: lowers several copies together, with one test that their tiles lie inside. */
void lower_copies(Lowering *lo, uint32_t n, TirOp *const *ops);

#endif
