/* role_walk.c - runs a program of tile IR for given sizes, as far as its scalars go.
 *
 * Integers wrap at 32 bits as those of the machine do, and divide by zero as there.  What is
 * computed from tiles or from floats is unknown, and so is all that depends on it.
 */
#include "compiler/passes/check/role_walk.h"

#include <string.h>

#include "compiler/ir/tir_compute.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_util.h"

typedef struct WalkBlock WalkBlock;

typedef struct WalkStep {
    const TirOp *op;
    const TirVal *condition; /* of a copy, or NULL */
    WalkBlock *inner[2];
    bool scalar;             /* its result is needed */
    bool computed, binary;   /* .. and known when its operands are, two of them; .. */
    bool wraps, plain;       /* .. and is cut to its type, and nothing else is to be done */
    uint32_t arg[3], result; /* .. by id */
    bool visited;
    bool channels; /* a loop or branch with channels */
    bool carries;  /* a loop or branch with scalar results that are needed */
    void *kept;    /* see Walk */
} WalkStep;

struct WalkBlock {
    VEC(WalkStep) steps;
    WalkBlock *outer;
    /* of what is computed once in a launch 0, of the program 1, of blocks in it more */
    uint32_t depth;
    uint8_t holds;
    bool entered; /* by some run */
};

enum { NEED_WAY = 1, NEED_PLACE = 2 };
enum { HOLDS_CHANNEL = 1, HOLDS_TMEM = 2 }; /* of operations that mean something to others */

struct WalkProgram {
    Arena *arena;
    uint8_t *need;   /* by id */
    uint32_t *depth; /* by id, of what is computed: that of the block where it is */
    uint32_t keep;
    VEC(WalkBlock *) parts; /* blocks in which roles meet */
    WalkBlock once, *root;  /* what is the same for all tiles of a launch, and the rest */
    uint64_t launch;        /* for which that was computed */
};

/* ---- what is needed ---- */

bool
walk_is_channel(const TirOp *op)
{
    switch (op->op) {
    case TIR_TMA_LOAD:
    case TIR_WANT:
    case TIR_TILE_ASK:
    case TIR_CONSUMER_WAIT:
    case TIR_CONSUMER_RELEASE:
    case TIR_MMA_WAIT:
    case TIR_PINGPONG_WAIT:
    case TIR_PINGPONG_ARRIVE:
    case TIR_CONSUMER_BARRIER:
    case TIR_STAGING_WRITE:
    case TIR_STAGING_EMPTY:
    case TIR_PAIR_SEND:
    case TIR_PAIR_SUM:
    case TIR_PRODUCER_ACQUIRE:
    case TIR_PRODUCER_COMMIT:
    case TIR_TMEM_MMA:
    case TIR_TMA_REDUCE_ADD: return true;
    case TIR_MMA: return op->async;
    case TIR_SHARED_READ: return op->shared != NULL && tir_is_pipeline(op->shared);
    default: return false;
    }
}

const TirOp *
walk_handed_read(const TirOp *op)
{
    bool transposed;
    const TirOp *read = op->op == TIR_CONVERT ? view_source(op->args[0], &transposed) : NULL;

    return read != NULL && tir_is_handed(read->shared) ? read : NULL;
}

bool
walk_is_tmem(const TirOp *op)
{
    if (op->op == TIR_CONVERT)
        return walk_handed_read(op) != NULL;
    return op->op == TIR_TMEM_READ || op->op == TIR_TMEM_WRITE ||
           (op->op == TIR_SHARED_WRITE && op->shared->from == ROLE_CONSUMER);
}

static uint8_t
held_by(const TirOp *op, uint8_t inside)
{
    return inside | (uint8_t)(walk_is_channel(op) * HOLDS_CHANNEL | walk_is_tmem(op) * HOLDS_TMEM);
}

/* Whether a scalar operation is computed here at all. */
static bool
is_computed(const TirOp *op)
{
    const TirVal *result = op->results[0];

    if (op->n_results != 1 || op->n_blocks > 0 || result->type.rank != 0 ||
        dtype_is_float(result->type.dtype) ||
        ((tir_op_info(op->op)->flags & TF_PURE) == 0 && !scalar_can_be_again(op)))
        return false;
    for (uint32_t k = 0; k < op->n_args; k++)
        if (op->args[k]->type.rank != 0 || dtype_is_float(op->args[k]->type.dtype))
            return false;
    return true;
}

/* Whether it matters which way a loop or branch goes, that has this in it.  (Where a vote decides,
 * accesses to tensor memory in it are taken to be made.) */
static bool
has_channels(const TirOp *op, uint8_t holds)
{
    return (holds & HOLDS_CHANNEL) != 0 ||
           (holds != 0 && op->op == TIR_IF && op->args[0]->def != NULL &&
            is_computed(op->args[0]->def));
}

static void
need(WalkProgram *p, const TirVal *value, uint8_t what)
{
    if (value->type.rank != 0 || (p->need[value->id] & what) != 0)
        return;
    p->need[value->id] |= what;
    const TirOp *def = value->def, *owner = def == NULL ? value->block->owner : def;
    if (owner == NULL)
        return;
    if (owner->op == TIR_FOR) {
        need(p, owner->args[0], what);
        need(p, owner->args[1], what);
        if (def == NULL && value->index == 0)
            return;
        uint32_t k = def == NULL ? value->index - 1 : value->index;
        need(p, owner->args[loop_first_initial(owner) + k], what);
        need(p, block_yield(owner->blocks[0])->args[k], what);
        need(p, owner->blocks[0]->params.at[k + 1], what);
        need(p, owner->blocks[0]->params.at[0], what);
    } else if (owner->op == TIR_IF) {
        need(p, owner->args[0], what);
        for (uint32_t j = 0; j < 2; j++)
            need(p, block_yield(owner->blocks[j])->args[value->index], what);
    } else if (is_computed(owner)) {
        for (uint32_t k = 0; k < owner->n_args; k++)
            need(p, owner->args[k], what);
    }
}

/* Finds what is needed in a block, and says what it holds. */
static uint8_t
need_block(WalkProgram *p, const TirBlock *block)
{
    uint8_t all = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        uint8_t inside = 0;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            inside |= need_block(p, op->blocks[k]);
        for (uint32_t k = 0; k < (op->op == TIR_FOR ? 2 : 1) && has_channels(op, inside); k++)
            need(p, op->args[k], NEED_WAY);
        if (tir_copy_condition(op) != NULL)
            need(p, tir_copy_condition(op), NEED_WAY);
        bool staged = op->op == TIR_COPY_ASYNC || op->op == TIR_SHARED_READ;
        if (staged && (p->keep & WALK_TILES) != 0 && !tir_is_pipeline(op->shared))
            need(p, op->args[0], NEED_PLACE); /* its stage */
        if (op->op == TIR_TMEM_MMA && (p->keep & WALK_CHANNELS) != 0)
            need(p, op->args[2], NEED_PLACE); /* whether it adds */
        bool places = (op->op == TIR_TMA_LOAD || op->op == TIR_WANT) &&
                      (p->keep & WALK_PLACES) != 0;
        for (uint32_t k = 0; places && k < op->n_args; k++)
            need(p, op->args[k], NEED_PLACE);
        all |= held_by(op, inside);
    }
    return all;
}

/* The outermost block in which a scalar can be computed: where its operands are. */
static WalkBlock *
block_of_scalar(WalkProgram *p, const WalkStep *step, WalkBlock *inside)
{
    const TirOp *op = step->op;
    bool of_tile = op->op == TIR_GRID || op->op == TIR_GRID_FIRST || op->op == TIR_CONSUMER;
    uint32_t depth = of_tile;

    for (uint32_t k = 0; k < op->n_args; k++) {
        uint32_t of = p->depth[op->args[k]->id];
        depth = of > depth ? of : depth;
    }
    while (inside->depth > depth)
        inside = inside->outer;
    return inside;
}

static WalkBlock *
compile_block(WalkProgram *p, const TirBlock *block, WalkBlock *outer)
{
    WalkBlock *out = arena_new(p->arena, WalkBlock);

    *out = (WalkBlock){.outer = outer, .depth = outer->depth + 1};
    for (uint32_t k = 0; k < block->params.n; k++)
        p->depth[block->params.at[k]->id] = out->depth;
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        WalkStep step = {.op = op, .condition = tir_copy_condition(op)};
        uint8_t inside = 0;
        if (op->op == TIR_YIELD)
            continue; /* by the owner */
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            step.inner[k] = compile_block(p, op->blocks[k], out);
            inside |= step.inner[k]->holds;
            if ((step.inner[k]->holds & HOLDS_CHANNEL) != 0)
                vec_push(p->arena, &p->parts, step.inner[k]);
        }
        step.channels = step.condition != NULL || has_channels(op, inside);
        out->holds |= held_by(op, inside);
        step.visited = p->keep == WALK_PLACES     ? op->op == TIR_TMA_LOAD || op->op == TIR_WANT
                       : p->keep == WALK_CHANNELS ? step.channels || held_by(op, inside) != 0
                                                  : p->keep == WALK_TILES;
        for (uint32_t k = 0; k < op->n_results; k++)
            step.carries |= op->n_blocks > 0 && p->need[op->results[k]->id] != 0;
        for (uint32_t k = 0; op->op == TIR_FOR && k < op->n_results; k++)
            step.carries |= p->need[op->blocks[0]->params.at[k + 1]->id] != 0;
        step.scalar = op->n_results == 1 && p->need[op->results[0]->id] != 0 && op->n_blocks == 0;
        step.computed = step.scalar && is_computed(op);
        DKind kind = step.computed ? dtype_kind(op->results[0]->type.dtype) : KIND_BOOL;
        bool cast = op->op == TIR_CAST || op->op == TIR_BITS;
        step.wraps = kind == KIND_UNSIGNED || (cast && kind != KIND_BOOL);
        if (!step.visited && !step.scalar && !step.channels && !step.carries)
            continue;
        step.binary = step.computed && op->n_args == 2 && op->op != TIR_LOAD;
        step.result = step.scalar ? op->results[0]->id : 0;
        step.plain = step.scalar && step.computed && !step.visited && step.condition == NULL;
        for (uint32_t k = 0; step.scalar && k < op->n_args && k < 3; k++)
            step.arg[k] = op->args[k]->id;
        WalkBlock *in = step.plain ? block_of_scalar(p, &step, out) : out;
        for (uint32_t k = 0; k < op->n_results; k++)
            p->depth[op->results[k]->id] = in->depth;
        vec_push(p->arena, &in->steps, step);
    }
    return out;
}

WalkProgram *
walk_program(Arena *arena, const TirFn *fn, const TirBlock *body, uint32_t keep)
{
    WalkProgram *program = arena_new(arena, WalkProgram);

    program->arena = arena;
    program->keep = keep;
    program->need = arena_array(arena, uint8_t, fn->next_id + 1);
    program->depth = arena_array(arena, uint32_t, fn->next_id + 1);
    need_block(program, body);
    program->root = compile_block(program, body, &program->once);
    return program;
}

bool
walk_enter_all(WalkProgram *const *programs, uint32_t n)
{
    bool all = true;

    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; programs[k] != NULL && i < programs[k]->parts.n; i++)
            all = all && programs[k]->parts.at[i]->entered;
    return all;
}

bool
walk_is_decided_by(const WalkProgram *program, const TirVal *value)
{
    return (program->need[value->id] & NEED_WAY) != 0;
}

/* ---- scalars ---- */

static Scalar
known(int64_t value)
{
    return (Scalar){(int32_t)(uint32_t)(uint64_t)value, true};
}

static Scalar
evaluate_binary(TirOpcode op, int64_t x, int64_t y)
{
    /* A mistake of the program where its result matters, but all roles get the same one: as
     * unknown, it would send them different ways. */
    enum { BY_ZERO = -1 };
    int64_t n;

    if (tir_compute(op, x, y, &n))
        return known(n);
    return op == TIR_DIV || op == TIR_REM ? known(BY_ZERO) : (Scalar){0};
}

/* A made-up number in a tensor at a place: at most the largest that matters, different for each
 * data set, and the same for every load of the place. */
static Scalar
loaded(const Walk *w, const TirOp *op)
{
    uint64_t at = (uint64_t)w->setting->data * 2654435761u;

    for (const char *name = op->tensor->name; *name != '\0'; name++)
        at = at * 31 + (unsigned char)*name;
    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        if (d.at == NULL)
            continue;
        Scalar index = w->values[d.at->id];
        if (!index.known)
            return (Scalar){0};
        at = at * 1000003 + (uint64_t)(index.value + 1);
    }
    at = (at ^ at >> 31) * 0x9e3779b97f4a7c15u;
    return known((int64_t)((at >> 33) % (uint64_t)(w->setting->most_data + 1)));
}

static int64_t
constant(const Walk *w, int64_t of)
{
    for (uint32_t k = 0; k < w->setting->n_constants; k++)
        if (w->setting->constants[k].of == of)
            return w->setting->constants[k].value;
    return of;
}

static Scalar
computed(const Walk *w, const WalkStep *step)
{
    const TirOp *op = step->op;

    switch (op->op) {
    case TIR_CONST: return known(constant(w, op->integer));
    case TIR_SIZE: return known(w->setting->sizes[op->integer]);
    case TIR_PARAM: return w->setting->scalars[op->integer];
    case TIR_GRID: return known(w->setting->grid[op->integer]);
    case TIR_GRID_FIRST: return known(w->setting->first);
    case TIR_CONSUMER: return known(w->setting->consumer);
    case TIR_LOAD: return loaded(w, op);
    default: break;
    }
    Scalar x = op->n_args > 0 ? w->values[step->arg[0]] : (Scalar){0};
    bool is_bool = op->results[0]->type.dtype == DT_BOOL;

    if (!x.known)
        return (Scalar){0};
    switch (op->op) {
    case TIR_SELECT: return w->values[step->arg[x.value != 0 ? 1 : 2]];
    case TIR_NEG: return known(-x.value);
    case TIR_ABS: return known(x.value < 0 ? -x.value : x.value);
    case TIR_NOT: return known(is_bool ? x.value == 0 : ~x.value);
    case TIR_BITS:
    case TIR_CAST: return known(is_bool ? x.value != 0 : x.value);
    default: return (Scalar){0};
    }
}

static void
evaluate(const Walk *w, const WalkStep *step)
{
    Scalar *result = &w->values[step->result], a = w->values[step->arg[0]],
           b = w->values[step->arg[1]];

    if (step->binary)
        *result = a.known & b.known ? evaluate_binary(step->op->op, a.value, b.value) : (Scalar){0};
    else
        *result = step->computed ? computed(w, step) : (Scalar){0};
    if (step->wraps)
        result->value = dtype_wrap(step->op->results[0]->type.dtype, result->value);
}

Scalar
walk_value(const Walk *walk, const TirVal *value)
{
    return walk->values[value->id];
}

static int64_t
first_program(const TirPlan *plan, int64_t tile, int64_t programs)
{
    int64_t consumers = tir_consumers(plan), tiles = (programs + consumers - 1) / consumers;

    if (tir_multiplies_in_pairs(
            plan)) /* the second block's are behind those of the first one, one by one */
        return tile / 2 * tir_programs(plan) + tile % 2;
    return tile * consumers - (plan->tiles.reversed ? tiles * consumers - programs : 0);
}

int64_t *
walk_set_tile(WalkSetting *setting, const TirFn *fn, const int64_t *tile, int64_t programs)
{
    uint32_t axis = fn->plan->tiles.axis;

    for (uint32_t k = 0; k < fn->grid.n; k++)
        setting->grid[k] = tile[k];
    if (tir_consumer_axis(fn) == NULL)
        return NULL;
    setting->first = first_program(fn->plan, tile[axis], programs);
    return &setting->grid[axis];
}

Scalar
walk_host(const HostExpr *expr, const int64_t *sizes, const Scalar *scalars)
{
    int64_t n;

    if (expr->kind == HOST_INT)
        return known(expr->integer);
    if (expr->kind == HOST_SIZE)
        return known(sizes[expr->index]);
    if (expr->kind == HOST_SCALAR)
        return scalars[expr->index];
    Scalar x = expr->a == NULL ? (Scalar){0} : walk_host(expr->a, sizes, scalars);
    Scalar y = expr->b == NULL ? (Scalar){0} : walk_host(expr->b, sizes, scalars);
    if (!x.known || (expr->b != NULL && !y.known))
        return (Scalar){0};
    if (expr->kind == HOST_NOT || expr->kind == HOST_NEG)
        return known(expr->kind == HOST_NOT ? x.value == 0 : -x.value);
    return host_compute(expr->kind, x.value, y.value, &n) ? known(n) : (Scalar){0};
}

void
walk_print_launch(const TirFn *fn, const int64_t *sizes, const Scalar *scalars, Buf *out)
{
    for (uint32_t k = 0; k < fn->sizes.n; k++)
        buf_printf(out, "%s%s=%lld", k == 0 ? "" : " ", fn->sizes.at[k].name, (long long)sizes[k]);
    for (uint32_t k = 0; k < fn->scalars.n; k++) {
        if (scalars[k].known)
            buf_printf(out, " %s=%lld", fn->scalars.at[k].name, (long long)scalars[k].value);
    }
}

void
walk_print_tile(const TirFn *fn, const int64_t *tile, Buf *out)
{
    for (uint32_t k = 0; k < fn->grid.n; k++)
        buf_printf(out, " %s=%lld", fn->grid.at[k].name, (long long)tile[k]);
}

/* ---- runs ---- */

static bool run_block(Walk *w, const WalkBlock *block);

static bool
visit(Walk *w, WalkStep *step, WalkMoment moment, uint32_t block)
{
    w->kept = &step->kept;
    return (w->visit == NULL || w->visit(w->user, step->op, moment, block)) &&
           (w->at == NULL || moment != WALK_AT || w->at(w->user, step->op));
}

static void
note(Walk *w, const WalkStep *step, int32_t what)
{
    if (w->way != NULL && step->channels)
        vec_push(w->arena, w->way, what);
}

/* One bit, or two, for what is not known. */
static uint32_t
choose(Walk *w, uint32_t bits)
{
    uint32_t at = w->unknown % 31;

    w->unknown += bits;
    return w->choices >> at & ((1u << bits) - 1);
}

static bool
run_inner(Walk *w, WalkStep *step, uint32_t k)
{
    if (w->blocks == 0)
        return false;
    w->blocks--;
    if (!step->visited)
        return run_block(w, step->inner[k]);
    return visit(w, step, WALK_ENTER, k) && run_block(w, step->inner[k]) &&
           visit(w, step, WALK_LEAVE, k);
}

static bool
run_for(Walk *w, WalkStep *step)
{
    const TirOp *op = step->op;
    const TirBlock *body = op->blocks[0];
    const TirOp *yield = block_yield(body);
    Scalar lo = walk_value(w, op->args[0]), hi = walk_value(w, op->args[1]);
    bool sure = lo.known && hi.known && (step->channels || step->carries);
    int64_t trips = sure ? hi.value - lo.value : 1;
    uint32_t n = step->carries ? op->n_results : 0, first = loop_first_initial(op);

    if (!sure && step->channels)
        trips = choose(w, 2);
    trips = trips < 0 ? 0 : trips;
    note(w, step, trips > INT32_MAX ? INT32_MAX : (int32_t)trips);
    step->inner[0]->entered |= trips > 0;
    for (uint32_t k = 0; k < n; k++)
        w->values[body->params.at[k + 1]->id] = walk_value(w, op->args[first + k]);
    bool idle = step->inner[0]->steps.n == 0 && !step->visited && !step->carries;
    for (int64_t i = 0; i < trips && !idle; i++) {
        int64_t value = op->hints.backwards ? hi.value - 1 - i : lo.value + i;
        w->values[body->params.at[0]->id] = sure ? known(value) : (Scalar){0};
        if (!run_inner(w, step, 0))
            return false;
        for (uint32_t k = 0; k < n; k++) /* as if at once: results hold what comes next */
            w->values[op->results[k]->id] = walk_value(w, yield->args[k]);
        for (uint32_t k = 0; k < n; k++)
            w->values[body->params.at[k + 1]->id] = w->values[op->results[k]->id];
    }
    for (uint32_t k = 0; k < n; k++)
        w->values[op->results[k]->id] = w->values[body->params.at[k + 1]->id];
    return true;
}

static bool
run_if(Walk *w, WalkStep *step)
{
    const TirOp *op = step->op;
    Scalar condition = walk_value(w, op->args[0]);
    uint32_t n = step->carries ? op->n_results : 0;

    condition.known = condition.known && (step->channels || step->carries);
    if (!condition.known && !step->channels) {
        for (uint32_t k = 0; k < n; k++)
            w->values[op->results[k]->id] = (Scalar){0};
        return run_inner(w, step, 0) && run_inner(w, step, 1);
    }
    uint32_t taken = condition.known ? condition.value == 0 : choose(w, 1);
    note(w, step, taken == 0 ? -1 : -2);
    step->inner[taken]->entered = true;
    if (!run_inner(w, step, taken))
        return false;
    for (uint32_t k = 0; k < n; k++)
        w->values[op->results[k]->id] = walk_value(w, block_yield(op->blocks[taken])->args[k]);
    return true;
}

/* Whether a copy is made belongs to the way. */
static void
note_copy(Walk *w, const WalkStep *step)
{
    Scalar copies = walk_value(w, step->condition);

    note(w, step, !copies.known ? -3 : copies.value != 0 ? -1 : -2);
}

static bool
run_block(Walk *w, const WalkBlock *block)
{
    WalkStep *step = block->steps.at, *end = step + block->steps.n;

    for (; step < end; step++) {
        if (step->plain) {
            evaluate(w, step);
            continue;
        }
        const TirOp *op = step->op;
        if (step->scalar)
            evaluate(w, step);
        if (step->visited && !visit(w, step, WALK_AT, 0))
            return false;
        if (step->condition != NULL)
            note_copy(w, step);
        if (op->n_blocks > 0 && (!(op->op == TIR_FOR ? run_for : run_if)(w, step) ||
                                 (step->visited && !visit(w, step, WALK_AFTER, 0))))
            return false;
    }
    return true;
}

bool
walk_run(Walk *walk, WalkProgram *program)
{
    walk->unknown = 0;
    if (program->launch != walk->setting->launch || program->launch == 0)
        run_block(walk, &program->once);
    program->launch = walk->setting->launch;
    return run_block(walk, program->root);
}

void
walk_deciding_axes(const WalkProgram *program, const TirBlock *block, bool *decides)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if ((walk.op->op == TIR_GRID || walk.op->op == TIR_GRID_FIRST) &&
            walk_is_decided_by(program, walk.op->results[0]))
            decides[walk.op->integer] = true;
    }
}

bool
walk_same_way(const WalkWay *a, const WalkWay *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->at, b->at, a->n * sizeof *a->at) == 0);
}

bool
walk_run_at(Walk *walk, WalkProgram *program, bool (*at)(void *user, const TirOp *op), void *user)
{
    walk->at = at;
    walk->user = user;
    return walk_run(walk, program);
}
