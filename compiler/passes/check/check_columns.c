/* check_columns.c - part of pass `check-roles`: whether accesses to tensor memory are ordered.
 *
 * While the roles run against each other (check_together.c), each has a clock for every other: how
 * much of what that one has done lies before what comes next.  An operation that hands a stage on
 * tells what its role knows, one that waits for it learns it; what happens is the same in all
 * orders of steps, and so is this.  Two accesses to a column, one of which writes, must be ordered
 * by it, whichever tokens say so: that a stage was acquired or released, that another one was
 * handed on behind it, or that products run in the order in which they are issued.  The tensor core
 * is a role of its own here.  It begins a product when that is issued, and a stage that the mma
 * role hands on tells what all products issued before have done.
 *
 * A phase of a barrier does not end before the role that waits for the one before has seen that:
 * the parity of a phase tells two of them apart, no more.
 *
 * What consumers write to shared memory for other roles, operands of products and vectors for the
 * correction role, is looked at like columns behind those of tensor memory.
 *
 * What is read, or added to, was written in the same tile; nothing is overwritten that nobody has
 * read, nor added to that somebody has: so the first product of a stage does not add, and those
 * behind it do.
 */
#include <string.h>

#include "compiler/passes/check/check_roles.h"
#include "compiler/passes/util/shared_uses.h"

enum { ACTORS = BLOCK_ROLES + 1, FULL = 0, EMPTY = 1 };

typedef struct Clock {
    uint32_t of[ACTORS];
} Clock;

typedef VEC(Clock) Clocks;

/* The full or the empty barriers of a consumer's part of a pipeline. */
typedef struct Token {
    Clocks told;           /* by those who handed a stage on, in order */
    VEC(uint32_t) learned; /* .. and when that was waited for, by the clock of who waited */
    uint32_t waiter;
} Token;

typedef struct Access {
    const TirOp *op; /* NULL: there was none */
    uint32_t actor, time, tile;
} Access;

/* Columns of a consumer's part that no stage divides; or a stage in shared memory. */
typedef struct Granule {
    Access written, read[ACTORS];
    uint32_t readers; /* since then: a bit for each */
    bool unread;      /* what was written there */
    uint32_t run;     /* in which all of this was found; in a later one nothing has been yet */
} Granule;

struct Columns {
    Arena *arena;
    const TirFn *fn;
    uint32_t core, actors; /* the tensor core's number, behind those of the roles; of all */
    Clock clock[ACTORS];
    Token (*tokens)[2]; /* by pipeline and consumer: full, empty */
    Granule *granules;
    uint32_t n_tokens, n_granules, run;
    bool operands;      /* consumers write some */
    uint32_t part;      /* columns of a consumer */
    uint32_t *granule;  /* of a column of all consumers' parts */
    uint32_t n_columns; /* granules of these; those of shared memory come behind them */
    uint32_t *columns;  /* of a stage, by pipeline */
    /* Where two blocks multiply together, by consumer: it has handed on zeros last, or there is
     * nothing to hand on, and so may let results pass unread: its program has not got the
     * iteration. */
    bool passes[MOST_CONSUMERS];
};

/* Finds columns that are looked at together: between places where a stage begins or ends. */
static void
find_granules(Columns *c)
{
    uint32_t n = c->part * tir_consumers(c->fn->plan);

    c->granule = arena_array(c->arena, uint32_t, n + 1);
    for (uint32_t k = 0; k < c->fn->shared.n; k++) {
        const TirShared *pipeline = c->fn->shared.at[k];
        if (pipeline->kind != SHARED_TMEM)
            continue;
        for (uint32_t stage = 0; stage <= pipeline->stages; stage++) {
            uint32_t at = pipeline->offset + stage * tir_tmem_columns(pipeline);
            for (uint32_t first = 0; first < n; first += c->part)
                c->granule[first + at] = 1;
        }
    }
    for (uint32_t k = 1; k <= n; k++)
        c->granule[k] += c->granule[k - 1];
    c->n_columns = c->granule[n] + 1;
}

Columns *
columns_new(Arena *arena, const TirFn *fn, uint32_t roles)
{
    Columns *c = arena_new(arena, Columns);

    c->arena = arena;
    c->fn = fn;
    c->core = roles;
    c->actors = c->core + 1;
    c->n_tokens = fn->shared.n * MOST_CONSUMERS;
    c->tokens = arena_alloc(arena, (c->n_tokens + 1) * sizeof *c->tokens);
    c->part = tir_tmem_part(fn);
    find_granules(c);
    c->n_granules = c->n_columns + MOST_CONSUMERS * fn->shared.n;
    c->granules = arena_array(arena, Granule, c->n_granules);
    c->columns = arena_array(arena, uint32_t, fn->shared.n + 1);
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        c->columns[k] = tir_tmem_columns(fn->shared.at[k]);
        c->operands = c->operands || fn->shared.at[k]->from == ROLE_CONSUMER;
    }
    return c;
}

void
columns_begin(Columns *c)
{
    bool passes = tir_multiplies_in_pairs(c->fn->plan) && !c->operands;

    memset(c->clock, 0, sizeof c->clock);
    for (uint32_t k = 0; k < ACTORS; k++)
        c->clock[k].of[k] = 1;
    for (uint32_t k = 0; k < c->n_tokens; k++) {
        for (uint32_t side = FULL; side <= EMPTY; side++) {
            c->tokens[k][side].told.n = c->tokens[k][side].learned.n = 0;
            c->tokens[k][side].waiter = 0;
        }
    }
    c->run++;
    for (uint32_t w = 0; w < MOST_CONSUMERS; w++)
        c->passes[w] = passes;
}

static void
learn(const Columns *c, Clock *clock, const Clock *other)
{
    for (uint32_t k = 0; k < c->actors; k++)
        clock->of[k] = other->of[k] > clock->of[k] ? other->of[k] : clock->of[k];
}

static Token *
token_of(const Columns *c, const TirShared *pipeline, uint32_t part, uint32_t side)
{
    return &c->tokens[pipeline->id * MOST_CONSUMERS + part][side];
}

static bool
is_before(const Columns *c, const Access *access, uint32_t actor)
{
    return access->op == NULL || access->actor == actor ||
           c->clock[actor].of[access->actor] >= access->time;
}

/* ---- tokens ---- */

static const char *
hand_on(Columns *c, const RoleStep *step, uint32_t side)
{
    const TirOp *op = step->op;
    Token *token = token_of(c, op->shared, step->consumer, side);
    Clock *own = &c->clock[step->role], *core = &c->clock[c->core];
    uint32_t n = token->told.n, stages = op->shared->stages;
    uint32_t before = side == EMPTY ? n : n - stages; /* which wait was for the phase before */

    if (n >= stages &&
        (token->learned.n <= before || own->of[token->waiter] < token->learned.at[before]))
        return "a stage is handed on again, and the role that waits for it may not have seen the "
               "time before";
    Clock told = *own;
    if (step->kind == ROLE_MMA) {
        learn(c, &told, core);
        core->of[c->core]++;
    }
    vec_push(c->arena, &token->told, told);
    own->of[step->role]++;
    return NULL;
}

static void
wait_for(Columns *c, const RoleStep *step, uint32_t side)
{
    Token *token = token_of(c, step->op->shared, step->consumer, side);
    Clock *own = &c->clock[step->role];
    uint32_t n = token->learned.n, stages = step->op->shared->stages;

    token->waiter = step->role;
    /* stages are empty to begin with: nobody tells */
    uint32_t which = side == FULL ? n : n - stages;
    if ((side == FULL || n >= stages) && which < token->told.n)
        learn(c, own, &token->told.at[which]);
    vec_push(c->arena, &token->learned, own->of[step->role]);
}

/* ---- accesses ---- */

typedef struct Kind {
    bool fills;                /* the stage to be handed on next; else the one waited for last */
    bool reads, writes, keeps; /* keeps: what was there is a part of what is written */
    bool left;                 /* what was there of another tile nobody need have read */
} Kind;

static const char *
access_granule(Columns *c, Granule *g, const RoleStep *step, uint32_t actor, Kind kind,
               const TirOp **other)
{
    Access now = {step->op, actor, c->clock[actor].of[actor], step->tile};

    *other = g->written.op;
    if (!is_before(c, &g->written, actor))
        return kind.writes ? "tensor memory is written while another role may write there"
                           : "tensor memory is read while another role may write there";
    if ((kind.reads || kind.keeps) && (g->written.op == NULL || g->written.tile != step->tile))
        return "tensor memory is read that was not written in this tile";
    /* a loop without an iteration may not have read what was for all of them */
    bool left = kind.left && g->written.tile != step->tile;
    if (kind.keeps && !g->unread && !step->op->shared->carried)
        return "the first product of a stage adds to what is there";
    if (kind.writes && !kind.keeps && g->unread && !left)
        return "tensor memory is overwritten that nobody has read";
    for (uint32_t k = 0; kind.writes && g->readers >> k != 0; k++) {
        *other = g->read[k].op;
        if ((g->readers >> k & 1) != 0 && !is_before(c, &g->read[k], actor))
            return "tensor memory is written while another role may read there";
    }
    if (kind.writes) {
        g->written = now;
        g->readers = 0;
    } else {
        g->read[actor] = now;
        g->readers |= 1u << actor;
    }
    g->unread = kind.writes;
    return NULL;
}

/* The granules of the current stage of a consumer's part of a pipeline, the first and the last. */
static Granule *
current_stage(const Columns *c, const TirShared *pipeline, uint32_t consumer, bool fills,
              Granule **last)
{
    const Token *full = token_of(c, pipeline, consumer, FULL);
    uint32_t n = fills ? full->told.n : full->learned.n > 0 ? full->learned.n - 1 : 0;
    Granule *first = &c->granules[c->n_columns + pipeline->id * MOST_CONSUMERS + consumer];

    *last = first;
    if (pipeline->kind == SHARED_TMEM) {
        uint32_t columns = c->columns[pipeline->id];
        uint32_t at = consumer * c->part + pipeline->offset + n % pipeline->stages * columns;
        first = &c->granules[c->granule[at]];
        *last = &c->granules[c->granule[at + columns - 1]];
    }
    return first;
}

/* One to the current stage of a consumer's part of a pipeline. */
static const char *
access_stage(Columns *c, const TirShared *pipeline, const RoleStep *step, uint32_t actor, Kind kind,
             const TirOp **other)
{
    const char *wrong = NULL;
    Granule *last, *g = current_stage(c, pipeline, step->consumer, kind.fills, &last);

    for (; g <= last && wrong == NULL; g++) {
        if (g->run != c->run)
            *g = (Granule){.run = c->run};
        if (kind.reads && g->written.op != NULL && g->written.op->shared != pipeline)
            wrong = "tensor memory is read that another tile was written to last";
        else
            wrong = access_granule(c, g, step, actor, kind, other);
    }
    return wrong;
}

static const char *
multiply(Columns *c, const RoleStep *step, const TirOp **other)
{
    const TirOp *mma = step->op;
    const char *wrong = NULL;
    bool transposed;

    learn(c, &c->clock[c->core], &c->clock[step->role]);
    for (uint32_t k = 0; k < 2 && wrong == NULL; k++) {
        const TirOp *read = view_source(mma->args[k], &transposed);
        if (read->shared->kind == SHARED_TMEM || read->shared->from == ROLE_CONSUMER)
            wrong = access_stage(c, read->shared, step, c->core, (Kind){.reads = true}, other);
    }
    if (wrong != NULL)
        return wrong;
    if (mma->shared->stages > 1 && token_of(c, mma->shared, step->consumer, EMPTY)->learned.n <=
                                       token_of(c, mma->shared, step->consumer, FULL)->told.n)
        return "a product goes to a stage of tensor memory that was not acquired";
    if (step->adds < 0 || (mma->shared->carried && step->adds == 0))
        return step->adds < 0 ? "it is not known whether a product adds to what is there"
                              : "a product does not add to the sum that is there";
    return access_stage(c, mma->shared, step, c->core,
                        (Kind){.fills = true, .writes = true, .keeps = step->adds > 0}, other);
}

/* Where products have gone to a stage in the tile, one has since it was read last. */
static const char *
commit(Columns *c, const RoleStep *step, const TirOp **other)
{
    const TirShared *pipeline = step->op->shared;

    if (step->kind == ROLE_MMA && !pipeline->carried) {
        Granule *last, *g = current_stage(c, pipeline, step->consumer, true, &last);
        while (g <= last && !(g->run == c->run && g->written.op != NULL &&
                              g->written.tile == step->tile && !g->unread))
            g++;
        *other = g <= last ? g->written.op : NULL;
        if (g <= last)
            return "a stage is committed to which no product has gone";
    }
    return hand_on(c, step, FULL);
}

/* Who lets results pass has looked at them when they are given back. */
static const char *
release(Columns *c, const RoleStep *step, const TirOp **other)
{
    const char *wrong = NULL;

    if (step->kind == ROLE_CONSUMER && c->passes[step->consumer])
        wrong = access_stage(c, step->op->shared, step, step->role, (Kind){.reads = true}, other);
    return wrong != NULL ? wrong : hand_on(c, step, EMPTY);
}

const char *
columns_take(Columns *c, const RoleStep *step, const TirOp **other)
{
    const TirOp *op = step->op;

    *other = NULL;
    if (op->op == TIR_TMEM_MMA)
        return multiply(c, step, other);
    /* an operand in shared memory is handed over in the same way */
    if (op->shared == NULL || (op->shared->kind != SHARED_TMEM && op->shared->from != ROLE_CONSUMER))
        return NULL;
    if (op->op == TIR_SHARED_READ && !tir_is_handed(op->shared))
        return NULL; /* for a product, which is what reads it */
    switch (op->op) {
    case TIR_TMEM_READ:
    case TIR_SHARED_READ:
        return access_stage(c, op->shared, step, step->role, (Kind){.reads = true}, other);
    case TIR_TMEM_WRITE:
    case TIR_SHARED_WRITE: {
        bool fills = op->shared->from == ROLE_CONSUMER;
        Kind kind = {.fills = fills, .writes = true, .left = fills && op->shared->carried};
        if (fills && tir_multiplies_in_pairs(c->fn->plan))
            c->passes[step->consumer] = tir_is_zero(op->args[0]);
        if (op->shared->over != NULL && op->shared->column == 0 && c->passes[step->consumer])
            access_stage(c, op->shared->over, step, step->role, (Kind){.reads = true}, other);
        return access_stage(c, op->shared, step, step->role, kind, other);
    }
    case TIR_PRODUCER_COMMIT: return commit(c, step, other);
    case TIR_CONSUMER_RELEASE: return release(c, step, other);
    case TIR_PRODUCER_ACQUIRE: wait_for(c, step, EMPTY); return NULL;
    case TIR_CONSUMER_WAIT: wait_for(c, step, FULL); return NULL;
    default: return NULL;
    }
}
