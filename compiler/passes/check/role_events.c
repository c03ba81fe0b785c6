/* role_events.c - part of pass `check-roles`: what a role does to others in a tile, sorted by
 * pipelines, too; which ways are as good as others. */
#include "compiler/passes/check/check_roles.h"
#include "compiler/passes/util/shared_uses.h"

uint32_t
role_slot(const TirShared *pipeline, bool serves_all, uint32_t k)
{
    bool each = serves_all && pipeline->each;

    return pipeline->id * MOST_CONSUMERS + (each ? k : 0);
}

/* A product of the mma role: of which operands, in which stages. */
typedef struct Multiplied {
    const TirVal *operand[2];
    uint32_t stage[2];
} Multiplied;

typedef struct Lister {
    Arena *arena;
    const TirFn *fn;
    const Walk *walk;
    RoleRun *run;
    RoleFault *fault;
    /* in this tile, by role_slot; NULL: of other roles than the producer and the mma role */
    Counts *counts;
    uint32_t *stage_of; /* by id of a shared_read: the stage that it stands for, from 1 on */
    uint32_t *read;     /* by result, and what else a product reads: of pipelines with a lag */
    Multiplied *last;   /* by role_slot of results: the last product */
    uint32_t *used;     /* by role_slot: the last stage that a product has read */
} Lister;

static bool
is_wrong(Lister *l, const TirOp *op, const TirOp *other, const char *text)
{
    *l->fault = (RoleFault){text, op, other};
    return false;
}

/* The parts of a stage are filled in order, for all consumers, and behind the stage of the pipeline
 * whose barriers it has, for whose being empty that one's copy waits. */
static bool
list_copy(Lister *l, const TirOp *op)
{
    const TirShared *pipeline = op->shared, *owner = pipeline->with;
    Counts *of = &l->counts[pipeline->id * MOST_CONSUMERS];
    uint32_t part = (uint32_t)op->integer, last = tir_parts(l->fn->plan, pipeline) - 1;

    if (of[part > 0 ? part - 1 : last].filled != of[part].filled + (part > 0))
        return is_wrong(l, op, NULL, "the parts of a stage are not filled in order");
    if (owner != NULL && of[part].filled >= l->counts[owner->id * MOST_CONSUMERS].filled)
        return is_wrong(l, op, NULL,
                        "a stage is filled before that of the pipeline whose barriers it has");
    of[part].filled++;
    return true;
}

/* Of two stages that are held each product into a result reads that of its iteration, in turn. */
static bool
reads_in_turn(Lister *l, const TirOp *mma, const TirShared *pipeline, const TirShared *beside,
              uint32_t stage)
{
    if (pipeline->lag == 0)
        return true;
    if (l->read == NULL)
        l->read = arena_array(l->arena, uint32_t, l->fn->shared.n * l->fn->shared.n);
    return stage == ++l->read[mma->shared->id * l->fn->shared.n + beside->id];
}

/* Whether a product is that of the same operands as the last one that went to its result. */
static bool
multiplies_again(Lister *l, const TirOp *mma, const uint32_t *stage)
{
    Multiplied *last = &l->last[role_slot(mma->shared, true, (uint32_t)mma->integer)];
    bool again = last->operand[0] == mma->args[0] && last->operand[1] == mma->args[1] &&
                 last->stage[0] == stage[0] && last->stage[1] == stage[1];

    *last = (Multiplied){{mma->args[0], mma->args[1]}, {stage[0], stage[1]}};
    return again;
}

/* Operands of products lie in stages that are held, those waited for last. */
static bool
list_product(Lister *l, const TirOp *mma)
{
    Scalar adds = walk_value(l->walk, mma->args[2]);
    uint32_t stages[2];
    bool transposed;

    vec_push(l->arena, &l->run->adds, (int8_t)(!adds.known ? -1 : adds.value != 0));
    for (uint32_t k = 0; k < 2; k++) {
        const TirOp *read = view_source(mma->args[k], &transposed);
        uint32_t slot = role_slot(read->shared, true, (uint32_t)read->integer);
        const Counts *of = &l->counts[slot];
        uint32_t stage = stages[k] = l->used[slot] = l->stage_of[read->results[0]->id];
        if (stage != (read->oldest ? of->released + 1 : of->waited) ||
            (stage <= of->released && !tir_is_one_place(read->shared)))
            return is_wrong(l, mma, read,
                            "a product reads a stage that is not the one waited for last");
        if (read->shared->each && read->integer != mma->integer)
            return is_wrong(l, mma, read, "a product has an operand of another consumer");
        if (!reads_in_turn(l, mma, read->shared, view_source(mma->args[1 - k], &transposed)->shared,
                           stage))
            return is_wrong(l, mma, read, "a product reads a tile of another iteration");
    }
    return !multiplies_again(l, mma, stages) ||
           is_wrong(l, mma, NULL, "a product is that of the same tiles as the one before");
}

/* What the producer or the mma role does with a stage. */
static bool
list_stage(Lister *l, const TirOp *op)
{
    uint32_t slot = role_slot(op->shared, true, (uint32_t)op->integer);
    Counts *of = &l->counts[slot];
    bool one = tir_is_one_place(op->shared);

    switch (op->op) {
    case TIR_TMA_LOAD: return list_copy(l, op);
    case TIR_TMEM_MMA: return list_product(l, op);
    case TIR_CONSUMER_WAIT:
        if (of->waited++ - of->released > op->shared->lag && !one)
            return is_wrong(
                l, op, NULL,
                "another stage is waited for while one is held, which the lowering does not keep apart");
        return true;
    case TIR_CONSUMER_RELEASE:
        if (of->released++ == of->waited)
            return is_wrong(l, op, NULL, "a stage is released that was not waited for");
        return op->shared->from != ROLE_CONSUMER || l->used[slot] == of->released ||
               is_wrong(l, op, NULL, "a stage that a consumer has written is released unread");
    case TIR_SHARED_READ:
        l->stage_of[op->results[0]->id] = op->oldest ? of->released + 1 : of->waited;
        return of->waited != of->released || one ||
               is_wrong(l, op, NULL, "a stage is read that was not waited for");
    default: return true;
    }
}

static bool
list_event(void *user, const TirOp *op)
{
    Lister *l = user;
    bool meets = op->op == TIR_PINGPONG_WAIT || op->op == TIR_PINGPONG_ARRIVE ||
                 op->op == TIR_CONSUMER_BARRIER || op->op == TIR_TILE_ASK;
    bool channel = op->shared != NULL &&
                   (tir_is_pipeline(op->shared) || op->shared->kind == SHARED_STAGING ||
                    op->shared->kind == SHARED_SENT);

    if ((meets || channel) && (walk_is_channel(op) || walk_is_tmem(op)))
        vec_push(l->arena, &l->run->events, op);
    if (walk_handed_read(op) != NULL)
        vec_push(l->arena, &l->run->events, walk_handed_read(op));
    return !channel || l->counts == NULL || list_stage(l, op);
}

bool
list_role_events(Arena *arena, const TirFn *fn, RoleKind kind, Walk *walk, WalkProgram *program,
                 RoleRun *run, RoleFault *fault)
{
    uint32_t slots = fn->shared.n * MOST_CONSUMERS;
    Lister l = {.arena = arena, .fn = fn, .walk = walk, .run = run, .fault = fault};

    if (kind == ROLE_PRODUCER || kind == ROLE_MMA) {
        l.counts = arena_array(arena, Counts, slots + 1);
        l.stage_of = arena_array(arena, uint32_t, fn->next_id + 1);
        l.last = arena_array(arena, Multiplied, slots + 1);
        l.used = arena_array(arena, uint32_t, slots + 1);
    }
    if (!walk_run_at(walk, program, list_event, &l))
        return false;
    for (uint32_t k = 0; l.counts != NULL && k < slots && run->events.n > 0; k++) {
        if (l.counts[k].waited != l.counts[k].released &&
            !tir_is_one_place(fn->shared.at[k / MOST_CONSUMERS]))
            return is_wrong(&l, run->events.at[run->events.n - 1], NULL,
                            "a stage is still held when the tile is done");
    }
    return true;
}

static bool
is_counted(const TirOp *op)
{
    switch (op->op) {
    case TIR_STAGING_WRITE:
    case TIR_TMA_REDUCE_ADD:
    case TIR_CONSUMER_WAIT:
    case TIR_PRODUCER_COMMIT:
    case TIR_TMA_LOAD: return true;
    default: return false;
    }
}

/* What is known of the last stage of a pipeline: it was waited for, or read.  A stage that the mma
 * role reads may be for each consumer, or for none: those of a pipeline of all of them are listed
 * for each. */
static void
note_stage(Arena *arena, const TirFn *fn, bool serves_all, const RoleRun *run, const TirOp *op)
{
    uint32_t first = role_slot(op->shared, serves_all, (uint32_t)op->integer);
    bool all = serves_all &&
               role_slot(op->shared, serves_all, 0) == role_slot(op->shared, serves_all, 1);

    for (uint32_t k = 0; k < (all ? tir_consumers(fn->plan) : 1); k++) {
        RoleEvents *stages = &run->stages[first + k];
        if (op->op == TIR_CONSUMER_WAIT)
            vec_push(arena, stages, NULL);
        else if (stages->n > 0)
            stages->at[stages->n - 1] = op;
    }
}

bool
role_lets_pass(const TirFn *fn, const RoleRun *consumer, uint32_t number)
{
    for (uint32_t k = 0; k < fn->shared.n && tir_multiplies_in_pairs(fn->plan); k++) {
        const TirShared *results = fn->shared.at[k];
        const RoleEvents *stages = &consumer->stages[k * MOST_CONSUMERS];
        if (results->kind == SHARED_TMEM && results->from != ROLE_CONSUMER && !results->carried &&
            number < stages->n)
            return stages->at[number] == NULL;
    }
    return false;
}

/* A product reads the stages waited for last, for its consumer. */
static void
note_product(const RoleRun *run, const TirOp *mma)
{
    bool transposed;

    for (uint32_t k = 0; k < 2; k++) {
        const TirShared *pipeline = view_source(mma->args[k], &transposed)->shared;
        RoleEvents *stages = &run->stages[pipeline->id * MOST_CONSUMERS + (uint32_t)mma->integer];
        if (stages->n > 0)
            stages->at[stages->n - 1] = mma;
    }
}

void
sort_role_events(Arena *arena, const TirFn *fn, bool serves_all, RoleRun *run)
{
    uint32_t n = 0, slots = (fn->shared.n + 1) * MOST_CONSUMERS;

    run->counts = arena_array(arena, uint32_t, slots);
    run->stages = arena_array(arena, RoleEvents, slots);
    for (uint32_t i = 0; i < run->events.n; i++) {
        const TirOp *op = run->events.at[i];
        if (op->own) { /* it takes no stage */
            if (op->op == TIR_CONSUMER_WAIT)
                run->events.at[n++] = op;
            continue;
        }
        bool result = op->op == TIR_TMEM_READ && !op->shared->carried;
        if (op->op == TIR_CONSUMER_WAIT || op->op == TIR_SHARED_READ || result)
            note_stage(arena, fn, serves_all, run, op);
        if (op->op == TIR_SHARED_READ && !tir_is_handed(op->shared))
            continue;
        run->events.at[n++] = op;
        if (op->op == TIR_TMEM_MMA)
            note_product(run, op);
        if (is_counted(op))
            run->counts[role_slot(op->shared, serves_all || op->op == TIR_TMA_LOAD,
                                  (uint32_t)op->integer)]++;
    }
    run->events.n = n;
}

void
role_run_class(Arena *arena, uint32_t stages, RoleRun *run)
{
    int32_t most = (int32_t)(2 * stages + 2), alike = 0;

    for (uint32_t k = 0; k < run->way.n; k++) {
        int32_t trips = run->way.at[k] < most ? run->way.at[k] : most;
        alike = run->class.n > 0 && run->class.at[run->class.n - 1] == trips ? alike + 1 : 0;
        if (alike < most)
            vec_push(arena, &run->class, trips);
    }
}
