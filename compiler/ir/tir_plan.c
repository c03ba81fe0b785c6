/* tir_plan.c - what a plan says: its roles, and what can be read off the operations that they
 * run. */
#include "compiler/ir/tir.h"
#include "compiler/ir/tir_scales.h"
#include "compiler/ir/tir_walk.h"

#include <string.h>

static const char *const role_names[ROLE_KINDS] = {"producer", "consumer",   "reduce",
                                                   "mma",      "correction", "next_tile"};

const char *
tir_role_kind_name(RoleKind kind)
{
    return role_names[kind];
}

bool
tir_role_kind_find(const char *name, RoleKind *kind)
{
    for (uint32_t k = 0; k < ROLE_KINDS; k++) {
        if (strcmp(role_names[k], name) == 0) {
            *kind = (RoleKind)k;
            return true;
        }
    }
    return false;
}

TirRole *
tir_role(const TirPlan *plan, RoleKind kind)
{
    for (uint32_t k = 0; k < plan->roles.n; k++) {
        if (plan->roles.at[k].kind == kind)
            return &plan->roles.at[k];
    }
    return NULL;
}

TirRole *
tir_role_add(TirFn *fn, RoleKind kind, uint32_t warps, uint32_t instances, uint32_t registers)
{
    TirRole role = {.kind = kind,
                    .name = role_names[kind],
                    .warps = warps,
                    .instances = instances,
                    .registers = registers};

    vec_push(fn->arena, &fn->plan->roles, role);
    return &fn->plan->roles.at[fn->plan->roles.n - 1];
}

TirBlock *
tir_program(const TirPlan *plan, RoleKind kind)
{
    const TirRole *role = tir_role(plan, kind);

    return role == NULL ? NULL : role->program;
}

uint32_t
tir_program_count(const TirFn *fn)
{
    if (fn->plan == NULL)
        return 1;
    return fn->plan->roles.n + (tir_role(fn->plan, ROLE_CONSUMER) == NULL ? 1 : 0);
}

TirBlock *
tir_program_at(const TirFn *fn, uint32_t k)
{
    bool body = fn->plan == NULL || k >= fn->plan->roles.n ||
                fn->plan->roles.at[k].kind == ROLE_CONSUMER;

    return body ? fn->body : fn->plan->roles.at[k].program;
}

uint32_t
tir_tmem_columns(const TirShared *pipeline)
{
    if (pipeline->scales > 0)
        return tir_scale_columns(tir_scale_lines(pipeline), tir_scales_of_line(pipeline));
    uint32_t columns = (uint32_t)pipeline->cols * (uint32_t)dtype_bits(pipeline->dtype) / 32;

    return dtype_bits(pipeline->dtype) == 32 ? tir_product_columns(columns) : columns; /* sums */
}

uint32_t
tir_product_columns(uint32_t columns)
{
    return (columns + TMEM_STEP - 1) / TMEM_STEP * TMEM_STEP;
}

uint32_t
tir_tmem_first(const TirShared *piece)
{
    return piece->column * (uint32_t)dtype_bits(piece->dtype) / 32;
}

uint32_t
tir_tmem_part(const TirFn *fn)
{
    uint32_t columns = 0;

    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *pipeline = fn->shared.at[k];
        if (pipeline->kind == SHARED_TMEM && pipeline->over == NULL)
            columns += pipeline->stages * tir_tmem_columns(pipeline);
        columns += pipeline->places * (pipeline->scales > 0 ? tir_tmem_columns(pipeline) : 0);
    }
    return columns;
}

uint32_t
tir_parts(const TirPlan *plan, const TirShared *pipeline)
{
    return pipeline->each ? tir_consumers(plan) : 1;
}

static bool
is_released(const TirBlock *block, const TirShared *pipeline)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (walk.op->op == TIR_CONSUMER_RELEASE && walk.op->shared == pipeline)
            return true;
    }
    return false;
}

/* Whether a program gives its stages back: else another barrier tells that they are empty. */
static bool
is_given_back(const TirFn *fn, const TirShared *pipeline)
{
    bool given = pipeline->from == ROLE_PRODUCER;

    for (uint32_t k = 0; k < tir_program_count(fn) && !given; k++)
        given = is_released(tir_program_at(fn, k), pipeline);
    return given;
}

/* How often a role arrives: a lane of each warp does, once for its part; those of both blocks, if
 * one waits for both. */
static uint32_t
arrivals(const TirPlan *plan, const TirShared *pipeline, RoleKind kind)
{
    const TirRole *role = tir_role(plan, kind);

    if (kind == ROLE_PRODUCER || kind == ROLE_MMA) /* a thread, or the end of products */
        return 1;
    return role->warps * (pipeline->each ? 1 : role->instances) *
           (tir_multiplies_in_pairs(plan) ? 2 : 1);
}

TirChannel
tir_channel(const TirFn *fn, const TirShared *pipeline)
{
    TirChannel channel = {.parts = tir_parts(fn->plan, pipeline),
                          .full = arrivals(fn->plan, pipeline, pipeline->from)};

    if (is_given_back(fn, pipeline))
        channel.empty = arrivals(fn->plan, pipeline, pipeline->to);
    channel.barriers = pipeline->stages * channel.parts * (channel.empty > 0 ? 2 : 1);
    return channel;
}

bool
tir_is_one_place(const TirShared *shared)
{
    return shared->stages == 1 && shared->from != ROLE_PRODUCER;
}

/* Warps of a role that has warp groups of its own, one behind another; 0: in the producer's. */
static uint32_t
own_warps(const TirRole *role)
{
    return role->warps < GROUP_WARPS ? 0 : role->warps * role->instances;
}

uint32_t
tir_first_warp(const TirPlan *plan, RoleKind kind)
{
    const TirRole *role = tir_role(plan, kind), *consumer = tir_role(plan, ROLE_CONSUMER);

    if (kind == ROLE_PRODUCER || own_warps(role) == 0)
        return kind != ROLE_PRODUCER;
    return GROUP_WARPS + (kind == ROLE_CONSUMER ? 0 : own_warps(consumer));
}

uint32_t
tir_block_warps(const TirPlan *plan)
{
    uint32_t warps = GROUP_WARPS;

    for (uint32_t k = 0; k < plan->roles.n; k++)
        warps += own_warps(&plan->roles.at[k]);
    return warps;
}

uint32_t
tir_tile_readers(const TirPlan *plan)
{
    uint32_t warps = 0;

    for (uint32_t k = 0; k < plan->roles.n; k++) {
        const TirRole *role = &plan->roles.at[k];
        warps += role->kind == ROLE_PRODUCER ? 0 : role->warps * role->instances;
    }
    return warps;
}

bool
tir_serves_all(RoleKind kind)
{
    return kind == ROLE_MMA || kind == ROLE_CORRECTION;
}

bool
tir_has_issuer(const TirPlan *plan)
{
    return tir_role(plan, ROLE_MMA) != NULL;
}

uint32_t
tir_adding_warps(const TirPlan *plan)
{
    const TirRole *role = tir_role(plan, ROLE_REDUCE);

    return role == NULL || role->warps < GROUP_WARPS ? 0 : role->warps;
}

bool
tir_is_handed(const TirShared *shared)
{
    return shared->kind == SHARED_VECTORS && shared->from == ROLE_CONSUMER;
}

uint32_t
tir_consumers(const TirPlan *plan)
{
    const TirRole *role = tir_role(plan, ROLE_CONSUMER);

    return role == NULL ? 0 : role->instances;
}

uint32_t
tir_role_registers(const TirPlan *plan)
{
    uint32_t registers = 0;

    for (uint32_t k = 0; k < plan->roles.n; k++) {
        const TirRole *role = &plan->roles.at[k];
        registers += role->registers * WARP_LANES *
                     (role->kind == ROLE_PRODUCER ? GROUP_WARPS : own_warps(role));
    }
    return registers;
}

bool
tir_is_cooperative(const TirPlan *plan)
{
    return plan->tiles.axis == NO_AXIS;
}

uint32_t
tir_own_programs(const TirPlan *plan)
{
    return tir_is_cooperative(plan) ? 1 : tir_consumers(plan);
}

const TirGridAxis *
tir_consumer_axis(const TirFn *fn)
{
    return tir_is_cooperative(fn->plan) ? NULL : &fn->grid.at[fn->plan->tiles.axis];
}

bool
tir_is_persistent(const TirPlan *plan)
{
    return plan->tiles.scheduler != TILES_ONE;
}

bool
tir_is_dynamic(const TirPlan *plan)
{
    return plan->tiles.scheduler == TILES_DYNAMIC || plan->tiles.scheduler == TILES_CLC;
}

bool
tir_has_clc(const TirPlan *plan)
{
    return plan->tiles.scheduler == TILES_CLC;
}

bool
tir_is_clustered(const TirPlan *plan)
{
    return plan->tiles.cluster > 1;
}

bool
tir_multiplies_in_pairs(const TirPlan *plan)
{
    return tir_is_clustered(plan) && tir_adding_warps(plan) == 0;
}

bool
tir_adds_in_pairs(const TirPlan *plan)
{
    return tir_is_clustered(plan) && tir_adding_warps(plan) > 0;
}

const TirOp *
tir_pair_send(const TirVal *value)
{
    for (uint32_t i = 0; i < value->block->ops.n; i++) {
        const TirOp *op = value->block->ops.at[i];
        if (op->op == TIR_PAIR_SEND && op->args[0] == value)
            return op;
    }
    return NULL;
}

uint32_t
tir_program_step(const TirPlan *plan)
{
    return tir_multiplies_in_pairs(plan) ? 2 : 1;
}

uint32_t
tir_programs(const TirPlan *plan)
{
    return tir_own_programs(plan) * tir_program_step(plan);
}

/* Whether consumers find out about their next tile in the one before. */
static bool
looks_ahead(const TirPlan *plan, RoleKind kind)
{
    return kind == ROLE_CONSUMER && tir_role(plan, ROLE_NEXT_TILE) != NULL;
}

TirOpcode
tir_tile_head(const TirPlan *plan, RoleKind kind)
{
    if (looks_ahead(plan, kind))
        return TIR_TILE_TAKE;
    return !tir_is_dynamic(plan)   ? TIR_TILE_FIND
           : kind == ROLE_PRODUCER ? TIR_TILE_SEND
                                   : TIR_TILE_RECEIVE;
}

TirOpcode
tir_tile_tail(const TirPlan *plan, RoleKind kind)
{
    if (looks_ahead(plan, kind))
        return TIR_TILE_LATE;
    if (tir_is_dynamic(plan) && kind == ROLE_PRODUCER)
        return tir_has_clc(plan) ? TIR_TILE_ANSWER : TIR_TILE_DRAW;
    return tir_is_persistent(plan) && !tir_is_dynamic(plan) ? TIR_TILE_ADVANCE : TIR_TILE_END;
}

bool
tir_is_tile_op(TirOpcode opcode)
{
    return opcode >= TIR_TILE_FIND && opcode <= TIR_TILE_END;
}

bool
tir_is_pipeline(const TirShared *shared)
{
    return shared->kind == SHARED_PIPELINE || shared->kind == SHARED_VECTORS ||
           shared->kind == SHARED_TMEM;
}

const char *
tir_buffer_name(Arena *arena, const TirShared *shared)
{
    return arena_printf(arena, "$%s_%u", shared->name == NULL ? "" : shared->name, shared->id);
}

/* ---- what operations say ---- */

static bool
some_operation(const TirBlock *block, bool (*holds)(const TirOp *))
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (holds(walk.op))
            return true;
    }
    return false;
}

static bool
is_behind(const TirOp *op)
{
    return op->op == TIR_MMA && op->stage > 0;
}

static bool
is_ahead(const TirOp *op)
{
    return op->op == TIR_MMA && op->stage < 0;
}

static bool
is_shared_out(const TirOp *op)
{
    return op->op == TIR_MMA && op->coop_k;
}

static bool
takes_turn(const TirOp *op)
{
    return op->op == TIR_PINGPONG_WAIT;
}

static bool
begins_apart(const TirOp *op)
{
    return op->op == TIR_FOR && op->hints.staggered;
}

bool
tir_is_staggered(const TirBlock *program)
{
    return some_operation(program, begins_apart);
}

bool
tir_is_pipelined(const TirFn *fn)
{
    return some_operation(fn->body, is_behind);
}

bool
tir_has_lookahead(const TirFn *fn)
{
    return some_operation(fn->body, is_ahead);
}

bool
tir_has_coop_k(const TirFn *fn)
{
    return some_operation(fn->body, is_shared_out);
}

bool
tir_shares_out(const TirFn *fn)
{
    return tir_has_coop_k(fn) && !tir_is_cooperative(fn->plan);
}

bool
tir_fits_atom_columns(const TirFn *fn)
{
    return tir_shares_out(fn) && !tir_has_issuer(fn->plan);
}

int32_t
tir_fitting_atom_column(int32_t row)
{
    enum { NARROWER = SWIZZLE_BYTES / 2 };

    return row > SWIZZLE_BYTES && row % SWIZZLE_BYTES == NARROWER ? NARROWER : SWIZZLE_BYTES;
}

int32_t
tir_atom_column_in_registers(int32_t row)
{
    int32_t bytes = tir_fitting_atom_column(row);

    while (bytes > SWIZZLE_LEAST && row <= bytes / 2)
        bytes /= 2;
    return bytes;
}

int32_t
tir_half_atom_column(const TirOp *load)
{
    const TirShared *in = load->shared;
    int32_t bytes = SWIZZLE_BYTES;

    if (!in->halved || tir_index_type(load).dim[1] == in->cols)
        return 0;
    while (bytes > SWIZZLE_LEAST && in->cols * (int32_t)dtype_bits(in->dtype) / 8 % bytes != 0)
        bytes /= 2;
    return bytes;
}

bool
tir_has_pingpong(const TirFn *fn)
{
    return some_operation(fn->body, takes_turn);
}
