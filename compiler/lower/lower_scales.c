/* lower_scales.c - scales of products whose results lie in tensor memory: how they come there.
 *
 * A stage of scales in shared memory is in the order in which tensor memory takes it
 * (tir_scales.h): the 16 bytes of lane l are words of lines l, l + 32, l + 64 and l + 96.  No
 * tensor copy makes that of scales as programs have them, some bytes of each line.  So warps of the
 * producer's group load them, a line in each lane, stage by stage in turn: each asks for its next
 * stage before it writes the last one, with two sets of registers.  The mma role copies a stage to
 * tensor memory before its product.
 *
 * PTX ISA, "TensorCore 5th Generation Family Instructions": "Block scaling for tcgen05.mma",
 * "tcgen05.cp".
 */
#include "compiler/ir/tir_scales.h"
#include "compiler/lower/lower_access.h"

#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"

enum {
    WORD = SCALE_WORD,
    RUNS = SCALE_RUNS,
    MOST_VECTOR = 4 /* words */
};

/* ---- the warps that load them ---- */

/* A stage of scales, on its way to one of two sets of registers. */
typedef struct Scales {
    const TirShared *pipeline;
    Access access;
    const Axis *lines, *each; /* the axes of the tile: lines, and the scales of one */
    int32_t words, blocks, n; /* n: words of a lane */
    const LirReg *word;       /* as in ScaleStage */
} Scales;

static void
begin_scales(Lowering *lo, TirOp *load, uint32_t set, Scales *s)
{
    bool first = load->shared->scales == 1;

    *s = (Scales){.pipeline = load->shared,
                  .access = access_begin(lo, load),
                  .words = (int32_t)tir_scale_words(load->shared),
                  .blocks = (int32_t)tir_scale_blocks(load->shared),
                  .n = (int32_t)lo->role->scales[load->shared->id].n};
    s->lines = first ? &s->access.col : &s->access.row;
    s->each = first ? &s->access.row : &s->access.col;
    s->word = lo->role->scales[load->shared->id].word[set];
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

/* Whether a scalar is the same in all iterations of the loop with that body. */
static bool
is_same_in_all(const TirBlock *body, const TirVal *value)
{
    const TirOp *def = value->def;

    return value->block != body ||
           (def != NULL && (def->op == TIR_GRID || def->op == TIR_SIZE || def->op == TIR_PARAM));
}

/* Whether what an iteration loads lies behind what the one before does, along the scales of a line:
 * a word. */
static bool
goes_on(const TirOp *load)
{
    const TirOp *loop = load->parent->owner;

    if (loop == NULL || loop->op != TIR_FOR)
        return false;
    for (TirDims d = tir_dims(load); tir_dims_next(&d);) {
        Linear at = {.ok = true};
        int64_t by = 0;
        if (d.at != NULL)
            linear_add(&at, d.at, 1);
        for (uint32_t k = 0; k < at.n && at.ok; k++) {
            bool number = at.terms[k].value == load->parent->params.at[0];
            by += number ? at.terms[k].coefficient : 0;
            at.ok = number || is_same_in_all(load->parent, at.terms[k].value);
        }
        bool each = !d.single && d.axis + 1 == load->shared->scales;
        if (!at.ok || by != (each ? WORD : 0) || (each && d.length != WORD))
            return false;
    }
    return true;
}

/* Whether warps load the stages of two iterations at once, and have turns of two. */
static bool
loads_pairs(TirOp *const *loads, uint32_t n)
{
    bool pairs = true;

    for (uint32_t k = 0; k < n; k++)
        pairs = pairs && loads[k]->shared->stages % 4 == 0 && goes_on(loads[k]);
    return pairs;
}

/* How many words of a line an instruction loads, where addresses and what is left of each line
 * allow it. */
static int32_t
vector_of(const Scales *s)
{
    int32_t vector = MOST_VECTOR;

    while (vector > 0 && s->each->length % (vector * WORD) != 0)
        vector /= 2;
    return s->each->stride == 0 ? vector : 0;
}

/* Words, as many as a vector has, of one lane's line. */
static void
load_vectors(Lowering *lo, const Scales *s, LirOperand at, int32_t block, int32_t run,
             int32_t vector, LirReg guard)
{
    static const LirOpcode loads[] = {0, LIR_LD_GLOBAL_B32, LIR_LD_GLOBAL_V2, 0, LIR_LD_GLOBAL_V4};

    for (int32_t w = 0; w < s->words; w += vector) {
        LirOperand operands[MOST_VECTOR + 1];
        for (int32_t k = 0; k < vector;
             k++) /* behind the words of a stage are those of the next one */
            operands[k] = lir_reg(w + k < s->words ? word_of(s, block, w + k, run)
                                                   : word_of(s, block, 0, run + s->n));
        operands[vector] = lir_address(at.reg, at.integer + w * WORD);
        lir_emit(&lo->b, loads[vector], (uint32_t)vector, (uint32_t)vector + 1, operands)->guard =
            guard;
    }
}

/* A word that is zero if all lines begin, and end, at multiples of so many bytes. */
static LirReg
unaligned_bits(Lowering *lo, const Scales *s, int32_t bytes)
{
    LirBuilder *b = &lo->b;
    Elem start = s->each->start == NULL ? elem_int(0) : lower_elem(lo, s->each->start, 0);
    LirReg from = lower_elem_reg(lo, start, LIR_B32);
    LirReg size = lower_elem_reg(lo, s->each->size, LIR_B32);
    LirReg bits = lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(s->access.base));
    LirReg rest = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(size), lir_reg(from));

    bits = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(bits), lir_reg(rest));
    if (s->lines->stride != 0) {
        LirReg stride = lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(s->lines->stride));
        bits = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(bits), lir_reg(stride));
    }
    return lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(bits), lir_int(bytes - 1));
}

/* The predicate that all scales of a line are inside of the tensor; 0: they are. */
static LirReg
line_guard(Lowering *lo, const Scales *s)
{
    return access_axis_guard(lo, s->each, elem_int(0), 0, s->each->length, s->each->length);
}

static LirReg
is_zero(Lowering *lo, LirReg bits)
{
    return lir_op2(&lo->b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(bits), lir_int(0));
}

/* The predicate that words can be loaded without tests: lines are aligned, the tile lies inside of
 * its tensor, and 32 lines after the other are less than 2^31 bytes apart.  `vector`: words of a
 * line that an instruction loads. */
static LirReg
is_plain(Lowering *lo, const Scales *s, int32_t vector)
{
    enum { TOP = 31 };
    LirBuilder *b = &lo->b;
    LirReg bits = unaligned_bits(lo, s, vector * WORD);
    bool testable;

    if (s->lines->stride != 0) {
        LirOperand parts[] = {lir_reg(lir_new_reg(b, LIR_B32)), lir_reg(lir_new_reg(b, LIR_B32)),
                              lir_reg(s->lines->stride)};
        lir_emit(b, LIR_UNPACK_B64, 2, 3, parts);
        LirReg top = lir_op2(b, LIR_SHR_U32, LIR_B32, parts[0], lir_int(TOP));
        bits = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(bits), lir_reg(top));
        bits = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(bits), parts[1]);
    }
    return access_both(lo, is_zero(lo, bits), access_tile_guard(lo, &s->access, &testable));
}

/* All lines of a lane, where that is so. */
static void
load_plain(Lowering *lo, const Scales *s, int32_t vector)
{
    LirBuilder *b = &lo->b;
    LirReg lane = lower_lane(lo), stride = 0, first = s->access.base;

    if (s->lines->stride != 0)
        stride = lir_op1(b, LIR_CVT_U32_U64, LIR_B32, lir_reg(s->lines->stride));
    LirOperand each = stride != 0 ? lir_reg(stride) : lir_int(1);
    first = lir_op3(b, LIR_MAD_WIDE, LIR_B64, lir_reg(lane), each, lir_reg(first));
    for (int32_t line = 0; line < s->blocks * TMEM_LANES; line += WARP_LANES) {
        int32_t block = line / TMEM_LANES, run = line % TMEM_LANES / WARP_LANES;
        LirReg at = first, guard = 0;
        if (line >= s->lines->length)
            continue; /* what is there belongs to no line */
        if (line + WARP_LANES > s->lines->length)
            guard = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(lane),
                            lir_int(s->lines->length - line));
        if (line > 0 && stride != 0)
            at = lir_op3(b, LIR_MAD_WIDE, LIR_B64, lir_reg(stride), lir_int(line), lir_reg(first));
        load_vectors(lo, s, lir_address(at, stride != 0 ? 0 : line), block, run, vector, guard);
    }
}

/* Of one lane's line, byte by byte. */
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

/* All lines of a lane that there are, in words or, `vector` is 0, in bytes; zeros in place of what
 * is not there. */
static void
load_tested(Lowering *lo, const Scales *s, int32_t vector)
{
    LirBuilder *b = &lo->b;
    Elem lane = elem_reg(lower_lane(lo));
    LirReg first = access_plus(lo, s->access.base,
                               access_term(lo, lane, s->lines->stride, s->access.bytes));

    for (int32_t line = 0; line < s->blocks * TMEM_LANES; line += WARP_LANES) {
        int32_t block = line / TMEM_LANES, run = line % TMEM_LANES / WARP_LANES;
        for (int32_t w = 0; w < s->words; w++)
            lir_emit(b, LIR_MOV_B32, 1, 2,
                     (LirOperand[]){lir_reg(word_of(s, block, w, run)), lir_int(0)});
        if (line >= s->lines->length)
            continue;
        LirReg at = along(lo, first, s->lines, line);
        LirReg guard = access_both(
            lo, s->access.inside,
            access_axis_guard(lo, s->lines, lane, line, 1, s->blocks * TMEM_LANES));
        if (vector == 0) {
            load_bytes(lo, s, at, block, run, guard);
            continue;
        }
        guard = access_both(lo, guard, line_guard(lo, s));
        load_vectors(lo, s, lir_address(at, 0), block, run, vector, guard);
    }
}

/* What is made in it is forgotten behind it. */
typedef struct Branch {
    const TirBlock *around;
    uint32_t borrowed, behind; /* a label */
} Branch;

/* Goes on where `condition` is as said; 0: always. */
static Branch
begin_branch(Lowering *lo, LirReg condition, bool holds)
{
    LirBuilder *b = &lo->b;
    Branch branch = {lo->block, lo->borrowed.n, lir_new_label(b)};

    lir_open(
        b, true); /* what is the same in all iterations leaves it, too, and stands in front of it */
    if (condition != 0)
        lir_branch(b, branch.behind, condition, holds);
    lo->block = arena_new(lo->arena, TirBlock);
    return branch;
}

/* Its end, or of one of several that end at `end`; 0: there is one. */
static void
end_branch(Lowering *lo, const Branch *branch, uint32_t end)
{
    if (end != 0)
        lir_branch(&lo->b, end, 0, false);
    lir_label(&lo->b, branch->behind);
    lo->block = branch->around;
    lir_close(&lo->b);
    lower_forget(lo, branch->borrowed);
}

/* A tile of which nothing is known.  (In words only where all of a line is inside.) */
static void
load_any(Lowering *lo, const Scales *s)
{
    LirBuilder *b = &lo->b;
    int32_t vector = vector_of(s);
    uint32_t end = lir_new_label(b);

    if (vector == 0) {
        load_tested(lo, s, 0);
        return;
    }
    LirReg words = access_both(lo, is_zero(lo, unaligned_bits(lo, s, vector * WORD)),
                               line_guard(lo, s));
    Branch branch = begin_branch(lo, words, true);
    load_tested(lo, s, vector);
    end_branch(lo, &branch, end);
    branch = begin_branch(lo, 0, false);
    load_tested(lo, s, 0);
    end_branch(lo, &branch, 0);
    lir_label(b, end);
}

static void
move_to(Lowering *lo, LirReg to, LirOperand from)
{
    lir_emit(&lo->b, LIR_MOV_B32, 1, 2, (LirOperand[]){lir_reg(to), from});
}

/* Waits until the stage is empty, and writes it.  (Of e4m3 an instruction ignores the sign.) */
static void
write_stage(Lowering *lo, const TirShared *pipeline, const ScaleStage *s, const LirReg *word)
{
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
        for (uint32_t run = 0; run < RUNS; run++)
            operands[1 + run] = lir_reg(word[k + run]);
        lir_emit(b, LIR_ST_SHARED_V4, 0, RUNS + 1, operands);
    }
}

/* Writes a stage of each pipeline, and hands it on; `next`: that which was loaded along with it. */
static void
hand_on_stage(Lowering *lo, uint32_t set, bool next)
{
    LirBuilder *b = &lo->b;
    LirOperand all = lir_int(-1);

    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const ScaleStage *s = &lo->role->scales[k];
        if (s->n > 0)
            write_stage(lo, lo->fn->shared.at[k], s, s->word[set] + (next ? s->n : 0));
    }
    lir_emit(b, LIR_FENCE_PROXY_ASYNC, 0, 0, NULL);
    lir_emit(b, LIR_BAR_WARP_SYNC, 0, 1, &all);
    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const ScaleStage *s = &lo->role->scales[k];
        if (s->n == 0)
            continue;
        LirOperand full = lower_barrier_at(lo, lo->fn->shared.at[k], &s->cursor, false);
        lir_emit(b, LIR_MBARRIER_ARRIVE, 0, 1, &full)->guard = lo->role->first_lane;
    }
}

/* Writes what a set has, if it has anything.  (The stage behind the first of two is no first one:
 * it has the same phase.) */
static void
hand_on(Lowering *lo, uint32_t set)
{
    LirBuilder *b = &lo->b;
    Branch some = begin_branch(lo, is_zero(lo, lo->role->holds_scales), false);

    hand_on_stage(lo, set, false);
    LirReg two = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lo->role->holds_scales), lir_int(2));
    Branch next = begin_branch(lo, two, true);
    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        LirOperand stage = lir_reg(lo->role->scales[k].cursor.stage);
        if (lo->role->scales[k].n > 0)
            lir_emit(b, LIR_ADD_S32, 1, 3, (LirOperand[]){stage, stage, lir_int(1)});
    }
    hand_on_stage(lo, set, true);
    end_branch(lo, &next, 0);
    end_branch(lo, &some, 0);
}

/* The same of the set that was loaded last. */
static void
hand_on_last(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    uint32_t end = lir_new_label(b);

    for (uint32_t set = 0; set < 2; set++) {
        LirReg first = set == 0 ? is_zero(lo, lo->role->scale_set) : 0;
        Branch branch = begin_branch(lo, first, true);
        hand_on(lo, set);
        end_branch(lo, &branch, end);
    }
    lir_label(b, end);
}

void
lower_begin_scales(Lowering *lo)
{
    LirBuilder *b = &lo->b;

    lo->role->scales = arena_array(lo->arena, ScaleStage, lo->fn->shared.n + 1);
    move_to(lo, lo->role->holds_scales = lir_new_home(b, LIR_B32), lir_int(0));
    move_to(lo, lo->role->scale_set = lir_new_home(b, LIR_B32), lir_int(0));
    move_to(lo, lo->role->has_next_scales = lir_new_home(b, LIR_B32), lir_int(0));
    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const TirShared *pipeline = lo->fn->shared.at[k];
        ScaleStage *s = &lo->role->scales[k];
        if (pipeline->scales == 0)
            continue;
        s->n = tir_scale_words(pipeline) * tir_scale_blocks(pipeline) * RUNS;
        s->cursor = lower_new_cursor(lo, true);
        for (uint32_t set = 0; set < 2; set++) {
            s->word[set] = arena_array(lo->arena, LirReg, 2 * s->n);
            for (uint32_t i = 0; i < 2 * s->n; i++)
                move_to(lo, s->word[set][i] = lir_new_home(b, LIR_B32), lir_int(0));
        }
    }
}

/* Behind all tiles. */
void
lower_end_scales(Lowering *lo)
{
    hand_on_last(lo);
}

/* Whether this warp loads the stages whose number is that of the cursor; 0: all of them. */
static LirReg
is_turn(Lowering *lo, const TirShared *pipeline, bool pairs)
{
    LirBuilder *b = &lo->b;
    const PipelineCursor *cursor = &lo->role->pipelines[pipeline->id];

    if (lower_scale_warps(lo) < 2)
        return 0;
    LirReg stage = cursor->stage;
    if (pairs)
        stage = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(stage), lir_int(1));
    LirReg odd = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(stage), lir_int(1));
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

/* The predicate that all tiles are plain, in an iteration, or in it and the next one (`vector` 2);
 * 0: they are not known to be. */
static LirReg
are_plain(Lowering *lo, TirOp *const *loads, uint32_t n, bool two)
{
    LirReg plain = 0;

    for (uint32_t k = 0; k < n; k++) {
        Scales s;
        begin_scales(lo, loads[k], 0, &s);
        if (vector_of(&s) == 0)
            return 0;
        plain = access_both(lo, plain, is_plain(lo, &s, two ? 2 : vector_of(&s)));
        if (two)
            plain = access_both(lo, plain,
                                access_axis_guard(lo, s.each, elem_int(0), s.each->length,
                                                  s.each->length, s.each->length));
    }
    return plain;
}

/* The predicate that this iteration's stage is the first of two that one warp loads, and the next
 * one comes. */
static LirReg
begins_pair(Lowering *lo, const TirOp *load)
{
    LirBuilder *b = &lo->b;
    const TirOp *loop = load->parent->owner;
    LirReg stage = lo->role->pipelines[load->shared->id].stage;
    LirReg number = lower_scalar_reg(lo, load->parent->params.at[0]);
    LirReg next = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(number), lir_int(1));
    LirReg odd = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(stage), lir_int(1));

    return access_both(lo, is_zero(lo, odd),
                       lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(next),
                               lir_reg(lower_scalar_reg(lo, loop->args[1]))));
}

/* The stages of what has been asked for, and how many they are. */
static void
keep_stages(Lowering *lo, TirOp *const *loads, uint32_t n)
{
    move_to(lo, lo->role->holds_scales, lir_int(1));
    for (uint32_t k = 0; k < n; k++) {
        const PipelineCursor *cursor = &lo->role->pipelines[loads[k]->shared->id],
                             *own = &lo->role->scales[loads[k]->shared->id].cursor;
        move_to(lo, own->stage, lir_reg(cursor->stage));
        move_to(lo, own->phase, lir_reg(cursor->phase));
    }
}

/* Asks for a stage of each pipeline, or two; what was asked for before is written then, while these
 * are on their way. */
static void
fill_plain(Lowering *lo, TirOp *const *loads, uint32_t n, bool two, uint32_t end)
{
    Scales s;

    for (uint32_t set = 0; set < 2; set++) {
        LirReg first = set == 0 ? is_zero(lo, lo->role->scale_set) : 0;
        Branch branch = begin_branch(lo, first, false);
        for (uint32_t k = 0; k < n; k++) {
            lo->b.span = loads[k]->span;
            begin_scales(lo, loads[k], set, &s);
            load_plain(lo, &s, two ? 2 : vector_of(&s));
        }
        hand_on(lo, 1 - set);
        move_to(lo, lo->role->scale_set, lir_int(set));
        keep_stages(lo, loads, n);
        move_to(lo, lo->role->has_next_scales, lir_int(two));
        end_branch(lo, &branch, end);
    }
}

/* Writes what was asked for before, and asks for a stage of each. */
static void
fill_any(Lowering *lo, TirOp *const *loads, uint32_t n)
{
    Scales s;

    hand_on_last(lo);
    for (uint32_t k = 0; k < n; k++) {
        lo->b.span = loads[k]->span;
        begin_scales(lo, loads[k], 0, &s);
        load_any(lo, &s);
    }
    move_to(lo, lo->role->scale_set, lir_int(0));
    keep_stages(lo, loads, n);
}

static void
fill_stages(Lowering *lo, TirOp *const *loads, uint32_t n, bool pairs)
{
    LirBuilder *b = &lo->b;
    uint32_t end = lir_new_label(b);

    if (pairs) { /* unless it came with the one before */
        Branch came = begin_branch(lo, is_zero(lo, lo->role->has_next_scales), false);
        move_to(lo, lo->role->has_next_scales, lir_int(0));
        move_to(lo, lo->role->holds_scales, lir_int(2));
        end_branch(lo, &came, end);
    }
    for (uint32_t two = pairs ? 1 : 0; two < 2; two = two == 1 ? 0 : 2) {
        LirReg plain = are_plain(lo, loads, n, two == 1);
        if (plain == 0)
            continue;
        if (two == 1)
            plain = access_both(lo, begins_pair(lo, loads[0]), plain);
        Branch branch = begin_branch(lo, plain, true);
        fill_plain(lo, loads, n, two == 1, end);
        end_branch(lo, &branch, 0);
    }
    Branch branch = begin_branch(lo, 0, false);
    fill_any(lo, loads, n);
    end_branch(lo, &branch, 0);
    lir_label(b, end);
}

/* Those of a block are loaded together, where the last of them stands. */
void
lower_load_scales(Lowering *lo, const TirOp *op)
{
    const TirBlock *block = op->parent;
    TirOp **loads = arena_array(lo->arena, TirOp *, block->ops.n);
    uint32_t n = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *load = block->ops.at[i];
        if (load->op == TIR_TMA_LOAD && load->shared->scales > 0)
            loads[n++] = load;
    }
    if (loads[n - 1] != op)
        return;
    bool pairs = lower_scale_warps(lo) == 2 && loads_pairs(loads, n);
    Branch branch = begin_branch(lo, is_turn(lo, op->shared, pairs), true);
    fill_stages(lo, loads, n, pairs);
    end_branch(lo, &branch, 0);
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
