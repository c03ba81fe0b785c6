/* check_producer.c - the producer's run over one tile: parts of a stage are filled in order, for all
 * consumers; and what any role does to others. */
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
    if (moment == WALK_AT && op->op == TIR_TILE_ASK)
        vec_push(p->arena, p->events, op);
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
        if (events->at[i]->op == TIR_TMA_LOAD && p.part[events->at[i]->shared->id] != 0) {
            *fault = (RoleFault){"a stage is not filled for all consumers when the tile is done",
                                 events->at[i], NULL};
            return false;
        }
    }
    return true;
}

typedef struct Lister {
    Arena *arena;
    RoleEvents *events;
} Lister;

static bool
list_event(void *user, const TirOp *op, WalkMoment moment, uint32_t block)
{
    Lister *l = user;
    bool meets = op->op == TIR_PINGPONG_WAIT || op->op == TIR_PINGPONG_ARRIVE ||
                 op->op == TIR_CONSUMER_BARRIER;
    bool channel = op->shared != NULL &&
                   (tir_is_pipeline(op->shared) || op->shared->kind == SHARED_STAGING);

    (void)block;
    if (moment == WALK_AT && (meets || channel) && (walk_is_channel(op) || walk_is_tmem(op)))
        vec_push(l->arena, l->events, op);
    return true;
}

bool
list_role_events(Arena *arena, Walk *walk, const WalkProgram *program, RoleEvents *events)
{
    Lister l = {arena, events};

    walk->visit = list_event;
    walk->user = &l;
    return walk_run(walk, program);
}
