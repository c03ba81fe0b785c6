/* lir.h - lane IR: the program of one thread; one instruction is one line of PTX.
 *
 * A LirFn is a list of instructions over virtual registers.  Registers are assigned once, except
 * those marked `mutable` (values that a loop carries, results of branches), which are assigned by
 * moves at the ends of blocks.  Control flow is by labels and branches; every branch is uniform
 * over the warp.  lir.def holds the instructions: mnemonic and operand shape.
 */
#ifndef TILEC_IR_LIR_H
#define TILEC_IR_LIR_H

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/ir/isa.h"

typedef enum LirClass {
    LIR_PRED,
    LIR_B16,
    LIR_B32,
    LIR_F32,
    LIR_B64,
    LIR_B128,
    LIR_CLASSES
} LirClass;

typedef uint32_t LirReg; /* index into LirFn.regs; 0 is "none" */

typedef struct LirRegInfo {
    LirClass class;
    bool is_mutable;
    /* an accumulator that asynchronous products write: instructions that read it stay where they
       are, they are neither shared nor hoisted */
    bool is_home;
    uint32_t depth; /* of the region that defines it: 0 is the kernel's body */
    /* the pure instruction that makes it; NULL: another one, or several */
    const struct LirInsn *def;
} LirRegInfo;

/* lir.def: LIR_OP(ENUM, "mnemonic", "operand groups", flags) */
/* clang-format off */
typedef enum LirOpcode {
#define LIR_OP(name, mnemonic, groups, flags) LIR_##name,
#include "compiler/ir/lir.def"
#undef LIR_OP
    LIR_OPCODE_COUNT
} LirOpcode;
/* clang-format on */

typedef enum LirFlags {
    LF_PURE = 1,     /* the result depends on the operands alone: may be shared and hoisted */
    LF_EFFECT = 2,   /* must stay, in order */
    LF_LOAD = 4,     /* reads memory */
    LF_COMMUTES = 8, /* the two operands may change places */
    LF_KEEP = 16,    /* pure, but cheaper to repeat than to keep in a register: not hoisted */
    LF_NO_DST = 32,  /* the first operand group is not a result */
    LF_IN_OUT = 64,  /* accumulators: the results are operands, too, and are written later */
    LF_DEAR = 256,   /* expensive: hoisted even where registers are short */
    LF_FOLDS = 512,  /* integer arithmetic that lir_fold.c knows */
    LF_ROLES = 128   /* needs the architecture's own .target (Target.ptx_target_exact) */
} LirFlags;

typedef struct LirOpInfo {
    const char *mnemonic;
    const char *groups;
    uint32_t flags;
} LirOpInfo;
const LirOpInfo *lir_op_info(LirOpcode op);

typedef enum LirOperandKind {
    LIR_REG,         /* reg */
    LIR_INT,         /* integer */
    LIR_FLOAT,       /* the bits of an f32: integer */
    LIR_ADDRESS,     /* [reg + integer], or [symbol + integer] when symbol is set */
    LIR_SYMBOL,      /* symbol: a special register, a parameter, a shared array */
    LIR_TARGET_LABEL /* integer */
} LirOperandKind;

typedef struct LirOperand {
    LirOperandKind kind;
    LirReg reg;
    int64_t integer;
    const char *symbol;
} LirOperand;

/* Most instructions are none of these: one comparison says so. */
_Static_assert(LIR_COMMENT == 0 && LIR_LABEL == 1 && LIR_BRA == 2 && LIR_BRA_UNI == 3 &&
                   LIR_RET == 4,
               "labels and branches are the first ones of lir.def");

typedef struct LirInsn {
    LirOpcode op;
    LirReg guard; /* predicate; 0: always */
    bool guard_not;
    uint32_t n; /* operands, results first */
    uint32_t n_dst;
    uint32_t hash; /* of what it computes, while it can be found again .. */
    LirOperand *operands;
    const char *text; /* COMMENT; the mnemonic of MMA, WGMMA_SS, WGMMA_RS, TMEM_LD, .. */
    Span span;
    struct LirInsn *next_made;       /* .. among those of like hashes .. */
    const struct LirRegion *made_in; /* .. while this region is open */
} LirInsn;

/* What the launcher puts into a parameter (docs/metadata.md). */
typedef enum LirParamKind {
    LIR_PARAM_PLAIN,   /* unknown (lane IR written by hand); no metadata */
    LIR_PARAM_POINTER, /* b64: address of tensor `index` of the TirFn */
    LIR_PARAM_STRIDE,  /* b64: its stride of dimension `dim`, in elements */
    LIR_PARAM_SIZE,    /* b32: size `index` */
    LIR_PARAM_SCALAR,  /* b32 or f32: scalar `index` */
    LIR_PARAM_MEMORY,  /* b64: address of memory `index` */
    LIR_PARAM_ZERO,    /* b32: always 0, but ptxas does not know that */
    LIR_PARAM_MAP      /* LirFn.maps.at[index]: 128 bytes, aligned to 128, used by its address */
} LirParamKind;

typedef struct LirParam {
    const char *name;
    LirClass class; /* B64: .u64, B32: .s32, F32: .f32; unused for a map */
    LirParamKind kind;
    uint32_t index, dim;
} LirParam;

/* The recipe of one tensor map: the tensor, its dimensions and the box from the innermost out, and
 * the modes of cuTensorMapEncodeTiled.  The box of a dimension with a scalar index is 1. */
enum { LIR_MAP_BYTES = 128 };

typedef struct LirTensorMap {
    const char *tensor;
    uint32_t rank;
    uint32_t dim[BOX_RANK]; /* of the tensor; dim[0] is its last one */
    uint32_t box[BOX_RANK];
    uint32_t swizzle_bytes;      /* 0, 32, 64 or 128 */
    uint32_t l2_promotion_bytes; /* 0, 64, 128 or 256 */
    const char *rounds;          /* the type to which copies by it round; NULL: they do not */
} LirTensorMap;

/* What the innermost loops need, in registers of 32 bits: the most of any. */
typedef struct LirNeed {
    uint32_t alive;        /* at once */
    uint32_t with_masks;   /* and with the predicates of masked elements, packed */
    uint32_t held;         /* of those: kept over that loop and only read in it */
    uint32_t instructions; /* of that loop */
} LirNeed;

typedef struct LirFn {
    Arena *arena;
    /* for what a pass over it forgets when it ends; there may be none but `arena` */
    Arena *scratch;
    const char *name;
    VEC(LirRegInfo) regs;
    VEC(LirInsn *) insns;
    VEC(LirParam) params;
    VEC(LirTensorMap) maps;
    uint32_t labels;
    uint64_t ops[(LIR_OPCODE_COUNT + 63) / 64]; /* that an instruction has had (lir_may_have) */
    bool has_homes;                             /* a register is_home */
    bool starts_early; /* it waits by itself for the kernels before it in the stream (GRID_WAIT) */
    /* launch facts */
    uint32_t threads, shared_bytes, min_blocks;
    uint32_t cluster[3]; /* blocks along x, y and z; all 0: no cluster */
    LirNeed need;        /* once the lowering has counted it */
} LirFn;

/* Whoever makes an instruction says so. */
static inline void
lir_note_op(LirFn *fn, LirOpcode op)
{
    fn->ops[op / 64] |= (uint64_t)1 << op % 64;
}

/* Whether a walk over all instructions may find such a one. */
static inline bool
lir_may_have(const LirFn *fn, LirOpcode op)
{
    return (fn->ops[op / 64] >> op % 64 & 1) != 0;
}

/* Forgets what was allocated in `scratch` since. */
static inline void
lir_end_work(const LirFn *fn, ArenaMark since)
{
    if (fn->scratch != fn->arena)
        arena_rewind(fn->scratch, since);
}

static inline LirOperand
lir_reg(LirReg reg)
{
    return (LirOperand){.kind = LIR_REG, .reg = reg};
}
static inline LirOperand
lir_int(int64_t value)
{
    return (LirOperand){.kind = LIR_INT, .integer = value};
}
static inline LirOperand
lir_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (LirOperand){.kind = LIR_FLOAT, .integer = bits};
}
static inline LirOperand
lir_symbol(const char *symbol)
{
    return (LirOperand){.kind = LIR_SYMBOL, .symbol = symbol};
}
static inline LirOperand
lir_address(LirReg base, int64_t offset)
{
    return (LirOperand){.kind = LIR_ADDRESS, .reg = base, .integer = offset};
}

/* ---- building ----
 *
 * Instructions go to the innermost open region.  A pure instruction that was already made in an
 * open region is not made again; one whose operands are all defined outside the innermost loops
 * is placed before them. */

typedef struct LirRegion {
    struct LirRegion *parent;
    uint32_t depth;
    bool is_loop;
    VEC(LirInsn *) insns;
    bool is_open;
} LirRegion;

typedef struct LirBuilder {
    LirFn *fn;
    LirRegion *region;
    LirInsn **made; /* hash table of the pure instructions that open regions have */
    uint32_t made_size, made_count;
    Span span;
    bool share; /* common subexpressions are found (off at -O0) */
    bool hoist; /* loop invariants leave loops (off at -O0) */
    bool fold;  /* integer arithmetic on constants is done (off at -O0) */
} LirBuilder;

LirFn *lir_fn_new(Arena *arena, const char *name);
/* The instructions, in `scratch`, to be put back one by one; there is room for so many more. */
LirInsn **lir_take_insns(LirFn *fn, uint32_t more);
/* An instruction that goes before the one at a place of a function. */
typedef struct LirBefore {
    uint32_t at;
    LirInsn *insn;
} LirBefore;
/* Puts `n` of them in, which are in the order of their places. */
void lir_insert(LirFn *fn, const LirBefore *before, uint32_t n);
/* Parameters, in the order of the kernel's; the instructions that read them use `name`. */
void lir_add_param(LirFn *fn, LirParamKind kind, LirClass class, const char *name, uint32_t index,
                   uint32_t dim);
void lir_add_map(LirFn *fn, const char *name, const LirTensorMap *map);
uint32_t lir_param_bytes(const LirParam *param); /* also its alignment */
void lir_begin(LirBuilder *b, LirFn *fn);        /* opens the body */
void lir_end(LirBuilder *b); /* closes it: the instructions go to the function */
LirRegion *lir_open(LirBuilder *b, bool is_loop);
void lir_close(LirBuilder *b); /* appends the region's instructions to its parent */

LirReg lir_new_reg(LirBuilder *b, LirClass class);
LirReg lir_new_mutable(LirBuilder *b, LirClass class);
/* A register that asynchronous products accumulate in. */
LirReg lir_new_home(LirBuilder *b, LirClass class);
uint32_t lir_new_label(LirBuilder *b);
LirClass lir_class(const LirBuilder *b, LirReg reg);

/* An instruction of any shape; `operands` holds results first. */
LirInsn *lir_emit(LirBuilder *b, LirOpcode op, uint32_t n_dst, uint32_t n,
                  const LirOperand *operands);
/* Pure instructions with one result of class `class`. */
LirReg lir_op1(LirBuilder *b, LirOpcode op, LirClass class, LirOperand x);
/* What such an instruction has made already; 0: nothing. */
LirReg lir_made1(const LirBuilder *b, LirOpcode op, LirOperand x);
LirReg lir_op2(LirBuilder *b, LirOpcode op, LirClass class, LirOperand x, LirOperand y);
LirReg lir_op3(LirBuilder *b, LirOpcode op, LirClass class, LirOperand x, LirOperand y,
               LirOperand z);
/* A 32-bit load where `guard` holds (0: everywhere) and zero elsewhere; as with pure instructions,
 * one load serves all that ask for the same. */
LirReg lir_load_or_zero(LirBuilder *b, LirOpcode op, LirClass class, LirOperand address,
                        LirReg guard);
/* Instructions made from here on do not reuse results of earlier ones, so that no register stays
 * alive for them over what stands in between. */
void lir_forget(LirBuilder *b);
void lir_label(LirBuilder *b, uint32_t label);
void lir_branch(LirBuilder *b, uint32_t label, LirReg guard, bool guard_not);
void lir_comment(LirBuilder *b, const char *text);

/* ---- text and clean-up ---- */

void lir_print(const LirFn *fn, Buf *out);
enum { LIR_INDENT = 4 /* of instructions in functions */ };
typedef struct LirRegName {
    char text[13]; /* %r4294967295 */
    uint8_t n, class;
} LirRegName;
/* Printing instructions of one function: how registers are called, and of which classes those were
 * that were printed. */
typedef struct LirText {
    Buf *out;
    size_t room; /* that an instruction takes at most, without its symbols */
    LirRegName *names;
    bool used[LIR_CLASSES];
} LirText;
/* The names are in `arena`. */
void lir_text_begin(LirText *text, const LirFn *fn, Arena *arena, Buf *out);
/* One instruction as a line of PTX, with so many spaces before it, unless it is a label. */
void lir_print_insn(LirText *text, const LirInsn *insn, uint32_t indent);
/* Reads what lir_print wrote, all functions of a file; errors go to diag, and `out` is left. */
typedef VEC(LirFn *) LirFnList;
bool lir_read(Arena *arena, Diag *diag, const SourceFile *file, LirFnList *out);
/* Checks operand classes, labels and definitions.  A broken invariant is a bug of ours: it is
 * written to `out`; true when all is well. */
bool lir_verify(const LirFn *fn, Buf *out);
/* Whether some instruction exists on one architecture only (LF_ROLES). */
bool lir_has_roles(const LirFn *fn);
/* Whether it has products of warp groups. */
bool lir_has_group_mma(const LirFn *fn);
/* Removes pure instructions and loads whose results nobody reads. */
void lir_remove_dead(LirFn *fn);

/* ---- loops and what is alive in them ---- */

typedef struct LirExtent {
    uint32_t first, last; /* of a loop: its label and the branch back to it */
} LirExtent;
typedef struct LirLoops {
    LirExtent *at; /* by where they end: inner ones before those around them */
    uint32_t n, cap;
} LirLoops;
LirLoops lir_loops(const LirFn *fn);
/* Repeats pure instructions behind loops that do not use them, so that the loops keep fewer
 * registers (lir_remake.c). */
void lir_remake(LirFn *fn);
/* Registers that always hold the same value become one (lir_merge.c); with `opposites`, of those
 * that hold opposite ones, too; with `cursors`, numbers of stages that go around with their
 * phases. */
void lir_merge(LirFn *fn, bool opposites, bool cursors);
/* A loop that leaves out part of its body only at its end becomes two (lir_split.c); false:
 * none. */
bool lir_split(LirFn *fn);
/* Carries what is affine in a loop's counter through the loop (lir_carry.c); false: nothing. */
bool lir_carry(LirFn *fn);
/* Values that multiply-adds read in turns lie in the halves of registers of 64 bits
 * (lir_pair.c). */
void lir_pair(LirFn *fn);
/* Operands in registers that are accessed while their product is in flight are copied before it
 * (lir_fragments.c). */
void lir_copy_fragments(LirFn *fn);

/* Where more than `enough` are alive, no more is known of it than that. */
LirNeed lir_need(const LirFn *fn, uint32_t enough);
/* Whether more than `enough` are alive. */
bool lir_exceeds(const LirFn *fn, uint32_t enough);

#endif
