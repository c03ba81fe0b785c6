/* lower_tensor_memory.c - products whose results lie in tensor memory (tcgen05), and what consumers
 * do there.
 *
 * The mma role is a whole warp: all of it waits and counts, and one lane that the machine elects
 * issues.  Where only that lane ran, or a lane were named, ptxas would keep descriptors in vector
 * registers.  Addresses in tensor memory are made of what the allocation gave, for the same reason.
 *
 * A tile has 128 rows, one for each lane of tensor memory, and a column for each of its own.  A
 * warp reaches the 32 lanes of its number in its warp group: a row in each thread, 32 columns with
 * an instruction (layout_rows), or 16 rows with an instruction as those of warps' products lie, 64
 * columns (layout_mma_c).  Pass assign_layout has counted which is better. Elements are loaded when
 * they are asked for.
 *
 * PTX ISA, "TensorCore 5th Generation Family Instructions": "Instruction descriptor", "Shared
 * memory descriptor", "tcgen05.ld", "Memory Consistency Model Canonical Synchronization Patterns".
 */
#include "compiler/lower/lower.h"
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"

enum {
    LANE_SHIFT = 16,    /* of an address in tensor memory */
    HALF_LANES = 16,    /* that an instruction reads */
    MOST_REGISTERS = 32 /* that an instruction reads or writes */
};

/* ---- where tiles lie ---- */

void
lower_begin_tmem(Lowering *lo, LirReg warp)
{
    LirBuilder *b = &lo->b;
    const TirPlan *plan = lo->fn->plan;

    if (plan->tmem_columns == 0)
        return;
    uint32_t others = lir_new_label(b);
    LirReg first = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(warp), lir_int(lo->fn->warps));
    LirOperand alloc[] = {lir_address(lower_shared_start(lo), plan->tmem_start),
                          lir_int(plan->tmem_columns)};
    bool pair = lower_multiplies_in_pairs(lo); /* both blocks get the same columns */
    lir_branch(b, others, first, true);
    lir_emit(b, pair ? LIR_TMEM_ALLOC_PAIR : LIR_TMEM_ALLOC, 0, 2, alloc);
    lir_emit(b, pair ? LIR_TMEM_RELINQUISH_PAIR : LIR_TMEM_RELINQUISH, 0, 0, NULL);
    lir_label(b, others);
    lir_emit(b, LIR_TMEM_FENCE_BEFORE, 0, 0, NULL);
}

void
lower_find_tmem(Lowering *lo)
{
    LirBuilder *b = &lo->b;

    if (lo->fn->plan->tmem_columns == 0)
        return;
    LirOperand load[] = {lir_reg(lir_new_reg(b, LIR_B32)),
                         lir_address(lower_shared_start(lo), lo->fn->plan->tmem_start)};
    lir_emit(b, LIR_TMEM_FENCE_AFTER, 0, 0, NULL);
    lir_emit(b, LIR_LD_SHARED_B32, 1, 2, load);
    lo->role->tmem = load[0].reg;
}

LirReg
lower_tmem_part(Lowering *lo)
{
    LirBuilder *b = &lo->b;

    if (lo->role->kind != ROLE_CONSUMER || tir_consumers(lo->fn->plan) < 2)
        return lo->role->tmem;
    LirReg own = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(lo->role->group), lir_int(1));
    return lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(own), lir_int(tir_tmem_part(lo->fn)),
                   lir_reg(lo->role->tmem));
}

void
lower_end_tmem(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    const TirPlan *plan = lo->fn->plan;

    if (plan->tmem_columns == 0)
        return;
    uint32_t others = lir_new_label(b);
    LirOperand freed[] = {lir_reg(lo->role->tmem), lir_int(plan->tmem_columns)};
    LirOperand all[] = {lir_int(BARRIER_CONSUMERS),
                        lir_int((int32_t)(tir_block_warps(plan) - GROUP_WARPS) * WARP_LANES)};
    bool pair = lower_multiplies_in_pairs(lo);
    lir_emit(b, LIR_TMEM_FENCE_BEFORE, 0, 0, NULL);
    if (tir_is_clustered(plan)) { /* nobody sends anything to a block that has ended */
        lir_emit(b, LIR_CLUSTER_ARRIVE, 0, 0, NULL);
        lir_emit(b, LIR_CLUSTER_WAIT, 0, 0, NULL);
    } else {
        lir_emit(b, LIR_BAR_SYNC_SOME, 0, 2, all);
    }
    /* a consumer frees it */
    if (lo->role->kind == ROLE_REDUCE || lo->role->kind == ROLE_CORRECTION)
        return;
    lir_emit(b, LIR_TMEM_FENCE_AFTER, 0, 0, NULL);
    bool share = b->share; /* a predicate that is kept until here takes a register of all tiles */
    b->share = false;
    LirReg first = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lo->role->group), lir_int(1));
    LirReg warp = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lo->role->warp), lir_int(0));
    b->share = share;
    lir_branch(b, others, first, true);
    lir_branch(b, others, warp, true);
    lir_emit(b, pair ? LIR_TMEM_DEALLOC_PAIR : LIR_TMEM_DEALLOC, 0, 2, freed);
    lir_label(b, others);
}

PipelineCursor *
lower_cursor(const Lowering *lo, const TirShared *pipeline, int64_t consumer)
{
    return &lo->role->pipelines[pipeline->id + (tir_serves_all(lo->role->kind) ? consumer : 0) *
                                                   (lo->fn->shared.n + 1)];
}

/* Parts of the columns, one for each warp group of a consumer (of the reduce role). */
static uint32_t
tmem_parts(const Lowering *lo)
{
    return lower_warps(lo) / GROUP_WARPS;
}

/* The columns of a warp group's part, to where the next one's begins, of a tile of `cols` columns;
 * of an operand that is written over a result, each where that group's part of the result was. */
static int64_t
part_columns(const Lowering *lo, const TirShared *pipeline, int32_t cols)
{
    if (pipeline->over != NULL && pipeline->from == ROLE_CONSUMER)
        return tir_tmem_columns(pipeline->over) / tmem_parts(lo);
    return (int64_t)tir_tmem_columns(pipeline) * cols / pipeline->cols / tmem_parts(lo);
}

/* The current stage of a pipeline there, of `consumer` if it is the mma role's. */
static LirReg
stage_at(Lowering *lo, const TirShared *pipeline, int64_t consumer)
{
    LirBuilder *b = &lo->b;
    LirReg stage = lower_cursor(lo, pipeline, consumer)->stage;

    if (pipeline->stages == 1)
        return lower_tmem_part(lo);
    return lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(stage), lir_int(tir_tmem_columns(pipeline)),
                   lir_reg(lower_tmem_part(lo)));
}

bool
lower_tmem_fills(const Lowering *lo, const TirShared *pipeline)
{
    return tir_is_pipeline(pipeline) && pipeline->from == lo->role->kind;
}

/* ---- products ---- */

/* What a product is: f32 sums (bit 4), the types of its operands, which of them have their rows or
 * columns along rows in shared memory, its shape. */
static int64_t
instruction_descriptor(const MmaForm *form, const TirOp *op, const bool *along_k)
{
    int64_t blocks = form->blocks > 1 ? form->blocks : 1;
    int64_t m = blocks * op->shared->rows,
            n = tir_product_columns((uint32_t)op->args[1]->type.dim[1]);

    return form->sum_code << 4 | form->a_code << 7 | form->b_code << 10 |
           (int64_t)!along_k[0] << 15 | (int64_t)!along_k[1] << 16 | n >> 3 << 17 | m >> 4 << 24;
}

/* An operand of a product.  ptxas takes one instruction for a descriptor if it is that of step 0
 * and a distance, added in 64 bits, and if the high word is no constant, which it would move beside
 * each low word again: it depends on a parameter that is always zero. */
typedef struct Factor {
    const TirOp *read;
    bool along_k;
    bool in_tmem;
    LirReg first;  /* the descriptor of step 0, or the address of the stage */
    int64_t part;  /* in tensor memory: columns of a warp group's part, .. */
    int64_t apart; /* .. behind whose end the next one begins so many later */
} Factor;

/* The high word of a descriptor: 8 rows of a swizzle atom column from one matrix to the next, the
 * constant of bits 46 to 48, and the swizzle in bits 61 to 63: 2, 4, 6 for rows of 128, 64, 32
 * bytes. */
static int64_t
descriptor_high(const SharedLayout *layout)
{
    int64_t swizzle = 1 + SWIZZLE_BITS - layout->bits;

    return (int32_t)(swizzle << 30 | 1 << 14 | (layout->pitch * SWIZZLE_ROWS) >> 4);
}

static LirReg
first_descriptor(Lowering *lo, const Factor *f)
{
    LirBuilder *b = &lo->b;
    const TirShared *pipeline = f->read->shared;
    int64_t leading, offset = lower_step_offset(pipeline, f->along_k, 0, &leading);
    const PipelineCursor *cursor = lower_cursor(lo, pipeline, f->read->integer);
    LirReg base = cursor->base;
    if (f->read->oldest)
        base = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(cursor->oldest->stage),
                       lir_int(pipeline->bytes / pipeline->stages >> 4),
                       lir_reg(lower_described(lo, lower_shared_start(lo))));
    LirReg low = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(base),
                         lir_int(((pipeline->offset + offset) >> 4) + (leading << 16)));
    LirReg high = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(lower_zero(lo)),
                          lir_int(descriptor_high(pipeline->layout)));

    return lir_op2(b, LIR_PACK_B64, LIR_B64, lir_reg(low), lir_reg(high));
}

static Factor
factor_of(Lowering *lo, const TirOp *op, uint32_t k)
{
    bool transposed;
    const TirOp *read = view_source(op->args[k], &transposed);
    const TirShared *in = read->shared;
    Factor f = {.read = read, .along_k = transposed == (k == 1), .in_tmem = in->kind == SHARED_TMEM};

    if (f.in_tmem) {
        f.first = stage_at(lo, in, read->integer);
        f.part = tir_tmem_columns(in) / tmem_parts(lo);
        f.apart = part_columns(lo, in, in->cols) - f.part;
    } else {
        f.first = first_descriptor(lo, &f);
    }
    return f;
}

/* An address in tensor memory, in a register: an offset in an instruction's operand is added for
 * each of them again. */
static LirOperand
tmem_address(Lowering *lo, LirReg from, int64_t columns)
{
    if (columns != 0)
        from = lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(from), lir_int(columns));
    return lir_address(from, 0);
}

static LirOperand
factor_at(Lowering *lo, const Factor *f, const MmaForm *form, uint32_t step)
{
    const TirShared *in = f->read->shared;
    int64_t leading, at = step * (int64_t)form->step_bytes / 4; /* columns of 32 bits */

    if (f->in_tmem)
        return tmem_address(lo, f->first,
                            f->read->integer * tir_tmem_part(lo->fn) + in->offset + at +
                                at / f->part * f->apart);
    at = lower_step_offset(in, f->along_k, (int64_t)step * form->k, &leading) -
         lower_step_offset(in, f->along_k, 0, &leading);
    if (at == 0)
        return lir_reg(f->first);
    return lir_reg(lir_op2(&lo->b, LIR_ADD_S64, LIR_B64, lir_reg(f->first), lir_int(at >> 4)));
}

void
lower_tmem_mma(Lowering *lo, TirOp *op)
{
    LirBuilder *b = &lo->b;
    DType a = op->args[0]->type.dtype, x = op->args[1]->type.dtype;
    bool scaled = op->n_args == TIR_MMA_SCALED;
    const MmaForm *form = lower_multiplies_in_pairs(lo) ? target_pair_mma(lo->px->target, a, x)
                                                        : product_form(lo->px->target, op);
    uint32_t steps = (uint32_t)((op->args[0]->type.dim[1] + form->k - 1) / form->k);
    Factor left = factor_of(lo, op, 0), right = factor_of(lo, op, 1);
    bool along_k[] = {left.along_k, right.along_k};
    LirOperand to = tmem_address(lo, stage_at(lo, op->shared, op->integer),
                                 op->integer * tir_tmem_part(lo->fn) + op->shared->offset);
    LirReg add = lower_scalar_reg(lo, op->args[2]);
    LirReg always = lower_elem_reg(lo, (Elem){.kind = ELEM_BOOL, .integer = 1}, LIR_PRED);
    int64_t described = instruction_descriptor(form, op, along_k);
    PlacedScales scales[2];
    for (uint32_t k = 0; k < 2 && scaled; k++)
        scales[k] = lower_place_scales(lo, op->args[TIR_MMA_PLAIN + k]);
    /* steps of pieces before */
    uint32_t behind = left.in_tmem ? left.read->shared->column / (uint32_t)form->k : 0;

    for (uint32_t s = 0; s < steps; s++) {
        LirOperand operands[7] = {to, factor_at(lo, &left, form, s),
                                  factor_at(lo, &right, form, behind + s)};
        int64_t all = described | (scaled ? lower_scales_described(form, s) : 0);
        uint32_t n = 3;
        operands[n++] = lir_reg(lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(all)));
        for (uint32_t k = 0; k < 2 && scaled; k++)
            operands[n++] = lower_scales_at(lo, &scales[k], form, s);
        operands[n++] = lir_reg(s == 0 ? add : always);
        LirOpcode mma = scaled         ? LIR_TMEM_MMA_SCALED
                        : left.in_tmem ? LIR_TMEM_MMA_TS
                                       : LIR_TMEM_MMA_SS;
        LirInsn *insn = lir_emit(b, mma, 0, n, operands);
        insn->text = form->mnemonic;
        insn->guard = lo->role->elected;
    }
}

/* An arrival at a barrier when all products issued before have ended, at that of each block whose
 * products they are. */
static void
commit(Lowering *lo, LirOperand barrier)
{
    LirOperand operands[2] = {barrier};
    bool pair = lower_multiplies_in_pairs(lo);

    if (pair)
        operands[1] = lir_reg(lir_op1(&lo->b, LIR_MOV_B16, LIR_B16, lir_int(BOTH_BLOCKS)));
    lir_emit(&lo->b, pair ? LIR_TMEM_COMMIT_PAIR : LIR_TMEM_COMMIT, 0, pair ? 2 : 1, operands)
        ->guard = lo->role->elected;
}

/* ---- stages ---- */

/* (Of an only stage the phase turns where it is waited for: not all that wait hand it on.) */
void
lower_tmem_wait(Lowering *lo, const TirOp *op, bool empty)
{
    PipelineCursor *cursor = lower_cursor(lo, op->shared, op->integer);

    LirOperand at = lower_stage_barrier(lo, op->shared, (uint32_t)op->integer, empty);
    if (lo->role->kind == ROLE_MMA && lower_multiplies_in_pairs(lo))
        lower_wait_for_pair(lo, at, cursor->phase);
    else
        lower_wait_barrier(lo, at, cursor->phase);
    if (op->shared->kind == SHARED_TMEM) /* (the correction role: where it changes a sum) */
        lir_emit(&lo->b, LIR_TMEM_FENCE_AFTER, 0, 0, NULL);
    if (tir_is_one_place(op->shared))
        lower_advance(lo, cursor, 1);
}

/* ---- tiles of consumers ---- */

/* How a thread's registers follow each other in tensor memory: in groups, of which an instruction
 * has some, a power of two. */
typedef struct Shape {
    const char *name;  /* of the instruction's */
    int32_t halves;    /* instructions for a warp's 32 lanes */
    int32_t columns;   /* of the tile, in a group */
    int32_t registers; /* elements of a group that a thread has */
    int32_t most;      /* groups of an instruction */
} Shape;

/* A tile lies a row in a thread, or as warps' products lie: 8 columns of a row are 256 bits; of
 * 16-bit elements, 128. */
static Shape
shape_of(const TirShared *pipeline, const Layout *layout)
{
    bool narrow = dtype_bits(pipeline->dtype) == 16;

    if (layout->lane.n == 1 && layout->lane.at[0].step[0] == 1)
        return (Shape){"32x32b", 1, narrow ? 2 : 1, narrow ? 2 : 1, narrow ? 16 : 32};
    return (Shape){narrow ? "16x128b" : "16x256b", 2, MATRIX_COLUMNS, 4, 8};
}

/* The instruction that has group `group`, of `groups`: where it begins, and how many it has. */
static int32_t
find_run(const Shape *shape, int32_t group, int32_t groups, int32_t *n)
{
    int32_t first = 0;

    for (;;) {
        for (*n = shape->most; *n > groups - first; *n /= 2)
            ;
        if (group < first + *n)
            return first;
        first += *n;
    }
}

/* Columns of each block's half in a result that a pair adds up. */
static int32_t
sent_columns(const TirOp *read)
{
    return tir_pair_send(read->results[0])->shared->cols;
}

/* Groups of a result that a pair adds up, of `groups` those from where a part begins on that has
 * group `group`: the columns before, this block's half, the other one's. */
static int32_t
part_begins(const TirOp *read, int32_t groups, int32_t group, int32_t *n)
{
    int32_t half = sent_columns(read), before = groups - 2 * half;

    *n = group < before ? before : half;
    return group < before ? 0 : group < before + half ? before : before + half;
}

/* Moves an address to the half in which a group is, of this block's or the other one; returns the
 * group in it. */
static int32_t
place_of_half(Lowering *lo, const TirOp *read, int32_t groups, int32_t group, LirReg *at)
{
    int32_t half = sent_columns(read), before = groups - 2 * half, n;
    int32_t begin = part_begins(read, groups, group, &n);

    if (group < before)
        return group;
    *at = lir_op3(&lo->b, LIR_MAD_S32, LIR_B32, lir_reg(lower_pair_rank(lo)),
                  lir_int(begin > before ? -half : half), lir_reg(*at));
    *at = lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(*at), lir_int(begin));
    return group - begin;
}

/* Where a warp's elements of a tile lie from one of its halves and one of its groups on. */
static LirOperand
place_of_run(Lowering *lo, const TirOp *op, int32_t cols, const Shape *shape, int32_t half,
             int32_t group)
{
    LirBuilder *b = &lo->b;
    const TirShared *pipeline = op->shared;
    int64_t consumer = tir_serves_all(lo->role->kind) ? op->integer * tir_tmem_part(lo->fn) : 0;
    LirReg warp = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lo->role->warp),
                          lir_int(GROUP_WARPS - 1));
    LirReg lanes = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(warp),
                           lir_int(LANE_SHIFT + 5)); /* 32 to a warp */
    LirReg at = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(stage_at(lo, pipeline, 0)), lir_reg(lanes));

    if (tmem_parts(lo) > 1) {
        LirReg part = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(lo->role->warp), lir_int(2));
        at = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(part),
                     lir_int(part_columns(lo, pipeline, cols)), lir_reg(at));
    }
    if (op->sliced)
        group = place_of_half(lo, op, cols / shape->columns, group, &at);
    return lir_address(at, ((int64_t)half * HALF_LANES << LANE_SHIFT) + consumer + pipeline->offset +
                               group * (int64_t)shape->columns * dtype_bits(pipeline->dtype) / 32);
}

static const char *
mnemonic_of_run(Lowering *lo, const Shape *shape, const char *what, int32_t n)
{
    return arena_printf(lo->out->arena, "tcgen05.%s.sync.aligned.%s.x%d.b32", what, shape->name,
                        (int)n);
}

/* One instruction loads elements from `from` on; nothing has waited for it. */
static void
load_run(Lowering *lo, TirOp *op, const Shape *shape, int32_t half, int32_t first, int32_t n,
         int32_t from)
{
    LirBuilder *b = &lo->b;
    TirVal *tile = op->results[0];
    uint32_t registers = (uint32_t)(shape->registers * n);
    LirOperand operands[MOST_REGISTERS + 1];

    for (uint32_t k = 0; k < registers; k++)
        operands[k] = lir_reg(lir_new_reg(b, lower_class(tile->type.dtype)));
    operands[registers] = place_of_run(lo, op, tile->type.dim[1], shape, half, first);
    lir_emit(b, LIR_TMEM_LD, registers, registers + 1, operands)->text = mnemonic_of_run(lo, shape,
                                                                                         "ld", n);
    for (uint32_t k = 0; k < registers; k++)
        lower_keep_elem(lo, tile, from + (int32_t)k, elem_reg(operands[k].reg));
}

/* Loads what has not been, of the whole tile or of the instruction that has `reg`, and waits for
 * all of it once: a load takes a while, and the next one does not begin before one that is waited
 * for is there. */
static void
load_tile(Lowering *lo, TirOp *op, bool whole, int32_t reg)
{
    TirVal *tile = op->results[0];
    Shape shape = shape_of(op->shared, tile->layout);
    int32_t groups = tile->layout->shape[1] / shape.columns / (int32_t)tmem_parts(lo), n;
    bool any = false;

    for (int32_t half = 0; half < shape.halves; half++) {
        for (int32_t first = 0; first < groups; first += n) {
            int32_t part = groups, begin = op->sliced ? part_begins(op, groups, first, &part) : 0;
            find_run(&shape, first - begin, part, &n);
            int32_t from = shape.registers * (half * groups + first);
            bool asked = from <= reg && reg < from + shape.registers * n;
            if ((!whole && !asked) || lower_has_elem(lo, tile, from))
                continue;
            load_run(lo, op, &shape, half, first, n, from);
            any = true;
        }
    }
    if (any)
        lir_emit(&lo->b, LIR_TMEM_WAIT_LD, 0, 0, NULL);
}

/* Whether a thread has all elements of a tile at once: they, or what is made of them alone, are
 * used twice.  (What masks replace lies in registers of its own, 32 at a time, which loads that
 * follow each other are copied to.) */
static bool
is_kept(const Lowering *lo, const TirVal *tile)
{
    for (;;) {
        const TirOp *user = NULL;
        if (count_uses(lo->fn, tile) > 1)
            return true;
        for (uint32_t i = 0; user == NULL && i < tile->block->ops.n; i++) {
            const TirOp *op = tile->block->ops.at[i];
            for (uint32_t k = 0; k < op->n_args; k++)
                user = op->args[k] == tile ? op : user;
        }
        if (user == NULL || (tir_op_info(user->op)->flags & TF_ELEMENTWISE) == 0)
            return false;
        if (tir_is_mask(user) && lower_mask_is_live(lo, user))
            return false;
        tile = user->results[0];
    }
}

Elem
lower_tmem_elem(Lowering *lo, TirOp *op, int32_t reg)
{
    load_tile(lo, op, is_kept(lo, op->results[0]), reg);
    return lower_elem(lo, op->results[0], reg);
}

/* All of the results `of` (1 + the pipeline; 0: none) that were read in front of `op` are in
 * registers behind this. */
static void
load_before(Lowering *lo, const TirOp *op, const TirShared *of)
{
    const TirBlock *block = op->parent;
    TirOp *below = NULL;

    for (uint32_t i = 0; of != NULL && block->ops.at[i] != op; i++) {
        TirOp *read = block->ops.at[i];
        if (read->op == TIR_TMEM_READ && read->shared == of)
            below = read;
    }
    if (below != NULL)
        load_tile(lo, below, true, 0);
}

/* Whether the warp's lanes have come together, behind a fence for tensor memory, and since then
 * have done arithmetic alone: what they did before, another arrival announces as it is. */
static bool
is_together(const Lowering *lo)
{
    const LirRegion *region = lo->b.region;

    for (uint32_t i = region->insns.n; i-- > 1;) {
        const LirInsn *insn = region->insns.at[i];
        if (insn->op == LIR_BAR_WARP_SYNC)
            return region->insns.at[i - 1]->op == LIR_TMEM_FENCE_BEFORE;
        if (insn->op != LIR_MBARRIER_ARRIVE && (lir_op_info(insn->op)->flags & LF_PURE) == 0)
            return false;
    }
    return false;
}

/* The lanes of a warp come together, and what they have done is done for who sees one arrive. */
static void
come_together(Lowering *lo, const TirShared *pipeline)
{
    bool is_written = pipeline->kind != SHARED_TMEM && !tir_is_handed(pipeline); /* by st.shared */
    LirOperand all = lir_int(-1);

    if (!is_written && is_together(lo))
        return;
    if (is_written)
        lir_emit(&lo->b, LIR_FENCE_PROXY_ASYNC, 0, 0, NULL);
    if (pipeline->from != ROLE_CORRECTION)
        lir_emit(&lo->b, LIR_TMEM_FENCE_BEFORE, 0, 0, NULL);
    lir_emit(&lo->b, LIR_BAR_WARP_SYNC, 0, 1, &all);
}

void
lower_hand_on(Lowering *lo, const TirOp *op, bool empty)
{
    const TirShared *pipeline = op->shared;
    LirOperand at = lower_stage_barrier(lo, pipeline, (uint32_t)op->integer, empty);
    LirBuilder *b = &lo->b;

    if (lo->role->kind == ROLE_MMA) {
        commit(lo, at);
    } else {
        if (lo->role->kind == ROLE_REDUCE && empty) /* which adds it behind this */
            load_before(lo, op, pipeline);
        if (lo->role->storing)
            lir_emit(b, LIR_TMEM_WAIT_ST, 0, 0, NULL);
        lo->role->storing = false;
        come_together(lo, pipeline);         /* what was loaded has been waited for */
        if (lower_multiplies_in_pairs(lo)) { /* the first block's mma role waits */
            at = lower_pair_barrier(lo, pipeline, (uint32_t)op->integer, empty);
            lir_emit(b, LIR_MBARRIER_ARRIVE_PAIR, 0, 1, &at)->guard = lo->role->first_lane;
        } else {
            lir_emit(b, LIR_MBARRIER_ARRIVE, 0, 1, &at)->guard = lo->role->first_lane;
        }
    }
    PipelineCursor *cursor = lower_cursor(lo, pipeline, op->integer);
    if (!tir_is_one_place(pipeline))
        lower_advance(lo, cursor->oldest != NULL ? cursor->oldest : cursor, pipeline->stages);
}

/* Words of what is written, from word `first` on. */
static void
make_words(Lowering *lo, TirVal *value, int32_t first, int32_t n, LirOperand *words)
{
    bool shared = lower_per_word(value) > 1;

    for (int32_t k = 0; k < n; k++)
        words[k] = lir_reg(shared ? lower_shared_word(lo, value, first + k)
                                  : lower_elem_reg(lo, lower_elem(lo, value, first + k),
                                                   lower_class(value->type.dtype)));
}

/* The same where they are zero if `hidden` holds: a branch goes past what makes them, and past
 * adding them up. */
static void
make_words_unless(Lowering *lo, const TirOp *op, int32_t first, int32_t n, LirOperand *words,
                  LirReg hidden)
{
    LirBuilder *b = &lo->b;
    const TirBlock *around = lo->block;
    uint32_t none = lir_new_label(b), end = lir_new_label(b), borrowed = lo->borrowed.n;
    LirOperand made[MOST_REGISTERS];

    for (int32_t k = 0; k < n; k++)
        words[k] = lir_reg(lir_new_mutable(b, LIR_B32));
    lower_fix_sums(lo, op, op->args[0]);
    lir_branch(b, none, hidden, false);
    lir_open(b, false);
    lo->block = arena_new(lo->arena, TirBlock); /* what is made in it is forgotten behind */
    make_words(lo, op->args[0], first, n, made);
    for (int32_t k = 0; k < n; k++)
        lir_emit(b, LIR_MOV_B32, 1, 2, (LirOperand[]){words[k], made[k]});
    lower_take_along(lo, op, op->args[0], (first + n) * lower_per_word(op->args[0]));
    lower_leave_sums(lo);
    lo->block = around;
    lir_branch(b, end, 0, false);
    lir_close(b);
    lower_forget(lo, borrowed);
    lir_label(b, none);
    for (int32_t k = 0; k < n; k++)
        lir_emit(b, LIR_MOV_B32, 1, 2, (LirOperand[]){words[k], lir_int(0)});
    lir_label(b, end);
}

/* What products add to has zeros in the columns that they write and nobody reads. */
static void
fill_behind(Lowering *lo, const TirOp *op, const Shape *shape)
{
    int32_t cols = op->args[0]->layout->shape[1];
    int32_t n = ((int32_t)tir_tmem_columns(op->shared) - cols) / shape->columns;
    bool floats = dtype_is_float(op->shared->dtype);

    for (int32_t half = 0; dtype_bits(op->shared->dtype) == 32 && n > 0 && half < shape->halves;
         half++) {
        LirOperand operands[MOST_REGISTERS + 1];
        uint32_t registers = (uint32_t)(shape->registers * n);
        operands[0] = place_of_run(lo, op, op->shared->cols, shape, half, cols / shape->columns);
        for (uint32_t k = 0; k < registers; k++)
            operands[1 + k] = lir_reg(lower_elem_reg(lo, floats ? elem_float(0) : elem_int(0),
                                                     lower_class(op->shared->dtype)));
        lir_emit(&lo->b, LIR_TMEM_ST, 0, registers + 1, operands)->text = mnemonic_of_run(lo, shape,
                                                                                          "st", n);
    }
}

/* Whether something is written to shared memory, too, before anything is handed on: stores to
 * tensor memory end under it. */
static bool
writes_elsewhere_behind(const TirOp *op)
{
    const TirBlock *block = op->parent;
    bool behind = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *other = block->ops.at[i];
        behind = behind || other == op;
        if (behind && other->op == TIR_SHARED_WRITE)
            return true;
        if (behind && (other->op == TIR_PRODUCER_COMMIT || other->op == TIR_CONSUMER_RELEASE))
            return false;
    }
    return false;
}

void
lower_tmem_write(Lowering *lo, TirOp *op)
{
    LirBuilder *b = &lo->b;
    Shape shape = shape_of(op->shared, op->args[0]->layout);
    int32_t n, all = op->args[0]->layout->shape[1] / shape.columns /
                     (int32_t)tmem_parts(lo); /* of all pieces */
    bool whole = op->shared->cols == op->args[0]->type.dim[1];
    int32_t groups = whole ? all : op->shared->cols / shape.columns / (int32_t)tmem_parts(lo);
    int32_t before = (int32_t)op->shared->column / shape.columns;
    int32_t each = lower_per_word(op->args[0]);

    if (lo->role->kind == ROLE_CORRECTION)
        lir_emit(b, LIR_TMEM_FENCE_AFTER, 0, 0, NULL);
    load_before(lo, op, op->shared->over); /* over which the operand is written */
    for (int32_t half = 0; half < shape.halves; half++) {
        for (int32_t first = 0; first < groups; first += n) {
            LirOperand operands[MOST_REGISTERS + 1];
            find_run(&shape, first, groups, &n);
            int32_t registers = shape.registers * n / each;
            operands[0] = place_of_run(lo, op, op->shared->cols, &shape, half, first);
            int32_t reg = shape.registers * (half * all + before + first) / each;
            LirReg hidden = lower_hidden_run(lo, op->args[0], each * reg, each * registers);
            if (hidden != 0)
                make_words_unless(lo, op, reg, registers, operands + 1, hidden);
            else
                make_words(lo, op->args[0], reg, registers, operands + 1);
            lir_emit(b, LIR_TMEM_ST, 0, (uint32_t)registers + 1, operands)->text = mnemonic_of_run(
                lo, &shape, "st", n);
            /* the last of them wait until this piece is handed on */
            if (first + n < groups && shape.halves == 1 && hidden == 0)
                lower_take_along(lo, op, op->args[0], shape.registers * (before + first + n));
        }
    }
    fill_behind(lo, op, &shape);
    lo->role->storing = writes_elsewhere_behind(op);
    if (!lo->role->storing)
        lir_emit(b, LIR_TMEM_WAIT_ST, 0, 0, NULL);
    if (lo->role->kind == ROLE_CORRECTION) /* else where the stage is handed on */
        lir_emit(b, LIR_TMEM_FENCE_BEFORE, 0, 0, NULL);
}
