/* role_events.c - part of pass `check-roles`: what a role did in a tile, sorted by pipelines; which
 * ways are as good as others. */
#include "compiler/passes/check/check_roles.h"
#include "compiler/passes/util/shared_uses.h"

uint32_t
role_slot(const TirShared *pipeline, bool serves_all, uint32_t k)
{
    bool each = serves_all && pipeline->each;

    return pipeline->id * MOST_CONSUMERS + (each ? k : 0);
}

static bool
is_counted(const TirOp *op)
{
    switch (op->op) {
    case TIR_STAGING_WRITE:
    case TIR_TMA_REDUCE_ADD:
    case TIR_CONSUMER_WAIT:
    case TIR_PRODUCER_COMMIT: return true;
    case TIR_TMA_LOAD: return op->integer == 0;
    default: return false;
    }
}

/* What is known of the last stage of a pipeline: it was waited for, or read.  A stage that the mma role reads may be for each
 * consumer, or for none: those of a pipeline of all of them are listed for each. */
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
            run->counts[role_slot(op->shared, serves_all, (uint32_t)op->integer)]++;
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
