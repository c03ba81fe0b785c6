/* roles_steps.c - the main loop of a role, written from its steps.
 *
 * A step is an operation of the loop's body, or something between operations: a wait for a product,
 * a stage given back.  Steps stand in the order in which the loop does them, and each has a stage:
 * in the iteration that the loop counts as i, a step of stage s is done for iteration i - s.  With
 * two stages, a and a + 1, that makes
 *
 *     the first iteration's steps of stage a
 *     for ..  { the steps in order: those of stage a + 1 are an iteration behind }
 *     the last iteration's steps of stage a + 1
 *
 * The producer's loop is written likewise, from steps that fill a stage each.
 *
 * A value of stage a that stage a + 1 reads is carried to the next iteration, or computed again
 * where that takes nothing but the iteration's number.  A wait names a product; how many later ones
 * may still run is counted here.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

/* A product that may still run, and how many iterations ago it would have been of stage 0. */
typedef struct InFlight {
    const TirOp *mma;
    int32_t behind;
} InFlight;

typedef struct Emission {
    Roles *r;
    /* of the first stage, and of the one behind it, if any; NULL: its steps are left out */
    CloneMap *map[2];
    const Staged *staged;
    VEC(InFlight) in_flight; /* in order of issue */
    StepParts part;
    Range range;
    TirVal *last; /* iteration, once it is known */
    /* values computed under the last products, to be there before the wait that follows */
    TirVal **under;
    uint32_t n_under;
} Emission;

Step *
roles_add_step(Roles *r, StepList *steps, StepKind kind, TirOp *op, int8_t stage)
{
    Step step = {.kind = kind, .op = op, .stage = stage, .parts = STEP_EVERYWHERE};

    vec_push(r->fn->arena, steps, step);
    return &steps->at[steps->n - 1];
}

/* ---- values of an earlier stage ---- */

static void
remake_inputs(const Emission *e, CloneMap *map, const TirOp *op)
{
    for (TirReads reads = tir_reads(op); tir_reads_next(&reads);) {
        if (!e->staged->later[reads.value->id] && roles_is_remade(e->r, reads.value))
            roles_remake(e->r, map, reads.value);
    }
}

/* The side of the branch of stage 0 that makes a value on which stage 1 does not read it: all that
 * does stands on the other side of branches with the same condition.  2: there is none. */
static uint32_t
unread_side(const Roles *r, const TirVal *value)
{
    uint32_t uses[2] = {0, 0};

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        for (uint32_t k = 0; op->op == TIR_IF && op->args[0] == value->def->args[0] && k < 2; k++)
            uses[k] += count_uses_in(op->blocks[k], value);
    }
    uint32_t all = count_uses_in(r->body, value);
    return uses[1] == all ? 0 : uses[0] == all ? 1 : 2;
}

/* What a branch gives on the side where stage 1 does not read it may be anything: it is what
 * it was in the iteration before, which takes no instruction. */
static void
keep_unread(const Roles *r, const CloneMap *now, const TirVal *crossing, TirVal *before)
{
    const TirOp *branch = crossing->def;

    if (branch == NULL || branch->op != TIR_IF || crossing->type.rank > 1)
        return;
    uint32_t side = unread_side(r, crossing);
    if (side < 2) {
        const TirOp *copy = clone_of(now, branch->results[crossing->index])->def;
        block_yield(copy->blocks[side])->args[crossing->index] = before;
    }
}

/* ---- steps ---- */

/* `values` of a step, behind what was computed under the last products. */
static TirVal **
values_of(Emission *e, const Step *step, const CloneMap *map, uint32_t *n)
{
    TirVal **values = arena_array(e->r->fn->arena, TirVal *, e->n_under + step->values.n + 1);

    for (uint32_t k = 0; k < e->n_under; k++)
        values[k] = e->under[k];
    for (uint32_t k = 0; k < step->values.n && map != NULL;
         k++) /* of the first stage: the tail has none */
        values[e->n_under + k] = clone_of(map, step->values.at[k]);
    *n = e->n_under + (map != NULL ? step->values.n : 0);
    e->n_under = 0;
    return values;
}

static void
emit_wait(Emission *e, const Step *step, const CloneMap *map)
{
    uint32_t done = 0, n;

    for (uint32_t k = 0; k < e->in_flight.n; k++) {
        if (e->in_flight.at[k].mma == step->op && e->in_flight.at[k].behind == step->stage)
            done = k + 1;
    }
    if (done == 0)
        return;
    TirVal **values = values_of(e, step, step->of_next ? e->map[0] : map, &n);
    TirOp *wait = tir_op_new(&e->r->b, TIR_MMA_WAIT, n, values, 0, NULL);
    e->in_flight.n -= done;
    for (uint32_t k = 0; k < e->in_flight.n; k++)
        e->in_flight.at[k] = e->in_flight.at[k + done];
    wait->integer = e->in_flight.n;
}

static void
emit_release(Emission *e, const Step *step, const CloneMap *map)
{
    uint32_t n;
    TirVal **values = values_of(e, step, map, &n);

    tir_op_new(&e->r->b, TIR_CONSUMER_RELEASE, n, values, 0, NULL)->shared = step->op->shared;
}

static void
emit_operation(Emission *e, const Step *step, CloneMap *map)
{
    Roles *r = e->r;

    if (step->stage > e->staged->first)
        remake_inputs(e, map, step->op);
    if (e->part == STEP_HEAD && roles_test_mask(r, map, step->op))
        return;
    if (roles_vector(r, step->op) != NULL)
        roles_read_vector(r, map, roles_vector(r, step->op), clone_of(map, r->body->params.at[0]));
    else if (!roles_exchange_op(r, map, step->op) && !roles_issued_op(r, map, step->op))
        roles_copy(r, map, step->op, step->stage > 0);
    if (step->op->op == TIR_MMA && r->graph == NULL)
        vec_push(r->fn->arena, &e->in_flight, ((InFlight){step->op, step->stage}));
}

static void
emit_step(Emission *e, const Step *step, CloneMap *map)
{
    Roles *r = e->r;

    switch (step->kind) {
    case STEP_OP: emit_operation(e, step, map); break;
    case STEP_WAIT: emit_wait(e, step, map); break;
    case STEP_RELEASE: emit_release(e, step, map); break;
    case STEP_PLAIN: roles_plain(&r->b, step->opcode, NULL, 0); break;
    case STEP_WRITE_PART: roles_write_part(r, map, step->op); break;
    case STEP_COPY_VECTORS:
        roles_copy_vectors(r, tir_binary(&r->b, TIR_ADD, clone_of(map, r->body->params.at[0]),
                                         tir_const_int(&r->b, step->ahead)));
        break;
    case STEP_READ_AGAIN: roles_read_for(r, map, step->op); break;
    case STEP_FILL: /* where there is no iteration, for nobody */
        roles_fill(r, map, step->op,
                   e->part == STEP_NONE && roles_is_for_loop(r, step->op)
                       ? tir_const_bool(&r->b, false)
                       : NULL);
        break;
    case STEP_VECTORS_THERE: roles_vectors_there(r); break;
    case STEP_DELAY: roles_delay(r, e->range); break;
    case STEP_GIVE_BACK:
    case STEP_GIVE_BACK_DEFERRED:
        roles_give_back_once(r, step->kind == STEP_GIVE_BACK_DEFERRED);
        break;
    case STEP_BEHIND: e->n_under = roles_emit_behind(r, map, e->under); break;
    case STEP_REST:
        e->under[e->n_under++] = roles_begin_rest(r, e->range.hi, e->part == STEP_TAIL);
        break;
    }
}

/* Says of which stage operations are, from place `from` on; of scalars nobody needs to know. */
static void
set_stage(const TirBuilder *b, uint32_t from, int8_t stage)
{
    for (uint32_t k = from; k < b->block->ops.n; k++) {
        TirOp *op = b->block->ops.at[k];
        if (op->n_results == 0 || op->results[0]->type.rank > 0)
            op->stage = stage;
    }
}

static void
emit_steps(Emission *e)
{
    for (uint32_t i = 0; i < e->staged->steps.n; i++) {
        const Step *step = &e->staged->steps.at[i];
        CloneMap *map = e->map[step->stage - e->staged->first];
        uint32_t from = e->r->b.block->ops.n;
        if (map != NULL && (step->parts & e->part) != 0)
            emit_step(e, step, map);
        if (step->kind < STEP_PLAIN)
            set_stage(&e->r->b, from, step->stage);
    }
}

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

/* How many values the loop carries, without those that cross stages. */
static uint32_t
carried(const Roles *r, const Staged *staged)
{
    return staged->bare ? 0 : r->loop->n_results;
}

/* Lets parameters and values that cross stages be `values`: of iteration `iteration`. */
static void
set_params(const Emission *e, CloneMap *map, TirVal *iteration, TirVal *const *values)
{
    const TirBlock *body = e->r->body;

    clone_set(map, body->params.at[0], iteration);
    for (uint32_t k = 0; k < carried(e->r, e->staged); k++)
        clone_set(map, body->params.at[k + 1], values[k]);
}

static bool
is_later(const Emission *e, uint32_t k)
{
    return e->staged->later != NULL && e->staged->later[e->r->body->params.at[k + 1]->id];
}

/* Whether the second stage has operations, which may ask for the iteration's number. */
static bool
has_second_operations(const Staged *staged)
{
    for (uint32_t i = 0; i < staged->steps.n; i++) {
        const Step *step = &staged->steps.at[i];
        if ((step->kind == STEP_OP || step->kind == STEP_FILL) && step->stage > staged->first)
            return staged->later != NULL;
    }
    return false;
}

/* The first stage of the first iteration; `values` are then what the loop begins with. */
static void
emit_head(Emission *e, const CloneMap *map, TirVal **values)
{
    Roles *r = e->r;
    CloneMap head = clone_map_copy(r->fn, map);
    LiveMasks masks = r->masks;
    const TirOp *yield = block_yield(r->body);
    uint32_t n = carried(r, e->staged);

    if (e->staged->first == 0) {
        TirVal *iteration = roles_iteration(r, e->range.base, e->range.lo);
        set_params(e, &head, iteration, values);
        if (!e->staged->bare)
            roles_find_tests(r, map, iteration);
    } /* what begins ahead asks for nothing of its iteration but loads (lookahead_find) */
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

/* Segments change places in a loop that goes backwards. */
static TirVal *
inner_bound(const Roles *r, TirBuilder *b, const CloneMap *outer, TirVal *base, uint32_t k)
{
    uint32_t inner = r->loop->n_segments - 1;

    if (base == NULL)
        return clone_of(outer, r->loop->args[2 + k]);
    return tir_binary(b, TIR_SUB, base, clone_of(outer, r->loop->args[1 + inner - k]));
}

/* The loop with other bounds and initial values, without operations.  Its inner bounds are those
 * that `outer` gives, `least` or NULL the least they may be. */
static TirOp *
begin_loop(Roles *r, bool bare, Range range, uint32_t n, TirVal *const *initial,
           const CloneMap *outer, TirVal *least)
{
    bool whole = bare || r->loop->n_segments < 2 || r->masks != MASKS_BY_SEGMENT;
    uint32_t inner = whole ? 0 : r->loop->n_segments - 1;
    TirVal **args = arena_array(r->fn->arena, TirVal *, 2 + inner + n);

    for (uint32_t k = 0; k < inner; k++) {
        args[2 + k] = inner_bound(r, &r->b, outer, range.base, k);
        if (least != NULL)
            args[2 + k] = tir_binary(&r->b, TIR_MAX, args[2 + k], least);
        else if (r->bounds_differ) /* a consumer past the end has no iteration */
            args[2 + k] = tir_binary(&r->b, TIR_MIN, args[2 + k], range.hi);
    }
    TirOp *loop = tir_for(&r->b, range.lo, range.hi, n, initial);

    loop->span = r->loop->span;
    if (inner == 0)
        return loop;
    args[0] = range.lo;
    args[1] = range.hi;
    for (uint32_t k = 0; k < n; k++)
        args[2 + inner + k] = initial[k];
    loop->args = args;
    loop->n_args = 2 + inner + n;
    loop->n_segments = r->loop->n_segments;
    loop->hints = r->loop->hints;
    loop->hints.backwards = loop->hints.staggered = false; /* its counter counts as always */
    return loop;
}

/* The loop, over iterations `range`, with inner bounds of at least `least`; `values` are then what
 * it leaves. */
static void
emit_steady(Emission *e, const CloneMap *map, Range range, TirVal *least, TirVal **values)
{
    Roles *r = e->r;
    const ValueList *crossing = &e->staged->crossing;
    const TirOp *yield = block_yield(r->body);
    uint32_t n = carried(r, e->staged);
    TirBlock *around = r->b.block;
    bool ahead = e->staged->first < 0, two = e->staged->later != NULL;
    TirOp *loop = begin_loop(r, e->staged->bare, range, n + crossing->n, values, map, least);
    TirVal *const *params = loop->blocks[0]->params.at;
    CloneMap now = clone_map_copy(r->fn, map), before = clone_map_copy(r->fn, map);

    r->b.block = loop->blocks[0];
    TirVal *previous = params[0];
    bool second = has_second_operations(e->staged);
    if (second && !ahead)
        previous = tir_binary(&r->b, TIR_SUB, params[0], tir_const_int(&r->b, 1));
    set_params(e, &now, ahead ? NULL : roles_iteration(r, range.base, params[0]), params + 1);
    if (second)
        set_params(e, &before, roles_iteration(r, range.base, previous), params + 1);
    for (uint32_t k = 0; k < crossing->n; k++)
        clone_set(&before, crossing->at[k], params[n + 1 + k]);
    begin_part(e, STEP_STEADY, &now, two ? &before : NULL);
    emit_steps(e);
    for (uint32_t k = 0; k < n; k++)
        values[k] = clone_of(is_later(e, k) ? &before : &now, yield->args[k]);
    for (uint32_t k = 0; k < crossing->n; k++) {
        keep_unread(r, &now, crossing->at[k], params[n + 1 + k]);
        values[n + k] = clone_of(&now, crossing->at[k]);
    }
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
    uint32_t n = carried(r, e->staged);

    set_params(e, &tail, e->last != NULL ? roles_iteration(r, e->range.base, e->last) : NULL,
               values);
    for (uint32_t k = 0; k < n; k++)
        clone_set(&tail, r->loop->results[k], values[k]);
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
    uint32_t n = carried(r, staged);
    Emission e = {.r = r, .staged = staged, .range = range, .under = values + n};
    TirVal **own = arena_array(r->fn->arena, TirVal *, n + staged->crossing.n + 1);
    TirVal *one, *least = NULL;

    for (uint32_t k = 0; k < n; k++)
        own[k] = values[k];
    if (staged->later != NULL) {
        emit_head(&e, map, own);
        one = tir_const_int(&r->b, 1);
        if (staged->first < 0)
            range.hi = e.last = tir_binary(&r->b, TIR_SUB, range.hi, one);
        else
            range.lo = least = tir_binary(&r->b, TIR_ADD, range.lo, one);
    }
    emit_steady(&e, map, range, least, own);
    if (staged->later != NULL) {
        if (e.last == NULL && has_second_operations(staged))
            e.last = tir_binary(&r->b, TIR_SUB, range.hi, tir_const_int(&r->b, 1));
        emit_tail(&e, map, own);
    }
    for (uint32_t k = 0; k < n; k++)
        values[k] = own[k];
}

void
roles_emit_if_any(Roles *r, const CloneMap *map, Range range, const Staged *staged, TirVal **values)
{
    uint32_t n = carried(r, staged), all = n + staged->more.n;
    TirType *types = arena_array(r->fn->arena, TirType, all + 1);
    TirVal **others = arena_array(r->fn->arena, TirVal *, all + 1);
    TirVal *least = staged->least != NULL ? staged->least : range.hi;
    TirBlock *around = r->b.block;
    CloneMap none = clone_map_copy(r->fn, map);
    Emission without = {.r = r, .staged = staged, .part = STEP_NONE, .map = {&none, &none}};

    for (uint32_t k = 0; k < all; k++)
        types[k] = k < n ? r->loop->results[k]->type : staged->more.at[k - n];
    TirOp *branch = tir_if(&r->b, tir_binary(&r->b, TIR_LT, range.lo, least), all, types);
    r->b.block = branch->blocks[1];
    for (uint32_t k = 0; k < n; k++)
        clone_set(&none, r->loop->results[k], values[k]);
    if (staged->otherwise != NULL)
        staged->otherwise(r, &none, range);
    for (uint32_t k = 0; k < n; k++)
        others[k] = clone_of(&none, r->loop->results[k]);
    without.range = range;
    without.under = others + n;
    emit_steps(&without);
    tir_yield(&r->b, all, others);
    r->b.block = branch->blocks[0];
    roles_emit_staged(r, map, range, staged, values);
    tir_yield(&r->b, all, values);
    r->b.block = around;
    for (uint32_t k = 0; k < all; k++)
        values[k] = branch->results[k];
}
