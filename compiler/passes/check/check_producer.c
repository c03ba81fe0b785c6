/* check_producer.c - the producer's run over one tile: parts of a stage are filled in order, for all consumers. */
#include "compiler/passes/check/check_roles.h"

typedef struct Producer {
    Arena *arena;
    const TirFn *fn;
    RoleEvents *events;
    RoleFault *fault;
    uint32_t *part; /* by pipeline: the one that comes next */
} Producer;

static bool
visit_producer(void *user, const TirOp *op, WalkMoment moment, uint32_t block)
{
    Producer *p = user;

    (void)block;
    if (moment != WALK_AT || op->op != TIR_TMA_LOAD)
        return true;
    uint32_t parts = op->shared->filled == FILLED_PER_CONSUMER ? tir_consumers(p->fn->plan) : 1,
             *next = &p->part[op->shared->id];
    if (op->integer != (int64_t)*next) {
        *p->fault = (RoleFault){"the parts of a stage are not filled in order", op, NULL};
        return false;
    }
    *next = (*next + 1) % parts;
    vec_push(p->arena, p->events, op);
    return true;
}

bool
check_producer(Arena *arena, const TirFn *fn, Walk *walk, const WalkProgram *program,
               RoleEvents *events, RoleFault *fault)
{
    Producer p = {.arena = arena,
                  .fn = fn,
                  .events = events,
                  .fault = fault,
                  .part = arena_array(arena, uint32_t, fn->shared.n + 1)};

    walk->visit = visit_producer;
    walk->user = &p;
    if (!walk_run(walk, program))
        return false;
    for (uint32_t i = events->n; i-- > 0;) {
        if (p.part[events->at[i]->shared->id] != 0) {
            *fault = (RoleFault){"a stage is not filled for all consumers when the tile is done",
                                 events->at[i], NULL};
            return false;
        }
    }
    return true;
}
