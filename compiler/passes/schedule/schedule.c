/* schedule.c - stage the operands of products through shared memory, ahead of their use.
 *
 *   level    tile IR
 *   needs    fn->warps
 *   does     every load whose tile feeds an mma becomes a copy to a shared buffer and a
 *            shared_read of it; inside loops the copies run `stages - 1` iterations ahead:
 *
 *                prologue: copies of the first stages-1 iterations, a group each
 *                for ..  { async_wait; barrier; copies for iteration i+stages-1; commit; read .. }
 *
 *   leaves   shared buffers without layout or place; register values without layout
 *
 * Loads of a loop body form groups: those between which no mma stands are waited for together.
 * Every group commits once an iteration, also when nothing is left to copy, so the number of
 * younger groups at a wait is a constant: groups * (stages - 1) - 1.
 * One barrier a group is enough: it tells that this iteration's data is there for every warp and
 * that all warps are done with the stage which the next copy overwrites (they read it an
 * iteration ago).
 *
 * With one stage, groups that are read one after the other take turns: while one is read, the copy
 * of the group read before it is under way for its next turn.
 *
 *                prologue: copies of all groups but the last, for the first iteration
 *                for ..  { async_wait; barrier; copies of the last group; commit; read the first ..
 *                          async_wait; barrier; copies of the first group for i+1; commit; read ..
 *                          }
 *
 * Where that can not be and products follow the last one that reads a stage, the next copies run
 * under those.
 *
 *                prologue: copies of the first iteration
 *                for ..  { async_wait; barrier; read ..; barrier; copies for i+1; commit; other
 *                products }
 */
#include <string.h>

#include "compiler/passes/pass.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Scheduler {
    PassContext *px;
    TirFn *fn;
    bool pipeline;
} Scheduler;

typedef VEC(TirOp *) OpList;

/* ---- which loads are staged ---- */

/* The bytes one cp.async may copy: 16, 8, 4, or 0 when none can. */
static uint32_t
async_bytes(const TirOp *load)
{
    const TirTensor *tensor = load->tensor;
    TirDims last = tir_last_dim(load);

    if (tir_has_places(load))
        return 0; /* who copies a row does not know its place */
    if (!tir_is_contiguous(load))
        return 0; /* the contiguous dimension is not part of the tile */
    if (last.range && tir_factor(last.at) * dtype_bits(tensor->dtype) % 32 != 0)
        return 0; /* it may begin in the middle of a word */
    for (uint32_t bytes = 16; bytes >= 4; bytes /= 2) {
        if (tensor->align % bytes == 0)
            return bytes;
    }
    return 0;
}

static bool
is_mma_operand(const Scheduler *s, const TirOp *op)
{
    return op->op == TIR_LOAD && op->results[0]->type.rank == 2 &&
           feeds_mmas(s->fn->body, op->results[0], 0);
}

/* Scales of products; rows of less than 16 bytes, a copy's most, are loaded by those who need
 * them. */
static bool
is_scales(const Scheduler *s, const TirOp *op)
{
    return op->results[0]->type.rank == 2 && async_bytes(op) == 16 &&
           op->results[0]->type.dim[1] % 16 == 0 &&
           feeds_mmas(s->fn->body, op->results[0], TIR_MMA_PLAIN);
}

/* Whether `value`, an index, can be computed again for another iteration of the loop: made in the
 * loop's own block by pure scalar operations. */
static bool
is_recomputable(Arena *arena, const TirVal *value, const TirBlock *body)
{
    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        /* defined around the loop, or the number of the iteration */
        if ((in.value->block != body && in.value->block != NULL) || in.value == body->params.at[0])
            continue;
        if (def == NULL || in.value->block == NULL || in.value->type.rank != 0 ||
            !tir_can_be_again(def))
            return false;
        tir_inputs_follow(&in);
    }
    return true;
}

/* ---- making operations ---- */

static TirOp *
simple_op(Scheduler *s, OpList *out, TirBlock *parent, TirOpcode opcode, int64_t integer)
{
    TirOp *op = arena_new(s->fn->arena, TirOp);
    op->op = opcode;
    op->parent = parent;
    op->integer = integer;
    vec_push(s->fn->arena, out, op);
    return op;
}

/* Appends to `b` a copy of what `load` loads in iteration `iteration` into `stage`. */
static void
emit_copy(TirBuilder *b, const TirOp *load, TirShared *shared, TirVal *stage, const TirBlock *body,
          TirVal *iteration)
{
    uint32_t n = load->n_args;
    TirVal **args = arena_array(b->fn->arena, TirVal *, n + 1);
    ScalarMap map = {0};

    args[0] = stage;
    if (body != NULL)
        scalar_map_add(&map, b->fn->arena, body->params.at[0], iteration);
    for (uint32_t k = 0; k < n; k++)
        args[k + 1] = body == NULL ? load->args[k] : clone_scalar(b, &map, load->args[k], body);
    b->span = load->span;
    TirOp *copy = tir_op_new(b, TIR_COPY_ASYNC, n + 1, args, 0, NULL);
    tir_copy_place(copy, load);
    copy->shared = shared;
}

/* Turns a load into a read of its buffer. */
static void
make_read(Scheduler *s, TirOp *load, TirShared *shared, TirVal *stage)
{
    load->op = TIR_SHARED_READ;
    load->tensor = NULL;
    load->shared = shared;
    load->n_args = 1;
    load->n_limits = 0;
    load->args = arena_copy(s->fn->arena, &stage, sizeof stage);
}

/* ---- a loop ---- */

typedef struct Group {
    VEC(TirOp *) loads;
    VEC(const TirOp *) sources; /* the loads as they were before they became reads */
} Group;

typedef struct LoopPlan {
    VEC(Group) groups;
    int32_t stages;
    bool alternates; /* one stage: groups alternate in one buffer */
    /* one stage: all groups are filled again behind the operation that reads one last; NULL: not */
    const TirOp *refilled_behind;
} LoopPlan;

/* Loads of the loop that can run ahead, in groups, in order of their first use. */
static void
find_groups(Scheduler *s, const TirBlock *body, bool separate, LoopPlan *plan)
{
    Arena *arena = s->fn->arena;
    bool open = false;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if ((op->op == TIR_MMA || op->n_blocks > 0) && separate)
            open = false;
        if (op->op != TIR_LOAD || async_bytes(op) == 0 || writes_tensor(s->fn->body, op->tensor))
            continue;
        bool vector = op->results[0]->type.rank == 1 && dtype_bits(op->tensor->dtype) == 32;
        if (!vector && !is_mma_operand(s, op) && !is_scales(s, op))
            continue;
        bool ahead = true, moves = false;
        for (uint32_t k = 0; k < op->n_args; k++) {
            ahead = ahead && is_recomputable(s->fn->arena, op->args[k], body);
            moves = moves || op->args[k]->block == body;
        }
        if (!ahead || (vector && (!moves || plan->groups.n == 0)))
            continue;
        if (!open && !vector) {
            Group none = {0};
            vec_push(arena, &plan->groups, none);
            open = true;
        }
        vec_push(arena, &plan->groups.at[plan->groups.n - 1].loads, op);
    }
}

/* The position of the last operation of `body` that reads `value` or a view of it. */
static uint32_t
last_reader(const TirBlock *body, const TirVal *value)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (!op_uses_deep(op, value))
            continue;
        uint32_t at = i;
        if (op->op == TIR_TRANSPOSE)
            at = last_reader(body, op->results[0]);
        last = at > last ? at : last;
    }
    return last;
}

static uint32_t
position_of(const TirBlock *body, const TirOp *op)
{
    uint32_t i = 0;

    while (i < body->ops.n && body->ops.at[i] != op)
        i++;
    return i;
}

/* Whether each group is read to its end before the next one begins. */
static bool
can_alternate(const TirBlock *body, const LoopPlan *plan)
{
    for (uint32_t g = 0; g + 1 < plan->groups.n; g++) {
        const Group *group = &plan->groups.at[g];
        uint32_t next = position_of(body, plan->groups.at[g + 1].loads.at[0]);
        for (uint32_t k = 0; k < group->loads.n; k++) {
            if (last_reader(body, group->loads.at[k]->results[0]) > next)
                return false;
        }
    }
    return plan->groups.n > 1;
}

/* The last operation that reads a tile of a group, if products follow; else NULL. */
static const TirOp *
reader_before_products(const TirBlock *body, const LoopPlan *plan)
{
    uint32_t last = 0;

    for (uint32_t g = 0; g < plan->groups.n; g++) {
        const Group *group = &plan->groups.at[g];
        for (uint32_t k = 0; k < group->loads.n; k++) {
            uint32_t at = last_reader(body, group->loads.at[k]->results[0]);
            last = at > last ? at : last;
        }
    }
    for (uint32_t i = last + 1; i < body->ops.n; i++)
        if (body->ops.at[i]->op == TIR_MMA)
            return body->ops.at[last];
    return NULL;
}

static LoopPlan
plan_loop(Scheduler *s, const TirOp *loop, int32_t stages)
{
    LoopPlan plan = {.stages = stages}, alternating = {.stages = stages, .alternates = true};

    find_groups(s, loop->blocks[0], false, &plan);
    if (stages > 1 || !s->pipeline)
        return plan;
    find_groups(s, loop->blocks[0], true, &alternating);
    if (can_alternate(loop->blocks[0], &alternating))
        return alternating;
    if (switch_is_on(s->px, "refill"))
        plan.refilled_behind = reader_before_products(loop->blocks[0], &plan);
    return plan;
}

/* Groups whose copies are under way when the loop begins. */
static int64_t
groups_ahead(const LoopPlan *plan)
{
    if (plan->alternates)
        return (int64_t)plan->groups.n - 1;
    return (int64_t)plan->groups.n * (plan->refilled_behind != NULL ? 1 : plan->stages - 1);
}

static void
emit_group_copies(TirBuilder *b, const Group *group, TirVal *stage, const TirBlock *body,
                  TirVal *iteration)
{
    for (uint32_t k = 0; k < group->sources.n; k++)
        emit_copy(b, group->sources.at[k], group->sources.at[k]->shared, stage, body, iteration);
}

/* The copies of a group for an iteration that there may not be. */
static void
emit_copies_if(TirBuilder *b, const Group *group, TirVal *stage, const TirOp *loop,
               TirVal *iteration)
{
    TirOp *branch = tir_if(b, tir_binary(b, TIR_LT, iteration, loop->args[1]), 0, NULL);
    TirBuilder inner = {.fn = b->fn, .block = branch->blocks[0], .at = -1};

    emit_group_copies(&inner, group, stage, loop->blocks[0], iteration);
    tir_yield(&inner, 0, NULL);
    inner.block = branch->blocks[1];
    tir_yield(&inner, 0, NULL);
    tir_op_new(b, TIR_ASYNC_COMMIT, 0, NULL, 0, NULL);
}

/* Copies for the iterations [lo, lo + stages - 1), appended to `out`. */
static void
emit_prologue(Scheduler *s, OpList *out, TirBlock *parent, const TirOp *loop, const LoopPlan *plan)
{
    TirBlock *scratch = tir_block_new(s->fn);
    TirBuilder b = {.fn = s->fn, .block = scratch, .at = -1, .span = loop->span};

    if (parent->owner != NULL && groups_ahead(plan) > 0) /* an earlier run may still read */
        tir_op_new(&b, TIR_BARRIER, 0, NULL, 0, NULL);
    bool one = plan->alternates || plan->refilled_behind != NULL;
    for (uint32_t g = 0; one && g < groups_ahead(plan); g++)
        emit_copies_if(&b, &plan->groups.at[g], tir_const_int(&b, 0), loop, loop->args[0]);
    for (int32_t stage = 0; stage + 1 < plan->stages; stage++) {
        TirVal *iteration = tir_binary(&b, TIR_ADD, loop->args[0], tir_const_int(&b, stage));
        TirVal *there = tir_binary(&b, TIR_LT, iteration, loop->args[1]);
        for (uint32_t g = 0; g < plan->groups.n; g++) {
            TirOp *branch = tir_if(&b, there, 0, NULL);
            TirBuilder inner = {.fn = s->fn, .block = branch->blocks[0], .at = -1};
            emit_group_copies(&inner, &plan->groups.at[g], tir_const_int(&inner, stage),
                              loop->blocks[0], iteration);
            tir_yield(&inner, 0, NULL);
            inner.block = branch->blocks[1];
            tir_yield(&inner, 0, NULL);
            tir_op_new(&b, TIR_ASYNC_COMMIT, 0, NULL, 0, NULL);
        }
    }
    for (uint32_t i = 0; i < scratch->ops.n; i++)
        move_op(s->fn->arena, scratch->ops.at[i], parent, out);
}

/* Copies of all groups for the next iteration into the stage that all warps have read. */
static void
emit_refill(Scheduler *s, OpList *out, TirBlock *body, const TirOp *loop, const LoopPlan *plan,
            TirVal *copy_stage)
{
    TirBlock *scratch = tir_block_new(s->fn);
    TirBuilder b = {.fn = s->fn, .block = scratch, .at = -1, .span = loop->span};

    tir_op_new(&b, TIR_BARRIER, 0, NULL, 0, NULL);
    TirVal *next = tir_binary(&b, TIR_ADD, body->params.at[0], tir_const_int(&b, 1));
    for (uint32_t g = 0; g < plan->groups.n; g++)
        emit_copies_if(&b, &plan->groups.at[g], copy_stage, loop, next);
    for (uint32_t i = 0; i < scratch->ops.n; i++)
        move_op(s->fn->arena, scratch->ops.at[i], body, out);
}

/* The head of a group inside the loop: wait, barrier, next copies, commit. */
static void
emit_group_head(Scheduler *s, OpList *out, TirBlock *body, const TirOp *loop, const LoopPlan *plan,
                uint32_t group, TirVal *copy_stage)
{
    TirBlock *scratch = tir_block_new(s->fn);
    TirBuilder b = {.fn = s->fn, .block = scratch, .at = -1, .span = loop->span};
    int32_t ahead = plan->stages - 1;

    if (plan->alternates) {
        tir_op_new(&b, TIR_ASYNC_WAIT, 0, NULL, 0, NULL)->integer = (int64_t)plan->groups.n - 2;
        tir_op_new(&b, TIR_BARRIER, 0, NULL, 0, NULL);
        if (group == 0) {
            emit_group_copies(&b, &plan->groups.at[plan->groups.n - 1], copy_stage, body,
                              body->params.at[0]);
            tir_op_new(&b, TIR_ASYNC_COMMIT, 0, NULL, 0, NULL);
        } else {
            TirVal *next = tir_binary(&b, TIR_ADD, body->params.at[0], tir_const_int(&b, 1));
            emit_copies_if(&b, &plan->groups.at[group - 1], copy_stage, loop, next);
        }
    } else if (plan->refilled_behind != NULL) {
        TirOp *wait = tir_op_new(&b, TIR_ASYNC_WAIT, 0, NULL, 0, NULL);
        wait->integer = (int64_t)plan->groups.n - 1 - group;
        tir_op_new(&b, TIR_BARRIER, 0, NULL, 0, NULL);
    } else if (ahead == 0) {
        tir_op_new(&b, TIR_BARRIER, 0, NULL, 0, NULL);
        emit_group_copies(&b, &plan->groups.at[group], copy_stage, body, body->params.at[0]);
        tir_op_new(&b, TIR_ASYNC_COMMIT, 0, NULL, 0, NULL);
        tir_op_new(&b, TIR_ASYNC_WAIT, 0, NULL, 0, NULL);
        tir_op_new(&b, TIR_BARRIER, 0, NULL, 0, NULL);
    } else {
        TirOp *wait = tir_op_new(&b, TIR_ASYNC_WAIT, 0, NULL, 0, NULL);
        wait->integer = (int64_t)plan->groups.n * ahead - 1;
        tir_op_new(&b, TIR_BARRIER, 0, NULL, 0, NULL);
        TirVal *iteration = tir_binary(&b, TIR_ADD, body->params.at[0], tir_const_int(&b, ahead));
        emit_copies_if(&b, &plan->groups.at[group], copy_stage, loop, iteration);
    }
    for (uint32_t i = 0; i < scratch->ops.n; i++)
        move_op(s->fn->arena, scratch->ops.at[i], body, out);
}

/* Rewrites the loop's body; the prologue goes to `out`, before the loop. */
static void
pipeline_loop(Scheduler *s, OpList *out, TirBlock *parent, TirOp *loop, LoopPlan *plan)
{
    TirBlock *body = loop->blocks[0];
    TirVal *stage, *copy_stage;
    OpList ops = {0};

    for (uint32_t g = 0; g < plan->groups.n; g++) {
        Group *group = &plan->groups.at[g];
        for (uint32_t k = 0; k < group->loads.n; k++) {
            TirOp *load = group->loads.at[k];
            load->shared = tir_buffer_new(s->fn, SHARED_TILE, load->tensor->name,
                                          load->results[0]->type, (uint32_t)plan->stages);
            const TirOp *source = arena_copy(s->fn->arena, load, sizeof *load);
            vec_push(s->fn->arena, &group->sources, source);
        }
    }
    emit_prologue(s, out, parent, loop, plan);

    TirBlock *scratch = tir_block_new(s->fn);
    TirBuilder b = {.fn = s->fn, .block = scratch, .at = -1, .span = loop->span};
    TirVal *next = NULL;
    if (plan->stages == 1) {
        stage = copy_stage = tir_const_int(&b, 0);
    } else {
        TirBlock *outer = tir_block_new(s->fn);
        TirBuilder ob = {.fn = s->fn, .block = outer, .at = -1, .span = loop->span};
        TirVal *zero = tir_const_int(&ob, 0);
        move_op(s->fn->arena, outer->ops.at[0], parent, out);
        stage = loop_add_carried(s->fn, loop, zero, "stage");
        TirVal *one = tir_const_int(&b, 1);
        TirVal *last = tir_const_int(&b, plan->stages - 1);
        if (plan->stages == 2) {
            copy_stage = next = tir_binary(&b, TIR_SUB, one, stage);
        } else {
            TirVal *none = tir_const_int(&b, 0);
            TirVal *at_first = tir_binary(&b, TIR_EQ, stage, none);
            copy_stage = tir_select(&b, at_first, last, tir_binary(&b, TIR_SUB, stage, one));
            TirVal *at_last = tir_binary(&b, TIR_EQ, stage, last);
            next = tir_select(&b, at_last, none, tir_binary(&b, TIR_ADD, stage, one));
        }
    }
    for (uint32_t i = 0; i < scratch->ops.n; i++)
        move_op(s->fn->arena, scratch->ops.at[i], body, &ops);

    /* A group's head stands where its first load stood; its loads become reads right there. */
    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        bool staged = false;
        for (uint32_t g = 0; g < plan->groups.n; g++) {
            const Group *group = &plan->groups.at[g];
            for (uint32_t k = 0; k < group->loads.n; k++) {
                if (group->loads.at[k] != op)
                    continue;
                staged = true;
                if (k == 0)
                    emit_group_head(s, &ops, body, loop, plan, g, copy_stage);
            }
        }
        if (staged)
            make_read(s, op, op->shared, stage);
        if (op->op == TIR_YIELD && next != NULL)
            op_add_arg(s->fn->arena, op, next);
        vec_push(s->fn->arena, &ops, op);
        if (op == plan->refilled_behind)
            emit_refill(s, &ops, body, loop, plan, copy_stage);
    }
    body->ops.at = ops.at;
    body->ops.n = ops.n;
    body->ops.cap = ops.cap;
}

/* ---- blocks ---- */

static void schedule_block(Scheduler *s, TirBlock *block);

/* Loads and their transposes whose first use is still ahead. */
typedef struct Deferred {
    OpList ops;
    int64_t commits_after; /* groups committed since the youngest of them */
    bool is_async;
} Deferred;

static void
flush_deferred(Scheduler *s, OpList *out, TirBlock *block, Deferred *deferred)
{
    if (deferred->ops.n == 0)
        return;
    if (deferred->is_async) {
        simple_op(s, out, block, TIR_ASYNC_WAIT, deferred->commits_after);
        simple_op(s, out, block, TIR_BARRIER, 0);
    }
    for (uint32_t i = 0; i < deferred->ops.n; i++)
        vec_push(s->fn->arena, out, deferred->ops.at[i]);
    memset(deferred, 0, sizeof *deferred);
}

static bool
uses_deferred(const TirOp *op, const Deferred *deferred)
{
    for (uint32_t i = 0; i < deferred->ops.n; i++) {
        if (op_uses_deep(op, deferred->ops.at[i]->results[0]))
            return true;
    }
    return false;
}

/* A product operand outside any pipelined loop: copied now, waited for at its first use. */
static void
stage_once(Scheduler *s, OpList *out, TirBlock *block, TirOp *load, Deferred *deferred)
{
    TirBlock *scratch = tir_block_new(s->fn);
    TirBuilder b = {.fn = s->fn, .block = scratch, .at = -1, .span = load->span};
    TirShared *shared = tir_buffer_new(s->fn, SHARED_TILE, load->tensor->name,
                                       load->results[0]->type, 1);
    TirVal *stage = tir_const_int(&b, 0);

    if (async_bytes(load) > 0 && !writes_tensor(s->fn->body, load->tensor)) {
        emit_copy(&b, load, shared, stage, NULL, NULL);
        tir_op_new(&b, TIR_ASYNC_COMMIT, 0, NULL, 0, NULL);
        for (uint32_t i = 0; i < scratch->ops.n; i++)
            move_op(s->fn->arena, scratch->ops.at[i], block, out);
        make_read(s, load, shared, stage);
        vec_push(s->fn->arena, &deferred->ops, load);
        deferred->commits_after = 0;
        deferred->is_async = true;
        return;
    }
    /* Too loosely aligned for asynchronous copies: through registers. */
    vec_push(s->fn->arena, out, load);
    TirVal *args[] = {stage, load->results[0]};
    TirOp *write = tir_op_new(&b, TIR_SHARED_WRITE, 2, args, 0, NULL);
    TirOp *read = tir_op_new(&b, TIR_SHARED_READ, 1, &stage, 1, &load->results[0]->type);
    write->shared = read->shared = shared;
    tir_replace_uses(s->fn, load->results[0], read->results[0]);
    write->args[1] = load->results[0];
    for (uint32_t i = 0; i < scratch->ops.n; i++)
        move_op(s->fn->arena, scratch->ops.at[i], block, out);
}

/* How many buffers each load of a loop gets: as pinned, else two. */
static int32_t
choose_stages(const Scheduler *s, const TirOp *loop)
{
    if (!s->pipeline)
        return 1;
    if (s->px->stages > 0)
        return (int32_t)s->px->stages;
    return loop->hints.stages > 0 ? loop->hints.stages : 2;
}

static void
schedule_block(Scheduler *s, TirBlock *block)
{
    OpList out = {0};
    Deferred deferred = {0};
    OpList before = {0};

    before.at = arena_copy(s->fn->arena, block->ops.at, block->ops.n * sizeof *before.at);
    before.n = block->ops.n;
    for (uint32_t i = 0; i < before.n; i++) {
        TirOp *op = before.at[i];
        LoopPlan plan = {0};

        if (is_mma_operand(s, op)) {
            stage_once(s, &out, block, op, &deferred);
            continue;
        }
        if (op->op == TIR_TRANSPOSE && uses_deferred(op, &deferred)) {
            vec_push(s->fn->arena, &deferred.ops, op);
            continue;
        }
        if (op->op == TIR_FOR) {
            plan = plan_loop(s, op, choose_stages(s, op));
            if (plan.groups.n > 0) {
                pipeline_loop(s, &out, block, op, &plan);
                deferred.commits_after += groups_ahead(&plan);
            }
        }
        if (uses_deferred(op, &deferred))
            flush_deferred(s, &out, block, &deferred);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            schedule_block(s, op->blocks[k]);
        vec_push(s->fn->arena, &out, op);
    }
    flush_deferred(s, &out, block, &deferred);
    block->ops.at = out.at;
    block->ops.n = out.n;
    block->ops.cap = out.cap;
}

/* Elements that a block loads, and the largest of the blocks in it. */
static int64_t
loaded_elements(const TirBlock *block)
{
    int64_t here = 0, inside = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        here += op->op == TIR_LOAD ? tir_type_elements(op->results[0]->type) : 0;
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            int64_t n = loaded_elements(op->blocks[k]);
            inside = n > inside ? n : inside;
        }
    }
    return here + inside;
}

/* How many warps a block gets: enough that what it holds fits in registers: the accumulators of
 * products, and where nothing is accumulated what is loaded, such as a row that is read twice.
 * Twice as many of 4 warps' are all of an SM. */
static uint32_t
choose_warps(const TirFn *fn)
{
    int64_t held = 0;

    if (fn->hint_warps > 0)
        return fn->hint_warps;
    held = accumulator_elements(fn->body);
    held = held > 0 ? held : loaded_elements(fn->body);
    return held > 200 * 4 * 32 ? 8 : 4;
}

bool
pass_schedule(PassContext *px, TirFn *fn)
{
    if (fn->plan != NULL) /* the roles are the schedule */
        return false;
    Scheduler s = {.px = px, .fn = fn, .pipeline = switch_is_on(px, "pipeline")};

    fn->warps = px->warps > 0 ? px->warps : choose_warps(fn);
    sink_loads(fn, fn->body);
    schedule_block(&s, fn->body);
    return true;
}
