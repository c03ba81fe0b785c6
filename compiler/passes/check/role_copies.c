/* role_copies.c - part of pass `check-roles`: what a consumer's threads copy is read behind the
 * wait for it, and a barrier behind that; and is copied to again behind a barrier behind what reads
 * it.
 *
 * A thread knows by its wait that its own copies are there, by the barrier that those of the others
 * are.
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/check/check_roles.h"

/* By the number of a group of copies, and of the barriers that have been, from 1 on; 0: none. */
typedef struct Stage {
    uint32_t group, waited, read;
} Stage;

struct Copies {
    const TirFn *fn;
    Stage **stages; /* by buffer; NULL: no thread copies to it */
    Scalar *read;   /* by id of a shared_read: which stage */
    uint32_t groups, barriers;
};

Copies *
copies_new(Arena *arena, const TirFn *fn)
{
    Copies *c = arena_new(arena, Copies);

    *c = (Copies){.fn = fn,
                  .stages = arena_array(arena, Stage *, fn->shared.n + 1),
                  .read = arena_array(arena, Scalar, fn->next_id + 1),
                  .barriers = 1};
    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);) {
        const TirShared *to = walk.op->op == TIR_COPY_ASYNC ? walk.op->shared : NULL;
        if (to != NULL && c->stages[to->id] == NULL)
            c->stages[to->id] = arena_array(arena, Stage, to->stages);
    }
    return c;
}

static Stage *
stage_at(const Copies *c, const TirShared *buffer, Scalar stage)
{
    Stage *stages = c->stages[buffer->id];
    bool there = stages != NULL && stage.known && stage.value >= 0 &&
                 stage.value < (int64_t)buffer->stages;

    return there ? &stages[stage.value] : NULL;
}

/* What a thread has waited for. */
static void
wait_for_groups(Copies *c, int64_t left)
{
    for (uint32_t k = 0; k < c->fn->shared.n; k++) {
        for (uint32_t s = 0; c->stages[k] != NULL && s < c->fn->shared.at[k]->stages; s++) {
            Stage *of = &c->stages[k][s];
            if (of->group > 0 && of->waited == 0 && of->group + left <= c->groups)
                of->waited = c->barriers;
        }
    }
}

static const char *
begin_copy(Copies *c, const TirOp *op, const Walk *walk)
{
    Stage *at = stage_at(c, op->shared, walk_value(walk, op->args[0]));

    if (at != NULL && at->read == c->barriers)
        return "%s is copied to without a barrier behind what reads it";
    if (at != NULL && at->group > 0 && at->waited == 0)
        return "%s is copied to while another copy there has not been waited for";
    if (at != NULL)
        *at = (Stage){.group = c->groups + 1};
    return NULL;
}

const char *
copies_take(Copies *c, const TirOp *op, const Walk *walk)
{
    switch (op->op) {
    case TIR_COPY_ASYNC: return begin_copy(c, op, walk);
    case TIR_ASYNC_COMMIT: c->groups++; return NULL;
    case TIR_ASYNC_WAIT: wait_for_groups(c, op->integer); return NULL;
    case TIR_BARRIER:
    case TIR_CONSUMER_BARRIER: c->barriers++; return NULL;
    case TIR_SHARED_READ: c->read[op->results[0]->id] = walk_value(walk, op->args[0]); return NULL;
    default: return NULL;
    }
}

const char *
copies_read(Copies *c, const TirOp *read)
{
    Stage *at = stage_at(c, read->shared, c->read[read->results[0]->id]);

    if (at == NULL)
        return NULL;
    at->read = c->barriers;
    if (at->waited == 0)
        return "%s is read before what threads copy there has been waited for";
    return at->waited < c->barriers
               ? NULL
               : "%s is read without a barrier behind the wait for what threads "
                 "copy there";
}
