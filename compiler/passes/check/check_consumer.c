/* check_consumer.c - one consumer's run over one tile: a stage is held while it is read, and a
 * product has ended before its result is read or its operands are overwritten.
 *
 * An asynchronous product owns, until a mma_wait covers it, the registers of its accumulator (its
 * register class), the registers of an operand that is not in shared memory, and the stages of its
 * other operands.  Another product may add to the same register class meanwhile: the products of a
 * warp group run in order.  A register class holds one live value.  Reading a value after its class
 * was reassigned, even by the next iteration, reads the wrong data.
 *
 * What consumers do together.  The time between two barriers of all consumers is an epoch; within
 * one, the order of different consumers is unknown.  Data to which all consumers contribute must be
 * read in a later epoch than it was written or waited for in, and must be written again or released
 * in a later epoch than the last product that reads it ended in.  Consumers that meet at barriers
 * take the same branches (check_roles.c), so each epoch has the same operations for all of them.
 *
 * A pipeline with deferred release holds one stage when a tile begins: that of the tile before,
 * numbered 1 here. The tile releases it, and leaves its own stage held.
 *
 * When a tile is computed.  The lowering evaluates pure operations lazily (lower_value.c): when a
 * reduction, a product, a store, a conversion or a yield first needs the result, or to place it in
 * its register class.  The result is kept until the block runs again.  So an operation reads its
 * operands where its result is first needed, not where it stands, unless acc_classes.c has it
 * evaluated at once.  Operations that only rename registers keep nothing: their readers read the
 * original registers.
 */
#include <string.h>

#include "compiler/passes/check/check_roles.h"

#include "compiler/ir/layout.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/acc_classes.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"
#include "compiler/passes/util/votes.h"

/* ---- what is the same in all runs ---- */

typedef VEC(TirVal *) Inputs;

/* A loop or branch, and what its blocks use from outside. */
typedef struct Region {
    const TirOp *op;
    Inputs inputs;
} Region;

struct ConsumerFacts {
    Arena *arena;
    const TirFn *fn;
    const uint32_t *acc_class; /* by id */
    const bool *at_once;       /* by id (acc_classes.h) */
    uint32_t acc_classes;      /* how many there are */
    bool *renames;             /* by id of the result: may be the operand's own registers */
    VEC(Region) regions;
    bool copies; /* threads copy something */
};

static void
find_inputs(ConsumerFacts *f, Region *region)
{
    for (TirReads reads = tir_reads(region->op); tir_reads_next(&reads);) {
        TirVal *value = reads.value;
        bool known = value->type.rank == 0 || f->acc_class[value->id] != 0 || value->def == NULL ||
                     reads.op == region->op;
        for (uint32_t k = 0; k < region->op->n_blocks && !known; k++)
            known = tir_is_inside(value->block, region->op->blocks[k]);
        for (uint32_t j = 0; j < region->inputs.n && !known; j++)
            known = region->inputs.at[j] == value;
        if (!known)
            vec_push(f->arena, &region->inputs, value);
    }
}

static bool
is_renaming(const ConsumerFacts *f, const TirOp *op)
{
    switch (op->op) {
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_BROADCAST:
    case TIR_TRANSPOSE:
    case TIR_PART:
    case TIR_OWN:
    case TIR_FROM:
    case TIR_MASK:
    case TIR_BOUNDS_MASK:
    case TIR_SELECT: return true;
    case TIR_CAST: return op->args[0]->type.dtype == op->results[0]->type.dtype;
    case TIR_CONVERT: {
        const Layout *from = op->args[0]->layout, *to = op->results[0]->layout;
        bool transposed;
        return op->shared == NULL && view_source(op->args[0], &transposed) == NULL &&
               (from == NULL || to == NULL || layout_register_map(f->arena, from, to) != NULL);
    }
    default: return tir_axis_use(op) == AXIS_REDUCES && vote_makes_rows(f->fn, op);
    }
}

static void
find_facts(ConsumerFacts *f, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->n_results == 1)
            f->renames[op->results[0]->id] = is_renaming(f, op) && !f->at_once[op->results[0]->id];
        f->copies |= op->op == TIR_COPY_ASYNC;
        if (op->n_blocks == 0)
            continue;
        Region region = {.op = op};
        find_inputs(f, &region);
        vec_push(f->arena, &f->regions, region);
    }
}

ConsumerFacts *
consumer_facts(Arena *arena, const TirFn *fn)
{
    ConsumerFacts *f = arena_new(arena, ConsumerFacts);
    MmaAccClasses acc_classes = mma_acc_classes(arena, fn);

    *f = (ConsumerFacts){.arena = arena,
                         .fn = fn,
                         .acc_class = acc_classes.of,
                         .at_once = acc_classes.at_once,
                         .renames = arena_array(arena, bool, fn->next_id + 1)};
    for (uint32_t k = 0; k <= fn->next_id; k++)
        f->acc_classes = f->acc_class[k] > f->acc_classes ? f->acc_class[k] : f->acc_classes;
    find_facts(f, fn->body);
    return f;
}

/* ---- a run ---- */

/* A product that may still run. */
typedef struct InFlight {
    const TirOp *op;
    const TirOp *read[2]; /* operands in shared memory: the shared_read .. */
    /* .. which stage: of a pipeline counted since the tile began, from 1 on */
    uint32_t stage[2];
    const TirVal *registers[2]; /* operands in registers */
} InFlight;

enum { COOP_K_STAGES = 2 }; /* of a buffer of all consumers: the lowering takes them in turn */

/* Epochs between barriers of all consumers, from 1 on, in which .. */
typedef struct Epochs {
    /* .. a stage was last written or waited for (of pipelines: [0]) */
    uint32_t written[COOP_K_STAGES];
    /* .. the last product ended that read all consumers' parts of it */
    uint32_t read[COOP_K_STAGES];
} Epochs;

typedef struct Consumer {
    const ConsumerFacts *facts;
    RoleEvents *events;
    RoleFault *fault;
    const TirOp *now;
    VEC(InFlight) in_flight;
    const TirVal **lives;        /* by register class: whose registers they are now */
    const TirVal ***before;      /* by region: the same before it */
    uint32_t *waited, *released; /* by pipeline */
    uint32_t *left_over;         /* by pipeline: the stage that results were written to; 0: none */
    uint32_t *stage_of;          /* by id of a shared_read: the stage it stands for */
    uint32_t epoch;              /* between barriers of all consumers: which, from 1 on */
    Epochs *epochs;              /* by buffer */
    uint32_t *written_stage;     /* by buffer of all consumers: the one written last */
    bool *made;                  /* by id */
    uint32_t handed_on;          /* how many stages in tensor memory have been, so far */
    const TirVal **read_last; /* by pipeline in tensor memory: the last tile that was read there */
    uint32_t *reached_at;     /* by id of a tmem_read: how many had been when it came */
    /* the pingpong_wait that was not passed on; NULL: it is not its turn */
    const TirOp *turn;
    const Walk *walk;
    Copies *copies; /* or NULL */
} Consumer;

/* ---- faults ---- */

static bool
fail(Consumer *b, const TirOp *other, const char *text)
{
    *b->fault = (RoleFault){text, b->now, other};
    return false;
}

/* `text` has a place for the buffer's name. */
static bool
fail_of(Consumer *b, const TirOp *other, const TirShared *buffer, const char *text)
{
    Arena *arena = b->facts->arena;

    return fail(b, other, arena_printf(arena, text, tir_buffer_name(arena, buffer)));
}

static bool
allow(Consumer *b, const TirShared *buffer, const char *wrong)
{
    return wrong == NULL || fail_of(b, NULL, buffer, wrong);
}

/* ---- registers ---- */

/* The value whose registers `value` has: those of a loop's result are those of what it carries. */
static const TirVal *
same_registers(const Consumer *b, const TirVal *value)
{
    while (value->def != NULL && value->def->op != TIR_SELECT && !tir_combines(value->def) &&
           b->facts->renames[value->id])
        value = value->def->args[0];
    if (value->def != NULL && value->def->op == TIR_FOR)
        value = value->def->blocks[0]->params.at[value->index + 1];
    return value;
}

static bool
write_registers(Consumer *b, const TirVal *value)
{
    if (b->in_flight.n == 0)
        return true;
    const TirVal *own = same_registers(b, value);
    for (uint32_t i = 0; i < b->in_flight.n; i++) {
        const InFlight *flight = &b->in_flight.at[i];
        if (flight->registers[0] == own || flight->registers[1] == own)
            return fail(b, flight->op,
                        "the registers of a product's operand are written while it may still run");
    }
    return true;
}

static bool
write_acc_class(Consumer *b, uint32_t acc_class)
{
    for (uint32_t i = 0; i < b->in_flight.n; i++) {
        const TirOp *mma = b->in_flight.at[i].op;
        if (b->facts->acc_class[mma->results[0]->id] == acc_class)
            return fail(b, mma, "the sum of a product is overwritten while it may still run");
    }
    return true;
}

static bool
lives_there(Consumer *b, uint32_t acc_class, const TirVal *value)
{
    const TirVal *lives = b->lives[acc_class];

    return lives == NULL || lives == same_registers(b, value) ||
           fail(b, lives->def, "the result of a product is used when another one has its registers");
}

static bool
read_acc_class(Consumer *b, uint32_t acc_class, const TirVal *value)
{
    for (uint32_t i = 0; i < b->in_flight.n; i++) {
        const TirOp *mma = b->in_flight.at[i].op;
        if (b->facts->acc_class[mma->results[0]->id] == acc_class)
            return fail(b, mma, "the result of a product is used before a mma_wait covers it");
    }
    return lives_there(b, acc_class, value);
}

/* ---- values ---- */

/* Whether an operation computes its result where it stands. */
static bool
is_eager(const Consumer *b, const TirOp *op)
{
    uint32_t flags = tir_op_info(op->op)->flags;

    if (op->op == TIR_LOAD || op->n_blocks > 0)
        return true;
    return ((flags & TF_TOGETHER) != 0 || tir_exchanges(op)) &&
           !b->facts->renames[op->results[0]->id];
}

/* A read of the parts of all consumers: a barrier of all consumers must lie between their writing
 * (or wait) and this. */
static bool
read_all_parts(Consumer *b, const TirOp *read, uint32_t stage)
{
    const Epochs *epochs = &b->epochs[read->shared->id];
    uint32_t written = epochs->written[tir_is_pipeline(read->shared) ? 0 : stage];
    uint32_t before = epochs->read[tir_is_pipeline(read->shared) ? 0 : stage];

    if (written == 0)
        return fail_of(b, read, read->shared, "%s is read before anything is written to it");
    if (!tir_is_pipeline(read->shared) && written < before && before < b->epoch)
        return fail_of(b, read, read->shared,
                       "%s is read again before anything new is written to it");
    if (written == b->epoch)
        return fail_of(
            b, read, read->shared,
            "the other consumers' parts of %s are read without a barrier of all consumers behind what brings them");
    return true;
}

/* A read of this consumer's part of a tile: since the check does not know which part that is, the
 * rules must hold for each part's pipeline. */
static bool
read_own_stage(Consumer *b, const TirOp *read, uint32_t *stage)
{
    uint32_t first = read->shared->id;

    *stage = b->stage_of[read->results[0]->id];
    for (uint32_t p = 0; p < tir_consumers(b->facts->fn->plan); p++) {
        if (*stage <= b->released[first + p])
            return fail_of(b, read, b->facts->fn->shared.at[first + p],
                           "a stage of %s is read after its release");
        if (b->waited[first + p] > *stage)
            return fail_of(b, read, b->facts->fn->shared.at[first + p],
                           "a stage of %s is read after the next one was waited for");
    }
    return true;
}

/* A stage that an operation reads must be the one waited for last, and not released. */
static bool
read_stage(Consumer *b, const TirOp *read, uint32_t *stage)
{
    uint32_t pipeline = read->shared->id;

    if (read->own && tir_is_pipeline(read->shared))
        return read_own_stage(b, read, stage);

    if (!tir_is_pipeline(read->shared)) {
        *stage = b->written_stage[pipeline];
        return read_all_parts(b, read, *stage);
    }
    *stage = b->stage_of[read->results[0]->id];
    if (*stage <= b->released[pipeline])
        return fail_of(b, read, read->shared, "a stage of %s is read after its release");
    if (*stage != b->waited[pipeline])
        return fail_of(b, read, read->shared,
                       "a stage of %s is read after the next one was waited for");
    if (*stage == b->left_over[pipeline])
        return fail_of(b, read, read->shared,
                       "a stage of %s is read after results were written to it");
    return !read->coop_k || read_all_parts(b, read, *stage);
}

/* The lowering reads tensor memory when something asks for it.  A sum that has no tokens of its own
 * may be another's once something has been handed on. */
static bool
read_tmem(Consumer *b, const TirOp *read)
{
    uint32_t stage;

    if (read->shared->carried && b->reached_at[read->results[0]->id] != b->handed_on)
        return fail_of(b, read, read->shared,
                       "%s is asked for when something has been handed on behind it");
    if (!read->shared->carried && !read_stage(b, read, &stage))
        return false;
    vec_push(b->facts->arena, b->events, read);
    return true;
}

static bool
is_of_roles(const TirShared *shared)
{
    return tir_is_pipeline(shared) || shared->kind == SHARED_PARTS;
}

/* The same registers by another name: nothing is written to them. */
static bool
is_view(const TirOp *op)
{
    return op->op == TIR_TRANSPOSE || op->op == TIR_EXPAND || op->op == TIR_SQUEEZE ||
           op->op == TIR_BROADCAST;
}

static bool
ask_for(Consumer *b, const TirVal *value)
{
    const TirOp *def = value->def;
    uint32_t acc_class = b->facts->acc_class[value->id], stage;

    if (value->type.rank == 0)
        return true;
    if (acc_class != 0 && is_made_at_acc_class(value))
        return read_acc_class(b, acc_class, value);
    if (def == NULL || is_eager(b, def))
        return true;
    if (def->op == TIR_TMEM_READ) { /* read then, and kept */
        bool there = b->made[value->id];
        b->made[value->id] = true;
        return there || read_tmem(b, def);
    }
    if (def->op == TIR_SHARED_READ && is_of_roles(def->shared))
        return read_stage(b, def, &stage);
    if (def->op == TIR_SHARED_READ)
        return b->copies == NULL || allow(b, def->shared, copies_read(b->copies, def));
    bool kept = b->made[value->id];
    if (kept && !b->facts->renames[value->id])
        return true;
    for (uint32_t k = 0; k < def->n_args; k++) {
        if (!ask_for(b, def->args[k]))
            return false;
    }
    b->made[value->id] = true;
    return kept || is_view(def) || write_registers(b, value);
}

/* Whether `value` is in the registers of that register class from the start. */
static bool
stays_at_acc_class(const Consumer *b, uint32_t acc_class, const TirVal *value)
{
    return acc_class != 0 && acc_class == b->facts->acc_class[value->id] &&
           is_made_at_acc_class(value);
}

/* Values go to the registers of others, as if at once. */
static bool
assign(Consumer *b, uint32_t n, TirVal *const *to, TirVal *const *from)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t acc_class = b->facts->acc_class[to[k]->id];
        bool stays = stays_at_acc_class(b, acc_class, from[k]);
        if (stays ? !lives_there(b, acc_class, from[k]) : !ask_for(b, from[k]))
            return false;
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t acc_class = b->facts->acc_class[to[k]->id];
        b->lives[acc_class] = same_registers(b, to[k]);
        if (stays_at_acc_class(b, acc_class, from[k]) ||
            same_registers(b, from[k]) == same_registers(b, to[k]))
            continue;
        if (acc_class != 0 ? !write_acc_class(b, acc_class) : !write_registers(b, to[k]))
            return false;
    }
    return true;
}

/* ---- operations ---- */

static bool
start_mma(Consumer *b, const TirOp *op)
{
    const TirVal *sum = op->args[2], *result = op->results[0];
    uint32_t acc_class = b->facts->acc_class[result->id];
    InFlight mma = {.op = op};
    bool transposed;

    for (uint32_t k = 0; k < 2; k++) {
        const TirOp *read = view_source(op->args[k], &transposed);
        if (read != NULL && is_of_roles(read->shared)) {
            mma.read[k] = read;
            if (!read_stage(b, read, &mma.stage[k]))
                return false;
        } else if (read == NULL) {
            mma.registers[k] = same_registers(b, op->args[k]);
            if (!ask_for(b, op->args[k]))
                return false;
        }
    }
    bool constant = sum->def != NULL && sum->def->op == TIR_CONST;
    bool there = stays_at_acc_class(b, acc_class, sum);
    if (!constant && (there ? !lives_there(b, acc_class, sum)
                            : !ask_for(b, sum) || !write_acc_class(b, acc_class)))
        return false;
    if (constant && sum->def->number != 0 && !write_acc_class(b, acc_class))
        return false;
    vec_push(b->facts->arena, &b->in_flight, mma);
    b->lives[acc_class] = same_registers(b, result);
    return true;
}

static void
wait_for_mmas(Consumer *b, int64_t most)
{
    uint32_t left = most < b->in_flight.n ? (uint32_t)most : b->in_flight.n;
    uint32_t first = b->in_flight.n - left;

    for (uint32_t i = 0; i < first; i++) {
        const InFlight *flight = &b->in_flight.at[i];
        for (uint32_t k = 0; k < 2; k++) {
            const TirOp *read = flight->read[k];
            if (read != NULL && read->coop_k)
                b->epochs[read->shared->id]
                    .read[tir_is_pipeline(read->shared) ? 0 : flight->stage[k]] = b->epoch;
        }
    }
    for (uint32_t k = 0; k < left; k++)
        b->in_flight.at[k] = b->in_flight.at[first + k];
    b->in_flight.n = left;
}

static bool
wait_for_stage(Consumer *b, const TirOp *op)
{
    uint32_t pipeline = op->shared->id;
    uint32_t most = 1u + op->shared->lag + op->shared->held;

    if (op->own) { /* its stage is taken later */
        vec_push(b->facts->arena, b->events, op);
        return true;
    }
    if (b->waited[pipeline] - b->released[pipeline] >= most && !tir_is_one_place(op->shared))
        return fail_of(
            b, NULL, op->shared,
            "another stage of %s is waited for while one is held, which the lowering does not keep apart");
    if (op->shared->held > 0 && b->waited[pipeline] > 1)
        return fail_of(
            b, NULL, op->shared,
            "a second stage of %s is waited for in a tile, which the lowering does not keep apart");
    b->waited[pipeline]++;
    b->epochs[pipeline].written[0] = b->epoch;
    vec_push(b->facts->arena, b->events, op);
    return true;
}

/* The next stage of each part's pipeline, behind a wait for this consumer's. */
static bool
take_own_stage(Consumer *b, const TirOp *op)
{
    uint32_t first = op->shared->id, last = b->events->n;

    while (last > 0 && (b->events->at[last - 1]->shared == NULL ||
                        b->events->at[last - 1]->shared->id != first))
        last--;
    if (last == 0 || !b->events->at[last - 1]->own)
        return fail_of(b, NULL, op->shared, "a stage of %s is read that was not waited for");
    for (uint32_t p = 0; p < tir_consumers(b->facts->fn->plan); p++) {
        const TirShared *pipeline = b->facts->fn->shared.at[first + p];
        if (b->waited[first + p] - b->released[first + p] > pipeline->lag)
            return fail_of(b, NULL, pipeline,
                           "a part of a tile is read while a stage of %s is held");
    }
    b->stage_of[op->results[0]->id] = b->waited[first] + 1;
    return true;
}

static bool
is_held(Consumer *b, const TirOp *op)
{
    uint32_t pipeline = op->shared->id;

    return b->waited[pipeline] != b->released[pipeline] || tir_is_one_place(op->shared) ||
           fail(b, NULL,
                arena_printf(b->facts->arena, "a stage of %s is %s that was not waited for",
                             tir_buffer_name(b->facts->arena, op->shared),
                             op->op == TIR_TMEM_WRITE || op->op == TIR_SHARED_WRITE ? "written"
                                                                                    : "read"));
}

/* The results over which an operand is written are read before. */
static bool
read_below(Consumer *b, const TirOp *write)
{
    const TirVal *below = write->shared->over == NULL ? NULL
                                                      : b->read_last[write->shared->over->id];

    return below == NULL || ask_for(b, below);
}

static bool
take_stage(Consumer *b, const TirOp *op)
{
    uint32_t pipeline = op->shared->id;

    if (op->own)
        return take_own_stage(b, op);
    if (!is_held(b, op))
        return false;
    b->stage_of[op->results[0]->id] = b->waited[pipeline];
    vec_push(b->facts->arena, b->events, op);
    return true;
}

/* A stage in tensor memory.  What was to be read there before has been: it may be overwritten. */
static bool
hand_on(Consumer *b, const TirOp *op)
{
    uint32_t pipeline = op->shared->id;

    if (b->waited[pipeline] == b->released[pipeline] && !tir_is_one_place(op->shared))
        return fail_of(b, NULL, op->shared, "a stage of %s is released that was not waited for");
    if (op->op == TIR_PRODUCER_COMMIT && b->written_stage[pipeline] == 0)
        return fail_of(b, NULL, op->shared, "%s is handed on before it has been written");
    const TirVal *unused = b->read_last[pipeline];
    if (unused != NULL && !b->made[unused->id]) /* as good as read */
        vec_push(b->facts->arena, b->events, unused->def);
    b->read_last[pipeline] = NULL;
    b->written_stage[pipeline] = 0;
    b->released[pipeline]++;
    b->handed_on++;
    vec_push(b->facts->arena, b->events, op);
    return true;
}

/* The product that may still run and reads a stage of a buffer, or of the one for this consumer's
 * part; NULL: none does. */
static const TirOp *
running_reader(const Consumer *b, const TirShared *buffer, uint32_t stage)
{
    for (uint32_t i = 0; i < b->in_flight.n; i++) {
        const InFlight *flight = &b->in_flight.at[i];
        for (uint32_t k = 0; k < 2; k++) {
            const TirOp *read = flight->read[k];
            if (read != NULL && flight->stage[k] == stage &&
                (read->shared == buffer ||
                 (read->own && buffer->of_consumer > 0 &&
                  read->shared->id + buffer->of_consumer - 1 == buffer->id)))
                return flight->op;
        }
    }
    return NULL;
}

static bool
release_stage(Consumer *b, const TirOp *op)
{
    uint32_t pipeline = op->shared->id;

    for (uint32_t k = 0; k < op->n_args; k++) {
        if (!ask_for(b, op->args[k]))
            return false;
    }
    if (tir_is_one_place(op->shared) || op->shared->kind == SHARED_TMEM)
        return hand_on(b, op);
    if (b->waited[pipeline] == b->released[pipeline])
        return fail_of(b, NULL, op->shared, "a stage of %s is released that was not waited for");
    if (op->op == TIR_PRODUCER_COMMIT && op->shared->kind == SHARED_PIPELINE &&
        b->written_stage[pipeline] != b->waited[pipeline])
        return fail_of(b, NULL, op->shared, "%s is handed on before it has been written");
    b->released[pipeline]++;
    if (b->released[pipeline] == b->left_over[pipeline])
        return fail_of(b, NULL, op->shared, "a stage of %s is released while results leave from it");
    const TirOp *reader = running_reader(b, op->shared, b->released[pipeline]);
    if (reader != NULL)
        return fail_of(b, reader, op->shared,
                       "a stage of %s is released while a product that reads it may still run");
    if (b->epochs[pipeline].read[0] == b->epoch)
        return fail_of(
            b, NULL, op->shared,
            "a stage of %s is released without a barrier of all consumers behind the products that read all of it");
    vec_push(b->facts->arena, b->events, op);
    return true;
}

/* A consumer writes its part of the stage that it did not write last. */
static bool
write_part(Consumer *b, const TirOp *op)
{
    const TirShared *buffer = op->shared;
    uint32_t stage = b->written_stage[buffer->id] ^= buffer->stages > 1;

    if (buffer->stages > COOP_K_STAGES)
        return fail(b, NULL,
                    arena_printf(b->facts->arena, "%s has %u stages, more than %d",
                                 tir_buffer_name(b->facts->arena, buffer), buffer->stages,
                                 COOP_K_STAGES));
    if (running_reader(b, buffer, stage) != NULL || b->epochs[buffer->id].read[stage] == b->epoch)
        return fail_of(
            b, NULL, buffer,
            "a stage of %s is written without a barrier of all consumers behind the products that read it");
    b->epochs[buffer->id].written[stage] = b->epoch;
    return true;
}

/* A result is stored over the stage of this tile: no product reads the stage any more, nothing is
 * written there again, and it is not released in this tile (`release_stage`), because the lowering
 * waits in the next tile until TMA has read it. */
static bool
write_aliased(Consumer *b, const TirOp *op)
{
    const TirShared *pipeline = op->shared->over;
    uint32_t stage = b->waited[pipeline->id];

    if (stage < 2 || stage == b->released[pipeline->id])
        return fail_of(b, NULL, pipeline,
                       "results are written to a stage of %s that was not waited for");
    if (stage == b->left_over[pipeline->id])
        return fail_of(b, NULL, pipeline, "a stage of %s is written while results leave from it");
    const TirOp *reader = running_reader(b, pipeline, stage);
    if (reader != NULL)
        return fail_of(
            b, reader, pipeline,
            "results are written to a stage of %s while a product that reads it may still run");
    b->left_over[pipeline->id] = stage;
    return true;
}

static bool
take_or_pass(Consumer *b, const TirOp *op)
{
    bool take = op->op == TIR_PINGPONG_WAIT;

    if (take == (b->turn != NULL))
        return fail(b, b->turn,
                    take ? "a ping-pong turn is taken twice"
                         : "a ping-pong turn is passed on that was not taken");
    b->turn = take ? op : NULL;
    vec_push(b->facts->arena, b->events, op);
    return true;
}

static const Region *
region_of(const Consumer *b, const TirOp *op)
{
    const Region *region = b->facts->regions.at;

    while (region->op != op)
        region++;
    return region;
}

static bool
begin_region(Consumer *b, const TirOp *op)
{
    const Region *region = region_of(b, op);
    bool mmas = false;

    b->before[region - b->facts->regions.at] = arena_copy(
        b->facts->arena, b->lives, (b->facts->acc_classes + 1) * sizeof b->lives[0]);
    for (uint32_t k = 0; k < region->inputs.n; k++) {
        if (!ask_for(b, region->inputs.at[k]))
            return false;
    }
    if (op->op == TIR_FOR)
        return assign(b, op->n_results, op->blocks[0]->params.at + 1,
                      op->args + loop_first_initial(op));
    const TirOp *vote = op->args[0]->def;
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++)
            mmas = mmas || walk_is_channel(op->blocks[k]->ops.at[i]);
    }
    if (mmas && (op->by_rows || (vote != NULL && vote->vote_warp)))
        return fail(b, NULL,
                    "warps of a consumer may part where it meets others or starts products");
    return true;
}

static bool
do_op(Consumer *b, const TirOp *op)
{
    switch (op->op) {
    case TIR_PRODUCER_ACQUIRE:
    case TIR_CONSUMER_WAIT: return wait_for_stage(b, op);
    case TIR_PRODUCER_COMMIT:
    case TIR_CONSUMER_RELEASE: return release_stage(b, op);
    case TIR_MMA_WAIT:
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (!ask_for(b, op->args[k]))
                return false;
        }
        wait_for_mmas(b, op->integer);
        return true;
    case TIR_PINGPONG_WAIT:
    case TIR_PINGPONG_ARRIVE: return take_or_pass(b, op);
    case TIR_CONSUMER_BARRIER:
        b->epoch++;
        vec_push(b->facts->arena, b->events, op);
        return true;
    case TIR_STAGING_WRITE: /* it waits until the buffer is empty */
        vec_push(b->facts->arena, b->events, op);
        break;
    case TIR_TMA_STORE:
        if (op->shared->over != NULL && !write_aliased(b, op))
            return false;
        break;
    case TIR_SHARED_WRITE:
        if (op->shared->kind == SHARED_PARTS && !write_part(b, op))
            return false;
        if (tir_is_pipeline(op->shared) && !is_held(b, op))
            return false;
        if (op->shared->from == ROLE_CONSUMER)
            vec_push(b->facts->arena, b->events, op);
        if (tir_is_pipeline(op->shared))
            b->written_stage[op->shared->id] = tir_is_one_place(op->shared)
                                                   ? 1
                                                   : b->waited[op->shared->id];
        break;
    case TIR_SHARED_READ: return !tir_is_pipeline(op->shared) || take_stage(b, op);
    case TIR_TMEM_READ:
        if (!is_held(b, op))
            return false;
        b->stage_of[op->results[0]->id] = b->waited[op->shared->id];
        b->made[op->results[0]->id] = false;
        b->reached_at[op->results[0]->id] = b->handed_on;
        b->read_last[op->shared->id] = op->results[0];
        return !b->facts->at_once[op->results[0]->id] || ask_for(b, op->results[0]);
    case TIR_TMEM_WRITE:
        if (!is_held(b, op) || !read_below(b, op) || !ask_for(b, op->args[0]))
            return false;
        b->written_stage[op->shared->id] = 1;
        vec_push(b->facts->arena, b->events, op);
        break;
    case TIR_FOR:
    case TIR_IF: return begin_region(b, op);
    case TIR_MMA:
        if (op->async)
            return start_mma(b, op);
        break;
    default: break;
    }
    bool acc_class = op->n_results == 1 && b->facts->acc_class[op->results[0]->id] != 0;
    bool effect = op->n_results == 0 || is_eager(b, op);
    if (!effect && !acc_class && op->n_results == 1 && b->facts->at_once[op->results[0]->id])
        return ask_for(b, op->results[0]);
    if (!effect && !acc_class)
        return true; /* made when asked for */
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (!ask_for(b, op->args[k]))
            return false;
    }
    if (op->n_results == 0)
        return true;
    b->lives[b->facts->acc_class[op->results[0]->id]] = same_registers(b, op->results[0]);
    if (acc_class && is_made_at_acc_class(op->results[0]))
        return write_acc_class(b, b->facts->acc_class[op->results[0]->id]);
    return write_registers(b, op->results[0]);
}

static bool
visit_consumer(void *user, const TirOp *op, WalkMoment moment, uint32_t k)
{
    Consumer *b = user;

    b->now = op;
    if (moment == WALK_AT)
        return (b->copies == NULL || allow(b, op->shared, copies_take(b->copies, op, b->walk))) &&
               do_op(b, op);
    /* warps may part: each block begins as the first one did */
    if (moment == WALK_ENTER && op->op == TIR_IF)
        memcpy(b->lives, b->before[region_of(b, op) - b->facts->regions.at],
               (b->facts->acc_classes + 1) * sizeof b->lives[0]);
    if (moment == WALK_ENTER) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++) {
            const TirOp *inner = op->blocks[k]->ops.at[i];
            if (inner->n_results == 1)
                b->made[inner->results[0]->id] = false;
        }
    }
    if (moment == WALK_LEAVE) {
        const TirOp *yield = block_yield(op->blocks[k]);
        b->now = yield;
        return assign(b, op->n_results,
                      op->op == TIR_FOR ? op->blocks[k]->params.at + 1 : op->results, yield->args);
    }
    return true;
}

bool
check_consumer(const ConsumerFacts *facts, Walk *walk, WalkProgram *program, RoleEvents *events,
               RoleFault *fault)
{
    Arena *arena = facts->arena;
    uint32_t values = facts->fn->next_id + 1, pipelines = facts->fn->shared.n + 1;
    Consumer b = {.facts = facts,
                  .events = events,
                  .fault = fault,
                  .lives = arena_array(arena, const TirVal *, facts->acc_classes + 1),
                  .before = arena_array(arena, const TirVal **, facts->regions.n + 1),
                  .waited = arena_array(arena, uint32_t, pipelines),
                  .released = arena_array(arena, uint32_t, pipelines),
                  .left_over = arena_array(arena, uint32_t, pipelines),
                  .stage_of = arena_array(arena, uint32_t, values),
                  .epoch = 1,
                  .epochs = arena_array(arena, Epochs, pipelines),
                  .written_stage = arena_array(arena, uint32_t, pipelines),
                  .made = arena_array(arena, bool, values),
                  .read_last = arena_array(arena, const TirVal *, pipelines),
                  .reached_at = arena_array(arena, uint32_t, values),
                  .walk = walk,
                  .copies = facts->copies ? copies_new(arena, facts->fn) : NULL};

    for (uint32_t k = 0; k < facts->fn->shared.n; k++) /* stage 1 is that of the tile before */
        b.waited[k] = facts->fn->shared.at[k]->held;
    walk->visit = visit_consumer;
    walk->user = &b;
    if (!walk_run(walk, program))
        return false;
    if (b.in_flight.n > 0) {
        b.now = b.in_flight.at[0].op;
        return fail(&b, NULL, "a product may still run when the tile is done");
    }
    for (uint32_t k = 0; k < facts->fn->shared.n; k++) {
        for (uint32_t stage = 0; stage < COOP_K_STAGES; stage++) {
            if (b.epochs[k].read[stage] < b.epoch)
                continue;
            b.now = facts->fn->body->ops.at[facts->fn->body->ops.n - 1];
            return fail_of(&b, NULL, facts->fn->shared.at[k],
                           "no barrier of all consumers follows the products that read all of %s");
        }
    }
    if (b.turn != NULL) {
        b.now = b.turn;
        return fail(&b, NULL, "a ping-pong turn is not passed on when the tile is done");
    }
    for (uint32_t i = events->n; i-- > 0;) {
        const TirShared *pipeline = events->at[i]->shared;
        if (pipeline == NULL || tir_is_one_place(pipeline) ||
            b.waited[pipeline->id] - b.released[pipeline->id] == pipeline->held)
            continue;
        b.now = events->at[i];
        return fail_of(&b, NULL, pipeline,
                       pipeline->held > 0 ? "%s is not left with a stage when the tile is done"
                                          : "a stage of %s is still held when the tile is done");
    }
    return true;
}
