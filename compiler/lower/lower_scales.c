/* lower_scales.c - scales of products whose results lie in tensor memory: how they come there.
 *
 * A stage of scales in shared memory is in the order in which tensor memory takes it (tir_scales.h): the 16 bytes of lane l are
 * words of lines l, l + 32, l + 64 and l + 96.  No tensor copy makes that of scales as programs have them, some bytes of each line.  So warps of the producer's group load them, a line in
 * each lane, stage by stage in turn: each asks for its next stage before it writes the last one.  The mma role copies a stage to
 * tensor memory before its product.
 *
 * PTX ISA, "TensorCore 5th Generation Family Instructions": "Block scaling for tcgen05.mma", "tcgen05.cp".
 */
#include "compiler/ir/tir_scales.h"
#include "compiler/lower/lower_access.h"

#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"

enum {
    WORD = SCALE_WORD,
    RUNS = SCALE_RUNS,
    MOST_VECTOR = 4 /* words */
};

/* ---- the warps that load them ---- */

/* A stage of scales, on its way. */
typedef struct Scales {
    const TirShared *pipeline;
    Access access;
    const Axis *lines, *each; /* the axes of the tile: lines, and the scales of one */
    int32_t words, blocks;
    const LirReg *word; /* as in ScaleStage */
} Scales;

static void
begin_scales(Lowering *lo, TirOp *load, Scales *s)
{
    bool first = load->shared->scales == 1;

    *s = (Scales){.pipeline = load->shared,
                  .access = access_begin(lo, load),
                  .words = (int32_t)tir_scale_words(load->shared),
                  .blocks = (int32_t)tir_scale_blocks(load->shared)};
    s->lines = first ? &s->access.col : &s->access.row;
    s->each = first ? &s->access.row : &s->access.col;
    s->word = lo->role->scales[load->shared->id].loaded;
}

static LirReg
word_of(const Scales *s, int32_t block, int32_t word, int32_t run)
{
    return s->word[(word * s->blocks + block) * RUNS + run];
}

/* `at` and a number of steps along an axis of the tile. */
static LirReg
along(Lowering *lo, LirReg at, const Axis *axis, int32_t steps)
{
    LirBuilder *b = &lo->b;

    if (steps == 0)
        return at;
    if (axis->stride == 0)
        return lir_op2(b, LIR_ADD_S64, LIR_B64, lir_reg(at), lir_int(steps));
    LirReg by = lir_op2(b, LIR_MUL_S64, LIR_B64, lir_reg(axis->stride), lir_int(steps));
    return lir_op2(b, LIR_ADD_S64, LIR_B64, lir_reg(at), lir_reg(by));
}

/* How many words of a line an instruction loads, where addresses and what is left of each line allow it. */
static int32_t
vector_of(const Scales *s)
{
    int32_t vector = MOST_VECTOR;

    while (vector > 0 && s->each->length % (vector * WORD) != 0)
        vector /= 2;
    return s->each->stride == 0 ? vector : 0;
}

/* The predicate that all lines begin, and end, at so many bytes. */
static LirReg
is_aligned(Lowering *lo, const Scales *s, int32_t bytes)
{
    LirBuilder *b = &lo->b;
    Elem start = s->each->start == NULL ? elem_int(0) : lower_elem(lo, s->each->start, 0);
    LirReg from = lower_elem_reg(lo, start, LIR_B32),
           size = lower_elem_reg(lo, s->each->size, LIR_B32);
    LirReg bits = lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(s->access.base));

    LirReg rest = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(size), lir_reg(from));
    bits = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(bits), lir_reg(rest));
    if (s->lines->stride != 0) {
        LirReg stride = lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(s->lines->stride));
        bits = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(bits), lir_reg(stride));
    }
    bits = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(bits), lir_int(bytes - 1));
    return lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(bits), lir_int(0));
}

/* Whose elements a path loads: of tiles inside of their tensors, of tiles at their ends. */
typedef enum Guarding { UNGUARDED, GUARDED } Guarding;

/* Words, as many as a vector has, of one lane's line from address `at` on. */
static void
load_vectors(Lowering *lo, const Scales *s, LirReg at, int32_t block, int32_t run, int32_t vector,
             Guarding guarding, LirReg guard)
{
    static const LirOpcode loads[] = {0, LIR_LD_GLOBAL_B32, LIR_LD_GLOBAL_V2, 0, LIR_LD_GLOBAL_V4};

    for (int32_t w = 0; w < s->words; w += vector) {
        LirOperand operands[MOST_VECTOR + 1];
        for (int32_t k = 0; k < vector; k++)
            operands[k] = lir_reg(word_of(s, block, w + k, run));
        operands[vector] = lir_address(at, w * WORD);
        LirReg inside = 0;
        if (guarding == GUARDED)
            inside = access_both(lo, guard,
                                 access_axis_guard(lo, s->each, elem_int(0), w * WORD,
                                                   vector * WORD, s->each->length));
        lir_emit(&lo->b, loads[vector], (uint32_t)vector, (uint32_t)vector + 1, operands)->guard =
            inside;
    }
}

/* The same byte by byte. */
static void
load_bytes(Lowering *lo, const Scales *s, LirReg at, int32_t block, int32_t run, LirReg guard)
{
    LirBuilder *b = &lo->b;
    LirReg above = lower_zeroed(lo, LIR_B16);

    for (int32_t k = 0; k < s->each->length; k++) {
        LirOperand word = lir_reg(word_of(s, block, k / WORD, run));
        LirOperand byte[] = {lir_reg(lower_zeroed(lo, LIR_B16)),
                             lir_address(along(lo, at, s->each, k), 0)};
        LirReg inside = access_both(
            lo, guard, access_axis_guard(lo, s->each, elem_int(0), k, 1, s->each->length));
        lir_emit(b, LIR_LD_GLOBAL_U8, 1, 2, byte)->guard = inside;
        LirReg there = lir_op2(b, LIR_PACK_B32, LIR_B32, byte[0], lir_reg(above));
        there = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(there), lir_int(8 * (k % WORD)));
        lir_emit(b, LIR_OR_B32, 1, 3, (LirOperand[]){word, word, lir_reg(there)});
    }
}

/* All lines of a lane, in words or, `vector` is 0, in bytes; zeros in place of what is not there. */
static void
load_lines(Lowering *lo, const Scales *s, int32_t vector, Guarding guarding)
{
    LirBuilder *b = &lo->b;
    Elem lane = elem_reg(lower_lane(lo));
    LirReg first = access_plus(lo, s->access.base,
                               access_term(lo, lane, s->lines->stride, s->access.bytes));

    for (int32_t line = 0; line < s->blocks * TMEM_LANES; line += WARP_LANES) {
        int32_t block = line / TMEM_LANES, run = line % TMEM_LANES / WARP_LANES;
        bool whole = line + WARP_LANES <= s->lines->length; /* all lanes have one */
        for (int32_t w = 0; w < s->words && (guarding == GUARDED || !whole); w++)
            lir_emit(b, LIR_MOV_B32, 1, 2,
                     (LirOperand[]){lir_reg(word_of(s, block, w, run)), lir_int(0)});
        if (line >= s->lines->length)
            continue;
        LirReg at = along(lo, first, s->lines, line), guard = 0;
        if (guarding == GUARDED || !whole)
            guard = access_both(
                lo, s->access.inside,
                access_axis_guard(lo, s->lines, lane, line, 1,
                                  whole ? s->lines->length : s->blocks * TMEM_LANES));
        if (vector > 0)
            load_vectors(lo, s, at, block, run, vector, guarding, guard);
        else
            load_bytes(lo, s, at, block, run, guard);
    }
}

/* What is made in it is forgotten behind it. */
typedef struct Branch {
    const TirBlock *around;
    uint32_t borrowed;
} Branch;

static Branch
begin_branch(Lowering *lo)
{
    Branch branch = {lo->block, lo->borrowed.n};

    lir_open(&lo->b, true); /* what is the same in all iterations leaves it, too */
    lo->block = arena_new(lo->arena, TirBlock);
    return branch;
}

static void
end_branch(Lowering *lo, const Branch *branch)
{
    lo->block = branch->around;
    lir_close(&lo->b);
    lower_forget(lo, branch->borrowed);
}

static void
load_scales(Lowering *lo, const Scales *s)
{
    LirBuilder *b = &lo->b;
    int32_t vector = vector_of(s);
    uint32_t slow = lir_new_label(b), end = lir_new_label(b);
    bool testable;

    if (vector == 0) {
        load_lines(lo, s, 0, GUARDED);
        return;
    }
    LirReg whole = access_tile_guard(lo, &s->access, &testable);
    lir_branch(b, slow, is_aligned(lo, s, vector * WORD), true);
    for (Guarding guarding = whole == 0 ? GUARDED : UNGUARDED; guarding <= GUARDED; guarding++) {
        uint32_t cut = lir_new_label(b);
        if (guarding == UNGUARDED)
            lir_branch(b, cut, whole, true);
        Branch branch = begin_branch(lo);
        load_lines(lo, s, vector, guarding);
        lir_branch(b, end, 0, false);
        end_branch(lo, &branch);
        lir_label(b, cut);
    }
    lir_label(b, slow);
    Branch branch = begin_branch(lo);
    load_lines(lo, s, 0, GUARDED);
    end_branch(lo, &branch);
    lir_label(b, end);
}

static void
move_to(Lowering *lo, LirReg to, LirOperand from)
{
    lir_emit(&lo->b, LIR_MOV_B32, 1, 2, (LirOperand[]){lir_reg(to), from});
}

/* Waits until the stage is empty, and writes it. */
static void
write_stage(Lowering *lo, const TirShared *pipeline, const ScaleStage *s)
{
    enum { WITHOUT_SIGNS = 0x7f7f7f7f };
    LirBuilder *b = &lo->b;
    LirReg at = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(lower_lane(lo)), lir_int(SCALE_LANE_BYTES),
                        lir_reg(lower_shared_start(lo)));

    if (pipeline->stages > 1)
        at = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(s->cursor.stage),
                     lir_int(pipeline->bytes / pipeline->stages), lir_reg(at));
    lower_wait_barrier(lo, lower_barrier_at(lo, pipeline, &s->cursor, true), s->cursor.phase);
    for (uint32_t k = 0; k < s->n; k += RUNS) {
        LirOperand operands[RUNS + 1] = {
            lir_address(at, (int64_t)pipeline->offset + k / RUNS * SCALE_BLOCK_BYTES)};
        for (uint32_t run = 0; run < RUNS; run++) {
            LirReg value = s->held[k + run];
            if (!dtype_is_scale(pipeline->dtype))
                value = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(value), lir_int(WITHOUT_SIGNS));
            operands[1 + run] = lir_reg(value);
        }
        lir_emit(b, LIR_ST_SHARED_V4, 0, RUNS + 1, operands);
    }
}

/* Writes what is held of all pipelines, if anything is, and hands it on. */
static void
hand_on(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    LirOperand all = lir_int(-1);
    uint32_t none = lir_new_label(b);

    lir_branch(b, none,
               lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lo->role->holds_scales), lir_int(0)),
               false);
    Branch branch = begin_branch(lo);
    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        if (lo->fn->shared.at[k]->scales > 0)
            write_stage(lo, lo->fn->shared.at[k], &lo->role->scales[k]);
    }
    lir_emit(b, LIR_FENCE_PROXY_ASYNC, 0, 0, NULL);
    lir_emit(b, LIR_BAR_WARP_SYNC, 0, 1, &all);
    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        if (lo->fn->shared.at[k]->scales == 0)
            continue;
        LirOperand full = lower_barrier_at(lo, lo->fn->shared.at[k], &lo->role->scales[k].cursor,
                                           false);
        lir_emit(b, LIR_MBARRIER_ARRIVE, 0, 1, &full)->guard = lo->role->first_lane;
    }
    end_branch(lo, &branch);
    lir_label(b, none);
}

/* What was loaded is held until the next stage has been asked for. */
static void
hold_loaded(Lowering *lo)
{
    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const ScaleStage *s = &lo->role->scales[k];
        for (uint32_t i = 0; i < s->n; i++)
            move_to(lo, s->held[i], lir_reg(s->loaded[i]));
    }
}

void
lower_begin_scales(Lowering *lo)
{
    LirBuilder *b = &lo->b;

    lo->role->scales = arena_array(lo->arena, ScaleStage, lo->fn->shared.n + 1);
    lo->role->holds_scales = lir_new_home(b, LIR_B32);
    move_to(lo, lo->role->holds_scales, lir_int(0));
    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const TirShared *pipeline = lo->fn->shared.at[k];
        ScaleStage *s = &lo->role->scales[k];
        if (pipeline->scales == 0)
            continue;
        s->n = tir_scale_words(pipeline) * tir_scale_blocks(pipeline) * RUNS;
        s->loaded = arena_array(lo->arena, LirReg, s->n);
        s->held = arena_array(lo->arena, LirReg, s->n);
        for (uint32_t i = 0; i < s->n; i++) {
            move_to(lo, s->loaded[i] = lir_new_home(b, LIR_B32), lir_int(0));
            s->held[i] = lir_new_home(b, LIR_B32);
        }
        s->cursor = lower_new_cursor(lo, true);
    }
}

/* Behind all tiles. */
void
lower_end_scales(Lowering *lo)
{
    hold_loaded(lo);
    hand_on(lo);
}

/* Whether this warp loads the stages whose number is that of the cursor; 0: all of them. */
static LirReg
is_turn(Lowering *lo, const TirShared *pipeline)
{
    LirBuilder *b = &lo->b;
    const PipelineCursor *cursor = &lo->role->pipelines[pipeline->id];

    if (lower_scale_warps(lo) < 2)
        return 0;
    LirReg odd = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(cursor->stage), lir_int(1));
    return lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(odd), lir_int(lo->role->instance - 1));
}

uint32_t
lower_scale_warps(const Lowering *lo)
{
    uint32_t warps = 0;

    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const TirShared *shared = lo->fn->shared.at[k];
        if (shared->scales > 0)
            warps = shared->stages % 2 == 0 && warps != 1 ? 2 : 1;
    }
    return warps;
}

/* Asks for a stage of each pipeline; what was asked for before is written then, while these are on their way. */
static void
fill_stages(Lowering *lo, TirOp *const *loads, uint32_t n)
{
    Scales scales;

    hold_loaded(lo);
    for (uint32_t k = 0; k < n; k++) {
        lo->b.span = loads[k]->span;
        begin_scales(lo, loads[k], &scales);
        load_scales(lo, &scales);
    }
    hand_on(lo);
    move_to(lo, lo->role->holds_scales, lir_int(1));
    for (uint32_t k = 0; k < n; k++) {
        const PipelineCursor *cursor = &lo->role->pipelines[loads[k]->shared->id],
                             *own = &lo->role->scales[loads[k]->shared->id].cursor;
        move_to(lo, own->stage, lir_reg(cursor->stage));
        move_to(lo, own->phase, lir_reg(cursor->phase));
    }
}

/* Those of a block are loaded together, where the last of them stands. */
void
lower_load_scales(Lowering *lo, const TirOp *op)
{
    const TirBlock *block = op->parent;
    TirOp **loads = arena_array(lo->arena, TirOp *, block->ops.n);
    LirBuilder *b = &lo->b;
    uint32_t n = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *load = block->ops.at[i];
        if (load->op == TIR_TMA_LOAD && load->shared->scales > 0)
            loads[n++] = load;
    }
    if (loads[n - 1] != op)
        return;
    LirReg turn = is_turn(lo, op->shared);
    if (turn == 0) {
        fill_stages(lo, loads, n);
    } else {
        uint32_t others = lir_new_label(b);
        lir_branch(b, others, turn, true);
        Branch branch = begin_branch(lo);
        fill_stages(lo, loads, n);
        end_branch(lo, &branch);
        lir_label(b, others);
    }
    for (uint32_t k = 0; k < n; k++)
        lower_advance(lo, &lo->role->pipelines[loads[k]->shared->id], loads[k]->shared->stages);
}

/* ---- the mma role ---- */

static LirReg
tmem_plus(Lowering *lo, LirReg at, int64_t columns)
{
    return columns == 0 ? at : lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(at), lir_int(columns));
}

PlacedScales
lower_place_scales(Lowering *lo, const TirVal *operand)
{
    enum { CORE_ROWS = 128 >> 4, CONSTANT = 1 << 14 };
    LirBuilder *b = &lo->b;
    bool transposed;
    const TirShared *pipeline = view_source(operand, &transposed)->shared;
    const PipelineCursor *cursor = lower_cursor(lo, pipeline, 0);
    uint32_t columns = tir_tmem_columns(pipeline), blocks = tir_scale_blocks(pipeline);
    PlacedScales placed = {.at = lo->role->tmem, .word_columns = (int32_t)(blocks * RUNS)};

    if (pipeline->places > 1)
        placed.at = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(cursor->stage), lir_int(columns),
                            lir_reg(placed.at));
    placed.at = tmem_plus(lo, placed.at, pipeline->column);
    LirReg low = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(cursor->base),
                         lir_int(pipeline->offset >> 4));
    LirReg high = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(lower_zero(lo)),
                          lir_int(CONSTANT | CORE_ROWS));
    LirReg first = lir_op2(b, LIR_PACK_B64, LIR_B64, lir_reg(low), lir_reg(high));
    for (uint32_t k = 0; k < columns / RUNS; k++) {
        LirReg from = first;
        if (k > 0)
            from = lir_op2(b, LIR_ADD_S64, LIR_B64, lir_reg(first),
                           lir_int((int64_t)k * SCALE_BLOCK_BYTES >> 4));
        LirOperand operands[] = {lir_address(tmem_plus(lo, placed.at, k * RUNS), 0), lir_reg(from)};
        lir_emit(b, LIR_TMEM_COPY, 0, 2, operands)->guard = lo->role->elected;
    }
    return placed;
}

LirOperand
lower_scales_at(Lowering *lo, const PlacedScales *placed, const MmaForm *form, uint32_t step)
{
    uint32_t word = step * (uint32_t)form->scales / WORD;

    return lir_address(tmem_plus(lo, placed->at, (int64_t)word * placed->word_columns), 0);
}

int64_t
lower_scales_described(const MmaForm *form, uint32_t step)
{
    int64_t byte = step * (uint32_t)form->scales % WORD; /* of a word */

    return byte << 4 | (int64_t)dtype_is_scale(form->scale) << 23 | byte << 29;
}
