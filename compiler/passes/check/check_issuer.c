/* check_issuer.c - the mma role's run over one tile: products read stages that are held, and add to a stage of tensor
 * memory between the moment in which it is acquired and that in which it is committed.
 *
 * Products run in the order in which they are issued, and a stage that is released or committed goes when all products
 * issued before have ended: nothing has to be waited for in between.  The first product of a stage does not add to what
 * is there.
 */
#include "compiler/passes/check/check_roles.h"
#include "compiler/passes/util/shared_uses.h"

typedef struct Issuer {
    Arena *arena;
    const Walk *walk;
    RoleEvents *events;
    RoleFault *fault;
    uint32_t *waited, *released; /* by pipeline that products read */
    uint32_t *stage_of;          /* by id of a shared_read: the stage it stands for */
    const TirOp **filled;        /* by pipeline of sums: what acquired its stage; NULL: none is */
    uint32_t *acquired;          /* .. how often, in this tile */
    bool *some;                  /* .. whether a product has gone there since */
} Issuer;

static bool
wrong(Issuer *c, const TirOp *op, const TirOp *other, const char *text)
{
    *c->fault = (RoleFault){text, op, other};
    return false;
}

static bool
issue(Issuer *c, const TirOp *op)
{
    uint32_t sum = op->shared->id;
    Scalar adds = walk_value(c->walk, op->args[2]);
    bool transposed;

    for (uint32_t k = 0; k < 2; k++) {
        const TirOp *read = view_source(op->args[k], &transposed);
        uint32_t stage = c->stage_of[read->results[0]->id];
        if (stage <= c->released[read->shared->id] || stage != c->waited[read->shared->id])
            return wrong(c, op, read, "a product reads a stage that is not the one waited for last");
    }
    if (c->filled[sum] == NULL)
        return wrong(c, op, NULL,
                     "a product goes to a stage of tensor memory that was not acquired");
    if (op->shared->carried && c->acquired[sum] < 2)
        return wrong(c, op, c->filled[sum],
                     "a product adds to what the consumer has not had before");
    if (!adds.known || (adds.value != 0) != (c->some[sum] || op->shared->carried))
        return wrong(c, op, c->filled[sum],
                     c->some[sum] ? "a product does not add to those before it, or it is not known"
                                  : "the first product of a stage adds to what is there, or it is "
                                    "not known");
    c->some[sum] = true;
    return true;
}

static bool
visit_issuer(void *user, const TirOp *op, WalkMoment moment, uint32_t block)
{
    Issuer *c = user;
    uint32_t id = op->shared == NULL ? 0 : op->shared->id;

    (void)block;
    if (moment != WALK_AT)
        return true;
    switch (op->op) {
    case TIR_PRODUCER_ACQUIRE:
        if (c->filled[id] != NULL)
            return wrong(c, op, c->filled[id], "a stage is acquired while one is filled");
        c->filled[id] = op;
        c->acquired[id]++;
        c->some[id] = false;
        break;
    case TIR_PRODUCER_COMMIT:
        if (c->filled[id] == NULL)
            return wrong(c, op, NULL, "a stage is committed that was not acquired");
        c->filled[id] = NULL;
        break;
    case TIR_CONSUMER_WAIT:
        if (c->waited[id] - c->released[id] >= PIPELINE_HELD_MOST)
            return wrong(
                c, op, NULL,
                "another stage is waited for while one is held, which the lowering does not keep apart");
        c->waited[id]++;
        break;
    case TIR_CONSUMER_RELEASE:
        if (c->waited[id] == c->released[id])
            return wrong(c, op, NULL, "a stage is released that was not waited for");
        c->released[id]++;
        break;
    case TIR_SHARED_READ:
        if (c->waited[id] == c->released[id])
            return wrong(c, op, NULL, "a stage is read that was not waited for");
        c->stage_of[op->results[0]->id] = c->waited[id];
        break;
    case TIR_TMEM_MMA: return issue(c, op);
    default: return true;
    }
    vec_push(c->arena, c->events, op);
    return true;
}

bool
check_issuer(Arena *arena, const TirFn *fn, Walk *walk, const WalkProgram *program,
             RoleEvents *events, RoleFault *fault)
{
    uint32_t n = fn->shared.n + 1;
    Issuer c = {.arena = arena,
                .walk = walk,
                .events = events,
                .fault = fault,
                .waited = arena_array(arena, uint32_t, n),
                .released = arena_array(arena, uint32_t, n),
                .stage_of = arena_array(arena, uint32_t, fn->next_id + 1),
                .filled = arena_array(arena, const TirOp *, n),
                .acquired = arena_array(arena, uint32_t, n),
                .some = arena_array(arena, bool, n)};

    walk->visit = visit_issuer;
    walk->user = &c;
    if (!walk_run(walk, program))
        return false;
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        if (c.filled[k] != NULL)
            return wrong(&c, c.filled[k], NULL, "a stage is acquired and not committed in the tile");
        if (c.waited[k] != c.released[k] && events->n > 0)
            return wrong(&c, events->at[events->n - 1], NULL,
                         "a stage is still held when the tile is done");
    }
    return true;
}
