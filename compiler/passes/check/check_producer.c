/* check_producer.c - the producer's run over one tile: parts of a stage are filled in order, for all
 * consumers, behind the load that waits for its being empty, and with what; and what any role does to others. */
#include "compiler/passes/check/check_roles.h"
#include "compiler/passes/util/shared_uses.h"

typedef struct Producer {
    Arena *arena;
    const TirFn *fn;
    RoleEvents *events;
    RoleFault *fault;
    uint32_t *part;   /* by pipeline: the one that comes next */
    uint32_t *filled; /* .. and stages so far */
} Producer;

/* The load of a pipeline whose barriers another one has waits for both stages to be empty, and tells what both expect. */
static bool
comes_behind_owner(const Producer *p, const TirShared *pipeline)
{
    return pipeline->with == NULL || p->filled[pipeline->id] < p->filled[pipeline->with->id];
}

static bool
visit_producer(void *user, const TirOp *op)
{
    Producer *p = user;

    if (op->op == TIR_TILE_ASK)
        vec_push(p->arena, p->events, op);
    if (op->op != TIR_TMA_LOAD)
        return true;
    uint32_t parts = tir_parts(p->fn->plan, op->shared), *next = &p->part[op->shared->id];
    if (op->integer != (int64_t)*next) {
        *p->fault = (RoleFault){"the parts of a stage are not filled in order", op, NULL};
        return false;
    }
    if (!comes_behind_owner(p, op->shared)) {
        *p->fault = (RoleFault){
            "a stage is filled before that of the pipeline whose barriers it has", op, NULL};
        return false;
    }
    *next = (*next + 1) % parts;
    p->filled[op->shared->id] += *next == 0;
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
                  .part = arena_array(arena, uint32_t, fn->shared.n + 1),
                  .filled = arena_array(arena, uint32_t, fn->shared.n + 1)};

    if (!walk_run_at(walk, program, visit_producer, &p))
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
list_event(void *user, const TirOp *op)
{
    Lister *l = user;
    bool meets = op->op == TIR_PINGPONG_WAIT || op->op == TIR_PINGPONG_ARRIVE ||
                 op->op == TIR_CONSUMER_BARRIER;
    bool channel = op->shared != NULL &&
                   (tir_is_pipeline(op->shared) || op->shared->kind == SHARED_STAGING ||
                    op->shared->kind == SHARED_SENT);

    if ((meets || channel) && (walk_is_channel(op) || walk_is_tmem(op)))
        vec_push(l->arena, l->events, op);
    if (walk_handed_read(op) != NULL)
        vec_push(l->arena, l->events, walk_handed_read(op));
    return true;
}

bool
list_role_events(Arena *arena, Walk *walk, const WalkProgram *program, RoleEvents *events)
{
    Lister l = {arena, events};

    return walk_run_at(walk, program, list_event, &l);
}

typedef struct Collector {
    Arena *arena;
    const Walk *walk;
    Places *places;
} Collector;

static bool
collect(void *user, const TirOp *op)
{
    Collector *k = user;
    uint32_t part = op->op == TIR_TMA_LOAD ? (uint32_t)op->integer : 0;

    if (op->op != TIR_TMA_LOAD && op->op != TIR_WANT)
        return true;
    Place place = {.op = op};
    TirVal *at[TENSOR_MAX_RANK];
    tir_dim_operands(op, at);
    for (uint32_t d = 0; d < op->tensor->rank; d++)
        place.at[d] = at[d] != NULL ? walk_value(k->walk, at[d]) : (Scalar){0};
    if (tir_copy_condition(op) != NULL) { /* where it is not known there may be nothing */
        Scalar copies = walk_value(k->walk, tir_copy_condition(op));
        place.empty = !copies.known || copies.value == 0;
    }
    vec_push(k->arena, &k->places[op->shared->id * MOST_CONSUMERS + part], place);
    return true;
}

bool
list_places(Arena *arena, const TirFn *fn, Walk *walk, const WalkProgram *program, Places **places)
{
    uint32_t n = (fn->shared.n + 1) * MOST_CONSUMERS;

    if (*places == NULL)
        *places = arena_array(arena, Places, n);
    for (uint32_t k = 0; k < n; k++)
        (*places)[k].n = 0;
    Collector collector = {.arena = arena, .walk = walk, .places = *places};
    return walk_run_at(walk, program, collect, &collector);
}

bool
same_place(const Place *a, const Place *b)
{
    if (a->op->tensor != b->op->tensor)
        return false;
    for (uint32_t k = 0; k < a->op->tensor->rank; k++) {
        if (a->at[k].known && b->at[k].known && a->at[k].value != b->at[k].value)
            return false;
    }
    return tir_same_ways(a->op, b->op);
}

typedef struct Search {
    const TirShared *pipeline;
    const TirOp *reader;
} Search;

static bool
search(void *user, const TirOp *op)
{
    Search *s = user;
    bool transposed, view = op->op == TIR_TRANSPOSE || op->op == TIR_PART;

    for (uint32_t k = 0; k < op->n_args && !view; k++) {
        const TirOp *read = view_source(op->args[k], &transposed);
        if (read != NULL && read->op == TIR_SHARED_READ && read->shared == s->pipeline)
            s->reader = op;
    }
    return s->reader == NULL;
}

bool
find_reader(Walk *walk, const WalkProgram *program, const TirShared *pipeline, const TirOp **reader)
{
    Search s = {.pipeline = pipeline};

    bool whole = walk_run_at(walk, program, search, &s);
    *reader = s.reader;
    return whole;
}
