/* lower_pipelines.c - pipelines between roles: stages in shared memory that TMA fills, with
 * a full and an empty barrier each.
 *
 * A full barrier completes when the producer has arrived and all bytes it announced have landed; an
 * empty one when a lane of every warp that reads the stage has arrived.  A role goes around a pipeline
 * stage by stage; the phase it waits for turns whenever it passes the first stage again.  A vector that
 * shares the barriers of a pipeline has none of its own: the pipeline's full ones expect its bytes, too.
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
        if (vector->shares_barrier == pipeline->id + 1)
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
    uint32_t each = lower_serves_all(lo) ? tir_consumers(lo->fn->plan) : 1;

    lo->role->pipelines = arena_array(lo->arena, PipelineCursor, each * (lo->fn->shared.n + 1));
    lo->role->tiles_stay = false;
    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const TirShared *pipeline = lo->fn->shared.at[k];
        if (!tir_is_pipeline(pipeline) && pipeline->kind != SHARED_PARTS &&
            (pipeline->kind != SHARED_SENT || !lo->role->reduces))
            continue;
        bool fills = lo->role->producer || lower_tmem_fills(lo, pipeline);
        for (uint32_t w = 0; w < each && w < tir_parts(lo->fn->plan, pipeline); w++)
            *lower_cursor(lo, pipeline, w) = lower_new_cursor(lo, fills);
        if (tir_release_lags(lo->fn->shared.at[k]) && !lo->role->producer) {
            lo->role->pipelines[k].oldest = arena_new(lo->arena, PipelineCursor);
            *lo->role->pipelines[k].oldest = lower_new_cursor(lo, fills);
        }
        if (lo->fn->shared.at[k]->release == RELEASE_REREAD && !lo->role->producer) {
            LirOperand base[] = {lir_reg(lir_new_home(&lo->b, LIR_B32)), lir_int(0)};
            lir_emit(&lo->b, LIR_MOV_B32, 1, 2, base);
            lo->role->pipelines[k].base = base[0].reg;
        }
    }
    if (tir_is_dynamic(lo->fn->plan))
        lo->role->tiles = lower_new_cursor(lo, lo->role->producer);
    if (tir_has_clc(lo->fn->plan) && lo->role->producer)
        lo->role->answers = lower_new_cursor(lo, false);
    const CursorLeader *leaders = pipeline_cursors(lo->fn, lo->role->producer);
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
    int32_t warps = (int32_t)lo->fn->warps;

    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const TirShared *pipeline = lo->fn->shared.at[k];
        if (!tir_is_pipeline(pipeline) || pipeline->shares_barrier != 0)
            continue;
        uint32_t n = pipeline->stages * tir_parts(lo->fn->plan, pipeline);
        int32_t readers = warps;
        if (tir_parts(lo->fn->plan, pipeline) == 1)
            readers *= (int32_t)tir_consumers(lo->fn->plan);
        readers *= pipeline->filled == FILLED_BY_PAIR ? 2 : 1;
        readers = pipeline->reduced ? (int32_t)tir_adding_warps(lo->fn->plan) : readers;
        int32_t writers = pipeline->filled == FILLED_BY_CONSUMER ||
                                  pipeline->filled == FILLED_BY_CORRECTION
                              ? warps
                              : 1;
        bool operand = pipeline->kind == SHARED_PIPELINE || writers > 1;
        if (writers > 1 && lower_multiplies_in_pairs(lo)) /* the first block's mma role waits */
            writers *= 2;
        if (tir_has_issuer(lo->fn->plan) && operand && !tir_is_handed(pipeline))
            readers = 1; /* the end of products */
        else if (lower_multiplies_in_pairs(lo))
            readers *= 2;
        for (uint32_t i = 0; i < (tir_is_given_back(lo->fn, pipeline) ? 2u : 1u) * n; i++) {
            LirOperand operands[] = {lir_address(start, pipeline->barriers + MBARRIER_BYTES * i),
                                     lir_int(i < n ? writers : readers)};
            lir_emit(b, LIR_MBARRIER_INIT, 0, 2, operands);
        }
    }
    if (lo->fn->plan->mark != 0) {
        /* As many arrivals as there can be: tools take it for a fault when phases end that nobody
         * waits for. */
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

/* The address of the current stage's full or empty barrier, in shared memory that begins at `start`;
 * `of_consumer`: of the pipeline for this consumer's part. */
static LirOperand
barrier_of(Lowering *lo, LirReg start, const TirShared *pipeline, uint32_t part, bool empty,
           bool of_consumer)
{
    LirBuilder *b = &lo->b;
    const PipelineCursor *cursor = lower_cursor(lo, pipeline, part);
    LirReg stage = empty && cursor->oldest != NULL ? cursor->oldest->stage : cursor->stage;
    if (empty && pipeline->release == RELEASE_NEXT_TILE && !lo->role->producer)
        stage = stage_before(lo, pipeline, stage);
    uint32_t parts = tir_parts(lo->fn->plan, pipeline);
    int64_t offset = pipeline->barriers + (empty ? MBARRIER_BYTES * pipeline->stages * parts : 0);

    /* pipelines for parts of a tile lie one behind the other, and go around together */
    if (of_consumer)
        start = behind_consumers(lo, start, 2 * MBARRIER_BYTES * pipeline->stages);

    if (parts > 1 && lo->role->producer && lo->fn->plan->tiles.alternating) {
        start = before_consumer(lo, start, part, MBARRIER_BYTES);
    } else if (lo->role->producer || lower_serves_all(lo)) {
        offset += MBARRIER_BYTES * part;
    } else if (pipeline->filled == FILLED_PER_CONSUMER || parts > 1) {
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
    uint32_t part = lower_serves_all(lo) ? (uint32_t)op->integer : 0;
    PipelineCursor *cursor = lower_cursor(lo, pipeline, part);
    LirBuilder *b = &lo->b;

    if (pipeline->kind == SHARED_TMEM || tir_is_handed(pipeline)) {
        lower_tmem_wait(lo, op, false);
        return;
    }
    /* The start of the stage in the units of descriptors, 16 bytes, before the wait: it does not
     * depend on it.  Shared addresses have 18 bits.  Where the pipeline begins is left to descriptors,
     * which add a constant anyway: all pipelines then have one base. */
    LirReg base = lower_described(lo, lower_shared_start(lo));
    int64_t bytes = part_bytes(lo, pipeline);
    if (lo->role->issues) {
        base = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(base), lir_int(part * bytes >> 4));
    } else if (pipeline->filled == FILLED_PER_CONSUMER) {
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
    if (pipeline->release == RELEASE_REREAD) { /* the next iteration reads it */
        LirOperand kept[] = {lir_reg(cursor->base), lir_reg(base)};
        lir_emit(b, LIR_MOV_B32, 1, 2, kept);
    } else {
        cursor->base = base;
        lower_describe_pipeline(lo, op);
    }
    if (pipeline->shares_barrier == 0)
        lower_wait_barrier(lo, lower_stage_barrier(lo, pipeline, part, false), cursor->phase);
    if (lo->role->issues && pipeline->filled == FILLED_BY_CONSUMER) /* who has read results, too */
        lir_emit(b, LIR_TMEM_FENCE_AFTER, 0, 0, NULL);
    if (tir_is_one_place(pipeline))
        lower_advance(lo, cursor, 1);
    if (cursor->oldest != NULL) {
        cursor->waited = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_reg(cursor->stage));
        lower_advance(lo, cursor, pipeline->stages);
    }
}

/* A register that is 0, but not before the last element of `pin` is computed, as far as ptxas
 * knows. */
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

/* The stage of the tile before: the lane that asked for what leaves from there waits until it has been
 * read, and arrives for its warp. */
static void
release_before(Lowering *lo, const TirShared *pipeline)
{
    LirBuilder *b = &lo->b;
    LirOperand at = lower_stage_barrier(lo, pipeline, 0, true), none = lir_int(0);
    LirReg asks = lower_elect(lo);

    lir_emit(b, LIR_BULK_WAIT_READ, 0, 1, &none)->guard = asks;
    lir_emit(b, LIR_MBARRIER_ARRIVE, 0, 1, &at)->guard = asks;
}

void
lower_consumer_release(Lowering *lo, TirOp *op)
{
    const TirShared *pipeline = op->shared;
    LirBuilder *b = &lo->b;
    PipelineCursor *cursor = &lo->role->pipelines[pipeline->id];

    if (lo->role->issues || pipeline->kind == SHARED_TMEM || tir_is_handed(pipeline)) {
        lower_hand_on(lo, op, true);
        return;
    }
    if (pipeline->release == RELEASE_NEXT_TILE) {
        release_before(lo, pipeline);
        return;
    }
    /* else with the pipeline whose barriers it has, which is given back later */
    if (pipeline->shares_barrier == 0) {
        LirReg start = pipeline->filled == FILLED_BY_PAIR ? lo->role->pair_start
                                                          : lower_shared_start(lo);
        LirOperand at[] = {barrier_of(lo, start, pipeline, 0, true, false)};
        LirReg pin = op->n_args > 0 ? pinned_zero(lo, op->args[0]) : 0;
        if (pin != 0)
            at[0].reg = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(at[0].reg), lir_reg(pin));
        lir_emit(b,
                 pipeline->filled == FILLED_BY_PAIR ? LIR_MBARRIER_ARRIVE_CLUSTER
                                                    : LIR_MBARRIER_ARRIVE,
                 0, 1, at)
            ->guard = pipeline->filled == FILLED_BY_PAIR ? lo->role->pair_lane
                                                         : lo->role->first_lane;
    }
    if (!cursor->follows)
        lower_advance(lo, cursor->oldest != NULL ? cursor->oldest : cursor, pipeline->stages);
}

/* ptxas moves arithmetic below a wait for products, where it no longer overlaps them, and keeps its operands in
 * registers until then.  It does not move what an arrival at a barrier depends on.  Holding half of it is enough:
 * the rest may fill gaps after the wait. */
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

/* Elements of the last dimension that one copy brings: a swizzle atom column's, or all of a vector. */
static int32_t
atom_column_width(const TirShared *shared)
{
    return shared->kind == SHARED_VECTORS
               ? shared->cols
               : shared->layout->pitch * 8 / (int32_t)dtype_bits(shared->dtype);
}

/* The box of a copy: a swizzle atom column's width along the last dimension, the tile's rows along the other. */
static LirTensorMap
map_of(const Lowering *lo, const TirOp *copy, bool ends)
{
    const TirTensor *tensor = copy->tensor;
    uint32_t order[TENSOR_MAX_RANK];
    LirTensorMap map = {.tensor = tensor->name,
                        .rank = tensor->rank,
                        .swizzle_bytes = copy->shared->kind == SHARED_VECTORS
                                             ? 0
                                             : (uint32_t)copy->shared->layout->pitch,
                        .l2_promotion_bytes = 128};

    tir_box_order(copy, order);
    /* each warp asks for its rows */
    bool aliased = copy->op == TIR_TMA_STORE && copy->shared->aliases != 0;
    PairShare share = pair_share(copy, copy->shared);
    for (uint32_t d = 0; d < tensor->rank; d++) {
        TirDims touched = tir_dim(copy, order[d]);
        uint32_t dim = map.dim[d] = touched.dim;
        map.box[d] = (uint32_t)(d == 0 ? atom_column_width(copy->shared) : touched.length);
        if (aliased && d > 0 && touched.range)
            map.box[d] /= lo->fn->warps;
        bool halved = copy->shared->filled == FILLED_IN_HALVES
                          ? d > 0 && dim == pair_halved_dim(copy, copy->shared)
                          : copy->shared->filled == FILLED_BY_PAIR && !share.by_atom_columns &&
                                dim == share.dim;
        map.box[d] /= halved ? 2 : 1;
    }
    if (ends) { /* the dimension once more: lower_end_box */
        map.dim[map.rank] = box_ended_dimension(copy);
        map.box[map.rank++] = 1;
    }
    return map;
}

static bool
same_map(const LirTensorMap *a, const LirTensorMap *b)
{
    bool same = a->tensor == b->tensor && a->rank == b->rank &&
                a->swizzle_bytes == b->swizzle_bytes;

    for (uint32_t d = 0; d < a->rank && same; d++)
        same = a->box[d] == b->box[d] && a->dim[d] == b->dim[d];
    return same;
}

/* The name of a map, which becomes a parameter if none is like it. */
static const char *
name_of_map(Lowering *lo, const LirTensorMap *map)
{
    uint32_t k = 0;

    while (k < lo->out->maps.n && !same_map(&lo->out->maps.at[k], map))
        k++;
    const char *name = arena_printf(lo->arena, "%s_m_%s_%u", lo->fn->name, map->tensor, k);
    if (k == lo->out->maps.n)
        lir_add_map(lo->out, name, map);
    return name;
}

static void
add_maps_of(Lowering *lo, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            add_maps_of(lo, op->blocks[k]);
        bool uses_map = op->op == TIR_TMA_LOAD || op->op == TIR_TMA_REDUCE_ADD ||
                        op->op == TIR_TMA_STORE;
        if (!uses_map || lo->map_names[op->shared->id] != NULL)
            continue;
        LirTensorMap map = map_of(lo, op, op->n_limits > 0);
        lo->map_names[op->shared->id] = name_of_map(lo, &map);
        if (op->n_limits == 0 || op->op != TIR_TMA_LOAD)
            continue;
        map = map_of(lo, op, false);
        lo->whole_map_names[op->shared->id] = name_of_map(lo, &map);
    }
}

/* ---- boxes ---- */

/* A box may begin in front of a tensor where it is read, not where it is written: what a consumer without a
 * program writes, which is nothing, lies behind. */
static Elem
past_the_end(Lowering *lo, Elem place, Elem size)
{
    LirBuilder *b = &lo->b;
    LirReg own = lo->role->grid[lo->fn->plan->tiles.axis].reg;
    LirReg there = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(own), lir_int(0));

    return elem_reg(lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(lower_elem_reg(lo, place, LIR_B32)),
                            lower_operand(lo, size), lir_reg(there)));
}

void
lower_find_box(Lowering *lo, const TirOp *op, LowerBox *box)
{
    uint32_t order[TENSOR_MAX_RANK];
    Elem place[TENSOR_MAX_RANK];

    *box = (LowerBox){.rank = op->tensor->rank};
    tir_box_order(op, order);
    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        place[d.dim] = d.at == NULL ? elem_int(0) : lower_elem(lo, d.at, 0);
        if (op->op != TIR_TMA_LOAD && d.at != NULL && lower_may_lie_in_front(lo, d.at))
            place[d.dim] = past_the_end(lo, place[d.dim], lower_dim_size(lo, op->tensor, d.dim));
    }
    for (uint32_t d = 0; d < box->rank; d++)
        box->at[d] = place[order[d]];
    if (op->n_limits > 0) {
        LirTensorMap map = map_of(lo, op, true);
        while (order[box->ended] != map.dim[box->rank])
            box->ended++;
        box->rows = (int32_t)map.box[box->ended];
        box->end = lower_add(lo, box->at[box->ended], lower_elem(lo, tir_limit_count(op, 0), 0));
        box->size = lower_dim_size(lo, op->tensor, map.dim[box->rank]);
    }
}

/* Whether some of `length` indices from `start` on are those of a dimension. */
static LirReg
some_inside(Lowering *lo, Elem start, int32_t length, Elem size)
{
    Elem last = lower_add(lo, start, elem_int(length - 1));
    LirOperand end = lower_operand(lo, last);
    LirOperand most = lower_operand(lo, lower_add(lo, size, elem_int(length - 1)));

    return lir_op2(&lo->b, LIR_SETP_LT_U32, LIR_PRED, end, most);
}

static LirReg
and_pred(Lowering *lo, LirReg a, LirReg b)
{
    return lir_op2(&lo->b, LIR_AND_PRED, LIR_PRED, lir_reg(a), lir_reg(b));
}

/* A box ends where its tensor does, and where its program says.  The map has the latter's dimension twice: with no
 * more elements than the box, where c of them lie inside if it begins at box - c, and with those of the tensor, one box
 * further back in memory, where it begins at the end of the c elements: so element i is that of the tensor with
 * index end - c + i.  In front of the tensor nothing is read or written.
 *
 * The memory where such a map begins belongs to others, or is not there, and the GPU asks for it when no element of
 * a box lies inside of the map: CUDA_ERROR_ILLEGAL_ADDRESS, seen on an H200 (docs/lab/places.md).  So a load whose box is empty
 * goes by the tensor's own map, and one whose box is whole, too; and nothing is stored from an empty one. */
void
lower_end_box(Lowering *lo, const TirOp *op, LowerBox *box)
{
    LirBuilder *b = &lo->b;
    uint32_t order[TENSOR_MAX_RANK];

    if (box->rows == 0)
        return;
    LirReg start = lower_elem_reg(lo, box->at[box->ended], LIR_B32);
    LirReg end = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(lower_elem_reg(lo, box->end, LIR_B32)),
                         lower_operand(lo, box->size));
    LirReg count = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(end), lir_reg(start));
    LirReg in_front = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(start), lir_int(0));
    count = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(count), lir_int(box->rows));
    count = lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(count), lir_int(0));
    count = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(count), lir_int(0), lir_reg(in_front));
    LirReg less = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(count), lir_int(-1), lir_int(box->rows));
    LirReg last = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(start), lir_reg(count));
    bool load = op->op == TIR_TMA_LOAD;
    LirTensorMap map = map_of(lo, op, true);
    LirReg above = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(count), lir_int(-1));
    box->some = lir_op2(b, LIR_SETP_LT_U32, LIR_PRED, lir_reg(above),
                        lir_int(load ? box->rows - 1 : box->rows));
    tir_box_order(op, order);
    for (uint32_t d = 1; d < op->tensor->rank; d++) {
        if (d != box->ended && tir_dim(op, order[d]).at != NULL)
            box->some = and_pred(lo, box->some,
                                 some_inside(lo, box->at[d], (int32_t)map.box[d],
                                             lower_dim_size(lo, op->tensor, order[d])));
    }
    if (load) {
        LirReg any = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(count), lir_int(1));
        box->whole = elem_reg(lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(start),
                                      lower_operand(lo, box->size), lir_reg(any)));
    }
    box->at[box->ended] = elem_reg(less);
    box->at[box->rank++] = elem_reg(lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(last), lir_int(0)));
}

LirReg
lower_box_some(Lowering *lo, const TirOp *op, const LowerBox *box, int32_t column)
{
    TirDims last = tir_last_dim(op);

    if (box->some == 0 || last.at == NULL)
        return box->some;
    Elem at = lower_add(lo, box->at[0], elem_int(column));
    return and_pred(lo, box->some,
                    some_inside(lo, at, atom_column_width(op->shared),
                                lower_dim_size(lo, op->tensor, last.dim)));
}

uint32_t
lower_box_coordinates(Lowering *lo, const LowerBox *box, int32_t column, LirOperand *operands)
{
    for (uint32_t d = 0; d < box->rank; d++) {
        Elem coordinate = box->at[d];
        if (d == 0)
            coordinate = lower_add(lo, coordinate, elem_int(column));
        operands[d] = lir_reg(lower_elem_reg(lo, coordinate, LIR_B32));
    }
    return box->rank;
}

void
lower_add_maps(Lowering *lo)
{
    lo->map_names = arena_array(lo->arena, const char *, lo->fn->shared.n + 1);
    lo->whole_map_names = arena_array(lo->arena, const char *, lo->fn->shared.n + 1);
    add_maps_of(lo, tir_program(lo->fn->plan, ROLE_PRODUCER));
    add_maps_of(lo, lo->fn->body);
    if (tir_program(lo->fn->plan, ROLE_REDUCE) != NULL)
        add_maps_of(lo, tir_program(lo->fn->plan, ROLE_REDUCE));
}

LirReg
lower_map_address(Lowering *lo, const char *name)
{
    LirReg at = lir_op1(&lo->b, LIR_MAP_ADDRESS, LIR_B64, lir_symbol(name));
    return lir_op1(&lo->b, LIR_CVTA_PARAM, LIR_B64, lir_reg(at));
}

/* Whether the mma role of a pair's first block waits for the copy. */
static bool
fills_for_pair(const Lowering *lo, const TirShared *pipeline)
{
    return lower_multiplies_in_pairs(lo) && pipeline->kind == SHARED_PIPELINE;
}

/* Asks for one swizzle atom column of a tile, by a map; under `guard` or, `unless`, where it does not hold. */
static void
ask_for_load(Lowering *lo, const TirOp *op, const LowerBox *box, LirReg map, int32_t column,
             const LirOperand ends[2], LirReg guard, bool unless)
{
    static const LirOpcode loads[] = {0,
                                      LIR_TENSOR_LOAD_1,
                                      LIR_TENSOR_LOAD_2,
                                      LIR_TENSOR_LOAD_3,
                                      LIR_TENSOR_LOAD_4,
                                      LIR_TENSOR_LOAD_5};
    static const LirOpcode own_loads[] = {0,
                                          LIR_TENSOR_LOAD_OWN_1,
                                          LIR_TENSOR_LOAD_OWN_2,
                                          LIR_TENSOR_LOAD_OWN_3,
                                          LIR_TENSOR_LOAD_OWN_4,
                                          LIR_TENSOR_LOAD_OWN_5};
    static const LirOpcode shared_loads[] = {0,
                                             LIR_TENSOR_LOAD_BOTH_1,
                                             LIR_TENSOR_LOAD_BOTH_2,
                                             LIR_TENSOR_LOAD_BOTH_3,
                                             LIR_TENSOR_LOAD_BOTH_4,
                                             LIR_TENSOR_LOAD_BOTH_5};
    static const LirOpcode pair_loads[] = {0,
                                           LIR_TENSOR_LOAD_PAIR_1,
                                           LIR_TENSOR_LOAD_PAIR_2,
                                           LIR_TENSOR_LOAD_PAIR_3,
                                           LIR_TENSOR_LOAD_PAIR_4,
                                           LIR_TENSOR_LOAD_PAIR_5};
    bool clusters = target_can(lo->px->target, CAN_CLUSTER),
         paired = op->shared->filled == FILLED_BY_PAIR;
    LirOperand operands[BOX_RANK + 4] = {ends[0], lir_reg(map)};
    uint32_t at = 2;

    at += lower_box_coordinates(lo, box, column, operands + at);
    operands[at++] = ends[1];
    if (paired)
        operands[at++] = lir_int(BOTH_BLOCKS);
    const LirOpcode *row = paired                           ? shared_loads
                           : fills_for_pair(lo, op->shared) ? pair_loads
                           : clusters                       ? loads
                                                            : own_loads;
    LirInsn *load = lir_emit(&lo->b, row[box->rank], 0, at, operands);
    load->guard = guard;
    load->guard_not = unless;
}

/* The producer arrives at a full barrier, which expects the bytes of a stage; that of a pair's first block those of both.
 * Where `copies` does not hold, there are none. */
static void
expect_copies(Lowering *lo, const TirOp *op, LirOperand full, LirReg copies)
{
    LirBuilder *b = &lo->b;
    const TirShared *pipeline = op->shared;
    bool pair = fills_for_pair(lo, pipeline);
    int32_t element = (int32_t)dtype_bits(pipeline->dtype) / 8, width = atom_column_width(pipeline);
    int32_t rows = 1; /* what a box brings: rows that the layout adds are never read */
    for (TirDims d = tir_dims(op); tir_dims_next(&d);)
        rows *= d.dim + 1 < op->tensor->rank ? d.length : 1;
    if (pipeline->filled == FILLED_IN_HALVES && pair_halved_dim(op, pipeline) + 1 < op->tensor->rank)
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

void
lower_tma_load(Lowering *lo, TirOp *op)
{
    const TirShared *pipeline = op->shared;
    PipelineCursor *cursor = &lo->role->pipelines[pipeline->id];
    LirBuilder *b = &lo->b;
    uint32_t part = (uint32_t)op->integer, parts = tir_parts(lo->fn->plan, pipeline);
    int32_t element = (int32_t)dtype_bits(pipeline->dtype) / 8, width = atom_column_width(pipeline);
    LowerBox box;
    LirReg copies = copy_condition(lo, op);

    lower_find_box(lo, op, &box);
    if (pipeline->shares_barrier == 0)
        lower_wait_barrier(lo, lower_stage_barrier(lo, pipeline, part, true), cursor->phase);
    LirOperand full = lower_stage_barrier(lo, pipeline, part, false);
    int32_t atom_columns = pipeline->layout->cols / width,
            atom_column = pipeline->layout->rows * width * element;
    if (pipeline->shares_barrier == 0) /* else the pipeline whose barriers it has has said so */
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
    int32_t step = 1;
    if (tir_is_shared_by_pair(pipeline))
        step = lower_own_share(lo, op, &box, atom_column, &start);
    lower_end_box(lo, op, &box);
    LirReg map = lower_map_address(lo, lo->map_names[pipeline->id]), whole_map = 0;
    LowerBox whole = box;
    if (box.some != 0) {
        whole_map = lower_map_address(lo, lo->whole_map_names[pipeline->id]);
        whole.at[box.ended] = box.whole;
        whole.rank--;
    }
    for (int32_t p = 0; p < atom_columns; p += step) {
        LirOperand ends[] = {lir_address(start, offset + (int64_t)p * atom_column), full};
        LirReg some = copies != 0 ? copies : lower_box_some(lo, op, &box, p * width);
        ask_for_load(lo, op, &box, map, p * width, ends, some, false);
        if (some != 0 && some != copies)
            ask_for_load(lo, op, &whole, whole_map, p * width, ends, some, true);
    }
    /* The last stage of a pipeline with deferred release is given back before it is filled for the first time. */
    if (part + 1 == parts && !cursor->follows)
        advance(lo, cursor, pipeline->stages,
                pipeline->release == RELEASE_NEXT_TILE ? pipeline->stages - 1 : 0);
}
