/* check_issuer.c - the mma role's run over one tile: products read stages that are held, and add to a stage of tensor
 * memory between the moment in which it is acquired and that in which it is committed.
 *
 * Products run in the order in which they are issued, and a stage that is released or committed goes when all products
 * issued before have ended: nothing has to be waited for in between.  The first product of a stage does not add to what
 * is there.  Of a pipeline of one stage in tensor memory other tokens may say whose it is: check_columns.c sees them all.
 */
#include "compiler/passes/check/check_roles.h"
#include "compiler/passes/util/shared_uses.h"

/* What the role has of a consumer's part of a pipeline. */
typedef struct Held {
    uint32_t waited, released; /* of one that products read */
    const TirOp *filled;       /* of one of sums: what acquired its stage; NULL: none is */
    bool acquires;             /* .. whether it does so at all, in this tile */
    bool some;                 /* .. whether a product has gone there since */
    bool any;                  /* .. or in this tile */
    const TirOp *none; /* .. what committed a stage to which none has gone; NULL: there was none */
} Held;

typedef struct Issuer {
    Arena *arena;
    const Walk *walk;
    RoleEvents *events;
    RoleFault *fault;
    Held *held;         /* by role_slot */
    uint32_t *stage_of; /* by id of a shared_read: the stage it stands for */
} Issuer;

static Held *
held_of(const Issuer *c, const TirOp *op)
{
    return &c->held[role_slot(op->shared, true, (uint32_t)op->integer)];
}

static bool
wrong(Issuer *c, const TirOp *op, const TirOp *other, const char *text)
{
    *c->fault = (RoleFault){text, op, other};
    return false;
}

/* Where there is an iteration. */
static const char no_product[] = "a stage is committed to which no product has gone";

static bool
issue(Issuer *c, const TirOp *op)
{
    Held *sum = held_of(c, op);
    Scalar adds = walk_value(c->walk, op->args[2]);
    bool transposed;

    for (uint32_t k = 0; k < 2; k++) {
        const TirOp *read = view_source(op->args[k], &transposed);
        const Held *held = held_of(c, read);
        uint32_t stage = c->stage_of[read->results[0]->id];
        uint32_t last = read->oldest ? held->released + 1 : held->waited;
        if (stage != last || (stage <= held->released && !tir_is_one_place(read->shared)))
            return wrong(c, op, read, "a product reads a stage that is not the one waited for last");
        if (role_slot(read->shared, true, 1) != role_slot(read->shared, true, 0) &&
            read->integer != op->integer)
            return wrong(c, op, read, "a product has an operand of another consumer");
    }
    if (sum->none != NULL)
        return wrong(c, sum->none, op, no_product);
    sum->any = true;
    if (op->shared->carried || (tir_is_one_place(op->shared) && !sum->acquires)) {
        if (!adds.known || (adds.value != 0) != op->shared->carried)
            return wrong(c, op, NULL,
                         "a product adds to what is there, or does not, where it should "
                         "not, or should, or it is not known");
        sum->some = true;
        return true;
    }
    if (sum->filled == NULL)
        return wrong(c, op, NULL,
                     "a product goes to a stage of tensor memory that was not acquired");
    if (!adds.known || (adds.value != 0) != sum->some)
        return wrong(c, op, sum->filled,
                     sum->some ? "a product does not add to those before it, or it is not known"
                               : "the first product of a stage adds to what is there, or it is "
                                 "not known");
    sum->some = true;
    return true;
}

static bool
visit_issuer(void *user, const TirOp *op)
{
    Issuer *c = user;
    Held *held = op->shared == NULL ? NULL : held_of(c, op);

    switch (op->op) {
    case TIR_PRODUCER_ACQUIRE:
        if (held->filled != NULL)
            return wrong(c, op, held->filled, "a stage is acquired while one is filled");
        held->filled = op;
        held->acquires = true;
        held->some = false;
        break;
    case TIR_PRODUCER_COMMIT: {
        if (held->filled == NULL && !tir_is_one_place(op->shared))
            return wrong(c, op, NULL, "a stage is committed that was not acquired");
        /* a sum that goes from hand to hand is handed over to begin with */
        bool to_hand = op->shared->carried && held->acquires;
        if (!held->some && !to_hand && (held->any || !held->acquires))
            return wrong(c, op, NULL, no_product);
        held->none = held->some || to_hand ? held->none : op;
        held->some = false;
        held->filled = NULL;
        break;
    }
    case TIR_CONSUMER_WAIT:
        if (held->waited - held->released > op->shared->lag && !tir_is_one_place(op->shared))
            return wrong(
                c, op, NULL,
                "another stage is waited for while one is held, which the lowering does not keep apart");
        held->waited++;
        break;
    case TIR_CONSUMER_RELEASE:
        if (held->waited == held->released)
            return wrong(c, op, NULL, "a stage is released that was not waited for");
        held->released++;
        break;
    case TIR_SHARED_READ:
        if (held->waited == held->released && !tir_is_one_place(op->shared))
            return wrong(c, op, NULL, "a stage is read that was not waited for");
        c->stage_of[op->results[0]->id] = op->oldest ? held->released + 1 : held->waited;
        break;
    case TIR_TMEM_MMA:
        if (!issue(c, op))
            return false;
        break;
    default: return true;
    }
    vec_push(c->arena, c->events, op);
    return true;
}

bool
check_issuer(Arena *arena, const TirFn *fn, Walk *walk, const WalkProgram *program,
             RoleEvents *events, RoleFault *fault)
{
    Issuer c = {.arena = arena,
                .walk = walk,
                .events = events,
                .fault = fault,
                .held = arena_array(arena, Held, (fn->shared.n + 1) * MOST_CONSUMERS),
                .stage_of = arena_array(arena, uint32_t, fn->next_id + 1)};

    if (!walk_run_at(walk, program, visit_issuer, &c))
        return false;
    for (uint32_t k = 0; k < fn->shared.n * MOST_CONSUMERS; k++) {
        const Held *held = &c.held[k];
        if (held->filled != NULL)
            return wrong(&c, held->filled, NULL,
                         "a stage is acquired and not committed in the tile");
        if (held->waited != held->released && events->n > 0 &&
            !tir_is_one_place(fn->shared.at[k / MOST_CONSUMERS]))
            return wrong(&c, events->at[events->n - 1], NULL,
                         "a stage is still held when the tile is done");
    }
    return true;
}
