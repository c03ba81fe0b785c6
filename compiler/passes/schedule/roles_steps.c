/* roles_steps.c - the main loop of a consumer, written from its steps.
 *
 * A step is an operation of the loop's body, or something between operations: a wait for a product, a stage given
 * back.  Steps stand in the order in which the loop does them, and each has a stage: in the iteration that the loop
 * counts as i, a step of stage s is done for iteration i - s.  With two stages, a and a + 1, that makes
 *
 *     the first iteration's steps of stage a
 *     for ..  { the steps in order: those of stage a + 1 are an iteration behind }
 *     the last iteration's steps of stage a + 1
 *
 * A value of stage a that stage a + 1 reads is carried to the next iteration, or computed again where that takes
 * nothing but the iteration's number.  A wait names a product; how many later ones may still run is counted here.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* A product that may still run, and how many iterations ago it would have been of stage 0. */
typedef struct InFlight {
    const TirOp *mma;
    int32_t behind;
} InFlight;

typedef struct Emission {
    Roles *r;
    CloneMap *map[2]; /* of the first stage, and of the one behind it; NULL: its steps are left out */
    const Staged *staged;
    VEC(InFlight) in_flight; /* in order of issue */
    StepParts part;
    Range range;
    TirVal *last; /* iteration, once it is known */
} Emission;

void
roles_add_step(Roles *r, StepList *steps, StepKind kind, TirOp *op)
{
    Step step = {.kind = kind, .op = op, .parts = STEP_EVERYWHERE};

    vec_push(r->fn->arena, steps, step);
}

void
roles_add_plain(Roles *r, StepList *steps, TirOpcode opcode)
{
    roles_add_step(r, steps, STEP_PLAIN, NULL);
    steps->at[steps->n - 1].opcode = opcode;
}

void
roles_add_copy(Roles *r, StepList *steps, uint8_t ahead)
{
    roles_add_step(r, steps, STEP_COPY_VECTORS, NULL);
    steps->at[steps->n - 1].ahead = ahead;
}

static void
emit_wait(Emission *e, const Step *step, const CloneMap *map)
{
    TirBuilder *b = &e->r->b;
    uint32_t done = 0, n = step->values.n;
    TirVal **before = arena_array(e->r->fn->arena, TirVal *, n + 1);

    for (uint32_t k = 0; k < e->in_flight.n; k++) {
        if (e->in_flight.at[k].mma == step->op && e->in_flight.at[k].behind == step->stage)
            done = k + 1;
    }
    if (done == 0)
        return;
    for (uint32_t k = 0; k < n; k++)
        before[k] = clone_of(map, step->values.at[k]);
    TirOp *wait = tir_op_new(b, TIR_MMA_WAIT, n, before, 0, NULL);
    e->in_flight.n -= done;
    for (uint32_t k = 0; k < e->in_flight.n; k++)
        e->in_flight.at[k] = e->in_flight.at[k + done];
    wait->integer = e->in_flight.n;
}

static void
emit_operation(Emission *e, const Step *step, CloneMap *map)
{
    Roles *r = e->r;

    if (roles_vector(r, step->op) != NULL)
        roles_read_vector(r, map, roles_vector(r, step->op), clone_of(map, r->body->params.at[0]));
    else if (!roles_exchange_op(r, map, step->op))
        roles_copy(r, map, step->op, step->stage > 0);
    if (step->op->op == TIR_MMA)
        vec_push(r->fn->arena, &e->in_flight, ((InFlight){step->op, step->stage}));
}

/* The stage that was waited for in an iteration before. */
static void
read_again(Roles *r, CloneMap *map, const TirOp *load)
{
    TirVal *stage = tir_const_int(&r->b, 0);

    r->b.span = load->span;
    TirOp *read = tir_op_new(&r->b, TIR_SHARED_READ, 1, &stage, 1, &load->results[0]->type);
    read->shared = load->shared;
    read->results[0]->name = load->results[0]->name;
    clone_set(map, load->results[0], read->results[0]);
}

static void
emit_step(Emission *e, const Step *step, CloneMap *map)
{
    Roles *r = e->r;

    switch (step->kind) {
    case STEP_OP:
        emit_operation(e, step, map);
        break;
    case STEP_WAIT:
        emit_wait(e, step, map);
        break;
    case STEP_RELEASE:
        roles_plain(&r->b, TIR_CONSUMER_RELEASE, step->op->shared, 0);
        break;
    case STEP_PLAIN:
        roles_plain(&r->b, step->opcode, NULL, 0);
        break;
    case STEP_WRITE_PART:
        roles_write_part(r, map, step->op);
        break;
    case STEP_COPY_VECTORS:
        roles_copy_vectors(r, tir_binary(&r->b, TIR_ADD, clone_of(map, r->body->params.at[0]),
                                         tir_const_int(&r->b, step->ahead)));
        break;
    case STEP_READ_AGAIN:
        read_again(r, map, step->op);
        break;
    case STEP_VECTORS_THERE:
        roles_vectors_there(r);
        break;
    }
}

static void
emit_steps(Emission *e)
{
    for (uint32_t i = 0; i < e->staged->steps.n; i++) {
        const Step *step = &e->staged->steps.at[i];
        CloneMap *map = e->map[step->stage - e->staged->first];
        if (map != NULL && (step->parts & e->part) != 0)
            emit_step(e, step, map);
    }
}

/* ---- two stages ---- */

/* Begins part `part` of the loop, with products of the iteration before that still run. */
static void
begin_part(Emission *e, StepParts part, CloneMap *first, CloneMap *second)
{
    e->part = part;
    e->map[0] = first;
    e->map[1] = second;
    for (uint32_t k = 0; k < e->in_flight.n; k++)
        e->in_flight.at[k].behind++;
}

/* Lets parameters and values that cross stages be `values`: of iteration `iteration`. */
static void
set_params(const Roles *r, CloneMap *map, TirVal *iteration, TirVal *const *values)
{
    clone_set(map, r->body->params.at[0], iteration);
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        clone_set(map, r->body->params.at[k + 1], values[k]);
}

static bool
is_later(const Emission *e, uint32_t k)
{
    return e->staged->later[e->r->body->params.at[k + 1]->id];
}

/* The first stage of the first iteration; `values` are then what the loop begins with. */
static void
emit_head(Emission *e, const CloneMap *map, TirVal **values)
{
    Roles *r = e->r;
    CloneMap head = clone_map_copy(r->fn, map);
    LiveMasks masks = r->masks;
    const TirOp *yield = block_yield(r->body);
    uint32_t n = r->loop->n_results;

    /* what begins ahead does not ask for the iteration's number (lookahead_find) */
    set_params(r, &head, e->staged->first < 0 ? NULL : roles_iteration(r, &r->b, e->range.base, e->range.lo), values);
    if (masks == MASKS_BY_SEGMENT)
        r->masks = r->clean_head ? MASKS_NONE : MASKS_ALL;
    begin_part(e, STEP_HEAD, &head, NULL);
    emit_steps(e);
    r->masks = masks;
    for (uint32_t k = 0; k < n; k++) {
        if (!is_later(e, k))
            values[k] = clone_of(&head, yield->args[k]);
    }
    for (uint32_t k = 0; k < e->staged->crossing.n; k++)
        values[n + k] = clone_of(&head, e->staged->crossing.at[k]);
}

/* The loop; `values` are then what it leaves. */
static void
emit_steady(Emission *e, const CloneMap *map, TirVal **values)
{
    Roles *r = e->r;
    const ValueList *crossing = &e->staged->crossing;
    const TirOp *yield = block_yield(r->body);
    uint32_t n = r->loop->n_results;
    TirBlock *around = r->b.block;
    bool ahead = e->staged->first < 0;
    TirVal *one = tir_const_int(&r->b, 1);
    TirVal *second = ahead ? NULL : tir_binary(&r->b, TIR_ADD, e->range.lo, one);
    e->last = ahead ? tir_binary(&r->b, TIR_SUB, e->range.hi, one) : NULL;
    Range others = {ahead ? e->range.lo : second, ahead ? e->last : e->range.hi, e->range.base};
    TirOp *loop = roles_begin_loop(r, others, n + crossing->n, values, map, second);
    const TirBlock *steady = loop->blocks[0];
    CloneMap now = clone_map_copy(r->fn, map), before = clone_map_copy(r->fn, map);

    r->b.block = loop->blocks[0];
    TirVal *counter = steady->params.at[0];
    TirVal *previous = ahead ? counter : tir_binary(&r->b, TIR_SUB, counter, tir_const_int(&r->b, 1));
    set_params(r, &now, ahead ? NULL : roles_iteration(r, &r->b, others.base, counter), steady->params.at + 1);
    set_params(r, &before, roles_iteration(r, &r->b, others.base, previous), steady->params.at + 1);
    for (uint32_t k = 0; k < crossing->n; k++)
        clone_set(&before, crossing->at[k], steady->params.at[n + 1 + k]);
    begin_part(e, STEP_STEADY, &now, &before);
    emit_steps(e);
    for (uint32_t k = 0; k < n; k++)
        values[k] = clone_of(is_later(e, k) ? &before : &now, yield->args[k]);
    for (uint32_t k = 0; k < crossing->n; k++)
        values[n + k] = clone_of(&now, crossing->at[k]);
    tir_yield(&r->b, n + crossing->n, values);
    r->b.block = around;
    for (uint32_t k = 0; k < n + crossing->n; k++)
        values[k] = loop->results[k];
}

/* The second stage of the last iteration. */
static void
emit_tail(Emission *e, const CloneMap *map, TirVal **values)
{
    Roles *r = e->r;
    CloneMap tail = clone_map_copy(r->fn, map);
    LiveMasks masks = r->masks;
    const TirOp *yield = block_yield(r->body);
    uint32_t n = r->loop->n_results;

    if (e->last == NULL)
        e->last = tir_binary(&r->b, TIR_SUB, e->range.hi, tir_const_int(&r->b, 1));
    set_params(r, &tail, roles_iteration(r, &r->b, e->range.base, e->last), values);
    for (uint32_t k = 0; k < e->staged->crossing.n; k++)
        clone_set(&tail, e->staged->crossing.at[k], values[n + k]);
    if (masks == MASKS_BY_SEGMENT)
        r->masks = MASKS_ALL;
    begin_part(e, STEP_TAIL, NULL, &tail);
    emit_steps(e);
    r->masks = masks;
    for (uint32_t k = 0; k < n; k++) {
        if (is_later(e, k))
            values[k] = clone_of(&tail, yield->args[k]);
    }
}

void
roles_emit_staged(Roles *r, const CloneMap *map, Range range, const Staged *staged, TirVal **values)
{
    Emission e = {.r = r, .staged = staged, .range = range};
    TirVal **own = arena_array(r->fn->arena, TirVal *, r->loop->n_results + staged->crossing.n + 1);

    for (uint32_t k = 0; k < r->loop->n_results; k++)
        own[k] = values[k];
    emit_head(&e, map, own);
    emit_steady(&e, map, own);
    emit_tail(&e, map, own);
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        values[k] = own[k];
}

void
roles_emit_if_any(Roles *r, const CloneMap *map, Range range, const Staged *staged, TirVal **values)
{
    uint32_t n = r->loop->n_results;
    TirBlock *around = r->b.block;
    TirOp *branch = roles_if_any(r, range, values);

    roles_emit_staged(r, map, range, staged, values);
    tir_yield(&r->b, n, values);
    r->b.block = around;
    for (uint32_t k = 0; k < n; k++)
        values[k] = branch->results[k];
}

/* ---- one stage ---- */

void
roles_emit_plain_loop(Roles *r, const CloneMap *map, Range range, const Staged *staged, TirVal **values)
{
    uint32_t n = r->loop->n_results;
    TirBlock *around = r->b.block;
    CloneMap now = clone_map_copy(r->fn, map);
    Emission e = {.r = r, .map = {&now}, .staged = staged, .part = STEP_STEADY};
    TirOp *loop = roles_enter_loop(r, range, n, values, &now, NULL);

    emit_steps(&e);
    roles_yielded(r, &now, values);
    tir_yield(&r->b, n, values);
    r->b.block = around;
    for (uint32_t k = 0; k < n; k++)
        values[k] = loop->results[k];
}
