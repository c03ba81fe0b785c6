/* plan_grid.c - which programs of the grid a block goes through, and in which order.
 *
 * Needs a plan with its consumers, its axis and its pipelines.  Leaves the number of blocks, the
 * counter that blocks draw their programs from if these differ in length, and the index of a
 * block's first program.  Also says what copies cost the producer.
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/tir_util.h"

/* What is launched: a block for the consumers of each point of the grid, or, going through them, no
 * more blocks than run at once; with cluster launch control those that begin go through those that
 * do not. */
void
plan_count_blocks(const Target *target, TirFn *fn)
{
    uint32_t of_sm = target_blocks(target, tir_role_registers(fn->plan));
    const HostExpr *all = NULL;

    for (uint32_t k = 0; k < fn->grid.n; k++) {
        const HostExpr *n = fn->grid.at[k].extent;
        /* none, where consumers divide a program */
        if (k == fn->plan->tiles.axis && tir_consumers(fn->plan) > 1)
            n = host_binary(fn->arena, HOST_CDIV, n, host_int(fn->arena, tir_consumers(fn->plan)));
        if (k == fn->plan->tiles.axis && tir_is_clustered(fn->plan))
            n = host_binary(fn->arena, HOST_CDIV, n, host_int(fn->arena, 2));
        all = all == NULL ? n : host_binary(fn->arena, HOST_MUL, all, n);
    }
    if (tir_is_persistent(fn->plan) && !tir_has_clc(fn->plan)) {
        HostExpr *sms = host_device(fn->arena, DEVICE_SM_COUNT);
        if (of_sm > 1)
            sms = host_binary(fn->arena, HOST_MUL, sms, host_int(fn->arena, of_sm));
        if (tir_is_clustered(fn->plan))
            sms = host_binary(fn->arena, HOST_CDIV, sms, host_int(fn->arena, 2));
        all = host_binary(fn->arena, HOST_MIN, sms, all);
    }
    if (tir_is_clustered(fn->plan))
        all = host_binary(fn->arena, HOST_MUL, all, host_int(fn->arena, 2));
    fn->blocks[0] = all;
    fn->blocks[1] = fn->blocks[2] = host_int(fn->arena, 1);
}

/* Whether its programs differ in length, and go in an order that minds it. */
static bool
draws(const PassContext *px, const TirFn *fn)
{
    return (tir_length_axis(fn) < fn->grid.n || tir_has_ended_axis(fn)) && px->plan.dynamic &&
           (fn->plan == NULL || !tir_is_clustered(fn->plan) || tir_has_clc(fn->plan));
}

/* How many indices of dimension `d` programs share that run at the same time and go through `trips`
 * iterations at most: what these go through; else, where no number bounds them, all, or what a
 * sequence has on average where those of several lie one behind the other. */
static const HostExpr *
shared_indices(const TirFn *fn, const TirOp *op, const TirDims *d, uint32_t trips)
{
    Arena *arena = fn->arena;
    const TensorDim *dim = &op->tensor->dim[d->dim];
    HostExpr *size = host_int(arena, dim->constant);

    if (dim->constant == 0) {
        size->kind = HOST_SIZE;
        size->index = dim->size;
    }
    uint32_t axes = op->n_limits > 0 && d->at != NULL ? tir_axes_of_loads(arena, d->at) : 0;
    for (uint32_t k = 0; k < fn->grid.n; k++) {
        const HostExpr *n = host_binary(arena, HOST_MAX, fn->grid.at[k].extent, host_int(arena, 1));
        if ((axes >> k & 1) != 0)
            size = host_binary(arena, HOST_CDIV, size, n);
    }
    int64_t most = (int64_t)trips * d->length;
    if (most == 0 || most > INT32_MAX || !d->range || d->index->rows > 0)
        return size;
    return host_binary(arena, HOST_MIN, size, host_int(arena, most));
}

/* Programs of different lengths go in the order that ends most evenly: the longest first, a few at
 * a time of those that share what they load. */
static void
order_by_length(TirFn *fn, const TirOp *loop)
{
    enum { ADDED = 2 }; /* what is added to is read and written */
    const TirBlock *body = loop->blocks[0];
    const HostExpr *bytes = host_int(fn->arena, 0);

    TirGridAxis *axis = &fn->grid.at[tir_length_axis(fn)];
    uint32_t trips = loop->n_segments > 1 ? axis->sliding_trips : 0;
    axis->reversed = axis->sliding ? axis->short_first : axis->reversed;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        const TirVal *added = op->op == TIR_ATOMIC_ADD ? op->args[op->n_args - 1] : NULL;
        int64_t row = 0; /* bytes that all programs share of each row */
        if (op->op == TIR_LOAD && op->shared != NULL && !op->shared->each &&
            op->shared->of_consumer < 2)
            row = (int64_t)op->shared->cols * dtype_bits(op->shared->dtype) / 8;
        else if (added != NULL && added->def != NULL && added->def->op == TIR_MMA &&
                 (added->def->coop_k || tir_is_cooperative(fn->plan)))
            row = (int64_t)added->type.dim[1] * dtype_bits(added->type.dtype) / 8 * ADDED;
        const HostExpr *rows = NULL;
        for (TirDims d = tir_dims(op); row > 0 && tir_dims_next(&d);) {
            if (!d.single && d.dim + 1 < op->tensor->rank)
                rows = shared_indices(fn, op, &d, trips);
        }
        if (rows != NULL)
            bytes = host_binary(fn->arena, HOST_ADD, bytes,
                                host_binary(fn->arena, HOST_MUL, rows, host_int(fn->arena, row)));
    }
    fn->plan->tiles.shared_bytes_each = bytes;
}

/* What hands out the tiles of blocks that go through several; that they are drawn from a counter
 * follows later. */
TileScheduler
plan_scheduler(const PassContext *px)
{
    bool can = target_can(px->target, CAN_TAKE_LAUNCHES);

    return !px->plan.persistent ? TILES_ONE : px->plan.clc && can ? TILES_CLC : TILES_STATIC;
}

/* Blocks that stay draw programs of different lengths from a counter, or take over others'
 * programs.  Where these only end, in the plain order: H200, 16 packed sequences of 1024, 4 % more
 * than by length, in which 64 heads are under way at a time. */
void
plan_drawing(const PassContext *px, TirFn *fn, const TirOp *loop)
{
    enum { COUNTER_BYTES = 8 };
    bool drawn = draws(px, fn);

    if (drawn && tir_length_axis(fn) < fn->grid.n)
        order_by_length(fn, loop);
    if (!tir_is_persistent(fn->plan) || (!drawn && !tir_has_clc(fn->plan)))
        return;
    /* there consumers can spare none; pipelines that are filled together take few */
    if (!tir_has_lookahead(fn) && !px->plan.two_blocks && tir_adding_warps(fn->plan) == 0 &&
        tir_role(fn->plan, ROLE_CORRECTION) == NULL) {
        const Target *target = px->target;
        uint32_t n = tir_consumers(fn->plan) * tir_role(fn->plan, ROLE_CONSUMER)->warps /
                     GROUP_WARPS;
        bool reads = n == 2 && target->reading_registers.producer > 0 &&
                     (tir_is_loaded(px->arena, loop->args[0]) ||
                      tir_is_loaded(px->arena, loop->args[1]));
        RoleRegisters of = reads ? target->reading_registers : target->dynamic_registers[n];
        tir_role(fn->plan, ROLE_PRODUCER)->registers = of.producer;
        tir_role(fn->plan, ROLE_CONSUMER)->registers = of.consumer;
    }
    if (tir_has_clc(fn->plan))
        return;
    fn->plan->tiles.scheduler = TILES_DYNAMIC;
    TirMemory counter = {"tile_counter", MEMORY_SCRATCH, host_int(fn->arena, COUNTER_BYTES)};
    vec_push(fn->arena, &fn->memories, counter);
}

void
plan_report_tiles(const PassContext *px, const TirFn *fn)
{
    if (px->report != NULL && tir_is_dynamic(fn->plan))
        buf_printf(px->report, "tiles: %s%s\n",
                   tir_has_clc(fn->plan)
                       ? "of blocks that have not begun, by cluster launch control"
                       : "from a counter",
                   fn->plan->tiles.shared_bytes_each != NULL ? ", the longest first" : "");
}

/* Whether something is the same for the programs of a block because they begin at a multiple of
 * their number. */
static bool
has_block_index(const TirPlan *plan, const TirBlock *block)
{
    bool has = false;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);)
        has = has || plan_is_block_index(walk.op, plan->tiles.axis, tir_consumers(plan));
    return has;
}

/* A tile with fewer programs than consumers takes most of the time of a whole one, so it should
 * have short programs.  Those of the consumer axis are counted from its end if its first programs
 * are the short ones; where all are alike, or nobody knows, from its beginning.  Consumers that
 * work on a product together need what comes behind the axis, which is zeros that masks keep out;
 * in front of it there are no masks. */
bool
plan_has_reversed_raster(const TirFn *fn)
{
    const TirPlan *plan = fn->plan;

    if (tir_own_programs(plan) == 1 || tir_is_clustered(plan) || tir_has_coop_k(fn) ||
        has_block_index(plan, fn->body))
        return false;
    const TirGridAxis *axis = &fn->grid.at[plan->tiles.axis];
    return axis->sliding ? axis->short_first : axis->variable_trips && axis->reversed;
}

/* The index of a block's first program: of its consumers' axis by their number, else that of
 * all. */
void
plan_settle_first_programs(TirFn *fn, TirBlock *block)
{
    const TirPlan *plan = fn->plan;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            plan_settle_first_programs(fn, op->blocks[k]);
        if (op->op != TIR_GRID_FIRST)
            continue;
        /* the first that is there */
        if (plan->tiles.reversed && op->integer == (int64_t)plan->tiles.axis) {
            TirBuilder after = {.fn = fn, .block = block, .at = (int32_t)i + 1, .span = op->span};
            TirVal *none = tir_const_int(&after, 0),
                   *index = tir_binary(&after, TIR_MAX, none, none);
            tir_replace_uses(fn, op->results[0], index);
            index->def->args[0] = op->results[0];
            continue;
        }
        op->op = TIR_GRID;
        if (tir_programs(plan) == 1 || op->integer != (int64_t)plan->tiles.axis)
            continue;
        TirBuilder b = {.fn = fn, .block = block, .at = (int32_t)i + 1, .span = op->span};
        TirVal *programs = tir_const_int(&b, tir_programs(plan));
        TirVal *first = tir_binary(&b, TIR_DIV, programs, programs);
        TirVal *index = tir_binary(&b, TIR_MUL, first, programs);
        tir_replace_uses(fn, op->results[0], index);
        first->def->args[0] = op->results[0];
    }
}

double
plan_asking_clocks(const Target *target, const TirOp *load, uint32_t consumers)
{
    const TirShared *shared = load->shared;
    double width = shared->cols * (double)dtype_bits(shared->dtype) / 8;
    double boxes = width > SWIZZLE_BYTES ? width / SWIZZLE_BYTES : 1;

    if (shared->each)
        boxes *= consumers;
    return boxes * (load->n_limits > 0 ? target->chip.ended_box_clocks : target->chip.box_clocks);
}
