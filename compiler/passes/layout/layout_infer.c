/* layout_infer.c - propagates layouts forwards from products and reductions, and backwards to
 * operands of values that have one; all other values get a blocked layout. */
#include "compiler/passes/layout/layout_infer.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"

enum {
    LOOP_ROUNDS = 16,  /* iterations that a loop counts as; a round figure */
    SYNC_COST = 4096,  /* a barrier, in bytes through shared memory: 32 clocks; a round figure */
    VECTOR_BYTES = 16, /* the widest load of a lane */
    SECTOR_BYTES = 32  /* of the L2 cache: what one access costs at least */
};

/* Elements of a row that a warp should add to memory together: a whole piece.  If there is room for
 * another block on the SM, additions overlap its products, and short pieces suffice. */
static int32_t
addition_run(const Target *target, const TirFn *fn)
{
    int32_t registers = (int32_t)fn->warps * WARP_LANES * target->registers_per_thread;

    return (2 * registers > target->chip.registers_per_sm ? target->addition_piece : SECTOR_BYTES) /
           4;
}

LayoutPass
layout_pass(PassContext *px, TirFn *fn)
{
    return (LayoutPass){
        .px = px,
        .fn = fn,
        .store = {.arena = px->arena, .warps = fn->warps},
        .stage_output = switch_is_on(px, "stage-output"),
        .wide_atomics = switch_is_on(px, "wide-atomics"),
        .addition_run = addition_run(px->target, fn),
        .cheap = arena_array(px->arena, uint8_t, fn->next_id),
        .n_cheap = fn->next_id,
    };
}

bool
layout_is_view(const TirVal *value)
{
    const TirOp *def = value->def;
    bool transposed, may = def != NULL && (def->op == TIR_SHARED_READ) |
                                              (def->op == TIR_TRANSPOSE) | (def->op == TIR_PART);

    return may && view_source(value, &transposed) != NULL;
}

enum { MOST_CHEAP = 256 }; /* operations that are made again, each as often as it is read */

static bool
is_cheap_at(const TirVal *value, uint32_t *steps)
{
    const TirOp *def = value->def;

    if (value->type.rank == 0)
        return true;
    if (def == NULL || ++*steps > MOST_CHEAP)
        return false;
    switch (def->op) {
    case TIR_CONST:
    case TIR_IOTA: return true;
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_BROADCAST:
    case TIR_TRANSPOSE: return is_cheap_at(def->args[0], steps);
    default:
        if ((tir_op_info(def->op)->flags & TF_ELEMENTWISE) == 0)
            return false;
        for (uint32_t k = 0; k < def->n_args; k++) {
            if (!is_cheap_at(def->args[k], steps))
                return false;
        }
        return true;
    }
}

bool
layout_is_cheap(LayoutPass *lp, const TirVal *value)
{
    enum { UNKNOWN, NO, YES };
    uint32_t steps = 0;

    if (value->id >= lp->n_cheap)
        return is_cheap_at(value, &steps);
    uint8_t *known = &lp->cheap[value->id];
    if (*known == UNKNOWN)
        *known = is_cheap_at(value, &steps) ? YES : NO;
    return *known == YES;
}

const Layout *
layout_default(LayoutPass *lp, TirType type)
{
    int32_t bytes = (int32_t)dtype_bits(type.dtype) / 8;
    return stored_blocked(&lp->store, type, VECTOR_BYTES / bytes);
}

/* What keeps the parts of a pack apart: the layout of an operand of a reduction along one of them,
 * or of a result that is spread along one.  `layout`, which may be NULL, if it does so. */
static const Layout *
layout_with_parts(LayoutPass *lp, const TirOp *op, const Layout *layout)
{
    const TirVal *value = tir_axis_use(op) == AXIS_SPREADS ? op->results[0] : op->args[0];
    int32_t bytes = (int32_t)dtype_bits(value->type.dtype) / 8;
    LayoutPart part = op_part(op);
    int32_t extent = value->type.dim[op->axis];

    if (layout == NULL)
        layout = layout_default(lp, value->type);
    if (stored_drop_part(&lp->store, layout, part, extent) != NULL)
        return layout;
    return stored_by_parts(&lp->store, value->type, part, bytes > 0 ? VECTOR_BYTES / bytes : 1);
}

/* .. of the tile that has not got the part. */
static const Layout *
layout_without_part(LayoutPass *lp, const TirOp *op, const Layout *layout)
{
    const TirVal *value = tir_axis_use(op) == AXIS_SPREADS ? op->results[0] : op->args[0];

    return stored_drop_part(&lp->store, layout_with_parts(lp, op, layout), op_part(op),
                            value->type.dim[op->axis]);
}

/* ---- products ---- */

static const Layout *
mma_result_layout(LayoutPass *lp, const TirOp *op)
{
    TirType type = op->results[0]->type;
    LayoutStore *store = &lp->store;
    int32_t rows = type.dim[op->swap_ab], cols = type.dim[!op->swap_ab];
    const Layout *layout = op->async ? stored_group_c(store, rows, cols)
                                     : stored_mma_c(store, rows, cols, op->warps_m, op->warps_n);

    return op->swap_ab ? stored_transpose(store, layout) : layout;
}

/* A tile in tensor memory, of a row for each thread, is read and written by rows, or as warps'
 * products lie: elements of the same row in neighbouring lanes; each warp group of a consumer has
 * as many columns. */
static const Layout *
tmem_layout(LayoutPass *lp, const TirOp *op)
{
    TirType type = op->op == TIR_TMEM_READ ? op->results[0]->type : op->args[0]->type;
    int32_t cols = type.dim[1];

    if (lp->tmem_rows && op->shared->rows == (int32_t)lp->fn->warps * WARP_LANES)
        return stored_rows(&lp->store, cols);
    return stored_mma_c(&lp->store, op->shared->rows, cols, GROUP_WARPS,
                        lp->fn->warps / GROUP_WARPS);
}

const Layout *
layout_of_mma_operand(LayoutPass *lp, const TirOp *mma, uint32_t k)
{
    TirType type = mma->args[k]->type;
    LayoutStore *store = &lp->store;
    bool left = (k % TIR_MMA_PLAIN == 0) !=
                mma->swap_ab; /* plays the part of A in the instruction */
    if (k >= TIR_MMA_PLAIN) { /* scales, along the same rows or columns */
        const Layout *scales = stored_mma_scales(store, type.dim[k % TIR_MMA_PLAIN],
                                                 type.dim[1 - k % TIR_MMA_PLAIN], left,
                                                 mma->warps_m, mma->warps_n);
        return k % TIR_MMA_PLAIN == 0 ? scales : stored_transpose(store, scales);
    }
    int32_t rows = mma->swap_ab ? type.dim[1] : type.dim[0];
    int32_t cols = mma->swap_ab ? type.dim[0] : type.dim[1];
    int32_t word = 32 / (int32_t)dtype_bits(type.dtype);
    const Layout *layout = left && mma->async ? stored_group_a(store, rows, cols, word)
                           : left
                               ? stored_mma_a(store, rows, cols, word, mma->warps_m)
                               : stored_mma_b(store, rows, cols, word, mma->warps_m, mma->warps_n);
    return mma->swap_ab ? stored_transpose(store, layout) : layout;
}

bool
layout_may_be_read(const LayoutPass *lp, const TirOp *mma, uint32_t k)
{
    const Target *target = lp->px->target;
    const MmaForm *form = mma->async ? product_form(target, mma)
                                     : product_form_by_warp(target, mma);
    bool along = k == 0;

    for (const TirOp *def = mma->args[k]->def;
         def != NULL && (def->op == TIR_TRANSPOSE || def->op == TIR_PART); def = def->args[0]->def)
        along = along != (def->op == TIR_TRANSPOSE);
    if (form == NULL) /* an error, of the lowering */
        return true;
    uint8_t majors = (k == 0) != mma->swap_ab ? form->a_major : form->b_major;
    return (majors & (along ? MAJOR_K : MAJOR_MN)) != 0;
}

bool
layout_operand_fits(LayoutPass *lp, const TirOp *mma, uint32_t k)
{
    const TirVal *value = mma->args[k];

    if (layout_is_view(value))
        return layout_may_be_read(lp, mma, k);
    if (value->layout == NULL)
        return false;
    return stored_in_place(&lp->store, value->layout, layout_of_mma_operand(lp, mma, k));
}

/* ---- what operands need ---- */

const Layout *
layout_of_operand(LayoutPass *lp, const TirOp *op, uint32_t k, const Layout *want)
{
    TirType type = op->args[k]->type;

    if (type.rank == 0 || want == NULL)
        return NULL;
    switch (op->op) {
    case TIR_EXPAND: return stored_slice(&lp->store, want, op->axis);
    case TIR_SQUEEZE: return stored_expand(&lp->store, want, op->axis);
    case TIR_BROADCAST: return stored_collapse(&lp->store, want, type);
    case TIR_TRANSPOSE: return stored_transpose(&lp->store, want);
    case TIR_SPREAD: return layout_without_part(lp, op, want);
    case TIR_LOAD: /* a list of places lies as the elements that it is of */
    case TIR_STORE:
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD:
        return type.rank == want->rank
                   ? want
                   : stored_slice(&lp->store, want, 1 - tir_operand_dim(op, k).axis);
    default: return want;
    }
}

/* Whether a thread's elements already come in runs of 16 bytes along the last axis. */
static bool
stores_well(const Layout *layout, TirType type)
{
    uint32_t last = type.rank - 1;
    int32_t bytes = (int32_t)dtype_bits(type.dtype) / 8;
    return layout->reg.n > 0 && layout->reg.at[0].step[last] == 1 &&
           layout->reg.at[0].extent * bytes >= VECTOR_BYTES;
}

static int64_t
tile_bytes(const TirVal *value)
{
    return tir_type_elements(value->type) * dtype_bits(value->type.dtype) / 8;
}

/* First each lane gets as many neighbours of a row as one instruction adds, then lanes get
 * neighbours of each other's: memory takes additions by pieces of rows, the longer a piece the more
 * at once. */
const Layout *
layout_next_for_additions(LayoutPass *lp, const TirVal *value, const Layout *layout)
{
    const Target *target = lp->px->target;
    int32_t most = target->addition_bytes / 4;
    const Layout *next = NULL;

    if (layout == NULL || layout->rank != 2 || value->type.dtype != DT_F32 || !lp->wide_atomics)
        return NULL;
    if (layout_own_run(layout, 1, most) < most)
        next = stored_widen(&lp->store, layout, 1);
    if (next == NULL && layout_run(layout, 1, most) < lp->addition_run)
        next = stored_lengthen(&lp->store, layout, 1, most);
    return next;
}

/* The cost in bytes through shared memory: an exchange counts as the tile's bytes; the addition
 * counts more the shorter its pieces are. */
static int64_t
additions_cost(LayoutPass *lp, const TirVal *value)
{
    const Target *target = lp->px->target;
    const Layout *layout = value->layout;
    int32_t most = target->addition_bytes / 4;
    int64_t stages = 0;

    if (layout == NULL || layout->rank != 2 || layout_is_view(value))
        return 0;
    for (const Layout *next = layout; next != NULL; stages++) {
        layout = next;
        next = layout_next_for_additions(lp, value, layout);
    }
    int64_t pieces = lp->addition_run / layout_run(layout, 1, most);
    int64_t singles = most / layout_own_run(layout, 1, most);
    return tile_bytes(value) * (stages - 1 + 2 * (pieces > 0 ? pieces - 1 : 0) + singles - 1);
}

/* Of what is used as it lies, in registers. */
static const Layout *
own_layout(LayoutPass *lp, const TirVal *value)
{
    return layout_is_view(value) ? layout_default(lp, value->type) : value->layout;
}

const Layout *
layout_required(LayoutPass *lp, const TirOp *op, uint32_t k)
{
    const TirVal *value = op->args[k];

    if (value->type.rank == 0)
        return NULL;
    const AxisUse use = tir_axis_use(op);
    if (use == AXIS_ELEMENTWISE)
        return op->results[0]->layout;
    if (tir_writes(op) && k + 1 < op->n_args)
        return layout_of_operand(lp, op, k, op->args[op->n_args - 1]->layout);
    switch (op->op) {
    case TIR_TMEM_WRITE: return tmem_layout(lp, op);
    case TIR_MMA: return k == 2 ? op->results[0]->layout : layout_of_mma_operand(lp, op, k);
    case TIR_YIELD: {
        const TirOp *owner = op->parent->owner;
        if (owner == NULL)
            return NULL;
        return owner->op == TIR_FOR ? owner->blocks[0]->params.at[k + 1]->layout
                                    : owner->results[k]->layout;
    }
    case TIR_FOR: {
        uint32_t first = loop_first_initial(op);
        return k < first ? NULL : op->blocks[0]->params.at[k - first + 1]->layout;
    }
    case TIR_STORE:
        if (layout_is_view(value))
            return layout_default(lp, value->type);
        if (value->type.rank == 2 && value->layout != NULL &&
            !stores_well(value->layout, value->type) && lp->stage_output && lp->fn->plan == NULL &&
            tir_is_contiguous(op))
            return layout_default(lp, value->type);
        return value->layout;
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD:
    case TIR_SHARED_WRITE:
    case TIR_CONVERT: return own_layout(lp, value);
    default:
        if (use == AXIS_REDUCES)
            return own_layout(lp, value);
        if (use == AXIS_REDUCES_PART)
            return layout_with_parts(lp, op, own_layout(lp, value));
        return op->n_results == 1 ? layout_of_operand(lp, op, k, op->results[0]->layout) : NULL;
    }
}

/* ---- inference ---- */

static bool
is_in_registers(const TirVal *value)
{
    return value->type.rank > 0 && !layout_is_view(value);
}

/* What a loop carries is one thing inside of the loop and behind it: the other of the two; NULL: it
 * is neither. */
static TirVal *
carried_twin(const TirVal *value)
{
    const TirOp *loop = value->def != NULL ? value->def : value->block->owner;

    if (loop == NULL || loop->op != TIR_FOR || (value->def == NULL && value->index == 0))
        return NULL;
    return value->def != NULL ? loop->blocks[0]->params.at[value->index + 1]
                              : loop->results[value->index - 1];
}

/* Of a value in registers that has none yet. */
static void
give_layout(LayoutPass *lp, TirVal *value, const Layout *layout)
{
    const TirOp *def = value->def;

    if (def != NULL && def->op != TIR_FOR) { /* no loop carries it */
        value->layout = def->op == TIR_SPREAD ? layout_with_parts(lp, def, layout) : layout;
        return;
    }
    TirVal *twin = carried_twin(value);
    value->layout = layout;
    if (twin != NULL)
        twin->layout = layout; /* at once: a user behind the loop may want another, and ask first */
}

/* The layout an elementwise operation takes over from its operands: that of the first which is
 * not cheap to compute elsewhere. */
static const Layout *
from_operands(LayoutPass *lp, const TirOp *op)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirVal *arg = op->args[k];
        if (arg->layout != NULL && !layout_is_cheap(lp, arg))
            return arg->layout;
    }
    return NULL;
}

static const Layout *
forward(LayoutPass *lp, const TirOp *op)
{
    const TirVal *arg = op->n_args > 0 ? op->args[0] : NULL;
    LayoutStore *store = &lp->store;

    switch (op->op) {
    case TIR_MMA: return mma_result_layout(lp, op);
    case TIR_TMEM_READ: return tmem_layout(lp, op);
    case TIR_EXPAND:
        return arg->layout == NULL || layout_is_cheap(lp, arg)
                   ? NULL
                   : stored_expand(store, arg->layout, op->axis);
    case TIR_SQUEEZE:
        return arg->layout == NULL ? NULL : stored_slice(store, arg->layout, op->axis);
    case TIR_TRANSPOSE: return arg->layout == NULL ? NULL : stored_transpose(store, arg->layout);
    default: break;
    }
    const Layout *own = arg == NULL ? NULL : own_layout(lp, arg);
    switch (tir_axis_use(op)) {
    case AXIS_ELEMENTWISE: return from_operands(lp, op);
    case AXIS_REDUCES: return own == NULL ? NULL : stored_slice(store, own, op->axis);
    case AXIS_REDUCES_PART: return own == NULL ? NULL : layout_without_part(lp, op, own);
    case AXIS_SCANS: return op->n_args == 1 ? own : from_operands(lp, op);
    case AXIS_SORTS: return stored_sorted(store, arg->type, op->axis);
    default: return NULL;
    }
}

/* The layout that a step gives; NULL: none yet. */
static const Layout *
step_layout(LayoutPass *lp, const LayoutStep *step)
{
    const TirVal *yielded;

    switch (step->way) {
    case AS_RESULT: return forward(lp, step->op);
    case AS_OPERAND: return layout_required(lp, step->op, step->k);
    case AS_YIELDED:
        yielded = block_yield(step->op->blocks[step->b])->args[step->k];
        return layout_is_cheap(lp, yielded) ? NULL : yielded->layout;
    case AS_SOURCE: return step->source->layout;
    case BY_ITSELF: break;
    }
    return layout_default(lp, step->value->type);
}

/* Takes a step, if it gives a layout. */
static bool
take_step(LayoutPass *lp, LayoutStep step)
{
    const Layout *layout = step_layout(lp, &step);

    if (layout == NULL)
        return false;
    give_layout(lp, step.value, layout);
    vec_push(lp->px->arena, &lp->steps, step);
    return true;
}

/* What a loop carries, and what a branch gives, has the layout that its blocks yield; `*done` if
 * all of it has one. */
static bool
infer_region(LayoutPass *lp, const TirOp *op, bool *done)
{
    bool changed = false;

    *done = true;
    for (uint32_t k = 0; k < op->n_results; k++) {
        TirVal *given = op->op == TIR_FOR ? op->blocks[0]->params.at[k + 1] : op->results[k];
        if (given->layout != NULL || !is_in_registers(given))
            continue;
        bool found = false;
        for (uint32_t b = 0; b < op->n_blocks && !found; b++)
            found = take_step(lp, (LayoutStep){AS_YIELDED, given, op, k, b, NULL});
        changed |= found;
        *done &= found;
    }
    return changed;
}

/* Propagates layouts around one operation; `*done` if nothing more can follow from it. */
static bool
infer_op(LayoutPass *lp, const TileOp *of, bool *done)
{
    const TirOp *op = of->op;
    bool changed = false;

    *done = true;
    if (!of->makes) {
        changed = op->n_blocks > 0 && infer_region(lp, op, done);
    } else if (op->results[0]->layout == NULL) {
        changed = take_step(lp, (LayoutStep){AS_RESULT, op->results[0], op, 0, 0, NULL});
        *done = changed;
    }
    /* Backwards: operands that have no layout of their own take the one that is needed. */
    for (uint32_t i = 0; i < of->n_operands; i++) {
        uint32_t k = of->operands[i];
        if (op->args[k]->layout != NULL)
            continue;
        bool found = take_step(lp, (LayoutStep){AS_OPERAND, op->args[k], op, k, 0, NULL});
        changed |= found;
        *done &= found;
    }
    return changed;
}

/* What inference looks at of an operation that deals with tiles. */
static TileOp
tile_op(LayoutPass *lp, TirOp *op)
{
    TileOp of = {.op = op, .operands = arena_array(lp->px->arena, uint32_t, op->n_args + 1)};

    of.makes = op->n_blocks == 0 && op->n_results == 1 && is_in_registers(op->results[0]);
    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirOp *def = op->args[k]->def;
        bool follows = def != NULL && /* its own operands decide */
                       (tir_op_info(def->op)->flags & TF_TOGETHER) != 0;
        if (is_in_registers(op->args[k]) && !follows)
            of.operands[of.n_operands++] = k;
    }
    return of;
}

/* All operations that deal with tiles, those of a block before the one that owns it. */
static void
list_tile_ops(LayoutPass *lp, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        bool tiles = op->n_blocks > 0;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            list_tile_ops(lp, op->blocks[k]);
        for (uint32_t k = 0; k < op->n_args; k++)
            tiles |= op->args[k]->type.rank > 0;
        for (uint32_t k = 0; k < op->n_results; k++)
            tiles |= op->results[k]->type.rank > 0;
        if (tiles)
            vec_push(lp->px->arena, &lp->tile_ops, tile_op(lp, op));
    }
}

/* One walk over the operations that are left; those that are done drop out. */
static bool
infer_all(LayoutPass *lp, const TileOp **ops, uint32_t *n)
{
    uint32_t left = 0;
    bool changed = false;

    for (uint32_t i = 0; i < *n; i++) {
        bool done;
        changed |= infer_op(lp, ops[i], &done);
        if (!done)
            ops[left++] = ops[i];
    }
    *n = left;
    return changed;
}

/* The results that inference has to decide about, in the order of the text: all tiles in registers,
 * and of them those that carry data, from which the index vectors and constants around them
 * follow.  And what blocks take. */
static void
list_results(LayoutPass *lp)
{
    for (TirWalk walk = tir_walk(lp->fn->body); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        for (uint32_t b = 0; b < op->n_blocks; b++) {
            for (uint32_t k = 0; k < op->blocks[b]->params.n; k++)
                vec_push(lp->px->arena, &lp->params, op->blocks[b]->params.at[k]);
        }
        for (uint32_t k = 0; k < op->n_results; k++) {
            if (op->results[k]->type.rank > 0 && !layout_is_view(op->results[k]))
                vec_push(lp->px->arena, &lp->tiles, op->results[k]);
        }
        if (op->n_results == 1 && op->results[0]->type.rank == 2 &&
            !layout_is_view(op->results[0]) && !layout_is_cheap(lp, op->results[0]) &&
            op->op != TIR_BROADCAST && op->op != TIR_SPREAD)
            vec_push(lp->px->arena, &lp->data, op->results[0]);
    }
}

/* The first of them from number `*at` on that has no layout yet, and its number; NULL: none. */
static TirVal *
undecided(TirVal *const *values, uint32_t n, uint32_t *at)
{
    while (*at < n && values[*at]->layout != NULL)
        ++*at;
    return *at < n ? values[*at] : NULL;
}

/* Takes steps around operations until nothing more follows, and then gives a value what is usual
 * for it, again and again. */
static void
infer_at_first(LayoutPass *lp)
{
    uint32_t left = lp->tile_ops.n, data = 0, tile = 0;
    const TileOp **ops = arena_array(lp->px->arena, const TileOp *, left + 1);

    for (uint32_t i = 0; i < left; i++)
        ops[i] = &lp->tile_ops.at[i];
    for (;;) {
        while (infer_all(lp, ops, &left))
            ;
        /* What nothing decides gets a blocked layout; better something that carries data. */
        TirVal *value = undecided(lp->data.at, lp->data.n, &data);
        if (value == NULL)
            value = undecided(lp->tiles.at, lp->tiles.n, &tile);
        if (value == NULL)
            break;
        take_step(lp, (LayoutStep){.way = BY_ITSELF, .value = value});
    }
}

/* Of an operation whose result has the layout of an operand (from_operands): that operand, with the
 * layouts that were known before a step. */
static const TirVal *
like_operand(LayoutPass *lp, const TirOp *op, const uint32_t *known, uint32_t at)
{
    AxisUse use = tir_axis_use(op);

    if (use != AXIS_ELEMENTWISE && (use != AXIS_SCANS || op->n_args == 1))
        return NULL;
    for (uint32_t k = 0; k < op->n_args; k++) {
        uint32_t by = known[op->args[k]->id];
        if (by != 0 && by <= at && !layout_is_cheap(lp, op->args[k]))
            return op->args[k];
    }
    return NULL;
}

/* By whose layout a step may give one; NULL: by none. */
static const TirVal *
step_source(const LayoutStep *step)
{
    const TirOp *op = step->op, *owner;

    if (step->way == BY_ITSELF)
        return NULL;
    if (step->way == AS_YIELDED)
        return block_yield(op->blocks[step->b])->args[step->k];
    if (step->way == AS_RESULT)
        return op->n_args > 0 ? op->args[0] : NULL;
    switch (op->op) {
    case TIR_YIELD:
        owner = op->parent->owner;
        return owner->op == TIR_FOR ? owner->blocks[0]->params.at[step->k + 1]
                                    : owner->results[step->k];
    case TIR_FOR: return op->blocks[0]->params.at[step->k - loop_first_initial(op) + 1];
    default:
        if (tir_writes(op))
            return op->args[op->n_args - 1];
        return op->n_results > 0 ? op->results[0] : NULL;
    }
}

/* Which step may be taken when does not depend on what layouts are, only on which values have one:
 * with other divisions of the products, the same steps give them, each by at most one other. */
static void
link_steps(LayoutPass *lp)
{
    uint32_t *known = arena_array(lp->px->arena, uint32_t, lp->fn->next_id);

    for (uint32_t i = 0; i < lp->steps.n; i++) {
        const TirVal *value = lp->steps.at[i].value;
        const TirVal *twin = carried_twin(value);
        known[value->id] = i + 1;
        if (twin != NULL)
            known[twin->id] = i + 1;
    }
    for (uint32_t i = 0; i < lp->steps.n; i++) {
        LayoutStep *step = &lp->steps.at[i];
        const TirVal *like = step->way == AS_RESULT ? like_operand(lp, step->op, known, i) : NULL;
        const TirVal *source = like != NULL ? like : step_source(step);
        uint32_t by = source != NULL ? known[source->id] : 0;
        step->way = like != NULL ? AS_SOURCE : step->way;
        step->source = by <= i ? source : NULL; /* else it is not looked at */
    }
    lp->known = known;
    lp->behind = arena_array(lp->px->arena, uint32_t, lp->steps.n);
}

/* Gives a value its layout, if a step does, and those before it that this follows from. */
static void
need_layout(LayoutPass *lp, const TirVal *value)
{
    uint32_t n = 0;

    for (; value != NULL && value->layout == NULL && lp->known[value->id] != 0;
         value = lp->steps.at[lp->behind[n++]].source)
        lp->behind[n] = lp->known[value->id] - 1;
    while (n-- > 0) {
        const LayoutStep *step = &lp->steps.at[lp->behind[n]];
        give_layout(lp, step->value, step_layout(lp, step));
    }
}

void
layout_begin(LayoutPass *lp)
{
    bool first = lp->steps.n == 0;

    if (first) {
        list_tile_ops(lp, lp->fn->body);
        list_results(lp);
    } else if (lp->known == NULL) {
        link_steps(lp);
    }
    for (uint32_t k = 0; k < lp->tiles.n; k++)
        lp->tiles.at[k]->layout = NULL;
    for (uint32_t k = 0; k < lp->params.n; k++)
        lp->params.at[k]->layout = NULL;
    if (first)
        infer_at_first(lp);
}

void
layout_infer_rest(LayoutPass *lp)
{
    for (uint32_t k = 0; k < lp->steps.n; k++)
        if (lp->steps.at[k].value->layout == NULL)
            need_layout(lp, lp->steps.at[k].value);
}

void
layout_infer(LayoutPass *lp)
{
    layout_begin(lp);
    layout_infer_rest(lp);
}

/* ---- cost ---- */

/* Every warp reads its share of rows (or columns) of an operand, all of the contracted
 * dimension. */
static int64_t
operand_reads(const LayoutPass *lp, const TirOp *op, uint32_t k)
{
    bool left = (k == 0) != op->swap_ab;
    return tile_bytes(op->args[k]) * lp->fn->warps / (left ? op->warps_m : op->warps_n);
}

int64_t
layout_least_cost(const LayoutPass *lp, const TirOp *mma, uint32_t loops)
{
    int64_t cost = 0;

    for (uint32_t k = 0; k < 2; k++)
        cost += layout_is_view(mma->args[k]) ? operand_reads(lp, mma, k) : 0;
    for (uint32_t k = 0; k < loops; k++)
        cost *= LOOP_ROUNDS;
    return cost;
}

static int64_t
mma_cost(LayoutPass *lp, const TirOp *op)
{
    int64_t cost = 0;

    for (uint32_t k = 0; k < 2; k++) {
        const TirVal *value = op->args[k];
        int64_t reads = operand_reads(lp, op, k);
        if (layout_is_view(value)) {
            cost += reads;
        } else if (!layout_operand_fits(lp, op, k)) {
            cost += tile_bytes(value) + reads + 2 * SYNC_COST;
        }
    }
    return cost;
}

/* Of an operation by itself, whatever its operands lie in. */
static int64_t
own_cost(LayoutPass *lp, const TirOp *op)
{
    int64_t cost = op->op == TIR_MMA ? mma_cost(lp, op) : 0;

    if (tir_combines(op)) {
        const Layout *layout = op->args[0]->layout;
        for (uint32_t d = 0; layout != NULL && d < layout->warp.n; d++) {
            if (layout_is_along(&layout->warp.at[d], op_part(op)))
                cost += 2 * SYNC_COST;
        }
    }
    if (op->op == TIR_ATOMIC_ADD)
        cost += additions_cost(lp, op->args[op->n_args - 1]);
    return cost;
}

/* Of a conversion of operand `k`. */
static int64_t
operand_cost(LayoutPass *lp, const TirOp *op, uint32_t k)
{
    const TirVal *arg = op->args[k];
    const Layout *need = layout_required(lp, op, k);

    if (need == NULL || layout_eq(arg->layout, need) ||
        stored_in_place(&lp->store, arg->layout, need) ||
        stored_one_exchange(&lp->store, arg->layout, need, arg->type.dtype))
        return 0;
    return 2 * tile_bytes(arg) + 2 * SYNC_COST;
}

enum { ALL_OF_IT = UINT32_MAX };

/* Gives the values their layouts that a cost depends on. */
static void
need_layouts(LayoutPass *lp, const TirOp *op, uint32_t k)
{
    const TirOp *owner = op->op == TIR_YIELD ? op->parent->owner : NULL;
    uint32_t n_args = op->op == TIR_YIELD || op->op == TIR_FOR ? 0 : op->n_args;

    for (uint32_t i = 0; i < n_args; i++)
        if (k == ALL_OF_IT || i == k || i + 1 == n_args)
            need_layout(lp, op->args[i]);
    if (k == ALL_OF_IT)
        return;
    need_layout(lp, op->args[k]);
    if (op->op == TIR_FOR && k >= loop_first_initial(op))
        need_layout(lp, op->results[k - loop_first_initial(op)]);
    else if (owner != NULL && k < owner->n_results)
        need_layout(lp, owner->results[k]);
    else if (op->n_results > 0)
        need_layout(lp, op->results[0]);
}

/* What may cost something in a block, which counts as `rounds`. */
static void
list_costs(LayoutPass *lp, const TirBlock *block, int64_t rounds)
{
    Arena *arena = lp->px->arena;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        int64_t inner = op->op == TIR_FOR ? rounds * LOOP_ROUNDS : rounds;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            list_costs(lp, op->blocks[k], inner);
        if (op->op == TIR_MMA || op->op == TIR_ATOMIC_ADD || tir_combines(op))
            vec_push(arena, &lp->costs, ((LayoutCost){op, ALL_OF_IT, rounds}));
        for (uint32_t k = op->op == TIR_MMA ? 2 : 0; k < op->n_args; k++) {
            const TirVal *arg = op->args[k];
            if (arg->type.rank > 0 && !layout_is_view(arg) && !layout_is_cheap(lp, arg))
                vec_push(arena, &lp->costs, ((LayoutCost){op, k, rounds}));
        }
    }
}

int64_t
layout_cost(LayoutPass *lp, int64_t enough)
{
    int64_t cost = 0;

    if (lp->costs.n == 0)
        list_costs(lp, lp->fn->body, 1);
    for (uint32_t i = 0, costly = 0; i < lp->costs.n && cost < enough; i++) {
        LayoutCost of = lp->costs.at[i];
        if (lp->known != NULL)
            need_layouts(lp, of.op, of.k);
        int64_t more = of.k == ALL_OF_IT ? own_cost(lp, of.op) : operand_cost(lp, of.op, of.k);
        cost += of.rounds * more;
        if (more > 0) { /* what costs something is looked at first the next time */
            lp->costs.at[i] = lp->costs.at[costly];
            lp->costs.at[costly++] = of;
        }
    }
    return cost;
}
