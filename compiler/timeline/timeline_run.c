/* timeline_run.c - runs the roles side by side, with each unit at its full rate.
 *
 * Each role takes its steps in order.  A step that waits for another role (a full stage, an empty
 * stage, the turn, the other consumers) starts when that has happened; a step on a shared unit
 * starts when the unit has finished the work requested before.  Among the possible steps the
 * earliest is taken, since later ones cannot change it.  Copies and products are asynchronous; the
 * result of a product is available one latency after its end (the gap of an iteration, divided
 * equally among its waits).
 *
 * A block runs two tiles with the same program, so that the picture shows where a persistent block
 * begins the next tile.
 */
#include "compiler/passes/util/tir_util.h"
#include "compiler/timeline/timeline.h"

enum {
    TILES = 2,          /* that a persistent block goes through: one, and what follows it */
    MOST_IN_FLIGHT = 32 /* asynchronous spans that a wait looks back at */
};

typedef struct Moment {
    double at;
    int32_t span;
} Moment;

typedef VEC(Moment) Moments;

typedef struct PipelineState {
    Moments full[MOST_CONSUMERS];     /* by part */
    Moments released[MOST_CONSUMERS]; /* by consumer */
    uint32_t copied[MOST_CONSUMERS], waited[MOST_CONSUMERS];
} PipelineState;

typedef struct RoleState {
    double time;
    uint32_t tile, step; /* how many tiles it has begun; what comes next in the last one */
    Moment begun[TILES];
    Moments mmas;              /* ends of all that it has asked for */
    uint32_t arrivals, passed; /* barriers of all consumers */
    Moment taken;              /* the last tile that was put into shared memory for memory */
} RoleState;

/* All consumers at a barrier. */
typedef struct Meeting {
    Moment last;
    uint32_t there;
} Meeting;

/* What a step waits for. */
typedef struct Need {
    bool known; /* else somebody else has to go on first */
    double at;
    int32_t cause;
    const char *text;
} Need;

typedef struct Run {
    Arena *arena;
    const Target *target;
    const TirFn *fn;
    Timeline *line;
    PipelineState *pipelines;
    RoleState role[TIMELINE_ROLES];
    double unit_free[UNIT_COUNT];
    uint32_t turn; /* the consumer whose turn it is, or was last given */
    bool pingpong_taken;
    Moment pingpong_given;
    VEC(Meeting) meetings;
    uint32_t tiles;
    double latency; /* of a wait for products */
    /* of the first role with products: begins and ends, with the tile as the span */
    Moments iterations[2];
} Run;

/* ---- names ---- */

const char *
timeline_unit_name(OpUnit unit)
{
    static const char *const names[] = {"",           "tensor cores",  "MUFU",
                                        "arithmetic", "shared memory", "copies"};
    return names[unit];
}

const char *
timeline_role_name(Arena *arena, const RoleTrace *trace, uint32_t role)
{
    RoleKind kind = trace->kind[role];
    bool several = role + 1 < trace->roles && trace->kind[role + 1] == kind;

    if (kind == ROLE_CONSUMER || several || trace->consumer[role] > 0)
        return arena_printf(arena, "%s %u", tir_role_kind_name(kind), trace->consumer[role]);
    return tir_role_kind_name(kind);
}

int32_t
timeline_consumer(const RoleTrace *trace, uint32_t role, const TirOp *op)
{
    RoleKind kind = trace->kind[role];

    if (kind == ROLE_PRODUCER || kind == ROLE_CORRECTION)
        return -1;
    return kind == ROLE_MMA ? (int32_t)op->integer : (int32_t)trace->consumer[role];
}

/* The nearest name on the way that a value was computed; what is carried from iteration to
 * iteration is what it begins with. */
static const char *
value_text(const TirVal *value)
{
    enum { FARTHEST = 8 };

    for (uint32_t depth = 0; depth < FARTHEST && value->name == NULL; depth++) {
        const TirOp *owner = value->def == NULL ? value->block->owner : NULL;
        if (owner != NULL && owner->op == TIR_FOR && value->index > 0)
            value = owner->args[loop_first_initial(owner) + value->index - 1];
        else if (value->def == NULL || value->def->n_args == 0 || value->def->n_blocks > 0)
            break;
        else
            value = value->def->args[0];
    }
    return value->name;
}

static const char *
operand_text(Arena *arena, const TirVal *value)
{
    bool transposed = false;
    const char *name;

    for (; value->def != NULL && (value->def->op == TIR_TRANSPOSE || value->def->op == TIR_PART);
         value = value->def->args[0])
        transposed = transposed != (value->def->op == TIR_TRANSPOSE);
    if (value->def != NULL && value->def->op == TIR_SHARED_READ)
        name = value->def->shared->from == ROLE_PRODUCER
                   ? value->def->shared->name
                   : tir_buffer_name(arena, value->def->shared);
    else
        name = value_text(value);
    return arena_printf(arena, "%s%s", name == NULL ? "a value" : name, transposed ? ".T" : "");
}

/* An operation in words: "s = mma(Q, K.T)". */
static const char *
op_text(Arena *arena, const TirOp *op)
{
    const char *what = tir_op_info(op->op)->text;

    switch (op->op) {
    case TIR_TMEM_MMA:
        return arena_printf(arena, "%s = mma(%s, %s)", tir_buffer_name(arena, op->shared),
                            operand_text(arena, op->args[0]), operand_text(arena, op->args[1]));
    case TIR_MMA: {
        const TirVal *result = op->results[0];
        return arena_printf(arena, "%s%smma(%s, %s)", result->name == NULL ? "" : result->name,
                            result->name == NULL ? "" : " = ", operand_text(arena, op->args[0]),
                            operand_text(arena, op->args[1]));
    }
    case TIR_TMA_LOAD:
        if (op->shared->each)
            return arena_printf(arena, "copy into %s, consumer %d",
                                tir_buffer_name(arena, op->shared), (int)op->integer);
        return arena_printf(arena, "copy into %s", tir_buffer_name(arena, op->shared));
    case TIR_CONSUMER_RELEASE:
        return arena_printf(arena, "releases %s", tir_buffer_name(arena, op->shared));
    case TIR_PRODUCER_COMMIT:
        return arena_printf(arena, "hands on %s", tir_buffer_name(arena, op->shared));
    case TIR_PINGPONG_ARRIVE: return "passes the ping-pong turn on";
    case TIR_SHARED_WRITE:
    case TIR_STAGING_WRITE:
        return arena_printf(arena, "write to %s", tir_buffer_name(arena, op->shared));
    default: break;
    }
    if (tir_axis_use(op) == AXIS_REDUCES)
        return tir_reduction_info(op->reduce)->text;
    if (timeline_goes_through_shared(op))
        return arena_printf(arena, "%s %s through %s", what, op->tensor->name,
                            tir_buffer_name(arena, op->shared));
    return op->tensor != NULL ? arena_printf(arena, "%s %s", what, op->tensor->name) : what;
}

/* ---- what a step needs ---- */

static Need
at_once(const RoleState *role)
{
    return (Need){.known = true, .at = role->time, .cause = -1};
}

static void
need_moment(Need *need, Moment moment, const char *text)
{
    if (moment.at <= need->at)
        return;
    need->at = moment.at;
    need->cause = moment.span;
    need->text = text;
}

static const RoleStep *
next_step(const Run *run, uint32_t role)
{
    const RoleState *state = &run->role[role];
    const RoleSteps *steps = &run->line->trace.role[role];

    return state->tile == 0 || state->step == steps->n ? NULL : &steps->at[state->step];
}

/* The consumer for which a role takes a step: roles for all say with each for whom. */
static uint32_t
consumer_of(const Run *run, uint32_t role, const TirOp *op)
{
    const RoleTrace *trace = &run->line->trace;

    return tir_serves_all(trace->kind[role]) ? (uint32_t)op->integer : trace->consumer[role];
}

/* With the dynamic scheduler the producer broadcasts to the consumers, TILE_STAGES ahead at
 * most. */
static Need
need_of_tile(const Run *run, uint32_t role)
{
    Need need = at_once(&run->role[role]);
    uint32_t next = run->role[role].tile;

    for (uint32_t consumer = 1; tir_is_dynamic(run->fn->plan) && consumer < run->line->trace.roles;
         consumer++) {
        const RoleState *producer = &run->role[0], *other = &run->role[consumer];
        if (role == consumer) {
            if (producer->tile <= next)
                return (Need){0};
            need_moment(&need, producer->begun[next], "the next tile");
        } else if (role == 0 && next >= TILE_STAGES) {
            if (other->tile <= next - TILE_STAGES)
                return (Need){0};
            need_moment(&need, other->begun[next - TILE_STAGES],
                        "a consumer to receive its tile index");
        }
    }
    return need;
}

/* The next stage of a pipeline that a role fills when its reader, or readers, gave it back. */
static Need
need_of_stage(const Run *run, uint32_t role, const TirOp *op)
{
    Need need = at_once(&run->role[role]);
    const TirShared *pipeline = op->shared;
    const PipelineState *state = &run->pipelines[pipeline->id];
    bool one = pipeline->each || pipeline->to == ROLE_MMA;
    uint32_t part = !pipeline->each ? 0
                    : role > 0      ? consumer_of(run, role, op)
                                    : (uint32_t)op->integer;
    /* of such one is held from the start */
    uint32_t n = state->copied[part] + pipeline->held;
    const char *text = arena_printf(run->arena, "an empty stage of %s",
                                    tir_buffer_name(run->arena, pipeline));

    for (uint32_t consumer = 0; consumer < tir_consumers(run->fn->plan) && n >= pipeline->stages;
         consumer++) {
        if (one && consumer != part)
            continue;
        if (state->released[consumer].n <= n - pipeline->stages)
            return (Need){0};
        need_moment(&need, state->released[consumer].at[n - pipeline->stages], text);
    }
    return need;
}

static Need
need_of_mmas(const Run *run, uint32_t role, const TirOp *op)
{
    const RoleState *state = &run->role[role];
    Need need = at_once(state);
    uint32_t n = state->mmas.n, left = (uint32_t)op->integer;

    for (uint32_t i = n > MOST_IN_FLIGHT ? n - MOST_IN_FLIGHT : 0; i + left < n; i++) {
        Moment end = state->mmas.at[i];
        end.at += run->latency;
        need_moment(&need, end, run->line->spans.at[end.span].text);
    }
    return need;
}

static Need
need_of(const Run *run, uint32_t role)
{
    const RoleState *state = &run->role[role];
    const RoleStep *step = next_step(run, role);
    Need need = at_once(state);

    if (step == NULL)
        return state->tile < run->tiles ? need_of_tile(run, role) : (Need){0};
    if (step->kind != STEP_OP)
        return need;
    const TirOp *op = step->op;
    uint32_t consumer = consumer_of(run, role, op);
    switch (op->op) {
    case TIR_TMA_LOAD:
    case TIR_PRODUCER_ACQUIRE: return need_of_stage(run, role, op);
    case TIR_MMA_WAIT: return need_of_mmas(run, role, op);
    case TIR_CONSUMER_WAIT: {
        const PipelineState *pipeline = &run->pipelines[op->shared->id + (op->own ? consumer : 0)];
        const Moments *full = &pipeline->full[op->shared->each ? consumer : 0];
        if (full->n <= pipeline->waited[consumer])
            return (Need){0};
        need_moment(&need, full->at[pipeline->waited[consumer]],
                    arena_printf(run->arena, "a full stage of %s",
                                 tir_buffer_name(run->arena, op->shared)));
        return need;
    }
    case TIR_PINGPONG_WAIT:
        if (run->pingpong_taken || run->turn != consumer)
            return (Need){0};
        need_moment(&need, run->pingpong_given, "its ping-pong turn");
        return need;
    case TIR_CONSUMER_BARRIER:
        if (state->arrivals == state->passed) /* it only arrives */
            return need;
        if (run->meetings.at[state->passed].there < tir_consumers(run->fn->plan))
            return (Need){0};
        Moment last = run->meetings.at[state->passed].last;
        last.at += run->target->exchange;
        need_moment(&need, last, "all consumers");
        return need;
    default: break;
    }
    if (timeline_goes_through_shared(op) && op->shared->over == NULL)
        need_moment(&need, state->taken, "the tile before to be taken from shared memory");
    return need;
}

/* ---- taking it ---- */

static int32_t
add_span(Run *run, TimeSpan span)
{
    vec_push(run->arena, &run->line->spans, span);
    return (int32_t)run->line->spans.n - 1;
}

static int32_t
signal(Run *run, uint32_t role, const TirOp *op, const char *text)
{
    double now = run->role[role].time;
    return add_span(run, (TimeSpan){SPAN_SIGNAL, UNIT_NONE, role, now, now, now, op, text, -1});
}

/* What a role hands on or gives back, it does now; the mma role when all products that it has
 * issued have ended. */
static Moment
moment_of(Run *run, uint32_t role, const TirOp *op)
{
    const RoleState *state = &run->role[role];
    const char *text = op_text(run->arena, op);
    bool issues = run->line->trace.kind[role] == ROLE_MMA && state->mmas.n > 0;

    if (issues)
        text = arena_printf(run->arena, "%s when its products have ended", text);
    Moment now = {state->time, signal(run, role, op, text)};
    if (!issues || state->mmas.at[state->mmas.n - 1].at + run->latency <= now.at)
        return now;
    Moment end = state->mmas.at[state->mmas.n - 1];
    end.at += run->latency;
    return end;
}

/* Keeps a unit busy; where the role itself does it, its time goes on. */
static int32_t
use_unit(Run *run, uint32_t role, const RoleStep *step, OpCost cost)
{
    RoleState *state = &run->role[role];
    double begin = state->time > run->unit_free[cost.unit] ? state->time
                                                           : run->unit_free[cost.unit];
    TimeSpan span = {cost.async ? SPAN_ASYNC : SPAN_WORK,
                     cost.unit,
                     role,
                     state->time,
                     begin,
                     begin + cost.clocks,
                     step->op,
                     op_text(run->arena, step->op),
                     -1};

    run->unit_free[cost.unit] = span.end;
    if (!cost.async)
        state->time = span.end;
    return add_span(run, span);
}

static void
take_op(Run *run, uint32_t role, const RoleStep *step)
{
    RoleState *state = &run->role[role];
    const TirOp *op = step->op;
    OpCost cost = timeline_cost(run->target, op, step->weight);
    PipelineState *pipeline = op->shared != NULL ? &run->pipelines[op->shared->id] : NULL;
    uint32_t consumer = consumer_of(run, role, op), part = 0;
    Moment moment;

    switch (op->op) {
    case TIR_CONSUMER_WAIT:
        pipeline->waited[consumer] += !op->own;
        return; /* else it takes no stage */
    case TIR_CONSUMER_RELEASE:
        moment = moment_of(run, role, op);
        if (op->shared->held > 0 && state->taken.at > moment.at)
            moment = state->taken;
        vec_push(run->arena, &pipeline->released[consumer], moment);
        return;
    case TIR_PRODUCER_ACQUIRE: pipeline->copied[consumer]++; return;
    case TIR_PRODUCER_COMMIT:
        vec_push(run->arena, &pipeline->full[op->shared->each ? consumer : 0],
                 moment_of(run, role, op));
        return;
    case TIR_PINGPONG_WAIT: run->pingpong_taken = true; return;
    case TIR_PINGPONG_ARRIVE:
        run->turn = (consumer + 1) % tir_consumers(run->fn->plan);
        run->pingpong_taken = false;
        run->pingpong_given = (Moment){state->time, signal(run, role, op, op_text(run->arena, op))};
        return;
    case TIR_CONSUMER_BARRIER: state->passed++; return;
    default: break;
    }
    if (cost.unit == UNIT_NONE)
        return;
    int32_t span = use_unit(run, role, step, cost);
    moment = (Moment){run->line->spans.at[span].end, span};
    if (op->op == TIR_TMA_LOAD) {
        part = op->shared->each ? (uint32_t)op->integer : 0;
        moment.at += run->target->chip.copy_clocks;
        vec_push(run->arena, &pipeline->full[part], moment);
        pipeline->copied[part]++;
    } else if (timeline_is_product(op)) {
        vec_push(run->arena, &state->mmas, moment);
    } else if (timeline_goes_through_shared(op)) {
        cost = (OpCost){UNIT_COPY, cost.bytes / run->target->chip.copy_bytes, 0, true};
        span = use_unit(run, role, step, cost);
        state->taken = (Moment){run->line->spans.at[span].end, span};
    }
}

/* The role waits until `need`, and takes its step. */
static void
take_step(Run *run, uint32_t role, Need need)
{
    RoleState *state = &run->role[role];
    const RoleStep *step = next_step(run, role);
    double before = state->time;

    if (need.at > before) {
        add_span(run, (TimeSpan){SPAN_WAIT, UNIT_NONE, role, before, before, need.at,
                                 step == NULL ? NULL : step->op, need.text, need.cause});
        state->time = need.at;
    }
    if (step == NULL) {
        state->begun[state->tile] = (Moment){state->time, -1};
        state->tile++;
        state->step = 0;
        return;
    }
    if (step->kind != STEP_OP) {
        Moment moment = {state->time, (int32_t)state->tile};
        if (role == run->line->trace.lead)
            vec_push(run->arena, &run->iterations[step->kind == STEP_ITERATION_END], moment);
        state->step++;
        return;
    }
    if (step->op->op == TIR_CONSUMER_BARRIER && state->arrivals == state->passed) {
        if (run->meetings.n == state->arrivals)
            vec_push(run->arena, &run->meetings, ((Meeting){0}));
        Meeting *meeting = &run->meetings.at[state->arrivals++];
        meeting->there++;
        meeting->last = (Moment){state->time, signal(run, role, step->op, "is at the barrier")};
        return;
    }
    take_op(run, role, step);
    state->step++;
}

static void
run_all(Run *run)
{
    for (;;) {
        uint32_t best = TIMELINE_ROLES;
        Need first = {0};
        for (uint32_t role = 0; role < run->line->trace.roles; role++) {
            Need need = need_of(run, role);
            if (need.known && (best == TIMELINE_ROLES || need.at < first.at)) {
                best = role;
                first = need;
            }
        }
        if (best == TIMELINE_ROLES)
            return;
        take_step(run, best, first);
    }
}

/* ---- what to show of it ---- */

static void
add_window(Timeline *line, const char *name, double begin, double end)
{
    if (end > begin)
        line->windows[line->n_windows++] = (TimeWindow){name, begin, end};
}

static void
choose_windows(Run *run)
{
    const Moments *begins = &run->iterations[0], *ends = &run->iterations[1];
    Timeline *line = run->line;
    uint32_t n = 0, end_of_run = 0;

    while (n < begins->n && begins->at[n].span == 1)
        n++;
    if (n == 0 || ends->n < n)
        return;
    if (n > 1)
        add_window(line, "prologue, and the first iteration", 0, begins->at[1].at);
    /* Iterations that follow one another, in the last half of the tile: no loop around the main
     * loop has gone on between them. */
    for (uint32_t i = n / 2; i + 1 < n && ends->at[i].at >= begins->at[i + 1].at; i++)
        end_of_run = i + 1;
    if (end_of_run > n / 2) {
        uint32_t at = n / 2 + (end_of_run - n / 2) / 2;
        at = at == end_of_run ? at - 1 : at;
        line->period = (begins->at[end_of_run].at - begins->at[n / 2].at) / (end_of_run - n / 2);
        add_window(line, "one iteration of the main loop", begins->at[at].at, begins->at[at + 1].at);
    }
    double last = n + 1 < begins->n ? begins->at[n + 1].at : run->role[line->trace.lead].time;
    for (uint32_t role = 1; role < line->trace.lead;
         role++) { /* who reads what others multiply ends later */
        const RoleState *state = &run->role[role];
        double end = state->tile > 1 ? state->begun[1].at : state->time;
        last = line->trace.lead > 1 && end > last ? end : last;
    }
    add_window(line, n < begins->n ? "epilogue, and the next tile's first iteration" : "epilogue",
               ends->at[n - 1].at, last);
}

/* How many waits for products an iteration has: the gap is divided among them. */
static uint32_t
count_waits(const RoleTrace *trace)
{
    const RoleSteps *steps = &trace->role[1];
    uint32_t n = 0, iteration = 0;

    for (uint32_t i = 0; i < steps->n && iteration < 2; i++) {
        iteration += steps->at[i].kind == STEP_ITERATION;
        const TirOp *op = steps->at[i].op;
        bool waits = op->op == TIR_MMA_WAIT ||
                     (op->op == TIR_CONSUMER_WAIT && op->shared->from == ROLE_MMA);
        n += iteration == 1 && steps->at[i].kind == STEP_OP && waits;
    }
    return n > 0 ? n : 1;
}

/* Latencies of an iteration's products and barriers (consumer_time.c). */
static double
gap_of(const Target *target, const TirFn *fn)
{
    const ConsumerTimes *times = &target->consumer_times;

    return times->gap + (tir_is_pipelined(fn) || tir_has_coop_k(fn) ? 0 : times->gap_in_order);
}

Timeline *
timeline_run(Arena *arena, const Target *target, const TirFn *fn)
{
    Timeline *line = arena_new(arena, Timeline);
    Run *run = arena_new(arena, Run);

    if (fn->plan == NULL || !timeline_trace(arena, fn, &line->trace))
        return NULL;
    line->fn = fn;
    bool chained = timeline_busy(target, &line->trace, line->busy);
    *run = (Run){.arena = arena, .target = target, .fn = fn, .line = line};
    run->tiles = tir_is_persistent(fn->plan) ? TILES : 1;
    run->pipelines = arena_array(arena, PipelineState, fn->shared.n + 1);
    if (chained)
        run->latency = gap_of(target, fn) / count_waits(&line->trace);
    run_all(run);
    choose_windows(run);
    return line;
}
