/* check_together.c - part of pass `check-roles`: the roles of a block, or of the two blocks of a
 * pair, run against each other.
 *
 * All roles take steps in turn until none can (check_roles.c explains why one order is enough).
 *
 * Where a pair's first block issues the products of both, its mma role waits for what both blocks
 * have filled or released, and what it releases or hands on goes to both at once; the second
 * block's does nothing, but would have had to go the same way.  Each block has tensor memory of its
 * own, which the products of both write: whether accesses are ordered is looked at in each, by what
 * its own roles and the mma role know of each other.  (A barrier at which both blocks arrive tells
 * more, not less, than what one of them says.)
 */
#include "compiler/passes/check/check_roles.h"

/* The kinds in the order of their numbers. */
static const RoleKind kinds[] = {ROLE_PRODUCER, ROLE_CONSUMER, ROLE_REDUCE, ROLE_CORRECTION,
                                 ROLE_MMA};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* How many roles of a kind there are; several producers are one. */
static uint32_t
count_of(const TirFn *fn, RoleKind kind)
{
    const TirRole *role = tir_role(fn->plan, kind);

    return role == NULL ? 0 : kind == ROLE_PRODUCER ? 1 : role->instances;
}

uint32_t
roles_of_block(const TirFn *fn)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < KINDS; k++)
        n += count_of(fn, kinds[k]);
    return n;
}

uint32_t
role_number(const TirFn *fn, RoleKind kind, uint32_t k)
{
    uint32_t number = count_of(fn, kind) > 1 ? k : 0;

    for (uint32_t j = 0; kinds[j] != kind; j++)
        number += count_of(fn, kinds[j]);
    return number;
}

RoleKind
role_kind(const TirFn *fn, uint32_t own)
{
    uint32_t j = 0;

    for (; own >= count_of(fn, kinds[j]); j++)
        own -= count_of(fn, kinds[j]);
    return kinds[j];
}

uint32_t
role_consumer(const TirFn *fn, uint32_t own)
{
    return own == 0 || tir_serves_all(role_kind(fn, own)) ? 0 : (own - 1) % tir_consumers(fn->plan);
}

const TirOp *
role_next_event(const Together *t, uint32_t role)
{
    const RoleRun *run = t->run[role];

    return run != NULL && t->event[role] < run->events.n ? run->events.at[t->event[role]] : NULL;
}

/* The step of a role whose next event is `op`. */
static RoleStep
step_at(const Together *t, uint32_t role, const TirOp *op)
{
    uint32_t own = role % t->per_block;
    RoleStep step = {.op = op,
                     .kind = t->kind[own],
                     .role = own,
                     .consumer = t->consumer[own],
                     .tile = t->tile[role]};

    if (op != NULL && (t->serves_all[own] || op->op == TIR_TMA_LOAD))
        step.consumer = (uint32_t)op->integer;
    return step;
}

RoleStep
role_step(const Together *t, uint32_t role)
{
    return step_at(t, role, role_next_event(t, role));
}

bool
role_is_done(const Together *t, uint32_t role)
{
    if (t->idle[role])
        return true;
    uint32_t tiles = t->sequence->n +
                     tir_is_dynamic(t->fn->plan); /* one more says that there is none */
    return t->tile[role] == tiles && role_next_event(t, role) == NULL;
}

/* Goes on to the next tile.  With the dynamic scheduler the producer broadcasts tile indices to the
 * other roles of its block, at most TILE_STAGES ahead; they read an index and release its stage at
 * once.  (At `next_tile` they may read it earlier if it is there, without waiting: that only lets
 * the producer go on earlier.)  With cluster launch control a producer's next tile is an answer,
 * which goes to both blocks of a pair, to a question of the first one's. */
static bool
begin_tile(Together *t, uint32_t role)
{
    uint32_t producer = role - role % t->per_block;

    if (role == producer && tir_has_clc(t->fn->plan) && t->tile[role] > t->asked)
        return false;
    for (uint32_t k = 1; tir_is_dynamic(t->fn->plan) && k < t->per_block; k++) {
        uint32_t other = producer + k;
        if (role == producer && !t->idle[other] && t->tile[role] - t->tile[other] >= TILE_STAGES)
            return false;
        if (role == other && t->tile[role] == t->tile[producer])
            return false;
    }
    uint32_t n = t->tile[role]++, block = role / t->per_block;
    t->event[role] = t->product[role] = 0;
    t->run[role] = n < t->sequence->n ? t->sequence->tile[block][n]->role[role % t->per_block]
                                      : NULL;
    return true;
}

static uint32_t
filled(const Together *t, const TirShared *pipeline, uint32_t block, uint32_t part, bool by_both)
{
    uint32_t own = t->counts[pipeline->id][block][part].filled,
             other = t->counts[pipeline->id][1 - block][part].filled;

    return !by_both || own < other ? own : other;
}

static bool
take_copy(Together *t, uint32_t block, const TirOp *op)
{
    const TirShared *pipeline = op->shared;
    uint32_t part = pipeline->each ? (uint32_t)op->integer : 0;
    Counts *of = t->counts[pipeline->id][block];
    bool one = pipeline->each || pipeline->to == ROLE_MMA; /* that reads for all */

    for (uint32_t b = one ? part : 0; b <= (one ? part : t->consumers - 1); b++)
        if (of[part].filled - of[b].released >= pipeline->stages)
            return false;
    of[part].filled++;
    return true;
}

/* Takes one of the events counted by `from` and not yet by `to`; false if there is none. */
static bool
take_one(uint32_t from, uint32_t *to)
{
    bool there = from != *to;

    *to += there;
    return there;
}

/* The next answer comes to where the last one lies: each producer must have read that. */
static bool
take_asking(Together *t, uint32_t role)
{
    if (role > 0)
        return true; /* it expects the answer */
    for (uint32_t producer = 0; producer < t->roles; producer += t->per_block) {
        if (t->tile[producer] <= t->asked)
            return false;
    }
    t->asked++;
    return true;
}

/* A block sends its part when the other one has read the last, and goes on with the other's. */
static bool
take_pair(Together *t, uint32_t block, const TirOp *op)
{
    Counts *own = &t->counts[op->shared->id][block][0],
           *other = &t->counts[op->shared->id][1 - block][0];
    bool send = op->op == TIR_PAIR_SEND;

    if (send ? own->acquired != other->released : own->filled == own->waited)
        return false;
    if (send)
        other->filled = ++own->acquired;
    else
        own->released = ++own->waited;
    return true;
}

static bool
take_event(Together *t, uint32_t role, RoleStep *step)
{
    const TirOp *op = step->op;
    uint32_t block = role / t->per_block, consumer = step->consumer;
    uint32_t id = op->shared == NULL ? 0 : op->shared->id;
    Counts *own = &t->counts[id][block][consumer], *other = &t->counts[id][1 - block][consumer];
    bool both = t->for_both[role];

    switch (op->op) {
    case TIR_TILE_ASK: return take_asking(t, role);
    case TIR_PINGPONG_WAIT: {
        bool mine = t->turn[block] == consumer;
        t->turn[block] = mine ? MOST_CONSUMERS : t->turn[block];
        return mine;
    }
    case TIR_PINGPONG_ARRIVE: t->turn[block] = (consumer + 1) % t->consumers; return true;
    case TIR_CONSUMER_BARRIER: {
        uint32_t *arrived = t->arrived[block], *passed = t->passed[block];
        if (arrived[consumer] == passed[consumer])
            arrived[consumer]++;
        for (uint32_t b = 0; b < t->consumers; b++) {
            if (arrived[b] == passed[consumer])
                return false;
        }
        passed[consumer]++;
        return true;
    }
    case TIR_PAIR_SEND:
    case TIR_PAIR_SUM: return take_pair(t, block, op);
    case TIR_STAGING_WRITE: return take_one(own->released, &own->filled);
    case TIR_TMA_REDUCE_ADD: return take_one(own->filled, &own->waited);
    case TIR_TMA_LOAD: return take_copy(t, block, op);
    case TIR_TMEM_MMA: step->adds = t->run[role]->adds.at[t->product[role]++]; return true;
    case TIR_TMEM_READ:
    case TIR_TMEM_WRITE:
    case TIR_SHARED_READ:
    case TIR_SHARED_WRITE: return true;
    case TIR_PRODUCER_ACQUIRE: {
        bool empty = own->acquired - own->released < op->shared->stages &&
                     (!both || own->acquired - other->released < op->shared->stages);
        own->acquired += empty;
        return empty;
    }
    case TIR_PRODUCER_COMMIT:
        own->filled++;
        other->filled += both;
        return true;
    case TIR_STAGING_EMPTY:
    case TIR_CONSUMER_RELEASE:
        own->released++;
        other->released += both;
        return true;
    default:
        if (op->own) /* of the pipelines for parts of a tile this consumer's */
            return t->counts[id + consumer][block][consumer].waited !=
                   t->counts[id + consumer][block][0].filled;
        return take_one(filled(t, op->shared, block, op->shared->each ? consumer : 0, both),
                        &own->waited);
    }
}

/* Takes a step if one can be taken. */
static bool
take_step(Together *t, uint32_t role)
{
    const TirOp *op = role_next_event(t, role);

    if (t->idle[role])
        return false;
    if (op == NULL)
        return !role_is_done(t, role) && begin_tile(t, role);
    RoleStep step = step_at(t, role, op);
    if (!take_event(t, role, &step))
        return false;
    uint32_t block = t->for_both[role] ? 0 : role / t->per_block,
             last = t->for_both[role] ? PAIR - 1 : block;
    for (; block <= last && t->columns[block] != NULL && t->wrong == NULL; block++)
        t->wrong = columns_take(t->columns[block], &step, &t->other);
    t->wrong_role = role;
    t->event[role] += t->wrong == NULL;
    return t->wrong == NULL;
}

/* The two blocks' mma roles, of which one issues for both, go the same ways. */
static void
check_same_ways(Together *t)
{
    uint32_t own = t->per_block - 1;

    for (uint32_t k = 0; tir_multiplies_in_pairs(t->fn->plan) && k < t->sequence->n; k++) {
        const TileRun *first = t->sequence->tile[0][k], *second = t->sequence->tile[1][k];
        if (first->role[own] == second->role[own] || t->wrong != NULL)
            continue;
        t->wrong = "the blocks of a pair whose products it issues do not have the same iterations";
        t->wrong_role = own;
        t->tile[own] = k + 1;
    }
}

Together *
roles_run_together(Arena *arena, const TirFn *fn, const Sequence *sequence,
                   Columns *const columns[PAIR])
{
    Together *t = arena_new(arena, Together);
    uint32_t pipelines = fn->shared.n + 1;

    t->fn = fn;
    t->sequence = sequence;
    t->consumers = tir_consumers(fn->plan);
    t->per_block = roles_of_block(fn);
    t->pairs = tir_multiplies_in_pairs(fn->plan);
    for (uint32_t own = 0; own < t->per_block; own++) {
        t->kind[own] = role_kind(fn, own);
        t->consumer[own] = role_consumer(fn, own);
        t->serves_all[own] = tir_serves_all(t->kind[own]);
    }
    t->roles = t->per_block * (tir_is_clustered(fn->plan) ? PAIR : 1);
    for (uint32_t role = 0; role < t->roles && t->pairs; role++) {
        t->for_both[role] = t->kind[role % t->per_block] == ROLE_MMA;
        t->idle[role] = t->for_both[role] && role >= t->per_block;
    }
    t->counts = arena_alloc(arena, pipelines * sizeof *t->counts);
    for (uint32_t block = 0; block < PAIR && columns[block] != NULL; block++) {
        t->columns[block] = columns[block];
        columns_begin(columns[block]);
    }
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        Counts held = {.filled = fn->shared.at[k]->held, .waited = fn->shared.at[k]->held};
        for (uint32_t at = 0; at < PAIR * MOST_CONSUMERS; at++) /* as if a tile had gone before */
            t->counts[k][at / MOST_CONSUMERS][at % MOST_CONSUMERS] = held;
    }
    check_same_ways(t);
    for (bool moved = t->wrong == NULL; moved;) {
        moved = false;
        for (uint32_t role = 0; role < t->roles && t->wrong == NULL; role++) {
            while (take_step(t, role))
                moved = true;
        }
        moved = moved && t->wrong == NULL;
    }
    return t;
}
