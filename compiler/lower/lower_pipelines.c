/* lower_pipelines.c - pipelines between roles: stages in shared memory that TMA fills, with
 * a full and an empty barrier each.
 *
 * A full barrier completes when the producer has arrived and all bytes it announced have landed; an
 * empty one when a lane of every warp that reads the stage has arrived.  A role goes around a
 * pipeline stage by stage; the phase it waits for turns whenever it passes the first stage again.
 * A vector that shares the barriers of a pipeline has none of its own: the pipeline's full ones
 * expect its bytes, too.
 *
 * PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier" (phases, parity);
 * "cp.async.bulk.tensor" (tile mode, complete_tx).
 */
#include "compiler/lower/lower.h"
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/pipeline_cursors.h"
#include "compiler/passes/util/tir_util.h"

/* Bytes that vectors bring to this pipeline's barriers, with each stage. */
static int64_t
bytes_of_sharers(const Lowering *lo, const TirShared *pipeline)
{
    int64_t bytes = 0;

    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const TirShared *vector = lo->fn->shared.at[k];
        if (vector->with == pipeline)
            bytes += vector->cols * (int32_t)dtype_bits(vector->dtype) / 8;
    }
    return bytes;
}

static uint32_t
part_bytes(const Lowering *lo, const TirShared *pipeline)
{
    return pipeline->bytes / pipeline->stages / tir_parts(lo->fn->plan, pipeline);
}

PipelineCursor
lower_new_cursor(Lowering *lo, bool fills)
{
    LirBuilder *b = &lo->b;
    PipelineCursor cursor = {.stage = lir_new_home(b, LIR_B32), .phase = lir_new_home(b, LIR_B32)};
    /* A barrier that nobody has completed yet looks as if the phase before had ended: that is what
     * the producer finds at its first round. */
    LirOperand stage[] = {lir_reg(cursor.stage), lir_int(0)};
    LirOperand phase[] = {lir_reg(cursor.phase), lir_int(fills ? 1 : 0)};

    lir_emit(b, LIR_MOV_B32, 1, 2, stage);
    lir_emit(b, LIR_MOV_B32, 1, 2, phase);
    return cursor;
}

void
lower_begin_pipelines(Lowering *lo)
{
    uint32_t each = tir_serves_all(lo->role->kind) ? tir_consumers(lo->fn->plan) : 1;

    lo->role->pipelines = arena_array(lo->arena, PipelineCursor, each * (lo->fn->shared.n + 1));
    lo->role->tiles_stay = false;
    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const TirShared *pipeline = lo->fn->shared.at[k];
        if (!tir_is_pipeline(pipeline) && pipeline->kind != SHARED_PARTS &&
            (pipeline->kind != SHARED_SENT || lo->role->kind != ROLE_REDUCE))
            continue;
        bool fills = lo->role->kind == ROLE_PRODUCER || lower_tmem_fills(lo, pipeline);
        for (uint32_t w = 0; w < each && w < tir_parts(lo->fn->plan, pipeline); w++)
            *lower_cursor(lo, pipeline, w) = lower_new_cursor(lo, fills);
        if (pipeline->lag > 0 && lo->role->kind != ROLE_PRODUCER) {
            lo->role->pipelines[k].oldest = arena_new(lo->arena, PipelineCursor);
            *lo->role->pipelines[k].oldest = lower_new_cursor(lo, fills);
        }
        if (pipeline->reread && lo->role->kind != ROLE_PRODUCER) {
            LirOperand base[] = {lir_reg(lir_new_home(&lo->b, LIR_B32)), lir_int(0)};
            lir_emit(&lo->b, LIR_MOV_B32, 1, 2, base);
            lo->role->pipelines[k].base = base[0].reg;
        }
    }
    if (tir_is_dynamic(lo->fn->plan))
        lo->role->tiles = lower_new_cursor(lo, lo->role->kind == ROLE_PRODUCER);
    if (tir_has_clc(lo->fn->plan) && lo->role->kind == ROLE_PRODUCER)
        lo->role->answers = lower_new_cursor(lo, false);
    const CursorLeader *leaders = pipeline_cursors(lo->fn, lo->role->kind == ROLE_PRODUCER);
    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        if (leaders[k].pipeline == NULL && !leaders[k].tiles)
            continue;
        const PipelineCursor *leader = leaders[k].tiles
                                           ? &lo->role->tiles
                                           : &lo->role->pipelines[leaders[k].pipeline->id];
        lo->role->tiles_stay = lo->role->tiles_stay || leaders[k].tiles;
        lo->role->pipelines[k].stage = leader->stage;
        lo->role->pipelines[k].phase = leader->phase;
        lo->role->pipelines[k].follows = true;
    }
}

void
lower_init_barriers(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    LirReg start = lower_shared_start(lo);

    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const TirShared *pipeline = lo->fn->shared.at[k];
        if (!tir_is_pipeline(pipeline) || pipeline->with != NULL)
            continue;
        TirChannel channel = tir_channel(lo->fn, pipeline);
        for (uint32_t i = 0; i < channel.barriers; i++) {
            bool full = i < pipeline->stages * channel.parts;
            LirOperand operands[] = {lir_address(start, pipeline->barriers + MBARRIER_BYTES * i),
                                     lir_int(full ? channel.full : channel.empty)};
            lir_emit(b, LIR_MBARRIER_INIT, 0, 2, operands);
        }
    }
    if (lo->fn->plan->mark != 0) {
        /* As many arrivals as there can be: tools call a phase that ends unawaited a fault. */
        LirOperand operands[] = {lir_address(start, lo->fn->plan->mark), lir_int(MBARRIER_ARRIVALS)};
        lir_emit(b, LIR_MBARRIER_INIT, 0, 2, operands);
    }
    lower_init_sent(lo);
    lower_init_tile_barriers(lo);
}

/* The sum of `start` and `bytes` for each warp group before that of consumer `part`. */
static LirReg
before_consumer(Lowering *lo, LirReg start, uint32_t part, int64_t bytes)
{
    LirBuilder *b = &lo->b;
    int64_t there = part * bytes, reversed = (tir_consumers(lo->fn->plan) - 1 - part) * bytes;
    LirReg at = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(lo->role->reversed),
                        lir_int(reversed - there), lir_reg(start));

    return lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(at), lir_int(there));
}

/* `start` and `bytes` for each consumer before this one. */
static LirReg
behind_consumers(Lowering *lo, LirReg start, int64_t bytes)
{
    LirReg own = lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(lo->role->group), lir_int(-1));

    return lir_op3(&lo->b, LIR_MAD_S32, LIR_B32, lir_reg(own), lir_int(bytes), lir_reg(start));
}

/* Of the tile before the first one: the last stage. */
static LirReg
stage_before(Lowering *lo, const TirShared *pipeline, LirReg stage)
{
    LirBuilder *b = &lo->b;

    if (pipeline->stages == 2)
        return lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(stage), lir_int(1));
    LirReg first = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(stage), lir_int(0));
    LirReg less = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(stage), lir_int(-1));
    return lir_op3(b, LIR_SEL_B32, LIR_B32, lir_int(pipeline->stages - 1), lir_reg(less),
                   lir_reg(first));
}

/* The address of the current stage's full or empty barrier, in shared memory that begins at
 * `start`; `of_consumer`: of the pipeline for this consumer's part. */
static LirOperand
barrier_of(Lowering *lo, LirReg start, const TirShared *pipeline, uint32_t part, bool empty,
           bool of_consumer)
{
    LirBuilder *b = &lo->b;
    const PipelineCursor *cursor = lower_cursor(lo, pipeline, part);
    LirReg stage = empty && cursor->oldest != NULL ? cursor->oldest->stage : cursor->stage;
    if (empty && pipeline->held > 0 && lo->role->kind != ROLE_PRODUCER)
        stage = stage_before(lo, pipeline, stage);
    uint32_t parts = tir_parts(lo->fn->plan, pipeline);
    int64_t offset = pipeline->barriers + (empty ? MBARRIER_BYTES * pipeline->stages * parts : 0);

    /* pipelines for parts of a tile lie one behind the other, and go around together */
    if (of_consumer)
        start = behind_consumers(lo, start, 2 * MBARRIER_BYTES * pipeline->stages);

    if (parts > 1 && lo->role->kind == ROLE_PRODUCER && lo->fn->plan->tiles.alternating) {
        start = before_consumer(lo, start, part, MBARRIER_BYTES);
    } else if (lo->role->kind == ROLE_PRODUCER || tir_serves_all(lo->role->kind)) {
        offset += MBARRIER_BYTES * part;
    } else if (parts > 1 || (pipeline->each && pipeline->from == ROLE_PRODUCER)) {
        LirReg own = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(lo->role->group), lir_int(3));
        start = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(start), lir_reg(own));
        offset -= MBARRIER_BYTES; /* groups are counted from 1 */
    }
    if (pipeline->stages == 1)
        return lir_address(start, offset);
    LirReg at = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(stage), lir_int(MBARRIER_BYTES * parts),
                        lir_reg(start));
    return lir_address(at, offset);
}

LirOperand
lower_barrier_at(Lowering *lo, const TirShared *pipeline, const PipelineCursor *cursor, bool empty)
{
    int64_t offset = pipeline->barriers + (empty ? MBARRIER_BYTES * pipeline->stages : 0);
    LirReg at = lower_shared_start(lo);

    if (pipeline->stages > 1)
        at = lir_op3(&lo->b, LIR_MAD_S32, LIR_B32, lir_reg(cursor->stage), lir_int(MBARRIER_BYTES),
                     lir_reg(at));
    return lir_address(at, offset);
}

LirOperand
lower_stage_barrier(Lowering *lo, const TirShared *pipeline, uint32_t part, bool empty)
{
    return barrier_of(lo, lower_shared_start(lo), pipeline, part, empty, false);
}

LirOperand
lower_pair_barrier(Lowering *lo, const TirShared *pipeline, uint32_t part, bool empty)
{
    return barrier_of(lo, lo->role->pair_start, pipeline, part, empty, false);
}

static void
wait_by(Lowering *lo, LirOpcode opcode, LirOperand barrier, LirReg phase)
{
    LirBuilder *b = &lo->b;
    uint32_t again = lir_new_label(b);
    LirReg done = lir_new_reg(b, LIR_PRED);
    LirOperand operands[] = {lir_reg(done), barrier, lir_reg(phase)};

    lir_label(b, again);
    lir_emit(b, opcode, 1, 3, operands);
    lir_branch(b, again, done, true);
}

void
lower_wait_barrier(Lowering *lo, LirOperand barrier, LirReg phase)
{
    wait_by(lo, LIR_MBARRIER_TRY_WAIT, barrier, phase);
}

void
lower_wait_for_pair(Lowering *lo, LirOperand barrier, LirReg phase)
{
    wait_by(lo, LIR_MBARRIER_TRY_WAIT_PAIR, barrier, phase);
}

/* Of a barrier at which the other block of a pair says what it has read. */
void
lower_wait_for_other(Lowering *lo, LirOperand barrier, LirReg phase)
{
    wait_by(lo, LIR_MBARRIER_TRY_WAIT_BOTH, barrier, phase);
}

/* Goes on to the next stage; the phase turns where the cursor comes to stage `turns`. */
static void
advance(Lowering *lo, const PipelineCursor *cursor, uint32_t stages, uint32_t turns)
{
    LirBuilder *b = &lo->b;
    LirOperand turn[] = {lir_reg(cursor->phase), lir_reg(cursor->phase), lir_int(1)};

    if (stages == 1) {
        lir_emit(b, LIR_XOR_B32, 1, 3, turn);
        return;
    }
    LirOperand next[] = {lir_reg(cursor->stage), lir_reg(cursor->stage), lir_int(1)};
    lir_emit(b, LIR_ADD_S32, 1, 3, next);
    LirReg around = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(cursor->stage), lir_int(stages));
    LirReg there = turns == 0 ? around
                              : lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(cursor->stage),
                                        lir_int(turns));
    LirReg by = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_int(1), lir_int(0), lir_reg(there));
    LirOperand first[] = {lir_reg(cursor->stage), lir_int(0), lir_reg(cursor->stage),
                          lir_reg(around)};
    lir_emit(b, LIR_SEL_B32, 1, 4, first);
    turn[2] = lir_reg(by);
    lir_emit(b, LIR_XOR_B32, 1, 3, turn);
}

void
lower_advance(Lowering *lo, PipelineCursor *cursor, uint32_t stages)
{
    advance(lo, cursor, stages, 0);
}

void
lower_consumer_wait(Lowering *lo, TirOp *op)
{
    const TirShared *pipeline = op->shared;
    uint32_t part = tir_serves_all(lo->role->kind) ? (uint32_t)op->integer : 0;
    PipelineCursor *cursor = lower_cursor(lo, pipeline, part);
    LirBuilder *b = &lo->b;

    if (pipeline->kind == SHARED_TMEM || tir_is_handed(pipeline)) {
        lower_tmem_wait(lo, op, false);
        return;
    }
    /* The start of the stage in the units of descriptors, 16 bytes, before the wait: it does not
     * depend on it.  Shared addresses have 18 bits.  Where the pipeline begins is left to
     * descriptors, which add a constant anyway: all pipelines then have one base. */
    LirReg base = lower_described(lo, lower_shared_start(lo));
    int64_t bytes = part_bytes(lo, pipeline);
    if (lo->role->kind == ROLE_MMA) {
        base = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(base), lir_int(part * bytes >> 4));
    } else if (pipeline->each) {
        LirReg own = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(lo->role->group), lir_int(1));
        base = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(own), lir_int(bytes >> 4), lir_reg(base));
    }
    if (pipeline->stages > 1)
        base = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(cursor->stage),
                       lir_int(pipeline->bytes / pipeline->stages >> 4), lir_reg(base));
    if (op->own) {
        cursor->own = behind_consumers(lo, base, pipeline->bytes >> 4);
        lower_wait_barrier(lo, barrier_of(lo, lower_shared_start(lo), pipeline, 0, false, true),
                           cursor->phase);
        return;
    }
    if (pipeline->reread) { /* the next iteration reads it */
        LirOperand kept[] = {lir_reg(cursor->base), lir_reg(base)};
        lir_emit(b, LIR_MOV_B32, 1, 2, kept);
    } else {
        cursor->base = base;
        lower_describe_pipeline(lo, op);
    }
    if (pipeline->with == NULL)
        lower_wait_barrier(lo, lower_stage_barrier(lo, pipeline, part, false), cursor->phase);
    /* who has read results, too; products that read scales where these are copied to have ended */
    if (lo->role->kind == ROLE_MMA && (pipeline->from == ROLE_CONSUMER || pipeline->scales > 0))
        lir_emit(b, LIR_TMEM_FENCE_AFTER, 0, 0, NULL);
    if (tir_is_one_place(pipeline))
        lower_advance(lo, cursor, 1);
    if (cursor->oldest != NULL) {
        cursor->waited = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_reg(cursor->stage));
        lower_advance(lo, cursor, pipeline->stages);
    }
}

/* A register that is 0, but for ptxas not before the last element of `pin` is computed. */
static LirReg
pinned_zero(Lowering *lo, TirVal *pin)
{
    LirBuilder *b = &lo->b;
    Elem last = lower_elem(lo, pin, lower_registers(pin) - 1);
    LirReg zero = lower_zero(lo);

    if (last.kind != ELEM_REG)
        return 0;
    if (pin->type.dtype == DT_BOOL)
        return lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(zero), lir_int(0), lir_reg(last.reg));
    LirReg bits = last.reg;
    if (lir_class(b, bits) == LIR_F32)
        bits = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_reg(bits));
    return lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(bits), lir_reg(zero));
}

/* The stage of the tile before: the lane that asked for what leaves from there waits until it has
 * been read, and arrives for its warp. */
static void
release_before(Lowering *lo, const TirShared *pipeline)
{
    LirBuilder *b = &lo->b;
    LirOperand at = lower_stage_barrier(lo, pipeline, 0, true), none = lir_int(0);
    LirReg asks = lower_elect(lo);

    lir_emit(b, LIR_BULK_WAIT_READ, 0, 1, &none)->guard = asks;
    lir_emit(b, LIR_MBARRIER_ARRIVE, 0, 1, &at)->guard = asks;
}

/* A sum of the loop's own is complete behind what it is added up by: registers of its parts are
 * free from there on. */
static bool
is_carried(const TirBlock *body, const TirVal *value)
{
    const TirOp *yield = block_yield(body);
    bool is = false;

    for (uint32_t k = 0; k < yield->n_args; k++)
        is = is || yield->args[k] == value;
    return is;
}

void
lower_consumer_release(Lowering *lo, TirOp *op)
{
    const TirShared *pipeline = op->shared;
    LirBuilder *b = &lo->b;
    PipelineCursor *cursor = &lo->role->pipelines[pipeline->id];

    if (lo->role->kind == ROLE_MMA || pipeline->kind == SHARED_TMEM || tir_is_handed(pipeline)) {
        lower_hand_on(lo, op, true);
        return;
    }
    if (pipeline->held > 0) {
        release_before(lo, pipeline);
        return;
    }
    if (op->n_args > 0 && is_carried(op->parent, op->args[0]))
        lower_force(lo, op->args[0]);
    /* else with the pipeline whose barriers it has, which is given back later */
    if (pipeline->with == NULL) {
        LirOperand at[] = {lower_stage_barrier(lo, pipeline, 0, true)};
        LirReg pin = op->n_args > 0 ? pinned_zero(lo, op->args[0]) : 0;
        if (pin != 0)
            at[0].reg = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(at[0].reg), lir_reg(pin));
        lir_emit(b, LIR_MBARRIER_ARRIVE, 0, 1, at)->guard = lo->role->first_lane;
    }
    if (!cursor->follows)
        lower_advance(lo, cursor->oldest != NULL ? cursor->oldest : cursor, pipeline->stages);
}

/* ptxas moves arithmetic below a wait for products, where it no longer overlaps them, and keeps its
 * operands in registers until then.  It does not move what an arrival at a barrier depends on.
 * Holding half of it is enough: the rest may fill gaps after the wait. */
void
lower_hold(Lowering *lo, TirVal *value)
{
    enum { SOME = 8 }; /* a single element could be computed early, without the others */
    LirBuilder *b = &lo->b;
    int32_t half = lower_registers(value) / 2;
    LirReg bits = 0;

    for (int32_t r = half > SOME ? half - SOME : 0; r < half && value->type.dtype == DT_F32; r++) {
        Elem elem = lower_elem(lo, value, r);
        if (elem.kind != ELEM_REG)
            return;
        LirReg own = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_reg(elem.reg));
        bits = bits == 0 ? own : lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(bits), lir_reg(own));
    }
    if (bits == 0 || lo->fn->plan->mark == 0)
        return;
    bits = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(bits), lir_reg(lower_zero(lo)));
    LirReg at = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(lower_shared_start(lo)), lir_reg(bits));
    LirOperand mark = lir_address(at, lo->fn->plan->mark);
    lir_emit(b, LIR_MBARRIER_ARRIVE, 0, 1, &mark)->guard = lo->role->first_lane;
}

/* ---- copies ---- */

/* Whether the mma role of a pair's first block waits for the copy. */
static bool
fills_for_pair(const Lowering *lo, const TirShared *pipeline)
{
    return lower_multiplies_in_pairs(lo) && pipeline->kind == SHARED_PIPELINE;
}

/* Asks for one swizzle atom column of a tile, by a map; under `guard` or, `unless`, without it. */
static void
ask_for_load(Lowering *lo, const TirOp *op, const LowerBox *box, LirReg map, int32_t column,
             const LirOperand ends[2], LirReg guard, bool unless)
{
    bool clusters = target_can(lo->px->target, CAN_CLUSTER);
    LirOperand operands[BOX_RANK + 4] = {ends[0], lir_reg(map)};
    uint32_t at = 2;

    at += lower_box_coordinates(lo, box, column, operands + at);
    operands[at++] = ends[1];
    LirOpcode of_one = fills_for_pair(lo, op->shared) ? LIR_TENSOR_LOAD_PAIR_1
                       : clusters                     ? LIR_TENSOR_LOAD_1
                                                      : LIR_TENSOR_LOAD_OWN_1;
    LirInsn *load = lir_emit(&lo->b, lower_of_rank(of_one, box->rank), 0, at, operands);
    load->guard = guard;
    load->guard_not = unless;
}

/* The producer arrives at a full barrier, which expects the bytes of a stage; that of a pair's
 * first block those of both. Where `copies` does not hold, there are none. */
static void
expect_copies(Lowering *lo, const TirOp *op, LirOperand full, LirReg copies)
{
    LirBuilder *b = &lo->b;
    const TirShared *pipeline = op->shared;
    bool pair = fills_for_pair(lo, pipeline);
    int32_t element = (int32_t)dtype_bits(pipeline->dtype) / 8, width = lower_atom_width(pipeline);
    int32_t rows = 1; /* what a box brings: rows that the layout adds are never read */
    for (TirDims d = tir_dims(op); tir_dims_next(&d);)
        rows *= d.dim + 1 < op->tensor->rank ? d.length : 1;
    if (pipeline->halved && pair_halved_dim(op, pipeline) + 1 < op->tensor->rank)
        rows /= 2;
    int64_t bytes = (int64_t)(pipeline->layout->cols / width) * rows * width * element +
                    bytes_of_sharers(lo, pipeline);
    LirOperand expect[] = {full, lir_int(pair ? 2 * bytes : bytes)};
    LirReg first = 0;

    if (copies != 0)
        expect[1] = lir_reg(
            lir_op3(b, LIR_SEL_B32, LIR_B32, expect[1], lir_int(0), lir_reg(copies)));
    if (pair)
        first = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lower_pair_rank(lo)), lir_int(0));
    lir_emit(b, LIR_MBARRIER_EXPECT_TX, 0, 2, expect)->guard = first;
}

/* The predicate under which a load is made; 0: it always is. */
static LirReg
copy_condition(Lowering *lo, const TirOp *op)
{
    TirVal *condition = tir_copy_condition(op);

    return condition == NULL ? 0 : lower_elem_reg(lo, lower_elem(lo, condition, 0), LIR_PRED);
}

static int32_t
atom_column_bytes(const TirShared *pipeline)
{
    return pipeline->layout->rows * lower_atom_width(pipeline) *
           (int32_t)dtype_bits(pipeline->dtype) / 8;
}

/* Asks for the swizzle atom columns of a tile, which go to `to` and those behind it; where `copies`
 * holds, 0: always. */
static void
ask_for_tile(Lowering *lo, const TirOp *op, const BoxMaps *maps, const LowerBox *box, LirOperand to,
             LirOperand full, LirReg copies)
{
    const TirShared *pipeline = op->shared;
    int32_t width = lower_atom_width(pipeline), atom_columns = pipeline->layout->cols / width;
    LirReg map = lower_map_address(lo, maps->name), whole_map = 0;
    LowerBox whole = *box;

    if (box->some != 0) {
        whole_map = lower_map_address(lo, maps->whole);
        whole.at[box->ended] = box->whole;
        whole.rank--;
    }
    for (int32_t p = 0; p < atom_columns; p++) {
        LirOperand ends[] = {
            lir_address(to.reg, to.integer + (int64_t)p * atom_column_bytes(pipeline)), full};
        LirReg some = copies != 0 ? copies : lower_box_some(lo, op, box, p * width);
        ask_for_load(lo, op, box, map, p * width, ends, some, false);
        if (some != 0 && some != copies)
            ask_for_load(lo, op, &whole, whole_map, p * width, ends, some, true);
    }
}

void
lower_tma_load(Lowering *lo, TirOp *op)
{
    const TirShared *pipeline = op->shared;
    PipelineCursor *cursor = &lo->role->pipelines[pipeline->id];
    LirBuilder *b = &lo->b;
    uint32_t part = (uint32_t)op->integer, parts = tir_parts(lo->fn->plan, pipeline);
    LowerBox box;

    if (pipeline->scales > 0) {
        lower_load_scales(lo, op);
        return;
    }
    LirReg copies = copy_condition(lo, op);
    lower_find_box(lo, op, &box);
    if (pipeline->with == NULL)
        lower_wait_barrier(lo, lower_stage_barrier(lo, pipeline, part, true), cursor->phase);
    LirOperand full = lower_stage_barrier(lo, pipeline, part, false);
    if (pipeline->with == NULL) /* else the pipeline whose barriers it has has said so */
        expect_copies(lo, op, full, copies);
    if (fills_for_pair(lo, pipeline))
        full = lower_pair_barrier(lo, pipeline, part, false);
    LirReg start = lower_shared_start(lo);
    if (pipeline->stages > 1)
        start = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(cursor->stage),
                        lir_int(pipeline->bytes / pipeline->stages), lir_reg(start));
    int64_t offset = pipeline->offset + part * part_bytes(lo, pipeline);
    if (parts > 1 && lo->fn->plan->tiles.alternating) {
        start = before_consumer(lo, start, part, part_bytes(lo, pipeline));
        offset = pipeline->offset;
    }
    if (pipeline->halved)
        lower_own_share(lo, op, &box);
    lower_end_box(lo, op, &box);
    LirOperand to = lir_address(start, offset);
    BoxBefore before;
    bool may_begin_before = lower_begin_before(lo, op, &box, &before);
    if (may_begin_before) {
        BoxMaps whole = {.name = lo->maps[pipeline->id].whole};
        LirReg at_once = lir_op1(b, LIR_NOT_PRED, LIR_PRED, lir_reg(before.by_lines));
        ask_for_tile(lo, op, &whole, &before.whole, to, full, at_once);
        lower_begin_lines(lo, op, &box, &before);
        LirReg line = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(before.number),
                              lir_int(SWIZZLE_BYTES), lir_reg(start));
        ask_for_tile(lo, op, &lo->line_maps[pipeline->id], &before.line, lir_address(line, offset),
                     full, 0);
        lower_begin_within(lo, &before);
    }
    ask_for_tile(lo, op, &lo->maps[pipeline->id], &box, to, full, copies);
    if (may_begin_before)
        lower_end_within(lo, &before);
    /* The last stage of a pipeline with deferred release is given back before it is filled. */
    if (part + 1 == parts && !cursor->follows)
        advance(lo, cursor, pipeline->stages, pipeline->held > 0 ? pipeline->stages - 1 : 0);
}
