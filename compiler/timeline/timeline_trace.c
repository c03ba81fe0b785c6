/* timeline_trace.c - runs the programs of the roles over one tile and records their steps.
 *
 * The launch is one of the small launches of pass check-roles: the first in which every consumer
 * has enough iterations for each pipeline to go around more than twice, so that a steady state is
 * reached.  Branches that depend on data are weighted as in the cost model.
 */
#include "compiler/cost/cost.h"
#include "compiler/passes/check/role_cases.h"
#include "compiler/passes/check/role_walk.h"
#include "compiler/passes/util/tir_util.h"
#include "compiler/timeline/timeline.h"

enum {
    MOST_BLOCKS = 20000,   /* runs of blocks, before a launch counts as too long */
    LEAST_ITERATIONS = 12, /* of the launch that is drawn: enough for a steady state, .. */
    SPARE_ITERATIONS = 6,  /* .. which begins when each pipeline has gone around twice */
    MOST_STEPS = 256,      /* definitions followed: a bound on work */
    DEEPEST = 24,          /* loops and branches around an operation */
    MORE = 256             /* times a number of the launch, where there are too few programs */
};

typedef struct Tracer {
    Arena *arena;
    RoleSteps *steps; /* NULL: only count */
    uint32_t iterations;
    double weight; /* of what is visited now, and of what is around each branch that it is in */
    double outside[DEEPEST];
    uint32_t depth;
} Tracer;

bool
timeline_is_product(const TirOp *op)
{
    return op->op == TIR_TMEM_MMA || (op->op == TIR_MMA && op->async);
}

/* Whether a block has products, or waits for what another role multiplies; `loops`: in loops. */
static bool
has_products(const TirBlock *block, bool loops)
{
    bool some = false;

    for (uint32_t i = 0; i < block->ops.n && !some; i++) {
        const TirOp *op = block->ops.at[i];
        some = !loops && (timeline_is_product(op) ||
                          (op->op == TIR_CONSUMER_WAIT && op->shared->from == ROLE_MMA));
        for (uint32_t k = 0; k < op->n_blocks && (op->op == TIR_IF || loops); k++)
            some = some || has_products(op->blocks[k], loops && op->op != TIR_FOR);
    }
    return some;
}

static bool
is_main_loop(const TirOp *op)
{
    return op->op == TIR_FOR && has_products(op->blocks[0], false) &&
           !has_products(op->blocks[0], true);
}

static bool
computed_from(const TirVal *value, uint32_t *steps)
{
    const TirOp *def = value->def;

    if (++*steps > MOST_STEPS)
        return false;
    if (def == NULL) /* carried over iterations: what comes first, or next, tells */
        return value->block->owner != NULL && value->block->owner->op == TIR_FOR &&
               value->index > 0 && value->type.rank == 2;
    if (def->op == TIR_MMA || def->op == TIR_TMEM_READ)
        return true;
    if (def->n_blocks > 0) {
        for (uint32_t k = 0; k < def->n_blocks; k++) {
            const TirOp *yield = block_yield(def->blocks[k]);
            if (computed_from(yield->args[value->index], steps))
                return true;
        }
        return false;
    }
    if (tir_axis_use(def) == AXIS_REDUCES || value->type.rank != 2)
        return false;
    for (uint32_t k = 0; k < def->n_args; k++) {
        if (def->args[k]->type.rank == 2 && computed_from(def->args[k], steps))
            return true;
    }
    return false;
}

bool
timeline_is_computed(const TirVal *value)
{
    uint32_t steps = 0;

    return computed_from(value, &steps);
}

static bool
visit(void *user, const TirOp *op, WalkMoment moment, uint32_t block)
{
    Tracer *t = user;
    bool loop = (moment == WALK_ENTER || moment == WALK_LEAVE) && is_main_loop(op);
    bool rows = op->op == TIR_IF && op->by_rows;

    if (rows && moment == WALK_ENTER && t->depth < DEEPEST) {
        t->outside[t->depth++] = t->weight;
        t->weight *= cost_share(op, block);
    } else if (rows && moment == WALK_LEAVE && t->depth > 0) {
        t->weight = t->outside[--t->depth];
    }
    t->iterations += loop && moment == WALK_ENTER;
    RoleStep step = {STEP_OP, op, t->weight};
    if (loop)
        step.kind = moment == WALK_ENTER ? STEP_ITERATION : STEP_ITERATION_END;
    if (t->steps != NULL && (loop || (moment == WALK_AT && op->n_blocks == 0)))
        vec_push(t->arena, t->steps, step);
    return true;
}

typedef struct Search {
    Arena *arena;
    const TirFn *fn;
    const RoleTrace *trace;
    WalkProgram *brief[TIMELINE_ROLES],
        *full[TIMELINE_ROLES]; /* by role; those of one kind share them */
    WalkSetting setting;
    Scalar *values;
    int64_t counts[WALK_AXES], consumer_indices, tile[WALK_AXES];
} Search;

/* Runs a role in the current tile.  False: too long a run. */
static bool
run_role(Search *s, uint32_t role, WalkProgram *program, RoleSteps *steps, uint32_t *n)
{
    Tracer tracer = {.arena = s->arena, .steps = steps, .weight = 1};
    Walk walk = {.setting = &s->setting,
                 .values = s->values,
                 .blocks = MOST_BLOCKS,
                 .arena = s->arena,
                 .visit = visit,
                 .user = &tracer};

    int64_t *own = walk_set_tile(&s->setting, s->fn, s->tile, s->consumer_indices);
    uint32_t consumer = s->trace->consumer[role];
    if (own != NULL && (role > 0 || tir_multiplies_in_pairs(s->fn->plan)))
        *own = s->setting.first + (role > 0 ? tir_program_step(s->fn->plan) * consumer : 0);
    s->setting.consumer = consumer;
    bool done = walk_run(&walk, program);
    *n = tracer.iterations;
    return done;
}

/* The least number of iterations in the current tile of those who issue products. */
static uint32_t
count_iterations(Search *s)
{
    uint32_t least = UINT32_MAX, n;
    uint32_t consumers = tir_consumers(s->fn->plan);

    if (walk_set_tile(&s->setting, s->fn, s->tile, s->consumer_indices) != NULL &&
        (s->setting.first < 0 || s->setting.first + consumers > s->consumer_indices))
        return 0; /* some consumer has no program */
    for (uint32_t role = s->trace->lead; role < s->trace->roles; role++) {
        if (s->trace->kind[role] != s->trace->kind[s->trace->lead])
            continue;
        if (!run_role(s, role, s->brief[role], NULL, &n))
            return 0;
        least = n < least ? n : least;
    }
    return least;
}

/* Where a number of the launch, as that of the longest packed rows, says how many programs there
 * are: each consumer has one. */
static void
count_enough(Search *s)
{
    const TirGridAxis *axis = tir_consumer_axis(s->fn);
    Scalar *more = arena_array(s->arena, Scalar, s->fn->scalars.n + 1);

    if (axis == NULL || walk_host(axis->extent, s->setting.sizes, s->setting.scalars).value >=
                            tir_consumers(s->fn->plan))
        return;
    for (uint32_t k = 0; k < s->fn->scalars.n; k++)
        more[k] = (Scalar){MORE * s->setting.scalars[k].value, s->setting.scalars[k].known};
    s->setting.scalars = more;
    s->setting.most_data *= MORE;
}

static bool
count_tiles(Search *s)
{
    count_enough(s);
    for (uint32_t k = 0; k < s->fn->grid.n; k++) {
        Scalar n = walk_host(s->fn->grid.at[k].extent, s->setting.sizes, s->setting.scalars);
        if (!n.known || n.value <= 0)
            return false;
        s->counts[k] = n.value;
        if (k == s->fn->plan->tiles.axis) {
            s->consumer_indices = n.value;
            s->counts[k] = (n.value +
                            (s->fn->plan->tiles.reversed ? tir_consumers(s->fn->plan) - 1 : 0)) /
                           tir_consumers(s->fn->plan);
        }
    }
    return tir_consumer_axis(s->fn) == NULL || s->counts[s->fn->plan->tiles.axis] > 0;
}

/* The sizes of a launch, and the tile: kept over the next launches. */
typedef struct Found {
    uint32_t iterations;
    WalkSetting setting; /* what tensors of integers hold, too */
    int64_t *sizes, tile[WALK_AXES];
    Scalar *scalars;
} Found;

static void
keep(Search *s, Found *found, uint32_t n)
{
    found->iterations = n;
    found->setting = s->setting;
    for (uint32_t k = 0; k < s->fn->sizes.n; k++)
        found->sizes[k] = s->setting.sizes[k];
    for (uint32_t k = 0; k < s->fn->scalars.n; k++)
        found->scalars[k] = s->setting.scalars[k];
    for (uint32_t k = 0; k < s->fn->grid.n; k++)
        found->tile[k] = s->tile[k];
}

/* Looks at the first and the last tile along the consumer axis. */
static void
try_launch(Search *s, Found *found, uint32_t wanted)
{
    if (!count_tiles(s))
        return;
    for (uint32_t last = 0; last < 2 && found->iterations < wanted; last++) {
        for (uint32_t k = 0; k < s->fn->grid.n; k++)
            s->tile[k] = k == s->fn->plan->tiles.axis && last == 1 ? s->counts[k] - 1 : 0;
        uint32_t n = count_iterations(s);
        if (n > found->iterations)
            keep(s, found, n);
    }
}

static const char *
describe(Arena *arena, const TirFn *fn, const Found *found)
{
    Buf text;

    buf_init(&text, arena);
    walk_print_launch(fn, found->sizes, found->scalars, &text);
    buf_add(&text, ", tile");
    walk_print_tile(fn, found->tile, &text);
    return text.at;
}

/* Not the warps that copy from staging buffers to memory: what they do is a step of the
 * consumers'. */
static void
list_roles(const TirPlan *plan, RoleTrace *out)
{
    *out = (RoleTrace){.lead = 1};
    for (RoleKind kind = 0; kind < ROLE_KINDS; kind++) {
        const TirRole *role = tir_role(plan, kind);
        if (role == NULL || (kind == ROLE_REDUCE && tir_adding_warps(plan) == 0))
            continue;
        if (kind == ROLE_MMA)
            out->lead = out->roles;
        bool several = kind == ROLE_CONSUMER || kind == ROLE_REDUCE;
        for (uint32_t k = 0; k < (several ? role->instances : 1); k++) {
            out->kind[out->roles] = kind;
            out->consumer[out->roles++] = k;
        }
    }
}

bool
timeline_trace(Arena *arena, const TirFn *fn, RoleTrace *out)
{
    Search s = {.arena = arena, .fn = fn};
    uint32_t wanted = LEAST_ITERATIONS, n;
    const TirPlan *plan = fn->plan;

    if (tir_program(plan, ROLE_PRODUCER) == NULL || tir_consumers(plan) > MOST_CONSUMERS ||
        fn->grid.n > WALK_AXES)
        return false;
    list_roles(plan, out);
    s.trace = out;
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *pipeline = fn->shared.at[k];
        if (tir_is_pipeline(pipeline) && 2 * pipeline->stages + SPARE_ITERATIONS > wanted)
            wanted = 2 * pipeline->stages + SPARE_ITERATIONS;
    }
    s.values = arena_array(arena, Scalar, fn->next_id + 1);
    const WalkProgram *deciders[TIMELINE_ROLES];
    uint32_t n_deciders = 0;
    for (uint32_t k = 0; k < out->roles; k++) {
        const TirBlock *body = tir_program(plan, out->kind[k]);
        bool again = k > 0 && out->kind[k] == out->kind[k - 1];
        s.brief[k] = again ? s.brief[k - 1]
                           : walk_program(arena, fn, body == NULL ? fn->body : body, WALK_CHANNELS);
        s.full[k] = again ? s.full[k - 1]
                          : walk_program(arena, fn, body == NULL ? fn->body : body, WALK_TILES);
        if (!again)
            deciders[n_deciders++] = s.brief[k];
    }
    Found found = {.sizes = arena_array(arena, int64_t, fn->sizes.n + 1),
                   .scalars = arena_array(arena, Scalar, fn->scalars.n + 1)};
    RoleCases *cases = role_cases(arena, fn, deciders, n_deciders, wanted + 2, true);
    while (found.iterations < wanted && role_cases_next(cases, &s.setting, false))
        try_launch(&s, &found, wanted);
    if (found.iterations == 0)
        return false;
    s.setting = found.setting;
    s.setting.sizes = found.sizes;
    s.setting.scalars = found.scalars;
    for (uint32_t k = 0; k < fn->grid.n; k++)
        s.tile[k] = found.tile[k];
    for (uint32_t role = 0; role < out->roles; role++) {
        if (!run_role(&s, role, s.full[role], &out->role[role], &n))
            return false;
    }
    out->iterations = found.iterations;
    out->launch = describe(arena, fn, &found);
    return true;
}
