/* tir_verify_plan.c - the invariants of plans, pipelines and asynchronous products.
 *
 * Checks which operations each role may have, and walks over the consumers' program with the set of
 * stages that are waited for and not yet released, the products that may still run, and the
 * ping-pong turn.  Each loop and each branch must leave these as it found them.  Whether the roles
 * fit together is checked by pass check-roles.
 */
#include "compiler/ir/tir_verifier.h"

#include "compiler/ir/isa.h"
#include "compiler/ir/tir_walk.h"

#include <inttypes.h>
#include <string.h>

/* Products that may run at once in a verified program (the passes make fewer); registers of a
 * thread, the most of any target's roles. */
enum { MOST_IN_FLIGHT = 16, MOST_REGISTERS = 240 };

/* A stage that a product reads: `behind` waits of the pipeline ago; -1: a part of the next one. */
typedef struct StageUse {
    const TirShared *pipeline;
    int32_t behind;
} StageUse;

typedef struct InFlight {
    const TirVal *result; /* NULL: nobody can ask for it any more */
    StageUse stages[2];
} InFlight;

/* What holds at a place of the program. */
typedef struct Flow {
    uint32_t n;
    InFlight in_flight[MOST_IN_FLIGHT]; /* in order of issue */
    bool turn;                          /* it is this consumer's turn */
    bool next;                          /* what the next tile is may have been found out */
    uint32_t *held;                     /* by pipeline: stages waited for and not given back */
    /* by pipeline: the number of the stage last waited for, and of that of which the consumer
     * waited for its own part; 0: not known */
    uint32_t *stage, *own;
} Flow;

/* ---- the plan itself ---- */

/* Of a row, in swizzle atom columns. */
static int64_t
row_bytes(const TirShared *shared)
{
    int64_t bytes = (int64_t)shared->cols * dtype_bits(shared->dtype) / 8;

    return (bytes + SWIZZLE_BYTES - 1) / SWIZZLE_BYTES * SWIZZLE_BYTES;
}

static void
check_registers(Verifier *v, const char *whose, uint32_t n)
{
    if (n != 0 && (n % REGISTER_STEP != 0 || n < REGISTERS_LEAST || n > MOST_REGISTERS))
        tir_fault(v, NULL,
                  "role %s has %" PRIu32 " registers, expected a multiple of 8 in 24 .. 240", whose,
                  n);
}

/* A block begins with as many registers for each thread; roles can not take more from others. */
static void
check_all_registers(Verifier *v)
{
    uint32_t threads = tir_block_warps(v->fn->plan) * WARP_LANES;
    uint32_t each = SM_REGISTERS / threads / REGISTER_STEP * REGISTER_STEP;

    if (tir_role_registers(v->fn->plan) > each * threads)
        tir_fault(v, NULL,
                  "the roles have %" PRIu32 " registers together, and a block of %" PRIu32
                  " threads begins with %" PRIu32,
                  tir_role_registers(v->fn->plan), threads, each * threads);
}

/* What goes between which roles, and where; a reduce role that reads results is a warp group. */
static const struct {
    SharedKind kind;
    RoleKind from, to;
} channels[] = {
    {SHARED_PIPELINE, ROLE_PRODUCER, ROLE_CONSUMER}, /* tiles */
    /* .. for products that a role of their own issues */
    {SHARED_PIPELINE, ROLE_PRODUCER, ROLE_MMA},
    {SHARED_PIPELINE, ROLE_CONSUMER, ROLE_MMA},       /* operands */
    {SHARED_VECTORS, ROLE_PRODUCER, ROLE_CONSUMER},   /* vectors */
    {SHARED_VECTORS, ROLE_CONSUMER, ROLE_CORRECTION}, /* factors */
    {SHARED_TMEM, ROLE_MMA, ROLE_CONSUMER},           /* results */
    {SHARED_TMEM, ROLE_MMA, ROLE_REDUCE},             /* .. that are added to memory */
    {SHARED_TMEM, ROLE_MMA, ROLE_CORRECTION},         /* .. that are changed between products */
    {SHARED_TMEM, ROLE_CONSUMER, ROLE_MMA},           /* operands */
    {SHARED_TMEM, ROLE_CORRECTION, ROLE_MMA},         /* sums that can be added to */
};

static bool
has_role(const TirPlan *plan, RoleKind kind)
{
    return kind == ROLE_REDUCE ? tir_adding_warps(plan) > 0 : tir_role(plan, kind) != NULL;
}

static void
buffer_fault(Verifier *v, const TirShared *buffer, const char *text)
{
    tir_fault(v, NULL, "buffer %" PRIu32 " %s", buffer->id, text);
}

static void
check_channel(Verifier *v, const TirShared *pipeline)
{
    const TirPlan *plan = v->fn->plan;
    bool known = false;

    for (size_t k = 0; k < sizeof channels / sizeof *channels; k++)
        known = known || (channels[k].kind == pipeline->kind &&
                          channels[k].from == pipeline->from && channels[k].to == pipeline->to);
    if (plan != NULL && tir_is_pipeline(pipeline) &&
        !(known && has_role(plan, pipeline->from) && has_role(plan, pipeline->to)))
        tir_fault(v, NULL, "buffer %" PRIu32 " can not go from role %s to role %s", pipeline->id,
                  tir_role_kind_name(pipeline->from), tir_role_kind_name(pipeline->to));
}

static void
check_tmem(Verifier *v, const TirShared *pipeline)
{
    const TirPlan *plan = v->fn->plan;
    bool written = pipeline->from == ROLE_CONSUMER;

    check_channel(v, pipeline);
    if (pipeline->kind != SHARED_TMEM) {
        bool one = written && tir_is_pipeline(pipeline); /* of one stage, or one consumer */
        if ((one && (pipeline->stages > 1 || (pipeline->kind == SHARED_PIPELINE && plan != NULL &&
                                              tir_consumers(plan) > 1))) ||
            pipeline->carried || (pipeline->column > 0 && pipeline->scales == 0))
            buffer_fault(v, pipeline, "is what only one in tensor memory can be");
        return;
    }
    if (pipeline->halved || pipeline->lag + pipeline->held > 0 ||
        dtype_bits(pipeline->dtype) != (written ? 16 : 32) || pipeline->rows != TMEM_LANES)
        tir_fault(v, NULL,
                  "buffer %" PRIu32
                  " lies in tensor memory, but is no plain pipeline of %d rows of 32 bits, or of 16 "
                  "bits that a consumer fills",
                  pipeline->id, TMEM_LANES);
    if (pipeline->offset + (uint64_t)pipeline->stages * tir_tmem_columns(pipeline) >
        tir_tmem_part(v->fn))
        tir_fault(v, NULL,
                  "buffer %" PRIu32
                  " lies behind the columns of its consumer, of which there are %" PRIu32,
                  pipeline->id, tir_tmem_part(v->fn));
    if (pipeline->column % PIECE_COLUMNS != 0 || (pipeline->column > 0 && !written))
        tir_fault(v, NULL,
                  "buffer %" PRIu32 " is no piece of an operand that begins at a multiple of %d",
                  pipeline->id, PIECE_COLUMNS);
    if (pipeline->from == ROLE_CORRECTION && pipeline->over == NULL)
        buffer_fault(v, pipeline, "is over no sum that a correction role changes");
    if (pipeline->carried && pipeline->stages != 1)
        buffer_fault(v, pipeline, "is carried, but has more than one stage");
    if (pipeline->carried && pipeline->to == ROLE_REDUCE)
        buffer_fault(v, pipeline, "is carried, and for the reduce role");
}

/* Scales come for one consumer, whose tiles nobody draws. */
static void
check_scales(Verifier *v, const TirShared *scales)
{
    const TirPlan *plan = v->fn->plan;

    if (scales->scales > 0 &&
        (scales->kind != SHARED_PIPELINE || scales->from != ROLE_PRODUCER ||
         scales->to != ROLE_MMA || dtype_bits(scales->dtype) != 8 ||
         scales->places > scales->stages || plan == NULL || tir_consumers(plan) > 1 ||
         tir_is_clustered(plan) || tir_is_dynamic(plan)))
        buffer_fault(v, scales, "has scales, but is no plain pipeline of bytes for the mma role");
}

/* Half of a tile that the blocks of a pair add up. */
static void
check_sent(Verifier *v, const TirShared *sent)
{
    const TirPlan *plan = v->fn->plan;

    if (sent->kind == SHARED_SENT &&
        (plan == NULL || !tir_adds_in_pairs(plan) || sent->dtype != DT_F32 ||
         sent->rows != TMEM_LANES || sent->cols % SENT_AT_ONCE != 0 || sent->stages != 1))
        buffer_fault(v, sent, "is no half of a tile of f32 that the blocks of a pair add up");
}

/* A buffer that lies over another: a result on its way to memory, or an operand in the columns of a
 * result. */
static void
check_over(Verifier *v, const TirShared *buffer)
{
    const TirShared *below = buffer->over;

    if (below == NULL)
        return;
    if (buffer->kind == SHARED_TMEM) {
        bool ready = buffer->from == ROLE_CORRECTION;
        if ((buffer->from == ROLE_MMA && buffer->to != ROLE_REDUCE) || buffer->stages != 1 ||
            !tir_is_one_place(below) || below->from != ROLE_MMA || below->carried != ready ||
            below->to == ROLE_REDUCE ||
            tir_tmem_first(buffer) + tir_tmem_columns(buffer) > tir_tmem_columns(below))
            buffer_fault(v, buffer, "does not lie over results of one stage");
    } else if (buffer->kind != SHARED_STAGING || !below->each || below->held == 0 ||
               below->rows != buffer->rows || row_bytes(below) < row_bytes(buffer)) {
        buffer_fault(v, buffer, "does not alias a stage of a pipeline with deferred release");
    }
}

/* A consumer has a warp group; the only one may have two, where another role issues its
 * products. */
static void
check_warps(Verifier *v, const TirRole *consumers)
{
    const TirPlan *plan = v->fn->plan;
    uint32_t warps = v->fn->warps;
    bool wide = warps == 2 * GROUP_WARPS && tir_has_issuer(plan) && tir_consumers(plan) == 1;

    if (warps != GROUP_WARPS && !wide)
        tir_fault(v, NULL, "a warp group has 4 warps, not %" PRIu32, warps);
    if (consumers != NULL && consumers->warps != warps)
        tir_fault(v, NULL, "role %s has %" PRIu32 " warps, expected the %" PRIu32 " of a %s",
                  consumers->name, consumers->warps, warps, wide ? "consumer" : "warp group");
}

static void
check_producers(Verifier *v, const TirPlan *plan)
{
    const TirRole *producer = tir_role(plan, ROLE_PRODUCER);
    bool alone = tir_is_dynamic(plan) || tir_is_clustered(plan) || tir_has_issuer(plan) ||
                 tir_role(plan, ROLE_REDUCE) != NULL;

    if (producer == NULL)
        tir_fault(v, NULL, "the plan has no producer");
    else if (producer->instances < 1 || producer->instances > (alone ? 1 : GROUP_WARPS))
        tir_fault(v, NULL, "there are %" PRIu32 " producers, expected %s", producer->instances,
                  alone ? "1: tiles are drawn, blocks are pairs, or its warps have other roles"
                        : "1 .. 4");
}

static void
check_facts(Verifier *v)
{
    const TirFn *fn = v->fn;
    const TirPlan *plan = fn->plan;
    const TirRole *consumers = plan == NULL ? NULL : tir_role(plan, ROLE_CONSUMER);

    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *pipeline = fn->shared.at[k];
        if (tir_is_pipeline(pipeline) && plan == NULL)
            buffer_fault(v, pipeline, "is a pipeline, but there is no plan");
        if (pipeline->lag > 0 && (!tir_is_pipeline(pipeline) || pipeline->stages < 2))
            buffer_fault(v, pipeline, "has a release lag, but is no pipeline of two stages");
        const TirShared *other = pipeline->with;
        if (other != NULL &&
            (pipeline->kind != SHARED_VECTORS || !tir_is_pipeline(other) || other->with != NULL ||
             other->each || other->lag > 0 || other->stages != pipeline->stages ||
             other->barriers != pipeline->barriers))
            tir_fault(
                v, NULL,
                "pipeline %" PRIu32 " has not the barriers of the pipeline it shares them with", k);
        if (pipeline->in_registers &&
            (pipeline->kind != SHARED_PIPELINE || pipeline->from != ROLE_PRODUCER ||
             pipeline->to != ROLE_CONSUMER))
            buffer_fault(v, pipeline,
                         "is read in registers, but not filled by the producer for consumers");
        check_scales(v, pipeline);
        if (pipeline->each && !tir_is_pipeline(pipeline))
            buffer_fault(v, pipeline, "has parts for consumers, but is no pipeline");
        if (pipeline->held > 0 && (!tir_is_pipeline(pipeline) || pipeline->stages < 2 ||
                                   pipeline->lag > 0 || pipeline->kind == SHARED_VECTORS))
            buffer_fault(v, pipeline,
                         "has a deferred release, but is no pipeline of tiles of two stages");
        check_over(v, pipeline);
        if (pipeline->halved &&
            (pipeline->kind != SHARED_PIPELINE || plan == NULL || !tir_multiplies_in_pairs(plan)))
            buffer_fault(v, pipeline, "is filled by pairs of blocks, but no pipeline of such");
        check_tmem(v, pipeline);
        check_sent(v, pipeline);
    }
    if (plan == NULL)
        return;
    if (tir_consumers(plan) < 1 || tir_consumers(plan) > MOST_CONSUMERS)
        tir_fault(v, NULL, "the plan has %" PRIu32 " consumers, expected 1 .. %d",
                  tir_consumers(plan), MOST_CONSUMERS);
    check_producers(v, plan);
    if (!tir_is_cooperative(plan) && plan->tiles.axis >= fn->grid.n)
        tir_fault(v, NULL, "the plan's axis is none of the grid");
    if (plan->tiles.swizzle != 0 &&
        (plan->tiles.swizzle_axis < 1 || plan->tiles.swizzle_axis >= fn->grid.n))
        tir_fault(v, NULL, "the tile swizzle runs along no second axis of the grid");
    if (plan->tiles.reversed &&
        (tir_own_programs(plan) == 1 || tir_is_clustered(plan) || tir_has_coop_k(fn)))
        tir_fault(
            v, NULL,
            "tiles are counted from the end, where no consumer may be without a program of its own");
    if (tir_is_clustered(plan) && (!tir_has_issuer(plan) || tir_is_cooperative(plan) ||
                                   plan->tiles.scheduler == TILES_DYNAMIC))
        tir_fault(
            v, NULL,
            "the blocks of a pair have a dynamic scheduler, no mma role, or are no neighbours");
    check_warps(v, consumers);
    check_all_registers(v);
    for (uint32_t k = 0; k < plan->roles.n; k++) {
        const TirRole *role = &plan->roles.at[k];
        if (role->kind != ROLE_MMA && role->kind != ROLE_NEXT_TILE)
            check_registers(v, role->name, role->registers);
        if ((role->kind == ROLE_MMA || role->kind == ROLE_PRODUCER) && role->warps != 1)
            tir_fault(v, NULL, "role %s has %" PRIu32 " warps, expected 1", role->name, role->warps);
        if (role->kind == ROLE_REDUCE &&
            (role->warps == GROUP_WARPS
                 ? !tir_has_issuer(plan) || tir_consumers(plan) != 1 || role->instances != 1
                 : role->warps != 1))
            tir_fault(v, NULL,
                      "role %s has %" PRIu32
                      " warps, expected 1 for each consumer, or a warp group",
                      role->name, role->warps);
        if (role->kind == ROLE_CORRECTION &&
            (role->warps != GROUP_WARPS || v->fn->warps != GROUP_WARPS || role->instances != 1 ||
             !tir_has_issuer(plan) || tir_is_clustered(plan)))
            tir_fault(v, NULL, "role %s is no warp group beside an mma role and consumers of one",
                      role->name);
    }
}

/* Operations that only a program of roles has, where there are none. */
static void
check_no_roles(Verifier *v, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        uint32_t flags = tir_op_info(op->op)->flags;
        bool divided = (flags & TF_PURE) != 0 && v->fn->plan != NULL &&
                       tir_is_cooperative(v->fn->plan); /* there are parts of tiles before */
        if ((flags & TF_ROLE) != 0 && !divided)
            tir_fault(v, op, "stands in a kernel without roles");
        if (op->op == TIR_MMA && op->async && v->fn->plan == NULL)
            tir_fault(v, op, "is asynchronous in a kernel without a plan");
    }
}

/* ---- the producer, the mma role ---- */

static void
check_producer(Verifier *v, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        bool own = op->op == TIR_TMA_LOAD || (tir_is_of_any_role(op) && op->op != TIR_CONSUMER);
        if (!tir_is_scalar_op(op) || !own) {
            tir_fault(v, op, "is nothing that a producer does");
            continue;
        }
        if (op->op == TIR_GRID_FIRST && op->integer == (int64_t)v->fn->plan->tiles.axis &&
            !v->fn->plan->tiles.reversed && !tir_multiplies_in_pairs(v->fn->plan))
            tir_fault(v, op, "is a block's first program, and tiles are not counted from the end");
        if (tir_copy_condition(op) != NULL &&
            (op->n_limits > 0 || op->shared == NULL || op->shared->kind != SHARED_PIPELINE))
            tir_fault(v, op, "has a condition, which only a copy of a whole tile can have");
        if (tir_copy_condition(op) != NULL && tir_multiplies_in_pairs(v->fn->plan))
            tir_fault(v, op, "has a condition, and a pair's first block waits for both copies");
        if (op->op == TIR_TMA_LOAD &&
            (op->integer < 0 || op->integer >= (int64_t)tir_parts(v->fn->plan, op->shared)))
            tir_fault(v, op, "copies for consumer %" PRId64 " of %" PRIu32, op->integer,
                      tir_parts(v->fn->plan, op->shared));
    }
}

/* The reading of a pipeline, or of what all consumers write, that an operand is; NULL: it is
 * none. */
static const TirOp *
read_behind(const TirVal *value)
{
    const TirOp *def = value->def;

    while (def != NULL && (def->op == TIR_TRANSPOSE || def->op == TIR_PART))
        def = def->args[0]->def;
    if (def == NULL || def->op != TIR_SHARED_READ)
        return NULL;
    return tir_is_pipeline(def->shared) || def->shared->kind == SHARED_PARTS ? def : NULL;
}

/* The mma role: scalars, waits for what products read, products, and what these fill; a stage is
 * acquired, then committed, in the same block. */
static void
check_issuer(Verifier *v, const TirBlock *block)
{
    uint32_t n = v->fn->shared.n;
    bool *acquired = arena_array(v->out->arena, bool, n *MOST_CONSUMERS + 1);

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool fills = op->op == TIR_PRODUCER_ACQUIRE || op->op == TIR_PRODUCER_COMMIT;
        bool own = fills || op->op == TIR_TMEM_MMA || op->op == TIR_CONSUMER_WAIT ||
                   op->op == TIR_CONSUMER_RELEASE || op->op == TIR_SHARED_READ ||
                   op->op == TIR_TRANSPOSE || (tir_is_scalar_op(op) && tir_is_of_any_role(op));
        for (uint32_t k = 0; k < op->n_blocks; k++)
            check_issuer(v, op->blocks[k]);
        if (!own)
            tir_fault(v, op, "is nothing that the mma role does");
        bool in_turn = fills && !tir_is_one_place(op->shared);
        if (op->shared != NULL &&
            (op->integer < 0 || op->integer >= (int64_t)tir_parts(v->fn->plan, op->shared))) {
            tir_fault(v, op, "is for consumer %" PRId64 " of %" PRIu32, op->integer,
                      tir_parts(v->fn->plan, op->shared));
            continue;
        }
        bool *held = in_turn ? &acquired[op->shared->id * MOST_CONSUMERS + (uint32_t)op->integer]
                             : NULL;
        if (in_turn && *held == (op->op == TIR_PRODUCER_ACQUIRE))
            tir_fault(v, op, "a stage is not acquired and committed in turn");
        if (in_turn)
            *held = op->op == TIR_PRODUCER_ACQUIRE;
        bool reads = op->op == TIR_CONSUMER_WAIT || op->op == TIR_CONSUMER_RELEASE ||
                     op->op == TIR_SHARED_READ;
        if (((fills || op->op == TIR_TMEM_MMA) && op->shared->from != ROLE_MMA) ||
            (reads && op->shared->to != ROLE_MMA))
            tir_fault(v, op,
                      "the mma role fills what a consumer fills, or reads what it fills itself");
        for (uint32_t k = 0; op->op == TIR_TMEM_MMA && k < op->n_args; k++) {
            if (k == 2)
                continue;
            const TirOp *read = read_behind(op->args[k]);
            if (read == NULL)
                tir_fault(v, op, "operand %" PRIu32 " is in no pipeline", k);
            else if (read->shared->kind == SHARED_TMEM && (k > 0 || op->args[k]->def != read))
                tir_fault(v, op, "operand %" PRIu32 " can not lie so in tensor memory", k);
            else if ((read->shared->scales > 0) != (k > 2))
                tir_fault(v, op, "operand %" PRIu32 " is %s", k, k > 2 ? "no scales" : "of scales");
        }
    }
    for (uint32_t k = 0; k < n * MOST_CONSUMERS; k++) {
        if (acquired[k])
            tir_fault(v, NULL, "a stage of pipeline %" PRIu32 " is acquired and not committed",
                      k / MOST_CONSUMERS);
    }
}

static bool
is_added_from(const TirBlock *block, const TirShared *staging)
{
    bool added = false;

    if (block == NULL)
        return false;
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);)
        added = added || (walk.op->op == TIR_TMA_REDUCE_ADD && walk.op->shared == staging);
    return added;
}

/* ---- what is found out about the next tile ---- */

/* Scalars, and how many of them are kept. */
static uint32_t
check_next_tile(Verifier *v, const TirBlock *block)
{
    uint32_t n = 0;

    for (uint32_t i = 0; block != NULL && i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (!tir_is_scalar_op(op) || op->n_blocks > 0 || !tir_is_of_any_role(op))
            tir_fault(v, op, "is nothing that can be found out about a tile");
        n += op->kept != 0;
    }
    return n;
}

/* Notes by which operations of `block` the `n` numbers are kept: each by one, an integer. */
static void
note_kept(Verifier *v, const TirBlock *block, const TirOp **by, uint32_t n)
{
    if (block == NULL)
        return;
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->kept == 0)
            continue;
        if (op->kept > n || by[op->kept - 1] != NULL)
            tir_fault(v, op, "is kept as number %" PRIu32 " of %" PRIu32 "%s", op->kept - 1, n,
                      op->kept > n ? "" : ", as another is");
        else if (op->n_results != 1 || !tir_type_eq(op->results[0]->type, tir_scalar(DT_I32)))
            tir_fault(v, op, "is kept, but is no integer");
        else
            by[op->kept - 1] = op;
    }
}

static void
check_kept(Verifier *v)
{
    const TirPlan *plan = v->fn->plan;
    uint32_t n = check_next_tile(v, tir_program(plan, ROLE_NEXT_TILE));
    const TirOp **found = arena_array(v->out->arena, const TirOp *, n + 1);
    const TirOp **used = arena_array(v->out->arena, const TirOp *, n + 1);

    note_kept(v, tir_program(plan, ROLE_NEXT_TILE), found, n);
    note_kept(v, v->fn->body, used, n);
    for (uint32_t k = 0; k < n; k++) {
        if (found[k] != NULL && used[k] == NULL)
            tir_fault(v, found[k], "is kept for the next tile, which has nothing of that number");
    }
}

/* ---- the computing warp groups ---- */

static Flow
flow_copy(Verifier *v, const Flow *from)
{
    uint32_t n = v->fn->shared.n;
    Flow to = *from;

    to.held = arena_array(v->out->arena, uint32_t, n + 1);
    to.stage = arena_array(v->out->arena, uint32_t, n + 1);
    to.own = arena_array(v->out->arena, uint32_t, n + 1);
    if (from->held != NULL) {
        memcpy(to.held, from->held, n * sizeof *to.held);
        memcpy(to.stage, from->stage, n * sizeof *to.stage);
        memcpy(to.own, from->own, n * sizeof *to.own);
    }
    return to;
}

static bool
is_in_flight(const Flow *flow, const TirVal *value)
{
    for (uint32_t k = 0; k < flow->n; k++) {
        if (flow->in_flight[k].result == value)
            return true;
    }
    return false;
}

/* What is passed on, or added to, need not be there yet. */
static bool
may_be_in_flight(const TirOp *op, uint32_t k)
{
    uint32_t bounds = 2 + (op->n_segments > 1 ? op->n_segments - 1 : 0);

    return op->op == TIR_YIELD || (op->op == TIR_MMA && op->async && k == 2) ||
           (op->op == TIR_FOR && k >= bounds);
}

/* Values have other names behind a branch or loop, and in its blocks. */
static void
rename_in_flight(Flow *flow, uint32_t n, TirVal *const *from, TirVal *const *to)
{
    for (uint32_t i = 0; i < flow->n; i++) {
        for (uint32_t k = 0; k < n; k++) {
            if (flow->in_flight[i].result == from[k]) {
                flow->in_flight[i].result = to[k];
                break;
            }
        }
    }
}

/* `other` is another way to come here. */
static void
check_same(Verifier *v, const TirOp *op, Flow *flow, const Flow *other, const char *ways)
{
    bool same = flow->n == other->n;

    for (uint32_t k = 0; same && k < flow->n; k++)
        same = flow->in_flight[k].result == other->in_flight[k].result;
    if (!same)
        tir_fault(v, op, "%s differ in the products that may still run", ways);
    if (flow->turn != other->turn)
        tir_fault(v, op, "%s differ in whose turn it is", ways);
    flow->next = flow->next || other->next;
    for (uint32_t k = 0; k < v->fn->shared.n; k++) {
        if (flow->held[k] != other->held[k])
            tir_fault(v, op,
                      "%s differ in the stages of pipeline %" PRIu32 " that are not given back",
                      ways, k);
        if (flow->stage[k] != other->stage[k])
            flow->stage[k] = 0;
        if (flow->own[k] != other->own[k])
            flow->own[k] = 0;
    }
}

static uint32_t *
stage_of_read(Flow *flow, const TirOp *read)
{
    return &(read->own ? flow->own : flow->stage)[read->shared->id];
}

static void
check_mma(Verifier *v, const TirOp *op, Flow *flow)
{
    InFlight made = {.result = op->results[0]};
    uint32_t right = op->swap_ab ? 0 : 1;

    if (!op->async) {
        tir_fault(v, op, "is a product of warps in a program for warp groups");
        return;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const TirOp *read = read_behind(op->args[k]);
        if (read == NULL && k == right)
            tir_fault(v, op, "its right operand is in no pipeline");
        /* barriers of the consumers guard the others */
        if (read == NULL || !tir_is_pipeline(read->shared))
            continue;
        uint32_t stage = v->stage_of[read->results[0]->id];
        if (stage == 0 || *stage_of_read(flow, read) != stage)
            tir_fault(v, op, "operand %" PRIu32 " is not in the stage last waited for", k);
        if (read->shared->in_registers)
            tir_fault(v, op, "operand %" PRIu32 " lies as it is read in registers", k);
        made.stages[k] = (StageUse){read->shared, read->own ? -1 : 0};
    }
    if (flow->n == MOST_IN_FLIGHT)
        tir_fault(v, op, "too many products may still run");
    else
        flow->in_flight[flow->n++] = made;
}

static void
check_wait(Verifier *v, const TirOp *op, Flow *flow)
{
    if (op->integer < 0 || op->integer >= flow->n) {
        tir_fault(v, op, "lets %" PRId64 " products run, and no more than %" PRIu32 " do",
                  op->integer, flow->n);
        return;
    }
    uint32_t left = (uint32_t)op->integer;
    memmove(flow->in_flight, flow->in_flight + flow->n - left, left * sizeof flow->in_flight[0]);
    flow->n = left;
}

static void
check_consumer_wait(Verifier *v, const TirOp *op, Flow *flow)
{
    const TirShared *pipeline = op->shared;

    if (op->own) { /* it takes none */
        flow->own[pipeline->id] = ++v->stages;
        return;
    }
    if (tir_is_one_place(pipeline))
        return;
    if (flow->held[pipeline->id] == pipeline->stages)
        tir_fault(v, op, "waits for a stage of a pipeline that is all held");
    flow->held[pipeline->id]++;
    flow->stage[pipeline->id] = ++v->stages;
    for (uint32_t i = 0; i < flow->n; i++) {
        for (uint32_t k = 0; k < 2; k++)
            flow->in_flight[i].stages[k].behind += flow->in_flight[i].stages[k].pipeline ==
                                                   pipeline;
    }
}

static void
check_consumer_release(Verifier *v, const TirOp *op, Flow *flow)
{
    const TirShared *pipeline = op->shared;
    uint32_t *held = &flow->held[pipeline->id];

    if (tir_is_one_place(pipeline))
        return;
    if (*held == 0) {
        tir_fault(v, op, "gives back a stage that is not held");
        return;
    }
    bool read = false;
    for (uint32_t i = 0; i < flow->n; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            const StageUse *use = &flow->in_flight[i].stages[k];
            read = read || (use->pipeline == pipeline && use->behind + 1 >= (int32_t)*held);
        }
    }
    if (read)
        tir_fault(v, op, "gives back a stage that a product still reads");
    if (--*held == 0)
        flow->stage[pipeline->id] = 0;
}

/* What leaves over a stage of a pipeline is written to the one waited for last, and not read. */
static void
check_store(Verifier *v, const TirOp *op, const Flow *flow)
{
    const TirShared *pipeline = op->shared->over;
    bool read = false;

    if (pipeline == NULL)
        return;
    for (uint32_t i = 0; i < flow->n; i++) {
        for (uint32_t k = 0; k < 2; k++)
            read = read || (flow->in_flight[i].stages[k].pipeline == pipeline &&
                            flow->in_flight[i].stages[k].behind == 0);
    }
    if (flow->held[pipeline->id] == 0)
        tir_fault(v, op, "is written to a pipeline of which no stage is held");
    if (read)
        tir_fault(v, op, "is written to a stage that a product still reads");
}

static void
check_pingpong(Verifier *v, const TirOp *op, Flow *flow)
{
    bool take = op->op == TIR_PINGPONG_WAIT;

    if (tir_consumers(v->fn->plan) < 2) {
        tir_fault(v, op, "is for several consumers, which take turns");
        return;
    }
    if (flow->turn == take)
        tir_fault(v, op, take ? "takes a turn twice" : "passes on a turn that it does not have");
    flow->turn = take;
}

static void
check_next(Verifier *v, const TirOp *op, Flow *flow)
{
    if (!tir_is_persistent(v->fn->plan))
        tir_fault(v, op, "asks for a next tile, but a block has only one");
    else if (tir_program(v->fn->plan, ROLE_NEXT_TILE) == NULL)
        tir_fault(v, op, "asks for a next tile, but no program 'next_tile' finds out about it");
    if (flow->next)
        tir_fault(v, op, "asks for the next tile twice");
    flow->next = true;
}

static void walk(Verifier *v, const TirBlock *block, Flow *flow);

/* Inside a loop, the stage last waited for may be the one of the iteration before. */
static void
forget_stages(const TirBlock *block, Flow *flow)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (walk.op->op == TIR_CONSUMER_WAIT)
            *stage_of_read(flow, walk.op) = 0;
    }
}

static void
walk_loop(Verifier *v, const TirOp *loop, Flow *flow)
{
    const TirBlock *body = loop->blocks[0];
    uint32_t n = loop->n_results;
    const TirOp *yield = body->ops.at[body->ops.n - 1];

    forget_stages(body, flow);
    Flow inside = flow_copy(v, flow);
    rename_in_flight(&inside, n, loop->args + loop->n_args - n, body->params.at + 1);
    Flow begin = flow_copy(v, &inside);
    walk(v, body, &inside);
    rename_in_flight(&inside, n, yield->args, body->params.at + 1);
    if (inside.next && !begin.next)
        tir_fault(v, loop, "asks for the next tile in an iteration");
    check_same(v, loop, &begin, &inside, "an iteration's begin and its end");
    rename_in_flight(flow, n, loop->args + loop->n_args - n, loop->results);
}

static void
walk_branch(Verifier *v, const TirOp *branch, Flow *flow)
{
    Flow ways[2];

    for (uint32_t k = 0; k < 2; k++) {
        const TirBlock *block = branch->blocks[k];
        ways[k] = flow_copy(v, flow);
        walk(v, block, &ways[k]);
        rename_in_flight(&ways[k], branch->n_results, block->ops.at[block->ops.n - 1]->args,
                         branch->results);
    }
    check_same(v, branch, &ways[0], &ways[1], "the ways of a branch");
    *flow = ways[0];
}

static void
walk(Verifier *v, const TirBlock *block, Flow *flow)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (!may_be_in_flight(op, k) && is_in_flight(flow, op->args[k]))
                tir_fault(v, op, "operand %" PRIu32 " may still be computed by a product", k);
        }
        const TirShared *with = op->shared;
        bool fills = op->op == TIR_PRODUCER_ACQUIRE || op->op == TIR_PRODUCER_COMMIT;
        bool takes = op->op == TIR_CONSUMER_WAIT || op->op == TIR_CONSUMER_RELEASE;
        if (with != NULL && fills && with->from != ROLE_CONSUMER)
            tir_fault(v, op, "is for the %s role", tir_role_kind_name(with->from));
        if (with != NULL && with->to != ROLE_CONSUMER && (takes || with->to == ROLE_REDUCE))
            tir_fault(v, op, "is for the %s role", tir_role_kind_name(with->to));
        switch (op->op) {
        case TIR_FOR: walk_loop(v, op, flow); break;
        case TIR_IF: walk_branch(v, op, flow); break;
        case TIR_MMA: check_mma(v, op, flow); break;
        case TIR_MMA_WAIT: check_wait(v, op, flow); break;
        case TIR_PRODUCER_ACQUIRE:
        case TIR_CONSUMER_WAIT: check_consumer_wait(v, op, flow); break;
        case TIR_PRODUCER_COMMIT:
        case TIR_CONSUMER_RELEASE: check_consumer_release(v, op, flow); break;
        case TIR_TMA_STORE: check_store(v, op, flow); break;
        case TIR_PINGPONG_WAIT:
        case TIR_PINGPONG_ARRIVE: check_pingpong(v, op, flow); break;
        case TIR_NEXT_TILE: check_next(v, op, flow); break;
        case TIR_TMA_LOAD: tir_fault(v, op, "is for the producer"); break;
        case TIR_WANT: tir_fault(v, op, "is for what consumers want, and no role does it"); break;
        case TIR_TMEM_MMA: tir_fault(v, op, "is for the mma role"); break;
        case TIR_TMEM_READ:
        case TIR_TMEM_WRITE:
            if (flow->held[op->shared->id] == 0 && !tir_is_one_place(op->shared))
                tir_fault(v, op, "there is no stage of its pipeline that is held");
            break;
        case TIR_STAGING_EMPTY:
        case TIR_PAIR_SEND:
        case TIR_PAIR_SUM:
        case TIR_TMA_REDUCE_ADD: tir_fault(v, op, "is for the reduce role"); break;
        case TIR_STAGING_WRITE:
            if (!is_added_from(tir_program(v->fn->plan, ROLE_REDUCE), op->shared))
                tir_fault(v, op, "no reduce role adds from its buffer");
            break;
        case TIR_COPY_ASYNC:
        case TIR_SHARED_WRITE:
            if (tir_is_pipeline(op->shared) &&
                (op->shared->from != ROLE_CONSUMER ||
                 (flow->held[op->shared->id] == 0 && !tir_is_one_place(op->shared))))
                tir_fault(v, op, "writes a pipeline");
            break;
        case TIR_SHARED_READ:
            if (!tir_is_pipeline(op->shared))
                break;
            if (flow->held[op->shared->id] == 0 && !op->own)
                tir_fault(v, op, "reads a pipeline of which no stage is held");
            if (*stage_of_read(flow, op) == 0 && !op->shared->reread && !op->own)
                tir_fault(v, op, "reads a stage of the iteration before, which is not kept");
            if (*stage_of_read(flow, op) == 0) /* of the iteration before */
                *stage_of_read(flow, op) = ++v->stages;
            v->stage_of[op->results[0]->id] = *stage_of_read(flow, op);
            break;
        default: break;
        }
    }
}

void
tir_check_plan(Verifier *v)
{
    const TirPlan *plan = v->fn->plan;
    Flow none = {0};

    check_facts(v);
    if (!v->ok)
        return;
    if (plan == NULL || tir_program(plan, ROLE_PRODUCER) == NULL) {
        check_no_roles(v, v->fn->body);
        return;
    }
    check_producer(v, tir_program(plan, ROLE_PRODUCER));
    if (tir_program(plan, ROLE_REDUCE) != NULL)
        tir_check_reduce(v, tir_program(plan, ROLE_REDUCE));
    if (tir_program(plan, ROLE_MMA) != NULL)
        check_issuer(v, tir_program(plan, ROLE_MMA));
    if (tir_program(plan, ROLE_CORRECTION) != NULL)
        tir_check_correction(v, tir_program(plan, ROLE_CORRECTION));
    check_kept(v);
    for (uint32_t k = 0; k < plan->roles.n; k++) {
        const TirBlock *program = tir_program_at(v->fn, k);
        if (plan->roles.at[k].kind != ROLE_NEXT_TILE && program != NULL)
            tir_check_tiles(v, &plan->roles.at[k], program);
    }
    v->stage_of = arena_array(v->out->arena, uint32_t, v->fn->next_id + 1);
    Flow flow = flow_copy(v, &none);
    for (uint32_t k = 0; k < v->fn->shared.n; k++)
        flow.held[k] = v->fn->shared.at[k]->held;
    walk(v, v->fn->body, &flow);
    if (flow.n > 0)
        tir_fault(v, NULL, "products may still run at the end");
    if (flow.turn)
        tir_fault(v, NULL, "a turn is not passed on");
    for (uint32_t k = 0; k < v->fn->shared.n; k++) {
        bool deferred = v->fn->shared.at[k]->held > 0;
        if (deferred && flow.held[k] != 1)
            tir_fault(v, NULL,
                      "pipeline %" PRIu32 " has a deferred release, but %" PRIu32
                      " stages of it are held at the end",
                      k, flow.held[k]);
        if (!deferred && flow.held[k] > 0)
            tir_fault(v, NULL, "%" PRIu32 " stages of pipeline %" PRIu32 " are not given back",
                      flow.held[k], k);
    }
}
